/* haul plan: where the parts of a training step should run. */
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/plan/allow.h"
#include "cli/plan/check.h"
#include "cli/plan/cluster.h"
#include "cli/plan/request.h"
#include "cli/plan/show.h"
#include "cli/shared/cli.h"
#include "cli/train/one_step.h"
#include "cli/train/place/trial.h"

typedef struct plan_options {
    one_step      step;                       /* without a model and a run only with `verify` */
    const char   *svg, *certificate, *verify; /* NULL: none */
    bool          json, measure;
    request_texts texts;
    const char   *allow;   /* NULL: none */
    unsigned      allowed; /* by `allow` */

    cluster_options cluster;
} plan_options;

typedef struct planning {
    const plan_options *options;
    study_request       request;
    haul__json         *certificate; /* that is compared; NULL: none */
    haul__verdict       verdict;
    cluster             cluster;
} planning;

static bool has_step(const plan_options *o)
{
    return o->step.model || o->step.run || o->step.train.count;
}

/* Options that --ranks excludes, or that need it. True after a complaint. */
static bool ranks_are_wrong(const plan_options *o, const option_values *values)
{
    static const char *const        without[] = {"devices", "place", "stages",      "allow",
                                                 "measure", "svg",   "certificate", "verify"},
                             *const with[] = {"per-host", "network", "bucket", "group", "only"};
    for (size_t i = 0; o->cluster.ranks && i < sizeof without / sizeof *without; i++)
        if (option_given(values, without[i])) {
            complain("--ranks plans equal devices; leave --%s out", without[i]);
            return true;
        }
    for (size_t i = 0; !o->cluster.ranks && i < sizeof with / sizeof *with; i++)
        if (option_given(values, with[i])) {
            complain("--%s needs --ranks N", with[i]);
            return true;
        }
    return false;
}

static int check(const plan_options *o)
{
    if ((has_step(o) || !o->verify) &&
        !one_step_is_named(&o->step, ONE_STEP_BOTH, "--model M, --run DIR, or -- and options of haul train"))
        return EXIT_USAGE;
    if (o->verify && (o->measure || o->svg || o->certificate || o->json)) {
        complain("--verify only checks a certificate; leave --measure, --json, --svg and --certificate out");
        return EXIT_USAGE;
    }
    if (o->allow && (o->measure || o->svg || o->certificate || o->verify || o->texts.places || o->texts.stages)) {
        complain("--allow plans memory; leave --measure, --svg, --certificate, --verify, --place and --stages out");
        return EXIT_USAGE;
    }
    if (!o->allow && has_step(o) && !o->step.batch && !o->verify) {
        complain("--batch auto needs --allow LIST, for example --allow recompute,spill");
        return EXIT_USAGE;
    }
    return -1;
}

static const char *title_of(const one_training *t, const haul__machine *m, char *out, size_t size)
{
    const train_options *o = t->options;
    snprintf(out, size, "one training step of %s, batch %s, %s, %s, on %s%s", o->model, text_count(o->batch),
             o->optimizer, o->precision, m->name, m->described ? " (times by data sheets)" : "");
    return out;
}

static void print_verdict(const planning *p, bool same)
{
    printf("%s: the placement takes %s, and none takes less than %s%s\n", p->options->verify, text_ps(p->verdict.cost),
           text_ps_like(p->verdict.bound, p->verdict.cost), same ? "; it is about this step and this machine" : "");
}

/* Steps with each candidate that fits, on this computer. */
static bool measure(haul_plan *plan, const one_training *t)
{
    bool wanted[HAUL__PLAN_CANDIDATES];
    for (int i = 0; i < haul__plan_way_count(plan); i++)
        wanted[i] = !*plan->ways[i].why_not;
    return trial_measure(t->trainer, plan, wanted, NULL);
}

static bool show(const planning *p, study *s, const one_training *t, const char *title)
{
    const plan_options *o = p->options;
    if (p->certificate) {
        if (!check_step(o->verify, p->certificate, s))
            return false;
        print_verdict(p, true);
        return output_works();
    }
    if (o->measure && !measure(s->plan, t))
        return false;
    if ((o->svg && !write_plan_svg(s, title, o->svg)) || (o->certificate && !write_certificate(s, o->certificate)))
        return false;
    return o->json ? show_plan_json(s) : show_plan(s, title);
}

