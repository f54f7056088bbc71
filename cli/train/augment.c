#include "cli/train/augment.h"

#include <string.h>

#include "cli/shared/cli.h"

static bool wrong(const char *text, const char *reason)
{
    complain("--augment %s: %s; crop, flip or both are expected, for example crop,flip", text, reason);
    return false;
}

static bool take(bool *change)
{
    bool first = !*change;
    *change = true;
    return first;
}

bool augment_parse(const char *text, augmentation *out)
{
    *out = (augmentation){false, false};
    for (const char *at = text; at;) {
        size_t length = strcspn(at, ",");
        bool   crop = length == 4 && !memcmp(at, "crop", length);
        char   reason[96];
        if (!crop && !(length == 4 && !memcmp(at, "flip", length))) {
            snprintf(reason, sizeof reason, length ? "there is no '%.*s'" : "%.*sa name is missing",
                     (int)(length < 64 ? length : 64), at);
            return wrong(text, reason);
        }
        if (!take(crop ? &out->crop : &out->flip)) {
            snprintf(reason, sizeof reason, "%.*s is there twice", (int)length, at);
            return wrong(text, reason);
        }
        at = at[length] ? at + length + 1 : NULL;
    }
    return true;
}

static bool is_picture(const data_spec *spec)
{
    return spec->x.dtype == HAUL_U8 && spec->x.shape.ndim == 3;
}

bool augment_suits(const augmentation *a, const data_spec *spec, const char *data)
{
    if (!(a->crop || a->flip) || is_picture(spec))
        return true;
    complain("--augment is for pictures, but the examples of --data %s are %s, which cannot be cropped or flipped; "
             "leave --augment out",
             data, source_task(spec) == TASK_TOKENS ? "stretches of a text" : "rows of numbers");
    return false;
}

/* An eighth of the shorter side, as the usual 4 for 32x32. */
static int64_t padding(const data_spec *spec)
{
    int64_t height = spec->x.shape.dims[1], width = spec->x.shape.dims[2];
    return (height < width ? height : width) / 8;
}

haul_dataset *augment_apply(const augmentation *a, haul_dataset *dataset)
{
    haul_transform *changes[2];
    int             count = 0;
    data_spec       spec;
    if (source_spec(dataset, &spec))
        return NULL;
    const char *fields = source_task(&spec) == TASK_PIXELS ? "x, y" : "x"; /* a mask moves with its picture */
    if (a->crop)
        changes[count++] = haul_random_crop(fields, padding(&spec));
    if (a->flip)
        changes[count++] = haul_random_flip(fields);
    for (int i = 0; i < count; i++)
        if (!changes[i])
            return NULL;
    return count ? haul_dataset_map_list(dataset, changes, count) : dataset;
}
