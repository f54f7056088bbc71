/* libdw (elfutils) is loaded at run time, so that programs which never look for a line do not need it. It stays loaded:
 * profiles are analysed again and again, also by several threads. The declarations follow its documentation,
 * elfutils/libdwfl.h. */
#include "observe/profile/source_line.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/call_site.h"
#include "haul_config.h"

typedef struct callbacks {
    void (*find_elf)(void);
    int (*find_debuginfo)(void *, void **, const char *, uint64_t, const char *, const char *, uint32_t, char **);
    void (*section_address)(void);
    char **debuginfo_path;
} callbacks;

struct haul__lines {
    void     *library;
    void     *session;
    callbacks callbacks;
    void *(*begin)(const callbacks *callbacks);
    void (*end)(void *session);
    int (*report_process)(void *session, pid_t pid);
    int (*report_end)(void *session, void *removed, void *context);
    void *(*module_of)(void *session, uint64_t address);
    void *(*line_of)(void *module, uint64_t address);
    const char *(*describe)(void *line, uint64_t *address, int *number, int *column, uint64_t *time, uint64_t *length);
};

#ifdef HAUL_SMALL
/* A static program cannot load the library. */
haul__lines *haul__lines_open(void)
{
    return NULL;
}

static void unload(haul__lines *l)
{
    (void)l;
}
#else
/* Only debug information in the files themselves: nothing is searched for elsewhere, or fetched. */
static int find_none(void *module, void **user, const char *name, uint64_t base, const char *file, const char *link,
                     uint32_t crc, char **found)
{
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)found;
    return -1;
}

