/* Process groups as objects: how they are got, split, and described. */
#include "group/group.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fnv.h"
#include "base/system/fork.h"
#include "base/text/plain.h"
#include "core/trial.h"
#include "group/launcher.h"
#include "group/line.h"
#include "group/local/rank.h"
#include "group/thread.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and the numbers */
static haul_group     *groups;
static int64_t         last_number;
static haul_group     *alone, *world, *direct; /* of haul_group_get: the process holds them */
static bool            world_known;            /* its ranks have introduced themselves */
static int             world_forks;

/* The same for haul__group_world_now, which any thread may call. */
static atomic_int known_rank, known_size, known_forks = -1;
static atomic_int threads, threads_forks = -1; /* ranks that are threads of this process */

HAUL__MUTEX_AT_FORK(HAUL__FORK_GROUPS, lock);

/* What ranks began in the groups that ended last: others may ask about it while they are still in them. */
enum { ENDED = 64 };
static struct {
    uint64_t key, begun;
} ended[ENDED];
static unsigned ended_count;

/* ---- objects ---- */

/* The engines of other kinds stay until the program ends. */
static void close_engine(haul__engine *engine)
{
    if (engine && engine->kind->called == HAUL__CALLED_BY_RANK)
        engine->kind->close(engine);
}

static void destroy(void *object)
{
    haul_group *g = object;
    pthread_mutex_lock(&lock);
    for (haul_group **at = &groups; *at; at = &(*at)->next)
        if (*at == g) {
            *at = g->next;
            break;
        }
    ended[ended_count % ENDED].key = g->key;
    ended[ended_count++ % ENDED].begun = atomic_load(&g->begun);
    pthread_mutex_unlock(&lock);
    haul__direct_close(g);
    close_engine(g->engine);
    haul__own_messages_free(g);
    haul__free(g->messages_sent);
    haul__free(g->members);
    haul__free(g->places);
    haul__free(g->why);
    haul__object_free(&g->object, sizeof *g);
}

static void describe(const void *object, bool dead, char *out, size_t size)
{
    const haul_group *g = object;
    if (dead)
        haul__snprintf(out, size, "group");
    else
        haul__snprintf(out, size, "group, rank %d of %d", g->rank, g->size);
}

static const haul__class group_class = {.name = "group", .destroy = destroy, .describe = describe};

/* Sets what follows from the engine. In memory that was cleared. */
static haul_status fill_in(haul_group *g, haul__engine *engine, uint64_t key)
{
    HAUL__ASSERT(0 <= engine->rank && engine->rank < engine->size);
    const size_t size = (size_t)engine->size;
    g->engine = engine;
    g->rank = engine->rank;
    g->size = engine->size;
    g->key = key;
    g->members = haul__calloc(size, sizeof *g->members);
    g->places = haul__calloc(size, sizeof *g->places);
    g->messages_sent = haul__calloc(2 * size, sizeof *g->messages_sent);
    if (!g->members || !g->places || !g->messages_sent)
        return haul__fail_memory("haul_group_get", size * sizeof *g->members);
    g->messages_received = g->messages_sent + size;
    for (int r = 0; r < g->size; r++) {
        g->members[r].rank = g->places[r] = r;
        haul__snprintf(g->members[r].host, sizeof g->members[r].host, "unknown");
    }
    haul_group_member *own = &g->members[g->rank];
    own->process = (int)getpid();
    if (gethostname(own->host, sizeof own->host))
        haul__snprintf(own->host, sizeof own->host, "unknown");
    own->host[sizeof own->host - 1] = '\0';
    for (int r = 0; r < g->size && engine->kind->device; r++) {
        g->members[r] = *own;
        g->members[r].rank = r;
    }
    pthread_mutex_lock(&lock);
    g->number = ++last_number;
    g->next = groups;
    groups = g;
    pthread_mutex_unlock(&lock);
    return HAUL_OK;
}

haul_group *haul__group_new(haul__engine *engine, uint64_t key)
{
    haul_group *g = haul__object_new(sizeof *g, &group_class);
    if (!g) {
        close_engine(engine);
        haul__fail_memory("haul_group_get", sizeof *g);
        return NULL;
    }
    memset((char *)g + sizeof g->object, 0, sizeof *g - sizeof g->object);
    if (!fill_in(g, engine, key))
        return g;
    haul__object_release(g);
    return NULL;
}

/* ---- members ---- */

typedef struct introduction {
    haul_group_member member;
    int               place;
    haul__direct_card card;
} introduction;

