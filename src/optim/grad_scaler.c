/* Loss scaling for f16, as in torch.cuda.amp.GradScaler. The scale, the counter and the result of the check are on the
 * device: the optimizer's kernels read there whether to skip, and how many steps were made (haul__guard). The host
 * never waits.
 *
 * The scaler counts rounds; haul_grad_scaler_update begins a new one. An optimizer remembers in which round its
 * gradients were unscaled and its step made, so that neither happens twice. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "engine/copy.h"
#include "engine/placement/placement.h"
#include "memory/dry_run/dry_run.h"
#include "optim/divided.h"
#include "optim/optimizer.h"
#include "optim/scaling.h"

struct haul_grad_scaler {
    haul__object      object;
    haul__grad_growth how;
    haul_tensor      *scale;   /* f32 [] */
    haul_tensor      *tracker; /* i32 []: steps without an overflow since the scale changed, or minus the consecutive
                                * steps that the least scale did not save; on the device of scale */
    haul_tensor *found;        /* f32 []: not 0 if an overflow was found in this round; NULL: not checked yet */
    int64_t      round;
};

static void destroy(void *object)
{
    haul_grad_scaler *s = object;
    haul__object_release(s->scale);
    haul__object_release(s->tracker);
    haul__object_release(s->found);
    haul__object_free(&s->object, sizeof *s);
}

static const haul__class scaler_class = {.name = "gradient scaler", .destroy = destroy};

static haul_status check_scaler(const haul_grad_scaler *scaler, const char *operation)
{
    return haul__check_object(scaler, &scaler_class, operation, "scaler");
}

haul_status haul__check_grad_scaler(const haul_grad_scaler *scaler, const char *operation)
{
    return check_scaler(scaler, operation);
}

/* Replaces a tensor that is held. */
static void hold(haul_tensor **place, haul_tensor *t)
{
    haul__object_keep(t);
    haul__object_release(*place);
    *place = t;
}

/* ---- dry runs ---- */

/* A dry run does not change an optimizer that existed before, including its link to scalers. */
static haul_status keep_optimizer(haul_optimizer *o, const char *operation)
{
    if (!haul__is_trial() || haul__dry_run_made(o->entries[0].parameter->storage))
        return HAUL_OK;
    HAUL__ASSERT(!o->scaler || o->scaler != o->former_scaler);
    haul_status status = haul__dry_run_keep_object(o, &o->scaler, operation);
    if (!status)
        status = haul__dry_run_keep_object(o, &o->former_scaler, operation);
    if (!status)
        status = haul__dry_run_keep_tensor(o, &o->found, operation);
    if (!status)
        status = haul__dry_run_keep_tensor(o, &o->skipped, operation);
    if (!status)
        status = haul__dry_run_keep_integer(o, &o->unscaled_round, operation);
    return status ? status : haul__dry_run_keep_integer(o, &o->stepped_round, operation);
}

/* The same for a scaler. */
static haul_status keep_scaler(haul_grad_scaler *s, const char *operation)
{
    if (!haul__is_trial() || haul__dry_run_made(s->scale->storage))
        return HAUL_OK;
    haul_tensor **tensors[] = {&s->scale, &s->tracker, &s->found};
    haul_status   status = haul__dry_run_keep_integer(s, &s->round, operation);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors && !status; i++)
        status = haul__dry_run_keep_tensor(s, tensors[i], operation);
    return status;
}

/* ---- making ---- */

/* Runs in a scope, which restores the current device. */
static haul_tensor *number_on(haul_device *device, haul_dtype dtype, double value)
{
    return haul_set_device(device) ? NULL : haul_full(dtype, HAUL_SCALAR_SHAPE, value);
}

static haul_status check_options(const haul_grad_scaler_options *o)
{
    static const char operation[] = "haul_grad_scaler_new";
    if (haul__optimizer_number(o->init_scale, 0, INFINITY, operation, "init_scale") ||
        haul__optimizer_number(o->backoff, 0, 1, operation, "backoff"))
        return haul_error_status();
    if (o->growth != 0 && !(o->growth > 1 && o->growth - o->growth == 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "growth", "growth is %g; it must be above 1", o->growth);
    if (o->init_scale > 3.4028234663852886e38)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "init_scale", "init_scale is %g, more than f32 holds",
                          o->init_scale);
    if (o->growth_interval < 0 || o->growth_interval > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "growth_interval",
                          "growth_interval is %lld; it must be a number of steps from 1 to %d",
                          (long long)o->growth_interval, INT32_MAX);
    return HAUL_OK;
}

