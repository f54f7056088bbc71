/* Matrix products of the cuda backend by cuBLASLt, on the stand-ins for the driver and the library: strides, offsets,
 * batches and epilogues in the library's words, precision, calls made once and calls made each time, faults, and
 * kernels where the library refuses. */
#include "support/choice.h"
#include "support/devices/standin.h"
#include "support/failure.h"
#include "support/linalg.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ops/matmul/gemm.h"

static long (*lt_count)(const char *);
static int (*lt_fail)(const char *);
static long (*driver_count)(const char *);
static int64_t (*driver_pending)(void);

static void find_standin(void)
{
    *(void **)&lt_count = symbol_of("libcublasLt.so.13", "standin_count");
    *(void **)&lt_fail = symbol_of("libcublasLt.so.13", "standin_fail");
    *(void **)&driver_count = symbol_of("libcuda.so.1", "standin_count");
    *(void **)&driver_pending = symbol_of("libcuda.so.1", "standin_pending");
}

static int open_scope(void **state)
{
    *state = haul_scope_push();
    haul_error_clear();
    return *state == NULL || haul_set_device(gpu()) != HAUL_OK;
}

static int close_scope(void **state)
{
    haul_error_clear();
    return (int)haul_scope_pop(*state);
}

/* ---- one product, with all that haul__gemm can say ---- */

/* Values in a buffer of `count` elements, on the GPU and as doubles. */
typedef struct operand {
    haul_tensor *t;
    double      *v;
} operand;

static operand make(haul_dtype dtype, int64_t count, unsigned seed)
{
    operand o;
    o.t = sample_tensor(gpu(), dtype, HAUL_SHAPE(count), seed, &o.v);
    return o;
}

/* Runs `call` on fresh operands of these sizes and compares each element of C's buffer, also those that the product
 * must not touch. Returns how often the library multiplied. */
static long check_product(const haul__gemm *call, haul_dtype dtype, int64_t a_size, int64_t b_size, int64_t c_size,
                          bool has_bias, double error)
{
    static const haul__operation test_operation = {.name = "test", .implementations = &haul__gemm_implementations};
    const haul__call             test_call = {.operation = &test_operation, .device = gpu()};
    haul_scope                  *scope = haul_scope_push();
    operand                      a = make(dtype, a_size, 1), b = make(dtype, b_size, 2), c = make(dtype, c_size, 3);
    operand                      bias = make(dtype, call->bias_offset + call->n, 4);
    haul__gemm                   problem = *call;
    long                         before = lt_count("cublasLtMatmul");
    assert_int_equal(haul__gemm_run(&test_call, &problem, c.t, a.t, b.t, has_bias ? bias.t : NULL), HAUL_OK);
    for (int64_t z = 0; z < call->batch; z++) {
        for (int64_t i = 0; i < call->m; i++) {
            for (int64_t j = 0; j < call->n; j++) {
                int64_t at = call->c_offset + z * call->c_batch + i * call->c_row + j;
                double  sum = (has_bias ? bias.v[call->bias_offset + j] : 0) + (call->accumulate ? c.v[at] : 0);
                for (int64_t k = 0; k < call->k; k++)
                    sum += a.v[call->a_offset + z * call->a_batch + i * call->a_row + k * call->a_col] *
                           b.v[call->b_offset + z * call->b_batch + k * call->b_row + j * call->b_col];
                c.v[at] = sum;
            }
        }
    }
    assert_close(c.t, c.v, c_size, error, "C");
    free(a.v);
    free(b.v);
    free(c.v);
    free(bias.v);
    haul_scope_pop(scope);
    return lt_count("cublasLtMatmul") - before;
}

/* Each layout of the operands, with rows that are longer than the matrix, beginning somewhere in the buffer. f16 and
 * bf16 are added up in f32 and rounded once. */
