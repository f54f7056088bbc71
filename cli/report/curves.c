/* The curves of the page: loss, accuracy, learning rate and examples per second of all runs, and the epochs as tables.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/draw/plot.h"
#include "cli/report/page.h"
#include "cli/report/text.h"

static int drawn_runs(const page *p)
{
    return p->run_count < PLOT_RUNS ? p->run_count : PLOT_RUNS;
}

static double last_epoch(const page *p)
{
    double last = 1;
    for (int i = 0; i < drawn_runs(p); i++) {
        const page_run *run = &p->runs[i];
        for (size_t j = 0; j < run->epoch_count; j++)
            last = fmax(last, run->epochs[j].epoch);
        for (size_t j = 0; j < run->batch_count; j++)
            last = fmax(last, run->batches[j].epoch);
    }
    return last;
}

static plot plot_of(const page *p, const char *title, const char *unit, const char *(*say)(double))
{
    return (plot){.title = title, .unit = unit, .say = say, .x_max = last_epoch(p)};
}

/* The name of a line: with several runs the run's. */
static const char *name_of(const page *p, int run, const char *alone)
{
    return p->run_count > 1 ? p->runs[run].name : alone;
}

/* "Lines of loss by epoch. first, epoch 8: 0.685 in training, 0.635 on validation data." */
static void describe(const page *p, char *out, size_t size, const char *what, double (*train)(const page_epoch *),
                     double (*measured)(const page_epoch *), const char *(*say)(double))
{
    snprintf(out, size, "Lines of %s by epoch.", what);
    for (int i = 0; i < drawn_runs(p); i++) {
        const page_run   *run = &p->runs[i];
        const page_epoch *e = run->epoch_count ? &run->epochs[run->epoch_count - 1] : NULL;
        size_t            used = strlen(out);
        if (e && train)
            snprintf(out + used, size - used, " %.200s, epoch %.0f: %s in training, %s on %s data.", run->name,
                     e->epoch, say(train(e)), say(measured(e)), page_measured(run));
        else if (e)
            snprintf(out + used, size - used, " %.200s, epoch %.0f: %s.", run->name, e->epoch, say(measured(e)));
    }
}

static void add_epochs(plot *p, plot_line *line, const page_run *run, double (*value)(const page_epoch *))
{
    for (size_t i = 0; i < run->epoch_count; i++)
        plot_point(p, line, run->epochs[i].epoch, value(&run->epochs[i]));
}

/* Run i as two lines, if it has epochs: a value of training, and the one measured. */
static void add_both(const page *p, plot *figure, int i, double (*of_training)(const page_epoch *),
                     double (*measured)(const page_epoch *))
{
    const page_run *run = &p->runs[i];
    if (!run->epoch_count)
        return;
    add_epochs(figure, plot_line_new(figure, i, PLOT_SOFT, "train", p->run_count > 1 ? NULL : "train"), run,
               of_training);
    add_epochs(figure, plot_line_new(figure, i, PLOT_MAIN, "measured", name_of(p, i, page_measured(run))), run,
               measured);
}

/* ---- loss ---- */

static double train_loss(const page_epoch *e)
{
    return e->train_loss;
}

static double measured_loss(const page_epoch *e)
{
    return e->loss;
}

static void write_loss(const page *p, html *h)
{
    plot figure = plot_of(p, "Loss", "by epoch", say_loss);
    char sentence[1200];
    for (int i = 0; i < drawn_runs(p); i++) {
        const page_run *run = &p->runs[i];
        plot_line      *raw = !i && run->batch_count ? plot_line_new(&figure, i, PLOT_RAW, "batch", NULL) : NULL;
        for (size_t j = 0; raw && j < run->batch_count; j++)
            plot_point(&figure, raw, page_run_position(run, &run->batches[j]), run->batches[j].loss);
        add_both(p, &figure, i, train_loss, measured_loss);
    }
    describe(p, sentence, sizeof sentence, "loss", train_loss, measured_loss, say_loss);
    plot_write(h, &figure, sentence);
}

/* ---- accuracy ---- */

