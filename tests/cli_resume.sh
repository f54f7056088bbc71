# A training that is stopped, killed and resumed ends with the same bits as one that was not.
# ctest: labels=slow; timeout=300
. "$HAUL_SOURCE/tests/support/cli.sh"

task=(--model mlp --data shapes:1600 --batch 16 --log-every 7 --epochs 3 --workers 2 --device cpu)
events() { grep -v '"event":"\(start\|done\|stopped\)"' "$1" | sed 's/,"images_per_second":[^}]*//'; }
same_run() {
    check "$1: the same weights" cmp -s whole/weights.safetensors "$1/weights.safetensors"
    events whole/log.jsonl >a
    events "$1/log.jsonl" >b
    check "$1: the same log" cmp a b
}

run 0 train "${task[@]}" --run whole

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

# SIGKILL at random moments, with a checkpoint a second.
kills=0
RANDOM=${HAUL_TEST_SEED:-$$}
echo "HAUL_TEST_SEED=${HAUL_TEST_SEED:-$$}"
for round in $(seq 1 60); do
    "$HAUL" train "${task[@]}" --save-every 1 --run killed --resume >out 2>err &
    job=$!
    sleep "$((RANDOM % 3)).$((RANDOM % 10))"
    if [ $kills -ge "${HAUL_TEST_KILLS:-3}" ]; then
        wait $job
        check "the last resumption ends" test $? -eq 0
        break
    fi
    kill -KILL $job 2>/dev/null && kills=$((kills + 1))
    wait $job 2>/dev/null
done
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
