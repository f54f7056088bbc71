#include "engine/cross.h"

#include "base/assert.h"
#include "core/shape.h"
#include "engine/copy.h"
#include "memory/allocator.h"

/* What crosses a link is dense: elements are gathered or converted before or after. A large copy of elements that the
 * CPU has to gather or convert first is done in parts: while one part crosses the link, the CPU makes the next one
 * ready. Devices do that much faster than their link copies.
 *
 * A device that works in host memory needs none of these steps: its kernel reads the elements where they are and writes
 * them where they belong, so memory is read once and written once. */
enum { MOST_PARTS = 8, LEAST_PART = 1 << 20, IN_PARTS_FROM = 4 << 20 };

haul_tensor *haul__dense_temporary(const haul__call *c, haul_device *device, haul_device *partner, haul_dtype dtype,
                                   const haul_tensor *like)
{
    int64_t        strides[HAUL_MAX_DIMS];
    const char    *origin = c->operation->name;
    size_t         bytes = (size_t)like->count * haul__dtype_size(dtype);
    haul__storage *storage = haul__device_is_host(device) ? haul__host_alloc_for(partner, bytes, origin)
                                                          : haul__storage_alloc(device, bytes, origin);
    haul__shape_strides_like(&like->shape, like->strides, strides);
    haul_tensor *t = haul__tensor_wrap(storage, dtype, &like->shape, strides, 0);
    HAUL__ASSERT(haul__failed(t) || (haul__tensor_is_gap_free(t) && haul__tensor_is_sound(t)));
    haul__object_release(storage);
    return haul__own(t, origin);
}

/* True if the conversion should happen before the move: if fewer bytes cross then, or if the target cannot
 * convert. */
static bool convert_first(const haul_tensor *from, const haul_tensor *to)
{
    size_t before = haul__dtype_size(from->dtype), after = haul__dtype_size(to->dtype);
    return after < before || (from->dtype == HAUL_F64 && !to->storage->device->properties.has_f64);
}

/* The way of x to y. What crosses the link has the dtype, and is dense in the order of x's dimensions. */
typedef struct way {
    const haul__call *call;
    haul_tensor      *x, *y;
    haul_dtype        dtype;
    bool              gathers;  /* x has to be copied on its device first */
    bool              scatters; /* y has to be copied from what arrives */
    bool              fresh;
    haul__copy_note   note;
    int64_t           strides[HAUL_MAX_DIMS]; /* of what crosses */
    int               parts;
    int64_t           rows; /* of a part, in the dimension that is outermost in memory */
    int               axis; /* that dimension */
} way;

static way way_of(const haul__call *c, haul_tensor *y, haul_tensor *x, bool fresh, const haul__copy_note *note)
{
    way w = {.call = c,
             .x = x,
             .y = y,
             .fresh = fresh,
             .note = *note,
             .dtype = convert_first(x, y) ? y->dtype : x->dtype,
             .parts = 1};
    w.gathers = x->dtype != w.dtype || !haul__tensor_is_gap_free(x);
    haul__shape_strides_like(&x->shape, x->strides, w.strides);
    w.scatters = y->dtype != w.dtype || !haul__shape_equal(&x->shape, &y->shape) ||
                 !haul__shape_same_strides(&x->shape, w.strides, y->strides);
    HAUL__ASSERT(x->storage->device != y->storage->device);
    return w;
}

/* A target that is not fresh stays as it is if a copy fails, so it is written by one copy. What has to be copied again
 * where it arrives is not cut either. */
static void cut(way *w)
{
    const haul_shape *shape = &w->x->shape;
    const int64_t     bytes = w->x->count * (int64_t)haul__dtype_size(w->dtype);
    if (!w->fresh || !w->gathers || w->scatters || bytes < IN_PARTS_FROM ||
        !haul__device_is_host(w->x->storage->device) || !haul__device_computes(w->y->storage->device))
        return;
    for (int d = 1; d < shape->ndim; d++)
        if (shape->dims[d] > 1 && (shape->dims[w->axis] == 1 || w->strides[d] > w->strides[w->axis]))
            w->axis = d;
    const int64_t rows = shape->dims[w->axis], most = bytes / LEAST_PART < MOST_PARTS ? bytes / LEAST_PART : MOST_PARTS;
    w->rows = (rows + most - 1) / most;
    w->parts = (int)((rows + w->rows - 1) / w->rows);
    HAUL__ASSERT(1 <= w->parts && w->parts <= MOST_PARTS && (w->parts - 1) * w->rows < rows);
}

/* ---- the parts ---- */

