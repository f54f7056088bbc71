/* Normalisation to the bit, crops and flips, and the random numbers behind them.
 *
 * ctest: labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <math.h>
#include <string.h>

#include "data/normalise.h"
#include "data/random.h"

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

/* One picture of 1 ... 2 * H * W, and a mask i32 [H, W] of the same numbers, as a dataset of `count` examples. */
static haul_status read_picture(void *context, haul_example *e)
{
    uint8_t *x = e->fields[0].data;
    int32_t *mask = e->fields[1].data;
    (void)context;
    for (int i = 0; i < 2 * H * W; i++)
        x[i] = (uint8_t)(i + 1);
    for (int i = 0; i < H * W; i++)
        mask[i] = i + 1;
    return HAUL_OK;
}

static haul_dataset *pictures(int64_t count)
{
    return haul_dataset_new(&(haul_dataset_source){
        .fields = {{.name = "x", .dtype = HAUL_U8, .shape = HAUL_SHAPE(2, H, W)},
                   {.name = "mask", .dtype = HAUL_I32, .shape = HAUL_SHAPE(H, W)}},
        .count = count,
        .read = read_picture,
    });
}

/* Epoch 2 with the seed 3, as one batch. */
static const haul_batch *whole(haul_dataset *data)
{
    haul_loader *loader = haul_loader_new(data, .batch = 6000, .seed = 3);
    haul_loader_start(loader, 2);
    const haul_batch *batch = haul_loader_next(loader);
    if (!batch)
        fail_msg("%s", haul_error_message());
    return batch;
}

static void test_transform__crops_are_all_the_possible_ones(void **state)
{
    (void)state;
    enum { PAD = 6, PLACES = 2 * PAD + 1, N = 6000 }; /* all of a picture can be out of sight */
    static uint8_t out[N][2 * H * W];
    static int32_t masks[N][H * W];
    uint8_t        in[2 * H * W], expected[2 * H * W];
    int            seen[PLACES][PLACES][2] = {{{0}}}, missing = 0;
    haul_scope    *scope = haul_scope_push();
    haul_dataset  *data = haul_dataset_map(pictures(N), haul_random_crop("x, mask", PAD), haul_random_flip("x,mask"));
    const haul_batch *b = whole(data);
    assert_int_equal(haul_read(b->x, out, sizeof out), HAUL_OK);
    assert_int_equal(haul_read(haul_batch_tensor(b, "mask"), masks, sizeof masks), HAUL_OK);
    for (int i = 0; i < 2 * H * W; i++)
        in[i] = (uint8_t)(i + 1);
    for (int64_t index = 0; index < N; index++) {
        haul_draws d = haul_draws_new(3, 2, index);
        int        dy = (int)haul_draw_below(&d, PLACES) - PAD, dx = (int)haul_draw_below(&d, PLACES) - PAD;
        bool       flip = haul_draw_bits(&d) & 1;
        reference(in, dy, dx, flip, expected);
        assert_memory_equal(out[index], expected, sizeof expected);
        for (int i = 0; i < H * W; i++)
            assert_int_equal(masks[index][i], expected[i]);
        seen[dy + PAD][dx + PAD][flip]++;
    }
    for (int y = 0; y < PLACES; y++)
        for (int x = 0; x < PLACES; x++)
            missing += !seen[y][x][0] + !seen[y][x][1];
    assert_int_equal(missing, 0);
    haul_scope_pop(scope);
}

static void test_transform__crop_and_flip_can_be_had_alone(void **state)
{
    (void)state;
    enum { N = 1000 };
    static uint8_t out[N][2 * H * W];
    int            mirrored = 0, same = 0;
    haul_scope    *scope = haul_scope_push();
    haul_read(whole(haul_dataset_map(pictures(N), haul_random_flip("x")))->x, out, sizeof out);
    for (int i = 0; i < N; i++) {
        assert_true(out[i][0] == 1 || out[i][0] == W);
        mirrored += out[i][0] == W;
    }
    haul_read(whole(haul_dataset_map(pictures(N), haul_random_crop("x", 1)))->x, out, sizeof out);
    for (int i = 0; i < N; i++)
        same += out[i][0] == 1;
    assert_in_range(mirrored, 400, 600);
    assert_in_range(same, 60, 200); /* one place of nine */
    haul_scope_pop(scope);
}

