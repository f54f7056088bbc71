/* A folder with a folder of pictures for each class. Everything is sorted by name, so that numbers do not depend on the
 * file system. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/image.h"
#include "io/file.h"

#define OPEN       "haul_image_folder"
#define FILE_LIMIT ((uint64_t)64 << 20)

/* ---- names ---- */

typedef struct names {
    char **items;
    size_t count, capacity;
} names;

static void names_free(names *n)
{
    for (size_t i = 0; i < n->count; i++)
        haul__free(n->items[i]);
    haul__free(n->items);
    *n = (names){0};
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Of an entry of an open folder: no memory is needed that could be exhausted. */
static bool is_folder(int parent, const char *name)
{
    struct stat info;
    return fstatat(parent, name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

static bool is_picture(int parent, const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    const char              *ending = strrchr(name, '.');
    for (size_t i = 0; ending && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(ending, endings[i]) == 0)
            return !is_folder(parent, name);
    return false;
}

/* The wanted entries of a folder, sorted; hidden ones are left out. */
static haul_status list(const char *folder, bool (*wanted)(int parent, const char *name), names *out)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return haul__fail(HAUL_IO, OPEN, "directory", "cannot open the folder %s: %s", folder, strerror(errno));
    haul_status          status = HAUL_OK;
    const struct dirent *entry;
    while (status == HAUL_OK && (errno = 0, entry = readdir(dir))) {
        if (entry->d_name[0] == '.' || !wanted(dirfd(dir), entry->d_name))
            continue;
        char *name = haul__strdup(entry->d_name);
        if (name && haul__grow(&out->items, &out->capacity, out->count + 1, sizeof *out->items)) {
            out->items[out->count++] = name;
        } else {
            haul__free(name);
            status = haul__fail_memory(OPEN, sizeof *out->items);
        }
    }
    if (status == HAUL_OK && errno)
        status = haul__fail(HAUL_IO, OPEN, "directory", "cannot read the folder %s: %s", folder, strerror(errno));
    closedir(dir);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, compare);
    return status;
}

/* ---- the pictures ---- */

typedef struct picture {
    char   *path;
    int64_t label;
} picture;

typedef struct pictures {
    picture *items;
    size_t   count, capacity;
    int64_t  height, width;
} pictures;

static void close_pictures(void *context)
{
    pictures *p = context;
    for (size_t i = 0; i < p->count; i++)
        haul__free(p->items[i].path);
    haul__free(p->items);
    haul__free(p);
}

static haul_status load(const char *path, haul__image *image, uint8_t **data)
{
    haul_status status = haul__file_read_all(path, OPEN, FILE_LIMIT, data, &image->size);
    image->data = *data;
    image->path = path;
    return status;
}

static haul_status read_picture(void *context, haul_example *e)
{
    const pictures *p = context;
    uint8_t        *data = NULL;
    haul__image     image = {.height = p->height, .width = p->width};
    haul_status     status = load(p->items[e->index].path, &image, &data);
    if (status == HAUL_OK)
        status = haul__image_decode(&image, e->fields[0].data);
    memcpy(e->fields[1].data, &p->items[e->index].label, sizeof p->items[e->index].label);
    haul__free(data);
    return status;
}

static haul_status measure_first(pictures *p)
{
    uint8_t    *data = NULL;
    haul__image image = {0};
    haul_status status = load(p->items[0].path, &image, &data);
    if (status == HAUL_OK)
        status = haul__image_measure(&image);
    haul__free(data);
    p->height = image.height;
    p->width = image.width;
    return status;
}

static haul_status add_class(pictures *p, const char *root, const char *name, int64_t label)
{
    names       files = {0};
    char       *folder = haul__format("%s/%s", root, name);
    haul_status status = folder ? list(folder, is_picture, &files) : haul__fail_memory(OPEN, strlen(root));
    if (status == HAUL_OK && !files.count)
        status = haul__fail(HAUL_IO, OPEN, "directory", "the folder %s has no .jpg, .jpeg or .png files", folder);
    if (status == HAUL_OK && !haul__grow(&p->items, &p->capacity, p->count + files.count, sizeof *p->items))
        status = haul__fail_memory(OPEN, files.count * sizeof *p->items);
    for (size_t i = 0; i < files.count && status == HAUL_OK; i++) {
        char *path = haul__format("%s/%s", folder, files.items[i]);
        if (path)
            p->items[p->count++] = (picture){path, label};
        else
            status = haul__fail_memory(OPEN, strlen(folder));
    }
    names_free(&files);
    haul__free(folder);
    return status;
}

/* The folders in `root`, one for each class. */
static haul_status list_classes(const char *root, names *out)
{
    haul_status status = list(root, is_folder, out);
    if (status == HAUL_OK && !out->count)
        status = haul__fail(HAUL_IO, OPEN, "directory",
                            "%s has no folders: there must be one of pictures for each class", root);
    return status;
}

/* The place of `name` among the classes, which are sorted; -1 if it is none. */
static int64_t class_index(const names *classes, const char *name)
{
    char *const *found = bsearch(&name, classes->items, classes->count, sizeof *classes->items, compare);
    return found ? found - classes->items : -1;
}

/* The pictures of the folders in `root`, each with the number that its class has in `classes`. */
static haul_status add_classes(pictures *p, const char *root, const names *classes)
{
    names       here = {0};
    haul_status status = list_classes(root, &here);
    for (size_t i = 0; i < here.count && status == HAUL_OK; i++) {
        int64_t label = class_index(classes, here.items[i]);
        status = label >= 0 ? add_class(p, root, here.items[i], label)
                            : haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "directory",
                                         "%s/%s is a class that the training split does not have; move it away, or "
                                         "give the training split a folder of this name",
                                         root, here.items[i]);
    }
    names_free(&here);
    return status == HAUL_OK ? measure_first(p) : status;
}

