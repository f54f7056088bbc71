/* The tiles for one element type REAL; included by tiles_fma.c, which says what the other names mean.
 *
 * The functions that take sizes as arguments are inlined into switches with constant ones, so that all accumulators are
 * registers. */
#define LANES         (VECTOR_BYTES / (int)sizeof(REAL))
#define WIDTH         (TILE_VECTORS * LANES)
#define VECTOR        NAME(vector)
#define QUARTER       NAME(quarter) /* 16 bytes */
#define QUARTER_LANES (16 / (int)sizeof(REAL))
#define DOT_VECTORS   (HAUL__DOT_BYTES / VECTOR_BYTES)
#define DOT_SUMS      (DOT_COLUMNS * DOT_VECTORS)

typedef REAL VECTOR __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));
typedef REAL QUARTER __attribute__((vector_size(16)));

INLINE VECTOR NAME(load)(const REAL *p)
{
    return *(const VECTOR *)p;
}

INLINE void NAME(store)(REAL *p, VECTOR v)
{
    *(VECTOR *)p = v;
}

#ifdef MASK_LOAD
/* The first `count` lanes, fewer than all, zeros in the others. */
INLINE VECTOR NAME(load_part)(const REAL *p, int64_t count)
{
    return (VECTOR)MASK_LOAD(p, count);
}

INLINE void NAME(store_part)(REAL *p, VECTOR v, int64_t count)
{
    MASK_STORE(p, v, count);
}
#else
/* Copy fewer elements than a vector has, by sizes that are known: without a call. */
INLINE void NAME(copy_part)(REAL *to, const REAL *from, int64_t count)
{
    UNROLL for (int n = LANES / 2; n > 0; n /= 2)
    {
        if (!(count & n))
            continue;
        memcpy(to, from, (size_t)n * sizeof(REAL));
        to += n;
        from += n;
    }
}

INLINE VECTOR NAME(load_part)(const REAL *p, int64_t count)
{
    VECTOR v = {0};
    NAME(copy_part)((REAL *)&v, p, count);
    return v;
}

INLINE void NAME(store_part)(REAL *p, VECTOR v, int64_t count)
{
    NAME(copy_part)(p, (const REAL *)&v, count);
}
#endif

/* The first `count` lanes, or all of them. */
INLINE VECTOR NAME(load_first)(const REAL *p, int64_t count)
{
    return count < LANES ? NAME(load_part)(p, count) : NAME(load)(p);
}

/* ---- products ---- */

