/* The head of the page: what ran, how it ended, and its figures; and the options it was started with. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/finding.h"
#include "cli/report/page.h"
#include "cli/report/text.h"
#include "cli/run_folder/finding.h"
#include "cli/shared/cli.h"

/* ---- results ---- */

static double test_accuracy(const page_run *run)
{
    return number_of(run->done, "test_accuracy");
}

/* Of the best weights on test data where that was measured, else of the best epoch. */
static double accuracy_of(const page_run *run)
{
    const page_epoch *best = page_run_best(run);
    return isfinite(test_accuracy(run)) ? test_accuracy(run) : best ? best->accuracy : (double)NAN;
}

static const char *accuracy_data(const page_run *run)
{
    return isfinite(test_accuracy(run)) ? "test" : page_measured(run);
}

static double loss_of(const page_run *run)
{
    const page_epoch *best = page_run_best(run);
    return isfinite(number_of(run->done, "test_loss")) ? number_of(run->done, "test_loss")
           : best                                      ? best->loss
                                                       : (double)NAN;
}

/* The median over epochs. */
static double speed_of(const page_run *run)
{
    enum { MOST = 101 };
    double values[MOST];
    size_t count = 0;
    for (size_t i = run->epoch_count > MOST ? run->epoch_count - MOST : 0; i < run->epoch_count; i++)
        if (run->epochs[i].speed > 0)
            values[count++] = run->epochs[i].speed;
    return count ? median_of(values, count) : (double)NAN;
}

static double step_of(const page_run *run)
{
    double ms = run->program ? number_of(run->profile, "median_ms") : number_of(run->done, "step_ms");
    return ms > 0 ? ms : (double)NAN;
}

static double seconds_of(const page_run *run)
{
    const cJSON *last = run->done ? run->done : run->end;
    double       sum = 0;
    if (last)
        return number_of(last, "elapsed");
    for (size_t i = 0; i < run->epoch_count; i++)
        sum += isfinite(run->epochs[i].seconds) ? run->epochs[i].seconds : 0;
    return sum > 0 ? sum : (double)NAN;
}

/* ---- the sentence ---- */

static void write_end(html *h, const page_run *run)
{
    const char *kind = document_text(run->end, "event");
    double      epoch = number_of(run->end, "epoch"), batch = number_of(run->end, "batch");
    if (!strcmp(kind, "diverged"))
        html_add(h, "<b class=\"bad\">The training diverged</b> in epoch %s, mini-batch %s: the %s is not finite. ",
                 say_count(epoch), say_count(batch), document_text(run->end, "what"));
    else if (!strcmp(kind, "out_of_memory"))
        html_add(h, "<b class=\"bad\">Memory was exhausted</b> in epoch %s, after mini-batch %s. ", say_count(epoch),
                 say_count(batch));
    else if (run->done && !strcmp(kind, "early_stop"))
        html_add(h, "The training ended after epoch %s: the loss had not improved for %s. ", say_count(epoch),
                 page_plural(number_of(run->end, "patience"), "epoch"));
    else if (!run->done && !strcmp(kind, "stopped"))
        html_add(h, "The training was stopped in epoch %s, after mini-batch %s. ", say_count(epoch), say_count(batch));
    else if (!run->done)
        html_put(h, "The log has no end: the training still runs, or was killed. ");
}

static void write_others(html *h, const page *p)
{
    enum { MOST = 3 };
    for (int i = 1; i < p->run_count && i <= MOST; i++) {
        if (!isfinite(accuracy_of(&p->runs[i])))
            continue;
        html_put(h, i == 1 ? " In comparison, " : " ");
        html_name(h, p->runs[i].name);
        html_add(h, " reaches %s on %s data.", say_share(accuracy_of(&p->runs[i])), accuracy_data(&p->runs[i]));
    }
}

static void write_findings(html *h, const page_run *run)
{
    const cJSON *dearest = page_dearest(run->audit);
    const double step = finding_step_ms(dearest, run->profile);
    const int    count = cJSON_GetArraySize(run->audit);
    if (!dearest)
        return;
    html_add(h, " The audit has <a href=\"#audit\">%s</a>: %s costs %s", page_plural(count, "finding"),
             count == 1 ? "it" : "the most expensive", say_time(page_finding_cost(dearest)));
    html_add(h, isfinite(step) ? " of a step of %s." : " a step.%s", isfinite(step) ? say_time(step) : "");
}

static void write_sentence(html *h, const page *p)
{
    const page_run   *run = &p->runs[0];
    const page_epoch *best = page_run_best(run);
    html_put(h, "<p class=\"verdict\">");
    if (!run->program)
        write_end(h, run);
    if (run->program)
        html_add(h, "A program saved this profile of %s on %s.", page_plural(number_of(run->profile, "steps"), "step"),
                 document_text(run->profile, "device"));
    else if (best)
        html_add(h, "The network of epoch %.0f reaches %s on %s data.", best->epoch, say_share(accuracy_of(run)),
                 accuracy_data(run));
    else
        html_put(h, run->epoch_count ? "No epoch has been measured with a loss that is finite."
                                     : "No epoch has ended yet.");
    write_others(h, p);
    write_findings(h, run);
    html_put(h, "</p>\n");
}

