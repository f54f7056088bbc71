/* Variables of the environment that the CPU obeys. A process reads them once, so each test has its own processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <haul/haul.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "haul_config.h"

#define SKIPPED 77

/* What `run` returns in a process where the variable has this value. */
static int in_child(const char *name, const char *value, int (*run)(void))
{
    int   status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv(name, value, 1);
        haul_scope_push();
        _exit(run());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#ifdef HAUL_HAVE_LEVEL_base
static int computes_at_base(void)
{
    haul_device_properties p;
    bool                   good = haul_device_describe(haul_cpu(), &p) == HAUL_OK && strstr(p.driver, "base") != NULL;
    haul_tensor           *x = haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){1, 2, 3});
    good = good && haul_item_i64(haul_cast(haul_from_host(HAUL_F32, HAUL_SHAPE(1), &(float){7}), HAUL_I32)) == 7;
    return good && haul_tensor_is_valid(x) ? 0 : 1;
}

static void test_cpu_level__can_be_forced(void **state)
{
    (void)state;
    assert_int_equal(in_child("HAUL_CPU_LEVEL", "base", computes_at_base), 0);
}
#endif

#if defined(HAUL_HAVE_ONEDNN) && defined(__x86_64__)
static int most; /* the instructions that the process may use, in the bits of dnnl_cpu_isa_t */

/* Asks oneDNN after a convolution. */
static int keeps_to_most(void)
{
    haul_conv2d(haul_ones(HAUL_F32, HAUL_SHAPE(1, 64, 8, 8)), haul_ones(HAUL_F32, HAUL_SHAPE(64, 64, 2, 2)));
    void *library = dlopen(HAUL_ONEDNN_SONAME, RTLD_NOW | RTLD_NOLOAD);
    int (*isa)(void) = NULL;
    void *address = library ? dlsym(library, "dnnl_get_effective_cpu_isa") : NULL;
    memcpy(&isa, &address, sizeof address);
    if (!isa || haul_error_status())
        return SKIPPED; /* this machine has no oneDNN, or cannot run the level */
    return isa() & ~most ? 1 : 0;
}

/* oneDNN chooses its instructions by itself. */
static void test_cpu_level__binds_onednn(void **state)
{
    static const struct {
        const char *level;
        int         most; /* dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2 */
    } cases[] = {{"base", 0x1}, {"v3", 0x7}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        most = cases[i].most;
        int result = in_child("HAUL_CPU_LEVEL", cases[i].level, keeps_to_most);
        if (result == SKIPPED)
            skip();
        assert_int_equal(result, 0);
    }
}
#endif

static const char *variable; /* that has a wrong value */

/* Calls that need the CPU fail, and say which variable is to blame. */
static bool names_variable(haul_status status)
{
    bool named = status != HAUL_OK && strstr(haul_error_message(), variable);
    haul_error_clear();
    return named;
}

static int everything_names_variable(void)
{
    haul_device_properties p;
    bool                   good = !haul_device_is_valid(haul_cpu()) && !haul_device_is_valid(haul_device_get("cpu"));
    good = good && names_variable(haul_device_describe(haul_cpu(), &p));
    good = good && names_variable(haul_set_device(haul_cpu()));
    haul_zeros(HAUL_F32, HAUL_SHAPE(3));
    good = good && names_variable(haul_error_status());
    haul_arange(HAUL_I64, 0, 3, 1);
    good = good && names_variable(haul_error_status());
    return good ? 0 : 1;
}

static void test_cpu_level__wrong_variables_are_errors(void **state)
{
    static const char *const variables[][2] = {{"HAUL_CPU_LEVEL", "avx"}, {"HAUL_NUM_THREADS", "many"}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        variable = variables[i][0];
        assert_int_equal(in_child(variable, variables[i][1], everything_names_variable), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef HAUL_HAVE_LEVEL_base
        cmocka_unit_test(test_cpu_level__can_be_forced),
#endif
#if defined(HAUL_HAVE_ONEDNN) && defined(__x86_64__)
        cmocka_unit_test(test_cpu_level__binds_onednn),
#endif
        cmocka_unit_test(test_cpu_level__wrong_variables_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
