"""The reference as data: pages, entries, and what is known of each name.

One entry is what a reader looks up once: a macro with options, its _with function, its _into forms and its struct of
options are one entry, and so are names that share a comment.
"""

import json
import os
import re
from dataclasses import dataclass, field

import pages
from headers import read_header, read_rows, split_top, squeeze

SUFFIXES = ("_into_with", "_scalar_into", "_with", "_into", "_scalar", "_list_into", "_list")
# How an option is written whose field has a private name.
WRITTEN = {"haul__axes": "HAUL_AXES(axis, ...)", "haul__pads": "HAUL_PADS(size, ...)"}


@dataclass
class Entry:
    items: list = field(default_factory=list)
    comments: list = field(default_factory=list)
    options: object = None  # the struct of options, an Item
    page: str = ""

    @property
    def names(self):
        return [item.name for item in self.items]

    @property
    def heads(self):
        """The names that the entry is known by, without the forms that belong to them."""
        return [item.name for item in self.items if not item.form_of and item is not self.options] or self.names[:1]

    @property
    def anchor(self):
        return self.heads[0]


@dataclass
class Page:
    slug: str
    part: str
    source: str
    title: str = ""
    lead: str = ""
    intro: str = ""
    line: int = 0
    groups: list = field(default_factory=list)  # (title, text, [entries])

    @property
    def entries(self):
        return [e for _, _, entries in self.groups for e in entries]


@dataclass
class Reference:
    pages: list
    headers: dict
    operations: dict  # name -> facts, as the library gives them
    where: dict = field(default_factory=dict)  # name -> (page, anchor)
    entry_of: dict = field(default_factory=dict)
    gradients: dict = field(default_factory=dict)  # operations without a function of their own


def generated_functions(row):
    """The functions of one row of pointwise.def, as ops.h declares them: [(name, signature)]."""
    name, tensor = "haul_" + row["id"], "haul_tensor *"
    operands = ", ".join(tensor + o for o in row["operands"])
    numbers = {"UNARY1": ", double s", "UNARY2": ", double s0, double s1"}.get(row["kind"], "")
    out = [(name, f"{tensor}{name}({operands}{numbers})")]
    if row["kind"] in ("BINARY", "COMPARE"):
        out.append((name + "_scalar", f"{tensor}{name}_scalar({tensor}a, double s)"))
    out.append((name + "_into", f"haul_status {name}_into({tensor}out, {operands}{numbers})"))
    if row["kind"] in ("BINARY", "COMPARE"):
        out.append((name + "_scalar_into", f"haul_status {name}_scalar_into({tensor}out, {tensor}a, double s)"))
    return out


def base_name(name, known):
    """The name without the suffix of a form, where that is public too."""
    for suffix in SUFFIXES:
        short = name[: -len(suffix)]
        if name.endswith(suffix) and short in known:
            return base_name(short, known)
    return name


def option_struct(item, structs):
    """The struct of options that NAME_with takes last."""
    if item.kind != "function" or not item.name.endswith("_with") or not item.members:
        return None
    return structs.get(item.members[-1].type.replace("const", "").replace("*", "").strip())


def make_entries(items, callables, structs, owners):
    """Items in order -> entries. `owners` counts the entries that show a struct of options."""
    entries, by_base, by_comment = [], {}, {}
    used = {s.name for s in (option_struct(i, structs) for i in items) if s}
    for item in items:
        if item.kind == "struct" and item.name in used:
            continue
        base = base_name(item.name, callables) if item.kind in ("function", "macro") else item.name
        item.form_of = base if base != item.name else ""
        entry = by_base.get(base) or (by_comment.get(id(item.comment)) if item.comment else None)
        if entry is None:
            entry = Entry()
            entries.append(entry)
        by_base[base] = entry
        entry.items.append(item)
        add_comment(entry, item.comment, by_comment)
        options = option_struct(item, structs)
        if options is not None and entry.options is None:
            entry.options = options
            owners.setdefault(options.name, entry)
            add_comment(entry, options.comment, by_comment)
    return entries


