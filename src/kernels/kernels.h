/* The kernels as data: their ids, what each id stands for, and the text for run-time compilers. tools/embed.c finds the
 * kernels in the text; a pointwise row is a text of its own. */
#ifndef HAUL_KERNELS_KERNELS_H
#define HAUL_KERNELS_KERNELS_H

#include <haul/custom.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/constants.h"

enum haul__kernel_id {
#define KERNEL(dtypes, lanes, buffers, unit, name, columns, few) HAUL__K_##name,
#include "kernels/kernels.def"
    HAUL__KERNEL_COUNT
};

/* The dtypes that a kernel is compiled for. Other dtypes use the kernels of BITS and ONCE, too, and u16, u32 and u64
 * use those of i16, i32 and i64. */
typedef enum haul__kernel_dtypes {
    HAUL__KERNEL_ANY,
    HAUL__KERNEL_NUMBER,
    HAUL__KERNEL_FLOAT,
    HAUL__KERNEL_WHOLE,   /* f32 and f64 */
    HAUL__KERNEL_BITWISE, /* integers and bool */
    HAUL__KERNEL_INTEGER,
    HAUL__KERNEL_SUM,      /* f32, f64 and i64, in which sums are computed */
    HAUL__KERNEL_BITS,     /* an integer dtype of each size, for all dtypes of that size: it moves elements */
    HAUL__KERNEL_UNSIGNED, /* i16, i32 and i64, for u16, u32 and u64, whose elements these kernels read */
    HAUL__KERNEL_ONCE      /* bool, for all dtypes: its buffers have dtypes of their own */
} haul__kernel_dtypes;

typedef struct haul__kernel_info {
    const char         *unit, *kernel; /* "pool2d", "max_pool2d" */
    haul__kernel_dtypes dtypes;
    int                 buffers;
    bool                lanes;        /* of the lanes form (backends/cpu/prelude.h) */
    int                 columns, few; /* ids of its other forms, NAME_columns and NAME_few; its own id if it has none */
} haul__kernel_info;

extern const haul__kernel_info haul__kernel_infos[]; /* by id */
extern const int               haul__kernel_count;

/* Kernels that the program adds (added.c) have the following ids, up to this many. */
enum { HAUL__KERNELS_ADDED = 1024 };
/* Its text is the kernel's text; errors name `operation`. */
haul_status haul__kernel_add(const haul_kernel *kernel, const char *operation, int *id);

/* Items that a thread takes at once, at least `grain`: whole groups of short rows (constants.h) if it is more than one.
 */
static inline int64_t haul__whole_sides(int64_t grain)
{
    return grain <= SIDE_ROWS ? grain : (grain + SIDE_ROWS - 1) / SIDE_ROWS * SIDE_ROWS;
}

/* The entry of any id. */
const haul__kernel_info               *haul__kernel_info_added(int id);
static inline const haul__kernel_info *haul__kernel_info_of(int id)
{
    return id < HAUL__KERNEL_COUNT ? &haul__kernel_infos[id] : haul__kernel_info_added(id);
}

/* The dtype that the kernel is compiled for where a launch has `dtype`. */
haul_dtype haul__kernel_dtype(const haul__kernel_info *info, haul_dtype dtype);
/* True if the kernel is compiled for the dtype. */
bool haul__kernel_has(const haul__kernel_info *info, haul_dtype dtype);

/* The CPU functions of an added kernel, by dtype; NULL for kernels in the CPU backend's table. */
haul_kernel_function *const *haul__kernel_functions(int id);
/* The text of an added kernel, in the form of haul__kernel_unit_text. */
char *haul__kernel_text_added(int id);

/* The text of a kernel's unit, without preludes, which the caller must haul__free. NULL if memory is exhausted. */
char *haul__kernel_unit_text(int id);

/* The text of a header that all kernels need, by name: "prelude_opencl", "common", "pointwise". NULL if there is
 * none. */
const char *haul__kernel_header(const char *name);

#endif
