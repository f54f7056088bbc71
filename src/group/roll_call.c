/* Control messages between group threads: roll calls, the leaving of ranks, and errors that end a job.
 *
 * When a work has waited for the limit, its rank asks all ranks how far they are in the work's group. A rank that
 * answers that it has not begun the collective, or that does not answer at all, is the one that the others wait for: an
 * error names it, goes to all ranks, and ends the job. A rank whose program exits says so, and goes on answering until
 * all ranks have exited: only then can the library be finished. Collectives that it has not begun cannot be completed:
 * ranks that wait in one ask about it at once. The same holds for a message to or from it, once nothing of its own is
 * under way. The rank that waits for the message asks twice, since the last bytes may still be on their way. */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "base/text/plain.h"
#include "group/line.h"
#include "group/thread.h"

#define WAITS "waits in " /* what a rank says that has begun something */

#define line   haul__group_line
#define SECOND INT64_C(1000000000)

enum { PATIENCE_S = 2, FLUSH_ROUNDS = 200 };

typedef enum control_type {
    ASK,     /* for the state of the group `key` */
    ANSWER,  /* `number` collectives were begun there */
    LEAVING, /* the program exits */
    GONE,    /* the last message */
    LOST     /* a rank was lost: the job ends with the error `text` */
} control_type;

typedef struct control {
    int64_t  type;
    uint64_t key, number;
    char     text[488];
} control;

typedef struct outgoing outgoing;
struct outgoing {
    outgoing     *next;
    haul__request request;
    control       message;
};

typedef struct peer {
    haul__request receive;
    control       in;
    outgoing     *sends;
    bool          leaving, gone, answered;
    uint64_t      number;
    char          says[128];
} peer;

static peer *peers; /* of all processes; freed never, because messages may be under way until the end */

static struct {
    bool        on, leaves, exit; /* `leaves`: a rank leaves; `exit`: this program waits for the others to exit */
    haul__work *about;
    uint64_t    key; /* of the group of `about`; 0 at the exit */
    int64_t     since;
} call;

static bool    told_leaving, told_gone;
static int64_t waits_since; /* for the other ranks to leave */

/* ---- messages ---- */

static int processes(void)
{
    return line.engine->size;
}

static int self(void)
{
    return line.engine->rank;
}

static haul_status listen_to(int rank)
{
    peer *p = &peers[rank];
    return line.engine->kind->receive(line.engine, &p->in, (int)sizeof p->in, rank, HAUL__GROUP_CONTROL, &p->receive);
}

static haul_status send_control(int rank, const control *message)
{
    outgoing *o = haul__malloc(sizeof *o);
    if (!o)
        return haul__fail_memory("haul_group_get", sizeof *o);
    *o = (outgoing){.next = peers[rank].sends, .message = *message};
    peers[rank].sends = o;
    return line.engine->kind->send(line.engine, &o->message, (int)sizeof o->message, rank, HAUL__GROUP_CONTROL,
                                   &o->request);
}

static void send_to_all(const control *message)
{
    for (int r = 0; r < processes(); r++)
        if (r != self() && (!peers[r].gone || message->type == GONE))
            send_control(r, message);
}

/* Frees messages that have arrived. Returns true if none is left. */
static bool poll_sends(void)
{
    bool all = true;
    for (int r = 0; r < processes(); r++)
        for (outgoing **at = &peers[r].sends; *at;) {
            outgoing *o = *at;
            if (o->request.open && line.engine->kind->progress(line.engine, &o->request))
                o->request.open = false;
            if (o->request.open) {
                all = false;
                at = &o->next;
                continue;
            }
            *at = o->next;
            haul__free(o);
        }
    return all;
}

haul_status haul__roll_call_begin(void)
{
    peers = haul__calloc((size_t)processes(), sizeof *peers);
    if (!peers)
        return haul__fail_memory("haul_group_get", (size_t)processes() * sizeof *peers);
    for (int r = 0; r < processes(); r++)
        if (r != self() && listen_to(r))
            return haul_error_status();
    return HAUL_OK;
}

/* ---- answering ---- */

static void answer(int rank, uint64_t key)
{
    control reply = {.type = ANSWER, .key = key};
    HAUL__ASSERT(rank >= 0 && rank < processes());
    pthread_mutex_lock(&line.lock);
    const haul__work *w = line.first;
    reply.number = haul__group_begun(key);
    if (w)
        haul__snprintf(reply.text, sizeof reply.text, WAITS "%s", w->name);
    else if (line.exiting)
        haul__snprintf(reply.text, sizeof reply.text, "its program has ended");
    else
        haul__snprintf(reply.text, sizeof reply.text, "computes");
    pthread_mutex_unlock(&line.lock);
    send_control(rank, &reply);
}

