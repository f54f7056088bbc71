/* A proof that a change of the library changes no result: hashes of the results and of the first and second gradients
 * of every pointwise row and every sample, and of the weights of networks that were trained a few steps, on every
 * device and in every dtype, compared with those of a golden file for this machine type (support/devices/machine.h).
 *
 * All lines, "name device dtype kind hash", are left in fingerprints.txt of the build folder, to be compared with
 * another commit's. Where there is no golden file, everything runs twice, with another number of threads, and must give
 * the same.
 *
 *   HAUL_FINGERPRINT_UPDATE=1   writes the golden file, after both runs gave the same
 *   HAUL_FINGERPRINT_DETAIL=1   prints all lines
 *   HAUL_CASE=haul_add/f32      runs only cases, NAME/DTYPE/DEVICE, whose name contains the text
 *
 * ctest: labels=slow,once */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/pointwise/internal.h"
#include "support/conformance/conformance.h"
#include "support/conformance/fingerprint.h"
#include "support/conformance/samples.h"

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value && strcmp(value, "1") == 0;
}

/* A run: one name on one device in one dtype. */
typedef struct place {
    fingerprint_list *list;
    const char       *name;
    haul_device      *device;
    haul_dtype        dtype;
} place;

static void add(const place *p, const char *kind, uint64_t hash)
{
    fingerprint_add(p->list, p->name, haul_device_name(p->device), haul_dtype_name(p->dtype), kind, hash);
}

static void add_tensor(const place *p, const char *kind, haul_tensor *t)
{
    if (haul_tensor_is_valid(t))
        add(p, kind, hash_tensor(HASH_START, t));
    else
        fail_case("%s: %s", kind, haul_error_message());
}

static haul_tensor *operand(const place *p, haul_dtype dtype, haul_shape shape, layout how, double low, double high,
                            unsigned seed)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    double *values = malloc((size_t)count * sizeof *values + 1);
    if (!values)
        return NULL;
    sample_values(values, count, dtype, low, high, seed);
    haul_tensor *t = make_operand(p->device, dtype, shape, how, values);
    free(values);
    return t;
}

/* ---- gradients ---- */

/* Sum of t times fixed weights. */
static haul_tensor *weighted_sum(const place *p, haul_tensor *t)
{
    haul_tensor *w = operand(p, haul_tensor_dtype(t), haul_tensor_shape(t), LAYOUT_contiguous, -1, 1, 9);
    return haul_sum(haul_mul(t, w));
}

static void add_all(const place *p, const char *kind, haul_tensor *const *g, int count)
{
    uint64_t hash = HASH_START;
    for (int i = 0; i < count; i++)
        hash = hash_tensor(hash, g[i]);
    add(p, kind, hash);
}

/* The first gradients of y, and the second ones where `second` names their kind. */
static void add_gradients(const place *p, const char *first, const char *second, haul_tensor *y,
                          haul_tensor *const *leaves, int count)
{
    haul_tensor *g[MAX_INPUTS], *sum = NULL;
    if (!haul_tensor_is_valid(y) || !haul_requires_grad(y))
        return;
    haul_tensor *seed = operand(p, haul_tensor_dtype(y), haul_tensor_shape(y), LAYOUT_contiguous, -1, 1, 8);
    if (haul_grad(y, leaves, count, g, .seed = seed, .create_graph = second != NULL)) {
        fail_case("%s: %s", first, haul_error_message());
        return;
    }
    add_all(p, first, g, count);
    for (int i = 0; i < count && second; i++)
        if (g[i] != HAUL_NONE && haul_requires_grad(g[i])) {
            haul_tensor *term = weighted_sum(p, g[i]);
            sum = sum ? haul_add(sum, term) : term;
        }
    if (!haul_tensor_is_valid(sum))
        return;
    if (haul_grad(sum, leaves, count, g))
        fail_case("%s: %s", second, haul_error_message());
    else
        add_all(p, second, g, count);
}

/* ---- pointwise rows ---- */

