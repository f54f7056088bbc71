/* haul profile: the tables of a profiled run, alone or next to those of another run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/profile/profile_table.h"
#include "cli/run_folder/document.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"

typedef struct profile_options {
    const char *run, *against;
    bool        json;
} profile_options;

/* ---- text ---- */

static const char *bytes_text(double bytes)
{
    return bytes > 0 ? text_bytes(whole_number(bytes)) : "0";
}

/* A warm-up would hide in a mean what the other steps take. */
static void print_step_time(const cJSON *profile)
{
    const double warm_ups = document_number(profile, "warm_ups");
    printf("%s each\n", text_seconds(document_number(profile, warm_ups > 0 ? "steady_ms" : "step_ms") / 1e3));
    if (warm_ups > 0) {
        char text[128];
        snprintf(text, sizeof text, "without the warm-up of %.0f step%s, in which the program and the device got ready",
                 warm_ups, warm_ups == 1 ? "" : "s");
        printf("  ");
        print_wrapped(text, 2, 2);
    }
}

static void print_phases(const cJSON *profile)
{
    const cJSON *phase;
    const double wall = document_number(profile, "wall_ms"), steps = document_number(profile, "steps");
    const double each = steps > 0 ? wall / steps / 1e3 : 0;
    printf("%.0f step%s in %s: ", steps, steps == 1 ? "" : "s", text_seconds(wall / 1e3));
    print_step_time(profile);
    cJSON_ArrayForEach(phase, document_list(profile, "phases"))
    {
        const double ms = document_number(phase, "ms");
        printf("  ");
        print_fitted(document_text(phase, "name"), 10);
        printf(" %5.1f %%  %s a step\n", wall > 0 ? 100 * ms / wall : 0,
               text_seconds_like(steps > 0 ? ms / steps / 1e3 : 0, each));
    }
}

static void print_memory(const cJSON *profile)
{
    const cJSON *memory;
    cJSON_ArrayForEach(memory, document_list(profile, "memory"))
    {
        char name[64], text[128];
        visible_text(name, sizeof name, document_text(memory, "device"));
        snprintf(text, sizeof text, "%s at the peak on %s", bytes_text(document_number(memory, "peak_bytes")), name);
        printf("  memory     ");
        print_wrapped(text, 13, 13);
    }
}

/* Profiles of older versions do not say. */
static void print_energy(const cJSON *profile)
{
    const cJSON *joules = cJSON_GetObjectItemCaseSensitive(profile, "step_joules");
    if (cJSON_IsNumber(joules))
        printf("  energy     %s a step, %.3g W in the mean\n", text_joules(joules->valuedouble),
               1e3 * joules->valuedouble / document_number(profile, "step_ms"));
    else if (cJSON_IsNull(joules)) {
        printf("  energy     ");
        print_wrapped("no counters here that can be read", 13, 13);
    }
}

static void print_profile(const cJSON *profile, const cJSON *against)
{
    print_phases(profile);
    print_energy(profile);
    print_memory(profile);
    for (int i = 0; i < PROFILE_TABLES; i++) {
        putchar('\n');
        profile_table_print(&profile_tables[i], profile, against);
    }
}

/* ---- JSON ---- */

/* Each row of the tables gets the time that the other run took a step: null where it lacks the row. */
static void add_others(cJSON *profile, const cJSON *against)
{
    for (int i = 0; i < PROFILE_TABLES; i++) {
        const cJSON *rows = document_list(profile, profile_tables[i].name);
        for (cJSON *row = rows ? rows->child : NULL; row; row = row->next) {
            const cJSON *other = profile_table_find(&profile_tables[i], against, row);
            json_number(row, "step_ms", profile_table_ms(&profile_tables[i], profile, row));
            json_number(row, "against_step_ms",
                        other ? profile_table_ms(&profile_tables[i], against, other) : (double)NAN);
        }
    }
    json_number(profile, "against_step_ms", document_number(against, "step_ms"));
}

/* ---- the command ---- */

static const option profile_rows[] = {{.group = "Options",
                                       .name = "against",
                                       OPTION_TEXT_AT(profile_options, against),
                                       .argument = "RUN",
                                       .help = "Show what each row took in a step of this run as well",
                                       .complete = COMPLETE_FOLDER},
                                      {.group = "Options",
                                       .name = "json",
                                       OPTION_FLAG_AT(profile_options, json),
                                       .help = "Print one JSON object instead"}};

static int show(const profile_options *o, cJSON *profile, const cJSON *against)
{
    if (!o->json) {
        print_profile(profile, against);
        cJSON_Delete(profile);
        return EXIT_OK;
    }
    if (against)
        add_others(profile, against);
    return json_print(profile) ? EXIT_OK : EXIT_FAILED;
}

static int profile_main(int argc, char **argv)
{
    static const char maker[] = "haul train --profile 20 --run DIR, or haul_profile_save in a program,";
    profile_options   o = {0};
    option_values     values;
    int               code = options_parse(&values, &profile_command, &o, argc, argv);
    if (code >= 0)
        return code;
    cJSON *profile = run_document(o.run, "profile.json", false, maker);
    cJSON *against = profile && o.against ? run_document(o.against, "profile.json", false, maker) : NULL;
    if (profile && (against || !o.against))
        code = show(&o, profile, against);
    else
        cJSON_Delete(profile);
    cJSON_Delete(against);
    return code < 0 ? EXIT_FAILED : code;
}

static const help_example profile_lines[] = {{"haul train --profile 20 --run runs/first", NULL},
                                             {"haul profile runs/first", NULL},
                                             {"haul profile runs/second --against runs/first", NULL},
                                             {NULL, NULL}};

const command profile_command = {
    .name = "profile",
    .summary = "Show where the time of a profiled run went",
    .usage = "[--against RUN] [--json] RUN",
    .description =
        "Shows the tables of a profile: phases of a step, operations, modules and kernels, their time, share "
        "of the step, throughput and bottleneck. The run needs a profile: haul train "
        "--profile, or haul_profile_save in a program. Its folder also has trace.json, which ui.perfetto.dev shows as "
        "a timeline.",
    .options = profile_rows,
    .option_count = sizeof profile_rows / sizeof *profile_rows,
    .operand = {.name = "RUN",
                .help = "The folder of the run",
                .offset = offsetof(profile_options, run),
                .required = true,
                .complete = COMPLETE_FOLDER},
    .examples = profile_lines,
    .run = profile_main,
};
