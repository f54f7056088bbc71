/* haul_save_onnx: the messages of a model around its graph, and its files. Elements of initialisers are written as they
 * are, one tensor after another, so a model needs no second copy of its weights. */
#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/onnx.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/plain.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "core/thread.h"
#include "files/file.h"
#include "host_access/view.h"
#include "nn/tensors.h"
#include "onnx/export/trace.h"
#include "onnx/operation.h"

#define SAVE "haul_save_onnx"

enum {
    USUAL_OPSET = 22,
    ALIGNMENT = 64,           /* of elements in the second file */
    LEAST_EXTERNAL = 1024,    /* bytes of an initialiser that goes there */
    ROOM_FOR_GRAPH = 16 << 20 /* in a file with elements */
};

/* The graph, and the messages before and after its initialisers. */
typedef struct model {
    haul__onnx_saved *g;
    const char       *path;
    char             *data_path, *location;
    haul__message     nodes, ports, head;
    haul__message    *heads; /* of initialisers, without their elements */
    bool              external;
} model;

/* ---- names ---- */

static bool has_slash(const haul__onnx_saved *g)
{
    for (size_t i = 0; i < g->value_count; i++)
        if (g->values[i].name && strchr(g->values[i].name, '/'))
            return true;
    return false;
}

static bool is_taken(const haul__onnx_saved *g, const char *name)
{
    for (size_t i = 0; i < g->value_count; i++)
        if (g->values[i].name && !strcmp(g->values[i].name, name))
            return true;
    return false;
}

/* "conv1/Conv/3": the module, the operator, the number of the value. */
static haul_status name_values(haul__onnx_saved *g)
{
    const bool check = has_slash(g);
    for (size_t i = 0; i < g->value_count; i++) {
        haul__onnx_saved_value *v = &g->values[i];
        if (v->name || !v->needed)
            continue;
        const haul__onnx_saved_node *n = v->node >= 0 ? &g->nodes[v->node] : NULL;
        const char                  *module = n ? n->module : "";
        v->name = haul__format("%s%s%s/%zu", module, *module ? "/" : "", n ? n->type : "constant", i);
        if (!v->name)
            return haul__fail_memory(SAVE, 1);
        char *own = v->name;
        v->name = NULL;
        while (own && check && is_taken(g, own)) {
            char *longer = haul__format("%s_", own);
            haul__free(own);
            own = longer;
        }
        if (!own)
            return haul__fail_memory(SAVE, 1);
        v->name = own;
    }
    return HAUL_OK;
}

/* ---- messages ---- */

/* NodeProto: input 1, output 2, name 3, op_type 4, attribute 5. Of GraphProto it is field 1. */
static void put_node(haul__message *to, const haul__onnx_saved *g, const haul__onnx_saved_node *n)
{
    haul__message m = {.bytes = NULL};
    HAUL__ASSERT(n->needed && n->output_count > 0);
    HAUL__ASSERT(g->values[g->numbers[n->output]].name); /* mark_needed, name_values */
    for (int i = 0; i < n->input_count; i++) {
        const int value = g->numbers[n->input + i];
        haul__put_text(&m, 1, value == HAUL__ONNX_ABSENT ? "" : g->values[value].name);
    }
    for (int i = 0; i < n->output_count; i++)
        haul__put_text(&m, 2, g->values[g->numbers[n->output + i]].name);
    haul__put_text(&m, 3, g->values[g->numbers[n->output]].name); /* the node's own */
    haul__put_text(&m, 4, n->type);
    const size_t size = m.size + n->attributes.size;
    if (!m.failed && size <= HAUL__MESSAGE_LIMIT && haul__grow(&m.bytes, &m.room, size + 1, 1)) {
        if (n->attributes.size)
            memcpy(m.bytes + m.size, n->attributes.bytes, n->attributes.size);
        m.size = size;
    } else {
        m.failed = true;
    }
    haul__put_message(to, 1, &m);
    haul__message_free(&m);
}

