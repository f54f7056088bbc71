/* The loops that scale pictures: those of every level give exactly the sums that the definition says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/image.h"

enum { IN = 97, OUT = 21, MOST = 19 };

static uint8_t next_byte(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint8_t)(*seed >> 24);
}

/* The weights of a result: they add up to 2^22, and a single one is 2^22. */
static void draw_weights(uint32_t *seed, int taps, int32_t *out)
{
    int32_t left = 1 << HAUL__WEIGHT_BITS;
    for (int k = 0; k < taps; k++) {
        out[k] = k + 1 < taps ? left / 256 * next_byte(seed) : left;
        left -= out[k];
    }
}

static uint8_t rounded(int64_t sum)
{
    return (uint8_t)((sum + (1 << (HAUL__WEIGHT_BITS - 1))) >> HAUL__WEIGHT_BITS);
}

static void check_row(const haul__scale_loops *loops, int taps)
{
    uint32_t               seed = (uint32_t)taps;
    int                    step = loops->lanes / HAUL__PIXEL, stored = (taps + step - 1) / step * step;
    uint8_t                in[IN * HAUL__PIXEL + HAUL__ROW_PADDING], out[(OUT + 3) * HAUL__PIXEL];
    int32_t                plain[OUT][MOST + 3] = {{0}}, weights[(OUT + 3) * (MOST + 3) * HAUL__PIXEL] = {0};
    int64_t                first[OUT + 3] = {0};
    const haul__scale_axis axis = {
        .in = IN, .out = OUT, .taps = taps, .stored = stored, .unit = HAUL__PIXEL, .first = first, .weights = weights};
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = i % 7 ? next_byte(&seed) : 255; /* also after the row */
    for (int i = 0; i < OUT; i++) {
        first[i] = HAUL__PIXEL * (int64_t)((IN - taps) * i / (OUT - 1));
        draw_weights(&seed, taps, plain[i]);
        haul__scale_put(loops, &axis, i, plain[i]);
    }
    loops->row(&axis, in, out);
    for (int i = 0; i < OUT * HAUL__PIXEL; i++) {
        int64_t sum = 0;
        for (int k = 0; k < taps; k++)
            sum += (int64_t)plain[i / HAUL__PIXEL][k] * in[first[i / HAUL__PIXEL] + k * HAUL__PIXEL + i % HAUL__PIXEL];
        assert_int_equal(out[i], rounded(sum));
    }
}

static void check_column(const haul__scale_loops *loops, int taps)
{
    enum { BYTES = 3 * HAUL__ROW_PADDING };
    uint32_t       seed = (uint32_t)taps;
    uint8_t        in[MOST][BYTES], out[BYTES];
    const uint8_t *rows[MOST];
    int32_t        plain[MOST], weights[MOST];
    draw_weights(&seed, taps, plain);
    for (int k = 0; k < taps; k++) {
        rows[k] = in[k];
        weights[k] = plain[k];
        for (int i = 0; i < BYTES; i++)
            in[k][i] = i % 5 ? next_byte(&seed) : 255;
    }
    if (loops->encode)
        loops->encode(weights, taps);
    loops->column(rows, weights, taps, BYTES, out);
    for (int i = 0; i < BYTES; i++) {
        int64_t sum = 0;
        for (int k = 0; k < taps; k++)
            sum += (int64_t)plain[k] * in[k][i];
        assert_int_equal(out[i], rounded(sum));
    }
}

static void test_image_scale__all_levels_give_the_exact_sums(void **state)
{
    (void)state;
    for (int level = 0; level < HAUL__CPU_LEVELS; level++)
        for (int taps = 1; taps <= MOST && (!level || haul__cpu_runs((haul__cpu_level_id)level)); taps++) {
            check_row(haul__scale_loops_of((haul__cpu_level_id)level), taps);
            check_column(haul__scale_loops_of((haul__cpu_level_id)level), taps);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_image_scale__all_levels_give_the_exact_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
