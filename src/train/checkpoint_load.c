/* Reading checkpoints. Everything is read and compared before anything changes, and changes are undone if a copy
 * fails. */
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "core/tensor.h"
#include "memory/spill/elsewhere.h"
#include "optim/optimizer.h"
#include "train/checkpoint.h"
#include "train/weights.h"

/* The state of one object: tensors, f64 numbers, and a count of steps or updates. */
typedef struct state {
    haul__tensor_list tensors;
    double           *values; /* settings of an optimizer, or a schedule's numbers; NULL: unchanged */
    int               value_count;
    int64_t           steps;
} state;

/* The next, or the previous, states of all objects. */
typedef struct states {
    state *optimizers, *schedules, *averages;
} states;

typedef struct reading {
    const char                     *path;
    haul_safetensors               *file;
    const haul__checkpoint_objects *objects;
    bool                            is_old;
    uint64_t                        numbers[HAUL__CHECKPOINT_NUMBERS];
    double                          stop[HAUL__STOP_NUMBERS];
} reading;

/* ---- states ---- */

static haul_status states_make(states *s, const haul__checkpoint_objects *p)
{
    s->optimizers = haul__calloc((size_t)p->optimizer_count + 1, sizeof(state));
    s->schedules = haul__calloc((size_t)p->schedule_count + 1, sizeof(state));
    s->averages = haul__calloc((size_t)p->average_count + 1, sizeof(state));
    return s->optimizers && s->schedules && s->averages ? HAUL_OK : haul__fail_memory(LOAD_CHECKPOINT, sizeof(state));
}

static void free_each(state *list, int count)
{
    for (int i = 0; list && i < count; i++) {
        haul__tensor_list_free(&list[i].tensors);
        haul__free(list[i].values);
    }
    haul__free(list);
}

static void states_free(states *s, const haul__checkpoint_objects *p)
{
    free_each(s->optimizers, p->optimizer_count);
    free_each(s->schedules, p->schedule_count);
    free_each(s->averages, p->average_count);
}

static haul_status values_make(state *s, int count)
{
    s->values = haul__calloc((size_t)count + 1, sizeof *s->values);
    s->value_count = count;
    return s->values ? HAUL_OK : haul__fail_memory(LOAD_CHECKPOINT, (size_t)count * sizeof *s->values);
}

/* ---- texts ---- */

static bool parse_number(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || value > (UINT64_MAX - (uint64_t)(*p - '0')) / 10)
            return false;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    *out = value;
    return *text != 0;
}

static haul_status read_number(const reading *r, const char *key, uint64_t most, uint64_t *out)
{
    if (!parse_number(haul_safetensors_metadata(r->file, key), out))
        return haul__fail(HAUL_FORMAT, LOAD_CHECKPOINT, "path", "%s is not a valid checkpoint: %s is not a number",
                          r->path, key);
    if (*out > most)
        return haul__fail(HAUL_FORMAT, LOAD_CHECKPOINT, "path",
                          "%s is not a valid checkpoint: %s is %llu; at most %llu is expected", r->path, key,
                          (unsigned long long)*out, (unsigned long long)most);
    return HAUL_OK;
}

/* Steps or updates. */
static haul_status read_count(const reading *r, const char *key, int64_t *out)
{
    uint64_t value = 0;
    if (read_number(r, key, (uint64_t)HAUL__MOST_STEPS, &value))
        return haul_error_status();
    *out = (int64_t)value;
    return HAUL_OK;
}

static haul_status compare_count(const reading *r, const char *what, int have)
{
    char     key[48];
    uint64_t count = !strcmp(what, "optimizers"); /* of an old file */
    HAUL__ASSERT(have >= 0);
    snprintf(key, sizeof key, OWN_KEYS "%s", what);
    if (!r->is_old && read_number(r, key, INT64_MAX, &count))
        return haul_error_status();
    if (count == (uint64_t)have)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, LOAD_CHECKPOINT, what,
                      "%s was written with %llu %s, but %d are given; pass the same number, in the same order", r->path,
                      (unsigned long long)count, what, have);
}

static haul_status compare_kind(const reading *r, const char *what, const char *key, const char *have)
{
    char        quoted[HAUL__QUOTED_SIZE];
    const char *kind = haul_safetensors_metadata(r->file, key);
    if (!strcmp(kind, have) ||
        (r->is_old && !strcmp(kind, "adam") && !strcmp(have, "adamw"))) /* old files call both adam */
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, LOAD_CHECKPOINT, what,
                      "%s was written with the %s %s, but this one is '%s'", r->path, what, haul__quoted(kind, quoted),
                      have);
}

