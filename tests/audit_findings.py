"""The audit finds what is planted: a program for each finding, its line, its exact bytes, and about its time."""
# ctest: cuda; labels=slow; timeout=300
import json
import os
import re
import statistics
import subprocess
import sys

HAUL, SOURCE, BUILD = (os.environ[name] for name in ("HAUL", "HAUL_SOURCE", "HAUL_BUILD"))
DEVICE = os.environ.get("HAUL_TEST_DEVICES", "cpu,opencl:0").split(",")[1]
if os.environ.get("HAUL_SANITIZE"):
    print("skipped: a sanitized library needs sanitized programs")
    sys.exit(77)
found = json.loads(subprocess.run([HAUL, "devices", "--json"], capture_output=True, text=True).stdout)["devices"]
if not any(d["name"] == DEVICE and d["usable"] for d in found):
    print(f"skipped: there is no {DEVICE} here")
    sys.exit(77)
failures = []
STEPS = 12

# A step is STEP; what it should find is in the line with "here". clock_begin and clock_end measure what it costs.
PROGRAM = r"""
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static double total;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
#define clock_begin double began = now()
#define clock_end total += now() - began
static void nap(double ms) { struct timespec t = {0, (long)(ms * 1e6)}; nanosleep(&t, NULL); }
static haul_device *gpu;
static haul_tensor *w, *u;
SETUP
static void step(int i)
{
    (void)i;
STEP
}
int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    gpu = haul_device_get(argv[1]);
    w = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(256, 256), 0.01), gpu);
    u = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(64, 256), 1), gpu);
    BEGIN
    haul_profile *profile = NULL;
    for (int i = 0; i < STEPS + 4; i++) {
        if (i == 4) {
            haul_device_sync(gpu);
            total = 0;
            profile = haul_profile_begin(.everywhere = true);
        }
        haul_scope *part = haul_scope_push();
        step(i);
        haul_scope_pop(part);
        if (profile)
            haul_profile_step(profile);
    }
    haul_profile_end(profile);
    haul_profile_save(profile, argv[2]);
    haul_scope_pop(scope);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    printf("%.17g\n", total / STEPS);
    return haul_error_status() != HAUL_OK || argc != 3;
}
"""