/* ---- figures ---- */

/* What the figure is of another run, below it. */
static void write_figure(html *h, const page *p, const char *name, const char *note, double (*value)(const page_run *),
                         const char *(*say)(double))
{
    if (!isfinite(value(&p->runs[0])))
        return;
    html_add(h, "<div><dt>%s</dt><dd><b>%s</b>", name, say(value(&p->runs[0])));
    if (*note)
        html_add(h, "<small>%s</small>", note);
    for (int i = 1; i < p->run_count && i < 4; i++) {
        html_add(h, "<small>%s ", say(value(&p->runs[i])));
        html_name(h, p->runs[i].name);
        html_put(h, "</small>");
    }
    html_put(h, "</dd></div>");
}

static double peak_of(const page_run *run)
{
    double bytes = number_of(run->done, "peak_bytes");
    return bytes > 0 ? bytes : (double)NAN;
}

static double moved_of(const page_run *run)
{
    return number_of(run->ledger, "bytes");
}

static void write_figures(html *h, const page *p)
{
    const page_run   *run = &p->runs[0];
    const page_epoch *best = page_run_best(run);
    const char       *data = accuracy_data(run);
    char              epoch[80] = "", copies[80] = "";
    if (best)
        snprintf(epoch, sizeof epoch, "%s, epoch %.0f", data, best->epoch);
    double count = number_of(run->ledger, "copies");
    if (isfinite(count))
        snprintf(copies, sizeof copies, "%s %s", say_count(count), count == 1 ? "copy" : "copies");
    html_put(h, "<dl class=\"figures\">");
    write_figure(h, p, "Accuracy", epoch, accuracy_of, say_share);
    write_figure(h, p, "Loss", epoch, loss_of, say_loss);
    write_figure(h, p, "Step", "median", step_of, say_time);
    write_figure(h, p, "Examples per second", "median epoch", speed_of, say_count);
    write_figure(h, p, "Peak memory", document_text(run->start, "device"), peak_of, say_bytes);
    write_figure(h, p, "Moved in the run", copies, moved_of, say_bytes);
    write_figure(h, p, "Trained for", "", seconds_of, say_seconds);
    html_put(h, "</dl>\n");
}

/* ---- the head ---- */

static void write_facts(html *h, const page_run *run)
{
    html_put(h, "<p class=\"facts\">");
    html_name(h, document_text(run->start, "model"));
    html_add(h, ", %s parameters \xc2\xb7 ", say_count(number_of(run->start, "parameters")));
    html_name(h, document_text(run->start, "data"));
    html_add(h, ", %s examples to train on \xc2\xb7 ", say_count(number_of(run->start, "train_examples")));
    page_device(h, document_text(run->start, "device"));
    html_add(h, " on ");
    html_name(h, *document_text(run->start, "host") ? document_text(run->start, "host") : "an unnamed machine");
    html_add(h, " \xc2\xb7 %s of %.0f mini-batches", page_plural((double)run->epoch_count, "epoch"),
             run->epoch_batches);
    const char *time = document_text(run->start, "time");
    char        minute[32];
    if (strlen(time) > 16 && time[10] == 'T') {
        snprintf(minute, sizeof minute, "%.10s %.5s UTC", time, time + 11);
        html_add(h, " \xc2\xb7 started %s", minute);
    }
    html_put(h, "</p>\n");
}

void page_head(page *p)
{
    html           *h = &p->head;
    const page_run *run = &p->runs[0];
    html_put(h, "<p class=\"kind\">Haul report</p><h1>");
    html_name(h, run->name);
    html_put(h, "</h1>\n");
    if (run->start)
        write_facts(h, run);
    write_sentence(h, p);
    write_figures(h, p);
}

/* ---- options ---- */

/* False if memory is exhausted. */
static bool value_text(const cJSON *value, char *out, size_t size)
{
    snprintf(out, size, "-");
    if (cJSON_IsString(value))
        snprintf(out, size, "%s", value->valuestring);
    else if (cJSON_IsNumber(value))
        snprintf(out, size, "%s", say_number(value->valuedouble));
    else if (cJSON_IsBool(value))
        snprintf(out, size, "%s", cJSON_IsTrue(value) ? "on" : "off");
    else if (cJSON_IsArray(value)) {
        char *text = cJSON_PrintUnformatted(value);
        bool  done = text != NULL;
        snprintf(out, size, "%s", text ? text : "-");
        cJSON_free(text);
        return done;
    }
    return true;
}

/* True if the runs differ in it. */
static bool differs(const page *p, const char *name)
{
    const cJSON *first = cJSON_GetObjectItemCaseSensitive(p->runs[0].start, name);
    for (int i = 1; i < p->run_count; i++)
        if (!cJSON_Compare(first, cJSON_GetObjectItemCaseSensitive(p->runs[i].start, name), true))
            return true;
    return false;
}

