"""Operations with indices and masks, and results whose shape depends on values."""
from .form import ROWS, NoForm, Row, is_array, only, row

@row("nonzero", gradient=False)
def _(haul, x, as_tuple=False):
    if as_tuple:
        raise NoForm("as_tuple")
    return haul.nonzero(x)


@row("masked_select")
def _(haul, x, mask):
    return haul.masked_select(x, mask)


@row("masked_scatter")
def _(haul, x, mask, source):
    return haul.masked_scatter(x, mask, source)


@row("isin", gradient=False)
def _(haul, x, of, assume_unique=False, invert=False):
    if not is_array(x):
        raise NoForm("a number")
    y = haul.isin(x, of)
    return haul.logical_not(y) if invert else y


@row("scatter")
def _(haul, x, dim, index, src, reduce=None):
    if not is_array(src) or reduce:
        raise NoForm("a number, or a reduction")
    return haul.scatter(x, dim, index, src)


for how in ("amax", "amin", "mean", "prod", "sum"):
    def reduce_by(haul, x, dim, index, src, reduce, include_self=True):
        return haul.scatter_reduce(x, dim, index, src, {"amax": "max", "amin": "min"}.get(reduce, reduce),
                                   exclude_self=not include_self)
    ROWS["scatter_reduce." + how] = Row(reduce_by)


@row("scatter_add")
def _(haul, x, dim, index, src):
    return haul.scatter_add(x, dim, index, src)


@row("index_add")
def _(haul, x, dim, index, source, alpha=1):
    return haul.index_add(x, dim, index, source if alpha == 1 else source * alpha)


@row("index_copy")
def _(haul, x, dim, index, source):
    return haul.index_copy(x, dim, index, source)


@row("index_fill")
def _(haul, x, dim, index, value):
    if is_array(value) and value.requires_grad:
        raise NoForm("a gradient of the value")
    return haul.index_fill(x, dim, index, value.item() if is_array(value) else value)


@row("searchsorted", gradient=False)
def _(haul, edges, values, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None or not is_array(values) or out_int32 or not edges.shape:
        raise NoForm("a sorter, a number, or int32")
    return haul.searchsorted(edges, values, right=right or side == "right")


@row("bucketize", gradient=False)
def _(haul, x, edges, out_int32=False, right=False):
    if not is_array(x) or out_int32:
        raise NoForm("a number, or int32")
    return haul.bucketize(x, edges, right=right)


@row("bincount", gradient=False)
def _(haul, x, weights=None, minlength=0):
    return haul.bincount(x, weights=weights, minlength=minlength)


@row("diagonal")
def _(haul, x, offset=0, dim1=None, dim2=None):
    return haul.diagonal(x, offset, 0 if dim1 is None else dim1, 1 if dim2 is None else dim2)


ROWS["linalg.diagonal"] = Row(lambda haul, x, offset=0, dim1=-2, dim2=-1: haul.diagonal(x, offset, dim1, dim2))


@row("diag_embed")
def _(haul, x, offset=0, dim1=-2, dim2=-1):
    if (dim1, dim2) != (-2, -1):
        raise NoForm("axes")
    return haul.diag_embed(x, offset)


@row("nn.functional.unfold")
def _(haul, x, kernel_size, dilation=1, padding=0, stride=1):
    size = kernel_size if isinstance(kernel_size, (tuple, list)) else (kernel_size, kernel_size)
    return haul.unfold(x, size[0], size[-1], stride=stride, padding=padding, dilation=dilation)


@row("unfold")
def _(haul, x, axis, size, step):
    return haul.windows(x, axis, size, step)


@row("topk", post=lambda s, r: r[0])
def _(haul, x, k, dim=-1, largest=True, sorted=True):
    if not sorted:
        raise NoForm("not sorted")
    return haul.topk(x, k, dim, largest)


@row("gather")
def _(haul, x, dim, index):
    return haul.gather(x, dim, index)


@row("tril")
def _(haul, x, diagonal=0):
    return haul.tril(x, diagonal)


@row("triu")
def _(haul, x, diagonal=0):
    return haul.triu(x, diagonal)


@row("index_select")
def _(haul, x, dim, index):
    return haul.index_select(x, dim, index)


@row("take_along_dim")
def _(haul, x, index, dim=None):
    if dim is None:
        return haul.gather(haul.reshape(x, [-1]), 0, haul.reshape(index, [-1]))
    shape = [max(a, b) for a, b in zip(x.shape, index.shape)]
    across = [b if i == dim % len(shape) else n for i, (n, b) in enumerate(zip(shape, index.shape))]
    shape[dim] = x.shape[dim]
    return haul.gather(haul.expand(x, shape), dim, haul.expand(index, across))


@row("take")
def _(haul, x, index):
    y = haul.index_select(haul.reshape(x, [-1]), 0, haul.reshape(index, [-1]))
    return haul.reshape(y, index.shape)


@row("argwhere", gradient=False)
def _(haul, x):
    return haul.nonzero(x)


@row("nonzero_static", gradient=False)
def _(haul, x, size, fill_value=-1):
    raise NoForm("the size of a result: of C only")


@row("__getitem__")
def _(haul, x, key):
    keys = [haul.array(k, "i64") if isinstance(k, list) else k for k in (key if isinstance(key, tuple) else (key,))]
    return x[tuple(keys)]


def put(haul, x, key, value):
    """Brackets write into a copy, which has no gradient; haul_index_put of C has."""
    y = haul.clone(haul.detach(x))
    y[key] = haul.detach(value)
    return y


def at(x, dim, index):
    return tuple(index if i == dim % len(x.shape) else slice(None) for i in range(len(x.shape)))


@row("index_put", gradient=False)
def _(haul, x, indices, values, accumulate=False):
    if accumulate:
        raise NoForm("sums: of C only")
    return put(haul, x, tuple(indices), values)


ROWS["select_scatter"] = Row(lambda haul, x, source, dim, index: put(haul, x, at(x, dim, index), source),
                             gradient=False)
ROWS["slice_scatter"] = Row(lambda haul, x, source, dim=0, start=None, end=None, step=1:
                            put(haul, x, at(x, dim, slice(start, end, step)), source),
                            gradient=False)
