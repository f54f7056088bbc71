/* Random programs of pointwise operations: a followed step, in which they are fused, has the bits of one that runs as
 * it is, and of one without fusion. HAUL_FUSION_PROGRAMS: how many programs are made on the CPU;
 * HAUL_FUSION_PROGRAMS_ON_DEVICES: on each of the others, where each program has kernels of its own to compile.
 *
 * ctest: cuda-only; ptx */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/pointwise/pointwise.h"
#include "record/follow/device_chain.h"
#include "support/bits.h"
#include "support/conformance/conformance.h"
#include "support/devices/fusion.h"
#include "support/devices/program.h"

enum { INPUTS = 5, MOST = 32, KEPT = 4, RUNS = 4 };

static unsigned next(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static unsigned below(unsigned *state, unsigned n)
{
    return next(state) / 7 % n;
}

/* ---- programs ---- */

typedef struct program {
    haul_device *device;
    unsigned     seed;
    int          calls;
    bool         differentiates;
    haul_tensor *inputs[INPUTS]; /* from outside; the first has the program's shape */
    haul_tensor *target;         /* written by the step, with the shape and dtype of the first input */
    haul_tensor *leaf;           /* a gradient flows to it */
    haul_tensor *kept[KEPT];     /* of the last run */
    int          kept_count;
    bool         learns;        /* calls that fail are noted */
    bool         skipped[MOST]; /* these */
} program;

static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16, HAUL_I32, HAUL_I64, HAUL_U8};

typedef haul_tensor *unary_fn(haul_tensor *);
typedef haul_tensor *unary1_fn(haul_tensor *, double);
typedef haul_tensor *unary2_fn(haul_tensor *, double, double);
typedef haul_tensor *binary_fn(haul_tensor *, haul_tensor *);
typedef haul_status  into_fn(haul_tensor *, haul_tensor *, haul_tensor *);

static haul_tensor *call_row(const haul__row *row, haul_tensor *a, haul_tensor *b, unsigned *r)
{
    const double s = (double)below(r, 5) - 1;
    switch (row->form) {
    case HAUL__UNARY1: return ((unary1_fn *)row->call)(a, s);
    case HAUL__UNARY2: return ((unary2_fn *)row->call)(a, s, s + 2);
    case HAUL__BINARY:
    case HAUL__COMPARE:
        if (row->call_scalar && below(r, 3) == 0)
            return ((unary1_fn *)row->call_scalar)(a, s);
        return ((binary_fn *)row->call)(a, b);
    default: return ((unary_fn *)row->call)(a);
    }
}

static haul_tensor *as_float(haul_tensor *t)
{
    return haul_dtype_is_float(haul_tensor_dtype(t)) ? t : haul_cast(t, HAUL_F32);
}

/* One of the other pointwise operations, or one that ends a chain. */
static haul_tensor *call_other(haul_tensor *a, haul_tensor *b, haul_tensor *c, unsigned *r)
{
    const int last = haul_tensor_ndim(a) - 1;
    switch (below(r, 20)) {
    case 0: return haul_where(haul_gt_scalar(a, 0), b, c);
    case 1: return haul_where_scalar(haul_lt(a, b), c, 1);
    case 2: return haul_clamp_between(as_float(a), as_float(b), as_float(c));
    case 3: return haul_lerp(as_float(a), as_float(b), as_float(c));
    case 4: return haul_lerp_scalar(as_float(a), as_float(b), 0.25);
    case 5: return haul_addcmul(as_float(a), as_float(b), as_float(c), 0.5);
    case 6: return haul_masked_fill(a, haul_eq(a, b), 1);
    case 7: return haul_round_decimals(as_float(a), 1);
    case 8: return haul_sub(as_float(a), haul_mean(as_float(a), HAUL_AXES(last), .keepdim = true));
    case 9: return haul_contiguous(haul_flip(a, HAUL_AXES(last)));
    case 10: return haul_mul(as_float(a), haul_softmax(as_float(b), last));
    case 12: return haul_mul(a, haul_sum(b, HAUL_AXES(last), .keepdim = true));
    case 13: return haul_sub(as_float(a), haul_mean(as_float(a)));
    case 14: return haul_maximum(a, haul_max(b, HAUL_AXES(last), .keepdim = true));
    case 15: return haul_add(a, haul_sum(c));
    case 16: return haul_minimum(b, haul_min(a));
    case 11: return haul_reshape(haul_square(haul_flatten(as_float(a), 0)), haul_tensor_shape(a));
    default: return haul_cast(a, dtypes[below(r, sizeof dtypes / sizeof *dtypes)]);
    }
}

