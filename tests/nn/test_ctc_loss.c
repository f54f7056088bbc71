/* Connectionist temporal classification against the sum over all paths, with its gradient, and what it refuses.
 *
 * ctest: cuda; labels=threads; cuda-labels=none */
#include "support/linalg.h"
#include "support/random.h"

enum { T = 5, N = 3, CLASSES = 3, S = 2 };

/* True if a path, without repetitions and then without blanks, is the labels. */
static bool gives(const int *path, int frames, const int64_t *labels, int64_t length)
{
    int64_t at = 0;
    for (int t = 0; t < frames; t++) {
        if (path[t] == 0 || (t > 0 && path[t] == path[t - 1]))
            continue;
        if (at == length || labels[at++] != path[t])
            return false;
    }
    return at == length;
}

/* The loss of an example, and its derivatives in dx. */
static double by_paths(const double *x, double *dx, int example, int frames, const int64_t *labels, int64_t length)
{
    double sum = 0, part[T * CLASSES] = {0};
    int    path[T] = {0}, count = 1;
    for (int t = 0; t < frames; t++)
        count *= CLASSES;
    for (int k = 0; k < count; k++) {
        double p = 1;
        for (int t = 0, rest = k; t < frames; t++, rest /= CLASSES)
            path[t] = rest % CLASSES;
        if (!gives(path, frames, labels, length))
            continue;
        for (int t = 0; t < frames; t++)
            p *= exp(x[(t * N + example) * CLASSES + path[t]]);
        sum += p;
        for (int t = 0; t < frames; t++)
            part[t * CLASSES + path[t]] += p;
    }
    for (int t = 0; t < T; t++)
        for (int c = 0; c < CLASSES; c++)
            dx[(t * N + example) * CLASSES + c] = sum > 0 ? -part[t * CLASSES + c] / sum : 0;
    return -log(sum);
}

static haul_tensor *integers(haul_device *device, haul_shape shape, const int64_t *values)
{
    return haul_to(haul_from_host(HAUL_I64, shape, values), device);
}

static void compare(haul_device *device)
{
    static const int64_t labels[] = {1, 2, 1, 1, 2, 2}, frames[] = {5, 4, 2}, lengths[] = {2, 2, 1};
    static const int64_t joined[] = {1, 2, 1, 1, 2};
    double              *x, losses[N], dx[T * N * CLASSES];
    for (int packed = 0; packed < 2; packed++)
        for (int dtype = HAUL_F32; dtype <= HAUL_F64; dtype++) {
            haul_scope  *scope = haul_scope_push();
            haul_tensor *in = sample_tensor(device, (haul_dtype)dtype, HAUL_SHAPE(T, N, CLASSES), 1, &x), *g;
            haul_tensor *y =
                packed ? integers(device, HAUL_SHAPE(5), joined) : integers(device, HAUL_SHAPE(N, S), labels);
            for (int i = 0; i < N; i++)
                losses[i] = by_paths(x, dx, i, (int)frames[i], labels + i * S, lengths[i]);
            in = haul_set_requires_grad(haul_detach(in), true);
            haul_tensor *loss = haul_ctc_loss(in, y, .input_lengths = integers(device, HAUL_SHAPE(N), frames),
                                              .target_lengths = integers(device, HAUL_SHAPE(N), lengths),
                                              .reduction = HAUL_REDUCE_NONE);
            assert_close(loss, losses, N, 1e-5, haul_device_name(device));
            assert_int_equal(haul_grad(haul_sum(loss), &in, 1, &g), HAUL_OK);
            assert_close(g, dx, T * N * CLASSES, 1e-5, haul_device_name(device));
            free(x);
            haul_scope_pop(scope);
        }
}

static void test_ctc_loss__is_the_sum_over_paths(void **state)
{
    (void)state;
    on_devices(compare);
}

/* More labels than frames; equal labels without a frame between them; no frames and no labels. */
static void edges(haul_device *device)
{
    static const int64_t labels[] = {1, 1, 2, 1, 1, 1}, frames[] = {2, 0, 0}, lengths[] = {2, 1, 0};
    double               y[N], dx[T * N * CLASSES], zeros[T * N * CLASSES] = {0};
    haul_tensor         *in = sample_tensor(device, HAUL_F32, HAUL_SHAPE(T, N, CLASSES), 1, NULL), *g;
    for (int zero = 0; zero < 2; zero++) {
        haul_tensor *leaf = haul_set_requires_grad(haul_detach(in), true);
        haul_tensor *loss = haul_ctc_loss(leaf, integers(device, HAUL_SHAPE(N, S), labels),
                                          .input_lengths = integers(device, HAUL_SHAPE(N), frames),
                                          .target_lengths = integers(device, HAUL_SHAPE(N), lengths),
                                          .zero_infinity = zero, .reduction = HAUL_REDUCE_NONE);
        assert_int_equal(read_values(loss, y, N), HAUL_OK);
        assert_true(y[0] == (zero ? 0 : INFINITY) && y[1] == (zero ? 0 : INFINITY) && y[2] == 0);
        assert_int_equal(haul_grad(haul_sum(loss), &leaf, 1, &g), HAUL_OK);
        assert_int_equal(read_values(g, dx, T * N * CLASSES), HAUL_OK);
        for (int i = 0; i < T * N * CLASSES; i++)
            assert_true(dx[i] == zeros[i]);
    }
    haul_tensor *none = haul_ctc_loss(haul_slice(in, 1, 0, 0, 1), integers(device, HAUL_SHAPE(0, S), labels),
                                      .reduction = HAUL_REDUCE_NONE);
    assert_int_equal(haul_tensor_count(none), 0);
}

