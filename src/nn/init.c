/* Initialisation in place, with the bounds of torch.nn.init. For a weight [out, in, ...], fan_in counts the elements
 * that reach one output, and fan_out those that leave one input. */
#include <haul/autograd.h>
#include <haul/linalg.h>
#include <haul/ops.h>
#include <haul/random.h>
#include <haul/scope.h>
#include <math.h>

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

haul_status haul_init_kaiming_uniform(haul_tensor *t, double a)
{
    double      in, out;
    haul_status status = fans(t, "haul_init_kaiming_uniform", &in, &out);
    if (status)
        return status;
    double bound = in > 0 ? sqrt(2 / (1 + a * a)) * sqrt(3 / in) : 0;
    return draw_into(t, uniform, (const double[]){-bound, bound}, "haul_init_kaiming_uniform");
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

haul_status haul_init_kaiming_normal(haul_tensor *t, double a)
{
    double      in, out;
    haul_status status = fans(t, "haul_init_kaiming_normal", &in, &out);
    if (status)
        return status;
    double deviation = in > 0 ? sqrt(2 / (1 + a * a)) / sqrt(in) : 0;
    return draw_into(t, normal, (const double[]){0, deviation}, "haul_init_kaiming_normal");
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
