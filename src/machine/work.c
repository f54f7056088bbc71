/* Classes of operations: by name, from tables. */
#include <string.h>

#include "base/text/word_list.h"
#include "machine/machine.h"

static const struct {
    const char      *name;
    bool             by_flops;
    haul__work_class other;
} classes[] = {
#define X(NAME, text, by_flops, other) {text, by_flops, HAUL__WORK_##other},
#include "machine/classes.def"
#undef X
    {"other", false, HAUL__WORK_OTHER}};

static const struct {
    haul__work_class work_class;
    const char      *names;
} operations[] = {
#define X(NAME, names) {HAUL__WORK_##NAME, names},
#include "machine/operations.def"
#undef X
};

const char *haul__work_class_name(haul__work_class work_class)
{
    return classes[work_class].name;
}

haul__work_class haul__work_class_else(haul__work_class work_class)
{
    return classes[work_class].other;
}

bool haul__work_by_flops(haul__work_class work_class)
{
    return classes[work_class].by_flops;
}

int haul__work_weight(const char *operation, int operand_count)
{
    const haul__work_class c = haul__work_class_of(operation);
    if (c != HAUL__WORK_CONV && c != HAUL__WORK_CONV_BACKWARD)
        return -1;
    return strstr(operation, "_backward_weight") ? operand_count : 1;
}

haul_dtype haul__work_dtype(haul_dtype found, haul_dtype next)
{
    const bool replaces = found == HAUL_DTYPE_NONE || (!haul_dtype_is_float(found) && haul_dtype_is_float(next));
    return replaces ? next : found;
}

/* The name without haul_, and without _backward and what follows, or _scalar at its end. */
static void stem_of(const char *operation, char *out, size_t size)
{
    static const char prefix[] = "haul_", scalar[] = "_scalar";
    if (strncmp(operation, prefix, sizeof prefix - 1) == 0)
        operation += sizeof prefix - 1;
    const char *backward = strstr(operation, "_backward");
    size_t      length = backward ? (size_t)(backward - operation) : strlen(operation);
    if (length > sizeof scalar - 1 && memcmp(operation + length - (sizeof scalar - 1), scalar, sizeof scalar - 1) == 0)
        length -= sizeof scalar - 1;
    length = length < size ? length : size - 1;
    memcpy(out, operation, length);
    out[length] = '\0';
}

/* Of gradients, which are computed in other ways. */
static haul__work_class backward_of(haul__work_class work_class)
{
    static const struct {
        haul__work_class forward, backward;
    } pairs[] = {{HAUL__WORK_MATMUL, HAUL__WORK_MATMUL_BACKWARD},
                 {HAUL__WORK_CONV, HAUL__WORK_CONV_BACKWARD},
                 {HAUL__WORK_NORMALISATION, HAUL__WORK_NORMALISATION_BACKWARD},
                 {HAUL__WORK_SOFTMAX, HAUL__WORK_NORMALISATION_BACKWARD},
                 {HAUL__WORK_POOL, HAUL__WORK_POOL_BACKWARD}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].forward == work_class)
            return pairs[i].backward;
    return work_class;
}

haul__work_class haul__work_class_of(const char *operation)
{
    char stem[64];
    stem_of(operation, stem, sizeof stem);
    for (size_t i = 0; *stem && i < sizeof operations / sizeof *operations; i++)
        if (haul__word_list_has(operations[i].names, stem))
            return strstr(operation, "_backward") ? backward_of(operations[i].work_class) : operations[i].work_class;
    return HAUL__WORK_OTHER;
}
