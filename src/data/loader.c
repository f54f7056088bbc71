/* The loader: worker threads take the batches of an epoch in order, one each, and put them into a ring of slots, from
 * which haul_loader_next takes them in the same order. What is in a batch depends on seed, epoch and position only. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "core/alloc.h"
#include "core/option.h"
#include "core/pool.h"
#include "core/shape.h"
#include "core/thread.h"
#include "data/batch.h"
#include "data/random.h"
#include "device/device.h"

#define NEW         "haul_loader_new"
#define START       "haul_loader_start"
#define NEXT        "haul_loader_next"
#define MAX_WORKERS 256
#define MAX_AHEAD   1024

typedef enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_READY } slot_state;

typedef struct place {
    slot_state         state; /* guarded by the loader's lock, and with it who may touch the rest */
    haul__batch_slot   slot;
    haul_status        status;
    haul__error_record error;
} place;

struct haul_loader {
    haul__object object;
    haul__recipe recipe;
    bool         shuffle;
    bool         dry; /* made in a dry run: batches have shapes and no examples, and nobody works ahead */
    int          workers;
    int64_t      batches; /* in an epoch */
    int64_t     *order;   /* of all examples */
    haul_batch   current;

    bool        started; /* an epoch is under way, or was read to its end */
    haul_status status;  /* how the last haul_loader_next ended */
    int64_t     epoch;
    int64_t     taken;   /* batches given out: the next is number `taken` */
    bool        holding; /* the place before it still has the one given out last */

    pthread_mutex_t lock; /* guards what follows, and `state` of places */
    pthread_cond_t  work, ready;
    bool            running, quit;
    int64_t         claimed; /* the next batch for a worker */
    int             busy;    /* workers that are making one */
    atomic_bool     stop;    /* tells them to give up */

    haul__thread_handle **threads;
    int                   thread_count;
    int                   forks; /* haul__fork_count of the process that the threads are in */
    place                *places;
    int                   place_count;
};
_Static_assert(sizeof(haul_loader) <= (size_t)HAUL__SMALL_CLASSES * HAUL__SMALL_STEP,
               "its memory is kept when it is over, so that stale pointers are recognised");

/* A loader is of the dry run that it was made in, or of none. */
static haul_status check_dry(const haul_loader *l, const char *operation)
{
    if (l->dry == haul__is_dry())
        return HAUL_OK;
    return haul__fail(HAUL_STATE, operation, "loader",
                      l->dry
                          ? "the loader was made in a dry run (haul_estimate) and reads no examples; make another one"
                          : "the loader was made outside of this dry run (haul_estimate), which does not disturb "
                            "it; make one in the function that is estimated");
}

/* ---- the workers ---- */

static haul_status make_batch(haul_loader *l, place *p, int64_t number)
{
    int64_t first = number * l->recipe.batch, left = l->recipe.dataset->source.count - first;
    return haul__batch_slot_fill(&p->slot, &l->recipe, l->epoch, l->order + first,
                                 left < l->recipe.batch ? left : l->recipe.batch, &l->stop, &p->error);
}

static place *place_of(const haul_loader *l, int64_t number)
{
    return &l->places[number % l->place_count];
}

static bool can_claim(const haul_loader *l)
{
    return l->running && l->claimed < l->batches && place_of(l, l->claimed)->state == SLOT_FREE;
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
        int64_t number = l->claimed++;
        place  *p = place_of(l, number);
        p->state = SLOT_BUSY;
        l->busy++;
        pthread_mutex_unlock(&l->lock);
        haul_status status = make_batch(l, p, number);
        pthread_mutex_lock(&l->lock);
        p->status = status;
        p->state = SLOT_READY;
        l->busy--;
        pthread_cond_broadcast(&l->ready);
    }
    pthread_mutex_unlock(&l->lock);
}

/* End the epoch under way: no worker is busy afterwards and all places are free. */
static void halt(haul_loader *l)
{
    atomic_store(&l->stop, true);
    pthread_mutex_lock(&l->lock);
    l->running = false;
    while (l->busy)
        pthread_cond_wait(&l->ready, &l->lock);
    for (int i = 0; i < l->place_count; i++) {
        haul__batch_slot_clear(&l->places[i].slot);
        l->places[i].state = SLOT_FREE;
    }
    pthread_mutex_unlock(&l->lock);
    atomic_store(&l->stop, false);
    l->started = l->holding = false;
    l->current = (haul_batch){0};
}

/* In the child of a fork: the workers do not exist, and whatever they held or were doing is as they left it. The epoch
 * is over here, and the next one starts threads of its own. */
static void adopt_after_fork(haul_loader *l)
{
    if (l->forks == haul__fork_count())
        return;
    l->forks = haul__fork_count();
    for (int i = 0; i < l->thread_count; i++)
        haul__thread_forget(l->threads[i]);
    l->thread_count = l->busy = 0;
    for (int i = 0; i < l->place_count; i++)
        haul__batch_slot_adopt(&l->places[i].slot);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    l->running = false;
    halt(l);
}

