/* NumPy's .npy format (NEP 1): "\x93NUMPY", a version, the length of a Python dictionary written as text, the
 * dictionary with exactly the keys descr, fortran_order and shape, and the elements. */
#include "formats/npy.h"

#include <haul/io.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bools.h"
#include "base/text/ascii.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "files/file.h"
#include "formats/file_type.h"
#include "host_access/view.h"

#define LOAD "haul_load_npy"
#define SAVE "haul_save_npy"

/* NumPy's letters and sizes. Other dtypes have no counterpart. */
static const struct {
    const char *code;
    haul_dtype  dtype;
} codes[] = {
    {"b1", HAUL_BOOL}, {"u1", HAUL_U8},  {"i1", HAUL_I8},  {"i2", HAUL_I16}, {"i4", HAUL_I32}, {"i8", HAUL_I64},
    {"f2", HAUL_F16},  {"f4", HAUL_F32}, {"f8", HAUL_F64}, {"u2", HAUL_U16}, {"u4", HAUL_U32}, {"u8", HAUL_U64},
};
#define CODES (sizeof codes / sizeof *codes)

/* ---- the dictionary ---- */

typedef struct cursor {
    const char *at, *end;
    const char *path;
} cursor;

static haul_status malformed(const cursor *c, const char *what)
{
    return haul__fail(HAUL_FORMAT, LOAD, "path", "%s is not a valid npy file: %s", c->path, what);
}

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

/* Skips white space and takes `character` if it comes next. */
static bool take(cursor *c, char character)
{
    skip_space(c);
    if (c->at == c->end || *c->at != character)
        return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* A quoted text without escapes, shorter than `size`. */
static bool take_text(cursor *c, char *out, size_t size)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char   quote = *c->at++;
    size_t length = 0;
    while (c->at < c->end && *c->at != quote) {
        if (*c->at == '\\' || (unsigned char)*c->at < ' ' || length + 1 == size)
            return false;
        out[length++] = *c->at++;
    }
    out[length] = 0;
    HAUL__ASSERT(length < size && c->at <= c->end);
    return take(c, quote);
}

static haul_status take_descr(cursor *c, haul__npy *out)
{
    char text[32];
    skip_space(c);
    if (c->at < c->end && *c->at == '[')
        return haul__fail(HAUL_DTYPE, LOAD, "path", "%s holds records with fields; Haul reads plain numbers only",
                          c->path);
    if (!take_text(c, text, sizeof text))
        return malformed(c, "descr is not a text");
    if (!text[0] || !strchr("<>=|", text[0]))
        return malformed(c, "descr does not begin with a byte order");
    if (text[1] == 'O')
        return malformed(c, "it holds pickled Python objects, which are never read");
    for (size_t i = 0; i < CODES; i++) {
        if (strcmp(text + 1, codes[i].code) != 0)
            continue;
        out->dtype = codes[i].dtype;
        out->big_endian = text[0] == '>';
        if (text[0] == '|' && haul__dtype_size(out->dtype) > 1)
            return malformed(c, "descr gives no byte order");
        return HAUL_OK;
    }
    return haul__fail(HAUL_DTYPE, LOAD, "path", "%s holds elements of dtype '%s', which is not supported", c->path,
                      text);
}

static haul_status take_order(cursor *c, haul__npy *out)
{
    out->fortran = take_word(c, "True");
    if (!out->fortran && !take_word(c, "False"))
        return malformed(c, "fortran_order is neither True nor False");
    return HAUL_OK;
}

static haul_status take_shape(cursor *c, haul__npy *out)
{
    out->shape.ndim = 0;
    if (!take(c, '('))
        return malformed(c, "shape is not a tuple");
    bool comma = true;
    while (!take(c, ')')) {
        if (!comma)
            return malformed(c, "the dimensions of shape are not separated by commas");
        if (take(c, '-'))
            return malformed(c, "a dimension is negative");
        if (c->at == c->end || !haul__is_digit(*c->at))
            return malformed(c, "a dimension is not a number");
        int64_t dim = 0;
        for (; c->at < c->end && haul__is_digit(*c->at); c->at++) {
            if (!haul__mul_size(dim, 10, &dim) || !haul__add_size(dim, *c->at - '0', &dim))
                return malformed(c, "a dimension is too large");
        }
        take(c, 'L'); /* Python 2 wrote it */
        if (out->shape.ndim == HAUL_MAX_DIMS)
            return haul__fail(HAUL_SHAPE, LOAD, "path", "%s has more than %d dimensions", c->path, HAUL_MAX_DIMS);
        out->shape.dims[out->shape.ndim++] = dim;
        comma = take(c, ',');
    }
    if (out->shape.ndim == 1 && !comma)
        return malformed(c, "shape is a number in brackets, not a tuple");
    HAUL__ASSERT(out->shape.ndim <= HAUL_MAX_DIMS && c->at <= c->end);
    return HAUL_OK;
}

