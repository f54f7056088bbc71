"""Places in findings, budgets and reports of waits are lines of the program, also where the library copies and waits
within other calls: a layer that is elsewhere, a backward pass, a row of pointwise.def."""
# ctest: cuda
import json
import os
import re
import subprocess
import sys

HAUL, SOURCE, BUILD = (os.environ[name] for name in ("HAUL", "HAUL_SOURCE", "HAUL_BUILD"))
DEVICE = re.split("[ ,]+", os.environ.get("HAUL_TEST_DEVICES", "cpu,opencl:0"))[1]
if os.environ.get("HAUL_SANITIZE"):
    print("skipped: a sanitized library needs sanitized programs")
    sys.exit(77)
found = json.loads(subprocess.run([HAUL, "devices", "--json"], capture_output=True, text=True).stdout)["devices"]
if not any(d["name"] == DEVICE and d["usable"] for d in found):
    print(f"skipped: there is no {DEVICE} here")
    sys.exit(77)
failures = []
PROGRAM = r"""
#include <haul/haul.h>
#include <stdio.h>
#include <string.h>
static haul_module *net;
static void say(const haul_sync_event *e, void *context)
{
    (void)context;
    printf("wait of %s at %s\n", e->operation, e->place);
}
static void train(haul_tensor *x)
{
    haul_tensor *y = haul_call(net, x);                      // call
    haul_backward(haul_mean(haul_square(y)));                // backward
}
static void multiply(haul_tensor *a, haul_tensor *b, haul_profile *profile)
{
    for (int i = 0; i < 6; i++) {
        haul_drop(haul_mul(a, b));                           // mul
        haul_profile_step(profile);
    }
}
int main(int argc, char **argv)
{
    haul_scope  *scope = haul_scope_push();
    haul_device *gpu = haul_device_get(argv[argc - 1]);
    haul_module *front = haul_nn_linear(512, 512), *back = haul_nn_linear(512, 512);
    haul_module_place(front, haul_cpu());
    haul_module_place(back, gpu);
    net = HAUL_SEQUENTIAL(front, haul_nn_relu(), back);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(256, 512));
    haul_scope  *step = haul_scope_push_named("step");
    haul_budget(.h2d_bytes = 1, .d2h_bytes = 1);
    haul_sync_report_to(say, NULL);
    train(x);
    haul_sync_report_to(NULL, NULL);
    if (haul_scope_pop(step))
        printf("%s\n", haul_error_message());
    haul_error_clear();
    haul_set_placement_policy(HAUL_PLACE_MOVE);
    haul_tensor  *a = haul_ones(HAUL_F32, HAUL_SHAPE(300000));
    haul_tensor  *b = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(40, 300000)), gpu);
    haul_profile *profile = haul_profile_begin(.everywhere = true);
    multiply(a, b, profile);
    haul_profile_end(profile);
    haul_finding f[8];
    const int    count = haul_profile_audit(profile, f, 8);
    for (int i = 0; i < count; i++)
        printf("%s at %s\n", haul_finding_name(f[i].kind), f[i].place);
    haul_scope_pop(scope);
    return haul_error_status() != HAUL_OK;
}
"""


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def line_of(mark):
    return next(i for i, l in enumerate(PROGRAM.splitlines(), 1) if f"// {mark}" in l)


with open("places.c", "w") as file:
    file.write(PROGRAM)
subprocess.run([os.environ["HAUL_CC"], "-std=gnu11", "-g", "-O1", "-I", f"{SOURCE}/include", "places.c", "-o", "places", "-L", BUILD,
                "-lhaul", "-lm", f"-Wl,-rpath,{BUILD}"], check=True)
done = subprocess.run(["./places", DEVICE], capture_output=True, text=True)
check("the program runs", done.returncode == 0, done.stderr)
if "places.c:" not in done.stdout and "libdw" not in subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout:
    print("skipped: there is no libdw here")
    sys.exit(77)
check("no place is in the library", not re.search(r"libhaul|\.def:| at \S+\+0x", done.stdout), done.stdout)
check("a copy to a layer", f"haul_to, 524288 bytes from cpu to {DEVICE} in 1 copy in layer '2' at places.c:{line_of('call')}"
      in done.stdout, done.stdout)
check("a copy of a gradient", re.search(rf"from {DEVICE} to cpu in 1 copy[^;]* at places.c:{line_of('backward')}", done.stdout),
      done.stdout)
check("a wait in a backward pass", re.search(rf"^wait of .* at places.c:{line_of('backward')}$", done.stdout, re.M), done.stdout)
check("a copy to a row of pointwise.def", f"unchanged at places.c:{line_of('mul')}\n" in done.stdout, done.stdout)
sys.exit(bool(failures))
