# A small stack, of 256 KiB for the first thread and for all others, is enough.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
[ -z "${HAUL_SANITIZE:-}" ] || { echo "sanitizers need more stack"; exit 77; }
ulimit -s 256 || exit 77
run 0 --help
run 0 devices
run 0 ops --json
run 0 train --help
run 0 train "${small[@]}" --epochs 1 --run r
run 0 train --data shapes:320 --epochs 1 --device cpu --threads 2
run 0 train --model resnet18 --data shapes:16 --epochs 1 --batch 4 --device cpu --precision bf16 --optimizer adam
run 0 train --estimate
run 0 predict --run r --device cpu --trace
run 0 inspect r/checkpoint
if "$HAUL" devices --json | grep -q '"name":"opencl:0","usable":true'; then
    run 0 train "${small[@]}" --epochs 1 --device opencl:0
fi
finish
