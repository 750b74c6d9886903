/*
 * Helpers of generated C. The code generator copies into a text only those parts that it uses, so that the text stands alone.
 *
 * Parts are separated by blank lines. A function whose name ends in _f64 stands for all real dtypes: the other versions
 * (_f32, _i64, ...) are derived from its text; so is _c64 from _c128. The launcher reads tg_error and tg_blas from here.
 */

/* Errors: the kernel returns the kind, and leaves the details at the start of the workspace. */
enum {
    TG_OK = 0,
    TG_INDEX_ERROR = 1,
    TG_ZERO_DIVISION_ERROR = 2,
    TG_VALUE_ERROR = 3,
    TG_LINALG_ERROR = 4,
    TG_ASSERTION_ERROR = 5,
    TG_OVERFLOW_ERROR = 6,
    TG_TYPE_ERROR = 7,
    TG_KEY_ERROR = 8,
    TG_RUNTIME_ERROR = 9,
    TG_MEMORY_ERROR = 10,
    TG_FLOATING_POINT_ERROR = 11,
    TG_STOP_ITERATION = 12,
    TG_NOT_IMPLEMENTED_ERROR = 13,
    TG_ARITHMETIC_ERROR = 14,
    TG_UNBOUND_LOCAL_ERROR = 15,
    TG_ATTRIBUTE_ERROR = 16,
    TG_NAME_ERROR = 17,
    TG_EXCEPTION = 18,
    TG_LOOKUP_ERROR = 19
};

typedef struct tg_error {
    int kind;            /* TG_INDEX_ERROR or another one */
    int line, column;    /* place in the Python file, from 1; 0 when unknown */
    const char *file;    /* the Python file, "" when unknown */
    const char *message; /* two %lld in it stand for values[0] and values[1] */
    int64_t values[2];
} tg_error;

/* A store of residuals that grows; zeroed memory is an empty one. */
typedef struct tg_stack {
    void *data;
    int64_t capacity; /* in bytes */
} tg_stack;

/* Routines of BLAS (Fortran conventions, 32-bit integers); any may be NULL. */
typedef struct tg_blas {
    void (*dgemm)(char *transa, char *transb, int *m, int *n, int *k, double *alpha, double *a, int *lda, double *b, int *ldb,
                  double *beta, double *c, int *ldc);
    void (*sgemm)(char *transa, char *transb, int *m, int *n, int *k, float *alpha, float *a, int *lda, float *b, int *ldb,
                  float *beta, float *c, int *ldc);
    void (*zgemm)(char *transa, char *transb, int *m, int *n, int *k, void *alpha, void *a, int *lda, void *b, int *ldb,
                  void *beta, void *c, int *ldc);
    void (*cgemm)(char *transa, char *transb, int *m, int *n, int *k, void *alpha, void *a, int *lda, void *b, int *ldb,
                  void *beta, void *c, int *ldc);
} tg_blas;

static const tg_blas *tg_blas_routines;

static int tg_fail(void *workspace, int kind, const char *file, int line, int column, const char *message, int64_t value,
                   int64_t bound)
{
    tg_error *error = workspace;
    error->kind = kind;
    error->line = line;
    error->column = column;
    error->file = file;
    error->message = message;
    error->values[0] = value;
    error->values[1] = bound;
    return kind;
}

/* Memory at the front of what is left of the workspace. */
static inline int64_t tg_aligned(int64_t size_bytes)
{
    return size_bytes > 0 ? (size_bytes + 63) & ~(int64_t)63 : 0;
}

static inline void *tg_take(char **memory, int64_t size_bytes)
{
    void *taken = *memory;
    *memory += tg_aligned(size_bytes);
    return taken;
}

static inline int64_t tg_capacity(const tg_stack *stack, int64_t size_bytes)
{
    return size_bytes > 0 ? stack->capacity/size_bytes : INT64_MAX;
}

/* Twice the room for elements of a size; NULL when there is no memory. */
static void *tg_grow(tg_stack *stack, int64_t size_bytes, int64_t *capacity)
{
    const int64_t wanted = stack->capacity > 32*size_bytes ? 2*stack->capacity : 64*size_bytes;
    void *data = realloc(stack->data, (size_t)wanted);
    if (data) {
        stack->data = data;
        stack->capacity = wanted;
        *capacity = wanted/size_bytes;
    }
    return data;
}

/* Integer arithmetic as NumPy has it: division rounds down and gives 0 for a divisor of 0, all wraps around. */
static inline int64_t tg_floor_divide_i64(int64_t x, int64_t y)
{
    if (y == 0) return 0; /* where Python would raise, the program checks before */
    if (y == -1) return (int64_t)(0 - (uint64_t)x);
    return x/y - (x%y != 0 && (x < 0) != (y < 0));
}

static inline uint64_t tg_floor_divide_u64(uint64_t x, uint64_t y)
{
    return y ? x/y : 0;
}

