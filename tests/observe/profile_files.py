"""haul train --profile, haul profile, haul audit: the files of a profile, their sums, and what is printed."""
# ctest: labels=slow
import collections
import json
import os
import re
import subprocess
import sys

HAUL = os.environ["HAUL"]
failures = []


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def haul(*arguments, code=0, **environment):
    done = subprocess.run([HAUL, *arguments], capture_output=True, text=True, env={**os.environ, **environment})
    check(f"haul {' '.join(arguments)} ends with {code}", done.returncode == code, f"{done.returncode}: {done.stderr}")
    return done.stdout, done.stderr


def read(run, name):
    with open(f"{run}/{name}", encoding="utf-8") as f:
        return json.load(f)


def devices():
    listed = json.loads(subprocess.run([HAUL, "devices", "--json"], capture_output=True, text=True).stdout)["devices"]
    return [d["name"] for d in listed if d["usable"] and d["name"] in ("cpu", "opencl:0")]


# ---- trace.json, by the rules of the trace event format ----


def check_fields(events):
    needed = {"X": {"name", "cat", "pid", "tid", "ts", "dur"}, "M": {"name", "pid", "tid", "args"},
              "s": {"id", "pid", "tid", "ts"}, "f": {"id", "pid", "tid", "ts", "bp"}, "C": {"name", "ts", "args"},
              "i": {"name", "ts", "s"}}
    for e in events:
        if e["ph"] not in needed or not needed[e["ph"]] <= set(e):
            return f"{e}"
        if "ts" in e and not (isinstance(e["ts"], (int, float)) and e["ts"] >= 0):
            return f"{e}"
        if e["ph"] == "X" and not e["dur"] >= 0:
            return f"{e}"
        if e["ph"] == "C" and not all(isinstance(v, (int, float)) for v in e["args"].values()):
            return f"{e}"
    return ""


def check_nesting(events):
    """Bars of a track lie within each other or apart. Times have a nanosecond's precision."""
    tracks = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            tracks[e["pid"], e["tid"]].append((round(e["ts"] * 1000), -round(e["dur"] * 1000), e["name"]))
    for bars in tracks.values():
        open_ends = []
        for begin, minus, name in sorted(bars):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            if open_ends and begin - minus > open_ends[-1] + 2:
                return f"{name} at {begin} ends after what encloses it"
            open_ends.append(begin - minus)
    return ""


def check_flows(events):
    starts = collections.Counter(e["id"] for e in events if e["ph"] == "s")
    ends = collections.Counter(e["id"] for e in events if e["ph"] == "f")
    return "" if starts == ends and all(n == 1 for n in starts.values()) else f"{len(starts)} {len(ends)}"


def check_names(events):
    used = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    return "" if used <= named else f"{used - named}"


def self_times(trace, categories):
    """Microseconds of the main thread's bars, each without those in it, by name and device; until the last step."""
    bars = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == 1 and e["cat"] in categories and
            e["tid"] == trace["otherData"]["main_thread"] and e["ts"] + e["dur"] <= trace["otherData"]["host_us"] + 0.002]
    bars.sort(key=lambda e: (e["ts"], -e["dur"]))
    own = collections.Counter()
    stack = []
    for e in bars:
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= e["ts"]:
            stack.pop()
        key = (e["args"].get("operation", "haul_call"), e["args"].get("device", ""), e["cat"])
        own[key] += e["dur"]
        if stack:
            parent = stack[-1]
            own[parent["args"].get("operation", "haul_call"), parent["args"].get("device", ""), parent["cat"]] -= e["dur"]
        stack.append(e)
    return own


def check_trace(device, run):
    trace, profile = read(run, "trace.json"), read(run, "profile.json")
    events = trace["traceEvents"]
    for name, problem in (("fields", check_fields(events)), ("nesting", check_nesting(events)),
                          ("arrows", check_flows(events)), ("names of tracks", check_names(events))):
        check(f"{device}: {name} of the trace", not problem, problem)
    own = self_times(trace, {"operation", "call", "data", "work", "gradient", "wait"})
    wall = trace["otherData"]["wall_us"] / 1e3
    library = sum(own.values()) / 1e3
    tail = (trace["otherData"]["wall_us"] - trace["otherData"]["host_us"]) / 1e3  # the device was behind the host
    check(f"{device}: the wall time of both files", abs(wall - profile["wall_ms"]) < 1e-3)
    other = next(p["ms"] for p in profile["phases"] if p["name"] == "other")
    check(f"{device}: the bars are the phases", abs(library + other + tail - wall) < 0.001 * wall,
          f"{library} {other} {tail} {wall}")
    rows = {(r["name"], r["device"]): r["host_ms"] for r in profile["operations"]}
    for (name, where, kind), us in own.items():
        if kind == "operation" and us > 100:
            check(f"{device}: {name} on {where}", abs(rows[name, where] - us / 1e3) < 0.01 * us / 1e3 + 0.002,
                  f"{rows[name, where]} {us / 1e3}")
    return library / wall


