/* What every public header needs: visibility, C++ guards, attributes.
 *
 * Conventions of the whole interface (docs/guide.md explains them at leisure):
 *   - A function that returns a pointer returns NULL on failure and only then. A NULL operand gives a NULL result and
 *     keeps the first error, so that a whole expression is checked once, at its end, with haul_error_status().
 *   - Other functions return a haul_status; 0 is success.
 *   - Every constructed object belongs to the innermost scope of the calling thread (scope.h).
 *   - Options are given as designated initialisers after the last positional argument; zero is always the default:
 *     haul_conv2d(x, w, bias, .stride = {2, 2}). Behind each such macro stands a function that takes a pointer.
 */
#ifndef HAUL_BASE_H
#define HAUL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HAUL_API          __attribute__((visibility("default")))
#define HAUL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define HAUL_MUST_USE     __attribute__((warn_unused_result))
#else
#define HAUL_API
#define HAUL_PRINTF(f, a)
#define HAUL_MUST_USE
#endif

#ifdef __cplusplus
#define HAUL_BEGIN extern "C" {
#define HAUL_END   }
#else
#define HAUL_BEGIN
#define HAUL_END
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
