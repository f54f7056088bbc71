/* Modules whose forward is in Python, and calls whose results are structs: lists of tensors, batches, scopes. */
#include "core.h"

/* ---- modules of the program ---- */

/* The state of a module whose forward is in Python: a weak reference to the object. The object holds the module, not
 * the module the object, so that both can end. */
typedef struct own_module {
    PyObject *weak;
} own_module;

static void end_own(void *state)
{
    own_module *own = state;
    if (!own->weak || !Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    haulpy_leave_python(gil, 1, own->weak);
}

haul_tensor *haulpy_as_scoped(haul_tensor *x)
{
    int axes[HAUL_MAX_DIMS], n = haul_tensor_ndim(x);
    for (int i = 0; i < n; i++)
        axes[i] = i;
    return n > 0 ? haul_permute(x, axes, n) : haul_view(x, (haul_shape){0});
}

static haul_tensor *results_of(PyObject *value, haul_args *args)
{
    if (haulpy_is_array(value))
        return haulpy_as_scoped(((array_object *)value)->tensor);
    if (!PyTuple_Check(value) || PyTuple_Size(value) < 1 || PyTuple_Size(value) > HAUL_MAX_ARGUMENTS) {
        PyErr_Format(PyExc_TypeError, "forward returned %R; an Array, or a tuple of up to %d is expected",
                     (PyObject *)Py_TYPE(value), HAUL_MAX_ARGUMENTS);
        return NULL;
    }
    haul_tensor *first = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); i++) {
        haul_tensor *x = haulpy_tensor(PyTuple_GetItem(value, i), "a result of forward");
        if (!x)
            return NULL;
        if (i)
            args->y[i] = haulpy_as_scoped(x);
        else
            first = haulpy_as_scoped(x);
    }
    return first;
}

static haul_tensor *call_forward(PyObject *object, haul_args *args)
{
    PyObject *inputs = PyTuple_New(args->count), *method = PyObject_GetAttrString(object, "forward");
    bool      fine = inputs && method;
    for (int i = 0; fine && i < args->count; i++) {
        PyObject *input = args->x[i] == HAUL_NONE ? Py_NewRef(Py_None) : haulpy_array(args->x[i], true);
        fine = input && !PyTuple_SetItem(inputs, i, input);
    }
    PyObject    *value = fine ? PyObject_CallObject(method, inputs) : NULL;
    haul_tensor *result = value ? results_of(value, args) : NULL;
    Py_XDECREF(value);
    Py_XDECREF(method);
    Py_XDECREF(inputs);
    return result;
}

static haul_tensor *forward(haul_module *self, haul_args *args)
{
    own_module      *own = haul_module_state(self);
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *object = own && own->weak ? Py_NewRef(PyWeakref_GetObject(own->weak)) : Py_NewRef(Py_None);
    haul_tensor     *result = NULL;
    if (object == Py_None)
        PyErr_SetString(PyExc_RuntimeError,
                        "the object of a module of the program has ended: keep it as long as the module is used");
    else
        result = call_forward(object, args);
    haulpy_ended(!PyErr_Occurred(), "forward");
    haulpy_leave_python(gil, 1, object);
    return result ? result
                  : haul_tensor_fail(haul_error_status(), "forward", NULL, "the function of the program failed");
}

/* _module_init(object, kind, inputs, results): makes the module of an object of a Python class. */
static PyObject *module_init(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject   *object;
    const char *kind, *inputs, *results;
    if (!PyArg_ParseTuple(args, "Oszz", &object, &kind, &inputs, &results))
        return NULL;
    if (!PyObject_TypeCheck(object, object_types[KIND_MODULE]) || ((haul_object *)object)->object) {
        PyErr_SetString(PyExc_TypeError, "a haul module that was not made yet is expected");
        return NULL;
    }
    PyObject *weak = PyWeakref_NewRef(object, NULL);
    if (!weak)
        return NULL;
    haulpy_begin();
    haul_module *m = haul_module_new_with(kind, &(haul_module_options){.forward = forward,
                                                                       .inputs = inputs,
                                                                       .results = results,
                                                                       .state_bytes = sizeof(own_module),
                                                                       .destroy = end_own});
    own_module  *own = m ? haul_module_state(m) : NULL;
    if (!own) {
        Py_DECREF(weak);
        return haulpy_raise();
    }
    own->weak = weak;
    ((haul_object *)object)->object = haul_take(m);
    return ((haul_object *)object)->object ? Py_NewRef(Py_None) : haulpy_raise();
}

