/* What all optimizers share. A step is made in two passes: the first checks and allocates for every parameter, the
 * second writes, so that a step that fails for want of memory or a wrong gradient changes nothing. */
#include "optim/optimizer.h"

#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "engine/copy.h"
#include "memory/dry_run.h"
#include "nn/tensors.h"

/* ---- all that are alive ---- */

/* So that a checkpoint notices another optimizer of the same parameters. The lock guards the list; what a listed
 * optimizer has as entries, names and parameters stays as it is while it is listed. */
static pthread_mutex_t alive_lock = PTHREAD_MUTEX_INITIALIZER;
static haul_optimizer *alive;

static void enlist(haul_optimizer *o)
{
    pthread_mutex_lock(&alive_lock);
    o->next = alive;
    if (alive)
        alive->previous = o;
    alive = o;
    pthread_mutex_unlock(&alive_lock);
}

static void delist(haul_optimizer *o)
{
    pthread_mutex_lock(&alive_lock);
    if (o->next)
        o->next->previous = o->previous;
    if (o->previous)
        o->previous->next = o->next;
    else if (alive == o)
        alive = o->next;
    pthread_mutex_unlock(&alive_lock);
}

/* The name that t has among the tensors; NULL if it is not there. */
static const char *name_among(const haul_tensor *t, const haul_named_tensor *tensors, int count)
{
    for (int i = 0; i < count; i++)
        if (tensors[i].tensor == t)
            return tensors[i].name;
    return NULL;
}

/* The name of a tensor that the optimizer has made steps with; NULL if there is none. The number of steps is only
 * looked at where nobody else may make one. */
static const char *trained(const haul_optimizer *o, const haul_named_tensor *tensors, int count)
{
    const char *name = NULL;
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

haul_status haul__optimizer_check_alone(const haul_optimizer *o, const haul_named_tensor *tensors, int count,
                                        const char *operation)
{
    haul_status status = HAUL_OK;
    if (o->former_scaler && o->former_scaler != o->scaler && haul__object_is_shared(o->former_scaler))
        return haul__fail(
            HAUL_STATE, operation, "optimizer",
            "two gradient scalers are in use with this optimizer, and the state of one would be left out; "
            "drop the one that is not needed with haul_drop");
    pthread_mutex_lock(&alive_lock);
    for (const haul_optimizer *other = alive; other && status == HAUL_OK; other = other->next) {
        const char *name = other == o ? NULL : trained(other, tensors, count);
        if (name)
            status =
                haul__fail(HAUL_STATE, operation, "optimizer",
                           "another optimizer (%s) trains '%s' of this module, and its state would be left out; "
                           "save what each optimizer trains in a checkpoint of its own, or drop the other one with "
                           "haul_drop",
                           other->kind->name, name);
    }
    pthread_mutex_unlock(&alive_lock);
    return status;
}

/* ---- making ---- */

static void free_entry(haul__optimizer_entry *e)
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
    for (int i = 0; i < o->count; i++)
        free_entry(&o->entries[i]);
    haul__free(o->entries);
    haul__object_release(o->module);
    haul__object_release(o->scaler);
    haul__object_release(o->former_scaler);
    haul__object_release(o->found);
    haul__object_release(o->skipped);
    haul__free(o->settings);
    haul__object_free(&o->object, sizeof *o);
}

const haul__class haul__optimizer_class = {.name = "optimizer", .destroy = destroy};

static bool fill_entry(const haul__optimizer_kind *kind, haul__optimizer_entry *e, const haul_named_tensor *named)
{
    e->name = haul__strdup(named->name);
    e->parameter = named->tensor;
    haul__object_keep(e->parameter);
    bool made = e->name != NULL;
    for (int i = 0; i < kind->state_count && made; i++) {
        e->state_names[i] = haul__format("%s.%s", named->name, kind->state_names[i]);
        made = e->state_names[i] != NULL;
    }
    if (made && kind->saves_steps) {
        e->state_names[kind->state_count] = haul__format("%s.step", named->name);
        made = e->state_names[kind->state_count] != NULL;
    }
    return made;
}

static bool is_listed(const haul_optimizer *o, const haul_tensor *parameter)
{
    for (int i = 0; i < o->count; i++)
        if (o->entries[i].parameter == parameter)
            return true;
    return false;
}

