/* Steps that are functions of the program: recordings, plans, estimates, what fits memory, and the closures of
 * optimizers. */
#include "core.h"

static haul_status run_step(void *context)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *value = PyObject_CallNoArgs(context);
    haul_status      status = haulpy_ended(value != NULL, "step");
    haulpy_leave_python(gil, 1, value);
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

/* A step of so many examples; the context is the function. */
static haul_status run_fit_step(void *context, int64_t batch)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *value = PyObject_CallFunction(context, "L", (long long)batch);
    haul_status      status = haulpy_ended(value != NULL, "step");
    haulpy_leave_python(gil, 1, value);
    return status;
}

static PyObject *fit_result(const haul_fit_result *r)
{
    return Py_BuildValue(
        "{sLsOsOsOsdsdsLsLsdsdsLssss}", "batch", (long long)r->batch, "recompute",
        r->used & HAUL_FIT_RECOMPUTE ? Py_True : Py_False, "spill", r->used & HAUL_FIT_SPILL ? Py_True : Py_False,
        "bf16", r->used & HAUL_FIT_BF16 ? Py_True : Py_False, "step_ms", r->step_ms, "bound_ms", r->bound_ms,
        "peak_bytes", (long long)r->peak_bytes, "spilled_bytes", (long long)r->spilled_bytes, "spill_most_ms",
        r->spill_most_ms, "unlimited_step_ms", r->unlimited_step_ms, "unlimited_peak_bytes",
        (long long)r->unlimited_peak_bytes, "recomputed", r->recomputed, "words", r->words);
}

/* _fit(step, module or None, device or None, (memory_limit, host_limit, batch, most_batch), recompute, spill, bf16,
 * apply) */
static PyObject *fit(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject        *step, *module, *device;
    long long        memory, host, batch, most;
    int              recompute, spill, bf16, apply;
    haul_fit_options o = {.module = NULL};
    haul_fit_result  result;
    haul_status      status;
    if (!PyArg_ParseTuple(args, "OOO(LLLL)pppp", &step, &module, &device, &memory, &host, &batch, &most, &recompute,
                          &spill, &bf16, &apply) ||
        (module != Py_None && !(o.module = haulpy_handle(module, KIND_MODULE, "the module"))) ||
        (device != Py_None && !(o.device = haulpy_as_device(device))))
        return NULL;
    o.memory_limit = memory, o.host_limit = host, o.batch = batch, o.most_batch = most, o.apply = apply != 0;
    o.allow = (recompute ? HAUL_FIT_RECOMPUTE : 0) | (spill ? HAUL_FIT_SPILL : 0) | (bf16 ? HAUL_FIT_BF16 : 0);
    haul_scope                    *scope = haulpy_enter();
    Py_BEGIN_ALLOW_THREADS         status = haul_fit_with(run_fit_step, step, &result, &o);
    Py_END_ALLOW_THREADS PyObject *made = status ? haulpy_raise() : fit_result(&result);
    haulpy_leave(scope);
    return made;
}

/* ---- estimates ---- */

