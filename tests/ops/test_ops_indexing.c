/* gather, scatter_add, embedding, one_hot, extremes with indices: what they compute, order of additions, edges,
 * targets, errors.
 *
 * ctest: cuda; labels=threads; cuda-labels=none; ptx */
#include <string.h>

#include "support/failure.h"
#include "support/into.h"

static haul_tensor *counting(haul_device *device, haul_dtype dtype, haul_shape shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    return haul_reshape(haul_to(haul_arange(dtype, 0, (double)count, 1), device), shape);
}

static haul_tensor *indices(haul_device *device, haul_shape shape, const int64_t *values)
{
    return haul_to(haul_from_host(HAUL_I64, shape, values), device);
}

/* ---- gather ---- */

static void gathering(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_F32, HAUL_SHAPE(2, 3));
    haul_tensor *rows = indices(device, HAUL_SHAPE(2, 2), (int64_t[]){2, 0, 1, 1});
    haul_tensor *columns = indices(device, HAUL_SHAPE(1, 3), (int64_t[]){1, 0, 1});
    assert_close(haul_gather(x, 1, rows), (double[]){2, 0, 4, 4}, 4, 0, "rows");
    assert_close(haul_gather(x, -2, columns), (double[]){3, 1, 5}, 3, 0, "columns");
    assert_close(haul_gather(haul_transpose(x, 0, 1), 0, haul_transpose(rows, 0, 1)), (double[]){2, 4, 0, 4}, 4, 0,
                 "views");
    assert_close(haul_gather(x, 1, haul_slice(rows, 0, 1, 2, 1)), (double[]){1, 1}, 2, 0, "some of the rows");
    assert_close(haul_gather(haul_expand(haul_slice(x, 0, 1, 2, 1), HAUL_SHAPE(2, 3)), 1, rows), (double[]){5, 3, 4, 4},
                 4, 0, "a row that repeats");
    assert_close(haul_gather(haul_gt_scalar(x, 2), 1, haul_cast(rows, HAUL_U8)), (double[]){0, 0, 1, 1}, 4, 0, "bools");
    haul_tensor *one = haul_select(haul_flatten(x, 0), 0, 4),
                *zero = haul_to(haul_scalar(0, .dtype = HAUL_I64), device);
    assert_close(haul_gather(one, 0, zero), (double[]){4}, 1, 0, "no dimensions");
    haul_tensor *none = haul_slice(rows, 1, 0, 0, 1);
    assert_close(haul_gather(x, 1, none), NULL, 0, 0, "no indices");
    assert_close(haul_gather(haul_slice(x, 1, 0, 0, 1), 1, none), NULL, 0, 0, "no indices into nothing");
}

static void test_indexing__gather(void **state)
{
    (void)state;
    on_devices(gathering);
}

/* ---- scatter_add ---- */

static void scattering(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_F32, HAUL_SHAPE(2, 3)), *ones = haul_ones_like(x);
    haul_tensor *index = indices(device, HAUL_SHAPE(2, 3), (int64_t[]){2, 0, 2, 1, 1, 1});
    assert_close(haul_scatter_add(x, 1, index, ones), (double[]){1, 1, 4, 3, 7, 5}, 6, 0, "rows");
    haul_tensor *part = indices(device, HAUL_SHAPE(3, 1), (int64_t[]){1, 0, 1});
    haul_tensor *source = haul_to(haul_from_host(HAUL_I32, HAUL_SHAPE(3, 1), (int32_t[]){10, 20, 30}), device);
    assert_close(haul_scatter_add(x, 0, part, source), (double[]){20, 1, 2, 43, 4, 5}, 6, 0, "a part, promoted");
    assert_close(x, (double[]){0, 1, 2, 3, 4, 5}, 6, 0, "x afterwards");
    haul_tensor *turned =
        haul_scatter_add(haul_transpose(x, 0, 1), 0, haul_transpose(index, 0, 1), haul_transpose(ones, 0, 1));
    assert_close(turned, (double[]){1, 3, 1, 7, 4, 5}, 6, 0, "views");
    haul_tensor *bytes = haul_cast(haul_full_like(x, 200), HAUL_U8);
    assert_close(haul_scatter_add(bytes, 1, index, bytes), (double[]){144, 200, 88, 200, 32, 200}, 6, 0,
                 "wraps around");
    haul_tensor *flags = haul_eq_scalar(x, 0);
    assert_close(haul_scatter_add(flags, 1, index, haul_ge_scalar(x, 1)), (double[]){1, 0, 1, 0, 1, 0}, 6, 0, "bools");
    haul_tensor *none = haul_slice(index, 1, 0, 0, 1);
    assert_close(haul_scatter_add(x, 1, none, haul_slice(ones, 1, 0, 0, 1)), (double[]){0, 1, 2, 3, 4, 5}, 6, 0,
                 "none");
}

