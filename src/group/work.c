/* Works: how they begin, compare their heads, get on and end. What the data of each kind of collective needs is in
 * moves.c. */
#include "group/work.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fnv.h"
#include "base/system/clock.h"
#include "base/text/plain.h"
#include "core/trial.h"
#include "events/events.h"
#include "group/local/rank.h"
#include "group/thread.h"

/* ---- making and freeing ---- */

/* All arrays of one element for each rank, in one piece of memory. */
static bool make_arrays(haul__work *w)
{
    const size_t size = (size_t)w->group->size;
    int         *counts = haul__calloc(size, 4 * sizeof *counts);
    int64_t     *bytes = haul__calloc(size, 2 * sizeof *bytes);
    w->heads = haul__calloc(size, sizeof *w->heads);
    for (int i = 0; i < 4; i++)
        w->counts[i] = counts ? counts + (size_t)i * size : NULL;
    w->in_bytes = bytes;
    w->out_bytes = bytes ? bytes + size : NULL;
    return counts && bytes && w->heads;
}

haul__work *haul__work_new(haul_group *group, const haul__group_call *call)
{
    haul__work *w = haul__calloc(1, sizeof *w);
    if (!w) {
        haul__fail_memory(call->name, sizeof *w);
        return NULL;
    }
    haul__object_keep(group);
    w->group = group;
    w->name = call->name;
    w->collective = true;
    w->peer = -1;
    haul__snprintf(w->what, sizeof w->what, "%s", call->what ? call->what : "");
    if (make_arrays(w))
        return w;
    haul__fail_memory(call->name, (size_t)group->size * sizeof *w->heads);
    haul__work_drop(w);
    return NULL;
}

void haul__work_drop(haul__work *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->staged.count; i++)
        haul__object_release(w->staged.storages[i]);
    haul__free(w->staged.storages);
    haul__object_release(w->staged.result);
    haul__free(w->sum.memory);
    haul__free(w->sum.room);
    haul__free(w->sum.bounds);
    haul__free(w->counts[0]);
    haul__free(w->in_bytes);
    haul__free(w->heads);
    haul__free(w->texts);
    haul__free(w->copy);
    haul__free(w->direct.messages);
    haul__free(w->get);
    haul__free(w->error);
    haul__object_release(w->group);
    haul__free(w);
}

/* ---- how it ends ---- */

/* The time is taken here, because its owner may look at it much later. */
static void end(haul__work *w)
{
    if (w->first_ns)
        w->over_ns = haul__now_ns();
    w->over = true;
}

haul_status haul__work_over(haul__work *w)
{
    end(w);
    return HAUL_OK;
}

static atomic_llong all_begun, all_sent, all_exchange_ns, all_hidden_ns;

haul__group_count haul__group_counts(void)
{
    return (haul__group_count){.collectives = atomic_load(&all_begun),
                               .sent_bytes = atomic_load(&all_sent),
                               .exchange_ns = atomic_load(&all_exchange_ns),
                               .hidden_ns = atomic_load(&all_hidden_ns)};
}

void haul__group_exchanged(haul_group *group, int64_t exchange_ns, int64_t hidden_ns)
{
    HAUL__ASSERT(0 <= hidden_ns && hidden_ns <= exchange_ns);
    atomic_fetch_add(&all_exchange_ns, exchange_ns);
    atomic_fetch_add(&all_hidden_ns, hidden_ns);
    atomic_fetch_add(&group->exchange_ns, exchange_ns);
    atomic_fetch_add(&group->hidden_ns, hidden_ns);
}

haul__group_count haul__group_exchange_time(const haul_group *group)
{
    return (haul__group_count){.exchange_ns = atomic_load(&group->exchange_ns),
                               .hidden_ns = atomic_load(&group->hidden_ns)};
}

void haul__group_sends(haul_group *group, int64_t bytes)
{
    atomic_fetch_add(&all_sent, bytes);
    atomic_fetch_add(&group->sent_bytes, bytes);
}

void haul__work_sends(haul__work *w, int64_t bytes)
{
    w->sent += bytes;
    haul__group_sends(w->group, bytes);
}

bool haul__work_has_request(const haul__work *w)
{
    return w->requests[0].open || w->requests[1].open;
}

void haul__work_fail(haul__work *w)
{
    w->status = haul_error_status();
    if (!w->error)
        w->error = haul__malloc(sizeof *w->error);
    if (w->error)
        haul__error_save(w->error);
    end(w);
}

/* ---- heads and texts ---- */

/* Equal portions of `bytes` for each rank, in two of the work's arrays. */
static haul__portions equal_portions(haul__work *w, int bytes)
{
    for (int r = 0; r < w->group->size; r++) {
        w->counts[0][r] = bytes;
        w->counts[1][r] = bytes * r;
    }
    return (haul__portions){.bytes = w->counts[0], .at = w->counts[1]};
}