/* One Array, or a tuple. A result that is an input is held by something else. */
static PyObject *results_of_call(const haul_call_options *o, haul_tensor *first, haul_tensor **more, int wanted)
{
    bool same = false;
    for (int i = 0; i < HAUL_MAX_ARGUMENTS; i++)
        same = same || first == o->x[i];
    PyObject *result = haulpy_array(first, same);
    if (!result || wanted < 2)
        return result;
    PyObject *tuple = PyTuple_New(wanted);
    if (!tuple || PyTuple_SetItem(tuple, 0, result)) {
        Py_XDECREF(tuple);
        return NULL;
    }
    for (int i = 1; i < wanted; i++) {
        PyObject *one = haulpy_array(more[i - 1], false);
        if (!one || PyTuple_SetItem(tuple, i, one)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

/* _module_call(module, inputs, mode, results): one Array, or a tuple of as many as there are results. */
static PyObject *module_call(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject *object, *inputs;
    int       mode, wanted;
    if (!PyArg_ParseTuple(args, "OO!ii", &object, &PyTuple_Type, &inputs, &mode, &wanted))
        return NULL;
    haul_module      *m = haulpy_handle(object, KIND_MODULE, "the module");
    haul_call_options o = {.mode = (haul_mode)mode};
    haul_tensor      *more[HAUL_MAX_ARGUMENTS - 1] = {NULL}, *first;
    Py_ssize_t        count = PyTuple_Size(inputs);
    if (!m)
        return NULL;
    if (count < 1 || count > HAUL_MAX_ARGUMENTS || wanted > HAUL_MAX_ARGUMENTS) {
        PyErr_Format(PyExc_TypeError, "a module has 1 to %d inputs, not %zd", HAUL_MAX_ARGUMENTS, count);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *input = PyTuple_GetItem(inputs, i);
        o.x[i] = input == Py_None ? HAUL_NONE : haulpy_tensor(input, "the input");
        if (!o.x[i])
            return NULL;
    }
    for (int i = 0; i < HAUL_MAX_ARGUMENTS - 1 && i < wanted - 1; i++)
        o.more[i] = &more[i];
    haul_scope                    *scope = haulpy_enter();
    Py_BEGIN_ALLOW_THREADS         first = haul_call_with(m, &o);
    Py_END_ALLOW_THREADS PyObject *results = results_of_call(&o, first, more, wanted);
    haulpy_leave(scope);
    return results;
}

/* ---- lists of tensors with names ---- */

static PyObject *named_list(const haul_named_tensor *list, int count)
{
    PyObject *out = PyList_New(0);
    for (int i = 0; out && i < count; i++) {
        PyObject *array = haulpy_array(list[i].tensor, true);
        PyObject *row = array ? Py_BuildValue("(sNi)", list[i].name, array, (int)list[i].is_buffer) : NULL;
        if (!row || PyList_Append(out, row)) {
            Py_DECREF(out);
            out = NULL;
        }
        Py_XDECREF(row);
    }
    return out;
}

typedef int list_function(void *object, int which, haul_named_tensor *out, int capacity);

static int list_module(void *object, int which, haul_named_tensor *out, int capacity)
{
    (void)which;
    return haul_module_tensors(object, out, capacity);
}

static int list_group(void *object, int which, haul_named_tensor *out, int capacity)
{
    return haul_optimizer_parameters(object, which, out, capacity);
}

static int list_state(void *object, int which, haul_named_tensor *out, int capacity)
{
    (void)which;
    return haul_optimizer_state(object, out, capacity);
}

static int list_average(void *object, int which, haul_named_tensor *out, int capacity)
{
    (void)which;
    return haul_average_tensors(object, out, capacity);
}

/* _tensors_of(object, what, group): [(name, Array, is_buffer)]. */
static PyObject *tensors_of(PyObject *unused, PyObject *args)
{
    (void)unused;
    static const struct {
        const char    *name;
        object_kind    kind;
        list_function *list;
    } lists[] = {{"module", KIND_MODULE, list_module},
                 {"group", KIND_OPTIMIZER, list_group},
                 {"state", KIND_OPTIMIZER, list_state},
                 {"average", KIND_AVERAGE, list_average}};
    PyObject   *object;
    const char *what;
    int         group = 0;
    if (!PyArg_ParseTuple(args, "Os|i", &object, &what, &group))
        return NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(what, lists[i].name))
            continue;
        void *handle = haulpy_handle(object, lists[i].kind, what);
        if (!handle)
            return NULL;
        haulpy_begin();
        int count = lists[i].list(handle, group, NULL, 0);
        if (count < 0)
            return haulpy_raise();
        haul_named_tensor *list = PyMem_Calloc((size_t)count + 1, sizeof *list);
        if (!list)
            return PyErr_NoMemory();
        int       again = lists[i].list(handle, group, list, count);
        PyObject *out = again < 0 ? haulpy_raise() : named_list(list, again < count ? again : count);
        PyMem_Free(list);
        return out;
    }
    PyErr_Format(PyExc_ValueError, "unknown list %s", what);
    return NULL;
}

/* _module_children(module): [(name, Module)]. */
static PyObject *module_children(PyObject *unused, PyObject *object)
{
    (void)unused;
    haul_module *m = haulpy_handle(object, KIND_MODULE, "the module");
    if (!m)
        return NULL;
    haulpy_begin();
    int count = haul_module_children(m, NULL, 0);
    if (count < 0)
        return haulpy_raise();
    haul_named_module *list = PyMem_Calloc((size_t)count + 1, sizeof *list);
    if (!list)
        return PyErr_NoMemory();
    int       again = haul_module_children(m, list, count);
    PyObject *out = PyList_New(0);
    for (int i = 0; out && i < again && i < count; i++) {
        PyObject *child = haulpy_object(KIND_MODULE, list[i].module, true);
        PyObject *row = child ? Py_BuildValue("(sN)", list[i].name, child) : NULL;
        if (!row || PyList_Append(out, row)) {
            Py_DECREF(out);
            out = NULL;
        }
        Py_XDECREF(row);
    }
    PyMem_Free(list);
    return out;
}

/* ---- data ---- */

/* The batch of a loader lasts until the next call, so only one thread at a time may take batches. NULL: raised. */
static haul_loader *take_loader(PyObject *object, const char *operation)
{
    haul_loader *loader = haulpy_handle(object, KIND_LOADER, "the loader");
    if (!loader)
        return NULL;
    haulpy_begin();
    if (((haul_object *)object)->busy) {
        haul_error_set(HAUL_STATE, operation, "loader",
                       "another thread takes a batch from the loader; give each thread a loader of its own");
        haulpy_raise();
        return NULL;
    }
    ((haul_object *)object)->busy = true;
    return loader;
}

/* _loader_start(loader, epoch, first) */
static PyObject *loader_start(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject *object;
    long long epoch, first;
    if (!PyArg_ParseTuple(args, "OLL", &object, &epoch, &first))
        return NULL;
    haul_loader *loader = take_loader(object, "loader_start");
    if (!loader)
        return NULL;
    haul_status            status;
    Py_BEGIN_ALLOW_THREADS status = haul_loader_start_at(loader, epoch, first);
    Py_END_ALLOW_THREADS((haul_object *)object)->busy = false;
    return status ? haulpy_raise() : Py_NewRef(Py_None);
}

static PyObject *fields_of(const haul_batch *b, haul_tensor *const *tensors)
{
    PyObject *fields = PyDict_New();
    for (int i = 0; fields && i < b->count; i++) {
        haul_field field;
        if (!haul_tensor_is_valid(tensors[i]) || haul_dataset_field(b->dataset, i, &field))
            continue;
        PyObject *array = haulpy_array(tensors[i], true);
        if (!array || PyDict_SetItemString(fields, field.name, array)) {
            Py_XDECREF(array);
            Py_DECREF(fields);
            return NULL;
        }
        Py_DECREF(array);
    }
    return fields;
}

static PyObject *batch_of(const haul_batch *b)
{
    PyObject *x = haulpy_array(b->x, true), *y = x ? haulpy_array(b->y, true) : NULL;
    PyObject *fields = y ? fields_of(b, b->tensors) : NULL, *lengths = fields ? fields_of(b, b->lengths) : NULL;
    if (lengths)
        return Py_BuildValue("(NNLLNN)", x, y, (long long)b->index, (long long)b->size, fields, lengths);
    Py_XDECREF(x);
    Py_XDECREF(y);
    Py_XDECREF(fields);
    return NULL;
}

/* _loader_next(loader): (x, y, index, size, fields, lengths), or None at the end of the epoch. */
static PyObject *loader_next(PyObject *unused, PyObject *object)
{
    (void)unused;
    haul_loader *loader = take_loader(object, "loader_next");
    if (!loader)
        return NULL;
    const haul_batch              *b;
    Py_BEGIN_ALLOW_THREADS         b = haul_loader_next(loader);
    Py_END_ALLOW_THREADS PyObject *made = NULL;
    if (b)
        made = batch_of(b);
    else if (haul_error_status() || haul_loader_status(loader) != HAUL_END_OF_DATA)
        haulpy_raise();
    else
        made = Py_NewRef(Py_None);
    ((haul_object *)object)->busy = false;
    return made;
}

static bool doubles(PyObject *value, double *out)
{
    PyObject *items = PySequence_Tuple(value);
    bool      fine = items && PyTuple_Size(items) <= HAUL_MAX_PARTS;
    for (Py_ssize_t i = 0; fine && i < PyTuple_Size(items); i++)
        fine = haulpy_as_double(PyTuple_GetItem(items, i), "fractions", &out[i]);
    if (!fine && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "at most %d parts are possible", HAUL_MAX_PARTS);
    Py_XDECREF(items);
    return fine;
}

/* _dataset_split(dataset, fractions, seed, in_order): a tuple of datasets. */
static PyObject *dataset_split(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject                  *object, *fractions;
    unsigned long long         seed;
    int                        in_order;
    haul_dataset_split_options o = {.dataset = NULL};
    if (!PyArg_ParseTuple(args, "OOKp", &object, &fractions, &seed, &in_order) ||
        !(o.dataset = haulpy_handle(object, KIND_DATASET, "the dataset")) || !doubles(fractions, o.fractions))
        return NULL;
    o.seed = seed;
    o.in_order = in_order != 0;
    haul_dataset *parts[HAUL_MAX_PARTS] = {NULL};
    haulpy_begin();
    if (haul_dataset_split_with(parts, &o))
        return haulpy_raise();
    int count = 0;
    while (count < HAUL_MAX_PARTS && parts[count])
        count++;
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *part = haulpy_object(KIND_DATASET, parts[i], false);
        if (!part || PyTuple_SetItem(tuple, i, part)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

/* ---- scopes: for the settings and budgets that end with them ---- */

static PyObject *scope_push(PyObject *unused, PyObject *no)
{
    (void)unused;
    (void)no;
    haulpy_begin();
    haul_scope *scope = haul_scope_push_named("with");
    return scope ? PyLong_FromVoidPtr(scope) : haulpy_raise();
}

static PyObject *scope_pop(PyObject *unused, PyObject *handle)
{
    (void)unused;
    haul_scope *scope = PyLong_AsVoidPtr(handle);
    if (!scope && PyErr_Occurred())
        return NULL;
    haulpy_begin();
    haul_status            status;
    Py_BEGIN_ALLOW_THREADS status = haul_scope_pop(scope);
    Py_END_ALLOW_THREADS return status ? haulpy_raise() : Py_NewRef(Py_None);
}

/* _autocast(devices, dtype or None): for the innermost scope. */
static PyObject *autocast(PyObject *unused, PyObject *args)
{
    (void)unused;
    const char *devices;
    PyObject   *dtype;
    haul_dtype  to = HAUL_DTYPE_NONE;
    if (!PyArg_ParseTuple(args, "sO", &devices, &dtype) || (dtype != Py_None && !haulpy_as_dtype(dtype, &to)))
        return NULL;
    haulpy_begin();
    (void)haul_autocast_begin(devices, to);
    return haulpy_failed() ? NULL : Py_NewRef(Py_None);
}

/* ---- devices ---- */

/* _devices(): [(name, usable, reason)]. */
static PyObject *devices(PyObject *unused, PyObject *no)
{
    (void)unused;
    (void)no;
    haul_device_report reports[64];
    int                count;
    haulpy_begin();
    Py_BEGIN_ALLOW_THREADS         count = haul_device_list(reports, 64);
    Py_END_ALLOW_THREADS PyObject *list = PyList_New(0);
    for (int i = 0; list && i < count && i < 64; i++) {
        PyObject *row = Py_BuildValue("(sNs)", reports[i].name, PyBool_FromLong(reports[i].usable), reports[i].reason);
        if (!row || PyList_Append(list, row)) {
            Py_DECREF(list);
            list = NULL;
        }
        Py_XDECREF(row);
    }
    return list;
}

/* _memory(device): the bytes in use, and the most so far. */
static PyObject *memory(PyObject *unused, PyObject *name)
{
    (void)unused;
    haul_device      *device = haulpy_as_device(name);
    haul_memory_stats stats;
    if (!device)
        return NULL;
    haulpy_begin();
    if (haul_memory_stats_get(device, &stats))
        return haulpy_raise();
    return Py_BuildValue("{sLsL}", "allocated", (long long)stats.allocated, "peak_allocated",
                         (long long)stats.peak_allocated);
}

PyMethodDef haulpy_program_functions[] = {{"_module_init", module_init, METH_VARARGS, NULL},
                                          {"_module_call", module_call, METH_VARARGS, NULL},
                                          {"_module_children", module_children, METH_O, NULL},
                                          {"_tensors_of", tensors_of, METH_VARARGS, NULL},
                                          {"_loader_start", loader_start, METH_VARARGS, NULL},
                                          {"_loader_next", loader_next, METH_O, NULL},
                                          {"_dataset_split", dataset_split, METH_VARARGS, NULL},
                                          {"_scope_push", scope_push, METH_NOARGS, NULL},
                                          {"_scope_pop", scope_pop, METH_O, NULL},
                                          {"_autocast", autocast, METH_VARARGS, NULL},
                                          {"_devices", devices, METH_NOARGS, NULL},
                                          {"_memory", memory, METH_O, NULL},
                                          {NULL, NULL, 0, NULL}};
