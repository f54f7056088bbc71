/* The loader. Worker threads take the batches of an epoch in order, one each, and put them into a ring of slots, from
 * which haul_loader_next takes them in the same order. Only seed, epoch and position decide what a batch contains.
 *
 * A slot goes from one state to the next, and no two batches are in it at a time:
 *
 *     FREE --claimed--> BUSY --made--> READY --returned, and the next one asked for--> FREE
 *
 * 1. Batches from `taken` to before `claimed` are in slots that are busy or ready. Without workers none is claimed.
 * 2. `claimed` is at most `taken` plus the number of slots.
 * 3. `busy` is the number of busy slots. Between epochs it is 0, and all slots are free.
 * 4. While `holding`, the slot of batch `taken` - 1 is ready: the caller has it. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "base/system/fork.h"
#include "core/pool.h"
#include "core/shape.h"
#include "core/thread.h"
#include "core/trial.h"
#include "data/loader/batch.h"
#include "data/loader/options.h"
#include "data/loader/order.h"
#include "device/device.h"
#include "events/events.h"

#define NEW   "haul_loader_new"
#define START "haul_loader_start"
#define NEXT  "haul_loader_next"

typedef enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_READY } slot_state;

typedef struct entry {
    slot_state         state; /* guarded by the loader's lock; says who may access the rest */
    haul__batch_slot   slot;
    haul_status        status;
    haul__error_record error;

    const haul_loader  *loader;
    const struct entry *outer; /* that the thread which fills this one was filling already */
} entry;

/* Those that the thread is filling, innermost first: a function of a dataset may use another loader, but would wait for
 * ever for its own. */
static _Thread_local const entry *filling;

struct haul_loader {
    haul__object     object;
    haul__batch_spec spec;
    haul__order      order;
    haul__sequence   stream;
    bool             dry; /* made in a dry run: batches have shapes but no examples, and no worker runs */
    int              workers;
    int              pieces, first_piece, piece_count; /* of a global batch, and those of each that it gives */
    int64_t          batches; /* batches in an epoch; INT64_MAX until the end is reached if the count is unknown */
    haul_batch      *current;

    bool        started; /* an epoch has started, and may have been read to its end */
    haul_status status;  /* the status of the last haul_loader_next */
    int64_t     epoch;
    int64_t     taken;   /* batches returned so far: the next one is number `taken` */
    bool        holding; /* the slot before it still holds the batch that was returned last */

    pthread_mutex_t lock; /* guards the following fields, and `state` of the slots */
    pthread_cond_t  work, ready;
    bool            running, quit;
    int64_t         claimed; /* the next batch for a worker */
    int             busy;    /* workers that are making a batch */
    atomic_bool     stop;    /* asks them to stop */

    haul__thread_handle **threads;
    int                   thread_count;
    int                   forks; /* haul__fork_count of the process that the threads belong to */
    entry                *ring;
    int                   ring_size;
};
_Static_assert(sizeof(haul_loader) <= (size_t)HAUL__SMALL_CLASSES * HAUL__SMALL_STEP,
               "its memory is kept when it is over, so that stale pointers are recognised");

/* A loader belongs to the dry run in which it was made, or to none. */
static haul_status check_dry(const haul_loader *l, const char *operation)
{
    if (l->dry == haul__is_dry())
        return HAUL_OK;
    return haul__fail(HAUL_STATE, operation, "loader",
                      l->dry
                          ? "the loader was made in a dry run (haul_estimate) and reads no examples; make another one"
                          : "the loader was made outside this dry run (haul_estimate), which must not change it; make "
                            "one in the estimated function");
}

/* ---- the workers ---- */

/* The number that batch `number` of the loader has among the pieces of all loaders. */
static int64_t number_of_all(const haul_loader *l, int64_t number)
{
    return number / l->piece_count * l->pieces + l->first_piece + number % l->piece_count;
}