static inline int64_t tg_remainder_i64(int64_t x, int64_t y)
{
    if (y == 0 || y == -1) return 0;
    const int64_t rest = x%y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static inline uint64_t tg_remainder_u64(uint64_t x, uint64_t y)
{
    return y ? x%y : 0;
}

static inline int64_t tg_fmod_i64(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x%y;
}

static inline uint64_t tg_fmod_u64(uint64_t x, uint64_t y)
{
    return y ? x%y : 0;
}

static inline int64_t tg_absolute_i64(int64_t x)
{
    return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
}

static inline uint64_t tg_absolute_u64(uint64_t x)
{
    return x;
}

static inline int64_t tg_sign_i64(int64_t x)
{
    return (x > 0) - (x < 0);
}

static inline uint64_t tg_sign_u64(uint64_t x)
{
    return x > 0;
}

static inline int64_t tg_maximum_i64(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static inline uint64_t tg_maximum_u64(uint64_t x, uint64_t y)
{
    return x > y ? x : y;
}

static inline int64_t tg_minimum_i64(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static inline uint64_t tg_minimum_u64(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

static inline uint64_t tg_power_u64(uint64_t x, uint64_t y)
{
    uint64_t result = 1;
    for (; y; y >>= 1) {
        if (y & 1) result *= x;
        x *= x;
    }
    return result;
}

static inline int64_t tg_power_i64(int64_t x, int64_t y)
{
    return y < 0 ? 1 : (int64_t)tg_power_u64((uint64_t)x, (uint64_t)y);
}

static inline int64_t tg_left_shift_i64(int64_t x, int64_t y)
{
    return y >= 0 && y < 64 ? (int64_t)((uint64_t)x << y) : 0;
}

static inline uint64_t tg_left_shift_u64(uint64_t x, uint64_t y)
{
    return y < 64 ? x << y : 0;
}

static inline int64_t tg_right_shift_i64(int64_t x, int64_t y)
{
    return y >= 0 && y < 64 ? x >> y : x < 0 ? -1 : 0;
}

static inline uint64_t tg_right_shift_u64(uint64_t x, uint64_t y)
{
    return y < 64 ? x >> y : 0;
}

/* Complex numbers as NumPy computes with them. A number is made of its parts, since x + I*y has a NaN where y is infinite;
 * products and quotients are written out, since those of C turn a NaN into infinity where they can. Quotients go by the
 * ratio of the parts of y (Smith 1962). */
static inline double complex tg_complex(double real, double imag)
{
    const union {
        double parts[2];
        double complex number;
    } made = {{real, imag}};
    return made.number;
}

static inline double complex tg_multiply_c128(double complex x, double complex y)
{
    const double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);
    return tg_complex(a*c - b*d, a*d + b*c);
}

static inline double complex tg_square_c128(double complex x)
{
    return tg_multiply_c128(x, x);
}

static inline double complex tg_divide_c128(double complex x, double complex y)
{
    const double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);
    const bool first = fabs(c) >= fabs(d), none = first && c == 0.0;
    const double large = first ? c : d, small = first ? d : c, p = first ? a : b, q = first ? b : a;
    const double ratio = small/large, scale = 1.0/(large + small*ratio);
    const double real = (p + q*ratio)*scale, imag = (first ? q - p*ratio : p*ratio - q)*scale;
    return tg_complex(none ? a*INFINITY : real, none ? b*INFINITY : imag);
}

static inline double tg_absolute_c128(double complex x)
{
    return hypot(creal(x), cimag(x));
}

/* Small whole exponents by products; 0 to a power is 1, 0 or NaN. */
static double complex tg_power_c128(double complex x, double complex y)
{
    const double exponent = creal(y), size = fabs(exponent);
    if (y == 0.0) return 1.0;
    if (x == 0.0) return exponent > 0.0 ? tg_complex(0.0, 0.0) : tg_complex(NAN, NAN);
    if (cimag(y) != 0.0 || !(size < 100.0) || floor(size) < size) return cpow(x, y);
    double complex factor = x;
    int left = (int)size;
    for (; !(left & 1); left >>= 1) factor = tg_square_c128(factor);
    double complex result = factor;
    while (left >>= 1) {
        factor = tg_square_c128(factor);
        if (left & 1) result = tg_multiply_c128(result, factor);
    }
    return exponent > 0.0 ? result : tg_divide_c128(1.0, result);
}

/* Near 0 without cancellation: cos y - 1 is -2 sin(y/2)^2. */
static inline double complex tg_expm1_c128(double complex x)
{
    const double a = creal(x), b = cimag(x), half = sin(b/2.0);
    return tg_complex(expm1(a)*cos(b) - 2.0*half*half, exp(a)*sin(b));
}

static inline double complex tg_log1p_c128(double complex x)
{
    const double a = creal(x) + 1.0, b = cimag(x);
    return tg_complex(log(hypot(a, b)), atan2(b, a));
}

static inline bool tg_isnan_c128(double complex x)
{
    return isnan(creal(x)) || isnan(cimag(x));
}

static inline bool tg_isinf_c128(double complex x)
{
    return isinf(creal(x)) || isinf(cimag(x));
}

static inline bool tg_isfinite_c128(double complex x)
{
    return isfinite(creal(x)) && isfinite(cimag(x));
}

/* c (m x n) = a (m x k) b (k x n), row-major; transposed operands are stored as k x m and n x k. */
static void tg_matmul_f64(int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                          double *restrict c)
{
    if (tg_blas_routines && tg_blas_routines->dgemm && m*n*k > 8000) {
        int rows = (int)m, columns = (int)n, inner = (int)k, lda = transpose_a ? rows : inner;
        int ldb = transpose_b ? inner : columns;
        double one = 1.0, none = 0.0;
        tg_blas_routines->dgemm(transpose_b ? "T" : "N", transpose_a ? "T" : "N", &columns, &rows, &inner, &one, (double *)b,
                                &ldb, (double *)a, &lda, &none, c, &columns);
        return;
    }
    if (transpose_b) {
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n; j++) {
                double sum = 0.0;
                if (transpose_a) {
                    for (int64_t l = 0; l < k; l++) sum += a[m*l + i]*b[k*j + l];
                } else {
#pragma omp simd reduction(+ : sum)
                    for (int64_t l = 0; l < k; l++) sum += a[k*i + l]*b[k*j + l];
                }
                c[n*i + j] = sum;
            }
        }
        return;
    }
    for (int64_t i = 0; i < m*n; i++) c[i] = 0.0;
    for (int64_t start = 0; start < k; start += 64) {
        int64_t stop = start + 64 < k ? start + 64 : k;
        for (int64_t i = 0; i < m; i++) {
            for (int64_t l = start; l < stop; l++) {
                const double factor = transpose_a ? a[m*l + i] : a[k*i + l];
#pragma omp simd
                for (int64_t j = 0; j < n; j++) c[n*i + j] += factor*b[n*l + j];
            }
        }
    }
}

/* Factor the n x n matrix a in place into L (unit diagonal) and U with row swaps; returns the sign of the permutation, and 0
 * when a pivot is exactly zero. */
static int tg_lu_f64(double *restrict a, int64_t *restrict pivots, int64_t n)
{
    int sign = 1;
    int singular = 0;
    for (int64_t j = 0; j < n; j++) {
        int64_t p = j;
        for (int64_t i = j + 1; i < n; i++) {
            if (fabs(a[n*i + j]) > fabs(a[n*p + j])) p = i;
        }
        pivots[j] = p;
        if (p != j) {
            sign = -sign;
            for (int64_t l = 0; l < n; l++) {
                const double swapped = a[n*j + l];
                a[n*j + l] = a[n*p + l];
                a[n*p + l] = swapped;
            }
        }
        if (a[n*j + j] == 0.0) {
            singular = 1;
            continue;
        }
        for (int64_t i = j + 1; i < n; i++) {
            const double factor = a[n*i + j]/a[n*j + j];
            a[n*i + j] = factor;
#pragma omp simd
            for (int64_t l = j + 1; l < n; l++) a[n*i + l] -= factor*a[n*j + l];
        }
    }
    return singular ? 0 : sign;
}

/* Solve a x = b in place of b (n x k), a factored by tg_lu. */
static void tg_lu_solve_f64(const double *restrict a, const int64_t *restrict pivots, double *restrict b, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < n; i++) {
        if (pivots[i] != i) {
            for (int64_t l = 0; l < k; l++) {
                const double swapped = b[k*i + l];
                b[k*i + l] = b[k*pivots[i] + l];
                b[k*pivots[i] + l] = swapped;
            }
        }
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
#pragma omp simd
            for (int64_t l = 0; l < k; l++) b[k*i + l] -= a[n*i + j]*b[k*j + l];
        }
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t j = i + 1; j < n; j++) {
#pragma omp simd
            for (int64_t l = 0; l < k; l++) b[k*i + l] -= a[n*i + j]*b[k*j + l];
        }
        for (int64_t l = 0; l < k; l++) b[k*i + l] /= a[n*i + i];
    }
}

/* Solve a x = b, or a' x = b, in place of b (n x k) for triangular a; returns 0 when a diagonal element is zero. */
static int tg_triangular_solve_f64(const double *restrict a, double *restrict b, int64_t n, int64_t k, int lower, int transpose,
                                   int unit_diagonal)
{
    const int forward = lower != transpose;
    for (int64_t step = 0; step < n; step++) {
        const int64_t i = forward ? step : n - 1 - step;
        for (int64_t other = 0; other < step; other++) {
            const int64_t j = forward ? other : n - 1 - other;
            const double factor = transpose ? a[n*j + i] : a[n*i + j];
#pragma omp simd
            for (int64_t l = 0; l < k; l++) b[k*i + l] -= factor*b[k*j + l];
        }
        if (!unit_diagonal) {
            if (a[n*i + i] == 0.0) return 0;
            for (int64_t l = 0; l < k; l++) b[k*i + l] /= a[n*i + i];
        }
    }
    return 1;
}

/* Cholesky factor (lower) of the n x n matrix a, of which the lower triangle is read; returns 0 when not positive definite.
 * NaN is no reason to fail, as in OpenBLAS. */
static int tg_cholesky_f64(const double *restrict a, double *restrict factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = a[n*i + j];
            for (int64_t l = 0; l < j; l++) sum -= factor[n*i + l]*factor[n*j + l];
            if (j < i) {
                factor[n*i + j] = sum/factor[n*j + j];
            } else {
                if (sum <= 0.0) return 0;
                factor[n*i + i] = sqrt(sum);
            }
        }
        for (int64_t j = i + 1; j < n; j++) factor[n*i + j] = 0.0;
    }
    return 1;
}

static int tg_cholesky_c128(const double complex *restrict a, double complex *restrict factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double complex sum = a[n*i + j];
            for (int64_t l = 0; l < j; l++) sum -= tg_multiply_c128(factor[n*i + l], conj(factor[n*j + l]));
            if (j < i) {
                factor[n*i + j] = sum/creal(factor[n*j + j]);
            } else {
                if (creal(sum) <= 0.0) return 0;
                factor[n*i + i] = sqrt(creal(sum));
            }
        }
        for (int64_t j = i + 1; j < n; j++) factor[n*i + j] = 0.0;
    }
    return 1;
}

/* Reflect x (n elements) to a multiple of the first unit vector: x becomes v with v[0] = 1, such that 1 - factor v v' does
 * so; returns the multiple. */
