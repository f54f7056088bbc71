/* Modules of several inputs and results, their modes, hooks and replacing.
 *
 * ctest: cuda */
#include <stdio.h>

#include "base/alloc.h"
#include "support/conformance/conformance.h"
#include "support/modules.h"

/* y = x + mask (if given), state = x - mask (or x). */
static haul_tensor *pair_forward(haul_module *self, haul_args *args)
{
    haul_tensor *x = args->x[0], *mask = args->x[1];
    (void)self;
    args->y[1] = mask == HAUL_NONE ? x : haul_sub(x, mask);
    return mask == HAUL_NONE ? x : haul_add(x, mask);
}

static haul_module *new_pair(void)
{
    return haul_module_new("pair", pair_forward, .inputs = "x, mask?", .results = "y, state");
}

/* ---- several tensors ---- */

static void test_modules__take_and_return_several_tensors(void **state)
{
    haul_tensor *rest = NULL;
    (void)state;
    haul_module *m = new_pair();
    assert_vector(haul_call(m, vector(1, 2)), 1, 2);
    assert_vector(haul_call(m, vector(1, 2), vector(3, 5), .more = {&rest}), 4, 7);
    assert_vector(rest, -2, -3);
    assert_vector(haul_call(m, vector(1, 2), HAUL_NONE, .more = {&rest}), 1, 2);
    assert_vector(rest, 1, 2);
    /* A result may be carried on as the next input of the same name. */
    for (int i = 0; i < 3; i++)
        assert_valid(haul_call(m, vector(1, 1), rest, .more = {&rest}));
    assert_vector(rest, 0, -1);
}

static void test_modules__results_belong_to_the_callers_scope(void **state)
{
    haul_tensor *rest = NULL, *x = vector(1, 2);
    (void)state;
    haul_module *m = new_pair();
    haul_scope  *inner = haul_scope_push();
    haul_tensor *y = haul_call(m, x, x, .more = {&rest});
    assert_int_equal(haul_drop(rest), HAUL_OK); /* owned by a scope of this thread */
    y = haul_scope_return(inner, y);
    assert_vector(y, 2, 4);
    inner = haul_scope_push();
    y = haul_call(m, x, .more = {&rest}); /* both are x itself: two handles */
    assert_ptr_not_equal(y, rest);
    assert_ptr_not_equal(y, x);
    haul_scope_pop(inner);
    assert_vector(x, 1, 2);
}

static void test_modules__wrong_calls_name_the_input(void **state)
{
    haul_tensor *a = NULL, *b = NULL, *x = vector(1, 2);
    haul_module *m = new_pair(),
                *two = haul_module_new("two", pair_forward, .inputs = "left, right", .results = "y, z");
    (void)state;
    assert_failed(haul_call(m, x, x, x));
    assert_error(HAUL_INVALID_ARGUMENT, "3 inputs were given", "the pair takes: x, mask?");
    assert_failed(haul_call(two, x));
    assert_error(HAUL_INVALID_ARGUMENT, "the two needs the input 'right'; it takes: left, right");
    assert_failed(haul_call(two, HAUL_NONE, x));
    assert_error(HAUL_INVALID_ARGUMENT, "left is HAUL_NONE, but the two needs it");
    assert_failed(haul_call(m, x, NULL, x));
    assert_error(HAUL_INVALID_ARGUMENT, "mask");
    assert_failed(haul_call(m, NULL));
    assert_error(HAUL_INVALID_ARGUMENT, "x is NULL");
    assert_failed(haul_call(m, x, .more = {&a, &b}));
    assert_error(HAUL_INVALID_ARGUMENT, "3 results are asked for; the pair has 2");
    assert_false(haul_tensor_is_valid(a)); /* the request has failed, too */
    assert_false(haul_tensor_is_valid(b));
    haul_error_clear();
    assert_failed(haul_call(haul_nn_relu(), x, x));
    assert_error(HAUL_INVALID_ARGUMENT, "2 inputs were given; the relu takes: x");
    assert_failed(haul_call(m, x, .mode = (haul_mode)7));
    assert_error(HAUL_INVALID_ARGUMENT, "7 is not a mode");
    assert_failed(haul_call(haul_module_new("short", pair_forward), x));
    assert_error(HAUL_STATE, "set result 1, but it was made with 1: name all in .results");
    a = NULL;
    assert_failed(haul_call(two, x, haul_zeros(HAUL_F32, HAUL_SHAPE(3)), .more = {&a}));
    assert_false(haul_tensor_is_valid(a));
    haul_error_clear();
}

