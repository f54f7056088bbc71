"""Reads a public header: its comments and what they describe, in the order of the file.

This is no C parser. It knows the few forms that the headers of Haul have (CONTRIBUTING.md): functions marked HAUL_API,
macros, structs, enums, function types and lists of X(...) rows. C++ sections are skipped. Names with two underscores
after the prefix are private.
"""

import re
from dataclasses import dataclass, field


@dataclass
class Comment:
    """A comment's text without its stars. `line` is where it begins."""

    text: str
    line: int


@dataclass
class Member:
    """A parameter, a field of a struct or a constant of an enum."""

    name: str
    type: str = ""
    text: str = ""
    value: str = ""
    array: str = ""
    positional: bool = False


@dataclass
class Item:
    """One declaration or macro. `comment` stands before it and may be shared; `note` is behind it."""

    kind: str  # function, macro, struct, enum, type, object, operation
    name: str
    line: int
    comment: Comment = None
    note: str = ""
    returns: str = ""
    members: list = field(default_factory=list)
    body: str = ""
    signature: str = ""
    row: dict = None


@dataclass
class Section:
    """A part of a header that begins with a comment "---- Title: lead ----"."""

    title: str
    comment: Comment
    items: list = field(default_factory=list)


@dataclass
class Header:
    name: str
    intro: Comment = None
    sections: list = field(default_factory=list)

    @property
    def items(self):
        return [item for section in self.sections for item in section.items]


class HeaderError(Exception):
    pass


def clean_comment(raw):
    """The text of a /* comment */ without its stars, with its indentation."""
    lines = raw[2:-2].split("\n")
    out = [lines[0].strip()]
    for line in lines[1:]:
        line = re.sub(r"^\s*\* ?", "", line) if re.match(r"^\s*\*", line) else line.strip()
        out.append(line.rstrip())
    return "\n".join(out).strip("\n").rstrip()


def strip_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def is_private(name):
    return not re.match(r"(haul|HAUL)_(?!_)", name)


def split_top(text, separator=","):
    """Split at separators outside of brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote and text[i - 1] != "\\" else quote
        elif c in "\"'":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return parts


def condition(line, outer):
    """Is the section of this #if, #ifdef or #ifndef part of the C interface?"""
    words = line.split(None, 1)
    rest = words[1] if len(words) > 1 else ""
    if not outer:
        return False
    if "__cplusplus" in rest:
        return words[0] == "#ifndef" or "!defined(__cplusplus)" in rest
    return True


class Scanner:
    """Cuts a header into comments, directives and statements."""

    def __init__(self, name, text):
        self.name, self.text, self.at = name, text, 0
        self.active = [True]

    def line(self, at=None):
        return self.text.count("\n", 0, self.at if at is None else at) + 1

    def fail(self, message):
        raise HeaderError(f"{self.name}:{self.line()}: {message}")

    def comment(self):
        end = self.text.find("*/", self.at)
        if end < 0:
            self.fail("a comment does not end")
        raw = self.text[self.at : end + 2]
        self.at = end + 2
        return raw

    def directive(self):
        """The directive with its continuation lines joined; a comment behind it stays in the text."""
        end = self.at
        while True:
            newline = self.text.find("\n", end)
            newline = len(self.text) if newline < 0 else newline
            if not self.text[:newline].endswith("\\"):
                break
            end = newline + 1
        comment = self.text.find("/*", self.at, newline)
        if comment >= 0:
            newline = comment
        raw = self.text[self.at : newline]
        self.at = newline
        return squeeze(raw.replace("\\\n", " "))

    def statement(self):
        """Up to the semicolon outside of brackets, comments included."""
        depth, at = 0, self.at
        while at < len(self.text):
            if self.text.startswith("/*", at):
                at = self.text.find("*/", at) + 2
                continue
            c = self.text[at]
            if c in "({":
                depth += 1
            elif c in ")}":
                depth -= 1
                if c == "}" and depth == 0 and self.text.startswith("static inline", self.at):
                    break
            elif c == ";" and depth == 0:
                break
            at += 1
        else:
            self.fail("a declaration does not end")
        raw = self.text[self.at : at]
        self.at = at + 1
        return raw

    def pieces(self):
        """Yields (what, text, line, same_line): "blank", "comment", "directive" or "statement"."""
        last_end = -1
        while True:
            space = re.compile(r"[ \t\n]*").match(self.text, self.at).group()
            if space.count("\n") > 1:
                yield "blank", "", self.line(), False
            self.at += len(space)
            if self.at >= len(self.text):
                return
            line, same = self.line(), "\n" not in space and last_end >= 0
            if self.text.startswith("//", self.at):
                self.at = self.text.find("\n", self.at)
                continue
            if self.text.startswith("/*", self.at):
                raw = self.comment()
                if self.active[-1]:
                    yield "comment", raw, line, same
            elif self.text[self.at] == "#":
                text = re.sub(r"^#\s+", "#", self.directive())
                if self.conditional(text) and self.active[-1]:
                    yield "directive", text, line, same
            elif not self.active[-1]:
                newline = self.text.find("\n", self.at)
                self.at = len(self.text) if newline < 0 else newline
            else:
                word = re.compile(r"HAUL_(BEGIN|END)\b").match(self.text, self.at)
                if word:
                    self.at = word.end()
                    yield "blank", "", line, False
                else:
                    yield "statement", self.statement(), line, same
            last_end = self.at

    def conditional(self, text):
        """Follow #if ... #endif; true for any other directive."""
        if text.startswith("#if"):
            self.active.append(condition(text, self.active[-1]))
        elif text.startswith("#else"):
            outer = self.active[-2]
            self.active[-1] = outer and not self.active[-1]
        elif text.startswith("#elif"):
            self.active[-1] = False
        elif text.startswith("#endif"):
            self.active.pop()
        else:
            return True
        return False


