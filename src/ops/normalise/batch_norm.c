/* Batch normalisation over all axes but 1, with x seen as [images, channels, inner].
 *
 * The statistics of a channel are computed in chunks of images, first the mean and then the squared deviations, and the
 * chunks are merged (Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
 * 1979). Later passes need one tensor of them, [3, channels]: mean, 1 / sqrt(var + eps), var. The gradient has its own
 * kernels; if it is to be differentiated again, it is composed of operations (batch_norm_gradient.c). */
#include "ops/normalise/batch_norm.h"

#include "base/assert.h"
#include "core/option.h"
#include "engine/copy.h"
#include "engine/node.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
#include "ops/reduce/range_kernel.h"

typedef struct batch_norm_params {
    I64 items;
    I64 images, channels, inner;
    I64 chunks, chunk; /* images are cut into pieces */
    I64 offsets[6];    /* of the buffers */
    U64 eps, momentum, unbias;
    I32 has_weight, has_bias, training, reserved;
} batch_norm_params;

enum { BATCH_NORM_WIDTH = 64 }; /* neighbouring channels that are taken side by side */

#if defined(HAUL_KERNEL) && IS_FLOAT

/* DO for each element j of channel k of a chunk, rows first .. end, in lane l. */
TEMPLATE(batch_norm_each, DO)
        for (I64 r = first; r < end; r++) {
            const I64 row = r * step + k * p.inner, whole = p.inner - p.inner % SUM_LANES;
            LANE_UNROLL for (I64 q = 0; q < whole; q += SUM_LANES)
                EACH_LANE(l, SUM_LANES) {
                    const I64 j = row + q + l;
                    DO;
                }
            EACH_LANE(l, p.inner - whole) {
                const I64 j = row + whole + l;
                DO;
            }
        }
END_TEMPLATE

/* Below it, a sum of squared deviations lost digits that eps does not hide. */
FUNC A batch_norm_least(const batch_norm_params p) { return SCALAR(p.eps) < squares_least() ? squares_least() : LIT(0.0); }
FUNC A batch_norm_term(A x, A centre, A factor, int squares)
{
    return squares ? (x - centre) * factor * ((x - centre) * factor) : x * factor - centre * factor;
}
/* The sum over channel k of a chunk of v - centre, or of its square, times factor: in lanes, and in one thread. */
FUNC A batch_norm_sum(GLOBAL const T *v, const batch_norm_params p, I64 first, I64 end, I64 k, A centre, A factor, int squares)
{
    const I64 step = p.channels * p.inner;
    LANE_VALUES(A, s);
    EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
    EXPAND(batch_norm_each, OF_LANE(s, l) += batch_norm_term(LOAD(v, j), centre, factor, squares))
    LANE_TREE(A, s, SUM_OF)
    return OF_FIRST_LANE(s);
}
FUNC A batch_norm_sum_column(GLOBAL const T *v, const batch_norm_params p, I64 first, I64 end, I64 k, A centre, A factor, int squares)
{
    A s = 0;
    for (I64 j = first * p.channels + k; j < end * p.channels; j += p.channels) s += batch_norm_term(LOAD(v, j), centre, factor, squares);
    return s;
}
/* The mean and the sum of squared deviations of channel k of a chunk, where one of both left the range, and that of mended
 * ones, which is the result. SUM is one of the two above. */
TEMPLATE(batch_norm_mended, NAME, SUM)
RARE_FUNC A NAME(GLOBAL const T *v, const batch_norm_params p, I64 first, I64 end, I64 k, PRIVATE A *mean, PRIVATE A *m2)
{
    const A one = LOAD(v, (first * p.channels + k) * p.inner);
    const A lower = SUM(v, p, first, end, k, one, range_lower(), 0) / (A)((end - first) * p.inner);
    *mean = is_finite(*mean) ? *mean : one + lower / range_lower();
    *m2 = SUM(v, p, first, end, k, *mean, LIT(1.0), 1);
    return SUM(v, p, first, end, k, *mean, range_factor(*m2), 1);
}
END_TEMPLATE
EXPAND(batch_norm_mended, batch_norm_mend_row, batch_norm_sum)
EXPAND(batch_norm_mended, batch_norm_mend_column, batch_norm_sum_column)