static void test_gemm__strides_offsets_and_transpositions(void **state)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16};
    static const double     errors[] = {1e-4, 1e-12, 0.02, 0.15};
    static const int64_t    sizes[][3] = {{1, 1, 1}, {7, 5, 3}, {1, 9, 4}, {9, 1, 4}, {4, 6, 1}, {33, 17, 70}};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int how = 0; how < 64; how++) {
            int64_t    m = sizes[s][0], n = sizes[s][1], k = sizes[s][2], wider = how & 4 ? 3 : 0;
            haul__gemm call = {.batch = 1, .m = m, .n = n, .k = k, .c_row = n + wider, .accumulate = how & 8};
            call.a_row = how & 1 ? 1 : k + wider;
            call.a_col = how & 1 ? m + wider : 1;
            call.b_row = how & 2 ? 1 : n + wider;
            call.b_col = how & 2 ? k + wider : 1;
            call.a_offset = wider;
            call.b_offset = 2 * wider;
            call.c_offset = 3 * wider;
            call.bias_offset = wider;
            assert_int_equal(check_product(&call, dtypes[how >> 4], wider + (m + wider) * (k + wider) + 1,
                                           2 * wider + (n + wider) * (k + wider) + 1, 3 * wider + m * (n + wider),
                                           how & 4, errors[how >> 4]),
                             1);
        }
    }
}

/* Strides that no leading dimension can say, expanded rows among them: the kernels serve. */
static void test_gemm__other_strides_go_to_the_kernels(void **state)
{
    haul__gemm call = {.batch = 1, .m = 4, .n = 5, .k = 3, .a_row = 6, .a_col = 2, .b_row = 5, .b_col = 1, .c_row = 5};
    (void)state;
    assert_int_equal(check_product(&call, HAUL_F32, 30, 30, 20, false, 1e-5), 0);
    call.a_row = 0;
    call.a_col = 1;
    assert_int_equal(check_product(&call, HAUL_F32, 30, 30, 20, true, 1e-5), 0);
    call.a_row = 2; /* overlapping */
    assert_int_equal(check_product(&call, HAUL_F32, 30, 30, 20, false, 1e-5), 0);
    call.k = 0;
    assert_int_equal(check_product(&call, HAUL_F32, 30, 30, 20, true, 0), 0);
}

/* Matrices one after the other, and one that serves for all. */
static void test_gemm__batches_and_broadcasting(void **state)
{
    (void)state;
    for (int how = 0; how < 8; how++) {
        haul__gemm call = {.batch = 5, .m = 6, .n = 7, .k = 4, .a_row = 4, .a_col = 1, .c_row = 8, .c_batch = 50};
        call.b_row = how & 1 ? 1 : 7;
        call.b_col = how & 1 ? 4 : 1;
        call.a_batch = how & 2 ? 0 : 25;
        call.b_batch = how & 4 ? 0 : 28;
        assert_int_equal(check_product(&call, HAUL_F32, 130, 150, 250, false, 1e-5), 1);
    }
    haul_tensor *a = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(3, 4, 5), 1, NULL);
    haul_tensor *b = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(1, 5, 2), 2, NULL);
    long         before = lt_count("cublasLtMatmul");
    haul_tensor *y = haul_matmul(a, b), *want = haul_matmul(haul_to(a, haul_cpu()), haul_to(b, haul_cpu()));
    double       values[24];
    assert_int_equal(read_values(want, values, 24), HAUL_OK);
    assert_close(y, values, 24, 1e-5, "broadcast");
    assert_int_equal(lt_count("cublasLtMatmul") - before, 1);
}

static void test_gemm__gradients_of_linear(void **state)
{
    (void)state;
    haul_tensor *in[] = {sample_tensor(gpu(), HAUL_F64, HAUL_SHAPE(6, 4), 1, NULL),
                         sample_tensor(gpu(), HAUL_F64, HAUL_SHAPE(3, 4), 2, NULL),
                         sample_tensor(gpu(), HAUL_F64, HAUL_SHAPE(3), 3, NULL)};
    for (int i = 0; i < 3; i++)
        in[i] = haul_set_requires_grad(haul_detach(in[i]), true);
    long before = lt_count("cublasLtMatmul");
    assert_int_equal(haul_backward(haul_sum(haul_square(haul_linear(in[0], in[1], .bias = in[2])))), HAUL_OK);
    assert_int_equal(lt_count("cublasLtMatmul") - before, 3); /* y, dx, dW */
    haul_tensor *g = haul_mul_scalar(haul_linear(in[0], in[1], .bias = in[2]), 2);
    double       want[12];
    assert_int_equal(read_values(haul_matmul(haul_transpose(haul_detach(g), 0, 1), in[0]), want, 12), HAUL_OK);
    assert_close(haul_tensor_grad(in[1]), want, 12, 1e-12, "dW");
}

