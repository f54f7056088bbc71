/* What every public header needs: visibility, C++ guards, attributes.
 *
 * Conventions of the whole interface (docs/guide.md explains them at leisure):
 *   - A function that returns a tensor returns a failed tensor on failure, never NULL (tensor.h). An operation on a
 *     failed tensor fails with the error it carries. So a whole expression is checked once, at its end, with
 *     haul_error_status() or haul_tensor_is_valid(result).
 *   - A function that returns another pointer returns NULL on failure and only then, with these exceptions:
 *     haul_loader_next and haul_dataset_class_name have an end, haul_device_get returns an invalid device;
 *     haul_module_kind, haul_optimizer_kind and haul_safetensors_metadata return "" on failure.
 *   - Other functions return a haul_status (0 is success), or a number or bool that says what it is on failure.
 *   - Every constructed object belongs to the innermost scope of the calling thread (scope.h).
 *   - Options are given as designated initialisers after the last positional argument: haul_conv2d(x, w, bias,
 *     .stride = {2, 2}). What is not given is zero, which means the default. A tensor that is not given counts as
 *     HAUL_NONE.
 *   - Behind each such macro stands a function that takes a pointer to the options. In C++ the macros need C++20, and
 *     options in the order of the struct; older programs call the functions.
 *   - Before 1.0 structs may grow with each minor version: programs are compiled anew for it. */
#ifndef HAUL_BASE_H
#define HAUL_BASE_H

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

/* Private: HAUL__COUNT says how many values of a type are given, HAUL__OPTIONS is a pointer to options that live until
 * the end of the expression (C++) or block (C). */
#ifdef __cplusplus
extern "C++" {
template <typename... T> constexpr int haul__count(const T &...)
{
    return static_cast<int>(sizeof...(T));
}
template <typename T> const T *haul__options(const T &options)
{
    return &options;
}
}
#define HAUL__COUNT(type, ...)   haul__count(__VA_ARGS__)
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
