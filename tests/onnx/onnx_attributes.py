"""The checker of ONNX models knows the type of every attribute that an operator reads: otherwise an attribute of another type
would count as 0, and the model as valid."""
# ctest: labels=once
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ["HAUL_SOURCE"]) / "src/onnx"
READ = re.compile(r'haul__onnx_(int|float|string|ints|ints_or_input)\(c, "(\w+)"')
TABLE = re.compile(r'\{HAUL__ONNX_(\w+), "[^"]*",\s*((?:"[^"]*"\s*)+)\}')
VARIES = {"value"}  # a number in old operators, a tensor in others


def main():
    known = {}
    for kind, words in TABLE.findall((SOURCE / "plan/check.c").read_text()):
        known.update(dict.fromkeys(" ".join(re.findall('"([^"]*)"', words)).split(), kind.lower()))
    wrong = set()
    for path in sorted(SOURCE.rglob("*.c")):
        for kind, name in READ.findall(path.read_text()):
            kind = kind.removesuffix("_or_input")
            if name not in VARIES and known.get(name) != kind:
                wrong.add(f"{path.name} reads the attribute {name} as {kind}: add it to attribute_types of src/onnx/plan/check.c.")
    print("\n".join(sorted(wrong)))
    return bool(wrong) or len(known) < 80


sys.exit(main())
