#include "cli/options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/help.h"
#include "cli/options/row.h"
#include "cli/shared/cli.h"

/* ---- given options ---- */

static void mark_given(option_values *o, const option *row)
{
    o->given |= (uint64_t)1 << (row - o->command->options);
}

static bool is_given(const option_values *o, const option *row)
{
    return o->given >> (row - o->command->options) & 1;
}

bool option_given(const option_values *o, const char *name)
{
    const option *row = option_find(o->command, name);
    return row && is_given(o, row);
}

void option_give(option_values *o, const char *name, const char *text)
{
    const option *row = option_find(o->command, name);
    *(const char **)(void *)((char *)o->values + row->offset) = text;
    mark_given(o, row);
    o->texts[row - o->command->options] = text;
}

/* ---- parsing ---- */

static int set_value(option_values *o, const option *row, const char *text)
{
    char expected[300];
    if (option_take_text(row, (char *)o->values + row->offset, text)) {
        mark_given(o, row);
        o->texts[row - o->command->options] = text;
        return -1;
    }
    option_expected(row, expected, sizeof expected);
    const char *near = row->choices ? did_you_mean(text, row->choices) : NULL;
    if (near)
        complain("--%s wants %s, not '%s'; did you mean %s?", row->name, expected, text, near);
    else
        complain("--%s wants %s, not '%s' (haul %s --help explains it)", row->name, expected, text, o->command->name);
    return EXIT_USAGE;
}

/* What other programs call options of Haul, without dashes. */
static const char *const elsewhere[][2] = {{"batch-size", "batch"},
                                           {"b", "batch"},
                                           {"learning-rate", "lr"},
                                           {"e", "epochs"},
                                           {"num-epochs", "epochs"},
                                           {"num-workers", "workers"},
                                           {"j", "workers"},
                                           {"num-threads", "threads"},
                                           {"dataset", "data"},
                                           {"d", "data"},
                                           {"arch", "model"},
                                           {"m", "model"},
                                           {"optim", "optimizer"},
                                           {"wd", "weight-decay"},
                                           {"grad-accumulation", "accumulate"},
                                           {"gradient-accumulation-steps", "accumulate"},
                                           {"dtype", "precision"},
                                           {"amp", "precision"},
                                           {"gpu", "device gpu"},
                                           {"cuda", "device cuda"},
                                           {"cpu", "device cpu"},
                                           {"weights", "init"},
                                           {"pretrained", "init"},
                                           {"output-dir", "run"},
                                           {"output", "run"},
                                           {"save-dir", "run"},
                                           {"log-interval", "log-every"},
                                           {"o", "output"}};

/* The option of the command that was probably meant; NULL if none is near. */
static const char *probable_option(const command *c, const char *name)
{
    const char *names[MOST_OPTIONS + 2] = {NULL};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (!strcmp(name, elsewhere[i][0]) && option_named(c, elsewhere[i][1], strcspn(elsewhere[i][1], " ")))
            return elsewhere[i][1];
    for (int i = 0; i < c->option_count; i++)
        names[i] = c->options[i].name;
    names[c->option_count] = "help";
    return did_you_mean(name, names);
}

/* `shown`: "--epoch" or "-e", `name` without dashes. */
static int unknown(const command *c, const char *shown, const char *name)
{
    const char    *near = probable_option(c, name);
    const command *other = c->operand.options_of;
    if (near)
        complain("unknown option %s; did you mean --%s?", shown, near);
    else if (other && option_named(other, name, strlen(name)))
        complain("unknown option %s; options of haul %s come after --, as in: haul %s -- %s ...", shown, other->name,
                 c->name, shown);
    else
        complain("unknown option %s (haul %s --help lists the options)", shown, c->name);
    return EXIT_USAGE;
}

static int parse_value(option_values *o, const option *row, const char *text, int argc, char **argv, int *at)
{
    if (text)
        return set_value(o, row, text);
    if (row->kind == OPTION_FLAG)
        return set_value(o, row, "on");
    if (*at + 1 >= argc) {
        complain("--%s needs a value: --%s %s", row->name, row->name, row->argument);
        return EXIT_USAGE;
    }
    return set_value(o, row, argv[++*at]);
}

