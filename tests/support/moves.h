/* What the tests of moving share: the devices, a scope a test, small tensors. For a test program's one source file. */
#ifndef HAUL_TESTS_MOVES_H
#define HAUL_TESTS_MOVES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/operation.h"
#include "support/conformance/conformance.h"
#include "support/devices/late.h"
#include "support/failure.h"

static haul_device *devices[16]; /* real ones: the CPU first */
static int          device_count;
static haul_scope  *scope;

static inline int begin(void **state)
{
    (void)state;
    haul_error_clear();
    haul__fault_plan(0, 0);
    haul_transfer_stats_reset();
    scope = haul_scope_push();
    return scope ? 0 : -1;
}

static inline int end(void **state)
{
    (void)state;
    haul__fault_plan(0, 0);
    return haul_scope_pop(scope);
}

static inline haul_tensor *iota(int64_t rows, int64_t columns)
{
    float *data = malloc((size_t)(rows * columns) * sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < rows * columns; i++)
        data[i] = (float)i;
    haul_tensor *t = haul_from_host(HAUL_F32, HAUL_SHAPE(rows, columns), data);
    free(data);
    assert_valid(t);
    return t;
}

/* A view of t's memory, made by no operation. */
static inline haul_tensor *view_of(haul_tensor *t, const haul_shape *shape, const int64_t *strides, int64_t offset)
{
    return haul__own(haul__tensor_wrap(t->storage, t->dtype, shape, strides, offset), "test");
}

/* x [r, c] as a view of its transpose. */
static inline haul_tensor *transposed(haul_tensor *x)
{
    return view_of(x, &HAUL_SHAPE(x->shape.dims[1], x->shape.dims[0]), (int64_t[]){x->strides[1], x->strides[0]},
                   x->offset);
}

static inline haul_transfer_stats ledger(void)
{
    haul_transfer_stats stats;
    assert_int_equal(haul_transfer_stats_get(&stats), HAUL_OK);
    return stats;
}

static inline void assert_error(haul_status status, const char *text)
{
    assert_int_equal(haul_error_status(), status);
    if (!strstr(haul_error_message(), text))
        fail_msg("\"%s\" does not say \"%s\"", haul_error_message(), text);
    haul_error_clear();
}

static inline int run_moves(const char *name, const struct CMUnitTest *tests, size_t count)
{
    device_count = test_devices(devices, 16);
    return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

#endif
