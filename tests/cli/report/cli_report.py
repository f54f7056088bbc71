"""haul report: one file that needs nothing else; every drawn value is read back and compared with the files of the run;
runs that are damaged, incomplete or oddly named."""
# ctest: labels=slow
import html.parser
import json
import math
import os
import random
import re
import shutil
import subprocess

HAUL = os.environ["HAUL"]
KEY = ("from", "to", "operation", "module", "label", "tensor")  # of a row of a ledger
SAMPLES = os.path.join(os.environ["HAUL_SOURCE"], "tests/cli/report")
VOID = {"meta", "img", "br", "wbr", "hr", "link", "input"}
failures = []


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def haul(*arguments, code=0):
    done = subprocess.run([HAUL, *arguments], capture_output=True, text=True, errors="surrogateescape")
    check(f"haul {' '.join(arguments)[:70]} ends with {code}", done.returncode == code,
          f"not {done.returncode}: {done.stderr}")
    return done


# ---- reading a page ----

class Page(html.parser.HTMLParser):
    """The page as a list of elements, each with its text; complains of what is not well-formed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.wrong = [], [], []
        self.feed(text)
        self.close()
        if self.open:
            self.wrong.append(f"not closed: {self.open[-1]['tag']}")

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", "in": list(self.open), **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.elements.append({"tag": tag, "text": "", "in": list(self.open), **dict(attributes)})

    def handle_endtag(self, tag):
        if not self.open or self.open[-1]["tag"] != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")
        else:
            self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def find(self, tag, **wanted):
        return [e for e in self.elements if e["tag"] == tag and all(e.get(k) == v for k, v in wanted.items())]

    def inside(self, parent, tag):
        return [e for e in self.elements if e["tag"] == tag and any(p is parent for p in e["in"])]

    def sections(self):
        return [e["id"] for e in self.find("section")]


def read(path, most=500000):
    text = open(path, encoding="utf-8").read()
    page = Page(text)
    check(f"{path} is well-formed", not page.wrong, f"{page.wrong[:3]}")
    check(f"{path} has less than {most} bytes", len(text.encode()) < most, f"{len(text.encode())}")
    ids = [e["id"] for e in page.elements if "id" in e]
    check(f"{path} has ids once", len(ids) == len(set(ids)))
    outside = [e for e in page.elements for k in ("src", "href", "xlink:href", "action")
               if not (e.get(k) or "#").startswith(("#", "data:image/png;"))]
    check(f"{path} loads nothing", not outside and "@import" not in text and "url(" not in text, f"{outside[:2]}")
    policy = [e["content"] for e in page.find("meta") if e.get("http-equiv") == "Content-Security-Policy"]
    check(f"{path} forbids itself to load", policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"])
    scripts = [e for e in page.elements if e["tag"] == "script" or any(k.startswith("on") for k in e)]
    check(f"{path} has no script", not scripts, f"{scripts[:2]}")
    images = [e for e in page.elements if e.get("role") == "img"]
    check(f"{path} describes its charts", images and all(len(e.get("aria-label", "")) > 20 for e in images))
    missing = [e["href"] for e in page.find("a") if e["href"][1:] not in ids]
    check(f"{path} links to what is there", not missing, f"{missing}")
    return page


def lines(page, title):
    """(run, what) -> the points of a chart, computed from its axes."""
    out = {}
    for figure in page.find("figure"):
        if not any(e["text"] == title for e in page.inside(figure, "b")):
            continue
        plot = [e for e in page.inside(figure, "div") if "data-scale" in e][0]
        (x0, x1), (y0, y1) = (map(float, plot[k].split()) for k in ("data-x", "data-y"))
        for path in page.inside(figure, "path"):
            if "data-line" not in path or path["class"].startswith("dots"):
                continue
            points = [(float(x), float(y)) for x, y in re.findall(r"[ML](\S+) ([^ MLHV]+)", path["d"])]
            values = [(x0 + x / 1000 * (x1 - x0), y0 + (1 - y / 1000) * (y1 - y0)) for x, y in points]
            if plot["data-scale"] == "log10":
                values = [(x, 10 ** y) for x, y in values]
            out[int(path.get("data-run", 0)), path["data-line"]] = (values, (y1 - y0) * 1e-4, plot["data-scale"])
    return out


def agree(name, drawn, wanted):
    """Is each wanted (x, y) drawn, and nothing else? A value that is not finite is a gap."""
    values, fine, scale = drawn
    wanted = [(x, y) for x, y in wanted if y is not None and math.isfinite(y)]
    far = [(a, b) for a, b in zip(values, wanted)
           if abs(a[0] - b[0]) > 1e-3 * max(1, wanted[-1][0]) or
           abs((math.log10(a[1]) - math.log10(b[1])) if scale == "log10" else a[1] - b[1]) > fine]
    check(f"{name}: {len(wanted)} values are drawn", len(values) == len(wanted) and wanted and not far,
          f"{len(values)} of {len(wanted)}, {far[:2]}")


def log(run):
    return [json.loads(line) for line in open(os.path.join(run, "log.jsonl"))]


def compare_curves(page, number, run):
    events = log(run)
    epochs = [e for e in events if e["event"] == "epoch"]
    start = [e for e in events if e["event"] == "start"][-1]
    count = max([math.ceil(start["train_examples"] / start["batch"])] +
                [e["batch"] for e in events if e["event"] == "batch"])
    batches = [e for e in events if e["event"] == "batch"]
    data = "validation" if "validation_loss" in epochs[0] else "test"
    at = [e["epoch"] - 1 + e["batch"] / count for e in batches]
    for title, what, wanted in (
            ("Loss", "train", [(e["epoch"], e["train_loss"]) for e in epochs]),
            ("Loss", "measured", [(e["epoch"], e[data + "_loss"]) for e in epochs]),
            ("Accuracy", "train", [(e["epoch"], 100 * e["train_accuracy"]) for e in epochs]),
            ("Accuracy", "measured", [(e["epoch"], 100 * e[data + "_accuracy"]) for e in epochs]),
            ("Learning rate", "batch", [(x, e["lr"]) for x, e in zip(at, batches)]),
            ("Examples per second", "measured", [(e["epoch"], e["images_per_second"]) for e in epochs])):
        agree(f"{run}, {title}, {what}", lines(page, title)[number, what], wanted)
    if number == 0 and len(batches) <= 800:
        agree(f"{run}, mini-batches", lines(page, "Loss")[0, "batch"], [(x, e["loss"]) for x, e in zip(at, batches)])


# ---- runs ----

def train(run, *options):
    haul("train", "--data", "shapes:320", "--epochs", "3", "--batch", "32", "--log-every", "2", "--quiet", "--workers",
         "0", "--run", run, *options)
    return run


def copy(run, name, **files):
    """A run with some files replaced; None removes one."""
    shutil.copytree(run, name)
    for file, text in files.items():
        path = os.path.join(name, file.replace("_", "."))
        if text is None:
            os.remove(path)
        else:
            open(path, "w").write(text)
    return name


def events_of(epochs, batches, spoil=lambda e: None):
    """A log as haul train would write it."""
    start = {"event": "start", "time": "2026-01-02T03:04:05.678Z", "elapsed": 0, "device": "cpu", "model": "dense",
             "parameters": 10, "data": "shapes", "train_examples": batches * 10, "batch": 10, "host": "h"}
    out = [start]
    for e in range(1, epochs + 1):
        out += [{"event": "batch", "epoch": e, "batch": b, "loss": 2 / (e + b / batches), "lr": 0.1 / e}
                for b in range(1, batches + 1)]
        out.append({"event": "epoch", "epoch": e, "train_loss": 2 / e, "train_accuracy": 1 - 0.9 / e,
                    "test_loss": 2.2 / e, "test_accuracy": 1 - 0.95 / e, "best": True, "lr": 0.1 / e, "seconds": 1,
                    "images_per_second": 1000 + e})
    for event in out:
        spoil(event)
    return "".join(json.dumps(e) + "\n" for e in out)


def run_of(name, text):
    os.mkdir(name)
    open(os.path.join(name, "log.jsonl"), "w").write(text)
    return name


# ---- what is checked ----

def real_runs():
    train("cpu", "--device", "cpu", "--validation", "0.2", "--schedule", "cosine", "--profile", "4")
    train("cl", "--device", "opencl:0", "--lr", "0.02")
    for name in ("profile.json", "audit.json"):
        shutil.copy(os.path.join(SAMPLES, name), "cl")
    name_copies("cl")
    told = haul("report", "cl").stdout
    check("the file, its size and the run are named", re.fullmatch(r"cl/report\.html \([\d.]+ KiB\), run cl\n", told), told)
    page = read("cl/report.html")
    compare_curves(page, 0, "cl")
    check("all sections", page.sections() == ["learning", "step", "audit", "operations", "memory", "arena", "transfers",
                                              "network", "predictions", "run"], f"{page.sections()}")
    sums(page)
    timeline(page)
    letters(page)
    keys = keys_of(page)
    check("the keys of a run on an accelerator", "accelerator computes" in keys and "CPU computes" not in keys, f"{keys}")
    predictions(page)
    haul("report", "cpu")
    page = read("cpu/report.html")
    check("all sections of a run with --profile", {"step", "audit", "operations", "memory", "arena"} < set(page.sections()),
          f"{page.sections()}")
    phases(page, "cpu")
    arena("cpu")
    keys = keys_of(page)
    check("a CPU computes, and keys that do not occur are left out", "CPU computes" in keys and "module" in keys and
          not {"accelerator computes", "copy", "device idle"} & set(keys), f"{keys}")
    haul("report", "cl", "cpu", "--output", "both.html")
    page = read("both.html")
    compare_curves(page, 0, "cl")
    compare_curves(page, 1, "cpu")


def name_copies(run):
    """The first two findings become about the first two rows of the ledger, the second one without a tensor."""
    rows = json.load(open(run + "/ledger.json"))["rows"]
    audit = json.load(open(run + "/audit.json"))
    for number, names in enumerate((KEY, KEY[:-1])):
        audit[number]["copies"] = [{name: rows[number][name] for name in names}]
    profile = json.load(open(run + "/profile.json"))
    profile["timeline"]["tracks"][0]["spans"][0]["findings"] = [3, -1, 0.5, "1", None]  # none of these is a finding
    json.dump(audit, open(run + "/audit.json", "w"), indent=1)
    json.dump(profile, open(run + "/profile.json", "w"), indent=1)


def cell_sum(page, caption, column):
    """The numbers of a column in a table's body, added up, and the number in its foot."""
    table = [t for t in page.find("table") if any(caption in c["text"] for c in page.inside(t, "caption"))][0]
    rows = [page.inside(r, "td") + page.inside(r, "th") for r in page.inside(table, "tr")]
    number = re.compile(r"^([\d.,]+)")
    ordered = [[e["text"] for e in page.elements if e["tag"] in ("td", "th") and any(p is r for p in e["in"])]
               for r in page.inside(table, "tr")]
    assert rows
    values = [float(number.match(r[column]).group(1).replace(",", "")) for r in ordered[1:] if number.match(r[column])]
    return sum(values[:-1]), values[-1]


