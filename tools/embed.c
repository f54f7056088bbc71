/* Collects kernel text at build time: embed OUT FILE...
 *
 * From each FILE ending in .c it takes the lines between the marker lines BEGIN and END (any number of regions), from
 * each FILE ending in .h everything. A text has the name of its file, but FOLDER/prelude.h is called prelude_FOLDER. It
 * writes
 *   OUT/kernels/NAME.k.h   the regions of NAME.c, empty where there are none
 *   OUT/kernels/all.k.h    includes them all, in alphabetical order
 *   OUT/kernels_text.c     every text as an array of numbers (C11 promises string literals of 4095 characters only),
 *                          and the table of src/kernels/text.h
 * A #line directive before each piece makes diagnostics point at FILE, so FILE should be relative to the tree. A file
 * whose content would not change is not touched: what is compiled from it stays up to date. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BEGIN "/* kernel text begins */"
#define END   "/* kernel text ends */"

typedef struct buffer {
    char  *data;
    size_t size;
    size_t room;
} buffer;

typedef struct unit {
    const char *path;
    char       *name;
    bool        whole; /* a header: no .k.h of its own */
    bool        empty;
    buffer      text;
} unit;

static void fail(const char *format, ...)
{
    va_list arguments;

    fputs("embed: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

static void append(buffer *b, const char *data, size_t size)
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

static void appendf(buffer *b, const char *format, ...)
{
    char    line[4096];
    va_list arguments;
    int     size;

    va_start(arguments, format);
    size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof line)
        fail("a line is too long");
    append(b, line, (size_t)size);
}

/* False if the file does not exist. */
static bool read_file(const char *path, buffer *b)
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

static void write_if_changed(const char *path, const buffer *b)
{
    buffer old = {0};
    bool   same = read_file(path, &old) && old.size == b->size && memcmp(old.data, b->data, b->size) == 0;
    FILE  *file;

    free(old.data);
    if (same)
        return;
    file = fopen(path, "wb");
    if (!file || fwrite(b->data, 1, b->size, file) != b->size || fclose(file) != 0)
        fail("%s: %s", path, strerror(errno));
}

static void make_folder(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        fail("%s: %s", path, strerror(errno));
}

/* The file's name without folder and ending, as part of a C identifier. Each backend has a prelude.h: those are named
 * by their folders. */
static char *name_of(const char *path)
{
    static const char prelude[] = "prelude.h";
    const char       *end = strrchr(path, '/'), *base = end ? end + 1 : path;
    buffer            name = {0};

    if (end && strcmp(base, prelude) == 0) {
        const char *folder = end;

        while (folder > path && folder[-1] != '/')
            folder--;
        appendf(&name, "prelude_%.*s", (int)(end - folder), folder);
    } else {
        append(&name, base, strlen(base));
        *strrchr(name.data, '.') = '\0';
    }
    for (char *p = name.data; *p; p++)
        if (!isalnum((unsigned char)*p))
            *p = '_';
    return name.data;
}

/* Whether the line holds just this text; indented counts, for that is what formatters do to comments. */
static bool is_line(const char *line, size_t size, const char *text)
{
    size_t indent = 0;

    while (indent < size && line[indent] == ' ')
        indent++;
    return size - indent == strlen(text) && memcmp(line + indent, text, size - indent) == 0;
}

static void take_regions(unit *u, const buffer *source)
{
    bool inside = false;
    long number = 0;

    for (const char *line = source->data; *line;) {
        size_t size = strcspn(line, "\n");

        number++;
        if (is_line(line, size, BEGIN)) {
            if (inside)
                fail("%s:%ld: kernel text begins inside kernel text", u->path, number);
            inside = true;
            u->empty = false;
            appendf(&u->text, "#line %ld \"%s\"\n", number + 1, u->path);
        } else if (is_line(line, size, END)) {
            if (!inside)
                fail("%s:%ld: kernel text ends but has not begun", u->path, number);
            inside = false;
        } else if (inside) {
            append(&u->text, line, size);
            append(&u->text, "\n", 1);
        }
        line += size + (line[size] == '\n');
    }
    if (inside)
        fail("%s: kernel text begins but does not end", u->path);
}

static void take(unit *u, const char *path)
{
    buffer      source = {0};
    const char *ending = strrchr(path, '.');

    if (!ending || (strcmp(ending, ".c") != 0 && strcmp(ending, ".h") != 0))
        fail("%s: neither .c nor .h", path);
    if (!read_file(path, &source))
        fail("%s: %s", path, strerror(errno));
    if (strlen(source.data) != source.size)
        fail("%s: holds a zero byte", path);
    u->path = path;
    u->name = name_of(path);
    u->whole = strcmp(ending, ".h") == 0;
    u->empty = !u->whole;
    append(&u->text, "", 0);
    if (u->whole) {
        appendf(&u->text, "#line 1 \"%s\"\n", path);
        append(&u->text, source.data, source.size);
    } else {
        take_regions(u, &source);
    }
    free(source.data);

    /* Run-time compilers differ in what they make of other characters. */
    for (size_t i = 0; i < u->text.size; i++)
        if ((unsigned char)u->text.data[i] > 126)
            fail("%s: kernel text holds a character that is not ASCII", path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const unit *)a)->name, ((const unit *)b)->name);
}