static void lose_with(const char *operation, const char *text)
{
    haul__fail(HAUL_STATE, operation, NULL, "%s", text);
    haul__line_lose();
}

/* Another rank has found the error: the same for this one. */
static void lose_as(const char *text)
{
    haul__error_record record;
    haul__fail(HAUL_STATE, "haul_group_get", NULL, "lost");
    haul__error_save(&record);
    haul__snprintf(record.message, sizeof record.message, "%s", text);
    haul__error_restore(&record);
    haul__line_lose();
}

static void ask(haul__work *about, bool leaves)
{
    if (call.on)
        return;
    HAUL__ASSERT(!about || !about->over);
    call.on = true;
    call.leaves = leaves;
    call.exit = about == NULL;
    call.about = about;
    call.key = about ? about->group->key : 0;
    call.since = haul__system_ns();
    for (int r = 0; r < processes(); r++)
        peers[r].answered = false;
    send_to_all(&(control){.type = ASK, .key = call.key});
}

static void handle(int rank, control *message)
{
    peer *p = &peers[rank];
    HAUL__ASSERT(rank >= 0 && rank < processes());
    message->text[sizeof message->text - 1] = '\0';
    switch (message->type) {
    case ASK: answer(rank, message->key); break;
    case ANSWER:
        if (message->key != call.key) /* to an earlier call, about another group */
            break;
        p->answered = true;
        p->number = message->number;
        haul__snprintf(p->says, sizeof p->says, "%s", message->text);
        break;
    case LEAVING: p->leaving = true; break;
    case GONE: p->gone = true; break;
    default: lose_as(message->text); break;
    }
}

/* ---- judging ---- */

static bool waits(const peer *p)
{
    return strncmp(p->says, WAITS, strlen(WAITS)) == 0;
}

/* The rank that a message of `w->peer` waits for. If that one waits, too, it is another one that does not answer, or
 * else does not wait: ranks that send to each other in a row all wait for the last one. */
static int awaited(const haul__work *w)
{
    const peer *p = &peers[w->group->places[w->peer]];
    int         busy = w->peer;
    HAUL__ASSERT(w->peer >= 0 && w->peer < w->group->size);
    for (int r = 0; r < w->group->size && p->answered; r++) {
        const peer *other = &peers[w->group->places[r]];
        if (r == w->group->rank)
            continue;
        if (!other->answered)
            return r;
        if (!waits(other))
            busy = r;
    }
    return waits(p) ? busy : w->peer;
}

/* Rank r has not begun the work. Of a call about ranks that leave only these are: the others may begin it yet. */
static bool is_late(const haul__work *w, int r)
{
    const peer *p = &peers[w->group->places[r]];
    if (r == w->group->rank)
        return false;
    if (call.leaves && !w->collective)
        return r == w->peer && p->answered && !waits(p) && w->leavers > 1;
    if (w->peer >= 0 && r != awaited(w))
        return false;
    if (call.leaves)
        return p->leaving && p->answered && p->number < w->number;
    return !p->answered || !w->collective || p->number < w->number;
}

/* A call about ranks that leave needs the answer of rank r. */
static bool must_answer(const haul__work *w, int r)
{
    return w->collective ? r != w->group->rank : r == w->peer;
}

static void blame(const haul__work *w, int first, int count)
{
    const peer *p = &peers[w->group->places[first]];
    char        one[128], which[96], what[160], others[48] = "";
    HAUL__ASSERT(first >= 0 && first < w->group->size && count > 0);
    if (w->collective)
        haul__snprintf(which, sizeof which, "collective %llu", (unsigned long long)w->number);
    else
        haul__snprintf(which, sizeof which, "the message");
    if (!p->answered)
        haul__snprintf(what, sizeof what, "does not answer: it has stopped, has died or is cut off");
    else if (w->collective)
        haul__snprintf(what, sizeof what, "has not reached it; it has begun %llu, and %s",
                       (unsigned long long)p->number, p->says);
    else
        haul__snprintf(what, sizeof what, "has not completed it, and %s", p->says);
    if (count > 1)
        haul__snprintf(others, sizeof others, ", nor do %d other ranks", count - 1);
    char text[512];
    haul__group_describe_rank(w->group, first, one, sizeof one);
    haul__snprintf(text, sizeof text, "%s%s%.100s%s cannot be completed: %s %s%s", which, w->what[0] ? " (" : "",
                   w->what, w->what[0] ? ")" : "", one, what, others);
    lose_with(w->name, text);
}

