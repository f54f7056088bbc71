#include "cli/train/log/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/run_folder/files.h"
#include "cli/shared/cli.h"
#include "files/descriptor.h"

/* ---- check sums ---- */

/* CRC-32C (Castagnoli), reflected: RFC 3720, appendix B.4. */
static uint32_t crc_of(const unsigned char *bytes, size_t count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

/* As records have it (tensorflow/core/lib/hash/crc32c.h): rotated by 15 bits, plus a constant. */
static uint32_t masked_crc_of(const unsigned char *bytes, size_t count)
{
    uint32_t crc = crc_of(bytes, count);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* ---- protocol buffers ---- */

enum { MESSAGE = 1024, VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* What TENSORBOARD_MOST values need fits: a value is a tag of TENSORBOARD_TAG bytes and 9 more, and another 4. */
typedef struct message {
    unsigned char bytes[MESSAGE];
    size_t        length;
} message;

_Static_assert(TENSORBOARD_MOST *(TENSORBOARD_TAG + 16) + 64 < MESSAGE, "an event fits in a message");

static void put_fixed(message *m, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        m->bytes[m->length++] = (unsigned char)(value >> (8 * i));
}

static void put_varint(message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        m->bytes[m->length++] = (unsigned char)(value | 0x80);
    m->bytes[m->length++] = (unsigned char)value;
}

static void put_key(message *m, int field, int wire)
{
    put_varint(m, (uint64_t)(field << 3 | wire));
}

static void put_bytes(message *m, int field, const void *bytes, size_t count)
{
    put_key(m, field, BYTES);
    put_varint(m, count);
    memcpy(m->bytes + m->length, bytes, count);
    m->length += count;
}

static void put_double(message *m, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(m, field, FIXED64);
    put_fixed(m, bits, 8);
}

static void put_float(message *m, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(m, field, FIXED32);
    put_fixed(m, bits, 4);
}

/* ---- events ---- */

/* Fields of Event: wall_time 1, step 2. */
static void begin_event(message *m, int64_t step)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    m->length = 0;
    put_double(m, 1, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    put_key(m, 2, VARINT);
    put_varint(m, (uint64_t)step);
}

/* Fields of Summary.Value: tag 1, simple_value 2. */
static void put_value(message *summary, const tensorboard_value *value)
{
    message m = {.length = 0};
    put_bytes(&m, 1, value->tag, strnlen(value->tag, TENSORBOARD_TAG));
    put_float(&m, 2, (float)value->value);
    put_bytes(summary, 1, m.bytes, m.length);
}

/* ---- the file ---- */

/* All or nothing: after a failure, no part of the record is left. */
static bool write_all(tensorboard *t, const unsigned char *bytes, size_t count)
{
    if (!haul__write_all(t->fd, bytes, count)) {
        int error = errno;
        if (ftruncate(t->fd, t->bytes))
            error = errno;
        complain("%s cannot be written: %s", t->path, strerror(error));
        return false;
    }
    t->bytes += (int64_t)count;
    return true;
}

static bool write_record(tensorboard *t, const message *m)
{
    unsigned char bytes[MESSAGE + 16];
    message       frame = {.length = 0};
    put_fixed(&frame, m->length, 8);
    put_fixed(&frame, masked_crc_of(frame.bytes, 8), 4);
    memcpy(bytes, frame.bytes, frame.length);
    memcpy(bytes + frame.length, m->bytes, m->length);
    size_t length = frame.length + m->length;
    frame.length = 0;
    put_fixed(&frame, masked_crc_of(m->bytes, m->length), 4);
    memcpy(bytes + length, frame.bytes, frame.length);
    return write_all(t, bytes, length + frame.length);
}

/* Field of Event: file_version 3. It is the first event of a file. */
static bool write_version(tensorboard *t)
{
    static const char version[] = "brain.Event:2";
    message           m;
    begin_event(&m, 0);
    put_bytes(&m, 3, version, sizeof version - 1);
    return write_record(t, &m);
}

/* Field of Event: session_log 7; of SessionLog: status 1, which is START, 1. Readers drop events from `step` on. */
static bool write_restart(tensorboard *t, int64_t step)
{
    message m;
    begin_event(&m, step);
    put_bytes(&m, 7, (const unsigned char[]){1 << 3 | VARINT, 1}, 2);
    return write_record(t, &m);
}

static void host_name(char *out, size_t size)
{
    if (gethostname(out, size - 1) || !*out)
        snprintf(out, size, "host");
    for (char *at = out; *at; at++)
        if (*at == '/' || (unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f)
            *at = '_';
}

bool tensorboard_open(tensorboard *t, const char *folder, int64_t trained)
{
    char   host[128] = "";
    size_t size = strlen(folder) + sizeof host + 96;
    *t = (tensorboard){.path = malloc(size), .fd = -1};
    if (!t->path) {
        complain("memory is exhausted");
        return false;
    }
    host_name(host, sizeof host);
    snprintf(t->path, size, "%s/events.out.tfevents.%010lld.%s.%lld.0", folder, (long long)time(NULL), host,
             (long long)getpid());
    if ((t->fd = run_file_open(t->path, O_WRONLY | O_CREAT | O_EXCL)) < 0)
        return false;
    return write_version(t) && (trained <= 0 || write_restart(t, trained + 1));
}

bool tensorboard_is_kept(const tensorboard *t)
{
    if (!t->path || run_file_is_named(t->fd, t->path, false))
        return true;
    complain(
        "%s was deleted or exchanged while the training wrote into it; with --resume, --tensorboard begins another",
        t->path);
    return false;
}

void tensorboard_close(tensorboard *t)
{
    if (t->path && t->fd >= 0)
        close(t->fd);
    free(t->path);
    *t = (tensorboard){0};
}

bool tensorboard_add(tensorboard *t, int64_t step, const tensorboard_value *values, int count)
{
    message event, summary = {.length = 0};
    if (!t->path)
        return true;
    for (int i = 0; i < count && i < TENSORBOARD_MOST; i++)
        put_value(&summary, &values[i]);
    begin_event(&event, step);
    put_bytes(&event, 5, summary.bytes, summary.length); /* field of Event: summary 5 */
    return write_record(t, &event);
}
