/* Decides which tensor of a file belongs to which tensor of a module. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "nn/tensors.h"
#include "train/weights.h"

bool haul__begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* ---- one tensor ---- */

static const char *describe(const char *dtype, const haul_shape *shape, char *buffer, size_t size)
{
    char dims[96];
    snprintf(buffer, size, "%s%s", dtype, haul__shape_text(shape, dims, sizeof dims));
    return buffer;
}

/* A floating dtype converts to any other; an integer dtype to those that hold all its values. */
static bool is_convertible(haul_dtype from, haul_dtype to)
{
    if (haul_dtype_is_float(from) && haul_dtype_is_float(to))
        return true;
    return haul_dtype_is_integer(from) && haul_dtype_is_integer(to) && haul_dtype_promote(from, to) == to;
}

static const char *hint_about_dtype(const haul__weights_rules *rules, haul_dtype from, haul_dtype to)
{
    if (!rules->has_options)
        return "";
    if (!is_convertible(from, to))
        return "; Haul does not convert between these dtypes";
    return "; set .convert = true to convert it";
}

/* Fails unless shape and dtype of a tensor in the file match the module's. */
static haul_status check_pair(const haul__weight *w, const haul__weights_rules *rules)
{
    char                           name[HAUL__QUOTED_SIZE], ours[128], theirs[160];
    const haul__safetensors_entry *e = w->entry;
    haul_dtype                     dtype = w->tensor->dtype;
    HAUL__ASSERT(w->entry && w->tensor);
    if (e->fault)
        return haul__fail(HAUL_DTYPE, rules->operation, "path", "%s holds %s, which cannot be read: %s", rules->path,
                          haul__quoted(e->name, name), e->fault);
    bool fits = haul__shape_equal(&e->shape, &w->tensor->shape);
    if (fits && (e->dtype == dtype || (rules->convert && is_convertible(e->dtype, dtype))))
        return HAUL_OK;
    const char *file_dtype = e->dtype == HAUL_DTYPE_NONE ? e->dtype_name : haul_dtype_name(e->dtype);
    return haul__fail(fits ? HAUL_DTYPE : HAUL_SHAPE, rules->operation, "path", "%s holds %s as %s, the module as %s%s",
                      rules->path, haul__quoted(e->name, name), describe(file_dtype, &e->shape, theirs, sizeof theirs),
                      describe(haul_dtype_name(dtype), &w->tensor->shape, ours, sizeof ours),
                      fits ? hint_about_dtype(rules, e->dtype, dtype) : "");
}

/* The name of a tensor of the module in the file, in fresh memory. */
static char *name_in_file(const char *name, const haul__weights_rules *rules)
{
    return haul__format("%s%s", rules->prefix, name + strlen(rules->add_prefix));
}

/* ---- all tensors of the module ---- */

/* A tensor with two names is present if the file has one of them. */
bool haul__weights_is_missing(const haul__weights *w, int i)
{
    for (int k = 0; k < w->count && !w->items[i].entry; k++)
        if (w->items[k].tensor == w->items[i].tensor && w->items[k].entry)
            return false;
    return !w->items[i].entry;
}

static haul_status find_all(haul__weights *w, const haul__safetensors_header *header, const haul__weights_rules *rules,
                            bool *claimed)
{
    for (int i = 0; i < w->count; i++) {
        char *name = name_in_file(w->items[i].name, rules);
        if (!name)
            return haul__fail_memory(rules->operation, strlen(w->items[i].name));
        w->items[i].entry = haul__safetensors_find(header, name);
        haul__free(name);
        HAUL__ASSERT(!w->items[i].entry || w->items[i].entry < header->entries + header->count);
        if (w->items[i].entry)
            claimed[w->items[i].entry - header->entries] = true;
    }
    for (int i = 0; i < w->count; i++)
        w->missing_count += haul__weights_is_missing(w, i);
    HAUL__ASSERT(w->missing_count <= w->count);
    return HAUL_OK;
}

static haul_status fail_missing(const haul__weights *w, const haul__weights_rules *rules)
{
    char quoted[HAUL__QUOTED_SIZE], more[32] = "";
    int  first = 0;
    HAUL__ASSERT(w->missing_count > 0);
    while (!haul__weights_is_missing(w, first))
        first++;
    HAUL__ASSERT(first < w->count);
    char *name = name_in_file(w->items[first].name, rules);
    if (!name)
        return haul__fail_memory(rules->operation, strlen(w->items[first].name));
    if (w->missing_count > 1)
        snprintf(more, sizeof more, " and %d more", w->missing_count - 1);
    haul_status status = haul__fail(HAUL_FORMAT, rules->operation, "path", "%s lacks %s%s, which the module has%s",
                                    rules->path, haul__quoted(name, quoted), more,
                                    rules->has_options ? "; .partial = true leaves out what is missing" : "");
    haul__free(name);
    return status;
}

static haul_status fail_unexpected(const haul__weights *w, const haul__weights_rules *rules)
{
    char quoted[HAUL__QUOTED_SIZE], more[32] = "";
    if (w->unexpected_count > 1)
        snprintf(more, sizeof more, " and %d more", w->unexpected_count - 1);
    return haul__fail(HAUL_FORMAT, rules->operation, "path", "%s holds %s%s, which the module lacks%s", rules->path,
                      haul__quoted(w->unexpected[0]->name, quoted), more,
                      rules->has_options ? "; .partial = true leaves out what is not needed" : "");
}

