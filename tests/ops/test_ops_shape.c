/* Views, joining, indexing, choosing, creating: what shares memory and what does not, gradients, refusals.
 *
 * ctest: cuda */
#include <math.h>
#include <string.h>

#include "ops/pointwise/internal.h"
#include "support/into.h"
#include "support/linalg.h"

/* 0, 1, 2 ... in this shape. */
static haul_tensor *counting(haul_device *device, haul_shape shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    return haul_reshape(haul_to(haul_arange(HAUL_F32, 0, (double)count, 1), device), shape);
}

static void assert_shape(haul_tensor *t, haul_shape want)
{
    haul_shape have = haul_tensor_shape(t);
    if (have.ndim != want.ndim)
        fail_msg("%d dimensions, not %d (%s)", have.ndim, want.ndim, haul_error_message());
    for (int d = 0; d < want.ndim; d++)
        assert_int_equal(have.dims[d], want.dims[d]);
}

static void assert_into_refused(haul_status status, haul_status want, const char *text)
{
    assert_int_equal(status, want);
    assert_non_null(strstr(haul_error_message(), text));
    haul_error_clear();
}

static bool same_memory(haul_tensor *a, haul_tensor *b)
{
    haul_scope *scope = haul_scope_push();
    uint64_t    before = haul_tensor_version(b);
    haul_fill_into(haul_detach(a), 3);
    haul_scope_pop(scope);
    return haul_tensor_version(b) != before;
}

/* ---- reshape and friends ---- */

static void reshape(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(2, 3, 4));
    assert_shape(haul_reshape(x, HAUL_SHAPE(4, -1)), HAUL_SHAPE(4, 6));
    assert_shape(haul_reshape(x, HAUL_SHAPE(-1)), HAUL_SHAPE(24));
    assert_shape(haul_flatten(x, 1), HAUL_SHAPE(2, 12));
    assert_shape(haul_flatten(x, -1), HAUL_SHAPE(2, 3, 4));
    assert_shape(haul_flatten(haul_select(haul_reshape(x, HAUL_SHAPE(-1)), 0, 5), 0), HAUL_SHAPE(1));
    assert_true(same_memory(haul_reshape(x, HAUL_SHAPE(6, 4)), x));
    assert_true(same_memory(haul_contiguous(x), x));
    haul_tensor *turned = haul_permute(counting(device, HAUL_SHAPE(2, 3)), (const int[]){1, 0}, 2);
    haul_tensor *packed = haul_reshape(turned, HAUL_SHAPE(6));
    assert_close(packed, (double[]){0, 3, 1, 4, 2, 5}, 6, 0, "reshape of a transposed tensor");
    assert_false(same_memory(packed, turned));
    assert_false(same_memory(haul_contiguous(turned), turned));
    haul_tensor *empty = haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3));
    assert_shape(haul_reshape(empty, HAUL_SHAPE(5, 0)), HAUL_SHAPE(5, 0));
    assert_refused(haul_reshape(empty, HAUL_SHAPE(-1, 0)), HAUL_SHAPE, "is ambiguous");
}

static void test_shape__reshape_is_a_view_where_it_can_be(void **state)
{
    (void)state;
    on_devices(reshape);
}

/* Every way of splitting and merging dims of strided tensors: a view must show what a copy would. */
static void test_shape__views_of_strided_tensors(void **state)
{
    (void)state;
    static const haul_shape shapes[] = {{3, {6, 4, 5}},
                                        {4, {2, 3, 4, 5}},
                                        {5, {3, 2, 1, 4, 5}},
                                        {2, {24, 5}},
                                        {2, {6, 20}},
                                        {4, {6, 2, 2, 5}},
                                        {5, {1, 6, 4, 1, 5}},
                                        {1, {120}},
                                        {6, {6, 1, 4, 1, 5, 1}},
                                        {3, {12, 2, 5}},
                                        {6, {2, 3, 2, 2, 5, 1}}};
    haul_scope             *scope = haul_scope_push();
    haul_tensor            *base = counting(haul_cpu(), HAUL_SHAPE(6, 5, 8));
    haul_tensor *sliced = haul_transpose(haul_slice(base, 2, 1, 8, 2), 1, 2); /* [6, 4, 5], no two dims alike */
    haul_tensor *merged = haul_slice(counting(haul_cpu(), HAUL_SHAPE(6, 4, 9)), 2, 2, 7, 1); /* the first two merge */
    haul_tensor *all[] = {sliced, merged, haul_expand(counting(haul_cpu(), HAUL_SHAPE(6, 1, 5)), HAUL_SHAPE(6, 4, 5))};
    for (int t = 0; t < 3; t++) {
        int views = 0;
        for (int i = 0; i < (int)(sizeof shapes / sizeof shapes[0]); i++) {
            double       want[120];
            haul_tensor *copy = haul_clone(all[t]), *view = haul_view(all[t], shapes[i]);
            assert_int_equal(read_values(copy, want, 120), HAUL_OK);
            if (haul_tensor_is_valid(view)) {
                views++;
                assert_shape(view, shapes[i]);
                assert_close(view, want, 120, 0, "view");
            } else {
                assert_refused(view, HAUL_SHAPE, "use haul_reshape");
            }
            assert_close(haul_reshape(all[t], shapes[i]), want, 120, 0, "reshape");
        }
        assert_int_equal(views, ((const int[]){7, 9, 7})[t]); /* as in PyTorch */
    }
    haul_scope_pop(scope);
}

