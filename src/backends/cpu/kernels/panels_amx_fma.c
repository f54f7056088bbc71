/* Products of packed panels of bf16 by AMX, whose instructions multiply tiles of a matrix: 16 rows of A by 32 of k,
 * times 32 rows of B by 16 columns. Compiled with the level v4; the processor must have AMX-BF16, which the level does
 * not include, and the process the system's permission (haul__cpu_has_bf16_tiles).
 *
 * An instruction adds up the products of even k and those of odd k, adds the two, and adds this to the sum of the
 * element (Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBF16PS). It takes subnormal numbers as 0.
 * So the bits of a sum depend on the cut of k into 32, which begins anew only with a part of k, and on nothing else. */
#include "backends/cpu/gemm/panels.h"
#include "haul_config.h"

#include "backends/cpu/kernels/vectors.h"

#if defined(__AVX512F__) && !defined(HAUL_SMALL)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("amx-tile,amx-bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16")
#endif

enum {
    ROWS = 16,        /* of a tile, and columns of one of C */
    STEP_PAIRS = 16,  /* of k that an instruction takes */
    TILE = ROWS * 16, /* pairs of a tile of A or B, floats of one of C */
    TILE_ROWS = 2 * ROWS,
    WIDTH = 2 * ROWS,
    LANES = 16,
};

#define NAME(name) CAT3(name, amx, HAUL_KERNEL_LEVEL)
#include "backends/cpu/kernels/panels_pairs.h"

/* The zeros behind k, up to a whole step. */
static void NAME(pack_b_steps)(void *to, const void *from, int64_t row, int64_t column, int64_t k, int64_t n)
{
    uint32_t     *out = to;
    const int64_t pairs = (k + 1) / 2, whole = (pairs + STEP_PAIRS - 1) / STEP_PAIRS * STEP_PAIRS;
    NAME(pack_b)(to, from, row, column, k, n);
    for (int64_t i = pairs * WIDTH; i < whole * WIDTH; i += LANES)
        _mm512_storeu_si512(out + i, _mm512_setzero_si512());
}

/* ---- tiles of A: to[row][pair], with zeros behind k ---- */

/* Where columns are 1 apart: lines of 32 elements. */
static void rows_in_line(uint32_t *to, const uint16_t *from, int64_t row, int64_t k, int64_t rows)
{
    const __mmask32 in = k < 2 * STEP_PAIRS ? (1u << k) - 1 : ~(__mmask32)0;
    for (int64_t r = 0; r < rows; r++)
        _mm512_storeu_si512(to + r * STEP_PAIRS, _mm512_maskz_loadu_epi16(in, from + r * row));
}

/* Where rows are 1 apart: two columns are 16 pairs, one for each line. */
static void rows_apart(uint32_t *to, const uint16_t *from, int64_t column, int64_t k, int64_t rows)
{
    const __mmask16 in = (__mmask16)((1u << rows) - 1);
    const __m512i   lines = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                               _mm512_set1_epi32(STEP_PAIRS));
    for (int64_t i = 0; i < 2 * STEP_PAIRS; i += 2) {
        const __m256i low = _mm256_maskz_loadu_epi16(i < k ? in : 0, from + (i < k ? i * column : 0));
        const __m256i high = _mm256_maskz_loadu_epi16(i + 1 < k ? in : 0, from + (i + 1 < k ? (i + 1) * column : 0));
        const __m512i pairs =
            _mm512_or_si512(_mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16), _mm512_cvtepu16_epi32(low));
        _mm512_mask_i32scatter_epi32(to + i / 2, in, lines, pairs, 4);
    }
}

static void rows_of_any(uint32_t *to, const uint16_t *from, int64_t row, int64_t column, int64_t k, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < 2 * STEP_PAIRS; i += 2) {
            const uint32_t low = i < k ? from[r * row + i * column] : 0;
            to[r * STEP_PAIRS + i / 2] = low | (i + 1 < k ? (uint32_t)from[r * row + (i + 1) * column] << 16 : 0);
        }
    }
}

