#include "json.h"

#include <math.h>
#include <string.h>

#include "cli.h"
#include "parts.h"

static bool incomplete; /* something could not be added since the last text was made */

static void note(const void *added)
{
    incomplete = incomplete || !added;
}

cJSON *json_event(const char *name)
{
    cJSON *object = cJSON_CreateObject();

    json_text(object, "event", name);
    return object;
}

void json_number(cJSON *object, const char *name, double value)
{
    note(isfinite(value) ? cJSON_AddNumberToObject(object, name, value) : cJSON_AddNullToObject(object, name));
}

void json_text(cJSON *object, const char *name, const char *value)
{
    note(cJSON_AddStringToObject(object, name, value));
}

void json_bool(cJSON *object, const char *name, bool value)
{
    note(cJSON_AddBoolToObject(object, name, value));
}

cJSON *json_array(cJSON *object, const char *name)
{
    cJSON *array = cJSON_AddArrayToObject(object, name);

    note(array);
    return array;
}

void json_push(cJSON *array, cJSON *item)
{
    if (array && item && cJSON_AddItemToArray(array, item))
        return;
    cJSON_Delete(item);
    note(NULL);
}

void json_shape(cJSON *object, const char *name, const haul_shape *shape)
{
    cJSON *array = json_array(object, name);

    for (int i = 0; i < shape->ndim; i++)
        json_push(array, cJSON_CreateNumber((double)shape->dims[i]));
}

/* cJSON writes what a terminal obeys as it is, but for the first 32 characters. It can be in quoted texts only, where
 * an escape means the same. Takes the text over. */
static char *escape_obeyed(char *text)
{
    enum { ESCAPE = 6 }; /* bytes of \u009b */
    size_t   found = 0;
    uint32_t code;

    for (const char *at = text; *at; at++)
        found += obeyed_length(at, &code) > 0;
    if (!found)
        return text;
    char *out = cJSON_malloc(strlen(text) + found * ESCAPE + 1), *to = out;
    for (const char *at = text; out && *at;) {
        size_t length = obeyed_length(at, &code);
        if (length)
            to += snprintf(to, ESCAPE + 1, "\\u%04x", (unsigned)code & 0xffff);
        else
            *to++ = *at;
        at += length ? length : 1;
    }
    if (out)
        *to = 0;
    cJSON_free(text);
    return out;
}

char *json_compact(cJSON *object)
{
    char *text = object && !incomplete ? cJSON_PrintUnformatted(object) : NULL;

    if (text)
        text = escape_obeyed(text);

    cJSON_Delete(object);
    incomplete = false;
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

    if (!line) {
        complain("memory is exhausted");
        return false;
    }
    fputs(line, stdout);
    cJSON_free(line);
    return output_works();
}

void json_parts(cJSON *object, const char *name, const struct network_parts *parts)
{
    cJSON *array = json_array(object, name);

    for (int i = 0; i < parts->count; i++)
        if (parts->items[i].on)
            json_push(array, cJSON_CreateString(parts->items[i].name));
}
