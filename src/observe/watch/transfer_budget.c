/* Budgets of transfers, bytes between ranks and waits: a subscriber that belongs to a scope, and reports when the scope
 * ends. */
#include <haul/budget.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "core/scope.h"
#include "events/events.h"
#include "observe/profile/source_line.h"

/* The limited figures, in the order of the options. */
typedef enum resource { TO_DEVICES, TO_HOST, BETWEEN, TO_RANKS, WAITS, RESOURCES } resource;

static const char *const units[RESOURCES] = {"bytes to devices", "bytes to the host", "bytes between devices",
                                             "bytes to other ranks", "wait"};

enum { FRAMES = 32, MOST_USERS = 256, SHOWN = 3 };

/* A place in the program that uses one of them. */
typedef struct user {
    resource           what;
    int64_t            amount, times;
    const haul_device *device, *other;
    char               operation[48], module[96], label[48];
    void              *frames[FRAMES];
    int                frame_count;
} user;

typedef struct budget {
    haul__object     object;
    haul__subscriber subscriber;
    const char      *scope;   /* its name, or NULL */
    bool             planned; /* copies of HAUL_PLACE_AUTO are allowed */
    int64_t          limit[RESOURCES], used[RESOURCES];
    user            *users; /* up to MOST_USERS; those that come later only count in `used` */
    int              user_count, room;
} budget;

/* ---- counting ---- */

static user user_of(const haul_event *e, resource what)
{
    HAUL__ASSERT(e->frame_count >= 0 && (e->frames || !e->frame_count));
    user u = {.what = what, .device = e->device, .other = e->other, .frame_count = e->frame_count};
    haul__utf8_copy(u.operation, sizeof u.operation, e->operation);
    haul__utf8_copy(u.module, sizeof u.module, e->origin);
    haul__utf8_copy(u.label, sizeof u.label, e->label);
    u.frame_count = u.frame_count > FRAMES ? FRAMES : u.frame_count;
    if (u.frame_count > 0)
        memcpy(u.frames, e->frames, (size_t)u.frame_count * sizeof *u.frames);
    return u;
}

static bool is_same(const user *a, const user *b)
{
    return a->what == b->what && a->device == b->device && a->other == b->other && a->frame_count == b->frame_count &&
           !memcmp(a->frames, b->frames, sizeof a->frames) && !strcmp(a->operation, b->operation) &&
           !strcmp(a->module, b->module) && !strcmp(a->label, b->label);
}

/* NULL where there are too many, or memory is exhausted. */
static user *find(budget *b, const user *wanted)
{
    HAUL__ASSERT(b->user_count <= b->room && b->room <= MOST_USERS);
    for (int i = 0; i < b->user_count; i++)
        if (is_same(&b->users[i], wanted))
            return &b->users[i];
    if (b->user_count == b->room) {
        const int room = b->room ? 2 * b->room : 8;
        user     *more = room > MOST_USERS ? NULL : haul__realloc(b->users, (size_t)room, sizeof *more);
        if (!more)
            return NULL;
        b->users = more;
        b->room = room;
    }
    b->users[b->user_count] = *wanted;
    return &b->users[b->user_count++];
}

static void take(const haul_event *e, void *context)
{
    budget        *b = context;
    const resource what = e->kind == HAUL_EVENT_COPY_TO_DEVICE   ? TO_DEVICES
                          : e->kind == HAUL_EVENT_COPY_TO_HOST   ? TO_HOST
                          : e->kind == HAUL_EVENT_COPY_BETWEEN   ? BETWEEN
                          : e->kind == HAUL_EVENT_COLLECTIVE_END ? TO_RANKS
                                                                 : WAITS;
    const int64_t  amount = what == WAITS ? 1 : e->bytes;
    HAUL__ASSERT(amount >= 0);
    if ((b->planned && e->planned) || (what == TO_RANKS && amount == 0))
        return;
    const user wanted = user_of(e, what);
    user      *found = find(b, &wanted);
    b->used[what] += amount;
    if (!found)
        return;
    found->amount += amount;
    found->times++;
}

/* ---- the report ---- */

/* A text that is cut where its room ends. */
typedef struct text {
    char   of[900];
    size_t size;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *format, ...)
{
    va_list arguments;
    HAUL__ASSERT(t->size < sizeof t->of);
    va_start(arguments, format);
    const int more = haul__vsnprintf(t->of + t->size, sizeof t->of - t->size, format, arguments);
    va_end(arguments);
    t->size += more > 0 ? (size_t)more : 0;
    t->size = t->size < sizeof t->of ? t->size : sizeof t->of - 1;
}

static bool exceeded(const budget *b, resource what)
{
    return b->used[what] > b->limit[what];
}

/* The share of this use in all of its kind, for kinds that were exceeded. */
static double share(const budget *b, const user *u)
{
    HAUL__ASSERT(!exceeded(b, u->what) || (b->used[u->what] > 0 && u->amount <= b->used[u->what]));
    return exceeded(b, u->what) ? (double)u->amount / (double)b->used[u->what] : 0;
}

