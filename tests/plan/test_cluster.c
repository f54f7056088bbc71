/* Plans for many devices: the same times as plan/cluster/ranks.h without stages, pipelines and cuts against formulas
 * and all cuts, shards, memory limits, and bad requests. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/error.h"
#include "plan/cluster/exchange.h"
#include "plan/cluster/ranks.h"
#include "plan/cluster/stage.h"
#include "support/random.h"

#define US INT64_C(1000000) /* picoseconds */

/* ---- a step ---- */

enum { BATCH = 64, FEATURES = 256, LAYERS = 8 };

typedef struct training {
    haul_module    *net;
    haul_optimizer *optimizer;
    int64_t         examples, features;
    bool            forward_only;
    int64_t         least; /* examples that the network takes */
} training;

static haul_status step(void *context)
{
    const training *t = context;
    haul_tensor    *y = haul_call(t->net, haul_empty(HAUL_F32, HAUL_SHAPE(t->examples, t->features)));
    if (t->forward_only)
        return haul_error_status();
    const haul_status status = haul_backward(haul_sum(haul_square(y)));
    return status ? status : haul_optimizer_step(t->optimizer);
}

static haul_status record(void *context, int64_t examples, haul_program *out)
{
    training *t = context;
    t->examples = examples;
    if (examples < t->least)
        return haul__fail(HAUL_SHAPE, "step", "x", "more examples are needed");
    return haul_program_record(step, t, out);
}

static haul_scope    *scope;
static training       trained;
static haul__machine *machine;

