/* Reads TensorProto: dims 1, data_type 2, segment 3, float_data 4, int32_data 5, int64_data 7, name 8, raw_data 9,
 * double_data 10, uint64_data 11, external_data 13, data_location 14. */
#include <haul/dtype.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/quoted.h"
#include "core/error.h"
#include "core/object.h"
#include "core/shape.h"
#include "files/below.h"
#include "formats/onnx/reader.h"
#include "formats/onnx/writer.h"

/* The enumeration TensorProto.DataType: names, and in which field elements are if they are not in raw_data. */
static const struct {
    const char *name;
    haul_dtype  dtype;
    uint32_t    field;
} types[] = {{"undefined", HAUL_DTYPE_NONE, 0},
             {"float", HAUL_F32, 4},
             {"uint8", HAUL_U8, 5},
             {"int8", HAUL_I8, 5},
             {"uint16", HAUL_U16, 5},
             {"int16", HAUL_I16, 5},
             {"int32", HAUL_I32, 5},
             {"int64", HAUL_I64, 7},
             {"string", HAUL_DTYPE_NONE, 0},
             {"bool", HAUL_BOOL, 5},
             {"float16", HAUL_F16, 5},
             {"double", HAUL_F64, 10},
             {"uint32", HAUL_U32, 11},
             {"uint64", HAUL_U64, 11},
             {"complex64", HAUL_DTYPE_NONE, 0},
             {"complex128", HAUL_DTYPE_NONE, 0},
             {"bfloat16", HAUL_BF16, 5},
             {"float8e4m3fn", HAUL_DTYPE_NONE, 0},
             {"float8e4m3fnuz", HAUL_DTYPE_NONE, 0},
             {"float8e5m2", HAUL_DTYPE_NONE, 0},
             {"float8e5m2fnuz", HAUL_DTYPE_NONE, 0},
             {"uint4", HAUL_DTYPE_NONE, 0},
             {"int4", HAUL_DTYPE_NONE, 0},
             {"float4e2m1", HAUL_DTYPE_NONE, 0}};
enum { TYPES = sizeof types / sizeof *types };

haul_dtype haul__onnx_dtype(int64_t number)
{
    return number >= 0 && number < TYPES ? types[number].dtype : HAUL_DTYPE_NONE;
}

int haul__onnx_dtype_number(haul_dtype dtype)
{
    int number = 0;
    while (number < TYPES && types[number].dtype != dtype)
        number++;
    return number < TYPES ? number : 0;
}

const char *haul__onnx_dtype_name(int64_t number)
{
    return number >= 0 && number < TYPES ? types[number].name : "an unknown type";
}

/* ---- reading ---- */

static haul_status add_dim(const haul__onnx_reader *r, const uint8_t *place, haul__onnx_tensor *t, uint64_t size)
{
    if (size > INT64_MAX / 16)
        return haul__onnx_malformed(r, place, "a tensor has a size that is negative or too large");
    if (t->shape.ndim == HAUL_MAX_DIMS) {
        t->fault = "it has more than 8 dimensions";
        return HAUL_OK;
    }
    t->shape.dims[t->shape.ndim++] = (int64_t)size;
    return HAUL_OK;
}

static haul_status read_dims(const haul__onnx_reader *r, const haul__field *f, haul__onnx_tensor *t)
{
    haul__cursor c = haul__cursor_of(f->bytes);
    uint64_t     size;
    haul_status  status = HAUL_OK;
    if (f->wire != HAUL__LENGTH)
        return haul__onnx_wire(r, f, HAUL__VARINT) ? haul_error_status() : add_dim(r, f->place, t, f->value);
    while (!status && haul__next_varint(&c, &size))
        status = add_dim(r, f->place, t, size);
    return status ? status : haul__onnx_end(r, &c);
}

static haul_status read_number(const haul__onnx_reader *r, const uint8_t *place, const char *text, uint64_t *out)
{
    *out = 0;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || p - text >= 18)
            return haul__onnx_malformed(r, place, "the place of external data is not a number");
        *out = *out * 10 + (uint64_t)(*p - '0');
    }
    return HAUL_OK;
}

