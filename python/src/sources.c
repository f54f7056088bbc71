/* Datasets whose examples Python reads, transforms of Python, files from the network, ONNX models, and groups. */
#include "core.h"

/* ---- datasets ---- */

/* The context of a dataset: its examples, whether their number is unknown, and its fields. */
typedef struct own_dataset {
    PyObject  *source;
    bool       unknown;
    int        count;
    haul_field fields[HAUL_MAX_FIELDS]; /* without their texts */
    PyObject  *names;                   /* a tuple */
} own_dataset;

static void close_dataset(void *context)
{
    own_dataset *own = context;
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_XDECREF(own->source);
    Py_XDECREF(own->names);
    PyMem_Free(own);
    PyGILState_Release(gil);
}

/* Copies a value into the memory of a field. False: raised. */
static bool write_field(haul_example *example, const own_dataset *own, int i, PyObject *value)
{
    const haul_field *field = &own->fields[i];
    PyObject         *array = haulpy_is_array(value) && haul_tensor_dtype(haulpy_tensor(value, "x")) == field->dtype
                                  ? Py_NewRef(value)
                                  : haulpy_build(value, field->dtype, haul_cpu());
    if (!array)
        return false;
    haul_tensor *x = haulpy_tensor(array, "a field");
    haul_shape   shape = haul_tensor_shape(x);
    bool         varies = false, same = shape.ndim == field->shape.ndim;
    for (int k = 0; same && k < shape.ndim; k++) {
        varies = varies || field->shape.dims[k] < 0;
        same = field->shape.dims[k] < 0 || field->shape.dims[k] == shape.dims[k];
    }
    void *to = example->fields[i].data;
    if (!same) {
        PyObject *have = haulpy_shape(shape), *want = haulpy_shape(field->shape);
        if (have && want)
            PyErr_Format(PyExc_ValueError, "the field %R of example %lld has the shape %S, and %S is expected",
                         PyTuple_GetItem(own->names, i), (long long)example->index, have, want);
        Py_XDECREF(have);
        Py_XDECREF(want);
    } else if (varies && !(to = haul_example_resize(example, i, field->dtype, shape))) {
        haulpy_raise();
        same = false;
    } else if (haul_tensor_count(x)) {
        haul_status            status;
        Py_BEGIN_ALLOW_THREADS status = haul_read(x, to, haul_tensor_bytes(x));
        Py_END_ALLOW_THREADS if (status)
        {
            haulpy_raise();
            same = false;
        }
    }
    Py_DECREF(array);
    return same;
}

/* The value of a field: by its name in a dictionary, else by its place. A new reference; NULL: raised. */
static PyObject *value_of(const own_dataset *own, PyObject *example, int i)
{
    if (PyDict_Check(example)) {
        PyObject *value = PyDict_GetItemWithError(example, PyTuple_GetItem(own->names, i));
        if (!value && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, PyTuple_GetItem(own->names, i));
        return Py_XNewRef(value);
    }
    if (PyTuple_Check(example) && PyTuple_Size(example) == own->count)
        return Py_NewRef(PyTuple_GetItem(example, i));
    if (own->count == 1)
        return Py_NewRef(example);
    PyErr_Format(PyExc_TypeError, "an example is a tuple of %d values or a dictionary, not %R", own->count,
                 (PyObject *)Py_TYPE(example));
    return NULL;
}

static haul_status read_example(void *context, haul_example *example)
{
    own_dataset     *own = context;
    PyGILState_STATE gil = PyGILState_Ensure();
    haul_scope      *scope = haulpy_enter();
    PyObject        *index = PyLong_FromLongLong(example->index);
    PyObject        *item = index ? PyObject_GetItem(own->source, index) : NULL;
    bool             ended = !item && own->unknown && PyErr_ExceptionMatches(PyExc_IndexError);
    bool             fine = item != NULL;
    for (int i = 0; fine && i < own->count; i++) {
        PyObject *value = value_of(own, item, i);
        fine = value && write_field(example, own, i, value);
        Py_XDECREF(value);
    }
    if (ended)
        PyErr_Clear();
    haulpy_leave(scope);
    if (!fine && !ended)
        haulpy_report_exception("dataset"); /* the loader may be another thread's */
    else
        haul_error_clear();
    haul_status status = ended ? HAUL_END_OF_DATA : fine ? HAUL_OK : haul_error_status();
    haulpy_leave_python(gil, 2, item, index);
    return status;
}

