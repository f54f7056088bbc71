"""Writes what is Python: _haul.pyi, the types of the extension for editors and checkers, and lists of names for haul.nn,
haul.optim and haul.data."""

import re

from bindings import OBJECTS
from emit_c import documentation, method_of, python_default, shown

TYPES = {"TENSOR": "Array", "INT": "int", "I64": "int", "U64": "int", "SIZE": "int", "UNSIGNED": "int", "F64": "float",
         "BOOL": "bool", "CHAR": "str", "TEXT": "str | PathLike[str]", "DTYPE": "DType", "SHAPE": "int | Sequence[int]",
         "DEVICE": "str", "ENUM": "str", "I64_ARRAY": "int | Sequence[int]", "F64_ARRAY": "float | Sequence[float]",
         "AXES": "int | Sequence[int]", "PADS": "Sequence[int]", "TENSORS": "Sequence[Array]", "INTS": "Sequence[int]",
         "I64S": "Sequence[int]", "NAMED": "Mapping[str, Array]", "NAMED_MODULES": "Mapping[str, Module]",
         "PAIRS": "Mapping[str, str]", "RESULT": "bool"}
RESULTS = {"TENSOR": "Array", "STATUS": "None", "NOTHING": "None", "TUPLE": "tuple[Array, ...]", "LIST": "tuple[Array, ...]",
           "TEXT": "str", "DTYPE": "str", "DEVICE": "str", "I64": "int", "U64": "int", "F64": "float", "BOOL": "bool",
           "ENUM": "str"}
HEAD = '''"""Written by python/generate from the public headers."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

DType = Literal["bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"] | Any

'''
ARRAY = '''class Array:
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    ndim: int
    size: int
    nbytes: int
    dtype: str
    device: str
    version: int
    T: Array
    mT: Array
    requires_grad: bool
    grad: Array | None
    def __init__(self, data: Any, dtype: DType | None = None, device: str | None = None) -> None: ...
    def __dlpack__(self, stream: int | None = None, *, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any: ...
    def to_device(self, device: str, /, *, stream: None = None) -> Array: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...
    def __getitem__(self, key: Any) -> Array: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __neg__(self) -> Array: ...
    def __pos__(self) -> Array: ...
    def __abs__(self) -> Array: ...
    def __invert__(self) -> Array: ...
    def __matmul__(self, other: Array) -> Array: ...
    def item(self) -> Any: ...
    def add_hook(self, gradient: Callable[[Array], Array | None] | None = None,
                 accumulated: Callable[[Array], Any] | None = None) -> int: ...
    def tolist(self) -> Any: ...
    def numpy(self) -> Any: ...
'''
OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]


def class_of(kind):
    return "".join(word.capitalize() for word in kind.split("_"))


def type_of(p):
    if p.kind == "OBJECT":
        return class_of(p.table)
    if p.kind == "OBJECTS":
        return f"Sequence[{class_of(p.table)}]"
    return TYPES[p.kind]


def result_of(function):
    if function.result == "OBJECT":
        return class_of(function.table)
    if function.result == "TENSOR" and any(p.kind == "RESULT" for p in function.parameters):
        return "Any"
    return RESULTS[function.result]


def parameters(function, bound):
    parts = ["self"] if bound else []
    for p in shown(function)[1 if bound else 0:]:
        name = p.name + ("_" if p.name in ("from", "lambda") else "")
        kind = type_of(p)
        if function.scalar and p is shown(function)[-1]:
            kind += " | float"
        if p.needed:
            parts.append(f"{name}: {kind}")
        else:
            default = python_default(p)
            parts.append(f"{name}: {kind}{' | None' if default == 'None' else ''} = {default}")
    if function.into:
        parts.append("*, out: Array | None = None")
    return ", ".join(parts)


def docstring(text, indent):
    text = text.replace("\\", "\\\\").replace('"""', "'''").strip()
    lines = text.split("\n")
    return f'{indent}"""' + ("\n").join([lines[0]] + [(indent + line).rstrip() for line in lines[1:]]) + '"""\n'


def stubs(bindings):
    out = [HEAD, ARRAY]
    for name in OPERATORS:
        out.append(f"    def __{name}__(self, other: Array | float) -> Array: ...\n"
                   f"    def __r{name}__(self, other: float) -> Array: ...\n")
    for name in COMPARISONS:
        out.append(f"    def __{name}__(self, other: Any) -> Array: ...{'  # type: ignore[override]' if name in ('eq', 'ne') else ''}\n")
    for kind in ("array", *OBJECTS):
        if kind != "array":
            out.append(f"\nclass {class_of(kind)}:\n")
        methods = [f for f in bindings.functions if (method_of(f) or ("",))[0] == kind]
        for f in methods:
            out.append(f"    def {method_of(f)[1]}({parameters(f, True)}) -> {result_of(f)}:\n")
            out.append(docstring(f.description or f.name, " " * 8))
        if kind != "array" and not methods:
            out.append("    ...\n")
    out.append("\ndef array(data: Any, dtype: DType | None = None, device: str | None = None) -> Array: ...\n"
               "def from_dlpack(x: Any, *, device: str | None = None, copy: bool | None = None) -> Array: ...\n")
    for f in bindings.functions:
        out.append(f"def {f.name}({parameters(f, False)}) -> {result_of(f)}:\n")
        out.append(docstring(documentation(f) or f.name, " " * 4))
    return "".join(out)


def names_file(what, pairs):
    lines = [f'"""Written by python/generate: {what}."""\n', "from ._haul import (  # noqa: F401"]
    for short, name in sorted(pairs):
        lines.append(f"    {name} as {short}," if short != name else f"    {name},")
    return "\n".join(lines) + "\n)\n"


def plain_functions(bindings):
    """Functions of the package itself: those that belong to no object."""
    submodules = {n for _, n in layers(bindings) + optimizers(bindings) + schedules(bindings) + data(bindings)}
    return [(f.name, f.name) for f in bindings.functions
            if f.name not in submodules and not (method_of(f) and method_of(f)[0] != "array")]


def layers(bindings):
    return [(f.name.removeprefix("nn_").removeprefix("init_"), f.name) for f in bindings.functions if f.name.startswith("nn_")]


def optimizers(bindings):
    return [(f.name, f.name) for f in bindings.functions if f.result == "OBJECT" and f.table == "optimizer"]


def schedules(bindings):
    return [(f.name.removeprefix("schedule_"), f.name) for f in bindings.functions
            if f.result == "OBJECT" and f.table == "schedule"]


def data(bindings):
    return [(re.sub("^(loader)_new$", r"\1", f.name).removeprefix("dataset_"), f.name) for f in bindings.functions
            if f.result == "OBJECT" and f.table in ("dataset", "transform", "loader")]


def files(bindings):
    return {"_haul.pyi": stubs(bindings), "_layers.py": names_file("the layers", layers(bindings)),
            "_optimizers.py": names_file("the optimizers", optimizers(bindings)),
            "_schedules.py": names_file("the schedules", schedules(bindings)),
            "_data.py": names_file("datasets, transforms and loaders", data(bindings)),
            "_functions.py": names_file("the functions", plain_functions(bindings))}
