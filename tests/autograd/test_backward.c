/* What a backward pass frees, when it changes the gradients of leaves, and how much memory it needs.
 *
 * ctest: cuda */
#include <haul/haul.h>

#include "base/alloc.h"
#include "support/bits.h"

static haul_tensor *leaf(haul_device *device, haul_shape shape, unsigned seed)
{
    return haul_set_requires_grad(sample_tensor(device, HAUL_F32, shape, seed, NULL), true);
}

static haul_memory_stats memory_of(haul_device *device)
{
    haul_memory_stats s;
    assert_int_equal(haul_memory_stats_get(device, &s), HAUL_OK);
    return s;
}

typedef enum way { FREE, ONCE, KEEP, WAYS } way;

static const char *const way_names[] = {"the default", "once", "keep"};

static haul_status backward(haul_tensor *y, way w)
{
    return haul_backward(y, .keep = w == KEEP, .once = w == ONCE);
}

static void assert_freed(haul_status status)
{
    assert_int_equal(status, HAUL_GRAPH);
    if (!strstr(haul_error_message(),
                "the graph was freed by an earlier haul_backward or haul_grad; give that call .keep = true"))
        fail_msg("%s", haul_error_message());
    haul_error_clear();
}

/* ---- what a pass frees ---- */

enum { WIDE = 1 << 16, BLOCK = WIDE * 4, LINKS = 6 };

/* Only the graph holds what it needs. */
static haul_tensor *chain(haul_tensor *x)
{
    haul_tensor *y = haul_tanh(x);
    for (int i = 1; i < LINKS; i++) {
        haul_tensor *next = haul_tanh(y);
        assert_int_equal(haul_drop(y), HAUL_OK);
        y = next;
    }
    haul_tensor *sum = haul_sum(y);
    assert_int_equal(haul_drop(y), HAUL_OK);
    return sum;
}

static void check_second_pass(haul_device *device)
{
    haul_tensor *x = leaf(device, HAUL_SHAPE(WIDE), 1), *y = chain(x);
    assert_int_equal(backward(y, KEEP), HAUL_OK);
    haul_tensor *first = haul_clone(haul_tensor_grad(x));
    assert_int_equal(backward(y, FREE), HAUL_OK);
    assert_same_bits(haul_tensor_grad(x), haul_add(first, first), "the gradient of two passes");
    haul_set_grad(x, first);
    for (int w = 0; w < WAYS; w++) {
        assert_freed(backward(y, (way)w));
        assert_same_bits(haul_tensor_grad(x), first, "the gradient after a pass that fails");
    }
}

static void check_memory_after(haul_device *device)
{
    haul_tensor  *x = leaf(device, HAUL_SHAPE(WIDE), 1), *g;
    const int64_t before = memory_of(device).allocated;
    for (int w = 0; w < 2 * WAYS; w++) {
        haul_tensor  *y = chain(x);
        const int64_t held = memory_of(device).allocated;
        assert_true(held >= before + (int64_t)LINKS * BLOCK);
        if (w < WAYS) {
            assert_int_equal(backward(y, (way)w), HAUL_OK);
            haul_set_grad(x, HAUL_NONE);
        } else {
            assert_int_equal(haul_grad(y, &x, 1, &g, .keep = w == WAYS + KEEP), HAUL_OK);
            assert_int_equal(haul_drop(g), HAUL_OK);
        }
        const int64_t left = memory_of(device).allocated - before;
        assert_true(w % WAYS == KEEP ? left >= (int64_t)LINKS * BLOCK : left < BLOCK);
        assert_int_equal(haul_drop(y), HAUL_OK);
    }
}

static void test_backward__a_pass_frees_its_graph(void **state)
{
    (void)state;
    on_devices(check_second_pass);
    on_devices(check_memory_after);
}

