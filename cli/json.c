#include "json.h"

#include <math.h>
#include <string.h>

cJSON *json_event(const char *name)
{
    cJSON *object = cJSON_CreateObject();

    json_text(object, "event", name);
    return object;
}

void json_number(cJSON *object, const char *name, double value)
{
    if (!object)
        return;
    if (isfinite(value))
        cJSON_AddNumberToObject(object, name, value);
    else
        cJSON_AddNullToObject(object, name);
}

void json_text(cJSON *object, const char *name, const char *value)
{
    if (object)
        cJSON_AddStringToObject(object, name, value);
}

void json_bool(cJSON *object, const char *name, bool value)
{
    if (object)
        cJSON_AddBoolToObject(object, name, value);
}

void json_shape(cJSON *object, const char *name, const haul_shape *shape)
{
    cJSON *array = object ? cJSON_AddArrayToObject(object, name) : NULL;

    for (int i = 0; array && i < shape->ndim; i++)
        cJSON_AddItemToArray(array, cJSON_CreateNumber((double)shape->dims[i]));
}

char *json_compact(cJSON *object)
{
    char *text = object ? cJSON_PrintUnformatted(object) : NULL;

    cJSON_Delete(object);
    return text;
}

char *json_line(cJSON *object)
{
    char *text = json_compact(object);
    char *line = NULL;

    if (text) {
        size_t length = strlen(text);
        line = cJSON_malloc(length + 2);
        if (line) {
            memcpy(line, text, length);
            memcpy(line + length, "\n", 2);
        }
    }
    cJSON_free(text);
    return line;
}

bool json_print(cJSON *object)
{
    char *line = json_line(object);
    bool  printed = line && fputs(line, stdout) >= 0;

    cJSON_free(line);
    return printed;
}