/* parts[0, c, k] and parts[1, c, k]: mean, and sum of squared deviations, of chunk c; parts[2, c, k]: where that left the
 * range, the sum of mended ones. Sums are of differences to the chunk's first element, so that a large mean costs no
 * digits and equal elements have no variance. */
KERNEL2(batch_norm_moments, batch_norm_params, ACC, parts, const T, x)
{
    GLOBAL const T *v = x + p.offsets[1];
    GLOBAL ACC *means = parts + p.offsets[0];
    GLOBAL ACC *squares = means + p.chunks * p.channels;
    FOR_ROWS(i) {
        const I64 c = QUOTIENT(i, p.channels), k = i - c * p.channels, step = p.channels * p.inner;
        const I64 first = c * p.chunk, end = M_MIN_OF(first + p.chunk, p.images);
        const A one = LOAD(v, first * step + k * p.inner);
        LANE_VALUES(A, s);
        LANE_VALUES(A, t);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
        EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = 0;
        EXPAND(batch_norm_each, OF_LANE(s, l) += LOAD(v, j) - one)
        LANE_TREE(A, s, SUM_OF)
        A mean = one + OF_FIRST_LANE(s) / (A)((end - first) * p.inner);
        EXPAND(batch_norm_each, OF_LANE(t, l) += (LOAD(v, j) - mean) * (LOAD(v, j) - mean))
        LANE_TREE(A, t, SUM_OF)
        A m2 = OF_FIRST_LANE(t);
        if (is_outside(m2, batch_norm_least(p))) {
            const A mended = batch_norm_mend_row(v, p, first, end, k, &mean, &m2);
            if (IS_FIRST_LANE) squares[p.chunks * p.channels + i] = mended;
        }
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
        const I64 c = QUOTIENT(i, p.channels), k = i - c * p.channels, step = p.channels * p.inner;
        const I64 first = c * p.chunk, end = M_MIN_OF(first + p.chunk, p.images);
        const int width = NEIGHBOURS(p.channels - k, ITEMS_END - i, BATCH_NORM_WIDTH);
        const A n = (A)(end - first);
        GLOBAL const T *one = v + first * step + k;
        A mean[CHUNKED ? BATCH_NORM_WIDTH : 1], m2[CHUNKED ? BATCH_NORM_WIDTH : 1];
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
        for (int l = 0; l < width; l++) {
            if (!is_outside(squares[i + l], batch_norm_least(p))) continue;
            A one_mean = means[i + l], one_m2 = squares[i + l];
            squares[p.chunks * p.channels + i + l] = batch_norm_mend_column(v, p, first, end, k + l, &one_mean, &one_m2);
            means[i + l] = one_mean;
            squares[i + l] = one_m2;
        }
        i += ITEMS_STEP(width);
    }
}

/* In lanes, the sum over the chunks c of channel k of TERM, which may use its number of images n. */
TEMPLATE(batch_norm_chunks, S, TERM)
        LANE_VALUES(A, S);
        EACH_LANE(l, SUM_LANES) OF_LANE(S, l) = 0;
        for (I64 c0 = 0; c0 < p.chunks; c0 += SUM_LANES)
            EACH_LANE(l, M_MIN_OF(p.chunks - c0, SUM_LANES))
            {
                const I64 c = c0 + l, n = M_MIN_OF(p.chunk, p.images - c * p.chunk);
                OF_LANE(S, l) += TERM;
            }
        LANE_TREE(A, S, SUM_OF)