/* Two losses with a common part. The second pass fails before it has changed anything. */
static void check_common_part(haul_device *device)
{
    haul_tensor *x = leaf(device, HAUL_SHAPE(9), 1), *u = leaf(device, HAUL_SHAPE(9), 2), *want = NULL;
    for (int w = KEEP; w >= 0; w--) {
        haul_tensor *h = haul_tanh(x), *first = haul_sum(haul_exp(h)), *second = haul_sum(haul_mul(h, u));
        haul_set_grad(x, HAUL_NONE);
        haul_set_grad(u, HAUL_NONE);
        assert_int_equal(backward(first, (way)w), HAUL_OK);
        if (w == KEEP) {
            want = haul_tensor_grad(x);
            assert_int_equal(backward(second, FREE), HAUL_OK);
            continue;
        }
        for (int i = 0; i < 2; i++)
            assert_freed(backward(second, ONCE));
        assert_ptr_equal(haul_tensor_grad(u), HAUL_NONE);
        assert_same_bits(haul_tensor_grad(x), want, "the gradient after a pass that fails");
    }
}

static void test_backward__graphs_with_a_common_part(void **state)
{
    (void)state;
    on_devices(check_common_part);
}

/* ---- when gradients change ---- */

typedef struct shared {
    haul_tensor *w, *v;
    int          calls, fails_at;
} shared;

static haul_tensor *inner(haul_tensor *const *in, int count, void *context)
{
    shared *s = context;
    (void)count;
    if (++s->calls == s->fails_at)
        return haul_tensor_fail(HAUL_STATE, "inner", NULL, "the function fails now");
    return haul_mul(haul_tanh(haul_matmul(in[0], s->w)), s->v);
}

enum { LEAVES = 3, SIDE = 17 };

/* Leaves are used several times, inside and outside of a function that runs again. */
static haul_tensor *network(shared *s, haul_tensor *x)
{
    haul_tensor *y = haul_matmul(haul_exp(haul_mul_scalar(x, 0.1)), s->w), *in[] = {y};
    y = haul_add(haul_checkpoint(inner, in, 1, s), haul_mul(x, s->v));
    return haul_sum(haul_mul(haul_mul(y, y), haul_add(s->v, s->v)));
}

static void make_leaves(haul_device *device, shared *s, haul_tensor *leaves[LEAVES])
{
    *s = (shared){.w = leaf(device, HAUL_SHAPE(SIDE, SIDE), 1), .v = leaf(device, HAUL_SHAPE(SIDE), 2)};
    leaves[0] = s->w;
    leaves[1] = s->v;
    leaves[2] = leaf(device, HAUL_SHAPE(SIDE, SIDE), 3);
}

/* The order of memory of the gradients that the leaves have before the passes. */
static haul_tensor *gradient_in_order(haul_tensor *t, int order)
{
    haul_shape shape = haul_tensor_shape(t);
    if (order == 1)
        return haul_expand(haul_to(haul_ones(HAUL_F32, HAUL_SCALAR_SHAPE), haul_tensor_device(t)), shape);
    if (order == 2 && shape.ndim == 2)
        return haul_transpose(sample_tensor(haul_tensor_device(t), HAUL_F32, shape, 8, NULL), 0, 1);
    return sample_tensor(haul_tensor_device(t), HAUL_F32, shape, 9, NULL);
}

static void check_same_bits(haul_device *device)
{
    shared       s;
    haul_tensor *leaves[LEAVES], *want[LEAVES];
    make_leaves(device, &s, leaves);
    for (int order = 0; order < 3; order++) {
        for (int w = KEEP; w >= 0; w--) {
            for (int i = 0; i < LEAVES; i++)
                haul_set_grad(leaves[i], gradient_in_order(leaves[i], order));
            for (int pass = 0; pass < 3; pass++)
                assert_int_equal(backward(network(&s, leaves[2]), (way)w), HAUL_OK);
            for (int i = 0; i < LEAVES; i++) {
                haul_tensor *g = haul_tensor_grad(leaves[i]);
                if (w != KEEP)
                    assert_same_bits(g, want[i], way_names[w]);
                want[i] = g;
            }
        }
    }
}

