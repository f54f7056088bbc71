/* The loops of scaling for one width of vectors, included by scale.c for each level. It defines, for the level:
 * LANES, the type NAME(ints) of as many values, NAME(load) for as many bytes, NAME(multiply) by weights, NAME(put),
 * which rounds sums and writes them as bytes, and NAME(put_pixels), which adds the pixels of each of four vectors
 * first, and writes four pixels; or, in place of the last one, OWN_ROW and NAME(row_by). ENCODE brings a weight into
 * the form by which values are multiplied. PUT is put_across of haul__scale_loops. */

/* The weights of a result are one after the other. */
static void NAME(put_in_order)(const haul__scale_axis *a, int64_t result, const int32_t *weights)
{
    const int64_t count = a->stored * a->unit;
    for (int64_t i = 0; i < count; i++)
        a->weights[result * count + i] = ENCODE(weights[i / a->unit]);
}

#ifndef OWN_ROW
/* Inlined for numbers of vectors that are constants, whose loops are unrolled. Sums of four results are independent, so
 * that the processor works at all of them at the same time. */
TARGET INLINE void NAME(row_by)(const haul__scale_axis *a, int64_t vectors, const uint8_t *in, uint8_t *out)
{
    const int32_t *weights = a->weights;
    for (int64_t x = 0; x < a->out; x += 4, weights += 4 * vectors * LANES) {
        NAME(ints) sums[4] = {{0}};
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
#pragma GCC unroll 8
            for (int64_t k = 0; k < vectors; k++) {
                NAME(ints) w;
                memcpy(&w, weights + (i * vectors + k) * LANES, sizeof w);
                sums[i] += NAME(multiply)(NAME(load)(in + a->first[x + i] + k * LANES), w);
            }
        NAME(put_pixels)(sums[0], sums[1], sums[2], sums[3], out + HAUL__PIXEL * x);
    }
}
#endif

TARGET static void NAME(row)(const haul__scale_axis *a, const uint8_t *in, uint8_t *out)
{
    const int64_t vectors = a->stored * HAUL__PIXEL / LANES;
    switch (vectors) {
    case 1: NAME(row_by)(a, 1, in, out); break;
    case 2: NAME(row_by)(a, 2, in, out); break;
    case 3: NAME(row_by)(a, 3, in, out); break;
    case 4: NAME(row_by)(a, 4, in, out); break;
    case 5: NAME(row_by)(a, 5, in, out); break;
    default: NAME(row_by)(a, vectors, in, out);
    }
}

TARGET static void NAME(column)(const uint8_t *const *rows, const int32_t *weights, int64_t taps, int64_t bytes,
                                uint8_t *out)
{
    enum { AT_ONCE = 4 };
    _Static_assert(HAUL__ROW_PADDING % (AT_ONCE * LANES) == 0, "the bytes are a multiple of the padding");
    for (int64_t at = 0; at < bytes; at += AT_ONCE * LANES) {
        NAME(ints) sums[AT_ONCE] = {{0}};
        for (int64_t k = 0; k < taps; k++)
#pragma GCC unroll 4
            for (int i = 0; i < AT_ONCE; i++)
                sums[i] += NAME(multiply)(NAME(load)(rows[k] + at + i * LANES), (NAME(ints)){0} + weights[k]);
#pragma GCC unroll 4
        for (int i = 0; i < AT_ONCE; i++)
            NAME(put)(sums[i], out + at + i * LANES);
    }
}

static const haul__scale_loops NAME(loops) = {.unit = HAUL__PIXEL,
                                              .step_across = LANES / HAUL__PIXEL,
                                              .step_down = 1,
                                              .at_once = 4,
                                              .put_across = PUT,
                                              .put_down = NAME(put_in_order),
                                              .row = NAME(row),
                                              .column = NAME(column)};

#undef NAME
#undef TARGET
#undef LANES
#undef ENCODE
#undef PUT
#undef OWN_ROW
