/* Open files of named tensors. The readers of formats fill the header; loading is common to all. */
#ifndef HAUL_FORMATS_TENSOR_FILE_H
#define HAUL_FORMATS_TENSOR_FILE_H

#include "core/object.h"
#include "formats/safetensors.h"
#include "formats/zip.h"

/* One of the files that have the data. */
typedef struct haul__tensor_part {
    haul__file     file;
    char          *path;    /* that of the file */
    uint64_t       data;    /* where the data begins */
    haul__mapping *mapping; /* NULL: tensors are read */
} haul__tensor_part;

struct haul_safetensors {
    haul__object             object;
    haul__tensor_part       *parts;
    int                      part_count;
    haul__zip                zip; /* of a zip archive */
    haul__safetensors_header header;
};

/* The operation that errors name. */
#define HAUL__OPEN_TENSORS "haul_open_safetensors"

/* Each fills the header of a file whose only part is open. After a failure the caller frees the file. */
haul_status haul__archive_open(haul_safetensors *file); /* a zip archive: one of the following */
haul_status haul__index_open(haul_safetensors *file);   /* the index of sharded files, which become further parts */
haul_status haul__gguf_open(haul_safetensors *file);
haul_status haul__npz_open(haul_safetensors *file);
haul_status haul__torch_open(haul_safetensors *file);

/* The member of PyTorch's archives that describes the tensors; NULL if there is none. */
const haul__zip_member *haul__torch_pickle(const haul__zip *zip);

/* Converts a tensor's elements to row-major ones in the host's byte order; `in` may be changed, and may be `out` if no
 * strides are given. */
void haul__entry_decode(const haul__safetensors_entry *entry, uint8_t *in, uint8_t *out);

#endif
