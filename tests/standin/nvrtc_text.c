/* Changes of kernel text: options are understood, kernels found, and functions added that call them. */
#include "nvrtc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

const int standin_capabilities[] = {75, 80, 86, 89, 90, 100, 120};
const int standin_capability_count = sizeof standin_capabilities / sizeof standin_capabilities[0];

/* Options that make no difference here; those that end in = take any value. */
static const char *const ignored[] = {"--modify-stack-limit=",
                                      "--std=",
                                      "-std=",
                                      "--device-as-default-execution-space",
                                      "-default-device",
                                      "--restrict",
                                      "-restrict",
                                      "--generate-line-info",
                                      "-lineinfo",
                                      "--device-debug",
                                      "-G",
                                      "--dopt=",
                                      "-dopt=",
                                      "--maxrregcount=",
                                      "-maxrregcount=",
                                      "--disable-warnings",
                                      "-w",
                                      "--minimal",
                                      "-minimal",
                                      "--extra-device-vectorization",
                                      "-extra-device-vectorization",
                                      "--ftz=",
                                      "-ftz=",
                                      "--prec-div=",
                                      "-prec-div=",
                                      "--prec-sqrt=",
                                      "-prec-sqrt=",
                                      "--ptxas-options=",
                                      "-Xptxas=",
                                      "--split-compile=",
                                      "-split-compile=",
                                      "--no-source-include",
                                      "-no-source-include"};

/* The value of an option of either name, or NULL. */
static const char *value_of(const char *option, const char *name, const char *short_name)
{
    const char *const names[] = {name, short_name};
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(option, names[i], length) == 0 && option[length] == '=')
            return option + length + 1;
    }
    return NULL;
}

static bool parse_architecture(const char *value, standin_options *out)
{
    char *end;
    long  capability;
    out->real = strncmp(value, "sm_", 3) == 0;
    if (!out->real && strncmp(value, "compute_", 8) != 0)
        return false;
    capability = strtol(strchr(value, '_') + 1, &end, 10);
    out->capability = (int)capability;
    if (*end == 'a' || *end == 'f') /* sm_90a: for that GPU, or its family, alone */
        end++;
    for (int i = 0; i < standin_capability_count; i++)
        if (standin_capabilities[i] == capability)
            return *end == '\0';
    return false;
}

static bool parse_switch(const char *value, bool *out)
{
    *out = strcmp(value, "true") == 0;
    return *out || strcmp(value, "false") == 0;
}

static bool is_ignored(const char *option)
{
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        size_t length = strlen(ignored[i]);
        bool   takes_value = ignored[i][length - 1] == '=';
        if (takes_value ? strncmp(option, ignored[i], length) == 0 : strcmp(option, ignored[i]) == 0)
            return true;
    }
    return false;
}

static bool parse_option(const char *option, standin_options *out)
{
    const char *value;
    if ((value = value_of(option, "--gpu-architecture", "-arch")))
        return parse_architecture(value, out);
    if ((value = value_of(option, "--fmad", "-fmad")))
        return parse_switch(value, &out->fmad);
    if (strncmp(option, "-D", 2) == 0 && option[2]) {
        out->definitions[out->definition_count++] = option;
        return true;
    }
    if ((value = value_of(option, "--define-macro", "--define-macro")) && *value) {
        out->definitions[out->definition_count++] = "-D";
        out->definitions[out->definition_count++] = value;
        return true;
    }
    return is_ignored(option);
}

bool standin_parse_options(int count, const char *const *options, standin_options *out, const char **refused)
{
    out->capability = 75;
    out->real = false; /* NVRTC's own default is PTX of its oldest architecture */
    out->fmad = true;
    for (int i = 0; i < count; i++)
        if (!options[i] || !parse_option(options[i], out)) {
            *refused = options[i] ? options[i] : "NULL";
            return false;
        }
    return true;
}

/* ---- text ---- */

char *standin_without_linkage(const char *text)
{
    char *copy = strdup(text);
    for (char *at = copy; at && (at = strstr(at, "extern \"C\"")); at += 10)
        memset(at + 7, ' ', 3);
    return copy;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The bracket that closes the one at `open`. */
static const char *closing(const char *open)
{
    int depth = 0;
    for (const char *at = open; *at; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth == 0)
            return at;
    }
    return NULL;
}

/* A kernel's declaration: its name, and the text between the brackets. */
typedef struct declaration {
    const char *name, *arguments, *end;
    int         length;
} declaration;