static double tg_reflect_f64(double *restrict x, int64_t n, double *restrict factor)
{
    double rest = 0.0, squares = 0.0;
    for (int64_t i = 1; i < n; i++) {
        if (!(fabs(x[i]) <= rest)) rest = fabs(x[i]);
    }
    const double scale = fabs(x[0]) > rest ? fabs(x[0]) : rest, only = x[0], first = only/scale;
    x[0] = 1.0;
    *factor = 0.0;
    if (rest == 0.0) return only;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 1; i < n; i++) {
        x[i] /= scale;
        squares += x[i]*x[i];
    }
    const double target = -copysign(sqrt(first*first + squares), first);
    *factor = (target - first)/target;
#pragma omp simd
    for (int64_t i = 1; i < n; i++) x[i] /= first - target;
    return target*scale;
}

static inline double tg_inner_f64(const double *restrict x, const double *restrict y, int64_t n)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i]*y[i];
    return sum;
}

static inline void tg_add_multiple_f64(double *restrict y, double factor, const double *restrict x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] += factor*x[i];
}

/* Replace rows x and y by cosine x - sine y and sine x + cosine y. */
static inline void tg_rotate_f64(double *restrict x, double *restrict y, int64_t n, double cosine, double sine)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const double turned = cosine*x[i] - sine*y[i];
        y[i] = sine*x[i] + cosine*y[i];
        x[i] = turned;
    }
}

/* Q (m x n) and upper triangle R (n x n) of a (m x n), m >= n, by reflections; columns are the rows of scratch, which has
 * room for m*n + m + n numbers. */
static void tg_qr_f64(const double *restrict a, double *restrict q, double *restrict r, int64_t m, int64_t n,
                      double *restrict scratch)
{
    double *const factors = scratch + m*n, *const column = factors + n;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) scratch[m*j + i] = a[n*i + j];
    }
    for (int64_t k = 0; k < n; k++) {
        double *const v = scratch + m*k + k;
        r[n*k + k] = tg_reflect_f64(v, m - k, &factors[k]);
        for (int64_t j = 0; j < k; j++) {
            r[n*k + j] = 0.0;
            r[n*j + k] = scratch[m*k + j];
        }
        for (int64_t j = k + 1; j < n; j++) {
            double *const other = scratch + m*j + k;
            tg_add_multiple_f64(other, -factors[k]*tg_inner_f64(other, v, m - k), v, m - k);
        }
    }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) column[i] = i == j ? 1.0 : 0.0;
        for (int64_t k = j; k >= 0; k--) {
            const double *const v = scratch + m*k + k;
            tg_add_multiple_f64(column + k, -factors[k]*tg_inner_f64(column + k, v, m - k), v, m - k);
        }
        for (int64_t i = 0; i < m; i++) q[n*i + j] = column[i];
    }
}

/* Eigenvalues w, ascending, and eigenvectors, the columns of v, of the symmetric n x n matrix with the lower or upper triangle
 * of a: reflections to a tridiagonal matrix, then QL steps with implicit shifts (Wilkinson and Reinsch, 1971). Scratch has
 * room for n*(2*n + 3) numbers. Returns 0 when the steps do not converge. */
static int tg_eigh_f64(const double *restrict a, double *restrict w, double *restrict v, int64_t n, int lower,
                       double *restrict scratch)
{
    double *const restrict s = scratch, *const restrict z = s + n*n, *const restrict off = z + n*n;
    double *const restrict factors = off + n, *const restrict p = factors + n;
    const double resolution = nextafter(1.0, 2.0) - 1.0;
    double scale = 0.0;
    int finite = 1;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            s[n*i + j] = (lower ? j > i : j < i) ? a[n*j + i] : a[n*i + j];
            z[n*i + j] = i == j ? 1.0 : 0.0;
            if (fabs(s[n*i + j]) > scale) scale = fabs(s[n*i + j]);
            finite &= fabs(s[n*i + j]) < INFINITY;
        }
        off[i] = 0.0;
    }
    if (!finite) {
        for (int64_t i = 0; i < n; i++) w[i] = NAN;
        for (int64_t i = 0; i < n*n; i++) v[i] = NAN;
        return 1;
    }
    if (scale == 0.0) scale = 1.0;
    for (int64_t i = 0; i < n*n; i++) s[i] /= scale;
    for (int64_t k = 0; k < n - 1; k++) {
        const int64_t rest = n - k - 1;
        double *const x = s + n*k + k + 1;
        off[k] = tg_reflect_f64(x, rest, &factors[k]);
        for (int64_t i = 0; i < rest; i++) p[i] = factors[k]*tg_inner_f64(s + n*(k + 1 + i) + k + 1, x, rest);
        tg_add_multiple_f64(p, -0.5*factors[k]*tg_inner_f64(p, x, rest), x, rest);
        for (int64_t i = 0; i < rest; i++) {
            double *const row = s + n*(k + 1 + i) + k + 1;
            tg_add_multiple_f64(row, -x[i], p, rest);
            tg_add_multiple_f64(row, -p[i], x, rest);
        }
    }
    for (int64_t i = 0; i < n; i++) w[i] = s[n*i + i];
    for (int64_t k = n - 2; k >= 0; k--) {
        const double *const x = s + n*k + k + 1;
        for (int64_t i = k + 1; i < n; i++) {
            double *const row = z + n*i + k + 1;
            tg_add_multiple_f64(row, -factors[k]*tg_inner_f64(row, x, n - k - 1), x, n - k - 1);
        }
    }
    double greatest = 0.0;
    for (int64_t l = 0; l < n; l++) {
        if (fabs(w[l]) + fabs(off[l]) > greatest) greatest = fabs(w[l]) + fabs(off[l]);
        for (int step = 0;; step++) {
            int64_t m = l;
            while (m < n - 1 && fabs(off[m]) > resolution*greatest) m++;
            if (m == l) break;
            if (step == 60) return 0;
            const double half = 0.5*(w[l + 1] - w[l])/off[l], root = hypot(half, 1.0);
            double g = w[m] - w[l] + off[l]/(half > 0.0 ? half + root : half - root);
            double sine = 1.0, cosine = 1.0, moved = 0.0;
            int64_t i = m - 1;
            for (; i >= l; i--) {
                const double f = sine*off[i], b = cosine*off[i], length = hypot(f, g);
                off[i + 1] = length;
                if (length == 0.0) break;
                sine = f/length;
                cosine = g/length;
                const double shifted = w[i + 1] - moved, change = (w[i] - shifted)*sine + 2.0*cosine*b;
                moved = sine*change;
                w[i + 1] = shifted + moved;
                g = cosine*change - b;
                tg_rotate_f64(z + n*i, z + n*(i + 1), n, cosine, sine);
            }
            if (i >= l) {
                w[i + 1] -= moved;
            } else {
                w[l] -= moved;
                off[l] = g;
            }
            off[m] = 0.0;
        }
    }
    for (int64_t j = 0; j < n; j++) {
        int64_t least = j;
        for (int64_t i = j + 1; i < n; i++) {
            if (w[i] < w[least]) least = i;
        }
        const double value = w[least];
        w[least] = w[j];
        w[j] = value*scale;
        for (int64_t i = 0; i < n; i++) {
            v[n*i + j] = z[n*least + i];
            z[n*least + i] = z[n*j + i];
        }
    }
    return 1;
}

/* Make rows first, ..., last - 1 of x (n elements each) that are orthogonal to all rows before them and of length 1. */
static void tg_complete_f64(double *restrict x, int64_t first, int64_t last, int64_t n)
{
    int64_t candidate = 0;
    for (int64_t k = first; k < last; k++) {
        double *const row = x + n*k, squares = 0.0;
        while (candidate < n) {
            for (int64_t i = 0; i < n; i++) row[i] = i == candidate ? 1.0 : 0.0;
            for (int again = 0; again < 2; again++) {
                for (int64_t j = 0; j < k; j++) {
                    const double *const other = x + n*j;
                    tg_add_multiple_f64(row, -tg_inner_f64(row, other, n), other, n);
                }
            }
            squares = tg_inner_f64(row, row, n);
            candidate++;
            if (2.0*squares*(double)n > 1.0) break;
        }
        for (int64_t i = 0; i < n; i++) row[i] /= sqrt(squares);
    }
}

