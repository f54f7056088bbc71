# The backend's own declarations of NVIDIA's interfaces (src/backends/cuda/api.h) agree with the toolkit's headers, where
# those are installed: every function's type, and every constant's value.
for folder in "${CUDA_HOME:+$CUDA_HOME/include}" /usr/local/cuda/include /usr/include; do
    [ -n "$folder" ] && [ -f "$folder/cuda.h" ] && [ -f "$folder/nvrtc.h" ] && break
    folder=
done
if [ -z "$folder" ]; then
    echo "cuda.h and nvrtc.h are not in \$CUDA_HOME/include, /usr/local/cuda/include or /usr/include: nothing to compare"
    exit 77
fi

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
flags=(-std=gnu11 -Wall -Wextra -Werror -I "$HAUL_SOURCE/src" -I "$HAUL_SOURCE/include" -isystem "$folder")
"$HAUL_CC" "${flags[@]}" -DHAUL_CUDA_HEADERS -fsyntax-only check.c || exit 1

# The check can fail: a constant and a function that are wrong are found.
sed 's/#include "backends\/cuda\/constants.def"/X(CUDA_ERROR_OUT_OF_MEMORY, 1)/' check.c >wrong.c
if "$HAUL_CC" "${flags[@]}" -DHAUL_CUDA_HEADERS -fsyntax-only wrong.c 2>messages; then
    echo "a constant of another value was not noticed" >&2
    exit 1
fi
grep -q 'CUDA_ERROR_OUT_OF_MEMORY has another value' messages || { cat messages >&2; exit 1; }
echo "compared with $folder"
