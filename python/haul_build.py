"""Builds the wheel, for pip and other front ends (PEP 517), or as `python3 python/haul_build.py FOLDER`.

The extension is the CMake target haul_python. $HAUL_PYTHON_BUILD names a build folder to use, whose objects are not
compiled again; without it this is build-python."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TAG = "cp311-abi3-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def version():
    """The version of the library, as Python writes versions: 0.2.0-dev is 0.2.0.dev0."""
    with open(os.path.join(ROOT, "include", "haul", "base.h"), encoding="utf-8") as f:
        return re.search(r'HAUL_VERSION_STRING "(.*)"', f.read())[1].replace("-dev", ".dev0")


def cmake(*arguments):
    print("+ cmake", *arguments, file=sys.stderr, flush=True)
    try:
        subprocess.run(["cmake", *arguments], check=True, stdout=sys.stderr)
    except FileNotFoundError:
        sys.exit("haul: building the Python package needs CMake and a C compiler: tools/setup installs them")
    except subprocess.CalledProcessError:
        sys.exit("haul: the build failed; see the lines above")


def build_extension():
    """The folder with the package."""
    folder = os.environ.get("HAUL_PYTHON_BUILD") or os.path.join(ROOT, "build-python")
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        sys.exit(f"Python.h is not in {sysconfig.get_path('include')}: install Python's headers, on Debian and Ubuntu with "
                 "apt-get install python3-dev")
    options = [f"-DHAUL_PYTHON_INCLUDE={sysconfig.get_path('include')}", f"-DHAUL_PYTHON3={sys.executable}"]
    if not os.path.exists(os.path.join(folder, "CMakeCache.txt")):
        options += ["-DCMAKE_BUILD_TYPE=Release", "-DHAUL_COMMAND=OFF", "-DHAUL_TESTS=OFF", "-DHAUL_BENCH=OFF", "-DHAUL_EXAMPLES=OFF"]
        cmake("-S", ROOT, "-B", folder, *options)
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
    cmake("--build", folder, "--target", "haul_python", "--parallel", jobs)
    return os.path.join(folder, "python", "haul")


def metadata():
    lines = ["Metadata-Version: 2.1", "Name: haul", f"Version: {version()}",
             "Summary: Tensors on CPUs and GPUs: the C library Haul with its interface for Python",
             "Requires-Python: >=3.11", "Description-Content-Type: text/markdown", "", ""]
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as f:
        return "\n".join(lines) + f.read()


def write_wheel(folder, package):
    """The wheel; its bytes depend on the files only."""
    name = f"haul-{version()}-{TAG}.whl"
    info = f"haul-{version()}.dist-info"
    files = []
    for place, folders, names in os.walk(package):
        folders.sort()
        for file in sorted(names):
            if file.endswith((".py", ".pyi", ".so", ".h", ".def")) or file == "py.typed":
                path = os.path.join(place, file)
                with open(path, "rb") as f:
                    files.append((f"haul/{os.path.relpath(path, package)}", f.read()))
    wheel = f"Wheel-Version: 1.0\nGenerator: haul_build\nRoot-Is-Purelib: false\nTag: {TAG}\n"
    files += [(f"{info}/METADATA", metadata().encode()), (f"{info}/WHEEL", wheel.encode())]
    record = ""
    for path, content in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode()))
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files:
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if path.endswith(".so") else 0o644) << 16
            archive.writestr(entry, content)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, build_extension())


def build_sdist(sdist_directory, config_settings=None):
    """The files that git knows, as a source archive."""
    base = f"haul-{version()}"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode()
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz") as archive:
        for path in sorted(filter(None, listed.split("\0"))):
            archive.add(os.path.join(ROOT, path), f"{base}/{path}", recursive=False)
    return base + ".tar.gz"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    print(os.path.join(sys.argv[1], build_wheel(sys.argv[1])))
