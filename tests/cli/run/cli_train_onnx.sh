# haul train --init FILE.onnx trains an ONNX model: as the network that it was exported from, saved, resumed, exported again.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
data=(--data shapes:60 --batch 20 --workers 0 --device cpu --lr 0.05)
run 0 train "${data[@]}" --model mlp --epochs 1 --run first
run 0 export first first.onnx --weights last

run 0 train "${data[@]}" --model mlp --init first/weights.safetensors --epochs 2 --run weights
run 0 train "${data[@]}" --init first.onnx --epochs 2 --run onnx
check "the network" test "$(value onnx/log.jsonl start model)" = onnx
check "the run keeps it" cmp first.onnx onnx/model.onnx
check "the same losses" test "$(value onnx/log.jsonl epoch loss)" = "$(value weights/log.jsonl epoch loss)"

# One epoch, then another, without the first file.
run 0 train "${data[@]}" --init first.onnx --epochs 1 --run halves
mv first.onnx moved.onnx
run 0 train --run halves --resume --epochs 2
check "the same after resuming" cmp halves/weights.safetensors onnx/weights.safetensors
run 0 predict --run halves --device cpu
check "accuracy" grep -q 'accuracy' out
run 0 export halves halves.onnx
run 0 run halves.onnx
check "exported again" grep -q 'y  f32 *\[1,10\]' out

run 2 train "${data[@]}" --init moved.onnx --head three
run 1 train "${data[@]}" --init moved.onnx --head 3
complains "an ONNX model does not say which layer is its last"
run 1 train "${data[@]}" --init moved.onnx --freeze
complains "--freeze"
run 1 train "${data[@]}" --init moved.onnx --model dense
complains "leave --model out"
run 1 train --data sentences --init moved.onnx
complains "finds one class or value for each example"
run 1 train --data images:none --init moved.onnx
run 1 train "${data[@]}" --model onnx
complains "the network of haul train --init FILE.onnx"
run 1 train "${data[@]}" --init none.onnx
complains "none.onnx"
head -c 500 moved.onnx >cut.onnx
run 1 train "${data[@]}" --init cut.onnx
complains "cut.onnx is not a valid ONNX model"

# A result that the data does not fit.
run 0 train --data blobs --epochs 1 --device cpu --workers 0 --run blobs
run 0 export blobs blobs.onnx
run 1 train "${data[@]}" --init blobs.onnx
complains "blobs.onnx takes examples [10], and those of --data"
check "one line" test "$(wc -l <err)" = 1
run 0 export blobs one.onnx --batch 1
run 1 train --data blobs --init one.onnx
complains "one.onnx takes 1 example at a time"
finish
