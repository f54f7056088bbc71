# Groups whose ranks are threads, on one device and on several ones: test_group_ranks, test_collectives,
# test_messages and an example on each.
# ctest: labels=threads
set -u
# run NAME PROGRAM
run() {
    HAUL_TEST_LOCAL=$1 timeout -k 10 300 "$HAUL_BUILD/tests/$2" >out 2>&1 && return
    echo "FAILED: $2 on $1"
    cat out
    exit 1
}
names="local:cpu local:cpu,cpu local:cpu,cpu,cpu local:sim:h200:0,sim:h200:1 local:cpu,sim:h200,sim:h200:1"
if "$HAUL" devices 2>/dev/null | grep -q "opencl:0"; then
    names="$names local:cpu,opencl:0"
fi
"$HAUL_BUILD/examples/data_parallel" >alone
for name in local:cpu local:cpu,cpu,cpu; do
    timeout -k 10 300 "$HAUL_BUILD/examples/data_parallel" $name >out 2>&1 && cmp out alone || {
        echo "FAILED: data_parallel $name"
        cat out
        exit 1
    }
done
for name in $names; do
    run $name test_group_ranks
    run $name test_collectives
    run $name test_messages
done
run local:cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu test_group_ranks
