/* Machine code for pointwise rows of f32 on processors with AVX2: one loop for several rows, in which what passes from
 * one to the next stays in registers. Results have the bits of the rows' own kernels; of two NaNs either may win. */
#ifndef HAUL_BACKENDS_CPU_ASSEMBLER_ASSEMBLE_H
#define HAUL_BACKENDS_CPU_ASSEMBLER_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/assembler/code.h"

/* PARTS: the most rows. MEMORY: the most values in memory, of which ADDRESSES are not repeated. ALIGNED: bytes. */
enum {
    HAUL__ASM_PARTS = 64,
    HAUL__ASM_ADDRESSES = 6,
    HAUL__ASM_MEMORY = 12,
    HAUL__ASM_VALUES = HAUL__ASM_PARTS + HAUL__ASM_MEMORY,
    HAUL__ASM_CONSTANTS = 12,
    HAUL__ASM_ELEMENTS = 8, /* runs begin at any element and have a multiple of this number */
    HAUL__ASM_ALIGNED = 32
};

/* An operand from memory, or the result of a part, which may go to memory. */
typedef struct haul__asm_value {
    bool is_bool;     /* bytes that are 0 or 1; else f32 */
    bool repeated;    /* an operand whose one element is that of all */
    bool in_memory;   /* it has an address */
    bool past_caches; /* a result that goes past the caches: its first element of a run is at a multiple of ALIGNED */
} haul__asm_value;

typedef struct haul__asm_part {
    int      kernel;              /* its id */
    int      result, operands[3]; /* numbers of values */
    int      operand_count;
    uint64_t scalars[2]; /* as kernels have them */
} haul__asm_part;

/* Computes elements first .. last - 1. addresses[k] is where element 0 of value memory[k] is. */
typedef void haul__assembled_run(void *const *addresses, const uint32_t *constants, int64_t first, int64_t last);

typedef struct haul__assembled {
    haul__assembled_run *run; /* NULL: there is no code */
    haul__code           code;
    int                  memory[HAUL__ASM_MEMORY], memory_count;
    bool                 past_caches[HAUL__ASM_MEMORY]; /* as in their values */
    uint32_t             constants[HAUL__ASM_CONSTANTS];
} haul__assembled;

/* True if this process may use assembled code: the kernels' level has AVX2, and HAUL_WITHOUT does not name "assembled".
 */
bool haul__asm_is_on(void);

/* True if there is an instruction sequence for the part. */
bool haul__asm_has(const haul__asm_part *part, const haul__asm_value *values);

/* True if this system makes memory executable. */
bool haul__asm_is_allowed(void);

/* False if parts that haul__asm_has need too many registers, addresses or instructions together. */
bool haul__asm_fits(const haul__asm_part *parts, int count, const haul__asm_value *values, int value_count);

/* Writes the code of parts that fit. There is none, without an error, if they do not, or if the system refuses
 * executable memory. */
haul__assembled haul__assemble(const haul__asm_part *parts, int count, const haul__asm_value *values, int value_count);
void            haul__assembled_free(haul__assembled *assembled);

#endif
