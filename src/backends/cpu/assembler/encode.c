#include "backends/cpu/assembler/encode.h"

#include <string.h>

#include "base/assert.h"

enum { NO_PREFIX, PREFIX_66 };               /* that a VEX prefix stands for */
enum { MAP_0F = 1, MAP_0F38 = 2, MAP_0F3A }; /* of opcodes */
enum { BITS_128, BITS_256 };
enum { PACK_I32 = 0x6b, PACK_I16 = 0x63, ABS_I8 = 0x1c, STORE_64 = 0xd6, UPPER_HALF = 0x19, SHIFT_I32 = 0x72 };
enum { LOAD = 0x10, STORE = 0x11, STREAM = 0x2b, WIDEN_U8 = 0x31, BROADCAST = 0x18 };
enum { SHIFT_LEFT = 6, SHIFT_RIGHT = 4 }; /* with copies of the sign */
enum { RDX = 2, JUMP_BYTES = 6, CHECK_BYTES = 7 };

static void put(haul__bytes *out, const unsigned char *bytes, size_t count)
{
    HAUL__ASSERT(out->count <= out->room);
    out->failed = out->failed || out->room - out->count < count;
    if (out->failed)
        return;
    memcpy(out->at + out->count, bytes, count);
    out->count += count;
}

#define PUT(out, ...) put(out, (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__}))

static void put_32(haul__bytes *out, int32_t value)
{
    unsigned char bytes[4];
    memcpy(bytes, &value, sizeof bytes);
    put(out, bytes, sizeof bytes);
}

/* The prefix and the opcode. `reg` and `rm` are the registers of the byte that follows, v the third one. */
static void vex(haul__bytes *out, int map, int prefix, int bits, int opcode, int reg, int v, int rm)
{
    HAUL__ASSERT(0 <= reg && reg < 16 && 0 <= v && v < 16 && 0 <= rm && rm < 16); /* four bits each */
    PUT(out, 0xc4, (unsigned char)((reg < 8) << 7 | 1 << 6 | (rm < 8) << 5 | map),
        (unsigned char)((~v & 15) << 3 | bits << 2 | prefix), (unsigned char)opcode);
}

static void registers(haul__bytes *out, int reg, int rm)
{
    PUT(out, (unsigned char)(0xc0 | (reg & 7) << 3 | (rm & 7)));
}

static void three(haul__bytes *out, int map, int prefix, int bits, int opcode, int reg, int v, int rm)
{
    vex(out, map, prefix, bits, opcode, reg, v, rm);
    registers(out, reg, rm);
}

/* [address + rdx * size + more * size] */
static void element(haul__bytes *out, int reg, int address, bool is_bool, int more)
{
    const int scale = is_bool ? 0 : 2;
    PUT(out, (unsigned char)(0x84 | (reg & 7) << 3), (unsigned char)(scale << 6 | RDX << 3 | (address & 7)));
    put_32(out, more * (1 << scale));
}

void haul__encode(haul__bytes *out, haul__opcode op, int to, int a, int b, int extra)
{
    const bool longer = op == HAUL__OP_ROUND || op == HAUL__OP_CHOOSE,
               unary = op == HAUL__OP_ROUND || op == HAUL__OP_SQRT;
    three(out, longer ? MAP_0F3A : MAP_0F, longer ? PREFIX_66 : NO_PREFIX, BITS_256, (int)op, to, unary ? 0 : a, b);
    if (longer || op == HAUL__OP_COMPARE)
        PUT(out, (unsigned char)(op == HAUL__OP_CHOOSE ? extra << 4 : extra));
}

static void shift(haul__bytes *out, int which, int to, int by)
{
    three(out, MAP_0F, PREFIX_66, BITS_256, SHIFT_I32, which, to, to);
    PUT(out, (unsigned char)by);
}

