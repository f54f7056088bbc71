/* What the tests of _into forms share. */
#ifndef HAUL_TESTS_INTO_H
#define HAUL_TESTS_INTO_H

#include "support/linalg.h"

typedef haul_status into_function(haul_tensor *out, haul_tensor *const *in);

/* Both have the same shape, dtype and bits. */
static inline void assert_equal_bits(haul_tensor *got, haul_tensor *want, const char *what)
{
    size_t bytes = haul_tensor_bytes(want);
    char  *a = calloc(bytes + 1, 1), *b = calloc(bytes + 1, 1);
    assert_true(a && b);
    if (!haul_tensor_is_valid(got))
        fail_msg("%s: %s", what, haul_error_message());
    assert_int_equal(haul_tensor_dtype(got), haul_tensor_dtype(want));
    assert_int_equal(haul_tensor_bytes(got), bytes);
    assert_int_equal(haul_read(haul_contiguous(got), a, bytes), HAUL_OK);
    assert_int_equal(haul_read(haul_contiguous(want), b, bytes), HAUL_OK);
    if (memcmp(a, b, bytes) != 0)
        fail_msg("%s: the bits differ", what);
    free(a);
    free(b);
}

static inline void assert_succeeded(haul_status status, const char *what)
{
    if (status)
        fail_msg("%s: %s", what, haul_error_message());
}

/* Every second element of a larger tensor. */
static inline haul_tensor *with_gaps(haul_tensor *like)
{
    haul_shape shape = haul_tensor_shape(like);
    int        last = shape.ndim - 1;
    int64_t    size = shape.dims[last];
    shape.dims[last] = 2 * size;
    haul_tensor *whole = haul_to(haul_full(haul_tensor_dtype(like), shape, 1), haul_tensor_device(like));
    return haul_slice(whole, last, 0, 2 * size, 2);
}

/* The function gives the bits of `want` in a fresh target, in one with gaps, and in memory of operand `over`, which has
 * the result's dtype and as many elements at least; and refuses a target of another shape. */
static inline void assert_into(const char *what, into_function *into, haul_tensor *want, haul_tensor *const *in,
                               int count, int over)
{
    haul_tensor *out = haul_full_like(want, 1), *operands[4];
    assert_succeeded(into(out, in), what);
    assert_equal_bits(out, want, what);
    if (haul_tensor_ndim(want) > 0) {
        out = with_gaps(want);
        assert_succeeded(into(out, in), what);
        assert_equal_bits(out, want, what);
    }

    for (int i = 0; i < count; i++)
        operands[i] = i == over ? haul_clone(in[i]) : in[i];
    haul_tensor *same_memory = haul_slice(haul_flatten(operands[over], 0), 0, 0, haul_tensor_count(want), 1);
    out = haul_view(same_memory, haul_tensor_shape(want));
    assert_succeeded(into(out, operands), what);
    assert_equal_bits(out, want, what);

    assert_int_equal(into(haul_unsqueeze(haul_full_like(want, 1), 0), in), HAUL_SHAPE);
    if (!strstr(haul_error_message(), "out has shape"))
        fail_msg("%s: %s", what, haul_error_message());
    haul_error_clear();
}

#endif
