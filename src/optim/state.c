/* The state of optimizers as named tensors, for checkpoints. */
#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "engine/copy.h"
#include "engine/placement/placement.h"
#include "memory/mark.h"
#include "optim/offload.h"
#include "optim/optimizer.h"

/* ---- reading ---- */

enum { SCALER_STATES = 2 };
static const char *const scaler_names[SCALER_STATES] = {HAUL__SCALER_SCALE, HAUL__SCALER_TRACKER};

haul_status haul__optimizer_entry_steps(const haul__optimizer_entry *e, int64_t *steps)
{
    HAUL__ASSERT(e->steps >= 0 && (!e->made || (e->made->dtype == HAUL_I64 && e->made->count == 2)));
    *steps = e->steps;
    if (!e->made)
        return HAUL_OK;
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    const haul_status status = haul_read(haul_select(e->made, 0, e->steps & 1), steps, sizeof *steps);
    haul_scope_pop(scope);
    return status;
}

/* The number of steps as a tensor that the entry holds. */
static haul_status refresh_steps(haul__optimizer_entry *e)
{
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    int64_t     steps;
    haul_status status = haul__optimizer_entry_steps(e, &steps);
    float       value = (float)steps;
    if (!status)
        status = haul_set_device(haul_cpu());
    if (!status) {
        haul_tensor *t = haul_from_host(HAUL_F32, HAUL_SCALAR_SHAPE, &value);
        status = haul__status_of(t);
        if (!haul__failed(t)) {
            haul__object_keep(t);
            HAUL__ASSERT(t != e->steps_tensor && t->count == 1);
            haul__object_release(e->steps_tensor);
            e->steps_tensor = t;
        }
    }
    haul_scope_pop(scope);
    return status;
}

/* The state tensors that the kind saves for each parameter. */
static int saved_count(const haul__optimizer_kind *kind)
{
    return kind->state_count + (kind->saves_steps ? 1 : 0);
}

int haul_optimizer_state(haul_optimizer *optimizer, haul_named_tensor *out, int capacity)
{
    static const char operation[] = "haul_optimizer_state";
    int               count = 0;
    if (haul__check_optimizer(optimizer, operation))
        return -1;
    if (!out && capacity > 0) {
        haul__fail_null(operation, "out");
        return -1;
    }
    const haul__optimizer_kind *kind = optimizer->kind;
    if (kind->joint)
        return kind->joint->state(optimizer, out, capacity);
    for (int i = 0; i < optimizer->count; i++) {
        haul__optimizer_entry *e = &optimizer->entries[i];
        for (int k = 0; k < saved_count(kind); k++) {
            if (!(k < kind->state_count ? e->states[k] : e->states[0]) || count++ >= capacity)
                continue;
            if (k == kind->state_count && refresh_steps(e))
                return -1;
            haul_tensor *t = k < kind->state_count ? e->states[k] : e->steps_tensor;
            out[count - 1] = (haul_named_tensor){e->state_names[k], t, true};
        }
    }
    HAUL__ASSERT(kind->state_count <= HAUL__MAX_STATES);
    if (optimizer->scaler) {
        haul_tensor *of_scaler[SCALER_STATES];
        haul__grad_scaler_state(optimizer->scaler, &of_scaler[0], &of_scaler[1]);
        for (int k = 0; k < SCALER_STATES; k++, count++)
            if (count < capacity)
                out[count] = (haul_named_tensor){scaler_names[k], of_scaler[k], true};
    }
    HAUL__ASSERT(count >= 0);
    return count;
}

/* ---- writing ---- */

/* The next contents of an entry. */
typedef struct incoming {
    haul_tensor *states[HAUL__MAX_STATES];
    int64_t      steps;
    int          found; /* a bit for each saved tensor */
} incoming;

static haul_status read_steps(const haul_named_tensor *t, int64_t *steps)
{
    static const char operation[] = "haul_optimizer_load_state";
    if (t->tensor->count != 1)
        return haul__fail(HAUL_SHAPE, operation, "tensors", "'%s' is not a single number", t->name);
    double value = haul_item(t->tensor);
    if (!(value >= 0 && value <= (double)HAUL__MOST_STEPS))
        return haul__fail(HAUL_FORMAT, operation, "tensors", "'%s' is %g, which is not a number of steps", t->name,
                          value);
    *steps = (int64_t)value;
    return HAUL_OK;
}

