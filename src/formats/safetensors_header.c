/* The header of a safetensors file (https://github.com/huggingface/safetensors): eight bytes with the length of a JSON
 * object, that object, and the data. The object gives every tensor a dtype, a shape and the range of its bytes, and may
 * have texts under __metadata__. The ranges must cover the data exactly, without holes and overlaps. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/quoted.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "files/json.h"
#include "formats/safetensors.h"

#define OPEN "haul_open_safetensors"

/* A valid header has about four values in 50 bytes; each takes about 100 bytes of memory. */
#define MAX_VALUES 8000000
#define MAX_DEPTH  3 /* the levels: the object, a tensor, its shape */

/* The format's names for dtypes and their sizes; HAUL_DTYPE_NONE for those that tensors cannot have. */
static const struct {
    const char *name;
    haul_dtype  dtype;
    int         bits;
} dtypes[] = {
    {"BOOL", HAUL_BOOL, 8},
    {"U8", HAUL_U8, 8},
    {"I8", HAUL_I8, 8},
    {"I16", HAUL_I16, 16},
    {"I32", HAUL_I32, 32},
    {"I64", HAUL_I64, 64},
    {"F16", HAUL_F16, 16},
    {"BF16", HAUL_BF16, 16},
    {"F32", HAUL_F32, 32},
    {"F64", HAUL_F64, 64},
    {"U16", HAUL_U16, 16},
    {"U32", HAUL_U32, 32},
    {"U64", HAUL_U64, 64},
    {"C64", HAUL_DTYPE_NONE, 64},
    {"F8_E4M3", HAUL_DTYPE_NONE, 8},
    {"F8_E5M2", HAUL_DTYPE_NONE, 8},
    {"F8_E4M3FNUZ", HAUL_DTYPE_NONE, 8},
    {"F8_E5M2FNUZ", HAUL_DTYPE_NONE, 8},
    {"F8_E8M0", HAUL_DTYPE_NONE, 8},
    {"F6_E2M3", HAUL_DTYPE_NONE, 6},
    {"F6_E3M2", HAUL_DTYPE_NONE, 6},
    {"F4", HAUL_DTYPE_NONE, 4},
};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

