/* Products of packed panels for one element type REAL; included by panels_fma.c, which says what the other names mean.
 * MATRIX is the type of elements of A and B, PACKED that of tiles and panels, which are read as REAL, and
 * MULTIPLY_ADD(sum, w, x) adds to a vector of sums a factor of A times a vector of B.
 *
 * A function takes its numbers of rows and vectors as constant arguments and is inlined, so that all sums are
 * registers. */

/* ---- the register tile ---- */

/* Adds a row of B to a tile's sums; `factor` is the element of A in row r. A panel may be larger than a cache of the
 * first level: its rows are fetched ahead. */
#undef STEP
#undef APART
#define STEP(ahead_rows, factor)                                                                                       \
    VECTOR x[TILE_VECTORS];                                                                                            \
    UNROLL for (int v = 0; v < vectors; v++) x[v] = LOAD(b + v * LANES);                                               \
    UNROLL for (int v = 0; (ahead_rows) && v < vectors; v++)                                                           \
        __builtin_prefetch(b + (ahead_rows)*s->b_row + v * LANES, 0, 3);                                               \
    UNROLL for (int r = 0; r < rows; r++)                                                                              \
    {                                                                                                                  \
        const REAL w = (factor);                                                                                       \
        UNROLL for (int v = 0; v < vectors; v++) MULTIPLY_ADD(sum[r][v], w, x[v]);                                     \
    }

/* The element of A in row r, where rows are apart. In tall tiles one address serves five rows. Computing more of them
 * would take the ports that multiply-adds need. */
#if TILE_ROWS > 6
#define APART(r) base[(r) / 5][(r) % 5 == 3 ? three : (r) % 5 * a_row]
#else
#define APART(r) a[(r)*s->a_row]
#endif

/* C's rows from sums, with a last vector of `last` elements. Not inlined, as few tiles end in a part of a vector. */
static __attribute__((noinline)) void NAME(leave_part)(const haul__cpu_strip *s, int rows, int whole, int64_t last,
                                                       VECTOR sum[TILE_ROWS][TILE_VECTORS], REAL *c)
{
    for (int r = 0; r < rows; r++, c += s->c_row) {
        REAL  *end = c + whole * LANES;
        VECTOR first = sum[r][0], y = sum[r][whole];
        if (s->accumulate)
            y += LOAD_PART(end, last);
        STORE_PART(end, y, last);
        if (!whole)
            continue;
        if (s->accumulate)
            first += LOAD(c);
        STORE(c, first);
    }
}

INLINE void NAME(leave)(const haul__cpu_strip *s, int rows, int vectors, VECTOR sum[TILE_ROWS][TILE_VECTORS], REAL *c)
{
    const int     end = vectors - 1;
    const int64_t c_row = s->c_row, last = s->n - end * LANES;
    if (s->bias) {
        const REAL *bias = s->bias;
        VECTOR      start[TILE_VECTORS];
        UNROLL for (int v = 0; v < end; v++) start[v] = LOAD(bias + v * LANES);
        start[end] = last < LANES ? LOAD_PART(bias + end * LANES, last) : LOAD(bias + end * LANES);
        UNROLL for (int r = 0; r < rows; r++)
        {
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += start[v];
        }
    }
    if (s->row_bias) {
        const REAL *bias = (const REAL *)s->row_bias + (c - (REAL *)s->c) / c_row;
        UNROLL for (int r = 0; r < rows; r++)
        {
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += bias[r];
        }
    }
    if (last < LANES) {
        VECTOR copy[TILE_ROWS][TILE_VECTORS];
        UNROLL for (int r = 0; r < rows; r++)
        {
            UNROLL for (int v = 0; v < vectors; v++) copy[r][v] = sum[r][v];
        }
        NAME(leave_part)(s, rows, end, last, copy, c);
        return;
    }
    if (s->accumulate) {
        UNROLL for (int r = 0; r < rows; r++)
        {
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] += LOAD(c + r * c_row + v * LANES);
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int v = 0; v < vectors; v++) STORE(c + r * c_row + v * LANES, sum[r][v]);
    }
}

