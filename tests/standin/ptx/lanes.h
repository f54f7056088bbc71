/* Values of registers, and instructions as expressions over them. */
#ifndef HAUL_TESTS_STANDIN_PTX_LANES_H
#define HAUL_TESTS_STANDIN_PTX_LANES_H

#include <string.h>

#include "ptx.h"

typedef uint8_t  u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t   s8;
typedef int16_t  s16;
typedef int32_t  s32;
typedef int64_t  s64;
typedef float    f32;
typedef double   f64;
typedef bool     pred;

/* The bits in a register that a type reads, and those that it leaves there: signed numbers are extended. */
#define PTX_WHOLE(type)                                                                                                \
    static inline type get_##type(u64 bits)                                                                            \
    {                                                                                                                  \
        return (type)bits;                                                                                             \
    }                                                                                                                  \
    static inline u64 put_##type(type value)                                                                           \
    {                                                                                                                  \
        return (u64)value;                                                                                             \
    }
PTX_WHOLE(u8)
PTX_WHOLE(u16)
PTX_WHOLE(u32)
PTX_WHOLE(u64)
PTX_WHOLE(s8)
PTX_WHOLE(s16)
PTX_WHOLE(s32)
PTX_WHOLE(s64)

static inline pred get_pred(u64 bits)
{
    return bits & 1;
}

static inline u64 put_pred(pred value)
{
    return value;
}

static inline f32 get_f32(u64 bits)
{
    u32 word = (u32)bits;
    f32 value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static inline f64 get_f64(u64 bits)
{
    f64 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A result that is not a number is always the same one. */
static inline u64 put_f32(f32 value)
{
    u32 word;
    memcpy(&word, &value, sizeof word);
    return value != value ? 0x7FFFFFFF : word;
}

static inline u64 put_f64(f64 value)
{
    u64 word;
    memcpy(&word, &value, sizeof word);
    return value != value ? 0xFFF8000000000000 : word;
}

/* The statement for each lane of the mask. */
#define LANES(mask, ...)                                                                                               \
    do {                                                                                                               \
        if ((mask) == 0xFFFFFFFFu) {                                                                                   \
            for (unsigned lane = 0; lane < PTX_LANES; lane++) {                                                        \
                __VA_ARGS__;                                                                                           \
            }                                                                                                          \
        } else {                                                                                                       \
            for (uint32_t left_ = (mask); left_; left_ &= left_ - 1) {                                                 \
                const unsigned lane = (unsigned)__builtin_ctz(left_);                                                  \
                __VA_ARGS__;                                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* Instructions of one to three inputs x, y, z of types X, Y, Z, whose result of type D is the expression. */
#define PTX_FUNCTION(id) static void id(ptx_warp *w, const ptx_op *op, uint32_t mask)
#define UNARY(id, D, X, e)                                                                                             \
    PTX_FUNCTION(id)                                                                                                   \
    {                                                                                                                  \
        const u64 *a = w->slot[op->in[0]];                                                                             \
        u64       *d = w->slot[op->out[0]];                                                                            \
        LANES(mask, const X x = get_##X(a[lane]); d[lane] = put_##D((D)(e)));                                          \
    }
#define BINARY(id, D, X, Y, e)                                                                                         \
    PTX_FUNCTION(id)                                                                                                   \
    {                                                                                                                  \
        const u64 *a = w->slot[op->in[0]], *b = w->slot[op->in[1]];                                                    \
        u64       *d = w->slot[op->out[0]];                                                                            \
        LANES(mask, const X x = get_##X(a[lane]); const Y y = get_##Y(b[lane]); d[lane] = put_##D((D)(e)));            \
    }
#define TERNARY(id, D, X, Y, Z, e)                                                                                     \
    PTX_FUNCTION(id)                                                                                                   \
    {                                                                                                                  \
        const u64 *a = w->slot[op->in[0]], *b = w->slot[op->in[1]], *c = w->slot[op->in[2]];                           \
        u64       *d = w->slot[op->out[0]];                                                                            \
        LANES(mask, const X x = get_##X(a[lane]); const Y y = get_##Y(b[lane]); const Z z = get_##Z(c[lane]);          \
              d[lane] = put_##D((D)(e)));                                                                              \
    }

/* A comparison, which may be combined with a third input, and whose opposite is a second result. */
static inline bool ptx_combined(const ptx_op *op, bool value, u64 third)
{
    const bool other = (third & 1) != op->negated;
    switch (op->combine) {
    case 1: return value && other;
    case 2: return value || other;
    case 3: return value != other;
    default: return value;
    }
}

#define COMPARISON(id, X, e)                                                                                           \
    PTX_FUNCTION(id)                                                                                                   \
    {                                                                                                                  \
        const u64 *a = w->slot[op->in[0]], *b = w->slot[op->in[1]], *c = w->slot[op->in[2]];                           \
        u64       *d = w->slot[op->out[0]], *f = w->slot[op->out[1]];                                                  \
        LANES(mask, const X x = get_##X(a[lane]); const X y = get_##X(b[lane]); const bool is = (e);                   \
              const u64 third = c[lane]; d[lane] = ptx_combined(op, is, third);                                        \
              if (op->out[1] != PTX_UNUSED) f[lane] = ptx_combined(op, !is, third));                                   \
    }

#endif