static haul_grad_scaler *new_scaler(const haul_grad_scaler_options *o)
{
    HAUL__ASSERT(o->optimizer->count > 0);
    haul_device *device = o->optimizer->entries[0].parameter->storage->device;
    haul_tensor *scale = number_on(device, HAUL_F32, o->init_scale != 0 ? o->init_scale : 65536);
    haul_tensor *tracker = haul__failed(scale) ? NULL : number_on(device, HAUL_I32, 0);
    if (haul__failed(tracker))
        return NULL;
    haul_grad_scaler *s = haul__object_new_zeroed(sizeof *s, &scaler_class);
    if (!s) {
        haul__fail_memory("haul_grad_scaler_new", sizeof *s);
        return NULL;
    }
    s->how = (haul__grad_growth){.growth = o->growth != 0 ? o->growth : 2,
                                 .backoff = o->backoff != 0 ? o->backoff : 0.5,
                                 .least = o->init_scale != 0 && o->init_scale < 1 ? o->init_scale : 1,
                                 .interval = o->growth_interval ? o->growth_interval : 2000};
    s->round = 1;
    HAUL__ASSERT(s->how.growth > 1 && s->how.backoff < 1 && s->how.least > 0 && s->how.interval > 0);
    hold(&s->scale, scale);
    hold(&s->tracker, tracker);
    return s;
}

static void attach(haul_optimizer *optimizer, haul_grad_scaler *scaler)
{
    if (optimizer->scaler == scaler)
        return;
    haul__object_keep(scaler);
    haul__object_release(optimizer->former_scaler);
    optimizer->former_scaler = optimizer->scaler;
    optimizer->scaler = scaler;
    optimizer->unscaled_round = optimizer->stepped_round = 0;
}

haul_grad_scaler *haul_grad_scaler_new_with(const haul_grad_scaler_options *options)
{
    static const char operation[] = "haul_grad_scaler_new";
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    if (haul__check_optimizer(options->optimizer, operation) || check_options(options) ||
        keep_optimizer(options->optimizer, operation))
        return NULL;
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return NULL;
    haul_grad_scaler *s = new_scaler(options);
    haul_scope_pop(scope);
    if (!s)
        haul__fail_within(operation);
    s = s ? haul__own(s, operation) : NULL;
    if (s)
        attach(options->optimizer, s);
    return s;
}

/* ---- scaling ---- */

haul_tensor *haul_grad_scaler_scale(haul_grad_scaler *scaler, haul_tensor *loss)
{
    static const char operation[] = "haul_grad_scaler_scale";
    haul_status       status = check_scaler(scaler, operation);
    if (!status)
        status = haul__check_tensor(operation, "loss", loss);
    if (!status && !haul_dtype_is_float(loss->dtype))
        status = haul__fail(HAUL_DTYPE, operation, "loss", "loss is %s, but a floating dtype is expected",
                            haul_dtype_name(loss->dtype));
    haul_scope *scope = status ? NULL : haul__scope_push(NULL);
    if (!scope)
        return haul__failed_tensor();
    HAUL__ASSERT(scaler->scale->count == 1 && scaler->scale->storage->device == scaler->tracker->storage->device);
    haul_tensor *scaled = haul_mul(loss, haul_to(haul_detach(scaler->scale), loss->storage->device));
    return haul__result(haul_scope_return(scope, scaled));
}

double haul_grad_scaler_factor(haul_grad_scaler *scaler)
{
    return check_scaler(scaler, "haul_grad_scaler_factor") ? NAN : haul_item(scaler->scale);
}

haul_status haul_grad_scaler_check(haul_grad_scaler *scaler)
{
    static const char operation[] = "haul_grad_scaler_check";
    enum { PATIENCE = 20 }; /* skipped steps in a row: single mini-batches may overflow */
    int32_t tracker;
    if (check_scaler(scaler, operation) || haul_read(scaler->tracker, &tracker, sizeof tracker))
        return haul_error_status();
    if (tracker > -PATIENCE)
        return HAUL_OK;
    return haul__fail(HAUL_STATE, operation, "scaler",
                      "the last %d steps were skipped although the scale is %g, the least: each had gradients that are "
                      "not finite; look for infinite values and NaN in the data and in the loss, lower the learning "
                      "rate, or compute in bf16 or f32",
                      -tracker, scaler->how.least);
}

/* ---- unscaling ---- */

/* The gradients on one device. */
typedef struct group {
    haul_device *device;
    int64_t      marks; /* how many marks they leave */
    haul_tensor *scale, *left, *found;
} group;

