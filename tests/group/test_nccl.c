/* Groups whose GPUs NCCL connects. By itself the program has one rank; tests/group/nccl_ranks.sh starts it with a
 * launcher, each rank with a GPU of the stand-in. HAUL_TEST_FAULT says what goes wrong: the script reads what the ranks
 * print.
 *
 * ctest: cuda-only */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "group/work.h"
#include "support/devices/standin.h"
#include "support/scope.h"

enum { COUNT = 1003 };

static const haul__group_call call = {.name = "test", .what = "numbers"};

static haul_group *group, *mpi;
static int         rank, size;

static void check(haul_status status)
{
    if (status)
        fail_msg("rank %d: %s", rank, haul_error_message());
}

static bool has_gpu(void)
{
    return getenv("HAUL_CUDA_LIBRARIES") != NULL;
}

/* The number that the launcher gave this process; 0 without a launcher. */
static int own_number(void)
{
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return 0;
}

static haul_device *own_gpu(void)
{
    char name[32];
    snprintf(name, sizeof name, "cuda:%d", own_number());
    return haul_device_get(name);
}

static int open_groups(void **state)
{
    (void)state;
    if (!has_gpu())
        return 0;
    if (haul_set_device(own_gpu()) || !(group = haul_group_get("nccl")) ||
        !(mpi = haul_group_get(haul_group_size(group) > 1 ? "mpi" : "none"))) {
        print_error("%s\n", haul_error_message());
        return 1;
    }
    rank = haul_group_rank(group);
    size = haul_group_size(group);
    return 0;
}

/* ---- without a GPU ---- */

static void test_nccl__a_device_of_another_kind_is_refused(void **state)
{
    (void)state;
    if (has_gpu())
        return;
    assert_null(haul_group_get("nccl"));
    assert_int_equal(haul_error_status(), HAUL_UNSUPPORTED);
    assert_non_null(strstr(haul_error_message(), "its current device is cpu, not a GPU of NVIDIA"));
    haul_error_clear();
}

/* ---- the group ---- */

static void test_nccl__auto_takes_it_where_all_ranks_have_gpus(void **state)
{
    haul_group_properties p;
    (void)state;
    if (!has_gpu())
        return;
    assert_ptr_equal(haul_group_get("auto"), size > 1 ? group : haul_group_get("none"));
    assert_ptr_equal(haul_group_get("nccl"), group);
    check(haul_group_describe(group, &p));
    assert_string_equal(p.kind, "nccl");
    assert_string_equal(p.library, "libnccl.so.2");
    assert_non_null(strstr(p.version, "NCCL 2.32.3"));
    check(haul_group_describe(mpi, &p));
    assert_string_equal(p.kind, size > 1 ? "mpi" : "none");
    check(haul_group_barrier(group));
}

/* ---- sums ---- */

static double sums[HAUL__TREE_NODES][COUNT]; /* of any dtype */

static void put(void *to, haul_dtype dtype, int piece, int i)
{
    uint32_t bits = (uint32_t)piece * 2654435761u + (uint32_t)i * 1664525u + 1013904223u;
    bits ^= bits >> 15;
    bits *= 0x2c1b3c6du;
    const double value = ((double)(bits >> 8) / 16777216.0 - 0.5) * (1 << (bits & 7));
    if (dtype == HAUL_F32)
        ((float *)to)[i] = (float)value;
    else if (dtype == HAUL_F64)
        ((double *)to)[i] = value * 1.1;
    else if (dtype == HAUL_I32)
        ((int32_t *)to)[i] = (int32_t)bits;
    else
        ((int64_t *)to)[i] = (int64_t)bits * 0x7fffff;
}

/* The node sums of a rank; returns how many. */
static int add_pieces(const haul__tree *t, int of, haul_dtype dtype)
{
    int height = 0;
    for (int piece = haul__tree_first(t, of); piece < haul__tree_first(t, of + 1); piece++) {
        for (int i = 0; i < COUNT; i++)
            put(sums[height], dtype, piece, i);
        height++;
        for (int joins = haul__tree_joins(t, of, piece); joins > 0; joins--) {
            height--;
            haul__tree_add(dtype, sums[height - 1], sums[height], COUNT);
        }
    }
    return height;
}

