/* Errors: the library's, for each thread, as exceptions of Python. */
#include "core.h"

static PyObject *exceptions; /* a dictionary: the name of a status -> the class; "" -> the class of all others */

/* The exception of a function of the program, on its way through the library. */
static _Thread_local PyObject *kept_type, *kept_value, *kept_trace;
static _Thread_local bool      has_scope;

static void forget_kept(void)
{
    Py_CLEAR(kept_type);
    Py_CLEAR(kept_value);
    Py_CLEAR(kept_trace);
}

void haulpy_begin(void)
{
    if (!has_scope)
        has_scope = haul_scope_push_named("Python") != NULL;
    forget_kept(); /* the library went on without it: a recording calls a step again */
    haul_error_clear();
}

haul_scope *haulpy_enter(void)
{
    haulpy_begin();
    return haul_scope_push_named("a call from Python");
}

/* Objects that end may have deleters of Python, which may not see the exception that is on its way. */
void haulpy_leave(haul_scope *scope)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_BEGIN_ALLOW_THREADS haul_scope_pop(scope);
    Py_END_ALLOW_THREADS   PyErr_Restore(type, value, trace);
}

void haulpy_keep_exception(const char *where)
{
    forget_kept();
    PyErr_Fetch(&kept_type, &kept_value, &kept_trace);
    if (!haul_error_status()) /* else the exception is the library's own error */
        haul_error_set(HAUL_INTERRUPTED, where, NULL, "a function of the program raised an exception");
}

haul_status haulpy_ended(bool fine, const char *where)
{
    if (fine)
        haul_error_clear();
    else
        haulpy_keep_exception(where);
    return haul_error_status();
}

void haulpy_report_exception(const char *where)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *name = type ? PyObject_GetAttrString(type, "__name__") : NULL, *text = value ? PyObject_Str(value) : NULL;
    const char *kind = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const char *why = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    haul_error_set(HAUL_INTERRUPTED, where, NULL, "a function of the program raised %s: %s",
                   kind ? kind : "an exception", why ? why : "");
    PyErr_Clear();
    Py_XDECREF(name);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

void haulpy_leave_python(PyGILState_STATE state, int count, ...)
{
    va_list objects;
    va_start(objects, count);
    for (int i = 0; i < count; i++)
        Py_XDECREF(va_arg(objects, PyObject *));
    va_end(objects);
    PyGILState_Release(state);
}

static PyObject *class_of(haul_status status)
{
    PyObject *found = exceptions ? PyDict_GetItemString(exceptions, haul_status_name(status)) : NULL;
    if (!found && exceptions)
        found = PyDict_GetItemString(exceptions, "");
    return found ? found : PyExc_RuntimeError;
}

/* Bytes that are not UTF-8, of the names of files for example, are replaced. Python writes 0 where C needs HAUL_ZERO.
 */
PyObject *haulpy_text(const char *text)
{
    PyObject *made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (!made || !strstr(text, "HAUL_ZERO"))
        return made;
    PyObject *changed = PyObject_CallMethod(made, "replace", "ss", "HAUL_ZERO", "0");
    Py_DECREF(made);
    return changed;
}

PyObject *haulpy_raise(void)
{
    if (PyErr_Occurred())
        return NULL;
    haul_status status = haul_error_status();
    if (kept_type) {
        PyErr_Restore(kept_type, kept_value, kept_trace);
        kept_type = kept_value = kept_trace = NULL;
        return NULL;
    }
    PyObject *class = class_of(status);
    PyObject *text = haulpy_text(status ? haul_error_message() : "the call failed");
    PyObject *error = text ? PyObject_CallFunctionObjArgs(class, text, NULL) : NULL;
    Py_XDECREF(text);
    if (!error)
        return NULL;
    PyObject *name = PyUnicode_FromString(haul_status_name(status));
    PyObject *operation = haulpy_text(haul_error_operation());
    PyObject *argument = haulpy_text(haul_error_argument());
    if (name && operation && argument && !PyObject_SetAttrString(error, "status", name) &&
        !PyObject_SetAttrString(error, "operation", operation) && !PyObject_SetAttrString(error, "argument", argument))
        PyErr_SetObject(class, error);
    Py_XDECREF(name);
    Py_XDECREF(operation);
    Py_XDECREF(argument);
    Py_DECREF(error);
    return NULL;
}

bool haulpy_failed(void)
{
    if (!haul_error_status())
        return false;
    haulpy_raise();
    return true;
}

bool haulpy_is_main_interpreter(void)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
        return true;
    PyErr_SetString(PyExc_ImportError, "haul works in the main interpreter of a process only, not in subinterpreters");
    return false;
}

PyObject *haulpy_set_exceptions(PyObject *module, PyObject *given)
{
    (void)module;
    if (!haulpy_is_main_interpreter())
        return NULL;
    if (!PyDict_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a dictionary of classes is expected");
        return NULL;
    }
    Py_INCREF(given);
    Py_XDECREF(exceptions);
    exceptions = given;
    Py_RETURN_NONE;
}
