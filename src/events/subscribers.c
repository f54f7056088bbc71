/* The subscribers to events, and the calls of them.
 *
 * A thread's own subscribers are in a list that only that thread touches; process-wide ones are in a list under a lock.
 * The library's own run under this lock, so that one thread at a time calls them. Functions of the program run without
 * it: any number of threads may call one, and one that leaves it without returning blocks no other.
 *
 * Each thread has a word with the kinds that both lists want together (core/thread.h); without subscribers nothing else
 * is read. A subscriber that is detached while one runs is unlinked after that one has returned.
 *
 * The states of a subscriber:
 *
 *     (apart) --enter--> linked --leave--> gone --unlink--> (apart)
 *                         |  ^              ^
 *                    call |  | return       | return: its thread unlinks it
 *                         v  |              |
 *                        running --leave--> running, gone
 *
 * Invariants:
 *
 *   1. A subscriber is in a list if it is linked. One that is gone leaves the list when none runs.
 *   2. A subscriber runs on as many threads as have called it and not returned: `running` is never negative.
 *   3. A thread that runs a subscriber under the lock is muted, so it does not come here a second time.
 *   4. A listener has references until it is freed. */
#include "events/subscribers.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/call_site.h"
#include "base/system/fork.h"
#include "core/error.h"
#include "core/guest.h"
#include "core/scope.h"
#include "events/debug.h"

enum { FRAMES = 32 };

struct haul__listener {
    atomic_int  refs;
    atomic_uint kinds; /* what the thread's own subscribers want; 0 after it ended */
};

/* The thread's subscribers, and the one that runs on it. */
static _Thread_local struct {
    haul__subscriber *own;
    haul__object      attached; /* in the thread's context, so that it learns of the thread's end */
    bool              muted;    /* a subscriber is running */
    bool              inside;   /* one that runs under the lock of process-wide ones */
    const void       *frame;    /* where the stack ended when a function of the program was called; NULL: none runs */
    bool              left;     /* a subscriber in `own` was detached while one was running */
    haul__subscriber *running;  /* NULL: none */
    haul_scope       *scope;    /* in which a function of the program runs */
    haul__listener   *listener; /* NULL until the thread has events that come later */
} self;

static struct {
    pthread_mutex_t   lock;
    pthread_cond_t    returned; /* an awaited one returned */
    haul__subscriber *list;
    bool              left;
    atomic_uint       kinds; /* the union of what they want */
} everywhere = {.lock = PTHREAD_MUTEX_INITIALIZER, .returned = PTHREAD_COND_INITIALIZER};

/* ---- lists ---- */

static uint32_t kinds_of(const haul__subscriber *s)
{
    uint32_t kinds = 0;
    for (; s; s = s->next)
        kinds |= s->gone ? 0 : s->of.kinds;
    return kinds;
}

static void unlink_gone(haul__subscriber **list)
{
    for (haul__subscriber *s; (s = *list);) {
        if (!s->gone || s->running || s->awaited) {
            list = &s->next;
            continue;
        }
        HAUL__ASSERT(s->linked && s->running == 0); /* 1, 2 */
        *list = s->next;
        s->linked = false;
        if (s->id)
            haul__free(s);
    }
}

static void unlink_one(haul__subscriber **list, haul__subscriber *s)
{
    HAUL__ASSERT(s->linked && s->gone); /* 1 */
    while (*list && *list != s)
        list = &(*list)->next;
    HAUL__ASSERT(*list == s); /* 1 */
    if (*list)
        *list = s->next;
    s->linked = false;
}

/* Waits until no other thread runs it, unless the caller is a subscriber itself: two that end each other would wait for
 * ever. */
static void await(haul__subscriber *s)
{
    if (self.muted)
        return;
    s->awaited = true;
    while (s->running)
        pthread_cond_wait(&everywhere.returned, &everywhere.lock);
    s->awaited = false;
}

/* While a subscriber of the list is running, that one stays linked until it returns, and so do those of users, which
 * only the list frees. The memory of others may be freed as soon as they have left. */
static void leave(haul__subscriber **list, haul__subscriber *s, bool at_work, bool *left)
{
    HAUL__ASSERT(s->linked && s->running >= 0); /* 1, 2 */
    s->gone = true;
    if (at_work && !s->id && s != self.running && !s->running) {
        unlink_one(list, s);
        return;
    }
    *left = true;
    if (at_work)
        return;
    unlink_gone(list);
    *left = false;
}

