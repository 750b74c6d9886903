/* The fast call path: an extension module with three callable types, compiled once per machine and Python into the cache.

   Executable   checks the arguments of one specialization in C, runs its kernel (or a Python function) and builds the
                result tree. Returns NotImplemented, without an error, when the arguments are not exactly what the
                specialization takes; the caller then goes the slow way (runtime/call.py).
   Dispatcher   tries the Executables of one function, the last that fitted first, then calls the slow path.
   Forward      a method that calls an attribute of its instance, for a `__call__` that costs no Python frame.

   load_c.py builds the descriptions read here; its ctypes classes do the same, slower, where this cannot be compiled.
   The kernel ABI is that of codegen/c_prelude.h.  */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

typedef struct {
    int kind;
    int line, column;
    const char *file;
    const char *message;
    int64_t values[2];
} tg_error;

typedef int (*entry_function)(void *const *pointers, const int64_t *sizes, void *workspace, void *error);
typedef void (*workspace_function)(void); /* in truth int64_t of as many int64_t as there are symbols */
typedef void (*release_function)(void *workspace);

/* ---- dimensions ------------------------------------------------------------------------------------------------ */

enum { DIM_FIXED, DIM_BIND, DIM_MATCH, DIM_EXPRESSION };
enum { PUSH_CONSTANT, PUSH_SYMBOL, DO_ADD, DO_MULTIPLY, DO_FLOOR_DIVIDE };

typedef struct {
    int kind;
    int64_t value;  /* size, or number of the symbol, or start of the program in Executable.code */
    int64_t length; /* instructions of the program */
} Dim;

typedef struct {
    int op;
    int64_t value;
} Instruction;

#define MAX_DEPTH 32

static int64_t evaluate(const Instruction *code, int64_t length, const int64_t *sizes)
{
    int64_t stack[MAX_DEPTH];
    int top = 0;
    for (int64_t i = 0; i < length; i++) {
        int64_t b;
        switch (code[i].op) {
        case PUSH_CONSTANT:
            stack[top++] = code[i].value;
            break;
        case PUSH_SYMBOL:
            stack[top++] = sizes[code[i].value];
            break;
        case DO_ADD:
            top--;
            stack[top - 1] += stack[top];
            break;
        case DO_MULTIPLY:
            top--;
            stack[top - 1] *= stack[top];
            break;
        default: /* floor division, as Python's */
            b = stack[--top];
            if (b == 0)
                return -1;
            int64_t a = stack[top - 1], quotient = a / b;
            stack[top - 1] = quotient - (a % b != 0 && (a < 0) != (b < 0));
        }
    }
    return stack[0];
}

/* ---- trees ----------------------------------------------------------------------------------------------------- */

enum { LEAF, NONE, STATIC, IDENTITY, TUPLE, LIST, NAMED, DICT, OBJECT, CALL };
static const char *const KINDS[] = {"leaf", "none",  "static", "identity", "tuple",
                                    "list", "named", "dict",   "object",   "call"};

typedef struct {
    int kind;
    int index;          /* leaf: number of the flat input or result */
    Py_ssize_t count;   /* children; a parent is followed by them, in order */
    PyObject *object;   /* borrowed from the description: type, static value, keys or callable */
    PyObject *names;    /* borrowed: object: attribute names */
} Node;

enum { FORM_SCALAR, FORM_ARRAY, FORM_PYTHON };
enum { ACCEPT_ARRAY = 1, ACCEPT_FLOAT = 2, ACCEPT_COMPLEX = 4, ACCEPT_SCALAR = 8 };

typedef struct {
    PyArray_Descr *descr; /* owned */
    int accept, ndim, typenum, builtin;
    int form; /* results of rank 0: a NumPy scalar, an array or a Python number */
    int write_back; /* inputs: number of the result copied into the argument after the call, or -1 */
    char dtype_kind;
    Py_ssize_t itemsize;
    Dim *dims; /* owned */
} Array;

enum { STEP_ITEM, STEP_ATTRIBUTE, STEP_CELL, STEP_CALL };

typedef struct {
    int kind;
    PyObject *key; /* borrowed */
} Step;

typedef struct {
    PyObject *base;      /* borrowed; NULL: a positional argument */
    Py_ssize_t argument; /* its number */
    int count, passed;   /* passed: given to a Python target as an argument of its own */
    Step *steps;         /* owned */
    Py_ssize_t node;     /* number of the first node of the tree that the value must fit */
} Source;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    entry_function entry;
    workspace_function workspace_size;
    release_function release;
    PyObject *target;      /* Python function called instead of a kernel, or NULL */
    PyObject *on_error;    /* on_error(kind, file, line, column, message, value, value) raises */
    PyObject *names;       /* tuple of interned parameter names, for calls with keywords */
    PyObject *owner;       /* Python function whose defaults fill in arguments that a call leaves out, or NULL */
    PyObject *description; /* owns all that nodes and sources borrow */
    Py_ssize_t n_arguments, n_inputs, n_results, n_symbols, n_sources;
    Node *nodes, *result_nodes;
    Array *inputs, *results;
    Source *sources;
    Instruction *code;
    int64_t *minimums; /* smallest size for which this specialization holds, per symbol */
    Py_ssize_t n_expressions;
    int layout;      /* inputs must be C-contiguous and aligned */
    int release_gil; /* always, rather than for large arrays only */
    int writes;      /* some input has write_back */
    size_t frame_bytes;
    /* one workspace is kept; `busy` is taken by the call that uses it */
    void *workspace_block, *workspace;
    int64_t workspace_bytes;
    long long kept_bytes; /* a larger workspace is made anew for each call */
    int busy;
} Executable;

#define RELEASE_GIL_BYTES 65536

/* ---- the state of one call --------------------------------------------------------------------------------------- */

typedef union {
    double complex_value[2];
    char bytes[32];
} Scalar;

typedef struct {
    void **pointers;    /* inputs, then results */
    PyObject **held;    /* inputs, then results: owned references */
    int64_t *sizes;     /* -1: not bound yet */
    Scalar *scalars;    /* storage of inputs given as scalars and of rank-0 results */
    int64_t total_bytes;
} Frame;

static int is_same_dtype(const Array *spec, PyArray_Descr *descr)
{
    if (descr == spec->descr)
        return 1;
    if (!PyArray_ISNBO(descr->byteorder))
        return 0;
    if (descr->type_num == spec->typenum)
        return 1;
    /* long and long long are two NumPy types of one layout */
    return spec->builtin && descr->type_num < NPY_OBJECT && descr->kind == spec->dtype_kind &&
           PyDataType_ELSIZE(descr) == spec->itemsize;
}

