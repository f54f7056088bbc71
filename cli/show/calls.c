/* The tables of prototypes.def. */
#include "cli/show/calls.h"

#include <stddef.h>
#include <string.h>

static const operation_call calls[] = {
#define CALL(operation, prototype, description) {#operation, prototype, description},
#define CALL_OPTION(...)
#include "cli/show/prototypes.def"
#undef CALL
#undef CALL_OPTION
};

static const call_option options[] = {
#define CALL(...)
#define CALL_OPTION(operation, name, type, meaning, value) {#operation, name, type, meaning, value},
#include "cli/show/prototypes.def"
#undef CALL
#undef CALL_OPTION
};

const operation_call *operation_call_of(const char *operation)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].operation, operation))
            return &calls[i];
    return NULL;
}

const call_option *call_option_after(const char *operation, const call_option *last)
{
    for (const call_option *o = last ? last + 1 : options; o < options + sizeof options / sizeof *options; o++)
        if (!strcmp(o->operation, operation))
            return o;
    return NULL;
}
