# haul train on several ranks: the same bits for 1 to 4 of them, with Open MPI and with MPICH.
# ctest: labels=slow,mpi
. "$HAUL_SOURCE/tests/support/cli.sh" || exit 1
. "$HAUL_SOURCE/tests/support/run/same.sh" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 HAUL_GROUP_LIMIT=600
export OMPI_MCA_btl=self,vader OMPI_MCA_plm=isolated UCX_TLS=self,sm,tcp
launchers=()
command -v mpirun.openmpi >/dev/null && launchers+=("mpirun.openmpi --oversubscribe")
command -v mpiexec.mpich >/dev/null && launchers+=("mpiexec.mpich")
if [ ${#launchers[@]} -eq 0 ] || [ -n "${HAUL_SANITIZE:-}" ]; then
    echo "no MPI is installed, or its library reports errors of its own to the sanitizer"
    exit 77
fi

# ranks STATUS N LAUNCHER ARGUMENTS...: the command on N ranks
ranks() {
    local wanted=$1 n=$2 launcher=$3
    shift 3
    # shellcheck disable=SC2086 # words
    timeout 600 $launcher -n "$n" "$HAUL" "$@" >out 2>err </dev/null
    local status=$?
    [ "$wanted" = "$status" ] || { cat out err; check "$launcher -n $n haul $*: status $status instead of $wanted" false; }
}

# 150 pictures: the last mini-batch has 22, in pieces of 8 that are 8 8 6 0 0 0 0 0.
small=(--model simplecnn --data shapes:150 --batch 64 --pieces 8 --augment crop,flip --optimizer adamw --precision f16
    --epochs 2 --seed 1 --threads 1 --workers 0 --device cpu --log-every 1)
norms=(--model resnet18 --data shapes:20 --batch 16 --pieces 4 --optimizer adamw --epochs 1 --seed 1 --threads 1
    --workers 0 --device cpu)
run 0 train "${small[@]}" --run small
run 0 train "${norms[@]}" --run norms
run 0 train "${small[@]}" --eager --run small-eager
same small small-eager
run 0 train "${norms[@]}" --eager --run norms-eager
same norms norms-eager
check "one process sends nothing" test "$(value small/log.jsonl done group_bytes)" = 0
check "and is alone" test "$(value small/log.jsonl done ranks)" = 1
# Where there is a device that spills.
spills=(--model resnet18 --data shapes:20 --batch 16 --pieces 4 --optimizer adamw --epochs 1 --seed 1 --threads 1
    --workers 0 --device opencl:0)
opencl=$("$HAUL" devices --json | "$HAUL_PYTHON" -c 'import json, sys
print("yes" * any(d["name"] == "opencl:0" and d["usable"] for d in json.load(sys.stdin)["devices"]))')
if [ -n "$opencl" ]; then
    run 0 train "${spills[@]}" --estimate --stages 2 --memory-limit 70M --spill on
    check "no estimate of what a stage spills" test -z "$(grep '^spill ' out)"
    run 0 train "${spills[@]}" --run spills
fi
first=${launchers[0]} counts="2 3 4"
for launcher in "${launchers[@]}"; do
    name=${launcher%% *}
    for n in $counts; do
        ranks 0 $n "$launcher" train "${small[@]}" --run "small-$name-$n"
        same small "small-$name-$n"
        check "$n ranks in the log" test "$(value "small-$name-$n/log.jsonl" done ranks)" = $n
        check "bytes in the log" test "$(value "small-$name-$n/log.jsonl" done group_bytes)" -gt 100000
        check "followed pieces hide nothing" test "$(value "small-$name-$n/log.jsonl" done hidden_share)" = 0
        check "the ranks at the beginning" grep -q "in 8 pieces on $n ranks, adamw" out
        check "and at the end" grep -q "ranks  *$n; rank 0 sent" out
        check "one rank prints" test "$(grep -c 'Done' out)" -eq 1
    done
    counts=3
done
ranks 0 3 "$first" train "${norms[@]}" --run norms-3
same norms norms-3

# The first bucket begins before the backward pass is over, and the last one after it.
hidden=$(value norms-3/log.jsonl done hidden_share)
check "a part of the exchange is hidden" awk -v s="$hidden" 'BEGIN { exit !(s > 0 && s < 1) }'
check "and shown" grep -q 'exchange  *.* of rank 0, [0-9]* % of it behind backward passes' out

# Followed pieces, and why others are not.
check "all but the first piece" test "$(value small-${first%% *}-2/log.jsonl done followed)" = 23
check "one as it is" test "$(value small-${first%% *}-2/log.jsonl done eager_steps)" = 1
check "large gradients" test "$(value norms-3/log.jsonl done followed)" = 0
check "the reason is shown" grep -q 'followed  *0 of 2 pieces of rank 0; the gradients take more than 4 MiB' out

# Shards: the same checkpoint, and each rank has a part of the optimizer's state.
ranks 0 3 "$first" train "${norms[@]}" --shard 1 --run shards
same norms shards
check "the parts are shown" grep -q 'optimizer  *[0-9.]* MiB on rank 0, [0-9.]* MiB on rank 1, [0-9.]* MiB on rank 2$' out
own=$(value shards/log.jsonl done state_bytes) all=$(value shards/log.jsonl done state_bytes_of_all)
check "rank 0 has about a third" test $((own * 100)) -lt $((all * 40))
check "no state is there twice" test "$all" -lt $((90 * 1000 * 1000))
run 2 train --data blobs:100 --shard 1
check "shards need pieces" grep -qF -- "--shard 1 divides the optimizer's state among ranks, and one process has no pieces" err
run 2 train --data blobs:100 --pieces 8 --shard 4
check "four stages" grep -q -- "--shard" err

# Stages: the same checkpoint, and a rank has the memory of its part of the network.
ranks 0 4 "$first" train "${norms[@]}" --stages 4 --run stages
same norms stages
check "a part of the network" "$HAUL_PYTHON" - <<'END'
import json
def peaks(run):
    return [json.loads(l) for l in open(run + "/log.jsonl") if '"done"' in l][-1]["rank_peak_bytes"]
a, b = peaks("norms-3"), peaks("stages")
assert len(b) == 4 and b[1] < 0.5 * a[1] and b[2] < 0.5 * a[2], (a, b)
END
# A rank that goes on reads its own part of the checkpoint.
cp -r norms resumed-alone
cp -r norms resumed-apart
run 0 train --run resumed-alone --resume --epochs 2
ranks 0 2 "$first" train --run resumed-apart --resume --epochs 2 --stages 2 --cuts layer4.1
same resumed-alone resumed-apart
check "a part of the checkpoint" "$HAUL_PYTHON" - <<'END'
import json
def done(run):
    return [json.loads(l) for l in open(run + "/log.jsonl") if '"done"' in l][-1]
whole, parts = done("resumed-alone")["peak_bytes"], done("resumed-apart")["rank_peak_bytes"]
assert len(parts) == 2 and parts[1] < 0.6 * whole, (whole, parts)
END
for launcher in "${launchers[@]}"; do
    name=${launcher%% *}
    ranks 0 2 "$launcher" train "${small[@]}" --stages 2 --run "small-$name-stages"
    same small "small-$name-stages"
    [ -z "$opencl" ] && continue
    ranks 0 2 "$launcher" train "${spills[@]}" --stages 2 --memory-limit 70M --spill on --run "spilled-$name"
    same spills "spilled-$name"
    check "a rank spilled" grep -q '^  spilled  *[0-9]' out
done

# Gradients are divided, too: as many bytes as without shards, and less memory with one piece for the rank.
ranks 0 3 "$first" train "${norms[@]}" --shard 2 --run gradients
same norms gradients
check "as many bytes" test $(($(value gradients/log.jsonl done group_bytes) * 10)) -lt \
    $(($(value norms-3/log.jsonl done group_bytes) * 13))
check "less memory" "$HAUL_PYTHON" - <<'END'
import json
def peaks(run):
    return [json.loads(l) for l in open(run + "/log.jsonl") if '"done"' in l][-1]["rank_peak_bytes"]
a, b = peaks("norms-3"), peaks("gradients")
assert len(a) == len(b) == 3 and b[1] < 0.75 * a[1], (a, b)
END
check "the peaks are shown" grep -q 'memory  *[0-9.]* MiB on rank 0, .* on rank 2 at the peak$' out

# Parameters are divided, too: at most half as many bytes again, and less memory than with gradients alone.
ranks 0 3 "$first" train "${norms[@]}" --shard 3 --run parameters
same norms parameters
check "half as many bytes again" test $(($(value parameters/log.jsonl done group_bytes) * 10)) -lt \
    $(($(value gradients/log.jsonl done group_bytes) * 17))
check "and less memory" "$HAUL_PYTHON" - <<'END'
import json
def peaks(run):
    return [json.loads(l) for l in open(run + "/log.jsonl") if '"done"' in l][-1]["rank_peak_bytes"]
a, b = peaks("gradients"), peaks("parameters")
assert len(a) == len(b) == 3 and b[1] < 0.9 * a[1] and b[2] < 0.9 * a[2], (a, b)
END
ranks 0 2 "$first" train "${small[@]}" --shard 3 --run small-parameters
same small small-parameters
ranks 0 4 "$first" train "${small[@]}" --shard 3 --device sim:h200 --run simulated
same small simulated

# A run goes on with another number of ranks, and with the shards of another number or without.
ranks 0 4 "$first" train "${small[@]}" --epochs 1 --shard 1 --run moved
ranks 0 3 "$first" train --run moved --resume --epochs 2 --shard 2
check "4 ranks, then 3" cmp small/weights.safetensors moved/weights.safetensors
run 0 train "${small[@]}" --epochs 3 --run longer
ranks 0 4 "$first" train --run moved --resume --epochs 3 --shard 3
check "then 4 again" cmp longer/weights.safetensors moved/weights.safetensors
run 0 train "${small[@]}" --epochs 4 --run longest
run 0 train --run moved --resume --epochs 4 --shard 0
check "then 1" cmp longest/weights.safetensors moved/weights.safetensors

# The best weights of a validation are tested at the end.
held=(--model dense --data blobs:200 --validation 0.2 --batch 32 --pieces 4 --epochs 2 --threads 1 --device cpu --lr 0.1)
run 0 train "${held[@]}" --json
alone=$(value out done test_loss)
ranks 0 2 "$first" train "${held[@]}" --json
check "the same test" test "$(value out done test_loss)" = "$alone"
ranks 0 3 "$first" train "${held[@]}" --shard 3 --patience 1 --json
check "and with divided parameters" test "$(value out done test_loss)" = "$alone"

# The example with dropout and clipping.
"$HAUL_BUILD/examples/data_parallel" >alone
# shellcheck disable=SC2086 # words
timeout 600 $first -n 3 "$HAUL_BUILD/examples/data_parallel" >three 2>err </dev/null
check "the example prints the same" cmp alone three

ranks 2 4 "$first" train --data blobs:100 --epochs 1 --batch 8 --pieces 2
check "too few pieces" grep -qF "there are 4 ranks, but only --pieces 2: each rank needs a piece; start fewer ranks, or give more pieces" err
check "says one rank" test "$(grep -c 'there are 4 ranks' err)" -eq 1
cat >differ <<'END'
#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
exec "$HAUL" train --data blobs:100 --epochs 1 --batch 32 --lr 0.0$((rank + 1))
END
chmod +x differ
# shellcheck disable=SC2086 # words
timeout 600 $first -n 2 ./differ >out 2>err </dev/null
check "different options end all ranks" test $? -ne 0
check "and are named" grep -q 'rank 0 .* has --lr 0.01, but rank 1 .* has --lr 0.02' err
finish
