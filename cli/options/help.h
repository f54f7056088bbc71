/* What --help prints, and the parts of it that the manual shares. */
#ifndef CLI_OPTIONS_HELP_H
#define CLI_OPTIONS_HELP_H

#include <stdio.h>

#include "cli/options/options.h"

/* The help of one subcommand. */
void help_print(const command *c);

/* Text in lines of 79 columns, or of as many as a narrower terminal has, from the given column on; the second and later
 * lines are indented. */
void help_wrapped(FILE *to, const char *text, int column, int indent);

/* A row's help with what fits and its default: "Learning rate (1e-12 to 1000000; default 0.01)". */
const char *help_text(const option *row, char *out, size_t size);

/* "-q, --quiet", "--lr X". */
const char *help_form(const option *row, char *out, size_t size);

#endif
