# The same training on an OpenCL device: it learns, transfers are counted, layers are traced there.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

"$HAUL" devices --json >out
"$HAUL_PYTHON" -c '
import json, sys
sys.exit(77 if not any(d["name"] == "opencl:0" and d["usable"] for d in json.load(open("out"))["devices"]) else 0)' ||
    { echo "there is no OpenCL device here"; exit 77; }

blobs=(--model dense --data blobs --batch 32 --epochs 2 --lr 0.1 --log-every 1000)
run 0 train "${blobs[@]}" --device opencl:0 --json --run r
check "learns" at_least "$(value out epoch test_accuracy)" 0.95
check "on the device" test "$(value out done device)" = opencl:0
# 1000 and 200 rows an epoch of 10 + 1 floats go up, and the parameters; results come back a few times an epoch.
check "bytes up" at_least "$(value out done h2d_bytes)" $((2 * 1200 * 44))
check "few bytes back" at_least 20000 "$(value out done d2h_bytes)"
check "memory is told" at_least "$(value out done peak_bytes)" 1000
check "the ledger has every byte" "$HAUL_PYTHON" -c '
import json, sys
done = [e for e in map(json.loads, open("r/log.jsonl")) if e["event"] == "done"][0]
ledger = json.load(open("r/ledger.json"))
rows = ledger["rows"]
up = sum(r["bytes"] for r in rows if r["from"] == "cpu")
down = sum(r["bytes"] for r in rows if r["to"] == "cpu")
assert (up, down) == (done["h2d_bytes"], done["d2h_bytes"]), (up, down)
assert sum(r["count"] for r in rows) == ledger["copies"] == done["transfers"]
assert sum(r["bytes"] for r in rows) == ledger["bytes"] and ledger["device"] == "opencl:0"
named = {r["tensor"]: r for r in rows}
saved = named["fc1.weight"]
assert saved["operation"] == "haul_read" and saved["label"] == "saving" and saved["to"] == "cpu", saved
batches = [r for r in rows if r["tensor"] == "x" and r["operation"] == "haul_loader_next"]
assert sum(r["bytes"] for r in batches) == 2 * 1200 * 40, batches
assert {"validation", "test", "saving"} & {r["label"] for r in rows}
assert all(0 <= r["overlap_ms"] <= r["device_ms"] and r["wait_ms"] >= 0 for r in rows)
assert sum(r["device_ms"] for r in rows) > 0
memory = json.load(open("r/memory.json"))
live = [b for b in memory["blocks"] if b["live"]]
assert memory["device"] == "opencl:0" and sum(b["bytes"] for b in live) == memory["allocated"] > 0
assert any(b.get("module") for b in memory["blocks"]), "modules are recorded"'

cp out there
run 0 train "${blobs[@]}" --epochs 1 --device opencl:0 --json --sync-report
check "waits are told" grep -Eq '^haul_[a-z_0-9]+ (waited|found done) [0-9.]+ us for opencl:0 \(' err
check "on standard error only" is_json_lines out
check "with the place" grep -Eq ' at .*\+0x[0-9a-f]+' err
run 0 train "${blobs[@]}" --device cpu --json
check "cpu and opencl:0 agree" "$HAUL_PYTHON" -c '
import json, sys
def losses(path):
    return [e["train_loss"] for e in map(json.loads, open(path)) if e["event"] == "epoch"]
sys.exit(not all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(losses("there"), losses("out"), strict=True)))'

run 0 predict --run r --data blobs --device opencl:0 --trace
check "layers there" grep -Eq '^fc1 +linear +opencl:0' out
check "input placed" grep -Eq '^placement +to device +opencl:0' out
check "output home" grep -Eq '^output +to cpu +cpu' out

# Spellings of TensorFlow are understood; resuming on another device goes on.
run 0 train --run r --resume --epochs 3 --device /device:CPU:0 --json
check "resumed on the cpu" test "$(value out done device)" = cpu
finish
