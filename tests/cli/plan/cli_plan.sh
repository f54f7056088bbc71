# haul plan: text, JSON, a picture, certificates that are checked and tampered with, limits, pins and bad input.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

cat >check.py <<'END'
import json, sys
p = json.load(open(sys.argv[1]))
names = {"model", "machine", "described", "devices", "step_ms", "makespan_ms", "bound_ms", "work_ms", "gap", "single",
         "peak_bytes", "one_device_bytes", "pays_from_batch", "candidates", "operations", "edges"}
assert set(p) == names, set(p) ^ names
assert p["model"] == {"cost": "additive"}
assert p["bound_ms"] <= p["step_ms"] and 0 <= p["gap"] < 1 and 0 < p["makespan_ms"] <= p["step_ms"]
host, device = p["devices"]
for c in p["candidates"]:
    assert c["wait_ms"] <= c["makespan_ms"] * len(p["devices"]) and c["makespan_ms"] <= c["step_ms"] and c["bits_of"] in (host, device, ""), c
    assert c["name"] == "best" or c["bits_of"] == c["name"].removeprefix("all on "), c
    assert c["name"] != "all on cpu" or c["wait_ms"] == 0, c
fitting = [c for c in p["candidates"] if c["fits"]]
assert fitting[0]["name"] == "best" and fitting[0]["step_ms"] == p["step_ms"] and fitting[0]["makespan_ms"] == p["makespan_ms"]
assert [c["makespan_ms"] for c in fitting] == sorted(c["makespan_ms"] for c in fitting)
assert all(c["why_not"] for c in p["candidates"] if not c["fits"])
for c in p["candidates"]:
    device = c["name"].removeprefix("all on ")
    assert c["name"] == "best" or p["single"][device] == c["step_ms"]
assert set(p["peak_bytes"]) == set(p["devices"]) == set(p["single"])
operations = p["operations"]
assert all(o["device"] in p["devices"] and o["ms"] >= 0 for o in operations)
assert all(f" stays on {o['device']}: " in o["why"] for o in operations)
assert sum(p["one_device_bytes"].values()) > 0
times = sum(o["ms"] for o in operations)
assert times <= p["step_ms"] + 1e-6, (times, p["step_ms"])
copied = sum(e["copied_bytes"] for e in p["edges"])
assert (copied > 0) == (len({o["device"] for o in operations if o["ms"]}) > 1), copied
print(len({o["device"] for o in operations}), len(operations))
END

# A step of which a part pays on the GPU: two devices, and less than either alone.
step=(--model simplecnn --batch 700 --machine h200)
run 0 plan "${step[@]}" --json
check "one line" test "$(wc -l <out)" -eq 1
check "the members, the candidates and the operations" "$HAUL_PYTHON" check.py out
check "two devices" grep -q '^2 ' <<<"$("$HAUL_PYTHON" check.py out)"
cp out first
run 0 plan "${step[@]}" --json
check "the same again" cmp -s out first

run 0 plan "${step[@]}" --svg plan.svg --certificate plan.json
check "the title" grep -q '^one training step of simplecnn, batch 700, sgd, f32, on h200' out
check "the memory by role" grep -q '^memory  .* at the peak on one device: parameters .*, gradients .*, optimizer state .*, activations' out
check "the candidates, the fastest first" test "$(grep -Eo '^(this plan|all on [^ ]+)' out | head -1)" = "this plan"
check "the waits" grep -Eq '^this plan .* MiB +[0-9.]+ (us|ms)$' out
check "the bits" grep -q '^The results are bit-identical to those on cuda:0 alone\.$' out
check "the proof" grep -q '^No other placement takes less' out
check "the batches" grep -Eq '^cuda:0 pays from batch [0-9]+ on; for the whole network from batch [0-9]+ on' out
check "a reason" grep -Eq '^fc3 stays on cuda:0: [0-9.]+ us here, [0-9.]+ us on cpu, but its (input|result) would cost [0-9.]+ us to move' out
check "a picture" grep -q '^<svg ' plan.svg
check "that is XML" "$HAUL_PYTHON" -c 'import sys, xml.dom.minidom as x; x.parse("plan.svg")'
check "with a copy" grep -q 'class="copy"' plan.svg

# The certificate: checked alone, and against the step.
run 0 plan --verify plan.json
check "cost and bound" grep -Eq '^plan.json: the placement takes ([0-9.]+ [um]s), and none takes less than \1$' out
run 0 plan --verify plan.json "${step[@]}"
check "about this step" grep -q 'it is about this step and this machine' out
run 1 plan --verify plan.json --model simplecnn --batch 701 --machine h200
complains 'about another program: "program" is'
run 1 plan --verify plan.json --model simplecnn --batch 700 --machine a100-40g
complains 'about another machine: "machine" is'
run 1 plan --verify plan.json "${step[@]}" --memory-limit 30G
complains '"graph": "limits" differs'
sed 's/"cost_ps":[0-9]/"cost_ps":1/' plan.json >false.json
cmp -s plan.json false.json && sed 's/"cost_ps":[0-9]/"cost_ps":2/' plan.json >false.json
run 1 plan --verify false.json
complains 'false.json is not proven: "cost_ps": the placement has another cost'
sed 's/"groups":\[0/"groups":[99999/' plan.json >false.json
run 1 plan --verify false.json
complains '"groups", item 0'
head -c 2000 plan.json >false.json
run 1 plan --verify false.json
complains 'false.json is not JSON: line 1'
run 1 plan --verify nothing.json
complains 'nothing.json'

