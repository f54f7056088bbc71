/* Collects kernel text at build time: embed [--configured] OUT FILE...
 *
 * From each FILE ending in .c it takes the lines between the marker lines BEGIN and END (any number of regions), from
 * each FILE ending in .h everything, and from each FILE ending in .def its pointwise rows and their faster forms
 * (embed_rows.c). A text has the name of its file, but FOLDER/prelude.h is called prelude_FOLDER, and a row
 * pointwise_NAME. It writes
 *
 * - OUT/kernels/NAME.k.h: the text;
 * - OUT/kernels/NAME.functions.h: the functions that it uses, out of the FILEs that are headers of functions
 *   (embed_functions.c);
 * - OUT/kernels/kernels.def: the list of the kernels (embed_kernels.c);
 * - OUT/kernels/units/NAME_DTYPE.c: what the CPU backend compiles, a text for each dtype that it has kernels for; rows
 *   are put together in groups;
 * - OUT/kernels_text.c: every text that a compiler at run time needs as an array of numbers (C11 promises string
 * literals of 4095 characters only), and the table of src/kernels/text.h.
 *
 * A unit also has the CPU's own text of its kernels, backends/cpu/text/NAME.h, if there is one. GROUPSn(kernel, ...) at
 * the start of a line takes whole groups of that kernel's items (src/backends/cpu/text/groups.h).
 *
 * A text may include headers of src, and a FILE ending in .h those of its own folder by their names alone; they become
 * a part of it. Templates in the texts are expanded (embed_templates.c). A #line directive before each piece makes
 * diagnostics point at FILE, so FILE should be relative to the tree. A file whose content would not change is not
 * touched: what is compiled from it stays up to date. A text that only moves in its FILE keeps the #line directives
 * that it has in its .k.h; they are right whenever a change is compiled. A build compiles the units that were there
 * when it was configured, so with --configured the tool fails where one comes or goes. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed.h"

#define BEGIN   "/* kernel text begins */"
#define END     "/* kernel text ends */"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

enum {
    IN_ANY = 1 << ANY,
    IN_NUMBER = IN_ANY | 1 << NUMBER,
    IN_FLOAT = IN_NUMBER | 1 << FLOAT,
    IN_WHOLE = IN_FLOAT | 1 << WHOLE,
    IN_INTEGER = IN_NUMBER | 1 << BITWISE | 1 << INTEGER
};
static const struct {
    const char *name;
    unsigned    classes; /* bits: those that it is of */
} dtypes[] = {
    {"bool", IN_ANY | 1 << BITWISE | 1 << ONCE},
    {"u8", IN_INTEGER | 1 << BITS},
    {"i8", IN_INTEGER},
    {"i16", IN_INTEGER | 1 << BITS | 1 << UNSIGNED},
    {"i32", IN_INTEGER | 1 << BITS | 1 << UNSIGNED},
    {"i64", IN_INTEGER | 1 << SUM | 1 << BITS | 1 << UNSIGNED},
    {"f16", IN_FLOAT},
    {"bf16", IN_FLOAT},
    {"f32", IN_WHOLE | 1 << SUM},
    {"f64", IN_WHOLE | 1 << SUM},
};

unit *add_unit(unit_list *list, const char *path)
{
    if (list->count == list->room) {
        list->room = 2 * list->room + 64;
        list->units = realloc(list->units, list->room * sizeof *list->units);
        if (!list->units)
            fail("out of memory");
    }
    unit *u = &list->units[list->count++];
    *u = (unit){.path = path, .group = -1};
    append(&u->text, "", 0);
    return u;
}

