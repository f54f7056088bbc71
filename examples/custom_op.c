/* A custom operation: swish, x sigmoid(beta x), with a kernel for all devices and a gradient.
 *
 *     custom_op [DEVICE] */
#include <haul/haul.h>
#include <haul/kernel.h>
#include <stdio.h>

// clang-format off
HAUL_KERNEL2(swish_kernel, T, y, const T, x, {
    FOR_ITEMS(i) {
        STORE(y, i, LOAD(x, i) * M_SIGMOID(NUMBER(0) * LOAD(x, i)));
    }
});
// clang-format on

static void gradient(haul_custom_gradient *g)
{
    haul_tensor *x = haul_mul_scalar(g->saved[0], *(const double *)g->attributes), *s = haul_sigmoid(x);
    haul_tensor *slope = haul_mul(haul_mul(x, s), haul_sigmoid(haul_neg(x))); /* beta x s (1 - s) */
    g->operands[0] = haul_mul(g->results[0], haul_add(s, slope));
}

static haul_custom_operation operation = {
    .name = "swish",
    .operands = {{"x", .saved = true}},
    .results = {{"y"}},
    .kernel = &swish_kernel,
    .numbers = 1, /* a double, beta, is NUMBER(0) */
    .gradient = gradient,
};

static haul_tensor *swish(haul_tensor *const *x, int count, void *beta)
{
    return count == 1 ? haul_apply(&operation, beta, x[0]) : HAUL_NONE;
}

int main(int argc, char **argv)
{
    double      beta = 1.5;
    haul_scope *scope = haul_scope_push();
    /* Two prints of five f64. haul_grad_check reads x and its gradient; then it changes each element of x twice, reads
     * the sum of y, and restores x. */
    haul_budget(.h2d_bytes = 20 * 40, .d2h_bytes = 4 * 40 + 10 * 8, .waits = 4 + 10);
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_tensor *x = haul_set_requires_grad(haul_arange(HAUL_F64, -2, 3, 1), true), *y = swish(&x, 1, &beta);
    haul_backward(haul_sum(y));
    haul_print(y);
    haul_print(haul_tensor_grad(x));
    printf("%s\n", haul_grad_check(swish, &x, 1, &beta) ? haul_error_message() : "the gradient is right");
    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
