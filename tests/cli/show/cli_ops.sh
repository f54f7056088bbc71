# haul ops: the table, one operation, the JSON array, and that no operation is missing.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
unset HAUL_WITHOUT # the list is about what it leaves out

# ---- for people ----
run 0 ops
check "a line for softmax" grep -Eq '^softmax +all\+ +yes +exp\(x\) / sum\(exp\(x\)\) along an axis' out
check "a line for sub" grep -Eq '^sub +numbers\+ +yes +a - b\.' out
check "a line for lt" grep -Eq '^lt +all\+ +no +True where a is less than b\.' out
check "no gradients of rows" test "$(grep -c '_backward' out)" -eq 0
check "no space at the end" test "$(grep -c ' $' out)" -eq 0
cp out table
run 0 ops --all
check "gradients of rows are internal" grep -Eq '^relu_backward +floats +yes +internal: a b$|^relu_backward +all\+ +yes +internal: a b$' out
cp out whole
run 0 ops --names
check "names of what a program can call" test "$(grep -c '_backward' out)" -eq 0
run 0 ops --all --names
check "all names" grep -qx relu_backward out

run 0 ops conv2d
check "the prototype" grep -Fq 'haul_tensor *haul_conv2d(haul_tensor *x, haul_tensor *weight, ...)' out
check "an option with its default" grep -Eq '\.stride +step of the window, \{vertical, horizontal\}; default \{1, 1\}' out
check "an optional tensor" grep -Eq '\.bias +\[C_out\]; default zeros' out
run 0 ops relu_backward
check "internal" grep -Eq '^  internal +the library calls it' out

run 0 ops softmax
check "the full name first" test "$(head -1 out)" = haul_softmax
check "its dtypes" grep -Eq '^  dtypes +bool u8 i8 i16 i32 i64 f16 bf16 f32 f64 u16 u32 u64$' out
check "differentiable" grep -Eq '^  differentiable +yes$' out
cp out detail
run 0 ops haul_softmax
check "the same by the full name" cmp -s out detail
run 0 ops lstm
check "the module first" test "$(head -1 out)" = haul_nn_lstm
check "how it is called" grep -Fq 'haul_module *haul_nn_lstm(int64_t in, int64_t hidden, ...)' out
check "its inputs" grep -Eq '^  inputs +x, h\?, c\?, lengths\?$' out
check "its results" grep -Eq '^  results +y, h, c$' out
check "no option of another module" test "$(grep -c ' only' out)" -eq 0
check "then the operation behind it" grep -qx haul_lstm out
check "which the module calls" grep -Eq '^  internal +the module calls it$' out
for name in multi_head_attention transformer_encoder_layer batch_norm lstm_cell; do
    run 0 ops "haul_nn_$name"
    check "the module $name" test "$(head -1 out)" = "haul_nn_$name"
    cp out module
    run 0 ops "$name"
    [ "$name" = batch_norm ] || check "by its short name" cmp -s out module
done
run 0 ops batch_norm
check "an operation names its module" grep -Eq '^  as a module +haul_nn_batch_norm: haul ops nn_batch_norm$' out
run 2 ops multi_head_atention
check "a near name" grep -q "did you mean 'multi_head_attention'" err
run 0 ops --modules
check "modules and what they are" grep -Eq '^nn_gru +Gated recurrent units' out
cp out table_of_modules
run 0 ops --modules --names
check "their names" test "$(tail -n +2 table_of_modules | awk '/^nn_/ { print $1 }' | cmp - out)" = ""
run 0 ops --modules --json
check "as JSON" "$HAUL_PYTHON" -c 'import json; all = {m["name"]: m for m in json.load(open("out"))}; assert all["haul_nn_lstm"]["inputs"] == "x, h?, c?, lengths?" and len(all) > 50'
run 2 ops --modules lstm
run 0 ops exp
check "the form that writes into a tensor" grep -Eq '^  into a tensor +haul_exp_into$' out

run 0 ops --json add
check "one operation" test "$("$HAUL_PYTHON" -c 'import json; print([o["name"] for o in json.load(open("out"))])')" = "['haul_add']"

# ---- for programs ----
HAUL_WITHOUT=tiles run 0 ops --json matmul
check "what is left out is not listed" grep -q '"cpu": *\["kernel_tiles", *"kernel"\]' out
HAUL_WITHOUT=tile run 1 ops --json
check "a wrong name is an error" grep -q 'HAUL_WITHOUT names "tile"' err
run 0 ops --json
check "nothing on standard error" test ! -s err
cp out ops.json
check "the array" "$HAUL_PYTHON" - <<'END'
import json
import re

