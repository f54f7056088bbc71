# The logs of trainings are as docs/log.md says: its tables are read, and held against logs of many kinds of runs.
# ctest: labels=slow
import json, os, re, resource, signal, subprocess, sys, time

sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tests", "support", "python"))
import png_file  # noqa: E402

HAUL = os.environ["HAUL"]
PAGE = os.path.join(os.environ["HAUL_SOURCE"], "docs/log.md")
COMMON = "Every event"
TYPES = {
    "text": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "list": lambda v: isinstance(v, list),
    "null": lambda v: v is None,
}
failures = []


def fail(text):
    failures.append(text)


# ---- the page ----

def read_page():
    """{event: {field: (types, may be absent)}}, and the example lines of each event."""
    tables, examples, event = {}, {}, None
    for line in open(PAGE, encoding="utf-8"):
        if line.startswith("## "):
            event = line[3:].strip().strip("`")
        elif event and line.startswith("| `"):
            field, kind, unit, meaning, absent = (cell.strip() for cell in line.strip().strip("|").split("|"))
            tables.setdefault(event, {})[field.strip("`")] = (kind.split(" or "), absent != "never")
            assert meaning and absent, line
        elif event and line.startswith("{"):
            examples.setdefault(event, []).append(line)
    common = tables.pop(COMMON)
    return {event: {**common, **fields} for event, fields in tables.items()}, examples


# ---- lines ----

def flat(event):
    """With the fields of objects in lists, such as layers.name, as they are in the first object."""
    out = {}
    for field, value in event.items():
        out[field] = value
        objects = [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []
        for o in objects:
            if list(o) != list(objects[0]) or list(map(type, o.values())) != list(map(type, objects[0].values())):
                fail(f"{field} has objects with different fields: {o}")
            out.update({f"{field}.{name}": v for name, v in objects[0].items()})
    return out


def check_line(schema, line, where):
    """The event, after complaints about all that is not as the page says."""
    event = flat(json.loads(line))
    name = event.get("event")
    if name not in schema:
        fail(f"{where}: the page has no event {name}")
        return None
    fields = schema[name]
    if list(event)[:3] != ["event", "time", "elapsed"]:
        fail(f"{where}: {name} begins with {list(event)[:3]}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"]):
        fail(f"{where}: time {event['time']}")
    for field, value in event.items():
        if field not in fields:
            fail(f"{where}: {name} has the field {field}, which is not documented")
        elif not any(TYPES[kind](value) for kind in fields[field][0]):
            fail(f"{where}: {name}.{field} is {value!r}, and {' or '.join(fields[field][0])} is documented")
    for field, (_, may_be_absent) in fields.items():
        if field not in event and not may_be_absent:
            fail(f"{where}: {name} lacks {field}")
    return event


class Seen:
    """What occurs in the logs, to find what is documented and does not."""

    def __init__(self, schema):
        self.schema, self.present, self.absent, self.nulls = schema, set(), set(), set()

    def add(self, event):
        for field in self.schema[event["event"]]:
            (self.present if field in event else self.absent).add((event["event"], field))
            if field in event and event[field] is None:
                self.nulls.add((event["event"], field))

    def check(self):
        for event, fields in self.schema.items():
            for field, (kinds, may_be_absent) in fields.items():
                if (event, field) not in self.present:
                    fail(f"{event}.{field} is documented and never occurs")
                if may_be_absent and (event, field) not in self.absent:
                    fail(f"{event}.{field} is never absent")


def check_log(seen, lines, where):
    elapsed, last = 0, None
    for at, line in enumerate(lines, 1):
        event = check_line(seen.schema, line, f"{where}:{at}")
        if not event:
            continue
        seen.add(event)
        if event["elapsed"] < elapsed:
            fail(f"{where}:{at}: elapsed goes back from {elapsed} to {event['elapsed']}")
        elapsed, last = event["elapsed"], event
    return last


# ---- runs ----

SMALL = "--model dense --data blobs:256 --batch 16 --log-every 5 --workers 1 --device cpu".split()


def train(code, *arguments):
    """The lines of --json."""
    done = subprocess.run([HAUL, "train", "--json", *arguments], capture_output=True, text=True)
    if done.returncode != code:
        fail(f"haul train {' '.join(arguments)} ended with {done.returncode}, not {code}: {done.stderr}")
    return done.stdout.splitlines(keepends=True)


def stop(run):
    """A training that is interrupted."""
    process = subprocess.Popen([HAUL, "train", *SMALL, "--epochs", "100000", "--save-every", "0", "--run", run],
                               stdout=subprocess.DEVNULL)
    until = time.monotonic() + 900
    while time.monotonic() < until and (not os.path.exists(run + "/log.jsonl") or
                                        '"epoch":2,' not in open(run + "/log.jsonl").read()):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    if process.wait() != 130:
        fail(f"{run} ended with {process.returncode}")


