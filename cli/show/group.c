/* haul group: the ranks that a launcher has started, how they are connected, and how fast. */
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/local_ranks.h"
#include "cli/shared/terminal.h"
#include "group/group.h"
#include "group/work.h"

enum { ROUNDS = 30, SUMS = 5, COUNT = 1 << 22 };

typedef struct group_options {
    const char *group, *device;
    bool        json;
} group_options;

typedef struct speeds {
    double latency;   /* seconds of a barrier */
    double sum;       /* seconds of a sum of COUNT floats */
    double bandwidth; /* bytes that a rank sends in a second of it */
} speeds;

static double since(int64_t began)
{
    return (double)(haul__system_ns() - began) * 1e-9;
}

/* All ranks measure, and each keeps its own figures. The sum is on the rank's device, as in training. */
static haul_status measure(haul_group *g, speeds *out)
{
    const haul__group_call call = {.name = "haul group", .what = "a sum of 4194304 floats"};
    const int              size = haul_group_size(g);
    double                 seconds[ROUNDS];
    haul_scope            *scope = haul_scope_push();
    haul_tensor           *x = haul_zeros(HAUL_F32, HAUL_SHAPE(COUNT));
    haul_status            status = haul_tensor_check(x);
    for (int i = -2; i < ROUNDS && !status; i++) {
        const int64_t began = haul__system_ns();
        status = haul_group_barrier(g);
        if (i >= 0)
            seconds[i] = since(began);
    }
    out->latency = status ? 0 : median_of(seconds, ROUNDS);
    for (int i = -1; i < SUMS && !status; i++) {
        const int64_t began = haul__system_ns();
        status = haul__work_wait(haul__group_sum_tensors_begin(g, &call, &(haul__tree){size, size}, &x));
        if (i >= 0)
            seconds[i] = since(began);
    }
    haul_scope_pop(scope);
    if (status)
        return status;
    out->sum = median_of(seconds, SUMS);
    out->bandwidth = 2.0 * (size - 1) / size * COUNT * sizeof(float) / out->sum;
    return HAUL_OK;
}

/* The number of hosts. A host's ranks need not follow each other. */
static int count_hosts(const haul_group *g, int size)
{
    int hosts = 0;
    for (int r = 0; r < size; r++) {
        haul_group_member one, other;
        int               before = 0;
        for (haul_group_member_get(g, r, &one); before < r; before++)
            if (!haul_group_member_get(g, before, &other) && strcmp(one.host, other.host) == 0)
                break;
        hosts += before == r;
    }
    return hosts;
}

/* The device of a rank that is a thread; NULL: it is a process. */
static const char *device_of(const haul_group *g, int rank)
{
    const haul__engine *e = g->engine;
    return e && e->kind->device ? e->kind->device(e, rank) : NULL;
}

static void print_rank(const haul_group *g, const haul_group_member *m)
{
    const char *device = device_of(g, m->rank);
    char        name[24];
    snprintf(name, sizeof name, "rank %d", m->rank);
    if (device)
        print_labelled_format(name, "%s: a thread of process %d on host %s", device, m->process, m->host);
    else
        print_labelled_format(name, "host %s, process %d", m->host, m->process);
}

static void print_text(const haul_group *g, const haul_group_properties *p, const speeds *s)
{
    const int hosts = count_hosts(g, p->size);
    print_labelled_format("ranks", "%d on %d host%s", p->size, hosts, hosts == 1 ? "" : "s");
    if (*p->library)
        print_labelled_format("library", "%s (%s): %s", p->library, p->family, p->version);
    else
        print_labelled_format("library", p->size > 1 ? "none: the ranks are threads" : "none: this process is alone");
    for (int r = 0; r < p->size; r++) {
        haul_group_member m;
        if (!haul_group_member_get(g, r, &m))
            print_rank(g, &m);
    }
    print_labelled_format("limit", "%g s for a rank to reach a collective", p->limit);
    if (p->size == 1) {
        putchar('\n');
        print_wrapped("Start several processes with a launcher: mpirun -n 4 haul group", 0, 0);
        return;
    }
    print_labelled_format("latency", "%s for a barrier", text_seconds_like(s->latency, s->sum));
    print_labelled_format("sum", "%s for 16 MiB of f32; each rank sends %s", text_seconds(s->sum),
                          text_rate((int64_t)s->bandwidth, false));
}

