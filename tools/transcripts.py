"""Blocks of the documentation that show what a command prints today.

    <!-- transcript: haul ops softmax -->
    ```text
    ...
    ```

The commands of a file run one after another by bash in a folder of their own, in which data/cifar10 leads to
$HAUL_TEST_DATA. A block whose first line begins with "$ " keeps that line. A comment without a block, which begins with
"transcript setup:", runs a command that is not shown. A file with data/cifar10 is left alone where that is missing.
"""
import os
import re
import subprocess
import tempfile

MARK = re.compile(r"<!-- transcript( setup)?: (.+?) -->")


class Transcript:
    """One mark of a file; `start` and `end` are the lines of the block, the fences not included."""

    def __init__(self, path, number, setup, command):
        self.path, self.number, self.setup, self.command = path, number, bool(setup), command
        self.start = self.end = None


def find(path):
    lines = open(path, encoding="utf-8").read().split("\n")
    found = []
    for number, line in enumerate(lines):
        match = MARK.fullmatch(line.strip())
        if not match:
            continue
        transcript = Transcript(path, number + 1, *match.groups())
        found.append(transcript)
        if transcript.setup:
            continue
        if lines[number + 1].strip() != "```text":
            raise SystemExit(f"{path}:{number + 1}: a block that begins with ```text must follow the comment")
        transcript.start = number + 2
        transcript.end = next(i for i in range(number + 2, len(lines)) if lines[i].strip() == "```")
    return lines, found


def data_is_there(found):
    return not any("data/cifar10" in t.command for t in found) or "HAUL_TEST_DATA" in os.environ


def run_all(found, build):
    """What each command prints, as lists of lines."""
    printed = []
    variables = dict(os.environ, PATH=os.path.abspath(build) + ":" + os.environ["PATH"])
    with tempfile.TemporaryDirectory() as folder:
        if "HAUL_TEST_DATA" in os.environ:
            os.mkdir(os.path.join(folder, "data"))
            os.symlink(os.environ["HAUL_TEST_DATA"], os.path.join(folder, "data", "cifar10"))
        for t in found:
            done = subprocess.run(["bash", "-c", t.command], cwd=folder, env=variables, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if t.setup and done.returncode:
                raise SystemExit(f"{t.path}:{t.number}: {t.command} ended with {done.returncode}:\n{done.stdout.decode()}")
            printed.append(done.stdout.decode().rstrip("\n").split("\n"))
    return printed


def prompt_lines(lines, t):
    return 1 if lines[t.start].startswith("$ ") else 0


# ---- comparing ----

RULES = [
    (r"\([A-Z].*\)$", "(model)"),  # the processor's name at the end of a line
    (r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "N"),
    (r"\bN (us|ms|s|min N s)\b", "TIME"),
    (r"\bN (bytes|KiB|MiB|GiB|TiB)\b", "BYTES"),
    (r"\bN (FLOP|kFLOP|MFLOP|GFLOP|TFLOP)\b", "FLOPS"),
    (r"\b(cpu|(cuda|opencl):N)\b", "DEVICE"),
    (r" +best$", ""),
    (r"^(\S+\.\w+)? +\w+ +<?N%[ #]*$", r"\1 class N%"),  # which class is second best depends on the last bits
    (r"#+", ""),
    (r" +", " "),
]


def shape(lines):
    """The lines without what differs between machines and runs; a chart becomes one line."""
    out = []
    for line in lines:
        if re.match(r" *[\d.e+-]* *\|", line):
            line = "| chart"
        elif re.match(r" *\+-", line):
            line = "+ axis"
        elif line.startswith("example "):
            line = "example"
        elif line.startswith("  moved"):
            line = "moved"
        elif line.startswith("  ") and out and out[-1].startswith("Epoch N/N"):
            line = "observation"  # which one depends on the last bits
        else:
            for pattern, by in RULES:
                line = re.sub(pattern, by, line)
        if not (out and line == out[-1] == "| chart"):
            out.append(line.strip())
    return out


def same_shape(command, shown, printed):
    """Which devices there are depends on the machine; only the last line of their list does not."""
    if command.startswith("haul devices") and "|" not in command:
        last = r"--device auto is \S+ on this machine"
        return bool(re.fullmatch(last, shown[-1])) and bool(re.fullmatch(last, printed[-1]))
    return shape(shown) == shape(printed)
