/* The loop around a pointwise formula, for every layout.
 *
 * Operands are described by collapsed dimensions, innermost last. A work item is an element of the result, in their order;
 * where work is CHUNKED the loop takes as much of an innermost row as is its own. Operand 0 is the result. */
typedef struct pointwise_params {
    I64 items;
    I64 dims[8];
    I64 strides[4][8];
    I64 offsets[4];
    U64 scalars[2];
    I32 ndim; /* at least 1 */
    I32 reserved;
} pointwise_params;

#ifdef HAUL_KERNEL
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

#define POINTWISE_BEGIN                                                                                                \
    const int last = p.ndim - 1;                                                                                       \
    const A   s0 = SCALAR(p.scalars[0]), s1 = SCALAR(p.scalars[1]);                                                     \
    (void)s0;                                                                                                          \
    (void)s1;
#define EACH(body) VECTOR_LOOP for (I64 j = 0; j < row; j++) body

/* PUT is STORE for results of the operands' dtype, PUT_BOOL for bools. */
#define PUT_BOOL(q, i, v) ((q)[i] = (U8)((v) ? 1 : 0))

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
#endif
