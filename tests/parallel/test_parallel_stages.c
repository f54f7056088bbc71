/* Training with a stage of the network on each rank: weights, buffers, losses and the optimizer's state are those of
 * one rank with as many pieces, bit for bit, a rank has its own stage alone, and a rank that fails in a step ends the
 * others.
 *
 * ctest: labels=threads */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "memory/spill/elsewhere.h"
#include "parallel/passage.h"
#include "support/scope.h"

enum { FEATURES = 6, CLASSES = 3, PIECES = 4, SIZE = 4, STEPS = 3, MOST_RANKS = 4, MOST_VALUES = 8192 };

static void check(haul_status status)
{
    if (status)
        fail_msg("%s", haul_error_message());
}

typedef haul_module *make_network(void);

/* What all ranks train, and what each has afterwards. */
typedef struct training {
    make_network *network;
    haul_shape    input; /* of an example */
    int           stages;
    const char   *cuts;
    bool          scales;  /* f16, with a loss scale that overflows at first */
    int           failing; /* the rank that fails in the second step; -1: none */
    int64_t       counts[MOST_RANKS];
    float         values[MOST_RANKS][MOST_VALUES];
    float         losses[MOST_RANKS][STEPS];
    float         results[PIECES * SIZE * CLASSES]; /* of the last rank's evaluation */
    int           away[MOST_RANKS];                 /* parameters without memory during the training */
} training;

static _Thread_local bool breaks;

/* Fails on a rank that breaks. */
static haul_tensor *fragile_forward(haul_module *module, haul_args *args)
{
    (void)module;
    return breaks ? haul_tensor_fail(HAUL_STATE, "fragile", NULL, "it broke") : haul_mul_scalar(args->x[0], 1);
}

static haul_module *fragile(void)
{
    return haul_module_new("fragile", fragile_forward);
}

/* A fragile module for each of three stages. */
static haul_module *fragile_dense(void)
{
    return HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, 8), fragile(), haul_nn_linear(8, 8), fragile(),
                           haul_nn_linear(8, CLASSES), fragile());
}

static haul_module *dense(void)
{
    return HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, 16), haul_nn_batch_norm(16), haul_nn_relu(),
                           HAUL_SEQUENTIAL(haul_nn_dropout(0.2), haul_nn_linear(16, 24), haul_nn_tanh()),
                           haul_nn_linear(24, 16), haul_nn_batch_norm(16), haul_nn_linear(16, CLASSES));
}

/* Pictures whose channels are last in memory. */
static haul_module *pictures(void)
{
    haul_module *net =
        HAUL_SEQUENTIAL(haul_nn_conv2d(2, 8, 3, .padding = {1, 1}), haul_nn_batch_norm(8), haul_nn_relu(),
                        haul_nn_conv2d(8, 8, 3, .padding = {1, 1}), haul_nn_max_pool2d(2), haul_nn_flatten(1),
                        haul_nn_linear(32, 16), haul_nn_relu(), haul_nn_linear(16, CLASSES));
    check(haul_module_to_memory_format(net, HAUL_CHANNELS_LAST));
    return net;
}

/* Draws wherever it is called, in each stage, also outside of training. */
static haul_tensor *noisy_forward(haul_module *module, haul_args *args)
{
    (void)module;
    return haul_add(args->x[0], haul_normal(HAUL_F32, args->x[0]->shape, 0, 1));
}

static haul_module *noisy(void)
{
    return haul_module_new("noisy", noisy_forward);
}

static haul_module *random_stages(void)
{
    return HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, 16), haul_nn_dropout(0.3), noisy(), haul_nn_linear(16, 16),
                           haul_nn_dropout(0.3), noisy(), haul_nn_linear(16, 16), haul_nn_dropout(0.3),
                           haul_nn_linear(16, CLASSES), noisy());
}

/* Its gradient needs its buffer. */
static haul_tensor *scaled_forward(haul_module *module, haul_args *args)
{
    return haul_mul(args->x[0], haul_module_buffer(module, "scale"));
}

