# Where a checkpoint says that a training stands is held against the data, the options and itself: nonsense is refused
# with the value and what was expected, and nothing overflows.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

task=("${small[@]}" --schedule cosine:1 --accumulate 3) # 16 mini-batches, 6 updates an epoch
run 0 train "${task[@]}" --epochs 3 --run good
huge=9223372036854775807

# wrong WORDS KEY VALUE...: a checkpoint with these changes is not continued, and the run stays as it is.
wrong() {
    local words=$1
    shift
    rm -rf spoiled before
    cp -r good spoiled
    edit spoiled "$@"
    cp -r spoiled before
    run 1 train --run spoiled --resume --epochs 5
    complains "$words"
    check "the run is as before" diff -r before spoiled
    check "no overflow" sh -c '! grep -q "runtime error" err'
}
wrong "spoiled/checkpoint cannot be continued: its haul.epoch is $huge; 1 to 6 is expected, as the run has so many epochs" haul.epoch $huge
wrong "spoiled/checkpoint cannot be continued: its haul.epoch is 7; 1 to 6 is expected" haul.epoch 7
wrong "its metadata has no haul.epoch" haul.epoch 0
wrong "its haul.batch is $huge; 0 to 16 is expected, as an epoch has so many mini-batches" haul.batch $huge
wrong "its haul.batch is 17; 0 to 16 is expected" haul.batch 17
wrong "its haul.batch is 4; a multiple of --accumulate 3 or the end of the epoch, 16, is expected" haul.batch 4
wrong "its epoch_batches is 0; 3 is expected, the mini-batches of the epoch without its window_batches" haul.batch 3
wrong "its window_batches is 1; 0 is expected, as the epoch has trained so many mini-batches" train.progress/window_batches 1
wrong "its window_batches is $huge; 0" train.progress/window_batches $huge
wrong "its epoch_answers is 16; 0 is expected" train.progress/epoch_answers 16
wrong "its epoch_hits is 17; 0 to 16 is expected, as there were so many answers" train.progress/epoch_hits 17 \
    train.progress/epoch_answers 16 haul.batch 3 train.progress/epoch_batches 3
wrong "its epoch_answers is $huge; 0 to 9007199254740992" train.progress/epoch_answers $huge haul.batch 3 train.progress/epoch_batches 3
wrong "its best_epoch is 4; 0 to 3 is expected, as so many epochs are trained" train.progress/best_epoch 4
wrong "its stalled is $huge; " train.progress/stalled $huge
wrong "its elapsed is -1; 0 to 9.0072e+15 is expected" train.progress/elapsed -1
wrong "its epoch_start is 1e+300; 0 to" train.progress/epoch_start 1e300
wrong "haul.optimizers.0.steps is $huge; at most 9000000000000000 is expected" haul.optimizers.0.steps $huge
wrong "its optimizer has made 9000000000000000 steps; 18 is expected, those until its haul.epoch and haul.batch" haul.optimizers.0.steps 9000000000000000
wrong "its optimizer has made 18 steps; 12 is expected" haul.epoch 3 train.progress/best_epoch 2 train.progress/stalled 0
wrong "its optimizer has made 18 steps; 19 is expected" haul.batch 3 train.progress/epoch_batches 3
rm -rf spoiled
cp -r good spoiled
edit spoiled train.progress/log_bytes $huge
run 0 train --run spoiled --resume --epochs 4
check "a log that is shorter than it was is continued" test "$(value spoiled/log.jsonl done epochs)" = 4

# The number of the last epoch is told only if it can be.
cp good/checkpoint spoiled/
edit spoiled haul.epoch $huge
run 1 train --run spoiled --resume
complains "its haul.epoch is $huge; 1 to 4 is expected"
rm -r spoiled

# Loss scaling skips steps: fewer are accepted, more are not.
run 0 train "${small[@]}" --precision f16 --epochs 1 --run half
cp -r half good-half
edit half haul.optimizers.0.steps 15
run 0 train --run half --resume --epochs 2
rm -r half
cp -r good-half half
edit half haul.optimizers.0.steps 17
run 1 train --run half --resume --epochs 2
complains "its optimizer has made 17 steps; 0 to 16 is expected"

# A schedule over more epochs is laid over updates, not over mini-batches.
run 0 train "${task[@]}" --log-every 1 --epochs 4 --run whole
run 0 train --run good --resume --epochs 4 --log-every 1
check "the rates of a run that had these epochs from the start" "$HAUL_PYTHON" -c '
import json
rates = [{(e["epoch"], e["batch"]): e["lr"] for e in map(json.loads, open(name + "/log.jsonl")) if e["event"] == "batch" and e["epoch"] > 3}
         for name in ("whole", "good")]
assert rates[0] == rates[1] and len(rates[0]) == 16, rates'
finish
