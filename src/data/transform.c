/* Transforms, and datasets with transforms behind them. */
#include "data/transform.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/word_list.h"
#include "core/error.h"
#include "core/guest.h"
#include "data/dataset.h"
#include "data/example.h"

#define NEW "haul_transform_new"
#define MAP "haul_dataset_map"

struct haul_transform {
    haul__object           object;
    haul_transform_options options;
};

static void destroy(void *object)
{
    haul_transform *t = object;
    haul__guest_free(t->options.close, t->options.context);
    haul__object_free(&t->object, sizeof *t);
}

static const haul__class class = {.name = "transform", .destroy = destroy};

haul_status haul__transform_apply(haul_transform *t, haul_example *e, const char *who)
{
    return haul__example_call(e, t->options.apply, t->options.context, who);
}

static haul_transform *make(const haul_transform_options *options, const char *operation)
{
    haul_transform *t = options->apply ? haul__object_new(sizeof *t, &class) : NULL;
    if (t) {
        t->options = *options;
        return haul__own(t, operation);
    }
    if (options->apply)
        haul__fail_memory(operation, sizeof *t);
    else
        haul__fail_no_function(operation, "apply");
    haul__guest_free(options->close, options->context);
    return NULL;
}

haul_transform *haul_transform_new_with(const haul_transform_options *options)
{
    if (options)
        return make(options, NEW);
    haul__fail_null(NEW, "options");
    return NULL;
}

/* ---- built-in ones ---- */

void *haul__named_new(size_t bytes, const char *names, haul__plan *plan, const char *operation)
{
    if (!names) {
        haul__fail_null(operation, "fields");
        return NULL;
    }
    const char  *at = names;
    haul__named *named = NULL;
    if (!haul__word_list_next(&at)) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "fields", "fields is empty; name at least one field");
        return NULL;
    }
    if (!(named = haul__calloc(1, bytes)) || !(named->names = haul__strdup(names))) {
        haul__free(named);
        haul__fail_memory(operation, bytes);
        return NULL;
    }
    named->plan = plan;
    named->operation = operation;
    return named;
}

static void close_named(void *context)
{
    haul__named *named = context;
    haul__free(named->names);
    haul__free(named);
}

static haul_status plan_named(void *context, haul_field *fields, int *count)
{
    const haul__named *named = context;
    const char        *at = named->names;
    char               have[200];
    haul_status        status = HAUL_OK;
    for (size_t length; status == HAUL_OK && (length = haul__word_list_next(&at)); at += length) {
        HAUL__ASSERT(0 < *count && *count <= HAUL_MAX_FIELDS);
        int i = 0;
        while (i < *count && (strlen(fields[i].name) != length || memcmp(fields[i].name, at, length) != 0))
            i++;
        status = i < *count ? named->plan(context, &fields[i])
                            : haul__fail(HAUL_INVALID_ARGUMENT, named->operation, "fields",
                                         "the dataset has no field \"%.*s\"; it has %s", (int)length, at,
                                         haul__fields_text(fields, *count, have, sizeof have));
    }
    return status;
}

haul_transform *haul__named_transform(void *context, haul_example_function *apply)
{
    haul__named *named = context;
    return make(&(haul_transform_options){.apply = apply, .fields = plan_named, .close = close_named, .context = named},
                named->operation);
}

int haul__named_next(const char **names, const haul_example *e)
{
    HAUL__ASSERT(0 <= e->count && e->count <= HAUL_MAX_FIELDS);
    size_t length = haul__word_list_next(names);
    for (int i = 0; length && i < e->count; i++)
        if (strlen(e->fields[i].name) == length && memcmp(e->fields[i].name, *names, length) == 0) {
            *names += length;
            return i;
        }
    return -1;
}

/* ---- mapped datasets ---- */

/* What a function of the program left is checked before the next transform reads it. */
static haul_status check_fields(const haul_field *fields, int count)
{
    if (count < 1 || count > HAUL_MAX_FIELDS)
        return haul__fail(HAUL_INVALID_ARGUMENT, MAP, "transforms",
                          "a transform leaves %d fields; from 1 to %d are possible", count, HAUL_MAX_FIELDS);
    for (int i = 0; i < count; i++)
        if (!fields[i].name)
            return haul__fail(HAUL_INVALID_ARGUMENT, MAP, "transforms", "a transform leaves field %d without a name",
                              i);
    return HAUL_OK;
}

static haul_status plan(const haul_transform *t, haul_field *fields, int *count)
{
    if (!t->options.fields)
        return HAUL_OK;
    haul__error_record before;
    haul__error_save(&before);
    haul_error_clear();
    haul__guest guest = haul__guest_begin();
    haul_status status = haul__guest_end(&guest, t->options.fields(t->options.context, fields, count), MAP);
    if (status && haul_error_status() == HAUL_OK)
        haul__fail(status, MAP, "transforms", "a transform refuses the fields of the dataset");
    if (status == HAUL_OK && (status = check_fields(fields, *count)) == HAUL_OK)
        haul__error_restore(&before);
    return status;
}

haul_dataset *haul_dataset_map_list(haul_dataset *dataset, haul_transform *const *transforms, int count)
{
    haul_field fields[HAUL_MAX_FIELDS] = {{0}};
    if (haul__check_dataset(dataset, MAP))
        return NULL;
    if (!transforms || count < 1) {
        haul__fail(HAUL_INVALID_ARGUMENT, MAP, "transforms", "transforms is empty; pass at least one");
        return NULL;
    }
    int field_count = dataset->fields->count;
    memcpy(fields, dataset->fields->items, (size_t)field_count * sizeof *fields);
    for (int i = 0; i < count; i++)
        if (haul__check_object(transforms[i], &class, MAP, "transforms") || plan(transforms[i], fields, &field_count))
            return NULL;
    return haul__dataset_map(dataset, transforms, count, fields, field_count, MAP);
}
