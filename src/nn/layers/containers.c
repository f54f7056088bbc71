/* Modules that hold others: called one after the other, or only stored, by number or by name. */
#include <haul/scope.h>
#include <stdio.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/tensor.h"
#include "nn/module.h"

static haul_tensor *not_called(haul_module *module, haul_args *args)
{
    (void)args;
    haul__fail(HAUL_STATE, "haul_call", "module", "a %s cannot be called; call its children", module->kind);
    return haul__failed_tensor();
}

/* Adds children under their names; NULL names become numbers. */
static haul_module *container(const char *kind, haul_forward *forward, const haul_named_module *named,
                              haul_module *const *plain, int count, const char *operation)
{
    if (count < 0 || (!named && !plain && count)) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "children", "children is NULL; pass a list");
        return NULL;
    }
    haul_module *m = haul__module_make(kind, &(haul_module_options){.forward = forward}, operation);
    for (int i = 0; m && i < count; i++) {
        char         number[16];
        haul_module *child = named ? named[i].module : plain[i];
        snprintf(number, sizeof number, "%d", i);
        if (!child)
            haul__fail_null(operation, "a child");
        if (!child || haul_module_add(m, named ? named[i].name : number, child)) {
            haul_drop(m);
            return NULL;
        }
    }
    HAUL__ASSERT(!m || m->child_count == (size_t)count);
    return m;
}

haul_module *haul_nn_sequential(haul_module *const *children, int count)
{
    return container("sequential", haul__call_in_order, NULL, children, count, "haul_nn_sequential");
}

haul_module *haul_nn_list(haul_module *const *children, int count)
{
    return container("list", not_called, NULL, children, count, "haul_nn_list");
}

haul_module *haul_nn_dict(const haul_named_module *children, int count)
{
    return container("dict", not_called, children, NULL, count, "haul_nn_dict");
}
