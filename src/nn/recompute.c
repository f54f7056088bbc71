/* Modules, and runs of their children, that run again in the backward pass instead of keeping their tensors. */
#include "autograd/recompute.h"
#include "base/assert.h"

#include <string.h>

#include "base/alloc.h"
#include "core/error.h"
#include "core/object.h"
#include "core/tensor.h"
#include "nn/module.h"

_Static_assert((int)HAUL__NODE_RESULTS == (int)HAUL_MAX_ARGUMENTS, "every result of a module can be recomputed");

/* ---- running ---- */

/* What runs: forward of the module, or some of its children. */
typedef struct module_run {
    haul_module *module; /* with a reference */
    bool         training;
    size_t       first, end; /* children */
} module_run;

static haul_status run_module(void *context, haul_tensor *const *inputs, int count, haul_tensor **results)
{
    const module_run *r = context;
    haul_args         args = {.count = count, .training = r->training};
    HAUL__ASSERT(count <= HAUL_MAX_ARGUMENTS);
    for (int i = 0; i < HAUL_MAX_ARGUMENTS; i++) {
        args.x[i] = i < count ? inputs[i] : HAUL_NONE;
        args.y[i] = HAUL_NONE;
    }
    haul_status status = haul__forward(r->module, &args);
    HAUL__ASSERT(status || args.y[0]);
    memcpy(results, args.y, sizeof args.y);
    return status;
}

static haul_status run_children(void *context, haul_tensor *const *inputs, int count, haul_tensor **results)
{
    const module_run *r = context;
    (void)count;
    results[0] = haul__call_children(r->module, r->first, r->end, inputs[0]);
    return haul__status_of(results[0]);
}

static void release_run(void *context)
{
    module_run *r = context;
    haul__object_release(r->module);
    haul__free(r);
}

static haul_status run_twice(const module_run *what, haul__recompute_body *body, haul_tensor *const *inputs, int count,
                             haul_tensor **results)
{
    module_run *r = haul__malloc(sizeof *r);
    if (!r)
        return haul__fail_memory("haul_call", sizeof *r);
    HAUL__ASSERT(what->first <= what->end && what->end <= what->module->child_count);
    *r = *what;
    haul__object_keep(r->module);
    body->operation = "haul_call";
    body->release = release_run;
    body->context = r;
    return haul__recompute(body, inputs, count, results);
}

static haul_status forward_twice(haul_module *m, haul_args *args)
{
    return run_twice(&(module_run){.module = m, .training = args->training},
                     &(haul__recompute_body){.run = run_module, .result_count = HAUL_MAX_ARGUMENTS}, args->x,
                     args->count, args->y);
}

static haul_tensor *call_children_twice(haul_module *module, size_t first, size_t end, haul_tensor *x)
{
    haul_tensor *y;
    return run_twice(&(module_run){.module = module, .first = first, .end = end},
                     &(haul__recompute_body){.run = run_children, .result_count = 1}, &x, 1, &y)
               ? haul__failed_tensor()
               : y;
}

/* ---- settings ---- */

haul_status haul_module_recompute(haul_module *module, bool on)
{
    if (haul__check_module(module, "haul_module_recompute"))
        return haul_error_status();
    module->run = on ? forward_twice : haul__forward;
    return HAUL_OK;
}

bool haul_module_recomputes(const haul_module *module)
{
    return haul__check_module(module, "haul_module_recomputes") == HAUL_OK && module->run == forward_twice;
}

/* The number of the child; child_count, with an error, if there is none. */
static size_t number_of(haul_module *m, const char *name, const char *operation)
{
    size_t i = 0;
    if (haul__module_walk(m, name, strlen(name), operation))
        while (i < m->child_count && strcmp(m->children[i].name, name) != 0)
            i++;
    else
        return m->child_count;
    if (i == m->child_count)
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "first",
                   "'%s' is not a child of the %s itself; call the function for the module that has it", name, m->kind);
    return i;
}

/* Parts that have children from `first` to `last` are parts no more. */
static void dissolve(haul_module *m, size_t first, size_t last)
{
    for (size_t i = 0; i <= last; i++)
        if (i + m->children[i].part > first)
            m->children[i].part = 0;
}

haul_status haul_module_recompute_children(haul_module *module, const char *first, const char *last, bool on)
{
    static const char operation[] = "haul_module_recompute_children";
    if (haul__check_module(module, operation))
        return haul_error_status();
    if (!first || !last)
        return haul__fail_null(operation, first ? "last" : "first");
    if (!haul__calls_in_order(module))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "module",
                          "the %s does not just call its children in order; use haul_module_recompute for each of them",
                          module->kind);
    size_t from = number_of(module, first, operation);
    size_t to = from < module->child_count ? number_of(module, last, operation) : module->child_count;
    if (to == module->child_count)
        return haul_error_status();
    if (to < from)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "last", "'%s' comes before '%s' in the %s", last, first,
                          module->kind);
    HAUL__ASSERT(from <= to && to < module->child_count);
    dissolve(module, from, to);
    HAUL__ASSERT(!module->children[from].part);
    module->run_part = call_children_twice;
    module->children[from].part = on ? to - from + 1 : 0;
    return HAUL_OK;
}
