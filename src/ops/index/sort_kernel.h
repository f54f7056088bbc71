/* Keys of elements: unsigned integers in the order of the elements. NaN is the largest element; -0 and 0 are equal. */
#ifndef HAUL_OPS_INDEX_SORT_KERNEL_H
#define HAUL_OPS_INDEX_SORT_KERNEL_H

// clang-format off
#ifdef HAUL_KERNEL
#if defined(HAUL_KERNEL_DTYPE_f64) || defined(HAUL_KERNEL_DTYPE_i64)
enum { SORT_DIGITS = 8 };
typedef U64 sort_key;
#else
enum { SORT_DIGITS = 4 };
typedef U32 sort_key;
#endif

/* Changes the highest bit, which is the sign of integers. */
FUNC sort_key sort_sign_changed(sort_key key) { return key ^ (sort_key)1 << (8 * SORT_DIGITS - 1); }
#if IS_FLOAT
FUNC sort_key sort_key_of(A x)
{
#if defined(HAUL_KERNEL_DTYPE_f64)
    const sort_key bits = x == 0 ? 0 : (sort_key)F64_BITS(x);
#else
    const sort_key bits = x == 0 ? 0 : (sort_key)F32_BITS(x);
#endif
    return x != x ? ~(sort_key)0 : bits >> (8 * SORT_DIGITS - 1) ? ~bits : sort_sign_changed(bits);
}
#else
FUNC sort_key sort_key_of(A x) { return sort_sign_changed((sort_key)x); }
#endif
#endif
// clang-format on

#endif
