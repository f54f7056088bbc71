/* A product of a few multiplications for the element type REAL, computed without any preparation; included by gemm.c.
 * It handles four columns at a time, so that their sums do not wait for each other. */
static REAL NAME(start)(const haul__gemm *g, const REAL *bias, const REAL *c, int64_t j)
{
    return (bias ? bias[j] : 0) + (g->accumulate ? c[j] : 0);
}

/* `count` columns, at most four, of a row of C. */
static inline __attribute__((always_inline)) void NAME(columns)(const haul__gemm *g, const REAL *a, const REAL *b,
                                                                const REAL *bias, REAL *c, int64_t j, int count)
{
    REAL sum[4];
    _Pragma("GCC unroll 4") for (int s = 0; s < count; s++) sum[s] = NAME(start)(g, bias, c, j + s);
    b += j * g->b_col;
    for (int64_t k = 0; k < g->k; k++) {
        const REAL w = a[k * g->a_col];
        _Pragma("GCC unroll 4") for (int s = 0; s < count; s++) sum[s] += w * b[s * g->b_col];
        b += g->b_row;
    }
    _Pragma("GCC unroll 4") for (int s = 0; s < count; s++) c[j + s] = sum[s];
}

static void NAME(loop)(const haul__gemm *g)
{
    const REAL *a = element(g->a, g->a_offset, sizeof(REAL)), *b = element(g->b, g->b_offset, sizeof(REAL));
    const REAL *bias = g->bias ? element(g->bias, g->bias_offset, sizeof(REAL)) : NULL;
    REAL       *c = element(g->c, g->c_offset, sizeof(REAL));
    for (int64_t i = 0; i < g->m; i++, a += g->a_row, c += g->c_row) {
        int64_t j = 0;
        for (; j + 4 <= g->n; j += 4)
            NAME(columns)(g, a, b, bias, c, j, 4);
        for (; j < g->n; j++)
            NAME(columns)(g, a, b, bias, c, j, 1);
    }
}
