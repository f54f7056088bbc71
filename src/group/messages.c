/* Messages between two ranks. The k-th message that a rank sends to another one is the k-th that this one receives: a
 * note goes before its data, and the receiver compares the note with what it expects.
 *
 * Messages of operations are numbered, and their errors reach the other ranks: in the place of a message goes a note
 * with the text of the error. Messages to the own rank stay in the group. */
#include "group/messages.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/system/clock.h"
#include "base/text/plain.h"
#include "events/events.h"
#include "group/work.h"

enum { FAILED = -1 }; /* the bytes of a note with an error */

/* ---- sending ---- */

static void write_note(haul__work *w, int64_t bytes)
{
    w->note = (haul__work_note){.bytes = bytes};
    haul__snprintf(w->note.name, sizeof w->note.name, "%s", w->name);
    haul__snprintf(w->note.what, sizeof w->note.what, "%s", w->what);
}

static haul_status send_next(haul__work *w)
{
    haul__engine *e = w->group->engine;
    if (w->phase == 1) {
        w->phase = 2;
        return e->kind->send(e, &w->note, (int)sizeof w->note, w->peer, HAUL__GROUP_NOTES, &w->requests[0]);
    }
    if (w->at == w->bytes)
        return haul__work_over(w);
    const int64_t bytes = smaller(w->bytes - w->at, haul__group_message_bytes);
    const char   *message = w->out + w->at;
    w->at += bytes;
    return e->kind->send(e, message, (int)bytes, w->peer, HAUL__GROUP_DATA, &w->requests[0]);
}

static haul_status check_peer(haul_group *group, int peer, int64_t bytes, const char *name, const char *argument)
{
    if (haul__group_check(group, name) || haul__group_check_rank(group, peer, name, argument))
        return haul_error_status();
    return bytes >= 0 ? HAUL_OK
                      : haul__fail(HAUL_INVALID_ARGUMENT, name, NULL, "a message has %lld bytes", (long long)bytes);
}

static haul_status refuse_peer(haul_group *group, int peer, int64_t bytes, const char *name, const char *argument)
{
    if (check_peer(group, peer, bytes, name, argument))
        return haul_error_status();
    return peer != group->rank ? HAUL_OK
                               : haul__fail(HAUL_INVALID_ARGUMENT, name, argument,
                                            "rank %d is this process itself; it must be another rank", peer);
}

haul_status haul__group_send(haul_group *group, const haul__group_call *call, const void *data, int64_t bytes, int to)
{
    if (refuse_peer(group, to, bytes, call->name, "to"))
        return haul_error_status();
    haul__work *w = haul__work_new(group, call);
    if (!w)
        return haul_error_status();
    w->copy = haul__malloc((size_t)bytes);
    if (!w->copy) {
        haul__fail_memory(call->name, (size_t)bytes);
        haul__work_drop(w);
        return haul_error_status();
    }
    if (bytes)
        memcpy(w->copy, data, (size_t)bytes);
    w->out = w->copy;
    w->bytes = bytes;
    w->peer = to;
    w->collective = false;
    write_note(w, bytes);
    haul__work_sends(w, bytes);
    w->next = send_next;
    if (haul__is_dry()) {
        haul__work_drop(w);
        return HAUL_OK;
    }
    w->own = true;
    return haul__work_start(w) ? HAUL_OK : haul_error_status();
}

/* ---- to the own rank ---- */

