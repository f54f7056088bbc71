/* The best weights of a training, kept on their devices: a clone of the module. */
#include <haul/scope.h>
#include <haul/train.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/object.h"
#include "core/scope.h"
#include "nn/tensors.h"

struct haul_best_weights {
    haul__object object;
    haul_module *module, *copy; /* holds references */
};

static void destroy(void *object)
{
    haul_best_weights *best = object;
    haul__object_release(best->module);
    haul__object_release(best->copy);
    haul__object_free(&best->object, sizeof *best);
}

static const haul__class best_weights_class = {.name = "best-weights object", .destroy = destroy};

/* The clone belongs to the object alone, not to a scope. */
static haul_status make_copy(haul_best_weights *best, haul_module *module)
{
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    HAUL__ASSERT(!best->copy && !best->module);
    best->copy = haul_module_clone(module);
    haul__object_keep(best->copy);
    haul__object_keep(module);
    best->module = module;
    haul_scope_pop(scope);
    return best->copy ? HAUL_OK : haul_error_status();
}

haul_best_weights *haul_best_weights_new(haul_module *module)
{
    static const char operation[] = "haul_best_weights_new";
    if (haul__check_module(module, operation))
        return NULL;
    haul_best_weights *best = haul__object_new_zeroed(sizeof *best, &best_weights_class);
    if (!best) {
        haul__fail_memory(operation, sizeof *best);
        return NULL;
    }
    HAUL__ASSERT(!best->copy);
    if (make_copy(best, module)) {
        haul__object_release(best);
        haul__fail_within(operation);
        return NULL;
    }
    return haul__own(best, operation);
}

static haul_status check(const haul_best_weights *best, const char *operation)
{
    return haul__check_object(best, &best_weights_class, operation, "best");
}

haul_status haul_best_weights_keep(haul_best_weights *best)
{
    if (check(best, "haul_best_weights_keep"))
        return haul_error_status();
    return haul_module_copy(best->copy, best->module);
}

haul_status haul_best_weights_restore(haul_best_weights *best)
{
    if (check(best, "haul_best_weights_restore"))
        return haul_error_status();
    return haul_module_copy(best->module, best->copy);
}
