/* The stand-ins for the driver and for cuDNN, as tests of convolutions ask them. */
#ifndef HAUL_TESTS_SUPPORT_CUDNN_H
#define HAUL_TESTS_SUPPORT_CUDNN_H

#include "linalg.h"
#include "standin.h"

/* The stand-in's engines (tests/standin/cudnn.h), by number. */
enum { PLAIN, TILED, TENSOR_CORE, ATOMIC, HUGE_WORKSPACE, WINOGRAD, REFUSING, HALF_SUMS };

static long (*dnn_count)(const char *);
static int (*dnn_fail)(const char *);
static long (*engine_runs)(int);
static void (*reset_runs)(void);

static inline void find_standin(void)
{
    *(void **)&dnn_count = symbol_of("libcudnn.so.9", "standin_count");
    *(void **)&dnn_fail = symbol_of("libcudnn.so.9", "standin_fail");
    *(void **)&engine_runs = symbol_of("libcudnn.so.9", "standin_engine_runs");
    *(void **)&reset_runs = symbol_of("libcudnn.so.9", "standin_reset_runs");
}

static inline long runs(void)
{
    return dnn_count("cudnnBackendExecute");
}

static inline int open_scope(void **state)
{
    *state = haul_scope_push();
    haul_error_clear();
    reset_runs();
    return *state == NULL || haul_set_device(gpu()) != HAUL_OK;
}

static inline int close_scope(void **state)
{
    haul_error_clear();
    return (int)haul_scope_pop(*state);
}

#endif
