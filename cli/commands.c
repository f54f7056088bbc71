#include "cli/options/commands.h"

const command *const commands[] = {
    &devices_command, &train_command,      &predict_command, &record_command, &plan_command,   &what_if_command,
    &compare_command, &profile_command,    &audit_command,   &report_command, &bench_command,  &calibrate_command,
    &top_command,     &ops_command,        &inspect_command, &run_command,    &export_command, &stats_command,
    &group_command,   &completion_command, &manual_command};
const int command_count = sizeof commands / sizeof *commands;

const help_entry exit_codes[] = {{"0", "Success."},
                                 {"1", "Failure. One line on standard error names the cause."},
                                 {"2", "The command line is wrong."},
                                 {"3", "The training diverged: its loss is not finite."},
                                 {"4", "The training does not fit in the device's memory, or in --memory-limit."},
                                 {"130", "Interrupted. With --run, the run is saved."},
                                 {NULL, NULL}};
