#!/usr/bin/env python3
"""The same work done by PyTorch, for tools/bench.

Reads names of cases from standard input and answers each with one measurement, "ok WALL CPU" (seconds a run) or
"out REASON", as our own programs do with --serve. `peer.py --version` prints PyTorch's version.
"""

import functools
import os
import re
import resource
import subprocess
import sys
import time
import warnings

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except Exception as error:  # not installed, or broken
    sys.exit(f"torch cannot be imported: {error}")

import peer_networks
import peer_operations

ENOUGH = 0.1  # seconds of a measurement
KEPT = 4  # cases that stay open
CORES = len(os.sched_getaffinity(0))


def train(model, batch, threads, channels_last=False, compiled=False):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net, loss_of = peer_networks.NETWORKS[model](), nn.CrossEntropyLoss()
    x, y = peer_networks.batch_for(model, batch)
    if channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    forward = torch.compile(net) if compiled else net

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(forward(x), y).backward()
        optimizer.step()

    return repeat(step)


def train_layer(kind, threads, compiled=False):
    """As bench/layers.c."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if kind == "encoder":
        layer, x = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True), torch.rand(16, 64, 256)
    else:
        layer, x = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](128, 256, batch_first=True), torch.rand(32, 64, 128)
    forward = torch.compile(layer) if compiled else layer

    def step():
        layer.zero_grad(set_to_none=True)
        y = forward(x)
        (y if kind == "encoder" else y[0]).square().mean().backward()

    return repeat(step)


def train_dense(fused):
    """10 inputs, 16 hidden values, 1 output. `fused` updates all parameters in one call."""
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    x, y = torch.rand(32, 10), torch.rand(32, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=fused)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(net(x), y).backward()
        optimizer.step()

    return repeat(step)


def repeat(work):
    def run(times):
        for _ in range(times):
            work()

    return run


def chain(compiled):
    """As bench/fusion.c: two or five operations on a vector, or, if `length` is 0, the mean of squares."""

    def open_sizes(length, n):
        works = {
            0: lambda x: (x - 1).square().mean(),
            2: lambda x: x * 2 + 1,
            5: lambda x: (x * 2 + 1).relu() * x + 1,
        }
        work, x = torch.compile(works[length]) if compiled else works[length], torch.randn(n)
        return repeat(lambda: work(x))

    return open_sizes


def tiny(work, grad=False):
    a, b = torch.full((1, 1), 1.0, requires_grad=grad), torch.full((1, 1), 2.0)
    return repeat(lambda: work(a, b))


def add_often(a, b, times: int):
    y = a
    for _ in range(times):
        y = torch.add(y, b)  # of the last one, so that none can be left out
    return y


def scripted_add():
    """Without Python's own time: the loop runs in TorchScript's interpreter."""
    a, b = torch.full((1, 1), 1.0), torch.full((1, 1), 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TorchScript is deprecated
        scripted = torch.jit.script(add_often)
    return lambda times: scripted(a, b, times)


def matmul(dtype=torch.float32):
    def open_sizes(m, n, k, a_transposed, b_transposed, batch):
        def operand(rows, columns, transposed):
            sizes = ((batch,) if batch else ()) + ((columns, rows) if transposed else (rows, columns))
            x = torch.rand(sizes).to(dtype)
            return x.transpose(-2, -1) if transposed else x

        a, b = operand(m, k, a_transposed), operand(k, n, b_transposed)
        return repeat(lambda: a @ b)

    return open_sizes


def matmul_into(m, n, k):
    a, b, out = torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)
    return repeat(lambda: torch.matmul(a, b, out=out))


def conv(layout=torch.contiguous_format):
    def open_sizes(passes, n, c_in, size, c_out, kernel, stride, padding):
        grad, out = passes > 1, (size + 2 * padding - kernel) // stride + 1
        x = torch.rand(n, c_in, size, size).to(memory_format=layout).requires_grad_(grad)
        weight = torch.rand(c_out, c_in, kernel, kernel).to(memory_format=layout).requires_grad_(grad)
        bias = torch.rand(c_out, requires_grad=grad)
        dy = torch.rand(n, c_out, out, out).to(memory_format=layout)

        def forward():
            return F.conv2d(x, weight, bias, stride=stride, padding=padding)

        if not grad:
            return repeat(forward)
        return repeat(lambda: torch.autograd.grad(forward(), (x, weight, bias), dy))

    return open_sizes


def indexing(work, both=False, picks_rows=False):
    """On x [rows, columns] and indices into its rows, or `count` into each of them; `both`: the gradient, too."""

    def open_sizes(rows, columns, count=0):
        x = torch.randn(rows, columns, requires_grad=both)
        at = torch.randint(0, rows if picks_rows else columns, (count,) if picks_rows else (rows, count))
        seed = torch.ones(*at.shape, columns) if picks_rows else torch.ones(*at.shape)
        if both:
            return repeat(lambda: torch.autograd.grad(work(x, at, seed), x, seed))
        return repeat(lambda: work(x, at, seed))

    return open_sizes


class Pictures(torch.utils.data.Dataset):
    """What torchvision's CIFAR10 does with ToTensor, Normalize and perhaps RandomCrop and RandomHorizontalFlip."""

    def __init__(self, count, changing):
        self.changing = changing
        self.pictures = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8)

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        x = self.pictures[i]
        if self.changing:
            row, column = torch.randint(0, 9, (2,)).tolist()
            x = F.pad(x, (4, 4, 4, 4))[:, row : row + 32, column : column + 32]
            x = x.flip(-1) if torch.rand(1) < 0.5 else x
        return x.float().div_(255).sub_(0.5).div_(0.5), 0


