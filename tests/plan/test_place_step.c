/* Placement of training steps: random programs on shipped machines against all placements, what stays together, roles
 * of memory, pins, and copies that are paid once. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "plan/place/certificate.h"
#include "plan/place/step.h"
#include "plan/verify/verify.h"
#include "record/work.h"
#include "support/every_placement.h"
#include "support/random.h"

/* ---- programs ---- */

/* A training of two layers whose steps differ by its numbers. */
typedef struct training {
    int64_t         batch, inputs, width, classes;
    bool            bias, residual, shared, sums, adam, gelu, counts, norm;
    haul_module    *first, *second, *net; /* with an activation between them: modules 0, 1 and 2 */
    haul_optimizer *optimizer;
    haul_tensor    *x, *y, *count;
    haul_program    program;
} training;

static haul_tensor *forward(const training *t, haul_tensor *x)
{
    if (!t->shared && !t->residual && !t->sums)
        return haul_call(t->net, x);
    haul_tensor *h = haul_call(t->first, x);
    h = t->gelu ? haul_gelu(h) : haul_relu(h);
    if (t->sums) /* the gradient of h is a sum, in the memory of its first part */
        return haul_call(t->second, haul_add(haul_relu(haul_call(t->first, h)), h));
    h = t->shared ? haul_call(t->first, h) : h;
    return haul_call(t->second, t->residual ? haul_add(h, x) : h);
}

static haul_status step(void *context)
{
    const training *t = context;
    haul_tensor    *loss = haul_cross_entropy(forward(t, t->x), t->y);
    haul_status     status = haul_optimizer_zero_grad(t->optimizer);
    if (!status)
        status = haul_backward(loss);
    if (!status && t->counts)
        status = haul_add_into(t->count, t->count, haul_detach(loss)) ? HAUL_OK : haul_error_status();
    return status ? status : haul_optimizer_step(t->optimizer);
}

/* Within a dry run: the second step, for which gradients and states are there. */
static haul_status record_second(void *context)
{
    training *t = context;
    t->first = haul_nn_linear(t->inputs, t->width, .no_bias = !t->bias);
    t->second = haul_nn_linear(t->width, t->classes, .no_bias = !t->bias);
    t->net = HAUL_SEQUENTIAL(t->first,
                             t->norm   ? haul_nn_batch_norm(t->width)
                             : t->gelu ? haul_nn_gelu()
                                       : haul_nn_relu(),
                             t->second);
    t->optimizer = t->adam ? haul_adam(t->net, 0.001) : haul_sgd(t->net, 0.1, .momentum = 0.9);
    t->x = haul_empty(HAUL_F32, HAUL_SHAPE(t->batch, t->inputs));
    t->y = haul_empty(HAUL_I64, HAUL_SHAPE(t->batch));
    t->count = haul_zeros(HAUL_F32, HAUL_SCALAR_SHAPE);
    haul_status status = step(t);
    return status ? status : haul_program_record(step, t, &t->program);
}

static haul_program *record(training *t)
{
    haul_estimate_result all;
    haul_scope          *scope = haul_scope_push();
    t->program = (haul_program){0};
    if (haul_estimate(record_second, t, &all))
        fail_msg("%s", haul_error_message());
    haul_estimate_free(&all);
    haul_scope_pop(scope);
    return &t->program;
}

static training random_training(uint64_t seed)
{
    random_state = seed * 7919 + 1;
    training t = {.batch = INT64_C(1) << below(9), .inputs = INT64_C(16) << below(7), .classes = 10 << below(5)};
    t.residual = below(2) == 0;
    t.shared = below(3) == 0;
    t.width = t.residual || t.shared ? t.inputs : INT64_C(16) << below(7);
    t.bias = below(3) == 0;
    t.adam = below(2) == 0;
    t.gelu = below(2) == 0;
    t.counts = below(3) == 0;
    t.sums = t.shared && t.residual && below(8) == 0;
    return t;
}

static haul__machine *machine_of(const char *name)
{
    haul__machine *m;
    assert_int_equal(haul__machine_load("test", name, &m), HAUL_OK);
    return m;
}

static haul__place_graph graph_of(const haul_program *p, const haul__machine *m)
{
    haul__place_graph g;
    if (haul__place_graph_of(&(haul__place_step){p, m, .device_count = 2, .devices = {0, 1}}, &g))
        fail_msg("%s", haul_error_message());
    return g;
}

