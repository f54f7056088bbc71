"""DLPack both ways, with NumPy and PyTorch where they are installed, and by capsules that ctypes makes."""

import ctypes as c
import gc
import sys
import unittest

import haul

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
                ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


Deleter = c.CFUNCTYPE(None, c.c_void_p)


class Managed(c.Structure):
    _fields_ = [("tensor", DLTensor), ("context", c.c_void_p), ("deleter", Deleter)]


class Versioned(c.Structure):
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32), ("context", c.c_void_p), ("deleter", Deleter),
                ("flags", c.c_uint64), ("tensor", DLTensor)]


api = c.pythonapi
api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = c.c_char_p, [c.py_object]


class Foreign:
    """An array of another library: four floats, and a count of how often they were ended."""

    def __init__(self, versioned, flags=0, major=1, device=1, lanes=1):
        self.values, self.ended = (c.c_float * 4)(1, 2, 3, 4), 0
        self.shape, self.strides = (c.c_int64 * 1)(2), (c.c_int64 * 1)(2)
        tensor = DLTensor(c.addressof(self.values), device, 0, 1, 2, 32, lanes, self.shape, self.strides, 4)
        self.deleter = Deleter(self.end)
        self.managed = (Versioned(major, 0, None, self.deleter, flags, tensor) if versioned
                        else Managed(tensor, None, self.deleter))
        self.name = b"dltensor_versioned" if versioned else b"dltensor"

    def end(self, _):
        self.ended += 1

    def __dlpack__(self, **options):
        return api.PyCapsule_New(c.addressof(self.managed), self.name, None)


class Import(unittest.TestCase):
    def test_memory_is_shared_and_ended_once(self):
        for versioned in (True, False):
            foreign = Foreign(versioned)
            x = haul.from_dlpack(foreign)
            self.assertEqual((x.tolist(), x.strides, x.dtype), ([2, 4], (2,), "f32"))
            x[0] = 20
            self.assertEqual(foreign.values[1], 20)
            view = x[1:]
            del x
            gc.collect()
            self.assertEqual(foreign.ended, 0)
            self.assertEqual(view.tolist(), [4])
            del view
            gc.collect()
            self.assertEqual(foreign.ended, 1)

    def test_read_only_memory_stays_as_it_is(self):
        foreign = Foreign(True, flags=1)
        x = haul.from_dlpack(foreign)
        x[0] = 20
        self.assertEqual((foreign.values[1], foreign.ended), (2, 1))

    def test_what_is_refused_is_ended(self):
        for options in ({"major": 2}, {"device": 4}, {"lanes": 2}):
            foreign = Foreign(True, **options)
            with self.assertRaises(haul.errors.UnsupportedError):
                haul.from_dlpack(foreign)
            self.assertEqual(foreign.ended, 1)
        with self.assertRaises(AttributeError):
            haul.from_dlpack(3)

    def test_a_capsule_is_used_once(self):
        foreign = Foreign(True)
        capsule = foreign.__dlpack__()
        x = haul.from_dlpack(capsule)
        with self.assertRaises(ValueError):
            haul.from_dlpack(capsule)
        self.assertEqual(api.PyCapsule_GetName(capsule), b"used_dltensor_versioned")
        del x

    def test_arrays_on_other_devices_are_copied_for_a_device(self):
        class OnDevice(Foreign):
            asked = None

            def __dlpack_device__(self):
                return 2, 0

            def __dlpack__(self, **options):
                self.asked = options.get("dl_device")
                self.managed.tensor.device_type = self.asked[0] if self.asked else 2
                return super().__dlpack__(**options)

        for options, asked in (({"device": "cpu"}, (1, 0)), ({"device": "cpu", "copy": True}, (1, 0)),
                               ({"device": "cpu", "copy": False}, None), ({}, None)):
            foreign = OnDevice(True)
            if asked:
                self.assertEqual(haul.from_dlpack(foreign, **options).tolist(), [2, 4])
            else:
                with self.assertRaises(haul.errors.Error): # no GPU, or its memory is none of the GPU's
                    haul.from_dlpack(foreign, **options)
            self.assertEqual(foreign.asked, asked)
            gc.collect()
            self.assertEqual(foreign.ended, 1)

    def test_copies(self):
        foreign = Foreign(True)
        x = haul.from_dlpack(foreign, copy=True)
        self.assertEqual(foreign.ended, 1)
        self.assertEqual(x.tolist(), [2, 4])


def managed(x, **options):
    """The capsule of an exported Array, and the struct in it."""
    capsule = x.__dlpack__(**options)
    name = api.PyCapsule_GetName(capsule)
    kind = Versioned if name == b"dltensor_versioned" else Managed
    return capsule, kind.from_address(api.PyCapsule_GetPointer(capsule, name))


