#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* ---- help ---- */

/* The default as help shows it; "" when there is none to tell. */
static void default_text(const option *o, char *out, size_t size)
{
    out[0] = 0;
    switch (o->kind) {
    case OPTION_FLAG: break;
    case OPTION_ON_OFF: snprintf(out, size, " (default %s)", *(bool *)o->value ? "on" : "off"); break;
    case OPTION_TEXT:
        if (*(const char **)o->value)
            snprintf(out, size, " (default %s)", *(const char **)o->value);
        break;
    case OPTION_INTEGER: snprintf(out, size, " (default %lld)", (long long)*(int64_t *)o->value); break;
    case OPTION_NUMBER: snprintf(out, size, " (default %g)", *(double *)o->value); break;
    }
}

/* Text in lines of 80 columns, the second and later ones indented. */
static void print_wrapped(const char *text, int column, int indent)
{
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (column > indent && column + 1 + (int)word > 79) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)word, text);
        column += (int)word;
        text += word;
        text += strspn(text, " \n");
    }
    putchar('\n');
}

static void print_help(const option_set *set)
{
    enum { INDENT = 28 };

    printf("usage: haul %s %s\n\n", set->command, set->usage);
    print_wrapped(set->summary, 0, 0);
    printf("\noptions:\n");
    for (int i = 0; i < set->count; i++) {
        const option *o = &set->rows[i];
        char          value[128], text[600];
        int           used = printf("  --%s%s%s", o->name, o->argument ? " " : "", o->argument ? o->argument : "");
        if (used > INDENT - 2) {
            putchar('\n');
            used = 0;
        }
        printf("%*s", INDENT - used, "");
        default_text(o, value, sizeof value);
        snprintf(text, sizeof text, "%s%s", o->help, value);
        print_wrapped(text, INDENT, INDENT);
    }
    printf("  %-*s%s\n", INDENT - 2, "--help", "this text");
    if (set->notes)
        printf("\n%s\n", set->notes);
}

/* ---- parsing ---- */

static bool is_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);

    for (const char *at = choices; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == length && !memcmp(at, text, length))
            return true;
        at += word;
    }
    return false;
}

static int wrong(const option_set *set, const option *o, const char *text, const char *wanted)
{
    complain("--%s wants %s, not '%s' (haul %s --help explains it)", o->name, wanted, text, set->command);
    return EXIT_USAGE;
}

/* Tells all choices, "sgd, adam or adamw", and which of them is near. */
static int wrong_choice(const option *o, const char *text)
{
    enum { MOST = 16 };
    char   copy[256], list[300] = "", *names[MOST + 1] = {NULL};
    size_t count = 0, used = 0;

    snprintf(copy, sizeof copy, "%s", o->choices);
    for (char *at = strtok(copy, " "); at && count < MOST; at = strtok(NULL, " "))
        names[count++] = at;
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 !i              ? ""
                                 : i + 1 < count ? ", "
                                                 : " or ",
                                 names[i]);
    const char *near = did_you_mean(text, (const char *const *)names);
    complain("--%s wants %s, not '%s'%s%s%s", o->name, list, text, near ? "; did you mean " : "", near ? near : "",
             near ? "?" : "");
    return EXIT_USAGE;
}

/* Whole numbers without an exponent: limits are at most 2^53. */
static const char *limit_text(double limit, char *out, size_t size)
{
    snprintf(out, size, limit == floor(limit) ? "%.0f" : "%.15g", limit);
    return out;
}

static const char *range_text(const option *o, const char *noun, char *out, size_t size)
{
    char low[32], high[32];
    limit_text(o->low, low, sizeof low);
    if (isinf(o->high))
        snprintf(out, size, "%s of at least %s", noun, low);
    else
        snprintf(out, size, "%s from %s to %s", noun, low, limit_text(o->high, high, sizeof high));
    return out;
}

