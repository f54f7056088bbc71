# Groups of 1 to 8 ranks with Open MPI's and MPICH's launchers: collectives, sums with bit-identical results, mismatches,
# the wrong pair of launcher and library, and ranks that fail, leave, are late, stop or die: the others end with an error
# that names them, and no rank is left.
# ctest: labels=once,slow
set -u
ranks=$HAUL_BUILD/tests/test_group_ranks
faults=$HAUL_BUILD/tests/test_group_faults
collectives=$HAUL_BUILD/tests/test_collectives
messages=$HAUL_BUILD/tests/test_messages
. "$HAUL_SOURCE/tests/support/ranks/mpi.sh" || exit 1
if [ ${#launchers[@]} = 0 ]; then
    echo "skipped: neither mpirun.openmpi nor mpiexec.mpich is installed (packages openmpi-bin, mpich)"
    exit 77
fi

fail() {
    echo "FAILED: $*"
    cat out
    exit 1
}

# expect TEXT: somewhere in the output.
expect() {
    grep -qF -- "$1" out || fail "$what: no \"$1\""
}

# Each rank of `out` has ended. The launcher waits for them, but a process may take a moment to go.
expect_none_left() {
    local pid
    for pid in $(sed -n 's/^.*is process \([0-9]*\)$/\1/p' out); do
        for ((i = 0; i < 600; i++)); do
            kill -0 "$pid" 2>/dev/null || continue 2
            sleep 0.1
        done
        fail "$what: process $pid is left"
    done
}

# run FAULT RANKS
run() {
    what="$launcher, $1"
    HAUL_TEST_FAULT=$1 timeout -k 10 600 "$launcher" -n "$2" "$faults" >out 2>&1
    status=$?
    [ $status != 124 ] || fail "$what: it hangs"
    expect_none_left
}

for launcher in "${launchers[@]}"; do
    for n in 1 2 3 4 8; do
        timeout -k 10 600 "$launcher" -n $n "$ranks" >out 2>&1 || fail "$launcher -n $n"
    done
    for n in 2 3; do
        timeout -k 10 600 "$launcher" -n $n "$collectives" >out 2>&1 || fail "$launcher -n $n, collectives"
        timeout -k 10 600 "$launcher" -n $n "$messages" >out 2>&1 || fail "$launcher -n $n, messages"
    done

    run mismatch 3
    expect "rank 0 (host $(hostname)"
    expect "calls haul_group_barrier"
    expect "rank 2 (host"
    expect "calls other of f32[3]"
    run sizes 2
    expect "calls other of f32[3] (8 bytes)"
    expect "calls other of f32[3] (16 bytes)"
    [ $status != 0 ] || fail "$what: status 0"
    run message 2
    expect "haul_receive: rank 0 (host $(hostname)"
    expect "sends f32[4] (16 bytes), but rank 1 (host"
    expect "expects f32[2] (8 bytes)"
    expect "has failed before it sent f32[4]: haul_receive: rank 0 (host"
    [ $status != 0 ] || fail "$what: status 0"
    run message-in-broadcast 3
    [ "$(grep -c 'haul_receive: rank 0 (host.* sends f32\[4\] (16 bytes), but' out)" -ge 2 ] ||
        fail "$what: not two ranks hear of it"
    [ $status != 0 ] || fail "$what: status 0"
    run error 3
    expect "haul_group_barrier: rank 2 (host"
    expect "has failed before collective 5: haul_item"
    run leave 3
    expect "rank 2 (host"
    expect "has not reached it"
    run unreceived 2
    expect "the message (f32[1048576]) cannot be completed: rank 1 (host"
    expect "has not completed it, and its program has ended"
    [ $status != 0 ] || fail "$what: status 0"
    run unsent 3
    expect "has not completed it, and its program has ended"
    [ $status != 0 ] || fail "$what: status 0"
    export HAUL_GROUP_LIMIT=5
    run no-message 2
    expect "cannot be completed: rank" # one of the two, which wait for each other
    expect "and waits in haul_"
    [ $status != 0 ] || fail "$what: status 0"
    run late 3
    expect "rank 2 (host"
    expect "has not reached it"
    [ $status != 0 ] || fail "$what: status 0"
    run stop 3
    expect "rank 2 (host"
    expect "does not answer"
    [ $status != 0 ] || fail "$what: status 0"
    run kill 3
    [ $status != 0 ] || fail "$what: status 0"
    unset HAUL_GROUP_LIMIT
done

# A rank that stops when all programs have ended.
launcher=${launchers[0]}
export HAUL_GROUP_LIMIT=5
run stop-leaving 3
expect "rank 2 (host"
expect "it has stopped, has died or is cut off"
[ $status != 0 ] || fail "$what: status 0"
run stop-closing 3
expect "all ranks have ended their programs, but the library does not finish"
[ $status != 0 ] || fail "$what: status 0"
unset HAUL_GROUP_LIMIT

if [ ${#launchers[@]} = 2 ]; then
    for pair in "mpirun.openmpi libmpich.so.12 MPICH" "mpiexec.mpich libmpi.so.40 Open"; do
        set -- $pair
        launcher=$1 what="$1 with $2"
        HAUL_MPI=$2 HAUL_TEST_FAULT=none timeout -k 10 600 "$1" -n 2 "$faults" >out 2>&1 && fail "$what: status 0"
        expect "started 2 processes"
        expect "$2 ($3"
    done
fi
