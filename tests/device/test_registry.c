/* The registry, with backends of a test: which device a name finds, why others cannot be used, and what a fork leaves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/device.h"
#include "device/forked.h"
#include "device/ranks.h"

/* ---- backends: their commands are never submitted ---- */

enum { GPUS = 4, HUGE_UNITS = 1 << 20 };

static int most_opened = -1, described, streams_open;
static int streams_left = 1 << 20; /* before one fails */

static int count_gpus(char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    return GPUS;
}

static int count_one(char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    return 1;
}

static int count_none(char *why, size_t why_size)
{
    snprintf(why, why_size, "nothing is plugged in");
    return 0;
}

/* Their order: 2 has most units, 0 and 3 are equal but for memory, 1 shares the host's memory. */
static haul_status open_gpu(haul_device *device, int index)
{
    static const haul_device_properties kinds[GPUS] = {
        {.compute_units = HUGE_UNITS, .memory_bytes = 10},
        {.compute_units = 4 * HUGE_UNITS, .memory_bytes = 40, .shares_host_memory = true},
        {.compute_units = 2 * HUGE_UNITS, .memory_bytes = 5},
        {.compute_units = HUGE_UNITS, .memory_bytes = 20},
    };
    most_opened = index > most_opened ? index : most_opened;
    if (index < 0 || index >= GPUS)
        return haul__fail(HAUL_BACKEND, "open", NULL, "there are %d", GPUS);
    device->properties.kind = HAUL_KIND_GPU;
    device->properties.compute_units = kinds[index].compute_units;
    device->properties.memory_bytes = kinds[index].memory_bytes;
    device->properties.shares_host_memory = kinds[index].shares_host_memory;
    return HAUL_OK;
}

static bool exhausted;

static haul_status open_plain(haul_device *device, int index)
{
    (void)index;
    if (exhausted)
        return haul__fail_memory("open_plain", 1);
    device->properties.kind = HAUL_KIND_ACCELERATOR;
    return HAUL_OK;
}

static haul_status open_broken(haul_device *device, int index)
{
    (void)device;
    (void)index;
    return haul__fail(HAUL_UNSUPPORTED, "open_broken", NULL, "the driver is too old");
}

static haul_status start_broken(haul_device *device)
{
    (void)device;
    return haul__fail(HAUL_BACKEND, NULL, NULL, "it does not start");
}

static haul_status open_stream(haul_device *device, void **queue)
{
    (void)device;
    *queue = NULL;
    if (streams_left == 0)
        return haul__fail(HAUL_BACKEND, "open_stream", NULL, "no more streams");
    streams_left--;
    streams_open++;
    return HAUL_OK;
}

static void close_stream(haul_device *device, void *queue)
{
    (void)device;
    (void)queue;
    streams_open--;
}

static void describe(haul_device *device, haul__description what, char *out, size_t size)
{
    (void)device;
    described += what == HAUL__LIBRARIES;
    snprintf(out, size, "%s", what == HAUL__LIBRARIES ? "L" : "half of it is free");
}

static const haul__backend fake = {
    .size = sizeof fake, .name = "fake", .count = count_gpus, .open = open_gpu, .describe = describe};
static const haul__backend named = {.size = sizeof named,
                                    .name = "named",
                                    .count = count_none,
                                    .open = open_plain,
                                    .names = (const char *const[]){"one:0", "two:1", "ab", "c", "d:0", NULL}};
static const haul__backend broken = {.size = sizeof broken, .name = "broken", .count = count_one, .open = open_broken};
static const haul__backend stuck = {
    .size = sizeof stuck, .name = "stuck", .count = count_one, .open = open_plain, .start = start_broken};
static const haul__backend narrow = {.size = sizeof narrow,
                                     .name = "narrow",
                                     .count = count_one,
                                     .open = open_plain,
                                     .stream_open = open_stream,
                                     .stream_close = close_stream};
static const haul__backend none = {.size = sizeof none, .name = "none", .count = count_none, .open = open_plain};

static int add_backends(void **state)
{
    static const haul__backend *const all[] = {&fake, &named, &broken, &stuck, &narrow, &none};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (haul__backend_add(all[i]))
            return -1;
    return 0;
}

/* ---- names ---- */

