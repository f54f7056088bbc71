/* Templates of kernel text: a text that is written once and repeated with other words.
 *
 *   TEMPLATE(name, FIRST, SECOND, ...)     begins one; the line END_TEMPLATE ends it
 *   EXPAND(name, first, second, ...)       becomes its text, with `first` wherever the word FIRST stands, and so on
 *
 * Both stand at the start of a line, EXPAND also behind spaces. FIRST##_rest makes one word, as in a macro. An argument
 * ends at a comma outside parentheses. A text may expand the templates of all files, and a template may expand others.
 * Diagnostics point at the template's lines. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "embed.h"

enum { MAX_WORDS = 12, MAX_TEMPLATES = 128, MAX_NESTED = 8 };

typedef struct words {
    const char *at[MAX_WORDS];
    size_t      sizes[MAX_WORDS];
    int         count;
} words;

/* A template. */
typedef struct pattern {
    words       head; /* the name, and then the parameters */
    const char *body;
    size_t      size;
    const char *path;
    long        line; /* of the body's first line */
} pattern;

typedef struct templates {
    pattern all[MAX_TEMPLATES];
    int     count;
} templates;

static bool begins(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

/* The words between parentheses, from behind the first one on. Returns what follows the last one. */
static const char *take_words(const unit *u, const char *s, words *out)
{
    out->count = 0;
    for (bool more = true; more;) {
        int depth = 0;
        s += strspn(s, " \n");
        const char *end = s;
        for (; *end && (depth || (*end != ',' && *end != ')')); end++)
            depth += (*end == '(') - (*end == ')');
        if (!*end || out->count == MAX_WORDS)
            fail("%s: %.20s...: the words between parentheses do not end, or are more than %d", u->path, s,
                 (int)MAX_WORDS);
        size_t size = (size_t)(end - s);
        while (size && (s[size - 1] == ' ' || s[size - 1] == '\n'))
            size--;
        out->at[out->count] = s;
        out->sizes[out->count++] = size;
        more = *end == ',';
        s = end + 1;
    }
    return s;
}

static size_t line_size(const char *line)
{
    size_t size = strcspn(line, "\n");
    return size + (line[size] == '\n');
}

static long lines_between(const char *from, const char *to)
{
    long count = 0;
    for (; from < to; from++)
        count += *from == '\n';
    return count;
}

/* Where the lines of a text come from: what its #line directives say. */
static void count_line(const char *line, long *number)
{
    *number = begins(line, "#line ") ? strtol(line + 6, NULL, 10) : *number + 1;
}

/* Moves the templates of a unit from its text, which becomes `rest`, to the list. */
static void take_templates(templates *list, const unit *u, buffer *rest)
{
    long number = 0;
    for (const char *line = u->text.data; *line;) {
        if (!begins(line, "TEMPLATE(")) {
            count_line(line, &number);
            append(rest, line, line_size(line));
            line += line_size(line);
            continue;
        }
        if (list->count == MAX_TEMPLATES)
            fail("%s: there are more than %d templates", u->path, (int)MAX_TEMPLATES);
        pattern    *t = &list->all[list->count++];
        const char *head = take_words(u, line + strlen("TEMPLATE("), &t->head), *end;
        t->path = u->path;
        t->body = head + line_size(head);
        t->line = number + lines_between(line, t->body);
        for (end = t->body; *end && !begins(end, "END_TEMPLATE\n");)
            end += line_size(end);
        if (!*end)
            fail("%s:%ld: a template begins but does not end", u->path, number);
        t->size = (size_t)(end - t->body);
        end += line_size(end);
        number += lines_between(line, end);
        appendf(rest, "#line %ld \"%s\"\n", number, u->path);
        line = end;
    }
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The body with the arguments in place of the parameters. */
static void substitute(buffer *out, const pattern *t, const words *arguments)
{
    for (const char *s = t->body, *end = t->body + t->size; s < end;) {
        size_t size = 0;
        while (s + size < end && is_word(s[size]))
            size++;
        if (size == 0) {
            bool joins = s[0] == '#' && s[1] == '#';
            append(out, s, joins ? 0 : 1);
            s += joins ? 2 : 1;
            continue;
        }
        const char *word = s;
        size_t      length = size;
        for (int i = 1; i < t->head.count; i++)
            if (t->head.sizes[i] == size && strncmp(t->head.at[i], s, size) == 0) {
                word = arguments->at[i];
                length = arguments->sizes[i];
            }
        for (size_t k = 0; k < length; k++) /* an argument may go over lines, its place may not */
            append(out, word[k] == '\n' ? " " : word + k, 1);
        s += size;
    }
}

static const pattern *find(const templates *list, const unit *u, const words *call)
{
    for (int i = 0; i < list->count; i++) {
        const pattern *t = &list->all[i];
        if (t->head.sizes[0] != call->sizes[0] || strncmp(t->head.at[0], call->at[0], call->sizes[0]) != 0)
            continue;
        if (t->head.count != call->count)
            fail("%s: EXPAND(%.*s) has %d arguments; the template takes %d", u->path, (int)call->sizes[0], call->at[0],
                 call->count - 1, t->head.count - 1);
        return t;
    }
    fail("%s: there is no template %.*s", u->path, (int)call->sizes[0], call->at[0]);
}

/* Appends `text`, whose first line is line `number` of `path`, with its templates expanded. */
static void expand(buffer *out, const templates *list, const unit *u, const char *text, const char *path, long number,
                   int depth)
{
    if (depth > MAX_NESTED)
        fail("%s: templates expand each other without end", u->path);
    for (const char *line = text; *line;) {
        const char *word = line + strspn(line, " ");
        if (!begins(word, "EXPAND(")) {
            count_line(line, &number);
            append(out, line, line_size(line));
            line += line_size(line);
            continue;
        }
        words          call;
        const char    *end = take_words(u, word + strlen("EXPAND("), &call);
        const pattern *t = find(list, u, &call);
        buffer         body = {0};
        end += line_size(end);
        number += lines_between(line, end);
        substitute(&body, t, &call);
        appendf(out, "#line %ld \"%s\"\n", t->line, t->path);
        expand(out, list, u, body.data, t->path, t->line, depth + 1);
        appendf(out, "#line %ld \"%s\"\n", number, path);
        free(body.data);
        line = end;
    }
}

void expand_templates(unit_list *units)
{
    static templates list;
    buffer          *rests = calloc(units->count + 1, sizeof *rests), *texts = calloc(units->count + 1, sizeof *texts);
    if (!rests || !texts)
        fail("out of memory");
    for (size_t i = 0; i < units->count; i++) {
        append(&rests[i], "", 0);
        take_templates(&list, &units->units[i], &rests[i]);
    }
    for (size_t i = 0; i < units->count; i++) {
        const unit *u = &units->units[i];
        append(&texts[i], "", 0);
        expand(&texts[i], &list, u, rests[i].data, u->path, 0, 0);
    }
    for (size_t i = 0; i < units->count; i++) { /* not before: templates are pieces of the texts */
        free(rests[i].data);
        free(units->units[i].text.data);
        units->units[i].text = texts[i];
    }
    free(rests);
    free(texts);
}
