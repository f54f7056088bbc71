/* What each kernel id stands for, generated from the list of kernels. */
#include "kernels/kernels.h"

#include <string.h>

#include "base/alloc.h"
#include "core/tensor.h"
#include "kernels/text.h"

#define KERNEL(dtypes, lanes, buffers, unit, name, columns, few)                                                       \
    {#unit, #name, HAUL__KERNEL_##dtypes, buffers, lanes, HAUL__K_##columns, HAUL__K_##few},
const haul__kernel_info haul__kernel_infos[] = {
#include "kernels/kernels.def"
};
const int haul__kernel_count = HAUL__KERNEL_COUNT;

haul_dtype haul__kernel_dtype(const haul__kernel_info *info, haul_dtype dtype)
{
    static const haul_dtype of_size[] = {[1] = HAUL_U8, [2] = HAUL_I16, [4] = HAUL_I32, [8] = HAUL_I64};
    if (info->dtypes == HAUL__KERNEL_BITS)
        return of_size[haul__dtype_size(dtype)];
    if (haul__is_unsigned(dtype) && info->dtypes != HAUL__KERNEL_ONCE)
        return of_size[haul__dtype_size(dtype)]; /* with bit-identical results */
    return info->dtypes == HAUL__KERNEL_ONCE ? HAUL_BOOL : dtype;
}

bool haul__kernel_has(const haul__kernel_info *info, haul_dtype dtype)
{
    if (dtype == HAUL_DTYPE_NONE)
        return false;
    if (info->dtypes == HAUL__KERNEL_FLOAT)
        return haul_dtype_is_float(dtype);
    if (info->dtypes == HAUL__KERNEL_WHOLE || info->dtypes == HAUL__KERNEL_SUM)
        return dtype == HAUL_F32 || dtype == HAUL_F64 || (dtype == HAUL_I64 && info->dtypes == HAUL__KERNEL_SUM);
    if (info->dtypes == HAUL__KERNEL_UNSIGNED)
        return dtype == HAUL_I16 || dtype == HAUL_I32 || dtype == HAUL_I64;
    if (info->dtypes == HAUL__KERNEL_BITWISE || info->dtypes == HAUL__KERNEL_INTEGER)
        return (haul_dtype_is_integer(dtype) && !haul__is_unsigned(dtype)) ||
               (dtype == HAUL_BOOL && info->dtypes == HAUL__KERNEL_BITWISE);
    return haul__kernel_dtype(info, dtype) == dtype && (info->dtypes != HAUL__KERNEL_NUMBER || dtype != HAUL_BOOL);
}

static const haul__kernel_text *find_text(const char *name)
{
    for (size_t i = 0; i < haul__kernel_text_count; i++)
        if (strcmp(haul__kernel_texts[i].name, name) == 0)
            return &haul__kernel_texts[i];
    return NULL;
}

const char *haul__kernel_header(const char *name)
{
    const haul__kernel_text *row = find_text(name);
    return row ? row->text : NULL;
}

char *haul__kernel_unit_text(int id)
{
    if (id >= HAUL__KERNEL_COUNT)
        return haul__kernel_text_added(id);
    const haul__kernel_text *row = find_text(haul__kernel_infos[id].unit);
    char                    *unit = row ? haul__kernel_text_unpack(row) : NULL;
    /* Kernels with several operands use the loop of pointwise rows, so every unit includes it. */
    char *text = unit ? haul__format("%s\n%s", haul__kernel_header("pointwise"), unit) : NULL;
    haul__free(unit);
    return text;
}