static const struct {
    const char *name;
    haul_status (*take)(cursor *c, haul__npy *out);
} keys[] = {{"descr", take_descr}, {"fortran_order", take_order}, {"shape", take_shape}};
#define KEYS (sizeof keys / sizeof *keys)

static haul_status take_pair(cursor *c, haul__npy *out, unsigned *seen)
{
    char name[32];
    if (!take_text(c, name, sizeof name) || !take(c, ':'))
        return malformed(c, "its header is not a dictionary");
    for (size_t i = 0; i < KEYS; i++) {
        if (strcmp(name, keys[i].name) != 0)
            continue;
        if (*seen & 1u << i)
            return malformed(c, "a key of its header occurs twice");
        *seen |= 1u << i;
        return keys[i].take(c, out);
    }
    return malformed(c, "its header has a key that is not descr, fortran_order or shape");
}

static haul_status take_dictionary(cursor *c, haul__npy *out)
{
    unsigned seen = 0;
    bool     comma = true;
    if (!take(c, '{'))
        return malformed(c, "its header is not a dictionary");
    while (!take(c, '}')) {
        if (!comma)
            return malformed(c, "its header is not a dictionary");
        haul_status status = take_pair(c, out, &seen);
        if (status)
            return status;
        comma = take(c, ',');
    }
    skip_space(c);
    HAUL__ASSERT(c->at <= c->end);
    if (c->at != c->end)
        return malformed(c, "something follows the dictionary of its header");
    return seen == (1u << KEYS) - 1 ? HAUL_OK : malformed(c, "its header lacks one of descr, fortran_order and shape");
}

/* ---- the head ---- */

static haul_status check_size(const cursor *c, uint64_t file_size, haul__npy *out)
{
    int64_t bytes, count = 1;
    HAUL__ASSERT(out->offset <= file_size);
    for (int i = 0; i < out->shape.ndim; i++)
        if (!haul__mul_size(count, out->shape.dims[i], &count))
            return malformed(c, "its shape has more elements than can be counted");
    if (!haul__mul_size(count, (int64_t)haul__dtype_size(out->dtype), &bytes))
        return malformed(c, "its shape has more elements than can be counted");
    uint64_t there = file_size - out->offset;
    if ((uint64_t)bytes > there)
        return haul__fail(HAUL_FORMAT, LOAD, "path",
                          "%s is not a valid npy file: its shape needs %lld bytes of elements, it has %llu", c->path,
                          (long long)bytes, (unsigned long long)there);
    out->count = count;
    out->bytes = (size_t)bytes;
    return HAUL_OK;
}

haul_status haul__npy_parse(const uint8_t *data, size_t size, uint64_t file_size, const char *path, haul__npy *out)
{
    cursor c = {.path = path};
    *out = (haul__npy){0};
    HAUL__ASSERT(size <= file_size);
    const haul__file_type *type = haul__file_type_of(data, size);
    if (type != &haul__file_npy)
        return haul__refuse_file_type(type, LOAD, path, "an npy file")
                   ? haul_error_status()
                   : malformed(&c, "it does not begin with \\x93NUMPY");
    if (size < 12)
        return malformed(&c, "it is too short for a header");
    if (data[6] < 1 || data[6] > 3 || data[7] != 0)
        return haul__fail(HAUL_FORMAT, LOAD, "path",
                          "%s has version %d.%d of the npy format; Haul reads versions 1.0, 2.0 and 3.0", path, data[6],
                          data[7]);
    size_t   start = data[6] == 1 ? 10 : 12;
    uint32_t length = (uint32_t)data[8] | (uint32_t)data[9] << 8;
    if (start == 12)
        length |= (uint32_t)data[10] << 16 | (uint32_t)data[11] << 24;
    if (length > 10000)
        return malformed(&c, "its header is longer than 10,000 bytes");
    if (length > size - start)
        return malformed(&c, "it ends within its header");
    c.at = (const char *)data + start;
    c.end = c.at + length;
    out->offset = start + length;
    haul_status status = take_dictionary(&c, out);
    return status == HAUL_OK ? check_size(&c, file_size, out) : status;
}

/* ---- the elements ---- */

static void swap_bytes(uint8_t *data, int64_t count, size_t width)
{
    for (int64_t i = 0; i < count; i++, data += width)
        for (size_t a = 0, b = width - 1; a < b; a++, b--) {
            uint8_t byte = data[a];
            data[a] = data[b];
            data[b] = byte;
        }
}

