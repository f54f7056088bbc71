/* A folder of pictures with a mask for each: DIR/images/NAME.jpg and DIR/masks/NAME.png. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/folder.h"
#include "data/image/endings.h"
#include "data/image/image.h"

#define OPEN "haul_mask_folder"

enum { VALUES = 256, WHITE = 255, NO_CLASS = -1 };

typedef struct pair {
    char *picture, *mask;
} pair;

typedef struct pairs {
    pair            *items;
    size_t           count, capacity;
    size_t           root; /* bytes of each path before the folder of the split */
    haul__tree       tree;
    haul__image_form form;
    int16_t          class_of[VALUES]; /* the class of each value; or NO_CLASS */
    int              classes;
} pairs;

static void close_pairs(void *context)
{
    pairs *p = context;
    for (size_t i = 0; i < p->count; i++) {
        haul__free(p->items[i].picture);
        haul__free(p->items[i].mask);
    }
    haul__free(p->items);
    haul__tree_close(&p->tree);
    haul__free(p);
}

static haul__data_file file_of(const void *context, int64_t index)
{
    const pairs *p = context;
    if (p->tree.archive)
        return haul__archive_file(haul__archive_path(p->tree.archive), index);
    if (index < 0 || (uint64_t)index >= 2 * p->count)
        return (haul__data_file){.path = NULL};
    const pair *of = &p->items[index / 2];
    const char *path = index % 2 ? of->mask : of->picture;
    return (haul__data_file){.path = path, .name = path + p->root};
}

static haul__image image_of(const haul__archive *archive, const char *path)
{
    return (haul__image){.path = path, .operation = OPEN, .argument = "directory", .archive = archive};
}

/* ---- masks ---- */

/* A mask's values, [height, width], for haul__free. Its size must be the picture's. */
static haul_status read_mask(const pair *of, const haul__image *picture, uint8_t **values)
{
    haul__image mask = image_of(picture->archive, of->mask);
    haul_status status = haul__image_open(&mask);
    HAUL__ASSERT(picture->height > 0 && picture->width > 0);
    *values = NULL;
    if (status == HAUL_OK && !haul__image_is_upright(&mask))
        status = haul__fail(HAUL_FORMAT, OPEN, "directory",
                            "%s is turned by its EXIF orientation; save the mask upright and without one", of->mask);
    if (status == HAUL_OK && (mask.height != picture->height || mask.width != picture->width))
        status = haul__fail(HAUL_FORMAT, OPEN, "directory",
                            "%s has %lld x %lld pixels and its picture %s has %lld x %lld; a mask has the size of its "
                            "picture",
                            of->mask, (long long)mask.width, (long long)mask.height, of->picture,
                            (long long)picture->width, (long long)picture->height);
    const size_t bytes = (size_t)(picture->height * picture->width);
    if (status == HAUL_OK && !(*values = haul__malloc(bytes)))
        status = haul__fail_memory(OPEN, bytes);
    if (status == HAUL_OK)
        status = haul__image_numbers(&mask, *values);
    haul__image_close(&mask);
    if (status) {
        haul__free(*values);
        *values = NULL;
    }
    return status;
}

static haul_status refuse_value(const pairs *p, const pair *of, int value)
{
    HAUL__ASSERT(0 <= value && value < VALUES);
    return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "directory",
                      "%s has the value %d, and there are %d classes, from 0 to %d; change the mask, or set .classes",
                      of->mask, value, p->classes, p->classes - 1);
}

/* The classes of the resized mask, [form.height, form.width]; `nearest` has room for a place of each row and column. */
static haul_status put_classes(const pairs *p, const pair *of, const haul__image *picture, const uint8_t *values,
                               int64_t *nearest, int64_t *out)
{
    const int64_t height = p->form.height, width = p->form.width;
    int64_t       high = height, wide = width, *rows = nearest, *columns = nearest + height;
    haul__image_cover(picture, &high, &wide);
    haul__image_nearest(picture->height, high, height, rows);
    haul__image_nearest(picture->width, wide, width, columns);
    HAUL__ASSERT(height > 0 && width > 0 && high >= height && wide >= width);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            const uint8_t value = values[rows[y] * picture->width + columns[x]];
            if (p->class_of[value] == NO_CLASS)
                return refuse_value(p, of, value);
            *out++ = p->class_of[value];
        }
    return HAUL_OK;
}