def phases(page, run):
    profile = json.load(open(run + "/profile.json"))
    drawn = {e["data-phase"]: float(e["data-ms"]) for e in page.elements if "data-phase" in e}
    check(f"{run}: the phases are drawn", len(drawn) == len(profile["phases"]) and
          all(math.isclose(drawn[p["name"]], p["ms"], rel_tol=1e-5, abs_tol=1e-9) for p in profile["phases"]), f"{drawn}")
    check(f"{run}: the phases are the time", abs(sum(drawn.values()) - profile["wall_ms"]) < 1e-2, f"{drawn}")


def sums(page):
    """Segments are the step, the matrix is the ledger, the rows are the peak."""
    profile = json.load(open("cl/profile.json"))
    phases(page, "cl")
    widths = [float(e["style"][6:].rstrip("%")) for e in page.elements if "data-phase" in e]
    check("the bar is full", abs(sum(widths) - 100) < 0.02, f"{widths}")
    parts, all_of = cell_sum(page, "The training thread", 2)
    check("the table of phases adds up", abs(parts - all_of) <= 0.03, f"{parts} {all_of}")
    parts, all_of = cell_sum(page, "What was live at the peak on " + profile["memory"][0]["device"], 6)
    check("the peak adds up", all_of == 100 and abs(parts - 100) < 0.6, f"{parts} {all_of}")
    parts, all_of = cell_sum(page, "What memory was used for at the peak", 4)
    check("what it is used for adds up", all_of == 100 and abs(parts - 100) < 0.6, f"{parts} {all_of}")
    memory = profile["memory"][0]
    points, fine, _ = area(page)
    wanted = [(x, y) for x, y in memory["points"]]
    check("memory is drawn", len(points) == len(wanted) and
          all(abs(a[0] - b[0]) < 1e-3 and abs(a[1] - b[1]) < fine for a, b in zip(points, wanted)),
          f"{points[:3]} {wanted[:3]}")
    ledger = json.load(open("cl/ledger.json"))
    matrix = [float(e["data-bytes"]) for e in page.elements if "data-bytes" in e]
    wanted = {}
    for row in ledger["rows"]:
        wanted[row["from"], row["to"]] = wanted.get((row["from"], row["to"]), 0) + row["bytes"]
    check("the matrix is the ledger", sorted(matrix) == sorted(wanted.values()) and sum(matrix) == ledger["bytes"],
          f"{matrix} {wanted}")
    parts, all_of = cell_sum(page, "By operation", 1)
    check("copies by operation", parts + all_of == ledger["copies"], f"{parts} {all_of}")
    findings = [e for e in page.find("li") if any(p.get("class") == "findings" for p in e["in"])]
    check("the findings", len(findings) == len(json.load(open("cl/audit.json"))))


