/* haul train: its options, and which of them a resumed run takes from where it stopped. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/model/network.h"
#include "cli/options/commands.h"
#include "cli/options/config.h"
#include "cli/options/options.h"
#include "cli/shared/cli.h"
#include "cli/train/init.h"
#include "cli/train/pieces/pieces.h"
#include "cli/train/pieces/ranks.h"
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
    t->stored_epochs = whole_number(cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(stored, "epochs")));
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
    run_state          state = run_look(&t->run);
    if (state == RUN_NONE || (!o->estimate && !t->silent && !run_lock(&t->run)))
        return EXIT_FAILED;
    state = run_look(&t->run); /* before the lock another training may have saved */
    if (state == RUN_NONE || !take_stored(values, t, state, stored))
        return EXIT_FAILED;
    take_places(t, &given);
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
    return o->estimate || t->silent || run_is_free(&t->run) ? -1 : EXIT_FAILED;
}

static int run_training(trainer *t)
{
    interrupt_catch();
    haul_sync_report(t->options->sync_report);
    int code = trainer_open(t);
    if (code < 0)
        code = trainer_run(t);
    if (code == EXIT_FAILED && haul_error_status() == HAUL_OUT_OF_MEMORY && t->expected.peak)
        code = trainer_tell_memory(t, true);
    /* The failure was complained of, for example a full disk. */
    bool saved = code == EXIT_FAILED || (trainer_save_account(t) && report_is_kept(&t->report));
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

/* ---- the options ---- */

enum { KEPT = OPTION_KEPT, CHANGES = OPTION_KEPT | OPTION_CHANGES };

static const option train_rows[] = {
    {.group = "Data and model",
     .name = "data",
     OPTION_TEXT_AT(train_options, data),
     .argument = "SOURCE",
     .help = "Data to train on: " SOURCE_HELP ". By default shapes; for char_gpt sentences, for unet scenes",
     .complete = COMPLETE_SOURCE,
     .flags = CHANGES},
    {.group = "Data and model",
     .name = "model",
     OPTION_TEXT_AT(train_options, model),
     .argument = "NAME",
     .help = "Network; its sizes follow the data. By default char_gpt for texts, unet for pictures with masks, "
             "simplecnn for pictures of at least 16 x 16, otherwise dense",
     .choices = NETWORK_CHOICES,
     .flags = KEPT},
    {.group = "Data and model",
     .name = "size",
     OPTION_INTEGER_AT(train_options, size),
     .argument = "N",
     .help = "Resize the pictures of images:DIR and masks:DIR to N x N. With 0 they keep their size if all have the "
             "same size, and "
             "become 64 x 64 otherwise",
     .initial = "0",
     .low = 0,
     .high = 16384,
     .flags = KEPT},
    {.group = "Data and model",
     .name = "context",
     OPTION_INTEGER_AT(train_options, context),
     .argument = "N",
     .help = "Characters of an example of text:FILE, which are those that a network sees at once; 64 unless given, "
             "and for 0",
     .low = 0,
     .high = 65536,
     .flags = KEPT},
    {.group = "Data and model",
     .name = "layers",
     OPTION_INTEGER_AT(train_options, sizes.layers),
     .argument = "N",
     .help = "Blocks of char_gpt; 2 unless given, and for 0",
     .low = 0,
     .high = 1024,
     .flags = KEPT},
    {.group = "Data and model",
     .name = "features",
     OPTION_INTEGER_AT(train_options, sizes.features),
     .argument = "N",
     .help = "Features of each character in char_gpt, a multiple of --heads; 32 unless given, and for 0",
     .low = 0,
     .high = 65536,
     .flags = KEPT},
    {.group = "Data and model",
     .name = "heads",
     OPTION_INTEGER_AT(train_options, sizes.heads),
     .argument = "N",
     .help = "Heads of the attention in char_gpt; 4 unless given, and for 0",
     .low = 0,
     .high = 4096,
     .flags = KEPT},
    {.group = "Data and model",
     .name = "init",
     OPTION_TEXT_AT(train_options, init),
     .argument = "FILE",
     .help =
         "Start from the weights in a safetensors, PyTorch, npz or GGUF file of the same network; without --head it "
         "has as many classes as the data. A FILE.onnx is an ONNX model, and is the network itself",
     .complete = COMPLETE_FILE,
     .flags = KEPT},
    {.group = "Data and model",
     .name = "head",
     OPTION_INTEGER_AT(train_options, head),
     .argument = "N",
     .help = "With --init, replace the file's last layer by a new one for N classes; the data must have as many",
     .low = 1,
     .high = 1e6,
     .flags = KEPT},
    {.group = "Data and model",
     .name = "freeze",
     OPTION_FLAG_AT(train_options, freeze),
     .help = "With --init, train only the last layer; all other parameters keep their values, and batch normalisations "
             "go on updating their running statistics",
     .flags = KEPT},
    {.group = "Data and model",
     .name = "shuffle",
     OPTION_ON_OFF_AT(train_options, shuffle),
     .argument = "on|off",
     .help = "Read the examples in a new order in each epoch",
     .initial = "on",
     .flags = KEPT},
    {.group = "Data and model",
     .name = "seed",
     OPTION_INTEGER_AT(train_options, seed),
     .argument = "N",
     .help = "Seed of all random numbers: the same seed gives the same result",
     .initial = "0",
     .low = 0,
     .high = 9007199254740991.0,
     .flags = KEPT},
    {.group = "Training",
     .name = "epochs",
     OPTION_INTEGER_AT(train_options, epochs),
     .argument = "N",
     .help = "Passes through the training data",
     .initial = "5",
     .low = 1,
     .high = 1e6,
     .flags = CHANGES},
    {.group = "Training",
     .name = "batch",
     OPTION_INTEGER_AT(train_options, batch),
     .argument = "N",
     .help =
         "Examples in a mini-batch. auto: find the largest batch that fits in --memory-limit, otherwise in the free "
         "memory of the device, time a few sizes, and use the fastest",
     .initial = "64",
     .low = 1,
     .high = MOST_BATCH,
     .word = "auto",
     .offers = OPTION_CHOICES("auto"),
     .flags = KEPT},
    {.group = "Training",
     .name = "accumulate",
     OPTION_INTEGER_AT(train_options, accumulate),
     .argument = "N",
     .help =
         "Accumulate gradients over N mini-batches per step: the effect of a batch N times as large in the memory of "
         "one mini-batch and the gradients of all parameters",
     .initial = "1",
     .low = 1,
     .high = 1e6,
     .flags = KEPT},
    {.group = "Training",
     .name = "pieces",
     OPTION_INTEGER_AT(train_options, pieces),
     .argument = "N",
     .help =
         "Divide each mini-batch into N pieces for data parallel training; a power of two that divides --batch. The "
         "gradients of the pieces are added in a fixed order, so that the result does not depend on who computes "
         "which piece; 0 does not divide it",
     .initial = "0",
     .low = 0,
     .high = HAUL_MAX_PIECES,
     .flags = KEPT},
    {.group = "Training",
     .name = "pipeline",
     OPTION_INTEGER_AT(train_options, pipeline),
     .argument = "N",
     .help = "Divide each mini-batch into N micro-batches, so that the devices of a network that --place, --plan or "
             "--devices splits work at the same time, each on another micro-batch",
     .initial = "1",
     .low = 1,
     .high = MOST_PIPELINE,
     .flags = KEPT},
    {.group = "Training",
     .name = "optimizer",
     OPTION_TEXT_AT(train_options, optimizer),
     .argument = "NAME",
     .help = "Optimizer",
     .initial = "sgd",
     .choices = OPTION_CHOICES("sgd", "adam", "adamw", "adagrad", "adadelta", "nadam", "radam", "lion"),
     .flags = KEPT},
    {.group = "Training",
     .name = "lr",
     OPTION_NUMBER_AT(train_options, lr),
     .argument = "X",
     .help = "Learning rate; with --schedule its highest value",
     .initial = "0.01",
     .low = 1e-12,
     .high = 1e6,
     .flags = KEPT},
    {.group = "Training",
     .name = "schedule",
     OPTION_TEXT_AT(train_options, schedule),
     .argument = "SCHEDULE",
     .help = "How the learning rate changes: constant; step:EVERY:FACTOR multiplies it by FACTOR after every EVERY "
             "epochs; cosine[:WARMUP] raises it from a third of --lr for WARMUP epochs, then lowers it to 0 along a "
             "cosine; onecycle raises it, then lowers it almost to 0, while momentum moves in the opposite direction "
             "between 0.85 and 0.95",
     .initial = "constant",
     .offers = OPTION_CHOICES("constant", "step:", "cosine", "onecycle"),
     .flags = KEPT},
    {.group = "Training",
     .name = "momentum",
     OPTION_NUMBER_AT(train_options, momentum),
     .argument = "X",
     .help = "Momentum of sgd; --schedule onecycle sets its own",
     .initial = "0.9",
     .low = 0,
     .high = 1,
     .flags = KEPT},
    {.group = "Training",
     .name = "weight-decay",
     OPTION_NUMBER_AT(train_options, weight_decay),
     .argument = "X",
     .help = "Weight decay",
     .initial = "0",
     .low = 0,
     .high = 1e6,
     .flags = KEPT},
    {.group = "Training",
     .name = "augment",
     OPTION_TEXT_AT(train_options, augment),
     .argument = "LIST",
     .help =
         "Random changes to the training pictures, separated by commas: crop (shift by up to an eighth of the shorter "
         "side), flip, rotate=DEGREES (turn by up to so many, by default 15) and colour=AMOUNT (brightness, contrast "
         "and saturation by factors from 1 - AMOUNT to 1 + AMOUNT, by default 0.2)",
     .offers = OPTION_CHOICES("crop", "flip", "crop,flip", "crop,flip,rotate=15,colour=0.2"),
     .flags = KEPT},
    {.group = "Training",
     .name = "validation",
     OPTION_NUMBER_AT(train_options, validation),
     .argument = "FRACTION",
     .help = "Hold back this fraction of the training examples, and measure each epoch on it instead of on the test "
             "data; 0 for none",
     .initial = "0",
     .low = 0,
     .high = 1,
     .flags = KEPT},
    {.group = "Training",
     .name = "patience",
     OPTION_INTEGER_AT(train_options, patience),
     .argument = "N",
     .help = "Stop when the measured loss has not improved for N epochs; 0 never stops early",
     .initial = "0",
     .low = 0,
     .high = 1e6,
     .flags = CHANGES},
    {.group = "Training",
     .name = "precision",
     OPTION_TEXT_AT(train_options, precision),
     .argument = "NAME",
     .help = "Precision of products and convolutions. tf32 lets GPUs round the factors where that is faster; bf16 "
             "and f16 compute in that dtype",
     .initial = "f32",
     .choices = OPTION_CHOICES("f32", "tf32", "bf16", "f16"),
     .flags = KEPT},
    {.group = "Machine",
     .name = "device",
     OPTION_TEXT_AT(train_options, device),
     .argument = "SPEC",
     .help = DEVICE_HELP,
     .initial = "auto",
     .complete = COMPLETE_DEVICE,
     .flags = CHANGES},
    {.group = "Machine",
     .name = "devices",
     OPTION_TEXT_AT(train_options, devices),
     .argument = "LIST",
     .help = "Choose among the CPU, one other device, and a plan that uses both, by short runs, for example "
             "cpu,cuda:0. --device auto does so with the fastest device, if this is not the CPU"},
    {.group = "Machine",
     .name = "group",
     OPTION_TEXT_AT(train_options, group),
     .argument = "auto|mpi|none",
     .help =
         "Which processes train together, each on some of the --pieces of a mini-batch (8 unless given): those that "
         "mpirun started, or none. Rank 0 prints and saves. The number of processes does not change the result",
     .initial = "auto",
     .choices = OPTION_CHOICES("auto", "mpi", "none")},
    {.group = "Machine",
     .name = "machine",
     OPTION_TEXT_AT(train_options, machine),
     .argument = "FILE",
     .help = "With --devices, plan with the times in this machine's description, which names the devices as they are "
             "named here; a plan whose operations take other times is made again with these",
     .complete = COMPLETE_FILE},
    {.group = "Machine",
     .name = "place",
     OPTION_TEXT_AT(train_options, place),
     .argument = "LIST",
     .help = "Modules on devices of their own, for example 'conv*=gpu,fc*=cpu'; patterns are for paths of modules. The "
             "rest "
             "is on --device, and on the CPU if that is auto",
     .flags = CHANGES},
    {.group = "Machine",
     .name = "plan",
     OPTION_TEXT_AT(train_options, plan),
     .argument = "FILE",
     .help = "Follow the plan of haul plan --certificate FILE: parameters are, and operations run, where it says",
     .complete = COMPLETE_FILE,
     .flags = CHANGES},
    {.group = "Machine",
     .name = "memory-limit",
     OPTION_TEXT_AT(train_options, memory_limit),
     .argument = "SIZE|PERCENT%",
     .help =
         "Limit the device's memory: a size such as 2G or 512Mi, which includes what the driver takes, or a percentage "
         "of what the training needs without --recompute. If the training cannot fit, explain why and exit with "
         "status 4",
     .flags = CHANGES},
    {.group = "Machine",
     .name = "metrics",
     OPTION_TEXT_AT(train_options, metrics),
     .argument = "device|cpu",
     .help = "Where loss and accuracy are computed: on the device of the last layer, or with cpu on the CPU, to which "
             "each mini-batch's logits go, and from which their gradient comes back. Results are bit-identical",
     .initial = "device",
     .choices = OPTION_CHOICES("device", "cpu"),
     .flags = CHANGES},
    {.group = "Machine",
     .name = "spill",
     OPTION_ON_OFF_AT(train_options, spill),
     .argument = "on|off",
     .help =
         "With on, tensors that do not fit on the device, or in --memory-limit, go to host memory and return when they "
         "are used. Results are bit-identical; steps take longer",
     .initial = "off",
     .flags = CHANGES},
    {.group = "Machine",
     .name = "spill-host",
     OPTION_TEXT_AT(train_options, spill_host),
     .argument = "SIZE",
     .help = "With --spill on, the most host memory for these tensors, as in --memory-limit; 0 for none. Without it "
             "there is no limit",
     .flags = CHANGES},
    {.group = "Machine",
     .name = "spill-folder",
     OPTION_TEXT_AT(train_options, spill_folder),
     .argument = "DIR",
     .help = "With --spill on, a folder for what --spill-host leaves: a file there, which has no name, and ends with "
             "the training",
     .complete = COMPLETE_FOLDER,
     .flags = CHANGES},
    {.group = "Machine",
     .name = "spill-file",
     OPTION_TEXT_AT(train_options, spill_file),
     .argument = "SIZE",
     .help = "The most that the file in --spill-folder takes; without it, as much as the disk has",
     .flags = CHANGES},
    {.group = "Machine",
     .name = "offload",
     OPTION_TEXT_AT(train_options, offload),
     .argument = "none|optimizer",
     .help = "With optimizer, the optimizer's state is in host memory, and comes to the device for each update. "
             "Results are bit-identical",
     .initial = "none",
     .choices = OPTION_CHOICES("none", "optimizer"),
     .flags = CHANGES},
    {.group = "Machine",
     .name = "recompute",
     OPTION_TEXT_AT(train_options, recompute),
     .argument = "auto|off",
     .help = "With auto, parts of the network keep only their results and compute the rest again in the backward pass: "
             "the parts with which a step is fastest and fits --memory-limit; without a limit, those with which it "
             "needs least. Results are bit-identical. Off unless given",
     .choices = OPTION_CHOICES("auto", "off"),
     .flags = CHANGES},
    {.group = "Machine",
     .name = "workers",
     OPTION_INTEGER_AT(train_options, workers),
     .argument = "N",
     .help = "Threads that prepare mini-batches; their number does not change the result",
     .initial = "2",
     .low = 0,
     .high = 256,
     .flags = CHANGES},
    {.group = "Machine",
     .name = "threads",
     OPTION_INTEGER_AT(train_options, threads),
     .argument = "N",
     .help = "Threads that compute on the CPU; 0 means one per core. Their number does not change the result",
     .initial = "0",
     .low = 0,
     .high = 1024,
     .flags = CHANGES},
    {.group = "Machine",
     .name = "eager",
     OPTION_FLAG_AT(train_options, eager),
     .help = "Run each step as it is. Otherwise a step is recorded once and then followed, which takes less time for "
             "the same results, bit for bit"},
    {.group = "Saving and continuing",
     .name = "config",
     OPTION_TEXT_AT(train_options, config),
     .argument = "FILE",
     .help = "Read options from a JSON file, such as the config.json of a run; options on the command line take "
             "precedence",
     .complete = COMPLETE_FILE},
    {.group = "Saving and continuing",
     .name = "run",
     OPTION_TEXT_AT(train_options, run),
     .argument = "DIR",
     .help = "Save log.jsonl, config.json, checkpoint, weights.safetensors, best.safetensors, ledger.json and "
             "memory.json in this folder",
     .complete = COMPLETE_FOLDER},
    {.group = "Saving and continuing",
     .name = "save-every",
     OPTION_NUMBER_AT(train_options, save_every),
     .argument = "SECONDS",
     .help = "Seconds between checkpoints within an epoch; 0: only at the end of each epoch",
     .initial = "30",
     .low = 0,
     .high = 1e9,
     .flags = CHANGES},
    {.group = "Saving and continuing",
     .name = "resume",
     OPTION_FLAG_AT(train_options, resume),
     .help = "Continue the run in --run DIR with its options. --epochs may be raised; cosine and onecycle are then "
             "rescaled; --patience, --device, --memory-limit, --spill, --spill-host, --spill-folder, --spill-file, "
             "--offload, --recompute, --workers, --threads, --log-every and --save-every may differ, and so may --data "
             "if its "
             "folder has moved. All other options must stay the same"},
    {.group = "Saving and continuing",
     .name = "allow-changed-data",
     OPTION_FLAG_AT(train_options, allow_changed_data),
     .help = "With --resume, continue although files of the data were added, removed or changed in size since the "
             "training was saved. An epoch that does not fit the data as it is begins anew"},
    {.group = "Output",
     .name = "log-every",
     OPTION_INTEGER_AT(train_options, log_every),
     .argument = "N",
     .help = "Print the mean loss after every N mini-batches",
     .initial = "200",
     .low = 1,
     .high = 1e9,
     .flags = CHANGES},
    {.group = "Output",
     .name = "quiet",
     .letter = 'q',
     OPTION_FLAG_AT(train_options, quiet),
     .help = "Print only errors; with --json, print the JSON lines as well"},
    {.group = "Output", .name = "json", OPTION_FLAG_AT(train_options, json), .help = JSON_HELP},
    {.group = "Output",
     .name = "profile",
     OPTION_INTEGER_AT(train_options, profile),
     .argument = "STEPS",
     .help =
         "Record STEPS steps of one epoch, after up to 10 others, and write trace.json, profile.json and audit.json "
         "into --run DIR, for haul profile, haul audit and haul report; 0 records none",
     .initial = "0",
     .low = 0,
     .high = 100000},
    {.group = "Output",
     .name = "estimate",
     OPTION_FLAG_AT(train_options, estimate),
     .help = "Print the memory and the floating-point operations of one step, without training"},
    {.group = "Output",
     .name = "tensorboard",
     OPTION_FLAG_AT(train_options, tensorboard),
     .help = "Write event files for TensorBoard into the folder of --run; with --resume, give it again"},
    {.group = "Output",
     .name = "sync-report",
     OPTION_FLAG_AT(train_options, sync_report),
     .help = "Report on standard error each wait for a device, and where it happens"},
};

static int train_main(int argc, char **argv)
{
    train_options o = {0};
    option_values values;
    int           code = options_parse(&values, &train_command, &o, argc, argv);
    if (code < 0)
        code = check(&o);
    if (code >= 0)
        return code;
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return complain_error();
    code = train(&values, &o);
    haul_scope_pop(scope);
    return code;
}

static const help_example train_lines[] = {{"haul train --data shapes --epochs 3", NULL},
                                           {"haul train --data cifar10:data/cifar10 --epochs 5 --run runs/first", NULL},
                                           {"haul train --run runs/first --resume", NULL},
                                           {"haul train --model resnet18 --batch 256 --device gpu --estimate", NULL},
                                           {"haul train --model dense --data blobs --batch 32 --log-every 10", NULL},
                                           {"haul train --data text:book.txt --optimizer adam --run runs/book", NULL},
                                           {"haul train --data masks:streets --size 128 --optimizer adam", NULL},
                                           {NULL, NULL}};

const command train_command = {
    .name = "train",
    .summary = "Train a network and watch it learn",
    .usage = "[OPTION...]",
    .description =
        "Trains a network on pictures, rows or a text, shows its progress and, with --run, saves it. Ctrl-C saves "
        "and stops; --resume continues and reaches the same result.",
    .options = train_rows,
    .option_count = sizeof train_rows / sizeof *train_rows,
    .examples = train_lines,
    .run = train_main,
};
