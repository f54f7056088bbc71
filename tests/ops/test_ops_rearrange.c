/* Filling by masks, triangles, splitting, padding, flips, rolls and repetitions: edges, layouts, targets, refusals.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"

/* 1, 2, 3 ... in this shape. */
static haul_tensor *counting(haul_device *device, haul_shape shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    return haul_reshape(haul_to(haul_arange(HAUL_F32, 1, (double)count + 1, 1), device), shape);
}

static haul_tensor *moved(haul_device *device, haul_tensor *x)
{
    return haul_to(x, device);
}

/* ---- masks and triangles ---- */

/* The filled value does not matter: NaN and infinity leave neither the result nor the gradient. */
static void masks(haul_device *device)
{
    float        values[] = {1, NAN, INFINITY, 4};
    bool         flags[] = {false, true, true, false};
    haul_tensor *x = moved(device, haul_from_host(HAUL_F32, HAUL_SHAPE(2, 2), values)), *g;
    haul_tensor *mask = moved(device, haul_from_host(HAUL_BOOL, HAUL_SHAPE(2, 2), flags));
    assert_valid(haul_set_requires_grad(x, true));
    haul_tensor *y = haul_masked_fill(x, mask, -INFINITY);
    assert_float_equal(haul_item(haul_max(y)), 4, 0);
    assert_close(haul_masked_fill(x, mask, 7), (double[]){1, 7, 7, 4}, 4, 0, "a mask");
    assert_succeeded(haul_grad(haul_sum(haul_square(haul_masked_fill(x, mask, 7))), &x, 1, &g), "gradient");
    assert_close(g, (double[]){2, 0, 0, 8}, 4, 0, "gradient of a mask");

    haul_tensor *row = counting(device, HAUL_SHAPE(3)),
                *column = haul_to(haul_zeros(HAUL_BOOL, HAUL_SHAPE(2, 1)), device);
    assert_int_equal(haul_tensor_ndim(haul_masked_fill(row, column, 0)), 2);
    assert_int_equal(haul_tensor_dtype(haul_masked_fill(haul_cast(row, HAUL_I16), column, -3)), HAUL_I16);
    assert_refused(haul_masked_fill(haul_cast(row, HAUL_U8), column, -1), HAUL_INVALID_ARGUMENT,
                   "haul_masked_fill: -1 is not a value of u8");
    assert_refused(haul_masked_fill(row, row, 0), HAUL_DTYPE, "mask");
}

static void test_rearrange__masks(void **state)
{
    (void)state;
    on_devices(masks);
}

static void triangles(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(2, 3));
    assert_close(haul_tril(x, 0), (double[]){1, 0, 0, 4, 5, 0}, 6, 0, "tril");
    assert_close(haul_triu(x, 1), (double[]){0, 2, 3, 0, 0, 6}, 6, 0, "triu");
    assert_close(haul_tril(haul_transpose(x, 0, 1), 0), (double[]){1, 0, 2, 5, 3, 6}, 6, 0, "tril of a view");
    assert_equal_bits(haul_tril(x, INT64_MAX), x, "all below");
    assert_equal_bits(haul_triu(x, INT64_MIN), x, "all above");
    assert_close(haul_tril(x, INT64_MIN), (double[6]){0}, 6, 0, "none below");
    assert_close(haul_triu(x, INT64_MAX), (double[6]){0}, 6, 0, "none above");
    haul_tensor *large = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(3, 200, 300)), device);
    assert_float_equal(haul_item(haul_sum(haul_tril(large, 0))), 3 * 200 * 201 / 2, 0);
    assert_int_equal(haul_tensor_count(haul_tril(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), 0)), 0);
    assert_refused(haul_triu(counting(device, HAUL_SHAPE(3)), 0), HAUL_SHAPE, "at least two dimensions");
}

static void test_rearrange__triangles(void **state)
{
    (void)state;
    on_devices(triangles);
}

/* ---- parts ---- */