/* The ranks' texts have arrived: the error that all of them get. */
static haul_status texts_arrived(haul__work *w)
{
    const haul_group *g = w->group;
    char              one[128], other[128];
    int               first = -1, failed = 0;
    for (int r = g->size - 1; r >= 0; r--)
        if (w->heads[r].passes_error) {
            first = r;
            failed++;
        }
    w->together = failed == g->size;
    w->of_another = first >= 0 && !w->error;
    if (first >= 0) {
        haul__group_describe_rank(g, first, one, sizeof one);
        return haul__fail(HAUL_STATE, w->name, NULL, "%s has failed before collective %llu%s%.100s: %.250s", one,
                          (unsigned long long)w->number, w->what[0] ? ", " : "", w->what,
                          w->texts + (size_t)first * HAUL__WORK_TEXT);
    }
    for (first = 1; first < g->size && w->heads[first].hash == w->heads[0].hash; first++)
        ;
    HAUL__ASSERT(first < g->size);
    haul__group_describe_rank(g, 0, one, sizeof one);
    haul__group_describe_rank(g, first, other, sizeof other);
    return haul__fail(HAUL_INVALID_ARGUMENT, w->name, NULL,
                      "the ranks differ in collective %llu: %s calls %.110s, but %s calls %.110s; all ranks of a group "
                      "must make the same calls in the same order",
                      (unsigned long long)w->number, one, w->texts, other, w->texts + (size_t)first * HAUL__WORK_TEXT);
}

static void write_call(const haul__work *w, char *out)
{
    char bytes[40] = "";
    if (w->equal)
        haul__snprintf(bytes, sizeof bytes, " (%lld bytes)", (long long)w->equal);
    haul__snprintf(out, HAUL__WORK_TEXT, "%s%s%s%s%s", w->name, w->what[0] ? " of " : "", w->what, bytes,
                   w->staged.direct ? " from GPU to GPU" : "");
}

static haul_status exchange_texts(haul__work *w)
{
    const size_t size = (size_t)w->group->size;
    HAUL__ASSERT(!w->texts);
    w->texts = haul__calloc(size, HAUL__WORK_TEXT);
    if (!w->texts)
        return haul__fail_memory(w->name, size * HAUL__WORK_TEXT);
    char *own = w->texts + (size_t)w->group->rank * HAUL__WORK_TEXT;
    if (w->error)
        haul__snprintf(own, HAUL__WORK_TEXT, "%s", w->error->message);
    else
        write_call(w, own);
    w->phase = -1;
    HAUL__ASSERT(!w->requests[0].open);
    return w->group->engine->kind->all_gather(w->group->engine, w->texts, equal_portions(w, HAUL__WORK_TEXT),
                                              &w->requests[0]);
}

/* The heads have arrived: the data may move if they are equal. */
static haul_status compare_heads(haul__work *w)
{
    HAUL__ASSERT(w->collective && w->phase == 0);
    w->phase = 1;
    for (int r = 0; r < w->group->size; r++)
        if (w->heads[r].passes_error || w->heads[r].hash != w->heads[0].hash)
            return exchange_texts(w);
    return HAUL_OK;
}

static haul_status exchange_heads(haul__work *w)
{
    haul__work_head *own = &w->heads[w->group->rank];
    own->number = w->number;
    own->hash = haul__fnv(haul__fnv(HAUL__FNV, w->name, strlen(w->name) + 1), w->what, strlen(w->what));
    own->hash = haul__fnv(own->hash, &w->equal, sizeof w->equal);
    own->hash = haul__fnv(own->hash, &w->staged.direct, sizeof w->staged.direct);
    own->passes_error = w->error != NULL;
    w->phase = 0;
    return w->group->engine->kind->all_gather(w->group->engine, w->heads, equal_portions(w, (int)sizeof *own),
                                              &w->requests[0]);
}

/* ---- steps ---- */

/* True if a request is still open. */
static haul_status poll_requests(haul__work *w, bool *open, bool *changed)
{
    *open = false;
    for (int i = 0; i < 2; i++) {
        haul__request *request = &w->requests[i];
        if (!request->open)
            continue;
        if (w->group->engine->kind->progress(w->group->engine, request))
            return haul_error_status();
        *open |= request->open;
        *changed |= !request->open;
    }
    return w->ask && !*open ? w->ask(w, open) : HAUL_OK;
}

enum { FRESH = -2, TEXTS = -1, HEADS = 0 };

static haul_status move_on(haul__work *w)
{
    if (w->phase == FRESH)
        return exchange_heads(w);
    if (w->phase == TEXTS)
        return texts_arrived(w);
    const haul_status status = w->phase == HEADS ? compare_heads(w) : HAUL_OK;
    return status || w->phase == TEXTS ? status : w->next(w);
}

bool haul__work_step(haul__work *w)
{
    bool open, changed = false;
    while (!w->over) {
        if (poll_requests(w, &open, &changed)) {
            haul__work_fail(w);
            break;
        }
        if (open)
            return changed;
        changed = true;
        w->begun_ns = haul__system_ns();
        if (move_on(w))
            haul__work_fail(w);
    }
    return true;
}

/* ---- beginning and waiting ---- */

