# Options in files: config.json of a run, and --config.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

# python EXPRESSION FILE: about the JSON object c in the file.
json_is() { "$HAUL_PYTHON" -c 'import json, sys
c = json.load(open(sys.argv[2]))
sys.exit(not eval(sys.argv[1]))' "$@"; }

# What decides on the training is kept, in JSON's own types, with all bits of numbers; what a call prints is not.
options=(--optimizer adam --lr 0.1000000000000000055511151231257827 --weight-decay 1.2345678901234567e-7 --seed 9007199254740991 --shuffle off)
run 0 train "${small[@]}" "${options[@]}" --epochs 2 --json --run a
for name in run resume json quiet config estimate sync-report init; do
    check "$name is not kept" json_is "'$name' not in c" a/config.json
done
for name in data model epochs batch lr momentum optimizer precision shuffle workers threads device save-every log-every; do
    check "$name is kept" json_is "'$name' in c" a/config.json
done
check "numbers are numbers" json_is "c['lr'] == 0.1 and c['weight-decay'] == 1.2345678901234567e-7 and c['seed'] == 9007199254740991" a/config.json
check "whole numbers are whole" json_is "type(c['seed']) is int and type(c['epochs']) is int and c['epochs'] == 2" a/config.json
check "booleans are booleans" json_is "c['shuffle'] is False" a/config.json
check "texts are texts" json_is "c['data'] == 'blobs:256' and c['model'] == 'dense'" a/config.json
check "the object is flat" json_is "all(not isinstance(v, (dict, list)) for v in c.values())" a/config.json
check "no half-written file" test "$(ls a | tr '\n' ' ')" = "best.safetensors checkpoint config.json ledger.json log.jsonl memory.json weights.safetensors "

# The same options give bit-identical results, and the same file.
run 0 train --config a/config.json --run b
check "the same weights" cmp -s a/weights.safetensors b/weights.safetensors
check "the same options" cmp -s a/config.json b/config.json

# Options on the command line win; --config may come before or after them.
run 0 train --epochs 1 --config a/config.json --run c --seed 7
check "the command line wins" json_is "c['epochs'] == 1 and c['seed'] == 7 and c['lr'] == 0.1" c/config.json
run 0 train --run c --resume --epochs 3
check "a resumed run keeps the new value" json_is "c['epochs'] == 3" c/config.json
run 0 train --run c --resume
cp -r c before
run 1 train --run c --resume --epochs 4 --lr 0.2
check "a refused change leaves the run as it is" diff -r before c
run 0 train --config a/config.json --estimate --json
check "an estimate takes a file as well" is_json_lines out

# --init is part of a training.
run 0 train "${small[@]}" --epochs 1 --init a/weights.safetensors --run d
check "--init is kept" json_is "c['init'] == 'a/weights.safetensors'" d/config.json
run 0 train --config d/config.json --run e
check "the same weights" cmp -s d/weights.safetensors e/weights.safetensors
run 0 train --run d --resume --epochs 2 --init a/weights.safetensors
run 1 train --run d --resume --epochs 3 --init b/weights.safetensors
complains "the run was started with --init a/weights.safetensors and cannot go on with --init b/weights.safetensors"

# refuses JSON TEXT: the file is refused with its name and the text, and nothing is made.
refuses() {
    printf '%s' "$1" >wrong.json
    run 1 train "${small[@]}" --config wrong.json --run refused
    complains wrong.json
    complains "$2"
    check "nothing was made" test ! -e refused
}
refuses '{"epoch": 3}' 'unknown option "epoch"; did you mean "epochs"?'
refuses '{"frobnicate": 3}' 'unknown option "frobnicate"; use data, model'
refuses '{"run": "x"}' '"run" cannot be set in a file; give --run on the command line'
refuses '{"json": true}' '"json" cannot be set in a file'
refuses '{"lr": "0.1"}' '"lr" is "0.1"; a number from 1e-12 to 1000000 is expected'
refuses '{"lr": 1e999}' '"lr" is null; a number'
refuses '{"lr": 0.1, "lr": 0.2}' '"lr" is there twice'
refuses '{"seed": 1.5}' '"seed" is 1.5; a whole number from 0 to 9007199254740991 is expected'
refuses '{"seed": 9007199254740993}' 'a whole number from 0 to 9007199254740991 is expected'
refuses '{"seed": null}' '"seed" is null; a whole number'
refuses '{"weight-decay": -1}' '"weight-decay" is -1; a number from 0'
refuses '{"shuffle": "on"}' '"shuffle" is "on"; true or false is expected'
refuses '{"shuffle": 1}' '"shuffle" is 1; true or false is expected'
refuses '{"optimizer": "adan"}' '"optimizer" is "adan"; sgd, adam, adamw, adagrad, adadelta, nadam, radam or lion is expected; did you mean "adam"?'
refuses '{"optimizer": 1}' '"optimizer" is 1; sgd, adam, adamw, adagrad, adadelta, nadam, radam or lion is expected'
# Also where the command line has another value.
refuses '{"data": ""}' '"data" is ""; a text that is not empty is expected'
refuses '{"epochs": {"a": 1}}' '"epochs" is {"a":1}; a whole number'
refuses '[1]' 'a JSON object in UTF-8'
refuses '' 'is not JSON'
refuses $'{"epochs": 1,\n "seed: 2}' 'is not JSON: line 2 cannot be read'
refuses '{"epochs": 1} x' 'is not JSON: line 1'
refuses $'{"data": "\xff"}' 'in UTF-8'
head -c 2000000 /dev/zero | tr '\0' ' ' >large.json
run 1 train --config large.json
complains "large.json"
printf '{"epochs": 1}\0' >nul.json
run 1 train "${small[@]}" --config nul.json
complains "nul.json"
run 1 train --config missing.json
complains "missing.json: No such file or directory"
mkfifo pipe
run 1 train --config pipe
complains "pipe is a device or pipe"
mkdir folder
run 1 train --config folder
complains "folder is a folder"
run 2 train --config a/config.json --momentum 0.5
complains "--momentum is for --optimizer sgd; adam has moments of its own"
finish
