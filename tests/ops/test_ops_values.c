/* Results whose shape depends on values: what they are, their edges, waits, fixed sizes, recorded steps, and errors.
 *
 * ctest: cuda; labels=threads; cuda-labels=none; ptx */
#include <string.h>

#include "support/failure.h"
#include "support/into.h"

static haul_tensor *floats(haul_device *device, int64_t count, const float *values)
{
    return haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(count), values), device);
}

static haul_tensor *integers(haul_device *device, int64_t count, const int64_t *values)
{
    return haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(count), values), device);
}

/* Numbers from -limit to limit, whole ones. */
static haul_tensor *whole(haul_device *device, int64_t count, double limit, unsigned seed, double **values)
{
    haul_tensor *x = haul_round(haul_mul_scalar(sample_tensor(device, HAUL_F32, HAUL_SHAPE(count), seed, NULL), limit));
    if (values) {
        *values = calloc((size_t)count + 1, sizeof **values);
        assert_non_null(*values);
        assert_succeeded(haul_read(haul_cast(x, HAUL_F64), *values, (size_t)count * sizeof **values), "read");
    }
    return x;
}

/* ---- nonzero and masks ---- */

static void nonzero_by_hand(haul_device *device)
{
    haul_tensor *x = floats(device, 6, (float[]){0, 3, -0.0F, NAN, 0, -1});
    haul_tensor *matrix = haul_reshape(x, HAUL_SHAPE(2, 3)), *y = haul_nonzero(matrix);
    assert_int_equal(haul_tensor_dtype(y), HAUL_I64);
    assert_close(y, (double[]){0, 1, 1, 0, 1, 2}, 6, 0, "a matrix");
    assert_int_equal(haul_tensor_dim(y, 1), 2);
    assert_close(haul_nonzero(x), (double[]){1, 3, 5}, 3, 0, "a vector");
    assert_close(haul_nonzero(haul_transpose(matrix, 0, 1)), (double[]){0, 1, 1, 0, 2, 1}, 6, 0, "a view");
    assert_close(haul_nonzero(x, .size = 2), (double[]){1, 3}, 2, 0, "fewer");
    assert_close(haul_nonzero(x, .size = 5), (double[]){1, 3, 5, -1, -1}, 5, 0, "more");
    assert_close(haul_nonzero(x, .size = 4, .fill = HAUL_ZERO), (double[]){1, 3, 5, 0}, 4, 0, "filled with 0");
    assert_close(haul_nonzero(x, .size = HAUL_ZERO), NULL, 0, 0, "none wanted");
    assert_close(haul_nonzero(haul_zeros_like(x)), NULL, 0, 0, "all zero");
    assert_close(haul_nonzero(haul_slice(x, 0, 0, 0, 1)), NULL, 0, 0, "of nothing");
    y = haul_nonzero(haul_select(x, 0, 1));
    assert_true(haul_tensor_dim(y, 0) == 1 && haul_tensor_dim(y, 1) == 0);
}

static void test_values__nonzero(void **state)
{
    (void)state;
    on_devices(nonzero_by_hand);
}

/* Long masks, over several chunks and groups, dense and sparse, against loops. */
static void long_masks(haul_device *device)
{
    enum { COUNT = 70001 };
    double      *v, *want = calloc(COUNT, sizeof *want);
    haul_tensor *x = whole(device, COUNT, 100, 5, &v);
    assert_non_null(want);
    for (double above = -200; above <= 99; above += 149.5) {
        int64_t n = 0;
        for (int64_t i = 0; i < COUNT; i++)
            if (v[i] > above)
                want[n++] = (double)i;
        haul_tensor *mask = haul_gt_scalar(x, above);
        assert_close(haul_nonzero(mask), want, n, 0, "positions");
        haul_tensor *rows = haul_nonzero(haul_reshape(haul_slice(mask, 0, 0, 70000, 1), HAUL_SHAPE(70, 50, 20)));
        haul_tensor *flat = haul_add(
            haul_add(haul_mul_scalar(haul_select(rows, 1, 0), 1000), haul_mul_scalar(haul_select(rows, 1, 1), 20)),
            haul_select(rows, 1, 2));
        assert_close(flat, want, n - (n && want[n - 1] == 70000), 0, "rows of indices");
        for (int64_t k = 0; k < n; k++)
            want[k] = v[(int64_t)want[k]];
        haul_tensor *taken = haul_masked_select(x, mask);
        assert_close(taken, want, n, 0, "elements");
        assert_equal_bits(haul_masked_scatter(haul_masked_fill(x, mask, 7), mask, taken), x, "put back");
    }
    free(v);
    free(want);
}

