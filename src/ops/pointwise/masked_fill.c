/* haul_masked_fill: a number where a mask is true. Its gradient is a masked_fill with 0. The gradient of haul_where
 * uses the same kernel with 0. */
#include "ops/pointwise/masked_fill.h"
#include "ops/attributes.h"

#include "engine/layout/layout.h"
#include "kernels/kernels.h"

// clang-format off
/* kernel text begins */
#if defined(HAUL_KERNEL) && IS_BITS
/* s0 where the mask, 0 or 1, is s1, else the element. */
KERNEL3(masked_fill, pointwise_params, T, out, const T, in0, const U8, in1)
{
    const int last = p.ndim - 1;
    const A s0 = SCALAR(p.scalars[0]), s1 = SCALAR(p.scalars[1]);
    const I64 t0 = p.strides[0].of[last], t1 = p.strides[1].of[last], t2 = p.strides[2].of[last];
#if CHUNKED
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        I64 at[3];
        const I64 row = pointwise_row(&p, i, ITEMS_END - i, 3, at);
        GLOBAL T *o = out + at[0];
        GLOBAL const T *v = in0 + at[1];
        GLOBAL const U8 *w = in1 + at[2];
        if (t0 == 1 && t1 == 1 && t2 == 1)
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                const A x = LOAD(v, j);
                STORE(o, j, (A)w[j] == s1 ? s0 : x);
            }
        else
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                const A x = LOAD(v, j * t1);
                STORE(o, j * t0, (A)w[j * t2] == s1 ? s0 : x);
            }
        i += ITEMS_STEP(row);
    }
#else
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END; i += ITEMS_STEP(1)) {
        I64 at[3];
        const int n = pointwise_pack(&p, i, 3, at);
        GLOBAL T *o = out + at[0];
        GLOBAL const T *v = in0 + at[1];
        GLOBAL const U8 *w = in1 + at[2];
        if (pointwise_is_whole(&p, n)) {
            pack_T y;
            EXPAND(pack_load, T, v0, v, t1)
            EXPAND(pack_load, U8, w0, w, t2)
            PACK_LOOP for (int j = 0; j < PACK; j++) {
                const A x = LOAD(v0.of, j);
                STORE(y.of, j, (A)w0.of[j] == s1 ? s0 : x);
            }
            EXPAND(pack_store, T, o, y)
        } else {
            PACK_REST for (int j = 0; j < n; j++) {
                const A x = LOAD(v, j * t1);
                STORE(o, j * t0, (A)w[j * t2] == s1 ? s0 : x);
            }
        }
    }
#endif
}
#endif
/* kernel text ends */
// clang-format on

haul_status haul__fill_where(const haul__call *c, haul_tensor *x, haul_tensor *mask, bool where, double value)
{
    haul_tensor     *y = c->results[0], *operands[] = {y, x, mask};
    pointwise_params p;
    haul__layout(&p, &y->shape, operands, 3);
    p.scalars[0] = haul__element_bits(y->dtype, value);
    p.scalars[1] = where;
    haul__layout_packs(&p, c->device, y->dtype, 3);
    return haul__launch_kernel(c, HAUL__K_masked_fill, y->dtype, HAUL__OUT(y), .ins = operands + 1, .in_count = 2,
                               HAUL__PARAMS(p), .grain = HAUL__POINTWISE_GRAIN);
}

static haul_status infer(haul__call *c)
{
    const double value = ((const haul__masked_fill_attributes *)haul__attributes(c))->value;
    haul_dtype   dtype = c->operands[0]->dtype;
    if (!haul__dtype_holds(dtype, value))
        return haul__refuse_number(c->operation->name, "value", dtype, value, "cast x to another dtype with haul_cast");
    return haul__describe_pointwise(c, dtype);
}

static haul_status compute(haul__call *c)
{
    return haul__fill_where(c, c->operands[0], c->operands[1], true,
                            ((const haul__masked_fill_attributes *)haul__attributes(c))->value);
}

static void gradient(haul__gradient *g)
{
    g->operands[0] = haul_masked_fill(g->results[0], g->saved[1], 0);
}

HAUL__OPERATION(masked_fill) = {
    .name = "haul_masked_fill",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"mask", .layout = HAUL__ANY_STRIDES, .accepts = HAUL__ONLY(HAUL_BOOL), .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .elementwise = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__masked_fill_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
};

HAUL__FUNCTIONS(masked_fill, &(haul__masked_fill_attributes){value}, (haul_tensor * x, haul_tensor *mask, double value),
                x, mask)
