/* Functions that all schedules share: making, steps, state, and chains. */
#include "optim/schedule.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/thread.h"
#include "core/trial.h"
#include "optim/optimizer.h"

static void destroy(void *object)
{
    haul_schedule *s = object;
    HAUL__ASSERT(!s->child_count || s->children);
    for (int i = 0; i < s->child_count; i++)
        haul__object_release(s->children[i]);
    haul__object_release(s->optimizer);
    haul__free(s->groups);
    haul__free(s->bases);
    haul__free(s->children);
    haul__free(s->milestones);
    haul__object_free(&s->object, sizeof *s);
}

static const haul__class schedule_class = {.name = "schedule", .destroy = destroy};

haul_status haul__schedule_check(const haul_schedule *schedule, const char *operation)
{
    return haul__check_object(schedule, &schedule_class, operation, "schedule");
}

haul_status haul__schedule_number(double value, double low, bool above, double high, const char *operation,
                                  const char *argument)
{
    if (value - value == 0 && (above ? value > low : value >= low) && value <= high)
        return HAUL_OK;
    if (isinf(high))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is %g; a number %s %g is expected", argument,
                          value, above ? "above" : "of at least", low);
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is %g; a number %s %g and at most %g is expected",
                      argument, value, above ? "above" : "of at least", low, high);
}

/* ---- making ---- */

static haul_status check_target(const haul__schedule_target *t, const char *operation)
{
    if (haul__check_optimizer(t->optimizer, operation))
        return haul_error_status();
    if (t->groups ? t->count < 1 : t->count != 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count", "count is %d; the number of .groups is expected",
                          t->count);
    for (int i = 0; i < t->count; i++) {
        if (t->groups[i] < 0 || t->groups[i] >= t->optimizer->group_count)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "groups",
                              "groups[%d] is %d, but the optimizer has the groups 0 to %d", i, t->groups[i],
                              t->optimizer->group_count - 1);
        for (int k = 0; k < i; k++)
            if (t->groups[k] == t->groups[i])
                return haul__fail(HAUL_INVALID_ARGUMENT, operation, "groups", "group %d is given twice", t->groups[i]);
    }
    return HAUL_OK;
}

static haul_status fill(haul_schedule *s, const haul__schedule_target *t, const char *operation)
{
    s->optimizer = t->optimizer;
    haul__object_keep(s->optimizer);
    HAUL__ASSERT(!s->groups && !s->bases);
    s->group_count = t->groups ? t->count : t->optimizer->group_count;
    s->groups = haul__calloc((size_t)s->group_count, sizeof *s->groups);
    s->bases = haul__calloc((size_t)s->group_count, sizeof *s->bases);
    if (!s->groups || !s->bases)
        return haul__fail_memory(operation, (size_t)s->group_count * sizeof *s->bases);
    for (int k = 0; k < s->group_count; k++) {
        haul__optimizer_group *g = &t->optimizer->groups[s->groups[k] = t->groups ? t->groups[k] : k];
        HAUL__ASSERT(s->groups[k] >= 0 && s->groups[k] < t->optimizer->group_count);
        s->bases[k] = g->has_base ? g->base : g->values[HAUL__LR];
    }
    return HAUL_OK;
}

/* Keeps the base rates in the groups: later schedules of these groups begin with the same ones. */
static void set_bases(const haul_schedule *s)
{
    for (int k = 0; k < s->group_count; k++) {
        haul__optimizer_group *g = &s->optimizer->groups[s->groups[k]];
        g->base = s->bases[k];
        g->has_base = true;
    }
}