/* Four linear layers, each with an activation behind it. */
static training training_of(int64_t features)
{
    haul_module *layers[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        layers[i] = i % 2 ? haul_nn_relu() : haul_nn_linear(features, features);
    training t = {.net = haul_nn_sequential(layers, LAYERS), .features = features};
    t.optimizer = haul_adamw(t.net, 0.01);
    return t;
}

static int set_up(void **state)
{
    (void)state;
    scope = haul_scope_push();
    trained = training_of(FEATURES);
    return haul__machine_load("test", "h200", &machine) || !trained.optimizer;
}

static int tear_down(void **state)
{
    (void)state;
    haul_scope_pop(scope);
    haul__free(machine);
    return 0;
}

static haul__cluster_request request_of(int devices)
{
    return (haul__cluster_request){.record = record,
                                   .context = &trained,
                                   .machine = machine,
                                   .device = 1,
                                   .devices = devices,
                                   .per_host = devices < 8 ? devices : 8,
                                   .batch = BATCH,
                                   .most = BATCH,
                                   .limit = INT64_MAX / 2,
                                   .rate = INT64_C(50000000000),
                                   .latency_ns = 5000,
                                   .bucket = 4 << 20,
                                   .only = {.shard = -1}};
}

static haul__cluster_plans find(const haul__cluster_request *r)
{
    haul__cluster_plans plans;
    if (haul__cluster_find(r, &plans))
        fail_msg("%s", haul_error_message());
    for (int i = 0; i < plans.count; i++) {
        const haul__cluster_plan *p = &plans.items[i];
        assert_true(p->step_ps == p->compute_ps + p->exposed_ps + p->bubble_ps);
        assert_int_equal(p->examples * p->layout.parts * p->layout.replicas, r->batch);
        assert_int_equal(p->devices, p->layout.stages * p->layout.replicas);
        assert_true(p->devices <= r->devices && p->devices <= p->hosts * r->per_host);
        assert_true(p->bubble_ps >= 0 && (p->layout.stages > 1 || !p->bubble_ps));
        assert_true(p->devices > 1 || (!p->exposed_ps && !p->sent_bytes));
        assert_true(p->layout.stages > 1 || p->exposed_ps <= p->exchange_ps);
    }
    return plans;
}

/* ---- replicas ---- */

static haul__ranks_step by_ranks(const haul__cluster_request *r, int ranks, int parts)
{
    haul_program     program;
    haul__ranks_step out;
    assert_int_equal(record(&trained, r->batch / ranks / parts, &program), HAUL_OK);
    const haul__ranks_request x = {.program = &program,
                                   .machine = machine,
                                   .device = r->device,
                                   .ranks = ranks,
                                   .pieces = ranks * parts,
                                   .per_host = r->per_host,
                                   .rate = r->rate,
                                   .latency_ns = r->latency_ns,
                                   .bucket = r->bucket,
                                   .overlaps = true};
    assert_int_equal(haul__ranks_predict(&x, &out), HAUL_OK);
    haul_program_free(&program);
    return out;
}

static void test_as_ranks(void **state)
{
    (void)state;
    random_state = 3;
    for (int i = 0; i < 12; i++) {
        const int             ranks = 1 << below(5), parts = 1 << below(3);
        haul__cluster_request r = request_of(ranks);
        r.device = below(2);
        r.bucket = 1 + below(1 << 21);
        r.per_host = 1 + below(ranks);
        r.only = (haul__layout){1, ranks, 0, parts};
        haul__cluster_plans    plans = find(&r);
        const haul__ranks_step wanted = by_ranks(&r, ranks, parts);
        assert_int_equal(plans.count, 1);
        assert_true(llabs(plans.items[0].step_ps - wanted.step_ps) < US / 100); /* updates are divided and rounded */
        assert_true(plans.items[0].exchange_ps == wanted.exchange_ps);
        assert_true(plans.items[0].sent_bytes == wanted.sent_bytes);
        assert_true(plans.gradient_bytes == wanted.gradient_bytes);
        haul__cluster_free(&plans);
    }
}

/* Ranks on the CPU share it with those that the layout has on their host. */
static void test_shared_host(void **state)
{
    (void)state;
    const haul__layout    any = {.shard = -1};
    haul__cluster_request one = request_of(1), four = request_of(4);
    one.device = four.device = 0;
    haul__cluster_plans alone = find(&one), plans = find(&four);
    assert_true(haul__cluster_best(&alone, 1, one.limit, &any)->step_ps ==
                haul__cluster_best(&plans, 1, four.limit, &any)->step_ps);
    haul__cluster_free(&alone);
    haul__cluster_free(&plans);
}

/* What shards save and cost, of four ranks with 4 x (256 x 256 + 256) parameters, in f32. */
static void test_shards(void **state)
{
    (void)state;
    const int64_t         bytes = INT64_C(4) * (FEATURES * FEATURES + FEATURES) * 4;
    haul__cluster_request r = request_of(4);
    r.only = (haul__layout){.stages = 1, .replicas = 4, .shard = -1, .parts = 1};
    haul__cluster_plans       plans = find(&r);
    const haul__cluster_plan *p = plans.items;
    assert_int_equal(plans.count, 4);
    for (int shard = 0; shard < 4; shard++)
        assert_int_equal(p[shard].layout.shard, shard);
    assert_int_equal(p[0].parameter_bytes, bytes);
    assert_int_equal(p[0].state_bytes, 2 * bytes);
    assert_int_equal(p[0].gradient_bytes, 2 * bytes); /* and the sums that travel */
    assert_int_equal(p[0].sent_bytes, 2 * bytes * 3 / 4);
    assert_int_equal(p[1].sent_bytes, 3 * bytes * 3 / 4);
    assert_int_equal(p[2].sent_bytes, 2 * bytes * 3 / 4);
    assert_int_equal(p[3].sent_bytes, 3 * bytes * 3 / 4);
    assert_int_equal(p[1].state_bytes, bytes / 2);
    assert_true(p[1].compute_ps < p[0].compute_ps); /* each updates its part */
    const haul__exchange x = {machine, 1, 4, 4, 1, r.rate, r.latency_ns, false};
    const int64_t        gathered = haul__exchange_staging(&x, bytes) + haul__exchange_gather(&x, bytes),
                  fetched = haul__exchange_latency(&x, INT64_C(2) * LAYERS) + gathered; /* a weight and a bias each */
    assert_true(p[3].exchange_ps == p[2].exchange_ps - gathered + 2 * fetched);
    haul__cluster_free(&plans);
}

/* Buckets and parameters of others are there a few at a time, so large networks need less memory in parts. */
static void test_shards_of_large_networks(void **state)
{
    (void)state;
    training              large = training_of(4 * FEATURES); /* 16 MiB */
    haul__cluster_request r = request_of(4);
    r.context = &large;
    r.bucket = 1;
    r.only = (haul__layout){.stages = 1, .replicas = 4, .shard = -1, .parts = 1};
    haul__cluster_plans       plans = find(&r);
    const haul__cluster_plan *p = plans.items;
    assert_int_equal(plans.count, 4);
    assert_true(p[2].gradient_bytes < p[1].gradient_bytes && p[3].gradient_bytes == p[2].gradient_bytes);
    assert_true(p[3].parameter_bytes < p[2].parameter_bytes && p[2].parameter_bytes == p[1].parameter_bytes);
    haul__cluster_free(&plans);
}

/* The network between hosts is nothing to ranks of one host. */
static void test_one_host(void **state)
{
    (void)state;
    for (int shard = 0; shard < HAUL__CLUSTER_SHARDS; shard++) {
        haul__cluster_request r = request_of(8), slow = r;
        r.only = slow.only = (haul__layout){1, 8, shard, 1};
        slow.latency_ns *= 1000;
        slow.rate /= 1000;
        haul__cluster_plans plans = find(&r), same = find(&slow);
        assert_true(plans.items[0].step_ps == same.items[0].step_ps);
        haul__cluster_free(&plans);
        haul__cluster_free(&same);
    }
}

/* ---- pipelines ---- */

static void test_equal_stages(void **state)
{
    (void)state;
    for (int count = 1; count <= 8; count *= 2)
        for (int parts = 1; parts <= 16; parts *= 2) {
            haul__stage stages[8] = {0};
            for (int s = 0; s < count; s++)
                stages[s] = (haul__stage){.forward_ps = US, .backward_ps = 2 * US};
            haul__stages_run(stages, count, parts, false);
            assert_int_equal(stages[0].done_ps, 3 * US * (parts + count - 1));
            assert_int_equal(stages[count - 1].done_ps, US * (count - 1) + 3 * US * parts);
        }
}

/* Two stages of 1 and 3 us forward, twice as much backward, copies of 5 us, two micro-batches: forward the first stage
 * ends at 1 and 2, its copies at 6 and 11, and the second stage at 9 and 14. Its backward passes end at 20 and 26, the
 * copies at 25 and 31, and the first stage's passes at 27 and 33. */
static void test_copies(void **state)
{
    (void)state;
    haul__stage stages[2] = {{.forward_ps = US, .backward_ps = 2 * US, .up_ps = 5 * US, .down_ps = 5 * US},
                             {.forward_ps = 3 * US, .backward_ps = 6 * US}};
    haul__stages_run(stages, 2, 2, false);
    assert_int_equal(stages[1].done_ps, 26 * US);
    assert_int_equal(stages[0].done_ps, 33 * US);
    stages[0].fetch_ps = 4 * US; /* longer than both of its passes */
    haul__stages_run(stages, 2, 1, true);
    assert_int_equal(stages[0].done_ps, (4 + 5 + 9 + 5 + 4) * US);
}

/* The longest stage of the best of all cuts, with the copies before it. */
static int64_t best_cut(const haul__units *u, const haul__cluster_request *r, int first, int stages)
{
    int64_t best = INT64_MAX / 2, here = 0, border = 0;
    bool    trains = false;
    if (first) {
        const haul__unit *b = &u->items[first - 1];
        border = b->up_count * haul__machine_copy_time(machine, 1, 2, b->up, true) +
                 b->down_count * haul__machine_copy_time(machine, 1, 2, b->down, true);
    }
    for (int end = first + 1; end <= u->count - (stages - 1); end++) {
        here += u->items[end - 1].forward_ps + u->items[end - 1].backward_ps;
        trains = trains || u->items[end - 1].gradients;
        if (!trains || (stages == 1 && end < u->count))
            continue;
        const int64_t rest = stages > 1 ? best_cut(u, r, end, stages - 1) : 0;
        const int64_t longest = here + border > rest ? here + border : rest;
        best = longest < best ? longest : best;
    }
    return best;
}

static void test_cuts(void **state)
{
    (void)state;
    random_state = 11;
    for (int i = 0; i < 200; i++) {
        haul__cluster_request r = request_of(8);
        haul__unit            items[9] = {0};
        haul__units           u = {.items = items, .count = 1 + below(9)};
        r.per_host = 16;
        for (int k = 0; k < u.count; k++)
            items[k] = (haul__unit){.forward_ps = below(100) * US,
                                    .backward_ps = below(100) * US,
                                    .gradients = below(3),
                                    .up = below(1 << 24),
                                    .down = below(1 << 24),
                                    .up_count = 1,
                                    .down_count = 1};
        items[below(u.count)].gradients = 1;
        const int   count = 1 + below(haul__units_most_stages(&u));
        haul__stage stages[9];
        assert_int_equal(haul__stages_cut(&u, &r, count, stages), HAUL_OK);
        int64_t longest = 0;
        int     end = 0;
        for (int s = 0; s < count; s++) {
            assert_true(stages[s].first == end && stages[s].end > end && stages[s].sum.gradients > 0);
            end = stages[s].end;
            const int64_t ps =
                stages[s].forward_ps + stages[s].backward_ps + (s ? stages[s - 1].up_ps + stages[s - 1].down_ps : 0);
            longest = ps > longest ? ps : longest;
        }
        assert_int_equal(end, u.count);
        assert_int_equal(longest, best_cut(&u, &r, 0, count));
    }
}

/* A linear layer that begins a stage keeps a copy of its input for the backward pass; an activation gets the gradient
 * of its result, too. */
static void test_received(void **state)
{
    (void)state;
    const int64_t           bytes = INT64_C(4) * BATCH * FEATURES;
    haul_program            program;
    haul__units             u;
    const haul__units_paths paths = {NULL};
    assert_int_equal(record(&trained, BATCH, &program), HAUL_OK);
    assert_int_equal(haul__units_find(&program, machine, 1, &paths, &u), HAUL_OK);
    assert_int_equal(u.count, LAYERS);
    int64_t                 *change = haul__calloc(u.graph.operation_count + 1, sizeof *change);
    const haul__units_memory whole = haul__units_memory_of(&u, 0, LAYERS, change);
    for (int i = 2; i < LAYERS; i += 2) {
        const haul__units_memory before = haul__units_memory_of(&u, 0, i, change),
                                 behind = haul__units_memory_of(&u, i, LAYERS, change);
        assert_int_equal(before.saved + behind.saved, whole.saved + bytes);
    }
    for (int i = 1; i < LAYERS - 1; i += 2)
        assert_int_equal(haul__units_memory_of(&u, i, i + 1, change).peak, 3 * bytes); /* y, dy and dx */
    haul__free(change);
    haul__units_free(&u);
    haul_program_free(&program);
}

/* Stages of the modules that the caller names: each has a layer and the activation behind it. */
static void test_paths(void **state)
{
    (void)state;
    const haul__layout any = {.shard = -1};
    training           nested = {.features = FEATURES};
    haul_module       *blocks[LAYERS / 2];
    const char *const names[] = {"0", "1", "2", "3"}, *const whole[] = {""};
    haul__cluster_request r = request_of(8);
    for (int i = 0; i < LAYERS / 2; i++)
        blocks[i] = HAUL_SEQUENTIAL(haul_nn_linear(FEATURES, FEATURES), haul_nn_relu());
    nested.net = haul_nn_sequential(blocks, LAYERS / 2);
    nested.optimizer = haul_adamw(nested.net, 0.01);
    r.context = &nested;
    r.only = (haul__layout){.replicas = 1, .shard = -1};
    r.paths = (haul__units_paths){names, LAYERS / 2};
    haul__cluster_plans plans = find(&r);
    assert_int_equal(plans.most_stages, LAYERS / 2);
    for (int count = 1; count <= 4; count *= 2) {
        const haul__layout        of = {.stages = count, .shard = -1};
        const haul__cluster_plan *p = haul__cluster_best(&plans, 8, r.limit, &of);
        haul__cluster_stage      *stages = haul__cluster_stages(&r, p);
        int64_t                   peak = 0, bytes = 0;
        int                       first = 0;
        assert_non_null(stages);
        for (int s = 0; s < count; s++) {
            const int last = atoi(stages[s].last);
            assert_string_equal(stages[s].first, names[first]);
            assert_true(first <= last && last < LAYERS / 2);
            first = last + 1;
            bytes += stages[s].parameter_bytes;
            peak = stages[s].peak_bytes > peak ? stages[s].peak_bytes : peak;
        }
        assert_int_equal(first, LAYERS / 2);
        assert_int_equal(bytes, INT64_C(4) * (FEATURES * FEATURES + FEATURES) * 4);
        assert_int_equal(peak, p->peak_bytes);
        haul__free(stages);
    }
    haul__cluster_free(&plans);
    r.paths = (haul__units_paths){whole, 1};
    plans = find(&r);
    assert_int_equal(haul__cluster_best(&plans, 8, r.limit, &any)->layout.stages, 1);
    assert_int_equal(plans.most_stages, 1);
    haul__cluster_free(&plans);
}

/* A stage keeps the activations of as many micro-batches as there are stages from it on. */
static void test_kept_activations(void **state)
{
    (void)state;
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        haul__cluster_request r = request_of(2);
        r.batch = r.most = BATCH << i; /* of equal micro-batches */
        r.only = (haul__layout){2, 1, 0, 4 << i};
        haul__cluster_plans plans = find(&r);
        assert_int_equal(plans.count, 1);
        bytes[i] = plans.items[0].passing_bytes;
        haul__cluster_free(&plans);
    }
    assert_int_equal(bytes[0], bytes[1]);
}