static haul_status start_workers(haul_loader *l)
{
    while (l->thread_count < l->workers && !l->dry) {
        haul__thread_handle *thread = haul__thread_start(worker, l);
        if (!thread)
            break;
        l->threads[l->thread_count++] = thread;
    }
    if (l->thread_count || !l->workers || l->dry) /* fewer do the same work */
        return HAUL_OK;
    return haul__fail(HAUL_OUT_OF_MEMORY, START, NULL,
                      "no thread could be started: memory, or the number of threads that the system allows, is "
                      "exhausted");
}

/* ---- making and freeing ---- */

static void destroy(void *object)
{
    haul_loader *l = object;
    adopt_after_fork(l);
    halt(l);
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->thread_count; i++)
        haul__thread_join(l->threads[i]);
    for (int i = 0; i < l->place_count; i++)
        haul__batch_slot_free(&l->places[i].slot);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    haul__object_release(l->recipe.dataset);
    haul__free(l->recipe.normaliser);
    haul__free(l->threads);
    haul__free(l->places);
    haul__free(l->order);
    haul__object_free(&l->object, sizeof *l);
}

static const haul__class class = {.name = "loader", .destroy = destroy};

static haul_status check_loader(const haul_loader *l, const char *operation)
{
    return haul__check_object(l, &class, operation, "loader");
}

static haul_status check_number(const char *name, int64_t value, int64_t limit)
{
    if (value >= 0 && value <= limit)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, NEW, name, ".%s is %lld; it must be from 0 to %lld", name,
                      (long long)value, (long long)limit);
}

