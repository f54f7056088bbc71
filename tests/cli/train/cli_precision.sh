# haul train --precision: bf16, f16 and tf32 learn as f32 does, wait as often for the device, and a run that is stopped goes
# on with bit-identical results.
# ctest: cuda; labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

devices=cpu
if [ -n "${HAUL_TEST_DEVICES:-}" ]; then
    devices=cuda:0
elif "$HAUL" devices --json | grep -q '"name":"opencl:0".*"usable":true'; then
    devices="cpu opencl:0"
fi
close() { "$HAUL_PYTHON" -c 'import sys; a, b, d = map(float, sys.argv[1:]); sys.exit(not abs(a - b) <= d * b)' "$@"; }

for device in $devices; do
    blobs=(--model dense --data blobs --batch 32 --epochs 3 --lr 0.1 --log-every 1000 --save-every 0 --device "$device")
    for precision in f32 tf32 bf16 f16; do
        run 0 train "${blobs[@]}" --precision $precision --json --run "$precision" --sync-report
        check "$precision on $device learns" at_least "$(value out epoch test_accuracy)" 0.95
        check "$precision is told" test "$(value out start precision)" = $precision
        value out epoch train_loss >loss-$precision
        grep ' \(waited\|found done\) ' err | grep -vc '^haul_loader_next' >waits-$precision # the loader's depend on time
    done
    check "tf32 as f32 within 1%" close "$(cat loss-tf32)" "$(cat loss-f32)" 0.01
    check "bf16 as f32 within 2%" close "$(cat loss-bf16)" "$(cat loss-f32)" 0.02
    check "f16 as f32 within 2%" close "$(cat loss-f16)" "$(cat loss-f32)" 0.02
    check "bf16 rounds" sh -c '! cmp -s f32/weights.safetensors bf16/weights.safetensors'
    # f16 has the scale and the number of steps in its checkpoints
    check "bf16 waits as f32" test "$(cat waits-bf16)" -eq "$(cat waits-f32)"
    check "f16 waits for its checkpoints only" test "$(cat waits-f16)" -le $(($(cat waits-f32) + 12))

    run 0 train "${blobs[@]}" --precision f16 --epochs 1 --run again
    run 0 train --run again --resume --epochs 3
    check "$device goes on with bit-identical results" cmp -s again/weights.safetensors f16/weights.safetensors
    run 1 train --run f16 --resume --precision bf16
    complains 'cannot go on with --precision bf16'
    rm -r f32 tf32 bf16 f16 again
done

run 0 train --data shapes:320 --epochs 1 --device cpu --precision bf16 --optimizer adam --json
check "a convolutional network" test "$(value out start precision)" = bf16
run 2 train "${small[@]}" --precision half
complains "--precision wants"
finish
