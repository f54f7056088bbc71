#include "cli/model/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text/list.h"
#include "cli/model/archive_kind.h"
#include "cli/model/remote.h"
#include "cli/shared/cli.h"

static haul_dataset *open_cifar10(const char *where, bool test, example_size *size)
{
    (void)size;
    return haul_cifar10(where, .test = test);
}

static haul_dataset *open_cifar100(const char *where, bool test, example_size *size)
{
    (void)size;
    return haul_cifar100(where, .test = test);
}

static haul_dataset *open_mnist(const char *where, bool test, example_size *size)
{
    (void)size;
    return haul_mnist(where, .test = test);
}

static haul_dataset *open_fashion_mnist(const char *where, bool test, example_size *size)
{
    (void)size;
    return haul_fashion_mnist(where, .test = test);
}

typedef haul_dataset *sized_source(const char *where, bool test, const example_size *size);

static haul_dataset *sized_images(const char *where, bool test, const example_size *size)
{
    return haul_image_folder(where, .test = test, .size = {size->height, size->width});
}

static haul_dataset *sized_masks(const char *where, bool test, const example_size *size)
{
    return haul_mask_folder(where, .test = test, .size = {size->height, size->width});
}

/* Where sizes differ and none is wanted, one is chosen. */
static haul_dataset *open_sized(sized_source *open, const char *where, bool test, example_size *size)
{
    enum { USUAL_SIZE = 64 };
    haul_dataset *dataset = open(where, test, size);
    if (dataset || size->height || haul_error_status() != HAUL_SHAPE)
        return dataset;
    haul_error_clear();
    *size = (example_size){.height = USUAL_SIZE, .width = USUAL_SIZE, .mixed = true};
    return open(where, test, size);
}

static haul_dataset *open_images(const char *where, bool test, example_size *size)
{
    return open_sized(sized_images, where, test, size);
}

static haul_dataset *open_masks(const char *where, bool test, example_size *size)
{
    return open_sized(sized_masks, where, test, size);
}