END_TEMPLATE
FUNC A batch_norm_square(A d) { return d * d; }
/* The mended squares of a chunk: plain ones times the factor's square, if they are within the range. */
FUNC A batch_norm_mended_part(GLOBAL const ACC *squares, const batch_norm_params p, I64 at, A factor)
{
    return factor > 1 || !is_finite(squares[at]) ? squares[p.chunks * p.channels + at] : squares[at] * factor * factor;
}

/* Merge the chunks of a channel: deviations from the mean of all are those within the chunks and those of their means. */
KERNEL2(batch_norm_merge, batch_norm_params, ACC, stats, const ACC, parts)
{
    GLOBAL const ACC *means = parts + p.offsets[1];
    GLOBAL const ACC *squares = means + p.chunks * p.channels;
    GLOBAL ACC *o = stats + p.offsets[0];
    FOR_ROWS(k) {
        const A one = means[k], count = (A)(p.images * p.inner);
        EXPAND(batch_norm_chunks, s, (means[c * p.channels + k] - one) * (A)n)
        A mean = one + OF_FIRST_LANE(s) / (A)p.images;
        if (!is_finite(mean)) {
            EXPAND(batch_norm_chunks, lower, (means[c * p.channels + k] - one) * range_lower() * (A)n)
            mean = one + OF_FIRST_LANE(lower) / (A)p.images / range_lower();
        }
        EXPAND(batch_norm_chunks, t, squares[c * p.channels + k] + batch_norm_square(means[c * p.channels + k] - mean) * (A)(n * p.inner))
        const A m2 = OF_FIRST_LANE(t);
        A var = m2 / count, scale = LIT(1.0) / M_SQRT(var + SCALAR(p.eps));
        if (is_outside(m2, batch_norm_least(p))) {
            const A factor = range_factor(m2);
            EXPAND(batch_norm_chunks, u, batch_norm_mended_part(squares, p, c * p.channels + k, factor) + batch_norm_square((means[c * p.channels + k] - mean) * factor) * (A)(n * p.inner))
            const A mended = OF_FIRST_LANE(u) / count;
            var = mended / factor / factor;
            scale = factor / M_SQRT(mended + SCALAR(p.eps) * factor * factor);
        }
        if (IS_FIRST_LANE) {
            o[k] = mean;
            o[p.channels + k] = scale;
            o[2 * p.channels + k] = var;
        }
    }
}

