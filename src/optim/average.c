/* Averages of parameters: the object, the weights of updates, and its state. */
#include <haul/autograd.h>
#include <haul/average.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/option.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "engine/copy.h"
#include "engine/placement/placement.h"
#include "memory/dry_run/dry_run.h"
#include "nn/tensors.h"
#include "optim/averaging.h"
#include "optim/optimizer.h"
#include "optim/parameters.h"

typedef struct entry {
    char        *name;
    haul_tensor *parameter, *average;
} entry;

struct haul_average {
    haul__object object;
    entry       *entries;
    int          count;
    double       decay;
    bool         bias_corrected, equal;
    int64_t      updates;
    int64_t      swapped; /* 1: the averages are in the parameters */
};

static void destroy(void *object)
{
    haul_average *a = object;
    HAUL__ASSERT(!a->count || a->entries);
    for (int i = 0; i < a->count; i++) {
        haul__object_release(a->entries[i].parameter);
        haul__object_release(a->entries[i].average);
        haul__free(a->entries[i].name);
    }
    haul__free(a->entries);
    haul__object_free(&a->object, sizeof *a);
}

static const haul__class average_class = {.name = "average", .destroy = destroy};

haul_status haul__average_check(const haul_average *average, const char *operation)
{
    return haul__check_object(average, &average_class, operation, "average");
}

/* Fails while the averages are in the parameters. */
static haul_status check_home(const haul_average *a, const char *operation)
{
    if (haul__average_check(a, operation))
        return haul_error_status();
    if (a->swapped)
        return haul__fail(HAUL_STATE, operation, "average",
                          "the averages are in the parameters; call haul_average_swap first");
    return HAUL_OK;
}

static void hold(haul_tensor **place, haul_tensor *t)
{
    haul__object_keep(t);
    haul__object_release(*place);
    *place = t;
}

/* ---- making ---- */

static haul_status fill(haul_average *a, const haul_named_tensor *list, int count, const char *operation)
{
    const char **names = haul__calloc((size_t)count + 1, sizeof *names);
    haul_status  status = HAUL_OK;
    a->entries = haul__calloc((size_t)count + 1, sizeof *a->entries);
    if (!names || !a->entries)
        status = haul__fail_memory(operation, (size_t)count * sizeof *a->entries);
    for (int i = 0; i < count && !status; i++) {
        entry *e = &a->entries[a->count++];
        names[i] = e->name = list[i].name ? haul__strdup(list[i].name) : haul__format("%d", i);
        haul_tensor *copy = e->name ? haul_clone(haul_detach(list[i].tensor)) : NULL;
        if (!e->name)
            status = haul__fail_memory(operation, 0);
        else if (haul__failed(copy))
            status = haul_error_status();
        else
            hold(&e->average, copy);
        hold(&e->parameter, list[i].tensor);
    }
    HAUL__ASSERT(status || a->count == count);
    if (!status)
        status = haul__check_names(names, count, operation);
    haul__free(names);
    return status;
}

static haul_average *make(const haul_average_options *o, double decay, const char *operation)
{
    int                n = 0;
    haul_named_tensor *list = haul__parameter_list(o->module, o->parameters, o->count, operation, &n);
    if (!list)
        return NULL;
    haul_average *a = haul__object_new_zeroed(sizeof *a, &average_class);
    haul_scope   *scope = a ? haul__scope_push(NULL) : NULL;
    haul_status   status = scope ? HAUL_OK : a ? haul_error_status() : haul__fail_memory(operation, sizeof *a);
    if (!status && !n)
        status = haul__fail(HAUL_INVALID_ARGUMENT, operation, o->parameters ? "parameters" : "module",
                            "found no parameters to average");
    if (!status) {
        a->decay = decay;
        a->bias_corrected = o->bias_corrected;
        a->equal = o->equal;
        haul_set_grad_enabled(false);
        haul__place_as_given();
        status = fill(a, list, n, operation);
    }
    if (scope)
        haul_scope_pop(scope);
    haul__free(list);
    HAUL__ASSERT(status || a->count == n);
    if (!status)
        return haul__own(a, operation);
    haul__fail_within(operation);
    haul__object_release(a);
    return NULL;
}

haul_average *haul_average_new_with(const haul_average_options *options)
{
    static const char operation[] = "haul_average_new";
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    double decay = haul__option(options->decay, 0.999);
    if (haul__optimizer_number(decay, 0, 1, operation, "decay"))
        return NULL;
    if (options->equal && (options->bias_corrected || options->decay != 0)) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "equal", "an equal average has no .decay and no .bias_corrected");
        return NULL;
    }
    return make(options, decay, operation);
}

/* ---- updates and exchanges ---- */

