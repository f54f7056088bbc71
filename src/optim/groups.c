/* Parameter groups, and their settings by name. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/list.h"
#include "base/text/word_list.h"
#include "core/error.h"
#include "core/option.h"
#include "core/tensor.h"
#include "core/trial.h"
#include "optim/optimizer.h"
#include "optim/parameters.h"

/* ---- settings ---- */

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

int haul__optimizer_setting_count(const haul__optimizer_kind *kind)
{
    int count = 0;
    while (count < HAUL__MAX_SETTINGS && kind->settings[count].name)
        count++;
    return count;
}

int haul__optimizer_setting(const haul__optimizer_kind *kind, const char *name)
{
    for (int i = 0; i < haul__optimizer_setting_count(kind); i++)
        if (!strcmp(kind->settings[i].name, name))
            return i;
    return -1;
}

static haul_status check_setting(const haul__group_setting *s, double value, const char *operation)
{
    if (s->flag && value != 0 && value != 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, s->name, "%s is %g; 0 or 1 is expected", s->name, value);
    HAUL__ASSERT(s->low < s->high);
    return s->flag ? HAUL_OK : haul__optimizer_number(value, s->low, s->high, operation, s->name);
}

haul_status haul__optimizer_check_settings(const haul__optimizer_kind *kind, const double *values,
                                           const char *operation)
{
    for (int i = 0; i < haul__optimizer_setting_count(kind); i++)
        if (check_setting(&kind->settings[i], values[i], operation))
            return haul_error_status();
    return kind->check ? kind->check(values, operation) : HAUL_OK;
}

/* The index of the setting with that name; -1, with an error that lists the existing names. */
static int find_setting(const haul__optimizer_kind *kind, const char *name, const char *operation, const char *argument)
{
    char names[160] = "";
    int  found = haul__optimizer_setting(kind, name);
    if (found >= 0)
        return found;
    HAUL__ASSERT(found == -1);
    for (int i = 0; i < haul__optimizer_setting_count(kind); i++)
        haul__list_add(names, sizeof names, "%s", kind->settings[i].name);
    haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "this optimizer (%s) has no setting '%s'; it has %s",
               kind->name, name, names);
    return -1;
}

static haul_status check_group(const haul_optimizer *o, int group, bool all, const char *operation)
{
    if ((group >= 0 && group < o->group_count) || (all && group == HAUL_ALL_GROUPS))
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "group",
                      "group is %d, but the optimizer has %d group%s; a number from 0 to %d%s is expected", group,
                      o->group_count, o->group_count == 1 ? "" : "s", o->group_count - 1,
                      all ? " or HAUL_ALL_GROUPS" : "");
}

/* Frees state that the settings no longer use. */
static void drop_unused(haul_optimizer *o)
{
    HAUL__ASSERT(o->kind->state_count <= HAUL__MAX_STATES);
    for (int i = 0; i < o->count; i++) {
        HAUL__ASSERT(o->entries[i].group < o->group_count);
        haul__optimizer_entry *e = &o->entries[i];
        unsigned               used = o->kind->states(o->groups[e->group].values);
        for (int k = 0; k < o->kind->state_count; k++)
            if (!(used & 1u << k)) {
                haul__object_release(e->states[k]);
                e->states[k] = NULL;
            }
    }
}

double haul_optimizer_get(const haul_optimizer *optimizer, int group, const char *setting)
{
    static const char operation[] = "haul_optimizer_get";
    if (haul__check_optimizer(optimizer, operation))
        return NAN;
    if (!setting) {
        haul__fail_null(operation, "setting");
        return NAN;
    }
    if (check_group(optimizer, group, false, operation))
        return NAN;
    int i = find_setting(optimizer->kind, setting, operation, "setting");
    return i < 0 ? NAN : optimizer->groups[group].values[i];
}

static bool is_meant(int group, int i)
{
    return group == i || group == HAUL_ALL_GROUPS;
}

