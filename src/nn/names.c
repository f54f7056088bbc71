/* Finds what a module contains, by name and by dotted path. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fnv.h"
#include "core/error.h"
#include "core/tensor.h"
#include "nn/module.h"
#include "nn/walk.h"

static const void *key_of(const char *name, size_t length)
{
    return (const void *)(uintptr_t)(haul__fnv(HAUL__FNV, name, length) | 1); /* no key is NULL */
}

static bool has_name(const haul__module_tensor *t, const char *name, size_t length)
{
    return strlen(t->name) == length && !memcmp(t->name, name, length);
}

/* The map has the first one of several names with the same hash. */
haul__module_tensor *haul__module_find_tensor(const haul_module *m, const char *name, size_t length)
{
    const haul__map_entry *e = haul__map_find(&m->numbers, key_of(name, length));
    if (!e)
        return NULL;
    for (size_t i = (uintptr_t)e->value - 1; i < m->tensor_count; i++)
        if (has_name(&m->tensors[i], name, length))
            return &m->tensors[i];
    return NULL;
}

bool haul__module_note(haul_module *m, const char *name, size_t number)
{
    bool             is_new;
    haul__map_entry *e = haul__map_insert(&m->numbers, key_of(name, strlen(name)), &is_new);
    if (e && is_new)
        e->value = (void *)(uintptr_t)(number + 1);
    return e != NULL;
}

haul__module_child *haul__module_find_child(const haul_module *m, const char *name, size_t length)
{
    for (size_t i = 0; i < m->child_count; i++)
        if (strlen(m->children[i].name) == length && !memcmp(m->children[i].name, name, length))
            return &m->children[i];
    return NULL;
}

haul_status haul__module_check_outside(haul_module *m, const haul_module *holder, const char *name,
                                       const char *operation)
{
    haul__walk       w = {.root = m};
    haul__walk_step *step = NULL;
    bool             inside = m == holder;
    if (!inside && haul__object_is_shared(holder)) /* else it is in no module */
        while (!inside && (step = haul__walk_next(&w)))
            inside = step->module == holder;
    const bool failed = w.failed;
    haul__walk_free(&w);
    if (failed)
        return haul__fail_memory(operation, sizeof *step);
    return inside ? haul__fail(HAUL_INVALID_ARGUMENT, operation, "child", "'%s' would make the %s contain itself", name,
                               holder->kind)
                  : HAUL_OK;
}

/* The existing names, "conv1, conv2, ...", shortened to the buffer. */
static const char *list_names(const haul_module *m, bool children, bool buffers, char *out, size_t size)
{
    size_t used = 0, total = children ? m->child_count : m->tensor_count;
    out[0] = 0;
    HAUL__ASSERT(size > 6);
    for (size_t i = 0; i < total; i++) {
        if (!children && m->tensors[i].is_buffer != buffers)
            continue;
        const char *name = children ? m->children[i].name : m->tensors[i].name;
        int         n = snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
        if (n < 0 || (size_t)n + 6 > size - used) {
            snprintf(out + used, size - used, ", ...");
            return out;
        }
        HAUL__ASSERT(used + (size_t)n < size);
        used += (size_t)n;
    }
    return used ? out : "none";
}

