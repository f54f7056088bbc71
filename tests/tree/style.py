"""Rules of the house style that the formatter does not know (CONTRIBUTING.md): no blank line follows the
declarations that a function begins with, a status is a condition by itself, facts stand where runs reach them, and
comments state facts: they ask no questions, and do without some words that make a fact hard to read. Documents,
messages and headers avoid idioms that are not English, and a message does not say that a thing is absent with "there
is no". Programs for users may write != HAUL_OK."""
# ctest: labels=once
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ["HAUL_SOURCE"])
FOLDERS = ("include", "src", "cli", "tests", "bench", "examples", "fuzz", "tools")
COMMENTED = ("include", "src", "cli", "tests")  # folders whose comments are checked for words
SPOKEN = ("include", "src", "cli", "examples", "bench")  # folders whose comments and messages are checked for idioms
WORDS = re.compile(r"""\b(what\s+(is|was|are|were) | (?<!there\s)(is|are|was|were)\s+no(?!\s+(longer|more)) | such | tells? | told
    | (some|no)body | lies? | lay | lying | besides?)\b""", re.X | re.I)
COMMENT = re.compile(r'''"(?:\\.|[^"\\\n])*" | \'(?:\\.|[^\'\\\n])*\' | (/\*.*?\*/ | //[^\n]*)''', re.X | re.S)
QUOTED = re.compile(r"\"[^\"]*\"|`[^`]*`")  # within comments: what a program prints or a user writes
QUESTION = re.compile(r"[^\s?]\?(?=[\s)\"*]|$)")
STATEMENT = re.compile(r"(return|goto|if|for|while|switch|do|else|case|break|continue|default|asm|__asm__)\b")
NAMED_TYPE = re.compile(r"(static |const )*(typedef|struct|enum|union)\b[^;=]*\{")
DECLARATION = re.compile(r"""((static|const|volatile|register|struct|enum|union|unsigned|signed|long|short|extern|_Thread_local
    |_Alignas\([^)]*\))\s+)* [A-Za-z_]\w* (\s+(const|int|long|char|short|unsigned))* (\s+\**\s*|\s*\*+\s*) (const\s+|restrict\s+)*
    \** [A-Za-z_]\w* \s* [\[=,;]""", re.X)
FUNCTION_POINTER = re.compile(r"[A-Za-z_][\w\s*]*\(\*(const )?\w+(\[\w*\])?\)\s*\(")


IDIOMS = re.compile(r"""\b(the\s+same\s+bits | trainings | stretch(e[sd])? | told | for\s+nothing
    | there\s+(is|are)\s+no\b[^.;|]*;\s+there\s+(is|are))\b""", re.X | re.I)
ABSENT = re.compile(r"\bthere (is|are) (no|nothing|neither)\b", re.I)  # better: "unknown x", "found no x"
TERMS = {"stretch"}  # of formats that Haul reads
UNREACHED = re.compile(r"^( +)(return|goto|break|continue)\b[^;]*;[^\n]*\n+\1HAUL__ASSERT\b", re.M)
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')


def is_declaration(statement):
    if STATEMENT.match(statement):
        return False
    return any(form.match(statement) for form in (NAMED_TYPE, DECLARATION, FUNCTION_POINTER))


def code_of(line):
    """The line without comments, and without what its texts contain."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', re.sub(r"'(\\.|[^'\\])*'", "0", line))
    return re.sub(r"/\*.*?(\*/|$)", "", line).strip()


def first_statements(lines):
    """The statements up to the first blank line of a function's body, and the number of their lines."""
    statements, statement, depth = [], "", 0
    for number, line in enumerate(lines):
        if not line.strip() and depth == 0:
            return statements, number
        if line == "}" or line.startswith("#"):
            break
        code = code_of(line)
        statement = f"{statement} {code}".strip()
        depth += code.count("{") + code.count("(") - code.count("}") - code.count(")")
        if statement.endswith(";") and depth == 0:
            statements.append(statement)
            statement = ""
    return [], 0


def blank_lines(lines):
    """The numbers of the lines, from 1, that are blank and follow the declarations of a function."""
    for start, line in enumerate(lines):
        if line == "{":
            statements, count = first_statements(lines[start + 1:])
            if statements and all(map(is_declaration, statements)):
                yield start + 1 + count + 1


def comments(text):
    """(position, text) of each comment, with blanks for the ends of its lines."""
    for comment in COMMENT.finditer(text):
        yield comment.start(), re.sub(r"\n\s*(\*(?!/))?[ \t]*", lambda gap: " " * len(gap[0]), comment[1] or "")


def comment_faults(text):
    """(line, what is wrong) for each avoided word and each question in the comments of a text. A line may end between
    two words."""
    for start, comment in comments(text):
        for found in WORDS.finditer(comment):
            words = " ".join(found[0].split())
            yield text.count("\n", 0, start + found.start()) + 1, f"a comment says \"{words}\": state the fact plainly"
        for found in QUESTION.finditer(QUOTED.sub(lambda quoted: "_" * len(quoted[0]), comment)):
            yield text.count("\n", 0, start + found.start()) + 1, "a comment asks a question: state the fact"


