/* What the tests of products, convolutions and pooling share: devices, operands with known values, comparison. */
#ifndef HAUL_TESTS_LINALG_H
#define HAUL_TESTS_LINALG_H

#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/node.h"
#include "support/conformance/conformance.h"
#include "support/failure.h"

/* Two computed numbers as a pair among options. */
#define PAIR(of)                                                                                                       \
    {                                                                                                                  \
        (of)[0] ? (of)[0] : HAUL_ZERO, (of)[1] ? (of)[1] : HAUL_ZERO                                                   \
    }

/* A tensor on `device` with values of its own for each seed, and the same in `values`, to be freed. */
static inline haul_tensor *sample_tensor(haul_device *device, haul_dtype dtype, haul_shape shape, unsigned seed,
                                         double **values)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    double *v = calloc((size_t)count + 1, sizeof *v);
    assert_non_null(v);
    sample_values(v, count, dtype, -2, 2, seed);
    haul_tensor *t = haul_to(haul_cast(haul_from_host(HAUL_F64, shape, v), dtype), device);
    assert_valid(t);
    if (values)
        *values = v;
    else
        free(v);
    return t;
}

/* Elements within `error` of the reference. */
static inline void assert_close(haul_tensor *t, const double *want, int64_t count, double error, const char *what)
{
    if (!haul_tensor_is_valid(t))
        fail_msg("%s: %s", what, haul_error_message());
    assert_int_equal(haul_tensor_count(t), count);
    double *got = calloc((size_t)count + 1, sizeof *got);
    assert_non_null(got);
    assert_int_equal(read_values(t, got, count), HAUL_OK);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= error))
            fail_msg("%s: element %lld is %.17g, not %.17g", what, (long long)i, got[i], want[i]);
    free(got);
}

/* By how much a convolution may differ for another layout of its operands. Libraries of GPUs choose algorithms by
 * layout, which add in other orders. */
static inline double layout_error(const haul_device *device)
{
    return strcmp(device->backend->name, "cuda") == 0 ? 2e-5 : 0;
}

/* Run `fn` in a scope of its own on every device under test. */
static inline void on_devices(void (*fn)(haul_device *device))
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    for (int i = 0; i < count; i++) {
        haul_scope *scope = haul_scope_push();
        haul_error_clear();
        fn(devices[i]);
        assert_int_equal(haul_error_status(), HAUL_OK);
        haul_scope_pop(scope);
    }
}

/* The operation failed with this status, and its message says these words. */
#define assert_refused(result, status, words) check_refused(has_failed(result), status, words)
static inline void check_refused(bool refused, haul_status status, const char *words)
{
    assert_true(refused);
    assert_int_equal(haul_error_status(), status);
    if (!strstr(haul_error_message(), words))
        fail_msg("the message is \"%s\", it should contain \"%s\"", haul_error_message(), words);
    haul_error_clear();
}

/* What the call that made y, which has a graph, costs with these operands: its results are described, nothing is
 * computed. */
static inline haul__cost cost_of(const haul_tensor *y, haul_tensor **operands, int count)
{
    assert_valid(y);
    const haul__operation *operation = y->node->operation;
    haul__call c = {.operation = operation, .count = count, .inputs = operands, .operands = operands, .view_of = -1};
    c.device = haul_tensor_device(operands[0]);
    memcpy(c.attributes, y->node->attributes, operation->attributes_size);
    for (c.result_count = 0; operation->results[c.result_count].name; c.result_count++)
        assert_valid(c.results[c.result_count] = haul__tensor_new());
    assert_int_equal(operation->infer(&c), HAUL_OK);
    haul__cost cost = haul__cost_of(&c);
    for (int i = 0; i < c.result_count; i++)
        haul__object_release(c.results[i]);
    return cost;
}

/* The bytes of t are the same whatever the number of threads. */
static inline void assert_same_for_threads(haul_tensor *(*run)(void *), void *context)
{
    static const int threads[] = {1, 2, 3, 7};
    void            *first = NULL;
    size_t           bytes = 0;
    for (int i = 0; i < 4; i++) {
        haul_scope *scope = haul_scope_push();
        haul_set_num_threads(threads[i]);
        haul_tensor *t = run(context);
        assert_valid(t);
        void *data = malloc(haul_tensor_bytes(t));
        assert_non_null(data);
        assert_int_equal(haul_read(t, data, haul_tensor_bytes(t)), HAUL_OK);
        if (!first) {
            first = data;
            bytes = haul_tensor_bytes(t);
        } else {
            assert_memory_equal(data, first, bytes);
            free(data);
        }
        haul_scope_pop(scope);
    }
    free(first);
    haul_set_num_threads(0);
}

#endif
