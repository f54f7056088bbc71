/* The ledger: its rows, what joins them, and device times.
 * ctest: cuda; sim; env=POCL_DEVICES=pthread pthread; labels=threads */
#include <pthread.h>
#include <stdio.h>

#include "observe/watch/overlap.h"
#include "support/moves.h"
#include "support/random.h"

enum { ROWS = 32 };

typedef struct listing {
    haul_ledger_row rows[ROWS];
    int             count;
} listing;

static listing list(haul_ledger *ledger, unsigned by)
{
    listing l = {.count = haul_ledger_rows(ledger, l.rows, ROWS, .by = by)};
    assert_in_range(l.count, 0, ROWS);
    return l;
}

static const haul_ledger_row *row_with(const listing *l, const char *operation, const char *tensor)
{
    for (int i = 0; i < l->count; i++)
        if (!strcmp(l->rows[i].operation, operation) && !strcmp(l->rows[i].tensor, tensor))
            return &l->rows[i];
    fail_msg("there is no row of %s for '%s'", operation, tensor);
    return NULL;
}

/* ---- rows ---- */

static void test_ledger__tells_operations_and_directions_apart(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_scope  *part = haul_scope_push();
        haul_ledger *ledger = haul_ledger_begin(.everywhere = false);
        haul_tensor *x = haul_to(iota(8, 32), devices[d]);
        haul_to(iota(4, 4), devices[d]);
        assert_true(haul_item(haul_sum(x)) == 255 * 128);
        assert_int_equal(haul_ledger_end(ledger), HAUL_OK);
        haul_to(iota(8, 8), devices[d]); /* not counted any more */

        listing                l = list(ledger, 0);
        const haul_ledger_row *up = row_with(&l, "haul_to", ""), *down = row_with(&l, "haul_item", "");
        assert_int_equal(l.count, 2);
        assert_ptr_equal(&l.rows[0], up); /* most bytes first */
        assert_ptr_equal(up->from, haul_cpu());
        assert_ptr_equal(up->to, devices[d]);
        assert_int_equal(up->count, 2);
        assert_int_equal(up->bytes, 1024 + 64);
        assert_string_equal(up->conversion, "");
        assert_ptr_equal(down->from, devices[d]);
        assert_ptr_equal(down->to, haul_cpu());
        assert_int_equal(down->count, 1);
        assert_int_equal(down->bytes, 4);
        assert_true(down->wait_ms > 0);
        assert_true(up->device_ms == 0 && up->overlap_ms == 0); /* not asked for */
        haul_scope_pop(part);
    }
}

static void test_ledger__joins_rows(void **state)
{
    (void)state;
    haul_ledger *ledger = haul_ledger_begin(.everywhere = false);
    haul_device *late[] = {late_device(0), late_device(1)};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(haul_label_begin(i ? "second" : "first"), HAUL_OK);
        haul_read(haul_to(iota(1, 4), late[i]), (float[4]){0}, 16);
        assert_int_equal(haul_label_end(), HAUL_OK);
    }
    assert_int_equal(haul_ledger_rows(ledger, NULL, 0), 4);
    const struct {
        unsigned by;
        int      count;
    } cases[] = {{HAUL_LEDGER_ALL, 4},
                 {HAUL_LEDGER_OPERATION, 2},
                 {HAUL_LEDGER_LABEL, 2},
                 {HAUL_LEDGER_FROM, 3},
                 {HAUL_LEDGER_FROM | HAUL_LEDGER_TO, 4},
                 {HAUL_LEDGER_MODULE, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const listing l = list(ledger, cases[i].by);
        int64_t       bytes = 0, count = 0;
        assert_int_equal(l.count, cases[i].count);
        for (int r = 0; r < l.count; r++) {
            bytes += l.rows[r].bytes;
            count += l.rows[r].count;
            assert_true(cases[i].by & HAUL_LEDGER_FROM || !l.rows[r].from);
            assert_true(cases[i].by & HAUL_LEDGER_LABEL || !*l.rows[r].label);
            assert_true(cases[i].by & HAUL_LEDGER_OPERATION || !*l.rows[r].operation);
        }
        assert_int_equal(bytes, 64);
        assert_int_equal(count, 4);
    }
    haul_ledger_row one;
    assert_int_equal(haul_ledger_rows(ledger, &one, 1, .by = HAUL_LEDGER_LABEL), 2);
    assert_string_equal(one.label, "first"); /* both have 32 bytes */
    assert_int_equal(one.bytes, 32);
}

static haul_tensor *reads_in_forward(haul_module *m, haul_args *args)
{
    (void)m;
    haul_item(view_of(args->x[0], &HAUL_SHAPE(1), (int64_t[]){1}, 0));
    return args->x[0];
}

