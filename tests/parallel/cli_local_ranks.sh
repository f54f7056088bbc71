# haul train --group local:cpu,cpu: ranks that are threads have the bits of one rank, go on with another number of
# ranks, and end together.
# ctest: labels=threads
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
. "$HAUL_SOURCE/tests/support/run/same.sh" || exit 1
export HAUL_GROUP_LIMIT=600

# The last mini-batch has 20 pictures, in pieces of 8 that are 8 8 4 0 0 0 0 0.
pictures=84 batch=64
[ -z "${HAUL_SANITIZE:-}" ] || pictures=20 batch=16
task=(--model simplecnn --data shapes:$pictures --batch $batch --pieces 8 --augment crop,flip --optimizer adamw
    --precision f16 --epochs 2 --seed 1 --threads 1 --workers 0 --log-every 1)
run 0 train "${task[@]}" --device cpu --run one
run 0 train "${task[@]}" --group local:cpu,cpu,cpu --run three
same one three
check "the ranks in the log" test "$(value three/log.jsonl done ranks)" = 3
check "bytes in the log" test "$(value three/log.jsonl done group_bytes)" -gt 100000
check "a peak for each rank" test "$(value three/log.jsonl done rank_peak_bytes | tr -cd , | wc -c)" = 2
check "pieces are followed" test "$(value three/log.jsonl done followed)" = 7
check "the ranks at the beginning" grep -qF "in 8 pieces on 3 ranks (cpu,cpu,cpu), adamw" out
check "one rank prints" test "$(grep -c 'Done' out)" -eq 1
check "and logs" test "$(grep -c '"event":"epoch"' three/log.jsonl)" -eq 2
check "nothing else is printed" test ! -s err

# A run goes on with another number of ranks.
run 0 train "${task[@]}" --epochs 1 --group local:cpu,cpu --shard 1 --run moved
run 0 train --run moved --resume --epochs 2 --group local:cpu,cpu,cpu --shard 0
same one moved
run 0 train --run moved --resume --group local:cpu,cpu
check "nothing is left" grep -q "moved is finished" out

# Errors: one complaint, with the rank and its device if the ranks had begun.
few=(--data blobs:100 --epochs 1 --batch 8)
run 1 train "${few[@]}" --group local:cpu,meta
complains "haul train: rank 1 (meta): --device meta has shapes without data"
[ -z "${HAUL_SANITIZE:-}" ] || finish # the rest takes a sanitizer long
run 1 train "${few[@]}" --group local:cpu,cpu --data nowhere:x
complains "haul train: --data nowhere:x: unknown source 'nowhere'"
run 2 train "${few[@]}" --group local:cpu,cpu,cpu --pieces 2
complains "there are 3 ranks, but only --pieces 2: each rank needs a piece"
run 2 train "${few[@]}" --group local:cpu,cpu --device cpu
complains "--group local:cpu,cpu names the device of each rank; leave --device out"
run 2 train "${few[@]}" --group local:cpu,cpu --shard 3
complains "--shard 3 is for ranks that are processes"
run 2 train "${few[@]}" --group local:cpu,cpu --devices cpu,opencl:0
complains "--group local:cpu,cpu names the device of each rank; leave --devices out"
run 2 train "${few[@]}" --group local:cpu,sim:h200,cpu --memory-limit 1G
complains "ranks of --group local:cpu,sim:h200,cpu share cpu"
OMPI_COMM_WORLD_SIZE=2 run 2 train "${few[@]}" --group local:cpu,cpu
complains "has started 2 processes, and --group local:cpu,cpu is for one process"
run 1 train "${few[@]}" --group local:cpu,nosuch
complains "no device \"nosuch\""
run 3 train "${few[@]}" --group local:cpu,cpu --lr 1e6 --epochs 5 --quiet
complains "training diverged"
run 4 train "${few[@]}" --group local:cpu,sim:h200 --memory-limit 2k
check "one rank explains" test "$(grep -c 'the training does not fit in --memory-limit 2k' err)" -eq 1

# Simulated devices.
run 0 train "${task[@]}" --group local:cpu,sim:h200 --shard 2 --run simulated
same one simulated

# Ctrl-C ends all ranks after the same step. Dropout draws by pieces, and shuffling by epochs.
text=(--model char_gpt --data sentences:40 --batch 8 --epochs 3 --threads 1 --workers 1 --optimizer adam)
run 0 train "${text[@]}" --group local:cpu,cpu --run whole
begin stopped "${text[@]}" --group local:cpu,cpu
kill -INT $job
wait $job
code=$?
check "it ends with 130" test $code -eq 130 -o $code -eq 0
run 0 train --run stopped --resume --group local:cpu,cpu,cpu,cpu
check "the same weights" cmp whole/weights.safetensors stopped/weights.safetensors
finish
