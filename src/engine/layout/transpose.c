/* Copies whose source and result have different innermost dimensions: element by element, each line of the source would
 * be read once for every element in it. Tiles of whole cache lines are turned around in the nearest cache instead, or
 * in memory that threads share (backends/cuda/text/transpose.h). */
#include "engine/layout/transpose.h"

#include "base/assert.h"
#include "kernels/kernels.h"

// clang-format off
/* kernel text begins */
typedef struct transpose_params {
    I64 items;                       /* of all matrices */
    I64 rows, columns;               /* of a matrix of the result; the source is dense along rows, the result along columns */
    I64 row_step, column_step;       /* between rows of the result, and between columns of the source */
    I64 dims[6];                     /* of the matrices */
    struct { I64 of[6]; } strides[2]; /* in the result and the source */
    I64 offsets[2];
    I32 ndim, nontemporal;
} transpose_params;

/* On devices whose threads share tiles, TRANSPOSE_TEAM work items copy a tile of TRANSPOSE_SIDE rows and columns, or
 * TRANSPOSE_WIDE_SIDE of elements with 8 bytes: 64 bytes of a line at least, but for small elements. */
enum { TRANSPOSE_TEAM = 32, TRANSPOSE_SIDE = 32, TRANSPOSE_WIDE_SIDE = 16 };

#if defined(HAUL_KERNEL) && IS_BITS && !defined(OWN_TILES) /* of the backend */
/* A work item is a strip: as many rows as a cache line has elements. */
enum { TRANSPOSE_LINE = CHUNKED ? 64 / (int)sizeof(T) : 1 };

KERNEL2(transpose, transpose_params, T, out, const T, x)
{
    const I64 strips = (p.rows + TRANSPOSE_LINE - 1) / TRANSPOSE_LINE;
    FOR_ITEMS(i) {
        I64 matrix = QUOTIENT(i, strips), to = p.offsets[0], from = p.offsets[1];
        const I64 first = (i - matrix * strips) * TRANSPOSE_LINE;
        const int rows = (int)least(TRANSPOSE_LINE, p.rows - first);
        for (int d = p.ndim - 1; d >= 0; d--) {
            const I64 next = QUOTIENT(matrix, p.dims[d]), at = matrix - next * p.dims[d];
            to += at * p.strides[0].of[d];
            from += at * p.strides[1].of[d];
            matrix = next;
        }
        GLOBAL T *o = out + to + first * p.row_step;
        GLOBAL const T *v = x + from + first;
        for (I64 c = 0; c < p.columns; c += TRANSPOSE_LINE) {
            T tile[TRANSPOSE_LINE][TRANSPOSE_LINE], line[TRANSPOSE_LINE];
            const int columns = (int)least(TRANSPOSE_LINE, p.columns - c);
            if (rows < TRANSPOSE_LINE || columns < TRANSPOSE_LINE) {
                for (int r = 0; r < rows; r++)
                    for (int k = 0; k < columns; k++) o[r * p.row_step + c + k] = v[(c + k) * p.column_step + r];
                continue;
            }
            for (int k = 0; k < TRANSPOSE_LINE; k++)
                for (int r = 0; r < TRANSPOSE_LINE; r++) tile[k][r] = v[(c + k) * p.column_step + r];
            if (c + 3 * TRANSPOSE_LINE <= p.columns) /* lines so far apart are not foreseen by processors */
                for (int k = 0; k < TRANSPOSE_LINE; k++) FETCH_AHEAD(v + (c + 2 * TRANSPOSE_LINE + k) * p.column_step);
            for (int r = 0; r < TRANSPOSE_LINE; r++) {
                for (int k = 0; k < TRANSPOSE_LINE; k++) line[k] = tile[k][r];
                GLOBAL T *to_line = o + r * p.row_step + c;
                if (HAS_LINES && p.nontemporal && BYTES_TO_LINE(to_line) == 0) PUT_LINE(to_line, line);
                else for (int k = 0; k < TRANSPOSE_LINE; k++) to_line[k] = line[k];
            }
        }
    }
    PUT_LINES_END(HAS_LINES && p.nontemporal);
}
#endif
/* kernel text ends */
// clang-format on

/* The dimension along which the source is dense; -1 if it is the result's innermost one or there is none. */
static int dense_dimension(const pointwise_params *p)
{
    const int last = p->ndim - 1;
    if (last < 1 || p->strides[0].of[last] != 1 || p->strides[1].of[last] == 1 || p->strides[1].of[last] == 0)
        return -1;
    for (int d = last - 1; d >= 0; d--)
        if (p->strides[1].of[d] == 1)
            return d;
    return -1;
}

bool haul__is_transpose(const pointwise_params *p, const haul_device *device)
{
    enum { LEAST = 8 }; /* rows and columns from which tiles pay */
    const int dense = dense_dimension(p);
    if (device->strided && !haul__device_shares_tiles(device))
        return false;
    return dense >= 0 && p->dims[dense] >= LEAST && p->dims[p->ndim - 1] >= LEAST;
}

/* Work items for one matrix. */
static int64_t items_of(const haul_device *device, const transpose_params *p, int64_t size)
{
    const int64_t line = 64 / size, side = size > 4 ? TRANSPOSE_WIDE_SIDE : TRANSPOSE_SIDE;
    if (haul__device_shares_tiles(device))
        return ((p->rows - 1) / side + 1) * ((p->columns - 1) / side + 1) * TRANSPOSE_TEAM;
    return (p->rows - 1) / line + 1;
}

haul_status haul__transpose(haul_device *device, haul_tensor *to, haul_tensor *from, const pointwise_params *layout,
                            const haul__copy_note *note, const char *origin)
{
    enum { GRAIN_BYTES = 1 << 17 };
    const int           last = layout->ndim - 1, dense = dense_dimension(layout);
    const int64_t       size = (int64_t)haul__dtype_size(to->dtype);
    const haul__kernel *kernel = haul__kernel_for(device, HAUL__K_transpose, to->dtype);
    transpose_params    p = {.rows = layout->dims[dense],
                             .columns = layout->dims[last],
                             .row_step = layout->strides[0].of[dense],
                             .column_step = layout->strides[1].of[last],
                             .offsets = {layout->offsets[0], layout->offsets[1]},
                             .nontemporal = layout->nontemporal};
    HAUL__ASSERT(dense >= 0 && dense < last && to->dtype == from->dtype);
    if (!kernel)
        return haul_error_status();
    p.items = items_of(device, &p, size);
    for (int d = 0; d < last; d++) {
        if (d == dense)
            continue;
        p.items *= layout->dims[d]; /* at most the number of elements */
        p.dims[p.ndim] = layout->dims[d];
        p.strides[0].of[p.ndim] = layout->strides[0].of[d];
        p.strides[1].of[p.ndim++] = layout->strides[1].of[d];
    }
    HAUL__ASSERT(p.ndim == last - 1);
    const int64_t strip = p.columns * 64;
    return haul__launch_copy(&(haul__command){.params = &p,
                                              .params_size = sizeof p,
                                              .kernel = kernel,
                                              .items = p.items,
                                              .grain = strip < GRAIN_BYTES ? GRAIN_BYTES / strip : 1},
                             HAUL__K_transpose, to, from, note, origin);
}