static void test_indexing__scatter_add(void **state)
{
    (void)state;
    on_devices(scattering);
}

/* Halves are added up in f32 and rounded once; floats are added in the order of the indices. */
static void order(haul_device *device)
{
    enum { COUNT = 4096 };
    haul_tensor *index = haul_to(haul_zeros(HAUL_I64, HAUL_SHAPE(COUNT)), device);
    haul_tensor *ones = haul_to(haul_ones(HAUL_F16, HAUL_SHAPE(COUNT)), device);
    haul_tensor *zeros = haul_to(haul_zeros(HAUL_F16, HAUL_SHAPE(2)), device);
    assert_close(haul_scatter_add(zeros, 0, index, ones), (double[]){COUNT, 0}, 2, 0, "f16");
    haul_tensor *terms = haul_mul_scalar(counting(device, HAUL_F32, HAUL_SHAPE(COUNT)), 0.1);
    float        want = 0, all[COUNT];
    assert_int_equal(haul_read(terms, all, sizeof all), HAUL_OK);
    for (int i = 0; i < COUNT; i++)
        want += all[i];
    haul_tensor *sum = haul_scatter_add(haul_cast(zeros, HAUL_F32), 0, index, terms);
    assert_close(sum, (double[]){want, 0}, 2, 0, "in order");

    /* lines of many indices to few places, against the same on the CPU */
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(3, 7), 1, NULL);
    haul_tensor *source = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(3, 500), 2, NULL);
    haul_tensor *places = haul_cast(haul_mul_scalar(haul_abs(source), 3.4), HAUL_I64), *all_in[] = {x, places, source};
    haul_tensor *here = haul_scatter_add(x, 1, places, source), *table = haul_set_requires_grad(haul_clone(x), true),
                *g;
    for (int i = 0; i < 3; i++)
        all_in[i] = haul_to(all_in[i], device);
    assert_equal_bits(haul_scatter_add(all_in[0], 1, all_in[1], all_in[2]), haul_to(here, device), "many to few");
    haul_tensor *row = haul_select(places, 0, 1), *seed = haul_stack((haul_tensor *[]){source, source}, 2, 0);
    seed = haul_select(haul_transpose(seed, 0, 2), 2, 0);
    assert_succeeded(haul_grad(haul_index_select(haul_transpose(table, 0, 1), 0, row), &table, 1, &g, .seed = seed),
                     "cpu");
    table = haul_set_requires_grad(haul_to(x, device), true);
    haul_tensor *there;
    assert_succeeded(haul_grad(haul_index_select(haul_transpose(table, 0, 1), 0, haul_to(row, device)), &table, 1,
                               &there, .seed = haul_to(seed, device)),
                     "device");
    assert_equal_bits(there, haul_to(g, device), "many rows to few");
}

static void test_indexing__order_of_additions(void **state)
{
    (void)state;
    on_devices(order);
}

/* ---- embedding ---- */

static void embedding(haul_device *device)
{
    haul_tensor *table = counting(device, HAUL_F32, HAUL_SHAPE(4, 2)), *g;
    haul_tensor *index = indices(device, HAUL_SHAPE(2, 2), (int64_t[]){3, 0, 3, 1});
    haul_tensor *y = haul_embedding(table, index);
    assert_int_equal(haul_tensor_ndim(y), 3);
    assert_close(y, (double[]){6, 7, 0, 1, 6, 7, 2, 3}, 8, 0, "rows");
    haul_tensor *one = haul_embedding(table, haul_to(haul_scalar(2, .dtype = HAUL_U8), device));
    assert_int_equal(haul_tensor_ndim(one), 1);
    assert_close(one, (double[]){4, 5}, 2, 0, "one row");
    static const int64_t paddings[] = {0, 3, -1, -3, HAUL_ZERO};
    static const double  wants[][4] = {{1, 1, 0, 2}, {1, 1, 0, 0}, {1, 1, 0, 0}, {1, 0, 0, 2}, {0, 1, 0, 2}};
    table = haul_set_requires_grad(haul_clone(table), true);
    for (int i = 0; i < 5; i++) {
        y = haul_embedding(table, index, .padding_idx = paddings[i]);
        assert_close(haul_detach(y), (double[]){6, 7, 0, 1, 6, 7, 2, 3}, 8, 0, "padding is read");
        assert_int_equal(haul_grad(haul_sum(y), &table, 1, &g), HAUL_OK);
        assert_close(haul_select(g, 1, 1), wants[i], 4, 0, "padding learns nothing");
    }
}