def declarators(code):
    """[(name, type, array)] of a declaration of one or more variables, fields or parameters."""
    code = squeeze(code)
    function = re.match(r"^(.*?)\(\s*\*\s*(\w+)\s*\)\s*\((.*)\)$", code)
    if function:
        return [(function[2], f"{function[1].strip()} (*)({squeeze(function[3])})", "")]
    parts = split_top(code)
    first = re.match(r"^(.*?)([*\s]*(?:const\s+)?)(\w+)\s*((?:\[[^\]]*\])*)$", parts[0].strip())
    if not first:
        return []
    base, out = first[1].strip(), [(first[3], join_type(first[1].strip(), first[2]), first[4])]
    for part in parts[1:]:
        more = re.match(r"^([*\s]*(?:const\s+)?)(\w+)\s*((?:\[[^\]]*\])*)$", part.strip())
        if more:
            out.append((more[2], join_type(base, more[1]), more[3]))
    return out


def join_type(base, stars):
    stars = stars.replace(" ", "")
    stars = stars.replace("const", "const ").strip()
    return f"{base} {stars}" if stars else base


def parameters(text):
    text = squeeze(strip_comments(text))
    if text in ("", "void"):
        return []
    out = []
    for part in split_top(text):
        part = part.strip()
        if part == "...":
            out.append(Member("...", "..."))
            continue
        found = declarators(part)
        name, kind, array = found[0] if found else (part, "", "")
        out.append(Member(name, kind, array=array))
    return out


def distribute(text, names):
    """One comment for several names may be "first: ...; second: ...": the part of each, or the whole for all."""
    marks = [(m.start(), m.end(), m[1]) for m in re.finditer(r"(?<![\w.])(\w+): ", text) if m[1] in names]
    if len(names) < 2 or {m[2] for m in marks} != set(names):
        return {name: text for name in names}
    out = {}
    for k, (_, end, name) in enumerate(marks):
        stop = marks[k + 1][0] if k + 1 < len(marks) else len(text)
        out[name] = text[end:stop].strip().rstrip(";")
    return out


def fields(body):
    """The fields of a struct. A comment behind the field describes it, or one on the lines before it."""
    out, pending, last = [], "", []
    pieces = re.compile(r"/\*.*?\*/|#[^\n]*|[^;/#]+;|HAUL__GUARD\(\w+\)|\n\s*\n", re.S)
    after_newline = True
    for match in pieces.finditer(re.sub(r"\bHAUL__GUARD\(\w+\)", "", body)):
        text = match.group()
        if text.startswith("/*"):
            note = squeeze(clean_comment(text))
            newline = "\n" in body_between(match, last)
            if last and not newline and not last[0].text:
                describe(last, note)
            else:
                pending = note
            continue
        if text.startswith("#") or not text.strip():
            continue
        found = [Member(n, t, array=a) for n, t, a in declarators(text.strip().rstrip(";"))]
        found = [m for m in found if "haul__" not in m.name or m.name in ("haul__axes", "haul__pads")]
        for member in found:
            member.end = match.end()
        if pending:
            describe(found, pending)
            pending = ""
        out += found
        last = found
    return out


