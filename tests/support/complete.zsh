# complete.zsh SCRIPT LINE...: prints each line as zsh's line editor completes it, in a terminal of its own.
zmodload zsh/zpty
script=$1
shift
zpty editor zsh -f -i
cat > editor.zsh <<'SETUP'
autoload -U compinit
compinit -u -D
source $SCRIPT
probe() {
    BUFFER=$(<line)
    CURSOR=$#BUFFER
    zle complete-word
    print -r -- "$BUFFER|" >> completed
    BUFFER=
}
zle -N probe
bindkey '^G' probe
: > ready
SETUP
wait_for() {
    for _ in {1..18000}; do
        eval "$1" && return
        zpty -r -t editor unused 2>/dev/null
        sleep 0.05
    done
}
rm -f ready completed
zpty -w editor "SCRIPT=$script; source ./editor.zsh"
wait_for '[[ -e ready ]]'
: > completed
count=0
for line; do
    print -rn -- "$line" > line
    zpty -w -n editor $'\a'
    (( count++ ))
    wait_for '(( $(wc -l < completed) >= count ))'
done
zpty -d editor
cat completed
