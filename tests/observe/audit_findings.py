"""The audit finds what is planted: a program for each finding, its line, its exact bytes, and bounds of its time.

The link of the stand-in and the pauses of the programs take at least so long as they say. The finding takes no longer than
the step, which the program measures with its own clock. On the stand-in the link takes most of the time of a step."""
# ctest: cuda; labels=slow
import json
import os
import re
import subprocess
import sys

HAUL, SOURCE, BUILD = (os.environ[name] for name in ("HAUL", "HAUL_SOURCE", "HAUL_BUILD"))
DEVICE = re.split("[ ,]+", os.environ.get("HAUL_TEST_DEVICES", "cpu,opencl:0"))[1]
STANDIN = DEVICE.startswith("cuda")
if os.environ.get("HAUL_SANITIZE"):
    print("skipped: a sanitized library needs sanitized programs")
    sys.exit(77)
found = json.loads(subprocess.run([HAUL, "devices", "--json"], capture_output=True, text=True).stdout)["devices"]
if not any(d["name"] == DEVICE and d["usable"] for d in found):
    print(f"skipped: there is no {DEVICE} here")
    sys.exit(77)
failures = []
STEPS = 12
ROWS = 64 if STANDIN else 16384  # of 256 numbers
SIZE = ROWS * 256 * 4

# A step is FAULT; what it should find is in the line with "here". The program prints the milliseconds of the longest step.
PROGRAM = r"""
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
static void nap(double ms) { struct timespec t = {0, (long)(ms * 1e6)}; nanosleep(&t, NULL); }
static haul_device *gpu;
static haul_tensor *w, *u, *big;
enum { ROWS = @ROWS@, STEPS = @STEPS@, WARM = @WARM@ };
@SETUP@
static void fault(int i)
{
    (void)i;
@FAULT@
}
static void run(int i)
{
    haul_scope *scope = haul_scope_push();
    fault(i);
    haul_scope_pop(scope);
}
int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    double longest = 0;
    struct rusage before = {0}, after;
    gpu = haul_device_get(argv[1]);
    w = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(256, 256), 0.01), gpu);
    u = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(64, 256), 1), gpu);
    big = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(ROWS, 256), 1), gpu);
    @BEGIN@
    haul_profile *profile = NULL;
    for (int i = 0; i < STEPS + WARM; i++) {
        if (i == WARM)
            getrusage(RUSAGE_SELF, &before);
        if (i == WARM)
            profile = haul_profile_begin(.everywhere = true);
        double began = now();
        run(i);
        if (profile) {
            haul_profile_step(profile);
            longest = now() - began > longest ? now() - began : longest;
        }
    }
    getrusage(RUSAGE_SELF, &after);
    haul_profile_end(profile);
    haul_profile_save(profile, argv[2]);
    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    printf("%.17g %ld\n", longest, after.ru_nivcsw - before.ru_nivcsw);
    return haul_error_status() != HAUL_OK || argc != 3;
}
"""


def alone(body):
    """From a device without work to the next time when it has none."""
    return f"""
    haul_device_sync(gpu);{body}
    haul_device_sync(gpu);"""


LATENCY = {"STANDIN_LATENCY": "2000000", "STANDIN_ORDER": "early"}
SLOW = {"STANDIN_BANDWIDTH": "800000", "STANDIN_ORDER": "early"}
CROSSING = 2 if STANDIN else 0  # milliseconds of a copy at least with LATENCY; a processor's OpenCL has no link
MANY, SMALL = (16, 1) if STANDIN else (64, 16)  # copies, each of so many rows

