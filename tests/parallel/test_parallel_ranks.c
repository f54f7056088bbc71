/* Data parallel training on the ranks of a group: bits, the order of exchanges, and a pass that fails while exchanges
 * are under way. By itself the program is a group of one rank; tests/parallel/parallel_launchers.sh starts it with MPI
 * launchers. Every rank checks its own results.
 *
 * ctest: */
#include <math.h>
#include <string.h>

#include "group/group.h"
#include "parallel/flat.h"
#include "parallel/parts.h"
#include "support/ranks/ranks.h"

enum {
    FEATURES = 5,
    LAYERS = 6,
    PIECES = 8,
    SIZE = 3,
    STEPS = 4,
    MOST_EVENTS = 4096,
    MOST_VALUES = 1024,
    MOST_SHARDS = 3
};

static int small_buckets_setup(void **state)
{
    haul__flat_bucket_bytes = 64; /* each layer has a bucket of its own */
    haul__parts_whole = 20;       /* weights have 100 bytes, and biases 20 */
    return group_setup(state);
}

/* ---- a training ---- */

/* Which layers a network uses, and when. */
typedef enum order { IN_ORDER, REVERSED, WITHOUT_FIRST } order;

static haul_module *layer(haul_module *net, int i)
{
    return haul_module_child(net, (const char[]){(char)('0' + i), '\0'});
}

static haul_tensor *forward(haul_module *net, haul_tensor *x, order o)
{
    for (int i = 0; i < LAYERS; i++) {
        const int at = o == REVERSED ? LAYERS - 1 - i : i;
        if (at > 0 || o != WITHOUT_FIRST)
            x = haul_tanh(haul_call(layer(net, at), x));
    }
    return haul_sum(haul_square(x));
}

static haul_module *network(void)
{
    haul_module *layers[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        layers[i] = haul_nn_linear(FEATURES, FEATURES);
    return haul_nn_sequential(layers, LAYERS);
}

static void step(haul_parallel *p, haul_module *net, haul_tensor *x, int64_t number, order o)
{
    const int first = haul_parallel_first(p), end = first + haul_parallel_count(p);
    for (int i = first; i < end; i++) {
        haul_scope *inner = haul_scope_push();
        check(haul_parallel_begin(p, number));
        check(haul_parallel_backward(p, forward(net, haul_slice(x, 0, i * SIZE, i * SIZE + SIZE, 1), o), SIZE));
        haul_scope_pop(inner);
    }
    assert_true(haul_parallel_ready(p));
}

static int64_t read_all(haul_module *net, float *out)
{
    haul_named_tensor all[2 * LAYERS];
    const int         n = haul_module_tensors(net, all, 2 * LAYERS);
    int64_t           count = 0;
    for (int i = 0; i < n; i++) {
        assert_true(count + haul_tensor_count(all[i].tensor) <= MOST_VALUES);
        check(haul_read(all[i].tensor, out + count, (size_t)haul_tensor_count(all[i].tensor) * sizeof *out));
        count += haul_tensor_count(all[i].tensor);
    }
    return count;
}

typedef struct training {
    haul_module      *net;
    haul_optimizer   *optimizer;
    haul_grad_scaler *scaler; /* NULL: none */
    haul_parallel    *parallel;
    haul_tensor      *x;
} training;

/* The same each time. */
static training make(haul_group *g, int shard, bool scales)
{
    training t;
    haul_manual_seed(3);
    t.net = network();
    t.optimizer = haul_adamw(t.net, 0.01);
    t.scaler = scales ? haul_grad_scaler_new(t.optimizer, .init_scale = 1024) : NULL;
    t.parallel = haul_parallel_new(t.net, .group = g, .pieces = PIECES, .shard = shard, .scaler = t.scaler);
    t.x = haul_normal(HAUL_F32, HAUL_SHAPE(PIECES * SIZE, FEATURES), 0, 1);
    check(haul_error_status());
    return t;
}

static void train_steps(const training *t, int first, int end, order o)
{
    for (int k = first; k < end; k++) {
        step(t->parallel, t->net, t->x, k, o);
        if (t->scaler && k % 2)
            check(haul_grad_scaler_unscale(t->scaler, t->optimizer));
        if (!t->scaler || k % 2)
            haul_clip_grad_norm(t->net, 1);
        check(haul_parallel_step(t->parallel, t->optimizer));
        if (t->scaler)
            check(haul_grad_scaler_update(t->scaler));
    }
}

/* The weights after a few steps in this group. */
static int64_t train(haul_group *g, int shard, order o, float *out)
{
    const training t = make(g, shard, false);
    train_steps(&t, 0, STEPS, o);
    return read_all(t.net, out);
}

static void test_parallel_ranks__weights_are_bit_identical_to_those_of_one_rank(void **state)
{
    (void)state;
    static const int64_t bytes[] = {1, 64, 200, 1 << 20}; /* of buckets, and of parameters that have come */
    float                want[MOST_VALUES], got[MOST_VALUES];
    for (int o = IN_ORDER; o <= WITHOUT_FIRST; o++) {
        const int64_t count = train(haul_group_get("none"), 0, (order)o, want);
        for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
            haul__flat_bucket_bytes = haul__parts_room = bytes[i];
            for (int shard = 0; shard <= MOST_SHARDS; shard++) {
                assert_int_equal(train(group, shard, (order)o, got), count);
                assert_memory_equal(got, want, (size_t)count * sizeof *got);
            }
        }
        haul__flat_bucket_bytes = 64;
        haul__parts_room = 250;
    }
}

