# --validation, --patience, the best weights, and the test at the end.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
equal() { "$HAUL_PYTHON" -c 'import math, sys; sys.exit(not math.isclose(float(sys.argv[1]), float(sys.argv[2]), rel_tol=1e-6))' "$1" "$2"; }

# constant FROM TO CLASS: weights that always choose one class, in the form of those of FROM.
constant() {
    "$HAUL_PYTHON" - "$@" <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + size])
values = bytearray(len(data) - 8 - size)
tensors = {name: t for name, t in header.items() if name != "__metadata__"}
last = max((name for name in tensors if name.endswith("bias")), key=lambda name: tensors[name]["data_offsets"])
begin, end = tensors[last]["data_offsets"]
count, chosen = (end - begin) // 4, int(sys.argv[3])
bias = [10.0 * (i == chosen) for i in range(count)] if count > 1 else [20.0 * chosen - 10]
values[begin:end] = struct.pack(f"<{count}f", *bias)
open(sys.argv[2], "wb").write(data[:8 + size] + bytes(values))
END
}

# shares DATA CLASSES: of each class a tenth of the examples is kept, give or take one. A network that always chooses one
# class is right as often as that class occurs.
shares() {
    local class
    run 0 train --data "$1" --model dense --epochs 1 --batch 16 --device cpu --run form
    for ((class = 0; class < $2; class++)); do
        constant form/weights.safetensors chosen.safetensors $class
        "$HAUL" train --data "$1" --model dense --epochs 1 --lr 1e-12 --device cpu --json --init chosen.safetensors >all
        run 0 train --data "$1" --model dense --epochs 1 --lr 1e-12 --validation 0.1 --device cpu --json --init chosen.safetensors
        check "$1: class $class keeps its share" "$HAUL_PYTHON" - <<'END'
import json
def right(path, part):
    events = list(map(json.loads, open(path)))
    start, = (e for e in events if e["event"] == "start")
    epoch, = (e for e in events if e["event"] == "epoch")
    return epoch[part + "_accuracy"] * start[part + "_examples"]
all, kept = right("all", "train"), right("out", "validation")
assert all > 0 and abs(kept - all / 10) <= 1, (all, kept)
END
    done
    rm -r form
}
shares shapes:1000 10
shares blobs:400 2
if "$HAUL" --version | grep -q png; then
    "$HAUL_PYTHON" - <<'END'
import png_file
for part, cats, dogs in ("train", 90, 30), ("test", 3, 1):
    for name, count, value in ("cat", cats, 40), ("dog", dogs, 200):
        for i in range(count):
            png_file.write(f"pets/{part}/{name}/{i}.png", 8, 8, [value, i, 255 - i] * 64)
END
    shares images:pets 2
    run 0 train --data images:pets --model dense --epochs 1 --validation 0.1 --device cpu --json
    check "a tenth of 120" test "$(value out start validation_examples)" = 12
    mv pets/test gone
    run 1 train --data images:pets/train --model dense --epochs 1 --device cpu
    complains "give --validation 0.2 to keep a fifth"
    run 0 train --data images:pets/train --model dense --epochs 1 --validation 0.1 --device cpu --json
    check "no test data" sh -c '! grep -q "\"test_" out'
fi

# Each epoch is measured on the validation data, and the test data once, with the best weights.
task=("${small[@]}" --lr 0.1 --epochs 3 --validation 0.25)
run 0 train "${task[@]}" --json --run r
check "the log is what was told" cmp -s out r/log.jsonl
check "three quarters are learned" test "$(value out start train_examples)" = 192
check "a quarter is kept" test "$(value out start validation_examples)" = 64
check "no test in epochs" sh -c '! grep "\"event\":\"epoch\"" out | grep -q test_'
cp -r r best
cp best/best.safetensors best/weights.safetensors
run 0 predict --run best --device cpu --json
check "the test is of the best weights" equal "$(value r/log.jsonl done test_loss)" "$(value out summary loss)"
run 0 train "${task[@]}" --run same
check "the seed draws the same" cmp -s r/weights.safetensors same/weights.safetensors
run 0 train "${task[@]}" --json
check "the test needs no run folder" equal "$(value r/log.jsonl done test_loss)" "$(value out done test_loss)"
run 0 train "${task[@]}"
check "for people" grep -Eq '^  test .* with the weights of epoch [0-9]+$' out

