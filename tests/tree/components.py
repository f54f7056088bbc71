# Folders of src and of cli are components, and arrows between them point downwards: an object file uses symbols, and a
# source file includes headers, of its own component and of those below it. A folder that is not in the list belongs to
# the component of the folder around it. A declaration that is written down again hides an arrow from the reader, not from
# the linker, so the object files of the build are read. Private headers stay in their component. No folder of src, cli or
# tests has more than 30 files of its own.
# ctest: labels=once
import collections
import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["HAUL_SOURCE"])
BUILD = pathlib.Path(os.environ["HAUL_BUILD"])

# The components, lowest first (docs/architecture.md has the same list).
COMPONENTS = """
    base core files machine events kernels backends device program memory transfer group observe engine
    ops ops/index ops/normalise ops/loss ops/pool ops/matmul ops/recurrent ops/attention ops/linalg ops/fft ops/conv ops/image
    record host_access formats fetch autograd nn nn/layers nn/models onnx optim catalog train parallel data data/synthetic data/csv data/image data/loader plan/verify plan/memory plan plan/choose plan/graph plan/place plan/cluster
    cli/shared cli/options cli/model cli/run_folder cli/show cli/run cli/train cli/plan cli/record cli/compare cli/predict cli/profile cli/report cli/bench
    cli/top cli
""".split()
MOST_FILES = 30

# The state of a training: other subcommands see of it what cli/train/one_step.h and cli/train/planner.h show.
PRIVATE_HEADERS = ("cli/train/trainer.h",)


def component_of(path):
    """The component of .../src/ROOM/... or .../cli/ROOM/...; what the build generates is kernel text."""
    parts = pathlib.PurePath(path).parent.parts
    for i in reversed(range(len(parts))):
        if parts[i] == "generated":
            return "kernels"
        if parts[i] in ("src", "cli"):
            return innermost_component(parts[i + 1:] if parts[i] == "src" else parts[i:])
    return None


def innermost_component(parts):
    """The component of a folder: the longest listed path that leads to it, or the folder itself if there is none."""
    paths = ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((path for path in paths if path in COMPONENTS), "/".join(parts))


def symbols(objects, kind):
    """(file, symbol) of every external symbol that is "defined" or "undefined" in the objects."""
    out = subprocess.run(["nm", "-A", "-g", f"--{kind}-only", *map(str, objects)], check=True, capture_output=True,
                         text=True).stdout
    for line in out.splitlines():
        file, entry = line.rsplit(":", 1)
        yield file, entry.split()[-1]


def points_up(component, other):
    return COMPONENTS.index(other) > COMPONENTS.index(component)


def upward_symbols(objects):
    """(component, symbol, component where it is defined) -> the object files that use it."""
    home, arrows = {}, {}
    for file, symbol in symbols(objects, "defined"):
        home[symbol] = component_of(file)
    for file, symbol in symbols(objects, "undefined"):
        component, other = component_of(file), home.get(symbol)
        if other and points_up(component, other):
            arrows.setdefault((component, symbol, other), []).append(file)
    return arrows


def upward_includes(files):
    """(file, component) for each of the files, (path, text), that includes a header of a component above its own."""
    for path, text in files:
        for folder in re.findall(r'^\s*#\s*include\s+"([\w/]+)/\w+\.\w+"', text, re.M):
            other = innermost_component(folder.split("/"))
            if other in COMPONENTS and points_up(component_of(path), other):
                yield path, other


def private_includes(files):
    """(file, header) for each of the files, (path, text), that includes a private header of another component."""
    for path, text in files:
        for header in re.findall(r'^\s*#\s*include\s+"([\w/.]+)"', text, re.M):
            if header in PRIVATE_HEADERS and component_of(path) != component_of(header):
                yield path, header


def sources():
    for folder in ("src", "cli"):
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".def"):
                yield str(path.relative_to(SOURCE)), path.read_text()