static void test_rearrange__splits_are_views(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = counting(haul_cpu(), HAUL_SHAPE(2, 5)), *parts[4];
    assert_succeeded(haul_split(x, -1, (const int64_t[]){2, 0, 3}, 3, parts), "split");
    assert_close(parts[2], (double[]){3, 4, 5, 8, 9, 10}, 6, 0, "the last part");
    assert_int_equal(haul_tensor_count(parts[1]), 0);
    assert_succeeded(haul_fill_into(parts[0], 0), "fill");
    assert_close(x, (double[]){0, 0, 3, 4, 5, 0, 0, 8, 9, 10}, 10, 0, "the whole");
    assert_succeeded(haul_chunk(x, 1, 4, parts), "chunk");
    assert_close(parts[2], (double[]){5, 10}, 2, 0, "a shorter part");
    assert_int_equal(haul_tensor_count(parts[3]), 0);
    haul_scope_pop(scope);
}

static void check_split(haul_status status, haul_status want, const char *words, haul_tensor *const *parts)
{
    assert_int_equal(status, want);
    assert_refused(parts[0], want, words);
    assert_failed(parts[1]);
}

static void test_rearrange__splits_refuse(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = counting(haul_cpu(), HAUL_SHAPE(2, 5)), *parts[2];
    check_split(haul_split(x, 1, (const int64_t[]){2, 2}, 2, parts), HAUL_SHAPE,
                "haul_split: the sizes add up to 4, but axis 1 of x has 5 elements", parts);
    check_split(haul_split(x, 1, (const int64_t[]){7, -2}, 2, parts), HAUL_INVALID_ARGUMENT, "sizes[1] is -2", parts);
    check_split(haul_split(x, 2, (const int64_t[]){2, 3}, 2, parts), HAUL_INVALID_ARGUMENT, "haul_split", parts);
    check_split(haul_split(x, 1, NULL, 2, parts), HAUL_INVALID_ARGUMENT, "sizes", parts);
    check_split(haul_chunk(HAUL_NONE, 1, 2, parts), HAUL_INVALID_ARGUMENT, "haul_chunk", parts);
    assert_int_equal(haul_chunk(x, 1, 0, parts), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_chunk(x, 1, 2, NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* ---- padding ---- */

static void paddings(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(4));
    assert_close(haul_pad(x, HAUL_PADS(2, 2), .value = 9), (double[]){9, 9, 1, 2, 3, 4, 9, 9}, 8, 0, "constant");
    assert_close(haul_pad(x, HAUL_PADS(2, 2), .mode = HAUL_PAD_REFLECT), (double[]){3, 2, 1, 2, 3, 4, 3, 2}, 8, 0,
                 "reflect");
    assert_close(haul_pad(x, HAUL_PADS(2, 2), .mode = HAUL_PAD_REPLICATE), (double[]){1, 1, 1, 2, 3, 4, 4, 4}, 8, 0,
                 "replicate");
    assert_close(haul_pad(x, HAUL_PADS(2, 2), .mode = HAUL_PAD_CIRCULAR), (double[]){3, 4, 1, 2, 3, 4, 1, 2}, 8, 0,
                 "circular");
    assert_close(haul_pad(x, HAUL_PADS(-1, 1)), (double[]){2, 3, 4, 0}, 4, 0, "a shift");
    assert_close(haul_pad(x, HAUL_PADS(2, -4), .value = 7), (double[]){7, 7}, 2, 0, "nothing of x is left");
    assert_int_equal(haul_tensor_count(haul_pad(x, HAUL_PADS(-1, -3))), 0);
    haul_tensor *nothing = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0)), device);
    assert_close(haul_pad(nothing, HAUL_PADS(1, 1), .value = 5), (double[]){5, 5, 5, 5}, 4, 0, "nothing padded");
    assert_equal_bits(haul_pad(x), x, "no sizes");
    assert_close(haul_pad(counting(device, HAUL_SHAPE(1)), HAUL_PADS(2, 2), .mode = HAUL_PAD_REPLICATE),
                 (double[]){1, 1, 1, 1, 1}, 5, 0, "one element replicated");
}

static void test_rearrange__paddings(void **state)
{
    (void)state;
    on_devices(paddings);
}