static void test_indexing__embedding(void **state)
{
    (void)state;
    on_devices(embedding);
}

/* ---- one_hot ---- */

static void one_hot(haul_device *device)
{
    haul_tensor *index = indices(device, HAUL_SHAPE(2, 1), (int64_t[]){2, 0}), *y = haul_one_hot(index, 3);
    assert_int_equal(haul_tensor_ndim(y), 3);
    assert_int_equal(haul_tensor_dtype(y), HAUL_I64);
    assert_close(y, (double[]){0, 0, 1, 1, 0, 0}, 6, 0, "rows");
    assert_close(haul_one_hot(haul_cast(haul_select(haul_flatten(index, 0), 0, 0), HAUL_U8), 4), (double[]){0, 0, 1, 0},
                 4, 0, "one");
    assert_close(haul_one_hot(haul_slice(index, 0, 0, 0, 1), 3), NULL, 0, 0, "none");
    assert_refused(haul_one_hot(index, 0), HAUL_INVALID_ARGUMENT, "classes is 0; at least 1 is expected");
    haul_error_clear();
    y = haul_one_hot(index, 2);
    if (device != haul_cpu())
        assert_int_equal(haul_device_sync(device), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_message(), "haul_one_hot: index[0] is 2, but there are 2 classes");
    haul_error_clear();
    if (device != haul_cpu())
        assert_close(y, (double[]){0, 0, 1, 0}, 4, 0, "a class out of range");
}

static void test_indexing__one_hot(void **state)
{
    (void)state;
    on_devices(one_hot);
}

/* ---- extremes with indices ---- */

static void extremes(haul_device *device)
{
    static const float v[] = {3, NAN, 2, 3, 1, 2, 5, 5, -1, NAN, NAN, 0};
    haul_tensor       *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(4, 3), v), device), *values, *at, *g;
    assert_succeeded(haul_max_with_indices(x, 1, false, &values, &at), "max");
    assert_int_equal(haul_tensor_ndim(values), 1);
    assert_close(at, (double[]){1, 0, 0, 0}, 4, 0, "the first of equals; NaN");
    assert_true(isnan(haul_item(haul_select(values, 0, 0))) && haul_item(haul_select(values, 0, 2)) == 5);
    assert_succeeded(haul_min_with_indices(haul_transpose(x, 0, 1), 0, true, &values, &at), "min");
    assert_int_equal(haul_tensor_ndim(at), 2);
    assert_close(at, (double[]){1, 1, 2, 0}, 4, 0, "the first of the smallest; NaN");
    haul_tensor *one = haul_select(haul_flatten(x, 0), 0, 6);
    assert_succeeded(haul_max_with_indices(one, -1, false, &values, &at), "0-d");
    assert_close(values, (double[]){5}, 1, 0, "0-d");
    assert_close(at, (double[]){0}, 1, 0, "0-d");
    x = haul_set_requires_grad(haul_clone(x), true);
    assert_succeeded(haul_max_with_indices(x, 1, false, &values, &at), "max");
    assert_false(haul_requires_grad(at));
    assert_succeeded(haul_grad(haul_sum(values), &x, 1, &g), "gradient");
    assert_close(g, (double[]){0, 1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0}, 12, 0, "not shared");
    x = haul_detach(x);
    assert_succeeded(haul_min_with_indices(haul_slice(x, 0, 1, 3, 1), 0, false, &values, &at), "min of a part");
    assert_close(values, (double[]){3, 1, -1}, 3, 0, "values of a part");
    assert_close(at, (double[]){0, 0, 1}, 3, 0, "indices of a part");
    assert_int_equal(haul_max_with_indices(x, 2, false, &values, &at), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_operation(), "haul_max_with_indices");
    assert_int_equal(haul_min_with_indices(haul_slice(x, 0, 0, 0, 1), 0, false, &values, &at), HAUL_SHAPE);
    assert_string_equal(haul_error_operation(), "haul_min_with_indices");
    haul_error_clear();
    assert_int_equal(haul_max_with_indices(x, 0, false, NULL, &at), HAUL_INVALID_ARGUMENT);
    assert_failed(at);
    haul_error_clear();
}

