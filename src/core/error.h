/* Recording errors. Every failure in the library ends in haul__fail or keeps an error already recorded. */
#ifndef HAUL_CORE_ERROR_H
#define HAUL_CORE_ERROR_H

#include <haul/error.h>
#include <stdarg.h>

/* Record an error of the calling thread in place of the last one and return `status`. The message is prefixed with
 * "operation: ". `operation` and `argument` may be NULL. */
haul_status haul__fail(haul_status status, const char *operation, const char *argument, const char *format, ...)
    HAUL_PRINTF(4, 5);

/* haul_error_set with a list of arguments. */
haul_status haul__error_set_list(haul_status status, const char *operation, const char *argument, const char *format,
                                 va_list arguments) __attribute__((format(printf, 4, 0)));

/* An operand was NULL: keep the error that made it so; where there is none, record one naming the argument.
 * Returns the status now recorded. */
haul_status haul__fail_null(const char *operation, const char *argument);

/* The error recorded so far is history: haul_error_status() is HAUL_OK until the next failure. An operand that is NULL
 * brings it back, since it may be why. */
void haul__error_settle(void);

/* The last call failed, which `operation` made on behalf of its caller: the error just recorded is said to be that of
 * `operation`. Returns its status. */
haul_status haul__fail_within(const char *operation);

/* Out of host memory while doing `operation`. */
haul_status haul__fail_memory(const char *operation, size_t bytes);

/* Save and restore the thread's error around clean-up or attempts that may fail. */
typedef struct haul__error_record {
    haul_status status;
    bool        settled; /* history, which users do not see */
    char        operation[48];
    char        argument[48];
    char        message[512];
} haul__error_record;

void haul__error_save(haul__error_record *out);
void haul__error_restore(const haul__error_record *saved);

#endif
