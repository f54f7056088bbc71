/* x[...] and x[...] = value. */
#include "core.h"

/* The items of a key; Arrays that were made for it are held. */
typedef struct key_items {
    haul_index_items items;
    bool             gathers; /* it has Arrays or ranges that go backwards: no view */
    PyObject        *held[HAUL_INDEX_MOST];
    int              held_count;
} key_items;

static haul_tensor *of(PyObject *self)
{
    return ((array_object *)self)->tensor;
}

static void drop(key_items *k)
{
    for (int i = 0; i < k->held_count; i++)
        Py_DECREF(k->held[i]);
}

static PyObject *index_error(void)
{
    if (haul_error_status() != HAUL_INVALID_ARGUMENT || PyErr_Occurred())
        return haulpy_raise();
    haulpy_raise();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    PyObject *text = haulpy_text(haul_error_message());
    if (text)
        PyErr_SetObject(PyExc_IndexError, text);
    Py_XDECREF(text);
    return NULL;
}

static bool bound(PyObject *value, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    if (value == Py_None)
        return true;
    PyObject *index = PyNumber_Index(value);
    if (!index)
        return false;
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow || *out == INT64_MIN) /* as Python: as far as there are elements; INT64_MIN is HAUL_OPEN */
        *out = overflow > 0 ? INT64_MAX : -INT64_MAX;
    return !PyErr_Occurred();
}

static bool range(PyObject *slice, haul_index_item *item)
{
    static const char *const names[] = {"start", "stop", "step"};
    int64_t                  bounds[3];
    bool                     fine = true;
    for (int i = 0; fine && i < 3; i++) {
        PyObject *value = PyObject_GetAttrString(slice, names[i]);
        fine = value && bound(value, i == 2 ? 1 : HAUL_OPEN, &bounds[i]);
        Py_XDECREF(value);
    }
    if (!fine)
        return false;
    if (!bounds[2]) {
        PyErr_SetString(PyExc_ValueError, "the step of a slice cannot be 0");
        return false;
    }
    if (bounds[0] == HAUL_OPEN && bounds[1] == HAUL_OPEN && bounds[2] == 1)
        item->kind = HAUL_INDEX_ALL;
    else
        *item = (haul_index_item){HAUL_INDEX_RANGE, bounds[0], bounds[1], bounds[2], NULL};
    return true;
}

/* One index. Arrays of NumPy have __index__, too, but also a length; NumPy's bool is a buffer of a bool. */
static bool is_index(PyObject *value)
{
    if (PyLong_Check(value))
        return !PyBool_Check(value);
    if (haulpy_is_array(value) || !PyIndex_Check(value) || PyObject_HasAttrString(value, "__len__"))
        return false;
    Py_buffer view;
    if (!PyObject_CheckBuffer(value))
        return true;
    if (PyObject_GetBuffer(value, &view, PyBUF_FULL_RO)) {
        PyErr_Clear();
        return true;
    }
    bool whole = !view.format || !strchr(view.format, '?');
    PyBuffer_Release(&view);
    return whole;
}

/* An Array of one whole number on the CPU, which may be negative, as a number may. Elsewhere its value is not read. */
static bool is_plain_index(PyObject *value)
{
    return haulpy_is_array(value) && haul_tensor_ndim(of(value)) == 0 &&
           haul_dtype_is_integer(haul_tensor_dtype(of(value))) && haul_tensor_device(of(value)) == haul_cpu();
}

/* An empty list is one of whole numbers. */
static PyObject *index_array(PyObject *value)
{
    if (haulpy_is_array(value))
        return Py_NewRef(value);
    bool empty = (PyList_Check(value) && !PyList_Size(value)) || (PyTuple_Check(value) && !PyTuple_Size(value));
    return haulpy_build(value, empty ? HAUL_I64 : HAUL_DTYPE_NONE, NULL);
}

static bool add(key_items *k, PyObject *value)
{
    if (k->items.count == HAUL_INDEX_MOST) {
        PyErr_Format(PyExc_IndexError, "more than %d indices", HAUL_INDEX_MOST);
        return false;
    }
    haul_index_item *item = &k->items.items[k->items.count++];
    if (value == Py_None) {
        item->kind = HAUL_INDEX_NEW;
    } else if (value == Py_Ellipsis) {
        item->kind = HAUL_INDEX_REST;
    } else if (PySlice_Check(value)) {
        if (!range(value, item))
            return false;
        k->gathers = k->gathers || (item->kind == HAUL_INDEX_RANGE && item->step < 0);
    } else if (is_index(value) || is_plain_index(value)) {
        item->kind = HAUL_INDEX_AT;
        return haulpy_as_i64(value, "the index", &item->start);
    } else {
        PyObject *array = index_array(value);
        if (!array)
            return false;
        k->held[k->held_count++] = array;
        haul_dtype dtype = haul_tensor_dtype(of(array));
        if (dtype != HAUL_BOOL && !haul_dtype_is_integer(dtype)) {
            PyErr_Format(PyExc_IndexError, "an Array of %s is no index; integers or bools are expected",
                         haul_dtype_name(dtype));
            return false;
        }
        item->kind = HAUL_INDEX_BY;
        item->by = of(array);
        k->gathers = true;
    }
    return true;
}

static bool read_key(PyObject *key, key_items *k)
{
    *k = (key_items){0};
    bool fine = true;
    if (PyTuple_Check(key))
        for (Py_ssize_t i = 0; fine && i < PyTuple_Size(key); i++)
            fine = add(k, PyTuple_GetItem(key, i));
    else
        fine = add(k, key);
    if (!fine)
        drop(k);
    return fine;
}

