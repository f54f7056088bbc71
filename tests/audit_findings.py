"""The audit finds what is planted: a program for each finding, its line, its exact bytes, and its time.

Each program measures with its own clock what the finding costs, in the same steps: a part with the fault, minus a part
with the fix if there is one. On the stand-in the link is so slow that it takes most of the time."""
# ctest: cuda; labels=slow; timeout=600; serial
import json
import os
import re
import statistics
import subprocess
import sys

HAUL, SOURCE, BUILD = (os.environ[name] for name in ("HAUL", "HAUL_SOURCE", "HAUL_BUILD"))
DEVICE = os.environ.get("HAUL_TEST_DEVICES", "cpu,opencl:0").split(",")[1]
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

# A step is FAULT and FIX; what it should find is in the line with "here". Clocks run from clock_begin to clock_end.
PROGRAM = r"""
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
static double total;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
#define clock_begin double began = now()
#define clock_end total += now() - began
static void nap(double ms) { struct timespec t = {0, (long)(ms * 1e6)}; nanosleep(&t, NULL); }
static haul_device *gpu;
static haul_tensor *w, *u, *big;
enum { ROWS = @ROWS@, STEPS = @STEPS@, WARM = 4 };
@SETUP@
static void fault(int i)
{
    (void)i;
@FAULT@
}
static void fix(int i)
{
    (void)i;
@FIX@
}
static double run(void (*part)(int), int i)
{
    haul_scope *scope = haul_scope_push();
    total = 0;
    part(i);
    haul_scope_pop(scope);
    return total;
}
int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    double ms = 0;
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
        double took = run(fault, i) - run(fix, i);
        if (profile) {
            haul_profile_step(profile);
            ms += took;
        }
    }
    getrusage(RUSAGE_SELF, &after);
    haul_profile_end(profile);
    haul_profile_save(profile, argv[2]);
    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    printf("%.17g %ld\n", ms / STEPS, after.ru_nivcsw - before.ru_nivcsw);
    return haul_error_status() != HAUL_OK || argc != 3;
}
"""


def timed(body):
    """From a device without work to the next time when it has none."""
    return f"""
    haul_device_sync(gpu);
    clock_begin;{body}
    haul_device_sync(gpu);
    clock_end;"""


LATENCY = {"STANDIN_LATENCY": "2000000", "STANDIN_ORDER": "early"}
SLOW = {"STANDIN_BANDWIDTH": "800000", "STANDIN_ORDER": "early"}
# A processor's OpenCL has no link, so these take less time than what the profile does at each copy, or than a busy
# machine adds and takes away.
UNTIMED = () if STANDIN else ("ping-pong behind other work", "unchanged", "many-small", "wrong-side")
MANY, SMALL = (16, 1) if STANDIN else (64, 16)  # copies, each of so many rows

