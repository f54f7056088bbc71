/* What every public header needs: visibility, C++ guards, attributes.
 *
 * Conventions of the whole interface (docs/guide.md explains them at leisure):
 *   - A function that returns a tensor returns a failed tensor on failure, never NULL (tensor.h). An operation on a
 *     failed tensor fails with the error it carries. So a whole expression is checked once, at its end, with
 *     haul_error_status() or haul_tensor_is_valid(result).
 *   - A function that returns another pointer returns NULL on failure and only then, with these exceptions:
 *     haul_loader_next returns NULL past the end; haul_device_get returns an invalid device;
 *     haul_module_kind, haul_optimizer_kind and haul_safetensors_metadata return "" on failure.
 *   - Other functions return a haul_status (0 is success), or a number or bool that says what it is on failure.
 *   - Every constructed object belongs to the innermost scope of the calling thread (scope.h).
 *   - Options are given as designated initialisers after the last positional argument: haul_conv2d(x, w, bias,
 *     .stride = {2, 2}). Compilers warn about a value without a name there. A tensor option that is not given is
 *     HAUL_NONE.
 *   - An option that is omitted or 0 has its default; write HAUL_ZERO for the number zero. A pair needs both values,
 *     .padding = {1, 1}, and a 0 in it is an error: write {1, HAUL_ZERO}.
 *   - Each of these macros calls a function that takes a pointer to the options. In C++ the macros need C++20, and
 *     options in the order of the struct; older programs call the functions.
 *   - Before 1.0 structs may grow with each minor version: recompile programs for it. */
#ifndef HAUL_BASE_H
#define HAUL_BASE_H

/* g++ -Wextra would report each option that is not given as a missing initialiser. */
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

/* The number zero for an option whose default is another number: .padding = {1, HAUL_ZERO}. */
#define HAUL_ZERO (-2147483647 - 1)

/* Private: a struct of options is HAUL__DESIGNATED and has a HAUL__GUARD, of no size, after its positional members. A
 * further value without a name would initialise the guard, and compilers warn. C++ refuses it without a guard. */
#if defined(__GNUC__) && !defined(__cplusplus)
typedef struct haul__nothing {
    char nothing;
} haul__nothing;
#define HAUL__GUARD __extension__ haul__nothing haul__options_have_names[0];
#else
#define HAUL__GUARD
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

/* Private: HAUL__COUNT says how many values of a type are given, HAUL__OPTIONS is a pointer to options that live until
 * the end of the expression (C++) or block (C). */
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

/* Most dimensions a tensor can have. */
#define HAUL_MAX_DIMS 8

HAUL_BEGIN

typedef struct haul_tensor    haul_tensor;
typedef struct haul_device    haul_device;
typedef struct haul_scope     haul_scope;
typedef struct haul_module    haul_module;
typedef struct haul_optimizer haul_optimizer;
typedef struct haul_dataset   haul_dataset;
typedef struct haul_loader    haul_loader;

/* The version of the library in use, "MAJOR.MINOR.PATCH". */
#define HAUL_VERSION_MAJOR 0
#define HAUL_VERSION_MINOR 1
#define HAUL_VERSION_PATCH 0
HAUL_API const char *haul_version(void);

/* The optional parts this build has, as words: "opencl jpeg png onednn". */
HAUL_API const char *haul_build_features(void);

HAUL_END

#endif
