/* Initialisation in place, with the bounds of torch.nn.init. For a weight [out, in, ...], fan_in counts the elements
 * that reach one output, and fan_out those that leave one input. */
#include <haul/autograd.h>
#include <haul/indexing.h>
#include <haul/linalg.h>
#include <haul/ops.h>
#include <haul/random.h>
#include <haul/scope.h>
#include <math.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/module.h"

/* Numbers for t, with parameters of the distribution. */
typedef haul_tensor *draw_fn(const haul_tensor *t, const double *with);

static haul_status draw_into(haul_tensor *t, draw_fn *draw, const double *with, const char *operation)
{
    if (haul__check_tensor(operation, "t", t))
        return haul_error_status();
    if (!haul_dtype_is_float(t->dtype))
        return haul__fail(HAUL_DTYPE, operation, "t", "t is %s; only floating dtypes can be initialised randomly",
                          haul_dtype_name(t->dtype));
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_set_grad_enabled(false);
    haul_status status = haul_set_device(t->storage->device);
    if (!status) {
        haul_tensor *drawn = draw(t, with);
        HAUL__ASSERT(haul__failed(drawn) || drawn->count == t->count);
        status = haul__failed(drawn) ? haul_error_status() : haul_copy_into(t, drawn);
    }
    haul_scope_pop(scope);
    return status ? haul__fail_within(operation) : HAUL_OK;
}

static haul_tensor *uniform(const haul_tensor *t, const double *with)
{
    return haul_uniform(t->dtype, t->shape, with[0], with[1]);
}

static haul_tensor *normal(const haul_tensor *t, const double *with)
{
    return haul_normal(t->dtype, t->shape, with[0], with[1]);
}

haul_status haul_init_uniform(haul_tensor *t, double low, double high)
{
    return draw_into(t, uniform, (const double[]){low, high}, "haul_init_uniform");
}

haul_status haul_init_normal(haul_tensor *t, double mean, double deviation)
{
    return draw_into(t, normal, (const double[]){mean, deviation}, "haul_init_normal");
}

static haul_status fans(const haul_tensor *t, const char *operation, double *fan_in, double *fan_out)
{
    if (haul__check_tensor(operation, "t", t))
        return haul_error_status();
    if (t->shape.ndim < 2)
        return haul__fail(HAUL_SHAPE, operation, "t", "t has %d axes; it needs at least two, [out, in, ...]",
                          t->shape.ndim);
    double window = 1;
    for (int i = 2; i < t->shape.ndim; i++)
        window *= (double)t->shape.dims[i];
    *fan_in = (double)t->shape.dims[1] * window;
    *fan_out = (double)t->shape.dims[0] * window;
    return HAUL_OK;
}

/* For a leaky relu of slope `a`, and sums of fan_in or of fan_out terms. */
static haul_status kaiming_uniform(haul_tensor *t, double a, bool of_outputs, const char *operation)
{
    double      in, out;
    haul_status status = fans(t, operation, &in, &out);
    if (status)
        return status;
    const double fan = of_outputs ? out : in, bound = fan > 0 ? sqrt(2 / (1 + a * a)) * sqrt(3 / fan) : 0;
    return draw_into(t, uniform, (const double[]){-bound, bound}, operation);
}

static haul_status kaiming_normal(haul_tensor *t, double a, bool of_outputs, const char *operation)
{
    double      in, out;
    haul_status status = fans(t, operation, &in, &out);
    if (status)
        return status;
    const double fan = of_outputs ? out : in, deviation = fan > 0 ? sqrt(2 / (1 + a * a)) / sqrt(fan) : 0;
    return draw_into(t, normal, (const double[]){0, deviation}, operation);
}

haul_status haul_init_kaiming_uniform(haul_tensor *t, double a)
{
    return kaiming_uniform(t, a, false, "haul_init_kaiming_uniform");
}