class Export(unittest.TestCase):
    def test_versions_and_flags(self):
        x = haul.arange(6).reshape(2, 3)
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        self.assertIsInstance(managed(x)[1], Managed)
        self.assertIsInstance(managed(x, max_version=(0, 8))[1], Managed)
        held, new = managed(x.T, max_version=(1, 0))
        self.assertEqual((new.major, new.flags, new.tensor.strides[:2]), (1, 0, [1, 3]))
        held, copied = managed(x, max_version=(1, 0), copy=True)
        self.assertEqual(copied.flags, 2)
        held, wide = managed(haul.ones(1).expand(4), max_version=(1, 0))
        self.assertEqual(wide.flags, 1)
        with self.assertRaises(BufferError):
            haul.ones(1).expand(4).__dlpack__()

    def test_refused(self):
        x = haul.ones(3)
        with self.assertRaises(BufferError):
            x.__dlpack__(stream=1)
        with self.assertRaises(BufferError):
            x.__dlpack__(dl_device=(2, 0))
        x.requires_grad = True
        for call in (x.__dlpack__, (x * 2).__dlpack__, lambda: memoryview(x)):
            with self.assertRaises(BufferError) as caught:
                call()
            self.assertIn("detach", str(caught.exception))
        self.assertEqual(haul.from_dlpack(x.detach()).tolist(), [1, 1, 1])

    def test_other_devices_are_copied_where_the_cpu_is_asked_for(self):
        for name in [d for d in haul.devices() if d.startswith("opencl:")][:1]:
            x = haul.arange(3).to(name)
            self.assertEqual(x.__dlpack_device__(), (4, 0))
            with self.assertRaises(BufferError):
                x.__dlpack__()
            with self.assertRaises(BufferError):
                x.__dlpack__(dl_device=(1, 0), copy=False)
            held, copied = managed(x, dl_device=(1, 0), stream=1, max_version=(1, 0))
            self.assertEqual((copied.tensor.device_type, copied.flags), (1, 2))
            self.assertEqual(haul.from_dlpack(x, device=name).tolist(), [0, 1, 2])
            if numpy and numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0":
                self.assertEqual(numpy.from_dlpack(x, device="cpu").tolist(), [0, 1, 2])
        with self.assertRaises(BufferError):
            haul.ones(3).to("meta").__dlpack_device__()

    def test_a_capsule_that_nobody_takes(self):
        before = haul.memory()["allocated"]
        for _ in range(10):
            haul.ones(1000).__dlpack__(max_version=(1, 0))
            haul.ones(1000).__dlpack__()
        gc.collect()
        self.assertLessEqual(haul.memory()["allocated"] - before, 4096)

    def test_memory_outlives_the_array(self):
        y = haul.from_dlpack(haul.arange(1000))
        gc.collect()
        self.assertEqual(y[999].item(), 999)


class Wrong(unittest.TestCase):
    def test_pairs(self):
        x = haul.ones(2)
        for names in ({"dl_device": [1, 0]}, {"dl_device": "cpu"}, {"max_version": "1"}, {"max_version": [1, 0]},
                      {"dl_device": (1,)}, {"max_version": (1, "0")}):
            with self.assertRaises(TypeError, msg=names):
                x.__dlpack__(**names)

    def test_copies_by_truth(self):
        x = haul.ones(2)
        for copy, shared in ((1, False), (0, True), (True, False), (None, True)):
            y = haul.from_dlpack(x, copy=copy)
            z = haul.from_dlpack(x.__dlpack__(copy=copy, max_version=(1, 0)))
            x[0] += 1
            self.assertEqual((y[0].item() == x[0].item(), z[0].item() == x[0].item()), (shared, shared), copy)


@unittest.skipUnless(numpy, "NumPy is not installed")
class WithNumPy(unittest.TestCase):
    def test_both_ways(self):
        a = numpy.arange(12, dtype="f4").reshape(3, 4)
        x = haul.from_dlpack(a[:, ::2])
        x[0, 0] = 50
        self.assertEqual(a[0, 0], 50)
        count = sys.getrefcount(a)
        del x
        gc.collect()
        self.assertLessEqual(sys.getrefcount(a), count)
        y = haul.arange(6).reshape(2, 3)
        for key in (numpy.array([0, 2]), numpy.array([True, False, True]), numpy.int64(1),
                    numpy.array([1]), numpy.array(1), numpy.zeros(0, dtype="i8"), (numpy.int32(-1), numpy.array([3, 0]))):
            self.assertEqual(haul.array(a)[key].tolist(), a[key].tolist(), repr(key))
        for key in (True, numpy.True_, numpy.False_):  # a mask without dimensions, not the index 0 or 1
            with self.assertRaises(IndexError):
                y[key]
        for b in (numpy.from_dlpack(y), numpy.asarray(y), y.numpy()):
            y[0, 0] += 1
            self.assertEqual(b.tolist(), y.tolist())
        self.assertFalse(numpy.asarray(haul.ones(1).expand(4)).flags.writeable)
        y = haul.ones(3)
        y.requires_grad = True
        for refused in (numpy.asarray, numpy.array):
            with self.assertRaises(BufferError):
                refused(y)

    def test_copies_of_all_dtypes(self):
        for dtype in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "u2", "u4", "u8"):
            a = numpy.array([[0, 1], [1, 1]], dtype=dtype)
            self.assertEqual(numpy.asarray(haul.array(a)).dtype, a.dtype)
            self.assertEqual(haul.array(a.T).tolist(), a.T.tolist())
        for dtype in ("c8", ">f4", "U3"):
            with self.assertRaises(TypeError, msg=dtype):
                haul.array(numpy.zeros(2, dtype=dtype))
        self.assertEqual(haul.array(numpy.float32(2)).item(), 2)
        self.assertEqual(haul.zeros(2, dtype=numpy.float64).dtype, "f64")

    def test_operators_with_arrays_of_numpy_are_refused(self):
        with self.assertRaises(TypeError):
            haul.ones(2) + numpy.ones(2)
        with self.assertRaises(TypeError):
            numpy.ones(2) + haul.ones(2)


@unittest.skipUnless(torch, "PyTorch is not installed")
class WithPyTorch(unittest.TestCase):
    def test_both_ways(self):
        t = torch.arange(6.0).reshape(2, 3)
        x = haul.from_dlpack(t.T)
        x[2, 1] = 50
        self.assertEqual(t[1, 2].item(), 50)
        y = haul.ones(2, 2, dtype="bf16")
        u = torch.from_dlpack(y)
        u[0, 1] = 3
        self.assertEqual(y.tolist(), [[1, 3], [1, 1]])


if __name__ == "__main__":
    unittest.main()
