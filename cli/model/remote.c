#include "cli/model/remote.h"

#include <haul/haul.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/shared/progress.h"
#include "files/disk_cache.h"

#define CIFAR         "https://www.cs.toronto.edu/~kriz/"
#define MNIST         "https://ossci-datasets.s3.amazonaws.com/mnist/"
#define FASHION_MNIST "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
#define SHA256        "#sha256="

typedef struct published {
    const char *source, *file, *address, *sha256;
} published;

static const published files[] = {
#define X(source, file, address, sha256) {source, file, address file, sha256},
#include "cli/model/published.def"
#undef X
};
enum { FILE_COUNT = sizeof files / sizeof *files };

static _Thread_local char found[4096];

/* What failed last is not tried again: a command asks several times for the same data. */
static _Thread_local char        failed[2200], message[1024];
static _Thread_local haul_status failed_status;

bool remote_is_address(const char *text)
{
    return !strncasecmp(text, "http://", 7) || !strncasecmp(text, "https://", 8);
}

/* ---- the line that shows how far it is ---- */

typedef struct display {
    progress_bar bar;
    char         name[80];
} display;

static bool show(void *context, int64_t bytes, int64_t total)
{
    display *d = context;
    char     text[200];
    if (progress_due(&d->bar)) {
        if (total > 0)
            snprintf(text, sizeof text, "fetches %s  %s of %s", d->name, text_bytes(bytes), text_bytes(total));
        else
            snprintf(text, sizeof text, "fetches %s  %s", d->name, text_bytes(bytes));
        progress_say(&d->bar, text);
    }
    return !interrupted();
}

/* Sets `found`. */
static bool fetch(const char *url, const char *sha256, const char *folder)
{
    display     d;
    const char *slash = strrchr(url, '/');
    progress_init(&d.bar, true);
    visible_text(d.name, sizeof d.name, slash && slash[1] ? slash + 1 : url);
    const haul_status status =
        haul_fetch(found, sizeof found, url, .sha256 = sha256, .folder = folder, .progress = show, .context = &d);
    progress_clear();
    return status == HAUL_OK;
}

/* ---- files and data sets ---- */

static bool has_failed(const char *text)
{
    if (strcmp(failed, text) != 0)
        return false;
    haul_error_set(failed_status, NULL, NULL, "%s", message);
    return true;
}

static const char *note_failure(const char *text)
{
    snprintf(failed, sizeof failed, "%s", text);
    snprintf(message, sizeof message, "%s", error_text());
    failed_status = haul_error_status();
    return NULL;
}

const char *remote_file(const char *address)
{
    char        url[2200];
    const char *sum = strstr(address, SHA256);
    if (has_failed(address))
        return NULL;
    snprintf(url, sizeof url, "%.*s", (int)(sum ? sum - address : (ptrdiff_t)strlen(address)), address);
    return fetch(url, sum ? sum + strlen(SHA256) : NULL, NULL) ? found : note_failure(address);
}

bool remote_has_set(const char *name)
{
    for (int i = 0; i < FILE_COUNT; i++)
        if (!strcmp(files[i].source, name))
            return true;
    return false;
}

/* The folder of a data set in the cache, for haul__free. */
static char *folder_of(const char *name)
{
    char *cache = haul__cache_folder(), *folder = cache ? haul__format("%s/datasets/%s", cache, name) : NULL;
    haul__free(cache);
    if (!folder)
        haul_error_set(HAUL_IO, NULL, NULL, "the data sets have no folder: set HAUL_CACHE_DIR or HOME");
    return folder;
}

/* Sets `found`. One file is an archive; several are a folder. */
static bool fetch_set(const char *name, const char *folder)
{
    int count = 0;
    for (int i = 0; i < FILE_COUNT; i++)
        if (!strcmp(files[i].source, name)) {
            if (!fetch(files[i].address, files[i].sha256, folder))
                return false;
            count++;
        }
    if (count > 1)
        snprintf(found, sizeof found, "%s", folder);
    return true;
}

const char *remote_set(const char *name)
{
    if (!remote_has_set(name) || has_failed(name))
        return NULL;
    char      *folder = folder_of(name);
    const bool fetched = folder && fetch_set(name, folder);
    haul__free(folder);
    return fetched ? found : note_failure(name);
}