# ---- profile.json ----


def check_profile(device, run, steps):
    profile = read(run, "profile.json")
    check(f"{device}: {steps} steps", profile["steps"] == steps and profile["lost"] == 0, f"{profile['steps']}")
    check(f"{device}: its device", profile["device"] == device)
    check(f"{device}: phases are the wall time",
          abs(sum(p["ms"] for p in profile["phases"]) - profile["wall_ms"]) < 1e-5 * profile["wall_ms"])
    check(f"{device}: operations are the wall time",
          abs(sum(o["host_ms"] for o in profile["operations"]) - profile["wall_ms"]) < 1e-5 * profile["wall_ms"])
    check(f"{device}: peaks of devices", {p["device"] for p in profile["peaks"]} >= {device, "cpu"} and
          all(p["gflops"] > 0 and p["gbps"] > 0 for p in profile["peaks"]), f"{profile['peaks']}")
    conv = next(o for o in profile["operations"] if o["name"] == "haul_conv2d")
    for o in profile["operations"]:
        ms = o["device_ms"] if o["device"] == device != "cpu" else o["host_ms"]
        rate = o["flop"] / ms / 1e6 if o["device"] and ms > 0 else o["gflops"]
        check(f"{device}: the rate of {o['name']} is its arithmetic in that time", abs(o["gflops"] - rate) <= 1e-5 * rate,
              f"{o}")
    check(f"{device}: a limit is named", conv["device"] == device and conv["gflops"] > 0 and
          conv["bound"] in ("compute", "memory", "overhead"), f"{conv}")
    modules = {m["name"]: m for m in profile["modules"]}
    check(f"{device}: modules have both passes", all(modules[name]["forward_ms"] > 0 and modules[name]["backward_ms"] > 0 and
                                                      modules[name]["calls"] == steps for name in ("conv1", "fc1")))
    names = {k["name"] for k in profile["kernels"]}
    check(f"{device}: kernels have names", any(n.startswith("relu") for n in names) and "launch" not in names, f"{names}")
    step = profile["timeline"]
    host = next(t for t in step["tracks"] if t["name"] == "main thread")
    check(f"{device}: a step as a timeline", step["ms"] > 0 and all(0 <= s["begin_ms"] and s["begin_ms"] + s["ms"] <=
          step["ms"] + 1e-5 for t in step["tracks"] for s in t["spans"]) and len(host["spans"]) > 20)
    memory = next(m for m in profile["memory"] if m["device"] == device)
    held = sum(h["bytes"] for h in memory["at_peak"])
    check(f"{device}: the peak is what is held", held == memory["peak_bytes"], f"{held} {memory['peak_bytes']}")
    check(f"{device}: points of memory", len(memory["points"]) > 10 and memory["points"][-1][0] <= step["ms"] + 1e-5 and
          max(b for _, b in memory["points"]) <= memory["peak_bytes"])
    done = next(e for e in map(json.loads, open(f"{run}/log.jsonl", encoding="utf-8")) if e["event"] == "done")
    check(f"{device}: not more than the run's peak", memory["peak_bytes"] <= done["peak_bytes"], f"{memory['peak_bytes']}")


# ---- the commands ----


def check_text(run, other):
    for columns in ("40", "80", "200"):
        text, _ = haul("profile", run, COLUMNS=columns)
        check("tables in order", re.search(r"data .*forward .*backward .*optimizer .*operation .*module .*kernel ", text, re.S),
              text)
    text, _ = haul("profile", run, "--against", other)
    check("beside another run", re.search(r"^haul_conv2d +\d+\.\d+ +\d+\.\d %", text, re.M) and "other ms" in text, text)
    both = json.loads(haul("profile", "--json", run, "--against", other)[0])
    check("as JSON", both["against_step_ms"] > 0 and all("against_step_ms" in r for r in both["kernels"]))
    alone = json.loads(haul("profile", "--json", run)[0])
    check("the file as JSON", alone == read(run, "profile.json"))
    check("the audit as JSON", json.loads(haul("audit", "--json", run)[0]) == read(run, "audit.json"))
    found = len(read(run, "audit.json"))
    check("the audit as text", (f"{found} finding" if found else "No findings.") in haul("audit", run)[0])