/* One call of the library, and none of a kernel. */
static void test_gemm__relu_is_part_of_the_product(void **state)
{
    haul_tensor *x = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(6, 4), 1, NULL),
                *w = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(3, 4), 2, NULL),
                *b = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(3), 3, NULL);
    (void)state;
    double want[18];
    assert_int_equal(read_values(haul_relu(haul_linear(x, w, .bias = b)), want, 18), HAUL_OK);
    long         products = lt_count("cublasLtMatmul"), launches = driver_count("cuLaunchKernel");
    haul_tensor *y = haul_linear(x, w, .bias = b, .relu = true);
    assert_int_equal(lt_count("cublasLtMatmul") - products, 1);
    assert_int_equal(driver_count("cuLaunchKernel") - launches, 0);
    assert_close(y, want, 18, 1e-6, "with bias");
    assert_int_equal(read_values(haul_relu(haul_linear(x, w)), want, 18), HAUL_OK);
    launches = driver_count("cuLaunchKernel");
    y = haul_linear(x, w, .relu = true);
    assert_int_equal(driver_count("cuLaunchKernel") - launches, 0);
    assert_close(y, want, 18, 1e-6, "without bias");
}

/* ---- precision ---- */

/* 1 + 2^-12 has more bits than TF32. */
static void test_gemm__tf32_only_where_it_is_asked_for(void **state)
{
    haul_tensor *a = haul_full(HAUL_F32, HAUL_SHAPE(8, 8), 1 + 0x1p-12), *d = haul_cast(a, HAUL_F64);
    (void)state;
    double exact = haul_item(haul_max(haul_matmul(a, a)));
    assert_true(exact > 8);
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_set_matmul_precision(HAUL_PRECISION_HIGH), HAUL_OK);
    assert_true(haul_item(haul_max(haul_matmul(a, a))) == 8);
    assert_true(haul_item(haul_max(haul_matmul(d, d))) > 8);
    haul_scope_pop(scope);
    assert_true(haul_item(haul_max(haul_matmul(a, a))) == exact);
}

/* ---- calls made once, and calls made each time ---- */

static void test_gemm__heuristics_once_a_problem_and_no_waits(void **state)
{
    static const char *const waits[] = {"cuStreamSynchronize", "cuEventSynchronize", "cuMemcpyDtoHAsync_v2"};
    haul_tensor             *a = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(12, 300), 1, NULL);
    haul_tensor             *w = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(11, 300), 2, NULL), *y[20];
    haul_tensor             *biases[2];
    long                     waited = 0, asked, made, multiplied;
    double                   values[2][132];
    (void)state;
    for (int i = 0; i < 2; i++)
        biases[i] = sample_tensor(gpu(), HAUL_F32, HAUL_SHAPE(11), 3 + (unsigned)i, NULL);
    assert_valid(haul_linear(a, w, .bias = biases[0]));
    asked = lt_count("cublasLtMatmulAlgoGetHeuristic");
    made = lt_count("cublasLtMatrixLayoutCreate");
    multiplied = lt_count("cublasLtMatmul");
    for (int i = 0; i < 3; i++)
        waited -= driver_count(waits[i]);
    for (int i = 0; i < 20; i++)
        assert_valid(y[i] = haul_linear(a, w, .bias = biases[i % 2]));
    assert_int_equal(lt_count("cublasLtMatmulAlgoGetHeuristic"), asked);
    assert_int_equal(lt_count("cublasLtMatrixLayoutCreate"), made);
    assert_int_equal(lt_count("cublasLtMatmul") - multiplied, 20);
    for (int i = 0; i < 3; i++)
        waited += driver_count(waits[i]);
    assert_int_equal(waited, 0);
    if (!getenv("STANDIN_ORDER")) /* late */
        assert_true(driver_pending() >= 20);
    for (int i = 0; i < 2; i++)
        assert_int_equal(read_values(haul_linear(haul_to(a, haul_cpu()), haul_to(w, haul_cpu()),
                                                 .bias = haul_to(biases[i], haul_cpu())),
                                     values[i], 132),
                         HAUL_OK);
    for (int i = 0; i < 20; i++)
        assert_close(y[i], values[i % 2], 132, 1e-3, "a bias of its own");
}