def test_of_the_test():
    """An arrow that points upwards is found, in objects and in includes."""
    folder = pathlib.Path("CMakeFiles/src/core")
    folder.mkdir(parents=True)
    (folder / "upward.c").write_text("int haul_add(void);\nint upward(void) { return haul_add(); }\n")
    subprocess.run([os.environ["HAUL_CC"], "-c", "upward.c", "-o", "upward.o"], cwd=folder, check=True)
    arrows = upward_symbols([folder / "upward.o", *objects()])
    found = any(arrow[:2] == ("core", "haul_add") for arrow in arrows)
    included = list(upward_includes([("src/core/upward.c", '#include "engine/layout/layout.h"\n#include "core/shape.h"\n')]))
    many = [f"src/core/{i}.def" for i in range(MOST_FILES + 1)] + [f"tests/core/{i}" for i in range(MOST_FILES + 1)]
    most = [f"src/ops/{i}.c" for i in range(MOST_FILES)]
    if large_folders([*many, *most]) != [("src/core", MOST_FILES + 1), ("tests/core", MOST_FILES + 1)]:
        sys.exit("folders with too many files were made, and are not found")
    if component_of("src/data/image/png.c") != "data/image" or component_of("src/memory/report/failure.c") != "memory":
        sys.exit("a folder that is listed is not its own component, or one that is not listed is one")
    private = [("cli/plan/x.c", '#include "cli/train/trainer.h"\n'), ("cli/train/log/x.c", '#include "cli/train/trainer.h"\n')]
    if list(private_includes(private)) != [("cli/plan/x.c", "cli/train/trainer.h")]:
        sys.exit("a private header was included elsewhere, and is not found")
    if not found or included != [("src/core/upward.c", "engine")]:
        sys.exit("an arrow from core to a component above was made, and is not found")


def all_files():
    for folder in ("src", "cli", "tests"):
        yield from (str(path.relative_to(SOURCE)) for path in (SOURCE / folder).rglob("*") if path.is_file())


def large_folders(paths):
    """(folder, number of its own files) of the folders that have too many."""
    numbers = collections.Counter(str(pathlib.PurePath(path).parent) for path in paths)
    return sorted((folder, number) for folder, number in numbers.items() if number > MOST_FILES)


def objects():
    """The object files of the build whose sources are there still: a build folder keeps those of files that are gone."""
    for path in sorted(BUILD.glob("CMakeFiles/*.dir/**/*.o")):
        source = pathlib.PurePath(*path.relative_to(BUILD).parts[2:]).with_suffix("")
        if component_of(path.relative_to(BUILD)) and any((folder / source).exists() for folder in (SOURCE, BUILD)):
            yield path


def main():
    files = list(objects())
    if not files:
        sys.exit(f"there are no object files in {BUILD}")
    test_of_the_test()
    messages = []
    for (component, symbol, other), users in sorted(upward_symbols(files).items()):
        names = ", ".join(sorted({pathlib.PurePath(user).stem for user in users}))
        messages.append(f"{component} ({names}) uses {symbol} of {other}, which is above it")
    for path, other in upward_includes(sources()):
        messages.append(f"{path} includes a header of {other}, which is above it")
    messages += [f"{path} includes {header}, which is private to its component"
                 for path, header in private_includes(sources())]
    messages += [f"{folder} has {size} files, more than {MOST_FILES}" for folder, size in large_folders(all_files())]
    unknown = {component_of(path) for path, _ in sources()} - {None, *COMPONENTS}
    messages += [f"{component} is missing in the list of components" for component in sorted(unknown)]
    listed = re.findall(r"^([\w/]+) {2,}\S", (SOURCE / "docs/architecture.md").read_text(), re.M)
    if listed[::-1] != COMPONENTS:
        messages.append("docs/architecture.md lists other components, or in another order")
    for message in messages:
        print(message)
    sys.exit(1 if messages else 0)


main()