static haul_status compare_kinds(const reading *r)
{
    char                            key[64];
    const haul__checkpoint_objects *p = r->objects;
    HAUL__ASSERT(p->optimizer_count > 0);
    if (compare_count(r, "optimizers", p->optimizer_count) || compare_count(r, "schedules", p->schedule_count) ||
        compare_count(r, "averages", p->average_count))
        return haul_error_status();
    for (int i = 0; i < p->optimizer_count; i++) {
        snprintf(key, sizeof key, r->is_old ? OWN_KEYS "optimizer" : OWN_KEYS "optimizers.%d", i);
        if (compare_kind(r, "optimizer", key, haul_optimizer_kind(p->optimizers[i])))
            return haul_error_status();
    }
    for (int i = 0; i < p->schedule_count; i++) {
        snprintf(key, sizeof key, OWN_KEYS "schedules.%d", i);
        if (compare_kind(r, "schedule", key, haul_schedule_kind(p->schedules[i])))
            return haul_error_status();
    }
    return HAUL_OK;
}

static haul_status read_texts(reading *r)
{
    const char *format = haul_safetensors_metadata(r->file, OWN_FORMAT);
    HAUL__ASSERT(r->file && r->objects);
    r->is_old = !strcmp(format, FORMAT_BEFORE);
    if (!r->is_old && strcmp(format, FORMAT) != 0)
        return haul__fail(HAUL_FORMAT, LOAD_CHECKPOINT, "path", "%s is not a checkpoint of this version of haul",
                          r->path);
    if (compare_kinds(r))
        return haul_error_status();
    for (int i = 0; i < HAUL__CHECKPOINT_NUMBERS; i++)
        if (read_number(r, haul__checkpoint_number_keys[i], i < 2 ? INT64_MAX : UINT64_MAX, &r->numbers[i]))
            return haul_error_status();
    return HAUL_OK;
}

/* ---- tensors ---- */

/* State of a parameter that another rank has alone (.stages of haul_parallel_new). o: NULL: no optimizer's. */
static bool is_out_of_reach(const haul_optimizer *o, const char *name)
{
    for (int i = 0; o && i < o->count; i++) {
        const haul__optimizer_entry *e = &o->entries[i];
        const size_t                 length = strlen(e->name);
        if (!strncmp(name, e->name, length) && name[length] == '.' && haul__is_out_of_reach(e->parameter->storage))
            return true;
    }
    return false;
}

/* The tensors of the file that begin with the prefix, without it. */
static haul_status read_tensors(const reading *r, const char *prefix, const haul_optimizer *o, haul__tensor_list *out)
{
    const haul__safetensors_header *header = haul__safetensors_header_of(r->file);
    haul_status                     status = HAUL_OK;
    for (int i = 0; i < header->count && !status; i++) {
        const char *name = header->entries[i].name;
        if (haul__begins_with(name, prefix) && !is_out_of_reach(o, name + strlen(prefix)))
            status = haul__tensor_list_add(out, haul__strdup(name + strlen(prefix)),
                                           haul_safetensors_load(r->file, name), LOAD_CHECKPOINT);
    }
    return status;
}

/* A tensor of the file that must have exactly these elements. */
static haul_status read_values(const reading *r, const char *name, haul_dtype dtype, int64_t count, void *out)
{
    haul_tensor *t = haul_safetensors_load(r->file, name);
    if (haul__failed(t))
        return haul_error_status();
    if (t->dtype != dtype || t->count != count)
        return haul__fail(HAUL_INVALID_ARGUMENT, LOAD_CHECKPOINT, "path",
                          "%s does not fit: '%s' has %lld elements of %s, and %lld of %s are expected; make groups and "
                          "schedules as they were when it was written",
                          r->path, name, (long long)t->count, haul_dtype_name(t->dtype), (long long)count,
                          haul_dtype_name(dtype));
    return haul_read(t, out, (size_t)count * haul__dtype_size(dtype));
}