static haul_module *scaled(void)
{
    haul_module *scale = haul_module_new("scaled", scaled_forward);
    check(haul_module_add_buffer(scale, "scale", haul_full(HAUL_F32, HAUL_SHAPE(16), 2)));
    return HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, 16), haul_nn_batch_norm(16), scale, haul_nn_linear(16, CLASSES));
}

/* The gradient of an averaged picture has strides of 0. */
static haul_module *averaged(void)
{
    return HAUL_SEQUENTIAL(haul_nn_conv2d(2, 16, 3), haul_nn_adaptive_avg_pool2d(1, 1), haul_nn_flatten(1),
                           haul_nn_linear(16, CLASSES));
}

static haul_tensor *detached_forward(haul_module *module, haul_args *args)
{
    (void)module;
    return haul_detach(args->x[0]);
}

/* The first stages get no gradient. */
static haul_module *detached(void)
{
    return HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, 16), haul_nn_linear(16, 16),
                           haul_module_new("detached", detached_forward), haul_nn_linear(16, CLASSES));
}

static int64_t read_all(haul_named_tensor *all, int n, float *out, int64_t at)
{
    for (int i = 0; i < n; i++) {
        const int64_t count = haul_tensor_count(all[i].tensor);
        assert_true(at + count <= MOST_VALUES);
        check(haul_read(haul_cast(haul_detach(all[i].tensor), HAUL_F32), out + at, (size_t)count * sizeof *out));
        at += count;
    }
    return at;
}

static int64_t read_state(haul_module *net, haul_optimizer *adamw, float *out)
{
    haul_named_tensor all[64];
    int               n = haul_module_tensors(net, all, 64);
    assert_in_range(n, 1, 64);
    int64_t at = read_all(all, n, out, 0);
    n = haul_optimizer_state(adamw, all, 64);
    assert_in_range(n, 1, 64);
    return read_all(all, n, out, at);
}

static int count_away(haul_module *net)
{
    haul_named_tensor all[64];
    int               n = haul_module_tensors(net, all, 64), away = 0;
    for (int i = 0; i < n; i++)
        away += haul__is_given_up(all[i].tensor->storage);
    return away;
}

static haul_tensor *call(const training *t, haul_parallel *p, haul_tensor *x)
{
    haul_autocast_state before = haul_autocast_begin("all", t->scales ? HAUL_F16 : HAUL_DTYPE_NONE);
    haul_tensor        *y = haul_parallel_call(p, x);
    return haul_autocast_end(before) ? haul_tensor_fail(haul_error_status(), NULL, NULL, "autocast") : y;
}

static haul_status piece(const training *t, haul_parallel *p, haul_tensor *x, haul_tensor *y, int64_t step, int number)
{
    /* The last piece of the last step is empty, and the one before has fewer examples. */
    const bool   last = step == STEPS - 1;
    const int    size = !last || number < PIECES - 2 ? SIZE : number == PIECES - 2 ? 2 : 0, from = number * SIZE;
    haul_scope  *inner = haul_scope_push();
    haul_status  status = haul_parallel_begin(p, step);
    haul_tensor *sum = HAUL_NONE;
    if (size)
        sum = call(t, p, haul_slice(x, 0, from, from + size, 1));
    if (sum != HAUL_NONE)
        sum = haul_cross_entropy(haul_cast(sum, HAUL_F32), haul_slice(y, 0, from, from + size, 1),
                                 .reduction = HAUL_REDUCE_SUM);
    if (!status)
        status = haul_parallel_backward(p, sum, size);
    haul_scope_pop(inner);
    return status;
}

static haul_status update(haul_module *net, haul_parallel *p, haul_optimizer *adamw, haul_grad_scaler *scaler)
{
    haul_status status = scaler ? haul_grad_scaler_unscale(scaler, adamw) : HAUL_OK;
    if (status)
        return status;
    haul_clip_grad_norm(net, 0.5);
    status = haul_parallel_step(p, adamw);
    return status || !scaler ? status : haul_grad_scaler_update(scaler);
}