static void test_transform__normalises_each_channel(void **state)
{
    (void)state;
    float       out[2 * H * W];
    haul_scope *scope = haul_scope_push();
    haul_read(
        whole(haul_dataset_map(pictures(1), haul_normalise("x", .mean = {HAUL_ZERO, 0.25}, .deviation = {1, 0.125})))
            ->x,
        out, sizeof out);
    for (int i = 0; i < 2 * H * W; i++) {
        float unit = (float)(i + 1) / 255.0f;
        assert_true(out[i] == (i < H * W ? unit : (unit - 0.25f) / 0.125f));
    }
    haul_tensor  *x = haul_from_host(HAUL_F32, HAUL_SHAPE(1, 2), (const float[]){3, 5});
    haul_dataset *rows = haul_dataset_from_named(&(haul_named_tensor){.name = "x", .tensor = x}, 1);
    haul_read(whole(haul_dataset_map(rows, haul_normalise("x", .mean = {1, 2}, .deviation = {2, 4})))->x, out,
              2 * sizeof *out);
    assert_true(out[0] == 1 && out[1] == 0.75f);
    haul_scope_pop(scope);
}

static void test_transform__converts_what_the_dtype_can_hold(void **state)
{
    (void)state;
    int64_t           integers[H * W];
    double            floats[2 * H * W];
    haul_scope       *scope = haul_scope_push();
    const haul_batch *b =
        whole(haul_dataset_map(pictures(1), haul_convert("x", HAUL_F64), haul_convert("mask", HAUL_I64)));
    haul_read(b->x, floats, sizeof floats);
    haul_read(b->y, integers, sizeof integers);
    for (int i = 0; i < H * W; i++)
        assert_true(floats[i] == i + 1 && integers[i] == i + 1);
    assert_null(haul_dataset_map(pictures(1), haul_convert("mask", HAUL_I16)));
    assert_int_equal(haul_error_status(), HAUL_DTYPE);
    assert_null(haul_dataset_map(pictures(1), haul_convert("x", HAUL_F32), haul_convert("x", HAUL_I64)));
    assert_int_equal(haul_error_status(), HAUL_DTYPE);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* ---- transforms of the user's ---- */

/* The middle column of x as "column", with noise; x is left out of what follows as f32. */
static haul_status plan_column(void *context, haul_field *fields, int *count)
{
    (void)context;
    fields[*count] = (haul_field){.name = "column", .dtype = HAUL_F32, .shape = HAUL_SHAPE(H)};
    (*count)++;
    return HAUL_OK;
}

static haul_status apply_column(void *context, haul_example *e)
{
    const uint8_t *x = e->fields[0].data;
    float         *out = haul_example_resize(e, 2, HAUL_F32, HAUL_SHAPE(H));
    (void)context;
    for (int y = 0; out && y < H; y++)
        out[y] = (float)(x[y * W + W / 2] + haul_draw_unit(&e->draws));
    return out ? HAUL_OK : haul_error_status();
}

static int closed;

static void count_closed(void *context)
{
    (void)context;
    closed++;
}

static void test_transform__of_the_user_adds_a_field(void **state)
{
    (void)state;
    float           column[H];
    haul_draws      draws = haul_draws_new(3, 2, 0);
    haul_scope     *scope = haul_scope_push();
    haul_transform *add = haul_transform_new(apply_column, .fields = plan_column, .close = count_closed);
    haul_dataset   *data = haul_dataset_map(pictures(4), add);
    haul_drop(add);
    assert_int_equal(haul_dataset_fields(data), 3);
    assert_int_equal(haul_read(haul_select(haul_batch_tensor(whole(data), "column"), 0, 0), column, sizeof column),
                     HAUL_OK);
    for (int y = 0; y < H; y++)
        assert_true(column[y] == (float)(y * W + W / 2 + 1 + haul_draw_unit(&draws)));
    assert_int_equal(closed, 0);
    haul_scope_pop(scope);
    assert_int_equal(closed, 1);
}

/* Says nothing of the new dtype. */
static haul_status halve(void *context, haul_example *e)
{
    (void)context;
    return haul_example_resize(e, 0, HAUL_F16, HAUL_SHAPE(2, H, W)) ? HAUL_OK : haul_error_status();
}

static haul_status refuse(void *context, haul_example *e)
{
    (void)context;
    return e->index == 1 ? HAUL_STATE : HAUL_OK;
}

/* As many fields as *context says, of which those behind the dataset's have no names. */
static haul_status plan_some(void *context, haul_field *fields, int *count)
{
    (void)fields;
    *count = *(const int *)context;
    return HAUL_OK;
}

static haul_status leave(void *context, haul_example *e)
{
    (void)context, (void)e;
    return HAUL_OK;
}

static void expect(haul_status status, const char *words)
{
    if (haul_error_status() != status || !strstr(haul_error_message(), words))
        fail_msg("%s (expected: %s)", haul_error_message(), words);
    haul_error_clear();
}

static void test_transform__wrong_ones_are_refused(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_dataset *data = pictures(3);
    assert_null(haul_dataset_map(data, haul_random_flip("x, z")));
    expect(HAUL_INVALID_ARGUMENT, "no field \"z\"; it has x, mask");
    assert_null(haul_dataset_map(data, haul_normalise("mask")));
    expect(HAUL_DTYPE, "haul_convert(\"mask\", HAUL_F32)");
    assert_null(haul_dataset_map(data, haul_normalise("x", .mean = {1, 2, 3}, .deviation = {1, 2, 3})));
    expect(HAUL_SHAPE, "3 means are given, but x has 2 channels");
    assert_null(haul_normalise("x", .mean = {1, 2}, .deviation = {1}));
    expect(HAUL_INVALID_ARGUMENT, "2 means and 1 deviations");
    assert_null(haul_normalise("x", .deviation = {-1}));
    expect(HAUL_INVALID_ARGUMENT, "must be positive");
    assert_null(haul_normalise("x", .mean = {(double)NAN}, .deviation = {1}));
    expect(HAUL_INVALID_ARGUMENT, "mean[0] is");
    assert_null(haul_normalise("x", .mean = {0, 2}, .deviation = {1, 2}));
    expect(HAUL_INVALID_ARGUMENT, "mean[0] is not set, but a later one is; write HAUL_ZERO");
    assert_null(haul_random_crop("x", -1));
    expect(HAUL_INVALID_ARGUMENT, "padding is -1");
    assert_null(haul_random_flip(" "));
    expect(HAUL_INVALID_ARGUMENT, "fields is empty; name at least one field");
    assert_null(haul_transform_new(NULL, .close = count_closed));
    expect(HAUL_INVALID_ARGUMENT, "apply");
    assert_int_equal(closed, 2);
    for (int i = 0; i < 2; i++) {
        haul_loader *loader = haul_loader_new(haul_dataset_map(data, haul_transform_new(i ? refuse : halve)));
        assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
        while (haul_loader_next(loader))
            ;
        if (i)
            expect(HAUL_STATE, "example 1 of dataset could not be transformed");
        else
            expect(HAUL_SHAPE, "x of example 0 of dataset is f16[2,5,4]; u8[2,5,4] was declared");
    }
    haul_scope_pop(scope);
}

/* The transform behind one that leaves wrong fields does not read them. */
static void test_transform__wrong_fields_are_refused(void **state)
{
    (void)state;
    static const struct {
        int         count;
        const char *words;
    } wrong[] = {{HAUL_MAX_FIELDS + 1, "a transform leaves 17 fields; from 1 to 16"},
                 {1 << 20, "a transform leaves 1048576 fields"},
                 {0, "a transform leaves 0 fields"},
                 {-1, "a transform leaves -1 fields"},
                 {3, "a transform leaves field 2 without a name"}};
    haul_scope *scope = haul_scope_push();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int count = wrong[i].count;
        assert_null(haul_dataset_map(pictures(1), haul_transform_new(leave, .fields = plan_some, .context = &count),
                                     haul_random_flip("z")));
        expect(HAUL_INVALID_ARGUMENT, wrong[i].words);
    }
    haul_scope_pop(scope);
}

