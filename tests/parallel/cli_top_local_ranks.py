# haul top shows a process whose threads are ranks: how many they are, and what they send.
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tests", "support", "python"))
from top import HAUL, check, environment, finish, processes, top, wait_until  # noqa: E402

job = subprocess.Popen([HAUL, "train", "--quiet", "--group", "local:cpu,cpu", "--data", "blobs:4096", "--model", "dense",
                        "--epochs", "1000000", "--threads", "1"], env=environment(),
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
try:
    def sends():
        now = list(processes().values())
        return job.poll() is not None or (len(now) == 1 and now[0]["ranks"] and now[0]["sent_bytes_per_second"] and now)

    now = wait_until(sends)
    check("the process publishes", isinstance(now, list), job.poll() is not None and job.stderr.read())
    check("its ranks", [(p["rank"], p["ranks"]) for p in now] == [(None, 2)], now)
    check("what they sent", all(p["sent_bytes"] > 0 for p in now), now)
    text = top("--once").stdout
    check("a column", all(part in text for part in (" RANK ", " all 2 ")), text)
finally:
    job.kill()
    job.wait()

check("and no column", wait_until(lambda: not processes()) is True and "RANK" not in top("--once").stdout)
finish()
