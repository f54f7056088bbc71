# Data parallel training on 2 to 4 ranks with Open MPI's and MPICH's launchers: test_parallel_ranks,
# test_parallel_followed and test_parallel_parts on each, and on devices other than the CPU.
# ctest: labels=slow,once,mpi
set -u
. "$HAUL_SOURCE/tests/support/ranks/mpi.sh" || exit 1
export OMPI_MCA_mpi_yield_when_idle=1 HAUL_GROUP_LIMIT=600
if [ ${#launchers[@]} = 0 ] || [ -n "${HAUL_SANITIZE:-}" ]; then
    echo "skipped: no MPI is installed, or its library reports errors of its own to the sanitizer"
    exit 77
fi
# run LAUNCHER RANKS PROGRAM SETTING...: with settings of the environment.
run() {
    local launcher=$1 n=$2 program=$3
    shift 3
    env "$@" timeout -k 10 600 "$launcher" -n "$n" "$HAUL_BUILD/tests/$program" >out 2>&1 || {
        echo "FAILED: $* $launcher -n $n $program"
        cat out
        exit 1
    }
}
counts="2 3 4"
for launcher in "${launchers[@]}"; do
    for n in $counts; do
        run "$launcher" "$n" test_parallel_ranks
        run "$launcher" "$n" test_parallel_followed HAUL_TEST_DEVICES=cpu
        run "$launcher" "$n" test_parallel_parts
    done
    counts=3
done
launcher=${launchers[0]}
cuda=(HAUL_CUDA_LIBRARIES="$HAUL_BUILD/tests/standin" STANDIN_DEVICES=3 OCL_ICD_VENDORS=none)
run "$launcher" 3 test_parallel_parts HAUL_TEST_RANK_DEVICE=sim:h200
run "$launcher" 3 test_parallel_parts "${cuda[@]}" STANDIN_ORDER=random HAUL_TEST_RANK_DEVICE=cuda:%
run "$launcher" 2 test_parallel_ranks "${cuda[@]}" HAUL_TEST_RANK_DEVICE=cuda:%
if "$HAUL" devices 2>/dev/null | grep -q "opencl:0"; then
    run "$launcher" 2 test_parallel_parts HAUL_TEST_RANK_DEVICE=opencl:0
fi

# The last rank fails somewhere, and the others end with its error, long before the limit of 600 seconds.
faults=$HAUL_BUILD/tests/test_parallel_faults
fail() {
    echo "FAILED: $launcher, $fault: $*"
    cat out
    exit 1
}
places="operand result gradient begin forward step update"
for launcher in "${launchers[@]}"; do
    timeout -k 10 300 "$launcher" -n 3 "$faults" >out 2>&1 || { fault=none; fail "the same mistake everywhere"; }
    for fault in $places; do
        HAUL_TEST_FAULT=$fault timeout -k 10 300 "$launcher" -n 3 "$faults" >out 2>&1
        case $? in
        0 | 124) fail "status 0, or it hangs" ;;
        esac
        # What rank 2 owns is asked for after its update has failed.
        message="rank 2 (host .*, process [0-9]*) has failed before collective [0-9]*"
        [ $fault = update ] && message="cannot be got from rank 2 (host .*, process [0-9]*): .*a fault injected by a test"
        [ $fault != forward ] || grep -q "rank 0 ends: haul_parallel_backward: .*, bucket [0-9]* of step 1: " out ||
            fail "the step is not named"
        for rank in 0 1; do
            grep -q "rank $rank ends: .*$message" out || fail "rank $rank does not name rank 2"
        done
        for process in $(sed -n 's/^.*is process \([0-9]*\)$/\1/p' out); do
            for ((i = 0; i < 600; i++)); do
                kill -0 "$process" 2>/dev/null || continue 2
                sleep 0.1
            done
            fail "process $process is left"
        done
    done
    places="operand forward"
done
