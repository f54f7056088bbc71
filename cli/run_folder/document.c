#include "cli/run_folder/document.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/shared/cli.h"
#include "cli/shared/text_file.h"

#define MOST_BYTES ((uint64_t)256 << 20)

static cJSON *parse(const char *path, const char *text, size_t size, bool array)
{
    const char *end = text;
    errno = 0; /* cJSON does not say whether memory was exhausted, malloc does */
    cJSON *value = cJSON_ParseWithLengthOpts(text, size + 1, &end, true);
    if (!value && errno == ENOMEM)
        complain("memory is exhausted");
    else if (!value)
        complain("%s is not JSON: line %d cannot be read", path, text_file_line(text, end));
    else if (!is_utf8(text) || strlen(text) != size)
        complain("%s is not UTF-8", path);
    else if (array ? !cJSON_IsArray(value) : !cJSON_IsObject(value))
        complain("%s holds no JSON %s", path, array ? "array" : "object");
    else
        return value;
    cJSON_Delete(value);
    return NULL;
}

cJSON *run_document(const char *folder, const char *name, bool array, const char *maker)
{
    const size_t room = strlen(folder) + strlen(name) + 2;
    char        *path = malloc(room), *text = NULL;
    cJSON       *value = NULL;
    size_t       size = 0;
    if (!path) {
        complain("memory is exhausted");
        return NULL;
    }
    snprintf(path, room, "%s/%s", folder, name);
    if (access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR))
        complain("%s has no %s; %s makes it", folder, name, maker);
    else
        text = text_file_read(path, MOST_BYTES, &size);
    if (text)
        value = parse(path, text, size, array);
    free(text);
    free(path);
    return value;
}

double document_number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) && isfinite(item->valuedouble) ? item->valuedouble : 0;
}

const char *document_text(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

const cJSON *document_list(const cJSON *object, const char *name)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsArray(list) ? list : NULL;
}
