/* NVIDIA's own compiler on every kernel: that it compiles for the GPUs of four generations, and keeps its variables in
 * registers. Needs NVRTC, and neither a GPU nor a driver; without NVRTC it is skipped. NVRTC is looked for where the
 * backend looks for it, or in the folder $HAUL_TEST_NVRTC.
 *
 * All dtypes are compiled for sm_90, f32 for the others as well; HAUL_TEST_NVRTC_ALL=1 compiles everything for all.
 * Compiled code is taken from the cache of tests. The table goes to <build>/nvrtc.txt.
 *
 * ctest: labels=slow,once; processors=2 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"
#include "base/alloc.h"
#include "files/disk_cache.h"
#include "kernels/kernels.h"
#include "ops/pointwise/pointwise.h"

/* behind the library's headers: its words are macros */
#include "support/custom_ops.h"

enum { MAX_THREADS = 4, MAX_JOBS = 4096 };

static const int        architectures[] = {75, 80, 90, 100};
static const int        full_architecture = 90;
static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64,  HAUL_F16, HAUL_BF16, HAUL_I64,
                                    HAUL_U8,  HAUL_BOOL, HAUL_I32, HAUL_I16,  HAUL_I8};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0], DISTINCT = DTYPES - 3 };

/* Kernels that are known to keep variables in memory with NVRTC 13.0, and the most bytes that this may take. Other
 * versions spend registers otherwise: there a few bytes pass in every kernel. */
enum { KNOWN_MAJOR = 13, KNOWN_MINOR = 0, FEW_STACK = 64, FEW_SPILLED = 160 };
static const struct known {
    const char *kernel;
    int         stack, spilled;
} knowns[] = {
    // clang-format off
    {"sin", 40, 0},            /* f64: a table for the reduction of large angles, in NVIDIA's library of mathematics */
    {"cos", 40, 0},
    {"tan", 40, 0},
    {"lgamma", 40, 0},         /* sin and tan of reflected arguments */
    {"digamma", 40, 0},
    {"true_indices", 64, 0},   /* the place in a mask of up to eight dimensions */
    {"random_normal", 40, 0},
    {"scatter_fold", 16, 32},  /* f64, sm_90 */
    {"random_uniform", 16, 0}, /* words that are taken by number */
    {"bernoulli", 8, 16},
    {"scaled_normal", 16, 0},
    {"gemm_tile", 8, 32},      /* f16 */
    {"conv2d_tile", 384, 0},   /* a tile's rows are laid down there before they are stored */
    {"gelu_backward", 16, 32}, /* f64 */
    {"pool2d_plain_spread", 24, 40},
    {"erf", 16, 80},           /* f64, sm_100 */
    {"gemm_plain", 8, 16},     /* f64, sm_100 */
    {"grad_unscale", 8, 8},    /* f16, sm_100 */
    {"max", 8, 52},       /* i64, sm_80 */
    {"min", 8, 52},
    {"max_abs", 8, 28},
    {"sum_deviations", 8, 56}, /* f16, bf16, sm_90 */
    {"sum_deviations_columns", 8, 68}, /* f16, sm_90 */
    {"sum_offsets", 8, 68},    /* sm_90 */
    {"kl_div_log_backward", 8, 16}, /* f64, sm_90 */
    {"amsgrad_guarded", 8, 32}, /* f64, sm_90 */
    {"max_pool2d", 16, 180},   /* f32, sm_80 */
    {"cross_entropy_backward", 8, 24}, /* f64, sm_90 */
    {"cross_entropy_backward_columns", 8, 16}, /* f32, sm_80 */
    {"rms_norm_backward", 8, 8}, /* bf16, sm_90 */
    {"batch_norm_moments", 8, 40}, /* bf16, sm_90 */
    {"sum_deviations", 8, 8},
    {"sum_exponentials_columns", 8, 36},
    {"rnn_step", 8, 24},       /* sm_80, and bf16, sm_90: where rows begin */
    {"rnn_step_backward", 8, 8},
    {"lstm_step", 8, 16},      /* sm_100: around divisions of f32 */
    {"gru_step", 8, 16},
    {"softmax", 8, 8},         /* sm_100: around the division of f32 */
    {"max_pool2d", 16, 84},    /* sm_80, and f64: bounds of windows, which are divisions if they are adaptive */
    {"interpolate_backward_columns", 8, 16},
    {"resample_table", 8, 16},  /* f32, sm_80 and sm_90: around divisions of I64 */
    {"grid_sample", 96, 56},    /* f64, sm_90: around remainders of f64 */
    {"grid_slopes", 96, 56},
    {"grid_taps", 96, 56},
    {"volume_sample", 96, 56},
    {"volume_slopes", 96, 56},
    {"volume_taps", 96, 56},
    {"lu", 16, 24},            /* f32, sm_100: loops over rows keep many addresses */
    {"triangular", 32, 108},   /* f64, sm_90 */
    {"cholesky", 24, 56},      /* f64, sm_90 */
    {"qr", 24, 80},            /* f32, sm_80 */
    {"eigh", 16, 88},          /* f32, sm_90 */
    {"svd", 88, 716},          /* f64, sm_90: rows are completed where a singular value is 0 */
    // clang-format on
};