static haul_dataset *open_text(const char *where, bool test, example_size *size)
{
    return haul_text_file(where, .test = test, .context = size->context);
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

static haul_dataset *make_shapes(int64_t count, bool test)
{
    return haul_shapes(count, .test = test);
}

static haul_dataset *make_blobs(int64_t count, bool test)
{
    return haul_blobs(count, .test = test);
}

static haul_dataset *make_scenes(int64_t count, bool test)
{
    return haul_scenes(count, .test = test);
}

static haul_dataset *make_sentences(int64_t count, bool test)
{
    return haul_sentences(count, .test = test);
}

typedef struct source {
    const char *name, *needs; /* what follows the colon: "DIR", "FILE"; NULL: nothing, or a number */
    bool        sorted_by_class, resizes, has_context;
    haul_dataset *(*open)(const char *where, bool test, example_size *size);
    haul_dataset *(*make)(int64_t count, bool test); /* of a built-in one, instead of `open` */
    int64_t usual;                                   /* examples to train on that are made unless a number is given */
} source;

static const source sources[] = {
    {.name = "cifar10", .needs = "DIR", .open = open_cifar10},
    {.name = "cifar100", .needs = "DIR", .open = open_cifar100},
    {.name = "mnist", .needs = "DIR", .open = open_mnist},
    {.name = "fashion-mnist", .needs = "DIR", .open = open_fashion_mnist},
    {.name = "images", .needs = "DIR", .sorted_by_class = true, .resizes = true, .open = open_images},
    {.name = "masks", .needs = "DIR", .resizes = true, .open = open_masks},
    {.name = "text", .needs = "FILE", .has_context = true, .open = open_text},
    {.name = "shapes", .usual = 10000, .make = make_shapes},
    {.name = "blobs", .usual = 1000, .make = make_blobs},
    {.name = "scenes", .usual = 2000, .make = make_scenes},
    {.name = "sentences", .usual = 10000, .make = make_sentences},
};
enum { SOURCE_COUNT = sizeof sources / sizeof *sources };

static const source *find(const char *text, size_t length)
{
    for (int i = 0; i < SOURCE_COUNT; i++)
        if (strlen(sources[i].name) == length && !memcmp(sources[i].name, text, length))
            return &sources[i];
    return NULL;
}

/* The kind of data that a text names, and where it is: what follows the colon, NULL if there is none; or the text, if
 * it is an archive. */
typedef struct place {
    const source *kind;
    const char   *where;
} place;

/* A file from the network has the kind of the archive that it is. */
static place find_place(const char *text)
{
    const size_t length = strcspn(text, ":");
    place        p = {.kind = find(text, length), .where = text[length] ? text + length + 1 : NULL};
    if (p.kind)
        return p;
    p.where = remote_is_address(text) ? remote_file(text) : text;
    const char *kind = p.where ? archive_kind(p.where) : NULL;
    p.kind = kind ? find(kind, strlen(kind)) : NULL;
    return p;
}

/* The same, with a path: a file in the network is fetched. A folder of a data set's name comes before the data set. */
static place find_path(const char *text)
{
    place       p = find_place(text);
    struct stat status;
    if (p.kind && p.where && remote_is_address(p.where))
        p.where = remote_file(p.where);
    else if (p.kind && !p.where && remote_has_set(p.kind->name))
        p.where = stat(p.kind->name, &status) ? remote_set(p.kind->name) : p.kind->name;
    return p;
}

/* "cifar10:DIR, images:DIR, ..., sentences" */
static const char *list_sources(char *out, size_t size)
{
    *out = 0;
    for (int i = 0; i < SOURCE_COUNT; i++)
        haul__list_add(out, size, "%s%s%s", sources[i].name, sources[i].needs ? ":" : "",
                       sources[i].needs ? sources[i].needs : "");
    return out;
}

static void complain_unknown(const char *text, size_t length)
{
    const char *names[SOURCE_COUNT + 1] = {NULL};
    char        name[64], all[200];
    struct stat status;
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    for (int i = 0; i < SOURCE_COUNT; i++)
        names[i] = sources[i].name;
    const char *near = did_you_mean(name, names);
    list_sources(all, sizeof all);
    if (near && !remote_is_address(text))
        complain("--data %s: unknown source '%s'; did you mean '%s'? (use %s)", text, name, near, all);
    else if (!remote_is_address(text) && strchr(text, '.') && !strchr(text, ':') && stat(text, &status))
        complain("--data %s: %s; give a file that is there, or use %s", text, strerror(errno), all);
    else if (remote_is_address(text))
        complain(
            "--data %s: %s has none of the files of CIFAR and MNIST, and no pictures in folders; delete it to fetch "
            "it again",
            text, remote_file(text));
    else if (haul__is_archive(text))
        complain("--data %s: this archive has none of the files of CIFAR and MNIST, and no pictures in folders", text);
    else if (stat(text, &status))
        complain("--data %s: unknown source '%s'; use %s", text, name, all);
    else if (S_ISDIR(status.st_mode))
        complain("--data %s: say what is in there: cifar10:%s, images:%s or masks:%s", text, text, text, text);
    else
        complain("--data %s: say what it is: text:%s if it is a text; other sources are %s", text, text, all);
}

haul_status source_spec(const haul_dataset *dataset, data_spec *out)
{
    haul_status status = haul_dataset_field(dataset, 0, &out->x);
    return status ? status : haul_dataset_field(dataset, 1, &out->y);
}

data_task source_task(const data_spec *spec)
{
    if (spec->x.classes)
        return TASK_TOKENS;
    return spec->y.classes && spec->y.shape.ndim == 2 ? TASK_PIXELS : TASK_ANSWER;
}

static void complain_one_class(const char *text, const data_spec *spec)
{
    static const char *const reasons[] = {
        [TASK_ANSWER] = "each in a folder of its own",
        [TASK_PIXELS] = "so the masks must have at least two values",
        [TASK_TOKENS] = "so the text must have at least two characters",
    };
    complain("--data %s has one class, '%s'; a network needs at least two, %s", text, spec->y.class_names[0],
             reasons[source_task(spec)]);
}

/* True if there are classes to distinguish, and the size is the wanted one. */
static bool check(const char *text, const source *kind, const haul_dataset *dataset, const example_size *size)
{
    data_spec spec;
    if (source_spec(dataset, &spec)) {
        complain_error();
        return false;
    }
    if (spec.y.classes == 1) {
        complain_one_class(text, &spec);
        return false;
    }
    if (size->height && !kind->resizes) {
        complain("--size resizes the pictures of images:DIR and masks:DIR; the examples of %s have shape %s", text,
                 text_shape(&spec.x.shape));
        return false;
    }
    if (size->context && !kind->has_context) {
        complain("--context is for text:FILE; the examples of %s have shape %s", text, text_shape(&spec.x.shape));
        return false;
    }
    return true;
}

static haul_dataset *open_source(const source *s, const char *where, bool test, example_size *size)
{
    if (s->open)
        return s->open(where, test, size);
    const int64_t count = count_of(s->name, where, s->usual, test);
    return count < 0 ? NULL : s->make(count, test);
}

haul_dataset *source_open(const char *text, bool test, example_size *size)
{
    haul_error_clear();
    const place   p = find_path(text);
    const source *found = p.kind;
    if (haul_error_status()) {
        complain_error();
        return NULL;
    }
    if (!found) {
        complain_unknown(text, strcspn(text, ":"));
        return NULL;
    }
    if (found->needs && (!p.where || !*p.where)) {
        complain("--data %s lacks the %s after the colon: %s:%s", text, strcmp(found->needs, "DIR") ? "file" : "folder",
                 found->name, found->needs);
        return NULL;
    }
    haul_dataset *dataset = open_source(found, p.where, test, size);
    if (!dataset && haul_error_status())
        complain_error();
    return dataset && check(text, found, dataset, size) ? dataset : NULL;
}

bool source_resizes(const char *text)
{
    const source *found = find_place(text).kind;
    return found && found->resizes;
}

example_size source_size(const char *text, const haul_shape *shape)
{
    const source *found = find_place(text).kind;
    if (found && found->resizes && shape->ndim == 3)
        return (example_size){.height = shape->dims[1], .width = shape->dims[2]};
    return (example_size){.context = found && found->has_context && shape->ndim == 1 ? shape->dims[0] : 0};
}

/* True if DIR/test has class folders. It would have pictures if it were a class named test. */
static bool has_test_folder(const char *where)
{
    if (haul__is_archive(where))
        return archive_has_test(where);
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
    const place p = source_resizes(text) ? find_path(text) : (place){.kind = NULL};
    if (!p.where)
        return true;
    struct stat status;
    const bool  is_folder = !stat(p.where, &status) && S_ISDIR(status.st_mode);
    return access(p.where, is_folder ? R_OK | X_OK : R_OK) != 0 || has_test_folder(p.where);
}

bool source_is_sorted_by_class(const char *text)
{
    const source *found = find_place(text).kind;
    return found && found->sorted_by_class;
}

bool source_same_kind(const char *a, const char *b)
{
    const source *kind = find_place(a).kind;
    return kind && kind == find_place(b).kind && (kind->needs || !strcmp(a, b));
}

const char *source_name(int index, const char **needs)
{
    if (index >= SOURCE_COUNT)
        return NULL;
    *needs = sources[index].needs;
    return sources[index].name;
}
