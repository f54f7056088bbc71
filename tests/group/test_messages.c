/* haul_send and haul_receive: values, gradients, events, steps that are followed, and ranks that do not fit together.
 * By itself the program is a group of one rank, and tests errors on threads; tests/group/group_launchers.sh starts it
 * with MPI launchers, and tests/group/local_ranks.sh with threads as ranks. Every rank checks its own results.
 *
 * ctest: */
#include <string.h>

#include "base/alloc.h"
#include "group/thread.h"
#include "support/ranks/ranks.h"

/* The ring of ranks: each sends to the next one. */
static int next_rank(void)
{
    return (rank + 1) % size;
}

static int last_rank(void)
{
    return (rank + size - 1) % size;
}

/* A value that no two ranks and places share. */
static haul_tensor *tensor_of(int r, haul_dtype dtype, haul_shape shape)
{
    double  values[64];
    int64_t count = 1;
    for (int i = 0; i < shape.ndim; i++)
        count *= shape.dims[i];
    assert_in_range(count, 0, 64);
    for (int64_t i = 0; i < count; i++)
        values[i] = 0.25 * (double)(r + 1) + (double)i;
    haul_tensor *t = haul_cast(haul_from_host(HAUL_F64, shape, values), dtype);
    check(haul_error_status());
    return t;
}

static void assert_equal(haul_tensor *a, haul_tensor *b)
{
    double        x[64], y[64];
    const int64_t count = haul_tensor_count(a);
    check(haul_error_status());
    assert_int_equal(haul_tensor_count(b), count);
    assert_int_equal(haul_tensor_dtype(a), haul_tensor_dtype(b));
    check(haul_read(haul_cast(haul_detach(a), HAUL_F64), x, (size_t)count * sizeof *x));
    check(haul_read(haul_cast(haul_detach(b), HAUL_F64), y, (size_t)count * sizeof *y));
    assert_memory_equal(x, y, (size_t)count * sizeof *x);
}

static haul_tensor *leaf(haul_tensor *t)
{
    return haul_set_requires_grad(t, true);
}

/* ---- values ---- */

static void test_messages__arrive_in_order(void **state)
{
    (void)state;
    const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16, HAUL_I32, HAUL_I64, HAUL_U8, HAUL_BOOL};
    const haul_shape shapes[] = {HAUL_SHAPE(3, 5), HAUL_SCALAR_SHAPE, HAUL_SHAPE(0), HAUL_SHAPE(2, 3, 4)};
    enum { DTYPES = sizeof dtypes / sizeof *dtypes, SHAPES = sizeof shapes / sizeof *shapes };
    for (int i = 0; i < DTYPES * SHAPES; i++) {
        const haul_dtype dtype = dtypes[i / SHAPES];
        haul_tensor     *sent = haul_send(tensor_of(rank, dtype, shapes[i % SHAPES]), next_rank(), group);
        assert_int_equal(haul_tensor_ndim(sent), 0);
        assert_int_equal(haul_tensor_dtype(sent), haul_dtype_is_float(dtype) ? dtype : HAUL_F32);
        assert_true(haul_item(sent) == 0);
    }
    for (int i = 0; i < DTYPES * SHAPES; i++) {
        haul_tensor *like = haul_zeros(dtypes[i / SHAPES], shapes[i % SHAPES]);
        assert_equal(haul_receive(like, last_rank(), group),
                     tensor_of(last_rank(), dtypes[i / SHAPES], shapes[i % SHAPES]));
    }
}

static void test_messages__views_are_sent_and_are_patterns(void **state)
{
    (void)state;
    haul_tensor *x = haul_transpose(tensor_of(rank, HAUL_F32, HAUL_SHAPE(4, 6)), 0, 1);
    check(haul_tensor_check(haul_send(x, next_rank(), group)));
    haul_tensor *like = haul_expand(haul_scalar(1), HAUL_SHAPE(6, 4));
    assert_equal(haul_receive(like, last_rank(), group),
                 haul_transpose(tensor_of(last_rank(), HAUL_F32, HAUL_SHAPE(4, 6)), 0, 1));
}

