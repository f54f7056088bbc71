/* The terminal: its width, whether it can move its cursor, and styles of text. */
#ifndef CLI_SHARED_TERMINAL_H
#define CLI_SHARED_TERMINAL_H

#include <haul/base.h>
#include <stdarg.h>
#include <stdbool.h>

/* Standard output counts as a file from here on: launchers of several processes give each a terminal, and forward the
 * text to where their own output goes. */
void terminal_forwards(void);

/* Columns of the terminal that the descriptor is, asked anew at each call; 80 if it is none. */
int terminal_width(int descriptor);

/* True if the descriptor is a terminal that can move its cursor. */
bool terminal_moves(int descriptor);

/* The columns of standard output. If it is not a terminal, they are so many that nothing is wrapped or cut. */
int output_room(void);

/* How many columns of a table fit after a label, at least one. */
int columns_that_fit(int label, int column);

/* True if the descriptor is a terminal that can move its cursor, and the locale of the user is one of UTF-8. */
bool terminal_shows_utf8(int descriptor);

/* True if the locale of the user is one of UTF-8. */
bool locale_is_utf8(void);

/* Styles only repeat what the text says, and look well on light and on dark backgrounds. */
typedef enum text_style {
    STYLE_PLAIN,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_GOOD,
    STYLE_BAD,
    STYLE_LINE, /* the line of a chart */
    STYLE_MARK  /* its marks */
} text_style;

/* The escape sequence that begins the style on the descriptor; "" unless that is a terminal with colours and NO_COLOR
 * is unset or empty. */
const char *style_code(int descriptor, text_style style);

/* Begin a style on standard output; STYLE_PLAIN ends it. */
void set_style(text_style style);

/* Columns that a text takes, once shown by print_visible. */
int text_columns(const char *text);

/* Print a text, as print_visible does, from the given column on, and end the line. Words that do not fit go to further
 * lines, which begin at `indent`. */
void print_wrapped(const char *text, int column, int indent);
/* A name behind a margin, and a text that begins in the column `indent`, where its other lines begin, too. */
void print_labelled(int margin, int indent, const char *name, const char *text);
/* The same of a format. */
void vprint_labelled(int margin, int indent, const char *name, const char *format, va_list arguments);
/* The same without a margin, for names of at most 10 letters. */
void print_labelled_format(const char *name, const char *format, ...) HAUL_PRINTF(2, 3);

/* A line on standard error, of two texts that hold nothing a terminal obeys. A terminal gets the second one wrapped. */
void complain_wrapped(const char *before, const char *text);

/* Print a text in exactly `width` columns: padded, or with ".." in place of its middle. */
void print_fitted(const char *text, int width);

#endif
