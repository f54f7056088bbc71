# haul train --pipeline: micro-batches keep both devices of a split network busy. Times are virtual, so they are the same
# each time. test_pipelines is the test of the library.
# ctest: labels=slow,once
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
export OCL_ICD_VENDORS=none

# ---- the same training ----
net=(--model simplecnn --data shapes:64 --batch 10 --workers 0 --epochs 2 --log-every 1)
halves=(--place 'conv*=sim:h200,fc*=sim:h200:1')
run 0 train "${net[@]}" "${halves[@]}" --run whole
run 0 train "${net[@]}" "${halves[@]}" --pipeline 4 --run parts
run 0 train "${net[@]}" "${halves[@]}" --pipeline 4 --eager --run eager
check "the bits of a step that is not followed" cmp -s parts/weights.safetensors eager/weights.safetensors
run 0 train "${net[@]}" --epochs 1 "${halves[@]}" --pipeline 4 --run half
run 0 train --run half --resume --epochs 2
check "the same bits when it goes on" cmp -s parts/weights.safetensors half/weights.safetensors
check "the micro-batches stay with the run" grep -q '"pipeline": 4' half/config.json
run 0 train "${net[@]}" "${halves[@]}" --pipeline 64 --run most
check "losses and right answers of the whole mini-batch, also with a smaller last part" "$HAUL_PYTHON" - <<'END'
import json


def log(name, event):
    return [e for e in map(json.loads, open(f"{name}/log.jsonl")) if e["event"] == event]


whole = log("whole", "batch")
for name in ("parts", "most"):
    losses = log(name, "batch")
    assert len(losses) == len(whole) == 14
    assert all(abs(a["loss"] - b["loss"]) < 1e-4 for a, b in zip(whole, losses)), name
    hits = [[e["train_accuracy"] for e in log(n, "epoch")] for n in ("whole", name)]
    assert hits[0] == hits[1], hits
END

# ---- both devices at once ----
first='conv1=sim:laptop-4g,relu1=sim:laptop-4g,pool1=sim:laptop-4g'
second='conv2=sim:jetson,relu2=sim:jetson,pool2=sim:jetson,fc*=sim:jetson,relu3=sim:jetson,relu4=sim:jetson'
net=(--model simplecnn --data shapes:4096 --batch 2048 --workers 0 --epochs 1 --device sim:laptop-4g --profile 1)
run 0 train "${net[@]}" --place "$first,$second" --run one
run 0 train "${net[@]}" --place "$first,$second" --pipeline 6 --run six
check "they overlap by 60 %, and a step is shorter" "$HAUL_PYTHON" - <<'END'
import json


def overlap(name):
    """The share of the shorter work of the two devices in which both work."""
    events = json.load(open(f"{name}/trace.json"))
    events = events["traceEvents"] if isinstance(events, dict) else events
    compute = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["args"].get("name") == "compute"}
    work = {}
    for e in events:
        if e["ph"] == "X" and (e["pid"], e["tid"]) in compute:
            work.setdefault(e["pid"], []).append((e["ts"], e["ts"] + e["dur"]))
    a, b = work.values()
    both = sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)
    return both / min(sum(end - begin for begin, end in x) for x in (a, b))


def step_ms(name):
    return [e for e in map(json.loads, open(f"{name}/log.jsonl")) if e["event"] == "done"][0]["step_ms"]


assert overlap("one") < 0.1, overlap("one")
assert overlap("six") >= 0.6, overlap("six")
assert step_ms("six") < 0.95 * step_ms("one"), (step_ms("six"), step_ms("one"))
END

# ---- steps that are followed ----
# Places in an arena are used again. A copy waits for the commands that used its places, and not for all others.
first='conv1=sim:h200,relu1=sim:h200,pool1=sim:h200'
second='conv2=sim:h200:1,relu2=sim:h200:1,pool2=sim:h200:1,fc*=sim:h200:1,relu3=sim:h200:1,relu4=sim:h200:1'
net=(--model simplecnn --data shapes:2048 --batch 512 --workers 1 --epochs 2 --device sim:h200 --place "$first,$second")
for parts in 1 4; do
    run 0 train "${net[@]}" --pipeline $parts --run followed$parts
    run 0 train "${net[@]}" --pipeline $parts --eager --run eager$parts
    check "the same weights, $parts parts" cmp -s followed$parts/weights.safetensors eager$parts/weights.safetensors
done
check "devices overlap as in steps by themselves" "$HAUL_PYTHON" - <<'END'
import json


def step_ms(name):
    return [e for e in map(json.loads, open(f"{name}/log.jsonl")) if e["event"] == "done"][0]["step_ms"]


for parts, most in ((1, 1.005), (4, 1.05)):
    times = [step_ms(f"{kind}{parts}") for kind in ("followed", "eager")]
    assert times[0] <= most * times[1], (parts, times)
END

# ---- a split that is found ----
run 0 train --model simplecnn --data shapes:4096 --batch 2048 --workers 0 --epochs 1 --devices cpu,sim:laptop-4g,sim:jetson --pipeline 4 --run found
check "it was tried against each device alone" grep -Eq '^chosen  all on sim:laptop-4g:0; .* a step in a short run, [0-9.]+ ms split as planned' out
check "which has no micro-batches" grep -q '"pipeline": 1' found/config.json

# ---- a plan in stages ----
net=(--model simplecnn --data shapes:4096 --batch 2048)
devices=(--devices cpu,sim:h200,sim:h200:1)
run 0 plan "${devices[@]}" --stages --certificate stages.json -- "${net[@]}"
check "the work of each device" grep -Eq '^A step has [0-9.]+ [mu]?s of work on cpu, [0-9.]+ [mu]?s of work on sim:h200:0, [0-9.]+ [mu]?s' out
check "no batch from which devices pay" test "$(grep -c 'from batch' out)" -eq 0
run 0 plan --verify stages.json
run 0 plan "${devices[@]}" --json -- "${net[@]}"
cp out plain
run 0 plan "${devices[@]}" --stages --json -- "${net[@]}"
check "two halves" "$HAUL_PYTHON" - <<'END'
import json

plain, stages = json.load(open("plain")), json.load(open("out"))
assert min(stages["step_ms"], plain["step_ms"]) >= stages["bound_ms"] and plain["makespan_ms"] <= plain["step_ms"]
work = [stages["work_ms"][d] for d in ("sim:h200:0", "sim:h200:1")]
assert min(work) > 0.25 * max(work), work
END
run 0 train "${net[@]}" --workers 0 --epochs 1 --plan stages.json --pipeline 4 --run staged
run 2 plan "${devices[@]}" --stages --allow spill -- "${net[@]}"

# ---- where it does not apply ----
net=(--model simplecnn --data shapes:64 --epochs 1)
run 2 train "${net[@]}" --pipeline 4
complains "--pipeline 4 keeps several devices busy; give --place, --plan or --devices"
run 2 train "${net[@]}" --place 'fc*=sim:jetson' --pipeline 0
finish
