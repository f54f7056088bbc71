/* Strings and files of tools/embed.c. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "embed.h"

void fail(const char *format, ...)
{
    va_list arguments;
    fputs("embed: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

void append(buffer *b, const char *data, size_t size)
{
    if (b->size + size + 1 > b->room) {
        b->room = 2 * (b->size + size + 1);
        b->data = realloc(b->data, b->room);
        if (!b->data)
            fail("out of memory");
    }
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    b->data[b->size] = '\0';
}

void appendf(buffer *b, const char *format, ...)
{
    char    line[4096];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof line)
        fail("a line is too long");
    append(b, line, (size_t)size);
}

bool read_file(const char *path, buffer *b)
{
    FILE  *file = fopen(path, "rb");
    char   block[65536];
    size_t size;
    if (!file)
        return false;
    while ((size = fread(block, 1, sizeof block, file)) > 0)
        append(b, block, size);
    if (ferror(file))
        fail("%s: %s", path, strerror(errno));
    fclose(file);
    append(b, "", 0);
    return true;
}

/* The text from the next line on that does not begin with #line. */
static const char *skip_line_directives(const char *line)
{
    while (strncmp(line, "#line ", 6) == 0) {
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return line;
}

static bool same_lines(const char *a, const char *b)
{
    for (;;) {
        a = skip_line_directives(a);
        b = skip_line_directives(b);
        size_t size = strcspn(a, "\n");
        if (size != strcspn(b, "\n") || memcmp(a, b, size) != 0 || a[size] != b[size])
            return false;
        if (!a[size])
            return true;
        a += size + 1;
        b += size + 1;
    }
}

bool write_file(const char *path, const buffer *b, bool moved)
{
    buffer old = {0};
    bool   exists = read_file(path, &old), same = exists && old.size == b->size && !memcmp(old.data, b->data, b->size);
    if (exists && moved)
        same = same_lines(old.data, b->data);
    free(old.data);
    if (same)
        return false;
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(b->data, 1, b->size, file) != b->size || fclose(file) != 0)
        fail("%s: %s", path, strerror(errno));
    return !exists;
}

void make_folder(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        fail("%s: %s", path, strerror(errno));
}