/* ---- brute force over the groups that both devices can run ---- */

static int64_t brute_force(const haul__place_graph *g)
{
    uint8_t place[64];
    int     movable[64], count = 0;
    assert_in_range(g->group_count, 1, 64);
    for (size_t k = 0; k < g->group_count; k++) {
        place[k] = !haul__place_allows(g, (int)k, 0);
        if (haul__place_allows(g, (int)k, 0) && haul__place_allows(g, (int)k, 1))
            movable[count++] = (int)k;
    }
    assert_in_range(count, 1, 20);
    int64_t least = INT64_MAX;
    for (uint32_t mask = 0; mask < UINT32_C(1) << count; mask++) {
        for (int i = 0; i < count; i++)
            place[movable[i]] = mask >> i & 1;
        const int64_t cost = haul__place_cost(g, place);
        least = cost < least ? cost : least;
    }
    return least;
}

static void check_certificate(const haul__place_graph *g, const haul__placement *p)
{
    const haul__certificate c = {g, p, "program", "machine", (const char *const[]){"cpu", "cuda:0", "cuda:1"}};
    char                   *text = haul__certificate_text(&c);
    haul__json             *json;
    haul__verdict           verdict;
    size_t                  used;
    assert_int_equal(haul__json_read("test", (const uint8_t *)text, strlen(text), 8, &json, &used), HAUL_OK);
    assert_non_null(json);
    if (!haul__verify(json, &verdict))
        fail_msg("%s[%lld]: %s", verdict.member, (long long)verdict.item, verdict.why_not);
    assert_int_equal(verdict.cost, p->cost);
    haul__json_free(json);
    haul__free(text);
}

static void check_against_all(const haul__place_graph *g)
{
    haul__placement p;
    assert_int_equal(haul__place_solve(g, &p), HAUL_OK);
    assert_int_equal(p.cost, brute_force(g));
    assert_int_equal(p.proof.bound, p.cost);
    for (int d = 0; d < 2; d++) {
        haul__placement single;
        assert_int_equal(haul__place_single(g, d, &single), HAUL_OK);
        assert_true(p.cost <= single.cost);
        haul__placement_free(&single);
    }
    check_certificate(g, &p);
    haul__placement_free(&p);
}

/* 500 programs, each on a shipped machine. */
static void test_place_step__equals_brute_force(void **context)
{
    (void)context;
    haul__machine *machines[5];
    int64_t        least = 1000, most = 0;
    for (int i = 0; i < 5; i++)
        machines[i] = machine_of(haul__machine_shipped(i));
    for (uint64_t seed = 1; seed <= 500; seed++) {
        training            t = random_training(seed);
        const haul_program *p = record(&t);
        haul__place_graph   g = graph_of(p, machines[seed % 5]);
        least = p->operation_count < least ? p->operation_count : least;
        most = p->operation_count > most ? p->operation_count : most;
        check_against_all(&g);
        haul__place_free(&g);
        haul_program_free(&t.program);
    }
    print_message("programs of %d to %d operations\n", (int)least, (int)most);
    for (int i = 0; i < 5; i++)
        haul__free(machines[i]);
}

/* ---- three devices ---- */

/* The machine with two unlike GPUs of which each is fast at something: slower links, and the second one has half the
 * launch costs. A direct link between them if `direct`. */
static haul__machine *three_devices(int seed)
{
    haul__machine *m = machine_of("h200");
    for (int i = 0; i < m->link_count; i++)
        m->links[i].latency_ns = 200 * (1 + seed % 3);
    m->devices[1].launch_ns = 2000;
    m->devices[2].launch_ns = 500;
    m->devices[2].bytes_per_second /= 8;
    for (int i = 0; i < m->devices[2].rate_count; i++)
        for (int k = 0; k < m->devices[2].rates[i].count; k++)
            m->devices[2].rates[i].points[k].rate /= 4;
    for (int from = 1; from < 3 && seed % 2; from++)
        m->links[m->link_count++] = (haul__machine_link){
            .from = from, .to = 3 - from, .latency_ns = 300, .pinned = 200000000000, .pageable = 200000000000};
    return m;
}

