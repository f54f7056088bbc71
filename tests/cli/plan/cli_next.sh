# From a training that does not fit, to the plan that its refusal names, to the training that the plan names, which runs.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

# next NAME FILE BEFORE: runs the command in the line that begins with this text, as it is in the file.
next() {
    local command
    command=$(sed -n "s/^$3\(haul .*\)/\1/p" "$2")
    case $command in "haul "*) ;; *) command="false: no command after '$3'" ;; esac
    (
        haul() { "$HAUL" "$@"; }
        eval "$command"
    ) >out 2>err
    local got=$?
    echo "$command" >"$1"
    check "$1: $command" test $got -eq 0
}

# three TRAIN_OPTION...: the training does not fit; the plan and the training that runs.
three() {
    run 4 train "$@" --device sim:laptop-4g --memory-limit "$limit"
    next plan err "  "
    cp out planned
    next train out "next       "
}

# Four ninths of what it needs. The options of the training are those of the plan and of the training that it names.
step=(--model char_gpt --data sentences:64 --batch 64 --epochs 2 --optimizer adam --lr 0.003 --seed 5)
run 0 train "${step[@]}" --device sim:laptop-4g --json
need=$(value out done peak_bytes)
limit=$((need * 4 / 9))
three "${step[@]}" --run 'a run'
check "the plan is for the optimizer" grep -q '^one training step of char_gpt, batch 64, adam, within' planned
check "the plan names techniques" grep -Eq '^(recompute|spill|accumulate) ' planned
check "the training has the options" grep -qF -- \
    "haul train --data sentences:64 --model char_gpt --seed 5 --epochs 2 --optimizer adam --lr 0.003 --run 'a run' --device sim:laptop-4g:0 --batch" train
check "it ran to its end" test "$(value 'a run/log.jsonl' done epochs)" -eq 2
check "within the limit" test "$(value 'a run/log.jsonl' done peak_bytes)" -le "$limit"

# A run that goes on may spill and recompute, and keeps its mini-batches.
run 0 train "${step[@]}" --epochs 1 --device sim:laptop-4g --run going
three --run going --resume --epochs 2
check "the plan leaves the mini-batches alone" grep -qF -- '--allow recompute,spill --memory-limit' plan
check "the run goes on" grep -qF -- 'haul train --epochs 2 --run going --resume --device sim:laptop-4g:0 --batch 64' train
check "to its end" test "$(value going/log.jsonl done epochs)" -eq 2
run 2 plan --allow accumulate --devices cpu,sim:laptop-4g --memory-limit "$limit" -- --run going --resume
complains 'a run that goes on may change only --allow recompute,spill'

# Steps of several mini-batches keep their examples.
three "${step[@]}" --accumulate 2 --data sentences:128
check "both mini-batches" grep -q '^one training step of char_gpt, batch 128,' planned
examples() { sed -n 's/.*--batch \([0-9]*\) --accumulate \([0-9]*\).*/\1 * \2/p' "$1"; }
check "the examples of a step" test "$(($(examples train)))" -eq 128

# What a file has on and the plan does not need is turned off.
run 0 train "${step[@]}" --epochs 1 --device sim:laptop-4g --run lavish --recompute auto --spill on
run 0 plan --run lavish --allow recompute,spill --devices cpu,sim:laptop-4g
next train out "next       "
check "it is turned off" grep -qF -- "haul train --config lavish/config.json --device sim:laptop-4g:0 --batch 64 --recompute off --spill off" train

# Options of haul train in other plans, and bad input.
run 0 plan --machine h200 -- --model mlp --data blobs --batch 32
check "the step of these options" grep -q '^one training step of mlp, batch 32, sgd' out
run 2 plan --machine h200 --model mlp -- --batch 32
complains "--model leaves no room for options of haul train, which begin with '--batch'"
run 2 plan --machine h200 -- --batches 32
complains 'unknown option --batches'
run 2 plan --machine h200 -- --model mlp --resume
complains '--resume needs --run DIR'
run 2 plan --machine laptop-4g --allow spill --memory-limit 50% -- --model mlp --batch auto
complains '--batch auto needs a --memory-limit in bytes'
run 2 plan --model mlp --machine laptop-4g --allow spill --memory-limit cpu=50%
complains 'a size is expected, for example cpu=8G'
finish
