/* haul_save_onnx: haul_load_onnx reads the files, and gives the module's results. Every sample of an operation and
 * every pointwise row is tried; networks, batches of any size, external data, and refusals. */
#include <haul/onnx.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "onnx/export/export.h"
#include "ops/pointwise/pointwise.h"
#include "support/conformance/samples.h"
#include "support/linalg.h"

#define FILE_NAME "saved.onnx"

static void expect_error(haul_status status, const char *text)
{
    if (haul_error_status() != status || !strstr(haul_error_message(), text))
        fail_msg("\"%s\" is not in \"%s\"", text, haul_error_message());
    haul_error_clear();
}

static void compare(haul_tensor *y, haul_tensor *want, double error, const char *what)
{
    if (!haul_tensor_is_valid(y))
        fail_msg("%s: %s", what, haul_error_message());
    const haul_shape a = haul_tensor_shape(y), b = haul_tensor_shape(want);
    if (haul_tensor_dtype(y) != haul_tensor_dtype(want) || a.ndim != b.ndim ||
        memcmp(a.dims, b.dims, (size_t)a.ndim * sizeof *a.dims))
        fail_msg("%s: the result has another shape or dtype", what);
    const int64_t count = haul_tensor_count(want);
    double *values = malloc(((size_t)count + 1) * sizeof *values), *got = malloc(((size_t)count + 1) * sizeof *got);
    assert_true(values && got);
    assert_int_equal(read_values(want, values, count), HAUL_OK);
    assert_int_equal(read_values(y, got, count), HAUL_OK);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - values[i]) <= error * fmax(1, fabs(values[i]))) && got[i] != values[i] &&
            !(isnan(got[i]) && isnan(values[i])))
            fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, got[i], values[i]);
    free(values);
    free(got);
}

static haul_module *load(const char *what)
{
    haul_module *m = haul_load_onnx(FILE_NAME);
    if (!m)
        fail_msg("%s: %s", what, haul_error_message());
    return m;
}

/* ---- operations ---- */

typedef struct holder {
    const sample    *s;
    const haul__row *row;
} holder;

typedef haul_tensor *unary(haul_tensor *x);
typedef haul_tensor *unary1(haul_tensor *x, double s);
typedef haul_tensor *unary2(haul_tensor *x, double s0, double s1);
typedef haul_tensor *binary(haul_tensor *a, haul_tensor *b);

static haul_tensor *call_row(const haul__row *row, haul_args *args)
{
    switch (row->form) {
    case HAUL__UNARY:
    case HAUL__UNARY_TO_BOOL: return ((unary *)row->call)(args->x[0]);
    case HAUL__UNARY1: return ((unary1 *)row->call)(args->x[0], 2);
    case HAUL__UNARY2: return ((unary2 *)row->call)(args->x[0], -1, 2);
    default: return ((binary *)row->call)(args->x[0], args->x[1]);
    }
}

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const holder *h = haul_module_state(m);
    return h->row ? call_row(h->row, args) : h->s->run(args->x);
}

static haul_module *module_of(holder h)
{
    haul_module *m = haul_module_new("sample", forward, .inputs = "x, more...", .state_bytes = sizeof h);
    assert_non_null(m);
    *(holder *)haul_module_state(m) = h;
    return m;
}

/* Saves, loads and compares. False: the operation cannot be saved. */
static bool saved_as(haul_module *m, const haul_call_options *o, int64_t opset, const char *what)
{
    haul_save_onnx_options save = {.opset = opset};
    for (int i = 0; i < HAUL_MAX_ARGUMENTS; i++)
        save.x[i] = o->x[i];
    if (haul_save_onnx_with(FILE_NAME, m, &save)) {
        if (haul_error_status() != HAUL_UNSUPPORTED && haul_error_status() != HAUL_STATE)
            fail_msg("%s: %s", what, haul_error_message());
        if (getenv("HAUL_TEST_VERBOSE"))
            printf("%s: %s\n", what, haul_error_message());
        haul_error_clear();
        return false;
    }
    haul_tensor *want = haul_call_with(m, o);
    assert_valid(want);
    compare(haul_call_with(load(what), o), want, 2e-5, what);
    return true;
}

static bool saved(haul_module *m, const haul_call_options *o, const char *what)
{
    return saved_as(m, o, 22, what);
}

