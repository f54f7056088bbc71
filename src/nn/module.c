/* Modules: making them, and adding and replacing their named parameters, buffers and children. */
#include <haul/autograd.h>
#include <haul/dtype.h>
#include <haul/random.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "memory/mark.h"
#include "nn/module.h"
#include "nn/walk.h"

static void destroy(void *object)
{
    haul_module *m = object;
    HAUL__ASSERT(m->tensor_count <= m->tensor_capacity && m->child_count <= m->child_capacity);
    for (size_t i = 0; i < m->tensor_count; i++) {
        haul__object_release(m->tensors[i].tensor);
        haul__free(m->tensors[i].name);
    }
    for (size_t i = 0; i < m->child_count; i++) {
        haul__object_release(m->children[i].module);
        haul__free(m->children[i].name);
    }
    for (size_t i = 0; i < m->name_count; i++)
        haul__free(m->names[i]);
    for (size_t i = 0; i < m->hook_count; i++)
        haul__guest_free(m->hooks[i].destroy, m->hooks[i].context);
    haul__guest_free(m->destroy_state, m->state);
    haul__map_free(&m->numbers);
    haul__free(m->tensors);
    haul__free(m->children);
    haul__free(m->names);
    haul__free(m->hooks);
    haul__names_free(&m->inputs);
    haul__names_free(&m->results);
    haul__free(m->state);
    haul__free(m->kind);
    m->kind = NULL; /* messages may refer to it later */
    haul__object_free(&m->object, sizeof *m);
}

static void describe(const void *object, bool dead, char *out, size_t size)
{
    const haul_module *m = object;
    snprintf(out, size, "module%s%s", dead ? "" : " ", dead ? "" : m->kind);
}

const haul__class haul__module_class = {.name = "module", .destroy = destroy, .describe = describe};

/* ---- making ---- */

static haul_status fill(haul_module *m, const char *kind, const haul_module_options *o, const char *operation)
{
    HAUL__ASSERT(!m->kind && !m->state);
    m->forward = o->forward;
    m->training = true;
    m->run = haul__forward;
    m->state_bytes = o->state_bytes;
    m->clone_state = o->clone;
    m->kind = haul__strdup(kind);
    m->state = haul__calloc(1, o->state_bytes ? o->state_bytes : 1);
    if (!m->kind || !m->state)
        return haul__fail_memory(operation, o->state_bytes);
    haul_status status = haul__names_parse(&m->inputs, o->inputs ? o->inputs : "x", operation, "inputs");
    if (!status)
        status = haul__names_parse(&m->results, o->results ? o->results : "y", operation, "results");
    if (!status)
        m->destroy_state = o->destroy;
    HAUL__ASSERT(status || m->inputs.required <= m->inputs.count);
    return status;
}

haul_module *haul__module_make(const char *kind, const haul_module_options *options, const char *operation)
{
    if (!kind || !options) {
        haul__fail_null(operation, !kind ? "kind" : "options");
        return NULL;
    }
    if (!options->forward) {
        haul__fail_no_function(operation, "forward");
        return NULL;
    }
    haul_module *m = haul__object_new_zeroed(sizeof *m, &haul__module_class);
    if (!m) {
        haul__fail_memory(operation, sizeof *m);
        return NULL;
    }
    if (fill(m, kind, options, operation)) {
        haul__object_release(m);
        return NULL;
    }
    return haul__own(m, operation);
}

haul_module *haul_module_new_with(const char *kind, const haul_module_options *options)
{
    return haul__module_make(kind, options, "haul_module_new");
}

void *haul_module_state(haul_module *module)
{
    return haul__check_module(module, "haul_module_state") ? NULL : module->state;
}

const char *haul_module_kind(const haul_module *module)
{
    return haul__check_module(module, "haul_module_kind") ? "" : module->kind;
}

haul_module *haul__module_built(haul_module *module, haul_scope *scope, haul_status status, const char *operation)
{
    haul_scope_pop(scope);
    if (status == HAUL_OK)
        return module;
    haul__fail_within(operation);
    haul_drop(module);
    return NULL;
}

haul_status haul__module_size(int64_t value, const char *operation, const char *argument)
{
    if (value > 0)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is %lld; it must be at least 1", argument,
                      (long long)value);
}