static void compare_cards(haul_group *g, const introduction *all)
{
    haul__direct_card *cards = haul__calloc((size_t)g->size, sizeof *cards);
    haul__snprintf(g->apart, sizeof g->apart, "memory is exhausted");
    for (int r = 0; cards && r < g->size; r++)
        cards[r] = all[r].card;
    if (cards && haul__direct_suits(g, cards, g->apart, sizeof g->apart))
        g->apart[0] = '\0';
    haul__free(cards);
}

/* All ranks introduce themselves. Their versions of Haul must be equal, because their messages have to be. */
static haul_status introduce(haul_group *g, int place)
{
    const haul__group_call call = {.name = "haul_group_get", .what = "Haul " HAUL_VERSION_STRING};
    const size_t           size = (size_t)g->size;
    HAUL__ASSERT(0 <= place && g->rank < g->size);
    introduction *all = haul__calloc(size, sizeof *all);
    if (!all)
        return haul__fail_memory(call.name, size * sizeof *all);
    all[g->rank] = (introduction){.member = g->members[g->rank], .place = place};
    haul__direct_introduce(&all[g->rank].card);
    haul_status status = haul__group_gather_equal(g, &call, all, sizeof *all);
    for (int r = 0; !status && r < g->size; r++) {
        g->members[r] = all[r].member;
        g->members[r].host[sizeof all->member.host - 1] = '\0';
        g->places[r] = all[r].place;
    }
    atomic_store(&g->sent_bytes, 0);
    if (!status)
        compare_cards(g, all);
    haul__free(all);
    return status;
}

/* A part of a group, which no scope owns yet: the ranks that pass this color. NULL on failure. */
static haul_group *part_of(haul_group *group, int color, int key)
{
    haul__engine *engine = NULL;
    haul__work   *w = haul__work_split(group, color, key, &engine);
    if (haul__work_wait(w)) { /* it may fail behind the last step */
        close_engine(engine);
        return NULL;
    }
    HAUL__ASSERT(engine && engine->rank < engine->size);
    const uint64_t about[] = {group->key, atomic_fetch_add(&group->splits, 1) + 1, (uint64_t)color};
    haul_group    *g = haul__group_new(engine, haul__fnv(HAUL__FNV, about, sizeof about));
    if (g && introduce(g, group->places[group->rank])) {
        haul__object_release(g);
        g = NULL;
    }
    return g;
}

/* ---- getting ---- */

static haul_group *get_alone(void)
{
    haul__engine *engine = NULL;
    if (!alone && !haul__group_none.open(NULL, 0, 0, &engine, NULL))
        alone = haul__group_new(engine, 0);
    return alone;
}

static haul_group *get_world(void)
{
    haul__engine *engine = NULL;
    if (world && world_forks != haul__fork_count()) {
        haul__fail(HAUL_STATE, "haul_group_get", NULL,
                   "this process is the child of a fork, and its parent is a rank; call it before the fork");
        return NULL;
    }
    if (world && !world_known)
        haul__fail(HAUL_STATE, "haul_group_get", NULL, "the ranks could not introduce themselves in an earlier call");
    if (world)
        return world_known ? world : NULL;
    if (haul__is_dry()) {
        haul__fail(HAUL_STATE, "haul_group_get", NULL,
                   "the ranks do not know each other yet, and meet in no dry run (haul_estimate); call it once before");
        return NULL;
    }
    if (haul__group_thread_start(&haul__group_mpi, &engine))
        return NULL;
    haul_group *g = haul__group_new(engine, HAUL__FNV);
    if (!g)
        return NULL;
    HAUL__ASSERT(g->size == engine->size && g->rank == engine->rank);
    haul__group_thread_know(g);
    world_forks = haul__fork_count();
    world = g;
    world_known = !introduce(g, g->rank);
    if (world_known) {
        atomic_store(&known_rank, g->rank);
        atomic_store(&known_size, g->size);
        atomic_store(&known_forks, world_forks);
    }
    return world_known ? g : NULL;
}

haul__group_world haul__group_world_now(void)
{
    const int now = haul__fork_count();
    if (atomic_load(&known_forks) == now)
        return (haul__group_world){atomic_load(&known_rank), atomic_load(&known_size)};
    return (haul__group_world){-1, atomic_load(&threads_forks) == now ? atomic_load(&threads) : 0};
}

