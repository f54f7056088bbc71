/* Files: npy, safetensors, checkpoints.
 *
 * Files are validated before use: sizes are checked against the file before anything is allocated, and a malformed file
 * is HAUL_FORMAT with a message that names the file and says what is wrong. Writers write to NAME.tmp, sync, and rename
 * it, so that a file is either the old or the new one. Tensors are read to the thread's current device. */
#ifndef HAUL_IO_H
#define HAUL_IO_H

#include <haul/average.h>
#include <haul/base.h>
#include <haul/error.h>
#include <haul/nn.h>
#include <haul/optim.h>
#include <haul/random.h>
#include <haul/schedule.h>
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
 * and values live as long as it; counts are -1 on failure.
 *
 * With .map = true the file is mapped into memory, and haul_safetensors_load gives tensors that use the mapped memory
 * in place. Pages are read from disk when they are touched. This needs the CPU as current device, elements that are
 * aligned in the file, and a dtype other than bool; other tensors are read as without .map. The mapping ends with the
 * last tensor in it. Writing to these tensors changes memory only, never the file. haul_memory_stats_get does not count
 * them.
 *
 * A mapped file must not be changed in place. Whether a tensor sees the change is undefined. Touching a page that
 * truncation removed ends the process with SIGBUS, which no library can turn into an error. Replacing the file by
 * renaming another one over it is safe, and all of Haul's writers do so. */
typedef struct haul_safetensors haul_safetensors;
typedef struct HAUL__DESIGNATED haul_open_safetensors_options {
    const char *path; /* positional */
    HAUL__GUARD
    bool map;
} haul_open_safetensors_options;
#define haul_open_safetensors(...)                                                                                     \
    haul_open_safetensors_with(HAUL__OPTIONS(haul_open_safetensors_options, .path = __VA_ARGS__))
HAUL_API haul_safetensors *haul_open_safetensors_with(const haul_open_safetensors_options *options);

/* Every tensor is listed. One whose dtype Haul does not have has HAUL_DTYPE_NONE here, and only loading it fails. */
typedef struct haul_file_tensor {
    const char *name;
    haul_dtype  dtype;
    const char *dtype_name; /* as in the file, "F32" or "F8_E4M3" */
    haul_shape  shape;
    uint64_t    bytes;
} haul_file_tensor;
HAUL_API int          haul_safetensors_count(const haul_safetensors *file);
HAUL_API haul_status  haul_safetensors_entry(const haul_safetensors *file, int index, haul_file_tensor *out);
HAUL_API haul_tensor *haul_safetensors_load(haul_safetensors *file, const char *name);
HAUL_API const char  *haul_safetensors_metadata(const haul_safetensors *file, const char *key); /* "" if absent */
HAUL_API int          haul_safetensors_metadata_count(const haul_safetensors *file);
HAUL_API haul_status  haul_safetensors_metadata_entry(const haul_safetensors *file, int index, haul_text_pair *out);

/* A module's parameters and buffers as one safetensors file: haul_save_weights(path, module). The file's metadata has
 * the entry "format": "pt", which PyTorch's readers look for, and those in `metadata`; a "format" there replaces it. */
typedef struct HAUL__DESIGNATED haul_save_weights_options {
    haul_module *module; /* positional */
    HAUL__GUARD
    const haul_text_pair *metadata;
    int                   metadata_count;
} haul_save_weights_options;
#define haul_save_weights(path, ...)                                                                                   \
    haul_save_weights_with(path, HAUL__OPTIONS(haul_save_weights_options, .module = __VA_ARGS__))
HAUL_API haul_status haul_save_weights_with(const char *path, const haul_save_weights_options *options);

/* What haul_load_weights did. The names belong to the innermost scope at the time of the call. */
typedef struct haul_weights_report {
    int                loaded;                          /* tensors of the module that have their values from the file */
    int                converted;                       /* of these: from another dtype */
    int                mapped;                          /* of these: used in place in the mapped file */
    int                missing_count, unexpected_count; /* 0 unless .partial */
    const char *const *missing;                         /* in the module and not in the file; their values stay */
    const char *const *unexpected;                      /* in the file and not in the module */
} haul_weights_report;

