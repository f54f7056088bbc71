"""Every block of C in README.md and docs/*.md is compiled with warnings as errors and run. Those of CONTRIBUTING.md
are parts of files.

A block with a main() is a program. Any other is a piece: functions, types and preprocessor lines go to the top of a
program, the rest into its main(), inside a scope; at the end no error may be recorded. An HTML comment on the line
before a block changes that:
    <!-- snippet: continues -->   a piece that goes on from the one before it
    <!-- snippet: compile -->     is compiled and not run
    <!-- snippet: no -->          is neither; for what is not meant as a program
    <!-- snippet: is FILE -->     is neither, and must be what FILE contains after its first comment
    <!-- snippet: from FILE -->   is neither; its lines stand in FILE, with others where a line of it is just "..."
    <!-- snippet: prints -->      must print what the block of text after it shows; also "continues prints"
    <!-- snippet: stale prints --> the same, and uses an object that is gone, which sanitizers would report:
                                  with one it is compiled and not run
"""
# ctest: labels=once
import glob
import os
import re
import subprocess
import sys

build, source = os.environ["HAUL_BUILD"], os.environ["HAUL_SOURCE"]
top = """#include <haul/haul.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
"""


def blocks(path):
    """(line, words of the comment before it, code, the block of text that comes next) of each block of C."""
    lines = open(path, encoding="utf-8").read().splitlines()
    start = None
    for number, line in enumerate(lines, 1):
        if start is None and re.fullmatch(r"\s*```c", line):
            start = number
            before = lines[number - 2] if number > 1 else ""
            found = re.fullmatch(r"\s*<!-- snippet: (.*?) -->", before)
            words = found.group(1).split() if found else []
        elif start is not None and line.strip() == "```":
            yield start, words, lines[start:number - 1], text_after(lines, number)
            start = None


def text_after(lines, at):
    """The next block's lines, if it is one of text."""
    fences = [i for i in range(at, len(lines)) if lines[i].lstrip().startswith("```")]
    return lines[fences[0] + 1:fences[1]] if fences and lines[fences[0]].strip() == "```text" else []


def is_function(lines):
    """Whether a definition begins here: lines up to one that is just a brace, none of them empty or a statement."""
    for line in lines:
        if line == "{":
            return line is not lines[0]
        if not line or line.endswith(";") or re.match(r"(if|for|while|switch|do|else)\b", line):
            return False
    return False


def split(path, start, lines):
    """The lines of a piece that belong at file scope, and those of main()."""
    outside, inside = [], []
    at = 0
    while at < len(lines):
        line, end = lines[at], at
        place = outside
        if line.startswith("#"):
            while lines[end].endswith("\\") and end + 1 < len(lines):
                end += 1
        elif re.match(r"typedef\b|(struct|enum|union) \w+ \{", line):
            while end + 1 < len(lines) and not re.match(r"\S.*;", lines[end]):
                end += 1
        elif is_function(lines[at:]):
            while end + 1 < len(lines) and lines[end] != "}":
                end += 1
        else:
            place = inside
        place.append(f'#line {start + 1 + at} "{path}"')
        place += lines[at:end + 1]
        at = end + 1
    return outside, inside


def check(name, path, start, code, only_compile, wanted):
    with open(name + ".c", "w", encoding="utf-8") as file:
        file.write(code + "\n")
    sanitize = os.environ.get("HAUL_SANITIZE")
    command = [os.environ["HAUL_CC"], "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused",
               "-I", source + "/include", name + ".c", "-o", name, "-L", build, "-lhaul", "-lm",
               "-Wl,-rpath," + build]
    if sanitize:
        command.append("-fsanitize=" + sanitize)
    # ThreadSanitizer wants its usual addresses, as in the tests' own launcher.
    run = (["setarch", "-R"] if sanitize == "thread" else []) + ["./" + name]
    for step in [command] + ([] if only_compile else [run]):
        done = subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode:
            print(f"{path}:{start}: {'does not compile' if step is command else 'fails'}\n{done.stdout}")
            return False
    if wanted is not None and done.stdout.splitlines() != wanted:
        print(f"{path}:{start}: prints\n{done.stdout}and the text says\n" + "\n".join(wanted))
        return False
    return True


def is_file(path, start, code, name):
    with open(os.path.join(source, name), encoding="utf-8") as file:
        wanted = re.sub(r"\A/\*.*?\*/\n", "", file.read(), flags=re.DOTALL)
    if code + "\n" != wanted:
        print(f"{path}:{start}: differs from {name}")
    return code + "\n" == wanted


def is_from_file(path, start, lines, name):
    with open(os.path.join(source, name), encoding="utf-8") as file:
        text = file.read()
    parts = re.split(r"^\.\.\.\n", "\n".join(lines) + "\n", flags=re.MULTILINE)
    missing = [part for part in parts if part.strip("\n") and "\n" + part.strip("\n") + "\n" not in "\n" + text]
    for part in missing:
        print(f"{path}:{start}: these lines are not in {name}:\n{part}")
    return not missing


def main():
    failed = total = left = 0
    for path in ["README.md", "CONTRIBUTING.md"] + sorted(glob.glob("docs/*.md", root_dir=source)):
        outside, inside = [], []
        for start, words, lines, text in blocks(os.path.join(source, path)):
            if "no" in words:
                left += 1
                continue
            if "is" in words:
                total += 1
                failed += not is_file(path, start, "\n".join(lines), words[-1])
                continue
            if "from" in words:
                total += 1
                failed += not is_from_file(path, start, lines, words[-1])
                continue
            if any(re.search(r"\bmain\(", line) for line in lines):
                code = f'#line {start + 1} "{path}"\n' + "\n".join(lines)
            else:
                if "continues" not in words:
                    outside, inside = [], []
                more = split(path, start, lines)
                outside, inside = outside + more[0], inside + more[1]
                code = "\n".join([top] + outside + ["int main(void)", "{", "haul_scope *snippet = haul_scope_push();"] +
                                 inside + ["if (haul_error_status() != HAUL_OK) {", 'puts(haul_error_message());',
                                           "return 1;", "}", "haul_scope_pop(snippet);", "return 0;", "}"])
            total += 1
            stale = "stale" in words and bool(os.environ.get("HAUL_SANITIZE"))
            failed += not check(f"snippet{total}", path, start, code, "compile" in words or stale,
                                text if "prints" in words and not stale else None)
    print(f"{total} blocks, {failed} failed, {left} left out")
    return failed != 0


sys.exit(main())
