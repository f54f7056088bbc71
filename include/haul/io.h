/* Files: tensors in npy, npz, safetensors, GGUF and PyTorch files, and weights. Checkpoints of a training are in
 * train.h.
 *
 * Files are validated before use: sizes are checked against the file before anything is allocated, and a malformed file
 * fails with HAUL_FORMAT and a message that names the file and the fault. Writers write to NAME.tmp, sync it, and
 * rename it, so that a file is either the old one or the new one. It keeps the permissions of the old one; those of a
 * new file follow the umask. If NAME is a symbolic link, the file that it points to is replaced. Tensors are read to
 * the calling thread's current device. */
#ifndef HAUL_IO_H
#define HAUL_IO_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/nn.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* Read or write a tensor as a NumPy .npy file. Versions 1 to 3 are read, in C and Fortran order and in either byte
 * order; version 1 is written. */
HAUL_API haul_tensor *haul_load_npy(const char *path);
HAUL_API haul_status  haul_save_npy(const char *path, haul_tensor *t);

/* Two texts, for example an entry of a file's metadata. */
typedef struct haul_text_pair {
    const char *key, *value; /* key: the name of the entry; value: its text */
} haul_text_pair;

/* Write named tensors, and metadata, as a safetensors file.
 *
 * - count: the number of `tensors`
 * - metadata, metadata_count: texts to write to the file, and their number; may be NULL and 0 */
HAUL_API haul_status haul_save_safetensors(const char *path, const haul_named_tensor *tensors, int count,
                                           const haul_text_pair *metadata, int metadata_count);

/* Write named tensors as a NumPy .npz file, an archive that numpy.load reads; haul_open_safetensors opens it. bf16 is
 * refused: the format has no name for it.
 *
 * - compress: deflate the arrays, as numpy.savez_compressed does. This needs memory for one compressed array, and a
 *   build with zlib */
HAUL_API haul_status haul_save_npz(const char *path, const haul_named_tensor *tensors, int count, bool compress);

/* An open file of named tensors. It belongs to a scope. Names, keys and values live as long as it. */
typedef struct haul_safetensors haul_safetensors;

/* Open a safetensors file: haul_open_safetensors("weights.safetensors"). The header is read and checked; tensors are
 * read when they are loaded. Files of these formats are recognised by their first bytes, and listed and loaded alike:
 *
 * - NumPy's npz files, stored or compressed, with NumPy's names for the arrays;
 * - PyTorch's .pt and .pth files, as torch.save has written them since version 1.6: state dictionaries, also nested,
 *   whose names then have dots between the keys: "optimizer.state.0.exp_avg". Strides and shared storages are
 *   honoured. Nothing is executed: a file with other Python objects than numbers, texts, containers and tensors is
 *   refused, and the error names the object;
 * - GGUF files of versions 2 and 3, in little-endian order: tensors of the types F32, F16, BF16, F64 and I8 to I64. The
 *   named values are the metadata, as texts; of an array it says how many elements of which type it has;
 * - sharded safetensors: path is that of the index, "model.safetensors.index.json". The files must be in its folder,
 * not links that lead out of it, and hold exactly the tensors that the index expects there.
 *
 * A tensor that cannot be represented is listed with the reason, and only loading it fails.
 *
 * With .map the file is mapped into memory, and haul_safetensors_load gives tensors that use the mapped memory in
 * place. Pages are read from disk when they are used. This needs the CPU as current device, elements that are aligned
 * in the file, and a dtype other than bool; other tensors are read as without .map. The mapping ends with the last
 * tensor in it. Writing to these tensors changes memory only, never the file. haul_memory_stats_get does not count
 * them.
 *
 * A mapped file must not be changed in place. Whether a tensor sees the change is undefined. Reading a page that
 * truncation removed ends the process with SIGBUS, which no library can turn into an error. Replacing the file by
 * renaming another one over it is safe, and all of Haul's writers do so. */
typedef struct HAUL__DESIGNATED haul_open_safetensors_options {
    const char *path; /* the file; positional */
    HAUL__GUARD(map)
    bool map; /* use tensors in place in the mapped file */
} haul_open_safetensors_options;
#define haul_open_safetensors(...)                                                                                     \
    haul_open_safetensors_with(HAUL__OPTIONS(haul_open_safetensors_options, .path = __VA_ARGS__))
HAUL_API haul_safetensors *haul_open_safetensors_with(const haul_open_safetensors_options *options);