/* The file's name without folder and ending, as part of a C identifier. A header of a backend is named by both. */
static char *name_of(const char *path)
{
    static const char backends[] = "backends/";
    const char       *folder = strstr(path, backends), *end = strrchr(path, '/'), *base = end ? end + 1 : path;
    buffer            name = {0};
    appendf(&name, "%.*s", (int)(strrchr(base, '.') - base), base);
    if (folder && strcmp(strrchr(base, '.'), ".h") == 0) {
        folder += strlen(backends);
        appendf(&name, "_%.*s", (int)strcspn(folder, "/"), folder);
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

/* Takes the text of a header in the place of the line that includes it: #include "ops/pool/pool2d_kernel.h". A header's
 * line that names a folder is for the host's compiler, and stays. */
static bool take_include(unit *u, const char *line, size_t size, long number)
{
    static const char include[] = "#include \"";
    const char       *name = line + strlen(include), *end, *slash = u->whole ? strrchr(u->path, '/') : NULL;
    char              path[4096];
    buffer            header = {0};
    if (strncmp(line, include, strlen(include)) != 0)
        return false;
    end = memchr(name, '"', size - strlen(include));
    if (u->whole && end && memchr(name, '/', (size_t)(end - name)))
        return false;
    snprintf(path, sizeof path, "%.*s/%.*s", slash ? (int)(slash - u->path) : 3, slash ? u->path : "src",
             end ? (int)(end - name) : 0, name);
    if (!end || !read_file(path, &header))
        fail("%s:%ld: %s: No such file", u->path, number, path);
    appendf(&u->text, "#line 1 \"%s\"\n", path);
    append(&u->text, header.data, header.size);
    appendf(&u->text, "#line %ld \"%s\"\n", number + 1, u->path);
    free(header.data);
    return true;
}

static void take_line(unit *u, const char *line, size_t size, long number)
{
    if (take_include(u, line, size, number))
        return;
    append(&u->text, line, size);
    append(&u->text, "\n", 1);
}

static void take_whole(unit *u, const buffer *source)
{
    long number = 0;
    appendf(&u->text, "#line 1 \"%s\"\n", u->path);
    for (const char *line = source->data; *line;) {
        size_t size = strcspn(line, "\n");
        take_line(u, line, size, ++number);
        line += size + (line[size] == '\n');
    }
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
            take_line(u, line, size, number);
        }
        line += size + (line[size] == '\n');
    }
    if (inside)
        fail("%s: kernel text begins but does not end", u->path);
}

static void take_file(unit_list *list, const char *path, const buffer *source, bool whole)
{
    unit *u = add_unit(list, path);
    u->name = name_of(path);
    u->whole = whole;
    u->empty = !whole;
    if (whole)
        take_whole(u, source);
    else
        take_regions(u, source);
}

static void take_header_of_functions(const char *path, const buffer *source)
{
    unit u = {.path = path, .whole = true};
    take_whole(&u, source);
    take_functions(&u); /* whose text stays */
}

static void take(unit_list *list, const char *path)
{
    buffer      source = {0};
    const char *ending = strrchr(path, '.');
    if (!ending || (strcmp(ending, ".c") != 0 && strcmp(ending, ".h") != 0 && strcmp(ending, ".def") != 0))
        fail("%s: neither .c nor .h nor .def", path);
    if (!read_file(path, &source))
        fail("%s: No such file", path);
    if (strlen(source.data) != source.size)
        fail("%s: holds a zero byte", path);
    if (strcmp(ending, ".def") == 0)
        take_rows(list, path, &source);
    else if (has_functions(&source))
        take_header_of_functions(path, &source);
    else
        take_file(list, path, &source, strcmp(ending, ".h") == 0);
    if (strcmp(ending, ".def") != 0) /* rows refer to their file */
        free(source.data);
}

/* Run-time compilers differ in what they make of other characters. */
static void check_characters(const unit *u)
{
    for (size_t i = 0; i < u->text.size; i++)
        if ((unsigned char)u->text.data[i] > 126)
            fail("%s: kernel text holds a character that is not ASCII", u->path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const unit *)a)->name, ((const unit *)b)->name);
}

/* Would one text take the place of the other? A file without text takes nothing. */
static bool collide(const unit *a, const unit *b)
{
    return strcmp(a->name, b->name) == 0 && !a->empty && !b->empty;
}