typedef struct parts {
    const way       *way;
    haul_tensor     *x[MOST_PARTS], *from[MOST_PARTS], *to[MOST_PARTS], *y[MOST_PARTS];
    haul__copy_range copies[MOST_PARTS];
} parts;

/* The rows of a part of x or y; the tensor itself if there is one part. */
static haul_tensor *part_of(const way *w, haul_tensor *t, int part)
{
    haul_shape shape = t->shape;
    if (w->parts == 1)
        return t;
    const int64_t first = part * w->rows, left = shape.dims[w->axis] - first;
    HAUL__ASSERT(0 <= part && part < w->parts && left > 0);
    shape.dims[w->axis] = left < w->rows ? left : w->rows;
    return haul__own(
        haul__tensor_wrap(t->storage, t->dtype, &shape, t->strides, t->offset + first * t->strides[w->axis]),
        w->call->operation->name);
}

static haul_status prepare(parts *p, int i)
{
    const way   *w = p->way;
    haul_device *here = w->x->storage->device, *there = w->y->storage->device;
    const size_t size = haul__dtype_size(w->dtype);
    haul_tensor *x = p->x[i] = part_of(w, w->x, i), *y = p->y[i] = part_of(w, w->y, i);
    if (haul__failed(x) || haul__failed(y))
        return haul_error_status();
    haul_tensor *from = p->from[i] = w->gathers ? haul__dense_temporary(w->call, here, there, w->dtype, x) : x;
    if (haul__failed(from))
        return haul_error_status();
    haul_tensor *to = p->to[i] = w->scatters ? haul__dense_temporary(w->call, there, here, w->dtype, from) : y;
    if (haul__failed(to))
        return haul_error_status();
    HAUL__ASSERT(to->count == from->count && to->dtype == from->dtype && haul__tensor_is_gap_free(from));
    p->copies[i] = (haul__copy_range){{to->storage, (size_t)to->offset * size},
                                      {from->storage, (size_t)from->offset * size},
                                      (size_t)from->count * size};
    return HAUL_OK;
}

/* Before a part crosses. */
static haul_status gather(void *context, int i)
{
    parts *p = context;
    return p->way->gathers ? haul__copy_elements(p->from[i], p->x[i], p->way->call->operation->name) : HAUL_OK;
}

/* ---- through the memory of the host ---- */

/* True if a kernel of the device is faster. A small copy does not wait for a kernel to be compiled that it would not
 * need otherwise. */
static bool is_worth_a_kernel(const way *w, const haul_device *device, bool up)
{
    enum { FROM = 1 << 20 };
    const size_t bytes = (size_t)w->x->count * haul__dtype_size(w->dtype);
    if (!w->gathers && !w->scatters)
        return haul__device_moves_by_kernel(device, bytes);
    return bytes >= FROM || (up ? w->scatters : w->gathers);
}

/* True if a kernel of the device can copy the elements from one to the other, and pays. Drivers may expect aligned
 * memory. */
static bool is_direct(const way *w)
{
    enum { ALIGNED = 64 };
    const haul_tensor   *x = w->x, *y = w->y;
    const bool           up = haul__device_is_host(x->storage->device);
    const haul__storage *here = up ? x->storage : y->storage;
    const haul_device   *there = up ? y->storage->device : x->storage->device;
    return haul__device_is_host(here->device) && haul__device_reaches_host(there) && is_worth_a_kernel(w, there, up) &&
           (uintptr_t)here->buffer.host % ALIGNED == 0 &&
           (there->properties.has_f64 || (x->dtype != HAUL_F64 && y->dtype != HAUL_F64));
}

static haul_status cross_in_parts(way *w)
{
    parts       p = {.way = w};
    haul_status status = HAUL_OK;
    cut(w);
    for (int i = 0; i < w->parts && !status; i++)
        status = prepare(&p, i);
    if (status)
        return status;
    status = haul__transfer(&(haul__copy){.operation = w->call->operation->name,
                                          .note = w->note,
                                          .ranges = &(haul__copy_ranges){p.copies, w->parts, gather, &p},
                                          .fresh = w->fresh || w->scatters,
                                          .conversion = {w->x->dtype, w->y->dtype}});
    for (int i = 0; i < w->parts && !status && w->scatters; i++)
        status = haul__copy_elements(p.y[i], p.to[i], w->call->operation->name);
    return status;
}

haul_status haul__cross(const haul__call *c, haul_tensor *y, haul_tensor *x, bool fresh, const haul__copy_note *note)
{
    way         w = way_of(c, y, x, fresh, note);
    haul_status status = is_direct(&w) ? haul__copy_across(y, x, note, c->operation->name) : HAUL_UNSUPPORTED;
    return status == HAUL_UNSUPPORTED ? cross_in_parts(&w) : status;
}