/* A tensor of an open file. Tensors whose dtype Haul does not have are listed, too; only loading them fails. */
typedef struct haul_file_tensor {
    const char *name;       /* the name of the tensor */
    haul_dtype  dtype;      /* HAUL_DTYPE_NONE if Haul does not have it */
    const char *dtype_name; /* the dtype as written in the file, "F32" or "F8_E4M3" */
    haul_shape  shape;      /* the shape */
    uint64_t    bytes;      /* the size in the file */
    const char *fault;      /* why it cannot be loaded, though Haul may have its dtype; else NULL */
} haul_file_tensor;

/* The number of tensors in the file; -1 on failure. */
HAUL_API int haul_safetensors_count(const haul_safetensors *file);

/* Fill *out with tensor `index`, from 0. */
HAUL_API haul_status haul_safetensors_entry(const haul_safetensors *file, int index, haul_file_tensor *out);

HAUL_API haul_tensor *haul_safetensors_load(haul_safetensors *file, const char *name); /* load a tensor by its name */

/* The text of a key of the metadata; "" if there is none, and on failure. */
HAUL_API const char *haul_safetensors_metadata(const haul_safetensors *file, const char *key);

/* The number of entries of the metadata; -1 on failure. */
HAUL_API int haul_safetensors_metadata_count(const haul_safetensors *file);

/* Fill *out with entry `index` of the metadata, from 0. */
HAUL_API haul_status haul_safetensors_metadata_entry(const haul_safetensors *file, int index, haul_text_pair *out);

/* Write the parameters and buffers of a module as a safetensors file: haul_save_weights("weights.safetensors", net).
 * The metadata has the entry "format": "pt", which PyTorch's readers look for, and those of .metadata; a "format" there
 * replaces it. */
typedef struct HAUL__DESIGNATED haul_save_weights_options {
    haul_module *module; /* the module; positional */
    HAUL__GUARD(metadata)
    const haul_text_pair *metadata;       /* further entries of the metadata */
    int                   metadata_count; /* the number of .metadata */
} haul_save_weights_options;
#define haul_save_weights(path, ...)                                                                                   \
    haul_save_weights_with(path, HAUL__OPTIONS(haul_save_weights_options, .module = __VA_ARGS__))
HAUL_API haul_status haul_save_weights_with(const char *path, const haul_save_weights_options *options);

/* What haul_load_weights did. The names belong to the scope that was innermost at the call. */
typedef struct haul_weights_report {
    int loaded;    /* tensors of the module that got their values from the file */
    int converted; /* of these: converted from another dtype */
    int mapped;    /* of these: used in place in the mapped file */
    /* missing_count: how many are `missing`; unexpected_count: how many are `unexpected` */
    int                missing_count, unexpected_count;
    const char *const *missing;    /* in the module and not in the file; their values stay. None unless .partial */
    const char *const *unexpected; /* in the file and not in the module. None unless .partial */
} haul_weights_report;

/* Load weights into a module: haul_load_weights("weights.safetensors", net), from a file of any format that
 * haul_open_safetensors reads. Unless an option says otherwise, the file must hold exactly the module's names, shapes
 * and dtypes. If a tensor of the module has several names, the file may have any of them, and must have the same values
 * under each. An error names the first difference, and nothing changes unless everything fits. */
typedef struct HAUL__DESIGNATED haul_load_weights_options {
    haul_module *module; /* the module; positional */
    HAUL__GUARD(prefix)
    /* prefix: load only tensors whose names in the file begin with this text, and remove it. Default: of a PyTorch file
     * whose dictionary has a dictionary "state_dict", "model_state_dict", "model", "net" or "module", this one and a
     * dot; of others none. add_prefix: put this text before the names in the file; other tensors of the module keep
     * their values */
    const char *prefix, *add_prefix;
    /* partial: skip tensors that are only in the file or only in the module; at least one must be in both. convert:
     * convert floating dtypes to each other, and integers to dtypes that hold all their values. map: use a tensor in
     * place in the mapped file if it is on the CPU and contiguous, needs no conversion, and haul_open_safetensors could
     * map it; the others are copied. Handles stay valid; views made before keep the old memory */
    bool                 partial, convert, map;
    haul_weights_report *report; /* the loaded tensors; filled on success, zeros on failure */
    /* without: leave out the module's tensors whose names begin with this text, for example "fc.": they keep their
     * values. The file may lack them, or have them with any shape */
    const char *without;
} haul_load_weights_options;
#define haul_load_weights(path, ...)                                                                                   \
    haul_load_weights_with(path, HAUL__OPTIONS(haul_load_weights_options, .module = __VA_ARGS__))
HAUL_API haul_status haul_load_weights_with(const char *path, const haul_load_weights_options *options);

HAUL_END

#endif
