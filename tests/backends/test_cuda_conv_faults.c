/* Convolutions of the cuda backend by cuDNN, on the stand-ins for the driver and the library, when something is wrong
 * or set otherwise: calls that fail, libraries that are missing or too old, choices that are timed and kept.
 *
 * ctest: wraps=haul__now_ns */
#include "support/devices/cudnn.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/system/clock.h"

/* ---- faults ---- */

/* A convolution of ones with a size that was not met before. */
static haul_tensor *fresh_convolution(int64_t *size)
{
    ++*size;
    return haul_conv2d(haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, *size, 1)), haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, 1, 1)),
                       .relu = true);
}

static bool is_two(haul_tensor *y)
{
    return haul_tensor_is_valid(y) && haul_item(haul_min(y)) == 2 && haul_item(haul_max(y)) == 2;
}

static void test_conv__faults_are_told(void **state)
{
    int64_t size = 200;
    (void)state;
    assert_true(dnn_fail("cudnnBackendExecute:1:5000"));
    assert_refused(fresh_convolution(&size), HAUL_BACKEND, "CUDNN_STATUS_EXECUTION_FAILED (error 5000): asked to fail");
    assert_true(is_two(fresh_convolution(&size)));
    assert_true(dnn_fail("cudnnBackendExecute:1:4000"));
    assert_refused(fresh_convolution(&size), HAUL_BACKEND, "HAUL_WITHOUT=cudnn");
    assert_true(dnn_fail(NULL));
}

/* Of memory: once more, after the cache was given back. */
static void test_conv__lack_of_memory_is_tried_again(void **state)
{
    int64_t size = 250;
    (void)state;
    assert_true(dnn_fail("cudnnBackendExecute:1:4004"));
    assert_true(is_two(fresh_convolution(&size)));
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_true(dnn_fail("cudnnBackendExecute:0:4003"));
    assert_refused(fresh_convolution(&size), HAUL_OUT_OF_MEMORY, "error 4003");
    assert_true(dnn_fail(NULL));
}

/* An engine that refuses after all, and each step of planning that fails: the kernels serve, and nothing is recorded.
 */