static haul_status put_mask(const pairs *p, const pair *of, const haul__image *picture, int64_t *out)
{
    const size_t places = (size_t)(p->form.height + p->form.width);
    int64_t     *nearest = haul__calloc(places, sizeof *nearest);
    uint8_t     *values = NULL;
    haul_status  status = nearest ? read_mask(of, picture, &values) : haul__fail_memory(OPEN, places * sizeof *nearest);
    if (status == HAUL_OK)
        status = put_classes(p, of, picture, values, nearest, out);
    haul__free(values);
    haul__free(nearest);
    return status;
}

static haul_status read_pair(void *context, haul_example *e)
{
    const pairs *p = context;
    HAUL__ASSERT(e->count == 2 && 0 <= e->index && (uint64_t)e->index < p->count);
    const pair *of = &p->items[e->index];
    haul__image picture = image_of(p->tree.archive, of->picture);
    haul_status status = haul__image_open(&picture);
    if (status == HAUL_OK)
        status = haul__image_put(&picture, &p->form, e->fields[0].data);
    if (status == HAUL_OK)
        status = put_mask(p, of, &picture, e->fields[1].data);
    haul__image_close(&picture);
    return status;
}

/* ---- pictures and their masks ---- */

/* The folders of a split, and which masks have a picture. */
typedef struct listing {
    const haul__archive *archive;
    const char          *root;
    haul__entries        pictures, masks;
    bool                *taken;
} listing;

static void listing_free(listing *l)
{
    haul__entries_free(&l->pictures);
    haul__entries_free(&l->masks);
    haul__free(l->taken);
}

static haul_status list_files(const haul__archive *archive, const char *folder, haul__wanted_entry *wanted,
                              const char *endings, haul__entries *out)
{
    haul_status status = haul__list_folder(archive, folder, wanted, out, OPEN);
    if (status == HAUL_OK)
        status = haul__refuse_entries(archive, folder, haul__is_folder,
                                      "is a folder; move its files up, or move it away", OPEN);
    if (status == HAUL_OK)
        status = haul__refuse_foreign_pictures(archive, folder, OPEN);
    if (status == HAUL_OK && !out->count)
        status = haul__fail(HAUL_IO, OPEN, "directory", "the folder %s has no %s files; add some", folder, endings);
    return status;
}

static haul_status list(const char *root, listing *l)
{
    char       *pictures = haul__format("%s/images", root), *masks = haul__format("%s/masks", root);
    haul_status status = pictures && masks ? HAUL_OK : haul__fail_memory(OPEN, strlen(root));
    if (status == HAUL_OK)
        status = list_files(l->archive, pictures, haul__is_picture, ".jpg, .jpeg or .png", &l->pictures);
    if (status == HAUL_OK)
        status = list_files(l->archive, masks, haul__is_png, ".png", &l->masks);
    if (status == HAUL_OK && !(l->taken = haul__calloc(l->masks.count, sizeof *l->taken)))
        status = haul__fail_memory(OPEN, l->masks.count);
    haul__free(pictures);
    haul__free(masks);
    return status;
}

/* `mask` is the name that the picture's mask has. */
static haul_status take_mask(listing *l, const char *picture, const char *mask)
{
    const int64_t found = haul__entries_find(&l->masks, mask);
    if (found < 0)
        return haul__fail(HAUL_IO, OPEN, "directory",
                          "%s/images/%s has no mask: %s/masks/%s is missing; add it, or move the picture away", l->root,
                          picture, l->root, mask);
    HAUL__ASSERT((uint64_t)found < l->masks.count);
    if (l->taken[found])
        return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "directory",
                          "%s/masks/%s is the mask of two pictures, one of them %s/images/%s; rename one of them",
                          l->root, mask, l->root, picture);
    l->taken[found] = true;
    return HAUL_OK;
}

static haul_status add_pair(pairs *p, listing *l, const char *picture)
{
    char       *mask = haul__format("%.*s.png", (int)haul__stem_length(picture), picture);
    haul_status status = mask ? take_mask(l, picture, mask) : haul__fail_memory(OPEN, strlen(picture));
    if (status == HAUL_OK && !haul__grow(&p->items, &p->capacity, p->count + 1, sizeof *p->items))
        status = haul__fail_memory(OPEN, sizeof *p->items);
    if (status == HAUL_OK) {
        HAUL__ASSERT(p->count < p->capacity);
        pair *of = &p->items[p->count++];
        *of = (pair){haul__format("%s/images/%s", l->root, picture), haul__format("%s/masks/%s", l->root, mask)};
        if (!of->picture || !of->mask)
            status = haul__fail_memory(OPEN, strlen(l->root));
    }
    haul__free(mask);
    return status;
}

