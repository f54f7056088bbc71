# Wrong devices, paths and files: one line that names the thing, and nothing left behind.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

run 1 train "${small[@]}" --device cuda:77 --run r
complains "cuda:77"
check "nothing was made" test ! -e r
run 1 train "${small[@]}" --device nonsense
complains "nonsense"
run 1 train --data cifar10:/nowhere --device cpu
complains "/nowhere"
run 1 train --data images:/nowhere --device cpu
complains "/nowhere"
run 1 train --data shape --device cpu
complains "did you mean 'shapes'?"
run 1 train --data cifar10 --device cpu
complains "cifar10:DIR"
run 1 train --data shapes:many --device cpu
complains "no number of examples"
mkdir folder
run 1 train --data folder --device cpu
complains "say what is in there"
run 1 train --data images:folder --device cpu
check "one line" test "$(wc -l <err)" -eq 1
run 1 train --model simplecnn --data blobs --device cpu
complains "needs pictures"
printf 'not a safetensors file' >bad
run 1 train "${small[@]}" --init bad
complains "bad"
run 1 train "${small[@]}" --init missing
complains "missing"
touch file
run 1 train "${small[@]}" --run file/below
complains "file/below"
run 1 train "${small[@]}" --run file
check "one line" test "$(wc -l <err)" -eq 1

run 1 inspect missing
complains "missing"
run 1 inspect bad
complains "bad"
run 1 inspect folder
complains "folder: is a folder"
mkfifo pipe
timeout 20 "$HAUL" inspect pipe >out 2>err
check "a pipe is refused at once" test $? -eq 1
complains "pipe: is not a regular file"
run 1 inspect folder
complains "folder"
: >empty
run 1 inspect empty
complains "empty"
printf '\x93NUMPY\x01\x00' >short.npy
run 1 inspect short.npy
complains "short.npy"
run 1 predict --run folder --data blobs
complains "has no checkpoint"
mkdir damaged
printf 'damaged' >damaged/checkpoint
run 1 predict --run damaged --data blobs
complains "damaged/checkpoint"
run 1 train --run damaged --resume
complains "damaged/checkpoint"
run 1 train --run damaged
complains "holds a run already"

# A checkpoint cut short, and one of another network.
run 0 train "${small[@]}" --epochs 1 --run good
mkdir cut other
head -c 1500 good/checkpoint >cut/checkpoint
run 1 train --run cut --resume
complains "cut/checkpoint"
cp good/checkpoint other/checkpoint
run 0 train "${small[@]}" --model mlp --epochs 1 --run third
cp third/weights.safetensors other/
run 1 predict --run other --data blobs
complains "other/weights.safetensors"
run 1 train --run good
complains "holds a run already"
run 1 train --run good --resume --batch 32
complains "--batch"
run 1 train --run good --resume --data shapes
complains "--data blobs"
finish
