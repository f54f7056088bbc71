/* What watches the library's work: hooks of modules, ledgers of copies, profiles, and lists of events. */
#include "core.h"

/* ---- hooks of modules: the context is the pair (before, after), which the hook holds ---- */

static bool is_there(const haul_tensor *x)
{
    return x && x != HAUL_NONE;
}

/* Replaces tensors by what a hook returned: None, an Array for the first, or a tuple for all. False: raised. */
static bool replace(PyObject *value, haul_tensor **tensors, int count)
{
    if (value == Py_None)
        return true;
    const bool alone = !PyTuple_Check(value);
    if (alone ? count != 1 : PyTuple_Size(value) != count) {
        PyErr_Format(PyExc_TypeError, "what a hook returns: None or a tuple of %d is expected, not %R", count,
                     (PyObject *)Py_TYPE(value));
        return false;
    }
    for (int i = 0; i < count; i++) {
        PyObject    *item = alone ? value : PyTuple_GetItem(value, i);
        haul_tensor *x = haulpy_returned(item, "what a hook returns");
        if (!x)
            return false;
        tensors[i] = x;
    }
    return true;
}

static bool run_hook(PyObject *function, haul_args *args, bool after)
{
    int results = HAUL_MAX_ARGUMENTS;
    while (results > 1 && !is_there(args->y[results - 1]))
        results--;
    PyObject  *inputs = haulpy_arrays(args->x, args->count);
    const bool alone = results == 1 && is_there(args->y[0]);
    PyObject  *y = !inputs || !after ? NULL : alone ? haulpy_array(args->y[0], true) : haulpy_arrays(args->y, results);
    PyObject  *value = inputs && (y || !after) ? PyObject_CallFunctionObjArgs(function, inputs, y, NULL) : NULL;
    bool       fine = value && replace(value, after ? args->y : args->x, after ? results : args->count);
    Py_XDECREF(value);
    Py_XDECREF(y);
    Py_XDECREF(inputs);
    return fine;
}

static haul_status call_hook(void *context, haul_args *args, bool after)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *pair = Py_NewRef((PyObject *)context); /* the hook may remove itself */
    haul_status      status = haulpy_ended(run_hook(PyTuple_GetItem(pair, after), args, after), "hook");
    haulpy_leave_python(gil, 1, pair);
    return status;
}

static haul_status before_hook(haul_module *module, haul_args *args, void *context)
{
    (void)module;
    return call_hook(context, args, false);
}

static haul_status after_hook(haul_module *module, haul_args *args, void *context)
{
    (void)module;
    return call_hook(context, args, true);
}

/* _module_add_hook(module, before or None, after or None): the number of the hooks. */
static PyObject *module_add_hook(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject *object, *before, *after;
    if (!PyArg_ParseTuple(args, "OOO", &object, &before, &after))
        return NULL;
    haul_module *module = haulpy_handle(object, KIND_MODULE, "the module");
    if (!module)
        return NULL;
    if ((before != Py_None && !PyCallable_Check(before)) || (after != Py_None && !PyCallable_Check(after))) {
        PyErr_SetString(PyExc_TypeError, "add_hook: functions are expected");
        return NULL;
    }
    PyObject *pair = PyTuple_Pack(2, before, after);
    if (!pair)
        return NULL;
    haulpy_begin();
    int64_t id = haul_module_add_hook_with(&(haul_hook_options){.module = module,
                                                                .before = before == Py_None ? NULL : before_hook,
                                                                .after = after == Py_None ? NULL : after_hook,
                                                                .context = pair,
                                                                .destroy = haulpy_end_context});
    if (id)
        return PyLong_FromLongLong(id);
    Py_DECREF(pair);
    return haulpy_raise();
}

/* _module_remove_hook(module, id) */
static PyObject *module_remove_hook(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject *object;
    long long id;
    if (!PyArg_ParseTuple(args, "OL", &object, &id))
        return NULL;
    haul_module *module = haulpy_handle(object, KIND_MODULE, "the module");
    if (!module)
        return NULL;
    haulpy_begin();
    return haul_module_remove_hook(module, id) ? haulpy_raise() : Py_NewRef(Py_None);
}

/* ---- ledgers ---- */

/* Appends a new reference to a list, which becomes NULL if that fails: raised. */
static void append(PyObject **list, PyObject *item)
{
    if (!item || PyList_Append(*list, item))
        Py_CLEAR(*list);
    Py_XDECREF(item);
}

static PyObject *device_or_none(const haul_device *device)
{
    return device ? PyUnicode_FromString(haul_device_name(device)) : Py_NewRef(Py_None);
}