/* The last pieces of the last global batch may be behind the end of the epoch. */
static haul_status fill(haul_loader *l, entry *p, int64_t number)
{
    haul__batch_range range = {.epoch = l->epoch, .number = number_of_all(l, number), .n = l->spec.batch};
    HAUL__ASSERT(range.number >= number && l->piece_count <= l->pieces - l->first_piece);
    if (l->order.indices) {
        const int64_t first = range.number * l->spec.batch, left = l->order.count - first;
        range.indices = l->order.indices + (left > 0 ? first : 0);
        range.n = left > range.n ? range.n : left > 0 ? left : 0;
        HAUL__ASSERT(0 <= range.n && range.n <= l->spec.rows);
    }
    return haul__batch_slot_fill(&p->slot, &l->spec, &range, &l->stream, &l->stop, &p->error);
}

static haul_status make_batch(haul_loader *l, entry *p, int64_t number)
{
    static const char text[] = "batch made";
    const int64_t     began = haul__work_begin(NEXT, text, 0);
    p->loader = l;
    p->outer = filling;
    filling = p;
    const haul_status status = fill(l, p, number);
    filling = p->outer;
    haul__work_end(NEXT, text, 0, began);
    return status;
}

static entry *entry_of(const haul_loader *l, int64_t number)
{
    HAUL__ASSERT(number >= 0 && l->ring_size > 0);
    return &l->ring[number % l->ring_size];
}

static bool can_claim(const haul_loader *l)
{
    return l->running && l->claimed < l->batches && entry_of(l, l->claimed)->state == SLOT_FREE;
}

/* Makes the next batch that can be claimed. The caller has the lock. */
static void make_claimed(haul_loader *l)
{
    const int64_t number = l->claimed++;
    entry        *p = entry_of(l, number);
    HAUL__ASSERT(p->state == SLOT_FREE && l->running && number < l->batches); /* (1) */
    p->state = SLOT_BUSY;
    l->busy++;
    pthread_mutex_unlock(&l->lock);
    haul_status status = make_batch(l, p, number);
    pthread_mutex_lock(&l->lock);
    HAUL__ASSERT(p->state == SLOT_BUSY && l->busy > 0); /* (3) */
    p->status = status;
    p->state = SLOT_READY;
    l->busy--;
    pthread_cond_broadcast(&l->ready);
}

static void worker(void *context)
{
    haul_loader *l = context;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->quit && !can_claim(l))
            pthread_cond_wait(&l->work, &l->lock);
        if (l->quit)
            break;
        make_claimed(l);
    }
    pthread_mutex_unlock(&l->lock);
}

/* Ends the epoch: afterwards no worker is busy and all slots are free. */
static void halt(haul_loader *l)
{
    pthread_mutex_lock(&l->stream.lock);
    atomic_store(&l->stop, true);
    pthread_cond_broadcast(&l->stream.moved);
    pthread_mutex_unlock(&l->stream.lock);
    pthread_mutex_lock(&l->lock);
    l->running = false;
    while (l->busy)
        pthread_cond_wait(&l->ready, &l->lock);
    for (int i = 0; i < l->ring_size; i++) {
        HAUL__ASSERT(l->ring[i].state != SLOT_BUSY); /* (3) */
        haul__batch_slot_clear(&l->ring[i].slot);
        l->ring[i].state = SLOT_FREE;
    }
    pthread_mutex_unlock(&l->lock);
    atomic_store(&l->stop, false);
    l->started = l->holding = false;
    *l->current = (haul_batch){0};
}

/* In the child of a fork: the workers do not exist, and what they held is as they left it. The epoch is over here, and
 * the next one starts its own threads. */
