/* An LSTM that learns to predict a long signal. The program reads the signal in chunks and carries the state from one
 * chunk to the next. The backward pass stops at the start of a chunk (truncated backpropagation through time).
 *
 *     lstm [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>

enum { STREAMS = 8, CHUNK = 25, CHUNKS = 40, HIDDEN = 32 };

/* Two sine waves; each stream starts at a different time: [STREAMS, (CHUNKS + 1) * CHUNK + 1, 1]. */
static haul_tensor *signal_new(void)
{
    haul_tensor *begin = haul_unsqueeze(haul_arange(HAUL_F32, 0, STREAMS * 11, 11), 1);
    haul_tensor *t = haul_add(haul_arange(HAUL_F32, 0, (CHUNKS + 1) * CHUNK + 1, 1), begin);
    haul_tensor *fast = haul_sin(haul_mul_scalar(t, 0.2)), *slow = haul_sin(haul_mul_scalar(t, 0.031));
    return haul_unsqueeze(haul_mul_scalar(haul_add(fast, slow), 0.5), 2);
}

/* Keep the state for the next chunk, without the graph of this one. */
static haul_tensor *carry(haul_tensor *before, haul_tensor *now)
{
    haul_release(before);
    return now == HAUL_NONE ? now : haul_keep(haul_detach(now));
}

int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_manual_seed(1);
    haul_tensor    *signal = signal_new(), *h = HAUL_NONE, *c = HAUL_NONE;
    haul_module    *lstm = haul_nn_lstm(1, HIDDEN), *head = haul_nn_linear(HIDDEN, 1);
    haul_module    *net = haul_nn_list((haul_module *const[]){lstm, head}, 2);
    haul_optimizer *adam = haul_adam(net, 0.005);

    for (int epoch = 1; epoch <= 4 && !haul_error_status(); epoch++) {
        double total = 0;
        h = carry(h, HAUL_NONE), c = carry(c, HAUL_NONE);
        for (int64_t at = 0; at < CHUNKS * CHUNK; at += CHUNK) {
            haul_scope *inner = haul_scope_push();
            haul_budget(.d2h_bytes = 4, .waits = 1); /* the loss; the state stays on the device */
            haul_optimizer_zero_grad(adam);
            haul_tensor *x = haul_slice(signal, 1, at, at + CHUNK, 1), *hn, *cn;
            haul_tensor *y = haul_call(head, haul_call(lstm, x, h, c, .more = {&hn, &cn}));
            haul_tensor *loss = haul_mse_loss(y, haul_slice(signal, 1, at + 1, at + CHUNK + 1, 1));
            haul_backward(loss);
            haul_clip_grad_norm(net, 1);
            haul_optimizer_step(adam);
            h = carry(h, hn), c = carry(c, cn);
            total += haul_item(loss);
            haul_scope_pop(inner);
        }
        printf("epoch %d: loss %.6f\n", epoch, total / CHUNKS);
    }

    /* The effect of the state: the loss of the next chunk with and without it. */
    haul_set_grad_enabled(false);
    haul_tensor *x = haul_slice(signal, 1, -CHUNK - 1, -1, 1), *y = haul_slice(signal, 1, -CHUNK, INT64_MAX, 1);
    double       with = haul_item(haul_mse_loss(haul_call(head, haul_call(lstm, x, h, c)), y));
    double       without = haul_item(haul_mse_loss(haul_call(head, haul_call(lstm, x)), y));
    printf("the next chunk: loss %.6f with the state, %.6f without\n", with, without);
    haul_release(h), haul_release(c);
    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
