"""Custom operations whose kernels are texts: haul.kernel and haul.pointwise."""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _haul

Names = Sequence[str] | Mapping[str, str]
TYPES = ("T", "U8", "I8", "I16", "I32", "I64", "F32", "F64")
# Those that haul/kernel.h recommends: vectors, and the bits of other devices.
FLAGS = ("-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-march=native",
         "-w", "-fPIC", "-shared", "-Wl,-z,defs")
INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def _compile(folder, symbol, buffers, text):
    """The path of a shared object with the CPU's form; None if there is no C compiler."""
    source, made = os.path.join(folder, "kernel.c"), os.path.join(folder, "kernel.so")
    listed = ", ".join(f"{kind}, {name}" for name, kind in buffers)
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <haul/kernel.h>\n"
                   f"HAUL_KERNEL{len(buffers)}({symbol}, {listed}, {{\n{text}\n}});\n"
                   f"extern const haul_kernel haul_python_kernel __attribute__((visibility(\"default\"), alias(\"{symbol}\")));\n")
    compiler, flags = shlex.split(os.environ.get("CC") or "cc"), shlex.split(os.environ.get("CFLAGS") or "")
    try:
        done = subprocess.run([*compiler, *FLAGS, *flags, "-I", INCLUDE, "-o", made, source, "-lm"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        return None
    if done.returncode:
        raise ValueError(f"the kernel does not compile:\n{done.stdout}")
    return made


def _buffers(given, what):
    pairs = tuple(given.items()) if isinstance(given, dict) else tuple((name, "T") for name in given)
    for name, kind in pairs:
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
            raise ValueError(f"{what}: {name!r} is not a name; use letters, digits and _")
        if kind not in TYPES:
            raise ValueError(f"{what}: {name} has the type {kind!r}; {', '.join(TYPES)} are possible")
    return pairs


class kernel:
    """kernel("my.swish", "FOR_ITEMS(i) STORE(y, i, LOAD(x, i) * M_SIGMOID(LOAD(x, i)));"): an operation of your own, computed
    by a kernel on all devices. haul/kernel.h has the words of its text, in which buffers have the names of the results and the
    operands.

    - operands, results: their names, or their types by name, {"x": "T", "index": "I64"}. T is any floating dtype
    - numbers: names of numbers that a call gets by these names; NUMBER(0) is the first
    - shapes: a function that gets the shapes of the operands and returns that of the result, or a tuple of several; without
      it results are like the first operand
    - launch: launch(shapes_of_operands, shapes_of_results) returns the number of work items, or (items, SIZE(0), ...); without
      it there are as many as elements of the first result, and no sizes
    - gradient: gradient(gradients, operands, results, **numbers) returns a tuple with the gradients of the operands
    - flops: floating point operations for each element, for estimates

    A kernel that indexes beyond its buffers reads and writes other memory. The CPU's form is compiled at once, by $CC or cc,
    with $CFLAGS; without a compiler only other devices can compute it. The name is used once in a process."""

    def __init__(self, name: str, text: str, gradient: Callable | None = None, operands: Names = ("x",), results: Names = ("y",),
                 numbers: Sequence[str] = (), shapes: Callable | None = None, launch: Callable | None = None, flops: float = 0):
        for names in (operands, results, numbers):
            if isinstance(names, str):
                raise ValueError(f"{name}: a tuple of names is expected, not {names!r}; write ({names!r},)")
        made, taken = _buffers(results, "results"), _buffers(operands, "operands")
        if not 2 <= len(made) + len(taken) <= 6 or not made or not taken:
            raise ValueError(f"{name}: one operand and one result at least, and six buffers at most, are expected")
        self.name, self._numbers, self._results = name, tuple(numbers), len(made)
        for function in (gradient, shapes, launch):
            if function is not None and not callable(function):
                raise TypeError(f"{name}: a function is expected, not {function!r}")
        symbol = "python_" + re.sub(r"\W", "_", name)
        taken = tuple((key, "const " + kind) for key, kind in taken)

        def backward(gradients, operands, results, values=()):
            return gradient(gradients, operands, results, **dict(zip(self._numbers, values)))

        with tempfile.TemporaryDirectory(prefix="haul-kernel-") as folder:
            path = _compile(folder, symbol, (*made, *taken), text)
            self._operation = _haul._kernel_new(name, symbol, "{\n" + text + "\n}", path, made, taken, gradient and backward,
                                                shapes, launch, len(self._numbers), flops)

    def __call__(self, *operands: _haul.Array, **numbers: float) -> Any:
        if numbers.keys() != {*self._numbers}:
            raise TypeError(f"{self.name}: numbers: {', '.join(self._numbers) or 'none'} expected, not "
                            f"{', '.join(numbers) or 'none'}")
        return _haul._custom_apply(self._operation, operands, self._results, tuple(numbers[key] for key in self._numbers))


def pointwise(name: str, formula: str, gradient: Callable | None = None, operands: Sequence[str] = ("x",),
              numbers: Sequence[str] = (), flops: float = 0) -> kernel:
    """pointwise("my.swish", "x * M_SIGMOID(beta * x)", numbers=("beta",)): an operation whose result has for each element the
    value of a formula of C. It names elements of the operands, which have one shape, and numbers; all are floating. `gradient`
    and the rest are those of haul.kernel."""
    names = [*operands, *numbers]
    lines = [f"const A {key} = LOAD(at_{key}, i); (void){key};" for key in operands]
    lines += [f"const A {key} = NUMBER({k}); (void){key};" for k, key in enumerate(numbers)]
    if len({*names}) != len(names) or any(not re.fullmatch(r"[A-Za-z]\w*", key, re.ASCII) for key in names):
        raise ValueError(f"{name}: operands and numbers have names of their own, of letters, digits and _")

    def shapes(*given):
        if any(shape != given[0] for shape in given):
            raise ValueError(f"{name}: the shapes {', '.join(str([*shape]) for shape in given)} are not equal")
        return given[0]

    return kernel(name, f"FOR_ITEMS(i) {{ {' '.join(lines)} STORE(at_result, i, {formula}); }}", gradient,
                  [f"at_{key}" for key in operands], ["at_result"], numbers, shapes if len(operands) > 1 else None, None, flops)