static haul_status add_pairs(pairs *p, const char *root)
{
    listing     l = {.archive = p->tree.archive, .root = root};
    haul_status status = list(root, &l);
    for (size_t i = 0; i < l.pictures.count && status == HAUL_OK; i++)
        status = add_pair(p, &l, l.pictures.items[i]);
    for (size_t i = 0; i < l.masks.count && status == HAUL_OK; i++)
        if (!l.taken[i])
            status = haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "directory",
                                "%s/masks/%s has no picture in %s/images; add it, or move the mask away", root,
                                l.masks.items[i], root);
    listing_free(&l);
    return status == HAUL_OK && p->tree.archive ? haul__keep_pictures(p->tree.archive, root) : status;
}

/* ---- sizes and classes ---- */

/* The pair that first has each value, counted from 1; 0: none has it. */
typedef struct values_seen {
    size_t first[VALUES];
} values_seen;

static haul_status see_values(const pair *of, const haul__image *picture, size_t index, values_seen *out)
{
    uint8_t    *values = NULL;
    haul_status status = read_mask(of, picture, &values);
    for (int64_t i = 0; i < picture->height * picture->width && status == HAUL_OK; i++)
        if (!out->first[values[i]])
            out->first[values[i]] = index + 1;
    haul__free(values);
    return status;
}

/* Every mask is read, and every picture measured. If all have one size, it becomes that of the examples. */
static haul_status scan(pairs *p, values_seen *out)
{
    const bool resizes = p->form.height != 0;
    for (size_t i = 0; i < p->count; i++) {
        const pair *of = &p->items[i];
        haul__image picture = image_of(p->tree.archive, of->picture);
        haul_status status = haul__image_measure_file(&picture);
        if (status == HAUL_OK && !resizes)
            status = haul__image_form_take_size(&p->form, &picture, p->items[0].picture);
        if (status == HAUL_OK)
            status = see_values(of, &picture, i, out);
        if (status)
            return status;
    }
    return HAUL_OK;
}

static bool is_black_and_white(const values_seen *seen)
{
    bool others = false;
    for (int v = 1; v < WHITE; v++)
        others = others || seen->first[v];
    return seen->first[WHITE] && !others;
}

/* Numbers the values of the training split. */
static haul_status number_classes(pairs *p, const values_seen *seen, int given)
{
    const bool white = is_black_and_white(seen) && given <= 2;
    int        highest = 0;
    if (given < 0 || given > VALUES)
        return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "classes", "classes is %d; from 1 to %d are possible", given,
                          VALUES);
    for (int v = 0; v < VALUES; v++)
        highest = seen->first[v] ? v : highest;
    p->classes = given ? given : white ? 2 : highest + 1;
    for (int v = 0; v < VALUES; v++)
        p->class_of[v] = (int16_t)(v < p->classes ? v : NO_CLASS);
    if (white)
        p->class_of[WHITE] = 1;
    HAUL__ASSERT(0 < p->classes && p->classes <= VALUES);
    return HAUL_OK;
}

static haul_status check_classes(const pairs *p, const values_seen *seen)
{
    HAUL__ASSERT(0 < p->classes && p->classes <= VALUES);
    for (int v = 0; v < VALUES; v++)
        if (seen->first[v] && p->class_of[v] == NO_CLASS)
            return refuse_value(p, &p->items[seen->first[v] - 1], v);
    return HAUL_OK;
}

/* The values of the training split, which is not the one that is opened. Its pictures may have other sizes. */
static haul_status see_training(const haul__tree *tree, const char *root, values_seen *out)
{
    pairs *p = haul__calloc(1, sizeof *p);
    if (!p)
        return haul__fail_memory(OPEN, sizeof *p);
    p->form = (haul__image_form){.height = 1, .width = 1};
    p->tree = *tree;
    haul_status status = add_pairs(p, root);
    if (status == HAUL_OK)
        status = scan(p, out);
    p->tree = (haul__tree){.root = NULL}; /* the caller's */
    close_pairs(p);
    return status;
}

/* ---- splits ---- */