/* More shapes than algorithms are kept for. */
static void test_gemm__ever_new_shapes(void **state)
{
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(1, 3)), *b = haul_ones(HAUL_F32, HAUL_SHAPE(3, 2200));
    haul_tensor *total = haul_zeros(HAUL_F32, HAUL_SHAPE(1, 1));
    double       want = 0;
    (void)state;
    for (int64_t n = 1; n <= 2200; n++) {
        haul_scope  *scope = haul_scope_push();
        haul_tensor *y = haul_matmul(a, haul_slice(b, 1, 0, n, 1));
        haul_tensor *last = haul_slice(y, 1, n - 1, n, 1);
        assert_int_equal(haul_add_into(total, total, last), HAUL_OK);
        want += 3;
        haul_scope_pop(scope);
    }
    assert_true(haul_item(haul_sum(total)) == want);
}

/* ---- scratch memory ---- */

static double product_of_long_sums(void)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *a = haul_full(HAUL_F32, HAUL_SHAPE(64, 512), 0.5), *b = haul_full(HAUL_F32, HAUL_SHAPE(512, 64), 2);
    double       value = haul_item(haul_mean(haul_matmul(a, b)));
    haul_scope_pop(scope);
    return value;
}

/* It is counted like all memory, and given back; without it another algorithm serves. */
static void test_gemm__scratch_comes_from_the_allocator(void **state)
{
    haul_memory_stats  before, after;
    haul_memory_origin origins[16];
    (void)state;
    assert_true(product_of_long_sums() == 512);
    assert_int_equal(haul_memory_stats_get(gpu(), &before), HAUL_OK);
    assert_true(product_of_long_sums() == 512);
    assert_int_equal(haul_memory_stats_get(gpu(), &after), HAUL_OK);
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.device_allocations, before.device_allocations);
    assert_int_equal(haul_memory_release_cached(gpu()), HAUL_OK);
    int count = haul_memory_by_origin(gpu(), origins, 16);
    for (int i = 0; i < count && i < 16; i++)
        assert_string_not_equal(origins[i].name, "scratch");

    haul_tensor *a = haul_full(HAUL_F32, HAUL_SHAPE(256, 512), 0.5), *b = haul_full(HAUL_F32, HAUL_SHAPE(512, 256), 2);
    haul_tensor *room = haul_empty(HAUL_F32, HAUL_SHAPE(256, 256));
    assert_int_equal(haul_memory_stats_get(gpu(), &before), HAUL_OK);
    assert_int_equal(haul_memory_set_limit(gpu(), before.reserved), HAUL_OK);
    assert_int_equal(haul_drop(room), HAUL_OK);
    long   asked = lt_count("cublasLtMatmulAlgoGetHeuristic");
    choice made;
    listen_for_choices(&made);
    haul_tensor *y = haul_matmul(a, b);
    haul_events_unsubscribe(made.id);
    assert_computed_with_less(&made, "cublaslt");
    assert_valid(y);
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_int_equal(lt_count("cublasLtMatmulAlgoGetHeuristic") - asked, 2);
    assert_int_equal(haul_memory_set_limit(gpu(), 0), HAUL_OK);
    assert_true(haul_item(haul_min(y)) == 512 && haul_item(haul_max(y)) == 512);
}

/* ---- threads ---- */

typedef struct work {
    int64_t first;
    bool    good;
} work;

