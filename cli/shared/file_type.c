#include "cli/shared/file_type.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/shared/cli.h"
#include "formats/file_type.h"

typedef struct head {
    unsigned char bytes[HAUL__FILE_HEAD];
    size_t        length;
} head;

static int complain_type(const char *path, const haul__file_type *type)
{
    static const char shown[] = "haul inspect shows safetensors, npy, npz, GGUF, PyTorch and ONNX files";
    if (!type)
        return complain(
            "%s is of no type that haul inspect knows; it shows safetensors, npy, npz, GGUF, PyTorch and ONNX "
            "files",
            path);
    return complain("%s is %s; %s", path, type->name, type->advice ? type->advice : shown);
}

/* ---- other things than files ---- */

static int complain_folder(const char *path)
{
    char        file[4096], quoted[8192];
    struct stat status;
    snprintf(file, sizeof file, "%s/checkpoint", path);
    if (!stat(file, &status))
        return complain("%s is a folder of haul train; name a file in it: haul inspect %s", path,
                        shell_text(quoted, sizeof quoted, file));
    return complain("%s is a folder; name a file in it", path);
}

const char *file_kind_name(mode_t mode)
{
    static const struct {
        mode_t      mode;
        const char *name;
    } names_of[] = {{S_IFDIR, "a folder"},  {S_IFLNK, "a symbolic link"}, {S_IFIFO, "a FIFO (a named pipe)"},
                    {S_IFSOCK, "a socket"}, {S_IFCHR, "a device"},        {S_IFBLK, "a device"}};
    for (size_t i = 0; i < sizeof names_of / sizeof *names_of; i++)
        if ((mode & S_IFMT) == names_of[i].mode)
            return names_of[i].name;
    return "something else";
}

static int complain_mode(const char *path, mode_t mode)
{
    return S_ISDIR(mode) ? complain_folder(path) : complain("%s is %s, not a file", path, file_kind_name(mode));
}

/* ---- reading ---- */

static bool read_head(int fd, head *h)
{
    ssize_t n = 1;
    while (h->length < sizeof h->bytes && n > 0) {
        n = read(fd, h->bytes + h->length, sizeof h->bytes - h->length);
        h->length += n > 0 ? (size_t)n : 0;
        n = n < 0 && errno == EINTR ? 1 : n;
    }
    return n >= 0;
}

static bool is_shown(const haul__file_type *type)
{
    return type == &haul__file_npy || type == &haul__file_safetensors || type == &haul__file_npz ||
           type == &haul__file_torch || type == &haul__file_index || type == &haul__file_gguf ||
           type == &haul__file_onnx;
}

bool file_type_find(const char *path, file_type *out)
{
    struct stat info;
    head        h = {.length = 0};
    /* Opening a FIFO would wait for a writer, and opening a device may do something. */
    int fd = stat(path, &info) ? -1 : S_ISREG(info.st_mode) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -2;
    if (fd == -2)
        return complain_mode(path, info.st_mode), false;
    bool fine = fd >= 0 && read_head(fd, &h);
    if (!fine)
        complain("%s: %s", path, strerror(errno));
    else if (!h.length)
        complain("%s: the file is empty", path);
    if (fd >= 0)
        close(fd);
    if (!fine || !h.length)
        return false;
    const haul__file_type *type = haul__file_type_of(h.bytes, h.length);
    *out = type == &haul__file_npy ? FILE_NPY : type == &haul__file_onnx ? FILE_ONNX : FILE_SAFETENSORS;
    return is_shown(type) || (complain_type(path, type), false);
}
