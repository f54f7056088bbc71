/* A small transformer that learns to continue a text. It predicts each character from the previous ones.
 *
 *     char_gpt [DEVICE [STEPS [TEXT [WEIGHTS]]]]
 *
 * TEXT is a file of ASCII characters; the default is a proverb. WEIGHTS is a safetensors file with initial weights. */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 32, BATCH = 8, SAMPLE = 160, CHARACTERS = 128 };

static const char proverb[] = "for want of a nail the shoe was lost, for want of a shoe the horse was lost, "
                              "for want of a horse the rider was lost, for want of a rider the battle was lost, "
                              "for want of a battle the kingdom was lost, and all for the want of a nail. ";

/* Row i of batch `step`: CONTEXT characters of the text, and the ones that follow each of them. */
static void batch_of(const char *text, size_t length, int step, haul_tensor **x, haul_tensor **y)
{
    char in[BATCH][CONTEXT], next[BATCH][CONTEXT];
    for (int i = 0; i < BATCH; i++) {
        size_t at = (size_t)(step * BATCH + i) * 37 % (length - CONTEXT - 1);
        memcpy(in[i], text + at, CONTEXT);
        memcpy(next[i], text + at + 1, CONTEXT);
    }
    *x = haul_from_host(HAUL_U8, HAUL_SHAPE(BATCH, CONTEXT), in);
    *y = haul_from_host(HAUL_U8, HAUL_SHAPE(BATCH * CONTEXT), next);
}

/* Write SAMPLE characters, each sampled from the predicted distribution: Gumbel noise is added, then argmax. */
static void sample(haul_module *net, char first)
{
    char text[SAMPLE + 1] = {first};
    haul_set_grad_enabled(false);
    for (int n = 1; n < SAMPLE && !haul_error_status(); n++) {
        haul_scope *scope = haul_scope_push();
        haul_budget(.h2d_bytes = CONTEXT, .d2h_bytes = 8, .waits = 1); /* u8 there, an i64 back */
        int64_t      length = n < CONTEXT ? n : CONTEXT;
        haul_tensor *x = haul_from_host(HAUL_U8, HAUL_SHAPE(1, length), text + n - length);
        haul_tensor *logits = haul_select(haul_call(net, x, .mode = HAUL_EVALUATE), 1, -1);
        haul_tensor *u = haul_uniform(HAUL_F32, HAUL_SHAPE(1, CHARACTERS), 1e-7, 1);
        text[n] = (char)haul_item(haul_argmax(haul_sub(logits, haul_log(haul_neg(haul_log(u)))), 1, false));
        haul_scope_pop(scope);
    }
    printf("%s\n", text);
}

int main(int argc, char **argv)
{
    static char buffer[1 << 20];
    const char *text = argc > 3 ? buffer : proverb;
    int         steps = argc > 2 ? atoi(argv[2]) : 300;
    FILE       *file = argc > 3 ? fopen(argv[3], "rb") : NULL;
    size_t      length = file ? fread(buffer, 1, sizeof buffer, file) : argc > 3 ? 0 : strlen(proverb);
    if (file)
        fclose(file);
    if (length < 2 * CONTEXT) {
        fprintf(stderr, "%s cannot be read, or has fewer than %d characters\n", argv[3], 2 * CONTEXT);
        return 1;
    }
    haul_scope *scope = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    haul_manual_seed(1);
    haul_module    *net = haul_model_new("char_gpt", .input = HAUL_SHAPE(CONTEXT), .outputs = CHARACTERS);
    haul_optimizer *adamw = haul_adamw(net, 3e-3);
    if (argc > 4)
        haul_load_weights(argv[4], net);
    printf("%lld parameters\n", (long long)haul_module_parameter_count(net));
    for (int step = 0; step < steps && !haul_error_status(); step++) {
        haul_tensor *x, *y;
        haul_scope  *inner = haul_scope_push();
        haul_budget(.h2d_bytes = 2 * BATCH * CONTEXT, .d2h_bytes = 4, .waits = 1); /* the batch there, the loss back */
        batch_of(text, length, step, &x, &y);
        haul_optimizer_zero_grad(adamw);
        haul_tensor *loss = haul_cross_entropy(haul_reshape(haul_call(net, x), HAUL_SHAPE(-1, CHARACTERS)), y);
        haul_backward(loss);
        haul_optimizer_step(adamw);
        printf("step %d: loss %.7f\n", step + 1, haul_item(loss));
        haul_scope_pop(inner);
    }
    sample(net, text[0]);
    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
