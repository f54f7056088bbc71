/* Data parallel training: the order of the pieces of a step, and what each of them adds to it. */
#include <haul/autograd.h>
#include <haul/parallel.h>
#include <haul/random.h>
#include <haul/scope.h>
#include <inttypes.h>
#include <math.h>

#include "autograd/pass.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/splitmix.h"
#include "core/error.h"
#include "core/object.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "engine/follow.h"
#include "group/group.h"
#include "memory/dry_run/dry_run.h"
#include "optim/optimizer.h"
#include "parallel/piece.h"
#include "parallel/state.h"

#define BEGIN    "haul_parallel_begin"
#define BACKWARD "haul_parallel_backward"
#define LOSS     "haul_parallel_loss"
#define STEP     "haul_parallel_step"
#define GATHER   "haul_parallel_gather"
#define CALL     "haul_parallel_call"

/* ---- a piece ---- */

static uint64_t seed_of(const haul_parallel *p, int64_t step, int piece)
{
    return haul__splitmix(haul__splitmix(haul__splitmix(p->seed) ^ (uint64_t)step) ^ (uint64_t)piece);
}

static haul_status check_turn(const haul_parallel *p, int64_t step)
{
    HAUL__ASSERT(0 <= p->done && p->done <= p->count);
    if (p->dry != haul__is_dry())
        return haul__fail(HAUL_STATE, BEGIN, "parallel",
                          p->dry
                              ? "it was made in a dry run (haul_estimate) and holds no values; make another one outside"
                              : "it was made outside this dry run (haul_estimate), which must not change it; make "
                                "one in the estimated function");
    if (step < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, BEGIN, "step", "step is %" PRId64 "; 0 or more is expected", step);
    if (p->begun)
        return haul__fail(HAUL_STATE, BEGIN, "parallel",
                          "piece %d of step %" PRId64 " was begun and not finished; call haul_parallel_backward first, "
                          "with HAUL_NONE for a piece without examples",
                          p->first + p->done, p->step);
    if (p->done && !p->ready && step != p->step)
        return haul__fail(HAUL_STATE, BEGIN, "step",
                          "step %" PRId64 " was begun, but only %d of the %d pieces of step %" PRId64
                          " are finished; finish them, those without examples with HAUL_NONE as the loss",
                          step, p->done, p->count, p->step);
    if (p->ready && step == p->step)
        return haul__fail(HAUL_STATE, BEGIN, "step",
                          "all %d pieces of step %" PRId64 " are finished; the next step has another number", p->count,
                          step);
    return HAUL_OK;
}

/* All ranks have the network of rank 0. */
static haul_status make_equal(haul_parallel *p, const char *operation)
{
    haul_status status = haul__flat_check(p->pipe ? &p->pipe->all : &p->flat, p->module, operation);
    if (!status && !p->equal && (p->tree.ranks > 1 || p->pipe))
        status = haul__flat_share(p->module, p->group, operation);
    p->equal = p->equal || !status;
    return status;
}

/* The first piece of a step finds what the step before has left. */
static haul_status begin_step(haul_parallel *p, int64_t step)
{
    haul_status status = make_equal(p, BEGIN);
    if (!status)
        status = haul__shards_begin(&p->shards);
    if (!status && p->pipe)
        status = haul__pipe_begin_step(p->pipe, step);
    if (!status)
        status = haul__flat_keep_buffers(&p->flat);
    if (status)
        return status;
    HAUL__ASSERT(!p->begun && (p->ready || p->done == 0)); /* the step before is over */
    haul__shards_ready(&p->shards, false);
    haul__buckets_clear(&p->buckets);
    haul__object_release(p->loss);
    p->loss = NULL;
    p->step = step;
    p->done = 0;
    p->ready = false;
    return HAUL_OK;
}

static haul_status begin(haul_parallel *p, int64_t step)
{
    haul_scope *scope = haul__flat_scope();
    if (!scope)
        return haul_error_status();
    haul_status status = p->done && !p->ready ? HAUL_OK : begin_step(p, step);
    if (!status)
        status = haul__flat_remove_gradients(&p->flat);
    haul_scope_pop(scope);
    return status;
}

haul_status haul__parallel_divide(haul_parallel *parallel, const char *operation)
{
    haul_scope *scope = parallel->pipe ? haul__flat_scope() : NULL;
    if (!scope)
        return parallel->pipe ? haul_error_status() : HAUL_OK;
    haul_status status = make_equal(parallel, operation);
    if (!status)
        status = haul__absent_begin(parallel->pipe->absent);
    haul_scope_pop(scope);
    return status;
}

