/* The fast path of eager tensors: an extension module, compiled once per machine and Python into the cache.

   Operation   a function of torch's as a callable. Its Python function only plans: from the types of the arguments it
               says which composition is applied to what. A plan is made once per signature of a call (dtypes and shapes
               of tensors, values of the rest) and kept as a Record; later calls with that signature run no Python but
               the kernel.
   apply       the same for a composition whose operands are known.
   walk        the backward walk over nodes that are kernels; all other nodes are visited by a Python function.

   The objects are those of tensor.py, tape.py and kernel.py: classes with __slots__, whose places are asked for once.
   Whatever is unusual (hooks, other modes, overwritten values) is left to the Python functions there, which do all of
   this where there is no compiler. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#ifdef Py_GIL_DISABLED
#error "written for a Python with the global interpreter lock"
#endif

#define MAX_OPERANDS 32 /* a mask has a bit for each; more go the slow way */
#define MAX_RECORDS 4096

/* ---- what Python gave --------------------------------------------------------------------------------------------- */

#define TYPES(X) X(Tensor) X(Storage) X(Saved) X(KernelNode) X(AccumulateGrad) X(Plan) X(Scalar) X(DType)
#define OBJECTS(X) X(sequence) X(nowhere) X(package) X(quiet_context) X(quietly) X(refresh) X(apply_slowly) \
    X(node_class) X(inference_error) X(add) X(is_finite) X(arrange) X(like_operands) X(kept) X(number_array) \
    X(refusal)
#define SLOTS(X) \
    X(Tensor, _a) X(Tensor, _storage) X(Tensor, _node) X(Tensor, _nr) X(Tensor, _requires_grad) X(Tensor, _grad) \
    X(Tensor, _base) X(Tensor, _steps) X(Tensor, _seen) X(Tensor, _origin) X(Tensor, _accumulator) \
    X(Tensor, _hooks) X(Tensor, _after) X(Tensor, _inference) \
    X(Storage, version) X(Storage, writer) X(Storage, renamed) X(Storage, shielded) X(Storage, left) \
    X(Saved, array) X(Saved, storage) X(Saved, version) X(Saved, kind) X(Saved, tangent) X(Saved, packed) \
    X(Saved, unpack) \
    X(KernelNode, order) X(KernelNode, edges) X(KernelNode, saved) X(KernelNode, code) X(KernelNode, instruction) \
    X(KernelNode, hooked) X(KernelNode, pullback) X(KernelNode, width) \
    X(AccumulateGrad, variable) \
    X(Composition, node_name) X(Composition, table) \
    X(Kernel, _run) X(Kernel, kept) X(Kernel, layout) \
    X(Pullback, kernel) X(Pullback, reads) X(Pullback, gives) X(Pullback, in_order) X(Pullback, fast) X(Pullback, brief) \
    X(Pullback, numbers)

#define X(name) static PyTypeObject *name##_type;
TYPES(X)
#undef X
#define X(name) static PyObject *py_##name;
OBJECTS(X)
#undef X
#define X(type, name) static Py_ssize_t at_##type##_##name;
SLOTS(X)
#undef X

#define SLOT(object, type, name) (*(PyObject **)((char *)(object) + at_##type##_##name))

static PyObject *zero, *empty_text, *empty_tuple, *str_kernel, *str_compile, *str_array, *str_pullback, *str_shorten;
static PyArray_Descr *position_descr;

static void set_slot(PyObject **slot, PyObject *owned)
{
    PyObject *before = *slot;
    *slot = owned;
    Py_XDECREF(before);
}

/* ---- the state of one thread -------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t thread; /* id of the Python thread state that the rest belongs to */
    int grad, unusual;
    PyObject *quiet; /* borrowed from the thread's dictionary */
} State;

static __thread State thread_state;

static State *current_state(void)
{
    uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    if (thread_state.thread != thread)
        thread_state = (State){thread, 1, 0, NULL};
    return &thread_state;
}

static PyObject *get_grad(PyObject *module, PyObject *mode)
{
    return PyBool_FromLong(current_state()->grad);
}

static PyObject *set_grad(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    int on = n == 2 ? PyObject_IsTrue(args[1]) : -1;
    if (on < 0)
        return NULL;
    current_state()->grad = on;
    Py_RETURN_NONE;
}

static PyObject *set_unusual(PyObject *module, PyObject *value)
{
    int on = PyObject_IsTrue(value);
    if (on < 0)
        return NULL;
    current_state()->unusual = on;
    Py_RETURN_NONE;
}

/* The context in which NumPy does not warn; NULL with an error. */
static PyObject *quiet_context(State *state)
{
    if (state->quiet == NULL) {
        PyObject *kept = PyThreadState_GetDict(), *made = PyObject_CallNoArgs(py_quiet_context);
        if (made == NULL)
            return NULL;
        if (kept == NULL || PyDict_SetItem(kept, py_quiet_context, made) < 0) {
            Py_DECREF(made);
            return NULL;
        }
        Py_DECREF(made);
        state->quiet = made;
    }
    return state->quiet;
}

/* Call a function without NumPy's warnings. */
static PyObject *run_quietly(State *state, PyObject *function, PyObject **args, Py_ssize_t n)
{
    PyObject *context = quiet_context(state);
    if (context == NULL)
        return NULL;
    if (PyContext_Enter(context) < 0) { /* called by a finalizer or signal handler in the midst of another kernel */
        if (!PyErr_ExceptionMatches(PyExc_RuntimeError) || n > MAX_OPERANDS)
            return NULL;
        PyErr_Clear();
        PyObject *all[MAX_OPERANDS + 1] = {function};
        memcpy(all + 1, args, (size_t)n * sizeof *args);
        return PyObject_Vectorcall(py_quietly, all, (size_t)n + 1, NULL);
    }
    Py_INCREF(function);
    PyObject *out = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    Py_DECREF(function);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyContext_Exit(context);
    PyErr_Restore(type, value, trace);
    return out;
}

/* Run a kernel, compiled if need be. */
static PyObject *run_kernel(State *state, PyObject *kernel, PyObject **args, Py_ssize_t n)
{
    PyObject *run = SLOT(kernel, Kernel, _run);
    run = run == Py_None ? PyObject_CallMethodNoArgs(kernel, str_compile) : Py_NewRef(run);
    PyObject *found = run == NULL ? NULL : run_quietly(state, run, args, n);
    Py_XDECREF(run);
    return found;
}

/* Take what a kernel gave as an array; the reference is consumed. */
static PyObject *as_array(PyObject *value)
{
    if (value == NULL || PyArray_CheckExact(value))
        return value;
    PyObject *made = PyArray_FromAny(value, NULL, 0, 0, NPY_ARRAY_ENSUREARRAY, NULL);
    Py_DECREF(value);
    return made;
}

/* A view of the memory of an array; strides are in bytes. */
static PyObject *view_of(PyArrayObject *array, int rank, npy_intp *sizes, npy_intp *strides, void *data)
{
    PyObject *made = PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef(PyArray_DESCR(array)), rank, sizes,
                                          strides, data, PyArray_FLAGS(array) & NPY_ARRAY_WRITEABLE, NULL);
    if (made != NULL && PyArray_SetBaseObject((PyArrayObject *)made, Py_NewRef(array)) < 0)
        Py_CLEAR(made);
    return made;
}

/* strided(array, shape, strides): a view of the memory from the first element on, with strides in bytes. */
static PyObject *strided(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS];
    if (n_args != 3 || !PyArray_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "strided takes an array, a shape and strides");
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)args[0];
    int rank = PyArray_IntpFromSequence(args[1], sizes, NPY_MAXDIMS);
    if (rank < 0 || PyArray_IntpFromSequence(args[2], strides, NPY_MAXDIMS) != rank) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "strided takes as many strides as sizes");
        return NULL;
    }
    return view_of(array, rank, sizes, strides, PyArray_DATA(array));
}

/* ---- places in the user's code ------------------------------------------------------------------------------------ */

static int is_inside(PyCodeObject *code)
{
    Py_ssize_t length, own;
    const char *name = PyUnicode_AsUTF8AndSize(code->co_filename, &length);
    const char *package = PyUnicode_AsUTF8AndSize(py_package, &own);
    if (name == NULL || package == NULL) {
        PyErr_Clear();
        return 0;
    }
    return (length >= own && memcmp(name, package, (size_t)own) == 0) || strncmp(name, "<tracegrad", 10) == 0;
}

