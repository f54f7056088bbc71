/* Comparison of tensors bit by bit. */
#ifndef HAUL_TESTS_BITS_H
#define HAUL_TESTS_BITS_H

#include "linalg.h"

static inline void assert_same_bits(haul_tensor *a, haul_tensor *b, const char *what)
{
    if (!haul_tensor_is_valid(a) || !haul_tensor_is_valid(b))
        fail_msg("%s: %s", what, haul_error_message());
    size_t bytes = haul_tensor_bytes(a);
    char  *x = malloc(2 * bytes + 1), *y = x + bytes;
    assert_non_null(x);
    assert_int_equal(haul_tensor_bytes(b), bytes);
    assert_int_equal(haul_read(a, x, bytes), HAUL_OK);
    assert_int_equal(haul_read(b, y, bytes), HAUL_OK);
    if (memcmp(x, y, bytes) != 0)
        fail_msg("%s: the bits differ", what);
    free(x);
}

#endif