/* The tile at row i and column j over rows [k0, k1) of B. */
INLINE void NAME(tile)(const haul__cpu_product *p, int rows, int vectors, int64_t i, int64_t j, int64_t k0, int64_t k1)
{
    const int64_t a_row = p->a_row, a_column = p->a_column, columns = p->n - j;
    const REAL   *a = (const REAL *)p->a + i * a_row + k0 * a_column;
    const REAL   *b = (const REAL *)p->b + j;
    REAL         *c = (REAL *)p->c + i * p->c_row + j;
    const bool    partial = columns < vectors * LANES;
    VECTOR        sum[TILE_ROWS][ROW_VECTORS], start[ROW_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) start[v] = (VECTOR){0};
    if (p->column_bias && k0 == 0) {
        UNROLL for (int v = 0; v < vectors; v++)
        {
            const REAL *bias = (const REAL *)p->column_bias + j + v * LANES;
            start[v] = partial && v == vectors - 1 ? NAME(load_part)(bias, columns - v * LANES) : NAME(load)(bias);
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = start[v];
    }
    for (int64_t k = k0; k < k1; k++) {
        const REAL *row = b + p->b_rows[k];
        VECTOR      x[ROW_VECTORS];

        UNROLL for (int v = 0; v < vectors; v++) x[v] = NAME(load)(row + v * LANES);
        UNROLL for (int r = 0; r < rows; r++)
        {
            const REAL w = a[r * a_row];
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += w * x[v];
        }
        a += a_column;
    }
    const bool add = p->accumulate || k0 > 0;

    UNROLL for (int r = 0; r < rows; r++)
    {
        const REAL bias = p->row_bias && k0 == 0 ? ((const REAL *)p->row_bias)[i + r] : 0;
        REAL      *out = c + r * p->c_row;

        UNROLL for (int v = 0; v < vectors; v++)
        {
            VECTOR y = sum[r][v] + bias;
            if (partial && v == vectors - 1) {
                int64_t count = columns - v * LANES;
                if (add)
                    y += NAME(load_part)(out + v * LANES, count);
                NAME(store_part)(out + v * LANES, y, count);
            } else {
                if (add)
                    y += NAME(load)(out + v * LANES);
                NAME(store)(out + v * LANES, y);
            }
        }
    }
}

#define TILE_OF(rows, vectors)                                                                                         \
    case (rows)*8 + (vectors):                                                                                         \
        NAME(tile)(p, rows, vectors, i, j, k0, k1);                                                                    \
        break;
#define TILES_OF(vectors)                                                                                              \
    TILE_OF(1, vectors)                                                                                                \
    TILE_OF(2, vectors)                                                                                                \
    TILE_OF(3, vectors)                                                                                                \
    TILE_OF(4, vectors)                                                                                                \
    TILE_OF(5, vectors)                                                                                                \
    TILE_OF(6, vectors)

static void NAME(product)(const haul__cpu_product *p)
{
    int64_t k0 = 0;
    do {
        int64_t k1 = p->k - k0 < HAUL__TILE_DEPTH ? p->k : k0 + HAUL__TILE_DEPTH;
        int64_t j = 0;
#if ROW_VECTORS > TILE_VECTORS && !defined(HAUL_SMALL)
        for (; p->m == 1 && j + ROW_VECTORS * LANES <= p->n; j += ROW_VECTORS * LANES)
            NAME(tile)(p, 1, ROW_VECTORS, 0, j, k0, k1);
#endif
        for (; j < p->n; j += WIDTH) {
            int64_t left = p->n - j;
            int     vectors = left < WIDTH ? (int)((left + LANES - 1) / LANES) : TILE_VECTORS;
            for (int64_t i = 0; i < p->m; i += TILE_ROWS) {
                int rows = p->m - i < TILE_ROWS ? (int)(p->m - i) : TILE_ROWS;
                switch (rows * 8 + vectors) {
                    TILES_OF(1)
                    TILES_OF(2)
#if TILE_VECTORS > 2
                    TILES_OF(3)
                    TILES_OF(4)
#endif
                }
            }
        }
        k0 = k1;
    } while (k0 < p->k);
}

/* Row-major B: whole vectors, then the remainder. */
static void NAME(pack_rows)(REAL *out, const REAL *b, int64_t b_row, int64_t k, int64_t n)
{
    const int64_t whole = n - n % LANES;
    for (int64_t i = 0; i < k; i++) {
        const REAL *from = b + i * b_row;
        REAL       *to = out + i * WIDTH;
        for (int64_t j = 0; j < whole; j += LANES)
            NAME(store)(to + j, NAME(load)(from + j));
        if (whole < n)
            NAME(store)(to + whole, NAME(load_part)(from + whole, n - whole));
    }
}

static void NAME(pack)(void *panel, const void *from, int64_t b_row, int64_t b_column, int64_t k, int64_t n)
{
    const REAL *b = from;
    REAL       *out = panel;
    if (b_column == 1) {
        NAME(pack_rows)(out, b, b_row, k, n);
        return;
    }
    /* A few rows at a time: reads stay in the cache lines they fetched, writes are runs. */
    for (int64_t i0 = 0; i0 < k; i0 += 16) {
        int64_t i1 = k - i0 < 16 ? k : i0 + 16;
        if (n % LANES) /* tiles read whole vectors: zeros behind the last element */
            for (int64_t i = i0; i < i1; i++)
                NAME(store)(out + i * WIDTH + n - n % LANES, (VECTOR){0});
        for (int64_t j = 0; j < n; j++) {
            const REAL *column = b + j * b_column;
            for (int64_t i = i0; i < i1; i++)
                out[i * WIDTH + j] = column[i * b_row];
        }
    }
}

/* ---- dot products ---- */

/* Adds up sum[rows][columns][vectors] over elements [from, end) of k, `vectors` vectors at a time. */
INLINE void NAME(dot_tile)(const haul__cpu_dots *d, int rows, int columns, int vectors, int64_t i, int64_t j,
                           int64_t from, int64_t end, VECTOR sum[DOT_ROWS][DOT_SUMS])
{
    const int64_t a_row = d->a_row, step = vectors * LANES;
    const REAL   *a = (const REAL *)d->a + i * a_row, *b[DOT_COLUMNS];
    int64_t       k = from;
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int s = 0; s < columns * vectors; s++) sum[r][s] = (VECTOR){0};
    }
    UNROLL for (int s = 0; s < columns; s++) b[s] = (const REAL *)d->b + d->b_rows[j + s];
    for (; k + step <= end; k += step) {
        UNROLL for (int v = 0; v < vectors; v++)
        {
            VECTOR x[DOT_ROWS];
            UNROLL for (int r = 0; r < rows; r++) x[r] = NAME(load)(a + r * a_row + k + v * LANES);
            UNROLL for (int s = 0; s < columns; s++)
            {
                VECTOR y = NAME(load)(b[s] + k + v * LANES);
                UNROLL for (int r = 0; r < rows; r++) sum[r][s * vectors + v] += x[r] * y;
            }
        }
    }
    UNROLL for (int v = 0; v < vectors; v++)
    {
        const int64_t left = end - k - v * LANES;
        VECTOR        x[DOT_ROWS];
        if (left <= 0)
            continue;
        UNROLL for (int r = 0; r < rows; r++) x[r] = NAME(load_first)(a + r * a_row + k + v * LANES, left);
        UNROLL for (int s = 0; s < columns; s++)
        {
            VECTOR y = NAME(load_first)(b[s] + k + v * LANES, left);
            UNROLL for (int r = 0; r < rows; r++) sum[r][s * vectors + v] += x[r] * y;
        }
    }
}

