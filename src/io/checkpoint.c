/* Checkpoints of a training, as safetensors files.
 *
 * A checkpoint holds the module's tensors as "model.NAME", the optimizer's as "optimizer.NAME", and as texts all that
 * is needed to go on bit for bit: the random state, steps taken, learning rate and position. What it would leave out is
 * refused. Loading reads and compares everything before it changes anything, and takes back what it has changed should
 * a copy fail. */
#include <haul/io.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/error.h"
#include "core/tensor.h"
#include "io/weights.h"
#include "nn/tensors.h"
#include "optim/optimizer.h"

#define SAVE_CHECKPOINT "haul_save_checkpoint"
#define LOAD_CHECKPOINT "haul_load_checkpoint"

#define MODEL     "model."
#define OPTIMIZER "optimizer."
#define OWN_KEYS  "haul."
#define FORMAT    "checkpoint 1"

/* ---- lists of tensors, with the names they have in the file ---- */

typedef struct list {
    haul_named_tensor *items; /* the names are ours */
    int                count;
    size_t             capacity;
} list;

static void list_free(list *l)
{
    for (int i = 0; i < l->count; i++)
        haul__free((char *)l->items[i].name);
    haul__free(l->items);
    *l = (list){0};
}

static haul_status list_add(list *l, const char *prefix, const char *name, haul_tensor *tensor, const char *operation)
{
    char *full = haul__format("%s%s", prefix, name);
    if (!full || !haul__grow(&l->items, &l->capacity, (size_t)l->count + 1, sizeof *l->items)) {
        haul__free(full);
        return haul__fail_memory(operation, sizeof *l->items);
    }
    l->items[l->count++] = (haul_named_tensor){.name = full, .tensor = tensor};
    return HAUL_OK;
}

static int tensors_of_module(void *module, haul_named_tensor *out, int capacity)
{
    return haul_module_tensors(module, out, capacity);
}

static int tensors_of_optimizer(void *optimizer, haul_named_tensor *out, int capacity)
{
    return haul_optimizer_state(optimizer, out, capacity);
}

/* Add all that `tensors_of` tells about `owner`. */
static haul_status list_add_all(list *l, const char *prefix, void *owner,
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
        status = list_add(l, prefix, items[i].name, items[i].tensor, operation);
    haul__free(items);
    return status;
}

/* ---- the numbers of a checkpoint ---- */

/* The learning rate goes as its bits, which no locale and no rounding can change. */
typedef struct numbers {
    uint64_t epoch, batch, steps, random_seed, random_offset, lr_bits;
} numbers;

static const struct {
    const char *key;
    size_t      offset;
} number_keys[] = {
    {OWN_KEYS "epoch", offsetof(numbers, epoch)},
    {OWN_KEYS "batch", offsetof(numbers, batch)},
    {OWN_KEYS "steps", offsetof(numbers, steps)},
    {OWN_KEYS "random_seed", offsetof(numbers, random_seed)},
    {OWN_KEYS "random_offset", offsetof(numbers, random_offset)},
    {OWN_KEYS "lr_bits", offsetof(numbers, lr_bits)},
};
#define NUMBERS    (sizeof number_keys / sizeof *number_keys)
#define OWN_FORMAT OWN_KEYS "format"
#define OWN_KIND   OWN_KEYS "optimizer"

static uint64_t *number_at(numbers *n, size_t i)
{
    return (uint64_t *)((char *)n + number_keys[i].offset);
}

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

static haul_status read_numbers(const haul_safetensors *file, haul_optimizer *optimizer, const char *path, numbers *out)
{
    char        quoted[HAUL__QUOTED_SIZE];
    const char *kind = haul_safetensors_metadata(file, OWN_KIND);
    if (strcmp(haul_safetensors_metadata(file, OWN_FORMAT), FORMAT) != 0)
        return haul__fail(HAUL_FORMAT, LOAD_CHECKPOINT, "path", "%s is not a checkpoint of this version of haul", path);
    if (strcmp(kind, haul_optimizer_kind(optimizer)) != 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, LOAD_CHECKPOINT, "optimizer",
                          "%s was written with the optimizer %s, this one is '%s'", path, haul__quoted(kind, quoted),
                          haul_optimizer_kind(optimizer));
    for (size_t i = 0; i < NUMBERS; i++)
        if (!parse_number(haul_safetensors_metadata(file, number_keys[i].key), number_at(out, i)))
            return haul__fail(HAUL_FORMAT, LOAD_CHECKPOINT, "path", "%s is not a valid checkpoint: %s is not a number",
                              path, number_keys[i].key);
    double lr;
    memcpy(&lr, &out->lr_bits, sizeof lr);
    if (!(lr >= 0))
        return haul__fail(HAUL_FORMAT, LOAD_CHECKPOINT, "path", "%s is not a sound checkpoint: its learning rate is %g",
                          path, lr);
    if (out->epoch > INT64_MAX || out->batch > INT64_MAX || out->steps > INT64_MAX || !(lr - lr == 0))
        return haul__fail(HAUL_FORMAT, LOAD_CHECKPOINT, "path", "%s is not a valid checkpoint: a number is too large",
                          path);
    return HAUL_OK;
}

