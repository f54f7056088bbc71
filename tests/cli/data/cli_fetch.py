"""haul_fetch and haul train --data ADDRESS, against a server of this machine that stalls, cuts, lies about lengths, answers
ranges wrongly and redirects in circles, to files and to other protocols."""
# ctest: labels=slow,once
import ctypes
import hashlib
import http.server
import io
import os
import random
import subprocess
import sys
import tarfile
import threading

failures = 0


def check(name, fine, what=""):
    global failures
    print(("ok    " if fine else "FAILED ") + name + ("" if fine else f": {what}"))
    failures += not fine


# ---- the server ----

DATA = random.Random(1).randbytes(300000)
SUM = hashlib.sha256(DATA).hexdigest()
requests, over = [], threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, data, length=None, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if length is not False:
            self.send_header("Content-Length", str(len(data) if length is None else length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.wfile.write(data)
        except OSError:
            pass  # the client has enough

    def redirect(self, to):
        self.answer(302, b"", Location=to)

    def range(self):
        wanted = self.headers.get("Range")
        return int(wanted[len("bytes="):].rstrip("-")) if wanted else 0

    def part(self, begin, end=None, whole=DATA):
        data = whole[begin:end]
        if begin:
            self.answer(206, data, len(whole) - begin, Content_Range=f"bytes {begin}-{len(whole) - 1}/{len(whole)}")
        else:
            self.answer(200, data, len(whole))

    def do_GET(self):
        path = self.path.split("?")[0].rsplit("/", 1)[-1]
        requests.append((self.path, dict(self.headers)))
        begin = self.range()
        if path.startswith("good"):
            self.part(begin)
        elif path == "cut":  # after 100,000 bytes of each request
            self.part(begin, begin + 100000)
        elif path == "nothing":
            self.close_connection = True
        elif path == "long":  # says more than it has
            self.answer(200, DATA, len(DATA) + 1000)
        elif path == "short":
            self.answer(200, DATA, len(DATA) - 1000)
        elif path == "no-ranges":
            self.part(0)
        elif path == "wrong-range":
            self.answer(206, DATA[7:], Content_Range=f"bytes 7-{len(DATA) - 1}/{len(DATA)}") if begin else self.part(0)
        elif path == "range-of-nothing":
            self.answer(416, b"") if begin else self.part(0)
        elif path == "circle":
            self.redirect("circle")
        elif path == "deeper":
            self.redirect(self.path + "/deeper")
        elif path == "to-file":
            self.redirect("file:///etc/passwd")
        elif path == "to-ftp":
            self.redirect("ftp://127.0.0.1/good")
        elif path == "moved":
            self.redirect("/good-moved")
        elif path == "endless":  # without a length
            self.answer(200, DATA * 10, False)
        elif path == "stalls":
            self.answer(200, DATA[:1000], len(DATA))
            self.wfile.flush()
            over.wait(600)
        elif path == "silent":
            over.wait(600)
            self.close_connection = True
        elif path == "empty.tgz":
            self.answer(200, b"")
        elif path == "page.tgz":
            self.answer(200, b"<html></html>")
        elif path.endswith(".tgz"):
            self.answer(200, ARCHIVE)
        else:
            self.answer(404, b"no such file")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # clients that went away


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
HOST = f"http://127.0.0.1:{server.server_address[1]}"
for name in list(os.environ):
    if name.lower().endswith("_proxy"):
        del os.environ[name]
os.environ.update(HAUL_CACHE_DIR=os.path.abspath("cache"), HOME=os.path.abspath("."))

# ---- the command ----

noise = random.Random(2)
packed = io.BytesIO()
with tarfile.open(fileobj=packed, mode="w:gz") as archive:
    for name in ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]:
        records = b"".join(bytes([i]) + noise.randbytes(3072) for i in range(10))
        info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
        info.size = len(records)
        archive.addfile(info, io.BytesIO(records))
ARCHIVE = packed.getvalue()
HAUL = os.environ["HAUL"]


def train(code, data, text="", **environment):
    done = subprocess.run([HAUL, "train", "--data", data, *"--model dense --batch 8 --epochs 1 --device cpu".split()],
                          capture_output=True, text=True, env={**os.environ, **environment})
    check(f"--data {data} ends with {code}", done.returncode == code, f"{done.returncode}: {done.stderr}")
    check(f"  says: {text}", text in done.stderr and done.stderr.count("\n") == (code > 0), done.stderr)


CLOSED = {"https_proxy": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"}  # where nothing listens
have_curl = subprocess.run([HAUL, "train", "--data", f"{HOST}/none"], capture_output=True, text=True)
if "install libcurl4" in have_curl.stderr:
    print("skipped: libcurl is not installed")
    sys.exit(77)
train(0, f"{HOST}/c10.tgz")
train(0, f"cifar10:{HOST}/c10.tgz#sha256={hashlib.sha256(ARCHIVE).hexdigest()}")
check("the archive was fetched once", sum(path.endswith("c10.tgz") for path, _ in requests) == 1, requests)
train(0, f"{HOST}/c10.tgz", **CLOSED)
train(1, f"{HOST}/other.tgz#sha256={SUM}", f"has the SHA-256 {hashlib.sha256(ARCHIVE).hexdigest()}, and {SUM} is expected")
train(1, f"{HOST}/none.zip", "The requested URL returned error: 404. Check the network, or fetch the file by hand and save it as")
train(1, f"{HOST}/empty.tgz", "the server sent an empty file")
train(1, f"{HOST}/page.tgz", "has none of the files of CIFAR and MNIST, and no pictures in folders; delete it to fetch it again")
train(1, "ftp://127.0.0.1/x.tgz", "unknown source 'ftp'")
by_hand = os.path.abspath("cache/datasets/cifar10/cifar-10-binary.tar.gz")
train(1, "cifar10", f"or fetch the file by hand and save it as {by_hand}", **CLOSED)
train(1, "cifar100", "cifar100/cifar-100-binary.tar.gz", **CLOSED)
train(1, "mnist", "datasets/mnist/train-images-idx3-ubyte.gz", **CLOSED)
train(1, "fashion-mnist", "datasets/fashion-mnist/train-images-idx3-ubyte.gz", **CLOSED)
train(1, "mnist", "HAUL_CURL is /nothing, which cannot be opened. Check the network, or fetch the file by hand", HAUL_CURL="/nothing")
with open(by_hand, "wb") as file:
    file.write(ARCHIVE)
train(1, "cifar10", "is expected; delete the file, so that it is fetched again", **CLOSED)
with tarfile.open(fileobj=io.BytesIO(ARCHIVE)) as archive:
    archive.extractall("cifar10")
train(0, "cifar10", **CLOSED)

# ---- the library ----

if os.environ.get("HAUL_SANITIZE"):
    print("a library with sanitizers cannot be loaded into Python")
    sys.exit(1 if failures else 0)
PROGRESS = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Options(ctypes.Structure):
    _fields_ = [("url", ctypes.c_char_p), ("sha256", ctypes.c_char_p), ("folder", ctypes.c_char_p),
                ("limit", ctypes.c_int64), ("stall", ctypes.c_int), ("cache_limit", ctypes.c_int64),
                ("progress", PROGRESS), ("context", ctypes.c_void_p)]


haul = ctypes.CDLL(os.path.join(os.environ["HAUL_BUILD"], "libhaul.so"))
haul.haul_error_message.restype = ctypes.c_char_p
haul.haul_fetch_with.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
count = 0


def fetch(path, sha256=None, url=None, folder=None, progress=None, **more):
    """The path or None, and the message."""
    options = Options(url=(f"{HOST}/{path}" if url is None else url).encode(), sha256=sha256 and sha256.encode(),
                      folder=folder and folder.encode(), **more)
    if progress:
        options.progress = progress
    path = ctypes.create_string_buffer(4096)
    status = haul.haul_fetch_with(path, len(path), ctypes.byref(options))
    return None if status else path.value.decode(), haul.haul_error_message().decode()


def content(path):
    with open(path, "rb") as file:
        return file.read()


def folder():
    global count
    count += 1
    return f"folder{count}"


def works(name, path, sha256=SUM, tries=1, **more):
    requests.clear()
    where = more.pop("folder", None) or folder()
    result, message = fetch(path, sha256, folder=where, **more)
    check(name, result and content(result) == DATA, message)
    check(f"  in {tries} requests", len(requests) == tries, requests)
    check("  and nothing else is left", not [f for f in os.listdir(where) if f.endswith(".part")], os.listdir(where))
    return result


def fails(name, text, path, sha256=None, left=(), **more):
    where = more.pop("folder", None) or folder()
    result, message = fetch(path, sha256, folder=where, **more)
    check(name, not result and text in message, (result, message))
    there = sorted(os.listdir(where)) if os.path.isdir(where) else []
    check(f"  leaves {list(left)}", there == sorted(left), there)


path = works("a file", "good?version=1#top")
check("its name", path == "folder1/good", path)
check("only what is necessary is sent", all(set(h) <= {"Host", "User-Agent", "Accept"} for _, h in requests), requests)
works("once", "good?version=1#top", folder="folder1", tries=0)
works("without a checksum", "good", None)
works("redirected", "moved", tries=2)
works("cut twice", "cut", tries=3)
check("it continued", [h.get("Range") for _, h in requests] == [None, "bytes=100000-", "bytes=200000-"], requests)
for server_path, tries in [("good", 1), ("no-ranges", 2), ("wrong-range", 2), ("range-of-nothing", 2)]:
    where = folder()
    os.mkdir(where)
    with open(f"{where}/{server_path}.part", "wb") as file:
        file.write(DATA[:1234])
    works(f"a part that is there: {server_path}", server_path, folder=where, tries=tries)
    check("  its range", requests[0][1].get("Range") == "bytes=1234-", requests)
where = folder()
os.mkdir(where)
with open(f"{where}/good.part", "wb") as file:
    file.write(b"x" * 1234)
works("a part of something else", "good", folder=where, tries=2)

fails("cut, without a checksum", "transfer closed with 200000 bytes remaining to read", "cut")
fails("longer than it is", "transfer closed with 1000 bytes remaining", "long")
fails("shorter than it is", f"and {SUM} is expected; it may have changed", "short", SUM)
fails("another file", "is expected; it may have changed, or something else answered", "good", "0" * 64)
fails("no answer", "Empty reply from server", "nothing", SUM)
fails("no such file", "error: 404", "none", SUM)
fails("in a circle", "Maximum (10) redirects followed", "circle")
fails("ever deeper", "Maximum (10) redirects followed", "deeper")
fails("to a file", "file\" not supported or disabled in libcurl", "to-file")
fails("to another protocol", "ftp\" not supported or disabled in libcurl", "to-ftp")
fails("above the limit", "has more than 299999 bytes, which is the limit", "good", SUM, limit=299999)
fails("above the limit, without a length", "has more than 500000 bytes, which is the limit", "endless", limit=500000)
works("at the limit", "good", limit=300000)
fails("stalls", "Operation too slow", "stalls", SUM, ["stalls.part"], stall=1)
fails("says nothing", "Operation too slow", "silent", stall=1)
fails("stopped", "was stopped", "good", progress=PROGRESS(lambda *_: False))
seen = []
works("progress", "good", progress=PROGRESS(lambda _, now, total: seen.append((now, total)) or True))
check("  with all bytes", seen and seen[-1] == (300000, 300000) and seen == sorted(seen), seen[-3:])
fails("no connection", "Failed to connect to 127.0.0.1 port 1", None, url="http://127.0.0.1:1/x")
for url, text in [("file:///etc/passwd", "http:// or https://"), ("", "http:// or https://"), ("http://a b/", "a blank"),
                  ("http://127.0.0.1/" + "x" * 3000, "more than 2,048 bytes")]:
    fails(f"the address {url[:30]}", text, None, url=url)
fails("a checksum", "64 hexadecimal digits", "good", "12")
fails("a limit", "negative", "good", limit=-1)
fails("a message without the password", "cannot fetch http://127.0.0.1:1/x: ", None,
      url="http://me:secret@127.0.0.1:1/x?token=1")
os.mkdir("locked")
with open("locked/good", "wb") as file:
    file.write(b"another file")
fails("a wrong file that is there", "delete the file, so that it is fetched again", "good", SUM, ["good"], folder="locked")
fails("a folder that cannot be made", "cannot make the folder", "good", folder="locked/good/x")

# The mark of a checked file does not hold for one that changed later.
path = works("a checked file", "good")
with open(path, "r+b") as file:
    file.write(b"changed")
stamp = os.stat(path).st_mtime + 10
os.utime(path, (stamp, stamp))
result, message = fetch("good", SUM, folder=os.path.dirname(path))
check("which changed later", not result and "is expected; delete the file" in message, message)

# Several threads fetch one file; one does.
requests.clear()
results = []
threads = [threading.Thread(target=lambda: results.append(fetch("good", SUM, folder="shared"))) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
check("six threads, one request", len(requests) == 1 and [r[0] for r in results] == ["shared/good"] * 6, (requests, results))

# The cache has a limit, and keeps what was used last.
os.environ["HAUL_CACHE_DIR"] = os.path.abspath("cache2")
paths = []
for i in range(3):
    paths.append(fetch(f"good{i}", SUM, cache_limit=950000)[0])
    os.utime(paths[-1], (i + 1, i + 1))
check("a cache with three files", all(paths) and all(map(os.path.exists, paths)), paths)
fetch("good0", SUM, cache_limit=950000)  # used again
paths.append(fetch("good3", SUM, cache_limit=950000)[0])
check("the one that was not used for longest is gone", [os.path.exists(p) for p in paths] == [True, False, True, True], paths)
check("with its mark", len(os.listdir("cache2/downloads")) == 6, os.listdir("cache2/downloads"))

# Proxies and passwords are found where curl looks for them.
os.environ["http_proxy"] = HOST
works("through a proxy", None, url="http://data.invalid/good")
check("which gets the address", requests[0][0] == "http://data.invalid/good", requests)
del os.environ["http_proxy"]
with open(".netrc", "w") as file:
    file.write("machine 127.0.0.1 login me password secret\n")
os.chmod(".netrc", 0o600)
works("with a password", "good")
check("of .netrc", "Authorization" in requests[0][1], requests)
over.set()
sys.exit(1 if failures else 0)