static void test_values__long_masks(void **state)
{
    (void)state;
    on_devices(long_masks);
}

static void masks_by_hand(haul_device *device)
{
    haul_tensor *x = haul_reshape(floats(device, 6, (float[]){1, 2, 3, 4, 5, 6}), HAUL_SHAPE(2, 3));
    haul_tensor *mask = haul_gt_scalar(x, 4), *columns = haul_lt_scalar(haul_select(x, 0, 0), 3);
    assert_close(haul_masked_select(x, mask), (double[]){5, 6}, 2, 0, "a mask");
    assert_close(haul_masked_select(x, columns), (double[]){1, 2, 4, 5}, 4, 0, "of columns");
    assert_close(haul_masked_select(haul_transpose(x, 0, 1), haul_transpose(mask, 0, 1)), (double[]){5, 6}, 2, 0,
                 "views");
    assert_close(haul_masked_select(haul_select(x, 0, 0), mask), (double[]){2, 3}, 2, 0, "x broadcasts");
    assert_close(haul_masked_select(x, mask, .size = 3), (double[]){5, 6, 0}, 3, 0, "padded");
    assert_close(haul_masked_select(x, mask, .size = 1), (double[]){5}, 1, 0, "cut");
    haul_tensor *source = floats(device, 5, (float[]){10, 20, 30, 40, 50});
    assert_close(haul_masked_scatter(x, mask, source), (double[]){1, 2, 3, 4, 10, 20}, 6, 0, "scattered");
    assert_close(haul_masked_scatter(x, columns, source), (double[]){10, 20, 3, 30, 40, 6}, 6, 0, "to columns");
    assert_int_equal(haul_tensor_dtype(haul_masked_scatter(haul_cast(x, HAUL_I32), mask, source)), HAUL_F32);
    assert_close(haul_masked_scatter(x, haul_lt_scalar(x, 0), haul_slice(source, 0, 0, 0, 1)),
                 (double[]){1, 2, 3, 4, 5, 6}, 6, 0, "nothing to put");
}

static void test_values__masks(void **state)
{
    (void)state;
    on_devices(masks_by_hand);
}

/* ---- distinct elements and search ---- */

static void unique_by_hand(haul_device *device)
{
    haul_tensor *x = floats(device, 7, (float[]){2, -1, 2, NAN, 0, -0.0F, NAN}), *inverse, *counts;
    haul_tensor *y = haul_unique(x, .inverse = &inverse, .counts = &counts);
    assert_int_equal(haul_tensor_count(y), 5);
    assert_close(haul_slice(y, 0, 0, 3, 1), (double[]){-1, 0, 2}, 3, 0, "sorted");
    assert_close(counts, (double[]){1, 2, 2, 1, 1}, 5, 0, "counts");
    assert_close(inverse, (double[]){2, 0, 2, 3, 1, 1, 4}, 7, 0, "inverse");
    haul_tensor *runs = integers(device, 6, (int64_t[]){1, 1, 2, 2, 1, 3});
    y = haul_unique(haul_reshape(runs, HAUL_SHAPE(2, 3)), .consecutive = true, .inverse = &inverse, .counts = &counts);
    assert_close(y, (double[]){1, 2, 1, 3}, 4, 0, "runs");
    assert_close(counts, (double[]){2, 2, 1, 1}, 4, 0, "lengths of runs");
    assert_close(inverse, (double[]){0, 0, 1, 1, 2, 3}, 6, 0, "numbers of runs");
    assert_int_equal(haul_tensor_ndim(inverse), 2);
    y = haul_unique(runs, .size = 5, .counts = &counts);
    assert_close(y, (double[]){1, 2, 3, 3, 3}, 5, 0, "padded");
    assert_close(counts, (double[]){3, 2, 1, 0, 0}, 5, 0, "padded counts");
    assert_close(haul_unique(runs, .size = 2, .counts = &counts), (double[]){1, 2}, 2, 0, "cut");
    assert_close(counts, (double[]){3, 2}, 2, 0, "cut counts");
    assert_close(haul_unique(haul_slice(runs, 0, 0, 0, 1)), NULL, 0, 0, "of nothing");
    assert_close(haul_unique(haul_gt_scalar(runs, 1)), (double[]){0, 1}, 2, 0, "bools");
    assert_close(haul_unique(haul_select(runs, 0, 2)), (double[]){2}, 1, 0, "no dimensions");
}

