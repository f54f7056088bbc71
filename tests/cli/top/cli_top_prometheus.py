# haul top --prometheus: the format, by a strict parser of our own (and by Prometheus's where it is installed), and the
# server, by requests good and bad.
import os
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tests", "support", "python"))
from top import HAUL, LIMIT, check, environment, finish, processes, top, train, wait_until  # noqa: E402

LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')


def parse(text):
    """{name: (type, [(labels, value)])}; anything that the format does not allow is an error."""
    metrics, name, named = {}, None, None
    assert text.endswith("\n"), "the last line has no end"
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            named = line.split(" ", 3)[2]
            assert named not in metrics and len(line.split(" ", 3)[3]) > 5, line
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == named and kind in ("gauge", "counter"), line
            assert re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name), line
            assert name.endswith("_total") == (kind == "counter"), line
            metrics[name] = (kind, [])
        else:
            found = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)", line)
            assert found and found[1] == name, line
            labels, rest = {}, found[2] or ""
            while rest:
                label = LABEL.match(rest)
                assert label and label[1] not in labels, line
                labels[label[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], label[2])
                rest = rest[label.end():]
            assert labels not in [s[0] for s in metrics[name][1]], f"twice: {line}"
            metrics[name][1].append((labels, float(found[3])))
    return metrics


def sample(metrics, name, **labels):
    found = [v for l, v in metrics[name][1] if all(l.get(k) == w for k, w in labels.items())]
    assert len(found) == 1, (name, labels, metrics[name])
    return found[0]


STRANGE = 'a "quoted\\" n\\ame\nof two lines'
job = train("--run", STRANGE)
server = None
try:
    wait_until(lambda: (p := processes().get(job.pid)) and p["examples_per_second"])

    # ---- a file ----

    done = top("--once", "--prometheus", "./haul.prom")
    text = open("haul.prom").read()
    check("a file", done.returncode == 0 and os.listdir(".").count("haul.prom.tmp") == 0, done)
    metrics = parse(text)
    check("the name comes back", sample(metrics, "haul_process_state", pid=str(job.pid))== 1 and
          metrics["haul_process_state"][1][0][0]["name"] == STRANGE, metrics["haul_process_state"])
    check("memory", sample(metrics, "haul_process_memory_allocated_bytes", pid=str(job.pid), device="cpu") > 0)
    check("memory of the device", sample(metrics, "haul_device_memory_allocated_bytes", device="cpu") > 0)
    check("steps", sample(metrics, "haul_process_steps_total", pid=str(job.pid)) > 0)
    check("the CPU", 0 <= sample(metrics, "haul_device_utilization_ratio", device="cpu") <= 1)
    check("base units", all(re.search(r"_(bytes|seconds|ratio|celsius|watts|hertz|total|info|state|loss|epochs?|per_second)$", name)
                            for name in metrics), list(metrics))
    try:
        from prometheus_client.parser import text_string_to_metric_families
        families = {f.name: f for f in text_string_to_metric_families(text)}
        check("Prometheus's own parser agrees", len(families) == len(metrics) and
              families["haul_process_state"].samples[0].labels["name"] == STRANGE, list(families))
    except ImportError:
        print("python3-prometheus-client is not installed")
    check("a file that cannot be written", top("--once", "--prometheus", "/nowhere/x.prom").returncode == 1)

    # ---- a file again and again ----

    writer = subprocess.Popen([HAUL, "top", "--prometheus", "./live.prom"], env=environment())
    check("it is written", wait_until(lambda: os.path.exists("live.prom") and parse(open("live.prom").read())))
    writer.send_signal(signal.SIGINT)
    check("Ctrl-C ends it", writer.wait() == 130)
    check("and takes the file away", not os.path.exists("live.prom"))

    # ---- the server ----

    server = subprocess.Popen([HAUL, "top", "--prometheus", "0"], env=environment(), stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    found = re.fullmatch(r"metrics at http://127\.0\.0\.1:(\d+)/metrics until Ctrl-C\n", line)
    check("it says where", bool(found), line)
    port = int(found[1])
    listens = [l.split()[1] for l in open("/proc/net/tcp") if l.split()[3] == "0A" and l.split()[1].endswith(f":{port:04X}")]
    check("only on 127.0.0.1", listens == [f"0100007F:{port:04X}"], listens)

    def ask(request, wait=0):
        """(status, headers, body) of the answer."""
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as s:
            for part in request if isinstance(request, list) else [request]:
                s.sendall(part)
                time.sleep(wait)
            got = b""
            while part := s.recv(65536):
                got += part
        head, _, body = got.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = dict(l.lower().split(": ", 1) for l in lines[1:])
        return int(lines[0].split(" ")[1]) if lines[0] else 0, headers, body

    END = b" HTTP/1.1\r\nHost: x\r\n\r\n"
    status, headers, body = ask(b"GET /metrics" + END)
    check("200", status == 200 and headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8", headers)
    check("its length", int(headers["content-length"]) == len(body), headers)
    check("metrics", sample(parse(body.decode()), "haul_process_epoch", pid=str(job.pid)) >= 1)
    status, headers, body = ask(b"HEAD /metrics" + END)
    check("HEAD", status == 200 and not body and int(headers["content-length"]) > 100, (status, headers))
    check("with a query", ask(b"GET /metrics?name=x" + END)[0] == 200)
    parts = [b"GET /met", b"rics HTTP/1.1\r\n", b"\r\n"] # may take longer than a request may take, on a machine that is busy
    check("in parts", wait_until(lambda: ask(parts, wait=0.1)[0] == 200))
    check("404", ask(b"GET /" + END)[0] == 404 and ask(b"GET /metricsx" + END)[0] == 404)
    status, headers, _ = ask(b"POST /metrics" + END)
    check("405", status == 405 and headers["allow"] == "get, head", headers)
    check("400", ask(b"nonsense\r\n\r\n")[0] == 400 and ask(b"\r\n\r\n")[0] == 400)
    check("431", ask(b"GET /metrics HTTP/1.1\r\n" + b"x: " + b"y" * 8200)[0] == 431)
    check("random bytes", ask(os.urandom(300) + b"\r\n\r\n")[0] in (400, 404, 0))
    check("who says nothing is hung up on", ask(b"GET /metrics")[0] == 0)
    for _ in range(20): # those who go away at once
        socket.create_connection(("127.0.0.1", port)).close()
    check("and it still answers", ask(b"GET /metrics" + END)[0] == 200)
    taken = top("--prometheus", str(port))
    check("a port that is taken", taken.returncode == 1 and "cannot listen" in taken.stderr, taken)
    server.send_signal(signal.SIGINT)
    check("Ctrl-C ends it", server.wait(timeout=LIMIT) == 130)
finally:
    for process in (job, server):
        if process and process.poll() is None:
            process.kill()
            process.wait()
finish()
