/* A folder that contains a folder of pictures for each class. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/copy_uncached.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/folder.h"
#include "data/image/endings.h"
#include "data/image/image.h"

#define OPEN "haul_image_folder"

/* ---- the pictures ---- */

typedef struct picture {
    char   *path;
    int64_t label;
} picture;

typedef struct pictures {
    picture         *items;
    size_t           count, capacity;
    size_t           root; /* bytes of each path before the folder of its class */
    haul__tree       tree;
    haul__image_form form;
} pictures;

static void close_pictures(void *context)
{
    pictures *p = context;
    for (size_t i = 0; i < p->count; i++)
        haul__free(p->items[i].path);
    haul__free(p->items);
    haul__tree_close(&p->tree);
    haul__free(p);
}

static haul__data_file file_of(const void *context, int64_t index)
{
    const pictures *p = context;
    if (p->tree.archive)
        return haul__archive_file(haul__archive_path(p->tree.archive), index);
    if (index < 0 || (uint64_t)index >= p->count)
        return (haul__data_file){.path = NULL};
    const char *path = p->items[index].path;
    return (haul__data_file){.path = path, .name = path + p->root};
}

static haul__image image_of(const pictures *p, size_t index)
{
    HAUL__ASSERT(index < p->count);
    return (haul__image){
        .path = p->items[index].path, .operation = OPEN, .argument = "directory", .archive = p->tree.archive};
}

static haul_status read_picture(void *context, haul_example *e)
{
    const pictures *p = context;
    HAUL__ASSERT(e->count == 2 && 0 <= e->index && (uint64_t)e->index < p->count);
    haul__image image = image_of(p, (size_t)e->index);
    haul_status status = haul__image_open(&image);
    if (status == HAUL_OK)
        status = haul__image_put(&image, &p->form, e->fields[0].data);
    memcpy(e->fields[1].data, &p->items[e->index].label, sizeof p->items[e->index].label);
    haul__image_close(&image);
    return status;
}

/* If all pictures have one size, it becomes that of the examples. */
static haul_status measure_all(pictures *p)
{
    for (size_t i = 0; i < p->count; i++) {
        haul__image image = image_of(p, i);
        haul_status status = haul__image_measure_file(&image);
        if (status == HAUL_OK)
            status = haul__image_form_take_size(&p->form, &image, p->items[0].path);
        if (status)
            return status;
    }
    return HAUL_OK;
}

/* ---- classes ---- */

static haul_status check_class(const haul__archive *archive, const char *folder, const haul__entries *files)
{
    haul_status status =
        haul__refuse_entries(archive, folder, haul__is_folder,
                             "is a folder within a class; move its pictures up into the class, or move it away", OPEN);
    if (status == HAUL_OK)
        status = haul__refuse_foreign_pictures(archive, folder, OPEN);
    if (status == HAUL_OK && !files->count)
        status = haul__fail(HAUL_IO, OPEN, "directory",
                            "the folder %s has no .jpg, .jpeg or .png files; add some, or move it away", folder);
    return status;
}

static haul_status add_files(pictures *p, const char *folder, const haul__entries *files, int64_t label)
{
    if (!haul__grow(&p->items, &p->capacity, p->count + files->count, sizeof *p->items))
        return haul__fail_memory(OPEN, files->count * sizeof *p->items);
    HAUL__ASSERT(label >= 0 && p->count + files->count <= p->capacity);
    for (size_t i = 0; i < files->count; i++) {
        char *path = haul__format("%s/%s", folder, files->items[i]);
        if (!path)
            return haul__fail_memory(OPEN, strlen(folder));
        p->items[p->count++] = (picture){path, label};
    }
    return HAUL_OK;
}

