"""The functions of the public headers as the Python package calls them: names, parameters and results.

The headers are read by tools/reference. A function that takes or returns what no row of KINDS describes is left out.
"""

import os
import re
import sys
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "reference"))
import model  # noqa: E402

OBJECTS = ("module", "optimizer", "schedule", "average", "grad_scaler", "generator", "dataset", "transform", "loader",
           "safetensors", "best_weights", "recording", "plan", "group", "parallel", "profile",
           "ledger")

# Written by hand in the extension or in Python, or of no use there.
LEFT_OUT = set("""
    error_set error_status error_message error_operation error_argument error_clear status_name
    scope_push scope_push_named scope_pop scope_return scope_depth drop keep release take scope_set_memory_limit
    tensor_is_valid tensor_fail tensor_check tensor_ndim tensor_dim tensor_stride tensor_shape tensor_count tensor_bytes
    tensor_dtype tensor_device print tensor_format device_is_valid item item_i64 fill_into copy_into zero_into from_host
    wrap_host read write map unmap index index_put index_put_add to_dlpack to_dlpack_legacy from_dlpack
    from_dlpack_legacy call call_child module_state module_new loader_next loader_start loader_start_at
    dataset_split recording_new recording_run plan_new autocast_begin autocast_end
    random_state_get random_state_set haul_operation_find operation_count operation_find stat_count
    memory_report_text memory_report_json einsum_list apply apply_all custom_register label_begin label_end
    schedule_state schedule_load_state module_add_hook module_remove_hook tensor_add_hook events_unsubscribe scalar
""".split())

# Results that belong to an object: they are kept, not taken from the scope.
BORROWED = {"tensor_grad", "module_parameter", "module_buffer", "module_child", "optimizer_module", "set_requires_grad",
            "current_generator", "group_get"}

# These change settings of the innermost scope, so they run in no scope of their own.
UNSCOPED = {"set_device", "set_placement_policy", "set_grad_enabled", "set_matmul_precision", "set_generator",
            "set_scope_threads", "budget", "plan_apply", "parallel_begin", "profile_begin",
            "ledger_begin"}

# Of these a list of results has as many tensors as the count says.
RESULT_LISTS = {"split": "parts", "chunk": "parts", "meshgrid": "grids", "jacobian": "results", "hvp": "results",
                "grad": "results"}

# Plain parameters that may be omitted, and their value.
OMITTED = {"keepdim": "false", "descending": "false", "right": "false", "align_corners": "false", "replacement": "false"}

NUMBERS = {"int": "INT", "int64_t": "I64", "uint64_t": "U64", "double": "F64", "bool": "BOOL", "size_t": "SIZE",
           "unsigned": "UNSIGNED", "char": "CHAR"}
# Members that read HAUL_ZERO although their comment does not say so. All others read 0 as their default.
ZERO_READ = {"F64": {"scale", "decay", "delta", "eps", "factor", "dx", "rise", "divisor", "final_divisor", "low", "high"},
             "I64": {"size", "fill", "divisor", "stride", "dilation"}, "INT": set(),
             "I64_ARRAY": {"stride", "dilation", "size"}, "F64_ARRAY": {"betas", "momentum", "deviation"}}
ZERO_NOT_READ = {"nn_avg_pool1d", "nn_max_pool1d"}
# For these 0 is a value, although the text of the default does not begin with 0.
ZERO_ALLOWED = {"workers", "first_piece", "padding", "output_padding"}
SPREAD = {"stride", "padding", "dilation", "output_padding"}  # one number stands for all


@dataclass
class Parameter:
    """`name` as Python writes it; `path` of the member in the struct of arguments; `count` that of its length."""

    name: str
    kind: str
    path: str
    type: str
    count: str = ""
    size: str = ""
    table: str = ""
    needed: bool = True
    zero: bool = False
    not_zero: bool = False
    spread: bool = False
    default: str = ""
    value: str = ""
    text: str = ""