def loader(workers, changing):
    torch.set_num_threads(1)  # tiny operations: more would only cost
    batches = torch.utils.data.DataLoader(
        Pictures(10000, changing), batch_size=64, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )

    def epoch():
        for _ in batches:
            pass

    return repeat(epoch)


def start():
    return repeat(lambda: subprocess.run([sys.executable, "-c", "import torch"], check=True))


CASES = {
    "train dense": lambda: train_dense(False),
    "train dense fused": lambda: train_dense(True),
    "empty 1 MiB": lambda: repeat(lambda: torch.empty(512, 512)),
    "add 1x1": lambda: tiny(lambda a, b: torch.add(a, b)),
    "add_ 1x1": lambda: tiny(lambda a, b: a.add_(b)),
    "add 1x1 graph": lambda: tiny(lambda a, b: torch.add(a, b), grad=True),
    "add 1x1 script": scripted_add,
    "import": start,
}


# "train resnet18 channels_last 2 compiled": a network or a layer, its format, its threads; by torch.compile.
NETWORKS = {"simplecnn": 64, "resnet18": 32, "char_gpt": 64, "unet": 64}
for compiled in (False, True):
    for n in (1, 2):
        way = f"{n} compiled" if compiled else f"{n}"
        for kind in ("lstm", "gru", "encoder"):
            CASES[f"layer {kind} {way}"] = functools.partial(train_layer, kind, n, compiled)
        for model, batch in NETWORKS.items():
            CASES[f"train {model} {way}"] = functools.partial(train, model, batch, n, False, compiled)
            CASES[f"train {model} channels_last {way}"] = functools.partial(train, model, batch, n, True, compiled)


# Cases whose names go on with their numbers, "matmul 64 120 400 0 1".
FAMILIES = {
    "matmul": matmul(),
    "matmul f16": matmul(torch.float16),
    "matmul bf16": matmul(torch.bfloat16),
    "matmul_into": matmul_into,
    "conv": conv(),
    "conv channels_last": conv(torch.channels_last),
    "loader": loader,
    "chain": chain(False),
    "chain compiled": chain(True),
    "embedding": indexing(lambda x, at, seed: F.embedding(at, x), picks_rows=True),
    "embedding_grad": indexing(lambda x, at, seed: F.embedding(at, x), both=True, picks_rows=True),
    "index_select": indexing(lambda x, at, seed: x.index_select(0, at), picks_rows=True),
    "index_select_grad": indexing(lambda x, at, seed: x.index_select(0, at), both=True, picks_rows=True),
    "gather": indexing(lambda x, at, seed: x.gather(1, at)),
    "gather_grad": indexing(lambda x, at, seed: x.gather(1, at), both=True),
    "scatter_add": indexing(lambda x, at, seed: x.scatter_add(1, at, seed)),
    "cumsum_rows": indexing(lambda x, at, seed: x.cumsum(1)),
    "cumsum_columns": indexing(lambda x, at, seed: x.cumsum(0)),
    "max_with_indices": indexing(lambda x, at, seed: x.max(1)),
    "sort": indexing(lambda x, at, seed: x.sort(1)),
    "sort_columns": indexing(lambda x, at, seed: x.sort(0)),
}


def open_case(name):
    torch.set_num_threads(CORES)
    if name in CASES:
        return CASES[name]()
    family, numbers = re.fullmatch(r"(.*?)((?: \d+)+|(?: \d+(?:x\d+)*))", name).groups()
    if family in FAMILIES:
        return FAMILIES[family](*map(int, numbers.split()))
    return peer_operations.open_operation(family, [int(n) for n in numbers.split("x")])


def blas():
    """The BLAS library in use, by its path: the reference one is fifty times slower than OpenBLAS."""
    torch.rand(8, 8) @ torch.rand(8, 8)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        names = {os.path.basename(os.path.realpath(line.split()[-1])) for line in maps}
    return ", ".join(sorted(n for n in names if "blas" in n or "mkl_rt" in n)) or "built in"


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def measure(run, times):
    cpu, wall = cpu_seconds(), time.perf_counter()
    run(times)
    wall = time.perf_counter() - wall
    return wall / times, (cpu_seconds() - cpu) / times


def how_often(run):
    """How many runs fill a measurement."""
    times = 1
    for _ in range(12):
        wall, _ = measure(run, times)
        wanted = ENOUGH / max(wall, 1e-9)
        if wanted <= times * 1.5:
            break
        times = times * 10 if wanted > times * 10 else int(wanted)
    return times


def serve(open_case=open_case):
    opened = {}  # name -> run, times and threads of the last few cases, which take turns and may be long to open
    for line in sys.stdin:
        name = line.rstrip("\n")
        try:
            if name not in opened:
                if len(opened) == KEPT:
                    del opened[next(iter(opened))]
                run = open_case(name)
                opened[name] = run, how_often(run), torch.get_num_threads()
            run, times, threads = opened[name]
            torch.set_num_threads(threads)
            print("ok %.9g %.9g" % measure(run, times), flush=True)
        except Exception as error:
            opened.pop(name, None)
            print("out", " ".join(str(error).split())[:200] or type(error).__name__, flush=True)


def describe():
    """PyTorch's version, its BLAS, and the instructions that it uses."""
    config = torch.__config__.show()
    mkl = re.search(r"Math Kernel Library Version ([\d.]+)", config)
    capability = re.search(r"CPU capability usage: (\S+)", config)
    library = f"MKL {mkl.group(1)}" if mkl else blas()
    return f"{torch.__version__} with BLAS {library}, CPU capability {capability.group(1) if capability else 'unknown'}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(describe())
    else:
        serve()