haul_status haul_optimizer_set(haul_optimizer *optimizer, int group, const char *setting, double value)
{
    static const char operation[] = "haul_optimizer_set";
    if (haul__refuse_followed(operation, "changes a setting"))
        return haul_error_status();
    if (haul__check_optimizer(optimizer, operation))
        return haul_error_status();
    if (!setting)
        return haul__fail_null(operation, "setting");
    int at = check_group(optimizer, group, true, operation)
                 ? -1
                 : find_setting(optimizer->kind, setting, operation, "setting");
    if (at < 0)
        return haul_error_status();
    HAUL__ASSERT(at < haul__optimizer_setting_count(optimizer->kind));
    for (int i = 0; i < optimizer->group_count; i++) {
        double values[HAUL__MAX_SETTINGS];
        memcpy(values, optimizer->groups[i].values, sizeof values);
        values[at] = value;
        if (is_meant(group, i) && haul__optimizer_check_settings(optimizer->kind, values, operation))
            return haul_error_status();
    }
    for (int i = 0; i < optimizer->group_count; i++)
        if (is_meant(group, i)) {
            optimizer->groups[i].values[at] = value;
            optimizer->groups[i].has_base = optimizer->groups[i].has_base && at != HAUL__LR;
        }
    drop_unused(optimizer);
    return HAUL_OK;
}

haul_status haul__optimizer_set_all(haul_optimizer *o, const double *values, const char *operation)
{
    const int each = haul__optimizer_setting_count(o->kind);
    for (int g = 0; g < o->group_count; g++)
        if (haul__optimizer_check_settings(o->kind, values + (ptrdiff_t)g * each, operation))
            return haul_error_status();
    HAUL__ASSERT(o->group_count > 0 && each > HAUL__LR && each <= HAUL__MAX_SETTINGS);
    for (int g = 0; g < o->group_count; g++)
        memcpy(o->groups[g].values, values + (ptrdiff_t)g * each, (size_t)each * sizeof *values);
    drop_unused(o);
    return HAUL_OK;
}

/* ---- parameters of a group ---- */

int haul_optimizer_group_count(const haul_optimizer *optimizer)
{
    return haul__check_optimizer(optimizer, "haul_optimizer_group_count") ? -1 : optimizer->group_count;
}

int haul_optimizer_parameters(haul_optimizer *optimizer, int group, haul_named_tensor *out, int capacity)
{
    static const char operation[] = "haul_optimizer_parameters";
    int               count = 0;
    if (haul__check_optimizer(optimizer, operation) || check_group(optimizer, group, true, operation))
        return -1;
    if (!out && capacity > 0) {
        haul__fail_null(operation, "out");
        return -1;
    }
    for (int i = 0; i < optimizer->count; i++) {
        const haul__optimizer_entry *e = &optimizer->entries[i];
        if (!is_meant(group, e->group))
            continue;
        if (count < capacity)
            out[count] = (haul_named_tensor){e->name, e->parameter, false};
        count++;
    }
    HAUL__ASSERT(capacity < count || count <= optimizer->count);
    return count;
}

/* ---- a new group ---- */

#define ADD_GROUP "haul_optimizer_add_group"

/* True if the text matches the first `length` characters of the pattern, in which * stands for any characters. */
static bool fits(const char *pattern, size_t length, const char *text)
{
    for (; length && *pattern != '*'; length--, pattern++, text++)
        if (*text != *pattern)
            return false;
    if (!length)
        return !*text;
    do {
        if (fits(pattern + 1, length - 1, text))
            return true;
    } while (*text++);
    return false;
}

