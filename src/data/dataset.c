/* Datasets: a reading function, with names and sizes checked once, followed by transforms. */
#include "data/dataset.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/copy_uncached.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/pool.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "data/example.h"
#include "data/transform.h"
#include "device/device.h"
#include "memory/allocator.h"
#include "memory/mark.h"

#define READ_AHEAD_BYTES ((int64_t)512 << 20)
#define READ_AT_ONCE     8                 /* examples that a thread takes at a time, at most */
#define KEPT_FROM        ((size_t)4 << 20) /* bytes of all examples that are in memory of the CPU's allocator */
#define ALIGNMENT        64
#define UNCACHED_EACH    ((size_t)64 << 10) /* bytes of an example whose copy may go past the caches */
#define READ             "haul_loader_next"

static void close_source(const haul_dataset_source *source)
{
    haul__guest_free(source->close, source->context);
}

static void destroy(void *object)
{
    haul_dataset *d = object;
    haul__guest_free(d->close, d->context);
    for (int i = 0; i < d->transform_count; i++)
        haul__object_release(d->transforms[i]);
    haul__object_release(d->base);
    haul__object_release(d->kept);
    haul__free(d->own);
    haul__free(d->transforms);
    haul__free(d->name);
    haul__fields_free(d->fields);
    haul__object_free(&d->object, sizeof *d);
}

const haul__class haul__dataset_class = {.name = "dataset", .destroy = destroy};
_Static_assert(sizeof(haul_dataset) <= (size_t)HAUL__SMALL_CLASSES * HAUL__SMALL_STEP,
               "its memory is kept when it is over, so that stale pointers are recognised");

/* ---- one example ---- */

/* Records an error for a function that failed without one. The calling thread had none recorded. */
static haul_status explain(const haul_dataset *d, haul_status status, int64_t index, const char *what)
{
    if (status == HAUL_END_OF_DATA && d->count == HAUL_UNKNOWN)
        return status;
    if (status == HAUL_END_OF_DATA)
        return haul__fail(HAUL_IO, READ, "dataset", "%s ended at example %lld; its count is %lld", d->name,
                          (long long)index, (long long)d->count);
    if (status && haul_error_status() == HAUL_OK)
        haul__fail(status, READ, "dataset", "example %lld of %s could not be %s", (long long)index, d->name, what);
    return status;
}

/* What a function of the program left in the example is checked before anything else reads it. */
static haul_status settle(const haul_dataset *d, haul_example *e)
{
    haul_status status = haul__example_check(e, d->fields, d->name);
    if (status == HAUL_OK)
        haul__example_normalise(e, d->fields);
    return status;
}

static haul_status read_source(const haul_dataset *d, haul_example *e)
{
    haul_status status;
    int64_t     index = e->index;
    HAUL__ASSERT(d->read && e->haul__memory);
    haul__example_begin(e, d->fields);
    status = haul__example_prepare(e, d->fields, READ);
    if (status == HAUL_OK)
        status = explain(d, haul__example_call(e, d->read, d->context, d->name), index, "read");
    e->index = index;
    return status == HAUL_OK ? settle(d, e) : status;
}

