/* Rows of pointwise operations as kernel text: HAUL_UNARY(neg, NUMBER, -x, ...) expands a template of
 * src/kernels/pointwise.h. A row is a unit of its own, so that run-time compilers get the rows that a program uses. A
 * row HAUL_NEAR(exp, ...) of a file before it gives it a faster formula for some x, and a row
 * HAUL_LEAN(tan) short code (src/kernels/near.def). */
#include <stdio.h>
#include <string.h>

#include "embed.h"

/* What the macros of rows mean. In the text %1 is the name, %2 the formula and %3 the last arguments of pointwise1, %4
 * the last one of pointwise2. */
static const struct form {
    const char *macro;
    const char *dtypes; /* NULL: the second argument */
    const char *text;
} forms[] = {
    {"HAUL_UNARY", NULL, "EXPAND(pointwise1, %1, T, STORE, T, A, LOAD, x, %2, %3)\n"},
    {"HAUL_UNARY1", NULL, "EXPAND(pointwise1, %1, T, STORE, T, A, LOAD, x, %2, %3)\n"},
    {"HAUL_UNARY2", NULL, "EXPAND(pointwise1, %1, T, STORE, T, A, LOAD, x, %2, %3)\n"},
    {"HAUL_UNARY_TO_BOOL", NULL, "EXPAND(pointwise1, %1, U8, PUT_BOOL, T, A, LOAD, x, %2, %3)\n"},
    {"HAUL_BINARY", NULL,
     "EXPAND(pointwise2, %1, T, STORE, %2, %4)\nEXPAND(pointwise1, %1_scalar, T, STORE, T, A, LOAD, a, %2, %3)\n"},
    {"HAUL_INTERNAL", NULL, "EXPAND(pointwise2, %1, T, STORE, %2, %4)\n"},
    {"HAUL_COMPARE", "ANY",
     "EXPAND(pointwise2, %1, U8, PUT_BOOL, %2, %4)\nEXPAND(pointwise1, %1_scalar, U8, PUT_BOOL, T, A, LOAD, a, %2, "
     "%3)\n"},
};

/* The dtypes of a row as a condition. */
static const struct {
    const char *word, *condition;
} conditions[] = {
    {"ANY", NULL},
    {"NUMBER", "#if !defined(HAUL_KERNEL_DTYPE_bool)\n"},
    {"NUMBER_WIDE", "#if !defined(HAUL_KERNEL_DTYPE_bool)\n"},
    {"FLOAT", "#if IS_FLOAT\n"},
    {"WIDE", "#if IS_FLOAT\n"},
    {"BITWISE", "#if !IS_FLOAT\n"},
    {"INTEGER", "#if !IS_FLOAT && !defined(HAUL_KERNEL_DTYPE_bool)\n"},
};

typedef struct span {
    const char *at;
    size_t      size;
} span;

/* The faster formula of a row. */
typedef struct near_form {
    span name, is_far, formula;
} near_form;

enum { MAX_NEAR = 16, MAX_LEAN = 128 };
static struct {
    near_form all[MAX_NEAR];
    int       count;
} near_forms;

/* The names of the rows with short code. */
static struct {
    span all[MAX_LEAN];
    int  count;
} lean;

static bool is(span s, const char *word)
{
    return s.size == strlen(word) && strncmp(s.at, word, s.size) == 0;
}

/* The argument at *s, without spaces around it; *s moves behind the comma or parenthesis that ends it. */
static span next_argument(const char **s)
{
    int         depth = 0;
    const char *at = *s + strspn(*s, " \n"), *end = at;
    for (; *end && (depth || (*end != ',' && *end != ')')); end++)
        depth += (*end == '(') - (*end == ')');
    *s = end + (*end == ',');
    while (end > at && end[-1] == ' ')
        end--;
    return (span){at, (size_t)(end - at)};
}

static const char *condition_of(const char *path, span dtypes)
{
    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++)
        if (is(dtypes, conditions[i].word))
            return conditions[i].condition;
    fail("%s: %.*s: expected ANY, NUMBER, NUMBER_WIDE, FLOAT, WIDE, BITWISE or INTEGER", path, (int)dtypes.size,
         dtypes.at);
}