static void write_bytes(buffer *out, const char *type, const char *name, const buffer *bytes)
{
    appendf(out, "\nstatic const %s text_%s[] = {", type, name);
    for (size_t i = 0; i < bytes->size; i++)
        appendf(out, "%s%d,", i % 32 == 0 ? "\n" : "", (unsigned char)bytes->data[i]);
    append(out, "\n0};\n", 5);
}

/* The array of a text, and its row in the table. Headers are as they are. */
static void write_text(buffer *arrays, buffer *table, const unit *u)
{
    buffer packed = {0};
    if (u->whole) {
        write_bytes(arrays, "char", u->name, &u->text);
        appendf(table, "    {\"%s\", text_%s, NULL, 0, 0},\n", u->name, u->name);
        return;
    }
    pack(&packed, u->text.data, u->text.size);
    write_bytes(arrays, "unsigned char", u->name, &packed);
    appendf(table, "    {\"%s\", NULL, text_%s, %zu, %zu},\n", u->name, u->name, packed.size, u->text.size);
    free(packed.data);
}

static bool is_of_cpu(const unit *u)
{
    return strstr(u->path, "backends/cpu/") != NULL;
}

static void write_texts(const char *folder, const unit_list *list)
{
    char   path[4096];
    buffer out = {0}, table = {0};
    size_t rows = 0;
    appendf(&out, "/* Written by tools/embed.c. */\n#include \"kernels/text.h\"\n");
    for (size_t i = 0; i < list->count; i++) {
        const unit *u = &list->units[i];
        if (u->empty || is_of_cpu(u))
            continue;
        write_text(&out, &table, u);
        rows++;
    }
    appendf(&out, "\nconst haul__kernel_text haul__kernel_texts[] = {\n");
    append(&out, table.data ? table.data : "", table.size);
    appendf(&out, "    {NULL, NULL, NULL, 0, 0},\n};\nconst size_t haul__kernel_text_count = %zu;\n", rows);
    free(table.data);
    snprintf(path, sizeof path, "%s/kernels_text.c", folder);
    write_file(path, &out, false);
    free(out.data);
}

static void write_headers(const char *folder, const unit_list *list)
{
    char path[4096];
    for (size_t i = 0; i < list->count; i++) {
        const unit *u = &list->units[i];
        if (u->empty)
            continue;
        snprintf(path, sizeof path, "%s/kernels/%s.k.h", folder, u->name);
        write_file(path, &u->text, true);
    }
}

static void write_kernels(const char *folder, const kernel_list *list)
{
    char   path[4096];
    buffer out = {0};
    appendf(&out, "/* Written by tools/embed.c: KERNEL(dtypes, lanes, buffers, unit, name, columns, few). */\n");
    for (size_t i = 0; i < list->count; i++) {
        const kernel *k = &list->kernels[i], *columns = form_of(list, k, "_columns"), *few = form_of(list, k, "_few");
        appendf(&out, "KERNEL(%s, %s, %d, %s, %.*s, %.*s, %.*s)\n", class_words[k->dtypes], k->lanes ? "true" : "false",
                k->buffers, k->unit->name, k->name_size, k->name, columns->name_size, columns->name, few->name_size,
                few->name);
    }
    appendf(&out, "#undef KERNEL\n");
    snprintf(path, sizeof path, "%s/kernels/kernels.def", folder);
    write_file(path, &out, false);
    free(out.data);
}

/* ---- units of the CPU backend ---- */

static bool has_kernel(const kernel_list *list, const unit *u, int dtype)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->kernels[i].unit == u && dtypes[dtype].classes >> list->kernels[i].dtypes & 1)
            return true;
    return false;
}

/* The CPU's own text of a unit's kernels, or NULL. */
static const unit *own_text(const unit_list *list, const unit *u)
{
    static const char suffix[] = "_cpu";
    const size_t      size = strlen(u->name);
    for (size_t i = 0; i < list->count; i++) {
        const unit *own = &list->units[i];
        if (is_of_cpu(own) && strncmp(own->name, u->name, size) == 0 && strcmp(own->name + size, suffix) == 0)
            return own;
    }
    return NULL;
}

