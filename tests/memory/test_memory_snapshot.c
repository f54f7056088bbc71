/* Snapshots of memory: every block with its origin, and the sums by module.
 *
 * ctest: cuda; labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "memory/allocator.h"
#include "support/devices/each.h"
#include "support/devices/late.h"
#include "support/failure.h"

enum { MOST = 512 };

/* ---- without a recording ---- */

static void test_memory_snapshot__lists_live_and_cached_blocks(void **state)
{
    haul_device      *device = late_device_new();
    haul_memory_block rows[4];
    (void)state;
    assert_int_equal(haul_memory_snapshot(device, rows, 4), 0);
    haul__storage *a = haul__storage_alloc(device, 100, "haul_exp"), *b = haul__storage_alloc(device, 5000, "haul_add");
    haul__storage *c = haul__storage_alloc(device, 70, "haul_mul");
    haul__object_release(b);
    assert_int_equal(haul_memory_snapshot(device, rows, 4), 3);
    static const haul_memory_block wanted[] = {
        {.operation = "haul_exp", .bytes = 112, .requested = 100, .age = 2, .live = true},
        {.operation = "haul_mul", .bytes = 80, .requested = 70, .age = 0, .live = true},
        {.operation = "haul_add", .bytes = 5120, .requested = 5000, .age = 1}};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(rows[i].operation, wanted[i].operation);
        assert_string_equal(rows[i].module, "");
        assert_string_equal(rows[i].label, "");
        assert_int_equal(rows[i].bytes, wanted[i].bytes);
        assert_int_equal(rows[i].requested, wanted[i].requested);
        assert_int_equal(rows[i].age, wanted[i].age);
        assert_int_equal(rows[i].nanoseconds, 0);
        assert_int_equal(rows[i].live, wanted[i].live);
        assert_false(rows[i].recorded);
    }
    memset(rows, 0, sizeof rows);
    assert_int_equal(haul_memory_snapshot(device, rows, 1), 3);
    assert_string_equal(rows[0].operation, "haul_exp");
    assert_string_equal(rows[1].operation, "");
    assert_int_equal(haul_memory_snapshot(device, NULL, 0), 3);
    assert_int_equal(haul_memory_snapshot(device, NULL, 1), -1);
    assert_int_equal(haul_memory_snapshot(haul_device_get("cuda:31"), rows, 4), -1);
    haul_error_clear();
    haul__object_release(a);
    haul__object_release(c);
    haul_memory_release_cached(device);
    assert_int_equal(haul_memory_snapshot(device, rows, 4), 0);
}

/* ---- with a recording ---- */

static haul_device *device;

/* The blocks of the device; the count is returned. */
static int take(haul_memory_block *rows)
{
    int count = haul_memory_snapshot(device, rows, MOST);
    assert_true(count >= 0 && count <= MOST);
    return count;
}

static const haul_memory_block *find(const haul_memory_block *rows, int count, const char *operation)
{
    for (int i = 0; i < count; i++)
        if (rows[i].live && !strcmp(rows[i].operation, operation))
            return &rows[i];
    fail_msg("no live block of %s", operation);
    return NULL;
}

static int64_t bytes_of(const haul_memory_origin *rows, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].name, name))
            return rows[i].bytes;
    return -1;
}

static void test_memory_snapshot__records_modules_and_labels(void **state)
{
    static haul_memory_block rows[MOST];
    haul_memory_origin       by[16];
    haul_scope              *scope = haul_scope_push();
    (void)state;
    haul_set_device(device);
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(20, 30), haul_nn_relu(), haul_nn_linear(30, 5));
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(16, 20));
    assert_int_equal(haul_memory_record(true), HAUL_OK);
    assert_int_equal(haul_label_begin("the first \"step\""), HAUL_OK);
    haul_tensor *y = haul_call(net, x);
    assert_int_equal(haul_label_end(), HAUL_OK);
    haul_tensor *z = haul_exp(y);
    assert_valid(z);
    assert_int_equal(haul_device_sync(device), HAUL_OK);

    const int                count = take(rows);
    const haul_memory_block *old = find(rows, count, "haul_ones"), *exp = find(rows, count, "haul_exp");
    assert_false(old->recorded);
    assert_true(exp->recorded && exp->nanoseconds > 0 && exp->age < old->age);
    assert_string_equal(exp->module, "");
    assert_string_equal(exp->label, "");
    const haul_memory_block *relu = find(rows, count, "haul_relu"), *linear = find(rows, count, "haul_linear");
    assert_string_equal(relu->module, "1");
    assert_string_equal(relu->label, "the first \"step\"");
    assert_string_equal(linear->module, "2");
    assert_int_equal(relu->requested, 16 * 30 * 4);
    assert_true(relu->nanoseconds > linear->nanoseconds && linear->nanoseconds > exp->nanoseconds);

    const int modules = haul_memory_by_module(device, by, 16);
    assert_true(modules >= 4 && modules <= 16);
    assert_int_equal(bytes_of(by, modules, "1"), relu->bytes);
    assert_true(bytes_of(by, modules, "2") >= 16 * 5 * 4);
    assert_int_equal(bytes_of(by, modules, "(no module)"), exp->bytes);
    int64_t sum = 0;
    for (int i = 0; i < modules; i++)
        sum += by[i].bytes;
    haul_memory_stats s;
    haul_memory_stats_get(device, &s);
    assert_int_equal(sum, s.allocated);
    assert_int_equal(haul_memory_by_module(device, NULL, 0), modules);
    assert_int_equal(haul_memory_by_module(device, NULL, 1), -1);
    haul_error_clear();
    haul_memory_record(false);
    haul_scope_pop(scope);
}

