# A file system that is full, for real: one line says so, what was saved stays whole, and with space the training goes on.
if [ -z "${HAUL_TEST_INSIDE:-}" ]; then
    unshare -rm mount -t tmpfs -o size=64k tmpfs . 2>/dev/null || { echo "no file system can be mounted here"; exit 77; }
    HAUL_TEST_INSIDE=1 exec unshare -rm bash "$0"
fi
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
mkdir disk
mount -t tmpfs -o size=4m tmpfs disk || exit 1
fill() { head -c 16m /dev/zero >disk/filler 2>/dev/null; } # all that is left
spare() { fill; truncate -s -"$1" disk/filler; }          # all but that
full() {                                                  # full CAUSE ARGUMENT...
    local cause=$1
    shift
    run 1 train "$@"
    complains "$cause"
    check "the cause once" test "$(grep -o 'No space left on device' err | wc -l)" -eq 1
    check "no half-written file" test -z "$(ls disk/*/*.tmp 2>/dev/null)"
}
mlp=("${small[@]}" --model mlp --optimizer adam)
size=$("$HAUL" train "${mlp[@]}" --epochs 1 --run measured >/dev/null && stat -c %s measured/checkpoint)

run 0 train "${mlp[@]}" --epochs 1 --run disk/r
cp -r disk/r before
for bytes in 0 4096 $((size / 8192 * 4096)) $((size / 4096 * 4096)); do
    spare "$bytes"
    full "disk/r/" --run disk/r --resume --epochs 2
    check "$bytes bytes: the checkpoint is the old one" cmp -s before/checkpoint disk/r/checkpoint
done
rm disk/filler
run 0 train --run disk/r --resume --epochs 2
run 0 train "${mlp[@]}" --epochs 2 --run whole
check "with space it goes on" cmp -s whole/weights.safetensors disk/r/weights.safetensors

# No space for the options of a new run, and for its log.
fill
full "disk/n/config.json" "${mlp[@]}" --run disk/n
check "nothing is left" test -z "$(ls disk/n)"
check "space makes it possible" rm disk/filler
run 0 train "${mlp[@]}" --epochs 1 --run disk/n
spare 4096
full "disk/l" "${small[@]}" --epochs 1000 --log-every 1 --save-every 0 --run disk/l
check "the log has whole lines" is_json_lines disk/l/log.jsonl
rm disk/filler

# The file of standard output is on the same disk.
spare 4096
"$HAUL" train "${small[@]}" --epochs 1000 --log-every 1 --json >disk/out 2>err
check "ends with 1" test $? -eq 1
complains "standard output could not be written: No space left on device"
rm disk/filler
run 1 train "${small[@]}" --run /dev/full
complains "/dev/full"
umount disk
finish
