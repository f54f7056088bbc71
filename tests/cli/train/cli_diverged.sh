# A training that diverges says since when, what its loss was before, and what to try; its last good checkpoint stays.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
wild=(--model mlp --data shapes:64 --batch 16 --epochs 3 --lr 8 --device cpu)

# With a line for each mini-batch, the first that has no loss is the one that all runs must name.
run 3 train "${wild[@]}" --log-every 1 --json
"$HAUL_PYTHON" - <<'END' >first
import json
lines = [e for e in map(json.loads, open("out")) if e["event"] == "batch"]
at = next(i for i, e in enumerate(lines) if e["loss"] is None)
print(lines[at]["epoch"], lines[at]["batch"], f'{lines[at - 1]["loss"]:.4g}')
END
read -r epoch batch before <first
check "after the first epoch" test "$epoch" -gt 1 -a "$batch" -gt 1
since() { echo "$(value "$1" diverged epoch) $(value "$1" diverged batch) $(value "$1" diverged what)"; }
check "the event" test "$(since out)" = "$epoch $batch loss"
complains "its loss is not finite since epoch $epoch, mini-batch $batch; the loss was $before before; try a learning rate below 8 (--lr)"
for every in 2 3 1000; do
    run 3 train "${wild[@]}" --log-every $every --json
    check "the same mini-batch with a line for each $every" test "$(since out)" = "$epoch $batch loss"
done
check "no loss was told before" test "$(value out diverged loss_before)" = None

# With a run folder: the checkpoint and all weights are those of before, and finite.
run 0 train "${wild[@]}" --epochs $((epoch - 1)) --run r
cp -r r before
run 3 train --run r --resume --epochs 3
complains "the last good checkpoint is kept in r"
check "the log ends with it" grep -q '"event":"diverged"' <(tail -1 r/log.jsonl)
for file in checkpoint weights.safetensors best.safetensors; do
    check "$file is as before" cmp -s before/$file r/$file
done
run 3 train --run r --resume --epochs 3
check "again" test "$(since r/log.jsonl)" = "$epoch $batch loss"

# In the first epoch there is nothing to keep.
run 3 train "${wild[@]}" --lr 1e6 --run none
complains "try a learning rate below 1e+06 (--lr)"
check "nothing was saved" test ! -e none/checkpoint -a ! -e none/best.safetensors
finish
