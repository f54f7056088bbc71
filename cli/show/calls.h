/* How operations and modules are called that a program can call: prototypes, options and descriptions from the public
 * headers. */
#ifndef CLI_SHOW_CALLS_H
#define CLI_SHOW_CALLS_H

typedef struct operation_call {
    const char *operation; /* "conv2d" */
    const char *prototype; /* "haul_tensor *haul_conv2d(haul_tensor *x, haul_tensor *weight, ...)" */
    const char *description;
} operation_call;

typedef struct module_call {
    const char *name;      /* "nn_lstm" */
    const char *prototype; /* "haul_module *haul_nn_lstm(int64_t in, int64_t hidden, ...)" */
    const char *description;
    const char *inputs, *results; /* "x, h?, c?, lengths?" and "y, h, c"; "": one tensor each */
} module_call;

typedef struct call_option {
    const char *operation;
    const char *name;                   /* ".bias", or "HAUL_AXES(axis, ...)" */
    const char *type, *meaning, *value; /* value: the default; "": there is none */
} call_option;

/* NULL: only the library calls the operation. */
const operation_call *operation_call_of(const char *operation);

enum { MODULE_PREFIX = 3 /* "nn_" */ };

/* By "nn_lstm" or "lstm"; NULL if no module has the name. */
const module_call *module_call_of(const char *name);

/* The next module: the first for NULL; NULL at the end. */
const module_call *module_call_after(const module_call *last);

/* The next option of an operation or module: the first for NULL; NULL at the end. */
const call_option *call_option_after(const char *operation, const call_option *last);

#endif
