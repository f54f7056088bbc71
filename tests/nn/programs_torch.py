#!/usr/bin/python3
"""Six programs of examples/ print the losses of their PyTorch forms in docs/pytorch-programs.md, and have at most 1.5 times
the lines. The PyTorch forms draw Haul's random numbers here: both begin with the same weights, and see the same data and
noise. Both make fewer steps, because rounding differs, and training makes differences grow; and they print more digits."""
# ctest: labels=once
import contextlib
import io
import os
import re
import subprocess
import sys

build, source = os.environ["HAUL_BUILD"], os.environ["HAUL_SOURCE"]
# (heading, program, constant and its value here, tolerances for lines that begin so). A number may differ from PyTorch's by
# this share of the larger one, and by one unit of the last of 8 decimals. "0.02 absolute" is a difference instead.
# In `dcgan` biases precede batch norms. Their gradients consist of rounding errors, from which Adam makes whole steps. A
# batch norm subtracts them in training. In evaluation its running mean is a few steps late. In `actor_critic` a difference
# by rounding may choose another action; then a pole falls at another time, and one fall is 0.08 %. One sign is 2 %.
PROGRAMS = [
    ("A variational autoencoder", "vae", ("STEPS", 400, 100), {"step 1:": 1e-5, "step 100:": 1e-3}),
    ("A generative adversarial network", "dcgan", ("STEPS", 150, 20),
     {"step 1:": 1e-5, "step 20:": 1e-3, "mean": "0.02 absolute"}),
    ("A siamese network", "siamese", ("STEPS", 400, 100), {"step 1:": 1e-5, "step 100:": 1e-3, "unknown": "2.1 absolute"}),
    ("A time series with L-BFGS", "time_series", ("STEPS", 4, 4), {"step": 1e-4}),
    ("Style transfer", "style", ("STEPS", 60, 60), {"step": 1e-4}),
    ("An actor and a critic", "actor_critic", ("UPDATES", 200, 20), {"update 1:": 1e-5, "update 20:": "0.2 absolute"}),
]
MOST_LINES, SAME_CHARACTERS = 1.5, 0.9
NUMBER = re.compile(r"-?\d+\.\d+")
failures = []


def check(name, right, complaint):
    if not right:
        print(f"{name}: {complaint}", file=sys.stderr)
        failures.append(name)


def block(text, heading, language):
    """The block of this language below the heading."""
    below = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return below.split(f"```{language}\n", 1)[1].split("```\n", 1)[0]


def shorter(name, code, constant, value, new):
    """The program with another number of steps."""
    before, lines = 0, code.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("enum {"):  # C: STEPS = 400
            lines[i], before = re.subn(rf"\b{constant} = {value}\b", f"{constant} = {new}", line)
        elif re.match(r"[A-Z, ]+ = ", line) and constant in line:  # Python: SIZE, STEPS = 16, 400
            names, values = (part.split(", ") for part in line.split(" = "))
            before = values[names.index(constant)] == str(value)
            values[names.index(constant)] = str(new)
            lines[i] = f"{', '.join(names)} = {', '.join(values)}"
        if before:
            return "\n".join(lines)
    check(name, False, f"no line says that {constant} is {value}")
    return code


def draw_from_haul(torch, haul):
    """Let PyTorch's random functions return Haul's numbers, also to layers that initialise their weights."""
    def uniform(self, begin=0.0, end=1.0, generator=None):
        with torch.no_grad():
            return self.copy_(torch.from_dlpack(haul.uniform(list(self.shape), begin, end)))

    def normal(*shape, device=None):
        return torch.from_dlpack(haul.normal(list(shape), 0, 1))

    def integers(low, high, shape, device=None):
        return torch.from_dlpack(haul.randint(list(shape), low, high))

    def multinomial(self, count):
        return torch.from_dlpack(haul.multinomial(haul.from_dlpack(self), count, True))

    torch.manual_seed = haul.manual_seed
    torch.Tensor.uniform_ = uniform
    torch.randn = normal
    torch.randn_like = lambda like: normal(*like.shape)
    torch.randint = integers
    torch.Tensor.multinomial = multinomial


def torch_prints(name, code):
    printed = io.StringIO()
    sys.argv = [name + ".py", "cpu"]
    with contextlib.redirect_stdout(printed):
        exec(compile(re.sub(r":\.\df}", ":.8f}", code), name + ".py", "exec"), {"__name__": "__main__"})
    return printed.getvalue().splitlines()


def haul_prints(name, code):
    with open(name + ".c", "w", encoding="utf-8") as file:
        file.write(re.sub(r"%\.\df", "%.8f", code))
    subprocess.run([os.environ["HAUL_CC"], "-std=c11", "-I", source + "/include", name + ".c", "-o", name,
                    "-L", build, "-lhaul", "-lm", "-Wl,-rpath," + build], check=True)
    done = subprocess.run([f"./{name}", "cpu"], capture_output=True, text=True)
    check(name, done.returncode == 0, f"failed: {done.stderr}")
    return done.stdout.splitlines()


def near(a, b, tolerance):
    if isinstance(tolerance, str):
        return abs(a - b) <= float(tolerance.split()[0])
    return abs(a - b) <= tolerance * max(abs(a), abs(b)) + 1.01e-8


def compare(name, own, torchs, tolerances):
    check(name, len(own) == len(torchs), f"{len(own)} lines of output, and {len(torchs)} of PyTorch's")
    for a, b in zip(own, torchs):
        if not re.search("[a-z]", a):  # a row of pictures, in characters
            same = sum(x == y for x, y in zip(a, b))
            check(name, len(a) == len(b) and same >= SAME_CHARACTERS * len(a), f"{a}\n{b} is PyTorch's row")
            continue
        print(f"{name}: {a}; PyTorch: {b}")
        numbers = [[float(n) for n in NUMBER.findall(line)] for line in (a, b)]
        tolerance = next((t for begin, t in tolerances.items() if a.startswith(begin)), 0)
        check(name, NUMBER.sub("", a) == NUMBER.sub("", b) and numbers[0], f"{a}, but PyTorch's line is {b}")
        check(name, all(near(x, y, tolerance) for x, y in zip(*numbers)), f"{a}, and not within {tolerance} of {b}")


with open(source + "/docs/pytorch-programs.md", encoding="utf-8") as file:
    text = file.read()
for heading, name, _, _ in PROGRAMS:
    ours, theirs = (len(block(text, heading, language).splitlines()) for language in ("c", "python"))
    print(f"{name}: {ours} lines, {theirs} of PyTorch's: {ours / theirs:.2f}")
    check(name, ours <= MOST_LINES * theirs, f"{ours} lines are more than {MOST_LINES} times PyTorch's {theirs}")
if failures:
    sys.exit(1)
sys.path.insert(0, build + "/python")
try:
    import torch
    import haul
    torch.from_dlpack
except (ImportError, AttributeError) as error:
    print(f"skipped: PyTorch or the Python package is missing: {error}")
    sys.exit(77)
torch.set_num_threads(1)
haul.set_device("cpu")
draw_from_haul(torch, haul)
for heading, name, steps, tolerances in PROGRAMS:
    c, python = (shorter(name, block(text, heading, language), *steps) for language in ("c", "python"))
    compare(name, haul_prints(name, c), torch_prints(name, python), tolerances)
sys.exit(bool(failures))