/* To ranks that wait for this one, in a collective or for an activation. */
static void pass_error(const haul_parallel *p, const char *operation)
{
    if (p->pipe)
        haul__pipe_fail(p->pipe);
    haul__group_pass_error(p->group, operation);
}

haul_status haul_parallel_begin(haul_parallel *parallel, int64_t step)
{
    if (haul__parallel_check(parallel, BEGIN))
        return haul_error_status();
    haul_status status = check_turn(parallel, step);
    if (!status)
        status = begin(parallel, step);
    if (!status)
        status = haul_generator_state_set(
            parallel->generator,
            (haul_random_state){.seed = seed_of(parallel, step, parallel->first + parallel->done)});
    if (!status)
        status = haul_set_generator(parallel->generator);
    if (status) {
        pass_error(parallel, BEGIN);
        return status;
    }
    HAUL__ASSERT(parallel->done < parallel->count);
    if (parallel->pipe)
        haul__pipe_begin(parallel->pipe, parallel->done);
    parallel->begun = true;
    return HAUL_OK;
}

/* ---- the end of a piece ---- */

static haul_status check_loss(haul_tensor *loss, double weight)
{
    char have[80];
    if (haul__check_optional(BACKWARD, "sum_of_losses", loss))
        return haul_error_status();
    if (!(weight >= 0 && isfinite(weight)))
        return haul__fail(HAUL_INVALID_ARGUMENT, BACKWARD, "weight",
                          "weight is %g; a finite number that is not negative is expected", weight);
    if (!haul__is_none(loss) && loss->count != 1)
        return haul__fail(HAUL_SHAPE, BACKWARD, "sum_of_losses",
                          "the sum of losses has shape %s; one element is expected, as haul_sum gives it",
                          haul__shape_text(&loss->shape, have, sizeof have));
    if (haul__is_none(loss) && weight != 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, BACKWARD, "weight",
                          "weight is %g, but a piece without a loss has weight 0", weight);
    return HAUL_OK;
}

static haul_status differentiate(haul_parallel *p, haul_tensor *loss)
{
    haul_scope *scope = haul__is_none(loss) ? NULL : haul__scope_push(NULL);
    if (!scope)
        return haul__is_none(loss) ? HAUL_OK : haul_error_status();
    haul_tensor *scaled = p->scaler ? haul_grad_scaler_scale(p->scaler, loss) : loss;
    haul_status  status = haul__status_of(scaled);
    /* A recording repeats the operations of a pass, but not the calls that the pass makes for each leaf. */
    if (!status)
        status = haul__recorder_now() ? haul_backward(scaled, .once = true)
                                      : haul__backward_once(scaled, HAUL_NONE, haul__buckets_take, &p->buckets);
    haul_scope_pop(scope);
    return status;
}

/* Sets the gradients and buffers of the module, and the loss, from the sums over all pieces. */
static haul_status apply_sums(haul_parallel *p, haul_tensor *const *sums)
{
    haul_status  status = haul__flat_scatter(&p->flat, sums, p->pieces);
    haul_tensor *loss = status ? NULL : haul__flat_loss(&p->flat, sums[p->flat.bucket_count]);
    if (loss && p->pipe && !haul__failed(loss))
        loss = haul__pipe_share_loss(p->pipe, loss);
    if (!status && haul__failed(loss))
        status = haul_error_status();
    if (status)
        return status;
    haul__object_keep(loss);
    p->loss = loss;
    return HAUL_OK;
}

/* The end of the step. */
static haul_status reduce(haul_parallel *p)
{
    HAUL__ASSERT(p->done == p->count && !p->ready && !p->loss);
    const size_t  count = (size_t)p->flat.bucket_count + 1;
    haul_tensor **sums = haul__calloc(count, sizeof *sums);
    if (!sums)
        return haul__fail_memory(BACKWARD, count * sizeof *sums);
    haul_status status = haul__buckets_wait(&p->buckets, sums);
    if (!status)
        status = apply_sums(p, sums);
    haul__free(sums);
    if (status)
        return status;
    haul__buckets_clear(&p->buckets);
    status = haul__buckets_learn(&p->buckets);
    p->ready = !status;
    haul__shards_ready(&p->shards, p->ready);
    return status;
}