/* Whether a child of this process, which has called nothing else of the library, gives its device up. */
static bool child_gives_up(void)
{
    int          status;
    haul_device *device = haul_device_get("fake:3");
    const bool   valid = haul_device_is_valid(device);
    const pid_t  pid = fork();
    if (pid == 0)
        _exit(haul_device_is_valid(device) ? 1 : 0);
    return valid && pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* The first test: it asks for a device that the program has not looked for. */
static void test_registry__a_child_may_look_first(void **state)
{
    int         status = -1;
    const pid_t pid = fork();
    (void)state;
    if (pid == 0)
        _exit(child_gives_up() ? 0 : 1);
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
}

static const char *why_not(const char *name)
{
    haul_device *device = haul_device_get(name);
    assert_int_equal(haul_error_status(), HAUL_OK); /* asking does not fail */
    assert_false(haul_device_is_valid(device));
    return device->why;
}

static void test_registry__numbered_devices_have_their_properties(void **state)
{
    haul_device *device = haul_device_get("FAKE"), *last = haul_device_get("fake:3");
    (void)state;
    assert_string_equal(haul_device_name(device), "fake:0");
    assert_string_equal(haul_device_name(last), "fake:3");
    assert_ptr_equal(haul_device_get("fake:0"), device);
    assert_string_equal(haul__backend_name(last->backend_slot), "fake");
    assert_int_not_equal(device->slot, last->slot);
    assert_ptr_equal(haul__device_in_use(last->slot), last);
    haul_device_properties p;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(haul_device_describe(last, &p), HAUL_OK);
        assert_string_equal(p.libraries, "L");
        assert_string_equal(p.bus, "");
        assert_string_equal(p.backend, "fake");
        assert_int_equal(described, 1); /* libraries are looked for once */
    }
    char text[40] = "?";
    haul__device_memory_left(last, text, sizeof text);
    assert_string_equal(text, "half of it is free");
    haul__device_memory_left(haul_device_get("meta"), text, sizeof text);
    assert_string_equal(text, "");
}

static void test_registry__devices_that_are_only_listed_are_not_in_use(void **state)
{
    haul_device *seen = NULL;
    (void)state;
    assert_true(haul_device_list((haul_device_report[64]){{.name = ""}}, 64) > 0);
    haul_device *first = haul_device_get("fake:0");
    for (int slot = 0; slot < HAUL__MAX_DEVICES; slot++) {
        haul_device *device = haul__device_in_use(slot);
        if (!device)
            continue;
        assert_int_equal(device->slot, slot);
        assert_string_not_equal(haul_device_name(device), "fake:1");
        assert_string_not_equal(haul_device_name(device), "broken:0");
        seen = device == first ? device : seen;
    }
    assert_ptr_equal(seen, first);
    assert_null(haul__device_in_use(HAUL__MAX_DEVICES));
}

static void test_registry__names_of_a_backend(void **state)
{
    haul_device *one = haul_device_get("named:one"), *two = haul_device_get("Named:TWO:1");
    (void)state;
    assert_string_equal(haul_device_name(one), "named:one:0");
    assert_string_equal(haul_device_name(two), "named:two:1");
    assert_ptr_equal(haul_device_get("named:one:0"), one);
    assert_string_equal(haul_device_name(haul_device_get("named:c")), "named:c");
    static const char *const wrong[] = {"named:two", "named:on", "named:one:", "named:one:1", "named:cab", "named:a"};
    char                     text[120];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text,
                 "no device \"%s\": behind \"named:\" one of these is expected: one, two:1, ab, c, d", wrong[i]);
        assert_string_equal(why_not(wrong[i]), text);
    }
}

static void test_registry__available_devices_are_listed(void **state)
{
    const char *list = strstr(why_not("tpu"), "available: ");
    (void)state;
    assert_non_null(list);
    assert_ptr_equal(strstr(list, "cpu, "), list + 11);
    assert_null(strstr(list, "cpu, cpu"));
    assert_non_null(strstr(list, "fake:0, fake:1, fake:2, fake:3, broken:0, "));
    assert_non_null(strstr(why_not("fake:4"), "no device \"fake:4\": fake has 4 devices, counted from 0; available: "));
    assert_non_null(strstr(why_not("stuck:1"), "stuck has 1 device, counted from 0"));
    assert_non_null(strstr(why_not("none:0"), "no device \"none:0\": nothing is plugged in; available: cpu"));
    assert_non_null(strstr(why_not("cpu12:0"), "this build has no cpu12 backend"));
    assert_non_null(strstr(why_not("x"), "this build has no x backend"));
    assert_non_null(strstr(why_not("fake7"), "did you mean \"fake:7\"?"));
}

/* ---- GPUs ---- */

