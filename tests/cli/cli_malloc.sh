# Memory that runs out, at any request: the command ends with an error and a message, or does all that it should.
# HAUL_TEST_REQUESTS is the number of requests that fail for each command, spread over all; "all" takes each.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
[ -z "${HAUL_SANITIZE:-}" ] || { echo "sanitizers have an allocator of their own"; exit 77; }
# Libraries that end the program where memory is exhausted are left out.
export OCL_ICD_VENDORS=none HAUL_CUDA_LIBRARIES=/nowhere HAUL_LAPACK=/nowhere HAUL_WITHOUT=onednn HAUL_NUM_THREADS=2

"$HAUL_CC" -O1 -shared -fPIC -o fail_malloc.so "$HAUL_SOURCE/tests/support/preload/fail_malloc.c" || exit 1

# fault NAME VARIABLE=VALUE...: haul with the arguments and these variables.
fault() { timeout 900 env LD_PRELOAD="$PWD/fail_malloc.so" "${@:2}" "$HAUL" "${arguments[@]}" >"$1.out" 2>"$1.err"; }

# survives NAME SAME ARGUMENT...: SAME is a command that must find the result of a success right.
survives() {
    local name=$1 same=$2 code total step bad=0 failed=0 before=$failures
    arguments=("${@:3}")
    rm -rf r
    fault good FAIL_MALLOC_COUNT="$PWD/count" || check "$name works" false
    rm -rf good.r
    [ ! -e r ] || mv r good.r
    total=$(cat count)
    step=1
    [ "${HAUL_TEST_REQUESTS:-30}" = all ] || step=$((total / ${HAUL_TEST_REQUESTS:-30} + 1))
    for all in "" FAIL_MALLOC_ALL=1; do
        for ((n = 1; n <= total; n += step)); do
            rm -rf r
            fault one FAIL_MALLOC_AT=$n $all
            code=$?
            case $code in
            0) $same || { echo "request $n $all: success, but another result" >&2; bad=$((bad + 1)); } ;;
            1 | 4) # 4: while training
                failed=$((failed + 1))
                grep -qi memory one.err || { echo "request $n $all: another cause: $(cat one.err)" >&2; bad=$((bad + 1)); }
                ;;
            # glibc ends a program that has no memory for the thread-local variables of a library, here OpenCL's loader.
            127) grep -q '^cannot allocate memory for thread-local data: ABORT$' one.err || bad=$((bad + 1)) ;;
            *) echo "request $n $all: ended with $code: $(head -c 300 one.err)" >&2; bad=$((bad + 1)) ;;
            esac
            [ -z "$(ls r/*.tmp 2>/dev/null)" ] || { echo "request $n $all: a half-written file" >&2; bad=$((bad + 1)); }
        done
    done
    check "$name: $total requests, of which every ${step}th failed: $failed failures, $bad bad ends" test $bad -eq 0
    check "$name fails at times" test $failed -gt 0 -o "$name" = "haul --help"
}
same_output() { cmp -s good.out one.out; }
same_devices() { # but for the processor's name, and the cause for OpenCL not to be used
    cmp -s <(grep -v '^opencl\|^cpu' good.out) <(grep -v '^opencl\|^cpu' one.out)
}
same_weights() { cmp -s good.r/weights.safetensors r/weights.safetensors && [ -s r/checkpoint ]; }
same_best() { same_weights && cmp -s good.r/best.safetensors r/best.safetensors; }
same_test() { [ "$(grep -o '"test_loss":[^,]*' good.out)" = "$(grep -o '"test_loss":[^,]*' one.out)" ]; }
anything() { true; }

