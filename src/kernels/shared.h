/* What many kernels do, after the mathematics (functions.h): register tiles, checks of indices, sums over rows, random
 * bits. */
/* kernel functions: a unit has those that it uses */
// clang-format off
#if IS_FLOAT
/* The TILE_ROWS rows and TILE_VECTORS vectors of a register tile, in named variables, which every compiler keeps in registers:
 * TILE_EACH(TILE_ZERO) declares it, TILE_FMA(row, w) adds w times the vectors x0 .. x3 to a row. */
#define TILE_WIDTH (TILE_VECTORS * LANES)
#define TILE_EACH(what) what(0) what(1) what(2) what(3) what(4) what(5)
#define TILE_ZERO(r)    V t##r##0 = VSPLAT(LIT(0.0)), t##r##1 = t##r##0, t##r##2 = t##r##0, t##r##3 = t##r##0;
#define TILE_LOAD(p)    const V x0 = VLOAD(p), x1 = VLOAD((p) + LANES), x2 = VLOAD((p) + 2 * LANES), x3 = VLOAD((p) + 3 * LANES);
#define TILE_ADD(r, c)   t##r##c = VFMA(tile_w, x##c, t##r##c);
#define TILE_FMA(r, w)   { const V tile_w = VSPLAT(w); TILE_ADD(r, 0) TILE_ADD(r, 1) TILE_ADD(r, 2) TILE_ADD(r, 3) }
#define TILE_STORE(r, p) { VSTORE(p, t##r##0); VSTORE((p) + LANES, t##r##1); VSTORE((p) + 2 * LANES, t##r##2); VSTORE((p) + 3 * LANES, t##r##3); }
#endif

#define SUM_OF(a, b) ((a) + (b))

FUNC I64 least(I64 a, I64 b) { return a < b ? a : b; }

/* How many items a loop takes side by side: those that are `left` for it, of `room` that are neighbours, at most `most`;
 * one where work is not CHUNKED. */
FUNC int NEIGHBOURS(I64 room, I64 left, int most)
{
    const I64 n = least(room, left);
    return CHUNKED ? (int)least(n, most) : 1;
}

FUNC void PUT_I64(GLOBAL U32 *words, I64 value)
{
    words[0] = (U32)value;
    words[1] = (U32)((U64)value >> 32);
}

/* The index `value`, which stands at `position`, or -1 if it is not in [0, bound). Then the first thread notes it in the
 * record `fault`, from which the host makes an error of `check` (device/index_fault.h). */
FUNC I64 CHECKED_INDEX(GLOBAL U32 *fault, U32 check, I64 position, I64 value, I64 bound)
{
    if ((U64)value < (U64)bound) return value;
    if (TAKE_WORD(fault + FAULT_CHECK, check)) {
        PUT_I64(fault + FAULT_POSITION, position);
        PUT_I64(fault + FAULT_VALUE, value);
        PUT_I64(fault + FAULT_BOUND, bound);
    }
    return -1;
}

/* Puts elements from j on, 4 * SUM_LANES of them, together by STEP: the four of each lane first, then those with the
 * lane's own value in s, so that few steps wait for one another. ELEMENT(k, V, TERM, w) is what element k gives. In
 * kernels of the lanes form. Each loop has one step, as compilers do not vectorise several. */
#define PUT_FOURS_TOGETHER(V, STEP, s, j, ELEMENT, TERM, w)                                                            \
    EACH_PART(haul_g, V) {                                                                                             \
        PART_VALUES(V, haul_a);                                                                                        \
        PART_VALUES(V, haul_b);                                                                                        \
        EACH_OF_PART(l, V) OF_PART(haul_a, l) = STEP(ELEMENT((j) + haul_g + l, V, TERM, w),                            \
                                                     ELEMENT((j) + haul_g + l + SUM_LANES, V, TERM, w));               \
        EACH_OF_PART(l, V) OF_PART(haul_b, l) = STEP(ELEMENT((j) + haul_g + l + 2 * SUM_LANES, V, TERM, w),            \
                                                     ELEMENT((j) + haul_g + l + 3 * SUM_LANES, V, TERM, w));           \
        EACH_OF_PART(l, V) OF_PART(haul_a, l) = STEP(OF_PART(haul_a, l), OF_PART(haul_b, l));                          \
        EACH_OF_PART(l, V) OF_LANE(s, haul_g + l) = STEP(OF_LANE(s, haul_g + l), OF_PART(haul_a, l));                  \
    }

