"""DLPack on GPUs, with a small library in Python that works by the stand-in for NVIDIA's driver."""

import ctypes as c
import gc
import os
import unittest

STANDIN = os.path.join(os.environ.get("HAUL_BUILD", ""), "tests", "standin")
DRIVER = os.path.join(STANDIN, "libcuda.so.1")
os.environ.update(HAUL_CUDA_LIBRARIES=STANDIN, STANDIN_DEVICES="2")

import haul
from test_dlpack import Deleter, DLTensor, Managed, Versioned, api, managed

driver = c.CDLL(DRIVER) if os.path.exists(DRIVER) else None
Word = c.c_uint32


def call(name, *arguments):
    code = getattr(driver, name)(*arguments)
    assert code == 0, (name, code)


class Context:
    """Makes the primary context of a device current, with a stream of its own."""

    def __init__(self, device):
        self.context, self.stream = c.c_void_p(), c.c_void_p()
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", c.byref(self.context), device)
        with self:
            call("cuStreamCreate", c.byref(self.stream), 1)

    def __enter__(self):
        call("cuCtxSetCurrent", self.context)

    def __exit__(self, *_):
        call("cuCtxSetCurrent", None)

    def words(self, address, count):
        """The f32 at an address, by a stream that waits for no other one."""
        values = (c.c_float * count)()
        with self:
            call("cuMemcpyDtoHAsync_v2", values, c.c_uint64(address), c.c_size_t(4 * count), self.stream)
            call("cuStreamSynchronize", self.stream)
        return list(values)

    def fill(self, address, value, count):
        bits = Word.from_buffer(c.c_float(value)).value
        with self:
            call("cuMemsetD32Async", c.c_uint64(address), Word(bits), c.c_size_t(count), self.stream)


contexts = [Context(0), Context(1)] if driver else []


class Foreign:
    """An array of four floats on a GPU, which are still being written when it is handed over: 7, 7, 7, 7."""

    def __init__(self, versioned=True, device=0, flags=0, older=False):
        self.device, self.older, self.ended, self.last, self.asked = device, older, 0, None, []
        memory = c.c_uint64()
        with contexts[device]:
            call("cuMemAlloc_v2", c.byref(memory), c.c_size_t(16))
        self.address = memory.value
        contexts[device].fill(self.address, 7, 4)
        self.shape, self.strides = (c.c_int64 * 1)(4), (c.c_int64 * 1)(1)
        tensor = DLTensor(self.address, 2, device, 1, 2, 32, 1, self.shape, self.strides, 0)
        self.deleter = Deleter(self.end)
        self.managed = (Versioned(1, 0, None, self.deleter, flags, tensor) if versioned
                        else Managed(tensor, None, self.deleter))
        self.name = b"dltensor_versioned" if versioned else b"dltensor"

    def end(self, _):
        self.ended += 1
        self.last = contexts[self.device].words(self.address, 4)
        with contexts[self.device]:
            call("cuMemFree_v2", c.c_uint64(self.address))

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, **options):
        self.asked.append(sorted(options))
        if self.older and set(options) - {"stream"}:
            raise TypeError("max_version")
        assert options["stream"] == 1
        return api.PyCapsule_New(c.addressof(self.managed), self.name, None)