static void rearrange(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(2, 3));
    assert_close(haul_transpose(x, 0, -1), (double[]){0, 3, 1, 4, 2, 5}, 6, 0, "transpose");
    assert_close(haul_expand(haul_slice(x, 0, 1, 2, 1), HAUL_SHAPE(2, -1)), (double[]){3, 4, 5, 3, 4, 5}, 6, 0,
                 "expand");
    assert_shape(haul_expand(x, HAUL_SHAPE(4, -1, 3)), HAUL_SHAPE(4, 2, 3));
    assert_shape(haul_unsqueeze(x, 1), HAUL_SHAPE(2, 1, 3));
    assert_shape(haul_unsqueeze(x, -1), HAUL_SHAPE(2, 3, 1));
    assert_shape(haul_squeeze(haul_unsqueeze(x, 0), 0), HAUL_SHAPE(2, 3));
    haul_tensor *cube = counting(device, HAUL_SHAPE(2, 2, 2));
    assert_close(haul_permute(cube, (const int[]){2, 0, 1}, 3), (double[]){0, 2, 4, 6, 1, 3, 5, 7}, 8, 0, "permute");
    assert_true(haul_tensor_is_contiguous(haul_permute(cube, (const int[]){0, 1, 2}, 3)));
}

static void test_shape__rearranging(void **state)
{
    (void)state;
    on_devices(rearrange);
}

static void slices(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(10));
    assert_close(haul_slice(x, 0, 2, 5, 1), (double[]){2, 3, 4}, 3, 0, "2:5");
    assert_close(haul_slice(x, 0, -3, INT64_MAX, 1), (double[]){7, 8, 9}, 3, 0, "-3:");
    assert_close(haul_slice(x, 0, INT64_MIN / 2, -6, 2), (double[]){0, 2}, 2, 0, ":-6:2");
    assert_close(haul_slice(x, 0, 1, 10, 4), (double[]){1, 5, 9}, 3, 0, "1::4");
    assert_close(haul_slice(x, -1, 4, 10, INT64_MAX), (double[]){4}, 1, 0, "a huge step");
    assert_int_equal(haul_tensor_count(haul_slice(x, 0, 5, 5, 1)), 0);
    assert_int_equal(haul_tensor_count(haul_slice(x, 0, 8, 3, 1)), 0);
    assert_true(same_memory(haul_slice(x, 0, 2, 5, 1), x));
    haul_tensor *y = counting(device, HAUL_SHAPE(3, 4));
    assert_close(haul_select(y, 1, -1), (double[]){3, 7, 11}, 3, 0, "select");
    assert_refused(haul_slice(y, 0, 0, 1, 0), HAUL_INVALID_ARGUMENT, "step is 0");
    assert_refused(haul_select(y, 0, 3), HAUL_INVALID_ARGUMENT, "index 3 is out of range");
    assert_refused(haul_select(y, 0, -4), HAUL_INVALID_ARGUMENT, "index -4");
}

static void test_shape__slices_as_in_python(void **state)
{
    (void)state;
    on_devices(slices);
}

/* ---- joining and indexing ---- */

