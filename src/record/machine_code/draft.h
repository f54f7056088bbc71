/* Which neighbouring parts of a chain one piece of machine code computes (backends/cpu/assembler/assemble.h). The parts
 * are those of a followed step, or of a program that nothing has run yet, so both have the same answer. */
#ifndef HAUL_RECORD_MACHINE_CODE_DRAFT_H
#define HAUL_RECORD_MACHINE_CODE_DRAFT_H

#include <haul/dtype.h>

#include "backends/cpu/assembler/assemble.h"

/* The fewest parts of code, and the fewest elements of its results. */
enum { HAUL__FEWEST_CODED_PARTS = 2, HAUL__FEWEST_CODED_ELEMENTS = 64 };

/* The most tensors of a part: its result, then its operands. */
enum { HAUL__DRAFT_TENSORS = 4 };

typedef struct haul__draft_tensor {
    uintptr_t  memory; /* equal for tensors that share it */
    int64_t    offset; /* elements before the first one */
    haul_dtype dtype;
    bool       repeated; /* one element is that of all */
} haul__draft_tensor;

typedef struct haul__draft_part {
    haul__draft_tensor tensors[HAUL__DRAFT_TENSORS];
    int                count;
    int                kernel;
    uint64_t           scalars[2];  /* as kernels have them */
    bool               is_flat;     /* tensors are dense in the order of the result, or repeated */
    bool               has_memory;  /* its result has more than a tile's */
    bool               past_caches; /* its result goes past the caches if it has memory */
} haul__draft_part;

/* A chain. `end` is the memory that its reduction reads; 0: none. */
typedef struct haul__draft_chain {
    const haul__draft_part *parts;
    int                     count;
    uintptr_t               end;
} haul__draft_chain;

/* A value of the draft: a tensor of a part. */
typedef struct haul__draft_place {
    int part, tensor;
} haul__draft_place;

/* The parts from `first` on as the assembler takes them. */
typedef struct haul__draft {
    const haul__draft_chain *chain;
    int                      first, count;
    haul__asm_part           parts[HAUL__ASM_PARTS];
    haul__asm_value          values[HAUL__ASM_VALUES];
    haul__draft_place        places[HAUL__ASM_VALUES];
    int                      value_count;
} haul__draft;

/* The longest piece of code that begins at part `first`; false: there is none. */
bool haul__draft_code(haul__draft *out, const haul__draft_chain *chain, int first);

/* Why there are no instructions for the part; NULL: there are. */
const char *haul__draft_refusal(const haul__draft_part *part);

#endif
