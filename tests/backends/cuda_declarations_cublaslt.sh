# The backend's own declarations of cuBLASLt (src/backends/cuda/cublaslt/api.h) agree with the toolkit's header, where that
# is installed: types of functions, values of constants, sizes of structs. And the stand-in takes and refuses attributes as
# the library does, where that is installed: descriptors need no GPU.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/declarations.sh"
find_headers cublasLt.h

cat >check.c <<'END'
#include "backends/cuda/cublaslt/api.h"

#define SAME(a, b) __builtin_types_compatible_p(a, b)

#ifdef HAUL_CUDA_HEADERS
#define X(name, symbol, arguments)                                                                                     \
    _Static_assert(SAME(__typeof__(symbol), cublasStatus_t arguments), #symbol " has another type in cublasLt.h");
#include "backends/cuda/cublaslt/cublaslt.def"
#undef X
_Static_assert(SAME(__typeof__(&cublasLtGetVersion), __typeof__(((haul__cublaslt_functions *)0)->GetVersion)), "");
_Static_assert(SAME(__typeof__(&cublasLtGetStatusName), __typeof__(((haul__cublaslt_functions *)0)->GetStatusName)), "");
#endif
#define X(name, value) _Static_assert((long long)(name) == (value), #name " has another value in the headers");
#include "backends/cuda/cublaslt/constants.def"
#undef X
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == 64, "");
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96, "");
_Static_assert(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64, "");
_Static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) == 72, "");
_Static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cudaDataType) == sizeof(int), "");
_Static_assert(sizeof(cublasComputeType_t) == sizeof(int), "");
int unused;
END
compare_declarations cublaslt/constants.def CUBLASLT_EPILOGUE_BIAS 5
"$HAUL_CC" "${flags[@]}" -fsyntax-only check.c || exit 1 # and by themselves

# What each attribute answers to values of 2, 4 and 8 bytes.
cat >attributes.c <<'END'
#include "backends/cuda/cublaslt/api.h"

#include <dlfcn.h>
#include <stdio.h>

static void *library;

#define CALL(name) (*(__typeof__(((haul__cublaslt_functions *)0)->name) *)(void *[]){dlsym(library, "cublasLt" #name)})

static void ask(const char *name, int attribute)
{
    static const size_t            sizes[] = {2, 4, 8};
    unsigned long long             value = 1;
    cublasLtMatmulDesc_t           operation = NULL;
    cublasLtMatrixLayout_t         layout = NULL;
    cublasLtMatmulPreference_t     preference = NULL;

    CALL(MatmulDescCreate)(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    CALL(MatrixLayoutCreate)(&layout, CUDA_R_32F, 3, 4, 5);
    CALL(MatmulPreferenceCreate)(&preference);
    printf("%s", name);
    for (int i = 0; i < 4; i++) {
        const void *given = i < 3 ? &value : NULL;
        size_t      size = sizes[i < 3 ? i : 1];
        printf(" %d", __builtin_strstr(name, "_DESC_")     ? CALL(MatmulDescSetAttribute)(operation, attribute, given, size)
                      : __builtin_strstr(name, "_LAYOUT_") ? CALL(MatrixLayoutSetAttribute)(layout, attribute, given, size)
                                                           : CALL(MatmulPreferenceSetAttribute)(preference, attribute, given, size));
    }
    printf(" %d %d %d\n", CALL(MatmulDescDestroy)(operation), CALL(MatrixLayoutDestroy)(layout),
           CALL(MatmulPreferenceDestroy)(preference));
}

int main(int argc, char **argv)
{
    library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        return 2;
#define X(name, value)                                                                                                 \
    if (__builtin_strstr(#name, "_MATMUL_DESC_") || __builtin_strstr(#name, "_LAYOUT_") || __builtin_strstr(#name, "_PREF_")) \
        ask(#name, value);
#include "backends/cuda/cublaslt/constants.def"
#undef X
    ask("a_DESC_that_is_none", 9999);
    return 0;
}
END
"$HAUL_CC" "${flags[@]}" -o attributes attributes.c -ldl || exit 1
if ! ./attributes "$folder/../lib64/libcublasLt.so" >real; then
    echo "there is a header, but no library"
    exit 0
fi
[ -n "$HAUL_SANITIZE" ] && exit 0 # the stand-in wants the sanitizer's run-time library in the program
./attributes "$HAUL_BUILD/tests/standin/libcublasLt.so.13" >standin || exit 1
diff real standin || { echo "the stand-in answers otherwise than the library" >&2; exit 1; }
wc -l <real