static void test_ctc_loss__edges(void **state)
{
    (void)state;
    on_devices(edges);
}

/* A wait on another device reports what the kernel found. */
static void wrong_numbers(haul_device *device)
{
    static const struct {
        int64_t     labels[2 * N], frames[N], lengths[N];
        const char *message;
    } cases[] = {
        {{1, 2, 1, 3, 2, 2}, {5, 5, 5}, {2, 2, 2}, "targets[3] is 3, but there are 3 classes"},
        {{1, 2, 1, -1, 2, 2}, {5, 5, 5}, {2, 2, 2}, "targets[3] is -1"},
        {{1, 2, 1, 1, 2, 2}, {5, 6, 5}, {2, 2, 2}, "input_lengths[1] is 6; 0 to 5 is expected"},
        {{1, 2, 1, 1, 2, 2}, {5, 5, 5}, {2, 2, 3}, "target_lengths[2] is 3; 0 to 2 is expected"},
        {{1, 2, 1, 1, 2, 2}, {5, 5, 5}, {-1, 2, 2}, "target_lengths[0] is -1"},
    };
    haul_tensor *in = sample_tensor(device, HAUL_F32, HAUL_SHAPE(T, N, CLASSES), 1, NULL);
    double       y[N];
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++)
        for (int packed = 0; packed < 2; packed++) {
            if (packed && i > 2)
                continue; /* the other numbers of labels fit */
            haul_tensor *labels = integers(device, packed ? HAUL_SHAPE(2 * N) : HAUL_SHAPE(N, S), cases[i].labels);
            haul_tensor *loss = haul_ctc_loss(
                in, labels, .input_lengths = integers(device, HAUL_SHAPE(N), cases[i].frames),
                .target_lengths = integers(device, HAUL_SHAPE(N), cases[i].lengths), .reduction = HAUL_REDUCE_NONE);
            if (haul_tensor_is_valid(loss))
                assert_int_not_equal(read_values(loss, y, N), HAUL_OK);
            assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
            if (!strstr(haul_error_message(), cases[i].message))
                fail_msg("case %d on %s: %s", i, haul_device_name(device), haul_error_message());
            haul_error_clear();
        }
    /* together more labels than there are */
    static const int64_t many[] = {2, 2, 3};
    haul_tensor         *loss = haul_ctc_loss(in, integers(device, HAUL_SHAPE(2 * N), cases[2].labels),
                                              .target_lengths = integers(device, HAUL_SHAPE(N), many));
    if (haul_tensor_is_valid(loss))
        assert_int_not_equal(read_values(loss, y, 1), HAUL_OK);
    assert_non_null(strstr(haul_error_message(), "target_lengths[2] is 3; 0 to 2 is expected"));
    haul_error_clear();
}

static void test_ctc_loss__wrong_numbers(void **state)
{
    (void)state;
    on_devices(wrong_numbers);
}

static void test_ctc_loss__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(T, N, CLASSES)), *y = haul_ones(HAUL_I64, HAUL_SHAPE(N, S)), *g;
    haul_tensor *lengths = haul_ones(HAUL_I64, HAUL_SHAPE(N)), *leaf;
    assert_refused(haul_ctc_loss(haul_flatten(x, 0), y), HAUL_SHAPE, "[T, N, C] or [T, C] is expected");
    assert_refused(haul_ctc_loss(x, haul_transpose(y, 0, 1)), HAUL_SHAPE, "[N, S]");
    assert_refused(haul_ctc_loss(haul_select(x, 1, 0), y), HAUL_SHAPE, "[S] is expected");
    assert_refused(haul_ctc_loss(x, y, .blank = 3), HAUL_INVALID_ARGUMENT, "blank is 3, but log_p has 3 classes");
    assert_refused(haul_ctc_loss(x, y, .blank = -1), HAUL_INVALID_ARGUMENT, "blank is -1");
    assert_refused(haul_ctc_loss(x, haul_flatten(y, 0)), HAUL_INVALID_ARGUMENT, "target_lengths must say");
    assert_refused(haul_ctc_loss(x, y, .input_lengths = y), HAUL_SHAPE, "a number for each example");
    assert_refused(haul_ctc_loss(haul_select(x, 1, 0), haul_select(y, 0, 0), .target_lengths = lengths), HAUL_SHAPE,
                   "no dimensions are expected");
    assert_refused(haul_ctc_loss(x, x), HAUL_DTYPE, "targets");
    assert_refused(haul_ctc_loss(x, y, .reduction = HAUL_REDUCE_BATCH_MEAN), HAUL_INVALID_ARGUMENT, "reduction");
    leaf = haul_set_requires_grad(haul_detach(x), true);
    assert_int_equal(haul_grad(haul_ctc_loss(leaf, y), &leaf, 1, &g, .create_graph = true), HAUL_GRAPH);
    assert_non_null(strstr(haul_error_message(), "cannot be differentiated again"));
    haul_error_clear();
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ctc_loss__is_the_sum_over_paths),
        cmocka_unit_test(test_ctc_loss__edges),
        cmocka_unit_test(test_ctc_loss__wrong_numbers),
        cmocka_unit_test(test_ctc_loss__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
