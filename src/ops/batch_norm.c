/* Batch normalisation over all axes but 1, with x seen as [images, channels, inner].
 *
 * Statistics of a channel are taken in chunks of images, mean first and squares of deviations then, and the chunks are
 * merged (Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
 * What later passes need of them is one tensor, [3, channels]: mean, 1 / sqrt(var + eps), var. The gradient has kernels
 * of its own; where it is to be differentiated again it is composed of operations. */
#include "engine/dispatch.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
typedef struct batch_norm_params {
    I64 items;
    I64 images, channels, inner;
    I64 chunks, chunk; /* images are cut into pieces */
    I64 offsets[6];    /* of the buffers */
    U64 eps, momentum, unbias;
    I32 has_weight, has_bias, training, reserved;
} batch_norm_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
#define BATCH_NORM_WIDTH (CHUNKED ? 64 : 1)

/* Item i is channel k of chunk c, rows first .. end of the images. */
#define BATCH_NORM_CHUNK                                                                                               \
    const I64 c = QUOTIENT(i, p.channels), k = i - c * p.channels;                                                     \
    const I64 first = c * p.chunk, end = M_MIN_OF(first + p.chunk, p.images), step = p.channels * p.inner;

/* Where inner is 1, of several channels side by side. */
#define BATCH_NORM_SIDE_BY_SIDE                                                                                        \
    BATCH_NORM_CHUNK                                                                                                   \
    const I64 room = CHUNKED ? M_MIN_OF(p.channels - k, ITEMS_END - i) : 1;                                            \
    const int width = (int)M_MIN_OF(room, BATCH_NORM_WIDTH);

/* Elsewhere, in lanes: every element j of the chunk is shown to lane l. */
#define BATCH_NORM_EACH(...)                                                                                           \
    for (I64 r = first; r < end; r++) {                                                                                \
        const I64 row = r * step + k * p.inner, whole = p.inner - p.inner % SUM_LANES;                                 \
        LANE_UNROLL for (I64 q = 0; q < whole; q += SUM_LANES)                                                         \
            EACH_LANE(l, SUM_LANES)                                                                                    \
            {                                                                                                          \
                const I64 j = row + q + l;                                                                             \
                __VA_ARGS__;                                                                                           \
            }                                                                                                          \
        EACH_LANE(l, p.inner - whole)                                                                                  \
        {                                                                                                              \
            const I64 j = row + whole + l;                                                                             \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    }

/* parts[0, c, k] and parts[1, c, k]: mean, and sum of squared deviations, of chunk c. Sums are of differences to the
 * chunk's first element, so that a large mean costs no digits and equal elements have no variance. */
KERNEL2(batch_norm_moments, batch_norm_params, ACC, parts, const T, x)
{
    GLOBAL const T *v = x + p.offsets[1];
    GLOBAL ACC *means = parts + p.offsets[0];
    GLOBAL ACC *squares = means + p.chunks * p.channels;
    FOR_ROWS(i)
    {
        BATCH_NORM_CHUNK
        const A one = LOAD(v, first * step + k * p.inner);
        LANE_VALUES(A, s);
        LANE_VALUES(A, t);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
        EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = 0;
        BATCH_NORM_EACH(OF_LANE(s, l) += LOAD(v, j) - one)
        LANE_TREE(A, s, SUM_OF)
        const A mean = one + OF_FIRST_LANE(s) / (A)((end - first) * p.inner);
        BATCH_NORM_EACH(OF_LANE(t, l) += (LOAD(v, j) - mean) * (LOAD(v, j) - mean))
        LANE_TREE(A, t, SUM_OF)
        const A m2 = OF_FIRST_LANE(t);
        if (IS_FIRST_LANE) {
            means[i] = mean;
            squares[i] = m2;
        }
    }
}

KERNEL2(batch_norm_moments_columns, batch_norm_params, ACC, parts, const T, x)
{
    GLOBAL const T *v = x + p.offsets[1];
    GLOBAL ACC *means = parts + p.offsets[0];
    GLOBAL ACC *squares = means + p.chunks * p.channels;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        BATCH_NORM_SIDE_BY_SIDE
        const A n = (A)(end - first);
        GLOBAL const T *one = v + first * step + k;
        A mean[BATCH_NORM_WIDTH], m2[BATCH_NORM_WIDTH];
        for (int l = 0; l < width; l++) mean[l] = 0;
        for (int l = 0; l < width; l++) m2[l] = 0;
        for (I64 r = first; r < end; r++)
            for (int l = 0; l < width; l++) mean[l] += LOAD(v, r * step + k + l) - LOAD(one, l);
        for (int l = 0; l < width; l++) mean[l] = LOAD(one, l) + mean[l] / n;
        for (I64 r = first; r < end; r++)
            for (int l = 0; l < width; l++) {
                const A d = LOAD(v, r * step + k + l) - mean[l];
                m2[l] += d * d;
            }
        for (int l = 0; l < width; l++) means[i + l] = mean[l];
        for (int l = 0; l < width; l++) squares[i + l] = m2[l];
        i += ITEMS_STEP(width);
    }
}

