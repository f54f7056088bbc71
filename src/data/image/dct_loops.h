/* The loops of dct.c for one width of vectors, included for each level. It defines, for the level: GROUP, the
 * blocks that are computed together, VECTOR, which has a row of each, OP for the compiler's functions on it, and the
 * functions NAME(load), NAME(repeat), which gives each block the same row, NAME(differ) and NAME(put).
 *
 * The method is that of Loeffler, Ligtenberg and Moschytz (ICASSP 1989) as in libjpeg's jidctint.c. Sums of inputs have
 * 16 bits and overflow as in libjpeg-turbo's vectors. */

/* One half of each block's 8 results: sums of 32 bits. `pairs` has the inputs that are multiplied together. */
TARGET INLINE void NAME(half)(const VECTOR *pairs, int shift, VECTOR *out)
{
    const VECTOR rounding = OP(set1_epi32)(1 << (shift - 1));
    const VECTOR t0 = OP(add_epi32)(OP(srai_epi32)(pairs[0], 16 - FACTOR_BITS), rounding);
    const VECTOR t1 = OP(add_epi32)(OP(srai_epi32)(pairs[1], 16 - FACTOR_BITS), rounding);
    const VECTOR t2 = OP(madd_epi16)(pairs[2], PAIR(F_0_541, F_0_541 - F_1_847));
    const VECTOR t3 = OP(madd_epi16)(pairs[2], PAIR(F_0_541 + F_0_765, F_0_541));
    const VECTOR z3 = OP(madd_epi16)(pairs[5], PAIR(F_1_175 - F_1_961, F_1_175));
    const VECTOR z4 = OP(madd_epi16)(pairs[5], PAIR(F_1_175, F_1_175 - F_0_390));
    const VECTOR even[] = {OP(add_epi32)(t0, t3), OP(add_epi32)(t1, t2), OP(sub_epi32)(t1, t2), OP(sub_epi32)(t0, t3)};
    const VECTOR odd[] = {
        OP(add_epi32)(OP(madd_epi16)(pairs[3], PAIR(-F_0_899, F_1_501 - F_0_899)), z4),
        OP(add_epi32)(OP(madd_epi16)(pairs[4], PAIR(-F_2_562, F_3_072 - F_2_562)), z3),
        OP(add_epi32)(OP(madd_epi16)(pairs[4], PAIR(F_2_053 - F_2_562, -F_2_562)), z4),
        OP(add_epi32)(OP(madd_epi16)(pairs[3], PAIR(F_0_298 - F_0_899, -F_0_899)), z3),
    };
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        out[i] = OP(srai_epi32)(OP(add_epi32)(even[i], odd[i]), shift);
        out[7 - i] = OP(srai_epi32)(OP(sub_epi32)(even[i], odd[i]), shift);
    }
}

/* The inverse DCT of 8 vectors, in place: each place of them by itself. */
TARGET INLINE void NAME(pass)(VECTOR *v, int shift)
{
    const VECTOR none = OP(set1_epi32)(0);
    const VECTOR a[] = {none, none, v[2], v[7], v[5], OP(add_epi16)(v[7], v[3])};
    const VECTOR b[] = {OP(add_epi16)(v[0], v[4]), OP(sub_epi16)(v[0], v[4]), v[6], v[1], v[3],
                        OP(add_epi16)(v[5], v[1])};
    VECTOR       low[6], high[6], first[SIDE], last[SIDE];
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++) {
        low[i] = OP(unpacklo_epi16)(a[i], b[i]);
        high[i] = OP(unpackhi_epi16)(a[i], b[i]);
    }
    NAME(half)(low, shift, first);
    NAME(half)(high, shift, last);
#pragma GCC unroll 8
    for (int i = 0; i < SIDE; i++)
        v[i] = OP(packs_epi32)(first[i], last[i]);
}

/* Swaps rows and columns of each block. The number of a value has six bits, three for the row and three for the column;
 * interleaving the first half of the rows with the second one moves the highest bit to the lowest place. */