/* Digits, with a sign, a point and an exponent at most: strtod takes spaces, hexadecimal numbers and words as well. */
static bool is_decimal(const char *text)
{
    return strspn(text, "0123456789+-.eE") == strlen(text) && *text != '+' && *text != 'e' && *text != 'E';
}

/* The text into *o; false when it does not fit the option. */
static bool take_text(option *o, const char *text)
{
    char     *end;
    bool      on = !strcmp(text, "on");
    long long integer;
    double    number;

    switch (o->kind) {
    case OPTION_FLAG: *(bool *)o->value = true; return true;
    case OPTION_ON_OFF: *(bool *)o->value = on; return on || !strcmp(text, "off");
    case OPTION_TEXT: *(const char **)o->value = text; return *text && (!o->choices || is_choice(o->choices, text));
    case OPTION_INTEGER:
        errno = 0;
        integer = strtoll(text, &end, 10);
        *(int64_t *)o->value = integer;
        return is_decimal(text) && end != text && !*end && !errno && (double)integer >= o->low &&
               (double)integer <= o->high;
    case OPTION_NUMBER:
        number = strtod(text, &end);
        *(double *)o->value = number;
        return is_decimal(text) && end != text && !*end && number >= o->low && number <= o->high;
    }
    return false;
}

static int set_value(const option_set *set, option *o, const char *text)
{
    char range[96];

    if (take_text(o, text)) {
        o->given = true;
        return -1;
    }
    switch (o->kind) {
    case OPTION_ON_OFF: return wrong(set, o, text, "on or off");
    case OPTION_INTEGER: return wrong(set, o, text, range_text(o, "a whole number", range, sizeof range));
    case OPTION_NUMBER: return wrong(set, o, text, range_text(o, "a number", range, sizeof range));
    default: return *text ? wrong_choice(o, text) : wrong(set, o, text, "a value");
    }
}

static option *find(const option_set *set, const char *name, size_t length)
{
    for (int i = 0; i < set->count; i++)
        if (strlen(set->rows[i].name) == length && !memcmp(set->rows[i].name, name, length))
            return &set->rows[i];
    return NULL;
}

static int unknown(const option_set *set, const char *text, size_t length)
{
    const char **names = calloc((size_t)set->count + 1, sizeof *names);
    char         name[64];

    snprintf(name, sizeof name, "%.*s", (int)length, text);
    for (int i = 0; names && i < set->count; i++)
        names[i] = set->rows[i].name;
    const char *near = names ? did_you_mean(name, names) : NULL;
    if (near)
        complain("there is no option --%s; did you mean --%s?", name, near);
    else
        complain("there is no option --%s (haul %s --help lists all)", name, set->command);
    free(names);
    return EXIT_USAGE;
}

/* argv[*at] begins with "--". */
static int parse_option(option_set *set, int argc, char **argv, int *at)
{
    const char *text = argv[*at] + 2;
    size_t      length = strcspn(text, "=");
    option     *o = find(set, text, length);

    if (!o)
        return unknown(set, text, length);
    if (o->kind == OPTION_FLAG) {
        if (text[length]) {
            complain("--%s takes no value", o->name);
            return EXIT_USAGE;
        }
        return set_value(set, o, "");
    }
    if (text[length])
        return set_value(set, o, text + length + 1);
    if (*at + 1 >= argc) {
        complain("--%s needs a value: --%s %s", o->name, o->name, o->argument);
        return EXIT_USAGE;
    }
    return set_value(set, o, argv[++*at]);
}

static int parse_operand(option_set *set, const char *text)
{
    if (!set->operand || *set->operand) {
        complain("'%s' is one argument too many (usage: haul %s %s)", text, set->command, set->usage);
        return EXIT_USAGE;
    }
    *set->operand = text;
    return -1;
}