typedef struct unscaling {
    haul_optimizer *optimizer;
    haul_tensor   **gradients; /* by entry; dense, or NULL */
    group           groups[HAUL__MAX_DEVICES];
    int             count;
    haul__divided  *divided; /* other ranks have some of the gradients, and the last mark of groups[0] is theirs */
} unscaling;

static group *group_of(unscaling *u, haul_device *device)
{
    int i = 0;
    while (i < u->count && u->groups[i].device != device)
        i++;
    if (i == u->count)
        u->groups[u->count++] = (group){.device = device};
    return &u->groups[i];
}

/* Checks every gradient and changes none. */
static haul_status gather(unscaling *u)
{
    static const char operation[] = "haul_grad_scaler_unscale";
    for (int i = 0; i < u->optimizer->count; i++) {
        const haul__optimizer_entry *e = &u->optimizer->entries[i];
        haul_tensor                 *g = e->parameter->grad;
        if (!g)
            continue;
        HAUL__ASSERT(g->count == e->parameter->count);
        if (g->dtype == HAUL_F16)
            return haul__fail(HAUL_DTYPE, operation, "optimizer",
                              "the gradient of '%s' is f16, which is too narrow to be unscaled; keep parameters in f32 "
                              "and compute in f16 with haul_autocast_begin",
                              e->name);
        u->gradients[i] = haul__tensor_is_gap_free(g) ? g : haul__to_order_of(g, e->parameter);
        if (haul__failed(u->gradients[i]) || haul__grad_prepare(u->gradients[i]))
            return haul_error_status();
        group_of(u, g->storage->device)->marks += haul__grad_marks(g->count);
        HAUL__ASSERT(g->storage->device == e->parameter->storage->device);
    }
    u->divided = haul__divided_of_optimizer(u->optimizer);
    if (u->divided)
        (u->count ? &u->groups[0] : group_of(u, u->optimizer->entries[0].parameter->storage->device))->marks++;
    if (!u->count)
        return haul__fail(HAUL_STATE, operation, "optimizer",
                          "no parameter has a gradient; call haul_backward on the scaled loss first");
    HAUL__ASSERT(u->groups[0].marks > 0);
    return HAUL_OK;
}

static haul_status prepare(haul_grad_scaler *s, unscaling *u)
{
    for (int i = 0; i < u->count; i++) {
        group *g = &u->groups[i];
        HAUL__ASSERT(g->marks > 0 && !g->left);
        if (haul_set_device(g->device)) /* the scope restores the setting */
            return haul_error_status();
        g->scale = haul_to(s->scale, g->device);
        g->left = u->divided ? haul_zeros(HAUL_F32, HAUL_SHAPE(g->marks)) : haul_empty(HAUL_F32, HAUL_SHAPE(g->marks));
        g->found = haul_empty(HAUL_F32, HAUL_SCALAR_SHAPE);
        if (haul__failed(g->scale) || haul__failed(g->left) || haul__failed(g->found))
            return haul_error_status();
    }
    return HAUL_OK;
}

/* The scale and what belongs to it are on the device of the first gradients. */
static haul_status settle(haul_grad_scaler *s, haul_device *device)
{
    if (s->found || s->scale->storage->device == device)
        return HAUL_OK;
    haul_tensor *scale = haul_to(s->scale, device), *tracker = haul_to(s->tracker, device);
    if (haul__failed(scale) || haul__failed(tracker))
        return haul_error_status();
    HAUL__ASSERT(scale->count == 1 && tracker->count == 1);
    hold(&s->scale, scale);
    hold(&s->tracker, tracker);
    return HAUL_OK;
}

static haul_status unscale_all(unscaling *u)
{
    int64_t at[HAUL__MAX_DEVICES] = {0};
    for (int i = 0; i < u->optimizer->count; i++) {
        haul_tensor *g = u->gradients[i];
        if (!g)
            continue;
        int k = (int)(group_of(u, g->storage->device) - u->groups);
        HAUL__ASSERT(k < u->count && at[k] < u->groups[k].marks);
        haul_status status = haul__grad_unscale(g, u->groups[k].scale, u->groups[k].left, at[k]);
        if (status || (g != u->optimizer->entries[i].parameter->grad &&
                       (status = haul_set_grad(u->optimizer->entries[i].parameter, g))))
            return status;
        at[k] += haul__grad_marks(g->count);
    }
    return HAUL_OK;
}