static bool is_last(const haul_parallel *p)
{
    return p->done + 1 == p->count;
}

/* Gathers the numbers of the piece. */
static haul_status gather(haul_parallel *p, haul_tensor *loss, double weight, bool defers)
{
    HAUL__ASSERT(p->done < p->count && p->first + p->done < p->pieces);
    haul__buckets_begin(&p->buckets, p->step, p->first + p->done, is_last(p), defers);
    haul_status status = differentiate(p, loss);
    haul_scope *scope = status ? NULL : haul__flat_scope();
    if (!scope)
        return haul_error_status();
    status = haul__buckets_finish(&p->buckets, loss, weight);
    haul_scope_pop(scope);
    return status;
}

/* The numbers of the piece are in the tree, and the module is as before the piece. */
static haul_status add_piece(haul_parallel *p)
{
    haul_scope *scope = haul__flat_scope();
    if (!scope)
        return haul_error_status();
    haul_status status = haul__buckets_add_deferred(&p->buckets);
    if (!status)
        status = haul__flat_restore_buffers(&p->flat);
    HAUL__ASSERT(p->done < p->count && !p->begun);
    p->done++;
    if (!status && p->done == p->count)
        status = reduce(p);
    haul_scope_pop(scope);
    return status;
}

/* The step begins anew, except with stages; the error is that of the failure. */
static void abandon(haul_parallel *p)
{
    haul__error_record record;
    if (p->tree.ranks > 1 || p->pipe)
        pass_error(p, BACKWARD);
    haul__error_save(&record);
    haul_scope *scope = haul__flat_scope();
    haul__flat_remove_gradients(&p->flat);
    haul__flat_restore_buffers(&p->flat);
    haul_scope_pop(scope);
    haul__error_restore(&record);
    haul__buckets_clear(&p->buckets);
    p->done = 0;
}

static haul_status end_piece(haul_parallel *p, haul_status status)
{
    p->begun = false;
    if (!status)
        status = add_piece(p);
    if (status)
        abandon(p);
    return status;
}

static haul_status check_begun(const haul_parallel *p)
{
    return p->begun ? HAUL_OK
                    : haul__fail(HAUL_STATE, BACKWARD, "parallel",
                                 "no piece was begun; call haul_parallel_begin before the forward pass of each piece");
}

/* ---- stages ---- */

haul_tensor *haul_parallel_call(haul_parallel *parallel, haul_tensor *x)
{
    if (haul__parallel_check(parallel, CALL))
        return haul__failed_tensor();
    if (!parallel->pipe)
        return haul_call(parallel->module, x);
    if (haul__refuse_followed(CALL, "talks to other ranks"))
        return haul__failed_tensor();
    return haul__pipe_call(parallel->pipe, x, parallel->begun, parallel->flat.device);
}

/* The forward pass of the piece is over: its backward pass, or that of an earlier one. */
static haul_status pass_back(haul_parallel *p, haul_tensor *loss, double weight)
{
    haul_status  status = haul__pipe_check(p->pipe, loss);
    haul_scope  *scope = status ? NULL : haul__scope_push(NULL);
    haul_tensor *scaled = loss;
    if (!scope)
        return haul_error_status();
    if (p->scaler && !haul__is_none(loss))
        scaled = haul_grad_scaler_scale(p->scaler, loss);
    status = haul__status_of(scaled);
    haul_scope *inner = status ? NULL : haul__flat_scope();
    if (!status && !inner)
        status = haul_error_status();
    if (inner) {
        status = haul__pipe_add(p->pipe, &p->flat, loss, scaled, weight);
        haul_scope_pop(inner);
    }
    haul_scope_pop(scope);
    return status ? status : haul__pipe_backward(p->pipe, &p->buckets, is_last(p));
}

/* The sum of a step with stages, and where it goes on. */
static haul_status end_stage(haul_parallel *p, haul_status status)
{
    p->begun = false;
    haul_scope *scope = status ? NULL : haul__flat_scope();
    if (!status && !scope)
        status = haul_error_status();
    p->done += !status;
    HAUL__ASSERT(p->done <= p->count);
    if (scope && p->done == p->count)
        status = reduce(p);
    if (scope)
        haul_scope_pop(scope);
    if (status)
        abandon(p);
    return status;
}