def marks(page, parent):
    """Letters that link to their findings, and that a screen reader can read."""
    found = [e for e in page.inside(parent, "a") if e.get("class") == "mark"]
    check("marks are links with a name", all(e["href"] == "#finding-" + e["text"] and
                                             e["aria-label"].startswith(f"Finding {e['text']}: ") for e in found))
    return found


def letters(page):
    """Findings have letters, which stand at the bars and at the copies that they are about."""
    audit, profile, ledger = (json.load(open(f"cl/{name}.json")) for name in ("audit", "profile", "ledger"))
    listed = [e["text"] for e in page.find("span") if e.get("class") == "letter"]
    check("findings have letters", listed == ["A", "B", "C"] and len(audit) == 3, f"{listed}")
    step, seen = profile["timeline"]["ms"], 0
    order = {"host": 0, "worker": 1, "device": 2}
    tracks = sorted(profile["timeline"]["tracks"], key=lambda t: (order[t["kind"]], t["name"]))
    for track, drawn in zip(tracks, [t for t in page.find("div") if t.get("class") == "track"]):
        wanted = {(listed[n], s["begin_ms"] / step * 100) for s in track["spans"] for n in s.get("findings", [])
                  if type(n) is int and 0 <= n < 3}
        gaps = [e for e in page.inside(drawn, "i") if e["class"] == "k-idle"]
        wanted |= {("C", float(re.search(r"left:([\d.]+)", e["style"]).group(1))) for e in gaps}
        at = {(e["text"], float(re.search(r"left:([\d.]+)", e["style"]).group(1))) for e in marks(page, drawn)}
        check(f"letters of {track['name']}", {l for l, _ in at} == {l for l, _ in wanted} and
              all(any(l == m and abs(x - y) < 3.1 for m, y in wanted) for l, x in at), f"{at} {wanted}")
        seen += len(at)
    check("the timeline has letters", seen >= 4, f"{seen}")
    wanted = []
    for row in sorted(ledger["rows"], key=lambda r: -r["bytes"]):
        wanted.append([listed[n] for n, f in enumerate(audit) if any(all(row[k] == c[k] for k in c) for c in f["copies"])])
    cells = [page.inside(r, "th")[0] for t in page.find("table") for r in page.inside(t, "tr") if page.inside(r, "th")
             if any(re.search("largest|Copies of the run|other copies", c["text"]) for c in page.inside(t, "caption"))]
    drawn = [[e["text"] for e in marks(page, c)] for c in cells if c.get("scope") == "row"]
    drawn = [d for d, c in zip(drawn, [c for c in cells if c.get("scope") == "row"]) if c["text"] != "all copies"]
    check("letters of copies", sorted(drawn) == sorted(wanted) and sum(map(len, drawn)) >= 2, f"{drawn} {wanted}")