/* Writes out, row-major, from elements whose first index is fastest: walks through out and follows in. */
static void reorder(const haul__npy *head, const uint8_t *in, uint8_t *out, size_t width)
{
    int     ndim = head->shape.ndim;
    int64_t strides[HAUL_MAX_DIMS], index[HAUL_MAX_DIMS] = {0}, from = 0, stride = 1;
    for (int d = 0; d < ndim; d++) {
        strides[d] = stride;
        stride *= head->shape.dims[d];
    }
    for (int64_t i = 0; i < head->count; i++) {
        HAUL__ASSERT(0 <= from && from < head->count);
        memcpy(out + (size_t)i * width, in + (size_t)from * width, width);
        for (int d = ndim - 1; d >= 0; d--) {
            from += strides[d];
            if (++index[d] < head->shape.dims[d])
                break;
            from -= strides[d] * index[d];
            index[d] = 0;
        }
    }
}

void haul__npy_decode(const haul__npy *head, uint8_t *in, uint8_t *out)
{
    size_t width = haul__dtype_size(head->dtype);
    HAUL__ASSERT(head->bytes == (size_t)head->count * width && (in != out || !head->fortran));
    if (head->big_endian)
        swap_bytes(in, head->count, width);
    if (head->fortran)
        reorder(head, in, out, width);
    else if (out != in)
        memcpy(out, in, head->bytes);
    if (head->dtype == HAUL_BOOL)
        haul__normalise_bools(out, head->bytes);
}

static haul_status read_elements(const haul__file *file, const haul__npy *head, uint8_t *out)
{
    haul_status status;
    uint8_t    *in = out;
    if (head->fortran && !(in = haul__malloc(head->bytes)))
        return haul__fail_memory(LOAD, head->bytes);
    if ((status = haul__file_read(file, head->offset, in, head->bytes)) == HAUL_OK)
        haul__npy_decode(head, in, out);
    if (in != out)
        haul__free(in);
    return status;
}

haul_tensor *haul_load_npy(const char *path)
{
    haul__file    file;
    haul__npy     head;
    uint8_t       start[HAUL__NPY_HEAD_LIMIT];
    haul__loading loading;
    haul_tensor  *result = NULL;
    if (haul__file_open(&file, path, LOAD))
        return haul__failed_tensor();
    size_t size = file.size < sizeof start ? (size_t)file.size : sizeof start;
    if (haul__file_read(&file, 0, start, size) || haul__npy_parse(start, size, file.size, path, &head))
        goto out;
    HAUL__ASSERT(head.offset <= file.size && head.bytes <= file.size - head.offset);
    if (haul__loading_begin(&loading, head.dtype, &head.shape, LOAD) == HAUL_OK)
        result = haul__loading_end(&loading, read_elements(&file, &head, loading.memory));
out:
    haul__file_close(&file);
    return haul__result_within(result, LOAD);
}

/* ---- writing ---- */

/* The header, padded so that the elements begin at a multiple of 64. */
size_t haul__npy_head(const haul_tensor *t, char *out, size_t size)
{
    const char *code = NULL;
    for (size_t i = 0; i < CODES; i++)
        if (codes[i].dtype == t->dtype)
            code = codes[i].code;
    if (!code)
        return 0;
    int n = 10;
    n += snprintf(out + n, size - (size_t)n, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                  haul__dtype_size(t->dtype) == 1 ? '|' : '<', code);
    for (int d = 0; d < t->shape.ndim; d++)
        n += snprintf(out + n, size - (size_t)n, d ? ", %lld" : "%lld", (long long)t->shape.dims[d]);
    n += snprintf(out + n, size - (size_t)n, t->shape.ndim == 1 ? ",), }" : "), }");
    while ((n + 1) % 64)
        out[n++] = ' ';
    out[n++] = '\n';
    HAUL__ASSERT(n % 64 == 0 && (size_t)n <= size);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((n - 10) & 255);
    out[9] = (char)((n - 10) >> 8);
    return (size_t)n;
}

haul_status haul_save_npy(const char *path, haul_tensor *t)
{
    if (haul__check_tensor(SAVE, "t", t))
        return haul_error_status();
    char   head[HAUL__NPY_OWN_HEAD];
    size_t size = haul__npy_head(t, head, sizeof head);
    if (!size)
        return haul__fail(HAUL_DTYPE, SAVE, "t",
                          "the npy format has no dtype %s; write haul_cast(t, HAUL_F32), or a safetensors file",
                          haul_dtype_name(t->dtype));
    haul__host_view view;
    haul_status     status = haul__host_view_begin(&view, t, NULL, SAVE);
    if (status)
        return status;
    HAUL__ASSERT(view.bytes == haul_tensor_bytes(t) && size <= sizeof head);
    haul__writer *writer = haul__writer_open(path, SAVE);
    if (!writer)
        status = haul_error_status();
    else if ((status = haul__writer_put(writer, head, size)) != HAUL_OK ||
             (status = haul__writer_put(writer, view.data, view.bytes)) != HAUL_OK)
        haul__writer_abandon(writer);
    else
        status = haul__writer_commit(writer);
    haul__host_view_end(&view);
    return status;
}
