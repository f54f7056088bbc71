/* Memory that does not suffice: what was asked for, what is needed and by what, and what would fit. */
#include <stdio.h>
#include <string.h>

#include "cli/plan/free_memory.h"
#include "cli/shared/cli.h"
#include "cli/train/batch.h"
#include "cli/train/spill_cost.h"
#include "cli/train/trainer.h"

/* ---- --batch auto ---- */

/* What a training may allocate without a limit: nine tenths of what is free, and what is allocated already. */
static int64_t free_memory(const trainer *t)
{
    haul_device_properties p = {.memory_bytes = 0};
    if (haul_device_describe(t->device, &p))
        return 0;
    int64_t available = t->device == haul_cpu() || p.shares_host_memory ? available_memory() : p.memory_bytes;
    if (!available || (p.memory_bytes && p.memory_bytes < available))
        available = p.memory_bytes;
    return available ? t->expected.start + available / 10 * 9 : 0;
}

/* What was counted while the batches ran is not of the training. */
static void choose_fastest(trainer *t)
{
    batch_time(t, &t->choice);
    if (t->choice.count)
        t->options->batch = batch_choice_fastest(&t->choice);
    haul_transfer_stats_reset();
    t->waits_before = haul_sync_count();
    t->spilled_before = trainer_spilled_bytes(t);
}

/* --batch auto. -1, or an exit code. */
static int choose_batch(trainer *t)
{
    const int64_t     examples = haul_dataset_count(t->data.train), limit = memory_limit_bytes(&t->plans.limit, 0);
    batch_choice     *c = &t->choice;
    haul_memory_stats memory = {0};
    batch_need        need;
    if (t->options->batch)
        return -1;
    if (haul_memory_stats_get(t->device, &memory))
        return complain_error();
    t->expected.start = memory.allocated;
    c->room_bytes = limit ? limit : free_memory(t);
    if (!c->room_bytes)
        return complain("how much memory of %s is free is not known; give --batch auto a --memory-limit",
                        haul_device_name(t->device));
    const int64_t most = examples < (int64_t)MOST_BATCH ? examples : (int64_t)MOST_BATCH;
    c->largest = batch_largest(t, most + 1, c->room_bytes, &need);
    t->options->batch = c->largest ? c->largest : 1; /* which is then found not to fit */
    if (c->largest && !t->options->estimate)
        choose_fastest(t);
    return -1;
}

/* ---- what the training takes ---- */

static bool is_within_limit(const dry_run *d)
{
    return !d->limit || d->peak <= d->limit;
}

/* With --spill on, where it needs more than the limit. */
static haul_status expect_spilling(trainer *t)
{
    dry_run *d = &t->expected, spilling;
    if (!t->options->spill || is_within_limit(d))
        return HAUL_OK;
    haul_status status = dry_run_try_spilling(t, d->limit, &spilling);
    if (status)
        return status;
    d->spill = spilling.spill;
    dry_run_free(&spilling);
    return HAUL_OK;
}

/* From here on, so that what --batch auto tries spills, too. */
static haul_status begin_spilling(const trainer *t)
{
    return t->options->spill ? haul_memory_set_spill(t->device, true) : HAUL_OK;
}

int trainer_expect(trainer *t)
{
    if (begin_spilling(t))
        return complain_error();
    const int code = choose_batch(t);
    if (code >= 0)
        return code;
    if (!dry_run_make(t, &t->expected))
        return EXIT_FAILED;
    return expect_spilling(t) ? complain_error() : -1;
}

/* Libraries for NVIDIA GPUs can do without the workspace that a dry run counts, so there only the training shows it. */
static bool is_refusal_certain(const trainer *t)
{
    haul_device_properties p = {.backend = ""};
    return !haul_device_describe(t->device, &p) && strcmp(p.backend, "cuda") != 0;
}

bool trainer_fits(const trainer *t)
{
    const dry_run *d = &t->expected;
    return is_within_limit(d) || (t->options->spill && (d->spill.fits || !is_refusal_certain(t)));
}

/* ---- sentences ---- */

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

