# tools/bench-table on made-up results: the figures, the ratio of the fastest peer, the spread and the rule of 10%, the
# limits, the block of a Markdown file, the picture, and what it refuses; and how tools/bench chooses and limits a peer.
# ctest: labels=once

import importlib
import json
import math
import os
import subprocess
import sys
import xml.etree.ElementTree

SOURCE = os.environ["HAUL_SOURCE"]
TABLE = os.path.join(SOURCE, "tools", "bench-table")
MACHINE = {"cpu": "Test CPU", "cores": 2, "haul": "haul 1", "torch": "2.0 with BLAS MKL", "level": None}
failed = 0


def check(what, condition, shown=""):
    global failed
    if not condition:
        print(f"{what}: no\n{shown}", file=sys.stderr)
        failed += 1


def bench_table(*arguments, code=0):
    done = subprocess.run([sys.executable, TABLE, *arguments], capture_output=True, text=True, check=False)
    check(f"bench-table {' '.join(arguments)} ends with {code}", done.returncode == code, done.stdout + done.stderr)
    return done.stdout if code == 0 else done.stderr


def case(program, name, unit, amount, own, limit=None, **peers):
    """`own` and the peers: seconds of each round, or why the case was left out."""
    rounds = {name: own} | {"torch:" + peer: found for peer, found in peers.items()}
    rounds = {n: [[s, 2 * s] for s in found] if isinstance(found, list) else found for n, found in rounds.items()}
    names = ["torch:" + peer for peer in peers]
    return {"name": name, "unit": unit, "amount": amount, "peers": names, "peer_amounts": [amount] * len(names),
            "limit": limit, "program": program, "rounds": rounds}


def write_run(path, slower=1.0, **changes):
    """A run in which PyTorch takes `slower` times as long in one case."""
    cases = [
        case("limits", "limit copy", "GB/s", 1.0, [0.02]),
        case("pointwise", "exp, 4 M", "GB/s", 1.0, [0.03, 0.04, 0.9], "limit copy", plain=[0.1], fast=[0.06]),
        case("pointwise", "log", "GB/s", 1.0, [0.04], plain=[0.08 * slower]),
        case("matmul", "matmul 64", "GF/s", 10.0, [0.2], plain=[0.1]),
        case("matmul", "matmul f16", "GF/s", 10.0, [0.2], plain="not implemented"),
        case("train", "train opencl:0", "ms", 0, [0.2], plain=[0.1]),
        case("train", "train cpu", "ms", 0, [0.0125], plain=[0.025], other="not implemented"),
        case("custom", "own silu", "ns", 0, [1e-7]),
    ]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"machine": MACHINE | {"load_before": [0.25, 0, 0]} | changes, "cases": cases}, f)
    return path


def check_row(text, name, *cells):
    """Of the first table that has such a row."""
    lines = [line for line in text.splitlines() if line.startswith(f"| {name} |")] or ["|"]
    found = [cell.strip() for cell in lines[0].split("|")[1:-1]]
    check(f"the row of {name} is {cells}", found == [name, *cells], text)


def test_one_run():
    text = bench_table(write_run("one.json"))
    check_row(text, "`exp, 4 M`", "25.0 GB/s", "16.7 GB/s", "1.50", "-", "50%")  # the median round, the faster peer
    check_row(text, "`matmul 64`", "50.0 GF/s", "100 GF/s", "0.50", "-")
    check_row(text, "`train cpu`", "12.5 ms", "25.0 ms", "2.00", "-")
    check_row(text, "Pointwise operations", f"{math.sqrt(1.5 * 2):.2f}", f"{math.sqrt(1.5 * 2):.2f}", "2", "0", "1.50, `exp, 4 M`")
    check_row(text, "Matrix products", "0.50", "0.50", "1", "1", "0.50, `matmul 64`")
    check_row(text, "copy", "50.0 GB/s")
    check("one run is preliminary", "**Preliminary" in text, text)
    check("OpenCL is not compared with PyTorch's CPU", "opencl" not in text, text)
    check("a case without PyTorch is left away", "own silu" not in text, text)
    check("what PyTorch cannot do is named", "Left out by one side: `matmul f16`." in text, text)


def test_three_runs():
    agree = [write_run(f"a{i}.json", slower) for i, slower in enumerate((1, 1.04, 1.1))]
    text = bench_table(*agree)
    check_row(text, "`log`", "25.0 GB/s", "12.0 GB/s", "2.08", "10%", "")
    check_row(text, "`exp, 4 M`", "25.0 GB/s", "16.7 GB/s", "1.50", "0%", "50%")
    check("nothing is marked", "†" not in text and "Preliminary" not in text, text)
    check("the loads are shown", "3 runs; load average before each: 0.2, 0.2, 0.2." in text, text)
    differ = [write_run(f"d{i}.json", slower) for i, slower in enumerate((1, 1.04, 1.16))]
    text = bench_table(*differ)
    check_row(text, "`log`", "25.0 GB/s", "12.0 GB/s", "2.08", "15% †", "")
    all_cases = f"{math.sqrt(1.5 * 25 / 12):.2f}"
    check_row(text, "Pointwise operations", "1.50", all_cases, "1 of 2", "0", "1.50, `exp, 4 M`")
    check("the mark is explained", "† The runs disagree by more than 10%" in text, text)