def run_all(seen):
    kept = {
        "plain": (0, SMALL + ["--epochs", "2"]),
        "rich": (0, "--model dense --data shapes:320 --batch 16 --log-every 5 --device cpu --epochs 2 --validation 0.1 "
                    "--augment crop,flip --schedule cosine:0.5 --patience 9 --optimizer adamw --weight-decay 0.1 "
                    "--accumulate 2 --recompute auto".split()),
        "early": (0, SMALL + ["--epochs", "9", "--patience", "2", "--lr", "1e-12"]),
        "auto": (0, "--model dense --data blobs:64 --batch auto --epochs 1 --device cpu".split()),
        "wild": (3, "--model mlp --data shapes:64 --batch 16 --log-every 1 --epochs 9 --lr 8 --device cpu".split()),
        "placed": (0, "--model simplecnn --data shapes:32 --batch 16 --epochs 1 --workers 0 --devices cpu,sim:h200".split()),
        "spilling": (0, "--model dense --data shapes:32 --batch 16 --epochs 1 --log-every 1 --device sim:laptop-4g "
                        "--spill on".split()),
        "pieces": (0, "--model dense --data blobs:64 --batch 16 --pieces 4 --shard 1 --epochs 1 --device cpu".split()),
        "stages": (0, "--model dense --data blobs:64 --pieces 2 --stages 2 --epochs 1 --group local:cpu,cpu".split()),
        "short": (0, "--model dense --data blobs:16 --batch 16 --epochs 1 --device cpu".split()),
    }
    for run, (code, arguments) in kept.items():
        lines = train(code, *arguments, "--run", run)
        if lines != open(run + "/log.jsonl").readlines():
            fail(f"{run}: --json and log.jsonl differ")
    train(0, *SMALL, "--epochs", "1", "--init", "plain/weights.safetensors", "--head", "1", "--freeze", "--run", "begun")
    train(0, "--run", "plain", "--resume", "--epochs", "3")
    stop("stopped")
    train(0, "--run", "stopped", "--resume", "--epochs", str(1 + last_epoch("stopped")))
    stop("left")
    for run in list(kept) + ["begun", "stopped", "left"]:
        check_log(seen, open(run + "/log.jsonl"), run)
    check_log(seen, train(3, *kept["wild"][1], "--log-every", "1000"), "wild, without lines")
    check_log(seen, train(0, "--run", "plain", "--resume"), "plain, finished")
    if not os.environ.get("HAUL_SANITIZE"):
        run_out(seen)
    if "png" in subprocess.run([HAUL, "--version"], capture_output=True, text=True).stdout:
        no_test(seen)


def run_out(seen):
    """Memory that is exhausted while training: the system allows less than a step needs."""
    limited = {**os.environ, "MALLOC_ARENA_MAX": "1", "HAUL_WITHOUT": "onednn", "OCL_ICD_VENDORS": "none",
               "HAUL_CUDA_LIBRARIES": "/nowhere", "HAUL_NUM_THREADS": "2"}
    done = subprocess.run([HAUL, "train", "--json", *"--model resnet18 --data shapes:64 --batch 64 --workers 0 --epochs 1 "
                           "--device cpu".split()], capture_output=True, text=True, env=limited,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (380 << 20, 380 << 20)))
    if done.returncode != 4:
        fail(f"a training without memory ended with {done.returncode}, not 4: {done.stderr}")
    check_log(seen, done.stdout.splitlines(keepends=True), "out of memory")


def last_epoch(run):
    return max(json.loads(line).get("epoch", 0) for line in open(run + "/log.jsonl"))


def no_test(seen):
    """Pictures without a test part, and one of them removed."""
    for name in "ab":
        for i in range(8):
            png_file.write(f"set/{name}/{i}.png", 8, 8, [16 * i] * 192)
    check_log(seen, train(0, "--model", "dense", "--data", "images:set", "--size", "6", "--validation", "0.25", "--batch",
                          "4", "--epochs", "1", "--device", "cpu", "--run", "pictures"), "pictures")
    os.remove("set/a/0.png")
    check_log(seen, train(0, "--run", "pictures", "--resume", "--epochs", "2", "--allow-changed-data"), "fewer pictures")


def main():
    schema, examples = read_page()
    for event in schema:
        if len(examples.get(event, [])) != 1:
            fail(f"the page has {len(examples.get(event, []))} examples of {event}")
        for line in examples.get(event, []):
            check_line(schema, line, f"the example of {event}")
            if json.loads(line)["event"] != event:
                fail(f"the example of {event} is of {json.loads(line)['event']}")
    seen = Seen(schema)
    run_all(seen)
    if os.environ.get("HAUL_SANITIZE"):  # sanitizers need an address space of their own
        seen.schema.pop("out_of_memory")
    seen.check()
    start = json.loads(open("plain/log.jsonl").readline())
    for field, value in {"lr": 0.01, "momentum": 0.9, "batch": 16, "epochs": 2, "data": "blobs:256", "schedule": "constant",
                         "shuffle": True, "seed": 0, "train_examples": 256, "resumed": False}.items():
        if start[field] != value:
            fail(f"start.{field} is {start[field]!r}, not {value!r}")
    for text in failures:
        print("FAILED", text, file=sys.stderr)
    print(f"{len(seen.present)} fields of {len(schema)} events, {len(failures)} failures")
    sys.exit(bool(failures))


main()
