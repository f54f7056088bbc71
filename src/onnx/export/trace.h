/* The dry run whose calls become the graph of a model. */
#ifndef HAUL_ONNX_EXPORT_TRACE_H
#define HAUL_ONNX_EXPORT_TRACE_H

#include <haul/onnx.h>

#include "onnx/export/export.h"

/* Fills the graph of `module`, called with inputs of the shapes in the options. The graph refers to the module's
 * tensors. All calls that cannot be written are in the error. */
haul_status haul__onnx_trace(haul__onnx_saved *g, haul_module *module, const haul_save_onnx_options *options);

/* Notes the elements of a tensor that was made from host memory, if the thread is in the dry run of haul__onnx_trace.
 * Does nothing otherwise. */
void haul__onnx_note(const haul_tensor *t, const void *elements);

#endif
