/* The rows of pointwise.def that machine code can compute in f32, as instructions on vectors, with the bits of the
 * rows' own kernels. */
#ifndef HAUL_BACKENDS_CPU_ASSEMBLER_ROWS_H
#define HAUL_BACKENDS_CPU_ASSEMBLER_ROWS_H

#include "backends/cpu/assembler/encode.h"

/* Registers of a row, by name. */
typedef enum haul__asm_name {
    HAUL__IS_NOTHING,
    HAUL__IS_A, /* operands */
    HAUL__IS_B,
    HAUL__IS_C,
    HAUL__IS_S0, /* scalars */
    HAUL__IS_S1,
    HAUL__IS_ZERO,
    HAUL__IS_ONE,
    HAUL__IS_SIGN, /* the sign bit alone: -0 */
    HAUL__IS_R,    /* the result */
    HAUL__IS_T0,   /* free registers */
    HAUL__IS_T1
} haul__asm_name;

typedef struct haul__asm_step {
    haul__opcode   op;
    haul__asm_name to, a, b;
    int            extra; /* of HAUL__OP_CHOOSE: a haul__asm_name */
} haul__asm_step;

typedef enum haul__asm_when {
    HAUL__ASM_ALWAYS,
    HAUL__ASM_ORDERED,  /* s0 <= s1 */
    HAUL__ASM_ON_TRUE,  /* s1, an integer, is 1 */
    HAUL__ASM_ON_FALSE, /* it is 0 */
} haul__asm_when;

enum { HAUL__ASM_STEPS = 8 };

/* Bits of `bools`: which operands are bool, and whether the result is. */
enum { HAUL__BOOL_A = 1, HAUL__BOOL_B = 2, HAUL__BOOL_C = 4, HAUL__BOOL_R = 8 };

typedef struct haul__asm_row {
    int            kernel, bools;
    bool           by_scalar; /* b is s0 */
    haul__asm_when when;
    haul__asm_step steps[HAUL__ASM_STEPS]; /* up to one without an opcode */
} haul__asm_row;

/* The row of a kernel for these scalars, as kernels have them; NULL: none. */
const haul__asm_row *haul__asm_row_of(int kernel, const uint64_t *scalars);

#endif
