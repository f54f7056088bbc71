#include "parallel/shard.h"

#include <haul/autograd.h>
#include <haul/transfer.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/tensor.h"
#include "core/trial.h"
#include "memory/dry_run/dry_run.h"

#define STEP   "haul_parallel_step"
#define GATHER "haul_parallel_gather"

/* A rank's part of a round ends with the parameter that brings it to this many bytes. */
enum { ROUND = 4 << 20 };

static size_t bytes_of(const haul__shards *s, int i)
{
    return haul_tensor_bytes(s->flat->items[i].tensor);
}

static haul_tensor *parameter(const haul__shards *s, int i)
{
    return s->flat->items[i].tensor;
}

static int rank_of(const haul__shards *s)
{
    return haul_group_rank(s->group);
}

static int ranks_of(const haul__shards *s)
{
    return haul_group_size(s->group);
}

/* ---- owners ---- */

typedef struct sized {
    size_t bytes;
    int    item;
} sized;

static int largest_first(const void *a, const void *b)
{
    const sized *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->item > y->item) - (x->item < y->item);
}

static void choose_owners(haul__shards *s, sized *order, size_t *of_rank, int ranks)
{
    const int count = s->flat->parameters;
    for (int i = 0; i < count; i++)
        order[i] = (sized){bytes_of(s, i), i};
    qsort(order, (size_t)count, sizeof *order, largest_first);
    for (int k = 0; k < count; k++) {
        int least = 0;
        for (int r = 1; r < ranks; r++)
            if (of_rank[r] < of_rank[least])
                least = r;
        s->owners[order[k].item] = least;
        of_rank[least] += order[k].bytes;
    }
}

/* ---- gradients that the owners alone have ---- */

static int owner_of(const haul__divided *d, const haul_tensor *parameter)
{
    const haul__flat      *flat = d->context;
    const haul__flat_item *item = haul__flat_find(flat, parameter);
    return item ? flat->owners[item - flat->items] : -1;
}

typedef struct divided {
    haul__divided head;
    haul_group   *group;
} divided;

static haul_status gather_numbers(const haul__divided *d, const char *operation, double *rows, int count)
{
    const haul__group_call call = {.name = operation, .what = "gradients"};
    if (haul__refuse_followed(operation, "talks to other ranks"))
        return haul_error_status();
    if (haul__is_dry())
        return HAUL_OK;
    return haul__group_gather_equal(((const divided *)d)->group, &call, rows, (size_t)count * sizeof *rows);
}

static void pass_error(const haul__divided *d, const char *operation)
{
    haul__group_pass_error(((const divided *)d)->group, operation);
}

static haul_status divide_gradients(haul__shards *s, haul__flat *flat)
{
    HAUL__ASSERT(!s->divided && s->owners);
    divided *d = haul__calloc(1, sizeof *d);
    if (!d)
        return haul__fail_memory("haul_parallel_new", sizeof *d);
    d->head = (haul__divided){.context = flat,
                              .rank = rank_of(s),
                              .ranks = ranks_of(s),
                              .owner = owner_of,
                              .gather = gather_numbers,
                              .fail = pass_error};
    d->group = s->group;
    s->divided = &d->head;
    haul__flat_divide(flat, s->owners, rank_of(s));
    haul__divided_add(s->divided);
    return HAUL_OK;
}

void haul__shards_ready(const haul__shards *s, bool ready)
{
    if (s->divided)
        atomic_store(&s->divided->active, ready);
}

/* A parameter comes while its command keeps all memory in place, and a sum on the GPU is a command of the group thread,
 * which would have to bring it. Ranks that are threads have no group thread, which answers while a rank computes. */
static haul_status refuse_group(haul_group *group)
{
    haul_group_properties p;
    if (haul_group_describe(group, &p))
        return haul_error_status();
    if (strcmp(p.kind, "local") == 0)
        return haul__fail(HAUL_UNSUPPORTED, "haul_parallel_new", "shard",
                          ".shard is 3, but the ranks are threads of one process, which do not fetch parameters from "
                          "each other; use .shard = 2, or a process for each rank (the group \"mpi\")");
    if (strcmp(p.kind, "nccl") != 0)
        return HAUL_OK;
    return haul__fail(
        HAUL_UNSUPPORTED, "haul_parallel_new", "shard",
        ".shard is 3, but the group is \"nccl\", whose sums cannot wait for parameters of other ranks; use "
        ".shard = 2, or the group \"mpi\" (HAUL_CUDA_WITHOUT=nccl makes \"auto\" choose it)");
}

