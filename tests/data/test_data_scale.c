/* The loops that scale pictures: those of every level give exactly the sums that the definition says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/image/image.h"

enum { IN = 97, OUT = 21, FILLED = 32, MOST = 19, STORED = 20 };

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

static int64_t stored_of(int taps, int step)
{
    return (taps + step - 1) / step * step;
}

static uint8_t rounded(int64_t sum)
{
    return (uint8_t)((sum + (1 << (HAUL__WEIGHT_BITS - 1))) >> HAUL__WEIGHT_BITS);
}

/* The first inputs of results are spread over `spread` inputs. */
static void check_row(const haul__scale_loops *loops, int taps, int spread)
{
    uint32_t         seed = (uint32_t)taps;
    const int        unit = loops->unit;
    uint8_t          in[IN * HAUL__PIXEL + HAUL__PLANE_PADDING], out[FILLED * HAUL__PIXEL], places[FILLED * 4] = {0};
    int32_t          plain[OUT][STORED] = {{0}}, weights[FILLED * STORED * HAUL__PIXEL] = {0};
    int64_t          first[FILLED] = {0};
    haul__scale_axis axis = {.in = IN,
                             .out = OUT,
                             .taps = taps,
                             .stored = stored_of(taps, loops->step_across),
                             .at_once = loops->at_once,
                             .unit = unit,
                             .first = first,
                             .places = places,
                             .weights = weights};
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = i % 7 ? next_byte(&seed) : 255; /* also after the row */
    for (int i = 0; i < OUT; i++) {
        first[i] = unit * (int64_t)(spread * i / (OUT - 1));
        int64_t span = first[i] - first[i / axis.at_once * axis.at_once] + 4;
        axis.span = span > axis.span ? span : axis.span;
        draw_weights(&seed, taps, plain[i]);
        loops->put_across(&axis, i, plain[i]);
    }
    loops->row(&axis, in, out);
    for (int i = 0; i < OUT * unit; i++) {
        int64_t sum = 0;
        for (int k = 0; k < taps; k++)
            sum += (int64_t)plain[i / unit][k] * in[first[i / unit] + k * unit + i % unit];
        assert_int_equal(out[i], rounded(sum));
    }
}

static void check_column(const haul__scale_loops *loops, int taps)
{
    enum { BYTES = 3 * HAUL__ROW_PADDING };
    uint32_t               seed = (uint32_t)taps;
    uint8_t                in[MOST][BYTES], out[BYTES];
    const uint8_t         *rows[STORED];
    int32_t                plain[STORED] = {0}, weights[STORED] = {0};
    const int64_t          stored = stored_of(taps, loops->step_down);
    const haul__scale_axis axis = {.out = 1, .taps = taps, .stored = stored, .unit = 1, .weights = weights};
    draw_weights(&seed, taps, plain);
    for (int k = 0; k < stored; k++)
        rows[k] = in[k < taps ? k : 0];
    for (int k = 0; k < taps; k++) {
        for (int i = 0; i < BYTES; i++)
            in[k][i] = i % 5 ? next_byte(&seed) : 255;
    }
    loops->put_down(&axis, 0, plain);
    loops->column(rows, weights, stored, BYTES, out);
    for (int i = 0; i < BYTES; i++) {
        int64_t sum = 0;
        for (int k = 0; k < taps; k++)
            sum += (int64_t)plain[k] * in[k][i];
        assert_int_equal(out[i], rounded(sum));
    }
}

static void check(const haul__scale_loops *loops)
{
    for (int taps = 1; taps <= MOST && loops; taps++) {
        check_row(loops, taps, IN - taps);
        check_row(loops, taps, OUT);
        check_column(loops, taps);
    }
}

static void test_image_scale__all_levels_give_the_exact_sums(void **state)
{
    (void)state;
    for (int level = 0; level < HAUL__CPU_LEVELS; level++)
        if (!level || haul__cpu_runs((haul__cpu_level_id)level)) {
            check(haul__scale_loops_of((haul__cpu_level_id)level));
            check(haul__scale_planes_of((haul__cpu_level_id)level, (double)IN / OUT));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_image_scale__all_levels_give_the_exact_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
