/* Arrays from numbers, lists and buffers, and back to numbers and lists. */
#include "core.h"

/* What nested lists hold. */
typedef struct nested {
    haul_shape shape;
    int        kind; /* 0: bools, 1: whole numbers, 2: floats */
    size_t     count, bytes;
    haul_dtype arrays;        /* of the Arrays without dimensions among the numbers, promoted */
    haul_dtype dtype, wanted; /* of `data`: bool, i64, f32 or f64; of the Array */
    char      *data;
} nested;

static bool is_scalar_array(PyObject *value)
{
    return haulpy_is_array(value) && haul_tensor_ndim(((array_object *)value)->tensor) == 0;
}

static bool is_leaf(PyObject *value)
{
    if (is_scalar_array(value))
        return true;
    return haulpy_is_number(value) || (!PyList_Check(value) && !PyTuple_Check(value) && !PySequence_Check(value));
}

static PyObject *items_of(PyObject *value)
{
    if (PyList_Check(value) || PyTuple_Check(value))
        return Py_NewRef(value);
    return PySequence_List(value);
}

static Py_ssize_t count_of(PyObject *items)
{
    return PyList_Check(items) ? PyList_Size(items) : PyTuple_Size(items);
}

/* A new reference: functions of the program that read an item may change the list. */
static PyObject *item_of(PyObject *items, Py_ssize_t i)
{
    return Py_XNewRef(PyList_Check(items) ? PyList_GetItem(items, i) : PyTuple_GetItem(items, i));
}

static int kind_of_dtype(haul_dtype dtype)
{
    return dtype == HAUL_BOOL ? 0 : haul_dtype_is_integer(dtype) ? 1 : 2;
}

static int kind_of(PyObject *value)
{
    if (is_scalar_array(value))
        return kind_of_dtype(haul_tensor_dtype(((array_object *)value)->tensor));
    if (PyBool_Check(value))
        return 0;
    if (PyLong_Check(value))
        return 1;
    if (PyFloat_Check(value))
        return 2;
    if (haulpy_is_array(value) || PyUnicode_Check(value) || !PyNumber_Check(value)) {
        PyErr_Format(PyExc_TypeError, "an Array is made of numbers, not %R%s", (PyObject *)Py_TYPE(value),
                     haulpy_is_array(value) ? "; haul.stack joins Arrays" : "");
        return -1;
    }
    return PyIndex_Check(value) ? 1 : 2; /* a number of NumPy */
}

/* First walk: the shape, which all lists of a level share, and the kind. */
static bool measure(nested *n, PyObject *value, int depth, bool first)
{
    if (is_leaf(value)) {
        int kind = kind_of(value);
        if (kind < 0)
            return false;
        n->kind = kind > n->kind ? kind : n->kind;
        if (is_scalar_array(value)) {
            haul_dtype dtype = haul_tensor_dtype(((array_object *)value)->tensor);
            n->arrays = n->arrays ? haul_dtype_promote(n->arrays, dtype) : dtype;
        }
        n->count++;
        if (depth == n->shape.ndim)
            return true;
        PyErr_SetString(PyExc_ValueError, "the lists are nested to different depths");
        return false;
    }
    if (depth == HAUL_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "the lists are nested more than %d deep", HAUL_MAX_DIMS);
        return false;
    }
    if (depth && haulpy_is_array(value)) {
        PyErr_SetString(PyExc_TypeError, "an Array is made of numbers, not of Arrays with dimensions; haul.stack joins "
                                         "Arrays");
        return false;
    }
    PyObject *items = PyUnicode_Check(value) ? NULL : items_of(value);
    if (!items) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "an Array is made of numbers, not of texts");
        return false;
    }
    Py_ssize_t count = count_of(items);
    if (first && depth == n->shape.ndim) {
        n->shape.dims[n->shape.ndim++] = count;
    } else if (depth >= n->shape.ndim || n->shape.dims[depth] != count) {
        PyErr_SetString(PyExc_ValueError, "the lists of a level have different lengths");
        Py_DECREF(items);
        return false;
    }
    bool fine = true;
    for (Py_ssize_t i = 0; fine && i < count; i++) {
        PyObject *item = item_of(items, i);
        fine = item && measure(n, item, depth + 1, first && i == 0);
        Py_XDECREF(item);
    }
    Py_DECREF(items);
    return fine;
}

