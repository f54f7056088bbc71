#!/usr/bin/env python3
"""The same work done by PyTorch, for tools/bench.

Reads names of cases from standard input and answers each with one measurement, "ok WALL CPU" (seconds a run) or
"out REASON", as our own programs do with --serve. `peer.py --version` prints PyTorch's version.
"""

import os
import resource
import subprocess
import sys
import time

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except Exception as error:  # not installed, or broken
    sys.exit(f"torch cannot be imported: {error}")

ENOUGH = 0.1  # seconds of a measurement
M = 1 << 20


class SimpleCnn(nn.Module):
    """The network of PyTorch's CIFAR-10 tutorial."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def train(threads, channels_last=False):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net, loss_of = SimpleCnn(), nn.CrossEntropyLoss()
    x, y = torch.rand(64, 3, 32, 32), torch.randint(0, 10, (64,))
    if channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(net(x), y).backward()
        optimizer.step()

    return repeat(step)


def repeat(work):
    def run(times):
        for _ in range(times):
            work()

    return run


def tiny(work):
    torch.set_num_threads(2)
    a, b = torch.full((1, 1), 1.0), torch.full((1, 1), 2.0)
    return repeat(lambda: work(a, b))


@torch.jit.script
def add_often(a, b, times: int):
    y = a
    for _ in range(times):
        y = torch.add(y, b)  # of the last one, so that none can be left out
    return y


def scripted_add():
    """Without Python's own time: the loop runs in TorchScript's interpreter."""
    a, b = torch.full((1, 1), 1.0), torch.full((1, 1), 2.0)
    return lambda times: add_often(a, b, times)


def vector(work, size):
    torch.set_num_threads(2)
    a = torch.rand(size) * 2 - 1
    return repeat(lambda: work(a))


def matmul(m, n, k, a_transposed, b_transposed):
    torch.set_num_threads(2)
    a = torch.rand(k, m).t() if a_transposed else torch.rand(m, k)
    b = torch.rand(n, k).t() if b_transposed else torch.rand(k, n)
    return repeat(lambda: a @ b)


def conv(passes, n, c_in, size, c_out, kernel, stride, padding):
    torch.set_num_threads(2)
    grad, out = passes > 1, (size + 2 * padding - kernel) // stride + 1
    x = torch.rand(n, c_in, size, size, requires_grad=grad)
    weight = torch.rand(c_out, c_in, kernel, kernel, requires_grad=grad)
    bias = torch.rand(c_out, requires_grad=grad)
    dy = torch.rand(n, c_out, out, out)

    def forward():
        return F.conv2d(x, weight, bias, stride=stride, padding=padding)

    if not grad:
        return repeat(forward)
    return repeat(lambda: torch.autograd.grad(forward(), (x, weight, bias), dy))


def indexing(work, both=False, picks_rows=False):
    """On x [rows, columns] and indices into its rows, or `count` into each of them; `both`: the gradient, too."""

    def open_sizes(rows, columns, count=0):
        torch.set_num_threads(2)
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
    "train 1": lambda: train(1),
    "train 2": lambda: train(2),
    "train channels_last 1": lambda: train(1, True),
    "train channels_last 2": lambda: train(2, True),
    "add 1x1": lambda: tiny(lambda a, b: torch.add(a, b)),
    "add_ 1x1": lambda: tiny(lambda a, b: a.add_(b)),
    "add 1x1 script": scripted_add,
    "affine 16 M": lambda: vector(lambda a: a * 2 + 1, 16 * M),
    "exp 4 M": lambda: vector(torch.exp, 4 * M),
    "tanh 4 M": lambda: vector(torch.tanh, 4 * M),
    "gelu 4 M": lambda: vector(F.gelu, 4 * M),
    "sum 16 M": lambda: vector(torch.sum, 16 * M),
    "import": start,
}


# Cases whose names go on with their numbers, "matmul 64 120 400 0 1".
FAMILIES = {
    "matmul": matmul,
    "conv": conv,
    "loader": loader,
    "embedding": indexing(lambda x, at, seed: F.embedding(at, x), picks_rows=True),
    "embedding_grad": indexing(lambda x, at, seed: F.embedding(at, x), both=True, picks_rows=True),
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
    if name in CASES:
        return CASES[name]()
    family, *numbers = name.split()
    return FAMILIES[family](*map(int, numbers))


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
    name, run, times = None, None, 0
    for line in sys.stdin:
        wanted = line.rstrip("\n")
        try:
            if wanted != name:
                name, run = wanted, open_case(wanted)
                times = how_often(run)
            print("ok %.9g %.9g" % measure(run, times), flush=True)
        except Exception as error:
            name = None
            print("out", " ".join(str(error).split())[:200] or type(error).__name__, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(torch.__version__, "with BLAS", blas())
    else:
        serve()
