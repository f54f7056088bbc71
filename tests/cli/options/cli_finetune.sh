# haul train --init FILE --head N --freeze: a new last layer, parameters that stay as they are, statistics that do not,
# memory to the byte, resuming, prediction, and wrong files, numbers and options.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
"$HAUL" --version | grep -q png || { echo "this build reads no PNG files"; exit 77; }
. "$HAUL_SOURCE/tests/support/pictures.sh"
for part in "train 16" "test 4"; do
    pictures set/${part% *}/blue 20,20,200 ${part#* }
    pictures set/${part% *}/green 20,200,20 ${part#* }
    pictures set/${part% *}/red 200,20,20 ${part#* }
done
run 0 train --data shapes:64 --size 0 --model mobilenet_v2 --batch 8 --epochs 1 --device cpu --run base
run 0 train --data shapes:64 --model mlp --batch 8 --epochs 1 --device cpu --run mlp
own=(--data images:set --size 32 --batch 8 --workers 1 --device cpu)
tune=(--model mobilenet_v2 "${own[@]}" --init base/weights.safetensors)

# compare A B: which tensors of two runs' weights differ, as "same CHANGED..." for parameters and statistics.
cat >compare.py <<'END_OF_PYTHON'
import json, struct, sys
def tensors(run):
    data = open(run + "/weights.safetensors", "rb").read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    return {n: (t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for n, t in header.items() if n != "__metadata__"}
a, b = tensors(sys.argv[1]), tensors(sys.argv[2])
assert a.keys() == b.keys()
changed = {n for n in a if a[n] != b[n]}
head = {"classifier.1.weight", "classifier.1.bias"}
statistics = {n for n in a if "running" in n or n.endswith("num_batches_tracked")}
frozen = a.keys() - head - statistics
print("head" * (head <= changed), "frozen" * (not frozen & changed), "statistics" * (statistics <= changed),
      "all" * (frozen <= changed | {n for n in frozen if not any(a[n][1])}))
END_OF_PYTHON
differ() { "$HAUL_PYTHON" compare.py "$@"; }

# Only the last layer is trained, and it is another one. Batch normalisations keep their statistics up, as in PyTorch.
run 0 train "${tune[@]}" --head 3 --freeze --epochs 1 --run tuned
check "what the file had is left out" grep -qF "init    base/weights.safetensors, without its classifier.1.weight [10,1280], classifier.1.bias [10]; classifier.1 is new, with 3 outputs; only classifier.1 is trained, 3,843 of 2,227,715 parameters" out
check "the rest is frozen" test "$(differ base tuned)" = "head frozen statistics "
check "the log has it" test "$(value tuned/log.jsonl start head) $(value tuned/log.jsonl start trained_parameters)" = "3 3843"
check "the log names it" test "$(value tuned/log.jsonl start left_out)" = "classifier.1.weight [10,1280], classifier.1.bias [10]"
run 0 predict --run tuned --device cpu --json
check "three classes" grep -q '"confusion"\|"classes"\|"accuracy"' out

# The same from PyTorch's file, where there is PyTorch.
if "$HAUL_PYTHON" - <<'END_OF_PYTHON'
import json, struct, sys
try:
    import torch
except ImportError:
    sys.exit(1)
data = open("base/weights.safetensors", "rb").read()
size, = struct.unpack("<Q", data[:8])
dtypes = {"F32": torch.float32, "I64": torch.int64}
torch.save({n: torch.frombuffer(bytearray(data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]),
                                dtype=dtypes[t["dtype"]]).reshape(t["shape"])
            for n, t in json.loads(data[8:8 + size]).items() if n != "__metadata__"}, "base.pt")
END_OF_PYTHON
then
    run 0 train --model mobilenet_v2 "${own[@]}" --init base.pt --head 3 --freeze --epochs 1 --run pytorch
    check "the same from a .pt file" cmp tuned/weights.safetensors pytorch/weights.safetensors
    run 1 train --model mobilenet_v2 "${own[@]}" --init base.pt --freeze --run none
    complains "base.pt holds 'classifier.1.weight' as f32[10,1280], the module as f32[3,1280]; --head 3 begins with a new classifier.1 instead"
fi

# Without --freeze all of it is trained; without --head the last layer is the file's.
run 0 train "${tune[@]}" --head 3 --epochs 1 --run all
check "all is trained" test "$(differ base all)" = "head  statistics all"
check "nothing is frozen" test "$(grep -c trained_parameters all/log.jsonl)" = 0
run 0 train --model mobilenet_v2 "${own[@]}" --init tuned/weights.safetensors --freeze --lr 1e-12 --epochs 1 --run kept
check "the last layer is the file's" test "$(differ tuned kept)" = " frozen statistics "
check "nothing is left out" grep -q "init    tuned/weights.safetensors; only classifier.1 is trained" out

# Weight decay leaves frozen parameters as they are, and so do accumulation, other optimizers and precisions.
for extra in "--optimizer adamw --weight-decay 0.1 --lr 0.001" "--weight-decay 0.1 --accumulate 2" "--precision f16" "--eager"; do
    run 0 train "${tune[@]}" --head 3 --freeze --epochs 1 $extra --run extra
    check "frozen with $extra" test "$(differ base extra)" = "head frozen statistics "
    rm -r extra
done

# A training that is interrupted reaches the same result, without the file.
run 0 train "${tune[@]}" --head 3 --freeze --epochs 2 --optimizer adam --lr 0.001 --schedule cosine --run whole
cp base/weights.safetensors moved.safetensors
run 0 train --model mobilenet_v2 "${own[@]}" --init moved.safetensors --head 3 --freeze --epochs 1 --optimizer adam --lr 0.001 --schedule cosine --run parts
rm moved.safetensors
run 0 train --run parts --resume --epochs 2
run 0 train --model mobilenet_v2 "${own[@]}" --init base/weights.safetensors --head 3 --freeze --epochs 1 --optimizer adam --lr 0.001 --run first
run 0 train --run first --resume --epochs 2
run 0 train "${tune[@]}" --head 3 --freeze --epochs 2 --optimizer adam --lr 0.001 --run second
check "resumed bit for bit" cmp first/weights.safetensors second/weights.safetensors
check "two epochs" test "$(value parts/log.jsonl epoch epoch)" = 2
run 1 train --run first --resume --epochs 3 --head 4
complains "the run was started with --head 3 and cannot go on with --head 4"
run 0 train --config first/config.json --epochs 1 --run again
check "config.json has both" test "$(differ base again)" = "head frozen statistics "

# Memory, to the byte.
small=(--model mlp "${own[@]}" --init mlp/weights.safetensors)
exact "${small[@]}" --head 3
for extra in "" "--recompute auto" "--precision f16 --optimizer adam" "--accumulate 2 --optimizer adam" "--eager" "--schedule onecycle"; do
    exact "${small[@]}" --head 3 --freeze $extra
done
need=$(value estimate estimate training_peak_bytes)
run 0 train "${small[@]}" --head 3 --freeze --schedule onecycle --epochs 1 --memory-limit "$need"
run 4 train "${small[@]}" --head 3 --freeze --schedule onecycle --epochs 1 --memory-limit $((need - 1))
run 0 train "${small[@]}" --head 3 --freeze --epochs 1 --estimate
run 4 train "${small[@]}" --head 3 --freeze --batch 1 --validation 0.1 --memory-limit 1M
check "loading needs most" grep -q "By the dry run, loading the weights of --init needs" err
# The step of a run, without its file.
run 0 train "${small[@]}" --head 3 --freeze --epochs 1 --run little
mv mlp away
run 0 plan --run little
mv away mlp

# Bad input. Each complaint is one line, and nothing is made.
refused() {
    local code=$1 words=$2
    shift 2
    run "$code" train "$@" --run none
    complains "$words"
    check "nothing was made" test ! -e none
}
refused 2 "--head wants a whole number from 1 to 1000000, not '0'" "${small[@]}" --head 0
refused 2 "--head wants a whole number from 1 to 1000000, not 'x'" "${small[@]}" --head x
refused 2 "--head replaces the last layer of a trained network; give --init FILE" --model mlp "${own[@]}" --head 3
refused 2 "--freeze keeps the weights of a trained network; give --init FILE" --model mlp "${own[@]}" --freeze
refused 1 "--head 5 is a last layer for 5 classes, and --data images:set has 3 classes; give --head 3" "${small[@]}" --head 5
refused 1 "--head 5 is a last layer for 5 classes, and --data blobs needs outputs: 1 for each example; give --head 1" --model dense --data blobs --init mlp/weights.safetensors --head 5
refused 1 "mlp/weights.safetensors holds 'fc3.weight' as f32[10,128], the module as f32[3,128]; --head 3 begins with a new fc3 instead" "${small[@]}"
refused 1 "mlp/weights.safetensors holds 'fc3.weight' as f32[10,128], the module as f32[3,128]; --head 3 begins with a new fc3 instead" "${small[@]}" --freeze
refused 1 "mlp/weights.safetensors holds 'fc1.weight' as f32[256,3072], the module as f32[256,768]" "${small[@]}" --head 3 --size 16
refused 1 "mlp/weights.safetensors lacks 'conv1.weight' and 3 more, which the module has" --model simplecnn "${own[@]}" --init mlp/weights.safetensors --head 3
refused 1 "cannot open missing.pt: No such file or directory" --model mlp "${own[@]}" --init missing.pt --head 3
echo "not a file of weights" >text
refused 1 "text" --model mlp "${own[@]}" --init text --head 3 --freeze
refused 1 "--freeze: the last layer of char_gpt shares its weights with another one" --model char_gpt --data sentences:64 --init text --freeze --device cpu
refused 1 "--head: the last layer of char_gpt shares its weights with another one" --model char_gpt --data sentences:64 --init text --head 9 --device cpu
finish