/* Works of a group run one after the other if they are of the same kind: requests of offers are of none. */
static bool are_in_order(const haul__work *a, const haul__work *b)
{
    if (a->group != b->group || a->collective != b->collective || a->get || b->get)
        return false;
    return a->collective || (a->peer >= 0 && a->peer == b->peer && a->receives == b->receives);
}

bool haul__work_must_wait(const haul__work *w, const haul__work *first)
{
    for (const haul__work *e = first; e != w; e = e->later)
        if (are_in_order(e, w))
            return true;
    return false;
}

void haul__work_break_group(haul__work *w)
{
    haul_group *g = w->group;
    if (g->broken)
        return;
    HAUL__ASSERT(w->over && w->status && !g->why);
    g->broken = true;
    g->why = haul__malloc(sizeof *g->why);
    if (g->why && w->error)
        *g->why = *w->error;
}

void haul__work_refuse_broken(haul__work *w)
{
    const haul__error_record *why = w->group->why;
    haul__fail(HAUL_STATE, w->name, NULL, "the group cannot be used after a failed collective: %.400s",
               why ? why->message : "no memory was left for its error");
    haul__work_fail(w);
}

/* On the caller's thread, to the end. */
static void run_here(haul__work *w)
{
    haul__error_record before;
    haul__error_save(&before);
    while (!w->over)
        haul__work_step(w);
    if (w->status && !w->together)
        haul__work_break_group(w);
    haul__error_restore(&before);
    HAUL__ASSERT(w->over && !atomic_load(&w->done));
    atomic_store(&w->done, true);
}

static haul_event event_of(const haul__work *w, haul_event_kind kind)
{
    return (haul_event){.kind = kind, .operation = w->name, .text = w->what, .command = w->number};
}

/* The thread that begins it emits both events. The work may be over, but not freed, when the first one is emitted. */
static void report_begin(const haul__work *w)
{
    haul_event e = event_of(w, HAUL_EVENT_COLLECTIVE_BEGIN);
    e.time = w->first_ns;
    haul__emit(&e);
}

static void report_end(const haul__work *w)
{
    haul_event e = event_of(w, HAUL_EVENT_COLLECTIVE_END);
    e.bytes = w->sent;
    e.time = w->over_ns;
    e.duration = w->over_ns - w->first_ns;
    haul__emit(&e);
}

static haul__work *pass_on(haul__work *w)
{
    const bool reports = (w->collective || w->numbered) && haul__watched(HAUL_EVENT_COLLECTIVE);
    w->reports = reports;
    w->first_ns = haul__now_ns();
    w = w->group->engine->kind->called == HAUL__CALLED_BY_RANK ? haul__rank_take(w) : haul__group_thread_take(w);
    if (w && reports)
        report_begin(w);
    return w;
}

haul__work *haul__work_start(haul__work *w)
{
    if (haul__refuse_followed(w->name, "talks to other ranks")) {
        haul__work_drop(w);
        return NULL;
    }
    w->phase = w->collective ? FRESH : 1;
    HAUL__ASSERT(!w->over && !w->status && w->next);
    w->begun_ns = haul__system_ns();
    if (haul__is_dry()) {
        w->over = true;
        atomic_store(&w->done, true);
        return w;
    }
    if (w->collective)
        atomic_fetch_add(&all_begun, 1);
    if (w->group->engine->kind->called != HAUL__CALLED_AT_ONCE)
        return pass_on(w);
    if (w->group->broken) {
        haul__work_refuse_broken(w);
        haul__work_drop(w);
        return NULL;
    }
    if (w->collective)
        w->number = atomic_fetch_add(&w->group->begun, 1) + 1;
    run_here(w);
    return w;
}

bool haul__work_is_done(const haul__work *w)
{
    if (w && w->group->engine->kind->called == HAUL__CALLED_BY_RANK)
        haul__rank_step();
    return !w || atomic_load(&w->done);
}

static void wait_for(haul__work *w)
{
    if (!atomic_load(&w->done) && w->group->engine->kind->called == HAUL__CALLED_BY_RANK)
        haul__rank_wait(w);
    else if (!atomic_load(&w->done))
        haul__group_thread_wait(w);
    HAUL__ASSERT(atomic_load(&w->done) && w->over && w->first_ns <= w->over_ns);
}

haul_status haul__work_wait_timed(haul__work *w, int64_t *begin, int64_t *end)
{
    if (w)
        wait_for(w);
    *begin = w ? w->first_ns : 0;
    *end = w ? w->over_ns : 0;
    return haul__work_wait(w);
}

haul_status haul__work_wait(haul__work *w)
{
    if (!w)
        return haul_error_status();
    wait_for(w);
    if (w->reports)
        report_end(w);
    haul_status status = w->status;
    if (status && w->error)
        haul__error_restore(w->error);
    else if (status)
        haul__fail(status, w->name, NULL, "the collective failed, and no memory was left for its error");
    else if (w->staged.result)
        status = haul__staged_finish(w);
    haul__work_drop(w);
    return status;
}