static haul_status check_pictures(const haul_dataset *dataset, const haul_loader_options *o)
{
    const haul_example_spec *spec = &dataset->source.spec;
    const double            *given = o->normalise;
    double                   meant[2] = {given[0], given[1]};
    if (!isfinite(given[0]) || !(given[1] >= 0 && isfinite(given[1])) || (given[0] != 0 && given[1] == 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, NEW, "normalise",
                          ".normalise is {%g, %g}, a mean and a deviation; the deviation must be positive", given[0],
                          given[1]);
    if (haul__option_reals(NEW, "normalise", meant, meant))
        return haul_error_status();
    if ((o->random_crop || o->random_flip) && (spec->input_dtype != HAUL_U8 || spec->input.ndim != 3))
        return haul__fail(HAUL_INVALID_ARGUMENT, NEW, o->random_crop ? "random_crop" : "random_flip",
                          "%s has no pictures (u8, [channels, height, width]) to crop or flip", dataset->name);
    return HAUL_OK;
}

static haul_status check_options(const haul_dataset *dataset, const haul_loader_options *o)
{
    haul_status status;
    int64_t     elements;
    if ((status = check_number("batch", o->batch, INT32_MAX)) != HAUL_OK ||
        (status = check_number("workers", o->workers, MAX_WORKERS)) != HAUL_OK ||
        (status = check_number("prefetch", o->prefetch, MAX_AHEAD)) != HAUL_OK ||
        (status = check_number("random_crop", o->random_crop, INT32_MAX)) != HAUL_OK ||
        (status = check_pictures(dataset, o)) != HAUL_OK)
        return status;
    if (!haul__mul_size(o->batch, dataset->input_count, &elements) || elements > INT64_MAX / 8 ||
        !haul__mul_size(o->batch, (int64_t)dataset->target_bytes, &elements))
        return haul__fail(HAUL_SHAPE, NEW, "batch", "a batch of %lld examples has more elements than can be counted",
                          (long long)o->batch);
    return HAUL_OK;
}

static void set_recipe(haul_loader *l, haul_dataset *dataset, haul_device *device, const haul_loader_options *o)
{
    const haul_shape *input = &dataset->source.spec.input;
    haul__recipe     *r = &l->recipe;
    r->dataset = dataset;
    haul__object_keep(dataset);
    r->device = device;
    r->batch = o->batch ? o->batch : 1;
    r->seed = o->seed;
    r->augmented = o->random_crop || o->random_flip;
    if (r->augmented)
        r->augment = (haul__augment){.channels = input->dims[0],
                                     .height = input->dims[1],
                                     .width = input->dims[2],
                                     .crop = o->random_crop,
                                     .flip = o->random_flip};
    int64_t count = dataset->source.count;
    l->batches = count / r->batch + (!o->drop_last && count % r->batch != 0);
    l->shuffle = o->shuffle;
    l->dry = haul__is_dry();
    l->forks = haul__fork_count();
    l->workers = o->workers;
    /* One place more than batches ahead: for the one the caller has. */
    l->place_count = !o->workers ? 1 : 1 + (o->prefetch ? o->prefetch : 2 * o->workers);
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
    if (!device || haul__device_check(device, NEW, "device") != HAUL_OK || check_options(dataset, options) != HAUL_OK)
        return NULL;
    haul_loader *l = haul__object_new_zeroed(sizeof *l, &class);
    if (!l) {
        haul__fail_memory(NEW, sizeof *l);
        return NULL;
    }
    pthread_mutex_init(&l->lock, NULL); /* these three cannot fail on Linux */
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    set_recipe(l, dataset, device, options);
    int places = l->place_count;
    l->place_count = 0;
    l->threads = haul__calloc((size_t)l->workers + 1, sizeof *l->threads);
    l->places = haul__calloc((size_t)places, sizeof *l->places);
    l->order = haul__calloc((size_t)dataset->source.count + 1, sizeof *l->order);
    l->recipe.normaliser = haul__malloc(sizeof *l->recipe.normaliser);
    if (!l->threads || !l->places || !l->order || !l->recipe.normaliser) {
        haul__fail_memory(NEW, (size_t)dataset->source.count * sizeof *l->order);
        haul__object_release(l);
        return NULL;
    }
    l->place_count = places;
    haul__normaliser_init(l->recipe.normaliser, haul__option(options->normalise[0], 0.5),
                          haul__option(options->normalise[1], 0.5));
    return haul__own(l, NEW);
}

/* ---- an epoch ---- */

/* Fisher and Yates's shuffle. Sequences of draws are long, but not endless: every million steps take another. */
static void set_order(haul_loader *l)
{
    int64_t     count = l->recipe.dataset->source.count;
    haul__draws draws = {0};
    for (int64_t i = 0; i < count; i++)
        l->order[i] = i;
    for (int64_t i = 1; l->shuffle && i < count; i++) {
        if (i == 1 || (i & 0xfffff) == 0)
            draws = haul__draws_begin(l->recipe.seed, HAUL__FOR_ORDER, (uint64_t)l->epoch, (uint64_t)i >> 20);
        int64_t k = (int64_t)haul__draw_below(&draws, (uint64_t)i + 1), kept = l->order[i];
        l->order[i] = l->order[k];
        l->order[k] = kept;
    }
}

static haul_status start_epoch(haul_loader *l, int64_t epoch, int64_t first)
{
    haul_status status = check_dry(l, START);
    if (status)
        return status;
    if (first < 0 || first > l->batches)
        return haul__fail(HAUL_INVALID_ARGUMENT, START, "first", "there is no batch %lld: an epoch has %lld",
                          (long long)first, (long long)l->batches);
    adopt_after_fork(l);
    halt(l);
    for (int i = 0; i < l->place_count && status == HAUL_OK; i++)
        status = haul__batch_slot_prepare(&l->places[i].slot, &l->recipe, START);
    if (status != HAUL_OK || (status = start_workers(l)) != HAUL_OK)
        return status;
    l->epoch = epoch;
    set_order(l);
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
    if (check_loader(l, START))
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

/* Take the batch given out last back, and let its place be filled again. */
static haul_status retire(haul_loader *l)
{
    if (!l->holding)
        return HAUL_OK;
    place *p = place_of(l, l->taken - 1);
    haul__batch_slot_clear(&p->slot);
    l->holding = false;
    l->current = (haul_batch){0};
    haul_status status = haul__batch_slot_prepare(&p->slot, &l->recipe, NEXT);
    if (status != HAUL_OK)
        return status;
    pthread_mutex_lock(&l->lock);
    p->state = SLOT_FREE;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    return HAUL_OK;
}

static haul_status obtain(haul_loader *l, place *p)
{
    if (!l->workers || l->dry) {
        p->status = make_batch(l, p, l->taken);
        p->state = SLOT_READY;
    }
    pthread_mutex_lock(&l->lock);
    while (p->state != SLOT_READY)
        pthread_cond_wait(&l->ready, &l->lock);
    pthread_mutex_unlock(&l->lock);
    if (p->status != HAUL_OK)
        haul__error_restore(&p->error);
    return p->status;
}

static haul_status take_next(haul_loader *l)
{
    haul_status status = check_dry(l, NEXT);
    if (status)
        return status;
    if (l->started && l->forks != haul__fork_count())
        return haul__fail(HAUL_STATE, NEXT, "loader",
                          "the epoch was begun before this process was forked, and its workers are in the parent; call "
                          "haul_loader_start here");
    if (!l->started)
        return haul__fail(HAUL_STATE, NEXT, "loader", "no epoch is under way: call haul_loader_start first");
    status = retire(l);
    if (!status && l->taken == l->batches)
        return HAUL_END_OF_DATA;
    place *p = place_of(l, l->taken);
    if (!status)
        status = obtain(l, p);
    if (status) {
        halt(l);
        return status;
    }
    l->current = (haul_batch){p->slot.x, p->slot.y, l->taken, haul_tensor_dim(p->slot.x, 0)};
    l->holding = true;
    l->taken++;
    return HAUL_OK;
}

const haul_batch *haul_loader_next(haul_loader *l)
{
    if (check_loader(l, NEXT))
        return NULL;
    l->status = take_next(l);
    return l->status ? NULL : &l->current;
}

haul_status haul_loader_status(const haul_loader *loader)
{
    return check_loader(loader, "haul_loader_status") ? haul_error_status() : loader->status;
}

int64_t haul_loader_batches(const haul_loader *loader)
{
    return check_loader(loader, "haul_loader_batches") ? -1 : loader->batches;
}
