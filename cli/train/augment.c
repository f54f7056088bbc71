#include "cli/train/augment.h"

#include <math.h>
#include <string.h>

#include "base/text/plain.h"
#include "cli/shared/cli.h"

enum { MOST_ITEM = 64 };

/* A change that has a number: where it goes, what it is by default, and its highest value. */
typedef struct change {
    const char *name;
    bool        has_number;
    double      initial, highest;
} change;

static const change changes[] = {
    {"crop", false, 1, 1}, {"flip", false, 1, 1}, {"rotate", true, 15, 180}, {"colour", true, 0.2, 1}};
enum { CROP, FLIP, ROTATE, COLOUR, CHANGES };

static bool wrong(const char *text, const char *reason)
{
    complain("--augment %s: %s; crop, flip, rotate and colour are expected, for example crop,flip,rotate=15,colour=0.2",
             text, reason);
    return false;
}

/* The number of the change that an item names; -1: there is none. */
static int find(const char *item, size_t length)
{
    for (int i = 0; i < CHANGES; i++)
        if (strlen(changes[i].name) == length && !memcmp(changes[i].name, item, length))
            return i;
    return -1;
}

/* The value of "rotate=15"; NaN if it is not one. */
static double value_of(const change *c, const char *item)
{
    const char *equals = strchr(item, '=');
    char       *end;
    if (!equals)
        return c->initial;
    const double value = c->has_number ? haul__strtod(equals + 1, &end) : NAN;
    return c->has_number && equals[1] && !*end && value > 0 && value <= c->highest ? value : NAN;
}

static bool parse_item(const char *text, const char *item, double values[CHANGES])
{
    char      reason[160];
    const int found = find(item, strcspn(item, "="));
    if (found < 0) {
        snprintf(reason, sizeof reason, *item ? "unknown change '%s'" : "%sa name is missing", item);
        return wrong(text, reason);
    }
    if (values[found] > 0) {
        snprintf(reason, sizeof reason, "%s is there twice", changes[found].name);
        return wrong(text, reason);
    }
    values[found] = value_of(&changes[found], item);
    if (isfinite(values[found]))
        return true;
    if (changes[found].has_number)
        snprintf(reason, sizeof reason, "%s has a number above 0 and up to %g", changes[found].name,
                 changes[found].highest);
    else
        snprintf(reason, sizeof reason, "%s has no number", changes[found].name);
    return wrong(text, reason);
}

bool augment_parse(const char *text, augmentation *out)
{
    double values[CHANGES] = {0};
    for (const char *at = text; at;) {
        const size_t length = strcspn(at, ",");
        char         item[MOST_ITEM];
        snprintf(item, sizeof item, "%.*s", (int)(length < MOST_ITEM ? length : MOST_ITEM - 1), at);
        if (!parse_item(text, item, values))
            return false;
        at = at[length] ? at + length + 1 : NULL;
    }
    *out = (augmentation){
        .crop = values[CROP] > 0, .flip = values[FLIP] > 0, .rotate = values[ROTATE], .colour = values[COLOUR]};
    return true;
}

static bool is_empty(const augmentation *a)
{
    return !a->crop && !a->flip && a->rotate <= 0 && a->colour <= 0;
}

static bool is_picture(const data_spec *spec)
{
    return spec->x.dtype == HAUL_U8 && spec->x.shape.ndim == 3;
}

bool augment_suits(const augmentation *a, const data_spec *spec, const char *data)
{
    if (is_empty(a) || is_picture(spec))
        return true;
    complain("--augment is for pictures, but the examples of --data %s are %s, which have no pixels; leave "
             "--augment out",
             data, source_task(spec) == TASK_TOKENS ? "pieces of a text" : "rows of numbers");
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
    haul_transform *transforms[CHANGES];
    int             count = 0;
    data_spec       spec;
    if (source_spec(dataset, &spec))
        return NULL;
    const char *fields = source_task(&spec) == TASK_PIXELS ? "x, y" : "x"; /* a mask moves with its picture */
    if (a->crop)
        transforms[count++] = haul_random_crop(fields, padding(&spec));
    if (a->flip)
        transforms[count++] = haul_random_flip(fields);
    if (a->rotate > 0)
        transforms[count++] = haul_random_rotation(fields, a->rotate);
    if (a->colour > 0)
        transforms[count++] = haul_random_colour("x", a->colour);
    for (int i = 0; i < count; i++)
        if (!transforms[i])
            return NULL;
    return count ? haul_dataset_map_list(dataset, transforms, count) : dataset;
}
