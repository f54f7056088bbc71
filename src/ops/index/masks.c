/* What a mask picks: the indices of its true elements, the elements of another tensor there, and elements put there.
 *
 * Each is a second pass over the mask, after places.c has counted it: a chunk of the mask is a work item, which writes
 * from its place on. haul_nonzero and haul_masked_select wait for the count if they have no .size. */
#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/index/index.h"
#include "ops/index/places.h"

// clang-format off
/* kernel text begins */
#include "ops/index/places_kernel.h"

typedef struct masks_params {
    I64 items;
    I64 count, chunk, chunks; /* elements of the mask and of a chunk; chunks */
    I64 size;                 /* true elements that there is room for, or that the source has */
    I64 offsets[4];           /* of the result, the mask, places, and x or source */
    I64 dims[8];              /* of the mask */
    I32 ndim;
    U32 check; /* haul__index_check */
} masks_params;

#ifdef HAUL_KERNEL
/* The true elements before chunk i, at most those that there is room for. */
FUNC I64 masks_place(const masks_params *p, GLOBAL const I64 *places, I64 i)
{
    return least(place_of(places + p->offsets[2], i, p->chunks), p->size);
}

/* Whether one of the next elements is true; looks at MASKS_BLOCK of them. */
enum { MASKS_BLOCK = 64 };
FUNC I32 masks_any(GLOBAL const U8 *v)
{
    U8 any = 0;
    BLOCK_LOOP for (int l = 0; l < MASKS_BLOCK; l++) any |= v[l];
    return any != 0;
}
/* How many elements from j on are false, in whole blocks. */
FUNC I64 masks_skip(GLOBAL const U8 *v, I64 j, I64 n)
{
    const I64 first = j;
    while (CHUNKED && j + MASKS_BLOCK <= n && !masks_any(v + j)) j += MASKS_BLOCK;
    return j - first;
}

#if defined(HAUL_KERNEL_DTYPE_bool)
/* Positions of true elements from out[k] on, until `end`. Every position is written, and stays if its element is true. */
FUNC void masks_positions(GLOBAL I64 *out, GLOBAL const U8 *v, I64 first, I64 n, I64 k, I64 end)
{
    for (I64 j = 0; k < end;) {
        j += masks_skip(v, j, n);
        for (I64 stop = least(j + MASKS_BLOCK, n); j < stop && k < end; j++) {
            out[k] = first + j;
            k += v[j];
        }
    }
}

/* out[k] = the index of true element k, a row for each. */
KERNEL3(true_indices, masks_params, I64, out, const U8, mask, const I64, places)
{
    FOR_ITEMS(i) {
        const I64 first = i * p.chunk, n = least(p.count - first, p.chunk), end = masks_place(&p, places, i + 1);
        const int last = p.ndim - 1;
        GLOBAL const U8 *v = mask + p.offsets[1] + first;
        GLOBAL I64 *y = out + p.offsets[0];
        I64 k = masks_place(&p, places, i), rest = first, at[8];
        if (p.ndim == 1) {
            masks_positions(y, v, first, n, k, end);
            continue;
        }
        for (int d = last; d >= 0; d--) {
            const I64 next = QUOTIENT(rest, p.dims[d]);
            at[d] = rest - next * p.dims[d];
            rest = next;
        }
        for (I64 j = 0; k < end;) {
            const I64 start = j - at[last], row = least(start + p.dims[last], n);
            while (j < row && k < end) {
                j += masks_skip(v, j, row);
                for (const I64 stop = least(j + MASKS_BLOCK, row); j < stop && k < end; j++) {
                    GLOBAL I64 *index = y + k * p.ndim;
                    for (int d = 0; d < last; d++) index[d] = at[d];
                    index[last] = j - start;
                    k += v[j];
                }
            }
            at[last] = j - start;
            for (int d = last; d > 0 && at[d] == p.dims[d]; d--) {
                at[d] = 0;
                at[d - 1]++;
            }
        }
    }
}
#endif

#if IS_BITS
/* y[k] = the element of x where true element k of the mask is. */
KERNEL4(take_true, masks_params, T, y, const T, x, const U8, mask, const I64, places)
{
    FOR_ITEMS(i) {
        const I64 first = i * p.chunk, n = least(p.count - first, p.chunk), end = masks_place(&p, places, i + 1);
        GLOBAL const U8 *v = mask + p.offsets[1] + first;
        GLOBAL const T *from = x + p.offsets[3] + first;
        GLOBAL T *to = y + p.offsets[0];
        I64 k = masks_place(&p, places, i);
        for (I64 j = 0; k < end;) {
            j += masks_skip(v, j, n);
            for (const I64 stop = least(j + MASKS_BLOCK, n); j < stop && k < end; j++) {
                to[k] = from[j];
                k += v[j];
            }
        }
    }
}