static void test_conv__what_cannot_be_planned_goes_to_the_kernels(void **state)
{
    static const char *const steps[] = {"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                                        "cudnnBackendGetAttribute", "cudnnBackendFinalize"};
    int64_t                  size = 300;
    (void)state;
    assert_true(dnn_fail("cudnnBackendExecute:0:3000"));
    assert_true(is_two(fresh_convolution(&size)));
    assert_true(dnn_fail(NULL));
    for (int f = 0; f < 4; f++) {
        char plan[64];
        snprintf(plan, sizeof plan, "%s:0:4000", steps[f]);
        assert_true(dnn_fail(plan));
        long         run = runs();
        haul_tensor *y = fresh_convolution(&size);
        assert_int_equal(runs(), run);
        assert_true(dnn_fail(NULL));
        assert_true(is_two(y));
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
}

/* The functions that are called for a convolution. */
static const char *const functions[] = {"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                                        "cudnnBackendGetAttribute", "cudnnBackendFinalize", "cudnnBackendExecute"};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* With the n-th call of a function failing. False when there were not as many calls. */
static bool fails_well(const char *function, long n, int64_t *size)
{
    char plan[64];
    long before = dnn_count(function);
    snprintf(plan, sizeof plan, "%s:%ld:4000", function, n);
    assert_true(dnn_fail(plan));
    haul_tensor *y = fresh_convolution(size);
    bool         reached = dnn_count(function) - before >= n;
    assert_true(dnn_fail(NULL));
    if (haul_tensor_is_valid(y))
        assert_true(is_two(y));
    else
        assert_int_equal(haul_error_status(), HAUL_BACKEND);
    haul_error_clear();
    return reached;
}

/* One step that fails: whatever serves then, the result is right, or an error says why there is none. */
static void test_conv__each_step_may_fail(void **state)
{
    int64_t size = 400;
    (void)state;
    for (int f = 0; f < FUNCTIONS; f++)
        for (long n = 1; fails_well(functions[f], n, &size); n++)
            assert_true(n < 400);
}

static void test_conv__each_host_allocation_may_fail(void **state)
{
    int64_t size = 2000;
    (void)state;
    assert_true(is_two(fresh_convolution(&size)));
    for (int64_t n = 1, failed = 1; failed; n++) {
        haul__fault_plan(HAUL__FAULT_HOST, n);
        haul_tensor *y = fresh_convolution(&size);
        failed = haul__fault_count() >= n;
        haul__fault_plan(0, 0);
        if (haul_tensor_is_valid(y))
            assert_true(is_two(y));
        else
            assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        assert_true(n < 200);
    }
}

/* ---- other libraries and settings: a process opens them once, so each case is a child ---- */

static const char *expected;

static void in_child(bool (*run)(void), const char *name, const char *value, const char *name2, const char *value2)
{
    int   status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv(name, value, 1);
        if (name2)
            setenv(name2, value2, 1);
        find_standin();
        haul_scope *scope = haul_scope_push();
        bool        good = scope && haul_set_device(gpu()) == HAUL_OK && run();
        if (!good)
            printf("with %s=%s: the last error: %s\n", name, value, haul_error_message());
        fflush(stdout);
        exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* With bias and relu: 2 + 1. */
static bool convolves(void)
{
    haul_tensor *y =
        haul_conv2d(haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, 3, 3)), haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, 1, 1)),
                    .bias = haul_ones(HAUL_F32, HAUL_SHAPE(1)), .relu = true);
    return haul_tensor_is_valid(y) && haul_item(haul_min(y)) == 3 && haul_item(haul_max(y)) == 3 &&
           haul_error_status() == HAUL_OK;
}

static bool says_what_there_is(void)
{
    haul_device_properties p;
    if (haul_device_describe(gpu(), &p))
        return false;
    printf("%s\n", p.libraries);
    return strstr(p.libraries, expected);
}

/* Halves too, which are laid channels-last for the library only. */
static bool kernels_serve(void)
{
    haul_tensor *y =
        haul_conv2d(haul_ones(HAUL_BF16, HAUL_SHAPE(1, 2, 3, 3)), haul_ones(HAUL_BF16, HAUL_SHAPE(2, 2, 2, 2)));
    return haul_tensor_is_valid(y) && haul_item(haul_min(y)) == 8 && convolves() && says_what_there_is() && runs() == 0;
}

static bool library_serves(void)
{
    return convolves() && says_what_there_is() && runs() == 1 && engine_runs(TILED) == 1;
}

static bool serves_one_by_one(void)
{
    return convolves() && runs() == 1 && engine_runs(TILED) == 1;
}

static void test_conv__other_libraries(void **state)
{
    (void)state;
    expected = "cuDNN 9.19.0";
    in_child(library_serves, "STANDIN_CUDNN", "", NULL, NULL);
    expected = "no cuDNN (HAUL_WITHOUT names it): own kernels serve";
    in_child(kernels_serve, "HAUL_WITHOUT", "cudnn", NULL, NULL);
    expected = "no cuDNN (version 8907 is too old): own kernels serve";
    in_child(kernels_serve, "STANDIN_CUDNN", "old", NULL, NULL);
    expected = "cuDNN 9.19.0 does not start (CUDNN_STATUS_NOT_INITIALIZED): own kernels serve";
    in_child(kernels_serve, "STANDIN_FAIL", "cudnnCreate:0:1001", NULL, NULL);
    expected = "cuDNN 9.19.0";
    in_child(kernels_serve, "STANDIN_CUDNN", "none", NULL, NULL);
    in_child(serves_one_by_one, "STANDIN_CUDNN", "unfused", NULL, NULL);
}

