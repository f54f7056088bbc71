# haul record: the program of a training step, as text, JSON and a graph.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

# Scratch memory grows with the number of threads, and numbers of bytes follow.
export HAUL_NUM_THREADS=2

# Stores in one arena may overlap only if one is needed after the other, or is a result in the place of an operand.
cat >check.py <<'END'
import json, sys
p = json.load(open(sys.argv[1]))
stores, last = p["stores"], len(p["operations"])
assert set(p) == {"operations", "stores", "arena_bytes", "eager_peak_bytes"}, set(p)
for i, o in enumerate(p["operations"]):
    for k in o["operands"] + o["results"]:
        assert stores[k]["first"] <= i <= stores[k]["last"], (i, k)
inside = [s for s in stores if s["offset"] is not None]
assert inside and all(s["kind"] in ("inside", "scratch") for s in inside)
assert all(s["kind"] == "outside" for s in stores if s["offset"] is None and not s["within"])
# The operations of a fused command compute at once.
turn = lambda i: i if i == last or p["operations"][i]["fused"] is None else p["operations"][i]["fused"]
end = lambda s: last if s["outlives"] else turn(s["last"])
begin = lambda s: turn(s["first"])
for a in inside:
    assert a["offset"] + a["bytes"] <= p["arena_bytes"]
    for b in inside:
        if a is b or a["offset"] >= b["offset"] + b["bytes"] or b["offset"] >= a["offset"] + a["bytes"]:
            continue
        before, after = sorted((a, b), key=lambda s: (begin(s), end(s)))
        same = (a["offset"], a["bytes"]) == (b["offset"], b["bytes"])
        assert end(before) < begin(after) or (end(before) == begin(after) and same), (a, b)
assert p["arena_bytes"] <= p["eager_peak_bytes"]
print(len(p["operations"]), sum(s["outlives"] for s in stores))
END

for model in simplecnn dense mlp char_gpt unet; do
    run 0 record $model --batch 16 --device cpu --json
    check "$model: one line" test "$(wc -l <out)" -eq 1
    check "$model: lifetimes and offsets" "$HAUL_PYTHON" check.py out
done
run 0 record simplecnn --batch 16 --device cpu --json
check "no gradient stays" test "$("$HAUL_PYTHON" check.py out)" = "43 0"

# Gradients whose updates come early leave their memory to others.
cat >early.py <<'END'
import json, sys
p = json.load(open(sys.argv[1]))
sections = [o["section"] for o in p["operations"]]
assert "optimizer step" in sections[:len(sections) - 1 - sections[::-1].index("backward pass")], sections
assert p["arena_bytes"] <= 0.95 * p["eager_peak_bytes"], (p["arena_bytes"], p["eager_peak_bytes"])
END
run 0 record resnet18 --batch 64 --device cpu --json
check "resnet18: the memory of its arena" "$HAUL_PYTHON" early.py out

# The peak is that of an estimate of the same step, without what was there before.
run 0 record simplecnn --device cpu
check "the title" grep -q '^one training step of simplecnn on cpu, batch 64, sgd, f32: 43 operations' out
check "the memory" grep -q '^memory  .* as it runs, .* in one arena' out
check "forward" grep -Eq '^ 0  haul_conv2d +conv1 +f32\[64,6,28,28\]' out
check "backward" grep -q 'haul_linear_backward .*backward pass' out
check "optimizer" grep -q 'haul_sgd .*optimizer step' out
run 0 record resnet18 --device cpu
check "machine code" grep -Eq "^code    [0-9]+ operations in [0-9]+ loops?; [0-9]+ without: " out
check "fusion" grep -Eq '^fusion  [0-9]+ operations in [1-9][0-9]* commands' out
check "why not" grep -q 'alone: the operation before it is not pointwise' out
HAUL_WITHOUT=fusion run 0 record resnet18 --device cpu
check "without fusion" grep -Eq '^fusion  0 operations in 0 commands; [0-9]+ alone: fusion is off' out
run 0 record simplecnn --device cpu --memory
check "stores" grep -Eq '^ +[0-9]+ +1,204,224  inside +0 +1 ' out
run 0 record simplecnn --device cpu --dot step.dot
check "a graph" grep -q '^digraph' step.dot
check "43 nodes" test "$(grep -c '^  n[0-9]* \[' step.dot)" -eq 43
check "an edge from the first to the second" grep -q '^  n0 -> n1 ' step.dot
check "nothing printed" test ! -s out
run 1 record simplecnn --device cpu --dot nowhere/step.dot
check "the file" grep -q 'nowhere/step.dot cannot be written' err

# Of a run: its model, batch and optimizer.
run 0 train "${small[@]}" --epochs 1 --optimizer adam --run r
run 0 record --run r --json
check "of a run" "$HAUL_PYTHON" check.py out
check "its optimizer" grep -q haul_adam out
run 0 record --run r --batch 8
check "another batch" grep -q 'batch 8, adam' out
run 1 record --run nothing
check "no run" grep -q 'found no run in the folder nothing' err

run 2 record
complains 'which step? Give a model, such as simplecnn, or --run DIR'
run 2 record simplecnn --run r
complains 'a model and --run DIR were given; one of them is expected'
run 2 record simplecnn --json --memory
run 2 record other
run 2 record simplecnn --batch 0
finish
