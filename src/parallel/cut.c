#include "parallel/cut.h"

#include <haul/autograd.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fnv.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/tensor.h"
#include "nn/module.h"
#include "nn/tensors.h"

enum { PATH = 200 };

/* ---- units ---- */

/* Its children can be called one by one in its place. */
static bool opens(const haul_module *m)
{
    return haul__calls_in_order(m) && m->run == haul__forward && m->child_count && !m->hook_count && !m->tensor_count;
}

static haul_status add_unit(haul__cut *cut, const char *path, haul_module *m, const char *operation)
{
    if (cut->count == cut->room) {
        const int       room = cut->room ? 2 * cut->room : 16;
        haul__cut_unit *more = haul__realloc(cut->units, (size_t)room, sizeof *more);
        if (!more)
            return haul__fail_memory(operation, (size_t)room * sizeof *more);
        cut->units = more;
        cut->room = room;
    }
    char *copy = haul__strdup(path);
    if (!copy)
        return haul__fail_memory(operation, strlen(path) + 1);
    HAUL__ASSERT(cut->count < cut->room && *path);
    cut->units[cut->count++] = (haul__cut_unit){.path = copy, .module = m};
    return HAUL_OK;
}

/* A sequence on the way from the network to the present module. */
typedef struct level {
    const haul_module *module;
    size_t             next;   /* its next child */
    size_t             length; /* of its path */
} level;

/* Sequences that are nested deeper than this stay whole. */
enum { DEEPEST = 16 };

static haul_status find_units(haul__cut *cut, const haul_module *module, const char *operation)
{
    level       levels[DEEPEST] = {{.module = module}};
    char        path[PATH] = "";
    int         depth = 1;
    haul_status status = HAUL_OK;
    while (depth && !status) {
        level *now = &levels[depth - 1];
        HAUL__ASSERT(depth <= DEEPEST && now->next <= now->module->child_count && now->length < PATH);
        if (now->next == now->module->child_count) {
            depth--;
            continue;
        }
        const haul__module_child *child = &now->module->children[now->next++];
        const size_t              length = now->length + strlen(child->name) + (now->length ? 1 : 0);
        if (length >= PATH)
            return haul__fail(HAUL_UNSUPPORTED, operation, "module", "the name of a module within '%.80s' is too long",
                              path);
        haul__snprintf(path + now->length, PATH - now->length, "%s%s", now->length ? "." : "", child->name);
        if (depth < DEEPEST && opens(child->module))
            levels[depth++] = (level){.module = child->module, .length = length};
        else
            status = add_unit(cut, path, child->module, operation);
    }
    return status;
}

/* The name of a tensor within the module at this path. */
static bool is_within(const char *name, const char *path)
{
    const size_t length = strlen(path);
    HAUL__ASSERT(length > 0);
    return strncmp(name, path, length) == 0 && (name[length] == '.' || name[length] == '\0');
}

static int unit_of(const haul__cut *cut, const char *name)
{
    for (int u = 0; u < cut->count; u++)
        if (is_within(name, cut->units[u].path))
            return u;
    return 0;
}

/* The child of this number is in a part that begins with it or before it. */
static const haul__module_child *part_of(const haul_module *m, size_t number)
{
    for (size_t i = 0; i <= number; i++)
        if (i + m->children[i].part > number)
            return &m->children[i];
    return NULL;
}

const void *haul__cut_part(const haul_module *network, const haul__cut_unit *unit)
{
    const haul_module *now = network;
    const char        *at = unit->path;
    while (now != unit->module) {
        size_t i = 0;
        while (i < now->child_count && !is_within(at, now->children[i].name))
            i++;
        HAUL__ASSERT(i < now->child_count); /* the path leads to the unit */
        const haul__module_child *part = i < now->child_count ? part_of(now, i) : NULL;
        if (part || i == now->child_count)
            return part;
        at += strlen(now->children[i].name) + 1;
        now = now->children[i].module;
    }
    return NULL;
}

static void weigh(haul__cut *cut, const haul_named_tensor *list, int count)
{
    for (int i = 0; i < count; i++)
        if (!list[i].is_buffer && haul_requires_grad(list[i].tensor))
            cut->units[unit_of(cut, list[i].name)].bytes += (int64_t)haul_tensor_bytes(list[i].tensor);
}

/* ---- stages ---- */

int haul__cut_stage(const haul__cut *cut, const char *name)
{
    const int u = unit_of(cut, name);
    int       stage = 0;
    HAUL__ASSERT(cut->first[0] == 0 && cut->first[cut->stages] == cut->count);
    while (stage + 1 < cut->stages && u >= cut->first[stage + 1])
        stage++;
    return stage;
}

/* least[s * (units + 1) + end]: the bytes of the largest of the first s + 1 stages, if they end before unit `end`; -1:
 * one of them would have no parameter. from: where the last of them begins then. */
static void fill_table(const haul__cut *cut, int64_t *least, int *from)
{
    const int row = cut->count + 1;
    HAUL__ASSERT(0 < cut->stages && cut->stages <= cut->count);
    for (int s = 0; s < cut->stages; s++)
        for (int end = 0; end <= cut->count; end++) {
            int64_t *best = &least[s * row + end], bytes = 0;
            *best = -1;
            for (int begin = end - 1; begin >= 0; begin--) {
                bytes += cut->units[begin].bytes;
                const int64_t before = s ? least[(s - 1) * row + begin] : begin ? -1 : 0;
                if (before < 0 || !bytes)
                    continue;
                const int64_t most = before > bytes ? before : bytes;
                if (*best < 0 || most < *best) {
                    *best = most;
                    from[s * row + end] = begin;
                }
            }
        }
}

