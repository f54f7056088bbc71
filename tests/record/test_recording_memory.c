/* The memory of recordings: updates that move, steps that fail after one, and recordings that are frozen. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/bits.h"

enum { BATCH = 8, WIDTH = 160, CLASSES = 5, WORDS = 7 };

/* A training whose gradients are large enough to be worth an early update. */
typedef struct training {
    haul_module      *net, *layers[3], *words;
    haul_optimizer   *optimizer;
    haul_grad_scaler *scaler;
    haul_tensor      *x, *w, *y;
    haul_tensor      *kept; /* of the last step; HAUL_NONE: nothing is kept */
    bool              clips, keeps_gradients, keeps, embeds;
} training;

static haul_status update(training *t)
{
    haul_status status = t->clips && t->scaler ? haul_grad_scaler_unscale(t->scaler, t->optimizer) : HAUL_OK;
    if (!status && t->clips)
        status = haul_tensor_check(haul_clip_grad_norm(NULL, 0.1, .optimizer = t->optimizer));
    if (!status)
        status = t->scaler ? haul_grad_scaler_step(t->scaler, t->optimizer) : haul_optimizer_step(t->optimizer);
    if (!status && t->scaler)
        status = haul_grad_scaler_update(t->scaler);
    return status || t->keeps_gradients ? status : haul_optimizer_zero_grad(t->optimizer);
}

/* Behind the update of the second layer, the backward pass has a call that allocates a temporary. */
static haul_tensor *forward(const training *t, haul_tensor *x)
{
    haul_tensor *h = haul_cast(haul_call(t->layers[0], haul_dropout(x, 0.2, true)), HAUL_BF16);
    h = haul_relu(haul_cast(haul_cumsum(h, 1), HAUL_F32));
    return haul_call(t->layers[2], haul_relu(haul_call(t->layers[1], h)));
}

static haul_status step(void *context)
{
    training   *t = context;
    haul_status status = t->keeps_gradients ? haul_optimizer_zero_grad(t->optimizer) : HAUL_OK;
    haul_release(t->kept);
    t->kept = HAUL_NONE;
    haul_tensor *x = t->embeds ? haul_add(t->x, haul_call(t->words, t->w)) : t->x;
    haul_tensor *logits = forward(t, x);
    haul_tensor *loss = haul_cross_entropy(logits, t->y);
    if (t->keeps && !status)
        t->kept = haul_keep(logits);
    if (!status)
        status = haul_backward(t->scaler ? haul_grad_scaler_scale(t->scaler, loss) : loss, .once = true);
    return status ? status : update(t);
}

static training make_training(const char *optimizer)
{
    haul_manual_seed(3);
    assert_int_equal(haul_set_device(haul_cpu()), HAUL_OK);
    training t = {
        .kept = HAUL_NONE,
        .words = haul_nn_embedding(WORDS, WIDTH),
        .layers = {haul_nn_linear(WIDTH, WIDTH), haul_nn_linear(WIDTH, WIDTH), haul_nn_linear(WIDTH, CLASSES)}};
    t.net = haul_nn_list((haul_module *[]){t.layers[0], t.layers[1], t.layers[2], t.words}, 4);
    t.optimizer = !strcmp(optimizer, "adamw")     ? haul_adamw(t.net, 0.01)
                  : !strcmp(optimizer, "rmsprop") ? haul_rmsprop(t.net, 0.01)
                  : !strcmp(optimizer, "amsgrad") ? haul_adam(t.net, 0.01, .amsgrad = true)
                  : !strcmp(optimizer, "nadam")   ? haul_nadam(t.net, 0.01)
                                                  : haul_sgd(t.net, 0.001, .momentum = 0.9, .weight_decay = 0.01);
    assert_non_null(t.optimizer);
    return t;
}