/* ---- the order of events ---- */

typedef struct record {
    haul_event_kind kind[MOST_EVENTS];
    bool            is_pass[MOST_EVENTS], is_bucket[MOST_EVENTS];
    int64_t         sent;
    int             count;
} record;

static void note(const haul_event *e, void *context)
{
    record *r = context;
    if (r->count == MOST_EVENTS)
        return;
    r->is_pass[r->count] = strcmp(e->text, "backward pass") == 0;
    r->is_bucket[r->count] = strncmp(e->text, "bucket", 6) == 0;
    r->kind[r->count++] = e->kind;
    if (e->kind == HAUL_EVENT_COLLECTIVE_END)
        r->sent += e->bytes;
}

typedef struct counts {
    int begun;     /* exchanges of buckets */
    int in_pass;   /* those that began within a pass */
    int gradients; /* operations differentiated after the first of these began, within the pass */
    int others;    /* exchanges of anything else */
    int ends;      /* of all */
} counts;

static counts count(const record *r)
{
    counts c = {.begun = 0};
    bool   in_pass = false;
    for (int i = 0; i < r->count; i++) {
        const haul_event_kind kind = r->kind[i];
        if (r->is_pass[i])
            in_pass = kind == HAUL_EVENT_WORK_BEGIN;
        else if (kind == HAUL_EVENT_WORK_BEGIN)
            c.gradients += in_pass && c.in_pass;
        else if (kind == HAUL_EVENT_COLLECTIVE_END)
            c.ends++;
        else if (kind == HAUL_EVENT_COLLECTIVE_BEGIN && !r->is_bucket[i])
            c.others++;
        else if (kind == HAUL_EVENT_COLLECTIVE_BEGIN) {
            c.begun++;
            c.in_pass += in_pass;
        }
    }
    return c;
}

/* Of one step, after the ranks know the order of gradients. */
static counts watch(haul_parallel *p, haul_module *net, haul_tensor *x, int64_t number, order o)
{
    static record         r;
    haul_group_properties before, after;
    memset(&r, 0, sizeof r);
    check(haul_group_describe(group, &before));
    const int64_t id = haul_events_subscribe(note, .kinds = HAUL_EVENT_COLLECTIVE | HAUL_EVENT_WORK, .context = &r);
    step(p, net, x, number, o);
    check(haul_events_unsubscribe(id));
    check(haul_group_describe(group, &after));
    assert_int_equal(r.sent, after.sent_bytes - before.sent_bytes);
    assert_true(r.count < MOST_EVENTS);
    return count(&r);
}

static void test_parallel_ranks__exchanges_begin_within_the_backward_pass(void **state)
{
    (void)state;
    const int shared = size > 1 ? 1 : 0; /* one rank exchanges nothing */
    for (int o = IN_ORDER; o <= REVERSED; o++) {
        haul_module   *net = network();
        haul_parallel *p = haul_parallel_new(net, .pieces = PIECES);
        haul_tensor   *x = haul_normal(HAUL_F32, HAUL_SHAPE(PIECES * SIZE, FEATURES), 0, 1);
        const counts   first = watch(p, net, x, 0, (order)o);
        if (o == IN_ORDER)
            assert_int_equal(first.in_pass, LAYERS * shared);
        for (int k = 1; k < 3; k++) {
            const counts c = watch(p, net, x, k, (order)o);
            assert_true(c.begun >= LAYERS * shared);
            assert_int_equal(c.in_pass, c.begun);
            assert_int_equal(c.others, shared); /* the loss and buffers */
            assert_int_equal(c.ends, c.begun + c.others);
            if (shared)
                assert_true(c.gradients >= 2 * (LAYERS - 1)); /* a product and a tanh for each layer before */
        }
    }
}

