/* Gradients as a person writes them in C: the reference of the benchmarks. Compiled with the flags of generated code. */

#include <math.h>
#include <stdint.h>

#define VECTOR __attribute__((simd("notinbranch")))
VECTOR double exp(double);
VECTOR double log1p(double);
VECTOR double tanh(double);
/* under other names: gcc turns sin(x) and cos(x) into one complex exponential, for which there is no vector form */
VECTOR double vector_sin(double) __asm__("sin");
VECTOR double vector_cos(double) __asm__("cos");

/* ---- Rosenbrock's function of n variables -------------------------------------------------------------------- */

void rosenbrock_gradient(const double *restrict x, double *restrict ct_x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ct_x[i] = 0.0;
    for (int64_t i = 0; i + 1 < n; i++) {
        double r = x[i + 1] - x[i] * x[i];
        ct_x[i] += -400.0 * r * x[i] - 2.0 * (1.0 - x[i]);
        ct_x[i + 1] += 200.0 * r;
    }
}

/* ---- Lorenz's system by RK4, sum of the final state ------------------------------------------------------------ */

static inline void lorenz(const double s[3], const double p[3], double ds[3])
{
    ds[0] = p[0] * (s[1] - s[0]);
    ds[1] = s[0] * (p[1] - s[2]) - s[1];
    ds[2] = s[0] * s[1] - p[2] * s[2];
}

/* ct_s += (d lorenz / d s)' ct, ct_p += (d lorenz / d p)' ct */
static inline void lorenz_vjp(const double s[3], const double p[3], const double ct[3], double ct_s[3], double ct_p[3])
{
    ct_s[0] += -p[0] * ct[0] + (p[1] - s[2]) * ct[1] + s[1] * ct[2];
    ct_s[1] += p[0] * ct[0] - ct[1] + s[0] * ct[2];
    ct_s[2] += -s[0] * ct[1] - p[2] * ct[2];
    ct_p[0] += (s[1] - s[0]) * ct[0];
    ct_p[1] += s[0] * ct[1];
    ct_p[2] += -s[2] * ct[2];
}

/* path: 3 * steps doubles. The state of each step is stored; its four stages are recomputed on the way back. */
double lorenz_gradient(const double *restrict start, const double *restrict parameters, double *restrict ct_start,
                       double *restrict ct_parameters, double *restrict path, int64_t steps, double dt)
{
    double s[3] = {start[0], start[1], start[2]};
    const double p[3] = {parameters[0], parameters[1], parameters[2]};
    double k1[3], k2[3], k3[3], k4[3], a[3], b[3], c[3];
    for (int64_t t = 0; t < steps; t++) {
        for (int j = 0; j < 3; j++)
            path[3 * t + j] = s[j];
        lorenz(s, p, k1);
        for (int j = 0; j < 3; j++)
            a[j] = s[j] + 0.5 * dt * k1[j];
        lorenz(a, p, k2);
        for (int j = 0; j < 3; j++)
            b[j] = s[j] + 0.5 * dt * k2[j];
        lorenz(b, p, k3);
        for (int j = 0; j < 3; j++)
            c[j] = s[j] + dt * k3[j];
        lorenz(c, p, k4);
        for (int j = 0; j < 3; j++)
            s[j] += dt / 6.0 * (k1[j] + 2.0 * k2[j] + 2.0 * k3[j] + k4[j]);
    }
    double ct_s[3] = {1.0, 1.0, 1.0}, ct_p[3] = {0.0, 0.0, 0.0};
    for (int64_t t = steps - 1; t >= 0; t--) {
        const double *x = path + 3 * t;
        lorenz(x, p, k1);
        for (int j = 0; j < 3; j++)
            a[j] = x[j] + 0.5 * dt * k1[j];
        lorenz(a, p, k2);
        for (int j = 0; j < 3; j++)
            b[j] = x[j] + 0.5 * dt * k2[j];
        lorenz(b, p, k3);
        for (int j = 0; j < 3; j++)
            c[j] = x[j] + dt * k3[j];
        double ct_k1[3], ct_k2[3], ct_k3[3], ct_k4[3];
        double ct_a[3] = {0, 0, 0}, ct_b[3] = {0, 0, 0}, ct_c[3] = {0, 0, 0};
        for (int j = 0; j < 3; j++)
            ct_k4[j] = dt / 6.0 * ct_s[j];
        lorenz_vjp(c, p, ct_k4, ct_c, ct_p);
        for (int j = 0; j < 3; j++)
            ct_k3[j] = dt / 3.0 * ct_s[j] + dt * ct_c[j];
        lorenz_vjp(b, p, ct_k3, ct_b, ct_p);
        for (int j = 0; j < 3; j++)
            ct_k2[j] = dt / 3.0 * ct_s[j] + 0.5 * dt * ct_b[j];
        lorenz_vjp(a, p, ct_k2, ct_a, ct_p);
        for (int j = 0; j < 3; j++) {
            ct_k1[j] = dt / 6.0 * ct_s[j] + 0.5 * dt * ct_a[j];
            ct_s[j] += ct_a[j] + ct_b[j] + ct_c[j];
        }
        lorenz_vjp(x, p, ct_k1, ct_s, ct_p);
    }
    for (int j = 0; j < 3; j++) {
        ct_start[j] = ct_s[j];
        ct_parameters[j] = ct_p[j];
    }
    return s[0] + s[1] + s[2];
}

