# haul group: one rank without MPI, several with a launcher if there is one, and its errors.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/cli.sh"
unset OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_NTASKS HAUL_MPI

run 0 group
check "one rank" grep -qx "ranks      1 on 1 host" out
check "no library" grep -q "^library    none" out
check "how to start several" grep -q "mpirun -n 4 haul group" out
run 0 group --json
check "JSON" python3 -c '
import json
found = json.load(open("out"))
assert found["kind"] == "none" and found["size"] == 1 and found["ranks"][0]["rank"] == 0, found
assert "latency_seconds" not in found, found'
HAUL_MPI=/nowhere/libmpi.so run 1 group --group mpi
complains "/nowhere/libmpi.so"
OMPI_COMM_WORLD_SIZE=2 HAUL_MPI=/nowhere/libmpi.so run 1 group
complains "HAUL_MPI"
run 2 group --group all
complains "mpi"

HAUL_GROUP_LIMIT=soon run 1 group
complains "HAUL_GROUP_LIMIT is 'soon'; seconds above 0"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
for launcher in mpirun.openmpi mpiexec.mpich; do
    command -v $launcher >/dev/null || continue
    timeout -k 10 600 $launcher -n 2 "$HAUL" group --json >out 2>err
    check "$launcher" python3 -c '
import json
found = json.loads(open("out").read())
assert found["kind"] == "mpi" and found["size"] == 2 and found["hosts"] == 1, found
assert [r["rank"] for r in found["ranks"]] == [0, 1] and found["latency_seconds"] > 0, found
assert found["bandwidth_bytes_per_second"] > 0 and found["library"] and found["version"], found'
    timeout -k 10 600 $launcher -n 2 "$HAUL" group >out 2>err
    check "$launcher: one rank prints" test "$(grep -c '^ranks      2 on 1 host$' out)" = 1
done
finish