/* The last rank has the results. */
static haul_status evaluate(training *t, haul_module *net, haul_parallel *p, haul_tensor *x)
{
    haul_module_train(net, false);
    haul_tensor *y = call(t, p, x);
    if (y == HAUL_NONE)
        return HAUL_OK;
    return haul_read(haul_cast(haul_detach(y), HAUL_F32), t->results, sizeof t->results);
}

static haul_status train(haul_group *group, void *context)
{
    training         *t = context;
    const int         rank = haul_group_rank(group);
    haul_module      *net = t->network();
    haul_optimizer   *adamw = haul_adamw(net, 0.01);
    haul_grad_scaler *scaler = t->scales ? haul_grad_scaler_new(adamw, .init_scale = 1e7) : NULL;
    haul_parallel    *p = haul_parallel_new(net, .group = group, .pieces = PIECES, .seed = 5, .scaler = scaler,
                                            .stages = t->stages, .cuts = t->cuts);
    haul_shape        shape = t->input;
    memmove(shape.dims + 1, shape.dims, (size_t)shape.ndim * sizeof *shape.dims);
    shape.dims[0] = PIECES * SIZE;
    shape.ndim++;
    haul_tensor *x = haul_normal(HAUL_F32, shape, 0, 1),
                *y = haul_randint(HAUL_I64, HAUL_SHAPE(PIECES * SIZE), 0, CLASSES);
    haul_status status = p ? HAUL_OK : haul_error_status();
    for (int k = 0; k < STEPS && !status; k++) {
        breaks = rank == t->failing && k == 1;
        for (int i = 0; i < haul_parallel_count(p) && !status; i++)
            status = piece(t, p, x, y, k, i);
        if (!status)
            status = update(net, p, adamw, scaler);
        if (!status)
            status = haul_read(haul_parallel_loss(p), &t->losses[rank][k], sizeof(float));
        t->away[rank] = count_away(net);
    }
    breaks = false;
    if (!status)
        status = evaluate(t, net, p, x);
    if (!status)
        status = haul_parallel_gather(p, adamw);
    if (!status && rank == 0)
        t->counts[rank] = read_state(net, adamw, t->values[rank]);
    return status;
}

static training *new_training(make_network *network, haul_shape input, bool scales)
{
    training *t = calloc(1, sizeof *t);
    assert_non_null(t);
    *t = (training){.network = network, .input = input, .scales = scales, .failing = -1};
    return t;
}

/* Compares ranks with one that has as many pieces, and whose network is equal. */
static void compare_with(make_network *equal, const char *name, int stages, const char *cuts, make_network *network,
                         haul_shape input, bool scales)
{
    training *one = new_training(equal, input, scales), *all = new_training(network, input, scales);
    all->stages = stages;
    all->cuts = cuts;
    haul_manual_seed(3);
    check(train(haul_group_get("none"), one));
    haul_manual_seed(3);
    check(haul_group_run(name, train, all));
    assert_int_equal(all->counts[0], one->counts[0]);
    assert_memory_equal(all->values[0], one->values[0], (size_t)one->counts[0] * sizeof(float));
    assert_memory_equal(all->results, one->results, sizeof one->results);
    for (int r = 0; r < stages; r++) {
        assert_memory_equal(all->losses[r], one->losses[0], sizeof one->losses[0]);
        assert_true(all->away[r] > 0);
    }
    free(one);
    free(all);
}

static void compare(const char *name, int stages, const char *cuts, make_network *network, haul_shape input,
                    bool scales)
{
    compare_with(network, name, stages, cuts, network, input, scales);
}

#define DENSE    dense, HAUL_SHAPE(FEATURES)
#define PICTURES pictures, HAUL_SHAPE(2, 4, 4)

static void test_parallel_stages__stages_train_as_one_rank(void **state)
{
    (void)state;
    for (int scales = 0; scales <= 1; scales++) {
        compare("local:cpu,cpu", 2, NULL, DENSE, scales);
        compare("local:cpu,cpu,cpu,cpu", 4, NULL, DENSE, scales);
    }
}

static void test_parallel_stages__cuts_are_chosen(void **state)
{
    (void)state;
    compare("local:cpu,cpu,cpu", 3, "3.1,6", DENSE, false);
    compare("local:cpu,cpu", 2, "3", DENSE, true);
}

