#include "cli/shared/terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/shared/cli.h"

/* Looking at a terminal keeps errno, which may say why a text before was not written. */
int terminal_width(int descriptor)
{
    struct winsize size;
    const int      before = errno;
    const int      columns = ioctl(descriptor, TIOCGWINSZ, &size) || size.ws_col < 1 ? 80 : size.ws_col;
    errno = before;
    return columns;
}

static bool forwards;

void terminal_forwards(void)
{
    forwards = true;
}

static bool is_terminal(int descriptor)
{
    const int  before = errno;
    const bool is = isatty(descriptor) && !(forwards && descriptor == STDOUT_FILENO);
    errno = before;
    return is;
}

bool terminal_moves(int descriptor)
{
    const char *terminal = getenv("TERM");
    return is_terminal(descriptor) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

bool locale_is_utf8(void)
{
    const locale_t users = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (!users)
        return false;
    const bool utf8 = !strcmp(nl_langinfo_l(CODESET, users), "UTF-8");
    freelocale(users);
    return utf8;
}

bool terminal_shows_utf8(int descriptor)
{
    return terminal_moves(descriptor) && locale_is_utf8();
}

int output_room(void)
{
    return is_terminal(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : INT_MAX / 2;
}

int columns_that_fit(int label, int column)
{
    const int fitting = (output_room() - label) / column;
    return fitting > 0 ? fitting : 1;
}

/* ---- styles ---- */

const char *style_code(int descriptor, text_style style)
{
    static const char *const codes[] = {
        [STYLE_PLAIN] = "\033[0m", [STYLE_BOLD] = "\033[1m",  [STYLE_DIM] = "\033[2m",   [STYLE_GOOD] = "\033[32m",
        [STYLE_BAD] = "\033[31m",  [STYLE_LINE] = "\033[36m", [STYLE_MARK] = "\033[35m",
    };
    const char *none = getenv("NO_COLOR");
    return (none && *none) || !terminal_moves(descriptor) ? "" : codes[style];
}

void set_style(text_style style)
{
    fputs(style_code(STDOUT_FILENO, style), stdout);
}

/* ---- texts in columns ---- */

static size_t character_bytes(const char *text)
{
    uint32_t code;
    return character_at(text, &code);
}

/* Columns of the character at `text`, as print_visible shows it. */
static int character_columns(const char *text)
{
    uint32_t code;
    if (!obeyed_length(text, &code) && code != UINT32_MAX)
        return 1;
    return strchr("\n\r\t", *text) ? 2 : code < 0x80 || code == UINT32_MAX ? 4 : 6;
}

static int columns_of(const char *text, size_t size)
{
    int columns = 0;
    for (size_t at = 0; at < size; at += character_bytes(text + at))
        columns += character_columns(text + at);
    return columns;
}

int text_columns(const char *text)
{
    return columns_of(text, strlen(text));
}

/* The first `size` bytes of the text, which end a character. */
static void print_bytes(FILE *out, const char *text, size_t size)
{
    while (size) {
        char   part[256];
        size_t bytes = 0, next;
        while (bytes < size && bytes + (next = character_bytes(text + bytes)) < sizeof part)
            bytes += next;
        memcpy(part, text, bytes);
        part[bytes] = 0;
        fput_visible(out, part);
        text += bytes;
        size -= bytes;
    }
}

/* The bytes of the next word, with a sign of per cent after it. One that is wider than `room` columns ends after a
 * comma or a hyphen, if there is one. */
static size_t word_bytes(const char *text, int room)
{
    size_t word = strcspn(text, " "), piece = 0;
    int    columns = 0;
    if (!strncmp(text + word, " %", 2))
        word += 2 + strcspn(text + word + 2, " ");
    for (size_t at = 0; at < word; at += character_bytes(text + at)) {
        columns += character_columns(text + at);
        if (columns > room)
            return piece ? piece : word;
        if (text[at] == ',' || text[at] == '-')
            piece = at + 1;
    }
    return word;
}

static void wrap(FILE *out, int room, const char *text, int column, int indent)
{
    int  least = 10;                               /* where so little is left, lines are longer than the room */
    bool fresh = column <= indent, spaced = false; /* the line is empty; a space comes before the word */
    if (room < indent + least)
        room = indent + least;
    while (*text) {
        size_t size = word_bytes(text, room - indent);
        int    wide = columns_of(text, size);
        if (!fresh && column + spaced + wide > room) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            fresh = true;
        }
        if (!fresh && spaced)
            putc(' ', out);
        print_bytes(out, text, size);
        column += wide + (!fresh && spaced);
        fresh = false;
        text += size;
        spaced = *text == ' ';
        text += strspn(text, " ");
    }
    putc('\n', out);
}

void print_wrapped(const char *text, int column, int indent)
{
    wrap(stdout, output_room(), text, column, indent);
}

void print_labelled(int margin, int indent, const char *name, const char *text)
{
    printf("%*s%-*s", margin, "", indent - margin, name);
    print_wrapped(text, indent, indent);
}

void vprint_labelled(int margin, int indent, const char *name, const char *format, va_list arguments)
{
    char text[900];
    vsnprintf(text, sizeof text, format, arguments);
    print_labelled(margin, indent, name, text);
}

void print_labelled_format(const char *name, const char *format, ...)
{
    enum { COLUMN = 11 };
    va_list arguments;
    va_start(arguments, format);
    vprint_labelled(0, COLUMN, name, format, arguments);
    va_end(arguments);
}

void complain_wrapped(const char *before, const char *text)
{
    enum { INDENT = 2 };
    fputs(before, stderr);
    if (is_terminal(STDERR_FILENO))
        wrap(stderr, terminal_width(STDERR_FILENO), text, text_columns(before), INDENT);
    else
        fprintf(stderr, "%s\n", text);
}

/* The bytes of the first `columns` characters. */
static size_t bytes_of(const char *text, int columns)
{
    size_t bytes = 0;
    while (columns-- > 0 && text[bytes])
        bytes += character_bytes(text + bytes);
    return bytes;
}

void print_fitted(const char *text, int width)
{
    int columns = text_columns(text), tail = (width - 2) / 2;
    if (columns <= width) {
        print_visible(text, width);
    } else if (width < 6) {
        print_bytes(stdout, text, bytes_of(text, width));
    } else {
        print_bytes(stdout, text, bytes_of(text, width - 2 - tail));
        printf("..");
        print_visible(text + bytes_of(text, columns - tail), 0);
    }
}