/* Rotate the k rows of x (n >= k elements each) until they are orthogonal (one-sided Jacobi, Hestenes, 1958), then sort them by
 * length: x becomes unit rows, s the lengths, and the x before is z' diag(s) x with orthogonal z (k x k). Rows of no
 * length to speak of are replaced. Returns 0 when the rotations do not converge. */
static int tg_jacobi_f64(double *restrict x, double *restrict s, double *restrict z, int64_t k, int64_t n)
{
    const double resolution = nextafter(1.0, 2.0) - 1.0, limit = sqrt((double)n)*resolution, least = resolution*resolution;
    double scale = 0.0;
    for (int64_t i = 0; i < k*n; i++) {
        if (!(fabs(x[i]) < INFINITY)) return 0;
        if (fabs(x[i]) > scale) scale = fabs(x[i]);
    }
    if (scale == 0.0) scale = 1.0;
    for (int64_t i = 0; i < k*n; i++) x[i] /= scale;
    for (int64_t i = 0; i < k*k; i++) z[i] = i % (k + 1) ? 0.0 : 1.0;
    for (int sweep = 0, turned = 1; turned; sweep++) {
        if (sweep == 60) return 0;
        turned = 0;
        for (int64_t i = 0; i < k - 1; i++) {
            for (int64_t j = i + 1; j < k; j++) {
                double *const first = x + n*i, *const second = x + n*j;
                const double a = tg_inner_f64(first, first, n), b = tg_inner_f64(second, second, n);
                const double product = tg_inner_f64(first, second, n);
                if (fabs(product) <= limit*sqrt(a)*sqrt(b) || sqrt(a) <= least || sqrt(b) <= least) continue;
                const double half = 0.5*(b - a)/product, root = hypot(half, 1.0);
                const double tangent = half > 0.0 ? 1.0/(half + root) : 1.0/(half - root);
                turned = 1;
                const double cosine = 1.0/sqrt(tangent*tangent + 1.0);
                tg_rotate_f64(first, second, n, cosine, cosine*tangent);
                tg_rotate_f64(z + k*i, z + k*j, k, cosine, cosine*tangent);
            }
        }
    }
    for (int64_t i = 0; i < k; i++) s[i] = sqrt(tg_inner_f64(x + n*i, x + n*i, n));
    int64_t rank = k;
    for (int64_t i = 0; i < k; i++) {
        int64_t most = i;
        for (int64_t j = i + 1; j < k; j++) {
            if (s[j] > s[most]) most = j;
        }
        const double length = s[most];
        s[most] = s[i];
        s[i] = length*scale;
        if (most != i) {
            tg_rotate_f64(x + n*i, x + n*most, n, 0.0, 1.0);
            tg_rotate_f64(z + k*i, z + k*most, k, 0.0, 1.0);
        }
        if (length > least) {
            for (int64_t j = 0; j < n; j++) x[n*i + j] /= length;
        } else if (i < rank) {
            rank = i;
        }
    }
    tg_complete_f64(x, rank, k, n);
    return 1;
}

/* Rows of the smaller side of a (m x n) as tg_jacobi takes them: a itself, or its transpose. */
static void tg_rows_f64(const double *restrict a, double *restrict rows, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) rows[m < n ? n*i + j : m*j + i] = a[n*i + j];
    }
}

/* Singular values s, descending, and vectors of a (m x n): columns of u and rows of vh, all of them when full. Scratch has room
 * for the greater of these two and the square of the smaller size. Returns 0 when the rotations do not converge. */
static int tg_svd_f64(const double *restrict a, double *restrict u, double *restrict s, double *restrict vh, int64_t m,
                      int64_t n, int full, double *restrict scratch)
{
    const int64_t k = m < n ? m : n, most = m < n ? n : m, count = full ? most : k;
    double *const x = scratch, *const z = scratch + count*most;
    tg_rows_f64(a, x, m, n);
    if (!tg_jacobi_f64(x, s, z, k, most)) return 0;
    tg_complete_f64(x, k, count, most);
    const double *const left = m < n ? z : x, *const right = m < n ? x : z;
    const int64_t columns = m < n ? k : count, rows = m < n ? count : k;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < columns; j++) u[columns*i + j] = left[m*j + i];
    }
    memcpy(vh, right, (size_t)(rows*n)*sizeof(double));
    return 1;
}

/* Pseudoinverse p (n x m) of a (m x n). Scratch has room for m*n numbers, the square of the smaller size and once more that
 * size. Returns 0 when the rotations do not converge. */
static int tg_pinv_f64(const double *restrict a, double cutoff, double *restrict p, int64_t m, int64_t n,
                       double *restrict scratch)
{
    const int64_t k = m < n ? m : n, most = m < n ? n : m;
    double *const x = scratch, *const z = x + m*n, *const s = z + k*k;
    tg_rows_f64(a, x, m, n);
    if (!tg_jacobi_f64(x, s, z, k, most)) return 0;
    const double *const left = m < n ? z : x, *const right = m < n ? x : z;
    for (int64_t i = 0; i < m*n; i++) p[i] = 0.0;
    for (int64_t j = 0; j < k; j++) {
        if (!(s[j] > cutoff*s[0])) continue;
        for (int64_t i = 0; i < n; i++) tg_add_multiple_f64(p + m*i, right[n*j + i]/s[j], left + m*j, m);
    }
    return 1;
}

/* Stable merge sort of the positions 0..n-1 by x[stride*position], NaN last. */
static void tg_argsort_f64(const double *restrict x, int64_t stride, int64_t n, int64_t *restrict order, int64_t order_stride,
                           int64_t *restrict scratch)
{
    int64_t *from = scratch, *to = scratch + n;
    for (int64_t i = 0; i < n; i++) from[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t start = 0; start < n; start += 2*width) {
            int64_t left = start, middle = start + width < n ? start + width : n, right = middle;
            const int64_t stop = start + 2*width < n ? start + 2*width : n;
            for (int64_t i = start; i < stop; i++) {
                int take_right = left >= middle;
                if (!take_right && right < stop) {
                    const double a = x[stride*from[left]], b = x[stride*from[right]];
                    take_right = b < a || (isnan(a) && !isnan(b));
                }
                to[i] = take_right ? from[right++] : from[left++];
            }
        }
        int64_t *swapped = from;
        from = to;
        to = swapped;
    }
    for (int64_t i = 0; i < n; i++) order[order_stride*i] = from[i];
}

/* Elementwise functions that libm lacks. Their rules are NumPy's, NaN, infinities and signed zeros included. */
static inline double tg_sign_f64(double x)
{
    return x != x ? x : (double)((x > 0) - (x < 0));
}

static inline double tg_maximum_f64(double x, double y)
{
    return x > y || x != x ? x : y;
}

static inline double tg_minimum_f64(double x, double y)
{
    return x < y || x != x ? x : y;
}

