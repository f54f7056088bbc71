"""Layers and losses."""
from .form import ROWS, NoForm, Row, is_array, only, row

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


# ---- in one, two and three dimensions ----


def per_axis(v, n):
    """A number for one axis, a pair for two."""
    v = [v] * n if isinstance(v, int) else list(v) * (n if len(v) == 1 else 1)
    return v[0] if n == 1 else v


def batched(haul, x, n, call):
    """PyTorch also takes one example, without the axis of a batch."""
    if len(x.shape) != n + 1:
        return call(x)
    y = call(haul.unsqueeze(x, 0))
    return tuple(haul.squeeze(v, 0) for v in y) if isinstance(y, tuple) else haul.squeeze(y, 0)


def window(size, n):
    return [size] * n if isinstance(size, int) else list(size) * (n if len(size) == 1 else 1)


def stride_of(size, stride):
    return size if stride in (None, (), []) else stride


def rows_of(n):
    def convolved(haul, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        k = {"same": True} if padding == "same" else {"padding": per_axis(0 if padding == "valid" else padding, n)}
        return batched(haul, x, n, lambda x: getattr(haul, f"conv{n}d")(
            x, weight, bias=bias, stride=per_axis(stride, n), dilation=per_axis(dilation, n), groups=groups, **k))

    def transposed(haul, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        return batched(haul, x, n, lambda x: getattr(haul, f"conv_transpose{n}d")(
            x, weight, bias=bias, stride=per_axis(stride, n), padding=per_axis(padding, n),
            output_padding=per_axis(output_padding, n), groups=groups, dilation=per_axis(dilation, n)))

    def averaged(haul, x, size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        k = {} if divisor_override is None else {"divisor": divisor_override}
        return batched(haul, x, n, lambda x: getattr(haul, f"avg_pool{n}d")(
            x, *window(size, n), stride=per_axis(stride_of(size, stride), n), padding=per_axis(padding, n),
            ceil_mode=ceil_mode, exclude_padding=not count_include_pad, **k))

    def largest(haul, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        name = f"max_pool{n}d_indices" if return_indices else f"max_pool{n}d"
        return batched(haul, x, n, lambda x: getattr(haul, name)(
            x, *window(kernel_size, n), stride=per_axis(stride_of(kernel_size, stride), n),
            padding=per_axis(padding, n), dilation=per_axis(dilation, n), ceil_mode=ceil_mode))

    def adaptive(to):
        def call(haul, x, output_size, return_indices=False):
            size = [m if s is None else s for s, m in zip(window(output_size, n), x.shape[-n:])]
            return batched(haul, x, n, lambda x: getattr(haul, f"adaptive_{to}_pool{n}d")(x, *size))
        return call

    ROWS[f"nn.functional.conv{n}d"] = Row(convolved, factor=10)
    ROWS[f"nn.functional.conv_transpose{n}d"] = Row(transposed, factor=10)
    ROWS[f"nn.functional.avg_pool{n}d"] = Row(averaged)
    ROWS[f"nn.functional.max_pool{n}d"] = Row(largest)
    ROWS[f"nn.functional.adaptive_avg_pool{n}d"] = Row(adaptive("avg"))
    ROWS[f"nn.functional.adaptive_max_pool{n}d"] = Row(adaptive("max"),
                                                       post=lambda s, r: r[0] if isinstance(r, tuple) else r)

    def unpooled(haul, x, indices, kernel_size, stride=None, padding=0, output_size=None):
        if len(x.shape) != n + 2:
            raise NoForm("no batch")
        size, step, edge = (window(v, n) for v in (kernel_size, stride_of(kernel_size, stride), padding))
        shape = [(m - 1) * s + k - 2 * p for m, s, k, p in zip(x.shape[-n:], step, size, edge)]
        return getattr(haul, f"max_unpool{n}d")(x, indices, *(shape if output_size is None else output_size[-n:]))
    # Of equal indices the last wins, and has the gradient; PyTorch gives it to all. Those of .grad differ.
    ROWS[f"nn.functional.max_unpool{n}d"] = Row(unpooled, gradient=False)
    ROWS[f"nn.functional.max_unpool{n}d.grad"] = Row(unpooled)


for n in (1, 2, 3):
    rows_of(n)

# ---- normalisation ----


def over_last(haul, x, shape, weight, bias):
    """Haul normalises the last axis: the others of the normalised ones are joined with it."""
    n = len(shape)
    flat = x if n == 1 else haul.reshape(x, list(x.shape[:-n]) + [-1])
    return flat, *(v if v is None or n == 1 else haul.reshape(v, [-1]) for v in (weight, bias))


@row("nn.functional.layer_norm", "native_layer_norm", factor=10, post=lambda s, r: r[0] if isinstance(r, tuple) else r)
def _(haul, x, shape, weight=None, bias=None, eps=1e-5):
    flat, weight, bias = over_last(haul, x, shape, weight, bias)
    return haul.reshape(haul.layer_norm(flat, weight=weight, bias=bias, eps=eps), x.shape)


@row("nn.functional.rms_norm", factor=10)
def _(haul, x, shape, weight=None, eps=None):
    flat, weight, _ = over_last(haul, x, shape, weight, None)
    eps = {"f64": 2.0**-52, "f32": 2.0**-23}.get(x.dtype, 0) if eps is None else eps
    return haul.reshape(haul.rms_norm(flat, weight=weight, eps=eps), x.shape)


@row("native_group_norm", factor=10, post=lambda s, r: r[0])
def _(haul, x, weight, bias, n, c, hw, group, eps):
    return haul.group_norm(x, group, weight=weight, bias=bias, eps=eps)


@row("nn.functional.batch_norm", "nn.functional.batch_norm.without_cudnn", factor=10)
def _(haul, x, running_mean=None, running_var=None, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if momentum < 0 or eps < 0:
        raise NoForm("negative momentum or eps")
    copies = [None if v is None else haul.clone(v) for v in (running_mean, running_var)]
    return haul.batch_norm(x, weight=weight, bias=bias, running_mean=copies[0], running_var=copies[1],
                           training=training, momentum=momentum, eps=eps)


@row("nn.functional.local_response_norm", factor=10)
def _(haul, x, size, alpha=1e-4, beta=0.75, k=1.0):
    channels, shape = x.shape[1], list(x.shape)
    squares = haul.reshape(haul.square(x), [shape[0], 1, channels, -1])
    padded = haul.pad(squares, [0, 0, size // 2, (size - 1) // 2])
    mean = haul.reshape(haul.avg_pool2d(padded, size, 1, stride=1), shape)
    return haul.div(x, haul.pow(haul.add(haul.mul(mean, alpha), k), beta))


# ---- products and tables ----


@row("nn.functional.linear", factor=10)
def _(haul, x, weight, bias=None):
    if len(weight.shape) == 1:
        raise NoForm("a weight of one row")
    return haul.linear(x, weight, bias=bias)


@row("nn.functional.bilinear", factor=10)
def _(haul, a, b, weight, bias=None):
    if len(a.shape) > 2 or len(a.shape) == 1:
        raise NoForm("other than two axes")
    y = haul.einsum("ni,oij,nj->no", [a, weight, b])
    return y if bias is None else haul.add(y, bias)


@row("nn.functional.linear_cross_entropy", factor=10)
def _(haul, x, linear_weight, target, linear_bias=None, reduction="mean", ignore_index=-100, label_smoothing=0.0,
      **k):
    only(k, "weight")
    if len(linear_weight.shape) != 2 or len(x.shape) != 2:
        raise NoForm("other than two axes")
    given = {} if target.dtype == x.dtype else {"ignore_index": ignore_index}
    return haul.cross_entropy(haul.linear(x, linear_weight, bias=linear_bias), target, weight=k.get("weight"),
                              reduction=reduction, label_smoothing=label_smoothing, **given)


@row("nn.functional.embedding")
def _(haul, index, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NoForm("options")
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    return haul.embedding(weight, index, padding_idx=padding_idx)


@row("nn.functional.one_hot", gradient=False)
def _(haul, index, num_classes=-1):
    if num_classes < 0:
        raise NoForm("the number of classes from the values")
    return haul.one_hot(index, num_classes)


@row("nn.functional.scaled_dot_product_attention", factor=10)
def _(haul, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if dropout_p or enable_gqa:
        raise NoForm("dropout, or groups of heads")
    given = {} if scale is None else {"scale": scale}
    return haul.attention(q, k, v, mask=attn_mask, causal=is_causal, **given)


@row("nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.alpha_dropout")
def _(haul, x, p=0.5, training=True, inplace=False):
    if training and p not in (0, 1):
        raise NoForm("draws")
    return haul.dropout(x, p, training)


# ---- other losses ----


@row("nn.functional.binary_cross_entropy", factor=10)
def _(haul, p, target, weight=None, reduction="mean", size_average=None, reduce=None):
    if weight is not None:
        raise NoForm("weight")
    return haul.bce_loss(p, target, reduction=reduction)


def reduced(haul, y, reduction):
    return y if reduction == "none" else haul.mean(y) if reduction == "mean" else haul.sum(y)


@row("nn.functional.soft_margin_loss", factor=10)
def _(haul, x, y, reduction="mean", size_average=None, reduce=None):
    return reduced(haul, haul.softplus(haul.neg(haul.mul(x, y))), reduction)


@row("nn.functional.multilabel_soft_margin_loss", factor=10)
def _(haul, x, y, weight=None, reduction="mean", size_average=None, reduce=None):
    each = haul.bce_with_logits(x, y, reduction="none")
    return reduced(haul, haul.mean(each if weight is None else haul.mul(each, weight), axes=-1), reduction)