haul_status haul__shards_init(haul__shards *s, int stage, haul__flat *flat, haul_group *group)
{
    const size_t count = (size_t)flat->parameters, ranks = (size_t)haul_group_size(group);
    HAUL__ASSERT(1 <= stage && stage <= 3 && ranks > 1);
    if (stage > 2 && refuse_group(group))
        return haul_error_status();
    sized  *order = haul__calloc(count, sizeof *order);
    size_t *of_rank = haul__calloc(ranks, sizeof *of_rank);
    *s = (haul__shards){.stage = stage, .flat = flat, .group = group, .owners = haul__calloc(count, sizeof *s->owners)};
    const bool ok = order && of_rank && s->owners;
    if (ok)
        choose_owners(s, order, of_rank, (int)ranks);
    haul__free(order);
    haul__free(of_rank);
    if (!ok)
        return haul__fail_memory("haul_parallel_new", count * sizeof *order);
    if (stage > 1 && divide_gradients(s, flat))
        return haul_error_status();
    if (stage > 2 && !haul__is_dry() && !(s->parts = haul__parts_new(flat, s->owners, group)))
        return haul_error_status();
    return HAUL_OK;
}

haul_status haul__shards_init_apart(haul__shards *s, haul__flat *flat, const int *owners, haul_group *group)
{
    const size_t count = (size_t)flat->parameters;
    *s = (haul__shards){
        .stage = 2, .apart = true, .flat = flat, .group = group, .owners = haul__calloc(count, sizeof *s->owners)};
    if (!s->owners)
        return haul__fail_memory("haul_parallel_new", count * sizeof *s->owners);
    memcpy(s->owners, owners, count * sizeof *owners);
    return divide_gradients(s, flat);
}

haul_status haul__shards_begin(const haul__shards *s)
{
    return s->parts ? haul__parts_begin(s->parts) : HAUL_OK;
}

void haul__shards_free(haul__shards *s)
{
    haul__parts_free(s->parts);
    if (s->divided)
        haul__divided_remove(s->divided);
    haul__free(s->divided);
    haul__free(s->owners);
    *s = (haul__shards){.stage = 0};
}

/* The item of an entry's parameter; -1 if the gradients of that are not exchanged. */
static int item_of(const haul__shards *s, const haul__optimizer_entry *e)
{
    const haul__flat_item *item = haul__flat_find(s->flat, e->parameter);
    return item ? (int)(item - s->flat->items) : -1;
}

/* ---- the own part of a step ---- */

static bool is_others(const haul__shards *s, const haul__optimizer_entry *e)
{
    const int item = item_of(s, e);
    return item >= 0 && s->owners[item] != rank_of(s);
}

/* What a checkpoint or haul__shards_gather has brought. */
static void drop_others_state(const haul__shards *s, haul_optimizer *o)
{
    if (haul__is_trial())
        return;
    for (int i = 0; i < o->count; i++) {
        haul__optimizer_entry *e = &o->entries[i];
        if (!is_others(s, e))
            continue;
        for (int k = 0; k < HAUL__MAX_STATES; k++) {
            haul__object_release(e->states[k]);
            e->states[k] = NULL;
        }
    }
}

/* Takes the gradients of others' parameters away; show_gradients puts them back. `kept` has one for each entry, NULL at
 * first. */
static haul_status hide_gradients(const haul__shards *s, haul_optimizer *o, haul_tensor **kept)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < o->count && !status; i++) {
        if (!is_others(s, &o->entries[i]))
            continue;
        HAUL__ASSERT(!kept[i]);
        kept[i] = haul_tensor_grad(o->entries[i].parameter);
        status = haul__failed(kept[i]) ? haul_error_status() : haul_set_grad(o->entries[i].parameter, HAUL_NONE);
    }
    return status;
}

