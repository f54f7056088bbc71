/* The driver's first step: checks the operands and brings them to one device, dtype and layout. Most calls need none of
 * the three, so a single pass over the operands finds out which steps are needed. */
#include <stdio.h>

#include "base/assert.h"
#include "core/scope.h"
#include "engine/autocast.h"
#include "engine/copy.h"
#include "engine/driver.h"
#include "engine/placement/placement.h"

/* ---- dtypes ---- */

static bool autocasts(const haul__call *c)
{
    return haul__autocast_begun() && !c->into;
}

/* Sets of dtypes that only a custom operation has are written out, in `room`. */
static const char *wanted_text(uint32_t dtypes, char *room, size_t size)
{
    if (dtypes == HAUL__FLOATS)
        return "a floating dtype is expected; convert it with haul_cast";
    if (dtypes == HAUL__INTEGERS)
        return "indices are integers: i64, i32 or u8; convert it with haul_cast";
    if (dtypes == (HAUL__INTEGERS | HAUL__UNSIGNED | HAUL__ONLY(HAUL_BOOL)) ||
        dtypes == (HAUL__INTEGERS | HAUL__UNSIGNED))
        return "integers are expected; convert it with haul_cast";
    if (dtypes == HAUL__ONLY(HAUL_BOOL))
        return "a bool is expected, as comparisons give";
    if ((dtypes | HAUL__UNSIGNED) == (HAUL__NUMBERS | HAUL__UNSIGNED))
        return "numbers are expected; convert it with haul_cast";
    size_t at = 0;
    for (int d = HAUL_DTYPE_NONE + 1; d < HAUL_DTYPE_END && at < size; d++)
        if (dtypes & HAUL__ONLY(d))
            at += (size_t)snprintf(room + at, size - at, "%s%s", at ? " or " : "", haul_dtype_name((haul_dtype)d));
    if (at < size)
        snprintf(room + at, size - at, " is expected; convert it with haul_cast");
    return room;
}

/* u16, u32 and u64 for an operation that does not take them. */
static haul_status refuse_unsigned(const haul__call *c, int i)
{
    static const char *const fixes[] = {
        "u16, u32 and u64 have moves, comparisons and integer arithmetic only; convert it "
        "with haul_cast to i32, or to i64 if it holds larger numbers",
        "u16, u32 and u64 have moves, comparisons and integer arithmetic only; convert it "
        "with haul_cast to i64"};
    return haul__refuse_dtype(c, i, fixes[c->operands[i]->dtype != HAUL_U16]);
}

static haul_status check_accepted(const haul__call *c, int i, uint32_t dtypes)
{
    if (!dtypes || (dtypes >> c->operands[i]->dtype & 1))
        return HAUL_OK;
    if (haul__is_unsigned(c->operands[i]->dtype))
        return refuse_unsigned(c, i);
    char room[120];
    return haul__refuse_dtype(c, i, wanted_text(dtypes, room, sizeof room));
}

/* Operands that do not follow the rule. */
static haul_status fix_own(haul__call *c)
{
    for (int i = 0; i < c->count; i++) {
        const haul__operand *spec = haul__operand_spec(c, i);
        if (!spec->accepts || haul__is_none(c->operands[i]))
            continue;
        HAUL__ASSERT(!spec->becomes || (spec->accepts >> spec->becomes & 1)); /* its own form is accepted */
        if (check_accepted(c, i, spec->accepts))
            return haul_error_status();
        if (spec->becomes && c->operands[i]->dtype != spec->becomes &&
            haul__failed(c->operands[i] = haul_cast(c->operands[i], spec->becomes)))
            return haul_error_status();
    }
    return HAUL_OK;
}

static bool follows_rule(const haul__call *c, int i)
{
    return !haul__is_none(c->operands[i]) && !haul__operand_spec(c, i)->accepts;
}

haul_dtype haul__promote(const haul__call *c, haul_dtype dtype, int i)
{
    const haul_dtype common = haul_dtype_promote(dtype, c->operands[i]->dtype);
    if (!common && c->operation->rule == HAUL__FLOATED)
        return HAUL_F32;
    if (!common) {
        char text[100];
        snprintf(text, sizeof text, "no dtype has the values of %s and %s; convert one of them with haul_cast",
                 haul_dtype_name(dtype), haul_dtype_name(c->operands[i]->dtype));
        haul__refuse_dtype(c, i, text);
    }
    return common;
}

