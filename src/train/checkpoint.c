/* Checkpoints of a training, as safetensors files: which objects they contain, and writing. Haul refuses to write a
 * checkpoint that would be incomplete. */
#include "train/checkpoint.h"

#include <haul/ops.h>
#include <haul/scope.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/tensor.h"
#include "nn/tensors.h"
#include "optim/averaging.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/weights.h"

const char *const haul__checkpoint_number_keys[HAUL__CHECKPOINT_NUMBERS] = {
    OWN_KEYS "epoch", OWN_KEYS "batch", OWN_KEYS "random_seed", OWN_KEYS "random_offset"};

/* ---- lists of tensors ---- */

void haul__tensor_list_free(haul__tensor_list *l)
{
    for (int i = 0; i < l->count; i++)
        haul__free((char *)l->items[i].name);
    haul__free(l->items);
    *l = (haul__tensor_list){0};
}

haul_status haul__tensor_list_add(haul__tensor_list *l, char *name, haul_tensor *tensor, const char *operation)
{
    if (haul__failed(tensor)) {
        haul__free(name);
        return haul_error_status();
    }
    if (!name || !haul__grow(&l->items, &l->capacity, (size_t)l->count + 1, sizeof *l->items)) {
        haul__free(name);
        return haul__fail_memory(operation, sizeof *l->items);
    }
    HAUL__ASSERT((size_t)l->count < l->capacity);
    l->items[l->count++] = (haul_named_tensor){.name = name, .tensor = tensor};
    return HAUL_OK;
}

haul_status haul__tensor_list_add_all(haul__tensor_list *l, const char *prefix, void *owner,
                                      int (*tensors_of)(void *owner, haul_named_tensor *out, int capacity),
                                      const char *operation)
{
    int count = tensors_of(owner, NULL, 0);
    if (count < 0)
        return haul_error_status();
    haul_named_tensor *items = haul__calloc((size_t)count + 1, sizeof *items);
    if (!items)
        return haul__fail_memory(operation, (size_t)count * sizeof *items);
    haul_status status = tensors_of(owner, items, count) < 0 ? haul_error_status() : HAUL_OK;
    for (int i = 0; i < count && status == HAUL_OK; i++)
        status = haul__tensor_list_add(l, haul__format("%s%s", prefix, items[i].name), items[i].tensor, operation);
    HAUL__ASSERT(status || l->count >= count);
    haul__free(items);
    return status;
}

static int tensors_of_module(void *module, haul_named_tensor *out, int capacity)
{
    return haul_module_tensors(module, out, capacity);
}

int haul__checkpoint_optimizer_tensors(void *optimizer, haul_named_tensor *out, int capacity)
{
    return haul_optimizer_state(optimizer, out, capacity);
}

int haul__checkpoint_average_tensors(void *average, haul_named_tensor *out, int capacity)
{
    return haul_average_tensors(average, out, capacity);
}

/* ---- the objects ---- */

/* An optional list. */
static haul_status check_count(const void *list, int count, const char *argument, const char *operation)
{
    if (count < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is %d; 0 or more is expected", argument,
                          count);
    return list || !count ? HAUL_OK : haul__fail_null(operation, argument);
}

static haul_status check_counts(const haul_checkpoint_options *o, const char *operation)
{
    if (check_count(o->optimizers, o->optimizer_count, "optimizer_count", operation) ||
        check_count(o->schedules, o->schedule_count, "schedule_count", operation) ||
        check_count(o->averages, o->average_count, "average_count", operation) ||
        check_count(o->extra, o->extra_count, "extra_count", operation))
        return haul_error_status();
    if (!o->optimizer && !o->optimizer_count)
        return haul__fail_null(operation, "optimizer");
    return HAUL_OK;
}

static haul_status check_twice(const haul__checkpoint_objects *p, const char *operation)
{
    for (int i = 0; i < p->optimizer_count; i++)
        for (int k = 0; k < i; k++)
            if (p->optimizers[i] == p->optimizers[k])
                return haul__fail(HAUL_INVALID_ARGUMENT, operation, "optimizers", "an optimizer is given twice");
    return HAUL_OK;
}

/* A schedule continues with the rates of its optimizer. */
static haul_status check_schedule(const haul__checkpoint_objects *p, const haul_schedule *s, const char *operation)
{
    bool known = !s->optimizer;
    HAUL__ASSERT(p->optimizer_count > 0);
    for (int i = 0; i < p->optimizer_count; i++)
        known = known || p->optimizers[i] == s->optimizer;
    if (!known)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "schedules",
                          "a schedule (%s) belongs to an optimizer that is not given; add that to .optimizers",
                          s->kind->name);
    for (int i = 0; i < s->child_count; i++)
        if (check_schedule(p, s->children[i], operation))
            return haul_error_status();
    return HAUL_OK;
}

