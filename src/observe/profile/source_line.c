/* libdw (elfutils) is loaded at run time, so that programs which never look for a line do not need it. It stays loaded:
 * profiles are analysed again and again, also by several threads. The declarations follow its documentation,
 * elfutils/libdwfl.h. */
#include "observe/profile/source_line.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/alloc.h"

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

void haul__lines_close(haul__lines *l)
{
    if (!l)
        return;
    if (l->session)
        l->end(l->session);
    if (l->library)
        dlclose(l->library);
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

/* Where this file is: ".../src/observe/profile/source_line.c". The files next to it are the library's. */
static bool find_own_sources(haul__lines *l, char *out, size_t size)
{
    int   line;
    void *here;
    bool (*self)(haul__lines *, char *, size_t) = find_own_sources;
    memcpy(&here, &self, sizeof here);
    const char *path = haul__lines_at(l, here, &line);
    const char *end = path ? strstr(path, "observe/profile/source_line.c") : NULL;
    if (!end || (size_t)(end - path) >= size)
        return false;
    memcpy(out, path, (size_t)(end - path));
    out[end - path] = '\0';
    return true;
}

static bool is_own(const void *address)
{
    Dl_info here, there;
    void   *self;
    bool (*function)(const void *) = is_own;
    memcpy(&self, &function, sizeof self);
    return dladdr(self, &here) && dladdr(address, &there) && here.dli_fbase == there.dli_fbase;
}

bool haul__lines_caller(haul__lines *l, void *const *frames, int count, char *out, size_t size)
{
    char own[1024] = "";
    if (!l)
        return false;
    const bool known = find_own_sources(l, own, sizeof own);
    for (int i = 0; i < count; i++) {
        int         line = 0;
        const void *call = (const char *)frames[i] - 1;
        const char *path = haul__lines_at(l, call, &line);
        if (!path || (known && is_own(call) && !strncmp(path, own, strlen(own))))
            continue;
        const char *name = strrchr(path, '/');
        snprintf(out, size, "%s:%d", name ? name + 1 : path, line);
        return true;
    }
    return false;
}
