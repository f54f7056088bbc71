/* Fuzzing the reader of ONNX models: any bytes as a file, whose tensors are all copied. */
#include <stdlib.h>

#include "base/alloc.h"
#include "core/error.h"
#include "formats/onnx/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Memory is in proportion to the file: the blocks that hold it waste at most a part of themselves. */
static void check(const haul__onnx_model *model, size_t size)
{
    if (model->memory > (size + 64) * (HAUL__ONNX_MEMORY + 16))
        abort();
}

static void copy(const haul__onnx_tensor *tensor)
{
    if (tensor->fault || (!tensor->field && tensor->count))
        return;
    const size_t bytes = (size_t)tensor->count * (size_t)haul_dtype_bits(tensor->dtype) / 8;
    uint8_t     *out = haul__malloc(bytes);
    if (out && haul__onnx_elements(tensor, "fuzz.onnx", "fuzz", out, bytes))
        abort();
    haul__free(out);
}

static void walk(const haul__onnx_graph *graph)
{
    for (size_t i = 0; i < graph->tensor_count; i++)
        copy(&graph->tensors[i]);
    for (size_t n = 0; n < graph->node_count; n++)
        for (size_t i = 0; i < graph->nodes[n].attribute_count; i++) {
            const haul__onnx_attribute *a = &graph->nodes[n].attributes[i];
            if (a->tensor)
                copy(a->tensor);
            if (a->graph)
                walk(a->graph);
        }
}

/* A model that is read without the elements of large tensors is read as before. */
static void skim(const uint8_t *data, size_t size)
{
    haul__onnx_model model;
    haul__file       file;
    uint8_t         *bytes = haul__calloc(1, size);
    haul__file_open_memory(&file, data, size, "fuzz.onnx", "fuzz");
    if (bytes && (haul__onnx_skim(&file, bytes) ||
                  haul__onnx_read(&model, (haul__bytes){bytes, size}, &file, "fuzz.onnx", "fuzz")))
        abort();
    if (bytes)
        haul__onnx_free(&model);
    haul__free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    haul__onnx_model model;
    haul_error_clear();
    if (haul__onnx_read(&model, (haul__bytes){data, size}, NULL, "fuzz.onnx", "fuzz"))
        return 0;
    check(&model, size);
    skim(data, size);
    walk(&model.graph);
    haul__onnx_free(&model);
    return 0;
}
