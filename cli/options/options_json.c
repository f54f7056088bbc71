/* The values of options as a flat JSON object, in JSON's own types. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/options.h"
#include "cli/options/row.h"
#include "cli/shared/cli.h"

enum { MOST_KEPT = 64 };

static bool is_kept(const option *row)
{
    return row->flags & OPTION_KEPT;
}

/* ---- writing ---- */

/* cJSON's own digits do not always bring back all bits. */
static cJSON *number_to_json(double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.15g", value);
    if (strtod(digits, NULL) != value)
        snprintf(digits, sizeof digits, "%.17g", value);
    return cJSON_CreateRaw(digits);
}

static cJSON *value_to_json(const option *row, const void *values)
{
    const void *at = (const char *)values + row->offset;
    char        digits[40];
    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_ON_OFF: return cJSON_CreateBool(*(const bool *)at);
    case OPTION_TEXT: return cJSON_CreateString(*(const char *const *)at);
    case OPTION_INTEGER: snprintf(digits, sizeof digits, "%lld", (long long)*(const int64_t *)at); break;
    case OPTION_NUMBER: return number_to_json(*(const double *)at);
    case OPTION_TEXTS: return NULL;
    }
    return cJSON_CreateRaw(digits);
}

/* A text without a value, or a number that has no default and was not given. */
static bool is_absent(const option *row, const void *values)
{
    const void *at = (const char *)values + row->offset;
    if (row->kind == OPTION_INTEGER)
        return !row->initial && (double)*(const int64_t *)at < row->low;
    return row->kind == OPTION_TEXT && !*(const char *const *)at;
}

cJSON *options_to_json(const option_values *o)
{
    cJSON *object = cJSON_CreateObject();
    for (int i = 0; object && i < o->command->option_count; i++) {
        const option *row = &o->command->options[i];
        if (!is_kept(row) || is_absent(row, o->values))
            continue;
        cJSON *value = value_to_json(row, o->values);
        if (!value || !cJSON_AddItemToObject(object, row->name, value)) {
            cJSON_Delete(value);
            cJSON_Delete(object);
            return NULL;
        }
    }
    return object;
}

/* ---- reading ---- */

typedef union any_value {
    bool        on;
    int64_t     integer;
    double      number;
    const char *text;
} any_value;

/* The JSON value into the option's; false when it does not fit. A whole number may be written as 5.0. */
static bool take_json(const option *row, void *at, const cJSON *json)
{
    double number = json->valuedouble;
    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_ON_OFF:
        if (cJSON_IsBool(json))
            *(bool *)at = cJSON_IsTrue(json);
        return cJSON_IsBool(json);
    case OPTION_TEXT: return cJSON_IsString(json) && option_take_text(row, at, json->valuestring);
    case OPTION_TEXTS: return false;
    case OPTION_INTEGER:
    case OPTION_NUMBER: break;
    }
    if (row->word && cJSON_IsString(json))
        return option_take_text(row, at, json->valuestring);
    if (!cJSON_IsNumber(json) || !(number >= row->low && number <= row->high))
        return false;
    if (row->kind == OPTION_NUMBER)
        *(double *)at = number;
    else if (number == floor(number))
        *(int64_t *)at = (int64_t)number;
    else
        return false;
    return true;
}

