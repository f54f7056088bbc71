"""haul.Array: making, reading, operators, indexing, errors, lifetimes."""

import gc
import math
import sys
import threading
import unittest

import haul


class Making(unittest.TestCase):
    def test_dtypes_of_numbers(self):
        self.assertEqual(haul.array([True, False]).dtype, "bool")
        self.assertEqual(haul.array([1, True]).dtype, "i64")
        self.assertEqual(haul.array([1, 2.5]).dtype, "f32")
        self.assertEqual(haul.array([]).shape, (0,))
        self.assertEqual(haul.array(2.5).shape, ())
        for dtype in ("bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"):
            x = haul.array([[0, 1], [1, 0]], dtype=dtype)
            self.assertEqual((x.dtype, x.shape, x.ndim, x.size), (dtype, (2, 2), 2, 4))
            self.assertEqual(x.tolist(), [[0, 1], [1, 0]])

    def test_values_are_exact(self):
        self.assertEqual(haul.array([2**63 - 1, -(2**63)]).tolist(), [2**63 - 1, -(2**63)])
        self.assertEqual(haul.array([0.1], dtype="f64").tolist(), [0.1])
        self.assertEqual(haul.array([1.0009765625], dtype="f16").item(), 1.0009765625)
        self.assertTrue(math.isnan(haul.array(float("nan")).item()))
        with self.assertRaises(OverflowError):
            haul.array([2**63])
        flags = haul.array([True, False])
        self.assertEqual([(flags & True).dtype, (False | flags).dtype, (flags ^ True).tolist()], ["bool", "bool", [False, True]])
        whole = haul.array([1], dtype="i64")
        self.assertEqual((whole + (2**53 + 1)).tolist(), [2**53 + 2])
        self.assertEqual((2**60 - whole).tolist(), [2**60 - 1])
        self.assertEqual((whole == 2**53 + 1).tolist(), [False])
        for x, value in ((whole, 2**63), (haul.zeros(1, dtype="i32"), 2**60)):
            with self.assertRaises(OverflowError):
                x + value
        for values, dtype in (([300], "u8"), ([1, -1], "u8"), ([[1], [-129]], "i8"), ([2**31], "i32")):
            with self.assertRaises(OverflowError, msg=(values, dtype)):
                haul.array(values, dtype=dtype)

    def test_bad_data(self):
        for data, error in (([1, [2]], ValueError), ([[1], [2, 3]], ValueError), (["a"], TypeError), ("a", TypeError),
                            ([1j], TypeError), ([None], TypeError), (object(), TypeError), ([haul.ones(2)], TypeError)):
            with self.assertRaises(error, msg=repr(data)):
                haul.array(data)
        nested = [1]
        for _ in range(8):
            nested = [nested]
        with self.assertRaises(ValueError):
            haul.array(nested)
        with self.assertRaises(ValueError):
            haul.array([1], dtype="u128")
        with self.assertRaises(haul.errors.DeviceError):
            haul.array([1], device="cuda:99")

    def test_a_list_that_changes(self):
        class Sly:
            def __index__(self):
                items.clear()
                return 1

            __float__ = __index__

        items = [1.0, Sly(), 2.0]
        with self.assertRaises((RuntimeError, TypeError)):
            haul.array(items)

    def test_lists_that_end_while_they_are_measured(self):
        class Clears:
            def __len__(self):
                return 2

            def __getitem__(self, i):
                return 1.0

            def __iter__(self):
                outer.clear()
                return iter([1.0, 2.0])

        for _ in range(20):
            outer = [Clears() for _ in range(3)]
            with self.assertRaises((IndexError, RuntimeError)):
                haul.array(outer)

    def test_creation(self):
        self.assertEqual(haul.zeros(2, 3).shape, (2, 3))
        self.assertEqual(haul.zeros((2, 3), dtype="i32").dtype, "i32")
        self.assertEqual(haul.full((2,), 7).tolist(), [7, 7])
        self.assertEqual(haul.arange(3).tolist(), [0, 1, 2])
        self.assertEqual(haul.arange(0, 1, 0.5).tolist(), [0, 0.5])
        self.assertEqual(haul.eye(2, 2).tolist(), [[1, 0], [0, 1]])
        haul.manual_seed(3)
        a = haul.randn(4)
        haul.manual_seed(3)
        self.assertEqual(a.tolist(), haul.randn(4).tolist())

    def test_buffers(self):
        self.assertEqual(haul.array(b"\x01\x02").tolist(), [1, 2])
        view = memoryview(bytearray(range(6))).cast("B", (2, 3))
        self.assertEqual(haul.array(view).tolist(), [[0, 1, 2], [3, 4, 5]])
        x = haul.arange(6).reshape(2, 3)
        shared = memoryview(x)
        self.assertEqual((shared.shape, shared.format, shared.readonly), ((2, 3), "q", False))
        x[1, 2] = 50
        self.assertEqual(shared[1, 2], 50)
        self.assertTrue(memoryview(haul.zeros(1, 2).expand(3, 2)).readonly)
        with self.assertRaises(BufferError):
            memoryview(haul.ones(2, dtype="bf16"))
        del x
        gc.collect()
        self.assertEqual(shared[1, 2], 50)


