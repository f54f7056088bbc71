/* Published pages that are damaged, or that a reader finds while they are written: they are never trusted.
 *
 * ctest: labels=threads */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "observe/watch/published_page.h"
#include "support/publish.h"

static void write_whole(int file, haul__page *page, bool sum)
{
    if (sum)
        page->checksum = haul__page_checksum(page);
    assert_int_equal(pwrite(file, page, sizeof *page, 0), (ssize_t)sizeof *page);
}

static void assert_unreadable(const char *reason)
{
    haul_published *p = page_of(getpid());
    assert_non_null(p);
    assert_int_equal(p->state, HAUL_PUBLISHED_UNREADABLE);
    if (!strstr(p->why, reason))
        fail_msg("\"%s\" does not say \"%s\"", p->why, reason);
    assert_true(!*p->name && p->steps == -1 && p->device_count == 0);
}

#define DAMAGE(reason, sum, change)                                                                                    \
    do {                                                                                                               \
        haul__page page = good;                                                                                        \
        change;                                                                                                        \
        write_whole(file, &page, sum);                                                                                 \
        assert_unreadable(reason);                                                                                     \
    } while (0)

static void test_publish__a_damaged_page_is_unreadable_with_its_reason(void **state)
{
    (void)state;
    haul__page good;
    char       why[200];
    begin();
    int file = open_file();
    assert_true(haul__page_read(file, &good, why, sizeof why));
    DAMAGE("not a page", true, page.magic[0] = 'h');
    DAMAGE("version 6, this haul reads 5", true, page.version = 6);
    DAMAGE("bytes", true, page.size--);
    DAMAGE("not finished", true, page.sequence++);
    DAMAGE("checksum", false, page.steps++);
    DAMAGE("pid", true, page.pid = -2);
    DAMAGE("another process", true, page.pid++);
    DAMAGE("another process", true, page.started++);
    DAMAGE("steps", true, page.steps = INT64_MIN);
    DAMAGE("step_seconds", true, page.step_seconds = NAN);
    DAMAGE("waiting", true, page.waiting = 1.5);
    DAMAGE("seconds_left", true, page.seconds_left = INFINITY);
    DAMAGE("loss", true, page.loss = NAN);
    DAMAGE("accuracy", true, page.accuracy = 1.1);
    DAMAGE("device_count", true, page.device_count = 9);
    DAMAGE("device_count", true, page.device_count = -1);
    DAMAGE("name", true, memset(page.name, 'x', sizeof page.name));
    DAMAGE("name", true, memcpy(page.name, "\xff\xfe", 3));
    DAMAGE("name of a device", true, (page.device_count = 1, memset(page.devices[0].name, 'x', 32)));
    DAMAGE("name of a device", true, (page.device_count = 1, memset(page.devices[0].bus, 'x', 32)));
    DAMAGE("name of a device", true, (page.device_count = 1, memset(page.devices[0].model, 'x', 64)));
    DAMAGE("spilled", true, (page.device_count = 8, page.devices[7].spilled = -2));
    assert_int_equal(ftruncate(file, 100), 0);
    assert_unreadable("bytes");
    assert_int_equal(ftruncate(file, 0), 0);
    assert_unreadable("not a page");
    assert_int_equal(ftruncate(file, 1 << 22), 0);
    assert_unreadable("not a page");
    write_whole(file, &good, true);
    assert_unreadable("bytes");
    assert_int_equal(ftruncate(file, sizeof good), 0);
    write_whole(file, &good, true);
    assert_int_equal(page_of(getpid())->state, HAUL_PUBLISHED_RUNNING);
    fchmod(file, 0644);
    assert_unreadable("not private");
    close(file);
}