static void adopt_after_fork(haul_loader *l)
{
    if (l->forks == haul__fork_count())
        return;
    l->forks = haul__fork_count();
    for (int i = 0; i < l->thread_count; i++)
        haul__thread_forget(l->threads[i]);
    l->thread_count = l->busy = 0;
    for (int i = 0; i < l->ring_size; i++) {
        haul__batch_slot_adopt(&l->ring[i].slot);
        l->ring[i].state = SLOT_FREE;
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    pthread_mutex_init(&l->stream.lock, NULL);
    pthread_cond_init(&l->stream.moved, NULL);
    l->running = false;
    halt(l);
}

/* In virtual time the thread that takes batches makes them, as far ahead as workers would: times do not depend on when
 * another thread submits a copy. */
static bool makes_ahead(const haul_loader *l)
{
    return l->workers && !l->dry && !l->thread_count && haul__clock_is_virtual();
}

static haul_status start_workers(haul_loader *l)
{
    if (makes_ahead(l))
        return HAUL_OK;
    HAUL__ASSERT(l->thread_count <= l->workers);
    while (l->thread_count < l->workers && !l->dry) {
        haul__thread_handle *thread = haul__thread_start(worker, l);
        if (!thread)
            break;
        l->threads[l->thread_count++] = thread;
    }
    if (l->thread_count || !l->workers || l->dry) /* fewer threads do the same work */
        return HAUL_OK;
    return haul__fail(HAUL_OUT_OF_MEMORY, START, NULL,
                      "no thread could be started: memory, or the number of threads that the system allows, is "
                      "exhausted");
}

/* ---- making and freeing ---- */

static void destroy(void *object)
{
    haul_loader *l = object;
    if (l->current) {
        adopt_after_fork(l);
        halt(l);
    }
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->thread_count; i++)
        haul__thread_join(l->threads[i]);
    for (int i = 0; i < l->ring_size; i++)
        haul__batch_slot_free(&l->ring[i].slot);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->stream.moved);
    pthread_mutex_destroy(&l->stream.lock);
    haul__object_release(l->spec.dataset);
    haul__order_free(&l->order);
    haul__free(l->threads);
    haul__free(l->ring);
    haul__free(l->current);
    haul__object_free(&l->object, sizeof *l);
}

static const haul__class class = {.name = "loader", .destroy = destroy};

static haul_status check_loader(const haul_loader *l, const char *operation)
{
    return haul__check_object(l, &class, operation, "loader");
}

/* It may be started and asked for batches, but not by the functions of its dataset. */
static haul_status check_free(const haul_loader *l, const char *operation)
{
    if (check_loader(l, operation))
        return haul_error_status();
    for (const entry *p = filling; p; p = p->outer)
        if (p->loader == l)
            return haul__fail(HAUL_STATE, operation, "loader",
                              "the loader is making a batch, for which it called this function of the dataset %s; use "
                              "another loader here",
                              l->spec.dataset->name);
    return HAUL_OK;
}

static void set_spec(haul_loader *l, haul_dataset *dataset, haul_device *device, const haul_loader_options *o)
{
    haul__batch_spec *r = &l->spec;
    r->dataset = dataset;
    haul__object_keep(dataset);
    r->device = device;
    r->batch = o->batch ? o->batch : 1;
    r->seed = o->seed;
    r->weighted = l->order.cumulated != NULL;
    r->drop_last = o->drop_last;
    l->pieces = o->pieces ? o->pieces : 1;
    l->first_piece = o->first_piece;
    l->piece_count = o->piece_count ? o->piece_count : l->pieces - l->first_piece;
    const int64_t count = l->order.count, global = r->batch * l->pieces;
    l->batches = (count / global + (!o->drop_last && count % global != 0)) * l->piece_count;
    r->rows = count < r->batch ? count : r->batch;
    if (dataset->count == HAUL_UNKNOWN) {
        l->batches = INT64_MAX;
        r->rows = r->batch;
    }
    HAUL__ASSERT(0 < l->piece_count && l->piece_count <= l->pieces - l->first_piece && r->rows <= r->batch);
    l->dry = haul__is_dry();
    l->forks = haul__fork_count();
    l->workers = o->workers;
    /* One more slot than batches ahead, for the one that the caller has. */
    l->ring_size = !o->workers ? 1 : 1 + (o->prefetch ? o->prefetch : 2 * o->workers);
}

static haul_status allocate(haul_loader *l)
{
    int ring_size = l->ring_size;
    l->ring_size = 0;
    l->threads = haul__calloc((size_t)l->workers + 1, sizeof *l->threads);
    l->ring = haul__calloc((size_t)ring_size, sizeof *l->ring);
    if (!l->threads || !l->ring)
        return haul__fail_memory(NEW, (size_t)ring_size * sizeof *l->ring);
    l->ring_size = ring_size;
    return HAUL_OK;
}