static void test_values__unique(void **state)
{
    (void)state;
    on_devices(unique_by_hand);
}

/* Against haul_bincount, and values at the inverse are x again. */
static void unique_of_many(haul_device *device)
{
    haul_tensor *x = haul_cast(haul_abs(whole(device, 30000, 300, 9, NULL)), HAUL_I32), *inverse, *counts;
    haul_tensor *y = haul_unique(x, .inverse = &inverse, .counts = &counts), *all = haul_bincount(x);
    assert_equal_bits(haul_index_select(y, 0, inverse), x, "the inverse");
    assert_equal_bits(haul_masked_select(all, haul_gt_scalar(all, 0)), counts, "the counts");
    assert_equal_bits(haul_cast(haul_nonzero(all), HAUL_I32), y, "the values");
    assert_equal_bits(haul_isin(haul_arange_i64(0, 0, 1), y), haul_zeros(HAUL_BOOL, HAUL_SHAPE(0)), "nothing");
    haul_tensor *even = haul_index_select(y, 0, haul_to(haul_arange_i64(0, haul_tensor_count(y), 2), device));
    haul_tensor *found = haul_isin(x, even), *rank = haul_searchsorted(even, x, false);
    haul_tensor *after = haul_searchsorted(even, x, true);
    assert_equal_bits(found, haul_ne(rank, after), "found where both searches differ");
}

static void test_values__many_distinct(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    haul_set_device(haul_cpu());
    unique_of_many(haul_cpu());
    haul_scope_pop(scope);
}

static void search_by_hand(haul_device *device)
{
    haul_tensor *row = floats(device, 5, (float[]){1, 3, 3, 5, NAN});
    haul_tensor *values = floats(device, 6, (float[]){0, 3, 4, 9, NAN, 1});
    assert_close(haul_searchsorted(row, values, false), (double[]){0, 1, 3, 4, 4, 0}, 6, 0, "left");
    assert_close(haul_searchsorted(row, values, true), (double[]){0, 3, 3, 4, 5, 1}, 6, 0, "right");
    assert_close(haul_bucketize(values, haul_slice(row, 0, 0, 4, 1), true), (double[]){0, 3, 3, 4, 4, 1}, 6, 0, "bins");
    assert_close(haul_searchsorted(haul_slice(row, 0, 0, 0, 1), values, true), (double[]){0, 0, 0, 0, 0, 0}, 6, 0,
                 "in nothing");
    haul_tensor *rows = haul_reshape(floats(device, 4, (float[]){1, 2, 3, 4}), HAUL_SHAPE(2, 2));
    assert_close(haul_searchsorted(rows, haul_reshape(haul_slice(values, 0, 0, 4, 1), HAUL_SHAPE(2, 2)), false),
                 (double[]){0, 2, 1, 2}, 4, 0, "rows");
    assert_close(haul_isin(values, row), (double[]){0, 1, 0, 0, 0, 1}, 6, 0, "isin");
    assert_close(haul_isin(values, haul_slice(row, 0, 0, 0, 1)), (double[]){0, 0, 0, 0, 0, 0}, 6, 0, "isin nothing");
}

static void test_values__search(void **state)
{
    (void)state;
    on_devices(search_by_hand);
}

/* ---- counts ---- */