static void join(haul_device *device)
{
    haul_tensor *a = counting(device, HAUL_SHAPE(2, 2)), *b = haul_transpose(counting(device, HAUL_SHAPE(2, 2)), 0, 1);
    haul_tensor *in[] = {a, b, haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0))};
    in[2] = haul_to(in[2], device);
    assert_close(haul_cat(in, 3, 1), (double[]){0, 1, 0, 2, 2, 3, 1, 3}, 8, 0, "cat of columns");
    assert_close(haul_cat(in, 2, -2), (double[]){0, 1, 2, 3, 0, 2, 1, 3}, 8, 0, "cat of rows");
    assert_close(haul_stack(in, 2, -1), (double[]){0, 0, 1, 2, 2, 1, 3, 3}, 8, 0, "stack");
    haul_tensor *mixed[] = {haul_cast(a, HAUL_U8), a};
    assert_int_equal(haul_tensor_dtype(haul_cat(mixed, 2, 0)), HAUL_F32);
    haul_tensor *bad[] = {a, counting(device, HAUL_SHAPE(3, 3))};
    assert_refused(haul_cat(bad, 2, 0), HAUL_SHAPE, "xs[0] has shape [2,2], xs[1] has [3,3]");
    assert_refused(haul_cat(bad, 0, 0), HAUL_INVALID_ARGUMENT, "0 tensors");
    haul_tensor *missing[] = {a, NULL};
    assert_refused(haul_cat(missing, 2, 0), HAUL_INVALID_ARGUMENT, "xs");
    assert_refused(haul_stack(missing, 2, 0), HAUL_INVALID_ARGUMENT, "x");
    missing[1] = HAUL_NONE;
    assert_refused(haul_cat(missing, 2, 0), HAUL_INVALID_ARGUMENT, "xs[1] is HAUL_NONE");
}

static haul_tensor *strided(haul_device *device, haul_shape shape)
{
    return haul_transpose(haul_reshape(counting(device, shape), HAUL_SHAPE(shape.dims[1], shape.dims[0])), 0, 1);
}

static void assert_same(haul_tensor *have, haul_tensor *want, const char *what)
{
    double values[64];
    int    count = (int)haul_tensor_count(want);
    assert_int_equal(read_values(want, values, count), HAUL_OK);
    assert_close(have, values, count, 0, what);
}

static void join_into(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *in[] = {counting(device, HAUL_SHAPE(2, 3)), strided(device, HAUL_SHAPE(2, 3))};
    haul_tensor *cat = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 6)), *stack = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 2, 3));
    assert_int_equal(haul_cat_into(cat, in, 2, 1), HAUL_OK);
    assert_same(cat, haul_cat(in, 2, 1), "cat_into");
    assert_int_equal(haul_stack_into(stack, in, 2, 1), HAUL_OK);
    assert_same(stack, haul_stack(in, 2, 1), "stack_into");
    haul_tensor *turned = haul_transpose(haul_zeros(HAUL_F32, HAUL_SHAPE(6, 2)), 0, 1);
    assert_int_equal(haul_cat_into(turned, in, 2, 1), HAUL_OK);
    assert_same(turned, cat, "cat_into a transposed tensor");
    assert_into_refused(haul_cat_into(cat, in, 2, 0), HAUL_SHAPE, "out has shape [2,6], the result has [4,3]");
    assert_into_refused(haul_stack_into(cat, in, 2, 0), HAUL_SHAPE, "out has shape [2,6], the result has [2,2,3]");
    haul_tensor *halves[] = {haul_slice(cat, 1, 3, 6, 1), haul_slice(cat, 1, 0, 3, 1)}, *want = haul_cat(halves, 2, 1);
    assert_int_equal(haul_cat_into(cat, halves, 2, 1), HAUL_OK);
    assert_same(cat, want, "cat_into a tensor of which the operands are parts");
    haul_tensor *parts[] = {haul_select(stack, 1, 1), haul_select(stack, 1, 0)};
    want = haul_stack(parts, 2, 1);
    assert_int_equal(haul_stack_into(stack, parts, 2, 1), HAUL_OK);
    assert_same(stack, want, "stack_into a tensor of which the operands are parts");
}

static void test_shape__cat_and_stack_into(void **state)
{
    (void)state;
    on_devices(join_into);
}

