/* haul train: what its options exclude, and which of them a resumed run takes from where it stopped. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/model/network.h"
#include "cli/options/commands.h"
#include "cli/options/config.h"
#include "cli/options/options.h"
#include "cli/shared/cli.h"
#include "cli/shared/local_ranks.h"
#include "cli/train/init.h"
#include "cli/train/pieces/pieces.h"
#include "cli/train/pieces/ranks.h"
#include "cli/train/pieces/threads.h"
#include "cli/train/place/choose.h"
#include "cli/train/trainer.h"

static bool check_devices(const train_options *o)
{
    const char *other = choose_excluded(o);
    if (other)
        complain("--devices chooses where a new training runs, and does so without %s; leave one of them out", other);
    return !other;
}

static int check(const train_options *o)
{
    if (o->resume && !o->run) {
        complain("--resume needs --run DIR, the folder of the run to continue");
        return EXIT_USAGE;
    }
    if (o->resume && o->config) {
        complain("--resume continues with the options of the run itself; leave --config out, or start another run with "
                 "--config %s --run NEW",
                 o->config);
        return EXIT_USAGE;
    }
    if (o->allow_changed_data && !o->resume) {
        complain("--allow-changed-data is for runs that are continued; give --resume, or leave it out");
        return EXIT_USAGE;
    }
    if (o->validation == 1) {
        complain("--validation 1 leaves nothing to train on; a fraction below 1 is expected, for example 0.1");
        return EXIT_USAGE;
    }
    if (o->profile && !o->run) {
        complain("--profile needs --run DIR, the folder for trace.json, profile.json and audit.json");
        return EXIT_USAGE;
    }
    if (o->place && o->plan) {
        complain("--place and --plan both say where modules are; give one of them");
        return EXIT_USAGE;
    }
    if (o->devices && !check_devices(o))
        return EXIT_USAGE;
    if (o->machine && !o->devices) {
        complain("--machine has times for choosing among --devices; give both, or leave it out");
        return EXIT_USAGE;
    }
    if (o->tensorboard && !o->run) {
        complain("--tensorboard writes into the folder of a run; name one with --run DIR");
        return EXIT_USAGE;
    }
    if (o->quiet && o->sync_report) {
        complain("--sync-report prints what --quiet leaves out; give one of them");
        return EXIT_USAGE;
    }
    if (o->quiet && o->estimate && !o->json) {
        complain("--estimate prints what --quiet leaves out; give one of them");
        return EXIT_USAGE;
    }
    return -1;
}

/* An exit code, or -1. */
static int check_pipeline(const train_options *o)
{
    if (o->pipeline == 1 || o->place || o->plan || o->devices)
        return -1;
    complain("--pipeline %s keeps several devices busy; give --place, --plan or --devices to split the network",
             text_count(o->pipeline));
    return EXIT_USAGE;
}

/* Where --spill on puts tensors. An exit code, or -1. */
static int read_tiers(const train_options *o, train_plans *plans)
{
    if (!size_parse("spill-host", o->spill_host, &plans->spill_host) ||
        !size_parse("spill-file", o->spill_file, &plans->spill_file))
        return EXIT_USAGE;
    if (o->spill_file && !o->spill_folder) {
        complain("--spill-file needs --spill-folder DIR, in which the file is");
        return EXIT_USAGE;
    }
    if ((o->spill_host || o->spill_folder) && !o->spill) {
        complain("--spill-host and --spill-folder need --spill on");
        return EXIT_USAGE;
    }
    return -1;
}

/* What the texts of --schedule, --augment and --memory-limit mean, and whether they fit the rest. An exit code, or -1.
 */
static int read_plans(const option_values *values, trainer *t)
{
    const train_options *o = t->options;
    train_plans         *plans = &t->plans;
    if (!schedule_parse(o->schedule, &plans->schedule) || !schedule_fits(&plans->schedule, o->epochs) ||
        !augment_parse(o->augment, &plans->augment) || !memory_limit_parse(o->memory_limit, &plans->limit))
        return EXIT_USAGE;
    if (plans->schedule.kind == SCHEDULE_ONE_CYCLE && option_given(values, "momentum") && o->momentum != 0) {
        complain("--schedule onecycle moves the momentum between 0.85 and 0.95; leave --momentum out, or give "
                 "--momentum 0 to train without");
        return EXIT_USAGE;
    }
    if (!memory_limit_suits_batch(plans->limit.percent, o->batch))
        return EXIT_USAGE;
    const int code = ranks_suit(t) && pieces_suit(o) ? check_pipeline(o) : EXIT_USAGE;
    return code < 0 ? read_tiers(o, plans) : code;
}

/* ---- going on ---- */

/* The options of the run, from its checkpoint, or from its config.json when it was stopped before its first save. */
static cJSON *read_stored(const run_folder *run, run_state state, const char **where)
{
    *where = state == RUN_SAVED ? run->checkpoint : run->config;
    return state == RUN_SAVED ? run_object(run, RUN_OPTIONS_KEY) : config_read(run->config);
}

/* Options that were not given come from the run; their texts stay in *stored. */
static bool take_stored(option_values *values, const trainer *t, run_state state, cJSON **stored)
{
    const char *given = option_given(values, "data") ? t->options->data : NULL, *where;
    *stored = read_stored(&t->run, state, &where);
    if (!*stored)
        return false;
    const char *data = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(*stored, "data"));
    if (given && data && !source_same_kind(given, data)) {
        complain("the run was started with --data %s and cannot go on with --data %s", data, given);
        return false;
    }
    return options_resume(values, *stored, where);
}