static void test_indexing__extremes_with_indices(void **state)
{
    (void)state;
    on_devices(extremes);
}

/* ---- views ---- */

typedef haul_tensor *pick(haul_tensor *x, haul_tensor *index);

static haul_tensor *pick_column(haul_tensor *x, haul_tensor *index)
{
    return haul_index_select(x, 1, index);
}

static haul_tensor *pick_row(haul_tensor *x, haul_tensor *index)
{
    return haul_index_select(x, 0, index);
}

static haul_tensor *pick_embedding(haul_tensor *x, haul_tensor *index)
{
    return haul_embedding(x, index);
}

static haul_tensor *pick_gathered(haul_tensor *x, haul_tensor *index)
{
    return haul_gather(x, 0, haul_expand(haul_unsqueeze(index, 1), HAUL_SHAPE(3, 4)));
}

static haul_tensor *pick_best(haul_tensor *x, haul_tensor *index)
{
    haul_tensor *values, *at;
    (void)index;
    return haul_topk(x, 1, 1, true, &values, &at) ? NULL : values;
}

/* Few elements of a large view are picked without a copy of it; a GPU copies few long rows to sort them. */
static void views_in_place(haul_device *device)
{
    enum { LONG = 1 << 18 };
    static pick *const picks[] = {pick_column, pick_row, pick_embedding, pick_gathered, pick_best};
    haul_tensor       *index = indices(device, HAUL_SHAPE(3), (int64_t[]){2, 0, 2});
    haul_tensor       *base = counting(device, HAUL_F32, HAUL_SHAPE(4, LONG));
    haul_tensor       *wide = haul_expand(counting(device, HAUL_F32, HAUL_SHAPE(4, 1)), HAUL_SHAPE(4, LONG));
    haul_tensor       *views[] = {haul_slice(base, 1, 1, LONG, 1), haul_slice(base, 1, 0, LONG, 3), wide};
    for (size_t v = 0; v < sizeof views / sizeof views[0]; v++)
        for (size_t i = 0; i < sizeof picks / sizeof picks[0]; i++) {
            if (picks[i] == pick_best && device->properties.kind == HAUL_KIND_GPU)
                continue;
            const bool        columns = picks[i] == pick_column || picks[i] == pick_best;
            haul_tensor      *x = columns ? views[v] : haul_transpose(views[v], 0, 1);
            haul_memory_stats before, after;
            haul_tensor      *want = picks[i](haul_contiguous(x), index);
            assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
            assert_int_equal(haul_memory_stats_get(device, &before), HAUL_OK);
            haul_tensor *y = picks[i](x, index);
            assert_int_equal(haul_memory_stats_get(device, &after), HAUL_OK);
            assert_equal_bits(y, want, "a view");
            const int64_t used = after.peak_allocated - before.allocated, needed = (int64_t)haul_tensor_bytes(y);
            if (used > 4 * needed + 4096)
                fail_msg("pick %d of view %d: %lld bytes for a result of %lld", (int)i, (int)v, (long long)used,
                         (long long)needed);
        }
}

static void test_indexing__views_are_not_copied(void **state)
{
    (void)state;
    on_devices(views_in_place);
}

/* ---- second order, where the gradient of a gradient depends on the indices ---- */

static haul_tensor *squares(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *index = context, *rows = haul_embedding(in[0], haul_select(index, 1, 0));
    haul_tensor *picked = haul_gather(in[0], 0, index), *sum = haul_scatter_add(in[0], 0, index, haul_square(in[1]));
    (void)count;
    return haul_add(haul_sum(haul_mul(haul_square(picked), rows)), haul_sum(haul_mul(haul_square(sum), sum)));
}

static haul_tensor *squared_gradients(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *g[2];
    if (haul_grad(squares(in, count, context), in, 2, g, .create_graph = true))
        return NULL;
    return haul_add(haul_sum(haul_square(g[0])), haul_sum(haul_square(g[1])));
}

