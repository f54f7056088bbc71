/* A square of LANES vectors of f32, transposed in registers. The including file defines LANES, and `vector` for a
 * vector of as many. */
#ifndef HAUL_BACKENDS_CPU_KERNELS_TRANSPOSE_H
#define HAUL_BACKENDS_CPU_KERNELS_TRANSPOSE_H

#if defined(__AVX512F__)
/* Within quarters of vectors, then the quarters themselves. */
INLINE void turn(vector *r)
{
    __m512 u[4][4];
    UNROLL for (int g = 0; g < 4; g++)
    {
        const __m512 a = (__m512)r[4 * g], b = (__m512)r[4 * g + 1], c = (__m512)r[4 * g + 2], d = (__m512)r[4 * g + 3];
        const __m512d ab = (__m512d)_mm512_unpacklo_ps(a, b), cd = (__m512d)_mm512_unpacklo_ps(c, d);
        const __m512d high_ab = (__m512d)_mm512_unpackhi_ps(a, b), high_cd = (__m512d)_mm512_unpackhi_ps(c, d);
        u[0][g] = (__m512)_mm512_unpacklo_pd(ab, cd);
        u[1][g] = (__m512)_mm512_unpackhi_pd(ab, cd);
        u[2][g] = (__m512)_mm512_unpacklo_pd(high_ab, high_cd);
        u[3][g] = (__m512)_mm512_unpackhi_pd(high_ab, high_cd);
    }
    UNROLL for (int j = 0; j < 4; j++)
    {
        const __m512 even = _mm512_shuffle_f32x4(u[j][0], u[j][1], 0x88);
        const __m512 odd = _mm512_shuffle_f32x4(u[j][0], u[j][1], 0xdd);
        const __m512 next_even = _mm512_shuffle_f32x4(u[j][2], u[j][3], 0x88);
        const __m512 next_odd = _mm512_shuffle_f32x4(u[j][2], u[j][3], 0xdd);
        r[j] = (vector)_mm512_shuffle_f32x4(even, next_even, 0x88);
        r[4 + j] = (vector)_mm512_shuffle_f32x4(odd, next_odd, 0x88);
        r[8 + j] = (vector)_mm512_shuffle_f32x4(even, next_even, 0xdd);
        r[12 + j] = (vector)_mm512_shuffle_f32x4(odd, next_odd, 0xdd);
    }
}
#elif defined(__AVX__)
INLINE void turn(vector *r)
{
    __m256 u[4][2];
    UNROLL for (int g = 0; g < 2; g++)
    {
        const __m256 a = (__m256)r[4 * g], b = (__m256)r[4 * g + 1], c = (__m256)r[4 * g + 2], d = (__m256)r[4 * g + 3];
        const __m256d ab = (__m256d)_mm256_unpacklo_ps(a, b), cd = (__m256d)_mm256_unpacklo_ps(c, d);
        const __m256d high_ab = (__m256d)_mm256_unpackhi_ps(a, b), high_cd = (__m256d)_mm256_unpackhi_ps(c, d);
        u[0][g] = (__m256)_mm256_unpacklo_pd(ab, cd);
        u[1][g] = (__m256)_mm256_unpackhi_pd(ab, cd);
        u[2][g] = (__m256)_mm256_unpacklo_pd(high_ab, high_cd);
        u[3][g] = (__m256)_mm256_unpackhi_pd(high_ab, high_cd);
    }
    UNROLL for (int j = 0; j < 4; j++)
    {
        r[j] = (vector)_mm256_permute2f128_ps(u[j][0], u[j][1], 0x20);
        r[4 + j] = (vector)_mm256_permute2f128_ps(u[j][0], u[j][1], 0x31);
    }
}
#elif defined(__SSE2__)
INLINE void turn(vector *r)
{
    __m128 a = (__m128)r[0], b = (__m128)r[1], c = (__m128)r[2], d = (__m128)r[3];
    _MM_TRANSPOSE4_PS(a, b, c, d);
    r[0] = (vector)a;
    r[1] = (vector)b;
    r[2] = (vector)c;
    r[3] = (vector)d;
}
#else
INLINE void turn(vector *r)
{
    vector t[LANES];
    UNROLL for (int i = 0; i < LANES; i++)
    {
        UNROLL for (int j = 0; j < LANES; j++) t[i][j] = r[j][i];
    }
    UNROLL for (int i = 0; i < LANES; i++) r[i] = t[i];
}
#endif

#endif
