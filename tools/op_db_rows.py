"""How the operations of PyTorch's op_db are called in Haul, for tools/op-db: a row for each. A form of arguments that
Haul has no option for raises NoForm."""

ROWS = {}


class NoForm(Exception):
    pass


class Row:
    """`factor`: of the error that is allowed; `post`: what is compared, from the sample and PyTorch's results;
    `symmetric`: the gradient is that of a symmetric matrix."""

    def __init__(self, call, gradient=True, factor=1, post=None, symmetric=False):
        self.call, self.gradient, self.factor, self.post, self.symmetric = call, gradient, factor, post, symmetric

    def reference(self, op, sample):
        results = op(sample.input, *sample.args, **sample.kwargs)
        return self.post(sample, results) if self.post else results


def row(*names, **options):
    def add(call):
        for name in names:
            ROWS[name] = Row(call, **options)
        return call
    return add


def only(options, *known):
    """Fails for options that were not read, unless they have their default."""
    rest = {k: v for k, v in options.items() if k not in known and v not in (None, False)}
    if rest:
        raise NoForm("options " + ", ".join(sorted(rest)))


def is_array(v):
    return hasattr(v, "dtype") and hasattr(v, "shape")


# ---- pointwise ----

def unary(name, to=None, **options):
    @row(name, **options)
    def call(haul, x, **k):
        only(k)
        return getattr(haul, to or name)(x)


for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "exp2", "log2", "log10", "trunc",
             "isinf", "signbit", "erfc", "erfinv", "lgamma", "digamma", "abs", "ceil", "cos", "erf", "exp", "expm1",
             "floor", "isfinite", "isnan", "log", "log1p", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sin",
             "sqrt", "square", "tanh", "bitwise_not", "logical_not"):
    unary(name)
for name in ("relu", "selu", "mish", "hardswish", "silu", "hardsigmoid", "softsign"):
    unary("nn.functional." + name, name)


def binary(name, to=None, **options):
    @row(name, **options)
    def call(haul, x, other, **k):
        only(k)
        if not is_array(x):
            raise NoForm("a number on the left")
        return getattr(haul, to or name)(x, other)


for name in ("atan2", "hypot", "fmod", "copysign", "xlogy", "logaddexp", "bitwise_and", "bitwise_or", "bitwise_xor",
             "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge",
             "remainder"):
    binary(name)
binary("nextafter", gradient=False)
binary("bitwise_left_shift", "left_shift")
binary("bitwise_right_shift", "right_shift")


@row("div.trunc_rounding")
def _(haul, x, other, rounding_mode=None):
    return haul.trunc_div(x, other)


@row("lerp")
def _(haul, x, end, weight):
    return haul.lerp(x, end, weight)


ROWS["addcmul"] = Row(lambda haul, x, a, b, value=1: haul.addcmul(x, a, b, value))
ROWS["addcdiv"] = Row(lambda haul, x, a, b, value=1: haul.addcdiv(x, a, b, value))


@row("nn.functional.elu")
def _(haul, x, alpha=1.0, inplace=False):
    return haul.elu(x, alpha)


@row("nn.functional.celu")
def _(haul, x, alpha=1.0, inplace=False):
    return haul.celu(x, alpha)


@row("nn.functional.threshold")
def _(haul, x, threshold, value, inplace=False):
    return haul.threshold(x, threshold, value)


@row("nn.functional.glu")
def _(haul, x, dim=-1):
    return haul.glu(x, dim)


@row("nn.functional.prelu")
def _(haul, x, weight):
    return haul.prelu(x, weight)


for n in range(5):
    ROWS[f"polygamma.polygamma_n_{n}"] = Row(lambda haul, x, n: haul.polygamma(x, n))
for name in ("0", "3", "neg_3"):
    ROWS["round.decimals_" + name] = Row(lambda haul, x, decimals=0: haul.round_decimals(x, decimals))

# ---- along axes ----

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


unary("trace")


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


# ---- indices ----

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


# ---- linear algebra ----

@row("linalg.inv")
def _(haul, a, check_errors=False):
    return haul.inverse(a)


ROWS["linalg.inv_ex"] = Row(ROWS["linalg.inv"].call, post=lambda s, r: r[0])
ROWS["linalg.det"] = Row(lambda haul, a: haul.det(a))
ROWS["linalg.slogdet"] = Row(lambda haul, a: haul.slogdet(a))
ROWS["linalg.cholesky"] = Row(lambda haul, a, upper=False: haul.transpose(haul.cholesky(a), -1, -2) if upper
                              else haul.cholesky(a))
