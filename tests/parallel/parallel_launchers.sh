# Data parallel training on 1 to 4 ranks with Open MPI's and MPICH's launchers: test_parallel_ranks on each.
# ctest: labels=once,mpi
set -u
program=$HAUL_BUILD/tests/test_parallel_ranks
. "$HAUL_SOURCE/tests/support/ranks/mpi.sh" || exit 1
export OMPI_MCA_mpi_yield_when_idle=1 HAUL_GROUP_LIMIT=600
if [ ${#launchers[@]} = 0 ] || [ -n "${HAUL_SANITIZE:-}" ]; then
    echo "skipped: no MPI is installed, or its library reports errors of its own to the sanitizer"
    exit 77
fi
for launcher in "${launchers[@]}"; do
    for n in 2 3 4; do
        timeout -k 10 600 "$launcher" -n $n "$program" >out 2>&1 || {
            echo "FAILED: $launcher -n $n"
            cat out
            exit 1
        }
    done
done
