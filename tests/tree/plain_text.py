"""The text of the library does not depend on the locale of the program: src/base/text/plain.c alone formats floating-point
numbers and reads them, and src/base/text/ascii.h knows letters. The command may use the C library, because it never sets
LC_NUMERIC."""
import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["HAUL_SOURCE"])
PLAIN = "src/base/text/plain.c"
# The words and what to use instead. They stand nowhere in src but in plain.c.
WORDS = {
    r"v[sfd]?n?printf|vasprintf": "haul__vsnprintf",
    r"strto(?:d|f|ld)(?:_l)?|atof": "haul__strtod",
    r"strerror(?:_r|_l)?|perror": "haul__strerror",
    r"is(?:alpha|alnum|digit|space|upper|lower|punct|print|cntrl|xdigit)|to(?:upper|lower)|strn?casecmp|strn?coll|strxfrm":
        "src/base/text/ascii.h",
    r"setlocale|newlocale|uselocale|localeconv": "src/base/text/plain.h",
    r"strftime|wcwidth|mbr?towc|mbs?r?towcs|wc[rs]+tombs?": "a text of its own",
}
FLOAT = re.compile(r"%[-+ #0']*(?:\*|\d*)(?:\.(?:\*|\d*))?L?[aefgAEFG]")
CALL = re.compile(r"(?<![\w>.])(snprintf|sprintf|fprintf|printf|dprintf|asprintf|fscanf|sscanf|scanf)\(")
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
failures = []


def refuse(path, text, at, what):
    failures.append(f"{path}:{text.count(chr(10), 0, at) + 1}: {what}")


def without_comments(text):
    """Comments become blanks; literals and line numbers stay."""
    pattern = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|//[^\n]*|/\*.*?\*/', re.S)
    return pattern.sub(lambda m: m[0] if m[0][0] in "\"'" else re.sub(r"[^\n]", " ", m[0]), text)


def arguments(text, at):
    """The text between the bracket before `at` and the one that closes it."""
    depth, end = 1, at
    while depth and end < len(text):
        literal = LITERAL.match(text, end)
        if literal:
            end = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[at:end - 1]


def check_library(path, text):
    for word, instead in WORDS.items():
        for match in re.finditer(rf"(?<![\w>.])(?:{word})\(", text):
            refuse(path, text, match.start(), f"{match[0]}...) depends on the locale; use {instead}")
    for match in CALL.finditer(text):
        literals = LITERAL.findall(arguments(text, match.end()))
        if not literals:
            refuse(path, text, match.start(), f"{match[1]} with a format from elsewhere; use haul__snprintf")
        elif any(FLOAT.search(part.replace("%%", "")) for part in literals):
            refuse(path, text, match.start(), f"{match[1]} of a floating-point number; use haul__snprintf")


def check_command(path, text):
    for match in re.finditer(r"\b(setlocale|uselocale)\(([^,)]*)", text):
        if match[1] != "setlocale" or match[2] != "LC_CTYPE":
            refuse(path, text, match.start(), "the command sets LC_CTYPE only: numbers have a point")


# the check itself can fail
for sample, wrong in (('snprintf(a, 9, "%.2f", x)', 1), ('snprintf(a, 9, "%d%%g", x)', 0), ("snprintf(a, 9, f, x)", 1),
                      ('haul__snprintf(a, 9, "%g", x)', 0), ("strtod(a, 0)", 1), ("haul__strtod(a, 0)", 0),
                      ("tolower(c)", 1), ("a->isalpha(c)", 0), ('printf("(%" PRId64 ") %*.*e", 1)', 1)):
    check_library("sample", sample)
    assert len(failures) == wrong, sample
    failures.clear()

count = 0
for path in sorted([*SOURCE.glob("src/**/*.[ch]"), *SOURCE.glob("cli/**/*.[ch]")]):
    name = str(path.relative_to(SOURCE))
    content = without_comments(path.read_text(encoding="utf-8"))
    count += 1
    if name.startswith("cli/"):
        check_command(name, content)
    elif name != PLAIN:
        check_library(name, content)
print("\n".join(failures) or f"{count} files")
raise SystemExit(bool(failures) or count < 300)