/* The folder of the split that is wanted, and the one whose folders number the classes: that of the training split if
 * there is one. */
typedef struct roots {
    char *pictures, *classes;
} roots;

static void roots_free(roots *r)
{
    haul__free(r->pictures);
    haul__free(r->classes);
}

static haul_status find_roots(const haul_split_options *options, roots *out)
{
    *out = (roots){NULL, NULL};
    int parent = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0)
        return haul__fail(HAUL_IO, OPEN, "directory", "cannot open the folder %s: %s", options->directory,
                          strerror(errno));
    bool has_train = is_folder(parent, "train"), has_test = is_folder(parent, "test");
    close(parent);
    if (options->test && !has_test)
        return haul__fail(HAUL_IO, OPEN, "directory",
                          "%s has no folder named test: a training split in %s/train and a test split in %s/test are "
                          "expected, each with one folder of pictures for each class",
                          options->directory, options->directory, options->directory);
    const char *train = has_train ? "/train" : "", *test = "/test";
    out->pictures = haul__format("%s%s", options->directory, options->test ? test : train);
    out->classes = haul__format("%s%s", options->directory, has_train || !options->test ? train : test);
    return out->pictures && out->classes ? HAUL_OK : haul__fail_memory(OPEN, strlen(options->directory));
}

haul_dataset *haul_image_folder_with(const haul_split_options *options)
{
    if (!options || !options->directory) {
        haul__fail_null(OPEN, "directory");
        return NULL;
    }
    names         classes = {0};
    haul_dataset *result = NULL;
    roots         root;
    pictures     *p = haul__calloc(1, sizeof *p);
    if (!p) {
        haul__fail_memory(OPEN, sizeof *p);
        return NULL;
    }
    if (find_roots(options, &root) != HAUL_OK || list_classes(root.classes, &classes) != HAUL_OK ||
        add_classes(p, root.pictures, &classes) != HAUL_OK) {
        close_pictures(p);
    } else {
        haul_dataset_source source = {
            .fields = {{.name = "x", .dtype = HAUL_U8, .shape = HAUL_SHAPE(3, p->height, p->width)},
                       {.name = "y",
                        .dtype = HAUL_I64,
                        .shape = HAUL_SCALAR_SHAPE,
                        .classes = (int)classes.count,
                        .class_names = (const char *const *)classes.items}},
            .count = (int64_t)p->count,
            .name = options->test ? "images (test)" : "images (train)",
            .read = read_picture,
            .close = close_pictures,
            .context = p,
        };
        result = haul__dataset_make(&source, HAUL__READ_AHEAD, OPEN);
    }
    names_free(&classes);
    roots_free(&root);
    return result;
}