def keys_of(page):
    """What the colours of the timeline mean."""
    return [e["text"] for e in page.find("li") if any(p.get("class") == "keys" for p in e["in"])]


def timeline(page):
    """Each span is where the profile has it, and each operation is under the roof where it has been measured."""
    profile = json.load(open("cl/profile.json"))
    step = profile["timeline"]["ms"]
    wanted = sorted((s["begin_ms"] / step * 100, s["ms"] / step * 100) for t in profile["timeline"]["tracks"]
                    for s in t["spans"])
    tracks = [t for t in page.find("div") if t.get("class") == "track"]
    spans = [e for t in tracks for e in page.inside(t, "i") if e["class"] != "k-idle"]
    drawn = sorted(tuple(map(float, re.match(r"left:([\d.]+)%;width:([\d.]+)%", e["style"]).groups())) for e in spans)
    check("the timeline", len(tracks) == len(profile["timeline"]["tracks"]) and len(drawn) == len(wanted) and
          all(abs(a - b) < 2e-3 for one, other in zip(drawn, wanted) for a, b in zip(one, other)), f"{drawn[:3]} {wanted[:3]}")
    for path in [e for e in page.find("path") if "data-operation" in e]:
        plot = [e for e in path["in"] if "data-scale" in e][-1]
        (x0, x1), (y0, y1) = (map(float, plot[k].split()) for k in ("data-x", "data-y"))
        x, y = map(float, re.match(r"M(\S+) ([\d.]+)", path["d"]).groups())
        o = [o for o in profile["operations"] if o["name"] == path["data-operation"]][0]
        check(f"{o['name']} in the roofline", abs(x0 + x / 1000 * (x1 - x0) - math.log10(o["flop"] / o["bytes"])) < 1e-3 and
              abs(y0 + (1 - y / 1000) * (y1 - y0) - math.log10(o["gflops"])) < 1e-3)
    check("a roofline", len([e for e in page.find("path") if e.get("class") == "roof"]) == 1)


