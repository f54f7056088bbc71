/* What networks of pictures have in common. */
#include "nn/models/pictures.h"

#include <haul/ops.h>

#include "core/error.h"
#include "core/shape.h"

haul_status haul__model_check_pictures(const char *name, const haul_shape *input)
{
    char text[96];
    if (input->ndim == 3)
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, "haul_model_new", "input",
                      "%s needs pictures [channels, height, width], but an example is %s; use dense or mlp", name,
                      haul__shape_text(input, text, sizeof text));
}

static haul_tensor *average(haul_module *m, haul_args *args)
{
    (void)m;
    return haul_mean(args->x[0], HAUL_AXES(2, 3));
}

haul_module *haul__model_average(void)
{
    return haul_module_new("global_avg_pool2d", average);
}