/* Take a value as flat input `index`. An input that is reached in two ways must be the same object both times. */
static int hold(Frame *frame, int index, PyObject *value, void *data)
{
    if (frame->held[index] != NULL)
        return frame->held[index] == value;
    frame->held[index] = Py_NewRef(value);
    frame->pointers[index] = data;
    return 1;
}

static int bind_array(Executable *self, Frame *frame, int index, PyArrayObject *array)
{
    const Array *spec = &self->inputs[index];
    const int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;
    if (!(spec->accept & ACCEPT_ARRAY) || PyArray_NDIM(array) != spec->ndim)
        return 0;
    if (!is_same_dtype(spec, PyArray_DESCR(array)))
        return 0;
    if (self->layout && (PyArray_FLAGS(array) & flags) != flags)
        return 0;
    if (spec->write_back >= 0 && !PyArray_ISWRITEABLE(array))
        return 0;
    const npy_intp *shape = PyArray_DIMS(array);
    int64_t bytes = spec->itemsize;
    for (int i = 0; i < spec->ndim; i++) {
        const Dim *dim = &spec->dims[i];
        int64_t size = shape[i];
        bytes *= size;
        if (dim->kind == DIM_FIXED) {
            if (size != dim->value)
                return 0;
        } else if (dim->kind != DIM_EXPRESSION) {
            int64_t *bound = &frame->sizes[dim->value];
            if (*bound < 0) {
                if (size < self->minimums[dim->value])
                    return 0;
                *bound = size;
            } else if (*bound != size)
                return 0;
        }
    }
    frame->total_bytes += bytes;
    return hold(frame, index, (PyObject *)array, PyArray_DATA(array));
}

static int bind_leaf(Executable *self, Frame *frame, int index, PyObject *value)
{
    const Array *spec = &self->inputs[index];
    if (Py_IS_TYPE(value, &PyArray_Type))
        return bind_array(self, frame, index, (PyArrayObject *)value);
    if (spec->ndim != 0 || spec->write_back >= 0)
        return 0;
    Scalar *storage = &frame->scalars[index];
    if (PyFloat_CheckExact(value)) {
        if (!(spec->accept & ACCEPT_FLOAT))
            return 0;
        storage->complex_value[0] = PyFloat_AS_DOUBLE(value);
    } else if (PyComplex_CheckExact(value)) {
        if (!(spec->accept & ACCEPT_COMPLEX))
            return 0;
        storage->complex_value[0] = PyComplex_RealAsDouble(value);
        storage->complex_value[1] = PyComplex_ImagAsDouble(value);
    } else if (!(spec->accept & ACCEPT_SCALAR) || !Py_IS_TYPE(value, spec->descr->typeobj))
        return 0;
    else if (spec->builtin)
        PyArray_ScalarAsCtype(value, storage);
    else if (PyArray_Pack(spec->descr, storage, value) < 0) {
        PyErr_Clear();
        return 0;
    }
    return hold(frame, index, value, storage);
}

/* Fit a value to the tree at *position and move *position behind it. Returns 1, or 0 when it does not fit. */
static int bind(Executable *self, Frame *frame, const Node **position, PyObject *value)
{
    const Node *node = (*position)++;
    PyObject *child;
    int fits;
    switch (node->kind) {
    case LEAF:
        return bind_leaf(self, frame, node->index, value);
    case NONE:
        return value == Py_None;
    case IDENTITY:
        return value == node->object;
    case STATIC:
        if (value == node->object)
            return 1;
        if (Py_TYPE(value) != Py_TYPE(node->object))
            return 0;
        fits = PyObject_RichCompareBool(value, node->object, Py_EQ);
        if (fits < 0)
            PyErr_Clear();
        return fits > 0;
    case TUPLE:
    case NAMED:
        if (Py_TYPE(value) != (node->kind == TUPLE ? &PyTuple_Type : (PyTypeObject *)node->object) ||
            PyTuple_GET_SIZE(value) != node->count)
            return 0;
        for (Py_ssize_t i = 0; i < node->count; i++)
            if (!bind(self, frame, position, PyTuple_GET_ITEM(value, i)))
                return 0;
        return 1;
    case LIST:
        if (!PyList_CheckExact(value))
            return 0;
        for (Py_ssize_t i = 0; i < node->count; i++) {
            if (PyList_GET_SIZE(value) != node->count) /* each time: comparisons of statics may run Python code */
                return 0;
            child = Py_NewRef(PyList_GET_ITEM(value, i));
            fits = bind(self, frame, position, child);
            Py_DECREF(child);
            if (!fits)
                return 0;
        }
        return PyList_GET_SIZE(value) == node->count;
    case DICT: {
        Py_ssize_t place = 0, i = 0;
        PyObject *key;
        if (!PyDict_CheckExact(value) || PyDict_GET_SIZE(value) != node->count)
            return 0;
        while (i < node->count && PyDict_Next(value, &place, &key, &child)) {
            PyObject *expected = PyTuple_GET_ITEM(node->object, i);
            Py_INCREF(child);
            fits = key == expected;
            if (!fits && Py_TYPE(key) == Py_TYPE(expected)) {
                fits = PyObject_RichCompareBool(key, expected, Py_EQ);
                if (fits < 0)
                    PyErr_Clear();
            }
            fits = fits > 0 && bind(self, frame, position, child);
            Py_DECREF(child);
            if (!fits)
                return 0;
            i++;
        }
        return i == node->count;
    }
    default: /* OBJECT */
        if (Py_TYPE(value) != (PyTypeObject *)node->object)
            return 0;
        for (Py_ssize_t i = 0; i < node->count; i++) {
            child = PyObject_GetAttr(value, PyTuple_GET_ITEM(node->names, i));
            if (child == NULL) {
                PyErr_Clear();
                return 0;
            }
            fits = bind(self, frame, position, child);
            Py_DECREF(child);
            if (!fits)
                return 0;
        }
        return 1;
    }
}