/* _dataset_new(source, [(name, dtype, shape, classes, padding)], count or -1, name) */
static PyObject *dataset_new(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject           *source, *fields;
    long long           count;
    haul_dataset_source made = {.read = read_example, .close = close_dataset};
    if (!PyArg_ParseTuple(args, "OO!Ls", &source, &PyTuple_Type, &fields, &count, &made.name))
        return NULL;
    Py_ssize_t many = PyTuple_Size(fields);
    if (many < 1 || many > HAUL_MAX_FIELDS) {
        PyErr_Format(PyExc_ValueError, "a dataset has 1 to %d fields, not %zd", HAUL_MAX_FIELDS, many);
        return NULL;
    }
    own_dataset *own = PyMem_Calloc(1, sizeof *own);
    if (!own)
        return PyErr_NoMemory();
    own->count = (int)many;
    own->unknown = count < 0;
    own->names = PyTuple_New(many);
    bool fine = own->names != NULL;
    for (int i = 0; fine && i < own->count; i++) {
        haul_field *f = &made.fields[i];
        PyObject   *dtype, *shape, *name;
        fine = PyArg_ParseTuple(PyTuple_GetItem(fields, i), "UOOid", &name, &dtype, &shape, &f->classes, &f->padding) &&
               (f->name = PyUnicode_AsUTF8AndSize(name, NULL)) && haulpy_as_dtype(dtype, &f->dtype) &&
               haulpy_as_shape(shape, "the shape of a field", &f->shape) &&
               !PyTuple_SetItem(own->names, i, Py_NewRef(name));
        own->fields[i] = *f;
        own->fields[i].name = NULL;
    }
    if (!fine) {
        Py_XDECREF(own->names);
        PyMem_Free(own);
        return NULL;
    }
    own->source = Py_NewRef(source);
    made.context = own;
    made.count = count < 0 ? HAUL_UNKNOWN : count;
    haul_dataset *dataset;
    haulpy_begin();
    Py_BEGIN_ALLOW_THREADS dataset = haul_dataset_new(&made);
    Py_END_ALLOW_THREADS return haulpy_object(KIND_DATASET, dataset, false);
}

/* ---- transforms ---- */

/* The context of a transform: its function, the fields that it gets, and what it makes of them. */
typedef struct own_transform {
    PyObject *function;
    PyObject *names;   /* a tuple of texts */
    PyObject *changes; /* a tuple of (field, dtype or None, shape or None) */
    int       draws;   /* random numbers that the function gets */
} own_transform;

static void close_transform(void *context)
{
    own_transform *own = context;
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_XDECREF(own->function);
    Py_XDECREF(own->names);
    Py_XDECREF(own->changes);
    PyMem_Free(own);
    PyGILState_Release(gil);
}

/* The number of a field in the example; -1: raised. */
static int field_of(haul_example *example, PyObject *name)
{
    const char       *text = PyUnicode_AsUTF8AndSize(name, NULL);
    const haul_value *value = text ? haul_example_field(example, text) : NULL;
    if (text && !value)
        haulpy_raise();
    return value ? (int)(value - example->fields) : -1;
}

/* The arguments of the function: copies of the fields, and random numbers. A new reference; NULL: raised. */
static PyObject *transform_arguments(const own_transform *own, haul_example *example, const int *fields, int count)
{
    PyObject *given = PyTuple_New(count + own->draws);
    bool      fine = given != NULL;
    for (int i = 0; fine && i < count; i++) {
        const haul_value *v = &example->fields[fields[i]];
        double            nothing = 0;
        haul_tensor      *x = NULL;
        Py_BEGIN_ALLOW_THREADS if (!haul_set_device(haul_cpu())) x =
            haul_from_host(v->dtype, v->shape, v->data ? v->data : &nothing);
        Py_END_ALLOW_THREADS PyObject *array = x ? haulpy_array(x, false) : haulpy_raise();
        fine = array && !PyTuple_SetItem(given, i, array);
    }
    for (int i = 0; fine && i < own->draws; i++) {
        PyObject *number = PyFloat_FromDouble(haul_draw_unit(&example->draws));
        fine = number && !PyTuple_SetItem(given, count + i, number);
    }
    if (!fine)
        Py_CLEAR(given);
    return given;
}