/* Stages on a host share its CPU. */
static void test_stages_on_cpu(void **state)
{
    (void)state;
    haul__cluster_request r = request_of(2), apart = r;
    r.device = apart.device = 0;
    r.only = apart.only = (haul__layout){2, 1, 0, 1};
    apart.per_host = 1;
    haul__cluster_plans together = find(&r), alone = find(&apart);
    assert_int_equal(together.count, 1);
    assert_true(llabs(together.items[0].compute_ps - 2 * alone.items[0].compute_ps) < US / 100);
    haul__cluster_free(&together);
    haul__cluster_free(&alone);
}

/* Stages of one thread have a core each. */
static void test_stages_on_cores(void **state)
{
    (void)state;
    haul__machine        *host = haul__malloc(sizeof *host);
    haul__cluster_request r = request_of(2), apart = r;
    assert_non_null(host);
    *host = *machine;
    host->devices[0].threads = 1;
    host->devices[0].cores = 2;
    r.machine = host;
    r.device = apart.device = 0;
    r.only = apart.only = (haul__layout){2, 1, 0, 1};
    apart.per_host = 1;
    haul__cluster_plans together = find(&r), alone = find(&apart);
    assert_true(together.items[0].compute_ps == alone.items[0].compute_ps);
    haul__cluster_free(&together);
    haul__cluster_free(&alone);
    haul__free(host);
}

