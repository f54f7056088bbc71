"""Operations that PyTorch has as one, and Haul as a short expression."""
import math

from .form import ROWS, NoForm, Row, is_array, only, row

# ---- reductions where a mask is true ----

def kept(haul, x, mask, neutral):
    return x if mask is None else haul.where(mask.expand(*x.shape) if mask.shape != x.shape else mask, x,
                                             haul.full_like(x, neutral))


def of_floats(haul, x):
    if not haul.dtype_is_float(x.dtype):
        raise NoForm("the extremes of whole numbers")
    return x


def masked(name, neutral, to=None, floats=False):
    def call(haul, x, dim=None, keepdim=False, dtype=None, mask=None):
        if dtype is not None:
            raise NoForm("dtype")
        if dim == ():
            raise NoForm("no axes")
        x = of_floats(haul, x) if floats else x
        return getattr(haul, to or name)(kept(haul, x, mask, neutral), axes=dim, keepdim=keepdim)
    ROWS["masked." + name] = Row(call)


masked("sum", 0)
masked("prod", 1)
masked("amax", -math.inf, "max", floats=True)
masked("amin", math.inf, "min", floats=True)
masked("logsumexp", -math.inf, floats=True)


@row("masked.mean")
def _(haul, x, dim=None, keepdim=False, dtype=None, mask=None):
    if dtype is not None or dim == ():
        raise NoForm("dtype, or no axes")
    if mask is None:
        return haul.mean(x, axes=dim, keepdim=keepdim)
    count = haul.sum(haul.cast(kept(haul, haul.ones_like(x), mask, 0), "f32"), axes=dim, keepdim=keepdim)
    return haul.sum(kept(haul, x, mask, 0), axes=dim, keepdim=keepdim) / count


def masked_along(name, neutral):
    def call(haul, x, dim, mask=None, dtype=None):
        if dtype is not None:
            raise NoForm("dtype")
        return getattr(haul, name)(kept(haul, x, mask, neutral), dim)
    ROWS["masked." + name] = Row(call)


masked_along("cumsum", 0)
masked_along("cumprod", 1)


def masked_softmax(name, to, sign):
    def call(haul, x, dim, mask=None, dtype=None):
        if dtype is not None:
            raise NoForm("dtype")
        return getattr(haul, to)(kept(haul, x if sign > 0 else haul.neg(x), mask, -math.inf), dim)
    ROWS["masked." + name] = Row(call)


masked_softmax("softmax", "softmax", 1)
masked_softmax("log_softmax", "log_softmax", 1)
masked_softmax("softmin", "softmax", -1)


@row("masked.logaddexp")
def _(haul, x, y, input_mask=None, other_mask=None, dtype=None):
    if dtype is not None:
        raise NoForm("dtype")
    return haul.logaddexp(kept(haul, x, input_mask, -math.inf), kept(haul, y, other_mask, -math.inf))


# ---- indices ----

for how in ("amax", "amin", "mean", "prod"):
    def reduced(haul, x, dim, index, source, reduce, include_self=True):
        if not x.shape:
            raise NoForm("0-d")
        sizes = [1] * len(x.shape)
        sizes[dim] = index.shape[0]
        wide = index.reshape(*sizes).expand(*source.shape) if source.shape else index
        return haul.scatter_reduce(x, dim, wide, source, {"amax": "max", "amin": "min"}.get(reduce, reduce),
                                   exclude_self=not include_self)
    ROWS["index_reduce." + how] = Row(reduced)


@row("put")
def _(haul, x, index, source, accumulate=False):
    count = math.prod(x.shape)
    index = haul.where(index < 0, index + count, index).reshape(-1)
    write = haul.scatter_add if accumulate else haul.scatter
    return write(x.reshape(-1), 0, index, source.reshape(-1)).reshape(x.shape)


@row("unravel_index")
def _(haul, index, shape):
    if max(shape, default=0) > 1 << 53:
        raise NoForm("a size of more than 53 bits")
    results = []
    for n in reversed(shape):
        results.insert(0, haul.remainder(index, n))
        index = haul.floor_div(index, n)
    return tuple(results)


