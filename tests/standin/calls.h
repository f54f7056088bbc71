/* Calls are counted, and made to fail on demand. Each of the libraries has a copy of its own, for the functions of its
 * list: STANDIN_LIST is that list's file. */
#ifndef HAUL_TESTS_STANDIN_CALLS_H
#define HAUL_TESTS_STANDIN_CALLS_H

#include "backends/cuda/api.h"
#include "standin.h"

/* The libraries' functions: a definition that differs in type from the list does not compile, one that is missing does
 * not link. A library with a header of its own, STANDIN_API, has functions that return a STANDIN_RESULT. */
#ifdef STANDIN_API
#include STANDIN_API
#define X(name, symbol, arguments) STANDIN_EXPORT STANDIN_RESULT symbol arguments;
#include STANDIN_LIST
#undef X
#else
#define X(name, symbol, arguments) STANDIN_EXPORT CUresult symbol arguments;
#include "backends/cuda/driver.def"
#undef X
#define X(name, symbol, arguments) STANDIN_EXPORT nvrtcResult symbol arguments;
#include "backends/cuda/nvrtc.def"
#undef X
#define X(name, symbol, arguments) STANDIN_EXPORT nvmlReturn_t symbol arguments;
#include "backends/cuda/nvml.def"
#undef X
#endif

enum standin_function {
#define X(name, symbol, arguments) CALL_##symbol,
#include STANDIN_LIST
#undef X
    CALLS
};

/* Counts a call; the code it shall fail with, or 0. */
int standin_call(enum standin_function function);

#endif