/* Find code and instruction of the innermost frame outside the package; *code is owned, None if there is none. */
static void find_place(PyObject **code, int *instruction)
{
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    *instruction = 0;
    while (frame != NULL) {
        PyCodeObject *found = PyFrame_GetCode(frame);
        if (!is_inside(found)) {
            *code = (PyObject *)found;
            *instruction = PyFrame_GetLasti(frame);
            Py_DECREF(frame);
            return;
        }
        Py_DECREF(found);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    *code = Py_NewRef(Py_None);
}

static PyObject *user_place(PyObject *module, PyObject *none)
{
    PyObject *code;
    int instruction;
    find_place(&code, &instruction);
    return Py_BuildValue("Ni", code, instruction);
}

/* ---- objects of the tape ------------------------------------------------------------------------------------------ */

#define NEW(type) ((type)->tp_alloc(type, 0))
#define FILL(object, type, name, value) (SLOT(object, type, name) = Py_NewRef(value))

/* Make a leaf over an array; the reference is consumed, NULL is passed on. */
static PyObject *new_tensor(PyObject *array)
{
    if (array == NULL)
        return NULL;
    PyObject *tensor = NEW(Tensor_type), *storage = NEW(Storage_type);
    if (tensor == NULL || storage == NULL) {
        Py_XDECREF(tensor);
        Py_XDECREF(storage);
        Py_DECREF(array);
        return NULL;
    }
    FILL(storage, Storage, version, zero);
    FILL(storage, Storage, writer, Py_None);
    FILL(storage, Storage, renamed, Py_None);
    FILL(storage, Storage, shielded, Py_None);
    FILL(storage, Storage, left, Py_None);
    SLOT(tensor, Tensor, _a) = array;
    SLOT(tensor, Tensor, _storage) = storage;
    FILL(tensor, Tensor, _node, Py_None);
    FILL(tensor, Tensor, _nr, zero);
    FILL(tensor, Tensor, _requires_grad, Py_False);
    FILL(tensor, Tensor, _grad, Py_None);
    FILL(tensor, Tensor, _base, Py_None);
    FILL(tensor, Tensor, _steps, empty_tuple);
    FILL(tensor, Tensor, _seen, zero);
    FILL(tensor, Tensor, _origin, empty_text);
    FILL(tensor, Tensor, _accumulator, Py_None);
    FILL(tensor, Tensor, _hooks, Py_None);
    FILL(tensor, Tensor, _after, Py_None);
    FILL(tensor, Tensor, _inference, Py_False);
    return tensor;
}

static PyObject *wrap(PyObject *module, PyObject *array)
{
    if (Tensor_type == NULL || !PyArray_Check(array)) {
        PyErr_SetString(PyExc_TypeError, "wrap takes an array, once tape.py is imported");
        return NULL;
    }
    return new_tensor(Py_NewRef(array));
}

static int same_number(PyObject *a, PyObject *b)
{
    return a == b || (PyLong_Check(a) && PyLong_Check(b) && PyLong_AsLongLong(a) == PyLong_AsLongLong(b));
}

/* A view whose memory was written since its node was found. */
static int is_stale(PyObject *tensor)
{
    return SLOT(tensor, Tensor, _base) != Py_None &&
           !same_number(SLOT(tensor, Tensor, _seen), SLOT(SLOT(tensor, Tensor, _storage), Storage, version));
}

static int is_in_graph(PyObject *tensor)
{
    return SLOT(tensor, Tensor, _node) != Py_None || SLOT(tensor, Tensor, _requires_grad) == Py_True;
}

static int bring_up_to_date(PyObject *tensor)
{
    if (!is_stale(tensor))
        return 0;
    PyObject *done = PyObject_CallOneArg(py_refresh, tensor);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *next_order(void)
{
    return Py_TYPE(py_sequence)->tp_iternext(py_sequence);
}

static void fill_node(PyObject *node, PyObject *order)
{
    SLOT(node, KernelNode, order) = order;
    FILL(node, KernelNode, edges, empty_tuple);
    FILL(node, KernelNode, saved, Py_None);
    FILL(node, KernelNode, code, Py_None);
    FILL(node, KernelNode, instruction, zero);
    FILL(node, KernelNode, hooked, Py_False);
    FILL(node, KernelNode, pullback, Py_None);
    FILL(node, KernelNode, width, zero);
}

/* The node that a leaf's weak reference still reaches, a new reference; NULL, perhaps with an error, if there is none. */
static PyObject *living_accumulator(PyObject *tensor)
{
    PyObject *reference = SLOT(tensor, Tensor, _accumulator), *node = NULL;
    if (reference == Py_None)
        return NULL;
#if PY_VERSION_HEX >= 0x030D0000
    PyWeakref_GetRef(reference, &node);
#else
    node = PyWeakref_GetObject(reference);
    node = node == NULL || node == Py_None ? NULL : Py_NewRef(node);
#endif
    return node;
}

/* The node that accumulates into a leaf, the same one as long as anything refers to it; a new reference. */
static PyObject *accumulator(PyObject *tensor)
{
    PyObject *node = living_accumulator(tensor), *made = NULL, *reference = NULL;
    if (node != NULL || PyErr_Occurred())
        return node;
    PyObject *order = PyLong_FromLongLong(1LL << 62);
    if (order == NULL)
        return NULL;
    made = NEW(AccumulateGrad_type);
    if (made == NULL) {
        Py_DECREF(order);
        return NULL;
    }
    fill_node(made, order);
    set_slot(&SLOT(made, KernelNode, width), PyLong_FromLong(1));
    FILL(made, AccumulateGrad, variable, tensor);
    reference = PyWeakref_NewRef(made, NULL);
    node = reference == NULL ? NULL : living_accumulator(tensor); /* another thread may have made one meanwhile */
    if (reference == NULL || node != NULL || PyErr_Occurred()) {
        Py_XDECREF(reference);
        Py_DECREF(made);
        return node;
    }
    set_slot(&SLOT(tensor, Tensor, _accumulator), reference);
    return made;
}

/* ---- records ------------------------------------------------------------------------------------------------------ */

enum { ATOM_TENSOR, ATOM_SAME, ATOM_NUMBER, ATOM_VALUE };

/* One argument as the key of a record sees it. */
typedef struct {
    int kind;
    PyObject *object; /* a value; of a number its type */
    PyArray_Descr *descr;
    int ndim;
    const npy_intp *dims;
    Py_ssize_t same; /* number of the earlier argument that is the same tensor */
} Atom;

/* Which operands require grad, and what follows from that. */
typedef struct {
    uint64_t mask;
    int recorded;
    PyTypeObject *node_type; /* owned, as is all below */
    PyObject *pullback;
    Py_ssize_t n_reads;
    struct { int from_result, number; PyObject *kind; } *reads;
    int asked;         /* whether `keeping` was looked for, which the second application does */
    PyObject *keeping; /* the kernel whose last results are kept for the pullback, NULL if there is none */
} Pattern;

typedef struct {
    Py_ssize_t source;      /* number of the argument; -1 for a constant */
    PyArray_Descr *descr;   /* of a Python number or a constant, else NULL */
    PyObject *last, *array; /* the number that came last, as an array */
} Operand;

typedef struct {
    PyObject_HEAD
    uint64_t hash;
    Py_ssize_t n_atoms, n_operands, n_patterns;
    PyObject *names; /* of keyword arguments, or NULL */
    PyObject *title, *kernel;
    Pattern **patterns;
    Atom *atoms; /* these three lie behind the record */
    Operand *operands;
    npy_intp *dims;
} Record;

static void free_pattern(Pattern *pattern)
{
    if (pattern == NULL)
        return;
    Py_XDECREF(pattern->node_type);
    Py_XDECREF(pattern->pullback);
    for (Py_ssize_t i = 0; i < pattern->n_reads; i++)
        Py_XDECREF(pattern->reads[i].kind);
    PyMem_Free(pattern->reads);
    Py_XDECREF(pattern->keeping);
    PyMem_Free(pattern);
}

static void record_dealloc(Record *self)
{
    for (Py_ssize_t i = 0; i < self->n_patterns; i++)
        free_pattern(self->patterns[i]);
    PyMem_Free(self->patterns);
    for (Py_ssize_t i = 0; i < self->n_atoms; i++) {
        Py_XDECREF(self->atoms[i].object);
        Py_XDECREF(self->atoms[i].descr);
    }
    for (Py_ssize_t i = 0; i < self->n_operands; i++) {
        Py_XDECREF(self->operands[i].descr);
        Py_XDECREF(self->operands[i].last);
        Py_XDECREF(self->operands[i].array);
    }
    Py_XDECREF(self->names);
    Py_XDECREF(self->title);
    Py_XDECREF(self->kernel);
    PyObject_Free(self);
}

static PyTypeObject Record_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tracegrad_engine.Record",
    .tp_basicsize = sizeof(Record),
    .tp_dealloc = (destructor)record_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

/* Records by the hash of their key, in open addressing. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t size, used; /* size is a power of two or 0 */
    Record **places;
} Table;

static void table_clear(Table *self)
{
    Record **places = self->places;
    Py_ssize_t size = self->size;
    self->places = NULL;
    self->size = self->used = 0;
    for (Py_ssize_t i = 0; i < size; i++)
        Py_XDECREF(places[i]);
    PyMem_Free(places);
}

static void table_dealloc(Table *self)
{
    table_clear(self);
    PyObject_Free(self);
}

static PyTypeObject Table_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tracegrad_engine.Table",
    .tp_basicsize = sizeof(Table),
    .tp_dealloc = (destructor)table_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 32);
}

/* Values that are equal only if they mean the same: 2 is not 2.0 and not True. */
static int is_plain_value(PyObject *value)
{
    if (value == Py_None || PyBool_Check(value) || PyUnicode_CheckExact(value) || PyLong_CheckExact(value) ||
        PyFloat_CheckExact(value) || Py_IS_TYPE(value, DType_type))
        return 1;
    if (!PyTuple_CheckExact(value))
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); i++) {
        PyObject *item = PyTuple_GET_ITEM(value, i);
        if (item != Py_None && !PyLong_CheckExact(item) && !PyUnicode_CheckExact(item))
            return 0;
    }
    return 1;
}

static void tensor_atom(PyObject *tensor, Atom *atom, uint64_t *hash)
{
    PyArrayObject *array = (PyArrayObject *)SLOT(tensor, Tensor, _a);
    *atom = (Atom){ATOM_TENSOR, NULL, PyArray_DESCR(array), PyArray_NDIM(array), PyArray_DIMS(array), 0};
    uint64_t found = mix(*hash, (uint64_t)(uintptr_t)atom->descr + (uint64_t)atom->ndim);
    for (int i = 0; i < atom->ndim; i++)
        found = mix(found, (uint64_t)atom->dims[i]);
    *hash = found;
}

/* Describe an argument; 0 if it cannot be part of a key. */
static int value_atom(PyObject *value, int number, Atom *atom, uint64_t *hash)
{
    PyObject *type = (PyObject *)Py_TYPE(value);
    if (number && (PyFloat_CheckExact(value) || PyLong_CheckExact(value))) {
        *atom = (Atom){ATOM_NUMBER, type, NULL, 0, NULL, 0};
        *hash = mix(*hash, (uint64_t)(uintptr_t)type);
        return 1;
    }
    if (!is_plain_value(value))
        return 0;
    Py_hash_t own = PyObject_Hash(value);
    if (own == -1) {
        PyErr_Clear();
        return 0;
    }
    *atom = (Atom){ATOM_VALUE, value, NULL, 0, NULL, 0};
    *hash = mix(*hash, (uint64_t)own);
    return 1;
}

static int same_value(PyObject *a, PyObject *b)
{
    if (a == b)
        return 1;
    if (Py_TYPE(a) != Py_TYPE(b))
        return 0;
    if (PyFloat_CheckExact(a)) { /* 0.0 and -0.0 differ */
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return memcmp(&x, &y, sizeof x) == 0;
    }
    int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0)
        PyErr_Clear();
    return same > 0;
}

static int is_same_key(const Record *record, const Atom *atoms, Py_ssize_t n, PyObject *names)
{
    if (record->n_atoms != n || (record->names == NULL) != (names == NULL))
        return 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        const Atom *a = &record->atoms[i], *b = &atoms[i];
        if (a->kind != b->kind)
            return 0;
        if (a->kind == ATOM_TENSOR) {
            if (a->descr != b->descr || a->ndim != b->ndim)
                return 0;
            for (int k = 0; k < a->ndim; k++)
                if (a->dims[k] != b->dims[k])
                    return 0;
        } else if (a->kind == ATOM_SAME) {
            if (a->same != b->same)
                return 0;
        } else if (a->kind == ATOM_NUMBER ? a->object != b->object : !same_value(a->object, b->object)) {
            return 0;
        }
    }
    return names == NULL || same_value(record->names, names);
}

/* The record of a key, borrowed, or NULL. */
static Record *table_find(const Table *table, uint64_t hash, const Atom *atoms, Py_ssize_t n, PyObject *names)
{
    if (table->size == 0)
        return NULL;
    size_t bits = (size_t)table->size - 1;
    for (size_t at = (size_t)hash & bits; table->places[at] != NULL; at = (at + 1) & bits)
        if (table->places[at]->hash == hash && is_same_key(table->places[at], atoms, n, names))
            return table->places[at];
    return NULL;
}