TARGET INLINE void NAME(swap)(VECTOR *v)
{
#pragma GCC unroll 3
    for (int round = 0; round < 3; round++) {
        VECTOR w[SIDE];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            w[2 * i] = OP(unpacklo_epi16)(v[i], v[i + 4]);
            w[2 * i + 1] = OP(unpackhi_epi16)(v[i], v[i + 4]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < SIDE; i++)
            v[i] = w[i];
    }
}

/* For blocks that have only a first row, the library skips the first pass, so that large values overflow where the pass
 * would limit them. */
TARGET static __attribute__((noinline)) void NAME(overflow)(const int16_t *blocks, VECTOR first, VECTOR *rows)
{
    static const int16_t none[BLOCK - SIDE];
    int16_t              values[SIDE][GROUP * SIDE], shifted[GROUP * SIDE];
    memcpy(values, rows, sizeof values);
    memcpy(shifted, &first, sizeof shifted);
    for (size_t b = 0; b < GROUP; b++)
        for (int i = 0; i < SIDE && memcmp(blocks + b * BLOCK + SIDE, none, sizeof none) == 0; i++)
            memcpy(values[i] + b * SIDE, shifted + b * SIDE, SIDE * sizeof(int16_t));
    memcpy(rows, values, sizeof values);
}

/* Results have columns in vectors. */
TARGET INLINE void NAME(store)(const VECTOR *v, uint8_t *out, int64_t pitch)
{
    VECTOR bytes[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        bytes[i] = OP(add_epi8)(OP(packs_epi16)(v[i], v[i + 4]), OP(set1_epi8)(-128));
    const VECTOR a = OP(unpacklo_epi8)(bytes[0], bytes[2]), b = OP(unpacklo_epi8)(bytes[1], bytes[3]);
    const VECTOR c = OP(unpackhi_epi8)(bytes[0], bytes[2]), d = OP(unpackhi_epi8)(bytes[1], bytes[3]);
    /* Columns 0 to 3, and 4 to 7, of four rows. */
    const VECTOR ab0 = OP(unpacklo_epi8)(a, b), ab1 = OP(unpackhi_epi8)(a, b);
    const VECTOR cd0 = OP(unpacklo_epi8)(c, d), cd1 = OP(unpackhi_epi8)(c, d);
    NAME(put)(OP(unpacklo_epi32)(ab0, cd0), out, pitch);
    NAME(put)(OP(unpackhi_epi32)(ab0, cd0), out + 2 * pitch, pitch);
    NAME(put)(OP(unpacklo_epi32)(ab1, cd1), out + 4 * pitch, pitch);
    NAME(put)(OP(unpackhi_epi32)(ab1, cd1), out + 6 * pitch, pitch);
}

TARGET static void NAME(dct)(const int16_t *coefficients, const uint16_t *table, int64_t blocks, uint8_t *out,
                             int64_t pitch)
{
    for (int64_t i = 0; i < blocks; i += GROUP, coefficients += GROUP * BLOCK, out += GROUP * SIDE) {
        VECTOR v[SIDE];
        NAME(load)(coefficients, v);
#pragma GCC unroll 8
        for (int r = 0; r < SIDE; r++)
            v[r] = OP(mullo_epi16)(v[r], NAME(repeat)(table + SIDE * r));
        const VECTOR first = v[0], shifted = OP(slli_epi16)(first, SPARE_BITS);
        NAME(pass)(v, FIRST_SHIFT);
        if (NAME(differ)(OP(srai_epi16)(shifted, SPARE_BITS), first))
            NAME(overflow)(coefficients, shifted, v);
        NAME(swap)(v);
        NAME(pass)(v, LAST_SHIFT);
        NAME(store)(v, out, pitch);
    }
}

#undef NAME
#undef TARGET
#undef VECTOR
#undef OP
#undef GROUP