void haul__encode_load(haul__bytes *out, bool is_bool, int to, int address, int more)
{
    if (is_bool)
        vex(out, MAP_0F38, PREFIX_66, BITS_256, WIDEN_U8, to, 0, address);
    else
        vex(out, MAP_0F, NO_PREFIX, BITS_256, LOAD, to, 0, address);
    element(out, to, address, is_bool, more);
    if (!is_bool)
        return;
    shift(out, SHIFT_LEFT, to, 31);
    shift(out, SHIFT_RIGHT, to, 31);
}

/* A mask has -1 where it is true: as eight bytes, of which the absolute values are stored. */
static void store_bools(haul__bytes *out, int from, int address, int more, int free)
{
    three(out, MAP_0F3A, PREFIX_66, BITS_256, UPPER_HALF, from, 0, free);
    PUT(out, 1);
    three(out, MAP_0F, PREFIX_66, BITS_128, PACK_I32, free, from, free);
    three(out, MAP_0F, PREFIX_66, BITS_128, PACK_I16, free, free, free);
    three(out, MAP_0F38, PREFIX_66, BITS_128, ABS_I8, free, 0, free);
    vex(out, MAP_0F, PREFIX_66, BITS_128, STORE_64, free, 0, address);
    element(out, free, address, true, more);
}

void haul__encode_store(haul__bytes *out, bool is_bool, bool past_caches, int from, int address, int more, int free)
{
    if (is_bool) {
        store_bools(out, from, address, more, free);
        return;
    }
    vex(out, MAP_0F, NO_PREFIX, BITS_256, past_caches ? STREAM : STORE, from, 0, address);
    element(out, from, address, false, more);
}

void haul__encode_constant(haul__bytes *out, int to, int at)
{
    vex(out, MAP_0F38, PREFIX_66, BITS_256, BROADCAST, to, 0, HAUL__RSI);
    PUT(out, (unsigned char)(0x80 | (to & 7) << 3 | HAUL__RSI));
    put_32(out, at * 4);
}

void haul__encode_repeated(haul__bytes *out, int to, int at)
{
    haul__encode_address(out, HAUL__RAX, at);
    vex(out, MAP_0F38, PREFIX_66, BITS_256, BROADCAST, to, 0, HAUL__RAX);
    PUT(out, (unsigned char)((to & 7) << 3 | HAUL__RAX));
}

void haul__encode_address(haul__bytes *out, int to, int at)
{
    PUT(out, (unsigned char)(0x48 | (to >> 3) << 2), 0x8b, (unsigned char)(0x80 | (to & 7) << 3 | HAUL__RDI));
    put_32(out, at * 8);
}

void haul__encode_begin(haul__bytes *out)
{
    PUT(out, 0xf3, 0x0f, 0x1e, 0xfa); /* endbr64 */
}

void haul__encode_end(haul__bytes *out, bool past_caches)
{
    if (past_caches)
        PUT(out, 0x0f, 0xae, 0xf8); /* sfence */
    PUT(out, 0xc5, 0xf8, 0x77);     /* vzeroupper */
    PUT(out, 0xc3);                 /* ret */
}

size_t haul__encode_loop(haul__bytes *out, int step)
{
    const size_t loop = out->count;
    PUT(out, 0x48, 0x8d, 0x42, (unsigned char)step); /* lea rax, [rdx + step] */
    PUT(out, 0x48, 0x39, 0xc8);                      /* cmp rax, rcx */
    PUT(out, 0x0f, 0x8f, 0, 0, 0, 0);                /* jg, behind the loop */
    return loop;
}

void haul__encode_loop_end(haul__bytes *out, size_t loop)
{
    PUT(out, 0x48, 0x89, 0xc2); /* mov rdx, rax */
    PUT(out, 0xe9);             /* jmp */
    put_32(out, (int32_t)loop - (int32_t)(out->count + 4));
    if (out->failed)
        return;
    const size_t jump = loop + CHECK_BYTES + JUMP_BYTES;
    HAUL__ASSERT(jump <= out->count);
    const int32_t behind = (int32_t)(out->count - jump);
    memcpy(out->at + jump - sizeof behind, &behind, sizeof behind);
}