/* The result of stack has the format of its first operand; its gradients come from where the operands went. */
static void stack_gradients(haul_device *device)
{
    haul_tensor *a = haul_set_requires_grad(haul_detach(strided(device, HAUL_SHAPE(2, 3))), true), *g[2];
    haul_tensor *b = haul_set_requires_grad(haul_detach(counting(device, HAUL_SHAPE(2, 3))), true);
    haul_tensor *in[] = {a, b}, *y = haul_stack(in, 2, -1);
    assert_shape(y, HAUL_SHAPE(2, 3, 2));
    assert_same(haul_select(y, 2, 0), haul_detach(a), "the first part");
    assert_same(haul_select(y, -1, 1), haul_detach(b), "the second part");
    assert_int_equal(haul_tensor_stride(y, 1) > haul_tensor_stride(y, 0), 1);
    assert_int_equal(haul_grad(y, in, 2, g, .seed = counting(device, HAUL_SHAPE(2, 3, 2))), HAUL_OK);
    assert_close(g[0], (double[]){0, 2, 4, 6, 8, 10}, 6, 0, "gradient of the first");
    assert_close(g[1], (double[]){1, 3, 5, 7, 9, 11}, 6, 0, "gradient of the second");
    assert_refused(haul_stack((haul_tensor *[]){a, haul_transpose(b, 0, 1)}, 2, 0), HAUL_SHAPE, "must have one shape");
    assert_refused(haul_stack(NULL, 2, 0), HAUL_INVALID_ARGUMENT, "0 tensors");
}

static void test_shape__stack(void **state)
{
    (void)state;
    on_devices(stack_gradients);
}

static void test_shape__cat_and_stack(void **state)
{
    (void)state;
    on_devices(join);
}

static void many_inputs(haul_device *device)
{
    haul_tensor *in[40], *g[40];
    for (int i = 0; i < 40; i++)
        in[i] = haul_set_requires_grad(haul_detach(counting(device, HAUL_SHAPE(1, i % 3))), true);
    haul_tensor *y = haul_sum(haul_square(haul_cat(in, 40, 1)));
    assert_int_equal(haul_grad(y, in, 40, g), HAUL_OK);
    assert_close(g[38], (double[]){0, 2}, 2, 0, "gradient of part 38");
}

static void test_shape__cat_of_many(void **state)
{
    (void)state;
    on_devices(many_inputs);
}

static void repeated_indices(haul_device *device)
{
    haul_tensor *x = haul_set_requires_grad(haul_detach(counting(device, HAUL_SHAPE(2, 4, 3))), true), *g;
    int32_t      at[] = {3, 1, 3, 3, 0};
    haul_tensor *index = haul_to(haul_from_host(HAUL_I32, HAUL_SHAPE(5), at), device);
    haul_tensor *y = haul_index_select(x, 1, index);
    double       want[30], dx[24] = {0};
    for (int i = 0; i < 30; i++) {
        int from = i / 15 * 12 + at[i / 3 % 5] * 3 + i % 3;
        want[i] = from;
        dx[from] += i;
    }
    assert_close(y, want, 30, 0, "index_select");
    assert_int_equal(haul_grad(y, &x, 1, &g, .seed = counting(device, HAUL_SHAPE(2, 5, 3))), HAUL_OK);
    assert_close(g, dx, 24, 0, "its gradient adds up what was taken twice");
    haul_tensor *none = haul_slice(index, 0, 0, 0, 1);
    assert_shape(haul_index_select(x, 1, none), HAUL_SHAPE(2, 0, 3));
    assert_int_equal(haul_grad(haul_index_select(x, 1, none), &x, 1, &g, .seed = counting(device, HAUL_SHAPE(2, 0, 3))),
                     HAUL_OK);
    assert_close(g, (double[24]){0}, 24, 0, "no index, no gradient");
}

static void test_shape__index_select_with_repeated_indices(void **state)
{
    (void)state;
    on_devices(repeated_indices);
}

/* Few indices into a long axis: all other rows of the gradient are 0. */
static void few_indices(haul_device *device)
{
    enum { LENGTH = 64, WIDTH = 300, COUNT = 4, ALL = 2 * LENGTH * WIDTH };
    static const int64_t at[COUNT] = {5, 63, 5, 0};
    static double        dx[ALL];
    memset(dx, 0, sizeof dx);
    for (int i = 0; i < 2 * COUNT * WIDTH; i++)
        dx[(i / (COUNT * WIDTH) * LENGTH + at[i / WIDTH % COUNT]) * WIDTH + i % WIDTH] += i;
    haul_tensor *x = haul_set_requires_grad(haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(2, LENGTH, WIDTH)), device), true);
    haul_tensor *index = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(COUNT), at), device), *g;
    assert_int_equal(
        haul_grad(haul_index_select(x, 1, index), &x, 1, &g, .seed = counting(device, HAUL_SHAPE(2, COUNT, WIDTH))),
        HAUL_OK);
    assert_close(g, dx, ALL, 0, "few indices");
    haul_tensor *table = haul_set_requires_grad(haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(LENGTH, 1)), device), true);
    assert_int_equal(haul_grad(haul_sum(haul_embedding(table, index, .padding_idx = 5)), &table, 1, &g), HAUL_OK);
    memset(dx, 0, sizeof dx);
    dx[0] = dx[63] = 1;
    assert_close(g, dx, LENGTH, 0, "few indices and one for padding");
}

