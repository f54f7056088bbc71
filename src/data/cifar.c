/* The binary files of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning multiple layers of features from tiny images",
 * 2009): records of one or two labels and 32x32 red, green and blue values. */
#include "data/cifar.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/folder.h"
#include "files/file.h"
#include "formats/file_type.h"

#define PIXELS 3072
#define FILES  5

struct haul__cifar_set {
    const char        *operation, *title, *name, *archive, *folder;
    int                labels, label; /* bytes before the pixels, and which of them is the class */
    int                classes;
    const char *const *class_names;
    const char        *training[FILES + 1], *test[2];
};

static const char *const names10[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                      "dog",      "frog",       "horse", "ship", "truck"};

static const char *const names100[] = {
    "apple",      "aquarium_fish", "baby",         "bear",       "beaver",      "bed",         "bee",
    "beetle",     "bicycle",       "bottle",       "bowl",       "boy",         "bridge",      "bus",
    "butterfly",  "camel",         "can",          "castle",     "caterpillar", "cattle",      "chair",
    "chimpanzee", "clock",         "cloud",        "cockroach",  "couch",       "crab",        "crocodile",
    "cup",        "dinosaur",      "dolphin",      "elephant",   "flatfish",    "forest",      "fox",
    "girl",       "hamster",       "house",        "kangaroo",   "keyboard",    "lamp",        "lawn_mower",
    "leopard",    "lion",          "lizard",       "lobster",    "man",         "maple_tree",  "motorcycle",
    "mountain",   "mouse",         "mushroom",     "oak_tree",   "orange",      "orchid",      "otter",
    "palm_tree",  "pear",          "pickup_truck", "pine_tree",  "plain",       "plate",       "poppy",
    "porcupine",  "possum",        "rabbit",       "raccoon",    "ray",         "road",        "rocket",
    "rose",       "sea",           "seal",         "shark",      "shrew",       "skunk",       "skyscraper",
    "snail",      "snake",         "spider",       "squirrel",   "streetcar",   "sunflower",   "sweet_pepper",
    "table",      "tank",          "telephone",    "television", "tiger",       "tractor",     "train",
    "trout",      "tulip",         "turtle",       "wardrobe",   "whale",       "willow_tree", "wolf",
    "woman",      "worm"};

const haul__cifar_set haul__cifar10_set = {
    .operation = "haul_cifar10",
    .title = "CIFAR-10",
    .name = "cifar10",
    .archive = "cifar-10-binary.tar.gz",
    .folder = "cifar-10-batches-bin",
    .labels = 1,
    .classes = 10,
    .class_names = names10,
    .training = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
    .test = {"test_batch.bin"},
};

/* The first label is one of 20 coarse classes. */
const haul__cifar_set haul__cifar100_set = {
    .operation = "haul_cifar100",
    .title = "CIFAR-100",
    .name = "cifar100",
    .archive = "cifar-100-binary.tar.gz",
    .folder = "cifar-100-binary",
    .labels = 2,
    .label = 1,
    .classes = 100,
    .class_names = names100,
    .training = {"train.bin"},
    .test = {"test.bin"},
};

static size_t record_of(const haul__cifar_set *set)
{
    return PIXELS + (size_t)set->labels;
}

haul_status haul__cifar_check(const haul__cifar_set *set, const uint8_t *data, size_t size, const char *path)
{
    const size_t           record = record_of(set);
    const haul__file_type *type = size == 0 || size % record ? haul__file_type_of(data, size) : NULL;
    HAUL__ASSERT(record > (size_t)set->label);
    if (type) {
        char wanted[32];
        haul__snprintf(wanted, sizeof wanted, "a %s file", set->title);
        return haul__refuse_file_type(type, set->operation, path, wanted);
    }
    if (size == 0 || size % record)
        return haul__fail(HAUL_FORMAT, set->operation, "directory",
                          "%s is not a valid %s file: it has %zu bytes, which is not a multiple of %zu", path,
                          set->title, size, record);
    for (size_t i = 0; i < size / record; i++)
        if (data[i * record + (size_t)set->label] >= set->classes)
            return haul__fail(HAUL_FORMAT, set->operation, "directory",
                              "%s is not a valid %s file: record %zu has the label %d, but the highest is %d", path,
                              set->title, i, data[i * record + (size_t)set->label], set->classes - 1);
    return HAUL_OK;
}

/* ---- the files, in memory ---- */

typedef struct records {
    const haul__cifar_set *set;
    char                  *archive; /* its path; NULL: the files are in a folder */
    uint8_t               *files[FILES];
    char                  *paths[FILES];
    int64_t                first[FILES + 1]; /* the number of each file's first record, and the total */
    int                    count;
} records;

static haul_status read_record(void *context, haul_example *e)
{
    const records *r = context;
    int64_t        index = e->index;
    int            f = 0;
    while (index >= r->first[f + 1])
        f++;
    HAUL__ASSERT(0 <= index && index < r->first[r->count]);
    const uint8_t *record = r->files[f] + (size_t)(index - r->first[f]) * record_of(r->set);
    HAUL__ASSERT(f < r->count && e->count == 2);
    int64_t label = record[r->set->label];
    memcpy(e->fields[0].data, record + r->set->labels, PIXELS);
    memcpy(e->fields[1].data, &label, sizeof label);
    return HAUL_OK;
}