static haul_status add_class(pictures *p, const char *root, const char *name, int64_t label)
{
    haul__entries files = {0};
    char         *folder = haul__format("%s/%s", root, name);
    haul_status   status = folder ? haul__list_folder(p->tree.archive, folder, haul__is_picture, &files, OPEN)
                                  : haul__fail_memory(OPEN, strlen(root));
    if (status == HAUL_OK)
        status = check_class(p->tree.archive, folder, &files);
    if (status == HAUL_OK)
        status = add_files(p, folder, &files, label);
    haul__entries_free(&files);
    haul__free(folder);
    return status;
}

/* The folders in `root`, one for each class. */
static haul_status list_classes(const haul__archive *archive, const char *root, haul__entries *out)
{
    haul_status status = haul__list_folder(archive, root, haul__is_folder, out, OPEN);
    if (status == HAUL_OK && !out->count)
        status = haul__fail(HAUL_IO, OPEN, "directory",
                            "%s has no folders: make one for each class and move its pictures there", root);
    return status;
}

/* The pictures of the folders in `root`, each with the number of its class in `classes`. */
static haul_status add_classes(pictures *p, const char *root, const haul__entries *classes)
{
    haul__entries here = {0};
    haul_status   status = list_classes(p->tree.archive, root, &here);
    for (size_t i = 0; i < here.count && status == HAUL_OK; i++) {
        int64_t label = haul__entries_find(classes, here.items[i]);
        status = label >= 0 ? add_class(p, root, here.items[i], label)
                            : haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "directory",
                                         "%s/%s is a class that the training split does not have; move it away, or "
                                         "give the training split a folder of this name",
                                         root, here.items[i]);
    }
    haul__entries_free(&here);
    return status;
}

/* Keeps the pictures of a packed archive, and measures them if they have to have one size. */
static haul_status prepare(pictures *p, const char *root)
{
    haul_status status = p->tree.archive ? haul__keep_pictures(p->tree.archive, root) : HAUL_OK;
    return status == HAUL_OK && !p->form.height ? measure_all(p) : status;
}

/* ---- splits ---- */

/* The splits that a folder has. */
typedef struct splits {
    bool train, test;
} splits;

static bool has_name(const haul__entries *names, const char *name)
{
    return haul__entries_find(names, name) >= 0;
}

/* Sets *out if `name` is a split. It may also be a class with pictures, among other classes. */
static haul_status check_split(const haul__tree *tree, const haul__entries *folders, const char *name, bool *out)
{
    bool          others = folders->count > (size_t)has_name(folders, "train") + has_name(folders, "test");
    haul__entries inner = {0};
    *out = has_name(folders, name);
    if (!*out || !others)
        return HAUL_OK;
    char       *path = haul__format("%s/%s", tree->root, name);
    haul_status status = path ? haul__list_folder(tree->archive, path, haul__is_folder, &inner, OPEN)
                              : haul__fail_memory(OPEN, strlen(tree->root));
    *out = inner.count > 0;
    haul__entries_free(&inner);
    haul__free(path);
    return status;
}

static haul_status refuse_mixed(const char *directory, const haul__entries *folders, splits s)
{
    const char *found = s.train ? "train" : "test";
    for (size_t i = 0; (s.train || s.test) && i < folders->count; i++) {
        const char *name = folders->items[i];
        if (!(s.train && strcmp(name, "train") == 0) && !(s.test && strcmp(name, "test") == 0))
            return haul__fail(
                HAUL_INVALID_ARGUMENT, OPEN, "directory",
                "%s has a folder %s of classes and also a folder %s; with train and test no other folders "
                "are allowed: move %s/%s away, or all classes up into %s",
                directory, found, name, directory, name, directory);
    }
    return HAUL_OK;
}

static haul_status find_splits(const haul__tree *tree, splits *out)
{
    haul__entries folders = {0};
    *out = (splits){false, false};
    haul_status status = list_classes(tree->archive, tree->root, &folders);
    if (status == HAUL_OK)
        status = check_split(tree, &folders, "train", &out->train);
    if (status == HAUL_OK)
        status = check_split(tree, &folders, "test", &out->test);
    if (status == HAUL_OK)
        status = refuse_mixed(tree->root, &folders, *out);
    haul__entries_free(&folders);
    return status;
}

