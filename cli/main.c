/* The command `haul`: finds the subcommand and hands over. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/options/commands.h"
#include "cli/options/help.h"
#include "cli/shared/cli.h"
#include "cli/shared/commit.h"

static void print_row(FILE *to, int width, const char *name, const char *text)
{
    fprintf(to, "  %-*s", width, name);
    help_wrapped(to, text, 2 + width, 2 + width);
}

static void print_help(FILE *to)
{
    enum { COMMAND = 12, OPTION = 15, CODE = 5 }; /* columns of names */
    fprintf(to, "usage: haul COMMAND [OPTION...]\n\n");
    help_wrapped(to, "Trains networks on CPUs and GPUs, and shows where every byte went.", 0, 0);
    fprintf(to, "\nCommands:\n");
    for (int i = 0; i < command_count; i++)
        print_row(to, COMMAND, commands[i]->name, commands[i]->summary);
    fprintf(to, "\nOptions:\n");
    print_row(to, OPTION, "-h, --help", "Show this help; haul COMMAND --help explains a command");
    print_row(to, OPTION, "-V, --version", "Show the version, its commit, and what it was built with");
    fprintf(to, "\nExit status:\n");
    for (const help_entry *e = exit_codes; e->term; e++)
        print_row(to, CODE, e->term, e->text);
    fprintf(to, "\nTo begin: haul train --data shapes\n");
}

static int unknown_command(const char *name)
{
    enum { MOST = 31 };
    const char *names[MOST + 1] = {NULL};
    for (int i = 0; i < command_count && i < MOST; i++)
        names[i] = commands[i]->name;
    const char *near = did_you_mean(name, names);
    if (near)
        complain("unknown command '%s'; did you mean '%s'? (haul --help lists all commands)", name, near);
    else
        complain("unknown command '%s' (haul --help lists all commands)", name);
    return EXIT_USAGE;
}

static void print_version(void)
{
    const char *commit = build_commit();
    printf("haul %s%s%s (%s)\n", haul_version(), *commit ? ", commit " : "", commit, haul_build_features());
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || (!strcmp(name, "help") && argc == 2)) {
        print_help(stdout);
        return EXIT_OK;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V") || !strcmp(name, "-v") || !strcmp(name, "version")) {
        print_version();
        return EXIT_OK;
    }
    char *help[] = {argc > 2 ? argv[2] : NULL, (char[]){"--help"}, NULL};
    if (!strcmp(name, "help")) { /* haul help train */
        name = help[0];
        argv = help;
        argc = 2;
    } else {
        argv++;
        argc--;
    }
    for (int i = 0; i < command_count; i++)
        if (!strcmp(commands[i]->name, name)) {
            complain_as(name);
            return commands[i]->run(argc, argv);
        }
    return unknown_command(name);
}

/* Files that are opened later must not get the number of a standard stream that is closed: output would land in them.
 * False where one is missing that cannot do without. */
static bool check_streams(void)
{
    bool has_output = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    if (!has_output)
        complain("standard output is closed; redirect it to /dev/null if you do not want it");
    return has_output;
}

int main(int argc, char **argv)
{
    if (!check_streams())
        return EXIT_FAILED;
    setvbuf(stdout, NULL, _IOLBF, 0); /* whoever reads a pipe sees lines as they come */
    signal(SIGXFSZ, SIG_IGN);         /* a file that may not grow is a failed write, reported as any other */
    int code = run(argc, argv);
    return output_works() || code ? code : EXIT_FAILED;
}
