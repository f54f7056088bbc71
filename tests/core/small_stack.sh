# The CPU computes with a stack of 64 KiB, by whatever implementation, and OpenCL's driver with one of 256 KiB.
# The environment lies on the stack too, and where the stack begins differs by 8 KiB from run to run: so 48 here.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

[ -z "$HAUL_SANITIZE" ] || { echo "sanitizers need more"; exit 77; }
export HAUL_NUM_THREADS=3
for data in blobs:128 shapes:32; do
    for without in "" winograd winograd,onednn,products winograd,onednn,products,panels,pixels \
        winograd,onednn,products,depthwise,panels,pixels,direct; do
        for precision in f32 bf16; do
            train=(train --data $data --epochs 1 --device cpu --precision $precision)
            (ulimit -s 48 && HAUL_WITHOUT=$without "$HAUL" "${train[@]}" >out 2>&1)
            check "$data in $precision without '$without' on a small stack" test $? -eq 0
        done
    done
done
(ulimit -s 256 && "$HAUL" devices >out 2>&1)
check "devices are listed on a small stack" test $? -eq 0
finish