def body_between(match, last):
    return match.string[last[0].end : match.start()] if last else "\n"


def describe(members, note):
    notes = distribute(note, [m.name for m in members])
    for member in members:
        text = notes[member.name]
        member.positional = bool(re.search(r"\bpositional\b", text))
        member.text = squeeze(re.sub(r"(; |^)?\bpositional\b(; )?", lambda m: "; " if m[1] and m[2] else "", text))


def constants(body, lists):
    """The constants of an enum: its own, and those of the X(...) rows that it includes."""
    out, template, parameter_names = [], "", []
    for raw in re.split(r"\n", re.sub(r"\\\n", " ", body)):
        line = raw.strip()
        define = re.match(r"#define X\(([^)]*)\)\s*(.*)$", line)
        if define:
            parameter_names = [p.strip() for p in define[1].split(",")]
            template = define[2].rstrip(", ")
        for rows in re.findall(r"^(\w+_LIST)\(X\)", line):
            for row in lists.get(rows, []):
                out.append(expand(template, dict(zip(parameter_names, row)), row))
    plain = re.sub(r"^\s*(#.*|\w+_LIST\(X\).*)$", "", re.sub(r"\\\n", " ", body), flags=re.M)
    last = None
    for match in re.finditer(r"/\*.*?\*/|(\w+)\s*(?:=\s*((?:[^,/(]|\([^)]*\))*))?,?", plain, re.S):
        if match.group().startswith("/*"):
            if last is not None and not last.text:
                last.text = squeeze(clean_comment(match.group()))
        else:
            last = Member(match[1], value=squeeze(match[2] or ""))
            out.append(last)
    return [m for m in out if not is_private(m.name)]


def expand(template, values, row):
    name, _, value = template.partition("=")
    for key, text in values.items():
        name = re.sub(rf"(##)?\b{key}\b(##)?", text, name)
        value = re.sub(rf"\b{key}\b", text, value)
    text = row[-1].strip('"') if row[-1].startswith('"') else ""
    return Member(name.replace("##", "").strip(), value=value.strip(), text=text)


def x_rows(body):
    return [
        [squeeze(p) for p in split_top(row[1:-1])]
        for row in re.findall(r"\bX(\((?:[^()\"]|\"[^\"]*\")*\))", body)
        if "," in row
    ]