static haul_status cut_evenly(haul__cut *cut, const char *operation)
{
    const size_t row = (size_t)cut->count + 1, size = row * (size_t)cut->stages;
    int64_t     *least = haul__calloc(size, sizeof *least);
    int         *from = haul__calloc(size, sizeof *from);
    haul_status  status = least && from ? HAUL_OK : haul__fail_memory(operation, size * sizeof *least);
    if (!status) {
        fill_table(cut, least, from);
        int end = cut->count;
        if (least[size - 1] < 0)
            status = haul__fail(HAUL_INVALID_ARGUMENT, operation, "stages",
                                "the module cannot be cut into %d stages that each have a parameter which requires a "
                                "gradient; use fewer stages",
                                cut->stages);
        for (int s = cut->stages - 1; s >= 0 && !status; s--)
            end = cut->first[s] = from[(size_t)s * row + (size_t)end];
    }
    HAUL__ASSERT(status || cut->first[0] == 0);
    haul__free(least);
    haul__free(from);
    return status;
}

/* The first unit within the module of this name; -1: there is none. */
static int unit_named(const haul__cut *cut, const char *name, size_t length)
{
    for (int u = 0; u < cut->count; u++)
        if (strncmp(cut->units[u].path, name, length) == 0 &&
            (cut->units[u].path[length] == '.' || cut->units[u].path[length] == '\0'))
            return u;
    return -1;
}

static haul_status cut_at(haul__cut *cut, const char *firsts, const char *operation)
{
    HAUL__ASSERT(cut->first[0] == 0 && cut->first[cut->stages] == cut->count);
    const char *at = firsts;
    for (int s = 1; s < cut->stages; s++) {
        const size_t length = strcspn(at, ",");
        const int    u = length ? unit_named(cut, at, length) : -1;
        if (u <= cut->first[s - 1] || (s + 1 == cut->stages && at[length]))
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "cuts",
                              "the cuts are \"%.100s\"; the names of %d modules are expected, in the order in which "
                              "they are called, with which the stages after the first one begin",
                              firsts, cut->stages - 1);
        cut->first[s] = u;
        at += length + (at[length] == ',');
    }
    for (int s = 0; s < cut->stages; s++) {
        int64_t bytes = 0;
        for (int u = cut->first[s]; u < cut->first[s + 1]; u++)
            bytes += cut->units[u].bytes;
        if (!bytes)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "cuts",
                              "the stage that begins with '%.80s' has no parameter that requires a gradient; choose "
                              "another place",
                              cut->units[cut->first[s]].path);
    }
    return HAUL_OK;
}

/* Stages share no memory. */
static haul_status check_ties(const haul__cut *cut, const haul_named_tensor *list, int count, const char *operation)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++) {
            const int a = haul__cut_stage(cut, list[k].name), b = haul__cut_stage(cut, list[i].name);
            if (a != b && list[i].tensor->storage == list[k].tensor->storage)
                return haul__fail(HAUL_UNSUPPORTED, operation, "module",
                                  "'%.80s' of stage %d and '%.80s' of stage %d share their memory, and ranks cannot; "
                                  "cut the module so that one stage has both, or give each its own",
                                  list[k].name, a, list[i].name, b);
        }
    return HAUL_OK;
}

static haul_status choose(haul__cut *cut, haul_module *module, const char *firsts, const char *operation)
{
    int                count = 0;
    haul_named_tensor *list = haul__module_tensor_list(module, &count);
    if (!list)
        return haul__fail_within(operation);
    weigh(cut, list, count);
    HAUL__ASSERT(cut->first[cut->stages] == cut->count);
    haul_status status = firsts ? cut_at(cut, firsts, operation) : cut_evenly(cut, operation);
    if (!status)
        status = check_ties(cut, list, count, operation);
    haul__free(list);
    return status;
}

haul_status haul__cut_make(haul__cut *cut, haul_module *module, int stages, const char *firsts, const char *operation)
{
    *cut = (haul__cut){.stages = stages};
    if (!opens(module))
        return haul__fail(HAUL_UNSUPPORTED, operation, "stages",
                          "the %s has a forward function or hooks of its own, so it cannot be cut into stages; modules "
                          "that call their children in order can, as haul_nn_sequential makes them",
                          module->kind);
    haul_status status = find_units(cut, module, operation);
    if (!status && cut->count < stages)
        status = haul__fail(HAUL_INVALID_ARGUMENT, operation, "stages",
                            ".stages is %d, but the %s has %d modules that are called in order", stages, module->kind,
                            cut->count);
    if (!status && !(cut->first = haul__calloc((size_t)stages + 1, sizeof *cut->first)))
        status = haul__fail_memory(operation, ((size_t)stages + 1) * sizeof *cut->first);
    if (!status) {
        cut->first[stages] = cut->count;
        status = choose(cut, module, firsts, operation);
    }
    if (status)
        haul__cut_free(cut);
    return status;
}

void haul__cut_free(haul__cut *cut)
{
    for (int u = 0; u < cut->count; u++)
        haul__free(cut->units[u].path);
    haul__free(cut->units);
    haul__free(cut->first);
    *cut = (haul__cut){.units = NULL};
}

uint32_t haul__cut_hash(const haul__cut *cut)
{
    uint64_t hash = HAUL__FNV;
    for (int s = 1; s < cut->stages; s++) {
        HAUL__ASSERT(cut->first[s - 1] < cut->first[s] && cut->first[s] < cut->count);
        const char *path = cut->units[cut->first[s]].path;
        hash = haul__fnv(hash, path, strlen(path) + 1);
    }
    return (uint32_t)(hash ^ (hash >> 32));
}