/* Fails unless the groups have as many parameters as when the file was written. */
static haul_status compare_groups(const reading *r, const haul_optimizer *o, int number)
{
    char     name[48];
    int64_t *sizes = haul__calloc((size_t)o->group_count, sizeof *sizes);
    if (!sizes)
        return haul__fail_memory(LOAD_CHECKPOINT, (size_t)o->group_count * sizeof *sizes);
    HAUL__ASSERT(number < r->objects->optimizer_count && o->group_count > 0);
    snprintf(name, sizeof name, "groups.%d", number);
    haul_status status = read_values(r, name, HAUL_I64, o->group_count, sizes);
    for (int i = 0; i < o->count && !status; i++)
        sizes[o->entries[i].group]--;
    for (int g = 0; g < o->group_count && !status; g++)
        if (sizes[g])
            status = haul__fail(HAUL_INVALID_ARGUMENT, LOAD_CHECKPOINT, "optimizer",
                                "%s was written with groups of other sizes: group %d has %lld parameters more there",
                                r->path, g, (long long)sizes[g]);
    haul__free(sizes);
    return status;
}

/* The settings of files that were written before the kind had all of them: the others stay as they are. */
static haul_status read_former_settings(const reading *r, const haul_optimizer *o, const char *name, state *out)
{
    const int   each = haul__optimizer_setting_count(o->kind), former = o->kind->former_settings;
    double     *values = haul__calloc((size_t)o->group_count, (size_t)former * sizeof *values);
    haul_status status = values ? read_values(r, name, HAUL_F64, (int64_t)o->group_count * former, values)
                                : haul__fail_memory(LOAD_CHECKPOINT, (size_t)former * sizeof *values);
    HAUL__ASSERT(former > 0 && former < each);
    HAUL__ASSERT(out->value_count == o->group_count * each);
    for (int g = 0; g < o->group_count && !status; g++)
        for (int i = 0; i < each; i++)
            out->values[g * each + i] = i < former ? values[g * former + i] : o->groups[g].values[i];
    haul__free(values);
    return status;
}

static haul_status read_settings(const reading *r, const haul_optimizer *o, int number, state *out)
{
    char      name[48];
    const int each = haul__optimizer_setting_count(o->kind);
    if (compare_groups(r, o, number) || values_make(out, o->group_count * each))
        return haul_error_status();
    snprintf(name, sizeof name, "settings.%d", number);
    const haul_tensor *t = o->kind->former_settings ? haul_safetensors_load(r->file, name) : NULL;
    if (t && !haul__failed(t) && t->count == (int64_t)o->group_count * o->kind->former_settings)
        return read_former_settings(r, o, name, out);
    HAUL__ASSERT(out->value_count == o->group_count * each);
    return read_values(r, name, HAUL_F64, out->value_count, out->values);
}

/* An old file has no setting except the learning rate. */
static haul_status read_old_settings(const reading *r, const haul_optimizer *o, state *out)
{
    uint64_t  bits = 0;
    double    lr;
    const int each = haul__optimizer_setting_count(o->kind);
    if (o->group_count != 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, LOAD_CHECKPOINT, "optimizer",
                          "%s was written with an optimizer of one group, but this one has %d", r->path,
                          o->group_count);
    if (read_number(r, OWN_KEYS "lr_bits", UINT64_MAX, &bits) || values_make(out, each))
        return haul_error_status();
    memcpy(&lr, &bits, sizeof lr);
    if (!(lr >= 0 && lr < INFINITY))
        return haul__fail(HAUL_FORMAT, LOAD_CHECKPOINT, "path", "%s is not a valid checkpoint: its learning rate is %g",
                          r->path, lr);
    HAUL__ASSERT(out->value_count == each);
    memcpy(out->values, o->groups->values, (size_t)each * sizeof *out->values);
    out->values[HAUL__LR] = lr;
    return HAUL_OK;
}

static haul_status read_optimizer(const reading *r, int i, state *out)
{
    char                  key[64];
    const haul_optimizer *o = r->objects->optimizers[i];
    HAUL__ASSERT(i < r->objects->optimizer_count);
    snprintf(key, sizeof key, r->is_old ? OWN_KEYS "steps" : OWN_KEYS "optimizers.%d.steps", i);
    haul_status status = read_count(r, key, &out->steps);
    if (!status)
        status = r->is_old ? read_old_settings(r, o, out) : read_settings(r, o, i, out);
    snprintf(key, sizeof key, r->is_old ? "optimizer." : "optimizers.%d.", i);
    return status ? status : read_tensors(r, key, o, &out->tensors);
}

