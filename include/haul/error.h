/* Errors: what failed, and why.
 *
 * Each thread has one error record: the last failure since the record was cleared. Success does not clear it. So a
 * program can make many calls and check once:
 *
 *     haul_error_clear();
 *     haul_tensor *y = haul_softmax(haul_matmul(a, b), -1);
 *     if (haul_error_status())
 *         fprintf(stderr, "%s\n", haul_error_message());
 *
 * The library never prints, exits or aborts because of an error; haul/group.h has the only exception. */
#ifndef HAUL_ERROR_H
#define HAUL_ERROR_H

#include <haul/base.h>

HAUL_BEGIN

/* X(name, value, text) for each status code: its name without HAUL_, its number, which never changes, and the text of
 * haul_status_name. */
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
    X(END_OF_DATA, 14, "end of the data")                                                                              \
    X(BUDGET, 15, "budget exceeded")

/* What went wrong.
 *
 * - HAUL_OK: success; always 0
 * - HAUL_INVALID_ARGUMENT: an argument is wrong: NULL, out of range, an unknown name, an index out of range
 * - HAUL_SHAPE: the shapes of the operands do not fit each other or the operation
 * - HAUL_DTYPE: the operation does not accept this dtype
 * - HAUL_DEVICE: the device is unknown, or cannot be opened on this machine
 * - HAUL_PLACEMENT: the operands are on different devices (placement.h)
 * - HAUL_OUT_OF_MEMORY: the device or the host has no memory left, or a limit was reached (memory.h)
 * - HAUL_UNSUPPORTED: this build, device or file format cannot do it
 * - HAUL_IO: the system failed to open, read or write a file
 * - HAUL_FORMAT: a file is malformed; the message names the file and the place
 * - HAUL_STATE: the call is correct but not possible now, for instance on an object that has ended
 * - HAUL_GRAPH: no gradient can be computed
 * - HAUL_BACKEND: a driver or a vendor's library reported a fault
 * - HAUL_INTERRUPTED: a function of the program ended the work early; the library itself never reports it
 * - HAUL_END_OF_DATA: past the last example of a dataset
 * - HAUL_BUDGET: a scope ended that copied or waited more than its budget allows (budget.h) */
typedef enum haul_status {
#define X(name, value, text) HAUL_##name = value,
    HAUL_STATUS_LIST(X)
#undef X
} haul_status;

/* The calling thread's last error: its code, HAUL_OK if there is none; one line of text; the operation that failed, for
 * example "haul_matmul"; and the argument that is wrong, for example "weight". The texts are never NULL, but "" where
 * there is nothing to say. They are valid until the thread's next failure or haul_error_clear. */
HAUL_API haul_status haul_error_status(void);
HAUL_API const char *haul_error_message(void);
HAUL_API const char *haul_error_operation(void);
HAUL_API const char *haul_error_argument(void);

/* Forget the calling thread's last error: the status is HAUL_OK again and the texts are "". */
HAUL_API void haul_error_clear(void);

/* Record an error, replacing the last one. For functions of your own that the library calls: a dataset's `read`, or a
 * custom operation. haul_tensor_fail does the same for functions that return a tensor.
 *
 * The message is "operation: " followed by the formatted text. Returns `status`; HAUL_OK and unknown codes become
 * HAUL_INVALID_ARGUMENT.
 *
 * - operation: the function that fails, or NULL
 * - argument: the argument that is wrong, or NULL
 * - format: a format of printf for the arguments behind it, or NULL */
HAUL_API haul_status haul_error_set(haul_status status, const char *operation, const char *argument, const char *format,
                                    ...) HAUL_PRINTF(4, 5);

/* A few words for a status code: "shapes do not fit". "unknown status" for any other number. */
HAUL_API const char *haul_status_name(haul_status status);

HAUL_END

#endif
