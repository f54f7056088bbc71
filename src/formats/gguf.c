/* GGUF files, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), in little-endian order: the
 * counts of tensors and of named values, the values, a row for each tensor, and the data, aligned. A tensor's first
 * size is that of the axis whose elements are side by side. Quantised tensors are listed, but cannot be loaded. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "base/text/quoted.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "core/shape.h"
#include "formats/tensor_file.h"

#define OPEN HAUL__OPEN_TENSORS

enum { NAME_LIMIT = 65535, TEXT_LIMIT = 65535, MAX_DEPTH = 8, BUFFER = 1 << 16, COUNT_LIMIT = 1 << 20 };

/* ---- types ---- */

/* ggml's types of tensors: blocks of so many elements have so many bytes. */
typedef struct tensor_type {
    uint32_t    id;
    haul_dtype  dtype;
    uint16_t    elements, bytes;
    const char *name;
} tensor_type;

static const tensor_type tensor_types[] = {
    {0, HAUL_F32, 1, 4, "F32"},
    {1, HAUL_F16, 1, 2, "F16"},
    {2, HAUL_DTYPE_NONE, 32, 18, "Q4_0"},
    {3, HAUL_DTYPE_NONE, 32, 20, "Q4_1"},
    {6, HAUL_DTYPE_NONE, 32, 22, "Q5_0"},
    {7, HAUL_DTYPE_NONE, 32, 24, "Q5_1"},
    {8, HAUL_DTYPE_NONE, 32, 34, "Q8_0"},
    {9, HAUL_DTYPE_NONE, 32, 36, "Q8_1"},
    {10, HAUL_DTYPE_NONE, 256, 84, "Q2_K"},
    {11, HAUL_DTYPE_NONE, 256, 110, "Q3_K"},
    {12, HAUL_DTYPE_NONE, 256, 144, "Q4_K"},
    {13, HAUL_DTYPE_NONE, 256, 176, "Q5_K"},
    {14, HAUL_DTYPE_NONE, 256, 210, "Q6_K"},
    {15, HAUL_DTYPE_NONE, 256, 292, "Q8_K"},
    {16, HAUL_DTYPE_NONE, 256, 66, "IQ2_XXS"},
    {17, HAUL_DTYPE_NONE, 256, 74, "IQ2_XS"},
    {18, HAUL_DTYPE_NONE, 256, 98, "IQ3_XXS"},
    {19, HAUL_DTYPE_NONE, 256, 50, "IQ1_S"},
    {20, HAUL_DTYPE_NONE, 32, 18, "IQ4_NL"},
    {21, HAUL_DTYPE_NONE, 256, 110, "IQ3_S"},
    {22, HAUL_DTYPE_NONE, 256, 82, "IQ2_S"},
    {23, HAUL_DTYPE_NONE, 256, 136, "IQ4_XS"},
    {24, HAUL_I8, 1, 1, "I8"},
    {25, HAUL_I16, 1, 2, "I16"},
    {26, HAUL_I32, 1, 4, "I32"},
    {27, HAUL_I64, 1, 8, "I64"},
    {28, HAUL_F64, 1, 8, "F64"},
    {29, HAUL_DTYPE_NONE, 256, 56, "IQ1_M"},
    {30, HAUL_BF16, 1, 2, "BF16"},
    {34, HAUL_DTYPE_NONE, 256, 54, "TQ1_0"},
    {35, HAUL_DTYPE_NONE, 256, 66, "TQ2_0"},
    {39, HAUL_DTYPE_NONE, 32, 17, "MXFP4"},
};

static const tensor_type *find_type(uint32_t id)
{
    for (size_t i = 0; i < sizeof tensor_types / sizeof *tensor_types; i++)
        if (tensor_types[i].id == id)
            return &tensor_types[i];
    return NULL;
}

