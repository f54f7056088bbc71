/* Errors: each thread has one record, of its last failure since the record was cleared. Success does not clear it. */
#ifndef HAUL_ERROR_H
#define HAUL_ERROR_H

#include <haul/base.h>

HAUL_BEGIN

/* X(name, value, text): the codes, their fixed numbers and what haul_status_name answers. */
#define HAUL_STATUS_LIST(X)                                                                                            \
    X(OK, 0, "ok")                                                                                                     \
    X(INVALID_ARGUMENT, 1, "invalid argument")                                                                         \
    X(SHAPE, 2, "shapes do not fit")                                                                                   \
    X(DTYPE, 3, "dtype not accepted")                                                                                  \
    X(DEVICE, 4, "device not usable")                                                                                  \
    X(PLACEMENT, 5, "operands on different devices")                                                                   \
    X(OUT_OF_MEMORY, 6, "out of memory")                                                                               \
    X(UNSUPPORTED, 7, "not supported")                                                                                 \
    X(IO, 8, "input or output failed")                                                                                 \
    X(FORMAT, 9, "malformed file")                                                                                     \
    X(STATE, 10, "not possible in this state")                                                                         \
    X(GRAPH, 11, "no gradient can be computed")                                                                        \
    X(BACKEND, 12, "the device reported a fault")                                                                      \
    X(INTERRUPTED, 13, "interrupted")                                                                                  \
    X(END_OF_DATA, 14, "end of the data")

typedef enum haul_status {
#define X(name, value, text) HAUL_##name = value,
    HAUL_STATUS_LIST(X)
#undef X
} haul_status;

/* The calling thread's error: code, one line of text (never NULL; "" when there is none), the operation that failed
 * and the argument it is about ("" when it is about none). The texts stay valid until the next failure or clear. */
HAUL_API haul_status haul_error_status(void);
HAUL_API const char *haul_error_message(void);
HAUL_API const char *haul_error_operation(void);
HAUL_API const char *haul_error_argument(void);
HAUL_API void        haul_error_clear(void);

/* Record an error of one's own, as a forward function or a dataset's `read` does before it returns NULL or a status:
 * it replaces the last one; its message is "operation: " and the formatted text. operation, argument and format may be
 * NULL.
 * Returns `status`; HAUL_OK and unknown codes become HAUL_INVALID_ARGUMENT. */
HAUL_API haul_status haul_error_set(haul_status status, const char *operation, const char *argument, const char *format,
                                    ...) HAUL_PRINTF(4, 5);

/* A few words for a code, "shapes do not fit"; "unknown status" for anything else. */
HAUL_API const char *haul_status_name(haul_status status);

HAUL_END

#endif
