/* Reads the messages ModelProto, GraphProto, NodeProto and ValueInfoProto. The numbers of fields are those of
 * onnx.proto. A list is counted before it is allocated; fields that are not known are skipped, as protobuf asks for. */
#include "formats/onnx/model.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/utf8.h"
#include "core/error.h"
#include "formats/onnx/reader.h"

struct haul__onnx_block {
    haul__onnx_block *next;
    size_t            used, size;
    _Alignas(16) uint8_t memory[];
};

enum { BLOCK = 4096 };

/* ---- what the files of the reader share ---- */

haul_status haul__onnx_malformed(const haul__onnx_reader *r, const uint8_t *place, const char *what)
{
    return haul__fail(HAUL_FORMAT, r->operation, "path", "%s is not a valid ONNX model: at byte %zu, %s", r->path,
                      place ? (size_t)(place - r->file.at) : 0, what);
}

haul_status haul__onnx_end(const haul__onnx_reader *r, const haul__cursor *cursor)
{
    return cursor->fault ? haul__onnx_malformed(r, cursor->at, cursor->fault) : HAUL_OK;
}

haul_status haul__onnx_wire(const haul__onnx_reader *r, const haul__field *field, haul__wire wire)
{
    return field->wire == wire ? HAUL_OK
                               : haul__onnx_malformed(r, field->place, "a field has another wire type than expected");
}

/* A block with room. The first one of the list is the one that is being filled; large arrays have blocks of their own.
 */
static haul__onnx_block *find_block(haul__onnx_reader *r, size_t bytes)
{
    haul__onnx_block *first = r->model->blocks;
    const bool        large = bytes > BLOCK / 4;
    const size_t      whole = large ? bytes : BLOCK;
    if (first && first->size - first->used >= bytes)
        return first;
    haul__onnx_block *block = haul__calloc(1, sizeof *block + whole);
    if (!block) {
        haul__fail_memory(r->operation, whole);
        return NULL;
    }
    block->size = whole;
    HAUL__ASSERT(whole >= bytes);
    block->next = large && first ? first->next : first;
    if (large && first)
        first->next = block;
    else
        r->model->blocks = block;
    return block;
}

void *haul__onnx_room(haul__onnx_reader *r, size_t count, size_t size)
{
    if (count > r->budget / size) {
        haul__onnx_malformed(r, r->file.at, "it describes more than it has room for");
        return NULL;
    }
    const size_t      bytes = (count * size + 15) & ~(size_t)15;
    haul__onnx_block *block = find_block(r, bytes);
    if (!block)
        return NULL;
    void *out = block->memory + block->used;
    block->used += bytes;
    HAUL__ASSERT(block->used <= block->size && block->used % 16 == 0);
    r->budget -= bytes < r->budget ? bytes : r->budget;
    r->model->memory += bytes;
    return out;
}

haul_status haul__onnx_text(haul__onnx_reader *r, const haul__field *field, const char **out)
{
    const haul__bytes text = field->bytes;
    if (haul__onnx_wire(r, field, HAUL__LENGTH))
        return haul_error_status();
    if ((text.size && memchr(text.at, 0, text.size)) || !haul__is_utf8(text.at, text.size))
        return haul__onnx_malformed(r, field->place, "a name is not UTF-8");
    char *copy = haul__onnx_room(r, text.size + 1, 1);
    if (!copy)
        return haul_error_status();
    if (text.size)
        memcpy(copy, text.at, text.size);
    *out = copy;
    return HAUL_OK;
}

/* How often the fields with these numbers occur. Stops at 0. */
static haul_status count_fields(const haul__onnx_reader *r, haul__bytes message, const uint32_t *numbers,
                                size_t *counts)
{
    haul__cursor c = haul__cursor_of(message);
    haul__field  f;
    while (haul__next_field(&c, &f))
        for (size_t i = 0; numbers[i]; i++)
            counts[i] += f.number == numbers[i];
    return haul__onnx_end(r, &c);
}

static bool allocate(haul__onnx_reader *r, void *list, size_t count, size_t size)
{
    void *memory = count ? haul__onnx_room(r, count, size) : NULL;
    memcpy(list, &memory, sizeof memory);
    return memory || !count;
}

/* ---- values ---- */

/* TensorShapeProto.Dimension: dim_value 1, dim_param 2. */
static haul_status read_size(haul__onnx_reader *r, const haul__field *field, haul__onnx_value *v)
{
    haul__cursor c = haul__cursor_of(field->bytes);
    haul__field  f;
    haul_status  status = haul__onnx_wire(r, field, HAUL__LENGTH);
    const int    d = v->ndim++;
    if (d >= HAUL_MAX_DIMS)
        return status; /* counted only */
    v->dims[d] = -1;
    while (!status && haul__next_field(&c, &f)) {
        if (f.number == 1 && !(status = haul__onnx_wire(r, &f, HAUL__VARINT)))
            v->dims[d] = f.value > INT64_MAX / 16 ? -1 : (int64_t)f.value;
        else if (f.number == 2 && !status)
            status = haul__onnx_text(r, &f, &v->names[d]);
    }
    return status ? status : haul__onnx_end(r, &c);
}

