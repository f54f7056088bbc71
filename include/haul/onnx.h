/* ONNX models: loading them as modules, and writing modules as models.
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
 * If, Loop and Scan run their graphs, which may use values of the graphs around them. A condition or a number of
 * repetitions that is computed on the device is read: the call waits once for each If and for each repetition of a
 * Loop, and the model fails in a dry run. Gradients are those of the branch and the repetitions that ran.
 *
 * A model with operators that Haul does not have is refused with HAUL_UNSUPPORTED, before a tensor is allocated; the
 * message names all of them. So are models of more than HAUL_MAX_ARGUMENTS inputs or results, or with tensors that
 * Haul cannot represent. A malformed file fails with HAUL_FORMAT. External data is read from the model's folder and the
 * folders in it; names with ".." and links are refused. Returns NULL on failure. The module belongs to the innermost
 * scope. The files are not used after the call, unless they are mapped.
 *
 * With .map, initialisers in files of external data stay there, mapped into memory: loading copies none of them, pages
 * are read when they are used, and haul_memory_stats_get does not count them. This needs the CPU as current device,
 * 64 KiB of elements or more, which are aligned in the file, and a dtype other than bool; others are read as without
 * .map. Training changes memory only, never the file. A mapped file must not be changed in place, as for
 * haul_open_safetensors: reading a page that truncation removed ends the process with SIGBUS. */
typedef struct HAUL__DESIGNATED haul_load_onnx_options {
    const char *path; /* the model; positional */
    HAUL__GUARD(frozen)
    bool frozen; /* initialisers are buffers: nothing of the module is trained */
    bool map;    /* use initialisers in place in mapped files of external data */
} haul_load_onnx_options;
#define haul_load_onnx(...) haul_load_onnx_with(HAUL__OPTIONS(haul_load_onnx_options, .path = __VA_ARGS__))
HAUL_API haul_module *haul_load_onnx_with(const haul_load_onnx_options *options);

/* Write a module as an ONNX model, for other programs:
 *
 *     haul_save_onnx("net.onnx", net, x);
 *     haul_save_onnx("net.onnx", net, x, .dynamic = true, .opset = 20);
 *
 * The module is called in a dry run, in evaluation mode: nothing is computed, so only shapes and dtypes of the inputs
 * matter. Each call of an operation becomes one or several nodes. Dropout is left out, and batch normalisation uses its
 * running statistics. Parameters and buffers become initialisers with their names, so haul_load_onnx gives a module
 * whose files of weights fit. The model's inputs and results have the names of the module's.
 *
 * Fails with HAUL_UNSUPPORTED if an operation cannot be written; the message names all of these with the module that
 * calls them, and no file is begun. So do functions that read values on the host, for example to choose a branch, and
 * tensors that are neither inputs nor in the module. The file is replaced only when the new one is complete. Models
 * above 2 GiB get a second file, PATH.data; both are complete before either is replaced.
 *
 * - path: the file
 * - module: the module; it is not changed */
typedef struct HAUL__DESIGNATED haul_save_onnx_options {
    haul_tensor *x[HAUL_MAX_ARGUMENTS]; /* inputs of the call, in order; the first NULL ends them; positional */
    HAUL__GUARD(opset)
    int opset; /* the set of operators, from 18 to 28; default 22 */
    /* the batch may have any size. It is the first dimension of the first input, and of all inputs whose first
     * dimension has the same size; other inputs keep their sizes. Fails if the module computes something else for other
     * batches */
    bool dynamic;
    bool external; /* large initialisers go to PATH.data, even if the model is small */
} haul_save_onnx_options;
#ifndef __cplusplus
#define haul_save_onnx(path, module, ...)                                                                              \
    haul_save_onnx_with(path, module, HAUL__OPTIONS(haul_save_onnx_options, .x[0] = __VA_ARGS__))
#endif
HAUL_API haul_status haul_save_onnx_with(const char *path, haul_module *module, const haul_save_onnx_options *options);

HAUL_END

#ifdef __cplusplus
/* haul_save_onnx("net.onnx", net, x). For options other than inputs call haul_save_onnx_with. */
template <typename... T> haul_status haul_save_onnx(const char *path, haul_module *module, T... x)
{
    const haul_save_onnx_options options = haul__options_of_inputs<haul_save_onnx_options>(x...);
    return haul_save_onnx_with(path, module, &options);
}
#endif

#endif
