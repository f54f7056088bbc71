# haul top with three trainings: one is killed, one is stopped, one has a page of another version.
# ctest: processors=2
import json
import os
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tests", "support", "python"))
from top import HAUL, LIMIT, check, environment, finish, page_of, processes, state, top, train, wait_until  # noqa: E402

# ---- nobody trains ----

empty = state()
check("devices without processes", empty["processes"] == [] and len(empty["devices"]) >= 1, empty)
check("every device has a name", all(d["name"] for d in empty["devices"]), empty["devices"])
cpu = [d for d in empty["devices"] if d["device"] == "cpu"]
check("the CPU is there once", len(cpu) == 1 and 0 <= cpu[0]["utilisation"] <= 1, cpu)
memory = int(next(line for line in open("/proc/meminfo") if line.startswith("MemTotal:")).split()[1]) * 1024
check("its memory", cpu[0]["memory"]["total"] == memory and 0 < cpu[0]["memory"]["used"] < memory, cpu)
check("says that nobody is there", "No Haul process is running." in top("--once").stdout)

# ---- three trainings ----

jobs = [train("--run", "first"), train("--device", "cpu", "--batch", "32"), train("--run", "thïrd", "--epochs", "999999")]
try:
    def all_known():
        now = processes()
        return set(now) == {j.pid for j in jobs} and all(p["examples_per_second"] for p in now.values()) and now

    now = wait_until(all_known)
    check("all three are there", bool(now), processes())
    first, second, third = (now[j.pid] for j in jobs)
    check("names", [p["name"] for p in (first, second, third)] == ["first", "dense on blobs:4096", "thïrd"], now)
    check("they run", all(p["state"] == "running" and p["command"] == "haul" for p in now.values()), now)
    check("progress", all(p["epoch"] >= 1 and p["steps"] > 0 and p["examples"] > 0 for p in now.values()), now)
    check("epochs", [p["epochs"] for p in (first, second, third)] == [1000000, 1000000, 999999], now)
    check("rates", all(p["step_seconds"] > 0 and p["seconds_left"] > 0 for p in now.values()), now)
    batch = [p["examples_per_second"] * p["step_seconds"] for p in (first, second)]
    check("examples a step", abs(batch[0] - 64) < 6 and abs(batch[1] - 32) < 3, batch)
    check("memory", all(0 < p["allocated"] <= p["reserved"] for p in now.values()), now)
    text = top("--once").stdout
    check("a line for each", all(any(f"{j.pid} " in line for line in text.splitlines()) for j in jobs), text)
    check("names in the text", "thïrd" in text and "EX./S" not in text.splitlines()[0], text)
    check("no line is wider than 120 columns", all(len(line) <= 120 for line in text.splitlines()), text)
    plain = top("--once", LC_ALL="C").stdout
    check("ASCII where the locale has no UTF-8", plain.isascii() and "th?rd" in plain, plain)
    check("pages are private", all(os.stat(page_of(j.pid)).st_mode & 0o777 == 0o600 for j in jobs))
    check("so is their folder", os.stat("pages").st_mode & 0o777 == 0o700)

    # ---- one killed, one stopped, one with a page of another version ----

    jobs[0].kill() # nobody has waited for it: a zombie
    jobs[1].send_signal(signal.SIGSTOP)
    with open(page_of(jobs[2].pid), "r+b") as page: # what the training writes again and again begins later
        page.seek(8)
        page.write(struct.pack("=I", 7))
    os.waitid(os.P_PID, jobs[0].pid, os.WEXITED | os.WNOWAIT)
    check("the killed one has left a page", page_of(jobs[0].pid) is not None)
    now = wait_until(lambda: (n := processes())[jobs[1].pid]["state"] == "stopped" and n)
    check("the killed one is gone", jobs[0].pid not in now, now)
    check("and so is its page", page_of(jobs[0].pid) is None)
    check("the stopped one does nothing", now[jobs[1].pid]["examples_per_second"] == 0, now)
    check("and holds memory", now[jobs[1].pid]["reserved"] > 0, now)
    third = now[jobs[2].pid]
    check("the third is unreadable", third["state"] == "unreadable" and third["name"] == "haul", third)
    check("with its reason", third["reason"] == "page of version 7, this haul reads 5", third)
    check("and without numbers", third["steps"] is None and third["allocated"] is None, third)
    text = top("--once").stdout
    check("the stopped one in the text", any(f"{jobs[1].pid} " in line and "stopped" in line and " reserved on " in line
                                             for line in text.splitlines()), text)
    check("the third one in the text", "page unreadable: page of version 7" in text, text)

    # A page that nobody writes any more, byte by byte.
    path, good = page_of(jobs[1].pid), open(page_of(jobs[1].pid), "rb").read()
    for at in range(0, len(good), 61):
        with open(path, "r+b") as page:
            page.seek(at)
            page.write(bytes([good[at] ^ 0x55]))
        bad = processes()[jobs[1].pid]
        check(f"byte {at} is not trusted", bad["state"] == "unreadable" and bad["reason"], bad)
        with open(path, "r+b") as page:
            page.write(good)
    check("and the good page again", processes()[jobs[1].pid]["state"] == "stopped")

    # ---- the end ----

    jobs[1].send_signal(signal.SIGCONT)
    check("it goes on", bool(wait_until(lambda: processes()[jobs[1].pid]["state"] == "running")))
    for job in jobs[1:]:
        job.send_signal(signal.SIGINT)
        error = job.communicate()[1]
        check("Ctrl-C ends it", job.returncode == 130, (job.returncode, error))
    check("no page is left", os.listdir("pages") == [], os.listdir("pages"))
finally:
    for job in jobs:
        job.kill()
        job.wait()

# ---- publishing may fail, and the training goes on ----

os.chmod("pages", 0o755)
job = train("--epochs", "1")
check("a folder that others may read stops no training", job.wait() == 0, job.stderr.read())
check("and is not read", state()["processes"] == [])
os.chmod("pages", 0o700)
job = train("--epochs", "1", HAUL_PUBLISH="off")
check("off", job.wait() == 0, job.stderr.read())

# ---- a reader who goes away ----

stream = subprocess.Popen([HAUL, "top", "--json"], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
check("an object a second", json.loads(stream.stdout.readline())["devices"] and json.loads(stream.stdout.readline())["devices"])
stream.stdout.close()
check("ends with its reader", stream.wait(timeout=LIMIT) == -signal.SIGPIPE and not stream.stderr.read(), stream.returncode)

# ---- wrong uses ----

for arguments, code, text in [
    (["--once", "--once", "x"], 2, "unexpected argument"),
    (["--json", "--prometheus", "9400"], 2, "give one of them"),
    (["--once", "--prometheus", "9400"], 2, "--once is for a file"),
    (["--prometheus", "127.0.0.1:99999"], 2, "a port from 0 to 65535"),
    ([], 1, "is not a terminal; use haul top --once"),
]:
    done = top(*arguments)
    check(f"haul top {' '.join(arguments)}", done.returncode == code and text in done.stderr, done)
finish()
