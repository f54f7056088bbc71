/* Calling modules: a scope for each, the input moved where the module was placed, errors that name the layer. */
#include <haul/scope.h>
#include <haul/transfer.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/tensor.h"
#include "device/device.h"
#include "events/call.h"
#include "events/events.h"
#include "nn/module.h"

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
    if (haul__failed(inside))
        return NULL;
    haul_tensor *y = module->forward(module, inside);
    if (!y && haul_error_status() == HAUL_OK)
        haul__fail(HAUL_STATE, "haul_call", "module", "forward of the %s returned NULL but recorded no error",
                   module->kind);
    if (haul__check_optional("haul_call", "the result of forward", y))
        return NULL;
    /* An input or a parameter that is passed through belongs to somebody else: hand on a handle of its own. */
    if (!haul__is_none(y) && y->object.scope != scope)
        y = haul_to(y, y->storage->device);
    return haul__failed(y) ? NULL : y;
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
    haul_scope *scope = haul_scope_push_named(name ? name : module->kind);

    if (!scope)
        return haul__failed_tensor();
    const haul__call_frame *outer = haul__call_now();
    haul__call_frame        here = {outer, name, outer ? outer->depth + 1 : 0};
    haul__call_set(&here);
    int64_t began = 0;
    if (haul__watched(HAUL_EVENT_CALL))
        began = haul__emit_begin(&(haul_event){
            .kind = HAUL_EVENT_CALL_BEGIN, .module = module, .x = x, .y = HAUL_NONE, .text = module->kind});
    haul_tensor *y = forward(module, x, scope);
    if (began)
        haul__emit_end(
            &(haul_event){
                .kind = HAUL_EVENT_CALL_END, .module = module, .x = x, .y = y ? y : HAUL_NONE, .text = module->kind},
            began);
    haul__call_set(outer);
    y = haul_scope_return(scope, y);
    if (!y && name)
        name_layer(module, name);
    return haul__result(y);
}

haul_tensor *haul_call(haul_module *module, haul_tensor *x)
{
    if (haul__check_module(module, "haul_call") || haul__check_optional("haul_call", "x", x))
        return haul__failed_tensor();
    return haul__call_named(module, NULL, x);
}

haul_tensor *haul_call_child(haul_module *module, const char *name, haul_tensor *x)
{
    static const char operation[] = "haul_call_child";
    if (haul__check_module(module, operation))
        return haul__failed_tensor();
    if (!name)
        haul__fail_null(operation, "name");
    if (!name || haul__check_optional(operation, "x", x))
        return haul__failed_tensor();
    haul_module *child = haul_module_child(module, name);
    if (!child)
        haul__fail_within(operation);
    return child ? haul__call_named(child, name, x) : haul__failed_tensor();
}

haul_tensor *haul__call_in_order(haul_module *module, haul_tensor *x)
{
    haul_tensor *now = x;

    for (size_t i = 0; i < module->child_count; i++) {
        haul_tensor *next = haul__call_named(module->children[i].module, module->children[i].name, now);
        if (now != x)
            haul_drop(now);
        if (haul__failed(next))
            return next;
        now = next;
    }
    return now;
}
