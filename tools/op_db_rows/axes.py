"""Operations along axes: reductions, running sums, statistics."""
from .form import ROWS, NoForm, Row, as_dtype, is_array, only, row

for name in ("cumprod", "cummax", "cummin", "logcumsumexp"):
    def along(haul, x, dim, name=name, **k):
        only(k)
        return getattr(haul, name)(x, dim)
    ROWS[name] = Row(along)


@row("diff")
def _(haul, x, n=1, dim=-1, prepend=None, append=None):
    if n and (prepend is not None or append is not None):
        x = haul.cat([p for p in (prepend, x, append) if p is not None], dim)
    return haul.diff(x, n, dim)


@row("trapezoid", "trapz")
def _(haul, y, x=None, dim=-1, dx=None):
    return haul.trapezoid(y, x=x, dx=dx, axis=dim) if x is None or is_array(x) else haul.trapezoid(y, axis=dim)


def with_axis(name):
    def call(haul, x, dim=None, keepdim=False, **k):
        only(k)
        if dim is None:
            if len(x.shape) > 1 or keepdim:
                raise NoForm("no axis")
            return getattr(haul, name)(x, 0)[0] if x.shape else x
        return getattr(haul, name)(x, dim, keepdim=keepdim)
    return call


ROWS["median"] = Row(with_axis("median"))
ROWS["nanmedian"] = Row(with_axis("nanmedian"))


def nan_aware(name):
    def call(haul, x, dim=None, keepdim=False, dtype=None):
        if dtype is not None:
            raise NoForm("dtype")
        return getattr(haul, name)(x, axes=None if dim in (None, []) else dim, keepdim=keepdim)
    return call


ROWS["nansum"] = Row(nan_aware("nansum"))
ROWS["nanmean"] = Row(nan_aware("nanmean"))


@row("quantile")
def _(haul, x, q, dim=None, keepdim=False, interpolation="linear"):
    if is_array(q) and q.shape:
        raise NoForm("several quantiles")
    return haul.quantile(x, q.item() if is_array(q) else q, axes=dim, keepdim=keepdim, interpolation=interpolation)


@row("cov")
def _(haul, x, correction=1, fweights=None, aweights=None):
    if fweights is not None or aweights is not None:
        raise NoForm("weights")
    if len(x.shape) == 2 and x.shape[0] == 1:
        raise NoForm("one variable: [1, 1] in Haul")
    return haul.cov(x, correction=correction)


ROWS["trace"] = Row(lambda haul, x: haul.trace(x))


@row("corrcoef")
def _(haul, x):
    if len(x.shape) == 2 and x.shape[0] == 1:
        raise NoForm("one variable: [1, 1] in Haul")
    return haul.corrcoef(x)


@row("kron")
def _(haul, a, b):
    return haul.kron(a, b)


@row("outer")
def _(haul, a, b):
    return haul.outer(a, b)


# ---- reductions ----

def reduction(name, correction=False, whole=False):
    def call(haul, x, dim=None, *rest, keepdim=False, dtype=None, **k):
        if correction:
            given = {"correction": 1}
            if isinstance(dim, bool): # unbiased comes first
                given, dim = {"correction": int(dim)}, None
            elif rest:
                given, keepdim = {"correction": int(rest[0])}, rest[1] if len(rest) > 1 else keepdim
            if k.get("correction") is not None:
                given["correction"] = k["correction"]
            if k.get("unbiased") is not None:
                given["correction"] = int(k["unbiased"])
            only(k, "correction", "unbiased")
        else:
            only(k)
            given = {}
            keepdim = rest[0] if rest else keepdim
        axes = None if dim is None or dim in ([], ()) else dim
        return getattr(haul, name)(as_dtype(haul, x, dtype), axes=axes, keepdim=keepdim, **given)
    return call


for name, to in (("all", "all"), ("any", "any"), ("amax", "max"), ("amin", "min"), ("mean", "mean"), ("prod", "prod"),
                 ("sum", "sum"), ("max.reduction_no_dim", "max"), ("min.reduction_no_dim", "min")):
    ROWS[name] = Row(reduction(to))
for name in ("std", "std.unbiased", "var", "var.unbiased"):
    ROWS[name] = Row(reduction(name[:3], True), factor=10)
for name in ("std_mean", "std_mean.unbiased", "var_mean", "var_mean.unbiased"):
    def both(haul, x, dim=None, *rest, name=name[:3], **k):
        axes = None if isinstance(dim, bool) else dim
        mean = haul.mean(x, axes=axes if axes else None, keepdim=k.get("keepdim", False) or len(rest) > 1 and rest[1])
        return reduction(name, True)(haul, x, dim, *rest, **k), mean
    ROWS[name] = Row(both, factor=10)


@row("aminmax")
def _(haul, x, dim=None, keepdim=False):
    return haul.min(x, axes=dim, keepdim=keepdim), haul.max(x, axes=dim, keepdim=keepdim)


@row("logsumexp")
def _(haul, x, dim, keepdim=False):
    return haul.logsumexp(x, axes=dim, keepdim=keepdim)


@row("count_nonzero", gradient=False)
def _(haul, x, dim=None):
    return haul.sum(haul.ne(x, 0), axes=None if dim in (None, [], ()) else dim)


for name in ("argmax", "argmin"):
    def place(haul, x, dim=None, keepdim=False, name=name):
        if dim is None:
            y = getattr(haul, name)(haul.reshape(x, [-1]), 0)
            return haul.reshape(y, [1] * len(x.shape)) if keepdim else y
        return getattr(haul, name)(x, dim, keepdim=keepdim)
    ROWS[name] = Row(place, gradient=False)

