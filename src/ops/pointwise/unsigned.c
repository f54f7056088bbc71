/* The kernels of u16, u32 and u64. Most kernels of integers give bit-identical results for signed and unsigned
 * elements, so these dtypes use the kernels of i16, i32 and i64 (haul__kernel_dtype). The kernels here replace those
 * whose results depend on the sign: order, quotients, right shifts and powers. */
#include "ops/pointwise/unsigned.h"

#include "engine/layout/layout.h"
#include "kernels/kernels.h"

// clang-format off
/* kernel text begins */
#ifdef HAUL_KERNEL
#if defined(HAUL_KERNEL_DTYPE_i16) || defined(HAUL_KERNEL_DTYPE_i32) || defined(HAUL_KERNEL_DTYPE_i64)
#if defined(HAUL_KERNEL_DTYPE_i16)
typedef U16 W;
#elif defined(HAUL_KERNEL_DTYPE_i32)
typedef U32 W;
#else
typedef U64 W;
#endif
FUNC W unsigned_quotient(W a, W b) { return b == 0 ? (W)0 : (W)(a / b); }
FUNC W unsigned_rest(W a, W b) { return b == 0 ? (W)0 : (W)(a % b); }
FUNC W unsigned_right(W a, W b) { return b >= 8 * sizeof(W) ? (W)0 : (W)(a >> b); }
FUNC W unsigned_raised(W a, W b)
{
    U64 y = 1, square = a;
    for (U64 n = b; n > 0; n >>= 1, square *= square) y *= n & 1 ? square : (U64)1;
    return (W)y;
}
FUNC W unsigned_between(W x, W low, W high) { return low > high || x > high ? high : x < low ? low : x; }
FUNC W unsigned_turned(W x) { return (W)(x ^ (W)((W)1 << (8 * sizeof(W) - 1))); }
EXPAND(pointwise2, unsigned_lt, U8, PUT_BOOL, (W)a < (W)b, 1)
EXPAND(pointwise2, unsigned_le, U8, PUT_BOOL, (W)a <= (W)b, 1)
EXPAND(pointwise2, unsigned_gt, U8, PUT_BOOL, (W)a > (W)b, 1)
EXPAND(pointwise2, unsigned_ge, U8, PUT_BOOL, (W)a >= (W)b, 1)
EXPAND(pointwise2, unsigned_max, T, STORE, (W)a > (W)b ? a : b, 1)
EXPAND(pointwise2, unsigned_min, T, STORE, (W)a < (W)b ? a : b, 1)
EXPAND(pointwise2, unsigned_div, T, STORE, unsigned_quotient((W)a, (W)b), 1)
EXPAND(pointwise2, unsigned_rem, T, STORE, unsigned_rest((W)a, (W)b), 1)
EXPAND(pointwise2, unsigned_pow, T, STORE, unsigned_raised((W)a, (W)b), 1)
EXPAND(pointwise2, unsigned_shift, T, STORE, unsigned_right((W)a, (W)b), 1)
EXPAND(pointwise1, unsigned_lt_scalar, U8, PUT_BOOL, T, A, LOAD, a, (W)a < (W)b, NEVER, (W)a < (W)b, 1)
EXPAND(pointwise1, unsigned_le_scalar, U8, PUT_BOOL, T, A, LOAD, a, (W)a <= (W)b, NEVER, (W)a <= (W)b, 1)
EXPAND(pointwise1, unsigned_gt_scalar, U8, PUT_BOOL, T, A, LOAD, a, (W)a > (W)b, NEVER, (W)a > (W)b, 1)
EXPAND(pointwise1, unsigned_ge_scalar, U8, PUT_BOOL, T, A, LOAD, a, (W)a >= (W)b, NEVER, (W)a >= (W)b, 1)
EXPAND(pointwise1, unsigned_max_scalar, T, STORE, T, A, LOAD, a, (W)a > (W)b ? a : b, NEVER, (W)a > (W)b ? a : b, 1)
EXPAND(pointwise1, unsigned_min_scalar, T, STORE, T, A, LOAD, a, (W)a < (W)b ? a : b, NEVER, (W)a < (W)b ? a : b, 1)
EXPAND(pointwise1, unsigned_div_scalar, T, STORE, T, A, LOAD, a, unsigned_quotient((W)a, (W)b), NEVER, unsigned_quotient((W)a, (W)b), 1)
EXPAND(pointwise1, unsigned_rem_scalar, T, STORE, T, A, LOAD, a, unsigned_rest((W)a, (W)b), NEVER, unsigned_rest((W)a, (W)b), 1)
EXPAND(pointwise1, unsigned_pow_scalar, T, STORE, T, A, LOAD, a, unsigned_raised((W)a, (W)b), NEVER, unsigned_raised((W)a, (W)b), 1)
EXPAND(pointwise1, unsigned_shift_scalar, T, STORE, T, A, LOAD, a, unsigned_right((W)a, (W)b), NEVER, unsigned_right((W)a, (W)b), 1)
EXPAND(pointwise1, unsigned_rdiv, T, STORE, T, A, LOAD, x, unsigned_quotient((W)s0, (W)x), NEVER, unsigned_quotient((W)s0, (W)x), 1)
EXPAND(pointwise1, unsigned_rrem, T, STORE, T, A, LOAD, x, unsigned_rest((W)s0, (W)x), NEVER, unsigned_rest((W)s0, (W)x), 1)
EXPAND(pointwise1, unsigned_rpow, T, STORE, T, A, LOAD, x, unsigned_raised((W)s0, (W)x), NEVER, unsigned_raised((W)s0, (W)x), 1)
EXPAND(pointwise1, unsigned_clamp, T, STORE, T, A, LOAD, x, unsigned_between((W)x, (W)s0, (W)s1), NEVER, unsigned_between((W)x, (W)s0, (W)s1), 1)
EXPAND(pointwise1, unsigned_threshold, T, STORE, T, A, LOAD, x, (W)x > (W)s0 ? x : s1, NEVER, (W)x > (W)s0 ? x : s1, 1)
EXPAND(pointwise1, unsigned_sign, T, STORE, T, A, LOAD, x, x != 0, NEVER, x != 0, 1)
EXPAND(pointwise1, unsigned_turn, T, STORE, T, A, LOAD, x, unsigned_turned((W)x), NEVER, unsigned_turned((W)x), 1)

