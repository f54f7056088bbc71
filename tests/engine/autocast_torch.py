#!/usr/bin/python3
"""The dtypes of results within autocast are PyTorch's, for the operations that PyTorch's autocast of the CPU has rules
for: the lower dtype, f32, the widest. (Its rules for softmax, exp and sum are those of CUDA devices only, which cannot be
asked here.)"""
# ctest: labels=once
import ctypes
import os
import sys

try:
    import torch
    import torch.nn.functional as F
    torch.autocast
except (ImportError, AttributeError):
    print("skipped: PyTorch is not installed")
    sys.exit(77)
if os.environ.get("HAUL_SANITIZE"):
    print("skipped: a library with sanitizers cannot be loaded into Python")
    sys.exit(77)

CODES = {torch.int64: 6, torch.bfloat16: 8, torch.float32: 9, torch.float64: 10}


class Shape(ctypes.Structure):
    _fields_ = [("ndim", ctypes.c_int), ("dims", ctypes.c_int64 * 8)]


class Conv2d(ctypes.Structure):
    _fields_ = [("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p), ("stride", ctypes.c_int64 * 2), ("padding", ctypes.c_int64 * 2),
                ("dilation", ctypes.c_int64 * 2), ("groups", ctypes.c_int64), ("relu", ctypes.c_bool)]


class Linear(ctypes.Structure):
    _fields_ = [("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p), ("relu", ctypes.c_bool)]


class Loss(ctypes.Structure):
    """The options of every loss begin so; the others are not given."""
    _fields_ = [("target", ctypes.c_void_p), ("rest", ctypes.c_int64 * 8)]


haul = ctypes.CDLL(os.path.join(os.environ["HAUL_BUILD"], "libhaul.so"))
P, S, I = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
for name, result, arguments in [
        ("haul_scope_push", P, []), ("haul_error_message", S, []), ("haul_dtype_name", S, [I]),
        ("haul_from_host", P, [I, Shape, P]), ("haul_tensor_dtype", I, [P]), ("haul_autocast_begin", ctypes.c_uint32, [S, I]),
        ("haul_linear_with", P, [P, P]), ("haul_matmul", P, [P, P]), ("haul_conv2d_with", P, [P, P]),
        ("haul_mse_loss_with", P, [P, P]), ("haul_cross_entropy_with", P, [P, P]), ("haul_nll_loss_with", P, [P, P]),
        ("haul_bce_with_logits_with", P, [P, P]), ("haul_add", P, [P, P]), ("haul_mul", P, [P, P]), ("haul_relu", P, [P]),
        ("haul_cat", P, [P, I, I]), ("haul_stack", P, [P, I, I]), ("haul_transpose", P, [P, I, I])]:
    getattr(haul, name).restype = result
    getattr(haul, name).argtypes = arguments


def of(t):
    t = t.detach().contiguous()
    return haul.haul_from_host(CODES[t.dtype], Shape(t.ndim, (ctypes.c_int64 * 8)(*t.shape)), t.data_ptr())


def joined(function, *ts):
    return function((P * len(ts))(*[of(t) for t in ts]), len(ts), 0)


torch.manual_seed(0)
bf16, x, w, b = torch.bfloat16, torch.rand(4, 6), torch.rand(3, 6), torch.rand(3)
h, y, labels = x.to(bf16), torch.rand(4, 6).to(bf16), torch.tensor([0, 1, 2, 0])
picture, kernel, bias = torch.rand(2, 3, 5, 5), torch.rand(4, 3, 3, 3), torch.rand(4)


def linear(a, k, b):
    return haul.haul_linear_with(of(a), ctypes.byref(Linear(weight=of(k), bias=of(b))))


def convolve(a, k, b):
    return haul.haul_conv2d_with(of(a), ctypes.byref(Conv2d(weight=of(k), bias=of(b))))


def loss(function, a, target):
    return function(of(a), ctypes.byref(Loss(target=of(target))))


CASES = {
    "linear of f32": (lambda: F.linear(x, w, b), lambda: linear(x, w, b)),
    "linear of bf16 and f32": (lambda: F.linear(h, w, b), lambda: linear(h, w, b)),
    "matmul of f32": (lambda: x @ w.t(), lambda: haul.haul_matmul(of(x), haul.haul_transpose(of(w), 0, 1))),
    "matmul of bf16 and f32": (lambda: h @ w.t(), lambda: haul.haul_matmul(of(h), haul.haul_transpose(of(w), 0, 1))),
    "matmul of f64": (lambda: x.double() @ w.double().t(),
                      lambda: haul.haul_matmul(of(x.double()), haul.haul_transpose(of(w.double()), 0, 1))),
    "conv2d of f32": (lambda: F.conv2d(picture, kernel, bias), lambda: convolve(picture, kernel, bias)),
    "mse_loss": (lambda: F.mse_loss(h, y), lambda: loss(haul.haul_mse_loss_with, h, y)),
    "cross_entropy": (lambda: F.cross_entropy(h, labels), lambda: loss(haul.haul_cross_entropy_with, h, labels)),
    "nll_loss": (lambda: F.nll_loss(h, labels), lambda: loss(haul.haul_nll_loss_with, h, labels)),
    "bce": (lambda: F.binary_cross_entropy_with_logits(h, y), lambda: loss(haul.haul_bce_with_logits_with, h, y)),
    "add of bf16 and f32": (lambda: h + x, lambda: haul.haul_add(of(h), of(x))),
    "mul of bf16": (lambda: h * y, lambda: haul.haul_mul(of(h), of(y))),
    "relu of bf16": (lambda: h.relu(), lambda: haul.haul_relu(of(h))),
    "relu of f32": (lambda: x.relu(), lambda: haul.haul_relu(of(x))),
    "cat of bf16 and f32": (lambda: torch.cat([h, x]), lambda: joined(haul.haul_cat, h, x)),
    "cat of bf16": (lambda: torch.cat([h, y]), lambda: joined(haul.haul_cat, h, y)),
    "stack of bf16 and f32": (lambda: torch.stack([h, x]), lambda: joined(haul.haul_stack, h, x)),
}

assert haul.haul_scope_push()
assert haul.haul_autocast_begin(b"cpu", CODES[bf16]) == 0
failed = 0
with torch.autocast("cpu", dtype=bf16):
    for name, (theirs, ours) in CASES.items():
        wanted, got = CODES[theirs().dtype], ours()
        assert got, (name, haul.haul_error_message().decode())
        if haul.haul_tensor_dtype(got) != wanted:
            failed += 1
            print("%s gives %s, PyTorch gives %s" % (name, haul.haul_dtype_name(haul.haul_tensor_dtype(got)).decode(),
                                                     haul.haul_dtype_name(wanted).decode()))
print("%d of %d as PyTorch %s" % (len(CASES) - failed, len(CASES), torch.__version__))
sys.exit(failed != 0)
