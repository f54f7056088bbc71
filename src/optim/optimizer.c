/* The optimizer object: its parameters by name, and the list of all live optimizers. */
#include "optim/optimizer.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/fork.h"
#include "core/error.h"
#include "core/option.h"
#include "core/tensor.h"
#include "nn/tensors.h"
#include "optim/parameters.h"

/* ---- all live optimizers ---- */

/* Lets a checkpoint notice another optimizer of the same parameters. The lock guards the list; the entries of a listed
 * optimizer change only under it. */
static pthread_mutex_t alive_lock = PTHREAD_MUTEX_INITIALIZER;
static haul_optimizer *alive;

HAUL__MUTEX_AT_FORK(HAUL__FORK_OPTIMIZERS, alive_lock);

static void enlist(haul_optimizer *o)
{
    take_lock();
    HAUL__ASSERT(!o->next && !o->previous);
    o->next = alive;
    if (alive)
        alive->previous = o;
    alive = o;
    give_lock();
}

static void delist(haul_optimizer *o)
{
    take_lock();
    HAUL__ASSERT(!o->next || o->next->previous == o);
    if (o->next)
        o->next->previous = o->previous;
    if (o->previous)
        o->previous->next = o->next;
    else if (alive == o)
        alive = o->next;
    give_lock();
}

/* The name of t among the tensors; NULL if it is not there. */
static const char *name_among(const haul_tensor *t, const haul_named_tensor *tensors, int count)
{
    for (int i = 0; i < count; i++)
        if (tensors[i].tensor == t)
            return tensors[i].name;
    return NULL;
}

/* The name of a tensor with which the optimizer has made steps; NULL if there is none. The number of steps is read only
 * if no other thread may make one. */
static const char *trained(const haul_optimizer *o, const haul_named_tensor *tensors, int count)
{
    const char *name = NULL;
    HAUL__ASSERT(o->count > 0);
    for (int i = 0; i < o->count && !name; i++)
        name = name_among(o->entries[i].parameter, tensors, count);
    return name && o->steps ? name : NULL;
}

haul_status haul__optimizer_check_module(const haul_optimizer *o, const haul_named_tensor *tensors, int count,
                                         const char *operation)
{
    for (int i = 0; i < o->count; i++)
        if (!name_among(o->entries[i].parameter, tensors, count))
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "optimizer",
                              "the optimizer trains '%s', which the module does not hold; give the module that the "
                              "optimizer was made for, or one that holds it",
                              o->entries[i].name);
    return HAUL_OK;
}

static bool is_among(const haul_optimizer *o, haul_optimizer *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i] == o)
            return true;
    return false;
}

static haul_status check_scalers(const haul_optimizer *o, const char *operation)
{
    if (o->former_scaler && o->former_scaler != o->scaler && haul__object_is_shared(o->former_scaler))
        return haul__fail(
            HAUL_STATE, operation, "optimizer",
            "two gradient scalers are in use with this optimizer, and the state of one would be left out; "
            "drop the other one with haul_drop");
    return HAUL_OK;
}

haul_status haul__optimizer_check_alone(haul_optimizer *const *list, int list_count, const haul_named_tensor *tensors,
                                        int count, const char *operation)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < list_count && !status; i++)
        status = check_scalers(list[i], operation);
    take_lock();
    for (const haul_optimizer *other = alive; other && status == HAUL_OK; other = other->next) {
        const char *name = is_among(other, list, list_count) ? NULL : trained(other, tensors, count);
        if (name)
            status = haul__fail(HAUL_STATE, operation, "optimizer",
                                "another optimizer (%s) trains '%s' of this module, and its state would be left out; "
                                "save it, too, with .optimizers, or drop it with haul_drop",
                                other->kind->name, name);
    }
    give_lock();
    return status;
}

void haul__optimizer_set_entries(haul_optimizer *o, haul__optimizer_entry *entries, int count)
{
    take_lock();
    HAUL__ASSERT(entries && count >= o->count);
    o->entries = entries;
    o->count = count;
    give_lock();
}

/* ---- making ---- */

void haul__optimizer_free_entry(haul__optimizer_entry *e)
{
    haul__object_release(e->parameter);
    haul__object_release(e->steps_tensor);
    haul__object_release(e->made);
    for (int i = 0; i < HAUL__MAX_STATES; i++)
        haul__object_release(e->states[i]);
    for (int i = 0; i <= HAUL__MAX_STATES; i++)
        haul__free(e->state_names[i]);
    haul__free(e->name);
}

static void destroy(void *object)
{
    haul_optimizer *o = object;
    delist(o);
    HAUL__ASSERT(!o->count || o->entries);
    for (int i = 0; i < o->count; i++)
        haul__optimizer_free_entry(&o->entries[i]);
    haul__free(o->entries);
    haul__free(o->groups);
    haul__object_release(o->module);
    haul__object_release(o->scaler);
    haul__object_release(o->former_scaler);
    haul__object_release(o->found);
    haul__object_release(o->skipped);
    (o->kind->joint ? o->kind->joint->free : haul__optimizer_free_own)(o->own);
    haul__object_free(&o->object, sizeof *o);
}