static void test_parallel_stages__activations_keep_the_order_of_their_axes(void **state)
{
    (void)state;
    compare("local:cpu,cpu,cpu", 3, "1,3", PICTURES, false);
    compare("local:cpu,cpu", 2, NULL, PICTURES, true);
}

static void test_parallel_stages__random_numbers_go_on_in_the_next_stage(void **state)
{
    (void)state;
    compare("local:cpu,cpu", 2, NULL, random_stages, HAUL_SHAPE(FEATURES), false);
    compare("local:cpu,cpu,cpu,cpu", 4, "3,6,8", random_stages, HAUL_SHAPE(FEATURES), false);
}

static void test_parallel_stages__gradients_use_buffers_that_no_piece_changes(void **state)
{
    (void)state;
    compare("local:cpu,cpu", 2, "3", scaled, HAUL_SHAPE(FEATURES), false);
}

static void test_parallel_stages__gradients_keep_their_strides(void **state)
{
    (void)state;
    for (int cut = 0; cut < 3; cut++)
        compare("local:cpu,cpu", 2, (const char *[]){"1", "2", "3"}[cut], averaged, HAUL_SHAPE(2, 20, 20), false);
}

static haul_module *dense_again(void)
{
    haul_module *net = dense();
    check(haul_module_recompute_children(net, "0", "3", true));
    check(haul_module_recompute_children(net, "4", "5", true));
    return net;
}

static haul_module *dense_within_again(void)
{
    haul_module *net = dense();
    check(haul_module_recompute_children(haul_module_child(net, "3"), "0", "1", true));
    check(haul_module_recompute(haul_module_child(net, "4"), true));
    return net;
}

/* Cuts are before, within and behind the parts, also where a part has modules of a sequence. */
static void test_parallel_stages__parts_run_again(void **state)
{
    (void)state;
    make_network *const networks[] = {dense_again, dense_within_again};
    for (int i = 0; i < 2; i++) {
        compare_with(dense, "local:cpu,cpu", 2, "3", networks[i], HAUL_SHAPE(FEATURES), true);
        compare_with(dense, "local:cpu,cpu", 2, "4", networks[i], HAUL_SHAPE(FEATURES), false);
        compare_with(dense, "local:cpu,cpu,cpu", 3, "3.1,6", networks[i], HAUL_SHAPE(FEATURES), false);
    }
}

static void test_parallel_stages__a_stage_may_get_no_gradient(void **state)
{
    (void)state;
    compare("local:cpu,cpu,cpu", 3, "1,3", detached, HAUL_SHAPE(FEATURES), false);
    compare("local:cpu,cpu", 2, "2", detached, HAUL_SHAPE(FEATURES), false);
}

static void test_parallel_stages__simulated_devices_train_as_one(void **state)
{
    (void)state;
    haul_scope *inner = haul_scope_push();
    check(haul_set_device(haul_device_get("sim:h200")));
    compare("local:sim:h200:0,sim:h200:1", 2, NULL, DENSE, true);
    haul_scope_pop(inner);
}

static void test_parallel_stages__a_rank_that_fails_in_a_step_ends_the_others(void **state)
{
    (void)state;
    for (int failing = 0; failing < 3; failing++) {
        training *t = new_training(fragile_dense, HAUL_SHAPE(FEATURES), false);
        t->stages = 3;
        t->failing = failing;
        assert_int_not_equal(haul_group_run("local:cpu,cpu,cpu", train, t), HAUL_OK);
        assert_non_null(strstr(haul_error_message(), "it broke"));
        free(t);
    }
}

/* ---- failures of one rank ---- */

enum { FAILS_IN_BEGIN, FAILS_IN_STEP, FAILS_IN_READ };

typedef struct late {
    int  kind;
    char messages[2][600];
} late;

