"""What small calls cost: the instructions that libhaul executes for each, by callgrind, against tests/golden/instructions.

The time of a call varies with the machine and its load. The number of instructions does not, if the compiler and the
instruction level of the kernels are the same. Only code of libhaul counts, without the kernels' loops. A count may
differ from the recorded one by 3%. HAUL_INSTRUCTIONS_UPDATE=1 records anew, after a change that is meant.
"""
# ctest: labels=once
import collections
import glob
import os
import re
import shutil
import subprocess
import sys

TOLERANCE = 0.03
CALLS = 100  # COUNTED of instructions/calls.c
KERNEL = re.compile(r"^haul__k_|_base\b")  # kernels, and the tiles of matrix products
HEADER = "/usr/include/valgrind/callgrind.h"
source, build = os.environ["HAUL_SOURCE"], os.environ["HAUL_BUILD"]
golden = os.path.join(source, "tests/golden/instructions")


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def check_build():
    with open(os.path.join(build, "generated/haul_config.h"), encoding="utf-8") as config:
        options = config.read()
    if os.environ["HAUL_SANITIZE"]:
        skip("sanitizers add instructions")
    if not re.search(r'"gcc 12\.[^"]*Release[^"]*levels:[^,"]*\bbase\b', options):
        skip("the counts are those of gcc 12, in a release build with kernels of the level base")
    if not shutil.which("valgrind") or not os.path.exists(HEADER):
        skip("valgrind is not installed")


def run():
    """Writes calls.out.1, .2, ...: one for each case, named by its trigger."""
    subprocess.run([os.environ["HAUL_CC"], "-std=c11", "-O2", "-I", f"{source}/include",
                    f"{source}/tests/tree/instructions/calls.c", "-o", "calls", "-L", build, "-lhaul",
                    f"-Wl,-rpath,{build}"], check=True)
    subprocess.run(["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no", "--compress-strings=no",
                    "--compress-pos=no", "--callgrind-out-file=calls.out", "./calls"],
                   env={**os.environ, "HAUL_CPU_LEVEL": "base", "HAUL_NUM_THREADS": "1"}, check=True)


def count(path):
    """The name of a file's case, and the instructions of libhaul for one of its calls."""
    name = function = library = None
    counts = collections.Counter()
    skip_line = False
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("desc: Trigger: Client Request: "):
                name = line.split(": ")[-1].strip()
            elif line.startswith("ob="):
                library = os.path.basename(line[3:]).startswith("libhaul.so")
            elif line.startswith("fn="):
                function = line[3:].strip()
            elif line.startswith("calls="):
                skip_line = True  # the next line has the cost of the callee, which is counted there
            elif re.match(r"\d+ \d+$", line):
                if library and not skip_line and not KERNEL.search(function):
                    counts[function] += int(line.split()[1])
                skip_line = False
    return name, round(sum(counts.values()) / CALLS), counts


def recorded():
    with open(golden, encoding="utf-8") as lines:
        return {row[0]: int(row[1]) for row in (line.split() for line in lines) if row and row[0] != "#"}


def record(found):
    with open(golden, "w", encoding="utf-8") as out:
        out.write("# Instructions of libhaul for each call of tests/tree/instructions/calls.c, by gcc 12 and callgrind;\n"
                  "# written by tests/tree/instructions.py with HAUL_INSTRUCTIONS_UPDATE=1\n")
        for name, instructions, _ in found:
            out.write(f"{name} {instructions}\n")


def compare(found):
    expected, failed = recorded(), False
    for name, instructions, counts in found:
        was = expected.pop(name, None)
        if was is None:
            print(f"{name}: {instructions} instructions, and none are recorded")
            failed = True
            continue
        change = instructions / was - 1
        wrong = abs(change) > TOLERANCE
        failed = failed or wrong
        print(f"{name}: {instructions} instructions, recorded {was} ({change:+.1%})"
              + (": more than before" if change > 0 else ": fewer than before; record them") * wrong)
        if wrong and change > 0:
            for function, total in counts.most_common(12):
                print(f"    {total / CALLS:8.1f} {function}")
    for name in expected:
        print(f"{name} is recorded, but was not counted")
        failed = True
    if failed:
        print("If the change is meant, record the counts, and give them in the commit's message:\n"
              f"    HAUL_INSTRUCTIONS_UPDATE=1 ctest --test-dir {build} -R '^instructions$'")
    return failed


check_build()
run()
cases = sorted(glob.glob("calls.out.*"), key=lambda path: int(path.rsplit(".", 1)[1]))
found = [case for case in map(count, cases) if case[0]]
if not found:
    sys.exit("callgrind counted nothing")
if os.environ.get("HAUL_INSTRUCTIONS_UPDATE"):
    record(found)
sys.exit(compare(found))
