/* Modules: making them, and their named parameters, buffers and children. */
#include <haul/autograd.h>
#include <haul/dtype.h>
#include <haul/random.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "nn/module.h"

static void destroy(void *object)
{
    haul_module *m = object;

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
    haul__free(m->tensors);
    haul__free(m->children);
    haul__free(m->names);
    haul__free(m->state);
    haul__free(m->kind);
    m->kind = NULL; /* messages about it may come later */
    haul__object_free(&m->object, sizeof *m);
}

static void describe(const void *object, bool dead, char *out, size_t size)
{
    const haul_module *m = object;
    snprintf(out, size, "module%s%s", dead ? "" : " ", dead ? "" : m->kind);
}

const haul__class haul__module_class = {.name = "module", .destroy = destroy, .describe = describe};

/* ---- making ---- */

static haul_module *new_module(const char *kind, haul_forward *forward, size_t state_bytes, const char *operation)
{
    if (!kind || !forward) {
        haul__fail_null(operation, kind ? "forward" : "kind");
        return NULL;
    }
    haul_module *m = haul__object_new_zeroed(sizeof *m, &haul__module_class);
    if (!m) {
        haul__fail_memory(operation, sizeof *m);
        return NULL;
    }
    m->forward = forward;
    m->training = true;
    m->kind = haul__strdup(kind);
    m->state = haul__calloc(1, state_bytes ? state_bytes : 1);
    if (!m->kind || !m->state) {
        haul__object_release(m);
        haul__fail_memory(operation, state_bytes);
        return NULL;
    }
    return haul__own(m, operation);
}

haul_module *haul_module_new(const char *kind, haul_forward *forward)
{
    return new_module(kind, forward, 0, "haul_module_new");
}

haul_module *haul_module_new_with_state(const char *kind, haul_forward *forward, size_t state_bytes)
{
    return new_module(kind, forward, state_bytes, "haul_module_new_with_state");
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

haul_status haul__module_draw_parameter(haul_module *module, const char *name, haul_shape shape, int64_t fan_in)
{
    double       bound = fan_in > 0 ? 1 / sqrt((double)fan_in) : 0;
    haul_tensor *t = haul_uniform(HAUL_F32, shape, -bound, bound);

    return haul__failed(t) ? haul_error_status() : haul_module_add_parameter(module, name, t);
}

/* ---- names ---- */

static haul__module_tensor *find_tensor(const haul_module *m, const char *name, size_t length)
{
    for (size_t i = 0; i < m->tensor_count; i++)
        if (strlen(m->tensors[i].name) == length && !memcmp(m->tensors[i].name, name, length))
            return &m->tensors[i];
    return NULL;
}

static haul__module_child *find_child(const haul_module *m, const char *name, size_t length)
{
    for (size_t i = 0; i < m->child_count; i++)
        if (strlen(m->children[i].name) == length && !memcmp(m->children[i].name, name, length))
            return &m->children[i];
    return NULL;
}

static haul_status check_new_name(const haul_module *m, const char *operation, const char *name)
{
    if (!*name)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "name", "a name must not be empty");
    if (strchr(name, '.'))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "name",
                          "the name '%s' has a dot; dots join the names of modules", name);
    if (find_tensor(m, name, strlen(name)) || find_child(m, name, strlen(name)))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "name", "the %s has something named '%s' already", m->kind,
                          name);
    return HAUL_OK;
}

/* Does `m` hold `wanted`, at any depth? */
static bool holds(const haul_module *m, const haul_module *wanted)
{
    if (m == wanted)
        return true;
    for (size_t i = 0; i < m->child_count; i++)
        if (holds(m->children[i].module, wanted))
            return true;
    return false;
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
    if (holds(child, module))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "child", "'%s' would make the %s contain itself", name,
                          module->kind);
    char *copy = haul__strdup(name);
    if (!copy ||
        !haul__grow(&module->children, &module->child_capacity, module->child_count + 1, sizeof *module->children)) {
        haul__free(copy);
        return haul__fail_memory(operation, sizeof *module->children);
    }
    haul__object_keep(child);
    module->children[module->child_count++] = (haul__module_child){copy, child};
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
        !haul__grow(&module->tensors, &module->tensor_capacity, module->tensor_count + 1, sizeof *module->tensors)) {
        haul__free(copy);
        return haul__fail_memory(operation, sizeof *module->tensors);
    }
    haul__object_keep(tensor);
    module->tensors[module->tensor_count++] = (haul__module_tensor){copy, tensor, is_buffer};
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
                          "'%s' is the result of an operation; give haul_detach(...) of it", name);
    return HAUL_OK;
}

