/* Examples while they are read and transformed. A value that already has its final size and dtype is written directly
 * to its final place, so most examples are never copied. */
#include "data/example.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bools.h"
#include "base/text/list.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/shape.h"
#include "core/tensor.h"

#define RESIZE "haul_example_resize"

void haul__example_begin(haul_example *e, const haul__fields *fields)
{
    for (int i = e->count; i < fields->count; i++)
        e->fields[i] = e->haul__memory->given[i] = (haul_value){0};
    HAUL__ASSERT(0 <= e->count && e->count <= HAUL_MAX_FIELDS && fields->count <= HAUL_MAX_FIELDS);
    e->count = fields->count;
    for (int i = 0; i < fields->count; i++)
        e->fields[i].name = e->haul__memory->given[i].name = fields->items[i].name;
}

/* The buffer of the two that does not hold the present value. */
static void *take_buffer(haul_example *e, int field, size_t bytes)
{
    HAUL__ASSERT(0 <= field && field < e->count);
    haul__example_memory *memory = e->haul__memory;
    int                   k = e->fields[field].data && e->fields[field].data == memory->buffers[field].memory[0];
    if (!memory->buffers[field].memory[k] || memory->buffers[field].capacity[k] < bytes) {
        haul__free(memory->buffers[field].memory[k]);
        memory->buffers[field].memory[k] = haul__malloc(bytes);
        memory->buffers[field].capacity[k] = memory->buffers[field].memory[k] ? bytes : 0;
    }
    HAUL__ASSERT(!memory->buffers[field].memory[k] || memory->buffers[field].memory[k] != e->fields[field].data);
    return memory->buffers[field].memory[k];
}

static bool belongs_there(const haul_example *e, int field, haul_dtype dtype, size_t bytes)
{
    const haul__example_memory *memory = e->haul__memory;
    return memory->targets[field] && e->fields[field].data != memory->targets[field] && field < memory->wanted->count &&
           memory->wanted->items[field].dtype == dtype && memory->wanted->bytes[field] == bytes;
}

void *haul_example_resize(haul_example *e, int field, haul_dtype dtype, haul_shape shape)
{
    int64_t count;
    if (!e || !e->haul__memory) {
        haul__fail_null(RESIZE, "example");
        return NULL;
    }
    if (field < 0 || field >= e->count) {
        haul__fail(HAUL_INVALID_ARGUMENT, RESIZE, "field", "unknown field %d; the example has %d", field, e->count);
        return NULL;
    }
    if (dtype <= HAUL_DTYPE_NONE || dtype >= HAUL_DTYPE_END) {
        haul__fail(HAUL_DTYPE, RESIZE, "dtype", "field %s gets no valid dtype", e->fields[field].name);
        return NULL;
    }
    if (haul__shape_count(&shape, RESIZE, &count))
        return NULL;
    size_t bytes = (size_t)count * haul__dtype_size(dtype);
    void  *memory =
        belongs_there(e, field, dtype, bytes) ? e->haul__memory->targets[field] : take_buffer(e, field, bytes);
    if (!memory) {
        haul__fail_memory(RESIZE, bytes);
        return NULL;
    }
    e->fields[field].dtype = dtype;
    e->fields[field].shape = shape;
    e->fields[field].data = memory;
    e->haul__memory->given[field] = e->fields[field];
    return memory;
}

haul_status haul__example_prepare(haul_example *e, const haul__fields *fields, const char *operation)
{
    HAUL__ASSERT(e->count == fields->count);
    for (int i = 0; i < fields->count; i++) {
        const haul_field *field = &fields->items[i];
        e->fields[i].data = NULL;
        if (fields->varying[i] < 0) {
            if (!haul_example_resize(e, i, field->dtype, field->shape))
                return haul__fail_within(operation);
            continue;
        }
        e->fields[i].dtype = field->dtype;
        e->fields[i].shape = field->shape;
        e->haul__memory->given[i] = e->fields[i];
    }
    return HAUL_OK;
}

haul_status haul__example_check(const haul_example *e, const haul__fields *fields, const char *who)
{
    char given[80], declared[80];
    if (e->count != fields->count)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_loader_next", "dataset",
                          "example %lld of %s has %d fields; %d were declared", (long long)e->index, who, e->count,
                          fields->count);
    for (int i = 0; i < fields->count; i++) {
        const haul_field *field = &fields->items[i];
        const haul_value *value = &e->fields[i];
        if (value->data && haul__field_fits(field, value->dtype, &value->shape))
            continue;
        if (!value->data)
            return haul__fail(HAUL_INVALID_ARGUMENT, "haul_loader_next", "dataset",
                              "example %lld of %s has no value for %s, which varies in size: call haul_example_resize "
                              "for it",
                              (long long)e->index, who, field->name);
        return haul__fail(HAUL_SHAPE, "haul_loader_next", "dataset",
                          "%s of example %lld of %s is %s%s; %s%s was declared", field->name, (long long)e->index, who,
                          haul_dtype_name(value->dtype), haul__shape_text(&value->shape, given, sizeof given),
                          haul_dtype_name(field->dtype), haul__shape_text(&field->shape, declared, sizeof declared));
    }
    return HAUL_OK;
}

