/* Collects kernel text at build time: embed OUT FILE...
 *
 * From each FILE ending in .c it takes the lines between the marker lines BEGIN and END (any number of regions), from
 * each FILE ending in .h everything. A text has the name of its file, but FOLDER/prelude.h is called prelude_FOLDER. It
 * writes
 *   OUT/kernels/NAME.k.h   the regions of NAME.c, empty where there are none
 *   OUT/kernels/all.k.h    includes them all, in alphabetical order
 *   OUT/kernels/kernels.def  the list of the kernels in the regions: KERNEL(dtypes, lanes, unit, name)
 *   OUT/kernels_text.c     every text as an array of numbers (C11 promises string literals of 4095 characters only),
 *                          and the table of src/kernels/text.h
 * A #line directive before each piece makes diagnostics point at FILE, so FILE should be relative to the tree. A file
 * whose content would not change is not touched: what is compiled from it stays up to date.
 *
 * A kernel begins with KERNELn(name, ...) at the start of a line, or with a macro that passes its first parameter on as
 * that name. `unit` is the name of its file. `dtypes` is FLOAT under an #if that asks for IS_FLOAT, NUMBER under one
 * that excludes bool, and ANY elsewhere. `lanes` is true where FOR_ROWS stands in the kernel or its macro: it has the
 * lanes form (src/backends/cpu/prelude.h). */
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

/* ---- the list of kernels ---- */

/* What the conditions around a kernel leave of the dtypes; the later is the narrower. */
enum { ANY, NUMBER, FLOAT };

static const char *const dtype_words[] = {"ANY", "NUMBER", "FLOAT"};

enum { MAX_MAKERS = 256, MAX_DEPTH = 16 };

/* A macro that makes a kernel, whose name is its first argument. */
typedef struct maker {
    const char *name;
    int         size;
    bool        lanes;
} maker;

typedef struct kernel_list {
    maker  makers[MAX_MAKERS];
    size_t maker_count;
    int    conditions[MAX_DEPTH];
    int    depth;
    buffer rows;
} kernel_list;

/* WORD(FIRST at the start of a text. */
typedef struct call {
    const char *word, *first;
    int         word_size, first_size; /* word_size is 0 where there is none */
} call;

static int span(const char *s)
{
    int size = 0;

    while (isalnum((unsigned char)s[size]) || s[size] == '_')
        size++;
    return size;
}

static call parse_call(const char *s)
{
    call c = {.word = s, .word_size = span(s)};

    if (s[c.word_size] != '(')
        return (call){.word_size = 0};
    c.first = s + c.word_size + 1;
    c.first_size = span(c.first);
    return c;
}

static bool is_kernel(const call *c)
{
    return c->word_size == 7 && strncmp(c->word, "KERNEL", 6) == 0 && isdigit((unsigned char)c->word[6]);
}

static bool holds(const char *text, size_t size, const char *word)
{
    const char *found = strstr(text, word);

    return found && found + strlen(word) <= text + size;
}

/* The line with those that a backslash joins to it. */
static size_t whole_line(const char *line)
{
    size_t size = strcspn(line, "\n");

    while (size && line[size] && line[size - 1] == '\\')
        size += 1 + strcspn(line + size + 1, "\n");
    return size;
}

/* Does the body, in which names begin anywhere, begin a kernel named by the parameter? */
static bool makes_kernel(const char *body, size_t size, const call *head)
{
    for (const char *s = strstr(body, "KERNEL"); s && s < body + size; s = strstr(s + 1, "KERNEL")) {
        call c = parse_call(s);

        if (is_kernel(&c) && c.first_size == head->first_size &&
            strncmp(c.first, head->first, (size_t)c.first_size) == 0)
            return true;
    }
    return false;
}

static int condition_of(const char *line, size_t size)
{
    if (holds(line, size, "IS_FLOAT") && !holds(line, size, "!IS_FLOAT"))
        return FLOAT;
    return holds(line, size, "!defined(HAUL_KERNEL_DTYPE_bool)") ? NUMBER : ANY;
}

static void take_directive(kernel_list *list, const unit *u, const char *line, size_t size)
{
    if (strncmp(line, "#define ", 8) == 0) {
        call head = parse_call(line + 8);

        if (!head.word_size || !makes_kernel(line, size, &head))
            return;
        if (list->maker_count == MAX_MAKERS)
            fail("%s: there are more than %d macros that make kernels", u->path, (int)MAX_MAKERS);
        list->makers[list->maker_count++] = (maker){head.word, head.word_size, holds(line, size, "FOR_ROWS(")};
    } else if (strncmp(line, "#if", 3) == 0) {
        if (list->depth == MAX_DEPTH)
            fail("%s: conditions nest more than %d deep", u->path, (int)MAX_DEPTH);
        list->conditions[list->depth++] = condition_of(line, size);
    } else if (strncmp(line, "#el", 3) == 0 && list->depth) {
        list->conditions[list->depth - 1] = condition_of(line, size);
    } else if (strncmp(line, "#endif", 6) == 0 && list->depth) {
        list->depth--;
    }
}

static void add_kernel(kernel_list *list, const unit *u, const call *c, bool lanes)
{
    int    dtypes = ANY;
    buffer row = {0};

    for (int i = 0; i < list->depth; i++)
        dtypes = list->conditions[i] > dtypes ? list->conditions[i] : dtypes;
    appendf(&row, "KERNEL(%s, %s, %s, %.*s)\n", dtype_words[dtypes], lanes ? "true" : "false", u->name, c->first_size,
            c->first);
    if (!strstr(list->rows.data, row.data)) /* else it is the other form of the same kernel, under #else */
        append(&list->rows, row.data, row.size);
    free(row.data);
}

/* The kernel that begins at a line, if one does. */
static void take_kernel(kernel_list *list, const unit *u, const char *line)
{
    call c = parse_call(line);

    if (is_kernel(&c)) {
        const char *end = strstr(line, "\n}");

        add_kernel(list, u, &c, end && holds(line, (size_t)(end - line), "FOR_ROWS("));
        return;
    }
    for (size_t i = 0; i < list->maker_count && c.word_size; i++) {
        const maker *m = &list->makers[i];

        if (m->size == c.word_size && strncmp(m->name, c.word, (size_t)m->size) == 0) {
            add_kernel(list, u, &c, m->lanes);
            return;
        }
    }
}

static void list_kernels(kernel_list *list, const unit *u)
{
    for (const char *line = u->text.data; *line;) {
        size_t size = whole_line(line);

        if (*line == '#')
            take_directive(list, u, line, size);
        else if (!u->whole)
            take_kernel(list, u, line);
        line += size + (line[size] == '\n');
    }
}

/* Headers first: they have macros for everyone. */
static void write_kernels(const char *folder, const unit *units, size_t count)
{
    static kernel_list list;
    char               path[4096];

    appendf(&list.rows, "/* Written by tools/embed.c, whose head says what the fields are. */\n");
    for (int headers = 1; headers >= 0; headers--)
        for (size_t i = 0; i < count; i++)
            if (units[i].whole == (headers != 0))
                list_kernels(&list, &units[i]);
    appendf(&list.rows, "#undef KERNEL\n");
    snprintf(path, sizeof path, "%s/kernels/kernels.def", folder);
    write_if_changed(path, &list.rows);
    free(list.rows.data);
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
    write_kernels(folder, units, count);
    write_texts(folder, units, count);
    for (size_t i = 0; i < count; i++) {
        free(units[i].name);
        free(units[i].text.data);
    }
    free(units);
    return EXIT_SUCCESS;
}