/* A block whose next tensor is not recorded says nothing of the one before. */
static void test_memory_snapshot__records_end_with_their_storage(void **state)
{
    static haul_memory_block rows[MOST];
    haul_memory_origin       by[16];
    haul_scope              *scope = haul_scope_push();
    (void)state;
    haul_set_device(device);
    haul_memory_release_cached(device);
    haul_memory_record(true);
    haul_scope *inner = haul_scope_push();
    assert_valid(haul_empty(HAUL_F32, HAUL_SHAPE(777)));
    assert_true(find(rows, take(rows), "haul_empty")->recorded);
    haul_scope_pop(inner);
    haul_memory_record(false);
    int count = take(rows), cached = 0;
    for (int i = 0; i < count; i++)
        if (!rows[i].live && !strcmp(rows[i].operation, "haul_empty")) {
            cached++;
            assert_true(rows[i].recorded && rows[i].requested == 777 * 4);
        }
    assert_int_equal(cached, 1);
    assert_int_equal(bytes_of(by, haul_memory_by_module(device, by, 16), "(no module)"), -1);
    assert_valid(haul_empty(HAUL_F32, HAUL_SHAPE(776))); /* the same block */
    count = take(rows);
    assert_false(find(rows, count, "haul_empty")->recorded);
    haul_scope_pop(scope);
}

static void test_memory_snapshot__cuts_long_names_between_characters(void **state)
{
    static haul_memory_block rows[MOST];
    char                     label[120];
    haul_scope              *scope = haul_scope_push();
    (void)state;
    haul_set_device(device);
    haul_memory_record(true);
    for (int shift = 0; shift < 3; shift++) {
        haul_scope *inner = haul_scope_push();
        memset(label, 0, sizeof label);
        memset(label, 'x', (size_t)shift);
        for (int i = 0; i < 30; i++)
            strcat(label, "\xe2\x82\xac"); /* a euro sign, three bytes */
        haul_label_begin(label);
        assert_valid(haul_empty(HAUL_F32, HAUL_SHAPE(10)));
        haul_label_end();
        const char  *cut = find(rows, take(rows), "haul_empty")->label;
        const size_t length = strlen(cut);
        assert_true(length > 44 && length < 48 && (length - (size_t)shift) % 3 == 0);
        assert_int_equal(strncmp(cut, label, length), 0);
        haul_scope_pop(inner);
    }
    haul_memory_record(false);
    haul_scope_pop(scope);
}

/* Host memory that fails while an allocation is recorded costs the record, not the allocation. */
static void test_memory_snapshot__recording_survives_exhausted_memory(void **state)
{
    static haul_memory_block rows[MOST];
    haul_scope              *scope = haul_scope_push();
    (void)state;
    haul_set_device(device);
    haul_memory_release_cached(device);
    haul_memory_record(true);
    int64_t failing = 1;
    bool    recorded = false;
    for (; !recorded && failing < 50; failing++) {
        haul_scope *inner = haul_scope_push();
        haul_memory_release_cached(device);
        haul__fault_plan(HAUL__FAULT_HOST, failing);
        haul_tensor *t = haul_empty(HAUL_F32, HAUL_SHAPE(12345));
        haul__fault_plan(0, 0);
        if (haul_tensor_is_valid(t)) {
            recorded = find(rows, take(rows), "haul_empty")->recorded;
            assert_int_equal(haul_error_status(), HAUL_OK);
        }
        haul_error_clear();
        haul_scope_pop(inner);
    }
    assert_true(recorded && failing > 2);
    haul_memory_record(false);
    haul_scope_pop(scope);
}

