/* Conversion between dtypes, and copies between layouts: one kernel for each source dtype, compiled for each result
 * dtype. */
#include "base/assert.h"
#include "engine/collect.h"
#include "engine/copy.h"
#include "engine/driver.h"
#include "engine/dry_call.h"
#include "engine/layout/layout.h"
#include "engine/layout/transpose.h"
#include "kernels/kernels.h"
#include "transfer/copy.h"

// clang-format off
/* kernel text begins */
#ifdef HAUL_KERNEL
#if IS_HALF
/* Rounding to f32 first must not decide the second rounding: if digits were lost, the last bit of the f32 is set. */
FUNC F32 cast_odd_integer(I64 v)
{
    const U64 u = v < 0 ? 0 - (U64)v : (U64)v;
    const F32 small = (F32)(I32)(u & 0xffffff), middle = (F32)(I32)((u >> 14 & 0xffffff) | ((u & 0x3fff) != 0));
    const F32 large = (F32)(I32)((u >> 28 & 0xffffff) | ((u & 0xfffffff) != 0));
    const F32 huge = (F32)(I32)((u >> 40) | ((u & 0xffffffffff) != 0));
    const F32 x = u < 1ull << 24   ? small
                  : u < 1ull << 38 ? middle * 16384.0f
                  : u < 1ull << 52 ? large * 268435456.0f
                                   : huge * 1099511627776.0f;
    return v < 0 ? -x : x;
}
#ifdef HAS_F64
FUNC F32 cast_odd_f64(F64 v)
{
    const F32 near = (F32)v;
    const F64 back = (F64)near;
    const U32 bits = F32_BITS(near), down = (back < 0 ? -back : back) > (v < 0 ? -v : v) ? bits - 1 : bits;
    return BITS_F32(back != v && v == v ? down | 1 : bits);
}
#endif
FUNC F32 cast_odd_unsigned(U64 v) /* the last bit stays odd */
{
    return v >> 63 ? 2.0f * cast_odd_integer((I64)(v >> 1 | (v & 1))) : cast_odd_integer((I64)v);
}
#elif !IS_FLOAT && !defined(HAUL_KERNEL_DTYPE_bool)
/* Values from 2^CAST_BITS on do not fit, nor do those below -2^CAST_BITS, or 0. */
#if defined(HAUL_KERNEL_DTYPE_u8)
enum { CAST_BITS = 8, CAST_HAS_SIGN = 0 };
#else
enum { CAST_BITS = 8 * (int)sizeof(T) - 1, CAST_HAS_SIGN = 1 };
#endif
#endif

/* An integer of type S as an element of T; halves are f32 until they are stored. Integers wrap around. */
TEMPLATE(cast_integer, NAME, S, ODD)
#if defined(HAUL_KERNEL_DTYPE_bool)
FUNC T NAME##_of(S x) { return x != 0; }
#elif IS_HALF
FUNC F32 NAME##_of(S x) { return ODD(x); }
#else
FUNC T NAME##_of(S x) { return (T)x; }
#endif
END_TEMPLATE
EXPAND(cast_integer, cast_bool, I32, cast_odd_integer)
EXPAND(cast_integer, cast_u8, U8, cast_odd_integer)
EXPAND(cast_integer, cast_i8, I8, cast_odd_integer)
EXPAND(cast_integer, cast_i16, I16, cast_odd_integer)
EXPAND(cast_integer, cast_i32, I32, cast_odd_integer)
EXPAND(cast_integer, cast_i64, I64, cast_odd_integer)
EXPAND(cast_integer, cast_u16, U16, cast_odd_integer)
EXPAND(cast_integer, cast_u32, U32, cast_odd_integer)
EXPAND(cast_integer, cast_u64, U64, cast_odd_unsigned)

/* The same for a float. Floats truncate towards zero. Out-of-range values become the nearest value and NaN becomes 0,
 * because C leaves both undefined. The bounds are exact in every float type. */
TEMPLATE(cast_float, NAME, S)
#if defined(HAUL_KERNEL_DTYPE_bool)
FUNC T NAME##_of(S x) { return x != 0; }
#elif IS_FLOAT
FUNC A NAME##_of(S x) { return (A)x; }
#else
FUNC T NAME##_of(S x)
{
    const S high = (S)((U64)1 << CAST_BITS), low = CAST_HAS_SIGN ? -high : (S)0;
    return x != x ? (T)0 : x >= high ? (T)(((U64)1 << CAST_BITS) - 1) : x <= low ? (T)(I64)low : (T)x;
}
#endif
END_TEMPLATE
EXPAND(cast_float, cast_f32, F32)
#if IS_HALF && defined(HAS_F64)
FUNC F32 cast_f64_of(F64 x) { return cast_odd_f64(x); }
#elif defined(HAS_F64)
EXPAND(cast_float, cast_f64, F64)
#endif

