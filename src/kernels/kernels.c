/* What each kernel id stands for, made from the pointwise rows and the list of kernels. */
#include "kernels/kernels.h"

#include <string.h>

#include "core/alloc.h"
#include "kernels/text.h"

/* A pointwise row is a unit of its own, so that a device compiles only the rows a program uses. */
#define ROW(name)                         {"pointwise_" #name, #name, false},
#define ROW_AND_SCALAR(name)              ROW(name){"pointwise_" #name, #name "_scalar", false},
#define HAUL_UNARY(name, ...)             ROW(name)
#define HAUL_UNARY_TO_BOOL(name, ...)     ROW(name)
#define HAUL_UNARY2(name, ...)            ROW(name)
#define HAUL_BINARY(name, ...)            ROW_AND_SCALAR(name)
#define HAUL_COMPARE(name, ...)           ROW_AND_SCALAR(name)
#define KERNEL(dtypes, lanes, unit, name) {#unit, #name, lanes},

const haul__kernel_info haul__kernel_infos[] = {
#include <haul/pointwise.def>

#include "kernels/kernels.def"
};
const int haul__kernel_count = HAUL__KERNEL_COUNT;

#undef HAUL_UNARY
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_UNARY2
#undef HAUL_BINARY
#undef HAUL_COMPARE

/* The rows again, as the macro calls of pointwise.h. */
typedef struct row_text {
    int         id;
    const char *text;
} row_text;

#define HAUL_UNARY(name, dtypes, formula, ...)  {HAUL__K_##name, "POINTWISE1(" #name ", T, STORE, " #formula ")\n"},
#define HAUL_UNARY2(name, dtypes, formula, ...) {HAUL__K_##name, "POINTWISE1(" #name ", T, STORE, " #formula ")\n"},
#define HAUL_UNARY_TO_BOOL(name, dtypes, formula, ...)                                                                 \
    {HAUL__K_##name, "POINTWISE1(" #name ", U8, PUT_BOOL, " #formula ")\n"},
#define HAUL_BINARY(name, dtypes, formula, ...)                                                                        \
    {HAUL__K_##name, "POINTWISE2(" #name ", T, STORE, " #formula ")\n"                                                 \
                     "POINTWISE_SCALAR(" #name "_scalar, T, STORE, " #formula ")\n"},
#define HAUL_COMPARE(name, formula)                                                                                    \
    {HAUL__K_##name, "POINTWISE2(" #name ", U8, PUT_BOOL, " #formula ")\n"                                             \
                     "POINTWISE_SCALAR(" #name "_scalar, U8, PUT_BOOL, " #formula ")\n"},

static const row_text row_texts[] = {
#include <haul/pointwise.def>
};

static const char *embedded(const char *name)
{
    for (size_t i = 0; i < haul__kernel_text_count; i++)
        if (strcmp(haul__kernel_texts[i].name, name) == 0)
            return haul__kernel_texts[i].text;
    return NULL;
}

const char *haul__kernel_header(const char *name)
{
    return embedded(name);
}

char *haul__kernel_unit_text(int id)
{
    const char *unit = haul__kernel_infos[id].unit;
    for (size_t i = 0; i < sizeof row_texts / sizeof row_texts[0]; i++)
        if (strcmp(haul__kernel_infos[row_texts[i].id].unit, unit) == 0)
            return haul__format("%s\n%s", embedded("pointwise"), row_texts[i].text);
    const char *text = embedded(unit);
    /* Three-operand kernels reuse the row loop, so every unit gets it; unused macros cost nothing. */
    return text ? haul__format("%s\n%s", embedded("pointwise"), text) : NULL;
}