/* ---- what there is to compile ---- */

/* A program: a unit for a dtype and an architecture. */
typedef struct job {
    int        first, count; /* kernel ids of the unit: neighbours */
    haul_dtype dtype;
    int        architecture;
    char      *log;        /* of the compiler */
    char       error[512]; /* "" if it compiled */
    bool       from_cache;
} job;

static struct {
    job             jobs[MAX_JOBS];
    int             count, next;
    pthread_mutex_t lock;
} work = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool supported(int architecture)
{
    int count = 0, *list, found = 0;
    if (haul__nvrtc.GetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0)
        return false;
    list = calloc((size_t)count, sizeof *list);
    assert_non_null(list);
    if (haul__nvrtc.GetSupportedArchs(list) == NVRTC_SUCCESS)
        for (int i = 0; i < count; i++)
            found += list[i] == architecture;
    free(list);
    return found > 0;
}

static int unit_end(int first)
{
    int id = first;
    while (id < haul__kernel_count && strcmp(haul__kernel_infos[id].unit, haul__kernel_infos[first].unit) == 0)
        id++;
    return id;
}

static void add_jobs(int architecture, haul_dtype dtype)
{
    for (int id = 0, end; id < haul__kernel_count; id = end) {
        bool any = false;
        end = unit_end(id);
        for (int k = id; k < end; k++)
            any = any || haul__kernel_has(&haul__kernel_infos[k], dtype);
        if (!any)
            continue;
        assert_true(work.count < MAX_JOBS);
        work.jobs[work.count++] = (job){.first = id, .count = end - id, .dtype = dtype, .architecture = architecture};
    }
}

/* ---- compiling ---- */

static char *read_cached(const char *key)
{
    size_t size = 0;
    char  *data = haul__cache_load(key, &size), *log = data ? calloc(size + 1, 1) : NULL;
    if (log)
        memcpy(log, data, size);
    haul__free(data);
    return log;
}

static void compile(job *j)
{
    const haul__kernel_info *info = &haul__kernel_infos[j->first];
    char                    *text = haul__kernel_unit_text(j->first), *source, *key, target[64];
    haul__unit               unit = {.name = info->unit, .text = text, .dtype = j->dtype};
    haul__cuda_code          code;
    int                      major = 0, minor = 0;
    snprintf(target, sizeof target, "--gpu-architecture=sm_%d", j->architecture);
    haul__nvrtc.Version(&major, &minor);
    source = haul__cuda_program_text(&unit);
    key =
        haul__format("test_nvrtc %d.%d %s\n%s\n%s", major, minor, target, haul__kernel_header("prelude_cuda"), source);
    j->log = read_cached(key);
    j->from_cache = j->log != NULL;
    if (!j->log) {
        if (haul__cuda_compile_text(target, info->unit, source, target, "--ptxas-options=-v", &code) == HAUL_OK) {
            j->log = code.log ? strdup(code.log) : NULL;
            if (j->log)
                haul__cache_store(key, j->log, strlen(j->log));
            haul__free(code.image);
            haul__free(code.log);
        } else {
            snprintf(j->error, sizeof j->error, "%s", haul_error_message());
        }
    }
    haul__free(key);
    haul__free(source);
    haul__free(text);
}