static void test_shape__index_select_with_few_indices(void **state)
{
    (void)state;
    on_devices(few_indices);
}

static void bad_indices(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(4, 3));
    haul_tensor *index = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(3), (int64_t[]){0, 3, 1}), device);
    assert_refused(haul_index_select(x, 0, haul_cast(index, HAUL_F32)), HAUL_DTYPE, "indices are integers");
    assert_refused(haul_index_select(x, 0, haul_unsqueeze(index, 0)), HAUL_SHAPE, "one dimension");
    assert_refused(haul_index_select(haul_slice(x, 0, 0, 0, 1), 0, index), HAUL_SHAPE, "no elements");
}

static void test_shape__indices_that_are_refused(void **state)
{
    (void)state;
    on_devices(bad_indices);
}

/* ---- choosing and creating ---- */

static void choose(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(2, 3)), *g;
    haul_tensor *odd = haul_ne_scalar(haul_remainder_scalar(x, 2), 0);
    assert_close(haul_where(odd, x, haul_to(haul_scalar(-1), device)), (double[]){-1, 1, -1, 3, -1, 5}, 6, 0, "where");
    haul_set_requires_grad(x = haul_detach(x), true);
    assert_int_equal(haul_grad(haul_sum(haul_where(odd, x, haul_mul_scalar(x, 5))), &x, 1, &g), HAUL_OK);
    assert_close(g, (double[]){5, 1, 5, 1, 5, 1}, 6, 0, "gradient of where");
    assert_refused(haul_where(x, x, x), HAUL_DTYPE, "condition is f32");
    assert_refused(haul_where(odd, x, counting(device, HAUL_SHAPE(4))), HAUL_SHAPE, "haul_where");
}

static void test_shape__where(void **state)
{
    (void)state;
    on_devices(choose);
}

static haul_tensor *chosen(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    haul_tensor *picked = haul_where(context, haul_square(in[0]), haul_exp(in[1]));
    return haul_mul(picked, haul__select_ge(in[0], picked, in[1]));
}

/* Operands that broadcast, too. */
static void test_shape__gradients_of_choices(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *in[] = {sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(3, 4), 1, NULL),
                         sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(4), 2, NULL)};
    if (haul_grad_check(chosen, in, 2, haul_gt_scalar(in[0], 0)))
        fail_msg("%s", haul_error_message());
    haul_scope_pop(scope);
}

static haul_status where_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_where_into(out, in[0], in[1], in[2]);
}

static haul_status index_select_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_index_select_into(out, in[0], 0, in[1]);
}

static void choose_into(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(5, 7), 1, NULL),
                *y = sample_tensor(device, HAUL_F32, HAUL_SHAPE(7, 5), 2, NULL);
    haul_tensor *either[] = {haul_gt_scalar(x, 0), haul_transpose(y, 0, 1), x};
    haul_tensor *rows[] = {x, haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(4), (int64_t[]){4, 0, 0, 2}), device)};
    assert_into("where", where_into, haul_where(either[0], either[1], x), either, 3, 2);
    assert_into("index_select", index_select_into, haul_index_select(x, 0, rows[1]), rows, 2, 0);
}

static void test_shape__choices_into_a_target(void **state)
{
    (void)state;
    on_devices(choose_into);
}

