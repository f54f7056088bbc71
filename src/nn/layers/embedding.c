/* The embedding layer: a table of vectors, weight [count, size], from which indices pick. */
#include <haul/autograd.h>
#include <haul/indexing.h>
#include <haul/ops.h>
#include <haul/scope.h>

#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/module.h"

typedef struct embedding {
    int64_t padding_idx; /* as in haul_embedding_options */
} embedding;

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const embedding *s = haul_module_state(m);
    return haul_embedding(haul_module_parameter(m, "weight"), args->x[0], .padding_idx = s->padding_idx);
}

/* The index of the padding row, made non-negative; -1 if there is none. */
static haul_status find_padding(int64_t count, int64_t given, int64_t *row)
{
    *row = !given ? -1 : given == HAUL_ZERO ? 0 : given < 0 ? given + count : given;
    if (!given || (*row >= 0 && *row < count))
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, "haul_nn_embedding", "padding_idx",
                      "padding_idx is %lld, but there are %lld rows", (long long)given, (long long)count);
}

/* Normally distributed values, and zeros in the padding row. */
static haul_status draw(haul_module *m, int64_t count, int64_t size, int64_t padding)
{
    haul_tensor *weight = haul_empty(HAUL_F32, HAUL_SHAPE(count, size));
    if (haul__failed(weight) || haul_init_normal(weight, 0, 1))
        return haul_error_status();
    if (padding >= 0 && haul_zero_into(haul_select(weight, 0, padding)))
        return haul_error_status();
    return haul_module_add_parameter(m, "weight", weight);
}

haul_module *haul_nn_embedding_with(int64_t count, const haul_nn_embedding_options *options)
{
    static const char operation[] = "haul_nn_embedding";
    int64_t           padding;
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    if (haul__module_size(count, operation, "count") || haul__module_size(options->size, operation, "size") ||
        find_padding(count, options->padding_idx, &padding))
        return NULL;
    haul_module *m = haul_module_new("embedding", forward, .state_bytes = sizeof(embedding), .inputs = "index");
    haul_scope  *scope = m ? haul__scope_push(NULL) : NULL;
    if (!scope)
        return NULL;
    *(embedding *)haul_module_state(m) = (embedding){options->padding_idx};
    return haul__module_built(m, scope, draw(m, count, options->size, padding), operation);
}
