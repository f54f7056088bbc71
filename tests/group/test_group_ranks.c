/* What the ranks of a group do together. By itself the program is a group of one rank; tests/group/group_launchers.sh
 * starts it with MPI launchers, and tests/group/local_ranks.sh with threads as ranks. Every rank checks its own
 * results.
 *
 * ctest: */
#include <string.h>

#include "base/fnv.h"
#include "group/work.h"
#include "support/ranks/ranks.h"

static const haul__group_call call = {.name = "test", .what = "numbers"};

static void test_group_ranks__get_returns_the_same_group(void **state)
{
    (void)state;
    assert_ptr_equal(haul_group_get("auto"), group);
    if (local_name)
        assert_ptr_equal(haul_group_get(local_name), group);
    haul_group *alone = haul_group_get("none");
    assert_int_equal(haul_group_size(alone), 1);
    assert_int_equal(haul_group_rank(alone), 0);
    assert_in_range(rank, 0, size - 1);
}

static void test_group_ranks__properties_and_members(void **state)
{
    (void)state;
    haul_group_properties p;
    haul_group_member     m;
    check(haul_group_describe(group, &p));
    assert_string_equal(p.kind, local_name ? "local" : size > 1 ? "mpi" : p.kind);
    assert_int_equal(p.size, size);
    for (int r = 0; r < size; r++) {
        check(haul_group_member_get(group, r, &m));
        assert_int_equal(m.rank, r);
        assert_true(m.process > 0 && m.host[0]);
    }
    assert_int_equal(haul_group_member_get(group, size, &m), HAUL_INVALID_ARGUMENT);
}

static void test_group_ranks__gather_has_all_portions(void **state)
{
    (void)state;
    int32_t all[64] = {0};
    int64_t bytes[64];
    int     at = 0;
    assert_in_range(size, 1, 8);
    /* Rank r has r numbers. */
    for (int r = 0; r < size; r++) {
        bytes[r] = r * (int64_t)sizeof *all;
        for (int i = 0; r == rank && i < r; i++)
            all[at + i] = 100 * r + i;
        at += r;
    }
    check(haul__work_wait(haul__group_gather_begin(group, &call, all, bytes)));
    at = 0;
    for (int r = 0; r < size; r++)
        for (int i = 0; i < r; i++)
            assert_int_equal(all[at++], 100 * r + i);
}

static void exchange(void)
{
    int32_t out[128], in[128];
    int64_t out_bytes[64], in_bytes[64];
    int     at = 0;
    memset(in, 0, sizeof in);
    for (int r = 0; r < size; r++) {
        out_bytes[r] = (1 + r) * (int64_t)sizeof *out;
        in_bytes[r] = (1 + rank) * (int64_t)sizeof *out;
        for (int i = 0; i <= r; i++)
            out[at++] = 1000 * rank + 10 * r + i;
    }
    check(haul__work_wait(haul__group_exchange_begin(group, &call, out, out_bytes, in, in_bytes, (int64_t)sizeof in)));
    at = 0;
    for (int r = 0; r < size; r++)
        for (int i = 0; i <= rank; i++)
            assert_int_equal(in[at++], 1000 * r + 10 * rank + i);
}

static void test_group_ranks__exchange_brings_each_rank_its_portions(void **state)
{
    (void)state;
    exchange();
}

static void test_group_ranks__broadcast_comes_from_the_root(void **state)
{
    (void)state;
    for (int root = 0; root < size; root++) {
        double value = rank == root ? 0.5 + root : -1;
        check(haul__work_wait(haul__group_broadcast_begin(group, &call, &value, (int64_t)sizeof value, root)));
        assert_true(value == 0.5 + root);
    }
}

/* Small whole numbers have the same sum in every order. A group of one process has no library, nor have threads. */
static void test_group_ranks__the_librarys_own_sum_is_that_of_all(void **state)
{
    (void)state;
    float values[77];
    for (int i = 0; i < 77; i++)
        values[i] = (float)(rank + i);
    const haul_status status = haul__work_wait(haul__group_library_sum_begin(group, &call, values, 77));
    const bool        has_sum = size > 1 && !local_name;
    assert_int_equal(status, has_sum ? HAUL_OK : HAUL_UNSUPPORTED);
    for (int i = 0; i < 77 && has_sum; i++)
        assert_true(values[i] == (float)(size * i + size * (size - 1) / 2));
    haul_error_clear();
}

static void test_group_ranks__large_messages_are_cut(void **state)
{
    (void)state;
    const int64_t message = haul__group_message_bytes, whole = haul__group_call_bytes;
    char          text[] = "a text that is longer than one message", got[sizeof text] = "";
    set_for_all(&haul__group_message_bytes, 8);
    set_for_all(&haul__group_call_bytes, 16);
    exchange();
    test_group_ranks__gather_has_all_portions(NULL);
    if (rank == 0)
        memcpy(got, text, sizeof got);
    check(haul__work_wait(haul__group_broadcast_begin(group, &call, got, (int64_t)sizeof got, 0)));
    assert_string_equal(got, text);
    set_for_all(&haul__group_message_bytes, message);
    set_for_all(&haul__group_call_bytes, whole);
}