static void *run_worker(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&work.lock);
        int i = work.next++;
        pthread_mutex_unlock(&work.lock);
        if (i >= work.count)
            return NULL;
        compile(&work.jobs[i]);
    }
}

static void run_jobs(void)
{
    pthread_t threads[MAX_THREADS];
    long      processors = sysconf(_SC_NPROCESSORS_ONLN);
    int       count = processors < 1 ? 1 : processors > MAX_THREADS ? MAX_THREADS : (int)processors;
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_worker, NULL), 0);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* ---- reading the compiler's report ---- */

typedef struct usage {
    int registers, stack, stores, loads; /* bytes but for registers */
} usage;

/* "Compiling entry function 'k_add_f32' for 'sm_90'", "8 bytes stack frame, 16 bytes spill stores, 28 bytes spill
 * loads", "Used 64 registers"; false if the log lacks it. */
static bool find_usage(const char *log, const char *entry, usage *out)
{
    char        words[192];
    const char *at, *line;
    snprintf(words, sizeof words, "entry function '%s'", entry);
    at = log ? strstr(log, words) : NULL;
    line = at ? strstr(at, " bytes stack frame") : NULL;
    at = line ? strstr(line, "Used ") : NULL;
    if (!at || sscanf(at, "Used %d registers", &out->registers) != 1)
        return false;
    while (line > log && line[-1] >= '0' && line[-1] <= '9')
        line--;
    return sscanf(line, "%d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &out->stack, &out->stores,
                  &out->loads) == 3;
}

static bool is_known(const char *kernel, const usage *u)
{
    int major = 0, minor = 0;
    haul__nvrtc.Version(&major, &minor);
    if ((major != KNOWN_MAJOR || minor != KNOWN_MINOR) && u->stack <= FEW_STACK && u->stores + u->loads <= FEW_SPILLED)
        return true;
    for (size_t i = 0; i < sizeof knowns / sizeof knowns[0]; i++)
        if (strcmp(kernel, knowns[i].kernel) == 0)
            return u->stack <= knowns[i].stack && u->stores + u->loads <= knowns[i].spilled;
    return false;
}

typedef struct totals {
    int kernels, spills, most, failed;
} totals;

/* A line of the table for each kernel of a program. */
static void report(const job *j, FILE *table, totals *t)
{
    for (int id = j->first; id < j->first + j->count; id++) {
        const char *kernel = haul__kernel_infos[id].kernel;
        char        entry[128];
        usage       u;
        if (!haul__kernel_has(&haul__kernel_infos[id], j->dtype))
            continue;
        snprintf(entry, sizeof entry, "k_%s_%s", kernel, haul_dtype_name(j->dtype));
        t->kernels++;
        if (j->error[0] || !find_usage(j->log, entry, &u)) {
            printf("%s for sm_%d: %s\n", entry, j->architecture,
                   j->error[0] ? j->error : "the compiler's log does not tell of it");
            t->failed++;
            continue;
        }
        fprintf(table, "%-40s sm_%-3d %4d %6d %6d %6d\n", entry + 2, j->architecture, u.registers, u.stack, u.stores,
                u.loads);
        t->most = u.registers > t->most ? u.registers : t->most;
        if (u.stack == 0 && u.stores == 0 && u.loads == 0)
            continue;
        t->spills++;
        if (is_known(kernel, &u))
            continue;
        printf("%s for sm_%d spills: %d registers, %d bytes of stack, %d stored, %d loaded\n", entry, j->architecture,
               u.registers, u.stack, u.stores, u.loads);
        t->failed++;
    }
}

