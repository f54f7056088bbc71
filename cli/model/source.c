#include "cli/model/source.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/shared/cli.h"

static haul_dataset *open_cifar10(const char *where, bool test, picture_size *size)
{
    (void)size;
    return haul_cifar10(where, .test = test);
}

/* Where sizes differ and none is wanted, one is chosen. */
static haul_dataset *open_images(const char *where, bool test, picture_size *size)
{
    enum { USUAL_SIZE = 64 };
    haul_dataset *dataset = haul_image_folder(where, .test = test, .size = {size->height, size->width});
    if (dataset || size->height || haul_error_status() != HAUL_SHAPE)
        return dataset;
    haul_error_clear();
    *size = (picture_size){.height = USUAL_SIZE, .width = USUAL_SIZE, .mixed = true};
    return haul_image_folder(where, .test = test, .size = {size->height, size->width});
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

static haul_dataset *open_shapes(const char *where, bool test, picture_size *size)
{
    (void)size;
    int64_t count = count_of("shapes", where, 10000, test);

    return count < 0 ? NULL : haul_shapes(count, .test = test);
}

static haul_dataset *open_blobs(const char *where, bool test, picture_size *size)
{
    (void)size;
    int64_t count = count_of("blobs", where, 1000, test);

    return count < 0 ? NULL : haul_blobs(count, .test = test);
}

typedef struct source {
    const char *name;
    bool        needs_folder, sorted_by_class, resizes;
    haul_dataset *(*open)(const char *where, bool test, picture_size *size);
} source;

static const source sources[] = {
    {"cifar10", true, false, false, open_cifar10},
    {"images", true, true, true, open_images},
    {"shapes", false, false, false, open_shapes},
    {"blobs", false, false, false, open_blobs},
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

/* True if there are classes to distinguish, and the size is the wanted one. */
static bool check(const char *text, const source *kind, const haul_dataset *dataset, const picture_size *size)
{
    data_spec spec;
    if (source_spec(dataset, &spec)) {
        complain_error();
        return false;
    }
    if (spec.y.classes == 1) {
        complain("--data %s has one class, '%s'; a network needs at least two, each in a folder of its own", text,
                 spec.y.class_names[0]);
        return false;
    }
    if (size->height && !kind->resizes) {
        complain("--size resizes the pictures of images:DIR; the examples of %s have shape %s", text,
                 text_shape(&spec.x.shape));
        return false;
    }
    return true;
}

haul_dataset *source_open(const char *text, bool test, picture_size *size)
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
    haul_dataset *dataset = found->open(where, test, size);
    if (!dataset && haul_error_status())
        complain_error();
    return dataset && check(text, found, dataset, size) ? dataset : NULL;
}

bool source_resizes(const char *text)
{
    const source *found = find(text, strcspn(text, ":"));
    return found && found->resizes;
}

/* Has DIR/test, in which a class named test would have pictures, class folders? */
static bool has_test_folder(const char *where)
{
    char           path[4096];
    int            length = snprintf(path, sizeof path, "%s/test", where);
    DIR           *folder = length < (int)sizeof path ? opendir(path) : NULL;
    bool           found = false;
    struct stat    status;
    struct dirent *entry;
    while (folder && !found && (entry = readdir(folder)))
        found =
            entry->d_name[0] != '.' && !fstatat(dirfd(folder), entry->d_name, &status, 0) && S_ISDIR(status.st_mode);
    if (folder)
        closedir(folder);
    return found;
}

bool source_has_test(const char *text)
{
    const char *where = text + strcspn(text, ":");
    return !source_resizes(text) || !*where || access(where + 1, R_OK | X_OK) != 0 || has_test_folder(where + 1);
}

bool source_is_sorted_by_class(const char *text)
{
    const source *found = find(text, strcspn(text, ":"));
    return found && found->sorted_by_class;
}

bool source_same_kind(const char *a, const char *b)
{
    const source *kind = find(a, strcspn(a, ":"));
    return kind && kind == find(b, strcspn(b, ":")) && (kind->needs_folder || !strcmp(a, b));
}

const char *source_name(int index, bool *needs_folder)
{
    if (index >= SOURCE_COUNT)
        return NULL;
    *needs_folder = sources[index].needs_folder;
    return sources[index].name;
}
