# The reference: every name is described, arguments exist, no page is missing, links lead somewhere, and what it says of
# operations is what the library says. Then each fault is made in a copy of the headers, and must be found.
# ctest: labels=once
import json
import os
import re
import shutil
import subprocess
import sys

SOURCE = os.environ["HAUL_SOURCE"]
TOOL = os.path.join(SOURCE, "tools", "reference")
HEADERS = os.path.join(SOURCE, "include", "haul")
sys.path.insert(0, TOOL)
sys.dont_write_bytecode = True
import check  # noqa: E402
import examples  # noqa: E402
import model  # noqa: E402
import text  # noqa: E402

failed = 0


def say(fine, what, more=""):
    global failed
    if not fine:
        failed += 1
        print(f"FAILED: {what}\n{more}")


def run(*arguments):
    """Exit status and messages of tools/reference."""
    result = subprocess.run(
        [sys.executable, "-B", TOOL, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    return result.returncode, result.stdout


# ---- the headers as they are ----

status, output = run("--facts", os.environ["HAUL"], "--out", "docs")
say(status == 0, "the reference is complete and its links lead somewhere", output)
pages = {name: open(os.path.join("docs", name), encoding="utf-8").read() for name in os.listdir("docs")}
found = [line for line in json.loads(pages["names.js"].split("=", 1)[1].rstrip(";\n")) if line[0] == "haul_sgd"]
say(found and found[0][1] == "optim.html#haul_sgd", "the search knows haul_sgd", str(found))
say(found and "nesterov" in found[0][4].split(), "the search knows the options of haul_sgd", str(found))
rows = {line[0]: line for line in json.loads(pages["names.js"].split("=", 1)[1].rstrip(";\n"))}
for word, name in (("DataLoader", "haul_loader_new"), ("state_dict", "haul_module_tensors"), ("torch.cat", "haul_cat"),
                   ("to device", "haul_to"), ("nn.Linear", "haul_nn_linear"), ("einsum", "haul_matmul"), ("gpu", "haul_device_get"),
                   ("torch.randn", "haul_normal"), ("LogSoftmax", "haul_nn_log_softmax"), ("lr_scheduler", "haul_schedule_step")):
    say(word in rows[name][5], f"the search finds {name} by {word}", str(rows[name]))
say(not set(examples.WORDS) - set(rows), "words of PyTorch lead to names that exist", str(set(examples.WORDS) - set(rows)))
shown = "".join(pages.values()).count('<pre class="example">')
say(shown > 380, "most functions without an example of their own show a call", str(shown))
entry = pages["optim.html"].split('<section class="entry" id="haul_adam">')[1].split("</section>")[0]
say('<pre class="example">' in entry and "(net" in entry, "haul_adam shows how it is called", entry)
say(not re.search(r'(href|src)="(https?:)?//', "".join(pages.values())), "the pages need no network")
say(".momentum" in pages["optim.html"] and "<code>1e-8</code>" in pages["optim.html"], "options have their defaults")
say("sigmoid(x)" in pages["pointwise.html"], "pointwise operations have formulas")
entry = pages["optim.html"].split('<section class="entry" id="haul_sgd">')[1].split("</section>")[0]
say("haul_sgd_with" in entry and ".nesterov" in entry, "a macro, its function and its options are one entry")

# What the library exports is in the reference.
reference = model.build(HEADERS, model.read_operations(os.path.join(SOURCE, "docs", "operations.json")))
library = os.path.join(os.environ["HAUL_BUILD"], "libhaul.so")
if os.path.exists(library) and shutil.which("nm"):
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, universal_newlines=True, check=True
    ).stdout
    exported = set(re.findall(r"\b(haul_(?!_)\w+)", symbols))
    say(len(exported) > 300, "nm lists the exported functions", symbols[:500])
    say(
        not exported - reference.where.keys(),
        "exported functions without an entry",
        " ".join(sorted(exported - reference.where.keys())),
    )

# The program on the start page compiles.
with open(os.path.join(TOOL, "example.txt"), encoding="utf-8") as f:
    example = f.read()
with open("example.c", "w", encoding="utf-8") as f:
    f.write("#include <haul/haul.h>\n#include <stdio.h>\nint main(void)\n{\n" + example + "}\n")
compiled = subprocess.run(
    [
        os.environ["HAUL_CC"],
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        "-I" + os.path.join(SOURCE, "include"),
        "example.c",
    ],
    stderr=subprocess.PIPE,
    universal_newlines=True,
)
say(compiled.returncode == 0, "the program on the start page compiles", compiled.stderr)

# The examples in comments compile. Functions come first, statements follow; a block without a semicolon is no C.
PREAMBLE = """#include <haul/haul.h>
#include <haul/kernel.h>
#include <stdio.h>
void train(haul_tensor *x, haul_tensor *y);
void run(void);
double validate(void);
haul_tensor *x, *y, *a, *b, *w, *mask, *q, *k, *v, *h, *c, *loss, *pictures, *image;
haul_module *net, *attention, *lstm;
haul_optimizer *sgd, *adam;
haul_scope *scope;
haul_dataset *dataset;
haul_average *average;
haul_schedule *both;
haul_grad_scaler *scaler;
haul_training_position position;
"""


def split_functions(block):
    """The lines at file scope of an example, and its statements."""
    end = block.rfind("\n}") if re.search(r"^\{$|^(static|typedef) |^HAUL_KERNEL", block, re.M) else -1
    end = block.find("\n", end + 1) if end >= 0 else 0
    return (block, "") if end < 0 else (block[:end], block[end:])


blocks_of_headers = {
    block for _, body in check.texts(reference) for kind, block in text.blocks(body) if kind == "code" and ";" in block
}
say(len(blocks_of_headers) > 25, "the headers have examples", str(len(blocks_of_headers)))
for block in blocks_of_headers:
    functions, statements = split_functions(block)
    local = re.sub(r"^", "    ", statements, flags=re.M)
    source = f"{PREAMBLE}{functions}\nvoid example(void);\nvoid example(void)\n{{\n{local}\n}}\n"
    compiled = subprocess.run(
        [
            os.environ["HAUL_CC"],
            "-std=c11",
            "-Wall",
            "-Werror",
            "-Wno-unused",
            "-fsyntax-only",
            "-xc",
            "-",
            "-I" + os.path.join(SOURCE, "include"),
        ],
        input=source,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    say(compiled.returncode == 0, "an example in a comment compiles", block + "\n" + compiled.stderr)


# ---- faults ----


def fault(what, name, old, new, message):
    """Replace `old` by `new` in a copy of a header; the check must fail and say `message`."""
    shutil.rmtree("include", ignore_errors=True)
    shutil.copytree(HEADERS, "include")
    path = os.path.join("include", name)
    if old is None:
        changed = new
    else:
        with open(path, encoding="utf-8") as f:
            changed = f.read()
        say(old in changed, f"{what}: {name} has {old!r}")
        changed = changed.replace(old, new, 1)
    with open(path, "w", encoding="utf-8") as f:
        f.write(changed)
    status, output = run("--check", "--include", "include")
    say(status != 0 and message in output, f"{what} is found: {message}", output)


END = "\nHAUL_END"
fault(
    "a function without a description",
    "random.h",
    END,
    "\nHAUL_API int haul_new(int x);\n" + END,
    "haul_new has no description",
)
fault("a macro without a description", "random.h", END, "\n#define HAUL_NEW 3\n" + END, "HAUL_NEW has no description")
fault(
    "a macro with arguments",
    "random.h",
    END,
    "\n#define haul_twice(x) (2 * (x))\n" + END,
    "haul_twice has no description",
)
fault(
    "a struct without a description",
    "random.h",
    END,
    "\ntypedef struct haul_new {\n    int x; /* x */\n} haul_new;\n" + END,
    "haul_new has no description",
)
fault(
    "a field without a description",
    "random.h",
    END,
    "\n/* New. */\ntypedef struct haul_new {\n    int x, y; /* a field */\n    int z;\n} haul_new;\n" + END,
    "field haul_new.z has no description",
)
fault(
    "an option without a description",
    "optim.h",
    "/* Nesterov's momentum; needs .momentum, and no .dampening */",
    "",
    "field haul_sgd_options.nesterov has no description",
)
fault(
    "a constant without a description",
    "random.h",
    END,
    "\n/* New. */\nenum { HAUL_FIRST, /* the first */ HAUL_SECOND };\n" + END,
    "constant HAUL_SECOND has no description",
)
fault(
    "an opaque type without a description",
    "random.h",
    END,
    "\ntypedef struct haul_new haul_new;\n" + END,
    "haul_new has no description",
)
fault(
    "a function type without a description",
    "random.h",
    END,
    "\ntypedef int haul_new(int x);\n" + END,
    "haul_new has no description",
)
fault(
    "a variable without a description",
    "random.h",
    END,
    "\nHAUL_API extern int haul_new;\n" + END,
    "haul_new has no description",
)
fault("an operation without a description", "pointwise.def", "/* x times x. */\n", "", "haul_square has no description")
fault(
    "an operation that the facts lack",
    "pointwise.def",
    "/* x times x. */\n",
    "/* x. */\nHAUL_UNARY(same, ANY, x, NOTHING, g, -1, 1)\n/* x times x. */\n",
    "haul_same of pointwise.def is missing",
)
fault(
    "an argument that does not exist",
    "random.h",
    END,
    "\n/* New.\n *\n * - x: a number\n * - y: another */\nHAUL_API int haul_new(int x);\n" + END,
    "haul_new has no argument, field or constant y",
)
fault(
    "a name that does not exist",
    "random.h",
    END,
    "\n/* As haul_old. */\nHAUL_API int haul_new(int x);\n" + END,
    "there is no haul_old",
)
fault(
    "a document that does not exist",
    "random.h",
    END,
    "\n/* See docs/no.md. */\nHAUL_API int haul_new(int x);\n" + END,
    "there is no document docs/no.md",
)
fault(
    "a header without a page",
    "new.h",
    None,
    "/* New: a header. */\nHAUL_BEGIN\nHAUL_END\n",
    "new.h: no page has this header",
)
fault(
    "a section without a page", "ops.h", "---- Reductions: ", "---- Sums: ", "ops.h: Reductions: the page has no header"
)
fault(
    "a page without an introduction", "random.h", "/* Random numbers: ", "/* Random numbers ", "needs a first sentence"
)
fault(
    "a macro with options and no words",
    "autograd.h",
    END,
    "\n#define haul_new(...) haul_new_with(HAUL__OPTIONS(haul_new_options, .x = __VA_ARGS__))\n" + END,
    "haul_new has no description",
)

# The tool refuses what it cannot read, and does not pass over it.
fault("a comment that does not end", "random.h", None, "/* Random numbers: ", "a comment does not end")
fault("an unknown row", "pointwise.def", "HAUL_UNARY(neg,", "HAUL_TERNARY(neg,", "a row that is not known")

# ---- facts and links ----

facts = dict(reference.operations)
wrong = {**facts, "haul_add": {**facts["haul_add"], "differentiable": False}}
del wrong["haul_mul"]
found = "\n".join(check.check_facts(wrong, facts))
say("haul_mul is missing" in found and "haul_add: differentiable is False" in found, "wrong facts are found", found)
say(check.check_facts(facts, facts) == [], "right facts are accepted")

os.makedirs("links", exist_ok=True)
with open("links/a.html", "w", encoding="utf-8") as f:
    f.write('<p id="x"><a href="#x">fine</a><a href="#y">no</a><a href="b.html">no</a><i id="x"></i></p>')
found = "\n".join(check.check_links("links"))
say("#y" in found and "b.html" in found and "the id x is there twice" in found, "dead links are found", found)
say("#x," not in found, "a good link is accepted", found)

sys.exit(1 if failed else 0)