haul_status haul_module_add_parameter(haul_module *module, const char *name, haul_tensor *parameter)
{
    static const char operation[] = "haul_module_add_parameter";
    haul_status       status = check_tensor(module, operation, name, parameter, "parameter");

    if (status)
        return status;
    if (!haul_dtype_is_float(parameter->dtype))
        return haul__fail(HAUL_DTYPE, operation, "parameter", "'%s' is %s; only floating dtypes can be trained", name,
                          haul_dtype_name(parameter->dtype));
    bool required = parameter->requires_grad;
    if (haul__failed(haul_set_requires_grad(parameter, true)))
        return haul_error_status();
    status = add_tensor(module, operation, name, parameter, false);
    if (status && !required)
        parameter->requires_grad = false;
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

/* ---- looking up ---- */

/* The names there are, "conv1, conv2, ...", shortened to the buffer. */
static const char *list_names(const haul_module *m, bool children, bool buffers, char *out, size_t size)
{
    size_t used = 0, total = children ? m->child_count : m->tensor_count;

    out[0] = 0;
    for (size_t i = 0; i < total; i++) {
        if (!children && m->tensors[i].is_buffer != buffers)
            continue;
        const char *name = children ? m->children[i].name : m->tensors[i].name;
        int         n = snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
        if (n < 0 || (size_t)n + 6 > size - used) {
            snprintf(out + used, size - used, ", ...");
            return out;
        }
        used += (size_t)n;
    }
    return used ? out : "none";
}

/* The module that the first `length` characters of `path` name. */
static haul_module *walk(haul_module *module, const char *path, size_t length, const char *operation)
{
    haul_module *m = module;
    size_t       at = 0;

    while (at < length) {
        const char         *dot = memchr(path + at, '.', length - at);
        size_t              end = dot ? (size_t)(dot - path) : length;
        haul__module_child *child = find_child(m, path + at, end - at);
        if (!child) {
            char names[300];
            haul__fail(HAUL_INVALID_ARGUMENT, operation, "path", "the %s has no child '%.*s'; it has: %s", m->kind,
                       (int)(end - at < 100 ? end - at : 100), path + at,
                       list_names(m, true, false, names, sizeof names));
            return NULL;
        }
        m = child->module;
        at = end + 1;
    }
    return m;
}

haul_module *haul_module_child(haul_module *module, const char *path)
{
    if (haul__check_module(module, "haul_module_child"))
        return NULL;
    if (!path) {
        haul__fail_null("haul_module_child", "path");
        return NULL;
    }
    return walk(module, path, strlen(path), "haul_module_child");
}

static haul_tensor *tensor_at(haul_module *module, const char *path, bool is_buffer, const char *operation)
{
    if (haul__check_module(module, operation))
        return NULL;
    if (!path) {
        haul__fail_null(operation, "path");
        return NULL;
    }
    const char  *dot = strrchr(path, '.');
    const char  *name = dot ? dot + 1 : path;
    haul_module *m = dot ? walk(module, path, (size_t)(dot - path), operation) : module;
    if (!m)
        return NULL;
    haul__module_tensor *found = find_tensor(m, name, strlen(name));
    if (found && found->is_buffer == is_buffer)
        return found->tensor;
    char names[300];
    haul__fail(HAUL_INVALID_ARGUMENT, operation, "path", "the %s has no %s '%.100s'; it has: %s", m->kind,
               is_buffer ? "buffer" : "parameter", name, list_names(m, false, is_buffer, names, sizeof names));
    return NULL;
}

haul_tensor *haul_module_parameter(haul_module *module, const char *path)
{
    return haul__result(tensor_at(module, path, false, "haul_module_parameter"));
}

haul_tensor *haul_module_buffer(haul_module *module, const char *path)
{
    return haul__result(tensor_at(module, path, true, "haul_module_buffer"));
}

/* ---- all tensors ---- */

/* A walk over a module's tensors that gives each its dotted name. */
typedef struct listing {
    haul_module       *root;
    haul_named_tensor *out;
    int                capacity, count;
    bool               buffers;   /* this pass lists buffers, else parameters */
    size_t             next_name; /* names are asked for in about the same order every time */
    char              *path;
    size_t             length, path_capacity;
} listing;

/* The root's own copy of the path, which stays as long as the root. NULL when memory is exhausted. */
static const char *interned(listing *l)
{
    haul_module *m = l->root;

    for (size_t i = 0; i < m->name_count; i++) {
        size_t at = (l->next_name + i) % m->name_count;
        if (!strcmp(m->names[at], l->path)) {
            l->next_name = at + 1;
            return m->names[at];
        }
    }
    char *copy = haul__strdup(l->path);
    if (!copy || !haul__grow(&m->names, &m->name_capacity, m->name_count + 1, sizeof *m->names)) {
        haul__free(copy);
        return NULL;
    }
    m->names[m->name_count++] = copy;
    return copy;
}

static bool path_push(listing *l, const char *name)
{
    size_t length = strlen(name);

    if (!haul__grow(&l->path, &l->path_capacity, l->length + length + 2, 1))
        return false;
    if (l->length)
        l->path[l->length++] = '.';
    memcpy(l->path + l->length, name, length + 1);
    l->length += length;
    return true;
}

static void path_cut(listing *l, size_t length)
{
    l->length = length;
    if (l->path)
        l->path[length] = 0;
}

static bool list(listing *l, const haul_module *m)
{
    size_t length = l->length;

    for (size_t i = 0; i < m->tensor_count; i++) {
        const haul__module_tensor *t = &m->tensors[i];
        if (t->is_buffer != l->buffers)
            continue;
        if (l->count < l->capacity) {
            const char *name = path_push(l, t->name) ? interned(l) : NULL;
            if (!name)
                return false;
            l->out[l->count] = (haul_named_tensor){name, t->tensor, t->is_buffer};
            path_cut(l, length);
        }
        l->count++;
    }
    for (size_t i = 0; i < m->child_count; i++) {
        if (!path_push(l, m->children[i].name) || !list(l, m->children[i].module))
            return false;
        path_cut(l, length);
    }
    return true;
}

int haul_module_tensors(haul_module *module, haul_named_tensor *out, int capacity)
{
    static const char operation[] = "haul_module_tensors";

    if (haul__check_module(module, operation))
        return -1;
    if (!out && capacity > 0) {
        haul__fail_null(operation, "out");
        return -1;
    }
    listing l = {.root = module, .out = out, .capacity = capacity};
    bool    listed = list(&l, module);
    l.buffers = true;
    path_cut(&l, 0);
    listed = listed && list(&l, module);
    haul__free(l.path);
    if (!listed) {
        haul__fail_memory(operation, l.path_capacity);
        return -1;
    }
    return l.count;
}

haul_named_tensor *haul__module_tensor_list(haul_module *module, int *count)
{
    int n = haul_module_tensors(module, NULL, 0);

    if (n < 0)
        return NULL;
    haul_named_tensor *all = haul__calloc((size_t)n + 1, sizeof *all);
    if (!all) {
        haul__fail_memory("haul_module_tensors", (size_t)n * sizeof *all);
        return NULL;
    }
    if (haul_module_tensors(module, all, n) != n) {
        haul__free(all);
        return NULL;
    }
    *count = n;
    return all;
}

int64_t haul_module_parameter_count(haul_module *module)
{
    int                n = 0;
    int64_t            elements = 0;
    haul_named_tensor *all = NULL;

    if (haul__check_module(module, "haul_module_parameter_count") == HAUL_OK)
        all = haul__module_tensor_list(module, &n);
    if (!all)
        return -1;
    for (int i = 0; i < n && !all[i].is_buffer; i++) {
        bool shared = false; /* one tensor under two names counts once */
        for (int j = 0; j < i; j++)
            shared = shared || all[j].tensor == all[i].tensor;
        if (!shared && !haul__add_size(elements, all[i].tensor->count, &elements)) {
            haul__fail(HAUL_SHAPE, "haul_module_parameter_count", "module", "the number of parameters overflows");
            elements = -1;
            break;
        }
    }
    haul__free(all);
    return elements;
}

/* ---- training or evaluation ---- */

static void set_training(haul_module *m, bool training)
{
    m->training = training;
    for (size_t i = 0; i < m->child_count; i++)
        set_training(m->children[i].module, training);
}

haul_status haul_module_train(haul_module *module, bool training)
{
    if (haul__check_module(module, "haul_module_train"))
        return haul_error_status();
    set_training(module, training);
    return HAUL_OK;
}

bool haul_module_is_training(const haul_module *module)
{
    return haul__check_module(module, "haul_module_is_training") == HAUL_OK && module->training;
}