/* The last stage alone has a loss. */
static haul_status run_stage(haul_parallel *p, haul_tensor *loss, double weight)
{
    const double      own = haul__is_none(loss) && p->pipe->called ? 0 : weight;
    const haul_status status = check_loss(loss, own);
    return status ? status : pass_back(p, loss, weight);
}

haul_status haul_parallel_backward(haul_parallel *parallel, haul_tensor *sum_of_losses, double weight)
{
    if (haul__parallel_check(parallel, BACKWARD))
        return haul_error_status();
    if (parallel->pipe)
        return check_begun(parallel) ? haul_error_status()
                                     : end_stage(parallel, run_stage(parallel, sum_of_losses, weight));
    if (check_loss(sum_of_losses, weight)) {
        /* The forward pass may have failed on this rank only. */
        haul__group_pass_error(parallel->group, BACKWARD);
        return haul_error_status();
    }
    const haul_status status = check_begun(parallel);
    return status ? status : end_piece(parallel, gather(parallel, sum_of_losses, weight, false));
}

/* ---- a piece in two parts ---- */

haul_status haul__parallel_differentiate(haul_parallel *parallel, haul_tensor *sum_of_losses, double weight)
{
    if (haul__parallel_check(parallel, BACKWARD))
        return haul_error_status();
    if (parallel->pipe)
        return check_begun(parallel) ? haul_error_status() : run_stage(parallel, sum_of_losses, weight);
    if (check_loss(sum_of_losses, weight) || check_begun(parallel))
        return haul_error_status();
    return gather(parallel, sum_of_losses, weight, haul__recorder_now() || haul__is_followed());
}

haul_status haul__parallel_finish(haul_parallel *parallel, haul_status status)
{
    if (haul__parallel_check(parallel, BACKWARD) || (!status && check_begun(parallel)))
        return haul_error_status();
    return parallel->pipe ? end_stage(parallel, status) : end_piece(parallel, status);
}

void haul__parallel_fail(haul_parallel *parallel, const char *operation)
{
    pass_error(parallel, operation);
}

const char *haul__parallel_unfollowed(const haul_parallel *parallel)
{
    if (parallel->pipe)
        return "a stage talks to other ranks within a piece";
    return parallel->flat.bucket_count > 1 ? "the gradients take more than 4 MiB, so copies of them, and an exchange "
                                             "behind the backward pass, would cost more than following saves"
                                           : NULL;
}

haul_tensor *haul_parallel_loss(haul_parallel *parallel)
{
    if (haul__parallel_check(parallel, LOSS))
        return haul__failed_tensor();
    if (!parallel->ready) {
        haul__fail(HAUL_STATE, LOSS, "parallel", "the step has pieces left; ask when haul_parallel_ready is true");
        return haul__failed_tensor();
    }
    return haul_detach(parallel->loss);
}

/* ---- steps of an optimizer ---- */

static haul_status make_step(haul_parallel *p, haul_optimizer *optimizer)
{
    if (haul__check_optimizer(optimizer, STEP))
        return haul_error_status();
    if (!p->ready)
        return haul__fail(HAUL_STATE, STEP, "parallel",
                          "the step has pieces left; make the optimizer's step when haul_parallel_ready is true");
    if (p->shards.owners)
        return haul__shards_step(&p->shards, optimizer, p->scaler);
    return p->scaler ? haul_grad_scaler_step(p->scaler, optimizer) : haul_optimizer_step(optimizer);
}

haul_status haul_parallel_step(haul_parallel *parallel, haul_optimizer *optimizer)
{
    if (haul__parallel_check(parallel, STEP))
        return haul_error_status();
    if (parallel->shards.owners && haul__refuse_followed(STEP, "talks to other ranks"))
        return haul_error_status();
    const haul_status status = make_step(parallel, optimizer);
    if (status)
        pass_error(parallel, STEP);
    return status;
}

haul_status haul_parallel_gather(haul_parallel *parallel, haul_optimizer *optimizer)
{
    if (haul__parallel_check(parallel, GATHER) || (optimizer && haul__check_optimizer(optimizer, GATHER)))
        return haul_error_status();
    haul_status status = parallel->shards.owners ? haul__shards_gather(&parallel->shards, optimizer) : HAUL_OK;
    if (status || !parallel->pipe || haul__is_dry())
        return status;
    status = haul__absent_gather(parallel->pipe->absent, GATHER);
    if (status)
        pass_error(parallel, GATHER);
    return status;
}
