/* Batches are assembled in host memory, which CPU tensors use directly. For another device the memory is pinned if
 * possible, and copied while the next batch is assembled in another slot. The slot also keeps its device memory: if it
 * were freed between batches, the memory in use would depend on how far ahead the workers are, and a training could run
 * out of memory late. Only fields that vary in size are reallocated, when a batch is larger than those before. */
#include "data/loader/batch.h"

#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/shape.h"
#include "core/thread.h"
#include "device/device.h"
#include "memory/allocator.h"
#include "memory/dry_run/dry_run.h"
#include "memory/mark.h"
#include "transfer/copy.h"

#define ORIGIN "haul_loader_next"

/* ---- memory ---- */

/* Only the slot still uses the memory, and it is large enough. */
static bool is_left(const haul__storage *storage, size_t bytes)
{
    return storage && atomic_load(&storage->object.refs) == 1 && !storage->attached[HAUL__MAPPING] &&
           storage->bytes >= bytes;
}

static haul_status renew_host(haul__storage **storage, haul_device *device, size_t bytes)
{
    if (is_left(*storage, bytes))
        return HAUL_OK;
    haul__object_release(*storage);
    *storage = haul__host_alloc_for(device, bytes, ORIGIN);
    haul__set_storage_role(*storage, HAUL__ROLE_DATA);
    return *storage ? HAUL_OK : haul_error_status();
}

static haul_status renew_device(haul__storage **storage, haul_device *device, size_t bytes)
{
    if (device == haul_cpu() || is_left(*storage, bytes))
        return HAUL_OK;
    haul__object_release(*storage);
    *storage = haul__storage_alloc(device, bytes, ORIGIN);
    haul__set_storage_role(*storage, HAUL__ROLE_DATA);
    return *storage ? HAUL_OK : haul_error_status();
}

static haul_status renew(haul__storage **host, haul__storage **there, haul_device *device, size_t bytes)
{
    haul_status status = renew_host(host, device, bytes);
    return status == HAUL_OK ? renew_device(there, device, bytes) : status;
}

static haul_status prepare_examples(haul__batch_slot *slot, int64_t count, const char *operation)
{
    if (slot->examples)
        return HAUL_OK;
    HAUL__ASSERT(count > 0 && !slot->example_count);
    if (!(slot->examples = haul__calloc((size_t)count, sizeof *slot->examples)))
        return haul__fail_memory(operation, (size_t)count * sizeof *slot->examples);
    slot->example_count = count;
    for (int64_t i = 0; i < count; i++)
        slot->examples[i].example.haul__memory = &slot->examples[i].memory;
    return HAUL_OK;
}

haul_status haul__batch_slot_prepare(haul__batch_slot *slot, const haul__batch_spec *spec, const char *operation)
{
    const haul__fields *fields = spec->dataset->fields;
    haul_status status = prepare_examples(slot, spec->dataset->count == HAUL_UNKNOWN ? spec->rows : 1, operation);
    for (int f = 0; f < fields->count && status == HAUL_OK; f++) {
        haul__column *c = &slot->columns[f];
        if (fields->varying[f] < 0)
            status = renew(&c->host, &c->device, spec->device, (size_t)spec->rows * fields->bytes[f]);
        else
            status = renew(&c->host_lengths, &c->device_lengths, spec->device, (size_t)spec->rows * sizeof(int64_t));
    }
    return status;
}

/* ---- examples ---- */

/* Prepares the example for row `row`, which can then be read; its values belong in the batch's memory. */
static haul_example *begin_example(haul__batch_slot *slot, const haul__batch_spec *spec, const haul__batch_range *range,
                                   int64_t row)
{
    const haul__fields   *fields = spec->dataset->fields;
    haul__stored_example *stored = &slot->examples[slot->example_count == 1 ? 0 : row];
    int64_t               position = range->number * spec->batch + row;
    haul_example         *e = &stored->example;
    HAUL__ASSERT(0 <= row && row < spec->rows && slot->example_count >= 1);
    HAUL__ASSERT(slot->example_count == 1 || row < slot->example_count);
    stored->memory.wanted = fields;
    for (int f = 0; f < fields->count; f++) {
        uint8_t *rows = fields->varying[f] < 0 ? slot->columns[f].host->buffer.host : NULL;
        HAUL__ASSERT(!rows || slot->columns[f].host->bytes >= (size_t)(row + 1) * fields->bytes[f]);
        stored->memory.targets[f] = rows ? rows + (size_t)row * fields->bytes[f] : NULL;
    }
    e->epoch = range->epoch;
    e->index = range->indices ? range->indices[row] : position;
    e->draws = haul_draws_new(spec->seed, range->epoch, spec->weighted ? position : e->index);
    return e;
}