/* More bytes than a message of the library has. */
static void test_messages__large_tensors_are_cut(void **state)
{
    (void)state;
    set_for_all(&haul__group_message_bytes, 40);
    check(haul_tensor_check(haul_send(tensor_of(rank, HAUL_F32, HAUL_SHAPE(33)), next_rank(), group)));
    assert_equal(haul_receive(haul_zeros(HAUL_F32, HAUL_SHAPE(33)), last_rank(), group),
                 tensor_of(last_rank(), HAUL_F32, HAUL_SHAPE(33)));
    set_for_all(&haul__group_message_bytes, HAUL__GROUP_MESSAGE);
}

static void test_messages__work_on_other_devices(void **state)
{
    (void)state;
    haul_device *device = haul_device_get("opencl:0");
    haul_error_clear();
    if (!device || haul_set_device(device))
        return;
    haul_tensor *x = leaf(tensor_of(rank, HAUL_F32, HAUL_SHAPE(3))), *like = leaf(haul_zeros_like(x));
    haul_tensor *sent = haul_send(x, next_rank(), group), *y = haul_receive(like, last_rank(), group);
    assert_ptr_equal(haul_tensor_device(y), device);
    assert_equal(y, tensor_of(last_rank(), HAUL_F32, HAUL_SHAPE(3)));
    check(haul_backward(haul_add(haul_sum(haul_mul_scalar(y, rank + 1)), sent)));
    assert_equal(haul_tensor_grad(x), haul_full(HAUL_F32, HAUL_SHAPE(3), next_rank() + 1));
}

/* ---- gradients ---- */

/* The loss of each rank is the sum of the products of its own weights with what it receives. */
static void test_messages__gradients_come_back(void **state)
{
    (void)state;
    const haul_shape shape = HAUL_SHAPE(2, 3);
    const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16};
    for (int d = 0; d < 3; d++) {
        haul_tensor *x = leaf(tensor_of(rank, dtypes[d], shape)), *like = leaf(haul_zeros_like(x));
        haul_tensor *sent = haul_send(haul_mul_scalar(x, 2), next_rank(), group);
        haul_tensor *y = haul_receive(like, last_rank(), group);
        assert_true(haul_requires_grad(y));
        haul_tensor *loss = haul_sum(haul_mul(y, tensor_of(rank, dtypes[d], shape)));
        check(haul_backward(haul_add(loss, sent)));
        assert_equal(haul_tensor_grad(x), haul_mul_scalar(tensor_of(next_rank(), dtypes[d], shape), 2));
        assert_ptr_equal(haul_tensor_grad(like), HAUL_NONE);
    }
}

/* Rank 0 to rank 1 to ... to the last one, which has the loss. Each multiplies by its number plus 2. */
static void test_messages__gradients_pass_all_stages(void **state)
{
    (void)state;
    const haul_shape shape = HAUL_SHAPE(4);
    haul_tensor     *x = leaf(rank == 0 ? tensor_of(0, HAUL_F64, shape) : haul_zeros(HAUL_F64, shape));
    haul_tensor     *in = rank == 0 ? x : haul_receive(x, rank - 1, group);
    haul_tensor     *w = leaf(haul_full(HAUL_F64, HAUL_SHAPE(1), rank + 2)), *out = haul_mul(in, w);
    double           before = 1, after = 1;
    for (int r = 0; r < size; r++) {
        before *= r < rank ? r + 2 : 1;
        after *= r > rank ? r + 2 : 1;
    }
    check(haul_backward(rank == size - 1 ? haul_sum(out) : haul_send(out, rank + 1, group)));
    const double sum = 4 * 0.25 + 0 + 1 + 2 + 3;
    assert_true(haul_item(haul_tensor_grad(w)) == sum * before * after);
    if (rank == 0)
        assert_equal(haul_tensor_grad(x), haul_full(HAUL_F64, shape, 2 * after));
}