/* TypeProto.Tensor: elem_type 1, shape 2. */
static haul_status read_tensor_type(haul__onnx_reader *r, const haul__field *field, haul__onnx_value *v)
{
    haul__cursor c = haul__cursor_of(field->bytes), sizes;
    haul__field  f, g;
    haul_status  status = haul__onnx_wire(r, field, HAUL__LENGTH);
    while (!status && haul__next_field(&c, &f)) {
        if (f.number == 1 && !(status = haul__onnx_wire(r, &f, HAUL__VARINT))) {
            v->element_type = f.value > 1000 ? 1000 : (int64_t)f.value;
            v->dtype = haul__onnx_dtype(v->element_type);
        } else if (f.number == 2 && !(status = haul__onnx_wire(r, &f, HAUL__LENGTH))) {
            v->ndim = 0;
            sizes = haul__cursor_of(f.bytes);
            while (!status && v->ndim < 1000 && haul__next_field(&sizes, &g))
                status = g.number == 1 ? read_size(r, &g, v) : HAUL_OK;
            status = status ? status : haul__onnx_end(r, &sizes);
        }
    }
    return status ? status : haul__onnx_end(r, &c);
}

/* ValueInfoProto: name 1, type 2; TypeProto: tensor_type 1. */
static haul_status read_value(haul__onnx_reader *r, const haul__field *field, haul__onnx_value *v)
{
    haul__cursor c = haul__cursor_of(field->bytes), types;
    haul__field  f, g;
    haul_status  status = haul__onnx_wire(r, field, HAUL__LENGTH);
    *v = (haul__onnx_value){.name = "", .ndim = -1};
    while (!status && haul__next_field(&c, &f)) {
        if (f.number == 1)
            status = haul__onnx_text(r, &f, &v->name);
        if (f.number != 2 || (status = haul__onnx_wire(r, &f, HAUL__LENGTH)))
            continue;
        types = haul__cursor_of(f.bytes);
        while (!status && haul__next_field(&types, &g))
            status = g.number == 1 ? read_tensor_type(r, &g, v) : HAUL_OK;
        status = status ? status : haul__onnx_end(r, &types);
    }
    return status ? status : haul__onnx_end(r, &c);
}

/* ---- nodes and graphs ---- */

/* NodeProto: input 1, output 2, name 3, op_type 4, attribute 5, domain 7. */
static haul_status read_node(haul__onnx_reader *r, const haul__field *field, haul__onnx_node *n)
{
    size_t       counts[3] = {0};
    haul__cursor c = haul__cursor_of(field->bytes);
    haul__field  f;
    haul_status  status = haul__onnx_wire(r, field, HAUL__LENGTH);
    *n = (haul__onnx_node){.name = "", .type = "", .domain = ""};
    if (status || count_fields(r, field->bytes, (const uint32_t[]){1, 2, 5, 0}, counts) ||
        !allocate(r, &n->inputs, counts[0], sizeof *n->inputs) ||
        !allocate(r, &n->outputs, counts[1], sizeof *n->outputs) ||
        !allocate(r, &n->attributes, counts[2], sizeof *n->attributes))
        return haul_error_status();
    while (!status && haul__next_field(&c, &f)) {
        switch (f.number) {
        case 1: status = haul__onnx_text(r, &f, &n->inputs[n->input_count++]); break;
        case 2: status = haul__onnx_text(r, &f, &n->outputs[n->output_count++]); break;
        case 3: status = haul__onnx_text(r, &f, &n->name); break;
        case 4: status = haul__onnx_text(r, &f, &n->type); break;
        case 5: status = haul__onnx_read_attribute(r, &f, &n->attributes[n->attribute_count++]); break;
        case 7: status = haul__onnx_text(r, &f, &n->domain); break;
        default: break;
        }
    }
    if (!strcmp(n->domain, "ai.onnx"))
        n->domain = "";
    HAUL__ASSERT(status ||
                 (n->input_count == counts[0] && n->output_count == counts[1] && n->attribute_count == counts[2]));
    return status ? status : haul__onnx_end(r, &c);
}

