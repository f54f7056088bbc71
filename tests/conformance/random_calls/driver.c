/* Random calls of the public interface: objects that are valid, stale, failed, of another kind, or not there, and
 * numbers of all kinds. calls.h, which random_calls.py writes from the headers, has a function for each public one.
 *
 *     driver CALLS THREADS SEED */
#include <haul/haul.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many functions calls.h has. */
#include "count.h"

/* Kinds of objects: the pool has a row of each. */
enum kind {
    TENSOR,
    MODULE,
    OPTIMIZER,
    DATASET,
    LOADER,
    SCHEDULE,
    AVERAGE,
    LEDGER,
    PROFILE,
    SCALER,
    GENERATOR,
    SAFETENSORS,
    TRANSFORM,
    BEST_WEIGHTS,
    RECORDING,
    PARALLEL,
    PLAN,
    GROUP,
    KINDS
};
enum { ROW = 24, LIST = 8, SCOPES = 6, KEPT = 64 };

typedef struct run {
    uint64_t          state;
    void             *pool[KINDS][ROW];
    haul_scope       *scopes[SCOPES];
    int               depth;
    void             *kept[KEPT];
    int               kept_count;
    haul_tensor      *tensors[LIST], *outs[LIST];
    haul_module      *modules[LIST];
    haul_schedule    *schedules[LIST];
    haul_average     *averages[LIST];
    haul_optimizer   *optimizers[LIST];
    haul_named_tensor named[LIST];
    haul_named_module children[LIST];
    haul_text_pair    pairs[LIST];
    int               axes[LIST];
    int64_t           numbers[LIST];
    haul_transform   *transforms[LIST];
    haul_dataset     *datasets[LIST], *parts[16];
    const char       *texts[LIST];
    long long         calls, failures;
    bool              succeeded;                /* what the last call returned says so */
    bool              done[CALLS];              /* which functions succeeded */
    _Alignas(64) unsigned char buffer[1 << 16]; /* what calls read and write */
} run;

static uint64_t next(run *r)
{
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return r->state >> 33;
}

static bool one_in(run *r, unsigned n)
{
    return next(r) % n == 0;
}

/* ---- values ---- */

static int64_t integer(run *r)
{
    static const int64_t some[] = {INT64_MAX, INT64_MIN, INT_MAX, INT_MIN, (int64_t)1 << 53};
    return one_in(r, 60) ? some[next(r) % 5] : (int64_t)(next(r) % 8) - 2;
}

/* Lengths of lists, which have LIST elements. */
static int length(run *r)
{
    return (int)(next(r) % (LIST + 2)) - 1;
}

static size_t size(run *r)
{
    static const size_t some[] = {0, 1, 4, 8, 16, 64, 4096, 1 << 16};
    return some[next(r) % 8];
}

static double number(run *r)
{
    static const double some[] = {NAN, INFINITY, -INFINITY, 1e300, -0.0, 1e10, 0.5, 1e-300};
    return one_in(r, 4) ? some[next(r) % 8] : (double)(next(r) % 6) - 1;
}

static haul_dtype dtype(run *r)
{
    return one_in(r, 2) ? HAUL_F32 : (haul_dtype)(next(r) % (HAUL_DTYPE_END + 2));
}

static haul_shape shape(run *r)
{
    if (one_in(r, 2))
        return HAUL_SHAPE(2, 3);
    haul_shape s = {.ndim = (int)(next(r) % 5)};
    if (one_in(r, 40))
        s.ndim = one_in(r, 2) ? HAUL_MAX_DIMS + 1 : -1;
    for (int i = 0; i < HAUL_MAX_DIMS; i++)
        s.dims[i] = one_in(r, 20) ? -1 : (int64_t)(next(r) % 4) + !one_in(r, 20);
    return s;
}

static const char *text(run *r)
{
    static const char *const some[] = {
        "x.npy",     "x.safetensors", "x.checkpoint", "missing", "",    "0", "weight", "bias",
        "simplecnn", "dense",         "cpu",          "meta",    "all", "x", "y",      NULL};
    return some[next(r) % (sizeof some / sizeof *some)];
}

