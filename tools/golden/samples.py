#!/usr/bin/python3
"""Makes tests/golden/samples.json: results and gradients of the samples of tests/conformance/samples.def, computed by PyTorch in
float64 (and in integers where a sample takes them). Run from the top of the tree with Debian's python3-torch. Samples of
PICTURES are made by torchvision: without it, they stay as they are in the file.

The inputs' shapes and ranges are read from samples.def itself; what each sample computes is said here in PyTorch's words."""
import json
import math
import re

import torch
import torch.nn.functional as F

try:
    import torchvision.transforms.v2.functional as V
except ImportError:
    V = None


def pad(x, sizes, mode):
    """F.pad, by way of float64 for the dtypes that it does not pad."""
    return F.pad(x.double(), sizes, mode).to(x.dtype)

def padded(y, size, fill):
    """The first rows of y, with a fixed number of them."""
    rest = torch.full((max(size - len(y), 0), *y.shape[1:]), float(fill)).to(y.dtype)
    return torch.cat([y[:size], rest])


def last_scattered(x, i, s):
    """x.scatter(1, i, s), of which the last of equal indices wins, element by element."""
    y = x.clone()
    for a in range(i.shape[0]):
        for b in range(i.shape[1]):
            for c in range(i.shape[2]):
                y = y.index_put((torch.tensor(a), i[a, b, c], torch.tensor(c)), s[a, b, c])
    return y


def last_copied(x, i, s):
    """x.index_copy(1, i, s), of which the last of equal indices wins."""
    for n, at in enumerate(i):
        x = x.index_copy(1, at.reshape(1), s[:, n:n + 1])
    return x


def unpooled(x, i, size):
    """F.max_unpool of these sizes, of which the last of equal indices wins, element by element."""
    y = torch.zeros(*x.shape[:2], math.prod(size), dtype=x.dtype)
    at, of = i.reshape(*x.shape[:2], -1), x.reshape(*x.shape[:2], -1)
    for k in range(at.shape[2]):
        y = y.scatter(2, at[..., k:k + 1], of[..., k:k + 1])
    return y.reshape(*x.shape[:2], *size)


def recurrent(cell, x, ih, hh, bias, state=None, lengths=None, reverse=False, relu=False, which=0):
    """The states of a recurrent layer: between the steps, the initial ones first, and last in reverse. A GRU has two
    biases, the others their sum."""
    cells = {"lstm": torch.lstm_cell, "gru": torch.gru_cell, "rnn": torch.rnn_relu_cell if relu else torch.rnn_tanh_cell}
    if bias.ndim == 1:
        bias = torch.stack([bias, torch.zeros_like(bias)])
    if state is None:
        state = torch.zeros(2 if cell == "lstm" else 1, x.shape[1], hh.shape[1], dtype=x.dtype)
    found = [state]
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        h = tuple(state) if cell == "lstm" else state[0]
        after = cells[cell](x[t], h, ih, hh, bias[0], bias[1])
        after = torch.stack(after) if cell == "lstm" else after[None]
        state = after if lengths is None else torch.where((lengths > t)[None, :, None], after, state)
        found.append(state)
    return torch.stack(found[::-1] if reverse else found)[:, which]


def unfold(x, size, padding):
    """F.unfold, by way of float64 for the dtypes that it does not take."""
    return F.unfold(x.double(), size, padding=padding).to(x.dtype)



def complexes(x):
    return torch.view_as_complex(x.contiguous())


def pairs(x):
    return torch.view_as_real(x)


def regular(x):
    return x + (x.shape[-1] + 2) * torch.eye(*x.shape[-2:], dtype=x.dtype)


def positive(x):
    return x @ x.mT + x.shape[-1] * torch.eye(x.shape[-1], dtype=x.dtype)


def apart(x):
    steps = 4 * torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
    return x + torch.eye(*x.shape[-2:], dtype=x.dtype) * steps


def symmetric(x):
    return apart((x + x.mT) / 4)


def eigh_product(w, v):
    return (v * (w / 8).sin()[..., None, :]) @ v.mT


def svd_product(u, s, vt):
    return (u * s.sin()[..., None, :]) @ vt


def turned_hue(x, by):
    """V.adjust_hue, in float64."""
    h, s, v = V._color._rgb_to_hsv(x.detach()).unbind(-3)
    return V._color._hsv_to_rgb(torch.stack([(h + by) % 1, s, v], -3))


def equalized(x):
    """V.equalize, in float64."""
    return V.equalize_image((x * 255.999).to(torch.uint8)).to(x.dtype) / 255


def seen_from(x, *options):
    """V.perspective, with coefficients in float64."""
    rows, at = [], []
    for (x0, y0), (x1, y1) in zip(((0, 0), (5, 0), (5, 4), (0, 4)), ((1, 0.5), (4.5, 0), (5, 4), (0.25, 3))):
        rows += [[x1, y1, 1, 0, 0, 0, -x0 * x1, -x0 * y1], [0, 0, 0, x1, y1, 1, -y0 * x1, -y0 * y1]]
        at += [x0, y0]
    of = torch.linalg.solve(torch.tensor(rows, dtype=torch.float64), torch.tensor(at, dtype=torch.float64))
    return V.perspective_image(x, None, None, *options, coefficients=of.tolist())


PICTURES = {
    "rotate": lambda x: V.rotate_image(x, 33),
    "rotate_linear": lambda x: V.rotate_image(x, -70.5, "bilinear"),
    "rotate_expand": lambda x: V.rotate_image(x, 37, "bilinear", True, fill=0.5),
    "rotate_center": lambda x: V.rotate_image(x, 21, center=[2, 0], fill=0.25),
    "rotate_quarter": lambda x: V.rotate_image(x, 450, expand=True),
    "rotate_back": lambda x: V.rotate_image(x, -90),
    "rotate_half": lambda x: V.rotate_image(x, 180),
    "warp_affine": lambda x: V.affine_image(x, 20, [1.5, -1], 1.3, [10, -20], "bilinear"),
    "warp_affine_center": lambda x: V.affine_image(x, 0, [1, 0], 0.7, [0, 0], center=[1, 2], fill=0.5),
    "warp_perspective": lambda x: seen_from(x),
    "warp_perspective_fill": lambda x: seen_from(x, "nearest", 0.5),
    "rgb_to_grayscale": lambda x: V.rgb_to_grayscale_image(x),
    "rgb_to_hsv": lambda x: V._color._rgb_to_hsv(x.detach()),
    "hsv_to_rgb": lambda x: V._color._hsv_to_rgb(x),
    "adjust_hue": lambda x: turned_hue(x.detach(), -0.3),
    "adjust_brightness": lambda x: V.adjust_brightness_image(x, 1.4),
    "adjust_contrast": lambda x: V.adjust_contrast_image(x, 0.6),
    "adjust_contrast_grey": lambda x: V.adjust_contrast_image(x, 1.7),
    "adjust_saturation": lambda x: V.adjust_saturation_image(x, 1.8),
    "adjust_sharpness": lambda x: V.adjust_sharpness_image(x, 2.5),
    "invert": lambda x: V.invert_image(x),
    "solarize": lambda x: V.solarize_image(x, 0.6),
    "posterize": lambda x: V.posterize_image(x, 3),
    "autocontrast": lambda x: V.autocontrast_image(x),
    "equalize": lambda x: equalized(x),
    "gaussian_blur": lambda x: V.gaussian_blur_image(x, [3, 3]),
    "gaussian_blur_wide": lambda x: V.gaussian_blur_image(x, [5, 5], [1.5, 1.5]),
    "median_blur": lambda x: F.unfold(F.pad(x, (1, 1, 1, 1), 'replicate').reshape(6, 1, 7, 8), 3).median(1)[0].reshape(x.shape),
    "dilate": lambda x: F.max_pool2d(x, 3, 1, 1),
    "erode": lambda x: -F.max_pool2d(-x, 5, 1, 2),
}

