/* Step programs: what haul_program_record lists of a step, and that the arenas it plans hold all that a command needs.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/tensor.h"
#include "device/device.h"
#include "program/arena.h"
#include "support/conformance/conformance.h"
#include "support/devices/fusion.h"

typedef struct training {
    haul_module    *net;
    haul_optimizer *optimizer;
    haul_device    *device;
    haul_shape      shape;
    bool            clips, adds_up;
} training;

static haul_status forward_and_back(const training *t)
{
    haul_tensor *x = haul_empty(HAUL_F32, t->shape);
    haul_tensor *y = haul_empty(HAUL_I64, HAUL_SHAPE(t->shape.dims[0]));
    return haul_backward(haul_cross_entropy(haul_call(t->net, x), y));
}

static haul_status step(void *context)
{
    const training *t = context;
    haul_status     status = haul_set_device(t->device);
    if (!status)
        status = haul_optimizer_zero_grad(t->optimizer);
    for (int i = 0; i < (t->adds_up ? 2 : 1) && !status; i++)
        status = forward_and_back(t);
    if (!status && t->clips)
        status = haul__status_of(haul_clip_grad_norm(t->net, 1));
    return status ? status : haul_optimizer_step(t->optimizer);
}

static haul_program recorded(haul_estimate_function *function, void *context)
{
    haul_program p;
    assert_int_equal(haul_program_record(function, context, &p), HAUL_OK);
    return p;
}

/* ---- what must hold for every program ---- */

static bool is_full(const haul_shape *shape)
{
    bool full = true;
    for (int d = 0; d < shape->ndim; d++)
        full = full && shape->dims[d] > 0;
    return full;
}

static void check_values(const haul_program *p)
{
    int64_t next = 0;
    for (int64_t i = 0; i < p->operation_count; i++) {
        const haul_program_operation *o = &p->operations[i];
        assert_int_equal(o->value, next);
        next += o->operand_count + o->result_count;
        for (int64_t k = o->value; k < next; k++) {
            const haul_program_value *v = &p->values[k];
            assert_in_range(v->store + 1, 0, p->store_count);
            if (v->store < 0)
                continue;
            int64_t last = v->offset;
            for (int d = 0; d < v->shape.ndim; d++)
                last += (v->shape.dims[d] - 1) * v->strides[d];
            if (is_full(&v->shape))
                assert_true((last + 1) * (int64_t)haul__dtype_size(v->dtype) <= p->stores[v->store].bytes);
        }
        if (o->view_of >= 0)
            assert_int_equal(p->values[o->value + o->view_of].store, p->values[o->value + o->operand_count].store);
    }
    assert_int_equal(next, p->value_count);
}

static int64_t end_of(const haul_program *p, const haul_program_store *s)
{
    return s->outlives ? p->operation_count : s->last;
}

/* When the operation computes: those of a fused command do so at once. */
static int64_t turn_of(const haul_program *p, int64_t operation)
{
    return operation < p->operation_count && p->operations[operation].fused >= 0 ? p->operations[operation].fused
                                                                                 : operation;
}

/* `a` ends before `b` begins. In one operation, a result is in the place of an operand, or commands follow each other.
 */
static bool comes_before(const haul_program *p, const haul_program_store *a, const haul_program_store *b)
{
    const int64_t end = turn_of(p, end_of(p, a)), first = turn_of(p, b->first);
    if (end < first)
        return true;
    return end == first && ((a->offset == b->offset && a->bytes == b->bytes) || p->operations[end].command_count > 1);
}