static void test_nvrtc__every_kernel_compiles_and_stays_in_registers(void **unused)
{
    const char *all = getenv("HAUL_TEST_NVRTC_ALL");
    totals      t = {0};
    int         cached = 0;
    FILE       *table = fopen(HAUL_BUILD "/nvrtc.txt", "w");
    (void)unused;
    assert_non_null(table);
    for (size_t a = 0; a < sizeof architectures / sizeof architectures[0]; a++) {
        int count = all && *all && strcmp(all, "0") != 0    ? DTYPES
                    : architectures[a] == full_architecture ? DISTINCT
                                                            : 1;
        if (!supported(architectures[a])) {
            printf("this NVRTC does not know sm_%d\n", architectures[a]);
            assert_int_not_equal(architectures[a], full_architecture);
            continue;
        }
        for (int d = 0; d < count; d++)
            add_jobs(architectures[a], dtypes[d]);
    }
    run_jobs();
    fprintf(table, "%-40s %-6s %4s %6s %6s %6s\n", "kernel", "for", "regs", "stack", "stores", "loads");
    for (int i = 0; i < work.count; i++) {
        report(&work.jobs[i], table, &t);
        cached += work.jobs[i].from_cache;
        free(work.jobs[i].log);
    }
    assert_int_equal(fclose(table), 0);
    printf("%d kernels in %d programs (%d from the cache), at most %d registers, %d with memory of their own: see %s\n",
           t.kernels, work.count, cached, t.most, t.spills, HAUL_BUILD "/nvrtc.txt");
    assert_int_equal(t.failed, 0);
}

/* A kernel that cannot keep what it has in registers is noticed: the test above can fail. */
static void test_nvrtc__a_spill_is_seen(void **unused)
{
    static const char text[] = "KERNEL1(spilling, pointwise_params, F32, b0)\n"
                               "{\n"
                               "    F32 x[64];\n"
                               "    for (int i = 0; i < 64; i++) x[i] = b0[i];\n"
                               "    for (int i = 0; i < 64; i++) b0[(int)x[i] & 63] = x[(int)b0[i] & 63];\n"
                               "}\n";
    char             *whole = haul__format("%s\n%s", haul__kernel_header("pointwise"), text), *source;
    haul__unit        unit = {.name = "spilling", .text = whole, .kernel = "spilling", .dtype = HAUL_F32};
    haul__cuda_code   code;
    usage             u;
    (void)unused;
    source = haul__cuda_program_text(&unit);
    assert_int_equal(
        haul__cuda_compile_text("test", "spilling", source, "--gpu-architecture=sm_90", "--ptxas-options=-v", &code),
        HAUL_OK);
    assert_true(find_usage(code.log, "k_spilling_f32", &u));
    assert_true(u.stack >= 256);
    assert_false(find_usage(code.log, "k_another_f32", &u));
    haul__free(code.image);
    haul__free(code.log);
    haul__free(source);
    haul__free(whole);
}

/* Neighbouring elements cross in words of 16 bytes (8 of the smallest dtypes). */
static void test_nvrtc__pointwise_kernels_load_and_store_vectors(void **unused)
{
    static const struct {
        haul_dtype  dtype;
        const char *words;
    } cases[] = {{HAUL_F32, "global.v4.f32"},
                 {HAUL_F64, "global.v2.f64"},
                 {HAUL_F16, "global.v4.u32"},
                 {HAUL_I64, "global.v2.u64"},
                 {HAUL_U8, "global.v4.u16"}};
    (void)unused;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char           *text = haul__kernel_unit_text(HAUL__K_add), *source, load[32], store[32];
        haul__unit      unit = {.name = "add", .text = text, .kernel = "add", .dtype = cases[c].dtype};
        haul__cuda_code code;

        source = haul__cuda_program_text(&unit);
        snprintf(load, sizeof load, "ld.%s", cases[c].words);
        snprintf(store, sizeof store, "st.%s", cases[c].words);
        assert_int_equal(haul__cuda_compile_text("test", "add", source, "--gpu-architecture=compute_90", NULL, &code),
                         HAUL_OK);
        if (!strstr(code.image, load) || !strstr(code.image, store))
            fail_msg("the PTX of add for %s has no %s or no %s", haul_dtype_name(cases[c].dtype), load, store);
        haul__free(code.image);
        haul__free(source);
        haul__free(text);
    }
}

