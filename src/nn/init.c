/* Initialisation in place, with the bounds of torch.nn.init. For a weight [out, in, ...], fan_in counts the elements
 * that reach one output, and fan_out those that leave one input. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/random.h>
#include <haul/scope.h>
#include <math.h>

#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/module.h"

typedef haul_tensor *draw_fn(haul_dtype dtype, haul_shape shape, double a, double b);

static haul_status draw_into(haul_tensor *t, draw_fn *draw, double a, double b, const char *operation)
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
        haul_tensor *drawn = draw(t->dtype, t->shape, a, b);
        status = haul__failed(drawn) ? haul_error_status() : haul_copy_into(t, drawn);
    }
    haul_scope_pop(scope);
    return status ? haul__fail_within(operation) : HAUL_OK;
}

haul_status haul_init_uniform(haul_tensor *t, double low, double high)
{
    return draw_into(t, haul_uniform, low, high, "haul_init_uniform");
}

haul_status haul_init_normal(haul_tensor *t, double mean, double deviation)
{
    return draw_into(t, haul_normal, mean, deviation, "haul_init_normal");
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
    return draw_into(t, haul_uniform, -bound, bound, "haul_init_kaiming_uniform");
}

haul_status haul_init_xavier_uniform(haul_tensor *t, double gain)
{
    double      in, out;
    haul_status status = fans(t, "haul_init_xavier_uniform", &in, &out);
    if (status)
        return status;
    double bound = in + out > 0 ? gain * sqrt(6 / (in + out)) : 0;
    return draw_into(t, haul_uniform, -bound, bound, "haul_init_xavier_uniform");
}