/* The tile of C at c. Rows of A are 1 apart, or its columns are. C's rows are fetched while the first steps compute,
 * one a step. */
INLINE void NAME(tile)(const haul__cpu_strip *s, int rows, int vectors, bool dense_rows, const REAL *a,
                       int64_t a_column, REAL *c, bool copies, REAL *panel)
{
    const REAL   *b = s->b;
    const REAL   *ahead = c;
    const REAL   *base[(TILE_ROWS + 4) / 5];
    const int64_t a_row = s->a_row, b_row = s->b_row, depth = s->k, c_row = s->c_row;
    const int     ahead_rows = copies ? AHEAD_APART : AHEAD, bases = TILE_ROWS > 6 && !dense_rows ? (rows + 4) / 5 : 0;
    int64_t       k = 0, three = 3 * a_row;
    VECTOR        sum[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = (VECTOR){0};
    }
    UNROLL for (int i = 0; i < bases; i++)
    {
        base[i] = a + 5 * i * a_row;
        __asm__("" : "+r"(base[i]), "+r"(three)); /* compilers would derive one from another at every step */
    }
    for (; k < rows && depth > PREFETCH_DEPTH; k++, ahead += c_row) {
        __builtin_prefetch(ahead, 1, 3);
        __builtin_prefetch(ahead + s->n - 1, 1, 3);
        STEP(ahead_rows, dense_rows ? a[r] : APART(r))
        UNROLL for (int v = 0; copies && v < vectors; v++) STORE(panel + k * WIDTH + v * LANES, x[v]);
        a += dense_rows ? a_column : 1;
        UNROLL for (int i = 0; i < bases; i++) base[i]++;
        b += b_row;
    }
    for (; k < depth; k++) {
        STEP(ahead_rows, dense_rows ? a[r] : APART(r))
        UNROLL for (int v = 0; copies && v < vectors; v++) STORE(panel + k * WIDTH + v * LANES, x[v]);
        a += dense_rows ? a_column : 1;
        UNROLL for (int i = 0; i < bases; i++) base[i]++;
        b += b_row;
    }
    NAME(leave)(s, rows, vectors, sum, c);
}

typedef void NAME(tile_function)(const haul__cpu_strip *s, const REAL *a, int64_t a_column, REAL *c);

#define TILE(name, rows, vectors, dense_rows)                                                                          \
    static void NAME(name)(const haul__cpu_strip *s, const REAL *a, int64_t a_column, REAL *c)                         \
    {                                                                                                                  \
        NAME(tile)(s, rows, vectors, dense_rows, a, a_column, c, false, NULL);                                         \
    }
