/* Functions of the program that backward passes and calls of operations run: hooks of tensors, custom operations, and
 * functions that are computed again. */
#include "core.h"

haul_tensor *haulpy_returned(PyObject *value, const char *what)
{
    if (value == Py_None)
        return HAUL_NONE;
    haul_tensor *x = haulpy_tensor(value, what);
    return x ? haulpy_as_scoped(x) : NULL;
}

/* ---- hooks: the context is the pair (gradient, accumulated), which the hook holds ---- */

static haul_tensor *gradient_hook(haul_tensor *gradient, void *context)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *pair = Py_NewRef(context); /* the hook may remove itself */
    PyObject        *given = haulpy_array(gradient, true);
    PyObject        *value = given ? PyObject_CallFunctionObjArgs(PyTuple_GetItem(pair, 0), given, NULL) : NULL;
    haul_tensor     *result = value ? haulpy_returned(value, "what a hook returns") : NULL;
    haulpy_ended(result != NULL, "hook");
    haulpy_leave_python(gil, 3, value, given, pair);
    return result ? result : haul_tensor_fail(haul_error_status(), "hook", NULL, "the function of the program failed");
}

static haul_status leaf_hook(haul_tensor *leaf, void *context)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *pair = Py_NewRef(context);
    PyObject        *given = haulpy_array(leaf, true);
    PyObject        *value = given ? PyObject_CallFunctionObjArgs(PyTuple_GetItem(pair, 1), given, NULL) : NULL;
    haul_status      status = haulpy_ended(value != NULL, "hook");
    haulpy_leave_python(gil, 3, value, given, pair);
    return status;
}

void haulpy_end_context(void *context)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    haulpy_leave_python(gil, 1, (PyObject *)context);
}

PyObject *haulpy_add_hook(PyObject *self, PyObject *args, PyObject *names)
{
    static char *keys[] = {"gradient", "accumulated", NULL};
    PyObject    *gradient = Py_None, *accumulated = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|OO:add_hook", keys, &gradient, &accumulated))
        return NULL;
    if ((gradient != Py_None && !PyCallable_Check(gradient)) ||
        (accumulated != Py_None && !PyCallable_Check(accumulated))) {
        PyErr_SetString(PyExc_TypeError, "add_hook: functions are expected");
        return NULL;
    }
    PyObject *pair = PyTuple_Pack(2, gradient, accumulated);
    if (!pair)
        return NULL;
    haulpy_begin();
    int64_t id =
        haul_tensor_add_hook_with(&(haul_tensor_hook_options){.t = haulpy_tensor(self, "the Array"),
                                                              .gradient = gradient == Py_None ? NULL : gradient_hook,
                                                              .accumulated = accumulated == Py_None ? NULL : leaf_hook,
                                                              .context = pair,
                                                              .destroy = haulpy_end_context});
    if (id)
        return PyLong_FromLongLong(id);
    Py_DECREF(pair);
    return haulpy_raise();
}

/* ---- custom operations: the library finds their functions by the name of the call ---- */

/* {name: parts}; nothing is removed, because operations stay registered. */
static PyObject *customs;

PyObject *haulpy_custom_part(const char *name, int which)
{
    PyObject *parts = customs ? PyDict_GetItemString(customs, name) : NULL;
    if (parts)
        return Py_NewRef(PyTuple_GetItem(parts, which));
    PyErr_Format(PyExc_RuntimeError, "unknown custom operation %s", name);
    return NULL;
}

PyObject *haulpy_custom_add(haul_custom_operation *operation, PyObject *parts)
{
    PyObject *capsule = PyCapsule_New(operation, "haul.custom", NULL);
    if (!capsule || (!customs && !(customs = PyDict_New()))) {
        Py_XDECREF(capsule);
        return NULL;
    }
    haulpy_begin();
    if (haul_custom_register(operation)) {
        Py_DECREF(capsule);
        return haulpy_raise();
    }
    if (PyDict_SetItemString(customs, operation->name, parts))
        PyErr_Clear(); /* its calls raise that it is unknown: it is registered, and must stay */
    return capsule;
}

