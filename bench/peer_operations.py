"""The rows of bench/support/operation.h done by PyTorch: "LABEL SIZES" names an operation on a tensor of these sizes,
"LABEL VARIANT SIZES" another way to write it, of which the fastest counts."""

import torch
import torch.nn.functional as F

try:
    import torchvision.transforms.v2.functional as V
except ImportError:
    V = None

WITH_GRADIENT = " with gradient"
CHANNELS_LAST = " channels_last"

# The operation of x.
PLAIN = {
    "exp": torch.exp,
    "log": torch.log,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "silu": F.silu,
    "softplus": F.softplus,
    "gelu": F.gelu,
    "relu": torch.relu,
    "a*2+1": lambda x: x * 2 + 1,
    "fill": lambda x: x.fill_(1),
    "ones": torch.ones_like,
    "sum": torch.sum,
    "max": torch.max,
    "argmax": torch.argmax,
    "mean": torch.mean,
    "var": torch.var,
    "sum of short rows": lambda x: x.sum(1),
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmax of columns": lambda x: F.softmax(x, 0),
    "copy": torch.clone,
    "f32 to f16": lambda x: x.to(torch.float16),
    "f16 to f32": lambda x: x.to(torch.float32),
    "f32 to bf16": lambda x: x.to(torch.bfloat16),
    "bf16 to f32": lambda x: x.to(torch.float32),
    "transposed copy": lambda x: x.t().contiguous(),
    "permute 0231": lambda x: x.permute(0, 2, 3, 1).contiguous(),
    "permute 0312": lambda x: x.permute(0, 3, 1, 2).contiguous(),
    "slice of rows": lambda x: x[x.shape[0] // 4 : x.shape[0] // 4 + x.shape[0] // 2].clone(),
    "slice of columns": lambda x: x[:, x.shape[1] // 4 : x.shape[1] // 4 + x.shape[1] // 2].contiguous(),
    "every second column": lambda x: x[:, ::2].contiguous(),
    "cat of rows": lambda x: torch.cat((x, x), 0),
    "cat of columns": lambda x: torch.cat((x, x), 1),
    "max_pool 2x2": lambda x: F.max_pool2d(x, 2),
    "avg_pool 2x2": lambda x: F.avg_pool2d(x, 2),
    "max_pool 3x3/2": lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
    "avg_pool 3x3/2": lambda x: F.avg_pool2d(x, 3, stride=2, padding=1),
    "qr": torch.linalg.qr,
    "svd": lambda x: torch.linalg.svd(x, full_matrices=False),
    "fft": lambda x: torch.fft.fft(torch.view_as_complex(x)),
    "fft2": lambda x: torch.fft.fft2(torch.view_as_complex(x)),
    "bicubic": lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"),
    "median": lambda x: torch.median(x, 0),
    "histogram": lambda x: torch.histogram(x, 100).hist,
    "convolve by 1000": lambda x: F.conv1d(x, x[:, :, :1000]),
    "convolve by 31x31": lambda x: F.conv2d(x, x[:, :, :31, :31]),
    "view": lambda x: x.view(2, 5),
    "reshape": lambda x: x.reshape(2, 5),
}
for name in ("sum", "max", "argmax", "mean", "var"):
    method = getattr(torch, "amax" if name == "max" else name)  # max over an axis would also find the indices
    PLAIN[name + " rows"] = lambda x, method=method: method(x, 1)
    PLAIN[name + " columns"] = lambda x, method=method: method(x, 0)
    PLAIN[name + " middle axis"] = lambda x, method=method: method(x, 1)


# Operations with more operands: of an example of x to the operation.
def into(work):
    def made(x):
        out = torch.empty_like(x)
        return lambda x: work(x, out)

    return made


def with_other(work):
    def made(x):
        other = torch.full_like(x, 0.5)
        return lambda x: work(x, other)

    return made


def add_into(x):
    other, out = torch.full_like(x, 0.5), torch.empty_like(x)
    return lambda x: torch.add(x, other, out=out)


def fused_affine(_):
    one = torch.tensor(1.0)
    return lambda x: torch.add(one, x, alpha=2)  # in one pass


def layer_norm(x):
    weight, bias = torch.ones(x.shape[-1]), torch.zeros(x.shape[-1])
    return lambda x: F.layer_norm(x, x.shape[-1:], weight, bias)


def batch_norm(x):
    channels = x.shape[1]
    weight, bias, mean, variance = (make(channels) for make in (torch.ones, torch.zeros, torch.zeros, torch.ones))
    return lambda x: F.batch_norm(x, mean, variance, weight, bias, training=True)


def cross_entropy(x):
    classes = torch.randint(0, x.shape[1], (x.shape[0],))
    return lambda x: F.cross_entropy(x, classes)


def linear(x):
    weight, bias = torch.rand(16, x.shape[1]), torch.rand(16)
    return lambda x: F.linear(x, weight, bias)


def of(prepare, work):
    """An operation of another tensor than x."""

    def made(x):
        operand = prepare(x)
        return lambda _: work(operand)

    return made


def solve(x):
    n = x.shape[-1]
    systems, right = x + n * torch.eye(n), torch.rand(x.shape[0], n, 1)
    return lambda _: torch.linalg.solve(systems, right)


MADE = {
    "solve": solve,
    "cholesky": of(lambda x: x @ x.T + torch.eye(x.shape[0]), torch.linalg.cholesky),
    "eigh": of(lambda x: x + x.T, torch.linalg.eigh),
    "rotate": of(lambda x: x, lambda x: V.rotate(x, 15, V.InterpolationMode.BILINEAR)),
    "unique": of(lambda x: (x * 500).floor(), torch.unique),
    "nonzero": of(F.relu, torch.nonzero),
    "exp into": into(lambda x, out: torch.exp(x, out=out)),
    "copy into": into(lambda x, out: out.copy_(x)),
    "add": with_other(torch.add),
    "add into": add_into,
    "a*2+1 fused": fused_affine,
    "layer_norm": layer_norm,
    "batch_norm": batch_norm,
    "cross_entropy": cross_entropy,
    "linear": linear,
}

DTYPES = {"f16 to f32": torch.float16, "bf16 to f32": torch.bfloat16}


def open_operation(label, sizes):
    """What repeats the operation so many times; KeyError if there is none of that name."""
    variant = label.endswith(CHANNELS_LAST)
    label = label.removesuffix(CHANNELS_LAST)
    gradient = label.endswith(WITH_GRADIENT)
    label = label.removesuffix(WITH_GRADIENT)
    x = (torch.rand(sizes) * 2 - 1).to(DTYPES.get(label, torch.float32))
    if label == "log":
        x = x.abs() + 1e-6
    if variant:
        x = x.to(memory_format=torch.channels_last)
    work = MADE[label](x) if label in MADE else PLAIN[label]
    return repeat_gradient(work, x) if gradient else repeat(work, x)


def repeat(work, x):
    def run(times):
        for _ in range(times):
            work(x)

    return run


def repeat_gradient(work, x):
    x.requires_grad_()
    seed = torch.ones_like(work(x))

    def run(times):
        for _ in range(times):
            torch.autograd.grad(work(x), x, seed)

    return run
