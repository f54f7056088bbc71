# Training: it learns, its JSON is what is promised, the same seed gives bit-identical results.
# ctest: labels=slow,threads
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

run 0 train --model dense --data blobs --batch 32 --epochs 3 --lr 0.1 --log-every 10 --device cpu --json --run r
check "JSON lines only" is_json_lines out
check "the log is what was told" cmp -s out r/log.jsonl
check "blobs are learned" at_least "$(value out epoch test_accuracy)" 0.95
check "files" test -s r/checkpoint -a -s r/weights.safetensors
for field in device parameters; do value out start $field >/dev/null || check "start has $field" false; done
for field in epoch batch loss; do value out batch $field >/dev/null || check "batch has $field" false; done
for field in epoch train_loss train_accuracy test_loss test_accuracy images_per_second; do
    value out epoch $field >/dev/null || check "epoch has $field" false
done
for field in device step_ms h2d_bytes d2h_bytes transfers peak_bytes step_peak_bytes; do
    value out done $field >/dev/null || check "done has $field" false
done
check "parameters" test "$(value out start parameters)" = 193
check "batches by the line" test "$(grep -c '"event":"batch"' out)" = 9

# For people: one table of epochs and mini-batches, a chart, a summary; no bar when this is no terminal.
run 0 train --model dense --data blobs --batch 32 --epochs 2 --lr 0.1 --log-every 10 --device cpu
check "a row of the mini-batch" grep -Eqx 'batch  10  +[0-9]+\.[0-9]{3}' out
check "one head, above all rows" test "$(grep -n 'train loss' out | cut -d: -f1)" -lt "$(grep -nE '^(batch|Epoch)' out | head -1 | cut -d: -f1)"
check "the losses of one column" test "$(awk '/^(batch|Epoch) / { print match($0, /[0-9]+\.[0-9][0-9][0-9]/) + RLENGTH }' out | sort -u | wc -l)" -eq 1
check "the times of epochs have one unit" test "$(grep -Ec '^Epoch .*  +[0-9]+\.[0-9]{3} s(  best)?$' out)" -eq 2
check "a chart" grep -q 'epochs$' out
check "80 columns" test "$(awk '{ if (length($0) > most) most = length($0) } END { print most }' out)" -le 80
check "a summary" grep -q '^  test  *[0-9.]* % right' out
check "no bar" test -z "$(tr -cd '\r' <out)"

# The same bits whatever the threads and workers; others with another seed.
for variant in "1 --threads 1 --workers 0" "2 --threads 2 --workers 3" "3 --seed 5"; do
    set -- $variant
    name=$1
    shift
    run 0 train --model mlp --data shapes:640 --epochs 1 --device cpu --run v$name "$@"
done
check "threads and workers change nothing" cmp -s v1/weights.safetensors v2/weights.safetensors
check "the seed does" sh -c '! cmp -s v1/weights.safetensors v3/weights.safetensors'

# Other optimizers; weights to begin with.
run 0 train "${small[@]}" --epochs 1 --optimizer adam --lr 0.01
run 0 train "${small[@]}" --epochs 1 --optimizer adamw --lr 0.01 --weight-decay 0.01
run 0 train --model dense --data blobs --device cpu --epochs 1 --lr 1e-12 --init r/weights.safetensors --json
check "begins with the weights" at_least "$(value out epoch test_accuracy)" 0.95

# A loss that is not finite ends the training; it is null in JSON.
wild=("${small[@]}" --lr 1e6 --optimizer sgd --data shapes:64 --model mlp)
run 3 train "${wild[@]}" --epochs 1 --log-every 1 --json
complains "try a learning rate below 1e+06 (--lr)"
check "JSON lines only" is_json_lines out
check "the last event" test "$(value out diverged epoch)" = 1
run 3 train "${wild[@]}" --epochs 1 --log-every 1000 --run wild
check "not even at the end of an epoch is it saved" test ! -e wild/checkpoint
check "no sign of NaN" sh -c '! grep -q -- -nan out'

# Nor is it when checkpoints are written after every step, which may be before the loss shows it.
run 3 train "${wild[@]}" --epochs 1 --log-every 1000 --save-every 0.000001 --run often
check "the checkpoint is finite" "$HAUL_PYTHON" - <<'END'
import json, math, struct
data = open("often/checkpoint", "rb").read()
size, = struct.unpack("<Q", data[:8])
for name, t in json.loads(data[8:8 + size]).items():
    if name != "__metadata__" and t["dtype"] == "F32":
        begin, end = t["data_offsets"]
        assert all(map(math.isfinite, struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end]))), name
END

# What was saved before stays, and another run can start from its options.
wild=("${small[@]}" --data shapes:64 --model mlp --epochs 2 --lr 1e5)
run 3 train "${wild[@]}" --save-every 1e-9 --run wild
complains "the last good checkpoint is kept in wild; start again with a learning rate below 100000: haul train --config wild/config.json --lr X --run NEW"
check "a checkpoint is there" test -s wild/checkpoint
cp -r wild before
run 3 train --run wild --resume
check "the checkpoint is as before" cmp -s before/checkpoint wild/checkpoint
run 0 train --config wild/config.json --lr 0.01 --run calm
run 0 train "${wild[@]}" --lr 0.01 --run whole
check "the same weights" cmp -s whole/weights.safetensors calm/weights.safetensors

# A convolutional network on pictures.
run 0 train --data shapes:640 --epochs 1 --device cpu --json
check "pictures" test "$(value out start parameters)" = 62006
finish
