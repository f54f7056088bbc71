"""Views and arrangements of elements."""
from .form import ROWS, NoForm, Row, is_array, only, row


def sizes(given):
    """Sizes as one list: reshape(x, (2, 3)) or reshape(x, 2, 3)."""
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else list(given)


def parts(xs):
    return list(xs[0]) if len(xs) == 1 and isinstance(xs[0], (list, tuple)) else list(xs)


for name, to in (("reshape", "reshape"), ("view", "view"), ("view_copy", "view"), ("expand", "expand"),
                 ("expand_copy", "expand"), ("broadcast_to", "expand"), ("permute", "permute"),
                 ("permute_copy", "permute")):
    ROWS[name] = Row(lambda haul, x, *shape, to=to, implicit=False: getattr(haul, to)(x, sizes(shape)))
for name, to in (("reshape_as", "reshape"), ("view_as", "view"), ("expand_as", "expand")):
    ROWS[name] = Row(lambda haul, x, other, to=to: getattr(haul, to)(x, other.shape))
for name in ("clone", "contiguous", "alias_copy"):
    def copy(haul, x, memory_format=None, name=name):
        return haul.contiguous(x) if name == "contiguous" else haul.clone(x)
    ROWS[name] = Row(copy)
ROWS["ravel"] = Row(lambda haul, x: haul.reshape(x, [-1]))
for name in ("unsqueeze", "unsqueeze_copy"):
    ROWS[name] = Row(lambda haul, x, dim: haul.unsqueeze(x, dim))
for name in ("transpose", "transpose_copy"):
    ROWS[name] = Row(lambda haul, x, dim0, dim1: haul.transpose(x, dim0, dim1))
for name in ("T", "H", "t", "t_copy"):
    ROWS[name] = Row(lambda haul, x: haul.transpose(x, 0, 1) if len(x.shape) > 1 else haul.clone(x),
                     errors=False)
for name in ("mT", "mH"):
    ROWS[name] = Row(lambda haul, x: haul.transpose(x, -2, -1))


@row("flatten")
def _(haul, x, start_dim=0, end_dim=-1):
    rank = max(len(x.shape), 1)
    first, last = start_dim % rank, end_dim % rank
    return haul.reshape(x, list(x.shape[:first]) + [-1] + list(x.shape[last + 1:]))


@row("unflatten")
def _(haul, x, dim, sizes):
    dim = dim % len(x.shape)
    return haul.reshape(x, list(x.shape[:dim]) + list(sizes) + list(x.shape[dim + 1:]))


@row("squeeze", "squeeze.multiple", "squeeze_copy")
def _(haul, x, dim=None):
    rank = max(len(x.shape), 1)
    axes = range(rank) if dim is None else [d % rank for d in ([dim] if isinstance(dim, int) else dim)]
    keep = [n for i, n in enumerate(x.shape) if n != 1 or i not in axes]
    return haul.reshape(x, keep)


for n in (1, 2, 3):
    def at_least(haul, *xs, n=n):
        def one(x):
            rank = len(x.shape)
            shape = list(x.shape) if rank >= n else {0: [1] * n, 1: [1] + list(x.shape) + [1] * (n - 2),
                                                     2: list(x.shape) + [1]}[rank]
            return haul.reshape(x, shape if n > 1 or rank else [1])
        return [one(x) for x in parts(xs)]
    ROWS[f"atleast_{n}d"] = Row(at_least)


@row("movedim", errors=False)
def _(haul, x, source, destination):
    rank = len(x.shape)
    source, destination = ([v % rank for v in ([a] if isinstance(a, int) else a)] for a in (source, destination))
    order = [i for i in range(rank) if i not in source]
    for to, of in sorted(zip(destination, source)):
        order.insert(to, of)
    return haul.permute(x, order)


@row("flip")
def _(haul, x, *axes, dims=None):
    axes = sizes(axes) if dims is None else list(dims)
    return haul.flip(x, axes=axes) if axes else haul.clone(x)


ROWS["fliplr"] = Row(lambda haul, x: haul.flip(x, axes=[1]))
ROWS["flipud"] = Row(lambda haul, x: haul.flip(x, axes=[0]))


@row("rot90", errors=False)
def _(haul, x, k=1, dims=(0, 1)):
    for _ in range(k % 4):
        x = haul.flip(haul.transpose(x, *dims), axes=[dims[0]])
    return haul.clone(x)