@dataclass
class Function:
    name: str
    symbol: str
    result: str
    table: str = ""
    parameters: list = field(default_factory=list)
    members: list = field(default_factory=list)  # (type, name, array) of the struct of arguments
    arguments: list = field(default_factory=list)  # of the call, in C
    scalar: str = ""
    into: str = ""  # the function that writes to `out`
    description: str = ""
    detail: str = ""
    borrowed: bool = False
    operation: bool = False
    section: str = ""


class Unsupported(Exception):
    pass


def object_of(kind):
    found = re.match(r"^(?:const )?haul_(\w+) \*$", kind)
    return found[1] if found and found[1] in OBJECTS else None


class Bindings:
    def __init__(self):
        facts = model.read_operations(os.path.join(ROOT, "docs", "operations.json"))
        self.reference = model.build(os.path.join(ROOT, "include", "haul"), facts)
        self.facts = facts
        items = [i for h in self.reference.headers.values() for i in h.items]
        self.enums = {i.name: [m.name for m in i.members] for i in items if i.kind == "enum" and i.name.startswith("haul_")}
        self.structs = {i.name: i for i in items if i.kind == "struct"}
        self.used_enums = {}
        self.functions = []
        self.left_out = []
        for page in self.reference.pages:
            for entry in page.entries:
                self.add_entry(page, entry)
        self.functions.sort(key=lambda f: f.name)
        names = {f.name: f for f in self.functions}
        for name, function in list(names.items()):
            base = names.get(re.sub("_scalar(_into)?$", r"\1", name)) if re.search("_scalar(_into)?$", name) else None
            if base and self.same_but_number(base, function):
                base.scalar = name
        self.link_into(names)

    def link_into(self, names):
        """haul_add_into is `out` of add, where the other parameters are the same; else it is a function of its own."""
        self.into = []
        for name, function in names.items():
            base = names.get(name.removesuffix("_into")) if name.endswith("_into") else None
            if base and [p.name for p in function.parameters] == ["out"] + [p.name for p in base.parameters]:
                base.into = name
                self.into.append(function)
        linked = {f.name for f in self.into}
        self.functions = [f for f in self.functions if f.name not in linked]

    @staticmethod
    def same_but_number(base, scalar):
        a, b = base.parameters, scalar.parameters
        return (len(a) == len(b) and all(x.kind == y.kind for x, y in zip(a[:-1], b[:-1]))
                and a[-1].kind == "TENSOR" and b[-1].kind == "F64")

    def add_entry(self, page, entry):
        for item in entry.items:
            if item.kind == "operation":
                for name, signature in model.generated_functions(item.row):
                    self.add(page, entry, item, name, signature)
            elif item.kind == "function":
                self.add(page, entry, item, item.name, None)

    def add(self, page, entry, item, symbol, signature):
        name = symbol.removeprefix("haul_").removesuffix("_with")
        if name in LEFT_OUT:
            return
        if name.endswith("_list") and name != "nn_list":
            name = name.removesuffix("_list")
        try:
            self.functions.append(self.function(page, entry, item, name, symbol, signature))
        except Unsupported as why:
            self.left_out.append((symbol, str(why)))

    def function(self, page, entry, item, name, symbol, signature):
        import headers

        if signature:
            found = re.match(r"^(.*?)haul_\w+\((.*)\)$", signature)
            returns, members = found[1].strip(), headers.parameters(found[2])
        else:
            returns, members = item.returns, item.members
        result, table = self.result(returns)
        out = Function(name, symbol, result, table, borrowed=name in BORROWED, section=page.source)
        out.operation = "haul_" + name in self.facts
        comment = "\n\n".join(c.text for c in entry.comments) or item.note or next((i.note for i in entry.items if i.note), "")
        out.detail = comment
        out.description = self.first(comment)
        k = 0
        while k < len(members):
            member = members[k]
            struct = re.match(r"^const (haul_\w+) \*$", member.type)
            if struct and struct[1] in self.structs and symbol.endswith("_with") and k == len(members) - 1:
                out.members.append((struct[1], "options", ""))
                out.arguments.append("&a->options")
                self.options(out, self.structs[struct[1]])
                k += 1
                continue
            after = members[k + 1] if k + 1 < len(members) else None
            k += self.plain(out, name, member, after)
        if len(set(p.name for p in out.parameters)) != len(out.parameters):
            raise Unsupported("two parameters of one name")
        out.parameters.sort(key=lambda p: not p.needed)
        self.move_dtype(out)
        return out

    @staticmethod
    def move_dtype(out):
        """A dtype that comes first becomes the last parameter, and may be omitted."""
        first = out.parameters[0] if out.parameters else None
        if first is None or first.kind != "DTYPE" or out.result != "TENSOR":
            return
        out.parameters.remove(first)
        first.needed, first.value = False, "HAUL_I64" if out.name in ("randint",) else "HAUL_F32"
        first.default = '"i64"' if out.name == "randint" else '"f32"'
        out.parameters.append(first)

    def first(self, comment):
        import text

        return re.sub(r"\s+", " ", text.first_sentence(comment)).strip()

    def result(self, returns):
        plain = {"haul_tensor *": "TENSOR", "haul_status": "STATUS", "void": "NOTHING", "const char *": "TEXT",
                 "haul_dtype": "DTYPE", "haul_device *": "DEVICE", "int": "I64", "int64_t": "I64", "size_t": "U64",
                 "uint64_t": "U64", "double": "F64", "bool": "BOOL"}
        if returns in plain:
            return plain[returns], ""
        if object_of(returns):
            return "OBJECT", object_of(returns)
        if returns in self.enums:
            return "ENUM", self.enum(returns)
        raise Unsupported(f"returns {returns}")

    def enum(self, name):
        members = [m for m in self.enums[name] if not m.endswith("_END")]
        prefix = os.path.commonprefix(members) if len(members) > 1 else "HAUL_"
        prefix = prefix[: prefix.rfind("_") + 1]
        self.used_enums[name] = [(m, m[len(prefix):].lower()) for m in members]
        return name

    def plain(self, out, name, member, after):
        """Adds a parameter of the function itself; returns how many C parameters it stands for."""
        kind, c_name = member.type, member.name.rstrip("_")
        if kind == "haul_tensor **":
            listed = RESULT_LISTS.get(name) == c_name
            if not listed:
                number = sum(1 for a in out.arguments if a.startswith("&r->more"))
                out.arguments.append(f"&r->more[{number}]")
                out.result = "TUPLE"
                return 1
            out.result = "LIST"
            out.members.append(("haul_tensor **", c_name, ""))
            out.arguments.append(f"a->{c_name}")
            out.parameters.append(Parameter(c_name, "RESULTS", c_name, kind, count="count", needed=False))
            return 1
        lists = {"haul_tensor *const *": "TENSORS", "const int *": "INTS", "const int64_t *": "I64S",
                 "const haul_named_tensor *": "NAMED", "const haul_text_pair *": "PAIRS",
                 "const haul_named_module *": "NAMED_MODULES"}
        objects = re.match(r"^haul_(\w+) \*const \*$", kind)
        list_kind = lists.get(kind) or ("OBJECTS" if objects and objects[1] in OBJECTS else None)
        if list_kind:
            parameter = Parameter(c_name, list_kind, c_name, kind, table=objects[1] if list_kind == "OBJECTS" else "")
            has_count = after is not None and (after.name == "count" or after.name.endswith("_count"))
            parameter.count = after.name if has_count else "count"
            out.members.append((kind, c_name, ""))
            out.arguments.append(f"a->{c_name}")
            out.parameters.append(parameter)
            if has_count:
                out.members.append((after.type, after.name, ""))
                out.arguments.append(f"a->{after.name}")
                return 2
            return 1
        parameter = self.value(c_name, kind, member.array, c_name)
        if c_name in OMITTED and kind == "bool":
            parameter.needed, parameter.default = False, "False"
        out.members.append((re.sub(r"^const (haul_\w+ \*)", r"\1", kind), c_name, member.array))
        out.arguments.append(f"a->{c_name}")
        out.parameters.append(parameter)
        return 1

    def options(self, out, struct):
        names = {m.name for m in struct.members}
        for member in struct.members:
            kind, path = member.type, f"options.{member.name}"
            if member.name == "count" and names & {"parameters", "groups"} or re.match(r"(?!piece_)\w+_count$", member.name):
                continue
            if kind == "haul_tensor **" and not member.array:
                if RESULT_LISTS.get(out.name) == member.name:
                    out.result = "LIST"
                    out.parameters.append(Parameter(member.name, "RESULTS", path, kind, count="count", needed=False))
                else:
                    out.parameters.append(Parameter(member.name, "RESULT", path, kind, needed=False, default="False",
                                                    text=member.text))
                continue
            if kind == "const haul_named_tensor *":
                out.parameters.append(Parameter(member.name, "NAMED", path, kind, count="options.count", needed=False))
                continue
            if kind == "const haul_text_pair *":
                out.parameters.append(Parameter(member.name, "PAIRS", path, kind, count=f"options.{member.name}_count",
                                                needed=False))
                continue
            if kind == "const int *":
                out.parameters.append(Parameter(member.name, "INTS", path, kind, count="options.count", needed=False))
                continue
            if "(*)" in kind or kind == "void *" or kind.endswith(("_function *", "_closure *")):
                if member.positional:
                    raise Unsupported(f".{member.name}")
                continue
            try:
                parameter = self.value({"haul__axes": "axes", "haul__pads": "pads"}.get(member.name, member.name), kind,
                                       member.array, path)
            except Unsupported:
                if member.positional:
                    raise
                continue
            parameter.needed = member.positional or member.name == "haul__pads"
            default = model.default_of(member, self.reference)
            parameter.default = default
            parameter.text = model.meaning(member)
            if not parameter.needed and parameter.kind in ("INT", "I64", "F64", "I64_ARRAY", "F64_ARRAY"):
                zero = default.lower().startswith(("0:", "0,")) or default in ("0", "")
                read = member.name in ZERO_READ[parameter.kind] and out.name not in ZERO_NOT_READ
                named = "HAUL_ZERO" in parameter.text
                parameter.zero = (not zero and not (parameter.kind.endswith("ARRAY") and default == "none")
                                  and (read or named)) or (zero and named and parameter.kind == "I64")
                parameter.not_zero = not zero and not parameter.zero and member.name not in ZERO_ALLOWED
            out.parameters.append(parameter)

    def value(self, name, kind, array, path):
        if array:
            size = array.strip("[]")
            if kind == "int64_t":
                return Parameter(name, "I64_ARRAY", path, kind, size=size, spread=name in SPREAD)
            if kind == "double":
                return Parameter(name, "F64_ARRAY", path, kind, size=size)
            raise Unsupported(f"{kind}{array}")
        if kind in NUMBERS:
            return Parameter(name, NUMBERS[kind], path, kind)
        simple = {"haul_tensor *": "TENSOR", "const haul_tensor *": "TENSOR", "haul_dtype": "DTYPE", "haul_shape": "SHAPE",
                  "haul_device *": "DEVICE", "const haul_device *": "DEVICE", "const char *": "TEXT", "haul_axes": "AXES",
                  "haul_pads": "PADS"}
        if kind in simple:
            return Parameter(name, simple[kind], path, kind)
        if kind in self.enums:
            return Parameter(name, "ENUM", path, kind, table=self.enum(kind))
        if object_of(kind):
            return Parameter(name, "OBJECT", path, kind, table=object_of(kind))
        raise Unsupported(f"{kind} {name}")