class Reader:
    """Makes the items of one header from its pieces."""

    def __init__(self, name, text):
        self.header = Header(name)
        self.section = Section("", None)
        self.header.sections.append(self.section)
        self.scanner = Scanner(name, text)
        self.lists = {}
        self.leading = None
        self.last = []
        self.undefined = set()

    def read(self):
        for what, text, line, same in self.scanner.pieces():
            getattr(self, "see_" + what)(text, line, same)
        for section in self.header.sections:
            section.items = [i for i in section.items if i.name not in self.undefined]
        return self.header

    def see_blank(self, text, line, same):
        self.leading, self.last = None, []

    def see_comment(self, raw, line, same):
        text = clean_comment(raw)
        if same and self.last:
            for item in self.last:
                item.note = squeeze(text)
            return
        comment = Comment(text, line)
        if self.header.intro is None:
            self.header.intro = comment
            return
        title = re.match(r"^---- (.*?) ----(?:\n|$)", text)
        if title:
            self.section = Section(title[1], Comment(text[title.end() :].strip("\n"), line))
            self.header.sections.append(self.section)
        else:
            self.leading = comment

    def add(self, item):
        item.comment = self.leading
        self.section.items.append(item)
        self.last = [item]

    def see_directive(self, text, line, same):
        undefined = re.match(r"#undef (\w+)", text)
        if undefined:
            self.undefined.add(undefined[1])
        define = re.match(r"#define (\w+)(\([^)]*\))?\s*(.*)$", text)
        if not define:
            return
        name, params, body = define[1], define[2], define[3]
        if name.endswith("_LIST"):
            self.lists[name] = x_rows(body)
        self.last = []
        if is_private(name) or (params is None and not body) or name in INFRASTRUCTURE:
            return
        members = [Member(p.strip()) for p in params[1:-1].split(",")] if params else []
        self.add(Item("macro", name, line, members=members, body=body, signature=name + (params or "")))

    def see_statement(self, raw, line, same):
        code = squeeze(strip_comments(raw))
        self.last = []
        for reader in (self.struct, self.enum, self.function_type, self.opaque, self.function, self.object):
            if reader(code, raw, line):
                return

    def struct(self, code, raw, line):
        match = re.match(r"^typedef struct (?:HAUL__DESIGNATED )?\w+ ?\{.*\} ?(\w+)$", code)
        if not match:
            return False
        if not is_private(match[1]):
            body = raw[raw.index("{") + 1 : raw.rindex("}")]
            self.add(Item("struct", match[1], line, members=fields(body), signature=f"struct {match[1]}"))
        return True

    def enum(self, code, raw, line):
        match = re.match(r"^(typedef )?enum ?\w* ?\{.*\} ?(\w*)$", code, re.S)
        if not match:
            return False
        members = constants(raw[raw.index("{") + 1 : raw.rindex("}")], self.lists)
        name = match[2] or (members[0].name if members else "")
        if name:
            self.add(Item("enum", name, line, members=members, signature=f"enum {match[2]}".strip()))
        return True

    def function_type(self, code, raw, line):
        match = re.match(r"^typedef ((?!struct \w+ \w+$)[\w *]+?[ *])(\w+)\((.*)\)$", code)
        if not match:
            return False
        if not is_private(match[2]):
            self.add(
                Item(
                    "type",
                    match[2],
                    line,
                    returns=match[1].strip(),
                    members=parameters(match[3]),
                    signature=f"{match[1]}{match[2]}({match[3]})",
                )
            )
        return True

    def opaque(self, code, raw, line):
        match = re.match(r"^typedef struct \w+ (\w+)$", code)
        if not match:
            return False
        if not is_private(match[1]):
            self.add(Item("type", match[1], line, signature=f"struct {match[1]}"))
        return True

    def function(self, code, raw, line):
        match = re.match(r"^HAUL_API (.*?)(\w+)\((.*?)\)( HAUL_PRINTF\(.*\))?$", code)
        if not match:
            return False
        if not is_private(match[2]):
            returns = match[1].strip()
            self.add(
                Item(
                    "function",
                    match[2],
                    line,
                    returns=returns,
                    members=parameters(match[3]),
                    signature=f"{match[1]}{match[2]}({match[3]})",
                )
            )
        return True

    def object(self, code, raw, line):
        match = re.match(r"^HAUL_API extern (.*?)(\w+)$", code)
        if not match:
            return False
        self.add(Item("object", match[2], line, returns=match[1].strip(), signature=match[1] + match[2]))
        return True


# What the headers themselves are written with.
INFRASTRUCTURE = {"HAUL_API", "HAUL_PRINTF", "HAUL_BEGIN", "HAUL_END"}


def read_header(name, text):
    return Reader(name, text).read()


ROW = re.compile(r"^HAUL_(UNARY|UNARY_TO_BOOL|UNARY1|UNARY2|BINARY|COMPARE|INTERNAL) *\((.*)\)\s*$")


def read_rows(name, text):
    """The rows of pointwise.def as items of kind "operation"; the comment before a row describes it."""
    items, comment = [], None
    for what, body, line in row_pieces(text):
        if what == "comment":
            comment = Comment(clean_comment(body), line)
            continue
        if what == "blank":
            comment = None
            continue
        row = ROW.match(body)
        if not row:
            raise HeaderError(f"{name}:{line}: a row that is not known: {body}")
        if row[1] == "INTERNAL":
            comment = None
            continue
        cells = [squeeze(c) for c in split_top(row[2])]
        items.append(operation_item(row[1], cells, line, comment))
        comment = None
    return items


def row_pieces(text):
    """[(what, text, line)]: comments, rows and the blank lines behind comments."""
    at, out = 0, []
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        if text.startswith("/*", at):
            end = text.find("*/", at) + 2
            out.append(("comment", text[at:end], line))
        else:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            body = text[at:end].strip()
            if body.startswith("HAUL_"):
                out.append(("row", body, line))
            elif not body and out and out[-1][0] == "comment" and text[at - 1 : at] == "\n":
                out.append(("blank", "", line))
            end += 1
        at = end
    return out


def operation_item(kind, cells, line, comment):
    name = cells[0]
    binary = kind in ("BINARY", "COMPARE")
    row = {"kind": kind, "id": name, "operands": ["a", "b"] if binary else ["x"]}
    if kind == "COMPARE":
        row.update(dtypes="ANY", formula=cells[1], gradients=[])
    elif kind == "UNARY_TO_BOOL":
        row.update(dtypes=cells[1], formula=cells[2], gradients=[])
    else:
        row.update(dtypes=cells[1], formula=cells[2], gradients=cells[4:6] if binary else cells[4:5])
    return Item("operation", "haul_" + name, line, comment=comment, row=row)
