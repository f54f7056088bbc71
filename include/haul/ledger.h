/* The ledger: an account of everything that crossed a link between devices, by the place in the program that asked for
 * it.
 *
 *     haul_ledger *ledger = haul_ledger_begin(.device_times = true);
 *     haul_tensor *y = haul_softmax(haul_to(x, haul_device_get("auto")), -1);
 *     haul_print(haul_to(y, haul_cpu()));
 *     haul_ledger_end(ledger);
 *
 *     haul_ledger_row rows[16];
 *     int count = haul_ledger_rows(ledger, rows, 16, .by = HAUL_LEDGER_OPERATION | HAUL_LEDGER_FROM);
 *     for (int i = 0; i < count && i < 16; i++)
 *         printf("%s: %lld bytes\n", rows[i].operation, (long long)rows[i].bytes);
 *
 * Its counts are those of haul_transfer_stats_get: copies within a device, and between host memory and the CPU, cross
 * no link. A budget (budget.h) turns a limit on them into an error. */
#ifndef HAUL_LEDGER_H
#define HAUL_LEDGER_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/error.h>

HAUL_BEGIN

/* An account. Belongs to a scope, whose end also ends the counting. */
typedef struct haul_ledger haul_ledger;

typedef struct HAUL__DESIGNATED haul_ledger_options {
    HAUL__GUARD(everywhere)
    bool everywhere;   /* count all threads, also the workers of a loader; default: the calling thread */
    bool device_times; /* also fill `device_ms` and `overlap_ms`, which takes an event for each command */
    bool ranks;        /* also count what this rank of a group sends to others: rows whose `from` and `to` are NULL,
                          `bytes` what it sent, `count` its collectives and messages, `wait_ms` how long they took */
} haul_ledger_options;

/* Count copies from now on: haul_ledger_begin(.everywhere = true). Several ledgers can count at once. Fails in a
 * subscriber to events, which makes no events that a ledger could count. NULL on failure. */
#define haul_ledger_begin(...) haul_ledger_begin_with(HAUL__OPTIONS(haul_ledger_options, __VA_ARGS__))
HAUL_API haul_ledger *haul_ledger_begin_with(const haul_ledger_options *options);

/* Stop counting. The rows stay. The device times of a copy come when a thread waits for its device: call
 * haul_device_sync before to have them all. */
HAUL_API haul_status haul_ledger_end(haul_ledger *ledger);

/* What one row stands for, and by what rows can be joined.
 *
 * - HAUL_LEDGER_FROM: the device that the bytes came from
 * - HAUL_LEDGER_TO: the device that they went to
 * - HAUL_LEDGER_OPERATION: the operation that copied them, "haul_to"
 * - HAUL_LEDGER_MODULE: the path of the module that was being called, "features.0"
 * - HAUL_LEDGER_LABEL: the innermost label of the thread
 * - HAUL_LEDGER_TENSOR: the name of the tensor
 * - HAUL_LEDGER_ALL: all of these */
typedef enum haul_ledger_key {
    HAUL_LEDGER_FROM = 1,
    HAUL_LEDGER_TO = 2,
    HAUL_LEDGER_OPERATION = 4,
    HAUL_LEDGER_MODULE = 8,
    HAUL_LEDGER_LABEL = 16,
    HAUL_LEDGER_TENSOR = 32,
    HAUL_LEDGER_ALL = 63
} haul_ledger_key;

/* A row. Devices by which the row is not divided are NULL, and texts are "". A text that is too long is cut between two
 * characters. */
typedef struct haul_ledger_row {
    const haul_device *from, *to;     /* from: where the bytes came from; to: where they went */
    char               operation[48]; /* the operation, "haul_to" */
    char               module[96];    /* path of the module that was being called; "" outside of modules */
    char               label[48];     /* the innermost label */
    /* the name of a parameter that its module moved, of a module's input, of an operand that the placement policy
     * moved, of a field of a batch, or of a tensor that was saved or loaded; "" for others */
    char    tensor[64];
    char    conversion[24]; /* "f32 to f16", "several", or "" for copies without a conversion */
    int64_t count;          /* how many copies */
    int64_t bytes;          /* bytes that crossed the link */
    int64_t pinned_bytes;   /* of `bytes`: from or to pinned host memory */
    /* of `bytes`: from or to ordinary host memory, where pinned memory would have been faster */
    int64_t pageable_bytes;
    int64_t planned_bytes; /* of `bytes`: copies that HAUL_PLACE_AUTO asked for, by a plan or by price */
    double  planned_ms;    /* what it counted for them, by the speeds of the two devices */
    double  wait_ms;       /* how long the host waited in the calls that copied */
    double  device_ms;     /* how long the device copied; with .device_times */
    double  overlap_ms;    /* of `device_ms`: while the device was also computing; with .device_times */
} haul_ledger_row;

typedef struct HAUL__DESIGNATED haul_ledger_rows_options {
    int capacity; /* rows that fit in `out`; positional */
    HAUL__GUARD(by)
    unsigned by; /* values of haul_ledger_key joined by |: rows that are equal in these are added; default all */
} haul_ledger_rows_options;

/* The rows, those with the most bytes first: haul_ledger_rows(ledger, rows, 16, .by = HAUL_LEDGER_MODULE). Fills at
 * most `capacity` rows of `out`, which may be NULL for 0, and returns how many there are; -1 on failure. May be called
 * while the ledger counts. Beyond 4096 different rows, new copies are added to one row for each pair of devices, with
 * the operation "others". */
#define haul_ledger_rows(ledger, out, ...)                                                                             \
    haul_ledger_rows_with(ledger, out, HAUL__OPTIONS(haul_ledger_rows_options, .capacity = __VA_ARGS__))
HAUL_API int haul_ledger_rows_with(haul_ledger *ledger, haul_ledger_row *out, const haul_ledger_rows_options *options);

HAUL_END

#endif
