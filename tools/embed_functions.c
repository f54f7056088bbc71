/* The functions that a CPU unit uses, out of the headers of functions: those with the marker line FUNCTIONS.
 *
 * A definition is a macro, a line that begins with FUNC, INLINE or CONSTANT with those that follow it up to the end of
 * the function or constant, or one that begins with typedef. A unit gets those whose names its text has, and those that
 * these need in turn, in their order and under their conditions; comments are left out. So a change of a function
 * compiles what uses it, and nothing else. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "embed.h"

#define FUNCTIONS "/* kernel functions: a unit has those that it uses */\n"

enum { MAX_PIECES = 512, MAX_CONDITIONS = 16 };

typedef struct piece {
    const char *text, *name; /* name NULL: a condition */
    size_t      size, name_size;
    const char *path;
    long        line;
    bool        used;
} piece;

typedef struct pieces {
    piece all[MAX_PIECES];
    int   count;
} pieces;

static pieces list;

bool has_functions(const buffer *source)
{
    return strstr(source->data, FUNCTIONS) != NULL;
}

/* ---- reading ---- */

static bool begins(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t line_size(const char *line)
{
    size_t size = strcspn(line, "\n");
    return size + (line[size] == '\n');
}

/* The line with those that a backslash joins to it. */
static size_t joined_lines(const char *text)
{
    size_t size = line_size(text);
    while (size > 1 && text[size - 2] == '\\')
        size += line_size(text + size);
    return size;
}

static size_t comment_size(const char *text)
{
    const char *end = strstr(text, "*/");
    return end ? (size_t)(end - text) + line_size(end) : strlen(text);
}

/* A function ends with a brace at the end of its first line or the start of another one, a constant or type with a
 * semicolon at the end of a line. */
static size_t definition_size(const char *text)
{
    const bool  function = begins(text, "FUNC") || begins(text, "INLINE");
    const char *line = text;
    for (bool first = true; *line; first = false) {
        const char *end = line + strcspn(line, "\n"), *comment = memmem(line, (size_t)(end - line), " /*", 3);
        const char *last = comment ? comment : end;
        line = end + (*end == '\n');
        if (function ? (last[-1] == '}' && (first || last[-2] == '\n')) : last[-1] == ';')
            break;
    }
    return (size_t)(line - text);
}

/* A macro's name follows its directive; a function's stands before its parameters, a constant's before its dimensions.
 */
static void find_name(piece *p)
{
    const char *at = p->text;
    if (begins(at, "#define ")) {
        p->name = at + strlen("#define ");
    } else {
        const char *end = at + strcspn(at, "([=;");
        while (end > at && !is_word(end[-1]))
            end--;
        for (p->name = end; p->name > at && is_word(p->name[-1]);)
            p->name--;
    }
    while (is_word(p->name[p->name_size]))
        p->name_size++;
}

static void add_piece(const unit *u, const char *text, size_t size, long line, bool condition)
{
    if (list.count == MAX_PIECES)
        fail("%s: there are more than %d functions", u->path, (int)MAX_PIECES);
    piece *p = &list.all[list.count++];
    *p = (piece){.text = text, .size = size, .path = u->path, .line = line};
    if (!condition)
        find_name(p);
}

void take_functions(const unit *u)
{
    long number = 0;
    for (const char *text = u->text.data, *next; *text; text = next) {
        const char *word = text + strspn(text, " ");
        next = text + line_size(text);
        if (begins(text, "#line ")) {
            number = strtol(text + strlen("#line "), NULL, 10);
            continue;
        }
        if (begins(word, "/*") || begins(word, "//")) {
            next = begins(word, "/*") ? word + comment_size(word) : next;
        } else if (begins(text, "#if") || begins(text, "#el") || begins(text, "#endif")) {
            add_piece(u, text, (size_t)(next - text), number, true);
        } else if (begins(text, "#define ")) {
            next = text + joined_lines(text);
            add_piece(u, text, (size_t)(next - text), number, false);
        } else if (begins(text, "FUNC ") || begins(text, "INLINE ") || begins(text, "CONSTANT ") ||
                   begins(text, "typedef ")) {
            next = text + definition_size(text);
            add_piece(u, text, (size_t)(next - text), number, false);
        } else if (*word != '\n') {
            fail("%s:%ld: a macro, FUNC, INLINE, CONSTANT or typedef is expected among functions", u->path, number);
        }
        for (const char *c = text; c < next; c++)
            number += *c == '\n';
    }
}

/* ---- what a unit uses ---- */

static bool has_word(const char *text, size_t size, const piece *p)
{
    const char *end = text + size;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), p->name, p->name_size)); at++)
        if ((at == text || !is_word(at[-1])) && (at + p->name_size == end || !is_word(at[p->name_size])))
            return true;
    return false;
}

void use_nothing(void)
{
    for (int i = 0; i < list.count; i++)
        list.all[i].used = false;
}

void use_functions_of(const char *text, size_t size)
{
    for (int i = 0; i < list.count; i++) {
        piece *p = &list.all[i];
        if (!p->name || p->used || !has_word(text, size, p))
            continue;
        p->used = true;
        use_functions_of(p->text, p->size);
    }
}

void append_used(buffer *out)
{
    size_t begin[MAX_CONDITIONS]; /* where the open conditions begin */
    bool   holds[MAX_CONDITIONS] = {false};
    int    depth = 0;
    for (int i = 0; i < list.count; i++) {
        const piece *p = &list.all[i];
        if (p->name && !p->used)
            continue;
        if (p->name) {
            appendf(out, "#line %ld \"%s\"\n", p->line, p->path);
            for (int d = 0; d < depth; d++)
                holds[d] = true;
        }
        if (!p->name && begins(p->text, "#if")) {
            if (depth == MAX_CONDITIONS)
                fail("%s:%ld: conditions nest more than %d deep", p->path, p->line, (int)MAX_CONDITIONS);
            holds[depth] = false;
            begin[depth++] = out->size;
        }
        append(out, p->text, p->size);
        if (!p->name && begins(p->text, "#endif")) {
            if (!depth)
                fail("%s:%ld: #endif without #if", p->path, p->line);
            if (!holds[--depth])
                out->data[out->size = begin[depth]] = 0;
        }
    }
}
