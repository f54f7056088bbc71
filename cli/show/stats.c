/* haul stats: every statistic of the library, with its unit and what it counts. */
#include <string.h>

#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"

typedef struct stats_options {
    bool list, json;
} stats_options;

static const option stats_rows[] = {
    {.group = "Options",
     .name = "list",
     OPTION_FLAG_AT(stats_options, list),
     .help = "List them, which is the default"},
    {.group = "Options", .name = "json", OPTION_FLAG_AT(stats_options, json), .help = "Print one JSON array instead"}};

/* ---- the table ---- */

static int wider(int width, const char *text)
{
    return (int)strlen(text) > width ? (int)strlen(text) : width;
}

static void print_row(int name_width, int unit_width, const char *name, const char *unit, const char *description)
{
    enum { LEAST = 20, INDENT = 4 };
    const int indent = name_width + unit_width + 4;
    if (output_room() < indent + LEAST) { /* a narrow terminal: two lines or more */
        char text[200];
        snprintf(text, sizeof text, "%s, %s", name, unit);
        print_wrapped(text, 0, INDENT);
        printf("%*s", INDENT, "");
        print_wrapped(description, INDENT, INDENT);
        return;
    }
    printf("%-*s  %-*s  ", name_width, name, unit_width, unit);
    print_wrapped(description, indent, indent);
}

static bool print_table(void)
{
    haul_stat_info s;
    int            name = (int)strlen("statistic"), unit = (int)strlen("unit");
    for (int i = 0; i < haul_stat_count(); i++) {
        if (haul_stat_describe(i, &s))
            return false;
        name = wider(name, s.name);
        unit = wider(unit, s.unit);
    }
    set_style(STYLE_DIM);
    print_row(name, unit, "statistic", "unit", "what it counts");
    set_style(STYLE_PLAIN);
    for (int i = 0; i < haul_stat_count(); i++)
        if (!haul_stat_describe(i, &s))
            print_row(name, unit, s.name, s.unit, s.description);
    return true;
}

/* ---- the array ---- */

static bool print_json(void)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < haul_stat_count(); i++) {
        haul_stat_info s;
        cJSON         *object = cJSON_CreateObject();
        if (!haul_stat_describe(i, &s)) {
            json_text(object, "name", s.name);
            json_text(object, "unit", s.unit);
            json_text(object, "description", s.description);
            json_bool(object, "per_device", s.per_device);
            json_bool(object, "per_thread", s.per_thread);
        }
        json_push(list, object);
    }
    return json_print(list);
}

/* ---- the command ---- */

static int stats_main(int argc, char **argv)
{
    stats_options o = {0};
    option_values values;
    int           code = options_parse(&values, &stats_command, &o, argc, argv);
    if (code >= 0)
        return code;
    if (o.json)
        return print_json() ? EXIT_OK : EXIT_FAILED;
    return print_table() ? EXIT_OK : complain_error();
}

static const help_example stats_lines[] = {{"haul stats --list", NULL}, {"haul stats --json", NULL}, {NULL, NULL}};

const command stats_command = {
    .name = "stats",
    .summary = "List the statistics that the library keeps",
    .usage = "[--list] [--json]",
    .description = "Lists every statistic that the library keeps: its name, its unit, and what it counts. A program "
                   "reads them with haul_stat_get; in a name, <device> stands for the name of a device, as in "
                   "memory.cpu.peak.",
    .options = stats_rows,
    .option_count = sizeof stats_rows / sizeof *stats_rows,
    .examples = stats_lines,
    .run = stats_main,
};