/* Rows that a tile lacks stay as they are: nothing reads the sums of their products. */
static void NAME(pack_a)(void *to, int64_t tile, const void *from, int64_t row, int64_t column, int64_t m, int64_t k)
{
    const uint16_t *a = from;
    for (int64_t i = 0; i < m; i += ROWS, a += ROWS * row) {
        const int64_t rows = m - i < ROWS ? m - i : ROWS;
        uint32_t     *out = (uint32_t *)to + i / TILE_ROWS * tile + i % TILE_ROWS / ROWS * (tile / 2);
        for (int64_t p = 0; p < k; p += 2 * STEP_PAIRS, out += TILE) {
            if (column == 1)
                rows_in_line(out, a + p, row, k - p, rows);
            else if (row == 1)
                rows_apart(out, a + p * column, column, k - p, rows);
            else
                rows_of_any(out, a + p * column, row, column, k - p, rows);
        }
    }
}

/* ---- products ---- */

/* Up to 32 rows of C: tiles 0 to 3 are sums, 4 and 5 rows of A, 6 and 7 columns of B. The second ones of each are left
 * out where C lacks these rows or columns. */
INLINE void add_up(const haul__cpu_strip *s, const uint32_t *a, bool two_rows, bool two_columns)
{
    const uint32_t *b = s->b, *below = a + s->a_tile / 2;
    const int64_t   b_line = s->b_row * (int64_t)sizeof *b;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < s->k; k += STEP_PAIRS, a += TILE, below += TILE, b += STEP_PAIRS * s->b_row) {
        _tile_loadd(6, b, b_line);
        _tile_loadd(4, a, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (two_columns) {
            _tile_loadd(7, b + LANES, b_line);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (two_rows) {
            _tile_loadd(5, below, 64);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (two_rows && two_columns)
            _tile_dpbf16ps(3, 5, 7);
    }
}

INLINE void store_tile(int tile, float *to, int64_t line)
{
    switch (tile) {
    case 0: _tile_stored(0, to, line); break;
    case 1: _tile_stored(1, to, line); break;
    case 2: _tile_stored(2, to, line); break;
    default: _tile_stored(3, to, line); break;
    }
}

/* Puts the sums of a tile to C, which has `rows` rows from c on. */
INLINE void leave(const haul__cpu_strip *s, int tile, int64_t rows, float *c)
{
    const int64_t down = tile / 2 * ROWS, right = tile % 2 * LANES;
    float         sums[TILE];
    rows -= down;
    c += down * s->c_row + right;
    if (rows <= 0 || s->n <= right)
        return;
    if (!s->accumulate && rows >= ROWS && s->n >= right + LANES) {
        store_tile(tile, c, s->c_row * (int64_t)sizeof *c);
        return;
    }
    const __mmask16 mask = s->n - right < LANES ? (__mmask16)((1u << (s->n - right)) - 1) : (__mmask16)0xffff;
    store_tile(tile, sums, LANES * sizeof *sums);
    for (int64_t r = 0; r < rows && r < ROWS; r++, c += s->c_row) {
        __m512 sum = _mm512_loadu_ps(sums + r * LANES);
        if (s->accumulate)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, c));
        _mm512_mask_storeu_ps(c, mask, sum);
    }
}

static void NAME(multiply)(const haul__cpu_strip *s)
{
    /* Eight tiles of 16 rows of 64 bytes: the operand of LDTILECFG. */
    static const struct {
        uint8_t  palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t  rows[16];
    } tiles = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    const uint32_t *a = s->a;
    float          *c = s->c;
    _tile_loadconfig(&tiles);
    for (int64_t i = 0; i < s->m; i += TILE_ROWS, a += s->a_tile, c += TILE_ROWS * s->c_row) {
        const int64_t rows = s->m - i < TILE_ROWS ? s->m - i : TILE_ROWS;
        if (rows > ROWS && s->n > LANES)
            add_up(s, a, true, true);
        else if (rows > ROWS)
            add_up(s, a, true, false);
        else
            add_up(s, a, false, s->n > LANES);
        UNROLL for (int tile = 0; tile < 4; tile++) leave(s, tile, rows, c);
    }
    _tile_release(); /* threads without tiles are switched faster */
}

const haul__cpu_panels NAME(haul__cpu_panels) = {
    .lanes = LANES,
    .rows = TILE_ROWS,
    .width = WIDTH,
    .step = 2 * STEP_PAIRS,
    .multiply = NAME(multiply),
    .pack_a = NAME(pack_a),
    .pack_b = NAME(pack_b_steps),
};

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
