#include "fetch/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/text/plain.h"

static pthread_once_t       once = PTHREAD_ONCE_INIT;
static haul__curl_functions functions;
static char                 reason[256]; /* empty: the library is there */

static void *open_library(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    const char              *own = getenv("HAUL_CURL");
    void                    *library = NULL;
    if (own && *own) {
        library = dlopen(own, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            haul__snprintf(reason, sizeof reason, "HAUL_CURL is %s, which cannot be opened", own);
        return library;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        haul__snprintf(reason, sizeof reason, "found no libcurl.so.4; install libcurl4");
    return library;
}

static void load(void)
{
    void *library = open_library();
    if (!library)
        return;
#define X(name, result, arguments)                                                                                     \
    *(void **)&functions.name = dlsym(library, "curl_" #name);                                                         \
    if (!functions.name)                                                                                               \
        haul__snprintf(reason, sizeof reason, "its libcurl has no curl_%s; install libcurl4", #name);
#include "fetch/curl.def"
#undef X
    if (!*reason && functions.global_init(HAUL__CURL_GLOBAL_ALL) != HAUL__CURLE_OK)
        haul__snprintf(reason, sizeof reason, "libcurl cannot be initialised");
}

const haul__curl_functions *haul__curl(const char **why)
{
    pthread_once(&once, load);
    *why = reason;
    return *reason ? NULL : &functions;
}
