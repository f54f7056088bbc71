/* The arguments of a call: from values of Python to the struct that the call reads. */
#include "call.h"

static void *block(call_frame *frame, size_t count, size_t size)
{
    if (frame->block_count == CALL_HELD || count > PY_SSIZE_T_MAX / (size ? size : 1) - 1) {
        PyErr_NoMemory();
        return NULL;
    }
    void *made = PyMem_Calloc(count + 1, size);
    if (!made)
        PyErr_NoMemory();
    else
        frame->blocks[frame->block_count++] = made;
    return made;
}

/* Takes over a reference until the end of the call. */
static bool hold(call_frame *frame, PyObject *value)
{
    if (!value)
        return false;
    if (frame->held_count == CALL_HELD) {
        Py_DECREF(value);
        PyErr_SetString(PyExc_TypeError, "too many arguments");
        return false;
    }
    frame->held[frame->held_count++] = value;
    return true;
}

static bool text(call_frame *frame, PyObject *value, const char *what, const char **out)
{
    PyObject *path = PyOS_FSPath(value);
    if (!path) {
        PyErr_Format(PyExc_TypeError, "%s: a text or a path is expected, not %R", what, (PyObject *)Py_TYPE(value));
        return false;
    }
    if (PyUnicode_Check(path)) {
        PyObject *bytes = PyUnicode_EncodeFSDefault(path);
        Py_DECREF(path);
        path = bytes;
    }
    return hold(frame, path) && PyBytes_AsStringAndSize(path, (char **)out, NULL) >= 0;
}

/* UTF-8 that the string keeps. NULL: raised. */
static const char *utf8(PyObject *value, const char *what)
{
    Py_ssize_t  size;
    const char *made = PyUnicode_AsUTF8AndSize(value, &size);
    if (!made || (Py_ssize_t)strlen(made) == size)
        return made;
    PyErr_Format(PyExc_ValueError, "%s: the text %R has a zero character", what, value);
    return NULL;
}

static bool word(const call_parameter *p, PyObject *value, int *out)
{
    const char *given = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    if (!PyUnicode_Check(value))
        PyErr_Format(PyExc_TypeError, "%s: a text is expected, not %R", p->name, (PyObject *)Py_TYPE(value));
    for (const call_name *n = p->names; given && n->word; n++)
        if (!strcmp(given, n->word) || !strcmp(given, n->constant)) {
            *out = n->value;
            return true;
        }
    if (PyErr_Occurred())
        return false;
    PyObject *list = PyUnicode_FromString("");
    for (const call_name *n = p->names; list && n->word; n++) {
        PyObject *longer = PyUnicode_FromFormat("%U%s\"%s\"", list, n == p->names ? "" : ", ", n->word);
        Py_DECREF(list);
        list = longer;
    }
    if (list)
        PyErr_Format(PyExc_ValueError, "%s: %R is not one of %U", p->name, value, list);
    Py_XDECREF(list);
    return false;
}

/* False, and raised: C would read this 0 as the default. */
static bool not_zero(const call_parameter *p, bool zero)
{
    if (zero && (p->flags & P_NOT_ZERO))
        PyErr_Format(PyExc_ValueError, "%s: 0 is not possible; without the argument it has its default", p->name);
    return !zero || !(p->flags & P_NOT_ZERO);
}

/* One number, or as many as there are: zeros beside other numbers, or of an option with another default, are HAUL_ZERO.
 */
