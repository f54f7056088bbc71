"""The markup of comments: paragraphs, lists, code by four more spaces, and names that become links.

In the comment of a declaration an item "- name: text" describes an argument, a field or a constant of that name. Words
that are no argument are written in backquotes: "- `cpu`: text".
"""

import html
import re

NAME = r"(?:haul|HAUL)_(?!_)\w+"


def blocks(text):
    """[("text" | "code" | "list", content)]: a list's content is its items."""
    out, lines, i = [], text.split("\n"), 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif re.match(r"^ {4,}", line) and (not out or out[-1][0] != "list" or not lines[i - 1].strip()):
            code = []
            while i < len(lines) and (not lines[i].strip() or re.match(r"^ {4,}", lines[i])):
                code.append(lines[i][4:])
                i += 1
            out.append(("code", "\n".join(code).rstrip()))
        elif re.match(r"^\s*- ", line):
            items = []
            while i < len(lines) and lines[i].strip():
                if re.match(r"^\s*- ", lines[i]):
                    items.append(lines[i].strip()[2:])
                else:
                    items[-1] += " " + lines[i].strip()
                i += 1
            out.append(("list", items))
        else:
            words = []
            while i < len(lines) and lines[i].strip() and not re.match(r"^\s*- |^ {4,}", lines[i]):
                words.append(lines[i].strip())
                i += 1
            out.append(("text", " ".join(words)))
    return out


def described(text):
    """{name: text} of the items "- name: text" and "- a, b: text" of a comment."""
    out = {}
    for kind, content in blocks(text):
        for item in content if kind == "list" else []:
            head = re.match(r"^(\.\.\.|\.?\w+(?:, \.?\w+)*): (.*)$", item)
            if head:
                for name in head[1].split(", "):
                    out[name.lstrip(".") if name != "..." else name] = head[2]
    return out


def mentioned(text):
    """The public names in a text; a name with a star, dots or an underscore at its end stands for several,
    and one with "=" or "$" is a variable of the environment."""
    for match in re.finditer(rf"(?<![\w$])({NAME})", text):
        behind = text[match.end() : match.end() + 3]
        if match[1].endswith("_") or behind.startswith("*") or behind.startswith("=") or behind == "...":
            continue
        yield match[1]


def files_mentioned(text):
    """Headers and documents that a text names."""
    return re.findall(r"(?<![\w/.-])((?:docs/)?[\w-]+\.(?:md|h|def))\b", text)


class Inline:
    """Makes HTML of running text. `link(name)` gives the address of a public name or None."""

    def __init__(self, link, page_link):
        self.link, self.page_link = link, page_link
        # What is set as code: backquotes, calls, options with values, names, shapes, environment variables.
        self.token = re.compile(
            r"`([^`]+)`"
            rf"|(?<![\w$])({NAME})"
            r"|(?<![\w)\].])(\.[a-z]\w*(?: = (?:\{[^}]*\}|\"[^\"]*\"|[\w.+-]*\w))?)"
            r"|(\$[A-Z_]+\b)"
            r"|(?<!\w)(\[(?:[A-Za-z0-9_. ,/+'-]|\.\.\.)*\](?!\())"
            r"|(?<![\w/.-])([\w-]+\.h)\b"
            r"|(\{[^{}]*\})"
        )

    def __call__(self, text):
        out, at = [], 0
        while True:
            match = self.token.search(text, at)
            if not match:
                out.append(html.escape(text[at:], quote=False))
                return "".join(out)
            out.append(html.escape(text[at : match.start()], quote=False))
            at = match.end()
            if match[2]:
                end = self.call_end(text, at)
                out.append(f"<code>{self.code(text[match.start():end])}</code>")
                at = end
            elif match[6]:
                address = self.page_link(match[6])
                name = html.escape(match[6])
                out.append(f'<a href="{address}"><code>{name}</code></a>' if address else f"<code>{name}</code>")
            else:
                out.append(f"<code>{self.code(match[1] or match[3] or match[4] or match[5] or match[7])}</code>")

    @staticmethod
    def call_end(text, at):
        """Behind the brackets that follow a name, if any."""
        if not text.startswith("(", at):
            return at
        depth = 0
        for i in range(at, min(len(text), at + 200)):
            depth += {"(": 1, ")": -1}.get(text[i], 0)
            if depth == 0:
                return i + 1
        return at

    def code(self, text):
        """Code with its names linked."""
        out, at = [], 0
        for match in re.finditer(rf"(?<!\w)({NAME})", text):
            out.append(html.escape(text[at : match.start()], quote=False))
            address = self.link(match[1])
            out.append(f'<a href="{address}">{match[1]}</a>' if address else match[1])
            at = match.end()
        out.append(html.escape(text[at:], quote=False))
        return "".join(out)


def to_html(text, inline, skip=()):
    """A comment as HTML; items that describe a name of `skip` are left out, because a table has them."""
    out = []
    for kind, content in blocks(text):
        if kind == "code":
            out.append(f"<pre>{inline.code(content)}</pre>")
        elif kind == "text":
            out.append(f"<p>{inline(content)}</p>")
        else:
            rows = [item for item in content if not head_in(item, skip)]
            if rows:
                out.append("<ul>" + "".join(f"<li>{inline(row)}</li>" for row in rows) + "</ul>")
    return "\n".join(out)


def head_in(item, names):
    head = re.match(r"^(\.\.\.|\.?\w+(?:, \.?\w+)*): ", item)
    return bool(head) and all((n if n == "..." else n.lstrip(".")) in names for n in head[1].split(", "))


def first_sentence(text):
    for kind, content in blocks(text):
        if kind == "text":
            sentence = re.match(r"^.*?(?<!et al)(?<!\.\.)[.:](?=\s|$)", content)
            return re.sub(r":$", ".", (sentence.group() if sentence else content)[:160])
    return ""