static inline double tg_floor_divide_f64(double x, double y)
{
    if (y == 0) return x/y;
    const double rest = fmod(x, y);
    double quotient = (x - rest)/y;
    if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
    if (quotient == 0) return copysign(0.0, x/y);
    const double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static inline double tg_remainder_f64(double x, double y)
{
    const double rest = fmod(x, y);
    if (rest == 0) return copysign(0.0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}

#pragma omp declare reduction(tg_max_f64 : double : omp_out = tg_maximum_f64(omp_out, omp_in)) initializer(omp_priv = -INFINITY)

#pragma omp declare reduction(tg_min_f64 : double : omp_out = tg_minimum_f64(omp_out, omp_in)) initializer(omp_priv = INFINITY)

static inline double tg_power_f64(double x, int64_t y)
{
    double result = 1.0;
    for (uint64_t n = y < 0 ? 0 - (uint64_t)y : (uint64_t)y; n; n >>= 1) {
        if (n & 1) result *= x;
        x *= x;
    }
    return y < 0 ? 1.0/result : result;
}

static inline double tg_logaddexp_f64(double x, double y)
{
    if (x == y) return x + log(2.0);
    const double difference = x - y;
    if (difference > 0) return x + log1p(exp(-difference));
    return difference <= 0 ? y + log1p(exp(difference)) : difference;
}

/* Where the normal distribution function is q + 1/2; `share` is that of the nearer tail. Source: M. J. Wichura, Algorithm
 * AS 241: the percentage points of the normal distribution (1988), PPND16. */
static double tg_normal_quantile_f64(double q, double share)
{
    static const double middle[2][8] = {
        {2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
         1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080},
        {5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
         5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0}};
    static const double tail[2][8] = {
        {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
         3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734},
        {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
         6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0}};
    static const double far[2][8] = {
        {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
         2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720},
        {2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
         1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0}};
    const double root = sqrt(-log(share));
    const int is_middle = fabs(q) <= 0.425;
    const double (*c)[8] = is_middle ? middle : root <= 5 ? tail : far;
    const double r = is_middle ? 0.180625 - q*q : root - (root <= 5 ? 1.6 : 5);
    double upper = 0, lower = 0;
    for (int k = 0; k < 8; k++) {
        upper = upper*r + c[0][k];
        lower = lower*r + c[1][k];
    }
    return (is_middle ? q : copysign(1.0, q))*upper/lower;
}

/* Inverse of erf. */
static double tg_erfinv_f64(double x)
{
    if (!(fabs(x) < 1)) return fabs(x) == 1 ? copysign(INFINITY, x) : NAN;
    return 0.70710678118654752440*tg_normal_quantile_f64(0.5*x, 0.5 - fabs(0.5*x));
}

/* Inverse of the normal distribution function. */
static double tg_ndtri_f64(double p)
{
    if (!(p > 0 && p < 1)) return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    return tg_normal_quantile_f64(p - 0.5, p < 0.5 ? p : 1 - p);
}

static inline float tg_ndtri_f32(float p)
{
    return (float)tg_ndtri_f64(p);
}

static inline float tg_erfinv_f32(float x)
{
    return (float)tg_erfinv_f64(x);
}

/* Derivative of lgamma. Source: Abramowitz and Stegun, 6.3.5 (recurrence), 6.3.7 (reflection), 6.3.18 (series). */
static double tg_digamma_f64(double x)
{
    const double pi = 3.14159265358979323846;
    if (x <= 0) {
        if (floor(x) == x) return x == 0 ? copysign(INFINITY, -x) : NAN;
        return tg_digamma_f64(1 - x) - pi/tan(pi*(x - rint(x)));
    }
    double sum = 0;
    for (; x < 10; x += 1) sum -= 1/x;
    const double square = 1/(x*x);
    const double series = 1.0/12 - square*(1.0/120 - square*(1.0/252 - square*(1.0/240 - square*(1.0/132 - square*691/32760))));
    return sum + log(x) - 0.5/x - square*series;
}

/* Derivative of digamma of an order >= 1. Source: Abramowitz and Stegun, 6.4.6 (recurrence), 6.4.7 (reflection), 6.4.11
 * (series). The derivatives of the cotangent are polynomials in it, whose coefficients are `cot`. */
static double tg_polygamma_f64(int64_t order, double x)
{
    static const double bernoulli[] = {1.0/6, -1.0/30, 1.0/42, -1.0/30, 5.0/66, -691.0/2730, 7.0/6, -3617.0/510};
    const double pi = 3.14159265358979323846;
    const double sign = order%2 ? 1 : -1;
    if (x <= 0) {
        if (floor(x) == x) return order%2 ? INFINITY : NAN;
        double cot[32] = {0, 1}, value = 0;
        const double c = 1/tan(pi*(x - rint(x)));
        if (order > 30) return NAN;
        for (int64_t k = 1; k <= order; k++) {
            double next[32] = {0};
            for (int64_t i = 1; i <= k; i++) {
                next[i - 1] -= (double)i*cot[i];
                next[i + 1] -= (double)i*cot[i];
            }
            for (int64_t i = 0; i < 32; i++) cot[i] = next[i];
        }
        for (int64_t i = order + 1; i >= 0; i--) value = value*c + cot[i];
        return -sign*tg_polygamma_f64(order, 1 - x) - pow(pi, (double)(order + 1))*value;
    }
    double sum = 0, factorial = 1;
    for (int64_t k = 2; k < order; k++) factorial *= (double)k;
    for (; x < 14 + (double)order; x += 1) sum += pow(x, -(double)(order + 1));
    const double power = pow(x, -(double)order);
    sum = (double)order*factorial*(sum + 0.5*power/x) + factorial*power;
    double ratio = factorial*(double)order*(double)(order + 1)/2, scale = power;
    for (int64_t k = 1; k <= 8; k++) {
        scale /= x*x;
        sum += bernoulli[k - 1]*ratio*scale;
        ratio *= (double)((2*k + order)*(2*k + order + 1))/(double)((2*k + 1)*(2*k + 2));
    }
    return sign*sum;
}

static inline float tg_digamma_f32(float x)
{
    return (float)tg_digamma_f64(x);
}

static inline float tg_polygamma_f32(int64_t order, float x)
{
    return (float)tg_polygamma_f64(order, x);
}

/* Modified Bessel function of the first kind, times exp(-|x|) where scaled. Source: Abramowitz and Stegun, 9.6.10
 * (series), 9.7.1 (asymptotic series). */
static double tg_bessel_i_of_f64(int64_t order, double x, int scaled)
{
    const double pi = 3.14159265358979323846;
    const double size = fabs(x), n = (double)order;
    double term = 1, sum = 1;
    if (size <= 30) {
        for (int64_t k = 1; k <= order; k++) term *= size/(double)(2*k);
        sum = term;
        for (int64_t k = 1; k <= 60; k++) sum += term *= size*size/(double)(4*k*(k + order));
        if (scaled) sum *= exp(-size);
    } else {
        for (int64_t k = 1; k <= 30; k++) sum += term *= ((double)((2*k - 1)*(2*k - 1)) - 4*n*n)/((double)(8*k)*size);
        sum *= (scaled ? 1 : exp(size))/sqrt(2*pi*size);
    }
    return order%2 && x < 0 ? -sum : sum;
}

static double tg_bessel_i_f64(int64_t order, double x)
{
    return tg_bessel_i_of_f64(order, x, 0);
}

static inline float tg_bessel_i_f32(int64_t order, float x)
{
    return (float)tg_bessel_i_of_f64(order, x, 0);
}

static double tg_bessel_ie_f64(int64_t order, double x)
{
    return tg_bessel_i_of_f64(order, x, 1);
}

static inline float tg_bessel_ie_f32(int64_t order, float x)
{
    return (float)tg_bessel_i_of_f64(order, x, 1);
}

/* Bessel function of the first kind. Source: Abramowitz and Stegun, 9.1.10 (series), 9.1.21 (integral, by the trapezoidal
 * rule), 9.2.5 (asymptotic series). */
static double tg_bessel_j_f64(int64_t order, double x)
{
    const double pi = 3.14159265358979323846;
    const double size = fabs(x), n = (double)order, border = fmax(25, 0.5*n*n);
    double sum = 1;
    if (isnan(x)) return x;
    if (isinf(x)) return 0;
    if (size*size < 4*(n + 1)) {
        double term = 1;
        for (int64_t k = 1; k <= order; k++) term *= size/(double)(2*k);
        sum = term;
        for (int64_t k = 1; k <= 30; k++) sum += term *= -size*size/(double)(4*k*(k + order));
    } else if (size <= border) {
        const int64_t count = (int64_t)border + order + 60;
        sum = order%2 ? 0 : 1;
        for (int64_t k = 1; k < count; k++) {
            const double angle = (double)k*(pi/(double)count);
            sum += cos(n*angle - size*sin(angle));
        }
        sum /= (double)count;
    } else {
        double term = 1, even = 1, odd = 0;
        for (int64_t k = 1; k <= 30; k++) {
            term *= (4*n*n - (double)((2*k - 1)*(2*k - 1)))/((double)(8*k)*size);
            if (k%2) odd += k/2%2 ? -term : term;
            else even += k/2%2 ? -term : term;
        }
        const double phase = size - (n/2 + 0.25)*pi;
        sum = sqrt(2/(pi*size))*(even*cos(phase) - odd*sin(phase));
    }
    return order%2 && x < 0 ? -sum : sum;
}

static inline float tg_bessel_j_f32(int64_t order, float x)
{
    return (float)tg_bessel_j_f64(order, x);
}

/* Modified Bessel function of the second kind, times exp(x) where scaled. Source: Abramowitz and Stegun, 9.6.24 (integral
 * of orders 0 and 1, by the trapezoidal rule), 9.6.26 (recurrence). */
static double tg_bessel_k_of_f64(int64_t order, double x, int scaled)
{
    if (!(x > 0 && x < INFINITY)) return x == 0 ? INFINITY : x > 0 ? 0 : NAN;
    const double step = acosh(1 + 60/x)/80;
    double below = 0.5*step, value = 0.5*step;
    for (int k = 1; k <= 80; k++) {
        const double root = sinh(0.5*k*step), weight = step*exp(-2*x*root*root);
        below += weight;
        value += weight*cosh(k*step);
    }
    for (int64_t n = 1; n < order; n++) {
        const double next = below + 2*(double)n/x*value;
        below = value;
        value = next;
    }
    return (order ? value : below)*(scaled ? 1 : exp(-x));
}

static double tg_bessel_k_f64(int64_t order, double x)
{
    return tg_bessel_k_of_f64(order, x, 0);
}

static inline float tg_bessel_k_f32(int64_t order, float x)
{
    return (float)tg_bessel_k_of_f64(order, x, 0);
}

static double tg_bessel_ke_f64(int64_t order, double x)
{
    return tg_bessel_k_of_f64(order, x, 1);
}

static inline float tg_bessel_ke_f32(int64_t order, float x)
{
    return (float)tg_bessel_k_of_f64(order, x, 1);
}

/* exp(x^2) (1 - erf(x)). Source: Sun's fdlibm, s_erf.c, whose polynomials hold to infinity without the exponential. */
static double tg_erfcx_f64(double x)
{
    static const double near[2][8] = {
        {-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
         -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
         -8.12874355063065934246e+01, -9.81432934416914548592e+00},
        {1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
         6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
         6.57024977031928170135e+00, -6.04244152148580987438e-02}};
    static const double beyond[2][8] = {
        {-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
         -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
         -4.83519191608651397019e+02, 0},
        {3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
         3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
         -2.24409524465858183362e+01, 0}};
    if (!(x >= 1.25)) return exp(x*x)*erfc(x);
    const double w = 1/(x*x);
    const double (*c)[8] = w < 0.35*0.35 ? beyond : near;
    double upper = 0, lower = 0;
    for (int k = 7; k >= 0; k--) {
        upper = upper*w + c[0][k];
        lower = lower*w + c[1][k];
    }
    return exp(upper/(1 + w*lower) - 0.5625)/x;
}

static inline float tg_erfcx_f32(float x)
{
    return (float)tg_erfcx_f64(x);
}

/* Dawson's integral. Source: G. B. Rybicki, Dawson's integral and the sampling theorem (1989); Abramowitz and Stegun,
 * 7.1.23, far out. */
static double tg_dawsn_f64(double x)
{
    const double size = fabs(x), step = 0.25;
    double sum = 0;
    if (size < 0.1) {
        sum = 1;
        for (int k = 8; k > 0; k--) sum = 1 - 2*x*x/(2*k + 1)*sum;
        return x*sum;
    }
    if (size > 12) {
        const double w = 0.5/(x*x);
        sum = 1;
        for (int k = 12; k > 0; k--) sum = 1 + (2*k - 1)*w*sum;
        return 0.5/x*sum;
    }
    const double place = 2*rint(size/(2*step)), shift = size - place*step;
    for (int k = -25; k < 27; k += 2) {
        const double away = shift - k*step;
        sum += exp(-away*away)/(place + k);
    }
    return copysign(0.56418958354775628695*sum, x);
}

static inline float tg_dawsn_f32(float x)
{
    return (float)tg_dawsn_f64(x);
}

/* Integral of exp(-t)/t from x to infinity. Source: Abramowitz and Stegun, 5.1.11 and 5.1.22. */
static double tg_exp1_f64(double x)
{
    if (!(x > 0)) return x == 0 ? INFINITY : NAN;
    if (x < 1.5) {
        double term = 1, series = 0;
        for (int k = 1; k <= 30; k++) {
            term *= -x/k;
            series -= term/k;
        }
        return series - log(x) - 0.57721566490153286061;
    }
    double fraction = 0;
    for (int k = 80; k > 0; k--) fraction = k/(1 + k/(x + fraction));
    return exp(-x)/(x + fraction);
}

static inline float tg_exp1_f32(float x)
{
    return (float)tg_exp1_f64(x);
}

/* Power series in two variables, cut off at m x n coefficients. */
static void tg_jet_multiply_f64(double *out, const double *p, const double *q, int64_t m, int64_t n)
{
    for (int64_t i = m - 1; i >= 0; i--) {
        for (int64_t j = n - 1; j >= 0; j--) {
            double sum = 0;
            for (int64_t k = 0; k <= i; k++)
                for (int64_t l = 0; l <= j; l++) sum += p[n*k + l]*q[n*(i - k) + j - l];
            out[n*i + j] = sum;
        }
    }
}

/* out = p/q; out may be p. */
static void tg_jet_divide_f64(double *out, const double *p, const double *q, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double rest = p[n*i + j];
            for (int64_t k = 0; k <= i; k++)
                for (int64_t l = 0; l <= j; l++)
                    if (k || l) rest -= q[n*k + l]*out[n*(i - k) + j - l];
            out[n*i + j] = rest/q[0];
        }
    }
}

