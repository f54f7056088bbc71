#include "cli/shared/json_file.h"

#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/text_file.h"
#include "files/file.h"

/* ---- reading ---- */

haul__json *json_tree_read(const char *path, const char *operation)
{
    enum { MOST_BYTES = 1 << 30 };
    size_t      size, used;
    haul__json *json = NULL;
    char       *text = text_file_read(path, MOST_BYTES, &size);
    if (!text)
        return NULL;
    if (haul__json_read_all(operation, (const uint8_t *)text, size, JSON_TREE_DEPTH, &json, &used))
        complain_error();
    else if (!json)
        complain("%s is not JSON: line %d", path, text_file_line(text, text + used));
    free(text);
    return json;
}

/* ---- writing ---- */

static haul_status put(haul__writer *writer, const char *text)
{
    return haul__writer_put(writer, text, strlen(text));
}

/* Takes the item over. */
static haul_status put_compact(haul__writer *writer, cJSON *item)
{
    char *value = json_compact(item);
    if (!value)
        return haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    haul_status status = put(writer, value);
    cJSON_free(value);
    return status;
}

static haul_status put_lines(haul__writer *writer, cJSON *array)
{
    haul_status status = put(writer, "[\n");
    while (!status && array->child) {
        cJSON *item = cJSON_DetachItemViaPointer(array, array->child);
        status = put(writer, "    ");
        if (!status)
            status = put_compact(writer, item);
        else
            cJSON_Delete(item);
        if (!status)
            status = put(writer, array->child ? ",\n" : "\n");
    }
    cJSON_Delete(array);
    return status ? status : put(writer, "  ]");
}

/* Takes the item over. */
static haul_status put_member(haul__writer *writer, cJSON *item, bool last)
{
    char name[80];
    snprintf(name, sizeof name, "  \"%s\": ", item->string);
    const bool  is_list = cJSON_IsArray(item) && cJSON_IsObject(item->child);
    haul_status status = put(writer, name);
    if (status)
        cJSON_Delete(item);
    else
        status = is_list ? put_lines(writer, item) : put_compact(writer, item);
    return status ? status : put(writer, last ? "\n" : ",\n");
}

static haul_status put_object(const char *path, cJSON *object)
{
    haul__writer *writer = haul__writer_open(path, "json");
    haul_status   status = writer ? put(writer, "{\n") : haul_error_status();
    while (!status && object->child) {
        cJSON *item = cJSON_DetachItemViaPointer(object, object->child);
        status = put_member(writer, item, !object->child);
    }
    if (!status)
        status = put(writer, "}\n");
    if (!status)
        return haul__writer_commit(writer);
    haul__writer_abandon(writer);
    return status;
}

bool json_save(const char *path, cJSON *object)
{
    haul_status status = object ? put_object(path, object) : HAUL_OUT_OF_MEMORY;
    if (!object)
        complain("memory is exhausted");
    else if (status)
        complain_error();
    cJSON_Delete(object);
    return !status;
}