#define TILES(rows)                                                                                                    \
    TILE(packed_##rows##_1, rows, 1, true)                                                                             \
    TILE(packed_##rows##_2, rows, 2, true)                                                                             \
    TILE(placed_##rows##_1, rows, 1, false)                                                                            \
    TILE(placed_##rows##_2, rows, 2, false)
EACH_ROWS(TILES)

/* By rows - 1, vectors - 1 and whether rows of A are 1 apart. */
#define TILE_ENTRY(rows)                                                                                               \
    {{NAME(placed_##rows##_1), NAME(packed_##rows##_1)}, {NAME(placed_##rows##_2), NAME(packed_##rows##_2)}},
static NAME(tile_function) *const NAME(tile_table)[TILE_ROWS][TILE_VECTORS][2] = {EACH_ROWS(TILE_ENTRY)};

/* Tiles differ by one row at most: few sums would have to wait for one another. */
static void NAME(multiply)(const haul__cpu_strip *s)
{
    const int64_t tiles = (s->m + TILE_ROWS - 1) / TILE_ROWS, each = tiles > 1 ? s->m / tiles : s->m;
    const int64_t longer = s->m - each * tiles, a_column = s->a_tile ? TILE_ROWS : s->a_column;
    const bool    dense_rows = s->a_tile || s->a_row == 1;
    const int     vectors = s->n > LANES;
    const REAL   *a = s->a;
    REAL         *c = s->c;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t rows = each + (t < longer);
        NAME(tile_table)[rows - 1][vectors][dense_rows](s, a, a_column, c);
        a += s->a_tile ? s->a_tile : rows * s->a_row;
        c += rows * s->c_row;
    }
}

#if COPIES
/* First tiles, which copy B, by rows - FIRST_ROWS and whether rows of A are 1 apart. */
typedef void NAME(first_function)(const haul__cpu_strip *s, const REAL *a, int64_t a_column, REAL *c, REAL *panel);

#define FIRST_TILE(name, rows, dense_rows)                                                                             \
    static void NAME(name)(const haul__cpu_strip *s, const REAL *a, int64_t a_column, REAL *c, REAL *panel)            \
    {                                                                                                                  \
        NAME(tile)(s, rows, TILE_VECTORS, dense_rows, a, a_column, c, true, panel);                                    \
    }
#define FIRST_TILES(rows)                                                                                              \
    FIRST_TILE(first_placed_##rows, rows, false)                                                                       \
    FIRST_TILE(first_packed_##rows, rows, true)
EACH_FIRST(FIRST_TILES)

#define FIRST_ENTRY(rows) {NAME(first_placed_##rows), NAME(first_packed_##rows)},
static NAME(first_function) *const NAME(first_table)[TILE_ROWS - FIRST_ROWS + 1][2] = {EACH_FIRST(FIRST_ENTRY)};

/* The first tile has as many rows as `multiply` would give it. */
static void NAME(multiply_copying)(const haul__cpu_strip *s, void *panel)
{
    const int64_t   tiles = (s->m + TILE_ROWS - 1) / TILE_ROWS, rows = (s->m + tiles - 1) / tiles;
    const int64_t   moved = s->a_tile ? s->a_tile : rows * s->a_row, a_column = s->a_tile ? TILE_ROWS : s->a_column;
    const bool      dense_rows = s->a_tile || s->a_row == 1;
    haul__cpu_strip rest = *s;
    NAME(first_table)[rows - FIRST_ROWS][dense_rows](s, s->a, a_column, s->c, panel);
    rest.m -= rows;
    rest.a = (const REAL *)s->a + moved;
    rest.c = (REAL *)s->c + rows * s->c_row;
    rest.row_bias = s->row_bias ? (const REAL *)s->row_bias + rows : NULL;
    rest.b = panel;
    rest.b_row = WIDTH;
    NAME(multiply)(&rest);
}
#endif

static void NAME(pack_a)(void *to, int64_t tile, const void *from, int64_t row, int64_t column, int64_t m, int64_t k)
{
    const int64_t tiles = (m + TILE_ROWS - 1) / TILE_ROWS, each = tiles ? m / tiles : 0, longer = m - each * tiles;
    const MATRIX *a = from;
    PACKED       *out = to;
    for (int64_t t = 0; t < tiles; t++, out += tile) {
        const int64_t rows = each + (t < longer);
        NAME(pack_tile)(out, a, row, column, k, rows);
        a += rows * row;
    }
}

const haul__cpu_panels NAME(haul__cpu_panels) = {
    .lanes = LANES,
    .rows = TILE_ROWS,
    .width = WIDTH,
#if COPIES
    .multiply_copying = NAME(multiply_copying),
#endif
    .step = (int64_t)(sizeof(PACKED) / sizeof(MATRIX)),
    .multiply = NAME(multiply),
    .pack_a = NAME(pack_a),
    .pack_b = NAME(pack_b),
};

#undef TILE
#undef TILES
#undef TILE_ENTRY
#undef FIRST_TILE
#undef FIRST_TILES
#undef FIRST_ENTRY
