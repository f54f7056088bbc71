#include "parallel/parts.h"

#include <haul/autograd.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/tensor.h"
#include "device/device.h"
#include "group/offer.h"
#include "memory/spill/elsewhere.h"
#include "parallel/ahead.h"

#define GATHER "haul_parallel_gather"
#define BEGIN  "haul_parallel_begin"

enum { WHAT = 120 };

size_t  haul__parts_whole = 32 << 10;
int64_t haul__parts_room = 8 << 20;

typedef struct part {
    haul__storage *storage; /* divided, holds a reference; NULL: the parameter is whole */
    uint64_t       came;    /* when it came, of another rank's; 0: it is not there */
    bool           stays;   /* the host has used it, or the program has changed it: it is there until the next step */
    uint64_t       version; /* of the elements that came, or of those in `copy` */
    char          *copy;    /* in host memory, of an own one whose device works elsewhere */
} part;

/* The own parameters, which outlive this rank's training if others still need them. */
typedef struct lent {
    haul__storage **storages;
    char          **copies;
    int             count;
} lent;

struct haul__parts {
    haul__elsewhere   head;
    const haul__flat *flat;
    const int        *owners;
    haul_group       *group;
    haul__offer      *offer;
    part             *items;
    lent             *lent;
    haul__ahead      *ahead;
    int64_t           there; /* bytes that have come and not gone */
    uint64_t          clock;
    int64_t           epoch; /* how often the offer was opened anew */
};

static haul__parts *parts_of(haul__elsewhere *e)
{
    return (haul__parts *)(void *)e;
}

static int rank_of(const haul__parts *p)
{
    return haul_group_rank(p->group);
}

static bool is_own(const haul__parts *p, int i)
{
    return p->owners[i] == rank_of(p);
}

static haul_tensor *parameter(const haul__parts *p, int i)
{
    return p->flat->items[i].tensor;
}

bool haul__parts_divides(const haul__parts *p, int item)
{
    return p && p->items[item].storage;
}

/* ---- coming and going ---- */

/* The part has its owner's elements. It may have been there before. */
static void note_came(haul__parts *p, int i)
{
    part *x = &p->items[i];
    if (!x->came)
        p->there += (int64_t)x->storage->bytes;
    HAUL__ASSERT(!is_own(p, i) && p->there >= (int64_t)x->storage->bytes);
    x->came = ++p->clock;
    x->version = atomic_load(&x->storage->version);
}

static void note_gone(haul__parts *p, int i)
{
    part *x = &p->items[i];
    if (x->came)
        p->there -= (int64_t)x->storage->bytes;
    HAUL__ASSERT(p->there >= 0);
    x->came = 0;
    x->stays = false;
}

/* Gives up a parameter of another rank; it stays if something relies on its address. */
static void give_up(haul__parts *p, int i)
{
    part *x = &p->items[i];
    if (x->came && haul__elsewhere_leave(x->storage))
        note_gone(p, i);
}

/* One of the first `count` buffers of the command. */
static bool uses(const haul__command *c, int count, const haul__storage *storage)
{
    for (int i = 0; i < count; i++)
        if (c->buffers[i].storage == storage)
            return true;
    return false;
}

static bool may_go(const part *x)
{
    return !x->stays && atomic_load(&x->storage->version) == x->version;
}

static const char *name_of(const haul__parts *p, int i, char text[WHAT])
{
    haul__snprintf(text, WHAT, "the parameter '%.80s'", p->flat->items[i].name);
    return text;
}

/* The parameter to give up next: the one that came first. -1: none can be given up. */
static int first_to_go(const haul__parts *p, const haul__command *c, uint64_t after)
{
    int first = -1;
    for (int i = 0; i < p->flat->parameters; i++) {
        const part *x = &p->items[i];
        if (x->came > after && may_go(x) && !uses(c, c->buffer_count, x->storage) &&
            (first < 0 || x->came < p->items[first].came))
            first = i;
    }
    HAUL__ASSERT(first < 0 || !is_own(p, first));
    return first;
}