PyObject *haulpy_arrays(haul_tensor *const *tensors, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        bool      none = !tensors[i] || tensors[i] == HAUL_NONE;
        PyObject *item = none ? Py_NewRef(Py_None) : haulpy_array(tensors[i], true);
        if (!item || PyTuple_SetItem(tuple, i, item)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

/* The results of a function: one Array, or a tuple of `count`. False: raised. */
static bool take_results(PyObject *value, int count, const char *what, haul_tensor **out)
{
    if (count == 1 && !PyTuple_Check(value))
        return (out[0] = haulpy_returned(value, what)) != NULL;
    if (!PyTuple_Check(value) || PyTuple_Size(value) != count) {
        PyErr_Format(PyExc_TypeError, "%s: a tuple of %d is expected, not %R", what, count, (PyObject *)Py_TYPE(value));
        return false;
    }
    for (int i = 0; i < count; i++)
        if (!(out[i] = haulpy_returned(PyTuple_GetItem(value, i), what)))
            return false;
    return true;
}

static haul_status compose(const haul_custom_call *call, haul_tensor *const *operands, haul_tensor **results)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *function = haulpy_custom_part(call->name, CUSTOM_COMPOSE);
    PyObject        *given = function ? haulpy_arrays(operands, call->operand_count) : NULL;
    PyObject        *value = given ? PyObject_CallObject(function, given) : NULL;
    bool        fine = value && take_results(value, call->result_count, "what a custom operation returns", results);
    haul_status status = haulpy_ended(fine, call->name);
    haulpy_leave_python(gil, 3, value, given, function);
    return status;
}

/* The numbers that a call of a kernel was given; for other operations NULL without an exception. */
static PyObject *numbers_of(const haul_custom_gradient *g)
{
    PyObject  *count = g->attributes ? haulpy_custom_part(g->name, CUSTOM_NUMBERS) : NULL;
    const long n = count ? PyLong_AsLong(count) : 0;
    PyObject  *tuple = count ? PyTuple_New(n) : NULL;
    for (long i = 0; tuple && i < n; i++) {
        PyObject *number = PyFloat_FromDouble(((const double *)g->attributes)[i]);
        if (!number || PyTuple_SetItem(tuple, i, number))
            Py_CLEAR(tuple);
    }
    Py_XDECREF(count);
    return tuple;
}

/* gradient(gradients, operands, results), for a kernel with numbers also these: a tuple of the operands' gradients. */
void haulpy_custom_gradient(haul_custom_gradient *g)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *function = haulpy_custom_part(g->name, CUSTOM_GRADIENT);
    PyObject        *arrived = function ? haulpy_arrays(g->results, g->result_count) : NULL;
    PyObject        *operands = arrived ? haulpy_arrays(g->saved, g->operand_count) : NULL;
    PyObject        *results = operands ? haulpy_arrays(g->saved_results, g->result_count) : NULL;
    PyObject        *numbers = results ? numbers_of(g) : NULL;
    PyObject        *value = results && !PyErr_Occurred()
                                 ? PyObject_CallFunctionObjArgs(function, arrived, operands, results, numbers, NULL)
                                 : NULL;
    haul_tensor     *made[HAUL_CUSTOM_OPERANDS];
    bool             fine = value && take_results(value, g->operand_count, "what a gradient returns", made);
    haulpy_ended(fine, g->name);
    for (int i = 0; i < g->operand_count; i++)
        if (g->wanted[i])
            g->operands[i] =
                fine ? made[i]
                     : haul_tensor_fail(haul_error_status(), g->name, NULL, "the function of the program failed");
    haulpy_leave_python(gil, 6, value, numbers, results, operands, arrived, function);
}

/* _custom_new(name, (operand, ...), (result, ...), compose, gradient or None): a number for _custom_apply, the address
 * of the descriptor, which stays as long as the process. */
static PyObject *custom_new(PyObject *unused, PyObject *args)
{
    (void)unused;
    const char *name, *names[HAUL_CUSTOM_OPERANDS + HAUL_CUSTOM_RESULTS];
    PyObject   *operands, *results, *function, *backward;
    if (!PyArg_ParseTuple(args, "sO!O!OO", &name, &PyTuple_Type, &operands, &PyTuple_Type, &results, &function,
                          &backward))
        return NULL;
    Py_ssize_t count = PyTuple_Size(operands), made = PyTuple_Size(results);
    if (count < 1 || count > HAUL_CUSTOM_OPERANDS || made < 1 || made > HAUL_CUSTOM_RESULTS) {
        PyErr_Format(PyExc_ValueError, "%s: 1 to %d operands and 1 to %d results are possible", name,
                     HAUL_CUSTOM_OPERANDS, HAUL_CUSTOM_RESULTS);
        return NULL;
    }
    if (!PyCallable_Check(function) || (backward != Py_None && !PyCallable_Check(backward))) {
        PyErr_Format(PyExc_TypeError, "%s: functions are expected", name);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count + made; i++) {
        PyObject *text = i < count ? PyTuple_GetItem(operands, i) : PyTuple_GetItem(results, i - count);
        if (!PyUnicode_Check(text) || !(names[i] = PyUnicode_AsUTF8AndSize(text, NULL))) {
            PyErr_Format(PyExc_TypeError, "%s: names of operands and results are texts", name);
            return NULL;
        }
    }
    haul_custom_operation *o = PyMem_Calloc(1, sizeof *o);
    if (!o)
        return PyErr_NoMemory();
    o->name = name;
    for (Py_ssize_t i = 0; i < count + made; i++) {
        const char *of = names[i];
        size_t      length = strlen(of);
        if (i < count && length && of[length - 1] == '?') { /* "bias?" may be omitted */
            PyErr_Format(PyExc_ValueError, "%s: the operand \"%s\": optional operands are not possible", name, of);
            PyMem_Free(o);
            return NULL;
        }
        if (i < count)
            o->operands[i] = (haul_custom_operand){.name = of, .saved = backward != Py_None};
        else
            o->results[i - count] = (haul_custom_result){.name = of, .saved = backward != Py_None};
    }
    o->rule = HAUL_CUSTOM_AS_GIVEN;
    o->compose = compose;
    o->gradient = backward != Py_None ? haulpy_custom_gradient : NULL;
    PyObject *pair = PyTuple_Pack(2, function, backward);
    PyObject *capsule = pair ? haulpy_custom_add(o, pair) : NULL;
    Py_XDECREF(pair);
    if (!capsule)
        PyMem_Free(o);
    return capsule;
}