static PyObject *origins_of(const haul_estimate_device *d)
{
    PyObject *list = PyList_New(d->origin_count);
    for (int i = 0; list && i < d->origin_count; i++) {
        const haul_estimate_origin *o = &d->origins[i];
        PyObject *row = Py_BuildValue("{sssssssL}", "name", o->name, "module", o->module, "role", o->role, "bytes",
                                      (long long)o->bytes);
        if (!row || PyList_SetItem(list, i, row))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *device_row(const haul_estimate_device *d)
{
    return Py_BuildValue("{sssLsLsLsLsLsLsLsLsLsssssLsOsN}", "device", haul_device_name(d->device), "start_bytes",
                         (long long)d->start_bytes, "peak_bytes", (long long)d->peak_bytes, "pinned_peak_bytes",
                         (long long)d->pinned_peak_bytes, "spilled_bytes", (long long)d->spilled_bytes,
                         "returned_bytes", (long long)d->returned_bytes, "spilled_to_file_bytes",
                         (long long)d->spilled_to_file_bytes, "spill_host_peak_bytes",
                         (long long)d->spill_host_peak_bytes, "spill_file_peak_bytes",
                         (long long)d->spill_file_peak_bytes, "spill_missing_bytes", (long long)d->spill_missing_bytes,
                         "over_operation", d->over_operation, "over_module", d->over_module, "over_bytes",
                         (long long)d->over_bytes, "fits", d->fits ? Py_True : Py_False, "origins", origins_of(d));
}

static PyObject *operation_row(const haul_estimate_operation *o)
{
    return Py_BuildValue("{sssssssssNsdsL}", "name", o->name, "module", o->module, "device",
                         haul_device_name(o->device), "dtype", haul_dtype_name(o->dtype), "shape",
                         haulpy_shape(o->shape), "flops", o->flops, "bytes", (long long)o->bytes);
}

static PyObject *estimate_result(const haul_estimate_result *r)
{
    PyObject *devices = PyList_New(r->device_count), *operations = PyList_New((Py_ssize_t)r->operation_count);
    bool      fine = devices && operations;
    for (int i = 0; fine && i < r->device_count; i++) {
        PyObject *row = device_row(&r->devices[i]);
        fine = row && !PyList_SetItem(devices, i, row);
    }
    for (int64_t i = 0; fine && i < r->operation_count; i++) {
        PyObject *row = operation_row(&r->operations[i]);
        fine = row && !PyList_SetItem(operations, (Py_ssize_t)i, row);
    }
    if (!fine) {
        Py_XDECREF(devices);
        Py_XDECREF(operations);
        return NULL;
    }
    const haul_transfer_stats *m = &r->moved;
    return Py_BuildValue("{sdsLs{sLsLsLsLsLsL}sNsN}", "flops", r->flops, "bytes_touched", (long long)r->bytes_touched,
                         "moved", "h2d_bytes", (long long)m->h2d_bytes, "d2h_bytes", (long long)m->d2h_bytes,
                         "d2d_bytes", (long long)m->d2d_bytes, "h2d_count", (long long)m->h2d_count, "d2h_count",
                         (long long)m->d2h_count, "d2d_count", (long long)m->d2d_count, "devices", devices,
                         "operations", operations);
}

/* _estimate(step): a dictionary with the members of haul_estimate_result. */
static PyObject *estimate(PyObject *unused, PyObject *step)
{
    (void)unused;
    haul_estimate_result           result = {.flops = 0};
    haul_status                    status;
    haul_scope                    *scope = haulpy_enter();
    Py_BEGIN_ALLOW_THREADS         status = haul_estimate(run_step, step, &result);
    Py_END_ALLOW_THREADS PyObject *made = status ? haulpy_raise() : estimate_result(&result);
    haul_estimate_free(&result);
    haulpy_leave(scope);
    return made;
}

/* ---- closures ---- */

/* The loss, for the optimizer. */
static haul_tensor *run_closure(void *context)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *value = PyObject_CallNoArgs(context);
    haul_tensor     *x = value ? haulpy_tensor(value, "the loss that the closure returns") : NULL;
    haulpy_ended(x != NULL, "closure");
    haul_tensor *loss = x ? haulpy_as_scoped(x) : NULL;
    haulpy_leave_python(gil, 1, value);
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

PyMethodDef haulpy_step_functions[] = {{"_recording_new", recording_new, METH_VARARGS, NULL},
                                       {"_recording_run", recording_run, METH_O, NULL},
                                       {"_recording_report", recording_report, METH_O, NULL},
                                       {"_plan_new", plan_new, METH_VARARGS, NULL},
                                       {"_step_closure", step_closure, METH_VARARGS, NULL},
                                       {"_fit", fit, METH_VARARGS, NULL},
                                       {"_estimate", estimate, METH_O, NULL},
                                       {NULL, NULL, 0, NULL}};
