# haul train follows its recorded steps: the weights are those of --eager to the bit, also if a run goes on the other way,
# and --estimate has the memory of both.
# ctest: labels=slow,once
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

devices=cpu
"$HAUL" devices --json >out
grep -q '"opencl:0"' out && devices="cpu opencl:0"

# steps FOLLOWED EAGER WHAT
steps() {
    check "$3: $1 followed" test "$(value out done followed)" = "$1"
    check "$3: $2 as they are" test "$(value out done eager_steps)" = "$2"
}

# same_bits NAME ARGUMENTS...: 3 epochs of 4 steps.
same_bits() {
    local name=$1 device
    shift
    for device in $devices; do
        rm -rf f e fe ef
        run 0 train "$@" --device "$device" --epochs 3 --json --run f
        steps 11 1 "$device $name"
        run 0 train "$@" --device "$device" --epochs 3 --json --run e --eager
        steps 0 12 "$device $name --eager"
        check "$device $name: the same bits" cmp f/weights.safetensors e/weights.safetensors
        [ "$device" = cpu ] || continue
        run 0 train "$@" --device "$device" --epochs 2 --quiet --run fe
        run 0 train --resume --run fe --epochs 3 --json --eager
        steps 0 4 "$name resumed with --eager"
        run 0 train "$@" --device "$device" --epochs 2 --quiet --run ef --eager
        run 0 train --resume --run ef --epochs 3 --json
        steps 3 1 "$name resumed"
        check "$name: followed, then not" cmp f/weights.safetensors fe/weights.safetensors
        check "$name: not, then followed" cmp f/weights.safetensors ef/weights.safetensors
    done
}

same_bits dense --model dense --data blobs:64 --batch 16 --optimizer adam
same_bits mlp --model mlp --data shapes:32 --batch 8 --precision f16 --weight-decay 1e-3
same_bits simplecnn --model simplecnn --data shapes:32 --batch 8 --augment crop,flip --schedule step:1:0.5
same_bits "simplecnn bf16" --model simplecnn --data shapes:32 --batch 8 --precision bf16 --validation 0.001
same_bits char_gpt --model char_gpt --data sentences:32 --batch 8 --optimizer adamw --recompute auto
same_bits unet --model unet --data scenes:16 --batch 4

# A smaller last mini-batch is another form of the step.
run 0 train --model dense --data blobs:70 --batch 16 --epochs 4 --device cpu --json
steps 19 1 "a smaller last mini-batch"
check "nothing to say" test "$(value out done unfollowed)" = ""

# What is not followed, and why.
run 0 train --model simplecnn --data shapes:96 --batch 8 --epochs 2 --device cpu --run profiled --profile 4 --json
check "a profile watches" test "$(value out done followed)" -lt 23
check "and is the reason" grep -q '"unfollowed":"a subscriber watches operations"' out
run 0 train --model mlp --data shapes:64 --batch 4 --accumulate 4 --epochs 1 --device cpu --json
steps 15 1 "sums of gradients"
check "in little more memory" test "$(value out done peak_bytes)" -lt 15000000
run 0 train --model char_gpt --data sentences:64 --batch 8 --accumulate 2 --epochs 3 --device cpu --run sums --json
steps 23 1 "sums that need little"
run 0 train --model char_gpt --data sentences:64 --batch 8 --accumulate 2 --epochs 3 --device cpu --run plain --eager -q
check "sums: the same bits" cmp sums/weights.safetensors plain/weights.safetensors
run 0 train --model dense --data blobs:64 --batch 16 --epochs 1 --device cpu --eager
check "--eager needs no reason" bash -c '! grep -q "  followed" out'

# A limit that only steps as they are keep.
need() {
    run 0 train --model char_gpt --data sentences:64 --batch 8 --device cpu --estimate --json "$@"
    value out estimate training_peak_bytes
}
followed=$(need | tail -n 1)
plain=$(need --eager | tail -n 1)
check "followed, $followed bytes; else $plain" test "$plain" -lt "$followed"
run 0 train --model char_gpt --data sentences:64 --batch 8 --epochs 1 --device cpu --memory-limit "$plain" --json
steps 0 8 "a limit"
check "why" grep -q '"unfollowed":"only steps as they are fit in the limit"' out
check "the peak" test "$(value out done peak_bytes)" = "$plain"
run 0 train --model char_gpt --data sentences:64 --batch 8 --epochs 1 --device cpu --memory-limit "$followed" --json
steps 7 1 "a limit for followed steps"
check "its peak" test "$(value out done peak_bytes)" = "$followed"

# Accumulation saves memory: where followed steps take an eighth more, a training makes them as they are.
task=(--model char_gpt --data sentences:256 --batch 128 --accumulate 2 --recompute auto --epochs 1 --device cpu)
run 0 train "${task[@]}" --json
steps 0 2 "accumulation that takes less as it is"
check "why" grep -q '"unfollowed":"the parts of a step take much less memory as they are"' out
peak=$(value out done peak_bytes)
run 0 train "${task[@]}" --json --eager
check "the peak of --eager" test "$(value out done peak_bytes)" = "$peak"
finish