static haul_status append_ragged(haul__column *c, const haul_value *value)
{
    int64_t count = 1;
    for (int d = 0; d < value->shape.ndim; d++)
        count *= value->shape.dims[d];
    size_t bytes = (size_t)count * haul__dtype_size(value->dtype);
    if (bytes > SIZE_MAX / 4 - c->ragged_bytes ||
        !haul__grow(&c->ragged, &c->ragged_capacity, c->ragged_bytes + bytes, 1))
        return haul__fail_memory(ORIGIN, bytes);
    if (bytes)
        memcpy(c->ragged + c->ragged_bytes, value->data, bytes);
    c->ragged_bytes += bytes;
    HAUL__ASSERT(c->ragged_bytes <= c->ragged_capacity);
    return HAUL_OK;
}

/* Copies the values of a finished example to their targets, unless they are there already. */
static haul_status store_example(haul__batch_slot *slot, const haul__batch_spec *spec, const haul_example *e,
                                 int64_t row)
{
    const haul__fields *fields = spec->dataset->fields;
    HAUL__ASSERT(0 <= row && row < spec->rows);
    haul_status status = HAUL_OK;
    for (int f = 0; f < fields->count && status == HAUL_OK; f++) {
        haul__column *c = &slot->columns[f];
        void         *place = e->haul__memory->targets[f];
        HAUL__ASSERT(fields->varying[f] < 0 || c->host_lengths->bytes >= (size_t)(row + 1) * sizeof(int64_t));
        if (fields->varying[f] >= 0) {
            ((int64_t *)c->host_lengths->buffer.host)[row] = e->fields[f].shape.dims[fields->varying[f]];
            status = append_ragged(c, &e->fields[f]);
        } else if (place && e->fields[f].data != place) {
            memcpy(place, e->fields[f].data, fields->bytes[f]);
        }
    }
    return status;
}

/* A copy of the last batch in this memory may still be in flight. */
static haul_status await_memory(haul__batch_slot *slot, const haul__fields *fields)
{
    haul_status status = HAUL_OK;
    for (int f = 0; f < fields->count && status == HAUL_OK; f++) {
        haul__column  *c = &slot->columns[f];
        haul__storage *host = fields->varying[f] < 0 ? c->host : c->host_lengths;
        c->ragged_bytes = 0;
        if (host->buffer.host)
            status = haul__host_before(host, true, ORIGIN);
    }
    return status;
}

static bool stopped(const atomic_bool *stop)
{
    return atomic_load_explicit(stop, memory_order_relaxed);
}

static haul_status read_examples(haul__batch_slot *slot, const haul__batch_spec *spec, const haul__batch_range *range,
                                 const atomic_bool *stop)
{
    haul_status status = HAUL_OK;
    for (int64_t i = 0; i < range->n && status == HAUL_OK && !stopped(stop); i++) {
        haul_example *e = begin_example(slot, spec, range, i);
        status = haul__dataset_read(spec->dataset, e);
        if (status == HAUL_OK)
            status = store_example(slot, spec, e, i);
    }
    slot->size = range->n;
    return status;
}

/* ---- examples in order ---- */

/* Reads the examples of the batch whose turn it is, without transforms; if the epoch begins in the middle, also the
 * batches before it. The caller holds the stream's lock. */
static haul_status fetch_in_order(haul__batch_slot *slot, const haul__batch_spec *spec, const haul__batch_range *range,
                                  haul__sequence *stream, const atomic_bool *stop)
{
    int64_t     first = range->number * spec->batch;
    haul_status status = HAUL_OK;
    slot->size = 0;
    HAUL__ASSERT(stream->turn == range->number && slot->example_count >= range->n);
    while (stream->position < first + range->n && status == HAUL_OK && !stopped(stop)) {
        int64_t       row = stream->position - first;
        haul_example *e = begin_example(slot, spec, range, row < 0 ? 0 : row);
        e->index = stream->position;
        if (row < 0)
            e->draws = haul_draws_new(spec->seed, range->epoch, e->index);
        status = haul__dataset_fetch(spec->dataset, e);
        if (status)
            break;
        stream->position++;
        slot->size += row >= 0;
    }
    return status;
}