/* Floats as the casts of engine/layout/cast.c: out-of-range values become the nearest value, and NaN 0. */
TEMPLATE(unsigned_float, NAME, S)
FUNC T NAME(S x)
{
    const S high = (S)((U64)1 << (8 * sizeof(W) - 1)) * (S)2;
    return !(x > 0) ? (T)0 : x >= high ? (T)(W)~(W)0 : (T)(W)x;
}
END_TEMPLATE
EXPAND(unsigned_float, unsigned_from_f32, F32)
#if !CHUNKED
EXPAND(pack_type, U16)
EXPAND(pack_type, F32)
#endif
EXPAND(pointwise1, unsigned_of_f16, T, STORE, U16, U16, RAW_LOAD, x, unsigned_from_f32(F16_TO_F32(x)), NEVER, unsigned_from_f32(F16_TO_F32(x)), 1)
EXPAND(pointwise1, unsigned_of_bf16, T, STORE, U16, U16, RAW_LOAD, x, unsigned_from_f32(BF16_TO_F32(x)), NEVER, unsigned_from_f32(BF16_TO_F32(x)), 1)
EXPAND(pointwise1, unsigned_of_f32, T, STORE, F32, F32, RAW_LOAD, x, unsigned_from_f32(x), NEVER, unsigned_from_f32(x), 1)
#ifdef HAS_F64
#if !CHUNKED
EXPAND(pack_type, F64)
#endif
EXPAND(unsigned_float, unsigned_from_f64, F64)
EXPAND(pointwise1, unsigned_of_f64, T, STORE, F64, F64, RAW_LOAD, x, unsigned_from_f64(x), NEVER, unsigned_from_f64(x), 1)
#endif
#endif
#endif
/* kernel text ends */
// clang-format on

