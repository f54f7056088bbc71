#include "backends/compiler_log.h"

#include <stdio.h>
#include <string.h>

void haul__compiler_line(const char *log, char *out, size_t size)
{
    const char *line = strstr(log, "error");
    while (line && line > log && line[-1] != '\n')
        line--;
    if (!line)
        line = log + strspn(log, " \r\n\t");
    snprintf(out, size, "%.*s", (int)strcspn(line, "\r\n"), line);
}
