# A run goes on with the data with which it began: examples that were added, removed or exchanged are noticed.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
"$HAUL" --version | grep -q png || { echo "this build reads no PNG files"; exit 77; }
. "$HAUL_SOURCE/tests/support/pictures.sh"

quick=(--model dense --batch 8 --log-every 1 --workers 0 --device cpu)

# ---- a folder of pictures ----

pictures set/blue 20,20,200 40
pictures set/red 200,20,20 40
run 0 train --data images:set "${quick[@]}" --epochs 2 --validation 0.2 --run first # 8 mini-batches an epoch
run 0 train --run first --resume --epochs 3
check "the log says that the data is the same" test "$(value first/log.jsonl start data_check)" = same
check "no change" sh -c '! grep -q data_change first/log.jsonl'

# again FOLDER: the run and its data, to change them.
again() {
    rm -rf r e
    cp -r first r
    cp -r set e
}
# refused WORDS: the run is not continued, stays as it is, and the option that continues it does so and says it.
refused() {
    cp -r r before
    run 1 train --run r --resume --epochs 5 --data images:e
    complains "the data of r has changed since the training was saved: $1; bring the data back, or go on with it as it is: --allow-changed-data"
    check "the run is as before" diff -r before r
    rm -r before
    run 0 train --run r --resume --epochs 5 --data images:e --allow-changed-data
    check "what changed is told" sh -c "tr -s '\n ' ' ' <out | grep -qF 'changed the data: $1'"
    check "in the log, too" test "$(value r/log.jsonl start data_change)" = "$1"
    check "its data" test "$(value r/log.jsonl start data_check)" = changed
    check "all epochs are trained" test "$(value r/log.jsonl done epochs)" = 5
    run 0 train --run r --resume --epochs 6
    check "from then on, this is the data" test "$(value r/log.jsonl start data_check)" = same
}
again
rm e/red/16x16-3.png
refused "1 of 80 files is gone, for example red/16x16-3.png"
again
rm e/red/16x16-1*.png
refused "11 of 80 files are gone, for example red/16x16-1.png"
again
cp e/red/16x16-3.png e/blue/added.png
refused "1 file is new, for example blue/added.png"
again
printf x >>e/blue/16x16-7.png
refused "1 of 80 files has another size, for example blue/16x16-7.png"
again
mv e/red/16x16-8.png "e/red/"$'\e[31m\377.png'
refused '1 of 80 files is gone, for example red/16x16-8.png; 1 file is new, for example red/\x1b[31m\xff.png'
again
run 0 train --run r --resume --epochs 4 --data images:e
check "a folder that moved is the same" test "$(value r/log.jsonl start data_check)" = same
run 2 train --data images:e "${quick[@]}" --allow-changed-data
complains "--allow-changed-data is for runs that are continued; give --resume, or leave it out"

# ---- within an epoch ----

# stand BATCH: the run r was stopped in epoch 4 after so many mini-batches, of which the last two were not told.
stand() {
    edit r haul.batch "$1" train.progress/window_batches 2 train.progress/epoch_batches $(($1 - 2)) \
        train.progress/epoch_answers $((8 * $1)) train.progress/epoch_hits $((4 * $1)) haul.optimizers.0.steps $((24 + $1))
}
again
stand 3
run 0 train --run r --resume --epochs 4 --data images:e
check "as it was" test "$(value r/log.jsonl start resumed_batch)" = 3
again
stand 3
rm e/red/16x16-3.png
run 0 train --run r --resume --epochs 4 --data images:e --allow-changed-data
check "a place that is there is kept" test "$(value r/log.jsonl start resumed_batch)" = 3
again
stand 7
rm e/*/16x16-[12]*.png # 36 are left, of which 7 validate: 4 mini-batches
run 0 train --run r --resume --epochs 4 --data images:e --allow-changed-data
check "another epoch begins anew" test "$(value r/log.jsonl start resumed_batch)" = 0
check "it says so" grep -q 'The epoch begins anew' out
check "all of its mini-batches" test "$(grep -c '"event":"batch".*"epoch":4,' r/log.jsonl)" = 4
check "counts begin anew, too" "$HAUL_PYTHON" -c '
import json
epoch = [e for e in map(json.loads, open("r/log.jsonl")) if e["event"] == "epoch"][-1]
assert epoch["epoch"] == 4 and abs(29 * epoch["train_accuracy"] - round(29 * epoch["train_accuracy"])) < 1e-9, epoch'
again
stand 7
rm e/*/16x16-[12]*.png
edit r train.options/batch 8 # unchanged: the option of the run decides
run 1 train --run r --resume --epochs 4 --data images:e --batch 4
complains "cannot go on with --batch 4"