def cuts_of(size, sections):
    if is_array(sections):
        sections = sections.tolist()
    if isinstance(sections, int):
        ends = [(size // sections) * (i + 1) + min(i + 1, size % sections) for i in range(sections)]
        return list(zip([0] + ends[:-1], ends))
    ends = [min(max(i + size if i < 0 else i, 0), size) for i in sections] + [size]
    return [(a, max(a, b)) for a, b in zip([0] + ends[:-1], ends)]


def split_along(haul, x, sections, dim):
    return tuple(haul.slice(x, dim, a, b, 1) for a, b in cuts_of(x.shape[dim], sections))


ROWS["tensor_split"] = Row(lambda haul, x, sections, dim=0: split_along(haul, x, sections, dim), errors=False)
ROWS["hsplit"] = Row(lambda haul, x, sections: split_along(haul, x, sections, min(1, len(x.shape) - 1)), errors=False)
ROWS["vsplit"] = Row(lambda haul, x, sections: split_along(haul, x, sections, 0), errors=False)
ROWS["dsplit"] = Row(lambda haul, x, sections: split_along(haul, x, sections, 2), errors=False)


@row("block_diag", errors=False)
def _(haul, *xs):
    xs = [x.reshape(1, -1) if len(x.shape) < 2 else x for x in xs]
    width, before, rows = sum(x.shape[1] for x in xs), 0, []
    for x in xs:
        sides = [haul.cast(haul.zeros(x.shape[0], n), x.dtype) for n in (before, width - before - x.shape[1])]
        rows.append(haul.cat([sides[0], x, sides[1]], 1))
        before += x.shape[1]
    return haul.cat(rows, 0)


@row("cartesian_prod", errors=False)
def _(haul, *xs):
    if len(xs) == 1:
        return xs[0]
    return haul.stack([g.reshape(-1) for g in haul.meshgrid(list(xs))], 1)


@row("sum_to_size", errors=False)
def _(haul, x, *sizes):
    sizes = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else list(sizes)
    more = len(x.shape) - len(sizes)
    axes = list(range(more)) + [more + i for i, n in enumerate(sizes) if n == 1 and x.shape[more + i] != 1]
    return haul.sum(x, axes=axes, keepdim=True).reshape(*sizes) if axes else x


# ---- mathematics ----

@row("heaviside", gradient=False)
def _(haul, x, values):
    if not haul.dtype_is_float(x.dtype):
        raise NoForm("whole numbers")
    step = haul.where(x > 0, haul.ones_like(x), haul.zeros_like(x))
    return haul.where(haul.isnan(x), x, haul.where(x == 0, values, step))


@row("sinc")
def _(haul, x):
    turned = x * math.pi
    one = haul.ones_like(turned)
    return haul.where(x == 0, one, haul.sin(turned) / haul.where(x == 0, one, turned))


for name, to in (("fmax", "maximum"), ("fmin", "minimum")):
    def without_nan(haul, x, y, to=to):
        if not haul.dtype_is_float(x.dtype):
            return getattr(haul, to)(x, y)
        most = getattr(haul, to)(x, y)
        return haul.where(haul.isnan(x), y + haul.zeros_like(x), haul.where(haul.isnan(y), x, most))
    ROWS[name] = Row(without_nan)

ROWS["logaddexp2"] = Row(lambda haul, x, y: haul.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2))


@row("isclose", gradient=False)
def _(haul, x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
    if not haul.dtype_is_float(x.dtype):
        raise NoForm("whole numbers")
    near = haul.logical_and(haul.abs(x - y) <= haul.abs(y) * rtol + atol, haul.isfinite(y))
    near = haul.logical_or(near, x == y)
    return haul.logical_or(near, haul.logical_and(haul.isnan(x), haul.isnan(y))) if equal_nan else near


@row("nn.functional.softshrink")
def _(haul, x, lambd=0.5):
    return x - haul.clamp(x, -lambd, lambd)


@row("nn.functional.hardshrink")
def _(haul, x, lambd=0.5):
    return haul.where(haul.abs(x) <= lambd, haul.zeros_like(x), x)


# ---- linear algebra ----

@row("cross", "linalg.cross", errors=False)
def _(haul, a, b, dim=None, **k):
    dim = -1 if dim is None else dim
    if a.shape[dim] != 3 or b.shape[dim] != 3:
        raise NoForm("another axis")

    def turned(x, by):
        return haul.roll(x, by, dim)
    return turned(a, -1) * turned(b, -2) - turned(a, -2) * turned(b, -1)


@row("linalg.lu", factor=10, errors=False, gradient=False, post=lambda s, r: r[0] @ r[1] @ r[2])
def _(haul, a, pivot=True):
    n = a.shape[-1]
    if not pivot or a.shape[-2] != n:
        raise NoForm("matrices that are not square, or no pivots")
    factors, order = haul.lu(a)
    lower = haul.tril(factors, -1) + haul.eye(n, n, dtype=a.dtype)
    rows = haul.argsort(order, -1)
    product = haul.matmul(lower, haul.triu(factors, 0))
    return haul.gather(product, -2, haul.unsqueeze(rows, -1).expand(*product.shape))


@row("linalg.pinv.hermitian", factor=100, gradient=False)
def _(haul, a, hermitian=False, **k):
    only(k)
    return haul.pinv(haul.tril(a, 0) + haul.transpose(haul.tril(a, -1), -1, -2), 0)


@row("linalg.tensorsolve", factor=10, errors=False)
def _(haul, a, b, dims=None):
    if dims is not None:
        raise NoForm("an order of axes")
    sizes, n = a.shape[len(b.shape):], math.prod(b.shape)
    return haul.solve(a.reshape(n, n), b.reshape(n)).reshape(*sizes)


@row("linalg.tensorinv", factor=10, errors=False)
def _(haul, a, ind=2):
    n = math.prod(a.shape[:ind])
    return haul.inverse(a.reshape(n, n)).reshape(*a.shape[ind:], *a.shape[:ind])


@row("linalg.cond", factor=100, gradient=False, errors=False)
def _(haul, a, p=None):
    if p not in (None, 2):
        raise NoForm("another norm")
    values = haul.svd(a)[1]
    return haul.max(values, axes=[-1]) / haul.min(values, axes=[-1])


@row("linalg.vander", errors=False)
def _(haul, x, N=None):
    if not x.shape:
        x = x.reshape(1)
    n = x.shape[-1] if N is None else N
    return haul.cumprod(haul.cat([haul.ones_like(haul.unsqueeze(x, -1)), haul.unsqueeze(x, -1).expand(*x.shape, n - 1)],
                                 -1), -1)


# ---- layers ----

@row("nn.functional.pdist", errors=False)
def _(haul, x, p=2.0):
    n = x.shape[0]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    if not pairs:
        raise NoForm("no pairs")
    a, b = (haul.index_select(x, 0, haul.array([pair[k] for pair in pairs])) for k in (0, 1))
    return haul.norm(a - b, p=p, axes=[1])


@row("nn.functional.triplet_margin_with_distance_loss", errors=False)
def _(haul, anchor, near, far, distance_function=None, margin=1.0, swap=False, reduction="mean"):
    if distance_function is not None:
        raise NoForm("a function of Python")
    return haul.triplet_margin_loss(anchor, near, far, margin=margin, swap=swap, reduction=reduction)
