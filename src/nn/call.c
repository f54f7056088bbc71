/* Calling modules: a scope for each, the input moved where the module was placed, errors that name the layer. */
#include <haul/scope.h>
#include <haul/transfer.h>
#include <stdio.h>
#include <string.h>

#include "core/call.h"
#include "core/error.h"
#include "core/tensor.h"
#include "device/device.h"
#include "nn/module.h"

static _Thread_local haul_call_watcher *watching;
static _Thread_local void              *watching_context;

void haul_watch_calls(haul_call_watcher *watcher, void *context)
{
    watching = watcher;
    watching_context = context;
}

static void notify(haul_module *module, haul_tensor *x, haul_tensor *y, bool done)
{
    char path[256];

    if (watching)
        watching(&(haul_call_event){.module = module,
                                    .path = haul__call_path(path, sizeof path),
                                    .depth = haul__call_now()->depth,
                                    .x = x,
                                    .y = y ? y : HAUL_NONE,
                                    .done = done},
                 watching_context);
}

/* Where the module was placed: its input goes there, and so does what it makes on the way. */
static haul_tensor *enter(haul_module *module, haul_tensor *x)
{
    if (!module->place)
        return x;
    if (haul_set_device(module->place))
        return NULL;
    return haul__is_none(x) || x->storage->device == module->place ? x : haul_to(x, module->place);
}

static haul_tensor *forward(haul_module *module, haul_tensor *x, const haul_scope *scope)
{
    haul_tensor *inside = enter(module, x);
    haul_tensor *y = inside ? module->forward(module, inside) : NULL;

    if (!y) {
        if (haul_error_status() == HAUL_OK)
            haul__fail(HAUL_STATE, "haul_call", "module", "forward of the %s returned NULL but recorded no error",
                       module->kind);
        return NULL;
    }
    /* An input or a parameter that is passed through belongs to somebody else: hand on a handle of its own. */
    if (!haul__is_none(y) && y->object.scope != scope)
        y = haul_to(y, y->storage->device);
    return y;
}

/* Say which layer it was that failed: "haul_linear: ..., in layer 'fc1' (linear)". */
static void name_layer(const haul_module *module, const char *name)
{
    haul__error_record error;
    size_t             used;

    haul__error_save(&error);
    used = strlen(error.message);
    snprintf(error.message + used, sizeof error.message - used, ", in layer '%s' (%s)", name, module->kind);
    haul__error_restore(&error);
}

haul_tensor *haul__call_named(haul_module *module, const char *name, haul_tensor *x)
{
    haul_scope *scope = haul_scope_push();

    if (!scope)
        return NULL;
    const haul__call_frame *outer = haul__call_now();
    haul__call_frame        here = {outer, name, outer ? outer->depth + 1 : 0};
    haul__call_set(&here);
    notify(module, x, NULL, false);
    haul_tensor *y = forward(module, x, scope);
    notify(module, x, y, true);
    haul__call_set(outer);
    y = haul_scope_return(scope, y);
    if (!y && name)
        name_layer(module, name);
    return y;
}

haul_tensor *haul_call(haul_module *module, haul_tensor *x)
{
    if (!module || !x) {
        haul__fail_null("haul_call", module ? "x" : "module");
        return NULL;
    }
    return haul__call_named(module, NULL, x);
}

haul_tensor *haul_call_child(haul_module *module, const char *name, haul_tensor *x)
{
    if (!module || !name || !x) {
        haul__fail_null("haul_call_child", !module ? "module" : !name ? "name" : "x");
        return NULL;
    }
    haul_module *child = haul_module_child(module, name);
    return child ? haul__call_named(child, name, x) : NULL;
}

haul_tensor *haul__call_in_order(haul_module *module, haul_tensor *x)
{
    haul_tensor *now = x;

    for (size_t i = 0; i < module->child_count; i++) {
        haul_tensor *next = haul__call_named(module->children[i].module, module->children[i].name, now);
        if (now != x)
            haul_drop(now);
        if (!next)
            return NULL;
        now = next;
    }
    return now;
}
