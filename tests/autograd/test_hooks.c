/* Hooks of tensors: what they get and what they change, against numbers of PyTorch, on every device.
 *
 * ctest: cuda; sim */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/conformance/conformance.h"

/* Calls `play` on every device, each in a scope of its own. */
static void on_each_device(void (*play)(void))
{
    haul_device *devices[8];
    haul_scope  *all = haul_scope_push();
    int          n = test_devices(devices, 8);
    for (int d = 0; d < n; d++) {
        haul_scope *scope = haul_scope_push();
        haul_set_device(devices[d]);
        play();
        haul_scope_pop(scope);
    }
    haul_scope_pop(all);
}

static haul_tensor *leaf(double a, double b, double c)
{
    return haul_set_requires_grad(haul_from_host(HAUL_F64, HAUL_SHAPE(3), (double[]){a, b, c}), true);
}

static void assert_values(const haul_tensor *t, double a, double b, double c)
{
    double have[3], want[3] = {a, b, c};
    if (haul_read(t, have, sizeof have))
        fail_msg("%s", haul_error_message());
    for (int i = 0; i < 3; i++)
        if (fabs(have[i] - want[i]) > 1e-12 * fabs(want[i]))
            fail_msg("element %d is %.17g, not %.17g", i, have[i], want[i]);
}

static void assert_fails(haul_status status, haul_status want, const char *piece)
{
    if (status != want || !strstr(haul_error_message(), piece))
        fail_msg("%d: %s", (int)status, haul_error_message());
    haul_error_clear();
}

/* ---- the hooks ---- */

static int calls;

static haul_tensor *twice(haul_tensor *g, void *context)
{
    calls++;
    if (context)
        *(haul_tensor **)context = haul_keep(haul_clone(g));
    return haul_mul_scalar(g, 2);
}

static haul_tensor *plus_one(haul_tensor *g, void *context)
{
    (void)context;
    return haul_add_scalar(g, 1);
}

static haul_tensor *bound(haul_tensor *g, void *context)
{
    (void)context;
    return haul_clamp(g, -0.5, 0.5);
}

static haul_tensor *look(haul_tensor *g, void *context)
{
    (void)g;
    (*(int *)context)++;
    return HAUL_NONE;
}

static haul_tensor *square(haul_tensor *g, void *context)
{
    (void)context;
    return haul_mul(g, g);
}

static haul_status note(haul_tensor *p, void *context)
{
    *(haul_tensor **)context = haul_keep(haul_clone(haul_tensor_grad(p)));
    return HAUL_OK;
}

static void play_pytorch(void)
{
    for (int once = 0; once < 2; once++) {
        haul_tensor *x = leaf(1, 2, 3), *w = leaf(2, -1, 0.5), *h = haul_tanh(haul_mul(x, w)), *seen, *noted;
        assert_true(haul_tensor_add_hook(h, .gradient = twice, .context = (void *)&seen) > 0);
        assert_true(haul_tensor_add_hook(h, .gradient = plus_one) > 0);
        assert_true(haul_tensor_add_hook(x, .gradient = bound) > 0);
        assert_true(haul_tensor_add_hook(w, .accumulated = note, .context = (void *)&noted) > 0);
        haul_tensor *y = haul_add(haul_sum(haul_mul(h, h)), haul_sum(h));
        assert_int_equal(haul_backward(y, .once = once), HAUL_OK);
        assert_values(seen, 2.92805516015163381, -0.92805516015163381, 2.81029650728973301);
        assert_values(haul_tensor_grad(x), 0.5, 0.06048490029473266, 0.5);
        assert_values(haul_tensor_grad(w), 0.48438984941371921, -0.12096980058946531, 3.58915533403812503);
        assert_values(noted, 0.48438984941371921, -0.12096980058946531, 3.58915533403812503);
        haul_release(seen);
        haul_release(noted);
    }
}

static void test_hooks__give_the_gradients_of_pytorch(void **state)
{
    (void)state;
    on_each_device(play_pytorch);
}

/* The hook is part of the recorded pass, and is called in the second one, too. */
static void play_second_order(void)
{
    haul_tensor *x = leaf(1, 2, 3), *w = leaf(2, -1, 0.5), *h = haul_mul(x, w), *g, *g2;
    haul_tensor_add_hook(h, .gradient = square);
    assert_int_equal(haul_grad(haul_sum(haul_mul(h, haul_mul(h, h))), &w, 1, &g, .create_graph = true), HAUL_OK);
    assert_values(g, 144, 288, 136.6875);
    assert_int_equal(haul_grad(haul_sum(g), &w, 1, &g2), HAUL_OK);
    assert_values(g2, 82944, 663552, 398580.75);
}

