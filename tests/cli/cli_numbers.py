"""The files of a run with numbers that nobody expects: every command that reads them ends soon, with a result or a
complaint, without undefined behaviour, and sends nothing to the terminal that it would obey."""
# ctest: labels=slow
import json
import os
import shutil
import subprocess
import sys

HAUL = os.environ["HAUL"]
SANITIZED = bool(os.environ.get("HAUL_SANITIZE"))
SAMPLES = os.path.join(os.environ["HAUL_SOURCE"], "tests/cli/report")
LIMIT = 600  # seconds, for what takes some milliseconds
EXTREMES = ["5e-324", "1e-323", "1e308", "-1e308", "1e999", "-1e999"] if not SANITIZED else ["1e-323", "1e999", "-1e308"]
failures = []


def check(name, fine, what=""):
    if not fine:
        print("FAILED", name, what, file=sys.stderr)
        failures.append(name)


def haul(name, *arguments, codes=(0, 1)):
    try:
        done = subprocess.run([HAUL, *arguments], capture_output=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        check(name, False, "does not end")
        return b""
    check(name, done.returncode in codes, f"ended with {done.returncode}: {done.stderr[-500:]}")
    check(name, b"runtime error" not in done.stderr and b"Sanitizer" not in done.stderr, done.stderr[-2000:])
    check(name, b"\x1b" not in done.stdout and b"\x1b" not in done.stderr, "sends an escape sequence")
    return done.stdout


# ---- every number of every file ----

def names_of(value, out):
    """The names under which an object, or one within it, has a number or a list of numbers."""
    for name, member in value.items() if isinstance(value, dict) else []:
        if isinstance(member, (int, float)) and not isinstance(member, bool):
            out.add(name)
        elif isinstance(member, list) and member and isinstance(member[0], (int, float, list)):
            out.add(name)
        names_of(member, out)
    for member in value if isinstance(value, list) else []:
        names_of(member, out)
    return out


def replaced(value, name, within=False):
    if isinstance(value, dict):
        return {key: replaced(member, name, key == name) for key, member in value.items()}
    if isinstance(value, list):
        return [replaced(member, name, within) for member in value]
    return "@extreme@" if within and isinstance(value, (int, float)) and not isinstance(value, bool) else value


def write(path, documents, name, extreme):
    with open(path, "w", encoding="utf-8") as file:
        for document in documents:
            file.write(json.dumps(replaced(document, name)).replace('"@extreme@"', extreme) + "\n")


def read(path):
    text = open(path, encoding="utf-8").read()
    return [json.loads(line) for line in text.splitlines()] if path.endswith(".jsonl") else [json.loads(text)]


def try_numbers(run):
    for file in sorted(os.listdir(run)):
        if not file.endswith((".json", ".jsonl")) or file == "config.json":
            continue
        path, documents = os.path.join(run, file), read(os.path.join(run, file))
        shutil.copy(path, "kept")
        for name in sorted(names_of(documents, set())):
            for extreme in EXTREMES:
                write(path, documents, name, extreme)
                what = f"{path} with {name} {extreme}"
                haul("report of " + what, "report", run, "--output", "out.html")
                if file in ("profile.json", "audit.json"):
                    haul("profile of " + what, "profile", run)
                    haul("audit of " + what, "audit", run)
        shutil.copy("kept", path)
        haul(f"{path} as it was", "report", run, "--output", "out.html", codes=(0,))


# ---- the axes of single documents ----

def timeline(length, spans):
    return {"steps": 1, "step_ms": 1, "timeline": {"ms": "@extreme@", "step": 1, "tracks": [
        {"name": "host", "kind": "host", "spans": [
            {"name": "s", "kind": "call", "module": "m", "begin_ms": 0, "ms": "@extreme@", "depth": 0}] * spans}]},
        "memory": {"device": "cpu", "points": [[0, 1], ["@extreme@", 2]], "peak_bytes": 2}}


def try_axes(run):
    path = os.path.join(run, "profile.json")
    shutil.copy(path, "kept")
    for extreme in EXTREMES:
        for spans in (1, 2000):
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(timeline(extreme, spans)).replace('"@extreme@"', extreme))
            haul(f"an axis of {extreme} with {spans} spans", "report", run, "--output", "out.html")
    shutil.copy("kept", path)


# ---- times, and names ----

def try_times(run):
    """Times of any length are told with their units."""
    path = os.path.join(run, "profile.json")
    shutil.copy(path, "kept")
    document = read(path)[0]
    for ms, wanted in {5e5: "8 min 20 s", 2e14: "3333333333 min 20 s", 1e300: "1e+297 s"}.items():
        document["wall_ms"] = ms
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        told = haul(f"a profile of {ms} ms", "profile", run, codes=(0,)).decode()
        check(f"a profile of {ms} ms", f" in {wanted}" in told, told[:300])
    shutil.copy("kept", path)


def try_names(run):
    """The name of a run is that of its folder."""
    evil = "e\x1b[31mvil\u009b\n"
    shutil.copytree(run, evil)
    for arguments in (["report", evil], ["report", evil, "--output", evil + "/\x1b[2Jpage.html"], ["report", evil, run, "--output", "o.html"],
                      ["profile", evil], ["audit", evil], ["predict", "--run", evil, "--device", "cpu"]):
        told = haul(f"{arguments} with an odd name", *arguments, codes=(0,))
        if arguments[0] == "report" and len(arguments) == 2:
            check("the name is shown", rb"run e\x1b[31mvil\u009b\n" in told, told)


def main():
    done = subprocess.run([HAUL, "train", *"--model dense --data blobs:256 --batch 16 --epochs 2 --log-every 5 --workers 0 "
                           "--device cpu --profile 4 --run small".split()], capture_output=True, text=True)
    check("a run", done.returncode == 0, done.stderr)
    try_times("small")
    try_names("small")
    try_axes("small")
    shutil.copytree("small", "rich")  # with the profile of a network on a GPU
    for file in os.listdir(SAMPLES):
        shutil.copy(os.path.join(SAMPLES, file), "rich")
    try_numbers("rich")
    print(len(failures), "failures")
    sys.exit(bool(failures))


main()