haul_schedule *haul__schedule_new(const haul__schedule_kind *kind, const haul__schedule_target *target,
                                  const double *numbers, int count, const char *operation)
{
    if (check_target(target, operation))
        return NULL;
    haul_schedule *s = haul__object_new_zeroed(sizeof *s, &schedule_class);
    if (!s) {
        haul__fail_memory(operation, sizeof *s);
        return NULL;
    }
    s->kind = kind;
    HAUL__ASSERT(count >= 0 && count <= HAUL__SCHEDULE_NUMBERS);
    memcpy(s->numbers, numbers, (size_t)count * sizeof *numbers);
    if (fill(s, target, operation)) {
        haul__object_release(s);
        return NULL;
    }
    s = haul__own(s, operation);
    if (!s)
        return NULL;
    HAUL__ASSERT(s->group_count > 0 && !s->child_count);
    set_bases(s);
    return haul__schedule_begin(s) ? NULL : s;
}

void haul__schedule_set_rate(const haul_schedule *s, int k, double rate)
{
    s->optimizer->groups[s->groups[k]].values[HAUL__LR] = rate;
}

/* ---- steps ---- */

haul_status haul__schedule_begin(haul_schedule *s)
{
    s->count = 0;
    s->best = NAN;
    s->stalled = s->cooling = 0;
    return s->kind->apply(s);
}

haul_status haul__schedule_advance(haul_schedule *s, double metric)
{
    HAUL__ASSERT(s->count >= 0);
    if (s->kind->step)
        return s->kind->step(s, metric);
    s->count++;
    haul_status status = s->kind->apply(s);
    s->count -= status != HAUL_OK;
    return status;
}

/* The schedule that makes the next step: in a chain, one of its parts. */
static const haul_schedule *next_of(const haul_schedule *s)
{
    while (s->child_count) {
        int i = 0;
        HAUL__ASSERT(s->milestones && s->count >= 0);
        while (i < s->child_count - 1 && s->milestones[i] <= s->count + 1)
            i++;
        s = s->children[i];
    }
    return s;
}

/* A dry run leaves the rate as it is, and a followed step cannot change it. */
static haul_status advance(haul_schedule *s, double metric, const char *operation)
{
    return haul__is_trial() ? haul__refuse_followed(operation, "changes the rate") : haul__schedule_advance(s, metric);
}

haul_status haul_schedule_step(haul_schedule *schedule)
{
    static const char operation[] = "haul_schedule_step";
    if (haul__schedule_check(schedule, operation))
        return haul_error_status();
    if (next_of(schedule)->kind->needs_metric)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "schedule",
                          "the step of a %s needs a metric; call haul_schedule_step_metric",
                          next_of(schedule)->kind->name);
    return advance(schedule, NAN, operation);
}

haul_status haul_schedule_step_metric(haul_schedule *schedule, double metric)
{
    static const char operation[] = "haul_schedule_step_metric";
    if (haul__schedule_check(schedule, operation))
        return haul_error_status();
    return advance(schedule, metric, operation);
}

const char *haul_schedule_kind(const haul_schedule *schedule)
{
    return haul__schedule_check(schedule, "haul_schedule_kind") ? "" : schedule->kind->name;
}

int64_t haul_schedule_steps(const haul_schedule *schedule)
{
    return haul__schedule_check(schedule, "haul_schedule_steps") ? -1 : schedule->count;
}

/* ---- chains ---- */

/* Undoes what making the parts has done to the rates: all groups get their base rates, then the first part begins. */
static haul_status begin_chain(haul_schedule *s)
{
    HAUL__ASSERT(s->child_count > 0 && s->group_count == 0);
    for (int i = 0; i < s->child_count; i++)
        for (int k = 0; k < s->children[i]->group_count; k++)
            haul__schedule_set_rate(s->children[i], k, s->children[i]->bases[k]);
    return haul__schedule_begin(s->children[0]);
}

static haul_status step_chain(haul_schedule *s, double metric)
{
    int i = 0;
    while (i < s->child_count - 1 && s->milestones[i] <= s->count + 1)
        i++;
    HAUL__ASSERT(i < s->child_count && s->children[i]->levels < s->levels);
    bool        begins = i && s->milestones[i - 1] == s->count + 1;
    haul_status status = begins ? haul__schedule_begin(s->children[i]) : haul__schedule_advance(s->children[i], metric);
    s->count += !status;
    return status;
}

