"""cli/show/prototypes.def: how the operations and modules that a user can call are called, for `haul ops`."""

import os
import re

import model
import text

FILE = os.path.join("cli", "show", "prototypes.def")
HEAD = """/* Written by `python3 tools/reference --update` from the public headers.
 *
 *   CALL(operation, prototype, description)
 *   MODULE(module, prototype, description, inputs, results)
 *   CALL_OPTION(operation or module, name, type, meaning, default) */
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
    own = [item.comment] if item.comment else []
    comments = [text.first_sentence(c.text) for c in own + entry.comments]
    notes = [item.note] if item.note else [i.note for i in entry.items if i.note]
    return plain(next((c for c in comments + notes if c), ""))


def inputs_and_results(item):
    """Of a module with more than one input: "x, h?, c?", and "y, h, c"."""
    said = re.sub(r"\s+", " ", item.comment.text) if item.comment else ""
    found = [re.search(words, said) for words in (r'Inputs: "(.*?)"', r'Results?: "?(.*?)"?(?:\.|;|$)')]
    return [f[1] if f and found[0] else "" for f in found]


def belongs(short, meaning):
    """False for the options of another module that has the same struct."""
    only = re.match(r"(?:\w+: )?haul_(?:nn_)?(\w+?)(?:\dd)? only: ", meaning)
    return not only or re.sub(r"^nn_|\dd$", "", short) == only[1]


def call_rows(kind, reference, entry, item, name):
    short = name.removeprefix("haul_")
    facts = [prototype(entry, item, name), description(entry, item)]
    facts += inputs_and_results(item) if kind == "MODULE" else []
    yield f"{kind}({short}, " + ", ".join(quoted(plain(f)) for f in facts) + ")"
    for member in model.optional(entry) if item.kind == "macro" and entry.options else []:
        written = model.WRITTEN.get(member.name, "." + member.name)
        if kind == "MODULE" and not belongs(short, model.meaning(member)):
            continue
        facts = (written, member.type.strip() + member.array, model.meaning(member), model.default_of(member, reference))
        yield f"CALL_OPTION({short}, " + ", ".join(quoted(plain(f)) for f in facts) + ")"


def rows(reference):
    for name in sorted(reference.operations):
        entry = reference.entry_of.get(name)
        item = main_item(entry, name) if entry else None
        if item is None or "haul_tensor *" not in prototype(entry, item, name):
            continue  # an object's function can have the name of the operation behind it
        yield from call_rows("CALL", reference, entry, item, name)
    for name in sorted(n for n in reference.entry_of if n.startswith("haul_nn_") and not n.endswith("_with")):
        entry = reference.entry_of[name]
        item = main_item(entry, name)
        if item is not None and prototype(entry, item, name).startswith("haul_module *"):
            yield from call_rows("MODULE", reference, entry, item, name)


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
