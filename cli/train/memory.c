/* Sentences about memory that does not suffice: the request, the needed memory by operation, and settings that would
 * fit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/list.h"
#include "cli/shared/cli.h"
#include "cli/train/log/summary.h"
#include "cli/train/planner.h"
#include "cli/train/trainer.h"
#include "device/device.h"

typedef struct size {
    char text[64];
} size;

/* "1.8 MiB (1,911,584 bytes)" */
static size size_of(int64_t bytes)
{
    size s;
    snprintf(s.text, sizeof s.text, "%s (%s bytes)", text_bytes(bytes), text_count(bytes));
    return s;
}

/* "activations 40.0 MiB, parameters 2.0 MiB": all memory in use at the peak, by what it is used for. */
static void tell_roles(const haul_estimate_device *d)
{
    enum { MOST = 16 };
    const char *roles[MOST];
    int64_t     bytes[MOST] = {0};
    int         count = 0;
    char        text[1024] = "";
    size_t      used = 0;
    for (int i = 0; i < d->origin_count; i++) {
        int at = 0;
        while (at < count && strcmp(roles[at], d->origins[i].role) != 0)
            at++;
        if (at == MOST)
            continue;
        roles[at] = d->origins[i].role;
        count = at == count ? count + 1 : count;
        bytes[at] += d->origins[i].bytes;
    }
    for (int shown = 0; shown < count && used < sizeof text; shown++) {
        int most = 0;
        for (int i = 1; i < count; i++)
            most = bytes[i] > bytes[most] ? i : most;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", shown ? ", " : "", roles[most],
                                 text_bytes(bytes[most]));
        bytes[most] = -1;
    }
    if (*text)
        complain_more("At the peak memory holds: %s.", text);
}

/* "haul_conv2d in layer1.0.conv1 8.0 MiB, haul_add 4.0 MiB": the largest memory in use at the peak. */
static void tell_origins(const haul_estimate_device *d)
{
    enum { SHOWN = 5 };
    char text[1024] = "";
    for (int i = 0; i < d->origin_count && i < SHOWN; i++) {
        const haul_estimate_origin *o = &d->origins[i];
        haul__list_add(text, sizeof text, "%s%s%s %s", o->name, *o->module ? " in " : "", o->module,
                       text_bytes(o->bytes));
    }
    if (*text)
        complain_more("The largest parts are: %s.", text);
}

static void tell_need(const trainer *t)
{
    const haul__fit_result     *d = &t->expected;
    const haul_estimate_result *parts_of_training[] = {&d->step, &d->first, &d->epoch};
    const haul_estimate_device *most = NULL;
    const int                   on = haul__segments_count_on(&d->segments);
    bool                        is_epoch = false;
    char                        segments[64] = "";
    for (int i = 0; i < 3; i++) {
        const haul_estimate_device *now = haul__fit_device(parts_of_training[i], t->device);
        if (!now || (most && now->peak_bytes <= most->peak_bytes))
            continue;
        most = now;
        is_epoch = i == 2;
    }
    if (most && d->loading > most->peak_bytes) {
        complain_more("By the dry run, loading the weights of --init needs %s at its peak.", size_of(d->loading).text);
        return;
    }
    if (on)
        snprintf(segments, sizeof segments, " with %d of %d parts recomputed", on, d->segments.count);
    complain_more("By the dry run, %s with batch %s%s needs %s at its peak.",
                  is_epoch ? "the change from one epoch to the next" : "a training step", text_count(t->options->batch),
                  segments, size_of(d->peak).text);
    if (most && d->follows) /* a followed step has its tensors in one arena; a recorded one has the same by itself */
        most = haul__fit_device(&d->first, t->device);
    if (most) {
        tell_roles(most);
        tell_origins(most);
    }
}

