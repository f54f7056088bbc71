/* How the operations that a program can call are called: prototypes, options and descriptions from the public headers.
 */
#ifndef CLI_SHOW_CALLS_H
#define CLI_SHOW_CALLS_H

typedef struct operation_call {
    const char *operation; /* "conv2d" */
    const char *prototype; /* "haul_tensor *haul_conv2d(haul_tensor *x, haul_tensor *weight, ...)" */
    const char *description;
} operation_call;

typedef struct call_option {
    const char *operation;
    const char *name;                   /* ".bias", or "HAUL_AXES(axis, ...)" */
    const char *type, *meaning, *value; /* value: the default; "": there is none */
} call_option;

/* NULL: only the library calls the operation. */
const operation_call *operation_call_of(const char *operation);

/* The next option of an operation: the first for NULL; NULL at the end. */
const call_option *call_option_after(const char *operation, const call_option *last);

#endif
