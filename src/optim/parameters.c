/* Collects parameters: those of a module, or of a list. */
#include "optim/parameters.h"

#include <haul/autograd.h>
#include <haul/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "core/tensor.h"
#include "nn/tensors.h"

static const haul_named_tensor *find(const haul_named_tensor *list, int count, const haul_tensor *t)
{
    for (int i = 0; i < count; i++)
        if (list[i].tensor == t)
            return &list[i];
    return NULL;
}

static haul_status check_parameter(const haul_named_tensor *p, int place, const char *operation)
{
    char number[24];
    snprintf(number, sizeof number, "%d", place);
    const char *name = p->name ? p->name : number;
    HAUL__ASSERT(place >= 0);
    if (haul__check_tensor(operation, "parameters", p->tensor))
        return haul_error_status();
    if (!haul_dtype_is_float(p->tensor->dtype))
        return haul__fail(HAUL_DTYPE, operation, "parameters",
                          "the parameter '%s' is %s, but a floating dtype is expected", name,
                          haul_dtype_name(p->tensor->dtype));
    if (p->tensor->node)
        return haul__fail(HAUL_GRAPH, operation, "parameters",
                          "'%s' was computed from tensors that require a gradient, so it is not a parameter; pass the "
                          "tensors that it was computed from, or haul_detach(...) with haul_set_requires_grad",
                          name);
    return HAUL_OK;
}

/* Removes buffers and duplicates. */
static int distinct(haul_named_tensor *list, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (!list[i].is_buffer && !find(list, kept, list[i].tensor))
            list[kept++] = list[i];
    HAUL__ASSERT(kept <= count);
    return kept;
}

static haul_status take_names(haul_module *module, haul_named_tensor *list, int count)
{
    int                n = 0;
    haul_named_tensor *all = haul__module_tensor_list(module, &n);
    if (!all)
        return haul_error_status();
    for (int i = 0; i < count; i++) {
        const haul_named_tensor *known = find(all, n, list[i].tensor);
        list[i].name = known ? known->name : list[i].name;
    }
    HAUL__ASSERT(n >= 0);
    haul__free(all);
    return HAUL_OK;
}

static haul_status check_list(haul_module *module, const haul_named_tensor *list, int count, const char *operation)
{
    if (module || !list)
        if (haul__check_module(module, operation))
            return haul_error_status();
    if (count < 0 || (!list && count))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "count", "count is %d, but %s", count,
                          list ? "a number of parameters is expected" : ".parameters is not given");
    for (int i = 0; i < count; i++)
        if (!list[i].is_buffer && check_parameter(&list[i], i, operation))
            return haul_error_status();
    return HAUL_OK;
}

haul_named_tensor *haul__parameter_list(haul_module *module, const haul_named_tensor *list, int count,
                                        const char *operation, int *out_count)
{
    if (check_list(module, list, count, operation))
        return NULL;
    haul_named_tensor *all =
        list ? haul__calloc((size_t)count + 1, sizeof *all) : haul__module_tensor_list(module, &count);
    if (!all && list)
        haul__fail_memory(operation, (size_t)count * sizeof *all);
    if (!all) {
        haul__fail_within(operation);
        return NULL;
    }
    if (list && count)
        memcpy(all, list, (size_t)count * sizeof *all);
    *out_count = distinct(all, count);
    if (list && module && take_names(module, all, *out_count)) {
        haul__fail_within(operation);
        haul__free(all);
        return NULL;
    }
    HAUL__ASSERT(*out_count <= count);
    return all;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

haul_status haul__check_names(const char *const *names, int count, const char *operation)
{
    haul_status  status = HAUL_OK;
    const char **sorted = haul__calloc((size_t)count + 1, sizeof *sorted);
    if (!sorted)
        return haul__fail_memory(operation, (size_t)count * sizeof *sorted);
    if (count)
        memcpy(sorted, names, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_text);
    HAUL__ASSERT(count >= 0);
    for (int i = 1; i < count && !status; i++)
        if (!strcmp(sorted[i - 1], sorted[i]))
            status = haul__fail(HAUL_INVALID_ARGUMENT, operation, "parameters",
                                "two parameters are called '%s'; state and messages tell parameters apart by their "
                                "names: make the optimizer for a module that holds both, or give .parameters with a "
                                "name for each",
                                sorted[i]);
    haul__free(sorted);
    return status;
}