#if !CHUNKED
EXPAND(pack_type, I8)
EXPAND(pack_type, I16)
EXPAND(pack_type, I32)
EXPAND(pack_type, I64)
EXPAND(pack_type, U16)
EXPAND(pack_type, U32)
EXPAND(pack_type, U64)
EXPAND(pack_type, F32)
#ifdef HAS_F64
EXPAND(pack_type, F64)
#endif
#endif
#if IS_BITS
#if CHUNKED
/* `row` elements of v, `step` apart. A small step that the compiler knows vectorises; others had better not, as vectors
 * put together from single elements take longer than the elements. */
INLINE void copy_row(GLOBAL T *o, GLOBAL const T *v, I64 step, I64 row)
{
    VECTOR_LOOP for (I64 j = 0; j < row; j++) o[j] = v[j * step];
}
FUNC void copy_apart(GLOBAL T *o, GLOBAL const T *v, I64 to_step, I64 step, I64 row)
{
    for (I64 j = 0; j < row; j++) {
        o[j * to_step] = v[j * step];
        LOADS_IN_ORDER();
    }
}
/* Every second element, in whole lines past the caches. */
enum { COPY_LINE = 64 / (int)sizeof(T) };
FUNC void copy_every_second(GLOBAL T *o, GLOBAL const T *v, I64 row)
{
    I64 j = least(row, (I64)(BYTES_TO_LINE(o) / sizeof(T)));
    copy_row(o, v, 2, j);
    for (; j + COPY_LINE < row; j += COPY_LINE) {
        T               even[COPY_LINE], odd[COPY_LINE];
        GLOBAL const T *w = v + 2 * j;
        BLOCK_LOOP for (int l = 0; l < COPY_LINE; l++)
        {
            even[l] = w[2 * l];
            odd[l] = w[2 * l + 1];
        }
        COUNTS_AS_READ(odd);
        PUT_LINE(o + j, even);
    }
    copy_row(o + j, v + 2 * j, 2, row - j);
}
/* Copies between layouts, without conversion, on processors. */
KERNEL2(copy_rows, pointwise_params, T, out, const T, x)
{
    const I64 to_step = p.strides[0].of[p.ndim - 1], step = p.strides[1].of[p.ndim - 1];
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        I64             at[2], row = pointwise_row(&p, i, ITEMS_END - i, 2, at);
        GLOBAL T       *o = out + at[0];
        GLOBAL const T *v = x + at[1];
        if (HAS_LINES && p.nontemporal && step == 1) {
            PUT_LINES(o, v, (U64)row * sizeof(T));
        } else if (HAS_VECTORS && HAS_LINES && p.nontemporal && step == 2) {
            copy_every_second(o, v, row);
        } else if (HAS_LINES && p.nontemporal) {
            T lines[LINES_RUN];
            GLOBAL T *q = (GLOBAL T *)LINES_IN(lines);
            row = least(row, LINES_RUN);
            copy_apart(q, v, 1, step, row);
            PUT_LINES(o, q, (U64)row * sizeof(T));
        } else if (to_step == 1 && step == 1) {
            copy_row(o, v, 1, row);
        } else if (HAS_VECTORS && to_step == 1 && step == 2) {
            copy_row(o, v, 2, row);
        } else if (HAS_VECTORS && to_step == 1 && step == 0) {
            copy_row(o, v, 0, row);
        } else {
            copy_apart(o, v, to_step, step, row);
        }
        i += ITEMS_STEP(row);
    }
    PUT_LINES_END(HAS_LINES && p.nontemporal);
}
#else
KERNEL2(copy_rows, pointwise_params, T, out, const T, x)
{
    FOR_ITEMS(i)
    {
        I64 rest = i, to = p.offsets[0], from = p.offsets[1];
        for (int d = p.ndim - 1; d >= 0; d--) {
            const I64 next = QUOTIENT(rest, p.dims[d]), c = rest - next * p.dims[d];
            to += c * p.strides[0].of[d];
            from += c * p.strides[1].of[d];
            rest = next;
        }
        out[to] = x[from];
    }
}
#endif
#endif