def area(page):
    plot = [e for e in page.find("div") if e.get("class") == "plot" and "data-y" in e][-1]
    path = [e for e in page.inside(plot, "path") if e.get("data-line") == "live"][0]
    (_, x1), (_, y1) = (map(float, plot[k].split()) for k in ("data-x", "data-y"))
    first = re.match(r"M(\S+) ([\d.]+)", path["d"]).groups()
    rest = re.findall(r"H([\d.]+)V([\d.]+)", path["d"])
    return [(float(x) / 1000 * x1, (1 - float(y) / 1000) * y1) for x, y in [first, *rest]], y1 * 1e-4, None


def predictions(page):
    told = haul("predict", "--run", "cl", "--json", "--device", "opencl:0").stdout.splitlines()
    summary = json.loads(told[-1])
    table = page.find("table", **{"class": "confusion"})[0]
    rows = []
    for row in page.inside(table, "tr")[1:-1]:
        rows.append([int(e["text"]) for e in page.inside(row, "td")[:-1]])
    check("the confusion matrix is that of haul predict", rows == summary["confusion"], f"{rows}")
    pictures = page.find("ul", **{"class": "pictures"})
    first = page.inside(pictures[0], "li")
    wrong = [e.get("class") == "wrong" for e in first]
    given = [not json.loads(line)["right"] for line in told[:10]]
    check("pictures are marked", len(first) == 20 and wrong[:10] == given, f"{wrong} {given}")
    check("pictures are described", all(e.get("alt") for e in page.find("img")))


def arena(run):
    """The rectangles are the stores of the program that haul record prints, and the keys name their modules."""
    program = json.loads(haul("record", "--run", run, "--json").stdout)
    text = open(run + "/report.html", encoding="utf-8").read()
    text = text[text.index('<section id="arena"'):]
    text = text[:text.index("</section>")]
    drawn = re.findall(r'<path class="g(\d)" d="M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H[\d.]+z"><title>(.*?), operations', text)
    size, count = program["arena_bytes"], len(program["operations"])
    wanted = [s for s in program["stores"] if s["offset"] is not None and s["bytes"] >= size / 1000]
    check("a rectangle for each large store", len(drawn) == len(wanted) > 10, f"{len(drawn)}, {len(wanted)}")
    for (_, left, bottom, right, top, title), s in zip(drawn, wanted):
        place = (1000 * s["first"] / count, 1000 * (s["last"] + 1) / count, 1000 * (1 - s["offset"] / size),
                 1000 * (1 - (s["offset"] + s["bytes"]) / size))
        fine = all(abs(float(a) - b) < 0.01 for a, b in zip((left, right, bottom, top), place))
        check(f"the place of {title}", fine and title.startswith(s["origin"]) and s["module"] in title, f"{place}")
    keys = re.findall(r'<li><i class="g(\d)"></i>(.*?)</li>', text)
    check("each colour has a key", {g for g, *_ in drawn} <= {g for g, _ in keys} and len(set(keys)) == len(keys), f"{keys}")
    check("the table of the peak", "What fills the arena at its peak" in text and text.count("<tr>") > 5)