# name: (fault, setup, begin, bytes a step (None: not by bytes), milliseconds a step at least, environment)
PLANTED = {
    "ping-pong": ("""
    haul_tensor *y = haul_add_scalar(big, i);""" + alone("""
    haul_tensor *away = haul_to(y, haul_cpu()); // here
    haul_tensor *back = haul_to(away, gpu);""") + """
    haul_sum(back);""", "", "", 2 * SIZE, 2 * CROSSING, LATENCY),
    "ping-pong behind other work": (alone("""
    haul_tensor *y = haul_add_scalar(big, i);
    haul_tensor *away = haul_to(y, haul_cpu()); // here
    haul_tensor *back = haul_to(away, gpu);
    haul_sum(back);"""), "", "", 2 * SIZE, 2 * CROSSING, LATENCY),
    "unchanged": (alone("""
    haul_tensor *mask = haul_to(host, gpu); // here""") + """
    haul_sum(mask);""", "static haul_tensor *host;", "host = haul_full(HAUL_F32, HAUL_SHAPE(ROWS, 256), 0.5);", SIZE, CROSSING,
                  LATENCY),
    "many-small": (alone("""
    haul_tensor *parts[MANY];
    for (int k = 0; k < MANY; k++) {
        values[0] = (float)(i * MANY + k);
        parts[k] = haul_from_host(HAUL_F32, HAUL_SHAPE(SMALL, 256), values);
    }
    for (int k = 0; k < MANY; k++)
        parts[k] = haul_to(parts[k], gpu); // here
    for (int k = 0; k < MANY; k++)
        haul_add(parts[k], parts[k]);"""), f"enum {{ MANY = {MANY}, SMALL = {SMALL} }};\nstatic float values[SMALL * 256];", "", MANY * SMALL * 1024,
                   (MANY - 1) * CROSSING, LATENCY),
    "wrong-side": ("""
    bytes[0] = (uint8_t)i;
    haul_tensor *small = haul_from_host(HAUL_U8, HAUL_SHAPE(ROWS, 256), bytes);
    haul_tensor *large = haul_cast(small, HAUL_F32);""" + alone("""
    haul_tensor *there = haul_to(large, gpu); // here""") + """
    haul_sum(there);""", "static uint8_t bytes[ROWS * 256];", "", 3 * ROWS * 256, 3 * ROWS * 256 / 800 if STANDIN else 0, SLOW),
    "cpu-island": ("""
    haul_tensor *y = haul_add_scalar(big, i);""" + alone("""
    haul_tensor *away = haul_to(y, haul_cpu()); // here
    haul_tensor *changed = haul_exp(haul_abs(away));
    haul_tensor *back = haul_to(changed, gpu);""") + """
    haul_sum(back);""", "", "", 2 * SIZE, 2 * CROSSING, LATENCY),
    "cpu-island in place": ("""
    haul_tensor *y = haul_add_scalar(big, i);""" + alone("""
    haul_tensor *away = haul_to(y, haul_cpu()); // here
    haul_add_into(away, away, away);
    haul_to(away, gpu);"""), "", "", 2 * SIZE, 2 * CROSSING, LATENCY),
    "cpu-island in the program": ("""
    haul_tensor *y = haul_add_scalar(big, i);""" + alone("""
    haul_read(y, values, sizeof values); // here
    for (int k = 0; k < ROWS * 256; k++)
        values[k] += (float)(i + 1);
    nap(5);
    haul_tensor *changed = haul_wrap_host(HAUL_F32, HAUL_SHAPE(ROWS, 256), values, NULL, NULL);
    haul_to(changed, gpu);"""), "static float values[ROWS * 256];", "", 2 * SIZE, 2 * CROSSING + 5, LATENCY),
    "wait-per-step": ("""
    haul_tensor *y = haul_sum(haul_matmul(haul_matmul(u, w), w));
    double value = haul_item(y); // here
    if (value != value)
        exit(3);""", "", "", 4, 0, {}),
    "loader-bound": ("""
    const haul_batch *b = haul_loader_next(loader); // here
    if (!b)
        exit(4);
    haul_sum(haul_matmul(b->x, v));
    haul_device_sync(gpu);""", """static haul_loader *loader;
static haul_tensor *v;
static haul_status slow(void *context, haul_example *example)
{
    (void)context;
    nap(20);
    for (int i = 0; i < 10; i++)
        ((float *)example->fields[0].data)[i] = (float)example->index;
    return HAUL_OK;
}
""", """v = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(10, 4), 1), gpu);
    haul_dataset *data = haul_dataset_new(&(haul_dataset_source){
        .fields = {{"x", HAUL_F32, HAUL_SHAPE(10)}}, .count = 4 * (STEPS + WARM), .name = "slow", .read = slow});
    loader = haul_loader_new(data, .batch = 4, .workers = 1, .device = gpu);
    haul_loader_start(loader, 0);""", None, 0, {"STANDIN_ORDER": "early"}),  # else batches cross when somebody waits
    "host-bound": ("""
    haul_device_sync(gpu);
    nap(50);
    haul_sum(haul_matmul(haul_matmul(u, w), w)); // here""", "", "", None, 50, {}),
}
if STANDIN:  # it computes while commands are submitted, so nobody waits for it
    del PLANTED["wait-per-step"], PLANTED["host-bound"]
    PLANTED["pageable"] = ("""
    haul_tensor *x = haul_wrap_host(HAUL_F32, HAUL_SHAPE(4096, 256), values, NULL, NULL);
    values[0] = (float)i;
    haul_tensor *y = haul_to(x, gpu); // here
    haul_device_sync(gpu);
    (void)y;""", "static float values[4096 * 256];", "", 4096 * 1024, 0,  # a part crosses after the call
                           {"STANDIN_BANDWIDTH": "400000000"})


