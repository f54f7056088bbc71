/* ONNX models: loading them as modules.
 *
 * A model of the format of onnx.ai is a graph of operators with named values. haul_load_onnx makes it a module, which
 * works with all functions of nn.h. */
#ifndef HAUL_ONNX_H
#define HAUL_ONNX_H

#include <haul/base.h>
#include <haul/nn.h>

HAUL_BEGIN

/* Load an ONNX model, as PyTorch's torch.onnx.export writes it:
 *
 *     haul_module *net = haul_load_onnx("model.onnx");
 *     haul_tensor *y = haul_call(net, x);
 *
 * The result is a module of the kind "onnx", made on the calling thread's current device. Its inputs and results are
 * those of the graph, in the graph's order. Its parameters have the names of the graph's initialisers: dots in a name
 * lead through children, as in "layer1.0.weight", so that files of weights fit models of the same names. A name with
 * empty parts, with more than 16 parts, or with a part that is already a tensor has underscores instead of dots.
 *
 * Initialisers of a floating dtype are parameters, but those without dimensions and the running statistics of batch
 * normalisation are buffers, as are initialisers of other dtypes. Small constants that only say how an operator works,
 * shapes and axes for example, stay on the host and are neither. The module starts in evaluation
 * mode. In training mode Dropout is active, and BatchNormalization updates its statistics.
 *
 * Shapes that depend on sizes only are computed on the host in each call, so nothing waits for them, and inputs may
 * have other sizes than those at the export.
 *
 * A model with operators that Haul does not have is refused with HAUL_UNSUPPORTED, before a tensor is allocated; the
 * message names all of them. So are models of more than HAUL_MAX_ARGUMENTS inputs or results, with control flow, or
 * with tensors that Haul cannot represent. A malformed file fails with HAUL_FORMAT. External data is read from the
 * model's folder and the folders in it; names with ".." and links are refused. Returns
 * NULL on failure. The module belongs to the innermost scope; the file is not used after the call. */
typedef struct HAUL__DESIGNATED haul_load_onnx_options {
    const char *path; /* the model; positional */
    HAUL__GUARD(frozen)
    bool frozen; /* initialisers are buffers: nothing of the module is trained */
} haul_load_onnx_options;
#define haul_load_onnx(...) haul_load_onnx_with(HAUL__OPTIONS(haul_load_onnx_options, .path = __VA_ARGS__))
HAUL_API haul_module *haul_load_onnx_with(const haul_load_onnx_options *options);

HAUL_END

#endif