/* out = exp(p), by the equation that its derivatives fulfil. */
static void tg_jet_exp_f64(double *out, const double *p, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = i || j ? 0 : exp(p[0]);
            for (int64_t k = 0; k <= i; k++)
                for (int64_t l = 0; l <= j; l++)
                    if (i ? k : l) sum += (double)(i ? k : l)*p[n*k + l]*out[n*(i - k) + j - l]/(double)(i ? i : j);
            out[n*i + j] = sum;
        }
    }
}

/* jet += sign*lgamma(z), where z grows with the variables that have a coefficient beside the first: to m and n. */
static void tg_jet_lgamma_f64(double *jet, double z, double sign, int64_t m, int64_t n, int64_t width)
{
    double scale = sign;
    for (int64_t i = 0; i < m; i++) {
        double part = scale;
        for (int64_t j = 0; j < n; j++) {
            const int64_t order = i + j;
            jet[width*i + j] += part*(order == 0 ? lgamma(z) : order == 1 ? tg_digamma_f64(z) : tg_polygamma_f64(order - 1, z));
            part /= (double)(j + 1);
        }
        scale /= (double)(i + 1);
    }
}

static void tg_jet_linear_f64(double *jet, double value, double in_a, double in_b, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m*n; i++) jet[i] = 0;
    jet[0] = value;
    if (m > 1) jet[n] = in_a;
    if (n > 1) jet[1] = in_b;
}

/* Regularized incomplete gamma function, lower or upper, or its derivative of an order in a. Source: Abramowitz and
 * Stegun, 6.5.29 (series), 6.5.31 (continued fraction), as power series in a. */
