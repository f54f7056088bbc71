/* Rows of options: found by their names, and their values as texts. */
#ifndef CLI_OPTIONS_ROW_H
#define CLI_OPTIONS_ROW_H

#include "cli/options/options.h"

/* The row of that name; NULL if there is none. */
const option *option_find(const command *command, const char *name);

/* The row whose name has these `length` bytes, and the row of a letter; NULL if there is none. */
const option *option_named(const command *command, const char *name, size_t length);
const option *option_of_letter(const command *command, char letter);

/* Put a text into the value at `at`. False, with the value unchanged, when it does not fit. */
bool option_take_text(const option *row, void *at, const char *text);

/* "a whole number from 1 to 256", "sgd, adam or adamw", "on or off": what fits. */
const char *option_expected(const option *row, char *out, size_t size);

/* Whole limits without an exponent. */
const char *limit_text(double limit, char *out, size_t size);

/* True if `choices`, which NULL ends, contains the text, or if `choices` is NULL. */
bool option_is_choice(const char *const *choices, const char *text);

#endif
