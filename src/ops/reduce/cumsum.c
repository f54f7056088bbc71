/* Running sums along an axis.
 *
 * A line along the axis is cut into blocks of CUMSUM_BLOCK elements. A work item sums one block. If a line has several
 * blocks, each then adds the sum of the blocks before it, from the running sums of the blocks' totals, which the same
 * kernels compute. So only the shape decides the order of additions. */
#include "base/numbers.h"
#include "engine/copy.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
enum { CUMSUM_BLOCK = 1024 };
/* Neighbouring lines that an item takes. */
enum { CUMSUM_WIDTH = 64 };

typedef struct cumsum_params {
    I64 items;
    I64 length, blocks, inner; /* x is [outer, length, inner], totals are [outer, blocks, inner] */
    I64 offsets[3];            /* of the buffers */
    I32 reverse, reserved;     /* reverse: from the end of each line */
} cumsum_params;

#ifdef HAUL_KERNEL
/* y = the running sums of each block, totals = the last of them; an item is an element of totals. */
KERNEL3(cumsum, cumsum_params, T, y, T, totals, const T, x)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 r = QUOTIENT(i, p.inner), o = QUOTIENT(r, p.blocks), k = i - r * p.inner, b = r - o * p.blocks;
        const int row = NEIGHBOURS(p.inner - k, ITEMS_END - i, CUMSUM_WIDTH);
        const I64 first = b * CUMSUM_BLOCK, n = least(p.length - first, CUMSUM_BLOCK);
        const I64 from = p.reverse ? p.length - 1 - first : first, stride = p.reverse ? -p.inner : p.inner;
        GLOBAL const T *v = x + p.offsets[2] + (o * p.length + from) * p.inner + k;
        GLOBAL T *w = y + p.offsets[0] + (o * p.length + from) * p.inner + k;
        A s[CHUNKED ? CUMSUM_WIDTH : 1], sum = 0;
        for (int j = 0; j < row; j++) s[j] = 0;
        if (!CHUNKED || row == 1) {
            for (I64 l = 0; l < n; l++) {
                sum += LOAD(v, l * stride);
                STORE(w, l * stride, sum);
            }
            s[0] = sum;
        } else {
            for (I64 l = 0; l < n; l++, v += stride, w += stride)
                VECTOR_LOOP for (int j = 0; j < row; j++) {
                    s[j] += LOAD(v, j);
                    STORE(w, j, s[j]);
                }
        }
        if (p.blocks > 1)
            for (int j = 0; j < row; j++) STORE(totals, p.offsets[1] + i + j, s[j]);
        i += ITEMS_STEP(row);
    }
}

/* y += the running sum of totals up to the block before; an item is an element of y. */
KERNEL2(cumsum_add, cumsum_params, T, y, const T, before)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 r = QUOTIENT(i, p.inner), o = QUOTIENT(r, p.length), k = i - r * p.inner;
        const I64 place = p.reverse ? p.length - 1 - (r - o * p.length) : r - o * p.length;
        const I64 b = place / CUMSUM_BLOCK, in = place % CUMSUM_BLOCK;
        const I64 left = p.reverse ? in + 1 : least(CUMSUM_BLOCK - in, p.length - place); /* of the block, in memory */
        const I64 room = p.inner > 1 ? p.inner - k : left, row = CHUNKED ? least(room, ITEMS_END - i) : 1;
        GLOBAL const T *v = before + p.offsets[1] + (o * p.blocks + b - 1) * p.inner + k;
        GLOBAL T *w = y + p.offsets[0] + i;
        if (b && p.inner > 1) {
            VECTOR_LOOP for (I64 j = 0; j < row; j++) STORE(w, j, LOAD(w, j) + LOAD(v, j));
        } else if (b) {
            const A s = LOAD(v, 0);
            VECTOR_LOOP for (I64 j = 0; j < row; j++) STORE(w, j, LOAD(w, j) + s);
        }
        i += ITEMS_STEP(row);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