static haul_status check_objects(const haul__checkpoint_objects *p, const char *operation)
{
    HAUL__ASSERT(p->optimizer_count > 0 && p->optimizers);
    for (int i = 0; i < p->optimizer_count; i++)
        if (haul__check_optimizer(p->optimizers[i], operation))
            return haul_error_status();
    for (int i = 0; i < p->schedule_count; i++)
        if (haul__schedule_check(p->schedules[i], operation) || check_schedule(p, p->schedules[i], operation))
            return haul_error_status();
    for (int i = 0; i < p->average_count; i++)
        if (haul__average_check(p->averages[i], operation))
            return haul_error_status();
    return check_twice(p, operation);
}

/* The optimizers must train this module and, when a checkpoint is written, no other optimizer may. */
static haul_status check_training(const haul__checkpoint_objects *p, bool saves, const char *operation)
{
    int                count = 0;
    haul_named_tensor *tensors = haul__module_tensor_list(p->module, &count);
    if (!tensors)
        return haul_error_status();
    haul_status status = HAUL_OK;
    for (int i = 0; i < p->optimizer_count && !status; i++)
        status = haul__optimizer_check_module(p->optimizers[i], tensors, count, operation);
    if (!status && saves)
        status = haul__optimizer_check_alone(p->optimizers, p->optimizer_count, tensors, count, operation);
    haul__free(tensors);
    return status;
}

haul_status haul__checkpoint_objects_of(const haul_checkpoint_options *o, bool saves, const char *operation,
                                        haul__checkpoint_objects *out)
{
    if (!o)
        return haul__fail_null(operation, "options");
    if (haul__check_module(o->module, operation) || check_counts(o, operation))
        return haul_error_status();
    haul__checkpoint_objects p = {.module = o->module,
                                  .schedules = o->schedules,
                                  .averages = o->averages,
                                  .schedule_count = o->schedule_count,
                                  .average_count = o->average_count,
                                  .position = o->position,
                                  .stop = o->stop};
    p.optimizers = haul__calloc((size_t)o->optimizer_count + 1, sizeof *p.optimizers);
    if (!p.optimizers)
        return haul__fail_memory(operation, (size_t)o->optimizer_count * sizeof *p.optimizers);
    if (o->optimizer)
        p.optimizers[p.optimizer_count++] = o->optimizer;
    for (int i = 0; i < o->optimizer_count; i++)
        p.optimizers[p.optimizer_count++] = o->optimizers[i];
    HAUL__ASSERT(p.optimizer_count > 0 && p.optimizer_count <= o->optimizer_count + 1);
    haul_status status = check_objects(&p, operation);
    if (!status)
        status = check_training(&p, saves, operation);
    if (status)
        haul__free(p.optimizers);
    else
        *out = p;
    return status;
}

/* ---- texts ---- */

typedef struct text_list {
    haul_text_pair *items; /* owns the keys and values */
    int             count;
    size_t          capacity;
} text_list;

static void texts_free(text_list *l)
{
    for (int i = 0; i < l->count; i++) {
        haul__free((char *)l->items[i].key);
        haul__free((char *)l->items[i].value);
    }
    haul__free(l->items);
}

/* Takes over both texts, even on failure. */
static haul_status add_text(text_list *l, char *key, char *value)
{
    if (!key || !value || !haul__grow(&l->items, &l->capacity, (size_t)l->count + 1, sizeof *l->items)) {
        haul__free(key);
        haul__free(value);
        return haul__fail_memory(SAVE_CHECKPOINT, sizeof *l->items);
    }
    l->items[l->count++] = (haul_text_pair){key, value};
    return HAUL_OK;
}

static haul_status add_number(text_list *l, const char *key, uint64_t value)
{
    return add_text(l, haul__strdup(key), haul__format("%" PRIu64, value));
}

static haul_status add_position(text_list *l, const haul_training_position *position)
{
    haul_random_state random = haul_random_state_get();
    const uint64_t    numbers[HAUL__CHECKPOINT_NUMBERS] = {
           position ? (uint64_t)position->epoch : 0, position ? (uint64_t)position->batch : 0, random.seed, random.offset};
    for (int i = 0; i < HAUL__CHECKPOINT_NUMBERS; i++)
        if (add_number(l, haul__checkpoint_number_keys[i], numbers[i]))
            return haul_error_status();
    return HAUL_OK;
}