/* Sums of vectors: set, or added to. k is a multiple of LANES. */
INLINE void NAME(gather_tile)(const haul__cpu_dots *d, int rows, int columns, int64_t i, int64_t j, VECTOR *sums,
                              bool accumulate)
{
    VECTOR sum[DOT_ROWS][DOT_SUMS];
    NAME(dot_tile)(d, rows, columns, 1, i, j, 0, d->k, sum);
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int s = 0; s < columns; s++)
        {
            VECTOR *to = &sums[(i + r) * d->n + j + s];
            if (accumulate)
                sum[r][s] += *to;
            *to = sum[r][s];
        }
    }
}

/* Sums of one vector, or of DOT_VECTORS of them, which are HAUL__DOT_BYTES, in parts of k. */
INLINE void NAME(sum_tile)(const haul__cpu_dots *d, int rows, int columns, int vectors, int64_t i, int64_t j,
                           VECTOR sums[DOT_ROWS][DOT_SUMS])
{
    VECTOR sum[DOT_ROWS][DOT_SUMS];
    for (int64_t k = 0; k < d->k; k += HAUL__DOT_DEPTH) {
        int64_t end = d->k - k < HAUL__DOT_DEPTH ? d->k : k + HAUL__DOT_DEPTH;
        NAME(dot_tile)(d, rows, columns, vectors, i, j, k, end, sum);
        UNROLL for (int r = 0; r < rows; r++)
        {
            UNROLL for (int s = 0; s < columns * vectors; s++)
            {
                if (k)
                    sum[r][s] += sums[r][s];
                sums[r][s] = sum[r][s];
            }
        }
    }
}

/* Halves are added until one lane is left. */
static inline REAL NAME(lanes_sum)(VECTOR v)
{
    QUARTER q[VECTOR_BYTES / 16], sum;
    memcpy(q, &v, sizeof q);
#if VECTOR_BYTES == 64
    sum = (q[0] + q[2]) + (q[1] + q[3]);
#elif VECTOR_BYTES == 32
    sum = q[0] + q[1];
#else
    sum = q[0];
#endif
    return sizeof(REAL) == 4 ? (sum[0] + sum[2 % QUARTER_LANES]) + (sum[1] + sum[3 % QUARTER_LANES]) : sum[0] + sum[1];
}

/* An action for each number of rows and columns that a tile may have. */
#define DOTS_OF(action, rows, columns)                                                                                 \
    case (rows)*8 + (columns):                                                                                         \
        action(rows, columns);                                                                                         \
        break;
#if DOT_ROWS > 3
#define DOTS_BY_ROWS(action, columns)                                                                                  \
    DOTS_OF(action, 1, columns)                                                                                        \
    DOTS_OF(action, 2, columns)                                                                                        \
    DOTS_OF(action, 3, columns)                                                                                        \
    DOTS_OF(action, 4, columns)                                                                                        \
    DOTS_OF(action, 5, columns)                                                                                        \
    DOTS_OF(action, 6, columns)
#else
#define DOTS_BY_ROWS(action, columns)                                                                                  \
    DOTS_OF(action, 1, columns)                                                                                        \
    DOTS_OF(action, 2, columns)                                                                                        \
    DOTS_OF(action, 3, columns)
#endif

static void NAME(gather)(const haul__cpu_dots *d, void *sums, bool accumulate)
{
#define GATHER(rows, columns) NAME(gather_tile)(d, rows, columns, i, j, sums, accumulate)
    for (int64_t i = 0; i < d->m; i += DOT_ROWS)
        for (int64_t j = 0; j < d->n; j += DOT_COLUMNS) {
            int rows = d->m - i < DOT_ROWS ? (int)(d->m - i) : DOT_ROWS;
            int columns = d->n - j < DOT_COLUMNS ? (int)(d->n - j) : DOT_COLUMNS;
            switch (rows * 8 + columns) {
                DOTS_BY_ROWS(GATHER, 1)
                DOTS_BY_ROWS(GATHER, 2)
                DOTS_BY_ROWS(GATHER, 3)
                DOTS_BY_ROWS(GATHER, 4)
            }
        }
}

