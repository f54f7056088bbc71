/* Lists of a module's tensors, each with its dotted name, and of its children. */
#include "nn/tensors.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "nn/module.h"
#include "nn/walk.h"

/* Iterates over a module's tensors and gives each its dotted name. */
typedef struct listing {
    haul_module       *root;
    haul_named_tensor *out;
    int                capacity, count;
    bool               buffers;   /* whether this pass lists buffers or parameters */
    size_t             next_name; /* names are looked up in about the same order every time */
    char              *path;
    size_t             length, path_capacity;
} listing;

/* The root's own copy of the path, which lives as long as the root. NULL if memory is exhausted. */
static const char *interned(listing *l)
{
    haul_module *m = l->root;
    HAUL__ASSERT(l->next_name <= m->name_count);
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
    HAUL__ASSERT(m->name_count < m->name_capacity);
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
    HAUL__ASSERT(l->length < l->path_capacity && !l->path[l->length]);
    return true;
}

static void path_cut(listing *l, size_t length)
{
    l->length = length;
    if (l->path)
        l->path[length] = 0;
}

static bool list_own(listing *l, const haul_module *m)
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
        HAUL__ASSERT(l->length == length);
        l->count++;
    }
    return true;
}

static bool list(listing *l)
{
    haul__walk       w = {.root = l->root};
    haul__walk_step *step;
    bool             fine = true;
    path_cut(l, 0);
    while (fine && (step = haul__walk_next(&w))) {
        HAUL__ASSERT(step == &w.steps[w.count - 1]);
        if (w.count > 1) {
            path_cut(l, w.steps[w.count - 2].mark);
            fine = path_push(l, haul__walk_child(&w)->name);
        }
        step->mark = l->length; /* of the path of this module */
        fine = fine && list_own(l, step->module);
    }
    fine = fine && !w.failed;
    haul__walk_free(&w);
    return fine;
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
    bool    listed = list(&l);
    l.buffers = true;
    listed = listed && list(&l);
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
    HAUL__ASSERT(!n || (all[n - 1].name && all[n - 1].tensor));
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

int haul_module_children(haul_module *module, haul_named_module *out, int capacity)
{
    static const char operation[] = "haul_module_children";
    if (haul__check_module(module, operation))
        return -1;
    if (!out && capacity > 0) {
        haul__fail_null(operation, "out");
        return -1;
    }
    for (size_t i = 0; i < module->child_count && (int)i < capacity; i++)
        out[i] = (haul_named_module){module->children[i].name, module->children[i].module};
    return (int)module->child_count;
}
