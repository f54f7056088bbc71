#include "cli/options/help.h"

#include <string.h>
#include <unistd.h>

#include "cli/options/row.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"

enum { COLUMNS = 79, NO_LIMIT = 1000000 };

static int columns_on(const FILE *to)
{
    const int room = to == stderr ? terminal_width(STDERR_FILENO) : output_room();
    return room <= COLUMNS ? room - 1 : COLUMNS;
}

/* Where the texts of options begin; in a narrow terminal, below their names. */
static int text_indent(void)
{
    enum { USUAL = 28, NARROW = 6, LEAST = 60 };
    return columns_on(stdout) < LEAST ? NARROW : USUAL;
}

void help_wrapped(FILE *to, const char *text, int column, int indent)
{
    const int most = columns_on(to);
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (column > indent && column + 1 + (int)word > most) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", (int)word, text);
        column += (int)word;
        text += word;
        text += strspn(text, " \n");
    }
    putc('\n', to);
}

/* ---- the text of a row ---- */

static void append(char *out, size_t size, const char *separator, const char *text)
{
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%s%s", used ? separator : "", text);
}

/* "sgd, adam or adamw", "1 to 256", "default 2", separated by semicolons. Limits that are rarely met are left to the
 * error message. */
static void add_facts(const option *row, char *out, size_t size)
{
    char low[32], high[32], text[300];
    if (row->kind == OPTION_INTEGER || row->kind == OPTION_NUMBER) {
        limit_text(row->low, low, sizeof low);
        if (row->high < NO_LIMIT)
            snprintf(text, sizeof text, "%s to %s", low, limit_text(row->high, high, sizeof high));
        else
            snprintf(text, sizeof text, "at least %s", low);
        append(out, size, "; ", text);
        if (row->word)
            append(out, size, " or ", row->word);
    } else if (row->choices) {
        append(out, size, "; ", list_text(text, sizeof text, row->choices, "", "or"));
    }
    if (row->initial) {
        snprintf(text, sizeof text, "default %s", row->initial);
        append(out, size, "; ", text);
    }
    if (row->flags & OPTION_REQUIRED)
        append(out, size, "; ", "required");
}

const char *help_text(const option *row, char *out, size_t size)
{
    char facts[400] = "";
    add_facts(row, facts, sizeof facts);
    snprintf(out, size, *facts ? "%s (%s)" : "%s", row->help, facts);
    return out;
}

const char *help_form(const option *row, char *out, size_t size)
{
    char letter[8] = "";
    if (row->letter)
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    snprintf(out, size, "%s--%s%s%s", letter, row->name, row->argument ? " " : "", row->argument ? row->argument : "");
    return out;
}

/* ---- the help of a command ---- */

static void print_row(const char *form, const char *text)
{
    const int indent = text_indent();
    int       used = printf("  %s", form);
    if (used > indent - 2) {
        putchar('\n');
        used = 0;
    }
    printf("%*s", indent - used, "");
    help_wrapped(stdout, text, indent, indent);
}

static void print_options(const command *c)
{
    const char *group = "";
    char        form[80], text[1000];
    for (int i = 0; i < c->option_count; i++) {
        if (strcmp(c->options[i].group, group) != 0) {
            group = c->options[i].group;
            printf("\n%s:\n", group);
        }
        print_row(help_form(&c->options[i], form, sizeof form), help_text(&c->options[i], text, sizeof text));
    }
    if (!c->option_count)
        printf("\nOptions:\n");
    print_row("-h, --help", "Show this help");
}

void help_print(const command *c)
{
    enum { USAGE_INDENT = 4 };
    char usage[300];
    snprintf(usage, sizeof usage, "usage: haul %s%s%s", c->name, *c->usage ? " " : "", c->usage);
    if (output_room() <= COLUMNS)
        help_wrapped(stdout, usage, 0, USAGE_INDENT);
    else
        puts(usage);
    putchar('\n');
    help_wrapped(stdout, c->description, 0, 0);
    if (c->operand.name) {
        printf("\nOperands:\n");
        print_row(c->operand.name, c->operand.help);
    }
    print_options(c);
    if (c->examples)
        printf("\nExamples:\n");
    for (const help_example *e = c->examples; e && e->line; e++) {
        printf("  %s\n", e->line);
        if (e->help) {
            printf("      ");
            help_wrapped(stdout, e->help, 6, 6);
        }
    }
}
