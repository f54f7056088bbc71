/* Children called one after the other. */
#include <haul/scope.h>
#include <stdio.h>

#include "core/error.h"
#include "nn/module.h"

haul_module *haul_nn_sequential(haul_module *const *children, int count)
{
    if (count < 0 || (!children && count)) {
        haul__fail(HAUL_INVALID_ARGUMENT, "haul_nn_sequential", "children", "no list of children was given");
        return NULL;
    }
    haul_module *m = haul_module_new("sequential", haul__call_in_order);
    for (int i = 0; m && i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        if (!children[i])
            haul__fail_null("haul_nn_sequential", "a child");
        if (!children[i] || haul_module_add(m, name, children[i])) {
            haul_drop(m);
            return NULL;
        }
    }
    return m;
}
