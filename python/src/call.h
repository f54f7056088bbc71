/* Calls of the library's functions from tables of their parameters, which python/generate writes. */
#ifndef HAULPY_CALL_H
#define HAULPY_CALL_H

#include "core.h"

typedef enum parameter_kind {
    PARAMETER_TENSOR,
    PARAMETER_INT,
    PARAMETER_I64,
    PARAMETER_U64,
    PARAMETER_SIZE,
    PARAMETER_UNSIGNED,
    PARAMETER_F64,
    PARAMETER_BOOL,
    PARAMETER_CHAR,
    PARAMETER_TEXT,
    PARAMETER_DTYPE,
    PARAMETER_SHAPE,
    PARAMETER_DEVICE,
    PARAMETER_ENUM,
    PARAMETER_OBJECT,
    PARAMETER_I64_ARRAY,
    PARAMETER_F64_ARRAY,
    PARAMETER_AXES,
    PARAMETER_PADS,
    PARAMETER_TENSORS,
    PARAMETER_INTS,
    PARAMETER_I64S,
    PARAMETER_OBJECTS,
    PARAMETER_NAMED,
    PARAMETER_NAMED_MODULES,
    PARAMETER_PAIRS,
    PARAMETER_RESULT, /* true asks for a further result */
    PARAMETER_RESULTS /* the list of results, whose length is another parameter's */
} parameter_kind;

enum {
    P_NEEDED = 1,   /* has no default */
    P_ZERO = 2,     /* its default is another number: 0 is passed as HAUL_ZERO */
    P_SPREAD = 4,   /* one number stands for all */
    P_ONE_LESS = 8, /* one shorter than the list that has its length at the same place */
    P_NOT_ZERO = 16 /* C reads 0 as the default, which is another number: 0 is refused */
};

typedef struct call_name {
    const char *word, *constant; /* "mean", "HAUL_REDUCE_MEAN" */
    int         value;
} call_name;

typedef struct call_parameter {
    const char      *name;
    parameter_kind   kind;
    size_t           offset, count_offset; /* in the struct of arguments */
    size_t           size;                 /* the length of an array; the bytes of the number at count_offset */
    object_kind      object;
    int              flags;
    int              value; /* a dtype that is not given */
    const call_name *names; /* of an enum */
} call_parameter;

typedef enum result_kind {
    RESULT_TENSOR,
    RESULT_STATUS,
    RESULT_NOTHING,
    RESULT_TUPLE,
    RESULT_LIST,
    RESULT_TEXT,
    RESULT_DTYPE,
    RESULT_DEVICE,
    RESULT_I64,
    RESULT_U64,
    RESULT_F64,
    RESULT_BOOL,
    RESULT_OBJECT,
    RESULT_ENUM
} result_kind;

enum { CALL_RESULTS = 1 << 24, CALL_MORE = 8, CALL_HELD = 32, CALL_BYTES = 1536, CALL_PARAMETERS = 32 };

/* What a call returned. */
typedef struct call_result {
    haul_tensor  *tensor;
    haul_tensor  *more[CALL_MORE]; /* further results, in the order in which they were asked for */
    int           more_count;
    haul_tensor **list; /* of RESULT_LIST */
    int           list_count;
    haul_status   status;
    void         *object;
    haul_device  *device;
    int64_t       integer;
    uint64_t      natural;
    double        number;
    const char   *text;
} call_result;

typedef struct call_function {
    const char           *name;
    const call_parameter *parameters;
    int                   count;
    size_t                bytes;
    void (*run)(void *arguments, call_result *result);
    result_kind                 result;
    object_kind                 object;
    const call_name            *names;
    bool                        borrowed; /* something else holds the result */
    bool                        unscoped; /* it changes settings of the innermost scope */
    const struct call_function *scalar;   /* the form whose last operand is a number */
    const struct call_function *into;     /* the form that writes to its first operand, `out` */
} call_function;

/* The arguments of a call while it runs: what they refer to is held until its end. */
typedef struct call_frame {
    const call_function *function;
    unsigned char       *memory; /* the struct of arguments */
    bool                 given[CALL_PARAMETERS];
    bool                 counted[CALL_PARAMETERS];
    PyObject            *held[CALL_HELD];
    int                  held_count;
    void                *blocks[CALL_HELD];
    int                  block_count;
    call_result          result;
} call_frame;

PyObject *haulpy_call(const call_function *function, PyObject *self, PyObject *const *args, Py_ssize_t n,
                      PyObject *names);
/* Converts one argument (arguments.c). False: raised. */
bool haulpy_argument(call_frame *frame, int index, PyObject *value);

#endif