@row("roll", errors=False)
def _(haul, x, shifts, dims=None):
    if dims is None:
        return haul.reshape(haul.roll(haul.reshape(x, [-1]), sum(shifts) if isinstance(shifts, tuple) else shifts, 0),
                            x.shape)
    for shift, axis in zip([shifts] if isinstance(shifts, int) else shifts, [dims] if isinstance(dims, int) else dims):
        x = haul.roll(x, shift, axis)
    return haul.clone(x)


@row("repeat")
def _(haul, x, *counts):
    return haul.repeat(x, sizes(counts))


@row("tile")
def _(haul, x, *counts):
    counts = sizes(counts)
    return haul.repeat(x, [1] * (len(x.shape) - len(counts)) + counts)


# ---- parts ----

for name in ("chunk", "unsafe_chunk"):
    def chunked(haul, x, chunks, dim=0):
        return [y for y in haul.chunk(x, dim, chunks) if y.shape[dim] or not x.shape[dim]]
    ROWS[name] = Row(chunked)


@row("split", "split.list_args", "unsafe_split", "split_with_sizes", "split_with_sizes_copy")
def _(haul, x, size, dim=0):
    n = x.shape[dim] if x.shape else 0
    if isinstance(size, int):
        size = [min(size, n - at) for at in range(0, n, size)] if n and size else [0]
    return haul.split(x, dim, list(size))


@row("narrow", "narrow_copy", errors=False)
def _(haul, x, dim, start, length):
    start = start.item() if is_array(start) else start
    start = start + x.shape[dim] if start < 0 else start
    return haul.slice(x, dim, start, start + length, 1)


ROWS["select"] = Row(lambda haul, x, dim, index: haul.select(x, dim, index))


@row("slice")
def _(haul, x, dim=0, start=None, end=None, step=1):
    return haul.slice(x, dim, start or 0, x.shape[dim] if end is None else end, step)


@row("unbind", "unbind_copy")
def _(haul, x, dim=0):
    return [haul.select(x, dim, i) for i in range(x.shape[dim])]


ROWS["cat"] = Row(lambda haul, xs, dim=0: haul.cat(list(xs), dim))
ROWS["stack"] = Row(lambda haul, xs, dim=0: haul.stack(list(xs), dim))
for name, rank, axis in (("hstack", 1, -2), ("vstack", 2, 0), ("dstack", 3, 2), ("column_stack", 0, 1)):
    def stacked(haul, xs, rank=rank, axis=axis):
        if rank:
            xs = ROWS[f"atleast_{rank}d"].call(haul, list(xs))
        else:
            xs = [haul.reshape(x, [-1, 1]) if len(x.shape) < 2 else x for x in xs]
        return haul.cat(list(xs), min(len(xs[0].shape) - 1, 1) if axis == -2 else axis)
    ROWS[name] = Row(stacked)


@row("broadcast_tensors")
def _(haul, *xs):
    rank = max(len(x.shape) for x in xs)
    shapes = [(1,) * (rank - len(x.shape)) + tuple(x.shape) for x in xs]
    shape = [max(column) if 0 not in column else 0 for column in zip(*shapes)]
    return [haul.expand(x, shape) for x in xs]


# ---- diagonals and edges ----

ROWS["diagonal_copy"] = Row(lambda haul, x, offset=0, dim1=0, dim2=1: haul.diagonal(x, offset, dim1, dim2))
ROWS["unfold_copy"] = Row(lambda haul, x, axis, size, step: haul.windows(x, axis, size, step))
ROWS["diagflat"] = Row(lambda haul, x, offset=0: haul.diag_embed(haul.reshape(x, [-1]), offset))
ROWS["diag"] = Row(lambda haul, x, diagonal=0: haul.diag_embed(x, diagonal) if len(x.shape) == 1
                   else haul.diagonal(x, diagonal, 0, 1))


def padded(haul, x, pad, mode="constant", value=None):
    pads = [[before, after] for before, after in zip(pad[::2], pad[1::2])]
    return haul.pad(x, list(pad) if pads else [], mode=mode, value=value or 0)


ROWS["constant_pad_nd"] = Row(lambda haul, x, pad, value=0: padded(haul, x, pad, value=value))
for mode in ("constant", "reflect", "replicate", "replicate_negative", "circular"):
    ROWS["nn.functional.pad." + mode] = Row(padded)


@row("nn.functional.channel_shuffle")
def _(haul, x, groups):
    shape = list(x.shape)
    y = haul.reshape(x, [shape[0], groups, shape[1] // groups] + shape[2:])
    return haul.reshape(haul.transpose(y, 1, 2), shape)