static haul_status take_turn(haul__batch_slot *slot, const haul__batch_spec *spec, const haul__batch_range *range,
                             haul__sequence *stream, const atomic_bool *stop)
{
    haul_status status = HAUL_OK;
    pthread_mutex_lock(&stream->lock);
    while (stream->turn != range->number && !stopped(stop))
        pthread_cond_wait(&stream->moved, &stream->lock);
    if (stream->over)
        status = HAUL_END_OF_DATA;
    else if (!stopped(stop))
        status = fetch_in_order(slot, spec, range, stream, stop);
    stream->over = stream->over || status != HAUL_OK;
    stream->turn = range->number + 1;
    pthread_cond_broadcast(&stream->moved);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static haul_status read_in_order(haul__batch_slot *slot, const haul__batch_spec *spec, const haul__batch_range *range,
                                 haul__sequence *stream, const atomic_bool *stop)
{
    slot->size = 0;
    haul_status status = take_turn(slot, spec, range, stream, stop);
    if (status == HAUL_END_OF_DATA && slot->size && !spec->drop_last)
        status = HAUL_OK;
    for (int64_t i = 0; i < slot->size && status == HAUL_OK && !stopped(stop); i++) {
        haul_example *e = &slot->examples[i].example;
        status = haul__dataset_finish(spec->dataset, e);
        if (status == HAUL_OK)
            status = store_example(slot, spec, e, i);
    }
    return status;
}

/* ---- fields that vary ---- */

/* Rows of `to` elements, made of rows of `from` elements and padding; `inner` bytes each, `outer` times. */
static uint8_t *pad_value(const uint8_t **in, int64_t outer, int64_t from, int64_t to, size_t inner,
                          const uint8_t *padding, size_t element, uint8_t *out)
{
    for (int64_t o = 0; o < outer; o++) {
        if (from)
            memcpy(out, *in, (size_t)from * inner);
        *in += (size_t)from * inner;
        out += (size_t)from * inner;
        for (size_t left = (size_t)(to - from) * inner; left; left -= element, out += element)
            memcpy(out, padding, element);
    }
    return out;
}

/* The batch's memory for a field that varies, filled from its ragged; *shape becomes its shape without the rows. */
static haul_status build_column(haul__column *c, const haul__batch_spec *spec, int f, int64_t n, haul_shape *shape)
{
    const haul_field *field = &spec->dataset->fields->items[f];
    int               vary = spec->dataset->fields->varying[f];
    HAUL__ASSERT(vary >= 0 && n > 0);
    const int64_t *lengths = c->host_lengths->buffer.host;
    int64_t        longest = 0, outer = 1, count, bytes;
    size_t         element = haul__dtype_size(field->dtype), inner = element;
    uint8_t        padding[8];
    for (int64_t i = 0; i < n; i++)
        longest = lengths[i] > longest ? lengths[i] : longest;
    *shape = field->shape;
    shape->dims[vary] = longest;
    for (int d = 0; d < shape->ndim; d++)
        if (d < vary)
            outer *= shape->dims[d];
        else if (d > vary)
            inner *= (size_t)shape->dims[d];
    haul_status status = haul__shape_count(shape, ORIGIN, &count);
    if (status)
        return status;
    if (!haul__mul_size(count * (int64_t)element, n, &bytes))
        return haul__fail_memory(ORIGIN, SIZE_MAX);
    if ((status = renew(&c->host, &c->device, spec->device, (size_t)bytes)) || !bytes ||
        (status = haul__host_before(c->host, true, ORIGIN)))
        return status;
    haul__element_store(field->dtype, field->padding, padding);
    const uint8_t *in = c->ragged;
    uint8_t       *out = c->host->buffer.host;
    for (int64_t i = 0; i < n; i++)
        out = pad_value(&in, outer, lengths[i], longest, inner, padding, element, out);
    HAUL__ASSERT(in == c->ragged + c->ragged_bytes && out == (uint8_t *)c->host->buffer.host + bytes);
    return HAUL_OK;
}

/* ---- tensors ---- */

/* The first n examples in `host`, copied to `there` if that is not NULL. NULL, with the error recorded. */
static haul_tensor *as_tensor(haul__storage *host, haul__storage *there, haul_dtype dtype, const haul_shape *example,
                              int64_t n, const char *name)
{
    HAUL__ASSERT(n > 0 && example->ndim < HAUL_MAX_DIMS && host);
    haul_shape shape = {.ndim = example->ndim + 1, .dims = {n}};
    memcpy(shape.dims + 1, example->dims, (size_t)example->ndim * sizeof *shape.dims);
    haul_tensor *t = haul__tensor_wrap(there ? there : host, dtype, &shape, NULL, 0);
    HAUL__ASSERT(!t || haul__tensor_is_sound(t));
    if (t)
        haul__made_by(&t->object, ORIGIN);
    haul__storage_changed(host); /* copies of the batch before are outdated */
    if (!t || !there)
        return t;
    haul__storage_changed(there);
    if (!haul__transfer(&(haul__copy){.operation = ORIGIN,
                                      .note = {.tensor = name},
                                      .to = {there, 0},
                                      .from = {host, 0},
                                      .bytes = (size_t)t->count * haul__dtype_size(dtype),
                                      .fresh = true,
                                      .ahead = true}))
        return t;
    haul__object_release(t);
    return NULL;
}

static haul_status make_column(haul__column *c, const haul__batch_spec *spec, int f, int64_t n)
{
    const haul__fields *fields = spec->dataset->fields;
    HAUL__ASSERT(0 < n && n <= spec->rows);
    haul_shape shape = fields->items[f].shape;
    if (fields->varying[f] >= 0) {
        haul_status status = build_column(c, spec, f, n, &shape);
        if (status)
            return status;
        c->lengths =
            as_tensor(c->host_lengths, c->device_lengths, HAUL_I64, &HAUL_SCALAR_SHAPE, n, fields->items[f].name);
        if (haul__failed(c->lengths))
            return haul_error_status();
    }
    c->tensor = as_tensor(c->host, c->device, fields->items[f].dtype, &shape, n, fields->items[f].name);
    return haul__status_of(c->tensor);
}

static haul_status read_batch(haul__batch_slot *slot, const haul__batch_spec *spec, const haul__batch_range *range,
                              haul__sequence *stream, const atomic_bool *stop)
{
    slot->size = range->n;
    if (haul__is_dry())
        return HAUL_OK;
    haul_status status = await_memory(slot, spec->dataset->fields);
    if (status)
        return status;
    return range->indices ? read_examples(slot, spec, range, stop) : read_in_order(slot, spec, range, stream, stop);
}

static haul_status fill(haul__batch_slot *slot, const haul__batch_spec *spec, const haul__batch_range *range,
                        haul__sequence *stream, const atomic_bool *stop)
{
    haul_status status = read_batch(slot, spec, range, stream, stop);
    if (status || atomic_load(stop))
        return status;
    for (int f = 0; slot->size && f < spec->dataset->fields->count && status == HAUL_OK; f++)
        status = make_column(&slot->columns[f], spec, f, slot->size);
    return status;
}

haul_status haul__batch_slot_fill(haul__batch_slot *slot, const haul__batch_spec *spec, const haul__batch_range *range,
                                  haul__sequence *stream, const atomic_bool *stop, haul__error_record *error)
{
    HAUL__ASSERT(range->n <= spec->rows);
    haul__error_record before;
    haul__error_save(&before);
    haul_error_clear();
    haul_status status = fill(slot, spec, range, stream, stop);
    if (status)
        haul__error_save(error);
    haul__error_restore(&before);
    return status;
}

void haul__batch_slot_adopt(haul__batch_slot *slot)
{
    for (int f = 0; f < HAUL_MAX_FIELDS; f++) {
        haul__column  *c = &slot->columns[f];
        haul__storage *all[] = {c->host, c->device, c->host_lengths, c->device_lengths};
        for (int i = 0; i < 4; i++)
            if (all[i] && all[i]->uses)
                haul__uses_forget(all[i]->uses);
    }
}

void haul__batch_slot_clear(haul__batch_slot *slot)
{
    for (int f = 0; f < HAUL_MAX_FIELDS; f++) {
        haul__object_release(slot->columns[f].tensor);
        haul__object_release(slot->columns[f].lengths);
        slot->columns[f].tensor = slot->columns[f].lengths = NULL;
    }
}

void haul__batch_slot_free(haul__batch_slot *slot)
{
    haul__batch_slot_clear(slot);
    for (int f = 0; f < HAUL_MAX_FIELDS; f++) {
        haul__column *c = &slot->columns[f];
        haul__object_release(c->host);
        haul__object_release(c->device);
        haul__object_release(c->host_lengths);
        haul__object_release(c->device_lengths);
        haul__free(c->ragged);
    }
    for (int64_t i = 0; i < slot->example_count; i++)
        haul__example_memory_free(&slot->examples[i].memory);
    haul__free(slot->examples);
    *slot = (haul__batch_slot){0};
}
