"""Products, decompositions and solutions of systems."""
from .form import ROWS, NoForm, Row, is_array, only, row

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


# ---- products ----

for name, to in (("matmul", "matmul"), ("mm", "matmul"), ("bmm", "matmul"), ("mv", "matmul"), ("dot", "matmul"),
                 ("vdot", "matmul"), ("__rmatmul__", "matmul")):
    def multiplied(haul, a, b, reverse=name == "__rmatmul__"):
        return haul.matmul(b, a) if reverse else haul.matmul(a, b)
    ROWS[name] = Row(multiplied)


def added(haul, x, y, beta, alpha):
    """beta x + alpha y, where beta = 0 drops x, NaN included."""
    if haul.dtype_is_integer(x.dtype) and (beta % 1 or alpha % 1):
        raise NoForm("fractions with integers: f32 in Haul")
    y = y if alpha == 1 else haul.mul(y, alpha)
    if beta == 0:
        return haul.add(haul.zeros_like(x), y)
    return haul.add(x if beta == 1 else haul.mul(x, beta), y)


@row("addmm", "addmm.decomposed", "addmv", "baddbmm")
def _(haul, x, a, b, beta=1, alpha=1):
    return added(haul, x, haul.matmul(a, b), beta, alpha)


@row("addbmm", factor=10)
def _(haul, x, a, b, beta=1, alpha=1):
    return added(haul, x, haul.sum(haul.matmul(a, b), axes=[0]), beta, alpha)


@row("addr")
def _(haul, x, a, b, beta=1, alpha=1):
    return added(haul, x, haul.outer(a, b), beta, alpha)


@row("inner")
def _(haul, a, b):
    return haul.mul(a, b) if not a.shape or not b.shape else haul.tensordot(a, b, [-1], [-1])


@row("linalg.vecdot")
def _(haul, a, b, dim=-1):
    return haul.sum(haul.mul(a, b), axes=dim)


@row("linalg.multi_dot", factor=10)
def _(haul, xs):
    y = xs[0]
    for x in xs[1:]:
        y = haul.matmul(y, x)
    return y


# ---- relatives of decompositions ----

ROWS["linalg.cholesky_ex"] = Row(lambda haul, a, upper=False, check_errors=False: ROWS["linalg.cholesky"].call(
    haul, a, upper), post=lambda s, r: r[0])
ROWS["linalg.solve_ex"] = Row(lambda haul, a, b, left=True, check_errors=False: ROWS["linalg.solve"].call(
    haul, a, b, left), post=lambda s, r: r[0])
ROWS["logdet"] = Row(lambda haul, a: haul.add(haul.slogdet(a)[1], haul.log(haul.slogdet(a)[0])))
ROWS["linalg.pinv.singular"] = Row(lambda haul, a, b: haul.pinv(haul.matmul(a, haul.transpose(b, -1, -2)), 0),
                                   factor=1000)
ROWS["linalg.lu_factor"] = ROWS["linalg.lu_factor_ex"] = ROWS["lu"] = Row(
    lambda haul, a, pivot=True, get_infos=False, check_errors=False: lu_of(haul, a, pivot), post=lambda s, r: r[0])


def lu_of(haul, a, pivot):
    if not pivot or a.shape[-1] != a.shape[-2]:
        raise NoForm("a matrix that is not square, or no pivots")
    return haul.lu(a)[0]


@row("triangular_solve", post=lambda s, r: r[0])
def _(haul, b, a, upper=True, transpose=False, unitriangular=False):
    if transpose:
        a, upper = haul.transpose(a, -1, -2), not upper
    return haul.solve_triangular(a, b, upper=upper, unit=unitriangular)


# PyTorch gives the triangle of the factor that is not read a gradient, too.
@row("cholesky_solve", factor=10, gradient=False)
def _(haul, b, a, upper=False):
    lower = haul.transpose(a, -1, -2) if upper else a
    y = haul.solve_triangular(lower, b, upper=False)
    return haul.solve_triangular(haul.transpose(lower, -1, -2), y, upper=True)


@row("cholesky_inverse", factor=100, gradient=False)
def _(haul, a, upper=False):
    if len(a.shape) > 2:
        raise NoForm("a batch")
    return ROWS["cholesky_solve"].call(haul, haul.eye(a.shape[-1], a.shape[-1], dtype=a.dtype), a, upper)


@row("svd", factor=10, post=lambda s, r: (r[1], (r[0][..., :r[1].shape[-1]] * r[1].unsqueeze(-2))
                                          @ r[2][..., :r[1].shape[-1]].mT))
def _(haul, a, some=True, compute_uv=True):
    if not compute_uv:
        raise NoForm("values alone")
    return product(haul, *haul.svd(a))


@row("norm.nuc", factor=10)
def _(haul, a, p=None, dim=None, keepdim=False):
    if len(a.shape) != 2 or dim is not None:
        raise NoForm("axes")
    y = haul.sum(haul.svd(a)[1])
    return haul.reshape(y, [1, 1]) if keepdim else y