def test_update():
    with open("doc.md", "w", encoding="utf-8") as f:
        f.write("before\n<!-- benchmarks: cpu -->\nold\n<!-- benchmarks end: cpu -->\nbetween\n"
                "<!-- benchmarks: v3 -->\nkept\n<!-- benchmarks end: v3 -->\nafter\n")
    path = write_run("one.json")
    check("an update prints nothing", bench_table("--update", "doc.md", path) == "")
    with open("doc.md", encoding="utf-8") as f:
        first = f.read()
    check("the text around the block stays", first.startswith("before\n<!-- benchmarks: cpu -->\n\nTest CPU"), first)
    end = "\n<!-- benchmarks end: cpu -->\nbetween\n<!-- benchmarks: v3 -->\nkept\n<!-- benchmarks end: v3 -->\nafter\n"
    check("the other block stays", first.endswith(end), first)
    check("the old block is gone", "\nold\n" not in first and "`matmul 64`" in first, first)
    bench_table("--update", "doc.md", path)
    with open("doc.md", encoding="utf-8") as f:
        check("a second update changes nothing", f.read() == first)
    os.makedirs("docs", exist_ok=True)
    os.replace("doc.md", "docs/doc.md")
    bench_table("--update", "docs/doc.md", "--svg", "docs/bars.svg", path)
    with open("docs/doc.md", encoding="utf-8") as f:
        check("the picture is shown", "geometric means](bars.svg)\n\nTest CPU" in f.read())
    said = bench_table("--update", "docs/doc.md", "--block", "other", path, code=1)
    check("a missing block is named", "docs/doc.md has no block between <!-- benchmarks: other -->" in said, said)


def test_picture():
    bench_table("--svg", "bars.svg", write_run("one.json"))
    root = xml.etree.ElementTree.parse("bars.svg").getroot()
    texts = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    check("a bar for each group", {"Matrix products (1)", "Training steps (1)", "0.50", "2.00"} <= set(texts), texts)
    bars = {b.get("class") for b in root.iter("{http://www.w3.org/2000/svg}rect")}
    check("slower groups have another colour", bars == {"faster", "slower"}, bars)


def test_refusals():
    path = write_run("one.json")
    said = bench_table(path, write_run("two.json", torch="1.13"), code=1)
    check("other versions are refused", 'one.json and two.json differ in "torch"' in said, said)
    check("a missing file", "none.json: No such file" in bench_table("none.json", code=1))
    with open("text.json", "w", encoding="utf-8") as f:
        f.write("[]")
    check("another file", "not a file of results" in bench_table("text.json", code=1))
    check("an option", "usage: tools/bench-table" in bench_table("--other", path, code=1))


def test_peer():
    """tools/bench: $BENCH_PYTHON first, then the environment of tools/setup; HAUL_CPU_LEVEL reaches the peer."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(SOURCE, "bench"))
    bench = importlib.import_module("tools_bench").load()
    os.environ.update(XDG_CACHE_HOME=os.getcwd())
    for name in ("BENCH_PYTHON", "HAUL_CPU_LEVEL", "ATEN_CPU_CAPABILITY"):
        os.environ.pop(name, None)
    own = os.path.join(os.getcwd(), "haul-bench-python", "bin", "python")
    check("the environment comes first", bench.peer_pythons()[:2] == [own, "/usr/bin/python3"], bench.peer_pythons())
    check("no limit", "ATEN_CPU_CAPABILITY" not in bench.peer_environment())
    os.environ.update(HAUL_CPU_LEVEL="v3", BENCH_PYTHON="./fake")
    found = bench.peer_environment()
    check("AVX2", [found[n] for n in bench.LEVELS["v3"]] == ["avx2", "AVX2", "AVX2"], found)
    with open("fake", "w", encoding="utf-8") as f:
        f.write('#!/bin/sh\n[ "$2" = --version ] && echo "9.9 with $ATEN_CPU_CAPABILITY"\n')
    os.chmod("fake", 0o755)
    check("the named Python is asked", bench.find_torch("peer.py") == ("./fake", "9.9 with avx2"))
    os.environ["BENCH_PYTHON"] = "./none"
    check("no other one is taken", bench.find_torch("peer.py") == (None, "./none: No such file or directory"))


for test in (test_one_run, test_three_runs, test_update, test_picture, test_refusals, test_peer):
    test()
sys.exit(1 if failed else 0)