static bool numbers(const call_parameter *p, PyObject *value, void *out)
{
    bool    whole = p->kind == PARAMETER_I64_ARRAY, any = false;
    int64_t integers[32] = {0};
    double  floats[32] = {0};
    int     count = 1, size = p->size < 32 ? (int)p->size : 32;
    bool    fine = true;
    if (haulpy_is_number(value)) {
        fine = whole ? haulpy_as_i64(value, p->name, integers) : haulpy_as_double(value, p->name, floats);
        for (; (p->flags & P_SPREAD) && count < size; count++)
            integers[count] = integers[0];
    } else {
        PyObject *items = PySequence_Tuple(value);
        if (!items) {
            PyErr_Format(PyExc_TypeError, "%s: a number or a sequence of numbers is expected, not %R", p->name,
                         (PyObject *)Py_TYPE(value));
            return false;
        }
        count = (int)PyTuple_Size(items);
        if (PyTuple_Size(items) > size) {
            PyErr_Format(PyExc_ValueError, "%s: at most %d numbers are expected, not %zd", p->name, size,
                         PyTuple_Size(items));
            fine = false;
        }
        for (int i = 0; fine && i < count; i++) {
            PyObject *item = PyTuple_GetItem(items, i);
            fine = whole ? haulpy_as_i64(item, p->name, &integers[i]) : haulpy_as_double(item, p->name, &floats[i]);
        }
        Py_DECREF(items);
    }
    for (int i = 0; fine && i < count; i++)
        any = any || integers[i] || floats[i];
    fine = fine && not_zero(p, !any);
    for (int i = 0; fine && i < count; i++) {
        bool zero = !integers[i] && !floats[i] && (any || (p->flags & P_ZERO));
        if (whole)
            ((int64_t *)out)[i] = zero ? HAUL_ZERO : integers[i];
        else
            ((double *)out)[i] = zero ? HAUL_ZERO : floats[i];
    }
    return fine;
}

static bool axes(PyObject *value, const char *what, int *count, int *out)
{
    haul_shape shape;
    if (!haulpy_as_shape(value, what, &shape))
        return false;
    *count = shape.ndim;
    for (int i = 0; i < shape.ndim; i++)
        out[i] = shape.dims[i] >= -HAUL_MAX_DIMS && shape.dims[i] <= HAUL_MAX_DIMS ? (int)shape.dims[i] : HAUL_MAX_DIMS;
    return true;
}

static bool pads(PyObject *value, haul_pads *out)
{
    PyObject *items = PySequence_Tuple(value);
    if (!items)
        return false;
    Py_ssize_t count = PyTuple_Size(items);
    bool       fine = count <= (Py_ssize_t)(sizeof out->sizes / sizeof *out->sizes);
    if (!fine)
        PyErr_SetString(PyExc_ValueError, "pads: at most 16 sizes are expected");
    out->count = fine ? (int)count : 0;
    for (int i = 0; fine && i < out->count; i++)
        fine = haulpy_as_i64(PyTuple_GetItem(items, i), "pads", &out->sizes[i]);
    Py_DECREF(items);
    return fine;
}

/* True if a list that has its length at the same place was read before; lists are given in any order. */
static bool was_counted(const call_frame *frame, const call_parameter *p)
{
    bool found = false;
    for (int i = 0; i < frame->function->count; i++)
        found = found || (frame->counted[i] && frame->function->parameters[i].count_offset == p->count_offset);
    return found;
}

/* The number of a list's items goes where the call reads it, once for lists that share it. */
static bool set_count(call_frame *frame, const call_parameter *p, Py_ssize_t count)
{
    void      *where = frame->memory + p->count_offset;
    bool       wide = p->size == sizeof(int64_t);
    Py_ssize_t less = (p->flags & P_ONE_LESS) != 0;
    Py_ssize_t wanted = (Py_ssize_t)(wide ? *(int64_t *)where : *(int *)where) - less;
    if (count > INT_MAX / 2) {
        PyErr_Format(PyExc_ValueError, "%s: too many items", p->name);
        return false;
    }
    if (was_counted(frame, p)) {
        if (count == wanted)
            return true;
        PyErr_Format(PyExc_ValueError, "%s: %zd items are expected, not %zd", p->name, wanted, count);
        return false;
    }
    frame->counted[p - frame->function->parameters] = true;
    if (wide)
        *(int64_t *)where = count + less;
    else
        *(int *)where = (int)(count + less);
    return true;
}

/* {"name": value} as pairs; a list of values has the names "0", "1" ... */
static PyObject *pairs_of(PyObject *value)
{
    if (PyDict_Check(value))
        return PyDict_Items(value);
    PyObject *items = PySequence_List(value), *out = items ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; out && i < PyList_Size(items); i++) {
        PyObject *pair = Py_BuildValue("(NO)", PyUnicode_FromFormat("%zd", i), PyList_GetItem(items, i));
        if (!pair || PyList_Append(out, pair)) {
            Py_DECREF(out);
            out = NULL;
        }
        Py_XDECREF(pair);
    }
    Py_XDECREF(items);
    return out;
}