/* The elements of source one after the other to the true places of y. */
KERNEL5(put_true, masks_params, T, y, const U8, mask, const I64, places, const T, source, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 first = i * p.chunk, n = least(p.count - first, p.chunk), end = masks_place(&p, places, i + 1);
        const I64 all = i ? 0 : place_of(places + p.offsets[2], p.chunks, p.chunks);
        GLOBAL const U8 *v = mask + p.offsets[1] + first;
        GLOBAL const T *from = source + p.offsets[3];
        GLOBAL T *to = y + p.offsets[0] + first;
        I64 k = masks_place(&p, places, i);
        if (p.check && all > 0) CHECKED_INDEX(fault, p.check, all, all - 1, p.size);
        for (I64 j = 0; k < end;) {
            j += masks_skip(v, j, n);
            for (const I64 stop = least(j + MASKS_BLOCK, n); j < stop && k < end; j++)
                if (v[j]) to[j] = from[k++];
        }
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

typedef struct masks_attributes {
    int64_t size; /* of the result; the public functions begin with the caller's number */
    int64_t fill;
    bool    fills; /* there may be fewer true elements than that */
    bool    reserved[7];
} masks_attributes;

static masks_params params_of(const haul__call *c, const haul_tensor *mask, const haul_tensor *places, int64_t size)
{
    const int64_t chunk = haul__place_chunk(c->device);
    masks_params  p = {.count = mask->count, .chunk = chunk, .size = size, .ndim = mask->shape.ndim};
    p.chunks = p.items = mask->count / chunk + (mask->count % chunk != 0);
    HAUL__ASSERT(p.chunks * chunk >= mask->count && p.chunks < places->count && size >= 0);
    p.offsets[1] = mask->offset;
    p.offsets[2] = places->offset;
    for (int d = 0; d < mask->shape.ndim; d++)
        p.dims[d] = mask->shape.dims[d];
    return p;
}

static int64_t grain(const haul__call *c)
{
    return c->device->strided ? 16 : 4;
}

/* ---- indices of true elements ---- */

static haul_status indices_infer(haul__call *c)
{
    const masks_attributes *a = haul__attributes(c);
    const haul_tensor      *mask = c->operands[0];
    HAUL__ASSERT(a->size >= 0);
    if (haul__check_places(c, c->operands[1], mask->count))
        return haul_error_status();
    return haul__describe(c, 0, HAUL_I64, &HAUL_SHAPE(a->size, mask->shape.ndim));
}

static haul_status indices_compute(haul__call *c)
{
    const masks_attributes *a = haul__attributes(c);
    haul_tensor            *y = c->results[0], *mask = c->operands[0];
    masks_params            p = params_of(c, mask, c->operands[1], a->size);
    HAUL__ASSERT(y->count == a->size * mask->shape.ndim);
    p.offsets[0] = y->offset;
    if (a->fills && haul__fill_elements(y, (double)a->fill, c->operation->name))
        return haul_error_status();
    return haul__launch_kernel(c, HAUL__K_true_indices, HAUL_BOOL, HAUL__OUT(y), HAUL__IN(mask, c->operands[1]),
                               HAUL__PARAMS(p), .grain = grain(c));
}

HAUL__OPERATION(true_indices) = {
    .name = "haul_true_indices",
    .operands = {{"mask", .accepts = HAUL__ONLY(HAUL_BOOL)}, {"places", .accepts = HAUL__ONLY(HAUL_I64)}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(masks_attributes),
    .infer = indices_infer,
    .compute = indices_compute,
};

static haul_tensor *true_indices(haul_tensor *mask, haul_tensor *places, masks_attributes a)
{
    return HAUL__APPLY(true_indices, &a, mask, places);
}

haul_tensor *haul__true_positions(haul_tensor *mask, haul_tensor *places, int64_t size, int64_t fill)
{
    masks_attributes a = {.size = size, .fill = fill, .fills = true};
    return haul_reshape(true_indices(mask, places, a), HAUL_SHAPE(size));
}

/* Counts the mask, and decides on the number of results: the caller's, or the number that was counted. */
static haul_status count_mask(haul__call *c, haul_tensor *mask, haul_tensor **places)
{
    masks_attributes *a = haul__attributes(c);
    if (haul__bounded_size(c, &a->size))
        return haul_error_status();
    a->fills = a->size >= 0;
    *places = haul__true_places(mask);
    if (haul__failed(*places))
        return haul_error_status();
    return a->fills ? HAUL_OK : haul__count_true(c, *places, &a->size);
}

static haul_status nonzero(haul__call *c)
{
    haul_tensor      *places;
    masks_attributes *a = haul__attributes(c);
    a->fill = a->fill == HAUL_ZERO ? 0 : a->fill ? a->fill : -1;
    if (count_mask(c, c->operands[0], &places))
        return haul_error_status();
    c->results[0] = true_indices(c->operands[0], places, *a);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(nonzero) = {
    .name = "haul_nonzero",
    .operands = {{"x", .accepts = HAUL__EVERY, .becomes = HAUL_BOOL}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(masks_attributes),
    .compose = nonzero,
};

haul_tensor *haul_nonzero_with(const haul_nonzero_options *o)
{
    return o ? HAUL__APPLY(nonzero, (&(masks_attributes){.size = o->size, .fill = o->fill}), o->x)
             : haul__no_options(&haul__operation_nonzero);
}

/* ---- elements at true places ---- */

enum { X, MASK, PLACES };

static haul_status take_infer(haul__call *c)
{
    const masks_attributes *a = haul__attributes(c);
    HAUL__ASSERT(a->size >= 0);
    if (haul__check_places(c, c->operands[PLACES], c->operands[MASK]->count))
        return haul_error_status();
    return haul__describe(c, 0, c->operands[X]->dtype, &HAUL_SHAPE(a->size));
}

static haul_status take_compute(haul__call *c)
{
    const masks_attributes *a = haul__attributes(c);
    haul_tensor            *y = c->results[0], *x = c->operands[X];
    HAUL__ASSERT(y->count == a->size && x->count == c->operands[MASK]->count);
    masks_params p = params_of(c, c->operands[MASK], c->operands[PLACES], a->size);
    p.offsets[0] = y->offset;
    p.offsets[3] = x->offset;
    if (a->fills && haul__fill_elements(y, 0, c->operation->name))
        return haul_error_status();
    return haul__launch_kernel(c, HAUL__K_take_true, x->dtype, HAUL__OUT(y),
                               HAUL__IN(x, c->operands[MASK], c->operands[PLACES]), HAUL__PARAMS(p), .grain = grain(c));
}

static haul_tensor *put_true(haul_tensor *x, haul_tensor *mask, haul_tensor *places, haul_tensor *source, bool checks);

static void take_gradient(haul__gradient *g)
{
    g->operands[X] = put_true(HAUL_NONE, g->saved[MASK], g->saved[PLACES], g->results[0], false);
}

HAUL__OPERATION(take_true) = {
    .name = "haul_take_true",
    .operands = {{"x"},
                 {"mask", .accepts = HAUL__ONLY(HAUL_BOOL), .saved_for = HAUL__FOR_0},
                 {"places", .accepts = HAUL__ONLY(HAUL_I64), .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(masks_attributes),
    .infer = take_infer,
    .compute = take_compute,
    .gradient = take_gradient,
};

static haul_tensor *take_true(haul_tensor *x, haul_tensor *mask, haul_tensor *places, int64_t size, bool fills)
{
    masks_attributes a = {.size = size, .fills = fills};
    return HAUL__APPLY(take_true, &a, x, mask, places);
}

haul_tensor *haul__take_true(haul_tensor *x, haul_tensor *mask, haul_tensor *places, int64_t size)
{
    return take_true(x, mask, places, size, true);
}

/* x and mask in the shape to which they broadcast. */
static haul_status expand_both(haul__call *c, haul_tensor **x, haul_tensor **mask)
{
    haul_shape shape;
    if (haul__shape_broadcast(&c->operands[0]->shape, &c->operands[1]->shape, c->operation->name, &shape))
        return haul_error_status();
    *x = c->operands[0];
    *mask = c->operands[1];
    if (!haul__shape_equal(&(*x)->shape, &shape))
        *x = haul_expand(*x, shape);
    if (!haul__shape_equal(&(*mask)->shape, &shape))
        *mask = haul_contiguous(haul_expand(*mask, shape));
    return haul__failed(*x) || haul__failed(*mask) ? haul_error_status() : HAUL_OK;
}

static haul_status masked_select(haul__call *c)
{
    haul_tensor            *x, *mask, *places;
    const masks_attributes *a = haul__attributes(c);
    if (expand_both(c, &x, &mask) || count_mask(c, mask, &places))
        return haul_error_status();
    c->results[0] = take_true(x, mask, places, a->size, a->fills);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(masked_select) = {
    .name = "haul_masked_select",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"mask", .layout = HAUL__ANY_STRIDES, .accepts = HAUL__ONLY(HAUL_BOOL)}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(masks_attributes),
    .compose = masked_select,
};

haul_tensor *haul_masked_select_with(haul_tensor *x, const haul_masked_select_options *o)
{
    return o ? HAUL__APPLY(masked_select, (&(masks_attributes){.size = o->size}), x, o->mask)
             : haul__no_options(&haul__operation_masked_select);
}

/* ---- elements put to true places ---- */

typedef struct put_attributes {
    bool checks, reserved[7]; /* a source with too few elements is an error */
} put_attributes;

enum { PUT_X, PUT_MASK, PUT_PLACES, PUT_SOURCE };

static haul_status put_infer(haul__call *c)
{
    const haul_tensor *mask = c->operands[PUT_MASK];
    HAUL__ASSERT(!haul__has(c, PUT_X) || haul__shape_equal(&c->operands[PUT_X]->shape, &mask->shape));
    if (haul__check_places(c, c->operands[PUT_PLACES], mask->count))
        return haul_error_status();
    return haul__describe(c, 0, c->operands[PUT_SOURCE]->dtype, &mask->shape);
}

static haul_status put_compute(haul__call *c)
{
    haul_tensor *y = c->results[0], *mask = c->operands[PUT_MASK], *places = c->operands[PUT_PLACES];
    haul_tensor *source = c->operands[PUT_SOURCE];
    HAUL__ASSERT(haul__shape_equal(&y->shape, &mask->shape) && y->dtype == source->dtype);
    masks_params p = params_of(c, mask, places, source->count);
    p.offsets[0] = y->offset;
    p.offsets[3] = source->offset;
    p.check =
        ((const put_attributes *)haul__attributes(c))->checks ? haul__index_check(HAUL__CHECK_masked_scatter, 0) : 0;
    if (haul__has(c, PUT_X) ? haul__copy_elements(y, c->operands[PUT_X], c->operation->name)
                            : haul__fill_elements(y, 0, c->operation->name))
        return haul_error_status();
    return haul__launch_kernel(c, HAUL__K_put_true, y->dtype, HAUL__OUT(y), HAUL__IN(mask, places, source),
                               HAUL__PARAMS(p), .grain = grain(c), .checks = true);
}

static void put_gradient(haul__gradient *g)
{
    haul_tensor *mask = g->saved[PUT_MASK];
    if (haul__wanted(g, PUT_X))
        g->operands[PUT_X] = haul_masked_fill(g->results[0], mask, 0);
    if (haul__wanted(g, PUT_SOURCE)) {
        const haul_shape *shape = haul__operand_shape(g, PUT_SOURCE);
        int64_t           count = 1; /* of a tensor that exists */
        for (int d = 0; d < shape->ndim; d++)
            count *= shape->dims[d];
        haul_tensor *taken = take_true(g->results[0], mask, g->saved[PUT_PLACES], count, true);
        g->operands[PUT_SOURCE] = haul_reshape(taken, *shape);
    }
}

HAUL__OPERATION(put_true) = {
    .name = "haul_put_true",
    .operands = {{"x", .optional = true, .layout = HAUL__ANY_STRIDES},
                 {"mask", .accepts = HAUL__ONLY(HAUL_BOOL), .saved_for = HAUL__FOR_ALL},
                 {"places", .accepts = HAUL__ONLY(HAUL_I64), .saved_for = HAUL__FOR_3},
                 {"source"}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(put_attributes),
    .infer = put_infer,
    .compute = put_compute,
    .gradient = put_gradient,
};

static haul_tensor *put_true(haul_tensor *x, haul_tensor *mask, haul_tensor *places, haul_tensor *source, bool checks)
{
    return HAUL__APPLY(put_true, &(put_attributes){.checks = checks}, x, mask, places, source);
}

static haul_status masked_scatter(haul__call *c)
{
    haul_tensor *x, *mask;
    if (expand_both(c, &x, &mask))
        return haul_error_status();
    c->results[0] = put_true(x, mask, haul__true_places(mask), c->operands[2], true);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(masked_scatter) = {
    .name = "haul_masked_scatter",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"mask", .layout = HAUL__ANY_STRIDES, .accepts = HAUL__ONLY(HAUL_BOOL)},
                 {"source", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .rule = HAUL__PROMOTED,
    .compose = masked_scatter,
};

haul_tensor *haul_masked_scatter(haul_tensor *x, haul_tensor *mask, haul_tensor *source)
{
    return HAUL__APPLY(masked_scatter, NULL, x, mask, source);
}
