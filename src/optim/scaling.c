/* Loss scaling on the device: gradients are divided by the scale and checked for values that are not finite, and the
 * scale is adapted, without the host knowing (Micikevicius et al., "Mixed precision training", 2018). */
#include "optim/scaling.h"

#include "base/assert.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
typedef struct scaling_params {
    I64 items;
    I64 count; /* elements of the gradient; marks */
    I64 piece; /* elements that leave one mark */
    I64 offsets[5];
    U64 growth, backoff, least; /* bits of f32 */
    I64 interval;
    I32 counts, reserved;
} scaling_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
KERNEL3(grad_unscale, scaling_params, T, grad, F32, marks, const F32, scale)
{
    const A factor = LIT(1.0) / (A)scale[p.offsets[2]];
    FOR_ROWS(i)
    {
        const I64 first = i * p.piece, left = p.count - first, n = M_MIN_OF(left, p.piece);
        GLOBAL T *g = grad + p.offsets[0] + first;
        LANE_VALUES(A, bad);
        EACH_LANE(l, SUM_LANES) OF_LANE(bad, l) = 0;
        LANE_UNROLL for (I64 j = 0; j < n; j += SUM_LANES)
            EACH_LANE(l, M_MIN_OF(n - j, SUM_LANES))
            {
                const A v = LOAD(g, j + l) * factor;
                OF_LANE(bad, l) += v - v == 0 ? LIT(0.0) : LIT(1.0);
                STORE(g, j + l, v);
            }
        LANE_TREE(A, bad, SUM_OF)
        const A sum = OF_FIRST_LANE(bad);
        if (IS_FIRST_LANE) marks[p.offsets[1] + i] = (F32)sum;
    }
}

/* One item. */
KERNEL3(grad_found, scaling_params, F32, found, I64, skipped, const F32, marks)
{
    FOR_ROWS(i)
    {
        GLOBAL const F32 *m = marks + p.offsets[2];
        LANE_VALUES(A, bad);
        EACH_LANE(l, SUM_LANES) OF_LANE(bad, l) = 0;
        LANE_UNROLL for (I64 j = 0; j < p.count; j += SUM_LANES)
            EACH_LANE(l, M_MIN_OF(p.count - j, SUM_LANES)) OF_LANE(bad, l) += m[j + l];
        LANE_TREE(A, bad, SUM_OF)
        const A sum = OF_FIRST_LANE(bad);
        if (IS_FIRST_LANE) {
            found[p.offsets[0] + i] = sum != 0 ? 1.0f : 0.0f;
            if (p.counts && sum != 0) skipped[p.offsets[1]] += 1;
        }
    }
}

/* The tracker counts steps without an overflow since the scale changed, or, below 0, consecutive steps that were skipped
 * although the scale was the least one. */
