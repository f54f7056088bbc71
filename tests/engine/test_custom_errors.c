/* Operations of a program's own that cannot work: descriptors, functions and results that are wrong are errors that
 * name the operation, on every device, and nothing is registered or changed by them.
 *
 * ctest: cuda */
#include "base/alloc.h"
#include "support/failure.h"
#include "support/into.h"

/* behind the library's headers: its words are macros */
#include "support/custom_ops.h"

static haul_status plain_compose(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    (void)c;
    y[0] = haul_exp(x[0]);
    return HAUL_OK;
}

/* ---- descriptors ---- */

#define GOOD .name = "test_bad", .operands = {{"x"}}, .results = {{"y"}}

/* Refused by registration and by a call, and not listed. */
static void refused(haul_custom_operation *d, const char *words)
{
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2)), *y[3];
    int          count = haul_operation_count();
    haul_error_clear();
    assert_refused(haul_apply(d, &(int[64]){0}, x), HAUL_INVALID_ARGUMENT, words);
    haul_error_clear();
    assert_int_equal(haul_custom_register(d), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), words));
    assert_int_equal(haul_apply_all(d, &(int[64]){0}, &x, 1, y), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_apply_into(x, d, &(int[64]){0}, x), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_operation_count(), count);
    haul_error_clear();
}

#define REFUSED(words, ...) refused(&(haul_custom_operation){__VA_ARGS__}, words)

static haul_status plain_host(const haul_custom_call *c)
{
    (void)c;
    return HAUL_OK;
}

static haul_status plain_launch(const haul_custom_call *c, haul_kernel_launch *l)
{
    (void)c;
    l->items = 1;
    return HAUL_OK;
}

static void test_custom_errors__descriptors(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    haul_kernel broken = swish_kernel, integers = swish_kernel, read_only = swish_kernel;
    haul_kernel untyped = swish_kernel, unnamed = swish_kernel, long_name = swish_kernel;
    untyped.buffers[0].type = NULL;
    unnamed.buffers[1].name = NULL;
    broken.bf16 = NULL;
    integers.buffers[1].type = "const widget";
    read_only.buffers[0].type = "const T";
    REFUSED("haul_custom_register: the descriptor has no name", .compose = plain_compose);
    REFUSED("\"no name\" is not a valid name", .name = "no name", .compose = plain_compose);
    REFUSED("\"\" is not a valid name", .name = "", .compose = plain_compose);
    REFUSED("is not a valid name", .name = "a_name_that_is_longer_than_the_forty_letters_it_may_have");
    REFUSED("the name haul_mine begins with haul_", .name = "haul_mine", .compose = plain_compose);
    REFUSED("test_bad: the descriptor does not say how to compute it", GOOD);
    REFUSED("test_bad: the descriptor has compose and host", GOOD, .compose = plain_compose, .host = plain_host);
    REFUSED("test_bad: the descriptor has compose and kernel", GOOD, .compose = plain_compose, .kernel = &swish_kernel);
    REFUSED("test_bad: the descriptor has no operand", .name = "test_bad", .results = {{"y"}},
            .compose = plain_compose);
    REFUSED("test_bad: the descriptor has no operand", .name = "test_bad", .operands = {{"x", .optional = true}},
            .results = {{"y"}}, .compose = plain_compose);
    REFUSED("test_bad: the descriptor has no result", .name = "test_bad", .operands = {{"x"}},
            .compose = plain_compose);
    REFUSED("test_bad: operand 1 has no name, and operand 2 has one", .name = "test_bad",
            .operands = {{"x"}, {NULL}, {"z"}}, .results = {{"y"}}, .compose = plain_compose);
    REFUSED("test_bad: result \"z\" comes behind one without a name", .name = "test_bad", .operands = {{"x"}},
            .results = {{"y"}, {NULL}, {"z"}}, .compose = plain_compose);
    REFUSED("test_bad: x has .dtypes with bits", .name = "test_bad", .operands = {{"x", .dtypes = 1u << 30}},
            .results = {{"y"}}, .compose = plain_compose);
    REFUSED("test_bad: .dtypes has bits", GOOD, .compose = plain_compose, .dtypes = 1);
    REFUSED("test_bad: 9 is not a rule for dtypes", GOOD, .compose = plain_compose, .rule = (haul_custom_rule)9);
    REFUSED("test_bad: -1 is not a rule for autocast", GOOD, .compose = plain_compose,
            .autocast = (haul_custom_autocast)-1);
    REFUSED("test_bad: the attributes take 300 bytes", GOOD, .compose = plain_compose, .attributes_size = 300);
    REFUSED("test_bad: the descriptor has a function launch and no kernel", GOOD, .host = plain_host,
            .launch = plain_launch);
    REFUSED("test_bad: the attributes, of 8 bytes, cannot begin with 2 numbers", GOOD, .kernel = &swish_kernel,
            .attributes_size = 8, .numbers = 2);
    REFUSED("test_bad: the attributes, of 8 bytes, cannot begin with 1 numbers", GOOD, .host = plain_host,
            .attributes_size = 8, .numbers = 1);
    REFUSED("cannot begin with -1 numbers", GOOD, .kernel = &swish_kernel, .numbers = -1);
    REFUSED("cannot begin with 9 numbers", GOOD, .kernel = &swish_kernel, .numbers = 9);
    REFUSED("test_bad: kernel rms_kernel has 3 buffers, but the operation has 1 results and 1 operands", GOOD,
            .kernel = &rms_kernel);
    REFUSED("test_bad: the kernel is not whole", GOOD, .kernel = &(haul_kernel){.name = "empty"});
    REFUSED("test_bad: the kernel is not whole", GOOD, .kernel = &broken);
    long_name.name = "a_kernel_whose_name_has_one_letter_more_than_kernels_have";
    REFUSED("the name of kernel a_kernel_whose_name_... has 57 letters; it has at most 56", GOOD, .kernel = &long_name);
    REFUSED("test_bad: buffer 0 of kernel swish_kernel has no type", GOOD, .kernel = &untyped);
    REFUSED("test_bad: buffer 1 of kernel swish_kernel has no name", GOOD, .kernel = &unnamed);
    REFUSED("has the type const widget", GOOD, .kernel = &integers);
    REFUSED("is the result y and cannot be const", GOOD, .kernel = &read_only);
    REFUSED("test_bad: a kernel computes in floating dtypes", GOOD, .kernel = &swish_kernel,
            .dtypes = HAUL_INTEGER_DTYPES);
    haul_scope_pop(scope);
}

