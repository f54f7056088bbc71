/* The events of a training as JSON objects; docs/log.md documents every field. */
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/train/log/form.h"
#include "plan/fit.h"
#include "plan/recompute.h"

/* "2026-01-31T12:00:00.000Z". */
static void put_time(cJSON *event)
{
    struct timespec now = {0};
    struct tm       utc = {0};
    char            day[32], text[48];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, sizeof text, "%s.%03dZ", day, (int)(now.tv_nsec / 1000000));
    json_text(event, "time", text);
}

void json_segments(cJSON *object, const char *name, const haul__segments *segments)
{
    cJSON *array = json_array(object, name);
    for (int i = 0; i < segments->count; i++)
        if (segments->items[i].on)
            json_push(array, cJSON_CreateString(segments->items[i].name));
}

/* To microseconds. */
static void put_seconds(cJSON *event, const char *name, double seconds)
{
    json_number(event, name, round(seconds * 1e6) / 1e6);
}

static cJSON *begin(const char *name, double elapsed)
{
    cJSON *event = json_event(name);
    put_time(event);
    put_seconds(event, "elapsed", elapsed);
    return event;
}

static void put_count(cJSON *event, const char *name, int64_t count)
{
    json_number(event, name, (double)count);
}

/* Absent where there is none. */
static void put_text(cJSON *event, const char *name, const char *text)
{
    if (text)
        json_text(event, name, text);
}

static void put_host(cJSON *event)
{
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) || !is_utf8(host))
        host[0] = 0;
    json_text(event, "host", host);
}

static void put_data(cJSON *event, const report_start *s)
{
    json_text(event, "data", s->data);
    json_text(event, "train_data", s->train_name);
    put_count(event, "train_examples", s->train_count);
    if (s->validation > 0) {
        json_number(event, "validation", s->validation);
        put_count(event, "validation_examples", s->validation_count);
    }
    if (s->test_name) {
        json_text(event, "test_data", s->test_name);
        put_count(event, "test_examples", s->test_count);
    }
    if (s->size.height) {
        cJSON *size = json_array(event, "size");
        json_push(size, cJSON_CreateNumber((double)s->size.height));
        json_push(size, cJSON_CreateNumber((double)s->size.width));
    }
    put_text(event, "augment", s->augment);
}

static void put_optimizer(cJSON *event, const report_start *s)
{
    json_text(event, "optimizer", s->optimizer);
    json_number(event, "lr", s->lr);
    if (!isnan(s->momentum))
        json_number(event, "momentum", s->momentum);
    json_number(event, "weight_decay", s->weight_decay);
    json_text(event, "schedule", s->schedule);
}

static void put_choice(cJSON *event, const haul__batch_choice *c)
{
    put_count(event, "batch_room_bytes", c->room_bytes);
    put_count(event, "largest_batch", c->largest);
    cJSON *trials = json_array(event, "batch_trials");
    for (int i = 0; i < c->count; i++) {
        cJSON *trial = cJSON_CreateObject();
        put_count(trial, "batch", c->trials[i].batch);
        put_count(trial, "peak_bytes", c->trials[i].peak_bytes);
        json_number(trial, "images_per_second", c->trials[i].per_second);
        json_push(trials, trial);
    }
}

cJSON *form_start(double elapsed, const report_start *s)
{
    cJSON *event = begin("start", elapsed);
    json_text(event, "version", haul_version());
    put_host(event);
    json_text(event, "device", haul_device_name(s->device));
    json_text(event, "model", s->model);
    put_count(event, "parameters", s->parameters);
    put_text(event, "init", s->init);
    if (s->head)
        put_count(event, "head", s->head);
    put_text(event, "left_out", *s->left_out ? s->left_out : NULL);
    if (s->frozen)
        put_count(event, "trained_parameters", s->trained);
    put_data(event, s);
    put_count(event, "epochs", s->epochs);
    put_count(event, "batch", s->batch);
    if (s->accumulate > 1)
        put_count(event, "accumulate", s->accumulate);
    if (s->pieces)
        put_count(event, "pieces", s->pieces);
    if (s->stages) {
        put_count(event, "stages", s->stages);
        json_text(event, "cuts", s->cuts);
    }
    put_optimizer(event, s);
    json_text(event, "precision", s->precision);
    put_count(event, "seed", s->seed);
    json_bool(event, "shuffle", s->shuffle);
    if (s->patience)
        put_count(event, "patience", s->patience);
    if (s->recomputes)
        json_segments(event, "recompute", &s->step->segments);
    if (s->choice->room_bytes)
        put_choice(event, s->choice);
    put_text(event, "chosen", *s->chosen ? s->chosen : NULL);
    put_text(event, "place", *s->place ? s->place : NULL);
    json_bool(event, "resumed", s->resumed);
    if (s->resumed) {
        put_count(event, "resumed_epoch", s->epoch);
        put_count(event, "resumed_batch", s->done);
        json_text(event, "data_check", s->data_check);
        put_text(event, "data_change", *s->data_change ? s->data_change : NULL);
    }
    return event;
}

