/* The command `haul`: finds the subcommand and hands over. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const command commands[] = {
    {"devices", "list the devices of this machine, and why something was not used", devices_main},
    {"train", "train a network and watch it learn", train_main},
    {"predict", "run a trained network on data, or trace one example through it", predict_main},
    {"ops", "list the operations of the library, and what each takes and gives", ops_main},
    {"inspect", "show what is in a safetensors, npy or checkpoint file", inspect_main},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_help(FILE *to)
{
    fprintf(to, "usage: haul COMMAND [OPTION...]\n\n"
                "Tensors on CPUs and GPUs: trains networks and shows where every byte went.\n\ncommands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  %-10s%s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\noptions:\n"
                "  --help    this text; haul COMMAND --help explains a command\n"
                "  --version the version, and what it was built with\n\n"
                "exit status:\n"
                "  0    success\n"
                "  1    failure: one line on standard error names the cause\n"
                "  2    the command line was not understood\n"
                "  3    the training diverged: its loss is not finite\n"
                "  130  interrupted: with --run the training is saved\n\n"
                "Begin with: haul train --data shapes\n");
}

static int unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT + 1] = {NULL};

    for (int i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    const char *near = did_you_mean(name, names);
    if (near)
        complain("there is no command '%s'; did you mean '%s'?", name, near);
    else
        complain("there is no command '%s' (haul --help lists them)", name);
    return EXIT_USAGE;
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
    if (!strcmp(name, "--version")) {
        printf("haul %s (%s)\n", haul_version(), haul_build_features());
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
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i].name, name)) {
            complain_as(name);
            return commands[i].run(argc, argv);
        }
    return unknown_command(name);
}

/* Files that are opened later must not get the number of a standard stream that is closed: what is printed would land
 * in them. False where one is missing that cannot do without. */
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
    signal(SIGXFSZ, SIG_IGN);         /* a file that may not grow is a failed write, told as any other */
    int code = run(argc, argv);
    return output_works() || code ? code : EXIT_FAILED;
}
