/* Conversions between f16 or bf16 and f32 for the matrix products of the CPU, at one instruction level: those of kernel
 * text, so that the bits are the same. */
#define HAUL_KERNEL_DTYPE_f32 1
#include "backends/cpu/prelude.h"
/* after the prelude */
#include "kernels/common.h"

#include "backends/cpu/gemm/halves.h"

#if defined(__F16C__)
#include <immintrin.h>
#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#endif

#define STEP 16 /* rows taken at a time where columns are apart: reads stay in the cache lines they fetched */

/* Dense rows. Processors since v3 have instructions for f16, with the bits of the text, except that signalling NaNs
 * become quiet, as they do in sums. */
static void widen_row_f16(float *out, const uint16_t *from, int64_t count)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(from + i))));
#endif
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
    VECTOR_LOOP for (int64_t j = i; j < count; j++) out[j] = F16_TO_F32(from[j]);
}

static void widen_row_bf16(float *out, const uint16_t *from, int64_t count)
{
    VECTOR_LOOP for (int64_t i = 0; i < count; i++) out[i] = BF16_TO_F32(from[i]);
}

#define WIDEN(name, widen_row, convert)                                                                                \
    static void name(float *out, int64_t out_row, const haul__cpu_matrix *in)                                          \
    {                                                                                                                  \
        const uint16_t *from = in->data;                                                                               \
        const int64_t   row = in->row, column = in->column, rows = in->rows, columns = in->columns;                    \
        if (column == 1) {                                                                                             \
            for (int64_t r = 0; r < rows; r++)                                                                         \
                widen_row(out + r * out_row, from + r * row, columns);                                                 \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t first = 0; first < rows; first += STEP) {                                                         \
            const int64_t count = rows - first < STEP ? rows - first : STEP;                                           \
            for (int64_t c = 0; c < columns; c++) {                                                                    \
                float           values[STEP];                                                                          \
                const uint16_t *v = from + c * column + first * row;                                                   \
                if (row == 1)                                                                                          \
                    for (int64_t r = 0; r < count; r++)                                                                \
                        values[r] = convert(v[r]);                                                                     \
                else                                                                                                   \
                    for (int64_t r = 0; r < count; r++)                                                                \
                        values[r] = convert(v[r * row]);                                                               \
                for (int64_t r = 0; r < count; r++)                                                                    \
                    out[(first + r) * out_row + c] = values[r];                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }
static void narrow_f16(uint16_t *out, const float *in, int64_t count)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm512_cvtps_ph(_mm512_loadu_ps(in + i), NEAREST));
#endif
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), NEAREST));
#endif
    VECTOR_LOOP for (int64_t j = i; j < count; j++) out[j] = F32_TO_F16(in[j]);
}

static void narrow_bf16(uint16_t *out, const float *in, int64_t count)
{
    VECTOR_LOOP for (int64_t i = 0; i < count; i++) out[i] = F32_TO_BF16(in[i]);
}

WIDEN(widen_f16, widen_row_f16, F16_TO_F32)
WIDEN(widen_bf16, widen_row_bf16, BF16_TO_F32)

const haul__cpu_halves CAT(haul__cpu_halves_f16, HAUL_KERNEL_LEVEL) = {widen_f16, narrow_f16};
const haul__cpu_halves CAT(haul__cpu_halves_bf16, HAUL_KERNEL_LEVEL) = {widen_bf16, narrow_bf16};