cJSON *form_network(double elapsed, const report_start *s)
{
    const haul__fit_result *d = s->step;
    cJSON                  *event = begin("network", elapsed), *layers = json_array(event, "layers");
    for (size_t i = 0; i < d->layers.count; i++) {
        const haul__layer *l = &d->layers.items[i];
        if (!l->is_leaf)
            continue;
        cJSON *row = cJSON_CreateObject();
        json_text(row, "name", l->path);
        json_text(row, "kind", l->kind);
        json_shape(row, "output", &l->output);
        put_count(row, "parameters", l->parameters);
        json_number(row, "flops", l->flops);
        json_push(layers, row);
    }
    put_count(event, "parameters", d->layers.parameters);
    put_count(event, "parameter_bytes", d->layers.parameter_bytes);
    json_number(event, "step_flops", d->step.flops);
    put_count(event, "peak_bytes", haul__fit_step_peak(d, s->device));
    put_count(event, "memory_bytes", haul__device_memory(s->device));
    return event;
}

cJSON *form_line(double elapsed, const report_line *l)
{
    cJSON *event = begin("batch", elapsed);
    put_count(event, "epoch", l->epoch);
    put_count(event, "batch", l->batch);
    json_number(event, "loss", l->loss);
    json_number(event, "lr", l->lr);
    json_number(event, "momentum", l->momentum);
    if (l->spilled_bytes >= 0)
        put_count(event, "spilled_bytes", l->spilled_bytes);
    return event;
}

cJSON *form_epoch(double elapsed, const report_epoch *e, const char *observation)
{
    cJSON *event = begin("epoch", elapsed);
    put_count(event, "epoch", e->epoch);
    json_number(event, "train_loss", e->train_loss);
    json_number(event, "train_accuracy", e->train_accuracy);
    json_number(event, e->validation ? "validation_loss" : "test_loss", e->measured_loss);
    json_number(event, e->validation ? "validation_accuracy" : "test_accuracy", e->measured_accuracy);
    json_bool(event, "best", e->best);
    json_number(event, "lr", e->lr);
    put_seconds(event, "seconds", e->seconds);
    json_number(event, "images_per_second", e->images_per_second);
    put_seconds(event, "wait_seconds", e->wait_seconds);
    if (*observation)
        json_text(event, "observation", observation);
    return event;
}

cJSON *form_early_stop(double elapsed, const report_early_stop *s)
{
    cJSON *event = begin("early_stop", elapsed);
    put_count(event, "epoch", s->epoch);
    put_count(event, "patience", s->patience);
    put_count(event, "best_epoch", s->best_epoch);
    json_number(event, "best_loss", s->best_loss);
    return event;
}

cJSON *form_stopped(double elapsed, int64_t epoch, int64_t batch)
{
    cJSON *event = begin("stopped", elapsed);
    put_count(event, "epoch", epoch);
    put_count(event, "batch", batch);
    return event;
}

cJSON *form_diverged(double elapsed, const report_diverged *d)
{
    cJSON *event = begin("diverged", elapsed);
    put_count(event, "epoch", d->epoch);
    put_count(event, "batch", d->batch);
    json_text(event, "what", d->what);
    json_number(event, "loss_before", d->loss_before);
    json_number(event, "lr", d->lr);
    return event;
}

/* Negative: it is not known, which is null. */
static void put_known(cJSON *event, const char *name, int64_t count)
{
    json_number(event, name, count < 0 ? NAN : (double)count);
}

static void put_known_text(cJSON *event, const char *name, const char *text)
{
    if (text)
        json_text(event, name, text);
    else
        json_number(event, name, NAN);
}

static void put_origins(cJSON *event, const char *name, const haul_memory_origin *rows, int count)
{
    cJSON *list = json_array(event, name);
    for (int i = 0; i < count; i++) {
        cJSON *row = cJSON_CreateObject();
        json_text(row, "name", rows[i].name);
        put_count(row, "bytes", rows[i].bytes);
        put_count(row, "blocks", rows[i].blocks);
        json_push(list, row);
    }
}