static void before(haul__elsewhere *e, int64_t number, const haul__command *c)
{
    haul__parts  *p = parts_of(e);
    part         *x = &p->items[number];
    const int64_t bytes = (int64_t)x->storage->bytes;
    uint64_t      after = 0;
    HAUL__ASSERT(!x->came && !is_own(p, (int)number)); /* it is on its way */
    for (int i; p->there + bytes > haul__parts_room && (i = first_to_go(p, c, after)) >= 0;) {
        after = p->items[i].came;
        give_up(p, i);
    }
    x->stays = c->kind == HAUL__COMMAND_CALLBACK || uses(c, c->write_count, x->storage);
}

/* The parameter that is expected after `i`, unless it is there. */
static void fetch_ahead(haul__parts *p, int i)
{
    const int next = haul__ahead_note(p->ahead, i);
    if (next < 0 || !p->items[next].storage || p->items[next].came)
        return;
    char                   what[WHAT];
    const haul__group_call call = {.name = GATHER, .what = name_of(p, next, what)};
    haul__ahead_begin(p->ahead, p->offer, &call, p->owners[next], next, p->items[next].storage->bytes);
}

static haul_status fetch(haul__elsewhere *e, int64_t number, void *to, size_t bytes)
{
    haul__parts           *p = parts_of(e);
    const int              i = (int)number;
    char                   what[WHAT];
    const haul__group_call call = {.name = GATHER, .what = name_of(p, i, what)};
    haul_status            status = HAUL_OK;
    HAUL__ASSERT(p->items[i].storage && p->items[i].storage->bytes == bytes);
    if (!haul__ahead_take(p->ahead, i, to, bytes))
        status = haul__offer_get(p->offer, &call, p->owners[i], i, to, bytes);
    if (status)
        return status;
    note_came(p, i);
    fetch_ahead(p, i);
    return HAUL_OK;
}

/* ---- beginning and ending ---- */

/* On the group thread, or where the training ends. */
static void release_lent(void *context)
{
    lent *l = context;
    for (int i = 0; i < l->count; i++) {
        haul__object_release(l->storages[i]);
        haul__free(l->copies[i]);
    }
    haul__free(l->storages);
    haul__free(l->copies);
    haul__free(l);
}

static lent *lent_new(int count)
{
    lent *l = haul__calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->storages = haul__calloc((size_t)count, sizeof(haul__storage *));
    l->copies = haul__calloc((size_t)count, sizeof(char *));
    if (l->storages && l->copies)
        return l;
    release_lent(l);
    return NULL;
}

haul__parts *haul__parts_new(const haul__flat *flat, const int *owners, haul_group *group)
{
    const size_t count = (size_t)flat->parameters;
    haul__parts *p = haul__calloc(1, sizeof *p);
    if (p)
        *p = (haul__parts){.head = {.before = before, .fetch = fetch},
                           .flat = flat,
                           .owners = owners,
                           .group = group,
                           .items = haul__calloc(count, sizeof *p->items),
                           .lent = lent_new(flat->parameters),
                           .ahead = haul__ahead_new(flat->parameters)};
    if (!p || !p->items || !p->lent || !p->ahead) {
        haul__parts_free(p);
        haul__fail_memory("haul_parallel_new", count * sizeof *p->items);
        return NULL;
    }
    p->offer = haul__offer_begin(group, flat->parameters, release_lent, p->lent);
    if (p->offer)
        return p;
    haul__parts_free(p);
    return NULL;
}

/* The own parameters that are divided go with the offer. */
static void lend(haul__parts *p)
{
    for (int i = 0; i < p->flat->parameters; i++) {
        const part *x = &p->items[i];
        if (!x->storage || !is_own(p, i))
            continue;
        HAUL__ASSERT(p->lent->count < p->flat->parameters && !x->came);
        haul__object_keep(x->storage);
        p->lent->storages[p->lent->count] = x->storage;
        p->lent->copies[p->lent->count++] = x->copy;
    }
}

static void end_one(haul__parts *p, int i, bool frees)
{
    part *x = &p->items[i];
    if (!x->storage)
        return;
    if (!is_own(p, i))
        haul__elsewhere_end(x->storage);
    note_gone(p, i);
    haul__object_release(x->storage);
    if (frees)
        haul__free(x->copy);
    *x = (part){.storage = NULL};
}

void haul__parts_free(haul__parts *p)
{
    if (!p)
        return;
    haul__ahead_free(p->ahead);
    if (p->offer)
        lend(p);
    for (int i = 0; p->items && i < p->flat->parameters; i++)
        end_one(p, i, !p->offer);
    if (p->offer)
        haul__offer_end(p->offer);
    else if (p->lent)
        release_lent(p->lent);
    haul__free(p->items);
    haul__free(p);
}