/* Bytes for all examples of a field. */
static size_t bytes_of(const haul_dataset *d, int field)
{
    HAUL__ASSERT(d->count >= 0 && d->fields->varying[field] < 0);
    return ((size_t)d->count * d->fields->bytes[field] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Large examples of many go past the caches: neither they nor batches of them would stay there. */
static haul_status copy_ahead(const haul_dataset *d, haul_example *e)
{
    haul__example_begin(e, d->fields);
    haul_status status = haul__example_prepare(e, d->fields, READ);
    HAUL__ASSERT(0 <= e->index && e->index < d->count);
    for (int i = 0; i < d->fields->count && status == HAUL_OK; i++) {
        const size_t   bytes = d->fields->bytes[i];
        const uint8_t *from = d->ahead[i] + (size_t)e->index * bytes;
        if (bytes >= UNCACHED_EACH && bytes_of(d, i) >= HAUL__UNCACHED_FROM / 2)
            haul__copy_uncached(e->fields[i].data, from, bytes);
        else
            memcpy(e->fields[i].data, from, bytes);
    }
    return status;
}

/* ---- datasets of datasets, nested to any depth ---- */

/* The dataset that reads the example; e->index becomes that in it. The steps on the way there are in the example's
 * memory. NULL if memory is exhausted. */
static const haul_dataset *descend(const haul_dataset *d, haul_example *e, size_t *steps)
{
    haul__example_memory *memory = e->haul__memory;
    for (*steps = 0; d->base || d->choose; ++*steps) {
        if (!haul__grow(&memory->steps, &memory->step_capacity, *steps + 1, sizeof *memory->steps)) {
            haul__fail_memory(READ, (*steps + 1) * sizeof *memory->steps);
            return NULL;
        }
        memory->steps[*steps] = (haul__example_step){d, e->index};
        HAUL__ASSERT(!d->read); /* it has examples of its own, or those of others */
        d = d->base ? d->base : d->choose(d->context, &e->index);
    }
    HAUL__ASSERT(d->read || d->ahead[0]);
    return d;
}

static haul_status transform(const haul_dataset *d, haul_example *e)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(d->base && d->transform_count > 0);
    haul__example_begin(e, d->fields);
    for (int i = 0; i < d->transform_count && status == HAUL_OK; i++)
        status = explain(d, haul__transform_apply(d->transforms[i], e, d->name), e->index, "transformed");
    return status == HAUL_OK ? settle(d, e) : status;
}

static haul_status ascend(haul_example *e, size_t steps)
{
    haul_status status = HAUL_OK;
    while (steps && status == HAUL_OK) {
        HAUL__ASSERT(steps <= e->haul__memory->step_capacity);
        const haul__example_step *step = &e->haul__memory->steps[--steps];
        e->index = step->index;
        if (step->dataset->base)
            status = transform(step->dataset, e);
    }
    return status;
}

static haul_status read_at(const haul_dataset *d, haul_example *e)
{
    return d->ahead[0] ? copy_ahead(d, e) : read_source(d, e);
}

haul_status haul__dataset_fetch(const haul_dataset *d, haul_example *e)
{
    while (d->base)
        d = d->base;
    return read_at(d, e);
}

haul_status haul__dataset_finish(const haul_dataset *d, haul_example *e)
{
    size_t steps;
    return descend(d, e, &steps) ? ascend(e, steps) : haul_error_status();
}

haul_status haul__dataset_read(const haul_dataset *d, haul_example *e)
{
    size_t              steps;
    const haul_dataset *source = descend(d, e, &steps);
    haul_status         status = source ? read_at(source, e) : haul_error_status();
    return status == HAUL_OK ? ascend(e, steps) : status;
}

/* ---- reading all of it ---- */

typedef struct ahead {
    haul_dataset      *dataset;
    int64_t            threads;
    atomic_llong       next; /* the first example that no thread took yet */
    pthread_mutex_t    lock;
    atomic_llong       failed; /* the first example that could not be read; the dataset's count if there is none */
    haul__error_record error;
} ahead;

static haul_status read_one(haul_dataset *d, haul__example_memory *memory, int64_t index)
{
    haul_example e = {.index = index, .haul__memory = memory};
    for (int f = 0; f < d->fields->count; f++)
        memory->targets[f] = d->ahead[f] + (size_t)index * d->fields->bytes[f];
    HAUL__ASSERT(0 <= index && index < d->count);
    haul_status status = read_source(d, &e);
    for (int f = 0; f < d->fields->count && status == HAUL_OK; f++)
        if (e.fields[f].data != memory->targets[f])
            memcpy(memory->targets[f], e.fields[f].data, d->fields->bytes[f]);
    return status;
}

static void note_failure(ahead *a, int64_t index)
{
    pthread_mutex_lock(&a->lock);
    if (index < atomic_load(&a->failed)) {
        atomic_store(&a->failed, index);
        haul__error_save(&a->error);
    }
    pthread_mutex_unlock(&a->lock);
}

/* Takes several examples, and fewer towards the end, so that no thread has to wait for long: one may be a large
 * picture. After a failure no more are taken; all before it were, so that the first failure is the same for any number
 * of threads. Returns how many, or less than 1. */
static int64_t take_some(ahead *a, int64_t *first)
{
    const int64_t count = a->dataset->count, left = count - atomic_load(&a->next), part = left / (8 * a->threads);
    const int64_t some = part < 1 ? 1 : part < READ_AT_ONCE ? part : READ_AT_ONCE;
    HAUL__ASSERT(some > 0 && a->threads > 0);
    if (left <= 0 || atomic_load(&a->failed) < count)
        return 0;
    *first = atomic_fetch_add(&a->next, some);
    return *first + some < count ? some : count - *first;
}

/* Runs once on each thread. Errors belong to threads: those of pool threads are passed to the caller. */
static void read_some(void *context, int64_t thread, int64_t end)
{
    ahead               *a = context;
    haul__example_memory memory = {.wanted = a->dataset->fields};
    haul__error_record   before;
    int64_t              first = 0, count;
    (void)thread, (void)end;
    haul__error_save(&before);
    while ((count = take_some(a, &first)) > 0)
        for (int64_t i = first; i < first + count; i++) {
            haul_error_clear();
            if (read_one(a->dataset, &memory, i) == HAUL_OK)
                continue;
            note_failure(a, i);
            break;
        }
    haul__example_memory_free(&memory);
    haul__error_restore(&before);
}

/* True if all examples fit in memory. Fields that vary in size do not. */
static bool fit_ahead(const haul_dataset *d)
{
    int64_t bytes, all = 0;
    for (int i = 0; i < d->fields->count; i++)
        if (d->fields->varying[i] >= 0 || !haul__mul_size(d->count, (int64_t)d->fields->bytes[i], &bytes) ||
            !haul__add_size(all, bytes, &all) || all > READ_AHEAD_BYTES)
            return false;
    return true;
}

/* One block for all fields. Large ones come from the CPU's allocator, which keeps them for the next dataset: before the
 * system gives a page to a process, it clears it, which takes as long as a fifth of the decoding of a picture. Where
 * the device's limit leaves no memory, they come from the system, as small ones do. */
static haul_status allocate_ahead(haul_dataset *d, const char *operation)
{
    size_t bytes = 0;
    for (int i = 0; i < d->fields->count; i++)
        bytes += bytes_of(d, i);
    if (bytes >= KEPT_FROM && !haul__is_dry())
        d->kept = haul__storage_alloc_spare(haul_cpu(), bytes, operation);
    haul__set_storage_role(d->kept, HAUL__ROLE_DATA);
    if (d->kept && haul__host_before(d->kept, true, operation))
        return haul_error_status();
    if (!d->kept && !(d->own = haul__malloc_large(bytes)))
        return haul__fail_memory(operation, bytes);
    uint8_t *at = d->kept ? d->kept->buffer.host : d->own;
    for (int i = 0; i < d->fields->count; at += bytes_of(d, i++))
        d->ahead[i] = at;
    HAUL__ASSERT((size_t)(at - d->ahead[0]) == bytes); /* each field has its part */
    return HAUL_OK;
}

static haul_status read_all(haul_dataset *d, const char *operation)
{
    ahead a = {.dataset = d, .threads = haul__pool_threads(), .failed = d->count};
    HAUL__ASSERT(d->count >= 0 && !d->ahead[0]);
    if (!fit_ahead(d))
        return HAUL_OK;
    if (allocate_ahead(d, operation))
        return haul_error_status();
    pthread_mutex_init(&a.lock, NULL); /* cannot fail on Linux */
    haul__parallel_for(a.threads, 1, read_some, &a);
    pthread_mutex_destroy(&a.lock);
    if (a.failed == d->count)
        return HAUL_OK;
    haul__error_restore(&a.error);
    return a.error.status;
}

/* ---- making ---- */

static haul_dataset *new_dataset(const haul_field *fields, int field_count, int64_t count, const char *name,
                                 const char *operation)
{
    haul__fields *copy = haul__fields_copy(fields, field_count, operation);
    haul_dataset *d = copy ? haul__object_new_zeroed(sizeof *d, &haul__dataset_class) : NULL;
    if (!d) {
        if (copy)
            haul__fail_memory(operation, sizeof *d);
        haul__fields_free(copy);
        return NULL;
    }
    HAUL__ASSERT(count >= 0 || count == HAUL_UNKNOWN);
    d->fields = copy;
    d->count = count;
    d->name = haul__strdup(name ? name : "dataset");
    if (d->name)
        return d;
    haul__fail_memory(operation, 16);
    haul__object_release(d);
    return NULL;
}

static int count_fields(const haul_dataset_source *source)
{
    int count = 0;
    while (count < HAUL_MAX_FIELDS && source->fields[count].name)
        count++;
    return count;
}

static haul_status check_source(const haul_dataset_source *source, haul__dataset_kind kind, const char *operation)
{
    if (!source->read)
        return haul__fail_no_function(operation, "read");
    if (source->count < 0 && (source->count != HAUL_UNKNOWN || kind != HAUL__READ_EACH))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count", "%lld examples", (long long)source->count);
    return HAUL_OK;
}

haul_dataset *haul__dataset_make(const haul_dataset_source *source, haul__dataset_kind kind, const char *operation)
{
    haul_dataset *d = NULL;
    if (check_source(source, kind, operation) == HAUL_OK)
        d = new_dataset(source->fields, count_fields(source), source->count, source->name, operation);
    if (!d) {
        close_source(source);
        return NULL;
    }
    d->read = source->read;
    d->close = source->close;
    d->context = source->context;
    if (kind != HAUL__READ_AHEAD || read_all(d, operation) == HAUL_OK)
        return haul__own(d, operation);
    haul__object_release(d);
    return NULL;
}

haul__data_file haul__dataset_file(const haul_dataset *d, int64_t index)
{
    return d->file ? d->file(d->context, index) : (haul__data_file){.path = NULL};
}

haul_dataset *haul_dataset_new(const haul_dataset_source *source)
{
    if (source)
        return haul__dataset_make(source, HAUL__READ_EACH, "haul_dataset_new");
    haul__fail_null("haul_dataset_new", "source");
    return NULL;
}

haul_dataset *haul__dataset_of(const haul_dataset *like, int64_t count, haul__dataset_choose *choose,
                               void (*close)(void *context), void *context, const char *operation)
{
    HAUL__ASSERT(count >= 0 && like->count != HAUL_UNKNOWN);
    haul_dataset *d = new_dataset(like->fields->items, like->fields->count, count, like->name, operation);
    if (!d) {
        close(context);
        return NULL;
    }
    d->choose = choose;
    d->close = close;
    d->context = context;
    return haul__own(d, operation);
}

haul_dataset *haul__dataset_map(haul_dataset *base, haul_transform *const *transforms, int count,
                                const haul_field *fields, int field_count, const char *operation)
{
    HAUL__ASSERT(count > 0);
    haul_dataset *d = new_dataset(fields, field_count, base->count, base->name, operation);
    if (!d)
        return NULL;
    if (!(d->transforms = haul__calloc((size_t)count, sizeof *d->transforms))) {
        haul__fail_memory(operation, (size_t)count * sizeof *d->transforms);
        haul__object_release(d);
        return NULL;
    }
    haul__object_keep(base);
    d->base = base;
    for (int i = 0; i < count; i++) {
        haul__object_keep(transforms[i]);
        d->transforms[d->transform_count++] = transforms[i];
    }
    return haul__own(d, operation);
}

/* ---- queries ---- */

int64_t haul_dataset_count(const haul_dataset *dataset)
{
    return haul__check_dataset(dataset, "haul_dataset_count") ? HAUL_UNKNOWN : dataset->count;
}

const char *haul_dataset_name(const haul_dataset *dataset)
{
    return haul__check_dataset(dataset, "haul_dataset_name") ? NULL : dataset->name;
}

int haul_dataset_fields(const haul_dataset *dataset)
{
    return haul__check_dataset(dataset, "haul_dataset_fields") ? -1 : dataset->fields->count;
}

haul_status haul_dataset_field(const haul_dataset *dataset, int index, haul_field *out)
{
    if (haul__check_dataset(dataset, "haul_dataset_field"))
        return haul_error_status();
    if (!out)
        return haul__fail_null("haul_dataset_field", "out");
    if (index < 0 || index >= dataset->fields->count)
        return haul__fail(HAUL_INVALID_ARGUMENT, "haul_dataset_field", "index", "unknown field %d; %s has %d", index,
                          dataset->name, dataset->fields->count);
    *out = dataset->fields->items[index];
    return HAUL_OK;
}
