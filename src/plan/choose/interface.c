/* haul_fit: planning a step of a program within a memory limit. */
#include <haul/autocast.h>
#include <haul/fit.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/error.h"
#include "core/guest.h"
#include "device/device.h"
#include "device/speeds.h"
#include "plan/available.h"
#include "plan/choose/choose.h"
#include "record/dry_function.h"

static const char operation[] = "haul_fit";

_Static_assert((int)HAUL_FIT_RECOMPUTE == (int)HAUL__ALLOW_RECOMPUTE && (int)HAUL_FIT_SPILL == (int)HAUL__ALLOW_SPILL &&
                   (int)HAUL_FIT_ACCUMULATE == (int)HAUL__ALLOW_ACCUMULATE &&
                   (int)HAUL_FIT_BF16 == (int)HAUL__ALLOW_BF16,
               "the techniques of programs are those of the planner");

typedef struct fitting {
    haul_fit_step          *step;
    void                   *context;
    const haul_fit_options *options;
    haul_device            *device;
    haul__segments          after; /* of the module, with those on that run again from now on */
    /* of the dry run under way: */
    const haul__choose_way *way;
    haul_step_part          part;
    haul__fit_step         *out;
} fitting;

/* ---- the step in dry runs ---- */

static haul_status run_part(void *context)
{
    const fitting *f = context;
    return f->options->part ? f->options->part(f->context, f->way->batch, &f->part)
                            : f->step(f->context, f->way->batch);
}

/* The first mini-batch of a step, the last one, or both. */
static haul_status call_part(fitting *f, bool first, bool last)
{
    f->part = (haul_step_part){.first = first, .last = last, .weight = 1 / (double)f->way->parts};
    return haul__dry_function_call(run_part, f, operation);
}

/* The first step makes gradients and the optimizer's state. Of the second one the last mini-batch is recorded. */
static haul_status record_second(fitting *f)
{
    haul__dry_function call;
    const bool         whole = f->way->parts == 1;
    if (haul__dry_function_begin(&call, operation))
        return haul_error_status();
    haul_status status = call_part(f, true, true);
    if (!status && !whole)
        status = call_part(f, true, false);
    f->part = (haul_step_part){.first = whole, .last = true, .weight = 1 / (double)f->way->parts};
    if (!status)
        status = haul__program_record_residency(run_part, f, f->device, &f->out->program, &f->out->residency);
    haul__dry_function_end(&call);
    return status;
}

static haul_status record_in_precision(fitting *f)
{
    const haul_autocast_state before =
        haul_autocast_begin("all", f->way->bf16 ? HAUL_BF16 : haul_autocast_dtype(f->device));
    const haul_status status = record_second(f);
    haul_autocast_end(before);
    return status;
}

static haul_status record(void *context, const haul__choose_way *way, haul__segments *segments, haul__fit_step *out)
{
    fitting     *f = context;
    haul_status  status = HAUL_OK;
    haul_module *net = f->options->module;
    f->way = way;
    f->out = out;
    *out = (haul__fit_step){.segment = NULL};
    if (net && !segments->count)
        status = haul__segments_find(net, segments);
    if (!status && net)
        status = haul__segments_apply(segments, net);
    if (!status)
        status = record_in_precision(f);
    if (!status)
        status = haul__fit_step_find_segments(out, segments, net);
    if (status)
        haul__fit_step_free(out);
    return status;
}

/* ---- the result ---- */

static void describe(const haul__chosen *c, haul_fit_result *out)
{
    *out = (haul_fit_result){.batch = c->batch,
                             .accumulate = c->accumulate,
                             .used = c->used,
                             .step_ms = (double)c->ps * 1e-9,
                             .bound_ms = (double)c->bound * 1e-9,
                             .peak_bytes = c->keep.peak,
                             .spilled_bytes = c->moved,
                             .spill_most_ms = (double)c->spill_ps * 1e-9,
                             .unlimited_step_ms = (double)c->free_ps * 1e-9,
                             .unlimited_peak_bytes = c->free_peak,
                             .recomputed_count = haul__segments_count_on(&c->keep.segments)};
    haul__segments_names(&c->keep.segments, out->recomputed, sizeof out->recomputed);
    haul__chosen_sentence(c, out->words, sizeof out->words);
}