static haul_status show_gradients(const haul_optimizer *o, haul_tensor *const *kept)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < o->count && !status; i++)
        if (kept[i] && !haul__is_none(kept[i]))
            status = haul_set_grad(o->entries[i].parameter, kept[i]);
    return status;
}

/* Before others' gradients go: a gradient that is not finite skips the step on all ranks. */
static haul_status unscale(haul_grad_scaler *scaler, haul_optimizer *o)
{
    return !scaler || haul__grad_scaler_has_unscaled(scaler, o) ? HAUL_OK : haul_grad_scaler_unscale(scaler, o);
}

static haul_status update_own(const haul__shards *s, haul_optimizer *o, haul_grad_scaler *scaler)
{
    haul_tensor **kept = haul__calloc((size_t)o->count, sizeof *kept);
    if (!kept)
        return haul__fail_memory(STEP, (size_t)o->count * sizeof *kept);
    drop_others_state(s, o);
    haul_status status = hide_gradients(s, o, kept);
    if (!status)
        status = scaler ? haul_grad_scaler_step(scaler, o) : haul_optimizer_step(o);
    haul__error_record error;
    haul__error_save(&error);
    const haul_status shown = show_gradients(o, kept);
    if (status)
        haul__error_restore(&error);
    haul__free(kept);
    return status ? status : shown;
}

/* ---- parameters for all ranks ---- */

/* Parameters that travel together: of each rank the items [from, to) that are its own. */
typedef struct trip {
    int     *from, *to;
    int64_t *bytes;
    char    *room;
    size_t   capacity;
} trip;

/* True for a parameter that this rank owns and all ranks have. */
static bool is_shared(const haul__shards *s, int i, int rank)
{
    return s->owners[i] == rank && !haul__parts_divides(s->parts, i);
}

/* Chooses the next items of each rank. Returns how many bytes they have. */
static size_t plan_round(const haul__shards *s, trip *r)
{
    size_t total = 0;
    for (int rank = 0; rank < ranks_of(s); rank++) {
        int i = r->from[rank] = r->to[rank];
        r->bytes[rank] = 0;
        for (; i < s->flat->parameters && r->bytes[rank] < ROUND; i++)
            if (is_shared(s, i, rank))
                r->bytes[rank] += (int64_t)bytes_of(s, i);
        r->to[rank] = i;
        HAUL__ASSERT(r->from[rank] <= r->to[rank] && r->to[rank] <= s->flat->parameters);
        total += (size_t)r->bytes[rank];
    }
    return total;
}

/* Copies the parameters of a rank to their places in the room, or back. */
static haul_status copy_portion(const haul__shards *s, const trip *r, int rank, bool back)
{
    haul_status status = HAUL_OK;
    char       *at = r->room;
    for (int k = 0; k < rank; k++)
        at += r->bytes[k];
    const char *begin = at;
    for (int i = r->from[rank]; i < r->to[rank] && !status; i++) {
        if (!is_shared(s, i, rank))
            continue;
        const size_t bytes = bytes_of(s, i);
        haul_tensor *t = haul_detach(parameter(s, i));
        status = haul__failed(t) ? haul_error_status() : back ? haul_write(t, at, bytes) : haul_read(t, at, bytes);
        at += bytes;
    }
    HAUL__ASSERT(status || at - begin == r->bytes[rank]); /* as it was planned */
    return status;
}

static haul_status grow_room(trip *r, size_t bytes)
{
    if (bytes <= r->capacity)
        return HAUL_OK;
    haul__free(r->room);
    r->room = haul__malloc(bytes);
    r->capacity = r->room ? bytes : 0;
    return r->room ? HAUL_OK : haul__fail_memory(STEP, bytes);
}

static haul_status share_round(const haul__shards *s, const trip *r)
{
    const haul__group_call call = {.name = STEP, .what = "parameters"};
    haul_status            status = copy_portion(s, r, rank_of(s), false);
    if (!status)
        status = haul__work_wait(haul__group_gather_begin(s->group, &call, r->room, r->bytes));
    for (int rank = 0; rank < ranks_of(s) && !status; rank++)
        if (rank != rank_of(s))
            status = copy_portion(s, r, rank, true);
    return status;
}

