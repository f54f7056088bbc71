#include "parallel/absent.h"

#include <haul/autograd.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/object.h"
#include "core/tensor.h"
#include "memory/dry_run/dry_run.h"
#include "memory/spill/elsewhere.h"

struct haul__absent {
    haul__elsewhere   head;
    const haul__flat *all;
    const haul__cut  *cut;
    const int        *owners;
    haul_group       *group;
    haul__storage   **storages; /* of the parameters: those given up, with references; NULL: the others */
    const void       *comes;    /* the elements of the one that comes; NULL: none */
};

static haul__absent *absent_of(haul__elsewhere *e)
{
    return (haul__absent *)(void *)e;
}

/* Nothing else has to make room. */
static void before(haul__elsewhere *e, int64_t number, const haul__command *c)
{
    (void)e;
    (void)number;
    (void)c;
}

static haul_status fetch(haul__elsewhere *e, int64_t number, void *to, size_t bytes)
{
    const haul__absent *a = absent_of(e);
    HAUL__ASSERT(0 <= number && number < a->all->parameters && a->storages[number]);
    if (!a->comes)
        return haul__fail(HAUL_STATE, "haul_parallel_call", NULL,
                          "rank %d has the parameter '%.80s', which is in another stage; haul_parallel_call calls the "
                          "stages of the network, and haul_parallel_gather brings all parameters to rank 0",
                          a->owners[number], a->all->items[number].name);
    memcpy(to, a->comes, bytes);
    return HAUL_OK;
}

haul__absent *haul__absent_new(const haul__flat *all, const haul__cut *cut, const int *owners, haul_group *group)
{
    const size_t  count = (size_t)all->parameters;
    haul__absent *a = haul__calloc(1, sizeof *a);
    if (a)
        *a = (haul__absent){.head = {.before = before, .fetch = fetch, .out_of_reach = true},
                            .all = all,
                            .cut = cut,
                            .owners = owners,
                            .group = group,
                            .storages = haul__calloc(count, sizeof(haul__storage *))};
    if (a && a->storages)
        return a;
    haul__absent_free(a);
    haul__fail_memory("haul_parallel_new", count * sizeof(haul__storage *));
    return NULL;
}

static void end_one(haul__absent *a, int i)
{
    if (!a->storages[i])
        return;
    haul__elsewhere_end(a->storages[i]);
    haul__object_release(a->storages[i]);
    a->storages[i] = NULL;
}

void haul__absent_free(haul__absent *a)
{
    if (!a)
        return;
    for (int i = 0; a->storages && i < a->all->parameters; i++)
        end_one(a, i);
    haul__free(a->storages);
    haul__free(a);
}

static bool is_own(const haul__absent *a, int i)
{
    return a->owners[i] == haul_group_rank(a->group);
}

static haul_tensor *parameter(const haul__absent *a, int i)
{
    return a->all->items[i].tensor;
}

/* All of the memory is that of parameters which another rank has. */
static bool suits(const haul__absent *a, int i)
{
    const haul_tensor *t = parameter(a, i);
    for (int k = 0; k < a->all->parameters; k++)
        if (k != i && parameter(a, k)->storage == t->storage)
            return false;
    return haul_tensor_bytes(t) == t->storage->bytes && haul__elsewhere_suits(t->storage);
}

static haul_status give_up(haul__absent *a, int i)
{
    haul__storage *storage = parameter(a, i)->storage;
    HAUL__ASSERT(!is_own(a, i) && !a->comes);
    if (a->storages[i] != storage)
        end_one(a, i);
    if (a->storages[i]) {
        haul__elsewhere_leave(storage);
        return HAUL_OK;
    }
    if (!suits(a, i))
        return HAUL_OK;
    HAUL__ASSERT(!a->storages[i]);
    a->storages[i] = storage;
    haul__object_keep(storage);
    return haul__elsewhere_begin(storage, &a->head, i);
}

haul_status haul__absent_begin(haul__absent *a)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < a->all->parameters && !status && !haul__is_dry(); i++)
        if (!is_own(a, i))
            status = give_up(a, i);
    return status;
}

/* ---- all of them on rank 0 ---- */

/* Rank 0 has the elements of item `i` in `room`. */
static haul_status put(haul__absent *a, int i, const void *room, size_t bytes)
{
    haul__storage *storage = i < a->all->parameters ? a->storages[i] : NULL;
    haul_tensor   *t = haul_detach(a->all->items[i].tensor);
    haul_status    status = haul__status_of(t);
    const bool     comes = !status && storage && haul__is_given_up(storage);
    HAUL__ASSERT(!a->comes && room);
    if (comes) {
        a->comes = room;
        status = haul__elsewhere_come(storage, "haul_parallel_gather");
        a->comes = NULL;
    }
    /* The room is row-major; the memory of the parameter may have another order. */
    return status || (comes && haul_tensor_is_contiguous(t)) ? status : haul_write(t, room, bytes);
}

/* The owner sends an item to rank 0. sent, got: zeros, one for each rank. */
static haul_status bring(haul__absent *a, int i, int owner, int64_t *sent, int64_t *got, const char *operation)
{
    char                   what[120];
    const haul__group_call call = {.name = operation, .what = what};
    const int              rank = haul_group_rank(a->group);
    haul_tensor           *t = a->all->items[i].tensor;
    const size_t           bytes = haul_tensor_bytes(t);
    const bool             takes_part = rank == 0 || rank == owner;
    HAUL__ASSERT(0 < owner && owner < haul_group_size(a->group) && !sent[0] && !got[owner]);
    haul__snprintf(what, sizeof what, "'%.80s'", a->all->items[i].name);
    char       *room = haul__malloc(takes_part ? bytes + 1 : 1);
    haul_status status = room ? HAUL_OK : haul__fail_memory(operation, bytes);
    if (!status && rank == owner)
        status = haul_read(haul_detach(t), room, bytes);
    sent[0] = rank == owner ? (int64_t)bytes : 0;
    got[owner] = rank == 0 ? (int64_t)bytes : 0;
    if (!status)
        status = haul__work_wait(haul__group_exchange_begin(a->group, &call, rank == owner ? room : (char *)sent, sent,
                                                            rank == 0 ? room : (char *)got, got, (int64_t)bytes));
    sent[0] = got[owner] = 0;
    if (!status && rank == 0)
        status = put(a, i, room, bytes);
    haul__free(room);
    return status;
}

haul_status haul__absent_gather(haul__absent *a, const char *operation)
{
    const size_t ranks = (size_t)haul_group_size(a->group);
    const int    count = a->all->parameters + a->all->floats + a->all->integers;
    int64_t     *bytes = haul__calloc(2 * ranks, sizeof *bytes);
    haul_status  status = bytes ? HAUL_OK : haul__fail_memory(operation, 2 * ranks * sizeof *bytes);
    for (int i = 0; i < count && !status; i++) {
        const int owner = i < a->all->parameters ? a->owners[i] : haul__cut_stage(a->cut, a->all->items[i].name);
        HAUL__ASSERT(0 <= owner && owner < (int)ranks);
        if (owner == 0)
            continue;
        haul_scope *scope = haul__flat_scope();
        if (!scope) {
            status = haul_error_status();
            break;
        }
        status = bring(a, i, owner, bytes, bytes + ranks, operation);
        haul_scope_pop(scope);
    }
    haul__free(bytes);
    return status;
}