/* Several messages of one pass, of which one does not need a gradient. */
static void test_messages__a_pass_has_several(void **state)
{
    (void)state;
    enum { MESSAGES = 3 };
    haul_tensor *x[MESSAGES], *all = NULL;
    for (int i = 0; i < MESSAGES; i++) {
        x[i] = leaf(tensor_of(rank, HAUL_F32, HAUL_SHAPE(3)));
        haul_tensor *sent = haul_send(x[i], next_rank(), group);
        all = all ? haul_add(all, sent) : sent;
    }
    check(haul_tensor_check(haul_send(haul_full(HAUL_I32, HAUL_SHAPE(2), 5), next_rank(), group)));
    for (int i = 0; i < MESSAGES; i++) {
        haul_tensor *y = haul_receive(leaf(haul_zeros(HAUL_F32, HAUL_SHAPE(3))), last_rank(), group);
        all = haul_add(all, haul_sum(haul_mul_scalar(y, 10 * i + rank)));
    }
    haul_tensor *numbers = haul_receive(haul_zeros(HAUL_I32, HAUL_SHAPE(2)), last_rank(), group);
    assert_false(haul_requires_grad(numbers));
    check(haul_backward(all));
    for (int i = 0; i < MESSAGES; i++)
        assert_equal(haul_tensor_grad(x[i]), haul_full(HAUL_F32, HAUL_SHAPE(3), 10 * i + next_rank()));
}

/* ---- counts ---- */

typedef struct seen {
    int     begun, ended, sends;
    int64_t bytes, numbers;
} seen;

static void note(const haul_event *e, void *context)
{
    seen *s = context;
    s->begun += e->kind == HAUL_EVENT_COLLECTIVE_BEGIN;
    if (e->kind != HAUL_EVENT_COLLECTIVE_END)
        return;
    const bool sends = !strcmp(e->operation, "haul_send");
    assert_true(sends || !strcmp(e->operation, "haul_receive"));
    assert_string_equal(e->text, "f32[4,16]");
    s->ended++;
    s->sends += sends;
    s->bytes += e->bytes;
    s->numbers += (int64_t)e->command;
}

static void test_messages__bytes_between_ranks_are_counted(void **state)
{
    (void)state;
    if (local_name)
        return; /* statistics count all ranks of the process */
    seen                  s = {.begun = 0};
    int64_t               sent, sent_after;
    haul_group_properties before, after;
    haul_tensor          *x = tensor_of(rank, HAUL_F32, HAUL_SHAPE(4, 16));
    check(haul_stat_get("groups.sent_bytes", &sent));
    check(haul_group_describe(group, &before));
    haul_ledger  *ledger = haul_ledger_begin(.ranks = true), *copies = haul_ledger_begin(.everywhere = false);
    const int64_t id = haul_events_subscribe(note, .kinds = HAUL_EVENT_COLLECTIVE, .context = &s);
    check(haul_tensor_check(haul_send(x, next_rank(), group)));
    check(haul_tensor_check(haul_receive(x, last_rank(), group)));
    check(haul_events_unsubscribe(id));
    haul_ledger_row rows[2];
    assert_int_equal(haul_ledger_rows(copies, NULL, 0), 0);
    assert_int_equal(haul_ledger_rows(ledger, rows, 2), size > 1 ? 2 : 0);
    for (int i = 0; i < 2 && size > 1; i++) {
        const bool sends = !strcmp(rows[i].operation, "haul_send");
        assert_true(sends || !strcmp(rows[i].operation, "haul_receive"));
        assert_int_equal(rows[i].count, 1);
        assert_int_equal(rows[i].bytes, sends ? 256 : 0);
    }
    check(haul_stat_get("groups.sent_bytes", &sent_after));
    check(haul_group_describe(group, &after));
    const int64_t bytes = size > 1 ? 256 : 0;
    assert_int_equal(sent_after - sent, bytes);
    assert_int_equal(after.sent_bytes - before.sent_bytes, bytes);
    assert_int_equal(after.collectives, before.collectives);
    assert_int_equal(s.bytes, bytes);
    assert_int_equal(s.begun, size > 1 ? 2 : 0);
    assert_int_equal(s.ended, s.begun);
    assert_int_equal(s.sends, size > 1);
    assert_true(size == 1 || s.numbers >= 2);
}

/* ---- programs ---- */

typedef struct followed {
    haul_tensor *x, *w, *sum, *like;
} followed;

static haul_status followed_step(void *context)
{
    const followed *f = context;
    haul_tensor    *sent = haul_send(haul_mul(f->x, f->w), next_rank(), group);
    haul_tensor    *y = haul_receive(f->like, last_rank(), group);
    haul_status     status = haul_backward(haul_add(haul_sum(haul_mul_scalar(y, 3)), sent));
    return status ? status : haul_copy_into(f->sum, haul_detach(y));
}

