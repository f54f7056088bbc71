/* Functions that are called before and after a module's forward. */
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/guest.h"
#include "nn/module.h"

int64_t haul_module_add_hook_with(const haul_hook_options *options)
{
    static const char operation[] = "haul_module_add_hook";
    if (!options) {
        haul__fail_null(operation, "options");
        return 0;
    }
    haul_module *m = options->module;
    if (haul__check_module(m, operation))
        return 0;
    if (!options->before && !options->after) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "before", "give .before, .after or both");
        return 0;
    }
    if (!haul__grow(&m->hooks, &m->hook_capacity, m->hook_count + 1, sizeof *m->hooks)) {
        haul__fail_memory(operation, sizeof *m->hooks);
        return 0;
    }
    HAUL__ASSERT(m->hook_count < m->hook_capacity);
    HAUL__ASSERT(!m->hook_count || m->hooks[m->hook_count - 1].id <= m->hooks_added);
    m->hooks[m->hook_count++] =
        (haul__module_hook){++m->hooks_added, options->before, options->after, options->context, options->destroy};
    return m->hooks_added;
}

haul_status haul_module_remove_hook(haul_module *module, int64_t id)
{
    static const char operation[] = "haul_module_remove_hook";
    if (haul__check_module(module, operation))
        return haul_error_status();
    size_t i = 0;
    while (i < module->hook_count && module->hooks[i].id != id)
        i++;
    if (i == module->hook_count)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "id", "the %s has no hook %lld", module->kind,
                          (long long)id);
    HAUL__ASSERT(id > 0 && id <= module->hooks_added);
    const haul__module_hook removed = module->hooks[i];
    for (module->hook_count--; i < module->hook_count; i++)
        module->hooks[i] = module->hooks[i + 1];
    haul__guest_free(removed.destroy, removed.context);
    return HAUL_OK;
}

/* The first hook whose number is above `last`; NULL: none. Numbers grow in the order of the hooks. */
static const haul__module_hook *next_hook(const haul_module *module, int64_t last)
{
    for (size_t i = 0; i < module->hook_count; i++)
        if (module->hooks[i].id > last)
            return &module->hooks[i];
    return NULL;
}

/* A hook may remove hooks, itself too, and add some, which are called from the next call on. */
haul_status haul__run_hooks(haul_module *module, haul_args *args, bool after, int64_t newest)
{
    const haul__module_hook *hook;
    HAUL__ASSERT(newest <= module->hooks_added);
    for (int64_t last = 0; (hook = next_hook(module, last)) && hook->id <= newest;) {
        HAUL__ASSERT(hook->id > last);
        haul_hook *run = after ? hook->after : hook->before;
        last = hook->id;
        const haul_status status = run ? run(module, args, hook->context) : HAUL_OK;
        if (!status && (!run || !after || args->y[0]))
            continue;
        if (!status && haul_error_status() == HAUL_OK)
            return haul__fail(HAUL_STATE, "haul_call", "module",
                              "a hook of the %s set the first result to NULL; set a tensor, or HAUL_NONE",
                              module->kind);
        if (!status)
            return haul_error_status();
        if (haul_error_status() == HAUL_OK)
            haul__fail(status, "haul_call", "module", "a hook of the %s failed but recorded no error", module->kind);
        return status;
    }
    return HAUL_OK;
}
