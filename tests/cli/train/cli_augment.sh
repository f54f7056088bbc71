# --augment: reproducible whatever the workers, across --resume, and on training pictures only.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
examples=1600
[ -z "${HAUL_SANITIZE:-}" ] || examples=320
task=(--model mlp --data shapes:$examples --batch 16 --epochs 2 --device cpu --validation 0.2)

run 0 train "${task[@]}" --run plain
run 0 train "${task[@]}" --augment crop --run crop
run 0 train "${task[@]}" --augment flip --run flip
run 0 train "${task[@]}" --augment crop,flip --workers 0 --run both
check "the log names it" test "$(value both/log.jsonl start augment)" = crop,flip
for workers in 1 3; do
    run 0 train "${task[@]}" --augment crop,flip --workers $workers --threads $workers --run both$workers
    check "$workers workers: the same bits" cmp -s both/weights.safetensors both$workers/weights.safetensors
done
run 0 train "${task[@]}" --augment flip,crop --run order
check "the order in the list makes no difference" cmp -s both/weights.safetensors order/weights.safetensors
run 0 train "${task[@]}" --augment crop,flip --seed 1 --run seed
run 0 train "${task[@]}" --augment rotate=30 --run rotate
run 0 train "${task[@]}" --augment rotate --run rotate15
run 0 train "${task[@]}" --augment colour --run colour
run 0 train "${task[@]}" --augment colour=0.2,rotate=15,flip,crop --workers 0 --run four
run 0 train "${task[@]}" --augment crop,flip,rotate,colour --workers 3 --run four3
check "their numbers are optional" cmp -s four/weights.safetensors four3/weights.safetensors
all="plain crop flip both seed rotate rotate15 colour four"
for a in $all; do
    for b in $all; do
        [ "$a" = "$b" ] || check "$a and $b differ" sh -c "! cmp -s $a/weights.safetensors $b/weights.safetensors"
    done
done

# Stopped within an epoch.
long=(--model mlp --data shapes:4000 --batch 16 --epochs 3 --log-every 7 --device cpu --augment crop,flip)
[ -z "${HAUL_SANITIZE:-}" ] || long+=(--data shapes:480)
run 0 train "${long[@]}" --run whole
begin stopped "${long[@]}" --workers 3
kill -INT $job
wait $job
check "stopped" test $? -eq 130
run 0 train --run stopped --resume --workers 1
check "the same weights" cmp -s whole/weights.safetensors stopped/weights.safetensors

# Nothing is learned, so losses show what pictures are measured: those of training change, the others do not.
still=("${task[@]}" --epochs 1 --lr 1e-12)
run 0 train "${still[@]}" --run still
run 0 train "${still[@]}" --augment crop,flip --run moved
close() { "$HAUL_PYTHON" -c 'import math, sys; sys.exit(not math.isclose(float(sys.argv[1]), float(sys.argv[2]), rel_tol=1e-6))' "$1" "$2"; }
check "validation pictures stay" close "$(value still/log.jsonl epoch validation_loss)" "$(value moved/log.jsonl epoch validation_loss)"
check "test pictures stay" close "$(value still/log.jsonl done test_loss)" "$(value moved/log.jsonl done test_loss)"
different() { ! close "$1" "$2"; }
check "training pictures move" different "$(value still/log.jsonl epoch train_loss)" "$(value moved/log.jsonl epoch train_loss)"

# Complaints.
for list in flop crop,crop crop, ,flip "crop flip" crop=1 rotate=200 rotate=0 rotate= rotate=x rotate,rotate=3 colour=2; do
    run 2 train --augment "$list"
    complains "crop, flip, rotate and colour are expected, for example crop,flip,rotate=15,colour=0.2"
done
run 1 train --augment flip --data blobs
complains "--augment is for pictures"
finish
