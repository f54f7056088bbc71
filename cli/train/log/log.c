#include "cli/train/log/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run_folder/files.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/train/log/form.h"

void report_init(report *r, bool json, bool quiet, run_folder *run, int64_t batches)
{
    *r = (report){.json = json,
                  .text = !json && !quiet,
                  .run = run,
                  .last_loss = NAN,
                  .last_accuracy = NAN,
                  .batches = batches,
                  .began = clock_seconds()};
    progress_init(&r->bar, r->text);
}

bool report_is_kept(const report *r)
{
    return !r->run || (run_has_log(r->run) && tensorboard_is_kept(&r->events));
}

/* Of ranks that are threads only one has a bar. */
static void clear_bar(const report *r)
{
    if (r->bar.on)
        progress_clear();
}

void report_close(report *r)
{
    clear_bar(r);
    chart_free(&r->losses);
    tensorboard_close(&r->events);
}

double report_elapsed(const report *r)
{
    return clock_seconds() - r->began;
}

/* The event goes to the log, and to standard output if that is to be JSON. Deletes it. */
static bool tell(report *r, cJSON *event)
{
    char *line = json_line(event);
    clear_bar(r);
    if (!line) {
        complain("memory is exhausted");
        return false;
    }
    bool told = run_log(r->run, line);
    if (told && r->json)
        fputs(line, stdout);
    cJSON_free(line);
    return told;
}

/* ---- for TensorBoard ---- */

/* Mini-batches since the training began. */
static int64_t step_of(const report *r, int64_t epoch, int64_t batch)
{
    return (epoch - 1) * r->batches + batch;
}

static bool open_events(report *r, const report_start *s)
{
    return !r->writes_events ||
           tensorboard_open(&r->events, r->run->path, s->resumed ? step_of(r, s->epoch, s->done) : 0);
}

static bool add_line(report *r, const report_line *l)
{
    const tensorboard_value values[] = {{"loss/train", l->loss}, {"learning_rate", l->lr}};
    /* The learning rate of an epoch's last mini-batch comes with the epoch. */
    return tensorboard_add(&r->events, step_of(r, l->epoch, l->batch), values, l->batch < r->batches ? 2 : 1);
}

/* An epoch that was trained by the process before has no speed. */
static bool add_epoch(report *r, const report_epoch *e)
{
    const tensorboard_value values[] = {{"loss/train_epoch", e->train_loss},
                                        {"accuracy/train", e->train_accuracy},
                                        {e->validation ? "loss/validation" : "loss/test", e->measured_loss},
                                        {e->validation ? "accuracy/validation" : "accuracy/test", e->measured_accuracy},
                                        {"learning_rate", e->lr},
                                        {"examples_per_second", e->images_per_second}};
    return tensorboard_add(&r->events, step_of(r, e->epoch, r->batches), values, e->images_per_second > 0 ? 6 : 5);
}

/* ---- events ---- */

bool report_tell_start(report *r, const report_start *s)
{
    r->classes = s->classes;
    r->epochs = s->epochs;
    r->validation = s->validation > 0;
    if (!open_events(r, s) || !tell(r, form_start(report_elapsed(r), s)))
        return false;
    r->started = true;
    if (!s->resumed && !tell(r, form_network(report_elapsed(r), s)))
        return false;
    if (r->text)
        print_start(r, s);
    return output_works();
}

static double position(const report *r, int64_t epoch, int64_t batch)
{
    return (double)(epoch - 1) + (r->batches > 0 ? (double)batch / (double)r->batches : 0);
}

bool report_tell_line(report *r, const report_line *l)
{
    if (!tell(r, form_line(report_elapsed(r), l)) || !add_line(r, l))
        return false;
    if (r->text)
        print_line(r, l);
    if (isfinite(l->loss))
        r->last_loss = l->loss;
    chart_add(&r->losses, position(r, l->epoch, l->batch), l->loss);
    return output_works();
}

