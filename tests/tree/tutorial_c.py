"""docs/tutorial-c-program.md: its files are written and its commands run, against an installed Haul.

An HTML comment before a block says what it is: <!-- run --> is run by bash and must succeed, <!-- file=NAME --> is
written (in a comment of tests/tree/snippets.py as well), <!-- source FOLDER --> stands for getting Haul's sources,
<!-- install --> for installing it, and <!-- python --> is run where the build has Haul's package for Python. With HAUL_PREFIX the Haul installed there is used. The part with HAUL_SMALL compiles
Haul; it is left out with HAUL_TUTORIAL=quick.
"""
# ctest: labels=slow,once; processors=2
import os
import pathlib
import re
import shutil
import subprocess
import sys

if os.environ.get("HAUL_SANITIZE"):
    print("skipped: a sanitized library needs a sanitized program")
    sys.exit(77)

source, build = os.environ["HAUL_SOURCE"], os.environ.get("HAUL_BUILD", "")
work = pathlib.Path("work").resolve()
work.mkdir()
prefix = os.environ.get("HAUL_PREFIX")
if not prefix:
    prefix = str(pathlib.Path("prefix").resolve())
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "DESTDIR": ""})
library = str(next(pathlib.Path(prefix).rglob("libhaul.so")).parent)
also = os.environ.get("LD_LIBRARY_PATH")  # of the libraries that Haul uses
environment = {**os.environ, "PATH": prefix + "/bin:" + os.environ["PATH"],
               "LD_LIBRARY_PATH": library + (":" + also if also else ""),
               "LIBRARY_PATH": library, "PKG_CONFIG_PATH": library + "/pkgconfig", "CMAKE_PREFIX_PATH": prefix,
               "CLICOLOR": "0"}
# Haul within another project is compiled through ccache, too, so that the second run is quick.
if shutil.which("ccache"):
    environment.update(CMAKE_C_COMPILER_LAUNCHER="ccache", CCACHE_BASEDIR=str(work), CCACHE_NOHASHDIR="1")
quick = os.environ.get("HAUL_TUTORIAL") == "quick"


def blocks(path):
    """(line, words of the comment before it, text) of each block."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    for found in re.finditer(r"^<!-- (.*?) -->\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, found.start()) + 1, found[1].split(), found[2]


def copy_source(folder):
    """A clone, as far as git does not know better: the files of this tree without build folders."""
    shutil.copytree(source, folder, symlinks=True,
                    ignore=shutil.ignore_patterns(".git", "build", "build-*", ".cache", "runs", "data.bin"))


counts = {"file": 0, "run": 0}
for line, words, text in blocks(source + "/docs/tutorial-c-program.md"):
    files = [w[len("file="):] for w in words if w.startswith("file=")]
    if quick and ("small" in text and "run" in words):
        continue
    if files:
        target = work / files[0]
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
        counts["file"] += 1
    elif words[0] == "source" and not quick:
        copy_source(work / words[1])
    elif words[0] == "python":
        if list(pathlib.Path(build, "python/haul").glob("_haul*.so")):
            told = subprocess.run([os.environ["HAUL_PYTHON"], "-c", text], cwd=work, check=True, stdout=subprocess.PIPE, text=True,
                                  env={**environment, "PYTHONPATH": build + "/python"}).stdout
            assert told == "[0, 1]\n", told
    elif words[0] == "run":
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=work, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
        print(f"$ {text.strip()}\n{done.stdout[-1500:]}")
        if done.returncode:
            print(f"docs/tutorial-c-program.md:{line}: fails with {done.returncode}")
            sys.exit(1)
        counts["run"] += 1

wrong = subprocess.run([work / "classify", "nosuch.safetensors"], cwd=work, env=environment, capture_output=True, text=True)
assert wrong.returncode == 1 and "nosuch.safetensors" in wrong.stderr and "picture" not in wrong.stdout, wrong

assert counts["file"] == 4 and counts["run"] >= 5, counts
if not quick:
    size = (work / "small/build/classify").stat().st_size
    assert size < 2220000, f"the small program has {size} bytes"