static followed followed_of(void)
{
    return (followed){.x = haul_zeros(HAUL_F32, HAUL_SHAPE(4)),
                      .w = leaf(haul_full(HAUL_F32, HAUL_SHAPE(4), rank + 1)),
                      .sum = haul_zeros(HAUL_F32, HAUL_SHAPE(4)),
                      .like = leaf(haul_zeros(HAUL_F32, HAUL_SHAPE(4)))};
}

static void test_messages__are_in_each_followed_step(void **state)
{
    (void)state;
    enum { RUNS = 6 };
    followed              f = followed_of();
    haul_recording       *r = haul_recording_new(followed_step, &f);
    haul_recording_report report;
    haul_group_properties before, after;
    check(haul_group_describe(group, &before));
    for (int i = 0; i < RUNS; i++) {
        check(haul_fill_into(f.x, 10 * rank + i));
        check(haul_set_grad(f.w, HAUL_NONE));
        check(haul_recording_run(r));
        assert_equal(f.sum, haul_full(HAUL_F32, HAUL_SHAPE(4), (10 * last_rank() + i) * (last_rank() + 1)));
        assert_equal(haul_tensor_grad(f.w), haul_full(HAUL_F32, HAUL_SHAPE(4), 3 * (10 * rank + i)));
    }
    check(haul_group_describe(group, &after));
    assert_int_equal(after.sent_bytes - before.sent_bytes, size > 1 ? 2 * 16 * RUNS : 0);
    check(haul_recording_report_get(r, &report));
    assert_true(report.followed > 0);
}

static void test_messages__are_in_programs(void **state)
{
    (void)state;
    static const char *const names[] = {"haul_send", "haul_receive", "haul_receive_backward", "haul_send_backward"};
    followed                 f = followed_of();
    haul_program             p;
    haul_group_properties    before, after;
    int                      found = 0;
    check(haul_group_describe(group, &before));
    check(haul_program_record(followed_step, &f, &p));
    check(haul_group_describe(group, &after));
    assert_int_equal(after.sent_bytes, before.sent_bytes);
    for (int64_t i = 0; i < p.operation_count; i++)
        found += found < 4 && !strcmp(p.operations[i].name, names[found]);
    assert_int_equal(found, 4);
    haul_program_free(&p);
}

/* ---- refused calls ---- */

static void assert_says(const char *text)
{
    if (!strstr(haul_error_message(), text))
        fail_msg("\"%s\" does not say \"%s\"", haul_error_message(), text);
    haul_error_clear();
}

static void assert_refused(haul_tensor *y, const char *text)
{
    assert_false(haul_tensor_is_valid(y));
    assert_says(text);
}

static void test_messages__bad_calls_are_refused(void **state)
{
    (void)state;
    haul_tensor *x = tensor_of(rank, HAUL_F32, HAUL_SHAPE(2, 3));
    assert_refused(haul_send(x, 0, NULL), "group");
    assert_refused(haul_send(x, 0, (haul_group *)x), "group");
    assert_refused(haul_send(x, size, group), "unknown rank");
    assert_refused(haul_send(x, -1, group), "unknown rank");
    assert_refused(haul_receive(x, size, group), "unknown rank");
    assert_refused(haul_receive(x, -1, group), "unknown rank");
}

/* ---- errors, on threads ---- */

typedef haul_status step(void);

static haul_status run_step(haul_group *own, void *context)
{
    group = own;
    rank = haul_group_rank(own);
    size = haul_group_size(own);
    return (*(step *const *)context)();
}

/* Runs a function on two ranks, unless the program's own ranks are several. */
static haul_status on_two(step *function)
{
    haul_group       *before = group;
    const haul_status status = haul_group_run("local:cpu,cpu", run_step, &(step *){function});
    group = before;
    rank = 0;
    size = 1;
    return status;
}

static bool is_alone(void)
{
    return !local_name && size == 1;
}

static haul_status status_of(haul_tensor *t)
{
    return haul_tensor_check(t);
}