static void check_arena(const haul_program *p, const haul_program_memory *m)
{
    const int64_t alignment = haul__device_part_alignment(m->device);
    int64_t       size = 0;
    for (int64_t i = 0; i < p->store_count; i++) {
        const haul_program_store *a = &p->stores[i];
        if (a->kind == HAUL_STORE_OUTSIDE || a->pinned)
            assert_int_equal(a->offset, -1);
        if (a->offset < 0 || a->device != m->device)
            continue;
        assert_int_equal(a->offset % alignment, 0);
        size = a->offset + a->bytes > size ? a->offset + a->bytes : size;
        for (int64_t k = 0; k < i; k++) {
            const haul_program_store *b = &p->stores[k];
            if (b->offset < 0 || b->device != a->device || a->first < 0 || b->first < 0)
                continue;
            if (a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                assert_true(comes_before(p, a, b) || comes_before(p, b, a));
        }
    }
    assert_in_range(size, 1, m->arena_bytes);
    assert_true(m->arena_bytes < size + alignment);
    assert_true(m->least_bytes <= m->arena_bytes);
}

static void check_program(const haul_program *p)
{
    check_values(p);
    for (int i = 0; i < p->memory_count; i++)
        check_arena(p, &p->memory[i]);
}

/* ---- programs of trainings ---- */

static training dense_training(haul_device *device)
{
    training t = {.device = device, .shape = HAUL_SHAPE(32, 64)};
    haul_set_device(device);
    t.net = haul_nn_sequential((haul_module *[]){haul_nn_linear(64, 48), haul_nn_relu(), haul_nn_linear(48, 10)}, 3);
    t.optimizer = haul_sgd(t.net, 0.1, .momentum = 0.9);
    return t;
}

static int count_of(const haul_program *p, const char *name, const char *section)
{
    int count = 0;
    for (int64_t i = 0; i < p->operation_count; i++)
        count += !strcmp(p->operations[i].name, name) && !strcmp(p->operations[i].section, section);
    return count;
}

static int count_kind(const haul_program *p, haul_store_kind kind, bool outlives)
{
    int count = 0;
    for (int64_t i = 0; i < p->store_count; i++)
        count += p->stores[i].kind == kind && p->stores[i].outlives == outlives;
    return count;
}

static void test_step__operations_sections_and_stores(void **state)
{
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    (void)state;
    for (int i = 0; i < count; i++) {
        haul_scope  *scope = haul_scope_push();
        training     t = dense_training(devices[i]);
        haul_program p = recorded(step, &t);
        check_program(&p);
        assert_int_equal(count_of(&p, "haul_linear", ""), 2);
        assert_int_equal(count_of(&p, "haul_relu", ""), 1);
        assert_int_equal(count_of(&p, "haul_relu_backward", "backward pass"), 1);
        assert_true(count_of(&p, "haul_sgd", "optimizer step") >= 1);
        assert_int_equal(count_of(&p, "haul_sgd", ""), 0);
        /* four gradients and four velocities stay; parameters are from outside */
        assert_int_equal(count_kind(&p, HAUL_STORE_INSIDE, true), 8);
        assert_int_equal(count_kind(&p, HAUL_STORE_OUTSIDE, false), 4);
        for (int64_t k = 0; k < p.operation_count; k++)
            if (!strcmp(p.operations[k].name, "haul_relu") || !strcmp(p.operations[k].name, "haul_relu_backward"))
                assert_string_equal(p.operations[k].module, "1");
        assert_ptr_equal(HAUL_NONE, haul_tensor_grad(haul_module_parameter(t.net, "0.weight")));
        haul_program_free(&p);
        assert_int_equal(p.operation_count, 0);
        haul_scope_pop(scope);
    }
}

/* Without gradients from before, what the step allocates is what the estimate counts above its start. */
static void test_step__eager_peak_is_the_estimate(void **state)
{
    static const char *const models[] = {"simplecnn", "resnet18"};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int way = 0; way < 4; way++) {
            haul_scope *scope = haul_scope_push();
            training    t = {
                   .device = haul_cpu(), .shape = HAUL_SHAPE(4, 3, 32, 32), .clips = way & 1, .adds_up = way & 2};
            haul_set_device(t.device);
            t.net = haul_model_new(models[i]);
            t.optimizer = haul_adam(t.net, 0.001);
            haul_estimate_result r;
            assert_int_equal(haul_estimate(step, &t, &r), HAUL_OK);
            haul_program p = recorded(step, &t);
            check_program(&p);
            assert_int_equal(p.memory_count, 1);
            assert_int_equal(p.memory[0].eager_peak_bytes, r.devices[0].peak_bytes - r.devices[0].start_bytes);
            assert_int_equal(p.operation_count, r.operation_count);
            assert_true(p.memory[0].arena_bytes <= p.memory[0].eager_peak_bytes);
            haul_program_free(&p);
            set_fusion(false); /* so that parts of chains do not move */
            p = recorded(step, &t);
            set_fusion(true);
            for (int64_t k = 0; k < r.operation_count; k++)
                assert_string_equal(p.operations[k].name, r.operations[k].name);
            haul_program_free(&p);
            haul_estimate_free(&r);
            haul_scope_pop(scope);
        }
}

typedef struct second {
    training     t;
    haul_program program;
} second;

static haul_status record_second_step(void *context)
{
    second *s = context;
    s->t = dense_training(haul_cpu());
    haul_status status = step(&s->t);
    return status ? status : haul_program_record(step, &s->t, &s->program);
}