static PyObject *row_of(const haul_ledger_row *r)
{
    return Py_BuildValue("{sNsNsssssssssssLsLsLsLsLsdsdsdsd}", "from", device_or_none(r->from), "to",
                         device_or_none(r->to), "operation", r->operation, "module", r->module, "label", r->label,
                         "tensor", r->tensor, "conversion", r->conversion, "count", (long long)r->count, "bytes",
                         (long long)r->bytes, "pinned_bytes", (long long)r->pinned_bytes, "pageable_bytes",
                         (long long)r->pageable_bytes, "planned_bytes", (long long)r->planned_bytes, "planned_ms",
                         r->planned_ms, "wait_ms", r->wait_ms, "device_ms", r->device_ms, "overlap_ms", r->overlap_ms);
}

/* _ledger_rows(ledger, by): a list of dictionaries; by: values of haul_ledger_key joined, 0: all. */
static PyObject *ledger_rows(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject    *object, *list = NULL;
    unsigned int by;
    if (!PyArg_ParseTuple(args, "OI", &object, &by))
        return NULL;
    haul_ledger *ledger = haulpy_handle(object, KIND_LEDGER, "the ledger");
    if (!ledger)
        return NULL;
    haulpy_begin();
    const int        room = haul_ledger_rows_with(ledger, NULL, &(haul_ledger_rows_options){.by = by});
    haul_ledger_row *rows = room < 0 ? NULL : PyMem_Calloc((size_t)room + 1, sizeof *rows);
    if (!rows)
        return room < 0 ? haulpy_raise() : PyErr_NoMemory();
    const int count = haul_ledger_rows_with(ledger, rows, &(haul_ledger_rows_options){.capacity = room, .by = by});
    if (count < 0)
        haulpy_raise();
    else
        list = PyList_New(0);
    for (int i = 0; list && i < count && i < room; i++)
        append(&list, row_of(&rows[i]));
    PyMem_Free(rows);
    return list;
}

/* ---- profiles ---- */

/* _profile_summary(profile): a dictionary with the members of haul_profile_summary. */
static PyObject *profile_summary(PyObject *unused, PyObject *object)
{
    (void)unused;
    haul_profile        *profile = haulpy_handle(object, KIND_PROFILE, "the profile");
    haul_profile_summary s;
    if (!profile)
        return NULL;
    haulpy_begin();
    if (haul_profile_summary_get(profile, &s))
        return haulpy_raise();
    return Py_BuildValue("{sLsLsLsLsdsdsdsdsdsdsdsdsdsdsdsd}", "steps", (long long)s.steps, "events",
                         (long long)s.events, "lost", (long long)s.lost, "warm_ups", (long long)s.warm_ups, "wall_ms",
                         s.wall_ms, "step_ms", s.step_ms, "median_ms", s.median_ms, "steady_ms", s.steady_ms,
                         "step_joules", s.step_joules, "data_ms", s.data_ms, "forward_ms", s.forward_ms, "backward_ms",
                         s.backward_ms, "optimizer_ms", s.optimizer_ms, "compile_ms", s.compile_ms, "wait_ms",
                         s.wait_ms, "other_ms", s.other_ms);
}

static PyObject *profile_row(const haul_profile_row *r)
{
    static const char *const bounds[] = {"unknown", "compute", "memory", "overhead"};
    return Py_BuildValue("{sssssssNsLsdsdsdsdsdsdsdsdsssLsL}", "name", r->name, "kind", r->kind, "operation",
                         r->operation, "device", device_or_none(r->device), "calls", (long long)r->calls, "host_ms",
                         r->host_ms, "device_ms", r->device_ms, "forward_ms", r->forward_ms, "backward_ms",
                         r->backward_ms, "share", r->share, "flops", r->flops, "bytes", r->bytes, "joules", r->joules,
                         "bound", bounds[r->bound], "made_bytes", (long long)r->made_bytes, "peak_bytes",
                         (long long)r->peak_bytes);
}

static PyObject *finding(const haul_finding *f)
{
    return Py_BuildValue("{sssNsNsNsLsLsdsd}", "kind", haul_finding_name(f->kind), "place", haulpy_text(f->place),
                         "what", haulpy_text(f->what), "fix", haulpy_text(f->fix), "count_per_step",
                         (long long)f->count_per_step, "bytes_per_step", (long long)f->bytes_per_step, "ms_per_step",
                         f->ms_per_step, "planned_ms_per_step", f->planned_ms_per_step);
}

/* _profile_rows(profile, key): a list of dictionaries; key: a value of haul_profile_key. */
static PyObject *profile_rows(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject                 *object, *list = NULL;
    haul_profile_rows_options o = {.capacity = 0};
    int                       by;
    if (!PyArg_ParseTuple(args, "Oi", &object, &by))
        return NULL;
    haul_profile *profile = haulpy_handle(object, KIND_PROFILE, "the profile");
    if (!profile)
        return NULL;
    o.by = (haul_profile_key)by;
    haulpy_begin();
    const int         room = haul_profile_rows_with(profile, NULL, &o);
    haul_profile_row *rows = room < 0 ? NULL : PyMem_Calloc((size_t)room + 1, sizeof *rows);
    if (!rows)
        return room < 0 ? haulpy_raise() : PyErr_NoMemory();
    o.capacity = room;
    const int count = haul_profile_rows_with(profile, rows, &o);
    if (count < 0)
        haulpy_raise();
    else
        list = PyList_New(0);
    for (int i = 0; list && i < count && i < room; i++)
        append(&list, profile_row(&rows[i]));
    PyMem_Free(rows);
    return list;
}