static double train_accuracy(const page_epoch *e)
{
    return 100 * e->train_accuracy;
}

static double measured_accuracy(const page_epoch *e)
{
    return 100 * e->accuracy;
}

static const char *say_hundredths(double y)
{
    return say_share(y / 100);
}

static void write_accuracy(const page *p, html *h)
{
    plot figure = plot_of(p, "Accuracy", "per cent, by epoch", say_hundredths);
    char sentence[1200];
    figure.per_cent = true;
    for (int i = 0; i < drawn_runs(p); i++)
        add_both(p, &figure, i, train_accuracy, measured_accuracy);
    describe(p, sentence, sizeof sentence, "accuracy", train_accuracy, measured_accuracy, say_hundredths);
    plot_write(h, &figure, sentence);
}

/* ---- learning rate and speed ---- */

static double rate_of(const page_epoch *e)
{
    return e->lr;
}

static const char *say_rate_of_learning(double lr)
{
    static char text[4][32];
    static int  at;
    at = (at + 1) % 4;
    snprintf(text[at], sizeof text[at], "%.3g", lr);
    return text[at];
}

static void write_rate(const page *p, html *h)
{
    plot figure = plot_of(p, "Learning rate", "by epoch", say_rate_of_learning);
    char sentence[1200];
    figure.from_zero = true;
    for (int i = 0; i < drawn_runs(p); i++) {
        const page_run *run = &p->runs[i];
        bool            batches = run->batch_count > 0;
        plot_line *line = plot_line_new(&figure, i, batches ? PLOT_SOFT : PLOT_MAIN, batches ? "batch" : "measured",
                                        name_of(p, i, "last"));
        for (size_t j = 0; j < run->batch_count; j++)
            plot_point(&figure, line, page_run_position(run, &run->batches[j]), run->batches[j].lr);
        if (!batches)
            add_epochs(&figure, line, run, rate_of);
    }
    describe(p, sentence, sizeof sentence, "the learning rate", NULL, rate_of, say_rate_of_learning);
    plot_write(h, &figure, sentence);
}

/* An epoch that was trained by the process before has no speed. */
static double speed_of(const page_epoch *e)
{
    return e->speed;
}

static void write_speed(const page *p, html *h)
{
    plot figure = plot_of(p, "Examples per second", "while training, by epoch", say_count);
    char sentence[1200];
    figure.from_zero = true;
    for (int i = 0; i < drawn_runs(p); i++)
        if (p->runs[i].epoch_count)
            add_epochs(&figure, plot_line_new(&figure, i, PLOT_MAIN, "measured", name_of(p, i, "last")), &p->runs[i],
                       speed_of);
    describe(p, sentence, sizeof sentence, "examples per second", NULL, speed_of, say_count);
    plot_write(h, &figure, sentence);
}

/* ---- tables ---- */

static void write_epochs(html *h, const page *p, const page_run *run)
{
    enum { MOST = 250 };
    size_t every = run->epoch_count / MOST + 1;
    char   caption[400];
    if (!run->epoch_count)
        return;
    snprintf(caption, sizeof caption, "%s of %.300s", page_plural((double)run->epoch_count, "epoch"), run->name);
    page_folded_table(h, p->run_count > 1 ? caption : "epochs",
                      run->validation ? "#Epoch|#Training loss|#Validation loss|#Training accuracy|#Validation "
                                        "accuracy|#Learning rate|#Examples/s|#Seconds"
                                      : "#Epoch|#Training loss|#Test loss|#Training accuracy|#Test accuracy|#Learning "
                                        "rate|#Examples/s|#Seconds");
    for (size_t i = 0; i < run->epoch_count; i++) {
        const page_epoch *e = &run->epochs[i];
        bool              best = e == page_run_best(run);
        if (i % every && !best && i + 1 < run->epoch_count)
            continue;
        html_put(h, best ? "<tr class=\"best\">" : "<tr>");
        html_add(h, "<th scope=\"row\" class=\"n\">%.0f%s</th>", e->epoch, best ? " (best)" : "");
        page_number(h, isfinite(e->train_loss) ? say_loss(e->train_loss) : "not finite");
        page_number(h, isfinite(e->loss) ? say_loss(e->loss) : "not finite");
        page_number(h, say_share(e->train_accuracy));
        page_number(h, say_share(e->accuracy));
        page_number(h, say_rate_of_learning(e->lr));
        page_number(h, say_count(e->speed));
        page_number(h, say_number(round(100 * e->seconds) / 100));
        html_put(h, "</tr>\n");
    }
    page_table_end(h);
    if (every > 1)
        html_add(h, "<p class=\"note\">One of %lld epochs is listed, with the best and the last one.</p>",
                 (long long)every);
    html_put(h, "</details>\n");
}