/* Within 10 % of the best placement, and never worse than the best one on fewer devices. */
static void test_place_step__is_near_the_best_on_three_devices(void **context)
{
    int    three = 0;
    double sum = 0, worst = 0;
    (void)context;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        haul__machine    *m = three_devices((int)seed);
        training          t = random_training(seed);
        haul__place_graph g;
        haul__placement   p;
        unsigned          used = 0;
        t.batch = t.batch > 64 ? 64 : t.batch;
        assert_int_equal(
            haul__place_graph_of(&(haul__place_step){record(&t), m, .device_count = 3, .devices = {0, 1, 2}}, &g),
            HAUL_OK);
        assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
        const int64_t least = least_of_all(&g, 7, false);
        const double  above = (double)(p.cost - least) / (double)least;
        for (size_t k = 0; k < g.group_count; k++)
            used |= 1U << p.device[k];
        assert_true(p.proof.bound <= least && p.cost <= least_of_all(&g, 3, false) &&
                    p.cost <= least_of_all(&g, 5, false));
        check_certificate(&g, &p);
        three += used == 7;
        sum += above;
        worst = above > worst ? above : worst;
        haul__placement_free(&p);
        haul__place_free(&g);
        haul_program_free(&t.program);
        haul__free(m);
    }
    print_message("%d of 100 plans use three devices; they are %.2f %% above the best in the mean, %.1f %% at most\n",
                  three, sum, 100 * worst);
    assert_true(worst <= 0.10 && three >= 5);
}

/* ---- groups and roles ---- */

static const haul__place_operation *find(const haul__place_graph *g, const char *name, const char *module)
{
    for (size_t i = 0; i < g->operation_count; i++)
        if (!strcmp(g->operations[i].name, name) && !strcmp(g->operations[i].module, module))
            return &g->operations[i];
    fail_msg("there is no %s of '%s'", name, module);
    return NULL;
}

static int64_t bytes_of(const haul__place_graph *g, haul__place_role role)
{
    int64_t sum = 0;
    for (size_t t = 0; t < g->tensor_count; t++)
        sum += g->tensors[t].role == role ? g->tensors[t].home_bytes : 0;
    return sum;
}

static training plain_training(void)
{
    return (training){.batch = 32, .inputs = 256, .width = 512, .classes = 10, .counts = true};
}

/* A parameter, its momentum and its update are one group; those of two layers are not, although one call updates them.
 */
static void test_place_step__groups_what_stays_together(void **context)
{
    (void)context;
    haul__machine    *m = machine_of("laptop-4g");
    training          t = plain_training();
    haul__place_graph g = graph_of(record(&t), m);
    for (int i = 0; i < 2; i++) {
        const char *module = i ? "2" : "0";
        const int   group = find(&g, "parameter", module)->group;
        assert_int_equal(find(&g, "optimizer state", module)->group, group);
        assert_int_equal(find(&g, "haul_sgd", module)->group, group);
        assert_true(find(&g, "haul_linear", module)->group != group);
    }
    assert_true(find(&g, "parameter", "0")->group != find(&g, "parameter", "2")->group);
    assert_int_equal(find(&g, "buffer", "")->group, find(&g, "haul_add", "")->group);
    assert_int_equal(bytes_of(&g, HAUL__PLACE_PARAMETER), 4 * 512 * (256 + 10));
    assert_int_equal(bytes_of(&g, HAUL__PLACE_STATE), 4 * 512 * (256 + 10));
    assert_in_range(bytes_of(&g, HAUL__PLACE_GRADIENT), 4 * 512 * (256 + 10), 4 * 512 * (256 + 10) + 512);
    assert_int_equal(find(&g, "data", "")->cost[1], HAUL__PLACE_NEVER);
    assert_int_equal(bytes_of(&g, HAUL__PLACE_DATA), 32 * (4 * 256 + 8));
    assert_in_range(bytes_of(&g, HAUL__PLACE_OTHER), 4, 512);
    haul__place_free(&g);
    haul_program_free(&t.program);
    haul__free(m);
}

/* The gradients of a batch norm are parts of one tensor. The copy of one that its parameter keeps is made where the
 * parameter is. */