static void test_backward__all_ways_give_the_same_bits(void **state)
{
    (void)state;
    on_devices(check_same_bits);
}

/* A handle to a gradient, and a graph that read it, keep the old sum. */
static void check_old_sums(haul_device *device)
{
    haul_tensor *x = leaf(device, HAUL_SHAPE(SIDE), 1), *u = leaf(device, HAUL_SHAPE(SIDE), 2);
    for (int w = 0; w < WAYS; w++) {
        haul_set_grad(x, HAUL_NONE);
        haul_set_grad(u, HAUL_NONE);
        assert_int_equal(backward(haul_sum(haul_exp(x)), (way)w), HAUL_OK);
        haul_tensor *first = haul_tensor_grad(x), *copy = haul_clone(first);
        haul_tensor *reads = haul_sum(haul_mul(first, u));
        assert_int_equal(backward(haul_sum(haul_exp(x)), (way)w), HAUL_OK);
        assert_same_bits(first, copy, "a handle to the gradient");
        assert_same_bits(haul_tensor_grad(x), haul_add(copy, copy), "the sum");
        assert_int_equal(backward(reads, (way)w), HAUL_OK);
        assert_same_bits(haul_tensor_grad(u), copy, "a graph that read the gradient");
    }
}

static void test_backward__handles_to_gradients_keep_the_old_sum(void **state)
{
    (void)state;
    on_devices(check_old_sums);
}

/* Two leaves whose gradients are one tensor, and a leaf whose gradient is the seed. */
static void check_common_gradients(haul_device *device)
{
    haul_tensor *a = leaf(device, HAUL_SHAPE(SIDE), 1), *b = leaf(device, HAUL_SHAPE(SIDE), 2);
    haul_tensor *seed = sample_tensor(device, HAUL_F32, HAUL_SHAPE(SIDE), 3, NULL), *copy = haul_clone(seed);
    haul_tensor *set = sample_tensor(device, HAUL_F32, HAUL_SHAPE(SIDE), 4, NULL), *set_copy = haul_clone(set);
    for (int once = 0; once < 2; once++) {
        haul_set_grad(a, set);
        haul_set_grad(b, set);
        for (int i = 0; i < 2; i++)
            assert_int_equal(haul_backward(haul_add(a, b), .seed = seed, .once = once), HAUL_OK);
        haul_tensor *want = haul_add(haul_add(set_copy, copy), copy);
        assert_same_bits(haul_tensor_grad(a), want, "the first gradient");
        assert_same_bits(haul_tensor_grad(b), want, "the second gradient");
        assert_same_bits(seed, copy, "the seed");
        assert_same_bits(set, set_copy, "the tensor that was set");
    }
}

static void test_backward__gradients_share_no_memory(void **state)
{
    (void)state;
    on_devices(check_common_gradients);
}

/* The function's second run fails after the gradient of `a` is complete. */
static void check_failure(haul_device *device)
{
    for (int w = 0; w < WAYS; w++) {
        shared       s;
        haul_tensor *leaves[LEAVES], *a = leaf(device, HAUL_SHAPE(SIDE), 5);
        make_leaves(device, &s, leaves);
        haul_tensor *old = sample_tensor(device, HAUL_F32, HAUL_SHAPE(SIDE), 6, NULL);
        haul_set_grad(a, old);
        haul_set_grad(s.v, old);
        s.fails_at = 2;
        haul_tensor *y = haul_sum(haul_mul(haul_checkpoint(inner, &leaves[2], 1, &s), a));
        assert_int_equal(backward(y, (way)w), HAUL_STATE);
        haul_error_clear();
        haul_tensor *difference = haul_sum(haul_abs(haul_sub(haul_tensor_grad(a), old)));
        assert_true((haul_item(difference) != 0) == (w == ONCE));
        assert_same_bits(haul_tensor_grad(s.v), old, "a gradient that was not complete");
        assert_ptr_equal(haul_tensor_grad(leaves[2]), HAUL_NONE);
        if (w == KEEP)
            assert_int_equal(backward(y, FREE), HAUL_OK);
        else
            assert_freed(backward(y, FREE));
    }
}