static int table_add(Table *table, Record *record)
{
    if (table->used >= MAX_RECORDS)
        table_clear(table);
    if (2 * (table->used + 1) > table->size) {
        Py_ssize_t size = table->size ? 2 * table->size : 4;
        Record **places = PyMem_Calloc((size_t)size, sizeof *places);
        if (places == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        for (Py_ssize_t i = 0; i < table->size; i++) {
            Record *moved = table->places[i];
            if (moved == NULL)
                continue;
            size_t at = (size_t)moved->hash & (size_t)(size - 1);
            while (places[at] != NULL)
                at = (at + 1) & (size_t)(size - 1);
            places[at] = moved;
        }
        PyMem_Free(table->places);
        table->places = places;
        table->size = size;
    }
    size_t at = (size_t)record->hash & (size_t)(table->size - 1);
    while (table->places[at] != NULL)
        at = (at + 1) & (size_t)(table->size - 1);
    table->places[at] = (Record *)Py_NewRef(record);
    table->used++;
    return 0;
}

/* Make the record of a kernel; its operands' sources are filled in by the caller. */
static Record *new_record(uint64_t hash, const Atom *atoms, Py_ssize_t n, PyObject *names, PyObject *title,
                          PyObject *kernel, Py_ssize_t n_operands)
{
    Py_ssize_t n_dims = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        n_dims += atoms[i].ndim;
    size_t sizes[] = {sizeof(Record), (size_t)n * sizeof(Atom), (size_t)n_operands * sizeof(Operand),
                      (size_t)n_dims * sizeof(npy_intp)};
    char *block = PyObject_Calloc(1, sizes[0] + sizes[1] + sizes[2] + sizes[3]);
    Record *record = (Record *)block;
    if (record == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    record->atoms = (Atom *)(block + sizes[0]);
    record->operands = (Operand *)(block + sizes[0] + sizes[1]);
    record->dims = (npy_intp *)(block + sizes[0] + sizes[1] + sizes[2]);
    PyObject_Init((PyObject *)record, &Record_type);
    record->hash = hash;
    record->n_atoms = n;
    record->n_operands = n_operands;
    record->names = Py_XNewRef(names);
    record->title = Py_NewRef(title);
    record->kernel = Py_NewRef(kernel);
    npy_intp *dims = record->dims;
    for (Py_ssize_t i = 0; i < n; i++) {
        record->atoms[i] = atoms[i];
        Py_XINCREF(atoms[i].object);
        Py_XINCREF(atoms[i].descr);
        if (atoms[i].ndim)
            memcpy(dims, atoms[i].dims, (size_t)atoms[i].ndim * sizeof *dims);
        record->atoms[i].dims = dims;
        dims += atoms[i].ndim;
    }
    return record;
}

static int is_differentiable(PyObject *tensor)
{
    char kind = PyArray_DESCR((PyArrayObject *)SLOT(tensor, Tensor, _a))->kind;
    return kind == 'f' || kind == 'c' || kind == 'V';
}

/* The pattern of a record for the operands that require grad, NULL if there is none yet. */
static Pattern *find_pattern(Record *record, uint64_t mask)
{
    for (Py_ssize_t i = 0; i < record->n_patterns; i++)
        if (record->patterns[i]->mask == mask)
            return record->patterns[i];
    return NULL;
}

static Pattern *make_pattern(Record *record, uint64_t mask, PyObject **outs, Py_ssize_t n_outs)
{
    Pattern *made = PyMem_Calloc(1, sizeof *made);
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    made->mask = mask;
    for (Py_ssize_t i = 0; i < n_outs; i++)
        made->recorded |= is_differentiable(outs[i]);
    if (made->recorded) {
        PyObject *number = PyLong_FromUnsignedLongLong(mask);
        PyObject *type = number == NULL ? NULL : PyObject_CallOneArg(py_node_class, record->title);
        made->node_type = (PyTypeObject *)type;
        made->pullback = type == NULL ? NULL : PyObject_CallMethodOneArg(record->kernel, str_pullback, number);
        Py_XDECREF(number);
        PyObject *reads = made->pullback == NULL ? NULL : SLOT(made->pullback, Pullback, reads);
        if (reads != NULL) {
            made->reads = PyMem_Calloc((size_t)PyTuple_GET_SIZE(reads) + 1, sizeof *made->reads);
            for (; made->reads != NULL && made->n_reads < PyTuple_GET_SIZE(reads); made->n_reads++) {
                PyObject *kind = PyTuple_GET_ITEM(reads, made->n_reads);
                made->reads[made->n_reads].kind = Py_NewRef(kind);
                made->reads[made->n_reads].number = (int)PyLong_AsLong(PyTuple_GET_ITEM(kind, 1));
                made->reads[made->n_reads].from_result =
                    PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kind, 0), "out") == 0;
            }
        }
        if (made->reads == NULL) {
            if (!PyErr_Occurred())
                PyErr_NoMemory();
            free_pattern(made);
            return NULL;
        }
    }
    Pattern **longer = PyMem_Realloc(record->patterns, ((size_t)record->n_patterns + 1) * sizeof *longer);
    if (longer == NULL) {
        free_pattern(made);
        PyErr_NoMemory();
        return NULL;
    }
    record->patterns = longer;
    return record->patterns[record->n_patterns++] = made;
}

static PyObject *new_saved(PyObject *array, PyObject *storage, PyObject *kind)
{
    PyObject *saved = NEW(Saved_type);
    if (saved == NULL)
        return NULL;
    FILL(saved, Saved, array, array);
    FILL(saved, Saved, storage, storage);
    FILL(saved, Saved, version, storage == Py_None ? zero : SLOT(storage, Storage, version));
    FILL(saved, Saved, kind, kind);
    FILL(saved, Saved, tangent, Py_None);
    FILL(saved, Saved, packed, Py_None);
    FILL(saved, Saved, unpack, Py_None);
    return saved;
}

static PyObject *edges_of(const Pattern *pattern, PyObject **tensors, Py_ssize_t n)
{
    PyObject *edges = PyTuple_New(n);
    for (Py_ssize_t i = 0; edges != NULL && i < n; i++) {
        PyObject *edge;
        if (!(pattern->mask >> i & 1)) {
            edge = Py_NewRef(py_nowhere);
        } else if (SLOT(tensors[i], Tensor, _node) != Py_None) {
            edge = PyTuple_Pack(2, SLOT(tensors[i], Tensor, _node), SLOT(tensors[i], Tensor, _nr));
        } else if (SLOT(tensors[i], Tensor, _requires_grad) != Py_True) {
            edge = Py_NewRef(py_nowhere); /* a view that is not connected with its base */
        } else {
            PyObject *leaf = accumulator(tensors[i]);
            edge = leaf == NULL ? NULL : PyTuple_Pack(2, leaf, zero);
            Py_XDECREF(leaf);
        }
        if (edge == NULL)
            Py_CLEAR(edges);
        else
            PyTuple_SET_ITEM(edges, i, edge);
    }
    return edges;
}

/* What the pullback reads, then the `n_kept` values that it would compute again. */
static PyObject *saved_of(const Pattern *pattern, PyObject **tensors, PyObject **arrays, PyObject **outs,
                          PyObject **kept, Py_ssize_t n_kept)
{
    if (pattern->n_reads == 0)
        return Py_NewRef(Py_None);
    PyObject *saved = PyList_New(pattern->n_reads + n_kept);
    for (Py_ssize_t i = 0; saved != NULL && i < pattern->n_reads; i++) {
        int number = pattern->reads[i].number;
        PyObject *tensor = pattern->reads[i].from_result ? outs[number] : tensors[number], *item;
        if (tensor == NULL) {
            item = new_saved(arrays[number], Py_None, pattern->reads[i].kind);
        } else if (SLOT(tensor, Tensor, _inference) != Py_False) {
            PyObject *error = PyObject_CallNoArgs(py_inference_error);
            if (error != NULL)
                PyErr_SetObject((PyObject *)Py_TYPE(error), error);
            Py_XDECREF(error);
            item = NULL;
        } else {
            item = new_saved(SLOT(tensor, Tensor, _a), SLOT(tensor, Tensor, _storage), pattern->reads[i].kind);
        }
        if (item == NULL)
            Py_CLEAR(saved);
        else
            PyList_SET_ITEM(saved, i, item);
    }
    for (Py_ssize_t i = 0; saved != NULL && i < n_kept; i++) {
        PyObject *item = new_saved(kept[i], Py_None, py_kept);
        if (item == NULL)
            Py_CLEAR(saved);
        else
            PyList_SET_ITEM(saved, pattern->n_reads + i, item);
    }
    return saved;
}

/* The operands that require grad, a bit each. `tensors` has NULL for a number. */
static uint64_t mask_of(PyObject **tensors, Py_ssize_t n)
{
    uint64_t mask = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        if (tensors[i] != NULL &&
            (is_in_graph(tensors[i]) || (SLOT(tensors[i], Tensor, _base) != Py_None &&
                                         is_in_graph(SLOT(tensors[i], Tensor, _base)))))
            mask |= (uint64_t)1 << i;
    return mask;
}

/* Make the node of an application. */
static int record_application(Record *record, Pattern *pattern, PyObject **tensors, PyObject **arrays, PyObject **outs,
                              Py_ssize_t n_outs, PyObject **kept, Py_ssize_t n_kept)
{
    if (!pattern->recorded)
        return 0;
    PyObject *edges = edges_of(pattern, tensors, record->n_operands);
    PyObject *saved = edges == NULL ? NULL : saved_of(pattern, tensors, arrays, outs, kept, n_kept);
    PyObject *order = saved == NULL ? NULL : next_order();
    PyObject *node = order == NULL ? NULL : NEW(pattern->node_type);
    if (node == NULL) {
        Py_XDECREF(edges);
        Py_XDECREF(saved);
        Py_XDECREF(order);
        return -1;
    }
    int instruction;
    SLOT(node, KernelNode, order) = order;
    SLOT(node, KernelNode, edges) = edges;
    SLOT(node, KernelNode, saved) = saved;
    find_place(&SLOT(node, KernelNode, code), &instruction);
    SLOT(node, KernelNode, instruction) = PyLong_FromLong(instruction);
    FILL(node, KernelNode, hooked, Py_False);
    FILL(node, KernelNode, pullback, pattern->pullback);
    SLOT(node, KernelNode, width) = PyLong_FromSsize_t(n_outs);
    for (Py_ssize_t i = 0; i < n_outs; i++)
        if (n_outs == 1 || is_differentiable(outs[i])) {
            set_slot(&SLOT(outs[i], Tensor, _node), Py_NewRef(node));
            set_slot(&SLOT(outs[i], Tensor, _nr), PyLong_FromSsize_t(i));
        }
    Py_DECREF(node);
    return 0;
}

/* A Python number as an array of rank 0; a new reference. */
static PyObject *number_array(PyObject *value, PyArray_Descr *descr)
{
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef(descr), 0, NULL, NULL, NULL, 0, NULL);
    if (array == NULL)
        return NULL;
    void *data = PyArray_DATA((PyArrayObject *)array);
    int failed = 0;
    if (PyFloat_CheckExact(value) && descr->type_num == NPY_FLOAT)
        *(float *)data = (float)PyFloat_AS_DOUBLE(value);
    else
        failed = PyArray_SETITEM((PyArrayObject *)array, data, value) < 0;
    if (failed) {
        Py_CLEAR(array);
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Clear();
            array = PyObject_CallFunctionObjArgs(py_number_array, value, descr, NULL);
        }
    }
    return array;
}

