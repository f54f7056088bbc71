/* Tiles of convolutions, which have pixels as rows or as columns; included by panels_fma.c after panels_template.h. */

/* ---- pixels are rows ---- */

/* The tile of C at c: columns of A are at the taps, and its rows s->a_row apart. */
INLINE void NAME(pixel_tile)(const haul__cpu_strip *s, int rows, int vectors, const REAL *from, REAL *c)
{
    const REAL   *b = s->b;
    const int64_t b_row = s->b_row, depth = s->k;
    VECTOR        sum[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = (VECTOR){0};
    }
    for (int64_t k = 0; k < depth; k++, b += b_row) {
        const REAL *a = from + s->taps[k];
        STEP(AHEAD, a[r * s->a_row])
    }
    NAME(leave)(s, rows, vectors, sum, c);
}

typedef void NAME(pixel_function)(const haul__cpu_strip *s, const REAL *a, REAL *c);

#define PIXEL_TILE(rows, vectors)                                                                                      \
    static void NAME(pixels_##rows##_##vectors)(const haul__cpu_strip *s, const REAL *a, REAL *c)                      \
    {                                                                                                                  \
        NAME(pixel_tile)(s, rows, vectors, a, c);                                                                      \
    }
#define PIXEL_TILES(rows) PIXEL_TILE(rows, 1) PIXEL_TILE(rows, 2)
EACH_ROWS(PIXEL_TILES)

/* By rows - 1 and vectors - 1. */
#define PIXEL_ENTRY(rows) {NAME(pixels_##rows##_1), NAME(pixels_##rows##_2)},
static NAME(pixel_function) *const NAME(pixel_table)[TILE_ROWS][TILE_VECTORS] = {EACH_ROWS(PIXEL_ENTRY)};

static void NAME(multiply_pixels)(const haul__cpu_strip *s)
{
    const int64_t tiles = (s->m + TILE_ROWS - 1) / TILE_ROWS, each = s->m / tiles, longer = s->m - each * tiles;
    const REAL   *a = s->a;
    REAL         *c = s->c;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t rows = each + (t < longer);
        NAME(pixel_table)[rows - 1][s->n > LANES](s, a, c);
        a += rows * s->a_row;
        c += rows * s->c_row;
    }
}

/* A few channels at a time, because planes may share the same sets of a cache. */
static void NAME(leave_pixels)(REAL *to, int64_t plane, const REAL *c, int64_t pixels, int64_t channels)
{
    const int64_t whole_pixels = pixels - pixels % TURN, whole = channels - channels % TURN;
    for (int64_t i = 0; i < channels; i += TURN) {
        const int64_t count = i < whole ? TURN : channels - i;
        int64_t       j = 0;

        for (; j < whole_pixels && i < whole; j += TURN)
            TURN_BLOCK(to + i * plane + j, plane, c + j * WIDTH + i, WIDTH);
        for (; j < pixels; j++) {
            for (int64_t q = i; q < i + count; q++)
                to[q * plane + j] = c[j * WIDTH + q];
        }
    }
}

/* ---- pixels are columns ---- */

/* Adds a row of B, at a tap, to a tile's sums. */
#define PLANE_STEP                                                                                                     \
    const REAL *b = from + s->taps[k];                                                                                 \
    VECTOR      x[TILE_VECTORS];                                                                                       \
    UNROLL for (int v = 0; v < TILE_VECTORS; v++) x[v] = LOAD(b + v * apart);                                          \
    UNROLL for (int v = 0; copies && v < TILE_VECTORS; v++) STORE(panel + k * WIDTH + v * LANES, x[v]);                \
    UNROLL for (int r = 0; r < rows; r++)                                                                              \
    {                                                                                                                  \
        UNROLL for (int v = 0; v < TILE_VECTORS; v++) MULTIPLY_ADD(sum[r][v], a[r], x[v]);                             \
    }

/* The tile of C at c, whose columns fill vectors: rows of B are at the taps. What follows in C is fetched meanwhile. */
INLINE void NAME(plane_tile)(const haul__cpu_strip *s, int rows, bool copies, const REAL *a, REAL *c, REAL *panel)
{
    const int64_t depth = s->k, apart = s->b_vector;
    const REAL   *from = s->b, *bias = s->row_bias, *ahead = c + WIDTH;
    int64_t       k = 0;
    VECTOR        sum[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int v = 0; v < TILE_VECTORS; v++) sum[r][v] = (VECTOR){0};
    }
    for (; k < rows && k < depth; k++, a += TILE_ROWS, ahead += s->c_row) {
        __builtin_prefetch(ahead, 1, 3);
        __builtin_prefetch(ahead + WIDTH - 1, 1, 3);
        PLANE_STEP
    }
    for (; k < depth; k++, a += TILE_ROWS) {
        PLANE_STEP
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        REAL *out = c + r * s->c_row;
        UNROLL for (int v = 0; v < TILE_VECTORS; v++)
        {
            VECTOR y = sum[r][v];
            if (bias)
                y += bias[r];
            if (s->accumulate)
                y += LOAD(out + v * LANES);
            STORE(out + v * LANES, y);
        }
    }
}

typedef void NAME(plane_function)(const haul__cpu_strip *s, REAL *panel);

#define PLANE_TILE(rows)                                                                                               \
    static void NAME(planes_##rows)(const haul__cpu_strip *s, REAL *panel)                                             \
    {                                                                                                                  \
        NAME(plane_tile)(s, rows, false, s->a, s->c, panel);                                                           \
    }                                                                                                                  \
    static void NAME(copying_##rows)(const haul__cpu_strip *s, REAL *panel)                                            \
    {                                                                                                                  \
        NAME(plane_tile)(s, rows, true, s->a, s->c, panel);                                                            \
    }
EACH_ROWS(PLANE_TILE)

/* By rows - 1 and whether rows of B are copied. */
#define PLANE_ENTRY(rows) {NAME(planes_##rows), NAME(copying_##rows)},
static NAME(plane_function) *const NAME(plane_table)[TILE_ROWS][2] = {EACH_ROWS(PLANE_ENTRY)};

static void NAME(multiply_planes)(const haul__cpu_strip *s)
{
    NAME(plane_table)[s->m - 1][0](s, NULL);
}

static void NAME(multiply_planes_copying)(const haul__cpu_strip *s, REAL *panel)
{
    NAME(plane_table)[s->m - 1][1](s, panel);
}

const haul__cpu_pixels NAME(haul__cpu_pixels) = {
    .lanes = LANES,
    .rows = TILE_ROWS,
    .width = WIDTH,
    .multiply = NAME(multiply_pixels),
    .leave = NAME(leave_pixels),
    .multiply_planes = NAME(multiply_planes),
    .multiply_planes_copying = NAME(multiply_planes_copying),
};
