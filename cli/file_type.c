#include "file_type.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { HEAD = 512 }; /* bytes that are read */

typedef struct head {
    unsigned char bytes[HEAD + 1]; /* ended by a NUL */
    size_t        length;
} head;

/* ---- types by their first bytes ---- */

#define SHOWN "haul inspect shows safetensors and npy files"

static const struct {
    const char *magic;
    size_t      length;
    const char *name, *advice;
} magics[] = {
    {"\x89PNG\r\n\x1a\n", 8, "a PNG picture", SHOWN},
    {"\xff\xd8\xff", 3, "a JPEG picture", SHOWN},
    {"GIF8", 4, "a GIF picture", SHOWN},
    {"\x1f\x8b", 2, "a gzip archive", "unpack it with gunzip or tar first"},
    {"BZh", 3, "a bzip2 archive", "unpack it with bunzip2 or tar first"},
    {"\xfd"
     "7zXZ",
     5, "an xz archive", "unpack it with unxz or tar first"},
    {"\x28\xb5\x2f\xfd", 4, "a zstd archive", "unpack it with unzstd first"},
    {"\x89HDF", 4, "an HDF5 file", SHOWN "; h5py reads it in Python"},
    {"%PDF", 4, "a PDF file", SHOWN},
    {"\x7f"
     "ELF",
     4, "a program or library", SHOWN},
    {"\x80\x02", 2, "a Python pickle, as old PyTorch files are",
     "convert it in Python with safetensors.torch.save_file(torch.load(FILE), \"weights.safetensors\")"},
};

/* Is a name in the archive's first entries, which are not compressed? */
static bool names(const head *h, const char *name)
{
    return memmem(h->bytes, h->length, name, strlen(name)) != NULL;
}

static int complain_zip(const char *path, const head *h)
{
    if (names(h, "data.pkl"))
        return complain("%s is a zip archive with the weights of a PyTorch program; convert it in Python with "
                        "safetensors.torch.save_file(torch.load(FILE), \"weights.safetensors\")",
                        path);
    if (names(h, ".npy"))
        return complain(
            "%s is a zip archive of npy files, as numpy.savez writes them; unpack it with unzip, or save each "
            "array with numpy.save",
            path);
    return complain("%s is a zip archive; " SHOWN ". If PyTorch wrote it, convert it in Python with "
                    "safetensors.torch.save_file(torch.load(FILE), \"weights.safetensors\")",
                    path);
}

/* UTF-8 without control characters but those of texts; a character that is cut at the end is none of the others. */
static bool is_text(const head *h)
{
    char text[HEAD + 1];

    memcpy(text, h->bytes, h->length + 1);
    for (size_t i = 0; i < h->length; i++)
        if (h->bytes[i] < ' ' && !strchr("\t\n\r\f\033", h->bytes[i]))
            return false;
    if (strlen(text) != h->length)
        return false;
    for (size_t cut = 0; cut < 4 && cut < h->length; cut++) {
        text[h->length - cut] = 0;
        if (is_utf8(text))
            return true;
    }
    return false;
}

/* The size of the header, which is a JSON object, in eight bytes. No header has 2^40 bytes: a text is none. */
static bool is_safetensors(const head *h)
{
    return h->length > 8 && !h->bytes[5] && !h->bytes[6] && !h->bytes[7] && h->bytes[8] == '{';
}

static int complain_type(const char *path, const head *h)
{
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (h->length >= magics[i].length && !memcmp(h->bytes, magics[i].magic, magics[i].length))
            return complain("%s is %s; %s", path, magics[i].name, magics[i].advice);
    if (h->length >= 4 && !memcmp(h->bytes, "PK\3\4", 4))
        return complain_zip(path, h);
    size_t blank = strspn((const char *)h->bytes, " \t\r\n");
    if (is_text(h) && (h->bytes[blank] == '{' || h->bytes[blank] == '['))
        return complain("%s is a JSON text; " SHOWN, path);
    if (is_text(h))
        return complain("%s is a text file; " SHOWN, path);
    return complain("%s is of no type that haul inspect knows; it shows safetensors and npy files", path);
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

    while (h->length < HEAD && n > 0) {
        n = read(fd, h->bytes + h->length, HEAD - h->length);
        h->length += n > 0 ? (size_t)n : 0;
        n = n < 0 && errno == EINTR ? 1 : n;
    }
    return n >= 0;
}

bool file_type_find(const char *path, file_type *out)
{
    struct stat info;
    head        h = {.length = 0};

    /* Opening a FIFO would wait for somebody who writes, and opening a device may do something. */
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
    bool npy = h.length >= 6 && !memcmp(h.bytes, "\x93NUMPY", 6);
    *out = npy ? FILE_NPY : FILE_SAFETENSORS;
    return npy || is_safetensors(&h) || (complain_type(path, &h), false);
}