static haul_status late_piece(const late *l, haul_parallel *p, haul_module *net, int64_t step, int rank)
{
    haul_scope *inner = haul_scope_push();
    if (l->kind == FAILS_IN_BEGIN && rank == 1 && step == 1)
        haul_set_requires_grad(haul_module_parameter(net, "1.bias"), false);
    haul_status  status = haul_parallel_begin(p, step);
    const int    index = l->kind == FAILS_IN_READ && step == 1 ? 100 : 0;
    haul_tensor *y = status ? HAUL_NONE : haul_parallel_call(p, haul_full(HAUL_I64, HAUL_SHAPE(4), index));
    if (!status)
        status = haul_parallel_backward(p, y == HAUL_NONE ? y : haul_sum(y), 4);
    haul_scope_pop(inner);
    return status;
}

/* Rank 1 fails in the second step, or at the end of the first one; with FAILS_IN_READ rank 0. */
static haul_status fail_late(haul_group *group, void *context)
{
    late           *l = context;
    const int       rank = haul_group_rank(group);
    haul_module    *net = HAUL_SEQUENTIAL(haul_nn_embedding(10, 16), haul_nn_linear(16, 3));
    haul_optimizer *adamw = haul_adamw(net, 0.01);
    haul_parallel  *p = haul_parallel_new(net, .group = group, .pieces = 2, .stages = 2);
    haul_status     status = p ? HAUL_OK : haul_error_status();
    for (int64_t step = 0; step < 2 && !status; step++) {
        for (int i = 0; i < 2 && !status; i++)
            status = late_piece(l, p, net, step, rank);
        const bool limits = l->kind == FAILS_IN_STEP && rank == 1 && !status;
        if (limits)
            check(haul_memory_set_limit(haul_current_device(), 1));
        if (!status)
            status = haul_parallel_step(p, adamw);
        if (limits)
            check(haul_memory_set_limit(haul_current_device(), 0));
    }
    strncpy(l->messages[rank], haul_error_message(), sizeof l->messages[rank] - 1);
    return status;
}

/* The other rank waits for an activation or a gradient, and gets the cause. */
static void test_parallel_stages__a_rank_that_fails_beside_the_passes_ends_the_others(void **state)
{
    (void)state;
    static const char *const causes[] = {"does not require a gradient now", "out of memory", "index[0] is 100"};
    haul_scope              *inner = haul_scope_push();
    check(haul_set_device(haul_device_get("sim:h200")));
    for (int kind = 0; kind < 3; kind++) {
        late l = {.kind = kind};
        assert_int_not_equal(
            haul_group_run(kind == FAILS_IN_STEP ? "local:sim:h200:0,sim:h200:1" : "local:cpu,cpu", fail_late, &l),
            HAUL_OK);
        for (int rank = 0; rank < 2; rank++)
            if (!strstr(l.messages[rank], causes[kind]))
                fail_msg("rank %d: '%s' lacks '%s'", rank, l.messages[rank], causes[kind]);
    }
    haul_scope_pop(inner);
}

/* ---- evaluation ---- */

enum { CALLS = 40, WIDE = 300 };

typedef struct evaluation {
    atomic_int finished; /* calls of rank 0 */
    int        most;     /* by which rank 0 was ahead of rank 1 */
    int64_t    sent;     /* by rank 0 */
} evaluation;

static evaluation *now;

/* Counts the calls of rank 0 that rank 1 has not begun. */
static haul_tensor *counting_forward(haul_module *module, haul_args *args)
{
    static int calls;
    (void)module;
    haul_tensor *y = haul_relu(args->x[0]);
    check(haul_device_sync(haul_current_device()));
    const int ahead = atomic_load(&now->finished) - ++calls;
    now->most = ahead > now->most ? ahead : now->most;
    return y;
}

