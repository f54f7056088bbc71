# Groups of 1 to 4 ranks whose GPUs NCCL connects, on the stand-ins for CUDA and NCCL: sums with the bits of MPI and of one
# rank, trainings with the same weights, what "auto" chooses, a missing library, ranks that share a GPU, calls that differ,
# calls of NCCL that fail at once and afterwards.
# ctest: labels=once,slow
set -u
program=$HAUL_BUILD/tests/test_nccl
. "$HAUL_SOURCE/tests/support/ranks/mpi.sh" || exit 1
if [ ${#launchers[@]} = 0 ]; then
    echo "skipped: neither mpirun.openmpi nor mpiexec.mpich is installed (packages openmpi-bin, mpich)"
    exit 77
fi
export HAUL_CUDA_LIBRARIES=$HAUL_BUILD/tests/standin STANDIN_DEVICES=4 OCL_ICD_VENDORS=none TMPDIR=$PWD
launcher=${launchers[0]}

fail() {
    echo "FAILED: $*"
    cat out
    exit 1
}

expect() {
    grep -qF -- "$1" out || fail "$what: no \"$1\""
}

# run RANKS FAULT SETTING...: with settings of the environment.
run() {
    local n=$1
    what="$2 $3" fault=$2
    shift 2
    env HAUL_TEST_FAULT="$fault" "$@" timeout -k 10 600 "$launcher" -n "$n" "$program" >out 2>&1
    status=$?
    [ $status != 124 ] || fail "$what: it hangs"
}

for launcher in "${launchers[@]}"; do
    for n in 1 2 3 4; do
        timeout -k 10 600 "$launcher" -n $n "$program" >out 2>&1 || fail "$launcher -n $n"
    done
done
launcher=${launchers[0]}
STANDIN_ORDER=random timeout -k 10 600 "$launcher" -n 3 "$program" >out 2>&1 || fail "random order"

run 2 auto HAUL_NONE=1
expect "rank 1 of 2: nccl"
run 2 cpu HAUL_NONE=1 # one rank has the CPU
expect "rank 1 of 2: mpi"
[ $status = 0 ] || fail "$what: status $status"
run 2 auto HAUL_CUDA_WITHOUT=nccl
expect "rank 1 of 2: mpi"
[ $status = 0 ] || fail "$what: status $status"

run 2 none HAUL_CUDA_WITHOUT=nccl
expect "rank 0 (host $(hostname)"
expect "cannot use NCCL: HAUL_CUDA_WITHOUT names nccl"
mkdir libraries
cp -P "$HAUL_CUDA_LIBRARIES"/*.so* libraries/ && rm -f libraries/libnccl*
run 2 none HAUL_CUDA_LIBRARIES="$PWD/libraries" LD_LIBRARY_PATH=
expect "no NCCL (libnccl.so.2 was not found); install NVIDIA's package libnccl2"
run 2 shared HAUL_NONE=1
expect "have the same GPU; NCCL needs one for each rank"

run 3 mismatch HAUL_NONE=1
expect "the ranks differ in collective"
expect "calls test of numbers (4012 bytes) from GPU to GPU"
expect "calls test of numbers (4012 bytes)"
[ $status != 0 ] || fail "$what: status 0"

run 2 none STANDIN_FAIL=ncclCommInitRank:1
expect "cannot connect its GPU: cuda:"
expect "ncclCommInitRank failed: unhandled system error"
expect "Bootstrap : no socket interface found"
run 2 none STANDIN_FAIL=ncclGetUniqueId:1
expect "ncclGetUniqueId failed"
export HAUL_GROUP_LIMIT=5
run 2 none STANDIN_FAIL=ncclGroupEnd:2
expect "has failed in collective"
expect "ncclGroupEnd failed: unhandled system error (run with NCCL_DEBUG=INFO for details) (code 2): NET/Socket : connection refused"
[ $status != 0 ] || fail "$what: status 0"
run 3 none STANDIN_NCCL_BREAK=1:2
expect "rank 1 (host $(hostname)"
expect "an exchange of NCCL failed: unhandled system error"
expect "transport retry counter exceeded"
expect "remote process exited or there was a network error (code 6)"
[ $status != 0 ] || fail "$what: status 0"
run 2 none STANDIN_FAIL=ncclCommGetAsyncError:1
expect "ncclCommGetAsyncError failed"
unset HAUL_GROUP_LIMIT

# The weights of a training are the same with NCCL, with MPI, and on one GPU.
small="--model simplecnn --data shapes:40 --batch 16 --pieces 4 --optimizer adamw --epochs 1 --seed 1 --threads 1 --workers 0"
# weights RANKS GROUP
weights() {
    what="a training: $1 ranks, $2"
    timeout -k 10 600 "$launcher" -n "$1" bash -c "
        exec '$HAUL' train $small --device cuda:\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} --group $2 --run $2" >out 2>&1 ||
        fail "$what"
}
weights 1 none
weights 2 mpi
weights 3 nccl
for other in mpi nccl; do
    cmp none/weights.safetensors $other/weights.safetensors || fail "$other: other weights"
done

what="haul group"
timeout -k 10 600 "$launcher" -n 2 bash -c "
    exec '$HAUL' group --device cuda:\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}" >out 2>&1 || fail "$what"
expect "libnccl.so.2 (NCCL): NCCL 2.32.3; ranks are found by"
