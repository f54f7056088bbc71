# haul plan --allow: the fastest way to train within a limit, as text and JSON, refusals and bad input.
# ctest: labels=slow
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

cat >check.py <<'END'
import json, sys
p = json.load(open(sys.argv[1]))
names = {"fits", "allowed", "techniques", "batch", "accumulate", "precision", "device", "limit_bytes", "step_ms",
         "bound_ms", "gap", "peak_bytes", "spilled_bytes", "unlimited_step_ms", "unlimited_peak_bytes", "recomputed",
         "spill_most_ms", "spilled", "more", "less", "words", "largest_batch", "least_bytes", "next"}
assert set(p) == names, set(p) ^ names
assert set(p["techniques"]) <= set(p["allowed"])
if p["fits"]:
    assert p["bound_ms"] <= p["step_ms"] and 0 <= p["gap"] < 1
    assert p["peak_bytes"][p["device"]] <= p["limit_bytes"]
assert p["least_bytes"] <= p["peak_bytes"][p["device"]]
assert p["fits"] == bool(p["next"])
assert ("recompute" in p["techniques"]) == bool(p["recomputed"])
assert ("spill" in p["techniques"]) == (p["spilled_bytes"] > 0) >= bool(p["spilled"])
assert all(s["after"] < s["before"] and s["bytes"] > 0 for s in p["spilled"])
print(*p["techniques"])
END

# A limit that everything fits: nothing is done.
run 0 plan --model char_gpt --batch 16 --machine laptop-4g --allow recompute,spill --json
check "nothing is done" test -z "$("$HAUL_PYTHON" check.py out)"
check "with the time that it takes without a limit" "$HAUL_PYTHON" -c '
import json; p = json.load(open("out"))
assert p["step_ms"] == p["unlimited_step_ms"] and p["peak_bytes"]["cuda:0"] == p["unlimited_peak_bytes"]
assert p["words"].startswith("more memory would not make the step faster")'

# Each technique, and all of them.
step=(--model char_gpt --batch 16 --machine laptop-4g --memory-limit 70%)
for way in recompute spill accumulate; do
    run 0 plan "${step[@]}" --allow "$way" --json
    check "$way" test "$("$HAUL_PYTHON" check.py out)" = "$way"
    cp out "$way"
done
run 0 plan "${step[@]}" --allow split,recompute,spill,accumulate,bf16 --json
cp out all
run 0 plan "${step[@]}" --allow split,recompute,spill,accumulate,bf16 --json
check "the same again" cmp -s out all
check "all together are not slower than one" "$HAUL_PYTHON" -c '
import json
all = json.load(open("all"))
for one in "recompute", "spill", "accumulate":
    assert all["step_ms"] <= json.load(open(one))["step_ms"], one'

# Adam's state, which is twice as large as the parameters, in host memory; and a training with the command.
state=(--model mlp --data shapes:64 --batch 4 --optimizer adamw)
run 0 plan --machine laptop-4g --memory-limit 85% --allow offload --json -- "${state[@]}"
check "offload" test "$("$HAUL_PYTHON" check.py out)" = offload
check "with its bytes" "$HAUL_PYTHON" -c 'import json; assert 6 << 20 < json.load(open("out"))["peak_bytes"]["cpu"] < 8 << 20'
run 4 plan --machine laptop-4g --memory-limit cuda:0=85%,cpu=1M --allow offload -- "${state[@]}"
run 0 plan --machine laptop-4g --memory-limit 100% --allow offload,accumulate --json -- "${state[@]}"
check "no more is done than needed" test -z "$("$HAUL_PYTHON" check.py out)"
run 0 plan --devices cpu,sim:laptop-4g --memory-limit 85% --allow offload -- "${state[@]}"
check "it says what goes to the host" grep -Eqx "offload    the optimizer's state, [0-9.]+ MiB, to host memory" out
next=$(sed -n 's/^next       haul //p' out)
check "the command has the option" grep -q -- ' --offload optimizer' <<<"$next"
eval "run 0 $next --epochs 1 --run offloaded"

# A placement has the precision of the training, whatever else was tried.
run 0 plan "${step[@]}" --memory-limit 20% --allow split --json
cp out split
run 0 plan "${step[@]}" --memory-limit 20% --allow split,bf16 --json
check "the same placement" "$HAUL_PYTHON" -c '
import json
split, both = json.load(open("split")), json.load(open("out"))
assert split["techniques"] == both["techniques"] == ["split"] and both["precision"] == "f32"
assert all(split[name] == both[name] for name in ("step_ms", "peak_bytes"))'

# The command of a placement: on the CPU alone, or with a file.
run 0 plan --model char_gpt --batch 16 --devices cpu,sim:laptop-4g --memory-limit 1500000 --allow split
check "all on the CPU" grep -q '^next       haul train --model char_gpt --device cpu --batch 16$' out
run 0 plan --devices cpu,sim:h200 --memory-limit 800k --allow split -- --model simplecnn --data shapes:64 --batch 16
check "with a file" grep -q '^next       haul plan --devices cpu,sim:h200:0 --memory-limit [0-9]* --certificate plan.json -- --data shapes:64 --model simplecnn --batch 16$' out