/* Merge the chunks of a channel: deviations from the mean of all are those within the chunks and those of their means. */
KERNEL2(batch_norm_merge, batch_norm_params, ACC, stats, const ACC, parts)
{
    GLOBAL const ACC *means = parts + p.offsets[1];
    GLOBAL const ACC *squares = means + p.chunks * p.channels;
    GLOBAL ACC *o = stats + p.offsets[0];
    FOR_ROWS(k)
    {
        const A one = means[k];
        LANE_VALUES(A, s);
        LANE_VALUES(A, t);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
        EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = 0;
        for (I64 c0 = 0; c0 < p.chunks; c0 += SUM_LANES)
            EACH_LANE(l, M_MIN_OF(p.chunks - c0, SUM_LANES))
            {
                const I64 c = c0 + l;
                const A n = (A)M_MIN_OF(p.chunk, p.images - c * p.chunk);
                OF_LANE(s, l) += (means[c * p.channels + k] - one) * n;
            }
        LANE_TREE(A, s, SUM_OF)
        const A mean = one + OF_FIRST_LANE(s) / (A)p.images;
        for (I64 c0 = 0; c0 < p.chunks; c0 += SUM_LANES)
            EACH_LANE(l, M_MIN_OF(p.chunks - c0, SUM_LANES))
            {
                const I64 c = c0 + l;
                const A n = (A)(M_MIN_OF(p.chunk, p.images - c * p.chunk) * p.inner), d = means[c * p.channels + k] - mean;
                OF_LANE(t, l) += squares[c * p.channels + k] + d * d * n;
            }
        LANE_TREE(A, t, SUM_OF)
        const A var = OF_FIRST_LANE(t) / (A)(p.images * p.inner);
        if (IS_FIRST_LANE) {
            o[k] = mean;
            o[p.channels + k] = LIT(1.0) / M_SQRT(var + SCALAR(p.eps));
            o[2 * p.channels + k] = var;
        }
    }
}

/* The same tensor from running statistics. */
KERNEL3(batch_norm_given, batch_norm_params, ACC, stats, const ACC, mean, const ACC, var)
{
    GLOBAL ACC *o = stats + p.offsets[0];
    FOR_ITEMS(k)
    {
        const A v = var[p.offsets[2] + k];
        o[k] = mean[p.offsets[1] + k];
        o[p.channels + k] = LIT(1.0) / M_SQRT(v + SCALAR(p.eps));
        o[2 * p.channels + k] = v;
    }
}

/* running = (1 - momentum) running + momentum batch */
KERNEL3(batch_norm_running, batch_norm_params, ACC, mean, ACC, var, const ACC, stats)
{
    const A m = SCALAR(p.momentum), unbias = SCALAR(p.unbias);
    GLOBAL const ACC *s = stats + p.offsets[2];
    FOR_ITEMS(k)
    {
        const I64 a = p.offsets[0] + k, b = p.offsets[1] + k;
        mean[a] = (LIT(1.0) - m) * mean[a] + m * s[k];
        var[b] = (LIT(1.0) - m) * var[b] + m * (s[2 * p.channels + k] * unbias);
    }
}

