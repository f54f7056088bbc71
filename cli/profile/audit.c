/* haul audit: what the audit of a profiled run found, and what each finding costs. */
#include <math.h>
#include <string.h>

#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/run_folder/document.h"
#include "cli/run_folder/finding.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/terminal.h"

typedef struct audit_options {
    const char *run;
    bool        json;
} audit_options;

static const char maker[] = "haul train --profile 20 --run DIR, or haul_profile_save in a program,";

/* ---- text ---- */

static double total_of(const cJSON *audit)
{
    const cJSON *finding;
    double       ms = 0;
    cJSON_ArrayForEach(finding, audit) ms += finding_is_warm_up(finding) ? 0 : document_number(finding, "ms_per_step");
    return ms;
}

/* A finding as a line, with the place on the right side of the cost, which has the unit of like_ms unless it is more:
 * compilation before the steps may take a thousand times as long. */
static void print_head(const cJSON *finding, const cJSON *profile, double like_ms)
{
    char         text[512], place[256];
    const double ms = document_number(finding, "ms_per_step");
    const double bytes = document_number(finding, "bytes_per_step");
    const double step_ms = finding_step_ms(finding, profile);
    size_t       used;
    visible_text(place, sizeof place, document_text(finding, "place"));
    used = (size_t)snprintf(text, sizeof text, "at %s: %s a step", place,
                            text_seconds_like(ms / 1e3, fmax(ms, like_ms) / 1e3));
    if (step_ms > 0 && used < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, " (%.1f %%)", 100 * ms / step_ms);
    if (bytes > 0 && used < sizeof text)
        snprintf(text + used, sizeof text - used, ", %s", text_bytes(whole_number(bytes)));
    set_style(STYLE_BOLD);
    print_visible(document_text(finding, "finding"), 0);
    set_style(STYLE_PLAIN);
    putchar(' ');
    print_wrapped(text, text_columns(document_text(finding, "finding")) + 1, 2);
}

/* Lines of code are not wrapped, so that they can be copied. */
static void print_fix(const char *fix)
{
    while (*fix) {
        char   line[512], shown[1024];
        size_t length = strcspn(fix, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), fix);
        visible_text(shown, sizeof shown, line);
        printf("      %s\n", shown);
        fix += length + (fix[length] == '\n');
    }
}

static void print_finding(const cJSON *finding, const cJSON *profile, double like_ms)
{
    print_head(finding, profile, like_ms);
    printf("  ");
    print_wrapped(document_text(finding, "what"), 2, 2);
    print_fix(document_text(finding, "fix"));
}

/* True if a place was found without debug information: "train+0x4f". */
static bool lacks_lines(const cJSON *audit)
{
    const cJSON *finding;
    cJSON_ArrayForEach(finding, audit) if (strstr(document_text(finding, "place"), "+0x")) return true;
    return false;
}

/* To delete. NULL if there is none. */
static cJSON *profile_of(const char *run)
{
    char unheard[256];
    complain_into(unheard, sizeof unheard);
    cJSON *profile = run_document(run, "profile.json", false, maker);
    complain_into(NULL, 0);
    haul_error_clear();
    return profile;
}

/* Without a profile the shares are left out. */
static void print_audit(const cJSON *audit, const cJSON *profile)
{
    const int    count = cJSON_GetArraySize(audit);
    const double step_ms = finding_step_ms(NULL, profile), total = total_of(audit), like_ms = fmax(step_ms, total);
    const cJSON *finding;
    if (count == 0) {
        printf("No findings.\n");
        return;
    }
    char cost[80] = "", of[80] = "", text[200];
    if (total > 0)
        snprintf(cost, sizeof cost, ": %s a step", text_seconds_like(total / 1e3, like_ms / 1e3));
    if (total > 0 && step_ms > 0)
        snprintf(of, sizeof of, " of %s (%.1f %%)", text_seconds_like(step_ms / 1e3, like_ms / 1e3),
                 100 * total / step_ms);
    snprintf(text, sizeof text, "%d finding%s%s%s", count, count == 1 ? "" : "s", cost, of);
    print_wrapped(text, 0, 2);
    cJSON_ArrayForEach(finding, audit)
    {
        putchar('\n');
        print_finding(finding, profile, like_ms);
    }
    if (lacks_lines(audit)) {
        putchar('\n');
        print_wrapped("Places are lines of source if the program is compiled with -g and libdw is installed.", 0, 0);
    }
}

/* ---- the command ---- */

static const option audit_rows[] = {
    {.group = "Options", .name = "json", OPTION_FLAG_AT(audit_options, json), .help = "Print one JSON array instead"}};

static int audit_main(int argc, char **argv)
{
    audit_options o = {0};
    option_values values;
    int           code = options_parse(&values, &audit_command, &o, argc, argv);
    if (code >= 0)
        return code;
    cJSON *audit = run_document(o.run, "audit.json", true, maker);
    if (!audit)
        return EXIT_FAILED;
    if (o.json)
        return json_print(audit) ? EXIT_OK : EXIT_FAILED;
    cJSON *profile = profile_of(o.run);
    print_audit(audit, profile);
    cJSON_Delete(profile);
    cJSON_Delete(audit);
    return EXIT_OK;
}

static const help_example audit_lines[] = {
    {"haul train --profile 20 --run runs/first", NULL}, {"haul audit runs/first", NULL}, {NULL, NULL}};

const command audit_command = {
    .name = "audit",
    .summary = "Find wasted time in a profiled run",
    .usage = "[--json] RUN",
    .description =
        "Shows what the audit of a run found: waits in every step, tensors that go back and forth, data that "
        "are sent again, many small copies, a loader or a host that does not keep up, compilation ... Each finding has "
        "its source line, its cost per step, and code that fixes it. The run needs a profile: haul train --profile, "
        "or haul_profile_save in a program.",
    .options = audit_rows,
    .option_count = sizeof audit_rows / sizeof *audit_rows,
    .operand = {.name = "RUN",
                .help = "The folder of the run",
                .offset = offsetof(audit_options, run),
                .required = true,
                .complete = COMPLETE_FOLDER},
    .examples = audit_lines,
    .run = audit_main,
};