static void test_indexing__second_order(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *index = indices(haul_cpu(), HAUL_SHAPE(4, 2), (int64_t[]){2, 0, 1, 1, 2, 2, 2, 0}), *in[2];
    in[0] = sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(3, 2), 1, NULL);
    in[1] = sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(4, 2), 2, NULL);
    assert_succeeded(haul_grad_check(squared_gradients, in, 2, index, .step = 1e-4), "second order");
    /* the padding row adds to what others get, and gets nothing itself */
    haul_tensor *table = haul_set_requires_grad(haul_ones(HAUL_F64, HAUL_SHAPE(3, 2)), true), *g, *gg;
    haul_tensor *seed = haul_set_requires_grad(haul_ones(HAUL_F64, HAUL_SHAPE(4, 2)), true);
    haul_tensor *y = haul_embedding(table, haul_select(index, 1, 0), .padding_idx = 1);
    assert_succeeded(haul_grad(y, &table, 1, &g, .seed = seed, .create_graph = true), "gradient");
    assert_succeeded(haul_grad(haul_sum(haul_square(g)), &seed, 1, &gg), "its gradient");
    assert_close(haul_select(gg, 1, 0), (double[]){6, 0, 6, 6}, 4, 0, "of the seed");
    haul_scope_pop(scope);
}

/* ---- targets ---- */

static haul_status gather_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_gather_into(out, in[0], 1, in[1]);
}

static haul_status scatter_add_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_scatter_add_into(out, in[0], 1, in[1], in[2]);
}

static haul_status embedding_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_embedding_into(out, in[0], in[1]);
}

static void into(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 4), 1, NULL);
    haul_tensor *index = indices(device, HAUL_SHAPE(3, 2), (int64_t[]){2, 3, 1, 1, 3, 0});
    haul_tensor *source = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 2), 2, NULL);
    haul_tensor *line = indices(device, HAUL_SHAPE(2), (int64_t[]){2, 0}), *in[] = {x, index, source};
    assert_into("gather", gather_into, haul_gather(x, 1, index), in, 2, 0);
    assert_into("scatter_add", scatter_add_into, haul_scatter_add(x, 1, index, source), in, 3, 0);
    assert_into("embedding", embedding_into, haul_embedding(x, line), (haul_tensor *[]){x, line}, 2, 0);
}

static void test_indexing__into(void **state)
{
    (void)state;
    on_devices(into);
}

/* ---- errors ---- */

static void test_indexing__shapes_are_checked(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), *line = haul_zeros(HAUL_I64, HAUL_SHAPE(3));
    haul_tensor *index = haul_zeros(HAUL_I64, HAUL_SHAPE(2, 2)), *tall = haul_zeros(HAUL_I64, HAUL_SHAPE(3, 2));
    assert_refused(haul_gather(x, 1, line), HAUL_SHAPE, "as many dimensions as x");
    assert_refused(haul_gather(x, 1, tall), HAUL_SHAPE, "none larger than x's");
    assert_refused(haul_gather(x, 2, index), HAUL_INVALID_ARGUMENT, "haul_gather");
    assert_refused(haul_gather(x, 1, haul_cast(index, HAUL_F32)), HAUL_DTYPE, "haul_gather");
    assert_refused(haul_gather(haul_slice(x, 1, 0, 0, 1), 1, index), HAUL_SHAPE, "no elements");
    assert_refused(haul_scatter_add(x, 1, tall, tall), HAUL_SHAPE, "none larger than x's");
    assert_refused(haul_scatter_add(x, 1, index, x), HAUL_SHAPE, "the shape of index");
    assert_refused(haul_embedding(line, index), HAUL_SHAPE, "[rows, size]");
    assert_refused(haul_embedding(x, x), HAUL_DTYPE, "haul_embedding");
    assert_refused(haul_embedding(x, index, .padding_idx = 2), HAUL_INVALID_ARGUMENT,
                   "padding_idx is 2, but weight has 2 rows");
    assert_refused(haul_embedding(x, index, .padding_idx = -3), HAUL_INVALID_ARGUMENT, "padding_idx is -3");
    assert_refused(haul_embedding(haul_slice(x, 0, 0, 0, 1), index), HAUL_SHAPE, "no rows");
    assert_refused(haul_embedding_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    haul_scope_pop(scope);
}

static haul_tensor *scatter_ones(haul_tensor *x, haul_tensor *index)
{
    return haul_scatter_add(x, 0, index, haul_ones_like(index));
}

static haul_tensor *gather_first(haul_tensor *x, haul_tensor *index)
{
    return haul_gather(x, 0, index);
}

static haul_tensor *embed(haul_tensor *x, haul_tensor *index)
{
    return haul_embedding(haul_unsqueeze(x, 1), index);
}

