/* Where a training's bytes went: ledger.json, the copies between devices, and memory.json, the memory that the device
 * holds, and held when it ran out. */
#ifndef CLI_RUN_FOLDER_ACCOUNT_H
#define CLI_RUN_FOLDER_ACCOUNT_H

#include <haul/haul.h>

#include "cli/run_folder/folder.h"

/* Begin to count copies, on all threads, and to record where memory is allocated, unless the device is the CPU and a
 * step has so little work that recording would slow it down. NULL after a complaint. */
haul_ledger *run_account_begin(haul_device *device, double step_flops);

/* End both, and release the ledger, which may be NULL: then nothing was begun. */
void run_account_end(haul_ledger *ledger);

/* End both and save the two files, also if the thread's error is that memory ran out, which is cleared. Releases the
 * ledger, which may be NULL. False after a complaint. */
bool run_account_save(haul_ledger *ledger, haul_device *device, const run_folder *run);

#endif