/* A network that is made in a dry run is from outside of the step that is recorded in it. */
static void test_record__part_of_an_estimate(void **state)
{
    second               s;
    haul_estimate_result r;
    (void)state;
    assert_int_equal(haul_estimate(record_second_step, &s, &r), HAUL_OK);
    check_program(&s.program);
    assert_int_equal(count_kind(&s.program, HAUL_STORE_INSIDE, true), 4); /* velocities exist already */
    assert_int_equal(count_kind(&s.program, HAUL_STORE_OUTSIDE, false), 8);
    assert_true(r.operation_count > 2 * s.program.operation_count); /* and what makes the network */
    haul_program_free(&s.program);
    haul_estimate_free(&r);
}

/* ---- single operations ---- */

static haul_tensor *given;

static haul_status chain(void *context)
{
    haul_tensor *x = haul_add_scalar(given, 1);
    haul_tensor *y = haul_mul_scalar(x, 2);
    haul_tensor *z = haul_exp(y);
    (void)context;
    return haul__status_of(haul_sum(z));
}

/* Each result of a chain is in the place of the one before, which nothing reads later. */
static void test_arena__results_in_place(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    given = haul_ones(HAUL_F32, HAUL_SHAPE(1000));
    set_fusion(false);
    haul_program p = recorded(chain, NULL);
    set_fusion(true);
    check_program(&p);
    assert_int_equal(p.operation_count, 4);
    const int64_t result = p.operations[0].value + p.operations[0].operand_count;
    const int64_t place = p.stores[p.values[result].store].offset;
    for (int64_t i = 1; i < 3; i++) {
        const int64_t v = p.operations[i].value + p.operations[i].operand_count;
        assert_int_equal(p.stores[p.values[v].store].offset, place);
    }
    assert_int_equal(p.stores[p.values[p.operations[0].value].store].kind, HAUL_STORE_OUTSIDE);
    assert_true(p.memory[0].arena_bytes <= 4000 + 128);
    haul_program_free(&p);
    haul_scope_pop(scope);
}

static haul_tensor *kept[3];

static haul_status keep_all(void *context)
{
    (void)context;
    kept[0] = haul_add_scalar(given, 1);
    kept[1] = haul_mul_scalar(kept[0], 2);
    kept[2] = haul_add(kept[0], kept[1]);
    for (int i = 0; i < 3; i++)
        haul_keep(kept[i]);
    return haul__status_of(kept[2]);
}

/* What the program keeps has a place of its own until the end. */
static void test_arena__what_outlives_is_not_overwritten(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    given = haul_ones(HAUL_F32, HAUL_SHAPE(1000));
    haul_program p = recorded(keep_all, NULL);
    check_program(&p);
    assert_int_equal(count_kind(&p, HAUL_STORE_INSIDE, true), 3);
    assert_true(p.memory[0].arena_bytes >= 3 * 4000);
    for (int i = 0; i < 3; i++)
        haul_release(kept[i]);
    haul_program_free(&p);
    haul_scope_pop(scope);
}

static haul_status views_and_failures(void *context)
{
    haul_tensor *t = haul_transpose(haul_reshape(given, HAUL_SHAPE(10, 100)), 0, 1);
    haul_tensor *bad = haul_add(given, haul_ones(HAUL_F32, HAUL_SHAPE(7)));
    (void)context;
    assert_int_equal(haul__status_of(bad), HAUL_SHAPE);
    haul_error_clear();
    if (haul__failed(haul_add(haul_cast(given, HAUL_F64), given)))
        return haul_error_status();
    return haul__status_of(haul_bce_with_logits(t, t));
}

static void test_list__views_composites_failures(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    given = haul_ones(HAUL_F32, HAUL_SHAPE(1000));
    haul_program p = recorded(views_and_failures, NULL);
    check_program(&p);
    assert_string_equal(p.operations[0].name, "haul_reshape");
    assert_int_equal(p.operations[0].view_of, 0);
    for (int64_t i = 0; i < 5; i++) /* the conversion of the second operand comes before the sum */
        assert_string_equal(p.operations[i].composite, "");
    assert_string_equal(p.operations[2].name, "haul_ones");
    assert_string_equal(p.operations[4].name, "haul_cast");
    assert_string_equal(p.operations[5].name, "haul_add");
    assert_int_equal(count_of(&p, "haul_add", ""), 1);
    assert_int_equal(count_of(&p, "haul_bce_with_logits", ""), 0);
    int parts = 0;
    for (int64_t i = 0; i < p.operation_count; i++)
        parts += !strcmp(p.operations[i].composite, "haul_bce_with_logits");
    assert_true(parts > 1);
    haul_program_free(&p);
    haul_scope_pop(scope);
}

/* The storage of the second tensor is where that of the first one was. */
static haul_status wraps_in_turn(void *context)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < 2 && !status; i++) {
        haul_scope *scope = haul_scope_push();
        status = haul__status_of(haul_relu(haul_wrap_host(HAUL_F32, HAUL_SHAPE(2), context, NULL, NULL)));
        haul_scope_pop(scope);
    }
    return status;
}

