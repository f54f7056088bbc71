/* Writing ONNX models: the graph while it is made, and what a row of exports.def may call.
 *
 * A dry run of a module lists calls of operations. The function of an operation's row adds the nodes that compute the
 * same, and returns the value that is the call's first result. Values are numbers; ABSENT is an operand that is left
 * out. Functions that add something do nothing after memory is exhausted, and return ABSENT. */
#ifndef HAUL_ONNX_EXPORT_EXPORT_H
#define HAUL_ONNX_EXPORT_EXPORT_H

#include <haul/nn.h>
#include <haul/program.h>

#include "engine/operation.h"
#include "formats/onnx/writer.h"

enum { HAUL__ONNX_ABSENT = -1, HAUL__ONNX_OLDEST_SAVED = 18, HAUL__ONNX_MODULE = 80 };

typedef struct haul__onnx_saved_node {
    const char   *type;
    int           input, input_count; /* in the graph's list of numbers */
    int           output, output_count;
    haul__message attributes;
    char          module[HAUL__ONNX_MODULE]; /* path of the module that makes it */
    bool          needed;
} haul__onnx_saved_node;

typedef struct haul__onnx_saved_value {
    char *name; /* NULL: it gets one when the graph is written */
    int   node; /* that makes it; -1: none does */
    bool  needed;
} haul__onnx_saved_value;

/* An initialiser: a tensor of the module, or a few elements in memory. */
typedef struct haul__onnx_saved_tensor {
    int          value;
    haul_tensor *tensor; /* NULL: the elements are in the graph's bytes */
    haul_dtype   dtype;
    haul_shape   shape;
    size_t       at, bytes;
    uint64_t     offset; /* in the file of external data, in which it is if `external` */
    bool         external;
} haul__onnx_saved_tensor;

/* An input or a result: its shape in both runs, which differ where the batch is any number. */
typedef struct haul__onnx_saved_port {
    int        value;
    haul_dtype dtype;
    haul_shape shape, other;
} haul__onnx_saved_port;

typedef struct haul__onnx_saved {
    const char *operation; /* for messages */
    int64_t     opset;
    int64_t     batch[2]; /* the first size of the inputs in both runs; equal: it is fixed */
    bool        failed;   /* memory is exhausted */

    haul__onnx_saved_node   *nodes;
    haul__onnx_saved_value  *values;
    haul__onnx_saved_tensor *tensors;
    int                     *numbers;
    uint8_t                 *bytes;
    size_t                   node_count, value_count, tensor_count, number_count, byte_count;
    size_t                   node_room, value_room, tensor_room, number_room, byte_room;
    haul__onnx_saved_port    inputs[HAUL_MAX_ARGUMENTS], outputs[HAUL_MAX_ARGUMENTS];
    int                      input_count, output_count;
    int                      batch_value; /* the first size of the inputs, as [1] of i64; ABSENT: it is not made yet */
    char                     module[HAUL__ONNX_MODULE]; /* for the nodes that are added */
} haul__onnx_saved;

void haul__onnx_saved_free(haul__onnx_saved *g);

/* ---- adding ---- */

/* A named value; the name is changed if another value has it. */
int haul__onnx_add_value(haul__onnx_saved *g, const char *name, int node);
int haul__onnx_add_tensor(haul__onnx_saved *g, const char *name, haul_tensor *t);
/* A node with one result, or with several, whose numbers follow each other. */
int haul__onnx_add_node(haul__onnx_saved *g, const char *type, const int *inputs, int count);
int haul__onnx_add_nodes(haul__onnx_saved *g, const char *type, const int *inputs, int count, int results);
#define HAUL__ONNX_NODE(g, type, ...)                                                                                  \
    haul__onnx_add_node(g, type, (const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

/* Attributes of the node that was added last. */
void haul__onnx_set_int(haul__onnx_saved *g, const char *name, int64_t value);
void haul__onnx_set_float(haul__onnx_saved *g, const char *name, double value);
void haul__onnx_set_text(haul__onnx_saved *g, const char *name, const char *value);
void haul__onnx_set_texts(haul__onnx_saved *g, const char *name, const char *const *values, int count);
void haul__onnx_set_ints(haul__onnx_saved *g, const char *name, const int64_t *values, int count);
void haul__onnx_set_number(haul__onnx_saved *g, const char *name, haul_dtype dtype, double value); /* a tensor [1] */

/* Constants: whole numbers as [count] of i64, or without dimensions; a number of a dtype; the same number `count`
 * times. */
int haul__onnx_add_ints(haul__onnx_saved *g, const int64_t *values, int count);
int haul__onnx_add_int(haul__onnx_saved *g, int64_t value);
int haul__onnx_add_number(haul__onnx_saved *g, haul_dtype dtype, double value);
int haul__onnx_add_repeated(haul__onnx_saved *g, haul_dtype dtype, double value, int64_t count);
/* Elements that the graph's bytes have already. */
int haul__onnx_add_constant(haul__onnx_saved *g, haul_dtype dtype, const haul_shape *shape, size_t at, size_t bytes);
int haul__onnx_add_cast(haul__onnx_saved *g, int x, haul_dtype dtype);

/* ---- a call ---- */

typedef struct haul__onnx_saved_row haul__onnx_saved_row;

typedef struct haul__onnx_saving {
    haul__onnx_saved           *g;
    const haul__onnx_saved_row *row;
    const int                  *x;                    /* the operands' values */
    int                         count, result_count;  /* of operands and results */
    const haul_program_value   *in, *out;             /* operands and results */
    const haul_program_value   *other_in, *other_out; /* the same in the other run */
    const void                 *attributes, *other;   /* as infer completed them; those of the other run */
    int                         y[HAUL__MAX_RESULTS]; /* results after the first */
    /* Parts of results, which views of the results are: places, and their values or ABSENT */
    haul_program_value parts[HAUL__MAX_RESULTS];
    int                part_values[HAUL__MAX_RESULTS];
    const char        *why; /* why the call cannot be written */
} haul__onnx_saving;

typedef int haul__onnx_save_function(haul__onnx_saving *c);

struct haul__onnx_saved_row {
    const char               *name; /* of the operation: "haul_add" */
    haul__onnx_save_function *save;
    const char               *type; /* of the node, for functions that several rows share */
};

/* NULL if there is none. */
const haul__onnx_saved_row *haul__onnx_saved_row_of(const char *name);

/* Returns ABSENT, with the reason. */
int haul__onnx_cannot(haul__onnx_saving *c, const char *why);

/* The sizes as [ndim] of i64. Where they depend on the batch they are computed; with `infer` the only one that does is
 * -1, as Reshape takes it. ABSENT, with the reason, if a size is not a multiple of the batch. */
int haul__onnx_sizes(haul__onnx_saving *c, const haul_shape *shape, const haul_shape *other, bool infer);

#endif