/* How many samples with this text in their names can be saved. */
static int saved_samples(const char *text, int64_t opset)
{
    static double values[MAX_ELEMENTS];
    int           count = 0;
    for (int k = 0; k < sample_count; k++) {
        const sample     *s = &samples[k];
        haul_scope       *scope = haul_scope_push();
        haul_call_options o = {.mode = HAUL_EVALUATE};
        for (int i = 0; i < s->count; i++) {
            input_values(&s->inputs[i], i, HAUL_F32, values);
            o.x[i] = make_operand(haul_cpu(), input_dtype(&s->inputs[i], HAUL_F32), input_shape(&s->inputs[i]),
                                  LAYOUT_contiguous, values);
        }
        if (strstr(s->name, text))
            count += saved_as(module_of((holder){.s = s}), &o, opset, s->name);
        haul_scope_pop(scope);
    }
    return count;
}

static haul_tensor *kl_of_logarithms(haul_module *m, haul_args *args)
{
    (void)m;
    return haul_kl_div(args->x[0], args->x[1], .log_target = true, .reduction = HAUL_REDUCE_SUM);
}

/* A class without probability adds 0, and not NaN. */
static void test_onnx_save__kl_of_a_class_without_probability(void **state)
{
    (void)state;
    static const float x[] = {-1, -2, -0.5f}, t[] = {-0.7f, -INFINITY, -1.5f};
    haul_call_options  o = {.mode = HAUL_EVALUATE};
    o.x[0] = haul_from_host(HAUL_F32, HAUL_SHAPE(1, 3), x);
    o.x[1] = haul_from_host(HAUL_F32, HAUL_SHAPE(1, 3), t);
    haul_module *m = haul_module_new("kl", kl_of_logarithms, .inputs = "x, target");
    assert_true(saved(m, &o, "kl_div"));
    assert_true(isfinite(haul_item(haul_call_with(m, &o))));
}

static void test_onnx_save__samples(void **state)
{
    (void)state;
    assert_true(saved_samples("", 22) >= 367);
    assert_true(saved_samples("ctc_loss", 18) == 5);
}

/* DFT has another form before opset 20. */
static void test_onnx_save__transforms_of_an_old_set(void **state)
{
    (void)state;
    assert_true(saved_samples("fft", 18) >= 20);
}

static void test_onnx_save__rows(void **state)
{
    (void)state;
    int count = 0;
    for (int k = 0; k < haul__row_count; k++) {
        const haul__row  *row = &haul__rows[k];
        haul_scope       *scope = haul_scope_push();
        haul_call_options o = {.mode = HAUL_EVALUATE};
        double            values[24];
        const haul_dtype  dtype =
            row->dtypes == HAUL__ROW_BITWISE || row->dtypes == HAUL__ROW_INTEGER ? HAUL_I32 : HAUL_F32;
        for (int i = 0; i < 1 + (row->form >= HAUL__BINARY); i++) {
            sample_values(values, i ? 4 : 24, dtype, row->low, row->high, (unsigned)i + 1);
            o.x[i] =
                make_operand(haul_cpu(), dtype, i ? HAUL_SHAPE(4) : HAUL_SHAPE(2, 3, 4), LAYOUT_contiguous, values);
        }
        const bool is_saved = saved(module_of((holder){.row = row}), &o, row->name);
        count += is_saved;
        if (!is_saved && haul__onnx_saved_row_of(row->name) && strcmp(row->name, "haul_floor_div"))
            fail_msg("%s has a row and is not saved", row->name);
        haul_scope_pop(scope);
    }
    assert_true(count >= 70);
}

/* ---- networks ---- */

static haul_tensor *tokens(int64_t batch, int64_t length)
{
    return haul_cast(haul_reshape(haul_remainder_scalar(haul_arange(HAUL_F32, 0, (double)(batch * length), 1), 7),
                                  HAUL_SHAPE(batch, length)),
                     HAUL_I64);
}

static haul_tensor *pictures(int64_t batch)
{
    return haul_reshape(haul_sin(haul_arange(HAUL_F32, 0, (double)batch * 3072, 1)), HAUL_SHAPE(batch, 3, 32, 32));
}

