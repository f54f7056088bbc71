/* Calls: arguments by position and by name, the call without the GIL, and its results. */
#include "call.h"

static bool takes_list(const call_parameter *p)
{
    return p->kind == PARAMETER_SHAPE || p->kind == PARAMETER_AXES || p->kind == PARAMETER_PADS ||
           p->kind == PARAMETER_INTS || p->kind == PARAMETER_I64S || p->kind == PARAMETER_TENSORS ||
           p->kind == PARAMETER_OBJECTS;
}

/* True if the items of a list may be arguments of their own, as in zeros(2, 3). */
static bool is_item(const call_parameter *p, PyObject *value)
{
    if (p->kind == PARAMETER_TENSORS)
        return haulpy_is_array(value);
    if (p->kind == PARAMETER_OBJECTS)
        return PyObject_TypeCheck(value, object_types[p->object]);
    return PyLong_Check(value) && !PyBool_Check(value);
}

static int next_parameter(const call_function *f, int from)
{
    while (from < f->count && f->parameters[from].kind == PARAMETER_RESULTS)
        from++;
    return from;
}

/* How many parameters behind this one need an argument: the items of a list leave these to them. */
static Py_ssize_t needed_after(const call_function *f, int at)
{
    Py_ssize_t count = 0;
    for (int i = at + 1; i < f->count; i++)
        count += f->parameters[i].kind != PARAMETER_RESULTS && (f->parameters[i].flags & P_NEEDED);
    return count;
}

static bool take_positional(call_frame *frame, PyObject *const *args, Py_ssize_t n, int at)
{
    const call_function *f = frame->function;
    for (Py_ssize_t i = 0; i < n; at++) {
        at = next_parameter(f, at);
        if (at >= f->count) {
            PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments", f->name,
                         next_parameter(f, 0) ? f->count - 1 : f->count);
            return false;
        }
        Py_ssize_t            end = i;
        const call_parameter *p = &f->parameters[at];
        Py_ssize_t            most = n - (takes_list(p) ? needed_after(f, at) : 0);
        while (takes_list(p) && end < most && is_item(p, args[end]))
            end++;
        if (end - i < (p->kind == PARAMETER_SHAPE || p->kind == PARAMETER_AXES ? 2 : 1)) {
            if (!haulpy_argument(frame, at, args[i]))
                return false;
            i++;
            continue;
        }
        PyObject *items = PyTuple_New(end - i);
        if (!items)
            return false;
        for (Py_ssize_t k = i; k < end; k++)
            if (PyTuple_SetItem(items, k - i, Py_NewRef(args[k]))) {
                Py_DECREF(items);
                return false;
            }
        bool fine = haulpy_argument(frame, at, items);
        Py_DECREF(items); /* the arguments hold the items */
        if (!fine)
            return false;
        i = end;
    }
    return true;
}

static int parameter_named(const call_function *f, const char *name)
{
    for (int i = 0; i < f->count; i++) {
        const call_parameter *p = &f->parameters[i];
        if (p->kind != PARAMETER_RESULTS &&
            (!strcmp(p->name, name) || (p->kind == PARAMETER_AXES && !strcmp(name, "axis")) ||
             (!strcmp(p->name, "from") && !strcmp(name, "from_"))))
            return i;
    }
    return -1;
}

/* "sum() has no parameter 'dim'; it has x, axes, keepdim": false, with the error. */
static bool refuse_name(const call_function *f, PyObject *name)
{
    PyObject *known = PyUnicode_FromString("");
    for (int i = 0; known && i < f->count; i++) {
        const call_parameter *p = &f->parameters[i];
        if (p->kind == PARAMETER_RESULTS)
            continue;
        PyObject *longer = PyUnicode_FromFormat("%U%s%s", known, PyUnicode_GetLength(known) ? ", " : "", p->name);
        Py_DECREF(known);
        known = longer;
    }
    if (known)
        PyErr_Format(PyExc_TypeError, "%s() has no parameter '%U'; it has %U%s", f->name, name, known,
                     f->into ? ", out" : "");
    Py_XDECREF(known);
    return false;
}