haul_loader *haul_loader_new_with(const haul_loader_options *options)
{
    if (!options) {
        haul__fail_null(NEW, "options");
        return NULL;
    }
    haul_dataset *dataset = options->dataset;
    if (haul__check_dataset(dataset, NEW))
        return NULL;
    haul_device *device = options->device ? options->device : haul__device_current(NEW);
    if (!device || haul__device_check(device, NEW, "device") || haul__loader_check(dataset, options))
        return NULL;
    haul_loader *l = haul__object_new_zeroed(sizeof *l, &class);
    if (!l) {
        haul__fail_memory(NEW, sizeof *l);
        return NULL;
    }
    pthread_mutex_init(&l->lock, NULL); /* these cannot fail on Linux */
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    pthread_mutex_init(&l->stream.lock, NULL);
    pthread_cond_init(&l->stream.moved, NULL);
    l->current = haul__calloc(1, sizeof *l->current);
    haul_status status =
        l->current ? haul__order_init(&l->order, dataset, options, NEW) : haul__fail_memory(NEW, sizeof *l->current);
    if (status == HAUL_OK) {
        set_spec(l, dataset, device, options);
        status = allocate(l);
    }
    if (status == HAUL_OK)
        return haul__own(l, NEW);
    haul__object_release(l);
    return NULL;
}

/* ---- an epoch ---- */

static haul_status start_epoch(haul_loader *l, int64_t epoch, int64_t first)
{
    haul_status status = check_dry(l, START);
    if (status)
        return status;
    if (l->spec.dataset->count == HAUL_UNKNOWN)
        l->batches = INT64_MAX / l->spec.batch - 1;
    if (first < 0 || first > l->batches)
        return haul__fail(HAUL_INVALID_ARGUMENT, START, "first", "batch %lld does not exist: an epoch has %lld",
                          (long long)first, (long long)l->batches);
    adopt_after_fork(l);
    halt(l);
    for (int i = 0; i < l->ring_size && status == HAUL_OK; i++)
        status = haul__batch_slot_prepare(&l->ring[i].slot, &l->spec, START);
    if (status || (status = start_workers(l)))
        return status;
    HAUL__ASSERT(!l->holding && !l->running);
    l->epoch = epoch;
    haul__order_begin(&l->order, epoch);
    l->stream.turn = first;
    l->stream.position = 0;
    l->stream.over = false;
    l->taken = first;
    l->started = true;
    pthread_mutex_lock(&l->lock);
    l->claimed = first;
    l->running = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    return HAUL_OK;
}

haul_status haul_loader_start_at(haul_loader *l, int64_t epoch, int64_t first)
{
    if (check_free(l, START))
        return haul_error_status();
    l->status = start_epoch(l, epoch, first);
    if (l->status == HAUL_OK)
        haul__error_settle();
    return l->status;
}

haul_status haul_loader_start(haul_loader *loader, int64_t epoch)
{
    return haul_loader_start_at(loader, epoch, 0);
}

/* Takes back the batch that was returned last, and lets its slot be filled again. */
static haul_status retire(haul_loader *l)
{
    if (!l->holding)
        return HAUL_OK;
    entry *p = entry_of(l, l->taken - 1);
    HAUL__ASSERT(l->taken > 0 && p->state == SLOT_READY); /* (4) */
    haul__batch_slot_clear(&p->slot);
    l->holding = false;
    *l->current = (haul_batch){0};
    haul_status status = haul__batch_slot_prepare(&p->slot, &l->spec, NEXT);
    if (status)
        return status;
    pthread_mutex_lock(&l->lock);
    p->state = SLOT_FREE;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    return HAUL_OK;
}

static haul_status obtain(haul_loader *l, entry *p)
{
    if (!l->workers || l->dry) {
        HAUL__ASSERT(p->state == SLOT_FREE && !l->busy); /* (1) */
        p->status = make_batch(l, p, l->taken);
        p->state = SLOT_READY;
    }
    pthread_mutex_lock(&l->lock);
    HAUL__ASSERT(l->claimed <= l->taken + l->ring_size); /* (2) */
    while (makes_ahead(l) && can_claim(l))
        make_claimed(l);
    while (p->state != SLOT_READY)
        pthread_cond_wait(&l->ready, &l->lock);
    pthread_mutex_unlock(&l->lock);
    if (p->status && p->status != HAUL_END_OF_DATA)
        haul__error_restore(&p->error);
    return p->status;
}