static haul_status read_schedule(const reading *r, int i, state *out)
{
    char name[48];
    snprintf(name, sizeof name, "schedules.%d", i);
    if (values_make(out, haul_schedule_state(r->objects->schedules[i], NULL, 0)))
        return haul_error_status();
    return read_values(r, name, HAUL_F64, out->value_count, out->values);
}

static haul_status read_average(const reading *r, int i, state *out)
{
    char key[64];
    snprintf(key, sizeof key, OWN_KEYS "averages.%d.updates", i);
    haul_status status = read_count(r, key, &out->steps);
    snprintf(key, sizeof key, "averages.%d.", i);
    return status ? status : read_tensors(r, key, NULL, &out->tensors);
}

static bool is_count(double value)
{
    return value >= 0 && value <= (double)HAUL__MOST_STEPS && value == floor(value);
}

static haul_status read_stop(reading *r)
{
    if (!r->objects->stop)
        return HAUL_OK;
    if (!haul__safetensors_find(haul__safetensors_header_of(r->file), STOP))
        return haul__fail(HAUL_INVALID_ARGUMENT, LOAD_CHECKPOINT, "stop",
                          "%s was written without early stopping; leave .stop out", r->path);
    if (read_values(r, STOP, HAUL_F64, HAUL__STOP_NUMBERS, r->stop))
        return haul_error_status();
    if (is_count(r->stop[HAUL__STOP_EPOCH]) && is_count(r->stop[HAUL__STOP_STALLED]))
        return HAUL_OK;
    return haul__fail(HAUL_FORMAT, LOAD_CHECKPOINT, "path",
                      "%s is not a valid checkpoint: its early stopping has epoch %g and %g epochs since then", r->path,
                      r->stop[HAUL__STOP_EPOCH], r->stop[HAUL__STOP_STALLED]);
}

static haul_status read_all(const reading *r, states *out)
{
    const haul__checkpoint_objects *p = r->objects;
    haul_status                     status = states_make(out, p);
    HAUL__ASSERT(status || (out->optimizers && out->schedules && out->averages));
    for (int i = 0; i < p->optimizer_count && !status; i++)
        status = read_optimizer(r, i, &out->optimizers[i]);
    for (int i = 0; i < p->schedule_count && !status; i++)
        status = read_schedule(r, i, &out->schedules[i]);
    for (int i = 0; i < p->average_count && !status; i++)
        status = read_average(r, i, &out->averages[i]);
    return status;
}

/* ---- saving the present state ---- */

static haul_status copy_tensors(haul__tensor_list *out, void *owner,
                                int (*tensors_of)(void *owner, haul_named_tensor *out, int capacity))
{
    haul_status status = haul__tensor_list_add_all(out, "", owner, tensors_of, LOAD_CHECKPOINT);
    for (int i = 0; i < out->count && !status; i++) {
        haul_tensor *t = out->items[i].tensor;
        out->items[i].tensor = haul_identity(t, haul_tensor_device(t));
        status = haul__status_of(out->items[i].tensor);
    }
    return status;
}

static haul_status copy_optimizer(haul_optimizer *o, state *out)
{
    const int each = haul__optimizer_setting_count(o->kind);
    out->steps = haul_optimizer_steps(o);
    if (out->steps < 0 || values_make(out, o->group_count * each))
        return haul_error_status();
    for (int g = 0; g < o->group_count; g++)
        memcpy(out->values + (ptrdiff_t)g * each, o->groups[g].values, (size_t)each * sizeof *out->values);
    return copy_tensors(&out->tensors, o, haul__checkpoint_optimizer_tensors);
}

static haul_status copy_all(const haul__checkpoint_objects *p, states *out)
{
    haul_status status = states_make(out, p);
    for (int i = 0; i < p->optimizer_count && !status; i++)
        status = copy_optimizer(p->optimizers[i], &out->optimizers[i]);
    for (int i = 0; i < p->schedule_count && !status; i++) {
        status = values_make(&out->schedules[i], haul_schedule_state(p->schedules[i], NULL, 0));
        if (!status)
            haul_schedule_state(p->schedules[i], out->schedules[i].values, out->schedules[i].value_count);
    }
    for (int i = 0; i < p->average_count && !status; i++) {
        out->averages[i].steps = haul_average_updates(p->averages[i]);
        status = copy_tensors(&out->averages[i].tensors, p->averages[i], haul__checkpoint_average_tensors);
    }
    return status;
}