/* All ranks have answered, or had the time to. */
static void judge_work(haul__work *w)
{
    int first = -1, count = 0;
    HAUL__ASSERT(!w->over);
    for (int r = 0; r < w->group->size; r++)
        if (is_late(w, r)) {
            first = first < 0 ? r : first;
            count++;
        } else if (call.leaves && must_answer(w, r) && !peers[w->group->places[r]].answered) {
            w->leavers = 0; /* it is asked again */
        }
    if (count > 0) {
        blame(w, first, count);
    } else if (!call.leaves && ++w->asked > 1) {
        lose_with(w->name, "all ranks have begun the collective, but the library does not complete it");
    } else if (!call.leaves) {
        w->begun_ns = haul__system_ns();
    }
}

/* This program has ended, and waits for the others. */
static void judge_exit(void)
{
    HAUL__ASSERT(line.world);
    waits_since = haul__system_ns();
    for (int r = 0; r < processes(); r++) {
        if (r == self() || peers[r].gone || peers[r].answered)
            continue;
        char        one[128], text[256];
        const char *state = told_gone ? "does not say that it has ended" : "does not answer";
        haul__group_describe_rank(line.world, r, one, sizeof one);
        haul__snprintf(text, sizeof text, "%s %s: it has stopped, has died or is cut off", one, state);
        lose_with("haul_group_get", text);
        return;
    }
}

static bool all_answered(void)
{
    for (int r = 0; r < processes(); r++)
        if (r != self() && !peers[r].answered && !(call.exit && peers[r].gone))
            return false;
    return true;
}

static void poll_call(void)
{
    if (!call.on || (!all_answered() && haul__system_ns() - call.since < PATIENCE_S * SECOND))
        return;
    call.on = false;
    if (call.exit)
        judge_exit();
    else if (call.about)
        judge_work(call.about);
}

/* ---- for the thread ---- */

void haul__roll_call_poll(void)
{
    HAUL__ASSERT(peers);
    for (int r = 0; r < processes() && !line.lost; r++) {
        peer *p = &peers[r];
        while (p->receive.open && !line.lost) {
            if (line.engine->kind->progress(line.engine, &p->receive)) {
                lose_with("haul_group_get", haul_error_message());
                return;
            }
            if (p->receive.open)
                break;
            control message = p->in;
            if (message.type != GONE && listen_to(r))
                p->gone = true;
            handle(r, &message);
        }
    }
    if (line.lost)
        return;
    poll_sends();
    poll_call();
}

void haul__roll_call_about(haul__work *w)
{
    ask(w, false);
}

/* Asks about a message to or from a rank that leaves, and after some time once more if it has not got on. Requests for
 * parts of a rank that has ended its program are still answered, and errors go to all ranks, so these may take longer:
 * the limit is for them. */
static void ask_about_message(haul__work *w)
{
    const int64_t now = haul__system_ns();
    HAUL__ASSERT(w->peer < w->group->size);
    if (w->peer < 0 || w->get || w->error)
        return;
    if (!peers[w->group->places[w->peer]].leaving || now - w->left_ns < PATIENCE_S * SECOND)
        return;
    w->leavers = w->begun_ns > w->left_ns ? 1 : w->leavers + 1;
    w->left_ns = now;
    ask(w, true);
}

void haul__roll_call_leavers(haul__work *w)
{
    int leavers = 0;
    if (call.on)
        return;
    if (!w->collective) {
        ask_about_message(w);
        return;
    }
    for (int r = 0; r < w->group->size; r++)
        leavers += peers[w->group->places[r]].leaving;
    if (leavers <= w->leavers)
        return;
    w->leavers = leavers;
    ask(w, true);
}

void haul__roll_call_forget(const haul__work *w)
{
    if (call.about == w)
        call.about = NULL;
}

void haul__roll_call_end(const char *text)
{
    control message = {.type = LOST};
    haul__snprintf(message.text, sizeof message.text, "%s", text);
    send_to_all(&message);
    for (int i = 0; i < FLUSH_ROUNDS && !poll_sends(); i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

bool haul__roll_call_leave(void)
{
    bool all_leave = true, all_gone = true;
    if (!told_leaving) {
        told_leaving = true;
        waits_since = haul__system_ns();
        send_to_all(&(control){.type = LEAVING});
    }
    for (int r = 0; r < processes(); r++) {
        all_leave &= r == self() || peers[r].leaving;
        all_gone &= r == self() || peers[r].gone;
    }
    HAUL__ASSERT(!told_gone || all_leave);
    if (all_leave && !told_gone) {
        told_gone = true;
        send_to_all(&(control){.type = GONE});
    }
    if (!all_gone && line.world && (double)(haul__system_ns() - waits_since) > haul__group_limit() * (double)SECOND)
        ask(NULL, false);
    return told_gone && all_gone && poll_sends();
}