/* The types of named values, by their numbers. */
enum { TYPE_BOOL = 7, TYPE_STRING = 8, TYPE_ARRAY = 9, VALUE_TYPES = 13 };
static const struct {
    const char *name;
    uint8_t     size;
    char        kind; /* 'u', 'i', 'f', 'b'; 0: of no fixed size */
} value_types[VALUE_TYPES] = {
    {"u8", 1, 'u'},  {"i8", 1, 'i'},  {"u16", 2, 'u'},  {"i16", 2, 'i'},  {"u32", 4, 'u'},
    {"i32", 4, 'i'}, {"f32", 4, 'f'}, {"bool", 1, 'b'}, {"string", 0, 0}, {"array", 0, 0},
    {"u64", 8, 'u'}, {"i64", 8, 'i'}, {"f64", 8, 'f'},
};

/* ---- bytes ---- */

/* Reads the file from its beginning on, a piece at a time. */
typedef struct cursor {
    const haul__file *file;
    uint64_t          at;         /* the next byte */
    uint64_t          begin, end; /* of the piece in `buffer` */
    uint8_t          *buffer;
    uint64_t          alignment;
} cursor;

static haul_status malformed(const cursor *c, const char *what)
{
    return haul__fail(HAUL_FORMAT, OPEN, "path", "%s is not a valid GGUF file: %s", c->file->path, what);
}

static haul_status skip(cursor *c, uint64_t bytes)
{
    if (bytes > c->file->size - c->at)
        return malformed(c, "it ends within its header");
    c->at += bytes;
    return HAUL_OK;
}

static haul_status take(cursor *c, void *out, size_t bytes)
{
    uint8_t *to = out;
    if (bytes > c->file->size - c->at)
        return malformed(c, "it ends within its header");
    while (bytes) {
        if (c->at < c->begin || c->at >= c->end) {
            const uint64_t left = c->file->size - c->at;
            const size_t   piece = left < BUFFER ? (size_t)left : BUFFER;
            if (haul__file_read(c->file, c->at, c->buffer, piece))
                return haul_error_status();
            c->begin = c->at;
            c->end = c->at + piece;
        }
        HAUL__ASSERT(c->begin <= c->at && c->at < c->end && c->end <= c->file->size);
        const size_t here = (size_t)(c->end - c->at), n = bytes < here ? bytes : here;
        memcpy(to, c->buffer + (c->at - c->begin), n);
        to += n;
        c->at += n;
        bytes -= n;
    }
    return HAUL_OK;
}

/* A number of so many bytes, in little-endian order. */
static haul_status take_number(cursor *c, int size, uint64_t *out)
{
    uint8_t bytes[8];
    HAUL__ASSERT(0 < size && (size_t)size <= sizeof bytes);
    const haul_status status = take(c, bytes, (size_t)size);
    *out = 0;
    for (int i = size - 1; i >= 0 && status == HAUL_OK; i--)
        *out = *out << 8 | bytes[i];
    return status;
}

/* A text of at most `limit` bytes, in fresh memory; NULL on failure. */
static char *take_text(cursor *c, uint64_t limit, const char *what)
{
    uint64_t size;
    if (take_number(c, 8, &size))
        return NULL;
    if (size > limit || size > c->file->size - c->at) {
        malformed(c, what);
        return NULL;
    }
    HAUL__ASSERT(c->at <= c->file->size);
    char *text = haul__malloc((size_t)size + 1);
    if (!text) {
        haul__fail_memory(OPEN, (size_t)size + 1);
        return NULL;
    }
    text[size] = '\0';
    if (take(c, text, (size_t)size) == HAUL_OK) {
        if (!memchr(text, '\0', (size_t)size) && haul__is_utf8((const uint8_t *)text, (size_t)size))
            return text;
        malformed(c, "it has a text that is not UTF-8");
    }
    haul__free(text);
    return NULL;
}

/* ---- named values ---- */

