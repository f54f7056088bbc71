# haul run calls ONNX models on files and on random inputs; haul inspect shows what they need.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
models=$HAUL_SOURCE/tests/golden/onnx

# Members of npz files are npy files.
"$HAUL_PYTHON" - "$models" <<'END'
import sys, zipfile
for name in ("two", "pictures"):
    with zipfile.ZipFile(f"{sys.argv[1]}/{name}.npz") as z:
        for member in z.namelist():
            open(f"{name}.{member}", "wb").write(z.read(member))
END

# same A B: two npy files of f32 or i64 have the same shape and nearly the same elements.
same() {
    "$HAUL_PYTHON" - "$1" "$2" <<'END'
import ast, struct, sys
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + size].decode())
    kind = {"<f4": "f", "<i8": "q"}[head["descr"]]
    body = data[10 + size:]
    return head["shape"], struct.unpack(f"<{len(body) // struct.calcsize(kind)}{kind}", body)
(a, x), (b, y) = read(sys.argv[1]), read(sys.argv[2])
sys.exit(a != b or any(abs(p - q) > 1e-5 for p, q in zip(x, y)))
END
}

for device in cpu $("$HAUL" devices --json | grep -o '"opencl:0"' | head -1 | tr -d '"'); do
    run 0 run "$models/two.onnx" --input x=two.in.0.npy --input y=two.in.1.npy --output "$(
        "$HAUL" inspect --json "$models/two.onnx" |
            "$HAUL_PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["results"][2]["name"])')=places.npy" \
        --device "$device" --repeat 3
    check "$device: places" same places.npy two.out.2.npy
    check "time" grep -q '^time: first call .*; then 2, .* on average, .* the fastest' out
    check "memory" grep -q '^memory: .* at the peak' out
    run 0 run "$models/pictures.onnx" --input pictures.in.0.npy --output y.npy --device "$device"
    check "$device: pictures" same y.npy pictures.out.0.npy
done
run 0 run "$models/pictures.onnx"
check "a random input of the declared shape" grep -q '^  x  f32    \[1,3,16,16\]  random' out
check "its result" grep -q '^  y  f32    \[1,5\]' out

run 2 run
complains "FILE is missing"
run 2 run "$models/two.onnx" --input x.npy
complains "--input wants NAME=FILE.npy with one of these names: x or y"
run 2 run "$models/two.onnx" --output nothing=x.npy
complains "--output wants NAME=FILE.npy"
run 1 run "$models/two.onnx" --input x=none.npy
complains "none.npy"
run 1 run "$models/two.onnx" --input x=two.in.1.npy
complains "in the node"
run 1 run none.onnx
complains "none.onnx"
run 1 run two.in.0.npy
complains "is not an ONNX model, but an npy file"

# A model of one operator that Haul does not have.
"$HAUL_PYTHON" - <<'END'
def field(number, value):
    value = value.encode() if isinstance(value, str) else value
    return bytes([number << 3, value]) if isinstance(value, int) else bytes([number << 3 | 2, len(value)]) + value
value = lambda name: field(1, name) + field(2, field(1, field(1, 1) + field(2, field(1, field(1, 3)))))
node = field(1, "x") + field(2, "y") + field(3, "first") + field(4, "Foo")
graph = field(1, node) + field(11, value("x")) + field(12, value("y"))
open("foo.onnx", "wb").write(field(1, 8) + field(2, "haul") + field(8, field(2, 17)) + field(7, graph))
END
run 1 run foo.onnx
complains "foo.onnx has 1 operator (opset 17) that Haul does not have: Foo (1, at 'first')"
run 0 inspect foo.onnx
check "missing" grep -q '^  Foo       1  Haul does not have it: at the node first$' out
check "the sum" grep -q '^Haul cannot run this model: 1 operator is missing$' out
run 0 inspect --json foo.onnx
check "JSON" grep -q '"operators":\[{"domain":"","type":"Foo","count":1,"missing":true,"node":"first"}\]' out
run 0 inspect "$models/text.onnx"
check "names of sizes" grep -q '^  i  *i64    \[[a-z0-9_]*,[a-z0-9_]*\]$' out
check "operators" grep -q '^  LayerNormalization  *2$' out
# A product with a matrix in another file, which is mapped: on other devices it is copied.
"$HAUL_PYTHON" - <<'END'
def varint(n):
    return bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])
def field(number, value):
    value = value.encode() if isinstance(value, str) else value
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value
value = lambda name, size: field(1, name) + field(2, field(1, field(1, 1) + field(2, field(1, field(1, size)))))
node = field(1, "x") + field(1, "w") + field(2, "y") + field(4, "MatMul")
weight = field(1, 128) + field(1, 256) + field(2, 1) + field(8, "w")
weight += field(13, field(1, "location") + field(2, "large.data")) + field(14, 1)
graph = field(1, node) + field(5, weight) + field(11, value("x", 128)) + field(12, value("y", 256))
open("large.onnx", "wb").write(field(1, 8) + field(8, field(2, 17)) + field(7, graph))
open("large.data", "wb").write(bytes(128 * 256 * 4))
END
run 0 run large.onnx --device cpu
check "mapped" grep -q '^memory: .* at the peak, and 128\.0 KiB of the mapped file$' out
head -c 100 foo.onnx | head -c 40 >cut.onnx
run 1 inspect cut.onnx
complains "cut.onnx is not a valid ONNX model"

finish
