/* Packing of panels and tiles of one element type REAL, and its vector; included by panels_fma.c before
 * panels_template.h. */

typedef REAL VECTOR __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

/* to[k][pitch] = from[k * row + j * column] for j < n, where column is 1. The columns after these are needed next, and
 * are fetched meanwhile. */
INLINE void NAME(copy_rows)(REAL *to, int pitch, const REAL *from, int64_t row, int64_t k, int n)
{
    const int whole = n / LANES, rest = n % LANES;
    for (int64_t i = 0; i < k; i++, from += row, to += pitch) {
        UNROLL for (int v = 0; v < whole; v++) __builtin_prefetch(from + n + v * LANES, 0, 2);
        UNROLL for (int v = 0; v < whole; v++) STORE(to + v * LANES, LOAD(from + v * LANES));
        if (rest) {
            VECTOR last = LOAD_PART(from + whole * LANES, rest);
            if (pitch % LANES)
                STORE_PART(to + whole * LANES, last, rest);
            else
                STORE(to + whole * LANES, last);
        }
    }
}

/* The same where columns are apart. If row is 1, square blocks are transposed, those of a cache line one after another.
 */
static void NAME(turn_rows)(REAL *to, int pitch, const REAL *from, int64_t row, int64_t column, int64_t k, int n)
{
    int64_t   i = 0;
    const int line = 64 / (int)sizeof(REAL), whole = n - n % TURN;
    for (; row == 1 && i + line <= k; i += line) {
        const REAL *in = from + i;
        REAL       *out = to + i * pitch;
        for (int j = 0; j < n; j++)
            __builtin_prefetch(in + (n + j) * column, 0, 2);
        for (int j = 0; j < whole; j += TURN) {
            UNROLL for (int q = 0; q < line; q += TURN)
                TURN_BLOCK(out + q * pitch + j, pitch, in + j * column + q, column);
        }
        for (int j = whole; j < n; j++) {
            UNROLL for (int q = 0; q < line; q++) out[q * pitch + j] = in[j * column + q];
        }
    }
    for (; row == 1 && whole == n && i + TURN <= k; i += TURN) {
        for (int j = 0; j < n; j += TURN)
            TURN_BLOCK(to + i * pitch + j, pitch, from + i + j * column, column);
    }
    for (; i < k; i++) {
        for (int j = 0; j < n; j++)
            to[i * pitch + j] = from[i * row + j * column];
    }
}

static void NAME(pack_b)(void *to, const void *from, int64_t row, int64_t column, int64_t k, int64_t n)
{
    if (column == 1) {
        if (n == WIDTH)
            NAME(copy_rows)(to, WIDTH, from, row, k, WIDTH);
        else
            NAME(copy_rows)(to, WIDTH, from, row, k, (int)n);
        return;
    }
    /* Zeros behind the last column, up to the end of its vector. */
    for (int64_t i = 0; n % LANES != 0 && i < k; i++)
        STORE((REAL *)to + i * WIDTH + n / LANES * LANES, (VECTOR){0});
    NAME(turn_rows)(to, WIDTH, from, row, column, k, (int)n);
}

/* A tile of `rows` rows of A. */
static void NAME(pack_tile)(REAL *to, const REAL *a, int64_t row, int64_t column, int64_t k, int64_t rows)
{
    if (row != 1)
        NAME(turn_rows)(to, TILE_ROWS, a, column, row, k, (int)rows);
    else if (rows == TILE_ROWS)
        NAME(copy_rows)(to, TILE_ROWS, a, column, k, TILE_ROWS);
    else
        NAME(copy_rows)(to, TILE_ROWS, a, column, k, (int)rows);
}