/* Written with a batch of any size, and called with another one than it was written with. */
static void test_onnx_save__networks(void **state)
{
    (void)state;
    static const char *const names[] = {"simplecnn",    "dense",    "mlp",      "resnet18",
                                        "mobilenet_v2", "vit_tiny", "char_gpt", "unet"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        haul_scope  *scope = haul_scope_push();
        const bool   text = !strcmp(names[k], "char_gpt");
        haul_module *m = haul_model_new(names[k], .input = text ? HAUL_SHAPE(8) : HAUL_SHAPE(3, 32, 32), .outputs = 10);
        assert_non_null(m);
        if (!text)
            haul_call(m, pictures(2)); /* running statistics of their own */
        haul_module_train(m, false);
        haul_tensor *x = text ? tokens(3, 8) : pictures(3);
        if (haul_save_onnx(FILE_NAME, m, text ? tokens(1, 8) : pictures(1), .dynamic = true))
            fail_msg("%s: %s", names[k], haul_error_message());
        haul_module *again = load(names[k]);
        compare(haul_call(again, x), haul_call(m, x), 1e-5, names[k]);
        haul_named_tensor tensors[400], others[400];
        const int         count = haul_module_tensors(m, tensors, 400);
        assert_true(count > 0 && count <= 400);
        for (int i = 0; i < count; i++)
            if (!tensors[i].is_buffer && strcmp(tensors[i].name, "head.weight")) /* tied: it has its first name */
                assert_valid(haul_module_parameter(again, tensors[i].name));
        assert_true(haul_module_tensors(again, others, 400) > 0);
        haul_scope_pop(scope);
    }
}

/* Operands in another layout than the operation takes, and lengths of sequences. */
static haul_tensor *layouts(haul_module *m, haul_args *args)
{
    haul_tensor *turned = haul_transpose(haul_add_scalar(args->x[0], 1), 1, 2), *states;
    haul_tensor *lengths = haul_module_buffer(m, "lengths");
    haul_tensor *y = haul_call_child(m, "lstm", turned, HAUL_NONE, HAUL_NONE, lengths, .more = {&states});
    return haul_add(haul_cumsum(haul_transpose(y, 0, 2), 1), haul_sum(states));
}

static void test_onnx_save__layouts(void **state)
{
    (void)state;
    haul_module *m = haul_module_new("layouts", layouts);
    assert_int_equal(haul_module_add(m, "lstm", haul_nn_lstm(5, 4, .bidirectional = true)), HAUL_OK);
    assert_int_equal(
        haul_module_add_buffer(m, "lengths", haul_from_host(HAUL_I64, HAUL_SHAPE(3), (int64_t[]){6, 2, 4})), HAUL_OK);
    haul_tensor *x = haul_reshape(haul_cos(haul_arange(HAUL_F32, 0, 3 * 6 * 5, 1)), HAUL_SHAPE(3, 5, 6));
    if (haul_save_onnx(FILE_NAME, m, x))
        fail_msg("%s", haul_error_message());
    compare(haul_call(load("layouts"), x), haul_call(m, x), 1e-5, "layouts");
}

static haul_tensor *forward_lengths(haul_module *m, haul_args *args)
{
    return haul_call_child(m, "gru", args->x[0], HAUL_NONE, args->x[1]);
}

/* Lengths beyond those of a sequence count as all steps. */
static void test_onnx_save__lengths_of_sequences(void **state)
{
    (void)state;
    haul_module *net = haul_module_new("sequences", forward_lengths, .inputs = "x, lengths");
    haul_tensor *x = haul_reshape(haul_cos(haul_arange(HAUL_F32, 0, 2 * 4 * 5, 1)), HAUL_SHAPE(2, 4, 5));
    haul_module_add(net, "gru", haul_nn_gru(5, 7));
    haul_tensor *lengths = haul_from_host(HAUL_I64, HAUL_SHAPE(2), ((int64_t[]){(INT64_C(1) << 32) + 2, 3}));
    if (haul_save_onnx_with(FILE_NAME, net, &(haul_save_onnx_options){.x = {x, lengths}}))
        fail_msg("%s", haul_error_message());
    compare(haul_call(load("lengths"), x, lengths), haul_call(net, x, lengths), 1e-5, "outputs");
}

static void test_onnx_save__recurrent(void **state)
{
    (void)state;
    haul_module *nets[] = {haul_nn_lstm(5, 7, .layers = 2, .bidirectional = true), haul_nn_gru(5, 7, .layers = 2),
                           haul_nn_rnn(5, 7)};
    for (int k = 0; k < 3; k++) {
        haul_tensor *x = haul_reshape(haul_cos(haul_arange(HAUL_F32, 0, 4 * 6 * 5, 1)), HAUL_SHAPE(4, 6, 5));
        haul_tensor *h[2] = {NULL}, *c[2] = {NULL};
        if (haul_save_onnx(FILE_NAME, nets[k], x, .dynamic = true))
            fail_msg("%s", haul_error_message());
        haul_tensor *want = haul_call(nets[k], x, .more = {&h[0], k ? NULL : &c[0]});
        compare(haul_call(load("recurrent"), x, .more = {&h[1], k ? NULL : &c[1]}), want, 1e-5, "outputs");
        compare(h[1], h[0], 1e-5, "h");
        if (!k)
            compare(c[1], c[0], 1e-5, "c");
    }
}

