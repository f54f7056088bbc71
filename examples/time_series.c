/* Two LSTM cells learn to continue sine waves, trained with L-BFGS, which computes the loss several times in a step.
 * The parameters are made of sines, so that the program prints the same digits as PyTorch's.
 *
 *     time_series [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { WAVES = 6, TEST = 2, LENGTH = 40, HIDDEN = 12, STEPS = 4, FUTURE = 10 };

typedef struct training {
    haul_module    *net; /* two LSTM cells and a linear layer */
    haul_optimizer *lbfgs;
    haul_tensor    *x, *y;
} training;

/* Predicts the next value after each of x, and `future` more values after their end. */
static haul_tensor *forward(haul_module *net, haul_tensor *x, int future)
{
    haul_tensor *h[2] = {HAUL_NONE, HAUL_NONE}, *c[2] = {HAUL_NONE, HAUL_NONE}, *y[LENGTH + FUTURE];
    const int    length = (int)haul_tensor_dim(x, 1);
    for (int i = 0; i < length + future; i++) {
        haul_tensor *in = i < length ? haul_slice(x, 1, i, i + 1, 1) : y[i - 1];
        for (int k = 0; k < 2; k++)
            in = h[k] = haul_call(haul_module_child(net, k ? "1" : "0"), in, h[k], c[k], .more = {&c[k]});
        y[i] = haul_call(haul_module_child(net, "2"), in);
    }
    return haul_cat(y, length + future, 1);
}

static haul_tensor *closure(void *context)
{
    const training *t = context;
    haul_optimizer_zero_grad(t->lbfgs);
    haul_tensor *loss = haul_mse_loss(forward(t->net, t->x, 0), t->y);
    haul_backward(loss);
    return loss;
}

/* The same parameters on every machine. */
static void init(haul_module *net)
{
    haul_named_tensor p[16];
    for (int i = 0, count = haul_module_tensors(net, p, 16); i < count; i++) {
        haul_tensor *t = haul_arange(HAUL_F64, 0, (double)haul_tensor_count(p[i].tensor), 1);
        haul_tensor *value = haul_mul_scalar(haul_sin(haul_mul_scalar(t, 12.9898 + i)), 0.3);
        haul_copy_into(haul_detach(p[i].tensor), haul_reshape(value, haul_tensor_shape(p[i].tensor)));
    }
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_tensor *begin = haul_mul_scalar(haul_arange(HAUL_F64, 0, WAVES, 1), 7);
    haul_tensor *t = haul_add(haul_arange(HAUL_F64, 0, LENGTH, 1), haul_unsqueeze(begin, 1));
    haul_tensor *data = haul_sin(haul_div_scalar(t, 5)), *train = haul_slice(data, 0, TEST, WAVES, 1);
    haul_tensor *test = haul_slice(data, 0, 0, TEST, 1);
    haul_module *net =
        HAUL_SEQUENTIAL(haul_nn_lstm_cell(1, HIDDEN), haul_nn_lstm_cell(HIDDEN, HIDDEN), haul_nn_linear(HIDDEN, 1));
    haul_module_cast(net, HAUL_F64);
    init(net);
    training s = {net, haul_lbfgs(net, 0.8), haul_slice(train, 1, 0, LENGTH - 1, 1),
                  haul_slice(train, 1, 1, LENGTH, 1)};
    for (int step = 0; step < STEPS; step++) {
        haul_scope *scope = haul_scope_push();
        haul_budget(.d2h_bytes = 24 * 62,
                    .waits = 62); /* of L-BFGS, at most three for each of its 20 iterations; the losses */
        haul_tensor *loss = haul_optimizer_step_closure(s.lbfgs, closure, &s);
        haul_set_grad_enabled(false);
        haul_tensor *y = forward(net, haul_slice(test, 1, 0, LENGTH - 1, 1), FUTURE);
        haul_tensor *of_test = haul_mse_loss(haul_slice(y, 1, 0, LENGTH - 1, 1), haul_slice(test, 1, 1, LENGTH, 1));
        printf("step %d: loss %.5f, test loss %.5f\n", step, haul_item(loss), haul_item(of_test));
        haul_scope_pop(scope);
    }
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