/* ---- the choice ---- */

static void test_choice(void **state)
{
    (void)state;
    const haul__layout        any = {.shard = -1}, two = {.stages = 2, .shard = -1};
    haul__cluster_request     r = request_of(1024);
    haul__cluster_plans       plans = find(&r);
    const haul__cluster_plan *best = haul__cluster_best(&plans, 1024, r.limit, &any);
    assert_non_null(best);
    for (int i = 0; i < plans.count; i++)
        assert_true(best->step_ps <= plans.items[i].step_ps + plans.items[i].step_ps / 100);
    for (int devices = 512; devices; devices /= 2) {
        const haul__cluster_plan *fewer = haul__cluster_best(&plans, devices, r.limit, &any);
        assert_true(fewer->devices <= devices && best->step_ps <= fewer->step_ps + fewer->step_ps / 100);
    }
    assert_int_equal(haul__cluster_best(&plans, 1024, r.limit, &two)->layout.stages, 2);
    const haul__cluster_plan *least = haul__cluster_least(&plans, 1024);
    assert_null(haul__cluster_best(&plans, 1024, least->peak_bytes - 1, &any));
    assert_non_null(haul__cluster_best(&plans, 1024, least->peak_bytes, &any));
    haul__cluster_free(&plans);
}

/* The search ends early, but finds every layout that fits, and the one that needs least memory. On one device this has
 * one micro-batch, because several need sums of gradients. */
