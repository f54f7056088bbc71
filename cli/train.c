/* haul train: its options, and which of them a resumed run takes from where it stopped. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "options.h"
#include "source.h"
#include "trainer.h"

/* What cannot change when a run goes on, because what the checkpoint holds belongs to it. Of what can change only --lr
 * has an effect on the result; the report tells the change. */
static const char *const fixed_options[] = {"model",     "batch",    "seed",         "shuffle", "optimizer",
                                            "precision", "momentum", "weight-decay", NULL};

static int check(const option_set *set, const train_options *o)
{
    if (o->resume && !o->run) {
        complain("--resume needs --run DIR, the folder of the run to continue");
        return EXIT_USAGE;
    }
    if (o->resume && o->init) {
        complain("--init is for new runs; with --resume the weights come from the checkpoint");
        return EXIT_USAGE;
    }
    if (strcmp(o->optimizer, "sgd") != 0 && option_given(set, "momentum")) {
        complain("--momentum is for --optimizer sgd; %s has moments of its own", o->optimizer);
        return EXIT_USAGE;
    }
    return -1;
}

/* Does the checkpoint say what decides on the result? A default would be a guess. */
static bool is_whole(const cJSON *stored, const run_folder *run)
{
    static const char *const others[] = {"data", "epochs", "lr", NULL};
    const char *const *const lists[] = {fixed_options, others};

    for (int i = 0; i < 2; i++)
        for (const char *const *name = lists[i]; *name; name++)
            if (!cJSON_HasObjectItem(stored, *name)) {
                complain("%s does not say which --%s the training had", run->checkpoint, *name);
                return false;
            }
    return true;
}

/* Options that were not given come from the checkpoint; their texts stay in *stored. */
static bool take_stored(option_set *set, const train_options *o, const run_folder *run, cJSON **stored)
{
    const char *given = option_given(set, "data") ? o->data : NULL;

    *stored = run_object(run, RUN_OPTIONS_KEY);
    if (!*stored || !is_whole(*stored, run))
        return false;
    const char *data = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(*stored, "data"));
    if (given && data && !source_same_kind(given, data)) {
        complain("the run was started with --data %s and cannot go on with %s", data, given);
        return false;
    }
    return options_from_json(set, *stored, fixed_options);
}

/* Take from the checkpoint what was not given. -1: there is something left to train; else an exit code. */
static int take_up(option_set *set, trainer *t, cJSON **stored)
{
    train_options *o = t->options;

    if (!run_find(&t->run) || (!o->estimate && !run_lock(&t->run)) || !take_stored(set, o, &t->run, stored))
        return EXIT_FAILED;
    const cJSON *lr = cJSON_GetObjectItemCaseSensitive(*stored, "lr");
    if (option_given(set, "lr") && cJSON_IsString(lr))
        t->stored_lr = strtod(lr->valuestring, NULL);
    int64_t epoch = run_next_epoch(&t->run);
    if (epoch < 1)
        return EXIT_FAILED;
    if (epoch <= o->epochs || o->estimate)
        return -1;
    return report_nothing_left(o->run, o->json, epoch - 1) ? EXIT_OK : EXIT_FAILED;
}

static int train(option_set *set, train_options *o)
{
    trainer t = {.options = o, .set = set};
    cJSON  *stored = NULL;
    int     code = EXIT_FAILED, taken;

    if (!run_name(&t.run, o->run))
        goto out;
    if (o->resume && (taken = take_up(set, &t, &stored)) >= 0) {
        code = taken;
        goto out;
    }
    if (!o->resume && !o->estimate && !run_is_free(&t.run))
        goto out;
    if (o->estimate) {
        code = trainer_estimate(&t);
        goto out;
    }
    interrupt_catch();
    haul_sync_report(o->sync_report);
    if (trainer_open(&t))
        code = trainer_run(&t);
out:
    trainer_close(&t);
    haul_sync_report(false);
    cJSON_Delete(stored);
    return code;
}

