/* The copy behind padding, flips, repetitions and rolls: one pass, in the result's order in memory. */
#include "ops/move/remap.h"

#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
#include "ops/move/ways_kernel.h"

typedef struct remap_params {
    I64 items;
    I64 at[2];                                   /* offsets of the buffers */
    I64 dims[8];                                 /* of the result */
    I64 sizes[8], strides[8], shifts[8], ways[8]; /* of x */
    I64 ndim;                                    /* at least 1 */
    U64 value;
} remap_params;

#if defined(HAUL_KERNEL) && IS_BITS
/* The element of x's axis for element c of the result's; -1 for none. */
FUNC I64 remap_index(I64 way, I64 c, I64 shift, I64 n)
{
    const I64 s = c + shift;
    if (way == HAUL__WAY_FILL) return s >= 0 && s < n ? s : -1;
    if (way == HAUL__WAY_EDGE) return s < 0 ? 0 : s < n ? s : n - 1;
    if (way == HAUL__WAY_MIRROR) return s < 0 ? -s : s < n ? s : 2 * (n - 1) - s;
    if (way == HAUL__WAY_WRAP) return REMAINDER(s, n);
    if (way == HAUL__WAY_BACK) return n - 1 - c;
    return way == HAUL__WAY_EACH ? QUOTIENT(c, shift) : c;
}

#if CHUNKED
/* How many elements from c on follow each other in x, at a distance of `step`; or are filled; or are repeated ones. At
 * most `most`. */
FUNC I64 remap_run(I64 way, I64 c, I64 shift, I64 n, I64 most, I64 *step)
{
    const I64 s = c + shift;
    I64 run = most;
    *step = 1;
    if (way == HAUL__WAY_BACK) *step = -1;
    else if (way == HAUL__WAY_WRAP) run = n - s % n;
    else if (way != HAUL__WAY_PLAIN && way != HAUL__WAY_EACH) {
        if (s < 0 || s >= n) *step = way == HAUL__WAY_MIRROR ? -1 : 0;
        run = s < 0 ? -s : s < n ? n - s : most;
    }
    return M_MIN_OF(run, most);
}
#endif

KERNEL2(remap, remap_params, T, y, const T, x)
{
    const int last = (int)p.ndim - 1;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        I64 q = QUOTIENT(i, p.dims[last]);
        const I64 c = i - q * p.dims[last], s = remap_index(p.ways[last], c, p.shifts[last], p.sizes[last]);
        I64 from = p.at[1] + s * p.strides[last], run = 1;
        I32 found = s >= 0;
        for (int d = last - 1; d >= 0; d--) {
            const I64 next = QUOTIENT(q, p.dims[d]);
            const I64 k = remap_index(p.ways[d], q - next * p.dims[d], p.shifts[d], p.sizes[d]);
            found = found && k >= 0;
            from += k * p.strides[d];
            q = next;
        }
        GLOBAL T *o = y + p.at[0] + i;
#if CHUNKED
        I64 step;
        run = remap_run(p.ways[last], c, p.shifts[last], p.sizes[last], M_MIN_OF(p.dims[last] - c, ITEMS_END - i), &step);
        step *= p.strides[last];
        if (!found)
            for (I64 j = 0; j < run; j++) STORE(o, j, SCALAR(p.value));
        else if (p.ways[last] == HAUL__WAY_EACH) {
            I64 k = c % p.shifts[last];
            for (I64 j = 0; j < run; j++) {
                o[j] = x[from];
                if (++k == p.shifts[last]) {
                    k = 0;
                    from += p.strides[last];
                }
            }
        } else if (step == 1)
            for (I64 j = 0; j < run; j++) o[j] = x[from + j];
        else if (step == -1)
            for (I64 j = 0; j < run; j++) o[j] = x[from - j];
        else
            for (I64 j = 0; j < run; j++) o[j] = x[from + j * step];
#else
        if (found) o[0] = x[from];
        else STORE(o, 0, SCALAR(p.value));
#endif
        i += ITEMS_STEP(run);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

/* The next axis, merged with the one before it if both are plain and step alike. */
static void add_axis(remap_params *p, int64_t dim, int64_t size, int64_t stride, haul__axis_map map)
{
    const int64_t last = p->ndim - 1;
    if (map.way == HAUL__WAY_WRAP && size == 1)
        map = (haul__axis_map){HAUL__WAY_EDGE, 0}; /* one long run */
    if (map.way == HAUL__WAY_PLAIN && last >= 0 && p->ways[last] == HAUL__WAY_PLAIN &&
        p->strides[last] == stride * size) {
        p->dims[last] *= dim;
        p->sizes[last] *= size;
        p->strides[last] = stride;
        return;
    }
    HAUL__ASSERT(p->ndim < HAUL_MAX_DIMS);
    p->dims[p->ndim] = dim;
    p->sizes[p->ndim] = size;
    p->strides[p->ndim] = stride;
    p->shifts[p->ndim] = map.shift;
    p->ways[p->ndim++] = map.way;
}

/* True if the axes have a place for each element of the result. */
static bool covers_all(const remap_params *p)
{
    int64_t places = 1; /* a part of the result's count */
    for (int64_t d = 0; d < p->ndim; d++)
        places *= p->dims[d];
    return places == p->items;
}

haul_status haul__remap(const haul__call *c, haul_tensor *y, haul_tensor *x, const haul__axis_map *maps, double value)
{
    HAUL__ASSERT(y->shape.ndim == x->shape.ndim && y->dtype == x->dtype);
    int          order[HAUL_MAX_DIMS];
    remap_params p = {.items = y->count, .at = {y->offset, x->offset}, .value = haul__element_bits(y->dtype, value)};
    if (x->count == 0)
        return haul__fill_elements(y, value, c->operation->name);
    for (int d = 0; d < y->shape.ndim; d++)
        order[d] = d;
    haul__shape_sort_axes(order, y->shape.ndim, y->strides); /* outermost first */
    for (int k = 0; k < y->shape.ndim; k++) {
        const int d = order[k];
        HAUL__ASSERT(maps[d].way != HAUL__WAY_PLAIN || y->shape.dims[d] == x->shape.dims[d]);
        if (y->shape.dims[d] != 1 || x->shape.dims[d] != 1 || maps[d].way == HAUL__WAY_FILL)
            add_axis(&p, y->shape.dims[d], x->shape.dims[d], x->strides[d], maps[d]);
    }
    if (!p.ndim)
        add_axis(&p, 1, 1, 1, (haul__axis_map){HAUL__WAY_PLAIN, 0});
    HAUL__ASSERT(covers_all(&p));
    return haul__launch_kernel(c, HAUL__K_remap, y->dtype, HAUL__OUT(y), HAUL__IN(x), HAUL__PARAMS(p), .grain = GRAIN);
}
