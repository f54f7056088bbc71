# haul train --estimate: what it prints, that it touches nothing, and its peak of memory against that of a training.
# HAUL_TEST_ESTIMATE=all compares every model at two sizes of batches, which takes minutes, and prints a table.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

# Nothing but the line or the text comes out, and nothing is left behind.
run 0 train --model mlp --data shapes:640 --batch 32 --device cpu --run r --estimate --json
check "one line" test "$(wc -l <out)" -eq 1
check "JSON" is_json_lines out
check "no run folder" test ! -e r
for field in device flops bytes_touched peak_bytes parameter_bytes operations; do
    value out estimate $field >/dev/null || check "estimate has $field" false
done
check "parameters are counted" test "$(value out estimate parameter_bytes)" = $((4 * (3072 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10)))
# Forward and gradients of the weights of all layers, and those of the inputs of all but the first.
check "products are counted" at_least "$(value out estimate flops)" $((2 * 32 * (2 * 3072 * 256 + 3 * 256 * 128 + 3 * 128 * 10)))
check "and not much else" at_least $((101 * 2 * 32 * (2 * 3072 * 256 + 3 * 256 * 128 + 3 * 128 * 10) / 100 + 16 * 820874)) "$(value out estimate flops)"

run 0 train --model dense --data blobs --device cpu --estimate
check "for people" grep -q '^memory  fits: ' out
run 0 train --model dense --data blobs --device cpu --estimate --memory-limit 1G
check "with a limit the line of the limit says whether it fits" grep -q '^memory  [0-9]' out
run 0 train --model dense --data blobs --device cpu --estimate
check "80 columns" test "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' out)" -le 80

# A run that exists stays as it is, and can be estimated.
run 0 train "${small[@]}" --epochs 1 --run old
cp -r old before
run 0 train "${small[@]}" --run old --estimate
run 0 train --run old --resume --estimate --json
check "the run is as before" diff -r old before
run 1 train --model dense --data nowhere:x --estimate

# The same as the allocator counts in a training that follows its steps, and in one that makes them as they are.
compare_one() {
    local device=$1 model=$2 batch=$3 data=$4
    shift 4
    run 0 train --model "$model" --data "$data" --batch "$batch" --device "$device" "$@" --estimate --json
    local estimated=$(value out estimate peak_bytes) training=$(value out estimate training_peak_bytes)
    run 0 train --model "$model" --data "$data" --batch "$batch" --device "$device" "$@" --epochs 2 --log-every 1000 --json
    local measured=$(value out done step_peak_bytes) most=$(value out done peak_bytes)
    echo "| $device | $model | $batch | $* | $estimated | $measured | $training | $most |" >>table
    check "$device $model $batch $*: $estimated in a step" test "$estimated" = "$measured"
    check "$device $model $batch $*: $training at all" test "$training" -ge "$most"
}

compare() {
    compare_one "$@"
    compare_one "$@" --eager
}

devices=cpu
"$HAUL" devices --json >out
grep -q '"opencl:0"' out && devices="cpu opencl:0"
for device in $devices; do
    compare "$device" dense 8 blobs:40
    compare "$device" dense 32 blobs:160 --optimizer adam
    compare "$device" mlp 16 shapes:64 --precision f16 --workers 0
    compare "$device" simplecnn 16 shapes:64 --precision bf16
    compare "$device" simplecnn 8 shapes:64 --accumulate 2
    compare "$device" char_gpt 8 sentences:32 --recompute auto
    if [ "${HAUL_TEST_ESTIMATE:-}" = all ]; then
        for model in simplecnn resnet18 dense mlp; do
            for batch in 8 32; do
                compare "$device" $model $batch shapes:$((4 * batch))
            done
        done
        compare "$device" char_gpt 8 sentences:32
        compare "$device" unet 8 scenes:32
    fi
done
cat table

# An epoch's last batch may be smaller; the estimate is of a whole one, and of no more examples than there are.
run 0 train --model dense --data blobs:150 --batch 64 --device cpu --estimate --json
estimated=$(value out estimate peak_bytes)
run 0 train --model dense --data blobs:150 --batch 64 --device cpu --epochs 2 --json
check "a whole batch" test "$estimated" = "$(value out done step_peak_bytes)"
run 0 train --model dense --data blobs:20 --batch 64 --device cpu --estimate
check "as many as there are" grep -q 'batch 20,' out

# Too few steps to tell.
run 0 train --model dense --data blobs:16 --batch 8 --epochs 1 --device cpu --json
check "null" grep -q '"step_peak_bytes":null' out
finish