static void test_place_step__copies_gradients_to_parameters(void **context)
{
    (void)context;
    haul__machine *m = machine_of("laptop-4g");
    training       t = plain_training();
    t.norm = true;
    haul__place_graph            g = graph_of(record(&t), m);
    const haul__place_operation *copy = find(&g, "haul_to_order", "1");
    assert_int_equal(copy->group, find(&g, "parameter", "1")->group);
    assert_true(copy->group != find(&g, "haul_batch_norm_backward", "1")->group);
    haul__place_free(&g);
    haul_program_free(&t.program);
    haul__free(m);
}

static int64_t resident_on(const haul__place_graph *g, const haul__placement *p, int device, int moment)
{
    int64_t sum = 0;
    for (size_t t = 0; t < g->tensor_count; t++)
        sum += haul__place_resident(g, (int)t, p->device, device, moment);
    return sum;
}

static training residual_training(void)
{
    return (training){.batch = 64, .inputs = 256, .width = 256, .classes = 10, .sums = true};
}

/* The sum of gradients of a tensor with two uses has a place of its own, although it is made in place. On one device it
 * needs no memory. */
static void test_place_step__begins_a_tensor_with_a_sum_of_gradients(void **context)
{
    (void)context;
    haul__machine    *m = machine_of("h200");
    training          t = residual_training();
    haul__place_graph g = graph_of(record(&t), m);
    haul__placement   single;
    int               sums = 0;
    assert_int_equal(haul__place_single(&g, 1, &single), HAUL_OK);
    for (int i = 0; i < (int)g.operation_count; i++) {
        const haul__place_operation *o = &g.operations[i];
        if (strcmp(o->name, "haul_add") != 0 || strcmp(o->section, "backward pass") != 0 ||
            o->group == find(&g, "haul_sgd", o->module)->group)
            continue;
        sums++;
        for (int k = 0; k < (int)g.operation_count; k++)
            assert_true(k == i || g.operations[k].group != o->group);
        assert_true(resident_on(&g, &single, 1, i) <= resident_on(&g, &single, 1, i - 1));
    }
    assert_int_equal(sums, 1);
    check_against_all(&g);
    haul__placement_free(&single);
    haul__place_free(&g);
    haul_program_free(&t.program);
    haul__free(m);
}

/* The cost of one call that updates two parameters is divided, and none of it is lost. */
static void test_place_step__divides_updates(void **context)
{
    (void)context;
    haul__machine    *m = machine_of("laptop-4g");
    training          t = plain_training();
    haul_program     *p = record(&t);
    haul__place_graph g = graph_of(p, m);
    int64_t           parts = 0, whole = 0;
    for (size_t i = 0; i < g.operation_count; i++)
        parts += strcmp(g.operations[i].name, "haul_sgd") ? 0 : g.operations[i].cost[0];
    for (int64_t i = 0; i < p->operation_count; i++) {
        const haul_program_operation *o = &p->operations[i];
        const haul__machine_work      w = haul__program_work_of(p, o);
        whole += strcmp(o->name, "haul_sgd") ? 0 : haul__machine_time(m, 0, &w);
    }
    assert_true(whole > 0);
    assert_in_range(parts, whole - 2, whole);
    haul__place_free(&g);
    haul_program_free(p);
    haul__free(m);
}

static haul_status class_losses(void *context)
{
    haul_tensor *const *t = context;
    return haul_backward(haul_nll_loss(haul_log_softmax(t[0], 1), t[1]));
}

/* The dtype of rates is the floating one: labels do not decide, and an operand that is absent does not count. */
static void test_place_step__finds_rates_by_floating_operands(void **context)
{
    (void)context;
    haul__machine *m = machine_of("h200");
    haul_scope    *scope = haul_scope_push();
    haul_tensor   *t[] = {haul_zeros(HAUL_F32, HAUL_SHAPE(8, 10)), haul_zeros(HAUL_I64, HAUL_SHAPE(8))};
    haul_program   p;
    int            found = 0;
    haul_set_requires_grad(t[0], true);
    assert_int_equal(haul_program_record(class_losses, t, &p), HAUL_OK);
    m->devices[0].rate_count = 1;
    m->devices[0].rates[0] = (haul__machine_rate){HAUL__WORK_REDUCTION, HAUL_F32, 1, {{1, 1000}}};
    haul__place_graph g = graph_of(&p, m);
    for (size_t i = 0; i < g.operation_count; i++) {
        const haul__place_operation *o = &g.operations[i];
        if (o->call < 0 || strcmp(o->name, "haul_nll_loss_backward") != 0)
            continue;
        const haul_program_operation *call = &p.operations[o->call];
        assert_int_equal(p.values[call->value].store, -1);
        assert_int_equal(o->cost[0],
                         1000 * m->devices[0].launch_ns * call->command_count + call->bytes * INT64_C(1000000000));
        found++;
    }
    assert_int_equal(found, 1);
    haul__place_free(&g);
    haul_program_free(&p);
    haul_scope_pop(scope);
    haul__free(m);
}

