/* MNIST (LeCun, Cortes, Burges, http://yann.lecun.com/exdb/mnist) and Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): a
 * file of pictures and one of labels for each split, in the format IDX: two bytes of 0, the type of the elements, the
 * number of dimensions, their sizes as big-endian numbers of four bytes, and the elements. */
#include "data/idx.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/folder.h"
#include "formats/file_type.h"
#include "formats/gzip.h"

enum { TYPE_U8 = 8, CLASSES = 10, FILES = 2, MAX_SIDE = 4096 };
#define FILE_LIMIT ((uint64_t)1 << 30)

typedef struct idx_set {
    const char *operation, *name;
    const char *folder; /* the one in which PyTorch's torchvision keeps the files */
    const char *classes[CLASSES];
} idx_set;

static const idx_set mnist = {"haul_mnist", "mnist", "MNIST/raw", {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};
static const idx_set fashion_mnist = {
    "haul_fashion_mnist",
    "fashion-mnist",
    "FashionMNIST/raw",
    {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"}};

static uint32_t big(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | (uint32_t)bytes[3];
}

/* ---- the check ---- */

static haul_status malformed(const char *operation, const char *path, const char *what)
{
    return haul__fail(HAUL_FORMAT, operation, "directory", "%s is not a valid IDX file: %s", path, what);
}

haul_status haul__idx_check(const uint8_t *data, size_t size, int ndim, const char *operation, const char *path,
                            int64_t dims[3], size_t *begin)
{
    HAUL__ASSERT(1 <= ndim && ndim <= 3);
    uint64_t count = 1;
    *begin = 4 + 4 * (size_t)ndim;
    if (size < 4 || data[0] || data[1]) {
        const haul__file_type *type = haul__file_type_of(data, size);
        return type ? haul__refuse_file_type(type, operation, path, "an IDX file")
                    : malformed(operation, path, "it does not begin with two bytes of 0");
    }
    if (data[2] != TYPE_U8)
        return malformed(operation, path, "its elements are not bytes");
    if (data[3] != ndim)
        return malformed(operation, path, ndim == 1 ? "labels have one dimension" : "pictures have three dimensions");
    if (size < *begin)
        return malformed(operation, path, "it ends within its header");
    for (int d = 0; d < ndim; d++) {
        dims[d] = big(data + 4 + 4 * d);
        if (d && (!dims[d] || dims[d] > MAX_SIDE))
            return malformed(operation, path, "the sides of its pictures are not from 1 to 4,096");
        count *= (uint64_t)dims[d];
    }
    if (count != size - *begin)
        return haul__fail(HAUL_FORMAT, operation, "directory",
                          "%s is not a valid IDX file: its header claims %" PRIu64 " elements, but %zu bytes follow",
                          path, count, size - *begin);
    return count ? HAUL_OK : malformed(operation, path, "it has no elements");
}

/* ---- the files, in memory ---- */

typedef struct pictures {
    char    *archive;      /* its path; NULL: the files are in a folder */
    uint8_t *files[FILES]; /* pictures, labels */
    char    *paths[FILES];
    size_t   begin[FILES];
    int64_t  dims[3]; /* [count, height, width] */
} pictures;

static haul_status read_picture(void *context, haul_example *e)
{
    const pictures *p = context;
    const size_t    bytes = (size_t)(p->dims[1] * p->dims[2]);
    HAUL__ASSERT(0 <= e->index && e->index < p->dims[0] && e->count == FILES);
    const int64_t label = p->files[1][p->begin[1] + (size_t)e->index];
    memcpy(e->fields[0].data, p->files[0] + p->begin[0] + (size_t)e->index * bytes, bytes);
    memcpy(e->fields[1].data, &label, sizeof label);
    return HAUL_OK;
}

static haul__data_file file_of(const void *context, int64_t index)
{
    const pictures *p = context;
    if (p->archive)
        return haul__archive_file(p->archive, index);
    if (index < 0 || index >= FILES)
        return (haul__data_file){.path = NULL};
    return (haul__data_file){.path = p->paths[index], .name = strrchr(p->paths[index], '/') + 1};
}

static void close_pictures(void *context)
{
    pictures *p = context;
    for (int i = 0; i < FILES; i++) {
        haul__free(p->files[i]);
        haul__free(p->paths[i]);
    }
    haul__free(p->archive);
    haul__free(p);
}

/* The path of "train-images" or another part: as published or unpacked, and under the names that some archives have,
 * with a point. NULL, without an error, if there is none. */
static char *find_in(const haul__archive *archive, const char *folder, const char *part, int ndim)
{
    for (int form = 0; form < 4; form++) {
        char *path =
            haul__format("%s/%s%cidx%d-ubyte%s", folder, part, form & 2 ? '.' : '-', ndim, form & 1 ? ".gz" : "");
        if (!path || haul__tree_has_file(archive, path))
            return path;
        haul__free(path);
    }
    return NULL;
}

static char *find_file(const idx_set *set, const haul__tree *tree, const char *part, int ndim)
{
    const char *const inside[] = {".", set->folder, "raw"};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        char *folder = i ? haul__format("%s/%s", tree->root, inside[i]) : haul__strdup(tree->root);
        char *path = folder ? find_in(tree->archive, folder, part, ndim) : NULL;
        haul__free(folder);
        if (path)
            return path;
    }
    haul__fail(HAUL_IO, set->operation, "directory",
               "found no %s-idx%d-ubyte or %s-idx%d-ubyte.gz in %s or in its %s: expected the folder or "
               "the archive with the four files of %s",
               part, ndim, part, ndim, tree->root, set->folder, set->name);
    return NULL;
}

static const char *const parts[2][FILES] = {{"train-images", "train-labels"}, {"t10k-images", "t10k-labels"}};

static haul_status read_bytes(const idx_set *set, const haul__tree *tree, int index, pictures *p, size_t *size)
{
    const char *path = p->paths[index];
    haul_status status =
        haul__tree_read_all(tree->archive, path, set->operation, FILE_LIMIT, 0, &p->files[index], size);
    return status ? status : haul__gunzip(&p->files[index], size, path, set->operation, FILE_LIMIT);
}

static haul_status read_file(const idx_set *set, const haul__tree *tree, bool test, int index, pictures *p,
                             int64_t *dims)
{
    HAUL__ASSERT(0 <= index && index < FILES && !p->files[index] && !p->paths[index]);
    const int ndim = index ? 1 : 3;
    size_t    size = 0;
    if (!(p->paths[index] = find_file(set, tree, parts[test][index], ndim)))
        return haul_error_status();
    haul_status status = read_bytes(set, tree, index, p, &size);
    return status
               ? status
               : haul__idx_check(p->files[index], size, ndim, set->operation, p->paths[index], dims, &p->begin[index]);
}

static haul_status read_files(const idx_set *set, const haul__tree *tree, bool test, pictures *p)
{
    int64_t labels[3] = {0};
    if (read_file(set, tree, test, 0, p, p->dims) || read_file(set, tree, test, 1, p, labels))
        return haul_error_status();
    if (labels[0] != p->dims[0])
        return haul__fail(HAUL_FORMAT, set->operation, "directory",
                          "%s has %" PRId64 " pictures, but %s has %" PRId64 " labels", p->paths[0], p->dims[0],
                          p->paths[1], labels[0]);
    HAUL__ASSERT(p->dims[0] > 0);
    for (int64_t i = 0; i < labels[0]; i++)
        if (p->files[1][p->begin[1] + (size_t)i] >= CLASSES)
            return haul__fail(HAUL_FORMAT, set->operation, "directory",
                              "%s is not a valid file of labels: label %" PRId64 " is %d, but the highest is %d",
                              p->paths[1], i, p->files[1][p->begin[1] + (size_t)i], CLASSES - 1);
    return HAUL_OK;
}

/* True if a member of an archive has the name of one of the split's files, whatever its folder and its ending. */
static bool is_part(const void *context, const char *name)
{
    const bool *test = context;
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    for (int i = 0; i < FILES; i++)
        if (strncmp(last, parts[*test][i], strlen(parts[*test][i])) == 0)
            return true;
    return false;
}

static haul_status open_files(const idx_set *set, const char *directory, bool test, pictures *p)
{
    haul__tree  tree;
    haul_status status = haul__tree_open(&tree, directory, is_part, &test, set->operation);
    if (status)
        return status;
    if (tree.archive && !(p->archive = haul__strdup(directory)))
        status = haul__fail_memory(set->operation, strlen(directory));
    if (status == HAUL_OK)
        status = read_files(set, &tree, test, p);
    haul__tree_close(&tree);
    return status;
}

static haul_dataset *open_set(const idx_set *set, const haul_split_options *options)
{
    char name[64];
    if (!options || !options->directory) {
        haul__fail_null(set->operation, "directory");
        return NULL;
    }
    pictures *p = haul__calloc(1, sizeof *p);
    if (!p) {
        haul__fail_memory(set->operation, sizeof *p);
        return NULL;
    }
    if (open_files(set, options->directory, options->test, p)) {
        close_pictures(p);
        return NULL;
    }
    haul__snprintf(name, sizeof name, "%s (%s)", set->name, options->test ? "test" : "train");
    HAUL__ASSERT(p->dims[1] > 0 && p->dims[2] > 0);
    haul_dataset_source source = {
        .fields = {{.name = "x", .dtype = HAUL_U8, .shape = HAUL_SHAPE(1, p->dims[1], p->dims[2])},
                   {.name = "y",
                    .dtype = HAUL_I64,
                    .shape = HAUL_SCALAR_SHAPE,
                    .classes = CLASSES,
                    .class_names = set->classes}},
        .count = p->dims[0],
        .name = name,
        .read = read_picture,
        .close = close_pictures,
        .context = p,
    };
    haul_dataset *d = haul__dataset_make(&source, HAUL__READ_EACH, set->operation);
    if (d)
        d->file = file_of;
    return d;
}

haul_dataset *haul_mnist_with(const haul_split_options *options)
{
    return open_set(&mnist, options);
}

haul_dataset *haul_fashion_mnist_with(const haul_split_options *options)
{
    return open_set(&fashion_mnist, options);
}
