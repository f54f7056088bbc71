/* Fetching: files from the network, with a cache.
 *
 * haul_fetch connects only to the address that the program names, and to those that it redirects to. It uses libcurl
 * (https://curl.se/libcurl), which is opened when it is first needed: Haul does not depend on it.
 *
 *     char path[4096];
 *     haul_status status = haul_fetch(path, sizeof path, "https://example.org/photos.tar.gz", .limit = 1 << 30);
 *     haul_dataset *data = status ? NULL : haul_image_folder(path); */
#ifndef HAUL_FETCH_H
#define HAUL_FETCH_H

#include <haul/base.h>
#include <haul/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HAUL_BEGIN

/* A function that is called while a file is fetched, at least once a second: the bytes that are there, and the bytes of
 * the file, or 0 if the server did not say. Returns false to stop; the error is then HAUL_STATE. It must not call
 * haul_fetch. */
typedef bool haul_fetch_progress(void *context, int64_t bytes, int64_t total);

typedef struct HAUL__DESIGNATED haul_fetch_options {
    const char *url; /* http:// or https://; positional */
    HAUL__GUARD(sha256)
    const char *sha256; /* 64 hexadecimal digits that the SHA-256 of the file must have; NULL: any file is accepted */
    const char *folder; /* the folder for the file, which keeps its name; default: the cache */
    int64_t     limit;  /* the most bytes that the file may have; default 8 GiB */
    int         stall;  /* seconds in which at least 100 bytes a second must come; default 30 */
    int64_t     cache_limit;       /* the most bytes of all files in the cache; default 16 GiB */
    haul_fetch_progress *progress; /* may be NULL */
    void                *context;  /* passed to `progress` */
} haul_fetch_options;

/* Fetches a file unless it is there already: haul_fetch(path, sizeof path, "https://...", .sha256 = "...", .limit = 1
 * << 30). On failure no file of that path appeared, and `path` is not changed.
 *
 * Without .folder, the file is in the folder downloads of the cache ($HAUL_CACHE_DIR, else $XDG_CACHE_HOME/haul, else
 * ~/.cache/haul). Files that were not used for longest are removed from there when all would need more than
 * .cache_limit. A file that is there is not fetched again, and is not compared with the server's: delete it to do that.
 *
 * A file appears under its name when it is complete and has the right SHA-256. Until then it is NAME.part. With
 * .sha256, a transfer that was cut continues where it stopped, also in another process. Two processes that fetch the
 * same file take turns, and the second finds it complete.
 *
 * Proxies are those of the environment (http_proxy, https_proxy, no_proxy), passwords those of ~/.netrc. At most 10
 * redirections are followed, never from https to http or to another scheme.
 *
 * Fails with HAUL_UNSUPPORTED without libcurl, HAUL_INVALID_ARGUMENT for another scheme and malformed options,
 * HAUL_FORMAT for a file with another SHA-256, HAUL_STATE if `progress` stopped it, and otherwise HAUL_IO. The message
 * has the path where a file that was fetched by hand is found.
 *
 * - path: gets the path of the file
 * - size: the bytes that `path` has room for */
#define haul_fetch(path, size, ...) haul_fetch_with(path, size, HAUL__OPTIONS(haul_fetch_options, .url = __VA_ARGS__))
HAUL_API haul_status haul_fetch_with(char *path, size_t size, const haul_fetch_options *options);

HAUL_END

#endif