/* ---- checkpoints ---- */

static haul_status save_tensors(const char *path, haul_module *module, haul_optimizer *optimizer,
                                const haul_text_pair *texts, int text_count)
{
    list        tensors = {0};
    haul_status status = list_add_all(&tensors, MODEL, module, tensors_of_module, SAVE_CHECKPOINT);
    if (status == HAUL_OK)
        status = list_add_all(&tensors, OPTIMIZER, optimizer, tensors_of_optimizer, SAVE_CHECKPOINT);
    if (status == HAUL_OK)
        status = haul_save_safetensors(path, tensors.items, tensors.count, texts, text_count);
    list_free(&tensors);
    return status;
}

static haul_status check_arguments(haul_training_position position, const haul_text_pair *extra, int extra_count)
{
    if (extra_count < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE_CHECKPOINT, "extra_count",
                          "extra_count is %d; 0 or more is expected", extra_count);
    if (position.epoch < 0 || position.batch < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE_CHECKPOINT, "position",
                          "position.%s is %" PRId64 "; 0 or more is expected", position.epoch < 0 ? "epoch" : "batch",
                          position.epoch < 0 ? position.epoch : position.batch);
    for (int i = 0; i < extra_count; i++)
        if (extra[i].key && haul__begins_with(extra[i].key, OWN_KEYS))
            return haul__fail(HAUL_INVALID_ARGUMENT, SAVE_CHECKPOINT, "extra",
                              "keys that begin with " OWN_KEYS " are the checkpoint's own");
    return HAUL_OK;
}

/* The optimizer must train this module and, for a checkpoint to be written, nobody else may. */
static haul_status check_optimizer(haul_module *module, haul_optimizer *optimizer, bool alone, const char *operation)
{
    int                count = 0;
    haul_named_tensor *tensors = haul__module_tensor_list(module, &count);
    if (!tensors)
        return haul_error_status();
    haul_status status = haul__optimizer_check_module(optimizer, tensors, count, operation);
    if (status == HAUL_OK && alone)
        status = haul__optimizer_check_alone(&optimizer, 1, tensors, count, operation);
    haul__free(tensors);
    return status;
}

static haul_status read_values(numbers *out, haul_optimizer *optimizer, haul_training_position position)
{
    haul_random_state random = haul_random_state_get();
    double            lr = haul_optimizer_get(optimizer, 0, "lr");
    int64_t           steps = haul_optimizer_steps(optimizer);
    if (steps < 0) /* they are on a device that cannot be read */
        return haul_error_status();
    *out =
        (numbers){(uint64_t)position.epoch, (uint64_t)position.batch, (uint64_t)steps, random.seed, random.offset, 0};
    memcpy(&out->lr_bits, &lr, sizeof lr);
    return HAUL_OK;
}

static haul_status save_checkpoint(const char *path, haul_module *module, haul_optimizer *optimizer, numbers *values,
                                   const haul_text_pair *extra, int extra_count)
{
    char            digits[NUMBERS][24];
    haul_text_pair *texts = haul__calloc(NUMBERS + 2 + (size_t)extra_count, sizeof *texts);
    if (!texts)
        return haul__fail_memory(SAVE_CHECKPOINT, (size_t)extra_count * sizeof *texts);
    int count = 0;
    texts[count++] = (haul_text_pair){OWN_FORMAT, FORMAT};
    texts[count++] = (haul_text_pair){OWN_KIND, haul_optimizer_kind(optimizer)};
    for (size_t i = 0; i < NUMBERS; i++) {
        snprintf(digits[i], sizeof digits[i], "%" PRIu64, *number_at(values, i));
        texts[count++] = (haul_text_pair){number_keys[i].key, digits[i]};
    }
    for (int i = 0; i < extra_count; i++)
        texts[count++] = extra[i];
    haul_status status = save_tensors(path, module, optimizer, texts, count);
    haul__free(texts);
    return status;
}

haul_status haul_save_checkpoint(const char *path, haul_module *module, haul_optimizer *optimizer,
                                 haul_training_position position, const haul_text_pair *extra, int extra_count)
{
    if (!path || (!extra && extra_count))
        return haul__fail_null(SAVE_CHECKPOINT, path ? "extra" : "path");
    if (haul__check_module(module, SAVE_CHECKPOINT) || haul__check_optimizer(optimizer, SAVE_CHECKPOINT))
        return haul_error_status();
    numbers     values;
    haul_status status = check_arguments(position, extra, extra_count);
    if (status == HAUL_OK)
        status = check_optimizer(module, optimizer, true, SAVE_CHECKPOINT);
    if (status == HAUL_OK)
        status = read_values(&values, optimizer, position);
    if (status == HAUL_OK)
        status = save_checkpoint(path, module, optimizer, &values, extra, extra_count);
    return status ? haul__fail_within(SAVE_CHECKPOINT) : HAUL_OK;
}

