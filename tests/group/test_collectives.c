/* The operations of haul/group.h on tensors of several ranks: values, gradients, events, and ranks that differ. By
 * itself the program is a group of one rank; tests/group/group_launchers.sh starts it with MPI launchers, and
 * tests/group/local_ranks.sh with threads as ranks. Every rank checks its own results.
 *
 * ctest: */
#include <string.h>

#include "group/group.h"
#include "support/ranks/ranks.h"

/* A value of a rank's tensor that no two ranks and places share. */
static double value(int r, int64_t i)
{
    return 0.25 * (double)(r + 1) + (double)i;
}

/* The tensor of a rank, on the current device. */
static haul_tensor *tensor_of(int r, haul_dtype dtype, haul_shape shape)
{
    double  values[64];
    int64_t count = 1;
    for (int i = 0; i < shape.ndim; i++)
        count *= shape.dims[i];
    assert_true(count <= 64);
    for (int64_t i = 0; i < count; i++)
        values[i] = value(r, i);
    haul_tensor *t = haul_cast(haul_from_host(HAUL_F64, shape, values), dtype);
    check(haul_error_status());
    return t;
}

static int64_t read(haul_tensor *t, double *out)
{
    const int64_t count = haul_tensor_count(t);
    check(haul_error_status());
    assert_in_range(count, 0, 1024);
    check(haul_read(haul_cast(haul_detach(t), HAUL_F64), out, (size_t)count * sizeof *out));
    return count;
}

static void assert_equal(haul_tensor *a, haul_tensor *b)
{
    double        x[1024], y[1024];
    const int64_t count = read(a, x);
    assert_int_equal(read(b, y), count);
    assert_int_equal(haul_tensor_dtype(a), haul_tensor_dtype(b));
    assert_memory_equal(x, y, (size_t)count * sizeof *x);
}

/* The sum over ranks, of numbers that have few digits. */
static haul_tensor *sum_of(haul_dtype dtype, haul_shape shape)
{
    haul_tensor *sum = tensor_of(0, dtype, shape);
    for (int r = 1; r < size; r++)
        sum = haul_add(sum, tensor_of(r, dtype, shape));
    return sum;
}

/* ---- values ---- */

static void test_collectives__all_reduce_adds_on_all_ranks(void **state)
{
    (void)state;
    const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_I32, HAUL_I64, HAUL_F16, HAUL_BF16};
    const haul_shape shapes[] = {HAUL_SHAPE(3, 5), HAUL_SCALAR_SHAPE, HAUL_SHAPE(0), HAUL_SHAPE(2, 3, 4)};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            haul_tensor *x = tensor_of(rank, dtypes[d], shapes[s]);
            assert_equal(haul_all_reduce(x, group), sum_of(dtypes[d], shapes[s]));
            assert_equal(x, tensor_of(rank, dtypes[d], shapes[s])); /* it is as before */
        }
    haul_tensor *x = tensor_of(rank, HAUL_F32, HAUL_SHAPE(4, 6));
    assert_equal(haul_all_reduce(haul_transpose(x, 0, 1), group),
                 haul_transpose(sum_of(HAUL_F32, HAUL_SHAPE(4, 6)), 0, 1));
}

