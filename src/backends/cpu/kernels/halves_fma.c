/* Conversions between f16 or bf16 and f32 for the matrix products of the CPU, at one instruction level: those of kernel
 * text, so that the bits are the same. */
#define HAUL_KERNEL_DTYPE_f32 1
#include "backends/cpu/prelude.h"
/* after the prelude */
#include "kernels/common.h"

#include "backends/cpu/halves.h"

#define STEP 16 /* rows taken at a time where columns lie apart: reads stay in the cache lines they fetched */

#define WIDEN(name, convert)                                                                                           \
    static void name(float *out, int64_t out_row, const haul__cpu_matrix *in)                                          \
    {                                                                                                                  \
        const uint16_t *from = in->data;                                                                               \
        const int64_t   row = in->row, column = in->column, rows = in->rows, columns = in->columns;                    \
        if (column == 1) {                                                                                             \
            for (int64_t r = 0; r < rows; r++)                                                                         \
                VECTOR_LOOP for (int64_t c = 0; c < columns; c++) out[r * out_row + c] = convert(from[r * row + c]);   \
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
#define NARROW_ROW(name, convert)                                                                                      \
    static void name(uint16_t *out, const float *in, int64_t count)                                                    \
    {                                                                                                                  \
        VECTOR_LOOP for (int64_t i = 0; i < count; i++) out[i] = convert(in[i]);                                       \
    }

WIDEN(widen_f16, F16_TO_F32)
WIDEN(widen_bf16, BF16_TO_F32)
NARROW_ROW(narrow_f16, F32_TO_F16)
NARROW_ROW(narrow_bf16, F32_TO_BF16)

const haul__cpu_halves CAT(haul__cpu_halves_f16, HAUL_KERNEL_LEVEL) = {widen_f16, narrow_f16};
const haul__cpu_halves CAT(haul__cpu_halves_bf16, HAUL_KERNEL_LEVEL) = {widen_bf16, narrow_bf16};
