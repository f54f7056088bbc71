/* Offers: requests of other ranks, and the answers of the group thread.
 *
 *     the rank that asks                       the rank that has the part
 *       request (epoch, part, bytes) ------->    waits until its offer is open in that epoch
 *       answer                 <-------------    the number of bytes, or an error
 *       bytes, in messages     <-------------
 *       end                    ------------->    this rank does not ask any more
 *
 * Each offer has two channels of its own, for what goes to the rank that has parts, and for what comes from it. A rank
 * makes one request at a time.
 *
 * 1. The list of offers, and what the program's thread sets in one, are guarded by the lock of the works (line.h).
 * 2. An offer is freed by the group thread, when this rank and all others have ended theirs. */
#include "group/offer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/text/plain.h"
#include "core/trial.h"
#include "group/line.h"

#define line haul__group_line

enum { FIRST_CHANNEL = 16, CHANNELS = 8192, TEXT = 480 };

typedef struct part {
    const void *data;
    size_t      bytes;
} part;

/* What a rank sends to the one that has a part. */
typedef struct request {
    int64_t ends; /* 1: it does not ask any more; the others are not set */
    int64_t epoch, part, bytes;
} request;

typedef struct answer {
    int64_t status, bytes;
    char    text[TEXT]; /* of the error */
} answer;

/* Another rank, as the one that asks. */
typedef struct asker {
    haul__request received, sent, end_sent;
    request       in, end;
    answer        out;
    const char   *data; /* the rest to send */
    int64_t       left;
    bool          waits;    /* its request was not answered */
    bool          answered; /* an answer is under way */
    bool          ended;
} asker;

struct haul__offer {
    haul__offer *next;
    haul_group  *group; /* with a reference */
    int64_t      number;
    int          count;
    part        *parts;
    asker       *askers; /* of each rank */
    void (*released)(void *context);
    void              *context;
    bool               listens; /* the group thread has begun to */
    bool               open, ended, end_sent;
    int64_t            epoch;
    int                under_way; /* answers */
    haul__error_record error;     /* status: requests get it */
};

static haul__offer *offers;

/* ---- the program's thread ---- */

static void free_offer(haul__offer *o)
{
    haul__free(o->parts);
    haul__free(o->askers);
    haul__object_release(o->group);
    haul__free(o);
}

haul__offer *haul__offer_begin(haul_group *group, int count, void (*released)(void *context), void *context)
{
    haul__offer *o = haul__calloc(1, sizeof *o);
    if (o) {
        haul__object_keep(group);
        *o = (haul__offer){.group = group, .count = count, .released = released, .context = context};
        o->parts = haul__calloc((size_t)count, sizeof *o->parts);
        o->askers = haul__calloc((size_t)group->size, sizeof *o->askers);
    }
    if (!o || !o->parts || !o->askers) {
        haul__fail_memory("haul_parallel_new", (size_t)count * sizeof *o->parts);
        if (o)
            free_offer(o);
        return NULL;
    }
    pthread_mutex_lock(&line.lock);
    o->number = group->offers++ % CHANNELS;
    o->next = offers;
    offers = o;
    pthread_cond_signal(&line.come);
    pthread_mutex_unlock(&line.lock);
    return o;
}

void haul__offer_end(haul__offer *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&line.lock);
    o->ended = true;
    pthread_cond_signal(&line.come);
    pthread_mutex_unlock(&line.lock);
}

void haul__offer_set(haul__offer *o, int number, const void *data, size_t bytes)
{
    HAUL__ASSERT(0 <= number && number < o->count && !o->open);
    pthread_mutex_lock(&line.lock);
    o->parts[number] = (part){data, bytes};
    pthread_mutex_unlock(&line.lock);
}

void haul__offer_open(haul__offer *o, int64_t epoch)
{
    pthread_mutex_lock(&line.lock);
    HAUL__ASSERT(!o->open && o->epoch < epoch);
    o->open = true;
    o->epoch = epoch;
    o->error.status = HAUL_OK;
    pthread_mutex_unlock(&line.lock);
}

