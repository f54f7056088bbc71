# Training on simulated devices: the same times whenever it runs, the CPU's values, the machine's memory, and spilling.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
export OCL_ICD_VENDORS=none
small=(--model dense --data blobs:512 --epochs 2 --seed 1)

# ---- times ----
for name in a b; do
    run 0 train "${small[@]}" --device sim:laptop-4g --run $name --profile 5 --json
done
run 0 train "${small[@]}" --device cpu --run cpu --json
check "the same log, with the CPU's losses" "$HAUL_PYTHON" - <<'END'
import json


def log(name):
    """Seconds are differences of larger numbers, whose last digits depend on when the clock began."""
    return [json.loads(line, parse_float=lambda text: float(f"{float(text):.6g}")) for line in open(f"{name}/log.jsonl")]


for a, b in zip(log("a"), log("b"), strict=True):
    a.pop("time"), b.pop("time")
    assert a == b, (a, b)
ours, theirs = ([e for e in log(name) if e["event"] == "epoch"] for name in ("a", "cpu"))
assert ours and ours[0]["seconds"] > 0
for a, b in zip(ours, theirs, strict=True):
    assert all(a[k] == b[k] for k in ("train_loss", "test_loss", "test_accuracy")), (a, b)
END
check "the profile names the device" grep -q 'sim:laptop-4g:0' a/profile.json
run 0 report a
check "a report" test -s a/report.html
run 0 train "${small[@]}" --device sim:h200:1 --quiet
run 0 train "${small[@]}" --device sim:jetson --quiet

# ---- predictions: a step of a training takes what haul plan predicts ----
for model in dense mlp simplecnn char_gpt unet; do
    case $model in
    char_gpt) data=sentences:56 ;;
    unet) data=scenes:56 ;;
    *) data=shapes:56 ;;
    esac
    for machine in laptop-4g jetson; do
        step=(--model $model --data $data --batch 4 --epochs 1)
        run 0 train "${step[@]}" --device sim:$machine --run $model-$machine --profile 3 --quiet
        run 0 plan --run $model-$machine --machine $machine --json
        cp out plan.json
        check "a step of $model on $machine" "$HAUL_PYTHON" - $model-$machine/profile.json <<'END'
import json
import sys
profile, plan = json.load(open(sys.argv[1])), json.load(open("plan.json"))
ours, theirs = plan["single"][plan["devices"][1]], profile["step_ms"]
assert abs(ours - theirs) < 1e-3 * theirs, (ours, theirs)
END
    done
done

# ---- memory ----
big=(--model simplecnn --data shapes:128 --batch 64 --epochs 1 --device sim:laptop-4g)
run 0 train "${big[@]}" --estimate
check "the machine's memory" grep -q 'of 4.0 GiB on sim:laptop-4g:0' out
run 4 train "${big[@]}" --memory-limit 1M
run 0 train "${big[@]}" --memory-limit 70% --spill on --json
check "what did not fit went to host memory" test "$(value out done spilled_bytes)" -gt 0

# ---- names ----
run 1 train "${small[@]}" --device sim:h300
complains 'behind "sim:" one of these is expected: h200, h200:1, a100-40g'
run 0 devices
check "they are opened by name" grep -q '^sim .*sim:h200' out
finish
