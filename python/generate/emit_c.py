"""Writes functions.inc: for each function its parameters as a table, and what calls it (python/src/call.h)."""

import re

from bindings import OBJECTS, UNSCOPED

# Names that the class has otherwise.
OWN_METHODS = {"grad", "requires_grad", "set_grad", "tensor_grad", "copy", "module_train"}


def quoted(text):
    lines = text.split("\n")
    return "\n    ".join('"' + line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?") + ("\\n" if k < len(lines) - 1 else "") + '"'
                         for k, line in enumerate(lines))


def struct_of(function):
    if not function.members:
        return "    char nothing;\n"
    return "".join(f"    {kind}{'' if kind.endswith('*') else ' '}{name}{array};\n" for kind, name, array in function.members)


def call_of(function):
    call = f"{function.symbol}({', '.join(function.arguments)})"
    to = {"TENSOR": "r->tensor", "TUPLE": "r->status", "LIST": "r->status", "STATUS": "r->status", "NOTHING": "",
          "TEXT": "r->text", "DTYPE": "r->integer", "DEVICE": "r->device", "I64": "r->integer", "U64": "r->natural",
          "F64": "r->number", "BOOL": "r->integer", "OBJECT": "r->object", "ENUM": "r->integer"}[function.result]
    cast = {"ENUM": "(int64_t)", "DTYPE": "(int64_t)"}.get(function.result, "")
    return f"{to} = {cast}{call};" if to else f"{call};"


def parameter_row(function, p, seen):
    flags = [f"P_{w}" for w, on in (("NEEDED", p.needed), ("ZERO", p.zero), ("SPREAD", p.spread),
                                       ("NOT_ZERO", p.not_zero)) if on]
    if p.count and p.kind != "RESULTS":
        if p.count in seen and p.name == "milestones":
            flags.append("P_ONE_LESS")
        seen.add(p.count)
    where = f"offsetof(args_{function.name}, {p.path})"
    count = f"offsetof(args_{function.name}, {p.count})" if p.count else "0"
    size = p.size or (f"sizeof(((args_{function.name} *)0)->{p.count})" if p.count else 0)
    table = {"ENUM": f"names_of_{p.table}", "OBJECT": "NULL", "OBJECTS": "NULL"}.get(p.kind, "NULL")
    object_kind = f"KIND_{p.table.upper()}" if p.kind in ("OBJECT", "OBJECTS") else "0"
    return (f'    {{"{p.name}", PARAMETER_{p.kind}, {where}, {count}, {size}, {object_kind}, {" | ".join(flags) or 0}, '
            f'{p.value or 0}, {table}}},\n')


def python_default(p):
    if p.default in ("True", "False") or p.default.startswith('"'):
        return p.default.replace('"', "'")
    if p.kind == "BOOL":
        return "False"
    return "None"


def shown(function):
    return [p for p in function.parameters if p.kind != "RESULTS"]


def signature(function, first):
    parts = [first] if first == "$module" else []
    for k, p in enumerate(shown(function)):
        name = p.name + ("_" if p.name in ("from", "lambda") else "")
        if k == 0 and first == "$self":
            parts.append("$self")
        else:
            parts.append(name if p.needed else f"{name}={python_default(p)}")
    if function.into:
        parts.append("*, out=None")
    return f"{function.name}({', '.join(parts)})\n--\n\n"


def documentation(function):
    text = re.sub(r"[ \t]+\n", "\n", function.detail)
    return text if len(text) < 3500 else text[:3500] + " ..."


def method_of(function):
    """(kind of object or "array", name of the method), or None."""
    first = shown(function)[0] if shown(function) else None
    if first is None or not first.needed or function.name in OWN_METHODS:
        return None
    if first.kind == "TENSOR":
        return "array", function.name.removeprefix("tensor_")
    if first.kind == "OBJECT" and function.name.startswith(first.table + "_"):
        return first.table, function.name.removeprefix(first.table + "_")
    return None


def functions(bindings):
    out = ["/* Written by python/generate from the public headers. */\n\n"]
    for name, rows in sorted(bindings.used_enums.items()):
        out.append(f"static const call_name names_of_{name}[] = {{\n")
        out += [f'    {{"{word}", "{full}", {full}}},\n' for full, word in rows]
        out.append("    {NULL, NULL, 0}};\n")
    everything = bindings.functions + bindings.into
    scalars = {f.scalar for f in everything if f.scalar}
    into = {f.name for f in bindings.into}
    for f in sorted(everything, key=lambda f: (f.name not in into, f.name not in scalars, f.name)):
        seen = set()
        out.append(f"\ntypedef struct args_{f.name} {{\n{struct_of(f)}}} args_{f.name};\n")
        if f.parameters:
            out.append(f"static const call_parameter parameters_of_{f.name}[] = {{\n")
            out += [parameter_row(f, p, seen) for p in f.parameters]
            out.append("};\n")
        unused = "" if f.arguments and any("a->" in a for a in f.arguments) else "    (void)a;\n"
        out.append(f"static void run_{f.name}(void *arguments, call_result *r)\n{{\n"
                   f"    args_{f.name} *a = arguments;\n{unused}    (void)r;\n    {call_of(f)}\n}}\n")
        result = f"RESULT_{f.result}"
        table = f"names_of_{f.table}" if f.result == "ENUM" else "NULL"
        kind = f"KIND_{f.table.upper()}" if f.result == "OBJECT" else "0"
        out.append(f'static const call_function function_{f.name} = {{"{f.name}", '
                   f'{"parameters_of_" + f.name if f.parameters else "NULL"}, {len(f.parameters)}, sizeof(args_{f.name}), '
                   f'run_{f.name}, {result}, {kind}, {table}, {"true" if f.borrowed else "false"}, {"true" if f.name in UNSCOPED else "false"}, '
                   f'{"&function_" + f.scalar if f.scalar else "NULL"}, {"&function_" + f.into if f.into else "NULL"}}};\n')
        if f.name in into:
            continue
        out.append(f"static PyObject *py_{f.name}(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)\n{{\n"
                   f"    (void)self;\n    return haulpy_call(&function_{f.name}, NULL, args, n, names);\n}}\n")
        method = method_of(f)
        if method:
            out.append(f"static PyObject *me_{f.name}(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)\n"
                       f"{{\n    return haulpy_call(&function_{f.name}, self, args, n, names);\n}}\n")
    out.append("\nstatic PyMethodDef generated_functions[] = {\n")
    flags = "METH_FASTCALL | METH_KEYWORDS"
    for f in bindings.functions:
        out.append(f'    {{"{f.name}", (PyCFunction)(void (*)(void))py_{f.name}, {flags},\n    '
                   f'{quoted(signature(f, "$module") + documentation(f))}}},\n')
    out.append("    {NULL, NULL, 0, NULL}};\n")
    for kind in ("array", *OBJECTS):
        out.append(f"\nstatic PyMethodDef methods_of_{kind}[] = {{\n")
        for f in bindings.functions:
            method = method_of(f)
            if method and method[0] == kind:
                head = signature(f, "$self").replace(f.name, method[1], 1)
                out.append(f'    {{"{method[1]}", (PyCFunction)(void (*)(void))me_{f.name}, {flags},\n    '
                           f'{quoted(head + "The function " + f.name + ". " + f.description)}}},\n')
        if kind == "array":
            out.append("    HAND_WRITTEN_METHODS\n")
        out.append("    {NULL, NULL, 0, NULL}};\n")
    return "".join(out)