static void *memory(run *r)
{
    return one_in(r, 40) ? NULL : r->buffer;
}

/* ---- objects ---- */

static haul_device *device(run *r)
{
    const unsigned n = (unsigned)(next(r) % 20);
    if (n == 0)
        return r->pool[next(r) % KINDS][next(r) % ROW];
    return n == 1 ? NULL : n == 2 ? haul_device_get("nowhere:3") : n < 6 ? haul_device_get("meta") : haul_cpu();
}

static void *object(run *r, enum kind kind)
{
    switch (next(r) % 60) {
    case 0: return NULL;
    case 1: return haul_none;
    case 2: return haul_cpu();
    case 3: return r->depth ? (void *)r->scopes[next(r) % (unsigned)r->depth] : NULL;
    case 4:
    case 5: /* of another kind */ return r->pool[next(r) % KINDS][next(r) % ROW];
    default: return r->pool[kind][next(r) % ROW];
    }
}

static haul_tensor *tensor(run *r)
{
    return object(r, TENSOR);
}

static haul_scope *scope(run *r)
{
    return r->depth && !one_in(r, 20) ? r->scopes[next(r) % (unsigned)r->depth] : memory(r);
}

static bool hold(run *r, enum kind kind, const void *result)
{
    if (result)
        r->pool[kind][next(r) % ROW] = (void *)result;
    return result;
}

static void hold_tensor(run *r, haul_tensor *result)
{
    r->succeeded = haul_tensor_is_valid(result);
    hold(r, TENSOR, result);
}

static void look_at(const char *answer)
{
    if (answer && strlen(answer) > 1 << 20)
        abort();
}

/* Fill the lists that calls take. */
static void fill_lists(run *r)
{
    for (int i = 0; i < LIST; i++) {
        r->tensors[i] = tensor(r);
        r->modules[i] = object(r, MODULE);
        r->schedules[i] = object(r, SCHEDULE);
        r->averages[i] = object(r, AVERAGE);
        r->optimizers[i] = object(r, OPTIMIZER);
        r->named[i] = (haul_named_tensor){.name = text(r), .tensor = tensor(r)};
        r->children[i] = (haul_named_module){.name = text(r), .module = object(r, MODULE)};
        r->pairs[i] = (haul_text_pair){.key = text(r), .value = text(r)};
        r->axes[i] = (int)integer(r);
        r->numbers[i] = (int64_t)((uint64_t)integer(r) + 2 * (uint64_t)i);
        r->transforms[i] = object(r, TRANSFORM);
        r->datasets[i] = object(r, DATASET);
    }
}

static haul_tensor *forward(haul_module *self, haul_args *args)
{
    (void)self;
    args->y[1] = args->x[1];
    return args->training ? haul_relu(args->x[0]) : args->x[0];
}

static haul_status hook(haul_module *module, haul_args *args, void *context)
{
    (void)module;
    (void)context;
    args->x[0] = haul_neg(args->x[0]);
    return HAUL_OK;
}

static haul_status update(const haul_optimizer_update *u, void *context)
{
    (void)context;
    return haul_sub_into(u->parameter, u->parameter, u->gradient);
}

static haul_tensor *closure(void *context)
{
    (void)context;
    return haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, 0.5);
}

static haul_tensor *gradient_hook(haul_tensor *gradient, void *context)
{
    (void)context;
    return haul_neg(gradient);
}

static haul_status leaf_hook(haul_tensor *leaf, void *context)
{
    (void)context;
    return haul_set_grad(leaf, HAUL_NONE);
}

static haul_status visit(haul_module *module, void *context)
{
    (void)context;
    return haul_module_train(module, true);
}

static haul_tensor *function(haul_tensor *const *inputs, int count, void *context)
{
    (void)context;
    return count ? haul_square(inputs[0]) : NULL;
}

