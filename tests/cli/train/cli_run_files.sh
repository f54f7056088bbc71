# The files in the folder of a run: a training writes only regular files of its own there, keeps their permissions, and
# ends with an error if they or the folder are taken away from it.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

run 0 train "${small[@]}" --epochs 2 --run good
names=$(ls good)
cp -r good whole
run 0 train --run whole --resume --epochs 3

# again: a copy of the run, to spoil it.
again() {
    rm -rf r before
    cp -r good r
}
# refused WORDS: neither resuming nor, without its checkpoint, beginning anew goes on, and both end at once.
refused() {
    timeout 600 "$HAUL" train --run r --resume --epochs 3 >out 2>err
    check "refused" test $? -eq 1
    complains "$1"
}

# ---- what is not a file of the run's own ----

for name in $names trace.json profile.json audit.json; do
    [ $name != checkpoint ] || continue
    again
    rm -f r/$name
    mkfifo r/$name
    refused "r/$name is a FIFO (a named pipe); a training writes only files of its own into the folder of its run: move it away"
    again
    rm -f r/$name
    echo 'somebody else' >elsewhere
    ln -s ../elsewhere r/$name
    refused "r/$name is a symbolic link; "
    check "what it leads to stays" grep -qx 'somebody else' elsewhere
    rm r/$name
    ln -s nowhere r/$name
    refused "r/$name is a symbolic link; "
    check "nothing was made" test ! -e r/nowhere
    again
    rm -f r/$name
    ln elsewhere r/$name
    refused "r/$name has 2 names (hard links)"
    check "the other name's contents stay" grep -qx 'somebody else' elsewhere
    rm elsewhere
    again
    rm -f r/$name
    mkdir r/$name
    refused "r/$name is a folder; "
done
again
mv r/checkpoint elsewhere
ln -s ../elsewhere r/checkpoint
refused "r/checkpoint is a symbolic link; "
check "what it leads to stays" cmp good/checkpoint elsewhere
rm r/checkpoint
mkfifo r/checkpoint
timeout 600 "$HAUL" train --run r --resume >out 2>err
check "a pipe for a checkpoint is refused" test $? -eq 1
for name in config.json log.jsonl; do
    rm -rf r
    mkdir r
    echo 'somebody else' >elsewhere
    ln -s ../elsewhere r/$name
    run 1 train "${small[@]}" --epochs 1 --run r
    complains "r/$name is a symbolic link; "
    check "what it leads to stays" grep -qx 'somebody else' elsewhere
    check "nothing else was made" test "$(ls r)" = $name
done
# A temporary file that is another file under a second name.
again
for name in config.json checkpoint weights.safetensors best.safetensors ledger.json; do ln -f elsewhere r/$name.tmp; done
run 0 train --run r --resume --epochs 3
check "the other file stays" grep -qx 'somebody else' elsewhere
check "no temporary file is left" test "$(ls r)" = "$names"
# The folder itself may be a link.
again
mv r moved
ln -s moved r
run 0 train --run r --resume --epochs 3
check "it is a link as before" test -L r
check "the same weights" cmp whole/weights.safetensors moved/weights.safetensors
rm -r r moved

# ---- permissions ----

(umask 027; "$HAUL" train "${small[@]}" --epochs 1 --run r >out 2>err)
check "new files follow the umask" test -z "$(find r -type f ! -perm 640)"
chmod 600 r/*
(umask 022; "$HAUL" train --run r --resume --epochs 2 >out 2>err)
check "existing ones keep their permissions" test -z "$(find r -type f ! -perm 600)"

# ---- taken away while the training runs ----

task=("${small[@]}" --epochs 1000000 --save-every 1e-9)
is_gone() { ! kill -0 $job 2>/dev/null; }
# ends CODE: the training in the background ends by itself with that code.
ends() {
    wait_for is_gone
    kill -KILL $job 2>/dev/null
    wait $job
    check "it ends with $1" test $? -eq "$1"
}
rm -rf r
begin r "${task[@]}"
rm r/log.jsonl
ends 1
complains "r/log.jsonl was deleted or exchanged while the training wrote into it, and its lines are lost; to go on with a new log: haul train --run r --resume"
check "nothing is in its place" test ! -e r/log.jsonl
epochs=$("$HAUL" inspect --json r/checkpoint | "$HAUL_PYTHON" -c 'import json; print(json.loads(input())["metadata"]["haul.epoch"])')
run 0 train --run r --resume --epochs "$epochs"
check "the log begins with the process that goes on" test "$(value r/log.jsonl start resumed)" = True

rm -r r
begin r "${task[@]}"
mv r/log.jsonl aside
echo 'somebody else' >r/log.jsonl
ends 1
complains "r/log.jsonl was deleted or exchanged"
check "the other file stays" grep -qx 'somebody else' r/log.jsonl

rm -r r
begin r "${task[@]}"
mv r moved
ends 1
complains "r is not the folder any more into which the training began to write: it was moved, deleted or exchanged; move it back and go on with --resume"
check "nothing was made in its place" test ! -e r
mv moved r
epochs=$("$HAUL" inspect --json r/checkpoint | "$HAUL_PYTHON" -c 'import json; print(json.loads(input())["metadata"]["haul.epoch"])')
run 0 train --run r --resume --epochs "$epochs"
run 0 train "${small[@]}" --epochs "$epochs" --run same
check "the same weights" cmp same/weights.safetensors r/weights.safetensors

rm -r r
begin r "${task[@]}"
mv r moved
mkdir r
ends 1
complains "r is not the folder any more into which the training began to write"
check "the log stays where it was" test -s moved/log.jsonl -a ! -e r/log.jsonl

rm -r r moved
begin r "${task[@]}" --tensorboard
rm r/events.out.*
ends 1
complains "was deleted or exchanged while the training wrote into it; with --resume, --tensorboard begins another"

rm -r r
begin r "${task[@]}"
rm r/config.json
mkfifo r/config.json
ends 1
complains "r/config.json is a FIFO"
finish