static void test_custom_errors__names_are_for_one_descriptor(void **state)
{
    (void)state;
    static haul_custom_operation first, second;
    haul_scope                  *scope = haul_scope_push();
    first = second = (haul_custom_operation){GOOD, .compose = plain_compose};
    first.name = second.name = "test_twice";
    assert_int_equal(haul_custom_register(&first), HAUL_OK);
    assert_int_equal(haul_custom_register(&second), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "test_twice: another operation of this name is registered"));
    second = first; /* with what registration left in it */
    assert_int_equal(haul_custom_register(&second), HAUL_INVALID_ARGUMENT);
    first.haul__registered = NULL;
    assert_int_equal(haul_custom_register(&first), HAUL_OK);
    assert_int_equal(haul_custom_register(NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_refused(haul_apply(NULL, NULL, HAUL_NONE), HAUL_INVALID_ARGUMENT, "haul_apply_list: operation");
    haul_error_clear();
    haul_scope_pop(scope);
}

/* ---- calls ---- */

static void test_custom_errors__calls(void **state)
{
    (void)state;
    haul_scope    *scope = haul_scope_push();
    haul_tensor   *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), *made[HAUL_CUSTOM_RESULTS];
    rms_attributes a = {1};
    assert_refused(haul_apply(&rms, NULL, x), HAUL_INVALID_ARGUMENT, "test_rms: attributes are NULL; 8 bytes");
    assert_valid(haul_apply(&rms, &a, x));
    assert_refused(haul_apply(&rms, &a, x, x, x), HAUL_INVALID_ARGUMENT,
                   "test_rms: 3 operands are given; x, weight are expected");
    assert_refused(haul_apply_list(&rms, &a, &x, 0), HAUL_INVALID_ARGUMENT, "test_rms: 0 operands are given");
    assert_refused(haul_apply_list(&rms, &a, NULL, 1), HAUL_INVALID_ARGUMENT, "test_rms: 0 operands are given");
    assert_refused(haul_apply_list(&rms, &a, &x, -1), HAUL_INVALID_ARGUMENT, "test_rms: -1 operands are given");
    assert_refused(haul_apply(&rms, &a, HAUL_NONE), HAUL_INVALID_ARGUMENT, "test_rms: x is HAUL_NONE");
    haul_error_clear();
    assert_refused(haul_apply(&rms, &a, NULL), HAUL_INVALID_ARGUMENT, "test_rms: x is NULL");
    assert_int_equal(haul_apply_all(&rms, &a, &x, 1, NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    haul_tensor *failed = haul_reshape(x, HAUL_SHAPE(4));
    assert_refused(haul_apply(&rms, &a, failed), HAUL_SHAPE, "haul_reshape");
    assert_int_equal(haul_apply_all(&rms, &a, &failed, 1, made), HAUL_SHAPE);
    assert_failed(made[0]);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* ---- functions ---- */

/* What the function under test does wrong. */
static int mistake;

static haul_status bad_infer(haul_custom_call *c)
{
    c->results[0].dtype = HAUL_F32;
    c->results[0].shape = c->operands[0].shape;
    switch (mistake) {
    case 0: c->results[0].dtype = HAUL_DTYPE_NONE; break;
    case 1: c->results[0].dtype = (haul_dtype)77; break;
    case 2: c->results[0].shape.ndim = 9; break;
    case 3: c->results[0].shape.ndim = -1; break;
    case 4: c->results[0].shape.dims[0] = -5; break;
    case 5: c->results[0].shape = HAUL_SHAPE(1ll << 40, 1ll << 40); break;
    case 6: return HAUL_STATE;
    case 7: return (haul_status)-3;
    case 8: return haul_error_set(HAUL_IO, c->name, "x", "the moon is full");
    case 9: c->results[0].dtype = HAUL_I32; break;
    default: break;
    }
    return HAUL_OK;
}

static haul_status bad_launch(const haul_custom_call *c, haul_kernel_launch *l)
{
    if (mistake == 10)
        l->items = -1;
    return mistake == 11 ? haul_error_set(HAUL_IO, c->name, NULL, "no launch today") : HAUL_OK;
}

static void functions(haul_device *device)
{
    static haul_custom_operation bad = {.name = "test_functions",
                                        .operands = {{"x"}},
                                        .results = {{"y"}},
                                        .infer = bad_infer,
                                        .kernel = &swish_kernel,
                                        .launch = bad_launch};
    static const struct {
        haul_status status;
        const char *words;
    } wanted[] = {
        {HAUL_DTYPE, "test_functions: infer did not set the dtype of y"},
        {HAUL_DTYPE, "test_functions: infer did not set the dtype of y (it is 77)"},
        {HAUL_SHAPE, "test_functions: infer gives y 9 dimensions"},
        {HAUL_SHAPE, "test_functions: infer gives y -1 dimensions"},
        {HAUL_SHAPE, "test_functions: infer gives dimension 0 of y the size -5"},
        {HAUL_SHAPE, "test_functions: "},
        {HAUL_INVALID_ARGUMENT, "test_functions: infer returned 10 but recorded no error"},
        {HAUL_INVALID_ARGUMENT, "test_functions: infer returned -3"},
        {HAUL_IO, "test_functions: the moon is full"},
        {HAUL_DTYPE, "test_functions: kernel swish_kernel would compute in i32"},
        {HAUL_INVALID_ARGUMENT, "test_functions: launch asks for -1 work items"},
        {HAUL_IO, "test_functions: no launch today"},
    };
    haul_tensor *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(3)), device);
    for (mistake = 0; mistake < 12; mistake++) {
        haul_error_clear();
        assert_refused(haul_apply(&bad, NULL, x), wanted[mistake].status, wanted[mistake].words);
        haul_error_set(HAUL_FORMAT, "earlier", NULL, "an earlier error");
        assert_refused(haul_apply(&bad, NULL, x), wanted[mistake].status, wanted[mistake].words);
    }
    /* Success leaves an earlier error alone. */
    haul_error_set(HAUL_FORMAT, "earlier", NULL, "an earlier error");
    assert_valid(haul_apply(&bad, NULL, x));
    assert_string_equal(haul_error_message(), "earlier: an earlier error");
    haul_error_clear();
}

static void test_custom_errors__functions(void **state)
{
    (void)state;
    on_devices(functions);
}

static haul_status bad_compose(const haul_custom_call *c, haul_tensor *const *x, haul_tensor **y)
{
    static int not_a_tensor[64];
    switch (mistake) {
    case 0: return HAUL_OK;
    case 1: y[0] = HAUL_NONE; break;
    case 2: y[0] = haul_reshape(x[0], HAUL_SHAPE(77)); break;
    case 3: y[0] = haul_cast(x[0], HAUL_F64); break;
    case 4: y[0] = haul_unsqueeze(x[0], 0); break;
    case 5: y[0] = (haul_tensor *)(void *)not_a_tensor; break;
    case 6: return HAUL_BACKEND;
    default: y[0] = haul_exp(x[0]);
    }
    (void)c;
    return HAUL_OK;
}

static haul_status like_x(haul_custom_call *c)
{
    c->results[0].dtype = c->operands[0].dtype;
    c->results[0].shape = c->operands[0].shape;
    return HAUL_OK;
}

static void test_custom_errors__compositions(void **state)
{
    (void)state;
    static haul_custom_operation bad = {
        .name = "test_composition", .operands = {{"x"}}, .results = {{"y"}}, .infer = like_x, .compose = bad_compose};
    static const char *const wanted[] = {
        "test_composition: compose did not set a tensor for y",
        "test_composition: compose did not set a tensor for y",
        "haul_reshape: ",
        "test_composition: compose gives y as f64[3], but infer describes it as f32[3]",
        "test_composition: compose gives y as f32[1,3], but infer describes it as f32[3]",
        "test_composition: y",
        "test_composition: compose returned 12"};
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(3));
    for (mistake = 0; mistake < 7; mistake++) {
        haul_tensor *y = haul_apply(&bad, NULL, x);
        assert_refused(y, haul_error_status(), wanted[mistake]);
    }
    assert_valid(haul_apply(&bad, NULL, x));
    haul_scope_pop(scope);
}