haul_module *haul__module_walk(haul_module *module, const char *path, size_t length, const char *operation)
{
    haul_module *m = module;
    size_t       at = 0;
    while (at < length) {
        const char         *dot = memchr(path + at, '.', length - at);
        size_t              end = dot ? (size_t)(dot - path) : length;
        haul__module_child *child = haul__module_find_child(m, path + at, end - at);
        if (!child) {
            char names[300];
            haul__fail(HAUL_INVALID_ARGUMENT, operation, "path", "the %s has no child '%.*s'; it has: %s", m->kind,
                       (int)(end - at < 100 ? end - at : 100), path + at,
                       list_names(m, true, false, names, sizeof names));
            return NULL;
        }
        HAUL__ASSERT(end <= length);
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
    return haul__module_walk(module, path, strlen(path), "haul_module_child");
}

haul_tensor *haul__module_tensor_at(haul_module *module, const char *path, bool is_buffer, const char *operation)
{
    if (haul__check_module(module, operation))
        return NULL;
    if (!path) {
        haul__fail_null(operation, "path");
        return NULL;
    }
    const char  *dot = strrchr(path, '.');
    const char  *name = dot ? dot + 1 : path;
    haul_module *m = dot ? haul__module_walk(module, path, (size_t)(dot - path), operation) : module;
    if (!m)
        return NULL;
    haul__module_tensor *found = haul__module_find_tensor(m, name, strlen(name));
    if (found && found->is_buffer == is_buffer)
        return found->tensor;
    char names[300];
    haul__fail(HAUL_INVALID_ARGUMENT, operation, "path", "the %s has no %s '%.100s'; it has: %s", m->kind,
               is_buffer ? "buffer" : "parameter", name, list_names(m, false, is_buffer, names, sizeof names));
    return NULL;
}

haul_tensor *haul_module_parameter(haul_module *module, const char *path)
{
    return haul__result(haul__module_tensor_at(module, path, false, "haul_module_parameter"));
}

haul_tensor *haul_module_buffer(haul_module *module, const char *path)
{
    return haul__result(haul__module_tensor_at(module, path, true, "haul_module_buffer"));
}

/* ---- names of inputs and results ---- */

static haul_status refuse_names(const char *text, const char *operation, const char *what, const char *why)
{
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, what, "the names \"%.100s\" %s", text, why);
}

/* Parses a name and cuts off its mark: "mask?" is optional, "more..." stands for any number of inputs. */
static haul_status add_name(haul__names *names, char *name, const char *text, const char *operation, const char *what)
{
    size_t length;
    bool   optional = false;
    name += strspn(name, " ");
    length = strcspn(name, " ?.");
    if (!length)
        return refuse_names(text, operation, what, "have an empty one");
    if (names->open)
        return refuse_names(text, operation, what, "go on after the one with dots");
    if (names->count == HAUL_MAX_ARGUMENTS)
        return refuse_names(text, operation, what, "are more than HAUL_MAX_ARGUMENTS");
    const char *mark = name + length;
    names->open = !strncmp(mark, "...", 3);
    optional = names->open || *mark == '?';
    mark += names->open ? 3 : optional ? 1 : 0;
    if (mark[strspn(mark, " ")])
        return refuse_names(text, operation, what, "are not separated by commas, or have a mark other than ? and ...");
    if (!optional && names->required < names->count)
        return refuse_names(text, operation, what, "have one that is needed after one that may be left out");
    HAUL__ASSERT(names->required <= names->count);
    name[length] = 0;
    names->items[names->count++] = name;
    names->required += !optional;
    HAUL__ASSERT(names->required <= names->count && names->count <= HAUL_MAX_ARGUMENTS);
    return HAUL_OK;
}

void haul__names_free(haul__names *names)
{
    haul__free(names->given);
    haul__free(names->text);
    *names = (haul__names){0};
}

haul_status haul__names_parse(haul__names *names, const char *text, const char *operation, const char *what)
{
    haul_status status = HAUL_OK;
    *names = (haul__names){.given = haul__strdup(text), .text = haul__strdup(text)};
    if (!names->given || !names->text)
        status = haul__fail_memory(operation, strlen(text) + 1);
    for (char *at = names->text; at && !status;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = 0;
        status = add_name(names, at, text, operation, what);
        at = comma ? comma + 1 : NULL;
    }
    HAUL__ASSERT(status || names->count > 0);
    if (status)
        haul__names_free(names);
    return status;
}

const char *haul__names_at(const haul__names *names, int i)
{
    return names->items[i < names->count ? i : names->count - 1];
}
