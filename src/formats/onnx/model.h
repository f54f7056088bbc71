/* ONNX models (github.com/onnx/onnx, onnx.proto): the graph as values.
 *
 * Everything is checked while the file is read: lengths against the message around them, sizes of tensors against the
 * bytes that are stored, texts for UTF-8. Arrays are allocated for elements that were counted in the file, never for a
 * size that the file claims, so that a model takes at most HAUL__ONNX_MEMORY bytes for each byte of its file. Graphs
 * may be nested, in attributes of control flow, at most HAUL__ONNX_DEPTH deep. */
#ifndef HAUL_FORMATS_ONNX_MODEL_H
#define HAUL_FORMATS_ONNX_MODEL_H

#include <haul/error.h>
#include <haul/tensor.h>

#include "files/file.h"
#include "formats/onnx/protobuf.h"

enum { HAUL__ONNX_MEMORY = 64, HAUL__ONNX_DEPTH = 8 };

/* The field of TensorProto with elements as they are in memory, and the size from which on its content is left in the
 * file. */
enum { HAUL__ONNX_RAW = 9, HAUL__ONNX_LEFT_OUT = 1 << 16 };

typedef struct haul__onnx_tensor {
    const char       *name;  /* "" if there is none */
    haul_dtype        dtype; /* HAUL_DTYPE_NONE: Haul does not have it */
    haul_shape        shape;
    int64_t           count;        /* of elements */
    const char       *fault;        /* why it cannot be a tensor; NULL: it can */
    haul__bytes       message;      /* the tensor in the file */
    uint32_t          field;        /* which field of it has the elements; 0: none, they are in another file */
    const char       *location;     /* of that file, in the model's folder */
    uint64_t          offset, size; /* of the elements in that file; size 0: all that follow */
    const haul__file *file;         /* the model's file, where the elements are at `offset`; NULL: it is in memory */
} haul__onnx_tensor;

struct haul__onnx_graph;

typedef enum haul__onnx_attribute_type {
    HAUL__ONNX_FLOAT = 1,
    HAUL__ONNX_INT = 2,
    HAUL__ONNX_STRING = 3,
    HAUL__ONNX_TENSOR = 4,
    HAUL__ONNX_GRAPH = 5,
    HAUL__ONNX_FLOATS = 6,
    HAUL__ONNX_INTS = 7,
    HAUL__ONNX_STRINGS = 8
} haul__onnx_attribute_type;

typedef struct haul__onnx_attribute {
    const char              *name;
    int64_t                  type; /* as the file has it: haul__onnx_attribute_type, or another number */
    float                    f;
    int64_t                  i;
    const char              *text; /* of a string; NULL: it has none, or one that is not UTF-8 */
    int64_t                 *ints;
    float                   *floats;
    const char             **texts; /* of a list of strings; NULL for one that is not UTF-8 */
    size_t                   int_count, float_count, text_count;
    haul__onnx_tensor       *tensor;
    struct haul__onnx_graph *graph;
} haul__onnx_attribute;

typedef struct haul__onnx_node {
    const char           *name, *type, *domain; /* "" if there is none */
    const char          **inputs, **outputs;    /* names of values; "" for one that is left out */
    haul__onnx_attribute *attributes;
    size_t                input_count, output_count, attribute_count;
} haul__onnx_node;

/* An input or a result of a graph. */
typedef struct haul__onnx_value {
    const char *name;
    haul_dtype  dtype;                /* HAUL_DTYPE_NONE: Haul does not have it, or it is not a tensor */
    int64_t     element_type;         /* the dtype's number in the file; 0: the value is not a tensor */
    int         ndim;                 /* -1: not known */
    int64_t     dims[HAUL_MAX_DIMS];  /* -1: not known */
    const char *names[HAUL_MAX_DIMS]; /* of sizes that are not known; NULL: without a name */
} haul__onnx_value;

typedef struct haul__onnx_graph {
    const char        *name;
    haul__onnx_node   *nodes;
    haul__onnx_tensor *tensors; /* initialisers */
    haul__onnx_value  *inputs, *outputs;
    size_t             node_count, tensor_count, input_count, output_count;
    bool               has_sparse; /* initialisers that are sparse, which are not read */
} haul__onnx_graph;

typedef struct haul__onnx_block haul__onnx_block;

typedef struct haul__onnx_model {
    int64_t           ir_version;
    int64_t           opset;                       /* of the domain ai.onnx; 0: none is imported */
    const char       *producer, *producer_version; /* "" if there is none */
    size_t            functions;                   /* how many the model defines */
    haul__onnx_graph  graph;
    haul__onnx_block *blocks; /* the memory of all this */
    size_t            memory; /* bytes of it */
} haul__onnx_model;

/* Reads a file into memory that has room for all of it, but for elements that take HAUL__ONNX_LEFT_OUT bytes or more:
 * those stay as they are, and pages of the memory that were not used before take none. */
haul_status haul__onnx_skim(const haul__file *file, uint8_t *data);

/* Reads a model from the bytes of a file, in which it then points. `path` is for messages. `skimmed` is the file if
 * haul__onnx_skim has read it, which must be open as long as elements are copied; else NULL. After a failure there is
 * nothing to free. */
haul_status haul__onnx_read(haul__onnx_model *model, haul__bytes file, const haul__file *skimmed, const char *path,
                            const char *operation);
void        haul__onnx_free(haul__onnx_model *model);

/* True if the bytes may begin a model. ONNX files have no signature: this is the field of the version, which all
 * writers put first. */
bool haul__onnx_recognise(const void *head, size_t size);

/* The dtype of a number of ONNX's enumeration, and the name that ONNX has for it; "an unknown type". */
haul_dtype  haul__onnx_dtype(int64_t number);
const char *haul__onnx_dtype_name(int64_t number);

/* Copies the elements of a tensor without fault, row-major and in the host's byte order. `model_path` is the file of
 * the model: the elements may be in a file in its folder or below, never behind a link or "..". */
haul_status haul__onnx_elements(const haul__onnx_tensor *tensor, const char *model_path, const char *operation,
                                void *out, size_t bytes);

/* HAUL_OK if its elements are not in another file, or if that file is there and has so many bytes from the tensor's
 * place on. */
haul_status haul__onnx_check_external(const haul__onnx_tensor *tensor, const char *model_path, const char *operation,
                                      size_t bytes);

/* A file of elements that is mapped. One is kept from tensor to tensor, because most models have one. */
typedef struct haul__onnx_mapped {
    const char    *location;
    uint64_t       size;
    haul__mapping *mapping; /* NULL: there is none yet. The owner must release it */
} haul__onnx_mapped;

/* Where the elements of a tensor are in the mapping `mapped`, which is made if it is that of another file. NULL,
 * without an error, if they cannot be used in place: they are in the model's file, not aligned, or truth values, of
 * which any byte but 0 is true. NULL with `status` on failure. */
void *haul__onnx_map_external(const haul__onnx_tensor *tensor, const char *model_path, const char *operation,
                              size_t bytes, haul__onnx_mapped *mapped, haul_status *status);

#endif
