/* What a file is, by its first bytes: for readers to say of a file that is not theirs. */
#ifndef HAUL_FORMATS_FILE_TYPE_H
#define HAUL_FORMATS_FILE_TYPE_H

#include <haul/error.h>

/* The number of first bytes that are enough. */
#define HAUL__FILE_HEAD 512

typedef struct haul__file_type {
    const char *magic; /* its first `length` bytes */
    size_t      length;
    const char *name;    /* "a PNG picture" */
    const char *advice;  /* what to do with it; NULL: nothing is known */
    bool        is_text; /* UTF-8, of which several formats are made */
} haul__file_type;

extern const haul__file_type haul__file_npy, haul__file_safetensors, haul__file_npz, haul__file_torch, haul__file_index,
    haul__file_gguf, haul__file_onnx;

/* The type of a file that begins with these bytes, the first HAUL__FILE_HEAD or all. NULL if it is not known. */
const haul__file_type *haul__file_type_of(const void *head, size_t size);

/* Fails with HAUL_FORMAT, "PATH is not WANTED, but ...", if the type is known. Else returns HAUL_OK, and the reader
 * reports the error. */
haul_status haul__refuse_file_type(const haul__file_type *type, const char *operation, const char *path,
                                   const char *wanted);

#endif