/* ---- pins ---- */

static void test_place_step__keeps_pins(void **context)
{
    (void)context;
    haul__machine        *m = machine_of("h200");
    training              t = plain_training();
    const haul__place_pin pins[] = {{"0", 0}, {"[1-9]*", 1}};
    haul__place_graph     g;
    haul__placement       p;
    haul__place_step      step = {record(&t), m, .device_count = 2, .devices = {0, 1}, .pins = pins, .pin_count = 2};
    assert_int_equal(haul__place_graph_of(&step, &g), HAUL_OK);
    assert_int_equal(haul__place_solve(&g, &p), HAUL_OK);
    for (size_t i = 0; i < g.operation_count; i++)
        if (*g.operations[i].module)
            assert_int_equal(p.device[g.operations[i].group], g.operations[i].module[0] != '0');
    assert_int_equal(p.cost, brute_force(&g));
    haul__placement_free(&p);
    haul__place_free(&g);
    haul_program_free(&t.program);
    haul__free(m);
}

static void test_place_step__refuses_impossible_pins(void **context)
{
    (void)context;
    haul__machine        *m = machine_of("h200");
    training              t = plain_training();
    const haul__place_pin both[] = {{"0", 0}, {"*", 1}}, none[] = {{"conv*", 1}};
    haul__place_graph     g;
    haul__place_step      step = {record(&t), m, .device_count = 2, .devices = {0, 1}, .pins = both, .pin_count = 2};
    assert_int_equal(haul__place_graph_of(&step, &g), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "0 is pinned to both cpu and cuda:0"));
    step.pins = none;
    step.pin_count = 1;
    assert_int_equal(haul__place_graph_of(&step, &g), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "no module of the step matches 'conv*'"));
    haul_program_free(&t.program);
    haul__free(m);
    haul_error_clear();
}

/* ---- digests and failures ---- */

static void test_place_step__digests_programs(void **context)
{
    (void)context;
    training a = plain_training(), b = plain_training(), c = plain_training();
    c.batch++;
    assert_true(haul__place_digest(record(&a)) == haul__place_digest(record(&b)));
    assert_true(haul__place_digest(&a.program) != haul__place_digest(record(&c)));
    haul_program_free(&a.program);
    haul_program_free(&b.program);
    haul_program_free(&c.program);
}

static void test_place_step__survives_failing_allocations(void **context)
{
    (void)context;
    haul__machine   *m = machine_of("h200");
    training         t = residual_training();
    haul__place_step step = {record(&t), m, .device_count = 2, .devices = {0, 1}};
    const int64_t    blocks = haul__counted_blocks();
    for (int64_t nth = 1, failed = true; failed; nth++) {
        haul__place_graph g;
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        failed = haul__place_graph_of(&step, &g) != HAUL_OK;
        haul__fault_plan(0, 0);
        assert_true(!failed || haul_error_status() == HAUL_OUT_OF_MEMORY);
        if (!failed)
            haul__place_free(&g);
        assert_int_equal(haul__counted_blocks(), blocks);
    }
    haul_program_free(&t.program);
    haul__free(m);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_step__equals_brute_force),
        cmocka_unit_test(test_place_step__is_near_the_best_on_three_devices),
        cmocka_unit_test(test_place_step__copies_gradients_to_parameters),
        cmocka_unit_test(test_place_step__groups_what_stays_together),
        cmocka_unit_test(test_place_step__begins_a_tensor_with_a_sum_of_gradients),
        cmocka_unit_test(test_place_step__divides_updates),
        cmocka_unit_test(test_place_step__finds_rates_by_floating_operands),
        cmocka_unit_test(test_place_step__keeps_pins),
        cmocka_unit_test(test_place_step__refuses_impossible_pins),
        cmocka_unit_test(test_place_step__digests_programs),
        cmocka_unit_test(test_place_step__survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