/* True if the step may go on with the result of call `at`. */
static bool is_fine(program *p, int at, haul_tensor *t)
{
    if (p->learns && !haul_tensor_is_valid(t)) {
        p->skipped[at] = true;
        haul_error_clear();
        return false;
    }
    return true;
}

static haul_tensor *pick(haul_tensor *const *values, int count, unsigned *r)
{
    const int newest = count < 4 ? count : 4;
    return values[below(r, 3) ? count - 1 - (int)below(r, (unsigned)newest) : (int)below(r, (unsigned)count)];
}

static haul_tensor *call_any(haul_tensor *const *values, int count, unsigned *r)
{
    haul_tensor     *a = pick(values, count, r), *b = pick(values, count, r), *c = pick(values, count, r);
    const haul__row *row = &haul__rows[below(r, (unsigned)haul__row_count)];
    const bool       shows_nan = strstr(row->name, "sign"); /* what it makes of a NaN depends on the NaN's sign */
    return below(r, 3) && !shows_nan ? call_row(row, a, b, r) : call_other(a, b, c, r);
}

static void release(program *p)
{
    for (int i = 0; i < p->kept_count; i++)
        haul_release(p->kept[i]);
    p->kept_count = 0;
}

/* The step may be called several times. */
static haul_status keep_some(program *p, haul_tensor *const *values, int count, unsigned *r)
{
    for (release(p); p->kept_count < KEPT; p->kept_count++) {
        haul_tensor *t = p->kept_count ? pick(values, count, r) : values[count - 1];
        p->kept[p->kept_count] = haul_keep(haul_detach(t));
        if (!p->kept[p->kept_count])
            return haul_error_status();
    }
    return HAUL_OK;
}

/* The sum is finite, so that its gradient says something. */
static haul_status differentiate(program *p, haul_tensor *y)
{
    haul_tensor *bounded = haul_clamp(haul_cast(as_float(y), HAUL_F32), -4, 4);
    return haul_backward(haul_sum(haul_mul(bounded, haul_tanh(haul_mul_scalar(p->leaf, 0.5)))), .once = true);
}

static haul_status step(void *context)
{
    program     *p = context;
    unsigned     r = p->seed;
    haul_tensor *values[INPUTS + 1 + MOST];
    int          count = 0;
    haul_status  status = haul_set_device(p->device);
    for (int i = 0; i < INPUTS; i++)
        values[count++] = p->inputs[i];
    if (p->differentiates)
        values[count++] = p->leaf;
    for (int i = 0; i < p->calls && !status; i++) {
        const unsigned before = r;
        haul_tensor   *t = p->skipped[i] ? NULL : call_any(values, count, &r);
        r = before * 3 + 1;
        if (!t || !is_fine(p, i, t))
            continue;
        values[count++] = t;
        if (below(&r, 8) == 0 && haul_tensor_dtype(t) == haul_tensor_dtype(p->target) && !haul_requires_grad(t))
            status = haul_maximum_into(p->target, p->target, haul_detach(t));
    }
    if (!status && p->differentiates)
        status = differentiate(p, values[count - 1]);
    return status ? status : keep_some(p, values, count, &r);
}

/* ---- values ---- */

static float special(unsigned *r)
{
    static const float values[] = {0.0f,   -0.0f,   1.0f,  -1.0f,  INFINITY, -INFINITY, NAN,
                                   1e-42f, -3e-45f, 3e38f, -3e38f, 1e-38f,   65504.0f,  6e-8f};
    return below(r, 3) ? values[below(r, sizeof values / sizeof *values)] : ((float)below(r, 2001) - 1000) / 128;
}

static haul_tensor *make_values(haul_dtype dtype, haul_shape shape, unsigned *r)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    float *data = malloc((size_t)count * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = special(r);
    haul_tensor *t = haul_cast(haul_from_host(HAUL_F32, shape, data), dtype);
    free(data);
    return t;
}

