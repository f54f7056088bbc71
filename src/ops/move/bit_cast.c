/* The bits of elements as another dtype: a copy that takes its result for a tensor of the operand's dtype. */
#include "ops/move/bit_cast.h"

#include "base/assert.h"
#include "engine/copy.h"
#include "engine/operation.h"

typedef struct bit_cast_attributes {
    haul_dtype dtype;
} bit_cast_attributes;

static haul_status infer(haul__call *c)
{
    const bit_cast_attributes *a = haul__attributes_of(c);
    const haul_tensor         *x = c->operands[0];
    if (haul_dtype_bits(a->dtype) != haul_dtype_bits(x->dtype))
        return haul__refuse_dtype(c, 0, "a dtype with as many bits as the result's is needed");
    return haul__describe(c, 0, a->dtype, &x->shape);
}

static haul_status compute(haul__call *c)
{
    haul_tensor *x = c->operands[0], *y = c->results[0];
    HAUL__ASSERT(haul_dtype_bits(x->dtype) == haul_dtype_bits(y->dtype) && haul__shape_equal(&x->shape, &y->shape));
    haul_tensor *bits = haul__view_as(c, y, &y->shape, y->strides, y->offset);
    if (haul__failed(bits))
        return haul_error_status();
    bits->dtype = x->dtype;
    return haul__copy_elements(bits, x, c->operation->name);
}

HAUL__OPERATION(bit_cast) = {
    .name = "haul_bit_cast",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(bit_cast_attributes),
    .infer = infer,
    .compute = compute,
};

haul_tensor *haul__bit_cast(haul_tensor *x, haul_dtype dtype)
{
    return HAUL__APPLY(bit_cast, &(bit_cast_attributes){dtype}, x);
}