typedef haul_tensor *unary_fn(haul_tensor *x);
typedef haul_tensor *unary1_fn(haul_tensor *x, double s);
typedef haul_tensor *unary2_fn(haul_tensor *x, double s0, double s1);
typedef haul_tensor *binary_fn(haul_tensor *a, haul_tensor *b);
typedef haul_tensor *scalar_fn(haul_tensor *a, double s);
typedef haul_status  unary_into_fn(haul_tensor *out, haul_tensor *x);
typedef haul_status  unary1_into_fn(haul_tensor *out, haul_tensor *x, double s);
typedef haul_status  unary2_into_fn(haul_tensor *out, haul_tensor *x, double s0, double s1);
typedef haul_status  binary_into_fn(haul_tensor *out, haul_tensor *a, haul_tensor *b);
typedef haul_status  scalar_into_fn(haul_tensor *out, haul_tensor *a, double s);

typedef struct row {
    const char *name;
    char        dtypes; /* the first letter of ANY, NUMBER ... */
    double      low, high;
    /* of its form, NULL of others */
    unary_fn       *unary;
    unary_into_fn  *unary_into;
    unary1_fn      *unary1;
    unary1_into_fn *unary1_into;
    unary2_fn      *unary2;
    unary2_into_fn *unary2_into;
    binary_fn      *binary;
    binary_into_fn *binary_into;
    scalar_fn      *scalar;
    scalar_into_fn *scalar_into;
} row;