/* A folder with all of the stand-in's libraries but cuDNN, and `extra`, a link to `target` among them. */
static void make_folder(const char *folder, const char *extra, const char *target)
{
    DIR *all = opendir(STANDIN);
    assert_non_null(all);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (struct dirent *e; (e = readdir(all));) {
        char from[1024], to[1024];
        snprintf(from, sizeof from, "%s/%s", STANDIN, e->d_name);
        snprintf(to, sizeof to, "%s/%s", folder, e->d_name);
        if (strncmp(e->d_name, "lib", 3) == 0 && !strstr(e->d_name, "cudnn"))
            assert_int_equal(symlink(from, to), 0);
    }
    closedir(all);
    if (extra) {
        char from[1024], to[1024];
        snprintf(from, sizeof from, "%s/%s", STANDIN, target);
        snprintf(to, sizeof to, "%s/%s", folder, extra);
        assert_int_equal(symlink(from, to), 0);
    }
}

static void test_conv__library_is_missing(void **state)
{
    (void)state;
    make_folder("without", NULL, NULL);
    expected = "no cuDNN 9: own kernels serve";
    in_child(kernels_serve, "HAUL_CUDA_LIBRARIES", "without", NULL, NULL);
    make_folder("version-8", "libcudnn.so.8", "libcudnn.so.9");
    expected = "no cuDNN 9 (version 8 is too old): own kernels serve";
    in_child(kernels_serve, "HAUL_CUDA_LIBRARIES", "version-8", NULL, NULL);
    make_folder("another", "libcudnn.so.9", "libcublasLt.so.13");
    expected = "no cuDNN (the one found is too old: it has no cudnnCreate): own kernels serve";
    in_child(kernels_serve, "HAUL_CUDA_LIBRARIES", "another", NULL, NULL);
}

/* A library that found no memory to start is started by a later call. */
static bool starts_later(void)
{
    haul_scope *scope = haul_scope_push();
    bool        first = convolves() && haul_error_status() == HAUL_OK;
    long        before = runs();
    bool        later = convolves() && runs() == before + 1;
    haul_scope_pop(scope);
    return first && later;
}

static void test_conv__no_memory_to_start(void **state)
{
    (void)state;
    in_child(starts_later, "STANDIN_FAIL", "cudnnCreate:1:4003", NULL, NULL);
}

/* It is set once, when the first convolution runs. */
static bool stream_may_fail(void)
{
    bool told = !convolves() && haul_error_status() == HAUL_BACKEND && runs() == 0;
    haul_error_clear();
    return told && convolves() && runs() == 1;
}

static void test_conv__stream_is_refused(void **state)
{
    (void)state;
    in_child(stream_may_fail, "STANDIN_FAIL", "cudnnSetStream:1:2000", NULL, NULL);
}

static bool adds_in_any_order(void)
{
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(1, 2, 3, 3)), true);
    haul_tensor *w = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(2, 2, 1, 1)), true);
    return haul_backward(haul_sum(haul_conv2d(x, w))) == HAUL_OK && haul_item(haul_max(haul_tensor_grad(x))) == 2 &&
           haul_item(haul_max(haul_tensor_grad(w))) == 9 && engine_runs(ATOMIC) == 2;
}

static void test_conv__any_order_where_it_is_allowed(void **state)
{
    (void)state;
    in_child(adds_in_any_order, "HAUL_CUDNN", "nondeterministic", NULL, NULL);
}

/* ---- timing ---- */

/* The clock of this program, in place of the library's: a run of the engine that is expected to be best takes 3 ms
 * where SLOW is set, and all else a microsecond. So times do not depend on the machine. */
int64_t __wrap_haul__now_ns(void);
int64_t __wrap_haul__now_ns(void)
{
    static atomic_llong reads;
    const char *const   slow = getenv("SLOW");
    const int64_t       spent = slow && *slow && engine_runs ? engine_runs(TILED) : 0;
    return 1000 * (int64_t)(atomic_fetch_add(&reads, 1) + 1) + 3000000 * spent;
}

