/* Operators of ONNX: a row for each (operations.def), and what its function may call.
 *
 * A function computes the results of a node from its inputs by calling operations of Haul. It returns the first result
 * and puts further ones into call->y. Inputs are tensors, or numbers on the host: values that follow from sizes and
 * constants alone. An operator whose inputs are all numbers is computed on the host if its row has `fold`. */
#ifndef HAUL_ONNX_OPERATION_H
#define HAUL_ONNX_OPERATION_H

#include <haul/ops.h>
#include <haul/tensor.h>

#include "formats/onnx/model.h"

enum {
    HAUL__ONNX_NEWEST = 28,    /* the newest set of operators that the rows were compared with */
    HAUL__ONNX_NUMBERS = 1024, /* the most numbers of a value on the host */
    HAUL__ONNX_RESULTS = 64    /* the most results of a node */
};

/* A tensor's values on the host. */
typedef struct haul__number {
    int64_t i; /* of integers and bool */
    double  f; /* of all dtypes */
} haul__number;

typedef struct haul__numbers haul__numbers;
struct haul__numbers {
    haul__numbers *next; /* of the list of those that a run made */
    haul_dtype     dtype;
    haul_shape     shape;
    int64_t        count;
    haul__number   items[];
};

typedef struct haul__onnx_call haul__onnx_call;

typedef haul_tensor   *haul__onnx_run_function(haul__onnx_call *call);
typedef haul__numbers *haul__onnx_fold_function(haul__onnx_call *call); /* NULL: compute with tensors */

/* The operation that a function calls for its row. */
typedef union haul__onnx_operation {
    haul_tensor *(*unary)(haul_tensor *x);
    haul_tensor *(*binary)(haul_tensor *a, haul_tensor *b);
    haul_tensor *(*reduce)(const haul_reduce_options *options);
    haul_tensor *(*axis)(haul_tensor *x, int axis);
    haul_tensor *(*axis_keep)(haul_tensor *x, int axis, bool keepdim);
} haul__onnx_operation;

typedef struct haul__onnx_row {
    const char               *name;
    int                       first, last; /* the sets of operators whose form of it Haul has */
    unsigned                  host;        /* bit i: input i says how to compute, and is read on the host */
    haul__onnx_run_function  *run;         /* NULL: another part does it (Constant, If, Loop, Scan) */
    haul__onnx_fold_function *fold;
    haul__onnx_operation      use;
} haul__onnx_row;

/* NULL if there is none. */
const haul__onnx_row *haul__onnx_find_row(const char *name);
const haul__onnx_row *haul__onnx_rows(int *count);

/* A node of a plan, with its values as numbers of the plan; -1: left out. */
typedef struct haul__onnx_step {
    const haul__onnx_node *node;
    const haul__onnx_row  *row;
    int                   *inputs, *outputs;
    int                    input_count, output_count;
    int                   *drops; /* values of its body that go after it */
    int                    drop_count;
    int                    bodies[2]; /* of If: then_branch, else_branch; of Loop and Scan: body */
    int                    body_count;
    bool                   is_constant; /* a Constant with a tensor: it is there before the first step */
    haul__numbers         *value;       /* of the attribute of that name, if it is a small tensor; else NULL */
} haul__onnx_step;

struct haul__onnx_run;

struct haul__onnx_call {
    struct haul__onnx_run *run;
    const haul__onnx_step *step;
    int64_t                opset;
    bool                   training;
    bool                   failed;                /* fold found an error, which is recorded */
    haul_tensor           *y[HAUL__ONNX_RESULTS]; /* the results; the function returns y[0] */
};

/* ---- inputs ---- */

int  haul__onnx_count(const haul__onnx_call *c); /* of inputs */
bool haul__onnx_has(const haul__onnx_call *c, int i);
/* Input i as a tensor; HAUL_NONE if it is left out; a failed tensor on failure. */
haul_tensor *haul__onnx_x(haul__onnx_call *c, int i);
/* Input i on the host, which waits if it is the result of an operation. NULL on failure. */
const haul__numbers *haul__onnx_numbers(haul__onnx_call *c, int i);
/* The same, without waiting; NULL, without an error, if it is a tensor. */
const haul__numbers *haul__onnx_known(const haul__onnx_call *c, int i);
/* The shape of input i, in either form. */
haul_shape haul__onnx_shape(haul__onnx_call *c, int i);
haul_dtype haul__onnx_type(haul__onnx_call *c, int i);

/* The only number of input i, or `otherwise` if it is left out. */
haul_status haul__onnx_integer(haul__onnx_call *c, int i, int64_t otherwise, int64_t *out);
haul_status haul__onnx_real(haul__onnx_call *c, int i, double otherwise, double *out);

/* ---- attributes ---- */

const haul__onnx_attribute *haul__onnx_attribute_of(const haul__onnx_node *node, const char *name);
int64_t                     haul__onnx_int(const haul__onnx_call *c, const char *name, int64_t otherwise);
double                      haul__onnx_float(const haul__onnx_call *c, const char *name, double otherwise);
const char                 *haul__onnx_string(const haul__onnx_call *c, const char *name, const char *otherwise);

/* A list of whole numbers, at most 16. */
typedef struct haul__onnx_list {
    bool    given;
    int     count;
    int64_t items[16];
} haul__onnx_list;

haul_status haul__onnx_ints(const haul__onnx_call *c, const char *name, haul__onnx_list *out);
/* From an attribute, or from input i where sets from `since` on have it there. */
haul_status haul__onnx_ints_or_input(haul__onnx_call *c, const char *name, int i, int since, haul__onnx_list *out);
/* The axis as a number from 0 to ndim - 1. */
haul_status haul__onnx_axis(haul__onnx_call *c, int64_t axis, int ndim, int *out);

/* ---- results ---- */

/* Fails with HAUL_UNSUPPORTED: "this is not supported". Returns NULL. */
haul_tensor *haul__onnx_refuse(const haul__onnx_call *c, const char *what);
/* Fails with HAUL_INVALID_ARGUMENT. Returns NULL. */
haul_tensor *haul__onnx_wrong(const haul__onnx_call *c, const char *what);

/* Numbers on the host, zeroed, which live as long as the run. NULL on failure, or, without an error, if they are too
 * many. */
haul__numbers *haul__onnx_new_numbers(haul__onnx_call *c, haul_dtype dtype, const haul_shape *shape);
void           haul__onnx_set(haul__numbers *n, int64_t i, haul__number value);
haul__number   haul__number_of(int64_t i);

/* ---- what operators share ---- */

/* The shape that Reshape asks for: 0 is the size of x, unless `literal`; -1 follows from the others. */
haul_status haul__onnx_reshaped(haul__onnx_call *c, const haul_shape *x, const haul__numbers *sizes, bool literal,
                                haul_shape *out);
/* A range of Slice along an axis of n elements, as the first index, the number of elements, and the step. */
void       haul__onnx_range(int64_t n, int64_t start, int64_t stop, int64_t step, int64_t *first, int64_t *count);
haul_dtype haul__onnx_target(haul__onnx_call *c); /* of Cast */

#endif