/* ---- which ones are divided ---- */

static bool shares_memory(const haul__parts *p, int i)
{
    for (int k = 0; k < p->flat->parameters; k++)
        if (k != i && parameter(p, k)->storage == parameter(p, i)->storage)
            return true;
    return false;
}

/* All of the memory is the parameter's, without gaps, and can be given up. */
static bool suits(const haul__parts *p, int i)
{
    const haul_tensor *t = parameter(p, i);
    return t->contiguous && t->offset == 0 && haul_tensor_bytes(t) == t->storage->bytes &&
           t->storage->bytes > haul__parts_whole && haul__elsewhere_suits(t->storage) && !shares_memory(p, i);
}

/* True if a parameter got other memory since it was divided, for example by haul_load_weights with .map. */
static bool has_changed(const haul__parts *p)
{
    for (int i = 0; i < p->flat->parameters; i++)
        if (p->items[i].storage != parameter(p, i)->storage && (p->items[i].storage || suits(p, i)))
            return true;
    return false;
}

/* Brings the copy that is offered up to date, for a device whose memory the group thread cannot read. */
static haul_status renew_copy(haul__parts *p, int i)
{
    part          *x = &p->items[i];
    const size_t   bytes = x->storage->bytes;
    const uint64_t version = atomic_load(&x->storage->version);
    const bool     fresh = !x->copy;
    HAUL__ASSERT(is_own(p, i));
    if (!fresh && version == x->version)
        return HAUL_OK;
    if (fresh && !(x->copy = haul__malloc(bytes)))
        return haul__fail_memory(BEGIN, bytes);
    haul_tensor *t = haul_detach(parameter(p, i));
    haul_status  status = haul__failed(t) ? haul_error_status() : haul_read(t, x->copy, bytes);
    if (!status) {
        x->version = version;
    } else if (fresh) {
        haul__free(x->copy);
        x->copy = NULL;
    }
    return status;
}

static haul_status set_own(haul__parts *p, int i)
{
    const part       *x = &p->items[i];
    const bool        on_host = haul__device_is_host(x->storage->device);
    const haul_status status = on_host ? haul__host_before(x->storage, false, BEGIN) : renew_copy(p, i);
    if (!status)
        haul__offer_set(p->offer, i, on_host ? x->storage->buffer.host : x->copy, x->storage->bytes);
    return status;
}

static haul_status set_all_own(haul__parts *p)
{
    haul_scope *scope = haul__flat_scope();
    haul_status status = scope ? HAUL_OK : haul_error_status();
    for (int i = 0; i < p->flat->parameters && !status; i++)
        if (p->items[i].storage && is_own(p, i))
            status = set_own(p, i);
    if (scope)
        haul_scope_pop(scope);
    return status;
}

static haul_status divide_one(haul__parts *p, int i)
{
    part *x = &p->items[i];
    HAUL__ASSERT(!x->storage && !x->came && !x->copy);
    x->storage = parameter(p, i)->storage;
    haul__object_keep(x->storage);
    if (is_own(p, i))
        return HAUL_OK;
    const haul_status status = haul__elsewhere_begin(x->storage, &p->head, i);
    if (!status && !haul__is_given_up(x->storage))
        note_came(p, i);
    return status;
}

/* flags[rank * parameters + item]: it can be divided there. */
static haul_status divide(haul__parts *p, char *flags)
{
    const haul__group_call call = {.name = BEGIN, .what = "which parameters are divided"};
    const int              count = p->flat->parameters, ranks = haul_group_size(p->group);
    for (int i = 0; i < count; i++) {
        if (p->items[i].storage != parameter(p, i)->storage)
            end_one(p, i, true);
        flags[rank_of(p) * count + i] = p->items[i].storage || suits(p, i);
    }
    haul_status status = haul__group_gather_equal(p->group, &call, flags, (size_t)count);
    for (int i = 0; i < count && !status; i++) {
        bool all = true;
        for (int r = 0; r < ranks; r++)
            all &= flags[r * count + i] == 1;
        if (all && !p->items[i].storage)
            status = divide_one(p, i);
        else if (!all)
            end_one(p, i, true);
    }
    return status;
}