static void counts_by_hand(haul_device *device)
{
    haul_tensor *x = integers(device, 6, (int64_t[]){3, 0, 1, 3, 3, 1}), *edges;
    assert_close(haul_bincount(x), (double[]){1, 2, 0, 3}, 4, 0, "counts");
    assert_close(haul_bincount(x, .minlength = 6), (double[]){1, 2, 0, 3, 0, 0}, 6, 0, "a least length");
    assert_close(haul_bincount(x, .size = 5), (double[]){1, 2, 0, 3, 0}, 5, 0, "a fixed size");
    assert_close(haul_bincount(haul_cast(x, HAUL_U8), .weights = haul_mul_scalar(haul_cast(x, HAUL_F32), 0.5)),
                 (double[]){0, 1, 0, 4.5}, 4, 0, "weights");
    assert_close(haul_bincount(haul_slice(x, 0, 0, 0, 1), .minlength = 2), (double[]){0, 0}, 2, 0, "of nothing");
    haul_tensor *v = floats(device, 8, (float[]){0, 0.5F, 1, 2, 4, -1, NAN, 5});
    assert_close(haul_histogram(v, .bins = 4, .high = 4, .made_edges = &edges), (double[]){2, 1, 1, 1}, 4, 0, "bins");
    assert_close(edges, (double[]){0, 1, 2, 3, 4}, 5, 0, "edges");
    assert_close(haul_histogram(v, .edges = floats(device, 4, (float[]){-1, 0, 2, 5})), (double[]){1, 3, 3}, 3, 0,
                 "uneven bins");
    haul_tensor *some = haul_slice(v, 0, 0, 5, 1);
    assert_close(haul_histogram(some, .bins = 2, .made_edges = &edges), (double[]){3, 2}, 2, 0, "of all elements");
    assert_close(edges, (double[]){0, 2, 4}, 3, 0, "made edges");
    assert_close(haul_histogram(haul_zeros_like(v), .bins = 2, .made_edges = &edges), (double[]){0, 8}, 2, 0, "equal");
    assert_close(edges, (double[]){-1, 0, 1}, 3, 0, "edges around equal elements");
    assert_close(haul_histogram(v, .bins = 2), (double[]){0, 0}, 2, 0, "a NaN has no edges");
    assert_close(haul_histogram(haul_slice(v, 0, 0, 0, 1), .bins = 2), (double[]){0, 0}, 2, 0, "of nothing");
    assert_close(haul_histogram(x, .bins = 3), (double[]){1, 2, 3}, 3, 0, "integers");
}

static void test_values__counts(void **state)
{
    (void)state;
    on_devices(counts_by_hand);
}

/* Several parts, or a long sort: every element is in one bin, and the bins are those that a search finds. */
static void many_counts(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(200000), 3, NULL), *edges;
    haul_tensor *counts = haul_histogram(x, .bins = 37, .made_edges = &edges);
    assert_true(haul_item_i64(haul_sum(counts)) == 200000);
    haul_tensor *bins = haul_clamp(haul_sub_scalar(haul_searchsorted(edges, x, true), 1), 0, 36);
    assert_equal_bits(haul_bincount(bins, .size = 37), counts, "the same bins");
    assert_equal_bits(haul_histogram(x, .edges = edges), counts, "the same edges");
}

static void test_values__many_counts(void **state)
{
    (void)state;
    on_devices(many_counts);
}

/* ---- elements repeated as often as a tensor says ---- */

static void repeated(haul_device *device)
{
    haul_tensor *x = integers(device, 4, (int64_t[]){5, 6, 7, 8}),
                *counts = integers(device, 4, (int64_t[]){2, 0, 1, 3});
    haul_tensor *rows = haul_set_requires_grad(haul_cast(haul_reshape(x, HAUL_SHAPE(2, 2)), HAUL_F32), true), *g;
    assert_close(haul_repeat_interleave_counts(x, 0, counts), (double[]){5, 5, 7, 8, 8, 8}, 6, 0, "all");
    assert_close(haul_repeat_interleave_counts(x, 0, haul_cast(counts, HAUL_U8), .size = 8),
                 (double[]){5, 5, 7, 8, 8, 8, 0, 0}, 8, 0, "more");
    assert_close(haul_repeat_interleave_counts(x, -1, counts, .size = 4), (double[]){5, 5, 7, 8}, 4, 0, "fewer");
    haul_tensor *y = haul_repeat_interleave_counts(rows, 1, haul_slice(counts, 0, 2, 4, 1));
    assert_close(y, (double[]){5, 6, 6, 6, 7, 8, 8, 8}, 8, 0, "columns");
    assert_int_equal(haul_grad(haul_sum(y), &rows, 1, &g), HAUL_OK);
    assert_close(g, (double[]){1, 3, 1, 3}, 4, 0, "the gradient");
    haul_tensor *none = haul_slice(x, 0, 0, 0, 1);
    assert_int_equal(haul_tensor_count(haul_repeat_interleave_counts(none, 0, none)), 0);
    assert_close(haul_repeat_interleave_counts(none, 0, none, .size = 2), (double[]){0, 0}, 2, 0, "of nothing");
    assert_int_equal(haul_tensor_count(haul_repeat_interleave_counts(x, 0, haul_zeros_like(counts))), 0);
    assert_int_equal(haul_tensor_count(haul_repeat_interleave_counts(x, 0, counts, .size = HAUL_ZERO)), 0);
    assert_refused(haul_repeat_interleave_counts(x, 0, haul_sub_scalar(counts, 1)), HAUL_INVALID_ARGUMENT,
                   "a count is negative");
    assert_refused(haul_repeat_interleave_counts(x, 0, rows), HAUL_DTYPE, "counts");
    assert_refused(haul_repeat_interleave_counts(x, 0, haul_slice(counts, 0, 0, 3, 1)), HAUL_SHAPE,
                   "counts has shape [3]; [4] is expected");
    assert_refused(haul_repeat_interleave_counts(x, 1, counts), HAUL_INVALID_ARGUMENT, "axis");
    assert_refused(haul_repeat_interleave_counts(x, 0, counts, .size = -1), HAUL_INVALID_ARGUMENT, "size is -1");
}

