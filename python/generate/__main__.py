"""python3 python/generate FOLDER: writes what the Python package has from the public headers:
functions.inc, which python/src/generated.c includes, and haul/*.py and haul/_haul.pyi."""

import os
import sys

import bindings
import emit_c
import emit_python


def write(path, text):
    try:
        with open(path, encoding="utf-8") as f:
            if f.read() == text:
                return
    except OSError:
        pass
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(os.path.join(folder, "haul"), exist_ok=True)
    known = bindings.Bindings()
    write(os.path.join(folder, "functions.inc"), emit_c.functions(known))
    for name, text in emit_python.files(known).items():
        write(os.path.join(folder, "haul", name), text)


if __name__ == "__main__":
    main()