static void tell_batch(trainer *t, int64_t limit)
{
    if (t->options->batch == 1) {
        complain_more("No batch is smaller.");
        return;
    }
    haul__batch_need          need = {0};
    const haul__batch_request request = planner_batches(t->planner, limit);
    haul__batch_sizes         sizes = {.count = 0};
    const int64_t             batch = haul__batch_largest(&request, t->options->batch, &sizes, &need);

    if (batch)
        complain_more("The largest batch that fits is --batch %lld%s: it needs %s%s.", (long long)batch,
                      t->options->resume ? ", in another run" : "", size_of(need.bytes).text,
                      need.bytes > limit ? ", of which a part goes to host memory" : "");
    else
        complain_more("No smaller batch fits: a batch of one example needs more, too.");
}

static const char *fit_text(const haul__batch_need *need, int64_t limit)
{
    return need->bytes <= limit ? "fits"
           : need->fits         ? "fits if a part of it goes to host memory"
                                : "does not fit either";
}

static void tell_recompute(trainer *t, int64_t limit)
{
    haul__batch_need    need;
    haul__batch_request request = planner_batches(t->planner, limit);
    request.recompute = true;
    if (train_options_recompute(t->options) || haul__batch_find_need(&request, t->options->batch, &need))
        return;
    complain_more("With --recompute auto, batch %s needs %s, which %s.", text_count(t->options->batch),
                  size_of(need.bytes).text, fit_text(&need, limit));
}

static void tell_offload(trainer *t, int64_t limit)
{
    haul__batch_need       need;
    haul__batch_request    request = planner_batches(t->planner, limit);
    const haul__choose_way way = {.parts = t->options->accumulate, .offload = true};
    request.training = planner_vary(t->planner, &way);
    if (!strcmp(t->options->offload, "optimizer") || !haul__device_is_apart(t->device) ||
        haul__batch_find_need(&request, t->options->batch, &need))
        return;
    complain_more("With --offload optimizer, batch %s needs %s, which %s.", text_count(t->options->batch),
                  size_of(need.bytes).text, fit_text(&need, limit));
}

/* What makes room for spilled tensors. */
static const char *tier_help(const train_options *o)
{
    if (!o->spill_folder)
        return o->spill_host ? "raise --spill-host, or name a folder for the rest with --spill-folder"
                             : "name a folder for the rest with --spill-folder";
    return o->spill_file ? "raise --spill-file, if the disk of --spill-folder has room"
                         : "name a --spill-folder on a disk with more room";
}

/* "haul_conv2d in conv1 needs 20.1 MiB at once" */
static const char *over_text(const haul__fit_spill *s, char *out, size_t room)
{
    if (s->over)
        snprintf(out, room, "%s%s%s needs %s at once", s->over_operation, *s->over_module ? " in " : "", s->over_module,
                 size_of(s->over).text);
    else
        snprintf(out, room, "one of its operations needs more at once");
    return out;
}

static void tell_spill(trainer *t, int64_t limit)
{
    haul__spill_cost       c;
    char                   text[256];
    const haul__fit_spill *now = &t->expected.spill;
    if (t->options->spill && !trainer_is_within_limit(t) && !now->fits && now->missing)
        complain_more(
            "--spill on does not suffice: host memory%s for spilled tensors %s no room for %s that leave %s at "
            "one time; %s.",
            t->options->spill_folder ? " and the file" : "", t->options->spill_folder ? "have" : "has",
            size_of(now->missing).text, haul_device_name(t->device), tier_help(t->options));
    else if (t->options->spill && !trainer_is_within_limit(t) && !now->fits)
        complain_more("--spill on does not suffice: %s.", over_text(now, text, sizeof text));
    if (t->options->spill || !planner_spill_cost(t->planner, limit, &c))
        return;
    if (c.spill.fits && !c.spill.bytes)
        complain_more("With --spill on, it fits: tensors go to host memory only before the step is recorded, and when "
                      "the epoch is measured.");
    else if (c.spill.fits)
        complain_more("With --spill on, tensors that do not fit go to host memory: %s (estimates).",
                      spill_cost_text(text, sizeof text, &c));
    else
        complain_more("With --spill on, a step does not fit either, by the estimate: %s.",
                      over_text(&c.spill, text, sizeof text));
}