run 0 plan "${step[@]}" --allow recompute
check "the title" grep -Eq '^one training step of char_gpt, batch 16, sgd, within [0-9.]+ MiB on cuda:0' out
check "the segments" grep -q '^recompute  blocks' out
check "the command that trains so" grep -Eq '^next       haul train --model char_gpt --device cuda:0 --batch [0-9]+ .*--memory-limit [0-9]+$' out
check "the time" grep -Eq '^step       [0-9.]+ ms; without a limit [0-9.]+ ms' out
check "the bound" grep -Eq '^bound      [0-9.]+ ms( \([0-9.]+ % less\))?: no allowed way takes less, by the model$' out
check "the peak" grep -Eq '^peak       [0-9.]+ MiB on cuda:0; without a limit' out
check "what other limits would change" grep -Eq '^[0-9.]+ [KM]iB more would save [0-9.]+ [um]s; (with )?[0-9.]+ [KM]iB less (would cost|would not make it slower|it would not fit)' out

# A batch that is found.
run 0 plan --model char_gpt --batch auto --machine laptop-4g --memory-limit 16M --allow recompute --json
check "a batch" "$HAUL_PYTHON" -c 'import json; p = json.load(open("out")); assert p["fits"] and p["batch"] > 8'

# Nothing fits: what would.
run 4 plan --model char_gpt --batch 64 --machine laptop-4g --memory-limit 8M --allow recompute
check "the limit and the need" grep -q 'nothing that is allowed fits in 7.6 MiB on cuda:0: with batch 64 the best way found needs' err
check "a batch that fits" grep -Eq 'The largest batch that fits is --batch [0-9]+' err
check "a limit that fits" grep -Eq 'Batch 64 fits with --memory-limit cuda:0=[0-9]+' err
check "the proof" grep -q 'That nothing fits is proven: by the model no allowed way needs less than' err
fitting=$(sed -n 's/.*The largest batch that fits is --batch \([0-9]*\).*/\1/p' err)
run 0 plan --model char_gpt --batch "$fitting" --machine laptop-4g --memory-limit 8M --allow recompute
run 4 plan --model char_gpt --batch 64 --machine laptop-4g --memory-limit 8M --allow recompute --json
check "as JSON, too" "$HAUL_PYTHON" check.py out
run 4 plan --model resnet18 --batch 8 --machine laptop-4g --memory-limit 15% --allow spill --json
check "parameters can be away after the update" "$HAUL_PYTHON" check.py out

# Where no list of moves fits, the training may, as it spills by itself, also below the bound of lists.
step_of=(--model char_gpt --data sentences:32 --batch 16 --epochs 1)
run 0 train "${step_of[@]}" --device sim:laptop-4g --json
peak=$(value out done peak_bytes)
run 0 plan --allow recompute,spill --devices cpu,sim:laptop-4g --memory-limit $((peak * 42 / 100)) --json -- "${step_of[@]}"
check "spilling" test "$("$HAUL_PYTHON" check.py out)" = "spill"
check "without a list" grep -q '"spilled":\[\]' out
run 0 plan --allow recompute,spill --devices cpu,sim:laptop-4g --memory-limit $((peak * 42 / 100)) -- "${step_of[@]}"
check "what goes" grep -q '^spill .* in each step, what is used latest' out
eval "run 0 $(sed -n 's/^next       haul //p' out) --json"
check "it stays within the limit" at_least $((peak * 42 / 100)) "$(value out done peak_bytes)"
within=(--devices cpu,sim:laptop-4g --memory-limit)
run 4 plan --allow spill "${within[@]}" 900k -- --model simplecnn --data shapes:64 --batch 48
check "the largest batch is what such a training holds" grep -q '^  The largest batch that fits is --batch 13\.$' err
check "no proof, as the bound is that of lists" grep -q '^  By the model no list of moves needs less than' err
run 4 plan --allow spill "${within[@]}" sim:laptop-4g=900k,cpu=100k -- --model simplecnn --data shapes:64 --batch 13
check "the host refused it" grep -q 'and what the training that spills by itself moves does not fit in host memory\.$' err
for batch in 13 14; do
    run $((batch == 14 ? 4 : 0)) train --model simplecnn --data shapes:64 --batch $batch --epochs 1 --spill on \
        --device sim:laptop-4g --memory-limit 900k
done
run 0 plan --allow spill "${within[@]}" 130M -- --model resnet18 --data shapes:4 --batch auto
check "and the fastest, where no batch has a list" grep -q '^one training step of resnet18, batch 4,' out

# Bad input.
run 2 plan "${step[@]}" --allow recompute,magic
complains "--allow has 'magic'; expected are some of split, recompute, spill, accumulate, bf16"
run 2 plan "${step[@]}" --allow recompute --svg plan.svg
complains '--allow plans memory'
run 2 plan --model char_gpt --batch auto --machine laptop-4g
complains '--batch auto needs --allow'
run 2 plan --model char_gpt --batch auto --machine laptop-4g --memory-limit 60% --allow recompute
complains '--batch auto needs a --memory-limit in bytes, such as 2G: a share is of what one batch needs'
finish
