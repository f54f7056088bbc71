# haul compare: the same bits, and a wrong bit that is found where it was made.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

small=(--model simplecnn --batch 4)
run 0 compare "${small[@]}" --a cpu --b cpu,threads=1,eager --json
check "the same bits" grep -Eq '^\{"operations":[0-9]+,"first":null\}$' out
run 0 compare "${small[@]}" --a cpu --b cpu,threads=1
check "said so" grep -q '61 operations of a training step of simplecnn: bit-identical on cpu and cpu,threads=1' out
run 0 compare "${small[@]}" --a cpu --b cpu,dtype=bf16
check "other dtypes may round" grep -q 'the same but for rounding' out
# Biases before batch normalisation have gradients that are all rounding.
run 0 compare --model unet --batch 4 --a cpu --b cpu,dtype=bf16
run 0 compare --model char_gpt --batch 4 --a cpu --b cpu,dtype=bf16
if "$HAUL" devices --names | grep -qx opencl:0; then
    run 0 compare --model unet --batch 4 --a cpu --b opencl:0
fi
run 1 compare "${small[@]}" --a cpu --b cpu,dtype=f16
check "other operations" grep -q 'the sides part at operation [0-9]*: haul_ones_like' out

# A kernel of one of two equal devices gives one wrong bit.
export HAUL_CUDA_LIBRARIES=$HAUL_BUILD/tests/standin STANDIN_DEVICES=2 OCL_ICD_VENDORS=none
run 0 compare "${small[@]}" --a cuda:0 --b cuda:1
planted() {
    local kernel=$1 nth=$2 element=$3 name=$4 module=$5 index=$6
    STANDIN_PLANT=1:$kernel:$nth:$element run 1 compare "${small[@]}" --a cuda:0 --b cuda:1 --json
    check "$kernel $nth $element: the operation, the element, one unit" \
        grep -q "\"first\":{\"name\":\"$name\",\"module\":\"$module\",\"ulp\":1,\"index\":\[$index\]," out
}
# [4,6,28,28], [4,16,10,10], [4,120] and [4,84]
planted k_relu_f32 1 0 haul_relu relu1 0,0,0,0
planted k_relu_f32 2 1999 haul_relu relu2 1,3,9,9
planted k_relu_f32 3 479 haul_relu relu3 3,119
planted k_relu_f32 4 85 haul_relu relu4 1,1
planted k_relu_backward_f32 1 100 haul_relu_backward relu4 1,16
planted k_relu_backward_f32 4 18815 haul_relu_backward relu1 3,5,27,27
STANDIN_PLANT=1:k_relu_f32:3:7 run 1 compare "${small[@]}" --a cuda:0 --b cuda:1
check "in words" grep -q '^first difference: operation [0-9]* of [0-9]*, haul_relu (relu3)$' out
check "the element" grep -q '^element \[0,7\] of \[4,120\]: .*, 1 ULP; 1 of 480 elements differ$' out
unset HAUL_CUDA_LIBRARIES STANDIN_DEVICES OCL_ICD_VENDORS

run 0 train --model dense --data blobs:64 --batch 8 --device cpu --epochs 1 --optimizer adam --run r
run 0 compare --run r --a cpu --b cpu,threads=1
check "of a run" grep -q 'a training step of r: bit-identical' out

# Two builds are two commands.
ln -s "$HAUL" other
run 0 compare "${small[@]}" --a cpu --b "cpu,library=./other"
run 1 compare "${small[@]}" --a cpu --b cpu,library=./missing
check "no such build" grep -q -- '--b: ./missing cannot be run' err
run 1 compare "${small[@]}" --a cpu --b cpu,library=/bin/true
run 1 compare "${small[@]}" --a cpu --b nothing:0
run 1 compare "${small[@]}" --a meta --b cpu
run 2 compare "${small[@]}" --a cpu
run 2 compare --a cpu --b cpu
check "which step" grep -q 'which step' err
run 2 compare "${small[@]}" --a cpu --b cpu,threads=0
check "the setting" grep -q "'threads=0' is not one of" err
run 2 compare "${small[@]}" --a cpu --b cpu,lvl=v3
run 2 compare "${small[@]}" --a cpu --b ,eager
finish