/* What the operands promote to; HAUL_DTYPE_NONE if none follows the rule. */
static haul_status promoted(const haul__call *c, haul_dtype *dtype)
{
    *dtype = HAUL_DTYPE_NONE;
    for (int i = 0; i < c->count; i++)
        if (follows_rule(c, i) && !(*dtype = *dtype ? haul__promote(c, *dtype, i) : c->operands[i]->dtype))
            return haul_error_status();
    return HAUL_OK;
}

static haul_status check_rule(const haul__call *c)
{
    const uint32_t given = c->operation->dtypes, dtypes = given || c->operation->view ? given : HAUL__ALL;
    for (int i = 0; i < c->count; i++)
        if (follows_rule(c, i) && check_accepted(c, i, dtypes))
            return haul_error_status();
    return HAUL_OK;
}

/* Casts the operands that follow the rule to the one dtype that it requires. */
static haul_status follow_rule(haul__call *c)
{
    const haul__operation *operation = c->operation;
    haul_dtype             dtype;
    if (operation->common_dtype) {
        dtype = operation->common_dtype(c);
        if (!dtype)
            return haul_error_status();
    } else if (operation->rule == HAUL__AS_GIVEN && operation->autocast != HAUL__WIDE) {
        return check_rule(c);
    } else if (promoted(c, &dtype)) {
        return haul_error_status();
    }
    if (dtype && operation->rule == HAUL__FLOATED && !haul_dtype_is_float(dtype))
        dtype = HAUL_F32;
    if (dtype && operation->autocast == HAUL__WIDE && autocasts(c))
        dtype = haul__autocast_wide(c->device, dtype);
    for (int i = 0; i < c->count; i++)
        if (follows_rule(c, i) && c->operands[i]->dtype != dtype &&
            haul__failed(c->operands[i] = haul_cast(c->operands[i], dtype)))
            return haul_error_status();
    return check_rule(c);
}

/* ---- recorded calls ---- */

/* An operation without results writes its operands, so the gradients of the others would be lost. */
static haul_status refuse_written(const haul__call *c)
{
    int i = 0, written = 0;
    while (!haul__tracks(c->operands[i]))
        i++;
    while (!haul__operand_spec(c, written)->written)
        written++;
    HAUL__ASSERT(i < c->count && written < c->count);
    return haul__fail(HAUL_GRAPH, c->operation->name, haul__operand_name(c, i),
                      "%s requires a gradient, and writing into %s cannot be differentiated; detach it or turn "
                      "recording off with haul_set_grad_enabled(false)",
                      haul__operand_name(c, i), haul__operand_name(c, written));
}

haul_status haul__find_gradients(haul__call *c)
{
    HAUL__ASSERT(!c->wanted && !c->saves && !c->saves_results);
    const haul__operation *operation = c->operation;
    for (int i = 0; i < c->count; i++) {
        if (haul__tracks(c->operands[i])) /* not HAUL_NONE */
            c->wanted |= 1u << (i < 31 ? i : 31);
    }
    if (!c->wanted)
        return HAUL_OK;
    if (!c->result_count)
        return refuse_written(c);
    c->records = !operation->not_recorded && (operation->gradient || operation->compose);
    if (!c->records || !operation->gradient || operation->repeat)
        return HAUL_OK;
    for (int i = 0; i < c->count; i++)
        if (operation->operands[i].saved_for & c->wanted)
            c->saves |= 1u << i;
    for (int i = 0; i < c->result_count; i++)
        if (operation->results[i].saved_for & c->wanted)
            c->saves_results |= 1u << i;
    return HAUL_OK;
}

/* ---- all of it ---- */

static haul_status refuse_none(const haul__call *c, int i)
{
    char        at[32] = "";
    const char *name = haul__operand_name(c, i);
    if (c->operation->repeat)
        snprintf(at, sizeof at, "[%d]", i / c->operation->repeat);
    return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, name, "%s%s is HAUL_NONE, but a tensor is needed here",
                      name, at);
}

static bool fits_layout(const haul_tensor *t, const haul__operand *spec)
{
    return t->contiguous || spec->layout == HAUL__ANY_STRIDES || spec->written;
}

/* True if t keeps its dtype. `shared` is the dtype of the earlier operands that follow the rule. */
static bool fits_dtype(const haul_tensor *t, const haul__operand *spec, haul_dtype *shared)
{
    if (spec->accepts)
        return (spec->accepts >> t->dtype & 1) && (!spec->becomes || spec->becomes == t->dtype);
    if (*shared)
        return t->dtype == *shared;
    *shared = t->dtype;
    return HAUL__FLOATS >> t->dtype & 1;
}

/* What a single pass over the operands finds. Most calls need no more than this. */
typedef struct look {
    bool mixed; /* they are on several devices */
    bool casts; /* one of them may have to be cast */
} look;

