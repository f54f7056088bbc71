#include "cli/shared/text_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/shared/cli.h"
#include "files/file.h"

char *text_file_read(const char *path, uint64_t limit, size_t *size)
{
    uint8_t *data = NULL;
    if (haul__file_read_all(path, "haul", limit, 0, &data, size)) {
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

int text_file_line(const char *text, const char *place)
{
    int line = 1;
    for (; text < place; text++)
        line += *text == '\n';
    return line;
}
