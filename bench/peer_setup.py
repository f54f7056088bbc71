#!/usr/bin/env python3
"""Makes a virtual environment with the newest PyTorch of PyPI, for tools/bench to compare with.

usage: bench/peer_setup.py FOLDER

PyPI's PyTorch for x86-64 is linked with NVIDIA's libraries, which are several times larger than PyTorch and which the
CPU never calls. They are not installed. For each one, this program compiles a stand-in: a library with the same
functions, which all return 100, the code for "no device". PyTorch then finds no GPU and computes on the CPU.

Does nothing if FOLDER has a PyTorch that works. FOLDER must be new, or a virtual environment, which is replaced.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PACKAGES = ["torch", "numpy"]
NEEDED = ["filelock", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "MarkupSafe", "fsspec"]
SPACE = 4 << 30  # bytes: the download, and what it unpacks to
TIME = 1800  # seconds for pip
NVIDIA = re.compile(r"lib(cu|nv|nccl)")
NVIDIA_FUNCTION = re.compile(r"_*(cu|nv|nccl)\w+$")
CHECK = """
import torch
x = torch.ones(64, 64, requires_grad=True)
torch.nn.functional.conv2d((x @ x).exp().neg().view(1, 1, 64, 64), torch.ones(1, 1, 3, 3)).sum().backward()
assert not torch.cuda.is_available()
print(torch.__version__)
"""


class Failure(Exception):
    """A sentence for the user."""


def run(*command, timeout=120):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failure(f"{os.path.basename(command[0])} did not end within {timeout} seconds") from None
    except OSError as error:
        raise Failure(f"{os.path.basename(command[0])} cannot be run: {error.strerror}") from None
    return done.returncode, done.stdout, done.stderr.strip()


def python_of(folder):
    return os.path.join(folder, "bin", "python")


def check(folder):
    """(version, None), or (None, the reason why PyTorch does not work there)."""
    if not os.access(python_of(folder), os.X_OK):
        return None, "Python is missing"
    code, out, said = run(python_of(folder), "-c", CHECK)
    return (out.strip(), None) if code == 0 else (None, (said.splitlines() or ["it ended early"])[-1])


def make_environment(folder):
    if os.path.lexists(folder) and not os.path.exists(os.path.join(folder, "pyvenv.cfg")):
        raise Failure(f"{folder} exists and is not a virtual environment")
    shutil.rmtree(folder, ignore_errors=True)
    parent = os.path.dirname(os.path.abspath(folder))
    os.makedirs(parent, exist_ok=True)
    free = shutil.disk_usage(parent).free
    if free < SPACE:
        raise Failure(f"{parent} has {free >> 20} MiB of free space; PyTorch needs {SPACE >> 20} MiB")
    code, out, said = run(sys.executable, "-m", "venv", folder)
    if code:
        raise Failure("python3 -m venv failed (Debian has it in python3-venv): " + ((said or out).splitlines() or [""])[-1])


def install(folder):
    pip = [python_of(folder), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-cache-dir"]
    code, _, said = run(*pip, "--no-deps", "--only-binary", ":all:", *PACKAGES, *NEEDED, timeout=TIME)
    if code:
        lines = [line for line in said.splitlines() if line.startswith("ERROR")] or said.splitlines() or [""]
        raise Failure(f"pip could not install PyTorch (is there a network?): {lines[-1]}")


# ---- stand-ins for NVIDIA's libraries ----


def needed_libraries(path):
    _, out, _ = run("readelf", "-dW", path)
    return re.findall(r"\(NEEDED\).*\[(.+)\]", out)


def versions_by_library(path):
    """The symbol versions that a library needs of each other one."""
    _, out, _ = run("readelf", "-VW", path)
    found, library = {}, None
    for line in out.splitlines():
        if match := re.search(r"Version: 1\s+File: (\S+)", line):
            library = found.setdefault(match.group(1), set())
        elif (match := re.search(r"Name: (\S+)\s+Flags:.*Version:", line)) and library is not None:
            library.add(match.group(1))
    return found


def symbols(path, *options):
    """(name, version or None) of a library's dynamic symbols."""
    _, out, _ = run("nm", "-D", "--with-symbol-versions", *options, path)
    for line in out.splitlines():
        name, _, version = line.split()[-1].partition("@")
        yield name, version.lstrip("@") or None


def write_stand_in(path, functions):
    """A library with `functions`, (name, version or None)."""
    versions = sorted({version for _, version in functions if version})
    with tempfile.TemporaryDirectory() as work:
        source, script = os.path.join(work, "stand_in.c"), os.path.join(work, "versions")
        with open(source, "w", encoding="utf-8") as f:
            for name in sorted({name for name, _ in functions}):
                f.write(f"int {name}(void);\nint {name}(void) {{ return 100; }}\n")
        with open(script, "w", encoding="utf-8") as f:
            for version in versions:
                f.write(version + " { global: " + " ".join(n + ";" for n, v in sorted(functions, key=str) if v == version))
                f.write(" };\n")
        command = ["cc", "-w", "-fno-builtin", "-shared", "-fPIC", "-O1", source, "-o", path]
        command.append("-Wl,-soname," + os.path.basename(path))
        if versions:
            command.append("-Wl,--version-script=" + script)
        code, _, said = run(*command)
        if code:
            raise Failure(f"the stand-in for {os.path.basename(path)} does not compile: {said.splitlines()[-1]}")


def write_stand_ins(folder):
    """For every NVIDIA library that PyTorch's own libraries need and that is not there. The driver, libcuda.so.1, is
    not: only a library that the CPU never loads needs it."""
    code, out, _ = run(python_of(folder), "-c", "import sysconfig; print(sysconfig.get_path('platlib'))")
    libraries = os.path.join(out.strip(), "torch", "lib")
    if code or not os.path.isdir(libraries):
        raise Failure("the installed PyTorch has no folder torch/lib")
    own = sorted(name for name in os.listdir(libraries) if re.fullmatch(r"lib.*\.so[.0-9]*", name))
    missing, versions, wanted, defined = set(), {}, set(), set()
    for path in (os.path.join(libraries, name) for name in own):
        missing.update(n for n in needed_libraries(path) if NVIDIA.match(n) and n not in own and n != "libcuda.so.1")
        for library, names in versions_by_library(path).items():
            versions.setdefault(library, set()).update(names)
        wanted.update(symbols(path, "--undefined-only"))
        defined.update(name for name, _ in symbols(path, "--defined-only"))
    plain = {(name, None) for name, version in wanted if not version and NVIDIA_FUNCTION.match(name)}
    plain = {(name, None) for name, _ in plain if name not in defined}
    for library in sorted(missing):
        of_versions = {pair for pair in wanted if pair[1] in versions.get(library, ())}
        write_stand_in(os.path.join(libraries, library), of_versions or plain)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    folder = os.path.abspath(sys.argv[1])
    try:
        version, _ = check(folder)
        if version:
            return
        make_environment(folder)
        try:
            install(folder)
            write_stand_ins(folder)
            version, reason = check(folder)
            if not version:
                raise Failure(f"the newest PyTorch does not work here: {reason}")
        except (Failure, OSError):
            shutil.rmtree(folder, ignore_errors=True)
            raise
        print(f"PyTorch {version} is installed in {folder}")
    except (Failure, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