static void test_registry__the_best_gpu_comes_first(void **state)
{
    static const char *const order[] = {"fake:2", "fake:3", "fake:0"};
    static const char *const names[] = {"gpu:0", "gpu:1", "gpu:2"};
    haul_device             *shared = haul_device_get("fake:1");
    (void)state;
    assert_string_equal(haul_device_name(haul_device_get("gpu")), "fake:2");
    assert_string_equal(haul_device_name(haul_device_get("auto")), "fake:2");
    for (int i = 0; i < 3; i++)
        assert_string_equal(haul_device_name(haul_device_get(names[i])), order[i]);
    bool found = false; /* those that share the host's memory come last */
    for (int i = 3; i < 30 && !found; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu:%d", i);
        found = haul_device_get(name) == shared;
    }
    assert_true(found);
    assert_int_equal(most_opened, GPUS - 1);
}

/* ---- failures ---- */

static void assert_refused(const char *name, haul_status status, const char *why)
{
    haul_device *device = haul_device_get(name);
    haul__fail(HAUL_IO, "before", NULL, "an earlier error");
    assert_ptr_equal(haul_device_get(name), device);
    assert_string_equal(haul_error_operation(), "before");
    haul_error_clear();
    assert_false(haul_device_is_valid(device));
    assert_string_equal(device->why, why);
    assert_int_equal(haul_set_device(device), status);
    haul_error_clear();
}

static void test_registry__devices_that_fail_say_why(void **state)
{
    haul_device_report reports[64];
    (void)state;
    assert_refused("broken:0", HAUL_UNSUPPORTED, "device \"broken:0\" cannot be used: the driver is too old");
    assert_refused("stuck", HAUL_BACKEND, "device \"stuck:0\" cannot be used: it does not start");
    const int count = haul_device_list(reports, 64);
    for (int i = 0; i < count; i++)
        if (strcmp(reports[i].name, "broken:0") == 0)
            assert_string_equal(reports[i].reason, haul_device_get("broken")->why);
}

/* Of streams of which the third fails, the others are closed. */
static void test_registry__streams_are_closed_when_one_fails(void **state)
{
    (void)state;
    streams_left = 2;
    assert_refused("narrow", HAUL_BACKEND, "device \"narrow:0\" cannot be used: no more streams");
    assert_int_equal(streams_left, 0);
    assert_int_equal(streams_open, 0);
}

static void test_registry__without_memory_the_next_attempt_may_succeed(void **state)
{
    int64_t nth = 0;
    (void)state;
    for (;; nth++) { /* first the driver has none, then the library */
        haul__fail(HAUL_IO, "before", NULL, "an earlier error");
        exhausted = nth == 0;
        haul__fault_plan(HAUL__FAULT_HOST, nth ? nth : INT64_MAX);
        haul_device *device = haul_device_get("named:ab");
        haul__fault_plan(0, 0);
        exhausted = false;
        assert_string_equal(haul_error_operation(), "before");
        haul_error_clear();
        if (haul_device_is_valid(device))
            break;
        assert_int_equal(haul_set_device(device), HAUL_OUT_OF_MEMORY);
        haul_error_clear();
    }
    assert_true(nth > 3);
}

/* ---- questions to a device ---- */

static void test_registry__only_processors_of_the_host_reach_its_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        const haul__backend backend = {.reaches_host = i & 1};
        haul_device         device = {.backend = &backend};
        device.properties.kind = i & 2 ? HAUL_KIND_CPU : HAUL_KIND_GPU;
        device.properties.shares_host_memory = i & 4;
        assert_int_equal(haul__device_reaches_host(&device), i == 7);
        assert_int_equal(haul__device_moves_by_kernel(&device, 4 << 20), i == 7);
        assert_false(haul__device_moves_by_kernel(&device, (4 << 20) - 1));
    }
    assert_null(haul__device_ranks(haul_cpu()));
}

/* ---- forks ---- */

/* NULL, or the problem. */
static const char *is_given_up(haul_device *device)
{
    static const char why[] = "was looked for or used before this process was forked";
    haul_device      *other = haul_device_get("broken:0"), *fresh;
    if (haul_device_is_valid(device) || !strstr(device->why, why) || device->why_status != HAUL_STATE)
        return "a device that was open is given up";
    if (haul_device_get("fake:2") != device)
        return "its name finds it again";
    if (haul_device_sync(device) != HAUL_STATE)
        return "it is refused";
    haul_error_clear();
    if (haul_device_is_valid(other) || other->why_status != HAUL_STATE)
        return "so is one that was broken";
    fresh = haul_device_get("fake:1"); /* described by the parent, not used */
    if (haul_device_is_valid(fresh) || !strstr(fresh->why, why))
        return "a device that was described is given up";
    if (!haul_device_is_valid(haul_device_get("named:one")))
        return "a backend without devices to count stays";
    if (pthread_mutex_trylock(&device->kernels_lock) || pthread_mutex_trylock(&haul_cpu()->kernels_lock))
        return "locks of threads that are gone are free";
    return haul_device_is_valid(haul_cpu()) ? NULL : "the CPU stays";
}

