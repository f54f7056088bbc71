/* Complaints: one line on standard error, which a terminal gets wrapped. */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include "cli/shared/cli.h"
#include "cli/shared/progress.h"
#include "cli/shared/terminal.h"
#include "group/local/rank.h"

enum { NOBODY = -1 };

static const char          *complainer = "";
static _Thread_local char  *caught; /* NULL: complaints are printed */
static _Thread_local size_t caught_size;

/* Ranks that are threads. */
static atomic_int heard = NOBODY;
/* The rank that the thread is, and its device. */
static _Thread_local int  rank = NOBODY;
static _Thread_local char rank_device[64];

void complain_as(const char *subcommand)
{
    complainer = subcommand;
}

void complain_as_rank(int number, const char *device)
{
    rank = number;
    snprintf(rank_device, sizeof rank_device, "%s", device);
}

int complain_heard(void)
{
    return heard;
}

/* All ranks fail where one does, so one of them is enough. A failure of another rank is for that one to explain. */
static bool is_heard(void)
{
    int nobody = NOBODY;
    if (rank == NOBODY)
        return true;
    if (!haul__rank_has_heard())
        atomic_compare_exchange_strong(&heard, &nobody, rank);
    return heard == rank;
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
    if (!is_heard())
        return;
    progress_hold();
    fflush(stdout);
    complain_wrapped(before, shown);
    progress_go_on();
}

int complain(const char *format, ...)
{
    char    before[160];
    va_list arguments;
    snprintf(before, sizeof before, *complainer ? "haul %s: " : "haul%s: ", complainer);
    if (*rank_device)
        snprintf(before + strlen(before), sizeof before - strlen(before), "rank %d (%s): ", rank, rank_device);
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
    static atomic_bool failed;
    if (!failed && (fflush(stdout) || ferror(stdout))) {
        int why = errno;
        if (!atomic_exchange(&failed, true))
            complain("standard output could not be written: %s", strerror(why));
    }
    return !failed;
}