def missing_files():
    """A section whose file is missing is left out, and a line says what would bring it."""
    for file, gone, words in (("profile.json", {"step", "operations"}, "--profile"), ("audit.json", {"audit"}, "--profile"),
                              ("ledger.json", {"transfers"}, "--run"), ("config.json", {"arena"}, "The arena"), ("checkpoint", {"predictions"}, "checkpoint")):
        run = copy("cl", "without_" + file)
        os.remove(os.path.join(run, file))
        haul("report", run)
        page = read(run + "/report.html")
        check(f"without {file}", not gone & set(page.sections()) and "missing" in page.sections() and
              words in page.find("section", id="missing")[0]["text"], f"{page.sections()}")
    haul("report", run_of("bare", events_of(2, 3)))
    page = read("bare/report.html")
    check("only a log", page.sections() == ["learning", "run", "missing"], f"{page.sections()}")
    compare_curves(page, 0, "bare")
    lines = [li["text"] for li in page.find("li") if "--profile 20" in li["text"]]
    check("one line for all that a profile makes", len(lines) == 1 and "Audit, " in lines[0], f"{lines}")
    os.mkdir("program")  # as haul_profile_save leaves it
    for file in ("profile.json", "audit.json"):
        shutil.copy(os.path.join("cl", file), "program")
    haul("report", "program")
    page = read("program/report.html")
    check("the profile of a program", page.sections() == ["step", "audit", "operations", "memory"], f"{page.sections()}")
    with open("program/profile.json") as file:
        profile = json.load(file)
    for operation in profile["operations"]:
        operation["share"] = 0.009
    with open("program/profile.json", "w") as file:
        json.dump(profile, file)
    haul("report", "program")
    text = read("program/report.html").find("section", id="operations")[0]["text"]
    check("no operation leads where compilation took all the time", "takes the most time" not in text and "Host time" in text, text)
    haul("report", "cl", "bare", "--output", "two.html")
    page = read("two.html")
    said = " ".join(c["text"] for c in page.find("caption"))
    check("differing options come first", said.startswith("Options in which the runs differ"), said)
    check("before the curves", page.sections()[:2] == ["runs", "learning"], f"{page.sections()}")
    check("commands that repeat runs", any("haul train --config cl/config.json --run NEW" in c["text"] for c in page.find("code")))
    check("points have values", any(", epoch 2: " in t["text"] for t in page.find("title")), f"{page.find('title')[:3]}")
    os.mkdir("empty")
    told = haul("report", "empty", code=1).stderr
    check("no run", "empty holds no run" in told and "haul train --run empty" in told, told)
    check("no page", not os.path.exists("empty/report.html"))
    told = haul("report", "bare", "nowhere", "--output", "some.html", code=1).stderr
    check("the other run is written", "nowhere" in told and read("some.html").sections()[0] == "learning", told)
    told = haul("report", "bare", "--output", "no/where.html", code=1).stderr
    check("a page that cannot be written", "no/where.html" in told and told.count("\n") == 1, told)


def damaged_files():
    """A complaint with file and line; the page has the rest."""
    for file in ("profile.json", "audit.json", "ledger.json", "memory.json"):
        text = open("cl/" + file).read()
        half = text[:text.index("\n", 3) + 6]
        told = haul("report", copy("cl", "half_" + file, **{file.replace(".", "_"): half}), code=1).stderr
        check(f"half of {file}", re.search(rf"half_{file}/{file}, line \d+: this is not JSON", told) and
              told.count("\n") == 1, told)
        read(f"half_{file}/report.html")
        told = haul("report", copy("cl", "other_" + file, **{file.replace(".", "_"): "7\n"}), code=1).stderr
        check(f"{file} of another kind", f"{file}, line 1: this is not an" in told, told)
    text = events_of(3, 2).splitlines()
    text[4], text[6] = "{\"event\":\"batch\"", "[1]"
    told = haul("report", run_of("lines", "\n".join(text) + "\n"), code=1).stderr
    check("lines of the log", "lines/log.jsonl, line 5: this is not JSON" in told and "line 7: this is not an object" in told,
          told)
    check("the other lines", len(lines(read("lines/report.html"), "Loss")[0, "measured"][0]) == 2)
    told = haul("report", run_of("noise", "\x00\n" * 50), code=1).stderr
    check("not a log at all", told.count("\n") <= 8, told)