static haul_status find_folder(const haul__tree *tree, const char *name, bool *found)
{
    char *path = haul__format("%s/%s", tree->root, name);
    *found = path && haul__tree_has_folder(tree->archive, path);
    haul_status status = path ? HAUL_OK : haul__fail_memory(OPEN, strlen(tree->root));
    haul__free(path);
    return status;
}

/* The folder of the requested split, and that of the training split if it is another one. */
typedef struct roots {
    char       *split, *training;
    const char *name; /* of the dataset */
} roots;

static haul_status find_roots(const haul__tree *tree, bool test, roots *out)
{
    const char *directory = tree->root;
    bool        whole, has_train, has_test;
    if (find_folder(tree, "images", &whole) || find_folder(tree, "train", &has_train) ||
        find_folder(tree, "test", &has_test))
        return haul_error_status();
    if (whole && (has_train || has_test))
        return haul__fail(HAUL_INVALID_ARGUMENT, OPEN, "directory",
                          "%s has a folder images and also a folder %s; move %s/images and %s/masks into %s/train, or "
                          "the folder %s away",
                          directory, has_train ? "train" : "test", directory, directory, directory,
                          has_train ? "train" : "test");
    if (whole && !test) {
        out->name = "masks";
        out->split = haul__strdup(directory);
        return out->split ? HAUL_OK : haul__fail_memory(OPEN, strlen(directory));
    }
    if (!(test ? has_test : has_train))
        return haul__fail(HAUL_IO, OPEN, "directory",
                          "%s has no folder named %s: pictures are expected in %s/images and their masks in %s/masks, "
                          "or both in %s/train and %s/test",
                          directory, test ? "test" : "images", directory, directory, directory, directory);
    out->name = test ? "masks (test)" : "masks (train)";
    out->split = haul__format("%s/%s", directory, test ? "test" : "train");
    out->training = test ? haul__format("%s/train", directory) : NULL;
    return out->split && (!test || out->training) ? HAUL_OK : haul__fail_memory(OPEN, strlen(directory));
}

/* ---- the dataset ---- */

static haul_dataset *make(pairs *p, const char *name)
{
    HAUL__ASSERT(p->form.height > 0 && p->form.width > 0 && p->classes > 0);
    haul_dataset_source source = {
        .fields = {{.name = "x",
                    .dtype = HAUL_U8,
                    .shape = HAUL_SHAPE(p->form.channels, p->form.height, p->form.width)},
                   {.name = "y",
                    .dtype = HAUL_I64,
                    .shape = HAUL_SHAPE(p->form.height, p->form.width),
                    .classes = p->classes}},
        .count = (int64_t)p->count,
        .name = name,
        .read = read_pair,
        .close = close_pairs,
        .context = p,
    };
    haul_dataset *d = haul__dataset_make(&source, HAUL__READ_AHEAD, OPEN);
    if (d)
        d->file = file_of;
    if (d && d->ahead[0] && p->tree.archive)
        haul__archive_forget(p->tree.archive); /* no picture is read again */
    return d;
}

static haul_status open_pairs(pairs *p, const roots *root, int classes)
{
    values_seen seen = {.first = {0}}, training = {.first = {0}};
    haul_status status = add_pairs(p, root->split);
    if (status == HAUL_OK)
        status = scan(p, &seen);
    if (status == HAUL_OK && root->training)
        status = see_training(&p->tree, root->training, &training);
    if (status == HAUL_OK)
        status = number_classes(p, root->training ? &training : &seen, classes);
    return status == HAUL_OK ? check_classes(p, &seen) : status;
}

haul_dataset *haul_mask_folder_with(const haul_mask_folder_options *o)
{
    if (!o || !o->directory) {
        haul__fail_null(OPEN, "directory");
        return NULL;
    }
    roots         root = {NULL, NULL, NULL};
    haul_dataset *result = NULL;
    pairs        *p = haul__calloc(1, sizeof *p);
    if (!p)
        haul__fail_memory(OPEN, sizeof *p);
    else if (haul__image_form_init(&p->form, o->size, o->channels, OPEN) != HAUL_OK ||
             haul__tree_open(&p->tree, o->directory, NULL, NULL, OPEN) != HAUL_OK ||
             find_roots(&p->tree, o->test, &root) != HAUL_OK || open_pairs(p, &root, o->classes) != HAUL_OK)
        close_pairs(p);
    else {
        p->root = strlen(root.split) + 1;
        result = make(p, root.name);
    }
    haul__free(root.split);
    haul__free(root.training);
    return result;
}