static bool find_declaration(const char *at, declaration *out)
{
    for (const char *open = strchr(at, '('); open; open = strchr(open, '(')) {
        const char *end = open, *close = closing(open);
        if (!close)
            return false;
        while (end > at && isspace((unsigned char)end[-1]))
            end--;
        out->name = end;
        while (out->name > at && is_word(out->name[-1]))
            out->name--;
        out->length = (int)(end - out->name);
        out->arguments = open + 1;
        out->end = close;
        if (out->length > 0 && strncmp(out->name, "__attribute__", 13) != 0)
            return true;
        open = close;
    }
    return false;
}

/* "const float *x" without its last word: the type. */
static int type_length(const char *argument, const char *end)
{
    while (end > argument && isspace((unsigned char)end[-1]))
        end--;
    while (end > argument && is_word(end[-1]))
        end--;
    return (int)(end - argument);
}

static void write_entry(FILE *out, const declaration *d)
{
    int count = 0;
    fprintf(out, "static void standin_call_%.*s(void **arguments) { %.*s(", d->length, d->name, d->length, d->name);
    for (const char *at = d->arguments, *end; at < d->end; at = end + 1, count++) {
        end = memchr(at, ',', (size_t)(d->end - at));
        end = end ? end : d->end;
        int         length = type_length(at, end);
        const char *comma = count ? ", " : "";
        if (memchr(at, '*', (size_t)length))
            fprintf(out, "%s(%.*s)standin_untag(*(unsigned long long *)arguments[%d])", comma, length, at, count);
        else
            fprintf(out, "%s*(%.*s *)arguments[%d]", comma, length, at, count);
    }
    fprintf(out, "); }\n");
}

/* Two tables, of the arguments' sizes and of which are pointers. */
static int write_tables(FILE *out, const declaration *d)
{
    int count = 0;
    fprintf(out, "static const unsigned standin_sizes_%.*s[] = {", d->length, d->name);
    for (const char *at = d->arguments, *end; at < d->end; at = end + 1, count++) {
        end = memchr(at, ',', (size_t)(d->end - at));
        end = end ? end : d->end;
        fprintf(out, "sizeof(%.*s), ", type_length(at, end), at);
    }
    fprintf(out, "0};\nstatic const char standin_pointers_%.*s[] = {", d->length, d->name);
    for (const char *at = d->arguments, *end; at < d->end; at = end + 1) {
        end = memchr(at, ',', (size_t)(d->end - at));
        end = end ? end : d->end;
        fprintf(out, "%d, ", memchr(at, '*', (size_t)(end - at)) != NULL);
    }
    fprintf(out, "0};\n");
    return count;
}

/* A kernel may be declared before it is defined. */
static bool is_known(const char *table, const declaration *d)
{
    char   row[300];
    size_t length = (size_t)snprintf(row, sizeof row, "{\"%.*s\", ", d->length, d->name);
    return length < sizeof row && strstr(table, row) != NULL;
}

static void write_all(FILE *out, FILE *rows, char *const *table, const char *text)
{
    static const char word[] = "__global__";
    const char       *at = text;
    for (const char *next; (next = strstr(at, word)); at = next + strlen(word))
        fprintf(out, "%.*s", (int)(next - at), at);
    fprintf(out, "%s\n", at);
    for (at = text; (at = strstr(at, word)); at += strlen(word)) {
        declaration d;
        int         count;
        fflush(rows); /* so that *table is the written address */
        if (!find_declaration(at + strlen(word), &d) || is_known(*table, &d))
            continue;
        write_entry(out, &d);
        count = write_tables(out, &d);
        fprintf(rows, "{\"%.*s\", standin_call_%.*s, %d, standin_sizes_%.*s, standin_pointers_%.*s}, ", d.length,
                d.name, d.length, d.name, count, d.length, d.name, d.length, d.name);
    }
    fflush(rows);
    fprintf(out, "__attribute__((visibility(\"default\"))) const struct standin_kernel standin_kernels[] = {%s{0}};\n",
            *table);
}

char *standin_with_entries(const char *text)
{
    char  *result = NULL, *table = NULL;
    size_t size, table_size;
    FILE  *out = open_memstream(&result, &size), *rows = open_memstream(&table, &table_size);
    bool   written = false;
    if (out && rows) {
        write_all(out, rows, &table, text);
        written = !ferror(out) && !ferror(rows);
    }
    if (rows)
        written = fclose(rows) == 0 && written;
    if (out)
        written = fclose(out) == 0 && written;
    free(table);
    if (!written) {
        free(result);
        result = NULL;
    }
    return result;
}
