/* Statistics by name: every row of the list can be read, and says what the structs of the library say.
 *
 * ctest: cuda */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conformance/conformance.h"
#include "support/failure.h"

static int64_t value_of(const char *format, ...) HAUL_PRINTF(1, 2);

static int64_t value_of(const char *format, ...)
{
    char    name[128];
    int64_t value = -1;
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    if (haul_stat_get(name, &value))
        fail_msg("%s: %s", name, haul_error_message());
    return value;
}

/* A device other than the CPU, if the machine has one. */
static haul_device *device;
static const char  *name;

/* ---- the list ---- */

static void test_stats__every_row_is_described_and_can_be_read(void **state)
{
    const int count = haul_stat_count();
    (void)state;
    assert_true(count > 30);
    for (int i = 0; i < count; i++) {
        haul_stat_info s, other;
        assert_int_equal(haul_stat_describe(i, &s), HAUL_OK);
        assert_true(*s.unit && strlen(s.description) > 10);
        assert_int_equal(s.description[strlen(s.description) - 1], '.');
        assert_true(s.per_device == (strstr(s.name, "<device>") != NULL));
        const char *dot = strchr(s.name, '.'), *rest = strrchr(s.name, '.');
        if (s.per_device)
            assert_true(value_of("%.*s.cpu%s", (int)(dot - s.name), s.name, rest) >= 0);
        else
            assert_true(value_of("%s", s.name) >= 0);
        for (int k = 0; k < i; k++) {
            haul_stat_describe(k, &other);
            assert_string_not_equal(s.name, other.name);
        }
    }
    haul_stat_info s = {.name = "unchanged"};
    assert_int_equal(haul_stat_describe(count, &s), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_stat_describe(-1, &s), HAUL_INVALID_ARGUMENT);
    assert_string_equal(s.name, "unchanged");
    assert_int_equal(haul_stat_describe(0, NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

/* ---- values ---- */

static void compare(const char *group, const haul_memory_stats *s)
{
    assert_int_equal(value_of("%s.%s.allocated", group, name), s->allocated);
    assert_int_equal(value_of("%s.%s.reserved", group, name), s->reserved);
    assert_int_equal(value_of("%s.%s.peak", group, name), s->peak_allocated);
    assert_int_equal(value_of("%s.%s.peak_reserved", group, name), s->peak_reserved);
    assert_int_equal(value_of("%s.%s.limit", group, name), s->limit);
    assert_int_equal(value_of("%s.%s.live_blocks", group, name), s->live_blocks);
    assert_int_equal(value_of("%s.%s.allocations", group, name), s->allocations);
    assert_int_equal(value_of("%s.%s.cache_hits", group, name), s->cache_hits);
    assert_int_equal(value_of("%s.%s.device_allocations", group, name), s->device_allocations);
}

static void test_stats__memory(void **state)
{
    haul_scope       *scope = haul_scope_push();
    haul_memory_stats s;
    (void)state;
    haul_set_device(device);
    for (int i = 0; i < 2; i++) { /* the second comes from the cache */
        haul_scope *inner = haul_scope_push();
        assert_valid(haul_empty(HAUL_F32, HAUL_SHAPE(1000)));
        haul_scope_pop(inner);
    }
    assert_valid(haul_empty(HAUL_F32, HAUL_SHAPE(1000)));
    haul_memory_set_limit(device, 1 << 20);
    assert_int_equal(haul_memory_stats_get(device, &s), HAUL_OK);
    assert_true(s.allocated >= 4000 && s.limit == 1 << 20 && s.cache_hits >= 2);
    compare("memory", &s);
    assert_int_equal(value_of("memory.%s.derived", name), s.derived_bytes);
    assert_true(value_of("memory.cpu.free") > 1 << 20);
    const int64_t left = value_of("memory.%s.free", name);
    assert_true(left > 0 || (left == -1 && !strncmp(name, "opencl", 6)));
    haul_memory_set_limit(device, 0);
    haul_scope_pop(scope);
    assert_int_equal(value_of("memory.%s.allocated", name), s.allocated - 4096);
    assert_int_equal(value_of("memory.%s.peak", name), s.peak_allocated);
}

static void test_stats__pinned(void **state)
{
    haul_scope       *scope = haul_scope_push();
    haul_memory_stats s;
    (void)state;
    haul_tensor *x = haul_pin(haul_from_host(HAUL_F32, HAUL_SHAPE(4), (float[]){1, 2, 3, 4}), device);
    assert_valid(x);
    assert_int_equal(haul_pinned_stats_get(device, &s), HAUL_OK);
    assert_true(!haul_tensor_is_pinned(x) || (s.allocated > 0 && s.limit > 0)); /* cuda:0 pins */
    compare("pinned", &s);
    haul_scope_pop(scope);
}

static void ignore(const haul_event *event, void *context)
{
    (void)event, (void)context;
}

static void test_stats__transfers_waits_and_events(void **state)
{
    haul_scope         *scope = haul_scope_push();
    haul_transfer_stats t;
    haul_sync_stats     w;
    float               out[4];
    (void)state;
    haul_transfer_stats_reset();
    const int64_t events = value_of("events.delivered");
    const int64_t id = haul_events_subscribe(ignore, .kinds = HAUL_EVENT_COPY);
    haul_tensor  *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(4), (float[]){1, 2, 3, 4}), device);
    assert_int_equal(haul_read(x, out, sizeof out), HAUL_OK);
    haul_events_unsubscribe(id);
    const bool crossed = device != haul_cpu();
    assert_int_equal(value_of("events.delivered"), events + 2 * crossed);
    haul_transfer_stats_get(&t);
    haul_sync_stats_get(&w);
    assert_true(t.h2d_bytes == 16 * crossed && t.d2h_count == crossed && w.waits + w.ready >= crossed);
    assert_int_equal(value_of("transfers.h2d_bytes"), t.h2d_bytes);
    assert_int_equal(value_of("transfers.d2h_bytes"), t.d2h_bytes);
    assert_int_equal(value_of("transfers.d2d_bytes"), t.d2d_bytes);
    assert_int_equal(value_of("transfers.h2d_count"), t.h2d_count);
    assert_int_equal(value_of("transfers.d2h_count"), t.d2h_count);
    assert_int_equal(value_of("transfers.d2d_count"), t.d2d_count);
    assert_int_equal(value_of("sync.waits"), w.waits);
    assert_int_equal(value_of("sync.ready"), w.ready);
    assert_int_equal(value_of("sync.driver_calls"), w.driver_calls);
    assert_true((double)value_of("sync.wait_time") / 1e3 == w.microseconds);
    assert_true(value_of("sync.driver_time") > 0 || !w.driver_calls);
    haul_scope_pop(scope);
}

static void test_stats__kernels_and_structures_of_the_host(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    const int64_t ready = value_of("kernels.cpu.ready"), blocks = value_of("host.blocks");
    assert_valid(haul_cumsum(haul_ones(HAUL_F64, HAUL_SHAPE(2, 3)), 0));
    assert_true(value_of("kernels.cpu.ready") > ready);
    assert_true(value_of("host.blocks") > blocks);
    haul_scope_pop(scope);
}

/* ---- names ---- */

#define assert_unknown(name, hint)                                                                                     \
    do {                                                                                                               \
        int64_t kept = 7;                                                                                              \
        assert_int_equal(haul_stat_get(name, &kept), HAUL_INVALID_ARGUMENT);                                           \
        if (!strstr(haul_error_message(), hint))                                                                       \
            fail_msg("%s: %s", name, haul_error_message());                                                            \
        assert_int_equal(kept, 7);                                                                                     \
        assert_string_equal(haul_error_argument(), "name");                                                            \
        haul_error_clear();                                                                                            \
    } while (0)

static void test_stats__names(void **state)
{
    char    long_name[300];
    int64_t value;
    (void)state;
    assert_unknown("memory.cpu.peek", "did you mean memory.cpu.peak?");
    assert_unknown("memory.opencl:0.alocated", "did you mean memory.opencl:0.allocated?");
    assert_unknown("transfer.h2d_bytes", "did you mean transfers.h2d_bytes");
    assert_unknown("transfers.h2d_byte", "did you mean transfers.h2d_bytes or transfers.d2d_bytes?");
    assert_unknown("sync.wait", "did you mean sync.waits");
    assert_unknown("memory.peak", "names begin with memory.<device>., pinned.<device>., kernels.<device>., transfers., "
                                  "groups., sync., events., cache., host.; haul_stat_describe");
    assert_unknown("memory..peak", "unknown statistic \"memory..peak\"");
    assert_unknown("memory.cpu.x.peak", "unknown statistic");
    assert_unknown("", "names begin with");
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    assert_unknown(long_name, "names begin with");
    assert_int_equal(haul_stat_get("memory.cuda:7.peak", &value), HAUL_DEVICE);
    assert_non_null(strstr(haul_error_message(), "cuda"));
    haul_error_clear();
    assert_int_equal(haul_stat_get("memory.CPU.peak", &value), HAUL_OK); /* as haul_device_get names it */
    assert_int_equal(haul_stat_get(NULL, &value), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_int_equal(haul_stat_get("sync.waits", NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

/* ---- JSON ---- */

static void test_stats__json(void **state)
{
    haul_scope *scope = haul_scope_push();
    char        small[40], wanted[200];
    (void)state;
    haul_set_device(device);
    assert_valid(haul_empty(HAUL_F32, HAUL_SHAPE(10)));
    const int64_t length = haul_stats_json(NULL, 0);
    assert_true(length > 500);
    char *all = malloc((size_t)length + 200);
    assert_non_null(all);
    assert_true(haul_stats_json(all, (size_t)length + 200) < length + 200);
    assert_int_equal(*all, '{');
    assert_int_equal(all[strlen(all) - 1], '}');
    for (int i = 0; i < haul_stat_count(); i++) {
        haul_stat_info s;
        haul_stat_describe(i, &s);
        const char *place = strstr(s.name, "<device>");
        snprintf(wanted, sizeof wanted, "\"%.*s%s%s\":", place ? (int)(place - s.name) : (int)strlen(s.name), s.name,
                 place ? name : "", place ? place + strlen("<device>") : "");
        if (!strstr(all, wanted))
            fail_msg("%s is missing", wanted);
    }
    snprintf(wanted, sizeof wanted, "\"memory.%s.allocated\":%lld,", name,
             (long long)value_of("memory.%s.allocated", name));
    assert_non_null(strstr(all, wanted));
    assert_true(haul_stats_json(small, sizeof small) >= (int64_t)sizeof small);
    assert_int_equal(strlen(small), sizeof small - 1);
    assert_int_equal(strncmp(small, all, sizeof small - 1), 0);
    assert_int_equal(haul_stats_json(NULL, 10), -1);
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    free(all);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stats__every_row_is_described_and_can_be_read),
        cmocka_unit_test(test_stats__memory),
        cmocka_unit_test(test_stats__pinned),
        cmocka_unit_test(test_stats__transfers_waits_and_events),
        cmocka_unit_test(test_stats__kernels_and_structures_of_the_host),
        cmocka_unit_test(test_stats__names),
        cmocka_unit_test(test_stats__json),
    };
    haul_scope *scope = haul_scope_push();
    device = test_second_device();
    device = device ? device : haul_cpu();
    name = haul_device_name(device);
    int failed = cmocka_run_group_tests_name("stats", tests, NULL, NULL);
    haul_scope_pop(scope);
    return failed;
}