def add_comment(entry, comment, by_comment):
    if comment is None:
        return
    by_comment.setdefault(id(comment), entry)
    if all(comment is not other for other in entry.comments):
        entry.comments.append(comment)
        entry.comments.sort(key=lambda c: c.line)


def title_and_lead(text):
    """ "Devices: finding them." -> ("Devices", "Finding them.", the text behind the first paragraph)."""
    first, _, rest = text.partition("\n\n")
    title, colon, lead = squeeze(first).partition(": ")
    if not colon:
        title, lead = squeeze(first).rstrip("."), ""
    return title, lead[:1].upper() + lead[1:], rest


def read_sources(folder):
    headers = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".h"):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                headers[name] = read_header(name, f.read())
    rows = os.path.join(folder, "pointwise.def")
    if os.path.exists(rows) and "ops.h" in headers:
        with open(rows, encoding="utf-8") as f:
            add_rows(headers["ops.h"], read_rows("pointwise.def", f.read()))
    return headers


def add_rows(header, rows):
    for section in header.sections:
        if section.title.startswith("Pointwise"):
            section.items = rows + section.items
            return
    header.sections[0].items += rows


def source_sections(source, headers):
    """(title comment, lead, intro, [sections]) of a page, or None where the headers do not have it."""
    name, _, wanted = source.partition(": ")
    header = headers.get(name)
    if header is None:
        return None
    if not wanted:
        return header.intro, header.sections
    for section in header.sections:
        if section.title.split(":")[0] == wanted:
            return section, [section]
    return None


def build(folder, operations):
    headers = read_sources(folder)
    items = [i for h in headers.values() for i in h.items]
    callables = {i.name for i in items if i.kind in ("function", "macro", "operation") and i.name}
    structs = {i.name: i for i in items if i.kind == "struct"}
    reference = Reference([], headers, operations)
    owners = {}
    for part, _, sources in pages.PARTS:
        for source in sources:
            page = make_page(part, source, headers, callables, structs, owners)
            if page:
                reference.pages.append(page)
    index(reference, owners)
    return reference


def make_page(part, source, headers, callables, structs, owners):
    found = source_sections(source, headers)
    if found is None:
        return None
    page = Page(pages.slug(source), part, source)
    head, sections = found
    if ": " in source:
        title, lead, _ = title_and_lead(head.title)
        page.title, page.lead = title, lead and lead.rstrip(".") + "."
        page.intro, page.line = head.comment.text, head.comment.line
    elif head is not None:
        page.title, page.lead, page.intro = title_and_lead(head.text)
        page.line = head.line
    for section in sections:
        entries = make_entries(section.items, callables, structs, owners)
        text = section.comment.text if section.comment and ": " not in source else ""
        if entries or text:
            page.groups.append((section.title if ": " not in source else "", text, entries))
    return page


def index(reference, owners):
    for page in reference.pages:
        for entry in page.entries:
            entry.page = page.slug
            for item in entry.items:
                names = [item.name]
                if item.kind == "operation":
                    names = [name for name, _ in generated_functions(item.row)]
                names += [m.name for m in item.members] if item.kind == "enum" else []
                for name in names:
                    reference.where[name] = (page.slug, entry.anchor)
                    reference.entry_of[name] = entry
    for name, entry in owners.items():
        reference.where[name] = (entry.page, entry.anchor)
        reference.entry_of[name] = entry
    for name in reference.operations:
        if name not in reference.where:
            reference.gradients[name] = ("operations", name)
            reference.where[name] = ("operations", name)


# ---- facts of the library ----


def read_operations(path):
    """docs/operations.json, or what `haul ops --json` prints."""
    with open(path, encoding="utf-8") as f:
        return facts_of(json.load(f))


