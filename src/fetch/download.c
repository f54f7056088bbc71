#include "fetch/download.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/ascii.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "fetch/curl.h"
#include "fetch/sha256.h"
#include "files/descriptor.h"

enum { MOST_TRIES = 4, MOST_REDIRECTIONS = 10, CONNECT_SECONDS = 30, LEAST_SPEED = 100, RANGE_NOT_SATISFIABLE = 416 };
enum { PIECE = 1 << 16 };

typedef struct attempt {
    haul__download             *download;
    const haul__curl_functions *curl;
    int64_t                     begin, size; /* bytes before it, and now */
    int64_t                     total;       /* of the file; 0: not known */
    bool                        too_large;
    int                         failed; /* errno of a write */
    int                         code;   /* curl's */
    long                        response;
    char                        message[HAUL__CURL_ERROR_SIZE];
} attempt;

/* ---- what curl calls ---- */

static size_t take(char *data, size_t one, size_t count, void *context)
{
    attempt     *a = context;
    const size_t size = one * count;
    if ((uint64_t)size > (uint64_t)(a->download->options->limit - a->size)) {
        a->too_large = true;
        return 0;
    }
    for (size_t done = 0; done < size;) {
        const ssize_t wrote = haul__file_fault()
                                  ? -1
                                  : pwrite(a->download->fd, data + done, size - done, (off_t)(a->size + (int64_t)done));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            a->failed = wrote ? errno : ENOSPC;
            return 0;
        }
        done += (size_t)wrote;
    }
    a->size += (int64_t)size;
    return size;
}

/* Not 0: stop. */
static int report(void *context, int64_t total, int64_t now, int64_t to_send, int64_t sent)
{
    attempt                  *a = context;
    const haul_fetch_options *o = a->download->options;
    (void)now, (void)to_send, (void)sent;
    a->total = total > 0 && total <= INT64_MAX - a->begin ? a->begin + total : 0;
    return o->progress && !o->progress(o->context, a->size, a->total);
}

/* ---- one request ---- */

static bool is_https(const char *url)
{
    return haul__same_letters(url, "https:", 6);
}

/* 0, or what curl says of the first option that it refuses. */
static int set_options(attempt *a, void *handle)
{
    const haul_fetch_options *o = a->download->options;
    int (*const set)(void *, int, ...) = a->curl->easy_setopt;
    const long http = HAUL__CURL_PROTO_HTTP, https = HAUL__CURL_PROTO_HTTPS;
    const struct number {
        int  option;
        long value;
    } numbers[] = {
        {HAUL__CURL_FAILONERROR, 1},
        {HAUL__CURL_FOLLOWLOCATION, 1},
        {HAUL__CURL_MAXREDIRS, MOST_REDIRECTIONS},
        {HAUL__CURL_PROTOCOLS, http | https},
        {HAUL__CURL_REDIR_PROTOCOLS, is_https(o->url) ? https : http | https},
        {HAUL__CURL_NETRC, HAUL__CURL_NETRC_OPTIONAL},
        {HAUL__CURL_NOSIGNAL, 1},
        {HAUL__CURL_CONNECTTIMEOUT, o->stall < CONNECT_SECONDS ? o->stall : CONNECT_SECONDS},
        {HAUL__CURL_LOW_SPEED_LIMIT, LEAST_SPEED},
        {HAUL__CURL_LOW_SPEED_TIME, o->stall},
        {HAUL__CURL_NOPROGRESS, 0},
    };
    int code = HAUL__CURLE_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !code; i++)
        code = set(handle, numbers[i].option, numbers[i].value);
    if (code || (code = set(handle, HAUL__CURL_URL, o->url)) ||
        (code = set(handle, HAUL__CURL_USERAGENT, "haul/" HAUL_VERSION_STRING)) ||
        (code = set(handle, HAUL__CURL_ERRORBUFFER, a->message)) ||
        (code = set(handle, HAUL__CURL_WRITEFUNCTION, take)) || (code = set(handle, HAUL__CURL_WRITEDATA, a)) ||
        (code = set(handle, HAUL__CURL_XFERINFOFUNCTION, report)) || (code = set(handle, HAUL__CURL_XFERINFODATA, a)) ||
        (code = set(handle, HAUL__CURL_MAXFILESIZE_LARGE, o->limit - a->begin)))
        return code;
    return a->begin ? set(handle, HAUL__CURL_RESUME_FROM_LARGE, a->begin) : code;
}

static haul_status perform(attempt *a)
{
    void *handle = a->curl->easy_init();
    if (!handle)
        return haul__fail_memory(HAUL__FETCH, 0);
    a->code = set_options(a, handle);
    if (!a->code)
        a->code = a->curl->easy_perform(handle);
    a->curl->easy_getinfo(handle, HAUL__CURL_RESPONSE_CODE, &a->response);
    if (a->code && !*a->message)
        haul__snprintf(a->message, sizeof a->message, "%s", a->curl->easy_strerror(a->code));
    a->curl->easy_cleanup(handle);
    return HAUL_OK;
}

/* ---- the whole file ---- */