static void in_child(const char *(*run)(haul_device *), haul_device *device, bool twice)
{
    int         status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        const char *wrong = NULL;
        alarm(60);
        if (twice) {
            const pid_t inner = fork();
            if (inner == 0)
                twice = false;
            else
                _exit(inner > 0 && waitpid(inner, &status, 0) == inner && status == 0 ? 0 : 1);
        }
        if ((wrong = run(device)))
            fprintf(stderr, "child: not so: %s\n", wrong);
        _exit(wrong ? 1 : 0);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
}

/* A device that the parent counted, and did not open. */
static const char *is_not_opened(haul_device *device)
{
    haul_device *later = haul_device_get("later:1");
    if (haul_device_is_valid(device) || haul_device_is_valid(later))
        return "neither can be used";
    return strcmp(later->why,
                  "device \"later:1\" cannot be used: device \"later:1\" was looked for or used before this "
                  "process was forked, and its driver does not work in the child; use it in one of the two "
                  "processes only: fork first, or start the child by fork and exec") == 0
               ? NULL
               : later->why;
}

static void test_registry__children_do_not_use_the_parents_devices(void **state)
{
    static const haul__backend later = {.size = sizeof later, .name = "later", .count = count_gpus, .open = open_plain};
    haul_device               *device = haul_device_get("fake:2");
    (void)state;
    assert_true(haul_device_is_valid(device) && haul_device_is_valid(haul_device_get("fake:1")));
    assert_false(haul_device_is_valid(haul_device_get("broken:0")));
    assert_int_equal(pthread_mutex_lock(&device->kernels_lock), 0);
    assert_int_equal(pthread_mutex_lock(&haul_cpu()->kernels_lock), 0);
    in_child(is_given_up, device, false);
    in_child(is_given_up, device, true);
    pthread_mutex_unlock(&device->kernels_lock);
    pthread_mutex_unlock(&haul_cpu()->kernels_lock);
    assert_int_equal(haul__backend_add(&later), HAUL_OK);
    in_child(is_not_opened, haul_device_get("later:0"), false);
    assert_true(haul_device_is_valid(device));
}

/* All functions of the table of a child refuse, or free nothing; those that the original lacks are missing, too. */
static void test_registry__the_table_of_a_child_refuses(void **state)
{
    static const haul__backend empty = {.size = sizeof empty, .name = "empty", .count = count_none, .open = open_plain};
    haul_device                device = {.name = "fake:0", .why = "given up"};
    struct haul__stream        s = {.device = &device};
    haul__backend              f;
    (void)state;
    haul__backend_forked(&empty, &f);
    assert_string_equal(f.name, "empty");
    assert_true(f.count == count_none && !f.host_alloc && !f.host_free && !f.event_wait && !f.timing_begin);
    assert_int_equal(f.open(&device, 0), HAUL_STATE);
    assert_int_equal(f.start(&device), HAUL_STATE);
    assert_int_equal(f.alloc(&device, 1, NULL, &(haul__buffer){NULL}), HAUL_STATE);
    assert_int_equal(f.stream_open(&device, NULL), HAUL_STATE);
    assert_int_equal(f.submit(&s, NULL), HAUL_STATE);
    assert_int_equal(f.compile(&device, NULL, NULL), HAUL_STATE);
    assert_int_equal(f.sync(&s, NULL), HAUL_STATE);
    assert_int_equal(f.event_record(&s, NULL), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "given up"));
    f.free(&device, NULL);
    f.stream_close(&device, NULL);
    f.event_free(&device, NULL);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registry__a_child_may_look_first),
        cmocka_unit_test(test_registry__numbered_devices_have_their_properties),
        cmocka_unit_test(test_registry__devices_that_are_only_listed_are_not_in_use),
        cmocka_unit_test(test_registry__names_of_a_backend),
        cmocka_unit_test(test_registry__available_devices_are_listed),
        cmocka_unit_test(test_registry__the_best_gpu_comes_first),
        cmocka_unit_test(test_registry__streams_are_closed_when_one_fails),
        cmocka_unit_test(test_registry__devices_that_fail_say_why),
        cmocka_unit_test(test_registry__without_memory_the_next_attempt_may_succeed),
        cmocka_unit_test(test_registry__only_processors_of_the_host_reach_its_memory),
        cmocka_unit_test(test_registry__the_table_of_a_child_refuses),
        cmocka_unit_test(test_registry__children_do_not_use_the_parents_devices),
    };
    return cmocka_run_group_tests(tests, add_backends, NULL);
}
