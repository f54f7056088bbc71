/* One-hot rows of class numbers. */
#include "base/assert.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/index/index.h"

// clang-format off
/* kernel text begins */
typedef struct one_hot_params {
    I64 items; /* elements of the result */
    I64 classes;
    I64 offsets[2];
    U32 check, unused; /* haul__index_check */
} one_hot_params;

#if defined(HAUL_KERNEL) && defined(HAUL_KERNEL_DTYPE_bool)
KERNEL3(one_hot, one_hot_params, I64, y, const I64, index, U32, fault)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 r = QUOTIENT(i, p.classes), k = i - r * p.classes;
        const I64 row = CHUNKED ? least(p.classes - k, ITEMS_END - i) : 1;
        const I64 hot = CHECKED_INDEX(fault, p.check, r, index[p.offsets[1] + r], p.classes) - k;
        GLOBAL I64 *v = y + p.offsets[0] + i;
        VECTOR_LOOP for (I64 j = 0; j < row; j++) v[j] = j == hot;
        i += ITEMS_STEP(row);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

typedef struct one_hot_attributes {
    int64_t classes;
} one_hot_attributes;

static haul_status infer(haul__call *c)
{
    const one_hot_attributes *a = haul__attributes(c);
    haul_shape                shape = c->operands[0]->shape;
    if (a->classes < 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "classes",
                          "classes is %lld; at least 1 is expected", (long long)a->classes);
    if (shape.ndim == HAUL_MAX_DIMS)
        return haul__refuse_shape(c, 0, "one dimension fewer is expected: the result has one more");
    shape.dims[shape.ndim++] = a->classes;
    return haul__describe(c, 0, HAUL_I64, &shape);
}

static haul_status compute(haul__call *c)
{
    haul_tensor   *index = c->operands[0], *y = c->results[0];
    one_hot_params p = {.items = y->count,
                        .classes = ((const one_hot_attributes *)haul__attributes(c))->classes,
                        .offsets = {y->offset, index->offset},
                        .check = haul__index_check(HAUL__CHECK_one_hot, 0)};
    HAUL__ASSERT(y->count == index->count * p.classes);
    if (haul__check_indices(c, index, p.classes, p.check))
        return haul_error_status();
    return haul__launch_kernel(c, HAUL__K_one_hot, HAUL_I64, HAUL__OUT(y), HAUL__IN(index), HAUL__PARAMS(p),
                               .grain = GRAIN, .checks = true);
}

HAUL__OPERATION(one_hot) = {
    .name = "haul_one_hot",
    .operands = {{"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(one_hot_attributes),
    .infer = infer,
    .compute = compute,
    .flops = 1,
};

haul_tensor *haul_one_hot(haul_tensor *index, int64_t classes)
{
    return HAUL__APPLY(one_hot, &(one_hot_attributes){classes}, index);
}