static void *allocate(void *context)
{
    (void)context;
    haul_scope *scope = haul_scope_push();
    haul_set_device(device);
    for (int i = 0; i < 300; i++) {
        haul_scope *inner = haul_scope_push();
        haul_exp(haul_full(HAUL_F32, HAUL_SHAPE(10 + i % 50), i));
        haul_scope_pop(inner);
    }
    haul_scope_pop(scope);
    return haul_error_status() ? context : NULL;
}

static void test_memory_snapshot__while_threads_allocate(void **state)
{
    static haul_memory_block rows[MOST];
    static char              text[1 << 18];
    pthread_t                threads[3];
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate, threads), 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(haul_memory_record(i % 2), HAUL_OK);
        assert_true(haul_memory_snapshot(device, rows, MOST) >= 0);
        assert_true(haul_memory_snapshot_json(device, text, sizeof text) > 0);
    }
    haul_memory_record(false);
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

/* ---- JSON ---- */

static void test_memory_snapshot__json(void **state)
{
    haul_device *own = late_device_new();
    char         text[2000], part[50];
    (void)state;
    haul__storage *a = haul__storage_alloc(own, 100, "haul_exp");
    haul_memory_record(true);
    haul_label_begin("a \"b\"\n\xff");
    haul__storage *b = haul__storage_alloc(own, 5000, "haul_add");
    haul_label_end();
    haul_memory_record(false);
    haul__object_release(b);
    const int64_t length = haul_memory_snapshot_json(own, text, sizeof text);
    assert_true(length > 0 && length < (int64_t)sizeof text);
    assert_int_equal(strlen(text), length);
    char *time = strstr(text, "\"nanoseconds\":");
    assert_non_null(time);
    memmove(time, strchr(time, ',') + 1, strlen(strchr(time, ',') + 1) + 1); /* the only value that is not known */
    assert_string_equal(
        text,
        "{\"device\":\"late:0\",\"allocated\":112,\"reserved\":5232,\"peak_allocated\":5232,\"limit\":0,"
        "\"spilled\":0,\"overhead\":0,\"by_operation\":[{\"name\":\"haul_exp\",\"bytes\":112,\"blocks\":1}],"
        "\"by_module\":[{\"name\":\"(not recorded)\",\"bytes\":112,\"blocks\":1}],"
        "\"by_role\":[{\"name\":\"activations\",\"bytes\":112,\"blocks\":1}],\"blocks\":["
        "{\"operation\":\"haul_exp\",\"role\":\"activations\",\"bytes\":112,\"requested\":100,\"age\":1,\"live\":true,"
        "\"spilled\":false},"
        "{\"operation\":\"haul_add\",\"role\":\"activations\",\"module\":\"\",\"label\":\"a "
        "\\\"b\\\"\\u000a\xef\xbf\xbd\",\"bytes\":5120,"
        "\"requested\":5000,\"age\":0,\"live\":false,\"spilled\":false}]}");
    assert_true(haul_memory_snapshot_json(own, NULL, 0) >= length); /* the time may have more digits */
    assert_true(haul_memory_snapshot_json(own, part, sizeof part) >= length);
    assert_int_equal(strlen(part), sizeof part - 1);
    assert_int_equal(strncmp(part, text, sizeof part - 1), 0);
    assert_int_equal(haul_memory_snapshot_json(own, NULL, 5), -1);
    assert_int_equal(haul_memory_snapshot_json(NULL, text, sizeof text), -1);
    haul_error_clear();
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    assert_int_equal(haul_memory_snapshot_json(own, text, sizeof text), -1);
    haul__fault_plan(0, 0);
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    haul_error_clear();
    haul__object_release(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_snapshot__lists_live_and_cached_blocks),
        cmocka_unit_test(test_memory_snapshot__records_modules_and_labels),
        cmocka_unit_test(test_memory_snapshot__records_end_with_their_storage),
        cmocka_unit_test(test_memory_snapshot__cuts_long_names_between_characters),
        cmocka_unit_test(test_memory_snapshot__recording_survives_exhausted_memory),
        cmocka_unit_test(test_memory_snapshot__while_threads_allocate),
        cmocka_unit_test(test_memory_snapshot__json),
    };
    return run_on_devices(tests, &device);
}