/* RAW_LOAD, as LOAD would convert. Copies of halves preserve every bit. */
EXPAND(pointwise1, cast_bool, T, STORE, U8, U8, RAW_LOAD, x, cast_bool_of(x != 0), NEVER, cast_bool_of(x != 0), 1)
EXPAND(pointwise1, cast_u8, T, STORE, U8, U8, RAW_LOAD, x, cast_u8_of(x), NEVER, cast_u8_of(x), 1)
EXPAND(pointwise1, cast_i8, T, STORE, I8, I8, RAW_LOAD, x, cast_i8_of(x), NEVER, cast_i8_of(x), 1)
EXPAND(pointwise1, cast_i16, T, STORE, I16, I16, RAW_LOAD, x, cast_i16_of(x), NEVER, cast_i16_of(x), 1)
EXPAND(pointwise1, cast_i32, T, STORE, I32, I32, RAW_LOAD, x, cast_i32_of(x), NEVER, cast_i32_of(x), 1)
EXPAND(pointwise1, cast_i64, T, STORE, I64, I64, RAW_LOAD, x, cast_i64_of(x), NEVER, cast_i64_of(x), 1)
EXPAND(pointwise1, cast_u16, T, STORE, U16, U16, RAW_LOAD, x, cast_u16_of(x), NEVER, cast_u16_of(x), 1)
EXPAND(pointwise1, cast_u32, T, STORE, U32, U32, RAW_LOAD, x, cast_u32_of(x), NEVER, cast_u32_of(x), 1)
EXPAND(pointwise1, cast_u64, T, STORE, U64, U64, RAW_LOAD, x, cast_u64_of(x), NEVER, cast_u64_of(x), 1)
#if defined(HAUL_KERNEL_DTYPE_f16)
EXPAND(pointwise1, cast_f16, T, RAW_STORE, U16, U16, RAW_LOAD, x, x, NEVER, x, 1)
#else
EXPAND(pointwise1, cast_f16, T, STORE, U16, U16, RAW_LOAD, x, cast_f32_of(F16_TO_F32(x)), NEVER, cast_f32_of(F16_TO_F32(x)), 1)
#endif
#if defined(HAUL_KERNEL_DTYPE_bf16)
EXPAND(pointwise1, cast_bf16, T, RAW_STORE, U16, U16, RAW_LOAD, x, x, NEVER, x, 1)
#else
EXPAND(pointwise1, cast_bf16, T, STORE, U16, U16, RAW_LOAD, x, cast_f32_of(BF16_TO_F32(x)), NEVER, cast_f32_of(BF16_TO_F32(x)), 1)
#endif
EXPAND(pointwise1, cast_f32, T, STORE, F32, F32, RAW_LOAD, x, cast_f32_of(x), NEVER, cast_f32_of(x), 1)
#ifdef HAS_F64
EXPAND(pointwise1, cast_f64, T, STORE, F64, F64, RAW_LOAD, x, cast_f64_of(x), NEVER, cast_f64_of(x), 1)
#endif
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 32768 };

static const int kernels[HAUL_DTYPE_END] = {
    [HAUL_BOOL] = HAUL__K_cast_bool, [HAUL_U8] = HAUL__K_cast_u8,     [HAUL_I8] = HAUL__K_cast_i8,
    [HAUL_I16] = HAUL__K_cast_i16,   [HAUL_I32] = HAUL__K_cast_i32,   [HAUL_I64] = HAUL__K_cast_i64,
    [HAUL_F16] = HAUL__K_cast_f16,   [HAUL_BF16] = HAUL__K_cast_bf16, [HAUL_F32] = HAUL__K_cast_f32,
    [HAUL_F64] = HAUL__K_cast_f64,   [HAUL_U16] = HAUL__K_cast_u16,   [HAUL_U32] = HAUL__K_cast_u32,
    [HAUL_U64] = HAUL__K_cast_u64,
};

/* From floats to u16, u32 and u64. Integers wrap around, so for those it is the same as to signed integers. */
static int kernel_of(haul_dtype to, haul_dtype from)
{
    static const int to_unsigned[HAUL_DTYPE_END] = {
        [HAUL_F16] = HAUL__K_unsigned_of_f16,
        [HAUL_BF16] = HAUL__K_unsigned_of_bf16,
        [HAUL_F32] = HAUL__K_unsigned_of_f32,
        [HAUL_F64] = HAUL__K_unsigned_of_f64,
    };
    return haul__is_unsigned(to) && haul_dtype_is_float(from) ? to_unsigned[from] : kernels[from];
}