/* A run of elements from i on that lie in one channel, k (or, where inner is 1, in one image). */
#define BATCH_NORM_RUN                                                                                                 \
    const I64 r = QUOTIENT(i, p.inner), k = REMAINDER(r, p.channels);                                                 \
    const I64 room = p.inner == 1 ? p.channels - k : p.inner - (i - r * p.inner);                                      \
    const I64 run = CHUNKED ? M_MIN_OF(room, ITEMS_END - i) : 1

/* y = (x - mean) / sqrt(var + eps) weight + bias */
KERNEL5(batch_norm_apply, batch_norm_params, T, out, const T, x, const ACC, stats, const ACC, weight, const ACC, bias)
{
    GLOBAL T *o = out + p.offsets[0];
    GLOBAL const T *v = x + p.offsets[1];
    GLOBAL const ACC *means = stats + p.offsets[2];
    GLOBAL const ACC *scales = means + p.channels;
    GLOBAL const ACC *w = weight + p.offsets[3];
    GLOBAL const ACC *b = bias + p.offsets[4];
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        BATCH_NORM_RUN;
        if (p.inner == 1) {
            for (I64 j = 0; j < run; j++) {
                const A scale = scales[k + j] * (p.has_weight ? w[k + j] : LIT(1.0));
                const A shift = p.has_bias ? b[k + j] : LIT(0.0);
                STORE(o, i + j, (LOAD(v, i + j) - means[k + j]) * scale + shift);
            }
        } else {
            const A mean = means[k], scale = scales[k] * (p.has_weight ? w[k] : LIT(1.0));
            const A shift = p.has_bias ? b[k] : LIT(0.0);
            VECTOR_LOOP for (I64 j = 0; j < run; j++) STORE(o, i + j, (LOAD(v, i + j) - mean) * scale + shift);
        }
        i += ITEMS_STEP(run);
    }
}

/* parts[0, c, k] and parts[1, c, k]: the sums of g and of g (x - mean) / sqrt(var + eps) over chunk c. */
KERNEL4(batch_norm_sums, batch_norm_params, ACC, parts, const T, g, const T, x, const ACC, stats)
{
    GLOBAL const T *u = g + p.offsets[1];
    GLOBAL const T *v = x + p.offsets[2];
    GLOBAL const ACC *means = stats + p.offsets[3];
    GLOBAL const ACC *scales = means + p.channels;
    GLOBAL ACC *plain = parts + p.offsets[0];
    GLOBAL ACC *along = plain + p.chunks * p.channels;
    FOR_ROWS(i)
    {
        BATCH_NORM_CHUNK
        const A mean = means[k], scale = scales[k];
        LANE_VALUES(A, s);
        LANE_VALUES(A, t);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
        EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = 0;
        BATCH_NORM_EACH(const A one = LOAD(u, j); OF_LANE(s, l) += one;
                        OF_LANE(t, l) += one * ((LOAD(v, j) - mean) * scale))
        LANE_TREE(A, s, SUM_OF)
        LANE_TREE(A, t, SUM_OF)
        const A a = OF_FIRST_LANE(s), b = OF_FIRST_LANE(t);
        if (IS_FIRST_LANE) {
            plain[i] = a;
            along[i] = b;
        }
    }
}