/* _custom_apply(operation, operands, results, numbers of a kernel): an Array, or a tuple of several. */
static PyObject *custom_apply(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject *capsule, *operands, *given = NULL;
    double    numbers[HAUL_KERNEL_NUMBERS] = {0};
    int       wanted;
    if (!PyArg_ParseTuple(args, "OO!i|O!", &capsule, &PyTuple_Type, &operands, &wanted, &PyTuple_Type, &given))
        return NULL;
    for (Py_ssize_t i = 0; given && i < PyTuple_Size(given) && i < HAUL_KERNEL_NUMBERS; i++)
        if (!haulpy_as_double(PyTuple_GetItem(given, i), "a number of a kernel", &numbers[i]))
            return NULL;
    haul_custom_operation *o = PyCapsule_GetPointer(capsule, "haul.custom");
    if (!o)
        return NULL;
    haul_tensor *x[HAUL_CUSTOM_OPERANDS], *results[HAUL_CUSTOM_RESULTS] = {NULL};
    Py_ssize_t   count = PyTuple_Size(operands);
    if (count < 1 || count > HAUL_CUSTOM_OPERANDS || wanted < 1 || wanted > HAUL_CUSTOM_RESULTS) {
        PyErr_Format(PyExc_TypeError, "%s: 1 to %d operands are expected, not %zd", o->name, HAUL_CUSTOM_OPERANDS,
                     count);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(x[i] = haulpy_tensor(PyTuple_GetItem(operands, i), "an operand")))
            return NULL;
    haul_scope                    *scope = haulpy_enter();
    haul_status                    status;
    Py_BEGIN_ALLOW_THREADS         status = haul_apply_all(o, given ? numbers : NULL, x, (int)count, results);
    Py_END_ALLOW_THREADS PyObject *made = status        ? haulpy_raise()
                                          : wanted == 1 ? haulpy_array(results[0], false)
                                                        : haulpy_tuple(NULL, results, wanted);
    haulpy_leave(scope);
    return made;
}

/* ---- functions that are computed again: the context is the function, which the graph holds ---- */

static haul_tensor *compute_again(haul_tensor *const *inputs, int count, void *context)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *given = haulpy_arrays(inputs, count);
    PyObject        *value = given ? PyObject_CallObject(context, given) : NULL;
    haul_tensor     *made = value ? haulpy_tensor(value, "what a function of haul.checkpoint returns") : NULL;
    haul_tensor     *result = made ? haulpy_as_scoped(made) : NULL;
    haulpy_ended(result != NULL, "haul_checkpoint");
    haulpy_leave_python(gil, 2, value, given);
    return result
               ? result
               : haul_tensor_fail(haul_error_status(), "haul_checkpoint", NULL, "the function of the program failed");
}

/* _checkpoint(function, inputs): an Array. */
static PyObject *checkpoint(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject *function, *inputs;
    if (!PyArg_ParseTuple(args, "OO!", &function, &PyTuple_Type, &inputs))
        return NULL;
    if (!PyCallable_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "checkpoint: a function is expected");
        return NULL;
    }
    Py_ssize_t    count = PyTuple_Size(inputs);
    haul_tensor **x = count <= INT_MAX ? PyMem_Calloc((size_t)count + 1, sizeof *x) : NULL;
    if (!x)
        return PyErr_NoMemory();
    bool fine = true;
    for (Py_ssize_t i = 0; fine && i < count; i++) {
        PyObject *input = PyTuple_GetItem(inputs, i);
        x[i] = input == Py_None ? HAUL_NONE : haulpy_tensor(input, "an input of checkpoint");
        fine = x[i] != NULL;
    }
    PyObject *made = NULL;
    if (fine) {
        haul_recompute_options options = {.context = Py_NewRef(function), .release = haulpy_end_context};
        haul_tensor           *y;
        haul_scope            *scope = haulpy_enter();
        Py_BEGIN_ALLOW_THREADS y = haul_checkpoint_with(compute_again, x, (int)count, &options);
        Py_END_ALLOW_THREADS   made = haulpy_array(y, false);
        haulpy_leave(scope);
    }
    PyMem_Free(x);
    return made;
}

PyMethodDef haulpy_hook_functions[] = {{"_custom_new", custom_new, METH_VARARGS, NULL},
                                       {"_checkpoint", checkpoint, METH_VARARGS, NULL},
                                       {"_custom_apply", custom_apply, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