void haul__example_normalise(const haul_example *e, const haul__fields *fields)
{
    for (int i = 0; i < fields->count; i++) {
        const haul_value *value = &e->fields[i];
        size_t            count = 1;
        if (value->dtype != HAUL_BOOL)
            continue;
        for (int d = 0; d < value->shape.ndim; d++)
            count *= (size_t)value->shape.dims[d];
        haul__normalise_bools(value->data, count);
    }
}

/* Records what the function changed, of the field `given`, which has the memory that it describes. */
static haul_status refuse_value(const haul_value *given, const haul_value *now, int64_t index, const char *who)
{
    char had[80], has[80];
    if (now->name != given->name)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_loader_next", "dataset",
                          "the name of %s of example %lld of %s was changed; names are those of the fields",
                          given->name, (long long)index, who);
    if (now->data != given->data)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_loader_next", "dataset",
                          "the data of %s of example %lld of %s points to other memory; write the elements to the "
                          "memory that Haul gave, or ask for more with haul_example_resize",
                          given->name, (long long)index, who);
    return haul__fail(HAUL_SHAPE, "haul_loader_next", "dataset",
                      "%s of example %lld of %s is %s%s, but its memory is for %s%s; change it with "
                      "haul_example_resize",
                      given->name, (long long)index, who, haul_dtype_name(now->dtype),
                      haul__shape_text(&now->shape, has, sizeof has), haul_dtype_name(given->dtype),
                      haul__shape_text(&given->shape, had, sizeof had));
}

static bool is_as_given(const haul_value *now, const haul_value *given)
{
    return now->data == given->data && now->dtype == given->dtype && now->name == given->name &&
           haul__shape_equal(&now->shape, &given->shape);
}

haul_status haul__example_call(haul_example *e, haul_example_function *function, void *context, const char *who)
{
    haul__example_memory *memory = e->haul__memory;
    const int64_t         index = e->index;
    const int             count = e->count;
    HAUL__ASSERT(memory && 0 <= count && count <= HAUL_MAX_FIELDS);
    const haul__guest before = haul__guest_begin();
    haul_status       status = haul__guest_end(&before, function(context, e), "haul_loader_next");
    const int         now = e->count;
    const bool        moved = e->haul__memory != memory;
    e->index = index;
    e->haul__memory = memory;
    e->count = count;
    if (!status && now != count)
        status = haul__fail(HAUL_INVALID_ARGUMENT, "haul_loader_next", "dataset",
                            "example %lld of %s has %d fields; %d were declared", (long long)index, who, now, count);
    if (!status && moved)
        status =
            haul__fail(HAUL_INVALID_ARGUMENT, "haul_loader_next", "dataset",
                       "haul__memory of example %lld of %s was changed; it belongs to Haul", (long long)index, who);
    for (int i = 0; i < count && !status; i++)
        if (!is_as_given(&e->fields[i], &memory->given[i]))
            status = refuse_value(&memory->given[i], &e->fields[i], index, who);
    return status;
}

haul_value *haul_example_field(haul_example *e, const char *name)
{
    char names[200] = "";
    if (!e || !name) {
        haul__fail_null("haul_example_field", e ? "name" : "example");
        return NULL;
    }
    for (int i = 0; i < e->count && i < HAUL_MAX_FIELDS; i++)
        if (strcmp(e->fields[i].name, name) == 0)
            return &e->fields[i];
    for (int i = 0; i < e->count && i < HAUL_MAX_FIELDS; i++)
        haul__list_add(names, sizeof names, "%.40s", e->fields[i].name);
    haul__fail(HAUL_INVALID_ARGUMENT, "haul_example_field", "name", "the example has no field \"%.40s\"; it has %s",
               name, names);
    return NULL;
}

void haul__example_memory_free(haul__example_memory *memory)
{
    for (int i = 0; i < HAUL_MAX_FIELDS; i++)
        for (int k = 0; k < 2; k++)
            haul__free(memory->buffers[i].memory[k]);
    haul__free(memory->steps);
    *memory = (haul__example_memory){0};
}
