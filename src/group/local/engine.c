/* How bytes move between ranks of a crew.
 *
 * The ranks of a group meet in its *meeting*. A collective call waits there until all ranks have made theirs; the last
 * one copies everything, for all of them. A message waits there, as a copy, until its receiver takes it.
 *
 * 1. Everything in a meeting is guarded by the lock of its crew.
 * 2. A rank has at most one open collective call, because its works have made the one before. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/fork.h"
#include "group/local/crew.h"

typedef enum call_type { NONE, ALL_TO_ALL, ALL_GATHER, BROADCAST, SPLIT } call_type;

/* A rank's collective call: open until all ranks have made theirs. */
typedef struct call {
    call_type      type;
    bool           open, failed;
    const char    *out;
    char          *in;
    haul__portions sent, got;
    int            bytes, root, color, key;
    haul__engine **made;
} call;

typedef struct message message;
struct message {
    message *next;
    int      from, to, bytes;
    int      channel;
    char     data[];
};

struct haul__meeting {
    haul__crew        *crew;
    int                size, references;        /* of engines */
    int                open;                    /* calls */
    int                places[HAUL__CREW_MOST]; /* of its ranks in the crew */
    call               calls[HAUL__CREW_MOST];
    message           *first, **end;
    haul__error_record error; /* of the last call that failed, on all ranks */
};

/* A receive that waits. The value of its request; that of a collective call is 0. */
typedef struct receive receive;
struct receive {
    receive *next;
    char    *data;
    int      bytes, from, channel;
};

typedef struct local_engine {
    haul__engine   base;
    haul__meeting *meeting;
    receive       *receives;
} local_engine;

static const char operation[] = "haul_group_run";

void haul__crew_changed(haul__crew *crew)
{
    crew->changes++;
    pthread_cond_broadcast(&crew->changed);
}

/* ---- making and freeing ---- */

static haul__meeting *new_meeting(haul__crew *crew)
{
    haul__meeting *m = haul__calloc(1, sizeof *m);
    if (m) {
        m->crew = crew;
        m->end = &m->first;
    }
    return m;
}

haul__meeting *haul__meeting_of_all(haul__crew *crew)
{
    haul__meeting *m = new_meeting(crew);
    if (m)
        m->size = crew->size;
    for (int r = 0; m && r < crew->size; r++)
        m->places[r] = r;
    return m;
}

void haul__meeting_free(haul__meeting *m)
{
    while (m && m->first) {
        message *next = m->first->next;
        haul__free(m->first);
        m->first = next;
    }
    haul__free(m);
}

/* The caller has the lock. NULL if memory is exhausted. */
static local_engine *new_engine(haul__meeting *m, int rank)
{
    local_engine *e = haul__calloc(1, sizeof *e);
    if (!e)
        return NULL;
    HAUL__ASSERT(rank >= 0 && rank < m->size && m->size <= HAUL__CREW_MOST);
    e->base = (haul__engine){.kind = &haul__group_local, .rank = rank, .size = m->size};
    e->meeting = m;
    m->references++;
    m->crew->references++;
    return e;
}

haul__engine *haul__local_engine_new(haul__meeting *m, int rank)
{
    pthread_mutex_lock(&m->crew->lock);
    local_engine *e = new_engine(m, rank);
    pthread_mutex_unlock(&m->crew->lock);
    if (!e)
        haul__fail_memory(operation, sizeof *e);
    return e ? &e->base : NULL;
}

const haul__rank *haul__local_engine_rank(const haul__engine *e)
{
    const haul__meeting *m = ((const local_engine *)e)->meeting;
    return &m->crew->ranks[m->places[e->rank]];
}

/* The crew's own meeting stays as long as the crew, for ranks that have not entered. In the child of a fork another
 * rank may have had the lock, so everything stays as it is. */