# name: step, setup, begin, bytes a step (None: not by bytes), whether the program's clock says what it costs
WORK = "haul_matmul(haul_matmul(u, w), w);"
PLANTED = {
    "ping-pong": (f"""
    haul_tensor *y = haul_matmul(u, w);
    haul_tensor *away = haul_to(y, haul_cpu()); // here
    haul_tensor *back = haul_to(away, gpu);
    haul_matmul(back, w);
    haul_device_sync(gpu);""", "", "", 2 * 64 * 256 * 4, False),
    "cpu-island": (f"""
    haul_tensor *y = haul_matmul(u, w);
    haul_tensor *away = haul_to(y, haul_cpu()); // here
    haul_tensor *changed = haul_exp(haul_abs(away));
    haul_tensor *back = haul_to(changed, gpu);
    haul_matmul(back, w);
    haul_device_sync(gpu);""", "", "", 2 * 64 * 256 * 4, False),
    "cpu-island in place": (f"""
    haul_tensor *away = haul_to(haul_matmul(u, w), haul_cpu()); // here
    haul_add_into(away, away, away);
    haul_matmul(haul_to(away, gpu), w);
    haul_device_sync(gpu);""", "", "", 2 * 64 * 256 * 4, False),
    "cpu-island in the program": (f"""
    haul_read(haul_matmul(u, w), values, sizeof values); // here
    for (int k = 0; k < 64 * 256; k++)
        values[k] += (float)(i + 1);
    haul_matmul(haul_to(haul_wrap_host(HAUL_F32, HAUL_SHAPE(64, 256), values, NULL, NULL), gpu), w);
    haul_device_sync(gpu);""", "static float values[64 * 256];", "", 2 * 64 * 256 * 4, False),
    "wait-per-step": (f"""
    haul_tensor *y = haul_sum({WORK[:-1]});
    clock_begin;
    double value = haul_item(y); // here
    clock_end;
    if (value != value)
        exit(3);""", "", "", 4, True),
    "unchanged": (f"""
    haul_tensor *mask = haul_to(host, gpu); // here
    haul_mul({WORK[:-1]}, mask);
    haul_device_sync(gpu);""", "static haul_tensor *host;",
                  "host = haul_full(HAUL_F32, HAUL_SHAPE(64, 256), 0.5);", 64 * 256 * 4, False),
    "many-small": (f"""
    for (int k = 0; k < 64; k++) {{
        values[0] = (float)(i * 64 + k);
        clock_begin;
        haul_tensor *row = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(256), values), gpu); // here
        clock_end;
        haul_add(row, row);
    }}
    haul_device_sync(gpu);""", "static float values[256];", "", 64 * 1024, False),
    "wrong-side": (f"""
    bytes[0] = (uint8_t)i;
    haul_tensor *small = haul_from_host(HAUL_U8, HAUL_SHAPE(256, 256), bytes);
    haul_tensor *large = haul_cast(small, HAUL_F32);
    haul_tensor *there = haul_to(large, gpu); // here
    haul_matmul(there, w);
    haul_device_sync(gpu);""", "static uint8_t bytes[256 * 256];", "", 3 * 256 * 256, False),
    "loader-bound": (f"""
    clock_begin;
    const haul_batch *b = haul_loader_next(loader); // here
    clock_end;
    if (!b)
        exit(4);
    haul_sum(haul_matmul(b->x, v));
    haul_device_sync(gpu);""", """static haul_loader *loader;
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
        .fields = {{"x", HAUL_F32, HAUL_SHAPE(10)}}, .count = 4 * (STEPS + 4), .name = "slow", .read = slow});
    loader = haul_loader_new(data, .batch = 4, .workers = 1, .device = gpu);
    haul_loader_start(loader, 0);""", None, True),
    "host-bound": (f"""
    clock_begin;
    nap(5);
    clock_end;
    haul_sum(haul_matmul(haul_matmul(u, w), w)); // here""", "", "", None, True),
}
if DEVICE.startswith("cuda"):  # the stand-in computes while commands are submitted, so nobody waits for it
    del PLANTED["wait-per-step"], PLANTED["host-bound"]
    PLANTED["pageable"] = (f"""
    values[0] = (float)i;
    clock_begin;
    haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(64, 256), values), gpu); // here
    clock_end;
    haul_matmul(x, w);
    haul_device_sync(gpu);""", "static float values[64 * 256];", "", 64 * 256 * 4, False)


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def build(name, step, setup, begin):
    """The program and the line that its finding must name."""
    text = PROGRAM.replace("SETUP", setup).replace("STEP\n", step + "\n").replace("BEGIN", begin)
    text = text.replace("STEPS", str(STEPS))
    file = f"{name}.c"
    with open(file, "w") as f:
        f.write(text)
    line = next(i for i, l in enumerate(text.splitlines(), 1) if "// here" in l)
    subprocess.run([os.environ["HAUL_CC"], "-std=gnu11", "-g", "-O1", "-I", f"{SOURCE}/include", file, "-o", f"./{name}",
                    "-L", BUILD, "-lhaul", "-lm", f"-Wl,-rpath,{BUILD}"], check=True)
    return f"{file}:{line}"


def run(name):
    """The findings, and the milliseconds of a step that the program measured."""
    done = subprocess.run([f"./{name}", DEVICE, f"{name}.run"], capture_output=True, text=True)
    check(f"{name} runs", done.returncode == 0, done.stderr)
    shown = subprocess.run([HAUL, "audit", "--json", f"{name}.run"], capture_output=True, text=True)
    return json.loads(shown.stdout), float(done.stdout or "nan")


def planted(case, step, setup, begin, size, timed):
    name = case.split()[0]
    place = build(name, step, setup, begin)
    ratios = []
    for _ in range(5):
        findings, ms = run(name)
        mine = [f for f in findings if f["finding"] == name]
        check(f"{name} is found once", len(mine) == 1, f"{findings}")
        if len(mine) != 1:
            return
        check(f"{name} at its place", mine[0]["place"] == place, f"{mine[0]['place']} instead of {place}")
        check(f"{name} has its bytes", size is None or mine[0]["bytes_per_step"] == size, f"{mine[0]}")
        check(f"{name} is explained", mine[0]["what"].endswith(".") and mine[0]["fix"] and mine[0]["ms_per_step"] > 0)
        ratios.append(mine[0]["ms_per_step"] / ms if timed else 1)
    check(f"{name} has its time", abs(statistics.median(ratios) - 1) < 0.2, f"{ratios}")
    text = subprocess.run([HAUL, "audit", f"{name}.run"], capture_output=True, text=True).stdout
    check(f"haul audit tells of {name}", re.search(rf"^{name} at {re.escape(place)}: ", text, re.M), text)


if __name__ == "__main__":
    for name, what in PLANTED.items():
        planted(name, *what)
    sys.exit(bool(failures))