static void write_option(html *h, const page *p, const char *name)
{
    enum { MOST_COLUMNS = 8 };
    html_put(h, p->run_count > 1 && differs(p, name) ? "<tr class=\"best\">" : "<tr>");
    html_add(h, "<th scope=\"row\">%s</th>", name);
    for (int i = 0; i < p->run_count && i < MOST_COLUMNS; i++) {
        char text[1000];
        bool done = value_text(cJSON_GetObjectItemCaseSensitive(p->runs[i].start, name), text, sizeof text);
        h->failed = h->failed || !done;
        html_put(h, "<td class=\"w\">");
        html_name(h, text);
        html_put(h, "</td>");
    }
    html_put(h, "</tr>\n");
}

static bool is_option(const cJSON *item)
{
    return item->string && strcmp(item->string, "event") != 0 && strcmp(item->string, "elapsed") != 0;
}

static void write_list(html *h, const page_run *run)
{
    const cJSON *item;
    html_put(h, "<dl class=\"options\">\n");
    cJSON_ArrayForEach(item, run->start)
    {
        char text[1000];
        if (!is_option(item))
            continue;
        h->failed = !value_text(item, text, sizeof text) || h->failed;
        html_add(h, "<div><dt>%s</dt><dd>", item->string);
        html_name(h, text);
        html_put(h, "</dd></div>\n");
    }
    html_put(h, "</dl>\n");
}

static void begin_table(html *h, const page *p, const char *caption)
{
    char heads[700] = "Option";
    for (int i = 0; i < p->run_count && i < 8; i++) {
        size_t used = strlen(heads);
        snprintf(heads + used, sizeof heads - used, "|%.70s", p->runs[i].name);
    }
    page_table(h, caption, heads);
}

static void write_table(html *h, const page *p)
{
    const cJSON *item;
    begin_table(h, p, "Options of the runs");
    cJSON_ArrayForEach(item, p->runs[0].start)
    {
        if (is_option(item))
            write_option(h, p, item->string);
    }
    page_table_end(h);
}

void page_options(page *p)
{
    if (!p->runs[0].start)
        return;
    html *h = page_begin(p, "run", "Run");
    html_put(h, "<p>What the log says about how the training was started.</p>");
    if (p->run_count > 1)
        html_put(h, "<p class=\"note\">Lines in bold differ between the runs.</p>");
    page_body(p);
    if (p->run_count > 1)
        write_table(h, p);
    else
        write_list(h, &p->runs[0]);
    page_end(p);
}

/* ---- several runs ---- */

/* Not of interest in a comparison: when each run was. */
static bool is_compared(const cJSON *item)
{
    return is_option(item) && strcmp(item->string, "time") != 0;
}

static void write_differences(html *h, const page *p)
{
    const cJSON *item;
    int          count = 0;
    cJSON_ArrayForEach(item, p->runs[0].start)
    {
        if (!is_compared(item) || !differs(p, item->string))
            continue;
        if (!count++)
            begin_table(h, p, "Options in which the runs differ");
        write_option(h, p, item->string);
    }
    if (count)
        page_table_end(h);
    else
        html_put(h, "<p>The runs have the same options.</p>\n");
}

static void write_commands(html *h, const page *p)
{
    char quoted[4096];
    bool begun = false;
    for (int i = 0; i < p->run_count; i++) {
        if (p->runs[i].program)
            continue;
        if (!begun)
            html_put(h, "<h3>Commands that repeat the runs</h3><pre tabindex=\"0\"><code>");
        begun = true;
        html_add(h, "haul train --config %s/config.json --run NEW\n",
                 shell_text(quoted, sizeof quoted, p->runs[i].path));
    }
    html_put(h, begun ? "</code></pre>\n" : "");
}

void page_compare(page *p)
{
    if (p->run_count < 2)
        return;
    html *h = page_begin(p, "runs", "Runs");
    html_put(h, "<p>Each line of the results is a run, in the order of the command.</p>");
    page_body(p);
    write_differences(h, p);
    write_commands(h, p);
    page_table(h, "Results of the runs", "Run|Device|Epochs|#Loss|#Accuracy|On|#Step|#Examples/s|#Peak memory|#Time");
    for (int i = 0; i < p->run_count; i++) {
        const page_run *run = &p->runs[i];
        html_add(h, "<tr><th scope=\"row\" class=\"w\"><i class=\"key r%d\"></i>", i < 4 ? i : 4);
        html_name(h, run->name);
        html_put(h, "</th><td>");
        page_device(h, document_text(run->start, "device"));
        html_put(h, "</td>");
        page_number(h, say_count((double)run->epoch_count));
        page_number(h, say_loss(loss_of(run)));
        page_number(h, say_share(accuracy_of(run)));
        html_add(h, "<td>%s data</td>", accuracy_data(run));
        page_number(h, say_time(step_of(run)));
        page_number(h, say_count(speed_of(run)));
        page_number(h, say_bytes(peak_of(run)));
        page_number(h, say_seconds(seconds_of(run)));
        html_put(h, "</tr>\n");
    }
    page_table_end(h);
    page_end(p);
}