static haul_status share_rounds(const haul__shards *s, trip *r)
{
    haul_status status = HAUL_OK;
    size_t      bytes;
    while (!status && (bytes = plan_round(s, r)) > 0) {
        status = grow_room(r, bytes);
        haul_scope *scope = status ? NULL : haul__flat_scope();
        if (!scope)
            return haul_error_status();
        status = share_round(s, r);
        haul_scope_pop(scope);
    }
    return status;
}

static haul_status share_parameters(const haul__shards *s)
{
    const size_t ranks = (size_t)ranks_of(s);
    trip         r = {.from = haul__calloc(ranks, sizeof(int)),
                      .to = haul__calloc(ranks, sizeof(int)),
                      .bytes = haul__calloc(ranks, sizeof(int64_t))};
    haul_status  status =
        r.from && r.to && r.bytes ? HAUL_OK : haul__fail_memory(STEP, ranks * (2 * sizeof(int) + sizeof(int64_t)));
    if (!status)
        status = share_rounds(s, &r);
    haul__free(r.from);
    haul__free(r.to);
    haul__free(r.bytes);
    haul__free(r.room);
    return status;
}

/* Between these no rank uses parameters of others. */
static haul_status close_parts(const haul__shards *s)
{
    return s->parts ? haul__parts_close(s->parts, STEP) : HAUL_OK;
}

static haul_status open_parts(const haul__shards *s, haul_status status)
{
    return s->parts ? haul__parts_open(s->parts, status) : status;
}

haul_status haul__shards_step(const haul__shards *s, haul_optimizer *o, haul_grad_scaler *scaler)
{
    HAUL__ASSERT(s->owners);
    haul_scope *scope = haul__flat_scope();
    if (!scope)
        return haul_error_status();
    if (s->divided)
        s->divided->steps = true;
    haul_status status = unscale(scaler, o);
    if (!status)
        status = close_parts(s);
    if (!status)
        status = update_own(s, o, scaler);
    if (s->divided)
        s->divided->steps = false;
    haul_scope_pop(scope);
    if (!status && !s->apart && !haul__is_dry())
        status = share_parameters(s);
    return open_parts(s, status);
}

/* ---- the whole state on rank 0 ---- */

/* What a rank says of a parameter that it owns. */
typedef struct card {
    int64_t steps;
    int64_t states; /* a bit for each */
} card;

/* The entry of an item's parameter, or NULL. */
static haul__optimizer_entry *entry_of(const haul__shards *s, const haul_optimizer *o, int item)
{
    for (int i = 0; i < o->count; i++)
        if (o->entries[i].parameter == parameter(s, item))
            return &o->entries[i];
    return NULL;
}

static haul_status fill_card(const haul_optimizer *o, haul__optimizer_entry *e, card *out)
{
    for (int k = 0; e && k < o->kind->state_count; k++)
        if (e->states[k])
            out->states |= (int64_t)1 << k;
    return e ? haul__optimizer_entry_steps(e, &out->steps) : HAUL_OK;
}

/* cards[rank * parameters + item]. */
static haul_status share_cards(const haul__shards *s, const haul_optimizer *o, card *cards)
{
    const int              count = s->flat->parameters;
    const haul__group_call call = {.name = GATHER, .what = o->kind->name};
    haul_status            status = HAUL_OK;
    for (int i = 0; i < count && !status; i++)
        if (s->owners[i] == rank_of(s))
            status = fill_card(o, entry_of(s, o, i), &cards[rank_of(s) * count + i]);
    return status ? status : haul__group_gather_equal(s->group, &call, cards, (size_t)count * sizeof *cards);
}

/* The states of a parameter in host memory, in the order of their numbers. */
static haul_status read_states(const haul__optimizer_entry *e, int64_t states, char *out, size_t bytes)
{
    haul_status status = HAUL_OK;
    for (int k = 0; k < HAUL__MAX_STATES && !status; k++)
        if (states & (int64_t)1 << k) {
            status = haul_read(e->states[k], out, bytes);
            out += bytes;
        }
    return status;
}

