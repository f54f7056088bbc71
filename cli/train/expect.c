/* What a training will take, found before it begins: --batch auto, and whether it fits in --memory-limit. */
#include <stdio.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/progress.h"
#include "cli/train/planner.h"
#include "cli/train/trainer.h"

/* ---- --batch auto ---- */

static void say_timing(void *context, int64_t batch)
{
    char text[64];
    snprintf(text, sizeof text, "Timing batch %s", text_count(batch));
    progress_say(context, text);
}

static bool is_wanted(void *context)
{
    (void)context;
    return !interrupted();
}

/* Waits while the batches are timed are not those of the training. */
static void time_batches(trainer *t)
{
    progress_bar              bar;
    const haul__batch_watch   watch = {.begins = say_timing, .go_on = is_wanted, .context = &bar};
    const haul__batch_request request = planner_batches(t->planner, t->choice.room_bytes);
    progress_init(&bar, !t->options->quiet && !t->options->json);
    haul_sync_report(false);
    if (t->plans.limit.bytes)
        haul_memory_set_limit(t->device, t->plans.limit.bytes);
    haul__batch_time(&request, &watch, &t->choice);
    progress_clear();
    haul_memory_set_limit(t->device, 0);
    haul_sync_report(t->options->sync_report);
    haul_error_clear();
}

static void choose_fastest(trainer *t)
{
    time_batches(t);
    if (t->choice.count)
        t->options->batch = haul__batch_fastest(&t->choice);
    trainer_count_anew(t);
}

/* --batch auto. -1, or an exit code. */
static int choose_batch(trainer *t)
{
    const int64_t examples = haul_dataset_count(t->data.train), limit = haul__training_limit_bytes(&t->plans.limit, 0);
    haul__batch_choice *c = &t->choice;
    haul_memory_stats   memory = {0};
    haul__batch_need    need;
    if (t->options->batch)
        return -1;
    if (haul_memory_stats_get(t->device, &memory))
        return complain_error();
    t->expected.start = memory.allocated;
    c->room_bytes = limit ? limit : haul__available_to_training(t->device, t->expected.start);
    if (!c->room_bytes)
        return complain("how much memory of %s is free is not known; give --batch auto a --memory-limit",
                        haul_device_name(t->device));
    const int64_t             most = examples < (int64_t)MOST_BATCH ? examples : (int64_t)MOST_BATCH;
    const haul__batch_request request = planner_batches(t->planner, c->room_bytes);
    c->largest = haul__batch_largest(&request, most + 1, &c->sizes, &need);
    t->options->batch = c->largest ? c->largest : 1; /* which is then found not to fit */
    if (c->largest && !t->options->estimate)
        choose_fastest(t);
    return -1;
}

/* ---- what the training takes ---- */

/* What a stage takes is not known before it trains. */
bool trainer_is_within_limit(const trainer *t)
{
    return t->options->stages || !t->expected.limit || t->expected.peak <= t->expected.limit;
}

/* With --spill on, where it needs more than the limit. */
static haul_status expect_spilling(trainer *t)
{
    haul__fit_result *d = &t->expected, spilling;
    if (!t->options->spill || trainer_is_within_limit(t))
        return HAUL_OK;
    haul_status status = planner_fit_spilling(t->planner, d->limit, &spilling);
    if (status)
        return status;
    d->spill = spilling.spill;
    haul__fit_free(&spilling);
    return HAUL_OK;
}

/* From here on, so that what --batch auto tries spills, too. */
static haul_status begin_spilling(const trainer *t)
{
    const train_options *o = t->options;
    if (!o->spill)
        return HAUL_OK;
    if (haul_memory_set_spill(t->device, true))
        return haul_error_status();
    return haul_memory_set_spill_tiers(
        t->device, .host_limit = o->spill_host && !t->plans.spill_host ? HAUL_ZERO : t->plans.spill_host,
        .folder = o->spill_folder, .folder_limit = t->plans.spill_file);
}

int trainer_expect(trainer *t)
{
    if (!planner_open(t))
        return EXIT_FAILED;
    if (begin_spilling(t))
        return complain_error();
    const int code = choose_batch(t);
    if (code >= 0)
        return code;
    if (planner_fit(t->planner, &t->plans.limit, &t->expected) || expect_spilling(t))
        return complain_error();
    t->follows = t->expected.follows || (t->options->spill && !t->options->eager);
    return -1;
}

/* Libraries for NVIDIA GPUs can do without the workspace that a dry run counts, so there only the training shows it. */
static bool is_refusal_certain(const trainer *t)
{
    haul_device_properties p = {.backend = ""};
    return !haul_device_describe(t->device, &p) && strcmp(p.backend, "cuda") != 0;
}

bool trainer_fits(const trainer *t)
{
    return trainer_is_within_limit(t) || (t->options->spill && (t->expected.spill.fits || !is_refusal_certain(t)));
}