#if IS_FLOAT
/* The largest element of a dense row, its sum, and the sum of exp(x - most) over it. In kernels of the lanes form. */
#define ROW_ELEMENT(k, V, TERM, v) TERM(LOAD(v, k))
#define ROW_SELF(x) (x)
#define ROW_EXP(x)  EXP_BELOW((x) - most)
FUNC A ROW_MAX(GLOBAL const T *v, I64 n)
{
    const I64 whole = n - n % SUM_LANES;
    const A first = LOAD(v, 0);
    LANE_VALUES(A, s);
    if (!LANES_ARE_THREADS && n <= SUM_LANES / 2) { /* the order does not matter */
        A most = first;
        for (I64 j = 1; j < n; j++) most = M_MAX(most, LOAD(v, j));
        return most;
    }
    EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = first;
    I64 j = 0;
    for (; j + 4 * SUM_LANES <= whole; j += 4 * SUM_LANES) {
        PUT_FOURS_TOGETHER(A, M_MAX, s, j, ROW_ELEMENT, ROW_SELF, v)
    }
    for (; j < whole; j += SUM_LANES)
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = M_MAX(OF_LANE(s, l), LOAD(v, j + l));
    EACH_REST(l, n - whole) OF_LANE(s, l) = IN_REST(l, n - whole, M_MAX(OF_LANE(s, l), LOAD(v, whole + l)), OF_LANE(s, l));
    LANE_TREE(A, s, M_MAX)
    return OF_FIRST_LANE(s);
}
#define ROW_ADD(v, n, TERM)                                                                                            \
    const I64 whole = (n) - (n) % SUM_LANES;                                                                           \
    LANE_VALUES(A, s);                                                                                                 \
    EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;                                                                         \
    I64 j = 0;                                                                                                         \
    for (; j + 4 * SUM_LANES <= whole; j += 4 * SUM_LANES) {                                                           \
        PUT_FOURS_TOGETHER(A, SUM_OF, s, j, ROW_ELEMENT, TERM, v)                                                      \
    }                                                                                                                  \
    for (; j < whole; j += SUM_LANES) EACH_LANE(l, SUM_LANES) OF_LANE(s, l) += TERM(LOAD(v, j + l));                   \
    EACH_REST(l, (n) - whole) OF_LANE(s, l) = IN_REST(l, (n) - whole, OF_LANE(s, l) + TERM(LOAD(v, whole + l)), OF_LANE(s, l)); \
    LANE_TREE(A, s, SUM_OF)
/* Rows with a NaN or an infinite maximum have no sum of exponentials. */
#define NAN_IF_NOT_FINITE(most) ((most) - (most))
FUNC A ROW_SUM(GLOBAL const T *v, I64 n)
{
    ROW_ADD(v, n, ROW_SELF)
    return OF_FIRST_LANE(s);
}
FUNC A ROW_EXP_SUM(GLOBAL const T *v, I64 n, A most)
{
    ROW_ADD(v, n, ROW_EXP)
    return OF_FIRST_LANE(s) + NAN_IF_NOT_FINITE(most);
}
#endif

/* Philox 4x32-10 (Salmon et al. 2011): four words of random bits for each 64-bit counter, here of PHILOX_BLOCKS counters
 * from `counter` on, so that vector units are used. Word j of block b is words[4 b + j]. */
#define PHILOX_BLOCKS (CHUNKED ? 32 : 1)
FUNC void philox(U64 seed, U64 counter, U32 *words)
{
    U32 c0[PHILOX_BLOCKS], c1[PHILOX_BLOCKS], c2[PHILOX_BLOCKS], c3[PHILOX_BLOCKS];
    U32 k0 = (U32)seed, k1 = (U32)(seed >> 32);
    for (int b = 0; b < PHILOX_BLOCKS; b++) {
        const U64 c = counter + (U64)b;
        c0[b] = (U32)c;
        c1[b] = (U32)(c >> 32);
        c2[b] = 0;
        c3[b] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (int b = 0; b < PHILOX_BLOCKS; b++) {
            const U32 high0 = MULHI32(0xD2511F53u, c0[b]), low0 = 0xD2511F53u * c0[b];
            const U32 high1 = MULHI32(0xCD9E8D57u, c2[b]), low1 = 0xCD9E8D57u * c2[b];
            c0[b] = high1 ^ c1[b] ^ k0;
            c1[b] = low1;
            c2[b] = high0 ^ c3[b] ^ k1;
            c3[b] = low0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int b = 0; b < PHILOX_BLOCKS; b++) {
        words[4 * b] = c0[b];
        words[4 * b + 1] = c1[b];
        words[4 * b + 2] = c2[b];
        words[4 * b + 3] = c3[b];
    }
}