/* _profile_audit(profile): a list of dictionaries. */
static PyObject *profile_audit(PyObject *unused, PyObject *object)
{
    (void)unused;
    PyObject     *list = NULL;
    haul_profile *profile = haulpy_handle(object, KIND_PROFILE, "the profile");
    if (!profile)
        return NULL;
    haulpy_begin();
    const int     room = haul_profile_audit(profile, NULL, 0);
    haul_finding *all = room < 0 ? NULL : PyMem_Calloc((size_t)room + 1, sizeof *all);
    if (!all)
        return room < 0 ? haulpy_raise() : PyErr_NoMemory();
    const int count = haul_profile_audit(profile, all, room);
    if (count < 0)
        haulpy_raise();
    else
        list = PyList_New(0);
    for (int i = 0; list && i < count && i < room; i++)
        append(&list, finding(&all[i]));
    PyMem_Free(all);
    return list;
}

/* ---- events ---- */

static PyObject *dictionary_of(const haul_event *e)
{
    return Py_BuildValue("{sssssssssssssssssNsNsisisLsLsLsd}", "kind", haul_event_kind_name(e->kind), "operation",
                         e->operation, "origin", e->origin, "label", e->label, "text", e->text, "stream", e->stream,
                         "tensor", e->tensor, "kernel", e->kernel, "device", device_or_none(e->device), "other",
                         device_or_none(e->other), "thread", e->thread, "depth", e->depth, "bytes", (long long)e->bytes,
                         "time", (long long)e->time, "duration", (long long)e->duration, "flops", e->flops);
}

/* The context is the list. An event is left out if there is no memory for it. */
static void take_event(const haul_event *event, void *context)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject        *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *item = dictionary_of(event);
    if (!item || PyList_Append(context, item))
        PyErr_Clear();
    Py_XDECREF(item);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}

static const struct {
    const char *name;
    uint32_t    kinds;
} event_groups[] = {
    {"operation", HAUL_EVENT_OPERATION}, {"command", HAUL_EVENT_COMMAND}, {"copy", HAUL_EVENT_COPY},
    {"wait", HAUL_EVENT_WAIT},           {"memory", HAUL_EVENT_MEMORY},   {"call", HAUL_EVENT_CALL},
    {"label", HAUL_EVENT_LABEL},         {"work", HAUL_EVENT_WORK},       {"collective", HAUL_EVENT_COLLECTIVE}};

/* 0: raised. */
static uint32_t kinds_of(const char *name)
{
    for (size_t i = 0; i < sizeof event_groups / sizeof *event_groups; i++)
        if (strcmp(event_groups[i].name, name) == 0)
            return event_groups[i].kinds;
    PyErr_Format(PyExc_ValueError,
                 "events: \"%s\" is none of operation, command, copy, wait, memory, call, label, work, collective",
                 name);
    return 0;
}

/* _events_begin(list, (name, ...)): the number of the subscription, which appends the events of the thread to the list.
 * The caller keeps the list until _events_end. */
static PyObject *events_begin(PyObject *unused, PyObject *args)
{
    (void)unused;
    PyObject *list, *names;
    uint32_t  kinds = 0;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &list, &PyTuple_Type, &names))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(names); i++) {
        const char    *name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL);
        const uint32_t more = name ? kinds_of(name) : 0;
        if (!more)
            return NULL;
        kinds |= more;
    }
    haulpy_begin();
    int64_t id = haul_events_subscribe_with(&(haul_subscription){.take = take_event, .kinds = kinds, .context = list});
    return id ? PyLong_FromLongLong(id) : haulpy_raise();
}

static PyObject *events_end(PyObject *unused, PyObject *number)
{
    (void)unused;
    int64_t id;
    if (!haulpy_as_i64(number, "the number", &id))
        return NULL;
    haulpy_begin();
    return haul_events_unsubscribe(id) ? haulpy_raise() : Py_NewRef(Py_None);
}

PyMethodDef haulpy_watch_functions[] = {{"_events_begin", events_begin, METH_VARARGS, NULL},
                                        {"_events_end", events_end, METH_O, NULL},
                                        {"_module_add_hook", module_add_hook, METH_VARARGS, NULL},
                                        {"_module_remove_hook", module_remove_hook, METH_VARARGS, NULL},
                                        {"_ledger_rows", ledger_rows, METH_VARARGS, NULL},
                                        {"_profile_summary", profile_summary, METH_O, NULL},
                                        {"_profile_rows", profile_rows, METH_VARARGS, NULL},
                                        {"_profile_audit", profile_audit, METH_O, NULL},
                                        {NULL, NULL, 0, NULL}};