/* Copies the operands into the call and checks each once. Fails if a required one is missing. */
static haul_status look_at(haul__call *c, haul_tensor *const *operands, look *found)
{
    const haul__operation *operation = c->operation;
    const haul__operand   *spec = operation->operands;
    const haul__operand   *behind = spec + (operation->repeat ? operation->repeat : HAUL__MAX_OPERANDS);
    haul_device           *device = NULL;
    haul_dtype             shared = HAUL_DTYPE_NONE;
    bool                   mixed = false, same_dtype = true, packed = true;
    HAUL__ASSERT(operation->repeat ? c->count % operation->repeat == 0 : c->count <= HAUL__MAX_OPERANDS);
    if (operation->repeat && (c->count < 1 || !operands))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation->name, haul__operand_name(c, 0),
                          "%d tensors are given; at least one is needed", operands ? c->count : 0);
    for (int i = 0; i < c->count; i++, spec = spec + 1 == behind ? operation->operands : spec + 1) {
        haul_tensor *t = c->operands[i] = operands[i];
        if (__builtin_expect(!haul__is_tensor(t), 0)) {
            if (!haul__is_none(t))
                return haul__check_optional(operation->name, spec->name, t);
            if (!spec->optional)
                return refuse_none(c, i);
            continue;
        }
        HAUL__ASSERT(!spec->written || i < 64);
        c->writes |= (uint64_t)spec->written << i % 64;
        device = device ? device : t->storage->device;
        mixed = mixed || t->storage->device != device;
        same_dtype = same_dtype && fits_dtype(t, spec, &shared);
        packed = packed && fits_layout(t, spec);
    }
    c->device = device;
    c->fits = packed;
    same_dtype = same_dtype && shared && (!operation->dtypes || operation->dtypes >> shared & 1);
    *found = (look){.mixed = mixed, .casts = c->count && (!same_dtype || autocasts(c))};
    return HAUL_OK;
}

haul_status haul__take_operands(haul__call *c, haul_tensor *const *operands)
{
    look        found = {.mixed = false};
    haul_status status = look_at(c, operands, &found);
    if (!status && haul__places_each() && haul__places(c)) {
        status = haul__place_each(c);
        c->fits = false;
    } else if (!status && found.mixed && !c->operation->any_device && !haul__places_in_parts(c)) {
        status = haul__place_operands(c);
        c->fits = false;
    }
    if (!status && found.casts) {
        c->fits = false;
        if (autocasts(c))
            status = haul__autocast_operands(c);
        if (!status)
            status = fix_own(c);
        if (!status)
            status = follow_rule(c);
    }
    HAUL__ASSERT(status || !c->count || c->device);
    c->inputs = c->operands;
    if (!status && !haul__thread()->no_grad)
        status = haul__find_gradients(c);
    return status;
}

/* The copy as a call of its own, so that a recording has it. */
static haul_tensor *packed_by_call(haul_tensor *t, bool channels_last)
{
    haul_scope scope;
    if (haul__scope_open(&scope, "haul_contiguous"))
        return NULL;
    haul_set_grad_enabled(false);
    int64_t strides[HAUL_MAX_DIMS];
    if (channels_last)
        haul__shape_strides_channels_last(&t->shape, strides);
    else
        haul__shape_strides(&t->shape, strides);
    haul_tensor *packed = haul__copy_to_strides(t, strides);
    haul__scope_hand_over(&scope, packed);
    haul__scope_close(&scope);
    return packed;
}

haul_status haul__pack_operands(haul__call *c)
{
    if (c->operation->compose) /* the operations it is made of do that, and copies made here would be outside the
                                * graph */
        return HAUL_OK;
    for (int i = 0; i < c->count; i++) {
        const haul__operand *spec = haul__operand_spec(c, i);
        haul_tensor         *t = c->operands[i];
        if (haul__is_none(t) || fits_layout(t, spec))
            continue;
        if (c->inputs == c->operands) {
            haul_tensor **inputs = c->count > HAUL__OWN_OPERANDS ? c->operands + c->count : c->own_inputs;
            for (int k = 0; k < c->count; k++)
                inputs[k] = c->operands[k];
            c->inputs = inputs;
        }
        const bool channels_last = spec->layout == HAUL__BATCH_FORMAT && haul__wants_channels_last(t);
        c->operands[i] = haul__is_recorded() ? packed_by_call(t, channels_last) : haul__as_format(c, t, channels_last);
        if (haul__failed(c->operands[i]))
            return haul_error_status();
        HAUL__ASSERT(haul__tensor_is_gap_free(c->operands[i]) && c->operands[i]->dtype == t->dtype);
    }
    return HAUL_OK;
}