/* The average, moved to its parameter's device and layout; NULL on failure. */
static haul_tensor *beside(const entry *e)
{
    haul_tensor *p = e->parameter, *a = e->average;
    if (a->storage->device == p->storage->device && a->dtype == p->dtype && haul__tensor_same_layout(a, p))
        return a;
    haul_tensor *moved = haul_to(a, p->storage->device, .dtype = p->dtype);
    HAUL__ASSERT(haul__failed(moved) || moved->count == p->count);
    moved = haul__failed(moved) ? NULL : haul__to_order_of(moved, p);
    HAUL__ASSERT(haul__failed(moved) || haul__tensor_same_layout(moved, p));
    return haul__failed(moved) ? NULL : moved;
}

static haul_status check_entry(const entry *e, const char *operation)
{
    char have[160], want[160];
    if (!haul__shape_equal(&e->average->shape, &e->parameter->shape))
        return haul__fail(HAUL_SHAPE, operation, "average", "the average of '%s' is %s, the parameter %s", e->name,
                          haul__tensor_text(e->average, have, sizeof have),
                          haul__tensor_text(e->parameter, want, sizeof want));
    if (!haul__tensor_is_gap_free(e->parameter))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "average",
                          "the parameter '%s' is a view with gaps between its elements; use haul_clone(...) instead",
                          e->name);
    return haul__averaging_prepare(e->parameter);
}

/* Everything that can fail, and what a dry run will restore. */
static haul_status prepare(haul_average *a, const char *operation)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < a->count && !status; i++) {
        entry       *e = &a->entries[i];
        haul_tensor *t = NULL;
        status = check_entry(e, operation);
        if (!status && !(t = beside(e)))
            status = haul_error_status();
        HAUL__ASSERT(status || t->count == e->parameter->count);
        if (!status && t != e->average && haul__is_trial() && !haul__dry_run_made(e->average->storage))
            status = haul__dry_run_keep_tensor(a, &e->average, operation);
        if (!status && t != e->average)
            hold(&e->average, t);
    }
    HAUL__ASSERT(a->count > 0);
    if (!status && haul__is_trial() && !haul__dry_run_made(a->entries[0].average->storage)) {
        status = haul__dry_run_keep_integer(a, &a->updates, operation);
        status = status ? status : haul__dry_run_keep_integer(a, &a->swapped, operation);
    }
    return status;
}

static bool is_alike(const entry *a, const entry *b)
{
    return a->parameter->storage->device == b->parameter->storage->device && a->parameter->dtype == b->parameter->dtype;
}

/* Updates with this weight; a weight of 0 exchanges values. */
static haul_status run(haul_average *a, double weight)
{
    haul_status status = HAUL_OK;
    for (int i = 0, n; i < a->count && !status; i += n) {
        haul__averaged pairs[HAUL__MAX_UPDATES];
        for (n = 0; n < HAUL__MAX_UPDATES && i + n < a->count && is_alike(&a->entries[i], &a->entries[i + n]); n++)
            pairs[n] = (haul__averaged){a->entries[i + n].average, a->entries[i + n].parameter};
        HAUL__ASSERT(n > 0 && n <= HAUL__MAX_UPDATES);
        HAUL__ASSERT(pairs[n - 1].average->count == pairs[n - 1].parameter->count);
        status = weight != 0 ? haul__average_update(pairs, n, weight) : haul__average_exchange(pairs, n);
    }
    return status;
}

static haul_status prepare_and_run(haul_average *a, double weight, const char *operation)
{
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_set_grad_enabled(false);
    haul__place_as_given();
    haul_status status = prepare(a, operation);
    if (!status)
        status = run(a, weight);
    haul_scope_pop(scope);
    return status;
}

static double weight_of(const haul_average *a, double n)
{
    if (n == 1)
        return 1;
    if (a->equal)
        return 1 / n;
    return a->bias_corrected ? (1 - a->decay) / (1 - pow(a->decay, n)) : 1 - a->decay;
}

haul_status haul_average_update(haul_average *average)
{
    static const char operation[] = "haul_average_update";
    if (check_home(average, operation))
        return haul_error_status();
    HAUL__ASSERT(average->updates >= 0 && !average->swapped);
    haul_status status = prepare_and_run(average, weight_of(average, (double)average->updates + 1), operation);
    average->updates += !status;
    return status;
}

haul_status haul_average_swap(haul_average *average)
{
    static const char operation[] = "haul_average_swap";
    if (haul__average_check(average, operation))
        return haul_error_status();
    HAUL__ASSERT(average->swapped == 0 || average->swapped == 1);
    haul_status status = prepare_and_run(average, 0, operation);
    if (!status)
        average->swapped = !average->swapped;
    return status;
}

/* ---- copies ---- */

static haul_tensor *find(const haul_named_tensor *list, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (!list[i].is_buffer && !strcmp(list[i].name, name))
            return list[i].tensor;
    return NULL;
}

