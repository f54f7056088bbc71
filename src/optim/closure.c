/* Steps with a function of the program that computes the loss. */
#include <haul/autograd.h>
#include <haul/dtype.h>
#include <haul/ops.h>
#include <haul/scope.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "optim/optimizer.h"

static haul_status check_loss(const haul_tensor *loss, bool had_error, const char *operation)
{
    if (haul__failed(loss) || haul__is_none(loss))
        return haul_error_status() ? haul_error_status()
                                   : haul__fail(HAUL_INVALID_ARGUMENT, operation, "closure",
                                                "the closure returned no loss; return the tensor of one element from "
                                                "which haul_backward started");
    if (!had_error && haul_error_status())
        return haul_error_status();
    if (haul__check_tensor(operation, "closure", loss))
        return haul_error_status();
    char have[160];
    if (loss->count != 1 || !haul_dtype_is_float(loss->dtype))
        return haul__fail(HAUL_SHAPE, operation, "closure",
                          "the closure returned %s; the loss is one element of a floating dtype",
                          haul__tensor_text(loss, have, sizeof have));
    return HAUL_OK;
}

haul_tensor *haul__call_closure(haul_optimizer_closure *closure, void *context, const char *operation)
{
    const bool  had_error = haul_error_status() != HAUL_OK;
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul__failed_tensor();
    haul_set_grad_enabled(true); /* the scope restores the setting */
    haul__guest  before = haul__guest_begin();
    haul_tensor *loss = closure(context);
    haul_status  status = haul__guest_end(&before, HAUL_OK, operation);
    if (!status)
        status = check_loss(loss, had_error, operation);
    haul_tensor *result = status ? NULL : haul_reshape(haul_detach(loss), HAUL_SCALAR_SHAPE);
    if (haul__failed(result)) {
        haul_scope_pop(scope);
        return haul__failed_tensor();
    }
    HAUL__ASSERT(result->count == 1 && !result->node);
    return haul_scope_return(scope, result);
}

haul_tensor *haul_optimizer_step_closure(haul_optimizer *optimizer, haul_optimizer_closure *closure, void *context)
{
    static const char operation[] = "haul_optimizer_step_closure";
    if (haul__check_optimizer(optimizer, operation))
        return haul__failed_tensor();
    if (!closure) {
        haul__fail_no_function(operation, "closure");
        return haul__failed_tensor();
    }
    if (optimizer->kind->joint)
        return optimizer->kind->joint->step(optimizer, closure, context);
    haul_tensor *loss = haul__call_closure(closure, context, operation);
    return haul__failed(loss) || haul_optimizer_step(optimizer) ? haul__failed_tensor() : loss;
}