static haul_status differ_in_shape(void)
{
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(rank ? 2 : 4));
    if (rank)
        return status_of(haul_receive(x, 0, group));
    const haul_status status = status_of(haul_send(x, 1, group));
    return status ? status : status_of(haul_receive(x, 1, group));
}

static haul_status differ_in_gradient(void)
{
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(2));
    return status_of(rank ? haul_receive(x, 0, group) : haul_send(leaf(x), 1, group));
}

static void test_messages__that_differ_print_both_sides(void **state)
{
    (void)state;
    if (!is_alone())
        return;
    assert_int_equal(on_two(differ_in_shape), HAUL_INVALID_ARGUMENT);
    assert_says("rank 0 (cpu) sends f32[4] (16 bytes), but rank 1 (cpu) expects f32[2] (8 bytes)");
    assert_int_equal(on_two(differ_in_gradient), HAUL_INVALID_ARGUMENT);
    assert_says("sends f32[2], with a gradient (8 bytes), but rank 1 (cpu) expects f32[2] (8 bytes)");
}

/* The sender does not fail, and gets the receiver's error with the next message. */
static haul_status hear_of_failure(void)
{
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(rank ? 2 : 4));
    if (rank) {
        assert_false(haul_tensor_is_valid(haul_receive(x, 0, group)));
        haul_error_clear();
        return HAUL_OK;
    }
    check(status_of(haul_send(x, 1, group)));
    assert_refused(haul_receive(x, 1, group),
                   "rank 1 (cpu) has failed before it sent f32[4]: haul_receive: rank 0 (cpu) sends");
    assert_refused(haul_receive(x, 1, group), "cannot be used after a failed");
    return HAUL_OK;
}

static haul_status send_failed(void)
{
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(2));
    if (rank == 0) {
        assert_refused(haul_send(haul_matmul(x, haul_zeros(HAUL_F32, HAUL_SHAPE(3, 3))), 1, group), "haul_matmul");
        return HAUL_OK;
    }
    assert_refused(haul_receive(x, 0, group), "rank 0 (cpu) has failed before it sent f32[2]: ");
    return HAUL_OK;
}

/* The last rank's backward pass fails before it comes to its message. */
static haul_status fail_in_pass(void)
{
    haul_tensor *x = leaf(haul_ones(HAUL_F32, HAUL_SHAPE(2)));
    if (rank == 0) {
        assert_int_equal(haul_backward(haul_send(x, 1, group)), HAUL_STATE);
        assert_says("rank 1 (cpu) has failed before it sent f32[2], the gradient of message 1: ");
        return HAUL_OK;
    }
    haul_tensor *y = haul_mul_scalar(haul_receive(x, 0, group), 1), *loss = haul_sum(haul_square(y));
    check(haul_fill_into(haul_detach(y), 2));
    assert_int_not_equal(haul_backward(loss), HAUL_OK);
    haul_error_clear();
    return HAUL_OK;
}

static void test_messages__errors_reach_the_other_rank(void **state)
{
    (void)state;
    if (!is_alone())
        return;
    check(on_two(hear_of_failure));
    check(on_two(send_failed));
    check(on_two(fail_in_pass));
}

/* Rank 1 sends the gradient of its first message first, and rank 0 expects that of the second one. */
static haul_status pass_in_another_order(void)
{
    haul_tensor *x = leaf(haul_zeros(HAUL_F32, HAUL_SHAPE(2))), *t[2];
    for (int i = 0; i < 2; i++)
        t[i] = rank ? haul_sum(haul_receive(x, 0, group)) : haul_send(x, 1, group);
    const haul_status status = haul_backward(rank ? t[0] : t[1]);
    return status ? status : haul_backward(rank ? t[1] : t[0]);
}

static void test_messages__gradients_in_another_order_are_an_error(void **state)
{
    (void)state;
    if (!is_alone())
        return;
    assert_int_equal(on_two(pass_in_another_order), HAUL_INVALID_ARGUMENT);
    assert_says("rank 1 (cpu) sends f32[2], the gradient of message 1 (8 bytes), but rank 0 (cpu) expects f32[2], the "
                "gradient of message 2 (8 bytes)");
}

static haul_status call_others(void)
{
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(2));
    return status_of(rank ? haul_receive(x, 0, group) : haul_all_reduce(x, group));
}

