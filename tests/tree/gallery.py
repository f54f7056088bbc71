"""examples/README.md shows every example, and what it quotes of an output agrees with the example's .expected file.

A block begins with the command. Each line after it must match the next pattern of the .expected file; "..." in the block
skips any number of patterns, and "..." in the file must be skipped in the block. tests/support/run/run-example holds
the programs to the same patterns.
"""
# ctest: labels=once
import os
import pathlib
import re
import sys

folder = pathlib.Path(os.environ["HAUL_SOURCE"]) / "examples"
failures = []


def agree(quoted, patterns):
    """Whether the lines are an abridged form of an output that has these patterns."""
    if not quoted or not patterns:
        return not quoted and not patterns
    if quoted[0] == "...":
        return agree(quoted[1:], patterns) or agree(quoted, patterns[1:]) or (len(quoted) == 1)
    if patterns[0] == "...":
        return False
    return re.fullmatch(patterns[0], quoted[0]) is not None and agree(quoted[1:], patterns[1:])


def check_section(name, text):
    if f"[{name}.c]({name}.c)" not in text:
        failures.append(f"{name}: no link to {name}.c")
    block = re.search(r"^```text\n\$ build/examples/(\S+) ?(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE)
    if not block or block.group(1) != name:
        return failures.append(f"{name}: no block that begins with $ build/examples/{name}")
    expected = (folder / f"{name}.expected").read_text(encoding="utf-8").splitlines()
    calls = [line[len("#args "):] for line in expected if line.startswith("#args ")] or [""]
    if block.group(2) not in calls:
        failures.append(f"{name}: the arguments are '{block.group(2)}'; {name}.expected has {calls}")
    patterns = [line for line in expected if not line.startswith("#args ")]
    if not agree(block.group(3).splitlines(), patterns):
        failures.append(f"{name}: the quoted output does not agree with {name}.expected")


readme = (folder / "README.md").read_text(encoding="utf-8")
sections = dict(re.findall(r"^### (\S+)\n((?:(?!^##).*\n)*)", readme, re.MULTILINE))
programs = sorted(path.stem for path in folder.glob("*.c"))
contents = readme.split("\n## ")[0]
for name in sorted(set(programs) - set(sections)):
    failures.append(f"{name}: no section in examples/README.md")
for name, text in sections.items():
    if name not in programs:
        failures.append(f"{name}: there is no examples/{name}.c")
        continue
    if f"[{name}](#{name})" not in contents:
        failures.append(f"{name}: missing in the table of topics")
    check_section(name, text)
print("\n".join(failures) or f"{len(programs)} examples are shown as they are")
sys.exit(bool(failures))
