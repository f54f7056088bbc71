/* The stream of events: what arrives, in which order, with which fields; and no work without subscribers.
 *
 * ctest: cuda; env=POCL_DEVICES=pthread pthread; labels=threads */
#include <stdlib.h>

#include "support/failure.h"
#include "support/ledger.h"
#include "support/record.h"

/* ---- kinds ---- */

static void test_events__operations_begin_and_end(void **state)
{
    static record r;
    haul_tensor  *x = iota(2, 3), *flags = haul_gt_scalar(x, 2);
    int           at = 0;
    (void)state;
    int64_t id = listen_to(&r, HAUL_EVENT_OPERATION);
    assert_valid(haul_relu(x));
    assert_valid(haul_exp(haul_logical_not(flags)));
    assert_failed(haul_add(x, iota(5, 7))); /* fails, and has ended all the same */
    stop(id);
    haul_error_clear();
    const char *names[] = {"haul_relu", "haul_logical_not", "haul_exp", "haul_add"};
    int64_t     last = 0;
    for (int i = 0; i < 4; i++) {
        const kept *begin = next(&r, &at, HAUL_EVENT_OPERATION);
        while (strcmp(begin->operation, names[i]))
            begin = next(&r, &at, HAUL_EVENT_OPERATION);
        assert_int_equal(begin->e.kind, HAUL_EVENT_OPERATION_BEGIN);
        assert_int_equal(begin->e.depth, 0);
        assert_int_equal(begin->e.duration, 0);
        const kept *end = next(&r, &at, HAUL_EVENT_OPERATION_END);
        while (strcmp(end->operation, names[i])) {
            assert_true(end->e.depth > 0);
            end = next(&r, &at, HAUL_EVENT_OPERATION_END);
        }
        assert_int_equal(end->e.depth, 0);
        assert_true(begin->e.time > 0 && begin->e.time >= last);
        assert_true(end->e.duration > 0 && end->e.duration == end->e.time - begin->e.time);
        assert_int_equal(end->e.thread, begin->e.thread);
        last = end->e.time;
    }
    assert_int_equal(count_of(&r, HAUL_EVENT_OPERATION_BEGIN), count_of(&r, HAUL_EVENT_OPERATION_END));
}

static void test_events__copies_and_waits_have_their_fields(void **state)
{
    static record r;
    haul_device  *device = late_device(0);
    haul_tensor  *x = iota(1, 4);
    int           at = 0;
    (void)state;
    int64_t      id = listen_to(&r, HAUL_EVENT_COPY | HAUL_EVENT_WAITED | HAUL_EVENT_FOUND_DONE);
    haul_tensor *y = haul_to(x, device);
    assert_true(haul_item(view_of(y, &HAUL_SHAPE(1), (int64_t[]){1}, 2)) == 2);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    stop(id);
    const kept *up = next(&r, &at, HAUL_EVENT_COPY);
    assert_int_equal(up->e.kind, HAUL_EVENT_COPY_TO_DEVICE);
    assert_string_equal(up->operation, "haul_to");
    assert_ptr_equal(up->e.device, device);
    assert_ptr_equal(up->e.other, haul_cpu());
    assert_int_equal(up->e.bytes, 16);
    const kept *wait = next(&r, &at, HAUL_EVENT_COPY | HAUL_EVENT_WAIT);
    assert_int_equal(wait->e.kind, HAUL_EVENT_WAITED);
    assert_string_equal(wait->operation, "haul_item");
    assert_string_equal(wait->text, "waited");
    assert_string_equal(wait->stream, "download");
    assert_ptr_equal(wait->e.device, device);
    assert_int_equal(wait->e.bytes, 4);
    assert_true(wait->e.duration >= 0);
    assert_null(wait->e.frames); /* not requested */
    const kept *down = next(&r, &at, HAUL_EVENT_COPY | HAUL_EVENT_WAIT);
    assert_int_equal(down->e.kind, HAUL_EVENT_COPY_TO_HOST);
    assert_ptr_equal(down->e.device, haul_cpu());
    assert_ptr_equal(down->e.other, device);
    assert_int_equal(down->e.bytes, 4);
}

