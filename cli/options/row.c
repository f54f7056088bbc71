/* Rows of options: found by their names, and their values as texts. */
#include "cli/options/row.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"

const option *option_named(const command *c, const char *name, size_t length)
{
    for (int i = 0; i < c->option_count; i++)
        if (strlen(c->options[i].name) == length && !memcmp(c->options[i].name, name, length))
            return &c->options[i];
    return NULL;
}

const option *option_find(const command *c, const char *name)
{
    return option_named(c, name, strlen(name));
}

const option *option_of_letter(const command *c, char letter)
{
    for (int i = 0; i < c->option_count; i++)
        if (letter && c->options[i].letter == letter)
            return &c->options[i];
    return NULL;
}

/* Whole numbers without an exponent: limits are at most 2^53. */
const char *limit_text(double limit, char *out, size_t size)
{
    snprintf(out, size, limit == floor(limit) ? "%.0f" : "%.15g", limit);
    return out;
}

static const char *range_text(const option *row, const char *noun, char *out, size_t size)
{
    char low[32], high[32];
    snprintf(out, size, "%s from %s to %s", noun, limit_text(row->low, low, sizeof low),
             limit_text(row->high, high, sizeof high));
    return out;
}

const char *option_expected(const option *row, char *out, size_t size)
{
    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_ON_OFF: snprintf(out, size, "on or off"); break;
    case OPTION_INTEGER:
        range_text(row, "a whole number", out, size);
        if (row->word)
            snprintf(out + strlen(out), size - strlen(out), ", or %s", row->word);
        break;
    case OPTION_NUMBER: return range_text(row, "a number", out, size);
    case OPTION_TEXTS: snprintf(out, size, "a text that is not empty, at most %d times", MOST_TEXTS); break;
    case OPTION_TEXT:
        if (row->choices)
            return list_text(out, size, row->choices, "", "or");
        snprintf(out, size, "a text that is not empty");
        break;
    }
    return out;
}

/* "local:" is the beginning of a longer text. */
static bool is_choice(const char *choice, const char *text)
{
    const size_t length = strlen(choice);
    const bool   begins = length && choice[length - 1] == ':';
    return begins ? !strncmp(choice, text, length) && text[length] : !strcmp(choice, text);
}

bool option_is_choice(const char *const *choices, const char *text)
{
    for (; choices && *choices; choices++)
        if (is_choice(*choices, text))
            return true;
    return !choices;
}

/* Digits, with a sign, a point and an exponent at most: strtod takes spaces, hexadecimal numbers and words as well. */
static bool is_decimal(const char *text)
{
    return *text && strspn(text, "0123456789+-.eE") == strlen(text) && *text != '+' && *text != 'e' && *text != 'E';
}

static bool take_integer(const option *row, int64_t *value, const char *text)
{
    char *end;
    if (row->word && !strcmp(text, row->word)) {
        *value = 0;
        return true;
    }
    errno = 0;
    long long integer = strtoll(text, &end, 10);
    if (!is_decimal(text) || *end || errno || integer < (int64_t)row->low || integer > (int64_t)row->high)
        return false;
    *value = integer;
    return true;
}

static bool take_number(const option *row, double *value, const char *text)
{
    char  *end;
    double number = strtod(text, &end);
    if (!is_decimal(text) || *end || !(number >= row->low && number <= row->high))
        return false;
    *value = number;
    return true;
}

static bool take_one_more(option_texts *texts, const char *text)
{
    if (!*text || texts->count == MOST_TEXTS)
        return false;
    texts->items[texts->count++] = text;
    return true;
}

bool option_take_text(const option *row, void *at, const char *text)
{
    bool on = !strcmp(text, "on");
    switch (row->kind) {
    case OPTION_FLAG:
    case OPTION_ON_OFF:
        if (!on && strcmp(text, "off") != 0)
            return false;
        *(bool *)at = on;
        return true;
    case OPTION_TEXT:
        if (!*text || !option_is_choice(row->choices, text))
            return false;
        *(const char **)at = text;
        return true;
    case OPTION_INTEGER: return take_integer(row, at, text);
    case OPTION_NUMBER: return take_number(row, at, text);
    case OPTION_TEXTS: return take_one_more(at, text);
    }
    return false;
}
