/* The host memory that this process can still get. */
#ifndef HAUL_BASE_SYSTEM_FREE_MEMORY_H
#define HAUL_BASE_SYSTEM_FREE_MEMORY_H

#include <stdint.h>

/* The least of what these leave, in bytes; -1 if none of them is known:
 * - the machine: MemAvailable, the free pages and those that the system can free;
 * - the process's control groups: memory.max and memory.high, or memory.limit_in_bytes of version 1, less the memory in
 *   use, without file pages that the system can free;
 * - the process's limits RLIMIT_AS and RLIMIT_DATA.
 *
 * `root` is put before the paths of the files that say so: "" for the machine's own. Reads files: call it rarely. It
 * does not allocate, because memory may be exhausted. */
int64_t haul__free_memory(const char *root);

#endif
