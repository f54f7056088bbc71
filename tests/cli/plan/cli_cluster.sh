# haul plan --ranks: a training on up to 1,024 equal devices, against haul what-if, a simulated pipeline, and limits.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
export OCL_ICD_VENDORS=none

# ---- text and JSON ----
step=(--model simplecnn --batch 8192 --machine h200 --ranks 1024 --network 400gbit,5us)
run 0 plan "${step[@]}"
check "the choice" grep -Eq '^Best: [0-9,]+ devices? on [0-9]+ hosts?: [0-9,]+ replicas? of [0-9]+ stages?, shard [0-3], ' out
for row in step computing communication bubble exchange examples/s efficiency 'sent by a device' 'peak of a device' activations; do
    check "a row: $row" grep -Eq "^ *$row  +" out
done
check "it is said that nothing ran" grep -q '^This is a prediction: nothing ran\.' out
run 0 plan "${step[@]}" --json
cp out plan.json
check "the plan and its rivals" "$HAUL_PYTHON" - <<'END'
import json
d = json.load(open("plan.json"))
best = d["plan"]
assert d["group"] == "nccl" and d["ranks"] == 1024 and d["per_host"] == 8 and d["network_gradient_bytes"] == 62006 * 4, d
for p in [best, *d["fewer"], *d["others"]]:
    assert p["fits"] and p["devices"] == p["stages"] * p["replicas"], p
    assert p["micro_batch"] * p["micro_batches"] * p["replicas"] == 8192, p
    assert abs(p["step_ms"] - p["compute_ms"] - p["exposed_ms"] - p["bubble_ms"]) < 1e-6, p
    assert abs(p["examples_per_second"] * p["step_ms"] - 8192e3) < 1, p
assert [p["most_devices"] for p in d["fewer"]] == [1024 >> i for i in range(11)]
assert all(p["devices"] <= p["most_devices"] for p in d["fewer"])
assert d["fewer"][0] == {**best, "most_devices": 1024} and abs(d["fewer"][-1]["efficiency"] - 1) < 1e-9
assert all(best["step_ms"] <= 1.01 * p["step_ms"] for p in d["fewer"] + d["others"])
assert {p["stages"] for p in d["others"]} >= {2, 4} and all(p["why_not"] for p in d["others"])
END

# ---- networks with residual connections ----
run 0 plan --model mobilenet_v2 --machine h200 --ranks 4 --only stages=2
check "single examples, which batch norm refuses, are left out" test "$(grep -c '^Best: ' out)" -eq 1
run 0 plan --devices cpu,cuda:0,cuda:1 --machine h200 --stages --json -- --model resnet18 --pipeline 4
cp out stages.json
run 0 plan --machine h200 --ranks 2 --only stages=2,micro-batches=4 --json -- --model resnet18
check "stages do not wait for their gradients" "$HAUL_PYTHON" - <<'END'
import json
plan, stages = json.load(open("out"))["plan"]["step_ms"], json.load(open("stages.json"))["makespan_ms"]
assert abs(plan / stages - 1) < 0.06, (plan, stages)
END

# ---- the times of haul what-if ----
run 0 what-if --model simplecnn --batch 1024 --machine h200 --ranks 64 --per-host 8 --pieces 128 --overlap --json
cp out what-if.json
only=stages=1,replicas=64,micro-batches=2,shard=0
run 0 plan --model simplecnn --batch 1024 --machine h200 --ranks 64 --per-host 8 --group mpi --only $only --json
check "are those of the plan" "$HAUL_PYTHON" - <<'END'
import json
plan, rank = json.load(open("out"))["plan"], json.load(open("what-if.json"))["ranks"][0]
for mine, other in (("step_ms", "step_ms"), ("exposed_ms", "waited_ms"), ("exchange_ms", "exchange_ms"),
                    ("sent_bytes", "sent_bytes")):
    assert abs(plan[mine] - rank[other]) <= 1e-6 * rank[other], (mine, plan, rank)
END

# ---- a pipeline on two simulated GPUs ----
net=(--model simplecnn --data shapes:1536 --batch 256)
run 0 plan --devices cpu,sim:h200:0,sim:h200:1 --stages --certificate two.json -- "${net[@]}" --pipeline 4
run 0 train "${net[@]}" --pipeline 4 --plan two.json --epochs 1 --workers 0 --json
grep '"done"' out >done.json
run 0 plan --machine h200 --ranks 2 --only stages=2,micro-batches=4 --json -- "${net[@]}"
check "takes the predicted time but for 5 %" "$HAUL_PYTHON" - <<'END'
import json
plan, ran = json.load(open("out"))["plan"]["step_ms"], json.load(open("done.json"))["step_ms"]
assert abs(plan / ran - 1) < 0.05, (plan, ran)
END

# ---- the printed command ----
# next GROUP: runs the printed command, with a thread for each rank
next() {
    sed -n 's/^next  *//p' out >line
    check "a command is printed" test -s line
    # shellcheck disable=SC2046 # words
    run 0 train $(sed 's/.*haul train//; s/--device cpu//' line) --group "$1" --epochs 1 --threads 1 --workers 0 --json
}

