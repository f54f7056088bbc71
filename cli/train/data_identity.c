#include "cli/train/data_identity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fnv.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "data/dataset.h"

/* The sizes of so many files are kept one by one, so that missing ones can be named later. */
enum { MOST_LISTED = 1000 };

/* ---- making ---- */

static void hash_add(uint64_t *hash, const void *data, size_t size)
{
    *hash = haul__fnv(*hash, data, size);
}

static void hash_add_size(uint64_t *hash, uint64_t size)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(size >> 8 * i);
    hash_add(hash, bytes, sizeof bytes);
}

typedef struct files {
    int64_t  count, bytes;
    uint64_t hash;
    cJSON   *sizes; /* of each file, by its name */
} files;

static bool add_file(files *f, const haul__data_file *file)
{
    struct stat info;
    char        name[4096];
    if (stat(file->path, &info)) {
        complain("%s cannot be examined: %s", file->path, strerror(errno));
        return false;
    }
    f->count++;
    f->bytes += info.st_size;
    hash_add(&f->hash, file->name, strlen(file->name) + 1);
    hash_add_size(&f->hash, (uint64_t)info.st_size);
    if (file->content)
        hash_add_size(&f->hash, file->content);
    if (f->count <= MOST_LISTED) {
        visible_text(name, sizeof name, file->name);
        json_number(f->sizes, name, (double)info.st_size);
    }
    return true;
}

static bool put_files(cJSON *part, const haul_dataset *data)
{
    files           f = {.hash = HAUL__FNV, .sizes = json_object(part, "sizes")};
    haul__data_file file;
    char            text[24];
    bool            read = true;
    while (read && (file = haul__dataset_file(data, f.count)).path)
        read = add_file(&f, &file);
    if (f.count) {
        snprintf(text, sizeof text, "%016" PRIx64, f.hash);
        json_number(part, "files", (double)f.count);
        json_number(part, "bytes", (double)f.bytes);
        json_text(part, "hash", text);
    }
    if (!f.count || f.count > MOST_LISTED)
        cJSON_DeleteItemFromObjectCaseSensitive(part, "sizes");
    return read;
}

/* "u8 [3,32,32]" */
static void put_form(cJSON *part, const char *name, const haul_field *field)
{
    char text[192];
    snprintf(text, sizeof text, "%s %s", haul_dtype_name(field->dtype), text_shape(&field->shape));
    json_text(part, name, text);
}

static bool put_part(cJSON *identity, const char *name, const haul_dataset *data)
{
    data_spec spec;
    cJSON    *part = data ? json_object(identity, name) : NULL;
    if (!data)
        return true;
    if (source_spec(data, &spec)) {
        complain_error();
        return false;
    }
    json_number(part, "examples", (double)haul_dataset_count(data));
    put_form(part, "x", &spec.x);
    put_form(part, "y", &spec.y);
    return put_files(part, data);
}

cJSON *data_identity_new(const training_data *data)
{
    cJSON *identity = cJSON_CreateObject();
    if (data->validation)
        json_number(identity, "validation_examples", (double)haul_dataset_count(data->validation));
    const bool made = put_part(identity, "train", data->raw) && put_part(identity, "test", data->raw_test);
    if (made && json_is_complete())
        return identity;
    if (made)
        complain("memory is exhausted");
    cJSON_Delete(identity);
    return NULL;
}

bool data_identity_varied(const cJSON *identity)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(identity, "varied"));
}

void data_identity_set_varied(cJSON *identity)
{
    json_bool(identity, "varied", true);
}

/* ---- comparing ---- */

/* The text so far, in a buffer that cuts it. */
typedef struct words {
    char  *text;
    size_t size;
} words;

static void HAUL_PRINTF(2, 3) say(words *w, const char *format, ...)
{
    size_t  used = strlen(w->text);
    va_list arguments;
    if (used && used + 3 < w->size)
        used += (size_t)snprintf(w->text + used, w->size - used, "; ");
    va_start(arguments, format);
    vsnprintf(w->text + used, w->size - used, format, arguments);
    va_end(arguments);
}