/* Steps call each other once for each level. */
enum { MOST_LEVELS = 32 };

static const haul__schedule_kind chain = {.name = "chain", .apply = begin_chain, .step = step_chain};

static haul_status check_chain(haul_schedule *const *schedules, const int64_t *milestones, int count,
                               const char *operation)
{
    if (!schedules)
        return haul__fail_null(operation, "schedules");
    if (count < 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count", "count is %d; at least 1 is expected", count);
    if (!milestones && count > 1)
        return haul__fail_null(operation, "milestones");
    for (int i = 0; i < count; i++) {
        if (haul__check_object(schedules[i], &schedule_class, operation, "schedules"))
            return haul_error_status();
        if (schedules[i]->levels == MOST_LEVELS)
            return haul__fail(
                HAUL_INVALID_ARGUMENT, operation, "schedules",
                "schedules[%d] has %d chains within each other, which is the most; give one chain all the "
                "parts",
                i, MOST_LEVELS);
    }
    for (int i = 0; i < count - 1; i++)
        if (milestones[i] <= (i ? milestones[i - 1] : 0))
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, "milestones",
                              "milestones[%d] is %lld; more than %lld is expected", i, (long long)milestones[i],
                              i ? (long long)milestones[i - 1] : 0);
    return HAUL_OK;
}

haul_schedule *haul_schedule_chain(haul_schedule *const *schedules, const int64_t *milestones, int count)
{
    static const char operation[] = "haul_schedule_chain";
    if (check_chain(schedules, milestones, count, operation))
        return NULL;
    haul_schedule *s = haul__object_new_zeroed(sizeof *s, &schedule_class);
    if (!s) {
        haul__fail_memory(operation, sizeof *s);
        return NULL;
    }
    s->kind = &chain;
    s->children = haul__calloc((size_t)count, sizeof *s->children);
    s->milestones = haul__calloc((size_t)count, sizeof *s->milestones);
    if (!s->children || !s->milestones) {
        haul__object_release(s);
        haul__fail_memory(operation, (size_t)count * sizeof *s->children);
        return NULL;
    }
    for (s->child_count = 0; s->child_count < count; s->child_count++) {
        haul_schedule *part = schedules[s->child_count];
        haul__object_keep(s->children[s->child_count] = part);
        s->levels = part->levels >= s->levels ? part->levels + 1 : s->levels;
    }
    HAUL__ASSERT(s->levels > 0 && s->levels <= MOST_LEVELS);
    HAUL__ASSERT(s->child_count == count && !s->optimizer);
    if (count > 1)
        memcpy(s->milestones, milestones, ((size_t)count - 1) * sizeof *milestones);
    s = haul__own(s, operation);
    return s && haul__schedule_begin(s) ? NULL : s;
}

/* ---- moving ---- */

/* The parts until then take the steps that a chain gives them. */
static haul_status move_chain(haul_schedule *s, int64_t steps)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < s->child_count && !status; i++) {
        const int64_t begin = i ? s->milestones[i - 1] : 0;
        HAUL__ASSERT(steps >= 0);
        const bool ends = i < s->child_count - 1 && s->milestones[i] <= steps;
        if (begin > steps)
            break;
        HAUL__ASSERT((ends ? s->milestones[i] - 1 : steps) >= begin);
        status = haul__schedule_move(s->children[i], (ends ? s->milestones[i] - 1 : steps) - begin);
    }
    return status;
}

haul_status haul__schedule_move(haul_schedule *s, int64_t steps)
{
    HAUL__ASSERT(steps >= 0);
    haul_status status = haul__schedule_begin(s);
    if (!status && s->kind->needs_metric && steps)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_schedule_step", "schedule", "the steps of a %s need metrics",
                          s->kind->name);
    if (!status && s->child_count)
        status = move_chain(s, steps);
    s->count = steps;
    return status || s->child_count ? status : s->kind->apply(s);
}

