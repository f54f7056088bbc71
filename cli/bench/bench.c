/* haul bench: what copies and operations reach on the devices of this machine, and collectives between ranks. */
#include "cli/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "cli/options/commands.h"
#include "cli/options/options.h"
#include "cli/shared/cli.h"

static const option bench_rows[] = {
    {.group = "Options",
     .name = "device",
     OPTION_TEXT_AT(bench_options, device),
     .argument = "DEVICE",
     .help = "Measure this device instead of all: cpu, gpu, opencl:0 ...; haul devices lists them",
     .complete = COMPLETE_DEVICE},
    {.group = "Options",
     .name = "group",
     OPTION_TEXT_AT(bench_options, group),
     .argument = "NAME",
     .initial = "auto",
     .choices = OPTION_CHOICES("auto", "mpi", "none", "local:"),
     .help = "The ranks that `group` measures. auto, mpi: those that the launcher has started; local:cuda:0,cuda:1: a "
             "thread of this process for each device"},
    {.group = "Options",
     .name = "seconds",
     OPTION_NUMBER_AT(bench_options, seconds),
     .argument = "N",
     .help = "About how long each device, or the group, is measured; what does not fit is left out, with the reason",
     .initial = "10",
     .low = 0.1,
     .high = 3600},
    {.group = "Options",
     .name = "json",
     OPTION_FLAG_AT(bench_options, json),
     .help = "Print one JSON object instead, in bytes, seconds and operations"}};

typedef bool measurement(haul_device *device, double seconds, cJSON *json);

/* All devices that hold values, the CPU only if it is the only one. Meta is none of them. */
static bool measure_all(measurement *measure, double seconds, cJSON *json)
{
    enum { MOST = 64 };
    haul_device_report all[MOST];
    int                count = haul_device_list(all, MOST), measured = 0;
    for (int i = 0; i < count && i < MOST; i++) {
        haul_device_properties p;
        haul_device           *device = all[i].usable ? haul_device_get(all[i].name) : NULL;
        if (!device || device == haul_cpu())
            continue;
        if (haul_device_describe(device, &p)) {
            complain_error();
            return false;
        }
        if (p.kind == HAUL_KIND_META)
            continue;
        if (!measure(device, seconds, json))
            return false;
        measured++;
    }
    return measured || measure(haul_cpu(), seconds, json);
}

static bool measure_one(measurement *measure, const char *name, double seconds, cJSON *json)
{
    haul_device *device = device_use(name);
    return device && computes_values(device, "measured", "") && !haul_set_device(haul_cpu()) &&
           measure(device, seconds, json);
}

static int bench_main(int argc, char **argv)
{
    bench_options o = {0};
    option_values values;
    int           code = options_parse(&values, &bench_command, &o, argc, argv);
    if (code >= 0)
        return code;
    if (!strcmp(o.what, "group"))
        return o.device ? complain("--device belongs to transfer and compute; ranks exchange host memory")
                        : bench_group(&o);
    if (option_given(&values, "group"))
        return complain("--group is for haul bench group");
    measurement *measure = !strcmp(o.what, "transfer") ? bench_transfer : bench_compute;
    cJSON       *object = o.json ? cJSON_CreateObject() : NULL, *devices = NULL;
    if (o.json) {
        json_text(object, "bench", o.what);
        json_number(object, "seconds_per_device", o.seconds);
        devices = json_array(object, "devices");
        if (!devices) {
            cJSON_Delete(object);
            return complain("memory is exhausted");
        }
    }
    haul_set_grad_enabled(false);
    bool measured =
        o.device ? measure_one(measure, o.device, o.seconds, devices) : measure_all(measure, o.seconds, devices);
    if (o.json && measured)
        return json_print(object) ? EXIT_OK : EXIT_FAILED;
    cJSON_Delete(object);
    return measured ? EXIT_OK : EXIT_FAILED;
}

static const help_example bench_lines[] = {
    {"haul bench transfer", "From which size on do copies to a device run at full speed?"},
    {"haul bench compute --device opencl:0", "From which size on does it beat the CPU, with the copies included?"},
    {"mpirun -n 4 haul bench group", "How fast are sums over four processes?"},
    {"haul bench group --group local:cpu,cpu", "And over two threads of a process?"},
    {"haul bench transfer --json --seconds 2", NULL},
    {NULL, NULL}};

const command bench_command = {
    .name = "bench",
    .summary = "Measure how fast devices copy and compute",
    .usage = "transfer|compute|group [OPTION...]",
    .description =
        "Measures what the devices of this machine reach. transfer: copies of 4 B to 1 GiB between the CPU and each "
        "other device, from ordinary and pinned memory, waited for and asynchronous, up, down and both at once, "
        "compared with memcpy. compute: matrix products, convolutions, pointwise operations and sums by size and "
        "dtype, and the size at which a device overtakes the CPU, transfers included. group: collectives of the "
        "ranks that a launcher has started, or of threads of this process, by size, and the MPI library's own "
        "all-reduce; rank 0 prints. Each figure is the median of several rounds. Each round measures all variants in "
        "turn.",
    .options = bench_rows,
    .option_count = sizeof bench_rows / sizeof *bench_rows,
    .operand = {.name = "WHAT",
                .help = "transfer, compute or group",
                .offset = offsetof(bench_options, what),
                .required = true,
                .choices = OPTION_CHOICES("transfer", "compute", "group")},
    .examples = bench_lines,
    .run = bench_main,
};
