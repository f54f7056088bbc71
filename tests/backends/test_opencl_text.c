/* Kernel text is OpenCL C 1.2 without extensions: clang compiles it with -pedantic-errors. Drivers whose compilers are
 * older clangs refuse what the clang of PoCL takes for an extension; NVIDIA's refuses variadic macros. Needs no driver;
 * skipped without a clang that reads OpenCL.
 *
 * ctest: labels=slow,once; processors=2 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "haul_config.h"

#ifdef HAUL_HAVE_OPENCL

#include <sys/stat.h>
#include <unistd.h>

#include "backends/opencl/opencl.h"
#include "base/alloc.h"
#include "kernels/kernels.h"

/* spir64 has doubles. */
static const char  options[] = "-x cl -cl-std=CL1.2 -target spir64 -fsyntax-only -Xclang -finclude-default-header "
                               "-Xclang -fdeclare-opencl-builtins -ferror-limit=3 -Wno-everything -Werror=pedantic";
static const char *compiler;

typedef struct kind {
    const char *name;
    bool        strided, late, llvmpipe;
} kind;

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A file for the unit that begins with a kernel, as the driver of a device gets it. */
static void write_unit(const kind *k, int id, haul_dtype dtype)
{
    haul__cl_device d = {.late = k->late, .llvmpipe = k->llvmpipe};
    haul_device     device = {.strided = k->strided, .properties = {.has_f64 = true}, .impl = &d};
    char           *text = haul__kernel_unit_text(id), name[160];
    haul__unit      unit = {
             .name = haul__kernel_infos[id].unit, .kernel = haul__kernel_infos[id].kernel, .text = text, .dtype = dtype};
    char *source = haul__cl_program_text(&device, &unit);
    assert_non_null(source);
    snprintf(name, sizeof name, "%s/%s_%s.cl", k->name, unit.name, haul_dtype_name(dtype));
    write_text(name, source);
    haul__free(source);
    haul__free(text);
}

/* All units for the dtypes of their kernels, from `lowest` to `highest`. */
static int write_units(const kind *k, haul_dtype lowest, haul_dtype highest)
{
    int count = 0;
    for (int first = 0, end; first < haul__kernel_count; first = end) {
        for (end = first; end < haul__kernel_count; end++)
            if (strcmp(haul__kernel_infos[end].unit, haul__kernel_infos[first].unit) != 0)
                break;
        for (haul_dtype dtype = lowest; dtype <= highest; dtype++)
            for (int id = first; id < end; id++)
                if (haul__kernel_has(&haul__kernel_infos[id], dtype)) {
                    write_unit(k, id, dtype);
                    count++;
                    break;
                }
    }
    return count;
}

static bool compiles(const char *file, const char *errors)
{
    char command[600];
    snprintf(command, sizeof command, "%s %s %s 2>%s", compiler, options, file, errors);
    return system(command) == 0;
}

static void check(const kind *k, haul_dtype first, haul_dtype last)
{
    char command[600];
    assert_int_equal(mkdir(k->name, 0777), 0);
    assert_true(write_units(k, first, last) > 100);
    snprintf(command, sizeof command, "ls -d %s/*.cl | xargs -P 2 -n 50 %s %s", k->name, compiler, options);
    assert_int_equal(system(command), 0);
}

static void test_opencl_text__of_gpus_is_strict(void **state)
{
    (void)state;
    check(&(kind){"gpu", .strided = true}, HAUL_BOOL, HAUL_F64);
}

static void test_opencl_text__of_processors_is_strict(void **state)
{
    (void)state;
    check(&(kind){"processor", .late = true}, HAUL_BOOL, HAUL_F64);
}

/* Its kernels begin differently. */
static void test_opencl_text__of_mesa_is_strict(void **state)
{
    (void)state;
    check(&(kind){"mesa", .llvmpipe = true}, HAUL_F32, HAUL_F32);
}

/* clang takes a variadic macro unless the options refuse it. */
static void test_opencl_text__an_extension_is_seen(void **state)
{
    (void)state;
    write_text("variadic.cl", "#define ALL(...) __VA_ARGS__\n__kernel void k(ALL(__global int *x)) { *x = 1; }\n");
    write_text("plain.cl", "__kernel void k(__global int *x) { *x = 1; }\n");
    assert_false(compiles("variadic.cl", "errors"));
    assert_true(compiles("plain.cl", "errors"));
}

static bool find_compiler(void)
{
    static const char *const names[] = {"clang", "clang-14", "clang-15", "clang-16"};
    write_text("empty.cl", "__kernel void k(__global int *x) { *x = (int)get_global_id(0); }\n");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        compiler = names[i];
        if (compiles("empty.cl", "/dev/null"))
            return true;
    }
    return false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opencl_text__an_extension_is_seen),
        cmocka_unit_test(test_opencl_text__of_gpus_is_strict),
        cmocka_unit_test(test_opencl_text__of_processors_is_strict),
        cmocka_unit_test(test_opencl_text__of_mesa_is_strict),
    };
    const char *sanitize = getenv("HAUL_SANITIZE");
    if (sanitize && *sanitize) {
        printf("the plain build compiles the same text; a sanitizer adds nothing\n");
        return 77;
    }
    if (!find_compiler()) {
        printf("no clang compiles OpenCL C\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    printf("built without OpenCL headers\n");
    return 77;
}

#endif