static bool fill_u64(PyObject *value, uint64_t *to)
{
    PyObject *index = PyNumber_Index(value);
    *to = index ? PyLong_AsUnsignedLongLong(index) : 0; /* negative numbers are errors, too */
    Py_XDECREF(index);
    return !PyErr_Occurred();
}

/* Second walk. A list that changes meanwhile is noticed: there is room for as many numbers as were counted. */
static bool fill(nested *n, PyObject *value)
{
    if (!is_leaf(value)) {
        PyObject *items = items_of(value);
        bool      fine = items != NULL;
        for (Py_ssize_t i = 0; fine && i < count_of(items); i++) {
            PyObject *item = item_of(items, i);
            fine = item && fill(n, item);
            Py_XDECREF(item);
        }
        Py_XDECREF(items);
        return fine;
    }
    size_t size = (size_t)haul_dtype_bits(n->dtype) / 8;
    if (n->bytes + size > n->count * size) {
        PyErr_SetString(PyExc_RuntimeError, "a list changed while an Array was made of it");
        return false;
    }
    if (is_scalar_array(value)) {
        PyObject *item = haulpy_item(value, NULL);
        bool      fine = item && fill(n, item);
        Py_XDECREF(item);
        return fine;
    }
    void *to = n->data + n->bytes;
    n->bytes += size;
    if (n->dtype == HAUL_I64)
        return haulpy_as_i64(value, "data", to) && haulpy_fits(*(int64_t *)to, n->wanted);
    if (n->dtype == HAUL_U64)
        return fill_u64(value, to);
    if (n->dtype == HAUL_BOOL) {
        int truth = PyObject_IsTrue(value);
        *(char *)to = truth > 0;
        return truth >= 0;
    }
    double number = PyFloat_AsDouble(value);
    if (number == -1 && PyErr_Occurred())
        return false;
    if (n->dtype == HAUL_F32)
        *(float *)to = (float)number;
    else
        *(double *)to = number;
    return true;
}

static PyObject *from_host(haul_dtype made, haul_dtype wanted, haul_shape shape, const void *data, haul_device *device)
{
    haul_scope  *scope = haulpy_enter(); /* the device is set for this scope */
    haul_tensor *t = NULL;
    Py_BEGIN_ALLOW_THREADS if (!device || !haul_set_device(device)) t = haul_from_host(made, shape, data);
    if (t && wanted != HAUL_DTYPE_NONE && wanted != made)
        t = haul_cast(t, wanted);
    Py_END_ALLOW_THREADS PyObject *array = t ? haulpy_array(t, false) : haulpy_raise();
    haulpy_leave(scope);
    return array;
}

static PyObject *from_lists(PyObject *data, haul_dtype dtype, haul_device *device)
{
    nested n = {0};
    if (!measure(&n, data, 0, true))
        return NULL;
    static const haul_dtype own[] = {HAUL_BOOL, HAUL_I64, HAUL_F32};
    haul_dtype              wanted = dtype ? dtype : n.count ? own[n.kind] : HAUL_F32;
    if (!dtype && n.arrays && kind_of_dtype(n.arrays) == n.kind)
        wanted = n.arrays;
    n.dtype = n.wanted = wanted;
    if (wanted != HAUL_BOOL && wanted != HAUL_I64 && wanted != HAUL_F32 && wanted != HAUL_F64)
        n.dtype = haul_dtype_is_float(wanted) ? HAUL_F64 : wanted == HAUL_U64 ? HAUL_U64 : HAUL_I64;
    if (n.kind == 2 && (n.dtype == HAUL_I64 || n.dtype == HAUL_U64))
        n.dtype = HAUL_F64; /* truncated by the cast, as other floats are */
    if (!(n.data = PyMem_Calloc(n.count + 1, 8)))
        return PyErr_NoMemory();
    bool fine = fill(&n, data);
    if (fine && n.bytes != n.count * (size_t)haul_dtype_bits(n.dtype) / 8) {
        PyErr_SetString(PyExc_RuntimeError, "a list changed while an Array was made of it");
        fine = false;
    }
    PyObject *made = fine ? from_host(n.dtype, wanted, n.shape, n.data, device) : NULL;
    PyMem_Free(n.data);
    return made;
}

