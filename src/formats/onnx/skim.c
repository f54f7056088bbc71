/* Reads a model without the elements of its large tensors, which are read later, where they are to be.
 *
 * The file's bytes have their places in memory; those of large elements are never written, so they take no memory. Only
 * the heads of fields are looked at here. A file that is not well formed is read as a whole, and the reader names its
 * fault. */
#include "base/assert.h"
#include "formats/onnx/model.h"

enum { WINDOW = 1 << 16, HEAD = 20 }; /* bytes that are read at once; the most of a field before its content */

typedef enum kind { NONE, MODEL, GRAPH, NODE, ATTRIBUTE, TENSOR } kind;

typedef struct skimmer {
    const haul__file *file;
    uint8_t          *data;
    uint64_t          loaded; /* up to here bytes are read, or left out */
    haul_status       status;
} skimmer;

/* Which message a field of a message is. The numbers are those of onnx.proto. */
static kind kind_of(kind message, uint32_t number)
{
    switch (message) {
    case MODEL: return number == 7 ? GRAPH : NONE;
    case GRAPH: return number == 1 ? NODE : number == 5 ? TENSOR : NONE;
    case NODE: return number == 5 ? ATTRIBUTE : NONE;
    case ATTRIBUTE: return number == 5 ? TENSOR : number == 6 ? GRAPH : NONE;
    default: return NONE;
    }
}

/* Reads up to `end`, and some more. */
static bool load(skimmer *s, uint64_t end)
{
    if (end <= s->loaded)
        return true;
    const uint64_t rest = s->file->size - s->loaded, wanted = end - s->loaded;
    HAUL__ASSERT(s->loaded <= s->file->size && end <= s->file->size);
    const uint64_t bytes = wanted > WINDOW ? wanted : rest < WINDOW ? rest : WINDOW;
    s->status = haul__file_read(s->file, s->loaded, s->data + s->loaded, (size_t)bytes);
    s->loaded += bytes;
    return !s->status;
}

/* False if the rest of the file is not to be skimmed: it is not well formed, or reading failed. */
static bool skim(skimmer *s, uint64_t at, uint64_t end, kind message, int depth)
{
    while (at < end) {
        if (!load(s, end - at < HEAD ? end : at + HEAD))
            return false;
        haul__cursor c = haul__cursor_of((haul__bytes){s->data + at, (size_t)(end - at)});
        haul__field  f;
        if (!haul__next_field(&c, &f))
            return false;
        const uint64_t next = (uint64_t)(c.at - s->data);
        HAUL__ASSERT(at < next && next <= end);
        const kind inner = f.wire == HAUL__LENGTH ? kind_of(message, f.number) : NONE;
        if (inner == GRAPH && depth == HAUL__ONNX_DEPTH)
            return false;
        if (message == TENSOR && f.number == HAUL__ONNX_RAW && f.wire == HAUL__LENGTH &&
            f.bytes.size >= HAUL__ONNX_LEFT_OUT)
            s->loaded = s->loaded > next ? s->loaded : next;
        else if (inner ? !skim(s, next - f.bytes.size, next, inner, depth + (inner == GRAPH)) : !load(s, next))
            return false;
        at = next;
    }
    return true;
}

haul_status haul__onnx_skim(const haul__file *file, uint8_t *data)
{
    skimmer s = {.file = file, .data = data};
    if (skim(&s, 0, file->size, MODEL, 0))
        return HAUL_OK;
    return s.status ? s.status : haul__file_read(file, 0, data, (size_t)file->size);
}
