# Folders of pictures as people have them: plain class folders, pictures of all sizes and kinds, and what can be wrong with
# them; and predictions for single pictures.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
"$HAUL" --version | grep -q png || { echo "this build reads no PNG files"; exit 77; }
. "$HAUL_SOURCE/tests/support/pictures.sh"
quick=(--model dense --batch 8 --epochs 4 --lr 0.05 --workers 1 --device cpu)

# ---- plain class folders ----

for colour in blue:20,20,200 green:20,200,20 red:200,20,20; do pictures "plain/${colour%:*}" "${colour#*:}" 30; done
run 1 train --data images:plain "${quick[@]}" --run r
complains "--data images:plain has no test part to measure each epoch on; give --validation 0.2"
check "nothing was made" test ! -e r
run 0 train --data images:plain "${quick[@]}" --validation 0.2 --run r --json
check "colours are learned" at_least "$(value out epoch validation_accuracy)" 0.99
accuracy=$(value out epoch validation_accuracy)
run 0 predict --run r --device cpu --json
check "measured on the validation part" test "$(value out summary split)" = validation
check "which has a fifth" test "$(value out summary examples)" = 18
check "with the same result" test "$(value out summary accuracy)" = "$accuracy"
run 0 predict --run r --device cpu --split train --json
check "the rest" test "$(value out summary examples)" = 72
run 0 predict --run r --device cpu --data images:plain --json
check "all, as other data" test "$(value out summary examples)" = 90
run 1 predict --run r --device cpu --data images:plain --split validation
complains "leave --data out"
run 1 predict --run r --device cpu --split test
complains "plain has no folder named test"

# ---- sizes ----

