/* The tree of additions: the nodes of ranks, how a rank joins its pieces, and sums that are bit-identical for any
 * number of ranks. The ranks of a sum are simulated here, one after the other. */
#include "group/tree.h"

#include <stdlib.h>
#include <string.h>

#include "support/scope.h"

enum { COUNT = 37, MOST_PIECES = 70 };

/* Values of which few sums are exact. */
static void fill_piece(int piece, float out[COUNT])
{
    uint32_t state = (uint32_t)piece * 2654435761u + 12345;
    for (int i = 0; i < COUNT; i++) {
        state = state * 1664525u + 1013904223u;
        out[i] = ((float)(state >> 8) / 16777216.0f - 0.5f) * (float)(1 << (state & 7));
    }
}

/* What a rank does with its pieces: a stack of sums. Returns how many are left on it. */
static int add_pieces(const haul__tree *t, int rank, float stack[][COUNT])
{
    int height = 0;
    for (int piece = haul__tree_first(t, rank); piece < haul__tree_first(t, rank + 1); piece++) {
        fill_piece(piece, stack[height++]);
        for (int joins = haul__tree_joins(t, rank, piece); joins > 0; joins--) {
            height--;
            assert_true(height > 0);
            haul__tree_add(HAUL_F32, stack[height - 1], stack[height], COUNT);
        }
    }
    return height;
}

static void sum_over(int pieces, int ranks, float out[COUNT])
{
    static float     stacks[MOST_PIECES * 2][COUNT];
    void            *sums[MOST_PIECES * 2];
    const haul__tree t = {pieces, ranks};
    int              all = 0;
    for (int rank = 0; rank < ranks; rank++) {
        haul__tree_node nodes[HAUL__TREE_NODES];
        const int       count = add_pieces(&t, rank, &stacks[all]);
        assert_int_equal(count, haul__tree_nodes(&t, rank, nodes));
        for (int i = 0; i < count; i++)
            sums[all + i] = stacks[all + i];
        all += count;
    }
    memcpy(out, haul__tree_sum(&t, HAUL_F32, sums, COUNT), sizeof(float[COUNT]));
}

static void test_tree__sums_of_8_pieces_are_bit_identical_for_1_to_8_ranks(void **state)
{
    (void)state;
    const int ranks[] = {2, 3, 4, 5, 6, 7, 8};
    float     one[COUNT], other[COUNT];
    sum_over(8, 1, one);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        sum_over(8, ranks[i], other);
        assert_memory_equal(one, other, sizeof one);
    }
}

static void test_tree__sums_of_any_number_of_pieces_are_bit_identical(void **state)
{
    (void)state;
    float one[COUNT], other[COUNT];
    for (int pieces = 1; pieces <= MOST_PIECES; pieces += pieces < 20 ? 1 : 7) {
        sum_over(pieces, 1, one);
        for (int ranks = 2; ranks <= pieces; ranks++) {
            sum_over(pieces, ranks, other);
            assert_memory_equal(one, other, sizeof one);
        }
    }
}

/* Adding from left to right gives different bits, so the tests above can fail. */
static void test_tree__another_order_has_other_bits(void **state)
{
    (void)state;
    float tree[COUNT], sum[COUNT], piece[COUNT];
    sum_over(8, 1, tree);
    fill_piece(0, sum);
    for (int p = 1; p < 8; p++) {
        fill_piece(p, piece);
        haul__tree_add(HAUL_F32, sum, piece, COUNT);
    }
    assert_memory_not_equal(tree, sum, sizeof sum);
}

static void test_tree__nodes_are_the_largest_whole_subtrees(void **state)
{
    (void)state;
    haul__tree_node nodes[HAUL__TREE_NODES];
    assert_int_equal(haul__tree_nodes(&(haul__tree){8, 4}, 1, nodes), 1);
    assert_int_equal(nodes[0].from, 2);
    assert_int_equal(nodes[0].to, 4);
    /* Rank 1 of 3 has the pieces 2, 3 and 4, rank 2 those from 5 on. */
    assert_int_equal(haul__tree_nodes(&(haul__tree){8, 3}, 1, nodes), 2);
    assert_int_equal(nodes[0].from, 2);
    assert_int_equal(nodes[0].to, 4);
    assert_int_equal(nodes[1].to, 5);
    assert_int_equal(haul__tree_nodes(&(haul__tree){8, 3}, 2, nodes), 2);
    assert_int_equal(nodes[0].to, 6);
    assert_int_equal(nodes[1].to, 8);
}

static void test_tree__nodes_cover_all_pieces_in_order(void **state)
{
    (void)state;
    const int pieces[] = {1, 2, 3, 8, 13, 64, 1000, 1024};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        for (int ranks = 1; ranks <= pieces[i]; ranks += 1 + ranks / 7) {
            const haul__tree t = {pieces[i], ranks};
            int              next = 0;
            for (int rank = 0; rank < ranks; rank++) {
                haul__tree_node nodes[HAUL__TREE_NODES];
                const int       count = haul__tree_nodes(&t, rank, nodes);
                assert_in_range(count, 1, HAUL__TREE_NODES);
                for (int n = 0; n < count; n++) {
                    assert_int_equal(nodes[n].from, next);
                    next = nodes[n].to;
                }
            }
            assert_int_equal(next, pieces[i]);
        }
}

static void test_tree__integers_wrap_around(void **state)
{
    (void)state;
    int32_t a[] = {2147483647, -5};
    int64_t b[] = {INT64_MAX, 7};
    double  c[] = {0.5, 1e300};
    haul__tree_add(HAUL_I32, a, (int32_t[]){1, 2}, 2);
    haul__tree_add(HAUL_I64, b, (int64_t[]){1, -9}, 2);
    haul__tree_add(HAUL_F64, c, (double[]){0.25, 1e300}, 2);
    assert_int_equal(a[0], INT32_MIN);
    assert_int_equal(a[1], -3);
    assert_true(b[0] == INT64_MIN && b[1] == -2);
    assert_true(c[0] == 0.75 && c[1] == 2e300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree__sums_of_8_pieces_are_bit_identical_for_1_to_8_ranks),
        cmocka_unit_test(test_tree__sums_of_any_number_of_pieces_are_bit_identical),
        cmocka_unit_test(test_tree__another_order_has_other_bits),
        cmocka_unit_test(test_tree__nodes_are_the_largest_whole_subtrees),
        cmocka_unit_test(test_tree__nodes_cover_all_pieces_in_order),
        cmocka_unit_test(test_tree__integers_wrap_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
