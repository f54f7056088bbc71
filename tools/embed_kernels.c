/* The kernels in texts.
 *
 * A kernel begins with KERNELn(name, ...) at the start of a line, or with a macro that passes its first parameter on as
 * that name. It has n buffers. It is for floats under an #if that asks for IS_FLOAT, for f32 and f64 if that also
 * excludes IS_HALF, for integers and bool under one that asks for !IS_FLOAT, for numbers, or integers then, under one
 * that excludes bool, for the dtypes of sums under one that asks for f32, f64 and i64, for sizes of elements under one
 * that asks for IS_BITS, for u16, u32 and u64 under one that asks for i16, i32 and i64, for bool under one that asks
 * for that, and for all dtypes elsewhere. It has the lanes form (src/backends/cpu/prelude.h) if FOR_ROWS stands in it
 * or in its macro. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "embed.h"

const char *const class_words[] = {"ANY",     "NUMBER", "FLOAT", "WHOLE",    "BITWISE",
                                   "INTEGER", "SUM",    "BITS",  "UNSIGNED", "ONCE"};

enum { MAX_DEPTH = 16 };

typedef struct reader {
    kernel_list *list;
    const unit  *unit;
    dtype_class  conditions[MAX_DEPTH];
    int          depth;
} reader;

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

/* The number of buffers of KERNELn, or 0 if it is another word. */
static int kernel_buffers(const call *c)
{
    bool is = c->word_size == 7 && strncmp(c->word, "KERNEL", 6) == 0 && isdigit((unsigned char)c->word[6]);
    return is ? c->word[6] - '0' : 0;
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

static dtype_class condition_of(const char *line, size_t size)
{
    if (holds(line, size, "IS_FLOAT") && !holds(line, size, "!IS_FLOAT"))
        return holds(line, size, "!IS_HALF") ? WHOLE : FLOAT;
    if (holds(line, size, "defined(HAUL_KERNEL_DTYPE_f64) || defined(HAUL_KERNEL_DTYPE_i64)"))
        return SUM;
    if (holds(line, size, "defined(HAUL_KERNEL_DTYPE_i16) || defined(HAUL_KERNEL_DTYPE_i32)"))
        return UNSIGNED;
    if (holds(line, size, "!IS_FLOAT"))
        return holds(line, size, "!defined(HAUL_KERNEL_DTYPE_bool)") ? INTEGER : BITWISE;
    if (holds(line, size, "IS_BITS"))
        return BITS;
    if (holds(line, size, "!defined(HAUL_KERNEL_DTYPE_bool)"))
        return NUMBER;
    return holds(line, size, "defined(HAUL_KERNEL_DTYPE_bool)") ? ONCE : ANY;
}

static void take_directive(reader *r, const char *line, size_t size)
{
    if (strncmp(line, "#if", 3) == 0) {
        if (r->depth == MAX_DEPTH)
            fail("%s: conditions nest more than %d deep", r->unit->path, (int)MAX_DEPTH);
        r->conditions[r->depth++] = condition_of(line, size);
    } else if (strncmp(line, "#el", 3) == 0 && r->depth) {
        r->conditions[r->depth - 1] = condition_of(line, size);
    } else if (strncmp(line, "#endif", 6) == 0 && r->depth) {
        r->depth--;
    }
}

/* A kernel that is there already is another form of the same one, under #else. */
static bool is_known(const kernel_list *list, const kernel *k)
{
    for (size_t i = 0; i < list->count; i++) {
        const kernel *old = &list->kernels[i];
        if (old->name_size == k->name_size && strncmp(old->name, k->name, (size_t)k->name_size) == 0) {
            if (old->unit != k->unit)
                fail("%s and %s have a kernel %.*s each", old->unit->path, k->unit->path, k->name_size, k->name);
            return true;
        }
    }
    return false;
}

const kernel *form_of(const kernel_list *list, const kernel *k, const char *form)
{
    size_t name = (size_t)k->name_size, size = name + strlen(form);
    for (size_t i = 0; i < list->count; i++) {
        const kernel *other = &list->kernels[i];
        if ((size_t)other->name_size == size && strncmp(other->name, k->name, name) == 0 &&
            strncmp(other->name + name, form, size - name) == 0)
            return other;
    }
    return k;
}

static void add_kernel(reader *r, const call *c, int buffers, bool lanes)
{
    kernel_list *list = r->list;
    kernel       k = {r->unit, c->first, c->first_size, ANY, buffers, lanes};
    for (int i = 0; i < r->depth; i++)
        k.dtypes = r->conditions[i] > k.dtypes ? r->conditions[i] : k.dtypes;
    if (is_known(list, &k))
        return;
    if (list->count == list->room) {
        list->room = 2 * list->room + 64;
        list->kernels = realloc(list->kernels, list->room * sizeof *list->kernels);
        if (!list->kernels)
            fail("out of memory");
    }
    list->kernels[list->count++] = k;
}

/* The kernel that begins at a line, if one does. */
static void take_kernel(reader *r, const char *line)
{
    call        c = parse_call(line);
    const char *end = strstr(line, "\n}");
    if (kernel_buffers(&c))
        add_kernel(r, &c, kernel_buffers(&c), end && holds(line, (size_t)(end - line), "FOR_ROWS("));
}

static void read_unit(reader *r, const unit *u)
{
    r->unit = u;
    r->depth = 0;
    for (const char *line = u->text.data; *line;) {
        size_t size = whole_line(line);
        if (*line == '#')
            take_directive(r, line, size);
        else
            take_kernel(r, line);
        line += size + (line[size] == '\n');
    }
}

void list_kernels(kernel_list *list, const unit_list *units)
{
    reader r = {.list = list};
    for (size_t i = 0; i < units->count; i++)
        if (!units->units[i].whole)
            read_unit(&r, &units->units[i]);
}