static void test_values__repeated_by_counts(void **state)
{
    (void)state;
    on_devices(repeated);
}

/* ---- waits, and where there are no values ---- */

/* A result without a fixed size takes one wait on a device that does not compute at once; one with a fixed size none.
 */
static void waits(haul_device *device)
{
    haul_tensor  *x = integers(device, 5, (int64_t[]){2, 0, 2, 1, 0}), *mask = haul_gt_scalar(x, 0), *counts;
    const int64_t each = device == haul_cpu() || !strncmp(haul_device_name(device), "sim", 3) ? 0 : 1;
    int64_t       at = haul_sync_count();
    assert_valid(haul_nonzero(x));
    assert_int_equal(haul_sync_count() - at, each);
    assert_valid(haul_masked_select(x, mask));
    assert_int_equal(haul_sync_count() - at, 2 * each);
    assert_valid(haul_unique(x, .counts = &counts));
    assert_int_equal(haul_sync_count() - at, 3 * each);
    assert_valid(haul_bincount(x));
    assert_int_equal(haul_sync_count() - at, 4 * each);
    assert_valid(haul_repeat_interleave_counts(x, 0, x));
    assert_int_equal(haul_sync_count() - at, 5 * each);
    assert_valid(haul_nonzero(x, .size = 4));
    assert_valid(haul_masked_select(x, mask, .size = 4));
    assert_valid(haul_masked_scatter(x, mask, x));
    assert_valid(haul_unique(x, .size = 4, .counts = &counts));
    assert_valid(haul_bincount(x, .size = 4));
    assert_valid(haul_repeat_interleave_counts(x, 0, x, .size = 4));
    assert_valid(haul_histogram(x, .bins = 4));
    assert_int_equal(haul_sync_count() - at, 5 * each);
}

static void test_values__one_wait(void **state)
{
    (void)state;
    on_devices(waits);
}

static void assert_needs_size(haul_tensor *t)
{
    assert_failed(t);
    assert_non_null(strstr(haul_error_message(), ".size"));
    haul_error_clear();
}

static void test_values__meta_needs_a_size(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    haul_set_device(haul_device_get("meta"));
    haul_tensor *x = haul_empty(HAUL_I64, HAUL_SHAPE(3, 4)), *mask = haul_empty(HAUL_BOOL, HAUL_SHAPE(4)), *counts;
    assert_needs_size(haul_nonzero(x));
    assert_needs_size(haul_masked_select(x, mask));
    assert_needs_size(haul_unique(x, .counts = &counts));
    assert_failed(counts);
    assert_needs_size(haul_bincount(x));
    assert_needs_size(haul_repeat_interleave_counts(x, 0, haul_empty(HAUL_I64, HAUL_SHAPE(3))));
    assert_needs_size(haul_index(x, HAUL_ALL, mask));
    assert_int_equal(haul_tensor_count(haul_nonzero(x, .size = 5)), 10);
    assert_int_equal(haul_tensor_count(haul_unique(x, .size = 5, .counts = &counts)), 5);
    assert_int_equal(haul_tensor_count(counts), 5);
    haul_scope_pop(scope);
}

typedef struct step_data {
    haul_tensor *x, *y;
    bool         bounded;
} step_data;

static haul_status step(void *context)
{
    step_data   *s = context;
    haul_tensor *mask = haul_gt_scalar(s->x, 0);
    haul_tensor *y = s->bounded ? haul_masked_select(s->x, mask, .size = 8) : haul_masked_select(s->x, mask);
    return haul_copy_into(s->y, haul_sum(y));
}

static void recorded(bool bounded)
{
    haul_recording_report report;
    step_data             s = {.x = haul_arange(HAUL_F32, -4, 4, 1), .y = haul_scalar(0), .bounded = bounded};
    haul_recording       *r = haul_recording_new(step, &s);
    for (int i = 0; i < 5; i++) {
        assert_succeeded(haul_recording_run(r), "a step");
        assert_float_equal(haul_item(s.y), 6, 0);
    }
    assert_succeeded(haul_recording_report_get(r, &report), "the report");
    assert_true(bounded ? report.followed > 0 : report.followed == 0);
    assert_true(bounded || strstr(report.reason, ".size"));
}