static bool complain_value(const option *row, const cJSON *json, const char *where)
{
    char        expected[300];
    char       *text = cJSON_PrintUnformatted(json);
    bool        is_switch = row->kind == OPTION_FLAG || row->kind == OPTION_ON_OFF;
    const char *near = row->choices && cJSON_IsString(json) ? did_you_mean(json->valuestring, row->choices) : NULL;
    complain("%s: \"%s\" is %.200s; %s is expected%s%s%s", where, row->name, text ? text : "?",
             is_switch ? "true or false" : option_expected(row, expected, sizeof expected),
             near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    cJSON_free(text);
    return false;
}

static bool complain_name(const command *c, const char *name, const char *where)
{
    const char *names[MOST_KEPT + 1] = {NULL};
    char        list[1200];
    int         count = 0;
    if (option_find(c, name)) {
        complain("%s: \"%s\" cannot be set in a file; give --%s on the command line", where, name, name);
        return false;
    }
    for (int i = 0; i < c->option_count; i++)
        if (is_kept(&c->options[i]))
            names[count++] = c->options[i].name;
    const char *near = did_you_mean(name, names);
    if (near)
        complain("%s: unknown option \"%.100s\"; did you mean \"%s\"?", where, name, near);
    else
        complain("%s: unknown option \"%.100s\"; use %s", where, name, list_text(list, sizeof list, names, "", "and"));
    return false;
}

bool options_from_json(option_values *o, const cJSON *object, const char *where)
{
    const cJSON *json;
    cJSON_ArrayForEach(json, object)
    {
        const option *row = option_find(o->command, json->string);
        if (!row || !is_kept(row))
            return complain_name(o->command, json->string, where);
        if (cJSON_GetObjectItemCaseSensitive(object, json->string) != json) {
            complain("%s: \"%s\" is there twice; leave one of them out", where, json->string);
            return false;
        }
        any_value unused;
        void     *at = option_given(o, row->name) ? (void *)&unused : (char *)o->values + row->offset;
        if (!take_json(row, at, json))
            return complain_value(row, json, where);
    }
    return true;
}

/* ---- a run that goes on ---- */

static bool same_value(const option *row, const void *at, const any_value *stored)
{
    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_ON_OFF: return *(const bool *)at == stored->on;
    case OPTION_INTEGER: return *(const int64_t *)at == stored->integer;
    case OPTION_NUMBER: return *(const double *)at == stored->number;
    case OPTION_TEXTS: return true;
    case OPTION_TEXT: break;
    }
    return !strcmp(*(const char *const *)at, stored->text);
}

/* As one would type it: "--lr 0.1", "--shuffle off". Texts of values are cut. */
static void option_line(const option *row, const void *at, char *out, size_t size)
{
    switch (row->kind) {
    case OPTION_FLAG: snprintf(out, size, "%s--%s", *(const bool *)at ? "" : "no ", row->name); break;
    case OPTION_ON_OFF: snprintf(out, size, "--%s %s", row->name, *(const bool *)at ? "on" : "off"); break;
    case OPTION_TEXT: snprintf(out, size, "--%s %s", row->name, *(const char *const *)at); break;
    case OPTION_INTEGER:
        if (row->word && *(const int64_t *)at == 0)
            snprintf(out, size, "--%s %s", row->name, row->word);
        else
            snprintf(out, size, "--%s %lld", row->name, (long long)*(const int64_t *)at);
        break;
    case OPTION_NUMBER: snprintf(out, size, "--%s %.15g", row->name, *(const double *)at); break;
    case OPTION_TEXTS: snprintf(out, size, "--%s", row->name); break;
    }
}

static bool is_unchanged(const option_values *o, const option *row, const cJSON *json, const char *where)
{
    const void *at = (const char *)o->values + row->offset;
    any_value   stored = {0};
    char        was[300], now[300];
    if (!json) {
        complain("the run was started without --%s; leave it out to continue, or start another run", row->name);
        return false;
    }
    if (!take_json(row, &stored, json))
        return complain_value(row, json, where);
    if (same_value(row, at, &stored))
        return true;
    option_line(row, &stored, was, sizeof was);
    option_line(row, at, now, sizeof now);
    complain("the run was started with %s and cannot go on with %s; leave it out to continue, or start another run",
             was, now);
    return false;
}

bool options_resume(option_values *o, const cJSON *object, const char *where)
{
    for (int i = 0; i < o->command->option_count; i++) {
        const option *row = &o->command->options[i];
        const cJSON  *json = cJSON_GetObjectItemCaseSensitive(object, row->name);
        if (!is_kept(row))
            continue;
        if (!json && row->initial) {
            complain("%s does not say which --%s the training had", where, row->name);
            return false;
        }
        if (option_given(o, row->name) && !(row->flags & OPTION_CHANGES) && !is_unchanged(o, row, json, where))
            return false;
    }
    return options_from_json(o, object, where);
}