/* True if this is one of the tensors that are saved for the parameter with its settings. */
static bool uses(const haul_optimizer *o, const haul__optimizer_entry *e, int k)
{
    return k == o->kind->state_count || o->kind->states(o->groups[e->group].values) & 1u << k;
}

static haul_status take_state(const haul_optimizer *o, const haul__optimizer_entry *e, int k,
                              const haul_named_tensor *t, haul_tensor **out)
{
    static const char  operation[] = "haul_optimizer_load_state";
    const haul_tensor *p = e->parameter;
    char               have[160], want[160];
    if (!uses(o, e, k))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "tensors",
                          "'%s' is state that this optimizer (%s) does not use with its settings; make the "
                          "optimizer with the settings that the state was written with, such as the same .momentum",
                          t->name, o->kind->name);
    if (!haul__shape_equal(&t->tensor->shape, &p->shape) || t->tensor->dtype != p->dtype)
        return haul__fail(HAUL_SHAPE, operation, "tensors", "'%s' is %s, but the parameter '%s' is %s", t->name,
                          haul__tensor_text(t->tensor, have, sizeof have), e->name,
                          haul__tensor_text(p, want, sizeof want));
    haul_tensor *detached = haul_detach(t->tensor);
    haul_tensor *ordered = haul__failed(detached) ? NULL : haul__copy_to_order_of(detached, p);
    *out = haul__failed(ordered) ? NULL : haul__state_home(o, e, ordered);
    HAUL__ASSERT(haul__failed(*out) || haul__state_is_home(o, e, *out));
    return haul__status_of(*out);
}

/* `out` has a slot for each tensor of the scaler. */
static haul_status take_scaler(haul_optimizer *o, const haul_named_tensor *t, int k, haul_tensor **out)
{
    static const char operation[] = "haul_optimizer_load_state";
    haul_tensor      *of_scaler[SCALER_STATES];
    HAUL__ASSERT(k >= 0 && k < SCALER_STATES);
    if (!o->scaler)
        return haul__fail(
            HAUL_INVALID_ARGUMENT, operation, "tensors",
            "'%s' belongs to loss scaling, and this optimizer has none; make a haul_grad_scaler_new for it "
            "first",
            t->name);
    if (out[k])
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "tensors", "'%s' is given twice", t->name);
    if (haul__grad_scaler_check_state(t->tensor, k == 0))
        return haul_error_status();
    haul__grad_scaler_state(o->scaler, &of_scaler[0], &of_scaler[1]);
    out[k] = haul_identity(t->tensor, of_scaler[k]->storage->device);
    return haul__status_of(out[k]);
}

static haul_status take(haul_optimizer *o, const haul_named_tensor *t, incoming *in, haul_tensor **scaler)
{
    static const char           operation[] = "haul_optimizer_load_state";
    const haul__optimizer_kind *kind = o->kind;
    if (!t->name)
        return haul__fail_null(operation, "tensors");
    if (haul__check_tensor(operation, "tensors", t->tensor))
        return haul_error_status();
    for (int k = 0; k < SCALER_STATES; k++)
        if (!strcmp(scaler_names[k], t->name))
            return take_scaler(o, t, k, scaler);
    for (int i = 0; i < o->count; i++) {
        HAUL__ASSERT(saved_count(kind) <= HAUL__MAX_STATES + 1);
        const haul__optimizer_entry *e = &o->entries[i];
        for (int k = 0; k < saved_count(kind); k++) {
            if (strcmp(e->state_names[k], t->name))
                continue;
            if (in[i].found & 1 << k)
                return haul__fail(HAUL_INVALID_ARGUMENT, operation, "tensors", "'%s' is given twice", t->name);
            in[i].found |= 1 << k;
            HAUL__ASSERT(in[i].found < 1 << saved_count(kind));
            return k < kind->state_count ? take_state(o, e, k, t, &in[i].states[k]) : read_steps(t, &in[i].steps);
        }
    }
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "tensors",
                      "'%s' does not belong to the state of this optimizer (%s)", t->name, kind->name);
}