/* StringStringEntryProto: key 1, value 2. */
static haul_status read_external(haul__onnx_reader *r, const haul__field *field, haul__onnx_tensor *t)
{
    haul__cursor c = haul__cursor_of(field->bytes);
    haul__field  f;
    const char  *key = "", *value = "";
    haul_status  status = haul__onnx_wire(r, field, HAUL__LENGTH);
    while (!status && haul__next_field(&c, &f))
        status = f.number == 1   ? haul__onnx_text(r, &f, &key)
                 : f.number == 2 ? haul__onnx_text(r, &f, &value)
                                 : HAUL_OK;
    if (!status)
        status = haul__onnx_end(r, &c);
    if (!status && !strcmp(key, "location"))
        t->location = value;
    if (!status && !strcmp(key, "offset"))
        status = read_number(r, field->place, value, &t->offset);
    if (!status && !strcmp(key, "length"))
        status = read_number(r, field->place, value, &t->size);
    return status;
}

/* The number of elements in a field that is not raw_data. */
static haul_status count_elements(const haul__onnx_reader *r, const haul__onnx_tensor *t, uint32_t number,
                                  int64_t *count)
{
    const haul__wire single = number == 4 ? HAUL__FIXED32 : number == 10 ? HAUL__FIXED64 : HAUL__VARINT;
    const size_t     width = number == 4 ? 4 : 8;
    haul__cursor     c = haul__cursor_of(t->message), packed;
    haul__field      f;
    uint64_t         value;
    *count = 0;
    while (haul__next_field(&c, &f)) {
        if (f.number != number)
            continue;
        if (f.wire != HAUL__LENGTH) {
            if (haul__onnx_wire(r, &f, single))
                return haul_error_status();
            ++*count;
        } else if (single != HAUL__VARINT) {
            if (f.bytes.size % width)
                return haul__onnx_malformed(r, f.place, "a list of numbers is cut off");
            *count += (int64_t)(f.bytes.size / width);
        } else {
            packed = haul__cursor_of(f.bytes);
            while (haul__next_varint(&packed, &value))
                ++*count;
            if (haul__onnx_end(r, &packed))
                return haul_error_status();
        }
    }
    return HAUL_OK;
}

typedef struct parts {
    uint64_t type;
    size_t   raw;      /* bytes of raw_data */
    bool     has_raw;  /* there is raw_data */
    bool     external; /* the elements are in another file */
    bool     has_typed;
} parts;

/* Finds where the elements are, and compares their number with the shape. */
static haul_status settle(const haul__onnx_reader *r, const haul__field *field, haul__onnx_tensor *t, const parts *p)
{
    int64_t bytes = 0, stored = 0;
    t->dtype = p->type < TYPES ? types[p->type].dtype : HAUL_DTYPE_NONE;
    if (t->fault)
        return HAUL_OK;
    t->count = 1;
    for (int d = 0; d < t->shape.ndim; d++)
        if (!haul__mul_size(t->count, t->shape.dims[d], &t->count))
            return haul__onnx_malformed(r, field->place, "a tensor has more elements than can be counted");
    if (t->dtype == HAUL_DTYPE_NONE) {
        t->fault = "Haul does not have its dtype";
        return HAUL_OK;
    }
    if (!haul__mul_size(t->count, haul_dtype_bits(t->dtype) / 8, &bytes))
        return haul__onnx_malformed(r, field->place, "a tensor has more bytes than can be counted");
    if (p->external) {
        if (p->raw > 0)
            return haul__onnx_malformed(r, field->place, "a tensor has its elements twice");
        if (!t->location || !*t->location)
            return haul__onnx_malformed(r, field->place, "a tensor is in another file, which is not named");
        return t->size && t->size != (uint64_t)bytes
                   ? haul__onnx_malformed(r, field->place, "the length of external data is not that of the tensor")
                   : HAUL_OK;
    }
    if (p->has_raw && p->has_typed)
        return haul__onnx_malformed(r, field->place, "a tensor has its elements twice");
    HAUL__ASSERT(t->count >= 0 && bytes >= t->count);
    t->field = p->has_raw ? HAUL__ONNX_RAW : types[p->type].field;
    if (p->has_raw)
        return p->raw == (size_t)bytes
                   ? HAUL_OK
                   : haul__onnx_malformed(r, field->place, "a tensor has other elements than its shape says");
    if (count_elements(r, t, t->field, &stored))
        return haul_error_status();
    return stored == t->count
               ? HAUL_OK
               : haul__onnx_malformed(r, field->place, "a tensor has other elements than its shape says");
}