EXPRESSIONS = {
    "sum_all": lambda x: x.sum(),
    "sum_axes_02": lambda x: x.sum((0, 2)),
    "sum_axis_1": lambda x: x.sum(1, keepdim=True),
    "sum_long_row": lambda x: x.sum(-1),
    "sum_long_column": lambda x: x.sum(0),
    "mean_all": lambda x: x.mean(),
    "mean_last": lambda x: x.mean(-1),
    "max_all": lambda x: x.amax(),
    "max_axis_1": lambda x: x.amax(1),
    "min_axes_02": lambda x: x.amin((0, 2)),
    "prod_all": lambda x: x.prod(),
    "prod_axes_02": lambda x: x.prod(2).prod(0),
    "prod_axis_1": lambda x: x.prod(1, keepdim=True),
    "any_axis_1": lambda x: x.bool().any(1),
    "all_axes_02": lambda x: x.bool().all(2, keepdim=True).all(0, keepdim=True),
    "var_all": lambda x: x.var(),
    "var_axes_02": lambda x: x.var((0, 2), unbiased=False),
    "var_last": lambda x: x.var(-1, correction=2, keepdim=True),
    "var_column": lambda x: x.var(0),
    "std_all": lambda x: x.std(),
    "std_axis_1": lambda x: x.std(1, unbiased=False),
    "logsumexp_all": lambda x: x.logsumexp((0, 1, 2)),
    "logsumexp_axes_02": lambda x: x.logsumexp((0, 2)),
    "logsumexp_last": lambda x: x.logsumexp(-1, keepdim=True),
    "norm_all": lambda x: torch.linalg.vector_norm(x),
    "norm_axis_1": lambda x: torch.linalg.vector_norm(x, 2, 1, keepdim=True),
    "norm_1": lambda x: torch.linalg.vector_norm(x, 1, (0, 2)),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, math.inf, 1),
    "norm_least": lambda x: torch.linalg.vector_norm(x, -math.inf, 1),
    "norm_3": lambda x: torch.linalg.vector_norm(x, 3, -1),
    "norm_half": lambda x: torch.linalg.vector_norm(x, 0.5, -1),
    "norm_0": lambda x: torch.linalg.vector_norm(x, 0, -1),
    "argmax_axis_1": lambda x: x.argmax(1),
    "argmin_last": lambda x: x.argmin(-1, keepdim=True),
    "reshape": lambda x: x.reshape(2, -1),
    "flatten": lambda x: x.flatten(1),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "expand": lambda x: x.expand(2, 3, 4),
    "squeeze": lambda x: x.squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "slice": lambda x: x[:, 1:-1:2],
    "select": lambda x: x[:, -2],
    "contiguous": lambda x: x.transpose(0, 1).contiguous(),
    "cat_axis_1": lambda *xs: torch.cat(xs, 1),
    "stack": lambda *xs: torch.stack(xs, 1),
    "index_select_0": lambda x, i: x.index_select(0, i),
    "index_select_1": lambda x, i: x.index_select(1, i),
    "gather_axis_1": lambda x, i: x.gather(1, i),
    "gather_part": lambda x, i: x.gather(-1, i),
    "gather_line": lambda x, i: x.gather(0, i),
    "scatter_add_1": lambda x, i, s: x.scatter_add(1, i, s),
    "scatter_add_part": lambda x, i, s: x.scatter_add(0, i, s),
    "embedding": lambda w, i: w[i],
    "embedding_padding": lambda w, i: F.embedding(i, w, padding_idx=-2),
    "where": torch.where,
    "masked_fill": lambda x, m: x.masked_fill(m, 1),
    "masked_fill_broadcast": lambda x, m: torch.where(m, -2.5, x),
    "tril": lambda x: x.tril(),
    "tril_above": lambda x: x.tril(1),
    "triu": lambda x: x.triu(-1),
    "split": lambda x: x.split([2, 4, 1], 1)[1],
    "chunk": lambda x: x.chunk(3, 1)[2],
    "pad_last": lambda x: F.pad(x, (1, 2), value=0.5),
    "pad_axes": lambda x: F.pad(x, (1, 0, 2, 1, 0, 1), value=1),
    "pad_negative": lambda x: F.pad(x, (-1, 2, 1, -2)),
    "pad_reflect": lambda x: pad(x, (2, 1, 1, 3), "reflect"),
    "pad_replicate": lambda x: pad(x, (2, 1, 0, 3), "replicate"),
    "pad_circular": lambda x: pad(x, (2, 1, 4, 3), "circular"),
    "flip": lambda x: x.flip(-1),
    "flip_axes": lambda x: x.flip(0, 1),
    "roll": lambda x: x.roll(-2, 1),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat_ones": lambda x: x.repeat(1, 5, 2),
    "repeat_counts": lambda x, n: padded(x.repeat_interleave(n, 1).transpose(0, 1), 9, 0).transpose(0, 1),
    "repeat_counts_cut": lambda x, n: padded(x.repeat_interleave(n + 1, 0), 4, 0),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
    "select_ge": lambda g, a, b: g * ((a > b) + 0.5 * (a == b)),
    "clamp_backward": lambda g, x: g * ((x >= -1) & (x <= 2)),
    "matmul": torch.matmul,
    "matmul_large": torch.matmul,
    "matmul_batch": torch.matmul,
    "matmul_vector": torch.matmul,
    "matmul_dot": torch.matmul,
    "linear": F.linear,
    "linear_3d": F.linear,
    "fft": lambda x: pairs(torch.fft.fft(complexes(x))),
    "fft_sevens": lambda x: pairs(torch.fft.fft(complexes(x), dim=0, norm="ortho")),
    "fft_prime": lambda x: pairs(torch.fft.fft(complexes(x), dim=1, norm="forward")),
    "fft_one": lambda x: pairs(torch.fft.fft(complexes(x))),
    "fft_padded": lambda x: pairs(torch.fft.fft(complexes(x), n=9, dim=0)),
    "fft_cut": lambda x: pairs(torch.fft.fft(complexes(x), n=6)),
    "fft_long": lambda x: pairs(torch.fft.fft(complexes(x))),
    "ifft": lambda x: pairs(torch.fft.ifft(complexes(x))),
    "ifft_prime": lambda x: pairs(torch.fft.ifft(complexes(x), dim=0, norm="ortho")),
    "ifft_padded": lambda x: pairs(torch.fft.ifft(complexes(x), n=8, norm="forward")),
    "rfft": lambda x: pairs(torch.fft.rfft(x)),
    "rfft_odd": lambda x: pairs(torch.fft.rfft(x, dim=0, norm="ortho")),
    "rfft_inner": lambda x: pairs(torch.fft.rfft(x, dim=1, norm="forward")),
    "rfft_padded": lambda x: pairs(torch.fft.rfft(x, n=11)),
    "irfft": lambda x: torch.fft.irfft(complexes(x)),
    "irfft_odd": lambda x: torch.fft.irfft(complexes(x), n=9, dim=0, norm="ortho"),
    "irfft_inner": lambda x: torch.fft.irfft(complexes(x), dim=1, norm="forward"),
    "irfft_cut": lambda x: torch.fft.irfft(complexes(x), n=6),
    "fftn": lambda x: pairs(torch.fft.fftn(complexes(x))),
    "ifftn": lambda x: pairs(torch.fft.ifftn(complexes(x), dim=(-1, 0), norm="ortho")),
    "hfft": lambda x: torch.fft.hfft(complexes(x)),
    "hfft_odd": lambda x: torch.fft.hfft(complexes(x), n=9, dim=0, norm="ortho"),
    "ihfft": lambda x: pairs(torch.fft.ihfft(x).resolve_conj()),
    "ihfft_forward": lambda x: pairs(torch.fft.ihfft(x, n=11, dim=0, norm="forward").resolve_conj()),
    "rfftn": lambda x: pairs(torch.fft.rfftn(x, dim=(0, -1))),
    "irfftn": lambda x: torch.fft.irfftn(complexes(x), s=(4, 5), dim=(0, 1)),
    "fft2": lambda x: pairs(torch.fft.fft2(complexes(x))),
    "ifft2": lambda x: pairs(torch.fft.ifft2(complexes(x))),
    "stft": lambda x, w: pairs(torch.stft(x, 8, window=w, return_complex=True)),
    "stft_plain": lambda x: pairs(torch.stft(x, 6, 4, center=False, normalized=True, return_complex=True)),
    "istft": lambda x, w: torch.istft(complexes(x), 8, 3, window=w),
    "istft_plain": lambda x: torch.istft(complexes(x), 6, center=False, normalized=True, length=9),
    "fftshift": torch.fft.fftshift,
    "fftshift_pairs": lambda x: torch.fft.fftshift(x, dim=-2),
    "ifftshift": lambda x: torch.fft.ifftshift(x, dim=0),
    "solve": lambda a, b: torch.linalg.solve(regular(a), b),
    "solve_vector": lambda a, b: torch.linalg.solve(regular(a), b[:, None])[..., 0],
    "solve_broadcast": lambda a, b: torch.linalg.solve(regular(a), b),
    "solve_matrices": lambda a, b: torch.linalg.solve(regular(a), b),
    "solve_large": lambda a, b: torch.linalg.solve(regular(a), b),
    "solve_lower": lambda a, b: torch.linalg.solve_triangular(regular(a).tril(), b, upper=False),
    "solve_upper": lambda a, b: torch.linalg.solve_triangular(regular(a), b, upper=True),
    "solve_transposed": lambda a, b: torch.linalg.solve_triangular(regular(a).mT.tril(), b[:, None], upper=False)[..., 0],
    "solve_unit": lambda a, b: torch.linalg.solve_triangular(a, b, upper=False, unitriangular=True),
    "solve_triangular_large": lambda a, b: torch.linalg.solve_triangular(regular(a).mT.triu(), b, upper=True),
    "inverse": lambda a: torch.linalg.inv(regular(a)),
    "det": torch.linalg.det,
    "det_one": lambda a: torch.linalg.det(regular(a)),
    "slogdet_sign": lambda a: torch.linalg.slogdet(a)[0],
    "slogdet_log": lambda a: torch.linalg.slogdet(a)[1],
    "cholesky": lambda a: torch.linalg.cholesky(positive(a)),
    "cholesky_large": lambda a: torch.linalg.cholesky(positive(a)),
    "lu": lambda a: torch.linalg.lu_factor(a)[0],
    "lu_order": lambda a: torch.linalg.lu(a)[0].argmax(-2),
    "qr_q": lambda a: torch.linalg.qr(a)[0],
    "qr_r": lambda a: torch.linalg.qr(a)[1],
    "qr_square": lambda a: torch.linalg.qr(regular(a))[0] * torch.linalg.qr(regular(a))[1].exp(),
    "qr_wide_q": lambda a: torch.linalg.qr(a)[0],
    "qr_wide_r": lambda a: torch.linalg.qr(a)[1],
    "qr_large": lambda a: torch.linalg.qr(regular(a))[0],
    "lstsq": lambda a, b: torch.linalg.lstsq(a, b).solution,
    "lstsq_wide": lambda a, b: torch.linalg.lstsq(a, b).solution,
    "lstsq_vector": lambda a, b: torch.linalg.lstsq(regular(a), b[:, None]).solution[:, 0],
    "matrix_power": lambda a: torch.linalg.matrix_power(a, 5),
    "matrix_power_one": lambda a: torch.linalg.matrix_power(a, 1).clone(),
    "matrix_power_inverse": lambda a: torch.linalg.matrix_power(regular(a), -2),
    "eigh_values": lambda x: torch.linalg.eigh(symmetric(x))[0],
    "eigh_product": lambda x: eigh_product(*torch.linalg.eigh(symmetric(x))),
    "svd_values": lambda x: torch.linalg.svd(apart(x), False)[1],
    "svd_tall": lambda x: svd_product(*torch.linalg.svd(apart(x), False)),
    "svd_wide": lambda x: svd_product(*torch.linalg.svd(apart(x), False)),
    "svd_square": lambda x: svd_product(*torch.linalg.svd(apart(x), False)),
    "pinv_tall": lambda x: torch.linalg.pinv(apart(x)),
    "pinv_wide": lambda x: torch.linalg.pinv(apart(x)),
    "trace": lambda x: x.diagonal(dim1=-2, dim2=-1).sum(-1),
    "trace_tall": lambda x: x.trace(),
    "einsum_product": lambda *xs: torch.einsum("bij,bjk->bik", *xs),
    "einsum_transpose": lambda *xs: torch.einsum("ij->ji", *xs),
    "einsum_diagonal": lambda *xs: torch.einsum("bii->bi", *xs),
    "einsum_implied": lambda *xs: torch.einsum("ba,bBc", *xs),
    "einsum_ellipsis": lambda *xs: torch.einsum("...ij,...jk->...ik", *xs),
    "einsum_dots": lambda *xs: torch.einsum("bi,bi->b", *xs),
    "einsum_outer": lambda *xs: torch.einsum("i,j->ij", *xs),
    "einsum_bilinear": lambda *xs: torch.einsum("bn,anm,bm->ba", *xs),
    "einsum_sums": lambda *xs: torch.einsum("ijk,jl->l", *xs),
    "tensordot": lambda a, b: torch.tensordot(a, b, ([1, -1], [0, 1])),
    "tensordot_none": lambda a, b: torch.tensordot(a, b, 0),
    "conv2d": F.conv2d,
    "conv2d_5x5": F.conv2d,
    "conv2d_stride": lambda x, w: F.conv2d(x, w, stride=2, padding=1),
    "conv2d_uneven": lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(0, 2)),
    "conv2d_dilated": lambda x, w: F.conv2d(x, w, dilation=2, padding=2),
    "conv2d_groups": lambda x, w, b: F.conv2d(x, w, b, groups=2, padding=1),
    "conv2d_depthwise": lambda x, w: F.conv2d(x, w, groups=4, padding=1),
    "conv2d_1x1": F.conv2d,
    "conv_transpose2d": F.conv_transpose2d,
    "conv_transpose2d_2x2": lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2),
    "conv_transpose2d_stride": lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1),
    "conv_transpose2d_uneven": lambda x, w: F.conv_transpose2d(x, w, None, (3, 1), (0, 2), (2, 0)),
    "conv_transpose2d_dilated": lambda x, w: F.conv_transpose2d(x, w, stride=(2, 1), padding=(2, 1), dilation=(3, 2)),
    "conv_transpose2d_groups": lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, groups=2),
    "conv1d": lambda x, w, b: F.conv1d(x, w, b, 2, 1),
    "conv1d_groups": lambda x, w, b: F.conv1d(x, w, b, groups=2, dilation=2),
    "conv_transpose1d": lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "max_pool2d_3": lambda x: F.max_pool2d(x, 3, 2, 1),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "avg_pool2d_3": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool2d_inside": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive_avg_pool2d_even": lambda x: F.adaptive_avg_pool2d(x, (2, 4)),
    "adaptive_avg_pool2d_1": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_avg_pool2d_up": lambda x: F.adaptive_avg_pool2d(x, (5, 4)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (3, 5)),
    "adaptive_max_pool2d_even": lambda x: F.adaptive_max_pool2d(x, (3, 4)),
    "conv3d": lambda x, w, b: F.conv3d(x, w, b, (2, 1, 2), 1),
    "conv3d_groups": lambda x, w: F.conv3d(x, w, None, 1, (1, 0, 1), (2, 1, 1), 2),
    "conv2d_same": lambda x, w, b: F.conv2d(x, w, b, padding="same", dilation=(1, 2)),
    "conv2d_same_odd": lambda x, w: F.conv2d(x, w, padding="same", groups=2),
    "conv1d_same": lambda x, w, b: F.conv1d(x, w, b, padding="same"),
    "conv3d_same": lambda x, w: F.conv3d(x, w, padding="same", dilation=(1, 1, 2)),
    "conv_transpose3d": lambda x, w, b: F.conv_transpose3d(x, w, b, (2, 2, 1), (1, 1, 0), (1, 0, 0)),
    "conv_transpose3d_groups": lambda x, w: F.conv_transpose3d(x, w, groups=2, dilation=(2, 1, 2)),
    "max_pool3d": lambda x: F.max_pool3d(x, 3, (2, 2, 1), (1, 1, 0)),
    "max_pool3d_box": lambda x: F.max_pool3d(x, (1, 2, 3)),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2),
    "avg_pool3d_padded": lambda x: F.avg_pool3d(x, 3, (2, 1, 2), 1),
    "avg_pool3d_inside": lambda x: F.avg_pool3d(x, 3, (2, 1, 2), 1, count_include_pad=False),
    "max_pool2d_ceil": lambda x: F.max_pool2d(x, 2, ceil_mode=True),
    "max_pool2d_ceil_3": lambda x: F.max_pool2d(x, 3, (2, 3), 1, ceil_mode=True),
    "max_pool2d_dilated": lambda x: F.max_pool2d(x, (3, 2), (2, 1), 1, (2, 3)),
    "max_pool2d_dilated_ceil": lambda x: F.max_pool2d(x, 2, (3, 2), 0, (3, 1), ceil_mode=True),
    "max_pool2d_indices": lambda x: F.max_pool2d(x, 3, 2, 1, 2, ceil_mode=True, return_indices=True)[1],
    "max_pool2d_indices_y": lambda x: F.max_pool2d(x, 3, 2, 1, 2, ceil_mode=True, return_indices=True)[0],
    "max_pool1d_forms": lambda x: F.max_pool1d(x, 3, 3, 1, 2, ceil_mode=True),
    "max_pool1d_indices": lambda x: F.max_pool1d(x, 3, 1, 1, 1, ceil_mode=True, return_indices=True)[1],
    "max_pool3d_forms": lambda x: F.max_pool3d(x, 2, (2, 1, 2), (1, 1, 0), (2, 3, 1), ceil_mode=True),
    "max_pool3d_indices": lambda x: F.max_pool3d(x, 2, 2, 1, 3, ceil_mode=True, return_indices=True)[1],
    "avg_pool2d_ceil": lambda x: F.avg_pool2d(x, 3, (2, 3), 1, ceil_mode=True),
    "avg_pool2d_ceil_inside": lambda x: F.avg_pool2d(x, 3, (2, 3), 1, ceil_mode=True, count_include_pad=False),
    "avg_pool2d_divisor": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=7),
    "avg_pool1d_ceil": lambda x: F.avg_pool1d(x, 3, 2, 1, ceil_mode=True),
    "avg_pool3d_ceil": lambda x: F.avg_pool3d(x, 3, 2, 1, ceil_mode=True),
    "avg_pool3d_divisor": lambda x: F.avg_pool3d(x, 2, divisor_override=5),
    "max_unpool1d": lambda x, i: unpooled(x, i, (9,)),
    "max_unpool2d": lambda x, i: unpooled(x, i, (4, 6)),
    "max_unpool3d": lambda x, i: unpooled(x, i, (2, 3, 4)),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 4),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 4),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x, (3, 2, 4)),
    "max_pool1d": lambda x: F.max_pool1d(x, 3, 2, 1),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False),
    "interpolate_nearest": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate_nearest_size": lambda x: F.interpolate(x, (4, 11)),
    "interpolate_nearest_scale": lambda x: F.interpolate(x, scale_factor=(0.6, 1.7)),
    "interpolate_bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "interpolate_bilinear_size": lambda x: F.interpolate(x, (4, 11), mode="bilinear"),
    "interpolate_bilinear_scale": lambda x: F.interpolate(x, scale_factor=(0.6, 1.75), mode="bilinear"),
    "interpolate_bilinear_corners": lambda x: F.interpolate(x, (4, 11), mode="bilinear", align_corners=True),
    "interpolate_bilinear_one": lambda x: F.interpolate(x, (1, 5), mode="bilinear", align_corners=True),
    "interpolate_exact": lambda x: F.interpolate(x, (4, 11), mode="nearest-exact"),
    "interpolate_exact_double": lambda x: F.interpolate(x, scale_factor=(2, 3), mode="nearest-exact"),
    "interpolate_row": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate_row_linear": lambda x: F.interpolate(x, 13, mode="linear"),
    "interpolate_row_corners": lambda x: F.interpolate(x, 4, mode="linear", align_corners=True),
    "interpolate_row_area": lambda x: F.interpolate(x, 4, mode="area"),
    "interpolate_solid": lambda x: F.interpolate(x, scale_factor=(2, 1.5, 2)),
    "interpolate_solid_linear": lambda x: F.interpolate(x, (5, 3, 4), mode="trilinear"),
    "interpolate_solid_corners": lambda x: F.interpolate(x, (5, 3, 4), mode="trilinear", align_corners=True),
    "interpolate_solid_area": lambda x: F.interpolate(x, (2, 3, 2), mode="area"),
    "interpolate_bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "interpolate_bicubic_size": lambda x: F.interpolate(x, (4, 11), mode="bicubic"),
    "interpolate_bicubic_scale": lambda x: F.interpolate(x, scale_factor=(0.6, 1.75), mode="bicubic"),
    "interpolate_bicubic_corners": lambda x: F.interpolate(x, (4, 11), mode="bicubic", align_corners=True),
    "interpolate_area": lambda x: F.interpolate(x, (4, 11), mode="area"),
    "interpolate_antialias": lambda x: F.interpolate(x, (4, 11), mode="bilinear", antialias=True),
    "interpolate_antialias_scale": lambda x: F.interpolate(x, scale_factor=(0.4, 0.75), mode="bilinear", antialias=True),
    "interpolate_antialias_cubic": lambda x: F.interpolate(x, (4, 3), mode="bicubic", antialias=True),
    "interpolate_antialias_corners": lambda x: F.interpolate(x, (4, 3), mode="bicubic", align_corners=True, antialias=True),
    "grid_sample_bilinear": lambda x, g: F.grid_sample(x, g, "bilinear", align_corners=False),
    "grid_sample_bilinear_corners": lambda x, g: F.grid_sample(x, g, "bilinear", align_corners=True),
    "grid_sample_bilinear_border": lambda x, g: F.grid_sample(x, g, "bilinear", "border", align_corners=False),
    "grid_sample_bilinear_border_corners": lambda x, g: F.grid_sample(x, g, "bilinear", "border", align_corners=True),
    "grid_sample_bilinear_reflection": lambda x, g: F.grid_sample(x, g, "bilinear", "reflection", align_corners=False),
    "grid_sample_bilinear_reflection_corners": lambda x, g: F.grid_sample(x, g, "bilinear", "reflection", align_corners=True),
    "grid_sample_nearest": lambda x, g: F.grid_sample(x, g, "nearest", align_corners=False),
    "grid_sample_nearest_corners": lambda x, g: F.grid_sample(x, g, "nearest", align_corners=True),
    "grid_sample_nearest_border": lambda x, g: F.grid_sample(x, g, "nearest", "border", align_corners=False),
    "grid_sample_nearest_border_corners": lambda x, g: F.grid_sample(x, g, "nearest", "border", align_corners=True),
    "grid_sample_nearest_reflection": lambda x, g: F.grid_sample(x, g, "nearest", "reflection", align_corners=False),
    "grid_sample_nearest_reflection_corners": lambda x, g: F.grid_sample(x, g, "nearest", "reflection", align_corners=True),
    "grid_sample_bicubic": lambda x, g: F.grid_sample(x, g, "bicubic", align_corners=False),
    "grid_sample_bicubic_corners": lambda x, g: F.grid_sample(x, g, "bicubic", align_corners=True),
    "grid_sample_bicubic_border": lambda x, g: F.grid_sample(x, g, "bicubic", "border", align_corners=False),
    "grid_sample_bicubic_border_corners": lambda x, g: F.grid_sample(x, g, "bicubic", "border", align_corners=True),
    "grid_sample_bicubic_reflection": lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", align_corners=False),
    "grid_sample_bicubic_reflection_corners": lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", align_corners=True),
    "affine_grid": lambda t: F.affine_grid(t, (2, 1, 3, 4), align_corners=False),
    "affine_grid_corners": lambda t: F.affine_grid(t, (2, 1, 5, 1), align_corners=True),
    "grid_sample_volume_bilinear": lambda x, g: F.grid_sample(x, g, "bilinear", align_corners=False),
    "grid_sample_volume_bilinear_corners": lambda x, g: F.grid_sample(x, g, "bilinear", align_corners=True),
    "grid_sample_volume_bilinear_border": lambda x, g: F.grid_sample(x, g, "bilinear", "border", align_corners=False),
    "grid_sample_volume_bilinear_border_corners": lambda x, g: F.grid_sample(x, g, "bilinear", "border", align_corners=True),
    "grid_sample_volume_bilinear_reflection": lambda x, g: F.grid_sample(x, g, "bilinear", "reflection", align_corners=False),
    "grid_sample_volume_bilinear_reflection_corners": lambda x, g: F.grid_sample(x, g, "bilinear", "reflection", align_corners=True),
    "grid_sample_volume_nearest": lambda x, g: F.grid_sample(x, g, "nearest", align_corners=False),
    "grid_sample_volume_nearest_corners": lambda x, g: F.grid_sample(x, g, "nearest", align_corners=True),
    "grid_sample_volume_nearest_border": lambda x, g: F.grid_sample(x, g, "nearest", "border", align_corners=False),
    "grid_sample_volume_nearest_border_corners": lambda x, g: F.grid_sample(x, g, "nearest", "border", align_corners=True),
    "grid_sample_volume_nearest_reflection": lambda x, g: F.grid_sample(x, g, "nearest", "reflection", align_corners=False),
    "grid_sample_volume_nearest_reflection_corners": lambda x, g: F.grid_sample(x, g, "nearest", "reflection", align_corners=True),
    "affine_grid3d": lambda t: F.affine_grid(t, (2, 1, 2, 3, 4), align_corners=False),
    "affine_grid3d_corners": lambda t: F.affine_grid(t, (2, 1, 3, 1, 2), align_corners=True),
    "softmax": lambda x: x.softmax(1),
    "softmax_last": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(0),
    "log_softmax_last": lambda x: x.log_softmax(-1),
    "cross_entropy": F.cross_entropy,
    "nll_loss": F.nll_loss,
    "bce_with_logits": F.binary_cross_entropy_with_logits,
    "mse_loss": F.mse_loss,
    "cross_entropy_sum": lambda x, y: F.cross_entropy(x, y, reduction="sum"),
    "cross_entropy_none": lambda x, y: F.cross_entropy(x, y, reduction="none"),
    "cross_entropy_weight_mean": lambda x, y, w: F.cross_entropy(x, y, w),
    "cross_entropy_ignore_mean": lambda x, y: F.cross_entropy(x, y, ignore_index=6),
    "cross_entropy_smooth_mean": lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
    "cross_entropy_all_mean": lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=0, label_smoothing=0.2),
    "cross_entropy_pixels_mean": lambda x, y: F.cross_entropy(x, y),
    "cross_entropy_pixels_all_mean": lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=2, label_smoothing=0.2),
    "cross_entropy_classes_mean": lambda x, y: F.cross_entropy(x, y),
    "cross_entropy_classes_all_mean": lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.2),
    "cross_entropy_weight_sum": lambda x, y, w: F.cross_entropy(x, y, w, reduction="sum"),
    "cross_entropy_ignore_sum": lambda x, y: F.cross_entropy(x, y, ignore_index=6, reduction="sum"),
    "cross_entropy_smooth_sum": lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, reduction="sum"),
    "cross_entropy_all_sum": lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=0, label_smoothing=0.2, reduction="sum"),
    "cross_entropy_pixels_sum": lambda x, y: F.cross_entropy(x, y, reduction="sum"),
    "cross_entropy_pixels_all_sum": lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=2, label_smoothing=0.2, reduction="sum"),
    "cross_entropy_classes_sum": lambda x, y: F.cross_entropy(x, y, reduction="sum"),
    "cross_entropy_classes_all_sum": lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.2, reduction="sum"),
    "cross_entropy_weight_none": lambda x, y, w: F.cross_entropy(x, y, w, reduction="none"),
    "cross_entropy_ignore_none": lambda x, y: F.cross_entropy(x, y, ignore_index=6, reduction="none"),
    "cross_entropy_smooth_none": lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, reduction="none"),
    "cross_entropy_all_none": lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=0, label_smoothing=0.2, reduction="none"),
    "cross_entropy_pixels_none": lambda x, y: F.cross_entropy(x, y, reduction="none"),
    "cross_entropy_pixels_all_none": lambda x, y, w: F.cross_entropy(x, y, w, ignore_index=2, label_smoothing=0.2, reduction="none"),
    "cross_entropy_classes_none": lambda x, y: F.cross_entropy(x, y, reduction="none"),
    "cross_entropy_classes_all_none": lambda x, y, w: F.cross_entropy(x, y, w, label_smoothing=0.2, reduction="none"),
    "nll_loss_sum": lambda x, y: F.nll_loss(x, y, reduction="sum"),
    "nll_loss_none": lambda x, y: F.nll_loss(x, y, reduction="none"),
    "nll_loss_all_mean": lambda x, y, w: F.nll_loss(x, y, w, ignore_index=6),
    "nll_loss_pixels_mean": lambda x, y, w: F.nll_loss(x, y, w, ignore_index=0),
    "nll_loss_all_sum": lambda x, y, w: F.nll_loss(x, y, w, ignore_index=6, reduction="sum"),
    "nll_loss_pixels_sum": lambda x, y, w: F.nll_loss(x, y, w, ignore_index=0, reduction="sum"),
    "nll_loss_all_none": lambda x, y, w: F.nll_loss(x, y, w, ignore_index=6, reduction="none"),
    "nll_loss_pixels_none": lambda x, y, w: F.nll_loss(x, y, w, ignore_index=0, reduction="none"),
    "bce_with_logits_sum": lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="sum"),
    "bce_with_logits_none": lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
    "bce_with_logits_weight_mean": lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w),
    "bce_with_logits_all_mean": lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y, w, pos_weight=p),
    "bce_loss_mean": lambda x, y: F.binary_cross_entropy(x, y),
    "bce_with_logits_weight_sum": lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w, reduction="sum"),
    "bce_with_logits_all_sum": lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y, w, pos_weight=p, reduction="sum"),
    "bce_loss_sum": lambda x, y: F.binary_cross_entropy(x, y, reduction="sum"),
    "bce_with_logits_weight_none": lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w, reduction="none"),
    "bce_with_logits_all_none": lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y, w, pos_weight=p, reduction="none"),
    "bce_loss_none": lambda x, y: F.binary_cross_entropy(x, y, reduction="none"),
    "mse_loss_sum": lambda x, y: F.mse_loss(x, y, reduction="sum"),
    "mse_loss_none": lambda x, y: F.mse_loss(x, y, reduction="none"),
    "l1_loss_mean": lambda x, y: F.l1_loss(x, y),
    "smooth_l1_loss_mean": lambda x, y: F.smooth_l1_loss(x, y),
    "smooth_l1_loss_beta_mean": lambda x, y: F.smooth_l1_loss(x, y, beta=2.5),
    "huber_loss_mean": lambda x, y: F.huber_loss(x, y),
    "huber_loss_delta_mean": lambda x, y: F.huber_loss(x, y, delta=2.5),
    "l1_loss_sum": lambda x, y: F.l1_loss(x, y, reduction="sum"),
    "smooth_l1_loss_sum": lambda x, y: F.smooth_l1_loss(x, y, reduction="sum"),
    "smooth_l1_loss_beta_sum": lambda x, y: F.smooth_l1_loss(x, y, beta=2.5, reduction="sum"),
    "huber_loss_sum": lambda x, y: F.huber_loss(x, y, reduction="sum"),
    "huber_loss_delta_sum": lambda x, y: F.huber_loss(x, y, delta=2.5, reduction="sum"),
    "l1_loss_none": lambda x, y: F.l1_loss(x, y, reduction="none"),
    "smooth_l1_loss_none": lambda x, y: F.smooth_l1_loss(x, y, reduction="none"),
    "smooth_l1_loss_beta_none": lambda x, y: F.smooth_l1_loss(x, y, beta=2.5, reduction="none"),
    "huber_loss_none": lambda x, y: F.huber_loss(x, y, reduction="none"),
    "huber_loss_delta_none": lambda x, y: F.huber_loss(x, y, delta=2.5, reduction="none"),
    "kl_div_mean": lambda x, y: F.kl_div(x, y, reduction="mean"),
    "kl_div_log_mean": lambda x, y: F.kl_div(x, y, reduction="mean", log_target=True),
    "kl_div_sum": lambda x, y: F.kl_div(x, y, reduction="sum"),
    "kl_div_log_sum": lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True),
    "kl_div_none": lambda x, y: F.kl_div(x, y, reduction="none"),
    "kl_div_log_none": lambda x, y: F.kl_div(x, y, reduction="none", log_target=True),
    "kl_div_batchmean": lambda x, y: F.kl_div(x, y, reduction="batchmean"),
    "kl_div_log_batchmean": lambda x, y: F.kl_div(x, y, reduction="batchmean", log_target=True),
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "batch_norm_plain": lambda x: F.batch_norm(x, None, None, None, None, True, eps=0.1),
    "batch_norm_eval": lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, False),
    "lstm": lambda *x: recurrent("lstm", *x),
    "lstm_c": lambda *x: recurrent("lstm", *x, reverse=True, which=1),
    "lstm_step": lambda *x: recurrent("lstm", *x),
    "lstm_lengths": lambda *x: recurrent("lstm", *x),
    "gru": lambda *x: recurrent("gru", *x),
    "gru_step": lambda *x: recurrent("gru", *x),
    "gru_lengths": lambda *x: recurrent("gru", *x, reverse=True),
    "rnn": lambda *x: recurrent("rnn", *x, reverse=True),
    "rnn_step": lambda *x: recurrent("rnn", *x),
    "rnn_lengths": lambda *x: recurrent("rnn", *x, relu=True),
    "attention": lambda q, k, v: (q @ k.mT / 2).softmax(-1) @ v,
    "attention_causal": lambda q, k, v: (q @ k.mT * 0.7).masked_fill(~torch.ones(4, 5, dtype=torch.bool).tril(),
                                                                     -math.inf).softmax(-1) @ v,
    "attention_bias": lambda q, k, v, m: (q @ k.mT / 2 + m).softmax(-1) @ v,
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "layer_norm_plain": lambda x: F.layer_norm(x, x.shape[-1:], eps=0.1),
    "rms_norm": lambda x, w: x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * w,
    "rms_norm_plain": lambda x: x / (x.square().mean(-1, keepdim=True) + 0.1).sqrt(),
    "all_reduce": lambda x: x.clone(),  # of one rank
    "broadcast": lambda x: x.clone(),
    "all_gather": lambda x: x.clone(),
    "reduce_scatter": lambda x: x.clone(),
    "receive": lambda x: x.clone(),  # from the own rank
    "topk_values": lambda x: x.sort(dim=1, descending=True, stable=True)[0][:, :3],
    "topk_indices": lambda x: x.sort(dim=-1, stable=True)[1][..., :2],
    "max_with_indices_values": lambda x: x.max(1)[0],
    "max_with_indices_at": lambda x: x.max(-1, keepdim=True)[1],
    "min_with_indices_values": lambda x: x.min(0, keepdim=True)[0],
    "min_with_indices_at": lambda x: x.min(1)[1],
    "one_hot": lambda i: F.one_hot(i, 5),
    "sort_values": lambda x: x.sort(dim=1, stable=True)[0],
    "sort_descending": lambda x: x.sort(dim=-1, descending=True, stable=True)[0],
    "sort_indices": lambda x: x.sort(dim=0, descending=True, stable=True)[1],
    "argsort": lambda x: x.sort(dim=-1, stable=True)[1],
    "cumsum_last": lambda x: x.cumsum(-1),
    "cumsum_axis_0": lambda x: x.cumsum(0),
    "cumsum_long": lambda x: x.cumsum(1),
    "cumsum_long_columns": lambda x: x.cumsum(0),
    "nonzero": lambda x: padded(x.nonzero(), 40, -1),
    "nonzero_line": lambda x: padded(x.nonzero(), 9, 0),
    "masked_select": lambda x, m: padded(x.masked_select(m), 70, 0),
    "masked_select_broadcast": lambda x, m: padded(x.masked_select(m), 20, 0),
    "masked_scatter": lambda x, m, s: x.masked_scatter(m, s),
    "masked_scatter_broadcast": lambda x, m, s: x.masked_scatter(m, s),
    "unique": lambda x: padded(x.unique(), 30, x.unique()[-1]),
    "unique_inverse": lambda x: x.unique(return_inverse=True)[1],
    "unique_counts": lambda x: padded(x.unique(return_counts=True)[1], 30, 0),
    "unique_consecutive": lambda x: padded(x.unique_consecutive(), 50, x[-1]),
    "unique_consecutive_inverse": lambda x: x.unique_consecutive(return_inverse=True)[1],
    "isin": lambda x, of: (x[..., None] == of.flatten()).any(-1),
    "searchsorted": lambda s, v: torch.searchsorted(s, v),
    "searchsorted_rows": lambda s, v: torch.searchsorted(s.cumsum(-1), v, right=True),
    "bucketize": lambda x, e: torch.bucketize(x, torch.ones_like(e).cumsum(0), right=True),
    "bincount": lambda x: x.flatten().bincount(minlength=12),
    "bincount_weights": lambda x, w: torch.zeros(9, dtype=w.dtype).scatter_add(0, x, w),
    "histogram": lambda x: x.detach().histogram(7)[0].long(),
    "histogram_limits": lambda x: x.detach().histogram(5, range=(-2, 3))[0].long(),
    "histogram_edges": lambda x, e: x.detach().histogram(torch.ones_like(e).cumsum(0))[0].long(),
    "scatter": last_scattered,
    "scatter_part": lambda x, s: x.scatter(0, s.sort(dim=0, stable=True)[1], s),
    "scatter_mean": lambda x, i, s: x.scatter_reduce(1, i, s, "mean"),
    "scatter_mean_alone": lambda x, i, s: x.scatter_reduce(1, i, s, "mean", include_self=False),
    "scatter_prod": lambda x, i, s: x.scatter_reduce(0, i, s, "prod"),
    "scatter_prod_alone": lambda x, i, s: x.scatter_reduce(0, i, s, "prod", include_self=False),
    "scatter_max": lambda x, i, s: x.scatter_reduce(1, i, s, "amax"),
    "scatter_max_alone": lambda x, i, s: x.scatter_reduce(1, i, s, "amax", include_self=False),
    "scatter_min": lambda x, i, s: x.scatter_reduce(1, i, s, "amin"),
    "scatter_sum": lambda x, i, s: x.scatter_reduce(1, i, s, "sum", include_self=False),
    "index_add": lambda x, i, s: x.index_add(1, i, s),
    "index_copy": lambda x, i, s: last_copied(x, i, s),
    "index_fill": lambda x, i: x.index_fill(1, i, 1),
    "linspace": lambda x: torch.linspace(-2, 3, 11, dtype=x.dtype),
    "eye": lambda x: torch.eye(3, 5, dtype=x.dtype),
    "diagonal": lambda x: x.diagonal(1, -2, -1),
    "diagonal_axes": lambda x: x.diagonal(-2, 2, 0),
    "diag_embed": lambda x: x.diag_embed(-1),
    "windows": lambda x: x.unfold(1, 3, 2),
    "outer": torch.outer,
    "kron": torch.kron,
    "meshgrid": lambda a, b: torch.meshgrid(a, b, indexing="ij")[1],
    "unfold": lambda x: unfold(x, 3, padding=1),
    "unfold_uneven": lambda x: F.unfold(x, (2, 3), (1, 2), (1, 0), (2, 1)),
    "fold": lambda x: F.fold(x.double(), (5, 6), 3, padding=1).to(x.dtype),
    "fold_uneven": lambda x: F.fold(x, (5, 6), (2, 3), (1, 2), (1, 0), (2, 1)),
    "index_view": lambda x: x[:, None, 0:-1:2, 3],
    "index_back": lambda x: x.flip(-1)[..., :5:2],
    "index_tensors": lambda x, i, j: x[:, i, j],
    "index_apart": lambda x, i: x[i, 1:, i],
    "index_put": lambda x, v: x.index_put((torch.tensor([4, 2, 0]), torch.tensor(1)), v),
    "index_put_add": lambda x, i, v: x.index_put((torch.arange(3)[:, None], i), v, accumulate=True),
    "cumprod_last": lambda x: x.cumprod(-1),
    "cumprod_axis_0": lambda x: x.cumprod(0),
    "cumprod_zeros": lambda x, m: torch.where(m, x, 0.0).cumprod(1),
    "cumprod_long": lambda x: x.cumprod(0),
    "logcumsumexp_last": lambda x: x.logcumsumexp(-1),
    "logcumsumexp_axis_0": lambda x: x.logcumsumexp(0),
    "cummax_values": lambda x: x.cummax(1)[0],
    "cummax_indices": lambda x: x.cummax(-1)[1],
    "cummin_values": lambda x: x.cummin(0)[0],
    "cummin_indices": lambda x: x.cummin(0)[1],
    "diff": lambda x: x.diff(),
    "diff_twice": lambda x: x.diff(n=2, dim=0),
    "trapezoid": lambda y: torch.trapezoid(y, dx=0.5),
    "trapezoid_points": lambda y, x: torch.trapezoid(y, x.expand(3, 5, 2), dim=1),
    "median_values": lambda x: x.median(1)[0],
    "median_even": lambda x: x.median(-1, keepdim=True)[0],
    "nanmedian_values": lambda x: x.nanmedian(0)[0],
    "mode_values": lambda x: x.mode(1, keepdim=True)[0],
    "quantile_all": lambda x: x.quantile(0.3),
    "quantile_axes": lambda x: x.permute(1, 0, 2).reshape(4, 15).quantile(0.9, dim=1).reshape(1, 4, 1),
    "quantile_lower": lambda x: x.quantile(0.5, dim=1, interpolation="lower"),
    "quantile_higher": lambda x: x.quantile(0.5, dim=1, interpolation="higher"),
    "quantile_nearest": lambda x: x.quantile(0.7, dim=1, interpolation="nearest"),
    "quantile_midpoint": lambda x: x.quantile(0.7, dim=1, interpolation="midpoint"),
    "nansum": lambda x, m: (x / torch.where(m, x, torch.ones_like(x))).nansum(1),
    "nanmean": lambda x: x.nanmean(0, keepdim=True),
    "cov": lambda x: x.cov(),
    "cov_biased": lambda x: x.cov(correction=0),
    "corrcoef": lambda x: x.corrcoef(),
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "exp2": torch.exp2,
    "log2": torch.log2,
    "log10": torch.log10,
    "erfc": torch.erfc,
    "erfinv": torch.erfinv,
    "lgamma": torch.lgamma,
    "digamma": torch.digamma,
    "digamma_below": torch.digamma,
    "polygamma_2": lambda x: torch.polygamma(2, x),
    "trunc": lambda x: x.trunc() if x.is_floating_point() else x,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus_beta": lambda x: F.softplus(x, 2, 5),
    "nan_to_num": lambda x, y: torch.nan_to_num(x.floor() / y.floor(), 0.5, 30, -30),
    "rsub": lambda x: 3 - x,
    "rdiv": lambda x: 3 / x,
    "rpow": lambda x: 2.5 ** x,
    "rremainder": lambda x: torch.remainder(torch.tensor(-5.0, dtype=x.dtype), x),
    "rfloor_div": lambda x: torch.floor(-5 / x) + 0 * x,
    "trunc_div": lambda a, b: torch.div(a, b, rounding_mode="trunc") + 0 * a + 0 * b,
    "fmod": torch.fmod,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "copysign": torch.copysign,
    "nextafter": torch.nextafter,
    "logaddexp": torch.logaddexp,
    "xlogy": torch.xlogy,
    "isinf": lambda x: (1 / x.floor()).isinf(),
    "signbit": torch.signbit,
    "where_scalar": lambda x, m: torch.where(m, x, torch.ones((), dtype=x.dtype)),
    "clamp_between": torch.clamp,
    "lerp": lambda a, b, w: torch.lerp(a, b.expand(3, 4), w.expand(3, 4)),
    "lerp_scalar": lambda a, b: torch.lerp(a, b.expand(3, 4), 0.75),
    "addcmul": lambda x, a, b: torch.addcmul(x, a, b, value=0.5),
    "addcdiv": lambda x, a, b: torch.addcdiv(x, a, b, value=0.5),
    "round_decimals": lambda x: torch.round(x, decimals=1),
    "round_tens": lambda x: torch.round(x, decimals=-1),
    "elu": lambda x: F.elu(x, 1.5),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.5),
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": lambda x: F.relu6(x + 3) / 6,  # F.hardsigmoid multiplies gradients by a sixth in f32
    "softsign": F.softsign,
    "glu": lambda x: F.glu(x, 1),
    "prelu": F.prelu,
    "prelu_channels": F.prelu,
    "normalize": F.normalize,
    "normalize_3": lambda x: F.normalize(x, 3, -1, 0.5),
    "cosine_similarity": F.cosine_similarity,
    "cosine_similarity_broadcast": lambda a, b: F.cosine_similarity(a, b, -1),
    "cdist": torch.cdist,
    "cdist_1": lambda a, b: torch.cdist(a, b, 1),
    "cdist_3": lambda a, b: torch.cdist(a, b, 3),
    "cdist_inf": lambda a, b: torch.cdist(a, b, math.inf),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "group_norm_plain": lambda x: F.group_norm(x, 3, eps=0.1),
    "instance_norm": lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
    "instance_norm_plain": lambda x: F.instance_norm(x, eps=0.1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 3),
    "triplet_margin_loss": lambda a, p, n: F.triplet_margin_loss(a, p, n, 3),
    "triplet_margin_swap": lambda a, p, n: F.triplet_margin_loss(a, p, n, 4, 1, 0.01, True, reduction="none"),
    "cosine_embedding_loss": lambda a, b, t: F.cosine_embedding_loss(a, b, t.sign()),
    "cosine_embedding_margin": lambda a, b, t: F.cosine_embedding_loss(a, b, t.sign(), -0.5, reduction="none"),
    "hinge_embedding_loss": lambda x, t: F.hinge_embedding_loss(x, t.sign()),
    "hinge_embedding_margin": lambda x, t: F.hinge_embedding_loss(x, t.sign(), 2.5, reduction="none"),
    "margin_ranking_loss": lambda a, b, t: F.margin_ranking_loss(a, b, t.sign()),
    "margin_ranking_sum": lambda a, b, t: F.margin_ranking_loss(a, b, t.sign(), 1.5, reduction="sum"),
    "ctc_loss": lambda x, y: F.ctc_loss(x.log_softmax(2), y + 1, torch.full((3,), 9), torch.full((3,), 4)),
    "ctc_loss_none": lambda x, y, a, b: F.ctc_loss(x.log_softmax(2), y, a + 7, b, 4, reduction="none"),
    "ctc_loss_zero": lambda x, y, a: F.ctc_loss(x.log_softmax(2), y + 1, a, torch.full((4,), 3), reduction="sum", zero_infinity=True),
    "ctc_loss_alone": lambda x, y: F.ctc_loss(x.log_softmax(1), y + 1, torch.tensor(8), torch.tensor(3)),
    "ctc_loss_joined": lambda x, y, b: F.ctc_loss(x.log_softmax(2), (y + 1)[: b.sum()], torch.full((3,), 9), b),
    "multi_margin_loss": F.multi_margin_loss,
    "multi_margin_squares": lambda x, y, w: F.multi_margin_loss(x, y, 2, 0.5, w, reduction="none"),
    "poisson_nll_loss": F.poisson_nll_loss,
    "poisson_nll_full": lambda x, t: F.poisson_nll_loss(x, t, False, True, reduction="none"),
    "gaussian_nll_loss": F.gaussian_nll_loss,
    "gaussian_nll_full": lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True, eps=0.1, reduction="none"),
}