/* On real devices: what the statistics count is what the events said. */
static void test_events__copies_add_up_to_the_statistics(void **state)
{
    static record r;
    (void)state;
    for (int d = 1; d < device_count; d++) {
        int64_t bytes[2] = {0, 0};
        haul_transfer_stats_reset();
        int64_t      id = listen_to(&r, HAUL_EVENT_COPY);
        haul_tensor *x = haul_to(iota(10, 10), devices[d]);
        assert_true(haul_item(haul_sum(haul_to(haul_relu(x), haul_cpu()))) == 4950);
        stop(id);
        for (int i = 0; i < r.count; i++) {
            assert_int_equal(r.events[i].e.kind & HAUL_EVENT_COPY_BETWEEN, 0);
            bytes[r.events[i].e.kind == HAUL_EVENT_COPY_TO_HOST] += r.events[i].e.bytes;
        }
        assert_int_equal(bytes[0], 400);
        assert_int_equal(bytes[0], ledger().h2d_bytes);
        assert_int_equal(bytes[1], ledger().d2h_bytes);
        assert_int_equal(r.count, ledger().h2d_count + ledger().d2h_count);
    }
}

static void test_events__memory_tells_who_holds_what(void **state)
{
    static record r;
    haul_device  *device = late_device(1);
    int           at = 0;
    (void)state;
    haul_memory_release_cached(device);
    int64_t      id = listen_to(&r, HAUL_EVENT_MEMORY);
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(1, 1));
    haul_tensor *y = haul_to(iota(10, 10), device);
    haul_drop(x);
    haul_drop(y);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    stop(id);
    const kept *got = next(&r, &at, HAUL_EVENT_MEMORY_OBTAINED);
    while (got->e.device != device || *got->text)
        got = next(&r, &at, HAUL_EVENT_MEMORY_OBTAINED);
    assert_string_equal(got->operation, "haul_to");
    assert_int_equal(got->e.bytes, 448); /* the size class of 400 */
    assert_true(got->e.block > 0);
    const kept *given = next(&r, &at, HAUL_EVENT_MEMORY_ALLOCATED);
    assert_int_equal(given->e.block, got->e.block);
    assert_int_equal(given->e.bytes, 448);
    assert_int_equal(given->e.requested, 400);
    assert_string_equal(given->operation, "haul_to");
    assert_true(given->e.storage > 0 && given->e.storage != given->e.block);
    const kept *freed = next(&r, &at, HAUL_EVENT_MEMORY_FREED);
    while (freed->e.storage != given->e.storage)
        freed = next(&r, &at, HAUL_EVENT_MEMORY_FREED);
    assert_int_equal(freed->e.block, given->e.block);
    assert_int_equal(freed->e.bytes, 448);
    assert_ptr_equal(freed->e.device, device);
    const kept *back = next(&r, &at, HAUL_EVENT_MEMORY_RETURNED);
    while (back->e.block != given->e.block)
        back = next(&r, &at, HAUL_EVENT_MEMORY_RETURNED);
    assert_string_equal(back->operation, "haul_memory_release_cached");
    assert_int_equal(back->e.bytes, 448);
}

/* Who listens from the beginning has the allocator's table. */
static void test_events__memory_table_can_be_rebuilt(void **state)
{
    static record      r;
    haul_device       *device = late_device_new();
    haul_memory_origin rows[4];
    int64_t            held = 0, blocks = 0;
    (void)state;
    int64_t      id = listen_to(&r, HAUL_EVENT_MEMORY_ALLOCATED | HAUL_EVENT_MEMORY_FREED);
    haul_tensor *x = haul_to(iota(10, 10), device), *y = haul_to(iota(3, 3), device);
    haul_drop(haul_to(iota(5, 5), device));
    assert_int_equal(haul_memory_by_origin(device, rows, 4), 1);
    stop(id);
    for (int i = 0; i < r.count; i++)
        if (r.events[i].e.device == device && !*r.events[i].text) {
            int sign = r.events[i].e.kind == HAUL_EVENT_MEMORY_ALLOCATED ? 1 : -1;
            assert_string_equal(r.events[i].operation, rows[0].name);
            held += sign * r.events[i].e.bytes;
            blocks += sign;
        }
    assert_int_equal(held, rows[0].bytes);
    assert_int_equal(blocks, 2);
    assert_int_equal(rows[0].blocks, 2);
    haul_drop(x);
    haul_drop(y);
}

