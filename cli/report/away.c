#include "cli/report/away.h"

#include <stdlib.h>

typedef struct follower {
    const haul_program *p;
    const haul_device  *device;
    double              limit, present; /* bytes */
    int64_t            *uses;           /* operations, those of each store in order */
    int64_t            *first, *next;   /* of each store: its first use in `uses`, and its next one */
    int64_t            *gone;           /* the operation since which it is away; -1: it is on the device */
    bool               *live;
    bool                records; /* the second step */
    away               *out;
} follower;

static bool is_here(const follower *f, int64_t store)
{
    const haul_program_store *s = &f->p->stores[store];
    return s->device == f->device && !s->pinned && s->bytes > 0;
}

static double bytes_of(const follower *f, int64_t store)
{
    return (double)f->p->stores[store].bytes;
}

/* Calls for each store that an operation uses, once for each value. */
static void each_use(follower *f, int64_t operation, void (*use)(follower *f, int64_t store, int64_t operation))
{
    const haul_program_operation *o = &f->p->operations[operation];
    for (int64_t v = o->value; v < o->value + o->operand_count + o->result_count; v++)
        if (f->p->values[v].store >= 0 && is_here(f, f->p->values[v].store))
            use(f, f->p->values[v].store, operation);
}

static void count_use(follower *f, int64_t store, int64_t operation)
{
    (void)operation;
    f->first[store + 1]++;
}

static void note_use(follower *f, int64_t store, int64_t operation)
{
    f->uses[f->next[store]++] = operation;
}

/* The uses of each store, in `uses` from first[store] to first[store + 1]. */
static void find_uses(follower *f)
{
    for (int64_t i = 0; i < f->p->operation_count; i++)
        each_use(f, i, count_use);
    for (int64_t s = 0; s < f->p->store_count; s++)
        f->first[s + 1] += f->first[s];
    for (int64_t s = 0; s < f->p->store_count; s++)
        f->next[s] = f->first[s];
    for (int64_t i = 0; i < f->p->operation_count; i++)
        each_use(f, i, note_use);
}

/* The next operation after this one that uses the store. One that none does is used in the next step. */
static int64_t next_use(follower *f, int64_t store, int64_t after)
{
    while (f->next[store] < f->first[store + 1] && f->uses[f->next[store]] <= after)
        f->next[store]++;
    if (f->next[store] < f->first[store + 1])
        return f->uses[f->next[store]];
    return f->p->operation_count +
           (f->first[store] < f->first[store + 1] ? f->uses[f->first[store]] : f->p->operation_count);
}

static void come_back(follower *f, int64_t store, int64_t operation)
{
    if (f->gone[store] < 0)
        return;
    away *o = f->out;
    f->present += bytes_of(f, store);
    if (f->records && o->count < o->room)
        o->times[o->count++] = (away_time){store, f->gone[store], operation - 1};
    o->returned += f->records ? bytes_of(f, store) : 0;
    f->gone[store] = -1;
}

/* An operation has its operands on the device. */
static void take(follower *f, int64_t store, int64_t operation)
{
    if (!f->live[store])
        f->present += bytes_of(f, store);
    f->live[store] = true;
    come_back(f, store, operation);
}

static bool is_used_by(const follower *f, int64_t store, int64_t operation)
{
    const haul_program_operation *o = &f->p->operations[operation];
    for (int64_t v = o->value; v < o->value + o->operand_count + o->result_count; v++)
        if (f->p->values[v].store == store)
            return true;
    return false;
}

/* False if nothing else can go. */
static bool send_one_away(follower *f, int64_t operation)
{
    int64_t found = -1, latest = -1;
    for (int64_t s = 0; s < f->p->store_count; s++) {
        if (!f->live[s] || f->gone[s] >= 0 || !is_here(f, s) || is_used_by(f, s, operation))
            continue;
        const int64_t use = next_use(f, s, operation);
        if (use > latest) {
            latest = use;
            found = s;
        }
    }
    if (found < 0)
        return false;
    f->gone[found] = operation;
    f->present -= bytes_of(f, found);
    f->out->left += f->records ? bytes_of(f, found) : 0;
    return true;
}

static void end_stores(follower *f, int64_t operation)
{
    for (int64_t s = 0; s < f->p->store_count; s++) {
        const haul_program_store *store = &f->p->stores[s];
        if (!f->live[s] || store->kind == HAUL_STORE_OUTSIDE || store->outlives || store->last > operation)
            continue;
        f->present -= f->gone[s] < 0 ? bytes_of(f, s) : 0;
        f->live[s] = false;
        f->gone[s] = -1;
    }
}

static void step(follower *f)
{
    for (int64_t s = 0; s < f->p->store_count; s++)
        f->next[s] = f->first[s];
    for (int64_t i = 0; i < f->p->operation_count; i++) {
        each_use(f, i, take);
        while (f->present > f->limit && send_one_away(f, i))
            ;
        end_stores(f, i);
    }
    for (int64_t s = 0; s < f->p->store_count; s++) /* those that are away at the end of the picture */
        if (f->records && f->gone[s] >= 0 && f->out->count < f->out->room)
            f->out->times[f->out->count++] = (away_time){s, f->gone[s], f->p->operation_count - 1};
}

/* What one step leaves away is away when the next one begins. */
static void follow(follower *f)
{
    for (int64_t s = 0; s < f->p->store_count; s++) {
        f->gone[s] = -1;
        f->live[s] = f->p->stores[s].kind == HAUL_STORE_OUTSIDE && is_here(f, s);
        f->present += f->live[s] ? bytes_of(f, s) : 0;
    }
    find_uses(f);
    step(f);
    for (int64_t s = 0; s < f->p->store_count; s++)
        f->gone[s] = f->gone[s] < 0 ? -1 : 0;
    f->records = true;
    step(f);
}

bool away_find(const haul_program *p, const haul_device *device, double limit, away *out)
{
    const size_t stores = (size_t)p->store_count + 2, values = (size_t)p->value_count + 1;
    follower     f = {.p = p, .device = device, .limit = limit, .out = out};
    *out = (away){.room = (int64_t)values};
    f.uses = calloc(values, sizeof *f.uses);
    f.first = calloc(stores, sizeof *f.first);
    f.next = calloc(stores, sizeof *f.next);
    f.gone = calloc(stores, sizeof *f.gone);
    f.live = calloc(stores, sizeof *f.live);
    out->times = calloc(values, sizeof *out->times);
    const bool fine = f.uses && f.first && f.next && f.gone && f.live && out->times;
    if (fine)
        follow(&f);
    else
        away_free(out);
    free(f.uses);
    free(f.first);
    free(f.next);
    free(f.gone);
    free(f.live);
    return fine;
}

void away_free(away *a)
{
    free(a->times);
    *a = (away){.count = 0};
}