/* Puts what the function returned in the place of a field. False: raised. */
static bool put_field(haul_example *example, int field, PyObject *value)
{
    haul_value *v = &example->fields[field];
    PyObject   *array = haulpy_is_array(value) ? Py_NewRef(value) : haulpy_build(value, HAUL_DTYPE_NONE, haul_cpu());
    if (!array)
        return false;
    haul_tensor     *x = haulpy_tensor(array, "what a transform returns");
    const haul_shape shape = haul_tensor_shape(x);
    const bool       same = haul_tensor_dtype(x) == v->dtype && shape.ndim == v->shape.ndim &&
                      !memcmp(shape.dims, v->shape.dims, (size_t)shape.ndim * sizeof *shape.dims);
    haul_status status = HAUL_OK;
    Py_BEGIN_ALLOW_THREADS if (!same) haul_example_resize(example, field, haul_tensor_dtype(x), shape);
    status = haul_error_status();
    if (!status && haul_tensor_count(x))
        status = haul_read(x, v->data, haul_tensor_bytes(x));
    Py_END_ALLOW_THREADS if (status) haulpy_raise();
    Py_DECREF(array);
    return !status;
}

static bool put_fields(haul_example *example, const int *fields, int count, PyObject *value)
{
    if (count == 1 && !PyTuple_Check(value))
        return put_field(example, fields[0], value);
    if (!PyTuple_Check(value) || PyTuple_Size(value) != count) {
        PyErr_Format(PyExc_TypeError, "what a transform returns: a tuple of %d is expected, not %R", count,
                     (PyObject *)Py_TYPE(value));
        return false;
    }
    for (int i = 0; i < count; i++)
        if (!put_field(example, fields[i], PyTuple_GetItem(value, i)))
            return false;
    return true;
}

static haul_status apply_transform(void *context, haul_example *example)
{
    const own_transform *own = context;
    PyGILState_STATE     gil = PyGILState_Ensure();
    haul_scope          *scope = haulpy_enter();
    int                  fields[HAUL_MAX_FIELDS], count = (int)PyTuple_Size(own->names);
    bool                 fine = true;
    for (int i = 0; fine && i < count; i++)
        fine = (fields[i] = field_of(example, PyTuple_GetItem(own->names, i))) >= 0;
    PyObject *given = fine ? transform_arguments(own, example, fields, count) : NULL;
    PyObject *value = given ? PyObject_CallObject(own->function, given) : NULL;
    fine = value && put_fields(example, fields, count, value);
    haulpy_leave(scope);
    if (!fine)
        haulpy_report_exception("transform"); /* the loader may be another thread's */
    else
        haul_error_clear();
    haul_status status = fine ? HAUL_OK : haul_error_status();
    haulpy_leave_python(gil, 2, value, given);
    return status;
}

static haul_status change_fields(void *context, haul_field *fields, int *count)
{
    const own_transform *own = context;
    PyGILState_STATE     gil = PyGILState_Ensure();
    bool                 fine = true;
    for (Py_ssize_t i = 0; fine && i < PyTuple_Size(own->changes); i++) {
        const char *name;
        PyObject   *dtype, *shape;
        int         k = 0;
        fine = PyArg_ParseTuple(PyTuple_GetItem(own->changes, i), "sOO", &name, &dtype, &shape);
        while (fine && k < *count && strcmp(fields[k].name, name) != 0)
            k++;
        if (fine && k == *count) {
            PyErr_Format(PyExc_ValueError, "the dataset has no field \"%s\"", name);
            fine = false;
        }
        fine = fine && (dtype == Py_None || haulpy_as_dtype(dtype, &fields[k].dtype)) &&
               (shape == Py_None || haulpy_as_shape(shape, "the shape of a field", &fields[k].shape));
    }
    haul_status status = haulpy_ended(fine, "transform");
    PyGILState_Release(gil);
    return status;
}

/* _transform_new(function, (field, ...), ((field, dtype or None, shape or None), ...), draws) */
static PyObject *transform_new(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject *function, *names, *changes;
    int       draws;
    if (!PyArg_ParseTuple(args, "OO!O!i", &function, &PyTuple_Type, &names, &PyTuple_Type, &changes, &draws))
        return NULL;
    if (!PyCallable_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "transform: a function is expected");
        return NULL;
    }
    if (PyTuple_Size(names) < 1 || PyTuple_Size(names) > HAUL_MAX_FIELDS || draws < 0 || draws > 1 << 20) {
        PyErr_Format(PyExc_ValueError, "transform: 1 to %d fields, and up to 1048576 draws, are expected",
                     HAUL_MAX_FIELDS);
        return NULL;
    }
    own_transform *own = PyMem_Calloc(1, sizeof *own);
    if (!own)
        return PyErr_NoMemory();
    *own = (own_transform){.function = Py_NewRef(function), .names = Py_NewRef(names), .draws = draws};
    own->changes = Py_NewRef(changes);
    haulpy_begin();
    return haulpy_object(
        KIND_TRANSFORM,
        haul_transform_new_with(&(haul_transform_options){.apply = apply_transform,
                                                          .fields = PyTuple_Size(changes) ? change_fields : NULL,
                                                          .close = close_transform,
                                                          .context = own}),
        false);
}