static bool named_item(call_frame *frame, const call_parameter *p, PyObject *pair, void *list, Py_ssize_t i)
{
    const char *name, *other;
    PyObject   *value = PyTuple_GetItem(pair, 1);
    if (!text(frame, PyTuple_GetItem(pair, 0), p->name, &name))
        return false;
    switch (p->kind) {
    case PARAMETER_NAMED:
        ((haul_named_tensor *)list)[i].name = name;
        return (((haul_named_tensor *)list)[i].tensor = haulpy_tensor(value, p->name)) != NULL;
    case PARAMETER_NAMED_MODULES:
        ((haul_named_module *)list)[i].name = name;
        return (((haul_named_module *)list)[i].module = haulpy_handle(value, KIND_MODULE, p->name)) != NULL;
    default:
        if (!text(frame, value, p->name, &other))
            return false;
        ((haul_text_pair *)list)[i] = (haul_text_pair){name, other};
        return true;
    }
}

/* Names are held by the dictionary's own strings where they fit, so many of them need no room in the frame. */
static bool named(call_frame *frame, const call_parameter *p, PyObject *value, void **out)
{
    PyObject *pairs = pairs_of(value);
    if (!hold(frame, pairs))
        return false;
    Py_ssize_t count = PyList_Size(pairs);
    size_t     size = p->kind == PARAMETER_NAMED           ? sizeof(haul_named_tensor)
                      : p->kind == PARAMETER_NAMED_MODULES ? sizeof(haul_named_module)
                                                           : sizeof(haul_text_pair);
    if (!(*out = block(frame, (size_t)count, size)) || !set_count(frame, p, count))
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *pair = PyList_GetItem(pairs, i), *key = PyTuple_GetItem(pair, 0);
        if (PyUnicode_Check(key) && p->kind != PARAMETER_PAIRS) { /* UTF-8 text that the string keeps */
            const char *name = utf8(key, p->name);
            PyObject   *item = PyTuple_GetItem(pair, 1);
            if (!name)
                return false;
            if (p->kind == PARAMETER_NAMED) {
                ((haul_named_tensor *)*out)[i].name = name;
                if (!(((haul_named_tensor *)*out)[i].tensor = haulpy_tensor(item, p->name)))
                    return false;
            } else {
                ((haul_named_module *)*out)[i].name = name;
                if (!(((haul_named_module *)*out)[i].module = haulpy_handle(item, KIND_MODULE, p->name)))
                    return false;
            }
        } else if (PyUnicode_Check(key) && PyUnicode_Check(PyTuple_GetItem(pair, 1))) {
            haul_text_pair *to = &((haul_text_pair *)*out)[i];
            to->key = utf8(key, p->name);
            to->value = to->key ? utf8(PyTuple_GetItem(pair, 1), p->name) : NULL;
            if (!to->value)
                return false;
        } else if (!named_item(frame, p, pair, *out, i)) {
            return false;
        }
    }
    return true;
}

static bool list(call_frame *frame, const call_parameter *p, PyObject *value, void **out)
{
    PyObject *items = PyLong_Check(value) ? PyTuple_Pack(1, value) : PySequence_Tuple(value);
    if (!hold(frame, items))
        return false;
    Py_ssize_t count = PyTuple_Size(items);
    if (!(*out = block(frame, (size_t)count, sizeof(int64_t))) || !set_count(frame, p, count))
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        int64_t   number = 0;
        if (p->kind == PARAMETER_TENSORS) {
            if (!(((haul_tensor **)*out)[i] = haulpy_tensor(item, p->name)))
                return false;
        } else if (p->kind == PARAMETER_OBJECTS) {
            if (!(((void **)*out)[i] = haulpy_handle(item, p->object, p->name)))
                return false;
        } else if (!haulpy_as_i64(item, p->name, &number)) {
            return false;
        } else if (p->kind == PARAMETER_I64S) {
            ((int64_t *)*out)[i] = number;
        } else {
            ((int *)*out)[i] = number >= INT_MIN && number <= INT_MAX ? (int)number : INT_MAX;
        }
    }
    return true;
}

static bool small(const call_parameter *p, PyObject *value, int64_t low, int64_t high, int64_t *out)
{
    if (!haulpy_as_i64(value, p->name, out))
        return false;
    if (*out >= low && *out <= high)
        return true;
    PyErr_Format(PyExc_OverflowError, "%s: %R is too large or too small", p->name, value);
    return false;
}