/* argv[*at] begins with "--". */
static int parse_long(option_values *o, int argc, char **argv, int *at)
{
    const char   *text = argv[*at] + 2;
    size_t        length = strcspn(text, "=");
    const option *row = option_named(o->command, text, length);
    if (!row) {
        char shown[80];
        snprintf(shown, sizeof shown, "--%.*s", (int)length, text);
        return unknown(o->command, shown, shown + 2);
    }
    if (row->kind == OPTION_FLAG && text[length]) {
        complain("--%s takes no value", row->name);
        return EXIT_USAGE;
    }
    return parse_value(o, row, text[length] ? text + length + 1 : NULL, argc, argv, at);
}

/* argv[*at] begins with a dash and is longer. */
static int parse_short(option_values *o, int argc, char **argv, int *at)
{
    const char   *text = argv[*at] + 1;
    const option *row = text[1] ? NULL : option_of_letter(o->command, *text);
    return row ? parse_value(o, row, NULL, argc, argv, at) : unknown(o->command, argv[*at], text);
}

static int one_too_many(const command *c, const char *text)
{
    complain("unexpected argument '%s' (usage: haul %s%s%s)", text, c->name, *c->usage ? " " : "", c->usage);
    return EXIT_USAGE;
}

/* Several operands move to the front of argv, behind its first element. */
static int parse_operand(option_values *o, char **argv, char *text)
{
    const option_operand *taken = &o->command->operand;
    if (!taken->name)
        return one_too_many(o->command, text);
    void *at = (char *)o->values + taken->offset;
    if (taken->several) {
        operand_list *list = at;
        list->items = argv + 1;
        list->items[list->count++] = text;
        return -1;
    }
    if (*(const char **)at)
        return one_too_many(o->command, text);
    if (!option_is_choice(taken->choices, text)) {
        char        list[300];
        const char *near = did_you_mean(text, taken->choices);
        complain("%s is %s, not '%s'%s%s%s", taken->name, list_text(list, sizeof list, taken->choices, "", "or"), text,
                 near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        return EXIT_USAGE;
    }
    *(const char **)at = text;
    return -1;
}

static int check_required(const option_values *o)
{
    const command        *c = o->command;
    const option_operand *taken = &c->operand;
    for (int i = 0; i < c->option_count; i++)
        if ((c->options[i].flags & OPTION_REQUIRED) && !is_given(o, &c->options[i])) {
            complain("--%s is missing (usage: haul %s %s)", c->options[i].name, c->name, c->usage);
            return EXIT_USAGE;
        }
    if (!taken->required)
        return -1;
    const void *at = (const char *)o->values + taken->offset;
    if (taken->several ? ((const operand_list *)at)->count > 0 : *(const char *const *)at != NULL)
        return -1;
    complain("%s %s missing (usage: haul %s %s)", taken->name, strchr(taken->name, ' ') ? "are" : "is", c->name,
             c->usage);
    return EXIT_USAGE;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

int options_parse(option_values *o, const command *c, void *values, int argc, char **argv)
{
    bool operands_only = false;
    int  code = -1;
    *o = (option_values){.command = c, .values = values};
    for (int i = 0; i < c->option_count; i++)
        if (c->options[i].initial)
            option_take_text(&c->options[i], (char *)values + c->options[i].offset, c->options[i].initial);
    if (wants_help(argc, argv)) {
        help_print(c);
        return EXIT_OK;
    }
    for (int i = 1; i < argc && code < 0; i++) {
        char *text = argv[i];
        if (!operands_only && text[0] != '-' && c->operand.options_of)
            code = one_too_many(c, text);
        else if (operands_only || text[0] != '-' || !text[1])
            code = parse_operand(o, argv, text);
        else if (text[1] != '-')
            code = parse_short(o, argc, argv, &i);
        else if (text[2])
            code = parse_long(o, argc, argv, &i);
        else
            operands_only = true;
    }
    return code >= 0 ? code : check_required(o);
}
