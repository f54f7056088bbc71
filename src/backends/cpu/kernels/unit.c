/* All kernels for one dtype and instruction level: the build compiles this file once for each pair.
 *
 * The kernel text of every operation, under the C prelude, becomes functions over ranges of work items; the table at
 * the end lists them by kernel id. */
#include "backends/cpu/kernels.h"
#include "kernels/kernels.h"

#undef bool /* a suffix of names here */
#define HAUL_KERNEL 1
#include "backends/cpu/prelude.h"
/* after the prelude */
#include "kernels/common.h"
/* after the types */
#include "kernels/pointwise.h"

#undef bool /* C11's macro would replace the suffix of that name */

/* ---- pointwise rows: those that accept this dtype ---- */
#define FOR_ANY(definition) definition
#if defined(HAUL_KERNEL_DTYPE_bool)
#define FOR_NUMBER(definition)
#else
#define FOR_NUMBER(definition) definition
#endif
#if IS_FLOAT
#define FOR_FLOAT(definition) definition
#else
#define FOR_FLOAT(definition)
#endif
#define FOR_WIDE FOR_FLOAT

#define HAUL_UNARY(name, dtypes, formula, ...)         FOR_##dtypes(POINTWISE1(name, T, STORE, formula))
#define HAUL_UNARY2(name, dtypes, formula, ...)        FOR_##dtypes(POINTWISE1(name, T, STORE, formula))
#define HAUL_UNARY_TO_BOOL(name, dtypes, formula, ...) FOR_##dtypes(POINTWISE1(name, U8, PUT_BOOL, formula))
#define HAUL_BINARY(name, dtypes, formula, ...)                                                                        \
    FOR_##dtypes(POINTWISE2(name, T, STORE, formula) POINTWISE_SCALAR(name##_scalar, T, STORE, formula))
#define HAUL_COMPARE(name, formula)                                                                                    \
    POINTWISE2(name, U8, PUT_BOOL, formula) POINTWISE_SCALAR(name##_scalar, U8, PUT_BOOL, formula)
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY2
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_BINARY
#undef HAUL_COMPARE

/* ---- structured operations ---- */
#include "kernels/all.k.h"

/* ---- the table, by kernel id ---- */
#define ENTRY_ANY(name) {#name, NAME(name)},
#if defined(HAUL_KERNEL_DTYPE_bool)
#define ENTRY_NUMBER(name) {#name, NULL},
#else
#define ENTRY_NUMBER(name) {#name, NAME(name)},
#endif
#if IS_FLOAT
#define ENTRY_FLOAT(name) {#name, NAME(name)},
#else
#define ENTRY_FLOAT(name) {#name, NULL},
#endif
#define ENTRY_WIDE ENTRY_FLOAT

#define HAUL_UNARY(name, dtypes, ...)         ENTRY_##dtypes(name)
#define HAUL_UNARY2(name, dtypes, ...)        ENTRY_##dtypes(name)
#define HAUL_UNARY_TO_BOOL(name, dtypes, ...) ENTRY_##dtypes(name)
#define HAUL_BINARY(name, dtypes, ...)        ENTRY_##dtypes(name) ENTRY_##dtypes(name##_scalar)
#define HAUL_COMPARE(name, ...)               ENTRY_ANY(name) ENTRY_ANY(name##_scalar)
#define KERNEL(dtypes, lanes, unit, name)     ENTRY_##dtypes(name)

const haul__cpu_kernel HAUL__CPU_TABLE(HAUL_KERNEL_SUFFIX, HAUL_KERNEL_LEVEL)[HAUL__KERNEL_COUNT] = {
#include <haul/pointwise.def>

#include "kernels/kernels.def"
};
