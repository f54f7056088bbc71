/* Jacobians and products with them, by backward passes. */
#include <haul/haul.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"

/* ---- what the calls have in common ---- */

static haul_status check_tensors(const char *operation, const char *name, haul_tensor *const *tensors, int count)
{
    if (count <= 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count", "count is %d; at least 1 is expected", count);
    if (!tensors)
        return haul__fail_null(operation, name);
    for (int i = 0; i < count; i++)
        if (haul__check_tensor(operation, name, tensors[i]))
            return haul_error_status();
    return HAUL_OK;
}

/* Directions, one of the shape of each input. */
static haul_status check_directions(const char *operation, haul_tensor *const *inputs, haul_tensor *const *directions,
                                    int count)
{
    char expected[96], given[96];
    if (check_tensors(operation, "inputs", inputs, count) || check_tensors(operation, "directions", directions, count))
        return haul_error_status();
    for (int i = 0; i < count; i++)
        if (!haul__shape_equal(&inputs[i]->shape, &directions[i]->shape))
            return haul__fail(HAUL_SHAPE, operation, "directions",
                              "directions[%d] is %s; the shape of its input, %s, is "
                              "expected",
                              i, haul__shape_text(&directions[i]->shape, given, sizeof given),
                              haul__shape_text(&inputs[i]->shape, expected, sizeof expected));
    return HAUL_OK;
}

/* The sum of the products of gradients and directions, 0-d; HAUL_NONE if no gradient has a graph. */
static haul_tensor *contract(haul_tensor *const *gradients, haul_tensor *const *directions, int count)
{
    haul_tensor *sum = HAUL_NONE;
    for (int i = 0; i < count; i++) {
        if (haul__is_none(gradients[i]) || !haul_requires_grad(gradients[i]))
            continue;
        HAUL__ASSERT(haul__shape_equal(&gradients[i]->shape, &directions[i]->shape));
        haul_tensor *part = haul_sum(haul_mul(gradients[i], haul_detach(directions[i])));
        sum = haul__is_none(sum) ? part : haul_add(sum, part);
    }
    return sum;
}

/* Puts zeros in the place of results that are HAUL_NONE. */
static haul_status fill_in(haul_tensor *const *inputs, int count, haul_tensor **results)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < count && !status; i++)
        if (haul__is_none(results[i])) {
            results[i] = haul_zeros_like(haul_detach(inputs[i]));
            status = haul__status_of(results[i]);
        }
    return status;
}

/* haul_grad, which leaves the graph of y as it is. A result is zeros where y does not depend on the input. */
static haul_status differentiate(haul_tensor *y, haul_tensor *const *inputs, int count, haul_tensor *seed,
                                 haul_tensor **results)
{
    haul_status status = haul_grad(y, inputs, count, results, .seed = seed, .keep = true);
    return status ? status : fill_in(inputs, count, results);
}

/* Closes the scope, and hands the results that were made in it to the scope around it; after a failure they are failed
 * tensors. */
static haul_status hand_out(haul_scope *scope, haul_status status, haul_tensor **results, int count,
                            const char *operation)
{
    HAUL__ASSERT(count > 0);
    for (int i = 0; i < count && !status; i++)
        haul__object_keep(results[i]);
    haul_scope_pop(scope);
    for (int i = 0; i < count; i++)
        results[i] = status ? haul__failed_tensor() : haul__own(results[i], operation);
    return status ? haul__fail_within(operation) : HAUL_OK;
}

static void fail_all(haul_tensor **results, int count)
{
    for (int i = 0; results && i < count; i++)
        results[i] = haul__failed_tensor();
}

/* ---- Jacobians ---- */

/* [y ..., x ...]; fails if that has too many dimensions. */
static haul_status join_shapes(const haul_tensor *y, const haul_tensor *x, haul_shape *out)
{
    if (y->shape.ndim + x->shape.ndim > HAUL_MAX_DIMS)
        return haul__fail(HAUL_SHAPE, "haul_jacobian", "inputs",
                          "y has %d dimensions and an input %d; together at most %d are expected, so reshape one",
                          y->shape.ndim, x->shape.ndim, HAUL_MAX_DIMS);
    *out = y->shape;
    for (int i = 0; i < x->shape.ndim; i++)
        out->dims[out->ndim++] = x->shape.dims[i];
    HAUL__ASSERT(out->ndim == y->shape.ndim + x->shape.ndim);
    return HAUL_OK;
}

/* One for element `at` of y, else zeros; places are the numbers of y's elements, on its device. */
static haul_tensor *unit(const haul_tensor *y, haul_tensor *places, int64_t at)
{
    HAUL__ASSERT(at >= 0 && at < y->count);
    return haul_reshape(haul_cast(haul_eq_scalar(places, (double)at), y->dtype), y->shape);
}

/* Rows [elements of y][count] of gradients. */
static haul_status find_rows(haul_tensor *y, haul_tensor *const *inputs, int count, haul_tensor **rows)
{
    haul_tensor *places = haul_to(haul_arange_i64(0, y->count, 1), haul_tensor_device(y));
    haul_status  status = haul__status_of(places);
    HAUL__ASSERT(status || places->count == y->count);
    for (int64_t k = 0; k < y->count && !status; k++)
        status = differentiate(y, inputs, count, unit(y, places, k), rows + k * count);
    return status;
}