/* ---- setting ---- */

static haul_status give_all(const haul__checkpoint_objects *p, const states *s)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < p->optimizer_count && !status; i++) {
        const state *from = &s->optimizers[i];
        HAUL__ASSERT(from->values && from->steps >= 0);
        status = haul__optimizer_set_all(p->optimizers[i], from->values, LOAD_CHECKPOINT);
        if (!status)
            status = haul_optimizer_load_state(p->optimizers[i], from->tensors.items, from->tensors.count, from->steps);
    }
    for (int i = 0; i < p->schedule_count && !status; i++)
        status = haul_schedule_load_state(p->schedules[i], s->schedules[i].values, s->schedules[i].value_count);
    for (int i = 0; i < p->average_count && !status; i++) {
        const state *from = &s->averages[i];
        HAUL__ASSERT(from->steps >= 0);
        status = haul_average_load_state(p->averages[i], from->tensors.items, from->tensors.count, from->steps);
    }
    return status;
}

static void drop_tensors(const state *s)
{
    for (int i = 0; i < s->tensors.count; i++)
        haul_drop(s->tensors.items[i].tensor);
}

/* The objects have copies, so that the weights take the memory of what the file had. */
static void drop_all(const haul__checkpoint_objects *p, const states *s)
{
    for (int i = 0; i < p->optimizer_count; i++)
        drop_tensors(&s->optimizers[i]);
    for (int i = 0; i < p->average_count; i++)
        drop_tensors(&s->averages[i]);
}

/* Objects first, then the weights, all or none. If one fails, the objects get their old state back. */
static haul_status replace_all(const reading *r, haul__weights *weights, const haul__weights_rules *rules)
{
    states      fresh = {0}, old = {0};
    haul_status status = read_all(r, &fresh);
    if (!status)
        status = copy_all(r->objects, &old);
    if (!status) {
        status = give_all(r->objects, &fresh);
        if (!status) {
            drop_all(r->objects, &fresh);
            status = haul__weights_load(weights, r->file, rules);
        }
        if (status) {
            haul__error_record why;
            haul__error_save(&why);
            give_all(r->objects, &old);
            haul__error_restore(&why);
        }
    }
    states_free(&fresh, r->objects);
    states_free(&old, r->objects);
    return status;
}

static haul_status load(reading *r)
{
    haul__weights       weights;
    haul__weights_rules rules = {.path = r->path, .operation = LOAD_CHECKPOINT, .prefix = MODEL, .add_prefix = ""};
    r->file = haul_open_safetensors(r->path);
    if (!r->file || read_texts(r) || read_stop(r) || haul__weights_match(&weights, r->file, r->objects->module, &rules))
        return haul_error_status();
    haul_status status = replace_all(r, &weights, &rules);
    haul__weights_free(&weights);
    return status;
}

static void set_stop(haul_early_stop *stop, const double numbers[HAUL__STOP_NUMBERS])
{
    stop->best = numbers[HAUL__STOP_BEST];
    stop->best_epoch = (int64_t)numbers[HAUL__STOP_EPOCH];
    stop->stalled = (int64_t)numbers[HAUL__STOP_STALLED];
}

haul_status haul_load_checkpoint_with(const char *path, const haul_checkpoint_options *options)
{
    haul__checkpoint_objects objects;
    if (!path)
        return haul__fail_null(LOAD_CHECKPOINT, "path");
    if (haul__checkpoint_objects_of(options, false, LOAD_CHECKPOINT, &objects))
        return haul__fail_within(LOAD_CHECKPOINT);
    reading     r = {.path = path, .objects = &objects};
    haul_scope *scope = haul__cpu_scope();
    haul_status status = scope ? load(&r) : haul_error_status();
    if (scope)
        haul_scope_pop(scope);
    haul__free(objects.optimizers);
    if (status)
        return haul__fail_within(LOAD_CHECKPOINT);
    haul_random_state_set((haul_random_state){r.numbers[2], r.numbers[3]});
    if (objects.position)
        *objects.position = (haul_training_position){(int64_t)r.numbers[0], (int64_t)r.numbers[1]};
    if (objects.stop)
        set_stop(objects.stop, r.stop);
    return HAUL_OK;
}