/* Whether the axes a, b of results must change places, so that a is not the faster one: 1, or -1 if they must not. */
static int must_swap(PyArrayObject *out, PyObject **operands, Py_ssize_t n, int a, int b)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        PyArrayObject *operand = (PyArrayObject *)operands[i];
        npy_intp strides[2] = {0, 0};
        const int axes[2] = {a, b};
        for (int k = 0; k < 2; k++) {
            int own = axes[k] - (PyArray_NDIM(out) - PyArray_NDIM(operand));
            if (own >= 0 && (PyArray_DIM(operand, own) != 1 || PyArray_DIM(out, axes[k]) == 1))
                strides[k] = PyArray_STRIDE(operand, own);
        }
        if (strides[0] == 0 || strides[1] == 0)
            continue;
        if (strides[0] != strides[1])
            return strides[0] > strides[1] ? 1 : -1;
        if (PyArray_DIM(out, a) > PyArray_DIM(out, b))
            return 1;
    }
    return 0;
}

/* Whether a result has the strides that elementwise operations give; layout.dense_strides says which. */
static int is_like_operands(PyArrayObject *out, PyObject **operands, Py_ssize_t n)
{
    int order[NPY_MAXDIMS], rank = PyArray_NDIM(out); /* the fastest axis first */
    for (int k = 0; k < rank; k++) {
        order[k] = rank - 1 - k;
        int moving = k, verdict = 0;
        for (int before = k - 1; before >= 0 && verdict >= 0; before--) {
            verdict = must_swap(out, operands, n, order[before], order[moving]);
            if (verdict > 0) {
                int axis = order[before];
                order[before] = order[moving];
                order[moving] = axis;
                moving = before;
            }
        }
    }
    npy_intp step = PyArray_ITEMSIZE(out);
    for (int k = 0; k < rank; k++) {
        if (PyArray_STRIDE(out, order[k]) != step)
            return 0;
        step *= PyArray_DIM(out, order[k]) ? PyArray_DIM(out, order[k]) : 1;
    }
    return 1;
}

/* Whether elements fill their memory without gaps or overlaps, in some order of the axes. */
static int is_dense(PyArrayObject *array)
{
    npy_intp expected = PyArray_ITEMSIZE(array);
    int rank = PyArray_NDIM(array), left = 0;
    for (int axis = 0; axis < rank; axis++)
        left += PyArray_DIM(array, axis) != 1;
    for (; left > 0; left--) {
        int next = -1; /* the axis that runs fastest among those that are left */
        for (int axis = 0; axis < rank && next < 0; axis++)
            if (PyArray_DIM(array, axis) != 1 && PyArray_STRIDE(array, axis) == expected)
                next = axis;
        if (next < 0 || PyArray_DIM(array, next) == 0)
            return 0;
        expected *= PyArray_DIM(array, next);
    }
    return 1;
}

/* Whether all operands have the shape of a result, and one layout that has no gaps: it is that of the result. */
static int is_of_one_kind(PyArrayObject *out, PyObject **operands, Py_ssize_t n)
{
    int rank = PyArray_NDIM(out);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyArrayObject *operand = (PyArrayObject *)operands[i], *first = (PyArrayObject *)operands[0];
        if (PyArray_NDIM(operand) != rank || !PyArray_CompareLists(PyArray_DIMS(operand), PyArray_DIMS(out), rank) ||
            !PyArray_CompareLists(PyArray_STRIDES(operand), PyArray_STRIDES(first), rank))
            return 0;
    }
    return n > 0 && is_dense((PyArrayObject *)operands[0]);
}

/* Give a result (consumed) the strides that follow from those of the operands; see layout.py. */
static PyObject *settle(PyObject *kernel, PyObject **operands, Py_ssize_t n, PyObject *out)
{
    PyObject *layout = SLOT(kernel, Kernel, layout);
    if (out == NULL || layout == Py_None || PyArray_NDIM((PyArrayObject *)out) == 0)
        return out;
    PyArrayObject *array = (PyArrayObject *)out;
    const int like_operands = layout == py_like_operands;
    int usual = PyArray_IS_C_CONTIGUOUS(array);
    for (Py_ssize_t i = 0; usual && like_operands && i < n; i++)
        usual = PyArray_IS_C_CONTIGUOUS((PyArrayObject *)operands[i]);
    npy_intp step = PyArray_ITEMSIZE(array);
    for (int axis = PyArray_NDIM(array) - 1; usual && axis >= 0; axis--) {
        usual = PyArray_STRIDE(array, axis) == step;
        step *= PyArray_DIM(array, axis) ? PyArray_DIM(array, axis) : 1;
    }
    if (!usual && like_operands && PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA)) {
        PyArrayObject *first = n ? (PyArrayObject *)operands[0] : array;
        if (!is_of_one_kind(array, operands, n))
            usual = is_like_operands(array, operands, n);
        else
            usual = PyArray_ITEMSIZE(first) == PyArray_ITEMSIZE(array) &&
                    PyArray_CompareLists(PyArray_STRIDES(first), PyArray_STRIDES(array), PyArray_NDIM(array));
    }
    if (usual)
        return out;
    PyObject *given = PyTuple_New(n);
    if (given == NULL) {
        Py_DECREF(out);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        PyTuple_SET_ITEM(given, i, Py_NewRef(operands[i]));
    PyObject *made = PyObject_CallFunctionObjArgs(py_arrange, layout, given, out, NULL);
    Py_DECREF(given);
    Py_DECREF(out);
    return made;
}

/* The kernel of a pattern that also gives what is kept for the pullback, borrowed; NULL, perhaps with an error, if there
   is none. It is looked for when the pattern is seen the second time: what is done once shall not wait for it. */
static PyObject *find_keeping(Pattern *pattern)
{
    if (!pattern->asked && pattern->recorded) {
        pattern->asked = 1;
        PyObject *found = PyObject_CallMethodNoArgs(pattern->pullback, str_shorten);
        if (found == NULL)
            return NULL;
        if (found == Py_None)
            Py_DECREF(found);
        else
            pattern->keeping = found;
    }
    return pattern->keeping;
}

/* Run the kernel of a record on the arguments of a call, and record the application; a tensor or a tuple of tensors. */
static PyObject *execute(State *state, Record *record, PyObject *const *args)
{
    PyObject *tensors[MAX_OPERANDS], *arrays[MAX_OPERANDS], *outs[MAX_OPERANDS], *result = NULL, *kernel, **kept = outs;
    Py_ssize_t n = record->n_operands, held = 0, n_outs = 0, n_kept = 0;
    PyObject *type = NULL, *refusal = NULL, *trace = NULL; /* of a view that may not be differentiated through */
    Pattern *pattern = NULL;
    uint64_t mask = 0;
    Py_INCREF(record);
    for (; held < n; held++) {
        PyObject *value = record->operands[held].source < 0 ? record->operands[held].last
                                                            : args[record->operands[held].source];
        if (record->operands[held].descr == NULL) {
            if (state->grad && bring_up_to_date(value) < 0) {
                if (type != NULL)
                    PyErr_Clear();
                else
                    PyErr_Fetch(&type, &refusal, &trace);
            }
            tensors[held] = value;
            arrays[held] = Py_NewRef(SLOT(value, Tensor, _a));
            continue;
        }
        tensors[held] = NULL;
        if (record->operands[held].last != value) {
            PyObject *made = number_array(value, record->operands[held].descr);
            if (made == NULL)
                goto finish;
            set_slot(&record->operands[held].array, made);
            set_slot(&record->operands[held].last, Py_NewRef(value));
        }
        arrays[held] = Py_NewRef(record->operands[held].array);
    }
    kernel = record->kernel;
    if (state->grad && (mask = mask_of(tensors, n)) != 0 && (pattern = find_pattern(record, mask)) != NULL) {
        PyObject *keeping = find_keeping(pattern);
        if (keeping != NULL)
            kernel = keeping;
        else if (PyErr_Occurred())
            goto finish;
    }
    PyObject *found = run_kernel(state, kernel, arrays, n);
    if (found == NULL)
        goto finish;
    if (PyTuple_CheckExact(found)) {
        const Py_ssize_t n_found = PyTuple_GET_SIZE(found);
        if (n_found > MAX_OPERANDS) {
            PyErr_SetString(PyExc_SystemError, "an operation has more results than expected");
            Py_DECREF(found);
            goto finish;
        }
        if (kernel != record->kernel)
            n_kept = PyLong_AsSsize_t(SLOT(kernel, Kernel, kept));
        for (; n_outs < n_found - n_kept; n_outs++) {
            PyObject *array = as_array(Py_NewRef(PyTuple_GET_ITEM(found, n_outs)));
            outs[n_outs] = new_tensor(settle(record->kernel, arrays, n, array));
            if (outs[n_outs] == NULL)
                break;
        }
        kept = outs + n_outs;
        int complete = n_outs == n_found - n_kept;
        Py_ssize_t at = 0;
        for (; complete && at < n_kept; at++) {
            kept[at] = as_array(Py_NewRef(PyTuple_GET_ITEM(found, n_outs + at)));
            if (kept[at] == NULL)
                complete = 0;
        }
        Py_DECREF(found);
        if (!complete) {
            n_kept = at > 0 && kept[at - 1] == NULL ? at - 1 : at;
            goto finish;
        }
    } else {
        outs[0] = new_tensor(settle(record->kernel, arrays, n, as_array(found)));
        if (outs[0] == NULL)
            goto finish;
        n_outs = 1;
    }
    for (Py_ssize_t i = 0; type != NULL && i < n_outs; i++) {
        if (is_differentiable(outs[i])) {
            PyErr_Restore(type, refusal, trace);
            type = refusal = trace = NULL;
            goto finish;
        }
    }
    if (mask && ((pattern == NULL && (pattern = make_pattern(record, mask, outs, n_outs)) == NULL) ||
                 record_application(record, pattern, tensors, arrays, outs, n_outs, kept, n_kept) < 0))
        goto finish;
    if (n_outs == 1) {
        result = Py_NewRef(outs[0]);
    } else if ((result = PyTuple_New(n_outs)) != NULL) {
        for (Py_ssize_t i = 0; i < n_outs; i++)
            PyTuple_SET_ITEM(result, i, Py_NewRef(outs[i]));
    }
finish:
    Py_XDECREF(type);
    Py_XDECREF(refusal);
    Py_XDECREF(trace);
    for (Py_ssize_t i = 0; i < held; i++)
        Py_DECREF(arrays[i]);
    for (Py_ssize_t i = 0; i < n_outs; i++)
        Py_DECREF(outs[i]);
    for (Py_ssize_t i = 0; i < n_kept; i++)
        Py_DECREF(kept[i]);
    Py_DECREF(record);
    return result;
}

/* ---- compositions ------------------------------------------------------------------------------------------------- */