/* The folder of the requested split, and the one whose folders number the classes: the training split's if there is
 * one. */
typedef struct roots {
    char       *pictures, *classes;
    const char *name; /* of the dataset */
} roots;

static void roots_free(roots *r)
{
    haul__free(r->pictures);
    haul__free(r->classes);
}

static haul_status find_roots(const haul__tree *tree, bool test, roots *out)
{
    splits      s;
    const char *directory = tree->root;
    haul_status status = find_splits(tree, &s);
    if (status)
        return status;
    if (test && !s.test)
        return haul__fail(HAUL_IO, OPEN, "directory",
                          "%s has no folder named test: a training split in %s/train and a test split in %s/test are "
                          "expected, each with one folder of pictures for each class",
                          directory, directory, directory);
    if (!test && s.test && !s.train)
        return haul__fail(HAUL_IO, OPEN, "directory",
                          "%s has a folder named test and none named train: the training split is expected in %s/train",
                          directory, directory);
    HAUL__ASSERT(!out->pictures && !out->classes);
    out->name = test ? "images (test)" : s.train ? "images (train)" : "images";
    out->pictures = haul__format("%s%s", directory, test ? "/test" : s.train ? "/train" : "");
    out->classes = haul__format("%s%s", directory, s.train ? "/train" : test ? "/test" : "");
    return out->pictures && out->classes ? HAUL_OK : haul__fail_memory(OPEN, strlen(directory));
}

/* ---- the dataset ---- */

static haul_dataset *make(pictures *p, const haul__entries *classes, const char *name)
{
    HAUL__ASSERT(p->form.height > 0 && p->form.width > 0 && (p->form.channels == 1 || p->form.channels == 3));
    haul_dataset_source source = {
        .fields = {{.name = "x",
                    .dtype = HAUL_U8,
                    .shape = HAUL_SHAPE(p->form.channels, p->form.height, p->form.width)},
                   {.name = "y",
                    .dtype = HAUL_I64,
                    .shape = HAUL_SCALAR_SHAPE,
                    .classes = (int)classes->count,
                    .class_names = (const char *const *)classes->items}},
        .count = (int64_t)p->count,
        .name = name,
        .read = read_picture,
        .close = close_pictures,
        .context = p,
    };
    haul_dataset *d = haul__dataset_make(&source, HAUL__READ_AHEAD, OPEN);
    if (d)
        d->file = file_of;
    if (d && d->ahead[0] && p->tree.archive)
        haul__archive_forget(p->tree.archive); /* no picture is read again */
    return d;
}

haul_dataset *haul_image_folder_with(const haul_image_folder_options *o)
{
    if (!o || !o->directory) {
        haul__fail_null(OPEN, "directory");
        return NULL;
    }
    haul__entries classes = {0};
    roots         root = {NULL, NULL, NULL};
    haul_dataset *result = NULL;
    pictures     *p = haul__calloc(1, sizeof *p);
    if (!p)
        haul__fail_memory(OPEN, sizeof *p);
    else if (haul__image_form_init(&p->form, o->size, o->channels, OPEN) != HAUL_OK ||
             haul__tree_open(&p->tree, o->directory, NULL, NULL, OPEN) != HAUL_OK ||
             find_roots(&p->tree, o->test, &root) != HAUL_OK ||
             list_classes(p->tree.archive, root.classes, &classes) != HAUL_OK ||
             add_classes(p, root.pictures, &classes) != HAUL_OK || prepare(p, root.pictures) != HAUL_OK)
        close_pictures(p);
    else {
        const double bytes = (double)p->form.channels * (double)p->form.height * (double)p->form.width;
        p->root = strlen(root.pictures) + 1;
        p->form.uncached = bytes * (double)p->count >= (double)HAUL__UNCACHED_FROM / 2;
        p->form.draft = o->draft;
        result = make(p, &classes, root.name);
    }
    haul__entries_free(&classes);
    roots_free(&root);
    return result;
}