static double tg_incomplete_gamma_f64(int64_t order, double a, double x, int upper)
{
    const int64_t m = order + 1;
    double scale[m], sum[m], term[m], other[m];
    if (!(a > 0 && x >= 0)) return NAN;
    if (x == 0 || isinf(x)) return !order && (x > 0) != upper ? 1 : 0;
    const int small = x < a + 1;
    tg_jet_linear_f64(scale, a*log(x) - x, log(x), 0, m, 1);
    tg_jet_lgamma_f64(scale, small ? a + 1 : a, -1, m, 1, 1);
    if (small) {
        tg_jet_linear_f64(sum, 1, 0, 0, m, 1);
        tg_jet_linear_f64(term, 1, 0, 0, m, 1);
        for (int k = 1; k < 50 + 12*sqrt(fmax(a, 1)); k++) {
            tg_jet_linear_f64(other, (a + k)/x, 1/x, 0, m, 1);
            tg_jet_divide_f64(term, term, other, m, 1);
            for (int64_t i = 0; i < m; i++) sum[i] += term[i];
        }
        tg_jet_exp_f64(other, scale, m, 1);
        tg_jet_multiply_f64(term, other, sum, m, 1);
    } else {
        tg_jet_linear_f64(sum, 0, 0, 0, m, 1);
        for (int k = (int)(100 + 10*sqrt(fmax(a, 1))); k > 0; k--) {
            tg_jet_linear_f64(other, x + 2*k + 1 - a, -1, 0, m, 1);
            for (int64_t i = 0; i < m; i++) other[i] += sum[i];
            tg_jet_linear_f64(term, k*(a - k), k, 0, m, 1);
            tg_jet_divide_f64(sum, term, other, m, 1);
        }
        tg_jet_linear_f64(other, x + 1 - a, -1, 0, m, 1);
        for (int64_t i = 0; i < m; i++) other[i] += sum[i];
        tg_jet_exp_f64(term, scale, m, 1);
        tg_jet_divide_f64(term, term, other, m, 1);
    }
    double result = term[order];
    for (int64_t i = 2; i <= order; i++) result *= (double)i;
    if (order) return small ? result : -result;
    return small == !upper ? result : 1 - result;
}

static double tg_gammainc_f64(int64_t order, double a, double x)
{
    return tg_incomplete_gamma_f64(order, a, x, 0);
}

static inline float tg_gammainc_f32(int64_t order, float a, float x)
{
    return (float)tg_incomplete_gamma_f64(order, a, x, 0);
}

static double tg_gammaincc_f64(double a, double x)
{
    return tg_incomplete_gamma_f64(0, a, x, 1);
}

static inline float tg_gammaincc_f32(float a, float x)
{
    return (float)tg_incomplete_gamma_f64(0, a, x, 1);
}

/* Regularized incomplete beta function of x where it is small, or its derivative of orders in a and b; y = 1 - x. Source:
 * NIST Handbook, 8.17.22 (continued fraction), as power series in a and b. */
static double tg_incomplete_beta_f64(int64_t order_a, int64_t order_b, double a, double b, double x, double log_x, double log_y)
{
    const int64_t m = order_a + 1, n = order_b + 1;
    double fraction[m*n], above[m*n], below[m*n], other[m*n];
    tg_jet_linear_f64(fraction, 1, 0, 0, m, n);
    for (int k = (int)(60 + 6*sqrt(fmax(fmax(a, b), 1))); k >= 0; k--) {
        tg_jet_linear_f64(above, -x*(a + k), -x, 0, m, n);
        tg_jet_linear_f64(other, a + b + k, 1, 1, m, n);
        tg_jet_multiply_f64(above, above, other, m, n);
        for (int part = 0; part < (k ? 2 : 1); part++) {
            tg_jet_linear_f64(below, a + 2*k - part, 1, 0, m, n);
            tg_jet_divide_f64(above, above, below, m, n);
            tg_jet_linear_f64(below, a + 2*k + 1 - part, 1, 0, m, n);
            tg_jet_divide_f64(above, above, below, m, n);
            tg_jet_divide_f64(above, above, fraction, m, n);
            for (int64_t i = 0; i < m*n; i++) fraction[i] = above[i];
            fraction[0] += 1;
            tg_jet_linear_f64(above, k*x*(b - k), 0, k*x, m, n);
        }
    }
    tg_jet_linear_f64(above, a*log_x + b*log_y, log_x, log_y, m, n);
    tg_jet_lgamma_f64(above, a + b, 1, m, n, n);
    tg_jet_lgamma_f64(above, a + 1, -1, m, 1, n);
    tg_jet_lgamma_f64(above, b, -1, 1, n, n);
    tg_jet_exp_f64(below, above, m, n);
    tg_jet_divide_f64(below, below, fraction, m, n);
    double result = below[m*n - 1];
    for (int64_t i = 2; i <= order_a; i++) result *= (double)i;
    for (int64_t i = 2; i <= order_b; i++) result *= (double)i;
    return result;
}

static double tg_betainc_f64(int64_t order_a, int64_t order_b, double a, double b, double x)
{
    if (!(a > 0 && b > 0 && x >= 0 && x <= 1)) return NAN;
    if (x == 0 || x == 1) return order_a || order_b ? 0 : x;
    const double log_x = log(x), log_y = log1p(-x);
    if (x <= (a + 1)/(a + b + 2)) return tg_incomplete_beta_f64(order_a, order_b, a, b, x, log_x, log_y);
    const double rest = tg_incomplete_beta_f64(order_b, order_a, b, a, 1 - x, log_y, log_x);
    return order_a || order_b ? -rest : 1 - rest;
}

static inline float tg_betainc_f32(int64_t order_a, int64_t order_b, float a, float b, float x)
{
    return (float)tg_betainc_f64(order_a, order_b, a, b, x);
}

/* Whether the pivots of a are of sizes that leave digits to its inverse. */
static int tg_is_even_f64(const double *restrict a, int64_t n)
{
    double least = INFINITY, greatest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double size = fabs(a[n*i + i]);
        if (size < least) least = size;
        if (size > greatest) greatest = size;
    }
    return least > 1e-4*greatest;
}

static int tg_is_even_c128(const double complex *restrict a, int64_t n)
{
    double least = INFINITY, greatest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double size = cabs(a[n*i + i]);
        if (size < least) least = size;
        if (size > greatest) greatest = size;
    }
    return least > 1e-4*greatest;
}

/* Cofactors of an n x n matrix: from the inverse where that is safe, else determinants of minors. */
static void tg_cofactor_f64(const double *restrict a, double *restrict c, int64_t n, double *restrict minor,
                            int64_t *restrict pivots)
{
    if (n > 4) {
        memcpy(minor, a, (size_t)(n*n)*sizeof(double));
        double product = tg_lu_f64(minor, pivots, n);
        for (int64_t i = 0; i < n; i++) product = product*minor[n*i + i];
        if (tg_is_even_f64(minor, n)) {
            for (int64_t i = 0; i < n*n; i++) c[i] = i % (n + 1) ? 0.0 : 1.0;
            tg_lu_solve_f64(minor, pivots, c, n, n);
            for (int64_t i = 0; i < n; i++) {
                for (int64_t j = 0; j <= i; j++) {
                    const double upper = product*c[n*j + i];
                    c[n*j + i] = product*c[n*i + j];
                    c[n*i + j] = upper;
                }
            }
            return;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            int64_t filled = 0;
            for (int64_t k = 0; k < n; k++) {
                for (int64_t l = 0; l < n; l++) {
                    if (k != i && l != j) minor[filled++] = a[n*k + l];
                }
            }
            double determinant = tg_lu_f64(minor, pivots, n - 1);
            for (int64_t k = 0; k < n - 1; k++) determinant = determinant*minor[(n - 1)*k + k];
            c[n*i + j] = (i + j) % 2 ? -determinant : determinant;
        }
    }
}

/* roots[k] = exp(sign 2 pi i k/n); most are products of two others. Angles are doubles in single precision too. */
static void tg_fft_roots_c128(double complex *restrict roots, int64_t n, int sign)
{
    int64_t block = 1;
    while (block*block < n) block *= 2;
    for (int64_t k = 0; k < n; k++) {
        const int64_t rest = k % block;
        if (rest == k || rest == 0) {
            const double angle = sign*6.283185307179586477*(double)(2*k > n ? k - n : k)/(double)n;
            roots[k] = tg_complex(cos(angle), sin(angle));
        } else {
            roots[k] = tg_multiply_c128(roots[k - rest], roots[rest]);
        }
    }
}

static void tg_fft_roots_c64(float complex *restrict roots, int64_t n, int sign)
{
    int64_t block = 1;
    while (block*block < n) block *= 2;
    for (int64_t k = 0; k < n; k++) {
        const int64_t rest = k % block;
        if (rest == k || rest == 0) {
            const double angle = sign*6.283185307179586477*(double)(2*k > n ? k - n : k)/(double)n;
            roots[k] = tg_complexf((float)cos(angle), (float)sin(angle));
        } else {
            roots[k] = tg_multiply_c64(roots[k - rest], roots[rest]);
        }
    }
}