static PyObject *find_kernel(PyObject *composition, PyObject *fixed, PyObject *const *tensors, Py_ssize_t n)
{
    PyObject *arrays = PyList_New(n);
    if (arrays == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        PyList_SET_ITEM(arrays, i, Py_NewRef(SLOT(tensors[i], Tensor, _a)));
    PyObject *kernel = PyObject_CallMethodObjArgs(composition, str_kernel, fixed, arrays, NULL);
    Py_DECREF(arrays);
    return kernel;
}

static PyObject *apply_slowly(PyObject *composition, PyObject *fixed, PyObject *operands)
{
    return PyObject_CallFunctionObjArgs(py_apply_slowly, composition, fixed, operands, NULL);
}

/* The record of a composition for static values and tensors, a new reference; `values` gets these as its arguments. */
static Record *composition_record(PyObject *composition, PyObject *fixed, PyObject *tensors, PyObject **values)
{
    Py_ssize_t n = PyList_GET_SIZE(tensors);
    Atom atoms[MAX_OPERANDS + 1] = {{ATOM_VALUE, fixed, NULL, 0, NULL, 0}};
    Py_hash_t own = PyObject_Hash(fixed);
    if (own == -1)
        return NULL;
    uint64_t hash = (uint64_t)own;
    values[0] = fixed;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *tensor = values[i + 1] = PyList_GET_ITEM(tensors, i);
        if (!PyObject_TypeCheck(tensor, Tensor_type)) {
            Py_XDECREF(PyObject_GetAttr(tensor, str_array)); /* the error that says so */
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_TypeError, "expected a tensor, but got %.100s", Py_TYPE(tensor)->tp_name);
            return NULL;
        }
        tensor_atom(tensor, &atoms[i + 1], &hash);
    }
    PyObject *table = SLOT(composition, Composition, table);
    if (table == Py_None) {
        Table *made = PyObject_New(Table, &Table_type);
        if (made == NULL)
            return NULL;
        made->places = NULL;
        made->size = made->used = 0;
        table = (PyObject *)made;
        set_slot(&SLOT(composition, Composition, table), table);
    }
    Record *record = table_find((Table *)table, hash, atoms, n + 1, NULL);
    if (record != NULL)
        return (Record *)Py_NewRef(record);
    PyObject *kernel = find_kernel(composition, fixed, values + 1, n);
    if (kernel == NULL)
        return NULL;
    record = new_record(hash, atoms, n + 1, NULL, SLOT(composition, Composition, node_name), kernel, n);
    Py_DECREF(kernel);
    if (record == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        record->operands[i].source = i + 1;
    if (table_add((Table *)table, record) < 0)
        Py_CLEAR(record);
    return record;
}

/* apply(composition, static, tensors): run a composition on a list of tensors. */
static PyObject *apply(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 3 || !PyList_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "apply takes a composition, static values and a list of tensors");
        return NULL;
    }
    State *state = current_state();
    PyObject *values[MAX_OPERANDS + 1];
    if (state->unusual || PyList_GET_SIZE(args[2]) > MAX_OPERANDS)
        return apply_slowly(args[0], args[1], args[2]);
    Record *record = composition_record(args[0], args[1], args[2], values);
    if (record == NULL)
        return NULL;
    PyObject *result = execute(state, record, values);
    Py_DECREF(record);
    return result;
}

/* record(composition, static, tensors, out): make the node of a composition whose result is known already. */
static PyObject *record_known(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 4 || !PyList_CheckExact(args[2]) || PyList_GET_SIZE(args[2]) > MAX_OPERANDS) {
        PyErr_SetString(PyExc_TypeError, "record takes a composition, static values, a list of tensors and a tensor");
        return NULL;
    }
    PyObject *values[MAX_OPERANDS + 1], *arrays[MAX_OPERANDS], *out = args[3];
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[2]); i++)
        if (bring_up_to_date(PyList_GET_ITEM(args[2], i)) < 0)
            return NULL;
    Record *record = composition_record(args[0], args[1], args[2], values);
    if (record == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < record->n_operands; i++)
        arrays[i] = SLOT(values[i + 1], Tensor, _a);
    const uint64_t mask = mask_of(values + 1, record->n_operands);
    Pattern *pattern = mask == 0 ? NULL : find_pattern(record, mask);
    if (mask != 0 && pattern == NULL)
        pattern = make_pattern(record, mask, &out, 1);
    int failed = mask != 0 && (pattern == NULL ||
                               record_application(record, pattern, values + 1, arrays, &out, 1, NULL, 0) < 0);
    Py_DECREF(record);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- views -------------------------------------------------------------------------------------------------------- */

/* outline(steps): steps without their positions, and a list of the positions as tensors, after a place for the base. */
static PyObject *outline_of(PyObject *steps, PyObject **operands)
{
    PyObject *outline = PyTuple_New(PyTuple_GET_SIZE(steps));
    *operands = PyList_New(1);
    if (outline == NULL || *operands == NULL)
        goto failed;
    PyList_SET_ITEM(*operands, 0, Py_NewRef(Py_None));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(steps); i++) {
        PyObject *step = PyTuple_GET_ITEM(steps, i), *positions = PyTuple_GET_ITEM(step, 2);
        const Py_ssize_t count = PyTuple_GET_SIZE(positions);
        PyObject *part = Py_BuildValue("(OOn)", PyTuple_GET_ITEM(step, 0), PyTuple_GET_ITEM(step, 1), count);
        if (part == NULL)
            goto failed;
        PyTuple_SET_ITEM(outline, i, part);
        for (Py_ssize_t k = 0; k < count; k++) {
            PyObject *number = new_tensor(number_array(PyTuple_GET_ITEM(positions, k), position_descr));
            if (number != NULL)
                set_slot(&SLOT(number, Tensor, _storage), Py_NewRef(Py_None)); /* nobody else has it */
            int failed = number == NULL || PyList_Append(*operands, number) < 0;
            Py_XDECREF(number);
            if (failed)
                goto failed;
        }
    }
    return outline;
failed:
    Py_XDECREF(outline);
    Py_CLEAR(*operands);
    return NULL;
}

static PyObject *outline(PyObject *module, PyObject *steps)
{
    PyObject *operands, *made;
    if (!PyTuple_CheckExact(steps)) {
        PyErr_SetString(PyExc_TypeError, "outline takes a tuple of steps");
        return NULL;
    }
    made = outline_of(steps, &operands);
    return made == NULL ? NULL : Py_BuildValue("NN", made, operands);
}

/* view(tensor, array, step, base, origin, composition): a view of a tensor, whose array is known, and its node. */
static PyObject *make_view(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 6 || !PyObject_TypeCheck(args[0], Tensor_type) || !PyArray_Check(args[1]) ||
        !PyTuple_CheckExact(args[2]) || PyTuple_GET_SIZE(args[2]) != 3) {
        PyErr_SetString(PyExc_TypeError, "view takes a tensor, an array, a step, a base, an origin and a composition");
        return NULL;
    }
    PyObject *tensor = args[0], *storage = SLOT(tensor, Tensor, _storage), *view = new_tensor(Py_NewRef(args[1]));
    PyObject *last = PyTuple_Pack(1, args[2]), *operands = NULL;
    PyObject *steps = view == NULL || last == NULL ? NULL : PySequence_Concat(SLOT(tensor, Tensor, _steps), last);
    if (steps == NULL)
        goto failed;
    set_slot(&SLOT(view, Tensor, _steps), steps);
    set_slot(&SLOT(view, Tensor, _storage), Py_NewRef(storage));
    set_slot(&SLOT(view, Tensor, _base), Py_NewRef(args[3]));
    set_slot(&SLOT(view, Tensor, _seen), Py_NewRef(SLOT(storage, Storage, version)));
    set_slot(&SLOT(view, Tensor, _origin), Py_NewRef(args[4]));
    if (current_state()->grad && is_differentiable(view)) {
        if (bring_up_to_date(tensor) < 0)
            goto failed;
        if (mask_of(&tensor, 1) != 0) {
            PyObject *fixed = outline_of(last, &operands);
            if (fixed == NULL)
                goto failed;
            PyList_SetItem(operands, 0, Py_NewRef(tensor));
            PyObject *values = PyTuple_Pack(1, fixed), *found = NULL;
            if (values != NULL) {
                PyObject *const given[4] = {args[5], values, operands, view};
                found = record_known(module, given, 4);
            }
            Py_XDECREF(values);
            Py_DECREF(fixed);
            Py_DECREF(operands);
            if (found == NULL)
                goto failed;
            Py_DECREF(found);
        }
    }
    Py_DECREF(last);
    return view;
failed:
    Py_XDECREF(last);
    Py_XDECREF(view);
    return NULL;
}

/* Whether a bound of a slice is a plain int or None. */
static int is_plain_bound(PyObject *bound)
{
    return bound == Py_None || PyLong_CheckExact(bound);
}

/* index(array, key): for a key of ints and slices alone (name of the node, step, view), see shaping.get_item; None for
   other keys, and for those that are wrong. */
static PyObject *index_array(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 2 || !PyArray_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "index takes an array and a key");
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)args[0];
    PyObject *const *entries = args + 1, *fixed = NULL, *positions = NULL;
    Py_ssize_t n = 1, n_positions = 0;
    if (PyTuple_CheckExact(args[1])) {
        entries = &PyTuple_GET_ITEM(args[1], 0);
        n = PyTuple_GET_SIZE(args[1]);
    }
    const int rank = PyArray_NDIM(array);
    if (n > rank || n == 0)
        Py_RETURN_NONE;
    npy_intp sizes[NPY_MAXDIMS], strides[NPY_MAXDIMS], places[NPY_MAXDIMS];
    char *data = PyArray_DATA(array);
    int left = 0;
    fixed = PyTuple_New(n);
    for (int axis = 0; fixed != NULL && axis < n; axis++) {
        npy_intp size = PyArray_DIM(array, axis), stride = PyArray_STRIDE(array, axis);
        PyObject *entry = entries[axis], *part;
        Py_ssize_t start, stop, step;
        if (PyLong_CheckExact(entry)) {
            Py_ssize_t at = PyLong_AsSsize_t(entry);
            if (PyErr_Occurred() || at < -size || at >= size)
                goto other;
            at += at < 0 ? size : 0;
            data += at * stride;
            part = Py_BuildValue("sn", "at", n_positions);
            places[n_positions++] = at;
        } else if (PySlice_Check(entry)) {
            PySliceObject *slice = (PySliceObject *)entry;
            if (!is_plain_bound(slice->start) || !is_plain_bound(slice->stop) || !is_plain_bound(slice->step) ||
                PySlice_Unpack(entry, &start, &stop, &step) < 0 || step <= 0)
                goto other;
            Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
            if (start == 0 && stop == size && step == 1)
                part = Py_BuildValue("sOOO", "slice", Py_None, Py_None, Py_None);
            else
                part = Py_BuildValue("snnn", "slice", start, stop > start ? stop : start, step);
            data += count ? start * stride : 0;
            sizes[left] = count;
            strides[left++] = count ? step * stride : stride;
        } else {
            goto other;
        }
        if (part == NULL)
            Py_CLEAR(fixed);
        else
            PyTuple_SET_ITEM(fixed, axis, part);
    }
    for (int axis = (int)n; axis < rank; axis++) {
        sizes[left] = PyArray_DIM(array, axis);
        strides[left++] = PyArray_STRIDE(array, axis);
    }
    positions = fixed == NULL ? NULL : PyTuple_New(n_positions);
    for (Py_ssize_t i = 0; positions != NULL && i < n_positions; i++) {
        PyObject *place = PyLong_FromSsize_t(places[i]);
        if (place == NULL)
            Py_CLEAR(positions);
        else
            PyTuple_SET_ITEM(positions, i, place);
    }
    PyObject *made = positions == NULL ? NULL : view_of(array, left, sizes, strides, data);
    if (made == NULL) {
        Py_XDECREF(fixed);
        Py_XDECREF(positions);
        return NULL;
    }
    return Py_BuildValue("s(sNN)N", n_positions ? "Select" : "Slice", "index", fixed, positions, made);