haul_status haul_init_kaiming_normal(haul_tensor *t, double a)
{
    return kaiming_normal(t, a, false, "haul_init_kaiming_normal");
}

haul_status haul_init_kaiming_uniform_fan_out(haul_tensor *t, double a)
{
    return kaiming_uniform(t, a, true, "haul_init_kaiming_uniform_fan_out");
}

haul_status haul_init_kaiming_normal_fan_out(haul_tensor *t, double a)
{
    return kaiming_normal(t, a, true, "haul_init_kaiming_normal_fan_out");
}

haul_status haul_init_xavier_uniform(haul_tensor *t, double gain)
{
    double      in, out;
    haul_status status = fans(t, "haul_init_xavier_uniform", &in, &out);
    if (status)
        return status;
    double bound = in + out > 0 ? gain * sqrt(6 / (in + out)) : 0;
    return draw_into(t, uniform, (const double[]){-bound, bound}, "haul_init_xavier_uniform");
}

haul_status haul_init_xavier_normal(haul_tensor *t, double gain)
{
    double      in, out;
    haul_status status = fans(t, "haul_init_xavier_normal", &in, &out);
    if (status)
        return status;
    double deviation = in + out > 0 ? gain * sqrt(2 / (in + out)) : 0;
    return draw_into(t, normal, (const double[]){0, deviation}, "haul_init_xavier_normal");
}

/* ---- truncated, orthogonal ---- */

/* Reduced dtypes draw in f32, and are rounded when they are written. */
static haul_dtype wide(const haul_tensor *t)
{
    return t->dtype == HAUL_F64 ? HAUL_F64 : HAUL_F32;
}

/* A uniform number between the distribution function's values at the bounds, turned back by its inverse. The function
 * is (1 + erf(x / sqrt(2))) / 2. */
static haul_tensor *truncated(const haul_tensor *t, const double *with)
{
    const double mean = with[0], deviation = with[1], low = with[2], high = with[3];
    const double a = erf((low - mean) / deviation / sqrt(2)), b = erf((high - mean) / deviation / sqrt(2));
    haul_tensor *x = haul_erfinv(haul_uniform(wide(t), t->shape, a, b));
    return haul_clamp(haul_add_scalar(haul_mul_scalar(x, deviation * sqrt(2)), mean), low, high);
}

haul_status haul_init_truncated_normal(haul_tensor *t, double mean, double deviation, double low, double high)
{
    static const char operation[] = "haul_init_truncated_normal";
    if (haul__check_tensor(operation, "t", t))
        return haul_error_status();
    if (!isfinite(mean) || !isfinite(deviation) || !(deviation > 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "deviation",
                          "mean is %g and deviation %g; finite numbers are expected, and a deviation above 0", mean,
                          deviation);
    if (!(erf((low - mean) / deviation / sqrt(2)) < erf((high - mean) / deviation / sqrt(2))))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "low",
                          "low is %g and high %g; low must be below high, and not many deviations from the mean", low,
                          high);
    return draw_into(t, truncated, (const double[]){mean, deviation, low, high}, operation);
}

/* The q of normal numbers, whose columns get the signs of r's diagonal, so that all directions are equally likely
 * (Mezzadri, "How to generate random matrices from the classical compact groups", 2007). */
static haul_tensor *orthogonal(const haul_tensor *t, const double *with)
{
    const int64_t rows = t->shape.dims[0], columns = haul_tensor_count(t) / (rows ? rows : 1);
    haul_shape    tall = rows < columns ? HAUL_SHAPE(columns, rows) : HAUL_SHAPE(rows, columns);
    haul_tensor  *q, *r;
    if (!rows || !columns)
        return haul_zeros(wide(t), t->shape);
    HAUL__ASSERT(tall.dims[0] >= tall.dims[1]);
    if (haul_qr(haul_normal(wide(t), tall, 0, 1), &q, &r))
        return haul__failed_tensor();
    haul_tensor *signs = haul_sign(haul_diagonal(r, 0, 0, 1));
    q = haul_mul_scalar(haul_mul(q, signs), with[0]);
    return haul_reshape(rows < columns ? haul_transpose(q, 0, 1) : q, t->shape);
}

