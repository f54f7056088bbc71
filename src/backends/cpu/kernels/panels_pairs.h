/* Packing of bf16 for instructions that multiply pairs: an element of a panel is two elements of the matrix that follow
 * each other along k, the second of which is 0 behind an odd k. Included by panels_fma.c and panels_amx_fma.c. */

/* Where columns are 1 apart. Whole vectors are stored as far as a row of the panel has room. */
static void pair_adjacent(uint32_t *to, int pitch, const uint16_t *from, int64_t row, int64_t k, int n)
{
    for (int64_t i = 0; i < k; i += 2, from += 2 * row, to += pitch) {
        for (int j = 0; j < n; j += 16) {
            const __mmask16 in = n - j < 16 ? (__mmask16)((1u << (n - j)) - 1) : (__mmask16)0xffff;
            const __mmask16 out = pitch - j < 16 ? in : (__mmask16)0xffff;
            const __m256i   low = _mm256_maskz_loadu_epi16(in, from + j);
            const __m256i   high = _mm256_maskz_loadu_epi16(i + 1 < k ? in : 0, i + 1 < k ? from + row + j : from);
            const __m512i   both = _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16);
            _mm512_mask_storeu_epi32(to + j, out, _mm512_or_si512(both, _mm512_cvtepu16_epi32(low)));
        }
    }
}

static uint32_t pair_of(const uint16_t *from, int64_t row, bool whole)
{
    return from[0] | (whole ? (uint32_t)from[row] << 16 : 0);
}

/* Where they are apart. If rows are 1 apart, pairs are together, and blocks of 4 x 4 are transposed. */
static void pair_apart(uint32_t *to, int pitch, const uint16_t *from, int64_t row, int64_t column, int64_t k, int n)
{
    int64_t   i = 0;
    const int turned = n - n % 4;
    for (; row == 1 && i + 8 <= k; i += 8, to += 4 * pitch) {
        for (int j = 0; j < turned; j += 4) {
            const uint16_t *in = from + i + j * column;
            __m128          a = _mm_loadu_ps((const float *)(const void *)in);
            __m128          b = _mm_loadu_ps((const float *)(const void *)(in + column));
            __m128          c = _mm_loadu_ps((const float *)(const void *)(in + 2 * column));
            __m128          d = _mm_loadu_ps((const float *)(const void *)(in + 3 * column));
            _MM_TRANSPOSE4_PS(a, b, c, d);
            _mm_storeu_ps((float *)(void *)(to + j), a);
            _mm_storeu_ps((float *)(void *)(to + pitch + j), b);
            _mm_storeu_ps((float *)(void *)(to + 2 * pitch + j), c);
            _mm_storeu_ps((float *)(void *)(to + 3 * pitch + j), d);
        }
        for (int j = turned; j < n; j++) {
            for (int q = 0; q < 4; q++)
                to[q * pitch + j] = pair_of(from + i + 2 * q + j * column, 1, true);
        }
    }
    for (; i < k; i += 2, to += pitch) {
        for (int j = 0; j < n; j++)
            to[j] = pair_of(from + i * row + j * column, row, i + 1 < k);
    }
}

static void NAME(pack_b)(void *to, const void *from, int64_t row, int64_t column, int64_t k, int64_t n)
{
    if (column == 1) {
        pair_adjacent(to, WIDTH, from, row, k, (int)n);
        return;
    }
    pair_apart(to, WIDTH, from, row, column, k, (int)n);
    for (int64_t i = 0; i < (k + 1) / 2 && n % LANES; i++) {
        for (int64_t j = n; j % LANES; j++)
            ((uint32_t *)to)[i * WIDTH + j] = 0;
    }
}
