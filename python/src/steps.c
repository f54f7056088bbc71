/* Steps that are functions of the program: recordings, plans, and the closures of optimizers. */
#include "core.h"

static haul_status run_step(void *context)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *value = PyObject_CallNoArgs(context);
    haul_status      status = haulpy_ended(value != NULL, "step");
    Py_XDECREF(value);
    PyGILState_Release(gil);
    return status;
}

/* _recording_new(function, variants, strict, frozen) */
static PyObject *recording_new(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject *function;
    int       variants, strict, frozen;
    if (!PyArg_ParseTuple(args, "Oipp", &function, &variants, &strict, &frozen))
        return NULL;
    haul_recording_options o = {
        .context = function, .variants = variants, .strict = strict != 0, .frozen = frozen != 0};
    haulpy_begin();
    PyObject *made = haulpy_object(KIND_RECORDING, haul_recording_new_with(run_step, &o), false);
    if (made)
        ((haul_object *)made)->needed = Py_NewRef(function);
    return made;
}

static PyObject *recording_run(PyObject *unused, PyObject *object)
{
    (void)unused;
    haul_recording *r = haulpy_handle(object, KIND_RECORDING, "the recording");
    haul_status     status;
    if (!r)
        return NULL;
    haulpy_begin();
    Py_BEGIN_ALLOW_THREADS status = haul_recording_run(r);
    Py_END_ALLOW_THREADS return status ? haulpy_raise() : Py_NewRef(Py_None);
}

static PyObject *recording_report(PyObject *unused, PyObject *object)
{
    (void)unused;
    haul_recording       *r = haulpy_handle(object, KIND_RECORDING, "the recording");
    haul_recording_report report;
    if (!r)
        return NULL;
    haulpy_begin();
    if (haul_recording_report_get(r, &report))
        return haulpy_raise();
    return Py_BuildValue("{sLsLsisLsLss}", "followed", (long long)report.followed, "eager", (long long)report.eager,
                         "variants", report.variants, "operations", (long long)report.operations, "arena_bytes",
                         (long long)report.arena_bytes, "reason", report.reason);
}

/* _plan_new(step, module or None, devices or None) */
static PyObject *plan_new(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject         *step, *module;
    const char       *names;
    haul_plan_options o = {.module = NULL};
    if (!PyArg_ParseTuple(args, "OOz", &step, &module, &names) ||
        (module != Py_None && !(o.module = haulpy_handle(module, KIND_MODULE, "the module"))))
        return NULL;
    o.devices = names;
    haul_plan *plan;
    haulpy_begin();
    Py_BEGIN_ALLOW_THREADS plan = haul_plan_new_with(run_step, step, &o);
    Py_END_ALLOW_THREADS return haulpy_object(KIND_PLAN, plan, false);
}

/* The loss, for the optimizer. */
static haul_tensor *run_closure(void *context)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *value = PyObject_CallNoArgs(context);
    haul_tensor     *x = value ? haulpy_tensor(value, "the loss that the closure returns") : NULL;
    haulpy_ended(x != NULL, "closure");
    haul_tensor *loss = x ? haulpy_as_scoped(x) : NULL;
    Py_XDECREF(value);
    PyGILState_Release(gil);
    return loss;
}

/* _step_closure(optimizer, function): the loss of the first call. */
static PyObject *step_closure(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject *object, *function;
    if (!PyArg_ParseTuple(args, "OO", &object, &function))
        return NULL;
    haul_optimizer *optimizer = haulpy_handle(object, KIND_OPTIMIZER, "the optimizer");
    haul_tensor    *loss;
    if (!optimizer)
        return NULL;
    haul_scope                    *scope = haulpy_enter();
    Py_BEGIN_ALLOW_THREADS         loss = haul_optimizer_step_closure(optimizer, run_closure, function);
    Py_END_ALLOW_THREADS PyObject *made = haulpy_array(loss, false);
    haulpy_leave(scope);
    return made;
}

PyMethodDef haulpy_step_functions[] = {
    {"_recording_new", recording_new, METH_VARARGS, NULL}, {"_recording_run", recording_run, METH_O, NULL},
    {"_recording_report", recording_report, METH_O, NULL}, {"_plan_new", plan_new, METH_VARARGS, NULL},
    {"_step_closure", step_closure, METH_VARARGS, NULL},   {NULL, NULL, 0, NULL}};
