/* The loop around a pointwise formula, for every layout.
 *
 * Operands are described by collapsed dimensions, innermost last. Operand 0 is the result. Where work is CHUNKED a work
 * item is an element of the result, in their order, and the loop takes as much of an innermost row as is its own. On
 * GPUs an item is `pack` elements: one, or as many as 16 bytes hold where they lie together in every operand (or are
 * one and the same element), which are then loaded and stored at once. */
// clang-format off
typedef struct pointwise_params {
    I64 items;
    I64 dims[8];
    I64 strides[4][8];
    I64 offsets[4];
    U64 scalars[2];
    I32 ndim; /* at least 1 */
    /* For GPUs: */
    I32 pack;       /* elements of an item */
    I64 count;      /* elements of the result */
    I32 narrow;     /* positions fit in 31 bits, and factors and shifts are set */
    I32 shifts[8];  /* n / dims[d] is (high word of n * factors[d] + n) >> shifts[d] */
    U32 factors[8]; /* Granlund, Montgomery 1994 */
    I32 reserved;
} pointwise_params;

/* Elements of a size in 16 bytes, at most 8: what an item on GPUs may have. */
#define POINTWISE_PACK(size) ((size) > 2 ? 16 / (size) : 8)

#ifdef HAUL_KERNEL
#define POINTWISE_BEGIN                                                                                                \
    const int last = p.ndim - 1;                                                                                       \
    const A   s0 = SCALAR(p.scalars[0]), s1 = SCALAR(p.scalars[1]);                                                     \
    (void)s0;                                                                                                          \
    (void)s1;

/* PUT is STORE for results of the operands' dtype, PUT_BOOL for bools. */
#define PUT_BOOL(q, i, v) ((q)[i] = (U8)((v) ? 1 : 0))

#if CHUNKED
/* Coordinates of element i: the offset of each operand, and how many elements of the row follow. */
#define ROW_OF(i, operands)                                                                                            \
    I64 at[4] = {p.offsets[0], p.offsets[1], p.offsets[2], p.offsets[3]};                                               \
    I64 haul_q = (i), row;                                                                                             \
    {                                                                                                                  \
        I64 next = p.ndim > 1 ? haul_q / p.dims[last] : 0, c = haul_q - next * p.dims[last];                            \
        for (int k = 0; k < operands; k++) at[k] += c * p.strides[k][last];                                             \
        row = p.dims[last] - c;                                                                                        \
        haul_q = next;                                                                                                 \
        for (int d = last - 1; d >= 0; d--) {                                                                          \
            next = haul_q / p.dims[d];                                                                                 \
            c = haul_q - next * p.dims[d];                                                                             \
            for (int k = 0; k < operands; k++) at[k] += c * p.strides[k][d];                                            \
            haul_q = next;                                                                                             \
        }                                                                                                              \
        row = CHUNKED ? M_MIN_OF(row, ITEMS_END - (i)) : 1;                                                            \
    }
#define EACH(body) VECTOR_LOOP for (I64 j = 0; j < row; j++) body

#define POINTWISE1(name, R, PUT, formula)                                                                              \
    KERNEL2(name, pointwise_params, R, out, const T, in0)                                                              \
    {                                                                                                                  \
        POINTWISE_BEGIN                                                                                                \
        const I64 t0 = p.strides[0][last], t1 = p.strides[1][last];                                                     \
        for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {                                                                    \
            ROW_OF(i, 2)                                                                                               \
            GLOBAL R *o = out + at[0];                                                                                 \
            GLOBAL const T *v0 = in0 + at[1];                                                                          \
            if (t0 == 1 && t1 == 1) EACH({ const A x = LOAD(v0, j); PUT(o, j, formula); })                             \
            else EACH({ const A x = LOAD(v0, j * t1); PUT(o, j * t0, formula); })                                      \
            i += ITEMS_STEP(row);                                                                                      \
        }                                                                                                              \
    }