static void test_modules__names_of_arguments_are_checked(void **state)
{
    static const char *const wrong[][2] = {
        {"", "empty"},
        {"x,,y", "empty"},
        {"x, y..., z", "go on after"},
        {"x?, y", "needed after one that may be left out"},
        {"x y", "not separated by commas"},
        {"a,b,c,d,e,f,g,h,i", "more than HAUL_MAX_ARGUMENTS"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(haul_module_new("m", pair_forward, .inputs = wrong[i][0]));
        assert_error(HAUL_INVALID_ARGUMENT, "haul_module_new", wrong[i][1]);
    }
}

static haul_tensor *sum_forward(haul_module *self, haul_args *args)
{
    haul_tensor *y = args->x[0];
    (void)self;
    for (int i = 1; i < args->count; i++)
        y = haul_add(y, args->x[i]);
    return y;
}

static void test_modules__an_input_with_dots_is_any_number(void **state)
{
    haul_module *m = haul_module_new("sum", sum_forward, .inputs = "x, more...");
    haul_tensor *x = vector(1, 2);
    (void)state;
    assert_vector(haul_call(m, x), 1, 2);
    assert_vector(haul_call(m, x, x, x, x, x, x, x, x), 8, 16);
}

/* ---- traces and placement ---- */

static void watch(const haul_call_event *event, void *context)
{
    char  *text = context;
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, 300 - used, "%s(", event->path);
    const haul_call_values *values = event->done ? event->y : event->x;
    for (int i = 0; i < values->count; i++)
        used += (size_t)snprintf(text + used, 300 - used, "%s%s", values->names[i],
                                 values->tensors[i] == HAUL_NONE ? "- " : " ");
    snprintf(text + used, 300 - used, ")%s", event->done ? "; " : " -> ");
}

static haul_tensor *outer_forward(haul_module *self, haul_args *args)
{
    haul_tensor *rest = NULL;
    haul_tensor *y = haul_call_child(self, "inner", args->x[0], args->x[0], .more = {&rest});
    /* Called by itself, it has its name, too. */
    return haul_call(haul_module_child(self, "act"), haul_add(y, rest));
}

static haul_module *new_outer(void)
{
    haul_module *m = haul_module_new("outer", outer_forward);
    assert_int_equal(haul_module_add(m, "inner", new_pair()), HAUL_OK);
    assert_int_equal(haul_module_add(m, "act", haul_nn_relu()), HAUL_OK);
    return m;
}

static void test_modules__traces_name_every_argument(void **state)
{
    char text[300] = "";
    (void)state;
    haul_watch_calls(watch, text);
    assert_vector(haul_call(new_outer(), vector(-1, 2)), 0, 4);
    haul_watch_calls(NULL, NULL);
    assert_string_equal(text, "(x ) -> inner(x mask ) -> inner(y state ); act(x ) -> act(y ); (y ); ");
}

static void test_modules__every_input_is_moved_to_the_place(void **state)
{
    haul_device *devices[8];
    int          n = test_devices(devices, 8);
    (void)state;
    for (int i = 0; i < n; i++) {
        haul_tensor *rest = NULL;
        haul_module *m = new_pair();
        assert_int_equal(haul_module_place(m, devices[i]), HAUL_OK);
        haul_tensor *y = haul_call(m, vector(1, 2), vector(3, 5), .more = {&rest});
        assert_ptr_equal(haul_tensor_device(y), devices[i]);
        assert_ptr_equal(haul_tensor_device(rest), devices[i]);
        assert_vector(rest, -2, -3);
    }
}

/* ---- modes ---- */