static void test_ledger__names_parameters_inputs_operands_and_modules(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_scope  *part = haul_scope_push();
        haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(4, 3), haul_module_new("peek", reads_in_forward));
        haul_ledger *ledger = haul_ledger_begin(.everywhere = false);
        assert_int_equal(haul_module_place(net, devices[d]), HAUL_OK);
        haul_tensor *y = haul_call(net, iota(2, 4));
        assert_int_equal(haul_set_placement_policy(HAUL_PLACE_MOVE), HAUL_OK);
        haul_matmul(y, iota(3, 1));
        listing l = list(ledger, 0);
        assert_int_equal(l.count, 5);
        assert_int_equal(row_with(&l, "haul_to", "0.weight")->bytes, 48);
        assert_int_equal(row_with(&l, "haul_to", "0.bias")->bytes, 12);
        assert_int_equal(row_with(&l, "haul_to", "x")->bytes, 32);
        assert_string_equal(row_with(&l, "haul_to", "x")->module, "");
        const haul_ledger_row *read = row_with(&l, "haul_item", "");
        assert_string_equal(read->module, "1");
        assert_int_equal(read->bytes, 4);
        assert_int_equal(row_with(&l, "haul_to", "b")->bytes, 12);
        haul_scope_pop(part);
    }
}

static void test_ledger__tells_pinned_from_pageable_and_conversions(void **state)
{
    (void)state;
    haul_device *device = late_device(0);
    haul_ledger *ledger = haul_ledger_begin(.everywhere = false);
    haul_to(haul_pin(iota(2, 2), device), device); /* 16 bytes */
    haul_to(iota(4, 4), device);                   /* 64 */
    haul_write(haul_to(iota(1, 1), device), &(float){1}, 4);
    listing                l = list(ledger, 0);
    const haul_ledger_row *moved = row_with(&l, "haul_to", "");
    assert_int_equal(moved->pinned_bytes, 16);
    assert_int_equal(moved->pageable_bytes, 68);
    assert_int_equal(row_with(&l, "haul_write", "")->pageable_bytes, 4);
    assert_string_equal(moved->conversion, "");
    haul_to(iota(1, 8), device, .dtype = HAUL_F16); /* crosses as f16 */
    l = list(ledger, 0);
    moved = row_with(&l, "haul_to", "");
    assert_string_equal(moved->conversion, "several");
    assert_int_equal(moved->bytes, 16 + 64 + 4 + 16);
    ledger = haul_ledger_begin(.everywhere = false);
    haul_to(iota(1, 8), device, .dtype = HAUL_F16);
    l = list(ledger, 0);
    assert_string_equal(l.rows[0].conversion, "f32 to f16");
    assert_int_equal(l.rows[0].bytes, 16);
}

static void test_ledger__names_the_fields_of_a_batch(void **state)
{
    (void)state;
    haul_tensor  *pictures = iota(8, 4), *classes = haul_arange(HAUL_I64, 0, 8, 1);
    haul_dataset *data = haul_dataset_from_tensors(pictures, classes);
    assert_non_null(data);
    haul_ledger *ledger = haul_ledger_begin(.everywhere = true);
    haul_loader *loader = haul_loader_new(data, .batch = 4, .device = late_device(0));
    assert_non_null(loader);
    assert_int_equal(haul_loader_start(loader, 0), HAUL_OK);
    while (haul_loader_next(loader))
        continue;
    if (haul_error_status())
        fail_msg("%s", haul_error_message());
    listing l = list(ledger, HAUL_LEDGER_TENSOR);
    int64_t bytes = 0;
    assert_int_equal(l.count, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(*l.rows[i].tensor);
        bytes += l.rows[i].bytes;
    }
    assert_int_equal(bytes, 8 * 16 + 8 * 8);
}

/* ---- whose ---- */

static void *copies(void *context)
{
    haul_scope *own = haul_scope_push();
    haul_to(iota(1, 4), context);
    haul_scope_pop(own);
    return NULL;
}

static void *ends(void *ledger)
{
    haul_status *status = malloc(sizeof *status);
    if (status)
        *status = haul_ledger_end(ledger);
    return status;
}

static void test_ledger__counts_its_thread_or_all(void **state)
{
    (void)state;
    for (int everywhere = 0; everywhere < 2; everywhere++) {
        pthread_t    worker;
        haul_ledger *ledger = haul_ledger_begin(.everywhere = everywhere);
        assert_int_equal(pthread_create(&worker, NULL, copies, late_device(1)), 0);
        assert_int_equal(pthread_join(worker, NULL), 0);
        assert_int_equal(haul_ledger_rows(ledger, NULL, 0), everywhere);
        void *status;
        assert_int_equal(pthread_create(&worker, NULL, ends, ledger), 0);
        assert_int_equal(pthread_join(worker, &status), 0);
        assert_non_null(status);
        assert_int_equal(*(haul_status *)status, HAUL_OK);
        free(status);
        haul_to(iota(1, 4), late_device(1));
        assert_int_equal(haul_ledger_rows(ledger, NULL, 0), everywhere);
    }
}

