# Ranks of haul train that die or are stopped at random moments: all processes of the job go, the message names the rank,
# and another number of ranks resumes the run and has the weights of an undisturbed one.
#
# HAUL_LOST_RANKS="20 10 7": that many ranks are killed, and that many stopped, with this seed, and the processes must be
# gone within 6 seconds more than the limit.
# ctest: labels=slow,once,mpi
import filecmp
import os
import random
import shutil
import signal
import subprocess
import sys
import time

HAUL = os.environ["HAUL"]
chosen = os.environ.get("HAUL_LOST_RANKS")
LIMIT, MORE = 5, 6 if chosen else 300  # seconds: of the group, and until its processes are gone
OPTIONS = ("--model simplecnn --data shapes:300 --batch 32 --pieces 8 --augment crop,flip --optimizer adamw --epochs 8 "
           "--seed 1 --threads 1 --workers 0 --device cpu --quiet --save-every 0.2").split()

launchers = [[path] + more for name, more in (("mpirun.openmpi", ["--oversubscribe"]), ("mpiexec.mpich", []))
             if (path := shutil.which(name))]
if not launchers or os.environ.get("HAUL_SANITIZE"):
    print("no MPI is installed, or its library reports errors of its own to the sanitizer")
    sys.exit(77)

kills, stops, seed = map(int, (chosen or "1 0 1").split())
draw = random.Random(seed)
environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl": "self,vader", "OMPI_MCA_plm": "isolated",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "UCX_TLS": "self,sm,tcp",
               "HAUL_GROUP_LIMIT": "600"}


def train(launcher, ranks, *arguments, **settings):
    """Returns the job, whose output is in the file out. MPICH's launcher reports lost ranks on standard output."""
    return subprocess.Popen([*launcher, "-n", str(ranks), HAUL, "train", *arguments], env={**environment, **settings},
                            stdin=subprocess.DEVNULL, stdout=open("out", "wb"), stderr=subprocess.STDOUT)


def rank_of(pid, run):
    """The rank of a process that trains this run, or None."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read().split(b"\0")
        if command[0] != HAUL.encode() or run.encode() not in command:
            return None
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(each.split(b"=", 1) for each in file.read().split(b"\0") if b"=" in each)
        return int(variables.get(b"OMPI_COMM_WORLD_RANK", variables.get(b"PMI_RANK", b"0")))
    except (OSError, IndexError):
        return None


def members(run):
    """The processes of the ranks that train this run."""
    found = {int(pid): rank_of(pid, run) for pid in os.listdir("/proc") if pid.isdigit()}
    return {pid: rank for pid, rank in found.items() if rank is not None}


def wait_until(what, seconds=300):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


def has_begun(run):
    return os.path.exists(run + "/log.jsonl")


def disturb(number, kind):
    """Returns False if the training was over before."""
    run, launcher = f"run{number}", draw.choice(launchers)
    ranks, division = draw.choice((2, 3, 4)), draw.choice(("--shard 0", "--shard 1", "--shard 2", "--shard 3", "--stages"))
    division = f"--stages {ranks}" if division == "--stages" else division
    moment, resumed = draw.uniform(0, duration), draw.choice((1, 2, 3, 4))
    lost = draw.randrange(ranks)
    what = (f"{kind.name} of rank {lost} of {ranks} ({os.path.basename(launcher[0])}, {division}) after {moment:.2f} s, "
            f"resumed on {resumed}")
    job = train(launcher, ranks, *OPTIONS, *division.split(), "--run", run, HAUL_GROUP_LIMIT=str(LIMIT))
    assert wait_until(lambda: has_begun(run) or job.poll() is not None), what
    time.sleep(moment)
    pids = {rank: pid for pid, rank in members(run).items()}
    if lost not in pids:
        assert job.wait() == 0, what  # it was over before
        print(f"over  {what}")
        return False
    os.kill(pids[lost], kind)
    begun = time.monotonic()
    gone = wait_until(lambda: not members(run), LIMIT + MORE)
    seconds = time.monotonic() - begun
    for pid in members(run):
        os.kill(pid, signal.SIGKILL)
    assert gone, f"{what}: ranks are left"
    try:
        status = job.wait(60)
    except subprocess.TimeoutExpired:
        job.kill()
        status = job.wait()
    with open("out", errors="replace") as file:
        text = file.read()
    assert status, f"{what}: status 0"
    # MPICH kills the other ranks at once, and names one that was killed, by whomever.
    names = [f"rank {lost} (host"]
    if kind == signal.SIGKILL:
        names += [f"rank {lost} with PID"] if "openmpi" in launcher[0] else ["BAD TERMINATION"]
    elif '"done"' in open(run + "/log.jsonl").read():
        names += ["all ranks have ended their programs, but the library does not finish: one has stopped"]
    assert any(name in text for name in names), f"{what}: the message does not name it:\n{text}"
    arguments = ["--resume", "--stages", "0"] if os.path.exists(run + "/checkpoint") else OPTIONS
    assert train(launcher, resumed, "--run", run, *arguments).wait() == 0, what + ": " + open("out").read()
    assert filecmp.cmp(run + "/weights.safetensors", "whole/weights.safetensors", False), f"{what}: other weights"
    print(f"ok    {what}: gone after {seconds:.2f} s", flush=True)
    shutil.rmtree(run)
    return True


begun = time.monotonic()
assert train(launchers[0], 2, *OPTIONS, "--run", "whole").wait() == 0, open("out").read()
duration = time.monotonic() - begun
for kind, count in ((signal.SIGKILL, kills), (signal.SIGSTOP, stops)):
    done = number = 0
    while done < count:
        done += disturb(f"{kind.name}{number}", kind)
        number += 1