/* Models that were loaded, which make some tensors on the host. */
static void test_onnx_save__loaded_models(void **state)
{
    (void)state;
    static const char *const names[] = {"text", "text_traced", "saved", "recurrent"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[300];
        snprintf(path, sizeof path, HAUL_SOURCE "/tests/golden/onnx/%s.onnx", names[k]);
        haul_module *m = haul_load_onnx(path);
        assert_non_null(m);
        snprintf(path, sizeof path, HAUL_SOURCE "/tests/golden/onnx/%s.npz", names[k]);
        haul_save_onnx_options o = {.opset = 22};
        haul_call_options      call = {.mode = HAUL_EVALUATE};
        haul_safetensors      *arrays = haul_open_safetensors(path);
        call.x[0] = o.x[0] = haul_safetensors_load(arrays, "in.0");
        assert_valid(o.x[0]);
        if (haul_save_onnx_with(FILE_NAME, m, &o))
            fail_msg("%s: %s", names[k], haul_error_message());
        compare(haul_call_with(load(names[k]), &call), haul_call_with(m, &call), 1e-5, names[k]);
    }
}

/* ---- sets, names, files ---- */

static haul_module *small(void)
{
    return HAUL_SEQUENTIAL(haul_nn_linear(4, 3), haul_nn_gelu(), haul_nn_dropout(0.5), haul_nn_linear(3, 2));
}

static haul_tensor *row4(void)
{
    return haul_reshape(haul_arange(HAUL_F32, 0, 8, 1), HAUL_SHAPE(2, 4));
}

