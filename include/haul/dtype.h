/* Element types. */
#ifndef HAUL_DTYPE_H
#define HAUL_DTYPE_H

#include <haul/base.h>

HAUL_BEGIN

/* X(NAME, text, bits, kind): kind is b (bool), u (unsigned), i (signed), f (floating). The order is fixed. */
#define HAUL_DTYPE_LIST(X)                                                                                             \
    X(BOOL, bool, 8, 'b')                                                                                              \
    X(U8, u8, 8, 'u')                                                                                                  \
    X(I8, i8, 8, 'i')                                                                                                  \
    X(I16, i16, 16, 'i')                                                                                               \
    X(I32, i32, 32, 'i')                                                                                               \
    X(I64, i64, 64, 'i')                                                                                               \
    X(F16, f16, 16, 'f')                                                                                               \
    X(BF16, bf16, 16, 'f')                                                                                             \
    X(F32, f32, 32, 'f')                                                                                               \
    X(F64, f64, 64, 'f')

/* HAUL_DTYPE_NONE (0) means "not given" in options.
 *
 * F16 is IEEE 754's binary16, BF16 the upper half of an F32; host memory holds their elements as uint16_t. They are
 * stored so and computed with in f32: an operation reads its operands exactly, computes and adds up in f32, and rounds
 * its result once, to the nearest, ties to even. */
typedef enum haul_dtype {
    HAUL_DTYPE_NONE = 0,
#define X(NAME, text, bits, kind) HAUL_##NAME,
    HAUL_DTYPE_LIST(X)
#undef X
        HAUL_DTYPE_END
} haul_dtype;

HAUL_API const char *haul_dtype_name(haul_dtype dtype);  /* "f32"; "none" or "invalid" */
HAUL_API haul_dtype  haul_dtype_parse(const char *name); /* HAUL_DTYPE_NONE if unknown; also "float32", "int64" ... */
HAUL_API int         haul_dtype_bits(haul_dtype dtype);  /* 0 if invalid */
HAUL_API bool        haul_dtype_is_float(haul_dtype dtype);
HAUL_API bool        haul_dtype_is_integer(haul_dtype dtype); /* u8, i8 ... i64; not bool */

/* The dtype in which an operation on both computes: the array-API standard's table, completed where it leaves mixes of
 * integers and floats open as PyTorch does (the float wins); u8 with i8 is i16. */
HAUL_API haul_dtype haul_dtype_promote(haul_dtype a, haul_dtype b);

HAUL_END

#endif