static bool take_named(call_frame *frame, PyObject *const *values, PyObject *names)
{
    const call_function *f = frame->function;
    for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); i++) {
        PyObject   *name = PyTuple_GetItem(names, i);
        const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
        int         at = text ? parameter_named(f, text) : -1;
        if (!text)
            return false;
        if (at < 0 && f->into && values[i] == Py_None && !strcmp(text, "out"))
            continue;
        if (at < 0)
            return refuse_name(f, name);
        if (frame->given[at]) {
            PyErr_Format(PyExc_TypeError, "%s() got '%U' twice", f->name, name);
            return false;
        }
        if (!haulpy_argument(frame, at, values[i]))
            return false;
    }
    return true;
}

/* What was not given: an error, or the default. */
static bool finish(call_frame *frame)
{
    const call_function *f = frame->function;
    for (int i = 0; i < f->count; i++) {
        const call_parameter *p = &f->parameters[i];
        void                 *to = frame->memory + p->offset;
        if (p->kind == PARAMETER_RESULTS) {
            int count = *(int *)(void *)(frame->memory + p->count_offset);
            if (count < 0 || count > CALL_RESULTS) {
                PyErr_Format(PyExc_ValueError, "%s(): %d results; 0 to %d are possible", f->name, count, CALL_RESULTS);
                return false;
            }
            if (frame->block_count == CALL_HELD ||
                !(frame->result.list = PyMem_Calloc((size_t)count + 1, sizeof(haul_tensor *)))) {
                PyErr_NoMemory();
                return false;
            }
            frame->blocks[frame->block_count++] = frame->result.list;
            frame->result.list_count = count;
            *(haul_tensor ***)to = frame->result.list;
        } else if (!frame->given[i] && (p->flags & P_NEEDED)) {
            PyErr_Format(PyExc_TypeError, "%s() needs an argument for '%s'", f->name, p->name);
            return false;
        }
        if (p->kind == PARAMETER_TENSOR && (p->flags & P_NEEDED) && !*(haul_tensor **)to)
            *(haul_tensor **)to = HAUL_NONE;
        if (p->kind == PARAMETER_DTYPE && !*(haul_dtype *)to)
            *(haul_dtype *)to = (haul_dtype)p->value;
    }
    return true;
}

/* True if a result is one of the operands: then the scope does not give it away. */
static bool is_operand(const call_frame *frame, const haul_tensor *tensor)
{
    for (int i = 0; i < frame->function->count; i++) {
        const call_parameter *p = &frame->function->parameters[i];
        const void           *at = frame->memory + p->offset;
        if (p->kind == PARAMETER_TENSOR && *(haul_tensor *const *)at == tensor)
            return true;
        haul_tensor *const *list = p->kind == PARAMETER_TENSORS ? *(haul_tensor *const *const *)at : NULL;
        for (; list && *list; list++) /* a zero is behind the last one */
            if (*list == tensor)
                return true;
    }
    return false;
}

static int further_results(const call_result *r)
{
    int count = 0;
    while (count < CALL_MORE && r->more[count])
        count++;
    return count;
}

static PyObject *word_of(const call_name *names, int64_t value)
{
    for (const call_name *n = names; n->word; n++)
        if (n->value == value)
            return PyUnicode_FromString(n->word);
    return PyLong_FromLongLong(value);
}

