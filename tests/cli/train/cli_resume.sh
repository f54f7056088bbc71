# A training that is stopped, killed and resumed ends with results bit-identical to those of one that was not.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

examples=4000
[ -z "${HAUL_SANITIZE:-}" ] || examples=480 # sanitizers take ten times as long
task=(--model mlp --data shapes:$examples --batch 16 --log-every 7 --epochs 3 --workers 2 --device cpu)
same_run() {
    check "$1: the same weights" cmp -s whole/weights.safetensors "$1/weights.safetensors"
    check "$1: the same best weights" cmp -s whole/best.safetensors "$1/best.safetensors"
    events whole/log.jsonl >a
    events "$1/log.jsonl" >b
    check "$1: the same log" cmp a b
}

run 0 train "${task[@]}" --run whole

# Raising --epochs of a finished run is the same as asking for them at once.
run 0 train "${task[@]}" --epochs 1 --run later
run 0 train --run later --resume --epochs 3
same_run later

# A finished run says that it is, and stays as it is.
cp -r later before
run 0 train --run later --resume
check "nothing is left to do" grep -qx 'later is finished: 3 epochs are trained.' out
check "what to do next" grep -qx '  go on      haul train --run later --resume --epochs 6' out
check "and with the run" grep -qx '  look       haul report later' out
run 0 train --run later --resume --json
check "in JSON too" test "$(value out finished epochs)" = 3
run 0 train --run later --resume --epochs 2
check "the run is as before" diff -r before later

# A run that was killed while it wrote its last files writes them when it is resumed.
cp -r later ended
sed -i '/"event":"done"/d' ended/log.jsonl
mv ended/ledger.json ended/ledger.json.tmp
rm ended/memory.json
run 0 train --run ended --resume
same_run ended
check "its last files are there" test "$(ls ended)" = "$(ls whole)"
run 0 train --run ended --resume
check "now it is finished" grep -q 'ended is finished' out

# A run that was stopped before its first checkpoint starts from the beginning, with its options.
mkdir early
cp whole/config.json early/
run 0 train --run early --resume --estimate
check "an estimate leaves it as it is" test "$(ls early)" = config.json
run 1 train --run early --resume --batch 32
complains "the run was started with --batch 16 and cannot go on with --batch 32"
run 1 predict --run early
complains "early has no checkpoint yet"
run 0 train --run early --resume
check "it says so" grep -qx 'early has no checkpoint: it was stopped before the first one, and starts from the beginning' out
same_run early

# Ctrl-C.
begin stopped "${task[@]}"
kill -INT $job
wait $job
check "Ctrl-C ends with 130" test $? -eq 130
check "and says how to go on" grep -q 'haul train --run stopped --resume' out
check "weights are kept" test -s stopped/weights.safetensors
check "the log says so" grep -q '"event":"stopped"' stopped/log.jsonl
run 0 train --run stopped --resume
same_run stopped

# The terminal is closed, more than once as some do: as Ctrl-C. nohup has this signal ignored.
begin closed "${task[@]}"
kill -HUP $job
kill -HUP $job 2>/dev/null
wait $job
check "SIGHUP ends with 130" test $? -eq 130
check "the log says so" grep -q '"event":"stopped"' closed/log.jsonl
run 0 train --run closed --resume
same_run closed
(trap '' HUP; exec "$HAUL" train "${task[@]}" --epochs 1 --run nohup >out 2>err) &
job=$!
wait_for test -s nohup/log.jsonl
kill -HUP $job
wait $job
check "SIGHUP that is ignored stays so" test $? -eq 0

# The reader of standard output goes away: what was trained is saved, and the failure told.
("$HAUL" train "${task[@]}" --log-every 1 --run piped 2>err; echo $? >code) | head -5 >/dev/null
check "a broken pipe is a failure" test "$(cat code)" -eq 1
complains "standard output could not be written: Broken pipe"
run 0 train --run piped --resume --log-every 7
check "piped: the same weights" cmp -s whole/weights.safetensors piped/weights.safetensors
"$HAUL" ops 2>err | head -1 >/dev/null
check "other commands end without a word" test ! -s err