/* "haul_conv2d in layer1.0.conv1 8.0 MiB, haul_add 4.0 MiB": the largest of what is in use at the peak. */
static void tell_origins(const haul_estimate_device *d)
{
    enum { SHOWN = 5 };
    char   text[1024] = "";
    size_t used = 0;
    for (int i = 0; i < d->origin_count && i < SHOWN && used < sizeof text; i++) {
        const haul_estimate_origin *o = &d->origins[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s %s", i ? ", " : "", o->name,
                                 *o->module ? " in " : "", o->module, text_bytes(o->bytes));
    }
    if (*text)
        complain_more("At the peak the largest parts are: %s.", text);
}

static void tell_need(const trainer *t)
{
    const dry_run              *d = &t->expected;
    const haul_estimate_device *step = dry_run_device(&d->step, t->device),
                               *epoch = dry_run_device(&d->epoch, t->device);
    const bool is_step = step && (!epoch || epoch->peak_bytes <= step->peak_bytes);
    const int  on = parts_count_on(&d->parts);
    char       parts[64] = "";
    if (on)
        snprintf(parts, sizeof parts, " with %d of %d parts recomputed", on, d->parts.count);
    complain_more("By the dry run, %s with batch %s%s needs %s at its peak.",
                  is_step ? "a training step" : "the change from one epoch to the next", text_count(t->options->batch),
                  parts, size_of(d->peak).text);
    if (is_step || epoch)
        tell_origins(is_step ? step : epoch);
}

static void tell_batch(trainer *t, int64_t limit)
{
    if (t->options->batch == 1) {
        complain_more("No batch is smaller.");
        return;
    }
    batch_need    need = {0};
    const int64_t batch = batch_largest(t, t->options->batch, limit, &need);

    if (batch)
        complain_more("The largest batch that fits is --batch %lld%s: it needs %s%s.", (long long)batch,
                      t->options->resume ? ", in another run" : "", size_of(need.bytes).text,
                      need.bytes > limit ? ", of which a part goes to host memory" : "");
    else
        complain_more("No smaller batch fits: a batch of one example needs more, too.");
}

static void tell_recompute(trainer *t, int64_t limit)
{
    batch_need need;
    if (trainer_recomputes(t) || batch_find_need(t, t->options->batch, "auto", limit, &need, NULL))
        return;
    complain_more("With --recompute auto, batch %s needs %s, which %s.", text_count(t->options->batch),
                  size_of(need.bytes).text,
                  need.bytes <= limit ? "fits"
                  : need.fits         ? "fits if a part of it goes to host memory"
                                      : "does not fit either");
}

static void tell_spill(trainer *t, int64_t limit)
{
    spill_cost c;
    char       text[160];
    if (t->options->spill && !is_within_limit(&t->expected) && !t->expected.spill.fits)
        complain_more("--spill on does not suffice: one of its operations needs more than the limit by itself.");
    if (t->options->spill || !spill_cost_find(t, limit, &c))
        return;
    if (c.fits)
        complain_more("With --spill on, tensors that do not fit go to host memory: %s (estimates).",
                      spill_cost_text(text, sizeof text, &c));
    else
        complain_more(
            "With --spill on, a step does not fit either, by the estimate: one of its operations needs more.");
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
    const dry_run     *d = &t->expected;
    haul_memory_report failure;
    const bool         is_known = !haul_memory_report_get(&failure);
    report_tell_memory(&t->report, &(report_memory){.epoch = t->position.epoch,
                                                    .batch = t->position.batch,
                                                    .limit_bytes = d->limit + d->overhead,
                                                    .expected_bytes = d->peak,
                                                    .failure = is_known ? &failure : NULL});
}

int trainer_tell_memory(trainer *t, bool exhausted)
{
    const dry_run *d = &t->expected;
    const int64_t  bound = d->limit ? d->limit : trainer_peak_bytes(t);
    /* What memory held at the failure is known as long as its error stands. */
    if (exhausted) {
        log_failure(t);
        trainer_save_account(t);
    }
    tell_limit(t, exhausted, bound);
    tell_need(t);
    tell_batch(t, bound);
    tell_recompute(t, bound);
    tell_spill(t, bound);
    return EXIT_MEMORY;
}