/* Broadcasts, views whose dimensions are in another order, every second element. */
static haul_tensor *make_input(haul_shape shape, haul_dtype dtype, bool whole, unsigned *r)
{
    const int      last = shape.ndim - 1;
    const unsigned how = whole ? 0 : below(r, 8);
    if (how == 1)
        for (int d = 0; d < last; d++)
            shape.dims[d] = 1;
    if (how == 2)
        shape.dims[last] = 1;
    if (how == 3)
        shape = HAUL_SHAPE(1);
    if (how == 4 && last > 0) {
        const int64_t n = shape.dims[0];
        shape.dims[0] = shape.dims[last];
        shape.dims[last] = n;
        return haul_transpose(make_values(dtype, shape, r), 0, last);
    }
    if (how == 5) {
        shape.dims[last] *= 2;
        haul_tensor *t = make_values(dtype, shape, r);
        return haul_slice(t, last, 0, shape.dims[last], 2);
    }
    return make_values(dtype, shape, r);
}

static haul_shape shape_of(unsigned *r)
{
    switch (below(r, 8)) {
    case 0: return HAUL_SHAPE(7);
    case 1: return HAUL_SHAPE(33, 5);
    case 2: return HAUL_SHAPE(4, 1, 9);
    case 3: return HAUL_SHAPE(2, 3, 5, 4);
    case 4: return HAUL_SHAPE(5003);
    case 5: return HAUL_SHAPE(3, 1031);
    case 6: return HAUL_SHAPE(129, 65);
    default: return below(r, 4) ? HAUL_SHAPE(64, 3) : HAUL_SHAPE(40009);
    }
}

/* ---- comparisons ---- */

/* The sign and the payload of a NaN depend on whether an element is computed in a vector, so all NaNs are the same. */
static haul_tensor *with_one_nan(haul_tensor *t)
{
    return haul_dtype_is_float(haul_tensor_dtype(t)) ? haul_masked_fill(t, haul_ne(t, t), NAN) : t;
}

static void expect_same_bits(haul_tensor *a, haul_tensor *b, const char *what)
{
    assert_same_bits(with_one_nan(haul_detach(a)), with_one_nan(haul_detach(b)), what);
}

static void expect_same(program *a, program *b, const char *what, int at)
{
    char text[120];
    assert_int_equal(a->kept_count, b->kept_count);
    for (int i = 0; i < a->kept_count; i++) {
        snprintf(text, sizeof text, "result %d of program %u, %s, run %d", i, a->seed, what, at);
        expect_same_bits(a->kept[i], b->kept[i], text);
    }
    snprintf(text, sizeof text, "program %u, %s, run %d", a->seed, what, at);
    expect_same_bits(a->target, b->target, text);
    if (a->differentiates)
        expect_same_bits(haul_tensor_grad(a->leaf), haul_tensor_grad(b->leaf), text);
}

static void make_inputs(program *p, unsigned *r)
{
    const haul_shape shape = shape_of(r);
    for (int i = 0; i < INPUTS; i++)
        p->inputs[i] = make_input(shape, dtypes[below(r, sizeof dtypes / sizeof *dtypes)], i == 0, r);
    p->target = haul_clone(p->inputs[0]);
    p->leaf = haul_set_requires_grad(haul_clamp(make_values(HAUL_F32, shape, r), -2, 2), true);
    assert_int_equal(haul_tensor_check(p->target), HAUL_OK);
    assert_int_equal(haul_tensor_check(p->leaf), HAUL_OK);
}

/* Other elements, in the same memory. */
static void change_inputs(program *const *all, int count, unsigned *r)
{
    for (int i = 0; i < INPUTS; i++) {
        haul_tensor *fresh = make_values(haul_tensor_dtype(all[0]->inputs[i]), haul_tensor_shape(all[0]->inputs[i]), r);
        for (int k = 0; k < count; k++)
            assert_int_equal(haul_copy_into(all[k]->inputs[i], fresh), HAUL_OK);
    }
}

static void twin(program *out, const program *p)
{
    *out = *p;
    for (int i = 0; i < INPUTS; i++)
        out->inputs[i] = p->inputs[i];
    out->target = haul_clone(p->target);
    out->leaf = haul_set_requires_grad(haul_clone(haul_detach(p->leaf)), true);
}

static int64_t count_parts(program *p)
{
    haul_program all;
    int64_t      count = 0;
    assert_int_equal(haul_program_record(step, p, &all), HAUL_OK);
    for (int64_t i = 0; i < all.operation_count; i++)
        count += all.operations[i].fused >= 0;
    haul_program_free(&all);
    release(p);
    return count;
}

/* Runs a program as it is, fused and unfused; returns how many steps were followed, and adds the operations that are
 * fused in it to `*parts`. */