static void test_backward__a_pass_that_fails(void **state)
{
    (void)state;
    on_devices(check_failure);
}

/* True if the pass came to the nth allocation, which failed. All gradients are changed then, or none. */
static bool fails_at(shared *s, haul_tensor **leaves, haul_tensor **want, int64_t nth)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *old[LEAVES], *y = network(s, leaves[2]);
    for (int i = 0; i < LEAVES; i++)
        old[i] = haul_clone(haul_tensor_grad(leaves[i]));
    haul__fault_plan(HAUL__FAULT_HOST, nth);
    haul_status status = backward(y, FREE);
    const bool  reached = haul__fault_count() >= nth;
    haul__fault_plan(0, 0);
    haul_error_clear();
    for (int i = 0; i < LEAVES; i++)
        assert_same_bits(haul_tensor_grad(leaves[i]), status ? old[i] : want[i],
                         status ? "a gradient after a pass that fails" : "a gradient without one allocation");
    for (int i = 0; i < LEAVES; i++)
        haul_set_grad(leaves[i], old[i]);
    haul_scope_pop(scope);
    return reached;
}

static void test_backward__allocations_that_fail(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    shared       s;
    haul_tensor *leaves[LEAVES], *old[LEAVES], *want[LEAVES];
    int64_t      nth = 1;
    make_leaves(haul_cpu(), &s, leaves);
    assert_int_equal(backward(network(&s, leaves[2]), FREE), HAUL_OK);
    for (int i = 0; i < LEAVES; i++)
        old[i] = haul_tensor_grad(leaves[i]);
    assert_int_equal(backward(network(&s, leaves[2]), FREE), HAUL_OK);
    for (int i = 0; i < LEAVES; i++) {
        want[i] = haul_tensor_grad(leaves[i]);
        haul_set_grad(leaves[i], old[i]);
    }
    while (fails_at(&s, leaves, want, nth))
        nth++;
    assert_in_range(nth, 20, 5000);
    haul_scope_pop(scope);
}

static void test_backward__wrong_options(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = leaf(haul_cpu(), HAUL_SHAPE(3), 1), *y = haul_sum(haul_exp(x));
    assert_int_equal(haul_backward(y, .keep = true, .once = true), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "keep and once are both true"));
    haul_error_clear();
    assert_int_equal(haul_backward_with(NULL), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "options is NULL"));
    assert_int_equal(haul_backward(x), HAUL_GRAPH);
    assert_non_null(strstr(haul_error_message(), "y is a leaf"));
    haul_error_clear();
    assert_int_equal(haul_backward(y), HAUL_OK); /* nothing was freed */
    haul_scope_pop(scope);
}

/* ---- gradients of some tensors ---- */