void haul__offer_close(haul__offer *o)
{
    pthread_mutex_lock(&line.lock);
    o->open = false;
    while (o->under_way && !line.lost)
        pthread_cond_wait(&line.finished, &line.lock);
    pthread_mutex_unlock(&line.lock);
}

void haul__offer_fail(haul__offer *o)
{
    pthread_mutex_lock(&line.lock);
    haul__error_save(&o->error);
    pthread_mutex_unlock(&line.lock);
}

/* ---- asking ---- */

struct haul__pending_get {
    haul__group_channel requests, answers;
    request             out;
    answer              in;
};

static haul__group_channel requests_of(const haul__offer *o)
{
    return (haul__group_channel)(FIRST_CHANNEL + 2 * o->number);
}

static haul__group_channel answers_of(const haul__offer *o)
{
    return (haul__group_channel)(FIRST_CHANNEL + 2 * o->number + 1);
}

static haul_status check_answer(haul__work *w)
{
    answer *a = &w->get->in;
    if (!a->status && a->bytes == w->bytes)
        return HAUL_OK;
    HAUL__ASSERT(w->peer != w->group->rank);
    w->together = true; /* the group can go on */
    a->text[TEXT - 1] = '\0';
    const haul_group_member *m = &w->group->members[w->peer];
    if (a->status)
        return haul__fail(HAUL_STATE, w->name, NULL, "%s cannot be got from rank %d (host %s, process %d): %s", w->what,
                          w->peer, m->host, m->process, a->text);
    return haul__fail(HAUL_INVALID_ARGUMENT, w->name, NULL,
                      "%s has %lld bytes here, but rank %d (host %s, process %d) has %lld", w->what,
                      (long long)w->bytes, w->peer, m->host, m->process, (long long)a->bytes);
}

/* Phases: 1 the request, 2 the answer, 3 the bytes. */
static haul_status get_next(haul__work *w)
{
    haul__engine             *e = w->group->engine;
    struct haul__pending_get *get = w->get;
    if (w->phase == 1) {
        w->phase = 2;
        if (e->kind->receive(e, &get->in, (int)sizeof get->in, w->peer, get->answers, &w->requests[1]))
            return haul_error_status();
        return e->kind->send(e, &get->out, (int)sizeof get->out, w->peer, get->requests, &w->requests[0]);
    }
    if (w->phase == 2) {
        w->phase = 3;
        if (check_answer(w))
            return haul_error_status();
    }
    if (w->at == w->bytes)
        return haul__work_over(w);
    HAUL__ASSERT(0 <= w->at && w->at < w->bytes);
    const int64_t bytes = smaller(w->bytes - w->at, haul__group_message_bytes);
    char         *message = w->in + w->at;
    w->at += bytes;
    return e->kind->receive(e, message, (int)bytes, w->peer, get->answers, &w->requests[0]);
}

haul__work *haul__offer_get_begin(haul__offer *o, const haul__group_call *call, int from, int number, void *to,
                                  size_t bytes)
{
    haul__work *w = haul__group_check(o->group, call->name) ? NULL : haul__work_new(o->group, call);
    if (!w)
        return NULL;
    if (!(w->get = haul__calloc(1, sizeof *w->get))) {
        haul__work_drop(w);
        haul__fail_memory(call->name, sizeof *w->get);
        return NULL;
    }
    HAUL__ASSERT(from != o->group->rank && 0 <= number && number < o->count);
    w->get->requests = requests_of(o);
    w->get->answers = answers_of(o);
    w->get->out = (request){.epoch = o->epoch, .part = number, .bytes = (int64_t)bytes};
    w->collective = false;
    w->peer = from;
    w->in = to;
    w->bytes = (int64_t)bytes;
    w->next = get_next;
    return haul__work_start(w);
}