/* Read the present value of a global, closure cell or attribute; new reference, or NULL (no error set). */
static PyObject *read_source(const Source *source, PyObject *const *arguments)
{
    PyObject *value = Py_NewRef(source->base != NULL ? source->base : arguments[source->argument]);
    for (int i = 0; i < source->count; i++) {
        const Step *step = &source->steps[i];
        PyObject *next = NULL;
        if (step->kind == STEP_CELL) {
            if (PyCell_Check(value))
                next = Py_XNewRef(PyCell_GET(value));
        } else if (step->kind == STEP_ATTRIBUTE)
            next = PyObject_GetAttr(value, step->key);
        else if (step->kind == STEP_CALL)
            next = PyObject_CallNoArgs(value);
        else if (PyDict_CheckExact(value))
            next = Py_XNewRef(PyDict_GetItemWithError(value, step->key));
        else
            next = PyObject_GetItem(value, step->key);
        Py_DECREF(value);
        if (next == NULL) {
            PyErr_Clear();
            return NULL;
        }
        value = next;
    }
    return value;
}

static int64_t size_of(const Executable *self, const Dim *dim, const int64_t *sizes)
{
    switch (dim->kind) {
    case DIM_FIXED:
        return dim->value;
    case DIM_EXPRESSION:
        return evaluate(self->code + dim->value, dim->length, sizes);
    default:
        return sizes[dim->value];
    }
}

/* Check the dimensions of inputs that are expressions, once all symbols are bound. */
static int check_expressions(Executable *self, Frame *frame)
{
    for (Py_ssize_t k = 0; k < self->n_inputs; k++)
        for (int i = 0; i < self->inputs[k].ndim; i++)
            if (self->inputs[k].dims[i].kind == DIM_EXPRESSION &&
                size_of(self, &self->inputs[k].dims[i], frame->sizes) != PyArray_DIM((PyArrayObject *)frame->held[k], i))
                return 0;
    return 1;
}

/* Return whether an argument that the function writes shares memory with another argument. */
static int has_shared_write(Executable *self, Frame *frame)
{
    for (Py_ssize_t w = 0; w < self->n_inputs; w++) {
        if (self->inputs[w].write_back < 0)
            continue;
        const char *start = frame->pointers[w], *end = start + PyArray_NBYTES((PyArrayObject *)frame->held[w]);
        for (Py_ssize_t k = 0; k < self->n_inputs; k++) {
            if (k == w || !Py_IS_TYPE(frame->held[k], &PyArray_Type))
                continue;
            const char *other = frame->pointers[k];
            if (other < end && start < other + PyArray_NBYTES((PyArrayObject *)frame->held[k]))
                return 1;
        }
    }
    return 0;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static int allocate_results(Executable *self, Frame *frame)
{
    npy_intp shape[NPY_MAXDIMS];
    for (Py_ssize_t k = 0; k < self->n_results; k++) {
        const Array *spec = &self->results[k];
        Py_ssize_t place = self->n_inputs + k;
        if (spec->ndim == 0 && spec->form != FORM_ARRAY) {
            frame->pointers[place] = &frame->scalars[place];
            continue;
        }
        int64_t bytes = spec->itemsize;
        for (int i = 0; i < spec->ndim; i++) {
            shape[i] = size_of(self, &spec->dims[i], frame->sizes);
            if (shape[i] < 0)
                return 0;
            bytes *= shape[i];
        }
        Py_INCREF(spec->descr);
        PyObject *array = PyArray_NewFromDescr(&PyArray_Type, spec->descr, spec->ndim, shape, NULL, NULL, 0, NULL);
        if (array == NULL)
            return -1;
        frame->total_bytes += bytes;
        frame->held[place] = array;
        frame->pointers[place] = PyArray_DATA((PyArrayObject *)array);
    }
    return 1;
}

static PyObject *new_double(double value)
{
    PyObject *scalar = PyDoubleArrType_Type.tp_alloc(&PyDoubleArrType_Type, 0);
    if (scalar != NULL)
        PyArrayScalar_ASSIGN(scalar, Double, value);
    return scalar;
}

static PyObject *result_leaf(Executable *self, Frame *frame, int index)
{
    Py_ssize_t place = self->n_inputs + index;
    if (frame->held[place] == NULL) {
        const Array *spec = &self->results[index];
        const void *data = frame->pointers[place];
        PyObject *scalar;
        if (spec->typenum == NPY_DOUBLE && spec->form == FORM_PYTHON)
            scalar = PyFloat_FromDouble(*(const double *)data);
        else if (spec->typenum == NPY_DOUBLE) {
            scalar = new_double(*(const double *)data);
        } else {
            scalar = PyArray_Scalar((void *)data, spec->descr, NULL);
            if (spec->form == FORM_PYTHON && scalar != NULL)
                Py_SETREF(scalar, PyObject_CallMethod(scalar, "item", NULL));
        }
        frame->held[place] = scalar;
    }
    return Py_XNewRef(frame->held[place]);
}

static PyObject *build(Executable *self, Frame *frame, const Node **position)
{
    const Node *node = (*position)++;
    PyObject *result, *child;
    switch (node->kind) {
    case LEAF:
        return result_leaf(self, frame, node->index);
    case NONE:
        Py_RETURN_NONE;
    case STATIC:
    case IDENTITY:
        return Py_NewRef(node->object);
    case LIST:
        result = PyList_New(node->count);
        for (Py_ssize_t i = 0; result != NULL && i < node->count; i++) {
            if ((child = build(self, frame, position)) == NULL)
                Py_CLEAR(result);
            else
                PyList_SET_ITEM(result, i, child);
        }
        return result;
    case DICT:
        result = PyDict_New();
        for (Py_ssize_t i = 0; result != NULL && i < node->count; i++) {
            child = build(self, frame, position);
            if (child == NULL || PyDict_SetItem(result, PyTuple_GET_ITEM(node->object, i), child) < 0)
                Py_CLEAR(result);
            Py_XDECREF(child);
        }
        return result;
    default: /* TUPLE, NAMED, CALL */
        result = PyTuple_New(node->count);
        for (Py_ssize_t i = 0; result != NULL && i < node->count; i++) {
            if ((child = build(self, frame, position)) == NULL)
                Py_CLEAR(result);
            else
                PyTuple_SET_ITEM(result, i, child);
        }
        if (result != NULL && node->kind != TUPLE)
            Py_SETREF(result, PyObject_CallObject(node->object, result));
        return result;
    }
}

static void *raise_error(Executable *self, int status, const tg_error *error)
{
    PyObject *value =
        PyObject_CallFunction(self->on_error, "iziizLL", error->kind != 0 ? error->kind : status, error->file,
                              error->line, error->column, error->message, (long long)error->values[0], (long long)error->values[1]);
    if (value != NULL) {
        Py_DECREF(value);
        PyErr_SetString(PyExc_SystemError, "the error callback of a kernel returned");
    }
    return NULL;
}

/* ---- workspace --------------------------------------------------------------------------------------------------- */

/* A kernel finds its workspace zeroed at first use, aligned to 64 bytes, and as it left it afterwards. */
static void *new_workspace(int64_t bytes, void **block)
{
    *block = calloc(1, (size_t)bytes + 64);
    return *block == NULL ? NULL : (void *)(((uintptr_t)*block + 63) & ~(uintptr_t)63);
}

static void drop_workspace(Executable *self)
{
    if (self->workspace_block != NULL) {
        if (self->release != NULL)
            self->release(self->workspace);
        free(self->workspace_block);
    }
    self->workspace_block = self->workspace = NULL;
    self->workspace_bytes = -1;
}

#define MAX_SYMBOLS 12

static int64_t workspace_size(const Executable *self, const int64_t *s)
{
    typedef int64_t i64;
    if (self->workspace_size == NULL)
        return 0;
    switch (self->n_symbols) {
    case 0:
        return ((i64(*)(void))self->workspace_size)();
#define CASE(n, types, ...) \
    case n: \
        return ((i64(*) types)self->workspace_size)(__VA_ARGS__);
        CASE(1, (i64), s[0])
        CASE(2, (i64, i64), s[0], s[1])
        CASE(3, (i64, i64, i64), s[0], s[1], s[2])
        CASE(4, (i64, i64, i64, i64), s[0], s[1], s[2], s[3])
        CASE(5, (i64, i64, i64, i64, i64), s[0], s[1], s[2], s[3], s[4])
        CASE(6, (i64, i64, i64, i64, i64, i64), s[0], s[1], s[2], s[3], s[4], s[5])
        CASE(7, (i64, i64, i64, i64, i64, i64, i64), s[0], s[1], s[2], s[3], s[4], s[5], s[6])
        CASE(8, (i64, i64, i64, i64, i64, i64, i64, i64), s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7])
        CASE(9, (i64, i64, i64, i64, i64, i64, i64, i64, i64), s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8])
        CASE(10, (i64, i64, i64, i64, i64, i64, i64, i64, i64, i64), s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8],
             s[9])
        CASE(11, (i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64), s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7],
             s[8], s[9], s[10])
        CASE(12, (i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64), s[0], s[1], s[2], s[3], s[4], s[5], s[6],
             s[7], s[8], s[9], s[10], s[11])
