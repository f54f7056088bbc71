/* Markup as a growing text. What comes from files and from the user is escaped wherever it is added. */
#ifndef CLI_REPORT_DRAW_HTML_H
#define CLI_REPORT_DRAW_HTML_H

#include <haul/haul.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct html {
    char  *text; /* ended by a zero once something was added */
    size_t length, room;
    bool   failed; /* memory is exhausted: something is missing, and nothing more is added */
} html;

void html_free(html *h);

/* Add markup as it is. */
void html_put(html *h, const char *markup);

/* Add markup with values: %s is escaped; %d, %lld, %.2f, %.*f, %.3g, %.*g and %% are numbers as printf writes them.
 * Other conversions are not known. */
void html_add(html *h, const char *format, ...) HAUL_PRINTF(2, 3);

/* Add a name from outside, in an element of its own, so that its direction of writing stays within it. A long one may
 * be broken after underscores. */
void html_name(html *h, const char *name);

/* Add an attribute of the form ` src="data:image/png;base64,..."`. */
void html_png(html *h, const unsigned char *bytes, size_t count);

#endif
