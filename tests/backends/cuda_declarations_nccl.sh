# The backend's own declarations of NCCL (src/backends/cuda/nccl/api.h) agree with the library's header, where that is
# installed: types of functions, values of constants, the size of the identifier. HAUL_NCCL_HEADERS names its folder: that
# of a wheel is nvidia/nccl/include.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/declarations.sh"
if [ -f "${HAUL_NCCL_HEADERS:-}/nccl.h" ]; then
    folder=$HAUL_NCCL_HEADERS
else
    find_headers nccl.h
fi

# The header needs a type of CUDA's run-time library, which may not be installed.
if ! echo '#include <cuda_runtime.h>' | "$HAUL_CC" -I "$folder" -fsyntax-only -xc - 2>/dev/null; then
    mkdir cuda
    echo 'typedef struct CUstream_st *cudaStream_t;' >cuda/cuda_runtime.h
    : >cuda/cuda_fp16.h
    : >cuda/cuda_bf16.h
    export C_INCLUDE_PATH=$PWD/cuda
fi

cat >check.c <<'END'
#include "backends/cuda/nccl/api.h"

#define SAME(a, b) __builtin_types_compatible_p(a, b)

#ifdef HAUL_CUDA_HEADERS
#define X(name, symbol, arguments)                                                                                     \
    _Static_assert(SAME(__typeof__(symbol), ncclResult_t arguments), #symbol " has another type in nccl.h");
#include "backends/cuda/nccl/nccl.def"
#undef X
_Static_assert(SAME(__typeof__(&ncclGetErrorString), __typeof__(((haul__nccl_functions *)0)->GetErrorString)), "");
_Static_assert(SAME(__typeof__(&ncclGetLastError), __typeof__(((haul__nccl_functions *)0)->GetLastError)), "");
#endif
#define X(name, value) _Static_assert((long long)(name) == (value), #name " has another value in the headers");
#include "backends/cuda/nccl/constants.def"
#undef X
_Static_assert(sizeof(ncclUniqueId) == 128, "");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int), "");
int unused;
END
compare_declarations nccl/constants.def ncclInProgress 6
"$HAUL_CC" "${flags[@]}" -fsyntax-only check.c || exit 1 # and by themselves
