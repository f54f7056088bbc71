/* The loops of bench/support/limits.c for one width of vectors: VECTOR holds WIDTH floats, and the operations are SET,
 * LOAD, STORE, STREAM (a store that bypasses the caches), ADD and MULTIPLY_ADD. Each line of 64 bytes is stored as a
 * whole. */

#define EACH_OF_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

TARGET static float NAME(total)(VECTOR v)
{
    float lanes[WIDTH], sum = 0;
    memcpy(lanes, &v, sizeof lanes);
    for (int i = 0; i < WIDTH; i++)
        sum += lanes[i];
    return sum;
}

TARGET static float NAME(run)(limit_kind kind, limit_stores stores, float *to, const float *a, const float *b,
                              int64_t n)
{
    const VECTOR one = SET(1.0f), half = SET(0.5f);
    VECTOR       sums[12];
    for (int j = 0; j < 12; j++)
        sums[j] = SET((float)j);
#define LINES(PUT, value)                                                                                              \
    for (int64_t i = 0; i < n; i += 16)                                                                                \
        for (int64_t j = i; j < i + 16; j += WIDTH)                                                                    \
            PUT(to + j, value);
#define STORED(value)                                                                                                  \
    if (stores == LIMIT_PAST)                                                                                          \
        LINES(STREAM, value)                                                                                           \
    else                                                                                                               \
        LINES(STORE, value)
    switch (kind) {
    case LIMIT_COPY: STORED(LOAD(a + j)) break;
    case LIMIT_ADD: STORED(ADD(LOAD(a + j), LOAD(b + j))) break;
    case LIMIT_FILL: STORED(one) break;
    case LIMIT_READ:
#define STEP(j) sums[j] = ADD(sums[j], LOAD(a + i + (j)*WIDTH));
        for (int64_t i = 0; i < n; i += 12 * WIDTH) {
            EACH_OF_12(STEP)
        }
#undef STEP
        break;
    case LIMIT_MULTIPLY_ADD:
#define STEP(j) sums[j] = MULTIPLY_ADD(sums[j], half, one);
        for (int64_t i = 0; i < n; i += 12 * WIDTH) {
            EACH_OF_12(STEP)
        }
#undef STEP
        break;
    }
    FENCE();
    for (int j = 1; j < 12; j++)
        sums[0] = ADD(sums[0], sums[j]);
    return NAME(total)(sums[0]);
}

#undef EACH_OF_12
#undef LINES
#undef STORED
#undef NAME
#undef TARGET
#undef VECTOR
#undef WIDTH
#undef SET
#undef LOAD
#undef STORE
#undef STREAM
#undef ADD
#undef MULTIPLY_ADD
#undef FENCE
