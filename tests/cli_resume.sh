# A training that is stopped, killed and resumed ends with the same bits as one that was not.
# ctest: labels=slow,no-tsan; timeout=300
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

examples=4000
[ -z "${HAUL_SANITIZE:-}" ] || examples=480 # sanitizers take ten times as long
task=(--model mlp --data shapes:$examples --batch 16 --log-every 7 --epochs 3 --workers 2 --device cpu)
events() { grep -v '"event":"\(start\|done\|stopped\)"' "$1" | sed 's/,"images_per_second":[^}]*//'; }
same_run() {
    check "$1: the same weights" cmp -s whole/weights.safetensors "$1/weights.safetensors"
    events whole/log.jsonl >a
    events "$1/log.jsonl" >b
    check "$1: the same log" cmp a b
}

began=$(date +%s.%N)
run 0 train "${task[@]}" --run whole
took=$(awk "BEGIN { print $(date +%s.%N) - $began }")

# Raising --epochs of a finished run is the same as asking for them at once.
run 0 train "${task[@]}" --epochs 1 --run later
run 0 train --run later --resume --epochs 3
same_run later
run 0 train --run later --resume
check "nothing is left to do" grep -q '^Done' out

# Ctrl-C, as soon as the second epoch is under way.
"$HAUL" train "${task[@]}" --run stopped >out 2>err &
job=$!
for _ in $(seq 1 600); do
    grep -qs '"epoch":2' stopped/log.jsonl && break
    sleep 0.05
done
kill -INT $job
wait $job
check "Ctrl-C ends with 130" test $? -eq 130
check "and says how to go on" grep -q 'haul train --run stopped --resume' out
check "weights are kept" test -s stopped/weights.safetensors
check "the log says so" grep -q '"event":"stopped"' stopped/log.jsonl
run 0 train --run stopped --resume
same_run stopped

# SIGKILL at random moments of the time the whole training takes, with many checkpoints. A training that ended before it
# could be killed is begun again.
kills=0
wanted=${HAUL_TEST_KILLS:-4}
RANDOM=${HAUL_TEST_SEED:-$$}
echo "HAUL_TEST_SEED=${HAUL_TEST_SEED:-$$}"
while [ $kills -lt "$wanted" ]; do
    "$HAUL" train "${task[@]}" --save-every 0.1 --run killed --resume >out 2>err &
    job=$!
    sleep "$(awk "BEGIN { print $took * 1.5 / $wanted * $RANDOM / 32768 }")"
    kill -KILL $job 2>/dev/null
    wait $job 2>/dev/null
    if [ $? -eq 137 ]; then
        kills=$((kills + 1))
    else
        check "not killed, it ended well" grep -q '^Done' out
        rm -r killed
    fi
done
run 0 train "${task[@]}" --run killed --resume
same_run killed
check "no half-written file" test "$(ls killed | tr '\n' ' ')" = "checkpoint log.jsonl weights.safetensors "

# Two trainings cannot write into one folder.
"$HAUL" train "${task[@]}" --epochs 1000 --run busy >/dev/null 2>&1 &
job=$!
for _ in $(seq 1 200); do
    [ -s busy/log.jsonl ] && break
    sleep 0.05
done
run 1 train "${task[@]}" --run busy --resume
check "says why" grep -q 'another haul train' err
kill -KILL $job
wait $job 2>/dev/null
finish
