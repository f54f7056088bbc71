#include "observe/watch/published_page.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fnv.h"
#include "base/text/utf8.h"

_Static_assert(sizeof(haul_published_device) == 32 + 32 + 64 + 4 * 8, "a page has no gaps");
_Static_assert(sizeof(haul__page) == 32 + 14 * 8 + 10 * 8 + 2 * 8 + HAUL__PAGE_NAME +
                                         HAUL_PUBLISHED_DEVICES * sizeof(haul_published_device),
               "a page has no gaps");

uint64_t haul__page_checksum(const haul__page *page)
{
    const size_t from = offsetof(haul__page, checksum) + sizeof page->checksum;
    return haul__fnv(HAUL__FNV, (const unsigned char *)page + from, sizeof *page - from);
}

void haul__page_text(char *out, size_t size, const char *text)
{
    HAUL__ASSERT(size > 0);
    size_t left = strlen(text), used = 0, bytes;
    for (; left && used + 1 < size; text += bytes, left -= bytes, used += bytes) {
        bytes = haul__utf8_length((const uint8_t *)text, left);
        if (used + bytes >= size)
            break;
        memcpy(out + used, bytes ? text : "?", bytes ? bytes : 1);
        bytes += !bytes;
    }
    HAUL__ASSERT(used < size);
    out[used] = 0;
}

/* ---- checks ---- */

typedef struct field {
    const char *name;
    size_t      at;
    double      high; /* the least is -1, for unknown figures */
} field;

#define FIELD(name, high)                                                                                              \
    {                                                                                                                  \
#name, offsetof(haul__page, name), high                                                                        \
    }
#define DEVICE_FIELD(name, high)                                                                                       \
    {                                                                                                                  \
#name, offsetof(haul_published_device, name), high                                                             \
    }
#define MOST_COUNT   9e18
#define MOST_BYTES   0x1p60
#define MOST_SECONDS 1e12

static const field integers[] = {
    FIELD(pid, MOST_COUNT),          FIELD(started, MOST_COUNT), FIELD(began, MOST_COUNT),
    FIELD(written, MOST_COUNT),      FIELD(steps, MOST_COUNT),   FIELD(examples, MOST_COUNT),
    FIELD(epoch, MOST_COUNT),        FIELD(epochs, MOST_COUNT),  FIELD(copies, MOST_COUNT),
    FIELD(copied_bytes, MOST_COUNT), FIELD(waits, MOST_COUNT),   FIELD(device_count, HAUL_PUBLISHED_DEVICES),
    FIELD(devices_left_out, 1e6),    FIELD(rank, 1e6),           FIELD(ranks, 1e6),
    FIELD(sent_bytes, MOST_COUNT)};
static const field reals[] = {FIELD(step_seconds, MOST_SECONDS),
                              FIELD(examples_per_second, 1e15),
                              FIELD(copies_per_second, 1e15),
                              FIELD(bytes_per_second, 1e18),
                              FIELD(waits_per_second, 1e15),
                              FIELD(waiting, 1),
                              FIELD(seconds_left, MOST_SECONDS),
                              FIELD(loss, 1e300),
                              FIELD(accuracy, 1),
                              FIELD(sent_per_second, 1e18)};
static const field device_integers[] = {DEVICE_FIELD(allocated, MOST_BYTES), DEVICE_FIELD(reserved, MOST_BYTES),
                                        DEVICE_FIELD(spilled, MOST_BYTES), DEVICE_FIELD(spilled_to_file, MOST_BYTES)};

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* The first field out of its range; NULL if there is none. A NaN is in no range. */
static const char *out_of_range(const void *of, const field *fields, int count, bool real)
{
    for (const field *f = fields; f < fields + count; f++) {
        int64_t integer;
        double  value;
        memcpy(&integer, (const char *)of + f->at, sizeof integer);
        memcpy(&value, (const char *)of + f->at, sizeof value);
        if (!real)
            value = (double)integer;
        if (!(value >= -1 && value <= f->high))
            return f->name;
    }
    return NULL;
}