/* ---- sums ---- */

enum { COUNT = 1003 };

static _Thread_local float sums[HAUL__TREE_NODES][COUNT];

static float piece_value(int piece, int i)
{
    uint32_t state = (uint32_t)piece * 2654435761u + (uint32_t)i * 1664525u + 1013904223u;
    state ^= state >> 15;
    state *= 0x2c1b3c6du;
    return ((float)(state >> 8) / 16777216.0f - 0.5f) * (float)(1 << (state & 7));
}

/* The node sums of this rank. */
static int add_own_pieces(const haul__tree *t, void *out[HAUL__TREE_NODES])
{
    int height = 0;
    for (int piece = haul__tree_first(t, t->ranks == 1 ? 0 : rank);
         piece < haul__tree_first(t, t->ranks == 1 ? 1 : rank + 1); piece++) {
        for (int i = 0; i < COUNT; i++)
            sums[height][i] = piece_value(piece, i);
        height++;
        for (int joins = haul__tree_joins(t, t->ranks == 1 ? 0 : rank, piece); joins > 0; joins--) {
            height--;
            haul__tree_add(HAUL_F32, sums[height - 1], sums[height], COUNT);
        }
    }
    for (int i = 0; i < height; i++)
        out[i] = sums[i];
    return height;
}

static uint64_t hash_of_sum(void)
{
    return haul__fnv(HAUL__FNV, sums[0], sizeof sums[0]);
}

/* The bits that one rank computes by itself. */
static uint64_t expected(int pieces)
{
    void *unused[HAUL__TREE_NODES];
    add_own_pieces(&(haul__tree){pieces, 1}, unused);
    return hash_of_sum();
}

static void test_group_ranks__sums_are_bit_identical_to_those_of_one_rank(void **state)
{
    (void)state;
    for (int pieces = 8; pieces <= 16; pieces += 3) {
        const haul__tree t = {pieces, size};
        void            *own[HAUL__TREE_NODES];
        const uint64_t   alone = expected(pieces);
        add_own_pieces(&t, own);
        check(haul__work_wait(haul__group_sum_begin(group, &call, &t, HAUL_F32, own, COUNT)));
        assert_true(hash_of_sum() == alone);
    }
}

static void test_group_ranks__sums_in_chunks_have_the_same_bits(void **state)
{
    (void)state;
    const int64_t    message = haul__group_message_bytes;
    const haul__tree t = {8, size};
    void            *own[HAUL__TREE_NODES];
    const uint64_t   alone = expected(8);
    set_for_all(&haul__group_message_bytes, 400);
    add_own_pieces(&t, own);
    check(haul__work_wait(haul__group_sum_begin(group, &call, &t, HAUL_F32, own, COUNT)));
    assert_true(hash_of_sum() == alone);
    set_for_all(&haul__group_message_bytes, message);
}

static void test_group_ranks__sums_of_tensors(void **state)
{
    (void)state;
    const haul__tree t = {8, size};
    void            *own[HAUL__TREE_NODES];
    haul_tensor     *tensors[HAUL__TREE_NODES];
    const uint64_t   alone = expected(8);
    const int        count = add_own_pieces(&t, own);
    for (int i = 0; i < count; i++)
        tensors[i] = haul_from_host(HAUL_F32, HAUL_SHAPE(COUNT), own[i]);
    check(haul__work_wait(haul__group_sum_tensors_begin(group, &call, &t, tensors)));
    check(haul_read(tensors[0], sums[0], sizeof sums[0]));
    assert_true(hash_of_sum() == alone);
}

static void test_group_ranks__several_sums_may_be_under_way(void **state)
{
    (void)state;
    enum { WORKS = 12 };
    static _Thread_local float values[WORKS][COUNT];
    haul__work                *works[WORKS];
    const haul__tree           t = {size, size};
    for (int k = 0; k < WORKS; k++) {
        for (int i = 0; i < COUNT; i++)
            values[k][i] = (float)(k + i * (rank + 1));
        works[k] = haul__group_sum_begin(group, &call, &t, HAUL_F32, (void *[]){values[k]}, COUNT - k);
    }
    for (int k = WORKS; k-- > 0;) {
        check(haul__work_wait(works[k]));
        for (int i = 0; i < COUNT - k; i++)
            assert_true(values[k][i] == (float)(k * size + i * size * (size + 1) / 2));
    }
}