/* Loading nothing at all means that the names are wrong, even with .partial. */
static haul_status fail_nothing(const haul__weights *w, const haul__safetensors_header *header,
                                const haul__weights_rules *rules)
{
    char theirs[HAUL__QUOTED_SIZE], ours[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, rules->operation, "path",
                      "%s and the module have no name in common: the file begins with %s, the module with %s; .prefix "
                      "and .add_prefix adapt the names",
                      rules->path, haul__quoted(header->count ? header->entries[0].name : "", theirs),
                      haul__quoted(w->items[0].name, ours));
}

/* True if the tensor of the file, whose name begins with rules->prefix, is one of rules->without. */
static bool is_left_out_of_file(const char *name, const haul__weights_rules *rules)
{
    const size_t added = strlen(rules->add_prefix);
    if (!rules->without)
        return false;
    if (haul__begins_with(rules->without, rules->add_prefix))
        return haul__begins_with(name + strlen(rules->prefix), rules->without + added);
    return haul__begins_with(rules->add_prefix, rules->without);
}

static haul_status judge(haul__weights *w, const haul__safetensors_header *header, const haul__weights_rules *rules,
                         const bool *claimed)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(w->missing_count <= w->count && !w->unexpected_count);
    if (w->count && w->missing_count == w->count && rules->partial)
        return fail_nothing(w, header, rules);
    if (w->missing_count && !rules->partial)
        return fail_missing(w, rules);
    for (int i = 0; i < w->count && status == HAUL_OK; i++)
        if (w->items[i].entry)
            status = check_pair(&w->items[i], rules);
    for (int i = 0; i < header->count && status == HAUL_OK; i++)
        if (!claimed[i] && haul__begins_with(header->entries[i].name, rules->prefix) &&
            !is_left_out_of_file(header->entries[i].name, rules))
            w->unexpected[w->unexpected_count++] = &header->entries[i];
    HAUL__ASSERT(w->unexpected_count <= header->count);
    return status == HAUL_OK && w->unexpected_count && !rules->partial ? fail_unexpected(w, rules) : status;
}

/* ---- names ---- */

static haul_status check_prefix(const haul__safetensors_header *header, const haul__weights_rules *rules)
{
    char wanted[HAUL__QUOTED_SIZE], first[HAUL__QUOTED_SIZE];
    bool found = !*rules->prefix || !rules->has_options;
    for (int i = 0; i < header->count && !found; i++)
        found = haul__begins_with(header->entries[i].name, rules->prefix);
    if (found)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, rules->operation, "prefix",
                      "%s has no tensor whose name begins with %s; its first tensor is %s", rules->path,
                      haul__quoted(rules->prefix, wanted),
                      haul__quoted(header->count ? header->entries[0].name : "", first));
}

static haul_status fail_without(const haul_named_tensor *all, int count, const haul__weights_rules *rules)
{
    char wanted[HAUL__QUOTED_SIZE], first[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_INVALID_ARGUMENT, rules->operation, "without",
                      "the module has no tensor whose name begins with %s; its first tensor is %s",
                      haul__quoted(rules->without, wanted), haul__quoted(count ? all[0].name : "", first));
}

/* Keeps the tensors of the module whose names begin with add_prefix, and not with without. */
static haul_status select_tensors(haul__weights *w, const haul_named_tensor *all, int count,
                                  const haul__weights_rules *rules)
{
    char wanted[HAUL__QUOTED_SIZE], first[HAUL__QUOTED_SIZE];
    bool left_out = false;
    HAUL__ASSERT(!w->count);
    for (int i = 0; i < count; i++) {
        const bool leaves_out = rules->without && haul__begins_with(all[i].name, rules->without);
        left_out = left_out || leaves_out;
        if (haul__begins_with(all[i].name, rules->add_prefix) && !leaves_out)
            w->items[w->count++] = (haul__weight){.name = all[i].name, .tensor = all[i].tensor};
    }
    HAUL__ASSERT(w->count <= count);
    if (rules->without && !left_out)
        return fail_without(all, count, rules);
    if (w->count || !*rules->add_prefix)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, rules->operation, "add_prefix",
                      "the module has no tensor whose name begins with %s; its first tensor is %s",
                      haul__quoted(rules->add_prefix, wanted), haul__quoted(count ? all[0].name : "", first));
}

static haul_status match(haul__weights *w, const haul__safetensors_header *header, const haul_named_tensor *all,
                         int count, const haul__weights_rules *rules)
{
    size_t entries = (size_t)header->count + 1;
    w->items = haul__calloc((size_t)count + 1, sizeof *w->items);
    w->unexpected = haul__calloc(entries, sizeof *w->unexpected);
    bool       *claimed = haul__calloc(entries, sizeof *claimed);
    haul_status status = HAUL_OK;
    if (!w->items || !w->unexpected || !claimed)
        status = haul__fail_memory(rules->operation, entries * sizeof *w->unexpected);
    if (status == HAUL_OK)
        status = check_prefix(header, rules);
    if (status == HAUL_OK)
        status = select_tensors(w, all, count, rules);
    if (status == HAUL_OK)
        status = find_all(w, header, rules, claimed);
    if (status == HAUL_OK)
        status = judge(w, header, rules, claimed);
    haul__free(claimed);
    return status;
}

haul_status haul__weights_match(haul__weights *weights, const haul_safetensors *file, haul_module *module,
                                const haul__weights_rules *rules)
{
    int                count = 0;
    haul_named_tensor *all = haul__module_tensor_list(module, &count);
    *weights = (haul__weights){0};
    if (!all)
        return haul__fail_within(rules->operation);
    haul_status status = match(weights, haul__safetensors_header_of(file), all, count, rules);
    HAUL__ASSERT(status || weights->count <= count);
    haul__free(all);
    if (status)
        haul__weights_free(weights);
    return status;
}

void haul__weights_free(haul__weights *weights)
{
    haul__free(weights->items);
    haul__free(weights->unexpected);
    *weights = (haul__weights){0};
}
