"""What is wrong with the reference: names without a description, arguments that do not exist, pages that are missing,
links that lead nowhere. Each function returns messages; none means that all is well."""

import os
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import model
import pages
import text


def check(reference, root):
    return (
        check_pages(reference)
        + check_descriptions(reference)
        + check_arguments(reference)
        + check_operations(reference)
        + check_mentions(reference, root)
    )


def place(entry, reference):
    page = next(p for p in reference.pages if p.slug == entry.page)
    return page.source.partition(":")[0]


# ---- pages ----


def check_pages(reference):
    out, seen = [], {}
    sources = [source for _, _, sources in pages.PARTS for source in sources]
    have = {page.source for page in reference.pages}
    for source in sources:
        seen[pages.slug(source)] = seen.get(pages.slug(source), 0) + 1
        if source not in have:
            out.append(f"{source}: the page has no header or section (tools/reference/pages.py)")
    out += [f"{slug}.html: two pages have this name" for slug, count in seen.items() if count > 1]
    for name, header in reference.headers.items():
        out += check_header(name, header, sources)
    for page in reference.pages:
        if not page.title or not page.lead:
            out.append(f'{page.source}: the page needs a first sentence "Title: what it has"')
        if not page.intro.strip() and not page.lead:
            out.append(f"{page.source}: the page has no introduction")
        if not page.entries:
            out.append(f"{page.source}: the page has no entry")
    return out


def check_header(name, header, sources):
    if name in pages.COLLECTIONS:
        return []
    if header.intro is None:
        return [f"{name}: the header has no introduction"]
    if name not in pages.SPLIT:
        return [] if name in sources else [f"{name}: no page has this header (tools/reference/pages.py)"]
    out = []
    for section in header.sections:
        title = section.title.split(":")[0]
        if section.items and f"{name}: {title}" not in sources:
            out.append(f'{name}: no page has the section "{title}" (tools/reference/pages.py)')
    return out


# ---- descriptions ----


def check_descriptions(reference):
    out = []
    for page in reference.pages:
        for entry in page.entries:
            out += check_entry(entry, page.source.partition(":")[0])
    return out


def check_entry(entry, header):
    out, comments = [], "\n\n".join(c.text for c in entry.comments)
    named = text.described(comments)
    for item in entry.items:
        if not comments.strip() and not item.note and not (item.form_of and any(i.note for i in entry.items)):
            out.append(f"{header}:{item.line}: {item.name} has no description")
    members = [
        (i, m)
        for i in entry.items + ([entry.options] if entry.options else [])
        if i.kind in ("struct", "enum")
        for m in i.members
    ]
    for item, member in members:
        if item.kind == "enum" and len(item.members) == 1 and comments.strip():
            continue  # the comment is about the one constant
        if not member.text and member.name not in named:
            what = "constant" if item.kind == "enum" else "field"
            out.append(f"{header}:{item.line}: {what} {item_member(item, member)} has no description")
    return out


def item_member(item, member):
    return member.name if item.kind == "enum" else f"{item.name}.{member.name}"


def check_arguments(reference):
    out = []
    for page in reference.pages:
        for entry in page.entries:
            known = argument_names(entry)
            for comment in entry.comments:
                for name in text.described(comment.text):
                    if name not in known:
                        out.append(
                            f"{page.source.partition(':')[0]}:{comment.line}: {entry.anchor} has no argument, "
                            f"field or constant {name}"
                        )
    return out


def argument_names(entry):
    known = set()
    for item in entry.items + ([entry.options] if entry.options else []):
        known |= {m.name for m in item.members} | {m.name.rstrip("_") for m in item.members}
        if item.kind == "operation":
            known |= set(item.row["operands"]) | {"s", "s0", "s1", "out"}
        if item.kind == "macro":
            known.add(item.name)
    return known


# ---- operations ----


def check_operations(reference):
    out = []
    if not reference.operations:
        return out
    for page in reference.pages:
        for entry in page.entries:
            for item in entry.items:
                if item.kind != "operation":
                    continue
                for name, _ in model.generated_functions(item.row):
                    if not name.endswith("_into") and name not in reference.operations:
                        out.append(f"docs/operations.json: {name} of pointwise.def is missing")
    return out


def check_facts(written, told):
    """docs/operations.json against what the library says."""
    out = [f"docs/operations.json: {name} is missing" for name in sorted(told.keys() - written.keys())]
    out += [f"docs/operations.json: the library has no {name}" for name in sorted(written.keys() - told.keys())]
    for name in sorted(written.keys() & told.keys()):
        out += [
            f"docs/operations.json: {name}: {key} is {written[name].get(key)}, the library says {value}"
            for key, value in told[name].items()
            if written[name].get(key) != value
        ]
    return [line + " (make docs HAUL=build/haul writes it anew)" for line in out]


# ---- names in texts ----


def check_mentions(reference, root):
    out = []
    for where, body in texts(reference):
        for name in text.mentioned(body):
            if name not in reference.where and not is_own(name, reference):
                out.append(f"{where}: there is no {name}")
        for name in text.files_mentioned(body):
            if name.endswith((".h", ".def")):
                if name not in reference.headers and name != "pointwise.def":
                    out.append(f"{where}: there is no header {name}")
            elif not os.path.exists(os.path.join(root, name)):
                out.append(f"{where}: there is no document {name}")
    return out


def is_own(name, reference):
    """Names that are written in texts but are no declarations of C: lists, guards, members behind a name."""
    return name in ("HAUL_NAME", "haul_NAME") or name in reference.entry_of


def texts(reference):
    """(place, text) of everything that people read."""
    for page in reference.pages:
        header = page.source.partition(":")[0]
        yield f"{header}:{page.line}", page.lead + "\n" + page.intro
        for title, group, entries in page.groups:
            yield f"{header}: {title}", group
            for entry in entries:
                for comment in entry.comments:
                    yield f"{header}:{comment.line}", comment.text
                for item in entry.items + ([entry.options] if entry.options else []):
                    yield f"{header}:{item.line}", item.note
                    for member in item.members:
                        yield f"{header}:{item.line}", member.text


# ---- links ----


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.targets, self.ids, self.twice = [], set(), []

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key == "id":
                if value in self.ids:
                    self.twice.append(value)
                self.ids.add(value)
            elif key in ("href", "src"):
                self.targets.append(value)


def check_links(folder):
    """Every link of the pages in `folder` leads to a file, and to an element in it."""
    found, out = {}, []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".html"):
            found[name] = Links()
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                found[name].feed(f.read())
    for name, links in found.items():
        out += [f"{name}: the id {value} is there twice" for value in links.twice]
        for target in links.targets:
            if re.match(r"^[a-z]+:", target):
                continue
            path, _, fragment = unquote(target).partition("#")
            path = path or name
            if path in found:
                if fragment and fragment not in found[path].ids:
                    out.append(f"{name}: a link to {target}, which does not exist")
            elif not os.path.exists(os.path.join(folder, path)):
                out.append(f"{name}: a link to {target}, which does not exist")
    return out
