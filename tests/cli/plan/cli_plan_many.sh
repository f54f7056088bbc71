# haul plan and haul train on three devices: text, JSON, a picture, certificates, and a training that follows one.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
export OCL_ICD_VENDORS=none

# ---- plans for a machine that is not here ----
step=(--model simplecnn --batch 700 --machine h200 --devices cpu,cuda:0,cuda:1)
run 0 plan "${step[@]}" --json
check "three devices, and each of them alone" "$HAUL_PYTHON" - <<'END'
import json
p = json.load(open("out"))
assert p["devices"] == ["cpu", "cuda:0", "cuda:1"]
assert set(p["single"]) == set(p["peak_bytes"]) == set(p["devices"])
assert [c["makespan_ms"] for c in p["candidates"]] == sorted(c["makespan_ms"] for c in p["candidates"])
assert len(p["candidates"]) == 4 and p["candidates"][0]["name"] == "best"
assert all(p["makespan_ms"] <= p["single"][d] for d in p["devices"])
assert 0.5 * p["step_ms"] < p["bound_ms"] <= p["step_ms"]
END
run 0 plan "${step[@]}" --place 'conv1=cuda:0,conv2=cuda:1,fc*=cpu' --svg plan.svg --certificate plan.json
check "the peaks" grep -Eq '^This plan needs [0-9.]+ MiB on cpu, [0-9.]+ MiB on cuda:0, [0-9.]+ MiB on cuda:1\.$' out
check "the first GPU" grep -q '^conv1 stays on cuda:0: ' out
check "the second GPU" grep -q '^conv2 stays on cuda:1: .* it cannot run on any other device$' out
check "bits" grep -q '^Products run on several devices, which round differently: results have the bits of none alone\.$' out
check "the batches" grep -q '^cuda:0, cuda:1 pay from batch ' out
check "a picture with three colours" test "$(grep -o 'fill="#d[^"]*"\|fill="#f[^"]*"' plan.svg | sort -u | wc -l)" -ge 4
check "that is XML" "$HAUL_PYTHON" -c 'import xml.dom.minidom as x; x.parse("plan.svg")'
run 0 plan --verify plan.json
run 0 plan --verify plan.json "${step[@]}" --place 'conv1=cuda:0,conv2=cuda:1,fc*=cpu'
check "about this step" grep -q 'it is about this step and this machine' out
run 1 plan --verify plan.json --model simplecnn --batch 700 --machine h200
complains '"graph": "devices" differs'
sed 's/"device":"cuda:1"/"device":"cuda:0"/' plan.json >false.json
run 1 plan --verify false.json
complains 'false.json is not proven: "operations"'
sed 's/"bound_ps":[0-9]/"bound_ps":9/' plan.json >false.json
run 1 plan --verify false.json
complains 'false.json is not proven: "bound_ps": the shares prove another bound'

# ---- limits: without a device, of each GPU ----
run 0 plan "${step[@]}" --memory-limit 30M --json
check "within the limits" "$HAUL_PYTHON" - <<'END'
import json
p = json.load(open("out"))
assert p["peak_bytes"]["cuda:0"] <= 30e6 and p["peak_bytes"]["cuda:1"] <= 30e6, p["peak_bytes"]
END
run 0 plan "${step[@]}" --memory-limit 30M
tr -s ' \n' ' ' <out >line
check "the bound is one within the limits" grep -q "Within the limits no placement takes less than" line
run 4 plan "${step[@]}" --memory-limit cpu=1M,cuda:0=1M,cuda:1=2M
complains 'fits in 976.6 KiB on cpu, 976.6 KiB on cuda:0 and 1.9 MiB on cuda:1'
run 2 plan "${step[@]}" --allow spill
complains "--allow plans the memory of one device"
run 1 plan "${step[@]}" --place 'fc1=cuda:9'
complains "h200 has no device 'cuda:9'"

# ---- a training ----
net=(--model simplecnn --data shapes:128 --batch 16 --workers 0 --epochs 2 --log-every 1)
run 0 train "${net[@]}" --device cpu --run cpu
run 0 plan --run cpu --devices cpu,sim:h200,sim:h200:1 --place 'conv*=sim:h200,fc1=sim:h200:1' --certificate three.json
run 0 train "${net[@]}" --plan three.json --run three
check "what is where" grep -q '^place  *conv1, conv2 on sim:h200:0; fc1 on sim:h200:1; fc2, fc3 on cpu' out
check "the weights of one device" cmp -s cpu/weights.safetensors three/weights.safetensors
check "its steps take about what is predicted" "$HAUL_PYTHON" - <<'END'
import json
done = [e for e in map(json.loads, open("three/log.jsonl")) if e["event"] == "done"][0]
predicted = json.load(open("three.json"))["cost_ps"] * 1e-9
assert 0.9 * predicted < done["step_ms"] < 1.1 * predicted, (predicted, done["step_ms"])
END
run 0 train "${net[@]}" --devices cpu,sim:h200,sim:laptop-4g --run chosen
check "the choice among three" grep -Eq '^chosen +[0-9]+ of [0-9]+ operations on cpu; [0-9]+ on sim:h200:0 take .* a step in a short run' out
check "has the same weights" cmp -s cpu/weights.safetensors chosen/weights.safetensors
finish