#undef CASE
    default:
        return 0; /* more are refused at construction */
    }
}

static int run_kernel(Executable *self, Frame *frame)
{
    int64_t bytes = workspace_size(self, frame->sizes);
    void *workspace = NULL, *block = NULL;
    int own = 0;
    if (bytes > 0) {
        own = bytes <= self->kept_bytes && __atomic_exchange_n(&self->busy, 1, __ATOMIC_ACQUIRE) == 0;
        if (own) {
            if (self->workspace_bytes < bytes) {
                drop_workspace(self);
                self->workspace = new_workspace(bytes, &self->workspace_block);
                self->workspace_bytes = self->workspace != NULL ? bytes : -1;
            }
            workspace = self->workspace;
        } else
            workspace = new_workspace(bytes, &block);
        if (workspace == NULL) {
            if (own)
                __atomic_store_n(&self->busy, 0, __ATOMIC_RELEASE);
            PyErr_Format(PyExc_MemoryError, "no memory for the arrays of the program, %lld bytes", (long long)bytes);
            return -1;
        }
    }
    tg_error error = {0, 0, 0, "", "", {0, 0}};
    int status;
    if (self->release_gil || frame->total_bytes >= RELEASE_GIL_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        status = self->entry(frame->pointers, frame->sizes, workspace, &error);
        Py_END_ALLOW_THREADS
    } else
        status = self->entry(frame->pointers, frame->sizes, workspace, &error);
    if (block != NULL) {
        if (self->release != NULL)
            self->release(workspace);
        free(block);
    }
    if (own)
        __atomic_store_n(&self->busy, 0, __ATOMIC_RELEASE);
    if (status != 0) {
        raise_error(self, status, &error);
        return -1;
    }
    return 0;
}

static void write_back(Executable *self, Frame *frame)
{
    for (Py_ssize_t k = 0; k < self->n_inputs; k++)
        if (self->inputs[k].write_back >= 0)
            memcpy(frame->pointers[k], frame->pointers[self->n_inputs + self->inputs[k].write_back],
                   (size_t)PyArray_NBYTES((PyArrayObject *)frame->held[k]));
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

#define MAX_SOURCES_ON_STACK 16

/* Bind arguments and captured values. `passed` receives new references of values a Python target gets. Returns whether
   everything fits. */
static int bind_all(Executable *self, Frame *frame, PyObject *const *arguments, PyObject **passed, Py_ssize_t *n_passed)
{
    const Node *position = self->nodes;
    for (Py_ssize_t i = 0; i < self->n_arguments; i++)
        if (!bind(self, frame, &position, arguments[i]))
            return 0;
    for (Py_ssize_t i = 0; i < self->n_sources; i++) {
        const Source *source = &self->sources[i];
        PyObject *value = read_source(source, arguments);
        if (value == NULL)
            return 0;
        position = self->nodes + source->node;
        int fits = bind(self, frame, &position, value);
        if (fits && source->passed && self->target != NULL)
            passed[(*n_passed)++] = value;
        else
            Py_DECREF(value);
        if (!fits)
            return 0;
    }
    if (self->n_expressions > 0 && !check_expressions(self, frame))
        return 0;
    return !self->writes || !has_shared_write(self, frame);
}

/* Return what a Python target gave with NumPy scalars for Python's floats and complex numbers; takes the reference. */
static PyObject *with_numpy_scalars(PyObject *value)
{
    if (PyFloat_CheckExact(value)) {
        PyObject *scalar = new_double(PyFloat_AS_DOUBLE(value));
        Py_DECREF(value);
        return scalar;
    }
    if (PyComplex_CheckExact(value)) {
        Py_complex number = PyComplex_AsCComplex(value);
        PyArray_Descr *descr = PyArray_DescrFromType(NPY_CDOUBLE);
        Py_DECREF(value);
        value = descr == NULL ? NULL : PyArray_Scalar(&number, descr, NULL);
        Py_XDECREF(descr);
        return value;
    }
    int failed = 0;
    if (PyTuple_CheckExact(value)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value) && !failed; i++) {
            PyObject *item = with_numpy_scalars(PyTuple_GET_ITEM(value, i));
            PyTuple_SET_ITEM(value, i, item);
            failed = item == NULL;
        }
    } else if (PyList_CheckExact(value)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value) && !failed; i++) {
            PyObject *item = with_numpy_scalars(PyList_GET_ITEM(value, i));
            PyList_SET_ITEM(value, i, item);
            failed = item == NULL;
        }
    } else if (PyDict_CheckExact(value)) {
        PyObject *key, *item;
        Py_ssize_t position = 0;
        while (!failed && PyDict_Next(value, &position, &key, &item)) {
            PyObject *made = with_numpy_scalars(Py_NewRef(item));
            failed = made == NULL || (made != item && PyDict_SetItem(value, key, made) < 0);
            Py_XDECREF(made);
        }
    }
    if (failed)
        Py_CLEAR(value);
    return value;
}