static void test_events__placement_is_told(void **state)
{
    static record r;
    int           at = 0;
    (void)state;
    if (device_count < 2)
        skip();
    haul_tensor *a = iota(4, 4), *b = haul_to(iota(1, 4), devices[1]);
    assert_int_equal(haul_set_placement_policy(HAUL_PLACE_MOVE), HAUL_OK);
    int64_t id = listen_to(&r, HAUL_EVENT_PLACEMENT);
    assert_valid(haul_add(a, b));
    stop(id);
    const kept *runs = next(&r, &at, HAUL_EVENT_PLACEMENT), *moves = next(&r, &at, HAUL_EVENT_PLACEMENT);
    assert_string_equal(runs->operation, "haul_add");
    assert_string_equal(runs->text, "a");
    assert_ptr_equal(runs->e.device, haul_cpu());
    assert_null(runs->e.other);
    assert_int_equal(runs->e.bytes, 64);
    assert_string_equal(moves->text, "b");
    assert_ptr_equal(moves->e.device, haul_cpu());
    assert_ptr_equal(moves->e.other, devices[1]);
    assert_int_equal(moves->e.bytes, 16);
    assert_int_equal(r.count, 2);
}

static void test_events__implementations_and_compilations_are_told(void **state)
{
    static record r;
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_tensor *x = haul_to(iota(4, 4), devices[d]), *w = haul_reshape(x, HAUL_SHAPE(1, 1, 4, 4));
        haul_tensor *whole = haul_cast(x, HAUL_I32);
        int64_t id = listen_to(&r, HAUL_EVENT_IMPLEMENTATION | HAUL_EVENT_KERNEL_COMPILED | HAUL_EVENT_DRIVER_CALLED);
        assert_valid(haul_matmul(whole, whole));
        assert_valid(haul_conv2d(w, w));
        stop(id);
        int         at = 0, compiled = count_of(&r, HAUL_EVENT_KERNEL_COMPILED), calls = 0;
        const kept *gemm = next(&r, &at, HAUL_EVENT_IMPLEMENTATION), *conv = next(&r, &at, HAUL_EVENT_IMPLEMENTATION);
        assert_string_equal(gemm->operation, "haul_matmul");
        assert_string_equal(gemm->text, "kernel"); /* the others take floats only */
        assert_string_equal(gemm->problem, "i32 [4,4] x [4,4]");
        assert_non_null(strstr(gemm->refused, ": it takes floats only"));
        assert_ptr_equal(gemm->e.device, devices[d]);
        assert_string_equal(conv->operation, "haul_conv2d");
        assert_string_equal(conv->problem, "f32 [1,1,4,4] * [1,1,4,4]");
        assert_true(*conv->text && !strstr(conv->refused, conv->text));
        for (int i = 0; i < r.count; i++)
            calls += strcmp(r.events[i].text, "was compiled") == 0;
        assert_int_equal(compiled, calls);
        assert_true(d == 0 ? compiled == 0 : compiled > 0);
        for (int i = 0; i < compiled; i++) {
            const kept *k = next(&r, &(int){0}, HAUL_EVENT_KERNEL_COMPILED);
            assert_true(k->e.duration > 0 && *k->operation);
            assert_ptr_equal(k->e.device, devices[d]);
        }
    }
}

static haul_tensor *outer(haul_module *module, haul_args *args)
{
    return haul_call_child(module, "act", haul_exp(args->x[0]));
}

