/* Subsets, splits and sums of datasets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <string.h>

#include "base/alloc.h"
#include "core/thread.h"

static void expect(haul_status status, const char *words)
{
    if (haul_error_status() != status || !strstr(haul_error_message(), words))
        fail_msg("%s (expected: %s)", haul_error_message(), words);
    haul_error_clear();
}

/* `count` numbers from `first` on, as x. */
static haul_dataset *numbers(double first, int64_t count)
{
    const haul_named_tensor x = {.name = "x", .tensor = haul_arange(HAUL_F64, first, first + (double)count, 1)};
    return haul_dataset_from_named(&x, 1);
}

/* The x of all examples of an epoch; returns how many there are. */
static int64_t values(haul_dataset *data, double *out)
{
    int64_t      count = 0;
    haul_loader *loader = haul_loader_new(data, .batch = 3, .workers = 1);
    if (haul_loader_start(loader, 0))
        fail_msg("%s", haul_error_message());
    for (const haul_batch *b; (b = haul_loader_next(loader)); count += b->size)
        assert_int_equal(haul_read(b->x, out + count, (size_t)b->size * sizeof *out), HAUL_OK);
    assert_int_equal(haul_loader_status(loader), HAUL_END_OF_DATA);
    return count;
}

static void test_subset__has_the_examples_named(void **state)
{
    (void)state;
    static const int64_t indices[] = {4, 0, 4, 2};
    double               out[8];
    haul_scope          *scope = haul_scope_push();
    haul_dataset        *subset = haul_dataset_subset(numbers(10, 5), indices, 4);
    assert_int_equal(values(subset, out), 4);
    for (int i = 0; i < 4; i++)
        assert_true(out[i] == 10 + (double)indices[i]);
    haul_dataset *few = haul_dataset_subset(subset, (const int64_t[]){3, 0}, 2);
    assert_int_equal(values(few, out), 2);
    assert_true(out[0] == 12 && out[1] == 14);
    haul_scope_pop(scope);
}

static void test_subset__wrong_indices_are_refused(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_null(haul_dataset_subset(numbers(0, 5), (const int64_t[]){0, 5}, 2));
    expect(HAUL_INVALID_ARGUMENT, "indices[1] is 5, but tensors has 5 examples");
    assert_null(haul_dataset_subset(numbers(0, 5), (const int64_t[]){-1}, 1));
    expect(HAUL_INVALID_ARGUMENT, "indices[0] is -1");
    assert_null(haul_dataset_subset(numbers(0, 5), NULL, 1));
    expect(HAUL_INVALID_ARGUMENT, "indices");
    assert_int_equal(haul_dataset_count(haul_dataset_subset(numbers(0, 5), NULL, 0)), 0);
    haul_scope_pop(scope);
}

static void test_split__parts_share_nothing_and_repeat(void **state)
{
    (void)state;
    static const int64_t sizes[] = {12, 6, 5};
    double               out[32], again[32];
    haul_scope          *scope = haul_scope_push();
    haul_dataset        *parts[3] = {NULL}, *same[3] = {NULL}, *other[3] = {NULL};
    int                  seen[23] = {0}, moved = 0;
    int64_t              at = 0;
    haul_dataset_split(parts, numbers(0, 23), .fractions = {0.5, 0.25, 0.25}, .seed = 3);
    haul_dataset_split(same, numbers(0, 23), .counts = {12, 6, 5}, .seed = 3);
    haul_dataset_split(other, numbers(0, 23), .counts = {12, 6, 5}, .seed = 4);
    for (int i = 0; i < 3; i++) {
        int64_t n = values(parts[i], out + at);
        assert_int_equal(n, sizes[i]);
        assert_int_equal(values(same[i], again + at), n);
        at += n;
    }
    assert_memory_equal(out, again, 23 * sizeof *out);
    values(other[0], again);
    assert_memory_not_equal(out, again, 12 * sizeof *out);
    for (int i = 0; i < 23; i++) {
        seen[(int)out[i]]++;
        moved += out[i] != i;
    }
    for (int i = 0; i < 23; i++)
        assert_int_equal(seen[i], 1);
    assert_true(moved > 10);
    haul_dataset_split(parts, numbers(0, 5), .counts = {2, 3}, .in_order = true);
    values(parts[1], out);
    assert_true(out[0] == 2 && out[2] == 4);
    haul_scope_pop(scope);
}