/* With as few digits as give the same number again. */
static char *text_of_float(double d, bool narrow)
{
    char text[40];
    for (int digits = narrow ? 6 : 15; digits <= 17; digits++) {
        haul__snprintf(text, sizeof text, "%.*g", digits, d);
        const double back = haul__strtod(text, NULL);
        if (narrow ? (float)back == (float)d : back == d)
            break;
    }
    return haul__strdup(text);
}

static char *text_of_number(uint64_t bits, int type)
{
    const int unused = 64 - 8 * value_types[type].size;
    HAUL__ASSERT(0 <= unused && unused < 64); /* the value has a fixed size */
    const uint32_t half = (uint32_t)bits;
    float          f;
    double         d;
    memcpy(&f, &half, sizeof f);
    memcpy(&d, &bits, sizeof d);
    switch (value_types[type].kind) {
    case 'b': return haul__strdup(bits ? "true" : "false");
    case 'u': return haul__format("%" PRIu64, bits);
    case 'i': return haul__format("%" PRId64, (int64_t)(bits << unused) >> unused);
    default: return value_types[type].size == sizeof f ? text_of_float((double)f, true) : text_of_float(d, false);
    }
}

static haul_status skip_value(cursor *c, int type, int depth);

static haul_status skip_elements(cursor *c, int type, uint64_t count, int depth)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(0 <= type && type < VALUE_TYPES && depth <= MAX_DEPTH);
    if (value_types[type].size)
        return count > c->file->size ? malformed(c, "it ends within its header")
                                     : skip(c, count * value_types[type].size);
    for (uint64_t i = 0; i < count && status == HAUL_OK; i++) /* each takes bytes of the file */
        status = skip_value(c, type, depth);
    return status;
}

static haul_status take_array(cursor *c, uint64_t *type, uint64_t *count)
{
    if (take_number(c, 4, type) || take_number(c, 8, count))
        return haul_error_status();
    return *type < VALUE_TYPES ? HAUL_OK : malformed(c, "it has a value of an unknown type");
}

static haul_status skip_value(cursor *c, int type, int depth)
{
    uint64_t of, size;
    if (value_types[type].size)
        return skip(c, value_types[type].size);
    if (type == TYPE_STRING)
        return take_number(c, 8, &size) ? haul_error_status() : skip(c, size);
    if (depth == MAX_DEPTH)
        return malformed(c, "it has arrays within arrays, more than eight levels deep");
    return take_array(c, &of, &size) ? haul_error_status() : skip_elements(c, (int)of, size, depth + 1);
}

/* The value as a text: numbers and strings as they are, of an array what it has; NULL on failure. */
static char *take_value(cursor *c, int type)
{
    uint64_t of, count, bits;
    if (type == TYPE_STRING)
        return take_text(c, TEXT_LIMIT, "it has a value of more than 65,535 bytes, or it ends within one");
    if (type == TYPE_ARRAY)
        return take_array(c, &of, &count) || skip_elements(c, (int)of, count, 1)
                   ? NULL
                   : haul__format("array of %" PRIu64 " %s", count, value_types[of].name);
    return take_number(c, value_types[type].size, &bits) ? NULL : text_of_number(bits, type);
}

/* "general.alignment": the number of bytes of which tensors begin at multiples. */
static haul_status take_alignment(cursor *c, const haul_text_pair *pair, int type)
{
    uint64_t alignment = 0;
    if (strcmp(pair->key, "general.alignment") != 0)
        return HAUL_OK;
    for (const char *digit = pair->value; value_types[type].kind == 'u' && *digit && alignment <= 1u << 30; digit++)
        alignment = alignment * 10 + (uint64_t)(*digit - '0');
    c->alignment = alignment;
    return alignment && alignment <= 1u << 30 && !(alignment & (alignment - 1))
               ? HAUL_OK
               : malformed(c, "general.alignment is not a power of two");
}