FLOATS = ["f16", "bf16", "f32", "f64"]
NUMBERS = ["u8", "i8", "i16", "i32", "i64"] + FLOATS + ["u16", "u32", "u64"]
ALL = ["bool"] + NUMBERS
listed = json.load(open("ops.json"))
ops = {o["name"]: o for o in listed}
names = [o["name"] for o in listed]
assert names == sorted(set(names)), "sorted, each once"
for o in listed:
    called = ["prototype", "description", "options"] if o["public"] else []
    assert list(o) == ["name", "operands", "results", "dtypes", "differentiable", "public", *called, "implementations"], o
    assert not o["public"] or o["name"] + "(" in o["prototype"] and o["description"], o
    assert all(list(p) == ["name", "type", "default", "meaning"] and all(p[k] for k in p if k != "default") for p in o.get("options", [])), o
    assert re.fullmatch(r"haul_\w+", o["name"]), o
    assert all(list(p) == ["name", "optional"] and p["name"] and p["optional"] in (True, False) for p in o["operands"]), o
    assert all(isinstance(r, str) and r for r in o["results"]), o
    assert o["dtypes"] and set(o["dtypes"]) <= set(ALL), o
    assert o["differentiable"] in (True, False), o
    assert "cpu" in o["implementations"] and "meta" not in o["implementations"], o
    assert all(isinstance(l, list) and l for l in o["implementations"].values()), o


def expect(name, operands, dtypes, differentiable):
    """Operands in brackets are optional."""
    wanted = [{"name": p.strip("[]"), "optional": p[0] == "["} for p in operands.split()]
    one = {k: v for k, v in ops[name].items() if k not in ("prototype", "description", "options")}
    assert set(map(tuple, one.pop("implementations").values())) == {("kernel",)}, name
    assert one == {"name": name, "operands": wanted, "results": ["y"], "dtypes": dtypes,
                   "differentiable": differentiable, "public": True}, one


expect("haul_softmax", "x", ALL, True)
expect("haul_add", "a b", ALL, True)
expect("haul_add_scalar", "a", ALL, True)
expect("haul_sub", "a b", NUMBERS, True)
expect("haul_clamp", "x", ALL, True)
expect("haul_exp", "x", ALL, True)
expect("haul_lt", "a b", ALL, False)
assert ops["haul_matmul"]["implementations"]["cpu"] == ["tiles", "kernel_tiles", "kernel"]
assert ops["haul_conv2d"]["implementations"]["cpu"][-2:] == ["direct", "kernel"]
assert ops["haul_transpose"]["implementations"]["cpu"] == ["view"]
def rows(file):
    return {line.split()[0] for line in open(file) if not line.startswith(" ")}


assert rows("whole") == {name[len("haul_"):] for name in names} | {"operation"}, "the table of all has the same"
assert rows("table") == {o["name"][len("haul_"):] for o in listed if o["public"]} | {"operation"}
assert not ops["haul_relu_backward"]["public"] and not ops["haul_adam"]["public"]
assert {"name": ".bias", "type": "haul_tensor *", "default": "zeros", "meaning": "[C_out]"} in ops["haul_conv2d"]["options"]
END

# A descriptor that no line announces would be in the library, but not in the list.
nm "$HAUL_BUILD/libhaul.a" 2>/dev/null | sed -n 's/^[0-9a-f]* [DR] haul__operation_\(.*\)/haul_\1/p' | sort >defined
"$HAUL_PYTHON" -c 'import json; print(*[o["name"] for o in json.load(open("ops.json"))], sep="\n")' | sort | cmp - defined
check "the library's descriptors are the list" test $? -eq 0

# Functions with fresh results are operations.
check "every function is an operation" "$HAUL_PYTHON" - <<'END'
import json
import os
import pathlib
import re
import subprocess

source = os.environ["HAUL_SOURCE"]
names = {o["name"] for o in json.load(open("ops.json"))}
text = subprocess.run([os.environ["HAUL_CC"], "-std=c11", "-E", "-P", "-x", "c", "-I", source + "/include", "-"],
                      input="#include <haul/conv.h>\n#include <haul/image.h>\n#include <haul/indexing.h>\n#include <haul/loss.h>\n#include <haul/ops.h>\n#include <haul/random.h>\n", check=True, capture_output=True,
                      text=True).stdout
functions = set(re.findall(r"haul_tensor\s*\*\s*(haul_\w+?)(?:_with)?\s*\(", text))
assert len(functions) > 120, functions
functions.remove("haul_tensor_fail")  # computes nothing
functions -= {"haul_index", "haul_index_put", "haul_index_put_add"}  # call operations for each item
# Files that still compute without descriptors.
files = [path.read_text() for path in sorted(pathlib.Path(source, "src/ops").rglob("*.c"))]
old = "".join(file for file in files if re.search(r"haul_scope_push\(|haul__(place|finish)\(", file))
missing = {name for name in functions - names if not re.search(rf"\b{name}(_with)?\(", old)}
assert not missing, sorted(missing)
END
finish