/* An index out of range is reported, counts as nothing, and leaves targets alone where the call itself fails. */
static void faults(haul_device *device)
{
    static const struct {
        haul_tensor *(*call)(haul_tensor *, haul_tensor *);
        const char *message;
        double      want[3];
    } rows[] = {{scatter_ones, "haul_scatter_add: index[1] is 4, but axis 0 has 3 elements", {0, 1, 4}},
                {gather_first, "haul_gather: index[1] is 4, but axis 0 has 3 elements", {2, 0, 2}},
                {embed, "haul_embedding: index[1] is 4, but axis 0 has 3 elements", {2, 0, 2}}};
    haul_tensor *x = counting(device, HAUL_F32, HAUL_SHAPE(3)), *out = haul_full_like(x, 7);
    haul_tensor *index = indices(device, HAUL_SHAPE(3), (int64_t[]){2, 4, 2});
    for (int i = 0; i < 3; i++) {
        haul_tensor *y = rows[i].call(x, index);
        if (device != haul_cpu())
            assert_int_equal(haul_device_sync(device), HAUL_INVALID_ARGUMENT);
        assert_string_equal(haul_error_message(), rows[i].message);
        haul_error_clear();
        if (device != haul_cpu())
            assert_close(y, rows[i].want, 3, 0, rows[i].message);
    }
    if (device == haul_cpu()) {
        assert_int_equal(haul_scatter_add_into(out, x, 0, index, x), HAUL_INVALID_ARGUMENT);
        assert_int_equal(haul_gather_into(out, x, 0, index), HAUL_INVALID_ARGUMENT);
        assert_close(out, (double[]){7, 7, 7}, 3, 0, "targets");
        haul_error_clear();
    }
}

static void test_indexing__index_out_of_range(void **state)
{
    (void)state;
    on_devices(faults);
}

/* Rows of many indices are checked in runs. */
enum { LONG = 1000, MANY = 700, BAD = 500 };

static void long_rows(haul_device *device)
{
    static int64_t at[MANY];
    static double  picked[MANY], sums[LONG];
    memset(sums, 0, sizeof sums);
    for (int i = 0; i < MANY; i++) {
        at[i] = i * 37 % 600;
        picked[i] = (double)at[i];
        sums[at[i]] += i;
    }
    haul_tensor *x = counting(device, HAUL_F32, HAUL_SHAPE(LONG)), *zeros = haul_zeros_like(x);
    haul_tensor *source = counting(device, HAUL_F32, HAUL_SHAPE(MANY));
    haul_tensor *index = indices(device, HAUL_SHAPE(MANY), at);
    assert_close(haul_gather(x, 0, index), picked, MANY, 0, "gather");
    assert_close(haul_scatter_add(zeros, 0, index, source), sums, LONG, 0, "scatter_add");
    sums[at[BAD]] -= BAD;
    at[BAD] = LONG;
    picked[BAD] = 0;
    index = indices(device, HAUL_SHAPE(MANY), at);
    for (int i = 0; i < 2; i++) {
        haul_tensor *y = i ? haul_scatter_add(zeros, 0, index, source) : haul_gather(x, 0, index);
        if (device != haul_cpu())
            assert_int_equal(haul_device_sync(device), HAUL_INVALID_ARGUMENT);
        assert_non_null(strstr(haul_error_message(), "index[500] is 1000, but axis 0 has 1000 elements"));
        haul_error_clear();
        if (device != haul_cpu())
            assert_close(y, i ? sums : picked, i ? LONG : MANY, 0, "what comes from indices in range");
    }
}

static void test_indexing__long_rows(void **state)
{
    (void)state;
    on_devices(long_rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_indexing__gather),
        cmocka_unit_test(test_indexing__scatter_add),
        cmocka_unit_test(test_indexing__order_of_additions),
        cmocka_unit_test(test_indexing__embedding),
        cmocka_unit_test(test_indexing__one_hot),
        cmocka_unit_test(test_indexing__extremes_with_indices),
        cmocka_unit_test(test_indexing__views_are_not_copied),
        cmocka_unit_test(test_indexing__second_order),
        cmocka_unit_test(test_indexing__into),
        cmocka_unit_test(test_indexing__shapes_are_checked),
        cmocka_unit_test(test_indexing__index_out_of_range),
        cmocka_unit_test(test_indexing__long_rows),
    };
    return cmocka_run_group_tests_name("ops_indexing", tests, NULL, NULL);
}