/* The dtype of a buffer's format, in the machine's own order of bytes. */
static haul_dtype dtype_of_format(const Py_buffer *view)
{
    const char *format = view->format ? view->format : "B";
    const int   one = 1;
    bool        little = *(const char *)&one == 1;
    if (*format == '@' || *format == '=' || *format == (little ? '<' : '>') ||
        (strchr("<>!|", *format) && view->itemsize == 1))
        format++;
    if (!*format || format[1])
        return HAUL_DTYPE_NONE;
    if (strchr("bhilqn", *format))
        return view->itemsize == 1   ? HAUL_I8
               : view->itemsize == 2 ? HAUL_I16
               : view->itemsize == 4 ? HAUL_I32
               : view->itemsize == 8 ? HAUL_I64
                                     : HAUL_DTYPE_NONE;
    if (strchr("BHILQN", *format))
        return view->itemsize == 1   ? HAUL_U8
               : view->itemsize == 2 ? HAUL_U16
               : view->itemsize == 4 ? HAUL_U32
               : view->itemsize == 8 ? HAUL_U64
                                     : HAUL_DTYPE_NONE;
    switch (*format) {
    case '?': return HAUL_BOOL;
    case 'e': return HAUL_F16;
    case 'f': return HAUL_F32;
    case 'd': return HAUL_F64;
    default: return HAUL_DTYPE_NONE;
    }
}

static PyObject *from_buffer(PyObject *data, haul_dtype dtype, haul_device *device)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_FULL_RO))
        return NULL;
    PyObject  *made = NULL;
    haul_dtype own = dtype_of_format(&view);
    haul_shape shape = {.ndim = view.ndim};
    char      *copy = NULL;
    if (!own) {
        PyErr_Format(PyExc_TypeError,
                     "Haul has no dtype for elements of the format \"%s\"; convert them, for example by "
                     "numpy's astype(\"float32\")",
                     view.format ? view.format : "B");
    } else if (view.ndim > HAUL_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%d dimensions; at most %d are possible", view.ndim, HAUL_MAX_DIMS);
    } else if (!PyBuffer_IsContiguous(&view, 'C') && !(copy = PyMem_Malloc((size_t)view.len + 1))) {
        PyErr_NoMemory();
    } else if (!copy || !PyBuffer_ToContiguous(copy, &view, view.len, 'C')) {
        for (int i = 0; i < view.ndim; i++)
            shape.dims[i] = view.shape ? view.shape[i] : view.len / view.itemsize;
        double      nothing = 0;
        const void *from = copy ? copy : view.buf;
        made = from_host(own, dtype, shape, from ? from : &nothing, device);
    }
    PyMem_Free(copy);
    PyBuffer_Release(&view);
    return made;
}

/* A copy of an Array with another dtype or on another device. */
static PyObject *copy_of(haul_tensor *x, haul_dtype dtype, haul_device *device)
{
    haul_scope            *scope = haulpy_enter();
    haul_to_options        to = {.device = device ? device : haul_tensor_device(x), .dtype = dtype};
    haul_tensor           *t;
    Py_BEGIN_ALLOW_THREADS t = haul_clone(x);
    if (device || dtype)
        t = haul_to_with(t, &to);
    Py_END_ALLOW_THREADS PyObject *array = haulpy_array(t, false);
    haulpy_leave(scope);
    return array;
}

PyObject *haulpy_build(PyObject *data, haul_dtype dtype, haul_device *device)
{
    if (haulpy_is_array(data))
        return copy_of(((array_object *)data)->tensor, dtype, device);
    if (PyObject_CheckBuffer(data))
        return from_buffer(data, dtype, device);
    if (!haulpy_is_number(data) && PyObject_HasAttrString(data, "__dlpack__")) {
        PyObject *one = PyTuple_Pack(1, data), *shared = one ? haulpy_from_dlpack(NULL, one, NULL) : NULL;
        PyObject *made = shared ? copy_of(((array_object *)shared)->tensor, dtype, device) : NULL;
        Py_XDECREF(one);
        Py_XDECREF(shared);
        return made;
    }
    return from_lists(data, dtype, device);
}

