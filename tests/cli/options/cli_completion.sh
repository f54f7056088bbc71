# Completion scripts for shells. Those of zsh and fish are tried where the shell is installed.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
mkdir bin pictures 'pictures/a b' runs
ln -s "$HAUL" bin/haul
touch options.json pictures/file
export PATH=$PWD/bin:$PATH
for shell in bash zsh fish; do
    run 0 completion $shell
    cp out completion.$shell
    check "$shell: nothing on standard error" test ! -s err
    for name in devices train predict bench calibrate what-if ops inspect stats completion epochs optimizer adamw resnet18; do
        check "$shell: $name is there" grep -qw -- "$name" completion.$shell
    done
done
run 2 completion
complains "SHELL is missing"
run 2 completion bsh
complains "SHELL is bash, zsh or fish, not 'bsh'; did you mean bash?"
run 2 completion bash zsh
complains "unexpected argument"

# ---- bash: as its line editor calls it, with words split at : and = as well ----
check "bash: syntax" bash -n completion.bash
source completion.bash
# offers LINE: what is offered at the end of the line, sorted, on one line.
offers() {
    local line=$1 word
    COMP_WORDS=()
    while read -r word; do [ -n "$word" ] && COMP_WORDS+=("$word"); done < <(sed 's/[:=]/\n&\n/g; s/ /\n/g' <<<"$line")
    [[ $line == *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _haul haul
    printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | tr '\n' ' '
}
bash_offers() { check "bash: '$1' offers $2" test "$(offers "$1")" = "$2"; }
bash_offers "haul tr" "train "
bash_offers "haul " "--help --version audit bench calibrate compare completion devices export group help inspect manual ops plan predict profile record report run stats top train what-if "
bash_offers "haul help pre" "predict "
bash_offers "haul train --optimizer " "adadelta adagrad adam adamw lion nadam radam sgd "
bash_offers "haul train --optimizer ad" "adadelta adagrad adam adamw "
bash_offers "haul train --optimizer=s" "sgd "
bash_offers "haul train --epochs 3 --model r" "resnet18 resnet18_imagenet resnet50 "
bash_offers "haul train --ep" "--epochs "
bash_offers "haul train --shuffle o" "off on "
bash_offers "haul train --data sh" "shapes "
bash_offers "haul train --data " "blobs cifar100: cifar10: fashion-mnist: images: masks: mnist: scenes sentences shapes text: "
bash_offers "haul train --data text:opt" "options.json "
bash_offers "haul train --data masks:opt" " "
bash_offers "haul train --data images:pic" "pictures "
bash_offers "haul train --data images:pictures/" "pictures/a b "
bash_offers "haul train --data=images:pic" "pictures "
bash_offers "haul train --run r" "runs "
bash_offers "haul train --config opt" "options.json "
bash_offers "haul inspect opt" "options.json "
bash_offers "haul predict --split t" "test train "
bash_offers "haul completion " "bash fish zsh "
bash_offers "haul bench " "compute group transfer "
bash_offers "haul bench transfer --se" "--seconds "
check "bash: devices are offered" grep -qw cpu <<<"$(offers "haul train --device ")"
check "bash: auto is offered" grep -qw auto <<<"$(offers "haul train --device au")"
check "bash: operations are offered" grep -qw softmax <<<"$(offers "haul ops softm")"
check "bash: numbers have no offers" test "$(offers "haul train --epochs ")" = " "

# Every option of every command is offered.
for command in devices train predict bench report ops inspect stats; do
    for option in $("$HAUL" $command --help | grep -o '^ *\(-., \)\?--[a-z-]*' | sed 's/.*--/--/'); do
        check "bash: $command $option" test "$(offers "haul $command $option" | tr ' ' '\n' | grep -cx -- "$option")" = 1
    done
done

# ---- fish ----
fish_offers() {
    check "fish: '$1' offers $2" test "$(fish --no-config -c "source completion.fish; complete -C '$1'" | cut -f 1 | LC_ALL=C sort | tr '\n' ' ')" = "$2"
}
if command -v fish >/dev/null; then
    export HOME=$PWD
    fish_offers "haul tr" "train "
    fish_offers "haul train --optimizer ad" "adadelta adagrad adam adamw "
    fish_offers "haul train --optimizer=ad" "--optimizer=adadelta --optimizer=adagrad --optimizer=adam --optimizer=adamw "
    fish_offers "haul train --ep" "--epochs "
    fish_offers "haul train --data im" "images: "
    fish_offers "haul train --data images:pict" "images:pictures/ "
    fish_offers "haul train --data text:opt" "text:options.json "
    fish_offers "haul train --device au" "auto "
    fish_offers "haul completion z" "zsh "
    fish_offers "haul train --config opt" "options.json "
else
    echo "fish is not installed: its script is not tried"
fi

# ---- zsh: its line editor, in a terminal of its own ----
if command -v zsh >/dev/null; then
    check "zsh: syntax" zsh -n completion.zsh
    lines=() wanted=()
    zsh_completes() {
        lines+=("$1")
        wanted+=("$2|")
    }
    zsh_completes "haul tr" "haul train "
    zsh_completes "haul train --optimizer s" "haul train --optimizer sgd "
    zsh_completes "haul train --optimizer=adamw" "haul train --optimizer=adamw "
    zsh_completes "haul train --ep" "haul train --epochs="
    zsh_completes "haul train --schedule st" "haul train --schedule step: "
    zsh_completes "haul train --data im" "haul train --data images:"
    zsh_completes "haul train --data images:pict" "haul train --data images:pictures/"
    zsh_completes "haul train --data text:opt" "haul train --data text:options.json "
    zsh_completes "haul train --device au" "haul train --device auto "
    zsh_completes "haul train --config opt" "haul train --config options.json "
    zsh_completes "haul top --prometheus opt" "haul top --prometheus options.json "
    zsh_completes "haul train --est" "haul train --estimate "
    zsh_completes "haul predict --split te" "haul predict --split test "
    zsh_completes "haul ops leaky_re" "haul ops leaky_relu "
    zsh_completes "haul completion z" "haul completion zsh "
    zsh -f "$HAUL_SOURCE/tests/support/complete.zsh" completion.zsh "${lines[@]}" >completed.txt
    mapfile -t completed <completed.txt
    for i in "${!lines[@]}"; do
        check "zsh: '${lines[i]}' becomes '${wanted[i]}'" test "${completed[i]:-nothing}" = "${wanted[i]}"
    done
else
    echo "zsh is not installed: its script is not tried"
fi
finish
