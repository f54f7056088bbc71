/* haul inspect: what is in a safetensors, npy or checkpoint file. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "json.h"
#include "options.h"

static int print_npy(const char *path, bool json)
{
    haul_tensor *t = haul_load_npy(path);
    char         text[4096];

    if (!haul_tensor_is_valid(t))
        return complain_error();
    haul_shape shape = haul_tensor_shape(t);
    if (json) {
        cJSON *object = cJSON_CreateObject();
        json_text(object, "format", "npy");
        json_text(object, "dtype", haul_dtype_name(haul_tensor_dtype(t)));
        json_shape(object, "shape", &shape);
        json_number(object, "bytes", (double)haul_tensor_bytes(t));
        return json_print(object) ? EXIT_OK : EXIT_FAILED;
    }
    print_visible(path, 0);
    printf(": npy, %s%s, %s\n", haul_dtype_name(haul_tensor_dtype(t)), text_shape(&shape),
           text_bytes((int64_t)haul_tensor_bytes(t)));
    if (haul_tensor_format(t, text, sizeof text) < 0)
        return complain_error();
    printf("%s%s\n", text, strlen(text) + 1 == sizeof text ? " ..." : "");
    return EXIT_OK;
}

/* "f32"; of a dtype that Haul does not have the name in the file. */
static const char *dtype_text(const haul_file_tensor *t)
{
    return t->dtype == HAUL_DTYPE_NONE ? t->dtype_name : haul_dtype_name(t->dtype);
}

static int print_table(haul_safetensors *file, const char *path)
{
    enum { MOST = 60 }; /* columns for names */
    int      count = haul_safetensors_count(file), width = 4;
    uint64_t bytes = 0;

    for (int i = 0; i < count; i++) {
        haul_file_tensor t;
        if (haul_safetensors_entry(file, i, &t))
            return complain_error();
        bytes += t.bytes;
        if (strlen(t.name) > (size_t)width)
            width = strlen(t.name) < MOST ? (int)strlen(t.name) : MOST;
    }
    const char *format = haul_safetensors_metadata(file, "haul.format");
    print_visible(path, 0);
    printf(": ");
    print_visible(*format ? format : "safetensors", 0);
    printf(", %d tensors, %s\n", count, text_bytes((int64_t)bytes));
    for (int i = 0; i < count; i++) {
        haul_file_tensor t;
        if (haul_safetensors_entry(file, i, &t))
            return complain_error();
        printf("  ");
        print_visible(t.name, width);
        printf("  ");
        print_visible(dtype_text(&t), 4);
        printf("  %-18s %12s\n", text_shape(&t.shape), text_bytes((int64_t)t.bytes));
    }
    int pairs = haul_safetensors_metadata_count(file);
    for (int i = 0; i < pairs; i++) {
        haul_text_pair pair;
        if (haul_safetensors_metadata_entry(file, i, &pair))
            return complain_error();
        printf("%s  ", i ? "" : "metadata:\n");
        print_visible(pair.key, 0);
        printf(": ");
        print_visible(pair.value, 0);
        putchar('\n');
    }
    return EXIT_OK;
}

static int print_table_json(haul_safetensors *file)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "format", "safetensors");
    cJSON *tensors = json_array(object, "tensors");

    for (int i = 0; i < haul_safetensors_count(file); i++) {
        haul_file_tensor t;
        cJSON           *entry = cJSON_CreateObject();
        if (haul_safetensors_entry(file, i, &t)) {
            cJSON_Delete(entry);
            cJSON_Delete(object);
            return complain_error();
        }
        json_text(entry, "name", t.name);
        json_text(entry, "dtype", dtype_text(&t));
        json_shape(entry, "shape", &t.shape);
        json_number(entry, "bytes", (double)t.bytes);
        json_push(tensors, entry);
    }
    cJSON *metadata = cJSON_AddObjectToObject(object, "metadata");
    for (int i = 0; i < haul_safetensors_metadata_count(file); i++) {
        haul_text_pair pair;
        if (!haul_safetensors_metadata_entry(file, i, &pair))
            json_text(metadata, pair.key, pair.value);
    }
    return json_print(object) ? EXIT_OK : EXIT_FAILED;
}

/* Opening a pipe would wait for somebody who writes. */
static FILE *open_regular(const char *path)
{
    struct stat info;
    FILE       *file = NULL;
    if (stat(path, &info))
        complain("%s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        complain("%s: %s", path, S_ISDIR(info.st_mode) ? "is a folder; name a file in it" : "is not a regular file");
    else if (!(file = fopen(path, "rb")))
        complain("%s: %s", path, strerror(errno));
    return file;
}

static int inspect(const char *path, bool json)
{
    static const char npy_magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
    char              magic[9] = {0}; /* safetensors: the size of the header, which is a JSON object */
    FILE             *file = open_regular(path);

    if (!file)
        return EXIT_FAILED;
    size_t length = fread(magic, 1, sizeof magic, file);
    int    failed = ferror(file) ? errno : 0;
    fclose(file);
    if (failed)
        return complain("%s: %s", path, strerror(failed));
    if (!length)
        return complain("%s: the file is empty", path);
    if (!memcmp(magic, npy_magic, sizeof npy_magic))
        return print_npy(path, json);
    if (length < sizeof magic || magic[8] != '{')
        return complain("%s is neither a safetensors nor an npy file", path);
    haul_safetensors *opened = haul_open_safetensors(path);
    if (!opened)
        return complain_error();
    return json ? print_table_json(opened) : print_table(opened, path);
}

int inspect_main(int argc, char **argv)
{
    bool        json = false;
    const char *path = NULL;
    option rows[] = {{.name = "json", .kind = OPTION_FLAG, .value = &json, .help = "print one JSON object instead"}};
    option_set set = {.command = "inspect",
                      .usage = "[--json] FILE",
                      .summary = "Shows what is in a safetensors, npy or checkpoint file: names, dtypes, shapes, "
                                 "metadata; the values of an npy file.",
                      .rows = rows,
                      .count = 1,
                      .operand = &path};
    int        code = options_parse(&set, argc, argv);

    if (code >= 0)
        return code;
    if (!path) {
        complain("name a file: haul inspect FILE");
        return EXIT_USAGE;
    }
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return complain_error();
    code = inspect(path, json);
    haul_scope_pop(scope);
    return code;
}