int options_parse(option_set *set, int argc, char **argv)
{
    bool operands_only = false;

    for (int i = 1; i < argc; i++) /* before anything is set: help shows the defaults */
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            print_help(set);
            return EXIT_OK;
        }
    for (int i = 1; i < argc; i++) {
        int code;
        if (!operands_only && !strcmp(argv[i], "--")) {
            operands_only = true;
            continue;
        }
        if (!operands_only && argv[i][0] == '-' && argv[i][1] == '-') {
            code = parse_option(set, argc, argv, &i);
        } else if (!operands_only && argv[i][0] == '-' && argv[i][1]) {
            complain("there is no option %s; options begin with two dashes (haul %s --help lists all)", argv[i],
                     set->command);
            code = EXIT_USAGE;
        } else {
            code = parse_operand(set, argv[i]);
        }
        if (code >= 0)
            return code;
    }
    return -1;
}

bool option_given(const option_set *set, const char *name)
{
    const option *o = find(set, name, strlen(name));

    return o && o->given;
}

/* ---- files ---- */

/* Numbers become texts: cJSON does not promise that all their bits come back. */
static cJSON *value_to_json(const option *o)
{
    char digits[40];

    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_ON_OFF: return cJSON_CreateBool(*(bool *)o->value);
    case OPTION_TEXT: {
        const char *text = *(const char **)o->value;
        return text ? cJSON_CreateString(text) : cJSON_CreateNull();
    }
    case OPTION_INTEGER: snprintf(digits, sizeof digits, "%lld", (long long)*(int64_t *)o->value); break;
    case OPTION_NUMBER:
        snprintf(digits, sizeof digits, "%.15g", *(double *)o->value);
        if (strtod(digits, NULL) != *(double *)o->value)
            snprintf(digits, sizeof digits, "%.17g", *(double *)o->value);
        break;
    }
    return cJSON_CreateString(digits);
}

cJSON *options_to_json(const option_set *set, const char *const *names)
{
    cJSON *object = cJSON_CreateObject();

    for (; object && *names; names++) {
        const option *o = find(set, *names, strlen(*names));
        cJSON        *value = o ? value_to_json(o) : NULL;
        if (!value || !cJSON_AddItemToObject(object, *names, value)) {
            cJSON_Delete(value);
            cJSON_Delete(object);
            return NULL;
        }
    }
    return object;
}

/* The JSON's value into *o; false when it does not fit the option. */
static bool value_from_json(option *o, const cJSON *json)
{
    if (o->kind != OPTION_FLAG && o->kind != OPTION_ON_OFF)
        return cJSON_IsString(json) && take_text(o, json->valuestring);
    *(bool *)o->value = cJSON_IsTrue(json);
    return cJSON_IsBool(json);
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (!strcmp(*names, name))
            return true;
    return false;
}

/* Was the given option changed against what the object says? */
static bool check_fixed(const option *o, const cJSON *stored)
{
    cJSON *given = value_to_json(o);
    bool   same = given && cJSON_Compare(given, stored, true);

    if (!same) {
        char *was = cJSON_PrintUnformatted(stored), *is = given ? cJSON_PrintUnformatted(given) : NULL;
        complain("the run was started with --%s %s and cannot go on with %s; leave --%s out, or begin another run",
                 o->name, was ? was : "?", is ? is : "?", o->name);
        cJSON_free(was);
        cJSON_free(is);
    }
    cJSON_Delete(given);
    return same;
}

bool options_from_json(option_set *set, const cJSON *object, const char *const *fixed)
{
    const cJSON *stored;

    cJSON_ArrayForEach(stored, object)
    {
        option *o = find(set, stored->string, strlen(stored->string));
        if (!o)
            continue;
        if (o->given) {
            if (is_one_of(o->name, fixed) && !check_fixed(o, stored))
                return false;
        } else if (!value_from_json(o, stored)) {
            complain("the run's checkpoint has a value for --%s that cannot be used", o->name);
            return false;
        }
    }
    return true;
}
