/* Fuzzing the readers of zip archives, npz, GGUF and PyTorch's files: any bytes as a file, whose tensors are all
 * loaded, read and mapped. */
#include <fcntl.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Both ways of loading give the same bytes, or fail. A mapped member is not compared with its checksum. */
static void load(haul_safetensors *read, haul_safetensors *mapped, const haul_file_tensor *entry)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *a = haul_safetensors_load(read, entry->name), *b = haul_safetensors_load(mapped, entry->name);
    if (haul_tensor_is_valid(a) && (entry->fault || entry->dtype == HAUL_DTYPE_NONE))
        abort();
    if (haul_tensor_is_valid(a)) {
        const size_t bytes = haul_tensor_bytes(a);
        void        *x = malloc(bytes + 1), *y = malloc(bytes + 1);
        if (!haul_tensor_is_valid(b) || !x || !y || bytes != entry->bytes || haul_tensor_bytes(b) != bytes ||
            haul_read(a, x, bytes) || haul_read(b, y, bytes) || memcmp(x, y, bytes))
            abort();
        free(x);
        free(y);
    }
    haul_error_clear();
    haul_scope_pop(scope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int  fd = memfd_create("fuzz.zip", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    haul_scope       *scope = haul_scope_push();
    haul_safetensors *read = haul_open_safetensors(path);
    haul_safetensors *mapped = read ? haul_open_safetensors(path, .map = true) : NULL;
    if (read && !mapped)
        abort();
    for (int i = 0; read && i < haul_safetensors_count(read); i++) {
        haul_file_tensor entry;
        if (haul_safetensors_entry(mapped, i, &entry))
            abort();
        if (entry.bytes < 1 << 20)
            load(read, mapped, &entry);
    }
    haul_error_clear();
    haul_scope_pop(scope);
    close(fd);
    return 0;
}