/* A pass to h leaves the part before h alone. */
static void check_parts(haul_device *device)
{
    haul_tensor *x = leaf(device, HAUL_SHAPE(SIDE), 1), *u = leaf(device, HAUL_SHAPE(SIDE), 2), *want = NULL, *g;
    for (int parts = 0; parts < 4; parts++) {
        haul_tensor *h = haul_tanh(haul_mul(x, x)), *y = haul_sum(haul_exp(haul_mul(h, u)));
        haul_set_grad(x, HAUL_NONE);
        haul_set_grad(u, HAUL_NONE);
        if (parts) {
            assert_int_equal(haul_grad(y, &h, 1, &g, .keep = parts == 2, .create_graph = parts == 3), HAUL_OK);
            assert_ptr_equal(haul_tensor_grad(u), HAUL_NONE);
            haul_tensor *again;
            if (parts == 1)
                assert_freed(haul_grad(y, &h, 1, &again));
            else
                assert_int_equal(haul_grad(y, &h, 1, &again), HAUL_OK);
        }
        assert_int_equal(parts ? haul_backward(h, .seed = haul_detach(g)) : haul_backward(y), HAUL_OK);
        if (parts)
            assert_same_bits(haul_tensor_grad(x), want, "a gradient in two parts");
        else
            want = haul_tensor_grad(x);
    }
    haul_tensor *h = haul_tanh(haul_mul(x, x)), *y = haul_sum(haul_mul(h, h)), *in[] = {h, u, y}, *out[3];
    assert_int_equal(haul_grad(y, in, 3, out), HAUL_OK);
    assert_ptr_equal(out[1], HAUL_NONE);
    assert_true(haul_item(out[2]) == 1);
    haul_set_grad(x, HAUL_NONE);
    assert_int_equal(haul_backward(h, .seed = out[0]), HAUL_OK);
    assert_valid(haul_tensor_grad(x));
}

static void test_backward__gradients_of_some_tensors(void **state)
{
    (void)state;
    on_devices(check_parts);
}

/* ---- peaks ---- */

enum { LAYERS = 8, FEATURES = 256, LAYER = FEATURES * FEATURES * 4, SMALL = LAYER / 8 };

static haul_module *layers(void)
{
    haul_module *m[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        m[i] = haul_nn_linear(FEATURES, FEATURES, .no_bias = true);
    return haul_nn_sequential(m, LAYERS);
}

/* The most that a pass allocates in addition to memory in use. */
static int64_t needs(haul_device *device, haul_module *net, way w)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *loss = haul_mean(haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(1, FEATURES))));
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
    const int64_t before = memory_of(device).allocated;
    assert_int_equal(backward(loss, w), HAUL_OK);
    haul_scope_pop(scope);
    return memory_of(device).peak_allocated - before;
}

static void check_accumulation(haul_device *device)
{
    haul_set_device(device);
    haul_module *net = layers();
    for (int pass = 0; pass < 2; pass++) /* gradients that are new, and sums */
        for (int w = FREE; w <= KEEP; w += KEEP - FREE)
            assert_in_range(needs(device, net, (way)w), LAYERS * LAYER - SMALL, LAYERS * LAYER + SMALL);
    const int64_t most = device == haul_cpu() ? LAYER : 2 * LAYER; /* others copy the weights while they use them */
    assert_in_range(needs(device, net, ONCE), LAYER - SMALL, most + SMALL);
}

/* Gradients that are not wanted are not held. */
static void check_gradient_of_input(haul_device *device)
{
    haul_set_device(device);
    haul_module *net = layers();
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(1, FEATURES)), true), *g;
    haul_tensor *loss = haul_mean(haul_call(net, x));
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
    const int64_t before = memory_of(device).allocated;
    assert_int_equal(haul_grad(loss, &x, 1, &g), HAUL_OK);
    assert_true(memory_of(device).peak_allocated - before < 3 * LAYER);
}

/* The gradients of a result that is used several times are added up in the memory of the first. */
static void check_sums(haul_device *device)
{
    haul_tensor *x = leaf(device, HAUL_SHAPE(WIDE), 1), *h = haul_mul_scalar(x, 2), *y = haul_mul(h, haul_detach(h));
    for (int i = 0; i < 3; i++)
        y = haul_add(y, haul_mul(h, haul_detach(h)));
    y = haul_sum(y);
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
    const int64_t before = memory_of(device).allocated;
    assert_int_equal(haul_backward(y, .keep = true), HAUL_OK);
    assert_in_range(memory_of(device).peak_allocated - before, 2 * BLOCK, 2 * BLOCK + BLOCK / 8);
}

