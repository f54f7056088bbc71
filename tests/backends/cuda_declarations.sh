# The backend's own declarations of NVIDIA's interfaces (src/backends/cuda/api.h) agree with the toolkit's headers, where
# those are installed: every function's type, and every constant's value.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/declarations.sh"
find_headers cuda.h nvrtc.h

cat >check.c <<'END'
#include "backends/cuda/api.h"

#define SAME(a, b) __builtin_types_compatible_p(a, b)

/* Names of functions may be macros that stand for the versioned ones: those are what the lists hold. */
#define X(name, symbol, arguments)                                                                                     \
    _Static_assert(SAME(__typeof__(symbol), CUresult arguments), #symbol " has another type in cuda.h");
#include "backends/cuda/driver.def"
#undef X
#define X(name, symbol, arguments)                                                                                     \
    _Static_assert(SAME(__typeof__(symbol), nvrtcResult arguments), #symbol " has another type in nvrtc.h");
#include "backends/cuda/nvrtc.def"
#undef X
#define X(name, value) _Static_assert((long long)(name) == (value), #name " has another value in the headers");
#include "backends/cuda/constants.def"
#undef X
int unused;
END
compare_declarations constants.def CUDA_ERROR_OUT_OF_MEMORY 1