KINDS = {"W": ["f64"], "F": ["f64"], "N": ["f64", "i64", "u8"], "A": ["f64", "i64", "u8", "bool"]}
TORCH = {"f64": torch.float64, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool}


def numbers(count, low, high, kind, seed):
    """The generator of tests/support/conformance/conformance.c."""
    state, out = (seed * 2654435761 + 12345) % 2**32, []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        v = low + (high - low) * (state >> 8) / 16777216.0
        if kind == "bool":
            v = v > (low + high) / 2
        elif kind != "f64":
            v = round(v)
        out.append(abs(v) if kind == "u8" else v)
    return out


def make_input(text, index, kind):
    letter, arguments = re.match(r"(\w)\((.*)\)", text).groups()
    values = [float(v) for v in arguments.split(",")]
    if letter in "VC":
        low, high, dims = values[0], values[1], values[2:]
    elif letter == "X":
        low, high, dims, kind = -0.5, values[0] - 0.5, values[1:], "i64"
    else:
        low, high, dims, kind = -1, 1, values, "bool"
    dims = [int(d) for d in dims]
    flat = numbers(math.prod(dims), low, high, kind, index + 1)
    t = torch.tensor(flat, dtype=TORCH[kind]).reshape(dims)
    if letter == "X":
        t = t.abs()
    return t.requires_grad_() if letter == "V" and kind == "f64" else t


