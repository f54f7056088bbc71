/* Operations of a program's own (haul/custom.h) that several tests use. It uses public headers only. */
#ifndef HAUL_TESTS_CUSTOM_OPS_H
#define HAUL_TESTS_CUSTOM_OPS_H

#include <haul/haul.h>
#include <haul/kernel.h>

/* x sigmoid(beta x), a pointwise kernel. */
typedef struct swish_attributes {
    double beta;
} swish_attributes;

/* x / sqrt(mean(x^2) + eps) times a weight that may be absent, of rows. */
typedef struct rms_attributes {
    double eps;
} rms_attributes;

// clang-format off
HAUL_KERNEL2(swish_kernel, T, y, const T, x, {
    const A beta = NUMBER(0);
    FOR_ITEMS(i) {
        const A v = LOAD(x, i);
        STORE(y, i, v * M_SIGMOID(beta * v));
    }
});

HAUL_KERNEL3(rms_kernel, T, y, const T, x, const T, weight, {
    const I64 n = SIZE(0);
    FOR_ROWS(i) {
        GLOBAL const T *row = x + i * n;
        LANE_VALUES(A, s);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
        for (I64 k = 0; k + SUM_LANES <= n; k += SUM_LANES)
            EACH_LANE(l, SUM_LANES) OF_LANE(s, l) += LOAD(row, k + l) * LOAD(row, k + l);
        const I64 whole = n - n % SUM_LANES;
        EACH_LANE(l, n - whole) OF_LANE(s, l) += LOAD(row, whole + l) * LOAD(row, whole + l);
        LANE_TREE(A, s, SUM_OF)
        const A scale = LIT(1.0) / M_SQRT(OF_FIRST_LANE(s) / (A)n + NUMBER(0));
        EACH_OF_ROW(j, n) {
            const A w = GIVEN(weight) ? LOAD(weight, j) : LIT(1.0);
            STORE(y, i * n + j, LOAD(row, j) * scale * w);
        }
    }
});
// clang-format on

/* g (s + beta y (1 - s)), where s is the sigmoid of beta x. */
static void swish_gradient(haul_custom_gradient *g)
{
    const double beta = ((const swish_attributes *)g->attributes)->beta;
    haul_tensor *x = g->saved[0], *s = haul_sigmoid(haul_mul_scalar(x, beta));
    haul_tensor *y = haul_mul_scalar(haul_mul(x, s), beta);
    g->operands[0] = haul_mul(g->results[0], haul_add(s, haul_mul(y, haul_add_scalar(haul_neg(s), 1))));
}

static haul_custom_operation swish = {
    .name = "test_swish",
    .operands = {{"x", .saved = true}},
    .results = {{"y"}},
    .attributes_size = sizeof(swish_attributes),
    .kernel = &swish_kernel,
    .numbers = 1,
    .gradient = swish_gradient,
    .flops = 6,
};

static inline haul_tensor *test_swish(haul_tensor *x, double beta)
{
    return haul_apply(&swish, (&(swish_attributes){beta}), x);
}

static haul_status rms_infer(haul_custom_call *c)
{
    const haul_custom_array *x = &c->operands[0], *weight = &c->operands[1];
    if (!x->shape.ndim)
        return haul_error_set(HAUL_SHAPE, c->name, "x", "x has no dimensions");
    if (weight->dtype && (weight->shape.ndim != 1 || weight->shape.dims[0] != x->shape.dims[x->shape.ndim - 1]))
        return haul_error_set(HAUL_SHAPE, c->name, "weight", "weight has not the size of the last dimension of x");
    c->results[0].dtype = x->dtype;
    c->results[0].shape = x->shape;
    return HAUL_OK;
}

static haul_status rms_launch(const haul_custom_call *c, haul_kernel_launch *l)
{
    const haul_custom_array *x = &c->operands[0];
    l->sizes[0] = x->shape.dims[x->shape.ndim - 1];
    l->items = x->count ? x->count / l->sizes[0] : 0;
    return HAUL_OK;
}

#define ROWS_MEAN(x) haul_mean(x, HAUL_AXES(-1), .keepdim = true)

static void rms_gradient(haul_custom_gradient *g)
{
    haul_tensor *x = g->saved[0], *w = g->saved[1], *dy = g->results[0];
    haul_tensor *h = w == HAUL_NONE ? dy : haul_mul(dy, w);
    haul_tensor *scale =
        haul_rsqrt(haul_add_scalar(ROWS_MEAN(haul_square(x)), ((const rms_attributes *)g->attributes)->eps));
    haul_tensor *normal = haul_mul(x, scale);
    g->operands[0] = haul_mul(scale, haul_sub(h, haul_mul(normal, ROWS_MEAN(haul_mul(h, normal)))));
    g->operands[1] = haul_mul(dy, normal);
}

static haul_custom_operation rms = {
    .name = "test_rms",
    .operands = {{"x", .saved = true}, {"weight", .optional = true, .saved = true}},
    .results = {{"y"}},
    .attributes_size = sizeof(rms_attributes),
    .autocast = HAUL_CUSTOM_WIDE,
    .infer = rms_infer,
    .kernel = &rms_kernel,
    .numbers = 1,
    .launch = rms_launch,
    .gradient = rms_gradient,
    .flops = 4,
};

static inline haul_tensor *test_rms(haul_tensor *x, haul_tensor *weight, double eps)
{
    return haul_apply(&rms, (&(rms_attributes){eps}), x, weight);
}

#endif
