/* Machine code for neighbouring parts of a chain (backends/cpu/assembler/assemble.h): what passes from one to the next
 * stays in registers. Parts without code, and the last few elements of each range, run the kernels of their operations.
 */
#ifndef HAUL_RECORD_FOLLOW_CHAIN_CODE_H
#define HAUL_RECORD_FOLLOW_CHAIN_CODE_H

#include "record/follow/chain.h"
#include "record/machine_code/draft.h"

typedef struct haul__chain_code {
    int               first, count; /* parts */
    haul__assembled   assembled;
    haul__draft_place places[HAUL__ASM_MEMORY]; /* of its values in memory */
    int               bytes[HAUL__ASM_MEMORY];  /* of an element of each */
} haul__chain_code;

/* Makes those of a chain that knows its launches and its slots; none if memory is exhausted or may not be executable.
 */
void haul__chain_codes_make(haul__chain *chain);
void haul__chain_codes_free(haul__chain *chain);

/* Runs it over elements first .. last - 1, except the last few, and returns the first element that it has left out.
 * addresses[k] is where element 0 of places[k] is. */
int64_t haul__chain_code_run(const haul__chain_code *code, void *const *addresses, int64_t first, int64_t last);

#endif