/* The command that looks for ways to fit, for the training with all its options. A run that goes on keeps the sums of
 * its mini-batches. */
static void tell_plan(const trainer *t, int64_t bound)
{
    static const char *const without[] = {"device", "devices",      "place",    "plan",
                                          "group",  "memory-limit", "estimate", NULL};
    const train_options     *o = t->options;
    const bool               named = option_given(t->values, "model") || o->resume;
    char                     limit[64], *given;
    if (t->device == haul_cpu())
        return;
    given = options_line(t->values, without);
    snprintf(limit, sizeof limit, "%lld", (long long)(bound + t->expected.overhead));
    if (given) {
        complain_more("To find the fastest way to train that fits:");
        complain_more("haul plan --devices cpu,%s --allow recompute,spill%s --memory-limit %s --%s%s%s",
                      haul_device_name(t->device), o->resume ? "" : ",accumulate",
                      t->plans.limit.bytes ? o->memory_limit : limit, named ? "" : " --model ", named ? "" : o->model,
                      given);
    }
    free(given);
}

/* What asked for memory, while the error stands. */
static void tell_operation(void)
{
    haul_memory_report r;
    if (!haul_memory_report_get(&r) && *r.operation)
        complain_more("%s%s%s asked for it.", r.operation, *r.module ? " in " : "", r.module);
}

static void tell_limit(const trainer *t, bool exhausted, int64_t bound)
{
    const int64_t limit = t->expected.limit, overhead = t->expected.overhead;
    const char   *device = haul_device_name(t->device);
    if (!limit)
        complain_more("No --memory-limit was given; %s could be allocated on %s.", size_of(bound).text, device);
    else if (exhausted)
        complain_more("--memory-limit %s is %s.", t->options->memory_limit, size_of(limit + overhead).text);
    else
        complain("the training does not fit in --memory-limit %s, which is %s on %s", t->options->memory_limit,
                 size_of(limit + overhead).text, device);
    if (limit && overhead)
        complain_more("Of these the driver took %s before, so %s are left.", size_of(overhead).text,
                      size_of(limit).text);
}

/* In the log. The library's report goes with its error. */
static void log_failure(trainer *t)
{
    const haul__fit_result *d = &t->expected;
    haul_memory_report      failure;
    const bool              is_known = !haul_memory_report_get(&failure);
    report_tell_memory(&t->report, &(report_memory){.epoch = t->position.epoch,
                                                    .batch = t->position.batch,
                                                    .limit_bytes = d->limit + d->overhead,
                                                    .expected_bytes = d->peak,
                                                    .failure = is_known ? &failure : NULL});
}

/* The bytes that the device has for the training, as far as they are known without a limit. */
static int64_t found_room(const trainer *t, bool exhausted)
{
    haul_memory_report r;
    const int64_t      peak = trainer_peak_bytes(t);
    const bool         is_known = exhausted && !haul_memory_report_get(&r) && r.device == t->device && r.room >= 0;
    return is_known && r.allocated + r.room > peak ? r.allocated + r.room : peak;
}

int trainer_tell_memory(trainer *t, bool exhausted)
{
    const haul__fit_result *d = &t->expected;
    const int64_t           bound = d->limit ? d->limit : found_room(t, exhausted);
    /* What memory held at the failure is known as long as its error stands. */
    if (exhausted) {
        tell_operation();
        log_failure(t);
        trainer_save_account(t);
    }
    tell_limit(t, exhausted, bound);
    tell_need(t);
    if (!bound) /* nothing could be allocated, so nothing fits */
        return EXIT_MEMORY;
    tell_batch(t, bound);
    tell_recompute(t, bound);
    tell_offload(t, bound);
    tell_spill(t, bound);
    tell_plan(t, bound);
    return EXIT_MEMORY;
}
