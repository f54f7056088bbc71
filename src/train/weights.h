/* Matches the tensors of a module with those of a file, and sets them to the file's values. */
#ifndef HAUL_TRAIN_WEIGHTS_H
#define HAUL_TRAIN_WEIGHTS_H

#include "formats/safetensors.h"

/* A tensor of the module that takes part. */
typedef struct haul__weight {
    const char                    *name; /* the module's */
    haul_tensor                   *tensor;
    const haul__safetensors_entry *entry; /* NULL: the file does not have it */
} haul__weight;

typedef struct haul__weights {
    haul__weight                   *items;
    const haul__safetensors_entry **unexpected; /* entries that only the file has */
    int                             count, unexpected_count, missing_count;
    int                             converted, mapped; /* set by haul__weights_load */
} haul__weights;

/* The same as in haul_load_weights_options. */
typedef struct haul__weights_rules {
    const char *path, *operation; /* for messages */
    const char *prefix, *add_prefix;
    const char *without; /* NULL: all take part */
    bool        partial, convert;
    bool        has_options; /* messages may name them */
} haul__weights_rules;

/* After a failure there is nothing to free. */
haul_status haul__weights_match(haul__weights *weights, const haul_safetensors *file, haul_module *module,
                                const haul__weights_rules *rules);
bool        haul__weights_is_missing(const haul__weights *weights, int index);
/* Loads all tensors that were found, or none. Those that another rank has alone are left out. Call it in a scope with
 * the CPU as current device and without gradients. */
haul_status haul__weights_load(haul__weights *weights, haul_safetensors *file, const haul__weights_rules *rules);
void        haul__weights_free(haul__weights *weights);

/* A scope in which tensors are made on the CPU, without a graph. NULL on failure. */
haul_scope *haul__cpu_scope(void);

bool haul__begins_with(const char *text, const char *prefix);

#endif
