/* Clipping gradients by their common norm (Pascanu, Mikolov, Bengio 2013), without a wait for the device. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/optim.h>
#include <haul/scope.h>
#include <haul/transfer.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/half.h"
#include "core/tensor.h"
#include "nn/tensors.h"

static const char operation[] = "haul_clip_grad_norm";

typedef struct gradients {
    haul_tensor **items, **squares;
    int           count;
} gradients;

/* Each once, though a parameter may have two names. */
static void add_gradient(gradients *all, haul_tensor *g)
{
    for (int i = 0; i < all->count; i++)
        if (all->items[i] == g)
            return;
    all->items[all->count++] = g;
}

static haul_tensor *square_sum(haul_tensor *g, haul_device *home)
{
    haul_tensor *plain = haul_detach(g);
    haul_tensor *wide = !haul__failed(plain) && haul__is_half(plain->dtype) ? haul_cast(plain, HAUL_F32) : plain;

    return haul_to(haul_sum(haul_square(wide)), home);
}

static haul_tensor *norm_of(gradients *all)
{
    haul_device *home = all->count ? all->items[0]->storage->device : haul_current_device();

    if (!all->count)
        return haul_to(haul_scalar(0), home);
    for (int i = 0; i < all->count; i++)
        if (haul__failed(all->squares[i] = square_sum(all->items[i], home)))
            return NULL;
    return haul_sqrt(haul_sum(haul_stack(all->squares, all->count, 0)));
}

static haul_status scale_all(const gradients *all, haul_tensor *norm, double max_norm)
{
    haul_tensor *factor = haul_clamp(haul_mul_scalar(haul_reciprocal(haul_add_scalar(norm, 1e-6)), max_norm), 0, 1);
    haul_status  status = haul__status_of(factor);

    for (int i = 0; i < all->count && !status; i++) {
        haul_tensor *g = all->items[i];
        haul_tensor *here = haul_to(factor, g->storage->device, .dtype = g->dtype);
        status = haul__failed(here) ? haul_error_status() : haul_mul_into(g, g, here);
    }
    return status;
}

static haul_tensor *clip(haul_module *module, double max_norm)
{
    int                n = 0;
    haul_named_tensor *tensors = haul__module_tensor_list(module, &n);
    gradients all = {haul__calloc((size_t)n + 1, sizeof *all.items), haul__calloc((size_t)n + 1, sizeof *all.squares),
                     0};
    haul_tensor *norm = NULL;

    if (tensors && all.items && all.squares) {
        for (int i = 0; i < n; i++)
            if (!tensors[i].is_buffer && tensors[i].tensor->grad)
                add_gradient(&all, tensors[i].tensor->grad);
        norm = norm_of(&all);
        if (!haul__failed(norm) && scale_all(&all, norm, max_norm))
            norm = NULL;
    } else if (tensors) {
        haul__fail_memory(operation, (size_t)n * sizeof *all.items);
    }
    haul__free(tensors);
    haul__free(all.items);
    haul__free(all.squares);
    return norm;
}

haul_tensor *haul_clip_grad_norm(haul_module *module, double max_norm)
{
    haul_status status = haul__check_module(module, operation);
    if (!status && !(max_norm >= 0))
        status =
            haul__fail(HAUL_INVALID_ARGUMENT, operation, "max_norm", "max_norm is %g; it must be at least 0", max_norm);
    haul_scope *scope = status ? NULL : haul_scope_push();
    if (!scope)
        return haul__failed_tensor();
    haul_set_grad_enabled(false);
    return haul__result(haul_scope_return(scope, clip(module, max_norm)));
}
