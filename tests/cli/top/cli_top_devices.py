# What haul top reads from devices: NVIDIA's library (the stand-in), and a /sys and /proc of our own.
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["HAUL_SOURCE"], "tests", "support", "python"))
from top import HAUL, check, finish, state, top, train, wait_until  # noqa: E402

STANDIN = {"HAUL_CUDA_LIBRARIES": os.environ["HAUL_BUILD"] + "/tests/standin", "STANDIN_DEVICES": "2", "STANDIN_SENSORS": "1",
           "OCL_ICD_VENDORS": "none"}


def write(path, text):
    path = "root" + path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(f"{text}\n")


def devices(**more):
    return {d["device"]: d for d in state(**more)["devices"]}


# ---- NVIDIA ----

found = devices(**STANDIN, STANDIN_FOREIGN=str(1 << 30))
check("two GPUs and the CPU", list(found) == ["cuda:0", "cuda:1", "cpu"], found)
gpu = found["cuda:0"]
wanted = {"name": "NVIDIA L4 number 0", "bus": "0000:01:00.0", "utilisation": 0.93, "celsius": 71, "watts": 68.1,
          "watts_limit": 72, "mhz": 1980, "joules": 2.5, "up_bytes_per_second": 1.42e9, "down_bytes_per_second": 31e6}
check("its numbers", all(gpu[k] == v for k, v in wanted.items()), gpu)
check("its memory", gpu["memory"]["total"] == 24 << 30 and gpu["memory"]["used"] == 6 << 30, gpu)
check("another process", {"pid": 4242, "name": "?", "bytes": 1 << 30} in gpu["processes"], gpu["processes"])
other = found["cuda:1"]
check("what is not told is null", other["utilisation"] is None and other["watts"] is None, other)
text = top("--once", **STANDIN).stdout
line = next(line for line in text.splitlines() if line.startswith("cuda:1"))
check("a dash for it, and marks on a full and hot device", " - " in line and "23.0!/24.0G" in line and "95!" in line, line)
text = top("--once", **STANDIN, HAUL_CUDA_WITHOUT="nvml").stdout
check("NVIDIA's library is switched off", "cuda    not read: HAUL_CUDA_WITHOUT names nvml" in text and "cpu" in text, text)
check("and the object says so", devices(**STANDIN, HAUL_CUDA_WITHOUT="nvml")["cuda"]["reason"].startswith("HAUL_CUDA"))
check("without the library nothing is said", list(devices(HAUL_CUDA_LIBRARIES="/nowhere"))[-1:] == ["cpu"])

job = train("--device", "cuda:1", **STANDIN)
try:
    with_memory = wait_until(lambda: (d := devices(**STANDIN)["cuda:1"])["memory"]["reserved"] and d)
    check("a training is found on its GPU by the address", bool(with_memory), devices(**STANDIN))
    now = state(**STANDIN)
    process = now["processes"][0]
    check("its device", [d["device"] for d in process["devices"]] == ["cuda:1"], process)
    check("memory agrees", now["devices"][1]["memory"]["allocated"] == process["devices"][0]["allocated"] > 0, now)
    check("the other GPU has none", now["devices"][0]["memory"]["reserved"] == 0, now)
finally:
    job.terminate()
    job.wait()

# ---- known from pages alone ----

known = json.loads(subprocess.run([HAUL, "devices", "--json"], capture_output=True, text=True).stdout)["devices"]
pocl = next((d for d in known if d["name"] == "opencl:0" and d["usable"]), None)
if pocl:
    check("without a process there is no row", "opencl:0" not in devices(), devices())
    jobs = [train("--device", "opencl:0") for _ in range(2)]
    try:
        def both():
            now = state()
            pages = [d for p in now["processes"] for d in p["devices"] if d["device"] == "opencl:0" and d["reserved"]]
            return len(pages) == 2 and ([d for d in now["devices"] if d["device"] == "opencl:0"], pages, now)
        rows, pages, now = wait_until(both)
        check("one row for an OpenCL device that two processes use", len(rows) == 1 and now["devices"][-1] == rows[0], now)
        row = rows[0]
        for what in ("allocated", "reserved"):
            check(f"the sum of what they have {what}", row["memory"][what] == sum(d[what] for d in pages) > 0, now)
        check("its model", row["name"] == pocl["model"][:63] != "opencl:0", f"{row} {pocl}")
        check("what no sensor says is null", row["utilisation"] is row["celsius"] is row["memory"]["used"] is None, row)
        line = next(line for line in top("--once", COLUMNS="160").stdout.splitlines() if line.startswith("opencl:0"))
        top("--once", "--prometheus", "./opencl.prom")
        text = open("opencl.prom").read()
        check("its metrics", re.search(r'^haul_device_memory_reserved_bytes\{device="opencl:0"\} [1-9]', text, re.M) and
              re.search(r'^haul_device_info\{device="opencl:0",name="' + re.escape(row["name"]) + '"', text, re.M) and
              'haul_device_memory_used_bytes{device="opencl:0"}' not in text, text)
        check("a line of text", re.match(r"opencl:0 +" + re.escape(row["name"][:15]), line) and
              re.search(r" \d[\d.]*[KMG] +- +- ", line), line)
    finally:
        for job in jobs:
            job.terminate()
            job.wait()
    check("and none after them", "opencl:0" not in devices(), devices())

