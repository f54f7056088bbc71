# haul top shows the ranks of a training: which one of how many each process is, and what it sends.
# ctest: labels=mpi
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tests", "support", "python"))
from top import HAUL, check, environment, finish, processes, top, wait_until  # noqa: E402

launcher = shutil.which("mpirun.openmpi")
if not launcher or os.environ.get("HAUL_SANITIZE"):
    print("Open MPI is not installed, or its library reports errors of its own to the sanitizer")
    sys.exit(77)

mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
       "OMPI_MCA_btl": "self,vader", "OMPI_MCA_plm": "isolated", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
job = subprocess.Popen([launcher, "--oversubscribe", "-n", "2", HAUL, "train", "--quiet", "--data", "blobs:4096",
                        "--model", "dense", "--epochs", "1000000", "--threads", "1"], env=environment(**mpi),
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
try:
    def both():
        now = list(processes().values())
        return job.poll() is not None or (len(now) == 2 and all(p["sent_bytes_per_second"] for p in now) and now)

    now = wait_until(both)
    check("both ranks publish", isinstance(now, list), job.poll() is not None and job.stderr.read())
    check("their numbers", sorted((p["rank"], p["ranks"]) for p in now) == [(0, 2), (1, 2)], now)
    check("what they sent", all(p["sent_bytes"] > 0 for p in now), now)
    text = top("--once").stdout
    check("a column", all(part in text for part in (" RANK ", " 0/2 ", " 1/2 ")), text)
finally:
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()

check("no rank is left", wait_until(lambda: not processes()) is True)
check("and no column", "RANK" not in top("--once").stdout)
finish()