static haul_tensor *mode_forward(haul_module *self, haul_args *args)
{
    haul_module_children(self, NULL, 0);
    return haul_add(haul_full_like(args->x[0], args->training ? 1 : 0), haul_zeros_like(args->x[0]));
}

static haul_tensor *mode_outer(haul_module *self, haul_args *args)
{
    return haul_add(haul_call_child(self, "a", args->x[0]), haul_call_child(self, "b", args->x[0], .mode = HAUL_TRAIN));
}

static void test_modules__a_call_has_a_mode_of_its_own(void **state)
{
    haul_module *m = haul_module_new("outer", mode_outer), *a = haul_module_new("a", mode_forward);
    haul_tensor *x = vector(0, 0);
    (void)state;
    assert_int_equal(haul_module_add(m, "a", a), HAUL_OK);
    assert_int_equal(haul_module_add(m, "b", haul_module_new("b", mode_forward)), HAUL_OK);
    assert_vector(haul_call(m, x), 2, 2);
    assert_vector(haul_call(m, x, .mode = HAUL_EVALUATE), 1, 1); /* b says itself what it is called in */
    assert_int_equal(haul_module_train(m, false), HAUL_OK);
    assert_vector(haul_call(a, x), 0, 0);
    assert_vector(haul_call(a, x, .mode = HAUL_TRAIN), 1, 1);
    assert_false(haul_module_is_training(a)); /* it was the mode of the call only */
    haul_module *dropout = haul_nn_dropout(1);
    assert_vector(haul_call(dropout, vector(1, 2)), 0, 0);
    assert_vector(haul_call(dropout, vector(1, 2), .mode = HAUL_EVALUATE), 1, 2);
}

static void test_modules__evaluation_leaves_running_statistics_alone(void **state)
{
    haul_module *m = HAUL_SEQUENTIAL(haul_nn_batch_norm(2));
    haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(8, 2), 3, 2);
    (void)state;
    assert_valid(haul_call(m, x, .mode = HAUL_EVALUATE));
    assert_vector(haul_module_buffer(m, "0.running_mean"), 0, 0);
    assert_valid(haul_call(m, x));
    assert_true(haul_item(haul_select(haul_module_buffer(m, "0.running_mean"), 0, 0)) > 0.1);
}

/* ---- hooks ---- */

static haul_status negate_input(haul_module *module, haul_args *args, void *context)
{
    (void)module;
    ++*(int *)context;
    args->x[0] = haul_neg(args->x[0]);
    return HAUL_OK;
}

static haul_status double_result(haul_module *module, haul_args *args, void *context)
{
    (void)module;
    (void)context;
    args->y[0] = haul_mul_scalar(args->y[0], 2);
    return HAUL_OK;
}

static haul_status refuse(haul_module *module, haul_args *args, void *context)
{
    (void)module;
    (void)args;
    (void)context;
    return HAUL_STATE;
}

static haul_status lose_result(haul_module *module, haul_args *args, void *context)
{
    (void)module;
    (void)context;
    args->y[0] = NULL;
    return HAUL_OK;
}

static void count_end(void *context)
{
    ++*(int *)context;
}

/* The context of a hook ends once: with the hook, or with the module. */
static void test_modules__hooks_end(void **state)
{
    (void)state;
    int          removed = 0, destroyed = 0, refused = 0;
    haul_scope  *inner = haul_scope_push();
    haul_module *relu = haul_nn_relu();
    int64_t      id = haul_module_add_hook(relu, .after = double_result, .context = &removed, .destroy = count_end);
    assert_true(haul_module_add_hook(relu, .after = double_result, .context = &destroyed, .destroy = count_end) > id);
    assert_int_equal(haul_module_add_hook(relu, .context = &refused, .destroy = count_end), 0);
    haul_error_clear();
    assert_int_equal(haul_module_remove_hook(relu, id), HAUL_OK);
    assert_int_equal(removed, 1);
    assert_non_null(haul_module_clone(relu)); /* without hooks */
    assert_int_equal(destroyed, 0);
    haul_scope_pop(inner);
    assert_true(removed == 1 && destroyed == 1 && refused == 0);
}

