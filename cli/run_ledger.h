/* What a training copied between devices: ledger.json. */
#ifndef CLI_RUN_LEDGER_H
#define CLI_RUN_LEDGER_H

#include <haul/haul.h>
#include <stdbool.h>

/* Begin to count, on all threads. NULL after a complaint. */
haul_ledger *run_ledger_begin(haul_device *device);

/* End counting, and save the rows in a file if there is a path. Releases the ledger, which may be NULL. False after a
 * complaint. */
bool run_ledger_end(haul_ledger *ledger, haul_device *device, const char *path);

#endif