haul_status haul__onnx_read_tensor(haul__onnx_reader *r, const haul__field *field, haul__onnx_tensor *out)
{
    haul__cursor c = haul__cursor_of(field->bytes);
    haul__field  f;
    parts        p = {0};
    uint64_t     place = 0;
    haul_status  status = haul__onnx_wire(r, field, HAUL__LENGTH);
    *out = (haul__onnx_tensor){.name = "", .message = field->bytes};
    while (!status && haul__next_field(&c, &f)) {
        switch (f.number) {
        case 1: status = read_dims(r, &f, out); break;
        case 2:
            status = haul__onnx_wire(r, &f, HAUL__VARINT);
            p.type = f.value;
            break;
        case 3: status = haul__onnx_malformed(r, f.place, "a tensor is in segments, which ONNX no longer has"); break;
        case 4:
        case 5:
        case 7:
        case 10:
        case 11: p.has_typed = true; break;
        case 8: status = haul__onnx_text(r, &f, &out->name); break;
        case 9:
            status = p.has_raw ? haul__onnx_malformed(r, f.place, "a tensor has its elements twice")
                               : haul__onnx_wire(r, &f, HAUL__LENGTH);
            p.has_raw = true;
            p.raw = f.bytes.size;
            if (r->skimmed && p.raw >= HAUL__ONNX_LEFT_OUT) {
                out->file = r->skimmed;
                place = (uint64_t)(f.bytes.at - r->file.at);
            }
            break;
        case 13: status = read_external(r, &f, out); break;
        case 14:
            status = haul__onnx_wire(r, &f, HAUL__VARINT);
            p.external = f.value != 0;
            break;
        default: break;
        }
    }
    if (!status)
        status = haul__onnx_end(r, &c);
    if (!status)
        status = settle(r, field, out, &p);
    if (out->file)
        out->offset = place;
    return status;
}

/* ---- elements ---- */

/* Element i of a dtype with this width, from the lowest bytes of a number. */
static void put(uint8_t *out, int64_t i, size_t width, uint64_t bits)
{
    const uint64_t all = bits;
    const uint32_t half = (uint32_t)bits;
    const uint16_t quarter = (uint16_t)bits;
    const uint8_t  byte = (uint8_t)bits;
    memcpy(out + (size_t)i * width,
           width == 8   ? (const void *)&all
           : width == 4 ? (const void *)&half
           : width == 2 ? (const void *)&quarter
                        : (const void *)&byte,
           width);
}

static uint64_t little(const uint8_t *at, size_t width)
{
    uint64_t value = 0;
    for (size_t k = width; k-- > 0;)
        value = value << 8 | at[k];
    return value;
}

/* Elements as the file has them, little-endian and next to each other. */
static void unpack(uint8_t *out, int64_t first, size_t width, haul__bytes bytes)
{
    HAUL__ASSERT(width > 0 && bytes.size % width == 0);
    uint8_t *at = out + (size_t)first * width;
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
        if (bytes.size && at != bytes.at)
            memcpy(at, bytes.at, bytes.size);
        return;
    }
    for (size_t k = 0; k < bytes.size / width; k++)
        put(out, first + (int64_t)k, width, little(bytes.at + k * width, width));
}

static void copy_fields(const haul__onnx_tensor *t, uint8_t *out, size_t width)
{
    haul__cursor c = haul__cursor_of(t->message), packed;
    haul__field  f;
    uint64_t     value;
    int64_t      i = 0;
    while (haul__next_field(&c, &f)) {
        if (f.number != t->field)
            continue;
        if (f.wire != HAUL__LENGTH) {
            put(out, i++, width, f.value);
        } else if (t->field == HAUL__ONNX_RAW || t->field == 4 || t->field == 10) {
            unpack(out, i, width, f.bytes);
            i += (int64_t)(f.bytes.size / width);
        } else {
            packed = haul__cursor_of(f.bytes);
            while (haul__next_varint(&packed, &value))
                put(out, i++, width, value);
        }
    }
    HAUL__ASSERT(i == t->count); /* as it was counted */
}

