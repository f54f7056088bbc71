/* The training loop. */
#include "trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "classes.h"
#include "cli.h"
#include "network.h"
#include "source.h"

/* ---- medians ---- */

void samples_add(samples *s, double value)
{
    if (s->count == s->room) {
        size_t  room = s->room ? 2 * s->room : 1024;
        double *grown = realloc(s->values, room * sizeof *grown);
        if (!grown)
            return; /* the median is of those before */
        s->values = grown;
        s->room = room;
    }
    s->values[s->count++] = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double samples_median(samples *s)
{
    if (!s->count)
        return 0;
    qsort(s->values, s->count, sizeof *s->values, by_value);
    return s->values[s->count / 2];
}

/* ---- opening ---- */

bool trainer_open_data(trainer *t)
{
    train_options *o = t->options;

    t->device = haul_device_get(o->device);
    if (haul_set_num_threads((int)o->threads) || haul_set_device(t->device)) {
        complain_error();
        return false;
    }
    t->train_data = source_open(o->data, false);
    t->test_data = t->train_data ? source_open(o->data, true) : NULL;
    if (!t->test_data)
        return false;
    if (source_spec(t->train_data, &t->spec)) {
        complain_error();
        return false;
    }
    if (!o->model)
        o->model = network_default(&t->spec);
    return true;
}

static haul_optimizer *new_optimizer(const train_options *o, haul_module *net)
{
    if (!strcmp(o->optimizer, "sgd"))
        return haul_sgd(net, o->lr, .momentum = o->momentum, .weight_decay = o->weight_decay);
    if (!strcmp(o->optimizer, "adam"))
        return haul_adam(net, o->lr, .weight_decay = o->weight_decay);
    return haul_adamw(net, o->lr, .weight_decay = o->weight_decay != 0 ? o->weight_decay : HAUL_ZERO);
}

/* What --precision asks for, of this thread and of the optimizer. */
static haul_status set_precision(trainer *t)
{
    const char *precision = t->options->precision;

    t->lower = !strcmp(precision, "bf16") ? HAUL_BF16 : !strcmp(precision, "f16") ? HAUL_F16 : HAUL_DTYPE_NONE;
    if (t->lower == HAUL_F16 && !(t->scaler = haul_grad_scaler_new(t->optimizer)))
        return haul_error_status();
    return haul_set_matmul_precision(strcmp(precision, "tf32") ? HAUL_PRECISION_HIGHEST : HAUL_PRECISION_HIGH);
}

haul_status trainer_build(trainer *t)
{
    const train_options *o = t->options;

    t->loader = haul_loader_new(t->train_data, .batch = o->batch, .shuffle = o->shuffle, .seed = (uint64_t)o->seed,
                                .workers = (int)o->workers, .device = t->device);
    haul_manual_seed((uint64_t)o->seed);
    t->net = network_new(o->model, &t->spec);
    t->optimizer = t->net ? new_optimizer(o, t->net) : NULL;
    t->window_loss = haul_scalar(0);
    t->epoch_hits = haul_zeros(HAUL_I64, HAUL_SCALAR_SHAPE);
    if (!t->loader || !t->optimizer || haul_tensor_check(t->window_loss) || haul_tensor_check(t->epoch_hits))
        return haul_error_status();
    return set_precision(t);
}

static bool open_network(trainer *t)
{
    const char *init = t->options->init;

    if (!trainer_build(t) && (!init || !haul_load_weights(init, t->net)))
        return true;
    complain_error();
    return false;
}

static bool tell_start(trainer *t)
{
    const train_options *o = t->options;
    report_start         s = {.device = t->device,
                              .model = o->model,
                              .train_name = haul_dataset_name(t->train_data),
                              .test_name = haul_dataset_name(t->test_data),
                              .optimizer = o->optimizer,
                              .precision = o->precision,
                              .parameters = haul_module_parameter_count(t->net),
                              .train_count = haul_dataset_count(t->train_data),
                              .test_count = haul_dataset_count(t->test_data),
                              .epochs = o->epochs,
                              .batch = o->batch,
                              .seed = o->seed,
                              .lr = o->lr,
                              .classes = t->spec.y.classes,
                              .resumed = o->resume,
                              .stored_lr = t->stored_lr,
                              .epoch = t->position.epoch,
                              .done = t->position.batch};

    if (haul_error_status()) {
        complain_error();
        return false;
    }
    return report_started(&t->report, &s);
}

/* What a run keeps is JSON, in UTF-8. */
static bool can_be_kept(const trainer *t)
{
    if (!t->run.path)
        return true;
    if (is_utf8(t->options->data))
        return classes_are_text(t->train_data);
    complain("--data %s is not UTF-8 and cannot be kept with the run; rename the folder", t->options->data);
    return false;
}

/* The folder is made when all else is known to be fine; nobody may have put a run there meanwhile. */
static bool begin_run(trainer *t)
{
    return run_lock(&t->run) && run_is_free(&t->run) && run_open(&t->run, 0);
}

bool trainer_open(trainer *t)
{
    t->position = (haul_training_position){.epoch = 1};
    if (!trainer_open_data(t) || !computes_values(t->device, "learned", ", or --estimate to learn what a step takes"))
        return false;
    t->waits = t->device == haul_cpu();
    if (!can_be_kept(t) || !open_network(t))
        return false;
    report_init(&t->report, t->options->json, &t->run, haul_loader_batches(t->loader));
    if (!(t->options->resume ? trainer_load(t) : begin_run(t)))
        return false;
    return tell_start(t);
}

void trainer_close(trainer *t)
{
    report_close(&t->report);
    run_close(&t->run);
    free(t->steps.values);
}

/* ---- a step ---- */

static haul_status learn(trainer *t, haul_tensor *loss)
{
    haul_status status = haul_optimizer_zero_grad(t->optimizer);

    if (status)
        return status;
    if (!t->scaler) {
        status = haul_backward(loss, HAUL_NONE);
        return status ? status : haul_optimizer_step(t->optimizer);
    }
    status = haul_backward(haul_grad_scaler_scale(t->scaler, loss), HAUL_NONE);
    if (!status)
        status = haul_grad_scaler_step(t->scaler, t->optimizer);
    return status ? status : haul_grad_scaler_update(t->scaler);
}

/* Nothing here waits for the device. */
haul_status trainer_step(trainer *t, const haul_batch *batch)
{
    haul_scope *scope = haul_scope_push();

    if (!scope)
        return haul_error_status();
    haul_autocast_state before = haul_autocast_begin("all", t->lower);
    haul_tensor        *logits = haul_call(t->net, batch->x);
    haul_tensor        *loss = network_loss(&t->spec, logits, batch->y);
    haul_status         status = haul_autocast_end(before);
    if (!status)
        status = learn(t, loss);
    if (!status)
        status = haul_add_into(t->window_loss, t->window_loss, haul_detach(loss));
    if (!status)
        status = haul_add_into(t->epoch_hits, t->epoch_hits, network_hits(&t->spec, logits, batch->y));
    haul_scope_pop(scope);
    return status;
}

/* The most that was allocated on the device since the last reset. */
static int64_t peak_since_reset(const trainer *t)
{
    haul_memory_stats memory = {0};

    haul_memory_stats_get(t->device, &memory);
    return memory.peak_allocated;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The first two steps make what all later ones find: gradients, the optimizer's state. */
static haul_status measured_step(trainer *t, const haul_batch *batch)
{
    enum { FIRST_STEPS = 2 };

    t->peak_bytes = larger(t->peak_bytes, peak_since_reset(t));
    haul_status status = haul_memory_reset_peak(t->device);
    double      began = clock_seconds();
    if (!status)
        status = trainer_step(t, batch);
    if (t->waits)
        samples_add(&t->steps, clock_seconds() - began);
    if (t->made_steps++ >= FIRST_STEPS)
        t->step_peak_bytes = larger(t->step_peak_bytes, peak_since_reset(t));
    return status;
}

static haul_status count_step(trainer *t, const haul_batch *batch)
{
    haul_status status = measured_step(t, batch);

    t->window_steps++;
    t->window_batches++;
    t->epoch_answers += network_answers(batch->y);
    t->epoch_examples += batch->size;
    t->position.batch = batch->index + 1;
    return status;
}

/* Read what the mini-batches since the last line lost. Where a step does not wait for the device, this does: the time
 * since the last reading then says how long its steps took. */
static haul_status read_window(trainer *t, double *mean)
{
    double sum = haul_item(t->window_loss);

    if (haul_error_status())
        return haul_error_status();
    if (!t->waits && t->window_steps)
        samples_add(&t->steps, (clock_seconds() - t->window_began) / (double)t->window_steps);
    *mean = t->window_batches ? sum / (double)t->window_batches : 0;
    t->diverged = t->diverged || !isfinite(sum);
    t->epoch_loss += sum;
    t->epoch_batches += t->window_batches;
    t->window_batches = t->window_steps = 0;
    t->window_began = clock_seconds();
    return haul_zero_into(t->window_loss);
}

/* ---- an epoch ---- */

static void draw_progress(trainer *t, double began)
{
    char           label[64];
    double         seconds = clock_seconds() - began;
    progress_state s = {
        .label = label, .done = t->position.batch, .total = t->report.batches, .loss = t->report.last_loss};

    if (!t->report.bar.on)
        return;
    snprintf(label, sizeof label, "Epoch %lld/%lld", (long long)t->position.epoch, (long long)t->options->epochs);
    if (seconds > 0.2 && t->epoch_examples) {
        s.per_second = (double)t->epoch_examples / seconds;
        s.seconds_left = (double)(s.total - s.done) * (double)t->options->batch / s.per_second;
    }
    progress_draw(&t->report.bar, &s);
}

/* After a step: a line, a checkpoint, when they are due. */
static bool after_step(trainer *t)
{
    if (t->position.batch % t->options->log_every == 0) {
        double mean;
        if (read_window(t, &mean)) {
            complain_error();
            return false;
        }
        if (!report_batch(&t->report, t->position.epoch, t->position.batch, mean)) {
            if (!output_works() && !t->diverged) /* nobody reads any more: what was trained is kept */
                trainer_save(t, true);
            return false;
        }
    }
    if (t->diverged)
        return true;
    if (t->options->save_every > 0 && clock_seconds() - t->saved_at > t->options->save_every)
        return trainer_save(t, false);
    return true;
}

static bool train_batches(trainer *t)
{
    double began = clock_seconds();

    t->window_began = began;
    t->epoch_examples = 0;
    if (t->position.batch >= t->report.batches)
        return true; /* resumed between the epoch's last step and its test */
    if (haul_loader_start_at(t->loader, t->position.epoch, t->position.batch)) {
        complain_error();
        return false;
    }
    while (!interrupted() && !t->diverged) {
        const haul_batch *batch = haul_loader_next(t->loader);
        if (!batch)
            break;
        if (count_step(t, batch))
            break;
        if (!after_step(t))
            return false;
        draw_progress(t, began);
    }
    if (haul_error_status() || haul_device_sync(t->device)) {
        complain_error();
        return false;
    }
    t->epoch_seconds = clock_seconds() - began;
    return true;
}

static bool end_epoch(trainer *t, const network_score *test)
{
    double       mean;
    report_epoch e = {.epoch = t->position.epoch,
                      .epochs = t->options->epochs,
                      .test_loss = test->loss,
                      .test_accuracy = test->accuracy};

    if (read_window(t, &mean)) {
        complain_error();
        return false;
    }
    e.train_loss = t->epoch_batches ? t->epoch_loss / (double)t->epoch_batches : NAN;
    e.train_accuracy = t->epoch_answers ? (double)haul_item_i64(t->epoch_hits) / (double)t->epoch_answers : NAN;
    e.images_per_second = t->epoch_seconds > 0 ? (double)t->epoch_examples / t->epoch_seconds : 0;
    if (haul_error_status() || haul_zero_into(t->epoch_hits)) {
        complain_error();
        return false;
    }
    t->epoch_loss = 0;
    t->epoch_batches = t->epoch_answers = 0;
    if (!isfinite(test->loss))
        t->diverged = true;
    bool told = report_epoch_end(&t->report, &e);
    if (t->diverged || (!told && output_works()))
        return told;
    t->position = (haul_training_position){.epoch = t->position.epoch + 1};
    return trainer_save(t, true) && told;
}

/* In the precision that was trained in, with a loader whose memory is free again when the training goes on. */
static haul_status evaluate(trainer *t, network_score *test)
{
    const train_options *o = t->options;
    haul_scope          *scope = haul_scope_push();
    haul_loader         *loader =
        haul_loader_new(t->test_data, .batch = o->batch, .workers = (int)o->workers, .device = t->device);
    haul_status status = loader ? HAUL_OK : haul_error_status();

    if (!status) {
        haul_autocast_state before = haul_autocast_begin("all", t->lower);
        status = network_evaluate(t->net, &t->spec, loader, interrupted, test);
        haul_autocast_end(before);
    }
    haul_scope_pop(scope);
    return status;
}

static int end_interrupted(trainer *t)
{
    if (!trainer_save(t, true))
        return EXIT_FAILED;
    if (t->diverged)
        return EXIT_DIVERGED;
    bool told = report_stopped(&t->report, t->position.epoch, t->position.batch);
    return told || !output_works() ? EXIT_INTERRUPTED : EXIT_FAILED; /* a closed terminal cannot be told */
}

/* -1 to go on, else an exit code. */
static int train_epoch(trainer *t)
{
    network_score test = {0};

    if (!train_batches(t))
        return EXIT_FAILED;
    if (t->diverged)
        return EXIT_DIVERGED;
    if (!interrupted() && evaluate(t, &test)) {
        complain_error();
        return EXIT_FAILED;
    }
    if (interrupted())
        return end_interrupted(t);
    if (!end_epoch(t, &test))
        return EXIT_FAILED;
    return t->diverged ? EXIT_DIVERGED : -1;
}

int trainer_run(trainer *t)
{
    double began = clock_seconds();

    t->saved_at = began;
    while (t->position.epoch <= t->options->epochs) {
        int code = train_epoch(t);
        if (code == EXIT_DIVERGED)
            report_diverged(&t->report, t->position.epoch, t->position.batch, t->options->lr);
        if (code >= 0)
            return code;
    }
    report_done d = {.device = t->device,
                     .step_seconds = samples_median(&t->steps),
                     .seconds = clock_seconds() - began,
                     .peak_bytes = larger(t->peak_bytes, peak_since_reset(t)),
                     .step_peak_bytes = t->step_peak_bytes,
                     .epochs = t->options->epochs};
    return report_finished(&t->report, &d) ? EXIT_OK : EXIT_FAILED;
}
