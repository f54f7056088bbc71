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

bool haul__is_picture(int parent, const struct dirent *entry)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png", NULL};
    return has_ending(entry->d_name, endings) && !haul__is_folder(parent, entry);
}

bool haul__is_png(int parent, const struct dirent *entry)
{
    static const char *const endings[] = {".png", NULL};
    return has_ending(entry->d_name, endings) && !haul__is_folder(parent, entry);
}

/* Pictures that no decoder here reads, which would otherwise be ignored silently. */
static bool is_foreign(int parent, const struct dirent *entry)
{
    static const char *const endings[] = {".webp", ".gif",  ".bmp", ".tif",  ".tiff", ".heic",
                                          ".heif", ".avif", ".jp2", ".jfif", ".ppm",  NULL};
    return has_ending(entry->d_name, endings) && !haul__is_folder(parent, entry);
}

haul_status haul__refuse_foreign_pictures(const char *folder, const char *operation)
{
    return haul__refuse_entries(folder, is_foreign, "is neither a JPEG nor a PNG file; convert it, or move it away",
                                operation);
}

size_t haul__stem_length(const char *name)
{
    const char *ending = strrchr(name, '.');
    return ending ? (size_t)(ending - name) : strlen(name);
}