static haul_status divide_all(haul__parts *p)
{
    const size_t bytes = (size_t)p->flat->parameters * (size_t)haul_group_size(p->group);
    char        *flags = haul__calloc(bytes, 1);
    haul_status  status = flags ? divide(p, flags) : haul__fail_memory(BEGIN, bytes);
    haul__free(flags);
    return status;
}

/* ---- changes ---- */

/* All ranks are here, so none has a request open. `step`: a step begins. *bits: the union of all ranks' bits. */
static haul_status meet_with(const haul__parts *p, const char *operation, bool step, uint64_t *bits)
{
    const haul__group_call call = {.name = operation, .what = "parameters"};
    haul__ahead_stop(p->ahead, step);
    return haul__group_or(p->group, &call, bits);
}

static haul_status meet(const haul__parts *p, const char *operation)
{
    uint64_t none = 0;
    return meet_with(p, operation, false, &none);
}

/* No rank has a request open. Each copy is either the owner's value or one that the program changed. */
static void give_up_all(haul__parts *p)
{
    for (int i = 0; i < p->flat->parameters; i++)
        give_up(p, i);
}

/* Opens the offer in the next epoch, with what this rank has now. `status`: of what came before. */
static haul_status offer_own(haul__parts *p, haul_status status)
{
    p->epoch++;
    if (!status)
        status = set_all_own(p);
    if (!status)
        haul__offer_open(p->offer, p->epoch);
    else
        haul__offer_fail(p->offer);
    return status;
}

/* Fetches a parameter to a device other than the host. */
static haul_status renew_there(haul__parts *p, int i)
{
    const size_t bytes = p->items[i].storage->bytes;
    HAUL__ASSERT(!is_own(p, i) && p->items[i].came);
    void       *elements = haul__malloc(bytes);
    haul_status status = elements ? fetch(&p->head, i, elements, bytes) : haul__fail_memory(BEGIN, bytes);
    if (!status) {
        haul_tensor *t = haul_detach(parameter(p, i));
        status = haul__failed(t) ? haul_error_status() : haul_write(t, elements, bytes);
        p->items[i].version = atomic_load(&p->items[i].storage->version);
    }
    haul__free(elements);
    return status;
}

/* Fetches parameters again whose memory could not be given up, because a pointer to it is in use. */
static haul_status renew(haul__parts *p)
{
    haul_scope *scope = haul__flat_scope();
    haul_status status = scope ? HAUL_OK : haul_error_status();
    for (int i = 0; i < p->flat->parameters && !status; i++) {
        const part *x = &p->items[i];
        if (x->came)
            status = haul__device_is_host(x->storage->device)
                         ? fetch(&p->head, i, x->storage->buffer.host, x->storage->bytes)
                         : renew_there(p, i);
    }
    if (scope)
        haul_scope_pop(scope);
    return status;
}

haul_status haul__parts_begin(haul__parts *p)
{
    uint64_t    changed = has_changed(p);
    haul_status status = meet_with(p, BEGIN, true, &changed);
    haul__offer_close(p->offer);
    if (!status && changed)
        status = divide_all(p);
    give_up_all(p);
    status = offer_own(p, status);
    return status ? status : renew(p);
}

/* ---- updates ---- */

haul_status haul__parts_close(haul__parts *p, const char *operation)
{
    const haul_status status = meet(p, operation);
    if (status)
        return status;
    haul__offer_close(p->offer);
    give_up_all(p);
    for (int i = 0; i < p->flat->parameters; i++)
        if (p->items[i].storage && !is_own(p, i))
            haul__elsewhere_change(p->items[i].storage);
    return HAUL_OK;
}

haul_status haul__parts_open(haul__parts *p, haul_status status)
{
    status = offer_own(p, status);
    return status ? status : renew(p);
}

/* ---- all of them on rank 0 ---- */

haul_status haul__parts_gather(haul__parts *p, const char *operation)
{
    haul_status status = meet(p, operation);
    haul__offer_close(p->offer);
    give_up_all(p);
    status = offer_own(p, status);
    if (!status)
        status = renew(p);
    for (int i = 0; i < p->flat->parameters && !status && rank_of(p) == 0; i++)
        if (p->items[i].storage && !is_own(p, i))
            status = haul__elsewhere_come(p->items[i].storage, operation);
    return status ? status : meet(p, operation);
}