static haul_status add_kinds(text_list *l, const haul__checkpoint_objects *p)
{
    haul_status status = add_number(l, OWN_KEYS "optimizers", (uint64_t)p->optimizer_count);
    status = status ? status : add_number(l, OWN_KEYS "schedules", (uint64_t)p->schedule_count);
    status = status ? status : add_number(l, OWN_KEYS "averages", (uint64_t)p->average_count);
    HAUL__ASSERT(p->optimizer_count > 0);
    for (int i = 0; i < p->optimizer_count && !status; i++) {
        int64_t steps = haul_optimizer_steps(p->optimizers[i]);
        if (steps < 0) /* they are on a device that cannot be read */
            return haul_error_status();
        status =
            add_text(l, haul__format(OWN_KEYS "optimizers.%d", i), haul__strdup(haul_optimizer_kind(p->optimizers[i])));
        status = status ? status
                        : add_text(l, haul__format(OWN_KEYS "optimizers.%d.steps", i), haul__format("%" PRId64, steps));
    }
    for (int i = 0; i < p->schedule_count && !status; i++)
        status =
            add_text(l, haul__format(OWN_KEYS "schedules.%d", i), haul__strdup(haul_schedule_kind(p->schedules[i])));
    for (int i = 0; i < p->average_count && !status; i++)
        status = add_text(l, haul__format(OWN_KEYS "averages.%d.updates", i),
                          haul__format("%" PRId64, haul_average_updates(p->averages[i])));
    return status;
}

static haul_status add_extra(text_list *l, const haul_text_pair *extra, int count)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < count && !status; i++)
        status = extra[i].key && extra[i].value ? add_text(l, haul__strdup(extra[i].key), haul__strdup(extra[i].value))
                                                : haul__fail_null(SAVE_CHECKPOINT, "extra");
    return status;
}

/* ---- tensors ---- */

static haul_status add_settings(haul__tensor_list *l, const haul_optimizer *o, int number)
{
    const int   each = haul__optimizer_setting_count(o->kind);
    double     *values = haul__calloc((size_t)o->group_count * (size_t)each, sizeof *values);
    int64_t    *sizes = haul__calloc((size_t)o->group_count, sizeof *sizes);
    haul_status status = values && sizes ? HAUL_OK : haul__fail_memory(SAVE_CHECKPOINT, (size_t)each * sizeof *values);
    HAUL__ASSERT(o->group_count > 0 && each > 0);
    for (int g = 0; g < o->group_count && !status; g++)
        memcpy(values + (ptrdiff_t)g * each, o->groups[g].values, (size_t)each * sizeof *values);
    for (int i = 0; i < o->count && !status; i++)
        sizes[o->entries[i].group]++;
    if (!status)
        status =
            haul__tensor_list_add(l, haul__format("settings.%d", number),
                                  haul_from_host(HAUL_F64, HAUL_SHAPE(o->group_count, each), values), SAVE_CHECKPOINT);
    if (!status)
        status = haul__tensor_list_add(l, haul__format("groups.%d", number),
                                       haul_from_host(HAUL_I64, HAUL_SHAPE(o->group_count), sizes), SAVE_CHECKPOINT);
    haul__free(values);
    haul__free(sizes);
    return status;
}

static haul_status add_schedule(haul__tensor_list *l, const haul_schedule *s, int number)
{
    int     count = haul_schedule_state(s, NULL, 0);
    double *values = haul__calloc((size_t)count, sizeof *values);
    HAUL__ASSERT(count > 0);
    if (!values)
        return haul__fail_memory(SAVE_CHECKPOINT, (size_t)count * sizeof *values);
    haul_schedule_state(s, values, count);
    haul_status status = haul__tensor_list_add(l, haul__format("schedules.%d", number),
                                               haul_from_host(HAUL_F64, HAUL_SHAPE(count), values), SAVE_CHECKPOINT);
    haul__free(values);
    return status;
}

/* The state of an optimizer or an average, as "KIND.NUMBER.NAME". */
static haul_status add_numbered(haul__tensor_list *l, const char *kind, int number, void *owner,
                                int (*tensors_of)(void *owner, haul_named_tensor *out, int capacity))
{
    char prefix[48];
    snprintf(prefix, sizeof prefix, "%s.%d.", kind, number);
    return haul__tensor_list_add_all(l, prefix, owner, tensors_of, SAVE_CHECKPOINT);
}

