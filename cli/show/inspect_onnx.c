/* haul inspect of an ONNX model: inputs, results, operators, and which of them Haul does not have. */
#include "cli/show/inspect_onnx.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/onnx_value.h"
#include "cli/shared/terminal.h"
#include "onnx/load.h"

enum { INDENT = 2, GAP = 2 };

/* ---- the table ---- */

static int widest_name(const haul__onnx_value *values, size_t count, int width)
{
    for (size_t i = 0; i < count; i++)
        width = text_columns(values[i].name) > width ? text_columns(values[i].name) : width;
    return width < 40 ? width : 40;
}

static void print_values(const char *title, const haul__onnx_value *values, size_t count, int width)
{
    char shape[ONNX_TEXT];
    if (count)
        printf("%s:\n", title);
    for (size_t i = 0; i < count; i++) {
        printf("%*s", INDENT, "");
        print_fitted(values[i].name, width);
        printf("%*s%-5s  %s\n", GAP, "", onnx_dtype_text(&values[i]), onnx_shape_text(&values[i], shape));
    }
}

static void print_uses(const haul__onnx_use *uses, int count, int64_t opset)
{
    char name[200];
    int  width = 0;
    printf("operators:\n");
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++) {
            snprintf(name, sizeof name, "%s%s%s", uses[i].domain, *uses[i].domain ? "." : "", uses[i].type);
            if (!pass) {
                width = text_columns(name) > width ? text_columns(name) : width;
                continue;
            }
            printf("%*s", INDENT, "");
            print_visible(name, width);
            printf("%*s%6s", GAP, "", text_count((int64_t)uses[i].count));
            if (uses[i].missing) {
                printf("  Haul does not have %s", uses[i].other_form ? "its form in opset " : "it");
                if (uses[i].other_form)
                    printf("%lld", (long long)opset);
                printf(": at the node ");
                print_visible(uses[i].node, 0);
            }
            printf("\n");
        }
}

static int64_t weight_bytes(const haul__onnx_graph *g)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < g->tensor_count; i++)
        bytes += g->tensors[i].fault ? 0 : g->tensors[i].count * haul_dtype_bits(g->tensors[i].dtype) / 8;
    return bytes;
}

static void print_model(const char *path, const haul__onnx_model *m, const haul__onnx_use *uses, int count)
{
    const haul__onnx_graph *g = &m->graph;
    char                    text[600], producer[200];
    int                     missing = 0;
    for (int i = 0; i < count; i++)
        missing += uses[i].missing;
    snprintf(producer, sizeof producer, "%s%s%s", m->producer, *m->producer_version ? " " : "", m->producer_version);
    visible_text(text, sizeof text / 2, producer);
    snprintf(producer, sizeof producer, "%.190s", text);
    snprintf(text, sizeof text, ": ONNX model, opset %lld%s%s, %s nodes, %s initialisers, %s", (long long)m->opset,
             *producer ? ", " : "", producer, text_count((int64_t)g->node_count), text_count((int64_t)g->tensor_count),
             text_bytes(weight_bytes(g)));
    print_visible(path, 0);
    print_wrapped(text, text_columns(path), INDENT);
    const int width = widest_name(g->outputs, g->output_count, widest_name(g->inputs, g->input_count, 0));
    print_values("inputs", g->inputs, g->input_count, width);
    print_values("results", g->outputs, g->output_count, width);
    print_uses(uses, count, m->opset);
    if (missing)
        printf("Haul cannot run this model: %d operator%s missing\n", missing, missing == 1 ? " is" : "s are");
}

/* ---- JSON ---- */

static void values_to_json(cJSON *object, const char *name, const haul__onnx_value *values, size_t count)
{
    cJSON *list = json_array(object, name);
    for (size_t i = 0; i < count; i++) {
        cJSON *entry = cJSON_CreateObject();
        json_text(entry, "name", values[i].name);
        json_text(entry, "dtype", onnx_dtype_text(&values[i]));
        cJSON *shape = values[i].ndim < 0 ? NULL : json_array(entry, "shape");
        for (int d = 0; d < values[i].ndim && d < HAUL_MAX_DIMS; d++)
            json_push(shape, values[i].dims[d] >= 0
                                 ? cJSON_CreateNumber((double)values[i].dims[d])
                                 : cJSON_CreateString(values[i].names[d] ? values[i].names[d] : "?"));
        json_push(list, entry);
    }
}

static int print_json(const haul__onnx_model *m, const haul__onnx_use *uses, int count)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "format", "onnx");
    json_text(object, "type", "ONNX model");
    json_number(object, "opset", (double)m->opset);
    json_number(object, "ir_version", (double)m->ir_version);
    json_text(object, "producer", m->producer);
    json_text(object, "producer_version", m->producer_version);
    json_number(object, "nodes", (double)m->graph.node_count);
    json_number(object, "initialisers", (double)m->graph.tensor_count);
    json_number(object, "bytes", (double)weight_bytes(&m->graph));
    values_to_json(object, "inputs", m->graph.inputs, m->graph.input_count);
    values_to_json(object, "results", m->graph.outputs, m->graph.output_count);
    cJSON *list = json_array(object, "operators");
    for (int i = 0; i < count; i++) {
        cJSON *entry = cJSON_CreateObject();
        json_text(entry, "domain", uses[i].domain);
        json_text(entry, "type", uses[i].type);
        json_number(entry, "count", (double)uses[i].count);
        json_bool(entry, "missing", uses[i].missing);
        if (uses[i].missing)
            json_text(entry, "node", uses[i].node);
        json_push(list, entry);
    }
    return json_print(object) ? EXIT_OK : EXIT_FAILED;
}

int inspect_onnx(const char *path, bool json)
{
    haul__onnx_file file;
    int             count, code = EXIT_OK;
    if (haul__onnx_read_file(path, "haul inspect", &file))
        return complain_error();
    haul__onnx_use *uses = haul__onnx_uses(&file.model, &count, "haul inspect");
    if (!uses)
        code = complain_error();
    else if (json)
        code = print_json(&file.model, uses, count);
    else
        print_model(path, &file.model, uses, count);
    haul__free(uses);
    haul__onnx_close_file(&file);
    return code;
}
