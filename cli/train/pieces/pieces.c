#include "cli/train/pieces/pieces.h"

#include <inttypes.h>

#include "cli/model/network.h"
#include "cli/shared/cli.h"
#include "cli/train/pieces/ranks.h"
#include "cli/train/pieces/stages.h"
#include "cli/train/place/place.h"
#include "group/tree.h"
#include "parallel/piece.h"
#include "record/follow/recording.h"

/* ---- options ---- */

bool pieces_suit(const train_options *o)
{
    const struct {
        bool        given;
        const char *name, *why;
    } others[] = {{!o->batch, "--batch auto", "give a number of examples"},
                  {o->accumulate > 1, "--accumulate", "a larger --batch with more pieces does the same"},
                  {o->pipeline > 1, "--pipeline", "leave one of them out"},
                  {o->plan != NULL, "--plan", "leave one of them out"},
                  {o->devices != NULL, "--devices", "leave one of them out"}};
    if (!stages_suit(o))
        return false;
    if (!o->pieces && o->shard && !o->resume) {
        complain("--shard %" PRId64
                 " divides the optimizer's state among ranks, and one process has no pieces; start several "
                 "ranks, mpirun -n 2 haul train ... --shard %" PRId64 ", or give --pieces",
                 o->shard, o->shard);
        return false;
    }
    if (!o->pieces)
        return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given) {
            complain("--pieces divides each mini-batch, and does not work with %s; %s", others[i].name, others[i].why);
            return false;
        }
    return train_options_pieces_divide(o->pieces, o->batch);
}

/* ---- objects ---- */

haul_loader *pieces_loader(const trainer *t)
{
    const train_options *o = t->options;
    const int            pieces = o->pieces ? (int)o->pieces : 1;
    const bool           divides = t->ranks.group && !o->stages;
    const haul__tree     tree = {.pieces = pieces, .ranks = divides ? t->ranks.count : 1};
    const int            rank = divides ? haul_group_rank(t->ranks.group) : 0, first = haul__tree_first(&tree, rank);
    return haul_loader_new(t->data.train, .batch = o->batch / pieces, .shuffle = o->shuffle, .seed = (uint64_t)o->seed,
                           .workers = (int)o->workers, .device = place_of_data(&t->places, t->device), .pieces = pieces,
                           .first_piece = first, .piece_count = haul__tree_first(&tree, rank + 1) - first);
}

haul_status pieces_begin(trainer *t)
{
    t->parallel = NULL;
    t->trains = false;
    t->counts.tried_steps = 0;
    if (!t->options->pieces)
        return HAUL_OK;
    const int stages = t->options->estimate ? 0 : (int)t->options->stages; /* an estimate is of the whole network */
    t->parallel =
        haul_parallel_new(t->net, .group = t->ranks.group ? t->ranks.group : haul_group_get("none"),
                          .pieces = (int)t->options->pieces, .seed = (uint64_t)t->options->seed, .scaler = t->scaler,
                          .shard = (int)t->options->shard, .stages = stages, .cuts = t->cuts);
    return t->parallel ? HAUL_OK : haul_error_status();
}

int64_t pieces_each(const trainer *t)
{
    return t->parallel ? haul_parallel_count(t->parallel) : 1;
}

int64_t pieces_batches(const trainer *t)
{
    return haul_loader_batches(t->loader) / pieces_each(t);
}

haul_status pieces_start(const trainer *t)
{
    return haul_loader_start_at(t->loader, t->position.epoch, t->position.batch * pieces_each(t));
}

/* ---- a step ---- */

static haul_tensor *failed(void)
{
    return haul_tensor_fail(haul_error_status(), NULL, NULL, "%s", haul_error_message());
}

