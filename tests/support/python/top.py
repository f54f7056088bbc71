"""What the tests of haul top share: trainings in the background, and what haul top says of them."""
import json
import os
import subprocess
import sys
import time

HAUL = os.environ["HAUL"]
failures = 0


def check(name, ok, more=""):
    global failures
    print(("ok    " if ok else "FAILED ") + name + ("" if ok else f": {more}"))
    failures += not ok


def finish():
    sys.exit(1 if failures else 0)


def environment(**more):
    """One with a folder of its own for pages, and without what would change the output."""
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "LC_ALL", "TMUX", "HAUL_SENSORS_ROOT")}
    return {**env, "HAUL_PUBLISH": os.path.abspath("pages"), "LANG": "C.UTF-8", **more}


def train(*arguments, **more):
    command = [HAUL, "train", "--quiet", "--data", "blobs:4096", "--model", "dense", "--epochs", "1000000", *arguments]
    return subprocess.Popen(command, env=environment(**more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def top(*arguments, **more):
    return subprocess.run([HAUL, "top", *arguments], env=environment(**more), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def state(**more):
    done = top("--once", "--json", **more)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 1, done.stdout
    return json.loads(lines[0])


def processes(**more):
    return {p["pid"]: p for p in state(**more)["processes"]}


LIMIT = 900  # seconds after which a wait is taken for one that does not end


def wait_until(what):
    """The first result that is true; the last one where there was none."""
    end = time.monotonic() + LIMIT
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def page_of(pid):
    names = [name for name in os.listdir("pages") if f"-{pid}-" in name] if os.path.isdir("pages") else []
    return os.path.join("pages", names[0]) if names else None
