/* Instructions of x86-64 with AVX2 as bytes (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2).
 *
 * A loop over elements has its first element in rdx and the end in rcx, rdi points to addresses and rsi to constants.
 * rax is free for the loop itself. Vectors have eight elements of 32 bits. */
#ifndef HAUL_BACKENDS_CPU_ASSEMBLER_ENCODE_H
#define HAUL_BACKENDS_CPU_ASSEMBLER_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* General registers, by number. */
enum { HAUL__RAX = 0, HAUL__RSI = 6, HAUL__RDI = 7, HAUL__R8 = 8, HAUL__R9, HAUL__R10, HAUL__R11 };

/* Instructions on three registers: to = a OP b. Their values are opcodes. */
typedef enum haul__opcode {
    HAUL__OP_NONE = 0,
    HAUL__OP_SQRT = 0x51, /* of b */
    HAUL__OP_AND = 0x54,
    HAUL__OP_AND_NOT = 0x55, /* ~a & b */
    HAUL__OP_OR = 0x56,
    HAUL__OP_XOR = 0x57,
    HAUL__OP_ADD = 0x58,
    HAUL__OP_MUL = 0x59,
    HAUL__OP_SUB = 0x5c,
    HAUL__OP_MIN = 0x5d, /* the smaller one; b of zeros and NaNs */
    HAUL__OP_DIV = 0x5e,
    HAUL__OP_MAX = 0x5f,     /* the larger one; b of zeros and NaNs */
    HAUL__OP_COMPARE = 0xc2, /* `extra` is a haul__relation; all bits are set where it holds */
    HAUL__OP_ROUND = 0x08,   /* of b; `extra` is a haul__rounding */
    HAUL__OP_CHOOSE = 0x4a   /* b where the sign bit of register `extra` is set, else a */
} haul__opcode;

typedef enum haul__relation {
    HAUL__EQ = 0x00,
    HAUL__UNORDERED = 0x03,
    HAUL__NE = 0x04,
    HAUL__LT = 0x11,
    HAUL__LE = 0x12,
    HAUL__GE = 0x1d,
    HAUL__GT = 0x1e
} haul__relation;

/* Bit 3: without an exception for inexact results. */
typedef enum haul__rounding { HAUL__NEAREST = 8, HAUL__DOWN, HAUL__UP, HAUL__TO_ZERO } haul__rounding;

typedef struct haul__bytes {
    unsigned char *at;
    size_t         count, room;
    bool           failed; /* there was no room */
} haul__bytes;

void haul__encode(haul__bytes *out, haul__opcode op, int to, int a, int b, int extra);

/* Vectors at address + (rdx + more) elements, which have four bytes, or one if they are bools. Bools are masks in
 * registers; storing one needs a free register. */
void haul__encode_load(haul__bytes *out, bool is_bool, int to, int address, int more);
void haul__encode_store(haul__bytes *out, bool is_bool, bool past_caches, int from, int address, int more, int free);

/* All elements of `to` become constant number `at` of those at rsi, or the element at the address number `at` of those
 * at rdi. */
void haul__encode_constant(haul__bytes *out, int to, int at);
void haul__encode_repeated(haul__bytes *out, int to, int at);

/* `to`, a general register, becomes address number `at`. */
void haul__encode_address(haul__bytes *out, int to, int at);

/* Where the function begins, and where it returns. */
void haul__encode_begin(haul__bytes *out);
void haul__encode_end(haul__bytes *out, bool past_caches);

/* A loop that runs as long as `step` elements are left. Returns its place, for haul__encode_loop_end. */
size_t haul__encode_loop(haul__bytes *out, int step);
void   haul__encode_loop_end(haul__bytes *out, size_t loop);

#endif