static haul_status fill(haul_optimizer *o, const char *operation)
{
    int                n = 0;
    haul_named_tensor *all = haul__module_tensor_list(o->module, &n);

    if (!all)
        return haul__fail_within(operation);
    haul_status status = HAUL_OK;
    o->entries = haul__calloc((size_t)n + 1, sizeof *o->entries);
    if (!o->entries)
        status = haul__fail_memory(operation, (size_t)n * sizeof *o->entries);
    for (int i = 0; i < n && !all[i].is_buffer && !status; i++)
        if (!is_listed(o, all[i].tensor) && !fill_entry(o->kind, &o->entries[o->count++], &all[i]))
            status = haul__fail_memory(operation, strlen(all[i].name));
    haul__free(all);
    return status;
}

haul_optimizer *haul__optimizer_new(const haul__optimizer_kind *kind, haul_module *module, double lr,
                                    const void *settings, size_t settings_size, const char *operation)
{
    haul_status status = HAUL_OK;

    if (haul__check_module(module, operation)) {
        return NULL;
    }
    haul_optimizer *o = haul__object_new_zeroed(sizeof *o, &haul__optimizer_class);
    if (!o) {
        haul__fail_memory(operation, sizeof *o);
        return NULL;
    }
    o->kind = kind;
    o->module = module;
    haul__object_keep(module);
    o->lr = lr;
    o->settings = haul__malloc(settings_size);
    if (o->settings)
        memcpy(o->settings, settings, settings_size);
    else
        status = haul__fail_memory(operation, settings_size);
    if (!status)
        status = fill(o, operation);
    if (!status && !o->count)
        status = haul__fail(HAUL_INVALID_ARGUMENT, operation, "module", "the %s has no parameters to train",
                            haul_module_kind(module));
    if (status) {
        haul__object_release(o);
        return NULL;
    }
    enlist(o);
    return haul__own(o, operation);
}

haul_status haul__optimizer_number(double value, double low, double high, const char *operation, const char *argument)
{
    if (value >= low && value < high)
        return HAUL_OK;
    if (isinf(high))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is %g; it must be a number of at least %g",
                          argument, value, low);
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is %g; it must be at least %g and below %g",
                      argument, value, low, high);
}

/* ---- a step ---- */

haul_status haul__infer_step(haul__call *c)
{
    const haul__operand *specs = c->operation->operands;
    const int            each = c->operation->repeat;

    for (int first = 0; first < c->count; first += each) {
        const haul_tensor *p = c->operands[first];
        for (int k = 1; k < each; k++) {
            const haul_tensor *t = c->operands[first + k];
            if (!haul__is_none(t) && !specs[k].accepts &&
                (!haul__shape_equal(&t->shape, &p->shape) || !haul__tensor_same_layout(t, p)))
                return haul__refuse_shape(c, first + k, "it must have the parameter's shape and layout");
        }
    }
    return HAUL_OK;
}

haul__cost haul__step_cost(const haul__call *c)
{
    double elements = 0;

    for (int i = 0; i < c->count; i += c->operation->repeat)
        elements += (double)c->operands[i]->count;
    return (haul__cost){.flops = c->operation->flops * elements, .bytes = haul__call_bytes(c)};
}

/* What the first pass found for a parameter. */
typedef struct prepared {
    haul_tensor *grad;                     /* laid out as the parameter; NULL: the parameter is left alone */
    haul_tensor *states[HAUL__MAX_STATES]; /* new or moved; NULL: those of the entry serve */
    haul_tensor *found, *made;             /* where the step may be skipped: on the parameter's device; else NULL */
} prepared;

static haul_status check_grad(const haul__optimizer_entry *e, const haul_tensor *g)
{
    static const char  operation[] = "haul_optimizer_step";
    const haul_tensor *p = e->parameter;
    char               have[160], want[160];

    if (!haul__shape_equal(&g->shape, &p->shape) || g->dtype != p->dtype)
        return haul__fail(HAUL_SHAPE, operation, "gradient", "the gradient of '%s' is %s, the parameter %s", e->name,
                          haul__tensor_text(g, have, sizeof have), haul__tensor_text(p, want, sizeof want));
    if (g->storage->device != p->storage->device)
        return haul__fail(HAUL_PLACEMENT, operation, "gradient",
                          "the gradient of '%s' is on %s, the parameter on %s; move the module with haul_module_to",
                          e->name, haul_device_name(g->storage->device), haul_device_name(p->storage->device));
    if (!haul__tensor_is_gap_free(p))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "parameter",
                          "the parameter '%s' is a view with gaps between its elements; add haul_clone(...) of it "
                          "instead",
                          e->name);
    return HAUL_OK;
}

