/* Kernels that take groups of rows side by side (src/backends/cpu/text) give the bits of their plain form, which takes
 * one row after another: operations on many rows are compared with the same operation on parts that are smaller than a
 * group, for random shapes. */
#include "kernels/constants.h"
#include "ops/normalise/softmax.h"
#include "support/failure.h"
#include "support/into.h"
#include "support/random.h"

typedef haul_tensor *row_function(haul_tensor *x);

#define LAST HAUL_AXES(-1)

static haul_tensor *softmax(haul_tensor *x)
{
    return haul_softmax(x, -1);
}

static haul_tensor *log_softmax(haul_tensor *x)
{
    return haul_log_softmax(x, -1);
}

static haul_tensor *layer_norm(haul_tensor *x)
{
    return haul_layer_norm(x);
}

static haul_tensor *sum(haul_tensor *x)
{
    return haul_sum(x, LAST);
}

static haul_tensor *mean(haul_tensor *x)
{
    return haul_mean(x, LAST);
}

static haul_tensor *largest(haul_tensor *x)
{
    return haul_max(x, LAST);
}

static haul_tensor *smallest(haul_tensor *x)
{
    return haul_min(x, LAST);
}

static haul_tensor *product(haul_tensor *x)
{
    return haul_prod(x, LAST);
}

static haul_tensor *deviation(haul_tensor *x)
{
    return haul_std(x, LAST);
}

static haul_tensor *logsumexp(haul_tensor *x)
{
    return haul_logsumexp(x, LAST);
}

static haul_tensor *norm(haul_tensor *x)
{
    return haul_norm(x, LAST);
}

static haul_tensor *norm_1(haul_tensor *x)
{
    return haul_norm(x, LAST, .p = 1);
}

static haul_tensor *norm_inf(haul_tensor *x)
{
    return haul_norm(x, LAST, .p = INFINITY);
}

static const struct {
    const char   *name;
    row_function *function;
} functions[] = {{"softmax", softmax},
                 {"log_softmax", log_softmax},
                 {"layer_norm", layer_norm},
                 {"sum", sum},
                 {"mean", mean},
                 {"max", largest},
                 {"min", smallest},
                 {"prod", product},
                 {"std", deviation},
                 {"logsumexp", logsumexp},
                 {"norm 2", norm},
                 {"norm 1", norm_1},
                 {"norm inf", norm_inf}};

/* Numbers of both signs, zeros of both signs, rows of one value, and rows whose squares leave the range of f32. */
static haul_tensor *random_rows(haul_dtype dtype, int64_t rows, int64_t n)
{
    float *v = calloc((size_t)(rows * n), sizeof *v);
    assert_non_null(v);
    for (int64_t r = 0; r < rows; r++) {
        const float scale = below(8) ? 1.0f : below(2) ? 1e-30f : 1e30f, same = below(16) ? 0.0f : 3.0f;
        for (int64_t j = 0; j < n; j++)
            v[r * n + j] = same != 0  ? same
                           : below(9) ? (float)(below(2001) - 1000) / 250 * scale
                           : below(2) ? -0.0f
                                      : 0;
        if (!below(12))
            v[r * n + below(n)] = -INFINITY;
    }
    haul_tensor *x = haul_cast(haul_from_host(HAUL_F32, HAUL_SHAPE(rows, n), v), dtype);
    free(v);
    return x;
}

static void compare_with_parts(row_function *function, haul_tensor *x, const char *name)
{
    char         what[100];
    int64_t      rows = haul_tensor_shape(x).dims[0], part = SIDE_ROWS - 1;
    haul_tensor *all = function(x);
    for (int64_t at = 0; at < rows; at += part) {
        int64_t end = at + part < rows ? at + part : rows;
        snprintf(what, sizeof what, "%s of %s [%lld, %lld], rows from %lld on", name,
                 haul_dtype_name(haul_tensor_dtype(x)), (long long)rows, (long long)haul_tensor_shape(x).dims[1],
                 (long long)at);
        assert_equal_bits(haul_slice(all, 0, at, end, 1), function(haul_slice(x, 0, at, end, 1)), what);
    }
}

static void test_row_groups__have_the_bits_of_the_plain_form(void **state)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F16, HAUL_BF16, HAUL_F64};
    (void)state;
    for (int round = 0; round < 60; round++)
        for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
            haul_scope *scope = haul_scope_push();
            int64_t     n = 1 + below(round % 4 ? SHORT_ROW + 10 : 1100), rows = SIDE_ROWS + below(3 * SIDE_ROWS);
            n = round % 5 ? n : (n + SUM_LANES - 1) / SUM_LANES * SUM_LANES;
            compare_with_parts(functions[f].function, random_rows(dtypes[below(4)], rows, n), functions[f].name);
            haul_scope_pop(scope);
        }
}

/* Matrices have fewer rows than a group, so one of them alone takes the plain form. */
static void test_row_groups__have_the_bits_of_the_plain_form_in_causal_attention(void **state)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F16, HAUL_BF16};
    (void)state;
    for (int round = 0; round < 200; round++) {
        haul_scope   *scope = haul_scope_push();
        const int64_t count = 8, rows = 2 + below(SIDE_ROWS - 2), n = 1 + below(SHORT_ROW - 1), first = below(n);
        haul_tensor  *x = haul_reshape(random_rows(dtypes[below(3)], count * rows, n), HAUL_SHAPE(count, rows, n));
        haul_tensor  *all = haul__attention_weights(x, first);
        for (int64_t i = 0; i < count; i++)
            assert_equal_bits(haul_slice(all, 0, i, i + 1, 1),
                              haul__attention_weights(haul_slice(x, 0, i, i + 1, 1), first), "weights of a matrix");
        haul_scope_pop(scope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_groups__have_the_bits_of_the_plain_form),
        cmocka_unit_test(test_row_groups__have_the_bits_of_the_plain_form_in_causal_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
