/* Clips gradients by their common norm (Pascanu, Mikolov, Bengio 2013) or by value, without a wait for the device. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/optim.h>
#include <haul/scope.h>
#include <haul/transfer.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/half.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "engine/placement/placement.h"
#include "memory/dry_run/dry_run.h"
#include "nn/tensors.h"
#include "optim/divided.h"
#include "optim/optimizer.h"
#include "optim/parameters.h"

#define NORM "haul_clip_grad_norm"

typedef struct gradients {
    haul_tensor **items; /* each once; NULL: another rank has it */
    haul_tensor *
        *numbers; /* one for each: its norm, later the factor on its device or, of half precision, the product */
    haul_tensor  **parameters; /* whose they are */
    int            count;
    haul__divided *divided; /* other ranks have some of them; else NULL */
} gradients;

/* ---- which gradients ---- */

static haul_named_tensor *list_of_optimizer(haul_optimizer *o, const char *operation, int *count)
{
    if (haul__check_object(o, &haul__optimizer_class, operation, "optimizer"))
        return NULL;
    HAUL__ASSERT(o->count > 0);
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

/* All ranks list a parameter whose gradient is divided, so that they agree on the numbers of all. */
static haul_status find_one(gradients *all, haul_tensor *parameter, const char *operation)
{
    haul__divided *d = haul__divided_of(parameter);
    if (d && all->divided && all->divided != d)
        return haul__fail(HAUL_STATE, operation, "module",
                          "the gradients belong to two training runs that divide them among ranks; clip those of each "
                          "training by a call of its own");
    all->divided = d ? d : all->divided;
    if (!d && !parameter->grad)
        return HAUL_OK;
    HAUL__ASSERT(!parameter->grad || parameter->grad->count == parameter->count);
    all->parameters[all->count] = parameter;
    all->items[all->count++] = parameter->grad;
    return HAUL_OK;
}

static haul_status find_gradients(gradients *all, const haul_clip_options *o, const char *operation)
{
    int                n = 0;
    haul_named_tensor *list = list_of(o, operation, &n);
    if (!list)
        return haul_error_status();
    all->items = haul__calloc((size_t)n + 1, sizeof *all->items);
    all->numbers = haul__calloc((size_t)n + 1, sizeof *all->numbers);
    all->parameters = haul__calloc((size_t)n + 1, sizeof *all->parameters);
    haul_status status = all->items && all->numbers && all->parameters
                             ? HAUL_OK
                             : haul__fail_memory(operation, (size_t)n * sizeof *list);
    for (int i = 0; i < n && !status; i++)
        status = find_one(all, list[i].tensor, operation);
    haul__free(list);
    HAUL__ASSERT(status || all->count <= n);
    return status;
}

static void free_gradients(gradients *all)
{
    haul__free(all->items);
    haul__free(all->numbers);
    haul__free(all->parameters);
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

/* ---- norms of other ranks ---- */

/* The number of a gradient that its owner does not have: a norm is never below 0. */
#define ABSENT (-1.0)

static bool is_others(const gradients *all, int i)
{
    const haul__divided *d = all->divided;
    const int            owner = d ? d->owner(d, all->parameters[i]) : -1;
    return owner >= 0 && owner != d->rank;
}

/* This rank's norms as numbers of the host. */
static haul_status read_norms(const gradients *all, double *out)
{
    haul_tensor **wide = haul__calloc((size_t)all->count, sizeof *wide);
    double       *values = haul__calloc((size_t)all->count, sizeof *values);
    int           n = 0;
    haul_status   status =
        wide && values ? HAUL_OK : haul__fail_memory(NORM, (size_t)all->count * (sizeof *wide + sizeof *values));
    HAUL__ASSERT(all->count > 0);
    for (int i = 0; i < all->count && !status; i++)
        if (all->numbers[i]) {
            wide[n] = haul_cast(all->numbers[i], HAUL_F64);
            status = haul__status_of(wide[n++]);
        }
    HAUL__ASSERT(n <= all->count);
    if (!status && n && !haul__is_dry())
        status = haul_read(haul_stack(wide, n, 0), values, (size_t)n * sizeof *values);
    for (int i = 0, k = 0; i < all->count && !status; i++)
        out[i] = all->numbers[i] ? values[k++] : ABSENT;
    haul__free(wide);
    haul__free(values);
    return status;
}

/* Puts the norms of other ranks' gradients in their places. rows: of all ranks. */
static haul_status take_norms(gradients *all, const double *rows, haul_device *home)
{
    haul_status status = haul_set_device(home); /* the scope restores it */
    for (int i = 0; i < all->count && !status; i++) {
        if (!is_others(all, i))
            continue;
        const haul_tensor *p = all->parameters[i];
        HAUL__ASSERT(all->divided->owner(all->divided, p) >= 0 &&
                     all->divided->owner(all->divided, p) < all->divided->ranks);
        const double norm = rows[all->divided->owner(all->divided, p) * all->count + i];
        if (norm == ABSENT)
            continue;
        all->numbers[i] = haul_full(haul__is_half(p->dtype) ? HAUL_F32 : p->dtype, HAUL_SCALAR_SHAPE, norm);
        status = haul__status_of(all->numbers[i]);
    }
    return status;
}

static haul_status share_norms(gradients *all, haul_device *home)
{
    const haul__divided *d = all->divided;
    HAUL__ASSERT(d->rank >= 0 && d->rank < d->ranks);
    double     *rows = haul__calloc((size_t)all->count * (size_t)d->ranks, sizeof *rows);
    haul_status status = rows ? read_norms(all, rows + (size_t)d->rank * (size_t)all->count)
                              : haul__fail_memory(NORM, (size_t)all->count * (size_t)d->ranks * sizeof *rows);
    if (!status)
        status = d->gather(d, NORM, rows, all->count);
    if (!status)
        status = take_norms(all, rows, home);
    haul__free(rows);
    return status;
}

/* The norm of the norms: it overflows only if the result does. */
static haul_tensor *norm_of(gradients *all)
{
    haul_device *home = all->count ? all->parameters[0]->storage->device : haul_current_device();
    haul_status  status = HAUL_OK;
    int          n = 0;
    for (int i = 0; i < all->count && !status; i++)
        if (all->items[i]) {
            all->numbers[i] = norm_of_one(all->items[i], home);
            status = haul__status_of(all->numbers[i]);
        }
    if (!status && all->divided)
        status = share_norms(all, home);
    if (status)
        return NULL;
    for (int i = 0; i < all->count; i++)
        if (all->numbers[i])
            all->numbers[n++] = all->numbers[i];
    HAUL__ASSERT(n <= all->count);
    return n ? haul_norm(haul_stack(all->numbers, n, 0)) : haul_to(haul_scalar(0), home);
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
        if (!all->items[i])
            continue;
        HAUL__ASSERT(all->items[i]->count == all->parameters[i]->count);
        all->numbers[i] = factor_for(all->items[i], factor);
        status = haul__status_of(all->numbers[i]);
    }
    for (int i = 0; i < all->count && !status; i++) {
        if (!all->items[i])
            continue;
        HAUL__ASSERT(all->numbers[i]);
        status = haul__is_half(all->items[i]->dtype) ? haul_copy_into(all->items[i], all->numbers[i])
                                                     : haul_mul_into(all->items[i], all->items[i], all->numbers[i]);
    }
    return status;
}

static haul_tensor *clip_norm(const haul_clip_options *o, const char *operation)
{
    gradients    all = {0};
    haul_tensor *norm = find_gradients(&all, o, operation) ? NULL : norm_of(&all);
    if (!haul__failed(norm) && scale_all(&all, norm, o->limit))
        norm = NULL;
    if (haul__failed(norm) && all.divided)
        all.divided->fail(all.divided, operation);
    free_gradients(&all);
    return norm;
}

haul_tensor *haul_clip_grad_norm_with(const haul_clip_options *options)
{
    static const char operation[] = NORM;
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
    HAUL__ASSERT(all.count == 0 || all.items);
    for (int i = 0; i < all.count && !status; i++)
        if (all.items[i])
            status = haul_clamp_into(all.items[i], all.items[i], -options->limit, options->limit);
    free_gradients(&all);
    haul_scope_pop(scope);
    return status;
}