static void close_local(haul__engine *base)
{
    local_engine  *e = (local_engine *)base;
    haul__meeting *m = e->meeting;
    haul__crew    *crew = m->crew;
    if (crew->forks != haul__fork_count())
        return;
    pthread_mutex_lock(&crew->lock);
    HAUL__ASSERT(m->references > 0 && crew->references > 0);
    const bool last = --m->references == 0 && m != crew->world;
    pthread_mutex_unlock(&crew->lock);
    if (last)
        haul__meeting_free(m);
    while (e->receives) {
        receive *next = e->receives->next;
        haul__free(e->receives);
        e->receives = next;
    }
    haul__free(e);
    haul__crew_release(crew);
}

/* ---- splits ---- */

static bool comes_before(const call *calls, int a, int b)
{
    return calls[a].key < calls[b].key || (calls[a].key == calls[b].key && a < b);
}

/* The ranks of m that pass this color, in the order of their keys. Returns how many. */
static int ranks_of(const haul__meeting *m, int color, int *out)
{
    int count = 0;
    for (int r = 0; r < m->size; r++) {
        if (m->calls[r].color != color)
            continue;
        int at = count++;
        for (; at > 0 && comes_before(m->calls, r, out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = r;
    }
    HAUL__ASSERT(count > 0 && count <= m->size);
    return count;
}

/* The engines of one color. */
static bool split_color(haul__meeting *m, int color, haul__engine **made)
{
    int            ranks[HAUL__CREW_MOST];
    haul__meeting *part = new_meeting(m->crew);
    if (!part)
        return false;
    part->size = ranks_of(m, color, ranks);
    HAUL__ASSERT(part->size > 0 && part->size <= m->size);
    for (int i = 0; i < part->size; i++)
        part->places[i] = m->places[ranks[i]];
    for (int i = 0; i < part->size; i++) {
        local_engine *e = new_engine(part, i);
        made[ranks[i]] = e ? &e->base : NULL;
        if (!e && i == 0)
            haul__meeting_free(part);
        if (!e)
            return false;
    }
    return true;
}

/* The caller has the lock, so the parts are freed without it. */
static void drop_engines(haul__meeting *m, haul__engine **made)
{
    for (int r = 0; r < m->size; r++) {
        local_engine *e = (local_engine *)made[r];
        if (!e)
            continue;
        HAUL__ASSERT(m->crew->references > 1 && e->meeting->references > 0);
        m->crew->references--;
        if (--e->meeting->references == 0)
            haul__meeting_free(e->meeting);
        haul__free(e);
    }
}

static haul_status split(haul__meeting *m)
{
    haul__engine *made[HAUL__CREW_MOST] = {NULL};
    for (int r = 0; r < m->size; r++)
        if (!made[r] && !split_color(m, m->calls[r].color, made)) {
            drop_engines(m, made);
            return haul__fail_memory("haul_group_split", sizeof *m);
        }
    HAUL__ASSERT(made[0] && made[m->size - 1]);
    for (int r = 0; r < m->size; r++)
        *m->calls[r].made = made[r];
    return HAUL_OK;
}

/* ---- collective calls ---- */

static haul_status refuse_sizes(int from, int sent, int to, int expected)
{
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, NULL, "rank %d sends %d bytes, but rank %d expects %d", from,
                      sent, to, expected);
}

static void copy(char *to, int to_at, const char *from, int from_at, int bytes)
{
    if (bytes)
        memcpy(to + to_at, from + from_at, (size_t)bytes);
}

/* What rank `from` has for rank `to`. */
static haul_status copy_between(const haul__meeting *m, int from, int to)
{
    const call *a = &m->calls[from], *b = &m->calls[to];
    HAUL__ASSERT(from != to && a->type == b->type && a->open && b->open);
    switch (a->type) {
    case ALL_TO_ALL:
        if (a->sent.bytes[to] != b->got.bytes[from])
            return refuse_sizes(from, a->sent.bytes[to], to, b->got.bytes[from]);
        copy(b->in, b->got.at[from], a->out, a->sent.at[to], a->sent.bytes[to]);
        return HAUL_OK;
    case ALL_GATHER:
        if (a->got.bytes[from] != b->got.bytes[from])
            return refuse_sizes(from, a->got.bytes[from], to, b->got.bytes[from]);
        copy(b->in, b->got.at[from], a->in, a->got.at[from], a->got.bytes[from]);
        return HAUL_OK;
    case BROADCAST:
        if (a->bytes != b->bytes || a->root != b->root)
            return refuse_sizes(from, a->bytes, to, b->bytes);
        if (from == a->root)
            copy(b->in, 0, a->in, 0, a->bytes);
        return HAUL_OK;
    default: return HAUL_OK;
    }
}

static haul_status complete(haul__meeting *m)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(m->open == m->size);
    for (int r = 1; r < m->size; r++)
        if (m->calls[r].type != m->calls[0].type)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, NULL, "ranks 0 and %d are in different collectives", r);
    if (m->calls[0].type == SPLIT)
        return split(m);
    for (int from = 0; from < m->size; from++)
        for (int to = 0; to < m->size && !status; to++)
            if (from != to)
                status = copy_between(m, from, to);
    return status;
}