/* ---- loading ---- */

/* The optimizer's tensors in the file, under the names the optimizer knows. */
static haul_status load_state(haul_safetensors *file, list *out)
{
    const haul__safetensors_header *header = haul__safetensors_header_of(file);
    for (int i = 0; i < header->count; i++) {
        const char *name = header->entries[i].name;
        if (!haul__begins_with(name, OPTIMIZER))
            continue;
        haul_tensor *tensor = haul_safetensors_load(file, name);
        if (haul__failed(tensor))
            return haul_error_status();
        haul_status status = list_add(out, "", name + strlen(OPTIMIZER), tensor, LOAD_CHECKPOINT);
        if (status != HAUL_OK)
            return status;
    }
    return HAUL_OK;
}

/* Copies of the optimizer's tensors. */
static haul_status copy_state(haul_optimizer *optimizer, list *out)
{
    haul_status status = list_add_all(out, "", optimizer, tensors_of_optimizer, LOAD_CHECKPOINT);
    for (int i = 0; i < out->count && status == HAUL_OK; i++) {
        haul_tensor *t = out->items[i].tensor;
        out->items[i].tensor = haul_identity(t, haul_tensor_device(t));
        status = haul__status_of(out->items[i].tensor);
    }
    return status;
}

/* The optimizer takes all of its state or nothing and goes first; then the weights, all or none. When those fail the
 * optimizer gets its old state back. */
static haul_status load_all(haul_safetensors *file, haul__weights *weights, haul_optimizer *optimizer, int64_t steps,
                            const haul__weights_rules *rules)
{
    list        fresh = {0}, old = {0};
    int64_t     old_steps = haul_optimizer_steps(optimizer);
    haul_status status = old_steps < 0 ? haul_error_status() : load_state(file, &fresh);
    if (status == HAUL_OK)
        status = copy_state(optimizer, &old);
    if (status == HAUL_OK)
        status = haul_optimizer_load_state(optimizer, fresh.items, fresh.count, steps);
    if (status == HAUL_OK && (status = haul__weights_load(weights, file, rules)) != HAUL_OK) {
        haul__error_record why;
        haul__error_save(&why);
        haul_optimizer_load_state(optimizer, old.items, old.count, old_steps);
        haul__error_restore(&why);
    }
    list_free(&fresh);
    list_free(&old);
    return status;
}

static haul_status load_checkpoint(const char *path, haul_module *module, haul_optimizer *optimizer, numbers *values)
{
    haul__weights       weights;
    haul__weights_rules rules = {.path = path, .operation = LOAD_CHECKPOINT, .prefix = MODEL, .add_prefix = ""};
    haul_safetensors   *file = haul_open_safetensors(path);
    haul_status         status = file ? read_numbers(file, optimizer, path, values) : haul_error_status();
    if (status == HAUL_OK)
        status = haul__weights_match(&weights, file, module, &rules);
    if (status != HAUL_OK)
        return status;
    status = load_all(file, &weights, optimizer, (int64_t)values->steps, &rules);
    haul__weights_free(&weights);
    return status;
}

haul_status haul_load_checkpoint(const char *path, haul_module *module, haul_optimizer *optimizer,
                                 haul_training_position *position)
{
    if (!path || !position)
        return haul__fail_null(LOAD_CHECKPOINT, path ? "position" : "path");
    if (haul__check_module(module, LOAD_CHECKPOINT) || haul__check_optimizer(optimizer, LOAD_CHECKPOINT))
        return haul_error_status();
    numbers     values;
    haul_status status = check_optimizer(module, optimizer, false, LOAD_CHECKPOINT);
    if (status != HAUL_OK)
        return haul__fail_within(LOAD_CHECKPOINT);
    haul_scope *scope = haul__cpu_scope();
    status = scope ? load_checkpoint(path, module, optimizer, &values) : haul_error_status();
    if (scope)
        haul_scope_pop(scope);
    if (status != HAUL_OK)
        return haul__fail_within(LOAD_CHECKPOINT);
    double lr;
    memcpy(&lr, &values.lr_bits, sizeof lr);
    haul_random_state_set((haul_random_state){values.random_seed, values.random_offset});
    *position = (haul_training_position){(int64_t)values.epoch, (int64_t)values.batch};
    status = haul_optimizer_set(optimizer, 0, "lr", lr);
    return status ? haul__fail_within(LOAD_CHECKPOINT) : HAUL_OK;
}