other:
    PyErr_Clear();
    Py_XDECREF(fixed);
    Py_RETURN_NONE;
}

/* overlaps_in_part(a, b): whether two arrays without gaps share some elements, and not all in the same order. */
static PyObject *overlaps_in_part(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 2 || !PyArray_Check(args[0]) || !PyArray_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "overlaps_in_part takes two arrays");
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)args[0], *b = (PyArrayObject *)args[1];
    const char *first = PyArray_DATA(a), *second = PyArray_DATA(b);
    const npy_intp size = PyArray_NBYTES(a), other = PyArray_NBYTES(b);
    const int rank = PyArray_NDIM(a);
    int same = first == second && size == other && rank == PyArray_NDIM(b) &&
               PyArray_CompareLists(PyArray_STRIDES(a), PyArray_STRIDES(b), rank);
    return PyBool_FromLong(a != b && !same && first < second + other && second < first + size && is_dense(a) &&
                           is_dense(b));
}

/* ---- operations --------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function, *dict, *weak;
    Py_ssize_t numbers; /* so many of the first arguments may be Python numbers that become operands; -1: no plans */
    unsigned long epoch;
    Table table;
} Operation;

static unsigned long epoch; /* counts changes of what plans depend on beside arguments: the default dtype */

static PyObject *forget_plans(PyObject *module, PyObject *none)
{
    epoch++;
    Py_RETURN_NONE;
}

/* Run a plan: (composition, static, operands), where operands are tensors or Scalars. */
static PyObject *run_plan(PyObject *plan)
{
    return apply_slowly(PyTuple_GET_ITEM(plan, 0), PyTuple_GET_ITEM(plan, 1), PyTuple_GET_ITEM(plan, 2));
}

/* Make the record that does what a plan says for these arguments; NULL without an error if it depends on more. */
static Record *record_of_plan(PyObject *plan, uint64_t hash, const Atom *atoms, PyObject *const *args, Py_ssize_t n,
                              PyObject *names)
{
    PyObject *composition = PyTuple_GET_ITEM(plan, 0), *operands = PyTuple_GET_ITEM(plan, 2);
    Py_ssize_t count = PyList_GET_SIZE(operands), number = 0;
    Py_ssize_t sources[MAX_OPERANDS];
    PyArray_Descr *descrs[MAX_OPERANDS] = {NULL};
    PyObject *tensors[MAX_OPERANDS] = {NULL};
    Record *record = NULL;
    if (count > MAX_OPERANDS)
        return NULL;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *operand = PyList_GET_ITEM(operands, k);
        Py_ssize_t at;
        if (Py_IS_TYPE(operand, Scalar_type)) {
            for (at = number; at < n && atoms[at].kind != ATOM_NUMBER; at++)
                ;
            if (at < n && args[at] == PyTuple_GET_ITEM(operand, 0))
                number = at + 1;
            else
                at = -1;
            descrs[k] = (PyArray_Descr *)PyTuple_GET_ITEM(operand, 1);
            tensors[k] = new_tensor(number_array(PyTuple_GET_ITEM(operand, 0), descrs[k]));
            if (tensors[k] == NULL)
                goto finish;
        } else {
            for (at = 0; at < n && args[at] != operand; at++)
                ;
            if (at == n)
                goto finish;
            if (!PyObject_TypeCheck(operand, Tensor_type)) {
                tensors[k] = PyObject_GetAttr(operand, str_array); /* the error that says so */
                goto finish;
            }
            tensors[k] = Py_NewRef(operand);
        }
        sources[k] = at;
    }
    for (; number < n; number++)
        if (atoms[number].kind == ATOM_NUMBER)
            goto finish;
    PyObject *kernel = find_kernel(composition, PyTuple_GET_ITEM(plan, 1), tensors, count);
    if (kernel == NULL)
        goto finish;
    record = new_record(hash, atoms, n, names, SLOT(composition, Composition, node_name), kernel, count);
    Py_DECREF(kernel);
    for (Py_ssize_t k = 0; record != NULL && k < count; k++) {
        record->operands[k].source = sources[k];
        record->operands[k].descr = (PyArray_Descr *)Py_XNewRef(descrs[k]);
        if (sources[k] < 0) {
            record->operands[k].last = Py_NewRef(PyTuple_GET_ITEM(PyList_GET_ITEM(operands, k), 0));
            record->operands[k].array = Py_NewRef(SLOT(tensors[k], Tensor, _a));
        }
    }
finish:
    for (Py_ssize_t k = 0; k < count; k++)
        Py_XDECREF(tensors[k]);
    return record;
}

/* Call an operation with a signature that was not seen before. */
static PyObject *plan_and_run(Operation *self, State *state, uint64_t hash, const Atom *atoms, PyObject *const *args,
                              Py_ssize_t n_args, Py_ssize_t n, PyObject *names)
{
    PyObject *result = NULL, *plan = PyObject_Vectorcall(self->function, args, (size_t)n_args, names);
    if (plan == NULL || !Py_IS_TYPE(plan, Plan_type))
        return plan;
    Record *record = record_of_plan(plan, hash, atoms, args, n, names);
    if (record != NULL)
        result = table_add(&self->table, record) < 0 ? NULL : execute(state, record, args);
    else if (!PyErr_Occurred())
        result = run_plan(plan);
    Py_DECREF(plan);
    Py_XDECREF(record);
    return result;
}

/* Replace the error of a call by the one that names the argument which is no tensor, if that was the reason. */
static PyObject *refuse(Operation *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (!PyErr_ExceptionMatches(PyExc_AttributeError) && !PyErr_ExceptionMatches(PyExc_TypeError))
        return NULL;
    PyObject *type, *value, *trace, *found = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *given = PyTuple_New(n);
    for (Py_ssize_t i = 0; given != NULL && i < n; i++)
        PyTuple_SET_ITEM(given, i, Py_NewRef(args[i]));
    if (given != NULL)
        found = PyObject_CallFunctionObjArgs(py_refusal, self->function, value, given, names ? names : Py_None, NULL);
    Py_XDECREF(given);
    if (found == NULL || found == Py_None) {
        PyErr_Restore(type, value, trace);
    } else {
        PyErr_SetObject((PyObject *)Py_TYPE(found), found);
        Py_DECREF(type);
        Py_DECREF(value);
        Py_XDECREF(trace);
    }
    Py_XDECREF(found);
    return NULL;
}

static PyObject *operation_call(Operation *self, PyObject *const *args, size_t flagged, PyObject *names)
{
    PyObject *made;
    Py_ssize_t n_args = PyVectorcall_NARGS(flagged), n = n_args + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    State *state = current_state();
    Atom atoms[MAX_OPERANDS];
    uint64_t hash = (uint64_t)n;
    if (names != NULL && PyTuple_GET_SIZE(names) == 0)
        names = NULL;
    if (self->numbers < 0 || state->unusual || n > MAX_OPERANDS)
        goto slowly;
    for (Py_ssize_t i = 0; i < n; i++)
        if (PyObject_TypeCheck(args[i], Tensor_type)) {
            Py_ssize_t same = 0;
            while (args[same] != args[i])
                same++;
            if (same == i)
                tensor_atom(args[i], &atoms[i], &hash);
            else
                atoms[i] = (Atom){ATOM_SAME, NULL, NULL, 0, NULL, same};
        } else if (!value_atom(args[i], i < self->numbers && i < n_args, &atoms[i], &hash))
            goto slowly;
    if (self->epoch != epoch) {
        self->epoch = epoch;
        table_clear(&self->table);
    }
    Record *record = table_find(&self->table, hash, atoms, n, names);
    if (record != NULL)
        return execute(state, record, args);
    made = plan_and_run(self, state, hash, atoms, args, n_args, n, names);
    return made == NULL ? refuse(self, args, n, names) : made;
slowly:
    made = PyObject_Vectorcall(self->function, args, (size_t)n_args, names);
    if (made != NULL && Py_IS_TYPE(made, Plan_type))
        Py_SETREF(made, run_plan(made));
    return made == NULL ? refuse(self, args, n, names) : made;
}

static PyObject *operation_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *function;
    Py_ssize_t numbers = 0;
    static char *names[] = {"function", "numbers", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|n", names, &function, &numbers))
        return NULL;
    Operation *self = (Operation *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = (vectorcallfunc)operation_call;
        self->function = Py_NewRef(function);
        self->numbers = numbers;
        self->epoch = epoch;
    }
    return (PyObject *)self;
}

static int operation_traverse(Operation *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->dict);
    return 0;
}

static int operation_clear(Operation *self)
{
    Py_CLEAR(self->function);
    Py_CLEAR(self->dict);
    return 0;
}