static void *copy_many(void *context)
{
    haul_scope *own = haul_scope_push();
    for (int i = 0; i < 200; i++)
        haul_to(iota(1, 4), context);
    haul_scope_pop(own);
    return NULL;
}

static void test_ledger__is_read_while_others_copy(void **state)
{
    (void)state;
    pthread_t    workers[3];
    haul_ledger *ledger = haul_ledger_begin(.everywhere = true, .device_times = true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&workers[i], NULL, copy_many, late_device(i % 2)), 0);
    for (int i = 0; i < 100; i++)
        assert_in_range(list(ledger, HAUL_LEDGER_OPERATION).count, 0, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(workers[i], NULL), 0);
    listing l = list(ledger, HAUL_LEDGER_OPERATION);
    assert_int_equal(l.rows[0].count, 600);
    assert_int_equal(l.rows[0].bytes, 9600);
}

static void test_ledger__ends_with_its_scope(void **state)
{
    (void)state;
    haul_scope  *part = haul_scope_push();
    haul_ledger *kept = haul_keep(haul_ledger_begin(.everywhere = false));
    haul_ledger_begin(.everywhere = false);
    haul_scope_pop(part);
    haul_to(iota(1, 4), late_device(0));
    assert_int_equal(haul_ledger_rows(kept, NULL, 0), 1);
    haul_release(kept);
    haul_to(iota(1, 4), late_device(0));
}

static void test_ledger__joins_what_is_too_much(void **state)
{
    enum { MANY = 4200, MOST = 4096 };
    static char            labels[MANY][24];
    static haul_ledger_row rows[MANY];
    (void)state;
    haul_ledger *ledger = haul_ledger_begin(.everywhere = false);
    int64_t      bytes = 0, count = 0;
    for (int i = 0; i < MANY; i++) {
        haul_scope *part = haul_scope_push();
        snprintf(labels[i], sizeof labels[i], "part %d", i);
        assert_int_equal(haul_label_begin(labels[i]), HAUL_OK);
        haul_to(iota(1, 1), late_device(0));
        assert_int_equal(haul_label_end(), HAUL_OK);
        haul_scope_pop(part);
    }
    assert_int_equal(haul_ledger_rows(ledger, rows, MANY), MOST + 1);
    for (int i = 0; i <= MOST; i++) {
        bytes += rows[i].bytes;
        count += rows[i].count;
    }
    assert_int_equal(bytes, 4 * MANY);
    assert_int_equal(count, MANY);
    assert_string_equal(rows[0].operation, "others"); /* it has the most bytes */
    assert_int_equal(rows[0].count, MANY - MOST);
    assert_ptr_equal(rows[0].to, late_device(0));
}

/* ---- device times ---- */

static void test_ledger__device_times(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_scope  *part = haul_scope_push();
        haul_ledger *ledger = haul_ledger_begin(.device_times = true);
        haul_to(iota(1024, 1024), devices[d]);
        assert_int_equal(haul_device_sync(devices[d]), HAUL_OK);
        assert_int_equal(haul_ledger_end(ledger), HAUL_OK);
        const listing l = list(ledger, 0);
        assert_int_equal(l.count, 1);
        assert_true(l.rows[0].device_ms > 0);
        assert_true(l.rows[0].overlap_ms >= 0 && l.rows[0].overlap_ms <= l.rows[0].device_ms);
        haul_scope_pop(part);
    }
}

/* Spans of all lanes in any order of lanes against all pairs. */
static void add_found(void *context, uint64_t copy, int64_t ns)
{
    ((int64_t *)context)[copy] += ns;
}