typedef struct cumsum_attributes {
    int  axis;
    bool reverse;
    bool reserved[3];
} cumsum_attributes;

static haul_status infer(haul__call *c)
{
    const haul_tensor *x = c->operands[0];
    if (haul__call_axis(c, 0, &((cumsum_attributes *)haul__attributes(c))->axis))
        return haul_error_status();
    return haul__describe(c, 0, haul_dtype_is_float(x->dtype) ? x->dtype : HAUL_I64, &x->shape);
}

/* y = the running sums of x; both have p's shape, are row-major, and may be the same tensor. */
static haul_status scan(const haul__call *c, haul_tensor *y, haul_tensor *x, cumsum_params p, int64_t outer)
{
    p.blocks = haul__ceil_div(p.length, CUMSUM_BLOCK);
    p.items = outer * p.blocks * p.inner; /* no more than there are elements */
    haul_tensor *totals = p.blocks > 1 ? haul__temporary(c, x->dtype, &HAUL_SHAPE(p.items)) : y;
    if (!totals)
        return haul_error_status();
    p.offsets[0] = y->offset;
    p.offsets[1] = totals->offset;
    p.offsets[2] = x->offset;
    haul_status status = haul__launch_kernel(c, HAUL__K_cumsum, x->dtype, HAUL__OUT(y, totals), HAUL__IN(x),
                                             HAUL__PARAMS(p), .grain = 1 + GRAIN / (x->count / p.items + 1));
    if (status || p.blocks == 1)
        return status;
    cumsum_params of_totals = {.length = p.blocks, .inner = p.inner};
    status = scan(c, totals, totals, of_totals, outer);
    p.items = y->count;
    return status ? status
                  : haul__launch_kernel(c, HAUL__K_cumsum_add, y->dtype, HAUL__OUT(y), HAUL__IN(totals),
                                        HAUL__PARAMS(p), .grain = GRAIN);
}

/* Half precision is summed in f32. */
static haul_status compute(haul__call *c)
{
    const cumsum_attributes *a = haul__attributes(c);
    haul_tensor             *y = c->results[0];
    haul_dtype               dtype = haul__sum_dtype(y->dtype);
    if (y->count == 0)
        return HAUL_OK;
    haul_tensor  *x = haul__as_dtype(c, c->operands[0], dtype);
    haul_tensor  *sums = y->dtype == dtype ? y : haul__temporary(c, dtype, &y->shape);
    cumsum_params p = {.length = 1, .inner = 1, .reverse = a->reverse};
    int64_t       outer = 1;
    for (int d = 0; d < y->shape.ndim; d++) /* parts of a product that was checked */
        *(d < a->axis ? &outer : d == a->axis ? &p.length : &p.inner) *= y->shape.dims[d];
    if (!x || !sums || scan(c, sums, x, p, outer))
        return haul_error_status();
    return sums == y ? HAUL_OK : haul__copy_elements(y, sums, c->operation->name);
}

static void gradient(haul__gradient *c);

HAUL__OPERATION(cumsum) = {
    .name = "haul_cumsum",
    .operands = {{"x"}},
    .results = {{"y"}},
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(cumsum_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 1,
};

/* Element i is part of all sums from i on. */
static void gradient(haul__gradient *c)
{
    cumsum_attributes a = *(const cumsum_attributes *)c->attributes;
    a.reverse = !a.reverse;
    c->operands[0] = HAUL__APPLY(cumsum, &a, c->results[0]);
}

haul_tensor *haul_cumsum(haul_tensor *x, int axis)
{
    return HAUL__APPLY(cumsum, &(cumsum_attributes){.axis = axis}, x);
}

haul_status haul_cumsum_into(haul_tensor *out, haul_tensor *x, int axis)
{
    return HAUL__APPLY_INTO(out, cumsum, &(cumsum_attributes){.axis = axis}, x);
}