# A schedule goes on at the place of the mini-batch, in epochs of another length.
for schedule in cosine:1 onecycle step:1:0.5; do
    rm -rf r e
    cp -r set e
    run 0 train --data images:e "${quick[@]}" --epochs 2 --validation 0.2 --lr 0.1 --schedule $schedule --run r
    rm e/*/16x16-[12]*.png
    run 0 train --run r --resume --epochs 4 --allow-changed-data
    mv r changed
    run 0 train --data images:e "${quick[@]}" --epochs 4 --validation 0.2 --lr 0.1 --schedule $schedule --run r
    check "$schedule: the rates of a run that had this data from the start" "$HAUL_PYTHON" -c '
import json
rates = [{(e["epoch"], e["batch"]): e["lr"] for e in map(json.loads, open(name + "/log.jsonl")) if e["event"] == "batch" and e["epoch"] > 2}
         for name in ("changed", "r")]
assert rates[0] == rates[1] and len(rates[0]) == 8, rates'
    rm -r changed
done

# ---- checkpoints that do not say which data they are of ----

again
edit r train.data absent
rm e/red/16x16-3.png
run 0 train --run r --resume --epochs 4 --data images:e
check "it says so" grep -q '^data *is not compared with that of the training before' out
check "in the log, too" test "$(value r/log.jsonl start data_check)" = unknown
again
edit r train.data absent
stand 7
rm e/*/16x16-[12]*.png
run 1 train --run r --resume --epochs 4 --data images:e
complains "r/checkpoint cannot be continued: its haul.batch is 7; 0 to 4 is expected, as an epoch has so many mini-batches"
run 0 train --run r --resume --epochs 4 --data images:e --allow-changed-data
check "the epoch begins anew" test "$(value r/log.jsonl start resumed_batch)" = 0
for value in '[]' '"x"' null x; do
    again
    edit r train.data "$value"
    run 1 train --run r --resume --epochs 4 --data images:e
    complains "its metadata has no train.data"
done
for value in '{}' '{"train":1}' '{"train":{"files":1e999,"hash":7,"sizes":[1,2]}}' '{"train":{"sizes":{"a":"b"}},"test":[]}'; do
    again
    edit r train.data "$value"
    run 1 train --run r --resume --epochs 4 --data images:e
    complains "the data of r has changed since the training was saved: "
done

# ---- parts, many files, and other kinds of files ----

rm -rf r e
for part in train test; do
    pictures e/$part/blue 20,20,200 8
    pictures e/$part/red 200,20,20 8
done
run 0 train --data images:e "${quick[@]}" --epochs 1 --run r
mv e/test/red/16x16-1.png e/test/blue/other.png
run 1 train --run r --resume --epochs 2
complains ": of the test data, 1 of 16 files is gone, for example red/16x16-1.png; of the test data, 1 file is new, for example blue/other.png; bring"
mv e/test/blue/other.png e/test/red/16x16-1.png
run 0 train --run r --resume --epochs 2
rm -r r e
pictures e/blue 20,20,200 501 2 2
pictures e/red 200,20,20 500 2 2
run 0 train --data images:e "${quick[@]}" --batch 256 --epochs 1 --validation 0.5 --run r
rm e/red/2x2-3.png
run 1 train --run r --resume --epochs 2
complains ": 1,000 files now, 1,001 before; bring"
cp e/red/2x2-4.png e/red/2x2-5.png.png
run 1 train --run r --resume --epochs 2
complains ": names or sizes of its 1,001 files differ; bring"
rm -r r
for i in data_batch_{1..5} test_batch; do
    "$HAUL_PYTHON" -c 'import sys; sys.stdout.buffer.write(b"".join(bytes([i]) * 3073 for i in range(8)))' >$i.bin
done
run 0 train --data cifar10:. "${quick[@]}" --epochs 1 --run r
run 0 train --run r --resume --epochs 2
head -c 3073 data_batch_3.bin >>data_batch_4.bin
run 1 train --run r --resume --epochs 3
complains ": 1 of 5 files has another size, for example data_batch_4.bin; bring"
run 0 train --run r --resume --epochs 3 --allow-changed-data
check "more examples" test "$(value r/log.jsonl start train_examples)" = 41
finish