static int plan(const one_training *t, void *context)
{
    planning *p = context;
    if (p->options->cluster.ranks)
        return cluster_show(&p->cluster, t, p->options->json);
    if (p->options->allow)
        return allow_show(t, &p->request, p->options->allowed, p->options->json);
    char       title[300];
    study      s = {0};
    const bool made = study_make(&s, t, &p->request);
    const bool shown = made && show(p, &s, t, title_of(t, s.plan->request.machine, title, sizeof title));
    study_free(&s);
    return shown ? EXIT_OK : haul_error_status() == HAUL_OUT_OF_MEMORY ? EXIT_MEMORY : EXIT_FAILED;
}

static int run(planning *p)
{
    const plan_options *o = p->options;
    if (o->verify) {
        p->certificate = check_certificate(o->verify, &p->verdict);
        if (!p->certificate)
            return EXIT_FAILED;
        if (!has_step(o)) {
            print_verdict(p, false);
            return output_works() ? EXIT_OK : EXIT_FAILED;
        }
    }
    if (o->cluster.ranks) {
        const int code = cluster_read(&p->cluster);
        return code < 0 ? one_step_open(&o->step, "plan", plan, p) : code;
    }
    if (!request_read(&o->texts, &p->request))
        return EXIT_FAILED;
    if (o->allow && p->request.plan.device_count > 2) {
        complain("--allow plans the memory of one device; name the host and one other device in --devices");
        return EXIT_USAGE;
    }
    one_step step = o->step;
    if (o->allow)
        step.device = allow_device(&p->request, o->texts.machine);
    return one_step_open(&step, "plan", plan, p);
}

static const option plan_rows[] = {
    ONE_STEP_MODEL_ROW("Step", plan_options, "MODEL"),
    ONE_STEP_RUN_ROW("Step", plan_options, "The step"),
    {.group = "Step",
     .name = "batch",
     OPTION_INTEGER_AT(plan_options, step.batch),
     .argument = "N",
     .help = "Examples in a mini-batch; of a run as many as it trains with, unless given; auto with --allow: the batch "
             "that trains most examples in a second",
     .initial = "64",
     .low = 1,
     .high = MOST_BATCH,
     .word = "auto",
     .offers = OPTION_CHOICES("auto")},
    {.group = "Machine",
     .name = "machine",
     OPTION_TEXT_AT(plan_options, texts.machine),
     .argument = "NAME",
     .help = "A machine that haul devices --machines lists, or a file; this computer unless given",
     .complete = COMPLETE_FILE},
    {.group = "Machine",
     .name = "devices",
     OPTION_TEXT_AT(plan_options, texts.devices),
     .argument = "LIST",
     .help = "The host and up to eight other devices, of the machine or simulated, for example cpu,cuda:0,cuda:1; the "
             "first two of the machine unless given"},
    {.group = "Machine",
     .name = "memory-limit",
     OPTION_TEXT_AT(plan_options, texts.limits),
     .argument = "LIMITS",
     .help = "Memory of the devices, for example cuda:0=2G,cpu=8G; without a device, of each one but the host; a "
             "percentage is of what the device needs alone; the memory of the machine unless given; with --ranks one "
             "size, for each device"},
    {.group = "Machine",
     .name = "place",
     OPTION_TEXT_AT(plan_options, texts.places),
     .argument = "LIST",
     .help = "Modules that stay on a device, for example 'conv*=cuda:0,fc*=cpu'"},
    {.group = "Machine",
     .name = "stages",
     OPTION_FLAG_AT(plan_options, texts.stages),
     .help = "Place consecutive modules on each device but the host, in stages of about the same time, for haul train "
             "--pipeline: micro-batches keep all of them busy"},
    {.group = "Machine",
     .name = "allow",
     OPTION_TEXT_AT(plan_options, allow),
     .argument = "LIST",
     .help = "Instead of placing operations, find the fastest way to train within --memory-limit on the device, with "
             "any of these: split, recompute, spill, accumulate, bf16, offload (the optimizer's state)"},
    {.group = "Ranks",
     .name = "ranks",
     OPTION_INTEGER_AT(plan_options, cluster.ranks),
     .argument = "N",
     .help =
         "Instead of placing operations, divide the training among up to N devices like the machine's first GPU, or "
         "its CPU if it has none: replicas, stages, shards and micro-batches, with the modules of the stages and "
         "the command that trains so. Up to 1024; nothing runs on them",
     .initial = "0",
     .high = HAUL__CLUSTER_DEVICES},
    {.group = "Ranks",
     .name = "per-host",
     OPTION_INTEGER_AT(plan_options, cluster.per_host),
     .argument = "N",
     .help = "Devices of each host",
     .initial = "8",
     .low = 1,
     .high = HAUL__CLUSTER_DEVICES},
    {.group = "Ranks",
     .name = "network",
     OPTION_TEXT_AT(plan_options, cluster.network),
     .argument = "RATE[,LATENCY]",
     .help = "The interface of a host, in each direction, for example 400gbit,5us or 800mbit,1ms",
     .initial = "100gbit,10us"},
    {.group = "Ranks",
     .name = "bucket",
     OPTION_TEXT_AT(plan_options, cluster.bucket),
     .argument = "SIZE",
     .help = "Gradients that are exchanged together, for example 64M; as in haul train, 4Mi, unless given"},
    {.group = "Ranks",
     .name = "group",
     OPTION_TEXT_AT(plan_options, cluster.group),
     .argument = "KIND",
     .help = "nccl: gradients leave the memory of GPUs directly; mpi: through host memory; auto: nccl if the machine "
             "has a link between two GPUs",
     .initial = "auto",
     .choices = OPTION_CHOICES("auto", "mpi", "nccl")},
    {.group = "Ranks",
     .name = "only",
     OPTION_TEXT_AT(plan_options, cluster.only),
     .argument = "LIST",
     .help = "Only plans with these numbers, for example stages=2,micro-batches=4,shard=0,replicas=8"},
    {.group = "Output",
     .name = "measure",
     OPTION_FLAG_AT(plan_options, measure),
     .help = "Also make some steps with each candidate, on this computer, and print their median time"},
    {.group = "Output",
     .name = "json",
     OPTION_FLAG_AT(plan_options, json),
     .help = "Print one JSON object instead: times, peaks, candidates, operations with reasons, and edges"},
    {.group = "Output",
     .name = "svg",
     OPTION_TEXT_AT(plan_options, svg),
     .argument = "FILE",
     .help = "Draw the modules, coloured by device, with bytes on the edges",
     .complete = COMPLETE_FILE},
    {.group = "Output",
     .name = "certificate",
     OPTION_TEXT_AT(plan_options, certificate),
     .argument = "FILE",
     .help = "Write the placement with the proof of its bound",
     .complete = COMPLETE_FILE},
    {.group = "Output",
     .name = "verify",
     OPTION_TEXT_AT(plan_options, verify),
     .argument = "FILE",
     .help = "Check such a file instead; with a step, also that it is about this step on this machine",
     .complete = COMPLETE_FILE}};

