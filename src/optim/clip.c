/* Clips gradients by their common norm (Pascanu, Mikolov, Bengio 2013) or by value, without a wait for the device. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/optim.h>
#include <haul/scope.h>
#include <haul/transfer.h>

#include "base/alloc.h"
#include "base/half.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "engine/placement/placement.h"
#include "nn/tensors.h"
#include "optim/optimizer.h"
#include "optim/parameters.h"

typedef struct gradients {
    haul_tensor **items; /* each once */
    haul_tensor *
        *numbers; /* one for each: its norm, later the factor on its device or, of half precision, the product */
    int  count;
} gradients;

/* ---- which gradients ---- */

static haul_named_tensor *list_of_optimizer(haul_optimizer *o, const char *operation, int *count)
{
    if (haul__check_object(o, &haul__optimizer_class, operation, "optimizer"))
        return NULL;
    haul_named_tensor *list = haul__calloc((size_t)o->count + 1, sizeof *list);
    if (list)
        *count = haul_optimizer_parameters(o, HAUL_ALL_GROUPS, list, o->count);
    else
        haul__fail_memory(operation, (size_t)o->count * sizeof *list);
    return list;
}

static haul_named_tensor *list_of(const haul_clip_options *o, const char *operation, int *count)
{
    if (!!o->module + !!o->parameters + !!o->optimizer > 1) {
        haul__fail(
            HAUL_INVALID_ARGUMENT, operation, "module",
            "one of the module, .parameters and .optimizer is expected; pass NULL for the module with the others");
        return NULL;
    }
    return o->optimizer ? list_of_optimizer(o->optimizer, operation, count)
                        : haul__parameter_list(o->module, o->parameters, o->count, operation, count);
}

static haul_status find_gradients(gradients *all, const haul_clip_options *o, const char *operation)
{
    int                n = 0;
    haul_named_tensor *list = list_of(o, operation, &n);
    if (!list)
        return haul_error_status();
    all->items = haul__calloc((size_t)n + 1, sizeof *all->items);
    all->numbers = haul__calloc((size_t)n + 1, sizeof *all->numbers);
    haul_status status = all->items && all->numbers ? HAUL_OK : haul__fail_memory(operation, (size_t)n * sizeof *list);
    for (int i = 0; i < n && !status; i++)
        if (list[i].tensor->grad)
            all->items[all->count++] = list[i].tensor->grad;
    haul__free(list);
    return status;
}

static void free_gradients(gradients *all)
{
    haul__free(all->items);
    haul__free(all->numbers);
}

static haul_status check(const haul_clip_options *o, const char *operation)
{
    if (!o)
        return haul__fail_null(operation, "options");
    if (!(o->limit >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "limit", "the limit is %g; it must be at least 0",
                          o->limit);
    return HAUL_OK;
}

/* ---- by the norm ---- */

/* In f32 for half precision, which may not hold it. */
static haul_tensor *norm_of_one(haul_tensor *g, haul_device *home)
{
    haul_tensor *plain = haul_detach(g);
    haul_tensor *wide = !haul__failed(plain) && haul__is_half(plain->dtype) ? haul_cast(plain, HAUL_F32) : plain;
    return haul_to(haul_norm(wide), home);
}

/* The norm of the norms: it overflows only if the result does. */
static haul_tensor *norm_of(gradients *all)
{
    haul_device *home = all->count ? all->items[0]->storage->device : haul_current_device();
    if (!all->count)
        return haul_to(haul_scalar(0), home);
    for (int i = 0; i < all->count; i++)
        if (haul__failed(all->numbers[i] = norm_of_one(all->items[i], home)))
            return NULL;
    return haul_norm(haul_stack(all->numbers, all->count, 0));
}

/* The factor on the device of g. Half precision may not hold it: there it is the product, rounded once. */
static haul_tensor *factor_for(haul_tensor *g, haul_tensor *factor)
{
    if (!haul__is_half(g->dtype))
        return haul_to(factor, g->storage->device, .dtype = g->dtype);
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return NULL;
    haul_tensor *wide = haul_mul(g, haul_to(factor, g->storage->device, .dtype = HAUL_F32));
    return haul_scope_return(scope, haul_cast(wide, g->dtype));
}

/* The factor is on every device before the first gradient changes. */
static haul_status scale_all(gradients *all, haul_tensor *norm, double limit)
{
    haul_tensor *factor = haul_clamp(haul_mul_scalar(haul_reciprocal(haul_add_scalar(norm, 1e-6)), limit), 0, 1);
    haul_status  status = haul__status_of(factor);
    for (int i = 0; i < all->count && !status; i++) {
        all->numbers[i] = factor_for(all->items[i], factor);
        status = haul__status_of(all->numbers[i]);
    }
    for (int i = 0; i < all->count && !status; i++)
        status = haul__is_half(all->items[i]->dtype) ? haul_copy_into(all->items[i], all->numbers[i])
                                                     : haul_mul_into(all->items[i], all->items[i], all->numbers[i]);
    return status;
}

static haul_tensor *clip_norm(const haul_clip_options *o, const char *operation)
{
    gradients    all = {0};
    haul_tensor *norm = find_gradients(&all, o, operation) ? NULL : norm_of(&all);
    if (!haul__failed(norm) && scale_all(&all, norm, o->limit))
        norm = NULL;
    free_gradients(&all);
    return norm;
}

haul_tensor *haul_clip_grad_norm_with(const haul_clip_options *options)
{
    static const char operation[] = "haul_clip_grad_norm";
    haul_status       status = check(options, operation);
    if (!status && !haul__tls.innermost)
        status = haul__fail(HAUL_STATE, operation, NULL,
                            "no scope is open on this thread to own the norm; call haul_scope_push() first");
    haul_scope *scope = status ? NULL : haul__scope_push(NULL);
    if (!scope)
        return haul__failed_tensor();
    haul_set_grad_enabled(false);
    haul__place_as_given();
    return haul__result(haul_scope_return(scope, clip_norm(options, operation)));
}

/* ---- by value ---- */

haul_status haul_clip_grad_value_with(const haul_clip_options *options)
{
    static const char operation[] = "haul_clip_grad_value";
    haul_status       status = check(options, operation);
    haul_scope       *scope = status ? NULL : haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    gradients all = {0};
    haul_set_grad_enabled(false);
    haul__place_as_given();
    status = find_gradients(&all, options, operation);
    for (int i = 0; i < all.count && !status; i++)
        status = haul_clamp_into(all.items[i], all.items[i], -options->limit, options->limit);
    free_gradients(&all);
    haul_scope_pop(scope);
    return status;
}
