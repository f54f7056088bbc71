/* CIFAR-10's binary files (Krizhevsky, "Learning multiple layers of features from tiny images", 2009): records of a
 * label and 32x32 red, green and blue values, 3,073 bytes each. */
#include "data/cifar10.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/error.h"
#include "data/dataset.h"
#include "files/file.h"
#include "formats/file_type.h"

#define OPEN   "haul_cifar10"
#define PIXELS 3072
#define RECORD (PIXELS + 1)
#define FILES  5
/* Ten times as many records as a file has. */
#define FILE_LIMIT ((uint64_t)RECORD * 100000)

static const char *const class_names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                          "dog",      "frog",       "horse", "ship", "truck"};
#define CLASSES 10

static const char *const training_files[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                             "data_batch_4.bin", "data_batch_5.bin", NULL};
static const char *const test_files[] = {"test_batch.bin", NULL};

haul_status haul__cifar10_check(const uint8_t *data, size_t size, const char *path)
{
    const haul__file_type *type = size == 0 || size % RECORD ? haul__file_type_of(data, size) : NULL;
    if (type)
        return haul__refuse_file_type(type, OPEN, path, "a CIFAR-10 file");
    if (size == 0 || size % RECORD)
        return haul__fail(HAUL_FORMAT, OPEN, "directory",
                          "%s is not a valid CIFAR-10 file: it has %zu bytes, which is not a multiple of %d", path,
                          size, RECORD);
    for (size_t i = 0; i < size / RECORD; i++)
        if (data[i * RECORD] >= CLASSES)
            return haul__fail(HAUL_FORMAT, OPEN, "directory",
                              "%s is not a valid CIFAR-10 file: record %zu has the label %d, but the highest is %d",
                              path, i, data[i * RECORD], CLASSES - 1);
    return HAUL_OK;
}

/* ---- the files, in memory ---- */

typedef struct records {
    uint8_t *files[FILES];
    char    *paths[FILES];
    int64_t  first[FILES + 1]; /* the number of each file's first record, and the total */
    int      count;
} records;

static haul_status read_record(void *context, haul_example *e)
{
    const records *r = context;
    int64_t        index = e->index;
    int            f = 0;
    while (index >= r->first[f + 1])
        f++;
    const uint8_t *record = r->files[f] + (size_t)(index - r->first[f]) * RECORD;
    int64_t        label = record[0];
    memcpy(e->fields[0].data, record + 1, PIXELS);
    memcpy(e->fields[1].data, &label, sizeof label);
    return HAUL_OK;
}

static haul__data_file file_of(const void *context, int64_t index)
{
    const records *r = context;
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
    haul__free(r);
}

static haul_status read_file(records *r, const char *folder, const char *name)
{
    size_t size = 0;
    char  *path = haul__format("%s/%s", folder, name);
    if (!path)
        return haul__fail_memory(OPEN, strlen(folder));
    haul_status status = haul__file_read_all(path, OPEN, FILE_LIMIT, 0, &r->files[r->count], &size);
    if (status) {
        haul__free(path);
        return status;
    }
    r->paths[r->count] = path;
    r->first[r->count + 1] = r->first[r->count] + (int64_t)(size / RECORD);
    return haul__cifar10_check(r->files[r->count++], size, path);
}

/* The folder itself, or the one that the archive is unpacked to. */
static char *find_folder(const char *directory, const char *file)
{
    static const char *const inside[] = {"", "/cifar-10-batches-bin"};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        char *folder = haul__format("%s%s", directory, inside[i]);
        char *path = folder ? haul__format("%s/%s", folder, file) : NULL;
        if (path && access(path, F_OK) == 0) {
            haul__free(path);
            return folder;
        }
        haul__free(folder);
        if (!path) {
            haul__fail_memory(OPEN, strlen(directory));
            return NULL;
        }
        haul__free(path);
    }
    haul__fail(HAUL_IO, OPEN, "directory",
               "there is no %s in %s nor in its cifar-10-batches-bin: expected the folder into which "
               "cifar-10-binary.tar.gz was unpacked",
               file, directory);
    return NULL;
}

haul_dataset *haul_cifar10_with(const haul_split_options *options)
{
    if (!options || !options->directory) {
        haul__fail_null(OPEN, "directory");
        return NULL;
    }
    const char *const *names = options->test ? test_files : training_files;
    char              *folder = find_folder(options->directory, names[0]);
    if (!folder)
        return NULL;
    records    *r = haul__calloc(1, sizeof *r);
    haul_status status = r ? HAUL_OK : haul__fail_memory(OPEN, sizeof *r);
    for (int i = 0; names[i] && status == HAUL_OK; i++)
        status = read_file(r, folder, names[i]);
    haul__free(folder);
    if (status) {
        if (r)
            close_records(r);
        return NULL;
    }
    haul_dataset_source source = {
        .fields = {{.name = "x", .dtype = HAUL_U8, .shape = HAUL_SHAPE(3, 32, 32)},
                   {.name = "y",
                    .dtype = HAUL_I64,
                    .shape = HAUL_SCALAR_SHAPE,
                    .classes = CLASSES,
                    .class_names = class_names}},
        .count = r->first[r->count],
        .name = options->test ? "cifar10 (test)" : "cifar10 (train)",
        .read = read_record,
        .close = close_records,
        .context = r,
    };
    haul_dataset *d = haul__dataset_make(&source, HAUL__READ_EACH, OPEN);
    if (d)
        d->file = file_of;
    return d;
}