static int plan_main(int argc, char **argv)
{
    plan_options  o = {.step.device = "cpu"};
    planning      p = {.options = &o, .cluster.options = &o.cluster};
    option_values values;
    int           code = options_parse(&values, &plan_command, &o, argc, argv);
    if (code < 0)
        code = ranks_are_wrong(&o, &values) ? EXIT_USAGE : check(&o);
    o.cluster.machine = o.texts.machine;
    o.cluster.limit = o.texts.limits;
    o.step.batch_given = option_given(&values, "batch");
    o.step.finds_batch = o.allow != NULL;
    if (code < 0 && o.allow && !allow_parse(o.allow, &o.allowed))
        code = EXIT_USAGE;
    if (code < 0)
        code = run(&p);
    request_free(&p.request);
    cluster_free(&p.cluster);
    haul__json_free(p.certificate);
    return code;
}

static const help_example plan_lines[] = {{"haul plan --model simplecnn --batch 32 --machine h200", NULL},
                                          {"haul plan --model resnet18 --machine laptop-4g --memory-limit 2G", NULL},
                                          {"haul plan --run runs/first --svg plan.svg --certificate plan.json", NULL},
                                          {"haul plan --model resnet18 --devices cpu,cuda:0,cuda:1 --stages", NULL},
                                          {"haul plan --model resnet50 --batch 8192 --machine h200 --ranks 64", NULL},
                                          {"haul plan --verify plan.json --run runs/first", NULL},
                                          {"haul plan --allow spill --memory-limit 2G -- --batch 512", NULL},
                                          {NULL, NULL}};

const command plan_command = {
    .name = "plan",
    .summary = "Find the devices where the parts of a training step are fastest",
    .usage = "[OPTION...] [-- TRAIN_OPTION...]",
    .description =
        "Finds for each operation of a training step the device, of the host and up to eight others, with which the "
        "step is fastest, and says why. Nothing is computed: the times are those of the machine, and devices and links "
        "work at the same time. The placement has the proof of a lower bound for the sum of operations and copies, "
        "which can be kept and checked: with two devices and without limits no placement has a smaller sum.",
    .options = plan_rows,
    .option_count = sizeof plan_rows / sizeof *plan_rows,
    .operand = {.name = "TRAIN_OPTION",
                .help = "Options of haul train, whose step is planned, instead of --model and --run",
                .offset = offsetof(plan_options, step.train),
                .several = true,
                .options_of = &train_command},
    .examples = plan_lines,
    .run = plan_main,
};