/* ---- state ---- */

enum { OWN_NUMBERS = 4 }; /* of each schedule, before its bases and its children */

static void give(double value, double *out, int capacity, int *at)
{
    if (*at < capacity)
        out[*at] = value;
    ++*at;
}

static void write_state(const haul_schedule *s, double *out, int capacity, int *at)
{
    HAUL__ASSERT(s->count >= 0 && s->stalled >= 0 && s->cooling >= 0);
    give((double)s->count, out, capacity, at);
    give(s->best, out, capacity, at);
    give((double)s->stalled, out, capacity, at);
    give((double)s->cooling, out, capacity, at);
    for (int k = 0; k < s->group_count; k++)
        give(s->bases[k], out, capacity, at);
    for (int i = 0; i < s->child_count; i++)
        write_state(s->children[i], out, capacity, at);
}

int haul_schedule_state(const haul_schedule *schedule, double *out, int capacity)
{
    static const char operation[] = "haul_schedule_state";
    int               count = 0;
    if (haul__schedule_check(schedule, operation))
        return -1;
    if (!out && capacity > 0) {
        haul__fail_null(operation, "out");
        return -1;
    }
    write_state(schedule, out, capacity, &count);
    HAUL__ASSERT(count >= OWN_NUMBERS);
    return count;
}

static bool is_count(double value)
{
    return value >= 0 && value <= (double)HAUL__MOST_STEPS && value == floor(value);
}

static bool is_sound(const haul_schedule *s, const double **state)
{
    const double *mine = *state;
    bool          sound = is_count(mine[0]) && is_count(mine[2]) && is_count(mine[3]);
    *state += OWN_NUMBERS + s->group_count;
    HAUL__ASSERT(s->group_count >= 0 && !s->group_count == !s->optimizer);
    for (int k = 0; k < s->group_count; k++)
        sound = sound && mine[OWN_NUMBERS + k] >= 0 && mine[OWN_NUMBERS + k] < INFINITY;
    for (int i = 0; i < s->child_count; i++)
        sound = is_sound(s->children[i], state) && sound;
    return sound;
}

static void read_state(haul_schedule *s, const double **state)
{
    s->count = (int64_t)(*state)[0];
    s->best = (*state)[1];
    s->stalled = (int64_t)(*state)[2];
    s->cooling = (int64_t)(*state)[3];
    *state += OWN_NUMBERS;
    for (int k = 0; k < s->group_count; k++)
        s->bases[k] = *(*state)++;
    for (int i = 0; i < s->child_count; i++)
        read_state(s->children[i], state);
    HAUL__ASSERT(s->count >= 0 && s->stalled >= 0 && s->cooling >= 0);
    for (int k = 0; k < s->group_count; k++)
        s->optimizer->groups[s->groups[k]].base = s->bases[k];
}

haul_status haul_schedule_load_state(haul_schedule *schedule, const double *state, int count)
{
    static const char operation[] = "haul_schedule_load_state";
    int               wanted = 0;
    if (haul__schedule_check(schedule, operation))
        return haul_error_status();
    if (!state)
        return haul__fail_null(operation, "state");
    write_state(schedule, NULL, 0, &wanted);
    if (count != wanted)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count",
                          "count is %d, but the state of this schedule (%s) has %d numbers; make the schedule as that "
                          "from which the state is",
                          count, schedule->kind->name, wanted);
    const double *at = state;
    if (!is_sound(schedule, &at))
        return haul__fail(HAUL_FORMAT, operation, "state", "the numbers are not those of a schedule");
    at = state;
    read_state(schedule, &at);
    HAUL__ASSERT(at == state + count);
    return HAUL_OK;
}
