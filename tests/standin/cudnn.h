/* The stand-in for cuDNN: what its files share. */
#ifndef HAUL_TESTS_STANDIN_CUDNN_H
#define HAUL_TESTS_STANDIN_CUDNN_H

#include <stdbool.h>

#include "calls.h"

#define Y(type, name, symbol, arguments) STANDIN_EXPORT type symbol arguments;
#define X(name, symbol, arguments)
#include "backends/cuda/cudnn/cudnn.def"
#undef X

/* How often an engine ran, by its number. */
STANDIN_EXPORT long standin_engine_runs(int engine);
STANDIN_EXPORT void standin_reset_runs(void);

enum { DNN_MAX_ATTRIBUTES = 16, DNN_MAX_TENSORS = 8, DNN_MAX_KNOBS = 4 };

typedef struct dnn_attribute {
    int     name, type;
    int64_t count;
    void   *values; /* descriptors among them are held */
} dnn_attribute;

/* A descriptor: attributes by name, and what finalizing made of them. */
typedef struct dnn_descriptor {
    unsigned      magic;
    int           type, refs;
    bool          finalized;
    int           count;
    dnn_attribute attributes[DNN_MAX_ATTRIBUTES];
    int64_t       workspace; /* plans */
} dnn_descriptor;

/* cudnn.c: attributes of finalized descriptors. */
const dnn_attribute *dnn_find(const dnn_descriptor *d, int name);
int64_t              dnn_int(const dnn_descriptor *d, int name, int64_t i); /* 0 if it is not there */
int                  dnn_enum(const dnn_descriptor *d, int name);           /* -1 if it is not there */
dnn_descriptor      *dnn_child(const dnn_descriptor *d, int name, int64_t i);
dnn_descriptor      *dnn_new(int type);
void                 dnn_free(dnn_descriptor *d);
cudnnStatus_t        dnn_put(dnn_descriptor *d, int name, int type, int64_t count, const void *values);
/* The text of cudnnGetLastErrorString, and `status`. */
cudnnStatus_t dnn_refuse(cudnnStatus_t status, const char *why);

/* cudnn_check.c: true if it may be finalized */
cudnnStatus_t dnn_check(dnn_descriptor *d);

/* cudnn_engine.c: engines, their properties, and what heuristics propose. */
typedef struct dnn_engine {
    const char *what;
    int         notes[4], note_count;
    int         knob;     /* type of its only knob, with values 0 to 3; -1 for none */
    int64_t     ws_fixed; /* workspace: bytes, and by elements of the result */
    int64_t     ws_element;
    bool        fused, backward_only, refuses;
} dnn_engine;

enum {
    ENGINE_PLAIN,
    ENGINE_TILED,
    ENGINE_TENSOR_CORE,
    ENGINE_ATOMIC,
    ENGINE_HUGE,
    ENGINE_WINOGRAD,
    ENGINE_REFUSING,
    ENGINE_HALF_SUMS,
    ENGINES
};
extern const dnn_engine dnn_engines[ENGINES];
bool                    dnn_supports(int engine, const dnn_descriptor *graph);
int64_t                 dnn_workspace(int engine, const dnn_descriptor *graph);
/* Numbers of the engines that heuristics of a mode propose, in order. */
int dnn_propose(const dnn_descriptor *graph, int mode, int out[ENGINES]);

/* cudnn_run.c: a graph, taken apart, with its memory. */
typedef struct dnn_tensor {
    int64_t number, dims[4], strides[4], alignment;
    int     type;
    bool    is_virtual;
    char   *at; /* on the host */
} dnn_tensor;

typedef struct dnn_job {
    int        engine, pass;
    bool       has_bias, has_relu, nan_stays;
    int64_t    stride[2], padding[2], dilation[2];
    dnn_tensor x, weight, y, bias; /* y is the one in memory */
    char      *workspace;
    size_t     workspace_bytes;
} dnn_job;

/* The pass, 0 to 2, of the graph's convolution, its tensors and what follows it. */
bool          dnn_take_apart(const dnn_descriptor *graph, dnn_job *out);
bool          dnn_read_tensor(const dnn_descriptor *d, dnn_tensor *out);
size_t        dnn_size(int type); /* bytes of an element; 0 for a type that is not known */
cudnnStatus_t dnn_submit(CUstream stream, const dnn_descriptor *plan, const dnn_descriptor *pack);

#endif
