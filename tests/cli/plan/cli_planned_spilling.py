"""haul plan --allow spill, and what followed steps do within the same limit: they choose by next uses, not by the list of
the plan, and are as fast on simulated devices, move about as many bytes, and stay within the limit."""
# ctest: labels=once
import json
import os
import subprocess
import sys

# Scratch memory grows with the number of threads, and what fits in a share of the peak follows.
os.environ["HAUL_NUM_THREADS"] = "2"
HAUL = os.environ["HAUL"]
DEVICE = "sim:laptop-4g"
LARGEST = 1 << 20  # bytes of a tensor: a step that moves few tensors may move one more than planned
NETWORKS = {"char_gpt": ("--data sentences:128 --batch 16", (90, 75, 50)), "unet": ("--data scenes:64 --batch 4", (75, 60, 40)),
            "simplecnn": ("--data shapes:256 --batch 32", (90, 75)), "resnet18": ("--data shapes:32 --batch 8", (85,))}
failures = []


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def haul(*arguments):
    done = subprocess.run([HAUL, *arguments], capture_output=True, text=True)
    check(f"haul {' '.join(arguments)} ends with 0", done.returncode == 0, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def train(step, *arguments):
    return haul("train", *step, "--device", DEVICE, "--json", "--log-every", "1", *arguments)


def losses(events):
    return [e["loss"] for e in events if e["event"] == "batch"]


def hold(network):
    words, shares = NETWORKS[network]
    step = ["--model", network, *words.split(), "--epochs", "1", "--workers", "0"]
    plain = train(step)
    for share in shares:
        allow = ["--json", "--allow", "spill", "--devices", f"cpu,{DEVICE}", "--memory-limit"]
        peak = haul("plan", *allow, str(1 << 40), "--", *step)[0]["unlimited_peak_bytes"]
        limit = str(peak * share // 100)
        plan = haul("plan", *allow, limit, "--", *step)[0]
        events = train(step, "--memory-limit", limit, "--spill", "on")
        done, moved = events[-1], [e["spilled_bytes"] for e in events if e["event"] == "batch"]
        of_step = moved[-1] - moved[-2]
        check(f"{network} in {share} % stays there", 0 < done["peak_bytes"] <= int(limit), f"{done}")
        check("the same losses", losses(events) == losses(plain) and len(moved) > 2, f"{losses(events)}")
        slower, planned = done["step_ms"] / plain[-1]["step_ms"], plan["step_ms"] / plan["unlimited_step_ms"]
        check("as fast as planned", planned / 1.1 <= slower <= planned * 1.01, f"{slower} {planned}")
        most = plain[-1]["step_ms"] + plan["spill_most_ms"]
        check("not more than spilling costs at most", done["step_ms"] <= most, f"{done['step_ms']} {most}")
        most = max(plan["spilled_bytes"] * 1.5, plan["spilled_bytes"] + LARGEST)
        check("as many bytes", plan["spilled_bytes"] / 2 <= of_step <= most,
              f"{of_step} {plan['spilled_bytes']}")


for name in NETWORKS:
    hold(name)
sys.exit(bool(failures))