def check_energy():
    """A counter that stands still: energy is a figure, 0. Without a counter it is none."""
    zone = "root/sys/class/powercap/intel-rapl:0"
    os.makedirs(zone)
    for name, text in (("name", "package-0\n"), ("energy_uj", "5000000\n")):
        with open(f"{zone}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
    shapes = ["--data", "shapes:256", "--epochs", "1", "--quiet", "--lr", "0.01", "--profile", "2", "--device", "cpu"]
    for run, root, joules, line in (("counted", os.path.abspath("root"), 0, "  energy     0 uJ a step, 0 W in the mean"),
                                    ("uncounted", "/nowhere", None, "  energy     no counters here that can be read")):
        haul("train", *shapes, "--run", run, HAUL_SENSORS_ROOT=root)
        profile = read(run, "profile.json")
        check("joules of a step", profile["step_joules"] == joules, profile["step_joules"])
        for rows in ("operations", "modules"):
            check(f"joules of {rows}", all(row["joules"] == joules for row in profile[rows]), profile[rows])
        text, _ = haul("profile", run, COLUMNS="200")
        check("the line of energy", line in text.splitlines(), text)
        check("a column where there is energy", ("J/step" in text) == (joules is not None), text)
        haul("report", run, "--output", f"{run}.html")
        with open(f"{run}.html", encoding="utf-8") as f:
            page = f.read()
        check("the page", ("no counters here" in page) == (joules is None) and (">Energy<" in page) == (joules is not None), page[:200])


def check_refusals(run):
    _, told = haul("train", "--profile", "5", code=2)
    check("--profile needs --run", "--profile needs --run DIR" in told, told)
    os.mkdir("empty")
    for command, name in (("profile", "profile.json"), ("audit", "audit.json")):
        _, told = haul(command, "empty", code=1)
        check("what makes the file", f"empty has no {name}; haul train --profile" in told, told)
        for text, what in (("{\n[1,", "line 2"), ("7", "holds no JSON"), ("\xff".encode("latin-1"), "")):
            with open(f"empty/{name}", "wb") as f:
                f.write(text if isinstance(text, bytes) else text.encode())
            _, told = haul(command, "empty", code=1)
            check("a damaged file", f"empty/{name}" in told and what in told, told)
        with open(f"empty/{name}", "w", encoding="utf-8") as f:
            f.write('{"operations":[{"name":5},7,{}],"phases":[{"name":"\\u001b[2J"}],"kernels":'
                    '[{"name":"k","share":1,"operation":"\\u001b[2J"}],"modules":[{"bound":"\\u001b[2J","share":1}]}' if name == "profile.json" else '[{"place":"\\u001b[2J"},5]')
        text, _ = haul(command, "empty")
        check("odd members are shown as nothing", "\x1b[2J" not in text, text)
    os.makedirs("cold", exist_ok=True)
    rows = [{"name": "(compilation)", "share": .999}, {"name": "haul_conv2d", "share": .0009}, {"name": "haul_add", "share": 1e-7}]
    with open("cold/profile.json", "w", encoding="utf-8") as f:
        json.dump({"steps": 20, "operations": rows}, f)
    text, _ = haul("profile", "cold")
    check("rows next to compilation", "haul_conv2d" in text and "1 other " in text and "haul_add" not in text, text)
    for place, hinted in (("train.c:42", False), ("train+0x4f", True)):
        with open("cold/audit.json", "w", encoding="utf-8") as f:
            json.dump([{"finding": "wait-per-step", "place": place, "what": "a wait", "fix": "none", "ms_per_step": 1}], f)
        text, _ = haul("audit", "cold")
        check(f"{place}: how places become lines", ("compiled with -g" in text) == hinted, text)
    _, told = haul("profile", run, "--against", "nowhere", code=1)
    check("--against names the folder", "nowhere has no profile.json" in told, told)


def main():
    shapes = ["--data", "shapes:2048", "--batch", "64", "--quiet", "--lr", "0.01"]
    ratios = {}
    for device in devices():
        run = f"run-{device.replace(':', '')}"
        haul("train", *shapes, "--epochs", "1", "--profile", "10", "--run", run, "--device", device)
        check_profile(device, run, 10)
        ratios[device] = check_trace(device, run)
    # About a hundredth of the time lies between calls of the library, and more where other work stops the thread there.
    check("bars fill most of the time on the CPU", 0.5 < ratios["cpu"] < 1.001, f"{ratios}")
    haul("train", *shapes, "--epochs", "2", "--profile", "1000", "--run", "all")  # an epoch has 32 batches
    check("an epoch is profiled where it has fewer steps", read("all", "profile.json")["steps"] == 32)
    text, _ = haul("train", "--data", "shapes:512", "--epochs", "1", "--profile", "4", "--run", "told", "--lr", "0.01")
    check("the end of the training tells of the audit", re.search(r"^  audit +(no findings|\d+ findings?: )", text, re.M), text)
    check("it suggests the report", "  next       haul predict --run told\n             haul report told\n" in text, text)
    check_text("run-cpu", "all")
    check_energy()
    check_refusals("run-cpu")


if __name__ == "__main__":
    main()
    sys.exit(bool(failures))
