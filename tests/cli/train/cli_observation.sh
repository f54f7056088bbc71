# The observation at the end of an epoch's line, and in its event.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

# The observations of a log, one a line.
observations() {
    "$HAUL_PYTHON" -c '
import json, sys
for event in map(json.loads, open(sys.argv[1])):
    if event["event"] == "epoch":
        print(event.get("observation", "none"))' "$1"
}

still=(--data shapes:200 --batch 20 --epochs 3 --workers 1 --device cpu --lr 1e-12)
run 0 train "${still[@]}" --run still
observations still/log.jsonl >said
check "a network that learns nothing" diff said - <<'END'
not better than guessing yet
level since epoch 1
level since epoch 1
END
check "it stands below the line" test "$(grep -A1 '^Epoch 2/3' out | sed -n '2{s/;.*//;p}')" = "  level since epoch 1"

# A resumed training knows the epochs before.
run 0 train "${still[@]}" --epochs 1 --run later
run 0 train --run later --resume --epochs 3
observations later/log.jsonl >after
check "a resumed training says the same" cmp said after

run 0 train --data blobs:400 --epochs 3 --workers 1 --device cpu --run falls
check "a loss that falls" grep -q '"observation":"still falling, by [0-9.]* %"' falls/log.jsonl
check "the first epoch is compared with guessing" grep -q '"observation":"[0-9.]* times as often right as guessing"' falls/log.jsonl

# Twenty pictures are soon learnt by heart.
run 0 train --data shapes:40 --validation 0.5 --optimizer adam --lr 0.003 --epochs 40 --batch 20 --workers 1 --device cpu --run fits
check "overfitting" grep -q '"observation":"validation loss rises since epoch [0-9]*: overfitting"' fits/log.jsonl

run 0 train --data blobs:200 --model mlp --validation 0.3 --epochs 40 --lr 0.5 --workers 1 --device cpu --run worse
check "a rate that is too high" grep -q '"observation":"training makes it worse: try a lower --lr"' worse/log.jsonl

finish
