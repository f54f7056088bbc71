/* Normalisation of fields: by one mean and deviation, or by those of each channel. */
#include "data/normalise.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/cpu/level.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/option.h"
#include "data/transform.h"

#define NEW "haul_normalise"

/* ---- bytes ---- */

/* Avoids a division, which would take most of the time: 1/255 is split so that x * high is exact and x * low is small,
 * and the result is multiplied by 1/deviation. No multiply-add may be fused: if the bits differ, the table is used. */
#define BLOCK 16

#if defined(__x86_64__)
#define TARGET_V3 __attribute__((target("avx2")))
#define TARGET_V4 __attribute__((target("avx512f,avx512bw,avx512vl")))

typedef float floats_base __attribute__((vector_size(16)));
typedef float floats_v3 __attribute__((vector_size(32)));
typedef float floats_v4 __attribute__((vector_size(64)));

static void blocks_base(const haul__normaliser *n, const uint8_t *in, float *out, int64_t blocks)
{
    const float high = n->high, low = n->low, mean = n->mean, scale = n->scale;
    for (int64_t i = 0; i < blocks * BLOCK; i += BLOCK / 4) {
        const __m128i zero = _mm_setzero_si128();
        int32_t       bytes;
        memcpy(&bytes, in + i, sizeof bytes);
        const __m128i     words = _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), zero);
        const floats_base x = (floats_base)_mm_cvtepi32_ps(_mm_unpacklo_epi16(words, zero));
        const floats_base y = ((x * high + x * low) - mean) * scale;
        memcpy(out + i, &y, sizeof y);
    }
}

TARGET_V3 static void blocks_v3(const haul__normaliser *n, const uint8_t *in, float *out, int64_t blocks)
{
    const float high = n->high, low = n->low, mean = n->mean, scale = n->scale;
    for (int64_t i = 0; i < blocks * BLOCK; i += BLOCK / 2) {
        const __m128i   bytes = _mm_loadl_epi64((const __m128i *)(const void *)(in + i));
        const floats_v3 x = (floats_v3)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
        const floats_v3 y = ((x * high + x * low) - mean) * scale;
        memcpy(out + i, &y, sizeof y);
    }
}

TARGET_V4 static void blocks_v4(const haul__normaliser *n, const uint8_t *in, float *out, int64_t blocks)
{
    const float high = n->high, low = n->low, mean = n->mean, scale = n->scale;
    for (int64_t i = 0; i < blocks * BLOCK; i += BLOCK) {
        const __m128i   bytes = _mm_loadu_si128((const __m128i *)(const void *)(in + i));
        const floats_v4 x = (floats_v4)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
        const floats_v4 y = ((x * high + x * low) - mean) * scale;
        memcpy(out + i, &y, sizeof y);
    }
}
#else
static void blocks_base(const haul__normaliser *n, const uint8_t *in, float *out, int64_t blocks)
{
    for (int64_t i = 0; i < blocks * BLOCK; i++) {
        const float x = (float)in[i];
        out[i] = ((x * n->high + x * n->low) - n->mean) * n->scale;
    }
}

#define blocks_v3 blocks_base
#define blocks_v4 blocks_base
#endif

/* All are bit-identical where they agree with the table. */
static void convert_blocks(const haul__normaliser *n, const uint8_t *in, float *out, int64_t blocks)
{
    switch (haul__cpu_chosen_level()) {
    case HAUL__CPU_V4: blocks_v4(n, in, out, blocks); break;
    case HAUL__CPU_V3: blocks_v3(n, in, out, blocks); break;
    default: blocks_base(n, in, out, blocks);
    }
}

void haul__normaliser_init(haul__normaliser *n, double mean, double deviation)
{
    uint8_t  x[BLOCK];
    float    y[BLOCK], reciprocal = 1.0f / 255.0f;
    uint32_t bits;
    memcpy(&bits, &reciprocal, sizeof bits);
    bits &= 0xffffff00u; /* 16 bits of mantissa times 8 of x fit into 24 */
    memcpy(&n->high, &bits, sizeof bits);
    n->low = (float)(1.0 / 255.0 - (double)n->high);
    n->mean = (float)mean;
    n->deviation = (float)deviation;
    n->scale = 1.0f / (float)deviation;
    n->by_arithmetic = true;
    for (int first = 0; first < 256; first += BLOCK) {
        for (int i = 0; i < BLOCK; i++) {
            float unit = (float)(first + i) / 255.0f, centred = unit - (float)mean;
            n->table[first + i] = centred / (float)deviation;
            x[i] = (uint8_t)(first + i);
        }
        convert_blocks(n, x, y, 1);
        n->by_arithmetic = n->by_arithmetic && memcmp(y, n->table + first, sizeof y) == 0;
    }
}