haul_status haul__offer_get(haul__offer *o, const haul__group_call *call, int from, int number, void *to, size_t bytes)
{
    return haul__work_wait(haul__offer_get_begin(o, call, from, number, to, bytes));
}

/* ---- answering, on the group thread ---- */

static haul_status listen_to(haul__offer *o, int rank)
{
    haul__engine *e = o->group->engine;
    return e->kind->receive(e, &o->askers[rank].in, (int)sizeof o->askers[rank].in, rank, requests_of(o),
                            &o->askers[rank].received);
}

static haul_status listen_to_all(haul__offer *o)
{
    haul_status status = HAUL_OK;
    for (int r = 0; r < o->group->size && !status; r++)
        if (r != o->group->rank)
            status = listen_to(o, r);
    o->listens = true;
    return status;
}

/* Sets *done if the request was open and is over now. */
static haul_status progress(const haul__offer *o, haul__request *transfer, bool *done)
{
    const bool        was_open = transfer->open;
    haul__engine     *e = o->group->engine;
    const haul_status status = was_open ? e->kind->progress(e, transfer) : HAUL_OK;
    *done = was_open && !transfer->open;
    return status;
}

static haul_status hear(haul__offer *o, int rank, bool *changed)
{
    asker      *a = &o->askers[rank];
    bool        done;
    haul_status status = progress(o, &a->received, &done);
    if (status || !done)
        return status;
    HAUL__ASSERT(!a->waits && !a->answered && !a->ended); /* a rank makes one request at a time */
    *changed = true;
    if (a->in.ends) {
        a->ended = true;
        return HAUL_OK;
    }
    a->waits = true;
    return HAUL_OK;
}

/* Fills in the answer of a request that need not wait. The caller has the lock. */
static bool choose_answer(haul__offer *o, asker *a)
{
    const bool is_part = 0 <= a->in.part && a->in.part < o->count;
    a->out = (answer){.status = HAUL_OK};
    a->left = 0;
    if (o->error.status) {
        a->out.status = HAUL_STATE;
        haul__snprintf(a->out.text, TEXT, "%s", o->error.message);
    } else if (o->ended && (!o->open || a->in.epoch != o->epoch)) {
        a->out.status = HAUL_STATE;
        haul__snprintf(a->out.text, TEXT, "it has ended its data parallel training");
    } else if (!o->open || (is_part && a->in.epoch > o->epoch)) {
        return false;
    } else if (!is_part) {
        a->out.status = HAUL_STATE;
        haul__snprintf(a->out.text, TEXT, "it has no part %lld; the ranks have different modules",
                       (long long)a->in.part);
    } else if (a->in.epoch != o->epoch) {
        a->out.status = HAUL_STATE;
        haul__snprintf(a->out.text, TEXT, "it is %lld steps ahead", (long long)(o->epoch - a->in.epoch));
    } else {
        a->data = o->parts[a->in.part].data;
        a->out.bytes = (int64_t)o->parts[a->in.part].bytes;
        a->left = a->out.bytes == a->in.bytes ? a->out.bytes : 0; /* else the answer says what differs */
    }
    HAUL__ASSERT(a->left == 0 || a->data);
    o->under_way++;
    return true;
}

static haul_status begin_answer(haul__offer *o, int rank, bool *changed)
{
    asker        *a = &o->askers[rank];
    haul__engine *e = o->group->engine;
    pthread_mutex_lock(&line.lock);
    const bool answers = choose_answer(o, a);
    pthread_mutex_unlock(&line.lock);
    if (!answers)
        return HAUL_OK;
    *changed = true;
    HAUL__ASSERT(a->waits && !a->answered);
    a->waits = false;
    a->answered = true;
    haul__group_sends(o->group, a->left);
    return e->kind->send(e, &a->out, (int)sizeof a->out, rank, answers_of(o), &a->sent);
}