static void give_out(haul_loader *l, const entry *p)
{
    const haul__fields *fields = l->spec.dataset->fields;
    haul_batch         *b = l->current;
    HAUL__ASSERT(p->state == SLOT_READY && !l->holding && p->slot.size <= l->spec.batch);
    *b = (haul_batch){.index = l->taken,
                      .size = p->slot.size,
                      .count = fields->count,
                      .dataset = l->spec.dataset,
                      .step = l->taken / l->piece_count,
                      .piece = l->first_piece + (int)(l->taken % l->piece_count)};
    for (int f = 0; f < HAUL_MAX_FIELDS; f++) {
        const haul__column *c = &p->slot.columns[f];
        b->tensors[f] = c->tensor ? c->tensor : HAUL_NONE;
        b->lengths[f] = c->lengths ? c->lengths : HAUL_NONE;
    }
    b->x = b->tensors[0];
    b->y = b->tensors[1];
}

static haul_status take_next(haul_loader *l)
{
    haul_status status = check_dry(l, NEXT);
    if (status)
        return status;
    if (l->started && l->forks != haul__fork_count())
        return haul__fail(
            HAUL_STATE, NEXT, "loader",
            "the epoch was started before this process was forked, and its workers are in the parent; call "
            "haul_loader_start in this process");
    if (!l->started && l->status && haul_error_status() == l->status && !strcmp(haul_error_operation(), START))
        return l->status; /* the start failed, and its error is recorded */
    if (!l->started)
        return haul__fail(HAUL_STATE, NEXT, "loader", "no epoch has been started; call haul_loader_start first");
    status = retire(l);
    if (!status && l->taken == l->batches)
        return HAUL_END_OF_DATA;
    HAUL__ASSERT(status || l->taken < l->batches);
    entry *p = entry_of(l, l->taken);
    if (!status)
        status = obtain(l, p);
    if (status == HAUL_END_OF_DATA) { /* for a dataset without a known count */
        halt(l);
        l->started = true;
        l->batches = l->taken;
        return status;
    }
    if (status) {
        halt(l);
        return status;
    }
    give_out(l, p);
    l->holding = true;
    l->taken++;
    return HAUL_OK;
}

const haul_batch *haul_loader_next(haul_loader *l)
{
    static const char text[] = "next batch";
    if (check_free(l, NEXT) || haul__refuse_followed(NEXT, "takes a batch"))
        return NULL;
    const int64_t began = haul__work_begin(NEXT, text, 0);
    l->status = take_next(l);
    haul__work_end(NEXT, text, 0, began);
    return l->status ? NULL : l->current;
}

haul_status haul_loader_status(const haul_loader *loader)
{
    return check_loader(loader, "haul_loader_status") ? haul_error_status() : loader->status;
}

int64_t haul_loader_batches(const haul_loader *loader)
{
    if (check_loader(loader, "haul_loader_batches"))
        return HAUL_UNKNOWN;
    return loader->spec.dataset->count == HAUL_UNKNOWN ? HAUL_UNKNOWN : loader->batches;
}

/* ---- the fields of a batch ---- */

/* The index of the field; -1, with the error recorded. */
static int find_field(const haul_batch *batch, const char *name, const char *operation)
{
    char names[200];
    if (!batch || !name) {
        haul__fail_null(operation, batch ? "name" : "batch");
        return -1;
    }
    if (haul__check_dataset(batch->dataset, operation))
        return -1;
    const haul__fields *fields = batch->dataset->fields;
    int                 found = haul__fields_find(fields, name, strlen(name));
    if (found < 0)
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "name", "the batch has no field \"%.40s\"; it has %s", name,
                   haul__fields_text(fields->items, fields->count, names, sizeof names));
    return found;
}

haul_tensor *haul_batch_tensor(const haul_batch *batch, const char *name)
{
    int found = find_field(batch, name, "haul_batch_tensor");
    return found < 0 ? haul__failed_tensor() : batch->tensors[found];
}

haul_tensor *haul_batch_lengths(const haul_batch *batch, const char *name)
{
    int found = find_field(batch, name, "haul_batch_lengths");
    if (found < 0)
        return haul__failed_tensor();
    if (batch->dataset->fields->varying[found] >= 0)
        return batch->lengths[found];
    haul__fail(HAUL_INVALID_ARGUMENT, "haul_batch_lengths", "name", "%s does not vary in size: all have shape %s", name,
               haul__shape_text(&batch->dataset->fields->items[found].shape, (char[80]){0}, 80));
    return haul__failed_tensor();
}