/* ---- gradients ---- */

static void bad_gradient(haul_custom_gradient *g)
{
    static int   not_a_tensor[64];
    haul_tensor *dy = g->results[0];
    switch (mistake) {
    case 0: g->operands[0] = NULL; break;
    case 1: g->operands[0] = haul_sum(dy); break;
    case 2: g->operands[0] = haul_reshape(dy, HAUL_SHAPE(77)); break;
    case 3: g->operands[0] = haul_cast(dy, HAUL_I32); break;
    case 4: g->operands[0] = (haul_tensor *)(void *)not_a_tensor; break;
    case 5: g->operands[0] = haul_mul(dy, g->saved[0]); break; /* which is not saved */
    case 6: g->operands[0] = HAUL_NONE; break;
    default: g->operands[0] = dy;
    }
}

static void gradients(haul_device *device)
{
    static haul_custom_operation bad = {.name = "test_gradient",
                                        .operands = {{"x"}},
                                        .results = {{"y"}},
                                        .kernel = &swish_kernel,
                                        .gradient = bad_gradient};
    static const char *const     wanted[] = {"test_gradient: gradient set NULL for x",
                                             "test_gradient: the gradient of x has shape [], but x has shape [3]",
                                             "haul_reshape: ",
                                             "test_gradient: the gradient of x is i32",
                                             "test_gradient: x",
                                             "haul_mul: "};
    haul_tensor                 *x = haul_set_requires_grad(haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(3)), device), true);
    haul_tensor                 *y = haul_sum(haul_apply(&bad, NULL, x));
    for (mistake = 0; mistake < 6; mistake++) {
        haul_error_clear();
        assert_true(haul_backward(y, .keep = true) != HAUL_OK);
        if (!strstr(haul_error_message(), wanted[mistake]))
            fail_msg("%d: %s", mistake, haul_error_message());
        assert_ptr_equal(haul_tensor_grad(x), HAUL_NONE);
    }
    haul_error_clear();
    assert_int_equal(haul_backward(y, .keep = true), HAUL_OK); /* zero */
    mistake = 7;
    assert_int_equal(haul_backward(y), HAUL_OK);
    assert_close(haul_tensor_grad(x), (double[]){1, 1, 1}, 3, 0, "the gradient");
}

