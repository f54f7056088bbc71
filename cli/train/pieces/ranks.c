#include "cli/train/pieces/ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/local_ranks.h"
#include "cli/shared/terminal.h"
#include "cli/train/pieces/stages.h"
#include "cli/train/pieces/threads.h"
#include "group/group.h"
#include "group/launcher.h"
#include "group/thread.h"
#include "memory/spill/elsewhere.h"
#include "parallel/flat.h"
#include "parallel/piece.h"

#define NAME "haul train"

/* ---- opening ---- */

/* Whether GPUs can be connected depends on the current device. A name that is wrong is refused later. */
static void choose_device_early(const train_options *o)
{
    if ((haul__launcher_now().size > 1 || !strcmp(o->group, "nccl")) && o->device && strcmp(o->device, "auto") != 0 &&
        haul_set_device(haul_device_get(o->device)))
        haul_error_clear();
}

/* Sums from GPU to GPU do not go with divided parameters (haul_parallel_new). */
static const char *group_name(const train_options *o)
{
    const bool divided = o->shard == 3 && haul__launcher_now().size > 1;
    return divided && !strcmp(o->group, "auto") ? "mpi" : o->group;
}

enum { TURN_SECONDS = 100000000 };

/* A turn ends with a barrier, and takes as long as its rank needs to open the data. */
static haul_status await_turn(trainer *t)
{
    haul_status status = HAUL_OK;
    haul__group_set_limit(TURN_SECONDS);
    for (int before = haul_group_rank(t->ranks.group); before > 0 && !status; before--)
        status = haul_group_barrier(t->ranks.group);
    t->ranks.has_turn = !status;
    return status;
}

haul_status ranks_end_turn(trainer *t)
{
    haul_status status = HAUL_OK;
    if (!t->ranks.has_turn)
        return HAUL_OK;
    t->ranks.has_turn = false;
    for (int r = haul_group_rank(t->ranks.group); r < t->ranks.count && !status; r++)
        status = haul_group_barrier(t->ranks.group);
    haul__group_set_limit(0); /* that of the environment */
    if (!t->ranks.silent)
        complain_as_rank(0, haul_device_name(haul_current_device()));
    return status;
}

int ranks_open(trainer *t)
{
    train_options *o = t->options;
    t->ranks.count = 1;
    if (o->estimate)
        return -1;
    choose_device_early(o);
    t->ranks.group = haul_group_get(group_name(o));
    if (!t->ranks.group)
        return complain_error();
    t->ranks.count = haul_group_size(t->ranks.group);
    t->ranks.silent = haul_group_rank(t->ranks.group) > 0;
    t->ranks.threads = local_ranks_named(o->group);
    t->ranks.guest = t->ranks.threads && t->ranks.silent;
    if (t->ranks.count > 1 && !t->ranks.threads)
        terminal_forwards();
    if (t->ranks.silent) {
        o->quiet = true;
        o->json = o->tensorboard = o->sync_report = false;
        o->profile = 0;
    }
    return t->ranks.threads && await_turn(t) ? complain_error() : -1;
}

bool ranks_suit(trainer *t)
{
    train_options *o = t->options;
    if (t->ranks.threads && !threads_suit_devices(o))
        return false;
    if (t->ranks.count <= 1)
        return stages_suit_ranks(o, t->ranks.count, t->ranks.silent);
    if (!o->pieces && o->resume && t->ranks.silent)
        return false; /* rank 0 says why */
    if (!o->pieces && o->resume) {
        complain("the run was started without --pieces and cannot go on with %d ranks; continue it with one process",
                 t->ranks.count);
        return false;
    }
    if (!o->pieces)
        o->pieces = 8;
    if (!stages_suit_ranks(o, t->ranks.count, t->ranks.silent))
        return false;
    if (o->stages || t->ranks.count <= o->pieces || t->ranks.silent)
        return o->stages || t->ranks.count <= o->pieces;
    complain("there are %d ranks, but only --pieces %" PRId64
             ": each rank needs a piece; start fewer ranks, or give more "
             "pieces",
             t->ranks.count, o->pieces);
    return false;
}

/* Each rank may have these as it likes. --log-every says when a loss is looked at, and so when a training ends that has
 * diverged: it is not one of them. */