/* ---- turned, and with other colours ---- */

enum { TURNED = 24, ROWS = 16, COLUMNS = 17, AREA = ROWS * COLUMNS };

/* A smooth picture with some noise, u8 [3, ROWS, COLUMNS], and a mask of numbers, i64 [ROWS, COLUMNS]. */
static haul_status read_scene(void *context, haul_example *e)
{
    uint8_t *x = e->fields[0].data;
    int64_t *mask = e->fields[1].data;
    (void)context;
    for (int i = 0; i < 3 * AREA; i++)
        x[i] = (uint8_t)((i * 7 + (int)e->index * 31 + i / AREA * 50) % 256);
    for (int i = 0; i < AREA; i++)
        mask[i] = i + 1;
    return HAUL_OK;
}

static haul_dataset *scenes(void)
{
    return haul_dataset_new(&(haul_dataset_source){
        .fields = {{.name = "x", .dtype = HAUL_U8, .shape = HAUL_SHAPE(3, ROWS, COLUMNS)},
                   {.name = "mask", .dtype = HAUL_I64, .shape = HAUL_SHAPE(ROWS, COLUMNS)}},
        .count = TURNED,
        .read = read_scene,
    });
}

static double between(haul_draws *draws, double amount)
{
    return (2 * haul_draw_unit(draws) - 1) * amount;
}

