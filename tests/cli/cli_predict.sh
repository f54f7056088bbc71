# Predictions, traces, and what is in files.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

run 0 train --model dense --data blobs --batch 32 --epochs 3 --lr 0.1 --device cpu --run r --json
accuracy=$(value out epoch test_accuracy)

run 0 predict --run r --data blobs --device cpu --json
check "JSON lines only" is_json_lines out
check "ten examples" test "$(grep -c '"event":"prediction"' out)" = 10
check "the accuracy of the training" test "$(value out summary accuracy)" = "$accuracy"
run 0 predict --run r --data blobs --device cpu --count 2 --index 5
check "two examples" test "$(grep -c '^example' out)" = 2
check "from the sixth on" grep -q '^example 5 ' out
run 1 predict --run r --data blobs --device cpu --index 200
complains "has 200 examples"
run 1 predict --run r --data shapes:50 --device cpu
complains "shapes (test) has 10 classes and lacks '0', which r has (2 classes)"

# The run knows its data and the names of its classes.
run 0 predict --run r --device cpu --json
check "the data of the training" test "$(value out summary accuracy)" = "$accuracy"
run 1 predict --run r --device meta
complains "--device meta has shapes without data"

# Which classes are confused: rows are the true ones, and add up to the examples.
run 0 predict --run r --device cpu --json
check "the confusion" "$HAUL_PYTHON" -c '
import json
s = [json.loads(line) for line in open("out")][-1]
rows = s["confusion"]
assert s["classes"] == ["0", "1"] and [len(row) for row in rows] == [2, 2], s
assert sum(map(sum, rows)) == s["examples"] == 200, s
assert abs((rows[0][0] + rows[1][1]) / 200 - s["accuracy"]) < 1e-12, s
assert s["weights"] == "best" and s["split"] == "test", s'
run 0 predict --run r --device cpu
check "a table" test "$(grep -Ec '^[01] +[0-9]+ +[0-9]+ % +[0-9.]+ +[0-9.]+$' out)" = 2
check "the accuracy" grep -Eq '^blobs \(test\), all 200 examples on cpu: accuracy [0-9.]+ %, loss [0-9.]+$' out

run 0 predict --run r --data blobs --device cpu --trace --index 3
check "stages in order" test "$(awk '/^(input|placement|fc1|relu1|fc2|output|total)/ { printf "%s ", $1 }' out)" = \
    "input placement fc1 relu1 fc2 output total "
check "with shapes" grep -Eq '^fc1 +linear +cpu +\[1,16\] ' out
check "and the prediction" grep -q '^example 3 ' out
run 0 predict --run r --data blobs --device cpu --trace --json
check "JSON lines only" is_json_lines out
check "six stages" test "$(grep -c '"event":"stage"' out)" = 6

run 0 inspect r/checkpoint
check "a checkpoint" grep -q 'checkpoint' out
check "with the optimizer" grep -Eq 'optimizers\.0\.fc1\.weight\.momentum +f32 +\[16,10\]' out
run 0 inspect r/weights.safetensors
check "names, dtypes, shapes" grep -Eq '^  fc1\.weight +f32 +\[16,10\] +640 bytes' out
run 0 inspect --json r/weights.safetensors
check "JSON" "$HAUL_PYTHON" -c '
import json
f = json.load(open("out"))
assert [t["name"] for t in f["tensors"]] == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"], f
assert f["tensors"][0]["shape"] == [16, 10]'
"$HAUL_PYTHON" -c '
import struct
header = b"{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 2), }"
header += b" " * (64 - (11 + len(header)) % 64) + b"\n"
open("a.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<4f", 1, 2, 3, 4.5))'
run 0 inspect a.npy
check "an npy file" grep -Fq 'npy, f32[2,2]' out
check "its values" grep -q '4.5' out

run 0 devices
check "the cpu" grep -q '^cpu ' out
run 0 devices --json
check "JSON" is_json_lines out
finish