static haul_status read_members(haul__onnx_reader *r, const haul__field *field, haul__onnx_graph *g)
{
    size_t       counts[4] = {0};
    haul__cursor c = haul__cursor_of(field->bytes);
    haul__field  f;
    haul_status  status = haul__onnx_wire(r, field, HAUL__LENGTH);
    *g = (haul__onnx_graph){.name = ""};
    if (status || count_fields(r, field->bytes, (const uint32_t[]){1, 5, 11, 12, 0}, counts) ||
        !allocate(r, &g->nodes, counts[0], sizeof *g->nodes) ||
        !allocate(r, &g->tensors, counts[1], sizeof *g->tensors) ||
        !allocate(r, &g->inputs, counts[2], sizeof *g->inputs) ||
        !allocate(r, &g->outputs, counts[3], sizeof *g->outputs))
        return haul_error_status();
    while (!status && haul__next_field(&c, &f)) {
        switch (f.number) {
        case 1: status = read_node(r, &f, &g->nodes[g->node_count++]); break;
        case 2: status = haul__onnx_text(r, &f, &g->name); break;
        case 5: status = haul__onnx_read_tensor(r, &f, &g->tensors[g->tensor_count++]); break;
        case 11: status = read_value(r, &f, &g->inputs[g->input_count++]); break;
        case 12: status = read_value(r, &f, &g->outputs[g->output_count++]); break;
        case 15: g->has_sparse = true; break;
        default: break;
        }
    }
    HAUL__ASSERT(status || (g->node_count == counts[0] && g->tensor_count == counts[1] && g->input_count == counts[2] &&
                            g->output_count == counts[3]));
    return status ? status : haul__onnx_end(r, &c);
}

/* GraphProto: node 1, name 2, initializer 5, input 11, output 12, sparse_initializer 15. */
haul_status haul__onnx_read_graph(haul__onnx_reader *r, const haul__field *field, haul__onnx_graph *out)
{
    if (r->depth == HAUL__ONNX_DEPTH)
        return haul__onnx_malformed(r, field->place, "graphs are nested more than 8 deep");
    r->depth++;
    const haul_status status = read_members(r, field, out);
    HAUL__ASSERT(0 < r->depth && r->depth <= HAUL__ONNX_DEPTH);
    r->depth--;
    return status;
}

/* ---- the model ---- */

/* OperatorSetIdProto: domain 1, version 2. */
static haul_status read_import(haul__onnx_reader *r, const haul__field *field)
{
    haul__cursor c = haul__cursor_of(field->bytes);
    haul__field  f;
    const char  *domain = "";
    int64_t      version = 0;
    haul_status  status = haul__onnx_wire(r, field, HAUL__LENGTH);
    while (!status && haul__next_field(&c, &f)) {
        if (f.number == 1)
            status = haul__onnx_text(r, &f, &domain);
        if (f.number == 2 && !(status = haul__onnx_wire(r, &f, HAUL__VARINT)))
            version = f.value > INT64_MAX ? 0 : (int64_t)f.value;
    }
    if (!*domain || !strcmp(domain, "ai.onnx"))
        r->model->opset = version;
    return status ? status : haul__onnx_end(r, &c);
}

/* ModelProto: ir_version 1, producer_name 2, producer_version 3, graph 7, opset_import 8, functions 25. */
static haul_status read_model(haul__onnx_reader *r)
{
    haul__onnx_model *m = r->model;
    haul__cursor      c = haul__cursor_of(r->file);
    haul__field       f;
    haul_status       status = HAUL_OK;
    bool              has_graph = false;
    while (!status && haul__next_field(&c, &f)) {
        switch (f.number) {
        case 1:
            if (!(status = haul__onnx_wire(r, &f, HAUL__VARINT)))
                m->ir_version = f.value > INT64_MAX ? INT64_MAX : (int64_t)f.value;
            break;
        case 2: status = haul__onnx_text(r, &f, &m->producer); break;
        case 3: status = haul__onnx_text(r, &f, &m->producer_version); break;
        case 7:
            status = has_graph ? haul__onnx_malformed(r, f.place, "there is a second graph")
                               : haul__onnx_read_graph(r, &f, &m->graph);
            has_graph = true;
            break;
        case 8: status = read_import(r, &f); break;
        case 25: m->functions++; break;
        default: break;
        }
    }
    if (!status)
        status = haul__onnx_end(r, &c);
    return status || has_graph ? status : haul__onnx_malformed(r, c.at, "the file ends without a graph");
}

haul_status haul__onnx_read(haul__onnx_model *model, haul__bytes file, const haul__file *skimmed, const char *path,
                            const char *operation)
{
    *model = (haul__onnx_model){.producer = "", .producer_version = ""};
    haul__onnx_reader r = {.model = model, .file = file, .skimmed = skimmed, .path = path, .operation = operation};
    r.budget = file.size > (SIZE_MAX - BLOCK) / HAUL__ONNX_MEMORY ? SIZE_MAX : file.size * HAUL__ONNX_MEMORY + BLOCK;
    const haul_status status = read_model(&r);
    HAUL__ASSERT(r.depth == 0);
    if (status)
        haul__onnx_free(model);
    return status;
}

void haul__onnx_free(haul__onnx_model *model)
{
    while (model->blocks) {
        haul__onnx_block *next = model->blocks->next;
        haul__free(model->blocks);
        model->blocks = next;
    }
    *model = (haul__onnx_model){.producer = "", .producer_version = ""};
}

/* Field 1 as a varint, a small number, and then another field of a model: texts, numbers, a graph or imports. */
bool haul__onnx_recognise(const void *head, size_t size)
{
    const uint8_t *h = head;
    return size > 3 && h[0] == 0x08 && h[1] >= 1 && h[1] < 64 && h[2] && strchr("\x12\x1a\x22\x28\x32\x3a\x42", h[2]);
}