/* ---- files from the network ---- */

static bool report_progress(void *context, int64_t bytes, int64_t total)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *value = PyObject_CallFunction(context, "LL", (long long)bytes, (long long)total);
    const int        goes_on = !value ? -1 : value == Py_None ? 1 : PyObject_IsTrue(value);
    if (goes_on < 0)
        haulpy_keep_exception("progress");
    haulpy_leave_python(gil, 1, value);
    return goes_on > 0;
}

/* _fetch(url, sha256, folder, limit, stall, cache_limit, progress): the path. */
static PyObject *fetch(PyObject *unused, PyObject *args)
{
    (void)unused;
    haul_fetch_options o = {.url = NULL};
    PyObject          *progress;
    long long          limit, cache_limit;
    if (!PyArg_ParseTuple(args, "szzLiLO", &o.url, &o.sha256, &o.folder, &limit, &o.stall, &cache_limit, &progress))
        return NULL;
    o.limit = limit;
    o.cache_limit = cache_limit;
    o.progress = progress == Py_None ? NULL : report_progress;
    o.context = progress;
    char        path[4096];
    haul_status status;
    haulpy_begin();
    Py_BEGIN_ALLOW_THREADS status = haul_fetch_with(path, sizeof path, &o);
    Py_END_ALLOW_THREADS return status ? haulpy_raise() : PyUnicode_DecodeFSDefault(path);
}

/* ---- ONNX ---- */

/* _save_onnx(path, module, inputs, opset, dynamic, external) */
static PyObject *save_onnx(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject              *path, *object, *inputs;
    int                    dynamic, external;
    haul_save_onnx_options o = {.opset = 0};
    if (!PyArg_ParseTuple(args, "O&OO!ipp", PyUnicode_FSConverter, &path, &object, &PyTuple_Type, &inputs, &o.opset,
                          &dynamic, &external))
        return NULL;
    o.dynamic = dynamic != 0;
    o.external = external != 0;
    haul_module *module = haulpy_handle(object, KIND_MODULE, "the module");
    Py_ssize_t   count = PyTuple_Size(inputs);
    bool         fine = module != NULL;
    if (fine && (count < 1 || count > HAUL_MAX_ARGUMENTS)) {
        PyErr_Format(PyExc_TypeError, "save_onnx: 1 to %d inputs are expected, not %zd", HAUL_MAX_ARGUMENTS, count);
        fine = false;
    }
    for (Py_ssize_t i = 0; fine && i < count; i++) {
        PyObject *x = PyTuple_GetItem(inputs, i);
        fine = (o.x[i] = x == Py_None ? HAUL_NONE : haulpy_tensor(x, "an input")) != NULL;
    }
    if (fine) {
        haul_scope            *scope = haulpy_enter();
        haul_status            status;
        Py_BEGIN_ALLOW_THREADS status = haul_save_onnx_with(PyBytes_AsString(path), module, &o);
        Py_END_ALLOW_THREADS if (status) haulpy_raise();
        haulpy_leave(scope);
        fine = !status;
    }
    Py_DECREF(path);
    return fine ? Py_NewRef(Py_None) : NULL;
}

/* ---- groups ---- */

/* _group_describe(group): a dictionary with the members of haul_group_properties. */
static PyObject *group_describe(PyObject *unused, PyObject *object)
{
    (void)unused;
    haul_group           *group = haulpy_handle(object, KIND_GROUP, "the group");
    haul_group_properties p;
    if (!group)
        return NULL;
    haulpy_begin();
    if (haul_group_describe(group, &p))
        return haulpy_raise();
    return Py_BuildValue("{sssssssssisisdsLsL}", "kind", p.kind, "library", p.library, "family", p.family, "version",
                         p.version, "rank", p.rank, "size", p.size, "limit", p.limit, "collectives",
                         (long long)p.collectives, "sent_bytes", (long long)p.sent_bytes);
}

PyMethodDef haulpy_source_functions[] = {{"_dataset_new", dataset_new, METH_VARARGS, NULL},
                                         {"_transform_new", transform_new, METH_VARARGS, NULL},
                                         {"_fetch", fetch, METH_VARARGS, NULL},
                                         {"_save_onnx", save_onnx, METH_VARARGS, NULL},
                                         {"_group_describe", group_describe, METH_O, NULL},
                                         {NULL, NULL, 0, NULL}};
