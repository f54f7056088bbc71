/* The Python extension haul._haul: what its files share. It holds references to Haul's objects and converts arguments;
 * it computes nothing. */
#ifndef HAULPY_CORE_H
#define HAULPY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <haul/haul.h>
#include <limits.h>
#include <string.h>

/* The kinds of objects other than tensors; each has a type of its own. */
#define OBJECT_KINDS(X)                                                                                                \
    X(MODULE, module, "Module")                                                                                        \
    X(OPTIMIZER, optimizer, "Optimizer")                                                                               \
    X(SCHEDULE, schedule, "Schedule")                                                                                  \
    X(AVERAGE, average, "Average")                                                                                     \
    X(GRAD_SCALER, grad_scaler, "GradScaler")                                                                          \
    X(GENERATOR, generator, "Generator")                                                                               \
    X(DATASET, dataset, "Dataset")                                                                                     \
    X(TRANSFORM, transform, "Transform")                                                                               \
    X(LOADER, loader, "Loader")                                                                                        \
    X(SAFETENSORS, safetensors, "Safetensors")                                                                         \
    X(BEST_WEIGHTS, best_weights, "BestWeights")                                                                       \
    X(RECORDING, recording, "Recording")                                                                               \
    X(PLAN, plan, "Plan")                                                                                              \
    X(GROUP, group, "Group")                                                                                           \
    X(PARALLEL, parallel, "Parallel")                                                                                  \
    X(PROFILE, profile, "Profile")                                                                                     \
    X(LEDGER, ledger, "Ledger")

typedef enum object_kind {
#define X(NAME, name, class) KIND_##NAME,
    OBJECT_KINDS(X)
#undef X
        KINDS
} object_kind;

/* An Array owns one reference to a tensor. */
typedef struct array_object {
    PyObject_HEAD haul_tensor *tensor;
} array_object;

/* An object of another kind: it owns one reference, or none before it was made (NULL). */
typedef struct haul_object {
    PyObject_HEAD void *object;
    PyObject           *needed; /* what the object calls, or NULL */
    bool                busy;   /* a loader of which a thread takes a batch */
} haul_object;

extern PyTypeObject *array_type;
extern PyTypeObject *object_types[KINDS];
extern PyObject     *object_classes[KINDS]; /* what results are made of: the type, or a class that Python registered */

/* ---- errors (error.c) ---- */

/* Before each call of the library: the thread has a scope, and no error. */
void haulpy_begin(void);
/* The same, in a scope of its own, which takes what a call made besides its results; haulpy_leave closes it. */
haul_scope *haulpy_enter(void);
void        haulpy_leave(haul_scope *scope);
/* The thread's error as a Python exception, or the exception of a function of the program that the call ran. Always
 * returns NULL. */
PyObject *haulpy_raise(void);
/* A message of the library as a text. */
PyObject *haulpy_text(const char *text);
/* If the last call recorded an error: raises it and returns true. */
bool haulpy_failed(void);
/* Keeps the current Python exception for haulpy_raise, and records an error of the library. For functions of the
 * program. */
void haulpy_keep_exception(const char *where);
/* After a function of the program: if it was fine, forgets the error of a call whose exception it caught; else keeps
 * its exception. Returns the status. */
haul_status haulpy_ended(bool fine, const char *where);
/* Records the type and the text of the current Python exception as an error of the library, where the thread that
 * called the library may be another one. */
void haulpy_report_exception(const char *where);
/* The end of a function of the program: gives back references to `count` objects, of which any may be NULL, and then
 * the interpreter, because objects that end may run code of Python. */
void haulpy_leave_python(PyGILState_STATE state, int count, ...);
/* False, and ImportError: what this extension holds belongs to the main interpreter. */
bool haulpy_is_main_interpreter(void);
/* Registers the exceptions: a dictionary from the name of a status to a class. */
PyObject *haulpy_set_exceptions(PyObject *module, PyObject *exceptions);

/* ---- objects (object.c, array.c) ---- */

/* An Array of a tensor that a call returned; raises if the tensor is a failed one. `borrowed`: something else holds it.
 */
PyObject *haulpy_array(haul_tensor *tensor, bool borrowed);
/* A tuple of results: of `first` if it is not NULL, then of `count` more. */
PyObject *haulpy_tuple(haul_tensor *first, haul_tensor **more, int count);
/* The same for another object; NULL raises. */
PyObject *haulpy_object(object_kind kind, void *object, bool borrowed);
bool      haulpy_is_array(PyObject *value);
/* The tensor of an Array; NULL raises TypeError that names `what`. */
haul_tensor *haulpy_tensor(PyObject *value, const char *what);
/* The object behind a Python object of that kind; NULL raises. */
void *haulpy_handle(PyObject *value, object_kind kind, const char *what);
/* Gives a reference back. Functions of the program may run in it, so the GIL is released. */
void haulpy_let_go(void *object);
bool haulpy_add_array_type(PyObject *module);
bool haulpy_add_object_types(PyObject *module);

