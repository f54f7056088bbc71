/* The history of objects that HAUL_DEBUG=lifetimes keeps. */
#include "core/lifetime.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/call_site.h"
#include "base/system/fork.h"
#include "base/text/word_list.h"
#include "core/scope.h"

enum { FRAMES = 12 };

typedef struct call_site {
    int   count;
    void *frames[FRAMES];
} call_site;

/* Precedes the object in memory. */
typedef struct life {
    _Alignas(max_align_t) struct life *older; /* links dead ones, so that they stay reachable */
    haul__life_end how;
    int            depth; /* depth of the scope that was popped */
    char           scope[40], made_by[48], text[100];
    call_site      made, ended;
} life;

typedef struct buried_block {
    struct buried_block *older;
} buried_block;

atomic_int             haul__lifetimes_state;
static pthread_once_t  once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all histories and lists */
static life           *buried;
static buried_block   *buried_blocks;

static life *life_of(const haul__object *object)
{
    HAUL__ASSERT(object->traced); /* others have no history in front of them */
    return (life *)(void *)((char *)object - sizeof(life));
}

/* ---- the switch ---- */

HAUL__MUTEX_AT_FORK(HAUL__FORK_LIFETIMES, lock);

static void begin(void)
{
    bool on = haul__word_list_has(getenv("HAUL_DEBUG"), "lifetimes");
    atomic_store(&haul__lifetimes_state, on ? 2 : 1);
}

bool haul__lifetimes_begin(void)
{
    pthread_once(&once, begin);
    return atomic_load(&haul__lifetimes_state) == 2;
}

/* ---- notes ---- */

static void note_call_site(call_site *p)
{
    p->count = haul__take_frames(p->frames, FRAMES);
}

void *haul__life_new(size_t bytes)
{
    life *l = haul__malloc(sizeof *l + bytes);
    if (!l)
        return NULL;
    memset(l, 0, sizeof *l);
    note_call_site(&l->made);
    return l + 1;
}

void haul__life_made_by(haul__object *object, const char *operation)
{
    life *l = life_of(object);
    snprintf(l->made_by, sizeof l->made_by, "%s", operation ? operation : "the library");
}

void haul__life_event(haul__object *object, haul__life_end how, const haul_scope *scope)
{
    life     *l = life_of(object);
    char      text[sizeof l->text];
    call_site here;
    note_call_site(&here);
    haul__object_text(object, text, sizeof text);
    take_lock();
    memcpy(l->text, text, sizeof text);
    l->how = how;
    l->ended = here;
    l->depth = scope ? scope->depth : 0;
    snprintf(l->scope, sizeof l->scope, "%s", scope && scope->name ? scope->name : "");
    give_lock();
}

/* Neither a scope nor a user ended the object: the last object that held it did. An object that no scope ever owned may
 * not be filled in yet. */
static void note_held(haul__object *object, life *l)
{
    if (object->was->describe && *l->made_by)
        object->was->describe(object, true, l->text, sizeof l->text);
    else
        snprintf(l->text, sizeof l->text, "%s", object->was->name);
    note_call_site(&l->ended);
}

void haul__object_bury(haul__object *object)
{
    life *l = life_of(object);
    if (l->how == HAUL__HELD)
        note_held(object, l);
    haul__count_blocks(-1);
    take_lock();
    l->older = buried;
    buried = l;
    give_lock();
}

void haul__life_bury_block(void *p)
{
    buried_block *block = p;
    haul__count_blocks(-1);
    take_lock();
    block->older = buried_blocks;
    buried_blocks = block;
    give_lock();
}

/* ---- reporting ---- */

const char *haul__life_text(const haul__object *object)
{
    return life_of(object)->text;
}

static void tell_end(const life *l, char *out, size_t size)
{
    switch (l->how) {
    case HAUL__POPPED:
        snprintf(out, size, "its scope%s%s%s (depth %d) was popped", *l->scope ? " \"" : "", l->scope,
                 *l->scope ? "\"" : "", l->depth);
        break;
    case HAUL__DROPPED: snprintf(out, size, "haul_drop ended it"); break;
    case HAUL__RELEASED: snprintf(out, size, "haul_release ended it"); break;
    case HAUL__HELD: snprintf(out, size, "the last object that held it ended"); break;
    }
}

void haul__life_history(const haul__object *object, char *out, size_t size)
{
    static const char *const operations[] = {[HAUL__HELD] = "",
                                             [HAUL__POPPED] = "haul_scope_pop",
                                             [HAUL__DROPPED] = "haul_drop",
                                             [HAUL__RELEASED] = "haul_release"};
    const life              *l = life_of(object);
    char                     end[120], ended[160], made[160];
    HAUL__ASSERT((size_t)l->how < sizeof operations / sizeof *operations && object->type == &haul__dead_class);
    tell_end(l, end, sizeof end);
    haul__describe_call_site(l->ended.frames, l->ended.count, operations[l->how], ended, sizeof ended);
    haul__describe_call_site(l->made.frames, l->made.count, l->made_by, made, sizeof made);
    snprintf(out, size, "%s%s%s; %s made it%s%s", end, *ended ? " at " : "", ended,
             *l->made_by ? l->made_by : "the library", *made ? " at " : "", made);
}
