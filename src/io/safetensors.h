/* The header of a safetensors file, read from bytes in memory so that tests and fuzzers reach it. */
#ifndef HAUL_IO_SAFETENSORS_H
#define HAUL_IO_SAFETENSORS_H

#include <haul/io.h>

/* The format's own limit on the header, and its name for the metadata. */
#define HAUL__SAFETENSORS_HEADER_LIMIT 100000000u
#define HAUL__SAFETENSORS_METADATA     "__metadata__"

typedef struct haul__safetensors_entry {
    char      *name;
    haul_dtype dtype;      /* HAUL_DTYPE_NONE: one that no tensor can have */
    char      *dtype_name; /* as in the file */
    int        bits;       /* of an element; 0: not known */
    haul_shape shape;
    uint64_t   begin, end; /* within the data */
} haul__safetensors_entry;

typedef struct haul__safetensors_header {
    haul__safetensors_entry  *entries;
    haul__safetensors_entry **by_name; /* sorted */
    haul_text_pair           *metadata;
    int                       count, metadata_count;
} haul__safetensors_header;

/* How many bytes of JSON follow the first eight; they are known to lie within the file. */
haul_status haul__safetensors_length(const uint8_t first[8], uint64_t file_size, const char *path, size_t *out);

/* The JSON, checked against `data_size` bytes of data behind it. On failure there is nothing to free. */
haul_status haul__safetensors_parse(const uint8_t *json, size_t size, uint64_t data_size, const char *path,
                                    haul__safetensors_header *out);
void        haul__safetensors_free(haul__safetensors_header *header);

const haul__safetensors_header *haul__safetensors_header_of(const haul_safetensors *file);

/* NULL, with nothing recorded, when there is none of that name. */
const haul__safetensors_entry *haul__safetensors_find(const haul__safetensors_header *header, const char *name);

/* The text under a key of the metadata; NULL when there is none. */
const char *haul__safetensors_find_text(const haul__safetensors_header *header, const char *key);

/* Does t, which haul_safetensors_load made from this file, lie in its mapping? */
bool haul__safetensors_in_place(const haul_safetensors *file, const haul_tensor *t);

/* "F32"; NULL for what the format has no name for. */
const char *haul__safetensors_dtype_name(haul_dtype dtype);

bool haul__is_utf8(const uint8_t *text, size_t size);

/* A name out of a file for a message: on one line, shortened. Returns buffer. */
#define HAUL__QUOTED_SIZE 80
char *haul__quoted(const char *name, char buffer[HAUL__QUOTED_SIZE]);

#endif
