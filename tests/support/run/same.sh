# For tests of the command that compare trainings. Sourced after cli.sh.

# same RUN OTHER: both have the same weights, checkpoint and scores.
same() {
    check "$2: weights" cmp "$1/weights.safetensors" "$2/weights.safetensors"
    check "$2: checkpoint" "$HAUL_PYTHON" - "$1" "$2" <<'END'
import json, struct, sys
def read(folder):
    data = open(folder + "/checkpoint", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    extra = head.pop("__metadata__")
    progress = json.loads(extra["haul.progress"]) if "haul.progress" in extra else {}
    return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in head.items()}, progress
(a, p), (b, q) = map(read, sys.argv[1:])
assert a.keys() == b.keys()
assert not [k for k in a if a[k] != b[k]], [k for k in a if a[k] != b[k]]
assert {k: p[k] for k in p if k not in ("elapsed", "log_bytes", "epoch_start")} == \
    {k: q[k] for k in q if k not in ("elapsed", "log_bytes", "epoch_start")}
END
    for event in "epoch train_loss" "epoch train_accuracy" "epoch test_loss" "epoch test_accuracy"; do
        # shellcheck disable=SC2086 # words
        check "$2: $event" test "$(value "$1/log.jsonl" $event)" = "$(value "$2/log.jsonl" $event)"
    done
}