static void count_in_integers(haul_device *device)
{
    static const struct {
        int64_t start, stop, step, count;
    } cases[] = {{9007199254740993, 9007199254740998, 2, 3},
                 {5, -4, -3, 3},
                 {0, 0, 1, 0},
                 {3, 0, 1, 0},
                 {0, 3, -1, 0},
                 {INT64_MIN, INT64_MAX, INT64_MAX, 3},
                 {INT64_MAX, INT64_MIN, INT64_MIN, 2}};
    int64_t got[3] = {0};
    haul_set_device(device);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_tensor *t = haul_arange_i64(cases[i].start, cases[i].stop, cases[i].step);
        assert_int_equal(haul_tensor_count(t), cases[i].count);
        assert_int_equal(haul_tensor_dtype(t), HAUL_I64);
        assert_int_equal(haul_read(t, got, (size_t)cases[i].count * sizeof *got), HAUL_OK);
        for (int64_t k = 0; k < cases[i].count; k++)
            assert_true(got[k] == (int64_t)((uint64_t)cases[i].start + (uint64_t)k * (uint64_t)cases[i].step));
    }
    assert_refused(haul_arange_i64(0, 1, 0), HAUL_INVALID_ARGUMENT, "step is 0");
    assert_refused(haul_arange_i64(INT64_MIN, INT64_MAX, 1), HAUL_INVALID_ARGUMENT, "more elements");
}

static void make_scalars(haul_device *device)
{
    haul_set_device(device);
    assert_int_equal(haul_tensor_dtype(haul_scalar(2)), HAUL_F32);
    haul_tensor *tenth = haul_scalar(0.1, .dtype = HAUL_F64), *x = haul_ones(HAUL_F64, HAUL_SHAPE(2));
    assert_int_equal(haul_tensor_ndim(tenth), 0);
    assert_close(haul_mul(x, tenth), (double[]){0.1, 0.1}, 2, 0, "a scalar of f64");
    assert_int_equal(haul_tensor_dtype(haul_mul(haul_cast(x, HAUL_F16), haul_scalar(2, .dtype = HAUL_F16))), HAUL_F16);
    assert_close(haul_scalar(-3, .dtype = HAUL_I8), (double[]){-3}, 1, 0, "a scalar of i8");
    assert_refused(haul_scalar(300, .dtype = HAUL_U8), HAUL_INVALID_ARGUMENT, "haul_scalar: 300 is not a value of u8");
    assert_refused(haul_scalar_with(NULL), HAUL_INVALID_ARGUMENT, "options");
}

static void create(haul_device *device)
{
    haul_set_device(device);
    assert_ptr_equal(haul_tensor_device(haul_zeros(HAUL_I16, HAUL_SHAPE(2))), device);
    assert_refused(haul_full(HAUL_I8, HAUL_SHAPE(2), 1000), HAUL_INVALID_ARGUMENT, "1000 is not a value of i8");
    assert_refused(haul_full(HAUL_U8, HAUL_SHAPE(1), -3), HAUL_INVALID_ARGUMENT, "-3 is not a value of u8");
    assert_close(haul_full(HAUL_BOOL, HAUL_SHAPE(1), 0.5), (double[]){1}, 1, 0, "full of bool");
    assert_refused(haul_full(HAUL_I64, HAUL_SHAPE(1), -2.7), HAUL_INVALID_ARGUMENT, "-2.7 is not a value of i64");
    assert_refused(haul_full_like(haul_zeros(HAUL_I16, HAUL_SHAPE(2)), NAN), HAUL_INVALID_ARGUMENT, "of i16");
    assert_close(haul_ones(HAUL_F64, HAUL_SCALAR_SHAPE), (double[]){1}, 1, 0, "ones");
    assert_close(haul_arange(HAUL_I32, 5, -4, -3), (double[]){5, 2, -1}, 3, 0, "arange down");
    assert_close(haul_arange(HAUL_F64, 0, 1, 0.25), (double[]){0, 0.25, 0.5, 0.75}, 4, 0, "arange of fractions");
    assert_int_equal(haul_tensor_count(haul_arange(HAUL_F32, 3, 3, 1)), 0);
    assert_int_equal(haul_tensor_count(haul_arange(HAUL_F32, 3, 0, 1)), 0);
    assert_refused(haul_arange(HAUL_F32, 0, 1, 0), HAUL_INVALID_ARGUMENT, "in steps of 0");
    assert_refused(haul_arange(HAUL_I32, 0, 1, 0.5), HAUL_DTYPE, "use a floating dtype");
    assert_refused(haul_arange(HAUL_U8, 250, 260, 1), HAUL_INVALID_ARGUMENT, "u8");
    assert_refused(haul_arange(HAUL_I64, 0x1p53, 0x1.00000000000002p53, 1), HAUL_INVALID_ARGUMENT,
                   "use haul_arange_i64");
    assert_refused(haul_zeros((haul_dtype)77, HAUL_SHAPE(2)), HAUL_DTYPE, "bf16");
    assert_refused(haul_zeros(HAUL_F32, HAUL_SHAPE(-1, 2)), HAUL_SHAPE, "haul_zeros");
    assert_true(signbit(haul_item(haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, -0.0))));
    haul_autocast_state before = haul_autocast_begin("all", HAUL_BF16);
    assert_int_equal(haul_tensor_dtype(haul_ones(HAUL_F32, HAUL_SHAPE(2))), HAUL_F32);
    haul_autocast_end(before);
    haul_tensor *like = haul_full_like(haul_transpose(haul_zeros(HAUL_F64, HAUL_SHAPE(2, 3)), 0, 1), 4);
    assert_shape(like, HAUL_SHAPE(3, 2));
    assert_close(like, (double[]){4, 4, 4, 4, 4, 4}, 6, 0, "full_like");
}

