# The backend's own declarations of cuSOLVER (src/backends/cuda/cusolver/api.h) agree with the library's header, where that
# is installed: types of functions, values of constants. HAUL_CUSOLVER_HEADERS is a list of folders, separated by colons,
# as wheels have them: nvidia/cusolver/include, nvidia/cublas/include and nvidia/cuda_runtime/include.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/declarations.sh"
folder=${HAUL_CUSOLVER_HEADERS:-}
folder=${folder%%:*}
if [ -f "$folder/cusolverDn.h" ]; then
    export C_INCLUDE_PATH=$HAUL_CUSOLVER_HEADERS
else
    find_headers cusolverDn.h cublas_v2.h
fi

cat >check.c <<'END'
#include "backends/cuda/cusolver/api.h"

#define SAME(a, b) __builtin_types_compatible_p(a, b)

#ifdef HAUL_CUDA_HEADERS
#define X(name, symbol, arguments)                                                                                     \
    _Static_assert(SAME(__typeof__(symbol), cusolverStatus_t arguments), #symbol " has another type in cusolverDn.h");
#include "backends/cuda/cusolver/cusolver.def"
#undef X
#endif
#define X(name, value) _Static_assert((long long)(name) == (value), #name " has another value in the headers");
#include "backends/cuda/cusolver/constants.def"
#undef X
_Static_assert(sizeof(cusolverStatus_t) == sizeof(int) && sizeof(cusolverEigMode_t) == sizeof(int), "");
_Static_assert(sizeof(cublasFillMode_t) == sizeof(int), "");
int unused;
END
compare_declarations cusolver/constants.def CUBLAS_FILL_MODE_UPPER 0
"$HAUL_CC" "${flags[@]}" -fsyntax-only check.c || exit 1 # and by themselves
