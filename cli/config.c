#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/alloc.h"
#include "io/file.h"
#include "json_file.h"

enum { MOST_BYTES = 1 << 20 };

/* ---- reading ---- */

/* Where in the text the parser stopped, as people count lines. */
static int line_of(const char *text, const char *end)
{
    int line = 1;

    for (; text < end; text++)
        line += *text == '\n';
    return line;
}

static cJSON *parse(const char *path, const char *text, size_t size)
{
    const char *end = text;

    errno = 0; /* cJSON does not say whether memory was exhausted, malloc does */
    cJSON *object = cJSON_ParseWithLengthOpts(text, size, &end, true);
    if (!object && errno == ENOMEM)
        complain("memory is exhausted");
    else if (!object)
        complain("%s is not JSON: line %d cannot be read; an object such as {\"lr\": 0.1, \"epochs\": 3} is expected",
                 path, line_of(text, end));
    else if (!cJSON_IsObject(object) || !is_utf8(text) || strlen(text) + 1 != size)
        complain("%s: a JSON object in UTF-8, such as {\"lr\": 0.1, \"epochs\": 3}, is expected", path);
    else
        return object;
    cJSON_Delete(object);
    return NULL;
}

/* The whole file with a NUL at its end, to free. */
static char *read_text(const char *path, size_t *size)
{
    uint8_t *data = NULL;

    if (haul__file_read_all(path, "config", MOST_BYTES, &data, size)) {
        complain_error();
        return NULL;
    }
    char *text = malloc(*size + 1);
    if (text) {
        memcpy(text, data, *size);
        text[*size] = 0;
    } else {
        complain("memory is exhausted");
    }
    haul__free(data);
    return text;
}

cJSON *config_read(const char *path)
{
    size_t size = 0;
    char  *text = read_text(path, &size);
    cJSON *object = text ? parse(path, text, size + 1) : NULL;

    free(text);
    return object;
}

/* ---- writing ---- */

bool config_write(const char *path, const option_values *values)
{
    return json_save(path, options_to_json(values));
}