def spoiled(value, chance):
    """The value with some of its parts replaced by what does not fit."""
    if chance.random() < 0.05:
        return chance.choice([None, -1, 1e308, "x" * 300, [], {}, True, 0, 0.5, [[[]]], "<b>&'\""])
    if isinstance(value, dict):
        return {k: spoiled(v, chance) for k, v in value.items() if chance.random() > 0.03}
    if isinstance(value, list):
        return [spoiled(v, chance) for v in value]
    return value


def wrong_values():
    """Valid JSON that says nonsense: a page that is well-formed, and never a crash."""
    chance = random.Random(5)
    known = {file: json.load(open("cl/" + file)) for file in ("profile.json", "audit.json", "ledger.json", "memory.json")}
    events = log("cl")
    for i in range(25):
        text = "".join(json.dumps(spoiled(e, chance)) + "\n" for e in events)
        run = run_of(f"wrong{i}", json.dumps(events[0]) + "\n" + text)
        for file, value in known.items():
            json.dump(spoiled(value, chance), open(os.path.join(run, file), "w"))
        done = subprocess.run([HAUL, "report", run], capture_output=True, text=True)
        text = open(run + "/report.html", encoding="utf-8").read()
        page, spelled = Page(text), re.findall(r"[:\s\"]-?(?:nan|inf)[%\s\"]", text)
        check(f"nonsense {i}", done.returncode in (0, 1) and not page.wrong and not spelled,
              f"{done.returncode} {done.stderr} {page.wrong[:2]} {spelled[:2]}")


def odd_runs():
    """NaN losses, 1 and 200 epochs, many runs, long names and names with markup."""
    def spoil(e):
        if e.get("epoch", 0) >= 3:
            e.update({k: None for k in ("loss", "train_loss", "test_loss") if k in e})
    text = events_of(5, 4, spoil) + json.dumps({"event": "diverged", "epoch": 3, "batch": 1, "what": "loss"}) + "\n"
    haul("report", run_of("nan", text))
    page = read("nan/report.html")
    compare_curves(page, 0, "nan")
    check("gaps are marked", len([e for e in page.find("span") if e.get("class") == "gap"]) >= 3)
    check("it diverged", "diverged" in [e for e in page.find("p") if e.get("class") == "verdict"][0]["text"])
    haul("report", run_of("all_nan", events_of(2, 2, lambda e: e.update(train_loss=None, test_loss=None, loss=None))))
    check("nothing is finite", "no value is finite" in read("all_nan/report.html").find("main")[0]["text"])
    haul("report", run_of("flat", events_of(1, 2, lambda e: e.update({k: 2.30518 + 6e-5 * (k == "test_loss") for k in
                                                                      ("loss", "train_loss", "test_loss") if k in e}))))
    labels = [e["text"] for e in read("flat/report.html").find("span") if e.get("class") == "y"]
    check("labels of a flat axis differ", len(set(labels[:5])) == 5, f"{labels}")
    for epochs in (1, 2, 200):
        haul("report", run_of(f"epochs{epochs}", events_of(epochs, 50)))
        compare_curves_of_many(f"epochs{epochs}", epochs)
    for i in range(4):
        run_of(f"long{i}", events_of(2000, 10, lambda e: e.update({k: e[k] * (1 + 0.1 * math.sin(7 * e["epoch"]) + i)
                                                                   for k in ("train_loss", "test_loss") if k in e})))
    haul("report", *[f"long{i}" for i in range(4)], "--output", "long.html")
    drawn = lines(read("long.html"), "Loss")
    check("four long runs", len(drawn) == 9 and all(len(d[0]) <= 900 for d in drawn.values()))
    grows = lambda e: e.update({k: e[k] * 10 ** (3 * e["epoch"]) for k in ("loss", "train_loss", "test_loss") if k in e})
    haul("report", run_of("steep", events_of(6, 3, grows)))
    compare_curves(read("steep/report.html"), 0, "steep")
    names = ["a<b>&\"c'", "\u05e9\u05dc\u05d5\u05dd \u202e evil", "n" * 40, "five", "six"]
    for name in names:
        run_of(name, events_of(3, 2, lambda e: e.update(model="<script>alert(1)</script>", host="&amp;")))
    haul("report", *names, "--output", "names.html")
    page = read("names.html")
    check("the first name", page.find("h1")[0]["text"] == names[0], page.find("h1")[0]["text"])
    check("directions stay within names", "\u202e" not in page.find("main")[0]["text"] and
          any("\u05e9\u05dc\u05d5\u05dd" in e["text"] for e in page.find("bdi")))
    check("four runs are drawn", {run for run, _ in lines(page, "Loss")} == {0, 1, 2, 3})
    check("all runs are in the table", all(any(e["text"].startswith(n[:4]) for e in page.find("bdi")) for n in names))


