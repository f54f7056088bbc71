/* The loop around a pointwise formula, for every layout.
 *
 * Operands are described by collapsed dimensions, innermost last. Operand 0 is the result. Where work is CHUNKED a work
 * item is an element of the result, in their order, and the loop takes as much of an innermost row as is its own. On
 * GPUs an item is `pack` elements: one, or as many as 16 bytes hold where they are neighbours in every operand (or are
 * one and the same element), which are then loaded and stored at once. */
// clang-format off
typedef struct pointwise_params {
    I64 items;
    I64 dims[8];
    struct { I64 of[8]; } strides[4]; /* no array of arrays: Mesa 22 passes one row of it */
    I64 offsets[4];
    U64 scalars[2];
    I32 ndim; /* at least 1 */
    /* For GPUs: */
    I32 pack;       /* elements of an item */
    I64 count;      /* elements of the result */
    I32 narrow;     /* positions fit in 31 bits, and factors and shifts are set */
    I32 shifts[8];  /* n / dims[d] is (high word of n * factors[d] + n) >> shifts[d] */
    U32 factors[8]; /* Granlund, Montgomery 1994 */
    /* For processors: */
    I32 nontemporal; /* the result is dense and goes past the caches */
} pointwise_params;

/* What an item on GPUs may have: the elements in so many bytes, but no more than this number. */
enum { POINTWISE_PACK_BYTES = 16, POINTWISE_PACK_MOST = 8 };

#ifdef HAUL_KERNEL
/* How results are stored: by STORE if they have the operands' dtype, by PUT_BOOL if they are bools, by RAW_STORE as they
 * are; and how operands are read: by LOAD, or by RAW_LOAD as they are. PUT_at stores VALUE as element J of TO, and
 * READ_at declares X, element J of FROM. */
TEMPLATE(STORE_at, TO, J, VALUE)
                STORE(TO, J, VALUE);
END_TEMPLATE
TEMPLATE(PUT_BOOL_at, TO, J, VALUE)
                (TO)[J] = (U8)((VALUE) ? 1 : 0);
END_TEMPLATE
TEMPLATE(RAW_STORE_at, TO, J, VALUE)
                (TO)[J] = VALUE;
END_TEMPLATE
TEMPLATE(LOAD_at, V, X, FROM, J)
                const V X = LOAD(FROM, J);
END_TEMPLATE
TEMPLATE(RAW_LOAD_at, V, X, FROM, J)
                const V X = (FROM)[J];
END_TEMPLATE

#if CHUNKED
/* The elements from i on of which `left` are to be done: how many of them are in one innermost row, and where the first
 * is in each operand. */
INLINE I64 pointwise_row(const pointwise_params *p, I64 i, I64 left, int operands, I64 *at)
{
    const int last = p->ndim - 1;
    I64 next = p->ndim > 1 ? i / p->dims[last] : 0, c = i - next * p->dims[last];
    const I64 row = p->dims[last] - c;
    for (int k = 0; k < operands; k++) at[k] = p->offsets[k] + c * p->strides[k].of[last];
    i = next;
    for (int d = last - 1; d >= 0; d--) {
        next = i / p->dims[d];
        c = i - next * p->dims[d];
        for (int k = 0; k < operands; k++) at[k] += c * p->strides[k].of[d];
        i = next;
    }
    return M_MIN_OF(row, left);
}

/* Dense rows are worked on in blocks where the result goes past the caches, in whole lines straight
 * from registers, and where HALF_BLOCKS are converted at once. READ_block declares W for the block of N at FROM, and
 * READ_of declares X, an element of it; PUT_block declares Y for results, PUT_to puts one there, PUT_end stores them at TO.
 * READ is LOAD or RAW_LOAD, PUT is STORE, PUT_BOOL or RAW_STORE. */
#ifndef HALF_BLOCKS
#define HALF_BLOCKS 0
#endif
#if defined(HAUL_SMALL) && !A_IS_F32 /* shorter code */
enum { BLOCKS_HAVE_LINES = 0 };
#else
enum { BLOCKS_HAVE_LINES = HAS_LINES };
#endif
TEMPLATE(RAW_LOAD_block, S, N, W, FROM)
                GLOBAL const S *W = FROM;
END_TEMPLATE
TEMPLATE(RAW_STORE_block, R, N, Y)
                R Y[N];
END_TEMPLATE
TEMPLATE(RAW_STORE_end, R, N, TO, Y)
                if (!HALF_BLOCKS || (HAS_LINES && p.nontemporal)) for (int l = 0; l < N; l += 64 / (int)sizeof(R)) PUT_LINE((TO) + l, Y + l);
                else BLOCK_LOOP for (int l = 0; l < N; l++) (TO)[l] = Y[l];