static void read_all(haul_tensor *t, void *out, size_t size)
{
    if (haul_read(t, out, size))
        fail_msg("%s", haul_error_message());
}

static void test_transform__rotations_are_those_of_haul_rotate(void **state)
{
    (void)state;
    static uint8_t out[TURNED][3 * AREA], plain[TURNED][3 * AREA], expected[3 * AREA];
    static int64_t masks[TURNED][AREA];
    int            different = 0, moved = 0;
    haul_scope    *scope = haul_scope_push();
    haul_tensor   *x = whole(scenes())->x;
    read_all(x, plain, sizeof plain);
    const haul_batch *b = whole(haul_dataset_map(scenes(), haul_random_rotation("x, mask", 40)));
    read_all(b->x, out, sizeof out);
    read_all(haul_batch_tensor(b, "mask"), masks, sizeof masks);
    for (int64_t index = 0; index < TURNED; index++) {
        haul_draws   d = haul_draws_new(3, 2, index);
        const double degrees = between(&d, 40);
        haul_tensor *picture = haul_from_host(HAUL_U8, HAUL_SHAPE(3, ROWS, COLUMNS), plain[index]);
        read_all(haul_rotate(picture, degrees), expected, sizeof expected);
        for (int i = 0; i < 3 * AREA; i++)
            different += out[index][i] != expected[i];
        moved += memcmp(out[index], plain[index], sizeof expected) != 0;
        for (int i = 0; i < AREA; i++) /* the mask turns with its picture: its numbers are places */
            assert_int_equal(out[index][i], masks[index][i] ? plain[index][masks[index][i] - 1] : 0);
    }
    assert_true(different <= TURNED * 3 * AREA / 200); /* places that are halfway between two elements */
    assert_true(moved > TURNED / 2);
    haul_scope_pop(scope);
}

static void test_transform__colours_are_those_of_haul_adjust(void **state)
{
    (void)state;
    static uint8_t out[TURNED][3 * AREA], plain[TURNED][3 * AREA], expected[3 * AREA];
    int            different = 0;
    haul_scope    *scope = haul_scope_push();
    read_all(whole(scenes())->x, plain, sizeof plain);
    read_all(whole(haul_dataset_map(scenes(), haul_random_colour("x", 0.5)))->x, out, sizeof out);
    for (int64_t index = 0; index < TURNED; index++) {
        haul_draws   d = haul_draws_new(3, 2, index);
        const double brightness = 1 + between(&d, 0.5), contrast = 1 + between(&d, 0.5);
        const double saturation = 1 + between(&d, 0.5);
        haul_tensor *y = haul_from_host(HAUL_U8, HAUL_SHAPE(3, ROWS, COLUMNS), plain[index]);
        y = haul_adjust_contrast(haul_adjust_brightness(y, brightness), contrast);
        read_all(haul_adjust_saturation(y, saturation), expected, sizeof expected);
        for (int i = 0; i < 3 * AREA; i++) {
            const int apart = out[index][i] > expected[i] ? out[index][i] - expected[i] : expected[i] - out[index][i];
            assert_true(apart <= 2);
            different += apart > 0;
        }
    }
    assert_true(different <= TURNED * 3 * AREA / 50); /* rounded elsewhere before they are truncated */
    haul_scope_pop(scope);
}