ROWS["linalg.matrix_power"] = Row(lambda haul, a, n: haul.matrix_power(a, n))


@row("linalg.solve")
def _(haul, a, b, left=True):
    if not left or len(b.shape) not in (1, len(a.shape)):
        raise NoForm("a batch of vectors, or from the right")
    if len(b.shape) == 1 and len(a.shape) > 2:
        raise NoForm("a batch of vectors")
    return haul.solve(a, b)


@row("linalg.solve_triangular")
def _(haul, a, b, upper=False, left=True, unitriangular=False):
    if not left:
        turned = haul.transpose(a, -1, -2), haul.transpose(b, -1, -2)
        return haul.transpose(haul.solve_triangular(*turned, upper=not upper, unit=unitriangular), -1, -2)
    return haul.solve_triangular(a, b, upper=upper, unit=unitriangular)


@row("linalg.qr")
def _(haul, a, mode="reduced"):
    if mode != "reduced" and not (mode == "complete" and a.shape[-2] <= a.shape[-1]):
        raise NoForm(mode)
    return haul.qr(a)


def product(haul, u, s, vt):
    return s, haul.matmul(haul.mul(u, haul.unsqueeze(s, -2)), vt)


@row("linalg.svd", factor=10, post=lambda s, r: (r[1], (r[0][..., :r[1].shape[-1]] * r[1].unsqueeze(-2))
                                                 @ r[2][..., :r[1].shape[-1], :]))
def _(haul, a, full_matrices=True):
    return product(haul, *haul.svd(a))


@row("linalg.svdvals", factor=10)
def _(haul, a):
    return haul.svd(a)[1]


@row("linalg.eigh", factor=10, symmetric=True, post=lambda s, r: (r[0], (r[1] * r[0].unsqueeze(-2)) @ r[1].mT))
def _(haul, a, UPLO="L"):
    if UPLO == "U":
        raise NoForm("the upper triangle")
    w, v = haul.eigh(a)
    return w, haul.matmul(haul.mul(v, haul.unsqueeze(w, -2)), haul.transpose(v, -1, -2))


@row("linalg.eigvalsh", factor=10)
def _(haul, a, UPLO="L"):
    return haul.eigh(haul.transpose(a, -1, -2) if UPLO == "U" else a)[0]


@row("linalg.pinv", "pinverse", factor=100)
def _(haul, a, atol=None, rtol=None, rcond=None, hermitian=False, **k):
    only(k)
    if atol is not None or rtol is not None or hermitian or rcond not in (None, 1e-15):
        raise NoForm("tolerances")
    return haul.pinv(a, 0)


@row("einsum")
def _(haul, xs, formula):
    return haul.einsum(formula, list(xs))


@row("tensordot")
def _(haul, a, b, dims=2):
    if isinstance(dims, int):
        n = len(a.shape)
        dims = (list(range(n - dims, n)), list(range(dims)))
    return haul.tensordot(a, b, list(dims[0]), list(dims[1]))


# ---- Fourier transforms: pairs in the last axis ----

def as_pairs(haul, x):
    return haul.stack([x, haul.zeros_like(x)], -1)


for name, takes_pairs in (("fft", True), ("ifft", True), ("rfft", False), ("ihfft", False), ("irfft", True),
                          ("hfft", True)):
    def transform(haul, x, n=None, dim=-1, norm=None, name=name, takes_pairs=takes_pairs, **k):
        only(k)
        z = as_pairs(haul, x) if takes_pairs else x
        axis = dim + len(x.shape) if dim < 0 else dim
        return getattr(haul, name)(z, axis, n=n, norm=norm)
    ROWS["fft." + name] = Row(transform)


for name in ("fftshift", "ifftshift"):
    def shift(haul, x, dim=None, name=name):
        return getattr(haul, name)(x, axes=dim)
    ROWS["fft." + name] = Row(shift)

for name, takes_pairs in (("fftn", True), ("ifftn", True), ("rfftn", False), ("irfftn", True)):
    def several(haul, x, s=None, dim=None, norm=None, name=name, takes_pairs=takes_pairs):
        rank = len(x.shape)
        axes = None if dim is None else [d + rank if d < 0 else d for d in ([dim] if isinstance(dim, int) else dim)]
        if s is not None and axes is None:
            axes = list(range(rank - len(s), rank))
        z = as_pairs(haul, x) if takes_pairs else x
        if s is not None and len(s) > 1:
            raise NoForm("sizes of several axes")
        s = s[0] if s else None
        return getattr(haul, name)(z, axes=axes, n=s, norm=norm)
    ROWS["fft." + name] = Row(several)