static bool unsigned_number(const call_parameter *p, PyObject *value, uint64_t *out)
{
    PyObject *index = PyNumber_Index(value);
    *out = index ? PyLong_AsUnsignedLongLong(index) : 0;
    Py_XDECREF(index);
    if (!PyErr_Occurred())
        return true;
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s: a whole number from 0 to 2**64 - 1 is expected, not %R", p->name, value);
    return false;
}

bool haulpy_argument(call_frame *frame, int index, PyObject *value)
{
    const call_parameter *p = &frame->function->parameters[index];
    void                 *to = frame->memory + p->offset;
    int64_t               whole;
    uint64_t              natural;
    frame->given[index] = true;
    if (value == Py_None && (p->kind == PARAMETER_TENSOR || !(p->flags & P_NEEDED)))
        return true; /* omitted */
    switch (p->kind) {
    case PARAMETER_TENSOR: return (*(haul_tensor **)to = haulpy_tensor(value, p->name)) != NULL;
    case PARAMETER_INT:
        if (!small(p, value, -INT_MAX, INT_MAX, &whole) || !not_zero(p, !whole))
            return false;
        *(int *)to = !whole && (p->flags & P_ZERO) ? HAUL_ZERO : (int)whole;
        return true;
    case PARAMETER_I64:
        if (!haulpy_as_i64(value, p->name, &whole) || !not_zero(p, !whole))
            return false;
        *(int64_t *)to = !whole && (p->flags & P_ZERO) ? HAUL_ZERO : whole;
        return true;
    case PARAMETER_U64: return unsigned_number(p, value, to);
    case PARAMETER_SIZE:
        if (!unsigned_number(p, value, &natural))
            return false;
        *(size_t *)to = (size_t)natural;
        return true;
    case PARAMETER_UNSIGNED:
        if (!small(p, value, 0, UINT_MAX, &whole))
            return false;
        *(unsigned *)to = (unsigned)whole;
        return true;
    case PARAMETER_F64: {
        double *number = to;
        if (!haulpy_as_double(value, p->name, number) || !not_zero(p, *number == 0))
            return false;
        if (*number == 0 && (p->flags & P_ZERO))
            *number = HAUL_ZERO;
        return true;
    }
    case PARAMETER_BOOL: {
        int truth = PyObject_IsTrue(value);
        *(bool *)to = truth > 0;
        return truth >= 0;
    }
    case PARAMETER_CHAR: {
        const char *letters;
        if (!text(frame, value, p->name, &letters))
            return false;
        *(char *)to = letters[0];
        return true;
    }
    case PARAMETER_TEXT: return text(frame, value, p->name, to);
    case PARAMETER_DTYPE: return haulpy_as_dtype(value, to);
    case PARAMETER_SHAPE: return haulpy_as_shape(value, p->name, to);
    case PARAMETER_DEVICE: return (*(haul_device **)to = haulpy_as_device(value)) != NULL;
    case PARAMETER_ENUM: return word(p, value, to);
    case PARAMETER_OBJECT: return (*(void **)to = haulpy_handle(value, p->object, p->name)) != NULL;
    case PARAMETER_I64_ARRAY:
    case PARAMETER_F64_ARRAY: return numbers(p, value, to);
    case PARAMETER_AXES: return axes(value, p->name, &((haul_axes *)to)->count, ((haul_axes *)to)->axes);
    case PARAMETER_PADS: return pads(value, to);
    case PARAMETER_TENSORS:
    case PARAMETER_INTS:
    case PARAMETER_I64S:
    case PARAMETER_OBJECTS: return list(frame, p, value, to);
    case PARAMETER_NAMED:
    case PARAMETER_NAMED_MODULES:
    case PARAMETER_PAIRS: return named(frame, p, value, to);
    case PARAMETER_RESULT: {
        int truth = PyObject_IsTrue(value);
        if (truth > 0 && frame->result.more_count < CALL_MORE)
            *(haul_tensor ***)to = &frame->result.more[frame->result.more_count++];
        return truth >= 0;
    }
    default: /* results are no arguments */ PyErr_Format(PyExc_TypeError, "%s is a result", p->name); return false;
    }
}