static void enter(haul__subscriber **list, haul__subscriber *s)
{
    s->gone = false;
    if (s->linked)
        return;
    s->linked = true;
    s->next = *list;
    *list = s;
}

void haul__listener_release(haul__listener *listener)
{
    HAUL__ASSERT(!listener || atomic_load(&listener->refs) > 0); /* 4 */
    if (listener && atomic_fetch_sub_explicit(&listener->refs, 1, memory_order_acq_rel) == 1)
        haul__free(listener);
}

/* The thread's own subscribers now want these kinds. */
static void update_listener(uint32_t kinds)
{
    if (!self.listener)
        return;
    atomic_store_explicit(&self.listener->kinds, kinds, memory_order_relaxed);
    if (!kinds) {
        haul__listener_release(self.listener);
        self.listener = NULL;
    }
}

static void update_own(void)
{
    uint32_t kinds = kinds_of(self.own);
    haul__watch_here(kinds);
    update_listener(kinds);
}

/* At the end of a thread its own subscribers are detached. */
static void thread_ends(void *object)
{
    (void)object;
    for (haul__subscriber *s = self.own; s; s = s->next)
        s->gone = true;
    unlink_gone(&self.own);
    HAUL__ASSERT(!self.own); /* 1 */
    update_listener(0);
}

static const haul__class attached_class = {.name = "event subscribers", .destroy = thread_ends};

void haul__subscribers_lock(void)
{
    if (!self.inside)
        pthread_mutex_lock(&everywhere.lock);
}

void haul__subscribers_unlock(void)
{
    if (!self.inside)
        pthread_mutex_unlock(&everywhere.lock);
}

/* The threads that were running subscribers do not exist in the child. */
static void forget_threads(void)
{
    pthread_cond_init(&everywhere.returned, NULL);
    for (haul__subscriber *s = everywhere.list; s; s = s->next) {
        s->running = s == self.running;
        s->awaited = false;
    }
}

HAUL__AT_FORK(HAUL__FORK_EVENTS, .take = haul__subscribers_lock, .give = haul__subscribers_unlock,
              .in_child = forget_threads);

static void update_everywhere(void)
{
    uint32_t kinds = kinds_of(everywhere.list);
    atomic_store_explicit(&everywhere.kinds, kinds, memory_order_relaxed);
    haul__watch_everywhere(kinds);
}

static bool attach(haul__subscriber *s)
{
    haul__context *context = haul__context_get();
    if (!context)
        return false;
    if (!s->of.everywhere) {
        if (!context->attached) {
            haul__object_init(&self.attached, &attached_class);
            context->attached = &self.attached;
        }
        enter(&self.own, s);
        update_own();
        return true;
    }
    haul__subscribers_lock();
    enter(&everywhere.list, s);
    update_everywhere();
    haul__subscribers_unlock();
    return true;
}

/* Runs once per process, before anybody subscribes or tests for subscribers: until then the words of all threads say
 * "unknown". */
static void begin(void)
{
    haul__debug_begin(attach);
    haul__subscribers_lock();
    update_everywhere();
    haul__subscribers_unlock();
}

static pthread_once_t begun = PTHREAD_ONCE_INIT;

bool haul__attach(haul__subscriber *s)
{
    pthread_once(&begun, begin);
    return attach(s);
}

static haul__subscriber *find(haul__subscriber *list, int64_t id)
{
    while (list && (list->id != id || list->gone))
        list = list->next;
    return list;
}

static void detach_own(haul__subscriber *s)
{
    leave(&self.own, s, self.muted, &self.left);
    update_own();
}

/* The caller holds the lock. */
static void detach_everywhere(haul__subscriber *s)
{
    s->gone = true;
    await(s);
    leave(&everywhere.list, s, self.inside, &everywhere.left);
    update_everywhere();
}

void haul__detach(haul__subscriber *s)
{
    if (s->of.everywhere) {
        haul__subscribers_lock();
        if (s->linked && !s->gone)
            detach_everywhere(s);
        haul__subscribers_unlock();
    } else if (s->linked && !s->gone) {
        detach_own(s);
    }
}

