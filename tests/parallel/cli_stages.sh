# haul train --stages: a stage of the network on each rank has the bits of one process, goes on with another number of
# stages, and keeps less than the whole network.
# ctest: labels=threads
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
. "$HAUL_SOURCE/tests/support/run/same.sh" || exit 1
export HAUL_GROUP_LIMIT=600

# The last mini-batch has fewer pictures, in pieces of which some are empty.
pictures=84 batch=64
[ -z "${HAUL_SANITIZE:-}" ] || pictures=20 batch=16
task=(--model simplecnn --data shapes:$pictures --batch $batch --pieces 8 --augment crop,flip --optimizer adamw
    --precision f16 --epochs 2 --seed 1 --threads 1 --workers 0 --log-every 1)
run 0 train "${task[@]}" --device cpu --run one
run 0 train "${task[@]}" --group local:cpu,cpu --stages 2 --run two
same one two
check "the ranks in the log" test "$(value two/log.jsonl done ranks)" = 2
check "bytes in the log" test "$(value two/log.jsonl done group_bytes)" -gt 100000
check "stages at the beginning" \
    grep -Eq "in 8 pieces on 2 ranks \(cpu,cpu\), which are stages \(cuts [a-z0-9]+\), adamw" out
check "stages in the log" test "$(value two/log.jsonl start stages)" = 2
check "one rank prints" test "$(grep -c 'Done' out)" -eq 1
check "nothing else is printed" test ! -s err
check "each rank has a part of the state" test $(($(value two/log.jsonl done state_bytes) * 10)) -lt \
    $(($(value two/log.jsonl done state_bytes_of_all) * 9))

# Stages begin where a plan of the training has them.
run 0 plan --ranks 4 --only stages=4,replicas=1,micro-batches=8 --json -- "${task[@]}"
cp out plan.json
run 0 train "${task[@]}" --threads 0 --epochs 1 --group local:cpu,cpu,cpu,cpu --stages 4 --json
check "the cuts of the plan" "$HAUL_PYTHON" - <<'END'
import json
plan = json.load(open("plan.json"))
start = [e for e in map(json.loads, open("out")) if e["event"] == "start"][0]
assert start["cuts"] == ",".join(m["first"] for m in plan["modules"][1:]), (start["cuts"], plan["modules"])
END

# A run goes on with other stages, as replicas of the whole network, and alone.
run 0 train "${task[@]}" --epochs 1 --group local:cpu,cpu --stages 2 --run moved
run 0 train --run moved --resume --epochs 2 --group local:cpu,cpu,cpu --stages 3 --cuts conv2,fc1
same one moved
run 0 train --run moved --resume --epochs 3 --group local:cpu,cpu --stages 2
check "cuts are for a number of stages" test "$(value moved/log.jsonl done ranks)" = 2
[ -z "${HAUL_SANITIZE:-}" ] || finish # the rest takes a sanitizer long
run 0 train "${task[@]}" --epochs 1 --group local:cpu,cpu --stages 2 --run alone
run 0 train --run alone --resume --epochs 2 --device cpu
same one alone

# Batch norm and residual connections.
norms=(--model resnet18 --data shapes:20 --batch 16 --pieces 4 --optimizer adamw --epochs 1 --seed 1 --threads 1
    --workers 0)
run 0 train "${norms[@]}" --device cpu --run norms
run 0 train "${norms[@]}" --group local:cpu,cpu,cpu,cpu --stages 4 --run norms-4
same norms norms-4

# Parts that run again in the backward pass.
run 0 train "${norms[@]}" --group local:cpu,cpu --stages 2 --recompute auto --run norms-again
same norms norms-again
check "some did" grep -q "^again  *[0-9]* of [0-9]* parts run again" out

# State of the optimizer in host memory.
run 0 train "${task[@]}" --group local:cpu,cpu --stages 2 --offload optimizer --run offloaded
same one offloaded

# The best weights, which are not the last ones, come back for the test from a file or from memory.
best=(--model dense --data blobs:60 --validation 0.3 --batch 16 --pieces 4 --epochs 3 --lr 3 --seed 1 --threads 1
    --workers 0)
run 0 train "${best[@]}" --device cpu --run best
run 0 train "${best[@]}" --group local:cpu,cpu --stages 2 --run best-2
check "the best weights" cmp best/best.safetensors best-2/best.safetensors
check "their loss" test "$(value best/log.jsonl done test_loss)" = "$(value best-2/log.jsonl done test_loss)"
run 0 train "${best[@]}" --group local:cpu,cpu --stages 2 --json
check "the same from memory" grep -qF "\"test_loss\":$(value best/log.jsonl done test_loss)," out

# An estimate is of the whole network and needs no ranks. It says nothing of what a rank may take.
run 0 train "${norms[@]}" --estimate --stages 4 --memory-limit 1M
run 0 train "${norms[@]}" --estimate --stages 2 --cuts layer3 --recompute off --json

# Errors
few=(--data blobs:100 --epochs 1 --batch 8)
run 2 train "${few[@]}" --group local:cpu,cpu --stages 3
complains "--stages 3 needs 3 ranks, and there are 2"
run 2 train "${few[@]}" --device cpu --stages 2
complains "--stages 2 needs 2 ranks, and there is 1"
run 2 train "${few[@]}" --group local:cpu,cpu --stages 2 --shard 1
complains "--stages does not work with --shard"
run 2 train "${few[@]}" --group local:cpu,cpu,cpu,cpu --stages 2
complains "--stages 2 needs 2 ranks, and there are 4"
run 2 train "${few[@]}" --group local:cpu,cpu --cuts fc2
complains "--cuts is for --stages"
run 1 train "${few[@]}" --group local:cpu,cpu --stages 2 --cuts nosuch
complains "the names of 1 modules are expected"
run 1 train --model char_gpt --data sentences:40 --epochs 1 --batch 8 --group local:cpu,cpu --stages 2
complains "the char_gpt has a forward function or hooks of its own"
finish
