/* Reads AttributeProto: name 1, f 2, i 3, s 4, t 5, g 6, floats 7, ints 8, strings 9, type 20. */
#include <string.h>

#include "base/assert.h"
#include "base/text/utf8.h"
#include "formats/onnx/reader.h"

static float float_of(uint64_t bits)
{
    const uint32_t word = (uint32_t)bits;
    float          value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* A list of numbers may be packed, or a field for each element, or both. A number has at least one byte, and a text
 * two. */
static haul_status count_items(haul__onnx_reader *r, haul__bytes message, size_t *floats, size_t *ints, size_t *texts)
{
    haul__cursor c = haul__cursor_of(message), packed;
    haul__field  f;
    uint64_t     value;
    while (haul__next_field(&c, &f)) {
        if (f.number == 7 && f.wire == HAUL__LENGTH && f.bytes.size % 4)
            return haul__onnx_malformed(r, f.place, "a list of numbers is cut off");
        if (f.number == 7)
            *floats += f.wire == HAUL__LENGTH ? f.bytes.size / 4 : 1;
        *texts += f.number == 9;
        if (f.number != 8)
            continue;
        if (f.wire != HAUL__LENGTH) {
            *ints += 1;
            continue;
        }
        packed = haul__cursor_of(f.bytes);
        while (haul__next_varint(&packed, &value))
            *ints += 1;
        if (haul__onnx_end(r, &packed))
            return haul_error_status();
    }
    return haul__onnx_end(r, &c);
}

static haul_status read_floats(haul__onnx_reader *r, const haul__field *f, haul__onnx_attribute *a)
{
    if (f->wire == HAUL__LENGTH) {
        HAUL__ASSERT(f->bytes.size % 4 == 0); /* as it was counted */
        for (size_t i = 0; i < f->bytes.size; i += 4)
            a->floats[a->float_count++] = float_of(haul__little_32(f->bytes.at + i));
        return HAUL_OK;
    }
    a->floats[a->float_count++] = float_of(f->value);
    return haul__onnx_wire(r, f, HAUL__FIXED32);
}

static haul_status read_ints(haul__onnx_reader *r, const haul__field *f, haul__onnx_attribute *a)
{
    if (f->wire == HAUL__LENGTH) {
        haul__cursor packed = haul__cursor_of(f->bytes);
        uint64_t     value;
        while (haul__next_varint(&packed, &value))
            a->ints[a->int_count++] = (int64_t)value;
        return HAUL_OK;
    }
    a->ints[a->int_count++] = (int64_t)f->value;
    return haul__onnx_wire(r, f, HAUL__VARINT);
}

static haul_status read_text(haul__onnx_reader *r, const haul__field *f, const char **out)
{
    const haul__bytes text = f->bytes;
    if (f->wire == HAUL__LENGTH && ((text.size && memchr(text.at, 0, text.size)) || !haul__is_utf8(text.at, text.size)))
        return HAUL_OK; /* any bytes are allowed here; Haul has no use for them */
    return haul__onnx_text(r, f, out);
}

static haul_status read_tensor(haul__onnx_reader *r, const haul__field *f, haul__onnx_attribute *a)
{
    if (a->tensor)
        return haul__onnx_malformed(r, f->place, "an attribute has two tensors");
    a->tensor = haul__onnx_room(r, 1, sizeof *a->tensor);
    return a->tensor ? haul__onnx_read_tensor(r, f, a->tensor) : haul_error_status();
}

static haul_status read_graph(haul__onnx_reader *r, const haul__field *f, haul__onnx_attribute *a)
{
    if (a->graph)
        return haul__onnx_malformed(r, f->place, "an attribute has two graphs");
    a->graph = haul__onnx_room(r, 1, sizeof *a->graph);
    return a->graph ? haul__onnx_read_graph(r, f, a->graph) : haul_error_status();
}

static haul_status read_field(haul__onnx_reader *r, const haul__field *f, haul__onnx_attribute *a)
{
    switch (f->number) {
    case 1: return haul__onnx_text(r, f, &a->name);
    case 2: a->f = float_of(f->value); return haul__onnx_wire(r, f, HAUL__FIXED32);
    case 3: a->i = (int64_t)f->value; return haul__onnx_wire(r, f, HAUL__VARINT);
    case 4: return read_text(r, f, &a->text);
    case 5: return read_tensor(r, f, a);
    case 6: return read_graph(r, f, a);
    case 7: return read_floats(r, f, a);
    case 8: return read_ints(r, f, a);
    case 9: return read_text(r, f, &a->texts[a->text_count++]);
    case 20: a->type = f->value > 1000 ? 1000 : (int64_t)f->value; return haul__onnx_wire(r, f, HAUL__VARINT);
    default: return HAUL_OK;
    }
}

haul_status haul__onnx_read_attribute(haul__onnx_reader *r, const haul__field *field, haul__onnx_attribute *out)
{
    size_t       floats = 0, ints = 0, texts = 0;
    haul__cursor c = haul__cursor_of(field->bytes);
    haul__field  f;
    haul_status  status = haul__onnx_wire(r, field, HAUL__LENGTH);
    *out = (haul__onnx_attribute){.name = ""};
    if (status || count_items(r, field->bytes, &floats, &ints, &texts))
        return haul_error_status();
    if ((floats && !(out->floats = haul__onnx_room(r, floats, sizeof *out->floats))) ||
        (ints && !(out->ints = haul__onnx_room(r, ints, sizeof *out->ints))) ||
        (texts && !(out->texts = haul__onnx_room(r, texts, sizeof *out->texts))))
        return haul_error_status();
    while (!status && haul__next_field(&c, &f))
        status = read_field(r, &f, out);
    HAUL__ASSERT(status || c.fault ||
                 (out->float_count == floats && out->int_count == ints && out->text_count == texts));
    return status ? status : haul__onnx_end(r, &c);
}
