#include "cli/model/archive_kind.h"

#include <haul/haul.h>
#include <string.h>
#include <strings.h>

#include "data/image/endings.h"

#define LOOK "haul train"

typedef struct look {
    const char *path, *kind;
    bool        images; /* a picture in a folder named images was seen: there may be masks for it */
} look;

/* True if the folder right above the file has this name. */
static bool is_in(const char *name, const char *last, const char *folder)
{
    const size_t length = strlen(folder);
    if ((size_t)(last - name) < length + 1 || memcmp(last - 1 - length, folder, length) != 0)
        return false;
    return last - 1 - length == name || last[-2 - (ptrdiff_t)length] == '/';
}

static const char *kind_of_file(look *l, const char *name)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    if (!strncmp(last, "data_batch_", 11) || !strcmp(last, "test_batch.bin"))
        return "cifar10";
    if (!strcmp(last, "train.bin") || !strcmp(last, "test.bin"))
        return "cifar100";
    if (!strncmp(last, "train-", 6) || !strncmp(last, "t10k-", 5))
        return strcasestr(name, "fashion") || strcasestr(l->path, "fashion") ? "fashion-mnist" : "mnist";
    if (*last == '.' || !slash || !haul__is_picture(last, false))
        return NULL;
    if (is_in(name, last, "masks"))
        return "masks";
    l->images = true;
    return is_in(name, last, "images") ? NULL : "images";
}

static bool tell(void *context, const char *name)
{
    look *l = context;
    return (l->kind = kind_of_file(l, name)) != NULL;
}

const char *archive_kind(const char *path)
{
    const char *slash = strrchr(path, '/');
    look        l = {.path = slash ? slash + 1 : path};
    bool        any;
    if (!haul__is_archive(path) || haul__archive_look(path, LOOK, tell, &l, &any))
        return NULL;
    return any ? l.kind : l.images ? "images" : NULL;
}

static bool is_test(void *context, const char *name)
{
    const char *at = strncmp(name, "test/", 5) ? strstr(name, "/test/") : name;
    (void)context;
    return at && strchr(at + (at == name ? 5 : 6), '/');
}

bool archive_has_test(const char *path)
{
    bool any;
    if (haul__archive_look(path, LOOK, is_test, NULL, &any) == HAUL_OK)
        return any;
    haul_error_clear();
    return true;
}