typedef struct once {
    int64_t id;
    int     calls, *added_calls;
} once;

static haul_status count_call(haul_module *m, haul_args *args, void *context)
{
    (void)m;
    (void)args;
    ++*(int *)context;
    return HAUL_OK;
}

/* Removes itself, and adds another. */
static haul_status replace_itself(haul_module *m, haul_args *args, void *context)
{
    once *o = context;
    (void)args;
    o->calls++;
    assert_true(haul_module_add_hook(m, .before = count_call, .after = count_call, .context = o->added_calls) > o->id);
    return haul_module_remove_hook(m, o->id);
}

static void test_modules__a_hook_removes_itself(void **state)
{
    int          second = 0, added = 0;
    once         first = {.added_calls = &added};
    haul_module *relu = haul_nn_relu();
    (void)state;
    first.id = haul_module_add_hook(relu, .before = replace_itself, .context = &first);
    assert_true(haul_module_add_hook(relu, .before = count_call, .context = &second) > first.id);
    assert_vector(haul_call(relu, vector(-1, 3)), 0, 3);
    assert_true(first.calls == 1 && second == 1 && added == 0);
    assert_vector(haul_call(relu, vector(-1, 3)), 0, 3);
    assert_true(first.calls == 1 && second == 2 && added == 2);
}

static void test_modules__hooks_run_before_and_after(void **state)
{
    int          calls = 0;
    haul_module *m = HAUL_SEQUENTIAL(haul_nn_relu()), *relu = haul_module_child(m, "0");
    (void)state;
    int64_t before = haul_module_add_hook(relu, .before = negate_input, .context = &calls);
    int64_t after = haul_module_add_hook(relu, .after = double_result);
    assert_true(before > 0 && after > before);
    assert_vector(haul_call(m, vector(-1, 3)), 2, 0);
    assert_int_equal(calls, 1);
    assert_int_equal(haul_module_remove_hook(relu, before), HAUL_OK);
    assert_vector(haul_call(m, vector(-1, 3)), 0, 6);
    assert_int_equal(haul_module_remove_hook(relu, before), HAUL_INVALID_ARGUMENT);
    assert_error(HAUL_INVALID_ARGUMENT, "the relu has no hook 1");
    assert_true(haul_module_add_hook(relu, .before = refuse) > 0);
    assert_failed(haul_call(m, vector(1, 1)));
    assert_error(HAUL_STATE, "a hook of the relu failed but recorded no error", "in layer '0'");
    haul_module *lost = haul_nn_relu();
    assert_true(haul_module_add_hook(lost, .after = lose_result) > 0);
    assert_failed(haul_call(lost, haul_ones(HAUL_F32, HAUL_SHAPE(2))));
    assert_error(HAUL_STATE, "a hook of the relu set the first result to NULL", "set a tensor");
    assert_int_equal(haul_module_add_hook(relu), 0);
    assert_error(HAUL_INVALID_ARGUMENT, "give .before, .after or both");
}

/* ---- children ---- */