bool report_tell_epoch(report *r, const report_epoch *e)
{
    char observation[OBSERVATION];
    observe_epoch(&r->seen, e, r->classes, observation);
    if (!tell(r, form_epoch(report_elapsed(r), e, observation)) || !add_epoch(r, e))
        return false;
    if (r->text)
        print_epoch(r, e, observation);
    seen_epoch(&r->seen, e->epoch, e->train_loss, e->measured_loss);
    r->last_accuracy = e->measured_accuracy;
    r->last_speed = e->images_per_second;
    if (!r->losses.point_count || r->losses.points[r->losses.point_count - 1].x < (double)e->epoch - 1)
        chart_add(&r->losses, (double)e->epoch - 0.5, e->train_loss); /* no mini-batch line came in this epoch */
    chart_mark(&r->losses, (double)e->epoch, e->measured_loss);
    return output_works();
}

bool report_tell_early_stop(report *r, const report_early_stop *s)
{
    if (!tell(r, form_early_stop(report_elapsed(r), s)))
        return false;
    if (r->text)
        print_early_stop(s);
    return output_works();
}

bool report_tell_stopped(report *r, int64_t epoch, int64_t batch)
{
    if (!tell(r, form_stopped(report_elapsed(r), epoch, batch)))
        return false;
    if (!r->text)
        return true;
    print_stopped(r, epoch, batch);
    return output_works();
}

void report_tell_memory(report *r, const report_memory *m)
{
    if (r->started)
        tell(r, form_memory(report_elapsed(r), m));
}

void report_tell_diverged(report *r, const report_diverged *d)
{
    tell(r, form_diverged(report_elapsed(r), d));
    complain_diverged(d, r->run);
}

bool report_nothing_left(const report_end *end, const char *run, bool json)
{
    if (json)
        return json_print(form_finished(end));
    print_finished(end, run);
    return output_works();
}

bool report_tell_done(report *r, const report_done *d)
{
    haul_transfer_stats moved = {0};
    haul_transfer_stats_get(&moved);
    if (!tell(r, form_done(report_elapsed(r), d, &moved)))
        return false;
    if (r->text)
        print_done(r, d, &moved);
    return output_works();
}

/* ---- going on ---- */

static double number_in(const cJSON *object, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

/* How an epoch was measured: on the validation data, else on the test data. */
static double measured_in(const cJSON *event, const char *validation, const char *test)
{
    return number_in(event, cJSON_HasObjectItem(event, validation) ? validation : test);
}

static void restore_line(report *r, const char *line)
{
    cJSON      *event = cJSON_Parse(line);
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(event, "event"));
    double      epoch = number_in(event, "epoch");
    if (kind && !strcmp(kind, "batch") && r->batches > 0) {
        r->last_loss = number_in(event, "loss");
        chart_add(&r->losses, epoch - 1 + number_in(event, "batch") / (double)r->batches, r->last_loss);
    }
    if (kind && !strcmp(kind, "epoch")) {
        if (!r->losses.point_count || r->losses.points[r->losses.point_count - 1].x < epoch - 1)
            chart_add(&r->losses, epoch - 0.5, number_in(event, "train_loss"));
        const double measured = measured_in(event, "validation_loss", "test_loss");
        chart_mark(&r->losses, epoch, measured);
        seen_epoch(&r->seen, (int64_t)epoch, number_in(event, "train_loss"), measured);
        r->last_accuracy = measured_in(event, "validation_accuracy", "test_accuracy");
    }
    cJSON_Delete(event);
}

void report_restore(report *r, double elapsed)
{
    FILE  *log;
    char  *line = NULL;
    size_t room = 0;
    r->began = clock_seconds() - elapsed;
    run_file_read(r->run->log, 0, &log);
    while (log && getline(&line, &room, log) > 0)
        restore_line(r, line);
    free(line);
    if (log)
        fclose(log);
}