/* Declares what takes groups of a kernel's items: the prelude looks for HAUL_GROUPS_kernel. */
static void declare_groups(buffer *out, const unit *own)
{
    static const char word[] = "\nGROUPS";
    for (const char *at = own->text.data; (at = strstr(at, word));) {
        at += strlen(word) + 1;
        const int size = (int)strspn(at + 1, LETTERS);
        if (*at == '(')
            appendf(out, "#define HAUL_GROUPS_%.*s ~, haul_groups_%.*s\nstatic haul_groups haul_groups_%.*s;\n", size,
                    at + 1, size, at + 1, size, at + 1);
    }
}

static void include_text(buffer *out, const unit_list *list, const unit *u)
{
    const unit *own = own_text(list, u);
    if (own) {
        append(out, "#if HAS_GROUPS\n", strlen("#if HAS_GROUPS\n"));
        declare_groups(out, own);
        append(out, "#endif\n", strlen("#endif\n"));
    }
    appendf(out, "#include \"kernels/%s.k.h\"\n", u->name);
    if (own)
        appendf(out, "#if HAS_GROUPS\n#include \"kernels/%s.k.h\"\n#endif\n", own->name);
}

typedef struct unit_files {
    const char *folder;
    buffer      names; /* of those that were written, each with a newline on both sides */
    bool        changed;
} unit_files;

/* One dtype of a text, or of the rows of a group, which read their params in place. */
static void write_unit(unit_files *files, const char *name, int dtype, bool in_place, const buffer *includes)
{
    const char *suffix = dtypes[dtype].name;
    char        path[4096];
    buffer      out = {0};
    if (!includes->size)
        return;
    appendf(&out, "/* Written by tools/embed.c. */\n#define HAUL_KERNEL_DTYPE_%s 1\n#define HAUL_KERNEL_SUFFIX %s\n",
            suffix, suffix);
    appendf(&out, "#define HAUL_KERNEL_FUNCTIONS \"kernels/%s.functions.h\"\n", name);
    appendf(&out, "%s#include \"backends/cpu/kernels/unit.h\"\n", in_place ? "#define HAUL_PARAMS_IN_PLACE 1\n" : "");
    append(&out, includes->data, includes->size);
    snprintf(path, sizeof path, "%s/%s_%s.c", files->folder, name, suffix);
    files->changed |= write_file(path, &out, false);
    appendf(&files->names, "\n%s_%s.c\n", name, suffix);
    free(out.data);
}

/* The functions that a unit uses: those of the text `only`, or of the rows of a group, and of what stands before them.
 */
static void write_functions(const char *folder, const char *name, const unit_list *list, int group, const unit *only)
{
    char   path[4096];
    buffer out = {0};
    append(&out, "", 0);
    use_nothing();
    for (size_t i = 0; i < list->count; i++) {
        const unit *u = &list->units[i];
        const bool  before = strcmp(u->name, "prelude_cpu") == 0 || strcmp(u->name, "pointwise") == 0;
        if (before || u == only || (only && u == own_text(list, only)) || (group >= 0 && u->group == group))
            use_functions_of(u->text.data, u->text.size);
    }
    append_used(&out);
    snprintf(path, sizeof path, "%s/kernels/%s.functions.h", folder, name);
    write_file(path, &out, true);
    free(out.data);
}

static void write_all_functions(const char *folder, const unit_list *list)
{
    char name[64];
    for (size_t i = 0; i < list->count; i++) {
        const unit *u = &list->units[i];
        if (!u->whole && !u->empty && u->group < 0)
            write_functions(folder, u->name, list, -1, u);
    }
    for (int group = 0; group < ROW_GROUPS; group++) {
        snprintf(name, sizeof name, "pointwise_%d", group);
        write_functions(folder, name, list, group, NULL);
    }
}

