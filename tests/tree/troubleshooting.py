"""The messages that docs/troubleshooting.md quotes are those of the sources.

Each line of a block of text, and each message in a table of the chapter on devices, must be made by a format of the
sources: a string of C, or a line of CMake or a shell script, with anything in the place of %s and its kind. A comment
"from: NAME" before a block marks messages of other programs.
"""
# ctest: labels=once
import os
import pathlib
import re
import sys

source = pathlib.Path(os.environ["HAUL_SOURCE"])
LEAST = 12  # letters that a format must have besides its fields
ENOUGH = 0.35  # share of the letters of a message that formats have; the rest are names, numbers and causes


def strings_of_c(text):
    """The strings of a file, those that follow one another joined, as the compiler does."""
    one = r'"((?:[^"\\\n]|\\.)*)"'
    for group in re.finditer(rf"{one}(?:\s*{one})*", text):
        joined = "".join(re.findall(one, group.group(0)))
        yield joined.replace('\\"', '"').replace("\\n", "").replace("\\\\", "\\")


def formats():
    for folder in ("src", "cli"):
        for path in sorted((source / folder).rglob("*.*")):
            yield from strings_of_c(path.read_text(encoding="utf-8"))
    for path in [source / "Makefile", source / "CMakeLists.txt", *sorted((source / "cmake").glob("*.cmake"))]:
        yield from strings_of_c(path.read_text(encoding="utf-8"))


def pattern_of(text):
    """A regular expression for what the format prints, its fixed parts in groups; None if it has too few letters."""
    parts = re.split(r"%(?:%|[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z|j|t|L)?[diouxXeEfgGcsp])", text.lstrip(": "))
    parts = [part for part in parts if part]  # a search for .*?.*?.*? would take minutes
    if len(re.findall(r"[A-Za-z]", "".join(parts))) < LEAST:
        return None
    return re.compile(".*?".join(f"({re.escape(part)})" for part in parts), re.DOTALL)


def quoted():
    text = (source / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    for comment, block in re.findall(r"(<!-- from: \w+ -->\n)?```text\n(.*?)```", text, re.DOTALL):
        if not comment:
            yield from block.splitlines()
    chapter = text[text.index("\n## Devices"):text.index("\n## Data")]
    yield from re.findall(r"^\| `(.+?)` \|", chapter, re.MULTILINE)


def share_found(line, patterns):
    """How much of the line the fixed parts of formats cover: some messages are made of several."""
    line = re.sub(r"^haul_\w+: ", "", line)  # the operation, which is put before its message
    covered = set()
    for pattern in patterns:
        found = pattern.search(line)
        if found:
            for group in range(1, pattern.groups + 1):
                covered.update(range(*found.span(group)))
    letters = [i for i, c in enumerate(line) if c.isalpha()]
    return len(covered.intersection(letters)) / len(letters)


patterns = [p for p in map(pattern_of, set(formats())) if p]
lines = list(quoted())
failures = [line for line in lines if share_found(line, patterns) < ENOUGH]
for line in failures:
    print(f"docs/troubleshooting.md: nothing in the sources prints: {line}")
print(f"{len(lines)} messages, {len(failures)} not in the sources")
sys.exit(bool(failures) or not lines)
