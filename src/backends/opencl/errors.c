/* OpenCL's error codes: their names, and the status for each. */
#include "backends/opencl/opencl.h"

#include "core/error.h"

/* X(code, status): the codes that Haul's calls can return. A buffer with an invalid size is one that is too large. */
#define CODES(X)                                                                                                       \
    X(CL_DEVICE_NOT_FOUND, DEVICE)                                                                                     \
    X(CL_DEVICE_NOT_AVAILABLE, DEVICE)                                                                                 \
    X(CL_COMPILER_NOT_AVAILABLE, BACKEND)                                                                              \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_MEMORY)                                                                 \
    X(CL_OUT_OF_RESOURCES, BACKEND)                                                                                    \
    X(CL_OUT_OF_HOST_MEMORY, OUT_OF_MEMORY)                                                                            \
    X(CL_MEM_COPY_OVERLAP, BACKEND)                                                                                    \
    X(CL_BUILD_PROGRAM_FAILURE, BACKEND)                                                                               \
    X(CL_MAP_FAILURE, BACKEND)                                                                                         \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET, BACKEND)                                                                        \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, BACKEND)                                                           \
    X(CL_INVALID_VALUE, BACKEND)                                                                                       \
    X(CL_INVALID_DEVICE_TYPE, BACKEND)                                                                                 \
    X(CL_INVALID_PLATFORM, BACKEND)                                                                                    \
    X(CL_INVALID_DEVICE, BACKEND)                                                                                      \
    X(CL_INVALID_CONTEXT, BACKEND)                                                                                     \
    X(CL_INVALID_QUEUE_PROPERTIES, BACKEND)                                                                            \
    X(CL_INVALID_COMMAND_QUEUE, BACKEND)                                                                               \
    X(CL_INVALID_HOST_PTR, BACKEND)                                                                                    \
    X(CL_INVALID_MEM_OBJECT, BACKEND)                                                                                  \
    X(CL_INVALID_BINARY, BACKEND)                                                                                      \
    X(CL_INVALID_BUILD_OPTIONS, BACKEND)                                                                               \
    X(CL_INVALID_PROGRAM, BACKEND)                                                                                     \
    X(CL_INVALID_PROGRAM_EXECUTABLE, BACKEND)                                                                          \
    X(CL_INVALID_KERNEL_NAME, BACKEND)                                                                                 \
    X(CL_INVALID_KERNEL_DEFINITION, BACKEND)                                                                           \
    X(CL_INVALID_KERNEL, BACKEND)                                                                                      \
    X(CL_INVALID_ARG_INDEX, BACKEND)                                                                                   \
    X(CL_INVALID_ARG_VALUE, BACKEND)                                                                                   \
    X(CL_INVALID_ARG_SIZE, BACKEND)                                                                                    \
    X(CL_INVALID_KERNEL_ARGS, BACKEND)                                                                                 \
    X(CL_INVALID_WORK_DIMENSION, BACKEND)                                                                              \
    X(CL_INVALID_WORK_GROUP_SIZE, BACKEND)                                                                             \
    X(CL_INVALID_WORK_ITEM_SIZE, BACKEND)                                                                              \
    X(CL_INVALID_GLOBAL_OFFSET, BACKEND)                                                                               \
    X(CL_INVALID_EVENT_WAIT_LIST, BACKEND)                                                                             \
    X(CL_INVALID_EVENT, BACKEND)                                                                                       \
    X(CL_INVALID_OPERATION, BACKEND)                                                                                   \
    X(CL_INVALID_BUFFER_SIZE, OUT_OF_MEMORY)                                                                           \
    X(CL_INVALID_GLOBAL_WORK_SIZE, BACKEND)                                                                            \
    X(CL_INVALID_PROPERTY, BACKEND)

typedef struct code_row {
    cl_int      code;
    const char *name;
    haul_status status;
} code_row;

static const code_row code_rows[] = {
#define X(code, status) {code, #code, HAUL_##status},
    CODES(X)
#undef X
};

static const code_row *find(cl_int code)
{
    for (size_t i = 0; i < sizeof code_rows / sizeof code_rows[0]; i++)
        if (code_rows[i].code == code)
            return &code_rows[i];
    return NULL;
}

const char *haul__cl_error_name(cl_int code)
{
    const code_row *row = find(code);
    return row ? row->name : "a code of the vendor's";
}

haul_status haul__cl_check(const haul_device *device, const char *call, cl_int code)
{
    const code_row *row;
    if (code == CL_SUCCESS)
        return HAUL_OK;
    row = find(code);
    return haul__fail(row ? row->status : HAUL_BACKEND, device->name, NULL, "%s failed: %s (%d)", call,
                      haul__cl_error_name(code), (int)code);
}