static void write_text_units(unit_files *files, const unit_list *list, const kernel_list *kernels)
{
    for (size_t i = 0; i < list->count; i++) {
        const unit *u = &list->units[i];
        for (int d = 0; d < (int)(sizeof dtypes / sizeof dtypes[0]) && u->group < 0; d++) {
            buffer includes = {0};
            if (has_kernel(kernels, u, d))
                include_text(&includes, list, u);
            write_unit(files, u->name, d, false, &includes);
            free(includes.data);
        }
    }
}

static void write_row_units(unit_files *files, const unit_list *list, const kernel_list *kernels)
{
    for (int group = 0; group < ROW_GROUPS; group++) {
        char name[64];
        snprintf(name, sizeof name, "pointwise_%d", group);
        for (int d = 0; d < (int)(sizeof dtypes / sizeof dtypes[0]); d++) {
            buffer includes = {0};
            for (size_t i = 0; i < list->count; i++)
                if (list->units[i].group == group && has_kernel(kernels, &list->units[i], d))
                    appendf(&includes, "#include \"kernels/%s.k.h\"\n", list->units[i].name);
            write_unit(files, name, d, true, &includes);
            free(includes.data);
        }
    }
}

/* Removes the units of texts that are gone. */
static void remove_others(unit_files *files)
{
    DIR *folder = opendir(files->folder);
    if (!folder)
        fail("%s: cannot be read", files->folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[4096], name[512];
        snprintf(name, sizeof name, "\n%s\n", entry->d_name);
        if (entry->d_name[0] == '.' || (files->names.data && strstr(files->names.data, name)))
            continue;
        snprintf(path, sizeof path, "%s/%s", files->folder, entry->d_name);
        if (remove(path) != 0)
            fail("%s: cannot be removed", path);
        files->changed = true;
    }
    closedir(folder);
}

/* True if a unit came or went. */
static bool write_units(const char *folder, const unit_list *list, const kernel_list *kernels)
{
    char       path[4096];
    unit_files files = {.folder = path};
    snprintf(path, sizeof path, "%s/kernels/units", folder);
    make_folder(path);
    write_text_units(&files, list, kernels);
    write_row_units(&files, list, kernels);
    remove_others(&files);
    free(files.names.data);
    return files.changed;
}

int main(int argc, char **argv)
{
    bool        configured = argc > 1 && strcmp(argv[1], "--configured") == 0;
    int         first = configured ? 3 : 2;
    const char *folder = argc >= first ? argv[first - 1] : NULL;
    char        path[4096];
    unit_list   list = {0};
    kernel_list kernels = {0};
    if (!folder) {
        fputs("usage: embed [--configured] OUT FILE...\n", stderr);
        return EXIT_FAILURE;
    }
    for (int i = first; i < argc; i++)
        take(&list, argv[i]);
    if (list.count)
        qsort(list.units, list.count, sizeof *list.units, by_name);
    for (size_t i = 0; i < list.count; i++) {
        check_characters(&list.units[i]);
        for (size_t j = i + 1; j < list.count && strcmp(list.units[i].name, list.units[j].name) == 0; j++)
            if (collide(&list.units[i], &list.units[j]))
                fail("%s and %s have one name", list.units[i].path, list.units[j].path);
    }
    expand_templates(&list);
    list_kernels(&kernels, &list);
    make_folder(folder);
    snprintf(path, sizeof path, "%s/kernels", folder);
    make_folder(path);
    write_headers(folder, &list);
    write_all_functions(folder, &list);
    write_kernels(folder, &kernels);
    write_texts(folder, &list);
    bool changed = write_units(folder, &list, &kernels);
    for (size_t i = 0; i < list.count; i++) {
        free(list.units[i].name);
        free(list.units[i].text.data);
    }
    free(list.units);
    free(kernels.kernels);
    if (changed && configured)
        fail("a file has kernels for other dtypes than when the build was configured; build again");
    return EXIT_SUCCESS;
}
