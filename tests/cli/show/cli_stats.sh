# haul stats: the table, and the JSON array.
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1

run 0 stats --list
check "a line for the peak" grep -Eq '^memory\.<device>\.peak +bytes +Highest value of allocated' out
check "a line for waits" grep -Eq '^sync\.waits +waits +How often' out
check "a line for each" test "$(grep -c '^[a-z]' out)" -eq "$(wc -l <out)"
check "no space at the end" test "$(grep -c ' $' out)" -eq 0
check "descriptions begin in one column" test "$(sed 's/^\([^ ]* *[^ ]* *\).*/\1/' out | awk '{ print length($0) }' | sort -u | wc -l)" -eq 1
cp out list
run 0 stats
check "listing is the default" cmp -s out list

run 0 stats --json
check "nothing on standard error" test ! -s err
cp out stats.json
check "the array" "$HAUL_PYTHON" - <<'END'
import json

listed = json.load(open("stats.json"))
lines = open("list").read().splitlines()[1:]
assert [s["name"] for s in listed] == [line.split()[0] for line in lines], "the same statistics in the same order"
for s, line in zip(listed, lines):
    assert list(s) == ["name", "unit", "description", "per_device", "per_thread"], s
    assert s["per_device"] == ("<device>" in s["name"]), s
    assert line.split()[1] == s["unit"] and line.endswith(s["description"]), s
assert {s["name"] for s in listed if s["per_thread"]} == {
    "sync.waits", "sync.wait_time", "sync.ready", "sync.driver_calls", "sync.driver_time", "events.delivered"}
END
run 0 stats --list --json
check "the same with --list" cmp -s out stats.json

run 2 stats --lists
complains "did you mean --list?"
run 2 stats memory.cpu.peak
finish