/* A step that now and then does something else. */
static haul_status recorded(void *context)
{
    static atomic_uint calls;
    (void)context;
    haul_tensor *x = haul_uniform(HAUL_F32, HAUL_SHAPE(2, 3), 0, 1);
    return haul_tensor_check(haul_sum(atomic_fetch_add(&calls, 1) % 16 ? haul_relu(x) : haul_mul(x, x)));
}

/* The second field varies in size. */
static haul_status read_example(void *context, haul_example *e)
{
    (void)context;
    float *values = haul_example_resize(e, 1, HAUL_F32, HAUL_SHAPE(e->index));
    if (!values)
        return haul_error_status();
    for (int64_t i = 0; i < e->index; i++)
        values[i] = (float)haul_draw_normal(&e->draws);
    *(float *)haul_example_field(e, "x")->data = (float)e->index;
    return e->index == 5 ? haul_error_set(HAUL_IO, "read_example", NULL, "example 5") : HAUL_OK;
}

static const haul_dataset_source source = {
    .fields = {{.name = "x", .dtype = HAUL_F32}, {.name = "y", .dtype = HAUL_F32, .shape = {1, {-1}}}},
    .count = 6,
    .name = "numbers",
    .read = read_example};

/* ---- operations of the program's own ---- */

static haul_status compose(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    y[0] = c->operands[0].count % 2 ? x[0] : haul_mul_scalar(x[0], *(const double *)c->attributes);
    return haul_tensor_check(y[0]);
}

static haul_status infer(haul_custom_call *c)
{
    c->results[0].dtype = c->operands[0].dtype;
    c->results[0].shape = HAUL_SHAPE(c->operands[0].count);
    c->results[1] = c->results[0];
    return HAUL_OK;
}

static haul_status host(const haul_custom_call *c)
{
    const float *x = c->operands[0].data;
    float       *y = c->results[0].data, *z = c->results[1].data;
    for (int64_t i = 0; i < c->operands[0].count; i++)
        y[i] = z[i] = x[i] + (float)c->operands[1].count;
    return HAUL_OK;
}

static void gradient(haul_custom_gradient *g)
{
    g->operands[0] = haul_reshape(g->results[0], g->shapes[0]);
}

static haul_custom_operation operations[] = {
    {.name = "random_compose",
     .operands = {{"x"}},
     .results = {{"y"}},
     .attributes_size = sizeof(double),
     .compose = compose},
    {.name = "random_host",
     .operands = {{"x"}, {"other", .optional = true, .dtypes = HAUL_FLOATING_DTYPES}},
     .results = {{"y"}, {"z"}},
     .dtypes = HAUL_DTYPE_BIT(HAUL_F32),
     .infer = infer,
     .host = host,
     .gradient = gradient},
    {.name = "random_nothing", .operands = {{"x"}}, .results = {{"y"}}},
};

static haul_custom_operation *operation(run *r)
{
    return &operations[next(r) % 3];
}

#include "calls.h"

/* ---- lifetimes, which have rules of their own ---- */

static void push(run *r)
{
    if (r->depth < SCOPES && (r->scopes[r->depth] = one_in(r, 2) ? haul_scope_push() : haul_scope_push_named("random")))
        r->depth++;
}

/* The objects in the outermost scope, among them ledgers that watch every call, live no longer than those of others. */
static void renew(run *r)
{
    haul_scope_pop(r->scopes[--r->depth]);
    push(r);
}

static void pop(run *r)
{
    if (r->depth < 2) {
        if (one_in(r, 4))
            renew(r);
        return;
    }
    haul_scope *scope = r->scopes[--r->depth];
    if (one_in(r, 3))
        hold(r, TENSOR, haul_scope_return(scope, tensor(r)));
    else
        haul_scope_pop(scope);
    if (one_in(r, 10)) /* popped already */
        haul_scope_pop(scope);
}

static void keep(run *r)
{
    void *p = object(r, (enum kind)(next(r) % KINDS));
    if (r->kept_count == KEPT)
        return;
    haul_error_clear();
    if (one_in(r, 2))
        haul_keep(p);
    else
        p = haul_take(p);
    if (p && !haul_error_status())
        r->kept[r->kept_count++] = p;
}