static bool print_json(const haul_group *g, const haul_group_properties *p, const speeds *s)
{
    cJSON *object = cJSON_CreateObject();
    json_text(object, "kind", p->kind);
    json_text(object, "library", p->library);
    json_text(object, "family", p->family);
    json_text(object, "version", p->version);
    json_number(object, "size", p->size);
    json_number(object, "hosts", count_hosts(g, p->size));
    json_number(object, "limit_seconds", p->limit);
    cJSON *ranks = json_array(object, "ranks");
    for (int r = 0; r < p->size; r++) {
        haul_group_member m;
        if (haul_group_member_get(g, r, &m))
            continue;
        cJSON *one = cJSON_CreateObject();
        json_number(one, "rank", m.rank);
        json_text(one, "host", m.host);
        json_number(one, "process", m.process);
        if (device_of(g, r))
            json_text(one, "device", device_of(g, r));
        json_push(ranks, one);
    }
    if (p->size > 1) {
        json_number(object, "latency_seconds", s->latency);
        json_number(object, "sum_seconds", s->sum);
        json_number(object, "sum_bytes", (double)COUNT * sizeof(float));
        json_number(object, "bandwidth_bytes_per_second", s->bandwidth);
    }
    return json_print(object);
}

static const option group_rows[] = {
    {.group = "Options",
     .name = "group",
     OPTION_TEXT_AT(group_options, group),
     .argument = "NAME",
     .initial = "auto",
     .choices = OPTION_CHOICES("auto", "mpi", "nccl", "none", "local:"),
     .help = "Which processes. " GROUP_HELP "; local:cuda:0,cuda:1: a thread of this process for each device"},
    {.group = "Options",
     .name = "device",
     OPTION_TEXT_AT(group_options, device),
     .argument = "NAME",
     .help = "This rank's device: cpu, cuda:0 ...; haul devices lists them"},
    {.group = "Options", .name = "json", OPTION_FLAG_AT(group_options, json), .help = "Print one JSON object instead"}};

static int show(haul_group *g, bool json)
{
    haul_group_properties p;
    speeds                s = {0};
    if (!g || haul_group_describe(g, &p) || (p.size > 1 && measure(g, &s)))
        return complain("%s", error_text());
    if (p.rank > 0)
        return EXIT_OK;
    if (json)
        return print_json(g, &p, &s) ? EXIT_OK : EXIT_FAILED;
    print_text(g, &p, &s);
    return EXIT_OK;
}

static int show_rank(haul_group *g, void *context)
{
    const group_options *o = context;
    return show(g, o->json);
}

static int show_threads(group_options *o)
{
    if (!o->device)
        return local_ranks_run(o->group, show_rank, o);
    complain("--group %s names the device of each rank; leave --device out", o->group);
    return EXIT_USAGE;
}

static int group_main(int argc, char **argv)
{
    group_options o = {0};
    option_values values;
    const int     code = options_parse(&values, &group_command, &o, argc, argv);
    if (code >= 0)
        return code;
    if (local_ranks_named(o.group))
        return show_threads(&o);
    if (o.device && !device_use(o.device))
        return EXIT_FAILED;
    return show(haul_group_get(o.group), o.json);
}

static const help_example group_lines[] = {{"haul group", NULL},
                                           {"mpirun -n 4 haul group", "Four processes on this machine"},
                                           {"haul group --group local:cuda:0,cuda:1", "Two devices of this process"},
                                           {NULL, NULL}};

const command group_command = {
    .name = "group",
    .summary = "Show the ranks that a launcher started, and their speed",
    .usage = "[--group NAME] [--device NAME] [--json]",
    .description =
        "Shows the ranks that mpirun, mpiexec or srun has started, their hosts, the library that connects "
        "them, and how fast they exchange data: the first check of a new cluster. Rank 0 prints. With --group "
        "local:LIST the ranks are threads of this process, one for each device.",
    .options = group_rows,
    .option_count = sizeof group_rows / sizeof *group_rows,
    .examples = group_lines,
    .run = group_main,
};
