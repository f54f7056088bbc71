/* Host memory that is left. */
#ifndef CLI_PLAN_FREE_MEMORY_H
#define CLI_PLAN_FREE_MEMORY_H

#include <stdint.h>

/* The bytes that this program can still get: the statistic memory.cpu.free; 0: not known. */
int64_t available_memory(void);

#endif