static const cJSON *item(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const char *text_in(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(item(object, name));
    return text ? text : "";
}

/* A count of the file: 0 for what cannot be one. */
static int64_t count_in(const cJSON *object, const char *name)
{
    const cJSON *number = item(object, name);
    return cJSON_IsNumber(number) && number->valuedouble >= 0 ? whole_number(number->valuedouble) : 0;
}

static bool same_text(const cJSON *a, const cJSON *b, const char *name)
{
    return !strcmp(text_in(a, name), text_in(b, name));
}

static bool same_count(const cJSON *a, const cJSON *b, const char *name)
{
    return count_in(a, name) == count_in(b, name);
}

/* Files that are in the one list and not in the other, or have another size there. */
typedef struct found {
    int64_t     count;
    const char *first;
} found;

static void note(found *f, const cJSON *file)
{
    if (!f->count++)
        f->first = file->string;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

/* The members of an object, sorted, for free; NULL if memory is exhausted. */
static const cJSON **sorted(const cJSON *object, size_t *count)
{
    const cJSON **list = calloc((size_t)cJSON_GetArraySize(object) + 1, sizeof *list);
    *count = 0;
    for (const cJSON *member = list ? object->child : NULL; member; member = member->next)
        if (member->string)
            list[(*count)++] = member;
    if (list)
        qsort(list, *count, sizeof *list, by_name);
    return list;
}

/* Where one of the lists has ended, all names of the other are before it. */
static int compare_heads(const cJSON *before, const cJSON *now)
{
    return !before ? 1 : !now ? -1 : strcmp(before->string, now->string);
}

/* "2 of 800 files are gone, for example cats/001.png"; of 0: "2 files are gone ..." */
static void say_found(words *w, const char *part, const found *f, size_t of, const char *is, const char *are)
{
    char all[48] = "";
    if (!f->count)
        return;
    if (of)
        snprintf(all, sizeof all, " of %s", text_count((int64_t)of));
    say(w, "%s%s%s file%s %s, for example %.200s", part, text_count(f->count), all,
        of != 1 && (of || f->count > 1) ? "s" : "", f->count == 1 ? is : are, f->first);
}

static void compare_lists(words *w, const char *part, const cJSON *before, const cJSON *now)
{
    size_t        old_count, new_count, i = 0, k = 0;
    const cJSON **old_list = sorted(before, &old_count), **new_list = sorted(now, &new_count);
    found         gone = {0}, added = {0}, resized = {0};
    while (old_list && new_list && (i < old_count || k < new_count)) {
        const cJSON *a = i < old_count ? old_list[i] : NULL, *b = k < new_count ? new_list[k] : NULL;
        int          order = compare_heads(a, b);
        if (order < 0)
            note(&gone, a);
        else if (order > 0)
            note(&added, b);
        else if (a->valuedouble != b->valuedouble)
            note(&resized, a);
        i += order <= 0;
        k += order >= 0;
    }
    say_found(w, part, &gone, old_count, "is gone", "are gone");
    say_found(w, part, &added, 0, "is new", "are new");
    say_found(w, part, &resized, old_count, "has another size", "have other sizes");
    free(old_list);
    free(new_list);
}

static void compare_files(words *w, const char *part, const cJSON *before, const cJSON *now)
{
    const cJSON  *old_sizes = item(before, "sizes"), *new_sizes = item(now, "sizes");
    const int64_t old_count = count_in(before, "files"), new_count = count_in(now, "files");
    const size_t  length = strlen(w->text);
    if (same_text(before, now, "hash") && old_count == new_count && same_count(before, now, "bytes"))
        return;
    if (old_sizes && new_sizes)
        compare_lists(w, part, old_sizes, new_sizes);
    if (strlen(w->text) > length)
        return;
    if (old_sizes && new_sizes)
        say(w, "%scontents of %s differ", part, new_count == 1 ? new_sizes->child->string : "its files");
    else if (old_count == new_count)
        say(w, "%snames or sizes of its %s files differ", part, text_count(new_count));
    else
        say(w, "%s%s files now, %s before", part, text_count(new_count), text_count(old_count));
}

/* `part` begins each sentence. */
static void compare_part(words *w, const char *part, const cJSON *before, const cJSON *now)
{
    const size_t length = strlen(w->text);
    compare_files(w, part, before, now);
    if (strlen(w->text) == length && !same_count(before, now, "examples"))
        say(w, "%s%s examples now, %s before", part, text_count(count_in(now, "examples")),
            text_count(count_in(before, "examples")));
    for (const char *const *name = (const char *const[]){"x", "y", NULL}; *name; name++)
        if (!same_text(before, now, *name))
            say(w, "%s%s is %s now, %.100s before", part, *name, text_in(now, *name), text_in(before, *name));
}

void data_identity_compare(const cJSON *before, const cJSON *now, char *out, size_t size)
{
    const cJSON *old_test = item(before, "test"), *new_test = item(now, "test");
    words        w = {out, size};
    *out = 0;
    compare_part(&w, "", item(before, "train"), item(now, "train"));
    if (!old_test != !new_test)
        say(&w, "the test data is %s", old_test ? "gone" : "new");
    else if (old_test)
        compare_part(&w, "of the test data, ", old_test, new_test);
    if (!*out && !same_count(before, now, "validation_examples"))
        say(&w, "%s examples for validation now, %s before", text_count(count_in(now, "validation_examples")),
            text_count(count_in(before, "validation_examples")));
}