static void operation_dealloc(Operation *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weak != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    operation_clear(self);
    table_clear(&self->table);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *operation_get(PyObject *self, PyObject *instance, PyObject *owner)
{
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *operation_repr(PyObject *self)
{
    PyObject *name = PyObject_GetAttrString(self, "__name__");
    PyObject *text = name == NULL ? NULL : PyUnicode_FromFormat("<operation %U>", name);
    Py_XDECREF(name);
    return text;
}

/* Copies and pickles of an operation are the operation, found by its name. */
static PyObject *operation_reduce(PyObject *self, PyObject *none)
{
    return PyObject_GetAttrString(self, "__name__");
}

static PyMethodDef operation_methods[] = {
    {"__reduce__", operation_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef operation_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject Operation_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tracegrad_engine.Operation",
    .tp_basicsize = sizeof(Operation),
    .tp_dealloc = (destructor)operation_dealloc,
    .tp_vectorcall_offset = offsetof(Operation, vectorcall),
    .tp_repr = operation_repr,
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_traverse = (traverseproc)operation_traverse,
    .tp_clear = (inquiry)operation_clear,
    .tp_weaklistoffset = offsetof(Operation, weak),
    .tp_methods = operation_methods,
    .tp_getset = operation_getset,
    .tp_descr_get = operation_get,
    .tp_dictoffset = offsetof(Operation, dict),
    .tp_new = operation_new,
};

/* ---- the walk ----------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject *node; /* owned */
    long long order;
    Py_ssize_t pending, width; /* edges to it that were not yet followed; results */
    PyObject *one, **cts;      /* cotangents of the results, owned, NULL for zero; `cts` is NULL if none arrived yet */
} Entry;

typedef struct {
    Entry *entries;
    Py_ssize_t n, room;
    Py_ssize_t *places, size; /* entry of a node by its address, in open addressing; -1 where there is none */
    Py_ssize_t *ready, n_ready;   /* heap of entries, latest first */
} Walk;

static size_t place_of(const Walk *walk, PyObject *node)
{
    size_t bits = (size_t)walk->size - 1, at = (size_t)mix(0, (uint64_t)(uintptr_t)node) & bits;
    while (walk->places[at] >= 0 && walk->entries[walk->places[at]].node != node)
        at = (at + 1) & bits;
    return at;
}

/* The number of the entry of a node, made if need be; -1 with an error. */
static Py_ssize_t entry_of(Walk *walk, PyObject *node, int *is_new)
{
    *is_new = 0;
    if (walk->size) {
        Py_ssize_t found = walk->places[place_of(walk, node)];
        if (found >= 0)
            return found;
    }
    if (walk->n == walk->room) {
        Py_ssize_t room = walk->room ? 2 * walk->room : 32;
        Entry *entries = PyMem_Realloc(walk->entries, (size_t)room * sizeof *entries);
        if (entries == NULL)
            goto no_memory;
        walk->entries = entries;
        Py_ssize_t *places = PyMem_Realloc(walk->places, (size_t)(2 * room) * sizeof *places);
        if (places == NULL)
            goto no_memory;
        walk->places = places;
        walk->room = room;
        walk->size = 2 * room;
        memset(places, -1, (size_t)walk->size * sizeof *places);
        for (Py_ssize_t i = 0; i < walk->n; i++)
            places[place_of(walk, walk->entries[i].node)] = i;
    }
    Entry *entry = &walk->entries[walk->n];
    *entry = (Entry){.order = PyLong_AsLongLong(SLOT(node, KernelNode, order)),
                     .width = PyLong_AsSsize_t(SLOT(node, KernelNode, width))};
    if (PyErr_Occurred())
        return -1;
    walk->places[place_of(walk, node)] = walk->n;
    entry->node = Py_NewRef(node);
    *is_new = 1;
    return walk->n++;
no_memory:
    PyErr_NoMemory();
    return -1;
}

/* Put an entry into the heap at a free place, or above it. */
static void raise_ready(Walk *walk, Py_ssize_t at, Py_ssize_t number)
{
    while (at > 0) {
        Py_ssize_t parent = (at - 1) / 2;
        if (walk->entries[walk->ready[parent]].order >= walk->entries[number].order)
            break;
        walk->ready[at] = walk->ready[parent];
        at = parent;
    }
    walk->ready[at] = number;
}

static void push_ready(Walk *walk, Py_ssize_t number)
{
    raise_ready(walk, walk->n_ready++, number);
}

/* Take the entry with the greatest order; equal ones, as those of leaves are, come as from torch's heap (tape.Ready). */
static Py_ssize_t pop_ready(Walk *walk)
{
    Py_ssize_t top = walk->ready[0], last = walk->ready[--walk->n_ready], at = 0;
    for (Py_ssize_t child = 1; child < walk->n_ready; child = 2 * at + 1) {
        if (child + 1 < walk->n_ready &&
            walk->entries[walk->ready[child + 1]].order >= walk->entries[walk->ready[child]].order)
            child++;
        walk->ready[at] = walk->ready[child];
        at = child;
    }
    raise_ready(walk, at, last);
    return top;
}

/* Find all nodes that can be reached, and count the edges to each. */
static int count_edges(Walk *walk, PyObject *roots)
{
    int is_new;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(roots); i++) {
        PyObject *node = PyTuple_GET_ITEM(PyTuple_GET_ITEM(PyList_GET_ITEM(roots, i), 0), 0);
        if (node != Py_None && entry_of(walk, node, &is_new) < 0)
            return -1;
    }
    for (Py_ssize_t i = 0; i < walk->n; i++) { /* entries are appended while they are visited */
        PyObject *edges = SLOT(walk->entries[i].node, KernelNode, edges);
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(edges); k++) {
            PyObject *node = PyTuple_GET_ITEM(PyTuple_GET_ITEM(edges, k), 0);
            if (node == Py_None)
                continue;
            Py_ssize_t number = entry_of(walk, node, &is_new);
            if (number < 0)
                return -1;
            walk->entries[number].pending++;
        }
    }
    walk->ready = PyMem_Malloc((size_t)(walk->n + 1) * sizeof *walk->ready);
    if (walk->ready == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Add a cotangent to those of a node; the reference is consumed. */
static int arrive(State *state, Entry *entry, Py_ssize_t number, PyObject *ct)
{
    if (entry->cts == NULL) {
        entry->cts = entry->width == 1 ? &entry->one : PyMem_Calloc((size_t)entry->width, sizeof *entry->cts);
        if (entry->cts == NULL) {
            Py_DECREF(ct);
            PyErr_NoMemory();
            return -1;
        }
    }
    assert(0 <= number && number < entry->width);
    if (entry->cts[number] != NULL) {
        PyObject *both[2] = {entry->cts[number], ct};
        PyObject *sum = as_array(run_quietly(state, py_add, both, 2));
        Py_DECREF(ct);
        if (sum == NULL)
            return -1;
        ct = sum;
    }
    set_slot(&entry->cts[number], ct);
    return 0;
}

static void forget_cts(Entry *entry)
{
    for (Py_ssize_t i = 0; entry->cts != NULL && i < entry->width; i++)
        Py_CLEAR(entry->cts[i]);
    if (entry->cts != &entry->one)
        PyMem_Free(entry->cts);
    entry->cts = NULL;
}

/* Whether a node is a kernel whose pullback can run at once; then `operands` are filled with what it saved. */
static Py_ssize_t gather(Entry *entry, PyObject **operands)
{
    PyObject *node = entry->node;
    if (Py_TYPE(node)->tp_base != KernelNode_type || SLOT(node, KernelNode, pullback) == Py_None ||
        SLOT(node, KernelNode, hooked) != Py_False || entry->cts == NULL)
        return -1;
    PyObject *saved = SLOT(node, KernelNode, saved);
    Py_ssize_t n = PyTuple_GET_SIZE(SLOT(SLOT(node, KernelNode, pullback), Pullback, reads));
    if (n) {
        if (!PyList_CheckExact(saved))
            return -1;
        n = PyList_GET_SIZE(saved);
    }
    if (n + entry->width > MAX_OPERANDS)
        return -1;
    for (Py_ssize_t i = 0; i < entry->width; i++)
        if (entry->cts[i] == NULL)
            return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyList_GET_ITEM(saved, i), *storage = SLOT(item, Saved, storage);
        operands[i] = SLOT(item, Saved, array);
        if (operands[i] == Py_None ||
            (storage != Py_None && (!same_number(SLOT(storage, Storage, version), SLOT(item, Saved, version)) ||
                                    SLOT(storage, Storage, left) != Py_None)))
            return -1;
    }
    for (Py_ssize_t i = 0; i < entry->width; i++)
        operands[n + i] = entry->cts[i];
    return n + entry->width;
}

/* Put a first cotangent into `.grad` of a leaf if it can be taken over; 0 if it is left to Python. */
static int take_over(PyObject *leaf, PyObject *ct)
{
    PyObject *variable = SLOT(leaf, AccumulateGrad, variable);
    PyArrayObject *array = (PyArrayObject *)SLOT(variable, Tensor, _a);
    if (SLOT(variable, Tensor, _requires_grad) != Py_True || SLOT(variable, Tensor, _grad) != Py_None ||
        SLOT(variable, Tensor, _after) != Py_None ||
        PyArray_BASE((PyArrayObject *)ct) != NULL || !PyArray_IS_C_CONTIGUOUS(array) ||
        !PyArray_IS_C_CONTIGUOUS((PyArrayObject *)ct) || !PyArray_SAMESHAPE(array, (PyArrayObject *)ct))
        return 0;
    PyObject *tensor = new_tensor(Py_NewRef(ct));
    if (tensor == NULL)
        return -1;
    set_slot(&SLOT(variable, Tensor, _grad), tensor);
    return 1;
}

/* Whether a node only adds to `.grad`. */
static int is_plain_leaf(PyObject *node)
{
    if (!Py_IS_TYPE(node, AccumulateGrad_type) || SLOT(node, KernelNode, hooked) != Py_False)
        return 0;
    PyObject *hooks = SLOT(SLOT(node, AccumulateGrad, variable), Tensor, _hooks);
    return hooks == Py_None || (PyDict_Check(hooks) && PyDict_GET_SIZE(hooks) == 0);
}

/* Visit a node in Python: visit(node, cotangents) gives a sequence with a cotangent or None per edge. */
static PyObject *visit_slowly(PyObject *visit, PyObject *node, Entry *entry)
{
    PyObject *cts = PyList_New(entry->width);
    if (cts == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < entry->width; i++) {
        PyObject *ct = entry->cts == NULL || entry->cts[i] == NULL ? Py_None : entry->cts[i];
        PyList_SET_ITEM(cts, i, Py_NewRef(ct));
    }
    forget_cts(entry);
    PyObject *found = PyObject_CallFunctionObjArgs(visit, node, cts, NULL);
    Py_DECREF(cts);
    if (found == NULL)
        return NULL;
    PyObject *fast = PySequence_Fast(found, "a node gives a sequence of cotangents");
    Py_DECREF(found);
    return fast;
}

/* Whether no element is infinite or NaN: whether no exponent has all its bits set. -1 with an error. */
static int is_finite(PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)value;
    int type = PyArray_CheckExact(value) ? PyArray_TYPE(array) : NPY_OBJECT;
    if (PyArray_CheckExact(value) && PyTypeNum_ISINTEGER(type))
        return 1;
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !PyArray_IS_C_CONTIGUOUS(array)) {
        PyObject *found = PyObject_CallOneArg(py_is_finite, value);
        int answer = found == NULL ? -1 : PyObject_IsTrue(found);
        Py_XDECREF(found);
        return answer;
    }
    npy_intp n = PyArray_SIZE(array);
    uint32_t bad = 0;
    if (type == NPY_FLOAT) {
        const uint32_t *words = PyArray_DATA(array), exponent = 0x7F800000u;
        for (npy_intp i = 0; i < n; i++)
            bad |= (words[i] & exponent) == exponent;
    } else {
        const uint64_t *words = PyArray_DATA(array), exponent = 0x7FF0000000000000u;
        for (npy_intp i = 0; i < n; i++)
            bad |= (words[i] & exponent) == exponent;
    }
    return !bad;
}

/* Whether all that a pullback gave is finite; -1 with an error. */
static int all_finite(PyObject *found)
{
    if (!PyTuple_CheckExact(found))
        return is_finite(found);
    int answer = 1;
    for (Py_ssize_t i = 0; answer == 1 && i < PyTuple_GET_SIZE(found); i++)
        answer = is_finite(PyTuple_GET_ITEM(found, i));
    return answer;
}