PyObject *haulpy_add_hook(PyObject *self, PyObject *args, PyObject *names);
PyObject *haulpy_complex(PyObject *self, PyObject *unused);
PyObject *haulpy_array_namespace(PyObject *self, PyObject *args, PyObject *names);
PyObject *haulpy_to_device(PyObject *self, PyObject *args, PyObject *names);

/* ---- values (convert.c) ---- */

bool haulpy_is_number(PyObject *value); /* a float, int or bool of Python */
bool haulpy_as_double(PyObject *value, const char *what, double *out);
bool haulpy_as_i64(PyObject *value, const char *what, int64_t *out);
/* False, and raised, if an integer dtype does not hold the number. */
bool haulpy_fits(int64_t number, haul_dtype dtype);
bool haulpy_as_dtype(PyObject *value, haul_dtype *out);
/* The object of Python for a dtype; its name before Python registered them. */
PyObject *haulpy_dtype(haul_dtype dtype);
PyObject *haulpy_set_dtypes(PyObject *module, PyObject *given);
/* Shapes are a number or a sequence of numbers. */
bool         haulpy_as_shape(PyObject *value, const char *what, haul_shape *out);
haul_device *haulpy_as_device(PyObject *value); /* NULL raises */
PyObject    *haulpy_shape(haul_shape shape);

/* ---- making and reading arrays (build.c, exchange.c, index.c) ---- */

/* A tensor from an Array, a number, nested lists, a buffer or what has __dlpack__. NONE: the dtype of the data. */
PyObject *haulpy_build(PyObject *data, haul_dtype dtype, haul_device *device);
PyObject *haulpy_new_array(PyObject *module, PyObject *args, PyObject *names);
PyObject *haulpy_to_list(PyObject *self, PyObject *unused);
PyObject *haulpy_item(PyObject *self, PyObject *unused);

PyObject *haulpy_dlpack(PyObject *self, PyObject *args, PyObject *names);
PyObject *haulpy_dlpack_device(PyObject *self, PyObject *unused);
PyObject *haulpy_from_dlpack(PyObject *module, PyObject *args, PyObject *names);
PyObject *haulpy_numpy(PyObject *self, PyObject *args, PyObject *names);
int       haulpy_get_buffer(PyObject *self, Py_buffer *view, int flags);
void      haulpy_release_buffer(PyObject *self, Py_buffer *view);

PyObject  *haulpy_get_item(PyObject *self, PyObject *key);
int        haulpy_set_item(PyObject *self, PyObject *key, PyObject *value);
Py_ssize_t haulpy_length(PyObject *self);

/* ---- functions of the program (program.c, steps.c, hooks.c, kernel.c) ---- */

/* The result of a function of the program as a tensor of the calling scope: a view, which ends with it. */
haul_tensor *haulpy_as_scoped(haul_tensor *x);
/* A tensor that a function of the program returned, as one of the calling scope; None is HAUL_NONE. NULL: raised. */
haul_tensor *haulpy_returned(PyObject *value, const char *what);
/* A tuple of Arrays, with None for what is absent. NULL: raised. */
PyObject *haulpy_arrays(haul_tensor *const *tensors, int count);
/* Gives back the reference that the library held as a context. */
void haulpy_end_context(void *context);

/* What a custom operation of this name calls, as a tuple with None for what is absent: those with a kernel have all
 * parts, the others the first two. A new reference; NULL: raised. */
enum { CUSTOM_COMPOSE, CUSTOM_GRADIENT, CUSTOM_SHAPES, CUSTOM_LAUNCH, CUSTOM_NUMBERS, CUSTOM_OPERATION };
PyObject *haulpy_custom_part(const char *name, int which);
/* Registers the operation, which stays as long as the process, with its parts. A capsule for _custom_apply; NULL:
 * raised, and the operation is still the caller's. */
PyObject *haulpy_custom_add(haul_custom_operation *operation, PyObject *parts);
void      haulpy_custom_gradient(haul_custom_gradient *gradient);

extern PyMethodDef haulpy_watch_functions[], haulpy_program_functions[], haulpy_step_functions[],
    haulpy_hook_functions[], haulpy_source_functions[], haulpy_kernel_functions[];

#endif