static int entries(const char *kernel)
{
    char           *text = haul__kernel_unit_text(HAUL__K_sum), *source;
    haul__unit      unit = {.name = "reduce", .text = text, .kernel = kernel, .dtype = HAUL_F32};
    haul__cuda_code code;
    int             count = 0;
    source = haul__cuda_program_text(&unit);
    assert_int_equal(haul__cuda_compile_text("test", "reduce", source, "--gpu-architecture=compute_90", NULL, &code),
                     HAUL_OK);
    if (kernel)
        assert_non_null(strstr(code.image, ".entry k_sum_f32("));
    for (const char *at = code.image; (at = strstr(at, ".entry ")) != NULL; at++)
        count++;
    haul__free(code.image);
    haul__free(source);
    haul__free(text);
    return count;
}

/* The first sum does not wait until all reductions are compiled. */
static void test_nvrtc__only_the_kernel_that_is_wanted(void **unused)
{
    (void)unused;
    assert_int_equal(entries("sum"), 1);
    assert_true(entries(NULL) > 20);
}

/* Conversions of f16 are single instructions, not the integer arithmetic that other devices use. */
static void test_nvrtc__halves_by_the_hardware(void **unused)
{
    char           *text = haul__kernel_unit_text(HAUL__K_add), *source;
    haul__unit      unit = {.name = "add", .text = text, .kernel = "add", .dtype = HAUL_F16};
    haul__cuda_code code;
    (void)unused;
    source = haul__cuda_program_text(&unit);
    assert_int_equal(haul__cuda_compile_text("test", "add", source, "--gpu-architecture=compute_90", NULL, &code),
                     HAUL_OK);
    assert_non_null(strstr(code.image, "cvt.rn.f16.f32"));
    assert_non_null(strstr(code.image, "cvt.f32.f16"));
    haul__free(code.image);
    haul__free(source);
    haul__free(text);
}

/* Kernels that a program adds are units as the library's are. */
static void test_nvrtc__kernels_of_programs_compile(void **unused)
{
    const haul_kernel *const added[] = {&swish_kernel, &rms_kernel};
    (void)unused;
    for (int i = 0; i < 2; i++) {
        int id;

        assert_int_equal(haul__kernel_add(added[i], "test", &id), HAUL_OK);
        assert_int_equal(haul__kernel_info_of(id)->lanes, i);
        for (haul_dtype dtype = HAUL_F16; dtype <= HAUL_F64; dtype++) {
            const haul__kernel_info *info = haul__kernel_info_of(id);
            char                    *text = haul__kernel_unit_text(id), *source, entry[64];
            haul__unit               unit = {.name = info->unit, .text = text, .kernel = info->kernel, .dtype = dtype};
            haul__cuda_code          code;

            source = haul__cuda_program_text(&unit);
            snprintf(entry, sizeof entry, "k_%s_%s", info->kernel, haul_dtype_name(dtype));
            if (haul__cuda_compile_text("test", info->kernel, source, "--gpu-architecture=compute_90", NULL, &code))
                fail_msg("%s", haul_error_message());
            assert_non_null(strstr(code.image, entry));
            haul__free(code.image);
            haul__free(source);
            haul__free(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvrtc__kernels_of_programs_compile),
        cmocka_unit_test(test_nvrtc__only_the_kernel_that_is_wanted),
        cmocka_unit_test(test_nvrtc__halves_by_the_hardware),
        cmocka_unit_test(test_nvrtc__a_spill_is_seen),
        cmocka_unit_test(test_nvrtc__pointwise_kernels_load_and_store_vectors),
        cmocka_unit_test(test_nvrtc__every_kernel_compiles_and_stays_in_registers),
    };
    const char *sanitize = getenv("HAUL_SANITIZE"), *folder = getenv("HAUL_TEST_NVRTC");
    char        why[300];
    if (sanitize && *sanitize) {
        printf("the plain build compiles the same text; a sanitizer adds nothing\n");
        return 77;
    }
    if (folder && *folder)
        setenv("HAUL_CUDA_LIBRARIES", folder, 1);
    else
        unsetenv("HAUL_CUDA_LIBRARIES"); /* no stand-in */
    if (!haul__cuda_load_nvrtc(why, sizeof why)) {
        printf("%s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