# The best weights are those of the epoch that the log calls best: the last of a training that ends there.
wild=("${small[@]}" --lr 1.5 --log-every 1000)
run 0 train "${wild[@]}" --epochs 6 --run wild
best=$(value wild/log.jsonl done best_epoch)
check "not the last epoch ($best)" test "$best" -lt 6
run 0 train "${wild[@]}" --epochs "$best" --run until
check "the weights of epoch $best" "$HAUL_PYTHON" - "$best" <<'END'
import json, struct, sys
def load(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + size])["__metadata__"], data[8 + size:]
metadata, values = load("wild/best.safetensors")
assert values == load("until/weights.safetensors")[1] and values != load("wild/weights.safetensors")[1]
assert metadata["epoch"] == sys.argv[1], metadata
epochs = [e for e in map(json.loads, open("wild/log.jsonl")) if e["event"] == "epoch"]
lowest = float("inf")
for e in epochs:
    assert e["best"] == (e["test_loss"] < lowest), e
    lowest = min(lowest, e["test_loss"])
assert epochs[int(sys.argv[1]) - 1]["test_loss"] == lowest
assert abs(float(metadata["test_loss"]) - lowest) < 1e-6
END
run 0 train --run until --resume --epochs 6
check "the best so far is part of the checkpoint" cmp -s wild/best.safetensors until/best.safetensors

# Killed after a checkpoint and before its best weights: they are those of the checkpoint. Killed before the last test:
# it is made.
run 0 train "${task[@]}" --epochs 1 --run r1
cp -r r1 cut
rm cut/best.safetensors
sed -i '/"event":"done"/d' cut/log.jsonl
run 0 train --run cut --resume
check "the best weights are there again" cmp -s r1/best.safetensors cut/best.safetensors
check "the test was made" equal "$(value r1/log.jsonl done test_loss)" "$(value cut/log.jsonl done test_loss)"
run 0 train --run cut --resume
check "it is finished now" grep -q 'cut is finished' out

# Patience: nothing is learned, so the first epoch is the best.
stuck=("${small[@]}" --lr 1e-12 --validation 0.2 --patience 2)
run 0 train "${stuck[@]}" --epochs 9 --run stuck
said() { tr '\n' ' ' <out | tr -s ' ' | grep -q "$1"; } # lines may be wrapped
check "says why" said ' Stopped early after epoch 3: the validation loss .* epoch 1 .* for 2 epochs'

check "the log too" test "$(value stuck/log.jsonl early_stop epoch) $(value stuck/log.jsonl early_stop best_epoch)" = "3 1"
check "it is done" test "$(value stuck/log.jsonl done epochs)" = 3
run 0 train --run stuck --resume
check "and finished" grep -q '^stuck is finished: it stopped early, after 3 epochs' out
run 0 train --run stuck --resume --epochs 20
check "epochs do not change that" grep -q '^stuck is finished' out
run 0 train --run stuck --resume --patience 4
check "more patience does" test "$(value stuck/log.jsonl done epochs)" = 5
run 0 train "${stuck[@]}" --epochs 9 --patience 4 --run at-once
events stuck/log.jsonl >a
events at-once/log.jsonl >b
check "as if it had been asked for at once" cmp a b
run 0 train "${small[@]}" --lr 1e-12 --patience 1 --epochs 5
check "without --validation the test loss counts" said ' Stopped early after epoch 2: the test loss'

# Complaints.
run 2 train --validation 1
complains "a fraction below 1 is expected, for example 0.1"
run 2 train --validation 1.5
complains "--validation"
run 1 train --data blobs:1 --validation 0.5
complains "leave --validation out"
run 1 train --run r --resume --validation 0.5
complains "--validation"
finish