static haul_status refuse(const haul__chosen *c, const fitting *f, int64_t limit)
{
    char largest[64] = "";
    if (c->largest)
        snprintf(largest, sizeof largest, "; the largest batch that fits is %" PRId64, c->largest);
    return haul__fail(HAUL_OUT_OF_MEMORY, operation, NULL,
                      "nothing that is allowed fits in %" PRId64 " bytes on %s: with batch %" PRId64
                      " a step needs %" PRId64 " bytes%s",
                      limit, haul_device_name(f->device), c->batch, c->keep.peak, largest);
}

/* ---- the whole ---- */

static haul_status check(haul_fit_step *step, const haul_fit_options *o, const haul_fit_result *out)
{
    const unsigned all = HAUL_FIT_RECOMPUTE | HAUL_FIT_SPILL | HAUL_FIT_ACCUMULATE | HAUL_FIT_BF16;
    if (!out || !o)
        return haul__fail_null(operation, out ? "options" : "out");
    if (!step && !o->part)
        return haul__fail_no_function(operation, "step");
    if (o->memory_limit < 0 || o->host_limit < 0 || o->batch < 0 || o->most_batch < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "options",
                          "limits and batches are %" PRId64 ", %" PRId64 ", %" PRId64 " and %" PRId64
                          "; expected are numbers of at least 0",
                          o->memory_limit, o->host_limit, o->batch, o->most_batch);
    if (o->allow & ~all)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "allow",
                          "allow is %#x; expected are some of HAUL_FIT_RECOMPUTE, HAUL_FIT_SPILL, HAUL_FIT_ACCUMULATE "
                          "and HAUL_FIT_BF16; haul_plan_new divides a step among devices",
                          o->allow);
    if (o->allow & HAUL_FIT_ACCUMULATE && !o->part)
        return haul__fail(
            HAUL_INVALID_ARGUMENT, operation, "allow",
            "HAUL_FIT_ACCUMULATE needs .part, which makes one mini-batch of a step; the step makes all of "
            "it");
    return HAUL_OK;
}

static haul_status find_limit(const fitting *f, int64_t *limit)
{
    *limit = f->options->memory_limit ? f->options->memory_limit : haul__device_memory(f->device);
    return *limit ? HAUL_OK
                  : haul__fail(HAUL_INVALID_ARGUMENT, operation, "memory_limit",
                               "the memory of %s is not known; give a memory_limit", haul_device_name(f->device));
}

static haul_status fit(fitting *f, haul_fit_result *out)
{
    enum { MOST_BATCH = 65536 };
    const haul_fit_options *o = f->options;
    const haul__speeds      speeds = haul__speeds_of(f->device);
    const unsigned never = (o->module ? 0U : HAUL_FIT_RECOMPUTE) | (f->device == haul_cpu() ? HAUL_FIT_SPILL : 0U);
    haul__choose_request r = {.record = record,
                              .context = f,
                              .allowed = o->allow & ~never,
                              .batch = o->batch,
                              .most_batch = o->most_batch ? o->most_batch : MOST_BATCH,
                              .parts = 1,
                              .host_limit = o->host_limit,
                              .machine = speeds.machine,
                              .number = speeds.number};
    haul__chosen         c;
    haul_status          status = find_limit(f, &r.limit);
    if (!status)
        status = haul__choose(&r, &c);
    if (status)
        return status;
    describe(&c, out);
    if (!c.fits)
        status = refuse(&c, f, r.limit);
    f->after = c.keep.segments;
    for (int i = 0; i < f->after.count && (status || !o->apply); i++)
        f->after.items[i].on = false;
    haul__chosen_free(&c);
    return status;
}

/* The error, if there is one, stays. */
static haul_status leave_segments(const fitting *f, haul_status status)
{
    haul__error_record error;
    haul__error_save(&error);
    const haul_status left = haul__segments_apply(&f->after, f->options->module);
    if (status)
        haul__error_restore(&error);
    return status ? status : left;
}

haul_status haul_fit_with(haul_fit_step *step, void *context, haul_fit_result *out, const haul_fit_options *options)
{
    fitting f = {.step = step, .context = context, .options = options};
    if (out)
        *out = (haul_fit_result){.batch = 0};
    if (check(step, options, out))
        return haul_error_status();
    f.device = options->device ? options->device : haul_current_device();
    if (haul__device_check(f.device, operation, "device"))
        return haul_error_status();
    if (options->module && haul__segments_find(options->module, &f.after))
        return haul_error_status();
    const haul_status status = fit(&f, out);
    return options->module ? leave_segments(&f, status) : status;
}
