/* The training loop. */
#include "cli/train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/model/classes.h"
#include "cli/model/network.h"
#include "cli/options/config.h"
#include "cli/run_folder/account.h"
#include "cli/shared/cli.h"
#include "cli/train/init.h"
#include "cli/train/pieces/pieces.h"
#include "cli/train/pieces/ranks.h"
#include "cli/train/pieces/stages.h"
#include "cli/train/place/choose.h"
#include "cli/train/planner.h"

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

/* Of two in the middle the lower one: what disturbs a step makes it longer. */
double samples_median(samples *s)
{
    if (!s->count)
        return 0;
    median_of(s->values, s->count); /* which sorts them */
    return s->values[(s->count - 1) / 2];
}

/* ---- opening ---- */

/* A run that goes on has the size with which it began, even if the pictures suggest another one now. */
static bool choose_size(const trainer *t, example_size *size)
{
    const train_options *o = t->options;
    input_form           input;
    *size = (example_size){.height = o->size, .width = o->size, .context = o->context};
    if (!o->resume || !source_resizes(o->data))
        return true;
    if (!run_input(&t->run, &input))
        return false;
    if (input_is_picture(&input))
        *size = source_size(o->data, &input.shape);
    return true;
}

/* What the device takes for its driver so far. */
static int64_t overhead_of(const haul_device *device)
{
    haul_memory_stats memory = {.overhead = 0};
    return haul_memory_stats_get(device, &memory) ? 0 : memory.overhead;
}

haul_status trainer_set_limit(const trainer *t)
{
    if (t->plans.limit.bytes)
        return haul_memory_set_limit(t->device, t->plans.limit.bytes);
    return haul_memory_set_tensor_limit(t->device, t->expected.limit);
}

bool trainer_open_data(trainer *t)
{
    train_options *o = t->options;
    if (!init_choose_model(t))
        return false;
    if (haul_set_num_threads((int)o->threads)) {
        complain_error();
        return false;
    }
    const bool placed = o->place || o->plan || o->devices;
    t->device = device_use(placed && !strcmp(o->device, "auto") ? "cpu" : o->device);
    if (!t->device)
        return false;
    t->metrics = strcmp(o->metrics, "cpu") ? NULL : haul_cpu();
    if (t->plans.limit.bytes)
        t->plans.limit.overhead = overhead_of(t->device);
    if (!o->data)
        o->data = network_data(o->model);
    training_data_plan plan = {
        .source = o->data, .validation = o->validation, .seed = (uint64_t)o->seed, .augment = t->plans.augment};
    if (!choose_size(t, &plan.size) || !training_data_open(&plan, &t->data))
        return false;
    if (!o->model)
        o->model = network_default(&t->data.spec);
    return network_suits(o->model, &t->data.spec, o->data) && init_suits(t);
}