def idiom_faults(text):
    """(line, what is wrong) for each idiom of a document or a comment that is to be said in another way."""
    for found in IDIOMS.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, f"\"{' '.join(found[0].split())}\" is not plain English"


def message_faults(text):
    """The same for what a program prints: its literals, without its comments."""
    code = COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]) if found[1] else found[0], text)
    for literal in LITERAL.finditer(code):
        for found in (IDIOMS.search(literal[1]), ABSENT.search(literal[1])):
            if found and literal[1] not in TERMS:
                yield text.count("\n", 0, literal.start()) + 1, f"a message says \"{found[0]}\": say it in another way"


def documents():
    yield from sorted(path for path in SOURCE.glob("*.md"))
    for folder in ("docs", "examples", "python", "packaging"):
        yield from sorted((SOURCE / folder).rglob("*.md"))


def faults(text, for_users=False):
    """(line, what is wrong) for each rule that the text breaks."""
    lines = text.split("\n")
    for number in blank_lines(lines):
        yield number, "a blank line follows the declarations of a function"
    for number, line in enumerate(lines, 1):
        if not for_users and re.search(r"(if|while) \(.*[^=!]+ != HAUL_OK\)", code_of(line)):
            yield number, "a status is a condition by itself, without != HAUL_OK"
    for found in UNREACHED.finditer(text):
        yield text.count("\n", 0, found.end()) + 1, "a fact stands behind a statement that leaves"


def test_of_the_test():
    text = "int f(void)\n{\n    int   a = 1;\n    char *b[] = {\"x\"};\n\n    return a;\n}\n"
    good = "int f(void)\n{\n    int a = 1;\n    a++;\n\n    return a;\n}\n"
    condition = "    if (haul_sync() != HAUL_OK)\n"
    if [line for line, _ in faults(text)] != [5] or list(faults(good)) or [line for line, _ in faults(condition)] != [1]:
        sys.exit("faults were made, and are not found")
    fact = "    if (a)\n        return f(\n            a);\n    HAUL__ASSERT(a);\n    return;\n    HAUL__ASSERT(b);\n"
    if [line for line, _ in faults(fact)] != [6]:
        sys.exit("a fact was written that no run reaches, and is not found, or another one is")
    comment = "/* A line.\n * What\n * is behind it is no copy, and such a \"*/ f(\"nobody\"); // tells\n"
    if [(line, what.split('"')[1]) for line, what in comment_faults(comment)] != [(2, "What is"), (3, "is no"), (3, "such"),
                                                                                  (3, "tells")]:
        sys.exit("words to avoid were written into comments, and are not found")
    questions = "/* Is it\n * free? Then go. */ f(\"why?\"); // a ? b : c, \"Stop now?\", `x?`\n// (or not?)\n"
    if [line for line, _ in comment_faults(questions)] != [2, 3]:
        sys.exit("questions were written into comments, and are not found, or others are")
    idioms = "It has the same\nbits. He told us.\nThere is no\nx; there are y and z. Stretch. Restretch the training's bits.\n"
    if [line for line, _ in idiom_faults(idioms)] != [1, 2, 3, 4]:
        sys.exit("idioms were written into a document, and are not found, or others are")
    literals = 'f("there is no x"); /* there is no "y" */\nf("stretch", "a stretch"); f("there is a z");\n'
    if [line for line, _ in message_faults(literals)] != [1, 2]:
        sys.exit("messages were written that are not found, or others are")


def main():
    test_of_the_test()
    messages = []
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.suffix in (".c", ".h"):
                for line, what in faults(path.read_text(encoding="utf-8"), folder in ("include", "examples")):
                    messages.append(f"{path.relative_to(SOURCE)}:{line}: {what}")
            if path.suffix in (".c", ".h", ".def") and folder in COMMENTED:
                for line, what in comment_faults(path.read_text(encoding="utf-8")):
                    messages.append(f"{path.relative_to(SOURCE)}:{line}: {what}")
            if path.suffix in (".c", ".h", ".def") and folder in SPOKEN:
                text = path.read_text(encoding="utf-8")
                said = [found for start, comment in comments(text) for found in
                        ((text.count("\n", 0, start) + line, what) for line, what in idiom_faults(comment))]
                for line, what in [*said, *message_faults(text)]:
                    messages.append(f"{path.relative_to(SOURCE)}:{line}: {what}")
    for path in documents():
        for line, what in idiom_faults(path.read_text(encoding="utf-8")):
            messages.append(f"{path.relative_to(SOURCE)}:{line}: {what}")
    print("\n".join(messages))
    sys.exit(1 if messages else 0)


main()
