/* Dtypes: the types of elements.
 *
 * A dtype is written HAUL_F32 in C, "f32" in texts and messages. */
#ifndef HAUL_DTYPE_H
#define HAUL_DTYPE_H

#include <haul/base.h>

HAUL_BEGIN

/* X(NAME, text, bits, kind) for each dtype: its name without HAUL_, the text of haul_dtype_name, the size in bits, and
 * its kind: b (bool), u (unsigned integer), i (signed integer) or f (floating). The order never changes. */
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
    X(F64, f64, 64, 'f')                                                                                               \
    X(U16, u16, 16, 'u')                                                                                               \
    X(U32, u32, 32, 'u')                                                                                               \
    X(U64, u64, 64, 'u')

/* The type of a tensor's elements.
 *
 * HAUL_F16 is IEEE 754's binary16; HAUL_BF16 is the upper half of an HAUL_F32. Host memory holds their elements as
 * uint16_t. Operations read f16 and bf16 operands exactly, compute and sum in f32, and round the result once, to
 * nearest, ties to even.
 *
 * HAUL_U16, HAUL_U32 and HAUL_U64 are for what files and other libraries hand over. They are created, copied, cast,
 * moved, indexed and compared, and they have integer arithmetic and bitwise operations. Operations that convert
 * integers to f32 convert them, too. Every other operation refuses them, and names dtypes to which they can be cast.
 *
 * - HAUL_DTYPE_NONE: no dtype: an option that is omitted, or the result of a failure
 * - HAUL_BOOL: one byte, 0 or 1
 * - HAUL_U8: unsigned, 8 bits
 * - HAUL_I8: signed, 8 bits
 * - HAUL_I16: signed, 16 bits
 * - HAUL_I32: signed, 32 bits
 * - HAUL_I64: signed, 64 bits
 * - HAUL_F16: floating, 16 bits, with 11 bits of precision
 * - HAUL_BF16: floating, 16 bits, with 8 bits of precision and the range of f32
 * - HAUL_F32: floating, 32 bits; the default of most functions
 * - HAUL_F64: floating, 64 bits
 * - HAUL_U16: unsigned, 16 bits
 * - HAUL_U32: unsigned, 32 bits
 * - HAUL_U64: unsigned, 64 bits
 * - HAUL_DTYPE_END: one more than the last dtype; a size for tables */
typedef enum haul_dtype {
    HAUL_DTYPE_NONE = 0,
#define X(NAME, text, bits, kind) HAUL_##NAME,
    HAUL_DTYPE_LIST(X)
#undef X
        HAUL_DTYPE_END
} haul_dtype;

/* The name of a dtype, "f32". "none" for HAUL_DTYPE_NONE, "invalid" for any other number. The text lives as long as the
 * process. */
HAUL_API const char *haul_dtype_name(haul_dtype dtype);

/* The dtype of a name, "f32" or "float32". Returns HAUL_DTYPE_NONE if the name is unknown, without recording an error.
 */
HAUL_API haul_dtype haul_dtype_parse(const char *name);

HAUL_API int  haul_dtype_bits(haul_dtype dtype);       /* the size of an element in bits; 0 if the dtype is invalid */
HAUL_API bool haul_dtype_is_float(haul_dtype dtype);   /* true for f16, bf16, f32 and f64 */
HAUL_API bool haul_dtype_is_integer(haul_dtype dtype); /* true for u8 to u64 and i8 to i64, but not bool */

/* The dtype to which two operands are converted before an operation combines them. The table is that of the Python
 * array API standard. Where the standard leaves a mix of integer and floating dtypes open, the floating dtype wins, as
 * in PyTorch; u8 with i8 gives i16, u16 with i8 or i16 gives i32, u32 with i8, i16 or i32 gives i64, and f16 with bf16
 * gives f32. Returns HAUL_DTYPE_NONE for u64 with a signed integer, as no dtype has the values of both, and if an
 * argument is not a dtype. */
HAUL_API haul_dtype haul_dtype_promote(haul_dtype a, haul_dtype b);

HAUL_END

#endif
