"""Trainings within many limits, as haul plan --allow plans them: each stays within its limit, and has the losses of the
training without one if it has its mini-batches; what is refused is below the bound. HAUL_TEST_LIMITS=20 tries 20 limits
of four networks on two devices, and prints a table."""
# ctest: labels=slow,once
import collections
import json
import os
import shlex
import subprocess
import sys

HAUL = os.environ["HAUL"]
COUNT = int(os.environ.get("HAUL_TEST_LIMITS", "0"))
LIMITS = COUNT or 3
LEAST, MOST = 20, 90  # per cent of the peak without a limit
NETWORKS = {"char_gpt": "--data sentences:32 --batch 16", "mlp": "--data blobs:128 --batch 64",
            "unet": "--data scenes:8 --batch 4", "resnet18": "--data shapes:16 --batch 8"}
DEVICES = os.environ.get("HAUL_TEST_LIMITS_ON", "sim:laptop-4g,opencl:0").split(",")
WAYS = ("recompute,spill", "recompute,spill,accumulate")
failed = []


def haul(*arguments):
    done = subprocess.run([HAUL, *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def train(words):
    """Exit status, losses, peak in bytes, complaint, ms of a step."""
    code, out, err = haul(*words, "--json", "--log-every", "1")
    events = [json.loads(line) for line in out.splitlines()]
    losses = [e["loss"] for e in events if e["event"] == "batch"]
    ends = [e["test_loss"] for e in events if e["event"] == "epoch"]
    last = events[-1] if events else {}
    return code, losses + ends, last.get("peak_bytes"), err, last.get("step_ms")


def plan(step, device, limit, allow):
    code, out, err = haul("plan", "--json", "--allow", allow, "--devices", f"cpu,{device}", "--memory-limit", str(limit),
                          "--", *step)
    if code not in (0, 4) or not out:
        raise SystemExit(f"haul plan ended with {code}: {err}")
    p = json.loads(out)
    if p["least_bytes"] > p["peak_bytes"][p["device"]]:
        failed.append("a bound")
        print(f"FAILED {step[1]} on {device} in {limit}, {allow}: a plan needs less than the bound: {p}")
    return p


def verdict(step, device, limit, allow, plain, plain_ms):
    """What became of a limit: "kept", "proven" or "open"; anything else is a failure."""
    p = plan(step, device, limit, allow)
    if not p["fits"]:
        return "proven" if limit < p["least_bytes"] else "open", p
    code, losses, peak, err, ms = train(shlex.split(p["next"])[1:])
    if code:
        return f"planned, but ended with {code}: {err.strip()}", p
    if peak > limit:
        return f"took {peak} bytes", p
    if p["accumulate"] == 1 and losses != plain:
        return f"other losses: {losses}, not {plain}", p
    if device.startswith("sim:") and p["techniques"] == ["spill"] and ms > plain_ms + p["spill_most_ms"]:
        return f"a step takes {ms} ms, {plain_ms} without a limit, and spilling costs at most {p['spill_most_ms']}", p
    return "kept", p


def hold(device, network):
    step = ["--model", network, *NETWORKS[network].split(), "--epochs", "1", "--workers", "0"]
    code, plain, _, err, plain_ms = train(["train", *step, "--device", device])
    if code:
        raise SystemExit(f"haul train ended with {code}: {err}")
    peak = plan(step, device, 1 << 40, "recompute")["unlimited_peak_bytes"]
    counts, slower = collections.Counter(), []
    for i in range(LIMITS):
        percent = LEAST + (MOST - LEAST) * (i + (LIMITS == 1)) / max(LIMITS - 1, 1)
        limit = int(peak * percent / 100)
        found, p = verdict(step, device, limit, WAYS[i % len(WAYS)], plain, plain_ms)
        if p["fits"]:
            slower.append(p["step_ms"] / p["unlimited_step_ms"])
        counts[found if found in ("kept", "proven", "open") else "failed"] += 1
        fine = found in ("kept", "proven") or (COUNT and found == "open")
        print(f"{'ok    ' if fine else 'FAILED'} {network} on {device} in {percent:.0f} % ({limit}), {WAYS[i % len(WAYS)]}: "
              f"{found}; {'+'.join(p['techniques'])}", flush=True)
        if not fine:
            failed.append(found)
    return f"| {network} | {device} | {counts['kept']} | {counts['proven']} | {counts['open']} | {counts['failed']} | " + \
        (f"{max(slower):.2f} |" if slower else "- |")


if "opencl:0" in DEVICES and "opencl:0" not in haul("devices")[1]:
    DEVICES.remove("opencl:0")
rows = [hold(device, network) for device in DEVICES for network in (NETWORKS if COUNT else ["char_gpt"])]
print("| network | device | within the limit | refused, proven | refused, open | failed | slowest |", *rows, sep="\n")
sys.exit(bool(failed))