/* Marks the entries whose names match a pattern; each pattern must match at least one name. */
static haul_status select_names(const haul_optimizer *o, const char *patterns, bool *chosen)
{
    bool any = false;
    for (size_t length; (length = haul__word_list_next(&patterns)); patterns += length) {
        bool found = false;
        any = true;
        for (int i = 0; i < o->count; i++)
            if (fits(patterns, length, o->entries[i].name))
                chosen[i] = found = true;
        if (!found)
            return haul__fail(HAUL_INVALID_ARGUMENT, ADD_GROUP, "names",
                              "no parameter's name fits '%.*s'; the first parameter is called '%s'", (int)length,
                              patterns, o->entries[0].name);
    }
    return any ? HAUL_OK : haul__fail(HAUL_INVALID_ARGUMENT, ADD_GROUP, "names", "names has no pattern");
}

/* The optimizer's next contents, until it is certain that nothing fails. */
typedef struct addition {
    haul_named_tensor *list; /* parameters of the new group */
    int                count;
    bool              *chosen; /* by entry: it moves to the new group */
    bool              *known;  /* by parameter of the list: it has an entry */
} addition;

static haul_status select_list(const haul_optimizer *o, const haul_optimizer_group_options *options, addition *a)
{
    haul_module *module = options->parameters ? o->module : options->module;
    a->list = haul__parameter_list(module, options->parameters, options->count, ADD_GROUP, &a->count);
    if (!a->list)
        return haul_error_status();
    if (!a->count)
        return haul__fail(HAUL_INVALID_ARGUMENT, ADD_GROUP, options->module ? "module" : "parameters",
                          "found no parameters to train");
    a->known = haul__calloc((size_t)a->count, sizeof *a->known);
    if (!a->known)
        return haul__fail_memory(ADD_GROUP, (size_t)a->count);
    HAUL__ASSERT(a->chosen && a->count > 0);
    for (int k = 0; k < a->count; k++)
        for (int i = 0; i < o->count; i++)
            if (o->entries[i].parameter == a->list[k].tensor)
                a->chosen[i] = a->known[k] = true;
    return HAUL_OK;
}

static haul_status select_parameters(const haul_optimizer *o, const haul_optimizer_group_options *options, addition *a)
{
    if (!!options->module + !!options->parameters + !!options->names != 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, ADD_GROUP, "options",
                          "a group is selected by one of .module, .parameters and .names, and %s",
                          options->module || options->parameters || options->names ? "more are given"
                                                                                   : "none is given");
    HAUL__ASSERT(!a->list && !a->known);
    a->chosen = haul__calloc((size_t)o->count + 1, sizeof *a->chosen);
    if (!a->chosen)
        return haul__fail_memory(ADD_GROUP, (size_t)o->count);
    return options->names ? select_names(o, options->names, a->chosen) : select_list(o, options, a);
}

/* Computes the settings of the new group. */
static haul_status read_settings(const haul_optimizer *o, const haul_optimizer_group_options *options, double *values)
{
    const struct {
        const char *name;
        double      given;
    } settings[] = {
        {"lr", options->lr},       {"momentum", options->momentum},        {"dampening", options->dampening},
        {"alpha", options->alpha}, {"beta1", options->betas[0]},           {"beta2", options->betas[1]},
        {"rho", options->rho},     {"lr_decay", options->lr_decay},        {"momentum_decay", options->momentum_decay},
        {"eps", options->eps},     {"weight_decay", options->weight_decay}};
    double betas[2] = {options->betas[0], options->betas[1]};
    if (haul__option_reals(ADD_GROUP, "betas", betas, (const double[2]){0, 0})) /* both or neither */
        return haul_error_status();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (settings[i].given == 0)
            continue;
        int at = find_setting(o->kind, settings[i].name, ADD_GROUP, settings[i].name);
        if (at < 0)
            return haul_error_status();
        HAUL__ASSERT(at < HAUL__MAX_SETTINGS);
        values[at] = haul__option(settings[i].given, 0);
    }
    return haul__optimizer_check_settings(o->kind, values, ADD_GROUP);
}

