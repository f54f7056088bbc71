/* Pooling layers of sequences and volumes. Options are checked when the layer is made, the input at each call. */
#include <haul/volume.h>

#include "core/error.h"
#include "core/shape.h"
#include "nn/module.h"
#include "ops/pool/triple.h"

#define POOLING(name, options, check)                                                                                  \
    static haul_tensor *name##_forward(haul_module *m, haul_args *args)                                                \
    {                                                                                                                  \
        return haul_##name##_with(args->x[0], haul_module_state(m));                                                   \
    }                                                                                                                  \
    haul_module *haul_nn_##name##_with(const options *o)                                                               \
    {                                                                                                                  \
        if (check("haul_nn_" #name, o))                                                                                \
            return NULL;                                                                                               \
        haul_module *m = haul_module_new(#name, name##_forward, .state_bytes = sizeof *o);                             \
        if (m)                                                                                                         \
            *(options *)haul_module_state(m) = *o;                                                                     \
        return m;                                                                                                      \
    }

static haul_status check_line(const char *operation, const haul_pool1d_options *o)
{
    if (!o)
        return haul__fail_null(operation, "options");
    if (haul__module_size(o->size, operation, "size") ||
        (o->stride && haul__module_size(o->stride, operation, "stride")))
        return haul_error_status();
    const int64_t gap = o->dilation ? o->dilation : 1;
    int64_t       window;
    if (haul__module_size(gap, operation, "dilation"))
        return haul_error_status();
    if (!haul__mul_size(o->size - 1, gap, &window) || window == INT64_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "dilation", "the window's size overflows");
    window++;
    if (o->padding != HAUL_ZERO && (o->padding < 0 || o->padding > window / 2))
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "padding",
                          "padding %lld is not possible; it can be from 0 to half the window, which is %lld",
                          (long long)o->padding, (long long)window);
    return HAUL_OK;
}

static haul_status check_volume(const char *operation, const haul_pool3d_options *o)
{
    static const int64_t ones[3] = {1, 1, 1}, zeros[3];
    int64_t              meant[3];
    if (!o)
        return haul__fail_null(operation, "options");
    if (haul__module_size(o->size, operation, "size") ||
        (o->size_h && haul__module_size(o->size_h, operation, "size_h")) ||
        (o->size_w && haul__module_size(o->size_w, operation, "size_w")) ||
        haul__option_triple(operation, "stride", o->stride, ones, 1, meant))
        return haul_error_status();
    return haul__option_triple(operation, "padding", o->padding, zeros, 0, meant)
               ? haul_error_status()
               : haul__option_triple(operation, "dilation", o->dilation, ones, 1, meant);
}

POOLING(max_pool1d, haul_pool1d_options, check_line)
POOLING(avg_pool1d, haul_pool1d_options, check_line)
POOLING(max_pool3d, haul_pool3d_options, check_volume)
POOLING(avg_pool3d, haul_pool3d_options, check_volume)

static haul_module *adaptive_new(const char *kind, haul_forward *forward, int64_t a, int64_t b, int64_t c)
{
    haul_module *m = haul_module_new(kind, forward, .state_bytes = 3 * sizeof(int64_t));
    if (m) {
        int64_t *size = haul_module_state(m);
        size[0] = a;
        size[1] = b;
        size[2] = c;
    }
    return m;
}

#define ADAPTIVE_LINE(name)                                                                                            \
    static haul_tensor *name##_forward(haul_module *m, haul_args *args)                                                \
    {                                                                                                                  \
        return haul_##name(args->x[0], *(const int64_t *)haul_module_state(m));                                        \
    }                                                                                                                  \
    haul_module *haul_nn_##name(int64_t length)                                                                        \
    {                                                                                                                  \
        if (haul__module_size(length, "haul_nn_" #name, "length"))                                                     \
            return NULL;                                                                                               \
        return adaptive_new(#name, name##_forward, length, 0, 0);                                                      \
    }

ADAPTIVE_LINE(adaptive_max_pool1d)
ADAPTIVE_LINE(adaptive_avg_pool1d)

#define ADAPTIVE_VOLUME(name)                                                                                          \
    static haul_tensor *name##_forward(haul_module *m, haul_args *args)                                                \
    {                                                                                                                  \
        const int64_t *size = haul_module_state(m);                                                                    \
        return haul_##name(args->x[0], size[0], size[1], size[2]);                                                     \
    }                                                                                                                  \
    haul_module *haul_nn_##name(int64_t depth, int64_t height, int64_t width)                                          \
    {                                                                                                                  \
        static const char operation[] = "haul_nn_" #name;                                                              \
        if (haul__module_size(depth, operation, "depth") || haul__module_size(height, operation, "height") ||          \
            haul__module_size(width, operation, "width"))                                                              \
            return NULL;                                                                                               \
        return adaptive_new(#name, name##_forward, depth, height, width);                                              \
    }

ADAPTIVE_VOLUME(adaptive_max_pool3d)
ADAPTIVE_VOLUME(adaptive_avg_pool3d)