/* A picture that is channels-last stays so. */
static void formats(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 3, 7, 9), 1, NULL);
    haul_tensor *last = haul_to_memory_format(x, HAUL_CHANNELS_LAST);
    haul_tensor *y = haul_pad(last, HAUL_PADS(1, 2, 3, 1, 1, 0), .mode = HAUL_PAD_REFLECT);
    assert_equal_bits(y, haul_pad(x, HAUL_PADS(1, 2, 3, 1, 1, 0), .mode = HAUL_PAD_REFLECT), "channels-last padded");
    assert_false(haul_tensor_is_contiguous(y));
    assert_equal_bits(haul_flip(last, HAUL_AXES(1, 3)), haul_flip(x, HAUL_AXES(1, 3)), "channels-last flipped");
    assert_equal_bits(haul_roll(last, 4, 2), haul_roll(x, 4, 2), "channels-last rolled");
    assert_equal_bits(haul_repeat(last, HAUL_SHAPE(1, 2, 2, 1)), haul_repeat(x, HAUL_SHAPE(1, 2, 2, 1)),
                      "channels-last repeated");
}

static void test_rearrange__memory_formats(void **state)
{
    (void)state;
    on_devices(formats);
}

static void test_rearrange__paddings_refuse(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = counting(haul_cpu(), HAUL_SHAPE(2, 4)), *whole = haul_cast(x, HAUL_I32);
    assert_refused(haul_pad(x, HAUL_PADS(1)), HAUL_INVALID_ARGUMENT, "haul_pad: 1 sizes are given");
    assert_refused(haul_pad(x, HAUL_PADS(1, 1, 1, 1, 1, 1)), HAUL_INVALID_ARGUMENT, "6 sizes are given");
    assert_refused(haul_pad(x, HAUL_PADS(4, 0), .mode = HAUL_PAD_REFLECT), HAUL_INVALID_ARGUMENT,
                   "which has 4 elements; reflect padding takes at most 3");
    assert_refused(haul_pad(x, HAUL_PADS(0, 5), .mode = HAUL_PAD_CIRCULAR), HAUL_INVALID_ARGUMENT, "at most 4");
    assert_refused(haul_pad(x, HAUL_PADS(-1, 0), .mode = HAUL_PAD_CIRCULAR), HAUL_INVALID_ARGUMENT, "negative");
    assert_refused(haul_pad(x, HAUL_PADS(-3, -2)), HAUL_INVALID_ARGUMENT, "remove more from axis 1");
    assert_refused(haul_pad(x, HAUL_PADS(INT64_MIN, 0)), HAUL_INVALID_ARGUMENT, "remove more");
    assert_refused(haul_pad(x, HAUL_PADS(INT64_MAX, 0)), HAUL_SHAPE, "64 bits");
    assert_refused(haul_pad(x, HAUL_PADS(INT64_MAX, INT64_MIN)), HAUL_INVALID_ARGUMENT, "remove more");
    assert_refused(haul_pad(whole, HAUL_PADS(1, 1), .value = 0.5), HAUL_INVALID_ARGUMENT, "0.5 is not a value of i32");
    assert_refused(haul_pad(x, HAUL_PADS(1, 1), .mode = (haul_pad_mode)9), HAUL_INVALID_ARGUMENT, "mode is 9");
    assert_refused(haul_pad_with(NULL), HAUL_INVALID_ARGUMENT, "options");
    haul_scope_pop(scope);
}

/* ---- flips, rolls, repetitions ---- */

