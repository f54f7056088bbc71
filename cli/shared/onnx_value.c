#include "cli/shared/onnx_value.h"

#include <stdio.h>
#include <string.h>

#include "cli/shared/cli.h"

const char *onnx_dtype_text(const haul__onnx_value *v)
{
    return !v->element_type              ? "not a tensor"
           : v->dtype == HAUL_DTYPE_NONE ? haul__onnx_dtype_name(v->element_type)
                                         : haul_dtype_name(v->dtype);
}

const char *onnx_shape_text(const haul__onnx_value *v, char out[ONNX_TEXT])
{
    size_t used = 0;
    out[0] = 0;
    if (v->ndim < 0)
        return "";
    for (int d = 0; d < v->ndim && d < HAUL_MAX_DIMS && used < ONNX_TEXT - 40; d++) {
        char size[32] = "?";
        if (v->dims[d] >= 0)
            snprintf(size, sizeof size, "%lld", (long long)v->dims[d]);
        else if (v->names[d])
            visible_text(size, sizeof size, v->names[d]);
        used += (size_t)snprintf(out + used, ONNX_TEXT - used, "%s%s", d ? "," : "[", size);
    }
    snprintf(out + used, ONNX_TEXT - used, "%s%s", v->ndim ? "" : "[", v->ndim > HAUL_MAX_DIMS ? ",...]" : "]");
    return out;
}