int train_main(int argc, char **argv)
{
    train_options o = {.data = "shapes",
                       .device = "auto",
                       .optimizer = "sgd",
                       .precision = "f32",
                       .epochs = 5,
                       .batch = 64,
                       .workers = 2,
                       .log_every = 200,
                       .save_every = 30,
                       .lr = 0.01,
                       .momentum = 0.9,
                       .shuffle = true};
    option        rows[] = {
               {"model", OPTION_TEXT, &o.model, "NAME",
                "simplecnn, resnet18, dense or mlp, fitted to the data (default: simplecnn for pictures, dense for rows)", 0,
                0, "simplecnn resnet18 dense mlp", false},
               {"data", OPTION_TEXT, &o.data, "SOURCE", SOURCE_HELP, 0, 0, NULL, false},
               {"device", OPTION_TEXT, &o.device, "SPEC", "cpu, opencl:0, gpu, auto ...; haul devices lists them", 0, 0, NULL,
                false},
               {"epochs", OPTION_INTEGER, &o.epochs, "N", "times through the training data", 1, 1e6, NULL, false},
               {"batch", OPTION_INTEGER, &o.batch, "N", "examples in a mini-batch", 1, 1e6, NULL, false},
               {"lr", OPTION_NUMBER, &o.lr, "X", "learning rate", 1e-12, 1e6, NULL, false},
               {"momentum", OPTION_NUMBER, &o.momentum, "X", "momentum of sgd", 0, 1, NULL, false},
               {"weight-decay", OPTION_NUMBER, &o.weight_decay, "X", "weight decay", 0, 1e6, NULL, false},
               {"optimizer", OPTION_TEXT, &o.optimizer, "NAME", "sgd, adam or adamw", 0, 0, "sgd adam adamw", false},
               {"precision", OPTION_TEXT, &o.precision, "NAME",
                "f32; tf32, which lets GPUs round factors where that is faster; bf16 or f16 for products and convolutions", 0,
                0, "f32 tf32 bf16 f16", false},
               {"seed", OPTION_INTEGER, &o.seed, "N", "the same seed gives the same result", 0, 9007199254740992.0, NULL,
                false},
               {"shuffle", OPTION_ON_OFF, &o.shuffle, "on|off", "a new order of examples each epoch", 0, 0, NULL, false},
               {"workers", OPTION_INTEGER, &o.workers, "N",
                "threads that prepare mini-batches; the result does not depend on it", 0, 256, NULL, false},
               {"threads", OPTION_INTEGER, &o.threads, "N",
                "threads the CPU computes with, 0 for one per core; the result does not depend on it", 0, 1024, NULL, false},
               {"log-every", OPTION_INTEGER, &o.log_every, "N",
                "mini-batches between two lines with the mean loss since the last", 1, 1e9, NULL, false},
               {"init", OPTION_TEXT, &o.init, "FILE", "start from the weights of a safetensors file", 0, 0, NULL, false},
               {"run", OPTION_TEXT, &o.run, "DIR", "keep log.jsonl, checkpoint and weights.safetensors there", 0, 0, NULL,
                false},
               {"resume", OPTION_FLAG, &o.resume, NULL,
                "continue the run in --run DIR with its options; --epochs, --lr, --device, --workers, --threads, --log-every, "
                       "--save-every and, if its folder has moved, --data may be changed",
                0, 0, NULL, false},
               {"save-every", OPTION_NUMBER, &o.save_every, "SECONDS",
                "time between two checkpoints within an epoch, 0 for none", 0, 1e9, NULL, false},
               {"sync-report", OPTION_FLAG, &o.sync_report, NULL,
                "report on standard error each time the program waits for a device, and where", 0, 0, NULL, false},
               {"estimate", OPTION_FLAG, &o.estimate, NULL,
                "print what one step takes in memory and floating point operations, and train nothing", 0, 0, NULL, false},
               {"json", OPTION_FLAG, &o.json, NULL, "JSON lines on standard output, and nothing else", 0, 0, NULL, false},
    };
    option_set set = {
        .command = "train",
        .usage = "[OPTION...]",
        .summary =
            "Trains a network on pictures or rows, shows its progress and, with --run, saves it. Ctrl-C saves and "
            "stops; --resume goes on as if nothing had happened.",
        .notes = "examples:\n"
                 "  haul train --data shapes --epochs 3\n"
                 "  haul train --data cifar10:data/cifar10 --epochs 5 --run runs/first\n"
                 "  haul train --run runs/first --resume\n"
                 "  haul train --model resnet18 --batch 256 --device gpu --estimate\n"
                 "  haul train --model dense --data blobs --batch 32 --log-every 10",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
    };
    int code = options_parse(&set, argc, argv);

    if (code < 0)
        code = check(&set, &o);
    if (code >= 0)
        return code;
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return complain_error();
    code = train(&set, &o);
    haul_scope_pop(scope);
    return code;
}
