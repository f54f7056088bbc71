/* The axis of a 0-d tensor, on every device: operations that take an axis accept 0 and -1, and no other; those that
 * ops.h names refuse it.
 *
 * ctest: cuda */
#include "support/into.h"

typedef haul_tensor *along(haul_tensor *x, int axis);

static haul_tensor *zero_index(haul_tensor *x, haul_shape shape)
{
    return haul_to(haul_zeros(HAUL_I64, shape), haul_tensor_device(x));
}

#define ALONG(name, value)                                                                                             \
    static haul_tensor *name(haul_tensor *x, int axis)                                                                 \
    {                                                                                                                  \
        return value;                                                                                                  \
    }
#define PAIR_ALONG(name, call)                                                                                         \
    static haul_tensor *name(haul_tensor *x, int axis)                                                                 \
    {                                                                                                                  \
        haul_tensor *values, *at;                                                                                      \
        return (call) ? NULL : values;                                                                                 \
    }
ALONG(sum, haul_sum(x, HAUL_AXES(axis)))
ALONG(mean, haul_mean(x, HAUL_AXES(axis)))
ALONG(prod, haul_prod(x, HAUL_AXES(axis)))
ALONG(max, haul_max(x, HAUL_AXES(axis)))
ALONG(logsumexp, haul_logsumexp(x, HAUL_AXES(axis)))
ALONG(norm, haul_norm(x, HAUL_AXES(axis)))
ALONG(argmax, haul_argmax(x, axis, false))
ALONG(cumsum, haul_cumsum(x, axis))
ALONG(softmax, haul_add(x, haul_sub_scalar(haul_softmax(x, axis), 1)))
ALONG(log_softmax, haul_add(x, haul_log_softmax(x, axis)))
ALONG(flip, haul_flip(x, HAUL_AXES(axis)))
ALONG(transpose, haul_transpose(x, axis, axis))
ALONG(squeeze, haul_squeeze(x, axis))
ALONG(flatten, haul_reshape(haul_flatten(x, axis), HAUL_SCALAR_SHAPE))
ALONG(unsqueeze, haul_squeeze(haul_unsqueeze(x, axis), axis))
ALONG(index_select, haul_index_select(x, axis, zero_index(x, HAUL_SHAPE(1))))
ALONG(gather, haul_gather(x, axis, zero_index(x, HAUL_SCALAR_SHAPE)))
ALONG(scatter_add, haul_scatter_add(x, axis, zero_index(x, HAUL_SCALAR_SHAPE), haul_zeros_like(x)))
ALONG(argsort, haul_argsort(x, axis, false))
ALONG(stacked, haul_squeeze(haul_stack(&x, 1, axis), axis))
PAIR_ALONG(sort, haul_sort(x, axis, true, &values, &at))
PAIR_ALONG(topk, haul_topk(x, 1, axis, true, &values, &at))
PAIR_ALONG(extreme, haul_max_with_indices(x, axis, false, &values, &at))

static const struct {
    const char *name;
    along      *f;
    double      want; /* for x = 3 */
} accepting[] = {{"sum", sum, 3},
                 {"mean", mean, 3},
                 {"prod", prod, 3},
                 {"max", max, 3},
                 {"logsumexp", logsumexp, 3},
                 {"norm", norm, 3},
                 {"argmax", argmax, 0},
                 {"cumsum", cumsum, 3},
                 {"softmax", softmax, 3},
                 {"log_softmax", log_softmax, 3},
                 {"flip", flip, 3},
                 {"transpose", transpose, 3},
                 {"squeeze", squeeze, 3},
                 {"flatten", flatten, 3},
                 {"unsqueeze", unsqueeze, 3},
                 {"index_select", index_select, 3},
                 {"gather", gather, 3},
                 {"scatter_add", scatter_add, 3},
                 {"argsort", argsort, 0},
                 {"stack", stacked, 3},
                 {"sort", sort, 3},
                 {"topk", topk, 3},
                 {"max_with_indices", extreme, 3}};

static haul_tensor *scalar_leaf(haul_device *device)
{
    return haul_set_requires_grad(haul_detach(haul_to(haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, 3), device)), true);
}

static void accepted(haul_device *device)
{
    for (size_t i = 0; i < sizeof accepting / sizeof accepting[0]; i++) {
        for (int axis = -1; axis <= 0; axis++) {
            haul_tensor *x = scalar_leaf(device), *y = accepting[i].f(x, axis);
            if (!haul_tensor_is_valid(y))
                fail_msg("%s along axis %d: %s", accepting[i].name, axis, haul_error_message());
            assert_int_equal(haul_tensor_ndim(y), 0);
            assert_close(y, &accepting[i].want, 1, 1e-6, accepting[i].name);
            if (!haul_requires_grad(y))
                continue;
            assert_int_equal(haul_backward(y), HAUL_OK);
            assert_close(haul_tensor_grad(x), (double[]){1}, 1, 1e-6, accepting[i].name);
        }
        assert_false(haul_tensor_is_valid(accepting[i].f(scalar_leaf(device), 1)));
        assert_false(haul_tensor_is_valid(accepting[i].f(scalar_leaf(device), -3)));
        haul_error_clear();
    }
}

static void test_axes__of_scalars_are_accepted(void **state)
{
    (void)state;
    on_devices(accepted);
}

ALONG(sliced, haul_slice(x, axis, 0, 1, 1))
ALONG(selected, haul_select(x, axis, 0))
ALONG(rolled, haul_roll(x, 1, axis))
ALONG(repeated, haul_repeat_interleave(x, 2, axis))
ALONG(joined, haul_cat(&x, 1, axis))
static haul_tensor *part(haul_tensor *x, int axis)
{
    haul_tensor *parts[1];
    return haul_split(x, axis, (int64_t[]){1}, 1, parts) ? NULL : parts[0];
}
static haul_tensor *chunk(haul_tensor *x, int axis)
{
    haul_tensor *parts[1];
    return haul_chunk(x, axis, 1, parts) ? NULL : parts[0];
}

static void refused(haul_device *device)
{
    static along *const refusing[] = {sliced, selected, rolled, repeated, joined, part, chunk};
    for (size_t i = 0; i < sizeof refusing / sizeof refusing[0]; i++)
        for (int axis = -1; axis <= 0; axis++) {
            assert_false(haul_tensor_is_valid(refusing[i](scalar_leaf(device), axis)));
            assert_non_null(strstr(haul_error_message(), "of a 0-d tensor"));
            haul_error_clear();
        }
}

static void test_axes__of_scalars_that_cannot_change_are_refused(void **state)
{
    (void)state;
    on_devices(refused);
}

/* A 0-d result has one element, so exactly one is picked. */
static void one_element(haul_device *device)
{
    haul_tensor *x = haul_to(haul_scalar(3), device), *values, *at;
    assert_refused(haul_index_select(x, 0, zero_index(x, HAUL_SHAPE(2))), HAUL_SHAPE, "one index is expected");
    assert_int_equal(haul_topk(x, 0, 0, true, &values, &at), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_topk(x, 2, 0, true, &values, &at), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

static void test_axes__of_scalars_have_one_element(void **state)
{
    (void)state;
    on_devices(one_element);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axes__of_scalars_are_accepted),
        cmocka_unit_test(test_axes__of_scalars_that_cannot_change_are_refused),
        cmocka_unit_test(test_axes__of_scalars_have_one_element),
    };
    return cmocka_run_group_tests_name("ops_axes", tests, NULL, NULL);
}
