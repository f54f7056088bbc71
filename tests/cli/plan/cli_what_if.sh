# haul what-if: predictions for another machine and this one, which are those of haul plan.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
export HAUL_CACHE_DIR=$PWD/cache OCL_ICD_VENDORS=none

run 0 what-if --machine h200 --model simplecnn --batch 32
check "a column for each device" grep -Eq '^ +cpu +cpu +cuda:0$' out
for row in step examples/s computing launching copying copied peak memory; do
    check "a row: $row" grep -Eq "^ *$row +" out
done
check "no space at the end" test "$(grep -c ' $' out)" -eq 0
check "it is said whose times they are" grep -q 'by data sheets' out
run 0 what-if --machine h200 --model simplecnn --batch 32 --json
cp out what-if.json
run 0 plan --machine h200 --model simplecnn --batch 32 --json
cp out plan.json
check "the times and peaks of haul plan" "$HAUL_PYTHON" - <<'END'
import json
what, plan = json.load(open("what-if.json")), json.load(open("plan.json"))
here, host, gpu = what["devices"]
assert here["machine"] == "here" and not here["described"] and here["step_ms"] > 0, here
assert host["machine"] == gpu["machine"] == "h200" and gpu["described"], gpu
for d in (host, gpu):
    assert abs(d["step_ms"] - plan["single"][d["device"]]) < 1e-6, (d, plan["single"])
for d in what["devices"]:
    assert abs(d["step_ms"] - d["compute_ms"] - d["launch_ms"] - d["copy_ms"]) < 1e-6, d
    assert d["compute_ms"] > 0 and d["launch_ms"] > 0 and d["peak_bytes"] > 0 and d["fits"] and d["unmeasured"] == "", d
assert here["copied_bytes"] == host["copied_bytes"] == 0 and host["copy_ms"] == 0
assert gpu["copied_bytes"] >= 32 * 3 * 32 * 32 * 4 and gpu["copy_ms"] >= 0
END

# Copies of the data are no part of a step, unless they take longer than it.
cat >slow.py <<'END'
import json
slow = {"haul_machine": 1, "name": "slow", "devices": [
    {"name": name, "memory_bytes": 10**10, "launch_ns": 500, "bytes_per_second": 5 * 10**10} for name in ("cpu", "cuda:0")],
    "links": [{"from": a, "to": b, "name": "pcie3", "overlap": True} for a, b in (("cpu", "cuda:0"), ("cuda:0", "cpu"))]}
json.dump(slow, open("fast.json", "w"))
for link in slow["links"]:
    link["pinned_bytes_per_second"] = 10**6
json.dump(slow, open("slow.json", "w"))
END
check "two machines" "$HAUL_PYTHON" slow.py
run 0 what-if --machine fast.json --model simplecnn --batch 32 --json
cp out fast.out
run 0 what-if --machine slow.json --model simplecnn --batch 32 --json
cp out slow.out
check "a link that is fast enough costs nothing, a slow one all of the step" "$HAUL_PYTHON" - <<'END'
import json
fast, slow = (json.load(open(name))["devices"][-1] for name in ("fast.out", "slow.out"))
assert fast["copy_ms"] == 0 < fast["copied_bytes"], fast
assert slow["compute_ms"] == fast["compute_ms"] and slow["launch_ms"] == fast["launch_ms"], slow
assert abs(slow["step_ms"] - slow["copied_bytes"] / 1e3 - 0.02) < 0.1, slow
END

# ---- the step of a run ----
run 0 train "${small[@]}" --epochs 1 --run r
run 0 what-if --machine h200 --run r --batch 16
check "the batch" grep -q '^one training step of dense, batch 16,' out
cp out given
run 0 what-if --machine h200 --run r
check "the same if the batch is that of the run" cmp given out

# ---- a machine from a file ----
cat >desk.json <<'END'
{"haul_machine": 1, "name": "desk", "devices": [
  {"name": "cpu", "memory_bytes": 100000, "launch_ns": 500, "bytes_per_second": 50000000000}]}
END
run 0 what-if --machine desk.json --model simplecnn
check "what does not fit" grep -q 'does not fit on desk cpu' out
check "classes without rates" grep -q 'desk cpu has no rate for .*conv.*bytes over bandwidth' out

# A class is listed whatever the other names contain, and by the rate that an operation would use.
run 0 what-if --machine desk.json --model resnet18 --batch 8 --json
cp out without.json
check "each class once" "$HAUL_PYTHON" - <<'END'
import json
names = json.load(open("without.json"))["devices"][-1]["unmeasured"].split(", ")
assert len(names) == len(set(names)), names
for name in ("conv", "deep_conv", "conv_backward", "deep_conv_backward", "matmul", "softmax"):
    assert name in names, (name, names)
END

# Rates of f32 are for all operations of f32 operands, also for those that lack their first operand.
check "a machine with rates of f32" "$HAUL_PYTHON" - <<'END'
import json
desk = json.load(open("desk.json"))
names = json.load(open("without.json"))["devices"][-1]["unmeasured"].split(", ")
desk["devices"][0]["rates"] = [{"class": name, "dtype": "f32", "points": [[1000, 1000000000]]} for name in names]
json.dump(desk, open("rates.json", "w"))
END
run 0 what-if --machine rates.json --model resnet18 --batch 8 --json
check "no class without a rate" grep -q '"unmeasured": *""' out

sed -i 's/"launch_ns": 500/"launch_ns": -1/' desk.json
run 1 what-if --machine desk.json --model simplecnn
complains "devices[0].launch_ns"
run 1 what-if --machine h300 --model simplecnn
complains "h300"

