# What the tests of the command share. Sourced; the working folder is empty and removed afterwards.
set -u
export PYTHONPATH=$HAUL_SOURCE/tests/support/python PYTHONDONTWRITEBYTECODE=1
failures=0

# check NAME COMMAND...: the command must succeed.
check() {
    local name=$1
    shift
    if "$@"; then
        echo "ok    $name"
    else
        echo "FAILED $name: $*" >&2
        failures=$((failures + 1))
    fi
}

# run CODE ARGUMENT...: haul must end with that code; its output is in the files out and err.
run() {
    local want=$1 got
    shift
    "$HAUL" "$@" >out 2>err
    got=$?
    if [ $got -eq "$want" ]; then
        echo "ok    haul $* ends with $want"
    else
        echo "FAILED haul $*: ended with $got, not $want" >&2
        cat out err >&2
        failures=$((failures + 1))
    fi
}

# One line of complaint that has the text.
complains() {
    check "one line" test "$(wc -l <err)" -eq 1
    check "complains of: $1" grep -qF -- "$1" err
}

# Every line of a file is a JSON object.
is_json_lines() {
    "$HAUL_PYTHON" -c '
import json, sys
for line in open(sys.argv[1]):
    assert isinstance(json.loads(line), dict), line' "$1"
}

# value FILE EVENT FIELD: of the last such event.
value() {
    "$HAUL_PYTHON" -c '
import json, sys
found = [e for e in map(json.loads, open(sys.argv[1])) if e.get("event") == sys.argv[2]]
print(found[-1][sys.argv[3]])' "$@"
}

# events FILE: what a run that was stopped has to repeat in its log. Times differ.
events() {
    "$HAUL_PYTHON" -c '
import json, sys
for event in map(json.loads, open(sys.argv[1])):
    if event["event"] not in ("start", "stopped", "done"):
        print({name: value for name, value in event.items() if name not in ("time", "elapsed", "seconds", "wait_seconds", "images_per_second")})' "$1"
}

# wait_for COMMAND...: until it succeeds, or a process of ours hangs.
wait_for() {
    local begun=$SECONDS
    until "$@"; do
        [ $((SECONDS - begun)) -lt 900 ] || { check "it happened: $*" false; return; }
        sleep 0.05
    done
}

# begin RUN ARGUMENT...: train in the background until the second epoch has begun; the process is $job.
begin() {
    local folder=$1
    shift
    env --default-signal=HUP "$HAUL" train "$@" --run "$folder" >out 2>err &
    job=$!
    wait_for grep -qs '"epoch":2' "$folder/log.jsonl"
}

# exact ARGUMENT...: train's estimate of memory is what an epoch takes, to the byte. It stays in the file estimate.
exact() {
    run 0 train "$@" --estimate --json
    mv out estimate
    run 0 train "$@" --epochs 1 --json
    check "$*: a step, to the byte" test "$(value estimate estimate peak_bytes)" = "$(value out done step_peak_bytes)"
    check "$*: the training, to the byte" test "$(value estimate estimate training_peak_bytes)" = "$(value out done peak_bytes)"
}

# plans MODEL DATA SEGMENT OPERATION: the memory of trainings is known, segments run again, a batch is found, and a step is
# a program with that operation, and is bit-identical on one thread.
plans() {
    local net=(--model "$1" --data "$2" --workers 0 --device cpu)
    exact "${net[@]}" --batch 8
    exact "${net[@]}" --batch 8 --precision f16 --optimizer adam
    exact "${net[@]}" --batch 8 --accumulate 2
    exact "${net[@]}" --batch 8 --recompute auto
    check "$3 runs again" grep -q "\"recompute\":.*$3" estimate
    run 0 train "${net[@]}" --batch auto --memory-limit 20M --epochs 1
    run 0 record "$1" --batch 4 --device cpu --json
    check "a program" grep -q "$4" out
    run 0 compare --model "$1" --batch 4 --a cpu --b cpu,threads=1 --json
    check "the same bits on one thread" grep -q '"first":null' out
}

# edit RUN KEY VALUE [KEY VALUE]...: change the metadata of its checkpoint. KEY/MEMBER is a member of a value that is an
# object; "absent" removes the key.
edit() {
    "$HAUL_PYTHON" - "$@" <<'END'
import json, struct, sys
path, changes = sys.argv[1] + "/checkpoint", sys.argv[2:]
data = open(path, "rb").read()
size, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + size])
metadata = header["__metadata__"]
for name, value in zip(changes[::2], changes[1::2]):
    key, _, member = name.partition("/")
    if value == "absent":
        del metadata[key]
    elif member:
        metadata[key] = json.dumps({**json.loads(metadata[key]), member: value})
    else:
        metadata[key] = value
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
END
}

at_least() { "$HAUL_PYTHON" -c 'import sys; sys.exit(not float(sys.argv[1]) >= float(sys.argv[2]))' "$1" "$2"; }

finish() {
    [ "$failures" -eq 0 ] || { echo "$failures failed" >&2; exit 1; }
    exit 0
}

# Small and quick: what most tests train.
small=(--model dense --data blobs:256 --batch 16 --log-every 5 --workers 1 --device cpu)
