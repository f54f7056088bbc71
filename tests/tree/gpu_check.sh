# tools/gpu-check on the stand-in for the CUDA driver: the form of its JSON, that a step that fails or hangs does not
# stop the next, and that figures of a stand-in are called so and kept out of bench/results.
# ctest: labels=slow,once
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

for needed in bench/gpu/copies tests/standin/libcuda.so.1 tests/CTestTestfile.cmake tests/test_ops_matmul; do
    [ -e "$HAUL_BUILD/$needed" ] || { echo "skipped: $needed is not part of this build"; exit 77; }
done
[ -z "$HAUL_SANITIZE" ] || { echo "skipped: there are no benchmarks in builds with sanitizers"; exit 77; }

# A build folder of its own to write to, with what was built.
mkdir folder
for built in haul bench tests test-cache CTestTestfile.cmake; do
    ln -s "$HAUL_BUILD/$built" folder/
done

# compute-sanitizer needs a GPU. This one finds a fault, or nothing, or never ends, as its tool says.
mkdir bin
cat >bin/compute-sanitizer <<'END'
#!/bin/bash
echo "program ${*: -1}, case ${HAUL_CASE:-none}, devices $HAUL_TEST_DEVICES"
[ -n "${HANGS:-}" ] && sleep infinity
[ "$2" = racecheck ] && exit 0
for i in {1..100}; do echo "line $i"; done
echo "========= Invalid __global__ write of size 4 bytes"
exit 99
END
chmod +x bin/compute-sanitizer
export PATH=$PWD/bin:$PATH HAUL_CUDA_LIBRARIES=$HAUL_BUILD/tests/standin
unset HAUL_TEST_DEVICES BENCH_DEVICE

# gpu_check CODE ARGUMENT...: must end with that code.
gpu_check() {
    local want=$1
    shift
    "$HAUL_PYTHON" "$HAUL_SOURCE/tools/gpu-check" --build folder "$@" >out 2>err
    check "gpu-check $* ends with $want" test $? -eq "$want" || cat out err >&2
}

# holds EXPRESSION: of `found`, the JSON, and `steps` by name.
holds() {
    check "$1" "$HAUL_PYTHON" -c '
import json, sys
found = json.load(open(sys.argv[1]))
steps = {s["name"]: s for s in found["steps"]}
sys.exit(not eval(sys.argv[2]))' "$json" "$1"
}

results() { ls -A "$HAUL_SOURCE/bench/results"; }
before=$(results)

json=folder/gpu-check.json
gpu_check 1 --only tests,bench,memcheck,racecheck --tests '^core_shape$' --cases 'pageable up 1 ' --cases 'add 1x1'
holds '[s["name"] for s in found["steps"]] == ["tests", "bench", "memcheck", "racecheck"]'
holds '[s["state"] for s in found["steps"]] == ["passed", "passed", "failed", "passed"]'
holds 'all(s["seconds"] >= 0 and isinstance(s["reason"], str) for s in found["steps"])'
holds 'steps["tests"]["passed"] == 1 and steps["tests"]["failed"] == [] and steps["tests"]["skipped"] == []'
holds '"Invalid __global__ write" in steps["memcheck"]["tail"] and "line 1\n" not in steps["memcheck"]["tail"]'
holds 'len(steps["memcheck"]["runs"]) > 5 and all(r["code"] == 99 for r in steps["memcheck"]["runs"])'
holds 'all(r["case"].endswith("/cuda:0") for s in ("memcheck", "racecheck") for r in steps[s]["runs"] if "conformance" in r["program"])'
check "the filter arrives" grep -q 'test_conformance_structured, case /f32/sliced/cuda:0, devices cuda:0' folder/gpu-check/memcheck.log
holds 'found["device"]["name"] == "cuda:0" and found["device"]["usable"] and found["device"]["stand_in"]'
holds 'found["machine"]["cores"] >= 1 and found["machine"]["cpu"] and found["versions"]["haul"].startswith("haul ")'
holds '{c["name"] for c in steps["bench"]["cases"]} >= {"pageable up 1 MiB", "add 1x1"}'
holds 'all(isinstance(c["rounds"][c["name"]], list) for c in steps["bench"]["cases"])'
holds 'found["seconds"] >= sum(s["seconds"] for s in found["steps"]) - 1'
holds '{t["met"] for t in found["targets"] if t["case"] == "add 1x1"} <= {True, False}'
holds 'all(t["met"] is None and t["why"] == "not measured" for t in found["targets"] if t["case"] == "relu 256 MiB")'
check "the table calls them so" grep -q "These are figures of a stand-in" out
check "the table comes last" grep -q "all of it: folder/gpu-check.json" <(tail -n 1 out)
check "bench/results is as it was" test "$(results)" = "$before"

# A step that hangs is ended with its children, and the time is kept.
HANGS=1 gpu_check 1 --only memcheck,racecheck --seconds 30
holds '[s["state"] for s in found["steps"]] == ["timeout", "skipped"]'
holds 'steps["racecheck"]["reason"] == "no time was left"'

# Without a GPU: said once for each step, and the code tells.
HAUL_CUDA_LIBRARIES=$PWD/nowhere gpu_check 1 --only tests,memcheck --out there.json
json=there.json
holds '[s["state"] for s in found["steps"]] == ["skipped", "skipped"] and not found["device"]["usable"]'
holds '"libcuda.so.1 was not found" in steps["tests"]["reason"] and "cuda:0" in steps["tests"]["reason"]'

# Wrong calls.
gpu_check 2 --out "$HAUL_SOURCE/bench/results/none.json"
check "refused" grep -q "bench/results is for figures of GPUs" err
gpu_check 2 --only build,wash
check "the steps are named" grep -q "unknown step wash; use one of build, kernels, tests, bench, memcheck, racecheck" err
check "bench/results is still as it was" test "$(results)" = "$before"

# Packing, where the packages are: a library with the name that programs ask for, and headers.
mkdir tools && cp "$HAUL_SOURCE/tools/gpu-check" tools/
"$HAUL_PYTHON" tools/gpu-check --pack >out 2>err
if grep -q "was not found" err; then
    echo "packing is not tested: cJSON or cmocka are not where the compiler looks"
else
    for file in include/cjson/cJSON.h include/cmocka.h lib/libcjson.so lib/libcmocka.so; do
        check "$file is packed" test -s ".gpu-deps/$file"
    done
    printf '#include <cjson/cJSON.h>\nint main(void) { return !cJSON_Version(); }\n' >one.c
    check "a program is built with it" "$HAUL_CC" -I .gpu-deps/include one.c -L .gpu-deps/lib -lcjson -o one
    check "and runs with it" env LD_LIBRARY_PATH=.gpu-deps/lib LD_DEBUG=files ./one 2>loaded
    check "the one that was packed" grep -q 'calling init: .gpu-deps/lib/libcjson' loaded
fi
finish