def facts_of(listed):
    """The facts that are the same on every machine, by name. `by` is how the operation is computed."""
    out = {}
    for row in listed:
        by = row.get("by")
        if by is None:
            ways = row["implementations"]["cpu"]
            by = ways[-1] if ways else ""
        out[row["name"]] = {
            "name": row["name"],
            "operands": [
                o["name"] + ("?" if o["optional"] else "") if isinstance(o, dict) else o for o in row["operands"]
            ],
            "results": row["results"],
            "dtypes": row["dtypes"],
            "differentiable": row["differentiable"],
            "by": by,
        }
        if "prototype" in row:  # what only gradients call has none
            out[row["name"]]["prototype"] = row["prototype"]
            out[row["name"]]["attributes"] = [
                {key: o[key] for key in ("name", "type", "default")} for o in row.get("attributes", row.get("options", []))
            ]
    return out


def write_operations(path, facts):
    rows = ",\n".join(json.dumps(facts[name]) for name in sorted(facts))
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n" + rows + "\n]\n")


# ---- forms of calls ----


def positional(entry):
    return [m for m in entry.options.members if m.positional] if entry.options else []


def optional(entry):
    return [m for m in entry.options.members if not m.positional] if entry.options else []


def call_members(item, entry):
    """The arguments of a macro with options, as the caller writes them: [(type, name)]."""
    by_name = {m.name: m for m in entry.options.members}
    function = next((i for i in entry.items if i.name == item.name + "_with"), None)
    out, seen = [], set()
    for at, member in enumerate(m for m in item.members if m.name != "..."):
        name = member.name.rstrip("_")
        if name in by_name and by_name[name].positional:
            kind = by_name[name].type + by_name[name].array
        else:
            kind = function.members[at].type if function and at < len(function.members) else ""
        out.append((kind, name))
        seen.add(name)
    for member in positional(entry):
        if member.name not in seen:
            out.append((member.type, member.name + (", ..." if member.array else "")))
    return out


def declared(kind, name):
    if "(*)" in kind:
        return kind.replace("(*)", f"(*{name})", 1)
    return kind + name if kind.endswith("*") else f"{kind} {name}".strip()


def call_form(item, entry):
    """How an item is called or declared."""
    if item.kind != "macro" or not entry.options or not any(i.name == item.name + "_with" for i in entry.items):
        return item.signature
    function = next(i for i in entry.items if i.name == item.name + "_with")
    arguments = [declared(kind, name) for kind, name in call_members(item, entry)]
    if optional(entry):
        arguments.append(".option = value, ...")
    return declared(function.returns, item.name) + "(" + ", ".join(arguments) + ")"


ZERO = {"bool": "false", "haul_dtype": "HAUL_DTYPE_NONE"}


def default_of(member, reference):
    """The default of an option: what its comment says, else what zero means for its type."""
    said = re.search(r"(?:^|[;.] )defaults?:? (?:to )?([^;.]*(?:\.\d[^;.]*)*(?:\.{3}[^;.]*)?)", member.text, re.I)
    if said:
        return said[1].strip()
    kind = member.type
    if member.name in WRITTEN:
        return ""
    if member.array and not kind.endswith("*"):
        return "none"
    if kind.startswith("haul_tensor *") and not kind.endswith("**"):
        return "HAUL_NONE"
    if kind.endswith("*") or "(*)" in kind:
        return "NULL"
    if kind in ZERO:
        return ZERO[kind]
    entry = reference.entry_of.get(kind)
    for item in entry.items if entry else []:
        if item.kind == "enum" and item.name == kind and item.members:
            return item.members[0].name
    return "0"


def meaning(member):
    """The comment of an option without its default."""
    text = re.sub(
        r"(^|[;.] )defaults?:? (?:to )?[^;.]*(?:\.\d[^;.]*)*(?:\.{3}[^;.]*)?(;|\.(?=\s|$)|$)",
        lambda m: m[1].rstrip() if m[1] else "",
        member.text,
        flags=re.I,
    )
    return text.strip().strip(";").strip()