static void set_batch(training *a, training *b, unsigned seed)
{
    const haul_random_state before = haul_random_state_get();
    haul_manual_seed(100 + seed);
    a->x = b->x = haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, WIDTH), 0, 1);
    a->y = b->y = haul_randint(HAUL_I64, HAUL_SHAPE(BATCH), 0, CLASSES);
    a->w = b->w = haul_randint(HAUL_I64, HAUL_SHAPE(BATCH), 0, WORDS);
    assert_int_equal(haul_tensor_check(a->w), HAUL_OK);
    haul_random_state_set(before);
}

static void expect_same(const training *a, const training *b, int at)
{
    enum { MOST = 32 };
    char              text[120];
    haul_named_tensor p[MOST], q[MOST];
    const int count = haul_module_tensors(a->net, p, MOST), states = haul_optimizer_state(a->optimizer, p, MOST);
    assert_int_equal(haul_optimizer_state(b->optimizer, q, MOST), states);
    for (int i = 0; i < states && i < MOST; i++) {
        snprintf(text, sizeof text, "%s after step %d", p[i].name, at);
        assert_same_bits(p[i].tensor, q[i].tensor, text);
    }
    haul_module_tensors(a->net, p, MOST);
    assert_int_equal(haul_module_tensors(b->net, q, MOST), count);
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%s after step %d", p[i].name, at);
        assert_same_bits(p[i].tensor, q[i].tensor, text);
    }
    assert_int_equal(haul_optimizer_steps(a->optimizer), haul_optimizer_steps(b->optimizer));
}

/* The same random numbers for both. */
static haul_status make_both(training *eager, haul_recording *r, bool *failed)
{
    const haul_random_state before = haul_random_state_get();
    const haul_status       status = haul_recording_run(r);
    *failed = status != HAUL_OK;
    if (*failed)
        return HAUL_OK;
    haul_random_state_set(before);
    haul_scope       *scope = haul_scope_push();
    const haul_status of_eager = step(eager);
    haul_scope_pop(scope);
    return of_eager;
}

/* ---- updates that move ---- */

/* True if `a` computes before `b`: the operations of a fused command compute at once. */
static bool before(const haul_program *p, int64_t a, int64_t b)
{
    const int64_t chain_a = p->operations[a].fused, chain_b = p->operations[b].fused;
    return (chain_a < 0 ? a : chain_a) < (chain_b < 0 ? b : chain_b);
}

/* How many operations of the optimizer come before the end of the backward pass. */
static int count_moved(training *t)
{
    haul_program p;
    int          moved = 0;
    int64_t      last = -1;
    assert_int_equal(haul_program_record(step, t, &p), HAUL_OK);
    for (int64_t i = 0; i < p.operation_count; i++)
        last = !strcmp(p.operations[i].section, "backward pass") ? i : last;
    for (int64_t i = 0; i < last; i++)
        moved += !strcmp(p.operations[i].section, "optimizer step");
    for (int64_t a = 0; a < p.store_count; a++)
        for (int64_t b = 0; b < a; b++) {
            const haul_program_store *x = &p.stores[a], *y = &p.stores[b];
            if (x->offset >= 0 && y->offset >= 0 && !x->outlives && !y->outlives && before(&p, x->first, y->last) &&
                before(&p, y->first, x->last) && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes)
                fail_msg("stores %lld and %lld overlap", (long long)a, (long long)b);
        }
    haul_program_free(&p);
    return moved;
}

static void test_moves__only_where_nothing_needs_all_gradients(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    training    t = make_training("sgd");
    set_batch(&t, &t, 1);
    assert_int_equal(step(&t), HAUL_OK);
    assert_int_equal(count_moved(&t), 1); /* the first layer's gradient is the last one */
    t.clips = true;
    assert_int_equal(count_moved(&t), 0);
    t.clips = false;
    t.keeps_gradients = true;
    assert_int_equal(count_moved(&t), 0);
    t.keeps_gradients = false;
    t.embeds = true; /* its gradient checks indices again */
    assert_int_equal(step(&t), HAUL_OK);
    assert_int_equal(count_moved(&t), 0);
    t.embeds = false;
    t.scaler = haul_grad_scaler_new(t.optimizer);
    assert_int_equal(step(&t), HAUL_OK);
    assert_int_equal(count_moved(&t), 0);
    haul_scope_pop(scope);
}