const haul__class haul__optimizer_class = {.name = "optimizer", .destroy = destroy};

bool haul__optimizer_fill_entry(const haul__optimizer_kind *kind, haul__optimizer_entry *e, haul_tensor *parameter,
                                const char *name, int number)
{
    HAUL__ASSERT(!e->name && !e->parameter);
    e->name = name ? haul__strdup(name) : haul__format("%d", number);
    e->parameter = parameter;
    haul__object_keep(e->parameter);
    HAUL__ASSERT(kind->state_count >= 0 && kind->state_count <= HAUL__MAX_STATES);
    bool made = e->name != NULL;
    for (int i = 0; i < kind->state_count && made; i++) {
        e->state_names[i] = haul__format("%s.%s", e->name, kind->state_names[i]);
        made = e->state_names[i] != NULL;
    }
    if (made && kind->saves_steps) {
        e->state_names[kind->state_count] = haul__format("%s.step", e->name);
        made = e->state_names[kind->state_count] != NULL;
    }
    return made;
}

static haul_status fill(haul_optimizer *o, const haul__optimizer_source *source, const char *operation)
{
    int                n = 0;
    haul_named_tensor *all = haul__parameter_list(source->module, source->parameters, source->count, operation, &n);
    if (!all)
        return haul_error_status();
    const char **names = haul__calloc((size_t)n + 1, sizeof *names);
    haul_status  status = HAUL_OK;
    o->entries = haul__calloc((size_t)n + 1, sizeof *o->entries);
    if (!names || !o->entries)
        status = haul__fail_memory(operation, (size_t)n * sizeof *o->entries);
    for (int i = 0; i < n && !status; i++) {
        haul__optimizer_entry *e = &o->entries[o->count++];
        HAUL__ASSERT(o->count <= n);
        if (!haul__optimizer_fill_entry(o->kind, e, all[i].tensor, all[i].name, i))
            status = haul__fail_memory(operation, 0);
        HAUL__ASSERT(e->parameter == all[i].tensor);
        names[i] = e->name;
    }
    if (!status)
        status = haul__check_names(names, n, operation);
    HAUL__ASSERT(status || o->count == n);
    haul__free(names);
    haul__free(all);
    return status;
}

static haul_status begin(haul_optimizer *o, const haul__optimizer_source *source, const double *values,
                         const char *operation)
{
    haul_status status = fill(o, source, operation);
    if (status)
        return status;
    if (!o->count)
        return source->parameters
                   ? haul__fail(HAUL_INVALID_ARGUMENT, operation, "parameters", "the list has no parameters to train")
                   : haul__fail(HAUL_INVALID_ARGUMENT, operation, "module", "the %s has no parameters to train",
                                haul_module_kind(source->module));
    o->groups = haul__calloc(1, sizeof *o->groups);
    if (!o->groups)
        return haul__fail_memory(operation, sizeof *o->groups);
    o->group_count = 1;
    HAUL__ASSERT(o->group_count == 1 && o->entries[0].group == 0);
    memcpy(o->groups->values, values, sizeof o->groups->values);
    memcpy(o->defaults, values, sizeof o->defaults);
    return HAUL_OK;
}

haul_status haul__optimizer_read_betas(double settings[2], const double betas[2], double second, const char *operation)
{
    settings[0] = betas[0];
    settings[1] = betas[1];
    return haul__option_reals(operation, "betas", settings, (const double[2]){0.9, second});
}

haul_optimizer *haul__optimizer_new(const haul__optimizer_kind *kind, const haul__optimizer_source *source,
                                    const double *values, const char *operation)
{
    if (haul__optimizer_check_settings(kind, values, operation))
        return NULL;
    haul_optimizer *o = haul__object_new_zeroed(sizeof *o, &haul__optimizer_class);
    if (!o) {
        haul__fail_memory(operation, sizeof *o);
        return NULL;
    }
    o->kind = kind;
    if (begin(o, source, values, operation)) {
        haul__object_release(o);
        return NULL;
    }
    o->module = source->module;
    HAUL__ASSERT(o->count > 0 && o->group_count == 1);
    haul__object_keep(o->module);
    enlist(o);
    return haul__own(o, operation);
}

/* ---- queries ---- */

const char *haul_optimizer_kind(const haul_optimizer *optimizer)
{
    return haul__check_optimizer(optimizer, "haul_optimizer_kind") ? "" : optimizer->kind->name;
}

haul_module *haul_optimizer_module(haul_optimizer *optimizer)
{
    return haul__check_optimizer(optimizer, "haul_optimizer_module") ? NULL : optimizer->module;
}
