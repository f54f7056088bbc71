#!/usr/bin/env python3
"""The work of bench/gpu done by PyTorch on the GPU that BENCH_DEVICE names; answers as bench/peer.py does."""

import os
import sys

import peer
import peer_networks
import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = torch.device(os.environ.get("BENCH_DEVICE", "cuda:0"))
MIB = 1 << 20


def repeat(work):
    def run(times):
        for _ in range(times):
            work()
        torch.cuda.synchronize(DEVICE)

    return run


def repeat_waiting(work):
    """For work that is waited for each time."""

    def once():
        work()
        torch.cuda.synchronize(DEVICE)

    return repeat(once)


# ---- copies ----


def pinned(up):
    def open_case(mib):
        here = torch.ones(int(mib) * MIB // 4).pin_memory()
        there = torch.ones(int(mib) * MIB // 4, device=DEVICE)
        to, source = (there, here) if up else (here, there)
        return repeat_waiting(lambda: to.copy_(source, non_blocking=True))

    return open_case


def pageable_up(mib):
    here = torch.ones(int(mib) * MIB // 4)
    return repeat_waiting(lambda: here.to(DEVICE))


def pageable_down(mib):
    here, there = torch.ones(int(mib) * MIB // 4), torch.ones(int(mib) * MIB // 4, device=DEVICE)
    return repeat_waiting(lambda: here.copy_(there))


def home(mib):
    there = torch.ones(int(mib) * MIB // 4, device=DEVICE)
    return repeat_waiting(lambda: there.to("cpu"))


# ---- operations ----


def memory(name):
    shape = (16384, 4096)  # 256 MiB
    a, b, c = (torch.rand(shape, device=DEVICE) * 2 - 1 for _ in range(3))
    work = {
        "add": lambda: a + b,
        "relu": lambda: F.relu(a),
        "gelu": lambda: F.gelu(a),
        "mul_add": lambda: a * b + c,
        "sum_all": a.sum,
        "sum_rows": lambda: a.sum(1),
        "sum_columns": lambda: a.sum(0),
        "softmax": lambda: F.softmax(a, 1),
    }
    return repeat(work[name])


def tiny(name, waited=""):
    a, b = torch.full((1, 1), 1.0, device=DEVICE), torch.full((1, 1), 2.0, device=DEVICE)
    work = {"add": lambda: torch.add(a, b), "add_": lambda: a.add_(b)}[name]
    return repeat_waiting(work) if waited else repeat(work)


def matmul(kind, n):
    n = int(n)
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    a, b = (torch.rand((n, n), device=DEVICE).sub_(0.5).to(dtype) for _ in range(2))
    return repeat(lambda: a @ b)


# ---- training ----


def train(model, batch, kind="f32"):
    """kind: "f32" is eager and row-major, as in PyTorch's tutorial, but convolutions compute in f32, which is not
    PyTorch's default; "tf32" is channels-last, with TF32 in convolutions and products; "bf16" is autocast and
    channels-last. The algorithms of convolutions are timed for the last two."""
    torch.manual_seed(0)
    half = kind == "bf16"
    torch.backends.cudnn.benchmark = kind != "f32"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    net = peer_networks.NETWORKS[model]().to(DEVICE)
    x = torch.rand((int(batch), 3, 32, 32), device=DEVICE)
    y = torch.randint(0, 10, (int(batch),), device=DEVICE)
    if kind != "f32":
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()

    return repeat(step)


FAMILIES = {
    "pinned_up": pinned(True),
    "pinned_down": pinned(False),
    "pageable_up": pageable_up,
    "pageable_down": pageable_down,
    "home": home,
    "memory": memory,
    "tiny": tiny,
    "matmul": matmul,
    "train": train,
}


def open_case(name):
    family, *words = name.split()
    return FAMILIES[family](*words)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit(f"torch {torch.__version__} sees no GPU")
    if sys.argv[1:] == ["--version"]:
        print(f"{torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}")
    else:
        peer.serve(open_case)
