"""examples/char_gpt.c trains as its PyTorch version does: from the same weights the losses of 50 steps are equal to 1e-5,
on the CPU and on a second device."""
# ctest: labels=once
import json
import os
import re
import subprocess
import sys

source, build = os.environ["HAUL_SOURCE"], os.environ["HAUL_BUILD"]
golden = f"{source}/tests/golden/char_gpt"
with open(f"{golden}.json", encoding="ascii") as f:
    wanted = json.load(f)["losses"]
assert len(wanted) == 50 and wanted[-1] < wanted[0] - 0.5

for device in ["cpu", os.environ.get("HAUL_EXAMPLE_DEVICE", "opencl:0")]:
    done = subprocess.run([f"{build}/examples/char_gpt", device, "50", f"{golden}.txt", f"{golden}.safetensors"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    losses = [float(x) for x in re.findall(r"^step \d+: loss (\S+)$", done.stdout, re.M)]
    if done.returncode or len(losses) != 50:
        sys.exit(f"{device}: exit {done.returncode}, {len(losses)} losses: {done.stderr}")
    off = max(abs(a - b) for a, b in zip(losses, wanted))
    print(f"{device}: off by {off:.2g} at most")
    if not off <= 1e-5:
        sys.exit(f"{device}: the losses differ from PyTorch's by {off}")