/* State lies where the parameter lies, as it lies and in its dtype, also after the module was moved or cast, or its
 * memory format changed. */
static haul_status prepare_states(const haul_optimizer *o, const haul__optimizer_entry *e, prepared *out)
{
    haul_tensor *p = e->parameter;
    haul_device *device = p->storage->device;

    if (!o->kind->has_state(o))
        return HAUL_OK;
    for (int i = 0; i < o->kind->state_count; i++) {
        haul_tensor *s = e->states[i];
        if (s && s->storage->device == device && s->dtype == p->dtype && haul__tensor_same_layout(s, p))
            continue;
        s = s ? haul_to(s, device, .dtype = p->dtype) : haul_zeros_like(p);
        out->states[i] = haul__failed(s) ? NULL : haul__to_order_of(s, p);
        if (haul__failed(out->states[i]))
            return haul_error_status();
    }
    return HAUL_OK;
}

/* Steps that are made in any case go by the device's count too once there is one, with nothing found. */
static haul_status prepare_guard(const haul__optimizer_entry *e, haul_tensor *found, prepared *out)
{
    haul_device *device = e->parameter->storage->device;

    if (!found && !e->made)
        return HAUL_OK;
    if (haul_set_device(device)) /* the scope restores it */
        return haul_error_status();
    out->made = e->made ? haul_to(e->made, device) : haul_full(HAUL_I64, HAUL_SHAPE(2), (double)e->steps);
    out->found = found ? haul_to(found, device) : haul_zeros(HAUL_F32, HAUL_SCALAR_SHAPE);
    return haul__failed(out->made) ? haul_error_status() : haul__status_of(out->found);
}

static haul_status prepare(haul_optimizer *o, haul__optimizer_entry *e, haul_tensor *found, prepared *out)
{
    haul_tensor *g = e->parameter->grad;

    if (!g)
        return HAUL_OK;
    haul_status status = check_grad(e, g);
    if (!status)
        status = prepare_states(o, e, out);
    if (!status)
        status = prepare_guard(e, found, out);
    if (!status)
        status = o->kind->prepare(o, e, out->made != NULL);
    if (status)
        return status;
    out->grad = haul__tensor_same_layout(g, e->parameter) ? g : haul__to_order_of(g, e->parameter);
    return haul__status_of(out->grad);
}

/* A dry run leaves the state of an optimizer that existed before as it was. */
static haul_status keep_in_dry_run(haul_optimizer *o, haul__optimizer_entry *e)
{
    static const char operation[] = "haul_optimizer_step";
    if (!haul__is_dry() || e->parameter->storage->planned)
        return HAUL_OK;
    haul_status status = haul__dry_run_keep_integer(o, &o->steps, operation);
    if (!status)
        status = haul__dry_run_keep_integer(o, &e->steps, operation);
    if (!status)
        status = haul__dry_run_keep_tensor(o, &e->made, operation);
    for (int i = 0; i < o->kind->state_count && !status; i++)
        status = haul__dry_run_keep_tensor(o, &e->states[i], operation);
    return status;
}

static void adopt(haul_tensor **place, haul_tensor *t)
{
    if (!t || t == *place)
        return;
    haul__object_keep(t);
    haul__object_release(*place);
    *place = t;
}

/* The entry takes over what was prepared, and counts the step. */
static haul__update take(const haul_optimizer *o, haul__optimizer_entry *e, const prepared *found)
{
    haul__update u = {.entry = e,
                      .grad = found->grad,
                      .first = o->kind->state_count && !e->states[0],
                      .guard = {.found = found->found, .made = found->made, .from = (int)(e->steps & 1)}};

    for (int i = 0; i < o->kind->state_count; i++)
        adopt(&e->states[i], found->states[i]);
    adopt(&e->made, found->made);
    e->steps++;
    return u;
}