static bool is_sound(const haul_published *p)
{
    const double numbers[] = {p->step_seconds,      p->examples_per_second,
                              p->copies_per_second, p->bytes_per_second,
                              p->waits_per_second,  p->waiting,
                              p->seconds_left,      p->loss,
                              p->accuracy,          (double)p->steps};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i]) || numbers[i] < -1)
            return false;
    for (int i = 0; i < p->device_count; i++)
        if (!memchr(p->devices[i].name, 0, 32) || !memchr(p->devices[i].bus, 0, 32) ||
            !memchr(p->devices[i].model, 0, 64))
            return false;
    return p->device_count >= 0 && p->device_count <= HAUL_PUBLISHED_DEVICES && memchr(p->name, 0, sizeof p->name);
}

/* Bytes at random, with a good checksum, so that each check behind it has to hold. */
static void test_publish__random_bytes_are_never_trusted(void **state)
{
    (void)state;
    haul__page good;
    char       why[200];
    int        readable = 0, unreadable = 0;
    unsigned   seed = 15;
    begin();
    int file = open_file();
    assert_true(haul__page_read(file, &good, why, sizeof why));
    for (int round = 0; round < 4000; round++) {
        haul__page     page = good;
        unsigned char *bytes = (unsigned char *)&page.began;
        const size_t   size = sizeof page - offsetof(haul__page, began);
        for (int i = 0; i < 1 + round % 8; i++)
            bytes[(size_t)rand_r(&seed) % size] = (unsigned char)rand_r(&seed);
        write_whole(file, &page, true);
        haul_published *p = page_of(getpid());
        assert_non_null(p);
        assert_true(is_sound(p));
        *(p->state == HAUL_PUBLISHED_UNREADABLE ? &unreadable : &readable) += 1;
    }
    assert_true(readable > 100 && unreadable > 100);
    for (int round = 0; round < 400; round++) {
        unsigned char noise[sizeof good];
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (unsigned char)rand_r(&seed);
        assert_int_equal(pwrite(file, noise, sizeof noise, 0), (ssize_t)sizeof noise);
        assert_int_equal(page_of(getpid())->state, HAUL_PUBLISHED_UNREADABLE);
    }
    close(file);
}

/* ---- a writer and a reader at once ---- */

typedef struct writing {
    int         file;
    haul__page  page;
    atomic_bool stop;
} writing;

static void *write_on(void *context)
{
    writing *w = context;
    for (int64_t i = 1; !atomic_load(&w->stop); i++) {
        w->page.steps = w->page.examples = w->page.copies = w->page.waits = i;
        w->page.devices[HAUL_PUBLISHED_DEVICES - 1].spilled = i;
        if (!haul__page_write(w->file, &w->page))
            return "a page could not be written";
        usleep(20);
    }
    return NULL;
}

static void test_publish__a_reader_never_sees_half_an_update(void **state)
{
    (void)state;
    static writing w;
    pthread_t      thread;
    char           why[200];
    void          *failure;
    int            read = 0;
    int64_t        last = 0, different = 0;
    begin();
    w.file = open_file();
    assert_true(haul__page_read(w.file, &w.page, why, sizeof why));
    assert_int_equal(pthread_create(&thread, NULL, write_on, &w), 0);
    const int64_t began = haul__now_ns();
    while ((read < 5000 || different < 500) && haul__now_ns() - began < 900000000000) {
        haul__page page;
        if (!haul__page_read(w.file, &page, why, sizeof why))
            continue;
        read++;
        different += page.steps != last;
        last = page.steps;
        if (page.steps == -1)
            continue;
        assert_true(page.examples == last && page.copies == last && page.waits == last);
        assert_true(page.devices[HAUL_PUBLISHED_DEVICES - 1].spilled == last);
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, &failure);
    assert_null(failure);
    assert_true(read >= 5000 && different >= 500);
    close(w.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_publish__a_damaged_page_is_unreadable_with_its_reason, teardown),
        cmocka_unit_test_teardown(test_publish__random_bytes_are_never_trusted, teardown),
        cmocka_unit_test_teardown(test_publish__a_reader_never_sees_half_an_update, teardown),
    };
    return run_publishing("publish_damage", tests, sizeof tests / sizeof *tests);
}