haul_status haul__module_probability(double p, const char *operation, const char *argument)
{
    if (p >= 0 && p <= 1)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is %g; a probability is from 0 to 1", argument,
                      p);
}

haul_status haul__module_draw_parameter(haul_module *module, const char *name, haul_shape shape, int64_t fan_in)
{
    double       bound = fan_in > 0 ? 1 / sqrt((double)fan_in) : 0;
    haul_tensor *t = haul_uniform(HAUL_F32, shape, -bound, bound);
    return haul__failed(t) ? haul_error_status() : haul_module_add_parameter(module, name, t);
}

/* ---- names ---- */

static haul_status check_new_name(const haul_module *m, const char *operation, const char *name)
{
    if (!*name)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "name", "a name must not be empty");
    if (strchr(name, '.'))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "name",
                          "the name '%s' has a dot; dots join the names of modules", name);
    if (!haul__is_utf8((const uint8_t *)name, strlen(name)))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "name",
                          "the name has bytes that are not UTF-8; files keep names in UTF-8");
    if (haul__module_find_tensor(m, name, strlen(name)) || haul__module_find_child(m, name, strlen(name)))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "name", "the %s has something named '%s' already", m->kind,
                          name);
    return HAUL_OK;
}

haul_status haul_module_add(haul_module *module, const char *name, haul_module *child)
{
    static const char operation[] = "haul_module_add";
    if (haul__check_module(module, operation))
        return haul_error_status();
    if (!name)
        return haul__fail_null(operation, "name");
    if (haul__check_object(child, &haul__module_class, operation, "child"))
        return haul_error_status();
    haul_status status = check_new_name(module, operation, name);
    if (status)
        return status;
    status = haul__module_check_outside(child, module, name, operation);
    if (status)
        return status;
    char *copy = haul__strdup(name);
    if (!copy ||
        !haul__grow(&module->children, &module->child_capacity, module->child_count + 1, sizeof *module->children)) {
        haul__free(copy);
        return haul__fail_memory(operation, sizeof *module->children);
    }
    haul__object_keep(child);
    HAUL__ASSERT(module->child_count < module->child_capacity && child != module);
    module->children[module->child_count++] = (haul__module_child){.name = copy, .module = child};
    return HAUL_OK;
}

static haul_status add_tensor(haul_module *module, const char *operation, const char *name, haul_tensor *tensor,
                              bool is_buffer)
{
    haul_status status = check_new_name(module, operation, name);
    if (status)
        return status;
    char *copy = haul__strdup(name);
    if (!copy ||
        !haul__grow(&module->tensors, &module->tensor_capacity, module->tensor_count + 1, sizeof *module->tensors) ||
        !haul__module_note(module, name, module->tensor_count)) {
        haul__free(copy);
        return haul__fail_memory(operation, sizeof *module->tensors);
    }
    haul__object_keep(tensor);
    HAUL__ASSERT(module->tensor_count < module->tensor_capacity && !tensor->node);
    module->tensors[module->tensor_count++] = (haul__module_tensor){copy, tensor, is_buffer};
    haul__set_role(tensor, is_buffer ? HAUL__ROLE_OTHER : HAUL__ROLE_PARAMETER);
    HAUL__ASSERT(haul__module_find_tensor(module, name, strlen(name)) == &module->tensors[module->tensor_count - 1]);
    return HAUL_OK;
}

static haul_status check_tensor(const haul_module *module, const char *operation, const char *name,
                                const haul_tensor *tensor, const char *argument)
{
    if (haul__check_module(module, operation))
        return haul_error_status();
    if (!name)
        return haul__fail_null(operation, "name");
    if (haul__is_none(tensor))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "'%s' is HAUL_NONE; leave it out instead", name);
    if (haul__check_optional(operation, argument, tensor))
        return haul_error_status();
    if (tensor->node)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument,
                          "'%s' is the result of an operation; use haul_detach(...)", name);
    return HAUL_OK;
}

/* A trainable tensor, as haul_module_add_parameter takes it. */
static haul_status check_parameter(const haul_module *module, const char *operation, const char *name,
                                   haul_tensor *parameter)
{
    haul_status status = check_tensor(module, operation, name, parameter, "parameter");
    if (status)
        return status;
    if (!haul_dtype_is_float(parameter->dtype))
        return haul__fail(HAUL_DTYPE, operation, "parameter", "'%s' is %s; only floating dtypes can be trained", name,
                          haul_dtype_name(parameter->dtype));
    return HAUL_OK;
}