static haul_status add_stop(haul__tensor_list *l, const haul_early_stop *s)
{
    const double numbers[HAUL__STOP_NUMBERS] = {[HAUL__STOP_BEST] = s->best,
                                                [HAUL__STOP_EPOCH] = (double)s->best_epoch,
                                                [HAUL__STOP_STALLED] = (double)s->stalled};
    return haul__tensor_list_add(l, haul__strdup(STOP),
                                 haul_from_host(HAUL_F64, HAUL_SHAPE(HAUL__STOP_NUMBERS), numbers), SAVE_CHECKPOINT);
}

static haul_status add_tensors(haul__tensor_list *l, const haul__checkpoint_objects *p)
{
    haul_status status = haul__tensor_list_add_all(l, MODEL, p->module, tensors_of_module, SAVE_CHECKPOINT);
    for (int i = 0; i < p->optimizer_count && !status; i++) {
        status = add_settings(l, p->optimizers[i], i);
        if (!status)
            status = add_numbered(l, "optimizers", i, p->optimizers[i], haul__checkpoint_optimizer_tensors);
    }
    HAUL__ASSERT(status || l->count > 0);
    for (int i = 0; i < p->schedule_count && !status; i++)
        status = add_schedule(l, p->schedules[i], i);
    for (int i = 0; i < p->average_count && !status; i++)
        status = add_numbered(l, "averages", i, p->averages[i], haul__checkpoint_average_tensors);
    return status || !p->stop ? status : add_stop(l, p->stop);
}

/* ---- saving ---- */

/* A count of epochs that f64 holds exactly. */
static haul_status check_epochs(const char *name, int64_t value)
{
    if (value >= 0 && value <= HAUL__MOST_STEPS)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, SAVE_CHECKPOINT, "stop",
                      "stop.%s is %" PRId64 "; 0 to %" PRId64 " is expected", name, value, HAUL__MOST_STEPS);
}

static haul_status check_values(const haul_checkpoint_options *o)
{
    const haul_training_position *at = o->position;
    if (at && (at->epoch < 0 || at->batch < 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE_CHECKPOINT, "position",
                          "position.%s is %" PRId64 "; 0 or more is expected", at->epoch < 0 ? "epoch" : "batch",
                          at->epoch < 0 ? at->epoch : at->batch);
    if (o->stop && (check_epochs("best_epoch", o->stop->best_epoch) || check_epochs("stalled", o->stop->stalled)))
        return haul_error_status();
    for (int i = 0; i < o->extra_count; i++)
        if (o->extra[i].key && haul__begins_with(o->extra[i].key, OWN_KEYS))
            return haul__fail(HAUL_INVALID_ARGUMENT, SAVE_CHECKPOINT, "extra",
                              "keys that begin with " OWN_KEYS " are the checkpoint's own");
    return HAUL_OK;
}

static haul_status save(const char *path, const haul__checkpoint_objects *p, const haul_checkpoint_options *o)
{
    text_list         texts = {0};
    haul__tensor_list tensors = {0};
    haul_status       status = add_text(&texts, haul__strdup(OWN_FORMAT), haul__strdup(FORMAT));
    if (!status)
        status = add_position(&texts, p->position);
    if (!status)
        status = add_kinds(&texts, p);
    if (!status)
        status = add_extra(&texts, o->extra, o->extra_count);
    if (!status)
        status = add_tensors(&tensors, p);
    HAUL__ASSERT(status || (texts.count > 0 && tensors.count > 0));
    if (!status)
        status = haul_save_safetensors(path, tensors.items, tensors.count, texts.items, texts.count);
    haul__tensor_list_free(&tensors);
    texts_free(&texts);
    return status;
}

haul_status haul_save_checkpoint_with(const char *path, const haul_checkpoint_options *options)
{
    haul__checkpoint_objects objects;
    if (!path)
        return haul__fail_null(SAVE_CHECKPOINT, "path");
    haul_status status = haul__checkpoint_objects_of(options, true, SAVE_CHECKPOINT, &objects);
    if (status)
        return haul__fail_within(SAVE_CHECKPOINT);
    haul_scope *scope = NULL;
    status = check_values(options);
    if (!status && !(scope = haul__cpu_scope()))
        status = haul_error_status();
    if (!status)
        status = save(path, &objects, options);
    if (scope)
        haul_scope_pop(scope);
    haul__free(objects.optimizers);
    return status ? haul__fail_within(SAVE_CHECKPOINT) : HAUL_OK;
}
