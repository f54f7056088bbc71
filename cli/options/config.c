#include "cli/options/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/json_file.h"
#include "cli/shared/text_file.h"

enum { MOST_BYTES = 1 << 20 };

/* ---- reading ---- */

static cJSON *parse(const char *path, const char *text, size_t size)
{
    const char *end = text;
    errno = 0; /* cJSON does not say whether memory was exhausted, malloc does */
    cJSON *object = cJSON_ParseWithLengthOpts(text, size, &end, true);
    if (!object && errno == ENOMEM)
        complain("memory is exhausted");
    else if (!object)
        complain("%s is not JSON: line %d cannot be read; an object such as {\"lr\": 0.1, \"epochs\": 3} is expected",
                 path, text_file_line(text, end));
    else if (!cJSON_IsObject(object) || !is_utf8(text) || strlen(text) + 1 != size)
        complain("%s: a JSON object in UTF-8, such as {\"lr\": 0.1, \"epochs\": 3}, is expected", path);
    else
        return object;
    cJSON_Delete(object);
    return NULL;
}

cJSON *config_read(const char *path)
{
    size_t size = 0;
    char  *text = text_file_read(path, MOST_BYTES, &size);
    cJSON *object = text ? parse(path, text, size + 1) : NULL;
    free(text);
    return object;
}

/* ---- writing ---- */

bool config_write(const char *path, const option_values *values)
{
    return json_save(path, options_to_json(values));
}