static bool is_alike(const haul_optimizer *o, const haul__update *u, const haul__optimizer_entry *e,
                     const prepared *found)
{
    const haul_tensor *a = u->entry->parameter, *b = e->parameter;

    return found->grad && a->storage->device == b->storage->device && a->dtype == b->dtype &&
           u->entry->steps == e->steps + 1 && u->first == (o->kind->state_count && !e->states[0]) &&
           !u->guard.found == !found->found;
}

/* The entries from the first on that one operation can change; returns how many these are. */
static int update(haul_optimizer *o, int first, const prepared *found, haul_status *status)
{
    haul__update updates[HAUL__MAX_UPDATES];
    int          count = 0;

    for (int i = first; i < o->count && count < HAUL__MAX_UPDATES; i++, count++) {
        if (count && !is_alike(o, updates, &o->entries[i], &found[i]))
            break;
        updates[count] = take(o, &o->entries[i], &found[i]);
    }
    *status = o->kind->update(o, updates, count);
    return count;
}

static haul_status step(haul_optimizer *o, haul_tensor *may_skip)
{
    haul_status  status = HAUL_OK;
    const size_t bytes = (size_t)o->count * sizeof(prepared);
    prepared    *found = haul__small_alloc(bytes);

    if (!found)
        return haul__fail_memory("haul_optimizer_step", bytes);
    memset(found, 0, bytes);
    for (int i = 0; i < o->count && !status; i++)
        status = prepare(o, &o->entries[i], may_skip, &found[i]);
    for (int i = 0; i < o->count && !status; i++)
        status = keep_in_dry_run(o, &o->entries[i]);
    if (!status)
        o->steps++;
    for (int i = 0; i < o->count && !status;)
        i += found[i].grad ? update(o, i, found, &status) : 1;
    haul__small_free(found, bytes);
    return status;
}

haul_status haul__optimizer_guarded_step(haul_optimizer *optimizer, haul_tensor *found)
{
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return haul_error_status();
    haul_set_grad_enabled(false);
    haul_status status = step(optimizer, found);
    haul_scope_pop(scope);
    return status;
}

haul_status haul_optimizer_step(haul_optimizer *optimizer)
{
    if (haul__check_optimizer(optimizer, "haul_optimizer_step"))
        return haul_error_status();
    return haul__optimizer_guarded_step(optimizer, NULL);
}

haul_status haul_optimizer_zero_grad(haul_optimizer *optimizer)
{
    if (haul__check_optimizer(optimizer, "haul_optimizer_zero_grad"))
        return haul_error_status();
    for (int i = 0; i < optimizer->count; i++) {
        haul_status status = haul_set_grad(optimizer->entries[i].parameter, HAUL_NONE);
        if (status)
            return status;
    }
    return HAUL_OK;
}

/* ---- settings ---- */

double haul_optimizer_lr(const haul_optimizer *optimizer)
{
    return haul__check_optimizer(optimizer, "haul_optimizer_lr") ? NAN : optimizer->lr;
}

haul_status haul_optimizer_set_lr(haul_optimizer *optimizer, double lr)
{
    if (haul__check_optimizer(optimizer, "haul_optimizer_set_lr"))
        return haul_error_status();
    haul_status status = haul__optimizer_number(lr, 0, INFINITY, "haul_optimizer_set_lr", "lr");
    if (!status)
        optimizer->lr = lr;
    return status;
}

const char *haul_optimizer_kind(const haul_optimizer *optimizer)
{
    return haul__check_optimizer(optimizer, "haul_optimizer_kind") ? "" : optimizer->kind->name;
}

haul_module *haul_optimizer_module(haul_optimizer *optimizer)
{
    return haul__check_optimizer(optimizer, "haul_optimizer_module") ? NULL : optimizer->module;
}

int64_t haul_optimizer_steps(const haul_optimizer *optimizer)
{
    if (haul__check_optimizer(optimizer, "haul_optimizer_steps"))
        return -1;
    if (!optimizer->skipped)
        return optimizer->steps;
    int64_t skipped;
    return haul_read(optimizer->skipped, &skipped, sizeof skipped) ? -1 : optimizer->steps - skipped;
}