/* ---- an elementwise chain: mean(log1p(exp(-x)) * tanh(x) + sin(x)) and its gradient in one pass ------------------ */

double chain_gradient(const double *restrict x, double *restrict ct_x, int64_t n)
{
    const double scale = 1.0 / (double)n;
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        double e = exp(-x[i]), l = log1p(e), t = tanh(x[i]);
        total += l * t + vector_sin(x[i]);
        ct_x[i] = scale * (l * (1.0 - t * t) - e / (1.0 + e) * t + vector_cos(x[i]));
    }
    return total * scale;
}

/* ---- Jacobian of the reprojection errors of bundle adjustment, 2 x 15 for each observation -------------------- */

static inline double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline void cross(const double a[3], const double b[3], double c[3])
{
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}

/* One forward sweep, then two reverse sweeps that share it. */
void bundle_jacobian(const double *restrict parameters, const double *restrict features, double *restrict jacobian,
                     int64_t observations)
{
    for (int64_t i = 0; i < observations; i++) {
        const double *z = parameters + 15 * i, *r = z;
        double *rows = jacobian + 30 * i;
        double d[3] = {z[11] - z[3], z[12] - z[4], z[13] - z[5]};
        double square = dot(r, r), angle = 0.0, s = 0.0, c = 1.0, a[3] = {0.0}, axd[3] = {0.0}, ad = 0.0, y[3];
        if (square != 0.0) {
            angle = sqrt(square);
            s = sin(angle);
            c = cos(angle);
            for (int j = 0; j < 3; j++)
                a[j] = r[j] / angle;
            cross(a, d, axd);
            ad = dot(a, d);
            for (int j = 0; j < 3; j++)
                y[j] = d[j] * c + axd[j] * s + a[j] * ad * (1.0 - c);
        } else {
            cross(r, d, y);
            for (int j = 0; j < 3; j++)
                y[j] += d[j];
        }
        double focal = z[6], k1 = z[9], k2 = z[10], w = z[14], inverse = 1.0 / y[2];
        double e[2] = {y[0] * inverse, y[1] * inverse};
        double rho = e[0] * e[0] + e[1] * e[1], radial = 1.0 + k1 * rho + k2 * rho * rho;
        for (int row = 0; row < 2; row++) {
            double *out = rows + 15 * row;
            double slope = 2.0 * w * focal * e[row] * (k1 + 2.0 * k2 * rho); /* to e, through rho */
            double ct_e[2] = {slope * e[0], slope * e[1]};
            ct_e[row] += w * focal * radial;
            double ct[3] = {ct_e[0] * inverse, ct_e[1] * inverse, -(ct_e[0] * e[0] + ct_e[1] * e[1]) * inverse};
            double ct_d[3], ct_r[3];
            if (square != 0.0) {
                double act = dot(a, ct), dxct[3], ctxa[3], ct_a[3];
                cross(d, ct, dxct);
                cross(ct, a, ctxa);
                for (int j = 0; j < 3; j++) {
                    ct_d[j] = c * ct[j] + s * ctxa[j] + (1.0 - c) * act * a[j];
                    ct_a[j] = s * dxct[j] + (1.0 - c) * (ad * ct[j] + act * d[j]);
                }
                double ct_angle = c * dot(axd, ct) + s * (ad * act - dot(d, ct)) - dot(a, ct_a) / angle;
                for (int j = 0; j < 3; j++)
                    ct_r[j] = ct_a[j] / angle + ct_angle * a[j];
            } else {
                cross(ct, r, ct_d);
                cross(d, ct, ct_r);
                for (int j = 0; j < 3; j++)
                    ct_d[j] += ct[j];
            }
            for (int j = 0; j < 3; j++) {
                out[j] = ct_r[j];
                out[3 + j] = -ct_d[j];
                out[11 + j] = ct_d[j];
            }
            out[6] = w * radial * e[row];
            out[7] = row == 0 ? w : 0.0;
            out[8] = row == 1 ? w : 0.0;
            out[9] = w * focal * e[row] * rho;
            out[10] = w * focal * e[row] * rho * rho;
            out[14] = focal * radial * e[row] + z[7 + row] - features[2 * i + row];
        }
    }
}