static void test_moves__same_bits(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"sgd", "adamw", "rmsprop", "amsgrad", "nadam"};
    for (int i = 0; i < 10; i++) {
        haul_scope     *scope = haul_scope_push();
        training        eager = make_training(optimizers[i % 5]), recorded = make_training(optimizers[i % 5]);
        haul_recording *r = haul_recording_new(step, &recorded, .strict = true);
        bool            failed;
        for (int k = 0; k < 12; k++) {
            haul_scope *inner = haul_scope_push();
            set_batch(&eager, &recorded, (unsigned)k);
            haul_optimizer_set(eager.optimizer, HAUL_ALL_GROUPS, "lr", 0.001 + 0.0001 * k);
            haul_optimizer_set(recorded.optimizer, HAUL_ALL_GROUPS, "lr", 0.001 + 0.0001 * k);
            eager.clips = recorded.clips = i >= 5 && k % 3 == 2;
            if (make_both(&eager, r, &failed) || failed)
                fail_msg("%s", haul_error_message());
            expect_same(&eager, &recorded, k);
            haul_scope_pop(inner);
        }
        haul_scope_pop(scope);
    }
}

/* The step of a network whose backward pass keeps or frees its graph. */
typedef struct network {
    haul_module    *net;
    haul_optimizer *optimizer;
    bool            keeps_graph;
} network;

static haul_status network_step(void *context)
{
    enum { PICTURES = 64 };
    network     *n = context;
    haul_tensor *x = haul_empty(HAUL_F32, HAUL_SHAPE(PICTURES, 3, 32, 32));
    haul_tensor *loss = haul_cross_entropy(haul_call(n->net, x), haul_empty(HAUL_I64, HAUL_SHAPE(PICTURES)));
    haul_status  status = haul_backward(loss, .keep = n->keeps_graph, .once = !n->keeps_graph);
    if (!status)
        status = haul_optimizer_step(n->optimizer);
    return status ? status : haul_optimizer_zero_grad(n->optimizer);
}

static haul_program_memory memory_of(network *n)
{
    haul_program p;
    assert_int_equal(haul_program_record(network_step, n, &p), HAUL_OK);
    assert_int_equal(p.memory_count, 1);
    const haul_program_memory m = p.memory[0];
    haul_program_free(&p);
    return m;
}

static haul_status record_network(void *context)
{
    haul_program_memory *m = context;
    network              n = {.net = haul_model_new("resnet18")};
    n.optimizer = haul_sgd(n.net, 0.01, .momentum = 0.9);
    haul_status status = network_step(&n);
    m[0] = memory_of(&n);
    n.keeps_graph = true;
    m[1] = memory_of(&n);
    return status;
}

/* Scratch memory grows with the number of threads, which is the same on each machine here. */
static void test_moves__arena_of_a_network(void **state)
{
    (void)state;
    haul_set_num_threads(2);
    haul_program_memory  m[2];
    haul_estimate_result all;
    assert_int_equal(haul_estimate(record_network, m, &all), HAUL_OK);
    haul_estimate_free(&all);
    haul_set_num_threads(0);
    printf("arena %lld, eager peak %lld, with the graph kept %lld\n", (long long)m[0].arena_bytes,
           (long long)m[0].eager_peak_bytes, (long long)m[1].eager_peak_bytes);
    assert_true((double)m[0].arena_bytes <= 0.95 * (double)m[0].eager_peak_bytes);
    assert_true((double)m[0].arena_bytes <= 0.81 * (double)m[1].eager_peak_bytes);
}