class Operators(unittest.TestCase):
    def test_arithmetic(self):
        x = haul.array([1.0, 2.0, 4.0])
        y = haul.array([[2.0], [4.0]])
        self.assertEqual((x + y).tolist(), [[3, 4, 6], [5, 6, 8]])
        self.assertEqual((x - 1).tolist(), [0, 1, 3])
        self.assertEqual((1 - x).tolist(), [0, -1, -3])
        self.assertEqual((1 / x).tolist(), [1, 0.5, 0.25])
        self.assertEqual((2**x).tolist(), [2, 4, 16])
        self.assertEqual((x**2).tolist(), [1, 4, 16])
        self.assertEqual((7 // x).tolist(), [7, 3, 1])
        self.assertEqual((7 % x).tolist(), [0, 1, 3])
        self.assertEqual((-x).tolist(), [-1, -2, -4])
        self.assertEqual(abs(-x).tolist(), [1, 2, 4])
        self.assertEqual((y.T @ y).tolist(), [[20]])
        self.assertEqual((x > 1).tolist(), [False, True, True])
        self.assertEqual((x == 2).tolist(), [False, True, False])
        self.assertEqual((~(x > 1) | (x == 4)).tolist(), [True, False, True])
        i = haul.array([1, 2, 3])
        self.assertEqual((i << 1).tolist(), [2, 4, 6])
        self.assertEqual((8 >> i).tolist(), [4, 2, 1])
        self.assertEqual((i & 1).tolist(), [1, 0, 1])
        self.assertEqual((i * 0.5).dtype, "f32")
        z = x
        z += 1
        self.assertEqual((x.tolist(), z.tolist()), ([1, 2, 4], [2, 3, 5]))

    def test_other_types(self):
        x = haul.ones(2)
        for wrong in ("a", None, [1, 2], object()):
            with self.assertRaises(TypeError):
                x + wrong
        self.assertFalse(x == None)  # noqa: E711
        self.assertEqual(len({x, x, haul.ones(2)}), 2)

    def test_numbers(self):
        self.assertEqual((float(haul.array(2.5)), int(haul.array([3])), bool(haul.array(0))), (2.5, 3, False))
        self.assertEqual([10, 20][haul.array(1)], 20)
        with self.assertRaises(ValueError):
            bool(haul.ones(2))
        with self.assertRaises(TypeError):
            [1][haul.array(0.0)]
        self.assertEqual(repr(haul.array([1, 2])), "[1, 2] i64[2] on cpu")

    def test_text_of_elements_that_change(self):
        x, done = haul.zeros(1000, dtype="i64"), threading.Event()

        def flip():
            while not done.is_set():
                x[...] = 0
                x[...] = -(2**62)

        before = sys.getswitchinterval()
        thread = threading.Thread(target=flip)
        sys.setswitchinterval(1e-6)
        thread.start()
        try:
            texts = [repr(x) for _ in range(1000)]
        finally:
            done.set()
            thread.join()
            sys.setswitchinterval(before)
        for text in texts:
            self.assertTrue(text.endswith("i64[1000] on cpu"), text)
            self.assertTrue(set(text) <= set("[]-0123456789, \n.i64oncpu"), text)


class Indexing(unittest.TestCase):
    def test_reading(self):
        x = haul.arange(24).reshape(2, 3, 4)
        self.assertEqual(x[1, 2, 3].item(), 23)
        self.assertEqual(x[-1].shape, (3, 4))
        self.assertEqual(x[:, 1:, ::2].tolist(), [[[4, 6], [8, 10]], [[16, 18], [20, 22]]])
        self.assertEqual(x[..., 0].tolist(), [[0, 4, 8], [12, 16, 20]])
        self.assertEqual(x[None, ..., None].shape, (1, 2, 3, 4, 1))
        self.assertEqual(x[0, 0, ::-1].tolist(), [3, 2, 1, 0])
        self.assertEqual(x[0, [2, 0], 1].tolist(), [9, 1])
        self.assertEqual(x[haul.array([[0, 1]]), 0, 0].tolist(), [[0, 12]])
        self.assertEqual(x[x > 21].tolist(), [22, 23])
        self.assertEqual(x[()].shape, x.shape)
        self.assertEqual(x[5:100, 0].shape, (0, 4))
        self.assertEqual(len(x), 2)
        self.assertEqual([row[0, 0].item() for row in x], [0, 12])
        self.assertEqual(x[[]].shape, (0, 3, 4))
        self.assertEqual(x[:, []].shape, (2, 0, 4))
        for start in (-(2**63), -(2**63) - 1, -(2**63) + 1):
            self.assertEqual(x[start:1].shape, (1, 3, 4))
            self.assertEqual(x[:start].shape, (0, 3, 4))

    def test_writing(self):
        x = haul.zeros(2, 3)
        x[0] = 1
        x[:, 2] = [5, 6]
        x[1, 0] = haul.array(7)
        self.assertEqual(x.tolist(), [[1, 1, 5], [7, 0, 6]])
        x[x > 4] = -1
        self.assertEqual(x.tolist(), [[1, 1, -1], [-1, 0, -1]])
        x[[1, 0], [0, 1]] = haul.array([8, 9])
        self.assertEqual(x.tolist(), [[1, 9, -1], [8, 0, -1]])
        x[0, ::-1] = haul.array([1, 2, 3])
        self.assertEqual(x[0].tolist(), [3, 2, 1])
        x[...] = haul.ones(3)
        self.assertEqual(x.sum().item(), 6)
        bytes_, whole = haul.zeros(2, dtype="u8"), haul.zeros(2, dtype="i64")
        for key in (0, [0]):
            for y, value in ((bytes_, -1), (bytes_, 256), (whole, 2**63), (haul.zeros(2, dtype="i8"), 128)):
                with self.assertRaises(OverflowError, msg=(key, value)):
                    y[key] = value
            for value in (2**53 + 1, -(2**63), 2**63 - 1, 5):
                whole[key] = value
                self.assertEqual(whole.tolist(), [value, 0])
            with self.assertRaises(OverflowError):
                bytes_[...] = [1, 256]
            exact = haul.zeros(2, dtype="f64")
            exact[...] = [0.1, 0.2]
            self.assertEqual(exact.tolist(), [0.1, 0.2])
            bytes_[key] = 255
            self.assertEqual(bytes_.tolist(), [255, 0])

    def test_errors(self):
        x = haul.zeros(2, 3)
        for key in (2, (0, 3), (0, 0, 0), "a", 1.5, haul.array([0.5]), (0,) * 13, haul.array([True] * 5)):
            with self.assertRaises((IndexError, TypeError, ValueError), msg=repr(key)):
                x[key]
        with self.assertRaises(IndexError):
            x[2] = 1
        with self.assertRaises(ValueError):
            x[0] = haul.ones(4)
        with self.assertRaises(ValueError):
            x[::0]
        with self.assertRaises(TypeError):
            del x[0]
        with self.assertRaises(TypeError):
            len(haul.array(1))
        with self.assertRaises(TypeError):
            list(haul.array(1))


class Errors(unittest.TestCase):
    def test_classes(self):
        with self.assertRaises(haul.errors.ShapeError) as caught:
            haul.zeros(2) + haul.zeros(3)
        self.assertIsInstance(caught.exception, ValueError)
        self.assertEqual(caught.exception.operation, "haul_add")
        self.assertIn("do not broadcast", str(caught.exception))
        self.assertEqual(caught.exception.status, "shapes do not fit")
        with self.assertRaises(MemoryError):
            haul.zeros(2**50)
        with self.assertRaises(OSError):
            haul.load_npy("/nowhere/x.npy")
        with self.assertRaises(OSError):
            haul.load_npy(b"/nowhere/\xff.npy")
        with self.assertRaises(TypeError):
            haul.relu(haul.ones(2, dtype="bool"), 1)
        haul.ones(2)  # the next call is not affected

    def test_arguments(self):
        x = haul.ones(1, 1, 4, 4)
        for call in (lambda: haul.relu(), lambda: haul.relu(1), lambda: haul.relu(x, x), lambda: haul.relu(y=x),
                     lambda: haul.relu(x, x=x), lambda: haul.softmax(x, 1.5), lambda: haul.max_pool2d(x, "a"),
                     lambda: haul.mse_loss(x, x, reduction=3.5, other=1)):
            with self.assertRaises(TypeError):
                call()
        with self.assertRaises(ValueError) as caught:
            haul.mse_loss(x, x, reduction="most")
        self.assertIn('"mean"', str(caught.exception))
        with self.assertRaises(ValueError):
            haul.zeros((1,) * 9)
        with self.assertRaises(OverflowError):
            haul.softmax(x, 2**40)

    def test_each_thread_has_its_own(self):
        seen = []

        def work(size):
            for _ in range(200):
                try:
                    haul.zeros(size) + haul.zeros(size + 1)
                except haul.errors.ShapeError as error:
                    seen.append(f"[{size}]" in str(error))

        threads = [threading.Thread(target=work, args=(n,)) for n in (2, 5, 8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(seen, [True] * 600)


class Lifetimes(unittest.TestCase):
    def test_memory_comes_back(self):
        gc.collect()
        before = haul.memory()["allocated"]
        for _ in range(3):
            x = haul.ones(1000, 1000)
            y = x.reshape(100, 10000)[3:, ::2] + 1
            del x
            self.assertEqual(y[0, 0].item(), 2)
            del y
            with self.assertRaises(haul.Error):
                haul.zeros(2) + haul.zeros(3)
        gc.collect()
        self.assertLessEqual(haul.memory()["allocated"] - before, 4096)

    def test_other_threads_end_arrays(self):
        arrays = [haul.ones(100) for _ in range(100)]
        thread = threading.Thread(target=arrays.clear)
        thread.start()
        thread.join()
        made = []
        thread = threading.Thread(target=lambda: made.append(haul.ones(3) + 1))
        thread.start()
        thread.join()
        self.assertEqual(made[0].tolist(), [2, 2, 2])


if __name__ == "__main__":
    unittest.main()