static PyObject *result_of(call_frame *frame)
{
    const call_function *f = frame->function;
    call_result         *r = &frame->result;
    switch (f->result) {
    case RESULT_TENSOR:
        if (r->more_count && haul_tensor_is_valid(r->tensor))
            return haulpy_tuple(r->tensor, r->more, r->more_count);
        return haulpy_array(r->tensor, f->borrowed || is_operand(frame, r->tensor));
    case RESULT_OBJECT: return haulpy_object(f->object, r->object, f->borrowed);
    default: break;
    }
    if (haulpy_failed() || (r->status && haulpy_raise() == NULL))
        return NULL;
    switch (f->result) {
    case RESULT_TUPLE: return haulpy_tuple(NULL, r->more, further_results(r));
    case RESULT_LIST: return haulpy_tuple(NULL, r->list, r->list_count);
    case RESULT_TEXT:
        return PyUnicode_DecodeUTF8(r->text ? r->text : "", r->text ? (Py_ssize_t)strlen(r->text) : 0, "replace");
    case RESULT_DTYPE: return haulpy_dtype((haul_dtype)r->integer);
    case RESULT_DEVICE: return r->device ? PyUnicode_FromString(haul_device_name(r->device)) : Py_NewRef(Py_None);
    case RESULT_I64: return PyLong_FromLongLong(r->integer);
    case RESULT_U64: return PyLong_FromUnsignedLongLong(r->natural);
    case RESULT_F64: return PyFloat_FromDouble(r->number);
    case RESULT_BOOL: return PyBool_FromLong(r->integer != 0);
    case RESULT_ENUM: return word_of(f->names, r->integer);
    default: Py_RETURN_NONE;
    }
}

static PyObject *run(call_frame *frame, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int at = 0;
    if (self) {
        at = next_parameter(frame->function, 0);
        if (!haulpy_argument(frame, at++, self))
            return NULL;
    }
    if (!take_positional(frame, args, n, at) || !take_named(frame, args + n, names) || !finish(frame))
        return NULL;
    haul_scope *scope = NULL;
    if (frame->function->unscoped)
        haulpy_begin();
    else
        scope = haulpy_enter();
    Py_BEGIN_ALLOW_THREADS         frame->function->run(frame->memory, &frame->result);
    Py_END_ALLOW_THREADS PyObject *result = result_of(frame);
    haulpy_leave(scope);
    return result;
}

/* The place of the keyword `out` in the names of a call, or -1. */
static Py_ssize_t place_of_out(PyObject *names)
{
    for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); i++)
        if (!PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, i), "out"))
            return i;
    return -1;
}

/* add(a, b, out=y): y is the first operand of the form that writes to it, and the result. */
static PyObject *call_into(const call_function *f, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names,
                           Py_ssize_t at)
{
    Py_ssize_t named = PyTuple_Size(names), count = 0;
    PyObject  *out = args[n + at], *rest = named > 1 ? PyTuple_New(named - 1) : NULL;
    PyObject **all = PyMem_Calloc((size_t)(n + named) + 2, sizeof *all);
    bool       fine = all && (rest || named == 1);
    if (!all)
        PyErr_NoMemory();
    if (fine) {
        all[count++] = out;
        if (self)
            all[count++] = self;
        for (Py_ssize_t i = 0; i < n; i++)
            all[count++] = args[i];
    }
    for (Py_ssize_t i = 0, k = 0; fine && i < named; i++)
        if (i != at) {
            all[count + k] = args[n + i];
            fine = !PyTuple_SetItem(rest, k++, Py_NewRef(PyTuple_GetItem(names, i)));
        }
    PyObject *result = fine ? haulpy_call(f->into, NULL, all, count, rest) : NULL;
    PyMem_Free(all);
    Py_XDECREF(rest);
    if (!result)
        return NULL;
    Py_DECREF(result);
    return Py_NewRef(out);
}

PyObject *haulpy_call(const call_function *f, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Py_ssize_t out = f->into ? place_of_out(names) : -1;
    if (out >= 0 && args[n + out] != Py_None)
        return call_into(f, self, args, n, names, out);
    Py_ssize_t last = f->count - 1 - (self != NULL);
    if (f->scalar && n == last + 1 && !names && haulpy_is_number(args[last]))
        f = f->scalar;
    _Alignas(16) unsigned char memory[CALL_BYTES];
    call_frame                 frame = {.function = f, .memory = memory};
    if (f->bytes > sizeof memory || f->count > CALL_PARAMETERS) {
        PyErr_Format(PyExc_SystemError, "%s: the arguments are too large", f->name);
        return NULL;
    }
    memset(memory, 0, f->bytes);
    PyObject *result = run(&frame, self, args, n, names);
    for (int i = 0; i < frame.block_count; i++)
        PyMem_Free(frame.blocks[i]);
    for (int i = 0; i < frame.held_count; i++)
        Py_DECREF(frame.held[i]);
    return result;
}