/* Makes the call of a rank. The last rank completes those of all. */
static haul_status meet(haul__engine *base, const call *made, haul__request *request)
{
    haul__meeting *m = ((local_engine *)base)->meeting;
    haul__crew    *crew = m->crew;
    pthread_mutex_lock(&crew->lock);
    HAUL__ASSERT(base->rank < m->size && (!m->calls[base->rank].open || crew->lost));
    m->calls[base->rank] = *made;
    m->calls[base->rank].open = true;
    if (++m->open == m->size && !crew->lost) {
        const bool failed = complete(m) != HAUL_OK;
        if (failed)
            haul__error_save(&m->error);
        for (int r = 0; r < m->size; r++) {
            m->calls[r].open = false;
            m->calls[r].failed = failed;
        }
        m->open = 0;
    }
    haul__crew_changed(crew);
    pthread_mutex_unlock(&crew->lock);
    *request = (haul__request){.open = true};
    return HAUL_OK;
}

static haul_status all_to_all(haul__engine *e, const void *out, haul__portions sent, void *in, haul__portions got,
                              haul__request *request)
{
    return meet(e, &(call){.type = ALL_TO_ALL, .out = out, .sent = sent, .in = in, .got = got}, request);
}

static haul_status all_gather(haul__engine *e, void *all, haul__portions portions, haul__request *request)
{
    return meet(e, &(call){.type = ALL_GATHER, .in = all, .got = portions}, request);
}

static haul_status broadcast(haul__engine *e, void *data, int bytes, int root, haul__request *request)
{
    return meet(e, &(call){.type = BROADCAST, .in = data, .bytes = bytes, .root = root}, request);
}

/* Groups without a parent are those of haul__rank_enter. */
static haul_status open_local(haul__engine *parent, int color, int key, haul__engine **out, haul__request *request)
{
    return meet(parent, &(call){.type = SPLIT, .color = color, .key = key, .made = out}, request);
}

/* ---- messages ---- */

static haul_status send_to(haul__engine *base, const void *data, int bytes, int to, haul__group_channel channel,
                           haul__request *request)
{
    haul__meeting *m = ((local_engine *)base)->meeting;
    HAUL__ASSERT(bytes >= 0 && 0 <= to && to < m->size);
    message *sent = haul__malloc(sizeof *sent + (size_t)bytes);
    if (!sent)
        return haul__fail_memory(operation, sizeof *sent + (size_t)bytes);
    *sent = (message){.from = base->rank, .to = to, .bytes = bytes, .channel = (int)channel};
    copy(sent->data, 0, data, 0, bytes);
    pthread_mutex_lock(&m->crew->lock);
    HAUL__ASSERT(!*m->end);
    *m->end = sent;
    m->end = &sent->next;
    haul__crew_changed(m->crew);
    pthread_mutex_unlock(&m->crew->lock);
    request->open = false;
    return HAUL_OK;
}