END_TEMPLATE
TEMPLATE(LOAD_block, S, N, W, FROM)
#if HALF_BLOCKS
                F32 W[N];
                WIDEN_BLOCK(W, FROM, N);
#else
                EXPAND(RAW_LOAD_block, S, N, W, FROM)
#endif
END_TEMPLATE
TEMPLATE(STORE_block, R, N, Y)
#if HALF_BLOCKS
                F32 Y[N];
#else
                EXPAND(RAW_STORE_block, R, N, Y)
#endif
END_TEMPLATE
TEMPLATE(STORE_end, R, N, TO, Y)
#if HALF_BLOCKS
                R halves[N];
                NARROW_BLOCK(halves, Y, N);
                EXPAND(RAW_STORE_end, R, N, TO, halves)
#else
                EXPAND(RAW_STORE_end, R, N, TO, Y)
#endif
END_TEMPLATE
TEMPLATE(PUT_BOOL_block, R, N, Y)
                EXPAND(RAW_STORE_block, R, N, Y)
END_TEMPLATE
TEMPLATE(PUT_BOOL_end, R, N, TO, Y)
                EXPAND(RAW_STORE_end, R, N, TO, Y)
END_TEMPLATE
TEMPLATE(LOAD_of, V, X, W, J)
#if HALF_BLOCKS
                    const V X = (W)[J];
#else
                    EXPAND(LOAD_at, V, X, W, J)
#endif
END_TEMPLATE
TEMPLATE(RAW_LOAD_of, V, X, W, J)
                    EXPAND(RAW_LOAD_at, V, X, W, J)
END_TEMPLATE
TEMPLATE(STORE_to, Y, J, VALUE)
#if HALF_BLOCKS
                    (Y)[J] = (F32)(VALUE);
#else
                    EXPAND(STORE_at, Y, J, VALUE)
#endif
END_TEMPLATE
TEMPLATE(PUT_BOOL_to, Y, J, VALUE)
                    EXPAND(PUT_BOOL_at, Y, J, VALUE)
END_TEMPLATE
TEMPLATE(RAW_STORE_to, Y, J, VALUE)
                    EXPAND(RAW_STORE_at, Y, J, VALUE)
END_TEMPLATE
/* True if a dense row begins with blocks. Past the caches they begin at a line, which is `before` bytes away. */
INLINE U32 pointwise_in_blocks(I64 row, int block, I32 past_caches, U64 before)
{
    return row >= block && (past_caches ? before == 0 : HALF_BLOCKS);
}
/* How many elements of it are worked on alike: those before a line, or those of whole blocks. */
INLINE I64 pointwise_part(I64 row, I64 before, int block)
{
    return before ? least(row, before) : row - row % block;
}
#else
enum { PACK = sizeof(T) > 2 ? POINTWISE_PACK_BYTES / (int)sizeof(T) : POINTWISE_PACK_MOST };
TEMPLATE(pack_type, S)
typedef struct __attribute__((aligned(sizeof(S) * PACK > 16 ? 16 : sizeof(S) * PACK))) pack_##S {
    S of[PACK];
} pack_##S;
END_TEMPLATE
EXPAND(pack_type, T)
EXPAND(pack_type, U8)

/* Item i: how many elements it has, and where the first is in each operand. */
INLINE int pointwise_pack(const pointwise_params *p, I64 i, int operands, I64 *at)
{
    const I64 first = i * p->pack;
    for (int k = 0; k < operands; k++) at[k] = p->offsets[k];
    if (p->ndim == 1) {
        for (int k = 0; k < operands; k++) at[k] += first * p->strides[k].of[0];
    } else if (p->narrow) {
        U32 rest = (U32)first;
        I32 near[4] = {0, 0, 0, 0};
        for (int d = p->ndim - 1; d > 0; d--) {
            const U32 next = (MULHI32(rest, p->factors[d]) + rest) >> p->shifts[d];
            const I32 step = (I32)(rest - next * (U32)p->dims[d]);
            for (int k = 0; k < operands; k++) near[k] += step * (I32)p->strides[k].of[d];
            rest = next;
        }
        for (int k = 0; k < operands; k++) at[k] += near[k] + (I32)rest * (I32)p->strides[k].of[0];
    } else {
        I64 rest = first;
        for (int d = p->ndim - 1; d > 0; d--) {
            const I64 next = QUOTIENT(rest, p->dims[d]);
            for (int k = 0; k < operands; k++) at[k] += (rest - next * p->dims[d]) * p->strides[k].of[d];
            rest = next;
        }
        for (int k = 0; k < operands; k++) at[k] += rest * p->strides[k].of[0];
    }
    return (int)M_MIN_OF((I64)p->pack, p->count - first);
}
INLINE I32 pointwise_is_whole(const pointwise_params *p, int n) { return n == PACK && p->pack == PACK; }