def compute(name, inputs, kind, differentiable):
    tensors = [make_input(text, i, kind) for i, text in enumerate(inputs)]
    y = {**EXPRESSIONS, **PICTURES}[name](*tensors)
    entry = {"shape": list(y.shape), "y": [float(v) for v in y.detach().double().flatten()]}
    if kind == "f64" and differentiable:
        weights = torch.sin(torch.arange(y.numel(), dtype=torch.float64) * 1.7) + 0.3
        (y * weights.reshape(y.shape)).sum().backward()
        entry["grads"] = [[] if t.grad is None else [float(v) for v in t.grad.flatten()] for t in tensors]
    return entry


def main():
    golden = {"made_by": "tools/golden/samples.py, PyTorch " + torch.__version__}
    before = json.load(open("tests/golden/samples.json"))
    row = re.compile(r"^SAMPLE\((\w+), *(\w), (\d), .*?, +((?:[VCXB]\([^()]*\)(?:, )?)+)\)$")
    for line in open("tests/conformance/samples.def"):
        m = row.match(line.rstrip())
        if not m:
            assert not line.startswith("SAMPLE"), line
            continue
        name, dtypes, differentiable, inputs = m.groups()
        inputs = re.findall(r"[VCXB]\([^()]*\)", inputs)
        for kind in KINDS[dtypes]:
            if name in PICTURES and not V:
                golden[f"{name}/{kind}"] = before[f"{name}/{kind}"]
                continue
            golden[f"{name}/{kind}"] = compute(name, inputs, kind, differentiable != "0")
    rounded = json.loads(json.dumps(golden), parse_float=lambda s: float(f"{float(s):.17g}"))
    with open("tests/golden/samples.json", "w") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in rounded.items()) + "\n}\n")


main()