static void rearranged(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(2, 3)), *scalar = haul_select(counting(device, HAUL_SHAPE(1)), 0, 0);
    haul_tensor *nothing = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), device), *g;
    assert_close(haul_flip(x), (double[]){6, 5, 4, 3, 2, 1}, 6, 0, "all axes");
    assert_close(haul_flip(haul_transpose(x, 0, 1), HAUL_AXES(0)), (double[]){3, 6, 2, 5, 1, 4}, 6, 0, "of a view");
    assert_close(haul_flip(scalar), (double[]){1}, 1, 0, "of a scalar");
    assert_int_equal(haul_tensor_count(haul_flip(nothing)), 0);
    assert_close(haul_roll(x, 7, 1), (double[]){3, 1, 2, 6, 4, 5}, 6, 0, "once around and one");
    assert_close(haul_roll(x, INT64_MIN, 0), (double[]){1, 2, 3, 4, 5, 6}, 6, 0, "an even shift of two rows");
    assert_int_equal(haul_tensor_count(haul_roll(nothing, 1, 0)), 0);
    assert_close(haul_repeat(scalar, HAUL_SHAPE(2, 2)), (double[]){1, 1, 1, 1}, 4, 0, "a scalar repeated");
    assert_close(haul_repeat_interleave(x, 2, 0), (double[]){1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}, 12, 0, "interleaved");
    assert_valid(haul_set_requires_grad(x, true));
    assert_succeeded(haul_grad(haul_sum(haul_repeat(x, HAUL_SHAPE(2, 0, 1))), &x, 1, &g), "gradient of nothing");
    assert_true(g == HAUL_NONE || haul_item(haul_sum(haul_abs(g))) == 0);
    assert_int_equal(haul_tensor_count(haul_repeat_interleave(x, 0, 1)), 0);
    assert_refused(haul_flip(x, HAUL_AXES(1, -1)), HAUL_INVALID_ARGUMENT, "axis -1 is given twice");
    assert_refused(haul_repeat(x, HAUL_SHAPE(2)), HAUL_SHAPE, "times has 1 dimensions, x has 2");
    assert_refused(haul_repeat(x, HAUL_SHAPE(2, -1)), HAUL_INVALID_ARGUMENT, "times is [2,-1]");
    assert_refused(haul_repeat(x, HAUL_SHAPE(INT64_MAX, 1)), HAUL_SHAPE, "64 bits");
    assert_refused(haul_repeat_interleave(x, -1, 0), HAUL_INVALID_ARGUMENT, "times is -1");
    assert_refused(haul_roll(x, 1, 2), HAUL_INVALID_ARGUMENT, "haul_roll");
}

static void test_rearrange__rearranged(void **state)
{
    (void)state;
    on_devices(rearranged);
}

/* Rows that are cut among threads give what one thread gives. */
static haul_tensor *large(void *context)
{
    (void)context;
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(3, 150, 211), 1, NULL);
    haul_tensor *y = haul_pad(x, HAUL_PADS(100, 50, 3, 2), .mode = HAUL_PAD_REFLECT);
    return haul_roll(haul_flip(haul_repeat(haul_tril(y, 3), HAUL_SHAPE(2, 1, 2))), 1000, 2);
}

static void test_rearrange__same_for_threads(void **state)
{
    (void)state;
    assert_same_for_threads(large, NULL);
}

/* ---- targets ---- */

static haul_status mask_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_masked_fill_into(out, in[0], in[1], 3);
}

static haul_status pad_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_pad_into(out, in[0], HAUL_PADS(-2, 1, 1, -1));
}

static void targets(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 5), 1, NULL), *in[] = {x, haul_gt_scalar(x, 0)};
    assert_into("masked_fill", mask_into, haul_masked_fill(x, in[1], 3), in, 2, 0);
    assert_into("pad", pad_into, haul_pad(x, HAUL_PADS(-2, 1, 1, -1)), in, 1, 0);
}

static void test_rearrange__targets(void **state)
{
    (void)state;
    on_devices(targets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rearrange__masks),
        cmocka_unit_test(test_rearrange__triangles),
        cmocka_unit_test(test_rearrange__splits_are_views),
        cmocka_unit_test(test_rearrange__splits_refuse),
        cmocka_unit_test(test_rearrange__paddings),
        cmocka_unit_test(test_rearrange__memory_formats),
        cmocka_unit_test(test_rearrange__paddings_refuse),
        cmocka_unit_test(test_rearrange__rearranged),
        cmocka_unit_test(test_rearrange__same_for_threads),
        cmocka_unit_test(test_rearrange__targets),
    };
    return cmocka_run_group_tests_name("ops_rearrange", tests, NULL, NULL);
}