static void test_backward__peaks(void **state)
{
    (void)state;
    on_devices(check_sums);
    on_devices(check_accumulation);
    on_devices(check_gradient_of_input);
}

/* ---- dry runs ---- */

typedef struct planned {
    haul_tensor *y;
    way          w;
} planned;

static haul_status pass_in_dry_run(void *context)
{
    const planned *p = context;
    return backward(p->y, p->w);
}

static haul_status two_passes_in_dry_run(void *context)
{
    const planned *p = context;
    assert_int_equal(backward(p->y, p->w), HAUL_OK);
    return backward(p->y, p->w);
}

static int64_t estimated_peak(haul_device *device, const planned *p)
{
    haul_estimate_result r;
    int64_t              bytes = 0;
    assert_int_equal(haul_estimate(pass_in_dry_run, (void *)(uintptr_t)p, &r), HAUL_OK);
    for (int i = 0; i < r.device_count; i++)
        if (r.devices[i].device == device)
            bytes = r.devices[i].peak_bytes;
    haul_estimate_free(&r);
    return bytes;
}

/* A graph from before the dry run can be used after it, and the peak follows what the pass would free. */
static void check_dry_run(haul_device *device)
{
    for (int w = 0; w < WAYS; w++) {
        haul_tensor *x = leaf(device, HAUL_SHAPE(WIDE), 1);
        for (int pass = 0; pass < 3; pass++) {
            const planned        p = {chain(x), (way)w};
            haul_estimate_result r;
            if (w == KEEP) {
                assert_int_equal(haul_estimate(two_passes_in_dry_run, (void *)(uintptr_t)&p, &r), HAUL_OK);
                haul_estimate_free(&r);
            } else {
                assert_freed(haul_estimate(two_passes_in_dry_run, (void *)(uintptr_t)&p, &r));
            }
            const int64_t planned_peak = estimated_peak(device, &p);
            assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
            assert_int_equal(backward(p.y, p.w), HAUL_OK);
            assert_int_equal(memory_of(device).peak_allocated, planned_peak);
            assert_int_equal(haul_drop(p.y), HAUL_OK);
        }
    }
}

static void test_backward__dry_runs_leave_graphs_alone(void **state)
{
    (void)state;
    on_devices(check_dry_run);
}

/* ---- empty tensors ---- */

/* The gradient of a sum is an expanded number. Without elements it shares no memory, so others are added to it. */
static void check_empty(haul_device *device)
{
    haul_tensor *x = haul_set_requires_grad(haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), device), true);
    haul_tensor *y = haul_exp(x), *loss = haul_add(haul_sum(y), haul_sum(haul_mul(y, haul_exp(y))));
    if (haul_backward(loss))
        fail_msg("%s", haul_error_message());
    assert_int_equal(haul_tensor_dim(haul_tensor_grad(x), 1), 3);
}

static void test_backward__of_empty_tensors(void **state)
{
    (void)state;
    on_devices(check_empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backward__a_pass_frees_its_graph),
        cmocka_unit_test(test_backward__graphs_with_a_common_part),
        cmocka_unit_test(test_backward__all_ways_give_the_same_bits),
        cmocka_unit_test(test_backward__handles_to_gradients_keep_the_old_sum),
        cmocka_unit_test(test_backward__gradients_share_no_memory),
        cmocka_unit_test(test_backward__a_pass_that_fails),
        cmocka_unit_test(test_backward__allocations_that_fail),
        cmocka_unit_test(test_backward__wrong_options),
        cmocka_unit_test(test_backward__gradients_of_some_tensors),
        cmocka_unit_test(test_backward__peaks),
        cmocka_unit_test(test_backward__dry_runs_leave_graphs_alone),
        cmocka_unit_test(test_backward__of_empty_tensors),
    };
    return cmocka_run_group_tests_name("backward", tests, NULL, NULL);
}