# Of findings that are not about copies to the device alone: kinds of bars, one of which is marked, and copies.
ABOUT = {
    "wait-per-step": ({"wait"}, {(DEVICE, "cpu", "haul_item")}), "loader-bound": ({"data"}, set()),
    "host-bound": (set(), set()), "many-small": ({"copy", "operation"}, {("cpu", DEVICE, "haul_to")}),
    "cpu-island": ({"operation"}, {("cpu", DEVICE, "haul_to")}),
    "ping-pong": ({"copy"}, {("cpu", DEVICE, "haul_to"), (DEVICE, "cpu", "haul_to")}),
}


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def build(name, fault, setup, begin, warm=4):
    """The program, which profiles after so many steps, and the line that its finding must name."""
    text = PROGRAM
    parts = {"ROWS": ROWS, "STEPS": STEPS, "WARM": warm, "SETUP": setup, "FAULT": fault, "BEGIN": begin}
    for mark, part in parts.items():
        text = text.replace(f"@{mark}@", str(part))
    file = f"{name}.c"
    with open(file, "w") as f:
        f.write(text)
    line = next(i for i, l in enumerate(text.splitlines(), 1) if "// here" in l)
    subprocess.run([os.environ["HAUL_CC"], "-std=gnu11", "-g", "-O1", "-I", f"{SOURCE}/include", file, "-o", f"./{name}",
                    "-L", BUILD, "-lhaul", "-lm", f"-Wl,-rpath,{BUILD}"], check=True)
    return f"{file}:{line}"


def run(name, environment):
    """The findings, the milliseconds of the longest step, and whether other processes disturbed it."""
    done = subprocess.run([f"./{name}", DEVICE, f"{name}.run"], capture_output=True, text=True,
                          env=os.environ | environment)
    check(f"{name} runs", done.returncode == 0, done.stderr)
    shown = subprocess.run([HAUL, "audit", "--json", f"{name}.run"], capture_output=True, text=True)
    ms, preempted = map(float, done.stdout.split() or ("nan", "nan"))
    return json.loads(shown.stdout), ms, preempted > STEPS / 4


def planted(case, fault, setup, begin, size, least, environment):
    name = case.split()[0]
    place = build(name, fault, setup, begin)
    for _ in range(10):
        findings, longest, disturbed = run(name, environment)
        mine = [f for f in findings if f["finding"] == name]
        if len(mine) == 1 or not disturbed:
            break  # on a busy machine the host is late, and that is the finding
    check(f"{case} is found once", len(mine) == 1, f"{findings}")
    if len(mine) != 1:
        return
    ms = mine[0]["ms_per_step"]
    check(f"{case} at its place", mine[0]["place"] == place, f"{mine[0]['place']} instead of {place}")
    check(f"{case} has its bytes", size is None or mine[0]["bytes_per_step"] == size, f"{mine[0]}")
    check(f"{case} is explained", mine[0]["what"].endswith(".") and mine[0]["fix"])
    check(f"{case} has its time", least <= ms <= longest, f"{least} {ms} {longest}")
    check_marks(case, name, findings.index(mine[0]), mine[0])
    text = subprocess.run([HAUL, "audit", f"{name}.run"], capture_output=True, text=True).stdout
    check(f"haul audit tells of {case}", re.search(rf"^{name} at {re.escape(place)}: ", text, re.M), text)