static int axes_of(const haul_index_item *item)
{
    if (item->kind == HAUL_INDEX_NEW || item->kind == HAUL_INDEX_REST)
        return 0;
    bool mask = item->kind == HAUL_INDEX_BY && haul_tensor_dtype(item->by) == HAUL_BOOL;
    return mask ? haul_tensor_ndim(item->by) : 1;
}

/* Negative numbers in Arrays count from the end, as numbers do. Runs in the scope of the call; errors are left to the
 * index itself. */
static void wrap_negative(haul_tensor *x, haul_index_items *items)
{
    int used = 0, axis = 0;
    for (int i = 0; i < items->count; i++)
        used += axes_of(&items->items[i]);
    for (int i = 0; i < items->count; i++) {
        haul_index_item *item = &items->items[i];
        bool             whole = item->kind == HAUL_INDEX_BY && haul_tensor_dtype(item->by) != HAUL_BOOL;
        if (whole && haul_tensor_dtype(item->by) != HAUL_U8 && axis >= 0 && axis < haul_tensor_ndim(x)) {
            haul_tensor *by = haul_cast(item->by, HAUL_I64);
            item->by = haul_where(haul_lt_scalar(by, 0), haul_add_scalar(by, (double)haul_tensor_dim(x, axis)), by);
        }
        axis += item->kind == HAUL_INDEX_REST ? haul_tensor_ndim(x) - used : axes_of(item);
    }
}

/* x[mask] where neither has dimensions: no elements, or one. NULL: something else is asked for. */
static haul_tensor *masked_scalar(haul_tensor *x, const haul_index_items *items)
{
    const haul_index_item *item = &items->items[0];
    if (haul_tensor_ndim(x) || items->count != 1 || item->kind != HAUL_INDEX_BY || haul_tensor_ndim(item->by) ||
        haul_tensor_dtype(item->by) != HAUL_BOOL)
        return NULL;
    return haul_masked_select(haul_unsqueeze(x, 0), haul_unsqueeze(item->by, 0));
}

PyObject *haulpy_get_item(PyObject *self, PyObject *key)
{
    key_items k;
    if (!read_key(key, &k))
        return NULL;
    if (!k.items.count)
        k.items = (haul_index_items){1, {{.kind = HAUL_INDEX_REST}}};
    haul_tensor *t;
    haul_scope  *scope = haulpy_enter();
    Py_BEGIN_ALLOW_THREADS if (k.gathers) wrap_negative(of(self), &k.items);
    t = masked_scalar(of(self), &k.items);
    if (!t)
        t = haul_index_with(of(self), &k.items);
    Py_END_ALLOW_THREADS drop(&k);
    PyObject            *made = haul_tensor_is_valid(t) ? haulpy_array(t, t == of(self)) : index_error();
    haulpy_leave(scope);
    return made;
}

/* Into a view, or for Arrays as indices by a copy in which the elements are put. */
static haul_status put(haul_tensor *x, key_items *k, haul_tensor *value, double number)
{
    if (k->gathers)
        wrap_negative(x, &k->items);
    if (k->gathers)
        return haul_copy_into(x, haul_index_put_with(x, value, &k->items));
    haul_tensor *view = haul_index_with(x, &k->items);
    return value ? haul_copy_into(view, value) : haul_fill_into(view, number);
}

/* Whole numbers that the dtype does not hold are refused. `wide`: a double may not hold it. */
static bool fits(PyObject *value, haul_dtype dtype, bool *wide)
{
    int64_t number;
    if (!PyLong_Check(value) || !haul_dtype_is_integer(dtype))
        return true;
    if (!haulpy_as_i64(value, "the value", &number))
        return false;
    *wide = number > INT64_C(1) << 53 || number < -(INT64_C(1) << 53);
    return haulpy_fits(number, dtype);
}

int haulpy_set_item(PyObject *self, PyObject *key, PyObject *value)
{
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "elements of an Array cannot be deleted");
        return -1;
    }
    key_items k;
    if (!read_key(key, &k))
        return -1;
    if (!k.items.count)
        k.items = (haul_index_items){1, {{.kind = HAUL_INDEX_REST}}};
    PyObject *array = NULL;
    double    number = 0;
    bool      own = haulpy_is_number(value) || PyList_Check(value) || PyTuple_Check(value); /* they have no dtype */
    bool      wide = false, fine = fits(value, haul_tensor_dtype(of(self)), &wide);
    if (fine && haulpy_is_array(value))
        array = Py_NewRef(value);
    else if (fine && haulpy_is_number(value) && !k.gathers && !wide)
        fine = haulpy_as_double(value, "the value", &number);
    else if (fine)
        fine = (array = haulpy_build(value, own ? haul_tensor_dtype(of(self)) : HAUL_DTYPE_NONE,
                                     haul_tensor_device(of(self)))) != NULL;
    haul_status status = HAUL_OK;
    if (fine) {
        haul_scope            *scope = haulpy_enter();
        Py_BEGIN_ALLOW_THREADS status = put(of(self), &k, array ? of(array) : NULL, number);
        Py_END_ALLOW_THREADS if (status) index_error();
        haulpy_leave(scope);
    }
    Py_XDECREF(array);
    drop(&k);
    return fine && !status ? 0 : -1;
}

Py_ssize_t haulpy_length(PyObject *self)
{
    if (haul_tensor_ndim(of(self)) > 0)
        return (Py_ssize_t)haul_tensor_dim(of(self), 0);
    PyErr_SetString(PyExc_TypeError, "an Array without dimensions has no length");
    return -1;
}