static haul_status take_pair(cursor *c, haul_text_pair *pair)
{
    uint64_t type;
    if (!(pair->key = take_text(c, NAME_LIMIT, "it has a key of more than 65,535 bytes, or it ends within one")) ||
        take_number(c, 4, &type))
        return haul_error_status();
    if (type >= VALUE_TYPES)
        return malformed(c, "it has a value of an unknown type");
    pair->value = take_value(c, (int)type);
    if (!pair->value)
        return haul_error_status() ? haul_error_status() : haul__fail_memory(OPEN, 32);
    return take_alignment(c, pair, (int)type);
}

static haul_status take_pairs(cursor *c, uint64_t count, haul__safetensors_header *h)
{
    size_t      room = 0;
    haul_status status = HAUL_OK;
    if (count > COUNT_LIMIT)
        return malformed(c, "it claims more than a million named values");
    for (uint64_t i = 0; i < count && status == HAUL_OK; i++) { /* memory grows with the bytes that were read */
        if (!haul__grow(&h->metadata, &room, (size_t)i + 1, sizeof *h->metadata))
            return haul__fail_memory(OPEN, ((size_t)i + 1) * sizeof *h->metadata);
        HAUL__ASSERT((size_t)h->metadata_count < room);
        haul_text_pair *pair = &h->metadata[h->metadata_count++];
        *pair = (haul_text_pair){NULL, NULL};
        status = take_pair(c, pair);
    }
    return status == HAUL_OK && haul__safetensors_sort_metadata(h) ? malformed(c, "it has a key twice") : status;
}

/* ---- tensors ---- */

/* An error about one tensor of the file. */
static haul_status unsound(const cursor *c, const haul__safetensors_entry *e, const char *what)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, OPEN, "path", "%s is not a valid GGUF file: %s %s", c->file->path,
                      haul__quoted(e->name, quoted), what);
}

static haul_status refuse(haul__safetensors_entry *e, char *fault)
{
    e->dtype = HAUL_DTYPE_NONE;
    e->bits = 0;
    e->fault = fault;
    return fault ? HAUL_OK : haul__fail_memory(OPEN, 64);
}

static haul_status take_shape(cursor *c, haul__safetensors_entry *e)
{
    uint64_t ndim, dim;
    if (take_number(c, 4, &ndim))
        return haul_error_status();
    if (ndim > HAUL_MAX_DIMS)
        return skip(c, 8 * ndim) ? haul_error_status()
                                 : refuse(e, haul__format("it has %" PRIu64 " dimensions; tensors have at most %d",
                                                          ndim, HAUL_MAX_DIMS));
    e->shape.ndim = (int)ndim;
    for (int d = (int)ndim - 1; d >= 0; d--) {
        if (take_number(c, 8, &dim))
            return haul_error_status();
        if (dim > INT64_MAX)
            return unsound(c, e, "has a size of more than 2^63 - 1");
        e->shape.dims[d] = (int64_t)dim;
    }
    return HAUL_OK;
}

/* How many bytes it has in the file; -1 if that is not defined. */
static int64_t bytes_of(const haul__safetensors_entry *e, const tensor_type *type)
{
    int64_t count = 1;
    HAUL__ASSERT(type->elements > 0 && type->bytes > 0);
    const int last = e->shape.ndim - 1;
    for (int d = 0; d <= last; d++)
        if (!haul__mul_size(count, e->shape.dims[d], &count))
            return -1;
    if ((last < 0 ? 1 : e->shape.dims[last]) % type->elements ||
        !haul__mul_size(count / type->elements, type->bytes, &count))
        return -1;
    return count;
}