def check_marks(case, name, number, finding):
    """Which bars of the typical step, and which rows of a ledger, the finding is about."""
    with open(f"{name}.run/profile.json") as f:
        step = json.load(f)["timeline"]
    marked = {s["kind"] for t in step["tracks"] for s in t["spans"] if number in s.get("findings", [])}
    copies = {(c["from"], c["to"], c["operation"]) for c in finding["copies"]}
    bars, rows = ABOUT.get(name, ({"copy"}, {("cpu", DEVICE, "haul_to")}))
    unseen = name == "unchanged" and step["step"] <= 2  # it takes two steps to see that data are the same
    if name == "wait-per-step":  # on a busy machine the device may be done before the host asks in this step
        unseen = not any(s["kind"] == "wait" for t in step["tracks"] for s in t["spans"])
    check(f"{case} is about its bars", not bars or marked & bars or unseen, f"{marked}")
    check(f"{case} is about its copies", rows <= copies and finding["device"] == ("" if name == "loader-bound" else DEVICE),
          f"{finding}")


def cold(case, fault, setup, begin, size, least, environment):
    """Without a warm-up and with empty caches compilation is the first finding, and the planted one is found as well."""
    name = case.split()[0]
    place = build(name, fault, setup, begin, warm=0)
    for attempt in range(10):
        folders = {"HAUL_CACHE_DIR": os.path.abspath(f"{name}.{attempt}.haul"), "POCL_CACHE_DIR": os.path.abspath(f"{name}.{attempt}.pocl")}
        findings, _, disturbed = run(name, environment | folders)
        mine = [f for f in findings if f["finding"] == name]
        if len(mine) == 1 or not disturbed:
            break
    with open(f"{name}.run/profile.json") as file:
        profile = json.load(file)
    phases = {p["name"]: p["ms"] for p in profile["phases"]}
    rows = {o["name"]: o for o in profile["operations"]}
    check(f"cold {case}: compilation comes first", findings and findings[0]["finding"] == "compilation", f"{findings}")
    check(f"cold {case}: compilation happens in the first step", "kernel compilation in step 1: " in findings[0]["what"], f"{findings}")
    check(f"cold {case} is found once", len(mine) == 1 and mine[0]["place"] == place, f"{findings}")
    check(f"cold {case} has its bytes", size is None or mine[0]["bytes_per_step"] == size, f"{mine}")
    # more than one cost is about the same time, but none is about that of the compilation
    check(f"cold {case}: no other finding has that time", all(f["ms_per_step"] <= profile["steady_ms"] for f in findings[1:]),
          f"{profile['steady_ms']} {findings}")
    check(f"cold {case}: compilation is a phase", phases["compile"] > 0.1 * profile["wall_ms"], f"{phases}")
    check(f"cold {case}: compilation is a row", abs(rows["(compilation)"]["host_ms"] - phases["compile"]) < 1e-6 * profile["wall_ms"],
          f"{phases} {rows}")
    check(f"cold {case}: the first step is the warm-up", profile["warm_ups"] >= 1 and profile["timeline"]["step"] > 1,
          f"{profile['warm_ups']} {profile['timeline']['step']}")
    text = subprocess.run([HAUL, "profile", f"{name}.run"], capture_output=True, text=True).stdout
    check(f"cold {case}: haul profile says so", "without the warm-up of " in text, text)


if __name__ == "__main__":
    for case, what in PLANTED.items():
        planted(case, *what)
    for case in ("unchanged", "cpu-island", "wait-per-step", "host-bound"):
        if case in PLANTED:
            cold(case, *PLANTED[case])
    sys.exit(bool(failures))