#define POINTWISE2(name, R, PUT, formula)                                                                              \
    KERNEL3(name, pointwise_params, R, out, const T, in0, const T, in1)                                                \
    {                                                                                                                  \
        POINTWISE_BEGIN                                                                                                \
        const I64 t0 = p.strides[0][last], t1 = p.strides[1][last], t2 = p.strides[2][last];                            \
        for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {                                                                    \
            ROW_OF(i, 3)                                                                                               \
            GLOBAL R *o = out + at[0];                                                                                 \
            GLOBAL const T *v0 = in0 + at[1];                                                                          \
            GLOBAL const T *v1 = in1 + at[2];                                                                          \
            if (t0 == 1 && t1 == 1 && t2 == 1)                                                                         \
                EACH({ const A a = LOAD(v0, j); const A b = LOAD(v1, j); PUT(o, j, formula); })                        \
            else if (t0 == 1 && t1 == 1 && t2 == 0) {                                                                  \
                const A b = LOAD(v1, 0);                                                                               \
                EACH({ const A a = LOAD(v0, j); PUT(o, j, formula); })                                                 \
            } else                                                                                                     \
                EACH({ const A a = LOAD(v0, j * t1); const A b = LOAD(v1, j * t2); PUT(o, j * t0, formula); })         \
            i += ITEMS_STEP(row);                                                                                      \
        }                                                                                                              \
    }

/* A binary row with the second operand a scalar. */
#define POINTWISE_SCALAR(name, R, PUT, formula)                                                                        \
    KERNEL2(name, pointwise_params, R, out, const T, in0)                                                              \
    {                                                                                                                  \
        POINTWISE_BEGIN                                                                                                \
        const A b = s0;                                                                                                \
        const I64 t0 = p.strides[0][last], t1 = p.strides[1][last];                                                     \
        for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {                                                                    \
            ROW_OF(i, 2)                                                                                               \
            GLOBAL R *o = out + at[0];                                                                                 \
            GLOBAL const T *v0 = in0 + at[1];                                                                          \
            if (t0 == 1 && t1 == 1) EACH({ const A a = LOAD(v0, j); PUT(o, j, formula); })                             \
            else EACH({ const A a = LOAD(v0, j * t1); PUT(o, j * t0, formula); })                                      \
            i += ITEMS_STEP(row);                                                                                      \
        }                                                                                                              \
    }
#else
#define PACK ((int)POINTWISE_PACK(sizeof(T)))
#define PACK_TYPE(S)                                                                                                   \
    typedef struct __attribute__((aligned(sizeof(S) * PACK > 16 ? 16 : sizeof(S) * PACK))) pack_##S {                  \
        S of[PACK];                                                                                                    \
    } pack_##S;
PACK_TYPE(T)
PACK_TYPE(U8)

/* Item i: how many elements, and the offset of each operand's first. */
#define PACK_AT(i, operands)                                                                                           \
    const I64 haul_at = (i) * p.pack;                                                                                  \
    const int n = (int)M_MIN_OF((I64)p.pack, p.count - haul_at);                                                       \
    I64 at[4] = {p.offsets[0], p.offsets[1], p.offsets[2], p.offsets[3]};                                              \
    if (p.ndim == 1)                                                                                                   \
        for (int k = 0; k < operands; k++) at[k] += haul_at * p.strides[k][0];                                         \
    else if (p.narrow) {                                                                                               \
        U32 rest = (U32)haul_at;                                                                                       \
        I32 near[4] = {0, 0, 0, 0};                                                                                    \
        for (int d = p.ndim - 1; d > 0; d--) {                                                                         \
            const U32 next = (MULHI32(rest, p.factors[d]) + rest) >> p.shifts[d];                                      \
            const I32 step = (I32)(rest - next * (U32)p.dims[d]);                                                      \
            for (int k = 0; k < operands; k++) near[k] += step * (I32)p.strides[k][d];                                 \
            rest = next;                                                                                               \
        }                                                                                                              \
        for (int k = 0; k < operands; k++) at[k] += near[k] + (I32)rest * (I32)p.strides[k][0];                        \
    } else {                                                                                                           \
        I64 rest = haul_at;                                                                                            \
        for (int d = p.ndim - 1; d > 0; d--) {                                                                         \
            const I64 next = QUOTIENT(rest, p.dims[d]);                                                                \
            for (int k = 0; k < operands; k++) at[k] += (rest - next * p.dims[d]) * p.strides[k][d];                   \
            rest = next;                                                                                               \
        }                                                                                                              \
        for (int k = 0; k < operands; k++) at[k] += rest * p.strides[k][0];                                            \
    }
#define FOR_PACKS(i) for (I64 i = ITEMS_BEGIN; i < ITEMS_END; i += ITEMS_STEP(1))
#define IS_WHOLE     (n == PACK && p.pack == PACK)