def compare_curves_of_many(run, epochs):
    page = read(run + "/report.html")
    drawn = lines(page, "Loss")[0, "measured"]
    agree(run, drawn, [(e, 2.2 / e) for e in range(1, epochs + 1)])
    points = lines(page, "Loss")[0, "batch"][0]
    check(f"{run}: not too many points", len(points) <= 900, f"{len(points)}")
    losses = [e["loss"] for e in log(run) if e["event"] == "batch"]
    check(f"{run}: the extremes stay", abs(max(y for _, y in points) - max(losses)) < 0.01 * max(losses) and
          abs(min(y for _, y in points) - min(losses)) < 0.01 * max(losses))


def spilling():
    """What a step has in host memory is marked in the picture of its arena."""
    haul("train", "--model", "simplecnn", "--data", "shapes:128", "--batch", "64", "--epochs", "1", "--quiet", "--workers", "0",
         "--device", "sim:laptop-4g", "--spill", "on", "--memory-limit", "4M", "--profile", "1", "--run", "spills")
    haul("report", "spills")
    page = read("spills/report.html")
    veils = [e for e in page.find("path") if e.get("class") == "away"]
    check("stores in host memory are pale", veils and all(", in host memory, operations" in page.inside(e, "title")[0]["text"]
                                                         for e in veils), f"{len(veils)}")
    check("the page says how much moved", any(e["text"].startswith("The run moved ") for e in page.find("p")))
    check("and which part of a step's memory was not on the device",
          "The part beyond the limit of 3.81\u00a0MiB was in host memory." in open("spills/report.html", encoding="utf-8").read())


def ahead():
    """A median step far below the mean is explained."""
    profile = json.load(open("cl/profile.json"))
    os.mkdir("ahead")
    for factor in (1, 9):
        wall = factor * profile["steps"] * profile["timeline"]["ms"]
        json.dump({**profile, "wall_ms": wall, "median_ms": 4893.1}, open("ahead/profile.json", "w"))
        haul("report", "ahead")
        check(f"a mean step {factor} times as long", (factor == 9) == ("The mean is far" in open("ahead/report.html", encoding="utf-8").read()))
    haul("report", "ahead", "cl", "--output", "slow.html")
    check("steps above a second have seconds", any(e["text"] == "4.9\u00a0s" for e in read("slow.html").find("td")))


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast():
    """Text on what is behind it, light and dark, by the formula of WCAG 2.1: at least 4.5."""
    css = open("cl/report.html", encoding="utf-8").read().split("<style>")[1].split("</style>")[0]
    roots = re.findall(r":root \{(.*?)\}", css, re.S)
    check("palettes for light, dark and paper", len(roots) == 3)
    for theme in roots[:2]:
        colours = dict(re.findall(r"--([\w-]+): (#\w{6})", theme))
        for text, behind in [(t, "paper") for t in ("ink", "soft", "a", "c", "x", "p", "bad")] + \
                [("ink", b) for b in ("a-fill", "c-fill", "x-fill", "p-fill", "panel", "rule", "mid")] + \
                [("soft", "panel"), ("bad", "bad-fill")]:
            a, b = sorted((luminance(colours[text]), luminance(colours[behind])), reverse=True)
            check(f"{text} on {behind}: {(a + 0.05) / (b + 0.05):.1f}", (a + 0.05) / (b + 0.05) >= 4.5)


real_runs()
missing_files()
damaged_files()
wrong_values()
odd_runs()
spilling()
ahead()
contrast()
print(f"{len(failures)} failures: {failures}" if failures else "all fine")
raise SystemExit(1 if failures else 0)