# SIGKILL at random moments, with many checkpoints, over optimizers and precisions. HAUL_TEST_KILLS is how many kills
# there are in all, at most five for a run, which must then end as one that was left alone.
configurations=("--optimizer sgd --schedule onecycle --augment crop,flip --validation 0.2"
    "--optimizer adam --lr 0.001 --schedule cosine:0.5 --validation 0.1 --patience 9" "--optimizer sgd --precision bf16"
    "--optimizer adam --lr 0.001 --precision f16")
[ -z "${HAUL_SANITIZE:-}" ] || configurations=("${configurations[0]}" "${configurations[3]}")
wanted=${HAUL_TEST_KILLS:-8}
seed=${HAUL_TEST_SEED:-$$}
RANDOM=$seed
echo "HAUL_TEST_SEED=$seed"
rounds=${#configurations[@]}
[ "$wanted" -le $((5 * rounds)) ] || rounds=$(((wanted + 4) / 5))
killed=0
for ((round = 0; round < rounds; round++)); do
    read -ra options <<<"${configurations[round % ${#configurations[@]}]}"
    reference=whole-$((round % ${#configurations[@]}))
    if [ ! -e "$reference" ]; then
        began=$(date +%s.%N)
        run 0 train "${task[@]}" --epochs 2 "${options[@]}" --run "$reference"
        took=$(awk "BEGIN { print $(date +%s.%N) - $began }")
        echo "$took" >"$reference/took"
    fi
    took=$(cat "$reference/took")
    kills=$(((wanted - killed) / (rounds - round)))
    rm -rf killed
    for ((i = 0; i < kills;)); do
        resume=
        [ ! -e killed/checkpoint ] || resume=--resume
        "$HAUL" train "${task[@]}" --epochs 2 "${options[@]}" --save-every 0.1 --run killed $resume >out 2>err &
        job=$!
        sleep "$(awk "BEGIN { print $took * 2 / ($kills + 1) * $RANDOM / 32768 }")"
        kill -KILL $job 2>/dev/null
        wait $job 2>/dev/null
        if [ $? -eq 137 ]; then
            i=$((i + 1))
            killed=$((killed + 1))
        else # it had ended before it could be killed, and is begun again
            check "not killed, it ended well" grep -q '^Done\|is finished' out
            rm -r killed
        fi
    done
    resume=
    [ ! -e killed/checkpoint ] || resume=--resume
    run 0 train "${task[@]}" --epochs 2 "${options[@]}" --run killed $resume
    check "${options[*]}: the same weights after $kills kills" cmp -s "$reference/weights.safetensors" killed/weights.safetensors
    check "the same best weights" cmp -s "$reference/best.safetensors" killed/best.safetensors
    events "$reference/log.jsonl" >a
    events killed/log.jsonl >b
    check "the same log" cmp a b
    check "no half-written file" test "$(ls killed)" = "$(ls "$reference" | grep -vx took)"
done
check "as many kills as wanted" test $killed -eq "$wanted"

# Two trainings cannot write into one folder, also when both begin it, and when its log is deleted.
for i in 1 2; do
    "$HAUL" train "${task[@]}" --epochs 1 --run both >/dev/null 2>err$i &
    jobs[i]=$!
done
codes=
for i in 1 2; do
    wait "${jobs[i]}"
    codes+="$? "
done
check "one of two trains: $codes" test "$codes" = "0 1 " -o "$codes" = "1 0 "
run 0 train --run both --resume --epochs 3
same_run both
busy() {
    run 1 train --run busy --resume
    complains "another haul train is writing into busy"
}
"$HAUL" train "${task[@]}" --epochs 1000000 --save-every 0.1 --run busy >/dev/null 2>&1 &
job=$!
wait_for test -s busy/checkpoint
busy
kill -STOP $job # it would notice, at its next save, that its log is gone
rm busy/log.jsonl
busy
kill -KILL $job
wait $job 2>/dev/null
finish
