/* Non-maximum suppression: of boxes that overlap, those with the highest scores. It reads boxes and scores, because the
 * number of results follows from them, and chooses on the host, one box after the other. */
#include <haul/dtype.h>
#include <haul/transfer.h>
#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/tensor.h"
#include "onnx/families.h"

#define X(i) haul__onnx_x(c, i)

typedef struct boxes {
    int64_t batches, classes, count, most; /* most: results of a class */
    double  overlap, score;                /* a box goes above this overlap, and stays above this score */
    bool    is_limited, is_centred;        /* there is a limit of scores; boxes are given by their centres */
    float  *corners, *scores;              /* [batches, count, 4]; [batches, classes, count] */
    bool   *is_left;
} boxes;

/* Batch, class and box of each choice. */
typedef struct chosen {
    int64_t  count, room;
    int64_t *items;
} chosen;

static haul_status choose(chosen *out, int64_t batch, int64_t kind, int64_t box)
{
    if (out->count == out->room) {
        const int64_t room = out->room ? 2 * out->room : 64;
        int64_t      *items = haul__realloc(out->items, (size_t)room, 3 * sizeof *items);
        if (!items)
            return haul__fail(HAUL_OUT_OF_MEMORY, "haul_load_onnx", NULL, "no memory for the boxes that were chosen");
        out->items = items;
        out->room = room;
    }
    HAUL__ASSERT(out->items && out->count < out->room);
    int64_t *item = out->items + 3 * out->count++;
    item[0] = batch, item[1] = kind, item[2] = box;
    return HAUL_OK;
}

/* The ends of a box along one axis. */
static void ends_of(const boxes *b, const float *box, int axis, double *low, double *high)
{
    const double first = box[axis], second = box[axis + 2];
    *low = b->is_centred ? first - second / 2 : fmin(first, second);
    *high = b->is_centred ? first + second / 2 : fmax(first, second);
}

/* The intersection of two boxes as a share of their union. */
static double overlap(const boxes *b, const float *one, const float *two)
{
    double shared = 1, areas[2] = {1, 1};
    for (int axis = 0; axis < 2; axis++) {
        double low[2], high[2];
        ends_of(b, one, axis, &low[0], &high[0]);
        ends_of(b, two, axis, &low[1], &high[1]);
        shared *= fmax(0, fmin(high[0], high[1]) - fmax(low[0], low[1]));
        areas[0] *= high[0] - low[0];
        areas[1] *= high[1] - low[1];
    }
    return shared > 0 ? shared / (areas[0] + areas[1] - shared) : 0;
}

/* Of equal scores the first is chosen. A score that is NaN is never chosen. */
static haul_status choose_of_class(const boxes *b, int64_t batch, int64_t kind, chosen *out)
{
    const float *scores = b->scores + (batch * b->classes + kind) * b->count,
                *corners = b->corners + batch * b->count * 4;
    HAUL__ASSERT(0 <= batch && batch < b->batches && 0 <= kind && kind < b->classes);
    for (int64_t i = 0; i < b->count; i++)
        b->is_left[i] = !isnan(scores[i]) && (!b->is_limited || scores[i] > b->score);
    for (int64_t n = 0; n < b->most; n++) {
        int64_t best = -1;
        for (int64_t i = 0; i < b->count; i++)
            if (b->is_left[i] && (best < 0 || scores[i] > scores[best]))
                best = i;
        if (best < 0)
            break;
        if (choose(out, batch, kind, best))
            return haul_error_status();
        b->is_left[best] = false;
        for (int64_t i = 0; i < b->count; i++)
            if (b->is_left[i] && overlap(b, corners + 4 * best, corners + 4 * i) > b->overlap)
                b->is_left[i] = false;
    }
    return HAUL_OK;
}

static haul_status read_floats(haul_tensor *x, float **out)
{
    const size_t bytes = haul_tensor_bytes(x);
    if (haul__failed(x))
        return haul_error_status();
    *out = haul__malloc(bytes);
    return *out ? haul_read(x, *out, bytes)
                : haul__fail(HAUL_OUT_OF_MEMORY, "haul_load_onnx", NULL, "no memory for %lld boxes or scores",
                             (long long)haul_tensor_count(x));
}

static haul_status check(haul__onnx_call *c, boxes *b)
{
    const haul_shape corners = haul__onnx_shape(c, 0), scores = haul__onnx_shape(c, 1);
    const bool       fit = corners.ndim == 3 && scores.ndim == 3 && corners.dims[2] == 4 &&
                     corners.dims[0] == scores.dims[0] && corners.dims[1] == scores.dims[2];
    if (!fit)
        return haul__onnx_wrong(c, "boxes must be [batches, n, 4], and scores [batches, classes, n]"),
               haul_error_status();
    b->batches = scores.dims[0], b->classes = scores.dims[1], b->count = scores.dims[2];
    b->is_limited = haul__onnx_has(c, 4);
    b->is_centred = haul__onnx_int(c, "center_point_box", 0) != 0;
    return haul__onnx_integer(c, 2, 0, &b->most) || haul__onnx_real(c, 3, 0, &b->overlap) ||
                   haul__onnx_real(c, 4, 0, &b->score)
               ? haul_error_status()
               : HAUL_OK;
}

haul_tensor *haul__onnx_non_max_suppression(haul__onnx_call *c)
{
    boxes        b = {0};
    chosen       out = {0};
    haul_tensor *y = NULL;
    if (check(c, &b))
        return NULL;
    haul_status status = read_floats(haul_cast(X(0), HAUL_F32), &b.corners);
    if (!status)
        status = read_floats(haul_cast(X(1), HAUL_F32), &b.scores);
    if (!status && !(b.is_left = haul__malloc((size_t)b.count)))
        status = haul__fail(HAUL_OUT_OF_MEMORY, "haul_load_onnx", NULL, "no memory for marks of %lld boxes",
                            (long long)b.count);
    for (int64_t i = 0; i < b.batches && !status; i++)
        for (int64_t k = 0; k < b.classes && !status; k++)
            status = choose_of_class(&b, i, k, &out);
    if (!status)
        y = haul_from_host(HAUL_I64, HAUL_SHAPE(out.count, 3), out.items ? out.items : (int64_t[3]){0});
    haul__free(b.corners);
    haul__free(b.scores);
    haul__free(b.is_left);
    haul__free(out.items);
    return y;
}
