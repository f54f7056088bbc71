/* The table of CPU kernels, generated from the list of kernels that the build finds in their text. */
#include "backends/cpu/kernels.h"

#include "haul_config.h"
#include "kernels/kernels.h"

#undef bool /* C11's macro would replace the suffix of that name */

/* The function of a kernel for a dtype and level, with the name that NAME of prelude.h gives it. */
#define FN(name, dtype, level) haul__k_##name##_##dtype##_##level

/* ---- declarations ---- */

#define DECLARE(name, dtype, level) extern haul__cpu_fn FN(name, dtype, level);
#if defined(HAUL_SMALL)
#define DECLARE_WHOLE(name, level) DECLARE(name, f32, level)
#define DECLARE_FLOAT(name, level) DECLARE(name, f32, level)
#else
#define DECLARE_WHOLE(name, level) DECLARE(name, f32, level) DECLARE(name, f64, level)
#define DECLARE_FLOAT(name, level)                                                                                     \
    DECLARE(name, f16, level) DECLARE(name, bf16, level) DECLARE(name, f32, level) DECLARE(name, f64, level)
#endif
#define DECLARE_SUM(name, level) DECLARE_WHOLE(name, level) DECLARE(name, i64, level)
#define DECLARE_INTEGER(name, level)                                                                                   \
    DECLARE(name, u8, level)                                                                                           \
    DECLARE(name, i8, level) DECLARE(name, i16, level) DECLARE(name, i32, level) DECLARE(name, i64, level)
#define DECLARE_NUMBER(name, level)  DECLARE_FLOAT(name, level) DECLARE_INTEGER(name, level)
#define DECLARE_ANY(name, level)     DECLARE_NUMBER(name, level) DECLARE(name, bool, level)
#define DECLARE_BITWISE(name, level) DECLARE_INTEGER(name, level) DECLARE(name, bool, level)
#define DECLARE_BITS(name, level)                                                                                      \
    DECLARE(name, u8, level) DECLARE(name, i16, level) DECLARE(name, i32, level) DECLARE(name, i64, level)
#if defined(HAUL_SMALL)
#define DECLARE_UNSIGNED(name, level)
#else
#define DECLARE_UNSIGNED(name, level) DECLARE(name, i16, level) DECLARE(name, i32, level) DECLARE(name, i64, level)
#endif
#define DECLARE_ONCE(name, level) DECLARE(name, bool, level)

#ifdef HAUL_HAVE_LEVEL_base
#define KERNEL(dtypes, lanes, buffers, unit, name, columns, few) DECLARE_##dtypes(name, base)
#include "kernels/kernels.def"
#endif
#ifdef HAUL_HAVE_LEVEL_v3
#define KERNEL(dtypes, lanes, buffers, unit, name, columns, few) DECLARE_##dtypes(name, v3)
#include "kernels/kernels.def"
#endif
#ifdef HAUL_HAVE_LEVEL_v4
#define KERNEL(dtypes, lanes, buffers, unit, name, columns, few) DECLARE_##dtypes(name, v4)
#include "kernels/kernels.def"
#endif

/* ---- the table ---- */

#if defined(HAUL_SMALL)
#define WHOLE(name, level) [HAUL_F32] = FN(name, f32, level)
#define FLOAT(name, level) WHOLE(name, level)
#else
#define WHOLE(name, level) [HAUL_F32] = FN(name, f32, level), [HAUL_F64] = FN(name, f64, level)
#define FLOAT(name, level)                                                                                             \
    [HAUL_F16] = FN(name, f16, level), [HAUL_BF16] = FN(name, bf16, level), [HAUL_F32] = FN(name, f32, level),         \
    [HAUL_F64] = FN(name, f64, level)
#endif
#define SUM(name, level) WHOLE(name, level), [HAUL_I64] = FN(name, i64, level)
#define INTEGER(name, level)                                                                                           \
    [HAUL_U8] = FN(name, u8, level), [HAUL_I8] = FN(name, i8, level), [HAUL_I16] = FN(name, i16, level),               \
    [HAUL_I32] = FN(name, i32, level), [HAUL_I64] = FN(name, i64, level)
#define NUMBER(name, level)  FLOAT(name, level), INTEGER(name, level)
#define ANY(name, level)     NUMBER(name, level), [HAUL_BOOL] = FN(name, bool, level)
#define BITWISE(name, level) INTEGER(name, level), [HAUL_BOOL] = FN(name, bool, level)
#define BITS(name, level)                                                                                              \
    [HAUL_U8] = FN(name, u8, level), [HAUL_I16] = FN(name, i16, level), [HAUL_I32] = FN(name, i32, level),             \
    [HAUL_I64] = FN(name, i64, level)
#if defined(HAUL_SMALL)
#define UNSIGNED(name, level) [HAUL_DTYPE_NONE] = NULL
#else
#define UNSIGNED(name, level)                                                                                          \
    [HAUL_I16] = FN(name, i16, level), [HAUL_I32] = FN(name, i32, level), [HAUL_I64] = FN(name, i64, level)
#endif
#define ONCE(name, level) [HAUL_BOOL] = FN(name, bool, level)

/* A level's functions; none where it was not built. */
#ifdef HAUL_HAVE_LEVEL_base
#define BASE(dtypes, name) [HAUL__CPU_BASE] = {dtypes(name, base)},
#else
#define BASE(dtypes, name)
#endif
#ifdef HAUL_HAVE_LEVEL_v3
#define V3(dtypes, name) [HAUL__CPU_V3] = {dtypes(name, v3)},
#else
#define V3(dtypes, name)
#endif
#ifdef HAUL_HAVE_LEVEL_v4
#define V4(dtypes, name) [HAUL__CPU_V4] = {dtypes(name, v4)},
#else
#define V4(dtypes, name)
#endif

#define KERNEL(dtypes, lanes, buffers, unit, name, columns, few)                                                       \
    {#name, {BASE(dtypes, name) V3(dtypes, name) V4(dtypes, name)}},
const haul__cpu_kernel haul__cpu_kernels[HAUL__KERNEL_COUNT] = {
#include "kernels/kernels.def"
};
