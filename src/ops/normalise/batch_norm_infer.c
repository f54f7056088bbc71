/* The operands that batch normalisation accepts, and the shapes of its results. */
#include "ops/normalise/batch_norm.h"
#include "ops/normalise/vector.h"

enum { X, WEIGHT, BIAS, MEAN, VAR }; /* operands */

static haul_status check_channels(const haul__call *c, int i)
{
    const haul_tensor *t = c->operands[i], *x = c->operands[X];
    const char        *name = c->operation->operands[i].name;
    if (!haul__has(c, i))
        return HAUL_OK;
    if (haul__check_vector(c, i, 1))
        return haul_error_status();
    if (t->dtype != x->dtype && t->dtype != haul__sum_dtype(x->dtype))
        return haul__fail(HAUL_DTYPE, c->operation->name, name, "%s is %s, x is %s; cast one of them", name,
                          haul_dtype_name(t->dtype), haul_dtype_name(x->dtype));
    return HAUL_OK;
}

static haul_status check_running(const haul__call *c, bool training)
{
    const char *missing = c->operation->operands[haul__has(c, MEAN) ? VAR : MEAN].name;
    if (haul__has(c, MEAN) != haul__has(c, VAR))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, missing,
                          "set both .running_mean and .running_var, or neither");
    if (!training && !haul__has(c, MEAN))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, missing,
                          "evaluation needs the running statistics; set .running_mean and .running_var");
    return HAUL_OK;
}

haul_status haul__batch_norm_infer(haul__call *c)
{
    const haul__batch_norm *a = haul__attributes(c);
    const haul_tensor      *x = c->operands[X];
    if (x->shape.ndim < 2)
        return haul__refuse_shape(c, X, "[N, C, ...] is expected");
    for (int i = WEIGHT; i <= VAR; i++)
        if (check_channels(c, i))
            return haul_error_status();
    if (check_running(c, a->training))
        return haul_error_status();
    if (!(a->momentum >= 0 && a->eps >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, a->eps >= 0 ? "momentum" : "eps",
                          "momentum is %g and eps is %g; both must be at least 0", a->momentum, a->eps);
    if (a->training && x->count > 0 && x->count / x->shape.dims[1] < 2)
        return haul__refuse_shape(c, X, "in training each channel needs more than one value");
    if (!a->training || !x->count)
        c->writes = 0;
    haul_status status = haul__describe_like(c, 0, x->dtype, &x->shape, x);
    return status ? status : haul__describe(c, 1, haul__sum_dtype(x->dtype), &HAUL_SHAPE(3, x->shape.dims[1]));
}
