"""The documents: every relative link leads to a file that exists, every anchor to a heading of that file, and
every path in backticks to a file, but in documents about former versions. The rows of a table have as many cells as its
head, and prose has at most 120 columns. Blocks of code, tables and lines of HTML may be
longer. The test first checks that it finds mistakes in a small tree of its own."""
# ctest: labels=once
import os
import pathlib
import re
import sys
import tempfile

COLUMNS = 120
NAMED = re.compile(r"""`((?:cli|src|tests|tools|cmake|include|bench|fuzz|examples|docs)/
    [\w./-]*\.(?:c|h|def|py|sh|md|cmake))`""", re.X)
FORMER = ("CHANGELOG.md", "docs/migration.md")  # they name files as they were


def lines_of(path):
    """The lines outside of blocks of code, with their numbers."""
    fence = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = re.match(r" *(```+|~~~+)", line)
        if fence is None and not mark:
            yield number, line
        elif fence is None:
            fence = mark[1]
        elif mark and line.strip() == fence:
            fence = None


def anchors(path):
    """As GitHub makes them: lower case, punctuation dropped, spaces to hyphens, and a number for repeated ones."""
    found, seen = set(), {}
    for _, line in lines_of(path):
        heading = re.fullmatch(r"#+ +(.*?) *#*", line)
        if heading:
            text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading[1])
            name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.add(f"{name}-{seen[name]}" if name in seen else name)
            seen[name] = seen.get(name, 0) + 1
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', path.read_text(encoding="utf-8")))


def links(path):
    """(line, target) of each link. The text of a link may be broken over two lines, its target may not."""
    for number, line in lines_of(path):
        text = re.sub(r"`[^`]*`", "", line)
        for form in (r"\]\(\s*<?([^)\s>]+)", r"^ *\[[^\]]+\]: +(\S+)", r'(?:src|href)="([^"]+)"'):
            for target in re.findall(form, text):
                yield number, target


def wrong_link(root, path, target):
    """What is wrong with a relative link; "" if nothing is."""
    if re.match(r"[a-z]+:", target):
        return ""
    name, _, anchor = target.partition("#")
    file = (path.parent / name).resolve() if name else path
    if not file.exists() or not file.is_relative_to(root.resolve()):
        return f"{target} leads to no file of the project"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return f"{target}: {file.name} has no heading #{anchor}"
    return ""


def missing_files(root, path):
    """(line, name) of each file that is named in backticks, from the root of the project, and does not exist. Capital
    letters stand for any name."""
    for number, line in lines_of(path):
        for name in NAMED.findall(line):
            if not re.search(r"\b[A-Z]+\b", name.removesuffix(".md")) and not (root / name).exists():
                yield number, name


def is_too_long(line):
    """Tables stay whole; a line without spaces, such as a long address, cannot be wrapped."""
    return len(line) > COLUMNS and not re.match(r"\s*[|<]", line) and len(line.split()) > 1


def torn_rows(path):
    """(line, cells, cells of the head) of rows that differ. A | within code separates cells, too, unless it is \\|."""
    head = None
    for number, line in lines_of(path):
        if not line.lstrip().startswith("|"):
            head = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", line.strip().removesuffix("|")))
        head = head or cells
        if cells != head:
            yield number, cells, head


def check(root):
    """(number of documents, number of links, mistakes)"""
    mistakes, count = [], 0
    hidden = re.compile(r"(\.|build)")
    documents = []
    for folder, folders, files in os.walk(root):  # other tests make and remove build folders meanwhile
        folders[:] = [name for name in folders if not hidden.match(name)]
        documents += [pathlib.Path(folder, name) for name in files if name.endswith(".md") and not hidden.match(name)]
    documents.sort()
    for path in documents:
        where = path.relative_to(root)
        for number, target in links(path):
            count += 1
            wrong = wrong_link(root, path, target)
            mistakes += [f"{where}:{number}: {wrong}"] if wrong else []
        for number, name in missing_files(root, path) if str(where) not in FORMER else ():
            mistakes.append(f"{where}:{number}: there is no file {name}")
        for number, cells, head in torn_rows(path):
            mistakes.append(f"{where}:{number}: {cells} cells; the head of the table has {head}")
        for number, line in lines_of(path):
            if is_too_long(line):
                mistakes.append(f"{where}:{number}: {len(line)} columns; at most {COLUMNS} are expected")
    return len(documents), count, mistakes


def finds_mistakes():
    """The check finds what is wrong, and nothing else, in a small tree."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs").mkdir()
        text = "# A `code` [link](../a.md), twice\n# Same\n# Same\n```\n# no heading\n```\n"
        (root / "docs" / "b.md").write_text(text)
        good = ["[b](docs/b.md)", "[b](docs/b.md#a-code-link-twice)", "[b](docs/b.md#same-1)", "[web](https://a.b/c#d)",
                "`[code](nothing)`", "| a | b |", "|---|---|", "| " + "cell " * 30 + "| `a\\|b` |", "", "a" * 200,
                "[this](#top)", "# Top", "`docs/b.md`, `src/FOLDER/test_NAME.c`, `docs/c d.md`"]
        bad = ["[x](docs/x.md)", "[b](docs/b.md#no-heading)", "[b](docs/b.md#same-2)", "[this](#nothing)",
               '<a href="docs/y.md">y</a>', "[out](../../etc)", "[ref]: docs/z.md", "word " * 25, "`src/gone.c`",
               "| a | b |\n| 1 | `2|3` |"]
        (root / "a.md").write_text("\n".join(good) + "\n")
        if check(root) != (2, 6, []):
            return False
        for line in bad:
            (root / "a.md").write_text("\n".join(good + [line]) + "\n")
            if len(check(root)[2]) != 1:
                print(f"not found: {line}")
                return False
    return True


def main():
    if not finds_mistakes():
        print("this test misses mistakes, or finds some where there are none")
        return 1
    documents, count, mistakes = check(pathlib.Path(os.environ["HAUL_SOURCE"]))
    print("\n".join(mistakes) or f"{documents} documents, {count} links")
    return bool(mistakes) or not count


sys.exit(main())