static void give_up(run *r)
{
    if (one_in(r, 3))
        haul_drop(object(r, (enum kind)(next(r) % KINDS)));
    else if (one_in(r, 8))
        haul_release(object(r, (enum kind)(next(r) % KINDS))); /* not held: refused, or one of those that are */
    else if (r->kept_count)
        haul_release(r->kept[--r->kept_count]);
}

static haul_status estimated(void *context)
{
    run *r = context;
    return haul_tensor_check(haul_matmul(tensor(r), tensor(r)));
}

static haul_status fitted(void *context, int64_t batch)
{
    return batch > 1000 ? haul_error_set(HAUL_OUT_OF_MEMORY, "test", NULL, "too many") : estimated(context);
}

static void fit(run *r)
{
    haul_fit_result result;
    const int64_t   limits[] = {0, -1, 1, 1000, 100000000};
    haul_fit(fitted, r, &result, .module = one_in(r, 2) ? object(r, MODULE) : NULL,
             .device = one_in(r, 4) ? device(r) : NULL, .memory_limit = limits[next(r) % 5],
             .allow = (unsigned)(next(r) % 32), .batch = 1 + (int64_t)(next(r) % 4), .apply = one_in(r, 2));
}

static void estimate(run *r)
{
    haul_estimate_result result;
    haul_program         program;
    if (haul_estimate(estimated, r, &result) == HAUL_OK)
        haul_estimate_free(&result);
    if (haul_program_record(estimated, r, &program) == HAUL_OK)
        haul_program_free(&program);
    hold(r, PLAN, haul_plan_new(estimated, r, .module = object(r, MODULE), .machine = "h200"));
    fit(r);
}

static void make_steps(run *r)
{
    for (int i = 0; i < 3; i++)
        haul_recording_run(object(r, RECORDING));
}

static void next_batch(run *r)
{
    const haul_batch *batch = haul_loader_next(object(r, LOADER));
    if (batch) {
        hold(r, TENSOR, batch->x);
        hold(r, TENSOR, batch->y);
        hold(r, TENSOR, haul_batch_tensor(batch, text(r)));
        hold(r, TENSOR, haul_batch_lengths(batch, text(r)));
    }
}

static void (*const own_calls[])(run *) = {push, pop, keep, give_up, estimate, make_steps, next_batch};

/* ---- running ---- */

static void restock(run *r)
{
    haul_set_device(haul_cpu());
    haul_memory_set_limit(haul_cpu(), (int64_t)1 << 30);
    for (int i = 0; i < r->depth; i++)
        haul_scope_set_memory_limit(r->scopes[i], haul_cpu(), (int64_t)1 << 30);
    haul_set_num_threads(2);
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(3, 2), haul_nn_relu());
    hold(r, MODULE, net);
    hold(r, OPTIMIZER, haul_sgd(net, 0.1, .momentum = 0.9));
    hold(r, SCALER, haul_grad_scaler_new(r->pool[OPTIMIZER][next(r) % ROW]));
    hold(r, GENERATOR, haul_generator_new(next(r)));
    hold(r, GROUP, haul_group_split(haul_group_get("none"), 0, 0));
    hold(r, AVERAGE, haul_average_new(net, .decay = 0.5));
    hold(r, BEST_WEIGHTS, haul_best_weights_new(net));
    hold(r, RECORDING, haul_recording_new(recorded, NULL, .variants = 1 + (int)(next(r) % 3)));
    hold(r, PARALLEL, haul_parallel_new(net, .pieces = 1 << next(r) % 3));
    hold(r, LEDGER, haul_ledger_begin(.device_times = one_in(r, 2)));
    haul_profile *profile = haul_profile_begin(.most_events = 500);
    hold(r, PROFILE, profile);
    if (one_in(r, 2)) {
        haul_sqrt(r->pool[TENSOR][next(r) % ROW]);
        haul_profile_end(profile);
    }
    hold(r, SCHEDULE, haul_schedule_cosine(r->pool[OPTIMIZER][next(r) % ROW], 10));
    hold(r, DATASET, haul_blobs(6));
    hold(r, TRANSFORM, haul_normalise("x"));
    hold(r, LOADER, haul_loader_new(r->pool[DATASET][next(r) % ROW], .batch = 2, .workers = one_in(r, 4)));
    hold(r, SAFETENSORS, haul_open_safetensors("x.safetensors"));
    const haul_shape shapes[] = {HAUL_SHAPE(2, 3), HAUL_SHAPE(2, 3),  HAUL_SHAPE(3, 2),
                                 HAUL_SHAPE(3),    HAUL_SCALAR_SHAPE, HAUL_SHAPE(1, 2, 4, 4)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        haul_tensor *t = haul_uniform(HAUL_F32, shapes[i], -1, 1);
        hold(r, TENSOR, one_in(r, 2) ? haul_set_requires_grad(t, true) : t);
    }
    hold(r, TENSOR, haul_randint(HAUL_I64, HAUL_SHAPE(2), 0, 2));
    hold(r, TENSOR, haul_zeros(HAUL_BOOL, HAUL_SHAPE(2, 3)));
}

