/* Budgets: how much a part of the program may copy between devices and send to other ranks, and how often it may wait.
 *
 * A budget belongs to a scope. It limits what happens between haul_budget and the end of the scope, and allows nothing
 * that it does not name. If a limit was exceeded, closing the scope fails and says by what. So a test can hold a step
 * of training to its transfers:
 *
 *     haul_scope *step = haul_scope_push_named("step");
 *     haul_budget(.h2d_bytes = 65536);
 *     haul_tensor *y = haul_softmax(haul_to(x, haul_device_get("auto")), -1);
 *     if (haul_scope_pop(step) != HAUL_OK)
 *         fprintf(stderr, "%s\n", haul_error_message());
 *
 * The counts are those of haul_transfer_stats_get and haul_sync_count. Bytes do not depend on the speed of the machine.
 * Waits count each time that a thread comes to a place where it has to wait; where another thread has waited for the
 * same commands before, there is nothing left to wait for, and the count is lower. Bytes to other ranks are those of
 * haul_group_properties.sent_bytes. A collective counts when the thread has waited for it. */
#ifndef HAUL_BUDGET_H
#define HAUL_BUDGET_H

#include <haul/base.h>
#include <haul/error.h>

HAUL_BEGIN

/* The limits of a budget. Copies within a device, and those between host memory and the CPU, cross no link and are
 * free.
 */
typedef struct HAUL__DESIGNATED haul_budget_options {
    HAUL__GUARD(h2d_bytes)
    int64_t h2d_bytes;   /* bytes copied from the host to devices; default 0: none */
    int64_t d2h_bytes;   /* bytes copied from devices to the host; default 0: none */
    int64_t d2d_bytes;   /* bytes copied between devices without a stop in host memory; default 0: none */
    int64_t group_bytes; /* bytes of elements sent to other ranks of groups (haul/group.h); default 0: none */
    int64_t waits;       /* how often the host may come to a place where it has to wait; default 0: never */
    bool    planned;     /* also allow the copies that HAUL_PLACE_AUTO asks for, by a plan or by price */
    bool    everywhere;  /* count all threads, also the workers of a loader; default: the calling thread */
} haul_budget_options;

/* Give the innermost scope of the calling thread a budget: haul_budget(.h2d_bytes = 65536, .waits = 1). A scope may
 * have several, and budgets of enclosing scopes count what happens inside.
 *
 * If the budget was exceeded, haul_scope_pop closes the scope, records HAUL_BUDGET and returns it. haul_scope_return
 * records it and returns the result. The message gives the limits that were exceeded, the copies and waits, and the
 * three places in the program that used most. Places are those of haul_sync_report: lines of source, or functions that
 * the program exports.
 *
 * Fails with HAUL_STATE if no scope is open or in a subscriber to events, and with HAUL_INVALID_ARGUMENT for a negative
 * limit. A dry run copies nothing and does not wait. */
#define haul_budget(...) haul_budget_with(HAUL__OPTIONS(haul_budget_options, __VA_ARGS__))
HAUL_API haul_status haul_budget_with(const haul_budget_options *options);

HAUL_END

#endif