const char *haul__safetensors_dtype_name(haul_dtype dtype)
{
    for (size_t i = 0; i < DTYPES && dtype != HAUL_DTYPE_NONE; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

/* The row of a dtype; DTYPES if the name is unknown. */
static size_t find_dtype(const char *name)
{
    size_t i = 0;
    while (i < DTYPES && strcmp(dtypes[i].name, name) != 0)
        i++;
    return i;
}

/* ---- the text, before it is parsed ---- */

static haul_status malformed(const char *path, const char *what)
{
    return haul__fail(HAUL_FORMAT, OPEN, "path", "%s is not a valid safetensors file: %s", path, what);
}

/* An error about one tensor of the file. */
static haul_status unsound(const char *path, const char *name, const char *what)
{
    char quoted[HAUL__QUOTED_SIZE];
    return haul__fail(HAUL_FORMAT, OPEN, "path", "%s is not a valid safetensors file: %s %s", path,
                      haul__quoted(name, quoted), what);
}

haul_status haul__safetensors_length(const uint8_t first[8], uint64_t file_size, const char *path, size_t *out)
{
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | first[i];
    if (length > HAUL__SAFETENSORS_HEADER_LIMIT)
        return malformed(path, "it claims a header of more than 100 MB");
    if (length > file_size - 8)
        return malformed(path, "its header goes past the end of the file");
    *out = (size_t)length;
    return HAUL_OK;
}

/* The number at `text` must consist of digits, without a leading 0; *length becomes its length. Readers interpret 2.0,
 * 2e0 and 02 differently, or refuse them. */
static haul_status check_number(const uint8_t *text, size_t size, const char *path, size_t *length)
{
    size_t digits = 0, end = 0;
    while (digits < size && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    for (end = digits; end < size && !strchr(",]} \t\r\n", text[end]);)
        end++;
    *length = end;
    HAUL__ASSERT(digits <= end && end <= size);
    if (digits && digits == end && (digits == 1 || text[0] != '0'))
        return HAUL_OK;
    int shown = 0;
    while (shown < (end < 40 ? (int)end : 40) && text[shown] < 0x80)
        shown++;
    return haul__fail(
        HAUL_FORMAT, OPEN, "path",
        "%s is not a valid safetensors file: its header has the number %.*s; numbers must be written with "
        "digits only and without a leading 0",
        path, shown, (const char *)text);
}

/* Checks that have a message of their own, and limits on depth and on the number of values. */
static haul_status check_text(const uint8_t *json, size_t size, const char *path)
{
    int    depth = 0;
    size_t values = 0;
    bool   quoted = false;
    if (!size || json[0] != '{')
        return malformed(path, "its header does not begin with {");
    if (!haul__is_utf8(json, size))
        return malformed(path, "its header is not UTF-8");
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = json[i];
        if (byte < ' ' && (quoted || (byte != '\n' && byte != '\r' && byte != '\t')))
            return malformed(path, "its header has a control character");
        if (quoted && byte == '\\') {
            if (size - i > 5 && memcmp(json + i, "\\u0000", 6) == 0)
                return malformed(path, "its header has a string with a NUL character");
            i++;
        } else if (byte == '"') {
            quoted = !quoted;
        } else if (!quoted && strchr("+-.0123456789", byte)) {
            size_t      length;
            haul_status status = check_number(json + i, size - i, path, &length);
            if (status)
                return status;
            HAUL__ASSERT(length > 0);
            i += length - 1;
        } else if (!quoted) {
            depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
            values += byte == ',' || byte == '{' || byte == '[';
            if (depth > MAX_DEPTH)
                return malformed(path, "its header is nested too deeply");
            if (values > MAX_VALUES)
                return malformed(path, "its header has too many values");
        }
    }
    return HAUL_OK;
}

/* ---- one tensor ---- */

/* Other readers keep numbers as doubles, which are exact below 2^53. */
static bool as_size(const haul__json *item, uint64_t *out)
{
    *out = item->number;
    return item->kind == HAUL__JSON_NUMBER && item->number < UINT64_C(9007199254740992);
}

/* Letters, digits and underscores: safe to show unchanged. */
static bool is_dtype_name(const char *name)
{
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    return length > 0 && length < 32 && !name[length];
}

/* An unknown dtype does not make the file invalid: that tensor cannot be read, but everything else can. */
static haul_status read_dtype(const haul__json *item, const char *path, haul__safetensors_entry *out)
{
    if (item->kind != HAUL__JSON_STRING)
        return unsound(path, out->name, "has a dtype that is not a string");
    if (!is_dtype_name(item->string))
        return unsound(path, out->name, "has a dtype that is not a name of up to 31 letters, digits and underscores");
    size_t row = find_dtype(item->string);
    out->dtype = row < DTYPES ? dtypes[row].dtype : HAUL_DTYPE_NONE;
    out->bits = row < DTYPES ? dtypes[row].bits : 0;
    out->dtype_name = haul__strdup(item->string);
    HAUL__ASSERT(out->dtype == HAUL_DTYPE_NONE || out->bits == haul_dtype_bits(out->dtype));
    return out->dtype_name ? HAUL_OK : haul__fail_memory(OPEN, strlen(item->string));
}

/* A tensor with more dimensions than Haul has is sound. Its shape becomes the number of its elements. */
static haul_status keep_rank(size_t ndim, int64_t count, haul__safetensors_entry *out)
{
    HAUL__ASSERT(ndim > HAUL_MAX_DIMS && count >= 0);
    haul__free(out->fault);
    out->shape = (haul_shape){.ndim = 1, .dims = {count}};
    out->fault = haul__format("it has %llu dimensions; Haul has at most 8", (unsigned long long)ndim);
    return out->fault ? HAUL_OK : haul__fail_memory(OPEN, 64);
}

static haul_status read_shape(const haul__json *item, const char *path, haul__safetensors_entry *out)
{
    uint64_t dim;
    if (item->kind != HAUL__JSON_ARRAY)
        return unsound(path, out->name, "has a shape that is not an array");
    out->shape.ndim = 0;
    int64_t count = 1;
    for (const haul__json *i = item->child; i; i = i->next) {
        if (!as_size(i, &dim))
            return unsound(path, out->name, "has a dimension that is not a whole number from 0 to 2^53");
        if (!haul__mul_size(count, (int64_t)dim, &count))
            return unsound(path, out->name, "has a shape with more elements than can be counted");
        if (out->shape.ndim < HAUL_MAX_DIMS)
            out->shape.dims[out->shape.ndim++] = (int64_t)dim;
    }
    return item->count > HAUL_MAX_DIMS ? keep_rank(item->count, count, out) : HAUL_OK;
}

static haul_status read_offsets(const haul__json *item, const char *path, haul__safetensors_entry *out)
{
    if (item->kind != HAUL__JSON_ARRAY || item->count != 2 || !as_size(item->child, &out->begin) ||
        !as_size(item->child->next, &out->end))
        return unsound(path, out->name, "has data_offsets that are not two whole numbers from 0 to 2^53");
    return HAUL_OK;
}

static const struct {
    const char *name;
    haul_status (*read)(const haul__json *item, const char *path, haul__safetensors_entry *out);
} fields[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
#define FIELDS (sizeof fields / sizeof *fields)

static haul_status check_range(const char *path, uint64_t data_size, const haul__safetensors_entry *e)
{
    int64_t count = 1, bits;
    if (e->begin > e->end)
        return unsound(path, e->name, "ends before it begins");
    if (e->end > data_size)
        return unsound(path, e->name, "goes past the end of the file");
    for (int d = 0; d < e->shape.ndim; d++)
        if (!haul__mul_size(count, e->shape.dims[d], &count))
            return unsound(path, e->name, "has a shape with more elements than can be counted");
    if (!e->bits) /* of an unknown dtype */
        return HAUL_OK;
    if (!haul__mul_size(count, e->bits, &bits))
        return unsound(path, e->name, "has a shape with more elements than can be counted");
    if (bits % 8 || (uint64_t)bits / 8 != e->end - e->begin)
        return unsound(path, e->name, "has data_offsets that do not fit its shape and dtype");
    return HAUL_OK;
}

static haul_status read_entry(const haul__json *item, const char *path, uint64_t data_size,
                              haul__safetensors_entry *out)
{
    unsigned seen = 0;
    if (!(out->name = haul__strdup(item->name)))
        return haul__fail_memory(OPEN, strlen(item->name));
    if (item->kind != HAUL__JSON_OBJECT)
        return unsound(path, out->name, "is not an object");
    for (const haul__json *i = item->child; i; i = i->next) {
        size_t f = 0;
        while (f < FIELDS && strcmp(fields[f].name, i->name) != 0)
            f++;
        if (f == FIELDS)
            continue; /* of a later version of the format */
        if (seen & 1u << f)
            return unsound(path, out->name, "has a key twice");
        seen |= 1u << f;
        haul_status status = fields[f].read(i, path, out);
        if (status)
            return status;
    }
    if (seen != (1u << FIELDS) - 1)
        return unsound(path, out->name, "lacks one of dtype, shape and data_offsets");
    return check_range(path, data_size, out);
}

/* ---- all of them ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(haul__safetensors_entry *const *)a)->name, (*(haul__safetensors_entry *const *)b)->name);
}

static int compare_ranges(const void *a, const void *b)
{
    const haul__safetensors_entry *x = *(haul__safetensors_entry *const *)a, *y = *(haul__safetensors_entry *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const haul_text_pair *)a)->key, ((const haul_text_pair *)b)->key);
}

static haul_status check_names(const haul__safetensors_header *h, const char *path)
{
    for (int i = 1; i < h->count; i++)
        if (strcmp(h->by_name[i - 1]->name, h->by_name[i]->name) == 0)
            return unsound(path, h->by_name[i]->name, "occurs twice");
    return HAUL_OK;
}

haul_status haul__safetensors_sort(haul__safetensors_header *h, const char *path)
{
    if (!h->by_name && !(h->by_name = haul__calloc((size_t)h->count + 1, sizeof *h->by_name)))
        return haul__fail_memory(OPEN, (size_t)h->count * sizeof *h->by_name);
    for (int i = 0; i < h->count; i++)
        h->by_name[i] = &h->entries[i];
    qsort(h->by_name, (size_t)h->count, sizeof *h->by_name, compare_names);
    return check_names(h, path);
}

/* by_name is sorted by range here. */
static haul_status check_ranges(const haul__safetensors_header *h, uint64_t data_size, const char *path)
{
    uint64_t end = 0;
    for (int i = 0; i < h->count; i++) {
        const haul__safetensors_entry *e = h->by_name[i];
        if (e->begin != end)
            return unsound(path, e->name, e->begin < end ? "overlaps another tensor" : "follows bytes of no tensor");
        end = e->end;
    }
    HAUL__ASSERT(h->count == 0 || end <= data_size);
    return end == data_size ? HAUL_OK : malformed(path, "there are bytes after its last tensor");
}

/* Names first, because a duplicated tensor also overlaps itself. */
static haul_status check_entries(haul__safetensors_header *h, uint64_t data_size, const char *path)
{
    size_t      count = (size_t)h->count;
    haul_status status = haul__safetensors_sort(h, path);
    if (status)
        return status;
    qsort(h->by_name, count, sizeof *h->by_name, compare_ranges);
    status = check_ranges(h, data_size, path);
    qsort(h->by_name, count, sizeof *h->by_name, compare_names);
    return status;
}

bool haul__safetensors_sort_metadata(haul__safetensors_header *h)
{
    if (h->metadata_count)
        qsort(h->metadata, (size_t)h->metadata_count, sizeof *h->metadata, compare_keys);
    for (int i = 1; i < h->metadata_count; i++)
        if (strcmp(h->metadata[i - 1].key, h->metadata[i].key) == 0)
            return true;
    return false;
}

static haul_status read_metadata(const haul__json *object, const char *path, haul__safetensors_header *h)
{
    if (h->metadata)
        return malformed(path, "__metadata__ occurs twice");
    if (object->kind == HAUL__JSON_LITERAL && strcmp(object->string, "null") == 0)
        return HAUL_OK;
    if (object->kind != HAUL__JSON_OBJECT)
        return malformed(path, "__metadata__ is not an object");
    size_t count = object->count;
    if (!(h->metadata = haul__calloc(count + 1, sizeof *h->metadata)))
        return haul__fail_memory(OPEN, count * sizeof *h->metadata);
    for (const haul__json *i = object->child; i; i = i->next) {
        if (i->kind == HAUL__JSON_LITERAL && strcmp(i->string, "null") == 0)
            continue;
        if (i->kind != HAUL__JSON_STRING)
            return malformed(path, "__metadata__ has a value that is not a string");
        haul_text_pair *pair = &h->metadata[h->metadata_count++];
        HAUL__ASSERT((size_t)h->metadata_count <= count);
        pair->key = haul__strdup(i->name);
        pair->value = haul__strdup(i->string);
        if (!pair->key || !pair->value)
            return haul__fail_memory(OPEN, strlen(i->name) + strlen(i->string));
    }
    return haul__safetensors_sort_metadata(h) ? malformed(path, "__metadata__ has a key twice") : HAUL_OK;
}

static haul_status read_object(const haul__json *object, uint64_t data_size, const char *path,
                               haul__safetensors_header *h)
{
    haul_status status = HAUL_OK;
    size_t      capacity = object->count + 1; /* never 0 */
    h->entries = haul__calloc(capacity, sizeof *h->entries);
    h->by_name = haul__calloc(capacity, sizeof *h->by_name);
    if (!h->entries || !h->by_name)
        return haul__fail_memory(OPEN, capacity * sizeof *h->entries);
    HAUL__ASSERT(!h->count && !h->metadata_count);
    for (const haul__json *i = object->child; i && status == HAUL_OK; i = i->next)
        status = strcmp(i->name, HAUL__SAFETENSORS_METADATA) == 0
                     ? read_metadata(i, path, h)
                     : read_entry(i, path, data_size, &h->entries[h->count++]);
    HAUL__ASSERT((size_t)h->count < capacity);
    return status == HAUL_OK ? check_entries(h, data_size, path) : status;
}

haul_status haul__safetensors_parse(const uint8_t *json, size_t size, uint64_t data_size, const char *path,
                                    haul__safetensors_header *out)
{
    *out = (haul__safetensors_header){.format = "safetensors"};
    haul_status status = check_text(json, size, path);
    if (status)
        return status;
    haul__json *object = NULL;
    size_t      end = 0;
    status = haul__json_read(OPEN, json, size, MAX_DEPTH, &object, &end);
    if (status == HAUL_OK && !object)
        status = malformed(path, "its header is not JSON");
    HAUL__ASSERT(status || end <= size);
    for (; status == HAUL_OK && end < size; end++)
        if (!strchr(" \t\r\n", json[end]))
            status = malformed(path, "its header has text after the JSON object");
    if (status == HAUL_OK)
        status = read_object(object, data_size, path, out);
    haul__json_free(object);
    if (status)
        haul__safetensors_free(out);
    return status;
}

void haul__safetensors_free(haul__safetensors_header *h)
{
    for (int i = 0; i < h->count; i++) {
        haul__free(h->entries[i].name);
        haul__free(h->entries[i].dtype_name);
        haul__free(h->entries[i].fault);
        haul__free(h->entries[i].strides);
    }
    for (int i = 0; i < h->metadata_count; i++) {
        haul__free((char *)h->metadata[i].key);
        haul__free((char *)h->metadata[i].value);
    }
    haul__free(h->entries);
    haul__free(h->by_name);
    haul__free(h->metadata);
    *h = (haul__safetensors_header){0};
}

const haul__safetensors_entry *haul__safetensors_find(const haul__safetensors_header *h, const char *name)
{
    haul__safetensors_entry   key = {.name = (char *)name}, *wanted = &key;
    haul__safetensors_entry **found =
        h->count ? bsearch(&wanted, h->by_name, (size_t)h->count, sizeof *h->by_name, compare_names) : NULL;
    return found ? *found : NULL;
}

const char *haul__safetensors_find_text(const haul__safetensors_header *h, const char *key)
{
    haul_text_pair wanted = {.key = key}, *found = NULL;
    if (h->metadata_count)
        found = bsearch(&wanted, h->metadata, (size_t)h->metadata_count, sizeof *h->metadata, compare_keys);
    return found ? found->value : NULL;
}