static void test_transform__wrong_rotations_and_colours_are_refused(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_null(haul_random_rotation("x", -1));
    expect(HAUL_INVALID_ARGUMENT, "degrees is -1; a number from 0 to 180 is expected");
    assert_null(haul_random_rotation("x", (double)NAN));
    expect(HAUL_INVALID_ARGUMENT, "a number from 0 to 180 is expected");
    assert_null(haul_random_colour("x", 1.5));
    expect(HAUL_INVALID_ARGUMENT, "amount is 1.5; a number from 0 to 1 is expected");
    assert_null(haul_random_rotation(NULL, 1));
    haul_error_clear();
    assert_null(haul_dataset_map(scenes(), haul_random_colour("mask", 0.1)));
    expect(HAUL_DTYPE, "mask is i64; pictures of u8 are expected");
    assert_null(haul_dataset_map(pictures(3), haul_random_colour("x", 0.1)));
    expect(HAUL_SHAPE, "x is not a picture [3, height, width] or [1, height, width]");
    haul_scope_pop(scope);
}

/* Known answers of Philox 4x32-10, from the authors' Random123. */
static void test_random__is_philox(void **state)
{
    (void)state;
    haul_draws            zero = {.haul__key = {0, 0}, .haul__counter = {0, 0, 0, 0}};
    haul_draws            ones = {.haul__key = {0xffffffff, 0xffffffff},
                                  .haul__counter = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}};
    haul_draws            pi = {.haul__key = {0xa4093822, 0x299f31d0},
                                .haul__counter = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
    static const uint32_t expected[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                            {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                            {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(haul_draw_bits(&zero), expected[0][i]);
        assert_int_equal(haul_draw_bits(&ones), expected[1][i]);
        assert_int_equal(haul_draw_bits(&pi), expected[2][i]);
    }
}

static void test_random__bounds_units_and_normals(void **state)
{
    (void)state;
    haul_draws d = haul__draws_begin(1, HAUL__FOR_ORDER, 1, 1);
    int        counts[7] = {0};
    double     sum = 0, squares = 0;
    for (int i = 0; i < 70000; i++) {
        uint64_t k = haul_draw_below(&d, 7);
        assert_true(k < 7);
        counts[k]++;
        double u = haul_draw_unit(&d), x = haul_draw_normal(&d);
        assert_true(u >= 0 && u < 1 && isfinite(x));
        sum += x;
        squares += x * x;
    }
    for (int i = 0; i < 7; i++)
        assert_true(counts[i] > 9500 && counts[i] < 10500);
    assert_true(fabs(sum / 70000) < 0.02 && fabs(squares / 70000 - 1) < 0.03);
    assert_true(haul_draw_below(&d, 1) == 0);
    uint64_t large = 0;
    for (int i = 0; i < 64; i++)
        large |= haul_draw_below(&d, UINT64_MAX);
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
        {0, HAUL__FOR_EXAMPLE, 0, 0},
        {0, HAUL__FOR_ORDER, 1, 0},
        {0, HAUL__FOR_ORDER, 0, 1},
        {UINT64_C(1) << 32, HAUL__FOR_ORDER, 0, 0},
        {0, HAUL__FOR_ORDER, UINT64_C(1) << 32 | 5, 0},
        {0, HAUL__FOR_ORDER, 0, UINT64_C(1) << 32},
    };
    enum { N = sizeof all / sizeof *all };
    uint8_t bytes[N][33];
    for (int i = 0; i < N; i++) {
        haul_draws d = haul__draws_begin(all[i].seed, all[i].purpose, all[i].stream, all[i].index);
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
        cmocka_unit_test(test_transform__normalises_each_channel),
        cmocka_unit_test(test_transform__converts_what_the_dtype_can_hold),
        cmocka_unit_test(test_transform__of_the_user_adds_a_field),
        cmocka_unit_test(test_transform__wrong_ones_are_refused),
        cmocka_unit_test(test_transform__wrong_fields_are_refused),
        cmocka_unit_test(test_transform__rotations_are_those_of_haul_rotate),
        cmocka_unit_test(test_transform__colours_are_those_of_haul_adjust),
        cmocka_unit_test(test_transform__wrong_rotations_and_colours_are_refused),
        cmocka_unit_test(test_random__is_philox),
        cmocka_unit_test(test_random__bounds_units_and_normals),
        cmocka_unit_test(test_random__sequences_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
