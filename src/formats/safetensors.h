/* The header of a safetensors file, parsed from bytes in memory so that tests and fuzzers can call it. Readers of other
 * formats make the same header (tensor_file.h). */
#ifndef HAUL_FORMATS_SAFETENSORS_H
#define HAUL_FORMATS_SAFETENSORS_H

#include <haul/io.h>

#include "files/file.h"

/* The format's limit on the size of the header, and its name for the metadata. */
#define HAUL__SAFETENSORS_HEADER_LIMIT 100000000u
#define HAUL__SAFETENSORS_METADATA     "__metadata__"

typedef struct haul__safetensors_entry {
    char      *name;
    haul_dtype dtype;      /* HAUL_DTYPE_NONE: a dtype that tensors cannot have */
    char      *dtype_name; /* the name in the file */
    int        bits;       /* of an element; 0: unknown */
    haul_shape shape;
    uint64_t   begin, end; /* offsets within the data, or within the member */
    char      *fault;      /* why it cannot be loaded, if not for its dtype; NULL: it can */
    /* Of other formats than safetensors: */
    int                            part;    /* which file has it */
    const struct haul__zip_member *member;  /* of a zip archive */
    int64_t                       *strides; /* in elements from `begin` on; NULL: row-major, without gaps */
    bool                           big_endian;
    bool                           checked; /* the member's checksum covers it */
} haul__safetensors_entry;

typedef struct haul__safetensors_header {
    haul__safetensors_entry  *entries;
    haul__safetensors_entry **by_name; /* sorted */
    haul_text_pair           *metadata;
    int                       count, metadata_count;
    const char               *format; /* "safetensors", "npz", "gguf" */
    const char               *root;   /* the names of weights begin with this text; NULL: no text is before them */
} haul__safetensors_header;

/* How many bytes of JSON follow the first eight; they are within the file. */
haul_status haul__safetensors_length(const uint8_t first[8], uint64_t file_size, const char *path, size_t *out);

/* Parses the JSON, with `data_size` bytes of data after it. After a failure there is nothing to free. */
haul_status haul__safetensors_parse(const uint8_t *json, size_t size, uint64_t data_size, const char *path,
                                    haul__safetensors_header *out);
void        haul__safetensors_free(haul__safetensors_header *header);

/* Reads the header of an open file; *data becomes the offset of the data. If the file is of another type that is known,
 * the message names it. */
haul_status haul__safetensors_read_header(const haul__file *file, haul__safetensors_header *out, uint64_t *data);

/* Sorts the entries by name, and refuses a name that occurs twice. */
haul_status haul__safetensors_sort(haul__safetensors_header *header, const char *path);

/* Sorts the metadata by key. True if a key occurs twice. */
bool haul__safetensors_sort_metadata(haul__safetensors_header *header);

const haul__safetensors_header *haul__safetensors_header_of(const haul_safetensors *file);

/* Returns NULL, without recording an error, if there is no tensor of that name. */
const haul__safetensors_entry *haul__safetensors_find(const haul__safetensors_header *header, const char *name);

/* The text under a key of the metadata; NULL if there is none. */
const char *haul__safetensors_find_text(const haul__safetensors_header *header, const char *key);

/* True if t, which haul_safetensors_load made from this file, is in its mapping. */
bool haul__safetensors_in_place(const haul_safetensors *file, const haul_tensor *t);

/* "F32"; NULL if the format has no name for the dtype. */
const char *haul__safetensors_dtype_name(haul_dtype dtype);

#endif