/* The same tensor from running statistics. */
KERNEL3(batch_norm_given, batch_norm_params, ACC, stats, const ACC, mean, const ACC, var)
{
    GLOBAL ACC *o = stats + p.offsets[0];
    FOR_ITEMS(k) {
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
    FOR_ITEMS(k) {
        const I64 a = p.offsets[0] + k, b = p.offsets[1] + k;
        mean[a] = (LIT(1.0) - m) * mean[a] + m * s[k];
        var[b] = (LIT(1.0) - m) * var[b] + m * (s[2 * p.channels + k] * unbias);
    }
}

/* How many elements from i on, which is in channel k of row r, are in that channel, or, where inner is 1, in one row. */
FUNC I64 batch_norm_room(I64 i, I64 r, I64 k, I64 channels, I64 inner)
{
    return inner == 1 ? channels - k : inner - (i - r * inner);
}

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
        const I64 r = QUOTIENT(i, p.inner), k = REMAINDER(r, p.channels);
        const I64 room = batch_norm_room(i, r, k, p.channels, p.inner), run = CHUNKED ? least(room, ITEMS_END - i) : 1;
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
    FOR_ROWS(i) {
        const I64 c = QUOTIENT(i, p.channels), k = i - c * p.channels, step = p.channels * p.inner;
        const I64 first = c * p.chunk, end = M_MIN_OF(first + p.chunk, p.images);
        const A mean = means[k], scale = scales[k];
        LANE_VALUES(A, s);
        LANE_VALUES(A, t);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
        EACH_LANE(l, SUM_LANES) OF_LANE(t, l) = 0;
        EXPAND(batch_norm_each, const A one = LOAD(u, j); OF_LANE(s, l) += one;
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
        const I64 c = QUOTIENT(i, p.channels), k = i - c * p.channels, step = p.channels * p.inner;
        const I64 first = c * p.chunk, end = M_MIN_OF(first + p.chunk, p.images);
        const int width = NEIGHBOURS(p.channels - k, ITEMS_END - i, BATCH_NORM_WIDTH);
        A a[CHUNKED ? BATCH_NORM_WIDTH : 1], b[CHUNKED ? BATCH_NORM_WIDTH : 1];
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
    FOR_ROWS(i) {
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
        const I64 r = QUOTIENT(i, p.inner), k = REMAINDER(r, p.channels);
        const I64 room = batch_norm_room(i, r, k, p.channels, p.inner), run = CHUNKED ? least(room, ITEMS_END - i) : 1;
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
/* kernel text ends */
// clang-format on

enum { CHUNK_WORK = 4096, CHUNK_IMAGES = 128, GRAIN = 16384 };

enum { X, WEIGHT, BIAS, MEAN, VAR }; /* operands */

/* Training reads x for the mean, for the deviations from it, and for the normalisation. */
static haul__cost cost(const haul__call *c)
{
    const haul__batch_norm *a = haul__attributes_of(c);
    const haul_tensor      *x = c->operands[X];
    return (haul__cost){.flops = (a->training ? 8.0 : 3.0) * (double)x->count,
                        .bytes = haul__call_bytes(c) + (a->training ? 2 * (int64_t)haul_tensor_bytes(x) : 0)};
}

/* ---- compute ---- */

/* In channels-last, each pixel counts as an image. */
static batch_norm_params params_of(const haul_tensor *x)
{
    batch_norm_params p = {.images = x->shape.dims[0], .channels = x->shape.dims[1], .inner = 1};
    bool              last = haul__wants_channels_last(x);
    for (int d = 2; d < x->shape.ndim; d++)
        *(last ? &p.images : &p.inner) *= x->shape.dims[d]; /* part of a product that was checked */
    p.chunk = p.inner == 1 ? CHUNK_IMAGES : p.inner < CHUNK_WORK ? CHUNK_WORK / (p.inner ? p.inner : 1) : 1;
    p.chunks = p.images / p.chunk + (p.images % p.chunk != 0);
    HAUL__ASSERT(p.chunk > 0 && p.chunks * p.chunk >= p.images && p.images * p.channels * p.inner == x->count);
    return p;
}

/* Kernels are compiled for x's dtype; values per channel have the dtype of its sums. */
static haul_status run(const haul__call *c, int kernel, batch_norm_params *p, haul_tensor *const *buffers, int outs,
                       int count, int64_t items, int64_t grain)
{
    HAUL__ASSERT(0 < outs && outs < count && count <= (int)(sizeof p->offsets / sizeof *p->offsets));
    for (int i = 0; i < count; i++)
        p->offsets[i] = buffers[i]->offset;
    p->items = items;
    return haul__launch_kernel(c, kernel, c->operands[X]->dtype, .outs = buffers, .out_count = outs,
                               .ins = buffers + outs, .in_count = count - outs, .params = p, .params_size = sizeof *p,
                               .items = items, .grain = grain);
}

static haul_tensor *sums(const haul__call *c, haul_shape shape)
{
    return haul__temporary(c, haul__sum_dtype(c->operands[X]->dtype), &shape);
}

/* An operand with one value per channel in the form that kernels take: row-major, in the dtype of sums. If it is
 * absent, the kernels get `other`, any buffer, in its place. */
static haul_tensor *channel_values(const haul__call *c, int i, haul_tensor *other)
{
    if (!haul__has(c, i))
        return other;
    haul_tensor *wide = haul__as_dtype(c, c->operands[i], haul__sum_dtype(c->operands[X]->dtype));
    return haul__failed(wide) ? NULL : haul__as_format(c, wide, false);
}

/* The grain of the passes over chunks, where a work item is one channel of a chunk. */
static int64_t chunk_grain(const batch_norm_params *p)
{
    return p->inner == 1 ? BATCH_NORM_WIDTH : 1 + GRAIN / (p->chunk * p->inner + 1);
}

/* Channels are adjacent if inner is 1. */
static int kernel_for(const batch_norm_params *p, int kernel)
{
    return p->inner == 1 ? haul__kernel_infos[kernel].columns : kernel;
}

static haul_status batch_stats(const haul__call *c, batch_norm_params *p, haul_tensor *stats)
{
    haul_tensor *x = c->operands[X], *parts = sums(c, HAUL_SHAPE(3, p->chunks, p->channels));
    HAUL__ASSERT(stats->count == 3 * p->channels);
    if (!parts || run(c, kernel_for(p, HAUL__K_batch_norm_moments), p, (haul_tensor *[]){parts, x}, 1, 2,
                      p->chunks * p->channels, chunk_grain(p)))
        return haul_error_status();
    return run(c, HAUL__K_batch_norm_merge, p, (haul_tensor *[]){stats, parts}, 1, 2, p->channels, 256);
}

static haul_status given_stats(const haul__call *c, batch_norm_params *p, haul_tensor *stats)
{
    haul_tensor *mean = channel_values(c, MEAN, NULL), *var = channel_values(c, VAR, NULL);
    HAUL__ASSERT(stats->count == 3 * p->channels && (!mean || !var || mean->count == var->count));
    if (!mean || !var)
        return haul_error_status();
    return run(c, HAUL__K_batch_norm_given, p, (haul_tensor *[]){stats, mean, var}, 1, 3, p->channels, 1024);
}

static haul_status update_running(const haul__call *c, batch_norm_params *p, haul_tensor *stats)
{
    const haul__batch_norm *a = haul__attributes_of(c);
    haul_dtype              dtype = c->operands[X]->dtype;
    double                  count = (double)(p->images * p->inner);
    HAUL__ASSERT(count > 1);
    haul_tensor *mean = channel_values(c, MEAN, NULL), *var = channel_values(c, VAR, NULL);
    if (!mean || !var)
        return haul_error_status();
    HAUL__ASSERT(mean->count == p->channels && var->count == p->channels);
    p->momentum = haul__scalar_bits(dtype, a->momentum);
    p->unbias = haul__scalar_bits(dtype, count / (count - 1));
    haul_status status =
        run(c, HAUL__K_batch_norm_running, p, (haul_tensor *[]){mean, var, stats}, 2, 3, p->channels, 1024);
    if (!status && mean != c->operands[MEAN])
        status = haul__copy_elements(c->operands[MEAN], mean, c->operation->name);
    if (!status && var != c->operands[VAR])
        status = haul__copy_elements(c->operands[VAR], var, c->operation->name);
    return status;
}

static haul_status normalise(const haul__call *c, batch_norm_params *p, haul_tensor *stats)
{
    haul_tensor *y = c->results[0], *w = channel_values(c, WEIGHT, stats), *b = channel_values(c, BIAS, stats);
    if (!w || !b)
        return haul_error_status();
    HAUL__ASSERT(y->count == c->operands[X]->count && (w == stats || w->count == p->channels) &&
                 (b == stats || b->count == p->channels));
    return run(c, HAUL__K_batch_norm_apply, p, (haul_tensor *[]){y, c->operands[X], stats, w, b}, 1, 5, y->count,
               GRAIN);
}

static haul_status compute(haul__call *c)
{
    const haul__batch_norm *a = haul__attributes(c);
    haul_tensor            *x = c->operands[X], *stats = c->results[1];
    batch_norm_params       p = params_of(x);
    if (!x->count) /* the statistics are not read */
        return HAUL_OK;
    p.eps = haul__scalar_bits(x->dtype, a->eps);
    p.has_weight = haul__has(c, WEIGHT);
    p.has_bias = haul__has(c, BIAS);
    if (!stats && !(stats = sums(c, HAUL_SHAPE(3, p.channels))))
        return haul_error_status();
    HAUL__ASSERT(stats->count == 3 * p.channels);
    HAUL__ASSERT(x->count == p.images * p.inner * p.channels);
    haul_status status = a->training ? batch_stats(c, &p, stats) : given_stats(c, &p, stats);
    if (!status)
        status = normalise(c, &p, stats);
    /* last, when nothing else can fail */
    if (!status && a->training && haul__has(c, MEAN))
        status = update_running(c, &p, stats);
    return status;
}

haul_status haul__batch_norm_compute_backward(haul__call *c)
{
    const haul__batch_norm_backward *a = haul__attributes(c);
    haul_tensor *x = c->operands[X], *stats = c->operands[HAUL__BACKWARD_STATS], *dx = c->results[0],
                *both = c->results[1];
    batch_norm_params p = params_of(x);
    haul_tensor      *g = haul__as_like(c, c->operands[HAUL__BACKWARD_G], x),
                *w = channel_values(c, HAUL__BACKWARD_WEIGHT, stats);
    haul_tensor *parts = sums(c, HAUL_SHAPE(2, p.chunks, p.channels));
    if (!g || !w || !parts)
        return haul_error_status();
    HAUL__ASSERT(g->count == x->count && stats->count == 3 * p.channels && both->count == 2 * p.channels);
    HAUL__ASSERT(!dx || dx->count == x->count);
    p.training = a->training;
    p.has_weight = haul__has(c, HAUL__BACKWARD_WEIGHT);
    haul_status status = run(c, kernel_for(&p, HAUL__K_batch_norm_sums), &p, (haul_tensor *[]){parts, g, x, stats}, 1,
                             4, p.chunks * p.channels, chunk_grain(&p));
    if (!status)
        status = run(c, HAUL__K_batch_norm_add, &p, (haul_tensor *[]){both, parts}, 1, 2, 2 * p.channels, 256);
    if (!status && dx)
        status =
            run(c, HAUL__K_batch_norm_backward, &p, (haul_tensor *[]){dx, g, x, stats, both, w}, 1, 6, x->count, GRAIN);
    return status;
}

/* ---- the operations ---- */

HAUL__OPERATION(batch_norm) = {
    .name = "haul_batch_norm",
    .operands = {{"x", .layout = HAUL__BATCH_FORMAT, .saved_for = HAUL__FOR_0 | HAUL__FOR_1 | HAUL__FOR_2},
                 {"weight", .optional = true, .accepts = HAUL__FLOATS, .saved_for = HAUL__FOR_0},
                 {"bias", .optional = true, .accepts = HAUL__FLOATS},
                 {"running_mean", .optional = true, .written = true, .accepts = HAUL__FLOATS},
                 {"running_var", .optional = true, .written = true, .accepts = HAUL__FLOATS}},
    .results = {{"y"}, {"stats", .hidden = true, .saved_for = HAUL__FOR_0 | HAUL__FOR_1 | HAUL__FOR_2}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__batch_norm),
    .infer = haul__batch_norm_infer,
    .compute = compute,
    .gradient = haul__batch_norm_gradient,
    .cost = cost,
};

static haul__batch_norm attributes_of(const haul_batch_norm_options *o)
{
    return (haul__batch_norm){
        .training = o->training, .momentum = haul__option(o->momentum, 0.1), .eps = haul__option(o->eps, 1e-5)};
}

/* A function that runs again in the backward pass has updated the running statistics already. */
static haul_tensor *running(const haul_batch_norm_options *o, haul_tensor *statistic)
{
    return o->training && haul__runs_again() ? &haul__none : haul__optional(statistic);
}

#define OPERANDS(o)                                                                                                    \
    (o)->x, haul__optional((o)->weight), haul__optional((o)->bias), running(o, (o)->running_mean),                     \
        running(o, (o)->running_var)

HAUL__FUNCTIONS_WITH(batch_norm, haul__batch_norm, attributes_of(o), (const haul_batch_norm_options *o), OPERANDS(o))