/* Load weights: haul_load_weights(path, module). Unless an option says otherwise the file must hold exactly the
 * module's names, shapes and dtypes. An error names the first difference, and nothing changes unless everything fits.
 *   .prefix      loads only tensors whose names in the file begin with this prefix, and strips the prefix;
 *   .add_prefix  prepends this prefix to the names in the file; the module's other tensors keep their values;
 *   .partial     skips tensors that are only in the file or only in the module. At least one must be in both;
 *   .convert     converts floating dtypes to each other, and integers to dtypes that hold all their values;
 *   .map         uses a tensor in place in the mapped file if it is on the CPU and contiguous, it needs no conversion,
 *                and haul_open_safetensors(.map) allows it; the others are copied. Handles stay valid; views made
 *                before keep the old memory. */
typedef struct HAUL__DESIGNATED haul_load_weights_options {
    haul_module *module; /* positional */
    HAUL__GUARD
    const char          *prefix, *add_prefix;
    bool                 partial, convert, map;
    haul_weights_report *report; /* filled on success; zeros on failure */
} haul_load_weights_options;
#define haul_load_weights(path, ...)                                                                                   \
    haul_load_weights_with(path, HAUL__OPTIONS(haul_load_weights_options, .module = __VA_ARGS__))
HAUL_API haul_status haul_load_weights_with(const char *path, const haul_load_weights_options *options);

/* A checkpoint: a safetensors file with the weights of a module, the state and all settings of its optimizers, the
 * state of schedules and averages, the random state, and the position in the training. Continuing from it gives the
 * same bits as never having stopped:
 *
 *     haul_save_checkpoint("run.checkpoint", net, adam, .position = &position);
 *     haul_load_checkpoint("run.checkpoint", net, adam, .position = &position);
 *
 * Both calls take the same options. Loading sets everything, wants the same module, and optimizers, schedules and
 * averages of the same kinds in the same order, and changes nothing when it fails. Settings of the optimizers, such as
 * momentum, become those of the file; haul_optimizer_set changes them afterwards. Files of earlier versions, with one
 * optimizer, are read; of settings they have the learning rate.
 *
 * Saving fails if state would be lost: if an optimizer of the list has parameters that the module does not hold,
 * another one has made steps with parameters of the module, a schedule belongs to another optimizer, an optimizer has a
 * second gradient scaler in use, or averages are swapped in. Loading refuses state of a scaler that the optimizer does
 * not have. */
typedef struct haul_training_position {
    int64_t epoch; /* from 1 */
    int64_t batch; /* batches of that epoch already trained on */
} haul_training_position;

typedef struct HAUL__DESIGNATED haul_checkpoint_options {
    haul_module    *module;    /* positional */
    haul_optimizer *optimizer; /* positional; NULL: those of .optimizers only */
    HAUL__GUARD
    haul_training_position *position;   /* saving reads it, loading writes it */
    haul_optimizer *const  *optimizers; /* further ones */
    int                     optimizer_count;
    haul_schedule *const   *schedules;
    int                     schedule_count;
    haul_average *const    *averages;
    int                     average_count;
    const haul_text_pair   *extra; /* of saving: further texts, with keys that do not begin with "haul." */
    int                     extra_count;
} haul_checkpoint_options;
#define haul_save_checkpoint(path, module_, ...)                                                                       \
    haul_save_checkpoint_with(path, HAUL__OPTIONS(haul_checkpoint_options, .module = module_, .optimizer = __VA_ARGS__))
#define haul_load_checkpoint(path, module_, ...)                                                                       \
    haul_load_checkpoint_with(path, HAUL__OPTIONS(haul_checkpoint_options, .module = module_, .optimizer = __VA_ARGS__))
HAUL_API haul_status haul_save_checkpoint_with(const char *path, const haul_checkpoint_options *options);
HAUL_API haul_status haul_load_checkpoint_with(const char *path, const haul_checkpoint_options *options);

HAUL_END

#endif
