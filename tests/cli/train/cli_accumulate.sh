# --accumulate: several mini-batches train as one large one does, in the memory of one.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
task=(--model dense --data blobs:100 --epochs 3 --device cpu --lr 0.05 --workers 0)

# 100 examples in mini-batches of 8: the last has 4, and the last group of 4 mini-batches has only that one.
for how in "--optimizer adam --lr 0.01" "--optimizer adamw --weight-decay 0.1" "--optimizer sgd --schedule onecycle"; do
    rm -rf large small
    # shellcheck disable=SC2086 # words
    run 0 train "${task[@]}" $how --batch 32 --run large
    # shellcheck disable=SC2086
    run 0 train "${task[@]}" $how --batch 8 --accumulate 4 --run small
    check "$how: the same weights" "$HAUL_PYTHON" - <<'END'
from weights import load
far = max(abs(a - b) for a, b in zip(load("large"), load("small")))
assert far < 2e-6, far
END
done
check "the plan says so" grep -qF '3 epochs of 4 steps, batch 4 x 8, sgd' out
check "the log says so" test "$(value small/log.jsonl start accumulate)" = 4
check "but not without it" bash -c '! grep -q accumulate large/log.jsonl'

# One mini-batch a step is what it was before.
run 0 train "${task[@]}" --batch 8 --run one
run 0 train "${task[@]}" --batch 8 --accumulate 1 --run same
check "the same bits" cmp one/weights.safetensors same/weights.safetensors

# Less memory than the large batch takes.
peak() {
    run 0 train --model mlp --data shapes:64 --device cpu --epochs 1 --json "$@"
    value out done peak_bytes
}
whole=$(peak --batch 64 | tail -n 1)
parts=$(peak --batch 4 --accumulate 16 | tail -n 1)
check "$parts bytes are less than $whole" test "$parts" -lt "$whole"

# A run is stopped between two steps only, and goes on from there with bit-identical results.
examples=1600
[ -z "${HAUL_SANITIZE:-}" ] || examples=640
task=(--model mlp --data shapes:$examples --batch 8 --accumulate 8 --log-every 3 --epochs 3 --workers 2 --device cpu)
run 0 train "${task[@]}" --run whole
begin stopped "${task[@]}"
kill -INT $job
wait $job
check "Ctrl-C ends with 130" test $? -eq 130
at=$(value stopped/log.jsonl stopped batch)
check "after mini-batch $at a step was complete" test $((at % 8)) -eq 0
run 1 train --run stopped --resume --accumulate 4
complains "the run was started with --accumulate 8 and cannot go on with --accumulate 4"
run 0 train --run stopped --resume
check "the same weights" cmp whole/weights.safetensors stopped/weights.safetensors

# Nobody reads the lines: the group is finished, and the run is saved.
"$HAUL" train "${task[@]}" --log-every 1 --run unread 2>err | sed '/^batch  *11 /q' >out
check "the reader was there for a while" grep -q '^batch  *11 ' out
check "it was saved" test -s unread/weights.safetensors
run 0 train --run unread --resume
check "the same weights" cmp whole/weights.safetensors unread/weights.safetensors

run 0 train --model dense --data blobs:100 --batch 8 --accumulate 4 --epochs 1 --precision f16
run 2 train --accumulate 0
complains "--accumulate"
finish
