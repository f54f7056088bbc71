/* What the files of the reader share. */
#ifndef HAUL_FORMATS_ONNX_READER_H
#define HAUL_FORMATS_ONNX_READER_H

#include "formats/onnx/model.h"

typedef struct haul__onnx_reader {
    haul__onnx_model *model;
    haul__bytes       file;
    const haul__file *skimmed; /* NULL: all of the file is in memory */
    const char       *path, *operation;
    size_t            budget; /* bytes that may still be allocated */
    int               depth;  /* of the graph that is read */
} haul__onnx_reader;

/* Fails with HAUL_FORMAT: the file is not valid, for the reason `what`, at `place`. */
haul_status haul__onnx_malformed(const haul__onnx_reader *r, const uint8_t *place, const char *what);
/* Fails if the cursor found a fault. */
haul_status haul__onnx_end(const haul__onnx_reader *r, const haul__cursor *cursor);
/* Fails unless the field has this wire type. */
haul_status haul__onnx_wire(const haul__onnx_reader *r, const haul__field *field, haul__wire wire);

/* Zeroed memory of the model, for `count` elements. NULL, with an error, if it is more than the file justifies. */
void *haul__onnx_room(haul__onnx_reader *r, size_t count, size_t size);
/* A copy of a text field. */
haul_status haul__onnx_text(haul__onnx_reader *r, const haul__field *field, const char **out);

haul_status haul__onnx_read_tensor(haul__onnx_reader *r, const haul__field *field, haul__onnx_tensor *out);
haul_status haul__onnx_read_attribute(haul__onnx_reader *r, const haul__field *field, haul__onnx_attribute *out);
haul_status haul__onnx_read_graph(haul__onnx_reader *r, const haul__field *field, haul__onnx_graph *out);

#endif