KERNEL4(batch_norm_sums_columns, batch_norm_params, ACC, parts, const T, g, const T, x, const ACC, stats)
{
    GLOBAL const T *u = g + p.offsets[1];
    GLOBAL const T *v = x + p.offsets[2];
    GLOBAL const ACC *means = stats + p.offsets[3];
    GLOBAL const ACC *scales = means + p.channels;
    GLOBAL ACC *plain = parts + p.offsets[0];
    GLOBAL ACC *along = plain + p.chunks * p.channels;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        BATCH_NORM_SIDE_BY_SIDE
        A a[BATCH_NORM_WIDTH], b[BATCH_NORM_WIDTH];
        for (int l = 0; l < width; l++) a[l] = 0;
        for (int l = 0; l < width; l++) b[l] = 0;
        for (I64 r = first; r < end; r++)
            for (int l = 0; l < width; l++) {
                const I64 j = r * step + k + l;
                a[l] += LOAD(u, j);
                b[l] += LOAD(u, j) * ((LOAD(v, j) - means[k + l]) * scales[k + l]);
            }
        for (int l = 0; l < width; l++) plain[i + l] = a[l];
        for (int l = 0; l < width; l++) along[i + l] = b[l];
        i += ITEMS_STEP(width);
    }
}

/* sums[0, k] and sums[1, k]: the chunks added up. Items are both rows. */
KERNEL2(batch_norm_add, batch_norm_params, ACC, sums, const ACC, parts)
{
    FOR_ROWS(i)
    {
        const I64 row = QUOTIENT(i, p.channels), k = i - row * p.channels;
        GLOBAL const ACC *v = parts + p.offsets[1] + row * p.chunks * p.channels + k;
        LANE_VALUES(A, s);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
        for (I64 c = 0; c < p.chunks; c += SUM_LANES)
            EACH_LANE(l, M_MIN_OF(p.chunks - c, SUM_LANES)) OF_LANE(s, l) += v[(c + l) * p.channels];
        LANE_TREE(A, s, SUM_OF)
        const A sum = OF_FIRST_LANE(s);
        if (IS_FIRST_LANE) sums[p.offsets[0] + i] = sum;
    }
}