/* One command: the elements of both are in the same order, without gaps. */
static haul_status copy_bytes(haul_tensor *to, haul_tensor *from, const char *origin)
{
    size_t size = haul__dtype_size(to->dtype);
    HAUL__ASSERT(to->count == from->count && to->dtype == from->dtype && haul__tensor_is_gap_free(from));
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_COPY,
                                         .operation = origin,
                                         .device = to->storage->device,
                                         .buffers = (haul__region[]){{to->storage, (size_t)to->offset * size},
                                                                     {from->storage, (size_t)from->offset * size}},
                                         .write_count = 1,
                                         .buffer_count = 2,
                                         .bytes = (size_t)to->count * size});
}

/* The kernel of a device that reaches host memory copies between the two. */
static haul_status cross(const haul__command *by, haul_tensor *to, haul_tensor *from, const haul__copy_note *note,
                         const char *origin)
{
    const size_t to_size = haul__dtype_size(to->dtype), from_size = haul__dtype_size(from->dtype);
    return haul__transfer(&(haul__copy){.operation = origin,
                                        .note = note ? *note : (haul__copy_note){.tensor = NULL},
                                        .to = {to->storage, (size_t)to->offset * to_size},
                                        .from = {from->storage, (size_t)from->offset * from_size},
                                        .bytes = (size_t)from->count * (to_size < from_size ? to_size : from_size),
                                        .conversion = {from->dtype, to->dtype},
                                        .by = by});
}

haul_status haul__launch_copy(haul__command *command, int id, haul_tensor *to, haul_tensor *from,
                              const haul__copy_note *note, const char *origin)
{
    if (to->storage->device != from->storage->device)
        return cross(command, to, from, note, origin);
    command->operation = origin;
    command->device = to->storage->device;
    command->write_count = 1;
    command->buffer_count = 2;
    return haul__launch_command(command, id, (haul__storage *[]){to->storage, from->storage});
}

/* True if both have the same bytes in the same order: one of the driver's commands copies them best. */
static bool is_for_the_driver(const haul_tensor *to, const haul_tensor *from)
{
    return to->storage->device == from->storage->device && to->dtype == from->dtype &&
           haul__shape_equal(&to->shape, &from->shape) && haul__tensor_same_layout(to, from) &&
           haul__tensor_is_gap_free(to) && !haul__device_moves_by_kernel(to->storage->device, haul_tensor_bytes(to));
}

static haul_status launch_dry(haul_device *device, haul_tensor *to, haul_tensor *from)
{
    pointwise_params   p = {.items = 0};
    const haul__launch launch = {
        .kernel = kernel_of(to->dtype, from->dtype), HAUL__OUT(to), HAUL__IN(from), HAUL__PARAMS(p)};
    haul__layout(&p, &to->shape, (haul_tensor *[]){to, from}, 2);
    haul__dry_call_launch(&launch);
    return haul__launch_dry(device, &launch);
}

haul_status haul__copy_across(haul_tensor *to, haul_tensor *from, const haul__copy_note *note, const char *origin)
{
    haul_device     *device = haul__device_is_host(to->storage->device) ? from->storage->device : to->storage->device;
    pointwise_params p = {.items = 0};
    HAUL__ASSERT(haul__tensor_is_sound(to) && haul__tensor_is_sound(from));
    if (to->count == 0 || !haul__device_computes(device))
        return HAUL_OK;
    if (is_for_the_driver(to, from))
        return copy_bytes(to, from, origin);
    if (haul__is_dry() && to->storage->device != from->storage->device)
        return cross(&(haul__command){.kernel = NULL}, to, from, note, origin);
    if (haul__is_dry())
        return launch_dry(device, to, from);
    haul__layout(&p, &to->shape, (haul_tensor *[]){to, from}, 2);
    if (from->count > 1) /* a fill is faster with plain stores */
        haul__layout_stores(&p, (haul_tensor *[]){to, from}, 2);
    if (to->dtype == from->dtype && haul__is_transpose(&p, device))
        return haul__transpose(device, to, from, &p, note, origin);
    const bool          by_rows = to->dtype == from->dtype && !device->strided;
    const int           id = by_rows ? HAUL__K_copy_rows : kernel_of(to->dtype, from->dtype);
    const haul__kernel *kernel = haul__kernel_for(device, id, to->dtype);
    if (!kernel)
        return haul_error_status();
    haul__layout_packs(&p, device, to->dtype, 2);
    if (haul__collects())
        return haul__collect(
            kernel, &(haul__launch){.kernel = id, HAUL__OUT(to), HAUL__IN(from), HAUL__PARAMS(p), .grain = GRAIN});
    return haul__launch_copy(
        &(haul__command){.params = &p, .params_size = sizeof p, .kernel = kernel, .items = p.items, .grain = GRAIN}, id,
        to, from, note, origin);
}
