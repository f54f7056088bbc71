#include "nn/walk.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

static haul__walk_step *enter(haul__walk *w, haul_module *m)
{
    if (!haul__grow(&w->steps, &w->capacity, w->count + 1, sizeof *w->steps)) {
        w->failed = true;
        return NULL;
    }
    w->steps[w->count] = (haul__walk_step){.module = m};
    return &w->steps[w->count++];
}

haul__walk_step *haul__walk_next(haul__walk *w)
{
    if (!w->begun) {
        w->begun = true;
        return enter(w, w->root);
    }
    while (w->count) {
        haul__walk_step *top = &w->steps[w->count - 1];
        HAUL__ASSERT(top->next <= top->module->child_count);
        if (top->next < top->module->child_count)
            return enter(w, top->module->children[top->next++].module);
        w->count--;
    }
    return NULL;
}

haul__module_child *haul__walk_child(const haul__walk *w)
{
    const haul__walk_step *outer = &w->steps[w->count - 2];
    return &outer->module->children[outer->next - 1];
}

void haul__walk_skip(haul__walk *w)
{
    haul__walk_step *top = &w->steps[w->count - 1];
    top->next = top->module->child_count;
}

void haul__walk_free(haul__walk *w)
{
    haul__free(w->steps);
    *w = (haul__walk){.root = w->root};
}

haul_status haul__walk_reserve(haul__walk *w, const char *operation)
{
    while (haul__walk_next(w))
        ;
    w->begun = false;
    if (!w->failed)
        return HAUL_OK;
    haul__walk_free(w);
    return haul__fail_memory(operation, sizeof *w->steps);
}

void haul__walk_visit(haul__walk *w, haul__visit *visit, const void *context)
{
    haul__walk_step *step;
    while ((step = haul__walk_next(w)))
        visit(step->module, context);
    haul__walk_free(w);
}
