"""haul.array_api: the names of the array API standard, beside what NumPy computes.

HAUL_ARRAY_API_TESTS=FOLDER names a checkout of array-api-tests (docs/python.md says how to prepare it); all of its tests
pass but those in EXPECTED."""

import importlib.util
import itertools
import math
import os
import subprocess
import sys
import unittest

import haul

xp = haul.array([1.0]).__array_namespace__(api_version="2024.12")

# What the standard names and the library does not have, and the tests of array-api-tests that need it.
MISSING = {"fft", "complex64", "complex128"}
EXPECTED = ["test_has_names[fft-", "_signature[fft.", "test_linalg.py::test_vecdot_conj", "test_reshape ",
            # complex numbers, and where floor_div and remainder are those of Python
            "(real(x_i)", "real(x_i) is", "floor_divide(x1_i is", "__floordiv__(x1_i is", "__ifloordiv__(x1_i is",
            "(isfinite(x1_i) and x1_i > 0 and x2_i is -infinity) -> -0", "(isfinite(x1_i) and x1_i < 0 and x2_i is +infinity) -> -0",
            "(x1_i is -0 and x2_i > 0) -> +0", "(x1_i is +0 and x2_i < 0) -> -0"]
NAMES = """e inf nan newaxis pi bool int8 int16 int32 int64 uint8 float32 float64 arange asarray empty empty_like eye from_dlpack full
full_like linspace meshgrid ones ones_like tril triu zeros zeros_like astype can_cast finfo iinfo isdtype result_type abs acos
acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor
ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan
less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative
nextafter not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc take
take_along_axis matmul matrix_transpose tensordot vecdot broadcast_arrays broadcast_to concat expand_dims flip moveaxis
permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where unique_all
unique_counts unique_inverse unique_values argsort sort cumulative_prod cumulative_sum max mean min prod std sum var all any diff
linalg __array_namespace_info__ __array_api_version__""".split()


class Names(unittest.TestCase):
    def test_names(self):
        self.assertEqual([n for n in NAMES if not hasattr(xp, n)], [])
        self.assertEqual({n for n in MISSING if hasattr(xp, n)}, set())
        self.assertIs(xp, haul.array_api)
        with self.assertRaises(ValueError):
            haul.ones(1).__array_namespace__(api_version="2030.12")

    def test_dtypes(self):
        self.assertEqual(haul.ones(1).dtype, xp.float32)
        self.assertEqual(haul.ones(1).dtype, "f32")
        self.assertNotEqual(xp.float32, xp.float64)
        self.assertEqual({xp.float32: 1}["f32"], 1)
        self.assertEqual((str(xp.int8), repr(xp.bool), f"{xp.int8:>4}"), ("i8", "haul.bool_", "  i8"))
        with self.assertRaises(AttributeError):
            xp.int8.name = "i16"
        self.assertTrue(xp.isdtype(xp.int8, ("bool", "signed integer")))
        self.assertFalse(xp.isdtype(xp.int8, xp.int16))
        with self.assertRaises(ValueError):
            xp.isdtype(xp.int8, "whole")
        self.assertEqual(xp.result_type(xp.int8, haul.ones(1, dtype="u8"), 3), "i16")
        self.assertTrue(xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int16, xp.int8))
        self.assertEqual((xp.iinfo(xp.int16).max, xp.iinfo("u8").min, xp.finfo(xp.float64).eps), (32767, 0, 2.0**-52))
        info = xp.__array_namespace_info__()
        self.assertEqual(info.default_dtypes()["integral"], "i64")
        self.assertEqual(set(info.dtypes(kind="real floating")), {"float32", "float64"})
        self.assertIn("cpu", info.devices())

    def test_array_methods(self):
        x = haul.array([[1, 2, 3], [4, 5, 6]])
        self.assertEqual((x.mT.shape, x.to_device("cpu").tolist()), ((3, 2), x.tolist()))
        self.assertEqual(complex(haul.array(2.5)), 2.5 + 0j)
        with self.assertRaises(ValueError):
            haul.ones(2).mT
        with self.assertRaises(ValueError):
            x.to_device("cpu", stream=1)

    def test_negative_indices_in_arrays(self):
        x = haul.array([[1, 2, 3], [4, 5, 6]])
        self.assertEqual(x[haul.array([-1, 0])].tolist(), [[4, 5, 6], [1, 2, 3]])
        self.assertEqual(x[..., haul.array([-1, 0], dtype="i8")].tolist(), [[3, 1], [6, 4]])
        self.assertEqual(x[None, :, haul.array([[-3]])].tolist(), [[[[1]], [[4]]]])
        self.assertEqual(x[haul.array([-1, 0]), haul.array([0, -1])].tolist(), [4, 3])
        self.assertEqual(x[haul.array(-1)].tolist(), [4, 5, 6])
        for outside in ([2], [-3]):
            with self.assertRaises(IndexError):
                x[haul.array(outside)].tolist()
        x[haul.array([-1])] = 0
        self.assertEqual(x.tolist(), [[1, 2, 3], [0, 0, 0]])
        self.assertEqual(haul.array(5)[haul.array(True)].tolist(), [5])
        self.assertEqual(haul.array(5)[haul.array(False)].tolist(), [])

    def test_arange(self):
        self.assertEqual(xp.arange(0, 0.0, 2**53 + 1).shape, (0,))
        self.assertEqual(xp.arange(2**60, 2**60 + 2, dtype=xp.int64).tolist(), [2**60, 2**60 + 1])
        self.assertEqual(xp.arange(1, 4, dtype=xp.int8).dtype, "i8")
        self.assertEqual(xp.arange(3, dtype=xp.float64).tolist(), [0, 1, 2])

    def test_lists_of_scalars(self):
        x = haul.array([[1.5, 2.0]], dtype="f64")
        self.assertEqual(haul.array([x[0, 1], x[0, 0]]).dtype, "f64")
        self.assertEqual(haul.array([x[0, 1], 3]).tolist(), [2, 3])
        with self.assertRaises(TypeError):
            haul.array([haul.ones(2), haul.ones(2)])

    def test_refusals(self):
        x = haul.ones(2, 3)
        for call in (lambda: xp.asarray(x, dtype=xp.int8, copy=False), lambda: xp.asarray([1], copy=False),
                     lambda: xp.squeeze(x, 0), lambda: xp.expand_dims(x, 5), lambda: xp.nonzero(haul.array(1)),
                     lambda: xp.meshgrid(x, indexing="yx"), lambda: xp.searchsorted(x, x, side="middle"),
                     lambda: xp.broadcast_arrays(x, haul.ones(4)), lambda: xp.add(1, 2), lambda: xp.add(haul.array([1]), 1.5),
                     lambda: xp.moveaxis(x, (0, 1), 0), lambda: xp.linalg.qr(x, mode="raw"), lambda: xp.linalg.cross(x, x[:, :2])):
            with self.assertRaises((ValueError, IndexError, TypeError, NotImplementedError)):
                call()


@unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
class BesideNumPy(unittest.TestCase):
    def setUp(self):
        import numpy

        self.np = numpy
        r = numpy.random.default_rng(1)
        self.arrays = [r.uniform(0.1, 0.9, (3, 4)).astype("f4"), r.integers(1, 5, (3, 4)), r.uniform(0.1, 0.9, (4,))]

    def same(self, ours, theirs, what):
        theirs = self.np.asarray(theirs)
        self.assertEqual(ours.shape, theirs.shape, what)
        self.np.testing.assert_allclose(self.np.asarray(ours), theirs, rtol=2e-5, atol=1e-6, err_msg=what)

    def test_unary(self):
        names = {"acos": "arccos", "asin": "arcsin", "atan": "arctan", "asinh": "arcsinh", "atanh": "arctanh"}
        for name in """abs acos asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log log1p log2 log10
                       logical_not negative positive reciprocal round sign signbit sin sinh square sqrt tan tanh trunc""".split():
            x = self.arrays[0] - 0.3
            with self.np.errstate(all="ignore"):
                self.same(getattr(xp, name)(haul.array(x)), getattr(self.np, names.get(name, name))(x), name)

    def test_binary(self):
        names = {"atan2": "arctan2", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "pow": "power"}
        x, n, y = self.arrays
        for name in """add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp maximum
                       minimum multiply nextafter not_equal pow remainder subtract""".split():
            theirs = getattr(self.np, names.get(name, name))
            self.same(getattr(xp, name)(haul.array(x), haul.array(y, dtype="f32")), theirs(x, y.astype("f4")), name)
            self.same(getattr(xp, name)(haul.array(x), 2), theirs(x, self.np.float32(2)), name)
            self.same(getattr(xp, name)(2.0, haul.array(x)), theirs(self.np.float32(2), x), name)
        for name in "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split():
            self.same(getattr(xp, name)(haul.array(n), haul.array(n)), getattr(self.np, names.get(name, name))(n, n), name)
        self.same(xp.bitwise_and(haul.array([2**60 + 1]), 2**60), [2**60], "wide numbers")

    def test_reductions(self):
        for x, name, axis, keepdims in itertools.product(self.arrays[:2], "all any max min prod sum mean std var".split(),
                                                         (None, 0, -1, (0, 1), (1,)), (False, True)):
            if name in ("mean", "std", "var") and x.dtype.kind != "f":
                continue
            self.same(getattr(xp, name)(haul.array(x), axis=axis, keepdims=keepdims),
                      getattr(self.np, name)(x, axis=axis, keepdims=keepdims), (name, axis, keepdims))
        x = haul.array(self.arrays[1], dtype="i8")
        self.assertEqual((xp.sum(x).dtype, xp.sum(x, dtype=xp.int8).dtype, xp.cumulative_sum(x, axis=0).dtype), ("i64", "i8", "i64"))
        self.same(xp.count_nonzero(x - 1, axis=0), self.np.count_nonzero(self.arrays[1] - 1, axis=0), "count_nonzero")
        self.same(xp.cumulative_sum(x, axis=1, include_initial=True)[:, 1:], self.np.cumsum(self.arrays[1], 1), "cumulative_sum")
        for name, keepdims in itertools.product(("argmax", "argmin"), (False, True)):
            for axis in (None, 0, 1):
                self.same(getattr(xp, name)(haul.array(self.arrays[0]), axis=axis, keepdims=keepdims),
                          getattr(self.np, name)(self.arrays[0], axis=axis, keepdims=keepdims), name)

    def test_shapes(self):
        x, n, y = (haul.array(a) for a in self.arrays)
        a, m, b = self.arrays
        np = self.np
        pairs = [(xp.roll(x, 1), np.roll(a, 1)), (xp.roll(x, (1, 2), axis=(0, 1)), np.roll(a, (1, 2), (0, 1))),
                 (xp.flip(x, axis=1), np.flip(a, 1)), (xp.moveaxis(x, 0, -1), np.moveaxis(a, 0, -1)),
                 (xp.repeat(x, 2), np.repeat(a, 2)), (xp.repeat(x, haul.array([1, 0, 2]), axis=0), np.repeat(a, [1, 0, 2], 0)),
                 (xp.tile(x, (2,)), np.tile(a, 2)), (xp.tile(y, (2, 1)), np.tile(b, (2, 1))),
                 (xp.concat([x, n], axis=0), np.concatenate([a, m])), (xp.concat([x, y], axis=None), np.concatenate([a, b], None)),
                 (xp.stack([x, x], axis=1), np.stack([a, a], 1)), (xp.unstack(x, axis=1)[2], a[:, 2]),
                 (xp.broadcast_to(y, (3, 4)), np.broadcast_to(b, (3, 4))), (xp.take(x, haul.array([2, 0]), axis=0), a[[2, 0]]),
                 (xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1), np.sort(a, 1)), (xp.eye(3, 4, k=1), np.eye(3, 4, 1)),
                 (xp.eye(3, k=-2), np.eye(3, k=-2)), (xp.eye(2, k=5), np.eye(2, k=5)), (xp.clip(x, 0.3, 0.6), np.clip(a, 0.3, 0.6)),
                 (xp.clip(x, max=0.5), np.minimum(a, np.float32(0.5))), (xp.where(x > 0.5, x, 0), np.where(a > 0.5, a, 0)),
                 (xp.linspace(0, 1, 5, endpoint=False), np.linspace(0, 1, 5, endpoint=False)), (xp.arange(2**60, 2**60 + 3), 2**60 + np.arange(3)),
                 (xp.diff(y, prepend=y[:1], n=2), np.diff(b, prepend=b[:1], n=2)), (xp.full((2,), 2**60 + 1), np.full(2, 2**60 + 1)),
                 (xp.searchsorted(xp.sort(y), y, side="right"), np.searchsorted(np.sort(b), b, "right")), (xp.tril(x, k=1), np.tril(a, 1))]
        for k, (ours, theirs) in enumerate(pairs):
            self.same(ours, theirs, f"pair {k}")
        for ours, theirs in zip(xp.meshgrid(y, haul.array([1.0, 2.0])), np.meshgrid(b, [1.0, 2.0])):
            self.same(ours, theirs, "meshgrid")
        for ours, theirs in zip(xp.unique_all(n), (*np.unique(m, return_index=True, return_inverse=True, return_counts=True),)):
            self.assertEqual(ours.reshape(-1).tolist(), theirs.reshape(-1).tolist())
        self.assertEqual([i.tolist() for i in xp.nonzero(n > 2)], [i.tolist() for i in np.nonzero(m > 2)])

    def test_matrices(self):
        x, y = haul.array(self.arrays[0]), haul.array(self.arrays[2], dtype="f32")
        a, b = self.arrays[0], self.arrays[2].astype("f4")
        square = a @ a.T + self.np.eye(3, dtype="f4")
        s, np, la = haul.array(square), self.np, self.np.linalg
        small = haul.array([[100, 100]], dtype="i8")
        self.assertEqual(xp.matmul(small, small.mT).dtype, "i8")
        pairs = [(xp.vecdot(x, y), a @ b), (xp.tensordot(x, x, axes=((0, 1), (0, 1))), np.tensordot(a, a)), (xp.linalg.det(s), la.det(square)),
                 (xp.linalg.inv(s), la.inv(square)), (xp.linalg.trace(s, offset=1), np.trace(square, 1)),
                 (xp.linalg.cholesky(s, upper=True), la.cholesky(square).T), (xp.linalg.eigvalsh(s), la.eigvalsh(square)),
                 (xp.linalg.svdvals(x), la.svd(a)[1]), (xp.linalg.pinv(x), la.pinv(a)), (xp.linalg.matrix_power(s, 3), la.matrix_power(square, 3)),
                 (xp.linalg.vector_norm(x, axis=1, ord=3), la.norm(a, 3, 1)), (xp.linalg.outer(y, y), np.outer(b, b))]
        for p in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
            pairs += [(xp.linalg.matrix_norm(x, ord=p, keepdims=k), la.norm(a, p, (0, 1), keepdims=k)) for k in (False, True)]
        for k, (ours, theirs) in enumerate(pairs):
            self.same(ours, theirs, f"pair {k}")
        u, values, vh = xp.linalg.svd(s)
        self.same(u * values @ vh, square, "svd")
        self.same(xp.linalg.vector_norm(x, axis=()), np.abs(a), "norm of each element")
        three = haul.array(square)
        for axis in (-1, -2):
            self.same(xp.linalg.cross(three, three + three.mT * three, axis=axis),
                      np.cross(square, square + square.T * square, axis=axis), "cross")
        with self.assertRaises(ValueError):
            xp.linalg.cross(x, x)
        for tall in (x.mT, x, haul.zeros(3, 1), haul.ones(4, 2), haul.cat([x.mT, x.mT * 2], 1)):
            b = np.array(tall.tolist(), dtype="f4")
            q, r = xp.linalg.qr(tall, mode="complete")
            self.same(q @ r, b, "qr")
            self.same(q @ q.mT, np.eye(len(b), dtype="f4"), "the columns of q")
            u, values, vh = xp.linalg.svd(tall)
            self.assertEqual((u.shape, vh.shape), ((len(b),) * 2, (len(b[0]),) * 2))
            self.same(u @ u.mT, np.eye(len(b), dtype="f4"), "the columns of u")
            self.same(vh @ vh.mT, np.eye(len(b[0]), dtype="f4"), "the rows of vh")
            k = len(values)
            self.same(u[:, :k] * values @ vh[:k], b, "svd")
            self.assertEqual(xp.linalg.matrix_rank(tall).item(), la.matrix_rank(b))
        both = haul.stack([x.mT, haul.zeros(4, 3)], 0)
        self.assertEqual(xp.linalg.matrix_rank(both, rtol=haul.array([0.9, 0.5])).tolist(), [1, 0])
        self.same(xp.linalg.pinv(both, rtol=haul.array([1e-6, 0.5]))[0], la.pinv(a.T), "pinv")
        self.assertEqual(xp.linalg.matrix_rank(haul.zeros(2, 0, 3)).tolist(), [0, 0])


@unittest.skipUnless(os.environ.get("HAUL_ARRAY_API_TESTS"), "HAUL_ARRAY_API_TESTS names no checkout of array-api-tests")
class Suite(unittest.TestCase):
    def test_suite(self):
        environment = {**os.environ, "ARRAY_API_TESTS_MODULE": "haul.array_api", "ARRAY_API_TESTS_VERSION": "2024.12",
                       "ARRAY_API_TESTS_SKIP_DTYPES": "uint16,uint32,uint64,complex64,complex128"}
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "--hypothesis-disable-deadline",
                               "--hypothesis-max-examples=20", "array_api_tests"],
                              cwd=os.environ["HAUL_ARRAY_API_TESTS"], env=environment, stdout=subprocess.PIPE, text=True)
        self.maxDiff = None
        failed = [line for line in done.stdout.split("\n") if line.startswith("FAILED")]
        self.assertEqual([line for line in failed if not any(known in line for known in EXPECTED)], [])
        self.assertRegex(done.stdout, "[0-9]{4} passed", done.stdout[-2000:])


if __name__ == "__main__":
    unittest.main()
