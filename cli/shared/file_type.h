/* What a file is, by its first bytes. */
#ifndef CLI_SHARED_FILE_TYPE_H
#define CLI_SHARED_FILE_TYPE_H

#include <stdbool.h>
#include <sys/types.h>

typedef enum file_type { FILE_SAFETENSORS, FILE_NPY, FILE_ONNX } file_type;

/* False after a complaint: the file cannot be read, or is of another type, which the complaint names. */
bool file_type_find(const char *path, file_type *out);

/* "a folder", "a symbolic link", "a FIFO (a named pipe)", "a socket" or "a device": the type of a file that is not
 * regular, by its mode. */
const char *file_kind_name(mode_t mode);

#endif