/* -1: there is something left to train; else an exit code. */
static int find_rest(trainer *t, const cJSON *stored)
{
    const train_options *o = t->options;
    report_end           end;
    t->resumed.epochs = whole_number(cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(stored, "epochs")));
    if (!trainer_find_end(t, &end))
        return EXIT_FAILED;
    if (!end.finished || o->estimate)
        return -1;
    if (o->quiet && !o->json)
        return EXIT_OK;
    return report_nothing_left(&end, o->run, o->json) ? EXIT_OK : EXIT_FAILED;
}

static void tell_begun(const train_options *o)
{
    if (o->json || o->quiet || o->estimate)
        return;
    print_visible(o->run, 0);
    printf(" has no checkpoint: it was stopped before the first one, and starts from the beginning\n");
}

/* Which of the options were given that say where a training runs. */
typedef struct given_places {
    bool device, place, plan;
} given_places;

/* Where the run's stages begin does not suit another number of them. */
static void take_cuts(train_options *o, bool given, const cJSON *stored)
{
    const cJSON *stages = cJSON_GetObjectItemCaseSensitive(stored, "stages");
    if (!given && whole_number(cJSON_GetNumberValue(stages)) != o->stages)
        o->cuts = NULL;
}

/* These options replace the run's plan, which is in the run's folder. */
static void take_places(trainer *t, const given_places *given)
{
    train_options *o = t->options;
    if (given->plan)
        o->place = NULL;
    else if (given->device || given->place)
        o->plan = NULL;
    else if (o->plan && access(t->run.plan, F_OK) == 0)
        o->plan = t->run.plan;
}

/* Take options that were not given from the run. -1: there is something to train; else an exit code. */
static int take_up(option_values *values, trainer *t, cJSON **stored)
{
    train_options     *o = t->options;
    const given_places given = {option_given(values, "device"), option_given(values, "place"),
                                option_given(values, "plan")};
    const bool         given_cuts = option_given(values, "cuts");
    run_state          state = run_look(&t->run);
    if (state == RUN_NONE || (!o->estimate && !t->ranks.silent && !run_lock(&t->run)))
        return EXIT_FAILED;
    state = run_look(&t->run); /* before the lock another training may have saved */
    if (state == RUN_NONE || !take_stored(values, t, state, stored))
        return EXIT_FAILED;
    take_places(t, &given);
    take_cuts(o, given_cuts, *stored);
    if (state == RUN_SAVED)
        return find_rest(t, *stored);
    o->resume = false;
    tell_begun(o);
    return -1;
}

/* The options of a new run: options that were not given come from --config. Its texts stay in *stored. As take_up. */
static int begin(option_values *values, const trainer *t, cJSON **stored)
{
    const train_options *o = t->options;
    if (o->config) {
        *stored = config_read(o->config);
        if (!*stored || !options_from_json(values, *stored, o->config))
            return EXIT_FAILED;
    }
    if (strcmp(o->optimizer, "sgd") != 0 && option_given(values, "momentum")) {
        complain("--momentum is for --optimizer sgd; %s has moments of its own", o->optimizer);
        return EXIT_USAGE;
    }
    if (!init_is_consistent(o))
        return EXIT_USAGE;
    return o->estimate || t->ranks.silent || run_is_free(&t->run) ? -1 : EXIT_FAILED;
}

static int run_training(trainer *t)
{
    if (!t->ranks.guest) {
        interrupt_catch();
        haul_sync_report(t->options->sync_report);
    }
    int code = trainer_open(t);
    if (code < 0)
        code = trainer_run(t);
    if (code == EXIT_FAILED && haul_error_status() == HAUL_OUT_OF_MEMORY && t->expected.peak)
        code = trainer_tell_memory(t, true);
    /* The failure was complained of, for example a full disk. */
    bool saved = code == EXIT_FAILED || (trainer_save_account(t) && report_is_kept(&t->report));
    if (!t->ranks.guest)
        haul_sync_report(false);
    return saved || code != EXIT_OK ? code : EXIT_FAILED;
}

static int train(option_values *values, train_options *o)
{
    trainer *t = calloc(1, sizeof *t); /* too large for small stacks */
    cJSON   *stored = NULL;
    int      code = EXIT_FAILED;
    if (!t)
        return complain("memory is exhausted");
    t->options = o;
    t->values = values;
    if (run_name(&t->run, o->run))
        code = ranks_open(t);
    if (code < 0)
        code = o->resume ? take_up(values, t, &stored) : begin(values, t, &stored);
    if (code < 0)
        code = read_plans(values, t);
    if (code < 0)
        code = o->estimate ? trainer_estimate(t) : run_training(t);
    ranks_close(t, code);
    trainer_close(t);
    free(t);
    cJSON_Delete(stored);
    return code;
}

int train_main(int argc, char **argv)
{
    train_options o = {0};
    option_values values;
    int           code = options_parse(&values, &train_command, &o, argc, argv);
    if (code < 0)
        code = check(&o);
    const bool threads = local_ranks_named(o.group) && !o.estimate;
    if (code < 0 && threads && !threads_suit(&values, &o))
        code = EXIT_USAGE;
    if (code >= 0)
        return code;
    if (threads)
        return threads_train(&values, &o, train);
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return complain_error();
    code = train(&values, &o);
    haul_scope_pop(scope);
    return code;
}
