"""haul bench: the structure of its objects, figures that agree with each other, tables that fit the terminal, refusals."""
# ctest: labels=slow
import json
import math
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tools"))
import screen

HAUL = os.environ["HAUL"]
NO_DEVICE = {"OCL_ICD_VENDORS": "none", "HAUL_CUDA_LIBRARIES": "/nowhere"}
STANDIN = {"OCL_ICD_VENDORS": "none", "HAUL_CUDA_LIBRARIES": os.path.join(os.environ["HAUL_BUILD"], "tests", "standin")}
WAYS = {"up": 1, "down": 1, "both": 2}
failures = []


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def bench(code, *arguments, **variables):
    done = subprocess.run([HAUL, "bench", *arguments], capture_output=True, text=True, env=dict(os.environ, **variables))
    check(f"haul bench {' '.join(arguments)} ends with {code}", done.returncode == code,
          f"not {done.returncode}: {done.stderr}")
    return done.stdout, done.stderr


def measured(*arguments, **variables):
    """The object of --json."""
    out, err = bench(0, *arguments, "--json", **variables)
    check("one line and nothing on standard error", out.count("\n") == 1 and err == "", err)
    return json.loads(out)


def near(a, b):
    return math.isclose(a, b, rel_tol=1e-9)


def check_spread(name, s, amount, rate):
    check(f"{name}: a spread around the median", 0 < s["seconds_low"] <= s["seconds"] <= s["seconds_high"], s)
    check(f"{name}: the rate", near(s[rate], amount / s["seconds"]), s)


# ---- transfer ----

def check_size(device, size):
    name = f"{device['device']}, {size['bytes']} bytes"
    check(f"{name}: rounds", 3 <= size["rounds"] <= 31, size)
    check_spread(f"{name}, memcpy", size["memcpy"], size["bytes"], "bytes_per_second")
    for kind in ("pageable", "pinned", "asynchronous"):
        if kind == "pinned" and not device["pins"]:
            check(f"{name}: no pinned memory", size[kind] is None, size)
            continue
        for way, copies in WAYS.items():
            s = size[kind][way]
            check_spread(f"{name}, {kind} {way}", s, copies * size["bytes"], "bytes_per_second")
            check(f"{name}, {kind} {way}: a share of memcpy", s["of_memcpy"] > 0, s)
            if kind == "asynchronous":
                check(f"{name}, {way}: handed over before it is done", 0 < s["hand_over_seconds"] <= s["seconds_high"], s)


def half_size(sizes, kind, way):
    """The size at half of the best speed: a line between the logarithms around it."""
    rates = [s[kind][way]["bytes_per_second"] for s in sizes]
    half = max(rates) / 2
    i = next(i for i, rate in enumerate(rates) if rate >= half)
    if i == 0:
        return sizes[0]["bytes"]
    part = math.log(half / rates[i - 1]) / math.log(rates[i] / rates[i - 1])
    return math.exp(math.log(sizes[i - 1]["bytes"]) * (1 - part) + math.log(sizes[i]["bytes"]) * part)


def check_transfer(found, names, pins=None):
    check("bench", found["bench"] == "transfer")
    check("devices", [d["device"] for d in found["devices"]] == names, found["devices"])
    for device in found["devices"]:
        name, sizes = device["device"], device["sizes"]
        check(f"{name}: all sizes or reasons", [s["bytes"] for s in sizes + device["left_out"]] == [4**i for i in range(1, 16)])
        check(f"{name}: the reasons", all(s["reason"] for s in device["left_out"]), device["left_out"])
        check(f"{name}: up to 64 KiB at least", len(sizes) >= 8, sizes)
        check(f"{name}: pins", pins is None or device["pins"] == pins)
        for size in sizes:
            check_size(device, size)
        for way in WAYS:  # other work on the machine may slow single sizes down
            times = [s["pageable"][way]["seconds"] for s in sizes]
            check(f"{name}: the largest size {way} takes longer than the fastest", times[-1] >= min(times) > 0, times)
        kind = "pinned" if device["pins"] else "pageable"
        check(f"{name}: memory", device["memory"] == kind, device["memory"])
        for way in WAYS:
            check(f"{name}: latency {way}", device["latency_seconds"][way] == sizes[0][kind][way]["seconds"])
            check(f"{name}: bandwidth {way}",
                  device["bytes_per_second"][way] == max(s[kind][way]["bytes_per_second"] for s in sizes))
            check(f"{name}: half bandwidth {way}", near(device["half_bandwidth_bytes"][way], half_size(sizes, kind, way)))
            check(f"{name}: share of memcpy {way}", device["of_memcpy"][way] == sizes[-1][kind][way]["of_memcpy"])


listed = json.loads(subprocess.run([HAUL, "devices", "--json"], capture_output=True, text=True).stdout)["devices"]
others = [d["name"] for d in listed if d["usable"] and d["name"] not in ("cpu", "meta")]
if others:
    check_transfer(measured("transfer", "--seconds", "0.5"), others)
check_transfer(measured("transfer", "--seconds", "0.3", "--device", "cuda:0", **STANDIN), ["cuda:0"], pins=True)

