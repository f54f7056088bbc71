/* Saves a module's weights as a safetensors file, and loads them. Loading reads and compares everything before it
 * changes anything, and undoes its changes if a copy fails. */
#include "train/weights.h"

#include <haul/autograd.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "core/object.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "engine/copy.h"
#include "engine/placement/placement.h"
#include "host_access/host.h"
#include "host_access/view.h"
#include "memory/dry_run/dry_run.h"
#include "memory/spill/elsewhere.h"
#include "nn/tensors.h"

#define SAVE "haul_save_weights"
#define LOAD "haul_load_weights"

/* ---- saving ---- */

/* The user's metadata, after "format": "pt" unless it has a format of its own. */
static haul_status save(const char *path, const haul_named_tensor *tensors, int count,
                        const haul_save_weights_options *o)
{
    size_t          size = (size_t)o->metadata_count + 1;
    haul_text_pair *texts = haul__calloc(size, sizeof *texts);
    if (!texts)
        return haul__fail_memory(SAVE, size * sizeof *texts);
    texts[0] = (haul_text_pair){"format", "pt"};
    HAUL__ASSERT(o->metadata_count >= 0);
    bool has_format = false;
    for (int i = 0; i < o->metadata_count; i++) {
        texts[i + 1] = o->metadata[i];
        has_format = has_format || (texts[i + 1].key && strcmp(texts[i + 1].key, "format") == 0);
    }
    haul_status status =
        haul_save_safetensors(path, tensors, count, texts + has_format, o->metadata_count + !has_format);
    haul__free(texts);
    return status ? haul__fail_within(SAVE) : HAUL_OK;
}

haul_status haul_save_weights_with(const char *path, const haul_save_weights_options *options)
{
    if (!path || !options)
        return haul__fail_null(SAVE, path ? "options" : "path");
    if (haul__check_module(options->module, SAVE))
        return haul_error_status();
    if (options->metadata_count < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "metadata_count", "metadata_count is %d; 0 or more is expected",
                          options->metadata_count);
    if (!options->metadata && options->metadata_count)
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "metadata", "metadata is NULL, but metadata_count is %d",
                          options->metadata_count);
    int                count = 0;
    haul_named_tensor *tensors = haul__module_tensor_list(options->module, &count);
    if (!tensors)
        return haul__fail_within(SAVE);
    haul_status status = save(path, tensors, count, options);
    haul__free(tensors);
    return status;
}

/* ---- setting values ---- */

haul_scope *haul__cpu_scope(void)
{
    haul_scope *scope = haul__scope_push(NULL);
    if (!scope)
        return NULL;
    haul_set_grad_enabled(false);
    haul__place_as_given();
    if (haul_set_device(haul_cpu()) == HAUL_OK)
        return scope;
    haul_scope_pop(scope);
    return NULL;
}

/* A tensor's new contents, and its old ones. */
typedef struct change {
    haul_tensor *tensor, *fresh;
    haul_tensor *old;  /* NULL: it takes over the memory of fresh */
    const char  *name; /* in the file */
} change;

/* True if the tensor may use the memory of `fresh`, in the mapped file. */
static bool is_in_place(const haul_safetensors *file, const haul_tensor *t, const haul_tensor *fresh)
{
    return haul__safetensors_in_place(file, fresh) && t->storage->device == haul_cpu() && t->contiguous &&
           !t->storage->planned && !haul__is_dry();
}

/* A dry run takes the memory, and reads no file. */
static haul_tensor *read_tensor(haul_safetensors *file, const haul__safetensors_entry *e)
{
    return haul__is_dry() ? haul_empty(e->dtype, e->shape) : haul_safetensors_load(file, e->name);
}

static haul_status read_change(change *c, haul_safetensors *file, const haul__weight *weight, haul__weights *counts)
{
    const char *name = weight->entry->name;
    *c = (change){.tensor = weight->tensor, .fresh = read_tensor(file, weight->entry), .name = name};
    if (haul__failed(c->fresh))
        return haul_error_status();
    HAUL__ASSERT(c->fresh->count == c->tensor->count);
    if (c->fresh->dtype != c->tensor->dtype) {
        c->fresh = haul_cast(c->fresh, c->tensor->dtype);
        if (haul__failed(c->fresh))
            return haul_error_status();
        counts->converted++;
    }
    HAUL__ASSERT(c->fresh->dtype == c->tensor->dtype);
    if (is_in_place(file, c->tensor, c->fresh)) {
        counts->mapped++;
        return HAUL_OK;
    }
    c->old = haul__identity_named(c->tensor, haul_cpu(), name);
    return haul__status_of(c->old);
}