/* Run the pullback of a node; a new reference to a tuple with what it gave. */
static PyObject *pull_back(State *state, PyObject *node, Entry *entry, PyObject **operands, Py_ssize_t n, int keep)
{
    PyObject *held[MAX_OPERANDS]; /* the kernel may let other threads run */
    for (Py_ssize_t i = 0; i < n; i++)
        held[i] = Py_NewRef(operands[i]);
    const Py_ssize_t n_cts = entry->width;
    forget_cts(entry);
    PyObject *pullback = SLOT(node, KernelNode, pullback), *guarded = SLOT(pullback, Pullback, kernel), *found = NULL;
    const Py_ssize_t n_reads = PyTuple_GET_SIZE(SLOT(pullback, Pullback, reads)), n_kept = n - n_reads - n_cts;
    PyObject *first = n_kept ? SLOT(pullback, Pullback, brief) : SLOT(pullback, Pullback, fast);
    int right = 0;
    if (first != Py_None) {
        found = run_kernel(state, first, held, n);
        right = found == NULL ? -1 : SLOT(pullback, Pullback, fast) == Py_None ? 1 : all_finite(found);
        if (right != 1)
            Py_CLEAR(found);
    }
    if (right == 0) {
        PyObject *without[MAX_OPERANDS];
        memcpy(without, held, (size_t)n_reads * sizeof *held);
        memcpy(without + n_reads, held + n_reads + n_kept, (size_t)n_cts * sizeof *held);
        found = run_kernel(state, guarded, without, n_reads + n_cts);
    }
    for (Py_ssize_t i = 0; i < n; i++)
        Py_DECREF(held[i]);
    if (found == NULL)
        return NULL;
    if (!keep && SLOT(pullback, Pullback, numbers) != Py_True && SLOT(node, KernelNode, saved) != Py_None)
        set_slot(&SLOT(node, KernelNode, saved), Py_NewRef(Py_None));
    if (PyTuple_CheckExact(found))
        return found;
    PyObject *tuple = PyTuple_New(1);
    if (tuple == NULL)
        Py_DECREF(found);
    else
        PyTuple_SET_ITEM(tuple, 0, found);
    return tuple;
}

/* Send a cotangent (NULL for zero; consumed) along an edge. */
static int follow(State *state, Walk *walk, PyObject *edge, PyObject *ct)
{
    PyObject *node = PyTuple_GET_ITEM(edge, 0);
    int is_new;
    if (node == Py_None) {
        Py_XDECREF(ct);
        return 0;
    }
    Py_ssize_t number = entry_of(walk, node, &is_new);
    if (number < 0 || is_new) {
        if (number >= 0)
            PyErr_SetString(PyExc_RuntimeError, "the graph was changed while it was walked");
        Py_XDECREF(ct);
        return -1;
    }
    Entry *entry = &walk->entries[number];
    entry->pending--;
    if (ct != NULL && arrive(state, entry, PyLong_AsSsize_t(PyTuple_GET_ITEM(edge, 1)), ct) < 0)
        return -1;
    if (entry->pending == 0)
        push_ready(walk, number);
    return 0;
}

static int contains(PyObject *set, PyObject *node)
{
    return set == Py_None ? 0 : PySequence_Contains(set, node);
}

static int visit_node(State *state, Walk *walk, Py_ssize_t number, int keep, PyObject *needed, PyObject *special,
                      PyObject *visit)
{
    Entry *entry = &walk->entries[number];
    PyObject *node = entry->node, *operands[MAX_OPERANDS], *found, *edges = SLOT(node, KernelNode, edges);
    int apart = contains(special, node), missing = needed == Py_None ? 0 : !contains(needed, node);
    Py_ssize_t n = apart || missing ? -1 : gather(entry, operands);
    const int plain = n >= 0;
    if (PyErr_Occurred())
        return -1;
    if (missing && !apart && SLOT(node, KernelNode, hooked) == Py_False) {
        forget_cts(entry);
        found = Py_NewRef(empty_tuple);
    } else if (!apart && entry->cts != NULL && entry->cts[0] != NULL && is_plain_leaf(node) &&
               take_over(node, entry->cts[0])) {
        forget_cts(entry);
        found = PyErr_Occurred() ? NULL : Py_NewRef(empty_tuple);
    } else if (plain) {
        found = pull_back(state, node, entry, operands, n, keep);
    } else {
        found = visit_slowly(visit, node, entry);
    }
    if (found == NULL)
        return -1;
    Py_INCREF(edges);
    int failed = 0;
    PyObject *pullback = SLOT(node, KernelNode, pullback);
    const Py_ssize_t n_found = PySequence_Fast_GET_SIZE(found), n_edges = PyTuple_GET_SIZE(edges);
    const int in_order = !plain || (SLOT(pullback, Pullback, in_order) == Py_True && n_found == n_edges);
    Py_ssize_t next = 0; /* of what a pullback gives, in the order of the edges */
    for (Py_ssize_t k = 0; k < n_edges && !failed; k++) {
        PyObject *ct = NULL;
        if (in_order) {
            ct = k < n_found ? PySequence_Fast_GET_ITEM(found, k) : NULL;
        } else if (next < n_found &&
                   PyLong_AsSsize_t(PyTuple_GET_ITEM(SLOT(pullback, Pullback, gives), next)) == k) {
            ct = PySequence_Fast_GET_ITEM(found, next++);
        }
        if (ct == Py_None)
            ct = NULL;
        ct = Py_XNewRef(ct);
        if (ct != NULL && PyTuple_GET_ITEM(PyTuple_GET_ITEM(edges, k), 0) != Py_None) {
            ct = as_array(ct);
            failed = ct == NULL;
        }
        if (!failed)
            failed = follow(state, walk, PyTuple_GET_ITEM(edges, k), ct) < 0;
    }
    Py_DECREF(edges);
    Py_DECREF(found);
    return failed ? -1 : 0;
}

/* walk(roots, keep, needed, special, visit): walk backwards from a list of (edge, cotangent).

   Nodes outside `needed` are passed over, unless it is None; nodes in `special` are visited by visit(node, cotangents),
   as are all that are not just a kernel. */
static PyObject *walk_back(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    if (n_args != 5 || !PyList_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "walk takes a list of roots and four more arguments");
        return NULL;
    }
    PyObject *roots = args[0];
    const int keep = args[1] == Py_True;
    State *state = current_state();
    const int before = state->grad;
    Walk walk = {0};
    int failed = count_edges(&walk, roots) < 0, is_new;
    state->grad = 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(roots); i++) {
        PyObject *edge = PyTuple_GET_ITEM(PyList_GET_ITEM(roots, i), 0);
        PyObject *ct = PyTuple_GET_ITEM(PyList_GET_ITEM(roots, i), 1), *node = PyTuple_GET_ITEM(edge, 0);
        if (node == Py_None)
            continue;
        Py_ssize_t number = entry_of(&walk, node, &is_new);
        Entry *entry = &walk.entries[number];
        int first = 1;
        for (Py_ssize_t k = 0; k < i; k++)
            first &= PyTuple_GET_ITEM(PyTuple_GET_ITEM(PyList_GET_ITEM(roots, k), 0), 0) != node;
        if (first && entry->pending == 0)
            push_ready(&walk, number);
        if (ct != Py_None)
            failed = arrive(state, entry, PyLong_AsSsize_t(PyTuple_GET_ITEM(edge, 1)), Py_NewRef(ct)) < 0;
    }
    while (!failed && walk.n_ready)
        failed = visit_node(state, &walk, pop_ready(&walk), keep, args[2], args[3], args[4]) < 0;
    state->grad = before;
    for (Py_ssize_t i = 0; i < walk.n; i++) {
        forget_cts(&walk.entries[i]);
        Py_DECREF(walk.entries[i].node);
    }
    PyMem_Free(walk.entries);
    PyMem_Free(walk.places);
    PyMem_Free(walk.ready);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- the module --------------------------------------------------------------------------------------------------- */

static int find_slot(PyObject *given, const char *type, const char *name, Py_ssize_t *place)
{
    PyObject *found = PyDict_GetItemString(given, type);
    PyObject *member = found == NULL ? NULL : PyObject_GetAttrString(found, name);
    if (member == NULL || !Py_IS_TYPE(member, &PyMemberDescr_Type)) {
        PyErr_Format(PyExc_TypeError, "%s has no slot %s", type, name);
        Py_XDECREF(member);
        return -1;
    }
    *place = ((PyMemberDescrObject *)member)->d_member->offset;
    Py_DECREF(member);
    return 0;
}

/* configure(objects): take the classes and functions that are worked with, by name. */
static PyObject *configure(PyObject *module, PyObject *given)
{
    if (!PyDict_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "configure takes a dict");
        return NULL;
    }
#define FIND(name) \
    PyObject *found_##name = PyDict_GetItemString(given, #name); \
    if (found_##name == NULL) \
        return PyErr_Format(PyExc_TypeError, "%s is missing", #name);
#define X(name) FIND(name) name##_type = (PyTypeObject *)Py_NewRef(found_##name);
    TYPES(X)
#undef X
#define X(name) FIND(name) py_##name = Py_NewRef(found_##name);
    OBJECTS(X)
#undef X
#define X(type, name) \
    if (find_slot(given, #type, #name, &at_##type##_##name) < 0) \
        return NULL;
    SLOTS(X)
#undef X
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"configure", configure, METH_O, NULL},
    {"wrap", wrap, METH_O, NULL},
    {"strided", (PyCFunction)(void (*)(void))strided, METH_FASTCALL, NULL},
    {"apply", (PyCFunction)(void (*)(void))apply, METH_FASTCALL, NULL},
    {"record", (PyCFunction)(void (*)(void))record_known, METH_FASTCALL, NULL},
    {"view", (PyCFunction)(void (*)(void))make_view, METH_FASTCALL, NULL},
    {"outline", outline, METH_O, NULL},
    {"index", (PyCFunction)(void (*)(void))index_array, METH_FASTCALL, NULL},
    {"overlaps_in_part", (PyCFunction)(void (*)(void))overlaps_in_part, METH_FASTCALL, NULL},
    {"walk", (PyCFunction)(void (*)(void))walk_back, METH_FASTCALL, NULL},
    {"user_place", user_place, METH_NOARGS, NULL},
    {"get_grad", get_grad, METH_O, NULL},
    {"set_grad", (PyCFunction)(void (*)(void))set_grad, METH_FASTCALL, NULL},
    {"set_unusual", set_unusual, METH_O, NULL},
    {"forget_plans", forget_plans, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tracegrad_engine", NULL, -1, functions, NULL, NULL,
                                        NULL, NULL};

PyMODINIT_FUNC PyInit_tracegrad_engine(void)
{
    import_array();
    if (PyType_Ready(&Record_type) < 0 || PyType_Ready(&Table_type) < 0 || PyType_Ready(&Operation_type) < 0)
        return NULL;
    zero = PyLong_FromLong(0);
    empty_text = PyUnicode_FromString("");
    empty_tuple = PyTuple_New(0);
    str_kernel = PyUnicode_InternFromString("kernel");
    str_compile = PyUnicode_InternFromString("compile");
    str_array = PyUnicode_InternFromString("_a");
    str_pullback = PyUnicode_InternFromString("pullback");
    position_descr = PyArray_DescrFromType(NPY_INT64);
    str_shorten = PyUnicode_InternFromString("shorten");
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyErr_Occurred() ||
        PyModule_AddObjectRef(module, "Operation", (PyObject *)&Operation_type) < 0 ||
        PyModule_AddIntConstant(module, "MAX_OPERANDS", MAX_OPERANDS) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
