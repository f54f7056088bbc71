"""libhaul by ctypes, as far as loading and calling ONNX models needs it."""
import ctypes
import os

import numpy as np

P, S, I64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
NAMES = ["none", "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
         "uint16", "uint32", "uint64"]


class Shape(ctypes.Structure):
    _fields_ = [("ndim", ctypes.c_int), ("dims", I64 * 8)]


class Load(ctypes.Structure):
    _fields_ = [("path", S), ("frozen", ctypes.c_bool), ("map", ctypes.c_bool)]


class Call(ctypes.Structure):
    _fields_ = [("x", P * 8), ("more", P * 7), ("mode", ctypes.c_int)]


class Haul:
    def __init__(self, library):
        self.c = ctypes.CDLL(library)
        for name, result, arguments in [
                ("haul_scope_push", P, []), ("haul_scope_pop", ctypes.c_int, [P]), ("haul_error_message", S, []),
                ("haul_error_status", ctypes.c_int, []), ("haul_error_clear", None, []),
                ("haul_from_host", P, [ctypes.c_int, Shape, P]), ("haul_tensor_shape", Shape, [P]),
                ("haul_tensor_is_valid", ctypes.c_bool, [P]), ("haul_tensor_dtype", ctypes.c_int, [P]),
                ("haul_read", ctypes.c_int, [P, P, ctypes.c_size_t]), ("haul_load_onnx_with", P, [P]),
                ("haul_call_with", P, [P, P]), ("haul_device_get", P, [S]), ("haul_set_device", ctypes.c_int, [P])]:
            getattr(self.c, name).restype = result
            getattr(self.c, name).argtypes = arguments

    def message(self):
        return self.c.haul_error_message().decode(errors="replace")

    def use(self, device):
        handle = self.c.haul_device_get(device.encode())
        if not handle or self.c.haul_set_device(handle):
            raise RuntimeError(self.message())

    def tensor(self, array):
        array = np.ascontiguousarray(array).reshape(array.shape)
        if str(array.dtype) not in NAMES:
            raise TypeError(f"Haul does not have {array.dtype}")
        shape = Shape(array.ndim, (I64 * 8)(*array.shape))
        t = self.c.haul_from_host(NAMES.index(str(array.dtype)), shape, array.ctypes.data_as(P))
        if not self.c.haul_tensor_is_valid(t):
            raise RuntimeError(self.message())
        return t

    def array(self, t):
        shape, name = self.c.haul_tensor_shape(t), NAMES[self.c.haul_tensor_dtype(t)]
        kind = np.dtype("uint16" if name == "bfloat16" else name)
        out = np.empty(list(shape.dims[:shape.ndim]), kind)
        if self.c.haul_read(t, out.ctypes.data_as(P), out.nbytes):
            raise RuntimeError(self.message())
        return (out.astype(np.uint32) << 16).view(np.float32) if name == "bfloat16" else out

    def load(self, path):
        module = self.c.haul_load_onnx_with(ctypes.byref(Load(path.encode(), False, False)))
        if not module:
            raise RuntimeError(self.message())
        return module

    def call(self, module, inputs, results):
        """The results of a loaded model, as arrays."""
        more = [ctypes.c_void_p() for _ in range(results - 1)]
        call = Call()
        for i, x in enumerate(inputs):
            call.x[i] = self.tensor(x)
        for i, m in enumerate(more):
            call.more[i] = ctypes.addressof(m)
        y = self.c.haul_call_with(module, ctypes.byref(call))
        if not self.c.haul_tensor_is_valid(y):
            raise RuntimeError(self.message())
        return [self.array(t) for t in [y] + [m.value for m in more]]
