/* Machine code that this process wrote: memory that is first writable and then executable, never both. */
#ifndef HAUL_BACKENDS_CPU_ASSEMBLER_CODE_H
#define HAUL_BACKENDS_CPU_ASSEMBLER_CODE_H

#include <stddef.h>

typedef struct haul__code {
    void  *pages; /* NULL: there is none */
    size_t bytes; /* whole pages */
} haul__code;

/* Copies the instructions into pages of their own. Without pages, and without an error, if the system refuses memory,
 * or refuses to make it executable. */
haul__code haul__code_make(const unsigned char *instructions, size_t bytes);
void       haul__code_free(haul__code *code);

#endif
