"""The linear algebra of the array API standard: xp.linalg. It has the functions of the library; cross and matrix_rank are
missing."""

from collections import namedtuple

import haul

from .array_api import matmul, matrix_transpose, sum, tensordot, vecdot  # noqa: F401

eigh_result = namedtuple("eigh_result", "eigenvalues eigenvectors")
qr_result = namedtuple("qr_result", "Q R")
slogdet_result = namedtuple("slogdet_result", "sign logabsdet")
svd_result = namedtuple("svd_result", "U S Vh")


def cholesky(x, /, *, upper=False):
    made = haul.cholesky(x)
    return made.mT if upper else made


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


def outer(x1, x2, /):
    return haul.outer(x1, x2)


def pinv(x, /, *, rtol=None):
    return haul.pinv(x, 0 if rtol is None else float(rtol))


def qr(x, /, *, mode="reduced"):
    if mode != "reduced":
        raise NotImplementedError("qr: the library has mode='reduced' only")
    return qr_result(*haul.qr(x))


def slogdet(x, /):
    return slogdet_result(*haul.slogdet(x))


def solve(x1, x2, /):
    return haul.solve(x1, x2)


def svd(x, /, *, full_matrices=True):
    if full_matrices and x.shape[-1] != x.shape[-2]:
        raise NotImplementedError("svd: the library has full_matrices=False only, for matrices that are not square")
    u, s, v = haul.svd(x)
    return svd_result(u, s, v)


def svdvals(x, /):
    return haul.svd(x)[1]


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):  # noqa: A002
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