/* ValueInfoProto: name 1, type 2 { tensor_type 1 { elem_type 1, shape 2 { dim 1 { dim_value 1, dim_param 2 } } } }. */
static void put_port(haul__message *to, uint32_t field, const haul__onnx_saved *g, const haul__onnx_saved_port *p)
{
    haul__message shape = {.bytes = NULL}, tensor = shape, type = shape, info = shape;
    HAUL__ASSERT(p->value >= 0 && g->values[p->value].name);
    for (int d = 0; d < p->shape.ndim; d++) {
        haul__message dim = {.bytes = NULL};
        if (p->shape.dims[d] == p->other.dims[d])
            haul__put_integer(&dim, 1, (uint64_t)p->shape.dims[d]);
        else if (p->shape.dims[d] == g->batch[0] && p->other.dims[d] == g->batch[1])
            haul__put_text(&dim, 2, "batch");
        haul__put_message(&shape, 1, &dim);
        haul__message_free(&dim);
    }
    haul__put_integer(&tensor, 1, (uint64_t)haul__onnx_dtype_number(p->dtype));
    haul__put_message(&tensor, 2, &shape);
    haul__put_message(&type, 1, &tensor);
    haul__put_text(&info, 1, g->values[p->value].name);
    haul__put_message(&info, 2, &type);
    haul__put_message(to, field, &info);
    haul__message_free(&shape);
    haul__message_free(&tensor);
    haul__message_free(&type);
    haul__message_free(&info);
}

/* StringStringEntryProto: key 1, value 2. */
static void put_entry(haul__message *to, uint32_t field, const char *key, const char *value)
{
    haul__message m = {.bytes = NULL};
    haul__put_text(&m, 1, key);
    haul__put_text(&m, 2, value);
    haul__put_message(to, field, &m);
    haul__message_free(&m);
}

static void put_number_entry(haul__message *to, uint32_t field, const char *key, uint64_t value)
{
    char text[24];
    haul__snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put_entry(to, field, key, text);
}

/* TensorProto: dims 1, data_type 2, name 8, raw_data 9, external_data 13, data_location 14. */
static void put_tensor_head(haul__message *m, const model *o, const haul__onnx_saved_tensor *t)
{
    HAUL__ASSERT(o->g->values[t->value].needed && o->g->values[t->value].name);
    HAUL__ASSERT(!t->external || t->offset % ALIGNMENT == 0);
    for (int d = 0; d < t->shape.ndim; d++)
        haul__put_integer(m, 1, (uint64_t)t->shape.dims[d]);
    haul__put_integer(m, 2, (uint64_t)haul__onnx_dtype_number(t->dtype));
    haul__put_text(m, 8, o->g->values[t->value].name);
    if (t->external) {
        put_entry(m, 13, "location", o->location);
        put_number_entry(m, 13, "offset", t->offset);
        put_number_entry(m, 13, "length", t->bytes);
        haul__put_integer(m, 14, 1);
    } else {
        haul__put_head(m, 9, t->bytes);
    }
}

/* The version of the format that came with a set of operators. */
static int64_t format_of(int64_t opset)
{
    static const int first[] = {19, 21, 23, 24, 25}; /* versions 9 and later */
    int64_t          version = 8;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        version += opset >= first[i];
    return version;
}

/* ModelProto: ir_version 1, producer_name 2, producer_version 3, graph 7, opset_import 8. GraphProto: node 1, name 2,
 * initializer 5, input 11, output 12. */
static void put_head(model *o, uint64_t graph_bytes)
{
    haul__message set = {.bytes = NULL};
    haul__put_integer(&o->head, 1, (uint64_t)format_of(o->g->opset));
    haul__put_text(&o->head, 2, "haul");
    haul__put_text(&o->head, 3, haul_version());
    haul__put_text(&set, 1, "");
    haul__put_integer(&set, 2, (uint64_t)o->g->opset);
    haul__put_message(&o->head, 8, &set);
    haul__message_free(&set);
    haul__put_head(&o->head, 7, graph_bytes);
}