/* A dry run counts the copy. What it loaded has no values. */
static haul_status write_nothing(const change *c, const char *operation)
{
    const size_t bytes = haul_tensor_bytes(c->tensor);
    void        *zeros = haul__calloc(bytes, 1);
    haul_status  status = zeros || !bytes ? HAUL_OK : haul__fail_memory(operation, bytes);
    if (!status && bytes)
        status = haul__write_named(c->tensor, zeros, bytes, c->name);
    haul__free(zeros);
    return status;
}

static haul_status write_tensor(const change *c, haul_tensor *from, const char *operation)
{
    haul__host_view view;
    haul_status     status = HAUL_OK;
    if (haul__is_dry())
        return write_nothing(c, operation);
    status = haul__host_view_begin(&view, from, NULL, operation);
    if (status)
        return status;
    HAUL__ASSERT(view.bytes == (size_t)c->tensor->count * haul__dtype_size(c->tensor->dtype));
    status = haul__write_named(c->tensor, view.data, view.bytes, c->name);
    haul__host_view_end(&view);
    return status;
}

/* Both have the same dtype and shape, and are on the CPU. */
static haul_status compare(const change *a, const change *b, const char *path, const char *operation)
{
    char            first[HAUL__QUOTED_SIZE], second[HAUL__QUOTED_SIZE];
    haul__host_view x, y;
    haul_status     status = haul__host_view_begin(&x, a->fresh, NULL, operation);
    if (status)
        return status;
    status = haul__host_view_begin(&y, b->fresh, NULL, operation);
    if (status == HAUL_OK) {
        HAUL__ASSERT(x.bytes == y.bytes);
        const bool same = memcmp(x.data, y.data, x.bytes) == 0;
        haul__host_view_end(&y);
        if (!same)
            status = haul__fail(HAUL_FORMAT, operation, "path",
                                "%s holds different values as %s and as %s, which are names of one tensor of the "
                                "module; remove one of them from the file",
                                path, haul__quoted(a->name, first), haul__quoted(b->name, second));
    }
    haul__host_view_end(&x);
    return status;
}

/* A tensor that the module has under several names gets its values once, if they are the same under all names. */
static haul_status join_change(const change *changes, int *count, const haul__weights_rules *rules)
{
    const change *last = &changes[*count - 1];
    haul_status   status = HAUL_OK;
    HAUL__ASSERT(*count > 0);
    for (int i = 0; i < *count - 1; i++)
        if (changes[i].tensor == last->tensor) {
            if (!haul__is_dry())
                status = compare(&changes[i], last, rules->path, rules->operation);
            --*count;
            break;
        }
    return status;
}

/* Copies first, because they may fail; taking over memory cannot fail. */
static haul_status apply(const change *changes, int count, const char *operation)
{
    haul_status status = HAUL_OK;
    int         done = 0;
    for (; done < count && status == HAUL_OK; done++)
        if (changes[done].old)
            status = write_tensor(&changes[done], changes[done].fresh, operation);
    if (status) {
        HAUL__ASSERT(done > 0);
        haul__error_record why;
        haul__error_save(&why);
        while (done-- > 0)
            if (changes[done].old)
                write_tensor(&changes[done], changes[done].old, operation);
        haul__error_restore(&why);
        return status;
    }
    HAUL__ASSERT(done == count);
    for (int i = 0; i < count; i++)
        if (!changes[i].old)
            haul__tensor_take_over(changes[i].tensor, changes[i].fresh);
    return HAUL_OK;
}

haul_status haul__weights_load(haul__weights *w, haul_safetensors *file, const haul__weights_rules *rules)
{
    int         count = 0;
    haul_status status = HAUL_OK;
    change     *changes = haul__calloc((size_t)w->count + 1, sizeof *changes);
    if (!changes)
        return haul__fail_memory(rules->operation, (size_t)w->count * sizeof *changes);
    for (int i = 0; i < w->count && status == HAUL_OK; i++)
        if (w->items[i].entry && !haul__is_out_of_reach(w->items[i].tensor->storage)) {
            status = read_change(&changes[count++], file, &w->items[i], w);
            if (status == HAUL_OK)
                status = join_change(changes, &count, rules);
        }
    HAUL__ASSERT(count <= w->count);
    if (status == HAUL_OK)
        status = apply(changes, count, rules->operation);
    haul__free(changes);
    return status ? haul__fail_within(rules->operation) : HAUL_OK;
}

