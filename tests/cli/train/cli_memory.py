"""haul train --memory-limit, --recompute and --batch auto: the same bits in less memory, limits that cannot work, batches
that fit, and memory that runs out while training."""
# ctest: labels=slow,once
import json
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tests", "support", "python"))
from clock import ticking  # noqa: E402

# Scratch memory grows with the number of threads, and what fits in a share of the peak follows.
os.environ["HAUL_NUM_THREADS"] = "2"
HAUL = os.environ["HAUL"]
NET = "--model resnet18 --data shapes:128 --batch 128 --workers 0 --device cpu --log-every 1".split()
TINY = "--model simplecnn --data shapes:256 --batch 64 --workers 0 --log-every 1 --device".split()
SMALL = [*TINY, "cpu"]
failures = []


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def train(code, *arguments, limit=None, **environment):
    """The events of --json, and what was complained of."""
    def confine():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    done = subprocess.run([HAUL, "train", "--json", *arguments], capture_output=True, text=True,
                          preexec_fn=confine if limit else None, env={**os.environ, **environment})
    check(f"haul train {' '.join(arguments)} ends with {code}", done.returncode == code,
          f"not {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def last(events, name):
    found = [e for e in events if e["event"] == name]
    return found[-1] if found else {}


def values(events):
    """All that a training computes."""
    skip = {"time", "elapsed", "seconds", "wait_seconds", "images_per_second", "step_ms", "limit_bytes", "peak_bytes", "step_peak_bytes",
            "rank_peak_bytes", "spilled_bytes", "spilled_to_file_bytes", "waits", "followed", "eager_steps", "unfollowed", "h2d_bytes", "d2h_bytes", "transfers"}
    return [{k: v for k, v in e.items() if k not in skip} for e in events if e["event"] in ("batch", "epoch", "done")]


def same_bits():
    """Three fifths of the memory: the same losses, and never more than the limit."""
    plain, _ = train(0, *NET, "--epochs", "2", "--run", "plain")
    less, _ = train(0, *NET, "--epochs", "2", "--run", "less", "--memory-limit", "60%", "--recompute", "auto")
    check("the same losses", values(plain) == values(less) and len(values(plain)) == 5)
    check("the same weights", open("plain/weights.safetensors", "rb").read() ==
          open("less/weights.safetensors", "rb").read())
    peak, done = last(plain, "done")["peak_bytes"], last(less, "done")
    check("no limit is 0", last(plain, "done")["limit_bytes"] == 0)
    check("the limit is a share of the peak", abs(done["limit_bytes"] - 0.6 * peak) <= 1, f"{done} of {peak}")
    check("the peak is within the limit", done["peak_bytes"] <= done["limit_bytes"], f"{done}")
    check("the estimate is the peak", last(less, "network")["peak_bytes"] == done["peak_bytes"] <
          last(plain, "network")["peak_bytes"], f"{done}")
    parts = last(less, "start")["recompute"]
    check("blocks run again", "layer1.0" in parts and "layer4.1" not in parts, f"{parts}")
    check("plain has none", "recompute" not in last(plain, "start"))
    more, _ = train(0, *NET, "--estimate", "--memory-limit", "80%", "--recompute", "auto")
    check("as few as are needed", 0 < len(more[0]["recompute"]) < len(parts), f"{more}")
    none, _ = train(0, *NET, "--estimate", "--memory-limit", "100%", "--recompute", "auto")
    check("none if it fits", none[0]["recompute"] == [], f"{none}")
    best, _ = train(0, *NET, "--estimate", "--recompute", "auto")
    check("without a limit, the lowest peak", best[0]["training_peak_bytes"] <= done["peak_bytes"] and
          best[0]["limit_bytes"] == 0, f"{best}")


def limits():
    """Sizes, and what is refused before anything is made."""
    need = train(0, *SMALL, "--estimate")[0][0]["training_peak_bytes"]
    for text, size in (("5000k", 5000000), ("7M", 7000000), ("1G", 10**9), ("1.5Gi", 3 * 2**29), ("8Mi", 2**23),
                       (str(need), need), ("0", 0)):
        events, _ = train(4 if size and size < need else 0, *SMALL, "--estimate", "--memory-limit", text)
        check(f"{text} is {size}", events[0]["limit_bytes"] == size, f"{events}")
    for text in ("", "x", "-1", "5%%", "0%", "1e9", "5KB", "0x10", "nan", "99999999999999999999", "1.2.3M"):
        _, told = train(2, *SMALL, "--memory-limit", text)
        check(f"{text!r} is refused", told.count("\n") == 1 and "--memory-limit" in told, told)
    _, told = train(2, *SMALL, "--recompute", "maybe")
    check("auto or off", "auto" in told, told)
    events, _ = train(0, *SMALL, "--epochs", "1", "--memory-limit", str(need))
    done = last(events, "done")
    check("exactly enough", done["limit_bytes"] == need >= done["peak_bytes"], f"{done} {need}")


def pieces():
    """Followed pieces take more than those that run as they are, which is what a limit between the two gets."""
    net = "--model mlp --data blobs:64 --batch 32 --pieces 4 --epochs 1 --workers 0 --device cpu".split()
    most, least = (last(train(0, *net, "--estimate", *more)[0], "estimate")["training_peak_bytes"] for more in ([], ["--eager"]))
    for limit, follows in ((most, True), (most - 1, False), (least, False)):
        events, _ = train(0, *net, "--memory-limit", str(limit))
        done = last(events, "done")
        check(f"pieces in {limit}", (done["followed"] > 0) == follows and done["peak_bytes"] <= limit, f"{done}")
    train(4, *net, "--memory-limit", str(least - 1))


def too_little():
    """A report, nothing made, and what it says is true."""
    events, told = train(4, *SMALL, "--epochs", "1", "--memory-limit", "70%", "--run", "none")
    check("no event", not events and not os.path.exists("none"))
    lines = told.splitlines()
    check("the limit", "does not fit in --memory-limit 70%" in lines[0] and "bytes)" in lines[0], told)
    check("the need", "training step with batch 64" in told and "at its peak" in told, told)
    check("the origins", "haul_relu in relu1" in told, told)
    batch = int(told.split("--batch ")[1].split(":")[0])
    limit = int(lines[0].split("(")[1].split(" bytes")[0].replace(",", ""))
    check("a smaller batch", 0 < batch < 64, told)
    events, _ = train(0, *SMALL, "--batch", str(batch), "--epochs", "1", "--memory-limit", str(limit))
    check("it fits", last(events, "done")["peak_bytes"] <= limit)
    train(4, *SMALL, "--batch", str(batch + 1), "--epochs", "1", "--memory-limit", str(limit))
    check("--recompute", "With --recompute auto, batch 64 needs" in told, told)
    _, told = train(4, *SMALL, "--memory-limit", "1k", "--recompute", "auto")
    check("nothing fits", "No smaller batch fits" in told and "With --recompute" not in told, told)


def fastest(start, room):
    """The batch of a start, after checks of why it was chosen."""
    trials = start["batch_trials"]
    sizes = [t["batch"] for t in trials]
    check("some powers of two and the largest were timed", trials and sizes == sorted(set(sizes)) and
          sizes[-1] == start["largest_batch"] and all(n & (n - 1) == 0 for n in sizes[:-1]), f"{start}")
    check("all fit", all(0 < t["peak_bytes"] <= room for t in trials), f"{start}")
    best = max(t["images_per_second"] for t in trials)
    good = [t["batch"] for t in trials if t["images_per_second"] >= 0.95 * best]
    check("the largest of the fastest", start["batch"] == good[-1] and best > 0, f"{start}")
    return start["batch"]


def largest_that_fits(limit, *net):
    """One more quarter of the largest batch does not fit, and no batch that was timed is faster."""
    limited = [*net, "--memory-limit", str(limit), "--epochs", "1"]
    events, _ = train(0, *limited, "--batch", "auto", **ticking())
    start = last(events, "start")
    fastest(start, limit)
    most = start["largest_batch"]
    check(f"{start['batch']} fit in {limit}", last(events, "done")["peak_bytes"] <= limit, f"{events[-1]}")
    fits, _ = train(0, *limited, "--batch", str(most), "--estimate")
    check("the largest is known", fits[0]["training_peak_bytes"] == start["batch_trials"][-1]["peak_bytes"], f"{fits}")
    whole, _ = train(0, *limited, "--batch", str(most))
    check(f"the largest, {most}, trains", 0 < last(whole, "done")["peak_bytes"] <= limit, f"{whole[-1]}")
    train(4, *limited, "--batch", str(-(-5 * most // 4)))
    return most


def automatic_elsewhere():
    """--batch auto on a device with memory of its own."""
    devices = json.loads(subprocess.run([HAUL, "devices", "--json"], capture_output=True, text=True).stdout)["devices"]
    if not any(d["name"] == "opencl:0" and d["usable"] for d in devices):
        return
    largest_that_fits(10**7, *TINY, "opencl:0")
    largest_that_fits(5 * 10**6, *TINY, "opencl:0", "--recompute", "auto", "--workers", "2")


def automatic():
    """--batch auto in a limit, and in free memory."""
    most = largest_that_fits(10**7, *SMALL)
    largest_that_fits(5 * 10**6, *SMALL, "--recompute", "auto")
    largest_that_fits(10**6, *SMALL, "--workers", "2")
    events, _ = train(0, *SMALL, "--batch", "auto", "--epochs", "1", "--run", "chosen", **ticking())
    start = last(events, "start")
    batch = fastest(start, start["batch_room_bytes"])
    check("all examples", start["largest_batch"] == 256, f"{start}")
    check("kept as a number", json.load(open("chosen/config.json"))["batch"] == batch)
    plain, _ = train(0, *SMALL, "--batch", str(batch), "--epochs", "1")
    check("timing leaves nothing", values(plain) == values(events) and
          last(plain, "done")["waits"] == last(events, "done")["waits"], f"{plain[-1]} {events[-1]}")
    resumed, _ = train(0, "--run", "chosen", "--resume", "--epochs", "2")
    check("the same number, and none timed", resumed[0]["batch"] == batch and "batch_trials" not in resumed[0],
          f"{resumed[0]}")
    _, told = train(1, "--run", "chosen", "--resume", "--epochs", "3", "--batch", "auto")
    check("not another one", f"--batch {batch}" in told and "--batch auto" in told, told)
    estimate, _ = train(0, *SMALL, "--batch", "auto", "--memory-limit", "10M", "--estimate")
    check("an estimate times nothing", estimate[0]["batch"] == most, f"{estimate} {most}")
    _, told = train(2, *SMALL, "--batch", "auto", "--memory-limit", "50%")
    check("a share of what", "in bytes" in told, told)
    _, told = train(4, *SMALL, "--batch", "auto", "--memory-limit", "1k")
    check("nothing fits", "with batch 1 needs" in told and "No batch is smaller" in told, told)
    _, told = train(2, *SMALL, "--batch", "large")
    check("a number or auto", "auto" in told, told)
    if not os.environ.get("HAUL_SANITIZE"):
        confined = last(train(0, *SMALL, "--batch", "auto", "--epochs", "1", limit=2 << 30)[0], "start")
        check("no more than the process may have", 0 < confined["batch_room_bytes"] < 2 << 30, f"{confined}")
    with open("auto.json", "w") as file:
        json.dump({"model": "dense", "data": "blobs:64", "device": "cpu", "epochs": 1, "batch": "auto"}, file)
    events, _ = train(0, "--config", "auto.json", **ticking())
    fastest(last(events, "start"), 2**60)
    check("from a file", last(events, "start")["largest_batch"] == 64, f"{events[0]}")


def going_on():
    """Limit and recomputation may change; a limit that is too low leaves the run as it was."""
    whole, _ = train(0, *SMALL, "--epochs", "2", "--run", "whole")
    train(0, *SMALL, "--epochs", "1", "--run", "parts", "--memory-limit", "100%")
    before = {name: open("parts/" + name, "rb").read() for name in os.listdir("parts") if name != "lock"}
    train(4, "--run", "parts", "--resume", "--epochs", "2", "--memory-limit", "10%")
    check("nothing has changed", all(open("parts/" + name, "rb").read() == text for name, text in before.items()))
    train(0, "--run", "parts", "--resume", "--epochs", "2", "--memory-limit", "100%", "--recompute", "auto")
    check("the same weights", open("whole/weights.safetensors", "rb").read() ==
          open("parts/weights.safetensors", "rb").read())
    train(0, "--run", "parts", "--resume", "--epochs", "3", "--memory-limit", "0", "--recompute", "off")


def run_out():
    """Memory that is exhausted while training: the system allows less than the dry run can know."""
    if os.environ.get("HAUL_SANITIZE"):
        return
    # oneDNN ends the program where memory is exhausted
    os.environ.update(MALLOC_ARENA_MAX="1", HAUL_WITHOUT="onednn", OCL_ICD_VENDORS="none", HAUL_CUDA_LIBRARIES="/nowhere",
                      HAUL_NUM_THREADS="2")
    net = "--model resnet18 --data shapes:64 --batch 32 --workers 0 --device cpu --log-every 1 --run out".split()
    train(0, *net, "--epochs", "1")
    weights = open("out/weights.safetensors", "rb").read()
    # The first allocation that fails can be one of the host's own structures: then another limit is tried.
    for limit in range(340 << 20, 260 << 20, -(7 << 20)):
        events, told = train(4, "--run", "out", "--resume", "--epochs", "2", limit=limit)
        if events[-1]["device"] is not None:
            break
    check("the library's complaint", "memory" in told.splitlines()[0], told)
    check("the report", "No --memory-limit was given" in told and "By the dry run, a training step" in told, told)
    log = [json.loads(line) for line in open("out/log.jsonl")]
    check("the log ends with it", log[-1]["event"] == "out_of_memory" and log[-1]["epoch"] == 2 and
          log[-1]["limit_bytes"] == 0 and log[-1]["expected_bytes"] > 250e6 and events[-1] == log[-1], f"{log[-1]}")
    failed = log[-1]
    check("what failed", failed["device"] == "cpu" and failed["operation"].startswith("haul_") and
          0 < failed["requested_bytes"] <= failed["block_bytes"], f"{failed}")
    check("what was in use", 0 < failed["allocated_bytes"] <= failed["reserved_bytes"] < limit and
          failed["overhead_bytes"] == 0, f"{failed}")
    sizes = [o["bytes"] for o in failed["origins"]]
    check("the modules that hold most", failed["by_module"] and sizes == sorted(sizes, reverse=True) and
          0 < sum(sizes) <= failed["allocated_bytes"] and all(o["blocks"] > 0 for o in failed["origins"]) and
          any(o["name"].startswith("layer") for o in failed["origins"]), f"{failed}")
    check("the CPU cannot spill", failed["spill_bytes"] == 0 and failed["spill_seconds"] is None, f"{failed}")
    check("the run is intact", weights == open("out/weights.safetensors", "rb").read())
    memory = json.load(open("out/memory.json"))
    failure = memory["at_failure"]
    held = sum(block["bytes"] for block in failure["blocks"] if block["live"])
    check("the memory at the failure", failure["device"] == "cpu" and held == failure["allocated"] > memory["allocated"],
          f"{held} {failure['allocated']} {memory['allocated']}")
    check("the modules at the failure", any(row["name"].startswith("layer") for row in failure["by_module"]),
          f"{failure['by_module']}")
    report = failure["report"]
    check("what was requested", report["module"] and f"requested {report['requested'] / 2**20:.1f} MiB" in told,
          f"{report} {told}")
    check("the operation", f"\n  {report['operation']} in {report['module']} asked for it." in told, told)
    train(0, "--run", "out", "--resume", "--epochs", "2")
    check("it went on", weights != open("out/weights.safetensors", "rb").read())
    check("the event is gone", '"out_of_memory"' not in open("out/log.jsonl").read())


def modules():
    """The modules that allocate are recorded, unless that would slow steps down."""
    def recorded(run):
        return {block.get("module") for block in json.load(open(run + "/memory.json"))["blocks"]} - {None, ""}
    train(0, *SMALL, "--epochs", "1", "--run", "long")
    train(0, "--model", "dense", "--data", "blobs:64", "--batch", "16", "--epochs", "1", "--workers", "0", "--device",
          "cpu", "--run", "short")
    check("modules of a long step", "conv1" in recorded("long"), f"{recorded('long')}")
    check("none of a short one", not recorded("short"), f"{recorded('short')}")


def overhead():
    """What the driver takes counts against a size, but not against a share, which is of the training's own need."""
    standin = os.path.join(os.path.dirname(HAUL), "tests", "standin")
    if not os.path.exists(os.path.join(standin, "libcuda.so.1")):
        return
    before = dict(os.environ)
    os.environ.update(HAUL_CUDA_LIBRARIES=standin, OCL_ICD_VENDORS="none", STANDIN_CONTEXT=str(30 << 20))
    net = "--model dense --data blobs:64 --batch 16 --epochs 1 --workers 0 --device cuda:0".split()
    _, told = train(4, *net, "--memory-limit", str((30 << 20) + 2000))
    check("the driver's part", "Of these the driver took 30.0 MiB (31,457,280 bytes) before, so 2.0 KiB (2,000 bytes) are "
          "left." in told, told)
    _, told = train(4, *net, "--memory-limit", "1M")
    check("nothing is left", "so 1 byte" in told or "(1 bytes) are left" in told, told)
    events, _ = train(0, *net, "--memory-limit", "45M", "--run", "gpu")
    done, memory = last(events, "done"), json.load(open("gpu/memory.json"))
    check("a size counts everything", done["limit_bytes"] == 45000000 == memory["limit"] and
          30 << 20 <= memory["overhead"] < 45000000, f"{done} {memory}")
    events, _ = train(0, *net, "--memory-limit", "100%")
    check("a share is of the tensors", 0 < last(events, "done")["limit_bytes"] < 1 << 20, f"{events[-1]}")
    os.environ.clear()
    os.environ.update(before)


for test in (same_bits, limits, pieces, too_little, automatic, automatic_elsewhere, going_on, modules, overhead, run_out):
    if test is same_bits and os.environ.get("HAUL_SANITIZE"):
        continue  # a large network; going_on compares a small one
    test()
sys.exit(bool(failures))