PyObject *haulpy_new_array(PyObject *module, PyObject *args, PyObject *names)
{
    (void)module;
    static char *keys[] = {"data", "dtype", "device", NULL};
    PyObject    *data, *dtype = Py_None, *device = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|OO:array", keys, &data, &dtype, &device))
        return NULL;
    haul_dtype   wanted = HAUL_DTYPE_NONE;
    haul_device *on = NULL;
    if ((dtype != Py_None && !haulpy_as_dtype(dtype, &wanted)) ||
        (device != Py_None && !(on = haulpy_as_device(device))))
        return NULL;
    return haulpy_build(data, wanted, on);
}

/* ---- back ---- */

static PyObject *number(haul_dtype dtype, const void *at)
{
    switch (dtype) {
    case HAUL_BOOL: return PyBool_FromLong(*(const unsigned char *)at);
    case HAUL_I64: return PyLong_FromLongLong(*(const int64_t *)at);
    case HAUL_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
    case HAUL_F32: return PyFloat_FromDouble((double)*(const float *)at);
    default: return PyFloat_FromDouble(*(const double *)at);
    }
}

static PyObject *listed(haul_dtype dtype, haul_shape shape, int axis, const char **at)
{
    if (axis == shape.ndim) {
        PyObject *value = number(dtype, *at);
        *at += haul_dtype_bits(dtype) / 8;
        return value;
    }
    PyObject *list = PyList_New((Py_ssize_t)shape.dims[axis]);
    for (int64_t i = 0; list && i < shape.dims[axis]; i++) {
        PyObject *item = listed(dtype, shape, axis + 1, at);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item)) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

PyObject *haulpy_to_list(PyObject *self, PyObject *unused)
{
    (void)unused;
    haul_tensor *x = ((array_object *)self)->tensor;
    haul_shape   shape = haul_tensor_shape(x);
    haul_dtype   dtype = haul_tensor_dtype(x), read = dtype;
    if (dtype == HAUL_F16 || dtype == HAUL_BF16)
        read = HAUL_F32;
    else if (haul_dtype_is_integer(dtype))
        read = dtype == HAUL_U64 ? HAUL_U64 : HAUL_I64;
    size_t bytes = (size_t)haul_tensor_count(x) * ((size_t)haul_dtype_bits(read) / 8);
    char  *data = PyMem_Malloc(bytes + 1);
    if (!data)
        return PyErr_NoMemory();
    haul_status                      status;
    haul_scope                      *scope = haulpy_enter();
    Py_BEGIN_ALLOW_THREADS           status = haul_read(haul_cast(haul_detach(x), read), data, bytes);
    Py_END_ALLOW_THREADS const char *at = data;
    PyObject                        *list = status ? haulpy_raise() : listed(read, shape, 0, &at);
    haulpy_leave(scope);
    PyMem_Free(data);
    return list;
}

PyObject *haulpy_item(PyObject *self, PyObject *unused)
{
    (void)unused;
    haul_tensor *x = ((array_object *)self)->tensor;
    haul_dtype   dtype = haul_tensor_dtype(x);
    bool         whole = haul_dtype_is_integer(dtype) || dtype == HAUL_BOOL;
    int64_t      integer = 0;
    double       real = 0;
    haulpy_begin();
    Py_BEGIN_ALLOW_THREADS if (whole) integer = haul_item_i64(x);
    else real = haul_item(x);
    Py_END_ALLOW_THREADS if (haulpy_failed()) return NULL;
    if (dtype == HAUL_BOOL)
        return PyBool_FromLong(integer != 0);
    if (dtype == HAUL_U64)
        return PyLong_FromUnsignedLongLong((uint64_t)integer);
    return whole ? PyLong_FromLongLong(integer) : PyFloat_FromDouble(real);
}
