/* haul top: what devices and Haul processes do now, as a screen, a text, JSON or metrics. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/options/commands.h"
#include "cli/shared/cli.h"
#include "cli/shared/terminal.h"
#include "cli/top/output.h"
#include "cli/top/screen.h"
#include "files/file.h"

enum { FILE_SECONDS = 5, ONCE_COLUMNS = 120 };

typedef struct top_options {
    const char *prometheus;
    bool        once, json;
} top_options;

/* ---- waiting ---- */

/* False if Ctrl-C came meanwhile. */
static bool sleep_until(double until)
{
    for (double left; !interrupted() && (left = until - clock_seconds()) > 0;) {
        const double          part = left < 0.5 ? left : 0.5;
        const struct timespec t = {.tv_nsec = (long)(part * 1e9)};
        nanosleep(&t, NULL);
    }
    return !interrupted();
}

/* False after a complaint. */
static bool read_all(top_model *m)
{
    if (top_model_read(m))
        return true;
    complain_error();
    return false;
}

/* Utilisation is a difference of two readings. */
static bool read_twice(top_model *m)
{
    return read_all(m) && sleep_until(clock_seconds() + 0.25) && read_all(m);
}

/* ---- the kinds of output ---- */

static void print_line(const top_line *line)
{
    size_t end = line->used;
    while (end && line->text[end - 1] == ' ')
        end--;
    fwrite(line->text, 1, end, stdout);
    putchar('\n');
}

static int print_once(top_model *m, bool utf8)
{
    top_view    v = {.utf8 = utf8, .others = true};
    top_canvas *c = calloc(1, sizeof *c);
    if (!c)
        return complain("memory is exhausted");
    c->utf8 = utf8;
    c->width = isatty(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : ONCE_COLUMNS;
    if (c->width < TOP_LEAST_WIDTH)
        c->width = TOP_LEAST_WIDTH;
    top_view_draw(&v, m, c);
    for (int i = 0; i < c->count; i++)
        print_line(&c->lines[i]);
    free(c);
    return output_works() ? EXIT_OK : EXIT_FAILED;
}

/* An object a second. */
static int print_objects(top_model *m)
{
    for (;;) {
        const double next = clock_seconds() + 1;
        if (!top_print_json(m))
            return EXIT_FAILED;
        if (!sleep_until(next))
            return EXIT_INTERRUPTED;
        if (!read_all(m))
            return EXIT_FAILED;
    }
}

/* Replaces the file as a whole. False after a complaint. */
static bool write_metrics(const top_model *m, const char *path)
{
    size_t     size = 0;
    char      *text = top_metrics(m, &size);
    const bool done = text && !haul__file_write_all(path, "top", text, size);
    if (!text)
        complain("memory is exhausted");
    else if (!done)
        complain_error();
    free(text);
    return done;
}

static void tell_file(const char *path)
{
    if (!isatty(STDERR_FILENO))
        return;
    char shown[4096];
    visible_text(shown, sizeof shown, path);
    fprintf(stderr, "metrics in %s every %d seconds until Ctrl-C\n", shown, FILE_SECONDS);
}

/* Old figures would look like current ones, so the file goes with the program. */
static int write_file(top_model *m, const char *path)
{
    for (bool told = false;; told = true) {
        const double next = clock_seconds() + FILE_SECONDS;
        if (!write_metrics(m, path))
            return EXIT_FAILED;
        if (!told)
            tell_file(path);
        if (!sleep_until(next))
            break;
        if (!read_all(m))
            return EXIT_FAILED;
    }
    if (unlink(path) && errno != ENOENT)
        return complain("%s cannot be removed: %s", path, strerror(errno));
    return EXIT_INTERRUPTED;
}

static int show_screen(top_model *m, bool utf8)
{
    top_view v = {.utf8 = utf8, .interval = 1};
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return complain("standard input or output is not a terminal; use haul top --once");
    if (!terminal_moves(STDOUT_FILENO))
        return complain("this terminal (TERM=%s) cannot move its cursor; use haul top --once",
                        getenv("TERM") ? getenv("TERM") : "");
    return top_screen(m, &v);
}

/* ---- the command ---- */

static int show(top_model *m, const top_options *o)
{
    const bool utf8 = locale_is_utf8();
    top_target target = {.file = NULL};
    if (o->prometheus && !top_target_parse(o->prometheus, &target))
        return EXIT_USAGE;
    if (o->prometheus && o->once && !target.file) {
        complain("--once is for a file; --prometheus %s answers until Ctrl-C", o->prometheus);
        return EXIT_USAGE;
    }
    if (!o->prometheus && !o->once && !o->json)
        return show_screen(m, utf8);
    if (!read_twice(m))
        return interrupted() ? EXIT_INTERRUPTED : EXIT_FAILED;
    if (o->prometheus && !target.file)
        return top_serve(m, &target);
    if (o->prometheus && !o->once)
        return write_file(m, target.file);
    if (o->prometheus)
        return write_metrics(m, target.file) ? EXIT_OK : EXIT_FAILED;
    if (!o->once)
        return print_objects(m);
    return o->json ? top_print_json(m) ? EXIT_OK : EXIT_FAILED : print_once(m, utf8);
}

static int top_main(int argc, char **argv)
{
    top_options   o = {0};
    option_values values;
    int           code = options_parse(&values, &top_command, &o, argc, argv);
    if (code >= 0)
        return code;
    if (o.json && o.prometheus) {
        complain("--json and --prometheus are two formats; give one of them");
        return EXIT_USAGE;
    }
    setlocale(LC_CTYPE, "");
    interrupt_catch();
    signal(SIGPIPE, SIG_DFL); /* output without a reader is not printed any more */
    top_model *m = top_model_new();
    if (!m)
        return EXIT_FAILED;
    code = show(m, &o);
    top_model_free(m);
    return code;
}

static const option top_rows[] = {
    {.group = "Options",
     .name = "once",
     OPTION_FLAG_AT(top_options, once),
     .help = "Print the present state as text and exit"},
    {.group = "Options",
     .name = "json",
     OPTION_FLAG_AT(top_options, json),
     .help = "Print a JSON object with devices and processes each second; with --once one object"},
    {.group = "Options",
     .name = "prometheus",
     OPTION_TEXT_AT(top_options, prometheus),
     .argument = "[ADDRESS:]PORT|FILE",
     .help = "Answer GET /metrics on this port, of 127.0.0.1 unless an address is given; or write the metrics to a "
             "file every five seconds, for the textfile collector of node_exporter; with --once write it once",
     .complete = COMPLETE_FILE},
};

static const help_example top_lines[] = {
    {"haul top", NULL},
    {"haul top --once", NULL},
    {"haul top --once --json | jq '.processes[] | {name, examples_per_second}'", NULL},
    {"haul top --prometheus 9400", NULL},
    {NULL, NULL}};

const command top_command = {
    .name = "top",
    .summary = "Watch devices and Haul processes",
    .usage = "[--once] [--json] [--prometheus [ADDRESS:]PORT|FILE]",
    .description =
        "Shows the CPU and the GPUs of the machine (utilisation, memory, temperature, power, clock, traffic on "
        "their links) and the Haul processes of this user: those of haul train, and programs that call "
        "haul_publish_begin. Keys: arrows select, s sorts, / filters, p pauses, h shows history, c each core, "
        "t other processes, ? help, q quits. A dash means that the value is unknown; an exclamation mark, that "
        "it needs attention. Sizes are powers of 1024.",
    .options = top_rows,
    .option_count = sizeof top_rows / sizeof *top_rows,
    .examples = top_lines,
    .run = top_main,
};
