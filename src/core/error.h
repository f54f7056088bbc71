/* Recording errors. Every failure in the library either calls haul__fail or keeps an error that is already recorded. */
#ifndef HAUL_CORE_ERROR_H
#define HAUL_CORE_ERROR_H

#include <haul/error.h>
#include <stdarg.h>
#include <stdint.h>

/* Records an error for the calling thread, replacing the last one, and returns `status`. The message begins with
 * "operation: ". `operation` and `argument` may be NULL. */
haul_status haul__fail(haul_status status, const char *operation, const char *argument, const char *format, ...)
    HAUL_PRINTF(4, 5);

/* haul_error_set with a va_list. */
haul_status haul__error_set_list(haul_status status, const char *operation, const char *argument, const char *format,
                                 va_list arguments) __attribute__((format(printf, 4, 0)));

/* An operand was NULL. Keeps the error that explains it; if there is none, records one that names the argument. Returns
 * the status that is now recorded. */
haul_status haul__fail_null(const char *operation, const char *argument);

/* Checks the argument `out`, a list for `capacity` items. NULL holds none. */
haul_status haul__check_list(const char *operation, const void *out, int capacity);

/* Marks the recorded error as handled if its message was read: haul_error_status() returns HAUL_OK until the next
 * failure. A NULL operand brings the error back, since it may be the cause. */
void haul__error_settle(void);

/* The last call failed, and `operation` made it on behalf of its caller: attributes the recorded error to `operation`.
 * Returns its status. */
haul_status haul__fail_within(const char *operation);

/* Records that host memory was exhausted in `operation`. */
haul_status haul__fail_memory(const char *operation, size_t bytes);

/* A report was made on the error that is recorded now; it goes with the record. haul__error_report returns 0 if there
 * is none, or if the error is hidden. */
void     haul__error_set_report(uint64_t number);
uint64_t haul__error_report(void);

/* Save and restore the thread's error around clean-up, or around attempts that may fail. */
typedef struct haul__error_record {
    haul_status status;
    bool        settled; /* handled, and hidden from users */
    bool        read;    /* the message was asked for */
    uint64_t    report;  /* the number of the report on it (memory/report/report.h); 0: none */
    char        operation[48];
    char        argument[48];
    char        message[512];
} haul__error_record;

void haul__error_save(haul__error_record *out);
void haul__error_restore(const haul__error_record *saved);

#endif
