# The backend's own declarations of cuDNN (src/backends/cuda/cudnn/api.h) agree with the library's headers, where those
# are installed: types of functions, values of constants. And the stand-in takes and refuses attributes as the library does,
# where that is installed: descriptors need no GPU.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/declarations.sh"
find_headers cudnn.h cuda.h

cat >check.c <<'END'
#include "backends/cuda/cudnn/api.h"

#define SAME(a, b) __builtin_types_compatible_p(a, b)

#ifdef HAUL_CUDA_HEADERS
#define X(name, symbol, arguments)                                                                                     \
    _Static_assert(SAME(__typeof__(symbol), cudnnStatus_t arguments), #symbol " has another type in cudnn.h");
#define Y(type, name, symbol, arguments)                                                                               \
    _Static_assert(SAME(__typeof__(symbol), type arguments), #symbol " has another type in cudnn.h");
#include "backends/cuda/cudnn/cudnn.def"
#undef X
#endif
#define X(name, value) _Static_assert((long long)(name) == (value), #name " has another value in the headers");
#include "backends/cuda/cudnn/constants.def"
#undef X
_Static_assert(sizeof(cudnnStatus_t) == sizeof(int) && sizeof(cudnnDataType_t) == sizeof(int), "");
_Static_assert(sizeof(cudnnBackendAttributeName_t) == sizeof(int), "");
int unused;
END
compare_declarations cudnn/constants.def CUDNN_TYPE_INT64 4
"$HAUL_CC" "${flags[@]}" -fsyntax-only check.c || exit 1 # and by themselves

# What setting each attribute of each kind of descriptor answers, by type and number of values; and what finalizing does.
cat >attributes.c <<'END'
#include "backends/cuda/cudnn/api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static haul__cudnn_functions dnn;

static const int kinds[] = {
    CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
    CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
    CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR};

static const struct {
    const char *name;
    int         value;
} attributes[] = {
#define X(name, value) {#name, value},
#include "backends/cuda/cudnn/constants.def"
#undef X
};

static void *make(int kind)
{
    void *d = NULL;
    return dnn.CreateDescriptor(kind, &d) == CUDNN_STATUS_SUCCESS ? d : NULL;
}

/* Taken or refused: by which number depends on the version. */
static int say(cudnnStatus_t status)
{
    return status != CUDNN_STATUS_SUCCESS;
}

static void ask(int kind, const char *name, int attribute)
{
    static const int     types[] = {CUDNN_TYPE_DATA_TYPE, CUDNN_TYPE_BOOLEAN, CUDNN_TYPE_INT64, CUDNN_TYPE_VOID_PTR,
                                    CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_TYPE_KNOB_TYPE};
    static const int64_t values[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    void                *d = make(kind);

    printf("%d %s:", kind, name);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        printf(" %d", say(dnn.SetAttribute(d, attribute, types[i], 1, values)));
    printf(" %d\n", say(dnn.DestroyDescriptor(d)));
}

static void finalize(const char *what, void *d)
{
    int status = say(dnn.Finalize(d));
    printf("%s: %d, again %d", what, status, say(dnn.Finalize(d)));
    int64_t one = 1;
    printf(", changed %d\n", say(dnn.SetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &one)));
    dnn.DestroyDescriptor(d);
}

/* A tensor without the attribute `lacking`. */
static void *tensor(int lacking, int64_t alignment)
{
    void   *d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t dims[] = {2, 3, 4, 5}, strides[] = {60, 20, 5, 1}, number = 7;
    int     type = CUDNN_DATA_FLOAT;
    if (lacking != CUDNN_ATTR_TENSOR_DATA_TYPE)
        dnn.SetAttribute(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (lacking != CUDNN_ATTR_TENSOR_DIMENSIONS)
        dnn.SetAttribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    if (lacking != CUDNN_ATTR_TENSOR_STRIDES)
        dnn.SetAttribute(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    if (lacking != CUDNN_ATTR_TENSOR_UNIQUE_ID)
        dnn.SetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    if (lacking != CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
        dnn.SetAttribute(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    return d;
}

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library)
        return 2;
#define X(name, symbol, arguments) *(void **)&dnn.name = dlsym(library, #symbol);
#include "backends/cuda/cudnn/cudnn.def"
#undef X
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t a = 0; a < sizeof attributes / sizeof attributes[0]; a++)
            if (strncmp(attributes[a].name, "CUDNN_ATTR_", 11) == 0 && !strstr(attributes[a].name, "DEVICEPROP"))
                ask(kinds[k], attributes[a].name, attributes[a].value);
    finalize("whole", tensor(-1, 16));
    finalize("no dimensions", tensor(CUDNN_ATTR_TENSOR_DIMENSIONS, 16));
    finalize("no strides", tensor(CUDNN_ATTR_TENSOR_STRIDES, 16));
    finalize("no alignment", tensor(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16));
    finalize("alignment 3", tensor(-1, 3));
    /* The library has defaults for the rest, on which the stand-in does not let us rely. */
    finalize("empty convolution", make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
    finalize("empty forward", make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
    finalize("empty backward data", make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR));
    finalize("empty backward filter", make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR));
    finalize("empty heuristics", make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
    finalize("empty engine", make(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
    return 0;
}
END
"$HAUL_CC" "${flags[@]}" -o attributes attributes.c -ldl || exit 1
if ! ./attributes "$folder/../lib64/libcudnn.so.9" >real; then
    echo "there is a header, but no library"
    exit 0
fi
[ -n "$HAUL_SANITIZE" ] && exit 0 # the stand-in wants the sanitizer's run-time library in the program
./attributes "$HAUL_BUILD/tests/standin/libcudnn.so.9" >standin || exit 1
diff real standin || { echo "the stand-in answers otherwise than the library" >&2; exit 1; }
wc -l <real