/* True if an own gradient is not finite. Waits for the device. */
static haul_status look_at_own(const unscaling *u, double *found)
{
    HAUL__ASSERT(u->count > 0);
    haul_status status = HAUL_OK;
    for (int i = 0; i < u->count && !status && !haul__is_dry(); i++) {
        float own = 0;
        status = haul__grad_found(u->groups[i].found, HAUL_NONE, u->groups[i].left);
        if (!status)
            status = haul_read(u->groups[i].found, &own, sizeof own);
        *found = *found != 0 || own != 0;
    }
    return status;
}

/* What one rank has found counts on all ranks. */
static haul_status look_at_all(const unscaling *u)
{
    static const char    operation[] = "haul_grad_scaler_unscale";
    const haul__divided *d = u->divided;
    double              *found = haul__calloc((size_t)d->ranks, sizeof *found);
    haul_status          status =
        found ? look_at_own(u, &found[d->rank]) : haul__fail_memory(operation, (size_t)d->ranks * sizeof *found);
    if (!status)
        status = d->gather(d, operation, found, 1);
    bool any = false;
    for (int r = 0; r < d->ranks && !status; r++)
        any = any || found[r] != 0;
    const group *first = &u->groups[0];
    HAUL__ASSERT(status || first->left->count == first->marks);
    if (!status && any)
        status = haul_fill_into(haul_slice(first->left, 0, first->marks - 1, first->marks, 1), 1);
    haul__free(found);
    return status;
}

/* Combines the results of all devices on the first one; the optimizer's count of skipped steps continues. */
static haul_tensor *found_by_all(unscaling *u, haul_tensor *skipped)
{
    haul_tensor *each[HAUL__MAX_DEVICES];
    HAUL__ASSERT(u->count > 0 && u->count <= HAUL__MAX_DEVICES);
    for (int i = 0; i < u->count; i++) {
        group *g = &u->groups[i];
        if (haul__grad_found(g->found, u->count == 1 ? skipped : HAUL_NONE, g->left) ||
            haul__failed(each[i] = haul_to(g->found, u->groups[0].device)))
            return NULL;
    }
    if (u->count == 1)
        return each[0];
    HAUL__ASSERT(each[0]->count == 1);
    haul_tensor *found = haul_empty_like(each[0]);
    return haul__grad_found(found, skipped, haul_stack(each, u->count, 0)) ? NULL : found;
}

static haul_status unscale_in_scope(haul_grad_scaler *s, unscaling *u)
{
    haul_optimizer *o = u->optimizer;
    haul_status     status = gather(u);
    if (!status)
        status = settle(s, u->groups[0].device);
    if (!status)
        status = prepare(s, u);
    if (status)
        return status;
    HAUL__ASSERT(u->count > 0 && s->scale->storage->device == s->tracker->storage->device);
    haul_device *home = u->groups[0].device;
    haul_tensor *skipped = o->skipped ? haul_identity(o->skipped, home) : number_on(home, HAUL_I64, 0);
    if (haul__failed(skipped) || unscale_all(u) || (u->divided && look_at_all(u)))
        return haul_error_status();
    haul_tensor *found = found_by_all(u, skipped);
    haul_tensor *sum = found && s->found ? haul_maximum(s->found, haul_to(found, s->scale->storage->device)) : found;
    if (haul__failed(sum))
        return haul_error_status();
    HAUL__ASSERT(sum->count == 1 && skipped->dtype == HAUL_I64);
    hold(&o->skipped, skipped);
    hold(&o->found, found);
    hold(&s->found, sum);
    attach(o, s);
    HAUL__ASSERT(o->scaler == s);
    o->unscaled_round = s->round;
    return HAUL_OK;
}

static bool is_done(const haul_grad_scaler *s, const haul_optimizer *o, int64_t round)
{
    return o->scaler == s && round == s->round;
}

bool haul__grad_scaler_has_unscaled(const haul_grad_scaler *scaler, const haul_optimizer *optimizer)
{
    return is_done(scaler, optimizer, optimizer->unscaled_round);
}

static haul_status unscale(haul_grad_scaler *s, haul_optimizer *o)
{
    static const char operation[] = "haul_grad_scaler_unscale";
    HAUL__ASSERT(s->round > 0 && o->count > 0);
    if (keep_scaler(s, operation) || keep_optimizer(o, operation))
        return haul_error_status();
    unscaling u = {.optimizer = o, .gradients = haul__calloc((size_t)o->count, sizeof *u.gradients)};

    if (!u.gradients)
        return haul__fail_memory(operation, (size_t)o->count * sizeof *u.gradients);
    haul_scope *scope = haul__scope_push(NULL);
    haul_status status = scope ? HAUL_OK : haul_error_status();
    if (!status) {
        haul_set_grad_enabled(false);
        haul__place_as_given();
        status = unscale_in_scope(s, &u);
        if (status && u.divided)
            u.divided->fail(u.divided, operation);
        haul_scope_pop(scope);
    }
    haul__free(u.gradients);
    return status;
}