/* A parameter without a gradient holds its bucket and those behind it back to the end of the pass. */
static void test_parallel_ranks__a_parameter_without_gradient_holds_its_bucket_back(void **state)
{
    (void)state;
    const int      shared = size > 1 ? 1 : 0;
    haul_module   *net = network();
    haul_parallel *p = haul_parallel_new(net, .pieces = PIECES);
    haul_tensor   *x = haul_normal(HAUL_F32, HAUL_SHAPE(PIECES * SIZE, FEATURES), 0, 1);
    for (int k = 0; k < 2; k++) {
        const counts c = watch(p, net, x, k, WITHOUT_FIRST);
        assert_true(c.begun >= LAYERS * shared);
        assert_int_equal(c.in_pass, c.begun - shared);
    }
}

/* ---- shards ---- */

enum { MOST_STATES = 8 * LAYERS };

/* The bytes of the optimizer's state on this rank; Adam's steps are not counted. */
static int64_t state_bytes(haul_optimizer *o)
{
    haul_named_tensor all[MOST_STATES];
    const int         n = haul_optimizer_state(o, all, MOST_STATES);
    int64_t           bytes = 0;
    assert_in_range(n, 0, MOST_STATES);
    for (int i = 0; i < n; i++)
        if (haul_tensor_count(all[i].tensor) > 1)
            bytes += (int64_t)haul_tensor_bytes(all[i].tensor);
    return bytes;
}

static int64_t over_ranks(int64_t own)
{
    int64_t all[64], sum = 0;
    all[rank] = own;
    const haul__group_call call = {.name = "test", .what = "bytes"};
    check(haul__group_gather_equal(group, &call, all, sizeof *all));
    for (int r = 0; r < size; r++)
        sum += all[r];
    return sum;
}

/* The numbers of the gradients that this rank has. */
static int64_t count_gradients(haul_module *net)
{
    haul_named_tensor all[2 * LAYERS];
    const int         n = haul_module_tensors(net, all, 2 * LAYERS);
    int64_t           count = 0;
    for (int i = 0; i < n; i++) {
        haul_tensor *gradient = haul_tensor_grad(all[i].tensor);
        count += gradient == HAUL_NONE ? 0 : haul_tensor_count(gradient);
    }
    return count;
}

static void compare_shards(int shard, bool scales)
{
    float          want[MOST_VALUES], got[MOST_VALUES];
    const training one = make(haul_group_get("none"), 0, scales), t = make(group, shard, scales);
    train_steps(&one, 0, STEPS, IN_ORDER);
    train_steps(&t, 0, STEPS, IN_ORDER);
    const int64_t count = read_all(one.net, want);
    assert_int_equal(read_all(t.net, got), count);
    assert_memory_equal(got, want, (size_t)count * sizeof *got);
    const int64_t whole = state_bytes(one.optimizer), own = state_bytes(t.optimizer);
    assert_int_equal(whole, 2 * count * (int64_t)sizeof *got);
    assert_int_equal(over_ranks(own), whole);
    assert_true(size == 1 || own < whole);
    assert_int_equal(haul_optimizer_steps(t.optimizer), STEPS);
    assert_int_equal(over_ranks(count_gradients(t.net)), shard >= 2 ? count : count * size);
    assert_true(size == 1 || shard < 2 || count_gradients(t.net) < count);
}

static void test_parallel_ranks__shards_have_the_bits_of_one_rank_in_a_part_of_the_memory(void **state)
{
    (void)state;
    for (int shard = 1; shard <= MOST_SHARDS; shard++)
        for (int scales = 0; scales <= 1; scales++)
            compare_shards(shard, scales);
}

