/* Checks that a call that returns a tensor, or another pointer, failed. */
#ifndef HAUL_TESTS_FAILURE_H
#define HAUL_TESTS_FAILURE_H

#include <haul/tensor.h>

static inline bool is_failed(const haul_tensor *t)
{
    return t && t != HAUL_NONE && !haul_tensor_is_valid(t);
}

static inline bool is_null(const void *pointer)
{
    return !pointer;
}

#define has_failed(result)                                                                                             \
    _Generic((result), haul_tensor * : is_failed, const haul_tensor * : is_failed, default : is_null)(result)
#define assert_failed(result) assert_true(has_failed(result))
#define assert_valid(t)       assert_true(haul_tensor_is_valid(t))

#endif