static haul_status stack_rows(const haul_tensor *y, haul_tensor *const *inputs, int count, haul_tensor *const *rows,
                              haul_tensor **column, haul_tensor **results)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(column == rows + y->count * count); /* it comes after them */
    for (int i = 0; i < count && !status; i++) {
        haul_shape shape;
        status = join_shapes(y, inputs[i], &shape);
        for (int64_t k = 0; k < y->count; k++)
            column[k] = rows[k * count + i];
        if (!status) {
            results[i] = y->count ? haul_reshape(haul_stack(column, (int)y->count, 0), shape)
                                  : haul_to(haul_zeros(inputs[i]->dtype, shape), haul_tensor_device(inputs[i]));
            status = haul__status_of(results[i]);
        }
    }
    return status;
}

haul_status haul_jacobian(haul_tensor *y, haul_tensor *const *inputs, int count, haul_tensor **results)
{
    static const char operation[] = "haul_jacobian";
    int64_t           total, bytes;
    haul_status       status = haul__check_tensor(operation, "y", y);
    if (!status)
        status = check_tensors(operation, "inputs", inputs, count);
    if (!status && !results)
        return haul__fail_null(operation, "results");
    haul_scope *scope = status ? NULL : haul__scope_push(NULL);
    if (!scope) {
        fail_all(results, count);
        return haul_error_status();
    }
    haul_tensor **rows = NULL;
    if (!haul__mul_size(y->count, (int64_t)count + 1, &total) ||
        !haul__mul_size(total ? total : 1, (int64_t)sizeof *rows, &bytes) || y->count > INT32_MAX)
        status = haul__fail(HAUL_SHAPE, operation, "y", "y has %lld elements; fewer are expected", (long long)y->count);
    else if (!(rows = haul__malloc((size_t)bytes)))
        status = haul__fail_memory(operation, (size_t)bytes);
    if (!status)
        status = find_rows(y, inputs, count, rows);
    haul_set_grad_enabled(false);
    if (!status)
        status = stack_rows(y, inputs, count, rows, rows + y->count * count, results);
    haul__free(rows);
    return hand_out(scope, status, results, count, operation);
}

/* ---- products ---- */

haul_status haul_hvp(haul_tensor *y, haul_tensor *const *inputs, haul_tensor *const *directions, int count,
                     haul_tensor **results)
{
    static const char operation[] = "haul_hvp";
    haul_status       status = haul__check_tensor(operation, "y", y);
    if (!status)
        status = check_directions(operation, inputs, directions, count);
    if (!status && !results)
        return haul__fail_null(operation, "results");
    haul_scope *scope = status ? NULL : haul__scope_push(NULL);
    if (!scope) {
        fail_all(results, count);
        return haul_error_status();
    }
    haul_set_grad_enabled(true);
    status = haul_grad(y, inputs, count, results, .create_graph = true);
    haul_tensor *product = status ? HAUL_NONE : contract(results, directions, count);
    if (!status && !haul__is_none(product))
        status = differentiate(product, inputs, count, HAUL_NONE, results);
    if (!status && haul__is_none(product)) {
        for (int i = 0; i < count; i++)
            results[i] = HAUL_NONE;
        status = fill_in(inputs, count, results);
    }
    return hand_out(scope, status, results, count, operation);
}

/* The gradient is linear in its seed u: its product with the directions is that of u with J times the directions. So
 * J times the directions is its gradient with respect to u. */
static haul_status differentiate_seed(haul_tensor *y, haul_tensor *const *inputs, haul_tensor *const *directions,
                                      int count, haul_tensor **gradients, haul_tensor **out)
{
    haul_tensor *u = haul_set_requires_grad(haul_zeros_like(haul_detach(y)), true);
    haul_status  status = haul_grad(y, inputs, count, gradients, .seed = u, .create_graph = true);
    if (status)
        return status;
    haul_tensor *product = contract(gradients, directions, count);
    if (!haul__is_none(product))
        return differentiate(product, &u, 1, HAUL_NONE, out);
    *out = haul_zeros_like(haul_detach(y));
    return haul__status_of(*out);
}

haul_tensor *haul_jvp(haul_tensor *y, haul_tensor *const *inputs, haul_tensor *const *directions, int count)
{
    static const char operation[] = "haul_jvp";
    haul_status       status = haul__check_tensor(operation, "y", y);
    if (!status)
        status = check_directions(operation, inputs, directions, count);
    haul_scope *scope = status ? NULL : haul__scope_push(NULL);
    if (!scope)
        return haul__failed_tensor();
    haul_tensor  *result = NULL;
    haul_tensor **gradients = haul__calloc((size_t)count, sizeof *gradients);
    haul_set_grad_enabled(true);
    status = gradients ? differentiate_seed(y, inputs, directions, count, gradients, &result)
                       : haul__fail_memory(operation, (size_t)count * sizeof *gradients);
    haul__free(gradients);
    hand_out(scope, status, &result, 1, operation);
    return result;
}