void haul__group_threads(int change)
{
    pthread_mutex_lock(&lock);
    if (atomic_load(&threads_forks) != haul__fork_count())
        atomic_store(&threads, 0);
    atomic_store(&threads_forks, haul__fork_count());
    atomic_fetch_add(&threads, change);
    pthread_mutex_unlock(&lock);
}

typedef struct group_name {
    const char *name;
    haul_group *(*get)(void);
} group_name;

/* Fails on all ranks if the devices of two ranks cannot be connected. */
static haul_status connect_devices(haul_group *g)
{
    if (g->apart[0])
        return haul__fail(HAUL_UNSUPPORTED, "haul_group_get", NULL, "%s", g->apart);
    return haul__direct_open(g);
}

/* The same ranks as those of the launcher, in a group of their own. */
static haul_group *get_direct(void)
{
    if (direct && world_forks == haul__fork_count())
        return direct;
    haul_group *all = haul__launcher_now().size > 1 ? get_world() : get_alone();
    if (!all)
        return NULL;
    if (direct || haul__is_trial()) {
        haul__fail(HAUL_STATE, "haul_group_get", NULL,
                   direct
                       ? "this process is the child of a fork, and its parent is a rank; call it before the fork"
                       : "the ranks' devices are not connected yet, and meet in no dry run or recorded step; call it "
                         "once before");
        return NULL;
    }
    HAUL__ASSERT(all->rank >= 0 && all->rank < all->size);
    haul_group *g = part_of(all, 0, all->rank);
    if (g && connect_devices(g)) {
        haul__object_release(g);
        g = NULL;
    }
    if (all->size == 1)
        world_forks = haul__fork_count();
    return direct = g;
}

/* True for a group whose rank is the calling thread, not the process. */
static bool is_local(const char *name)
{
    return strncmp(name, "local:", 6) == 0 || (strcmp(name, "auto") == 0 && haul__rank_group(NULL));
}

static haul_group *get_local(const char *name)
{
    haul_group *g = haul__rank_group(strcmp(name, "auto") ? name : NULL);
    if (!g)
        haul__fail(HAUL_STATE, "haul_group_get", "name",
                   "this thread is not a rank of \"%.60s\"; haul_group_run starts the threads that are", name);
    return g;
}

static haul_group *get_auto(void)
{
    if (haul__launcher_now().size <= 1)
        return get_alone();
    haul_group *g = direct ? direct : get_world();
    return g && g != direct && !g->apart[0] ? get_direct() : g;
}

static const group_name names[] = {{"auto", get_auto}, {"mpi", get_world}, {"nccl", get_direct}, {"none", get_alone}};
enum { NAMES = sizeof names / sizeof *names };

haul_group *haul_group_get_with(const haul_group_options *options)
{
    static const char      operation[] = "haul_group_get";
    static pthread_mutex_t getting = PTHREAD_MUTEX_INITIALIZER;
    if (!options || !options->name) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "name",
                   "the name is missing; write \"auto\", \"mpi\", \"nccl\" or \"none\"");
        return NULL;
    }
    if (options->limit != 0 && !(options->limit > 0 && options->limit < 1e9)) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "limit",
                   "the limit is %g seconds; it must be above 0 and below 1e9", options->limit);
        return NULL;
    }
    double seconds;
    if (!haul__group_limit_given(&seconds)) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, NULL,
                   "HAUL_GROUP_LIMIT is '%.60s'; seconds above 0 and below 1e9 are expected, for example 60",
                   getenv("HAUL_GROUP_LIMIT"));
        return NULL;
    }
    const bool        local = is_local(options->name);
    const group_name *row = names;
    while (!local && row < names + NAMES && strcmp(options->name, row->name) != 0)
        row++;
    if (!local && row == names + NAMES) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "name",
                   "unknown group \"%.60s\"; use \"auto\", \"mpi\", \"nccl\" or \"none\"", options->name);
        return NULL;
    }
    HAUL__ASSERT(local || row < names + NAMES);
    if (options->limit > 0)
        haul__group_set_limit(options->limit);
    if (local)
        return get_local(options->name);
    pthread_mutex_lock(&getting);
    haul_group *g = row->get();
    pthread_mutex_unlock(&getting);
    return g;
}

/* ---- checks ---- */

haul_status haul__group_check(const haul_group *group, const char *operation)
{
    haul_status status = haul__check_object(group, &group_class, operation, "group");
    if (!status && group->engine->kind->called == HAUL__CALLED_BY_RANK)
        return haul__rank_check(group, operation);
    if (!status && group->engine->kind->called == HAUL__CALLED_BY_GROUP_THREAD && world_forks != haul__fork_count())
        return haul__fail(HAUL_STATE, operation, "group",
                          "this process is the child of a fork; only its parent is a rank of the group");
    return status;
}