/* For each parameter, all states that its settings use must be there, or none. */
static haul_status check_complete(const haul_optimizer *o, const incoming *in, haul_tensor *const *scaler)
{
    HAUL__ASSERT(!scaler[0] || o->scaler);
    if (!scaler[0] != !scaler[1])
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_optimizer_load_state", "tensors", "'%s' is missing",
                          scaler_names[scaler[0] ? 1 : 0]);
    for (int i = 0; i < o->count; i++)
        for (int k = 0; k < saved_count(o->kind); k++)
            if (in[i].found && uses(o, &o->entries[i], k) && !(in[i].found & 1 << k))
                return haul__fail(HAUL_INVALID_ARGUMENT, "haul_optimizer_load_state", "tensors", "'%s' is missing",
                                  o->entries[i].state_names[k]);
    return HAUL_OK;
}

void haul__optimizer_entry_set(haul__optimizer_entry *e, haul_tensor *const *states, int64_t steps)
{
    HAUL__ASSERT(steps >= 0);
    for (int k = 0; k < HAUL__MAX_STATES; k++) {
        haul__object_keep(states[k]);
        haul__object_release(e->states[k]);
        e->states[k] = states[k];
        HAUL__ASSERT(!e->states[k] || e->states[k]->count == e->parameter->count);
        haul__set_role(e->states[k], HAUL__ROLE_STATE);
    }
    haul__object_release(e->made);
    e->made = NULL;
    e->steps = steps;
}

static void commit(haul_optimizer *o, const incoming *in, haul_tensor *const *scaler, int64_t steps)
{
    o->steps = steps;
    haul__object_release(o->skipped);
    o->skipped = NULL;
    if (scaler[0])
        haul__grad_scaler_set_state(o->scaler, scaler[0], scaler[1]);
    HAUL__ASSERT(!scaler[0] == !scaler[1]);
    for (int i = 0; i < o->count; i++)
        haul__optimizer_entry_set(&o->entries[i], in[i].states, o->kind->saves_steps ? in[i].steps : steps);
}

/* For a kind with a state of all parameters together. */
static haul_status load_joint(haul_optimizer *o, const haul_named_tensor *tensors, int count, int64_t steps)
{
    static const char operation[] = "haul_optimizer_load_state";
    haul_status       status = HAUL_OK;
    HAUL__ASSERT(count >= 0 && steps >= 0);
    for (int i = 0; i < count && !status; i++)
        status = tensors[i].name ? haul__check_tensor(operation, "tensors", tensors[i].tensor)
                                 : haul__fail_null(operation, "tensors");
    if (!status)
        status = o->kind->joint->load(o, tensors, count);
    if (!status)
        o->steps = steps;
    return status;
}

haul_status haul_optimizer_load_state(haul_optimizer *optimizer, const haul_named_tensor *tensors, int count,
                                      int64_t steps)
{
    static const char operation[] = "haul_optimizer_load_state";
    if (haul__check_optimizer(optimizer, operation))
        return haul_error_status();
    if (!tensors && count > 0)
        return haul__fail_null(operation, "tensors");
    if (count < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count", "count is negative");
    if (haul__check_steps(steps, operation, "steps"))
        return haul_error_status();
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return haul_error_status();
    haul_set_grad_enabled(false);
    haul__place_as_given();
    haul_status  status = HAUL_OK;
    haul_tensor *scaler[SCALER_STATES] = {NULL};
    if (optimizer->kind->joint) {
        status = load_joint(optimizer, tensors, count, steps);
        haul_scope_pop(scope);
        return status;
    }
    incoming *in = haul__calloc((size_t)optimizer->count, sizeof *in);
    HAUL__ASSERT(optimizer->count > 0);
    if (!in)
        status = haul__fail_memory(operation, (size_t)optimizer->count * sizeof *in);
    for (int i = 0; i < count && !status; i++)
        status = take(optimizer, &tensors[i], in, scaler);
    if (!status)
        status = check_complete(optimizer, in, scaler);
    if (!status)
        commit(optimizer, in, scaler, steps);
    haul__free(in);
    haul_scope_pop(scope);
    return status;
}
