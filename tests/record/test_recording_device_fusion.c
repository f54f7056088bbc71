/* Chains on devices that compile kernel text: one generated kernel, which has the bits of the operations one by one.
 *
 * ctest: cuda-only; ptx */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "record/follow/device_chain.h"
#include "support/bits.h"
#include "support/conformance/conformance.h"
#include "support/devices/fusion.h"
#include "support/devices/program.h"

enum { ROWS = 37, COLUMNS = 19, OTHERS = 9 };

static haul_tensor *x, *half, *whole, *row, *column, *mask, *others[OTHERS], *written, *kept;

/* The first device that is not the CPU; the tests are skipped if there is none. */
static haul_device *device(void)
{
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    for (int i = 0; i < count; i++)
        if (devices[i] != haul_cpu())
            return devices[i];
    skip();
    return NULL;
}

static haul_tensor *values(haul_dtype dtype, haul_shape shape, int first)
{
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-42f, -3e38f, 65504.0f};
    float              data[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        data[i] = i % 5 == 0 ? special[(i / 5 + first) % 8] : (float)((i * 7 + first * 3) % 41) / 8 - 2;
    return haul_cast(haul_from_host(HAUL_F32, shape, data), dtype);
}

static void begin(haul_scope **scope)
{
    haul_device *on = device();
    *scope = haul_scope_push();
    assert_int_equal(haul_set_device(on), HAUL_OK);
    set_fusion(true);
    haul__chain_patience = 0;
    x = values(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), 0);
    half = values(HAUL_BF16, HAUL_SHAPE(ROWS, COLUMNS), 1);
    whole = values(HAUL_I32, HAUL_SHAPE(ROWS, COLUMNS), 2);
    row = values(HAUL_F32, HAUL_SHAPE(COLUMNS), 3);
    column = values(HAUL_F32, HAUL_SHAPE(ROWS, 1), 4);
    mask = haul_gt_scalar(x, 0);
    written = haul_zeros(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS));
    for (int i = 0; i < OTHERS; i++)
        others[i] = values(HAUL_F32, HAUL_SHAPE(ROWS, COLUMNS), 5 + i);
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