static void test_modules__children_are_listed_and_replaced(void **state)
{
    haul_named_module found[4] = {{0}};
    haul_module      *m = HAUL_SEQUENTIAL(haul_nn_relu(), HAUL_SEQUENTIAL(haul_nn_tanh()));
    (void)state;
    assert_int_equal(haul_module_children(m, found, 1), 2);
    assert_null(found[1].name);
    assert_int_equal(haul_module_children(m, found, 4), 2);
    assert_string_equal(found[1].name, "1");
    assert_string_equal(haul_module_kind(found[0].module), "relu");
    assert_int_equal(haul_module_replace(m, "1.0", haul_nn_relu()), HAUL_OK);
    assert_vector(haul_call(m, vector(-1, 3)), 0, 3);
    assert_int_equal(haul_module_replace(m, "1.1", haul_nn_relu()), HAUL_INVALID_ARGUMENT);
    assert_error(HAUL_INVALID_ARGUMENT, "no child '1'; it has: 0");
    assert_int_equal(haul_module_replace(m, "1.0", m), HAUL_INVALID_ARGUMENT);
    assert_error(HAUL_INVALID_ARGUMENT, "contain itself");
    assert_int_equal(haul_module_replace(m, "", haul_nn_relu()), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

static void test_modules__containers_hold_by_number_and_by_name(void **state)
{
    haul_module *list = haul_nn_list((haul_module *const[]){haul_nn_relu(), haul_nn_linear(2, 3)}, 2);
    haul_module *dict = haul_nn_dict((const haul_named_module[]){{"up", haul_nn_relu()}, {"down", list}}, 2);
    (void)state;
    assert_int_equal(haul_module_parameter_count(dict), 9);
    assert_valid(haul_module_parameter(dict, "down.1.weight"));
    assert_vector(haul_call(haul_module_child(dict, "up"), vector(-1, 2)), 0, 2);
    assert_failed(haul_call(list, vector(1, 2)));
    assert_error(HAUL_STATE, "a list cannot be called; call its children");
    assert_null(haul_nn_dict((const haul_named_module[]){{"up", haul_nn_relu()}, {"up", haul_nn_relu()}}, 2));
    assert_error(HAUL_INVALID_ARGUMENT, "something named 'up' already");
    assert_null(haul_nn_list(NULL, 2));
    assert_error(HAUL_INVALID_ARGUMENT, "haul_nn_list");
}

static void test_modules__parameters_can_be_tied(void **state)
{
    haul_module *m = HAUL_SEQUENTIAL(haul_nn_linear(2, 2, .no_bias = true), haul_nn_linear(2, 2, .no_bias = true));
    haul_tensor *first = haul_module_parameter(m, "0.weight");
    (void)state;
    assert_int_equal(haul_module_replace_parameter(m, "1.weight", first), HAUL_OK);
    assert_ptr_equal(haul_module_parameter(m, "1.weight"), first);
    assert_int_equal(haul_module_parameter_count(m), 4);
    haul_optimizer *sgd = haul_sgd(m, 0.1);
    assert_int_equal(haul_backward(haul_sum(haul_call(m, vector(1, 2)))), HAUL_OK);
    assert_int_equal(haul_optimizer_step(sgd), HAUL_OK);
    haul_module *copy = haul_module_clone(m);
    assert_ptr_equal(haul_module_parameter(copy, "0.weight"), haul_module_parameter(copy, "1.weight"));
    assert_int_equal(haul_module_replace_parameter(m, "1.bias", first), HAUL_INVALID_ARGUMENT);
    assert_error(HAUL_INVALID_ARGUMENT, "no parameter 'bias'; it has: weight");
    assert_int_equal(haul_module_replace_parameter(m, "1.weight", haul_arange_i64(0, 4, 1)), HAUL_DTYPE);
    haul_error_clear();
}

static void test_modules__everything_survives_without_memory(void **state)
{
    (void)state;
    for (int64_t failing = 1;; failing++) {
        haul_scope *inner = haul_scope_push();
        assert_non_null(inner);
        haul__fault_plan(HAUL__FAULT_HOST, failing);
        haul_module *m = new_pair();
        haul_tensor *rest = NULL;
        haul_module *net = m ? HAUL_SEQUENTIAL(haul_nn_linear(2, 2), haul_nn_relu()) : NULL;
        bool         done = net && haul_module_add_hook(net, .after = double_result) && haul_module_clone(net) &&
                    haul_tensor_is_valid(haul_call(m, haul_module_parameter(net, "0.bias"), .more = {&rest}));
        haul__fault_plan(HAUL__FAULT_HOST, 0);
        haul_scope_pop(inner);
        if (done)
            break;
        assert_int_not_equal(haul_error_status(), HAUL_OK);
        haul_error_clear();
        assert_true(failing < 2000);
    }
}

/* ---- all modules of a module ---- */

typedef struct visits {
    char kinds[200];
    int  left; /* fails when it reaches 0 */
} visits;

static haul_status note(haul_module *m, void *context)
{
    visits *v = context;
    strncat(v->kinds, haul_module_kind(m), sizeof v->kinds - strlen(v->kinds) - 1);
    strncat(v->kinds, " ", sizeof v->kinds - strlen(v->kinds) - 1);
    if (!strcmp(haul_module_kind(m), "sequential"))
        (void)haul_module_replace(m, "0", haul_nn_identity()); /* the module that was there is still visited */
    return --v->left ? HAUL_OK : HAUL_INTERRUPTED;
}

static void test_modules__a_function_is_called_for_each(void **state)
{
    haul_module *net = HAUL_SEQUENTIAL(HAUL_SEQUENTIAL(haul_nn_relu(), haul_nn_tanh()), haul_nn_sigmoid());
    visits       all = {.left = 100}, some = {.left = 2};
    (void)state;
    assert_int_equal(haul_module_apply(net, note, &all), HAUL_OK);
    assert_string_equal(all.kinds, "sequential sequential relu tanh sigmoid ");
    assert_int_equal(haul_module_apply(net, note, &some), HAUL_INTERRUPTED);
    assert_string_equal(some.kinds, "sequential identity ");
    haul_error_clear();
    assert_int_not_equal(haul_module_apply(net, NULL, NULL), HAUL_OK);
    assert_int_not_equal(haul_module_apply(NULL, note, &all), HAUL_OK);
    haul_error_clear();
}

static void test_modules__identity_and_gradients_are_removed(void **state)
{
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(2, 2), haul_nn_identity());
    (void)state;
    haul_tensor *w = haul_module_parameter(net, "0.weight"), *b = haul_module_parameter(net, "0.bias");
    assert_int_equal(haul_backward(haul_sum(haul_call(net, vector(1, 2)))), HAUL_OK);
    assert_false(haul_tensor_grad(w) == HAUL_NONE);
    assert_int_equal(haul_module_zero_grad(net), HAUL_OK);
    assert_ptr_equal(haul_tensor_grad(w), HAUL_NONE);
    assert_ptr_equal(haul_tensor_grad(b), HAUL_NONE);
    assert_vector(haul_call(haul_nn_identity(), vector(3, 4)), 3, 4);
    assert_int_not_equal(haul_module_zero_grad(NULL), HAUL_OK);
    haul_error_clear();
}

static haul_tensor *forward_nothing(haul_module *m, haul_args *args)
{
    (void)m;
    return args->x[0];
}

/* Names are found among thousands, and each only once. */
static void test_modules__many_names(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    char         name[16];
    haul_module *m = haul_module_new("many", forward_nothing);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "p%d", i);
        assert_int_equal(haul_module_add_parameter(m, name, haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, i)), HAUL_OK);
    }
    for (int i = 0; i < MANY; i += 7) {
        snprintf(name, sizeof name, "p%d", i);
        assert_true(haul_item(haul_module_parameter(m, name)) == i);
        assert_int_equal(haul_module_add_buffer(m, name, haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, 0)),
                         HAUL_INVALID_ARGUMENT);
        haul_error_clear();
    }
    assert_false(haul_tensor_is_valid(haul_module_parameter(m, "p3000")));
    assert_non_null(strstr(haul_error_message(), "p3000"));
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(take_and_return_several_tensors),
        TEST(results_belong_to_the_callers_scope),
        TEST(wrong_calls_name_the_input),
        TEST(names_of_arguments_are_checked),
        TEST(an_input_with_dots_is_any_number),
        TEST(traces_name_every_argument),
        TEST(every_input_is_moved_to_the_place),
        TEST(a_call_has_a_mode_of_its_own),
        TEST(evaluation_leaves_running_statistics_alone),
        TEST(hooks_run_before_and_after),
        TEST(a_hook_removes_itself),
        TEST(hooks_end),
        TEST(children_are_listed_and_replaced),
        TEST(containers_hold_by_number_and_by_name),
        TEST(parameters_can_be_tied),
        TEST(everything_survives_without_memory),
        TEST(a_function_is_called_for_each),
        TEST(identity_and_gradients_are_removed),
        TEST(many_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
