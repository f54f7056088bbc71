/* The list of subcommands, and the help texts of the command itself. */
#ifndef CLI_OPTIONS_COMMANDS_H
#define CLI_OPTIONS_COMMANDS_H

#include "cli/options/options.h"

extern const command devices_command, train_command, predict_command, record_command, plan_command, compare_command,
    profile_command, audit_command, report_command, bench_command, top_command, ops_command, inspect_command,
    stats_command, completion_command, manual_command, calibrate_command, what_if_command, run_command, export_command,
    group_command;

extern const command *const commands[];
extern const int            command_count;

/* A term and its explanation, in --help and in the manual. A NULL term ends a list. */
typedef struct help_entry {
    const char *term, *text;
} help_entry;

extern const help_entry exit_codes[];

#endif