static int64_t run_program(haul_device *device, unsigned seed, int64_t *parts)
{
    unsigned              r = 77777 + seed * 13;
    haul_scope           *scope = haul_scope_push();
    static program        eager, fused, plain;
    haul_recording_report report;
    assert_int_equal(haul_set_device(device), HAUL_OK);
    for (int i = 0; i < 20; i++)
        next(&r);
    eager = (program){.device = device, .seed = next(&r), .calls = 2 + (int)below(&r, MOST - 2)};
    eager.differentiates = below(&r, 2);
    make_inputs(&eager, &r);
    eager.learns = true;
    twin(&fused, &eager);
    twin(&plain, &eager);
    haul_recording *of_fused = haul_recording_new(step, &fused), *of_plain = haul_recording_new(step, &plain);
    for (int i = 0; i < RUNS; i++) {
        haul_scope *of_step = haul_scope_push();
        if (i)
            change_inputs((program *const[]){&eager}, 1, &r);
        if (step(&eager)) {
            eager.differentiates = fused.differentiates = plain.differentiates = false;
            haul_error_clear();
        }
        memcpy(fused.skipped, eager.skipped, sizeof eager.skipped);
        memcpy(plain.skipped, eager.skipped, sizeof eager.skipped);
        fused.learns = plain.learns = false;
        set_fusion(true);
        if (haul_recording_run(of_fused))
            fail_msg("program %u, fused, run %d: %s", seed, i, haul_error_message());
        expect_same(&eager, &fused, "fused", i);
        set_fusion(false);
        if (haul_recording_run(of_plain))
            fail_msg("program %u, unfused, run %d: %s", seed, i, haul_error_message());
        expect_same(&eager, &plain, "unfused", i);
        set_fusion(true);
        release(&eager);
        release(&fused);
        release(&plain);
        haul_set_grad(eager.leaf, HAUL_NONE);
        haul_set_grad(fused.leaf, HAUL_NONE);
        haul_set_grad(plain.leaf, HAUL_NONE);
        haul_scope_pop(of_step);
    }
    *parts += count_parts(&fused);
    assert_int_equal(haul_recording_report_get(of_fused, &report), HAUL_OK);
    haul_scope_pop(scope);
    return report.followed;
}

static void test_random_programs(void **state)
{
    (void)state;
    const char  *text = getenv("HAUL_FUSION_PROGRAMS"), *on_devices = getenv("HAUL_FUSION_PROGRAMS_ON_DEVICES");
    const int    programs = text ? atoi(text) : 800;
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    haul__chain_patience = 0;
    for (int d = 0; d < count; d++) {
        int64_t    followed = 0, parts = 0;
        const bool is_host = devices[d] == haul_cpu();
        const int  each = is_host ? programs : on_devices ? atoi(on_devices) : 4;
        for (int i = 0; i < each; i++)
            followed += run_program(devices[d], (unsigned)i, &parts);
        printf("%s: %lld of %d steps followed, %lld operations fused\n", haul_device_name(devices[d]),
               (long long)followed, RUNS * each, (long long)parts);
        assert_true(followed > each);
        assert_true(parts > (is_host ? 2 : 1) * each);
    }
}

/* ---- chains ---- */

static haul_tensor *given, *row, *written;

static haul_status chain(void *context)
{
    (void)context;
    haul_tensor *a = haul_mul_scalar(given, 2), *b = haul_add(a, row), *c = haul_cast(haul_relu(b), HAUL_F64);
    haul_tensor *d = haul_mul(c, haul_cast(haul_sub(a, b), HAUL_F64));
    return haul_tensor_check(haul_sum(d));
}

static const haul_program_store *result_of(const haul_program *p, int64_t operation)
{
    const haul_program_operation *o = &p->operations[operation];
    return &p->stores[p->values[o->value + o->operand_count].store];
}

static void begin(haul_scope **scope)
{
    *scope = haul_scope_push();
    haul_set_device(haul_cpu());
    given = haul_ones(HAUL_F32, HAUL_SHAPE(1000, 30));
    row = haul_ones(HAUL_F32, HAUL_SHAPE(30));
    written = haul_ones(HAUL_F32, HAUL_SHAPE(1000, 30));
}

