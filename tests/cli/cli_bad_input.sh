# Wrong devices, paths and files: one line that names the thing, and nothing left behind.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

run 1 train "${small[@]}" --device cuda:77 --run r
complains "cuda:77"
check "nothing was made" test ! -e r
run 1 train "${small[@]}" --device nonsense
complains "nonsense"
run 1 train "${small[@]}" --device gpu0
complains 'no device "gpu0"; did you mean "gpu:0"? Available: cpu'
run 1 train "${small[@]}" --device opencl1
complains 'did you mean "opencl:1"?'
run 1 train "${small[@]}" --device meta --run r
complains "--device meta has shapes without data"
check "nothing was made" test ! -e r
run 0 train "${small[@]}" --device meta --estimate
run 1 train --data cifar10:/nowhere --device cpu
complains "/nowhere"
run 1 train --data images:/nowhere --device cpu
complains "/nowhere"
run 1 train --data shape --device cpu
complains "did you mean 'shapes'?"
run 1 train --data mnist:/nowhere --device cpu
complains "found no train-images-idx3-ubyte or train-images-idx3-ubyte.gz in /nowhere or in its MNIST/raw"
run 1 train --data cifar10: --device cpu
complains "cifar10:DIR"
run 1 train --data images --device cpu
complains "images:DIR"
run 1 train --data shapes:many --device cpu
complains "a number of examples from 1 to 1,000,000,000 is expected"
for count in 0 1000000001 99999999999999999999 -1 +1 ' 1' 1e3 ''; do
    run 1 train --data "shapes:$count" --device cpu
    complains "from 1 to 1,000,000,000"
done
run 1 train --data fashion:x --device cpu
complains "use cifar10:DIR, cifar100:DIR, mnist:DIR, fashion-mnist:DIR, images:DIR, masks:DIR, text:FILE, shapes, blobs, scenes, sentences"
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
run 1 inspect "$HAUL_SOURCE/README.md"
complains "README.md is a text file; haul inspect shows safetensors, npy, npz, GGUF, PyTorch and ONNX files"
run 1 inspect folder
complains "folder is a folder; name a file in it"
mkfifo pipe
timeout 900 "$HAUL" inspect pipe >out 2>err
check "a pipe is refused at once" test $? -eq 1
complains "pipe is a FIFO (a named pipe), not a file"
run 1 inspect folder
complains "folder"
: >empty
run 1 inspect empty
complains "empty"
printf '\x93NUMPY\x01\x00' >short.npy
run 1 inspect short.npy
complains "short.npy"
run 1 predict --run folder --data blobs
complains "it has no checkpoint"
mkdir damaged
printf 'damaged' >damaged/checkpoint
run 1 predict --run damaged --data blobs
complains "damaged/checkpoint"
run 1 train --run damaged --resume
complains "damaged/checkpoint"
run 1 train --run damaged
complains "holds a run already"

# A folder that is not there, or holds no run, is not begun by --resume; the cause is told first.
run 1 train "${small[@]}" --run mistyped --resume
complains "found no run in the folder mistyped: No such file or directory"
check "nothing was made" test ! -e mistyped
run 1 train "${small[@]}" --run folder --resume
complains "folder holds no run: it has no checkpoint and no config.json; it is empty. Name the folder of a run, or start one there: haul train --run folder"
check "nothing was made" test -z "$(ls folder)"
mkdir 'my notes'
touch 'my notes/'{a,b}.txt
run 1 train --run 'my notes' --resume
complains "; it holds "
complains "haul train --run 'my notes'"
touch 'my notes/'{c,d}.txt
run 1 train --run 'my notes' --resume
complains "and 1 other."
check "nothing was made" test "$(ls 'my notes' | wc -l)" -eq 4
run 1 train --run file --resume
complains "file is not the folder of a run, but a file"
ln -s loop loop
run 1 train "${small[@]}" --run loop --resume
complains "loop: Too many levels of symbolic links"
run 1 predict --run mistyped
complains "found no run in the folder mistyped: No such file or directory"
mkdir loops
ln -s checkpoint loops/checkpoint
run 1 train --run loops --resume
complains "loops/checkpoint cannot be read: Too many levels of symbolic links"
run 1 train "${small[@]}" --run loops
complains "loops/checkpoint cannot be read: Too many levels of symbolic links"

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
# Metadata that is not what haul train writes.
spoil() { # spoil KEY VALUE: the checkpoint of the run spoiled is that of good, but for this
    rm -rf spoiled
    cp -r good spoiled
    edit spoiled "$@"
}
for value in "[1,2]" "{}" "" "null" '"text"'; do
    for key in train.options train.progress train.classes haul.epoch; do
        spoil $key "$value"
        run 1 train --run spoiled --resume --epochs 2
        complains "spoiled"
        case $key in train.options | train.classes) run 1 predict --run spoiled --device cpu; complains "spoiled" ;; esac
    done
done
for value in '"x"' '"1"' 1.5 -1 '""' null true '[1]' 99999999999999999999 9007199254740993; do
    spoil train.options "$("$HAUL_PYTHON" -c 'import json, sys
o = json.loads(sys.argv[1])
o["seed"] = json.loads(sys.argv[2])
print(json.dumps(o))' "$("$HAUL" inspect --json good/checkpoint | "$HAUL_PYTHON" -c 'import json; print(json.loads(input())["metadata"]["train.options"])')" "$value")"
    run 1 train --run spoiled --resume --epochs 2
    complains 'spoiled/checkpoint: "seed" is'
    complains "a whole number from 0 to 9007199254740991 is expected"
done
# What decides on the result cannot change when a run goes on. An equal value is accepted, however it is written.
for option in "--batch 32" "--lr 0.005" "--momentum 0.5" "--weight-decay 0.1" "--optimizer adam" "--seed 7" "--shuffle off" "--model mlp" \
    "--precision tf32"; do
    run 1 train --run good --resume --epochs 2 $option
    complains "cannot go on with $option"
done
run 1 train --run good --resume --epochs 2 --init third/weights.safetensors
complains "the run was started without --init"
run 0 train --run good --resume --epochs 2 --lr 1e-2 --batch 16 --model dense --optimizer sgd --momentum .9 --seed 0 --shuffle on --workers 0 --threads 1 --save-every 1 --log-every 3 --device cpu
run 1 train --run good --resume --data shapes
complains "--data blobs"
finish
