/* A model as steps: its values have numbers, its nodes have rows, and each input is made before it is used.
 *
 * Nested graphs, of If, Loop and Scan, are bodies. Values and steps are numbered through all bodies, those of a body in
 * a row. A nested graph may use the values of the graphs around it. */
#ifndef HAUL_ONNX_PLAN_H
#define HAUL_ONNX_PLAN_H

#include <haul/nn.h>
#include <stdatomic.h>

#include "onnx/operation.h"

/* A value that is there before the first step: an initialiser, or the value of a node Constant. */
typedef struct haul__onnx_constant {
    const haul__onnx_tensor *tensor;
    int                      value;
    const char              *name;        /* that of the value */
    bool                     initializer; /* not of a node */
    bool                     statistic;   /* of batch normalisation */
    bool                     used;        /* as a tensor: by an operator, or as a result */
    bool                     host;        /* it may be read on the host */
    char                    *path;        /* in the module; NULL: it is not there */
    bool                     is_buffer;
    haul__numbers           *numbers; /* NULL: it is not on the host */
} haul__onnx_constant;

typedef struct haul__onnx_body {
    const haul__onnx_graph *graph;
    int                     first_step, step_count, first_value, value_count;
    int                    *inputs, *outputs; /* values; of the model's graph those without initialisers */
    int                     input_count, output_count;
} haul__onnx_body;

typedef struct haul__onnx_plan {
    atomic_int              refs; /* modules that have it: the loaded one and its clones */
    haul__onnx_model        model;
    haul__onnx_body        *bodies; /* the model's graph, then the nested ones */
    haul__onnx_step        *steps;  /* of all bodies */
    int                    *places; /* the numbers of the inputs and outputs of steps and of bodies */
    int                    *drops;  /* the values of each body in the order in which steps drop them */
    haul__onnx_constant    *constants;
    int                     body_count, step_count, value_count, constant_count, input_count, output_count;
    const haul__onnx_value *input_infos[HAUL_MAX_ARGUMENTS]; /* the graph's descriptions of the inputs */
    size_t                  mapped_bytes;                    /* of constants that stay in mapped files */
} haul__onnx_plan;

/* The plan of a model, which it takes over, also on failure. NULL on failure: `path` is for the message. */
haul__onnx_plan *haul__onnx_plan_new(haul__onnx_model *model, const char *path, const char *operation);
void             haul__onnx_plan_release(haul__onnx_plan *plan);

/* Checks a model before it is planned (check.c). */
haul_status haul__onnx_check(const haul__onnx_model *model, const char *path, const char *operation);

/* The name of a node for messages: that of its first result if it has none. */
const char *haul__onnx_name_of(const haul__onnx_node *node);

/* The names of the attributes of a node that are nested graphs. Returns how many: 2 for If, 1 for Loop and Scan. */
int haul__onnx_graphs_of(const haul__onnx_node *node, const char *names[2]);

/* An operator in a model. */
typedef struct haul__onnx_use {
    const char *domain, *type;
    size_t      count;      /* of nodes, those of nested graphs included */
    const char *node;       /* the name of the first one; its first result if it has none */
    bool        missing;    /* Haul does not have it */
    bool        other_form; /* of these: Haul has it, but not as this set of operators defines it */
} haul__onnx_use;

/* The operators of a model, sorted by name. The caller must haul__free them. NULL on failure. */
haul__onnx_use *haul__onnx_uses(const haul__onnx_model *model, int *count, const char *operation);

#endif