haul_status haul_init_orthogonal(haul_tensor *t, double gain)
{
    double      in, out;
    haul_status status = fans(t, "haul_init_orthogonal", &in, &out);
    if (status)
        return status;
    if (!isfinite(gain))
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_init_orthogonal", "gain",
                          "gain is %g; a finite number is expected", gain);
    return draw_into(t, orthogonal, &gain, "haul_init_orthogonal");
}

/* ---- dirac, sparse ---- */

/* An identity of channels for each group, in the middle of the window. */
static haul_tensor *dirac(const haul_tensor *t, const double *with)
{
    const int64_t    groups = (int64_t)with[0], out = t->shape.dims[0] / groups, in = t->shape.dims[1];
    haul_tensor     *y = haul_repeat(haul_eye(wide(t), out, in), HAUL_SHAPE(groups, 1));
    haul_pad_options o = {.x = y, .haul__pads = {.count = 2 * (t->shape.ndim - 2)}};
    haul_shape       shape = t->shape;
    HAUL__ASSERT(groups > 0 && t->shape.dims[0] % groups == 0);
    for (int d = 2; d < shape.ndim; d++) {
        const int64_t window = shape.dims[d], before = window / 2;
        if (window == 0)
            return haul_zeros(wide(t), t->shape);
        o.haul__pads.sizes[2 * (shape.ndim - 1 - d)] = before;
        o.haul__pads.sizes[2 * (shape.ndim - 1 - d) + 1] = window - 1 - before;
        shape.dims[d] = 1;
    }
    if (haul__failed(y))
        return y;
    o.x = haul_reshape(y, shape);
    return haul_pad_with(&o);
}

haul_status haul_init_dirac(haul_tensor *t, int64_t groups)
{
    static const char operation[] = "haul_init_dirac";
    if (haul__check_tensor(operation, "t", t))
        return haul_error_status();
    if (t->shape.ndim < 3 || t->shape.ndim > 5)
        return haul__fail(HAUL_SHAPE, operation, "t", "t has %d axes; three to five are expected, [out, in, window...]",
                          t->shape.ndim);
    if (groups < 1 || t->shape.dims[0] % groups)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "groups",
                          "groups is %lld; a divisor of the %lld channels of axis 0 is expected", (long long)groups,
                          (long long)t->shape.dims[0]);
    return draw_into(t, dirac, (const double[]){(double)groups}, operation);
}

/* In each column, the elements with the smallest of random numbers become 0. */
static haul_tensor *sparse(const haul_tensor *t, const double *with)
{
    const double zeros = ceil(with[0] * (double)t->shape.dims[0]);
    haul_tensor *values = haul_normal(wide(t), t->shape, 0, with[1]);
    if (t->shape.dims[0] == 0 || t->shape.dims[1] == 0)
        return values;
    haul_tensor *order = haul_argsort(haul_uniform(HAUL_F32, t->shape, 0, 1), 0, false);
    return haul_masked_fill(values, haul_lt_scalar(haul_argsort(order, 0, false), zeros), 0);
}

haul_status haul_init_sparse(haul_tensor *t, double sparsity, double deviation)
{
    static const char operation[] = "haul_init_sparse";
    if (haul__check_tensor(operation, "t", t))
        return haul_error_status();
    if (t->shape.ndim != 2)
        return haul__fail(HAUL_SHAPE, operation, "t", "t has %d axes; two are expected, [rows, columns]",
                          t->shape.ndim);
    if (!(sparsity >= 0 && sparsity <= 1))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "sparsity", "sparsity is %g; 0 to 1 is expected", sparsity);
    return draw_into(t, sparse, (const double[]){sparsity, deviation}, operation);
}