static PyObject *call_bound(Executable *self, PyObject *const *arguments)
{
    _Alignas(16) char small[2048];
    char *memory = small;
    if (self->frame_bytes > sizeof small && (memory = PyMem_Malloc(self->frame_bytes)) == NULL)
        return PyErr_NoMemory();
    Py_ssize_t n_places = self->n_inputs + self->n_results;
    Frame frame;
    frame.scalars = (Scalar *)memory;
    frame.pointers = (void **)(frame.scalars + n_places);
    frame.held = (PyObject **)(frame.pointers + n_places);
    frame.sizes = (int64_t *)(frame.held + n_places);
    frame.total_bytes = 0;
    PyObject **values = (PyObject **)(frame.sizes + self->n_symbols); /* arguments of a Python target */
    memset(frame.held, 0, (size_t)n_places * sizeof *frame.held);
    for (Py_ssize_t i = 0; i < self->n_symbols; i++)
        frame.sizes[i] = -1;

    PyObject *result = NULL;
    Py_ssize_t n_passed = 0;
    int fits = bind_all(self, &frame, arguments, values + 1 + self->n_arguments, &n_passed);
    if (fits && self->target != NULL) {
        memcpy(values + 1, arguments, (size_t)self->n_arguments * sizeof *values);
        size_t count = (size_t)(self->n_arguments + n_passed) | PY_VECTORCALL_ARGUMENTS_OFFSET;
        result = PyObject_Vectorcall(self->target, values + 1, count, NULL);
        if (result != NULL)
            result = with_numpy_scalars(result);
    } else if (fits && (fits = allocate_results(self, &frame)) > 0 && run_kernel(self, &frame) == 0) {
        const Node *position = self->result_nodes;
        if (self->writes)
            write_back(self, &frame);
        result = build(self, &frame, &position);
    }
    for (Py_ssize_t i = 0; i < n_passed; i++)
        Py_DECREF(values[1 + self->n_arguments + i]);
    for (Py_ssize_t i = 0; i < n_places; i++)
        Py_XDECREF(frame.held[i]);
    if (memory != small)
        PyMem_Free(memory);
    return fits ? result : Py_NewRef(Py_NotImplemented);
}

static PyObject *executable_call(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *keywords)
{
    Executable *self = (Executable *)object;
    Py_ssize_t n_positional = PyVectorcall_NARGS(flags);
    Py_ssize_t n_keywords = keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords);
    Py_ssize_t n_missing = self->n_arguments - n_positional - n_keywords;
    if (n_missing == 0 && n_keywords == 0)
        return call_bound(self, arguments);
    PyObject *ordered[16] = {NULL};
    PyObject *defaults = n_missing > 0 && self->owner != NULL ? PyFunction_GetDefaults(self->owner) : NULL;
    if (n_missing < 0 || (n_missing > 0 && defaults == NULL) || self->n_arguments > 16)
        Py_RETURN_NOTIMPLEMENTED;
    memcpy(ordered, arguments, (size_t)n_positional * sizeof *ordered);
    for (Py_ssize_t k = 0; k < n_keywords; k++) {
        PyObject *name = PyTuple_GET_ITEM(keywords, k);
        Py_ssize_t i = n_positional, n_names = PyTuple_GET_SIZE(self->names);
        while (i < n_names && PyTuple_GET_ITEM(self->names, i) != name)
            i++;
        if (i >= n_names || i >= self->n_arguments || ordered[i] != NULL)
            Py_RETURN_NOTIMPLEMENTED;
        ordered[i] = arguments[n_positional + k];
    }
    if (n_missing == 0)
        return call_bound(self, ordered);
    Py_ssize_t first = self->n_arguments - PyTuple_GET_SIZE(defaults);
    for (Py_ssize_t i = n_positional; i < self->n_arguments; i++) {
        if (ordered[i] == NULL && i < first)
            Py_RETURN_NOTIMPLEMENTED;
        if (ordered[i] == NULL)
            ordered[i] = PyTuple_GET_ITEM(defaults, i - first);
    }
    Py_INCREF(defaults); /* the call may give the function others */
    PyObject *result = call_bound(self, ordered);
    Py_DECREF(defaults);
    return result;
}

/* ---- reading the description --------------------------------------------------------------------------------------- */

static PyObject *attribute(PyObject *object, const char *name)
{
    /* The description owns the value (a slot of a frozen dataclass), so the reference may be borrowed. */
    PyObject *value = PyObject_GetAttrString(object, name);
    Py_XDECREF(value);
    return value;
}

static Py_ssize_t count_nodes(PyObject *tree)
{
    PyObject *children = PySequence_Size(tree) == 3 ? PyTuple_GetItem(tree, 2) : NULL;
    if (children == NULL || !PyTuple_Check(children)) {
        PyErr_SetString(PyExc_TypeError, "a tree is (kind, data, children)");
        return -1;
    }
    Py_ssize_t total = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children); i++) {
        Py_ssize_t n = count_nodes(PyTuple_GET_ITEM(children, i));
        if (n < 0)
            return -1;
        total += n;
    }
    return total;
}