"$HAUL" train "${small[@]}" --epochs 1 --run trained >/dev/null || exit 1
survives "haul --help" same_output --help
survives "haul ops" same_output ops
survives "haul ops --json" same_output ops --json matmul
survives "haul stats --json" same_output stats --json
survives "haul bench transfer" anything bench transfer --device cpu --seconds 0.1 --json
survives "haul devices" same_devices devices
survives "haul devices --json" anything devices --json
same_plan() { same_output && cmp -s plan.good plan.json; }
"$HAUL" plan --model dense --batch 8 --machine h200 --certificate plan.good >/dev/null || exit 1
survives "haul plan" same_plan plan --model dense --batch 8 --machine h200 --certificate plan.json
survives "haul plan --json" same_output plan --model dense --batch 8 --machine h200 --json
survives "haul plan --verify" same_output plan --verify plan.good
survives "haul inspect" same_output inspect trained/checkpoint
survives "haul inspect --json" same_output inspect --json trained/checkpoint
survives "haul train" same_weights train --model dense --data blobs:32 --batch 16 --epochs 1 --log-every 1 --workers 1 --device cpu --run r
survives "haul train, fine-tuning" same_weights train --model dense --data blobs:32 --init trained/weights.safetensors --head 1 --freeze --batch 16 --epochs 1 --workers 1 --device cpu --run r
pictures() { # one white picture in each of four folders
    "$HAUL_PYTHON" - <<'END'
import png_file
for folder in "train/a", "train/b", "test/a", "test/b":
    png_file.write(f"set/{folder}/1.png", 8, 8, b"\xff" * 192)
END
}
if "$HAUL" --version | grep -q png; then
    pictures
    survives "haul train, pictures" same_weights train --model dense --data images:set --batch 2 --epochs 1 --workers 1 --device cpu --run r
fi
masks() { # a picture and its mask in each split, which are the black and white halves of it
    "$HAUL_PYTHON" - <<'END'
import png_file
for part in "train", "test":
    for folder in "images", "masks":
        png_file.write(f"marked/{part}/{folder}/1.png", 8, 8, (b"\0" * 4 + b"\xff" * 4) * 8)
END
}
if "$HAUL" --version | grep -q png; then
    masks
    survives "haul train, masks" same_weights train --data masks:marked --batch 1 --epochs 1 --workers 0 --device cpu --run r
    "$HAUL" train --data masks:marked --batch 1 --epochs 1 --workers 0 --device cpu --run marks >/dev/null
    mkdir written
    survives "haul predict --masks" same_output predict --run marks --device cpu --masks written marked/test/images/1.png
fi
printf 'for want of a nail the shoe was lost. %.0s' 1 2 3 4 5 6 7 8 >text.txt
survives "haul train, a text" same_weights train --data text:text.txt --context 8 --batch 16 --epochs 1 --workers 0 --device cpu --run r
"$HAUL" train --data text:text.txt --context 8 --batch 16 --epochs 1 --workers 0 --device cpu --run book >/dev/null
survives "haul predict --prompt" same_output predict --run book --device cpu --prompt "the " --length 3
survives "haul train, validation" same_best train --model dense --data shapes:32 --batch 16 --epochs 1 --workers 1 --device cpu \
    --validation 0.25 --augment crop,flip --schedule cosine:0.5 --patience 2 --run r
survives "haul train, validation without a folder" same_test train --model dense --data blobs:32 --batch 16 --epochs 2 --device cpu \
    --validation 0.25 --schedule onecycle --json
survives "haul train, f16" same_weights train --model dense --data blobs:32 --batch 16 --epochs 1 --log-every 1 --workers 0 --device cpu \
    --precision f16 --optimizer adam --run r
# A run that goes on; each time from a copy, which is made where the run before is removed.
rm() {
    command rm "$@"
    [ "$*" != "-rf r" ] || cp -r trained r
}
survives "haul train --resume" same_weights train --run r --resume --epochs 2
unset -f rm
survives "haul train --estimate" same_output train --model dense --data blobs:32 --batch 16 --device cpu --estimate
survives "haul train --estimate --json" same_output train --model dense --data blobs:32 --batch 16 --device cpu --estimate --json
survives "haul predict" same_output predict --run trained --device cpu --count 2
"$HAUL" report trained --output good.html >/dev/null
same_page() { cmp -s good.html r.html; }
survives "haul report" same_page report trained --output r.html
survives "haul predict --trace" anything predict --run trained --device cpu --trace --json
finish