pictures plain/red 200,20,20 3 24 40
run 0 train --data images:plain "${quick[@]}" --validation 0.2 --run mixed
check "the start says so" grep -q '^size .*pictures differ in size and are resized to 64 x 64; --size N' out
check "the log too" grep -q '"size":\[64,64\]' mixed/log.jsonl
run 0 train --data images:plain "${quick[@]}" --validation 0.2 --size 10 --run ten
check "the wanted size" grep -q '^size .*pictures are resized to 10 x 10$' out
run 2 train --data images:plain --size -3
complains "--size"
run 1 train --data shapes --size 16
complains "--size resizes the pictures of images:DIR and masks:DIR; the examples of shapes have shape [3,32,32]"
run 0 predict --run ten --device cpu --data images:plain
run 0 train --run ten --resume --epochs 5
run 1 train --run ten --resume --epochs 6 --size 12
# A run that goes on keeps the size that was chosen at its beginning.
mkdir aside
mv plain/red/24x40-* aside
run 0 train --run mixed --resume --epochs 5 --allow-changed-data
mv aside/* plain/red
run 0 train --data images:plain "${quick[@]}" --validation 0.2 --estimate

# ---- single pictures ----

pictures new 20,20,200 2 50 30
run 0 predict --run r --device cpu new/50x30-0.png plain/green/16x16-0.png
check "blue" grep -Eq '^new/50x30-0.png +blue +[0-9]+ %  #+$' out
check "green" grep -Eq '^plain/green/16x16-0.png +green +[0-9]+ %  #+$' out
check "three classes each" test "$(grep -c '%' out)" = 6
cp out text
run 0 predict --run r --device cpu --json new/50x30-0.png plain/green/16x16-0.png
check "whole per cent, and 100 only for certainty" "$HAUL_PYTHON" -c '
import json, re
shown = re.findall(r"(<?[0-9]+) %", open("text").read())
known = [t["probability"] for line in open("out") for t in json.loads(line)["top"]]
for text, p in zip(shown, known, strict=True):
    whole = int(100 * p + 0.5)
    assert text == ("<1" if p and not whole else str(min(whole, 99 if p < 1 else 100))), (text, p)'
run 0 predict --run r --device cpu --top 1 new/*.png
check "one class each" test "$(grep -c '%' out)" = 2
run 0 predict --run r --device cpu --json new/*.png
check "JSON lines only" is_json_lines out
check "one for each picture" test "$(grep -c '"event":"prediction"' out)" = 2
check "with all fields" "$HAUL_PYTHON" -c '
import json
for line in open("out"):
    e = json.loads(line)
    assert e["source"].startswith("new/50x30-") and e["class"] == "blue" == e["top"][0]["class"], e
    assert e["probability"] == e["top"][0]["probability"] and len(e["top"]) == 3, e
    assert abs(sum(t["probability"] for t in e["top"]) - 1) < 1e-5, e'
# A picture of the data gets the answer that it has there.
run 0 predict --run r --device cpu --json --count 90 --data images:plain
cp out data
run 0 predict --run r --device cpu --json plain/blue/16x16-0.png
check "the same probability" "$HAUL_PYTHON" -c '
import json
data = [json.loads(line) for line in open("data")]
one = json.loads(open("out").read())
assert data[0]["label"] == "blue" and data[0]["top"] == one["top"], (data[0], one)'
run 0 predict --run r --device cpu --trace new/50x30-0.png
check "a trace" grep -q '^placement' out
run 2 predict --run r --trace new/50x30-0.png new/50x30-1.png
complains "--trace follows one picture"
run 2 predict --run r --data images:plain new/50x30-0.png
complains "--data is for data, and pictures are named as well"
run 1 predict --run r --device cpu nowhere.png
complains "cannot open nowhere.png: No such file"
run 1 predict --run r --device cpu new
complains "new is a folder; name pictures in it"
head -c 200 new/50x30-0.png >cut.png
run 1 predict --run r --device cpu new/50x30-0.png cut.png new/50x30-1.png
check "they are counted" grep -qx "1 of 3 pictures was left out" out
complains "cut.png is not a valid picture"
check "the others are answered" test "$(grep -c '^new/' out)" = 2
run 0 train "${small[@]}" --epochs 1 --run rows
run 1 predict --run r --device cpu --json new/50x30-0.png cut.png nowhere.png
check "counted in JSON" test "$(tail -n 1 out)" = '{"event":"left_out","pictures":2,"of":3}'
run 1 predict --run rows --device cpu new/50x30-0.png
complains "rows was trained on examples of shape [10], not on pictures"

# ---- weights ----

run 0 predict --run r --device cpu new/50x30-0.png
check "the best ones" grep -q '^weights  r/best.safetensors (the best epoch)' out
run 0 predict --run r --device cpu --weights last new/50x30-0.png
check "the last ones" grep -q '^weights  r/weights.safetensors$' out
mv r/best.safetensors aside
run 0 predict --run r --device cpu new/50x30-0.png
check "where there are no best ones" grep -q '^weights  r/weights.safetensors$' out
run 1 predict --run r --device cpu --weights best new/50x30-0.png
complains "--weights best: found no r/best.safetensors"

# ---- what can be wrong with a folder ----

refused() {
    run 1 train --data "images:$1" "${quick[@]}" --validation 0.2
    complains "$2"
}
refused nowhere "cannot open the folder nowhere"
mkdir empty
refused empty "empty has no folders: make one for each class"
refused plain/red "plain/red has no folders"
mkdir one && cp -r plain/red one/
refused one "one has one class, 'red'; a network needs at least two"
cp -r plain odd && mkdir odd/.hidden odd/none && touch odd/.x.png odd/notes.txt odd/red/notes.txt odd/red/.y.png
refused odd "odd/none has no .jpg, .jpeg or .png files; add some, or move it away"
rmdir odd/none
run 0 train --data images:odd "${quick[@]}" --validation 0.2
mkdir odd/red/more
refused odd "odd/red/more is a folder within a class; move its pictures up into the class"
rmdir odd/red/more
touch odd/red/a.webp
refused odd "odd/red/a.webp is neither a JPEG nor a PNG file; convert it"
rm odd/red/a.webp
echo "no picture" >odd/red/z.png
refused odd "odd/red/z.png is neither a JPEG nor a PNG file"
cp cut.png odd/red/z.png
refused odd "odd/red/z.png is not a valid picture"
ln -sf nowhere odd/red/z.png
refused odd "cannot open odd/red/z.png"
rm odd/red/z.png
mkdir odd/train && cp -r odd/blue odd/train/
refused odd "odd has a folder train of classes and also a folder blue"
mkdir split && cp -r plain split/test
refused split "split has a folder named test and none named train"
cp -r plain split/train
run 0 train --data images:split "${quick[@]}"
# Classes may be called train and test.
cp -r plain names && cp -r plain/red names/train && cp -r plain/blue names/test
run 0 train --data images:names "${quick[@]}" --validation 0.2
check "five classes" grep -q '5 classes' out
finish
