/* Writes the files of a profile into a folder. */
#include "observe/profile/save.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "files/disk_cache.h"
#include "files/file.h"
#include "observe/audit/audit.h"
#include "observe/learn/learn.h"

static const char operation[] = "haul_profile_save";

typedef struct document {
    void (*write)(haul__json_text *, const haul_profile *);
    const haul_profile *profile;
} document;

static void write_document(haul__json_text *t, const void *of)
{
    const document *d = of;
    d->write(t, d->profile);
}

/* Writes the text with a newline, which takes the place of the NUL. */
static haul_status write_line(const char *path, char *text, size_t length)
{
    HAUL__ASSERT(!text[length]);
    text[length] = '\n';
    return haul__file_write_all(path, operation, text, length + 1);
}

static haul_status save(const haul_profile *p, const char *folder, const char *name,
                        void (*write)(haul__json_text *, const haul_profile *))
{
    HAUL__ASSERT(p->analysis && p->findings);
    size_t      length = 0;
    char       *path = haul__format("%s/%s", folder, name);
    char       *text = path ? haul__json_make(write_document, &(document){write, p}, &length) : NULL;
    haul_status status = text ? HAUL_OK : haul__fail_memory(operation, path ? length : strlen(folder));
    if (!status)
        status = write_line(path, text, length);
    haul__free(text);
    haul__free(path);
    return status;
}

static haul_status make_folder(const char *folder)
{
    char *path = haul__strdup(folder);
    if (!path)
        return haul__fail_memory(operation, strlen(folder));
    haul_status status = HAUL_OK;
    if (haul__fault_point(HAUL__FAULT_FILE) || !haul__make_folders(path, 0777))
        status = haul__fail(HAUL_IO, operation, "folder", "%s cannot be made: %s", folder, haul__strerror(errno));
    haul__free(path);
    return status;
}

haul_status haul_profile_save(haul_profile *profile, const char *folder)
{
    haul_status status = haul__profile_check(profile, operation);
    if (status)
        return status;
    if (!folder)
        return haul__fail_null(operation, "folder");
    if (!haul__profile_analysis(profile, operation) || !haul__profile_findings(profile, operation))
        return haul_error_status();
    status = make_folder(folder);
    if (!status)
        status = save(profile, folder, "trace.json", haul__write_trace);
    if (!status)
        status = save(profile, folder, "profile.json", haul__write_tables);
    if (!status)
        status = save(profile, folder, "audit.json", haul__write_findings);
    if (!status)
        haul__profile_learn(profile, profile->analysis);
    return status;
}
