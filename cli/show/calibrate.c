/* haul calibrate: measures this computer for plans. */
#include "base/alloc.h"
#include "cli/options/commands.h"
#include "cli/shared/cli.h"
#include "cli/show/machine_text.h"
#include "plan/here.h"

typedef struct calibrate_options {
    bool json;
} calibrate_options;

static const option calibrate_rows[] = {{.group = "Options",
                                         .name = "json",
                                         OPTION_FLAG_AT(calibrate_options, json),
                                         .help = "Print the machine as JSON, which --machine reads from a file"}};

static void warn_of_one_left_out(const char *device, const char *why)
{
    complain("%s is left out: %s", device, why);
}

static int calibrate_main(int argc, char **argv)
{
    calibrate_options o = {0};
    option_values     values;
    haul__machine    *m = NULL;
    int               code = options_parse(&values, &calibrate_command, &o, argc, argv);
    if (code >= 0)
        return code;
    if (haul__machine_of_all("haul calibrate", HAUL__HERE_ANEW, warn_of_one_left_out, &m))
        return complain_error();
    bool printed = true;
    if (o.json)
        printed = print_machine_json(m) && putchar('\n') != EOF;
    else
        print_machine(m);
    haul__free(m);
    return printed ? EXIT_OK : EXIT_FAILED;
}

static const help_example calibrate_lines[] = {
    {"haul calibrate", NULL}, {"haul calibrate --json > here.json", NULL}, {NULL, NULL}};

const command calibrate_command = {
    .name = "calibrate",
    .summary = "Measure how fast this computer's devices and links are",
    .usage = "[--json]",
    .description = "Measures each device for a few seconds: operations of each class, in a few sizes and dtypes, and "
                   "copies over the link. The computer should be idle. The result is kept in the user's cache folder "
                   "until hardware, driver or number of threads change. Predictions read it; without it they measure "
                   "first. haul devices --machines lists it.",
    .options = calibrate_rows,
    .option_count = sizeof calibrate_rows / sizeof *calibrate_rows,
    .examples = calibrate_lines,
    .run = calibrate_main,
};