struct haul__own_message {
    haul__own_message *next;
    int64_t            bytes;
    char               what[192];
    char               data[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards own messages, and the numbers of messages */

void haul__own_messages_free(haul_group *group)
{
    while (group->own_messages) {
        haul__own_message *next = group->own_messages->next;
        haul__free(group->own_messages);
        group->own_messages = next;
    }
}

/* Messages that were not received before something failed. */
static void forget_own(haul_group *group)
{
    pthread_mutex_lock(&lock);
    haul__own_messages_free(group);
    group->messages_received[group->rank] = group->messages_sent[group->rank];
    pthread_mutex_unlock(&lock);
}

static haul_status keep_own(haul_group *group, const haul__group_call *call, const void *data, int64_t bytes)
{
    haul__own_message *m = haul__malloc(sizeof *m + (size_t)bytes);
    if (!m)
        return haul__fail_memory(call->name, sizeof *m + (size_t)bytes);
    m->next = NULL;
    m->bytes = bytes;
    haul__snprintf(m->what, sizeof m->what, "%s", call->what);
    memcpy(m->data, data, (size_t)bytes);
    pthread_mutex_lock(&lock);
    haul__own_message **at = &group->own_messages;
    while (*at)
        at = &(*at)->next;
    *at = m;
    pthread_mutex_unlock(&lock);
    return HAUL_OK;
}

static haul_status take_own(haul_group *group, const haul__group_call *call, void *data, int64_t bytes)
{
    haul_status status = HAUL_OK;
    pthread_mutex_lock(&lock);
    haul__own_message *m = group->own_messages;
    if (m)
        group->own_messages = m->next;
    pthread_mutex_unlock(&lock);
    if (!m)
        return haul__fail(HAUL_STATE, call->name, "from",
                          "rank %d is this rank itself, and has sent no message to itself that it has not received",
                          group->rank);
    if (m->bytes == bytes && strcmp(m->what, call->what) == 0)
        memcpy(data, m->data, (size_t)bytes);
    else
        status = haul__fail(HAUL_INVALID_ARGUMENT, call->name, NULL,
                            "rank %d sends %.120s (%lld bytes) to itself, but expects %.120s (%lld bytes)", group->rank,
                            m->what, (long long)m->bytes, call->what, (long long)bytes);
    haul__free(m);
    return status;
}

/* ---- errors ---- */

/* The error goes to all other ranks, one after the other: `root` is the last one. Then the work fails with it. */
static haul_status tell_next(haul__work *w)
{
    haul__engine *e = w->group->engine;
    w->root += w->root + 1 == e->rank ? 2 : 1;
    if (w->root >= e->size) {
        haul__error_restore(w->error);
        return haul_error_status();
    }
    return e->kind->send(e, &w->note, (int)sizeof w->note, w->root, HAUL__GROUP_NOTES, &w->requests[0]);
}

/* Makes the work one that sends its error to the other ranks. */
static void prepare_to_tell(haul__work *w)
{
    HAUL__ASSERT(w->error && !w->collective);
    write_note(w, FAILED);
    haul__snprintf(w->note.text, sizeof w->note.text, "%s", w->error->message);
    w->root = -1;
    w->next = tell_next;
}

void haul__message_fail(haul_group *group, const char *operation)
{
    haul__error_record error;
    haul__error_save(&error);
    if (!haul__is_trial())
        forget_own(group);
    haul__work *w = group->size > 1 && error.status && !haul__is_trial()
                        ? haul__work_new(group, &(haul__group_call){.name = operation})
                        : NULL;
    if (w) {
        w->collective = false;
        w->error = haul__malloc(sizeof *w->error);
        haul__work *begun = NULL;
        if (w->error) {
            *w->error = error;
            prepare_to_tell(w);
            begun = haul__work_start(w);
        } else {
            haul__work_drop(w);
        }
        if (begun)
            haul__work_wait(begun);
    }
    haul__error_restore(&error);
}

/* ---- receiving ---- */

/* The sender has failed in the place of the message. */
static haul_status take_error(haul__work *w)
{
    char rank[128];
    haul__group_describe_rank(w->group, w->peer, rank, sizeof rank);
    w->note.text[sizeof w->note.text - 1] = '\0';
    w->of_another = true;
    return haul__fail(HAUL_STATE, w->name, NULL, "%s has failed before it sent %.100s: %s", rank, w->what,
                      w->note.text);
}

static haul_status refuse_note(haul__work *w)
{
    char one[128], other[128];
    haul__group_describe_rank(w->group, w->peer, one, sizeof one);
    haul__group_describe_rank(w->group, w->group->rank, other, sizeof other);
    HAUL__ASSERT(w->receives && w->peer != w->group->rank);
    const haul_status status = haul__fail(HAUL_INVALID_ARGUMENT, w->name, NULL,
                                          "%s sends %.120s (%lld bytes), but %s expects %.120s (%lld bytes)", one,
                                          w->note.what, (long long)w->note.bytes, other, w->what, (long long)w->bytes);
    if (!w->numbered)
        return status;
    w->error = haul__malloc(sizeof *w->error);
    if (!w->error)
        return status;
    haul__error_save(w->error);
    prepare_to_tell(w);
    return tell_next(w);
}

static haul_status receive_next(haul__work *w)
{
    haul__engine *e = w->group->engine;
    if (w->phase == 1) {
        w->phase = 2;
        return e->kind->receive(e, &w->note, (int)sizeof w->note, w->peer, HAUL__GROUP_NOTES, &w->requests[0]);
    }
    if (w->note.bytes == FAILED)
        return take_error(w);
    w->note.what[sizeof w->note.what - 1] = '\0';
    if (w->note.bytes != w->bytes || strcmp(w->note.what, w->what) != 0)
        return refuse_note(w);
    HAUL__ASSERT(0 <= w->at && w->at <= w->bytes);
    if (w->at == w->bytes)
        return haul__work_over(w);
    const int64_t bytes = smaller(w->bytes - w->at, haul__group_message_bytes);
    char         *message = w->in + w->at;
    w->at += bytes;
    return e->kind->receive(e, message, (int)bytes, w->peer, HAUL__GROUP_DATA, &w->requests[0]);
}

static haul__work *receive_begin(haul_group *group, const haul__group_call *call, void *data, int64_t bytes, int from,
                                 uint64_t number)
{
    haul__work *w = haul__work_new(group, call);
    if (!w)
        return NULL;
    w->in = data;
    w->bytes = bytes;
    w->peer = from;
    w->collective = false;
    w->receives = true;
    w->numbered = number > 0;
    w->number = number;
    w->next = receive_next;
    return haul__work_start(w);
}

haul__work *haul__group_receive_begin(haul_group *group, const haul__group_call *call, void *data, int64_t bytes,
                                      int from)
{
    return refuse_peer(group, from, bytes, call->name, "from") ? NULL
                                                               : receive_begin(group, call, data, bytes, from, 0);
}

/* ---- messages of operations ---- */

static int64_t next_number(int64_t *numbers, int rank)
{
    pthread_mutex_lock(&lock);
    const int64_t number = ++numbers[rank];
    pthread_mutex_unlock(&lock);
    return number;
}

/* The bytes are on their way when the call returns, so the events have no duration. */
static void report_send(const haul__group_call *call, int64_t number, int64_t bytes)
{
    if (!haul__watched(HAUL_EVENT_COLLECTIVE))
        return;
    haul_event e = {.kind = HAUL_EVENT_COLLECTIVE_BEGIN,
                    .operation = call->name,
                    .text = call->what,
                    .command = (uint64_t)number,
                    .time = haul__now_ns()};
    haul__emit(&e);
    e.kind = HAUL_EVENT_COLLECTIVE_END;
    e.bytes = bytes;
    haul__emit(&e);
}

haul_status haul__message_send(haul_group *group, const haul__group_call *call, const void *data, int64_t bytes, int to,
                               int64_t *number)
{
    if (check_peer(group, to, bytes, call->name, "to"))
        return haul_error_status();
    *number = next_number(group->messages_sent, to);
    if (to == group->rank)
        return keep_own(group, call, data, bytes);
    const haul_status status = haul__group_send(group, call, data, bytes, to);
    if (!status)
        report_send(call, *number, bytes);
    return status;
}

haul_status haul__message_receive(haul_group *group, const haul__group_call *call, void *data, int64_t bytes, int from,
                                  int64_t *number)
{
    if (check_peer(group, from, bytes, call->name, "from"))
        return haul_error_status();
    *number = next_number(group->messages_received, from);
    if (from == group->rank)
        return take_own(group, call, data, bytes);
    return haul__work_wait(receive_begin(group, call, data, bytes, from, (uint64_t)*number));
}