/* dx = weight / sqrt(var + eps) (g - mean(g) - x^ mean(g x^)), x^ the normalised x; in evaluation only the first g. */
KERNEL6(batch_norm_backward, batch_norm_params, T, out, const T, g, const T, x, const ACC, stats, const ACC, sums,
        const ACC, weight)
{
    GLOBAL T *o = out + p.offsets[0];
    GLOBAL const T *u = g + p.offsets[1];
    GLOBAL const T *v = x + p.offsets[2];
    GLOBAL const ACC *means = stats + p.offsets[3];
    GLOBAL const ACC *scales = means + p.channels;
    GLOBAL const ACC *plain = sums + p.offsets[4];
    GLOBAL const ACC *along = plain + p.channels;
    GLOBAL const ACC *w = weight + p.offsets[5];
    const A part = p.training ? LIT(1.0) / (A)(p.images * p.inner) : LIT(0.0);
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        BATCH_NORM_RUN;
        if (p.inner == 1) {
            for (I64 j = 0; j < run; j++) {
                const A scale = scales[k + j], a = plain[k + j] * part, b = along[k + j] * part;
                const A factor = scale * (p.has_weight ? w[k + j] : LIT(1.0));
                STORE(o, i + j, factor * (LOAD(u, i + j) - a - (LOAD(v, i + j) - means[k + j]) * scale * b));
            }
        } else {
            const A mean = means[k], scale = scales[k];
            const A factor = scale * (p.has_weight ? w[k] : LIT(1.0));
            const A a = plain[k] * part, b = along[k] * part;
            VECTOR_LOOP for (I64 j = 0; j < run; j++)
                STORE(o, i + j, factor * (LOAD(u, i + j) - a - (LOAD(v, i + j) - mean) * scale * b));
        }
        i += ITEMS_STEP(run);
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

static const char name[] = "haul_batch_norm";

enum { CHUNK_WORK = 4096, CHUNK_IMAGES = 128, GRAIN = 16384 };

typedef struct batch_norm_attributes {
    bool   training;
    double eps;
} batch_norm_attributes;

/* The operands, after checks: x row-major or channels-last, without gaps; what is absent is HAUL_NONE. */
typedef struct operands {
    haul_tensor *x, *weight, *bias, *running_mean, *running_var;
    double       momentum, eps;
    bool         training;
} operands;

/* Channels-last, each pixel is an image of its own. */
static batch_norm_params describe(const haul_tensor *x)
{
    batch_norm_params p = {.images = x->shape.dims[0], .channels = x->shape.dims[1], .inner = 1};
    bool              last = haul__wants_channels_last(x);
    for (int d = 2; d < x->shape.ndim; d++)
        *(last ? &p.images : &p.inner) *= x->shape.dims[d]; /* part of a product that was checked */
    p.chunk = p.inner == 1 ? CHUNK_IMAGES : p.inner < CHUNK_WORK ? CHUNK_WORK / (p.inner ? p.inner : 1) : 1;
    p.chunks = p.images / p.chunk + (p.images % p.chunk != 0);
    return p;
}

/* `dtype` is x's; what there is one of for a channel is in the dtype of its sums. */
static haul_status run(int kernel, haul_dtype dtype, batch_norm_params *p, haul_tensor **buffers, int outs, int count,
                       int64_t items, int64_t grain)
{
    for (int i = 0; i < count; i++)
        p->offsets[i] = buffers[i]->offset;
    p->items = items;
    return haul__run(name, buffers[0]->storage->device, kernel, dtype, buffers, outs, buffers + outs, count - outs, p,
                     sizeof *p, items, grain);
}

/* Of x's shape, dtype and memory format. */
static haul_tensor *like(const haul_tensor *x)
{
    return haul__result_like(name, x->storage->device, x->dtype, &x->shape, x);
}

static haul_tensor *sums_like(const haul_tensor *x, haul_shape shape)
{
    return haul__result(name, x->storage->device, haul__sum_dtype(x->dtype), &shape);
}

/* A tensor with a value for each channel, row-major and as the kernels take it. */
static haul_tensor *channel_values(haul_tensor *t, const haul_tensor *x)
{
    haul_dtype dtype = haul__sum_dtype(x->dtype);
    return haul_contiguous(t->dtype == dtype ? t : haul_cast(t, dtype));
}

/* Items of the passes over chunks: a channel of one, or 64 of them side by side. */
static int64_t chunk_grain(const batch_norm_params *p)
{
    return p->inner == 1 ? 64 : 1 + GRAIN / (p->chunk * p->inner + 1);
}

/* Channels lie side by side where inner is 1. */
#define KERNEL_FOR(p, name) ((p)->inner == 1 ? HAUL__K_batch_norm_##name##_columns : HAUL__K_batch_norm_##name)

static haul_tensor *batch_stats(batch_norm_params *p, haul_tensor *x)
{
    haul_tensor *parts = sums_like(x, HAUL_SHAPE(2, p->chunks, p->channels));
    haul_tensor *stats = parts ? sums_like(x, HAUL_SHAPE(3, p->channels)) : NULL;
    if (!stats || run(KERNEL_FOR(p, moments), x->dtype, p, (haul_tensor *[]){parts, x}, 1, 2, p->chunks * p->channels,
                      chunk_grain(p)))
        return NULL;
    haul_tensor *both[] = {stats, parts};
    return run(HAUL__K_batch_norm_merge, x->dtype, p, both, 1, 2, p->channels, 256) ? NULL : stats;
}

static haul_tensor *given_stats(batch_norm_params *p, const operands *o)
{
    haul_tensor *mean = channel_values(o->running_mean, o->x), *var = channel_values(o->running_var, o->x);
    haul_tensor *stats = mean && var ? sums_like(o->x, HAUL_SHAPE(3, p->channels)) : NULL;
    if (!stats ||
        run(HAUL__K_batch_norm_given, o->x->dtype, p, (haul_tensor *[]){stats, mean, var}, 1, 3, p->channels, 1024))
        return NULL;
    return stats;
}

static haul_status update_running(batch_norm_params *p, const operands *o, haul_tensor *stats)
{
    double count = (double)(p->images * p->inner);
    p->momentum = haul__scalar_bits(o->x->dtype, o->momentum);
    p->unbias = haul__scalar_bits(o->x->dtype, count / (count - 1));
    haul_tensor *mean = channel_values(o->running_mean, o->x), *var = channel_values(o->running_var, o->x);
    if (!mean || !var)
        return haul_error_status();
    haul_status status =
        run(HAUL__K_batch_norm_running, o->x->dtype, p, (haul_tensor *[]){mean, var, stats}, 2, 3, p->channels, 1024);
    if (status)
        return status;
    if (mean->dtype != o->running_mean->dtype) {
        status = haul_copy_into(o->running_mean, mean);
        return status ? status : haul_copy_into(o->running_var, var);
    }
    haul__written(o->running_mean);
    haul__written(o->running_var);
    return HAUL_OK;
}

/* ---- gradient ---- */

/* Over all axes but 1, which are kept as ones. */
static haul_tensor *over_channels(haul_tensor *x, bool mean)
{
    haul_reduce_options options = {.x = x, .keepdim = true};
    if (!x)
        return NULL;
    for (int d = 0; d < x->shape.ndim; d++)
        if (d != 1)
            options.axes[options.count++] = d;
    return mean ? haul_mean_with(&options) : haul_sum_with(&options);
}

/* [C] as [1, C, 1 ...]. */
static haul_tensor *per_channel(haul_tensor *t, int ndim)
{
    haul_shape shape = {.ndim = ndim};
    for (int d = 0; d < ndim; d++)
        shape.dims[d] = d == 1 ? -1 : 1;
    return haul_reshape(t, shape);
}

static haul_tensor *saved_or_none(haul__node *node, int i)
{
    return node->legacy[i].alias ? haul__saved(node, i) : HAUL_NONE;
}

/* Are the gradients there that are needed? */
static haul_status complete(const haul__node *node, haul_tensor *const *out)
{
    for (int i = 0; i < node->edge_count; i++)
        if (haul__needs(node, i) && !out[i])
            return haul_error_status();
    return HAUL_OK;
}

/* The gradient in operations, which can be differentiated again. */
static haul_status composed_backward(haul__node *node, haul_tensor *g, haul_tensor *x, haul_tensor *weight,
                                     haul_tensor *stats, haul_tensor **out)
{
    const batch_norm_attributes *a = node->attributes;

    int          ndim = x->shape.ndim;
    haul_shape   channels = HAUL_SHAPE(x->shape.dims[1]);
    haul_tensor *mean = a->training ? over_channels(x, true) : per_channel(haul_select(stats, 0, 0), ndim);
    haul_tensor *centred = haul_sub(x, mean), *scale;
    if (a->training)
        scale = haul_rsqrt(haul_add_scalar(over_channels(haul_square(centred), true), a->eps));
    else
        scale = per_channel(haul_select(stats, 0, 1), ndim);
    haul_tensor *normal = haul_mul(centred, scale);
    haul_tensor *gw = haul__is_none(weight) ? g : haul_mul(g, per_channel(weight, ndim));
    if (a->training)
        gw = haul_sub(haul_sub(gw, over_channels(gw, true)),
                      haul_mul(normal, over_channels(haul_mul(gw, normal), true)));
    out[0] = haul_mul(gw, scale);
    if (haul__needs(node, 1))
        out[1] = haul_reshape(over_channels(haul_mul(g, normal), false), channels);
    if (haul__needs(node, 2))
        out[2] = haul_reshape(over_channels(g, false), channels);
    return complete(node, out);
}

static haul_status fused_backward(haul__node *node, haul_tensor *g, haul_tensor *x, haul_tensor *weight,
                                  haul_tensor *stats, haul_tensor **out)
{
    batch_norm_params p = describe(x);
    p.training = ((const batch_norm_attributes *)node->attributes)->training;
    p.has_weight = !haul__is_none(weight);
    if (!haul__tensor_same_layout(g, x) && !(g = haul__in_order_of(name, g, x)))
        return haul_error_status();
    haul_tensor *parts = sums_like(x, HAUL_SHAPE(2, p.chunks, p.channels));
    haul_tensor *sums = parts ? sums_like(x, HAUL_SHAPE(2, p.channels)) : NULL;
    if (!sums ||
        run(KERNEL_FOR(&p, sums), x->dtype, &p, (haul_tensor *[]){parts, g, x, stats}, 1, 4, p.chunks * p.channels,
            chunk_grain(&p)) ||
        run(HAUL__K_batch_norm_add, x->dtype, &p, (haul_tensor *[]){sums, parts}, 1, 2, 2 * p.channels, 256))
        return haul_error_status();
    if (haul__needs(node, 0)) {
        haul_tensor *dx = like(x), *w = p.has_weight ? channel_values(weight, x) : stats;
        if (!dx || !w ||
            run(HAUL__K_batch_norm_backward, x->dtype, &p, (haul_tensor *[]){dx, g, x, stats, sums, w}, 1, 6, x->count,
                GRAIN))
            return haul_error_status();
        out[0] = dx;
    }
    if (haul__needs(node, 1))
        out[1] = haul_select(sums, 0, 1);
    if (haul__needs(node, 2))
        out[2] = haul_select(sums, 0, 0);
    return complete(node, out);
}

static haul_status backward(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    haul_tensor *x = haul__saved(node, 0), *weight = saved_or_none(node, 1), *stats = haul__saved(node, 2);
    if (!x || !weight || !stats)
        return haul_error_status();
    if (haul__records((haul_tensor *[]){x, weight, g}, 3))
        return composed_backward(node, g, x, weight, stats, out);
    return fused_backward(node, g, x, weight, stats, out);
}

/* ---- the operation ---- */

/* An optional member that was not given is NULL and counts as absent, but not after a failure. */
static haul_tensor *optional(haul_tensor *t)
{
    return t || haul_error_status() ? t : HAUL_NONE;
}

static haul_status check_channels(const char *argument, const haul_tensor *t, const haul_tensor *x)
{
    char have[96], want[96];
    if (haul__is_none(t))
        return HAUL_OK;
    if (t->shape.ndim != 1 || t->shape.dims[0] != x->shape.dims[1])
        return haul__fail(HAUL_SHAPE, name, argument, "%s has shape %s; [%lld] is expected for x of shape %s", argument,
                          haul__shape_text(&t->shape, have, sizeof have), (long long)x->shape.dims[1],
                          haul__shape_text(&x->shape, want, sizeof want));
    if (t->dtype != x->dtype && t->dtype != haul__sum_dtype(x->dtype))
        return haul__fail(HAUL_DTYPE, name, argument, "%s is %s, x is %s; cast one of them", argument,
                          haul_dtype_name(t->dtype), haul_dtype_name(x->dtype));
    return HAUL_OK;
}

static haul_status check_running(const operands *o)
{
    haul_tensor *const both[] = {o->running_mean, o->running_var};
    const char *const  names[] = {"running_mean", "running_var"};
    if (haul__is_none(both[0]) != haul__is_none(both[1]))
        return haul__fail(HAUL_INVALID_ARGUMENT, name, names[haul__is_none(both[1])],
                          "running_mean and running_var are given both or neither");
    for (int i = 0; i < 2 && !haul__is_none(both[0]); i++) {
        haul_status status = check_channels(names[i], both[i], o->x);
        if (status == HAUL_OK && o->training)
            status = haul__check_out(name, both[i], &both[i]->shape, both[i]->dtype, o->x->storage->device);
        else if (status == HAUL_OK && both[i]->storage->device != o->x->storage->device)
            status = haul__fail(HAUL_PLACEMENT, name, names[i], "%s is on %s, x is on %s; move one with haul_to",
                                names[i], both[i]->storage->device->name, o->x->storage->device->name);
        if (status == HAUL_OK && o->training && !both[i]->contiguous)
            status = haul__fail_shape(name, names[i], both[i], "it must be row-major to be updated in place");
        if (status)
            return status;
    }
    return HAUL_OK;
}

static haul_status check(operands *o)
{
    haul_tensor *x = o->x;
    if (x->shape.ndim < 2)
        return haul__fail_shape(name, "x", x, "[N, C, ...] is expected");
    if (!haul_dtype_is_float(x->dtype))
        return haul__fail_dtype(name, "x", x, "a floating dtype is expected");
    if (check_channels("weight", o->weight, x) || check_channels("bias", o->bias, x) || check_running(o))
        return haul_error_status();
    if (!o->training && haul__is_none(o->running_mean))
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "running_mean",
                          "outside training the running statistics are needed; give .running_mean and .running_var");
    if (o->training && x->count > 0 && x->count / x->shape.dims[1] < 2)
        return haul__fail_shape(name, "x", x, "in training each channel needs more than one value");
    if (!x->contiguous && !(o->x = haul__in_format(name, x, haul__wants_channels_last(x))))
        return haul_error_status();
    haul_tensor **dense[] = {&o->weight, &o->bias};
    for (int i = 0; i < 2; i++)
        if (!haul__is_none(*dense[i]) && !(*dense[i])->contiguous && !(*dense[i] = haul_contiguous(*dense[i])))
            return haul_error_status();
    return HAUL_OK;
}

