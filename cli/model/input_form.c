#include "cli/model/input_form.h"

#include "cli/shared/json.h"

input_form input_form_of(const haul_field *x)
{
    bool bytes = x->dtype == HAUL_U8;
    return (input_form){.shape = x->shape, .mean = bytes ? 0.5 : 0, .deviation = bytes ? 0.5 : 0};
}

haul_dataset *input_form_apply(const input_form *form, haul_dataset *raw)
{
    haul_field x;
    if (haul_dataset_field(raw, 0, &x))
        return NULL;
    if (x.dtype != HAUL_U8 || form->deviation == 0)
        return raw;
    return haul_dataset_map(
        raw, haul_normalise("x", .mean = {form->mean != 0 ? form->mean : HAUL_ZERO}, .deviation = {form->deviation}));
}

bool input_is_picture(const input_form *form)
{
    return form->shape.ndim == 3 && form->deviation > 0 && (form->shape.dims[0] == 1 || form->shape.dims[0] == 3);
}

cJSON *input_form_to_json(const input_form *form)
{
    cJSON *object = cJSON_CreateObject();
    json_shape(object, "shape", &form->shape);
    if (form->deviation > 0) {
        json_number(object, "mean", form->mean);
        json_number(object, "deviation", form->deviation);
    }
    return object;
}

bool input_form_from_json(const cJSON *json, input_form *out)
{
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(json, "shape"), *size;
    const cJSON *mean = cJSON_GetObjectItemCaseSensitive(json, "mean");
    const cJSON *deviation = cJSON_GetObjectItemCaseSensitive(json, "deviation");
    *out = (input_form){.shape = HAUL_SCALAR_SHAPE};
    if (!cJSON_IsArray(shape) || (!mean) != (!deviation))
        return false;
    cJSON_ArrayForEach(size, shape)
    {
        if (out->shape.ndim == HAUL_MAX_DIMS || !cJSON_IsNumber(size) || !(size->valuedouble >= 0) ||
            size->valuedouble > 1e9)
            return false;
        out->shape.dims[out->shape.ndim++] = (int64_t)size->valuedouble;
    }
    if (!mean)
        return true;
    out->mean = cJSON_GetNumberValue(mean);
    out->deviation = cJSON_GetNumberValue(deviation);
    return cJSON_IsNumber(mean) && cJSON_IsNumber(deviation) && out->deviation > 0;
}