static bool times_and_keeps(void)
{
    long first;
    if (!convolves())
        return false;
    first = runs();
    return first > 10 && engine_runs(TILED) > 5 && engine_runs(PLAIN) > 5 && convolves() && runs() == first + 1 &&
           engine_runs(TILED) < engine_runs(PLAIN);
}

static bool takes_what_was_kept(void)
{
    return convolves() && runs() == 1 && engine_runs(PLAIN) == 1;
}

static bool takes_what_is_expected_best(void)
{
    return convolves() && runs() == 1 && engine_runs(TILED) == 1;
}

/* The engine that is expected to be best is slow in the first process, which finds that out; the second one is not
 * slow, and takes the same choice all the same. Without autotune heuristics decide. */
static void test_conv__timed_choices_are_kept(void **state)
{
    char folder[] = "conv-cache-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("HAUL_CUDNN", "autotune", 1);
    in_child(times_and_keeps, "SLOW", "1", "HAUL_CACHE_DIR", folder);
    in_child(takes_what_was_kept, "SLOW", "", "HAUL_CACHE_DIR", folder);
    in_child(convolves, "STANDIN_CUDNN", "none", "HAUL_CACHE_DIR", folder);
    unsetenv("HAUL_CUDNN");
    in_child(takes_what_is_expected_best, "STANDIN_CUDNN", "", "HAUL_CACHE_DIR", folder);
}

/* What fails while timing is an error, and the next call times again. */
static bool timing_may_fail(void)
{
    bool told = dnn_fail("cudnnBackendExecute:3:5000") && !convolves() && haul_error_status() == HAUL_BACKEND;
    haul_error_clear();
    return told && dnn_fail(NULL) && times_and_keeps();
}

static void test_conv__faults_while_timing(void **state)
{
    char folder[] = "conv-fault-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("SLOW", "1", 1);
    in_child(timing_may_fail, "HAUL_CUDNN", "autotune", "HAUL_CACHE_DIR", folder);
    unsetenv("SLOW");
}

/* As above, with the steps of timing and of keeping; not each of the many, but all of the first ones. */
static bool timed_steps_may_fail(void)
{
    int64_t size = 400;
    for (int f = 0; f < FUNCTIONS; f++)
        for (long n = 1; fails_well(functions[f], n, &size); n += 1 + n / 8)
            if (n > 4000)
                return false;
    return true;
}

static void test_conv__each_step_of_timing_may_fail(void **state)
{
    char folder[] = "conv-steps-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    in_child(timed_steps_may_fail, "HAUL_CUDNN", "autotune", "HAUL_CACHE_DIR", folder);
}

int main(void)
{
    unsetenv("HAUL_WITHOUT"); /* these tests are about what it leaves out */
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    const struct CMUnitTest children[] = {
        cmocka_unit_test(test_conv__other_libraries),
        cmocka_unit_test(test_conv__library_is_missing),
        cmocka_unit_test(test_conv__stream_is_refused),
        cmocka_unit_test(test_conv__no_memory_to_start),
        cmocka_unit_test(test_conv__any_order_where_it_is_allowed),
        cmocka_unit_test(test_conv__timed_choices_are_kept),
        cmocka_unit_test(test_conv__faults_while_timing),
        cmocka_unit_test(test_conv__each_step_of_timing_may_fail),
    };
    const struct CMUnitTest tests[] = {
        T(test_conv__faults_are_told),
        T(test_conv__lack_of_memory_is_tried_again),
        T(test_conv__what_cannot_be_planned_goes_to_the_kernels),
        T(test_conv__each_step_may_fail),
        T(test_conv__each_host_allocation_may_fail),
    };
    int failed;
    setenv("HAUL_CUDA_LIBRARIES", STANDIN, 1);
    failed = cmocka_run_group_tests(children, NULL, NULL);
    find_standin();
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