# ---- times that a profile measured ----
step=(--model simplecnn --batch 16 --machine h200)
run 0 what-if "${step[@]}" --json
check "nothing is learnt" grep -q '"learnt_operations": *0' out
cp out before
run 0 train --model simplecnn --data shapes:160 --batch 16 --device cpu --epochs 1 --profile 5 --run profiled --quiet
run 0 what-if "${step[@]}" --json
cp out after
check "the profile's operations, on this computer only" "$HAUL_PYTHON" - <<'END'
import json
before, after = (json.load(open(name))["devices"] for name in ("before", "after"))
assert after[0]["learnt_operations"] > 0 and after[0]["step_ms"] > 0, after[0]
assert before[1:] == after[1:], (before, after)
END
run 0 what-if "${step[@]}"
check "they are counted" grep -Eq '^learnt +[0-9]+ +- +-$' out
for file in cache/*; do
    grep -q '"name":"learnt"' "$file" && sed -i 's/"ps":/"ps":x/' "$file" && echo "$file"
done >damaged
check "a file with them" test "$(wc -l <damaged)" -eq 1
run 0 what-if "${step[@]}" --json
check "a damaged file is ignored" cmp out before

# A rank of one thread, to which its launcher gave one core, measures for plans on the whole computer.
core=$(taskset -cp $$ | sed 's/^.*: *//; s/[-,].*$//')
check "a profile on one core" taskset -c "$core" "$HAUL" train --model simplecnn --data shapes:160 --batch 16 \
    --device cpu --epochs 1 --profile 5 --run one-core --quiet --threads 1
HAUL_NUM_THREADS=1 run 0 what-if "${step[@]}" --json
check "its operations are learnt" grep -q '"learnt_operations": *[1-9]' out
one=(--ranks 1 --only stages=1,replicas=1,micro-batches=1,shard=0)
HAUL_NUM_THREADS=1 run 0 plan "${one[@]}" --json -- --model simplecnn --batch 16 --device cpu
check "and count in plans of ranks" grep -q '"learnt_operations": *[1-9]' out
HAUL_NUM_THREADS=1 run 0 plan "${one[@]}" -- --model simplecnn --batch 16 --device cpu
check "which say so" grep -Eq '^Of [0-9]+ operations of a micro-batch, profiles measured the times of [1-9]' out

# ---- wrong command lines ----
run 2 what-if --model simplecnn
complains "--machine NAME or --ranks LIST is missing"
run 2 what-if --machine h200
complains "which step?"
run 2 what-if --machine h200 --model simplecnn --run here
complains "--model and --run were given"

# ---- many ranks ----
run 0 what-if --machine h200 --model simplecnn --batch 1024 --ranks 1,8,1024 --per-host 8 --network 400gbit,5us
for row in ranks hosts pieces step computing waiting updating examples/s efficiency exchange staging 'sent by a rank' 'peak of a rank'; do
    check "a row: $row" grep -Eq "^ *$row  +" out
done
run 0 what-if --machine h200 --model simplecnn --batch 1024 --ranks 1,8,1024 --per-host 8 --network 400gbit,5us --json
check "what the ranks take" "$HAUL_PYTHON" - out <<'END'
import json, sys
data = json.load(open(sys.argv[1]))
one, eight, all = data["ranks"]
assert data["device"] == "cuda:0" and data["described"], data
assert [r["ranks"] for r in data["ranks"]] == [1, 8, 1024] and [r["hosts"] for r in data["ranks"]] == [1, 1, 128], data
assert one["pieces"] == eight["pieces"] == 8 and all["pieces"] == 1024 and all["piece"] == 1, data
assert one["exchange_ms"] == one["sent_bytes"] == 0 and one["efficiency"] == 1, one
for r in data["ranks"]:
    assert abs(r["step_ms"] - r["compute_ms"] - r["waited_ms"] - r["update_ms"]) < 1e-6, r
    assert r["gradient_bytes"] == 62006 * 4 and r["fits"], r
assert eight["step_ms"] < one["step_ms"] and 2 * 62006 * 4 * 7 / 8 - 64 < eight["sent_bytes"] <= 2 * 62006 * 4 * 7 / 8
END
cp out after.json
run 0 what-if --machine h200 --model simplecnn --batch 1024 --ranks 1,8,1024 --per-host 8 --network 400gbit,5us --overlap --json
check "overlap hides a part of the exchange" "$HAUL_PYTHON" - out after.json <<'END'
import json, sys
during, after = (json.load(open(name))["ranks"][1] for name in sys.argv[1:])
assert after["waited_ms"] == after["exchange_ms"] > 0, after
assert during["waited_ms"] <= during["exchange_ms"], during
END
run 0 what-if --model dense --ranks 2 --batch 64
check "this computer" grep -q '1 rank on each host, each with cpu of this computer' out
for wrong in '--ranks 0' '--ranks 1,,2' '--ranks 1025' '--ranks 1,2,3,4,5,6,7' '--ranks 1 --network fast' '--ranks 1 --network 10gbit,0us' '--ranks 9 --pieces 8 --batch 64' '--ranks 16 --batch 8' '--network 1gbit' '--per-host 2' --overlap '--ranks 2 --pieces 5 --batch 60' '--ranks 2 --batch 60'; do
    run 2 what-if --machine h200 --model dense $wrong
done
run 2 what-if --machine h200 --ranks 1 -- --model dense --data blobs:64 --batch 1024
complains "a piece of 128 examples is more than the 64 of the data; give a larger --pieces"
run 2 what-if --ranks 1,2 -- --model dense --data blobs:64 --pieces 16
complains "--pieces is an option of haul what-if, too; give it before --"
run 0 what-if --ranks 1,2 --json -- --model char_gpt --data sentences:64 --batch 8 --layers 1
check "options of haul train" grep -q '"batch": *8' out
finish