for name, to in (("max.reduction_with_dim", "max_with_indices"), ("min.reduction_with_dim", "min_with_indices"),
                 ("mode", "most_common")):
    def with_place(haul, x, dim=-1, keepdim=False, to=to):
        return getattr(haul, to)(x, dim, keepdim=keepdim)
    ROWS[name] = Row(with_place, post=lambda s, r: r[0]) # which of equals is left open


@row("kthvalue", post=lambda s, r: r[0])
def _(haul, x, k, dim=-1, keepdim=False):
    if not 1 <= k <= (x.shape[dim] if x.shape else 1):
        raise NoForm("a place that is not there")
    y = haul.sort(x, dim)[0]
    if not x.shape:
        return y
    return haul.slice(y, dim, k - 1, k, 1) if keepdim else haul.select(y, dim, k - 1)


@row("cumsum")
def _(haul, x, dim, dtype=None):
    return haul.cumsum(as_dtype(haul, x, dtype), dim)


ROWS["sort"] = Row(lambda haul, x, dim=-1, descending=False, stable=False: haul.sort(x, dim, descending),
                   post=lambda s, r: r if s.kwargs.get("stable") else r[0])
ROWS["msort"] = Row(lambda haul, x: haul.sort(x, 0)[0])
ROWS["argsort"] = Row(lambda haul, x, dim=-1, descending=False, stable=False: haul.argsort(x, dim, descending)
                      if stable else haul.sort(x, dim, descending)[0], gradient=False,
                      post=lambda s, r: r if s.kwargs.get("stable") else s.input.sort(
                          *s.args, **{k: v for k, v in s.kwargs.items() if k != "stable"})[0])

for name, to in (("softmax", "softmax"), ("log_softmax", "log_softmax"), ("nn.functional.softmin", "softmax")):
    def normalised(haul, x, dim, *rest, dtype=None, negative=name.endswith("min"), to=to, **k):
        only(k)
        x = as_dtype(haul, x, dtype)
        return getattr(haul, to)(haul.neg(x) if negative else x, dim)
    ROWS[name] = ROWS[name + ".with_dtype"] = Row(normalised)

# ---- norms ----


def norm(haul, x, p=2, dim=None, keepdim=False, dtype=None):
    if p in ("fro", None):
        p = 2
    if isinstance(p, str):
        raise NoForm(p)
    given = {"p": p} if p else {}
    if p == 0:
        return haul.sum(haul.cast(haul.ne(x, 0), x.dtype), axes=dim, keepdim=keepdim)
    return haul.norm(as_dtype(haul, x, dtype), axes=dim if dim not in ([], ()) else None, keepdim=keepdim, **given)


ROWS["norm"] = ROWS["norm.fro"] = ROWS["norm.inf"] = Row(norm, factor=10)


@row("linalg.vector_norm", factor=10)
def _(haul, x, ord=2, dim=None, keepdim=False, dtype=None):
    return norm(haul, x, ord, dim, keepdim, dtype)


@row("linalg.norm", "linalg.norm.subgradients_at_zero", factor=10)
def _(haul, x, ord=None, dim=None, keepdim=False, dtype=None):
    axes = [] if dim is None else [dim] if isinstance(dim, int) else dim
    if ord not in (None, "fro") and (len(axes) == 2 or dim is None and len(x.shape) != 1):
        raise NoForm("norms of matrices")
    return norm(haul, x, ord, dim, keepdim, dtype)


@row("linalg.matrix_norm", factor=10)
def _(haul, x, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    if ord != "fro":
        raise NoForm("norms of matrices")
    return norm(haul, x, ord, dim, keepdim, dtype)


@row("dist", factor=10)
def _(haul, x, other, p=2):
    return norm(haul, haul.sub(x, other), p)


@row("nn.functional.pairwise_distance", factor=10)
def _(haul, a, b, p=2.0, eps=1e-6, keepdim=False):
    return norm(haul, haul.add(haul.sub(a, b), eps), p, -1, keepdim)


@row("cumulative_trapezoid")
def _(haul, y, x=None, dim=-1, dx=1):
    if is_array(x):
        raise NoForm("places")
    n = y.shape[dim]
    parts = haul.add(haul.slice(y, dim, 1, n, 1), haul.slice(y, dim, 0, n - 1, 1))
    return haul.cumsum(haul.mul(parts, dx / 2), dim)


@row("histc", gradient=False)
def _(haul, x, bins=100, min=0, max=0):
    if max - min == 1e-5:
        raise NoForm("rounded edges decide")
    given = {} if min == max == 0 else {"low": min, "high": max}
    return haul.cast(haul.histogram(x, bins=bins, **given), x.dtype)


@row("histogram", gradient=False)
def _(haul, x, bins, range=None, weight=None, density=False):
    if weight is not None or density:
        raise NoForm("weights, or density")
    if 0 not in x.shape and not is_array(bins) and range is None and haul.max(x).item() == haul.min(x).item():
        raise NoForm("equal elements: the edges are those of histc")
    given = {"edges": bins} if is_array(bins) else {"bins": bins}
    if range is not None:
        given.update(low=range[0], high=range[1])
    y = haul.histogram(x, made_edges=not is_array(bins), **given)
    counts, edges = (y, bins) if is_array(bins) else y
    return haul.cast(counts, x.dtype), edges