static void *multiply_many(void *data)
{
    work       *w = data;
    haul_scope *scope = haul_scope_push();
    w->good = haul_set_device(gpu()) == HAUL_OK;
    for (int64_t i = 0; i < 60 && w->good; i++) {
        haul_scope  *step = haul_scope_push();
        int64_t      k = 200 + 10 * ((i + w->first) % 12);
        haul_tensor *a = haul_full(HAUL_F32, HAUL_SHAPE(5, k), (double)w->first),
                    *b = haul_ones(HAUL_F32, HAUL_SHAPE(3, k));
        haul_tensor *bias = haul_full(HAUL_F32, HAUL_SHAPE(3), (double)i);
        double       want = (double)(k * w->first + i);
        haul_tensor *y = haul_linear(a, b, .bias = bias);
        w->good = haul_item(haul_min(y)) == want && haul_item(haul_max(y)) == want;
        haul_scope_pop(step);
    }
    haul_scope_pop(scope);
    return NULL;
}

static void test_gemm__threads_share_the_library(void **state)
{
    pthread_t threads[4];
    work      works[4];
    (void)state;
    for (int i = 0; i < 4; i++) {
        works[i].first = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, multiply_many, &works[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(works[i].good);
    }
}

/* ---- faults ---- */

static void test_gemm__faults_are_told(void **state)
{
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(9, 10)), *b = haul_ones(HAUL_F32, HAUL_SHAPE(10, 8));
    (void)state;
    assert_true(lt_fail("cublasLtMatmul:1:13"));
    assert_refused(haul_matmul(a, b), HAUL_BACKEND,
                   "cublasLtMatmul failed: CUBLAS_STATUS_EXECUTION_FAILED (status 13)");
    assert_true(haul_item(haul_max(haul_matmul(a, b))) == 10);
    haul_tensor *c = haul_ones(HAUL_F32, HAUL_SHAPE(10, 6));
    assert_true(lt_fail("cublasLtMatmulAlgoGetHeuristic:0"));
    assert_refused(haul_matmul(a, c), HAUL_BACKEND, "CUBLAS_STATUS_INTERNAL_ERROR");
    assert_true(lt_fail("cublasLtMatmulDescCreate:0:3"));
    assert_refused(haul_matmul(a, c), HAUL_OUT_OF_MEMORY, "CUBLAS_STATUS_ALLOC_FAILED");
    assert_true(lt_fail(NULL));
    assert_true(haul_item(haul_max(haul_matmul(a, c))) == 10);
}

/* An algorithm that is not there, and one that refuses after all: the kernels serve, now and later. */
static void test_gemm__unsupported_problems_go_to_the_kernels(void **state)
{
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(9, 11)), *b = haul_ones(HAUL_F32, HAUL_SHAPE(11, 8));
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(lt_fail(i ? "cublasLtMatmul:1:15" : "cublasLtMatmulAlgoGetHeuristic:1:15"));
        long before = lt_count("cublasLtMatmul");
        assert_true(haul_item(haul_max(haul_matmul(a, b))) == 11);
        assert_true(haul_item(haul_min(haul_matmul(a, b))) == 11);
        assert_int_equal(lt_count("cublasLtMatmul") - before, i);
        assert_true(lt_fail(NULL));
        b = haul_ones(HAUL_F32, HAUL_SHAPE(11, 7));
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
}

/* Host memory that is not there for a plan is an error like any other, and passes. */
static void test_gemm__each_host_allocation_may_fail(void **state)
{
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(3, 19));
    (void)state;
    assert_valid(haul_matmul(a, haul_ones(HAUL_F32, HAUL_SHAPE(19, 1))));
    for (int64_t n = 1, failed = 1; failed; n++) {
        haul_tensor *b = haul_ones(HAUL_F32, HAUL_SHAPE(19, n + 1));
        assert_valid(b);
        haul__fault_plan(HAUL__FAULT_HOST, n);
        haul_tensor *y = haul_matmul(a, b);
        failed = haul__fault_count() >= n;
        haul__fault_plan(0, 0);
        if (haul_tensor_is_valid(y))
            assert_true(haul_item(haul_max(y)) == 19);
        else
            assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        assert_true(n < 100);
    }
}

