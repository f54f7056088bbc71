# haul calibrate and haul devices --machines: tables, JSON, and what a calibration leaves in the cache.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
export HAUL_CACHE_DIR=$PWD/cache OCL_ICD_VENDORS=none

# ---- before a calibration ----
run 0 devices --machines
check "the computer was not measured" grep -q 'run haul calibrate' out
check "no row for it" test "$(grep -c '^here' out)" -eq 0
for name in h200 a100-40g rtx4090 laptop-4g jetson; do
    check "$name is described" grep -Eq "^$name +described +cpu " out
done
check "no space at the end" test "$(grep -c ' $' out)" -eq 0
check "80 columns" test "$(awk 'length > 100' out | wc -l)" -eq 0
run 0 devices --machines --json
check "JSON: five described machines" "$HAUL_PYTHON" - <<'END'
import json
machines = json.load(open("out"))["machines"]
assert [m["name"] for m in machines] == ["h200", "a100-40g", "rtx4090", "laptop-4g", "jetson"], machines
for m in machines:
    assert m["described"] is True and m["haul_machine"] == 1 and "not measured" in m["source"]
    names = [d["name"] for d in m["devices"]]
    assert names[0] == "cpu" and len(set(names)) == len(names)
    ends = {(l["from"], l["to"]) for l in m["links"]}
    assert all(("cpu", n) in ends and (n, "cpu") in ends for n in names[1:])
END

# ---- a calibration ----
run 0 calibrate --json
check "JSON: the machine" "$HAUL_PYTHON" - <<'END'
import json
m = json.load(open("out"))
assert m["haul_machine"] == 1 and m["name"] == "here" and m["described"] is False
cpu = m["devices"][0]
assert cpu["name"] == "cpu" and cpu["bytes_per_second"] > 0 and cpu["launch_ns"] > 0
classes = {r["class"] for r in cpu["rates"]}
assert classes == {"matmul", "conv", "elementwise", "reduction", "normalisation", "pool", "index", "move", "random",
                   "optimizer", "matmul_backward", "conv_backward", "narrow_conv", "narrow_conv_backward",
                   "deep_conv", "deep_conv_backward", "batched_matmul", "softmax",
                   "normalisation_backward", "pool_backward", "function", "scattered_move"}, classes
for r in cpu["rates"]:
    work = [p[0] for p in r["points"]]
    assert work == sorted(set(work)) and all(p[1] > 0 for p in r["points"]), r
END
cp out here.json
check "it is kept" test -n "$(ls cache)"
run 0 devices --machines
check "a row for this computer" grep -Eq '^here +measured +cpu ' out
run 0 devices --machines --json
check "the same machine" "$HAUL_PYTHON" -c '
import json
assert json.load(open("out"))["machines"][0] == json.load(open("here.json"))'
for file in cache/*; do truncate -s -1 "$file"; done
run 0 devices --machines
check "a damaged file counts as none" test "$(grep -c '^here' out)" -eq 0

# ---- a plan for a described device does not depend on this processor ----
for network in "unet --batch 4" "mlp --batch 256"; do
    HAUL_NUM_THREADS=1 run 0 record $network --device sim:h200 --json
    cp out one.json
    for level in base v3 v4; do
        HAUL_CPU_LEVEL=$level "$HAUL" devices | grep -q "$level instructions" || continue
        HAUL_CPU_LEVEL=$level HAUL_NUM_THREADS=4 run 0 record $network --device sim:h200 --json
        check "$network with $level and four threads" cmp out one.json
    done
done

# ---- wrong command lines ----
run 2 devices --machines --names
complains "--names and --machines exclude each other"
run 2 calibrate here
complains "unexpected argument"
finish