static haul_status take_type(cursor *c, haul__safetensors_entry *e)
{
    uint64_t id;
    if (take_number(c, 4, &id) || take_number(c, 8, &e->begin))
        return haul_error_status();
    const tensor_type *type = find_type((uint32_t)id);
    e->end = e->begin;
    if (!(e->dtype_name = type ? haul__strdup(type->name) : haul__format("type %" PRIu64, id)))
        return haul__fail_memory(OPEN, 16);
    HAUL__ASSERT(c->alignment > 0 && (c->alignment & (c->alignment - 1)) == 0);
    if (e->begin % c->alignment)
        return unsound(c, e, "begins at a place that is not aligned");
    if (e->fault)
        return HAUL_OK;
    if (!type)
        return refuse(e, haul__format("ggml's type %" PRIu64 " is unknown", id));
    const int64_t bytes = bytes_of(e, type);
    if (bytes < 0 || (uint64_t)bytes > UINT64_MAX - e->begin)
        return unsound(c, e, "has a size that does not fit its type");
    e->end += (uint64_t)bytes;
    e->dtype = type->dtype;
    e->bits = haul_dtype_bits(type->dtype);
    return type->dtype != HAUL_DTYPE_NONE
               ? HAUL_OK
               : refuse(e,
                        haul__format("it is quantised (%s); convert the file with --outtype f16 or f32", type->name));
}

static haul_status take_tensors(cursor *c, uint64_t count, haul__safetensors_header *h)
{
    size_t      room = 0;
    haul_status status = HAUL_OK;
    if (count > COUNT_LIMIT)
        return malformed(c, "it claims more than a million tensors");
    for (uint64_t i = 0; i < count && status == HAUL_OK; i++) {
        if (!haul__grow(&h->entries, &room, (size_t)i + 1, sizeof *h->entries))
            return haul__fail_memory(OPEN, ((size_t)i + 1) * sizeof *h->entries);
        HAUL__ASSERT((size_t)h->count < room);
        haul__safetensors_entry *e = &h->entries[h->count++];
        *e = (haul__safetensors_entry){0};
        if (!(e->name = take_text(c, NAME_LIMIT, "it has a name of more than 65,535 bytes, or it ends within one")) ||
            take_shape(c, e) || take_type(c, e))
            status = haul_error_status();
    }
    return status == HAUL_OK ? haul__safetensors_sort(h, c->file->path) : status;
}

/* The data follows the rows of tensors; all of them must be within it. */
static haul_status place_data(cursor *c, haul__tensor_part *part, const haul__safetensors_header *h)
{
    const uint64_t rest = c->at % c->alignment, data = c->at + (rest ? c->alignment - rest : 0);
    for (int i = 0; i < h->count; i++)
        if (data > c->file->size || h->entries[i].end > c->file->size - data)
            return unsound(c, &h->entries[i], "goes past the end of the file");
    part->data = data;
    HAUL__ASSERT(data >= c->at && data % c->alignment == 0);
    return HAUL_OK;
}

static haul_status read_header(cursor *c, haul_safetensors *f)
{
    haul__safetensors_header *h = &f->header;
    uint64_t                  magic, version, tensors, pairs;
    h->format = "gguf";
    if (take_number(c, 4, &magic) || take_number(c, 4, &version))
        return haul_error_status();
    if (version != 2 && version != 3)
        return haul__fail(HAUL_FORMAT, OPEN, "path",
                          "%s is a GGUF file %s; versions 2 and 3 in little-endian order can be read", c->file->path,
                          version & 0xffff ? "of another version" : "in big-endian order");
    if (take_number(c, 8, &tensors) || take_number(c, 8, &pairs) || take_pairs(c, pairs, h) ||
        take_tensors(c, tensors, h))
        return haul_error_status();
    return place_data(c, f->parts, h);
}

haul_status haul__gguf_open(haul_safetensors *f)
{
    cursor c = {.file = &f->parts->file, .buffer = haul__malloc(BUFFER), .alignment = 32};
    if (!c.buffer)
        return haul__fail_memory(OPEN, BUFFER);
    const haul_status status = read_header(&c, f);
    haul__free(c.buffer);
    return status;
}