static haul_status receive_from(haul__engine *base, void *data, int bytes, int from, haul__group_channel channel,
                                haul__request *request)
{
    local_engine *e = (local_engine *)base;
    receive      *r = haul__malloc(sizeof *r);
    if (!r)
        return haul__fail_memory(operation, sizeof *r);
    *r = (receive){.next = e->receives, .data = data, .bytes = bytes, .from = from, .channel = (int)channel};
    e->receives = r;
    *request = (haul__request){.value = (intptr_t)r, .open = true};
    return HAUL_OK;
}

/* Where the message for a receive is in the list; where its end is if there is none. The caller has the lock. */
static message **find(haul__meeting *m, int to, const receive *r)
{
    message **at = &m->first;
    while (*at && ((*at)->to != to || (*at)->from != r->from || (*at)->channel != r->channel))
        at = &(*at)->next;
    return at;
}

static message *take(haul__meeting *m, int to, const receive *r)
{
    message **at = find(m, to, r), *found = *at;
    if (found) {
        *at = found->next;
        if (m->end == &found->next)
            m->end = at;
    }
    return found;
}

static haul_status progress_receive(local_engine *e, receive *r, haul__request *request)
{
    haul__meeting *m = e->meeting;
    receive      **at = &e->receives;
    haul_status    status = HAUL_OK;
    pthread_mutex_lock(&m->crew->lock);
    message *found = take(m, e->base.rank, r);
    pthread_mutex_unlock(&m->crew->lock);
    if (!found)
        return HAUL_OK;
    HAUL__ASSERT(found->to == e->base.rank && found->from == r->from);
    request->open = false;
    if (found->bytes == r->bytes)
        copy(r->data, 0, found->data, 0, r->bytes);
    else
        status = refuse_sizes(r->from, found->bytes, e->base.rank, r->bytes);
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    haul__free(r);
    haul__free(found);
    return status;
}

static haul_status progress(haul__engine *base, haul__request *request)
{
    local_engine  *e = (local_engine *)base;
    haul__meeting *m = e->meeting;
    if (request->value)
        return progress_receive(e, (receive *)request->value, request);
    pthread_mutex_lock(&m->crew->lock);
    HAUL__ASSERT(m->calls[base->rank].type != NONE);
    request->open = m->calls[base->rank].open;
    const bool failed = !request->open && m->calls[base->rank].failed;
    if (failed)
        haul__error_restore(&m->error);
    pthread_mutex_unlock(&m->crew->lock);
    return failed ? haul_error_status() : HAUL_OK;
}

int haul__local_missing(const haul__engine *base, const haul__request *request, bool ended)
{
    const local_engine *e = (const local_engine *)base;
    haul__meeting      *m = e->meeting;
    const receive      *waits = (const receive *)request->value;
    int                 missing = -1;
    for (int r = 0; r < m->size && missing < 0; r++) {
        const bool here =
            waits ? r != waits->from || *find(m, base->rank, waits) : m->calls[r].open || !m->calls[base->rank].open;
        if (!here && (!ended || m->crew->ranks[m->places[r]].ended))
            missing = r;
    }
    return missing;
}

/* ---- descriptions ---- */

/* A failed rank ends the others by an error. The process goes on. */
static void abort_local(haul__engine *e)
{
    (void)e;
}

static void describe(const haul__engine *e, haul_group_properties *out)
{
    (void)e;
    out->library = out->family = out->version = "";
}

static const char *device(const haul__engine *base, int rank)
{
    const haul__meeting *m = ((const local_engine *)base)->meeting;
    return m->crew->ranks[m->places[rank]].device_name;
}

const haul__group_kind haul__group_local = {
    .name = "local",
    .called = HAUL__CALLED_BY_RANK,
    .open = open_local,
    .close = close_local,
    .all_to_all = all_to_all,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .send = send_to,
    .receive = receive_from,
    .progress = progress,
    .abort = abort_local,
    .describe = describe,
    .device = device,
};
