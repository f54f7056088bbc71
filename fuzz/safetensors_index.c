/* Fuzzing the index of sharded safetensors files: bytes up to the first 0 are the index, those after it, if any, one of
 * its two files. Every tensor of an index that opens is loaded. */
#include <fcntl.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64];

static void path_of(char out[128], const char *name)
{
    snprintf(out, 128, "%s/%s", folder, name);
}

static void remove_all(void)
{
    static const char *const names[] = {"model.safetensors.index.json", "a", "b"};
    char                     path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_of(path, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void write_file(const char *name, const void *data, size_t size)
{
    char path[128];
    path_of(path, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

/* A file with one tensor of two bytes. */
static void write_shard(const char *name, const char *tensor)
{
    char      file[160] = {0};
    const int length = snprintf(file + 8, sizeof file - 8,
                                "{\"%s\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":"
                                "[0,2]}}",
                                tensor);
    file[0] = (char)length;
    write_file(name, file, 8 + (size_t)length + 2);
}

static void begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/haul-fuzz-index-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    atexit(remove_all);
    write_shard("a", "x");
    write_shard("b", "y");
}

static void load_all(haul_safetensors *file)
{
    haul_scope *scope = haul_scope_push();
    for (int i = 0; i < haul_safetensors_count(file); i++) {
        haul_file_tensor entry;
        if (haul_safetensors_entry(file, i, &entry))
            abort();
        haul_tensor *t = haul_safetensors_load(file, entry.name);
        if (!haul_error_status() && haul_tensor_dtype(t) != entry.dtype)
            abort();
        haul_error_clear();
    }
    haul_scope_pop(scope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char           path[128];
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const size_t   index = end ? (size_t)(end - data) : size;
    if (!*folder)
        begin();
    if (end)
        write_file("a", end + 1, size - index - 1);
    else
        write_shard("a", "x");
    write_file("model.safetensors.index.json", data, index);
    path_of(path, "model.safetensors.index.json");
    haul_error_clear();
    haul_scope       *scope = haul_scope_push();
    haul_safetensors *file = haul_open_safetensors(path);
    if (file)
        load_all(file);
    else if (!haul_error_status())
        abort();
    haul_error_clear();
    haul_scope_pop(scope);
    return 0;
}