static void test_collectives__broadcast_gives_the_roots_values(void **state)
{
    (void)state;
    const haul_dtype dtypes[] = {HAUL_F32, HAUL_U8, HAUL_F16, HAUL_I64};
    for (int root = 0; root < size; root++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            assert_equal(haul_broadcast(tensor_of(rank, dtypes[d], HAUL_SHAPE(3, 5)), root, group),
                         tensor_of(root, dtypes[d], HAUL_SHAPE(3, 5)));
}

static void test_collectives__all_gather_joins_along_each_axis(void **state)
{
    (void)state;
    const haul_shape shape = HAUL_SHAPE(2, 3, 4);
    for (int axis = -1; axis < 3; axis++) {
        haul_tensor *all[64];
        for (int r = 0; r < size; r++)
            all[r] = tensor_of(r, HAUL_F32, shape);
        assert_equal(haul_all_gather(tensor_of(rank, HAUL_F32, shape), axis, group), haul_cat(all, size, axis));
    }
    haul_tensor *none = haul_all_gather(tensor_of(rank, HAUL_F32, HAUL_SHAPE(2, 0)), 0, group);
    assert_int_equal(haul_tensor_shape(none).dims[0], 2 * size);
}

static void test_collectives__reduce_scatter_gives_each_rank_its_part(void **state)
{
    (void)state;
    for (int axis = 0; axis < 3; axis++) {
        haul_shape shape = HAUL_SHAPE(2, 1, 2);
        shape.dims[axis] *= size;
        const int64_t part = shape.dims[axis] / size;
        haul_tensor  *sum = sum_of(HAUL_F32, shape);
        haul_tensor  *y = haul_reduce_scatter(tensor_of(rank, HAUL_F32, shape), axis, group);
        assert_equal(y, haul_slice(sum, axis, rank * part, (rank + 1) * part, 1));
        haul_tensor *half = haul_reduce_scatter(tensor_of(rank, HAUL_F16, shape), axis, group);
        assert_int_equal(haul_tensor_dtype(half), HAUL_F16);
    }
}

static void test_collectives__work_on_other_devices(void **state)
{
    (void)state;
    haul_device *device = haul_device_get("opencl:0");
    haul_error_clear();
    if (!device || haul_set_device(device))
        return;
    haul_tensor *y = haul_all_reduce(tensor_of(rank, HAUL_F32, HAUL_SHAPE(3, 5)), group);
    assert_ptr_equal(haul_tensor_device(y), device);
    assert_equal(y, sum_of(HAUL_F32, HAUL_SHAPE(3, 5)));
    haul_tensor *all = haul_all_gather(tensor_of(rank, HAUL_F32, HAUL_SHAPE(3, 5)), 1, group);
    assert_ptr_equal(haul_tensor_device(all), device);
    haul_error_clear();
}

/* ---- gradients ---- */

/* A leaf, and weights of the rank: its loss is the sum of their products with what the collective gives. */
static haul_tensor *leaf(haul_shape shape)
{
    return haul_set_requires_grad(tensor_of(rank, HAUL_F32, shape), true);
}

static void differentiate(haul_tensor *y, haul_shape shape)
{
    check(haul_backward(haul_sum(haul_mul(y, tensor_of(rank, HAUL_F32, shape)))));
}

static void test_collectives__gradients_are_those_of_the_sum_of_losses(void **state)
{
    (void)state;
    const haul_shape shape = HAUL_SHAPE(2, 3);
    haul_tensor     *x = leaf(shape);
    differentiate(haul_all_reduce(x, group), shape);
    assert_equal(haul_tensor_grad(x), sum_of(HAUL_F32, shape));

    x = leaf(shape);
    differentiate(haul_broadcast(x, size - 1, group), shape);
    haul_tensor *sum = sum_of(HAUL_F32, shape);
    assert_equal(haul_tensor_grad(x), rank == size - 1 ? sum : haul_zeros_like(sum));

    x = leaf(shape);
    const haul_shape wide = HAUL_SHAPE(2, 3 * size);
    differentiate(haul_all_gather(x, 1, group), wide);
    assert_equal(haul_tensor_grad(x), haul_slice(sum_of(HAUL_F32, wide), 1, 3 * rank, 3 * rank + 3, 1));

    x = leaf(wide);
    differentiate(haul_reduce_scatter(x, 1, group), shape);
    haul_tensor *all[64];
    for (int r = 0; r < size; r++)
        all[r] = tensor_of(r, HAUL_F32, shape);
    assert_equal(haul_tensor_grad(x), haul_cat(all, size, 1));
}

/* With s, the sum of all x, each rank's loss is s^3; the gradient 3 R s^2 is differentiated again, and gives 6 R^2 s.
 */
static void test_collectives__gradients_can_be_differentiated(void **state)
{
    (void)state;
    haul_tensor *x = haul_set_requires_grad(haul_full(HAUL_F64, HAUL_SHAPE(1), rank + 1), true), *first[1], *second[1];
    haul_tensor *s = haul_all_reduce(x, group);
    check(haul_grad(haul_sum(haul_mul(haul_square(s), s)), &x, 1, first, .create_graph = true));
    check(haul_grad(haul_sum(first[0]), &x, 1, second));
    const double total = size * (size + 1) / 2.0;
    assert_true(haul_item(first[0]) == 3 * size * total * total);
    assert_true(haul_item(second[0]) == 6 * size * size * total);
}

/* ---- counts ---- */

typedef struct seen {
    int     begun, ended, operations;
    int64_t bytes;
} seen;

static void note(const haul_event *e, void *context)
{
    seen *s = context;
    s->begun += e->kind == HAUL_EVENT_COLLECTIVE_BEGIN;
    s->ended += e->kind == HAUL_EVENT_COLLECTIVE_END;
    s->operations += e->kind == HAUL_EVENT_OPERATION_END && !strcmp(e->operation, "haul_all_reduce");
    if (e->kind == HAUL_EVENT_COLLECTIVE_END) {
        assert_string_equal(e->operation, "haul_all_reduce");
        assert_non_null(strstr(e->text, "f32[4,16]"));
        s->bytes += e->bytes;
    }
}

static void test_collectives__bytes_between_ranks_are_counted(void **state)
{
    (void)state;
    if (local_name)
        return; /* statistics count all ranks of the process */
    seen         s = {.begun = 0};
    int64_t      sent, collectives, sent_after, collectives_after;
    haul_tensor *x = tensor_of(rank, HAUL_F32, HAUL_SHAPE(4, 16));
    check(haul_stat_get("groups.sent_bytes", &sent));
    check(haul_stat_get("groups.collectives", &collectives));
    haul_ledger  *ledger = haul_ledger_begin(.ranks = true), *copies = haul_ledger_begin(.everywhere = false);
    const int64_t id =
        haul_events_subscribe(note, .kinds = HAUL_EVENT_COLLECTIVE | HAUL_EVENT_OPERATION_END, .context = &s);
    check(haul_tensor_check(haul_all_reduce(x, group)));
    check(haul_events_unsubscribe(id));
    haul_ledger_row row;
    assert_int_equal(haul_ledger_rows(copies, NULL, 0), 0);
    assert_int_equal(haul_ledger_rows(ledger, &row, 1), size > 1);
    if (size > 1) {
        assert_string_equal(row.operation, "haul_all_reduce");
        assert_null(row.from);
        assert_null(row.to);
        assert_int_equal(row.count, 1);
        assert_int_equal(row.bytes, s.bytes);
    }
    check(haul_stat_get("groups.sent_bytes", &sent_after));
    check(haul_stat_get("groups.collectives", &collectives_after));
    assert_int_equal(s.operations, 1);
    assert_int_equal(s.begun, size > 1);
    assert_int_equal(s.ended, size > 1);
    assert_int_equal(collectives_after - collectives, 1);
    assert_int_equal(sent_after - sent, s.bytes);
    if (64 % size == 0)
        assert_int_equal(s.bytes, 2 * (size - 1) * 256 / size);
}

/* ---- refused calls ---- */

static void assert_refused(haul_tensor *y, const char *text)
{
    assert_false(haul_tensor_is_valid(y));
    if (!strstr(haul_error_message(), text))
        fail_msg("\"%s\" does not say \"%s\"", haul_error_message(), text);
    haul_error_clear();
}

static void test_collectives__bad_calls_are_refused(void **state)
{
    (void)state;
    haul_tensor *x = tensor_of(rank, HAUL_F32, HAUL_SHAPE(2, 3));
    assert_refused(haul_all_reduce(x, NULL), "group");
    assert_refused(haul_all_reduce(NULL, group), "haul_all_reduce");
    assert_refused(haul_all_reduce(x, (haul_group *)x), "group");
    assert_refused(haul_all_reduce(haul_cast(x, HAUL_U8), group), "u8");
    assert_refused(haul_broadcast(x, size, group), "unknown rank");
    assert_refused(haul_broadcast(x, -1, group), "unknown rank");
    assert_refused(haul_all_gather(x, 2, group), "axis");
    assert_refused(haul_all_gather(haul_scalar(1), 0, group), "haul_all_gather");
    assert_refused(haul_reduce_scatter(x, 5, group), "axis");
    if (size > 1)
        assert_refused(haul_reduce_scatter(tensor_of(rank, HAUL_F32, HAUL_SHAPE(2 * size + 1)), 0, group),
                       "cannot be divided among");
}

typedef struct followed {
    haul_tensor *x, *sum, *kept;
} followed;

/* What the other ranks broadcast is a constant, and only rank 0 changes its buffer. */
static haul_status followed_step(void *context)
{
    const followed *f = context;
    haul_tensor    *mine = rank == 0 ? haul_mul_scalar(f->x, 1) : haul_zeros(HAUL_F32, HAUL_SHAPE(4));
    haul_tensor    *both = haul_add(haul_broadcast(mine, 0, group), haul_all_reduce(f->kept, group));
    return haul_copy_into(f->sum, haul_mul_scalar(both, 2));
}

static void test_collectives__are_made_in_each_followed_step(void **state)
{
    (void)state;
    enum { RUNS = 6 };
    followed              f = {.x = haul_zeros(HAUL_F32, HAUL_SHAPE(4)),
                               .sum = haul_zeros(HAUL_F32, HAUL_SHAPE(4)),
                               .kept = haul_zeros(HAUL_F32, HAUL_SHAPE(4))};
    haul_recording       *r = haul_recording_new(followed_step, &f);
    haul_recording_report report;
    haul_group_properties before, after;
    check(haul_group_describe(group, &before));
    for (int i = 0; i < RUNS; i++) {
        double got[4];
        check(haul_fill_into(f.x, i + 1));
        if (rank == 0)
            check(haul_fill_into(f.kept, 10 * i));
        check(haul_recording_run(r));
        read(f.sum, got);
        for (int k = 0; k < 4; k++)
            assert_true(got[k] == 2.0 * (i + 1 + 10 * i));
    }
    check(haul_group_describe(group, &after));
    assert_int_equal(after.collectives - before.collectives, 2 * RUNS);
    check(haul_recording_report_get(r, &report));
    assert_true(report.followed > 0);
}

static haul_status waiting_step(void *context)
{
    const followed *f = context;
    haul_status     status = haul_group_barrier(group);
    return status ? status : haul_add_scalar_into(f->sum, f->sum, 1);
}

/* A call that is not an operation, in a step: the step runs as it is, and makes the call once in each run. */
static void test_collectives__other_calls_are_not_followed(void **state)
{
    (void)state;
    enum { RUNS = 5 };
    followed              f = {.sum = haul_zeros(HAUL_F32, HAUL_SHAPE(4))};
    haul_recording       *r = haul_recording_new(waiting_step, &f);
    haul_group_properties before, one, after;
    check(haul_group_describe(group, &before));
    check(haul_group_barrier(group));
    check(haul_group_describe(group, &one));
    for (int i = 0; i < RUNS; i++)
        check(haul_recording_run(r));
    check(haul_group_describe(group, &after));
    assert_int_equal(after.collectives - one.collectives, RUNS * (one.collectives - before.collectives));
}

/* The last test, because the group cannot be used afterwards. */
static void test_collectives__ranks_that_differ_get_an_error(void **state)
{
    (void)state;
    if (size == 1)
        return;
    haul_tensor *x = leaf(HAUL_SHAPE(2, 3));
    if (rank == size - 1)
        haul_set_requires_grad(x, false);
    haul_tensor *y = haul_all_reduce(x, group);
    assert_false(haul_tensor_is_valid(y));
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "the ranks differ in collective"));
    assert_non_null(strstr(haul_error_message(), "f32[2,3], with a gradient"));
    haul_error_clear();
    assert_refused(haul_all_reduce(x, group), "cannot be used after a failed collective");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_collectives__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(all_reduce_adds_on_all_ranks),
        T(broadcast_gives_the_roots_values),
        T(all_gather_joins_along_each_axis),
        T(reduce_scatter_gives_each_rank_its_part),
        T(work_on_other_devices),
        T(gradients_are_those_of_the_sum_of_losses),
        T(gradients_can_be_differentiated),
        T(bytes_between_ranks_are_counted),
        T(bad_calls_are_refused),
        T(are_made_in_each_followed_step),
        T(other_calls_are_not_followed),
        T(ranks_that_differ_get_an_error),
    };
    return run_on_ranks(tests, sizeof tests / sizeof *tests, group_setup);
}