static uint64_t hash_of(haul_tensor *t)
{
    check(haul_read(t, sums[0], haul_tensor_bytes(t)));
    return haul__fnv(HAUL__FNV, sums[0], haul_tensor_bytes(t));
}

static uint64_t hash_of_one_rank(int pieces, haul_dtype dtype)
{
    add_pieces(&(haul__tree){pieces, 1}, 0, dtype);
    return haul__fnv(HAUL__FNV, sums[0], COUNT * haul__dtype_size(dtype));
}

static haul_tensor *sum_in(haul_group *g, int pieces, haul_dtype dtype)
{
    const haul__tree t = {pieces, size};
    haul_tensor     *tensors[HAUL__TREE_NODES];
    const int        count = add_pieces(&t, rank, dtype);
    for (int i = 0; i < count; i++)
        tensors[i] = haul_from_host(dtype, HAUL_SHAPE(COUNT), sums[i]);
    check(haul__work_wait(haul__group_sum_tensors_begin(g, &call, &t, tensors)));
    return tensors[0];
}

static void compare_sums(void)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_I32, HAUL_I64};
    for (int pieces = 8; pieces <= 16; pieces += 3)
        for (int i = 0; i < 4; i++) {
            const uint64_t alone = hash_of_one_rank(pieces, dtypes[i]);
            assert_true(hash_of(sum_in(group, pieces, dtypes[i])) == alone);
            assert_true(hash_of(sum_in(mpi, pieces, dtypes[i])) == alone);
        }
}

static void test_nccl__sums_have_the_bits_of_mpi_and_of_one_rank(void **state)
{
    (void)state;
    if (has_gpu())
        compare_sums();
}

static void test_nccl__sums_in_chunks_have_the_same_bits(void **state)
{
    const int64_t message = haul__group_message_bytes;
    (void)state;
    if (!has_gpu())
        return;
    haul__group_message_bytes = 400;
    compare_sums();
    haul__group_message_bytes = message;
}

/* Some ranks have no part of the sum. */
static void test_nccl__sums_stay_in_parts(void **state)
{
    int64_t bounds[65] = {0};
    (void)state;
    if (!has_gpu())
        return;
    const haul__tree t = {8, size};
    for (int r = 1; r < size; r++)
        bounds[r] = r == 1 ? 500 : r == 2 ? 500 : 700;
    bounds[size] = COUNT;
    add_pieces(&(haul__tree){8, 1}, 0, HAUL_F32);
    float alone[COUNT];
    memcpy(alone, sums[0], sizeof alone);
    haul_tensor *tensors[HAUL__TREE_NODES];
    const int    count = add_pieces(&t, rank, HAUL_F32);
    for (int i = 0; i < count; i++)
        tensors[i] = haul_from_host(HAUL_F32, HAUL_SHAPE(COUNT), sums[i]);
    check(haul__work_wait(haul__group_sum_parts_begin(group, &call, &t, tensors, bounds)));
    check(haul_read(tensors[0], sums[0], sizeof alone));
    assert_memory_equal((float *)sums[0] + bounds[rank], alone + bounds[rank],
                        (size_t)(bounds[rank + 1] - bounds[rank]) * sizeof *alone);
}

/* Calls of a function of one of the stand-ins so far. */
static long calls_of(const char *library, const char *function)
{
    long (*count)(const char *);
    void *symbol = symbol_of(library, "standin_count");
    memcpy(&count, &symbol, sizeof count);
    return count(function);
}

static void test_nccl__nothing_passes_through_host_memory(void **state)
{
    (void)state;
    if (!has_gpu() || size == 1)
        return;
    haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(COUNT), rank);
    check(haul_device_sync(own_gpu()));
    const long down = calls_of("libcuda.so.1", "cuMemcpyDtoHAsync_v2"),
               up = calls_of("libcuda.so.1", "cuMemcpyHtoDAsync_v2"), sent = calls_of("libnccl.so.2", "ncclSend");
    haul_tensor *y = haul_all_reduce(x, group);
    check(haul_tensor_check(y));
    assert_int_equal(calls_of("libcuda.so.1", "cuMemcpyDtoHAsync_v2"), down);
    assert_int_equal(calls_of("libcuda.so.1", "cuMemcpyHtoDAsync_v2"), up);
    assert_int_equal(calls_of("libnccl.so.2", "ncclSend"), sent + 2 * (size - 1));
    assert_true(haul_item(haul_max(y)) == size * (size - 1) / 2);
    assert_true(hash_of(y) == hash_of(haul_all_reduce(x, mpi)));
}