# ---- AMD and Intel, from /sys ----

card = "/sys/class/drm/card1"
write(card + "/device/uevent", "DRIVER=amdgpu\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0")
write(card + "/device/gpu_busy_percent", 37)
write(card + "/device/mem_info_vram_total", 16 << 30)
write(card + "/device/mem_info_vram_used", 4 << 30)
write(card + "/device/hwmon/hwmon5/temp1_input", 64500)
write(card + "/device/hwmon/hwmon5/temp1_crit", 110000)
write(card + "/device/hwmon/hwmon5/power1_average", 181000000)
write(card + "/device/hwmon/hwmon5/power1_cap", 300000000)
write(card + "/device/hwmon/hwmon5/freq1_input", 2100000000)
write(card + "/device/hwmon/hwmon5/energy1_input", 5000000)
write("/sys/class/powercap/intel-rapl:0/name", "package-0")
write("/sys/class/powercap/intel-rapl:0/energy_uj", 7000000)
write("/sys/class/drm/card2/device/uevent", "DRIVER=i915\nPCI_ID=8086:56A0\nPCI_SLOT_NAME=0000:04:00.0")
write("/sys/class/drm/card2/gt_act_freq_mhz", 1450)
write("/sys/class/drm/card3/device/uevent", "DRIVER=ast\nPCI_ID=1A03:2000")
write("/sys/class/drm/card4/device/uevent", "DRIVER=nvidia\nPCI_ID=10DE:27B8\nPCI_SLOT_NAME=0000:05:00.0")
write("/proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 50 0 50 400\ncpu1 50 0 50 400")
write("/proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB")
write("/proc/cpuinfo", "processor : 0\nmodel name\t: Made Up 9000\ncpu MHz\t\t: 3410.5")
write("/sys/class/hwmon/hwmon0/name", "acpitz")
write("/sys/class/hwmon/hwmon0/temp1_input", 20000)
write("/sys/class/hwmon/hwmon1/name", "k10temp")
write("/sys/class/hwmon/hwmon1/temp1_input", 84000)
write("/sys/class/hwmon/hwmon1/temp1_crit", 80000)
ROOT = {"HAUL_SENSORS_ROOT": os.path.abspath("root"), "HAUL_CUDA_LIBRARIES": "/nowhere"}
found = devices(**ROOT)
check("cards with a GPU", list(found) == ["card1", "card2", "card4", "cpu"], found)
amd = found["card1"]
wanted = {"name": "amdgpu 1002:744C", "bus": "0000:03:00.0", "utilisation": 0.37, "celsius": 64.5, "watts": 181,
          "watts_limit": 300, "mhz": 2100, "up_bytes_per_second": None}
check("AMD's numbers", all(amd[k] == v for k, v in wanted.items()), amd)
check("AMD's memory", amd["memory"]["total"] == 16 << 30 and amd["memory"]["used"] == 4 << 30, amd)
check("Intel's clock", found["card2"]["mhz"] == 1450 and found["card2"]["memory"]["total"] is None, found["card2"])
check("why NVIDIA's is not read", "libnvidia-ml.so.1" in found["card4"]["reason"], found["card4"])
cpu = found["cpu"]
check("energy starts at 0", cpu["joules"] == 0 and amd["joules"] == 0 and amd["watts"] == 181, (cpu, amd))
check("the CPU", cpu["name"] == "Made Up 9000, 2 cores" and cpu["mhz"] == 3410.5 and cpu["celsius"] == 84, cpu)
check("its memory", cpu["memory"]["total"] == 1024000 and cpu["memory"]["used"] == 600 * 1024, cpu)
check("counts that stand still tell nothing", cpu["utilisation"] is None, cpu)
text = top("--once", **ROOT).stdout
check("hot", "84!" in text and "not read: NVIDIA" in text, text)

write(card + "/device/mem_info_vram_used", "nonsense")
write(card + "/device/gpu_busy_percent", "")
write("/proc/stat", "")
write("/proc/meminfo", "\0\0\0")
found = devices(**ROOT)
check("files without numbers", found["card1"]["memory"]["used"] is None and found["card1"]["utilisation"] is None, found)
check("a machine that tells nothing", devices(HAUL_SENSORS_ROOT="/nowhere", HAUL_CUDA_LIBRARIES="/nowhere")["cpu"]["memory"]["total"] is None)
finish()