/* An operand of a whole item, whose elements are side by side or all the same one. */
#ifndef PACK_MOVE /* of the backend */
#define PACK_MOVE(S, TO, to, FROM, from) *(TO pack_##S *)(to) = *(FROM const pack_##S *)(from)
#endif
TEMPLATE(pack_load, S, NAME, FROM, STEP)
            pack_##S NAME;
            if (STEP) PACK_MOVE(S, PRIVATE, &NAME, GLOBAL, FROM);
            else PACK_LOOP for (int j = 0; j < PACK; j++) NAME.of[j] = (FROM)[0];
END_TEMPLATE
TEMPLATE(pack_store, S, TO, NAME)
            PACK_MOVE(S, GLOBAL, TO, PRIVATE, &NAME);
END_TEMPLATE
#endif

/* FORMULA is one of X, an element of type S that READ turns into a V, and of the scalars: s0, which is also b, and s1.
 * NEAR is the same for an X for which IS_FAR does not hold. It vectorises, and is used where no element of a run is far. Without BLOCKS,
 * dense rows are not taken in blocks: half the code. */
INLINE I32 NEVER(A x) { (void)x; return 0; }
TEMPLATE(pointwise1, NAME, R, PUT, S, V, READ, X, FORMULA, IS_FAR, NEAR, BLOCKS)
KERNEL2(NAME, pointwise_params, R, out, const S, in0)
{
    const int last = p.ndim - 1;
    const A s0 = SCALAR(p.scalars[0]), s1 = SCALAR(p.scalars[1]), b = s0;
    const I64 t0 = p.strides[0].of[last], t1 = p.strides[1].of[last];
    (void)s0, (void)s1, (void)b;
#if CHUNKED
    enum { block = FIXED_BLOCK ? FIXED_BLOCK : sizeof(R) == sizeof(S) && sizeof(R) >= 4 ? 64 / (int)sizeof(R) : 64 };
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        I64 at[2], row = pointwise_row(&p, i, ITEMS_END - i, 2, at);
        GLOBAL R *o = out + at[0];
        GLOBAL const S *v = in0 + at[1];
        U32 far = t0 != 1 || t1 != 1;
        row = IS_FAR(LIT(-1e9)) ? least(row, LINES_RUN) : row;
        if (IS_FAR(LIT(-1e9)) && !far)
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                EXPAND(READ##_at, V, X, v, j)
                far |= IS_FAR(X);
            }
        const U32 blocks = BLOCKS && !far && pointwise_in_blocks(row, block, BLOCKS_HAVE_LINES && p.nontemporal, BYTES_TO_LINE(o));
        row = far ? row : pointwise_part(row, BLOCKS_HAVE_LINES && p.nontemporal ? (I64)(BYTES_TO_LINE(o) / sizeof(R)) : 0, blocks ? block : 1);
        if (blocks)
            for (I64 k = 0; k < row; k += block) {
                EXPAND(READ##_block, S, block, w, v + k)
                EXPAND(PUT##_block, R, block, y)
                BLOCK_LOOP for (int j = 0; j < block; j++) {
                    EXPAND(READ##_of, V, X, w, j)
                    EXPAND(PUT##_to, y, j, NEAR)
                }
                EXPAND(PUT##_end, R, block, o + k, y)
            }
        else if (!far)
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                EXPAND(READ##_at, V, X, v, j)
                EXPAND(PUT##_at, o, j, NEAR)
            }
        else
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                EXPAND(READ##_at, V, X, v, j * t1)
                EXPAND(PUT##_at, o, j * t0, FORMULA)
            }
        i += ITEMS_STEP(row);
    }
    PUT_LINES_END(HAS_LINES && p.nontemporal);
#else
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END; i += ITEMS_STEP(1)) {
        I64 at[2];
        const int n = pointwise_pack(&p, i, 2, at);
        GLOBAL R *o = out + at[0];
        GLOBAL const S *v = in0 + at[1];
        if (pointwise_is_whole(&p, n)) {
            pack_##R y;
            EXPAND(pack_load, S, w, v, t1)
            PACK_LOOP for (int j = 0; j < PACK; j++) {
                EXPAND(READ##_at, V, X, w.of, j)
                EXPAND(PUT##_at, y.of, j, FORMULA)
            }
            EXPAND(pack_store, R, o, y)
        } else {
            PACK_REST for (int j = 0; j < n; j++) {
                EXPAND(READ##_at, V, X, v, j * t1)
                EXPAND(PUT##_at, o, j * t0, FORMULA)
            }
        }
    }
#endif
}
END_TEMPLATE

/* FORMULA is one of the elements a and b, and of the scalars s0 and s1. */
TEMPLATE(pointwise2, NAME, R, PUT, FORMULA, BLOCKS)
KERNEL3(NAME, pointwise_params, R, out, const T, in0, const T, in1)
{
    const int last = p.ndim - 1;
    const A s0 = SCALAR(p.scalars[0]), s1 = SCALAR(p.scalars[1]);
    const I64 t0 = p.strides[0].of[last], t1 = p.strides[1].of[last], t2 = p.strides[2].of[last];
    (void)s0, (void)s1;
#if CHUNKED
    enum { block = FIXED_BLOCK ? FIXED_BLOCK : sizeof(R) == sizeof(T) && sizeof(R) >= 4 ? 64 / (int)sizeof(R) : 64 };
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        I64 at[3], row = pointwise_row(&p, i, ITEMS_END - i, 3, at);
        GLOBAL R *o = out + at[0];
        GLOBAL const T *v0 = in0 + at[1], *v1 = in1 + at[2];
        const U32 dense = t0 == 1 && t1 == 1 && (t2 == 1 || t2 == 0), blocks = BLOCKS && dense && pointwise_in_blocks(row, block, BLOCKS_HAVE_LINES && p.nontemporal, BYTES_TO_LINE(o));
        row = dense ? pointwise_part(row, BLOCKS_HAVE_LINES && p.nontemporal ? (I64)(BYTES_TO_LINE(o) / sizeof(R)) : 0, blocks ? block : 1) : row;
        if (blocks && t2 == 1)
            for (I64 k = 0; k < row; k += block) {
                EXPAND(LOAD_block, T, block, w0, v0 + k)
                EXPAND(LOAD_block, T, block, w1, v1 + k)
                EXPAND(PUT##_block, R, block, y)
                BLOCK_LOOP for (int j = 0; j < block; j++) {
                    EXPAND(LOAD_of, A, a, w0, j)
                    EXPAND(LOAD_of, A, b, w1, j)
                    EXPAND(PUT##_to, y, j, FORMULA)
                }
                EXPAND(PUT##_end, R, block, o + k, y)
            }
        else if (blocks) {
            const A b = LOAD(v1, 0);
            for (I64 k = 0; k < row; k += block) {
                EXPAND(LOAD_block, T, block, w0, v0 + k)
                EXPAND(PUT##_block, R, block, y)
                BLOCK_LOOP for (int j = 0; j < block; j++) {
                    EXPAND(LOAD_of, A, a, w0, j)
                    EXPAND(PUT##_to, y, j, FORMULA)
                }
                EXPAND(PUT##_end, R, block, o + k, y)
            }
        } else if (dense && t2 == 1)
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                const A a = LOAD(v0, j), b = LOAD(v1, j);
                EXPAND(PUT##_at, o, j, FORMULA)
            }
        else if (dense) {
            const A b = LOAD(v1, 0);
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                const A a = LOAD(v0, j);
                EXPAND(PUT##_at, o, j, FORMULA)
            }
        } else
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                const A a = LOAD(v0, j * t1), b = LOAD(v1, j * t2);
                EXPAND(PUT##_at, o, j * t0, FORMULA)
            }
        i += ITEMS_STEP(row);
    }
    PUT_LINES_END(HAS_LINES && p.nontemporal);
#else
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END; i += ITEMS_STEP(1)) {
        I64 at[3];
        const int n = pointwise_pack(&p, i, 3, at);
        GLOBAL R *o = out + at[0];
        GLOBAL const T *v0 = in0 + at[1], *v1 = in1 + at[2];
        if (pointwise_is_whole(&p, n)) {
            pack_##R y;
            EXPAND(pack_load, T, w0, v0, t1)
            EXPAND(pack_load, T, w1, v1, t2)
            PACK_LOOP for (int j = 0; j < PACK; j++) {
                const A a = LOAD(w0.of, j), b = LOAD(w1.of, j);
                EXPAND(PUT##_at, y.of, j, FORMULA)
            }
            EXPAND(pack_store, R, o, y)
        } else {
            PACK_REST for (int j = 0; j < n; j++) {
                const A a = LOAD(v0, j * t1), b = LOAD(v1, j * t2);
                EXPAND(PUT##_at, o, j * t0, FORMULA)
            }
        }
    }
#endif
}
END_TEMPLATE
#endif