static haul_status write_states(haul__optimizer_entry *e, const card *c, const char *in, size_t bytes)
{
    haul_tensor *made[HAUL__MAX_STATES] = {NULL};
    haul_status  status = haul_set_device(haul_cpu()); /* the scope restores it */
    for (int k = 0; k < HAUL__MAX_STATES && !status; k++)
        if (c->states & (int64_t)1 << k) {
            made[k] = haul_from_host(e->parameter->dtype, e->parameter->shape, in);
            status = haul__status_of(made[k]);
            in += bytes;
        }
    if (!status)
        haul__optimizer_entry_set(e, made, c->steps);
    return status;
}

/* The owner sends the states of a parameter to rank 0. */
static haul_status bring(const haul__shards *s, const haul_optimizer *o, int item, const card *c, int64_t *sent,
                         int64_t *got)
{
    char                   what[120];
    const haul__group_call call = {.name = GATHER, .what = what};
    const int              owner = s->owners[item], rank = rank_of(s);
    const size_t           bytes = bytes_of(s, item);
    const int64_t          all = __builtin_popcountll((uint64_t)c->states) * (int64_t)bytes;
    haul__optimizer_entry *e = entry_of(s, o, item);
    const bool             takes_part = rank == 0 || rank == owner;
    HAUL__ASSERT(0 <= owner && owner < ranks_of(s));
    haul__snprintf(what, sizeof what, "the state of %.80s", s->flat->items[item].name);
    char       *room = haul__malloc(takes_part ? (size_t)all + 1 : 1);
    haul_status status = room ? HAUL_OK : haul__fail_memory(GATHER, (size_t)all);
    if (!e)
        status = haul__fail(HAUL_STATE, GATHER, "optimizer",
                            "the optimizer does not have the parameter '%.80s'; make it for the same parameters on all "
                            "ranks",
                            s->flat->items[item].name);
    if (!status && rank == owner)
        status = read_states(e, c->states, room, bytes);
    sent[0] = rank == owner ? all : 0;
    got[owner] = rank == 0 ? all : 0;
    if (!status)
        status = haul__work_wait(haul__group_exchange_begin(s->group, &call, rank == owner ? room : (char *)sent, sent,
                                                            rank == 0 ? room : (char *)got, got, all));
    sent[0] = got[owner] = 0;
    if (!status && rank == 0)
        status = write_states(e, c, room, bytes);
    haul__free(room);
    return status;
}

static haul_status bring_all(const haul__shards *s, const haul_optimizer *o, card *cards)
{
    const int   count = s->flat->parameters, ranks = ranks_of(s);
    int64_t    *bytes = haul__calloc((size_t)ranks, 2 * sizeof *bytes);
    haul_status status = bytes ? share_cards(s, o, cards) : haul__fail_memory(GATHER, (size_t)ranks * sizeof *bytes);
    for (int i = 0; i < count && !status; i++) {
        HAUL__ASSERT(0 <= s->owners[i] && s->owners[i] < ranks);
        const card *c = &cards[s->owners[i] * count + i];
        if (s->owners[i] == 0 || !c->states)
            continue;
        haul_scope *scope = haul__flat_scope();
        if (!scope) {
            status = haul_error_status();
            break;
        }
        status = bring(s, o, i, c, bytes, bytes + ranks);
        haul_scope_pop(scope);
    }
    haul__free(bytes);
    return status;
}

static haul_status gather_state(const haul__shards *s, const haul_optimizer *o)
{
    const size_t count = (size_t)s->flat->parameters * (size_t)ranks_of(s);
    card        *cards = haul__calloc(count, sizeof *cards);
    haul_status  status = cards ? bring_all(s, o, cards) : haul__fail_memory(GATHER, count * sizeof *cards);
    haul__free(cards);
    return status;
}

haul_status haul__shards_gather(const haul__shards *s, haul_optimizer *o)
{
    if (haul__refuse_followed(GATHER, "talks to other ranks"))
        return haul_error_status();
    if (haul__is_dry())
        return HAUL_OK;
    haul_status status = o ? gather_state(s, o) : HAUL_OK;
    if (!status && s->parts)
        status = haul__parts_gather(s->parts, GATHER);
    if (status)
        haul__group_pass_error(s->group, GATHER);
    return status;
}