static void add_user(text *t, const user *u)
{
    HAUL__ASSERT(u->what < RESOURCES && u->frame_count <= FRAMES);
    char        place[200];
    const char *at = haul__source_place(u->frames, u->frame_count, u->operation, place, sizeof place);
    add(t, "%s, ", u->operation);
    if (u->what == WAITS)
        add(t, "%lld time%s for %s", (long long)u->times, u->times == 1 ? "" : "s", haul_device_name(u->device));
    else if (u->what == TO_RANKS)
        add(t, "%lld bytes to other ranks in %lld call%s", (long long)u->amount, (long long)u->times,
            u->times == 1 ? "" : "s");
    else
        add(t, "%lld bytes from %s to %s in %lld cop%s", (long long)u->amount, haul_device_name(u->other),
            haul_device_name(u->device), (long long)u->times, u->times == 1 ? "y" : "ies");
    if (*u->module)
        add(t, " in layer '%s'", u->module);
    if (*u->label)
        add(t, " in \"%s\"", u->label);
    if (*at)
        add(t, " at %s", at);
}

/* The largest first; a user that was shown is not shown again. */
static void add_users(text *t, budget *b)
{
    for (int shown = 0; shown < SHOWN; shown++) {
        user *largest = NULL;
        for (int i = 0; i < b->user_count; i++)
            if (share(b, &b->users[i]) > (largest ? share(b, largest) : 0))
                largest = &b->users[i];
        if (!largest)
            return;
        add(t, "%s", shown ? "; " : "; most by ");
        add_user(t, largest);
        largest->amount = 0;
    }
}

static void report(budget *b)
{
    text t = {.size = 0};
    bool any = false;
    for (int what = 0; what < RESOURCES; what++) {
        if (!exceeded(b, (resource)what))
            continue;
        add(&t, "%s%lld %s%s (%lld allowed)", any ? ", " : "", (long long)b->used[what], units[what],
            what == WAITS && b->used[what] > 1 ? "s" : "", (long long)b->limit[what]);
        any = true;
    }
    if (!any)
        return;
    add_users(&t, b);
    HAUL__ASSERT(0 < t.size && t.size < sizeof t.of);
    haul__scope_outcome(haul__fail(HAUL_BUDGET, "haul_budget", NULL,
                                   "the budget of %s%s%s was exceeded: %s; avoid this, or allow it in haul_budget",
                                   b->scope ? "scope \"" : "a scope", b->scope ? b->scope : "", b->scope ? "\"" : "",
                                   t.of));
}

/* ---- the scope's object ---- */

static void destroy(void *object)
{
    budget *b = object;
    haul__detach(&b->subscriber);
    report(b);
    haul__free(b->users);
    haul__object_free(&b->object, sizeof *b);
}

static const haul__class budget_class = {.name = "budget", .destroy = destroy};

static haul_status check(const haul_budget_options *o, const char *operation)
{
    if (!o)
        return haul__fail_null(operation, "options");
    const struct {
        const char *name;
        int64_t     limit;
    } limits[] = {{"h2d_bytes", o->h2d_bytes},
                  {"d2h_bytes", o->d2h_bytes},
                  {"d2d_bytes", o->d2d_bytes},
                  {"group_bytes", o->group_bytes},
                  {"waits", o->waits}};
    for (int i = 0; i < RESOURCES; i++)
        if (limits[i].limit < 0)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, limits[i].name,
                              "%s is %lld; expected a limit of 0, for none, or more", limits[i].name,
                              (long long)limits[i].limit);
    if (haul__event_muted())
        return haul__fail(HAUL_STATE, operation, NULL,
                          "a subscriber to events makes no events that a budget could count; call it elsewhere");
    if (haul_scope_depth() == 0)
        return haul__fail(HAUL_STATE, operation, NULL,
                          "no scope is open on this thread to have the budget; call haul_scope_push() first");
    return HAUL_OK;
}

haul_status haul_budget_with(const haul_budget_options *o)
{
    static const char operation[] = "haul_budget";
    haul_status       status = check(o, operation);
    budget           *b = status ? NULL : haul__object_new_zeroed(sizeof *b, &budget_class);
    if (!b)
        return status ? status : haul__fail_memory(operation, sizeof *b);
    b->limit[TO_DEVICES] = o->h2d_bytes;
    b->limit[TO_HOST] = o->d2h_bytes;
    b->limit[BETWEEN] = o->d2d_bytes;
    b->limit[TO_RANKS] = o->group_bytes;
    b->limit[WAITS] = o->waits;
    b->planned = o->planned;
    b->scope = haul__tls.innermost->name;
    enum { KINDS = HAUL_EVENT_COPY | HAUL_EVENT_COLLECTIVE_END | HAUL_EVENT_WAITED | HAUL_EVENT_FOUND_DONE };
    b->subscriber.of =
        (haul_subscription){.take = take, .context = b, .kinds = KINDS, .frames = KINDS, .everywhere = o->everywhere};
    if (!haul__attach(&b->subscriber)) {
        haul__object_release(b);
        return haul__fail(HAUL_OUT_OF_MEMORY, operation, NULL,
                          "the system cannot register another thread key or fork handler");
    }
    return haul__own(b, operation) ? HAUL_OK : haul_error_status();
}