static haul_status leave(void)
{
    return rank ? status_of(haul_receive(haul_zeros(HAUL_F32, HAUL_SHAPE(2)), 0, group)) : HAUL_OK;
}

static void test_messages__a_rank_that_does_not_send_is_named(void **state)
{
    (void)state;
    if (!is_alone())
        return;
    assert_int_equal(on_two(leave), HAUL_STATE);
    assert_says("haul_receive: the message (f32[2]) cannot be completed: rank 0 (cpu) has ended without it");
    haul_group_get("none", .limit = 0.2);
    assert_int_equal(on_two(call_others), HAUL_STATE);
    haul_group_get("none", .limit = 300);
    assert_non_null(strstr(haul_error_message(), "has not reached it for 0.2 seconds, and waits in haul_"));
    assert_says("f32[2]");
}

static haul_status differentiate_twice(void)
{
    haul_tensor      *x = leaf(haul_ones(HAUL_F32, HAUL_SHAPE(2))), *g;
    haul_tensor      *y = rank ? haul_sum(haul_square(haul_receive(x, 0, group))) : haul_send(x, 1, group);
    const haul_status status = haul_grad(y, &x, 1, &g, .create_graph = true);
    assert_int_equal(status, rank ? HAUL_UNSUPPORTED : HAUL_STATE);
    assert_says("the gradient of a message cannot be differentiated");
    return HAUL_OK;
}

static haul_tensor *forward(haul_tensor *const *inputs, int count, void *context)
{
    (void)count;
    return haul_send(inputs[0], 1, context);
}

static haul_status run_again(void)
{
    if (rank)
        return HAUL_OK;
    haul_tensor *x = leaf(haul_ones(HAUL_F32, HAUL_SHAPE(2)));
    assert_refused(haul_checkpoint(forward, &x, 1, group), "runs again in the backward pass");
    return HAUL_OK;
}

static void test_messages__cannot_be_differentiated_twice_or_run_again(void **state)
{
    (void)state;
    if (!is_alone())
        return;
    check(on_two(differentiate_twice));
    check(on_two(run_again));
}

static haul_status receive_from_itself(void)
{
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(2));
    assert_refused(haul_receive(x, rank, group), "has sent no message to itself");
    check(status_of(haul_send(x, rank, group)));
    assert_refused(haul_receive(haul_zeros(HAUL_F32, HAUL_SHAPE(3)), rank, group), "but expects f32[3] (12 bytes)");
    return HAUL_OK;
}

static void test_messages__to_itself_come_before_they_are_received(void **state)
{
    (void)state;
    if (is_alone())
        check(on_two(receive_from_itself));
}

static haul_status use_messages(void)
{
    followed f = followed_of();
    return followed_step(&f);
}

/* Each allocation fails in turn, in whichever thread: both ranks end. */
static void test_messages__ranks_end_wherever_memory_is_missing(void **state)
{
    (void)state;
    if (!is_alone())
        return;
    check(on_two(use_messages));
    haul__fault_plan(HAUL__FAULT_HOST, INT64_MAX);
    check(on_two(use_messages));
    const int64_t count = haul__fault_count();
    assert_in_range(count, 20, 4000);
    for (int64_t nth = 1; nth <= count; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        on_two(use_messages);
        haul__fault_plan(0, 0);
        haul_error_clear();
    }
    check(on_two(use_messages));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_messages__##name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(arrive_in_order),
        T(views_are_sent_and_are_patterns),
        T(large_tensors_are_cut),
        T(work_on_other_devices),
        T(gradients_come_back),
        T(gradients_pass_all_stages),
        T(a_pass_has_several),
        T(bytes_between_ranks_are_counted),
        T(are_in_each_followed_step),
        T(are_in_programs),
        T(bad_calls_are_refused),
        T(that_differ_print_both_sides),
        T(errors_reach_the_other_rank),
        T(gradients_in_another_order_are_an_error),
        T(a_rank_that_does_not_send_is_named),
        T(cannot_be_differentiated_twice_or_run_again),
        T(to_itself_come_before_they_are_received),
        T(ranks_end_wherever_memory_is_missing),
    };
    return run_on_ranks(tests, sizeof tests / sizeof *tests, group_setup);
}