static haul_status evaluate_often(haul_group *group, void *context)
{
    evaluation           *e = context;
    haul_group_properties before, after;
    haul_module          *net = HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, WIDE), haul_nn_linear(WIDE, WIDE),
                                                haul_module_new("counting", counting_forward));
    haul_parallel        *p = haul_parallel_new(net, .group = group, .pieces = 2, .stages = 2, .cuts = "1");
    haul_tensor          *x = haul_ones(HAUL_F32, HAUL_SHAPE(WIDE, FEATURES));
    haul_status           status = haul_group_describe(group, &before);
    for (int i = 0; i < CALLS && !status; i++) {
        haul_scope *inner = haul_scope_push();
        status = haul_tensor_check(haul_parallel_call(p, x));
        haul_scope_pop(inner);
        if (haul_group_rank(group) == 0)
            atomic_fetch_add(&e->finished, 1);
    }
    if (!status)
        status = haul_group_describe(group, &after);
    if (!status && haul_group_rank(group) == 0)
        e->sent = after.sent_bytes - before.sent_bytes;
    return status;
}

static void test_parallel_stages__no_rank_runs_far_ahead(void **state)
{
    (void)state;
    evaluation e = {.most = 0};
    now = &e;
    check(haul_group_run("local:cpu,cpu", evaluate_often, &e));
    assert_in_range(e.most, 0, 1);
    const int64_t activation = (int64_t)WIDE * WIDE * (int64_t)sizeof(float);
    assert_in_range(e.sent, CALLS * activation, CALLS * (activation + 2048));
}

/* ---- damaged messages ---- */

typedef struct damaged {
    int64_t at, value; /* one of its numbers */
    size_t  bytes;     /* of a head */
} damaged;

/* Numbers of a head: step, piece, status, dtype, ndim, dims, axes, repeats. */
static haul_status receive_damaged(haul_group *group, void *context)
{
    const damaged         *d = context;
    const haul__group_call call = {.name = "haul_parallel_call", .what = "the head of an activation"};
    int64_t                head[128] = {[3] = HAUL_F32, [4] = 2, [5] = 4, [6] = 4};
    const int              axes = 5 + HAUL_MAX_DIMS, repeats = axes + HAUL_MAX_DIMS;
    head[axes + 1] = 1;
    head[repeats] = head[repeats + 1] = 1;
    head[d->at] = d->value;
    if (haul_group_rank(group) == 0)
        return haul__group_send(group, &call, head, (int64_t)d->bytes, 1);
    const haul__passage from = {.group = group, .peer = 0, .step = 0};
    return haul_tensor_check(haul__passage_receive(&from, haul_cpu()));
}

static void test_parallel_stages__damaged_heads_are_refused(void **state)
{
    (void)state;
    const size_t  bytes = (5 + 3 * HAUL_MAX_DIMS + 2) * sizeof(int64_t) + 400;
    const int     axes = 5 + HAUL_MAX_DIMS;
    const damaged list[] = {{3, 99, bytes},
                            {3, -1, bytes},
                            {3, 0, bytes},
                            {4, -1, bytes},
                            {4, 100, bytes},
                            {5, -4, bytes},
                            {5, INT64_MAX, bytes},
                            {axes, -1, bytes},
                            {axes, 2, bytes},
                            {axes + 1, 1 << 20, bytes},
                            {axes + HAUL_MAX_DIMS, 0, bytes}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        damaged d = list[i];
        assert_int_not_equal(haul_group_run("local:cpu,cpu", receive_damaged, &d), HAUL_OK);
        if (strstr(haul_error_message(), "expects"))
            fail_msg("%zu: %s", i, haul_error_message());
    }
}

/* ---- refusals ---- */

static haul_module *tied(void)
{
    haul_module *first = haul_nn_linear(4, 4);
    return HAUL_SEQUENTIAL(first, haul_nn_relu(), haul_nn_linear(4, 4), first);
}

static haul_module *own_forward(void)
{
    haul_module *net = haul_module_new("own", fragile_forward);
    check(haul_module_add(net, "a", haul_nn_linear(4, 4)));
    return net;
}

typedef struct refusal {
    haul_parallel_options options;
    make_network         *network;
} refusal;

static haul_status make(haul_group *group, void *context)
{
    const refusal        *r = context;
    haul_parallel_options options = r->options;
    options.module = r->network();
    options.group = group;
    return haul_parallel_new_with(&options) ? HAUL_OK : haul_error_status();
}