static void test_limits(void **state)
{
    (void)state;
    const haul__layout any = {.shard = -1};
    for (int devices = 1; devices <= 1024; devices *= 8) {
        haul__cluster_request r = request_of(devices);
        haul__cluster_plans   all = find(&r);
        const int64_t         least = haul__cluster_least(&all, devices)->peak_bytes;
        for (int64_t limit = least / 2; limit <= 2 * least; limit += least / 8) {
            r.limit = limit;
            haul__cluster_plans       plans = find(&r);
            const haul__cluster_plan *wanted = haul__cluster_best(&all, devices, limit, &any),
                                     *best = haul__cluster_best(&plans, devices, limit, &any);
            assert_true(haul__cluster_least(&plans, devices)->peak_bytes == least);
            assert_int_equal(!best, limit < least);
            assert_true(!best || best->step_ps == wanted->step_ps);
            haul__cluster_free(&plans);
        }
        assert_true(devices > 1 || haul__cluster_least(&all, 1)->layout.parts == 1);
        haul__cluster_free(&all);
    }
}

/* Sizes of micro-batches that the network refuses are left out. */
static void test_refused_sizes(void **state)
{
    (void)state;
    haul__cluster_request r = request_of(64);
    trained.least = 4;
    haul__cluster_plans plans = find(&r);
    assert_true(plans.count > 0);
    for (int i = 0; i < plans.count; i++)
        assert_true(plans.items[i].examples >= 4);
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul__cluster_free(&plans);
    trained.least = BATCH + 1;
    assert_int_equal(haul__cluster_find(&r, &plans), HAUL_SHAPE);
    assert_non_null(strstr(haul_error_message(), "more examples"));
    haul__cluster_free(&plans);
    haul_error_clear();
    trained.least = 0;
}

/* ---- bad requests ---- */

static void test_bad_requests(void **state)
{
    (void)state;
    haul__cluster_request r = request_of(4);
    haul__cluster_plans   plans;
    r.devices = HAUL__CLUSTER_DEVICES + 1;
    assert_int_equal(haul__cluster_find(&r, &plans), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "from 1 to 1024 devices"));
    haul__cluster_free(&plans);
    haul_error_clear();
    r = request_of(4);
    r.batch = 63;
    r.only.replicas = 2;
    plans = find(&r);
    assert_int_equal(plans.count, 0);
    trained.forward_only = true;
    r = request_of(4);
    assert_int_equal(haul__cluster_find(&r, &plans), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "no gradients"));
    haul__cluster_free(&plans);
    trained.forward_only = false;
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_host),
        cmocka_unit_test(test_as_ranks),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_equal_stages),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_kept_activations),
        cmocka_unit_test(test_stages_on_cpu),
        cmocka_unit_test(test_stages_on_cores),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_received),
        cmocka_unit_test(test_one_host),
        cmocka_unit_test(test_shards_of_large_networks),
        cmocka_unit_test(test_refused_sizes),
        cmocka_unit_test(test_bad_requests),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
