"""Commands on a terminal of 40 columns: no line is wider than it, no sign is unexplained, and no name is cut where a line
of its own has room for it."""
# ctest: labels=slow
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios

HAUL = os.environ["HAUL"]
SAMPLES = os.path.join(os.environ["HAUL_SOURCE"], "tests/cli/report")
COLUMNS = 40
failures = []


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def show(*arguments, longer=()):
    """What the command prints on the terminal. `longer` are beginnings of lines that cannot be broken."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 100, COLUMNS, 0, 0))
    child = subprocess.Popen([HAUL, *arguments], stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.DEVNULL,
                             env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"})
    os.close(its)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    name = f"haul {' '.join(arguments)[:60]}"
    check(f"{name} ends with 0", child.wait() == 0)
    lines = b"".join(parts).decode(errors="replace").replace("\r\n", "\n").split("\n")
    wide = [line for line in lines if len(line) > COLUMNS and not line.startswith(tuple(longer))]
    check(f"{name}: nothing is wider than the terminal", not wide, f"{wide[:4]}")
    return "\n".join(lines)


os.environ.update(HAUL_CACHE_DIR=os.path.abspath("cache"), OCL_ICD_VENDORS="none")  # the machine is only the CPU
train = ("train", "--data", "shapes:64", "--batch", "32", "--epochs", "1", "--device", "cpu", "--run", "run")
text = show(*train, longer=("haul train", " " * 13 + "haul train"))
check("the star is explained", re.search(r"^\* the best epoch so far\n.*\n.* \*$", text, re.M))
text = show("predict", "--run", "run")
check("pairs", "confused most often:" in text)
check("a number and its sign of per cent are one word", not re.search(r"^ *%", text, re.M), text)
text = show("inspect", "run/checkpoint")
check("whole names", re.search(r"^  optimizers\.0\.fc3\.weight\.momentum\n +\[10,84\]$", text, re.M), text)
os.mkdir("program")
for sample in ("profile.json", "audit.json"):
    shutil.copy(os.path.join(SAMPLES, sample), "program")
text = show("profile", "program")
check("names of operations", re.search(r"^(haul_)?max_pool2d_backward ", text, re.M), text)
show("audit", "program", longer=("      ",))
mlp = ("--model", "mlp", "--batch", "32")
spilling = ("plan", "--model", "simplecnn", "--batch", "64", "--devices", "cpu,sim:laptop-4g", "--allow", "spill", "--memory-limit", "4M")
show(*spilling, longer=("next ",))
text = show("plan", "--machine", "h200", *mlp, "--ranks", "8", longer=("next ",))
check("sentences instead of a table", re.search(r"^up to 1 device: 1 replica, 1 stage,", text, re.M), text)
text = show("what-if", "--machine", "rtx4090", *mlp)
check("a table for each column", len(re.findall(r"^examples/s", text, re.M)) >= 3, text)
text = show("what-if", "--machine", "h200", *mlp, "--ranks", "1,8")
check("a table for each number of ranks", len(re.findall(r"^examples/s", text, re.M)) == 2, text)
text = show("bench", "group", "--group", "local:cpu,cpu", "--seconds", "0.5")
check("a table for two collectives", len(re.findall(r"^ +size ", text, re.M)) == 2, text)
show("stats")
show("ops", "lstm")
show("ops", "--modules")
show("devices")
show("group")
show("record", "mlp", "--memory")
print(f"{len(failures)} failures: {failures}" if failures else "all fine")
raise SystemExit(1 if failures else 0)