static void test_custom_errors__gradients(void **state)
{
    (void)state;
    on_devices(gradients);
}

/* Gradients would stop without a message. */
static void test_custom_errors__an_operation_without_a_gradient_says_so(void **state)
{
    (void)state;
    static haul_custom_operation none = {
        .name = "test_no_gradient", .operands = {{"x"}}, .results = {{"y"}}, .kernel = &swish_kernel};
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3)), true);
    assert_refused(haul_apply(&none, NULL, x), HAUL_GRAPH,
                   "test_no_gradient: x requires a gradient, but the operation has no gradient function");
    haul_error_clear();
    assert_valid(haul_apply(&none, NULL, haul_detach(x)));
    haul_set_grad_enabled(false);
    assert_valid(haul_apply(&none, NULL, x));
    haul_set_grad_enabled(true);
    haul_scope_pop(scope);
}

/* ---- kernels ---- */

/* The program's compiler knows this name, the others do not. */
static inline double only_here(double x)
{
    return x;
}

// clang-format off
HAUL_KERNEL2(stray_kernel, T, y, const T, x, { FOR_ITEMS(i) STORE(y, i, (A)only_here((double)LOAD(x, i))); });
// clang-format on

static void strays(haul_device *device)
{
    static haul_custom_operation stray = {
        .name = "test_stray", .operands = {{"x"}}, .results = {{"y"}}, .kernel = &stray_kernel};
    haul_tensor *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(3)), device), *y = haul_apply(&stray, NULL, x);
    if (device == haul_cpu()) {
        assert_valid(y);
        return;
    }
    assert_int_equal(haul_error_status(), HAUL_BACKEND);
    /* the stand-in's compiler does not know where lines come from */
    bool placed =
        strncmp(haul_device_name(device), "cuda", 4) == 0 || strstr(haul_error_message(), "test_custom_errors.c:");
    if (!strstr(haul_error_message(), "kernel stray_kernel does not compile: ") || !placed ||
        !strstr(haul_error_message(), "only_here"))
        fail_msg("%s", haul_error_message());
    haul_error_clear();
    assert_valid(test_swish(x, 1));
    assert_valid(haul_exp(x));
}