static void test_chain__has_memory_for_its_end_alone(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    set_fusion(true);
    haul_program  p = recorded(chain);
    const int64_t sum = find(&p, "haul_sum");
    assert_int_equal(sum, 7);
    assert_int_equal(p.operations[sum].fused, 0);
    for (int64_t i = 0; i < sum; i++) {
        assert_int_equal(p.operations[i].fused, 0);
        assert_string_equal(p.operations[i].unfused, "");
        assert_true(result_of(&p, i)->within);
        assert_true(result_of(&p, i)->offset < 0);
    }
    set_fusion(false);
    haul_program q = recorded(chain);
    for (int64_t i = 0; i < sum; i++) {
        assert_int_equal(q.operations[i].fused, -1);
        assert_string_equal(q.operations[i].unfused, "fusion is off");
        assert_false(result_of(&q, i)->within);
    }
    set_fusion(true);
    assert_true(2 * p.memory[0].arena_bytes < q.memory[0].arena_bytes);
    haul_program_free(&p);
    haul_program_free(&q);
    haul_scope_pop(scope);
}

static haul_status with_obstacles(void *context)
{
    (void)context;
    haul_tensor *a = haul_exp(given), *b = haul_tanh(a), *c = haul_sum(b, HAUL_AXES(1));
    haul_tensor *d = haul_sin(c), *e = haul_cos(a);
    haul_tensor *f = haul_sigmoid(haul_flip(e, HAUL_AXES(0)));
    haul_status  status = haul_neg_into(written, haul_mul(f, b));
    return status ? status : haul_tensor_check(d);
}

/* A result that is used elsewhere has memory, and an operation that does not fit says why. */
static void test_chain__ends_at_obstacles(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_program p = recorded(with_obstacles);
    assert_int_equal(p.operations[find(&p, "haul_tanh")].fused, find(&p, "haul_exp"));
    assert_true(result_of(&p, find(&p, "haul_exp"))->within);
    assert_false(result_of(&p, find(&p, "haul_tanh"))->within);
    assert_int_equal(p.operations[find(&p, "haul_sin")].fused, -1);
    assert_string_equal(p.operations[find(&p, "haul_sin")].unfused, "the operation before it is not pointwise");
    assert_int_equal(p.operations[find(&p, "haul_cos")].fused, find(&p, "haul_exp"));
    assert_int_equal(p.operations[find(&p, "haul_neg")].fused, find(&p, "haul_sigmoid"));
    assert_true(result_of(&p, find(&p, "haul_sigmoid"))->within);
    assert_true(result_of(&p, find(&p, "haul_mul"))->within);
    haul_program_free(&p);
    haul_scope_pop(scope);
}

static haul_status reversed(void *context)
{
    (void)context;
    haul_status status = haul_neg_into(written, given);
    return status ? status
                  : haul_add_into(given, haul_flip(written, HAUL_AXES(0)),
                                  haul_transpose(haul_transpose(written, 0, 1), 0, 1));
}

/* ---- commands ---- */

typedef struct heard {
    int  commands, fused;
    char name[200];
} heard;

static void hear(const haul_event *e, void *context)
{
    heard *h = context;
    h->commands++;
    if (!e->kernel || strcmp(e->kernel, "fusion") != 0)
        return;
    h->fused++;
    snprintf(h->name, sizeof h->name, "%s", e->operation);
}

static haul_status to_target(void *context)
{
    (void)context;
    return haul_mul_into(written, haul_add(haul_mul_scalar(given, 2), row), given);
}

static void test_command__names_its_parts(void **state)
{
    (void)state;
    haul_scope *scope;
    heard       h = {.fused = 0};
    begin(&scope);
    haul_recording *r = haul_recording_new(to_target, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    const int64_t id = haul_events_subscribe(hear, .context = &h, .kinds = HAUL_EVENT_COMMAND_DONE);
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    haul_events_unsubscribe(id);
    assert_int_equal(h.commands, 1);
    assert_int_equal(h.fused, 1);
    assert_string_equal(h.name, "haul_mul_scalar + haul_add + haul_mul");
    assert_true(haul_item(haul_sum(written)) == 3.0 * 30000);
    haul_scope_pop(scope);
}

static void test_memory__read_in_another_order_ends_a_chain(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_program p = recorded(reversed);
    for (int64_t i = 0; i < p.operation_count; i++)
        assert_int_equal(p.operations[i].fused, -1);
    haul_program_free(&p);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_chain__has_memory_for_its_end_alone),
        cmocka_unit_test(test_chain__ends_at_obstacles),
        cmocka_unit_test(test_command__names_its_parts),
        cmocka_unit_test(test_memory__read_in_another_order_ends_a_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