/* Zero is the default of weight decay except for AdamW. */
static haul_optimizer *new_optimizer(const train_options *o, haul_module *net)
{
    const char *name = o->optimizer;
    if (!strcmp(name, "sgd"))
        return haul_sgd(net, o->lr, .momentum = o->momentum, .weight_decay = o->weight_decay);
    if (!strcmp(name, "adam"))
        return haul_adam(net, o->lr, .weight_decay = o->weight_decay);
    if (!strcmp(name, "adagrad"))
        return haul_adagrad(net, o->lr, .weight_decay = o->weight_decay);
    if (!strcmp(name, "adadelta"))
        return haul_adadelta(net, o->lr, .weight_decay = o->weight_decay);
    if (!strcmp(name, "nadam"))
        return haul_nadam(net, o->lr, .weight_decay = o->weight_decay);
    if (!strcmp(name, "radam"))
        return haul_radam(net, o->lr, .weight_decay = o->weight_decay);
    if (!strcmp(name, "lion"))
        return haul_lion(net, o->lr, .weight_decay = o->weight_decay);
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

/* A rank that is a thread draws from a generator of its own. */
static haul_status seed_draws(uint64_t seed)
{
    haul_generator *own = haul_current_generator();
    if (own)
        return haul_generator_state_set(own, (haul_random_state){.seed = seed});
    haul_manual_seed(seed);
    return HAUL_OK;
}

haul_status trainer_build(trainer *t)
{
    const train_options *o = t->options;
    t->loader = pieces_loader(t);
    if (seed_draws((uint64_t)o->seed))
        return haul_error_status();
    t->net = network_new(o->model, &o->sizes, &t->data.spec);
    if (t->net && place_modules(&t->places, t->net, t->device))
        return haul_error_status();
    if (t->net && init_freeze(t))
        return haul_error_status();
    t->optimizer = t->net ? new_optimizer(o, t->net) : NULL;
    if (t->optimizer && haul_optimizer_set_offload(t->optimizer, !strcmp(o->offload, "optimizer")))
        return haul_error_status();
    network_sums(t->metrics, &t->window.loss, &t->epoch.hits);
    t->window.finite = haul_zeros_like(t->epoch.hits);
    if (!t->loader || !t->optimizer || haul_tensor_check(t->window.loss) || haul_tensor_check(t->window.finite) ||
        haul_tensor_check(t->epoch.hits))
        return haul_error_status();
    t->recording = NULL;
    if (t->follows && trainer_begin_recording(t))
        return haul_error_status();
    haul_status status = set_precision(t);
    return status ? status : pieces_begin(t);
}

static bool open_network(trainer *t)
{
    if (!trainer_build(t) && !haul__segments_apply(&t->expected.segments, t->net) && !trainer_make_schedule(t) &&
        !init_load(t) && !ranks_divide(t))
        return true;
    complain_error();
    return false;
}

bool trainer_covers_other_epochs(const trainer *t)
{
    return t->resumed.epochs && t->resumed.epochs != t->options->epochs &&
           schedule_is_laid_over_epochs(&t->plans.schedule);
}

/* What the datasets are. */
static void describe_data(const trainer *t, report_start *s)
{
    const training_data *d = &t->data;
    s->data = t->options->data;
    s->train_name = haul_dataset_name(d->train);
    s->train_count = haul_dataset_count(d->train);
    s->validation = t->options->validation;
    s->validation_count = d->validation ? haul_dataset_count(d->validation) : 0;
    s->test_name = d->test ? haul_dataset_name(d->test) : NULL;
    s->test_count = d->test ? haul_dataset_count(d->test) : 0;
    s->classes = d->spec.y.classes;
    s->size = d->size;
}

static const char *data_check_name(data_check check)
{
    static const char *const names[] = {
        [DATA_SAME] = "same", [DATA_VARIED] = "same", [DATA_CHANGED] = "changed", [DATA_UNKNOWN] = "unknown"};
    return names[check];
}

static bool tell_start(trainer *t)
{
    const train_options  *o = t->options;
    const standing_limits limits = trainer_limits(t);
    report_start          s = {.device = t->device,
                               .step = &t->expected,
                               .model = o->model,
                               .init = o->init,
                               .head = o->head,
                               .frozen = o->freeze,
                               .head_name = network_head(o->model),
                               .augment = o->augment,
                               .optimizer = o->optimizer,
                               .schedule = o->schedule,
                               .precision = o->precision,
                               .parameters = haul_module_parameter_count(t->net),
                               .epochs = o->epochs,
                               .batch = o->batch,
                               .accumulate = o->accumulate,
                               .pieces = o->pieces,
                               .ranks = t->ranks.count,
                               .stages = o->stages,
                               .cuts = t->cuts,
                               .rank_devices = t->ranks.threads ? strchr(o->group, ':') + 1 : NULL,
                               .choice = &t->choice,
                               .steps = standing_epoch_updates(&limits),
                               .seed = o->seed,
                               .patience = o->patience,
                               .lr = o->lr,
                               .momentum = strcmp(o->optimizer, "sgd") != 0 ? NAN : o->momentum,
                               .weight_decay = o->weight_decay,
                               .shuffle = o->shuffle,
                               .recomputes = train_options_recompute(o),
                               .resumed = o->resume,
                               .data_check = data_check_name(t->resumed.data_check),
                               .data_change = t->resumed.data_change,
                               .begins_anew = t->resumed.begins_epoch_anew,
                               .stored_epochs = trainer_covers_other_epochs(t) ? t->resumed.epochs : 0,
                               .epoch = t->position.epoch,
                               .done = t->position.batch};
    char                  placed[400], left_out[400] = "";
    place_text(&t->places, t->net, t->device, placed, sizeof placed);
    s.place = placed;
    s.chosen = t->chosen;
    if (!o->resume)
        init_left_out(t, left_out, sizeof left_out);
    s.left_out = left_out;
    s.trained = init_trained(t);
    describe_data(t, &s);
    if (haul_error_status()) {
        complain_error();
        return false;
    }
    return report_tell_start(&t->report, &s);
}

/* What a run keeps is JSON, in UTF-8. */
static bool can_be_kept(const trainer *t)
{
    if (!t->run.path)
        return true;
    const char *names[] = {"data", t->options->data, "init", t->options->init ? t->options->init : ""};
    for (int i = 0; i < 4; i += 2)
        if (!is_utf8(names[i + 1])) {
            complain("--%s %s is not UTF-8 and cannot be kept with the run; rename it", names[i], names[i + 1]);
            return false;
        }
    return classes_are_text(t->data.train);
}

/* True if the plan is for the step of this training, or for that without micro-batches. They are recorded before
 * anything is placed. */
static bool suits_plan(trainer *t, const place_list *places)
{
    haul_program step = {.operation_count = 0};
    bool         fine = planner_open(t);
    haul_status  status = fine ? planner_record_whole(t->planner, t->options->batch, &step) : HAUL_OK;
    if (fine && !status && t->options->pipeline > 1 && !place_is_for(places, &step)) {
        haul_program_free(&step);
        status = planner_record(t->planner, t->options->batch, false, &step);
    }
    if (status)
        complain_error();
    fine = fine && !status && place_suits(places, t->options->plan, &step);
    haul_program_free(&step);
    return fine;
}

static bool open_places(trainer *t)
{
    place_list places = {0};
    if (!choose_is_decided(t))
        return choose_devices(t);
    const bool fine =
        place_read(t->options->place, t->options->plan, &places) && (!t->options->plan || suits_plan(t, &places));
    t->places = places;
    return fine;
}

/* With the model that was chosen, so that the same options give the same training later. */
static bool keep_options(const trainer *t)
{
    return !t->run.path || t->ranks.silent || config_write(t->run.config, t->values);
}

/* The run has its plan in its folder, with which it can be resumed. */
static bool keep_plan(trainer *t)
{
    if (!t->run.path || !t->places.plan)
        return true;
    if (haul_plan_save(t->places.plan, t->run.plan)) {
        complain_error();
        return false;
    }
    t->options->plan = t->run.plan;
    return true;
}

/* The folder is made when all else is known to be fine. It must not contain another run by then. */
static bool begin_run(trainer *t)
{
    return t->ranks.silent || (run_lock(&t->run) && run_is_free(&t->run) && run_check(&t->run) && keep_plan(t) &&
                               init_keep_model(t) && keep_options(t) && run_open(&t->run, 0));
}

/* From here on. The dry run counted memory that was allocated before, too. */
static haul_status limit_memory(trainer *t)
{
    haul_status status = haul_memory_release_cached(t->device);
    if (!status)
        status = haul_memory_reset_peak(t->device);
    return status || !t->expected.limit ? status : trainer_set_limit(t);
}

static bool open_training(trainer *t)
{
    if (limit_memory(t)) {
        complain_error();
        return false;
    }
    if (!open_network(t) || !trainer_identify_data(t))
        return false;
    report_init(&t->report, t->options->json, t->options->quiet, &t->run, pieces_batches(t));
    t->report.writes_events = t->options->tensorboard;
    if (t->options->sync_report)
        t->report.bar.on = false; /* the report is on standard error, too */
    if (!(t->options->resume ? trainer_load(t) && keep_options(t) : begin_run(t)))
        return false;
    return tell_start(t);
}

int trainer_open(trainer *t)
{
    t->position = (haul_training_position){.epoch = 1};
    t->stop.patience = t->options->patience;
    if (!trainer_open_data(t) || !computes_values(t->device, "learned", ", or --estimate to learn what a step takes"))
        return EXIT_FAILED;
    if (ranks_end_turn(t) || ranks_compare(t))
        return complain_error();
    if (!can_be_kept(t) || !open_places(t))
        return EXIT_FAILED;
    t->waits = t->device == haul_cpu();
    int code = trainer_expect(t);
    if (code >= 0)
        return code;
    if (!trainer_fits(t))
        return trainer_tell_memory(t, false);
    if (stages_choose(t))
        return complain_error();
    if (t->run.path && !t->ranks.silent && !(t->ledger = run_account_begin(t->device, t->expected.step.flops)))
        return EXIT_FAILED;
    return open_training(t) ? -1 : EXIT_FAILED;
}

void trainer_close(trainer *t)
{
    pace_end(t);
    run_account_end(t->ledger);
    run_profile_close(&t->profile);
    if (t->device && t->expected.limit)
        haul_memory_set_limit(t->device, 0);
    if (t->device && t->options->spill)
        haul_memory_set_spill(t->device, false);
    haul__fit_free(&t->expected);
    planner_free(t->planner);
    place_free(&t->places);
    report_close(&t->report);
    run_close(&t->run);
    free(t->counts.seconds.values);
    cJSON_free(t->data_identity);
}

/* ---- running ---- */

static int end_diverged(trainer *t)
{
    if (!t->ranks.silent)
        report_tell_diverged(&t->report, &t->divergence);
    return EXIT_DIVERGED;
}

/* Nothing can be written to a closed terminal. */
static int tell_stopped(trainer *t, int64_t epoch, int64_t batch)
{
    bool told = report_tell_stopped(&t->report, epoch, batch);
    return told || !output_works() ? EXIT_INTERRUPTED : EXIT_FAILED;
}

static int end_interrupted(trainer *t)
{
    if (!trainer_save(t, true))
        return EXIT_FAILED;
    if (t->diverged)
        return end_diverged(t);
    return tell_stopped(t, t->position.epoch, t->position.batch);
}

/* -1 to go on, else an exit code. */
static int run_epoch(trainer *t)
{
    int64_t epoch = t->position.epoch;
    if (haul_label_begin("training")) {
        complain_error();
        return EXIT_FAILED;
    }
    bool trained = trainer_train_epoch(t);
    haul_label_end();
    if (!trained)
        return EXIT_FAILED;
    if (!t->diverged && !ranks_stopped(t) && !trainer_end_epoch(t))
        return EXIT_FAILED;
    if (t->diverged)
        return end_diverged(t);
    return t->position.epoch == epoch ? end_interrupted(t) : -1;
}

static bool tell_early_stop(trainer *t)
{
    report_early_stop s = {.epoch = t->position.epoch - 1,
                           .patience = t->options->patience,
                           .best_epoch = t->stop.best_epoch,
                           .best_loss = t->stop.best,
                           .validation = t->data.validation != NULL};
    return report_tell_early_stop(&t->report, &s);
}

spilled_bytes trainer_spilled(const trainer *t)
{
    haul_memory_stats stats = {.spilled_total = 0};
    haul_memory_stats_get(t->device, &stats);
    return (spilled_bytes){.all = stats.spilled_total - t->counts.spilled_before.all,
                           .to_file = stats.spilled_to_file_total - t->counts.spilled_before.to_file,
                           .file_ns = stats.spill_file_nanoseconds - t->counts.spilled_before.file_ns};
}

void trainer_count_anew(trainer *t)
{
    haul_transfer_stats_reset();
    t->counts.waits_before = haul_sync_count();
    t->counts.spilled_before = (spilled_bytes){0};
    t->counts.spilled_before = trainer_spilled(t);
}

bool trainer_save_account(trainer *t)
{
    haul_ledger *ledger = t->ledger;
    if (!ledger || t->run.log_fd < 0)
        return true;
    if (!run_check(&t->run))
        return false;
    t->ledger = NULL;
    return run_account_save(ledger, t->device, &t->run) && run_profile_save(&t->profile, t->device, t->run.path);
}

/* Why steps were not followed; "": the first one runs as it is, and the others were, or --eager was given. */
static const char *reason_of(const trainer *t, const haul_recording_report *r)
{
    if (t->options->eager)
        return "";
    if (t->expected.unfollowed)
        return t->expected.unfollowed;
    return r->eager > 1 ? r->reason : "";
}

static void tell_followed(const trainer *t, haul_recording_report *r, report_done *out)
{
    if (t->recording)
        haul_recording_report_get(t->recording, r);
    out->followed = r->followed;
    out->eager_steps = t->counts.mini_batches * pieces_each(t) - r->followed;
    out->unfollowed = reason_of(t, r);
}

/* What each rank has of the optimizer's state, then the memory that each has needed; to free. NULL after a failure. */
static double *memory_of_ranks(const trainer *t, haul_status *status)
{
    double *bytes = calloc((size_t)t->ranks.count, 2 * sizeof *bytes);
    *status =
        bytes ? ranks_share_memory(t, bytes) : haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    return bytes;
}

/* The event "done" is the last that is written: a run without it has its end repeated when it is resumed. */
static int tell_done(trainer *t, double began, const double *rank_bytes)
{
    const spilled_bytes   spilled = trainer_spilled(t);
    const exchange_time   exchange = ranks_exchange_time(t);
    haul_recording_report steps = {.followed = 0};
    report_done           d = {.device = t->device,
                               .step_seconds = samples_median(&t->counts.seconds),
                               .epochs = t->position.epoch - 1,
                               .peak_bytes = trainer_peak_bytes(t),
                               .limit_bytes = t->expected.limit + t->expected.overhead,
                               .spilled_bytes = spilled.all,
                               .spilled_to_file_bytes = spilled.to_file,
                               .spill_file_seconds = (double)spilled.file_ns / 1e9,
                               .in_pieces = t->parallel != NULL,
                               .ranks = t->ranks.count,
                               .group_bytes = ranks_bytes(t),
                               .exchange_seconds = exchange.seconds,
                               .hidden_share = exchange.hidden,
                               .state_bytes = t->options->shard || t->options->stages ? rank_bytes : NULL,
                               .rank_peak_bytes = rank_bytes ? rank_bytes + t->ranks.count : NULL,
                               .waits = haul_sync_count() - t->counts.waits_before,
                               .step_peak_bytes = t->counts.step_peak_bytes,
                               .best_epoch = t->stop.best_epoch,
                               .best_loss = t->stop.best,
                               .validation = t->data.validation != NULL};
    tell_followed(t, &steps, &d);
    if (!trainer_test_best(t, &d))
        return EXIT_FAILED;
    if (ranks_stopped(t) && d.tested) /* everything is saved, and resuming repeats the test */
        return tell_stopped(t, t->position.epoch - 1, t->report.batches);
    d.seconds = clock_seconds() - began;
    if (!run_profile_audit(&t->profile, t->run.path, d.audit, sizeof d.audit) || !trainer_save_account(t))
        return EXIT_FAILED;
    return report_tell_done(&t->report, &d) ? EXIT_OK : EXIT_FAILED;
}

static int finish(trainer *t, double began)
{
    haul_status status;
    double     *bytes = memory_of_ranks(t, &status);
    const int   code = status ? complain_error() : tell_done(t, began, bytes);
    free(bytes);
    return code;
}

int trainer_run(trainer *t)
{
    double began = clock_seconds();
    int    code;
    t->saved_at = began;
    run_profile_plan(&t->profile, t->options->profile, t->report.batches - t->position.batch, t->report.batches,
                     t->options->epochs - t->position.epoch);
    if (pace_begin(t))
        return complain_error();
    while (t->position.epoch <= t->options->epochs && !haul_early_stop_is_due(&t->stop))
        if ((code = run_epoch(t)) >= 0)
            return code;
    if (haul_early_stop_is_due(&t->stop) && !tell_early_stop(t))
        return EXIT_FAILED;
    return finish(t, began);
}