static haul__data_file file_of(const void *context, int64_t index)
{
    const records *r = context;
    if (r->archive)
        return haul__archive_file(r->archive, index);
    if (index < 0 || index >= r->count)
        return (haul__data_file){.path = NULL};
    return (haul__data_file){.path = r->paths[index], .name = strrchr(r->paths[index], '/') + 1};
}

static void close_records(void *context)
{
    records *r = context;
    for (int i = 0; i < r->count; i++) {
        haul__free(r->files[i]);
        haul__free(r->paths[i]);
    }
    haul__free(r->archive);
    haul__free(r);
}

static haul_status read_file(records *r, const haul__archive *archive, const char *folder, const char *name)
{
    HAUL__ASSERT(r->count < FILES && !r->files[r->count] && !r->paths[r->count]);
    const char    *operation = r->set->operation;
    const size_t   record = record_of(r->set);
    const uint64_t limit = (uint64_t)record * 100000; /* ten times as many records as a file of CIFAR-10 has */
    size_t         size = 0;
    char          *path = haul__format("%s/%s", folder, name);
    if (!path)
        return haul__fail_memory(operation, strlen(folder));
    haul_status status = haul__tree_read_all(archive, path, operation, limit, 0, &r->files[r->count], &size);
    if (status) {
        haul__free(path);
        return status;
    }
    r->paths[r->count] = path;
    r->first[r->count + 1] = r->first[r->count] + (int64_t)(size / record);
    return haul__cifar_check(r->set, r->files[r->count++], size, path);
}

/* The folder itself, or the one that the archive is unpacked to. */
static char *find_folder(const haul__cifar_set *set, const haul__tree *tree, const char *file)
{
    HAUL__ASSERT(tree->root);
    for (int inside = 0; inside < 2; inside++) {
        char      *folder = inside ? haul__format("%s/%s", tree->root, set->folder) : haul__strdup(tree->root);
        char      *path = folder ? haul__format("%s/%s", folder, file) : NULL;
        const bool found = path && haul__tree_has_file(tree->archive, path);
        haul__free(path);
        if (found)
            return folder;
        haul__free(folder);
        if (!path) {
            haul__fail_memory(set->operation, strlen(tree->root));
            return NULL;
        }
    }
    haul__fail(HAUL_IO, set->operation, "directory",
               "found no %s in %s or in its %s: expected %s, or the folder into which it was unpacked", file,
               tree->root, set->folder, set->archive);
    return NULL;
}

/* True if a member of an archive has the name of one of these files, whatever its folder. */
static bool is_named(const void *context, const char *name)
{
    const char *const *names = context;
    const char        *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    for (; *names; names++)
        if (strcmp(last, *names) == 0)
            return true;
    return false;
}

static haul_status read_files(records *r, const haul__tree *tree, const char *const *names)
{
    char       *folder = find_folder(r->set, tree, names[0]);
    haul_status status = folder ? HAUL_OK : haul_error_status();
    if (status == HAUL_OK && tree->archive && !(r->archive = haul__strdup(haul__archive_path(tree->archive))))
        status = haul__fail_memory(r->set->operation, strlen(tree->root));
    for (int i = 0; names[i] && status == HAUL_OK; i++)
        status = read_file(r, tree->archive, folder, names[i]);
    haul__free(folder);
    return status;
}

static haul_status open_files(records *r, const char *directory, const char *const *names)
{
    haul__tree  tree;
    haul_status status = haul__tree_open(&tree, directory, is_named, names, r->set->operation);
    if (status)
        return status;
    status = read_files(r, &tree, names);
    haul__tree_close(&tree);
    return status;
}

static haul_dataset *open_set(const haul__cifar_set *set, const haul_split_options *options)
{
    char name[64];
    if (!options || !options->directory) {
        haul__fail_null(set->operation, "directory");
        return NULL;
    }
    records *r = haul__calloc(1, sizeof *r);
    if (!r) {
        haul__fail_memory(set->operation, sizeof *r);
        return NULL;
    }
    r->set = set;
    if (open_files(r, options->directory, options->test ? set->test : set->training)) {
        close_records(r);
        return NULL;
    }
    haul__snprintf(name, sizeof name, "%s (%s)", set->name, options->test ? "test" : "train");
    HAUL__ASSERT(0 < r->count && r->count <= FILES);
    haul_dataset_source source = {
        .fields = {{.name = "x", .dtype = HAUL_U8, .shape = HAUL_SHAPE(3, 32, 32)},
                   {.name = "y",
                    .dtype = HAUL_I64,
                    .shape = HAUL_SCALAR_SHAPE,
                    .classes = set->classes,
                    .class_names = set->class_names}},
        .count = r->first[r->count],
        .name = name,
        .read = read_record,
        .close = close_records,
        .context = r,
    };
    haul_dataset *d = haul__dataset_make(&source, HAUL__READ_EACH, set->operation);
    if (d)
        d->file = file_of;
    return d;
}

haul_dataset *haul_cifar10_with(const haul_split_options *options)
{
    return open_set(&haul__cifar10_set, options);
}

haul_dataset *haul_cifar100_with(const haul_split_options *options)
{
    return open_set(&haul__cifar100_set, options);
}
