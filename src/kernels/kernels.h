/* The kernels as data: their ids, what each id stands for, and the text that run-time compilers get. tools/embed.c
 * finds the kernels in the text; a pointwise row is a text of its own. */
#ifndef HAUL_KERNELS_KERNELS_H
#define HAUL_KERNELS_KERNELS_H

#include <haul/custom.h>
#include <stdbool.h>

enum haul__kernel_id {
#define KERNEL(dtypes, lanes, buffers, unit, name, columns, few) HAUL__K_##name,
#include "kernels/kernels.def"
    HAUL__KERNEL_COUNT
};

typedef enum haul__kernel_dtypes { HAUL__KERNEL_ANY, HAUL__KERNEL_NUMBER, HAUL__KERNEL_FLOAT } haul__kernel_dtypes;

typedef struct haul__kernel_info {
    const char         *unit, *kernel; /* "pool2d", "max_pool2d" */
    haul__kernel_dtypes dtypes;
    int                 buffers;
    bool                lanes; /* of the lanes form (backends/cpu/prelude.h) */
    int columns, few;          /* ids of its other forms, NAME_columns and NAME_few; its own where there is none */
} haul__kernel_info;

extern const haul__kernel_info haul__kernel_infos[]; /* by id */
extern const int               haul__kernel_count;

/* The kernels that the program adds (added.c) have the ids behind these; there is room for so many. */
enum { HAUL__KERNELS_ADDED = 1024 };
/* Its text is that of the kernel; `operation` names errors. */
haul_status haul__kernel_add(const haul_kernel *kernel, const char *operation, int *id);

/* What any id stands for. */
const haul__kernel_info               *haul__kernel_info_added(int id);
static inline const haul__kernel_info *haul__kernel_info_of(int id)
{
    return id < HAUL__KERNEL_COUNT ? &haul__kernel_infos[id] : haul__kernel_info_added(id);
}

/* The functions of an added kernel for the CPU, by dtype; NULL for those that the CPU backend has in its table. */
haul_kernel_function *const *haul__kernel_functions(int id);
/* The text of one, as haul__kernel_unit_text gives it. */
char *haul__kernel_text_added(int id);

/* The text of a kernel's unit, without preludes. NULL if memory is exhausted. The result is freed with haul__free. */
char *haul__kernel_unit_text(int id);

/* The text of a header that all kernels need, by name: "prelude_opencl", "common", "pointwise". NULL if none has it. */
const char *haul__kernel_header(const char *name);

#endif