/* ---- steps that fail ---- */

static void test_failures__bad_index(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    training        eager = make_training("sgd"), recorded = make_training("sgd");
    haul_recording *r = haul_recording_new(step, &recorded, .strict = true);
    bool            failed;
    for (int k = 0; k < 20; k++) {
        eager.embeds = recorded.embeds = k >= 10;
        set_batch(&eager, &recorded, (unsigned)k);
        if (k % 5 == 4)
            recorded.y = haul_full(HAUL_I64, HAUL_SHAPE(BATCH), 99);
        if (k % 5 == 3 && k > 10)
            recorded.w = haul_full(HAUL_I64, HAUL_SHAPE(BATCH), 99);
        assert_int_equal(make_both(&eager, r, &failed), HAUL_OK);
        assert_int_equal(failed, k % 5 == 4 || (k % 5 == 3 && k > 10));
        haul_error_clear();
        expect_same(&eager, &recorded, k);
    }
    haul_scope_pop(scope);
}

/* Each allocation of a step that has settled fails once. */
static void test_failures__host_memory(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    training        eager = make_training("sgd"), recorded = make_training("sgd");
    haul_recording *r = haul_recording_new(step, &recorded);
    int             failures = 0, at = 0;
    bool            counted = true;
    for (int64_t nth = 1; counted; nth++) {
        for (int k = 0; k < 4; k++, at++) {
            const haul_random_state before = haul_random_state_get();
            set_batch(&eager, &recorded, (unsigned)at);
            haul__fault_plan(HAUL__FAULT_HOST, k == 3 ? nth : 0);
            const haul_status status = haul_recording_run(r);
            counted = k < 3 || haul__fault_count() >= nth;
            haul__fault_plan(0, 0);
            failures += status != HAUL_OK;
            haul_error_clear();
            if (!status) {
                haul_random_state_set(before);
                assert_int_equal(step(&eager), HAUL_OK);
            }
            expect_same(&eager, &recorded, at);
        }
    }
    assert_true(failures > 0);
    haul_scope_pop(scope);
}

/* ---- frozen recordings ---- */

