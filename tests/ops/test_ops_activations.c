/* Activations and their gradients at infinite operands: the limits, in every floating dtype on every device, alone and
 * in vectors.
 *
 * ctest: cuda */
#include "support/into.h"

typedef haul_tensor *function(haul_tensor *x);

enum { MOST = 33 };

/* A function of x, which tends to `y` with the slope `slope`; `second` says that its second derivative tends to 0. */
static const struct limit {
    const char *name;
    function   *f;
    double      x, y, slope;
    bool        second;
} limits[] = {
    {"silu", haul_silu, -INFINITY, 0, 0, true},
    {"silu", haul_silu, INFINITY, INFINITY, 1, true},
    {"gelu", haul_gelu, -INFINITY, 0, 0, true},
    {"gelu", haul_gelu, INFINITY, INFINITY, 1, true},
    {"relu", haul_relu, -INFINITY, 0, 0, true},
    {"relu", haul_relu, INFINITY, INFINITY, 1, true},
    {"softplus", haul_softplus, -INFINITY, 0, 0, true},
    {"softplus", haul_softplus, INFINITY, INFINITY, 1, true},
    {"sigmoid", haul_sigmoid, -INFINITY, 0, 0, true},
    {"sigmoid", haul_sigmoid, INFINITY, 1, 0, true},
    {"tanh", haul_tanh, -INFINITY, -1, 0, true},
    {"tanh", haul_tanh, INFINITY, 1, 0, true},
    {"erf", haul_erf, -INFINITY, -1, 0, false},
    {"erf", haul_erf, INFINITY, 1, 0, false},
    {"exp", haul_exp, -INFINITY, 0, 0, true},
    {"expm1", haul_expm1, -INFINITY, -1, 0, true},
    {"log1p", haul_log1p, INFINITY, INFINITY, 0, true},
    {"sqrt", haul_sqrt, INFINITY, INFINITY, 0, true},
    {"rsqrt", haul_rsqrt, INFINITY, 0, 0, true},
    {"reciprocal", haul_reciprocal, -INFINITY, 0, 0, true},
    {"reciprocal", haul_reciprocal, INFINITY, 0, 0, true},
    /* large enough for the limits, and finite */
    {"silu", haul_silu, -60000, 0, 0, true},
    {"silu", haul_silu, 57344, 57344, 1, true},
    {"gelu", haul_gelu, -60000, 0, 0, true},
    {"gelu", haul_gelu, 57344, 57344, 1, true},
    {"softplus", haul_softplus, 57344, 57344, 1, true},
};
enum { LIMITS = sizeof limits / sizeof limits[0] };

static void check(haul_tensor *t, int count, double want, const struct limit *l, haul_dtype dtype, const char *what)
{
    double got[MOST];
    if (!haul_tensor_is_valid(t))
        fail_msg("%s of %s at %g: %s", what, l->name, l->x, haul_error_message());
    haul_tensor *wide = haul_cast(t, HAUL_F64);
    assert_int_equal(haul_read(haul_to(wide, haul_cpu()), got, (size_t)count * sizeof *got), HAUL_OK);
    for (int i = 0; i < count; i++)
        if (!(got[i] == want))
            fail_msg("%s of %s at %g, %s, element %d of %d, is %g; %g is wanted", what, l->name, l->x,
                     haul_dtype_name(dtype), i, count, got[i], want);
}

static void limits_of(haul_device *device, const struct limit *l, haul_dtype dtype, int count)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_to(haul_cast(haul_full(HAUL_F32, HAUL_SHAPE(count), l->x), dtype), device), *g, *second;
    haul_set_requires_grad(x, true);
    haul_tensor *y = l->f(x);
    check(y, count, l->y, l, dtype, "the value");
    assert_int_equal(haul_grad(y, &x, 1, &g, .seed = haul_ones_like(y), .create_graph = true), HAUL_OK);
    check(g, count, l->slope, l, dtype, "the gradient");
    if (l->second) {
        assert_int_equal(haul_grad(g, &x, 1, &second, .seed = haul_ones_like(g)), HAUL_OK);
        check(second, count, 0, l, dtype, "the second derivative");
    }
    haul_scope_pop(scope);
}

static void all_limits(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16};
    for (int i = 0; i < LIMITS; i++)
        for (int d = 0; d < 4; d++) {
            limits_of(device, &limits[i], dtypes[d], 1);
            limits_of(device, &limits[i], dtypes[d], MOST);
        }
}

static void test_activations__limits_at_infinity(void **state)
{
    (void)state;
    on_devices(all_limits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations__limits_at_infinity),
    };
    return cmocka_run_group_tests_name("ops_activations", tests, NULL, NULL);
}