haul_status haul_module_add_parameter(haul_module *module, const char *name, haul_tensor *parameter)
{
    static const char operation[] = "haul_module_add_parameter";
    haul_status       status = check_parameter(module, operation, name, parameter);
    if (status)
        return status;
    const bool required = parameter->requires_grad;
    status = haul__status_of(haul_set_requires_grad(parameter, true));
    if (!status)
        status = add_tensor(module, operation, name, parameter, false);
    if (status && !required)
        parameter->requires_grad = false;
    HAUL__ASSERT(status || parameter->requires_grad);
    return status;
}

haul_status haul_module_add_buffer(haul_module *module, const char *name, haul_tensor *buffer)
{
    static const char operation[] = "haul_module_add_buffer";
    haul_status       status = check_tensor(module, operation, name, buffer, "buffer");
    if (status)
        return status;
    if (buffer->requires_grad)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "buffer",
                          "'%s' requires a gradient; add it with haul_module_add_parameter", name);
    return add_tensor(module, operation, name, buffer, true);
}

/* ---- replacing ---- */

/* The module that owns what `path` names, and its name there. Returns NULL on failure. */
static haul_module *holder(haul_module *module, const char *path, const char **name, const char *operation)
{
    if (haul__check_module(module, operation))
        return NULL;
    if (!path) {
        haul__fail_null(operation, "path");
        return NULL;
    }
    const char *dot = strrchr(path, '.');
    *name = dot ? dot + 1 : path;
    return dot ? haul__module_walk(module, path, (size_t)(dot - path), operation) : module;
}

haul_status haul_module_replace(haul_module *module, const char *path, haul_module *child)
{
    static const char operation[] = "haul_module_replace";
    const char       *name;
    haul_module      *owner = holder(module, path, &name, operation);
    if (!owner || haul__check_object(child, &haul__module_class, operation, "child"))
        return haul_error_status();
    if (!haul__module_walk(owner, name, strlen(name), operation) || !*name)
        return *name ? haul_error_status()
                     : haul__fail(HAUL_INVALID_ARGUMENT, operation, "path", "unknown child '%s'", path);
    if (haul__module_check_outside(child, owner, path, operation))
        return haul_error_status();
    haul__module_child *place = haul__module_find_child(owner, name, strlen(name));
    HAUL__ASSERT(place && place->module);
    haul_module *former = place->module;
    haul__object_keep(child);
    place->module = child;
    haul__object_release(former);
    return HAUL_OK;
}

haul_status haul_module_replace_parameter(haul_module *module, const char *path, haul_tensor *parameter)
{
    static const char operation[] = "haul_module_replace_parameter";
    const char       *name;
    haul_module      *owner = holder(module, path, &name, operation);
    if (!owner)
        return haul_error_status();
    if (haul__failed(haul__module_tensor_at(module, path, false, operation)))
        return haul_error_status();
    haul_status status = check_parameter(owner, operation, path, parameter);
    if (!status)
        status = haul__status_of(haul_set_requires_grad(parameter, true));
    if (status)
        return status;
    haul__module_tensor *place = haul__module_find_tensor(owner, name, strlen(name));
    HAUL__ASSERT(place && !place->is_buffer);
    haul_tensor *former = place->tensor;
    haul__object_keep(parameter);
    place->tensor = parameter;
    haul__set_role(parameter, HAUL__ROLE_PARAMETER);
    haul__object_release(former);
    return HAUL_OK;
}

/* ---- training or evaluation ---- */

static void set_training(haul_module *m, const void *training)
{
    m->training = *(const bool *)training;
}

haul_status haul_module_train(haul_module *module, bool training)
{
    static const char operation[] = "haul_module_train";
    haul__walk        w = {.root = module};
    if (haul__check_module(module, operation) || haul__walk_reserve(&w, operation))
        return haul_error_status();
    haul__walk_visit(&w, set_training, &training);
    return HAUL_OK;
}

bool haul_module_is_training(const haul_module *module)
{
    return haul__check_module(module, "haul_module_is_training") == HAUL_OK && module->training;
}