/* One step of a transform of n numbers: transforms of r numbers, which are n/r apart in x and stride apart in y. */
static void tg_fft_pass_c128(const double complex *restrict x, double complex *restrict y, const double complex *restrict roots,
                             int64_t n, int64_t r, int64_t stride)
{
    const int64_t apart = n/r;
    for (int64_t start = 0; start < apart; start += stride) {
        for (int64_t k = 0; k < r; k++) {
            const double complex *const in = x + start, turn = roots[start*k];
            double complex *const out = y + r*start + k*stride;
#pragma omp simd
            for (int64_t i = 0; i < stride; i++) out[i] = in[i];
            for (int64_t j = 1; j < r; j++) {
                const double complex root = roots[j*k % r*apart];
#pragma omp simd
                for (int64_t i = 0; i < stride; i++) out[i] += tg_multiply_c128(root, in[i + j*apart]);
            }
#pragma omp simd
            for (int64_t i = 0; i < stride; i++) out[i] = tg_multiply_c128(turn, out[i]);
        }
    }
}

/* The same for r = 4. */
static void tg_fft_pass_of_4_c128(const double complex *restrict x, double complex *restrict y,
                                  const double complex *restrict roots, int64_t n, int64_t stride, int sign)
{
    const int64_t apart = n/4;
    for (int64_t start = 0; start < apart; start += stride) {
        const double complex first = roots[start], second = roots[2*start], third = roots[3*start];
        const double complex *const in = x + start;
        double complex *const out = y + 4*start;
#pragma omp simd
        for (int64_t i = 0; i < stride; i++) {
            const double complex a = in[i], b = in[i + apart], c = in[i + 2*apart], d = in[i + 3*apart];
            const double complex even = a + c, odd = b + d, left = a - c, right = b - d;
            const double complex turned = tg_complex(-sign*cimag(right), sign*creal(right));
            out[i] = even + odd;
            out[i + stride] = tg_multiply_c128(first, left + turned);
            out[i + 2*stride] = tg_multiply_c128(second, even - odd);
            out[i + 3*stride] = tg_multiply_c128(third, left - turned);
        }
    }
}

/* Transform n numbers in place, by the factors of n; each step sorts what it reads. Source: Stockham 1966. */
static void tg_fft_by_factors_c128(double complex *restrict x, double complex *restrict work,
                                   const double complex *restrict roots, int64_t n, int sign)
{
    double complex *from = x, *to = work;
    for (int64_t stride = 1, r; stride < n; stride *= r) {
        const int64_t left = n/stride;
        r = left % 4 == 0 ? 4 : left % 2 == 0 ? 2 : 3;
        while (left % r) r = r*r > left ? left : r + 2;
        if (r == 4) tg_fft_pass_of_4_c128(from, to, roots, n, stride, sign);
        else tg_fft_pass_c128(from, to, roots, n, r, stride);
        double complex *const swapped = from;
        from = to;
        to = swapped;
    }
    if (from != x) memcpy(x, from, (size_t)n*sizeof(*x));
}

/* Transform n numbers in place as a convolution with chirps exp(sign pi i k^2/n), at a power of two; returns 0 when there is no
 * memory. Source: Bluestein 1970. */
static int tg_fft_by_chirps_c128(double complex *restrict x, const double complex *restrict roots, int64_t n)
{
    int64_t size = 1;
    while (size < 2*n) size *= 2;
    double complex *const numbers = calloc((size_t)(4*size + n), sizeof(double complex));
    if (!numbers) return 0;
    double complex *const chirps = numbers + size, *const work = chirps + size, *const turns = work + size;
    double complex *const halves = turns + size;
    const double angle = cimag(roots[1]) < 0.0 ? -3.141592653589793238 : 3.141592653589793238;
    tg_fft_roots_c128(turns, size, -1);
    for (int64_t k = 0, square = 0; k < n; square = (square + 2*k + 1) % (2*n), k++) {
        halves[k] = tg_multiply_c128(roots[square/2], square % 2 ? tg_complex(cos(angle/(double)n), sin(angle/(double)n)) : 1.0);
        numbers[k] = tg_multiply_c128(x[k], halves[k]);
        chirps[k] = conj(halves[k]);
        if (k) chirps[size - k] = chirps[k];
    }
    tg_fft_by_factors_c128(numbers, work, turns, size, -1);
    tg_fft_by_factors_c128(chirps, work, turns, size, -1);
    for (int64_t k = 0; k < size; k++) numbers[k] = conj(tg_multiply_c128(numbers[k], chirps[k]));
    tg_fft_by_factors_c128(numbers, work, turns, size, -1);
    for (int64_t k = 0; k < n; k++) x[k] = tg_multiply_c128(halves[k], conj(numbers[k]))/(double)size;
    free(numbers);
    return 1;
}

/* Transform n numbers in place; sign is -1, or 1 for the inverse, whose factor is left out. */
static void tg_fft_c128(double complex *restrict x, double complex *restrict work, const double complex *restrict roots, int64_t n,
                        int sign)
{
    int64_t odd = n, r = 3;
    while (odd > 1 && odd % 2 == 0) odd /= 2;
    while (r*r <= odd) {
        if (odd % r) r += 2;
        else odd /= r;
    }
    if (odd < 50 || !tg_fft_by_chirps_c128(x, roots, n)) tg_fft_by_factors_c128(x, work, roots, n, sign);
}

/* Elements first to last - 1 of a loop whose elements do not depend on each other; run() does them. */
typedef struct tg_part {
    int (*run)(const struct tg_part *part);
    void *const *pointers;
    const int64_t *sizes;
    int64_t first, last;
    void *workspace;
    int kind;
} tg_part;

static void *tg_run_part(void *argument)
{
    tg_part *const part = argument;
    part->kind = part->run(part);
    return NULL;
}

/* Do all elements, in parts of at least `least` on threads; what no thread can be made for runs here. The parts begin at
   multiples of 64 elements, so that loops with vectors do each element as they would without threads. */
static int tg_run_parts(const tg_part *whole, int64_t least, int64_t part_bytes, void *workspace)
{
    tg_part parts[TG_THREADS];
    pthread_t threads[TG_THREADS];
    bool is_started[TG_THREADS];
    const int64_t count = whole->last - whole->first, share = count/TG_THREADS + 1;
    const int64_t size = ((share > least ? share : least) + 63) & ~(int64_t)63;
    int used = 0;
    for (int64_t done = 0; used == 0 || done < count; done += size) {
        parts[used] = *whole;
        parts[used].first = whole->first + done;
        parts[used].last = count - done > size ? whole->first + done + size : whole->last;
        parts[used].workspace = (char *)whole->workspace + used*part_bytes;
        used++;
    }
    for (int k = 1; k < used; k++) is_started[k] = pthread_create(&threads[k], NULL, tg_run_part, &parts[k]) == 0;
    tg_run_part(&parts[0]);
    for (int k = 1; k < used; k++) {
        if (is_started[k]) pthread_join(threads[k], NULL);
        else tg_run_part(&parts[k]);
    }
    for (int k = 0; k < used; k++) {
        if (!parts[k].kind) continue;
        *(tg_error *)workspace = *(const tg_error *)parts[k].workspace; /* that of the first element with one */
        return parts[k].kind;
    }
    return 0;
}

/* Recursive calls. The word before the end of the header of a workspace holds an address at the start of the C stack. */
static void tg_begin_calls(void *workspace)
{
    const char here = 0;
    ((uintptr_t *)workspace)[7] = (uintptr_t)&here;
}

/* Prepares memory as the workspace of a call. */
static void *tg_enter(char *memory, int64_t header_bytes, const void *caller)
{
    uintptr_t *const workspace = (uintptr_t *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    memset(workspace, 0, (size_t)header_bytes);
    workspace[7] = ((const uintptr_t *)caller)[7];
    return workspace;
}

/* Whether calls are so deep that the C stack, of 8 MB as a rule, is half used. */
static bool tg_is_deep(const void *workspace)
{
    const char here = 0;
    const uintptr_t start = ((const uintptr_t *)workspace)[7], now = (uintptr_t)&here;
    return (start > now ? start - now : now - start) > (uintptr_t)4 << 20;
}