static void NAME(fold)(void *out, const void *sums, int64_t count)
{
    REAL *y = out;
    for (int64_t i = 0; i < count; i++)
        y[i] = NAME(lanes_sum)(((const VECTOR *)sums)[i]);
}

/* The lanes of HAUL__DOT_BYTES, added in the same order at each level. */
INLINE REAL NAME(parts_sum)(const VECTOR *part)
{
#if DOT_VECTORS == 4
    return NAME(lanes_sum)((part[0] + part[2]) + (part[1] + part[3]));
#elif DOT_VECTORS == 2
    return NAME(lanes_sum)(part[0] + part[1]);
#else
    return NAME(lanes_sum)(part[0]);
#endif
}

/* C's elements from their sums. */
INLINE void NAME(leave_dots)(REAL *c, int64_t c_row, int rows, int columns, int vectors, const REAL *bias,
                             bool accumulate, VECTOR sums[DOT_ROWS][DOT_SUMS])
{
    for (int r = 0; r < rows; r++, c += c_row)
        for (int s = 0; s < columns; s++) {
            const VECTOR *sum = &sums[r][s * vectors];
            REAL          start = (bias ? bias[s] : 0) + (accumulate ? c[s] : 0);
            c[s] = start + (vectors == 1 ? NAME(lanes_sum)(*sum) : NAME(parts_sum)(sum));
        }
}

#define ROW_SUM(rows, columns) NAME(sum_tile)(d, rows, columns, DOT_VECTORS, 0, j, sums)
#define SUM(rows, columns)     NAME(sum_tile)(d, rows, columns, 1, i, j, sums)

/* A single row has few sums, so there are registers for HAUL__DOT_BYTES of each. */
static void NAME(row_dots)(const haul__cpu_dots *d, REAL *c, const REAL *bias, bool accumulate)
{
    VECTOR sums[DOT_ROWS][DOT_SUMS] = {{{0}}}; /* compilers do not see that the switch covers all cases */
    for (int64_t j = 0; j < d->n; j += DOT_COLUMNS) {
        int columns = d->n - j < DOT_COLUMNS ? (int)(d->n - j) : DOT_COLUMNS;
        switch (8 + columns) {
            DOTS_OF(ROW_SUM, 1, 1)
            DOTS_OF(ROW_SUM, 1, 2)
            DOTS_OF(ROW_SUM, 1, 3)
            DOTS_OF(ROW_SUM, 1, 4)
        }
        NAME(leave_dots)(c + j, 0, 1, columns, DOT_VECTORS, bias ? bias + j : NULL, accumulate, sums);
    }
}

static void NAME(dots)(const haul__cpu_dots *d, void *out, int64_t c_row, const void *column_bias, bool accumulate)
{
    const REAL *bias = column_bias;
    VECTOR      sums[DOT_ROWS][DOT_SUMS] = {{{0}}}; /* as above */
    if (d->m == 1) {
        NAME(row_dots)(d, out, bias, accumulate);
        return;
    }
    for (int64_t i = 0; i < d->m; i += DOT_ROWS)
        for (int64_t j = 0; j < d->n; j += DOT_COLUMNS) {
            int rows = d->m - i < DOT_ROWS ? (int)(d->m - i) : DOT_ROWS;
            int columns = d->n - j < DOT_COLUMNS ? (int)(d->n - j) : DOT_COLUMNS;
            switch (rows * 8 + columns) {
                DOTS_BY_ROWS(SUM, 1)
                DOTS_BY_ROWS(SUM, 2)
                DOTS_BY_ROWS(SUM, 3)
                DOTS_BY_ROWS(SUM, 4)
            }
            NAME(leave_dots)
            ((REAL *)out + i * c_row + j, c_row, rows, columns, 1, bias ? bias + j : NULL, accumulate, sums);
        }
}

/* ---- sums ---- */

static void NAME(add)(void *out, const void *x, int64_t count)
{
    REAL *restrict y = out;
    const REAL *restrict from = x;
    for (int64_t i = 0; i < count; i++)
        y[i] += from[i];
}

const haul__cpu_tiles NAME(haul__cpu_tiles) = {
    .lanes = LANES,
    .width = WIDTH,
    .rows = TILE_ROWS,
    .product = NAME(product),
    .pack = NAME(pack),
    .dots = NAME(dots),
    .gather = NAME(gather),
    .fold = NAME(fold),
    .add = NAME(add),
};

#undef TILE_OF
#undef TILES_OF
#undef DOTS_OF
#undef DOTS_BY_ROWS
#undef GATHER
#undef SUM
#undef ROW_SUM
#undef DOT_VECTORS
#undef DOT_SUMS
#undef LANES
#undef WIDTH
#undef VECTOR
#undef QUARTER
#undef QUARTER_LANES