static void take_near(const char *path, const char *arguments)
{
    if (near_forms.count == MAX_NEAR)
        fail("%s: there are more than %d rows HAUL_NEAR", path, (int)MAX_NEAR);
    near_form *form = &near_forms.all[near_forms.count++];
    form->name = next_argument(&arguments);
    form->is_far = next_argument(&arguments);
    form->formula = next_argument(&arguments);
}

static void take_lean(const char *path, const char *arguments)
{
    if (lean.count == MAX_LEAN)
        fail("%s: there are more than %d rows HAUL_LEAN", path, (int)MAX_LEAN);
    lean.all[lean.count++] = next_argument(&arguments);
}

static bool is_lean(span name)
{
    for (int i = 0; i < lean.count; i++)
        if (lean.all[i].size == name.size && strncmp(lean.all[i].at, name.at, name.size) == 0)
            return true;
    return false;
}

/* The last arguments of pointwise1: what is far, the formula elsewhere, and whether the row takes blocks. */
static void append_rest(buffer *text, span name, span formula)
{
    span is_far = {"NEVER", strlen("NEVER")};
    for (int i = 0; i < near_forms.count; i++)
        if (near_forms.all[i].name.size == name.size && strncmp(near_forms.all[i].name.at, name.at, name.size) == 0) {
            is_far = near_forms.all[i].is_far;
            formula = near_forms.all[i].formula;
        }
    appendf(text, "%.*s, %.*s, %d", (int)is_far.size, is_far.at, (int)formula.size, formula.at, !is_lean(name));
}

static void append_row(buffer *text, const char *form, span name, span formula)
{
    for (; *form; form++) {
        if (*form != '%')
            append(text, form, 1);
        else if (*++form == '3')
            append_rest(text, name, formula);
        else if (*form == '4')
            append(text, is_lean(name) ? "0" : "1", 1);
        else
            append(text, *form == '1' ? name.at : formula.at, *form == '1' ? name.size : formula.size);
    }
}

/* By a hash of the name (FNV-1a), so that a new row moves no other one. */
static int group_of(span name)
{
    unsigned hash = 2166136261u;
    for (size_t i = 0; i < name.size; i++)
        hash = (hash ^ (unsigned char)name.at[i]) * 16777619u;
    return (int)(hash % ROW_GROUPS);
}

static void take_row(unit_list *list, const char *path, long number, const struct form *form, const char *arguments)
{
    span        name = next_argument(&arguments);
    span        dtypes = form->dtypes ? (span){form->dtypes, strlen(form->dtypes)} : next_argument(&arguments);
    span        formula = next_argument(&arguments);
    const char *condition = condition_of(path, dtypes);
    buffer      unit_name = {0};
    unit       *u = add_unit(list, path);
    appendf(&unit_name, "pointwise_%.*s", (int)name.size, name.at);
    u->name = unit_name.data;
    u->group = group_of(name);
    if (condition)
        append(&u->text, condition, strlen(condition));
    appendf(&u->text, "#line %ld \"%s\"\n", number, path);
    append_row(&u->text, form->text, name, formula);
    if (condition)
        append(&u->text, "#endif\n", 7);
}

void take_rows(unit_list *list, const char *path, const buffer *source)
{
    long number = 0;
    for (const char *line = source->data; *line;) {
        size_t size = strcspn(line, "\n");
        number++;
        if (strncmp(line, "HAUL_NEAR(", strlen("HAUL_NEAR(")) == 0)
            take_near(path, line + strlen("HAUL_NEAR("));
        if (strncmp(line, "HAUL_LEAN(", strlen("HAUL_LEAN(")) == 0)
            take_lean(path, line + strlen("HAUL_LEAN("));
        for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
            size_t word = strlen(forms[i].macro);
            if (strncmp(line, forms[i].macro, word) == 0 && line[word + strspn(line + word, " ")] == '(')
                take_row(list, path, number, &forms[i], strchr(line, '(') + 1);
        }
        line += size + (line[size] == '\n');
    }
}
