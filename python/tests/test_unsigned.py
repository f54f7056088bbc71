"""u16, u32 and u64 against NumPy: arithmetic, casts, order, files, buffers and DLPack."""

import os
import tempfile
import unittest

import haul

try:
    import numpy
except ImportError:
    numpy = None

xp = haul.ones(1).__array_namespace__()
DTYPES = ("uint16", "uint32", "uint64")


class Numbers(unittest.TestCase):
    def test_lists(self):
        for name in ("u16", "u32", "u64"):
            most = 2**haul.dtype_bits(name) - 1
            x = haul.array([[0, 1], [most - 1, most]], dtype=name)
            self.assertEqual((x.dtype, x.tolist()), (name, [[0, 1], [most - 1, most]]))
            self.assertEqual((haul.max(x).item(), (x + 1).tolist()), (most, [[1, 2], [most, 0]]))
            for wrong in (-1, most + 1):
                with self.assertRaises(OverflowError):
                    haul.array([wrong], dtype=name)
            self.assertEqual(xp.iinfo(name).max, most)

    def test_dtypes(self):
        self.assertEqual(haul.uint16, "u16")
        self.assertEqual(xp.result_type(xp.uint16, xp.int16), "i32")
        self.assertTrue(xp.can_cast(xp.uint16, xp.int32) and not xp.can_cast(xp.uint32, xp.int32))
        self.assertFalse(xp.can_cast(xp.uint64, xp.int64) or xp.can_cast(xp.int8, xp.uint64))
        self.assertTrue(xp.isdtype(xp.uint64, "unsigned integer") and xp.isdtype(xp.uint16, "integral"))
        with self.assertRaisesRegex(haul.Error, "no dtype has the values of u64 and i8"):
            haul.ones(1, dtype="u64") + haul.ones(1, dtype="i8")
        with self.assertRaisesRegex(haul.Error, "convert it with haul_cast to i64"):
            haul.sum(haul.ones(1, dtype="u32"))


@unittest.skipUnless(numpy, "NumPy is not installed")
class AgainstNumPy(unittest.TestCase):
    def test_operations(self):
        generator = numpy.random.default_rng(1)
        for name in DTYPES:
            most = numpy.iinfo(name).max
            a, b = (generator.integers(0, most, 500, dtype=name, endpoint=True) for _ in range(2))
            b[::2] %= 50
            b[b == 0] = 1
            x, y = haul.asarray(a.copy()), haul.asarray(b.copy())
            self.assertEqual((x.dtype, y.dtype), (haul.dtype_name(name),) * 2)
            pairs = [(haul.add, numpy.add), (haul.sub, numpy.subtract), (haul.mul, numpy.multiply), (haul.pow, numpy.power),
                     (haul.floor_div, numpy.floor_divide), (haul.remainder, numpy.remainder), (haul.maximum, numpy.maximum),
                     (haul.minimum, numpy.minimum), (haul.bitwise_and, numpy.bitwise_and), (haul.bitwise_xor, numpy.bitwise_xor),
                     (haul.lt, numpy.less), (haul.ge, numpy.greater_equal), (haul.eq, numpy.equal)]
            for ours, theirs in pairs:
                wanted = theirs(a, b)
                self.assertEqual(ours(x, y).tolist(), wanted.tolist(), f"{name} {theirs}")
            shift = (b % 16).astype(name)
            self.assertEqual(haul.right_shift(x, haul.asarray(shift)).tolist(), (a >> shift).tolist())
            self.assertEqual(haul.sort(x, 0)[0].tolist(), numpy.sort(a).tolist())
            self.assertEqual(haul.argsort(x, 0).tolist(), numpy.argsort(a, kind="stable").tolist())
            for to in ("i8", "u8", "i32", "i64", "f64", "f32", "bool", "u16", "u32", "u64"):
                wanted = a.astype({"i": "int", "u": "uint", "f": "float"}.get(to[0], "") + to[1:] if to != "bool" else to)
                self.assertEqual(x.cast(to).tolist(), wanted.tolist() if to != "bool" else (a != 0).tolist(), to)

    def test_exchange(self):
        for name in DTYPES:
            a = numpy.array([0, 1, numpy.iinfo(name).max], dtype=name)
            for x in (haul.array(a), haul.from_dlpack(a), haul.array(memoryview(a))):
                self.assertEqual((x.dtype, x.tolist()), (haul.dtype_name(name), a.tolist()))
                for back in (numpy.from_dlpack(x), numpy.asarray(x), x.numpy()):
                    self.assertEqual((back.dtype, back.tolist()), (a.dtype, a.tolist()))
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "x.npy")
                numpy.save(path, a)
                self.assertEqual(haul.load_npy(path).tolist(), a.tolist())
                haul.save_npy(path, haul.array(a))
                back = numpy.load(path)
                self.assertEqual((back.dtype, back.tolist()), (a.dtype, a.tolist()))


if __name__ == "__main__":
    unittest.main()