static void test_hooks__second_order(void **state)
{
    (void)state;
    on_each_device(play_second_order);
}

/* ---- one call for each pass, and removal ---- */

static void test_hooks__are_called_once_and_can_be_removed(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    int           of_leaf = 0, of_result = 0;
    haul_tensor  *x = leaf(1, 2, 3), *h = haul_mul_scalar(x, 2);
    const int64_t first = haul_tensor_add_hook(x, .gradient = look, .context = &of_leaf);
    const int64_t second = haul_tensor_add_hook(h, .gradient = look, .context = &of_result);
    haul_tensor  *y = haul_sum(haul_add(haul_mul(h, h), haul_mul(x, x)));
    assert_int_equal(haul_backward(y, .keep = true), HAUL_OK);
    assert_values(haul_tensor_grad(x), 10, 20, 30);
    haul_tensor *inputs[] = {x, h}, *results[2];
    assert_int_equal(haul_grad(y, inputs, 2, results, .keep = true), HAUL_OK);
    assert_int_equal(of_leaf, 2);
    assert_int_equal(of_result, 2);
    assert_int_equal(haul_tensor_remove_hook(x, first), HAUL_OK);
    assert_fails(haul_tensor_remove_hook(x, first), HAUL_INVALID_ARGUMENT, "no hook");
    assert_int_equal(haul_tensor_remove_hook(h, second), HAUL_OK);
    assert_int_equal(haul_backward(y), HAUL_OK);
    assert_int_equal(of_leaf + of_result, 4);
    haul_scope_pop(scope);
}

typedef struct once {
    haul_tensor *t;
    int64_t      id;
    int          calls;
} once;

static haul_tensor *remove_itself(haul_tensor *g, void *context)
{
    once *o = context;
    o->calls++;
    return haul_tensor_remove_hook(o->t, o->id) ? NULL : g;
}

static void test_hooks__may_remove_themselves(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    int         others = 0;
    once        o = {.t = leaf(1, 2, 3)};
    o.id = haul_tensor_add_hook(o.t, .gradient = remove_itself, .context = &o);
    haul_tensor_add_hook(o.t, .gradient = look, .context = &others);
    for (int i = 0; i < 2; i++)
        assert_int_equal(haul_backward(haul_sum(o.t)), HAUL_OK);
    assert_int_equal(o.calls, 1);
    assert_int_equal(others, 2);
    haul_scope_pop(scope);
}

/* ---- a step of the optimizer within the pass ---- */

static void count_end(void *context)
{
    ++*(int *)context;
}

/* A context ends once: with its hook's removal, its leaf, or the graph; not if the hook was refused. */
static void test_hooks__contexts_end(void **state)
{
    (void)state;
    int          ended[4] = {0};
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = leaf(1, 2, 3), *h = haul_mul_scalar(x, 2);
    int64_t      id = haul_tensor_add_hook(x, .gradient = twice, .context = NULL, .destroy = NULL);
    assert_int_equal(haul_tensor_remove_hook(x, id), HAUL_OK);
    id = haul_tensor_add_hook(x, .accumulated = note, .context = &ended[0], .destroy = count_end);
    assert_int_equal(haul_tensor_remove_hook(x, id), HAUL_OK);
    assert_int_equal(ended[0], 1);
    assert_true(haul_tensor_add_hook(x, .accumulated = note, .context = &ended[1], .destroy = count_end));
    assert_true(haul_tensor_add_hook(h, .gradient = plus_one, .context = &ended[2], .destroy = count_end));
    assert_true(!haul_tensor_add_hook(haul_detach(x), .gradient = twice, .context = &ended[3], .destroy = count_end));
    haul_error_clear();
    assert_int_equal(ended[1] + ended[2], 0);
    haul_scope_pop(scope);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ended[i], 1);
    assert_int_equal(ended[3], 0);
}

static haul_status step_at_once(haul_tensor *p, void *context)
{
    haul_status status = haul_optimizer_step(context);
    return status ? status : haul_set_grad(p, HAUL_NONE);
}

static void test_hooks__step_within_the_pass(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    haul_tensor      *p = leaf(1, 2, 3);
    haul_named_tensor list[] = {{"p", p, false}};
    haul_optimizer   *sgd = haul_sgd(NULL, 0.5, .parameters = list, .count = 1);
    haul_tensor_add_hook(p, .accumulated = step_at_once, .context = sgd);
    assert_int_equal(haul_backward(haul_sum(haul_mul(p, p)), .once = true), HAUL_OK);
    assert_values(p, 0, 0, 0);
    assert_true(haul_tensor_grad(p) == HAUL_NONE);
    haul_scope_pop(scope);
}

