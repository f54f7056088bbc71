/* Finds the place in the program that called the library, from the return addresses on the stack. */
#include "base/system/call_site.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#if defined(__has_include)
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define HAVE_BACKTRACE 1
#endif
#if __has_include(<sys/auxv.h>)
#include <sys/auxv.h>
#define HAVE_AUXILIARY_VECTOR 1
#endif
#endif

#include "base/assert.h"

enum { SHOWN = 8 };

int haul__take_frames(void **frames, int capacity)
{
#ifdef HAVE_BACKTRACE
    return backtrace(frames, capacity);
#else
    (void)frames;
    (void)capacity;
    return 0;
#endif
}

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

/* True if `symbol` is the public function of `operation`. The function behind a macro ends in "_with". */
static bool is_of(const char *symbol, const char *operation)
{
    size_t size = strlen(operation);
    return strncmp(symbol, operation, size) == 0 && (!symbol[size] || strcmp(symbol + size, "_with") == 0);
}

/* True if the object loaded at `base` is the program itself: the program's headers are in it. */
static bool is_program(const void *base)
{
#ifdef HAVE_AUXILIARY_VECTOR
    Dl_info     program;
    const void *headers = (const void *)getauxval(AT_PHDR);
    return headers && dladdr(headers, &program) && program.dli_fbase == base;
#else
    (void)base;
    return true;
#endif
}

/* The object that contains the library; false if the system does not know. */
static bool find_own(Dl_info *out)
{
    bool (*self)(Dl_info *) = find_own;
    void *here;
    memcpy(&here, &self, sizeof here);
    return dladdr(here, out) != 0;
}

bool haul__is_in_library(const void *address)
{
    Dl_info own, info;
    return find_own(&own) && dladdr(address, &info) && info.dli_fbase == own.dli_fbase && !is_program(own.dli_fbase);
}

/* A library that calls its own functions: haul_call calls haul_to. Where a program holds the library, only the exported
 * names show what belongs to it. */
static bool is_inside(const void *call, const Dl_info *own)
{
    Dl_info info;
    if (!dladdr(call, &info) || info.dli_fbase != own->dli_fbase)
        return false;
    return !is_program(own->dli_fbase) || (info.dli_sname && !strncmp(info.dli_sname, "haul_", 5));
}

/* The frame that called the library. Where names are exported it is the caller of the operation's function; otherwise
 * the first frame outside the shared library. In a program that links the library statically nothing shows which
 * functions belong to whom: -1. *end becomes the first frame outside the object that contains the library. */
static int caller_of(void *const *frames, int count, const char *operation, int *end)
{
    Dl_info own, info;
    int     exported = -1, named = -1;
    bool    inside = false; /* an interposer of backtrace() comes first */
    HAUL__ASSERT(count >= 0);
    *end = count;
    if (!find_own(&own))
        return -1;
    for (int i = 0; i < *end; i++) {
        if (!dladdr((char *)frames[i] - 1, &info))
            continue;
        if (info.dli_fbase != own.dli_fbase) {
            *end = inside ? i : count;
            continue;
        }
        inside = true;
        if (!info.dli_sname || strncmp(info.dli_sname, "haul_", 5) != 0)
            continue;
        if (exported < 0)
            exported = i;
        if (is_of(info.dli_sname, operation))
            named = i;
    }
    if (named < 0 && exported < 0)
        return is_program(own.dli_fbase) || *end == count ? -1 : *end;
    int at = (named >= 0 ? named : exported) + 1;
    while (at < count && is_inside((char *)frames[at] - 1, &own))
        at++;
    HAUL__ASSERT(0 < at && at <= count && *end <= count);
    return at;
}

int haul__caller_frame(void *const *frames, int count, const char *operation)
{
    int       end;
    const int at = caller_of(frames, count, operation, &end);
    return at < count ? at : -1;
}

/* "train_step+0x4f in ./train", or "./train+0x1f3a" if the function has no name. */
static int describe_frame(void *frame, char *out, size_t size)
{
    Dl_info info;
    if (!dladdr((char *)frame - 1, &info) || !info.dli_fname)
        return snprintf(out, size, "%p", frame);
    if (info.dli_sname)
        return snprintf(out, size, "%s+0x%zx in %s", info.dli_sname, (size_t)((char *)frame - (char *)info.dli_saddr),
                        base_name(info.dli_fname));
    return snprintf(out, size, "%s+0x%zx", base_name(info.dli_fname), (size_t)((char *)frame - (char *)info.dli_fbase));
}

const char *haul__describe_call_site(void *const *frames, int count, const char *operation, char *out, size_t size)
{
    int    end, first = caller_of(frames, count, operation, &end), last = first;
    size_t at = 0;
    HAUL__ASSERT(size > 0);
    if (first < 0) { /* all frames, for addr2line */
        first = end > 2 ? 2 : 0;
        last = (first + SHOWN < end ? first + SHOWN : end) - 1;
    }
    HAUL__ASSERT(0 <= first && last < first + SHOWN);
    out[0] = '\0';
    for (int i = first; i <= last && i < count && at < size; i++) {
        int length = snprintf(out + at, size - at, "%s", i > first ? " < " : "");
        at += length > 0 ? (size_t)length : 0;
        length = at < size ? describe_frame(frames[i], out + at, size - at) : 0;
        at += length > 0 ? (size_t)length : 0;
    }
    return out;
}
