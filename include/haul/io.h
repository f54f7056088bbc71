/* Files: npy, safetensors, checkpoints.
 *
 * Readers trust nothing: sizes are checked against the file before anything is allocated, and a malformed file is
 * HAUL_FORMAT with a line that names the file and what is wrong. Writers write beside the target, sync, and rename,
 * so that a file is either the old or the new one. Tensors are read to the thread's current device. */
#ifndef HAUL_IO_H
#define HAUL_IO_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/nn.h>
#include <haul/optim.h>
#include <haul/random.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* NumPy's .npy: versions 1 to 3 are read (C and Fortran order, either byte order), version 1 is written. */
HAUL_API haul_tensor *haul_load_npy(const char *path);
HAUL_API haul_status  haul_save_npy(const char *path, haul_tensor *t);

/* Safetensors: named tensors and a flat text-to-text metadata object. */
typedef struct haul_text_pair {
    const char *key, *value;
} haul_text_pair;

HAUL_API haul_status haul_save_safetensors(const char *path, const haul_named_tensor *tensors, int count,
                                           const haul_text_pair *metadata, int metadata_count);

/* An opened file: the header is read and checked, tensors are read when asked for. Belongs to the scope. Names, keys
 * and values live as long as it; counts are -1 on failure. */
typedef struct haul_safetensors haul_safetensors;
typedef struct haul_file_tensor {
    const char *name;
    haul_dtype  dtype;
    haul_shape  shape;
    uint64_t    bytes;
} haul_file_tensor;
HAUL_API haul_safetensors *haul_open_safetensors(const char *path);
HAUL_API int               haul_safetensors_count(const haul_safetensors *file);
HAUL_API haul_status       haul_safetensors_entry(const haul_safetensors *file, int index, haul_file_tensor *out);
HAUL_API haul_tensor      *haul_safetensors_load(haul_safetensors *file, const char *name);
HAUL_API const char       *haul_safetensors_metadata(const haul_safetensors *file, const char *key); /* "" if absent */
HAUL_API int               haul_safetensors_metadata_count(const haul_safetensors *file);
HAUL_API haul_status haul_safetensors_metadata_entry(const haul_safetensors *file, int index, haul_text_pair *out);

/* A module's parameters and buffers as one safetensors file, and back. Loading wants exactly the module's names, shapes
 * and dtypes (an error names the first that differs) and changes nothing unless all fit. */
HAUL_API haul_status haul_save_weights(const char *path, haul_module *module);
HAUL_API haul_status haul_load_weights(const char *path, haul_module *module);

/* A checkpoint: a safetensors file with the weights, the optimizer's state and learning rate, the random state of the
 * process, and the position in the training. Continuing from it gives the same bits as never having stopped. Loading
 * sets all of these, wants the same module and kind of optimizer, and changes nothing when it fails. Keys of `extra`
 * must not begin with "haul."; haul_open_safetensors reads them. */
typedef struct haul_training_position {
    int64_t epoch; /* from 1 */
    int64_t batch; /* batches of that epoch already trained on */
} haul_training_position;

HAUL_API haul_status haul_save_checkpoint(const char *path, haul_module *module, haul_optimizer *optimizer,
                                          haul_training_position position, const haul_text_pair *extra,
                                          int extra_count);
HAUL_API haul_status haul_load_checkpoint(const char *path, haul_module *module, haul_optimizer *optimizer,
                                          haul_training_position *position);

HAUL_END

#endif
