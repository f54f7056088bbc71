# haul group and haul bench group: one rank without MPI, several with a launcher if there is one, and its errors.
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

run 0 group --group local:cpu,cpu
check "two threads" grep -qx "ranks      2 on 1 host" out
check "their devices" grep -q "^rank 1     cpu: a thread of process [0-9]* on host " out
check "no library for threads" grep -qx "library    none: the ranks are threads" out
check "a sum" grep -q "^sum  .* for 16 MiB of f32; each rank sends " out
run 0 group --group local:cpu,sim:h200:0 --json
check "JSON of threads" python3 -c '
import json
found = json.load(open("out"))
assert found["kind"] == "local" and found["size"] == 2 and found["latency_seconds"] > 0, found
assert [r["device"] for r in found["ranks"]] == ["cpu", "sim:h200:0"], found'
run 2 group --group local:cpu,cpu --device cpu
complains "--group local:cpu,cpu names the device of each rank; leave --device out"
run 1 group --group local:cpu,nosuch
complains "no device \"nosuch\""

run 1 bench group
complains "one process has no ranks to exchange data with; start several: mpirun -n 4 haul bench group"
run 1 bench group --device cpu
complains "--device belongs to transfer and compute"

run 0 bench group --group local:cpu,cpu --seconds 0.1 --json
check "sums of threads, and no library" python3 -c '
import json
found = json.load(open("out"))
assert found["ranks"] == 2 and found["library"] == "" and found["barrier"]["seconds"] > 0, found
assert found["sizes"][0]["sum"]["seconds"] > 0 and "library_all_reduce" not in found["sizes"][0], found'
run 1 bench transfer --group local:cpu,cpu
complains "--group is for haul bench group"

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
    timeout -k 10 600 $launcher -n 2 "$HAUL" bench group --seconds 0.2 --json >out 2>err
    check "$launcher: haul bench group" python3 -c '
import json
found = json.loads(open("out").read())
assert found["bench"] == "group" and found["ranks"] == 2 and found["library"] and found["version"], found
assert 0 < found["barrier"]["seconds_low"] <= found["barrier"]["seconds"] <= found["barrier"]["seconds_high"], found
assert found["sizes"] and [s["bytes"] for s in found["sizes"]] == [4 * 16**i for i in range(len(found["sizes"]))], found
for s in found["sizes"]:
    assert s["rounds"] >= 3, s
    for name in ("sum", "library_all_reduce", "all_gather", "all_to_all", "broadcast"):
        assert 0 < s[name]["seconds_low"] <= s[name]["seconds"] <= s[name]["seconds_high"], (name, s)
        assert abs(s[name]["bytes_per_second"] * s[name]["seconds"] / s["bytes"] - 1) < 1e-9, (name, s)'
    timeout -k 10 600 $launcher -n 2 "$HAUL" bench group --seconds 0.2 >out 2>err
    check "$launcher: one rank prints the table" test "$(grep -c '^ *size  *sum  *library  *all-gather  *all-to-all  *broadcast$' out)" = 1
    check "$launcher: a row" grep -q '^ *4 B  *[0-9.]* [mun]*s ' out
    timeout -k 10 600 $launcher -n 2 "$HAUL" group >out 2>err
    check "$launcher: one rank prints" test "$(grep -c '^ranks      2 on 1 host$' out)" = 1
done
finish
