/* Whole numbers and bits. */
#include "lanes.h"

/* Types of twice the size. */
typedef u32                             wide_u16;
typedef s32                             wide_s16;
typedef u64                             wide_u32;
typedef s64                             wide_s32;
__extension__ typedef unsigned __int128 wide_u64;
__extension__ typedef __int128          wide_s64;

static u32 permuted(u32 x, u32 y, u32 selection)
{
    const u64 bytes = (u64)y << 32 | x;
    u32       result = 0;
    for (int i = 0; i < 4; i++) {
        const u32 s = selection >> 4 * i & 15, byte = (u32)(bytes >> 8 * (s & 7)) & 255;
        result |= (s & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return result;
}

static u64 inserted(u64 field, u64 into, u32 at, u32 length, u32 bits)
{
    for (u32 i = 0; i < (length & 255) && (at & 255) + i < bits; i++) {
        const u32 to = (at & 255) + i;
        into = (into & ~((u64)1 << to)) | (field >> i & 1) << to;
    }
    return into;
}

static u32 dot4(u32 x, u32 y, u32 sum, bool is_signed)
{
    for (int i = 0; i < 32; i += 8)
        sum += is_signed ? (u32)((s32)(s8)(x >> i) * (s32)(s8)(y >> i)) : (x >> i & 255) * (y >> i & 255);
    return sum;
}

/* ---- arithmetic ---- */

#define SIGNLESS(bits)                                                                                                 \
    BINARY(add_##bits, u##bits, u##bits, u##bits, x + y)                                                               \
    BINARY(sub_##bits, u##bits, u##bits, u##bits, x - y)                                                               \
    BINARY(mul_lo_##bits, u##bits, u64, u64, x *y)                                                                     \
    TERNARY(mad_lo_##bits, u##bits, u64, u64, u64, x *y + z)                                                           \
    UNARY(neg_##bits, u##bits, u##bits, 0 - x)                                                                         \
    BINARY(and_##bits, u##bits, u##bits, u##bits, x &y)                                                                \
    BINARY(or_##bits, u##bits, u##bits, u##bits, x | y)                                                                \
    BINARY(xor_##bits, u##bits, u##bits, u##bits, x ^ y)                                                               \
    UNARY(not_##bits, u##bits, u##bits, ~x)                                                                            \
    BINARY(shl_##bits, u##bits, u##bits, u32, y < (bits) ? (u64)x << y : 0)                                            \
    BINARY(shr_u##bits, u##bits, u##bits, u32, y < (bits) ? x >> y : 0)                                                \
    BINARY(shr_s##bits, s##bits, s##bits, u32, x >> (y < (bits) ? y : (bits)-1))                                       \
    TERNARY(selp_##bits, u##bits, u##bits, u##bits, pred, z ? x : y)                                                   \
    UNARY(abs_s##bits, u##bits, s##bits, x < 0 ? 0 - (u##bits)x : (u##bits)x)
SIGNLESS(16)
SIGNLESS(32)
SIGNLESS(64)

/* What a division by zero gives is not defined: it is a fault. The least number by -1 gives itself. */
#define DIVISION(id, T, e)                                                                                             \
    PTX_FUNCTION(id)                                                                                                   \
    {                                                                                                                  \
        const u64 *a = w->slot[op->in[0]], *b = w->slot[op->in[1]];                                                    \
        u64       *d = w->slot[op->out[0]];                                                                            \
        LANES(                                                                                                         \
            mask, const T x = get_##T(a[lane]); const T y = get_##T(b[lane]); if (!y) {                                \
                ptx_fault(w, op, lane, CUDA_ERROR_LAUNCH_FAILED, "divides by zero");                                   \
                return;                                                                                                \
            } d[lane] = put_##T((T)(e)));                                                                              \
    }
#define SIGNED(bits)                                                                                                   \
    DIVISION(div_s##bits, s##bits, y == -1 ? (s##bits)(0 - (u##bits)x) : x / y)                                        \
    DIVISION(rem_s##bits, s##bits, y == -1 ? 0 : x % y)                                                                \
    DIVISION(div_u##bits, u##bits, x / y)                                                                              \
    DIVISION(rem_u##bits, u##bits, x % y)
SIGNED(16)
SIGNED(32)
SIGNED(64)

#define EITHER(T, bits)                                                                                                \
    BINARY(min_##T, T, T, T, x < y ? x : y)                                                                            \
    BINARY(max_##T, T, T, T, x > y ? x : y)                                                                            \
    BINARY(mul_hi_##T, T, T, T, ((wide_##T)x * y) >> (bits))
EITHER(u16, 16)
EITHER(s16, 16)
EITHER(u32, 32)
EITHER(s32, 32)
EITHER(u64, 64)
EITHER(s64, 64)

BINARY(mul_wide_u16, u32, u16, u16, (u32)x *y)
BINARY(mul_wide_s16, s32, s16, s16, (s32)x *y)
BINARY(mul_wide_u32, u64, u32, u32, (u64)x *y)
BINARY(mul_wide_s32, s64, s32, s32, (s64)x *y)
TERNARY(mad_wide_u32, u64, u32, u32, u64, (u64)x *y + z)
TERNARY(mad_wide_s32, u64, s32, s32, u64, (u64)((s64)x *y) + z)
TERNARY(mad_hi_u32, u32, u32, u32, u32, (((u64)x * y) >> 32) + z)

/* With carries: the carry is kept for the next instruction of the lane. */
#define CARRIED(id, first, second, sign, with, keeps)                                                                  \
    PTX_FUNCTION(id)                                                                                                   \
    {                                                                                                                  \
        const u64 *a = w->slot[op->in[0]], *b = w->slot[op->in[1]], *c = w->slot[op->in[2]];                           \
        u64       *d = w->slot[op->out[0]];                                                                            \
        (void)c;                                                                                                       \
        LANES(mask, const u64 x = get_u32(a[lane]); const u64 y = get_u32(b[lane]); const u64 z = get_u32(c[lane]);    \
              const u64 sum = (first)sign(second) sign(u64)((with) ? w->carry[lane] : 0); (void)x, (void)y, (void)z;   \
              if (keeps) w->carry[lane] = sum >> 32 & 1; d[lane] = (u32)sum);                                          \
    }
CARRIED(add_cc, x, y, +, false, true)
CARRIED(addc_cc, x, y, +, true, true)
CARRIED(addc, x, y, +, true, false)
CARRIED(sub_cc, x, y, -, false, true)
CARRIED(subc_cc, x, y, -, true, true)
CARRIED(subc, x, y, -, true, false)
CARRIED(mad_lo_cc, (u64)(u32)(x *y), z, +, false, true)
CARRIED(madc_lo_cc, (u64)(u32)(x *y), z, +, true, true)
CARRIED(madc_lo, (u64)(u32)(x *y), z, +, true, false)
CARRIED(mad_hi_cc, x *y >> 32, z, +, false, true)
CARRIED(madc_hi_cc, x *y >> 32, z, +, true, true)
CARRIED(madc_hi, x *y >> 32, z, +, true, false)

/* ---- bits ---- */

BINARY(and_pred, pred, pred, pred, x &&y)
BINARY(or_pred, pred, pred, pred, x || y)
BINARY(xor_pred, pred, pred, pred, x != y)
UNARY(not_pred, pred, pred, !x)
UNARY(clz_32, u32, u32, x ? __builtin_clz(x) : 32)
UNARY(clz_64, u32, u64, x ? __builtin_clzll(x) : 64)
UNARY(popc_32, u32, u32, __builtin_popcount(x))
UNARY(popc_64, u32, u64, __builtin_popcountll(x))
TERNARY(prmt, u32, u32, u32, u32, permuted(x, y, z))
TERNARY(dp4a_s, u32, u32, u32, u32, dot4(x, y, z, true))
TERNARY(dp4a_u, u32, u32, u32, u32, dot4(x, y, z, false))
TERNARY(shf_l, u32, u32, u32, u32, (((u64)y << 32 | x) << (z & 31)) >> 32)
TERNARY(shf_r, u32, u32, u32, u32, ((u64)y << 32 | x) >> (z & 31))

#define INSERTION(bits)                                                                                                \
    PTX_FUNCTION(bfi_##bits)                                                                                           \
    {                                                                                                                  \
        const u64 *a = w->slot[op->in[0]], *b = w->slot[op->in[1]];                                                    \
        const u64 *at = w->slot[op->in[2]], *length = w->slot[op->in[3]];                                              \
        u64       *d = w->slot[op->out[0]];                                                                            \
        LANES(mask, d[lane] = (u##bits)inserted(a[lane], b[lane], (u32)at[lane], (u32)length[lane], bits));            \
    }
INSERTION(32)
INSERTION(64)

/* The fourth input is the table: a bit for each of the eight cases. */
PTX_FUNCTION(lop3)
{
    const u64 *a = w->slot[op->in[0]], *b = w->slot[op->in[1]], *c = w->slot[op->in[2]], *t = w->slot[op->in[3]];
    u64       *d = w->slot[op->out[0]];
    LANES(mask, u32 result = 0;
          for (unsigned k = 0; k < 8; k++) if (t[lane] >> k & 1) result |=
          (u32)((k & 4 ? a[lane] : ~a[lane]) & (k & 2 ? b[lane] : ~b[lane]) & (k & 1 ? c[lane] : ~c[lane]));
          d[lane] = result);
}

/* ---- comparisons ---- */

#define ORDERED(T)                                                                                                     \
    COMPARISON(eq_##T, T, x == y)                                                                                      \
    COMPARISON(ne_##T, T, x != y)                                                                                      \
    COMPARISON(lt_##T, T, x < y)                                                                                       \
    COMPARISON(le_##T, T, x <= y)                                                                                      \
    COMPARISON(gt_##T, T, x > y)                                                                                       \
    COMPARISON(ge_##T, T, x >= y)
ORDERED(u16)
ORDERED(s16)
ORDERED(u32)
ORDERED(s32)
ORDERED(u64)
ORDERED(s64)

/* ---- names ---- */

#define SIGNLESS_ROWS(bits)                                                                                            \
    {"add.b" #bits, add_##bits}, {"sub.b" #bits, sub_##bits}, {"mul.lo.b" #bits, mul_lo_##bits},                       \
        {"mad.lo.b" #bits, mad_lo_##bits}, {"neg.b" #bits, neg_##bits}, {"and.b" #bits, and_##bits},                   \
        {"or.b" #bits, or_##bits}, {"xor.b" #bits, xor_##bits}, {"not.b" #bits, not_##bits},                           \
        {"shl.b" #bits, shl_##bits}, {"shr.b" #bits, shr_u##bits}, {"shr.u" #bits, shr_u##bits},                       \
        {"shr.s" #bits, shr_s##bits}, {"selp.b" #bits, selp_##bits}, {"abs.s" #bits, abs_s##bits},                     \
        {"setp.eq.b" #bits, eq_u##bits},                                                                               \
    {                                                                                                                  \
        "setp.ne.b" #bits, ne_u##bits                                                                                  \
    }
#define TYPE_ROWS(T)                                                                                                   \
    {"div." #T, div_##T}, {"rem." #T, rem_##T}, {"min." #T, min_##T}, {"max." #T, max_##T},                            \
        {"mul.hi." #T, mul_hi_##T}, {"setp.eq." #T, eq_##T}, {"setp.ne." #T, ne_##T}, {"setp.lt." #T, lt_##T},         \
        {"setp.le." #T, le_##T}, {"setp.gt." #T, gt_##T},                                                              \
    {                                                                                                                  \
        "setp.ge." #T, ge_##T                                                                                          \
    }
#define UNSIGNED_ROWS(T)                                                                                               \
    {"setp.lo." #T, lt_##T}, {"setp.ls." #T, le_##T}, {"setp.hi." #T, gt_##T},                                         \
    {                                                                                                                  \
        "setp.hs." #T, ge_##T                                                                                          \
    }

const ptx_row ptx_integer_rows[] = {
    SIGNLESS_ROWS(16),
    SIGNLESS_ROWS(32),
    SIGNLESS_ROWS(64),
    TYPE_ROWS(u16),
    TYPE_ROWS(s16),
    TYPE_ROWS(u32),
    TYPE_ROWS(s32),
    TYPE_ROWS(u64),
    TYPE_ROWS(s64),
    UNSIGNED_ROWS(u16),
    UNSIGNED_ROWS(u32),
    UNSIGNED_ROWS(u64),
    {"mul.wide.u16", mul_wide_u16},
    {"mul.wide.s16", mul_wide_s16},
    {"mul.wide.u32", mul_wide_u32},
    {"mul.wide.s32", mul_wide_s32},
    {"mad.wide.u32", mad_wide_u32},
    {"mad.wide.s32", mad_wide_s32},
    {"mad.hi.u32", mad_hi_u32},
    {"add.cc.b32", add_cc},
    {"addc.cc.b32", addc_cc},
    {"addc.b32", addc},
    {"sub.cc.b32", sub_cc},
    {"subc.cc.b32", subc_cc},
    {"subc.b32", subc},
    {"mad.lo.cc.b32", mad_lo_cc},
    {"madc.lo.cc.b32", madc_lo_cc},
    {"madc.lo.b32", madc_lo},
    {"mad.hi.cc.u32", mad_hi_cc},
    {"madc.hi.cc.u32", madc_hi_cc},
    {"madc.hi.u32", madc_hi},
    {"and.pred", and_pred},
    {"or.pred", or_pred},
    {"xor.pred", xor_pred},
    {"not.pred", not_pred},
    {"clz.b32", clz_32},
    {"clz.b64", clz_64},
    {"popc.b32", popc_32},
    {"popc.b64", popc_64},
    {"prmt.b32", prmt},
    {"dp4a.s32.s32", dp4a_s},
    {"dp4a.u32.u32", dp4a_u},
    {"shf.l.wrap.b32", shf_l},
    {"shf.r.wrap.b32", shf_r},
    {"bfi.b32", bfi_32},
    {"bfi.b64", bfi_64},
    {"lop3.b32", lop3},
    {0},
};