/* ---- subscribers that end ---- */

/* The calling thread's present subscriber returned, or was left by longjmp or an exception. */
static void end_running(void)
{
    haul__subscriber *s = self.running;
    self.running = NULL;
    if (!s || !s->running)
        return;
    HAUL__ASSERT(s->program && s->running > 0); /* 2 */
    s->running--;
    if (s->awaited)
        pthread_cond_broadcast(&everywhere.returned);
    everywhere.left = everywhere.left || s->gone;
}

static void end_delivery(void)
{
    if (self.left)
        unlink_gone(&self.own);
    self.left = false;
    self.muted = false;
}

/* A subscriber that did not return: the stack is shorter than it was when it was called. Its thread hears events again.
 */
__attribute__((noinline)) static bool is_muted(void)
{
    if (!self.frame || (const char *)__builtin_frame_address(0) <= (const char *)self.frame)
        return self.muted;
    self.frame = NULL;
    if (haul__scope_is_open(self.scope))
        haul__scope_close(self.scope);
    pthread_mutex_lock(&everywhere.lock);
    end_running();
    pthread_mutex_unlock(&everywhere.lock);
    end_delivery();
    return false;
}

/* ---- public functions ---- */

int64_t haul_events_subscribe_with(const haul_subscription *subscription)
{
    static const char   operation[] = "haul_events_subscribe";
    static atomic_llong last_id;
    haul__subscriber   *s;
    if (!subscription || !subscription->take) {
        subscription ? haul__fail_no_function(operation, "take") : haul__fail_null(operation, "subscription");
        return 0;
    }
    if ((subscription->kinds | subscription->frames) & ~(uint32_t)HAUL_EVENT_ALL) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "kinds",
                   "kinds and frames are 0x%x and 0x%x; expected values of haul_event_kind, combined by |",
                   (unsigned)subscription->kinds, (unsigned)subscription->frames);
        return 0;
    }
    s = haul__calloc(1, sizeof *s);
    if (!s) {
        haul__fail_memory(operation, sizeof *s);
        return 0;
    }
    const int64_t id = atomic_fetch_add(&last_id, 1) + 1;
    s->of = *subscription;
    s->of.kinds = s->of.kinds ? s->of.kinds : HAUL_EVENT_ALL;
    s->id = id;
    s->program = true;
    if (!haul__attach(s)) {
        haul__free(s);
        haul__fail(HAUL_OUT_OF_MEMORY, operation, NULL,
                   "the system cannot register another thread key or fork handler");
        return 0;
    }
    return id;
}

haul_status haul_events_unsubscribe(int64_t id)
{
    if (id == 0)
        return HAUL_OK;
    is_muted(); /* the subscriber may have been left on this thread */
    haul__subscriber *s = find(self.own, id);
    if (s) {
        detach_own(s);
        return HAUL_OK;
    }
    haul__subscribers_lock();
    s = find(everywhere.list, id);
    if (s)
        detach_everywhere(s);
    haul__subscribers_unlock();
    return s ? HAUL_OK
             : haul__fail(HAUL_INVALID_ARGUMENT, "haul_events_unsubscribe", "id",
                          "%lld is not a subscription of this thread or of the process; pass the result of "
                          "haul_events_subscribe, once, on the thread that subscribed",
                          (long long)id);
}

/* ---- calling them ---- */

bool haul__listened(uint32_t kinds)
{
    pthread_once(&begun, begin);
    haul__context *context = haul__context_get();
    return context && !is_muted() && (atomic_load_explicit(&context->watch, memory_order_relaxed) & kinds);
}

bool haul__event_muted(void)
{
    return is_muted();
}

bool haul__subscriber_runs(void)
{
    return self.muted;
}

/* The stack, walked when the first subscriber asks for it. */
typedef struct stack {
    void *frames[FRAMES];
    int   count; /* -1: not walked yet */
} stack;

static void walk(stack *frames)
{
    frames->count = haul__take_frames(frames->frames, FRAMES);
}

/* The thread's settings become those that the program's code around the library has, but for the dry run, which counts
 * what this thread does. The scope restores them. */
