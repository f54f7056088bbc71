# No space for files: an error, and what was there stays whole.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

big=("${small[@]}" --model mlp) # its files are larger than the log
run 0 train "${big[@]}" --epochs 1 --run r
cp -r r before

# A file may have 16 blocks of 1 KiB; the signal that comes with it is no end without a word.
( ulimit -f 16; exec "$HAUL" train --run r --resume --epochs 2 >out 2>err )
check "ends with 1" test $? -eq 1
check "one line" test "$(wc -l <err)" -eq 1
check "names the file" grep -q 'r/checkpoint\|r/weights\|r/best' err
for file in checkpoint weights.safetensors; do
    check "$file is the old one" cmp -s before/$file r/$file
done
check "nothing else is left" test "$(ls r)" = "$(ls before)"

run 0 train --run r --resume --epochs 2
run 0 train "${big[@]}" --epochs 2 --run whole
check "and it can go on" cmp -s whole/weights.safetensors r/weights.safetensors

# Not even the options. ThreadSanitizer writes a file of its own before the program begins.
if [ "$HAUL_SANITIZE" != thread ]; then
    ( ulimit -f 0; exec "$HAUL" train "${small[@]}" --run none 2>&1 >/dev/null ) | cat >err
    check "ends with 1" test "${PIPESTATUS[0]}" -eq 1
    check "names the file" grep -q 'none/config.json' err
    check "nothing is left" test -z "$(ls none)"

    # Metrics in a file that is there.
    echo old >metrics
    ( ulimit -f 0; exec "$HAUL" top --once --prometheus "$PWD/metrics" 2>&1 >/dev/null ) | cat >err
    check "ends with 1" test "${PIPESTATUS[0]}" -eq 1
    check "names the file" grep -q '/metrics' err
    check "keeps the old one" grep -qx old metrics
fi

mkdir fixed
chmod a-w fixed
if [ ! -w fixed ]; then
    run 1 train "${small[@]}" --run fixed/run
    complains "fixed/run"
fi
finish
