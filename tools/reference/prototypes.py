"""cli/show/prototypes.def: how the operations that a user can call are called, for `haul ops`."""

import os
import re

import model
import text

FILE = os.path.join("cli", "show", "prototypes.def")
HEAD = """/* Written by `python3 tools/reference --update` from the public headers.
 *
 *   CALL(operation, prototype, description)
 *   CALL_OPTION(operation, name, type, meaning, default) */
"""


def quoted(words):
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'


def plain(words):
    return re.sub(r"\s+", " ", words.replace("`", "")).strip()


def main_item(entry, name):
    """The macro or function that has the operation's name, or its row."""
    for item in entry.items:
        if item.kind == "operation" and any(n == name for n, _ in model.generated_functions(item.row)):
            return item
    named = [i for i in entry.items if i.name == name and i.kind in ("macro", "function")]
    return named[0] if named else None


def prototype(entry, item, name):
    if item.kind == "operation":
        return dict(model.generated_functions(item.row))[name]
    return model.call_form(item, entry).replace(".option = value, ...", "...")


def description(entry, item):
    comments = [text.first_sentence(c.text) for c in entry.comments]
    notes = [item.note] if item.note else [i.note for i in entry.items if i.note]
    return plain(next((c for c in comments + notes if c), ""))


def rows(reference):
    for name in sorted(reference.operations):
        entry = reference.entry_of.get(name)
        item = main_item(entry, name) if entry else None
        if item is None:
            continue
        called = prototype(entry, item, name)
        if "haul_tensor *" not in called:  # an object's function that has the name of the operation behind it
            continue
        short = name.removeprefix("haul_")
        yield f"CALL({short}, {quoted(plain(called))}, {quoted(description(entry, item))})"
        for member in model.optional(entry) if item.kind == "macro" and entry.options else []:
            written = model.WRITTEN.get(member.name, "." + member.name)
            facts = (written, member.type.strip() + member.array, model.meaning(member), model.default_of(member, reference))
            yield f"CALL_OPTION({short}, " + ", ".join(quoted(plain(f)) for f in facts) + ")"


def content(reference):
    return HEAD + "\n".join(rows(reference)) + "\n"


def check(reference, root):
    with open(os.path.join(root, FILE), encoding="utf-8") as f:
        if f.read() != content(reference):
            return [f"{FILE} is not that of the headers: python3 tools/reference --facts build/haul --update"]
    return []


def write(reference, root):
    with open(os.path.join(root, FILE), "w", encoding="utf-8") as f:
        f.write(content(reference))