static haul_status match(const haul_average *a, const haul_named_tensor *list, int count, haul_tensor **targets)
{
    static const char operation[] = "haul_average_copy_to";
    char              have[160], want[160];
    for (int i = 0; i < a->count; i++) {
        const entry *e = &a->entries[i];
        targets[i] = find(list, count, e->name);
        if (!targets[i])
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "module", "the module has no parameter '%s'", e->name);
        if (!haul__shape_equal(&targets[i]->shape, &e->average->shape))
            return haul__fail(HAUL_SHAPE, operation, "module", "the parameter '%s' is %s, its average %s", e->name,
                              haul__tensor_text(targets[i], have, sizeof have),
                              haul__tensor_text(e->average, want, sizeof want));
        HAUL__ASSERT(targets[i]->count == e->average->count);
    }
    return HAUL_OK;
}

haul_status haul_average_copy_to(haul_average *average, haul_module *module)
{
    static const char operation[] = "haul_average_copy_to";
    int               n = 0;
    if (check_home(average, operation) || haul__check_module(module, operation))
        return haul_error_status();
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_named_tensor *list = haul__module_tensor_list(module, &n);
    haul_tensor      **targets = haul__calloc((size_t)average->count, sizeof *targets);
    haul_status        status = list ? HAUL_OK : haul_error_status();
    if (!status && !targets)
        status = haul__fail_memory(operation, (size_t)average->count * sizeof *targets);
    haul_set_grad_enabled(false);
    haul__place_as_given();
    if (!status)
        status = match(average, list, n, targets);
    for (int i = 0; i < average->count && !status; i++)
        status = haul_copy_into(targets[i], average->entries[i].average);
    haul__free(list);
    haul__free(targets);
    haul_scope_pop(scope);
    return status;
}

/* ---- state ---- */

int haul_average_tensors(haul_average *average, haul_named_tensor *out, int capacity)
{
    static const char operation[] = "haul_average_tensors";
    if (check_home(average, operation))
        return -1;
    if (!out && capacity > 0) {
        haul__fail_null(operation, "out");
        return -1;
    }
    HAUL__ASSERT(average->count > 0 && !average->swapped);
    for (int i = 0; i < average->count && i < capacity; i++)
        out[i] = (haul_named_tensor){average->entries[i].name, average->entries[i].average, true};
    return average->count;
}

int64_t haul_average_updates(const haul_average *average)
{
    return haul__average_check(average, "haul_average_updates") ? -1 : average->updates;
}

static haul_status take(const haul_average *a, const haul_named_tensor *t, haul_tensor **fresh)
{
    static const char operation[] = "haul_average_load_state";
    char              have[160], want[160];
    int               i = 0;
    if (!t->name)
        return haul__fail_null(operation, "tensors");
    if (haul__check_tensor(operation, "tensors", t->tensor))
        return haul_error_status();
    while (i < a->count && strcmp(a->entries[i].name, t->name) != 0)
        i++;
    if (i == a->count)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "tensors", "'%s' is not one of the averages", t->name);
    const haul_tensor *now = a->entries[i].average;
    if (fresh[i])
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "tensors", "'%s' is given twice", t->name);
    if (!haul__shape_equal(&t->tensor->shape, &now->shape) || t->tensor->dtype != now->dtype)
        return haul__fail(HAUL_SHAPE, operation, "tensors", "'%s' is %s, but the average is %s", t->name,
                          haul__tensor_text(t->tensor, have, sizeof have), haul__tensor_text(now, want, sizeof want));
    haul_tensor *detached = haul_detach(t->tensor);
    haul_tensor *ordered = haul__failed(detached) ? NULL : haul__copy_to_order_of(detached, now);
    fresh[i] = haul_to(ordered, now->storage->device);
    HAUL__ASSERT(haul__failed(fresh[i]) || haul__tensor_same_layout(fresh[i], now));
    return haul__status_of(fresh[i]);
}

haul_status haul_average_load_state(haul_average *average, const haul_named_tensor *tensors, int count, int64_t updates)
{
    static const char operation[] = "haul_average_load_state";
    if (check_home(average, operation))
        return haul_error_status();
    if (!tensors)
        return haul__fail_null(operation, "tensors");
    if (count != average->count)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count", "count is %d, but there are %d averages", count,
                          average->count);
    if (haul__check_steps(updates, operation, "updates"))
        return haul_error_status();
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_set_grad_enabled(false);
    haul__place_as_given();
    haul_tensor **fresh = haul__calloc((size_t)count, sizeof *fresh);
    haul_status   status = fresh ? HAUL_OK : haul__fail_memory(operation, (size_t)count * sizeof *fresh);
    for (int i = 0; i < count && !status; i++)
        status = take(average, &tensors[i], fresh);
    HAUL__ASSERT(average->count == count && !average->swapped);
    for (int i = 0; i < count && !status; i++)
        hold(&average->entries[i].average, fresh[i]);
    if (!status)
        average->updates = updates;
    haul__free(fresh);
    haul_scope_pop(scope);
    return status;
}