task=(--model simplecnn --data shapes:64 --optimizer adamw)
run 0 plan --ranks 2 --only stages=2,micro-batches=4 -- "${task[@]}" --batch 32
check "each stage has its modules" test "$(grep -Ec '^[01]  +[a-z0-9]+( to [a-z0-9]+)?  ' out)" -eq 2
next local:cpu,cpu
check "it trains in stages" grep -q '"stages":2' out
check "each rank has a part of the state" "$HAUL_PYTHON" - <<'END'
import json
done = [e for e in map(json.loads, open("out")) if e["event"] == "done"][0]
assert done["ranks"] == 2 and done["state_bytes"] < 0.9 * done["state_bytes_of_all"], done
END
run 0 plan --ranks 4 --only stages=4,micro-batches=2 --json -- "${task[@]}" --batch 32
check "in JSON, too" "$HAUL_PYTHON" - <<'END'
import json
d = json.load(open("out"))
stages = d["modules"]
assert len(stages) == 4 and stages[0]["first"] == "conv1" and stages[3]["last"] == "fc3", stages
assert d["plan"]["peak_bytes"] == max(s["peak_bytes"] for s in stages), d["plan"]
assert d["next"].startswith("mpirun -n 4 haul train "), d["next"]
assert d["next"].endswith(" --batch 32 --pieces 2 --stages 4 --cuts " + ",".join(s["first"] for s in stages[1:])), d
END
run 0 plan --ranks 2 --only replicas=2,shard=1 -- "${task[@]}" --batch 32
next local:cpu,cpu
check "replicas train, too" grep -q '"event":"done"' out
run 0 plan --model resnet18 --batch 64 --machine h200 --ranks 4 --only stages=2,replicas=2
check "replicas of stages do not" grep -q 'haul train has replicas or stages, not both' out
check "and have no command" test "$(grep -c ^next out)" -eq 0

# ---- limits ----
limited=(--model simplecnn --machine h200 --batch 256 --ranks 4 --only stages=1)
run 4 plan "${limited[@]}" --memory-limit 1200k
check "what it needs" grep -q '^haul plan: no plan fits into the 1.1 MiB of a device: with batch 256 each of 4 devices needs ' err
sed -n 's/^ *It \(also \)*fits with \(.*\)\.$/\2/p' err >fits
check "three ways out" test "$(wc -l <fits)" -eq 3
while read -r option value; do
    case $option in
    --memory-limit) run 0 plan "${limited[@]}" "$option" "$value" ;;
    *) run 0 plan "${limited[@]}" --memory-limit 1200k "$option" "$value" ;;
    esac
done <fits

run 0 plan --model mlp --machine h200 --batch 64 --ranks 1 --memory-limit 12M
check "one micro-batch needs no sums of gradients" grep -q '^Best: .* 1 micro-batch of 64 examples' out
check "one device is no plural" grep -q ', on up to 1 device,' out

# 1,024 devices need least; of 600 only 512 can be used, and the next number that is tried is 1,024.
wide=(--model simplecnn --machine h200 --batch 1024 --only stages=1)
run 4 plan "${wide[@]}" --ranks 1024 --memory-limit 1k
least=$(sed -n 's/^ *It fits with --memory-limit \(.*\)\.$/\1/p' err)
run 4 plan "${wide[@]}" --ranks 600 --memory-limit "$least"
check "more devices, at most 1,024" grep -q '^ *It also fits with --ranks 1024\.$' err

# ---- nothing to choose from ----
net=(--model mlp --machine h200)
run 2 plan "${net[@]}" --batch 8192 --ranks 1024 --only micro-batches=8,replicas=1024
complains "replicas times micro-batches are 8,192, and can be 4,096"
run 2 plan "${net[@]}" --ranks 8 --only stages=64
complains "that needs --ranks 64"
run 2 plan "${net[@]}" --ranks 64 --only stages=32
complains "the network can be cut into 3 stages"
run 2 plan "${net[@]}" --ranks 8 --per-host 3 --only stages=2
complains "2 stages neither divide hosts of 3 devices nor fill them"
run 2 plan "${net[@]}" --ranks 8 --only replicas=1,shard=2
complains "a shard divides among replicas"
run 2 plan "${net[@]}" --batch 63 --ranks 8 --only replicas=2
complains "replicas times micro-batches are 2, which do not divide --batch 63"
run 2 plan "${net[@]}" --batch 20001 --ranks 8
complains "is more than the 10,000 examples of the data"
run 2 plan --model char_gpt --machine h200 --ranks 8 --only stages=2
complains "haul train cannot cut char_gpt into stages"
run 2 plan --machine h200 --ranks 8 --only stages=2 -- --model mlp --shard 1
complains "--stages of haul train does not work with --shard"
run 0 plan --machine h200 --ranks 8 --only stages=2 -- --model mlp --spill on

# ---- wrong command lines ----
run 1 plan --model mlp --machine nosuch --ranks 8
complains "the machine nosuch is unknown"
for wrong in '--ranks 1025' '--per-host 8' '--only stages=2' '--ranks 8 --only stages=3' '--ranks 8 --only shard=4' \
    '--ranks 8 --only colour=1' '--ranks 8 --stages' '--ranks 8 --devices cpu,cuda:0' '--ranks 8 --network fast' \
    '--ranks 8 --group gloo' '--ranks 8 --bucket 0' '--ranks 8 --only replicas=1024'; do
    # shellcheck disable=SC2086
    run 2 plan --model simplecnn --machine h200 $wrong
done
run 2 plan --model simplecnn --machine laptop-4g --ranks 8 --group nccl
complains "laptop-4g has no link between two GPUs"
finish