# Limits and pins.
run 0 plan --model simplecnn --batch 700 --machine h200 --memory-limit cuda:0=60% --json
check "within the limit" "$HAUL_PYTHON" check.py out
run 0 plan "${step[@]}" --place 'conv*=cuda:0,fc*=cpu' --json
check "products of both devices" test "$("$HAUL_PYTHON" -c 'import json; print(json.load(open("out"))["candidates"][0]["bits_of"])')" = ""
check "pins" "$HAUL_PYTHON" - <<'END'
import json
for o in json.load(open("out"))["operations"]:
    want = {"conv": "cuda:0", "fc": "cpu"}.get(o["module"].rstrip("0123456789"))
    assert want in (None, o["device"]), o
END
run 0 plan "${step[@]}" --place '*=cpu'
check "all on the host" grep -q '^fc3 stays on cpu: .* here, and it cannot run on cuda:0' out
run 4 plan "${step[@]}" --memory-limit cpu=1M,cuda:0=1M
complains 'fits in 976.6 KiB on cpu and 976.6 KiB on cuda:0'
run 1 plan "${step[@]}" --memory-limit cuda:9=1M
complains "h200 has no device 'cuda:9'; it has cpu, cuda:0, cuda:1"
run 1 plan "${step[@]}" --memory-limit cuda:0=x
complains "--memory-limit x is not a size"
run 1 plan "${step[@]}" --memory-limit cuda:1=1G
complains "cuda:1 is not one of the devices of the plan, cpu and cuda:0"
run 0 plan "${step[@]}" --devices cpu,cuda:1
check "another device" grep -q 'stays on cuda:1' out
run 1 plan "${step[@]}" --devices cuda:0,cpu
complains "name the host and one other device"
run 1 plan "${step[@]}" --devices cpu,cuda:0,cuda:0
complains "'cpu,cuda:0,cuda:0' names one device twice"
run 1 plan "${step[@]}" --place 'lstm*=cpu'
complains "no module of the step matches 'lstm*'"
run 1 plan "${step[@]}" --place 'fc1=cpu,fc*=cuda:0'
complains "fc1 is pinned to both cpu and cuda:0"
run 1 plan "${step[@]}" --place 'fc1'
complains "--place fc1 is not PATTERN=DEVICE"
run 1 plan "${step[@]}" --svg nowhere/plan.svg
complains "nowhere/plan.svg cannot be written"
run 1 plan --model simplecnn --machine nothing
complains "nothing"
echo '{"haul_machine": 1, "name": "alone", "devices": [{"name": "cpu", "memory_bytes": 1000000000, "launch_ns": 100, "bytes_per_second": 1000000000}], "links": []}' >alone.json
run 1 plan --model simplecnn --machine alone.json
complains "alone has no device but cpu"

# A machine that was measured: learnt times take precedence, and are counted.
run 0 devices --machines --json
cp out machines.json
check "a machine with a learnt time" "$HAUL_PYTHON" - <<'END'
import json
machine = next(m for m in json.load(open("machines.json"))["machines"] if m["name"] == "laptop-4g")
machine.update(name="desk", described=False)
json.dump(machine, open("desk.json", "w"))
machine["devices"][0]["learnt"] = [
    {"operation": "haul_relu", "dtype": "f32", "flops": 64 * 120, "bytes": 2 * 4 * 64 * 120, "ps": 10**9}]
json.dump(machine, open("learnt.json", "w"))
END
run 0 plan --model simplecnn --machine desk.json --json
cp out without.json
run 0 plan --model simplecnn --machine learnt.json --json
cp out with.json
check "one operation takes a millisecond" "$HAUL_PYTHON" - <<'END'
import json
before, after = (json.load(open(name)) for name in ("without.json", "with.json"))
assert before["learnt_operations"] == {"cpu": 0, "cuda:0": 0}, before["learnt_operations"]
assert after["learnt_operations"] == {"cpu": 1, "cuda:0": 0}, after["learnt_operations"]
assert before["timed_operations"] == after["timed_operations"] > 30
longer = {d: after["single"][d] - before["single"][d] for d in after["devices"]}
assert 0.9 < longer["cpu"] < 1 and longer["cuda:0"] == 0, longer
END
run 0 plan --model simplecnn --machine learnt.json
check "it is counted" grep -Eq '^Of [0-9]+ operations, profiles measured the times of 1 on cpu and of 0 on cuda:0\.$' out

# Of a run: its model, batch and optimizer.
run 0 train "${small[@]}" --epochs 1 --optimizer adam --run r
run 0 plan --run r --machine laptop-4g
check "of a run" grep -q ', adam, f32, on laptop-4g' out

run 2 plan
complains "which step"
run 2 plan --model simplecnn --run r
run 2 plan --verify plan.json --json
run 2 plan --model simplecnn --batch 0
finish