static void test_onnx_save__sets_of_operators(void **state)
{
    (void)state;
    haul_module *m = small();
    haul_module_train(m, false);
    for (int opset = HAUL__ONNX_OLDEST_SAVED; opset <= 28; opset++) {
        assert_int_equal(haul_save_onnx(FILE_NAME, m, row4(), .opset = opset), HAUL_OK);
        compare(haul_call(load("opset"), row4()), haul_call(m, row4()), 1e-6, "opset");
    }
    assert_int_equal(haul_save_onnx(FILE_NAME, m, row4(), .opset = 17), HAUL_INVALID_ARGUMENT);
    expect_error(HAUL_INVALID_ARGUMENT, "18 to 28");
    assert_int_equal(haul_save_onnx(FILE_NAME, m, row4(), .opset = 29), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

/* Weights on each device, whose layouts and copies differ. */
static void saved_on(haul_device *device)
{
    assert_int_equal(haul_set_device(device), HAUL_OK);
    haul_manual_seed(3);
    haul_module *m = HAUL_SEQUENTIAL(haul_nn_conv2d(3, 4, 3), haul_nn_batch_norm(4), haul_nn_relu(),
                                     haul_nn_max_pool2d(2), haul_nn_flatten(1), haul_nn_linear(196, 3));
    haul_tensor *x = haul_reshape(haul_sin(haul_arange(HAUL_F32, 0, 2 * 768, 1)), HAUL_SHAPE(2, 3, 16, 16));
    haul_module_train(m, false);
    assert_int_equal(haul_module_to_memory_format(m, HAUL_CHANNELS_LAST), HAUL_OK);
    if (haul_save_onnx(FILE_NAME, m, x, .dynamic = true))
        fail_msg("%s", haul_error_message());
    compare(haul_call(load("device"), x), haul_call(m, x), 1e-5, haul_device_name(device));
}

static void test_onnx_save__devices(void **state)
{
    (void)state;
    on_devices(saved_on);
}

/* A parameter with the name of the input, a result that is the input, and one that is a parameter. */
static haul_tensor *odd_forward(haul_module *m, haul_args *args)
{
    args->y[1] = haul_module_parameter(m, "x");
    args->y[2] = haul_mul(args->x[0], args->y[1]);
    args->y[3] = args->y[2];
    return args->x[0];
}

static void test_onnx_save__names(void **state)
{
    (void)state;
    haul_module *m = haul_module_new("odd", odd_forward, .results = "y, x, a/b, again");
    haul_tensor *y[2][3];
    assert_int_equal(haul_module_add_parameter(m, "x", haul_full(HAUL_F32, HAUL_SHAPE(4), 3)), HAUL_OK);
    assert_int_equal(haul_save_onnx(FILE_NAME, m, row4()), HAUL_OK);
    haul_module *again = load("names");
    assert_valid(haul_module_parameter(again, "x"));
    haul_tensor *want = haul_call(m, row4(), .more = {&y[0][0], &y[0][1], &y[0][2]});
    compare(haul_call(again, row4(), .more = {&y[1][0], &y[1][1], &y[1][2]}), want, 0, "the input");
    for (int i = 0; i < 3; i++)
        compare(y[1][i], y[0][i], 0, "a result");
}

static int64_t size_of(const char *path)
{
    struct stat s;
    return stat(path, &s) ? -1 : (int64_t)s.st_size;
}

static void test_onnx_save__external_data(void **state)
{
    (void)state;
    haul_module *m = HAUL_SEQUENTIAL(haul_nn_linear(4, 300), haul_nn_relu(), haul_nn_linear(300, 2));
    haul_module_train(m, false);
    assert_int_equal(haul_save_onnx(FILE_NAME, m, row4(), .external = true), HAUL_OK);
    assert_true(size_of(FILE_NAME) < 2048);
    assert_int_equal(size_of(FILE_NAME ".data"), 4800 + 1216 + 2432); /* each at a multiple of 64 */
    compare(haul_call(load("external"), row4()), haul_call(m, row4()), 0, "external");
    assert_int_equal(unlink(FILE_NAME ".data"), 0);
    assert_null(haul_load_onnx(FILE_NAME));
    haul_error_clear();
}

/* ---- refusals ---- */

static haul_tensor *impossible(haul_module *m, haul_args *args)
{
    (void)m;
    haul_tensor *products = haul_cumprod(args->x[0], 0);
    return haul_add(products, haul_erfinv(haul_uniform(HAUL_F32, HAUL_SHAPE(2, 4), 0, 1)));
}

static haul_tensor *from_host(haul_module *m, haul_args *args)
{
    (void)m;
    return haul_add(args->x[0], haul_from_host(HAUL_F32, HAUL_SHAPE(1), &(float){2}));
}

static haul_tensor *outside;

static haul_tensor *from_outside(haul_module *m, haul_args *args)
{
    (void)m;
    return haul_add(args->x[0], outside);
}

static haul_tensor *in_place(haul_module *m, haul_args *args)
{
    (void)m;
    haul_tensor *y = haul_clone(args->x[0]);
    return haul_copy_into(haul_slice(y, 0, 0, 1, 1), haul_slice(args->x[0], 0, 1, 2, 1)) ? NULL : haul_neg(y);
}

static haul_tensor *by_batch(haul_module *m, haul_args *args)
{
    (void)m;
    return haul_tensor_dim(args->x[0], 0) > 4 ? haul_exp(args->x[0]) : haul_neg(haul_exp(args->x[0]));
}

static haul_tensor *half_batch(haul_module *m, haul_args *args)
{
    (void)m;
    return haul_slice(args->x[0], 0, 0, (haul_tensor_dim(args->x[0], 0) + 1) / 2, 1);
}

static haul_tensor *dimensions_by_batch(haul_module *m, haul_args *args)
{
    (void)m;
    const int64_t n = haul_tensor_dim(args->x[0], 0);
    return haul_reshape(args->x[0], n > 4 ? HAUL_SHAPE(n, 2, 2) : HAUL_SHAPE(2 * n, 2));
}

static void expect_refusal(haul_forward *f, bool dynamic, const char *text)
{
    haul_module *parts[] = {haul_nn_identity(), haul_module_new("odd", f)};
    haul_module *m = haul_nn_sequential(parts, 2);
    unlink(FILE_NAME);
    assert_int_equal(haul_save_onnx(FILE_NAME, m, row4(), .dynamic = dynamic), HAUL_UNSUPPORTED);
    expect_error(HAUL_UNSUPPORTED, text);
    assert_int_equal(size_of(FILE_NAME), -1);
}

static void test_onnx_save__refusals(void **state)
{
    (void)state;
    outside = haul_ones(HAUL_F32, HAUL_SHAPE(4));
    expect_refusal(impossible, false,
                   "3 calls cannot be written as ONNX (opset 22): haul_cumprod in 1, haul_uniform in "
                   "1, haul_erfinv in 1");
    expect_refusal(from_host, false, "make them a buffer");
    expect_refusal(from_outside, false, "a tensor that is not in the module");
    expect_refusal(in_place, false, "haul_copy_into in 1: it changes a tensor in place");
    expect_refusal(by_batch, true, "other operations for a batch of");
    expect_refusal(half_batch, true, "fixed batch");
    expect_refusal(dimensions_by_batch, true, "its number of dimensions depends on the batch");
    assert_int_equal(haul_save_onnx(FILE_NAME, haul_module_new("odd", half_batch), row4()), HAUL_OK);
}

static void test_onnx_save__bad_arguments(void **state)
{
    (void)state;
    haul_module *m = small();
    assert_true(haul_save_onnx(NULL, m, row4()));
    assert_true(haul_save_onnx(FILE_NAME, NULL, row4()));
    assert_true(haul_save_onnx(FILE_NAME, m, NULL));
    assert_true(haul_save_onnx_with(FILE_NAME, m, NULL));
    haul_error_clear();
    assert_true(haul_save_onnx(FILE_NAME, m, haul_ones(HAUL_F32, HAUL_SHAPE(2, 5))));
    expect_error(haul_error_status(), "haul_linear");
    assert_int_equal(haul_save_onnx(FILE_NAME, m, haul_ones(HAUL_F32, HAUL_SCALAR_SHAPE), .dynamic = true),
                     HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_int_equal(haul_save_onnx("no/such/folder.onnx", m, row4()), HAUL_IO);
    haul_error_clear();
}

/* Each allocation and each call to the file system fails once: nothing leaks, and the old file stays. */
static void test_onnx_save__faults(void **state)
{
    (void)state;
    haul_module *m = small();
    assert_int_equal(haul_save_onnx(FILE_NAME, m, row4(), .dynamic = true), HAUL_OK);
    const int64_t size = size_of(FILE_NAME);
    haul_scope   *scope = haul_scope_push();
    haul_tensor  *x = row4();
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_FILE, nth);
        const haul_status status = haul_save_onnx(FILE_NAME, m, x, .dynamic = true);
        const bool        reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        if (!reached)
            break;
        haul_error_clear();
        assert_int_equal(size_of(FILE_NAME), size);
        if (!status)
            continue; /* a cache did without */
    }
    haul_scope_pop(scope);
    compare(haul_call(load("faults"), row4()), haul_call(m, row4(), .mode = HAUL_EVALUATE), 1e-6, "faults");
}

/* Bytes of a written model that are changed: the reader refuses the file or reads it. */
static void test_onnx_save__changed_bytes(void **state)
{
    (void)state;
    static uint8_t bytes[1 << 16];
    haul_module   *m =
        HAUL_SEQUENTIAL(haul_nn_conv2d(3, 2, 3), haul_nn_batch_norm(2), haul_nn_relu(), haul_nn_flatten(1));
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 5, 5));
    assert_int_equal(haul_save_onnx(FILE_NAME, m, x, .dynamic = true), HAUL_OK);
    FILE *f = fopen(FILE_NAME, "rb");
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_true(size > 500 && size < sizeof bytes);
    uint32_t random = 1;
    for (int k = 0; k < 1500; k++) {
        random = random * 1664525u + 1013904223u;
        const size_t  at = (random >> 8) % size;
        const uint8_t before = bytes[at];
        bytes[at] ^= (uint8_t)(1u << (random >> 5 & 7));
        f = fopen("changed.onnx", "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, size, f), size);
        fclose(f);
        bytes[at] = before;
        haul_scope  *scope = haul_scope_push();
        haul_module *changed = haul_load_onnx("changed.onnx");
        if (changed)
            haul_call(changed, x);
        haul_error_clear();
        haul_scope_pop(scope);
    }
}

static int enter(void **state)
{
    *state = haul_scope_push();
    haul_manual_seed(1);
    return *state ? 0 : -1;
}

static int leave(void **state)
{
    return haul_scope_pop(*state) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_onnx_save__samples, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__kl_of_a_class_without_probability, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__rows, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__transforms_of_an_old_set, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__networks, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__recurrent, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__lengths_of_sequences, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__devices, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__layouts, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__loaded_models, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__sets_of_operators, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__names, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__external_data, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__refusals, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__bad_arguments, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__faults, enter, leave),
        cmocka_unit_test_setup_teardown(test_onnx_save__changed_bytes, enter, leave),
    };
    return cmocka_run_group_tests_name("onnx_save", tests, NULL, NULL);
}