/* Append the nodes of a tree at *position. `limit`: number of flat inputs or results. */
static int read_tree(PyObject *tree, Node **position, Py_ssize_t limit)
{
    Node *node = (*position)++;
    const char *kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tree, 0));
    PyObject *data = PyTuple_GET_ITEM(tree, 1), *children = PyTuple_GET_ITEM(tree, 2);
    if (kind == NULL)
        return -1;
    node->kind = 0;
    while (node->kind <= CALL && strcmp(KINDS[node->kind], kind) != 0)
        node->kind++;
    node->count = PyTuple_GET_SIZE(children);
    node->object = data;
    switch (node->kind) {
    case LEAF:
        node->index = (int)PyLong_AsLong(data);
        if (PyErr_Occurred())
            return -1;
        if (node->index < 0 || node->index >= limit) {
            PyErr_SetString(PyExc_ValueError, "leaf number out of range");
            return -1;
        }
        break;
    case STATIC: /* data = (type, value) */
        if (!PyTuple_Check(data) || PyTuple_GET_SIZE(data) != 2) {
            PyErr_SetString(PyExc_TypeError, "the data of a static node is (type, value)");
            return -1;
        }
        node->object = PyTuple_GET_ITEM(data, 1);
        break;
    case IDENTITY: /* data.value */
        if ((node->object = attribute(data, "value")) == NULL)
            return -1;
        break;
    case DICT:
        if (!PyTuple_Check(data) || PyTuple_GET_SIZE(data) != node->count) {
            PyErr_SetString(PyExc_TypeError, "the data of a dict node are its keys");
            return -1;
        }
        break;
    case NAMED:
        if (!PyType_Check(data) || !PyType_IsSubtype((PyTypeObject *)data, &PyTuple_Type)) {
            PyErr_SetString(PyExc_TypeError, "the data of a named node is a class derived from tuple");
            return -1;
        }
        break;
    case OBJECT: /* data = (type, attribute names) */
        if (!PyTuple_Check(data) || PyTuple_GET_SIZE(data) != 2 || !PyTuple_Check(PyTuple_GET_ITEM(data, 1)) ||
            PyTuple_GET_SIZE(PyTuple_GET_ITEM(data, 1)) != node->count) {
            PyErr_SetString(PyExc_TypeError, "the data of an object node are its type and attribute names");
            return -1;
        }
        node->object = PyTuple_GET_ITEM(data, 0);
        node->names = PyTuple_GET_ITEM(data, 1);
        break;
    case NONE:
    case TUPLE:
    case LIST:
    case CALL:
        break;
    default:
        PyErr_Format(PyExc_ValueError, "unknown kind of tree: %s", kind);
        return -1;
    }
    for (Py_ssize_t i = 0; i < node->count; i++)
        if (read_tree(PyTuple_GET_ITEM(children, i), position, limit) < 0)
            return -1;
    return 0;
}

/* Read a sequence of (dtype, dims, accept, write_back, form), dims = tuple of (kind, value, length). */
static Array *read_arrays(Executable *self, PyObject *specs, Py_ssize_t *count)
{
    *count = 0;
    Py_ssize_t n = PyTuple_Size(specs);
    if (n < 0)
        return NULL;
    Array *arrays = PyMem_Calloc((size_t)n + 1, sizeof *arrays);
    if (arrays == NULL)
        return (Array *)PyErr_NoMemory();
    for (; *count < n; ++*count) {
        Array *array = &arrays[*count];
        PyObject *dtype, *dims;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(specs, *count), "O!O!iii", &PyArrayDescr_Type, &dtype, &PyTuple_Type,
                              &dims, &array->accept, &array->write_back, &array->form))
            goto fail;
        array->ndim = (int)PyTuple_GET_SIZE(dims);
        if (array->ndim > NPY_MAXDIMS) {
            PyErr_SetString(PyExc_ValueError, "too many dimensions");
            goto fail;
        }
        array->dims = PyMem_Calloc((size_t)array->ndim + 1, sizeof *array->dims);
        if (array->dims == NULL) {
            PyErr_NoMemory();
            goto fail;
        }
        array->descr = (PyArray_Descr *)Py_NewRef(dtype);
        array->typenum = array->descr->type_num;
        array->builtin = array->typenum < NPY_OBJECT || array->typenum == NPY_HALF;
        array->dtype_kind = array->descr->kind;
        array->itemsize = PyDataType_ELSIZE(array->descr);
        for (int i = 0; i < array->ndim; i++) {
            Dim *dim = &array->dims[i];
            long long value, length;
            if (!PyArg_ParseTuple(PyTuple_GET_ITEM(dims, i), "iLL", &dim->kind, &value, &length))
                goto fail;
            dim->value = value;
            dim->length = length;
            self->n_expressions += dim->kind == DIM_EXPRESSION;
        }
    }
    return arrays;
fail:
    for (Py_ssize_t i = 0; i <= *count; i++) {
        PyMem_Free(arrays[i].dims);
        Py_XDECREF(arrays[i].descr);
    }
    PyMem_Free(arrays);
    *count = 0;
    return NULL;
}

