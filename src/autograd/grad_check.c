/* Compares gradients with central differences. */
#include <haul/haul.h>

#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/option.h"
#include "core/scope.h"
#include "core/tensor.h"

typedef struct check {
    haul_function          *f;
    haul_tensor           **leaves; /* copies of the inputs that require gradients */
    int                     count;
    haul_grad_check_options options;
    haul_tensor            *weights; /* y is reduced to sum(y * weights), so that every element of it counts */
} check;

static const char operation[] = "haul_grad_check";

/* A fixed pattern of weights without symmetries, in y's shape. */
static haul_tensor *make_weights(haul_tensor *y)
{
    haul_tensor *i = haul_to(haul_arange(HAUL_F64, 0, (double)haul_tensor_count(y), 1), haul_tensor_device(y));
    haul_tensor *w = haul_add_scalar(haul_sin(haul_mul_scalar(i, 1.7)), 0.3);
    return haul_cast(haul_reshape(w, haul_tensor_shape(y)), haul_tensor_dtype(y));
}

static haul_tensor *call_function(const check *c)
{
    haul__guest  before = haul__guest_begin();
    haul_tensor *y = c->f(c->leaves, c->count, c->options.context);
    return haul__guest_end(&before, HAUL_OK, operation) ? haul__failed_tensor() : y;
}

static haul_tensor *objective(const check *c)
{
    return haul_sum(haul_mul(call_function(c), c->weights));
}

static haul_status set_values(haul_tensor *leaf, const double *host)
{
    bool         recording = haul_set_grad_enabled(false);
    haul_tensor *values = haul_from_host(HAUL_F64, leaf->shape, host);
    haul_status  status = haul__failed(values) ? haul_error_status() : haul_copy_into(leaf, values);
    haul_set_grad_enabled(recording);
    return status;
}

/* The objective with element `at` of leaf `which` set to `value`. */
static haul_status evaluate(const check *c, int which, double *host, int64_t at, double value, double *result)
{
    haul_tensor *leaf = c->leaves[which];
    double       before = host[at];
    HAUL__ASSERT(which < c->count && at >= 0 && at < leaf->count);
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    host[at] = value;
    haul_status status = set_values(leaf, host);
    if (!status) {
        haul_tensor *y = objective(c); /* records a graph, because f may differentiate itself */
        *result = haul_item(y);
        status = haul__status_of(y);
    }
    host[at] = before;
    if (!status)
        status = set_values(leaf, host);
    haul_scope_pop(scope);
    return status;
}

static haul_status compare_element(const check *c, int which, double *host, int64_t at, double analytic)
{
    double      h = c->options.step, up, down;
    haul_status status = evaluate(c, which, host, at, host[at] + h, &up);
    if (!status)
        status = evaluate(c, which, host, at, host[at] - h, &down);
    if (status)
        return status;
    double numeric = (up - down) / (2 * h), bound = c->options.tolerance[0] + c->options.tolerance[1] * fabs(numeric);
    if (fabs(analytic - numeric) <= bound)
        return HAUL_OK;
    return haul__fail(HAUL_GRAPH, operation, NULL,
                      "input %d, element %lld: the gradient is %.10g, differences give %.10g (allowed: %.3g)", which,
                      (long long)at, analytic, numeric, bound);
}

static haul_status compare_input(const check *c, int which, haul_tensor *gradient)
{
    int64_t count = c->leaves[which]->count;
    HAUL__ASSERT(haul__is_none(gradient) || gradient->count == count);
    double *host = haul__calloc((size_t)count * 2 + 1, sizeof *host), *analytic = host ? host + count : NULL;
    if (!host)
        return haul__fail_memory(operation, (size_t)count * 2 * sizeof *host);
    size_t       bytes = (size_t)count * sizeof *host;
    haul_tensor *values = haul_cast(haul_detach(c->leaves[which]), HAUL_F64);
    haul_status  status = haul_read(values, host, bytes);
    if (!status && !haul__is_none(gradient)) /* no gradient: zero everywhere */
        status = haul_read(haul_cast(gradient, HAUL_F64), analytic, bytes);
    for (int64_t i = 0; !status && i < count; i++)
        status = compare_element(c, which, host, i, analytic[i]);
    haul__free(host);
    return status;
}

static haul_status run_check(check *c, haul_tensor *const *inputs, haul_tensor **gradients)
{
    for (int i = 0; i < c->count; i++) {
        c->leaves[i] = haul_set_requires_grad(haul_clone(haul_detach(inputs[i])), true);
        if (haul__failed(c->leaves[i]))
            return haul_error_status();
    }
    c->weights = make_weights(haul_detach(call_function(c)));
    haul_tensor *y = objective(c);
    if (haul__failed(y))
        return haul_error_status();
    haul_status status = haul_grad(y, c->leaves, c->count, gradients);
    for (int i = 0; !status && i < c->count; i++)
        status = compare_input(c, i, gradients[i]);
    return status;
}

haul_status haul_grad_check_with(haul_function *f, haul_tensor *const *inputs, int count,
                                 const haul_grad_check_options *options)
{
    if (!inputs || !options)
        return haul__fail_null(operation, !inputs ? "inputs" : "options");
    if (!f)
        return haul__fail_no_function(operation, "f");
    if (count < 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count", "count is %d; give at least one input", count);
    check c = {.f = f, .count = count, .options = *options};
    if (haul__option_reals(operation, "tolerance", c.options.tolerance, (const double[2]){1e-5, 1e-3}))
        return haul_error_status();
    c.options.step = c.options.step ? c.options.step : 1e-6;
    haul_scope   *scope = haul__scope_push(NULL);
    haul_tensor **pointers = haul__calloc((size_t)count * 2, sizeof *pointers);
    haul_status   status = scope ? HAUL_OK : haul_error_status();
    if (!status && !pointers)
        status = haul__fail_memory(operation, (size_t)count * 2 * sizeof *pointers);
    c.leaves = pointers;
    if (!status)
        status = run_check(&c, inputs, pointers + count);
    haul__free(pointers);
    if (scope)
        haul_scope_pop(scope);
    return status;
}
