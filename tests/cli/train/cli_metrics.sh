# haul train --metrics cpu: loss and accuracy on the CPU, with bit-identical results, and the memory that
# --estimate expects.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

# both NAME ARGUMENTS...: on a simulated GPU, with the metrics there and on the CPU.
both() {
    local name=$1 metrics
    shift
    rm -rf device cpu
    for metrics in device cpu; do
        run 0 train "$@" --device sim:laptop-4g --epochs 2 --metrics $metrics --run $metrics --json
        check "$name: $metrics follows its steps" test "$(value out done followed)" -gt 0
        check "$name: $metrics needs what was expected" \
            test "$(value out done step_peak_bytes)" = "$(value out network peak_bytes)"
        events $metrics/log.jsonl | grep -v "'event': 'network'" >$metrics.log
    done
    check "$name: the same weights" cmp device/weights.safetensors cpu/weights.safetensors
    check "$name: the same losses and accuracies" cmp device.log cpu.log
}

both simplecnn --data shapes:128 --batch 32
both dense --data blobs:100 --batch 32 --precision f16
both unet --data scenes:52 --batch 8 --accumulate 2
both char_gpt --data sentences:64 --batch 16 --optimizer adam

# A step's logits come to the CPU, and their gradient goes back.
check "the logits are in the ledger" grep -q '"operation":"haul_to"' cpu/ledger.json
run 0 train --run cpu --resume --epochs 3 --metrics device --quiet
run 0 train --run device --resume --epochs 3 --quiet
check "it may change when the training goes on" cmp device/weights.safetensors cpu/weights.safetensors
run 2 train --metrics gpu
check "a wrong device" grep -q -- '--metrics' err

finish