/* Would one text take the place of the other? A file without text takes nothing but an empty header. */
static bool collide(const unit *a, const unit *b)
{
    bool texts = !a->empty && !b->empty, headers = !a->whole && !b->whole && (!a->empty || !b->empty);

    return strcmp(a->name, b->name) == 0 && (texts || headers);
}

static void write_array(buffer *out, const unit *u)
{
    appendf(out, "\nextern const char haul__kernel_text_%s[];\nconst char haul__kernel_text_%s[] = {", u->name,
            u->name);
    for (size_t i = 0; i < u->text.size; i++)
        appendf(out, "%s%d,", i % 32 == 0 ? "\n" : "", u->text.data[i]);
    append(out, "\n0};\n", 5);
}

static void write_texts(const char *folder, const unit *units, size_t count)
{
    char   path[4096];
    buffer out = {0};
    size_t rows = 0;

    appendf(&out, "/* Written by tools/embed.c. */\n#include \"kernels/text.h\"\n");
    for (size_t i = 0; i < count; i++)
        if (!units[i].empty)
            write_array(&out, &units[i]);
    appendf(&out, "\nconst haul__kernel_text haul__kernel_texts[] = {\n");
    for (size_t i = 0; i < count; i++) {
        if (units[i].empty)
            continue;
        appendf(&out, "    {\"%s\", haul__kernel_text_%s},\n", units[i].name, units[i].name);
        rows++;
    }
    appendf(&out, "    {NULL, NULL},\n};\nconst size_t haul__kernel_text_count = %zu;\n", rows);
    snprintf(path, sizeof path, "%s/kernels_text.c", folder);
    write_if_changed(path, &out);
    free(out.data);
}

static void write_headers(const char *folder, const unit *units, size_t count)
{
    char   path[4096];
    buffer all = {0};

    snprintf(path, sizeof path, "%s/kernels", folder);
    make_folder(path);
    appendf(&all, "/* Written by tools/embed.c. */\n");
    for (size_t i = 0; i < count; i++) {
        if (units[i].whole)
            continue;
        snprintf(path, sizeof path, "%s/kernels/%s.k.h", folder, units[i].name);
        write_if_changed(path, &units[i].text);
        if (!units[i].empty)
            appendf(&all, "#include \"kernels/%s.k.h\"\n", units[i].name);
    }
    snprintf(path, sizeof path, "%s/kernels/all.k.h", folder);
    write_if_changed(path, &all);
    free(all.data);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : NULL;
    size_t      count = argc > 2 ? (size_t)argc - 2 : 0;
    unit       *units;

    if (!folder) {
        fputs("usage: embed OUT FILE...\n", stderr);
        return EXIT_FAILURE;
    }
    units = calloc(count + 1, sizeof *units);
    if (!units)
        fail("out of memory");
    for (size_t i = 0; i < count; i++)
        take(&units[i], argv[i + 2]);
    qsort(units, count, sizeof *units, by_name);
    for (size_t i = 1; i < count; i++)
        if (collide(&units[i - 1], &units[i]))
            fail("%s and %s have one name", units[i - 1].path, units[i].path);
    make_folder(folder);
    write_headers(folder, units, count);
    write_texts(folder, units, count);
    for (size_t i = 0; i < count; i++) {
        free(units[i].name);
        free(units[i].text.data);
    }
    free(units);
    return EXIT_SUCCESS;
}
