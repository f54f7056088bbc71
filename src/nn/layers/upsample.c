/* Interpolation as a layer. The input is checked at each call. */
#include <haul/image.h>

#include "core/error.h"
#include "nn/module.h"

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    haul_interpolate_options options = *(const haul_interpolate_options *)haul_module_state(m);
    options.x = args->x[0];
    return haul_interpolate_with(&options);
}

haul_module *haul_nn_upsample_with(const haul_nn_upsample_options *options)
{
    static const char operation[] = "haul_nn_upsample";
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    bool sized = options->size[0] > 0, scaled = options->scale[0] > 0;
    for (int i = 0; i < 3; i++)
        if (options->size[i] < 0 || !(options->scale[i] >= 0))
            sized = scaled = false;
    if (sized == scaled) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "size",
                   "size is {%lld, %lld, %lld} and scale is {%g, %g, %g}; one of them must be given, with a positive "
                   "number for each axis after the channels",
                   (long long)options->size[0], (long long)options->size[1], (long long)options->size[2],
                   options->scale[0], options->scale[1], options->scale[2]);
        return NULL;
    }
    haul_module *m = haul_module_new("upsample", forward, .state_bytes = sizeof(haul_interpolate_options));
    if (m)
        *(haul_interpolate_options *)haul_module_state(m) =
            (haul_interpolate_options){.size = {options->size[0], options->size[1], options->size[2]},
                                       .scale = {options->scale[0], options->scale[1], options->scale[2]},
                                       .mode = options->mode,
                                       .align_corners = options->align_corners,
                                       .antialias = options->antialias};
    return m;
}
