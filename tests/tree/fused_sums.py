"""The compiler fuses the multiply-adds of a single chain, as it does those of several, also where gcc's tuning for a
processor avoids that: a row is bit-identical in a tile of one row and in a tile of several."""
# ctest: labels=once
import json
import os
import re
import shlex
import subprocess
import sys

text = """
#include "backends/cpu/kernels/vectors.h"
#define CHAIN(name, real)                                                                         \\
    typedef real name##_vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)))); \\
    void         name(real *out, const real *a, const name##_vector *b, long depth);              \\
    void         name(real *out, const real *a, const name##_vector *b, long depth)               \\
    {                                                                                             \\
        name##_vector sum = {0};                                                                  \\
        for (long i = 0; i < depth; i++)                                                          \\
            sum += a[i] * b[i];                                                                   \\
        *(name##_vector *)out = sum;                                                              \\
    }
CHAIN(single_f32, float)
CHAIN(single_f64, double)
"""
source = "src/backends/cpu/kernels/panels_fma.c"
version = subprocess.run([os.environ["HAUL_CC"], "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
avoiding = ["--param=avoid-fma-max-bits=512"] if "Free Software Foundation" in version else []
with open(os.environ["HAUL_BUILD"] + "/compile_commands.json") as file:
    entries = [e for e in json.load(file) if e["file"].endswith(source)]
assert entries, f"no command compiles {source}"

checked, failed = 0, False
for entry in entries:
    words = shlex.split(entry["command"])
    level = next(w for w in words if w.startswith("-DHAUL_KERNEL_LEVEL=")).split("=")[1]
    if level == "base":  # has no fused multiply-adds
        continue
    # What stands first is what a tuning sets: later options take precedence.
    first = next(i for i, w in enumerate(words) if w.startswith("-"))
    command = [os.environ["HAUL_CC"], *avoiding, *words[first:words.index("-o")], "-S", "-x", "c", "-o", "-", "-"]
    code = subprocess.run(command, check=True, input=text, stdout=subprocess.PIPE, text=True,
                          cwd=entry["directory"]).stdout
    fused, apart = (len(re.findall(rf"^\s+{name}", code, re.M)) for name in ("vfmadd", "vmulp"))
    print(f"{level}: {fused} fused multiply-adds, {apart} products")
    checked += 1
    failed |= not fused or apart > 0
if not checked:
    print("this build has no level with fused multiply-adds")
    sys.exit(77)
sys.exit(failed)
