/* Copies of modules: a new module with the same structure, and values from one module to another. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/map.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "engine/copy.h"
#include "nn/module.h"
#include "nn/walk.h"

/* ---- clone ---- */

/* The tensors that were copied already, and their copies, so that the clone shares what the module shares. */
static void *copy_of(const haul__map *done, const void *from)
{
    const haul__map_entry *entry = haul__map_find(done, from);
    return entry ? entry->value : NULL;
}

static haul_status note_copy(haul__map *done, const void *from, void *to)
{
    bool             is_new;
    haul__map_entry *entry = haul__map_insert(done, from, &is_new);
    if (!entry)
        return haul__fail_memory("haul_module_clone", sizeof *entry);
    entry->value = to;
    return HAUL_OK;
}

static haul_status clone_tensor(haul_module *m, const haul__module_tensor *t, haul__map *done)
{
    haul_tensor *copy = copy_of(done, t->tensor);
    if (!copy) {
        haul_tensor *plain = haul_detach(t->tensor);
        copy = haul_empty_like(plain);
        if (haul__failed(copy) || haul_copy_into(copy, plain) || note_copy(done, t->tensor, copy))
            return haul_error_status();
    }
    HAUL__ASSERT(copy->count == t->tensor->count);
    return t->is_buffer ? haul_module_add_buffer(m, t->name, copy) : haul_module_add_parameter(m, t->name, copy);
}

static haul_status clone_state(haul_module *m, const haul_module *from)
{
    if (!from->clone_state)
        return HAUL_OK;
    const haul__guest before = haul__guest_begin();
    haul_status       status = haul__guest_end(&before, from->clone_state(m->state, from->state), "haul_module_clone");
    if (status && haul_error_status() == HAUL_OK)
        haul__fail(status, "haul_module_clone", "module", "the state of the %s could not be copied", from->kind);
    return status;
}

static haul_status fill(haul_module *m, haul_module *from, haul__map *done)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(!m->tensor_count && !m->child_count);
    if (from->destroy_state && !from->clone_state)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_module_clone", "module",
                          "the state of the %s has a destructor, but nothing that copies what it owns: make the module "
                          "with .clone",
                          from->kind);
    HAUL__ASSERT(m->state_bytes == from->state_bytes);
    memcpy(m->state, from->state, from->state_bytes);
    if ((status = clone_state(m, from)))
        return status;
    m->destroy_state = from->destroy_state; /* not earlier, because it would free what belongs to the original */
    m->training = from->training;
    m->run = from->run;
    m->run_part = from->run_part;
    m->place = from->place;
    for (size_t i = 0; i < from->tensor_count && !status; i++)
        status = clone_tensor(m, &from->tensors[i], done);
    HAUL__ASSERT(status || m->tensor_count == from->tensor_count);
    return status;
}

/* The module alone, without its children. */
static haul_module *clone_one(haul_module *from, haul__map *done)
{
    const haul_module_options like = {.forward = from->forward,
                                      .inputs = from->inputs.given,
                                      .results = from->results.given,
                                      .state_bytes = from->state_bytes,
                                      .clone = from->clone_state};
    haul_module              *m = haul__module_make(from->kind, &like, "haul_module_clone");
    return m && !fill(m, from, done) && !note_copy(done, from, m) ? m : NULL;
}

/* Adds the copy of the present module to that of the module around it. */
static haul_status add_copy(const haul__walk *w, haul_module *copy)
{
    const haul__module_child *child = haul__walk_child(w);
    haul_module              *outer = w->steps[w->count - 2].of;
    haul_status               status = haul_module_add(outer, child->name, copy);
    if (!status)
        outer->children[outer->child_count - 1].part = child->part;
    return status;
}

static haul_module *clone(haul_module *from, haul__map *done)
{
    haul__walk       w = {.root = from};
    haul__walk_step *step;
    haul_status      status = HAUL_OK;
    while (!status && (step = haul__walk_next(&w))) {
        haul_module *copy = copy_of(done, step->module);
        if (copy)
            haul__walk_skip(&w);
        else
            copy = clone_one(step->module, done);
        HAUL__ASSERT(step == &w.steps[w.count - 1]);
        step->of = copy;
        status = !copy ? haul_error_status() : w.count > 1 ? add_copy(&w, copy) : HAUL_OK;
    }
    if (w.failed)
        status = haul__fail_memory("haul_module_clone", sizeof *step);
    haul__walk_free(&w);
    return status ? NULL : copy_of(done, from);
}

haul_module *haul_module_clone(haul_module *module)
{
    static const char operation[] = "haul_module_clone";
    haul__map         done = {0};
    if (haul__check_module(module, operation))
        return NULL;
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return NULL;
    haul_set_grad_enabled(false);
    haul_module *m = clone(module, &done);
    haul__map_free(&done);
    if (!m)
        haul__fail_within(operation);
    return haul_scope_return(scope, m);
}

/* ---- copy ---- */

static haul_status check_pair(const haul_named_tensor *to, const haul_named_tensor *from)
{
    char there[80], here[80];
    if (strcmp(to->name, from->name) != 0 || to->is_buffer != from->is_buffer)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_module_copy", "from",
                          "'%s' is expected where `from` has '%s'; both modules must have the same structure", to->name,
                          from->name);
    if (haul__shape_equal(&to->tensor->shape, &from->tensor->shape))
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, "haul_module_copy", "from", "'%s' is %s there and %s here", to->name,
                      haul__tensor_text(from->tensor, there, sizeof there),
                      haul__tensor_text(to->tensor, here, sizeof here));
}

static haul_status copy_all(const haul_named_tensor *to, int to_count, const haul_named_tensor *from, int from_count)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < to_count && i < from_count && !status; i++)
        status = check_pair(&to[i], &from[i]);
    if (!status && to_count != from_count)
        status = haul__fail(HAUL_INVALID_ARGUMENT, "haul_module_copy", "from",
                            "it has %d parameters and buffers, where %d are expected", from_count, to_count);
    HAUL__ASSERT(status || to_count == from_count);
    for (int i = 0; i < to_count && !status; i++) {
        haul_tensor *target = haul_detach(to[i].tensor), *source = haul_detach(from[i].tensor);
        status = haul__copy_into_named(target, source, to[i].name);
    }
    return status;
}

haul_status haul_module_copy(haul_module *to, haul_module *from)
{
    static const char  operation[] = "haul_module_copy";
    int                to_count = 0, from_count = 0;
    haul_named_tensor *old = NULL, *new = NULL;
    if (haul__check_object(to, &haul__module_class, operation, "to") ||
        haul__check_object(from, &haul__module_class, operation, "from"))
        return haul_error_status();
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_set_grad_enabled(false);
    old = haul__module_tensor_list(to, &to_count);
    new = old ? haul__module_tensor_list(from, &from_count) : NULL;
    haul_status status = new ? copy_all(old, to_count, new, from_count) : haul_error_status();
    haul__free(old);
    haul__free(new);
    haul_scope_pop(scope);
    return status ? haul__fail_within(operation) : HAUL_OK;
}
