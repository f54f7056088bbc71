/* What a file is, by its first bytes. A table of those that users confuse with the files that Haul reads. */
#include "formats/file_type.h"

#include <string.h>

#include "base/text/utf8.h"
#include "core/error.h"
#include "formats/onnx/model.h"

#define CONVERT "convert it in Python with safetensors.torch.save_file(torch.load(FILE), \"weights.safetensors\")"
#define DECODE  "save it as UTF-8, for example with: iconv -f UTF-16 -t UTF-8"

const haul__file_type haul__file_npy = {"\x93NUMPY", 6, "an npy file", "haul_load_npy reads it", false};
const haul__file_type haul__file_safetensors = {"", 0, "a safetensors file", "haul_open_safetensors reads it", false};

const haul__file_type haul__file_npz = {".npy", 4, "an npz file, an archive of npy files",
                                        "haul_open_safetensors reads it", false};

const haul__file_type haul__file_torch = {"data.pkl", 8, "a file of PyTorch", "haul_open_safetensors reads it", false};

const haul__file_type haul__file_gguf = {"GGUF", 4, "a GGUF file", "haul_open_safetensors reads it", false};

const haul__file_type haul__file_index = {"\"weight_map\"", 12, "the index of sharded safetensors files",
                                          "haul_open_safetensors reads it", true};

const haul__file_type haul__file_onnx = {"", 0, "an ONNX model", "haul_load_onnx reads it", false};

/* Files that are not text. */
static const haul__file_type binaries[] = {
    {"\x89PNG\r\n\x1a\n", 8, "a PNG picture", NULL, false},
    {"\xff\xd8\xff", 3, "a JPEG picture", NULL, false},
    {"GIF8", 4, "a GIF picture", NULL, false},
    {"II*\0", 4, "a TIFF picture", NULL, false},
    {"MM\0*", 4, "a TIFF picture", NULL, false},
    {"\x1f\x8b\x08", 3, "a gzip archive", "unpack it with gunzip or tar first", false},
    {"BZh", 3, "a bzip2 archive", "unpack it with bunzip2 or tar first", false},
    {"\xfd"
     "7zXZ",
     5, "an xz archive", "unpack it with unxz or tar first", false},
    {"\x28\xb5\x2f\xfd", 4, "a zstd archive", "unpack it with unzstd first", false},
    {"7z\xbc\xaf\x27\x1c", 6, "a 7z archive", "unpack it with 7z first", false},
    {"\x89HDF", 4, "an HDF5 file", "h5py reads it in Python", false},
    {"PAR1", 4, "a Parquet file", "pandas or DuckDB convert it", false},
    {"ARROW1", 6, "an Arrow file", "pandas or DuckDB convert it", false},
    {"SQLite format 3", 15, "an SQLite database", "export its table as CSV", false},
    {"%PDF", 4, "a PDF file", NULL, false},
    {"\x7f"
     "ELF",
     4, "a program or library", NULL, false},
    {"\x80\x02", 2, "a Python pickle, as old PyTorch files are", CONVERT, false},
    {"\x80\x03", 2, "a Python pickle", "save its arrays with numpy.save or safetensors", false},
    {"\x80\x04", 2, "a Python pickle", "save its arrays with numpy.save or safetensors", false},
    {"\x80\x05", 2, "a Python pickle", "save its arrays with numpy.save or safetensors", false},
    {"\xff\xfe", 2, "text in UTF-16", DECODE, false},
    {"\xfe\xff", 2, "text in UTF-16", DECODE, false},
};

static const haul__file_type texts[] = {
    {"version https://git-lfs.github.com/", 35, "a pointer of Git LFS instead of the file",
     "fetch it with: git lfs pull", false},
    {"<!DOCTYPE html", 14, "an HTML page, as failed downloads leave", "download the file again", true},
    {"<!doctype html", 14, "an HTML page, as failed downloads leave", "download the file again", true},
    {"<html", 5, "an HTML page, as failed downloads leave", "download the file again", true},
    {"{", 1, "a JSON text", NULL, true},
    {"[", 1, "a JSON text", NULL, true},
    {"", 0, "a text file", NULL, true},
};

/* A zip archive has the names of its first entries among its first bytes, which are not compressed. Here `magic` is a
 * part of a name. */
static const haul__file_type zips[] = {
    {"[Content_Types].xml", 19, "a document of an office program", "export its table as CSV", false},
    {"", 0, "a zip archive", "if numpy.savez or torch.save did not write it, unpack it with unzip", false},
};

static const haul__file_type *find(const haul__file_type *types, size_t count, const char *head, size_t size)
{
    for (size_t i = 0; i < count; i++)
        if (size >= types[i].length && memcmp(head, types[i].magic, types[i].length) == 0)
            return &types[i];
    return NULL;
}

static const haul__file_type *find_zip(const char *head, size_t size)
{
    if (memmem(head, size, haul__file_torch.magic, haul__file_torch.length))
        return &haul__file_torch;
    if (memmem(head, size, haul__file_npz.magic, haul__file_npz.length))
        return &haul__file_npz;
    for (const haul__file_type *type = zips;; type++)
        if (!type->length || memmem(head, size, type->magic, type->length))
            return type;
}

/* UTF-8 without control characters but those of texts. The end of the head may cut a character. */
static bool is_text(const char *head, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)head[i] < ' ' && (!head[i] || !strchr("\t\n\r\f\033", head[i])))
            return false;
    const size_t most = size == HAUL__FILE_HEAD ? 3 : 0;
    for (size_t cut = 0; cut <= most && cut < size; cut++)
        if (haul__is_utf8((const uint8_t *)head, size - cut))
            return true;
    return false;
}

/* Eight bytes are the size of the header, which is a JSON object. No header has 2^40 bytes. */
static bool is_safetensors(const char *head, size_t size)
{
    return size > 8 && !head[5] && !head[6] && !head[7] && head[8] == '{';
}

const haul__file_type *haul__file_type_of(const void *bytes, size_t size)
{
    const char *head = bytes;
    size_t      blank = 0;
    size = size < HAUL__FILE_HEAD ? size : HAUL__FILE_HEAD;
    if (is_safetensors(head, size))
        return &haul__file_safetensors;
    if (find(&haul__file_npy, 1, head, size))
        return &haul__file_npy;
    if (find(&haul__file_gguf, 1, head, size))
        return &haul__file_gguf;
    if (is_text(head, size)) {
        if (head[0] == '{' && memmem(head, size, haul__file_index.magic, haul__file_index.length))
            return &haul__file_index;
        while (blank < size && strchr(" \t\r\n", head[blank]))
            blank++;
        return find(texts, sizeof texts / sizeof *texts, head + blank, size - blank);
    }
    if (size >= 4 && memcmp(head, "PK\3\4", 4) == 0)
        return find_zip(head, size);
    if (size >= 4 && memcmp(head, "PK\5\6", 4) == 0) /* without members */
        return &haul__file_npz;
    const haul__file_type *type = find(binaries, sizeof binaries / sizeof *binaries, head, size);
    return type || !haul__onnx_recognise(head, size) ? type : &haul__file_onnx;
}

haul_status haul__refuse_file_type(const haul__file_type *type, const char *operation, const char *path,
                                   const char *wanted)
{
    return !type ? HAUL_OK
                 : haul__fail(HAUL_FORMAT, operation, "path", "%s is not %s, but %s%s%s", path, wanted, type->name,
                              type->advice ? "; " : "", type->advice ? type->advice : "");
}
