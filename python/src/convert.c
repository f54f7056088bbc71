/* Values of Python as values of C. */
#include "core.h"

bool haulpy_is_number(PyObject *value)
{
    return PyFloat_Check(value) || PyLong_Check(value);
}

/* Whole numbers that a double does not hold are refused: the result would be that of another number. */
bool haulpy_as_double(PyObject *value, const char *what, double *out)
{
    if (haulpy_is_array(value)) {
        PyErr_Format(PyExc_TypeError, "%s: a number is expected, not an Array; x.item() is its value", what);
        return false;
    }
    *out = PyFloat_AsDouble(value);
    if (*out == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "%s: a number is expected, not %R", what, (PyObject *)Py_TYPE(value));
        return false;
    }
    if (!PyLong_Check(value) || (*out < 9007199254740992.0 && *out > -9007199254740992.0))
        return true;
    PyObject *back = PyLong_FromDouble(*out);
    int       same = back ? PyObject_RichCompareBool(back, value, Py_EQ) : -1;
    Py_XDECREF(back);
    if (same == 0)
        PyErr_Format(PyExc_ValueError, "%s: %R is not a value of a 64-bit float; use haul.array(..., dtype=\"i64\")",
                     what, value);
    return same > 0;
}

bool haulpy_as_i64(PyObject *value, const char *what, int64_t *out)
{
    PyObject *index = PyNumber_Index(value);
    if (!index) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "%s: a whole number is expected, not %R", what, (PyObject *)Py_TYPE(value));
        return false;
    }
    *out = PyLong_AsLongLong(index);
    Py_DECREF(index);
    if (*out == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_Format(PyExc_OverflowError, "%s: %R does not fit into 64 bits", what, value);
        return false;
    }
    return true;
}

bool haulpy_fits(int64_t number, haul_dtype dtype)
{
    const int     bits = haul_dtype_bits(dtype);
    const bool    natural = dtype == HAUL_U8 || dtype == HAUL_U16 || dtype == HAUL_U32 || dtype == HAUL_U64;
    const int     digits = bits - !natural;
    const int64_t high = digits < 63 ? (INT64_C(1) << digits) - 1 : INT64_MAX;
    if (!haul_dtype_is_integer(dtype) || (number <= high && number >= (natural ? 0 : -high - 1)))
        return true;
    PyErr_Format(PyExc_OverflowError, "%lld does not fit into %s", (long long)number, haul_dtype_name(dtype));
    return false;
}

/* The name of a dtype, or a type of Python or NumPy by its name. */
bool haulpy_as_dtype(PyObject *value, haul_dtype *out)
{
    PyObject *name = NULL;
    if (value == (PyObject *)&PyFloat_Type)
        *out = HAUL_F32;
    else if (value == (PyObject *)&PyLong_Type)
        *out = HAUL_I64;
    else if (value == (PyObject *)&PyBool_Type)
        *out = HAUL_BOOL;
    else {
        if (PyUnicode_Check(value)) {
            Py_INCREF(value);
            name = value;
        } else if (!(name = PyObject_GetAttrString(value, "name"))) { /* numpy.dtype */
            PyErr_Clear();
            name = PyObject_GetAttrString(value, "__name__"); /* numpy.float32 */
        }
        const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        *out = text ? haul_dtype_parse(text) : HAUL_DTYPE_NONE;
        Py_XDECREF(name);
        if (!*out) {
            PyErr_Clear();
            PyErr_Format(PyExc_ValueError,
                         "%R is not a dtype of Haul: expected one of bool, u8, u16, u32, u64, i8, i16, i32, i64, f16, "
                         "bf16, f32, f64",
                         value);
            return false;
        }
    }
    return true;
}

static PyObject *dtypes; /* a dictionary: the name -> the object of Python */

PyObject *haulpy_set_dtypes(PyObject *module, PyObject *given)
{
    (void)module;
    if (!haulpy_is_main_interpreter())
        return NULL;
    if (!PyDict_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a dictionary of dtypes is expected");
        return NULL;
    }
    PyObject *before = dtypes;
    dtypes = Py_NewRef(given);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

PyObject *haulpy_dtype(haul_dtype dtype)
{
    PyObject *found = dtypes ? PyDict_GetItemString(dtypes, haul_dtype_name(dtype)) : NULL;
    return found ? Py_NewRef(found) : PyUnicode_FromString(haul_dtype_name(dtype));
}

bool haulpy_as_shape(PyObject *value, const char *what, haul_shape *out)
{
    *out = (haul_shape){0};
    if (PyIndex_Check(value) && !haulpy_is_array(value)) {
        out->ndim = 1;
        return haulpy_as_i64(value, what, &out->dims[0]);
    }
    PyObject *sizes = PySequence_Tuple(value);
    if (!sizes)
        return false;
    Py_ssize_t count = PyTuple_Size(sizes);
    bool       fine = count <= HAUL_MAX_DIMS;
    if (!fine)
        PyErr_Format(PyExc_ValueError, "%s: %zd dimensions; at most %d are possible", what, count, HAUL_MAX_DIMS);
    out->ndim = fine ? (int)count : 0;
    for (int i = 0; fine && i < out->ndim; i++)
        fine = haulpy_as_i64(PyTuple_GetItem(sizes, i), what, &out->dims[i]);
    Py_DECREF(sizes);
    return fine;
}

haul_device *haulpy_as_device(PyObject *value)
{
    if (haulpy_is_array(value))
        return haul_tensor_device(((array_object *)value)->tensor);
    const char *name = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    if (!name) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "the name of a device is expected, for example \"cpu\" or \"cuda:0\", not %R",
                         (PyObject *)Py_TYPE(value));
        return NULL;
    }
    haul_device *device;
    haulpy_begin();
    Py_BEGIN_ALLOW_THREADS /* opens a driver */
                                                device = haul_device_get(name);
    Py_END_ALLOW_THREADS haul_device_properties properties;
    if (!haul_device_is_valid(device)) {
        haul_device_describe(device, &properties); /* records the reason */
        haulpy_raise();
        return NULL;
    }
    return device;
}

PyObject *haulpy_shape(haul_shape shape)
{
    PyObject *tuple = shape.ndim < 0 ? NULL : PyTuple_New(shape.ndim);
    for (int i = 0; tuple && i < shape.ndim; i++) {
        PyObject *size = PyLong_FromLongLong(shape.dims[i]);
        if (!size || PyTuple_SetItem(tuple, i, size)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}