/* The norm is that of all ranks' gradients, also if this rank has none of those that are listed. */
static void test_parallel_ranks__norms_of_divided_gradients_are_those_of_all(void **state)
{
    (void)state;
    const training    one = make(haul_group_get("none"), 0, false), t = make(group, 2, false);
    haul_named_tensor single = {.name = "bias"};
    step(one.parallel, one.net, one.x, 0, IN_ORDER);
    step(t.parallel, t.net, t.x, 0, IN_ORDER);
    single.tensor = haul_module_parameter(one.net, "3.bias");
    const double bias = haul_item(haul_clip_grad_norm(NULL, 1e-3, .parameters = &single, .count = 1));
    single.tensor = haul_module_parameter(t.net, "3.bias");
    assert_true(bias > 1e-3 && haul_item(haul_clip_grad_norm(NULL, 1e-3, .parameters = &single, .count = 1)) == bias);
    const double all = haul_item(haul_clip_grad_norm(one.net, 1e9));
    assert_true(haul_item(haul_clip_grad_norm(t.net, 1e9)) == all);
    assert_true(haul_item(haul_clip_grad_norm(NULL, 1e9, .optimizer = t.optimizer)) == all);
    check(haul_clip_grad_value(t.net, 0.01));
    if (size > 1) {
        assert_int_equal(haul_optimizer_step(t.optimizer), HAUL_STATE);
        assert_non_null(strstr(haul_error_message(), "make the step with haul_parallel_step"));
        haul_error_clear();
    }
    check(haul_parallel_step(t.parallel, t.optimizer));
}

/* A step that is skipped is skipped everywhere, also where no own gradient is infinite. */
static void skip_a_step(int shard)
{
    const training t = make(group, shard, true);
    float          before[MOST_VALUES], after[MOST_VALUES];
    train_steps(&t, 0, 1, IN_ORDER);
    const int64_t count = read_all(t.net, before);
    step(t.parallel, t.net, t.x, 1, IN_ORDER);
    haul_tensor *gradient = haul_tensor_grad(haul_module_parameter(t.net, "5.bias"));
    if (gradient != HAUL_NONE)
        check(haul_fill_into(gradient, INFINITY));
    check(haul_parallel_step(t.parallel, t.optimizer));
    check(haul_grad_scaler_update(t.scaler));
    read_all(t.net, after);
    assert_memory_equal(after, before, (size_t)count * sizeof *after);
    assert_true(haul_grad_scaler_factor(t.scaler) == 512);
    assert_int_equal(haul_optimizer_steps(t.optimizer), 1);
}

static void test_parallel_ranks__a_gradient_that_is_not_finite_skips_the_step_of_all_shards(void **state)
{
    (void)state;
    for (int shard = 1; shard <= MOST_SHARDS; shard++)
        skip_a_step(shard);
}

/* The state that rank 0 has gathered is that of one rank. */
static void compare_states(haul_optimizer *a, haul_optimizer *b)
{
    haul_named_tensor x[MOST_STATES], y[MOST_STATES];
    const int         n = haul_optimizer_state(a, x, MOST_STATES);
    assert_int_equal(haul_optimizer_state(b, y, MOST_STATES), n);
    for (int i = 0; i < n; i++) {
        float         u[64], v[64];
        const int64_t count = haul_tensor_count(x[i].tensor);
        assert_string_equal(x[i].name, y[i].name);
        assert_int_equal(haul_tensor_count(y[i].tensor), count);
        if (haul_tensor_dtype(x[i].tensor) != HAUL_F32)
            continue;
        check(haul_read(x[i].tensor, u, (size_t)count * sizeof *u));
        check(haul_read(y[i].tensor, v, (size_t)count * sizeof *v));
        assert_memory_equal(u, v, (size_t)count * sizeof *u);
    }
}