static haul_status fail(const attempt *a)
{
    haul__download *t = a->download;
    if (a->code == HAUL__CURLE_ABORTED_BY_CALLBACK)
        return haul__fail(HAUL_STATE, HAUL__FETCH, "progress", "the transfer of %s was stopped", t->url);
    if (a->too_large || a->code == HAUL__CURLE_FILESIZE_EXCEEDED) {
        t->useless = true;
        return haul__fail(HAUL_IO, HAUL__FETCH, "limit",
                          "the file at %s has more than %" PRId64 " bytes, which is the limit", t->url,
                          t->options->limit);
    }
    if (a->failed)
        return haul__fail(HAUL_IO, HAUL__FETCH, "folder", "cannot write %s.part: %s", t->path,
                          haul__strerror(a->failed));
    return haul__fail(HAUL_IO, HAUL__FETCH, "url",
                      "cannot fetch %s: %s. Check the network, or fetch the file by hand and save it as %s", t->url,
                      a->message, t->path);
}

/* True if the server cannot continue, so that it has to begin again. */
static bool must_restart(const attempt *a)
{
    return a->begin && (a->code == HAUL__CURLE_RANGE_ERROR ||
                        (a->code == HAUL__CURLE_HTTP_RETURNED_ERROR && a->response == RANGE_NOT_SATISFIABLE));
}

/* True if the connection ended early, with something to show for it, and the rest can follow. */
static bool can_continue(const attempt *a)
{
    return a->download->options->sha256 && a->size > a->begin && !a->too_large && !a->failed &&
           (a->code == HAUL__CURLE_PARTIAL_FILE || a->code == HAUL__CURLE_RECV_ERROR);
}

static haul_status truncate_part(const haul__download *t, int64_t size)
{
    if (!haul__file_fault() && ftruncate(t->fd, (off_t)size) == 0)
        return HAUL_OK;
    return haul__fail(HAUL_IO, HAUL__FETCH, "folder", "cannot write %s.part: %s", t->path, haul__strerror(errno));
}

static haul_status receive(haul__download *t, const haul__curl_functions *curl, int64_t begin)
{
    for (int tries = 1;; tries++) {
        attempt a = {.download = t, .curl = curl, .begin = begin, .size = begin};
        if (truncate_part(t, begin) || perform(&a))
            return haul_error_status();
        if (a.code == HAUL__CURLE_OK)
            return HAUL_OK;
        if (tries == MOST_TRIES || (!must_restart(&a) && !can_continue(&a)))
            return fail(&a);
        begin = must_restart(&a) ? 0 : a.size;
    }
}

/* The sum of an open file; false, with errno, if it cannot be read. `piece` is memory for PIECE bytes. */
static bool add_file(haul__sha256 *sum, int fd, uint8_t *piece)
{
    for (off_t at = 0;;) {
        const ssize_t got = haul__file_fault() ? -1 : pread(fd, piece, PIECE, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0;
        haul__sha256_add(sum, piece, (size_t)got);
        at += got;
    }
}

haul_status haul__check_sha256(int fd, const char *what, const haul_fetch_options *options, const char *fix)
{
    haul__sha256 sum;
    char         digits[65];
    if (!options->sha256)
        return HAUL_OK;
    uint8_t *piece = haul__malloc(PIECE);
    if (!piece)
        return haul__fail_memory(HAUL__FETCH, PIECE);
    haul__sha256_begin(&sum);
    const bool read = add_file(&sum, fd, piece);
    haul__free(piece);
    if (!read)
        return haul__fail(HAUL_IO, HAUL__FETCH, "folder", "cannot read %s: %s", what, haul__strerror(errno));
    haul__sha256_end(&sum, digits);
    return haul__same_letters(digits, options->sha256, SIZE_MAX)
               ? HAUL_OK
               : haul__fail(HAUL_FORMAT, HAUL__FETCH, "sha256", "%s has the SHA-256 %s, and %s is expected; %s", what,
                            digits, options->sha256, fix);
}

static haul_status check(const haul__download *t)
{
    char *what = haul__format("the file at %s", t->url);
    if (!what)
        return haul__fail_memory(HAUL__FETCH, strlen(t->url));
    const haul_status status = haul__check_sha256(
        t->fd, what, t->options, "it may have changed, or something else answered, as a page to log in");
    haul__free(what);
    return status;
}

haul_status haul__download_run(haul__download *t)
{
    const char                 *reason;
    const haul__curl_functions *curl = haul__curl(&reason);
    struct stat                 info;
    if (!curl)
        return haul__fail(HAUL_UNSUPPORTED, HAUL__FETCH, "url",
                          "cannot fetch %s: %s. Check the network, or fetch the file by hand and save it as %s", t->url,
                          reason, t->path);
    if (fstat(t->fd, &info))
        return haul__fail(HAUL_IO, HAUL__FETCH, "folder", "cannot examine %s.part: %s", t->path, haul__strerror(errno));
    const bool  goes_on = t->options->sha256 && info.st_size > 0 && info.st_size < t->options->limit;
    haul_status status = receive(t, curl, goes_on ? (int64_t)info.st_size : 0);
    if (status == HAUL_OK)
        status = check(t);
    if (status == HAUL_FORMAT && goes_on) { /* the part that was there may be the reason */
        haul_error_clear();
        status = receive(t, curl, 0);
        if (status == HAUL_OK)
            status = check(t);
    }
    t->useless = t->useless || status == HAUL_FORMAT;
    return status;
}