void haul__normalise(const haul__normaliser *n, const uint8_t *in, float *out, int64_t count)
{
    int64_t i = 0;
    if (n->by_arithmetic) {
        i = count / BLOCK * BLOCK;
        convert_blocks(n, in, out, count / BLOCK);
    }
    for (; i < count; i++)
        out[i] = n->table[in[i]];
}

/* ---- the transform ---- */

typedef struct normalisation {
    haul__named      named;
    int              channels; /* 1: all elements are treated alike */
    haul__normaliser of[];
} normalisation;

static haul_status plan(const void *context, haul_field *field)
{
    const normalisation *n = context;
    if (field->dtype != HAUL_U8 && field->dtype != HAUL_F32)
        return haul__fail(HAUL_DTYPE, NEW, "fields",
                          "%s is %s; u8 and f32 can be normalised: write haul_convert(\"%s\", HAUL_F32) before it",
                          field->name, haul_dtype_name(field->dtype), field->name);
    if (n->channels > 1 && (field->shape.ndim < 1 || field->shape.dims[0] != n->channels))
        return haul__fail(HAUL_SHAPE, NEW, "mean", "%d means are given, but %s has %lld channels", n->channels,
                          field->name, field->shape.ndim < 1 ? 0 : (long long)field->shape.dims[0]);
    field->dtype = HAUL_F32;
    return HAUL_OK;
}

static void normalise_f32(const haul__normaliser *n, float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (x[i] - n->mean) / n->deviation;
}

static haul_status apply(void *context, haul_example *e)
{
    const normalisation *n = context;
    const char          *names = n->named.names;
    for (int f; (f = haul__named_next(&names, e)) >= 0;) {
        haul_value    *value = &e->fields[f];
        const uint8_t *bytes = value->dtype == HAUL_U8 ? value->data : NULL;
        float         *out = bytes ? haul_example_resize(e, f, HAUL_F32, value->shape) : value->data;
        int64_t        count = 1;
        if (!out)
            return haul_error_status();
        for (int d = 0; d < value->shape.ndim; d++)
            count *= value->shape.dims[d];
        HAUL__ASSERT(count % n->channels == 0 && (bytes || value->dtype == HAUL_F32));
        count /= n->channels;
        for (int c = 0; c < n->channels; c++)
            if (bytes)
                haul__normalise(&n->of[c], bytes + c * count, out + c * count, count);
            else
                normalise_f32(&n->of[c], out + c * count, count);
    }
    return HAUL_OK;
}

/* How many numbers are given. */
static int given(const double *values)
{
    int count = HAUL_MAX_CHANNELS;
    while (count && values[count - 1] == 0)
        count--;
    return count;
}

static haul_status check(const haul_normalise_options *o, int means, int deviations)
{
    if (means != deviations && means && deviations)
        return haul__fail(
            HAUL_INVALID_ARGUMENT, NEW, "deviation",
            "%d means and %d deviations are given; give as many of both, and write HAUL_ZERO for a mean of 0", means,
            deviations);
    for (int i = 0; i < means || i < deviations; i++) {
        double mean = o->mean[i], deviation = o->deviation[i];
        if (!isfinite(mean))
            return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "mean", "mean[%d] is %g; it must be finite", i, mean);
        if (means && mean == 0)
            return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "mean",
                              "mean[%d] is not set, but a later one is; write HAUL_ZERO for 0", i);
        if (deviations && !(deviation > 0 && isfinite(deviation)))
            return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "deviation",
                              "deviation[%d] is %g; it must be positive and finite", i, haul__option(deviation, 0));
    }
    return HAUL_OK;
}

haul_transform *haul_normalise_with(const haul_normalise_options *o)
{
    if (!o) {
        haul__fail_null(NEW, "options");
        return NULL;
    }
    int means = given(o->mean), deviations = given(o->deviation);
    int channels = means > deviations ? means : deviations ? deviations : 1;
    if (check(o, means, deviations))
        return NULL;
    HAUL__ASSERT(0 < channels && channels <= HAUL_MAX_CHANNELS);
    normalisation *n = haul__named_new(sizeof *n + (size_t)channels * sizeof *n->of, o->fields, plan, NEW);
    if (!n)
        return NULL;
    n->channels = channels;
    for (int i = 0; i < channels; i++)
        haul__normaliser_init(&n->of[i], haul__option(o->mean[i], 0.5), haul__option(o->deviation[i], 0.5));
    return haul__named_transform(n, apply);
}