/* A function of the library, whose pointer `out` points to. */
static bool take(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool take_all(haul__lines *l)
{
    return take(l->library, "dwfl_begin", &l->begin) && take(l->library, "dwfl_end", &l->end) &&
           take(l->library, "dwfl_linux_proc_report", &l->report_process) &&
           take(l->library, "dwfl_report_end", &l->report_end) && take(l->library, "dwfl_addrmodule", &l->module_of) &&
           take(l->library, "dwfl_module_getsrc", &l->line_of) && take(l->library, "dwfl_lineinfo", &l->describe) &&
           take(l->library, "dwfl_linux_proc_find_elf", &l->callbacks.find_elf);
}

haul__lines *haul__lines_open(void)
{
    haul__lines *l = haul__calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->callbacks.find_debuginfo = find_none;
    l->library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (l->library && take_all(l))
        l->session = l->begin(&l->callbacks);
    if (l->session && l->report_process(l->session, getpid()) == 0 && l->report_end(l->session, NULL, NULL) == 0)
        return l;
    haul__lines_close(l);
    return NULL;
}

static void unload(haul__lines *l)
{
    if (l->library)
        dlclose(l->library);
}
#endif

void haul__lines_close(haul__lines *l)
{
    if (!l)
        return;
    if (l->session)
        l->end(l->session);
    unload(l);
    haul__free(l);
}

const char *haul__lines_at(haul__lines *l, const void *address, int *line)
{
    const uint64_t at = (uint64_t)(uintptr_t)address;
    void          *module = l ? l->module_of(l->session, at) : NULL;
    void          *found = module ? l->line_of(module, at) : NULL;
    return found ? l->describe(found, NULL, line, NULL, NULL, NULL) : NULL;
}

/* ---- the library's own sources ---- */

/* Where this file is: ".../src/observe/profile/source_line.c". The files next to it are the library's. What comes
 * before a "/../" is where the compiler ran, which differs between objects from a shared compiler cache. */
static bool find_own_sources(haul__lines *l, char *out, size_t size)
{
    int   line;
    void *here;
    bool (*self)(haul__lines *, char *, size_t) = find_own_sources;
    memcpy(&here, &self, sizeof here);
    const char *path = haul__lines_at(l, here, &line);
    const char *end = path ? strstr(path, "observe/profile/source_line.c") : NULL;
    for (const char *up; end && (up = strstr(path + 1, "/../")) && up < end;)
        path = up;
    if (!end || (size_t)(end - path) >= size)
        return false;
    memcpy(out, path, (size_t)(end - path));
    out[end - path] = '\0';
    return true;
}

static bool is_here(const void *address)
{
    Dl_info here, there;
    void   *self;
    bool (*function)(const void *) = is_here;
    memcpy(&self, &function, sizeof self);
    return dladdr(self, &here) && dladdr(address, &there) && here.dli_fbase == there.dli_fbase;
}

/* True if the call is in the library itself. In a program that holds the library, the file shows it: one next to this
 * file, or a table from which functions are generated (haul/pointwise.def). */
static bool is_own(const void *call, const char *path, const char *own)
{
    const char *end = path + strlen(path), *at = strstr(path, own);
    if (haul__is_in_library(call))
        return true;
    return *own && is_here(call) &&
           (at == path || (at && !strncmp(own, "/../", 4)) || (end - path > 4 && !strcmp(end - 4, ".def")));
}

/* The first frame from `first` on that belongs to the library, or to others; `count` if there is none. */
static int find_frame(haul__lines *l, void *const *frames, int first, int count, const char *own, bool library)
{
    HAUL__ASSERT(0 <= first && first <= count);
    for (int i = first; i < count; i++) {
        int         line;
        const void *call = (const char *)frames[i] - 1;
        const char *path = haul__lines_at(l, call, &line);
        if ((path || library) && is_own(call, path ? path : "", own) == library)
            return i;
    }
    return count;
}

/* An interposer of backtrace() may come before the library. */
bool haul__lines_caller(haul__lines *l, void *const *frames, int count, const char *operation, char *out, size_t size)
{
    char own[1024] = "";
    int  line = 0;
    if (!l)
        return false;
    if (!find_own_sources(l, own, sizeof own))
        own[0] = '\0';
    const int known = haul__caller_frame(frames, count, operation);
    HAUL__ASSERT(known < count);
    const int inside = known >= 0 ? known : find_frame(l, frames, 0, count, own, true);
    const int caller = find_frame(l, frames, inside < count ? inside : 0, count, own, false);
    if (caller == count)
        return false;
    const char *path = haul__lines_at(l, (const char *)frames[caller] - 1, &line), *name = strrchr(path, '/');
    snprintf(out, size, "%s:%d", name ? name + 1 : path, line);
    return true;
}

/* ---- places ---- */

/* Places that were found before: a program waits and copies in few places, and the search takes milliseconds. */
enum { KNOWN = 16, FRAMES = 32, OPERATION = 64, TEXT = 256 };

static struct {
    pthread_mutex_t lock; /* only tried: whoever does not get it searches, also in the child of a fork */
    unsigned        next;
    struct {
        void *frames[FRAMES];
        int   count;
        char  operation[OPERATION];
        char  text[TEXT];
    } places[KNOWN];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool recall(void *const *frames, int count, const char *operation, char *out, size_t size)
{
    HAUL__ASSERT(0 < count && count <= FRAMES);
    bool found = false;
    if (pthread_mutex_trylock(&known.lock) != 0)
        return false;
    for (int i = 0; i < KNOWN && !found; i++) {
        found = known.places[i].count == count && !strcmp(known.places[i].operation, operation) &&
                !memcmp(known.places[i].frames, frames, (size_t)count * sizeof *frames);
        if (found)
            snprintf(out, size, "%s", known.places[i].text);
    }
    pthread_mutex_unlock(&known.lock);
    return found;
}

static void remember(void *const *frames, int count, const char *operation, const char *text)
{
    HAUL__ASSERT(0 < count && count <= FRAMES);
    if (strlen(text) >= TEXT || strlen(operation) >= OPERATION || pthread_mutex_trylock(&known.lock) != 0)
        return;
    const unsigned at = known.next++ % KNOWN;
    memcpy(known.places[at].frames, frames, (size_t)count * sizeof *frames);
    known.places[at].count = count;
    snprintf(known.places[at].operation, OPERATION, "%s", operation);
    snprintf(known.places[at].text, TEXT, "%s", text);
    pthread_mutex_unlock(&known.lock);
}

const char *haul__source_place(void *const *frames, int count, const char *operation, char *out, size_t size)
{
    if (count <= 0 || count > FRAMES || recall(frames, count, operation, out, size))
        return count > 0 && count <= FRAMES ? out : haul__describe_call_site(frames, count, operation, out, size);
    haul__lines *lines = haul__lines_open();
    if (!haul__lines_caller(lines, frames, count, operation, out, size))
        haul__describe_call_site(frames, count, operation, out, size);
    haul__lines_close(lines);
    remember(frames, count, operation, out);
    return out;
}