/* The mean loss and the right answers of a piece with examples. HAUL_NONE on a rank that passes it on. */
static haul_tensor *mean_loss(trainer *t, const haul_batch *piece)
{
    haul_tensor        *y = piece->y;
    haul_autocast_state before = haul_autocast_begin("all", t->lower);
    haul_tensor        *logits = haul_parallel_call(t->parallel, piece->x);
    if (logits == HAUL_NONE)
        return haul_autocast_end(before) ? failed() : HAUL_NONE;
    network_bring(t->metrics, &logits, &y);
    haul_tensor      *loss = network_loss(&t->data.spec, logits, y);
    const haul_status status = haul_autocast_end(before);
    if (status || haul_add_into(t->epoch.hits, t->epoch.hits, network_hits(&t->data.spec, logits, y)))
        return failed();
    return loss;
}

haul_status pieces_learn(void *context)
{
    trainer          *t = context;
    const haul_batch *piece = t->batch;
    haul_tensor      *sum = piece->size ? mean_loss(t, piece) : HAUL_NONE;
    if (sum != HAUL_NONE)
        sum = haul_mul_scalar(sum, (double)piece->size);
    return haul__parallel_differentiate(t->parallel, sum, (double)piece->size);
}

static haul_status follow(haul_recording *recording, const haul_parallel *parallel)
{
    const char *why = haul__parallel_unfollowed(parallel);
    return why ? haul__recording_run_as_it_is(recording, why) : haul_recording_run(recording);
}

static haul_status learn_begun(trainer *t, haul_recording *recording)
{
    const haul_batch *piece = t->batch;
    if (piece->size && !ranks_pass_on(t)) {
        t->epoch.answers += network_answers(piece->y);
        t->epoch.examples += piece->size;
    }
    return haul__parallel_finish(t->parallel, recording ? follow(recording, t->parallel) : pieces_learn(t));
}

/* recording: NULL: the piece runs as it is. */
static haul_status learn_piece(trainer *t, const haul_batch *piece, int64_t step, haul_recording *recording)
{
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    t->batch = piece;
    haul_status status = haul_parallel_begin(t->parallel, step);
    if (!status)
        status = learn_begun(t, recording);
    haul_scope_pop(scope);
    return status;
}

static haul_status update(trainer *t)
{
    haul_status status = haul_parallel_step(t->parallel, t->optimizer);
    if (!status && (t->options->shard || t->options->stages) && t->trains && !t->ranks.state_bytes)
        status = ranks_measure_state(t);
    if (!status && t->scaler)
        status = haul_grad_scaler_update(t->scaler);
    if (!status)
        status = haul_optimizer_zero_grad(t->optimizer);
    return status;
}

/* The loss of the whole step, for the next line. */
static haul_status add_loss(trainer *t)
{
    haul_tensor *loss = haul_to(haul_parallel_loss(t->parallel), haul_tensor_device(t->window.loss));
    haul_status  status = haul_add_into(t->window.loss, t->window.loss, haul_cast(loss, HAUL_F32));
    return status ? status : haul_add_into(t->window.finite, t->window.finite, haul_isfinite(t->window.loss));
}

/* The number of the step in the training. */
static int64_t step_number(const trainer *t)
{
    return (t->position.epoch - 1) * pieces_batches(t) + t->position.batch + t->counts.tried_steps;
}

haul_status pieces_step(trainer *t, const haul_batch *first, haul_recording *recording)
{
    const haul_batch *piece = first;
    const int64_t     step = step_number(t);
    haul_status       status = learn_piece(t, piece, step, recording);
    while (!status && !haul_parallel_ready(t->parallel)) {
        piece = t->trains ? haul_loader_next(t->loader) : first;
        status = piece ? learn_piece(t, piece, step, recording) : haul_error_status();
    }
    if (!t->trains)
        t->counts.tried_steps++;
    haul_scope *scope = status ? NULL : haul_scope_push();
    if (!scope)
        return haul_error_status();
    status = add_loss(t);
    if (!status)
        status = update(t);
    haul_scope_pop(scope);
    return status;
}