/* ---- errors ---- */

static haul_tensor *refuse(haul_tensor *g, void *context)
{
    (void)g;
    return context ? NULL : haul_tensor_fail(HAUL_INTERRUPTED, "my_hook", NULL, "no more");
}

static haul_tensor *other_shape(haul_tensor *g, void *context)
{
    (void)context;
    return haul_sum(g);
}

static haul_status fail_late(haul_tensor *p, void *context)
{
    (void)p;
    (void)context;
    return HAUL_INTERRUPTED;
}

static void test_hooks__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = leaf(1, 2, 3), *h = haul_mul_scalar(x, 2);
    int64_t      id = haul_tensor_add_hook(h, .gradient = refuse);
    assert_fails(haul_backward(haul_sum(h), .keep = true), HAUL_INTERRUPTED, "my_hook: no more");
    assert_true(haul_tensor_grad(x) == HAUL_NONE);
    haul_tensor_remove_hook(h, id);
    id = haul_tensor_add_hook(h, .gradient = refuse, .context = &id);
    assert_fails(haul_backward(haul_sum(h), .keep = true), HAUL_STATE, "returned NULL");
    haul_tensor_remove_hook(h, id);
    id = haul_tensor_add_hook(h, .gradient = other_shape);
    assert_fails(haul_backward(haul_sum(h), .keep = true), HAUL_SHAPE, "got the gradient f64[3]");
    haul_tensor_remove_hook(h, id);
    haul_tensor_add_hook(x, .accumulated = fail_late);
    assert_fails(haul_backward(haul_sum(h)), HAUL_INTERRUPTED, "recorded no error");
    assert_values(haul_tensor_grad(x), 2, 2, 2);

    haul_tensor *plain = haul_ones(HAUL_F32, HAUL_SHAPE(3));
    assert_fails(haul_tensor_add_hook(plain, .gradient = twice) ? HAUL_OK : haul_error_status(), HAUL_GRAPH,
                 "requires no gradient");
    assert_fails(haul_tensor_add_hook(h, .accumulated = fail_late) ? HAUL_OK : haul_error_status(), HAUL_GRAPH,
                 "only leaves keep gradients");
    assert_fails(haul_tensor_add_hook(h) ? HAUL_OK : haul_error_status(), HAUL_INVALID_ARGUMENT, "give .gradient");
    assert_fails(haul_tensor_remove_hook(h, 99), HAUL_INVALID_ARGUMENT, "no hook 99");
    haul_scope_pop(scope);
}

/* ---- recorded steps ---- */

static haul_status step(void *context)
{
    haul_tensor *x = context;
    haul_set_grad(x, HAUL_NONE);
    return haul_backward(haul_sum(haul_mul(x, x)));
}

static haul_status step_that_adds(void *context)
{
    haul_tensor *x = context, *h = haul_mul(x, x);
    haul_set_grad(x, HAUL_NONE);
    return haul_tensor_add_hook(h, .gradient = twice) ? haul_backward(haul_sum(h)) : haul_error_status();
}

static void test_hooks__recorded_steps_run_as_they_are(void **state)
{
    (void)state;
    haul_scope           *scope = haul_scope_push();
    haul_tensor          *x = leaf(1, 2, 3);
    haul_recording       *r = haul_recording_new(step, x), *other = haul_recording_new(step_that_adds, x);
    haul_recording_report report;
    for (int i = 0; i < 4; i++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_true(report.followed > 0);
    const int64_t id = haul_tensor_add_hook(x, .gradient = twice);
    for (int i = 0; i < 4; i++) {
        calls = 0;
        assert_int_equal(haul_recording_run(r), HAUL_OK);
        assert_true(calls >= 1); /* also when the step is recorded anew */
        assert_values(haul_tensor_grad(x), 4, 8, 12);
    }
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_non_null(strstr(report.reason, "hook"));
    haul_tensor_remove_hook(x, id);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(haul_recording_run(other), HAUL_OK);
        assert_values(haul_tensor_grad(x), 4, 8, 12);
    }
    assert_int_equal(haul_recording_report_get(other, &report), HAUL_OK);
    assert_int_equal(report.followed, 0);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hooks__give_the_gradients_of_pytorch),
        cmocka_unit_test(test_hooks__second_order),
        cmocka_unit_test(test_hooks__are_called_once_and_can_be_removed),
        cmocka_unit_test(test_hooks__may_remove_themselves),
        cmocka_unit_test(test_hooks__contexts_end),
        cmocka_unit_test(test_hooks__step_within_the_pass),
        cmocka_unit_test(test_hooks__errors),
        cmocka_unit_test(test_hooks__recorded_steps_run_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