haul_status haul_grad_scaler_unscale(haul_grad_scaler *scaler, haul_optimizer *optimizer)
{
    static const char operation[] = "haul_grad_scaler_unscale";
    if (check_scaler(scaler, operation) || haul__check_optimizer(optimizer, operation))
        return haul_error_status();
    if (is_done(scaler, optimizer, optimizer->unscaled_round))
        return haul__fail(HAUL_STATE, operation, "optimizer",
                          "its gradients were unscaled already, since the last haul_grad_scaler_update");
    return unscale(scaler, optimizer);
}

/* ---- a step ---- */

haul_status haul_grad_scaler_step(haul_grad_scaler *scaler, haul_optimizer *optimizer)
{
    static const char operation[] = "haul_grad_scaler_step";
    if (check_scaler(scaler, operation) || haul__check_optimizer(optimizer, operation))
        return haul_error_status();
    if (is_done(scaler, optimizer, optimizer->stepped_round))
        return haul__fail(HAUL_STATE, operation, "optimizer",
                          "its step was made already; call haul_grad_scaler_update after the steps of all optimizers");
    haul_status status = haul__divided_refuse(optimizer, operation);
    if (!status)
        status = keep_optimizer(optimizer, operation);
    if (!status && !is_done(scaler, optimizer, optimizer->unscaled_round))
        status = unscale(scaler, optimizer);
    HAUL__ASSERT(status || (optimizer->found && is_done(scaler, optimizer, optimizer->unscaled_round)));
    if (!status)
        status = haul__optimizer_guarded_step(optimizer, optimizer->found);
    if (!status)
        optimizer->stepped_round = scaler->round;
    return status;
}

static haul_status update(haul_grad_scaler *s)
{
    haul_tensor *scale = s->scale, *tracker = s->tracker;
    HAUL__ASSERT(s->found && s->round > 0);
    if (keep_scaler(s, "haul_grad_scaler_update") || haul__grad_scale_update(&scale, &tracker, s->found, &s->how))
        return haul_error_status();
    HAUL__ASSERT(scale != s->scale && tracker != s->tracker);
    hold(&s->scale, scale);
    hold(&s->tracker, tracker);
    hold(&s->found, NULL);
    s->round++;
    return HAUL_OK;
}

haul_status haul_grad_scaler_update(haul_grad_scaler *scaler)
{
    if (check_scaler(scaler, "haul_grad_scaler_update"))
        return haul_error_status();
    if (!scaler->found)
        return haul__fail(HAUL_STATE, "haul_grad_scaler_update", "scaler",
                          "no gradients were looked at since the last update; call haul_grad_scaler_step first");
    haul_scope *scope = haul__scope_push(NULL);
    haul_status status = scope ? update(scaler) : haul_error_status();
    haul_scope_pop(scope);
    return status;
}

/* ---- state ---- */

void haul__grad_scaler_state(haul_grad_scaler *scaler, haul_tensor **scale, haul_tensor **tracker)
{
    *scale = scaler->scale;
    *tracker = scaler->tracker;
}

haul_status haul__grad_scaler_check_state(haul_tensor *t, bool is_scale)
{
    static const char operation[] = "haul_optimizer_load_state";
    const char       *name = is_scale ? HAUL__SCALER_SCALE : HAUL__SCALER_TRACKER;
    if (t->count != 1 || t->shape.ndim || t->dtype != (is_scale ? HAUL_F32 : HAUL_I32))
        return haul__fail(HAUL_SHAPE, operation, "tensors", "'%s' must be a single %s", name, is_scale ? "f32" : "i32");
    double value = haul_item(t);
    if ((value >= 0 || !is_scale) && value - value == 0)
        return HAUL_OK;
    return haul__fail(HAUL_FORMAT, operation, "tensors", "'%s' is %g, which is not a valid state", name, value);
}

void haul__grad_scaler_set_state(haul_grad_scaler *scaler, haul_tensor *scale, haul_tensor *tracker)
{
    hold(&scaler->scale, scale);
    hold(&scaler->tracker, tracker);
    hold(&scaler->found, NULL);
    scaler->round++;
}