static haul_tensor *compute(const operands *o)
{
    batch_norm_params p = describe(o->x);
    p.eps = haul__scalar_bits(o->x->dtype, o->eps);
    p.has_weight = !haul__is_none(o->weight);
    p.has_bias = !haul__is_none(o->bias);
    haul_tensor *y = like(o->x);
    haul_tensor *stats = y ? o->training ? batch_stats(&p, o->x) : given_stats(&p, o) : NULL;
    if (!stats)
        return NULL;
    haul_tensor *w = p.has_weight ? channel_values(o->weight, o->x) : stats; /* any buffer will do */
    haul_tensor *b = p.has_bias ? channel_values(o->bias, o->x) : stats;
    if (!w || !b ||
        run(HAUL__K_batch_norm_apply, o->x->dtype, &p, (haul_tensor *[]){y, o->x, stats, w, b}, 1, 5, y->count, GRAIN))
        return NULL;
    haul_tensor *in[] = {o->x, o->weight, o->bias};
    y = haul__finish(y, &(haul__record){.name = name,
                                        .backward = backward,
                                        .inputs = in,
                                        .input_count = 3,
                                        .saves = (haul_tensor *[]){o->x, o->weight, stats},
                                        .save_count = 3,
                                        .attributes = &(batch_norm_attributes){o->training, o->eps},
                                        .attributes_size = sizeof(batch_norm_attributes)});
    /* last, when nothing else can fail */
    if (y && o->training && !haul__is_none(o->running_mean) && y->count && update_running(&p, o, stats))
        return NULL;
    return y;
}

haul_tensor *haul_batch_norm_with(haul_tensor *x, const haul_batch_norm_options *options)
{
    if (!options) {
        haul__fail_null(name, "options");
        return NULL;
    }
    haul_tensor *in[] = {x, options->weight, optional(options->bias)};
    operands     o = {.running_mean = optional(options->running_mean),
                      .running_var = optional(options->running_var),
                      .momentum = options->momentum != 0 ? options->momentum : 0.1,
                      .eps = options->eps != 0 ? options->eps : 1e-5,
                      .training = options->training};
    haul_tensor *y = NULL;
    if (!o.running_mean || !o.running_var) {
        haul__fail_null(name, o.running_mean ? "running_var" : "running_mean");
        return NULL;
    }
    haul_scope *scope = haul_scope_push();
    if (scope && haul__place(name, in, (const char *const[]){"x", "weight", "bias"}, 3)) {
        o.x = in[0];
        o.weight = in[1];
        o.bias = in[2];
        if (haul__is_none(o.x))
            haul__fail(HAUL_INVALID_ARGUMENT, name, "x", "x is HAUL_NONE, but a tensor is needed here");
        else if (check(&o) == HAUL_OK)
            y = compute(&o);
    }
    return haul_scope_return(scope, y);
}