static void refuses(make_network *network, haul_parallel_options options, const char *message)
{
    refusal r = {options, network};
    assert_int_not_equal(haul_group_run("local:cpu,cpu", make, &r), HAUL_OK);
    if (!strstr(haul_error_message(), message))
        fail_msg("'%s' lacks '%s'", haul_error_message(), message);
}

static void test_parallel_stages__what_cannot_be_cut_is_refused(void **state)
{
    (void)state;
    refuses(dense, (haul_parallel_options){.stages = 3}, "each stage needs a rank");
    refuses(dense, (haul_parallel_options){.stages = -1}, ".stages is -1");
    refuses(dense, (haul_parallel_options){.stages = 2, .shard = 1}, "leave one of .shard and .stages out");
    refuses(dense, (haul_parallel_options){.cuts = "1"}, ".cuts is for several .stages");
    refuses(dense, (haul_parallel_options){.stages = 2, .cuts = "nosuch"}, "the names of 1 modules");
    refuses(dense, (haul_parallel_options){.stages = 2, .cuts = "1,2"}, "the names of 1 modules");
    refuses(dense, (haul_parallel_options){.stages = 2, .cuts = "0"}, "the names of 1 modules");
    refuses(dense, (haul_parallel_options){.stages = 2, .cuts = ""}, "the names of 1 modules");
    refuses(tied, (haul_parallel_options){.stages = 2, .cuts = "2"}, "share their memory");
    refuses(own_forward, (haul_parallel_options){.stages = 2}, "forward function or hooks of its own");
}

/* ---- misuse ---- */

static haul_status misuse(haul_group *group, void *context)
{
    const int      kind = *(int *)context, rank = haul_group_rank(group);
    haul_module   *net = dense();
    haul_parallel *p = haul_parallel_new(net, .group = group, .pieces = 2, .stages = 2);
    haul_tensor   *x = haul_zeros(HAUL_F32, HAUL_SHAPE(4, FEATURES));
    haul_status    status = haul_parallel_begin(p, 0);
    haul_tensor   *y = status ? HAUL_NONE : haul_parallel_call(p, x);
    haul_tensor   *sum = y == HAUL_NONE ? y : haul_sum(y);
    if (kind == 0 && rank == 0)
        return haul_tensor_check(haul_call(net, x));
    if (kind == 1)
        y = haul_parallel_call(p, x);
    if (kind == 1)
        return haul_parallel_backward(p, y, 4);
    if (kind == 2 && rank == 1)
        sum = HAUL_NONE;
    if (kind == 3 && rank == 0)
        sum = haul_sum(x);
    status = haul_parallel_backward(p, sum, kind == 4 && rank == 0 ? 3 : 4);
    if (!status)
        status = haul_parallel_begin(p, 0);
    if (!status)
        status = haul_parallel_backward(p, HAUL_NONE, 0);
    return status;
}

static void test_parallel_stages__mistakes_are_named(void **state)
{
    (void)state;
    static const char *const messages[] = {"is in another stage", "called twice", "is HAUL_NONE on rank 1",
                                           "haul_parallel_call has given none", "with weight"};
    for (int kind = 0; kind < (int)(sizeof messages / sizeof *messages); kind++) {
        assert_int_not_equal(haul_group_run("local:cpu,cpu", misuse, &kind), HAUL_OK);
        if (!strstr(haul_error_message(), messages[kind]))
            fail_msg("'%s' lacks '%s'", haul_error_message(), messages[kind]);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_parallel_stages__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(stages_train_as_one_rank),
        T(cuts_are_chosen),
        T(activations_keep_the_order_of_their_axes),
        T(random_numbers_go_on_in_the_next_stage),
        T(gradients_use_buffers_that_no_piece_changes),
        T(gradients_keep_their_strides),
        T(parts_run_again),
        T(a_stage_may_get_no_gradient),
        T(simulated_devices_train_as_one),
        T(a_rank_that_fails_in_a_step_ends_the_others),
        T(a_rank_that_fails_beside_the_passes_ends_the_others),
        T(no_rank_runs_far_ahead),
        T(damaged_heads_are_refused),
        T(what_cannot_be_cut_is_refused),
        T(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