haul_status haul__group_check_rank(const haul_group *group, int rank, const char *operation, const char *argument)
{
    if (rank >= 0 && rank < group->size)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "unknown rank %d; the group has ranks 0 to %d", rank,
                      group->size - 1);
}

void haul__group_describe_rank(const haul_group *group, int rank, char *out, size_t size)
{
    const haul_group_member *m = &group->members[rank];
    const haul__engine      *e = group->engine;
    if (e->kind->device)
        haul__snprintf(out, size, "rank %d (%s)", rank, e->kind->device(e, rank));
    else
        haul__snprintf(out, size, "rank %d (host %s, process %d)", rank, m->host, m->process);
}

int64_t haul__group_number(const haul_group *group)
{
    return group->number;
}

haul_group *haul__group_of_number(int64_t number, const char *operation)
{
    pthread_mutex_lock(&lock);
    haul_group *g = groups;
    while (g && g->number != number)
        g = g->next;
    pthread_mutex_unlock(&lock);
    if (!g)
        haul__fail(HAUL_STATE, operation, "group", "the group has ended");
    return g;
}

uint64_t haul__group_begun(uint64_t key)
{
    pthread_mutex_lock(&lock);
    const haul_group *g = groups;
    while (g && g->key != key)
        g = g->next;
    uint64_t begun = g ? atomic_load(&g->begun) : 0;
    for (unsigned i = 0; !g && i < ENDED && i < ended_count; i++)
        if (ended[i].key == key && ended[i].begun > begun)
            begun = ended[i].begun;
    pthread_mutex_unlock(&lock);
    return begun;
}

/* ---- properties ---- */

int haul_group_rank(const haul_group *group)
{
    return haul__check_object(group, &group_class, "haul_group_rank", "group") ? -1 : group->rank;
}

int haul_group_size(const haul_group *group)
{
    return haul__check_object(group, &group_class, "haul_group_size", "group") ? -1 : group->size;
}

haul_status haul_group_describe(const haul_group *group, haul_group_properties *out)
{
    static const char operation[] = "haul_group_describe";
    haul_status       status = haul__check_object(group, &group_class, operation, "group");
    if (status || !out)
        return status ? status : haul__fail_null(operation, "out");
    HAUL__ASSERT(0 <= group->rank && group->rank < group->size);
    *out = (haul_group_properties){.kind = group->engine->kind->name,
                                   .rank = group->rank,
                                   .size = group->size,
                                   .limit = haul__group_limit(),
                                   .collectives = (int64_t)atomic_load(&group->begun),
                                   .sent_bytes = atomic_load(&group->sent_bytes)};
    group->engine->kind->describe(group->engine, out);
    if (group->direct.library) {
        out->kind = group->direct.library->name;
        out->library = group->direct.library->file;
        out->family = "NCCL";
        out->version = group->direct.version;
    }
    return HAUL_OK;
}

haul_status haul_group_member_get(const haul_group *group, int rank, haul_group_member *out)
{
    static const char operation[] = "haul_group_member_get";
    if (haul__check_object(group, &group_class, operation, "group") ||
        haul__group_check_rank(group, rank, operation, "rank"))
        return haul_error_status();
    if (!out)
        return haul__fail_null(operation, "out");
    *out = group->members[rank];
    return HAUL_OK;
}

/* ---- splitting ---- */

haul_group *haul_group_split(haul_group *group, int color, int key)
{
    static const char operation[] = "haul_group_split";
    if (haul__group_check(group, operation))
        return NULL;
    if (color < 0) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "color", "the color is %d; it must be at least 0", color);
        return NULL;
    }
    if (haul__is_trial()) {
        haul__fail(HAUL_UNSUPPORTED, operation, NULL, "a group cannot be split in a dry run or a recorded step");
        return NULL;
    }
    haul_group *g = part_of(group, color, key);
    if (g && group->direct.library && connect_devices(g)) {
        haul__object_release(g);
        g = NULL;
    }
    return g ? haul__own(g, operation) : NULL;
}

haul_status haul_group_barrier(haul_group *group)
{
    const haul__group_call call = {.name = "haul_group_barrier"};
    if (haul__group_check(group, call.name))
        return haul_error_status();
    return haul__work_wait(haul__group_broadcast_begin(group, &call, NULL, 0, 0));
}