int haul__unsigned_kernel(int id)
{
    switch (id) {
    case HAUL__K_lt: return HAUL__K_unsigned_lt;
    case HAUL__K_le: return HAUL__K_unsigned_le;
    case HAUL__K_gt: return HAUL__K_unsigned_gt;
    case HAUL__K_ge: return HAUL__K_unsigned_ge;
    case HAUL__K_maximum: return HAUL__K_unsigned_max;
    case HAUL__K_minimum: return HAUL__K_unsigned_min;
    case HAUL__K_floor_div:
    case HAUL__K_trunc_div: return HAUL__K_unsigned_div;
    case HAUL__K_remainder:
    case HAUL__K_fmod: return HAUL__K_unsigned_rem;
    case HAUL__K_pow: return HAUL__K_unsigned_pow;
    case HAUL__K_right_shift: return HAUL__K_unsigned_shift;
    case HAUL__K_lt_scalar: return HAUL__K_unsigned_lt_scalar;
    case HAUL__K_le_scalar: return HAUL__K_unsigned_le_scalar;
    case HAUL__K_gt_scalar: return HAUL__K_unsigned_gt_scalar;
    case HAUL__K_ge_scalar: return HAUL__K_unsigned_ge_scalar;
    case HAUL__K_maximum_scalar: return HAUL__K_unsigned_max_scalar;
    case HAUL__K_minimum_scalar: return HAUL__K_unsigned_min_scalar;
    case HAUL__K_floor_div_scalar:
    case HAUL__K_trunc_div_scalar: return HAUL__K_unsigned_div_scalar;
    case HAUL__K_remainder_scalar:
    case HAUL__K_fmod_scalar: return HAUL__K_unsigned_rem_scalar;
    case HAUL__K_pow_scalar: return HAUL__K_unsigned_pow_scalar;
    case HAUL__K_right_shift_scalar: return HAUL__K_unsigned_shift_scalar;
    case HAUL__K_rfloor_div: return HAUL__K_unsigned_rdiv;
    case HAUL__K_rremainder: return HAUL__K_unsigned_rrem;
    case HAUL__K_rpow: return HAUL__K_unsigned_rpow;
    case HAUL__K_clamp: return HAUL__K_unsigned_clamp;
    case HAUL__K_threshold: return HAUL__K_unsigned_threshold;
    case HAUL__K_sign: return HAUL__K_unsigned_sign;
    case HAUL__K_abs:
    case HAUL__K_relu: return HAUL__K_floor; /* integers as they are */
    default: return id;
    }
}

static haul_status turn(const haul__call *c, haul_tensor *to, haul_tensor *from)
{
    pointwise_params p;
    haul__layout(&p, &to->shape, (haul_tensor *[]){to, from}, 2);
    p.scalars[0] = p.scalars[1] = 0;
    haul__layout_packs(&p, c->device, to->dtype, 2);
    return haul__launch_kernel(c, HAUL__K_unsigned_turn, to->dtype, HAUL__OUT(to), HAUL__IN(from), HAUL__PARAMS(p),
                               .grain = HAUL__POINTWISE_GRAIN);
}

static haul_dtype signed_of(haul_dtype dtype)
{
    return dtype == HAUL_U16 ? HAUL_I16 : dtype == HAUL_U32 ? HAUL_I32 : HAUL_I64;
}

haul_tensor *haul__in_signed_order(const haul__call *c, haul_tensor *x)
{
    if (!haul__is_unsigned(x->dtype))
        return x;
    haul_tensor *y = haul__temporary(c, signed_of(x->dtype), &x->shape);
    return !y || turn(c, y, x) ? NULL : y;
}

haul_tensor *haul__signed_for(const haul__call *c, haul_tensor *y)
{
    return y && haul__is_unsigned(y->dtype) ? haul__temporary(c, signed_of(y->dtype), &y->shape) : y;
}

haul_status haul__from_signed_order(const haul__call *c, haul_tensor *y, haul_tensor *from)
{
    return y == from ? HAUL_OK : turn(c, y, from);
}
