/* An allocation that finds no memory waits for what another thread is obtaining or giving back. The other thread stops
 * in the device's function until this one waits.
 *
 * ctest: wraps=haul__device_alloc,haul__device_free,sched_yield; labels=threads */
#include <pthread.h>
#include <semaphore.h>

#include "device/wait.h"
#include "memory/allocator.h"
#include "memory/under_way.h"
#include "support/devices/spilling.h"

/* ---- the other thread ---- */

typedef enum stage { IDLE, BEFORE, INSIDE, GOES_ON } stage;

static atomic_int         where;   /* the stage of the other thread */
static atomic_bool        refuses; /* the device gives the other thread no memory */
static _Thread_local bool is_other;
static sem_t              stopped, go_on;

/* Stops until the first thread waits, or has failed to. */
static void stop(void)
{
    int before = BEFORE;
    if (!is_other || !atomic_compare_exchange_strong(&where, &before, INSIDE))
        return;
    sem_post(&stopped);
    while (sem_wait(&go_on))
        ;
}

static void let_go(void)
{
    int inside = INSIDE;
    if (atomic_compare_exchange_strong(&where, &inside, GOES_ON))
        sem_post(&go_on);
}

haul_status __real_haul__device_alloc(haul_device *, size_t, haul__buffer *, const char *);
haul_status __wrap_haul__device_alloc(haul_device *, size_t, haul__buffer *, const char *);
void        __real_haul__device_free(haul_device *, haul__buffer *, size_t, const char *);
void        __wrap_haul__device_free(haul_device *, haul__buffer *, size_t, const char *);
int         __real_sched_yield(void);
int         __wrap_sched_yield(void);

haul_status __wrap_haul__device_alloc(haul_device *device, size_t bytes, haul__buffer *out, const char *operation)
{
    stop();
    if (is_other && atomic_exchange(&refuses, false))
        return haul__fail(HAUL_OUT_OF_MEMORY, device->name, NULL, "a test refuses memory");
    return __real_haul__device_alloc(device, bytes, out, operation);
}

void __wrap_haul__device_free(haul_device *device, haul__buffer *buffer, size_t bytes, const char *operation)
{
    stop();
    __real_haul__device_free(device, buffer, bytes, operation);
}

int __wrap_sched_yield(void)
{
    if (!is_other)
        let_go();
    return __real_sched_yield();
}

typedef struct other {
    pthread_t    thread;
    haul_device *device;
    void (*act)(struct other *o);
    haul__storage *got;
} other;

static void *run(void *of)
{
    other *o = of;
    is_other = true;
    o->act(o);
    return NULL;
}

/* Returns when the other thread has stopped. */
static void start(other *o)
{
    atomic_store(&where, BEFORE);
    assert_int_equal(pthread_create(&o->thread, NULL, run, o), 0);
    while (sem_wait(&stopped))
        ;
}

static void finish(other *o)
{
    const bool waited = atomic_load(&where) == GOES_ON;
    let_go();
    assert_int_equal(pthread_join(o->thread, NULL), 0);
    atomic_store(&where, IDLE);
    assert_true(waited);
}

static void obtain(other *o)
{
    o->got = haul__storage_alloc(o->device, BYTES, "other");
}

static void give_back(other *o)
{
    haul_memory_release_cached(o->device);
}

/* ---- the tests ---- */

/* Memory that the other thread is obtaining can be moved away as soon as it has it. */
static void test_under_way__to_be_spilled(void **state)
{
    haul_device *device = late_device(0);
    other        o = {.device = device, .act = obtain};
    (void)state;
    begin_limit(device, 2 * BYTES);
    haul__storage *first = haul__storage_alloc(device, BYTES, "first");
    assert_non_null(first);
    atomic_fetch_add(&first->uses->fixed, 1);
    start(&o);
    haul__storage *second = haul__storage_alloc(device, BYTES, "second");
    finish(&o);
    if (!second)
        fail_msg("%s", haul_error_message());
    assert_non_null(o.got);
    assert_true(atomic_load(&o.got->uses->away));
    atomic_fetch_sub(&first->uses->fixed, 1);
    haul__object_release(first);
    haul__object_release(second);
    haul__object_release(o.got);
    end_limit(device);
}

/* Memory that the other thread is giving back to a full device. */
static void test_under_way__back_to_the_device(void **state)
{
    haul_device *device = late_device(0);
    other        o = {.device = device, .act = give_back};
    (void)state;
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    haul__object_release(haul__storage_alloc(device, BYTES, "first"));
    late_set_room(0);
    start(&o);
    haul__storage *second = haul__storage_alloc(device, BYTES, "second");
    late_set_room(-1);
    finish(&o);
    if (!second)
        fail_msg("%s", haul_error_message());
    haul__object_release(second);
}

/* What the other thread has reserved and does not get is free again. */
static void test_under_way__refused(void **state)
{
    haul_device *device = late_device(0);
    other        o = {.device = device, .act = obtain};
    (void)state;
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(haul_memory_set_tensor_limit(device, stats_of(device).reserved + 2 * BYTES), HAUL_OK);
    atomic_store(&refuses, true);
    start(&o);
    haul__storage *second = haul__storage_alloc(device, 2 * BYTES, "second");
    finish(&o);
    if (!second)
        fail_msg("%s", haul_error_message());
    assert_null(o.got);
    haul__object_release(second);
    assert_int_equal(haul_memory_set_limit(device, 0), HAUL_OK);
}

/* Without others an allocation fails at once. */
static void test_under_way__nothing(void **state)
{
    haul_device *device = late_device(0);
    (void)state;
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    late_set_room(0);
    assert_null(haul__storage_alloc(device, BYTES, "first"));
    late_set_room(-1);
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    haul_error_clear();
}

static void *end_one(void *of)
{
    struct haul__allocator *a = of;
    haul__spin_lock(&a->lock);
    haul__under_way_begin(a);
    haul__spin_unlock(&a->lock);
    haul__under_way_end(a);
    return NULL;
}

/* Spilling for an allocation makes another one, of host memory, which watches the host's allocator meanwhile. */
static void test_under_way__within_another(void **state)
{
    struct haul__allocator *a = haul__allocator_of(late_device(0), false),
                           *host = haul__allocator_of(haul_cpu(), false);
    haul__under_way_watching outer, inner;
    pthread_t                thread;
    (void)state;
    for (int i = 0; i < 100; i++)
        end_one(host);
    haul__under_way_watch(&outer, a);
    haul__under_way_watch(&inner, host);
    end_one(host);
    assert_false(haul__under_way_wait(&inner)); /* it was the thread's own */
    haul__under_way_unwatch(&inner);
    end_one(a);
    assert_false(haul__under_way_wait(&outer));
    assert_int_equal(pthread_create(&thread, NULL, end_one, a), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(haul__under_way_wait(&outer));
    haul__under_way_watch_again(&outer);
    assert_false(haul__under_way_wait(&outer));
    haul__under_way_unwatch(&outer);
}

#define UNDER_WAY(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNDER_WAY(test_under_way__to_be_spilled),  UNDER_WAY(test_under_way__back_to_the_device),
        UNDER_WAY(test_under_way__refused),        UNDER_WAY(test_under_way__nothing),
        UNDER_WAY(test_under_way__within_another),
    };
    sem_init(&stopped, 0, 0);
    sem_init(&go_on, 0, 0);
    return run_moves("under_way", tests, sizeof tests / sizeof tests[0]);
}