static haul_status end_answer(haul__offer *o, int rank)
{
    o->askers[rank].answered = false;
    pthread_mutex_lock(&line.lock);
    HAUL__ASSERT(o->under_way > 0);
    o->under_way--;
    pthread_cond_broadcast(&line.finished);
    pthread_mutex_unlock(&line.lock);
    return listen_to(o, rank);
}

static haul_status go_on(haul__offer *o, int rank, bool *changed)
{
    asker        *a = &o->askers[rank];
    haul__engine *e = o->group->engine;
    bool          done;
    haul_status   status = progress(o, &a->sent, &done);
    if (status || !done)
        return status;
    *changed = true;
    if (!a->left)
        return end_answer(o, rank);
    HAUL__ASSERT(a->answered && a->left > 0);
    const int64_t bytes = smaller(a->left, haul__group_message_bytes);
    const char   *message = a->data;
    a->data += bytes;
    a->left -= bytes;
    return e->kind->send(e, message, (int)bytes, rank, answers_of(o), &a->sent);
}

static haul_status send_end(haul__offer *o, int rank)
{
    asker        *a = &o->askers[rank];
    haul__engine *e = o->group->engine;
    a->end = (request){.ends = 1};
    return e->kind->send(e, &a->end, (int)sizeof a->end, rank, requests_of(o), &a->end_sent);
}

/* With one other rank. *over: it does not ask any more, and knows that this rank does not. */
static haul_status answer_rank(haul__offer *o, int rank, bool ends, bool *changed, bool *over)
{
    asker *a = &o->askers[rank];
    bool   done;
    HAUL__ASSERT(rank != o->group->rank);
    haul_status status = ends ? send_end(o, rank) : HAUL_OK;
    if (!status)
        status = hear(o, rank, changed);
    if (!status && a->waits)
        status = begin_answer(o, rank, changed);
    if (!status && a->answered)
        status = go_on(o, rank, changed);
    if (!status)
        status = progress(o, &a->end_sent, &done);
    *over = a->ended && !a->end_sent.open;
    return status;
}

static haul_status answer_all(haul__offer *o, bool *changed, bool *over)
{
    pthread_mutex_lock(&line.lock);
    const bool ended = o->ended;
    pthread_mutex_unlock(&line.lock);
    haul_status status = o->listens ? HAUL_OK : listen_to_all(o);
    const bool  ends = ended && !o->end_sent;
    o->end_sent = ended;
    *over = ended;
    for (int r = 0; r < o->group->size && !status; r++) {
        bool rank_over = true;
        if (r != o->group->rank)
            status = answer_rank(o, r, ends, changed, &rank_over);
        *over &= rank_over;
    }
    return status;
}

/* No rank asks any more. */
static void remove_offer(haul__offer *o)
{
    pthread_mutex_lock(&line.lock);
    haul__offer **at = &offers;
    while (*at != o)
        at = &(*at)->next;
    HAUL__ASSERT(o->ended && !o->under_way); /* 2 */
    *at = o->next;
    pthread_mutex_unlock(&line.lock);
    if (o->released)
        o->released(o->context);
    free_offer(o);
}

bool haul__offers_poll(bool *changed)
{
    pthread_mutex_lock(&line.lock);
    haul__offer *o = offers;
    pthread_mutex_unlock(&line.lock);
    const bool any = o != NULL;
    for (haul__offer *next; o && !line.lost; o = next) {
        bool over = false;
        if (answer_all(o, changed, &over))
            haul__line_lose();
        pthread_mutex_lock(&line.lock);
        next = o->next;
        pthread_mutex_unlock(&line.lock);
        if (over && !line.lost)
            remove_offer(o);
    }
    return any;
}

void haul__offers_leave(void)
{
    pthread_mutex_lock(&line.lock);
    for (haul__offer *o = offers; o; o = o->next)
        o->ended = true;
    pthread_mutex_unlock(&line.lock);
}
