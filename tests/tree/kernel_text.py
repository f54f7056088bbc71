"""Kernel text is C that one can read: the macros in it are counted against the table of CONTRIBUTING.md, and the text of operations
names no compiler, no instruction set and nothing that belongs to a prelude.

A macro counts where kernel text defines it, or uses one of a prelude or of src/kernels. Guards of headers do not count."""
# ctest: labels=once
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ["HAUL_SOURCE"])
BEGIN, END = "/* kernel text begins */", "/* kernel text ends */"
SHARED = "src/kernels"
FOR_THE_HOST = ("kernels.h", "text.h", "types.h")
SHARED_FILES = [path for path in (SOURCE / SHARED).glob("*.h") if path.name not in FOR_THE_HOST] + [
    SOURCE / "include/haul/pointwise.def"]
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.S)
DEFINITION = re.compile(r"^[ ]*#[ ]*define[ ]+(\w+)", re.M)
OF_A_COMPILER = re.compile(r"\b(__\w+|_Pragma|asm)\b|#\s*pragma")
OF_A_PRELUDE = re.compile(r"\bhaul_(?!_)\w+|\bHAUL_(?!_|KERNEL\b|KERNEL_DTYPE_)\w+")
ROW = re.compile(r"^\| `([^`]+)` \| (\d+) \|$|^\| all \| (\d+) \|$", re.M)


def without_comments(text):
    return COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)


def regions(text):
    """The kernel text of a C file; other lines are empty, so that lines keep their numbers."""
    inside, lines = False, []
    for line in text.split("\n"):
        inside = inside and line.strip() != END or line.strip() == BEGIN
        lines.append(line if inside and line.strip() != BEGIN else "")
    return "\n".join(lines)


def without_guard(text):
    return re.sub(r"#ifndef (HAUL_\w+_H)\n([^\n]*\n)?#define \1\n", "\n\n", text)


def texts():
    """Kernel text by file: of operations and optimizers, and of what they include."""
    found = {}
    for path in sorted((SOURCE / "src").rglob("*.[ch]")):
        name, text = str(path.relative_to(SOURCE)), path.read_text()
        if name.startswith((SHARED + "/", "src/backends/")):
            continue
        if path.name.endswith("_kernel.h"):
            found[name] = without_guard(without_comments(text))
        elif BEGIN in text:
            found[name] = without_comments(regions(text))
    return found


def count(found):
    """Macros by file, and those of src/kernels and the preludes that any kernel text uses."""
    preludes = "\n".join(without_comments(path.read_text()) for path in sorted((SOURCE / "src/backends").glob("*/prelude.h")))
    shared = "\n".join(without_guard(without_comments(path.read_text())) for path in SHARED_FILES)
    own = {name: set(DEFINITION.findall(text)) for name, text in found.items()}
    of_all = set(DEFINITION.findall(preludes)) | set(DEFINITION.findall(shared))
    used = set(re.findall(r"\w+", shared + "\n".join(found.values()))) & of_all
    counts = {SHARED: len(used - set().union(*own.values()))}
    counts.update((name, len(names)) for name, names in own.items() if names)
    return counts


def check_table(counts):
    """The table has a row for each file with macros, and their sum."""
    table, total = {}, 0
    for name, macros, everything in ROW.findall((SOURCE / "CONTRIBUTING.md").read_text()):
        if everything:
            total = int(everything)
        else:
            table[name] = int(macros)
    wrong = []
    for name in sorted(set(table) | set(counts)):
        here, allowed = counts.get(name, 0), table.get(name, 0)
        if here > allowed:
            wrong.append(f"{name} has {here} macros; CONTRIBUTING.md allows {allowed}. Write an enum, a function or a template instead.")
        elif here < allowed:
            wrong.append(f"{name} has {here} macros: lower its row in CONTRIBUTING.md from {allowed}.")
    if total != sum(table.values()):
        wrong.append(f"the row `all` of CONTRIBUTING.md is {total}; the sum of the rows is {sum(table.values())}.")
    return wrong


def check_words(found):
    wrong = []
    for name, text in found.items():
        for number, line in enumerate(text.split("\n"), 1):
            word, owner = OF_A_COMPILER.search(line), "a compiler or a processor"
            if not word:
                word, owner = OF_A_PRELUDE.search(line), "a prelude"
            if word:
                wrong.append(f"{name}:{number}: `{word[0]}` is of {owner}. Text that needs it is in the folder of a backend.")
    return wrong


def main():
    found = texts()
    wrong = check_table(count(found)) + check_words(found)
    for line in wrong:
        print(line)
    return bool(wrong)


sys.exit(main())