static void test_events__calls_and_labels_enclose_what_happens_in_them(void **state)
{
    static record r;
    haul_module  *net = haul_module_new("net", outer);
    haul_tensor  *x = iota(2, 2);
    int           at = 0;
    (void)state;
    assert_int_equal(haul_module_add(net, "act", haul_nn_relu()), HAUL_OK);
    int64_t id = listen_to(&r, HAUL_EVENT_CALL | HAUL_EVENT_LABEL | HAUL_EVENT_OPERATION);
    assert_int_equal(haul_label_begin("epoch 3"), HAUL_OK);
    haul_tensor *y = haul_call(net, x);
    assert_int_equal(haul_label_end(), HAUL_OK);
    stop(id);
    static const struct {
        haul_event_kind kind;
        int             depth;
        const char     *operation, *origin, *label, *text;
    } wanted[] = {
        {HAUL_EVENT_LABEL_BEGIN, 0, "", "", "", "epoch 3"},
        {HAUL_EVENT_CALL_BEGIN, 1, "", "", "epoch 3", "net"},
        {HAUL_EVENT_OPERATION_BEGIN, 2, "haul_exp", "", "epoch 3", ""},
        {HAUL_EVENT_OPERATION_END, 2, "haul_exp", "", "epoch 3", ""},
        {HAUL_EVENT_CALL_BEGIN, 2, "", "act", "epoch 3", "relu"},
        {HAUL_EVENT_OPERATION_BEGIN, 3, "haul_relu", "act", "epoch 3", ""},
        {HAUL_EVENT_OPERATION_END, 3, "haul_relu", "act", "epoch 3", ""},
        {HAUL_EVENT_CALL_END, 2, "", "act", "epoch 3", "relu"},
        {HAUL_EVENT_CALL_END, 1, "", "", "epoch 3", "net"},
        {HAUL_EVENT_LABEL_END, 0, "", "", "", "epoch 3"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const kept *k = next(&r, &at, wanted[i].kind);
        assert_int_equal(k->e.kind, wanted[i].kind);
        assert_int_equal(k->e.depth, wanted[i].depth);
        assert_string_equal(k->operation, wanted[i].operation);
        assert_string_equal(k->origin, wanted[i].origin);
        assert_string_equal(k->label, wanted[i].label);
        assert_string_equal(k->text, wanted[i].text);
    }
    const kept *last = &r.events[r.count - 2];
    assert_ptr_equal(r.events[1].e.module, net);
    assert_int_equal(r.events[1].x_count, 1);
    assert_ptr_equal(r.events[1].x[0], x);
    assert_int_equal(r.events[1].y_count, 0);
    assert_ptr_equal(last->e.module, net);
    assert_true(last->y_count == 1 && last->y[0]->storage == y->storage && last->e.duration > 0);
}

static void test_events__labels_are_checked(void **state)
{
    static record r;
    int64_t       id;
    (void)state;
    assert_int_equal(haul_label_end(), HAUL_STATE);
    assert_error(HAUL_STATE, "no label is open");
    assert_int_equal(haul_label_begin(NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    for (int i = 0; i < 32; i++)
        assert_int_equal(haul_label_begin("deep"), HAUL_OK);
    assert_int_equal(haul_label_begin("deeper"), HAUL_STATE);
    assert_error(HAUL_STATE, "32 labels are open, which is the limit");
    id = listen_to(&r, HAUL_EVENT_LABEL | HAUL_EVENT_OPERATION);
    haul_relu(iota(1, 1));
    assert_string_equal(r.events[0].label,
                        "deep"); /* which began before there was a subscriber: its end makes no event */
    for (int i = 0; i < 32; i++)
        assert_int_equal(haul_label_end(), HAUL_OK);
    stop(id);
    assert_int_equal(count_of(&r, HAUL_EVENT_LABEL), 0);
}

/* ---- without subscribers ---- */

static void work(void)
{
    haul_tensor *x = iota(8, 8);
    haul_label_begin("work");
    haul_call(haul_nn_relu(), haul_matmul(x, haul_add(x, x)));
    for (int d = 1; d < device_count; d++)
        haul_item(haul_sum(haul_to(x, devices[d])));
    haul_label_end();
}

static void test_events__nothing_is_made_for_nobody(void **state)
{
    static record r;
    (void)state;
    ledger_stop();
    work();
    assert_int_equal(atomic_load(&haul__tls.watch), 0);
    int64_t before = haul__events_delivered();
    work();
    assert_int_equal(haul__events_delivered(), before);
    int64_t id = listen_to(&r, HAUL_EVENT_LABEL_BEGIN); /* others' kinds cost nothing either */
    assert_int_equal(atomic_load(&haul__tls.watch), HAUL_EVENT_LABEL_BEGIN);
    work();
    stop(id);
    assert_int_equal(r.count, 1);
    assert_int_equal(haul__events_delivered(), before + 1);
    assert_int_equal(atomic_load(&haul__tls.watch), 0);
    ledger_go_on();
}

int main(void)
{
    unsetenv("HAUL_WITHOUT"); /* these tests are about what it leaves out */
    const struct CMUnitTest tests[] = {
        EVENT_TEST(test_events__operations_begin_and_end),
        EVENT_TEST(test_events__copies_and_waits_have_their_fields),
        EVENT_TEST(test_events__copies_add_up_to_the_statistics),
        EVENT_TEST(test_events__memory_tells_who_holds_what),
        EVENT_TEST(test_events__memory_table_can_be_rebuilt),
        EVENT_TEST(test_events__placement_is_told),
        EVENT_TEST(test_events__implementations_and_compilations_are_told),
        EVENT_TEST(test_events__calls_and_labels_enclose_what_happens_in_them),
        EVENT_TEST(test_events__labels_are_checked),
        EVENT_TEST(test_events__nothing_is_made_for_nobody),
    };
    return run_moves("events", tests, sizeof tests / sizeof tests[0]);
}
