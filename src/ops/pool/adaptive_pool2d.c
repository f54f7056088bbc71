/* Pooling to a given size: equal windows if they divide the plane evenly, else parts whose bounds are rounded outwards.
 * The mean of a whole plane is a reduction. */
#include "base/assert.h"
#include "ops/pool/pool2d.h"

typedef struct adaptive_attributes {
    int64_t out[2];
} adaptive_attributes;

static haul_status check(const haul__call *c, const int64_t *out)
{
    const haul_shape *x = &c->operands[0]->shape;
    for (int i = 0; i < 2; i++)
        if (out[i] < 1 || out[i] > INT32_MAX)
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, i ? "width" : "height",
                              "%s is %lld; it must be from 1 to 2^31 - 1", i ? "width" : "height", (long long)out[i]);
    if (x->ndim != 4)
        return haul__refuse_shape(c, 0, "it must be [N, C, H, W]");
    if (x->dims[2] == 0 || x->dims[3] == 0)
        return haul__refuse_shape(c, 0, "only its batch and its channels can be empty");
    return HAUL_OK;
}

/* The same windows in the form that pool2d.c takes. */
static haul__pool2d_attributes windows_of(const haul__call *c, const int64_t *out)
{
    const int64_t *in = c->operands[0]->shape.dims + 2;
    HAUL__ASSERT(in[0] > 0 && in[1] > 0 && out[0] > 0 && out[1] > 0);
    haul__pool2d_attributes a = {.dilation = {1, 1}, .adaptive = in[0] % out[0] || in[1] % out[1]};
    for (int i = 0; i < 2; i++) {
        a.out[i] = out[i];
        a.size[i] = a.stride[i] = in[i] / out[i];
    }
    return a;
}

static haul_status adaptive_avg_pool2d(haul__call *c)
{
    const adaptive_attributes *of = haul__attributes(c);
    if (check(c, of->out))
        return haul_error_status();
    haul__pool2d_attributes a = windows_of(c, of->out);
    if (of->out[0] == 1 && of->out[1] == 1)
        c->results[0] = haul_mean(c->operands[0], HAUL_AXES(2, 3), .keepdim = true);
    else
        c->results[0] = HAUL__APPLY(avg_pool2d, &a, c->operands[0]);
    return HAUL_OK;
}

static haul_status adaptive_max_pool2d(haul__call *c)
{
    const adaptive_attributes *of = haul__attributes(c);
    if (check(c, of->out))
        return haul_error_status();
    haul__pool2d_attributes a = windows_of(c, of->out);
    c->results[0] = HAUL__APPLY(max_pool2d, &a, c->operands[0]);
    return HAUL_OK;
}

HAUL__OPERATION(adaptive_avg_pool2d) = {
    .name = "haul_adaptive_avg_pool2d",
    .operands = {{"x"}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(adaptive_attributes),
    .compose = adaptive_avg_pool2d,
};

HAUL__OPERATION(adaptive_max_pool2d) = {
    .name = "haul_adaptive_max_pool2d",
    .operands = {{"x"}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(adaptive_attributes),
    .compose = adaptive_max_pool2d,
};

HAUL__FUNCTION(adaptive_avg_pool2d, (&(adaptive_attributes){{height, width}}),
               (haul_tensor * x, int64_t height, int64_t width), x)

HAUL__FUNCTION(adaptive_max_pool2d, (&(adaptive_attributes){{height, width}}),
               (haul_tensor * x, int64_t height, int64_t width), x)