static void test_frozen__allocates_nothing(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    training          t = make_training("adamw");
    haul_recording   *r = haul_recording_new(step, &t, .frozen = true);
    haul_memory_stats before, after;
    set_batch(&t, &t, 1);
    for (int k = 0; k < 6; k++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    haul_memory_stats_get(haul_cpu(), &before);
    const uint64_t count = haul__alloc_watch_now()->count;
    for (int k = 0; k < 10; k++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(haul__alloc_watch_now()->count, count);
    haul_memory_stats_get(haul_cpu(), &after);
    assert_int_equal(before.allocations, after.allocations);
    assert_int_equal(before.peak_allocated, after.peak_allocated);
    haul_scope_pop(scope);
}

/* What the program still holds is not made again. */
static void test_frozen__names_what_allocates(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    training        t = make_training("sgd");
    haul_recording *r = haul_recording_new(step, &t, .frozen = true);
    t.keeps = true;
    set_batch(&t, &t, 1);
    for (int k = 0; k < 6; k++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    haul_tensor *held = haul_keep(t.kept);
    assert_int_equal(haul_recording_run(r), HAUL_STATE);
    puts(haul_error_message());
    assert_non_null(strstr(haul_error_message(), "haul_linear"));
    assert_non_null(strstr(haul_error_message(), "160 bytes of cpu are allocated in call"));
    assert_non_null(strstr(haul_error_message(), "the recording is frozen"));
    haul_error_clear();
    haul_release(held);
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    haul_release(t.kept);
    haul_scope_pop(scope);
}

/* ---- memory of the program ---- */

static void test_arena__of_the_program(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    haul_scope           *scope = haul_scope_push();
    training              eager = make_training("sgd"), recorded = make_training("sgd");
    haul_tensor          *arena = haul_zeros(HAUL_U8, HAUL_SHAPE(BYTES));
    haul_recording       *r = haul_recording_new(step, &recorded, .arena = arena);
    haul_recording_report report;
    haul_memory_stats     before, after;
    uint8_t               bytes[64] = {0};
    bool                  failed;
    for (int k = 0; k < 6; k++) {
        set_batch(&eager, &recorded, (unsigned)k);
        assert_int_equal(make_both(&eager, r, &failed), HAUL_OK);
        assert_false(failed);
        expect_same(&eager, &recorded, k);
    }
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_int_equal(report.followed, 5);
    assert_int_equal(report.arena_bytes, BYTES);
    haul_memory_stats_get(haul_cpu(), &before);
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    haul_memory_stats_get(haul_cpu(), &after);
    assert_int_equal(before.allocations, after.allocations);
    assert_int_equal(haul_read(haul_slice(arena, 0, 0, 64, 1), bytes, sizeof bytes), HAUL_OK);
    int used = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        used += bytes[i] != 0;
    assert_true(used > 0);
    haul_scope_pop(scope);
}

static void test_arena__that_is_too_small(void **state)
{
    (void)state;
    haul_scope           *scope = haul_scope_push();
    training              t = make_training("sgd");
    haul_tensor          *arena = haul_empty(HAUL_U8, HAUL_SHAPE(128));
    haul_recording       *r = haul_recording_new(step, &t, .arena = arena);
    haul_recording_report report;
    set_batch(&t, &t, 1);
    for (int k = 0; k < 3; k++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_int_equal(report.eager, 3);
    assert_non_null(strstr(report.reason, "the arena that was given has 128 bytes"));
    assert_null(haul_recording_new(step, &t, .arena = haul_slice(arena, 0, 8, 128, 1)));
    assert_non_null(strstr(haul_error_message(), "the arena is a view"));
    haul_error_clear();
    haul_scope_pop(scope);
}

typedef struct symmetric {
    haul_tensor *x, *out;
} symmetric;

/* An operand and a transposed view of the same elements, whose memory no later call needs. */
static haul_status make_symmetric(void *context)
{
    const symmetric *s = context;
    haul_tensor     *y = haul_mul_scalar(s->x, 2);
    return haul_add_into(s->out, haul_add(y, haul_transpose(y, 0, 1)), s->x);
}

static void test_views_of_one_operand(void **state)
{
    (void)state;
    enum { N = 40 };
    static float      out[N * N];
    haul_scope       *scope = haul_scope_push();
    const haul_status on_host = haul_set_device(haul_cpu());
    haul_tensor      *x = haul_reshape(haul_arange(HAUL_F32, 0, N * N, 1), HAUL_SHAPE(N, N));
    symmetric         s = {x, haul_zeros(HAUL_F32, HAUL_SHAPE(N, N))};
    haul_recording   *r = haul_recording_new(make_symmetric, &s);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(haul_recording_run(r), HAUL_OK);
        assert_int_equal(haul_read(s.out, out, sizeof out), HAUL_OK);
        for (int k = 0; k < N * N; k++)
            assert_true(out[k] == (float)(3 * k + 2 * (k % N * N + k / N)));
    }
    assert_int_equal(on_host, HAUL_OK);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_of_one_operand),
        cmocka_unit_test(test_moves__only_where_nothing_needs_all_gradients),
        cmocka_unit_test(test_moves__same_bits),
        cmocka_unit_test(test_moves__arena_of_a_network),
        cmocka_unit_test(test_failures__bad_index),
        cmocka_unit_test(test_failures__host_memory),
        cmocka_unit_test(test_frozen__allocates_nothing),
        cmocka_unit_test(test_frozen__names_what_allocates),
        cmocka_unit_test(test_arena__of_the_program),
        cmocka_unit_test(test_arena__that_is_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