static haul_status check_all_names(const haul__optimizer_entry *entries, int count)
{
    const char **names = haul__calloc((size_t)count + 1, sizeof *names);
    if (!names)
        return haul__fail_memory(ADD_GROUP, (size_t)count * sizeof *names);
    for (int i = 0; i < count; i++)
        names[i] = entries[i].name;
    haul_status status = haul__check_names(names, count, ADD_GROUP);
    haul__free(names);
    return status;
}

/* The new list of entries: those that stay, those that move, and new ones. The first two are copies of the old entries,
 * which still own what they point to. */
static haul_status arrange(const haul_optimizer *o, const addition *a, haul__optimizer_entry *entries, int *count,
                           int *old_count)
{
    for (int moved = 0; moved < 2; moved++)
        for (int i = 0; i < o->count; i++)
            if (a->chosen[i] == moved) {
                entries[*count] = o->entries[i];
                entries[(*count)++].group = moved ? o->group_count : o->entries[i].group;
            }
    HAUL__ASSERT(*count == o->count);
    *old_count = *count;
    for (int k = 0; k < a->count; k++) {
        if (a->known[k])
            continue;
        haul__optimizer_entry *e = &entries[(*count)++];
        e->group = o->group_count;
        if (!haul__optimizer_fill_entry(o->kind, e, a->list[k].tensor, a->list[k].name, *count - 1))
            return haul__fail_memory(ADD_GROUP, sizeof *e);
    }
    HAUL__ASSERT(*count <= o->count + a->count);
    return check_all_names(entries, *count);
}

static int add_group(haul_optimizer *o, const addition *a, const haul__optimizer_group *group)
{
    const size_t           room = (size_t)o->count + (size_t)a->count;
    int                    count = 0, old_count = 0;
    haul__optimizer_entry *entries = haul__calloc(room + 1, sizeof *entries), *before = o->entries;
    haul__optimizer_group *groups = haul__calloc((size_t)o->group_count + 1, sizeof *groups);
    haul_status            status = HAUL_OK;
    if (!entries || !groups)
        status = haul__fail_memory(ADD_GROUP, room * sizeof *entries);
    if (!status)
        status = arrange(o, a, entries, &count, &old_count);
    if (status) {
        for (int i = old_count; i < count; i++)
            haul__optimizer_free_entry(&entries[i]);
        haul__free(entries);
        haul__free(groups);
        return -1;
    }
    HAUL__ASSERT(old_count == o->count && count >= old_count && o->entries == before);
    memcpy(groups, o->groups, (size_t)o->group_count * sizeof *groups);
    groups[o->group_count] = *group;
    haul__free(o->groups);
    o->groups = groups;
    haul__optimizer_set_entries(o, entries, count);
    haul__free(before);
    o->group_count++;
    drop_unused(o);
    return o->group_count - 1;
}

int haul_optimizer_add_group_with(haul_optimizer *optimizer, const haul_optimizer_group_options *options)
{
    haul__optimizer_group group = {.has_base = false};
    addition              a = {0};
    if (haul__check_optimizer(optimizer, ADD_GROUP))
        return -1;
    if (!options) {
        haul__fail_null(ADD_GROUP, "options");
        return -1;
    }
    if (optimizer->kind->joint) {
        haul__fail(HAUL_UNSUPPORTED, ADD_GROUP, "optimizer",
                   "this optimizer (%s) has one group of parameters, as in PyTorch; give all of them when it is made",
                   optimizer->kind->name);
        return -1;
    }
    memcpy(group.values, optimizer->defaults, sizeof group.values);
    int number = read_settings(optimizer, options, group.values) || select_parameters(optimizer, options, &a)
                     ? -1
                     : add_group(optimizer, &a, &group);
    HAUL__ASSERT(number == -1 || number == optimizer->group_count - 1);
    haul__free(a.list);
    haul__free(a.chosen);
    haul__free(a.known);
    return number;
}