/* An operand of a whole item, whose elements are side by side or all the same one. */
#define PACK_LOAD(S, name, from, step)                                                                                 \
    pack_##S name;                                                                                                     \
    if (step) name = *(GLOBAL const pack_##S *)(from);                                                                 \
    else PACK_LOOP for (int j = 0; j < PACK; j++) name.of[j] = (from)[0];
#define PACK_STORE(S, to, name) (*(GLOBAL pack_##S *)(to) = name)

#define POINTWISE1(name, R, PUT, formula)                                                                              \
    KERNEL2(name, pointwise_params, R, out, const T, in0)                                                              \
    {                                                                                                                  \
        POINTWISE_BEGIN                                                                                                \
        const I64 t0 = p.strides[0][last], t1 = p.strides[1][last];                                                    \
        FOR_PACKS(i)                                                                                                   \
        {                                                                                                              \
            PACK_AT(i, 2)                                                                                              \
            GLOBAL R *o = out + at[0];                                                                                 \
            GLOBAL const T *v0 = in0 + at[1];                                                                          \
            if (IS_WHOLE) {                                                                                            \
                pack_##R y;                                                                                            \
                PACK_LOAD(T, w0, v0, t1)                                                                               \
                PACK_LOOP for (int j = 0; j < PACK; j++) { const A x = LOAD(w0.of, j); PUT(y.of, j, formula); }        \
                PACK_STORE(R, o, y);                                                                                   \
            } else                                                                                                     \
                PACK_REST for (int j = 0; j < n; j++) { const A x = LOAD(v0, j * t1); PUT(o, j * t0, formula); }       \
        }                                                                                                              \
    }

#define POINTWISE2(name, R, PUT, formula)                                                                              \
    KERNEL3(name, pointwise_params, R, out, const T, in0, const T, in1)                                                \
    {                                                                                                                  \
        POINTWISE_BEGIN                                                                                                \
        const I64 t0 = p.strides[0][last], t1 = p.strides[1][last], t2 = p.strides[2][last];                           \
        FOR_PACKS(i)                                                                                                   \
        {                                                                                                              \
            PACK_AT(i, 3)                                                                                              \
            GLOBAL R *o = out + at[0];                                                                                 \
            GLOBAL const T *v0 = in0 + at[1];                                                                          \
            GLOBAL const T *v1 = in1 + at[2];                                                                          \
            if (IS_WHOLE) {                                                                                            \
                pack_##R y;                                                                                            \
                PACK_LOAD(T, w0, v0, t1)                                                                               \
                PACK_LOAD(T, w1, v1, t2)                                                                               \
                PACK_LOOP for (int j = 0; j < PACK; j++) {                                                             \
                    const A a = LOAD(w0.of, j), b = LOAD(w1.of, j);                                                    \
                    PUT(y.of, j, formula);                                                                             \
                }                                                                                                      \
                PACK_STORE(R, o, y);                                                                                   \
            } else                                                                                                     \
                PACK_REST for (int j = 0; j < n; j++) {                                                                \
                    const A a = LOAD(v0, j * t1), b = LOAD(v1, j * t2);                                                \
                    PUT(o, j * t0, formula);                                                                           \
                }                                                                                                      \
        }                                                                                                              \
    }

/* A binary row with the second operand a scalar. */
#define POINTWISE_SCALAR(name, R, PUT, formula)                                                                        \
    KERNEL2(name, pointwise_params, R, out, const T, in0)                                                              \
    {                                                                                                                  \
        POINTWISE_BEGIN                                                                                                \
        const A b = s0;                                                                                                \
        const I64 t0 = p.strides[0][last], t1 = p.strides[1][last];                                                    \
        FOR_PACKS(i)                                                                                                   \
        {                                                                                                              \
            PACK_AT(i, 2)                                                                                              \
            GLOBAL R *o = out + at[0];                                                                                 \
            GLOBAL const T *v0 = in0 + at[1];                                                                          \
            if (IS_WHOLE) {                                                                                            \
                pack_##R y;                                                                                            \
                PACK_LOAD(T, w0, v0, t1)                                                                               \
                PACK_LOOP for (int j = 0; j < PACK; j++) { const A a = LOAD(w0.of, j); PUT(y.of, j, formula); }        \
                PACK_STORE(R, o, y);                                                                                   \
            } else                                                                                                     \
                PACK_REST for (int j = 0; j < n; j++) { const A a = LOAD(v0, j * t1); PUT(o, j * t0, formula); }       \
        }                                                                                                              \
    }
#endif
#endif
