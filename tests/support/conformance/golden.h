/* Reads golden files. */
#ifndef HAUL_TESTS_GOLDEN_H
#define HAUL_TESTS_GOLDEN_H

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

/* The whole file, which the caller frees, with a 0 after its *size bytes; NULL if it is empty or cannot be read. */
static inline char *read_golden(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    long length = ftell(f);
    rewind(f);
    if (length > 0 && (text = malloc((size_t)length + 1)) && fread(text, 1, (size_t)length, f) == (size_t)length) {
        text[length] = 0;
        *size = (size_t)length;
    } else {
        free(text);
        text = NULL;
    }
    fclose(f);
    return text;
}

/* tests/golden/NAME, a JSON file, which the caller deletes; NULL if it cannot be read. */
static inline cJSON *read_golden_json(const char *name)
{
    char   path[1024];
    size_t size;
    snprintf(path, sizeof path, "%s/tests/golden/%s", HAUL_SOURCE, name);
    char  *text = read_golden(path, &size);
    cJSON *golden = text ? cJSON_Parse(text) : NULL;
    free(text);
    return golden;
}

#endif
