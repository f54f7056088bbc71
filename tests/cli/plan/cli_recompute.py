"""haul train --recompute auto: the peak that the dry run predicts is that of the training, and as few blocks run again as
have to, on the CPU and on a device with memory of its own."""
# ctest: labels=slow
import json
import os
import subprocess
import sys

os.environ["HAUL_NUM_THREADS"] = "2"
HAUL = os.environ["HAUL"]
NETS = {
    "simplecnn": "--data shapes:512 --batch 256",
    "unet": "--data scenes:16 --batch 4",
    "char_gpt": "--data sentences:32 --batch 16",
    "resnet18": "--data shapes:16 --batch 8",
}
failures = []


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def train(*arguments):
    done = subprocess.run([HAUL, "train", "--json", *arguments], capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def compare(model, device, limit, *more):
    """True if the training fits in the limit."""
    options = ["--model", model, *NETS[model].split(), "--epochs", "1", "--workers", "0", "--device", device,
               "--memory-limit", limit, "--recompute", "auto", *more]
    name = f"{model} on {device} in {limit} {' '.join(more)}"
    expected = train(*options, "--estimate")[0][0]
    if expected["training_peak_bytes"] > expected["limit_bytes"]:
        return False
    events, told = train(*options)
    done = events[-1] if events else {}
    check(f"the peak of {name}", done.get("peak_bytes") == expected["training_peak_bytes"] <= done["limit_bytes"],
          f"{done} {expected} {told}")
    return True


def few_blocks():
    """In 57% of its memory, where the model of memory finds no choice by itself, five of ten blocks suffice."""
    estimate = train(*"--model resnet18 --data shapes:128 --batch 128 --workers 0 --device cpu --estimate".split(),
                     "--memory-limit", "57%", "--recompute", "auto")[0][0]
    check("five blocks", len(estimate["recompute"]) <= 5 and
          0 < estimate["training_peak_bytes"] <= estimate["limit_bytes"], f"{estimate}")


devices = json.loads(subprocess.run([HAUL, "devices", "--json"], capture_output=True, text=True).stdout)["devices"]
names = ["cpu"] + ["opencl:0"] * any(d["name"] == "opencl:0" and d["usable"] for d in devices)
small = bool(os.environ.get("HAUL_SANITIZE"))
fitting = 0
for device in names:
    for model in ("unet",) if small else NETS:
        for limit in ("95%", "75%"):
            for more in ((), ("--eager",)):
                fitting += compare(model, device, limit, *more)
check("trainings that fit were compared", fitting >= (2 if small else 8), str(fitting))
if not small:
    few_blocks()
sys.exit(bool(failures))