#define ONE(op)                                                .unary = haul_##op, .unary_into = haul_##op##_into
#define FIVE(op)                                               .unary1 = haul_##op, .unary1_into = haul_##op##_into
#define SIX(op)                                                .unary2 = haul_##op, .unary2_into = haul_##op##_into
#define TWO(op)                                                .binary = haul_##op, .binary_into = haul_##op##_into
#define FIXED(op)                                              .scalar = haul_##op##_scalar, .scalar_into = haul_##op##_scalar_into
#define HAUL_UNARY(op, dtypes, formula, saves, gx, low, high)  {"haul_" #op, #dtypes[0], low, high, ONE(op)},
#define HAUL_UNARY_TO_BOOL(op, dtypes, formula, low, high)     {"haul_" #op, #dtypes[0], low, high, ONE(op)},
#define HAUL_UNARY1(op, dtypes, formula, saves, gx, low, high) {"haul_" #op, #dtypes[0], low, high, FIVE(op)},
#define HAUL_UNARY2(op, dtypes, formula, saves, gx, low, high) {"haul_" #op, #dtypes[0], low, high, SIX(op)},
#define HAUL_BINARY(op, dtypes, formula, saves, ga, gb, low, high)                                                     \
    {"haul_" #op, #dtypes[0], low, high, TWO(op), FIXED(op)},
#define HAUL_INTERNAL(op, dtypes, formula, saves, ga, gb, low, high)                                                   \
    {"haul_" #op, #dtypes[0], low, high, .binary = haul__##op},
#define HAUL_COMPARE(op, formula) {"haul_" #op, 'A', -4, 4, TWO(op), FIXED(op)},
static const row rows[] = {
#include <haul/pointwise.def>
};

/* The first number of rows that take some: one that all their dtypes hold, and an order of haul_polygamma. */
static double number_of(const row *r)
{
    static const char *const negative[] = {"haul_leaky_relu", "haul_clamp", "haul_threshold", "haul_affine"};
    for (size_t i = 0; i < sizeof negative / sizeof negative[0]; i++)
        if (strcmp(r->name, negative[i]) == 0)
            return -1;
    return 2;
}

static haul_tensor *call(const row *r, haul_tensor *a, haul_tensor *b)
{
    if (r->binary)
        return r->binary(a, b);
    return r->unary1 ? r->unary1(a, number_of(r)) : r->unary2 ? r->unary2(a, number_of(r), 2) : r->unary(a);
}

static haul_status call_into(const row *r, haul_tensor *out, haul_tensor *a, haul_tensor *b)
{
    if (r->binary)
        return r->binary_into(out, a, b);
    if (r->unary2)
        return r->unary2_into(out, a, number_of(r), 2);
    return r->unary1 ? r->unary1_into(out, a, number_of(r)) : r->unary_into(out, a);
}

static void row_on_shape(const row *r, const place *p, const char *kind, haul_shape shape, layout how)
{
    haul_tensor *a = operand(p, p->dtype, shape, how, r->low, r->high, 1);
    haul_tensor *b = r->binary ? operand(p, p->dtype, shape, how, r->low, r->high, 2) : NULL;
    add_tensor(p, kind, call(r, a, b));
}

/* Integers with a fractional number become f32, except in rows of bits, which refuse both. */
static bool takes_fractions(const row *r)
{
    return r->dtypes != 'B' && r->dtypes != 'I';
}

static void row_into(const row *r, const place *p, haul_tensor *a, haul_tensor *b)
{
    if (r->binary && !r->binary_into)
        return;
    haul_tensor *like = call(r, a, b), *out = haul_zeros_like(like);
    add_tensor(p, "into", call_into(r, out, a, b) ? NULL : out);
    if (!r->scalar)
        return;
    like = r->scalar(a, 2);
    out = haul_zeros_like(like);
    add_tensor(p, "scalar", like);
    add_tensor(p, "scalar_into", r->scalar_into(out, a, 2) ? NULL : out);
    if (takes_fractions(r))
        add_tensor(p, "scalar_fraction", r->scalar(a, 1.5));
}

static void row_gradients(const row *r, const place *p)
{
    const haul_shape shape = HAUL_SHAPE(3, 4, 5);
    haul_tensor     *in[2] = {NULL, NULL};
    int              count = r->binary ? 2 : 1;
    in[0] = haul_set_requires_grad(operand(p, p->dtype, shape, LAYOUT_contiguous, r->low, r->high, 3), true);
    if (r->binary) /* broadcast: its gradient is a sum */
        in[1] =
            haul_set_requires_grad(operand(p, p->dtype, HAUL_SHAPE(5), LAYOUT_contiguous, r->low, r->high, 4), true);
    add_gradients(p, "gradient", "second", call(r, in[0], in[1]), in, count);
    if (r->scalar)
        add_gradients(p, "scalar_gradient", NULL, r->scalar(in[0], 1.5), in, 1);
}

static const double specials[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, 2, 0.5, 1e30, -1e30, 1e-30, 88, -104};
#define SPECIALS (int)(sizeof specials / sizeof specials[0])

static void row_specials(const row *r, const place *p)
{
    double a[SPECIALS * SPECIALS], b[SPECIALS * SPECIALS];
    for (int i = 0; i < SPECIALS * SPECIALS; i++) {
        a[i] = specials[i / SPECIALS];
        b[i] = specials[i % SPECIALS];
    }
    const haul_shape shape = HAUL_SHAPE(SPECIALS * SPECIALS);
    haul_tensor     *left = make_operand(p->device, p->dtype, shape, LAYOUT_contiguous, a);
    haul_tensor     *right = r->binary ? make_operand(p->device, p->dtype, shape, LAYOUT_contiguous, b) : NULL;
    add_tensor(p, "specials", call(r, left, right));
}

static void run_row(const void *what, const place *p)
{
    const row       *r = what;
    const haul_shape small = HAUL_SHAPE(2, 3, 4, 5), large = HAUL_SHAPE(97, 211);
    haul_tensor     *a = operand(p, p->dtype, small, LAYOUT_contiguous, r->low, r->high, 1);
    haul_tensor     *b =
        r->binary ? operand(p, p->dtype, HAUL_SHAPE(3, 1, 5), LAYOUT_contiguous, r->low, r->high, 2) : NULL;
    row_on_shape(r, p, "contiguous", small, LAYOUT_contiguous);
    row_on_shape(r, p, "transposed", small, LAYOUT_transposed);
    row_on_shape(r, p, "stepped", small, LAYOUT_stepped);
    row_on_shape(r, p, "large", large, LAYOUT_contiguous);
    if (r->binary)
        add_tensor(p, "broadcast", call(r, a, b));
    row_into(r, p, a, b);
    if (!haul_dtype_is_float(p->dtype))
        return;
    row_specials(r, p);
    row_gradients(r, p);
}

/* ---- samples ---- */

static void run_sample_on(const sample *s, const place *p, layout how, const char *result, const char *first,
                          const char *second)
{
    static double values[MAX_ELEMENTS];
    haul_tensor  *in[MAX_INPUTS] = {NULL}, *leaves[MAX_INPUTS];
    int           count = 0;
    for (int i = 0; i < s->count; i++) {
        const input_spec *spec = &s->inputs[i];
        input_values(spec, i, p->dtype, values);
        in[i] = make_operand(p->device, input_dtype(spec, p->dtype), input_shape(spec), how, values);
        if (s->differentiable && spec->kind == 'V' && haul_dtype_is_float(p->dtype))
            in[i] = leaves[count++] = haul_set_requires_grad(haul_detach(in[i]), true);
    }
    haul_set_device(p->device);
    haul_tensor *y = s->run(in);
    add_tensor(p, result, y);
    haul_set_device(haul_cpu());
    add_gradients(p, first, s->differentiable == 2 ? NULL : second, y, leaves, count);
}

static void run_sample(const void *what, const place *p)
{
    const sample *s = what;
    run_sample_on(s, p, LAYOUT_contiguous, "contiguous", "gradient", "second");
    run_sample_on(s, p, LAYOUT_transposed, "transposed", "transposed_gradient", NULL);
    run_sample_on(s, p, LAYOUT_channels_last, "channels_last", "channels_last_gradient", NULL);
}

/* ---- making, converting and filling: what has neither a row nor a sample ---- */

static haul_tensor *converted(haul_tensor *x, haul_dtype dtype)
{
    haul_tensor *out = haul_zeros(dtype, haul_tensor_shape(x));
    return haul_copy_into(out, x) ? NULL : out;
}

static haul_tensor *filled(haul_tensor *x, double value)
{
    haul_tensor *out = haul_empty_like(x);
    return haul_fill_into(out, value) ? NULL : out;
}

typedef struct maker {
    char        dtypes;
    const char *name;
    haul_tensor *(*make)(haul_dtype t, haul_tensor *x);
} maker;

#define MADE(dtypes, name, expression)                                                                                 \
    static haul_tensor *make_##dtypes##_##name(haul_dtype t, haul_tensor *x)                                           \
    {                                                                                                                  \
        (void)t, (void)x;                                                                                              \
        return expression;                                                                                             \
    }
#include "made.def"
#undef MADE
#define MADE(dtypes, name, expression) {#dtypes[0], "haul_" #name, make_##dtypes##_##name},
static const maker makers[] = {
#include "made.def"
};

static bool maker_takes(const maker *m, haul_dtype dtype)
{
    bool integer = !haul_dtype_is_float(dtype) && dtype != HAUL_BOOL;
    switch (m->dtypes) {
    case 'A': return true;
    case 'F': return haul_dtype_is_float(dtype);
    case 'I': return integer;
    case 'L': return dtype == HAUL_I64;
    default: return dtype == HAUL_I32;
    }
}

static void run_maker(const void *what, const place *p)
{
    const maker *m = what;
    haul_tensor *x = operand(p, p->dtype, HAUL_SHAPE(7, 60), LAYOUT_transposed, -50, 50, 1);
    haul_set_device(p->device);
    haul_manual_seed(11);
    add_tensor(p, "made", m->make(p->dtype, x));
    haul_random_state state = haul_random_state_get();
    add(p, "random_state", hash_bytes(HASH_START, &state, sizeof state));
}

/* ---- training ---- */

typedef struct network {
    const char *name;
    haul_module *(*build)(void);
    haul_optimizer *(*optimize)(haul_module *net);
    haul_shape input; /* of a batch */
    int        steps;
    haul_dtype autocast; /* HAUL_DTYPE_NONE for none; f16 with loss scaling, and gradients are clipped */
} network;

static haul_module *build_simplecnn(void)
{
    return haul_model_new("simplecnn");
}

static haul_module *build_resnet(void)
{
    return haul_model_new("resnet18");
}

static haul_module *build_dropout(void)
{
    return HAUL_SEQUENTIAL(haul_nn_linear(20, 64), haul_nn_gelu(), haul_nn_dropout(0.3),
                           haul_nn_linear(64, 32, .relu = true), haul_nn_dropout(0.5), haul_nn_linear(32, 10));
}

static haul_module *build_batch_norm(void)
{
    return HAUL_SEQUENTIAL(haul_nn_conv2d(3, 8, 3, .no_bias = true), haul_nn_batch_norm(8), haul_nn_relu(),
                           haul_nn_avg_pool2d(2), haul_nn_flatten(1), haul_nn_linear(8 * 25, 40),
                           haul_nn_batch_norm(40), haul_nn_tanh(), haul_nn_linear(40, 10));
}

/* Convolutions with so many channels that a vendor's library takes them. */
static haul_module *build_wide(void)
{
    return HAUL_SEQUENTIAL(haul_nn_conv2d(3, 32, 3, .padding = {1, 1}), haul_nn_relu(),
                           haul_nn_conv2d(32, 48, 3, .stride = {2, 2}), haul_nn_relu(), haul_nn_conv2d(48, 64, 1),
                           haul_nn_sigmoid(), haul_nn_flatten(1), haul_nn_linear(64 * 25, 10));
}

static haul_optimizer *by_sgd(haul_module *net)
{
    return haul_sgd(net, 0.01, .momentum = 0.9, .weight_decay = 1e-4);
}

static haul_optimizer *by_nesterov(haul_module *net)
{
    return haul_sgd(net, 0.05, .momentum = 0.8, .nesterov = true);
}

static haul_optimizer *by_adam(haul_module *net)
{
    return haul_adam(net, 0.002, .weight_decay = 1e-3);
}

static haul_optimizer *by_adamw(haul_module *net)
{
    return haul_adamw(net, 0.003, .weight_decay = 1e-2);
}

#define PICTURES(n, size)                                                                                              \
    {                                                                                                                  \
        4,                                                                                                             \
        {                                                                                                              \
            n, 3, size, size                                                                                           \
        }                                                                                                              \
    }
static const network networks[] = {
    {"train_simplecnn_sgd", build_simplecnn, by_sgd, PICTURES(16, 32), 20, HAUL_DTYPE_NONE},
    {"train_simplecnn_adam", build_simplecnn, by_adam, PICTURES(16, 32), 20, HAUL_DTYPE_NONE},
    {"train_simplecnn_bf16", build_simplecnn, by_sgd, PICTURES(8, 32), 6, HAUL_BF16},
    {"train_simplecnn_f16", build_simplecnn, by_adam, PICTURES(8, 32), 6, HAUL_F16},
    {"train_dropout", build_dropout, by_nesterov, {2, {16, 20}}, 20, HAUL_DTYPE_NONE},
    {"train_batch_norm", build_batch_norm, by_adamw, PICTURES(8, 12), 20, HAUL_DTYPE_NONE},
    {"train_wide", build_wide, by_sgd, PICTURES(8, 12), 6, HAUL_DTYPE_NONE},
    {"train_resnet18", build_resnet, by_sgd, PICTURES(2, 8), 2, HAUL_DTYPE_NONE},
};

typedef struct training {
    haul_module      *net;
    haul_optimizer   *optimizer;
    haul_grad_scaler *scaler; /* NULL without loss scaling */
    haul_dtype        autocast;
} training;

/* The loss, or NaN with the error set. */
static double train_step(const training *t, haul_tensor *x, haul_tensor *y)
{
    haul_scope *scope = haul_scope_push();
    haul_optimizer_zero_grad(t->optimizer);
    haul_autocast_state before = haul_autocast_begin("all", t->autocast);
    haul_tensor        *loss = haul_cross_entropy(haul_call(t->net, x), y);
    haul_autocast_end(before);
    double value = haul_item(loss);
    if (t->scaler) {
        haul_backward(haul_grad_scaler_scale(t->scaler, loss));
        haul_grad_scaler_unscale(t->scaler, t->optimizer);
        haul_clip_grad_norm(t->net, 0.5);
        haul_grad_scaler_step(t->scaler, t->optimizer);
        haul_grad_scaler_update(t->scaler);
    } else {
        haul_backward(loss);
        haul_optimizer_step(t->optimizer);
    }
    haul_scope_pop(scope);
    return haul_error_status() ? NAN : value;
}

static uint64_t hash_named(const haul_named_tensor *tensors, int count)
{
    uint64_t hash = HASH_START;
    for (int i = 0; i < count; i++) {
        hash = hash_bytes(hash, tensors[i].name, strlen(tensors[i].name));
        hash = hash_tensor(hash, tensors[i].tensor);
    }
    return hash;
}

static void train(const void *what, const place *p)
{
    const network    *n = what;
    haul_named_tensor tensors[256];
    uint64_t          losses = HASH_START;
    haul_set_device(p->device);
    haul_manual_seed(5);
    training t = {.net = n->build(), .autocast = n->autocast};
    t.optimizer = n->optimize(t.net);
    t.scaler = n->autocast == HAUL_F16 ? haul_grad_scaler_new(t.optimizer) : NULL;
    haul_tensor *x = haul_uniform(HAUL_F32, n->input, -1, 1);
    haul_tensor *y = haul_randint(HAUL_I64, HAUL_SHAPE(n->input.dims[0]), 0, 10);
    for (int i = 0; i < n->steps && !haul_error_status(); i++) {
        double loss = train_step(&t, x, y);
        losses = hash_bytes(losses, &loss, sizeof loss);
    }
    int weights = haul_module_tensors(t.net, tensors, 256);
    add(p, "losses", losses);
    add(p, "weights", hash_named(tensors, weights));
    add(p, "state", hash_named(tensors, haul_optimizer_state(t.optimizer, tensors, 256)));
    haul_module_train(t.net, false);
    add_tensor(p, "evaluation", haul_call(t.net, x));
    if (haul_error_status())
        fail_case("%s", haul_error_message());
}

/* ---- everything ---- */

#define COUNT(table) (int)(sizeof(table) / sizeof(table)[0])

/* In a scope of its own, unless HAUL_CASE leaves it out. */
static void run_case(void (*run)(const void *what, const place *p), const void *what, const place *p)
{
    if (!begin_case("%s/%s/%s", p->name, haul_dtype_name(p->dtype), haul_device_name(p->device)))
        return;
    haul_scope *scope = haul_scope_push();
    haul_error_clear();
    run(what, p);
    haul_scope_pop(scope);
}

static bool row_takes(const row *r, haul_dtype dtype)
{
    if (!takes_fractions(r))
        return !haul_dtype_is_float(dtype) && (r->dtypes == 'B' || dtype != HAUL_BOOL);
    return !(r->dtypes == 'N' && dtype == HAUL_BOOL);
}

static void run_device(fingerprint_list *list, haul_device *device)
{
    for (int i = 0; i < COUNT(rows); i++)
        for (int t = 0; t < test_dtype_count; t++)
            if (row_takes(&rows[i], test_dtypes[t]))
                run_case(run_row, &rows[i], &(place){list, rows[i].name, device, test_dtypes[t]});
    for (int i = 0; i < sample_count; i++)
        for (int t = 0; t < test_dtype_count; t++)
            if (sample_takes(&samples[i], test_dtypes[t]))
                run_case(run_sample, &samples[i], &(place){list, samples[i].name, device, test_dtypes[t]});
    for (int i = 0; i < COUNT(makers); i++)
        for (int t = 0; t < test_dtype_count; t++)
            if (maker_takes(&makers[i], test_dtypes[t]))
                run_case(run_maker, &makers[i], &(place){list, makers[i].name, device, test_dtypes[t]});
    for (int i = 0; i < COUNT(networks); i++)
        run_case(train, &networks[i], &(place){list, networks[i].name, device, HAUL_F32});
}

static void run_all(fingerprint_list *list)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    for (int d = 0; d < count; d++)
        run_device(list, devices[d]);
}

/* Everything once more, with another number of threads. */
static void run_again(const fingerprint_list *first)
{
    fingerprint_list second = {0};
    int              threads = haul_num_threads();
    haul_set_num_threads(threads > 1 ? threads - 1 : 3);
    run_all(&second);
    haul_set_num_threads(threads);
    fingerprint_compare_runs(first, &second);
    fingerprint_free(&second);
}

static void leave_lines(const fingerprint_list *list)
{
    FILE *file = fopen(HAUL_BUILD "/fingerprints.txt", "w");
    if (file) {
        fingerprint_print(list, file);
        fclose(file);
    }
    if (is_set("HAUL_FINGERPRINT_DETAIL"))
        fingerprint_print(list, stdout);
}

int main(void)
{
    haul_scope      *program = haul_scope_push();
    fingerprint_list list = {0};
    char             path[512];
    golden_path(path, sizeof path);
    run_all(&list);
    leave_lines(&list);
    bool           update = is_set("HAUL_FINGERPRINT_UPDATE");
    golden_outcome outcome = update ? GOLDEN_ABSENT : golden_compare(path, &list);
    if (outcome != GOLDEN_COMPARED) {
        if (outcome == GOLDEN_ABSENT && !update)
            printf("no golden file for this machine type, %s: two runs are compared\n", path);
        run_again(&list);
    }
    int failed = finish_cases("fingerprints");
    if (update && !failed && !getenv("HAUL_CASE"))
        failed = !golden_write(path, &list);
    fingerprint_free(&list);
    haul_scope_pop(program);
    return failed;
}
