# Folders of pictures: classes have the numbers of the training split, and the names that the run keeps.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
"$HAUL" --version | grep -q png || { echo "this build reads no PNG files"; exit 77; }
. "$HAUL_SOURCE/tests/support/pictures.sh"
pictures set/train/blue 20,20,200 40
pictures set/train/green 20,200,20 40
pictures set/train/red 200,20,20 40
pictures set/test/blue 20,20,200 10
pictures set/test/green 20,200,20 10
pictures set/test/red 200,20,20 10
colours=(--model dense --batch 8 --epochs 4 --lr 0.05 --workers 1 --device cpu)
run 0 train --data images:set "${colours[@]}" --run r --json
check "colours are learned" at_least "$(value out epoch test_accuracy)" 0.99
run 0 predict --run r --device cpu --index 25 --count 1
check "the name of the class" grep -q '^example 25 *red .*is red *right' out

# A test split without the first class: the others keep their numbers.
mv set/test/blue aside
run 0 predict --run r --device cpu --json
check "still right" at_least "$(value out summary accuracy)" 0.99
run 0 train --data images:set "${colours[@]}" --json
check "also in training" at_least "$(value out epoch test_accuracy)" 0.99
mv aside set/test/blue

# A class that only the test split has is named.
mv set/test/blue set/test/azure
run 1 predict --run r --device cpu
complains "set/test/azure is a class that the training split does not have"
run 1 train --data images:set "${colours[@]}"
complains "set/test/azure is a class that the training split does not have"

# Renamed classes, missing ones, new ones: both names are told, whoever meets them.
mv set/train/blue set/train/azure
renamed="class 0 is 'azure' in images (test) and 'blue' in r"
run 1 predict --run r --device cpu
complains "$renamed"
run 1 predict --run r --data images:set --device cpu
complains "$renamed"
run 1 train --run r --resume --epochs 5
complains "class 0 is 'azure' in images (train) and 'blue' in r"
cp -r r before
mv set/train/azure aside-train
mv set/test/azure aside
run 1 predict --run r --device cpu
complains "images (test) has 2 classes and lacks 'blue', which r has (3 classes)"
mv aside-train set/train/blue
mv aside set/test/blue
pictures set/train/white 200,200,200 2
run 1 predict --run r --device cpu
complains "images (test) has 4 classes, one of them 'white', which r does not have (3 classes)"
run 1 train --run r --resume --epochs 5
complains "one of them 'white'"
check "the run is as before" diff -r before r
rm -r set/train/white
run 0 train --run r --resume --epochs 5

# Other data with as many classes is no substitute.
run 1 predict --run r --data shapes --device cpu
complains "lacks 'blue'"

# The folder may move.
mv set moved
run 1 predict --run r --device cpu
complains "set"
run 0 predict --run r --data images:moved --device cpu
run 0 train --run r --resume --data images:moved --epochs 6
run 0 predict --run r --device cpu

# What a terminal obeys is shown, not sent.
evil=$'e\e[31mvil\302\233\n'
mv moved/train/blue "moved/train/$evil"
mv moved/test/blue "moved/test/$evil"
run 0 train --data images:moved "${colours[@]}" --run "$evil"
check "no escape is sent" sh -c "! grep -q \"\$(printf '\\033')\" out"
check "the folder is shown" grep -qF 'run     e\x1b[31mvil\u009b\n/ keeps' out
run 0 predict --run "$evil" --device cpu --count 30
check "no escape is sent" sh -c "! grep -q \"\$(printf '\\033')\" out"
check "the class is shown" grep -qF 'is e\x1b[31mvil\u009b\n' out
run 0 inspect "$evil/checkpoint"
check "no escape is sent" sh -c "! grep -q \"\$(printf '\\033')\" out"
check "the file is shown" grep -qF 'e\x1b[31mvil\u009b\n/checkpoint: Haul checkpoint' out
check "in metadata, too" grep -qF 'train.classes: ["' out
run 0 predict --run "$evil" --device cpu --count 30 --json
check "nor in JSON" sh -c "! grep -q \"\$(printf '[\\177\\033]\\|\\302\\233')\" out"
check "which means the same" "$HAUL_PYTHON" -c 'import json; assert any(json.loads(line)["label"] == "e\x1b[31mvil\x9b\n" for line in open("out") if "label" in line)'

# Names that are not UTF-8 cannot be kept, which is told before anything is trained.
cp -r moved bytes
mv bytes/train/red "bytes/train/r"$'\377'
mv bytes/test/red "bytes/test/r"$'\377'
run 1 train --data images:bytes "${colours[@]}" --run kept
complains "the name of class 2, 'r\xff', is not UTF-8"
run 0 train --data images:bytes "${colours[@]}"
# Surrogates, overlong forms and numbers beyond U+10FFFF are none, either.
for odd in $'\355\240\275' $'\340\200\257' $'\364\220\200\200'; do
    mv bytes/train/r* "bytes/train/r$odd"
    mv bytes/test/r* "bytes/test/r$odd"
    run 1 train --data images:bytes "${colours[@]}" --run kept
    complains "is not UTF-8"
done
check "nothing was made" test ! -e kept
# Bytes that are not UTF-8 are replaced in JSON and in pages.
cp -r r $'r\355\240\275'
odd_pictures=(bytes/train/r*/*.png)
run 0 predict --run r --device cpu --json "${odd_pictures[@]:0:2}"
check "JSON" is_json_lines out
run 0 report $'r\355\240\275' --output page.html
check "a page in UTF-8" "$HAUL_PYTHON" -c 'assert "r\ufffd\ufffd\ufffd" in open("page.html", encoding="utf-8").read()'
mv moved $'m\377'
run 1 train --data images:$'m\377' "${colours[@]}" --run kept
complains "--data images:m\xff is not UTF-8"
check "nothing was made" test ! -e kept

"$HAUL_PYTHON" - <<'END'
import json, struct
header = json.dumps({"__metadata__": {"a\x1b]0;b\x07": "c\rd\u202e"}, "w\x1b[2J\n": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
open("evil.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + struct.pack("<f", 1))
END
run 0 inspect evil.safetensors
check "names" grep -qF '  w\x1b[2J\n  f32' out
check "metadata" grep -qF '  a\x1b]0;b\x07: c\rd\u202e' out
check "three lines and a head" test "$(wc -l <out)" -eq 4
run 0 inspect --json evil.safetensors
check "JSON" is_json_lines out
finish
