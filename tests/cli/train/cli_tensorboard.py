"""haul train --tensorboard: event files that an independent decoder reads, with right check sums and the values of the
log; and that TensorBoard's own reader reads, where it is installed."""
# ctest: labels=slow
import glob
import json
import math
import os
import re
import struct
import subprocess

HAUL = os.environ["HAUL"]
failures = []


def check(name, fine, what=""):
    print("ok    " if fine else "FAILED", name, "" if fine else what)
    if not fine:
        failures.append(name)


def haul(code, *arguments, **how):
    done = subprocess.run([HAUL, *arguments], capture_output=True, text=True, **how)
    check(f"haul {' '.join(arguments)[:80]} ends with {code}", done.returncode == code,
          f"not {done.returncode}: {done.stderr}")
    return done


# ---- an independent decoder ----

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


check("CRC-32C of RFC 3720", masked_crc(bytes(32)) == ((0x8A9136AA >> 15 | 0x8A9136AA << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def records(path):
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        body = data[at + 12:at + 12 + length]
        check_sum, = struct.unpack_from("<I", data, at + 12 + length)
        if masked_crc(data[at:at + 8]) != crc or masked_crc(body) != check_sum or len(body) != length:
            raise ValueError(f"{path} is damaged at {at}")
        yield body
        at += 16 + length


def fields(data):
    """(number, value) of a message: integers, floats, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        wire = key & 7
        if wire == 0:
            yield key >> 3, varint()
        elif wire == 2:
            length = varint()
            yield key >> 3, data[at:at + length]
            at += length
        else:
            size, form = {1: (8, "<d"), 5: (4, "<f")}[wire]
            yield key >> 3, struct.unpack_from(form, data, at)[0]
            at += size


def decode(path):
    """The version, the steps at which a training goes on, and [(time, step, tag, value)]."""
    version, restarts, values = None, [], []
    for body in records(path):
        event = dict(fields(body))
        if 3 in event:
            version = event[3]
        if 7 in event:
            restarts.append((event[2], dict(fields(event[7]))[1]))
        for _, value in fields(event.get(5, b"")):
            one = dict(fields(value))
            values.append((event[1], event[2], one[1].decode(), one[2]))
    return version, restarts, values


# ---- against the log ----

def expected(run, first=0):
    """(step, tag) -> value, of the events of the log beyond a step."""
    out = {}
    events = [json.loads(line) for line in open(run + "/log.jsonl")]
    start = events[0]
    batches = math.ceil(start["train_examples"] / start["batch"])
    for e in events:
        if e["event"] == "batch":
            step = (e["epoch"] - 1) * batches + e["batch"]
            out.update({(step, "loss/train"): e["loss"], (step, "learning_rate"): e["lr"]})
        elif e["event"] == "epoch":
            step, data = e["epoch"] * batches, "validation" if "validation_loss" in e else "test"
            out.update({(step, "loss/train_epoch"): e["train_loss"], (step, "accuracy/train"): e["train_accuracy"],
                        (step, "loss/" + data): e[data + "_loss"], (step, "accuracy/" + data): e[data + "_accuracy"],
                        (step, "learning_rate"): e["lr"], (step, "examples_per_second"): e["images_per_second"]})
    return {k: v for k, v in out.items() if k[0] > first}


def same(name, got, wanted):
    far = [k for k in wanted if k not in got or not (wanted[k] is None and not math.isfinite(got[k]) or
           wanted[k] is not None and math.isclose(got[k], wanted[k], rel_tol=1e-6))]
    check(f"{name}: {len(wanted)} values as in the log", not far and set(got) == set(wanted) and wanted,
          f"{far[:3]} {set(got) ^ set(wanted)}")


def values_of(path):
    version, restarts, values = decode(path)
    check(f"{path}: version 2", version == b"brain.Event:2", f"{version}")
    check(f"{path}: steps and times ascend", values == sorted(values, key=lambda v: (v[1], v[0])))
    check(f"{path}: each value once", len(values) == len({v[1:3] for v in values}))
    return {(step, tag): value for _, step, tag, value in values}, restarts


def files(run):
    return sorted(glob.glob(run + "/events.out.tfevents.*"))


TRAIN = ["train", "--data", "shapes:320", "--batch", "32", "--log-every", "3", "--quiet", "--device", "cpu"]
haul(0, *TRAIN, "--epochs", "2", "--run", "run", "--tensorboard")
check("one file", len(files("run")) == 1 and
      re.fullmatch(r"run/events\.out\.tfevents\.\d{10}\.[!-~]+\.\d+\.0", files("run")[0]), f"{files('run')}")
values, restarts = values_of(files("run")[0])
same("a run", values, expected("run"))
check("no restart", not restarts)

haul(0, "train", "--run", "run", "--resume", "--epochs", "4", "--tensorboard", "--quiet")
check("a second file", len(files("run")) == 2)
values, restarts = values_of([f for f in files("run") if decode(f)[1]][0])
check("it goes on after step 20", restarts == [(21, 1)], f"{restarts}")
same("the rest of the run", values, expected("run", first=20))

haul(0, *TRAIN, "--epochs", "1", "--run", "validated", "--tensorboard", "--validation", "0.25")
same("validation data", values_of(files("validated")[0])[0], expected("validated"))
haul(0, *TRAIN, "--epochs", "1", "--run", "none")
check("none without --tensorboard", not files("none"))
told = haul(2, *TRAIN, "--tensorboard").stderr
check("it needs a run", "--run DIR" in told and told.count("\n") == 1, told)

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    EventAccumulator = None
    print("TensorBoard is not installed: only the decoder above has read the files")
if EventAccumulator:
    reader = EventAccumulator("run", size_guidance={"scalars": 0})
    reader.Reload()
    got = {(e.step, tag): e.value for tag in reader.Tags()["scalars"] for e in reader.Scalars(tag)}
    same("TensorBoard's own reader", got, expected("run"))
print(f"{len(failures)} failures: {failures}" if failures else "all fine")
raise SystemExit(1 if failures else 0)
