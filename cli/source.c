#include "source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static haul_dataset *open_cifar10(const char *where, bool test)
{
    return haul_cifar10(where, .test = test);
}

static haul_dataset *open_images(const char *where, bool test)
{
    return haul_image_folder(where, .test = test);
}

enum { MOST_EXAMPLES = 1000000000 };

/* A number of training examples; test ones are a fifth of them. */
static int64_t count_of(const char *name, const char *where, int64_t usual, bool test)
{
    bool      digits = where && *where && strspn(where, "0123456789") == strlen(where) && strlen(where) < 16;
    long long count = digits ? strtoll(where, NULL, 10) : where ? 0 : usual;

    if (count < 1 || count > MOST_EXAMPLES) {
        complain("--data %s:%s: a number of examples from 1 to %s is expected after the colon, for example %s:%lld",
                 name, where, text_count(MOST_EXAMPLES), name, (long long)usual);
        return -1;
    }
    return test ? (count + 4) / 5 : count;
}

static haul_dataset *open_shapes(const char *where, bool test)
{
    int64_t count = count_of("shapes", where, 10000, test);

    return count < 0 ? NULL : haul_shapes(count, .test = test);
}

static haul_dataset *open_blobs(const char *where, bool test)
{
    int64_t count = count_of("blobs", where, 1000, test);

    return count < 0 ? NULL : haul_blobs(count, .test = test);
}

typedef struct source {
    const char *name;
    bool        needs_folder;
    haul_dataset *(*open)(const char *where, bool test);
} source;

static const source sources[] = {
    {"cifar10", true, open_cifar10},
    {"images", true, open_images},
    {"shapes", false, open_shapes},
    {"blobs", false, open_blobs},
};
enum { SOURCE_COUNT = sizeof sources / sizeof *sources };

static const source *find(const char *text, size_t length)
{
    for (int i = 0; i < SOURCE_COUNT; i++)
        if (strlen(sources[i].name) == length && !memcmp(sources[i].name, text, length))
            return &sources[i];
    return NULL;
}

static void complain_unknown(const char *text, size_t length)
{
    const char *names[SOURCE_COUNT + 1] = {NULL};
    char        name[64];

    snprintf(name, sizeof name, "%.*s", (int)length, text);
    for (int i = 0; i < SOURCE_COUNT; i++)
        names[i] = sources[i].name;
    const char *near = did_you_mean(name, names);
    if (near)
        complain("--data %s: there is no source '%s'; did you mean '%s'? There are cifar10:DIR, images:DIR, shapes, "
                 "blobs",
                 text, name, near);
    else if (!access(text, F_OK))
        complain("--data %s: say what is in there: cifar10:%s or images:%s", text, text, text);
    else
        complain("--data %s: there is no source '%s'; there are cifar10:DIR, images:DIR, shapes, blobs", text, name);
}

haul_status source_spec(const haul_dataset *dataset, data_spec *out)
{
    haul_status status = haul_dataset_field(dataset, 0, &out->x);

    return status ? status : haul_dataset_field(dataset, 1, &out->y);
}

static haul_dataset *normalised(haul_dataset *dataset)
{
    data_spec spec;

    if (!dataset || source_spec(dataset, &spec))
        return NULL;
    return spec.x.dtype == HAUL_U8 ? haul_dataset_map(dataset, haul_normalise("x")) : dataset;
}

haul_dataset *source_open(const char *text, bool test)
{
    size_t        length = strcspn(text, ":");
    const char   *where = text[length] ? text + length + 1 : NULL;
    const source *found = find(text, length);

    if (!found) {
        complain_unknown(text, length);
        return NULL;
    }
    if (found->needs_folder && (!where || !*where)) {
        complain("--data %s: name the folder: %s:DIR", text, found->name);
        return NULL;
    }
    haul_dataset *dataset = normalised(found->open(where, test));
    if (!dataset && haul_error_status())
        complain_error();
    return dataset;
}

bool source_same_kind(const char *a, const char *b)
{
    const source *kind = find(a, strcspn(a, ":"));

    return kind && kind == find(b, strcspn(b, ":")) && (kind->needs_folder || !strcmp(a, b));
}
