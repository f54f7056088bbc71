/* What the machine's memory still holds. */
#ifndef CLI_FREE_MEMORY_H
#define CLI_FREE_MEMORY_H

#include <stdint.h>

/* The bytes that Linux could give to programs without swapping; 0: not known. */
int64_t available_memory(void);

#endif