static void take_settings(const haul__thread_state *wanted)
{
    haul__thread_state *now = haul__thread();
    const uint32_t      dry = now->words[HAUL__DRY_RUN];
    now->device = wanted->device;
    now->no_grad = wanted->no_grad;
    memcpy(now->words, wanted->words, sizeof now->words);
    now->words[HAUL__DRY_RUN] = dry;
    now->words[HAUL__RECOMPUTE] = 0; /* what a subscriber does is not part of the function that runs again */
    for (int i = 0; i < HAUL__OBJECT_SETTINGS; i++)
        if (now->held[i] != wanted->held[i])
            haul__thread_hold((haul__object_setting)i, wanted->held[i]);
}

/* Calls a function of the program, in a scope of its own. Without memory for the scope, in the present one. */
static void call_program(const haul__subscriber *s, const haul_event *event)
{
    const haul__thread_state settings = *haul__scope_settings();
    haul_scope *const        scope = self.scope = haul__scope_push("a subscriber");
    if (scope)
        take_settings(&settings);
    const haul__guest before = haul__guest_begin();
    self.frame = haul__tls.guest.frame;
    s->of.take(event, s->of.context);
    self.frame = NULL;
    haul__guest_end(&before, HAUL_OK, "haul_events_subscribe");
    if (scope)
        haul__scope_close(scope);
}

static bool wants(const haul__subscriber *s, const haul_event *event)
{
    return !s->gone && (s->of.kinds & event->kind);
}

static void call(haul__subscriber *s, haul_event *event, stack *frames)
{
    bool asked = s->of.frames & event->kind;
    HAUL__ASSERT(s->linked && self.muted); /* 1, 3 */
    if (asked && frames->count < 0)
        walk(frames);
    event->frames = asked ? frames->frames : NULL;
    event->frame_count = asked ? frames->count : 0;
    self.running = s;
    if (s->program)
        call_program(s, event);
    else
        s->of.take(event, s->of.context);
}

static void call_own(haul_event *event, stack *frames)
{
    for (haul__subscriber *s = self.own; s; s = s->next)
        if (wants(s, event))
            call(s, event, frames);
    self.running = NULL;
}

/* Calls the function of the program without the lock. It stays in the list meanwhile. */
static void call_unlocked(haul__subscriber *s, haul_event *event, stack *frames)
{
    s->running++;
    pthread_mutex_unlock(&everywhere.lock);
    call(s, event, frames);
    pthread_mutex_lock(&everywhere.lock);
    end_running();
}

static void call_locked(haul__subscriber *s, haul_event *event, stack *frames)
{
    HAUL__ASSERT(self.muted && !self.inside && !s->program); /* 3 */
    self.inside = true;
    call(s, event, frames);
    HAUL__ASSERT(self.inside); /* 3 */
    self.inside = false;
    self.running = NULL;
}

static void call_everywhere(haul_event *event, stack *frames)
{
    pthread_mutex_lock(&everywhere.lock);
    for (haul__subscriber *s = everywhere.list; s; s = s->next)
        if (wants(s, event))
            (s->program ? call_unlocked : call_locked)(s, event, frames);
    if (everywhere.left)
        unlink_gone(&everywhere.list);
    everywhere.left = false;
    pthread_mutex_unlock(&everywhere.lock);
}

void haul__subscribers_call(haul_event *event)
{
    stack frames = {.count = -1};
    self.muted = true;
    call_own(event, &frames);
    if (atomic_load_explicit(&everywhere.kinds, memory_order_relaxed) & event->kind)
        call_everywhere(event, &frames);
    end_delivery();
}

/* ---- listeners ---- */

haul__listener *haul__listener_here(uint32_t kinds)
{
    uint32_t wanted = kinds_of(self.own);
    if (!(wanted & kinds))
        return NULL;
    if (!self.listener) {
        self.listener = haul__malloc(sizeof *self.listener);
        if (!self.listener)
            return NULL;
        atomic_init(&self.listener->refs, 1);
        atomic_init(&self.listener->kinds, wanted);
    }
    HAUL__ASSERT(atomic_load(&self.listener->refs) > 0); /* 4 */
    atomic_fetch_add_explicit(&self.listener->refs, 1, memory_order_relaxed);
    return self.listener;
}

bool haul__listener_elsewhere(const haul__listener *listener, uint32_t kinds)
{
    return listener && listener != self.listener &&
           (atomic_load_explicit(&listener->kinds, memory_order_relaxed) & kinds);
}
