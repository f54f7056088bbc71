/* The tables of prototypes.def. */
#include "cli/show/calls.h"

#include <stddef.h>
#include <string.h>

static const operation_call calls[] = {
#define CALL(operation, prototype, description) {#operation, prototype, description},
#define MODULE(...)
#define CALL_OPTION(...)
#include "cli/show/prototypes.def"
#undef CALL
#undef MODULE
#undef CALL_OPTION
};

static const module_call modules[] = {
#define CALL(...)
#define MODULE(name, prototype, description, inputs, results) {#name, prototype, description, inputs, results},
#define CALL_OPTION(...)
#include "cli/show/prototypes.def"
#undef CALL
#undef MODULE
#undef CALL_OPTION
};

static const call_option options[] = {
#define CALL(...)
#define MODULE(...)
#define CALL_OPTION(operation, name, type, meaning, value) {#operation, name, type, meaning, value},
#include "cli/show/prototypes.def"
#undef CALL
#undef MODULE
#undef CALL_OPTION
};

const operation_call *operation_call_of(const char *operation)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].operation, operation))
            return &calls[i];
    return NULL;
}

const module_call *module_call_after(const module_call *last)
{
    const module_call *m = last ? last + 1 : modules;
    return m < modules + sizeof modules / sizeof *modules ? m : NULL;
}

const module_call *module_call_of(const char *name)
{
    const module_call *m = NULL;
    while ((m = module_call_after(m)))
        if (!strcmp(m->name, name) || !strcmp(m->name + MODULE_PREFIX, name))
            break;
    return m;
}

const call_option *call_option_after(const char *operation, const call_option *last)
{
    for (const call_option *o = last ? last + 1 : options; o < options + sizeof options / sizeof *options; o++)
        if (!strcmp(o->operation, operation))
            return o;
    return NULL;
}