/* MPI moves messages, also between GPUs. */
static void test_nccl__messages_and_their_gradients_arrive(void **state)
{
    (void)state;
    if (!has_gpu())
        return;
    haul_tensor *x = haul_set_requires_grad(haul_full(HAUL_F32, HAUL_SHAPE(5), rank), true);
    haul_tensor *like = haul_set_requires_grad(haul_zeros_like(x), true);
    haul_tensor *sent = haul_send(x, (rank + 1) % size, group);
    haul_tensor *y = haul_receive(like, (rank + size - 1) % size, group);
    assert_ptr_equal(haul_tensor_device(y), own_gpu());
    check(haul_backward(haul_add(haul_sum(haul_mul_scalar(y, rank)), sent)));
    assert_true(haul_item(haul_max(y)) == (rank + size - 1) % size);
    assert_true(haul_item(haul_max(haul_tensor_grad(x))) == (rank + 1) % size);
}

static void test_nccl__divided_parameters_are_refused(void **state)
{
    (void)state;
    if (!has_gpu() || size < 2)
        return;
    assert_null(haul_parallel_new(haul_nn_linear(4, 4), .group = group, .shard = 3));
    assert_int_equal(haul_error_status(), HAUL_UNSUPPORTED);
    assert_non_null(strstr(haul_error_message(), "HAUL_CUDA_WITHOUT=nccl"));
    haul_error_clear();
}

static void test_nccl__parts_of_a_group_are_connected_too(void **state)
{
    haul_group_properties p;
    (void)state;
    if (!has_gpu())
        return;
    haul_group *half = haul_group_split(group, rank % 2, -rank);
    assert_non_null(half);
    check(haul_group_describe(half, &p));
    assert_string_equal(p.kind, "nccl");
    haul_tensor *y = haul_all_reduce(haul_full(HAUL_F32, HAUL_SHAPE(5), rank), half);
    double       wanted = 0;
    for (int r = rank % 2; r < size; r += 2)
        wanted += r;
    assert_true(haul_item(haul_max(y)) == wanted);
}

/* ---- faults ---- */

static int report(void)
{
    fprintf(stderr, "rank %d: %s\n", rank, haul_error_message());
    return 3;
}

static int add_up(haul_device *device)
{
    const haul__tree t = {size, size};
    haul_tensor     *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(COUNT)), device);
    return haul__work_wait(haul__group_sum_tensors_begin(group, &call, &t, &x)) ? report() : 0;
}

/* 0, or 3 with the error printed. */
static int misbehave(const char *fault)
{
    haul_scope *whole = haul_scope_push();
    int         code = 3;
    if (!strcmp(fault, "shared"))
        setenv("OMPI_COMM_WORLD_RANK", "0", 1), setenv("PMI_RANK", "0", 1);
    if (haul_set_device(!strcmp(fault, "cpu") && own_number() == 1 ? haul_device_get("cpu") : own_gpu()) ||
        !(group = haul_group_get(!strcmp(fault, "cpu") || !strcmp(fault, "auto") ? "auto" : "nccl"))) {
        code = report();
    } else {
        haul_group_properties p;
        rank = haul_group_rank(group);
        size = haul_group_size(group);
        haul_group_describe(group, &p);
        printf("rank %d of %d: %s\n", rank, size, p.kind);
        code = 0;
        for (int i = 0; i < 3 && !code; i++)
            code = add_up(!strcmp(fault, "mismatch") && rank == size - 1 ? haul_device_get("cpu") : own_gpu());
    }
    haul_scope_pop(whole);
    return code;
}

int main(void)
{
    const char *fault = getenv("HAUL_TEST_FAULT");
    if (fault)
        return misbehave(fault);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nccl__a_device_of_another_kind_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nccl__auto_takes_it_where_all_ranks_have_gpus, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nccl__sums_have_the_bits_of_mpi_and_of_one_rank, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nccl__sums_in_chunks_have_the_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nccl__sums_stay_in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nccl__nothing_passes_through_host_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nccl__messages_and_their_gradients_arrive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nccl__divided_parameters_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nccl__parts_of_a_group_are_connected_too, setup, teardown),
    };
    return cmocka_run_group_tests(tests, open_groups, NULL);
}
