/* Normalisation to the bit, crops and flips, and the random numbers behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <math.h>
#include <string.h>

#include "data/random.h"
#include "data/transform.h"

static void test_transform__normalises_as_torchvision_does(void **state)
{
    (void)state;
    static const double settings[][2] = {{0.5, 0.5},       {0, 1},           {0.4914, 0.247}, {0.4822, 0.2435},
                                         {0.4465, 0.2616}, {0.1307, 0.3081}, {0.25, 0.125},   {-1, 3}};
    uint8_t             bytes[256 + 7];
    float               out[256 + 8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        haul__normaliser n;
        haul__normaliser_init(&n, settings[i][0], settings[i][1]);
        for (int64_t count = 0; count <= (int64_t)sizeof bytes; count += count < 20 ? 1 : 243) {
            out[count] = 77;
            haul__normalise(&n, bytes, out, count);
            for (int64_t k = 0; k < count; k++) {
                volatile float x = (float)bytes[k] / 255.0f;
                volatile float y = x - (float)settings[i][0];
                volatile float z = y / (float)settings[i][1];
                assert_memory_equal(&out[k], (const void *)&z, sizeof(float));
            }
            assert_true(out[count] == 77);
        }
    }
    haul__normaliser n;
    haul__normaliser_init(&n, 0.5, 0.5);
    assert_true(n.by_arithmetic); /* the usual setting is the fast one */
}

#define H 5
#define W 4

/* The picture moved by (dy, dx) and mirrored, in the plainest way. */
static void reference(const uint8_t *in, int dy, int dx, bool flip, uint8_t *out)
{
    for (int c = 0; c < 2; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                int from_y = y + dy, from_x = (flip ? W - 1 - x : x) + dx;
                out[(c * H + y) * W + x] =
                    from_y < 0 || from_y >= H || from_x < 0 || from_x >= W ? 0 : in[(c * H + from_y) * W + from_x];
            }
}

static void test_transform__crops_are_all_the_possible_ones(void **state)
{
    (void)state;
    enum { PAD = 6, PLACES = 2 * PAD + 1 }; /* more than the picture's size: all of it can be out of sight */
    uint8_t             in[2 * H * W], out[2 * H * W], expected[2 * H * W];
    const haul__augment a = {.channels = 2, .height = H, .width = W, .crop = PAD, .flip = true};
    int                 seen[PLACES][PLACES][2] = {{{0}}}, missing = 0;
    for (int i = 0; i < 2 * H * W; i++)
        in[i] = (uint8_t)(i + 1);
    for (int64_t index = 0; index < 6000; index++) {
        haul__draws d = haul__draws_begin(3, HAUL__FOR_AUGMENT, 2, (uint64_t)index);
        int         dy = (int)haul__draw_below(&d, PLACES) - PAD, dx = (int)haul__draw_below(&d, PLACES) - PAD;
        bool        flip = haul__draw(&d) & 1;
        haul__augment_one(&a, 3, 2, index, in, out);
        reference(in, dy, dx, flip, expected);
        assert_memory_equal(out, expected, sizeof out);
        seen[dy + PAD][dx + PAD][flip]++;
    }
    for (int y = 0; y < PLACES; y++)
        for (int x = 0; x < PLACES; x++)
            missing += !seen[y][x][0] + !seen[y][x][1];
    assert_int_equal(missing, 0);
}

static void test_transform__crop_and_flip_can_be_had_alone(void **state)
{
    (void)state;
    uint8_t             in[H * W], out[H * W];
    const haul__augment flip = {.channels = 1, .height = H, .width = W, .flip = true};
    const haul__augment crop = {.channels = 1, .height = H, .width = W, .crop = 1};
    int                 mirrored = 0, same = 0, shifted = 0;
    for (int i = 0; i < H * W; i++)
        in[i] = (uint8_t)(i + 1);
    for (int64_t index = 0; index < 1000; index++) {
        haul__augment_one(&flip, 0, 0, index, in, out);
        assert_true(out[0] == 1 || out[0] == W);
        mirrored += out[0] == W;
        haul__augment_one(&crop, 0, 0, index, in, out);
        same += out[0] == 1;
        shifted += out[0] != 1;
    }
    assert_true(mirrored > 400 && mirrored < 600);
    assert_true(same > 60 && shifted > 800); /* one place of nine */
}

/* Known answers of Philox 4x32-10, from the authors' Random123. */
static void test_random__is_philox(void **state)
{
    (void)state;
    haul__draws zero = {.key = {0, 0}, .counter = {0, 0, 0, 0}};
    haul__draws ones = {.key = {0xffffffff, 0xffffffff}, .counter = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}};
    haul__draws pi = {.key = {0xa4093822, 0x299f31d0}, .counter = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
    static const uint32_t expected[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                            {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                            {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(haul__draw(&zero), expected[0][i]);
        assert_int_equal(haul__draw(&ones), expected[1][i]);
        assert_int_equal(haul__draw(&pi), expected[2][i]);
    }
}

static void test_random__bounds_units_and_normals(void **state)
{
    (void)state;
    haul__draws d = haul__draws_begin(1, HAUL__FOR_ORDER, 1, 1);
    int         counts[7] = {0};
    double      sum = 0, squares = 0;
    for (int i = 0; i < 70000; i++) {
        uint64_t k = haul__draw_below(&d, 7);
        assert_true(k < 7);
        counts[k]++;
        double u = haul__draw_unit(&d), x = haul__draw_normal(&d);
        assert_true(u >= 0 && u < 1 && isfinite(x));
        sum += x;
        squares += x * x;
    }
    for (int i = 0; i < 7; i++)
        assert_true(counts[i] > 9500 && counts[i] < 10500);
    assert_true(fabs(sum / 70000) < 0.02 && fabs(squares / 70000 - 1) < 0.03);
    assert_true(haul__draw_below(&d, 1) == 0);
    uint64_t large = 0;
    for (int i = 0; i < 64; i++)
        large |= haul__draw_below(&d, UINT64_MAX);
    assert_true(large >> 60 == 15);
}

static void test_random__sequences_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        uint64_t      seed;
        haul__purpose purpose;
        uint64_t      stream, index;
    } all[] = {
        {0, HAUL__FOR_ORDER, 0, 0},
        {1, HAUL__FOR_ORDER, 0, 0},
        {0, HAUL__FOR_AUGMENT, 0, 0},
        {0, HAUL__FOR_ORDER, 1, 0},
        {0, HAUL__FOR_ORDER, 0, 1},
        {UINT64_C(1) << 32, HAUL__FOR_ORDER, 0, 0},
        {0, HAUL__FOR_ORDER, UINT64_C(1) << 32 | 5, 0},
        {0, HAUL__FOR_ORDER, 0, UINT64_C(1) << 32},
    };
    enum { N = sizeof all / sizeof *all };
    uint8_t bytes[N][33];
    for (int i = 0; i < N; i++) {
        haul__draws d = haul__draws_begin(all[i].seed, all[i].purpose, all[i].stream, all[i].index);
        haul__draw_bytes(&d, bytes[i], 33);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(bytes[i], bytes[k], 16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transform__normalises_as_torchvision_does),
        cmocka_unit_test(test_transform__crops_are_all_the_possible_ones),
        cmocka_unit_test(test_transform__crop_and_flip_can_be_had_alone),
        cmocka_unit_test(test_random__is_philox),
        cmocka_unit_test(test_random__bounds_units_and_normals),
        cmocka_unit_test(test_random__sequences_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
