#include "cli/shared/json.h"

#include <math.h>
#include <string.h>

#include "cli/shared/cli.h"

static _Thread_local bool incomplete; /* something could not be added since the last text was made */

static void note(const void *added)
{
    incomplete = incomplete || !added;
}

bool json_is_complete(void)
{
    return !incomplete;
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

cJSON *json_object(cJSON *object, const char *name)
{
    cJSON *inner = cJSON_AddObjectToObject(object, name);
    note(inner);
    return inner;
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

/* The number to write instead of the character at `text`; 0 if it may stay. */
static unsigned escaped_code(const char *text, size_t *length)
{
    enum { REPLACEMENT = 0xfffd };
    uint32_t code;
    *length = character_at(text, &code);
    if (code == UINT32_MAX)
        return REPLACEMENT;
    return obeyed_length(text, &code) ? code & 0xffff : 0;
}

/* cJSON writes what a terminal obeys as it is, but for the first 32 characters, and bytes that are not UTF-8, which no
 * reader of JSON takes. Both can be in quoted texts only, where an escape means the same. Takes the text over. */
static char *escape_odd(char *text)
{
    enum { ESCAPE = 6 }; /* bytes of \u009b */
    size_t found = 0, length;
    for (const char *at = text; *at; at += length)
        found += escaped_code(at, &length) > 0;
    if (!found)
        return text;
    char *out = cJSON_malloc(strlen(text) + found * ESCAPE + 1), *to = out;
    for (const char *at = text; out && *at; at += length) {
        const unsigned code = escaped_code(at, &length);
        if (code) {
            to += snprintf(to, ESCAPE + 1, "\\u%04x", code);
        } else {
            memcpy(to, at, length);
            to += length;
        }
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
        text = escape_odd(text);

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
