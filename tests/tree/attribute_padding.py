"""Attributes of calls are compared byte by byte, so no struct in HAUL__ATTRIBUTES has padding: the compiler's -Wpadded
finds none in it, and none in the structs that it has as members."""
# ctest: labels=once
import concurrent.futures
import glob
import os
import re
import subprocess
import sys

source, build = os.environ["HAUL_SOURCE"], os.environ["HAUL_BUILD"]
COMPILER = [os.environ["HAUL_CC"], "-std=c11", "-D_GNU_SOURCE", "-I", source + "/include", "-I", source + "/src",
            "-I", build + "/generated", "-fsyntax-only", "-Wpadded"]
DEFINITION = re.compile(r"^typedef (?:struct|union|enum) \w+ \{([^{}]*)\} (\w+);", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
PADDED = re.compile(r"^(.+?):(\d+):\d+: warning: (padding .*)$", re.M)
SCALARS = {"double"}


def read(path):
    """The text with blank comments, in which lines stay where they are."""
    with open(path, encoding="utf-8") as file:
        return COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), file.read())


def definitions(path):
    """{name: (file, first line, last line, members)} of the types that a file defines."""
    text = read(path)
    return {m[2]: (path, text.count("\n", 0, m.start()) + 1, text.count("\n", 0, m.end()) + 1, m[1])
            for m in DEFINITION.finditer(text)}


def padding(path):
    """[(file, line, warning)] for the structs that a file sees."""
    done = subprocess.run(COMPILER + [path], capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    if done.returncode:
        sys.exit(f"{path} does not compile:\n{done.stderr}")
    return [(os.path.realpath(m[1]), int(m[2]), m[3]) for m in PADDED.finditer(done.stderr)]


def with_members(name, known, found):
    """Adds the type and those of its members to `found`."""
    if name in known and name not in found:
        found[name] = known[name]
        for word in re.findall(r"\w+", known[name][3]):
            with_members(word, known, found)
    return found


def faults(path, common):
    """The faults of the attributes of a file's operations, and how many types they have."""
    known = dict(common, **definitions(path))
    types = set(re.findall(r"HAUL__ATTRIBUTES\((\w+)\)", read(path))) - SCALARS
    said = [f"{path}: no definition of {name} is found" for name in sorted(types - set(known))]
    padded = padding(path)
    for name in sorted(types & set(known)):
        for part, (file, first, last, _) in with_members(name, known, {}).items():
            said += [f"{file}:{line}: {part} in the attributes {name}: {what}"
                     for at, line, what in padded if at == os.path.realpath(file) and first <= line <= last]
    return said, len(types)


def check_compiler():
    with open("padded.c", "w", encoding="utf-8") as file:
        file.write("typedef struct padded {\n    char a;\n    int b;\n} padded;\nextern char unused[sizeof(padded)];\n")
    if len(padding("padded.c")) != 1:
        print("skipped: the compiler does not warn of padding")
        sys.exit(77)


def main():
    check_compiler()
    common = {}
    for folder in ("include/haul", "src"):
        for header in glob.glob(f"{source}/{folder}/**/*.h", recursive=True):
            common.update(definitions(header))
    files = [path for path in sorted(glob.glob(source + "/src/**/*.c", recursive=True))
             if "HAUL__ATTRIBUTES(" in read(path)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda path: faults(path, common), files))
    said = [line for lines, _ in results for line in lines]
    print("\n".join(said))
    print(f"{sum(count for _, count in results)} types of attributes in {len(files)} files: {len(said)} faults")
    return bool(said) or not files


sys.exit(main())