static void test_parallel_ranks__a_gathered_state_continues_with_and_without_shards(void **state)
{
    (void)state;
    float want[MOST_VALUES], got[MOST_VALUES];
    for (int k = 0; k < 2 * MOST_SHARDS; k++) {
        const bool     scales = k % 2 == 1;
        const int      shard = 1 + k / 2;
        const training one = make(haul_group_get("none"), 0, scales), t = make(group, shard, scales);
        train_steps(&one, 0, 2, IN_ORDER);
        train_steps(&t, 0, 2, IN_ORDER);
        const int64_t own = state_bytes(t.optimizer);
        check(haul_parallel_gather(t.parallel, t.optimizer));
        if (rank == 0)
            compare_states(one.optimizer, t.optimizer);
        else
            assert_int_equal(state_bytes(t.optimizer), own);
        /* On, after the state has come to rank 0. */
        train_steps(&t, 2, STEPS, IN_ORDER);
        assert_int_equal(over_ranks(state_bytes(t.optimizer)), state_bytes(one.optimizer));
        /* The state of one rank as a checkpoint, which ranks with shards read. */
        haul_named_tensor all[MOST_STATES];
        const training    u = make(group, MOST_SHARDS + 1 - shard, scales);
        const int         n = haul_optimizer_state(one.optimizer, all, MOST_STATES);
        check(haul_optimizer_load_state(u.optimizer, all, n, 2));
        check(haul_module_copy(u.net, one.net));
        train_steps(&u, 2, STEPS, IN_ORDER);
        train_steps(&one, 2, STEPS, IN_ORDER);
        const int64_t count = read_all(one.net, want);
        read_all(t.net, got);
        assert_memory_equal(got, want, (size_t)count * sizeof *got);
        read_all(u.net, got);
        assert_memory_equal(got, want, (size_t)count * sizeof *got);
        assert_int_equal(over_ranks(state_bytes(u.optimizer)), state_bytes(one.optimizer));
    }
}

static void test_parallel_ranks__wrong_shards_are_refused(void **state)
{
    (void)state;
    haul_module *net = network();
    assert_null(haul_parallel_new(net, .shard = MOST_SHARDS + 1));
    assert_non_null(strstr(haul_error_message(), ".shard is 4; 0 is expected, or 1"));
    assert_null(haul_parallel_new(net, .shard = -1));
    haul_error_clear();
    const training t = make(group, 1, false);
    assert_int_equal(haul_parallel_step(t.parallel, t.optimizer), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "the step has pieces left"));
    assert_int_not_equal(haul_parallel_step(NULL, t.optimizer), HAUL_OK);
    assert_int_not_equal(haul_parallel_step(t.parallel, NULL), HAUL_OK);
    assert_int_not_equal(haul_parallel_gather(NULL, t.optimizer), HAUL_OK);
    assert_int_not_equal(haul_parallel_gather(t.parallel, (haul_optimizer *)t.net), HAUL_OK);
    haul_error_clear();
}

/* ---- a pass that fails ---- */

static haul_tensor *refuse(haul_tensor *gradient, void *context)
{
    (void)gradient;
    (void)context;
    return haul_tensor_fail(HAUL_STATE, "test", NULL, "this gradient is refused");
}

/* The last test, because the group cannot be used afterwards. The hook of the first layer runs when the exchanges of
 * the others have begun. */
static void test_parallel_ranks__a_pass_that_fails_ends_the_step_on_all_ranks(void **state)
{
    (void)state;
    haul_module   *net = network();
    haul_parallel *p = haul_parallel_new(net, .pieces = PIECES);
    haul_tensor   *x = haul_normal(HAUL_F32, HAUL_SHAPE(PIECES * SIZE, FEATURES), 0, 1);
    step(p, net, x, 0, IN_ORDER);
    const int first = haul_parallel_first(p), end = first + haul_parallel_count(p);
    for (int i = first; i < end; i++) {
        check(haul_parallel_begin(p, 1));
        if (i == PIECES - 1)
            assert_true(haul_tensor_add_hook(haul_module_parameter(net, "0.weight"), .gradient = refuse) > 0);
        haul_tensor      *loss = forward(net, haul_slice(x, 0, i * SIZE, i * SIZE + SIZE, 1), IN_ORDER);
        const haul_status status = haul_parallel_backward(p, loss, SIZE);
        assert_int_equal(status != HAUL_OK, i == end - 1);
    }
    assert_non_null(strstr(haul_error_message(), "this gradient is refused"));
    assert_false(haul_parallel_ready(p));
    haul_error_clear();
    if (size > 1) {
        assert_int_equal(haul_group_barrier(group), HAUL_STATE);
        haul_error_clear();
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_parallel_ranks__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(weights_are_bit_identical_to_those_of_one_rank),
        T(exchanges_begin_within_the_backward_pass),
        T(a_parameter_without_gradient_holds_its_bucket_back),
        T(shards_have_the_bits_of_one_rank_in_a_part_of_the_memory),
        T(norms_of_divided_gradients_are_those_of_all),
        T(a_gradient_that_is_not_finite_skips_the_step_of_all_shards),
        T(a_gathered_state_continues_with_and_without_shards),
        T(wrong_shards_are_refused),
        T(a_pass_that_fails_ends_the_step_on_all_ranks),
    };
    return cmocka_run_group_tests(tests, small_buckets_setup, NULL);
}