static int read_code(Executable *self, PyObject *code, PyObject *minimums)
{
    Py_ssize_t n = PyTuple_Size(code);
    self->n_symbols = PyTuple_Size(minimums);
    if (n < 0 || self->n_symbols < 0)
        return -1;
    self->code = PyMem_Calloc((size_t)n + 1, sizeof *self->code);
    self->minimums = PyMem_Calloc((size_t)self->n_symbols + 1, sizeof *self->minimums);
    if (self->code == NULL || self->minimums == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        long long value;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(code, i), "iL", &self->code[i].op, &value))
            return -1;
        self->code[i].value = value;
    }
    for (Py_ssize_t i = 0; i < self->n_symbols; i++) {
        self->minimums[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(minimums, i));
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* Read the tree of arguments and the sequence of (base or None, argument, steps, passed, tree), steps = (kind, key). */
static int read_inputs(Executable *self, PyObject *trees, PyObject *sources)
{
    self->n_arguments = PyTuple_Size(trees);
    Py_ssize_t n_sources = PyTuple_Size(sources), total = 0, n;
    if (self->n_arguments < 0 || n_sources < 0)
        return -1;
    for (Py_ssize_t i = 0; i < self->n_arguments + n_sources; i++) {
        PyObject *tree = i < self->n_arguments ? PyTuple_GET_ITEM(trees, i)
                                               : PyTuple_GetItem(PyTuple_GET_ITEM(sources, i - self->n_arguments), 4);
        if (tree == NULL || (n = count_nodes(tree)) < 0)
            return -1;
        total += n;
    }
    self->nodes = PyMem_Calloc((size_t)total + 1, sizeof *self->nodes);
    self->sources = PyMem_Calloc((size_t)n_sources + 1, sizeof *self->sources);
    if (self->nodes == NULL || self->sources == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Node *position = self->nodes;
    for (Py_ssize_t i = 0; i < self->n_arguments; i++)
        if (read_tree(PyTuple_GET_ITEM(trees, i), &position, self->n_inputs) < 0)
            return -1;
    for (Py_ssize_t i = 0; i < n_sources; i++) {
        Source *source = &self->sources[i];
        PyObject *base, *steps, *tree;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(sources, i), "OnO!pO", &base, &source->argument, &PyTuple_Type, &steps,
                              &source->passed, &tree))
            return -1;
        source->base = source->argument < 0 ? base : NULL;
        if (source->argument >= self->n_arguments) {
            PyErr_SetString(PyExc_ValueError, "source of an argument that does not exist");
            return -1;
        }
        source->count = (int)PyTuple_GET_SIZE(steps);
        source->steps = PyMem_Calloc((size_t)source->count + 1, sizeof *source->steps);
        if (source->steps == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->n_sources = i + 1;
        for (int k = 0; k < source->count; k++)
            if (!PyArg_ParseTuple(PyTuple_GET_ITEM(steps, k), "iO", &source->steps[k].kind, &source->steps[k].key))
                return -1;
        source->node = position - self->nodes;
        if (read_tree(tree, &position, self->n_inputs) < 0)
            return -1;
    }
    return 0;
}

static PyObject *executable_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"entry",       "workspace_size", "release",     "target",   "on_error",    "names",
                            "owner",       "arguments",      "sources",     "inputs",   "results",     "result_tree",
                            "code",        "minimums",       "layout",      "release_gil", "kept_bytes", "keep",
                            NULL};
    unsigned long long entry, workspace_size, release;
    PyObject *target, *on_error, *parameter_names, *trees, *sources, *inputs, *results, *result_tree, *code, *minimums;
    PyObject *keep, *owner;
    int layout, release_gil;
    long long kept_bytes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKKOOO!OO!O!O!O!O!O!O!ppLO:Executable", names, &entry,
                                     &workspace_size, &release, &target, &on_error, &PyTuple_Type, &parameter_names,
                                     &owner, &PyTuple_Type, &trees, &PyTuple_Type, &sources, &PyTuple_Type, &inputs,
                                     &PyTuple_Type, &results, &PyTuple_Type, &result_tree, &PyTuple_Type, &code,
                                     &PyTuple_Type, &minimums, &layout, &release_gil, &kept_bytes, &keep))
        return NULL;
    Executable *self = (Executable *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = executable_call;
    self->entry = (entry_function)(uintptr_t)entry;
    self->workspace_size = (workspace_function)(uintptr_t)workspace_size;
    self->release = (release_function)(uintptr_t)release;
    self->target = target == Py_None ? NULL : Py_NewRef(target);
    self->on_error = Py_NewRef(on_error);
    self->names = Py_NewRef(parameter_names);
    self->owner = PyFunction_Check(owner) ? Py_NewRef(owner) : NULL;
    self->layout = layout;
    self->release_gil = release_gil;
    self->kept_bytes = kept_bytes;
    self->workspace_bytes = -1;
    self->description = PyTuple_Pack(4, trees, sources, result_tree, keep);
    if (self->description == NULL || read_code(self, code, minimums) < 0)
        goto fail;
    if (self->n_symbols > MAX_SYMBOLS) {
        PyErr_Format(PyExc_ValueError, "more than %d size symbols", MAX_SYMBOLS);
        goto fail;
    }
    self->inputs = read_arrays(self, inputs, &self->n_inputs);
    if (self->inputs == NULL)
        goto fail;
    Py_ssize_t n_input_expressions = self->n_expressions;
    self->results = read_arrays(self, results, &self->n_results);
    if (self->results == NULL)
        goto fail;
    self->n_expressions = n_input_expressions;
    for (Py_ssize_t i = 0; i < self->n_inputs; i++) {
        if (self->inputs[i].write_back >= self->n_results) {
            PyErr_SetString(PyExc_ValueError, "write_back names a result that does not exist");
            goto fail;
        }
        self->writes |= self->inputs[i].write_back >= 0;
    }
    if (read_inputs(self, trees, sources) < 0)
        goto fail;
    Py_ssize_t n_nodes = count_nodes(result_tree);
    if (n_nodes < 0)
        goto fail;
    self->result_nodes = PyMem_Calloc((size_t)n_nodes + 1, sizeof *self->result_nodes);
    if (self->result_nodes == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    Node *position = self->result_nodes;
    if (read_tree(result_tree, &position, self->n_results) < 0)
        goto fail;
    size_t n_places = (size_t)(self->n_inputs + self->n_results);
    self->frame_bytes = n_places * (sizeof(Scalar) + sizeof(void *) + sizeof(PyObject *)) +
                        (size_t)self->n_symbols * sizeof(int64_t) +
                        (size_t)(1 + self->n_arguments + self->n_sources) * sizeof(PyObject *);
    return (PyObject *)self;
fail:
    Py_DECREF(self);
    return NULL;
}

static int executable_traverse(Executable *self, visitproc visit, void *arg)
{
    Py_VISIT(self->target);
    Py_VISIT(self->on_error);
    Py_VISIT(self->names);
    Py_VISIT(self->owner);
    Py_VISIT(self->description);
    return 0;
}

static int executable_clear(Executable *self)
{
    self->n_arguments = -1; /* fits no call any more, so that nodes and sources are not read again */
    drop_workspace(self);   /* before the library that holds its code goes with the description */
    Py_CLEAR(self->target);
    Py_CLEAR(self->on_error);
    Py_CLEAR(self->names);
    Py_CLEAR(self->owner);
    Py_CLEAR(self->description);
    return 0;
}

static void free_arrays(Array *arrays, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; arrays != NULL && i < count; i++) {
        PyMem_Free(arrays[i].dims);
        Py_XDECREF(arrays[i].descr);
    }
    PyMem_Free(arrays);
}