# name: (fault, fix, setup, begin, bytes a step (None: not by bytes), environment)
PLANTED = {
    # the copies and what the CPU computes take so long
    "ping-pong": ("""
    haul_tensor *y = haul_add_scalar(big, i);""" + timed("""
    haul_tensor *away = haul_to(y, haul_cpu()); // here
    haul_tensor *back = haul_to(away, gpu);""") + """
    haul_sum(back);""", "", "", "", 2 * SIZE, LATENCY),
    # the step takes longer by so much
    "ping-pong behind other work": (timed("""
    haul_tensor *y = haul_add_scalar(big, i);
    haul_tensor *away = haul_to(y, haul_cpu()); // here
    haul_tensor *back = haul_to(away, gpu);
    haul_sum(back);"""), timed("""
    haul_sum(haul_add_scalar(big, i));"""), "", "", 2 * SIZE, LATENCY),
    "unchanged": (timed("""
    haul_tensor *mask = haul_to(host, gpu); // here""") + """
    haul_sum(mask);""", "", "static haul_tensor *host;", "host = haul_full(HAUL_F32, HAUL_SHAPE(ROWS, 256), 0.5);", SIZE,
                  LATENCY),
    "many-small": (timed("""
    haul_tensor *parts[MANY];
    for (int k = 0; k < MANY; k++) {
        values[0] = (float)(i * MANY + k);
        parts[k] = haul_from_host(HAUL_F32, HAUL_SHAPE(SMALL, 256), values);
    }
    for (int k = 0; k < MANY; k++)
        parts[k] = haul_to(parts[k], gpu); // here
    for (int k = 0; k < MANY; k++)
        haul_add(parts[k], parts[k]);"""), timed("""
    haul_tensor *parts[MANY];
    for (int k = 0; k < MANY; k++) {
        values[0] = (float)(i * MANY + k);
        parts[k] = haul_from_host(HAUL_F32, HAUL_SHAPE(SMALL, 256), values);
    }
    haul_tensor *all = haul_to(haul_cat(parts, MANY, 0), gpu);
    for (int k = 0; k < MANY; k++) {
        haul_tensor *part = haul_slice(all, 0, k * SMALL, (k + 1) * SMALL, 1);
        haul_add(part, part);
    }"""), f"enum {{ MANY = {MANY}, SMALL = {SMALL} }};\nstatic float values[SMALL * 256];", "", MANY * SMALL * 1024,
                   LATENCY),
    # the copies take longer by so much
    "wrong-side": ("""
    bytes[0] = (uint8_t)i;
    haul_tensor *small = haul_from_host(HAUL_U8, HAUL_SHAPE(ROWS, 256), bytes);
    haul_tensor *large = haul_cast(small, HAUL_F32);""" + timed("""
    haul_tensor *there = haul_to(large, gpu); // here""") + """
    haul_sum(there);""", """
    haul_tensor *small = haul_from_host(HAUL_U8, HAUL_SHAPE(ROWS, 256), bytes);""" + timed("""
    haul_tensor *there = haul_to(small, gpu);""") + """
    haul_sum(there);""", "static uint8_t bytes[ROWS * 256];", "", 3 * ROWS * 256, SLOW),
    # these take so long again
    "cpu-island": ("""
    haul_tensor *y = haul_add_scalar(big, i);""" + timed("""
    haul_tensor *away = haul_to(y, haul_cpu()); // here
    haul_tensor *changed = haul_exp(haul_abs(away));
    haul_tensor *back = haul_to(changed, gpu);""") + """
    haul_sum(back);""", "", "", "", 2 * SIZE, LATENCY),
    "cpu-island in place": ("""
    haul_tensor *y = haul_add_scalar(big, i);""" + timed("""
    haul_tensor *away = haul_to(y, haul_cpu()); // here
    haul_add_into(away, away, away);
    haul_to(away, gpu);"""), "", "", "", 2 * SIZE, LATENCY),
    "cpu-island in the program": ("""
    haul_tensor *y = haul_add_scalar(big, i);""" + timed("""
    haul_read(y, values, sizeof values); // here
    for (int k = 0; k < ROWS * 256; k++)
        values[k] += (float)(i + 1);
    nap(5);
    haul_tensor *changed = haul_wrap_host(HAUL_F32, HAUL_SHAPE(ROWS, 256), values, NULL, NULL);
    haul_to(changed, gpu);"""), "", "static float values[ROWS * 256];", "", 2 * SIZE, LATENCY),
    # the host waits so long
    "wait-per-step": ("""
    haul_tensor *y = haul_sum(haul_matmul(haul_matmul(u, w), w));
    clock_begin;
    double value = haul_item(y); // here
    clock_end;
    if (value != value)
        exit(3);""", "", "", "", 4, {}),
    "loader-bound": ("""
    clock_begin;
    const haul_batch *b = haul_loader_next(loader); // here
    clock_end;
    if (!b)
        exit(4);
    haul_sum(haul_matmul(b->x, v));
    haul_device_sync(gpu);""", "", """static haul_loader *loader;
static haul_tensor *v;
static haul_status slow(void *context, haul_example *example)
{
    (void)context;
    nap(2);
    for (int i = 0; i < 10; i++)
        ((float *)example->fields[0].data)[i] = (float)example->index;
    return HAUL_OK;
}
""", """v = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(10, 4), 1), gpu);
    haul_dataset *data = haul_dataset_new(&(haul_dataset_source){
        .fields = {{"x", HAUL_F32, HAUL_SHAPE(10)}}, .count = 4 * (STEPS + WARM), .name = "slow", .read = slow});
    loader = haul_loader_new(data, .batch = 4, .workers = 1, .device = gpu);
    haul_loader_start(loader, 0);""", None, {"STANDIN_ORDER": "early"}),  # else batches cross when somebody waits
    # the device has nothing to do for so long
    "host-bound": ("""
    haul_device_sync(gpu);
    clock_begin;
    nap(5);
    clock_end;
    haul_sum(haul_matmul(haul_matmul(u, w), w)); // here""", "", "", "", None, {}),
}
if STANDIN:  # it computes while commands are submitted, so nobody waits for it
    del PLANTED["wait-per-step"], PLANTED["host-bound"]
    # the call of the copy takes longer by so much
    PLANTED["pageable"] = ("""
    haul_tensor *x = haul_wrap_host(HAUL_F32, HAUL_SHAPE(4096, 256), values, NULL, NULL);
    values[0] = (float)i;
    clock_begin;
    haul_tensor *y = haul_to(x, gpu); // here
    clock_end;
    haul_device_sync(gpu);
    (void)y;""", """
    haul_fill_into(pinned, i);
    clock_begin;
    haul_tensor *y = haul_to(pinned, gpu);
    clock_end;
    haul_device_sync(gpu);
    (void)y;""", "static float values[4096 * 256];\nstatic haul_tensor *pinned;",
                           "pinned = haul_pin(haul_zeros(HAUL_F32, HAUL_SHAPE(4096, 256)), gpu);", 4096 * 1024,
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


def build(name, fault, fix, setup, begin):
    """The program and the line that its finding must name."""
    text = PROGRAM
    parts = {"ROWS": ROWS, "STEPS": STEPS, "SETUP": setup, "FAULT": fault, "FIX": fix, "BEGIN": begin}
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
    """The findings, the milliseconds of a step that the program measured, and whether other processes disturbed it."""
    done = subprocess.run([f"./{name}", DEVICE, f"{name}.run"], capture_output=True, text=True,
                          env=os.environ | environment)
    check(f"{name} runs", done.returncode == 0, done.stderr)
    shown = subprocess.run([HAUL, "audit", "--json", f"{name}.run"], capture_output=True, text=True)
    ms, preempted = map(float, done.stdout.split() or ("nan", "nan"))
    return json.loads(shown.stdout), ms, preempted > STEPS / 4


def measure(case, name, place, size, environment):
    """Of five runs, what the audit says in relation to what the program measured."""
    ratios, attempts = [], 5 if STANDIN or case in UNTIMED else 10
    for attempt in range(attempts):
        findings, ms, disturbed = run(name, environment)
        mine = [f for f in findings if f["finding"] == name]
        if len(mine) != 1 and disturbed and attempt + 1 < attempts:
            continue  # on a busy machine the host is late, and that is the finding
        check(f"{case} is found once", len(mine) == 1, f"{findings}")
        if len(mine) != 1:
            break
        check(f"{case} at its place", mine[0]["place"] == place, f"{mine[0]['place']} instead of {place}")
        check(f"{case} has its bytes", size is None or mine[0]["bytes_per_step"] == size, f"{mine[0]}")
        check(f"{case} is explained", mine[0]["what"].endswith(".") and mine[0]["fix"] and mine[0]["ms_per_step"] >= 0)
        check_marks(case, name, findings.index(mine[0]), mine[0])
        if STANDIN or not disturbed:
            ratios.append(mine[0]["ms_per_step"] / ms)
        if len(ratios) == 5:
            break
    return ratios


def check_marks(case, name, number, finding):
    """Which bars of the typical step, and which rows of a ledger, the finding is about."""
    with open(f"{name}.run/profile.json") as f:
        step = json.load(f)["timeline"]
    marked = {s["kind"] for t in step["tracks"] for s in t["spans"] if number in s.get("findings", [])}
    copies = {(c["from"], c["to"], c["operation"]) for c in finding["copies"]}
    bars, rows = ABOUT.get(name, ({"copy"}, {("cpu", DEVICE, "haul_to")}))
    unseen = name == "unchanged" and step["step"] <= 2  # it takes two steps to see that data are the same
    check(f"{case} is about its bars", not bars or marked & bars or unseen, f"{marked}")
    check(f"{case} is about its copies", rows <= copies and finding["device"] == ("" if name == "loader-bound" else DEVICE),
          f"{finding}")


def planted(case, fault, fix, setup, begin, size, environment):
    name = case.split()[0]
    place = build(name, fault, fix, setup, begin)
    ratios = measure(case, name, place, size, environment)
    if case in UNTIMED or len(ratios) < 5:
        print("      the time of", case, "is not checked" if case in UNTIMED else "is not known: the machine is busy")
    else:
        check(f"{case} has its time", abs(statistics.median(ratios) - 1) < 0.2, f"{ratios}")
    text = subprocess.run([HAUL, "audit", f"{name}.run"], capture_output=True, text=True).stdout
    check(f"haul audit tells of {case}", re.search(rf"^{name} at {re.escape(place)}: ", text, re.M), text)


if __name__ == "__main__":
    for case, what in PLANTED.items():
        planted(case, *what)
    sys.exit(bool(failures))