/* NULL: what failed was not an allocation for tensors. */
static void put_failure(cJSON *event, const haul_memory_report *known)
{
    static const haul_memory_report unknown = {.requested = -1,
                                               .block = -1,
                                               .allocated = -1,
                                               .reserved = -1,
                                               .overhead = -1,
                                               .free = -1,
                                               .room = -1,
                                               .spill_bytes = -1,
                                               .spill_nanoseconds = -1};
    const haul_memory_report       *r = known ? known : &unknown;
    put_known_text(event, "device", known ? haul_device_name(r->device) : NULL);
    put_known_text(event, "operation", known ? r->operation : NULL);
    put_known_text(event, "module", known ? r->module : NULL);
    put_known(event, "requested_bytes", r->requested);
    put_known(event, "block_bytes", r->block);
    put_known(event, "allocated_bytes", r->allocated);
    put_known(event, "reserved_bytes", r->reserved);
    put_known(event, "overhead_bytes", r->overhead);
    put_known(event, "free_bytes", r->free);
    put_known(event, "room_bytes", r->room);
    put_known(event, "spill_bytes", r->spill_bytes);
    json_number(event, "spill_seconds", r->spill_nanoseconds < 0 ? NAN : (double)r->spill_nanoseconds / 1e9);
    json_bool(event, "by_module", r->by_module);
    put_origins(event, "origins", r->origins, r->origin_count);
    put_origins(event, "roles", r->roles, r->role_count);
}

cJSON *form_memory(double elapsed, const report_memory *m)
{
    cJSON *event = begin("out_of_memory", elapsed);
    put_count(event, "epoch", m->epoch);
    put_count(event, "batch", m->batch);
    put_count(event, "limit_bytes", m->limit_bytes);
    put_count(event, "expected_bytes", m->expected_bytes);
    put_failure(event, m->failure);
    return event;
}

static void put_ranks(cJSON *event, const report_done *d)
{
    double all = 0;
    cJSON *peaks = d->rank_peak_bytes ? cJSON_AddArrayToObject(event, "rank_peak_bytes") : NULL;
    for (int r = 0; peaks && r < d->ranks; r++)
        cJSON_AddItemToArray(peaks, cJSON_CreateNumber(d->rank_peak_bytes[r]));
    if (!d->state_bytes)
        return;
    for (int r = 0; r < d->ranks; r++)
        all += d->state_bytes[r];
    json_number(event, "state_bytes", d->state_bytes[0]);
    json_number(event, "state_bytes_of_all", all);
}

cJSON *form_done(double elapsed, const report_done *d, const haul_transfer_stats *moved)
{
    cJSON *event = begin("done", elapsed);
    json_text(event, "device", haul_device_name(d->device));
    put_count(event, "epochs", d->epochs);
    put_count(event, "best_epoch", d->best_epoch);
    json_number(event, "best_loss", d->best_loss);
    if (d->tested) {
        json_number(event, "test_loss", d->test_loss);
        json_number(event, "test_accuracy", d->test_accuracy);
    }
    json_number(event, "step_ms", 1e3 * d->step_seconds);
    put_count(event, "h2d_bytes", moved->h2d_bytes);
    put_count(event, "d2h_bytes", moved->d2h_bytes);
    put_count(event, "transfers", moved->h2d_count + moved->d2h_count + moved->d2d_count);
    put_count(event, "peak_bytes", d->peak_bytes);
    put_count(event, "limit_bytes", d->limit_bytes);
    put_count(event, "spilled_bytes", d->spilled_bytes);
    put_count(event, "spilled_to_file_bytes", d->spilled_to_file_bytes);
    put_seconds(event, "spill_file_seconds", d->spill_file_seconds);
    put_count(event, "ranks", d->ranks);
    put_count(event, "group_bytes", d->group_bytes);
    put_seconds(event, "exchange_seconds", d->exchange_seconds);
    json_number(event, "hidden_share", d->hidden_share);
    put_ranks(event, d);
    put_count(event, "waits", d->waits);
    put_count(event, "followed", d->followed);
    put_count(event, "eager_steps", d->eager_steps);
    json_text(event, "unfollowed", d->unfollowed);
    json_number(event, "step_peak_bytes", d->step_peak_bytes ? (double)d->step_peak_bytes : NAN);
    put_seconds(event, "seconds", d->seconds);
    return event;
}

cJSON *form_finished(const report_end *end)
{
    cJSON *event = begin("finished", end->elapsed);
    put_count(event, "epochs", end->epochs);
    return event;
}
