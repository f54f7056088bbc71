"""Custom operations whose kernels are texts."""

import os
import unittest
import unittest.mock

import haul


os.environ["CFLAGS"] = "-O0"  # compiles sooner


def trained(*values):
    x = haul.array(list(values))
    x.requires_grad = True
    return x


class Kernels(unittest.TestCase):
    def test_text(self):
        """Rows divided by the root of their mean square, in all dtypes and with a gradient."""
        def gradient(gradients, operands, results, eps):
            (x,), (g,) = operands, gradients
            scale = (x.square().mean(axes=1, keepdim=True) + eps).rsqrt()
            along = (g * x * scale).mean(axes=1, keepdim=True)
            return ((g - x * scale * along) * scale,)

        rms = haul.kernel("test.rms", """
            const I64 n = SIZE(0);
            FOR_ITEMS(i) {
                A sum = 0;
                for (I64 k = 0; k < n; k++) sum += LOAD(x, i * n + k) * LOAD(x, i * n + k);
                for (I64 k = 0; k < n; k++) STORE(y, i * n + k, LOAD(x, i * n + k) / M_SQRT(sum / (A)n + NUMBER(0)));
            }""", gradient, numbers=("eps",), launch=lambda operands, results: operands[0])
        for name in (n for n in haul.devices() if n.startswith(("cpu", "opencl", "cuda"))):
            with haul.device(name):
                for dtype in ("f16", "f32", "f64"):
                    x = haul.array([[3.0, 4.0], [1.0, -1.0]], dtype)
                    want = x / (x.square().mean(axes=1, keepdim=True) + 0.5).sqrt()
                    self.assertLess((rms(x, eps=0.5) - want).abs().max().item(), 2e-3 if dtype == "f16" else 1e-6)
        x = trained([3.0, 4.0], [1.0, -1.0])
        haul.sum(rms(x, eps=0.5) * haul.array([1.0, 2.0])).backward()
        got, x.grad = x.grad.tolist(), None
        haul.sum(x / (x.square().mean(axes=1, keepdim=True) + 0.5).sqrt() * haul.array([1.0, 2.0])).backward()
        for a, b in zip(sum(got, []), sum(x.grad.tolist(), [])):
            self.assertAlmostEqual(a, b, places=5)
        with self.assertRaises(TypeError):
            rms(x)
        with self.assertRaises(TypeError):
            rms(x, eps=1, delta=2)

    def test_shapes_and_types(self):
        """Counts how often numbers come before a place, and where the first of them is."""
        below = haul.kernel("test.below", "FOR_ITEMS(i) { I64 k = 0; while (k < SIZE(0) && !(LOAD(x, k) > (A)limits[i])) k++;"
                            " count[i] = k; STORE(value, i, k < SIZE(0) ? LOAD(x, k) : LIT(-1.0)); }",
                            operands={"x": "T", "limits": "I64"}, results={"count": "I64", "value": "T"},
                            shapes=lambda x, limits: (limits, limits), launch=lambda operands, results: (*results[0], *operands[0]))
        count, value = below(haul.array([1.0, 5.0, 9.0]), haul.array([0, 4, 9]))
        self.assertEqual((count.tolist(), value.tolist(), count.dtype), ([0, 1, 3], [1, 5, -1], "i64"))
        with self.assertRaises(haul.errors.DTypeError):
            below(haul.array([1.0]), haul.array([1.0]))

    def test_pointwise(self):
        swish = haul.pointwise("test.swish", "x * M_SIGMOID(beta * x)", numbers=("beta",))
        x = haul.array([[-1.0, 0.0, 2.0]])
        self.assertLess((swish(x, beta=2) - x * (x * 2).sigmoid()).abs().max().item(), 1e-6)
        hyp = haul.pointwise("test.hyp", "M_SQRT(a * a + b * b)", operands=("a", "b"))
        self.assertEqual(hyp(haul.array([3.0]), haul.array([4])).tolist(), [5])
        with self.assertRaisesRegex(ValueError, "not equal"):
            hyp(haul.ones(2), haul.ones(3))
        with self.assertRaises(haul.errors.GradientError):
            hyp(trained(1.0), haul.ones(1))
        recorded = []
        step = haul.recording(lambda: recorded.append(swish(x, beta=1)))
        for _ in range(3):
            step()
        self.assertEqual(recorded[0].tolist(), recorded[2].tolist())

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "does not compile"):
            haul.pointwise("test.unknown", "nothing_of_that_name(x)")
        for bad in (lambda: haul.kernel("test.k", "", operands=("x y",)), lambda: haul.kernel("test.k", "", operands={"x": "double"}),
                    lambda: haul.kernel("test.k", "", operands=()), lambda: haul.kernel("haul_k", "FOR_ITEMS(i) STORE(y, i, 0);"),
                    lambda: haul.pointwise("test.k", "x", operands=("x", "x")), lambda: haul.kernel("test.k", "", operands="abcdef")):
            with self.assertRaises(ValueError):
                bad()
        raising = haul.kernel("test.launch", "FOR_ITEMS(i) STORE(y, i, 0);", launch=lambda operands, results: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            raising(haul.ones(1))

    def test_without_a_compiler(self):
        """The CPU refuses, and other devices compute."""
        with unittest.mock.patch.dict(os.environ, CC="/nowhere/cc"):
            half = haul.pointwise("test.half", "x / 2")
        with self.assertRaisesRegex(haul.errors.UnsupportedError, "C compiler"):
            half(haul.ones(2))
        for name in haul.devices():
            if name.startswith(("opencl", "cuda")):
                self.assertEqual(half(haul.ones(2).to(name)).tolist(), [0.5, 0.5])


if __name__ == "__main__":
    unittest.main()