static bool may_differ(const char *name)
{
    static const char *const names[] = {"device",     "place",        "plan",       "memory-limit", "spill",
                                        "spill-host", "spill-folder", "spill-file", "offload",      "recompute",
                                        "workers",    "threads",      "metrics",    "save-every"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

static haul_status compare_option(const trainer *t, const cJSON *value)
{
    const haul__group_call call = {.name = NAME};
    char                  *printed = cJSON_PrintUnformatted(value), text[400];
    if (!printed)
        return haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    snprintf(text, sizeof text, "--%s %.300s", value->string, printed);
    cJSON_free(printed);
    return haul__group_agree(t->ranks.group, &call, text);
}

static haul_status compare_options(const trainer *t)
{
    cJSON      *options = options_to_json(t->values), *value;
    haul_status status = options ? HAUL_OK : haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    cJSON_ArrayForEach(value, options) if (!status && !may_differ(value->string)) status = compare_option(t, value);
    cJSON_Delete(options);
    return status;
}

static int64_t count_of(const haul_dataset *data)
{
    return data ? haul_dataset_count(data) : 0;
}

haul_status ranks_compare(const trainer *t)
{
    const haul__group_call call = {.name = NAME};
    char                   text[400];
    if (t->ranks.count <= 1)
        return HAUL_OK;
    snprintf(text, sizeof text, "%" PRId64 " examples to train on, %" PRId64 " for validation and %" PRId64 " to test",
             count_of(t->data.train), count_of(t->data.validation), count_of(t->data.test));
    haul_status status = compare_options(t);
    return status ? status : haul__group_agree(t->ranks.group, &call, text);
}

/* ---- agreeing ---- */

static bool is_save_due(const trainer *t)
{
    return t->options->save_every > 0 && clock_seconds() - t->saved_at > t->options->save_every;
}

haul_status ranks_agree(trainer *t)
{
    enum { STOPS = 1, SAVES = 2, UNHEARD = 4 };
    const haul__group_call call = {.name = NAME};
    uint64_t bits = (interrupted() ? STOPS : 0) | (is_save_due(t) ? SAVES : 0) | (t->unheard ? UNHEARD : 0);
    if (t->ranks.count <= 1)
        return HAUL_OK;
    const haul_status status = haul__group_or(t->ranks.group, &call, &bits);
    t->ranks.agreed = (ranks_agreement){bits & STOPS, bits & SAVES, bits & UNHEARD};
    return status;
}

bool ranks_stopped(const trainer *t)
{
    return t->ranks.count > 1 ? t->ranks.agreed.stops : interrupted();
}

bool ranks_save_due(const trainer *t)
{
    return t->ranks.count > 1 ? t->ranks.agreed.saves : is_save_due(t);
}

/* ---- sums ---- */

/* A row for each number, with one element for each rank. */
haul_status ranks_sum(const trainer *t, double *numbers, int count)
{
    const haul__group_call call = {.name = NAME};
    const haul__tree       tree = {.pieces = t->ranks.count, .ranks = t->ranks.count};
    const size_t           ranks = (size_t)t->ranks.count;
    if (t->ranks.count <= 1)
        return HAUL_OK;
    double *rows = calloc((size_t)count * ranks + 1, sizeof *rows);
    if (!rows)
        return haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    for (int i = 0; i < count; i++)
        rows[(size_t)i * ranks + (size_t)haul_group_rank(t->ranks.group)] = numbers[i];
    const haul_status status = haul__group_sum_numbers(t->ranks.group, &call, &tree, rows, count, numbers);
    free(rows);
    return status;
}

haul_status ranks_all(const trainer *t, bool *holds)
{
    const haul__group_call call = {.name = NAME};
    uint64_t               bits = !*holds;
    if (t->ranks.count <= 1)
        return HAUL_OK;
    const haul_status status = haul__group_or(t->ranks.group, &call, &bits);
    *holds = !bits;
    return status;
}

/* ---- the optimizer's state ---- */

haul_status ranks_measure_state(trainer *t)
{
    const int          count = haul_optimizer_state(t->optimizer, NULL, 0);
    haul_named_tensor *all = count < 0 ? NULL : calloc((size_t)count + 1, sizeof *all);
    if (count < 0)
        return haul_error_status();
    if (!all)
        return haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    const int filled = haul_optimizer_state(t->optimizer, all, count);
    t->ranks.state_bytes = 0;
    for (int i = 0; i < filled; i++)
        t->ranks.state_bytes += (int64_t)haul_tensor_bytes(all[i].tensor);
    free(all);
    return filled < 0 ? haul_error_status() : HAUL_OK;
}

haul_status ranks_share_memory(const trainer *t, double *bytes)
{
    const int              rank = t->ranks.count > 1 ? haul_group_rank(t->ranks.group) : 0;
    const haul__group_call call = {.name = NAME};
    const haul__tree       tree = {.pieces = t->ranks.count, .ranks = t->ranks.count};
    bytes[rank] = (double)t->ranks.state_bytes;
    bytes[t->ranks.count + rank] = (double)trainer_peak_bytes(t);
    return t->ranks.count > 1 ? haul__group_share_numbers(t->ranks.group, &call, &tree, bytes, 2) : HAUL_OK;
}

haul_status ranks_gather_state(const trainer *t)
{
    return t->parallel ? haul_parallel_gather(t->parallel, t->optimizer) : HAUL_OK;
}

bool ranks_have(const haul_tensor *tensor)
{
    return !haul__is_given_up(tensor->storage);
}

int64_t ranks_bytes(const trainer *t)
{
    haul_group_properties group = {.sent_bytes = 0};
    return t->ranks.count > 1 && !haul_group_describe(t->ranks.group, &group) ? group.sent_bytes : 0;
}

exchange_time ranks_exchange_time(const trainer *t)
{
    haul__group_count count = {.exchange_ns = 0};
    if (t->ranks.count > 1)
        count = haul__group_exchange_time(t->ranks.group);
    return (exchange_time){.seconds = (double)count.exchange_ns / 1e9,
                           .hidden = count.exchange_ns ? (double)count.hidden_ns / (double)count.exchange_ns : NAN};
}

bool ranks_pass_on(const trainer *t)
{
    return t->parallel && t->options->stages && t->ranks.count > 1 && t->trains &&
           haul_group_rank(t->ranks.group) + 1 < t->ranks.count;
}

haul_status ranks_divide(const trainer *t)
{
    return t->options->stages && t->parallel ? haul__parallel_divide(t->parallel, NAME) : HAUL_OK;
}

haul_status ranks_compare_position(const trainer *t)
{
    const haul__group_call call = {.name = NAME};
    char                   text[80];
    if (!t->options->stages)
        return HAUL_OK;
    snprintf(text, sizeof text, "a checkpoint of epoch %" PRId64 ", mini-batch %" PRId64, t->position.epoch,
             t->position.batch);
    return haul__group_agree(t->ranks.group, &call, text);
}

haul_status ranks_gather_network(const trainer *t)
{
    return t->options->stages && t->parallel ? haul_parallel_gather(t->parallel, NULL) : HAUL_OK;
}

haul_status ranks_share_network(const trainer *t)
{
    if (t->ranks.count <= 1)
        return HAUL_OK;
    const haul_status status = haul__flat_share(t->net, t->ranks.group, NAME);
    return status ? status : haul_parallel_gather(t->parallel, NULL);
}

/* ---- evaluating ---- */

enum { HITS, ANSWERS, EXAMPLES, COUNTS };

typedef struct evaluation {
    const trainer *t;
    haul_tensor   *losses; /* of all batches, f32; 0 for those of other ranks */
    int            batches;
} evaluation;

/* A rank's interruption waits until all have come to the end. */
static bool go_on(int64_t batches, void *context)
{
    evaluation *e = context;
    trainer    *t = (trainer *)(uintptr_t)e->t;
    pace_pass_step(batches, t);
    return true;
}

/* Each loss is that of one rank, and the others add 0. The sum of all is made in the order of one rank. */
static haul_status join_numbers(evaluation *e, float *losses, double *numbers, network_totals *totals)
{
    float       sum = 0;
    haul_status status = haul_read(e->losses, losses, (size_t)e->batches * sizeof *losses);
    for (int i = 0; i < e->batches; i++)
        numbers[COUNTS + i] = losses[i];
    numbers[HITS] = (double)totals->hits;
    numbers[ANSWERS] = (double)totals->answers;
    numbers[EXAMPLES] = (double)totals->examples;
    if (!status)
        status = ranks_sum(e->t, numbers, COUNTS + e->batches);
    for (int i = 0; i < e->batches; i++)
        sum += (float)numbers[COUNTS + i];
    *totals = (network_totals){.loss = sum,
                               .hits = (int64_t)numbers[HITS],
                               .answers = (int64_t)numbers[ANSWERS],
                               .examples = (int64_t)numbers[EXAMPLES]};
    return status;
}

static haul_status join(network_totals *totals, void *context)
{
    evaluation *e = context;
    float      *losses = calloc((size_t)e->batches + 1, sizeof *losses);
    double     *numbers = calloc((size_t)e->batches + COUNTS, sizeof *numbers);
    haul_status status = losses && numbers ? join_numbers(e, losses, numbers, totals)
                                           : haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    free(losses);
    free(numbers);
    return status;
}

haul_status ranks_evaluate(trainer *t, haul_loader *loader, network_score *out)
{
    if (t->ranks.count <= 1)
        return network_evaluate(t->net, &t->data.spec, loader,
                                &(network_watch){.go_on = pace_pass_step, .context = t, .metrics = t->metrics}, out);
    const int  each = t->options->stages ? 1 : t->ranks.count;
    evaluation e = {.t = t, .batches = (int)haul_loader_batches(loader) * each};
    e.losses = haul_zeros(HAUL_F32, HAUL_SHAPE(e.batches));
    haul_status status = haul_tensor_check(e.losses);
    if (!status)
        status = network_evaluate(t->net, &t->data.spec, loader,
                                  &(network_watch){.go_on = go_on,
                                                   .context = &e,
                                                   .metrics = t->metrics,
                                                   .losses = e.losses,
                                                   .ranks = each,
                                                   .parallel = t->options->stages ? t->parallel : NULL,
                                                   .passes_on = ranks_pass_on(t),
                                                   .join = join},
                                  out);
    return status ? status : ranks_agree(t);
}

/* ---- the end ---- */

void ranks_close(trainer *t, int code)
{
    if (t->ranks.threads) {
        if (code == EXIT_OK) /* there was nothing to train */
            ranks_end_turn(t);
        return;
    }
    if (t->ranks.count <= 1 || (code != EXIT_FAILED && code != EXIT_USAGE))
        return;
    if (!haul_error_status())
        haul_error_set(HAUL_STATE, NAME, NULL, "rank %d has ended with an error, which it has printed",
                       haul_group_rank(t->ranks.group));
    if (t->trains && t->parallel)
        haul__parallel_fail(t->parallel, NAME);
    else
        haul__group_pass_error(t->ranks.group, NAME);
}