static haul_status copy_file(const haul__file *file, uint64_t offset, size_t width, uint8_t *out, size_t bytes)
{
    const haul_status status = haul__file_read(file, offset, out, bytes);
    if (!status)
        unpack(out, 0, width, (haul__bytes){out, bytes});
    return status;
}

/* True if a file of that size has the elements. */
static bool has_elements(const haul__onnx_tensor *t, uint64_t size, size_t bytes)
{
    return t->offset <= size && bytes <= size - t->offset;
}

static haul_status open_external(const haul__onnx_tensor *t, const char *model_path, const char *operation,
                                 size_t bytes, haul__file *file)
{
    char              quoted[HAUL__QUOTED_SIZE];
    const haul_status status = haul__file_open_below(file, model_path, t->location, operation);
    if (status || has_elements(t, file->size, bytes))
        return status;
    haul__file_close(file);
    return haul__fail(HAUL_FORMAT, operation, "path",
                      "the tensor %s is in %s, which is shorter than that; fetch the file again",
                      haul__quoted(t->name, quoted), t->location);
}

haul_status haul__onnx_check_external(const haul__onnx_tensor *t, const char *model_path, const char *operation,
                                      size_t bytes)
{
    haul__file file;
    if (t->fault || t->field || !bytes)
        return HAUL_OK;
    if (open_external(t, model_path, operation, bytes, &file))
        return haul_error_status();
    haul__file_close(&file);
    return HAUL_OK;
}

void *haul__onnx_map_external(const haul__onnx_tensor *t, const char *model_path, const char *operation, size_t bytes,
                              haul__onnx_mapped *mapped, haul_status *status)
{
    const size_t width = (size_t)haul_dtype_bits(t->dtype) / 8;
    haul__file   file;
    *status = HAUL_OK;
    if (t->fault || t->field || !bytes || t->dtype == HAUL_BOOL || t->offset % width ||
        __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        return NULL;
    if (mapped->mapping && strcmp(mapped->location, t->location) == 0 && has_elements(t, mapped->size, bytes))
        return haul__mapping_at(mapped->mapping, t->offset);
    *status = open_external(t, model_path, operation, bytes, &file);
    if (*status)
        return NULL;
    if (!mapped->mapping || mapped->size != file.size || strcmp(mapped->location, t->location) != 0) {
        if (mapped->mapping)
            haul__object_release(mapped->mapping);
        *mapped = (haul__onnx_mapped){t->location, file.size, haul__file_map(&file)};
    }
    haul__file_close(&file);
    if (!mapped->mapping)
        *status = haul_error_status();
    return *status ? NULL : haul__mapping_at(mapped->mapping, t->offset);
}

static haul_status copy_external(const haul__onnx_tensor *t, const char *model_path, const char *operation,
                                 uint8_t *out, size_t bytes)
{
    haul__file  file;
    haul_status status = open_external(t, model_path, operation, bytes, &file);
    if (status)
        return status;
    status = copy_file(&file, t->offset, (size_t)haul_dtype_bits(t->dtype) / 8, out, bytes);
    haul__file_close(&file);
    return status;
}

haul_status haul__onnx_elements(const haul__onnx_tensor *t, const char *model_path, const char *operation, void *out,
                                size_t bytes)
{
    const size_t width = (size_t)haul_dtype_bits(t->dtype) / 8;
    haul_status  status = HAUL_OK;
    if (t->fault || bytes != (size_t)t->count * width)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "bytes", "the tensor has another size");
    if (!bytes)
        return HAUL_OK;
    HAUL__ASSERT(t->field || t->location); /* the elements are somewhere */
    if (t->file && t->field)
        status = copy_file(t->file, t->offset, width, out, bytes);
    else if (t->field)
        copy_fields(t, out, width);
    else
        status = copy_external(t, model_path, operation, out, bytes);
    if (t->dtype == HAUL_BOOL)
        for (size_t i = 0; i < bytes; i++)
            ((uint8_t *)out)[i] = ((uint8_t *)out)[i] != 0;
    return status;
}
