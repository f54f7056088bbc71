/* Functions that reach all modules within a module. */
#include <haul/autograd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/guest.h"
#include "nn/module.h"
#include "nn/walk.h"

/* All modules, each before its children, and kept, since the program's function may replace children. */
static haul_status collect(haul_module *root, const char *operation, haul_module ***out, size_t *count)
{
    haul__walk       w = {.root = root};
    haul__walk_step *step;
    size_t           capacity = 0;
    haul_status      status = HAUL_OK;
    *out = NULL;
    *count = 0;
    while (!status && (step = haul__walk_next(&w))) {
        if (haul__grow(out, &capacity, *count + 1, sizeof **out)) {
            HAUL__ASSERT(*count < capacity);
            haul__object_keep(step->module);
            (*out)[(*count)++] = step->module;
        } else {
            status = haul__fail_memory(operation, (*count + 1) * sizeof **out);
        }
    }
    if (!status && w.failed)
        status = haul__fail_memory(operation, w.capacity * sizeof *w.steps);
    haul__walk_free(&w);
    HAUL__ASSERT(status || *count > 0);
    return status;
}

haul_status haul_module_apply(haul_module *module, haul_module_function *f, void *context)
{
    static const char operation[] = "haul_module_apply";
    haul_module     **modules;
    size_t            count;
    if (haul__check_module(module, operation))
        return haul_error_status();
    if (!f)
        return haul__fail_null(operation, "f");
    haul_status status = collect(module, operation, &modules, &count);
    for (size_t i = 0; i < count; i++) {
        if (!status) {
            haul__guest before = haul__guest_begin();
            status = haul__guest_end(&before, f(modules[i], context), operation);
        }
        haul__object_release(modules[i]);
    }
    haul__free(modules);
    return status;
}

haul_status haul_module_zero_grad(haul_module *module)
{
    haul__walk       w = {.root = module};
    haul__walk_step *step;
    haul_status      status = haul__check_module(module, "haul_module_zero_grad");
    if (status)
        return status;
    while (!status && (step = haul__walk_next(&w)))
        for (size_t i = 0; i < step->module->tensor_count && !status; i++)
            if (!step->module->tensors[i].is_buffer)
                status = haul_set_grad(step->module->tensors[i].tensor, HAUL_NONE);
    if (!status && w.failed)
        status = haul__fail_memory("haul_module_zero_grad", w.capacity * sizeof *w.steps);
    haul__walk_free(&w);
    return status;
}
