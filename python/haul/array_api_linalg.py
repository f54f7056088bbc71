"""The linear algebra of the array API standard: xp.linalg, by the functions of the library."""

from collections import namedtuple

import haul

from .array_api import _reduced, astype, concat, eye, finfo, matmul, matrix_transpose, stack, sum  # noqa: F401
from .array_api import tensordot, unstack, vecdot, where, zeros  # noqa: F401

eigh_result = namedtuple("eigh_result", "eigenvalues eigenvectors")
qr_result = namedtuple("qr_result", "Q R")
slogdet_result = namedtuple("slogdet_result", "sign logabsdet")
svd_result = namedtuple("svd_result", "U S Vh")


def cholesky(x, /, *, upper=False):
    made = haul.cholesky(x)
    return made.mT if upper else made


def cross(x1, x2, /, *, axis=-1):
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError("cross: both arrays need three elements along the axis")
    a, b = unstack(x1, axis=axis), unstack(x2, axis=axis)
    return stack([a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)], axis=axis)


def det(x, /):
    return haul.det(x)


def eigh(x, /):
    return eigh_result(*haul.eigh(x))


def eigvalsh(x, /):
    return haul.eigh(x)[0]


def inv(x, /):
    return haul.inverse(x)


def matrix_power(x, n, /):
    return haul.matrix_power(x, n)


def _cutoff(x, s, rtol):
    """Singular values up to this one count as zero; with the dimensions of s."""
    if rtol is None:
        rtol = max(x.shape[-2:]) * finfo(x.dtype).eps
    return haul.max(s, axes=-1, keepdim=True) * (rtol[..., None] if isinstance(rtol, haul.Array) else float(rtol))


def matrix_rank(x, /, *, rtol=None):
    if 0 in x.shape:
        return zeros(x.shape[:-2], dtype="i64", device=x.device)
    s = haul.svd(x)[1]
    return sum(s > _cutoff(x, s, rtol), axis=-1)


def outer(x1, x2, /):
    return haul.outer(x1, x2)


def pinv(x, /, *, rtol=None):
    if not isinstance(rtol, haul.Array) or 0 in x.shape:
        return haul.pinv(x, 0 if rtol is None or isinstance(rtol, haul.Array) else float(rtol))
    u, s, v = haul.svd(x)
    inverse = astype(where(s > _cutoff(x, s, rtol), 1 / s, 0), x.dtype, copy=False)
    return matmul(v.mT * inverse[..., None, :], u.mT)


def _with_unit(x):
    """Q and R of x with a unit matrix behind its columns: Q is square."""
    rows = x.shape[-2]
    unit = eye(rows, dtype=x.dtype, device=x.device).expand(*x.shape[:-1], rows)
    return haul.qr(concat([x, unit], axis=-1))


def _completed(x):
    """Orthonormal columns, and more of them up to a square matrix."""
    return concat([x, _with_unit(x)[0][..., x.shape[-1]:]], axis=-1) if x.shape[-1] < x.shape[-2] else x


def qr(x, /, *, mode="reduced"):
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: the mode is 'reduced' or 'complete', not {mode!r}")
    if mode == "reduced" or x.shape[-2] <= x.shape[-1]:
        return qr_result(*haul.qr(x))
    q, r = _with_unit(x)
    return qr_result(q, r[..., :x.shape[-1]])


def slogdet(x, /):
    return slogdet_result(*haul.slogdet(x))


def solve(x1, x2, /):
    return haul.solve(x1, x2)


def svd(x, /, *, full_matrices=True):
    u, s, v = haul.svd(x)
    return svd_result(_completed(u), s, _completed(v.mT).mT) if full_matrices else svd_result(u, s, v)


def svdvals(x, /):
    return haul.svd(x)[1]


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):  # noqa: A002
    if axis == ():  # of each element
        return _reduced(haul.norm, x, axis, keepdims, p=ord)
    return haul.norm(x, axes=axis, keepdim=keepdims, p=ord)


def diagonal(x, /, *, offset=0):
    return haul.diagonal(x, offset, -2, -1)


def trace(x, /, *, offset=0, dtype=None):
    made = diagonal(x, offset=offset)
    return sum(made, axis=-1, dtype=dtype)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):  # noqa: A002
    if ord in (1, -1, haul.inf, -haul.inf):  # the largest or smallest sum of a column, or of a row
        sums = haul.sum(haul.abs(x), axes=-2 if abs(ord) == 1 else -1, keepdim=keepdims)
        axis = -1 if abs(ord) == 1 or not keepdims else -2
        return (haul.max if ord > 0 else haul.min)(sums, axes=axis, keepdim=keepdims)
    if ord == "fro":
        return haul.norm(x, axes=(-2, -1), keepdim=keepdims)
    s = haul.svd(x)[1]
    made = {"nuc": haul.sum, 2: haul.max, -2: haul.min}[ord](s, axes=-1)
    return haul.unsqueeze(haul.unsqueeze(made, -1), -1) if keepdims else made