static void test_group_ranks__numbers_flags_and_options(void **state)
{
    (void)state;
    const haul__tree t = {8, size};
    double           numbers[2 * 8] = {0}, totals[2];
    uint64_t         bits = 1u << rank;
    for (int piece = haul__tree_first(&t, rank); piece < haul__tree_first(&t, rank + 1); piece++) {
        numbers[piece] = piece + 0.1;
        numbers[8 + piece] = 1;
    }
    check(haul__group_sum_numbers(group, &call, &t, numbers, 2, totals));
    for (int piece = 0; piece < 8; piece++)
        assert_true(numbers[piece] == piece + 0.1);
    assert_true(totals[0] > 28.7 && totals[0] < 28.9 && totals[1] == 8);
    check(haul__group_or(group, &call, &bits));
    assert_int_equal(bits, (1u << size) - 1);
    check(haul__group_agree(group, &call, "pieces 8"));
}

static void test_group_ranks__messages_between_two_ranks(void **state)
{
    (void)state;
    if (size == 1) {
        assert_int_equal(haul__group_send(group, &call, &rank, (int64_t)sizeof rank, 0), HAUL_INVALID_ARGUMENT);
        return;
    }
    /* All send first. */
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int i = 0; i < 5; i++)
        check(haul__group_send(group, &call, &(int){rank * 10 + i}, (int64_t)sizeof(int), to));
    for (int i = 0; i < 5; i++) {
        int got = -1;
        check(haul__work_wait(haul__group_receive_begin(group, &call, &got, (int64_t)sizeof got, from)));
        assert_int_equal(got, from * 10 + i);
    }
}

static void test_group_ranks__split_makes_groups(void **state)
{
    (void)state;
    /* Even and odd ranks, in reverse order. */
    haul_group *half = haul_group_split(group, rank % 2, -rank);
    assert_non_null(half);
    assert_int_equal(haul_group_size(half), (size + 1 - rank % 2) / 2);
    double sum = rank;
    check(haul__work_wait(haul__group_sum_begin(
        half, &call, &(haul__tree){haul_group_size(half), haul_group_size(half)}, HAUL_F64, (void *[]){&sum}, 1)));
    double wanted = 0;
    for (int r = rank % 2; r < size; r += 2)
        wanted += r;
    assert_true(sum == wanted);
    haul_group_member m;
    check(haul_group_member_get(half, haul_group_size(half) - 1, &m));
    assert_int_equal(haul_group_rank(half), (size - 1 - rank) / 2);
    check(haul_group_barrier(half));
    check(haul_group_barrier(group));
}

static void test_group_ranks__bytes_are_counted(void **state)
{
    (void)state;
    haul_group_properties before, after;
    float                 x[64] = {0};
    check(haul_group_describe(group, &before));
    check(haul__work_wait(haul__group_sum_begin(group, &call, &(haul__tree){size, size}, HAUL_F32, (void *[]){x}, 64)));
    check(haul_group_describe(group, &after));
    assert_int_equal(after.collectives, before.collectives + 1);
    const int64_t sent = after.sent_bytes - before.sent_bytes;
    if (64 % size == 0)
        assert_int_equal(sent, 2 * (size - 1) * 256 / size);
}

static void test_group_ranks__bad_calls_are_refused(void **state)
{
    (void)state;
    float x = 0;
    assert_null(haul_group_get("nothing"));
    assert_non_null(strstr(haul_error_message(), "\"none\""));
    assert_null(haul_group_get(NULL));
    assert_null(haul_group_get("none", .limit = -1));
    assert_int_equal(haul_group_rank(NULL), -1);
    assert_int_equal(haul_group_size((haul_group *)haul_scalar(1)), -1);
    assert_null(haul_group_split(group, -1, 0));
    assert_null(haul__group_broadcast_begin(group, &call, &x, 4, size));
    assert_null(haul__group_sum_begin(group, &call, &(haul__tree){size, size + 1}, HAUL_F32, (void *[]){&x}, 1));
    assert_null(haul__group_sum_begin(group, &call, &(haul__tree){size, size}, HAUL_U8, (void *[]){&x}, 1));
    if (size > 1) {
        assert_null(haul__group_sum_begin(group, &call, &(haul__tree){size - 1, size}, HAUL_F32, (void *[]){&x}, 1));
        assert_non_null(strstr(haul_error_message(), "too few"));
    }
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_group_ranks__get_returns_the_same_group, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__properties_and_members, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__gather_has_all_portions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__exchange_brings_each_rank_its_portions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__broadcast_comes_from_the_root, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__the_librarys_own_sum_is_that_of_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__large_messages_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__sums_are_bit_identical_to_those_of_one_rank, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__sums_in_chunks_have_the_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__sums_of_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__several_sums_may_be_under_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__numbers_flags_and_options, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__messages_between_two_ranks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__split_makes_groups, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__bytes_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_group_ranks__bad_calls_are_refused, setup, teardown),
    };
    return run_on_ranks(tests, sizeof tests / sizeof *tests, group_setup);
}
