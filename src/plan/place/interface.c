/* The functions of plan.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/scope.h"
#include "core/trial.h"
#include "files/file.h"
#include "nn/module.h"
#include "plan/place/options.h"

_Static_assert((int)HAUL_PLAN_DEVICES == (int)HAUL__PLACE_DEVICES, "the peaks of all devices are copied");

/* ---- making ---- */

/* The model counts less memory than a step needs, so plans that do not fit are made again with lower limits. */
static haul_status fit(haul_plan *p, haul_estimate_function *step, void *context, haul_module *net)
{
    enum { MOST_TRIES = 4 };
    HAUL__ASSERT(0 < haul__plan_device_count(p) && haul__plan_device_count(p) <= HAUL__PLACE_DEVICES);
    haul_status status = haul__plan_rehearse(p, step, context, net);
    for (int i = 0; i < MOST_TRIES && !status; i++) {
        const haul__plan_way *w = haul__plan_own_way(p);
        if (!*w->why_not)
            break;
        for (int d = 0; d < haul__plan_device_count(p); d++)
            if (w->figures.peak[d] > p->limit[d])
                p->graph.limit[d] = larger(1, p->graph.limit[d] - (w->figures.peak[d] - p->limit[d]));
        status = haul__plan_solve(p);
        if (!status)
            status = haul__plan_rehearse(p, step, context, net);
    }
    return status;
}

static bool can_run(const haul_plan *p)
{
    bool can = true;
    for (int d = 0; d < haul__plan_device_count(p); d++)
        can = can && haul_device_is_valid(haul_device_get(p->request.names[d]));
    return can;
}

static haul_plan *make(haul_estimate_function *step, void *context, const haul_plan_options *o, haul__place_pin *pins,
                       const char *operation)
{
    haul__plan_request request;
    haul_program       program;
    if (haul__plan_choose(o, false, pins, operation, &request))
        return NULL;
    if (haul__plan_record(step, context, o->module, &program, &request.held, operation)) {
        haul__free(request.machine);
        return NULL;
    }
    haul_plan  *p = haul__plan_new(&program, &request, operation);
    haul_status status = p ? HAUL_OK : haul_error_status();
    if (!status && o->module && can_run(p))
        status = fit(p, step, context, o->module);
    if (!status)
        status = haul__plan_explain(p, operation);
    if (p)
        p->request.pins = NULL; /* the caller's */
    if (!status)
        return p;
    haul__fail_within(operation);
    haul__object_release(p);
    return NULL;
}

haul_plan *haul_plan_new_with(haul_estimate_function *step, void *context, const haul_plan_options *options)
{
    static const char operation[] = "haul_plan_new";
    if (!step || !options) {
        step ? haul__fail_null(operation, "options") : haul__fail_no_function(operation, "step");
        return NULL;
    }
    if (options->module && haul__check_module(options->module, operation))
        return NULL;
    const size_t     count = options->pin_count > 0 ? (size_t)options->pin_count : 0;
    haul__place_pin *pins = haul__calloc(count + 1, sizeof *pins);
    if (!pins) {
        haul__fail_memory(operation, count * sizeof *pins);
        return NULL;
    }
    haul_plan *p = make(step, context, options, pins, operation);
    haul__free(pins);
    return p ? haul__own(p, operation) : NULL;
}

/* ---- reading ---- */

int haul_plan_rows(haul_plan *plan, haul_plan_row *out, int capacity)
{
    static const char operation[] = "haul_plan_rows";
    int               count = 0;
    if (haul__check_plan(plan, operation) || haul__plan_explain(plan, operation))
        return -1;
    for (size_t i = 0; i < plan->graph.operation_count; i++) {
        const haul__place_operation *o = &plan->graph.operations[i];
        const int                    device = haul__plan_device_of(plan, o);
        HAUL__ASSERT(0 <= device && device < haul__plan_device_count(plan));
        if (o->call < 0)
            continue;
        if (out && count < capacity)
            out[count] = (haul_plan_row){o->name, o->module, plan->request.names[device],
                                         (double)o->cost[device] * 1e-9, plan->reasons[i]};
        count++;
    }
    return count;
}

int haul_plan_candidates(haul_plan *plan, haul_plan_candidate *out, int capacity)
{
    if (haul__check_plan(plan, "haul_plan_candidates"))
        return -1;
    for (int i = 0; out && i < capacity && i < haul__plan_way_count(plan); i++) {
        const haul__plan_way     *w = &plan->ways[i];
        const haul__plan_figures *f = &w->figures;
        out[i] = (haul_plan_candidate){.name = w->name,
                                       .step_ms = (double)f->ps * 1e-9,
                                       .sum_ms = (double)f->sum * 1e-9,
                                       .copied_bytes = f->copied_bytes,
                                       .copies = f->copies,
                                       .wait_ms = (double)f->waits * 1e-9,
                                       .bits_of = haul__plan_bits(plan, w->placement),
                                       .fits = !*w->why_not,
                                       .why_not = w->why_not};
        memcpy(out[i].peak_bytes, f->peak, sizeof out[i].peak_bytes);
    }
    return haul__plan_way_count(plan);
}

/* ---- following ---- */

haul_status haul_plan_apply(haul_plan *plan, haul_module *net)
{
    static const char operation[] = "haul_plan_apply";
    if (haul__check_plan(plan, operation) || haul__check_module(net, operation))
        return haul_error_status();
    if (haul__is_trial())
        return haul__fail(HAUL_STATE, operation, "plan",
                          "a dry run or a followed step cannot apply a plan; apply it before");
    const haul_status status = haul__plan_explain(plan, operation);
    return status ? status : haul__plan_follow(plan, plan->best, net, operation);
}

/* ---- files ---- */

haul_status haul_plan_save(haul_plan *plan, const char *path)
{
    static const char operation[] = "haul_plan_save";
    if (haul__check_plan(plan, operation))
        return haul_error_status();
    if (!path)
        return haul__fail_null(operation, "path");
    char *text = haul__plan_text(plan, operation);
    if (!text)
        return haul_error_status();
    const size_t length = strlen(text);
    HAUL__ASSERT(length > 0);
    text[length] = '\n'; /* in the place of the NUL */
    const haul_status status = haul__file_write_all(path, operation, text, length + 1);
    haul__free(text);
    return status;
}

static haul_status read_json(const char *path, const char *operation, haul__json **out)
{
    enum { MOST_BYTES = 1 << 30, DEPTH = 8 };
    uint8_t    *text = NULL;
    size_t      size = 0, used = 0;
    haul_status status = haul__file_read_all(path, operation, MOST_BYTES, 0, &text, &size);
    *out = NULL;
    if (!status)
        status = haul__json_read_all(operation, text, size, DEPTH, out, &used);
    if (!status && !*out)
        status = haul__fail(HAUL_FORMAT, operation, "path", "%s is not JSON; haul_plan_save writes plans", path);
    haul__free(text);
    return status;
}

haul_plan *haul_plan_load(const char *path)
{
    static const char operation[] = "haul_plan_load";
    haul__json       *file;
    if (!path) {
        haul__fail_null(operation, "path");
        return NULL;
    }
    if (read_json(path, operation, &file))
        return NULL;
    haul_plan *p = haul__plan_read(file, path, operation);
    haul__json_free(file);
    return p ? haul__own(p, operation) : NULL;
}