static void executable_dealloc(Executable *self)
{
    PyObject_GC_UnTrack(self);
    executable_clear(self);
    free_arrays(self->inputs, self->n_inputs);
    free_arrays(self->results, self->n_results);
    for (Py_ssize_t i = 0; i < self->n_sources; i++)
        PyMem_Free(self->sources[i].steps);
    PyMem_Free(self->sources);
    PyMem_Free(self->nodes);
    PyMem_Free(self->result_nodes);
    PyMem_Free(self->code);
    PyMem_Free(self->minimums);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *executable_workspace_bytes(Executable *self, void *closure)
{
    (void)closure;
    return PyLong_FromLongLong(self->workspace_bytes > 0 ? self->workspace_bytes : 0);
}

static PyGetSetDef executable_getset[] = {
    {"workspace_bytes", (getter)executable_workspace_bytes, NULL, "Size of the workspace kept between calls.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject ExecutableType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tracegrad_launcher.Executable",
    .tp_basicsize = sizeof(Executable),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "One specialization: checks its arguments, runs the kernel, returns results or NotImplemented.",
    .tp_new = executable_new,
    .tp_dealloc = (destructor)executable_dealloc,
    .tp_traverse = (traverseproc)executable_traverse,
    .tp_clear = (inquiry)executable_clear,
    .tp_getset = executable_getset,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Executable, vectorcall),
};

/* ---- Dispatcher ---------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *slow;
    PyObject *executables; /* list; the one that fitted last comes first */
} Dispatcher;

static PyObject *dispatcher_call(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *keywords)
{
    Dispatcher *self = (Dispatcher *)object;
    PyObject *list = self->executables;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *executable = Py_NewRef(PyList_GET_ITEM(list, i));
        PyObject *result = executable_call(executable, arguments, flags, keywords);
        if (result != Py_NotImplemented) {
            if (i > 0 && i < PyList_GET_SIZE(list) && PyList_GET_ITEM(list, i) == executable) {
                PyList_SET_ITEM(list, i, PyList_GET_ITEM(list, 0)); /* swaps: no reference count changes */
                PyList_SET_ITEM(list, 0, executable);
            }
            Py_DECREF(executable);
            return result;
        }
        Py_DECREF(result);
        Py_DECREF(executable);
    }
    if (self->slow == NULL) { /* cleared by the garbage collector */
        PyErr_SetString(PyExc_ReferenceError, "this function is being collected");
        return NULL;
    }
    return PyObject_Vectorcall(self->slow, arguments, flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
}

static PyObject *dispatcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"slow", NULL};
    PyObject *slow;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Dispatcher", names, &slow))
        return NULL;
    Dispatcher *self = (Dispatcher *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = dispatcher_call;
    self->slow = Py_NewRef(slow);
    self->executables = PyList_New(0);
    if (self->executables == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *dispatcher_add(Dispatcher *self, PyObject *executable)
{
    if (!Py_IS_TYPE(executable, &ExecutableType)) {
        PyErr_SetString(PyExc_TypeError, "an Executable is needed");
        return NULL;
    }
    if (PyList_Insert(self->executables, 0, executable) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *dispatcher_discard(Dispatcher *self, PyObject *executable)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(self->executables); i++)
        if (PyList_GET_ITEM(self->executables, i) == executable) {
            if (PyList_SetSlice(self->executables, i, i + 1, NULL) < 0)
                return NULL;
            break;
        }
    Py_RETURN_NONE;
}

static int dispatcher_traverse(Dispatcher *self, visitproc visit, void *arg)
{
    Py_VISIT(self->slow);
    Py_VISIT(self->executables);
    return 0;
}

static int dispatcher_clear(Dispatcher *self)
{
    Py_CLEAR(self->slow);
    if (self->executables != NULL)
        PyList_SetSlice(self->executables, 0, PyList_GET_SIZE(self->executables), NULL);
    return 0;
}

static void dispatcher_dealloc(Dispatcher *self)
{
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->slow);
    Py_CLEAR(self->executables);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef dispatcher_methods[] = {
    {"add", (PyCFunction)dispatcher_add, METH_O, "Add an Executable, to be tried first."},
    {"discard", (PyCFunction)dispatcher_discard, METH_O, "Remove an Executable if it is there."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject DispatcherType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tracegrad_launcher.Dispatcher",
    .tp_basicsize = sizeof(Dispatcher),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "Tries the Executables of one function, then calls the slow path.",
    .tp_new = dispatcher_new,
    .tp_dealloc = (destructor)dispatcher_dealloc,
    .tp_traverse = (traverseproc)dispatcher_traverse,
    .tp_clear = (inquiry)dispatcher_clear,
    .tp_methods = dispatcher_methods,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Dispatcher, vectorcall),
};

/* ---- Forward ------------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *name; /* of the attribute that is called */
} Forward;

static PyObject *forward_call(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *keywords)
{
    Forward *self = (Forward *)object;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "the instance is missing");
        return NULL;
    }
    PyObject *target = PyObject_GetAttr(arguments[0], self->name), *result;
    if (target == NULL)
        return NULL;
    /* The place of the instance is free for the callee, as the flag says. */
    size_t rest = (size_t)(count - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    result = Py_IS_TYPE(target, &DispatcherType) ? dispatcher_call(target, arguments + 1, rest, keywords)
                                                 : PyObject_Vectorcall(target, arguments + 1, rest, keywords);
    Py_DECREF(target);
    return result;
}

static PyObject *forward_get(PyObject *self, PyObject *instance, PyObject *owner)
{
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *forward_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", NULL};
    PyObject *name;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U:Forward", names, &name))
        return NULL;
    Forward *self = (Forward *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = forward_call;
    self->name = Py_NewRef(name);
    PyUnicode_InternInPlace(&self->name);
    return (PyObject *)self;
}

static void forward_dealloc(Forward *self)
{
    Py_DECREF(self->name);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject ForwardType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tracegrad_launcher.Forward",
    .tp_basicsize = sizeof(Forward),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_doc = "A method that calls an attribute of the instance: `__call__ = Forward(\"_dispatch\")`, in C.",
    .tp_new = forward_new,
    .tp_dealloc = (destructor)forward_dealloc,
    .tp_descr_get = forward_get,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Forward, vectorcall),
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tracegrad_launcher",
    .m_doc = "The fast call path of tracegrad.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit_tracegrad_launcher(void)
{
    import_array();
    if (PyType_Ready(&ExecutableType) < 0 || PyType_Ready(&DispatcherType) < 0 ||
        PyType_Ready(&ForwardType) < 0)
        return NULL;
    PyObject *self = PyModule_Create(&module);
    if (self == NULL)
        return NULL;
    if (PyModule_AddObjectRef(self, "Executable", (PyObject *)&ExecutableType) < 0 ||
        PyModule_AddObjectRef(self, "Dispatcher", (PyObject *)&DispatcherType) < 0 ||
        PyModule_AddObjectRef(self, "Forward", (PyObject *)&ForwardType) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return self;
}
