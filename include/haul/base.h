/* Conventions: what holds for every function, the version, and the limits.
 *
 * - Failed tensors. A function that returns a tensor returns a failed tensor on failure, never NULL (tensor.h). An
 *   operation on a failed tensor fails with the same error. So check a whole expression once, at its end, with
 *   haul_error_status() or haul_tensor_is_valid(result).
 * - Other pointers are NULL on failure, and only then. Exceptions: haul_loader_next also returns NULL at the end of an
 *   epoch; haul_device_get returns an invalid device; haul_current_generator returns NULL for the process's generator;
 *   haul_optimizer_module returns NULL for an optimizer without a module; haul_module_kind, haul_optimizer_kind,
 *   haul_schedule_kind and haul_safetensors_metadata return "".
 * - Statuses. Functions that return nothing else return a haul_status; HAUL_OK is 0. Functions that return a number or
 *   a bool document their value on failure.
 * - Ownership. Every object that a function makes belongs to the innermost scope of the calling thread and ends with it
 *   (scope.h). The caller frees nothing else, except where an entry says "the caller must free".
 * - Options are designated initialisers after the last positional argument: haul_conv2d(x, w, .bias = b, .stride = {2,
 *   2}). What a call needs is positional, in the order of the formula; everything else is an option, tensors included.
 *   The compiler warns about an option without a name.
 * - Defaults. An option that is omitted or 0 has its default. Write HAUL_ZERO for the number zero. A tensor option that
 *   is omitted is HAUL_NONE. An option with two values needs both, as in .padding = {1, 1}. {0, 0} counts as omitted;
 *   a single 0 in it is an error, so write {1, HAUL_ZERO}.
 * - Forms. Each macro with options calls a function whose name ends in `_with` and that takes a pointer to the options.
 *   Functions whose names end in `_into` write into an existing tensor.
 * - C++. The macros need C++20, with the options in the order of the struct. Older C++ calls the functions.
 * - Threads. Any thread may call any function. Each thread has scopes, settings and an error record of its own. Several
 *   threads may read one object at the same time, but while one thread changes an object no other may use it, unless an
 *   entry says otherwise.
 * - Compatibility. Before 1.0, structs may grow with each minor version: recompile programs for a new one. */
#ifndef HAUL_BASE_H
#define HAUL_BASE_H

/* g++ -Wextra would report each omitted option as a missing initialiser. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC system_header
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HAUL_API          __attribute__((visibility("default")))
#define HAUL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define HAUL_API
#define HAUL_PRINTF(f, a)
#endif

#ifdef __cplusplus
#define HAUL_BEGIN extern "C" {
#define HAUL_END   }
#else
#define HAUL_BEGIN
#define HAUL_END
#endif

/* The number zero, for an option whose default is another number: .padding = {1, HAUL_ZERO}. */
#define HAUL_ZERO (-2147483647 - 1)

/* Private: a struct of options is HAUL__DESIGNATED and has a HAUL__GUARD(the first option), of no size, after its
 * positional members. A further value without a name would initialise the guard, and compilers warn; gcc names the
 * guard. C++ refuses it without a guard. */
#if defined(__GNUC__) && !defined(__cplusplus)
typedef struct haul__nothing {
    char nothing;
} haul__nothing;
#define HAUL__GUARD(option) __extension__ haul__nothing haul__options_have_names_like_dot_##option[0];
#else
#define HAUL__GUARD(option)
#endif
#ifdef __has_attribute
#if __has_attribute(designated_init)
#define HAUL__DESIGNATED __attribute__((designated_init))
#endif
#endif
#ifndef HAUL__DESIGNATED
#define HAUL__DESIGNATED
#endif

/* Private: the first argument of a macro, those after it, the second argument, and those after that. */
#define HAUL__FIRST(a, ...)     a
#define HAUL__TAIL(a, ...)      __VA_ARGS__
#define HAUL__SECOND(a, b, ...) b
#define HAUL__REST(a, b, ...)   __VA_ARGS__

/* Private: HAUL__COUNT is the number of values of a type; HAUL__OPTIONS is a pointer to options that live until the end
 * of the expression (C++) or block (C). */
#ifdef __cplusplus
extern "C++" {

/* Never called: sizeof counts the arguments without evaluating them. */
template <typename... T> char (&haul__counted(const T &...))[sizeof...(T)];

/* A temporary: it lives until the end of the expression. */
template <typename T> const T *haul__options(const T &options)
{
    return &options;
}
}
#define HAUL__COUNT(type, ...)   (static_cast<int>(sizeof(haul__counted(__VA_ARGS__))))
#define HAUL__OPTIONS(type, ...) haul__options(type{__VA_ARGS__})
#else
#define HAUL__COUNT(type, ...)   ((int)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)))
#define HAUL__OPTIONS(type, ...) (&(type){__VA_ARGS__})
#endif

/* The maximum number of dimensions of a tensor. */
#define HAUL_MAX_DIMS 8

HAUL_BEGIN

typedef struct haul_tensor    haul_tensor;    /* a tensor: shape, dtype, device and memory (tensor.h) */
typedef struct haul_device    haul_device;    /* a device; lives as long as the process (device.h) */
typedef struct haul_scope     haul_scope;     /* owns the objects that are made while it is open (scope.h) */
typedef struct haul_module    haul_module;    /* a layer or network (nn.h) */
typedef struct haul_optimizer haul_optimizer; /* changes parameters from their gradients (optim.h) */
typedef struct haul_dataset   haul_dataset;   /* numbered examples (dataset.h) */
typedef struct haul_loader    haul_loader;    /* makes batches of a dataset (data.h) */

/* The version of the headers, as numbers for the preprocessor. */
#define HAUL_VERSION_MAJOR 0
#define HAUL_VERSION_MINOR 2
#define HAUL_VERSION_PATCH 0

/* The version of the library that the program runs with, as HAUL_VERSION_STRING. It lives as long as the process. */
HAUL_API const char *haul_version(void);

/* The optional parts that this library was built with, separated by blanks: "opencl jpeg png onednn". The text lives as
 * long as the process. */
HAUL_API const char *haul_build_features(void);

/* The version of the headers as a text, "MAJOR.MINOR.PATCH"; between releases it ends in "-dev". */
#define HAUL_VERSION_STRING "0.2.0-dev"

HAUL_END

#endif
