/* Where the time of a step goes, on the page: the phases of the training thread as one bar and a table. */
#include <math.h>
#include <string.h>

#include "cli/report/page.h"
#include "cli/report/text.h"
#include "cli/report/timeline.h"

typedef struct phase_label {
    const char *name, *label;
} phase_label;

static const phase_label phases[] = {{"data", "gets a mini-batch while no device works"},
                                     {"forward", "runs the network and the loss"},
                                     {"backward", "computes gradients"},
                                     {"optimizer", "updates the parameters"},
                                     {"wait", "waits for devices, also while it gets a mini-batch"},
                                     {"other", "is in the program itself"},
                                     {"compile", "waits until kernels are compiled"}};

enum { OTHER = 5 };

/* What the phase is about; "" if it is not known. The number is its colour. */
static const char *label_of(const char *name, int *number)
{
    for (int i = 0; i < (int)(sizeof phases / sizeof *phases); i++)
        if (!strcmp(phases[i].name, name)) {
            *number = i;
            return phases[i].label;
        }
    *number = OTHER;
    return "";
}

static double ms_of(const cJSON *phase)
{
    double ms = number_of(phase, "ms");
    return ms > 0 ? ms : 0;
}

static double sum_of(const cJSON *list)
{
    const cJSON *phase;
    double       sum = 0;
    cJSON_ArrayForEach(phase, list)
    {
        sum += ms_of(phase);
    }
    return sum;
}

static const cJSON *longest_of(const cJSON *list)
{
    const cJSON *phase, *longest = NULL;
    cJSON_ArrayForEach(phase, list)
    {
        if (!longest || ms_of(phase) > ms_of(longest))
            longest = phase;
    }
    return longest;
}

static void write_bar(html *h, const cJSON *list, double wall)
{
    const cJSON *phase;
    int          number;
    html_put(h, "<div class=\"whole\" role=\"img\" aria-label=\"One bar, which is a step:");
    cJSON_ArrayForEach(phase, list)
    {
        html_add(h, " %s %s,", document_text(phase, "name"), say_share(ms_of(phase) / wall));
    }
    html_put(h, " as in the table below\">");
    cJSON_ArrayForEach(phase, list)
    {
        const char *name = document_text(phase, "name");
        double      share = ms_of(phase) / wall;
        label_of(name, &number);
        html_add(h, "<i class=\"f%d\" style=\"width:%.3f%%\" data-phase=\"%s\" data-ms=\"%.6g\">", number, 100 * share,
                 name, ms_of(phase));
        if (share > 0.08)
            html_add(h, "%s", name);
        html_put(h, "</i>");
    }
    html_put(h, "</div>\n");
}

static void write_table(html *h, const cJSON *list, double wall, double steps)
{
    const cJSON *phase;
    int          number;
    page_table(h, "The training thread, mean of a step", "Phase|~The thread|#Time|#Share");
    cJSON_ArrayForEach(phase, list)
    {
        const char *name = document_text(phase, "name"), *label = label_of(name, &number);
        html_add(h, "<tr><th scope=\"row\"><i class=\"swatch f%d\"></i>%s</th><td class=\"words\">%s</td>", number,
                 name, label);
        page_number(h, say_time(ms_of(phase) / steps));
        page_number(h, say_share(ms_of(phase) / wall));
        html_put(h, "</tr>\n");
    }
    html_put(h, "</tbody><tfoot><tr><th scope=\"row\">one step</th><td class=\"words\"></td>");
    page_number(h, say_time(sum_of(list) / steps));
    page_number(h, say_share(sum_of(list) / wall));
    html_put(h, "</tr></tfoot><tbody>");
    page_table_end(h);
}

static void write_lead(html *h, const cJSON *profile, const cJSON *list, double wall, double steps)
{
    const cJSON *longest = longest_of(list);
    const double warm_ups = number_of(profile, "warm_ups");
    if (warm_ups > 0)
        html_add(h, "<p>A step takes %s, in the mean without %s of warm-up; all %s took %s.</p>",
                 say_time(number_of(profile, "steady_ms")), page_plural(warm_ups, "step"), page_plural(steps, "step"),
                 say_time(wall));
    else
        html_add(h, "<p>A step takes %s, in the mean of %s that took %s.</p>", say_time(wall / steps),
                 page_plural(steps, "step"), say_time(wall));
    if (longest)
        html_add(h, "<p>The training thread spends most of the time, %s, in the phase %s.</p>",
                 say_share(ms_of(longest) / wall), document_text(longest, "name"));
    if (isfinite(number_of(profile, "step_joules")))
        html_add(h, "<p>It uses %s, %.3g W in the mean, with what other programs use at the same time.</p>",
                 say_joules(number_of(profile, "step_joules")), 1e3 * number_of(profile, "step_joules") * steps / wall);
    else if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(profile, "step_joules")))
        html_put(h, "<p class=\"note\">Energy: no counters here that can be read.</p>");
    if (number_of(profile, "lost") > 0)
        html_add(h, "<p class=\"bad\">%s of %s were not recorded: the figures are incomplete.</p>",
                 say_count(number_of(profile, "lost")), page_plural(number_of(profile, "events"), "event"));
    if (fabs(sum_of(list) - wall) > 0.01 * wall)
        html_add(h, "<p class=\"bad\">The phases add up to %s, not to %s.</p>", say_time(sum_of(list)), say_time(wall));
}

void page_step(page *p)
{
    const cJSON *profile = p->runs[0].profile, *list = document_list(profile, "phases");
    double       wall = number_of(profile, "wall_ms"), steps = number_of(profile, "steps");
    bool         phased = list && wall > 0 && steps >= 1;
    if (!phased && !page_timeline_is_there(profile)) {
        page_lacks_profile(p, "Where the time of a step goes, and its timeline");
        return;
    }
    html *h = page_begin(p, "step", "One step");
    if (phased)
        write_lead(h, profile, list, wall, steps);
    page_timeline_lead(h, profile);
    page_body(p);
    if (phased) {
        write_bar(h, list, wall);
        write_table(h, list, wall, steps);
    }
    page_timeline(h, profile, p->runs[0].audit);
    page_end(p);
}
