# haul train --place and --plan: modules on two devices, the same training after a resume, and what cannot be placed.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

"$HAUL" devices --json >out
"$HAUL_PYTHON" -c '
import json, sys
sys.exit(77 if not any(d["name"] == "opencl:0" and d["usable"] for d in json.load(open("out"))["devices"]) else 0)' ||
    { echo "there is no OpenCL device here"; exit 77; }

net=(--model simplecnn --data shapes:128 --batch 32 --workers 0 --log-every 1)
run 0 train "${net[@]}" --epochs 2 --place 'conv*=opencl:0,fc2=opencl:0'
check "what is where" grep -q '^place   conv1, conv2 on opencl:0; fc1 on cpu; fc2 on opencl:0; fc3 on cpu$' out
check "what was copied" grep -Eq '^  moved +.* to other devices in [0-9,]+ copies' out
run 0 train "${net[@]}" --epochs 2 --place 'conv*=opencl:0,fc2=opencl:0' --json
cp out placed
run 0 train "${net[@]}" --epochs 2 --device cpu --json
check "the same losses as on one device, to rounding" "$HAUL_PYTHON" - <<'END'
import json
losses = lambda name: [e["loss"] for e in map(json.loads, open(name)) if e["event"] == "batch"]
a, b = losses("placed"), losses("out")
assert len(a) == len(b) == 8, (len(a), len(b))
assert all(abs(x - y) < 1e-3 for x, y in zip(a, b)), (a, b)
END
check "copies are counted" at_least "$(value placed done h2d_bytes)" 1000
check "the place is logged" grep -q '"place":"conv1, conv2 on opencl:0' placed

# A run that goes on has its places from its options.
run 0 train "${net[@]}" --epochs 2 --place 'conv*=opencl:0' --run whole
run 0 train "${net[@]}" --epochs 1 --place 'conv*=opencl:0' --run half
run 0 train --run half --resume --epochs 2
check "still placed" grep -q '^place   conv1, conv2 on opencl:0' out
check "the same weights" cmp -s whole/weights.safetensors half/weights.safetensors

# Blocks whose modules are apart: operations between them run where most of their bytes are.
run 0 train --model resnet18 --data shapes:16 --batch 8 --workers 0 --epochs 1 --place 'layer1=opencl:0,layer2.0.conv1=opencl:0'
check "blocks" grep -q '^place   conv1, bn1 on cpu; layer1.0.conv1..layer2.0.conv1 on opencl:0; layer2.0.bn1..fc on cpu' out

# A plan of haul plan, for this step and for another one.
cat >two.json <<'END'
{"haul_machine": 1, "name": "two", "devices": [
  {"name": "cpu", "memory_bytes": 8000000000, "launch_ns": 1000, "bytes_per_second": 10000000000},
  {"name": "opencl:0", "memory_bytes": 8000000000, "launch_ns": 2000, "bytes_per_second": 100000000000}],
 "links": [{"from": "cpu", "to": "opencl:0", "name": "pcie5"}, {"from": "opencl:0", "to": "cpu", "name": "pcie5"}]}
END
run 0 plan --model simplecnn --batch 32 --machine two.json --place 'conv*=opencl:0,fc*=cpu' --certificate plan.json
run 0 train "${net[@]}" --epochs 1 --plan plan.json
check "as planned" grep -q '^place   conv1, conv2 on opencl:0; fc1..fc3 on cpu$' out
run 1 train "${net[@]}" --epochs 1 --batch 16 --plan plan.json
complains 'plan.json is for another step: its "program" is'
run 1 train "${net[@]}" --optimizer adam --epochs 1 --plan plan.json --run never
complains 'plan.json is for another step'
check "nothing was trained" test ! -e never
sed 's/"opencl:0"/"opencl:9"/g' plan.json >other.json
run 1 train "${net[@]}" --epochs 1 --plan other.json
complains 'opencl:9'
echo '{"program": "x"}' >other.json
run 1 train "${net[@]}" --epochs 1 --plan other.json
complains 'other.json is not a plan: "machine" is missing'
sed 's/"cost_ps":/"cost_ps":1/' plan.json >other.json
run 1 train "${net[@]}" --epochs 1 --plan other.json
complains 'other.json is not proven: "cost_ps"'
echo '{' >other.json
run 1 train "${net[@]}" --epochs 1 --plan other.json
complains 'other.json is not JSON'
cat plan.json plan.json >other.json
run 1 train "${net[@]}" --epochs 1 --plan other.json
complains 'other.json is not JSON: line 2'
run 1 train "${net[@]}" --epochs 1 --plan nothing.json
complains 'nothing.json'

# Steps with the candidates, measured.
run 0 plan --model simplecnn --batch 8 --machine two.json --place 'conv*=opencl:0,fc*=cpu' --measure --json
check "all that fit are measured" "$HAUL_PYTHON" - <<'END'
import json
assert all(c["measured_ms"] > 0 for c in json.load(open("out"))["candidates"] if c["fits"])
END
run 0 plan --model simplecnn --batch 8 --machine two.json --measure
check "a column" grep -Eq '^ +step +measured +cpu +opencl:0 +copied +waits$' out
HAUL_CUDA_LIBRARIES=/nonexistent run 1 plan --model simplecnn --batch 8 --machine h200 --measure
complains "steps cannot be measured on this computer, because cuda:0 cannot be used here"

run 1 train "${net[@]}" --epochs 1 --place 'lstm=cpu'
complains "no module of the network matches 'lstm'"
run 1 train "${net[@]}" --epochs 1 --place 'fc1=cpu,fc*=opencl:0'
complains "fc1 is placed on both cpu and opencl:0"
run 1 train "${net[@]}" --epochs 1 --place 'fc1=nothing'
complains "nothing"
run 1 train "${net[@]}" --epochs 1 --place 'fc1'
complains "--place fc1 is not PATTERN=DEVICE"
run 2 train "${net[@]}" --place 'fc1=cpu' --plan plan.json
complains "give one of them"
finish