static void test_values__recorded_steps(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    recorded(true);
    recorded(false);
    haul_scope_pop(scope);
}

/* ---- errors ---- */

static void assert_says(haul_tensor *t, const char *text)
{
    assert_failed(t);
    if (!strstr(haul_error_message(), text))
        fail_msg("'%s' is not in '%s'", text, haul_error_message());
    haul_error_clear();
}

static void test_values__wrong_arguments(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_arange(HAUL_F32, 0, 6, 1), *m = haul_gt_scalar(x, 2), *i = haul_arange_i64(-1, 3, 1);
    haul_tensor *table = haul_reshape(x, HAUL_SHAPE(2, 3)), *out;
    assert_says(haul_nonzero(x, .size = -3), "size is -3");
    assert_says(haul_nonzero(NULL), "haul_nonzero");
    assert_says(haul_nonzero_with(NULL), "haul_nonzero");
    assert_says(haul_masked_select(x, x), "mask");
    assert_says(haul_masked_select(x, haul_slice(m, 0, 0, 4, 1)), "haul_masked_select");
    assert_says(haul_masked_scatter(x, m, haul_slice(x, 0, 0, 2, 1)), "mask has 3 true elements, but source has 2");
    assert_says(haul_unique(x, .size = -1, .counts = &out), "size is -1");
    assert_failed(out);
    assert_says(haul_searchsorted(table, x, false), "sorted has shape [2,3]");
    assert_says(haul_bucketize(x, table, false), "edges has shape [2,3]");
    assert_says(haul_bincount(i), "x[0] is -1");
    assert_says(haul_bincount(haul_slice(i, 0, 0, 1, 1)), "the largest number in x is -1");
    assert_says(haul_bincount(haul_slice(i, 0, 1, 4, 1), .size = 2), "x[2] is 2");
    assert_says(haul_bincount(x), "haul_bincount");
    assert_says(haul_bincount(haul_abs(i), .weights = x), "weights has shape [6]");
    assert_says(haul_bincount(haul_abs(i), .minlength = -1), "minlength is -1");
    assert_says(haul_histogram(x, .bins = -1), "bins is -1");
    assert_says(haul_histogram(x, .low = 2, .high = 1), "low is 2");
    assert_says(haul_histogram(x, .bins = 3, .edges = x, .made_edges = &out), "omit bins");
    assert_failed(out);
    assert_says(haul_histogram(x, .edges = haul_slice(x, 0, 0, 1, 1)), "edges has shape [1]");
    haul_scope_pop(scope);
}

/* A source that is too short, and a number out of range: the call fails, or the next one that reads. */
static void faults(haul_device *device)
{
    haul_tensor *x = integers(device, 4, (int64_t[]){1, 2, 9, 3}), *mask = haul_gt_scalar(x, 0);
    haul_tensor *y = haul_masked_scatter(x, mask, haul_slice(x, 0, 0, 2, 1));
    double       value = haul_tensor_is_valid(y) ? haul_item(haul_select(y, 0, 0)) : NAN;
    assert_true(isnan(value) && strstr(haul_error_message(), "mask has 4 true elements, but source has 2"));
    haul_error_clear();
    y = haul_bincount(x, .size = 5);
    value = haul_tensor_is_valid(y) ? haul_item(haul_select(y, 0, 0)) : NAN;
    assert_true(isnan(value) && strstr(haul_error_message(), "is 9, but there are 5 counts"));
    haul_error_clear();
}

static void test_values__faults(void **state)
{
    (void)state;
    on_devices(faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values__nonzero),
        cmocka_unit_test(test_values__long_masks),
        cmocka_unit_test(test_values__masks),
        cmocka_unit_test(test_values__unique),
        cmocka_unit_test(test_values__many_distinct),
        cmocka_unit_test(test_values__search),
        cmocka_unit_test(test_values__counts),
        cmocka_unit_test(test_values__many_counts),
        cmocka_unit_test(test_values__repeated_by_counts),
        cmocka_unit_test(test_values__one_wait),
        cmocka_unit_test(test_values__meta_needs_a_size),
        cmocka_unit_test(test_values__recorded_steps),
        cmocka_unit_test(test_values__wrong_arguments),
        cmocka_unit_test(test_values__faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
