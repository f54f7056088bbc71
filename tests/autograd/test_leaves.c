/* The gradients of leaves: whose memory they have, what it counts as, and what a dry run does with them.
 *
 * ctest: cuda */
#include <haul/haul.h>

#include "engine/follow.h"
#include "support/bits.h"

enum { WIDE = 1 << 16, BLOCK = WIDE * 4 };

static haul_tensor *leaf(haul_device *device)
{
    return haul_set_requires_grad(haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(WIDE)), device), true);
}

/* ---- memory ---- */

/* A gradient that is set shares its memory, unless its elements share theirs: then it could not change in place. */
static void check_set(haul_device *device)
{
    haul_tensor *x = leaf(device), *one = haul_to(haul_ones(HAUL_F32, HAUL_SCALAR_SHAPE), device);
    haul_tensor *set = haul_clone(haul_detach(x)), *copy = haul_clone(one);
    assert_int_equal(haul_set_grad(x, set), HAUL_OK);
    assert_int_equal(haul_add_into(set, set, set), HAUL_OK);
    assert_same_bits(haul_tensor_grad(x), set, "a gradient that was set");
    assert_int_equal(haul_set_grad(x, haul_expand(one, HAUL_SHAPE(WIDE))), HAUL_OK);
    haul_tensor *gradient = haul_tensor_grad(x);
    assert_int_equal(haul_add_into(gradient, gradient, gradient), HAUL_OK);
    assert_same_bits(gradient, set, "a gradient that was an expanded tensor");
    assert_same_bits(one, copy, "the tensor that was expanded");
}

static void test_leaves__gradients_that_are_set(void **state)
{
    (void)state;
    on_devices(check_set);
}

static int64_t gradient_bytes(const haul_device *device)
{
    haul_memory_origin rows[16];
    const int          count = haul_memory_by_role(device, rows, 16);
    assert_in_range(count, 0, 16);
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].name, "gradients"))
            return rows[i].bytes;
    return 0;
}

static void check_role(haul_device *device)
{
    for (int once = 0; once < 2; once++) {
        haul_tensor *x = leaf(device);
        assert_int_equal(gradient_bytes(device), 0);
        for (int pass = 0; pass < 2; pass++) {
            assert_int_equal(haul_backward(haul_sum(haul_exp(x)), .once = once), HAUL_OK);
            assert_in_range(gradient_bytes(device), BLOCK, BLOCK + BLOCK / 4);
        }
        assert_int_equal(haul_set_grad(x, HAUL_NONE), HAUL_OK);
    }
}

static void test_leaves__gradients_count_as_gradients(void **state)
{
    (void)state;
    on_devices(check_role);
}

/* ---- dry runs ---- */

static haul_status make_and_use_leaves(void *context)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < 3 && !status; i++) {
        haul_scope *scope = haul_scope_push();
        status = haul_backward(haul_sum(haul_exp(leaf(context))));
        haul_scope_pop(scope);
    }
    return status;
}

/* A leaf that a dry run made ends with its last user, with its gradient: nothing is put back at the run's end. */
static void check_dry_run(haul_device *device)
{
    haul_estimate_result r;
    int64_t              planned = 0;
    haul_memory_stats    s;
    assert_int_equal(haul_estimate(make_and_use_leaves, device, &r), HAUL_OK);
    for (int i = 0; i < r.device_count; i++)
        if (r.devices[i].device == device)
            planned = r.devices[i].peak_bytes;
    haul_estimate_free(&r);
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
    assert_int_equal(make_and_use_leaves(device), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(device, &s), HAUL_OK);
    assert_int_equal(s.peak_allocated, planned);
}

static void test_leaves__of_a_dry_run(void **state)
{
    (void)state;
    on_devices(check_dry_run);
}

/* ---- recordings ---- */

typedef struct refused {
    haul_tensor *x;
    haul_status  status;
    int          passes;
} refused;

static haul_status refuse(haul__recorder *recorder, haul_tensor *x, haul_tensor *gradient)
{
    (void)recorder;
    (void)x;
    (void)gradient;
    return haul__fail(HAUL_OUT_OF_MEMORY, "haul_backward", NULL, "the recorder has no memory");
}

static haul_status refused_step(void *context)
{
    refused        *p = context;
    haul__recorder *recorder = haul__recorder_now();
    if (recorder)
        recorder->leaf = refuse;
    const haul_status status = haul_backward(haul_sum(haul_exp(p->x)), .once = p->passes % 2);
    if (recorder) {
        p->passes++;
        p->status = status;
    }
    return status;
}

/* A pass fails if the recorder cannot note what becomes of a leaf: a step that is followed would leave it out. */
static void test_leaves__that_a_recorder_refuses(void **state)
{
    (void)state;
    for (int once = 0; once < 2; once++) {
        haul_scope     *scope = haul_scope_push();
        refused         p = {.x = leaf(haul_cpu()), .passes = once};
        haul_recording *r = haul_recording_new(refused_step, &p);
        for (int i = 0; i < 3 && p.passes == once; i++) {
            haul_recording_run(r);
            haul_error_clear();
        }
        assert_int_equal(p.passes, once + 1);
        assert_int_equal(p.status, HAUL_OUT_OF_MEMORY);
        haul_scope_pop(scope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves__gradients_that_are_set),
        cmocka_unit_test(test_leaves__gradients_count_as_gradients),
        cmocka_unit_test(test_leaves__of_a_dry_run),
        cmocka_unit_test(test_leaves__that_a_recorder_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