@unittest.skipUnless(driver, "needs HAUL_BUILD, a build folder with the stand-in for NVIDIA's driver")
class Import(unittest.TestCase):
    def test_memory_is_shared_and_ended_once(self):
        for versioned in (True, False):
            for device in (0, 1):
                foreign = Foreign(versioned, device)
                x = haul.from_dlpack(foreign)
                self.assertEqual((x.device, x.tolist()), (f"cuda:{device}", [7] * 4))
                x[0] = 20
                y = x + 1
                view = x[1:]
                del x
                gc.collect()
                self.assertEqual(foreign.ended, 0)
                del view
                gc.collect()
                self.assertEqual((foreign.ended, foreign.last), (1, [20, 7, 7, 7]))
                self.assertEqual(y.tolist(), [21, 8, 8, 8])

    def test_older_libraries_know_streams_only(self):
        foreign = Foreign(False, older=True)
        self.assertEqual(haul.from_dlpack(foreign).tolist(), [7] * 4)
        self.assertEqual(foreign.asked, [["max_version", "stream"], ["stream"]])

    def test_read_only_memory_stays_as_it_is(self):
        foreign = Foreign(flags=1)
        x = haul.from_dlpack(foreign)
        x[0] = 20
        self.assertEqual((foreign.ended, foreign.last, x.tolist()), (1, [7] * 4, [20, 7, 7, 7]))

    def test_devices_and_copies(self):
        for options, device, is_shared in (({"device": "cuda:0"}, "cuda:0", True),
                                           ({"device": "cuda:0", "copy": False}, "cuda:0", True),
                                           ({"device": "cuda:1"}, "cuda:1", False),
                                           ({"copy": True}, "cuda:0", False),
                                           ({"device": "cuda:0", "copy": True}, "cuda:0", False)):
            foreign = Foreign()
            x = haul.from_dlpack(foreign, **options)
            gc.collect()
            self.assertEqual((x.device, x.tolist(), foreign.ended), (device, [7] * 4, 0 if is_shared else 1), options)
            x[0] = 20
            del x
            gc.collect()
            self.assertEqual(foreign.last, [20 if is_shared else 7, 7, 7, 7])
        for device in ("cuda:1", "cpu"):
            foreign = Foreign()
            with self.assertRaises(BufferError):
                haul.from_dlpack(foreign, device=device, copy=False)
            self.assertEqual(foreign.ended, 1)

    def test_arrays_of_it_are_copies(self):
        foreign = Foreign()
        x = haul.array(foreign)
        self.assertEqual((x.tolist(), foreign.ended), ([7] * 4, 1))

    def test_what_is_refused_is_ended(self):
        for device, error in ((5, haul.errors.DeviceError), (1, haul.errors.ArgumentError)):
            foreign = Foreign()
            foreign.managed.tensor.device_id = device
            with self.assertRaises(error):
                haul.from_dlpack(foreign)
            self.assertEqual(foreign.ended, 1)


@unittest.skipUnless(driver, "needs HAUL_BUILD, a build folder with the stand-in for NVIDIA's driver")
class Export(unittest.TestCase):
    def test_the_other_library_finds_the_elements(self):
        for device in (0, 1):
            x = haul.arange(6).to(f"cuda:{device}").cast("f32") + 1
            self.assertEqual(x.__dlpack_device__(), (2, device))
            for options in ({}, {"stream": None}, {"stream": 1}, {"stream": 2}, {"stream": -1}, {"stream": 1 << 40},
                            {"max_version": (1, 0), "stream": 1}, {"dl_device": (2, device)}):
                held, new = managed(x, **options)
                self.assertEqual((new.tensor.device_type, new.tensor.device_id), (2, device))
                self.assertEqual(contexts[device].words(new.tensor.data, 6), [1, 2, 3, 4, 5, 6])

    def test_work_of_the_other_library_comes_first(self):
        x = haul.zeros(6).to("cuda:0")
        held, new = managed(x)
        contexts[0].fill(new.tensor.data, 3, 6)
        del held, new
        gc.collect()
        self.assertEqual(x.tolist(), [3] * 6)

    def test_copies(self):
        x = haul.zeros(6).to("cuda:1")
        held, same = managed(x, max_version=(1, 0))
        held2, copied = managed(x, max_version=(1, 0), copy=True)
        held3, host = managed(x, max_version=(1, 0), dl_device=(1, 0), stream=1)
        self.assertEqual([t.flags for t in (same, copied, host)], [0, 2, 2])
        self.assertEqual([t.tensor.device_type for t in (same, copied, host)], [2, 2, 1])
        self.assertNotEqual(same.tensor.data, copied.tensor.data)

    def test_back(self):
        x = haul.zeros(6).to("cuda:1")
        y = haul.from_dlpack(x)
        y[0] = 5
        haul.device_sync("cuda:1")
        self.assertEqual((y.device, x[0].item()), ("cuda:1", 5))

    def test_refused(self):
        x = haul.zeros(6).to("cuda:0")
        for options in ({"stream": 0}, {"stream": -2}, {"dl_device": (2, 1)}, {"dl_device": (1, 0), "copy": False},
                        {"dl_device": (4, 0)}):
            with self.assertRaises(BufferError, msg=options):
                x.__dlpack__(**options)
        with self.assertRaises(TypeError):
            x.__dlpack__(stream="1")
        with self.assertRaises(BufferError):
            memoryview(x)
        x.requires_grad = True
        with self.assertRaises(BufferError):
            x.__dlpack__()


if __name__ == "__main__":
    unittest.main()
