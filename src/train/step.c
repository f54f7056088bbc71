/* A step of an optimizer, whose gradients may add up over several mini-batches. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/train.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "optim/optimizer.h"

#define BEGIN "haul_train_begin"
#define STEP  "haul_train_step"

static const haul_step_part whole = {.first = true, .last = true, .weight = 1};

/* The part that is meant. NULL after an error. */
static const haul_step_part *part_of(const haul_step_part *given, const char *operation)
{
    if (!given)
        return &whole;
    if (given->weight > 0 && given->weight <= 1)
        return given;
    haul__fail(HAUL_INVALID_ARGUMENT, operation, "part",
               "part.weight is %g; above 0 and at most 1 is expected, as haul_accumulation_part gives it",
               given->weight);
    return NULL;
}

haul_status haul_train_begin(haul_optimizer *optimizer, const haul_step_part *part)
{
    if (haul__check_optimizer(optimizer, BEGIN))
        return haul_error_status();
    part = part_of(part, BEGIN);
    if (!part)
        return haul_error_status();
    return part->first ? haul_optimizer_zero_grad(optimizer) : HAUL_OK;
}

/* Clipping needs the gradients themselves, not their multiples by the scale. */
static haul_status clip(haul_optimizer *optimizer, const haul_train_step_options *o)
{
    haul_status status = o->scaler ? haul_grad_scaler_unscale(o->scaler, optimizer) : HAUL_OK;
    if (!status)
        status = haul__status_of(haul_clip_grad_norm(NULL, o->clip_norm, .optimizer = optimizer));
    return status;
}

static haul_status update(haul_optimizer *optimizer, const haul_train_step_options *o)
{
    if (o->clip_norm > 0 && clip(optimizer, o))
        return haul_error_status();
    if (!o->scaler)
        return haul_optimizer_step(optimizer);
    haul_status status = haul_grad_scaler_step(o->scaler, optimizer);
    return status ? status : haul_grad_scaler_update(o->scaler);
}

static haul_status learn(haul_optimizer *optimizer, const haul_train_step_options *o, const haul_step_part *part)
{
    haul_tensor *loss = part->weight != 1 ? haul_mul_scalar(o->loss, part->weight) : o->loss;
    if (o->scaler)
        loss = haul_grad_scaler_scale(o->scaler, loss);
    haul_status status = haul_backward(loss, .once = true);
    return status || !part->last ? status : update(optimizer, o);
}

static haul_status check(haul_optimizer *optimizer, const haul_train_step_options *o)
{
    if (haul__check_optimizer(optimizer, STEP))
        return haul_error_status();
    if (!o)
        return haul__fail_null(STEP, "options");
    if (haul__check_tensor(STEP, "loss", o->loss))
        return haul_error_status();
    if (!(o->clip_norm >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, STEP, "clip_norm", "clip_norm is %g; 0 or more is expected",
                          o->clip_norm);
    return HAUL_OK;
}

haul_status haul_train_step_with(haul_optimizer *optimizer, const haul_train_step_options *options)
{
    if (check(optimizer, options))
        return haul_error_status();
    const haul_step_part *part = part_of(options->part, STEP);
    haul_scope           *scope = part ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return haul_error_status();
    HAUL__ASSERT(part->weight > 0 && part->weight <= 1);
    haul_status status = learn(optimizer, options, part);
    haul_scope_pop(scope);
    return status;
}