static void test_custom_errors__a_kernel_that_does_not_compile_there(void **state)
{
    (void)state;
    on_devices(strays);
}

/* The kernel would read past its buffer. */
static haul_status halved(haul_custom_call *c)
{
    c->results[0].dtype = HAUL_F16;
    c->results[0].shape = c->operands[0].shape;
    return HAUL_OK;
}

static void test_custom_errors__buffers_have_the_types_of_the_kernel(void **state)
{
    (void)state;
    static haul_custom_operation wrong = {
        .name = "test_types", .operands = {{"x"}}, .results = {{"y"}}, .infer = halved, .kernel = &swish_kernel};
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(3));
    assert_refused(haul_apply(&wrong, NULL, x), HAUL_DTYPE,
                   "test_types: x is f32, but kernel swish_kernel takes it as const T, which is f16 here");
    haul_error_clear();
    assert_valid(haul_apply(&wrong, NULL, haul_cast(x, HAUL_F16)));
    haul_scope_pop(scope);
}

/* ---- memory ---- */

static void test_custom_errors__registration_without_memory_changes_nothing(void **state)
{
    (void)state;
    static haul_custom_operation late;
    int64_t                      failures = 0, blocks = haul__host_blocks();
    int                          count = haul_operation_count();
    haul_status                  status;
    late = rms;
    late.name = "test_late";
    do {
        assert_int_equal(haul__host_blocks(), blocks);
        assert_int_equal(haul_operation_count(), count);
        haul_error_clear();
        haul__fault_plan(HAUL__FAULT_HOST, ++failures);
        status = haul_custom_register(&late);
        haul__fault_plan(0, 0);
        assert_true(status == HAUL_OK || status == HAUL_OUT_OF_MEMORY);
    } while (status);
    assert_true(failures > 10);
    assert_int_equal(haul_operation_count(), count + 1);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_custom_errors__descriptors),
        cmocka_unit_test(test_custom_errors__names_are_for_one_descriptor),
        cmocka_unit_test(test_custom_errors__calls),
        cmocka_unit_test(test_custom_errors__functions),
        cmocka_unit_test(test_custom_errors__compositions),
        cmocka_unit_test(test_custom_errors__gradients),
        cmocka_unit_test(test_custom_errors__an_operation_without_a_gradient_says_so),
        cmocka_unit_test(test_custom_errors__a_kernel_that_does_not_compile_there),
        cmocka_unit_test(test_custom_errors__registration_without_memory_changes_nothing),
        cmocka_unit_test(test_custom_errors__buffers_have_the_types_of_the_kernel),
    };
    return cmocka_run_group_tests_name("custom_errors", tests, NULL, NULL);
}