/* The commands of the third run. */
static heard commands_of(haul_recording *r)
{
    heard h = {.commands = 0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    const int64_t id = haul_events_subscribe(hear, .context = &h, .kinds = HAUL_EVENT_COMMAND);
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    haul_events_unsubscribe(id);
    return h;
}

/* The sign and the payload of a NaN are open. */
static haul_tensor *with_one_nan(haul_tensor *t)
{
    return haul_dtype_is_float(haul_tensor_dtype(t)) ? haul_masked_fill(t, haul_ne(t, t), NAN) : t;
}

/* The results of a step by itself, and of a followed one, are bit-identical. */
static heard same_bits(haul_status (*step)(void *), const char *what)
{
    assert_int_equal(step(NULL), HAUL_OK);
    haul_tensor *by_itself = haul_clone(written), *own = kept ? haul_clone(kept) : NULL;
    assert_int_equal(haul_copy_into(written, haul_zeros_like(written)), HAUL_OK);
    haul_recording *r = haul_recording_new(step, NULL, .strict = true);
    const heard     h = commands_of(r);
    assert_int_equal(report_of(r).followed, 2); /* the first run records */
    assert_same_bits(with_one_nan(by_itself), with_one_nan(written), what);
    if (own)
        assert_same_bits(with_one_nan(own), with_one_nan(kept), what);
    return h;
}

/* ---- steps ---- */

static haul_status broadcasts(void *context)
{
    (void)context;
    haul_tensor *a = haul_relu(haul_add(haul_mul_scalar(x, 2.5), row)), *b = haul_sub(column, x);
    return haul_mul_into(written, a, b);
}

static void test_chain__with_broadcasts_is_one_kernel(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    const heard h = same_bits(broadcasts, "broadcasts");
    assert_int_equal(h.fused, 1);
    assert_int_equal(h.commands, 1);
    assert_string_equal(h.name, "haul_mul_scalar + haul_add + haul_relu + haul_sub + haul_mul");
    haul_scope_pop(scope);
}

static haul_status threes(void *context)
{
    (void)context;
    haul_tensor *a = haul_lerp(x, row, column), *b = haul_lerp_scalar(a, others[0], 0.75);
    haul_tensor *c = haul_addcmul(b, x, column, -1.5), *d = haul_addcdiv(c, a, row, 0.3);
    return haul_add_into(written, d, haul_clamp_between(c, row, x));
}

static void test_chain__of_three_operands_is_one_kernel(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    const heard h = same_bits(threes, "three operands");
    assert_int_equal(h.fused, 1);
    assert_int_equal(h.commands, 1);
    haul_scope_pop(scope);
}

static haul_status casts(void *context)
{
    (void)context;
    haul_tensor *a = haul_mul(half, haul_square(half)),
                *b = haul_add(haul_cast(a, HAUL_F32), haul_cast(mask, HAUL_F32));
    haul_tensor *c = haul_where(haul_lt(b, x), b, haul_cast(whole, HAUL_F32));
    return haul_add_into(written, haul_masked_fill(c, haul_isnan(c), -1.5),
                         haul_cast(haul_cast(b, HAUL_F16), HAUL_F32));
}

static void test_chain__rounds_between_its_parts(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    const heard h = same_bits(casts, "casts");
    assert_true(h.fused >= 1);
    assert_true(h.commands < 12);
    haul_scope_pop(scope);
}

/* Compilers could contract these to fused multiply-adds. */
static haul_status contracts(void *context)
{
    (void)context;
    haul_tensor *a = haul_mul(others[0], others[1]);
    haul_tensor *b = haul_add(a, others[2]), *c = haul_mul(haul_add(a, x), others[1]);
    return haul_sub_into(written, b, c);
}

static void test_chain__contracts_nothing(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    assert_int_equal(same_bits(contracts, "multiply-adds").commands, 1);
    haul_scope_pop(scope);
}

static haul_status integers(void *context)
{
    (void)context;
    haul_tensor *a = haul_mul(whole, haul_add_scalar(whole, 2147483647));
    haul_tensor *b = haul_bitwise_xor(a, haul_floor_div(whole, haul_sub_scalar(whole, 1)));
    haul_release(kept);
    kept = haul_keep(haul_where(haul_ge(b, a), b, haul_neg(a)));
    return haul_tensor_check(kept);
}

static void test_chain__of_integers_wraps_around(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    assert_true(same_bits(integers, "integers").fused >= 1);
    haul_release(kept);
    kept = NULL;
    haul_scope_pop(scope);
}

static haul_status many_buffers(void *context)
{
    (void)context;
    haul_tensor *sum = x;
    for (int i = 0; i < OTHERS; i++)
        sum = haul_add(haul_mul_scalar(sum, 0.5), others[i]);
    return haul_neg_into(written, sum);
}

/* A kernel has seven buffers, so this chain takes two. */
static void test_chain__of_many_tensors_takes_several_kernels(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    const heard h = same_bits(many_buffers, "many buffers");
    assert_int_equal(h.commands, 2);
    assert_int_equal(h.fused, 2);
    haul_scope_pop(scope);
}

static haul_status transposed(void *context)
{
    (void)context;
    haul_tensor *a = haul_transpose(x, 0, 1), *b = haul_abs(haul_mul(a, haul_transpose(others[3], 0, 1)));
    haul_tensor *c = haul_sub(b, haul_slice(haul_transpose(column, 0, 1), 1, 0, ROWS, 1));
    haul_release(kept);
    kept = haul_keep(haul_maximum(c, a));
    return haul_tensor_check(kept);
}

static void test_chain__follows_the_order_in_memory(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    assert_int_equal(same_bits(transposed, "transposed").commands, 1);
    haul_release(kept);
    kept = NULL;
    haul_scope_pop(scope);
}

/* The first part is in the place of the chain's operand, and the last part reads it. The second one leaves the chain.
 */
static haul_status reads_late(void *context)
{
    (void)context;
    haul_tensor *a = haul_neg(haul_flip(others[0], HAUL_AXES(1))), *b = haul_mul_scalar(a, 3);
    haul_tensor *c = haul_flip(haul_add(a, b), HAUL_AXES(0));
    return haul_add_into(written, c, b);
}

static void test_chain__overwrites_nothing_that_it_reads_late(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul__chain_patience = INT64_MAX;
    assert_int_equal(same_bits(reads_late, "one by one").fused, 0);
    haul__chain_patience = 0;
    same_bits(reads_late, "as kernels");
    haul_scope_pop(scope);
}

/* ---- when there is a kernel ---- */

static void test_patience__lasts_until_a_kernel_pays(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul__chain_patience = 7 * ((int64_t)HAUL__LAUNCH_BYTES * 4 + 4 * 2 * 4 * ROWS * COLUMNS);
    haul_recording *r = haul_recording_new(broadcasts, NULL, .strict = true);
    assert_int_equal(commands_of(r).commands, 5); /* the recording computes first in its second run */
    for (int i = 0; i < 7; i++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(commands_of(r).commands, 1);
    haul_scope_pop(scope);
}

static void test_refusal__leaves_the_operations_alone(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul__chain_patience = INT64_MAX;
    haul_recording *r = haul_recording_new(many_buffers, NULL, .strict = true);
    assert_int_equal(commands_of(r).fused, 0); /* its own kernels are compiled */
    x = haul_mul_scalar(x, 2);
    haul_recording *refused = haul_recording_new(transposed, NULL, .strict = true);
    assert_int_equal(commands_of(refused).fused, 0);
    haul_tensor *before = haul_clone(kept);
    haul__chain_patience = 0;
    haul__fault_plan(HAUL__FAULT_COMPILE, 1);
    const haul_status status = haul_recording_run(refused);
    const bool        asked = haul__fault_count() > 0;
    haul__fault_plan(0, 0);
    assert_int_equal(status, HAUL_OK);
    if (asked) /* else an earlier test has compiled it */
        assert_int_equal(commands_of(refused).fused, 0);
    assert_same_bits(with_one_nan(before), with_one_nan(kept), "refused");
    haul_release(kept);
    kept = NULL;
    haul_scope_pop(scope);
}

static void test_without_fusion__says_so(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_program p = recorded(broadcasts);
    for (int64_t i = 0; i < p.operation_count; i++)
        assert_int_equal(p.operations[i].fused, 0);
    haul_program_free(&p);
    set_fusion(false);
    p = recorded(broadcasts);
    assert_string_equal(p.operations[0].unfused, "fusion is off");
    haul_program_free(&p);
    set_fusion(true);
    haul_scope_pop(scope);
}

static haul_status two_dtypes(void *context)
{
    (void)context;
    haul_tensor *a = haul_mul(whole, whole), *b = haul_abs(x);
    haul_tensor *c = haul_mul(haul_round_decimals(b, 1), row);
    return haul_add_into(written, c, haul_cast(a, HAUL_F32));
}

static void test_record__says_what_is_not_fused(void **state)
{
    (void)state;
    haul_scope *scope;
    begin(&scope);
    haul_program p = recorded(two_dtypes);
    assert_string_equal(p.operations[find(&p, "haul_round_decimals")].unfused,
                        "its kernel is not a formula of pointwise.def");
    assert_string_equal(p.operations[find(&p, "haul_abs")].unfused,
                        "the operation before it computes in another dtype");
    haul_program_free(&p);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain__with_broadcasts_is_one_kernel),
        cmocka_unit_test(test_chain__of_three_operands_is_one_kernel),
        cmocka_unit_test(test_chain__rounds_between_its_parts),
        cmocka_unit_test(test_chain__contracts_nothing),
        cmocka_unit_test(test_chain__of_integers_wraps_around),
        cmocka_unit_test(test_chain__of_many_tensors_takes_several_kernels),
        cmocka_unit_test(test_chain__follows_the_order_in_memory),
        cmocka_unit_test(test_chain__overwrites_nothing_that_it_reads_late),
        cmocka_unit_test(test_patience__lasts_until_a_kernel_pays),
        cmocka_unit_test(test_refusal__leaves_the_operations_alone),
        cmocka_unit_test(test_without_fusion__says_so),
        cmocka_unit_test(test_record__says_what_is_not_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
