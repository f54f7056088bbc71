# haul train --devices, and --device auto: the plan, or the device, whose steps take the least time. In virtual time the
# short runs take the same time whenever they are made.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
export OCL_ICD_VENDORS=none
net=(--model simplecnn --data shapes:128 --batch 16 --workers 0 --log-every 1)

# ---- a plan that is faster than each device ----
run 0 train "${net[@]}" --epochs 2 --devices cpu,sim:h200 --run whole
check "the choice in a line" grep -Eq '^chosen +[0-9]+ of [0-9]+ operations on cpu; [0-9]+ on sim:h200:0 take .* a step in a short run, .* all on sim:h200:0\. haul plan explains' out
check "what is where" grep -q '^place .*conv2 on sim:h200:0' out
check "the run keeps the plan" grep -q '"plan": "whole/plan.json"' whole/config.json
run 0 plan --verify whole/plan.json
run 0 train "${net[@]}" --epochs 2 --device cpu --run cpu
run 0 train "${net[@]}" --epochs 2 --device sim:h200 --run gpu
check "it is faster, follows its steps, and has the bits of one device" "$HAUL_PYTHON" - <<'END'
import json


def log(name, event):
    return [e for e in map(json.loads, open(f"{name}/log.jsonl")) if e["event"] == event]


whole, gpu, cpu = (log(name, "done")[0] for name in ("whole", "gpu", "cpu"))
assert whole["step_ms"] < 0.9 * gpu["step_ms"], (whole["step_ms"], gpu["step_ms"])
assert whole["followed"] == 15 and whole["h2d_bytes"] > 0 and whole["d2h_bytes"] > 0, whole
assert [e["loss"] for e in log("whole", "batch")] == [e["loss"] for e in log("cpu", "batch")]
assert log("whole", "start")[0]["chosen"].startswith("27 of 46 operations on cpu"), log("whole", "start")
END
check "the weights of one device" cmp -s whole/weights.safetensors cpu/weights.safetensors

# Steps that are not followed keep copies of what has not changed, but not of batches, whose memory is used again.
run 0 train "${net[@]}" --epochs 2 --plan whole/plan.json --eager --run eager
check "the weights of steps that are not followed" cmp -s eager/weights.safetensors cpu/weights.safetensors
run 0 train "${net[@]}" --epochs 2 --plan whole/plan.json --eager --workers 2 --run workers
check "and with workers" cmp -s workers/weights.safetensors cpu/weights.safetensors

# A run that goes on has its plan, also where its folder has moved.
run 0 train "${net[@]}" --epochs 1 --devices cpu,sim:h200 --run half
check "the same choice again" cmp -s whole/plan.json half/plan.json
mv half moved
run 0 train --run moved --resume --epochs 2
check "as planned" grep -q '^place .*conv2 on sim:h200:0' out
check "nothing is chosen anew" test "$(grep -c '^chosen' out)" -eq 0
check "the same weights" cmp -s whole/weights.safetensors moved/weights.safetensors
run 0 train --run moved --resume --epochs 3 --device cpu
check "a device in place of the plan" test "$(grep -c '^place' out)" -eq 0
check "is kept" grep -q '"device": "cpu"' moved/config.json
check "and the plan is not" test "$(grep -c '"plan"' moved/config.json)" -eq 0

# The same plan for another run.
run 0 train "${net[@]}" --epochs 2 --plan whole/plan.json --run fixed
check "the same weights by --plan" cmp -s whole/weights.safetensors fixed/weights.safetensors
run 0 train --config whole/config.json --run again
check "the same weights by --config" cmp -s whole/weights.safetensors again/weights.safetensors

# ---- times that are wrong ----
# A machine on which gradients of convolutions are said to take ten times as long on the GPU: the first plan has them on
# the CPU. In a short run operations show their times, and the second plan is that of the right machine.
"$HAUL" devices --machines --json >machines.json
"$HAUL_PYTHON" - <<'END'
import json
machine = next(m for m in json.load(open("machines.json"))["machines"] if m["name"] == "h200")
for name, slower in (("right", 1), ("wrong", 10)):
    m = json.loads(json.dumps(machine).replace('"cuda:0"', '"sim:h200:0"'))
    for rate in m["devices"][1]["rates"]:
        if rate["class"] == "narrow_conv_backward":
            rate["points"] = [[work, speed // slower] for work, speed in rate["points"]]
    json.dump(m, open(f"{name}.json", "w"))
END
cat >placement.py <<'END'
import json, sys
print([(o["name"], o["device"]) for o in json.load(open(sys.argv[1]))["operations"]])
END
placement() { "$HAUL_PYTHON" placement.py "$1"; }
run 0 plan --model simplecnn --batch 16 --devices cpu,sim:h200:0 --machine wrong.json --certificate first.json
run 0 train "${net[@]}" --epochs 1 --devices cpu,sim:h200:0 --machine right.json --run right
check "right times are not planned again" test "$(grep -c 'planned again' out)" -eq 0
run 0 train "${net[@]}" --epochs 1 --devices cpu,sim:h200:0 --machine wrong.json --run wrong
check "wrong times are, and the line says so" grep -Eq \
    'planned again, since operations on sim:h200:0 differ by [0-9]+ % from what was predicted' out
check "the first plan was another one" test "$(placement first.json)" != "$(placement right/plan.json)"
check "the run keeps the second plan" test "$(placement wrong/plan.json)" = "$(placement right/plan.json)"
check "its steps take the same time" test "$(value wrong/log.jsonl done step_ms)" = "$(value right/log.jsonl done step_ms)"
run 2 train "${net[@]}" --machine right.json
complains '--machine has times for choosing among --devices'

# ---- one device is the fastest ----
run 0 train --model simplecnn --data shapes:512 --batch 256 --workers 0 --epochs 1 --devices cpu,sim:laptop-4g --run one
check "one device" grep -q '^chosen  all on sim:laptop-4g:0' out
check "the run keeps it" grep -q '"device": "sim:laptop-4g:0"' one/config.json
check "without a plan" test ! -e one/plan.json
run 0 train --run one --resume --epochs 2
check "it goes on there" grep -q '^model .* on sim:laptop-4g:0' out
run 0 train "${net[@]}" --epochs 1 --batch 1 --devices cpu,sim:h200
check "the CPU" grep -q '^chosen  all on cpu; .* a step as predicted' out

# Where auto is the CPU nothing is chosen.
run 0 train "${net[@]}" --epochs 1 --run plain
if grep -q '^model .* on cpu' out; then
    check "nothing to choose" test "$(grep -c '^chosen' out)" -eq 0
    check "auto stays auto" grep -q '"device": "auto"' plain/config.json
fi

# ---- bad input ----
for with in '--device cpu' '--place fc1=cpu' '--plan whole/plan.json' '--memory-limit 1G' '--spill on' '--recompute auto' \
    '--accumulate 2' '--batch auto' --estimate; do
    run 2 train "${net[@]}" --devices cpu,sim:h200 $with
    complains "does so without ${with%% *}"
done
run 1 train "${net[@]}" --devices cpu,nothing --run never
complains nothing
run 1 train "${net[@]}" --devices sim:h200,cpu --run never
complains "name the host and one other device"
run 1 train "${net[@]}" --devices cpu,sim:h200,sim:h200:0 --run never
complains "sim:h200 and sim:h200:0 are one device"
HAUL_CUDA_LIBRARIES=/nonexistent OCL_ICD_VENDORS=/nonexistent run 1 train "${net[@]}" --devices cpu --run never
complains "cpu is the only device"
check "nothing was trained" test ! -e never
finish
