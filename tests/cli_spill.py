"""haul train --spill: networks that do not fit on a device train there all the same, with the same bits."""
# ctest: labels=slow; timeout=300
import json
import os
import re
import subprocess
import sys

HAUL = os.environ["HAUL"]
DEVICE = os.environ.get("HAUL_EXAMPLE_DEVICE", "opencl:0")
found = json.loads(subprocess.run([HAUL, "devices", "--json"], capture_output=True, text=True).stdout)["devices"]
if not any(d["name"] == DEVICE and d["usable"] for d in found):
    print(f"there is no {DEVICE} here")
    sys.exit(77)
NET = "--data shapes:96 --epochs 1 --log-every 1 --lr 0.01 --device".split() + [DEVICE]
failures = []


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def train(code, *arguments):
    """The losses, the last event, and what was complained of."""
    done = subprocess.run([HAUL, "train", "--json", *arguments], capture_output=True, text=True)
    check(f"haul train {' '.join(arguments)} ends with {code}", done.returncode == code,
          f"not {done.returncode}: {done.stderr}")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [e["loss"] for e in events if e["event"] == "batch"], events[-1] if events else {}, done.stderr


def same_bits(shares, *net):
    plain, done, _ = train(0, *NET, *net)
    check("nothing is spilled without need", done["spilled_bytes"] == 0 and done["limit_bytes"] == 0)
    for share in shares:
        losses, limited, _ = train(0, *NET, *net, "--memory-limit", f"{share}%", "--spill", "on")
        check("the same losses", losses == plain and len(plain) > 2, f"{losses} {plain}")
        check("within the limit", 0 < limited["peak_bytes"] <= limited["limit_bytes"], f"{limited}")
        check("about that share", limited["limit_bytes"] <= share / 100 * done["peak_bytes"] * 1.1, f"{limited} {done}")
        _, dry, _ = train(0, *NET, *net, "--memory-limit", f"{share}%", "--spill", "on", "--estimate")
        steps = len(plain) + 1  # and the test
        check("as estimated", dry["spill_fits"] and 0.7 < limited["spilled_bytes"] / steps / dry["spilled_bytes"] < 1.4 and
              0 < dry["returned_bytes"] <= dry["spilled_bytes"] and dry["spill_seconds"] > 0, f"{limited} {dry}")
        check("spilled", limited["spilled_bytes"] > 0 and limited["h2d_bytes"] > done["h2d_bytes"], f"{limited}")
        check("waits are counted", limited["waits"] > done["waits"], f"{limited} {done}")


def too_little():
    _, _, told = train(4, *NET, "--model", "simplecnn", "--memory-limit", "50%")
    check("says what helps, and what it costs", re.search(
        r"With --spill on, tensors that do not fit go to host memory: [\d.]+ MiB to host memory and [\d.]+ MiB back in each "
        r"step, about [\d.]+ [mu]s \(estimates\)", told), told)
    _, _, told = train(4, *NET, "--model", "simplecnn", "--memory-limit", "10%")
    check("says what does not help", "With --spill on, a step does not fit either" in told, told)
    train(0, *NET, "--model", "simplecnn", "--memory-limit", "50%", "--spill", "on", "--run", "run")
    weights = open("run/weights.safetensors", "rb").read()
    _, last, told = train(4, "--run", "run", "--resume", "--epochs", "2", "--memory-limit", "4%", "--spill", "on")
    check("the report", "out of memory on" in told and "By the dry run" in told and "With --spill on" not in told, told)
    check("the event", last["event"] == "out_of_memory", f"{last}")
    check("the run is intact", weights == open("run/weights.safetensors", "rb").read())
    ledger = json.load(open("run/ledger.json"))
    check("the ledger", any(r["operation"] == "spill" for r in ledger["rows"]), f"{ledger}")
    memory = json.load(open("run/memory.json"))
    check("the memory", memory["device"] == DEVICE)
    failure = memory["at_failure"]
    report, live = failure["report"], [b for b in failure["blocks"] if b["live"] and not b["spilled"]]
    check("the memory at the failure", failure["device"] == DEVICE and failure["left_out"] == 0 and
          sum(b["bytes"] for b in live) == failure["allocated"] == report["allocated"] and
          failure["spilled"] == report["spilled"], f"{failure}")
    check("what was asked for", report["block"] > report["room"] >= 0 and report["requested"] > 0, f"{report}")
    train(0, "--run", "run", "--resume", "--epochs", "2", "--memory-limit", "0", "--spill", "off")
    check("it is gone", "at_failure" not in json.load(open("run/memory.json")))


def refused():
    _, _, told = train(1, "--data", "blobs", "--device", "cpu", "--spill", "on")
    check("the CPU has nowhere to spill", "no memory apart from the host's" in told, told)
    _, _, told = train(2, *NET, "--spill", "maybe")
    check("on or off", "--spill" in told and "on or off" in told, told)


same_bits((75, 50), "--model", "simplecnn", "--batch", "32")
if not os.environ.get("HAUL_SANITIZE"):  # too slow with it, and nothing else than with the small one
    same_bits((50, 25), "--model", "resnet18", "--batch", "24")
too_little()
refused()
sys.exit(bool(failures))