KERNEL5(grad_scale_update, scaling_params, F32, new_scale, I32, new_tracker, const F32, scale, const I32, tracker,
        const F32, found)
{
    FOR_ITEMS(i)
    {
        const A old = scale[p.offsets[2] + i];
        const I32 before = tracker[p.offsets[3] + i], steps = (before < 0 ? 0 : before) + 1;
        const int bad = found[p.offsets[4] + i] != 0, due = !bad && steps >= p.interval;
        const int stuck = bad && old <= SCALAR(p.least) && before > -0x7fffffff;
        const A grown = old * SCALAR(p.growth), reduced = M_MAX_OF(old * SCALAR(p.backoff), SCALAR(p.least));
        new_scale[p.offsets[0] + i] = (F32)(bad ? reduced : due && grown - grown == 0 ? grown : old);
        new_tracker[p.offsets[1] + i] = stuck ? (before < 0 ? before : 0) - 1 : bad || due ? 0 : steps;
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* The elements per mark: a row of lanes, and more for a large gradient, so that marks are few. */
static int64_t piece_of(int64_t count)
{
    enum { LEAST = 2048, MOST_MARKS = 2048, ROUND = 1024 };
    int64_t piece = count / MOST_MARKS / ROUND * ROUND + ROUND;
    return piece > LEAST ? piece : LEAST;
}

int64_t haul__grad_marks(int64_t count)
{
    return count / piece_of(count) + (count % piece_of(count) != 0);
}

haul_status haul__grad_prepare(const haul_tensor *grad)
{
    haul_device *device = grad->storage->device;
    if (!haul__device_computes(device))
        return HAUL_OK;
    return haul__kernel_for(device, HAUL__K_grad_unscale, grad->dtype) &&
                   haul__kernel_for(device, HAUL__K_grad_found, HAUL_F32)
               ? HAUL_OK
               : haul_error_status();
}

/* ---- unscaling ---- */

typedef struct unscale_attributes {
    int64_t at; /* the first mark */
} unscale_attributes;

static haul_status infer_nothing(haul__call *c)
{
    (void)c; /* there are no results */
    return HAUL_OK;
}

static haul_status compute_unscale(haul__call *c)
{
    const unscale_attributes *a = haul__attributes(c);
    const haul_tensor        *grad = c->operands[0], *marks = c->operands[1], *scale = c->operands[2];
    scaling_params            p = {.items = haul__grad_marks(grad->count),
                                   .count = grad->count,
                                   .piece = piece_of(grad->count),
                                   .offsets = {grad->offset, marks->offset + a->at, scale->offset}};
    HAUL__ASSERT(a->at >= 0 && a->at + p.items <= marks->count);
    HAUL__ASSERT(scale->count == 1);
    return haul__launch_kernel(c, HAUL__K_grad_unscale, grad->dtype, .outs = c->operands, .out_count = 2,
                               .ins = c->operands + 2, .in_count = 1, HAUL__PARAMS(p), .grain = 4);
}

HAUL__OPERATION(grad_scaler_unscale) = {
    .name = "haul_grad_scaler_unscale",
    .operands = {{"grad", .written = true},
                 {"marks", .written = true, .accepts = HAUL__ONLY(HAUL_F32)},
                 {"scale", .accepts = HAUL__ONLY(HAUL_F32)}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(unscale_attributes),
    .infer = infer_nothing,
    .compute = compute_unscale,
    .flops = 3,
};

haul_status haul__grad_unscale(haul_tensor *grad, haul_tensor *scale, haul_tensor *marks, int64_t at)
{
    return HAUL__APPLY_STATUS(grad_scaler_unscale, &(unscale_attributes){at}, grad, marks, scale);
}

static haul_status compute_found(haul__call *c)
{
    const haul_tensor *marks = c->operands[2];
    bool               counts = haul__has(c, 1);
    haul_tensor       *outs[] = {c->operands[0], c->operands[counts ? 1 : 0]}; /* any buffer will do */
    HAUL__ASSERT(outs[0]->count == 1 && marks->count > 0);
    scaling_params p = {.items = 1,
                        .count = marks->count,
                        .offsets = {outs[0]->offset, outs[1]->offset, marks->offset},
                        .counts = counts};
    return haul__launch_kernel(c, HAUL__K_grad_found, HAUL_F32, .outs = outs, .out_count = 2, .ins = c->operands + 2,
                               .in_count = 1, HAUL__PARAMS(p), .grain = 1);
}

HAUL__OPERATION(grad_scaler_found) = {
    .name = "haul_grad_scaler_found",
    .operands = {{"found", .written = true, .accepts = HAUL__ONLY(HAUL_F32)},
                 {"skipped", .written = true, .optional = true, .accepts = HAUL__ONLY(HAUL_I64)},
                 {"marks", .accepts = HAUL__ONLY(HAUL_F32)}},
    .infer = infer_nothing,
    .compute = compute_found,
    .flops = 1,
};

haul_status haul__grad_found(haul_tensor *found, haul_tensor *skipped, haul_tensor *marks)
{
    return HAUL__APPLY_STATUS(grad_scaler_found, NULL, found, skipped, marks);
}

/* ---- the next scale ---- */

static haul_status infer_update(haul__call *c)
{
    haul_status status = haul__describe(c, 0, HAUL_F32, &c->operands[0]->shape);
    return status ? status : haul__describe(c, 1, HAUL_I32, &c->operands[0]->shape);
}

static haul_status compute_update(haul__call *c)
{
    const haul__grad_growth *how = haul__attributes(c);
    scaling_params           p = {.items = 1,
                                  .growth = haul__scalar_bits(HAUL_F32, how->growth),
                                  .backoff = haul__scalar_bits(HAUL_F32, how->backoff),
                                  .least = haul__scalar_bits(HAUL_F32, how->least),
                                  .interval = how->interval};
    HAUL__ASSERT(how->interval > 0 && how->least > 0 && how->growth > 1);
    for (int i = 0; i < 2; i++)
        p.offsets[i] = c->results[i]->offset;
    for (int i = 0; i < 3; i++)
        p.offsets[2 + i] = c->operands[i]->offset;
    return haul__launch_kernel(c, HAUL__K_grad_scale_update, HAUL_F32, .outs = c->results, .out_count = 2,
                               .ins = c->operands, .in_count = 3, HAUL__PARAMS(p), .grain = 1);
}

HAUL__OPERATION(grad_scaler_update) = {
    .name = "haul_grad_scaler_update",
    .operands = {{"scale", .accepts = HAUL__ONLY(HAUL_F32)},
                 {"tracker", .accepts = HAUL__ONLY(HAUL_I32)},
                 {"found", .accepts = HAUL__ONLY(HAUL_F32)}},
    .results = {{"new_scale"}, {"new_tracker"}},
    .attributes_size = HAUL__ATTRIBUTES(haul__grad_growth),
    .infer = infer_update,
    .compute = compute_update,
    .flops = 4,
};

haul_status haul__grad_scale_update(haul_tensor **scale, haul_tensor **tracker, haul_tensor *found,
                                    const haul__grad_growth *how)
{
    haul_tensor *made[HAUL__MAX_RESULTS];
    if (haul__apply(&haul__operation_grad_scaler_update, how, HAUL__OPERANDS(*scale, *tracker, found), made))
        return haul_error_status();
    *scale = made[0];
    *tracker = made[1];
    return HAUL_OK;
}
