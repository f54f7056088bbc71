#include "plan/layers.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

static haul__layer *find(const haul__layers *l, const char *path)
{
    for (size_t i = 0; i < l->count; i++)
        if (!strcmp(l->items[i].path, path))
            return &l->items[i];
    return NULL;
}

static bool add(haul__layers *l, const haul_call_event *event)
{
    if (!haul__grow(&l->items, &l->room, l->count + 1, sizeof *l->items))
        return false;
    HAUL__ASSERT(l->count < l->room && event->depth >= 0);
    haul__layer *layer = &l->items[l->count++];
    *layer = (haul__layer){.depth = event->depth, .is_leaf = true};
    snprintf(layer->path, sizeof layer->path, "%s", event->path);
    snprintf(layer->kind, sizeof layer->kind, "%s", haul_module_kind(event->module));
    return true;
}

/* The layers of calls that are under way are the last ones of lesser depths. */
static void mark_parent(haul__layers *l, int depth)
{
    for (size_t i = l->count; i-- > 0;)
        if (l->items[i].depth < depth) {
            l->items[i].is_leaf = false;
            return;
        }
}

void haul__layers_watch(const haul_call_event *event, void *layers)
{
    haul__layers *l = layers;
    haul__layer  *known = find(l, event->path);
    HAUL__ASSERT(event->path && event->module && l->count <= l->room);
    if (!event->done) {
        if (!known)
            l->failed = !add(l, event) || l->failed;
        mark_parent(l, event->depth);
    } else if (known && !known->output.ndim && event->y->count) {
        known->output = haul_tensor_shape(event->y->tensors[0]);
    }
}

/* True if the name is that of the layer, or of a part of it. */
static bool belongs_to(const char *name, const haul__layer *layer)
{
    const size_t length = strlen(layer->path);
    return !length || (!strncmp(name, layer->path, length) && (!name[length] || name[length] == '.'));
}

void haul__layers_count_flops(haul__layers *l, const haul_estimate_result *step)
{
    for (int64_t i = 0; i < step->operation_count; i++) {
        const haul_estimate_operation *o = &step->operations[i];
        for (size_t k = 0; k < l->count && *o->module; k++)
            if (belongs_to(o->module, &l->items[k]))
                l->items[k].flops += o->flops;
    }
}

static void count_tensor(haul__layers *l, const haul_named_tensor *t)
{
    if (t->is_buffer)
        return;
    HAUL__ASSERT(t->tensor && t->name);
    l->parameter_bytes += (int64_t)haul_tensor_bytes(t->tensor);
    for (size_t k = 0; k < l->count; k++)
        if (belongs_to(t->name, &l->items[k]))
            l->items[k].parameters += haul_tensor_count(t->tensor);
}

haul_status haul__layers_count_parameters(haul__layers *l, haul_module *net)
{
    int                count = haul_module_tensors(net, NULL, 0);
    haul_named_tensor *all = count >= 0 ? haul__calloc((size_t)count + 1, sizeof *all) : NULL;
    l->parameters = haul_module_parameter_count(net);
    if (count >= 0 && !all)
        return haul__fail_memory(NULL, ((size_t)count + 1) * sizeof *all);
    if (count >= 0)
        count = haul_module_tensors(net, all, count);
    for (int i = 0; i < count; i++)
        count_tensor(l, &all[i]);
    haul__free(all);
    return count < 0 || l->parameters < 0 ? haul_error_status() : HAUL_OK;
}

void haul__layers_free(haul__layers *l)
{
    haul__free(l->items);
    *l = (haul__layers){0};
}
