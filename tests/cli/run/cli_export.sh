# haul export writes the network of a run as an ONNX model; haul run runs it, and haul predict finds the same classes.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

train() {
    name=$1
    shift
    run 0 train "$@" --epochs 1 --workers 0 --run "$name"
}
train shapes --data shapes:60
train text --data sentences:40
train scenes --data scenes:20
train blobs --data blobs:60

run 0 export shapes shapes.onnx
check "the form of an example" grep -q '^input: one example is f32 \[3,32,32\], each byte of a picture as (byte / 255' out
check "the weights" grep -q 'simplecnn with shapes/.*safetensors, opset 22, batch of any size' out
run 0 inspect shapes.onnx
check "the shape" grep -q 'x  f32 *\[batch,3,32,32\]' out
run 0 run shapes.onnx
check "the result" grep -q 'y  f32 *\[1,10\]' out

run 0 export shapes fixed.onnx --batch 3 --opset 18 --weights last
run 0 inspect fixed.onnx
check "a fixed batch" grep -q 'x  f32 *\[3,3,32,32\]' out
check "its set of operators" grep -q 'opset 18' out
run 1 export shapes shapes.onnx/x
complains "shapes.onnx/x"

run 0 export text text.onnx
run 0 run text.onnx
check "logits of tokens" grep -q 'logits  f32 *\[1,64,28\]' out
run 0 export scenes scenes.onnx
run 0 run scenes.onnx
check "logits of pixels" grep -q 'logits *f32 *\[1,3,32,32\]' out
run 0 export blobs blobs.onnx
run 0 run blobs.onnx
check "one value" grep -q 'y  f32 *\[1,1\]' out

check "names of weights" grep -q 'fc2.weight' blobs.onnx

run 2 export shapes
complains "two names are expected"
run 2 export a b c
complains "two names are expected"
run 2 export shapes x.onnx --opset 17
complains "18 to 28"
run 1 export none x.onnx
complains "none"
rm shapes/best.safetensors
run 1 export shapes x.onnx --weights best
complains "found no shapes/best.safetensors"
run 0 export shapes x.onnx
finish
