/* haul_fetch: the checks of its options, and the order of its steps. */
#include <haul/fetch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/ascii.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "fetch/download.h"
#include "fetch/place.h"

#define LIMIT       ((int64_t)8 << 30)
#define CACHE_LIMIT ((int64_t)16 << 30)
enum { STALL_SECONDS = 30, MOST_URL = 2048, SHA256_DIGITS = 64 };

static haul_status refuse(const char *argument, const char *what)
{
    return haul__fail(HAUL_INVALID_ARGUMENT, HAUL__FETCH, argument, "%s", what);
}

/* Blanks and control characters have no place in an address. */
static haul_status check_url(const char *url)
{
    const size_t length = strnlen(url, MOST_URL + 1);
    if (!haul__same_letters(url, "http://", 7) && !haul__same_letters(url, "https://", 8))
        return refuse("url", "only addresses that begin with http:// or https:// are fetched");
    if (length > MOST_URL)
        return refuse("url", "the address has more than 2,048 bytes");
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)url[i] <= ' ' || url[i] == 127)
            return refuse("url", "the address has a blank or a control character; write %20 for a blank");
    return HAUL_OK;
}

static haul_status check_options(haul_fetch_options *o)
{
    if (!o->url)
        return haul__fail_null(HAUL__FETCH, "url");
    if (check_url(o->url))
        return haul_error_status();
    if (o->sha256 && (strnlen(o->sha256, SHA256_DIGITS + 1) != SHA256_DIGITS ||
                      strspn(o->sha256, "0123456789abcdefABCDEF") != SHA256_DIGITS))
        return refuse("sha256", "a SHA-256 has 64 hexadecimal digits");
    if (o->limit < 0 || o->cache_limit < 0 || o->stall < 0)
        return refuse(o->limit < 0 ? "limit" : o->stall < 0 ? "stall" : "cache_limit", "it is negative");
    o->limit = o->limit ? o->limit : LIMIT;
    o->cache_limit = o->cache_limit ? o->cache_limit : CACHE_LIMIT;
    o->stall = o->stall ? o->stall : STALL_SECONDS;
    return HAUL_OK;
}

/* The address for messages: without a name and a password, and without what follows a question mark. */
static char *shown_url(const char *url)
{
    const char  *host = strstr(url, "://") + 3;
    const size_t length = strcspn(host, "/?#");
    const char  *at = memchr(host, '@', length);
    for (const char *next = at; next; next = memchr(at + 1, '@', (size_t)(host + length - at - 1)))
        at = next;
    const char *begin = at ? at + 1 : host;
    return haul__format("%.*s%.*s", (int)(host - url), url, (int)strcspn(begin, "?#"), begin);
}

static haul_status download(const haul__fetch_place *p, const haul_fetch_options *o, int fd)
{
    char *shown = shown_url(o->url);
    if (!shown)
        return haul__fail_memory(HAUL__FETCH, strlen(o->url));
    haul__download t = {.options = o, .url = shown, .path = p->path, .fd = fd};
    struct stat    info;
    haul_status    status = haul__download_run(&t);
    if (status == HAUL_OK)
        status = haul__fetch_finish(p, o, fd);
    else if (t.useless || !o->sha256 || (fstat(fd, &info) == 0 && !info.st_size))
        unlink(p->part);
    haul__free(shown);
    return status;
}

static haul_status fetch(const haul__fetch_place *p, const haul_fetch_options *o, size_t size)
{
    bool found;
    int  fd;
    if (strlen(p->path) >= size)
        return haul__fail(HAUL_INVALID_ARGUMENT, HAUL__FETCH, "size", "the path %s has %zu bytes, and size is %zu",
                          p->path, strlen(p->path) + 1, size);
    haul_status status = haul__fetch_find(p, o, &found);
    if (status || found)
        return status;
    status = haul__fetch_lock(p, o, &fd);
    if (status || fd < 0)
        return status;
    status = download(p, o, fd);
    close(fd);
    return status;
}

haul_status haul_fetch_with(char *path, size_t size, const haul_fetch_options *options)
{
    if (!path || !options)
        return haul__fail_null(HAUL__FETCH, path ? "url" : "path");
    haul_fetch_options o = *options;
    haul__fetch_place  p = {.path = NULL};
    haul_status        status = check_options(&o);
    if (status)
        return status;
    status = haul__fetch_place_init(&p, &o);
    if (status == HAUL_OK)
        status = fetch(&p, &o, size);
    if (status == HAUL_OK)
        memcpy(path, p.path, strlen(p.path) + 1);
    haul__fetch_place_free(&p);
    return status;
}