/* ---- other libraries: a process opens them once, so each case is a child ---- */

static void in_child(bool (*run)(void), const char *name, const char *value)
{
    int   status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv(name, value, 1);
        find_standin();
        haul_scope *scope = haul_scope_push();
        bool        good = scope && haul_set_device(gpu()) == HAUL_OK && run();
        if (!good)
            printf("the last error: %s\n", haul_error_message());
        fflush(stdout);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static const char *expected;

static bool kernels_serve(void)
{
    haul_device_properties p;
    haul_tensor           *a = haul_ones(HAUL_F32, HAUL_SHAPE(9, 10)), *b = haul_ones(HAUL_F32, HAUL_SHAPE(10, 8));
    bool right = haul_item(haul_max(haul_matmul(a, b))) == 10 && haul_item(haul_min(haul_matmul(a, b))) == 10;
    if (haul_device_describe(gpu(), &p))
        return false;
    printf("%s\n", p.libraries);
    return right && strstr(p.libraries, expected) && lt_count("cublasLtMatmul") == 0 && haul_error_status() == HAUL_OK;
}

static bool library_serves(void)
{
    haul_device_properties p;
    haul_tensor           *a = haul_ones(HAUL_F32, HAUL_SHAPE(9, 10)), *b = haul_ones(HAUL_F32, HAUL_SHAPE(10, 8));
    bool                   right = haul_item(haul_max(haul_matmul(a, b))) == 10;
    return right && haul_device_describe(gpu(), &p) == HAUL_OK && strstr(p.libraries, expected) &&
           lt_count("cublasLtMatmul") == 1;
}

static bool create_fails(void)
{
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(9, 10)), *b = haul_ones(HAUL_F32, HAUL_SHAPE(10, 8));
    return haul_tensor_check(haul_matmul(a, b)) && haul_error_status() == HAUL_OUT_OF_MEMORY && lt_fail(NULL) &&
           haul_item(haul_max(haul_matmul(a, b))) == 10 && lt_count("cublasLtMatmul") == 1;
}

static void test_gemm__other_libraries(void **state)
{
    (void)state;
    expected = "cuBLASLt 13.1.0";
    in_child(library_serves, "STANDIN_CUBLASLT", "130100");
    expected = "cuBLASLt 12.8.4";
    in_child(library_serves, "STANDIN_CUBLASLT", "120804");
    expected = "no cuBLASLt (HAUL_WITHOUT names it): own kernels serve";
    in_child(kernels_serve, "HAUL_WITHOUT", "cublaslt");
    expected = "too old";
    in_child(kernels_serve, "STANDIN_CUBLASLT", "111103");
    expected = "cuBLASLt 13.1.0 does not start: own kernels serve";
    in_child(kernels_serve, "STANDIN_FAIL", "cublasLtCreate:0:1");
    in_child(create_fails, "STANDIN_FAIL", "cublasLtCreate:0:3");
}

int main(void)
{
    unsetenv("HAUL_WITHOUT"); /* these tests are about what it leaves out */
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    const struct CMUnitTest children[] = {
        cmocka_unit_test(test_gemm__other_libraries),
    };
    const struct CMUnitTest tests[] = {
        T(test_gemm__strides_offsets_and_transpositions),
        T(test_gemm__other_strides_go_to_the_kernels),
        T(test_gemm__batches_and_broadcasting),
        T(test_gemm__gradients_of_linear),
        T(test_gemm__relu_is_part_of_the_product),
        T(test_gemm__tf32_only_where_it_is_asked_for),
        T(test_gemm__heuristics_once_a_problem_and_no_waits),
        T(test_gemm__ever_new_shapes),
        T(test_gemm__scratch_comes_from_the_allocator),
        T(test_gemm__threads_share_the_library),
        T(test_gemm__faults_are_told),
        T(test_gemm__unsupported_problems_go_to_the_kernels),
        T(test_gemm__each_host_allocation_may_fail),
    };
    int failed;
    setenv("HAUL_CUDA_LIBRARIES", STANDIN, 1);
    failed = cmocka_run_group_tests(children, NULL, NULL);
    find_standin();
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