static void test_shape__creation(void **state)
{
    (void)state;
    on_devices(create);
}

static void test_shape__arange_counts_in_integers(void **state)
{
    (void)state;
    on_devices(count_in_integers);
}

static void test_shape__scalars_have_a_dtype(void **state)
{
    (void)state;
    on_devices(make_scalars);
}

static void fill(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_SHAPE(2, 4));
    uint64_t     before = haul_tensor_version(x);
    assert_int_equal(haul_fill_into(haul_slice(x, 1, 1, 4, 2), -1), HAUL_OK);
    assert_close(x, (double[]){0, -1, 2, -1, 4, -1, 6, -1}, 8, 0, "fill of a strided part");
    assert_true(haul_tensor_version(x) > before);
    assert_int_equal(haul_zero_into(haul_slice(x, 0, 1, 2, 1)), HAUL_OK);
    assert_close(x, (double[]){0, -1, 2, -1, 0, 0, 0, 0}, 8, 0, "zero of a dense part");
    haul_tensor *wide = haul_expand(haul_slice(x, 0, 0, 1, 1), HAUL_SHAPE(3, 4));
    assert_int_equal(haul_fill_into(wide, 1), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

static void test_shape__fill(void **state)
{
    (void)state;
    on_devices(fill);
}

/* ---- bits ---- */

/* Numbers and NaNs, also signalling ones, whose bits a conversion would change. */
enum { PATTERNS = 4 };
static const struct {
    haul_dtype dtype;
    size_t     size;
    uint64_t   bits[PATTERNS];
} patterns[] = {
    {HAUL_F16, 2, {0x7c01, 0xfd55, 0x7eff, 0x3c00}},
    {HAUL_BF16, 2, {0x7f81, 0xffaa, 0x7fff, 0x3f80}},
    {HAUL_F32, 4, {0x7f800001, 0xffa5a5a5, 0x7fc12345, 0x3f800000}},
    {HAUL_F64, 8, {0x7ff0000000000001, 0xfff4a5a5a5a5a5a5, 0x7ff8123456789abc, 0x3ff0000000000000}},
};

static void assert_bits(haul_tensor *t, int pattern, const int *which, const char *what)
{
    unsigned char have[8 * PATTERNS];
    const size_t  size = patterns[pattern].size;
    if (!haul_tensor_is_valid(t) || haul_read(t, have, PATTERNS * size))
        fail_msg("%s: %s", what, haul_error_message());
    for (int i = 0; i < PATTERNS; i++)
        if (memcmp(have + (size_t)i * size, &patterns[pattern].bits[which[i]], size) != 0)
            fail_msg("%s of %s: element %d has different bits", what, haul_dtype_name(patterns[pattern].dtype), i);
}

static void moved_bits(haul_device *device)
{
    static const int in_order[] = {0, 1, 2, 3}, turned[] = {3, 2, 1, 0}, across[] = {0, 2, 1, 3};
    for (int k = 0; k < (int)(sizeof patterns / sizeof patterns[0]); k++) {
        unsigned char bytes[8 * PATTERNS];
        const size_t  size = patterns[k].size;
        for (int i = 0; i < PATTERNS; i++)
            memcpy(bytes + (size_t)i * size, &patterns[k].bits[i], size);
        haul_tensor *x = haul_to(haul_from_host(patterns[k].dtype, HAUL_SHAPE(PATTERNS), bytes), device);
        haul_tensor *no = haul_to(haul_zeros(HAUL_BOOL, HAUL_SHAPE(PATTERNS)), device), *yes = haul_logical_not(no);
        haul_tensor *index = haul_to(haul_arange(HAUL_I64, 3, -1, -1), device), *zero = haul_zeros_like(x);
        haul_tensor *square = haul_reshape(x, HAUL_SHAPE(2, 2));
        assert_bits(haul_where(yes, x, zero), k, in_order, "where");
        assert_bits(haul_where(no, zero, x), k, in_order, "where");
        assert_bits(haul_masked_fill(x, no, 1), k, in_order, "masked_fill");
        assert_bits(haul_index_select(x, 0, index), k, turned, "index_select");
        assert_bits(haul_gather(x, 0, index), k, turned, "gather");
        assert_bits(haul_flip(x, HAUL_AXES(0)), k, turned, "flip");
        assert_bits(haul_reshape(haul_transpose(square, 0, 1), HAUL_SHAPE(PATTERNS)), k, across, "transpose");
        assert_bits(haul_tril(square, 1), k, in_order, "tril");
    }
}

static void test_shape__moved_elements_keep_their_bits(void **state)
{
    (void)state;
    on_devices(moved_bits);
}

static void test_shape__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)),
                *deep = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
    assert_refused(haul_reshape(x, HAUL_SHAPE(4)), HAUL_SHAPE, "x has shape [2,3] (6 elements)");
    assert_refused(haul_reshape(x, HAUL_SHAPE(-1, -1)), HAUL_SHAPE, "more than one");
    assert_refused(haul_reshape(x, HAUL_SHAPE(4, -1)), HAUL_SHAPE, "[4,-1]");
    assert_refused(haul_view(x, HAUL_SHAPE(INT64_MAX, 4)), HAUL_SHAPE, "too many");
    assert_refused(haul_permute(x, (const int[]){0, 0}, 2), HAUL_INVALID_ARGUMENT, "given twice");
    assert_refused(haul_permute(x, (const int[]){0}, 1), HAUL_SHAPE, "1 axes");
    assert_refused(haul_permute(x, NULL, 2), HAUL_INVALID_ARGUMENT, "axes is NULL");
    assert_refused(haul_transpose(x, 0, 2), HAUL_INVALID_ARGUMENT, "axis");
    assert_refused(haul_expand(x, HAUL_SHAPE(3)), HAUL_SHAPE, "cannot be expanded to [3]");
    assert_refused(haul_expand(x, HAUL_SHAPE(2, 4)), HAUL_SHAPE, "[2,4]");
    assert_refused(haul_expand(x, HAUL_SHAPE(INT64_MAX, 2, 3)), HAUL_SHAPE, "haul_expand");
    assert_refused(haul_squeeze(x, 0), HAUL_SHAPE, "size 1");
    assert_refused(haul_unsqueeze(deep, 0), HAUL_SHAPE, "at most 8");
    assert_refused(haul_flatten(x, 2), HAUL_INVALID_ARGUMENT, "axis");
    assert_refused(haul_contiguous(HAUL_NONE), HAUL_INVALID_ARGUMENT, "HAUL_NONE");
    assert_refused(haul_select(haul_select(haul_select(x, 0, 0), 0, 0), 0, 0), HAUL_INVALID_ARGUMENT, "0-d");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape__reshape_is_a_view_where_it_can_be),
        cmocka_unit_test(test_shape__views_of_strided_tensors),
        cmocka_unit_test(test_shape__rearranging),
        cmocka_unit_test(test_shape__slices_as_in_python),
        cmocka_unit_test(test_shape__cat_and_stack),
        cmocka_unit_test(test_shape__cat_and_stack_into),
        cmocka_unit_test(test_shape__stack),
        cmocka_unit_test(test_shape__cat_of_many),
        cmocka_unit_test(test_shape__index_select_with_repeated_indices),
        cmocka_unit_test(test_shape__index_select_with_few_indices),
        cmocka_unit_test(test_shape__indices_that_are_refused),
        cmocka_unit_test(test_shape__where),
        cmocka_unit_test(test_shape__gradients_of_choices),
        cmocka_unit_test(test_shape__choices_into_a_target),
        cmocka_unit_test(test_shape__creation),
        cmocka_unit_test(test_shape__arange_counts_in_integers),
        cmocka_unit_test(test_shape__scalars_have_a_dtype),
        cmocka_unit_test(test_shape__fill),
        cmocka_unit_test(test_shape__moved_elements_keep_their_bits),
        cmocka_unit_test(test_shape__errors),
    };
    return cmocka_run_group_tests_name("ops_shape", tests, NULL, NULL);
}
