"""Writes the pages as HTML that needs no server: one page a group, one section an entry, an index, and a search."""

import html
import json
import os
import re
import shutil

import examples
import model
import pages
import text

HERE = os.path.dirname(os.path.abspath(__file__))
FLOATS = ["f16", "bf16", "f32", "f64"]
BY = {
    "kernel": "",
    "view": "a view: shares memory with its operand, computes nothing",
    "operations": "composed of other operations",
}


def escape(value):
    return html.escape(str(value), quote=True)


def table(head, rows, style=""):
    if not rows:
        return ""
    cells = "".join(f"<th>{h}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<div class="wide"><table class="{style}"><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'
    )


class Renderer:
    def __init__(self, reference, root, out):
        self.reference, self.root, self.out = reference, root, out
        self.slug = ""
        self.inline = text.Inline(self.address, self.page_address)
        with open(os.path.join(root, "docs", "operations.json"), encoding="utf-8") as f:
            operands = {o["name"]: o["operands"] for o in json.load(f)}
        self.examples = examples.Examples(root, operands)
        self.of_header = {}
        for page in reference.pages:
            self.of_header.setdefault(page.source.partition(":")[0], page.slug + ".html")
        for name in pages.SPLIT + pages.COLLECTIONS:
            self.of_header[name] = "operations.html" if name in pages.SPLIT else "index.html"

    def address(self, name):
        where = self.reference.where.get(name)
        if not where:
            return None
        anchor = name if name in self.anchors_of(where) else where[1]
        return ("" if where[0] == self.slug else where[0] + ".html") + "#" + anchor

    def anchors_of(self, where):
        return (where[1],) + tuple(self.aliases(self.reference.entry_of.get(where[1])))

    def aliases(self, entry):
        """Names that have an anchor of their own within an entry."""
        if entry is None:
            return []
        out = []
        for item in entry.items:
            names = [item.name] + ([m.name for m in item.members] if item.kind == "enum" else [])
            if item.kind == "operation":
                names = [name for name, _ in model.generated_functions(item.row)]
            out += [n for n in names if n != entry.anchor and n not in out]
        return out

    def page_address(self, header):
        return self.of_header.get(header)

    # ---- entries ----

    def entry(self, entry):
        names = entry.heads
        alias = "".join(f'<a id="{a}"></a>' for a in self.aliases(entry))
        if entry.options and self.reference.entry_of.get(entry.options.name) is entry:
            alias += f'<a id="{entry.options.name}"></a>'
        title = ", ".join(f"<span>{escape(n)}</span>" for n in names)
        parts = [
            f'<section class="entry" id="{entry.anchor}">{alias}',
            f'<h3><a href="#{entry.anchor}">{title}</a></h3>',
            self.signature(entry),
            self.prose(entry),
            self.arguments(entry),
            self.options(entry),
            self.members(entry),
            self.facts(entry),
            self.forms(entry),
            self.example(entry),
            "</section>",
        ]
        return "\n".join(p for p in parts if p)

    def example(self, entry):
        """A call from the documents or tests, for a function whose comment has no example."""
        callable_ = any(i.kind in ("function", "macro", "operation") and not self.is_constant(i) for i in entry.items)
        has_own = any(
            kind == "code" and ";" in block for c in entry.comments for kind, block in text.blocks(c.text)
        )
        names = [entry.anchor] + [i.name for i in entry.items if i.kind != "operation"]
        call = self.examples.of(names) if callable_ and not has_own else ""
        rows = [i for i in entry.items if i.kind == "operation"]
        if rows and (not call or examples.cost(call) > 70):
            name, signature = model.generated_functions(rows[0].row)[0]
            given = re.findall(r"(\w+)(?=[,)])", signature)
            call = f"haul_tensor *result = {name}({', '.join(given)});"
        return f'<pre class="example">{self.inline.code(call)}</pre>' if call else ""

    def signature(self, entry):
        lines = []
        for item in entry.items:
            if self.is_number(item):
                lines.append(f"enum {{ {item.name} = {escape(item.members[0].value)} }};")
            if item.form_of or item.kind in ("struct", "enum"):
                continue
            if item.kind == "operation":
                lines += [
                    self.inline.code(s) + ";" for n, s in model.generated_functions(item.row) if not n.endswith("_into")
                ]
                continue
            prefix = "typedef " if item.kind == "type" else "#define " if self.is_constant(item) else ""
            value = " " + item.body if prefix == "#define " and len(item.body) < 40 else ""
            end = "" if item.kind == "macro" and not self.has_with(item, entry) else ";"
            line = self.inline.code(prefix + model.call_form(item, entry) + value) + end
            note = (
                f'  <span class="note">/* {self.inline.code(item.note)} */</span>'
                if item.note and len(entry.heads) > 1
                else ""
            )
            lines.append(line + note)
        return f'<pre class="signature">{chr(10).join(lines)}</pre>' if lines else ""

    @staticmethod
    def is_number(item):
        """An enum that is there for one constant."""
        return item.kind == "enum" and len(item.members) == 1

    @staticmethod
    def is_constant(item):
        return item.kind == "macro" and not item.members

    @staticmethod
    def has_with(item, entry):
        return entry.options is not None and any(i.name == item.name + "_with" for i in entry.items)

    def prose(self, entry):
        skip = self.table_names(entry)
        out = [text.to_html(c.text, self.inline, skip) for c in entry.comments]
        if len(entry.heads) == 1:
            out += [f"<p>{self.inline(sentence(i.note))}</p>" for i in entry.items if i.note and not i.form_of]
        out += [f"<p>{self.inline(sentence(i.note))}</p>" for i in entry.items if i.note and i.form_of]
        return "\n".join(o for o in out if o)

    def table_names(self, entry):
        out = set()
        for item in entry.items + ([entry.options] if entry.options else []):
            out |= {m.name for m in item.members} | {m.name.rstrip("_") for m in item.members}
            if item.kind == "operation":
                out |= set(item.row["operands"]) | {"s", "s0", "s1", "out"}
        return out

    def described(self, entry):
        return text.described("\n\n".join(c.text for c in entry.comments))

    def arguments(self, entry):
        said, rows, seen = self.described(entry), [], set()
        positional = {m.name: m for m in model.positional(entry)}
        for kind, name in self.all_arguments(entry):
            short = name.split(",")[0]
            meaning = said.get(short) or (positional[short].text if short in positional else "")
            if meaning and short not in seen:
                rows.append(
                    (
                        f"<code>{escape(short)}</code>",
                        f"<code>{self.inline.code(kind)}</code>",
                        self.inline(capital(meaning)),
                    )
                )
            seen.add(short)
        return table(("Argument", "Type", "Meaning"), rows, "arguments")

    def all_arguments(self, entry):
        out = []
        for item in entry.items:
            if item.kind == "macro" and self.has_with(item, entry):
                out += model.call_members(item, entry)
            elif item.kind == "operation":
                out += [("haul_tensor *", o) for o in item.row["operands"] + ["out"]]
                out += [("double", n) for n in ("s", "s0", "s1")]
            elif item.kind in ("function", "type") and not item.name.endswith("_with"):
                out += [(m.type + m.array, m.name) for m in item.members]
            elif item.kind == "macro":
                out += [("", m.name) for m in item.members]
        return out

    def options(self, entry):
        if not entry.options:
            return ""
        said, rows = self.described(entry), []
        for member in model.optional(entry):
            name = model.WRITTEN.get(member.name, "." + member.name)
            kind = "" if member.name in model.WRITTEN else member.type + member.array
            meaning = model.meaning(member) or said.get(member.name, "")
            default = model.default_of(member, self.reference)
            rows.append(
                (
                    f"<code>{escape(name)}</code>",
                    f"<code>{self.inline.code(kind)}</code>" if kind else "",
                    self.default_cell(default),
                    self.inline(capital(meaning)),
                )
            )
        return table(("Option", "Type", "Default", "Meaning"), rows, "options")

    def default_cell(self, default):
        plain = re.match(r"^(-?[\d.]+(e-?\d+)?|[A-Z_0-9]+|\{.*\}|true|false|'.'|\"[^\"]*\")$", default)
        return f"<code>{self.inline.code(default)}</code>" if plain else self.inline(default)

    def members(self, entry):
        said, out = self.described(entry), []
        for item in entry.items:
            rows = []
            for m in item.members if item.kind in ("struct", "enum") and not self.is_number(item) else []:
                meaning = self.inline(capital(m.text or said.get(m.name, "")))
                if m.text and m.name in said:
                    meaning = self.inline(capital(said[m.name]))
                if item.kind == "enum":
                    rows.append((f"<code>{m.name}</code>", self.value(m.value), meaning))
                else:
                    name = model.WRITTEN.get(m.name, m.name)
                    rows.append(
                        (f"<code>{escape(name)}</code>", f"<code>{self.inline.code(m.type + m.array)}</code>", meaning)
                    )
            if item.kind == "enum" and not any(r[1] for r in rows):
                rows = [(r[0], r[2]) for r in rows]
                out.append(table(("Constant", "Meaning"), rows, "constants"))
            elif item.kind == "enum":
                out.append(table(("Constant", "Value", "Meaning"), rows, "constants"))
            else:
                out.append(table(("Field", "Type", "Meaning"), rows, "fields"))
        return "\n".join(o for o in out if o)

    @staticmethod
    def value(text):
        style = "" if len(text) > 16 else ' class="whole"'
        return f"<code{style}>{escape(text)}</code>" if text else ""

    def formula(self, entry):
        """Rows of facts: the formula of a row of pointwise.def and its gradients."""
        out = []
        for item in entry.items:
            if item.kind != "operation":
                continue
            row = item.row
            out += [("Formula", f"<code>{escape(readable(row['formula']))}</code>")]
            for operand, gradient in zip(row["operands"], row["gradients"]):
                shown = "0" if gradient == "ZEROS" else gradient
                out.append((f"Gradient of <code>{operand}</code>", f"<code>{self.inline.code(shown)}</code>"))
        return out

    def facts(self, entry):
        names = entry.heads
        for item in entry.items:
            if item.kind == "operation":
                names = [item.name]
        known = [self.reference.operations[n] for n in names if n in self.reference.operations]
        if not known or (entry.page == "optim"):
            return ""
        fact = known[0]
        rows = self.formula(entry) + [
            ("Dtypes", self.dtypes(fact)),
            ("Differentiable", "yes" if fact["differentiable"] else "no"),
            ("Devices", "all" + (f" ({BY[fact['by']]})" if BY.get(fact["by"]) else "")),
        ]
        if len(known) > 1 and any(
            k["dtypes"] != fact["dtypes"] or k["differentiable"] != fact["differentiable"] for k in known
        ):
            rows = [
                (
                    f"<code>{k['name']}</code>",
                    f"{self.dtypes(k)}; " + ("" if k["differentiable"] else "not ") + "differentiable",
                )
                for k in known
            ]
        return '<dl class="facts">' + "".join(f"<dt>{k}</dt><dd>{v}</dd>" for k, v in rows) + "</dl>"

    @staticmethod
    def dtypes(fact):
        kinds = fact["dtypes"]
        if len(kinds) == 10:
            return "all"
        if len(kinds) == 9 and "bool" not in kinds:
            return "all but <code>bool</code>"
        return " ".join(f"<code>{k}</code>" for k in kinds)

    def forms(self, entry):
        lines = []
        for item in entry.items:
            if item.kind == "operation":
                lines += [s for n, s in model.generated_functions(item.row) if n.endswith("_into")]
            elif item.form_of:
                lines.append(model.call_form(item, entry))
        if not lines:
            return ""
        body = "\n".join(self.inline.code(line) + ";" for line in lines)
        return f"<details><summary>Other forms</summary><pre>{body}</pre></details>"

    # ---- pages ----

    def page(self, page):
        self.slug = page.slug
        header = page.source.partition(":")[0]
        body = [
            f"<h1>{escape(page.title)}</h1>",
            f'<p class="lead">{self.inline(page.lead)}</p>',
            f'<p class="include"><code>#include &lt;haul/{header}&gt;</code>'
            + (", which <code>haul.h</code> includes" if header != "kernel.h" else "")
            + "</p>",
            text.to_html(page.intro, self.inline),
            self.contents(page),
        ]
        for title, intro, entries in page.groups:
            if title:
                name, lead, _ = model.title_and_lead(title)
                body.append(f'<h2 id="{identifier(name)}">{escape(capital(name))}</h2>')
                if lead:
                    body.append(f"<p>{self.inline(lead)}</p>")
            body.append(text.to_html(intro, self.inline))
            body += [self.entry(e) for e in entries]
        return self.frame(page.title, "\n".join(body))

    def contents(self, page):
        rows = []
        for title, _, entries in page.groups:
            if title:
                name = model.title_and_lead(title)[0]
                rows.append(f'<li class="part"><a href="#{identifier(name)}">{escape(capital(name))}</a></li>')
            for entry in entries:
                names = ", ".join(entry.heads[:3] + (["..."] if len(entry.heads) > 3 else []))
                rows.append(f'<li><a href="#{entry.anchor}">{escape(names)}</a></li>')
        return f'<details class="contents" open><summary>On this page</summary><ul>{"".join(rows)}</ul></details>'

    def frame(self, title, body):
        current = self.slug + ".html"
        menu = [self.menu_link("index.html", "Start", current)]
        for part, _, _ in pages.PARTS:
            menu.append(f"<b>{escape(part)}</b>")
            menu += [self.menu_link(p.slug + ".html", p.title, current) for p in self.reference.pages if p.part == part]
            if part == "Operations":
                menu.append(self.menu_link("operations.html", "All operations", current))
        menu.append("<b>Index</b>")
        menu.append(self.menu_link("names.html", "All names", current))
        return fill("frame.html", TITLE=escape(title), MENU="\n".join(menu), BODY=body) + "\n"

    @staticmethod
    def menu_link(address, title, current):
        here = ' aria-current="page"' if address == current else ""
        return f'<a href="{address}"{here}>{escape(title)}</a>'

    # ---- start page, all operations, all names ----

    def start(self):
        self.slug = "index"
        groups = []
        for part, lead, _ in pages.PARTS:
            rows = "".join(
                f'<li><a href="{p.slug}.html">{escape(p.title)}</a> <span>{self.inline(p.lead)}</span></li>'
                for p in self.reference.pages
                if p.part == part
            )
            if part == "Operations":
                rows += '<li><a href="operations.html">All operations</a> <span>A table of all of them.</span></li>'
            groups.append(f"<section><h2>{escape(part)}</h2><p>{escape(lead)}</p><ul>{rows}</ul></section>")
        conventions = self.reference.headers["base.h"].intro.text.partition("\n\n")[2]
        body = fill(
            "start.html",
            COUNT=str(len(self.reference.where)),
            EXAMPLE=self.inline.code(read("example.txt")),
            GROUPS="\n".join(groups),
            CONVENTIONS=text.to_html(conventions, self.inline),
            DOCS=self.documents(),
        )
        return self.frame("Reference", body)

    def documents(self):
        rows = []
        for name, what in (
            ("README.md", "what Haul is, and the first ten minutes"),
            ("docs/guide.md", "the guide"),
            ("docs/glossary.md", "the words that are used here"),
            ("docs/from-pytorch.md", "Haul for those who know PyTorch"),
            ("docs/from-tensorflow.md", "Haul for those who know TensorFlow"),
            ("examples", "small programs"),
        ):
            path = os.path.join(self.root, name)
            if os.path.exists(path):
                rows.append(
                    f'<li><a href="{escape(os.path.relpath(path, self.out))}"><code>{name}</code></a>: {what}</li>'
                )
        return "<ul>" + "".join(rows) + "</ul>"

    def operations(self):
        self.slug = "operations"
        intro = self.reference.headers["ops.h"].intro.text if "ops.h" in self.reference.headers else ""
        title, lead, rest = model.title_and_lead(intro)
        public, inner = [], []
        for name in sorted(self.reference.operations):
            fact = self.reference.operations[name]
            operands = " ".join(fact["operands"])
            row = [
                f"<code>{escape(operands)}</code>",
                f"<code>{escape(' '.join(fact['results']))}</code>",
                self.dtypes(fact),
                "yes" if fact["differentiable"] else "",
                fact["by"],
            ]
            if name in self.reference.gradients:
                inner.append([f'<code id="{name}">{name}</code>'] + row)
            else:
                public.append([f"<code>{self.inline.code(name)}</code>"] + row)
        head = ("Operation", "Operands", "Results", "Dtypes", "Gradient", "Computed by")
        body = fill(
            "operations.html",
            LEAD=self.inline(lead),
            INTRO=text.to_html(rest, self.inline),
            DESCRIBE=self.inline("haul_operation_describe"),
            NONE=self.inline("HAUL_NONE"),
            PUBLIC=table(head, public, "dense"),
            INNER=table(head, inner, "dense"),
        )
        return self.frame("All operations", body)

    def names(self):
        self.slug = "names"
        groups = {}
        for name in sorted(self.reference.where, key=lambda n: n.lower()):
            letter = name[5:6].upper()
            groups.setdefault(letter, []).append(f'<li><a href="{self.address(name)}"><code>{name}</code></a></li>')
        letters = " ".join(f'<a href="#letter-{k}">{k}</a>' for k in sorted(groups))
        body = "".join(
            f'<h2 id="letter-{k}">{k}</h2><ul class="names">{"".join(v)}</ul>' for k, v in sorted(groups.items())
        )
        return self.frame("All names", f'<h1>All names</h1><p class="letters">{letters}</p>{body}')

    def search_index(self):
        rows = []
        titles = {p.slug: p.title for p in self.reference.pages}
        titles["operations"] = "All operations"
        for name in sorted(self.reference.where):
            slug, _ = self.reference.where[name]
            self.slug = ""
            rows.append([name, self.address(name), titles.get(slug, slug), self.summary(name), self.words(name), self.examples.words(name)])
        for page in self.reference.pages:
            rows.append([page.title, page.slug + ".html", page.part, page.lead, "", ""])
        return "var HAUL_NAMES = " + json.dumps(rows, separators=(",", ":")) + ";\n"

    def words(self, name):
        """The words by which a search finds an entry: those of its text and of its options."""
        entry = self.reference.entry_of.get(name)
        if entry is None or entry.anchor != name:
            return ""
        texts = [c.text for c in entry.comments] + [i.note for i in entry.items]
        for item in entry.items + ([entry.options] if entry.options else []):
            texts += [f"{m.name} {m.text}" for m in item.members]
        found = re.findall(r"[a-z][a-z0-9_]+", " ".join(texts).lower())
        return " ".join(sorted(set(found)))

    def summary(self, name):
        entry = self.reference.entry_of.get(name)
        if entry is None:
            return ""
        said = self.described(entry).get(name)
        for item in entry.items:
            for member in item.members if item.kind == "enum" else []:
                if member.name == name:
                    return said or member.text
        comments = [text.first_sentence(c.text) for c in entry.comments]
        notes = [i.note for i in entry.items if i.note and i.name == name] or [i.note for i in entry.items if i.note]
        return next((c for c in comments + notes if c), "")

    def write(self):
        os.makedirs(self.out, exist_ok=True)
        for name in os.listdir(self.out):
            if name.endswith((".html", ".js", ".css")):
                os.remove(os.path.join(self.out, name))
        files = {page.slug + ".html": self.page(page) for page in self.reference.pages}
        files.update(
            {
                "index.html": self.start(),
                "operations.html": self.operations(),
                "names.html": self.names(),
                "names.js": self.search_index(),
            }
        )
        for name, body in files.items():
            with open(os.path.join(self.out, name), "w", encoding="utf-8") as f:
                f.write(body)
        for name in ("style.css", "search.js"):
            shutil.copy(os.path.join(HERE, name), self.out)
        return len(files)


def capital(words):
    """A note as a sentence; a name or a formula at its beginning stays as it is."""
    return words[:1].upper() + words[1:] if re.match(r"([a-z][a-z'-]+[,;:.?]?|a [a-z]{3,}.*)( |$)", words) else words


def sentence(words):
    words = capital(words)
    return words if words.endswith((".", "?", ":", "!")) else words + "."


def identifier(title):
    return "part-" + "".join(c if c.isalnum() else "-" for c in title.lower()).strip("-")


def readable(formula):
    """The formula of a row of pointwise.def in the words of mathematics."""
    formula = re.sub(r"LIT\((\d+)\.0\)", r"\1", formula)
    formula = re.sub(r"LIT\(([^)]*)\)", r"\1", formula)
    formula = formula.replace("M_RINT", "M_ROUND").replace("M_MOD", "M_REMAINDER")
    return re.sub(r"\bM_(\w+)", lambda m: m[1].lower(), formula)


def read(name):
    """A file of this folder."""
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        return f.read().rstrip()


def fill(name, **values):
    """A template of this folder, with @NAME@ replaced."""
    return re.sub(r"@([A-Z]+)@", lambda m: values[m[1]], read(name))