static void write_batches(html *h, const page_run *run)
{
    enum { MOST = 400 };
    if (!run->batch_count)
        return;
    if (run->batch_count > MOST) {
        html_add(h,
                 "<p class=\"note\">The thin line has %s values of mini-batches; log.jsonl has them as a list. Where "
                 "more than 800 are drawn, each section shows its least and its greatest.</p>",
                 say_count((double)run->batch_count));
        return;
    }
    page_folded_table(h, "mini-batches", "#Epoch|#Mini-batch|#Loss|#Learning rate");
    for (size_t i = 0; i < run->batch_count; i++) {
        const page_batch *b = &run->batches[i];
        html_add(h, "<tr><td class=\"n\">%.0f</td><td class=\"n\">%.0f</td>", b->epoch, b->batch);
        page_number(h, isfinite(b->loss) ? say_loss(b->loss) : "not finite");
        page_number(h, say_rate_of_learning(b->lr));
        html_put(h, "</tr>\n");
    }
    page_folded_end(h);
}

/* ---- the section ---- */

static void write_lead(html *h, const page_run *run)
{
    const page_epoch *best = page_run_best(run), *last = run->epoch_count ? &run->epochs[run->epoch_count - 1] : NULL;
    const char       *data = page_measured(run);
    if (!best) {
        html_put(h, last ? "<p>No epoch has a loss that is finite.</p>" : "<p>The log has no whole epoch yet.</p>");
        return;
    }
    html_add(h, "<p>The loss on %s data is lowest in epoch %.0f of %s: %s.", data, best->epoch,
             say_count((double)run->epoch_count), say_loss(best->loss));
    if (last->epoch > best->epoch)
        html_add(h, " %s after it did not improve on it.", page_plural(last->epoch - best->epoch, "epoch"));
    double gap = last->loss - last->train_loss;
    if (isfinite(gap))
        html_add(h, " In the last epoch it is %s %s the training loss.", say_loss(fabs(gap)),
                 gap < 0 ? "below" : "above");
    html_put(h, "</p>");
}

static void write_key(html *h, const page *p)
{
    html_put(h, "<p class=\"note\">");
    if (p->runs[0].batch_count)
        html_put(h, "Thinnest line: means of mini-batches as the log has them. ");
    html_add(h, "Thin line: training. Thick line: %s data. Nothing is smoothed.", page_measured(&p->runs[0]));
    if (p->run_count > PLOT_RUNS)
        html_add(h, " The first %d of %d runs are drawn.", PLOT_RUNS, p->run_count);
    html_put(h, "</p>");
}

static bool has_curves(const page *p)
{
    bool has = false;
    for (int i = 0; i < p->run_count; i++)
        has = has || !p->runs[i].program;
    return has;
}

void page_curves(page *p)
{
    if (!has_curves(p))
        return;
    html *h = page_begin(p, "learning", "Learning");
    write_lead(h, &p->runs[0]);
    write_key(h, p);
    page_body(p);
    html_put(h, "<div class=\"pair\">");
    write_loss(p, h);
    write_accuracy(p, h);
    write_rate(p, h);
    write_speed(p, h);
    html_put(h, "</div>");
    for (int i = 0; i < drawn_runs(p); i++)
        write_epochs(h, p, &p->runs[i]);
    write_batches(h, &p->runs[0]);
    page_end(p);
}
