# --pieces: a mini-batch in pieces trains as a whole one does, up to rounding.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
task=(--model dense --data blobs:100 --epochs 3 --device cpu --lr 0.05 --workers 0 --batch 32)

# 100 examples: the last mini-batch has 4, in pieces of 8 that are 4 0 0 0.
for how in "--optimizer adam --lr 0.01" "--optimizer adamw --weight-decay 0.1" "--optimizer sgd --schedule onecycle"; do
    rm -rf whole pieces
    # shellcheck disable=SC2086 # words
    run 0 train "${task[@]}" $how --run whole
    # shellcheck disable=SC2086
    run 0 train "${task[@]}" $how --pieces 4 --run pieces
    check "$how: the same weights" "$HAUL_PYTHON" - <<'END'
from weights import load
far = max(abs(a - b) for a, b in zip(load("whole"), load("pieces")))
assert far < 2e-6, far
END
done
check "the plan says so" grep -qF '3 epochs of 4 steps, batch 32 in 4 pieces, sgd' out
check "the log says so" test "$(value pieces/log.jsonl start pieces)" = 4
check "but not without it" bash -c '! grep -q pieces whole/log.jsonl'
check "as many examples were right" test "$(value pieces/log.jsonl epoch train_accuracy)" = \
    "$(value whole/log.jsonl epoch train_accuracy)"

# Augmentation and loss scaling: a run that is stopped goes on with bit-identical results.
examples=400
[ -z "${HAUL_SANITIZE:-}" ] || examples=160
task=(--model simplecnn --data shapes:$examples --batch 32 --pieces 8 --augment crop,flip --optimizer adamw
    --precision f16 --epochs 3 --workers 2 --device cpu --log-every 3)
run 0 train "${task[@]}" --run long
begin stopped "${task[@]}"
kill -INT $job
wait $job
check "Ctrl-C ends with 130" test $? -eq 130
run 1 train --run stopped --resume --pieces 4
complains "the run was started with --pieces 8 and cannot go on with --pieces 4"
run 0 train --run stopped --resume --workers 0 --threads 1
check "the same weights" cmp long/weights.safetensors stopped/weights.safetensors

# Pieces follow a recording, all but the first one, with the bits of those that run as they are.
pieces=$(((examples + 31) / 32 * 8 * 3))
check "followed" test "$(value long/log.jsonl done followed)" = $((pieces - 1))
check "one as it is" test "$(value long/log.jsonl done eager_steps)" = 1
check "nothing to say" test "$(value long/log.jsonl done unfollowed)" = ""
run 0 train "${task[@]}" --eager --run eager
check "none followed" test "$(value eager/log.jsonl done followed)" = 0
check "all as they are" test "$(value eager/log.jsonl done eager_steps)" = "$pieces"
check "the weights of --eager" cmp long/weights.safetensors eager/weights.safetensors
check "the same log" test "$(value long/log.jsonl epoch test_loss)" = "$(value stopped/log.jsonl epoch test_loss)"

# --estimate has the memory of the pieces.
task=(--model simplecnn --data shapes:96 --batch 32 --pieces 4 --epochs 2 --workers 0 --device cpu --json)
run 0 train "${task[@]}"
check "followed" test "$(value out done followed)" = 23
peak=$(value out done peak_bytes)
run 0 train "${task[@]}" --estimate
check "the estimate is exact" test "$(value out estimate training_peak_bytes)" = "$peak"

run 0 train --model dense --data blobs:100 --batch 8 --pieces 8 --epochs 1 --place 'fc1=cpu'
run 2 train --pieces 6 --batch 12
complains "--pieces 6 is not a power of two; 2, 4, 8, 16 and so on are expected"
run 2 train --pieces 8 --batch 12
complains "--pieces 8 does not divide --batch 12; a multiple of 8 is expected as the batch"
run 2 train --pieces 8 --accumulate 2
complains "--pieces divides each mini-batch, and does not work with --accumulate; a larger --batch with more pieces"
run 2 train --pieces 8 --batch auto
complains "does not work with --batch auto; give a number of examples"
run 2 train --pieces 8192
finish
