/* The thread's error record. It is in the memory of a registered thread, and failing registers the thread. If there is
 * no memory for that, the status is kept without texts. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/plain.h"
#include "core/thread.h"

/* All zeros, and not to be written, if the thread is not registered. */
static haul__error_record *record_now(void)
{
    return &haul__tls.memory->error;
}

static haul_status status_now(void)
{
    const haul_status status = record_now()->status;
    return status ? status : haul__tls.bare;
}

static const char *text_now(const char *text)
{
    const haul__error_record *record = record_now();
    return record->settled ? "" : text;
}

haul_status haul_error_status(void)
{
    return record_now()->settled ? HAUL_OK : status_now();
}

const char *haul_error_message(void)
{
    haul__error_record *record = record_now();
    if (record->status)
        record->read = true;
    haul__tls.bare_read = haul__tls.bare != HAUL_OK;
    return haul__tls.bare ? "host memory is exhausted, also for the message of an error" : text_now(record->message);
}

const char *haul_error_operation(void)
{
    return text_now(record_now()->operation);
}

const char *haul_error_argument(void)
{
    return text_now(record_now()->argument);
}

static void clear(haul__error_record *record)
{
    record->status = HAUL_OK;
    record->report = 0;
    record->operation[0] = record->argument[0] = record->message[0] = 0;
    record->settled = record->read = false;
}

void haul_error_clear(void)
{
    haul__error_record *record = record_now();
    if (record->status)
        clear(record);
    haul__tls.bare = HAUL_OK;
}

void haul__error_set_report(uint64_t number)
{
    if (record_now()->status)
        record_now()->report = number;
}

uint64_t haul__error_report(void)
{
    return record_now()->settled ? 0 : record_now()->report;
}

void haul__error_settle(void)
{
    haul__error_record *record = record_now();
    if (record->status && record->read)
        record->settled = true;
    if (haul__tls.bare_read)
        haul__tls.bare = HAUL_OK;
}

/* Replaces the record. */
static void put(const haul__error_record *fresh)
{
    HAUL__ASSERT(fresh->status != HAUL_OK);
    haul__context *context = haul__context_get();
    haul__tls.bare = context ? HAUL_OK : fresh->status;
    haul__tls.bare_read = false;
    if (context)
        context->memory->error = *fresh;
}

const char *haul_status_name(haul_status status)
{
    static const char *const names[] = {
#define X(name, value, text) [value] = text,
        HAUL_STATUS_LIST(X)
#undef X
    };
    size_t index = (size_t)status;
    return index < sizeof names / sizeof *names ? names[index] : "unknown status";
}

/* A message is one line of text, even if it quotes a file name or a file's contents. One that is too long ends in
 * dots. */
static void tidy(char *message, size_t size, bool cut)
{
    HAUL__ASSERT(strlen(message) < size && size > 4);
    for (char *c = message; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
    if (!cut)
        return;
    size_t end = size - 4;
    while (end > 0 && ((unsigned char)message[end] & 0xc0) == 0x80) /* not inside a UTF-8 character */
        end--;
    memcpy(message + end, "...", 4);
}

static haul_status fail(haul_status status, const char *operation, const char *argument, const char *format,
                        va_list arguments)
{
    haul__error_record fresh = {.status = status}; /* the arguments may point into the old record */
    HAUL__ASSERT(status != HAUL_OK);
    snprintf(fresh.operation, sizeof fresh.operation, "%s", operation ? operation : "");
    snprintf(fresh.argument, sizeof fresh.argument, "%s", argument ? argument : "");
    int prefix = operation ? snprintf(fresh.message, sizeof fresh.message, "%s: ", fresh.operation) : 0;
    HAUL__ASSERT(prefix >= 0 && (size_t)prefix < sizeof fresh.message); /* names of operations are short */
    size_t room = sizeof fresh.message - (size_t)prefix;
    int    length = haul__vsnprintf(fresh.message + prefix, room, format, arguments);
    tidy(fresh.message, sizeof fresh.message, length >= 0 && (size_t)length >= room);
    put(&fresh);
    return status;
}

haul_status haul__fail(haul_status status, const char *operation, const char *argument, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(status, operation, argument, format, arguments);
    va_end(arguments);
    return status;
}

haul_status haul__error_set_list(haul_status status, const char *operation, const char *argument, const char *format,
                                 va_list arguments)
{
    if (status <= HAUL_OK || status > HAUL_INTERRUPTED)
        status = HAUL_INVALID_ARGUMENT;
    return fail(status, operation, argument, format ? format : "no reason is given", arguments);
}

haul_status haul_error_set(haul_status status, const char *operation, const char *argument, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    status = haul__error_set_list(status, operation, argument, format, arguments);
    va_end(arguments);
    return status;
}

haul_status haul__check_list(const char *operation, const void *out, int capacity)
{
    if (capacity < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "capacity", "capacity is %d; expected 0 or more", capacity);
    return out || capacity == 0 ? HAUL_OK : haul__fail_null(operation, "out");
}

haul_status haul__fail_null(const char *operation, const char *argument)
{
    if (record_now()->settled)
        record_now()->settled = false;
    if (status_now())
        return status_now();
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument,
                      "%s is NULL; pass the result of a call that succeeded", argument ? argument : "an argument");
}

haul_status haul__fail_within(const char *operation)
{
    const haul__error_record *record = record_now();
    size_t                    length = strlen(record->operation);
    const char               *text = record->message;
    const uint64_t            report = record->report;
    if (haul__tls.bare)
        return haul__tls.bare;
    HAUL__ASSERT(record->status); /* the call that failed has recorded its error */
    if (length && strncmp(text, record->operation, length) == 0 && strncmp(text + length, ": ", 2) == 0)
        text += length + 2;
    haul__fail(record->status, operation, record->argument, "%s", text);
    haul__error_set_report(report);
    return record->status;
}

haul_status haul__fail_memory(const char *operation, size_t bytes)
{
    if (bytes == 0)
        return haul__fail(HAUL_OUT_OF_MEMORY, operation, NULL, "host memory is exhausted");
    return haul__fail(HAUL_OUT_OF_MEMORY, operation, NULL, "host memory is exhausted; %zu bytes were asked for", bytes);
}

void haul__error_save(haul__error_record *out)
{
    const haul__error_record *record = record_now();
    if (record->status) {
        *out = *record;
    } else { /* the usual case, which every operation passes: only the ends of the texts are set */
        clear(out);
        out->status = haul__tls.bare;
    }
}

void haul__error_restore(const haul__error_record *saved)
{
    if (saved->status)
        put(saved);
    else
        haul_error_clear();
}
