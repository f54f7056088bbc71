/* Losses of margins and likelihoods, where the samples of the conformance tests do not go: targets other than 1 and -1,
 * variances below the least, dtypes, and refusals.
 *
 * ctest: cuda; sim */
#include "support/failure.h"
#include "support/into.h"

#define REFUSED(call, status, words)                                                                                   \
    do {                                                                                                               \
        assert_refused(call, status, words);                                                                           \
        haul_error_clear();                                                                                            \
    } while (0)

static haul_tensor *of(haul_device *device, haul_shape shape, const double *values)
{
    return haul_to(haul_cast(haul_from_host(HAUL_F64, shape, values), HAUL_F32), device);
}

static void margins(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_SHAPE(2, 2), (double[]){3, 4, 0, 0}), *zero = haul_zeros_like(x);
    haul_tensor *pairs = of(device, HAUL_SHAPE(2), (double[]){1, -1});
    assert_close(haul_triplet_margin_loss(x, zero, x, .eps = HAUL_ZERO, .reduction = HAUL_REDUCE_NONE),
                 (double[]){6, 1}, 2, 1e-6, "triplets");
    assert_close(haul_triplet_margin_loss(haul_cast(x, HAUL_I32), zero, x, .margin = HAUL_ZERO, .p = INFINITY),
                 (double[]){2}, 1, 1e-5, "triplets of integers");
    haul_tensor *half =
        haul_triplet_margin_loss(haul_cast(x, HAUL_F16), haul_cast(zero, HAUL_F16), haul_cast(x, HAUL_F16));
    assert_int_equal(haul_tensor_dtype(half), HAUL_F16);
    assert_close(half, (double[]){3.5}, 1, 1e-2, "triplets of f16");
    assert_close(haul_cosine_embedding_loss(x, x, pairs, .reduction = HAUL_REDUCE_SUM), (double[]){0}, 1, 1e-6,
                 "cosines");
    assert_close(
        haul_cosine_embedding_loss(haul_select(x, 0, 0), haul_neg(haul_select(x, 0, 0)), haul_select(pairs, 0, 0)),
        (double[]){2}, 1, 1e-6, "the cosine of two vectors");
    haul_tensor *kinds = of(device, HAUL_SHAPE(3), (double[]){1, -1, 0}),
                *d = of(device, HAUL_SHAPE(3), (double[]){0.25, 0.25, 0.25});
    assert_close(haul_hinge_embedding_loss(d, kinds, .reduction = HAUL_REDUCE_NONE), (double[]){0.25, 0.75, 1}, 3, 1e-6,
                 "distances");
    assert_close(haul_margin_ranking_loss(d, haul_zeros_like(d), kinds, .margin = 1, .reduction = HAUL_REDUCE_NONE),
                 (double[]){0.75, 1.25, 1}, 3, 1e-6, "rankings");
    REFUSED(haul_triplet_margin_loss(x, zero, d), HAUL_SHAPE,
            "haul_triplet_margin_loss: negative has shape [3], anchor has [2,2]; they must be equal");
    REFUSED(haul_triplet_margin_loss(x, d, x), HAUL_SHAPE, "positive has shape [3]");
    REFUSED(haul_triplet_margin_loss(x, x, x, .p = -1), HAUL_INVALID_ARGUMENT, "p is -1; 0 or more");
    REFUSED(haul_triplet_margin_loss(x, x, x, .margin = NAN), HAUL_INVALID_ARGUMENT, "a finite number is expected");
    REFUSED(haul_triplet_margin_loss(x, x, x, .reduction = (haul_reduction)7), HAUL_INVALID_ARGUMENT, "reduction is 7");
    REFUSED(haul_triplet_margin_loss(x, x, NULL), HAUL_INVALID_ARGUMENT, "negative");
    REFUSED(haul_cosine_embedding_loss(x, x, d), HAUL_SHAPE, "an element for each row of a");
    REFUSED(haul_cosine_embedding_loss(d, d, d), HAUL_SHAPE, "no dimensions are expected, as a has one");
    REFUSED(haul_cosine_embedding_loss(x, d, pairs), HAUL_SHAPE, "b has shape [3], a has [2,2]");
    REFUSED(haul_hinge_embedding_loss(x, d), HAUL_SHAPE, "target has shape [3], x has [2,2]; they must be equal");
    REFUSED(haul_margin_ranking_loss(d, d, x), HAUL_SHAPE, "target has shape [2,2], a has [3]");
    REFUSED(haul_margin_ranking_loss(d, d, d, .reduction = HAUL_REDUCE_BATCH_MEAN), HAUL_INVALID_ARGUMENT, "reduction");
}

static void test_margin_losses__margins(void **state)
{
    (void)state;
    on_devices(margins);
}