static void test_ledger__overlaps_equal_all_pairs(void **state)
{
    enum { SPANS = 200, TRIALS = 200, COPIES = (HAUL__LANES - 1) * SPANS };
    (void)state;
    random_state = 20;
    for (int trial = 0; trial < TRIALS; trial++) {
        haul__overlaps o = {0};
        haul__span     spans[HAUL__LANES][SPANS];
        int64_t        found[COPIES + 1] = {0}, expected[COPIES + 1] = {0};
        int            next[HAUL__LANES] = {0};
        for (int lane = 0; lane < HAUL__LANES; lane++) {
            int64_t at = 0;
            for (int i = 0; i < SPANS; i++) {
                const int64_t start = at + below(10);
                at = start + 1 + below(lane ? 30 : 6);
                spans[lane][i] =
                    (haul__span){.begin = start, .end = at, .copy = lane ? (uint64_t)((lane - 1) * SPANS + i + 1) : 0};
            }
        }
        for (int c = 1; c < HAUL__LANES; c++)
            for (int i = 0; i < SPANS; i++)
                for (int k = 0; k < SPANS; k++) {
                    const haul__span a = spans[c][i], b = spans[HAUL__COMPUTING][k];
                    const int64_t    from = a.begin > b.begin ? a.begin : b.begin, to = a.end < b.end ? a.end : b.end;
                    expected[a.copy] += to > from ? to - from : 0;
                }
        for (int left = HAUL__LANES * SPANS; left > 0; left--) {
            int lane = (int)below(HAUL__LANES);
            while (next[lane] == SPANS)
                lane = (lane + 1) % HAUL__LANES;
            haul__overlap_add(&o, haul_cpu(), (haul__lane)lane, spans[lane][next[lane]], add_found, found);
            next[lane]++;
        }
        assert_memory_equal(found, expected, sizeof found);
        haul__overlap_free(&o);
    }
}

/* ---- wrong uses ---- */

static void subscriber(const haul_event *e, void *context)
{
    (void)e;
    haul_scope *own = haul_scope_push();
    *(bool *)context = haul_ledger_begin(.everywhere = false) == NULL;
    haul_scope_pop(own);
}

static void test_ledger__wrong_uses(void **state)
{
    bool refused = false;
    (void)state;
    haul_ledger *ledger = haul_ledger_begin(.everywhere = false);
    assert_null(haul_ledger_begin_with(NULL));
    assert_int_equal(haul_ledger_end(NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_ledger_end((haul_ledger *)iota(1, 1)), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_ledger_rows(NULL, NULL, 0), -1);
    assert_int_equal(haul_ledger_rows(ledger, NULL, 1), -1);
    assert_int_equal(haul_ledger_rows(ledger, NULL, -1), -1);
    assert_string_equal(haul_error_argument(), "capacity");
    assert_int_equal(haul_ledger_rows(ledger, NULL, 0, .by = 64), -1);
    assert_string_equal(haul_error_argument(), "by");
    assert_int_equal(haul_ledger_rows_with(ledger, NULL, NULL), -1);
    assert_int_equal(haul_ledger_end(ledger), HAUL_OK);
    assert_int_equal(haul_ledger_end(ledger), HAUL_OK); /* a second end changes nothing */
    int64_t id = haul_events_subscribe(subscriber, .kinds = HAUL_EVENT_LABEL_BEGIN, .context = &refused);
    assert_int_equal(haul_label_begin("here"), HAUL_OK);
    assert_int_equal(haul_label_end(), HAUL_OK);
    assert_int_equal(haul_events_unsubscribe(id), HAUL_OK);
    assert_true(refused);
    haul_error_clear();
}

static void test_ledger__without_memory(void **state)
{
    (void)state;
    haul_tensor *x = iota(1, 4);
    for (int64_t nth = 1; nth < 12; nth++) {
        haul_scope *part = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul_ledger *ledger = haul_ledger_begin(.device_times = true);
        if (!ledger)
            assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        haul_to(x, late_device(0));
        haul__fault_plan(0, 0);
        haul_error_clear();
        assert_in_range(ledger ? haul_ledger_rows(ledger, NULL, 0) : 0, 0, 1);
        haul_scope_pop(part);
        haul_error_clear();
    }
}

#define LEDGER_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(test_ledger__tells_operations_and_directions_apart),
        LEDGER_TEST(test_ledger__joins_rows),
        LEDGER_TEST(test_ledger__names_parameters_inputs_operands_and_modules),
        LEDGER_TEST(test_ledger__tells_pinned_from_pageable_and_conversions),
        LEDGER_TEST(test_ledger__names_the_fields_of_a_batch),
        LEDGER_TEST(test_ledger__counts_its_thread_or_all),
        LEDGER_TEST(test_ledger__is_read_while_others_copy),
        LEDGER_TEST(test_ledger__ends_with_its_scope),
        LEDGER_TEST(test_ledger__joins_what_is_too_much),
        LEDGER_TEST(test_ledger__device_times),
        LEDGER_TEST(test_ledger__overlaps_equal_all_pairs),
        LEDGER_TEST(test_ledger__wrong_uses),
        LEDGER_TEST(test_ledger__without_memory),
    };
    return run_moves("ledger_rows", tests, sizeof tests / sizeof tests[0]);
}