# ---- pictures ----


@row("nn.functional.grid_sample", factor=10)
def _(haul, x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    return haul.grid_sample(x, grid, mode, padding=padding_mode, align_corners=bool(align_corners))


def interpolated(haul, x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                 antialias=False):
    if recompute_scale_factor:
        raise NoForm("recompute_scale_factor")
    mode = {"trilinear": "bilinear", "linear": "bilinear"}.get(mode, mode).replace("-", "_")
    given = {} if size is None else {"size": size}
    if scale_factor is not None:
        given["scale"] = scale_factor
    return haul.interpolate(x, mode=mode, align_corners=bool(align_corners), antialias=antialias, **given)


for mode in ("area", "bicubic", "bilinear", "linear", "nearest", "nearest-exact", "trilinear"):
    ROWS["nn.functional.interpolate." + mode] = Row(interpolated, factor=10)

# ---- layers and losses ----


@row("nn.functional.group_norm", factor=10)
def _(haul, x, groups, weight=None, bias=None, eps=1e-5):
    return haul.group_norm(x, groups, weight=weight, bias=bias, eps=eps)


@row("nn.functional.normalize")
def _(haul, x, p=2.0, dim=1, eps=1e-12, out=None):
    if p == 0:
        raise NoForm("p = 0")
    return haul.normalize(x, dim, p=p, eps=eps)


@row("nn.functional.cosine_similarity")
def _(haul, a, b, dim=1, eps=1e-8):
    return haul.cosine_similarity(a, b, dim, eps=eps)


@row("nn.functional.pixel_shuffle")
def _(haul, x, upscale_factor):
    return haul.pixel_shuffle(x, upscale_factor)


@row("nn.functional.pixel_unshuffle")
def _(haul, x, downscale_factor):
    return haul.pixel_unshuffle(x, downscale_factor)


def convolution(haul, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    k = {"same": True} if padding == "same" else {"padding": 0 if padding == "valid" else padding}
    return haul.conv3d(x, weight, bias=bias, stride=stride, dilation=dilation, groups=groups, **k)


ROWS["nn.functional.conv3d"] = Row(convolution, factor=10)


@row("nn.functional.conv_transpose3d", factor=10)
def _(haul, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return haul.conv_transpose3d(x, weight, bias=bias, stride=stride, padding=padding, output_padding=output_padding,
                                 groups=groups, dilation=dilation)


def pooled(name):
    def call(haul, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False,
             count_include_pad=True, divisor_override=None):
        size = kernel_size if isinstance(kernel_size, (tuple, list)) else (kernel_size,) * 3
        size = tuple(size) * 3 if len(size) == 1 else size
        if return_indices:
            raise NoForm("return_indices")
        k = {} if divisor_override is None else {"divisor": divisor_override}
        if name.startswith("avg"):
            k["exclude_padding"] = not count_include_pad
        else:
            k["dilation"] = dilation
        return getattr(haul, name)(x, *size, stride=size if stride in (None, ()) else stride, padding=padding,
                                   ceil_mode=ceil_mode, **k)
    return call


ROWS["nn.functional.avg_pool3d"] = Row(pooled("avg_pool3d"))
ROWS["nn.functional.max_pool3d"] = Row(pooled("max_pool3d"))


def loss(name, *options):
    def call(haul, x, *args, size_average=None, reduce=None, reduction="mean", **k):
        only(k, *options)
        given = {o: k[o] for o in options if o in k}
        if k.get("weight") is not None and "weight" not in options:
            raise NoForm("weight")
        reduction = "batch_mean" if reduction == "batchmean" else reduction
        return getattr(haul, name)(x, *args, reduction=reduction, **given)
    return call


for name, options in (("huber_loss", ("delta",)), ("smooth_l1_loss", ("beta",)), ("mse_loss", ()), ("l1_loss", ()),
                      ("hinge_embedding_loss", ("margin",)), ("margin_ranking_loss", ("margin",)),
                      ("cosine_embedding_loss", ("margin",)), ("gaussian_nll_loss", ("full", "eps")),
                      ("triplet_margin_loss", ("margin", "p", "eps", "swap")), ("kl_div", ("log_target",)),
                      ("multi_margin_loss", ("p", "margin", "weight"))):
    ROWS["nn.functional." + name] = Row(loss(name, *options), factor=10)


@row("nn.functional.poisson_nll_loss")
def _(haul, x, target, log_input=True, full=False, eps=1e-8, reduction="mean", size_average=None, reduce=None):
    return haul.poisson_nll_loss(x, target, no_log=not log_input, full=full, eps=eps, reduction=reduction)


@row("nn.functional.binary_cross_entropy_with_logits")
def _(haul, x, target, weight=None, pos_weight=None, reduction="mean", size_average=None, reduce=None):
    return haul.bce_with_logits(x, target, weight=weight, pos_weight=pos_weight, reduction=reduction)


@row("nn.functional.cross_entropy")
def _(haul, x, y, weight=None, ignore_index=None, label_smoothing=0.0, reduction="mean", **k):
    only(k)
    if len(x.shape) == 1 and len(y.shape) == 0:
        raise NoForm("no batch")
    given = {} if ignore_index is None else {"ignore_index": ignore_index}
    return haul.cross_entropy(x, y, weight=weight, label_smoothing=label_smoothing, reduction=reduction, **given)


@row("nn.functional.ctc_loss", factor=100)
def _(haul, log_p, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    log_p = haul.log_softmax(log_p, -1) # PyTorch's gradient counts log_p as normalised
    to_array = lambda v: v if is_array(v) else haul.array(list(v))
    return haul.ctc_loss(log_p, targets, input_lengths=to_array(input_lengths), target_lengths=to_array(target_lengths),
                         blank=blank, reduction=reduction, zero_infinity=zero_infinity)


@row("nn.functional.instance_norm", factor=10)
def _(haul, x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
      eps=1e-5):
    if not use_input_stats:
        raise NoForm("running statistics")
    return haul.instance_norm(x, weight=weight, bias=bias, eps=eps)


def three(size, shape):
    size = [size] * 3 if isinstance(size, int) else list(size)
    return [n if s is None else s for s, n in zip(size, shape[-3:])]


@row("nn.functional.adaptive_avg_pool3d")
def _(haul, x, output_size):
    return haul.adaptive_avg_pool3d(x, *three(output_size, x.shape))


@row("nn.functional.adaptive_max_pool3d", post=lambda s, r: r[0] if isinstance(r, tuple) else r)
def _(haul, x, output_size, return_indices=False):
    return haul.adaptive_max_pool3d(x, *three(output_size, x.shape))


@row("cdist", factor=10)
def _(haul, a, b, p=2.0, compute_mode=None):
    if p == 0:
        raise NoForm("p = 0")
    return haul.cdist(a, b, p=p)


@row("meshgrid.list_of_tensors", "meshgrid.variadic_tensors")
def _(haul, *xs, indexing="ij"):
    xs = list(xs[0]) if isinstance(xs[0], (list, tuple)) else list(xs)
    if indexing != "ij":
        raise NoForm(indexing)
    return haul.meshgrid(xs)


@row("unique_consecutive", gradient=False)
def _(haul, x, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        raise NoForm("an axis")
    return haul.unique(x, consecutive=True, inverse=return_inverse, counts=return_counts)


@row("unique", gradient=False)
def _(haul, x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is not None or not sorted:
        raise NoForm("an axis, or not sorted")
    return haul.unique(x, inverse=return_inverse, counts=return_counts)


@row("nn.functional.nll_loss")
def _(haul, x, y, weight=None, ignore_index=None, reduction="mean", **k):
    only(k)
    given = {} if ignore_index is None else {"ignore_index": ignore_index}
    return haul.nll_loss(x, y, weight=weight, reduction=reduction, **given)


@row("repeat_interleave")
def _(haul, x, repeats, dim=None, output_size=None):
    if dim is None:
        raise NoForm("no axis")
    if is_array(repeats):
        return haul.repeat_interleave_counts(x, dim, repeats)
    return haul.repeat_interleave(x, repeats, dim)


@row("linalg.lstsq.grad_oriented", "linalg.lstsq", factor=100, post=lambda s, r: r[0])
def _(haul, a, b, driver=None, rcond=None):
    if len(b.shape) != len(a.shape):
        raise NoForm("a batch of vectors")
    return haul.lstsq(a, b)


@row("stft", factor=10)
def _(haul, x, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
      onesided=True, return_complex=True, align_to_window=None):
    if win_length not in (None, n_fft) or pad_mode != "reflect" or onesided is False or align_to_window:
        raise NoForm("forms of windows")
    return haul.stft(x, n_fft, hop=hop_length, window=window, uncentred=not center, normalised=bool(normalized))