static void test_split__wrong_sizes_are_refused(void **state)
{
    (void)state;
    haul_scope   *scope = haul_scope_push();
    haul_dataset *parts[2] = {NULL}, *data = numbers(0, 10);
    haul_dataset_split(parts, data, .fractions = {0.5, 0.4});
    expect(HAUL_INVALID_ARGUMENT, "add up to 0.9 instead of 1");
    haul_dataset_split(parts, data, .fractions = {1.5, -0.5});
    expect(HAUL_INVALID_ARGUMENT, "fraction 0 is 1.5");
    haul_dataset_split(parts, data, .counts = {5, 4});
    expect(HAUL_INVALID_ARGUMENT, "add up to 9, but the dataset has 10");
    haul_dataset_split(parts, data, .counts = {5, 5}, .fractions = {1});
    expect(HAUL_INVALID_ARGUMENT, "both given");
    haul_dataset_split(parts, data, .seed = 1);
    expect(HAUL_INVALID_ARGUMENT, "neither");
    assert_null(parts[0]);
    haul_scope_pop(scope);
}

static void test_concat__is_one_after_the_other(void **state)
{
    (void)state;
    double        out[16];
    haul_scope   *scope = haul_scope_push();
    haul_dataset *all = haul_dataset_concat(numbers(0, 3), numbers(0, 0), numbers(10, 2), numbers(20, 4));
    assert_int_equal(values(all, out), 9);
    for (int i = 0; i < 9; i++)
        assert_true(out[i] == (i < 3 ? i : i < 5 ? i + 7 : i + 15));
    assert_null(haul_dataset_concat(numbers(0, 3), haul_blobs(2)));
    expect(HAUL_INVALID_ARGUMENT, "dataset 0 has 1 fields, dataset 1 has 2");
    assert_null(haul_dataset_concat(haul_blobs(2), haul_shapes(2)));
    expect(HAUL_INVALID_ARGUMENT, "field 0 is x f32[10] with 0 classes in dataset 0, and x u8[3,32,32]");
    haul_scope_pop(scope);
}

static haul_status endless(void *context, haul_example *e)
{
    (void)context, (void)e;
    return HAUL_OK;
}

static haul_status add_draw(void *context, haul_example *e)
{
    (void)context;
    *(double *)e->fields[0].data += haul_draw_unit(&e->draws);
    return HAUL_OK;
}

/* Each part may have transforms of its own, and examples have the random numbers of the loader's dataset. */
static void test_data_subset__may_be_mapped(void **state)
{
    (void)state;
    double          out[8];
    haul_scope     *scope = haul_scope_push();
    haul_transform *add = haul_transform_new(add_draw);
    haul_dataset   *inner = haul_dataset_map(numbers(0, 2), add);
    haul_dataset   *all = haul_dataset_map(haul_dataset_concat(numbers(5, 1), inner), add);
    assert_int_equal(values(all, out), 3);
    haul_draws d = haul_draws_new(0, 0, 2);
    double     first = haul_draw_unit(&d), second = haul_draw_unit(&d);
    assert_true(out[2] == 1 + first + second);
    haul_dataset *unknown = haul_dataset_new(
        &(haul_dataset_source){.fields = {{.name = "x", .dtype = HAUL_F64}}, .count = HAUL_UNKNOWN, .read = endless});
    assert_null(haul_dataset_concat(numbers(0, 1), unknown));
    expect(HAUL_UNSUPPORTED, "the count of dataset is unknown");
    haul_scope_pop(scope);
}

static void test_data_subset__every_failing_allocation_is_an_error(void **state)
{
    (void)state;
    haul_scope   *outer = haul_scope_push();
    haul_dataset *data = numbers(0, 6);
    bool          whole = false;
    for (int64_t nth = 1; !whole; nth++) {
        int64_t       blocks = haul__host_blocks();
        haul_scope   *scope = haul_scope_push();
        haul_dataset *parts[2] = {NULL};
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul_status status = haul_dataset_split(parts, data, .fractions = {0.5, 0.5});
        whole = status == HAUL_OK && haul_dataset_concat(parts[1], parts[0], data);
        haul__fault_plan(0, 0);
        assert_int_equal(whole, haul_error_status() == HAUL_OK);
        haul_error_clear();
        haul_scope_pop(scope);
        assert_int_equal(haul__host_blocks(), blocks);
    }
    haul_scope_pop(outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subset__has_the_examples_named),
        cmocka_unit_test(test_subset__wrong_indices_are_refused),
        cmocka_unit_test(test_split__parts_share_nothing_and_repeat),
        cmocka_unit_test(test_split__wrong_sizes_are_refused),
        cmocka_unit_test(test_concat__is_one_after_the_other),
        cmocka_unit_test(test_data_subset__may_be_mapped),
        cmocka_unit_test(test_data_subset__every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