static bool is_text(const char *text, size_t size)
{
    const size_t length = strnlen(text, size);
    if (length == size)
        return false;
    for (size_t at = 0, bytes; at < length; at += bytes)
        if (!(bytes = haul__utf8_length((const uint8_t *)text + at, length - at)))
            return false;
    return true;
}

static const char *wrong_device(const haul_published_device *d)
{
    if (!is_text(d->name, sizeof d->name) || !is_text(d->bus, sizeof d->bus) || !is_text(d->model, sizeof d->model))
        return "the name of a device";
    return out_of_range(d, device_integers, COUNT(device_integers), false);
}

static const char *wrong_field(const haul__page *page)
{
    const char *name = out_of_range(page, integers, COUNT(integers), false);
    if (!name)
        name = out_of_range(page, reals, COUNT(reals), true);
    if (!name && page->device_count < 0)
        name = "device_count";
    if (!name && !is_text(page->name, sizeof page->name))
        name = "name";
    for (int64_t i = 0; !name && i < page->device_count; i++)
        name = wrong_device(&page->devices[i]);
    return name;
}

bool haul__page_is_wrong(const haul__page *page, size_t size, char *why, size_t why_size)
{
    const size_t head = offsetof(haul__page, sequence);
    const char  *name;
    *why = 0;
    if (size < head || memcmp(page->magic, HAUL__PAGE_MAGIC, sizeof page->magic) != 0)
        snprintf(why, why_size, "not a page of Haul");
    else if (page->version != HAUL__PAGE_VERSION)
        snprintf(why, why_size, "page of version %u, this haul reads %d", page->version, HAUL__PAGE_VERSION);
    else if (size != sizeof *page || page->size != sizeof *page)
        snprintf(why, why_size, "page of %zu bytes, %zu are expected", size, sizeof *page);
    else if (page->sequence & 1)
        snprintf(why, why_size, "an update was not finished");
    else if (page->checksum != haul__page_checksum(page))
        snprintf(why, why_size, "wrong checksum");
    else if ((name = wrong_field(page)))
        snprintf(why, why_size, "damaged: %s is out of range", name);
    return *why != 0;
}

/* ---- in the file ---- */

static bool write_at(int file, const void *from, size_t size, size_t offset)
{
    return pwrite(file, from, size, (off_t)offset) == (ssize_t)size;
}

bool haul__page_may_be_written(void)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < sizeof(haul__page)) {
        errno = EFBIG;
        return false;
    }
    return true;
}

/* A reader that sees an odd sequence number, or another one afterwards than before, reads again. */
bool haul__page_write(int file, haul__page *page)
{
    HAUL__ASSERT(!(page->sequence & 1)); /* no update that failed: its page is closed */
    const size_t at = offsetof(haul__page, sequence), after = offsetof(haul__page, checksum);
    page->checksum = haul__page_checksum(page);
    page->sequence++;
    if (!haul__page_may_be_written() || !write_at(file, &page->sequence, sizeof page->sequence, at) ||
        !write_at(file, (const char *)page + after, sizeof *page - after, after))
        return false;
    page->sequence++;
    return write_at(file, &page->sequence, sizeof page->sequence, at);
}

/* An update takes microseconds; one that takes much longer will not end. */
bool haul__page_read(int file, haul__page *page, char *why, size_t why_size)
{
    enum { TRIES = 20 };
    for (int i = 0; i < TRIES; i++) {
        uint64_t after = 0;
        memset(page, 0, sizeof *page);
        const ssize_t got = pread(file, page, sizeof *page, 0);
        const bool again = pread(file, &after, sizeof after, offsetof(haul__page, sequence)) == (ssize_t)sizeof after;
        const bool wrong = haul__page_is_wrong(page, got > 0 ? (size_t)got : 0, why, why_size);
        if (got != (ssize_t)sizeof *page || (again && after == page->sequence && !(after & 1)))
            return !wrong;
        if (i > TRIES / 2)
            usleep(1000);
    }
    if (!*why)
        snprintf(why, why_size, "it changes too often");
    return false;
}
