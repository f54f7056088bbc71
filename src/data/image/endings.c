#include "data/image/endings.h"

#include <string.h>

#include "base/text/ascii.h"

static bool has_ending(const char *name, const char *const *endings)
{
    const char *ending = strrchr(name, '.');
    for (; ending && *endings; endings++)
        if (haul__same_letters(ending, *endings, SIZE_MAX))
            return true;
    return false;
}

bool haul__is_picture(const char *name, bool is_folder)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png", NULL};
    return has_ending(name, endings) && !is_folder;
}

bool haul__is_png(const char *name, bool is_folder)
{
    static const char *const endings[] = {".png", NULL};
    return has_ending(name, endings) && !is_folder;
}

/* Pictures that no decoder here reads, which would otherwise be ignored silently. */
static bool is_foreign(const char *name, bool is_folder)
{
    static const char *const endings[] = {".webp", ".gif",  ".bmp", ".tif",  ".tiff", ".heic",
                                          ".heif", ".avif", ".jp2", ".jfif", ".ppm",  NULL};
    return has_ending(name, endings) && !is_folder;
}

haul_status haul__refuse_foreign_pictures(const haul__archive *archive, const char *folder, const char *operation)
{
    return haul__refuse_entries(archive, folder, is_foreign,
                                "is neither a JPEG nor a PNG file; convert it, or move it away", operation);
}

size_t haul__stem_length(const char *name)
{
    const char *ending = strrchr(name, '.');
    return ending ? (size_t)(ending - name) : strlen(name);
}

typedef struct kept_folder {
    const char *name;
    size_t      length;
} kept_folder;

static bool is_kept(const void *context, const char *name)
{
    const kept_folder *k = context;
    const char        *slash = strrchr(name, '/');
    return strncmp(name, k->name, k->length) == 0 && (!k->length || name[k->length] == '/') &&
           haul__is_picture(slash ? slash + 1 : name, false);
}

haul_status haul__keep_pictures(haul__archive *archive, const char *folder)
{
    const size_t path = strlen(haul__archive_path(archive));
    kept_folder  k = {.name = folder[path] ? folder + path + 1 : ""};
    k.length = strlen(k.name);
    return haul__archive_keep(archive, is_kept, &k);
}