/* ---- the report ---- */

/* The names in a report, which a scope owns. */
typedef struct names {
    haul__object object;
    char       **texts;
    int          count;
} names;

static void destroy_names(void *object)
{
    names *n = object;
    for (int i = 0; i < n->count; i++)
        haul__free(n->texts[i]);
    haul__free(n->texts);
    haul__free(n);
}

static const haul__class names_class = {.name = "list of names", .destroy = destroy_names};

/* Made in the caller's scope, before anything changes. */
static names *names_new(void)
{
    names *n = haul__calloc(1, sizeof *n);
    if (!n) {
        haul__fail_memory(LOAD, sizeof *n);
        return NULL;
    }
    haul__object_init(&n->object, &names_class);
    return haul__own(n, LOAD);
}

static haul_status add_name(names *n, const char *text)
{
    char *copy = haul__strdup(text);
    if (!copy)
        return haul__fail_memory(LOAD, strlen(text));
    n->texts[n->count++] = copy;
    return HAUL_OK;
}

/* The missing names, then the unexpected ones. */
static haul_status fill_names(names *n, const haul__weights *w)
{
    haul_status status = HAUL_OK;
    n->texts = haul__calloc((size_t)w->count + (size_t)w->unexpected_count + 1, sizeof *n->texts);
    if (!n->texts)
        return haul__fail_memory(LOAD, (size_t)w->count * sizeof *n->texts);
    for (int i = 0; i < w->count && status == HAUL_OK; i++)
        if (haul__weights_is_missing(w, i))
            status = add_name(n, w->items[i].name);
    for (int i = 0; i < w->unexpected_count && status == HAUL_OK; i++)
        status = add_name(n, w->unexpected[i]->name);
    HAUL__ASSERT(status || n->count == w->missing_count + w->unexpected_count);
    return status;
}

static void fill_report(haul_weights_report *report, const haul__weights *w, const names *n)
{
    *report = (haul_weights_report){.loaded = w->count - w->missing_count,
                                    .converted = w->converted,
                                    .mapped = w->mapped,
                                    .missing_count = w->missing_count,
                                    .unexpected_count = w->unexpected_count,
                                    .missing = (const char *const *)n->texts,
                                    .unexpected = (const char *const *)n->texts + w->missing_count};
}

/* ---- loading ---- */

static haul_status load(const char *path, const haul_load_weights_options *o, names *n)
{
    haul__weights_rules rules = {.path = path,
                                 .operation = LOAD,
                                 .prefix = o->prefix ? o->prefix : "",
                                 .add_prefix = o->add_prefix ? o->add_prefix : "",
                                 .without = o->without && *o->without ? o->without : NULL,
                                 .partial = o->partial,
                                 .convert = o->convert,
                                 .has_options = true};
    haul__weights       weights;
    haul_safetensors   *file = haul_open_safetensors(path, .map = o->map);
    if (!file)
        return haul__fail_within(LOAD);
    const char *root = haul__safetensors_header_of(file)->root;
    if (!o->prefix && root)
        rules.prefix = root;
    haul_status status = haul__weights_match(&weights, file, o->module, &rules);
    if (status)
        return status;
    if (n)
        status = fill_names(n, &weights);
    if (status == HAUL_OK)
        status = haul__weights_load(&weights, file, &rules);
    if (status == HAUL_OK && n)
        fill_report(o->report, &weights, n);
    haul__weights_free(&weights);
    return status;
}

haul_status haul_load_weights_with(const char *path, const haul_load_weights_options *options)
{
    if (!path || !options)
        return haul__fail_null(LOAD, path ? "options" : "path");
    if (haul__check_module(options->module, LOAD))
        return haul_error_status();
    names *n = NULL;
    if (options->report) {
        *options->report = (haul_weights_report){0};
        if (!(n = names_new()))
            return haul_error_status();
    }
    haul_scope *scope = haul__cpu_scope();
    haul_status status = scope ? load(path, options, n) : haul__fail_within(LOAD);
    if (scope)
        haul_scope_pop(scope);
    if (status && n)
        haul_drop(n);
    return status;
}
