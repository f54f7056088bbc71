/* Complaints: one line on standard error, which a terminal gets wrapped. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/progress.h"
#include "cli/shared/terminal.h"

static const char *complainer = "";
static char       *caught; /* NULL: complaints are printed */
static size_t      caught_size;

void complain_as(const char *subcommand)
{
    complainer = subcommand;
}

void complain_into(char *out, size_t size)
{
    caught = out;
    caught_size = size;
    if (out)
        *out = 0;
}

/* Prints one line: control characters in quoted texts are escaped. */
__attribute__((format(printf, 2, 0))) static void print_complaint(const char *before, const char *format,
                                                                  va_list arguments)
{
    char text[4096], shown[8192];
    vsnprintf(text, sizeof text, format, arguments);
    visible_text(shown, sizeof shown, text);
    if (caught) {
        if (!*caught)
            snprintf(caught, caught_size, "%s", shown);
        return;
    }
    complain_wrapped(before, shown);
}

int complain(const char *format, ...)
{
    char    before[64];
    va_list arguments;
    snprintf(before, sizeof before, *complainer ? "haul %s: " : "haul%s: ", complainer);
    progress_clear();
    fflush(stdout);
    va_start(arguments, format);
    print_complaint(before, format, arguments);
    va_end(arguments);
    return EXIT_FAILED;
}

void complain_more(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_complaint("  ", format, arguments);
    va_end(arguments);
}

const char *error_text(void)
{
    const char *message = haul_error_message(), *operation = haul_error_operation();
    size_t      length = strlen(operation);
    /* The function's name says nothing to who typed a command. */
    if (length && !strncmp(message, operation, length) && !strncmp(message + length, ": ", 2))
        message += length + 2;
    return *message ? message : "failed, but the library recorded no error";
}

int complain_error(void)
{
    return complain("%s", error_text());
}

/* Text that could not be written stays in the buffer, so that the last attempt finds the cause. */
bool output_works(void)
{
    static bool failed;
    if (!failed && (fflush(stdout) || ferror(stdout))) {
        int why = errno;
        failed = true;
        complain("standard output could not be written: %s", strerror(why));
    }
    return !failed;
}