alone = measured("transfer", "--seconds", "0.3", **NO_DEVICE)
check("only a cpu: its memcpy", [d["device"] for d in alone["devices"]] == ["cpu"] and len(alone["devices"][0]["sizes"]) >= 8)
check("only a cpu: no copies", all("pageable" not in s for s in alone["devices"][0]["sizes"]))
text, _ = bench(0, "transfer", "--seconds", "0.3", **NO_DEVICE)
check("only a cpu: it says so", text.startswith("cpu: nothing crosses a link"), text)

# ---- compute ----


def winner(sizes):
    """From which size on all sizes are faster with transfers than the CPU."""
    ratio = [math.log(s["with_transfer"]["seconds"] / s["cpu"]["seconds"]) for s in sizes]
    if not sizes:
        return "unknown", None
    if ratio[-1] >= 0:
        return "never", None
    loses = max((i for i, r in enumerate(ratio) if r >= 0), default=None)
    if loses is None:
        return "always", sizes[0]["size"]
    part = ratio[loses] / (ratio[loses] - ratio[loses + 1])
    return "from", math.exp(math.log(sizes[loses]["size"]) * (1 - part) + math.log(sizes[loses + 1]["size"]) * part)


def check_compute(found, name):
    check("bench", found["bench"] == "compute")
    check("devices", [d["device"] for d in found["devices"]] == [name], found["devices"])
    device, = found["devices"]
    check(f"{name}: peaks", device["peak_flops_per_second"] > 1e6 and device["peak_bytes_per_second"] > 1e6, device)
    seen = {(o["operation"], o["detail"], o["dtype"]) for o in device["operations"]}
    check(f"{name}: each once", len(seen) == len(device["operations"]) == 21, seen)
    check(f"{name}: operations", {o for o, _, _ in seen} == {"gemm", "conv2d", "pointwise", "reduction"}, seen)
    check(f"{name}: dtypes", {d for _, _, d in seen} == {"f32", "f16", "bf16"}, seen)
    for o in device["operations"]:
        what = f"{name}: {o['operation']} {o['detail']} {o['dtype']}"
        rate = "flops_per_second" if o["operation"] in ("gemm", "conv2d") else "bytes_per_second"
        who = ["cpu"] if name == "cpu" else ["cpu", "device", "with_transfer"]
        check(f"{what}: sizes or reasons", o["sizes"] or o["left_out"])
        check(f"{what}: sizes grow", [s["size"] for s in o["sizes"]] == sorted({s["size"] for s in o["sizes"]}))
        check(f"{what}: reasons", all(s["reason"] for s in o["left_out"]), o["left_out"])
        for s in o["sizes"]:
            for w in who:
                check_spread(f"{what}, {s['size']} {w}", s[w], s["work"], rate)
        if o["operation"] == "gemm":
            check(f"{what}: work", all(s["work"] == 2 * s["size"]**3 for s in o["sizes"]))
        if name != "cpu":
            wins, size = winner(o["sizes"])
            check(f"{what}: wins", o["wins"] == wins, (o["wins"], wins))
            check(f"{what}: from", o["wins_from"] == size if size is None else near(o["wins_from"], size))


check_compute(measured("compute", "--seconds", "0.5", "--device", "cpu"), "cpu")
for device in others[:1]:
    check_compute(measured("compute", "--seconds", "0.5", "--device", device), device)

# ---- tables ----

for columns in (40, 80, 200):
    for what in ("transfer", "compute"):
        for device in ["cpu"] + others[:1]:
            command = [HAUL, "bench", what, "--seconds", "0.2", "--device", device]
            status, shown = screen.run(command, columns=columns, environment={"NO_COLOR": "1"})
            lines = [line.split("\r")[-1].removeprefix("\x1b[K") for line in shown.replace("\r\n", "\n").split("\n")]
            widest = max(map(len, lines))
            check(f"{what} {device} at {columns} columns", status == 0 and widest <= columns, (status, [line for line in lines if len(line) == widest]))
            check(f"{what} {device} at {columns} columns: a conclusion", ("wins from, transfers included" in shown) ==
                  (what == "compute" and device != "cpu"), lines[-12:])
            check(f"{what} {device} at {columns} columns: a chart", "##" in shown or columns == 40, lines[:8])
for device in others[:1]:
    text, err = bench(0, "transfer", "--seconds", "0.2", "--device", device)
    check(f"{device}: small copies have a speed", "0.0000" not in text and " 4 B " in text, text)
text, err = bench(0, "transfer", "--seconds", "0.2", "--device", "cpu")
check("a pipe: no escape sequence", "\x1b" not in text + err, text)
check("a pipe: a table of 80 columns", all(len(line) <= 80 for line in text.split("\n") if "#" in line), text)

# ---- refusals ----

for arguments, code, why in (([], 2, "WHAT is missing"), (["speed"], 2, "transfer, compute or group"),
                             (["transfer", "--seconds", "0"], 2, "--seconds"),
                             (["transfer", "--sizes", "4"], 2, "--sizes"),
                             (["transfer", "--device", "meta"], 1, "meta"),
                             (["compute", "--device", "cuda:99"], 1, "cuda")):
    out, err = bench(code, *arguments)
    check(f"{arguments}: one line says why", err.count("\n") == 1 and why in err and out == "", err)
sys.exit(1 if failures else 0)
