/* Examples while they are read and transformed. A value that already has its final size and dtype is written directly
 * to its final place, so most examples are never copied. */
#include "data/example.h"

#include <string.h>

#include "core/alloc.h"
#include "core/bools.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"

#define RESIZE "haul_example_resize"

void haul__example_begin(haul_example *e, const haul__fields *fields)
{
    for (int i = e->count; i < fields->count; i++)
        e->fields[i] = (haul_value){0};
    e->count = fields->count;
    for (int i = 0; i < fields->count; i++)
        e->fields[i].name = fields->items[i].name;
}

/* The buffer of the two that does not hold the present value. */
static void *take_buffer(haul_example *e, int field, size_t bytes)
{
    haul__example_room *room = e->haul__room;
    int                 k = e->fields[field].data && e->fields[field].data == room->buffers[field].memory[0];
    if (!room->buffers[field].memory[k] || room->buffers[field].capacity[k] < bytes) {
        haul__free(room->buffers[field].memory[k]);
        room->buffers[field].memory[k] = haul__malloc(bytes);
        room->buffers[field].capacity[k] = room->buffers[field].memory[k] ? bytes : 0;
    }
    return room->buffers[field].memory[k];
}

static bool belongs_there(const haul_example *e, int field, haul_dtype dtype, size_t bytes)
{
    const haul__example_room *room = e->haul__room;
    return room->places[field] && e->fields[field].data != room->places[field] && field < room->wanted->count &&
           room->wanted->items[field].dtype == dtype && room->wanted->bytes[field] == bytes;
}

void *haul_example_resize(haul_example *e, int field, haul_dtype dtype, haul_shape shape)
{
    int64_t count;
    if (!e || !e->haul__room) {
        haul__fail_null(RESIZE, "example");
        return NULL;
    }
    if (field < 0 || field >= e->count) {
        haul__fail(HAUL_INVALID_ARGUMENT, RESIZE, "field", "there is no field %d; the example has %d", field, e->count);
        return NULL;
    }
    if (dtype <= HAUL_DTYPE_NONE || dtype >= HAUL_DTYPE_END) {
        haul__fail(HAUL_DTYPE, RESIZE, "dtype", "field %s gets no valid dtype", e->fields[field].name);
        return NULL;
    }
    if (haul__shape_count(&shape, RESIZE, &count))
        return NULL;
    size_t bytes = (size_t)count * haul__dtype_size(dtype);
    void  *memory = belongs_there(e, field, dtype, bytes) ? e->haul__room->places[field] : take_buffer(e, field, bytes);
    if (!memory) {
        haul__fail_memory(RESIZE, bytes);
        return NULL;
    }
    e->fields[field].dtype = dtype;
    e->fields[field].shape = shape;
    e->fields[field].data = memory;
    return memory;
}

haul_status haul__example_prepare(haul_example *e, const haul__fields *fields, const char *operation)
{
    for (int i = 0; i < fields->count; i++) {
        const haul_field *field = &fields->items[i];
        e->fields[i].data = NULL;
        e->fields[i].dtype = field->dtype;
        e->fields[i].shape = field->shape;
        if (fields->varying[i] < 0 && !haul_example_resize(e, i, field->dtype, field->shape))
            return haul__fail_within(operation);
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
    for (int i = 0; i < e->count && i < HAUL_MAX_FIELDS && strlen(names) < 150; i++)
        strncat(strcat(names, i ? ", " : ""), e->fields[i].name, 40);
    haul__fail(HAUL_INVALID_ARGUMENT, "haul_example_field", "name", "the example has no field \"%.40s\"; it has %s",
               name, names);
    return NULL;
}

void haul__example_room_free(haul__example_room *room)
{
    for (int i = 0; i < HAUL_MAX_FIELDS; i++)
        for (int k = 0; k < 2; k++)
            haul__free(room->buffers[i].memory[k]);
    *room = (haul__example_room){0};
}