/* Where elements go, and the bytes of all that are in the model. */
static uint64_t place_tensors(model *o)
{
    haul__onnx_saved *g = o->g;
    uint64_t          inside = 0, offset = 0;
    for (size_t i = 0; i < g->tensor_count; i++) {
        haul__onnx_saved_tensor *t = &g->tensors[i];
        HAUL__ASSERT(t->value >= 0 && (size_t)t->value < g->value_count);
        if (!g->values[t->value].needed)
            continue;
        t->external = o->external && t->bytes >= LEAST_EXTERNAL;
        inside += t->external ? 0 : t->bytes;
        if (t->external) {
            t->offset = offset;
            offset += (t->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        }
    }
    return inside;
}

static haul_status too_large(const model *o)
{
    return haul__fail(HAUL_UNSUPPORTED, SAVE, "module",
                      "%s would have a graph of more than 2 GiB, which ONNX does not "
                      "allow",
                      o->path);
}

static haul_status put_messages(model *o)
{
    haul__onnx_saved *g = o->g;
    uint64_t          tensors = 0;
    HAUL__ASSERT(o->heads && !o->head.size && !o->nodes.size && !o->ports.size);
    for (size_t i = 0; i < g->node_count; i++)
        if (g->nodes[i].needed)
            put_node(&o->nodes, g, &g->nodes[i]);
    haul__put_text(&o->nodes, 2, "haul");
    for (int i = 0; i < g->input_count; i++)
        put_port(&o->ports, 11, g, &g->inputs[i]);
    for (int i = 0; i < g->output_count; i++)
        put_port(&o->ports, 12, g, &g->outputs[i]);
    for (size_t i = 0; i < g->tensor_count; i++) {
        const haul__onnx_saved_tensor *t = &g->tensors[i];
        haul__message                  key = {.bytes = NULL};
        if (!g->values[t->value].needed)
            continue;
        put_tensor_head(&o->heads[i], o, t);
        const uint64_t size = o->heads[i].size + (t->external ? 0 : t->bytes);
        haul__put_head(&key, 5, size);
        tensors += key.size + size;
        if (o->heads[i].failed || key.failed)
            o->ports.failed = true;
        haul__message_free(&key);
    }
    if (o->nodes.failed || o->ports.failed)
        return haul__fail_memory(SAVE, o->nodes.size);
    const uint64_t graph = o->nodes.size + o->ports.size + tensors;
    if (graph > HAUL__MESSAGE_LIMIT - 1024)
        return too_large(o);
    put_head(o, graph);
    return o->head.failed ? haul__fail_memory(SAVE, o->head.size) : HAUL_OK;
}

/* ---- files ---- */

static haul_status put_elements(const model *o, haul__writer *w, const haul__onnx_saved_tensor *t)
{
    haul__host_view view;
    HAUL__ASSERT(t->tensor || t->at + t->bytes <= o->g->byte_count);
    if (!t->tensor)
        return haul__writer_put(w, o->g->bytes + t->at, t->bytes);
    haul_status status = haul__host_view_begin(&view, t->tensor, o->g->values[t->value].name, SAVE);
    if (status)
        return status;
    HAUL__ASSERT(view.bytes == t->bytes);
    status = haul__writer_put(w, view.data, view.bytes);
    haul__host_view_end(&view);
    return status;
}

static haul_status put_tensor(const model *o, haul__writer *w, size_t i)
{
    const haul__onnx_saved_tensor *t = &o->g->tensors[i];
    haul__message                  key = {.bytes = NULL};
    haul__put_head(&key, 5, o->heads[i].size + (t->external ? 0 : t->bytes));
    haul_status status = key.failed ? haul__fail_memory(SAVE, key.size) : haul__writer_put(w, key.bytes, key.size);
    haul__message_free(&key);
    if (!status)
        status = haul__writer_put(w, o->heads[i].bytes, o->heads[i].size);
    return status || t->external ? status : put_elements(o, w, t);
}

static haul_status put_model(const model *o, haul__writer *w)
{
    haul_status status = haul__writer_put(w, o->head.bytes, o->head.size);
    status = status ? status : haul__writer_put(w, o->nodes.bytes, o->nodes.size);
    for (size_t i = 0; i < o->g->tensor_count && !status; i++)
        if (o->g->values[o->g->tensors[i].value].needed)
            status = put_tensor(o, w, i);
    return status ? status : haul__writer_put(w, o->ports.bytes, o->ports.size);
}

static haul_status put_data(const model *o, haul__writer *w)
{
    static const uint8_t zeros[ALIGNMENT];
    haul_status          status = HAUL_OK;
    for (size_t i = 0; i < o->g->tensor_count && !status; i++) {
        const haul__onnx_saved_tensor *t = &o->g->tensors[i];
        if (!t->external)
            continue;
        status = put_elements(o, w, t);
        if (!status && t->bytes % ALIGNMENT)
            status = haul__writer_put(w, zeros, ALIGNMENT - t->bytes % ALIGNMENT);
    }
    return status;
}

/* Both files are complete before either of them replaces an old one. */
static haul_status write_files(const model *o)
{
    HAUL__ASSERT(o->data_path && o->head.size > 0);
    haul__writer *to = haul__writer_open(o->path, SAVE), *data = NULL;
    haul_status   status = to ? HAUL_OK : haul_error_status();
    if (!status && o->external && !(data = haul__writer_open(o->data_path, SAVE)))
        status = haul_error_status();
    if (!status && data)
        status = put_data(o, data);
    if (!status)
        status = put_model(o, to);
    if (!status && data) {
        status = haul__writer_commit(data);
        data = NULL;
    }
    if (!status) {
        status = haul__writer_commit(to);
        to = NULL;
    }
    haul__writer_abandon(data);
    haul__writer_abandon(to);
    return status;
}

static haul_status write_model(model *o)
{
    const char *slash = strrchr(o->path, '/');
    o->data_path = haul__format("%s.data", o->path);
    o->location = haul__format("%s.data", slash ? slash + 1 : o->path);
    o->heads = haul__calloc(o->g->tensor_count + 1, sizeof *o->heads);
    if (!o->data_path || !o->location || !o->heads)
        return haul__fail_memory(SAVE, o->g->tensor_count * sizeof *o->heads);
    haul_status status = name_values(o->g);
    if (!o->external && !status)
        o->external = place_tensors(o) > HAUL__MESSAGE_LIMIT - ROOM_FOR_GRAPH;
    if (o->external)
        place_tensors(o);
    status = status ? status : put_messages(o);
    return status ? status : write_files(o);
}

static void free_model(model *o)
{
    for (size_t i = 0; o->heads && i < o->g->tensor_count; i++)
        haul__message_free(&o->heads[i]);
    haul__free(o->heads);
    haul__free(o->data_path);
    haul__free(o->location);
    haul__message_free(&o->nodes);
    haul__message_free(&o->ports);
    haul__message_free(&o->head);
}

/* ---- the function ---- */

static haul_status check(const char *path, const haul_module *module, const haul_save_onnx_options *o)
{
    if (!path || !o)
        return haul__fail_null(SAVE, path ? "options" : "path");
    if (haul__check_module(module, SAVE))
        return haul_error_status();
    if (!o->x[0])
        return haul__fail_null(SAVE, "x");
    for (int i = 0; i < HAUL_MAX_ARGUMENTS && o->x[i]; i++)
        if (haul__check_tensor(SAVE, "x", o->x[i]))
            return haul_error_status();
    if (o->opset && (o->opset < HAUL__ONNX_OLDEST_SAVED || o->opset > HAUL__ONNX_NEWEST))
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "opset", "opset is %d; %d to %d is expected", o->opset,
                          HAUL__ONNX_OLDEST_SAVED, HAUL__ONNX_NEWEST);
    if (o->dynamic && !o->x[0]->shape.ndim)
        return haul__fail(HAUL_INVALID_ARGUMENT, SAVE, "dynamic",
                          "dynamic is set, but the first input has no dimension that could be a batch");
    if (haul__is_dry())
        return haul__fail(HAUL_STATE, SAVE, NULL, "it is called in a dry run, where tensors have no values");
    return HAUL_OK;
}

haul_status haul_save_onnx_with(const char *path, haul_module *module, const haul_save_onnx_options *options)
{
    haul_status status = check(path, module, options);
    if (status)
        return status;
    haul__onnx_saved g = {.operation = SAVE, .opset = options->opset ? options->opset : USUAL_OPSET};
    g.batch_value = HAUL__ONNX_ABSENT;
    status = haul__onnx_trace(&g, module, options);
    if (!status) {
        model o = {.g = &g, .path = path, .external = options->external};
        status = write_model(&o);
        free_model(&o);
    }
    haul__onnx_saved_free(&g);
    return status;
}
