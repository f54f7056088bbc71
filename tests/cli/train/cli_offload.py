"""haul train --offload optimizer: less memory of the device, with bit-identical results, also across checkpoints."""
# ctest: cuda; labels=slow
import json
import os
import re
import subprocess
import sys

HAUL = os.environ["HAUL"]
TESTED = re.split("[ ,]+", os.environ.get("HAUL_TEST_DEVICES", "cpu,opencl:0"))
DEVICE = os.environ.get("HAUL_EXAMPLE_DEVICE") or TESTED[1]
NVIDIA = DEVICE.startswith("cuda")
found = json.loads(subprocess.run([HAUL, "devices", "--json"], capture_output=True, text=True).stdout)["devices"]
if not any(d["name"] == DEVICE and d["usable"] for d in found):
    print(f"there is no {DEVICE} here")
    sys.exit(77)
# Parameters and state take most of the memory of this training.
NET = "--model mlp --data shapes:64 --batch 4 --log-every 1 --lr 0.001 --optimizer adamw --workers 0".split()
OFFLOAD = ["--offload", "optimizer"]
failures = []


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def train(code, *arguments):
    done = subprocess.run([HAUL, "train", "--json", *arguments], capture_output=True, text=True)
    check(f"haul train {' '.join(arguments)} ends with {code}", done.returncode == code,
          f"not {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def losses(events):
    return [e["loss"] for e in events if e["event"] == "batch"]


def last(events):
    return events[-1] if events else {}


def weights(run):
    return open(f"{run}/weights.safetensors", "rb").read()


def memory(device):
    """The peak of a training is what was estimated, and less by most of the state."""
    on = [*NET, "--device", device, "--epochs", "1"]
    for how in ([], ["--eager"]):
        plain, _ = train(0, *on, *how)
        events, _ = train(0, *on, *how, *OFFLOAD)
        dry = last(train(0, *on, *how, *OFFLOAD, "--estimate")[0])
        done, without = last(events), last(plain)
        check("the same losses", losses(events) == losses(plain) and len(losses(plain)) > 2, f"{losses(events)}")
        check("steps are followed", bool(how) or done["followed"] == without["followed"] > 0, f"{done}")
        check("less memory", done["peak_bytes"] < 0.9 * without["peak_bytes"], f"{done} {without}")
        check("the estimate is the peak", done["peak_bytes"] == dry["training_peak_bytes"] or
              (device.startswith("cuda") and done["peak_bytes"] <= dry["training_peak_bytes"]), f"{done} {dry}")
        check("the state moves", done["h2d_bytes"] > without["h2d_bytes"] + dry["parameter_bytes"], f"{done}")


def checkpoints():
    """A run goes on with and without it, with the bits of one that was not interrupted."""
    on = [*NET, "--device", DEVICE]
    train(0, *on, "--epochs", "2", "--run", "whole")
    for first, then in ((OFFLOAD, ["--offload", "none"]), ([], OFFLOAD), (OFFLOAD, [])):
        run = "run" + str(len(os.listdir(".")))
        train(0, *on, "--epochs", "1", *first, "--run", run)
        train(0, "--run", run, "--resume", "--epochs", "2", *then)
        check(f"the bits are the same, {first} then {then}", weights(run) == weights("whole"))


def refusal():
    """A training that does not fit learns that it would."""
    on = [*NET, "--device", DEVICE, "--epochs", "1", "--memory-limit", "90%"]
    _, told = train(4, *on)
    check("it is suggested", re.search(r"With --offload optimizer, batch 4 needs .* which fits\.", told), told)
    events, told = train(0, *on, *OFFLOAD, *(["--memory-limit", re.search(r"which is .*\(([\d,]+) bytes\)", told)[1].replace(
        ",", "")]))
    check("within the limit", 0 < last(events)["peak_bytes"] <= last(events)["limit_bytes"], f"{last(events)}")
    _, told = train(4, *NET, "--device", "cpu", "--memory-limit", "50%")
    check("not on the CPU", "--offload" not in told, told)
    _, told = train(2, *NET, "--device", DEVICE, "--offload", "all")
    check("the choices", "--offload" in told and "optimizer" in told, told)


memory(DEVICE)
if not NVIDIA:
    memory("sim:laptop-4g:0")
checkpoints()
if not NVIDIA:  # there the training is tried first
    refusal()
sys.exit(bool(failures))