static void test_list__memory_wrapped_in_turn(void **state)
{
    float data[2] = {1, -1};
    (void)state;
    haul_program p = recorded(wraps_in_turn, data);
    check_program(&p);
    assert_int_equal(p.operation_count, 2);
    assert_int_not_equal(p.values[p.operations[0].value].store, p.values[p.operations[1].value].store);
    haul_program_free(&p);
}

static haul_status fails(void *context)
{
    (void)context;
    return haul__status_of(haul_reshape(given, HAUL_SHAPE(3)));
}

static void test_record__errors(void **state)
{
    haul_program p;
    haul_scope  *scope = haul_scope_push();
    (void)state;
    given = haul_ones(HAUL_F32, HAUL_SHAPE(1000));
    assert_int_equal(haul_program_record(NULL, NULL, &p), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_program_record(chain, NULL, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_program_record(fails, NULL, &p), HAUL_SHAPE);
    assert_int_equal(p.operation_count, 0);
    assert_null(p.operations);
    haul_program_free(&p);
    haul_program_free(NULL);
    haul_scope_pop(scope);
}

/* Every allocation of host memory fails once. */
static void test_record__memory_exhausted(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    training    t = dense_training(haul_cpu());
    haul_status status = HAUL_OUT_OF_MEMORY;
    int         nth = 1;
    for (; status && nth < 100000; nth++) {
        haul_program p;
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        status = haul_program_record(step, &t, &p);
        haul__fault_plan(0, 0);
        if (status)
            assert_int_equal(status, HAUL_OUT_OF_MEMORY);
        else
            check_program(&p);
        haul_program_free(&p);
    }
    assert_int_equal(status, HAUL_OK);
    assert_true(nth > 10);
    haul_scope_pop(scope);
}

/* ---- arenas of random lifetimes ---- */

static unsigned draw(unsigned *random, unsigned below)
{
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 16) % below;
}

static void check_items(const haul__arena_item *items, size_t count, int64_t size, int64_t least)
{
    assert_true(size >= least);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(items[i].offset % 64, 0);
        assert_true(items[i].offset >= 0 && items[i].offset + items[i].bytes <= size);
        for (size_t k = 0; k < i; k++)
            if (items[i].first <= items[k].last && items[k].first <= items[i].last)
                assert_true(items[i].offset + items[i].bytes <= items[k].offset ||
                            items[k].offset + items[k].bytes <= items[i].offset);
    }
}

static void test_arena__random_lifetimes(void **state)
{
    enum { MOST = 60, ROUNDS = 500 };
    unsigned random = 7;
    double   excess = 0;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        haul__arena_item items[MOST];
        const size_t     count = draw(&random, MOST + 1);
        int64_t          least;
        for (size_t i = 0; i < count; i++) {
            const int64_t first = draw(&random, 50);
            items[i] = (haul__arena_item){
                .bytes = draw(&random, 4) ? draw(&random, 5000) : 0, .first = first, .last = first + draw(&random, 12)};
        }
        const int64_t size = haul__arena_plan(items, count, 64, &least);
        check_items(items, count, size, least);
        excess += least ? (double)(size - least) / (double)least / ROUNDS : 0;
    }
    assert_true(excess < 0.1);
}

/* A stack of lifetimes needs no more than its most bytes at one time. */
static void test_arena__nested_lifetimes_fit_exactly(void **state)
{
    haul__arena_item items[20];
    int64_t          least;
    (void)state;
    for (int i = 0; i < 20; i++)
        items[i] = (haul__arena_item){.bytes = 64 * (i + 1), .first = i, .last = 40 - i};
    const int64_t size = haul__arena_plan(items, 20, 64, &least);
    assert_int_equal(size, 64 * 210);
    assert_int_equal(least, size);
    check_items(items, 20, size, least);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step__operations_sections_and_stores),
        cmocka_unit_test(test_step__eager_peak_is_the_estimate),
        cmocka_unit_test(test_record__part_of_an_estimate),
        cmocka_unit_test(test_arena__results_in_place),
        cmocka_unit_test(test_arena__what_outlives_is_not_overwritten),
        cmocka_unit_test(test_list__views_composites_failures),
        cmocka_unit_test(test_list__memory_wrapped_in_turn),
        cmocka_unit_test(test_record__errors),
        cmocka_unit_test(test_record__memory_exhausted),
        cmocka_unit_test(test_arena__random_lifetimes),
        cmocka_unit_test(test_arena__nested_lifetimes_fit_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