static void classes(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_SHAPE(1, 4), (double[]){0.1, 0.2, 0.4, 0.8}); /* the example of PyTorch's page */
    haul_tensor *y = haul_to(haul_cast(haul_full(HAUL_I64, HAUL_SHAPE(1), 3), HAUL_I32), device);
    assert_close(haul_multi_margin_loss(x, y), (double[]){0.325}, 1, 1e-6, "classes");
    assert_close(haul_multi_margin_loss(haul_select(x, 0, 0), haul_select(y, 0, 0)), (double[]){0.325}, 1, 1e-6,
                 "one row");
    assert_close(haul_multi_margin_loss(haul_select(x, 0, 0), haul_select(y, 0, 0), .weight = haul_select(x, 0, 0)),
                 (double[]){0.26}, 1, 1e-6, "one row with weights");
    REFUSED(haul_multi_margin_loss(x, y, .p = 3), HAUL_INVALID_ARGUMENT, "p is 3; 1 or 2 is expected");
    REFUSED(haul_multi_margin_loss(x, x), HAUL_DTYPE, "indices are integers");
    REFUSED(haul_multi_margin_loss(x, haul_cat((haul_tensor *[]){y, y}, 2, 0)), HAUL_SHAPE,
            "an element for each row of x");
    REFUSED(haul_multi_margin_loss(haul_select(x, 0, 0), y), HAUL_SHAPE, "no dimensions are expected, as x has one");
    REFUSED(haul_multi_margin_loss(x, y, .weight = x), HAUL_SHAPE, "an element for each class");
    if (device == haul_cpu())
        REFUSED(haul_multi_margin_loss(x, haul_add_scalar(y, 1)), HAUL_INVALID_ARGUMENT, "4");
}

static void test_margin_losses__classes(void **state)
{
    (void)state;
    on_devices(classes);
}

static void likelihoods(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_SHAPE(2, 2), (double[]){0, 0, 1, 1}), *g;
    haul_tensor *t = of(device, HAUL_SHAPE(2, 2), (double[]){0, 1, 2, 0});
    assert_close(haul_poisson_nll_loss(x, t, .no_log = true, .full = true, .eps = 1, .reduction = HAUL_REDUCE_NONE),
                 (double[]){0, 0, 1 - 2 * log(2) + 2 * log(2) - 2 + log(4 * acos(-1)) / 2, 1}, 4, 1e-5, "counts");
    haul_tensor *var = of(device, HAUL_SHAPE(2), (double[]){-3, 4});
    haul_set_requires_grad(var, true);
    haul_tensor *loss = haul_gaussian_nll_loss(x, t, var, .eps = 0.5, .reduction = HAUL_REDUCE_NONE);
    assert_close(loss, (double[]){log(0.5) / 2, log(0.5) / 2 + 1, log(4) / 2 + 0.125, log(4) / 2 + 0.125}, 4, 1e-6,
                 "values, with a variance below the least");
    assert_int_equal(haul_grad(haul_sum(loss), &var, 1, &g), HAUL_OK);
    assert_close(g, (double[]){0, 0.25 - 1.0 / 16}, 2, 1e-6, "the gradient of the variances");
    var = haul_detach(var);
    assert_valid(haul_gaussian_nll_loss(x, t, haul_unsqueeze(var, 1)));
    REFUSED(haul_gaussian_nll_loss(x, t, haul_slice(var, 0, 0, 1, 1)), HAUL_SHAPE,
            "the shape of x is expected, or that with");
    REFUSED(haul_gaussian_nll_loss(x, var, x), HAUL_SHAPE, "target has shape [2], x has [2,2]");
    REFUSED(haul_gaussian_nll_loss(x, t, x, .eps = -1), HAUL_INVALID_ARGUMENT,
            "eps is -1; a number above 0 is expected");
    REFUSED(haul_gaussian_nll_loss(x, t, x, .eps = HAUL_ZERO), HAUL_INVALID_ARGUMENT, "eps is 0");
    REFUSED(haul_poisson_nll_loss(x, var), HAUL_SHAPE, "target has shape [2]");
    REFUSED(haul_poisson_nll_loss(x, t, .eps = -1), HAUL_INVALID_ARGUMENT, "eps is -1; 0 or more is expected");
    REFUSED(haul_poisson_nll_loss(x, t, .reduction = (haul_reduction)9), HAUL_INVALID_ARGUMENT, "reduction is 9");
}

static void test_margin_losses__likelihoods(void **state)
{
    (void)state;
    on_devices(likelihoods);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_margin_losses__margins),
        cmocka_unit_test(test_margin_losses__classes),
        cmocka_unit_test(test_margin_losses__likelihoods),
    };
    return cmocka_run_group_tests_name("margin_losses", tests, NULL, NULL);
}