static void expect_no_error(const char *name)
{
    if (!haul_error_status())
        return;
    fprintf(stderr, "%s succeeded and recorded an error: %s\n", name, haul_error_message());
    abort();
}

static void call_one(run *r)
{
    const bool     verbose = getenv("VERBOSE") != NULL;
    const unsigned n = (unsigned)(next(r) % (CALLS + 60));
    if (r->calls % 16 == 0)
        restock(r);
    if (r->calls % 7 == 0)
        fill_lists(r);
    if (verbose)
        fprintf(stderr, "%lld %s\n", r->calls, n < CALLS ? calls[n].name : "lifetimes");
    const bool clear = !one_in(r, 5);
    if (clear)
        haul_error_clear();
    r->succeeded = false;
    if (n < CALLS)
        calls[n].call(r);
    else
        own_calls[n % (sizeof own_calls / sizeof *own_calls)](r);
    r->calls++;
    if (clear && n < CALLS && r->succeeded)
        expect_no_error(calls[n].name);
    if (haul_error_status())
        r->failures++;
    else if (n < CALLS)
        r->done[n] = true;
    if (haul_error_status() && !*haul_error_message())
        abort(); /* an error without words */
}

static long long wanted;

static void *run_calls(void *context)
{
    run *r = context;
    push(r);
    while (r->calls < wanted)
        call_one(r);
    while (r->kept_count)
        haul_release(r->kept[--r->kept_count]);
    haul_autocast_end((haul_autocast_state){0});
    while (haul_label_end() == HAUL_OK)
        ;
    while (r->depth)
        haul_scope_pop(r->scopes[--r->depth]);
    return NULL;
}

int main(int argc, char **argv)
{
    const int threads = argc > 2 ? atoi(argv[2]) : 1;
    uint64_t  seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    run      *runs = calloc((size_t)threads, sizeof *runs);
    pthread_t ids[64];
    if (!runs || threads < 1 || threads > 64)
        return 2;
    wanted = (argc > 1 ? atoll(argv[1]) : 10000) / threads;
    for (int i = 0; i < threads; i++) {
        runs[i].state = seed * 64 + (uint64_t)i;
        if (pthread_create(&ids[i], NULL, run_calls, &runs[i]))
            return 2;
    }
    long long made = 0, failures = 0;
    int       done = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        made += runs[i].calls;
        failures += runs[i].failures;
    }
    for (int n = 0; n < CALLS; n++) {
        bool any = false;
        for (int i = 0; i < threads; i++)
            any = any || runs[i].done[n];
        done += any;
        if (!any && getenv("VERBOSE"))
            fprintf(stderr, "never succeeded: %s\n", calls[n].name);
    }
    free(runs);
    fprintf(stderr, "%lld calls, %lld failed; %d of %d functions succeeded at least once\n", made, failures, done,
            CALLS);
    return made >= 20000 && 10 * done < 7 * CALLS; /* they should not fail before they do anything */
}
