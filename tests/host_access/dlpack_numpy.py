"""DLPack with NumPy, and with PyTorch where it is installed: each library uses the arrays of the other one without a
copy."""
# ctest: labels=once
import ctypes as c
import os
import sys

if os.environ.get("HAUL_SANITIZE"):
    print("skipped: a sanitized library needs a sanitized program")
    sys.exit(77)
try:
    import numpy as np

    np.from_dlpack
except (ImportError, AttributeError):
    print("skipped: NumPy 1.23 or later was not found")
    sys.exit(77)

haul = c.CDLL(os.path.join(os.environ["HAUL_BUILD"], "libhaul.so"))
P = c.c_void_p


class Shape(c.Structure):
    _fields_ = [("ndim", c.c_int), ("dims", c.c_int64 * 8)]


for name, result, *arguments in [
    ("haul_scope_push", P), ("haul_scope_pop", c.c_int, P), ("haul_arange", P, c.c_int, c.c_double, c.c_double, c.c_double),
    ("haul_reshape", P, P, Shape), ("haul_transpose", P, P, c.c_int, c.c_int), ("haul_fill_into", c.c_int, P, c.c_double),
    ("haul_cast", P, P, c.c_int), ("haul_read", c.c_int, P, P, c.c_size_t), ("haul_tensor_dtype", c.c_int, P),
    ("haul_dtype_name", c.c_char_p, c.c_int), ("haul_error_message", c.c_char_p),
    ("haul_to_dlpack", P, P), ("haul_to_dlpack_legacy", P, P), ("haul_from_dlpack", P, P), ("haul_from_dlpack_legacy", P, P),
]:
    function = getattr(haul, name)
    function.restype, function.argtypes = result, arguments

# ---- capsules ----
api = c.pythonapi
api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = c.py_object, [P, c.c_char_p, P]
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = P, [c.py_object, c.c_char_p]
api.PyCapsule_SetName.argtypes = [c.py_object, c.c_char_p]
api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = c.c_char_p, [c.py_object]
NAMES = {True: (b"dltensor_versioned", b"used_dltensor_versioned"), False: (b"dltensor", b"used_dltensor")}


class Array:
    """A tensor of Haul for libraries that read DLPack. It is called once."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, stream=None, max_version=None, **_):
        versioned = max_version is not None and max_version[0] >= 1
        shared = (haul.haul_to_dlpack if versioned else haul.haul_to_dlpack_legacy)(self.tensor)
        if not shared:
            raise BufferError(haul.haul_error_message().decode())
        return api.PyCapsule_New(shared, NAMES[versioned][0], None)


def tensor_of(array):
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = array.__dlpack__()
    versioned = api.PyCapsule_GetName(capsule) == NAMES[True][0]
    pointer = api.PyCapsule_GetPointer(capsule, NAMES[versioned][0])
    api.PyCapsule_SetName(capsule, NAMES[versioned][1])
    return (haul.haul_from_dlpack if versioned else haul.haul_from_dlpack_legacy)(pointer)


def total(tensor):
    values = (c.c_double * 64)()
    assert haul.haul_read(haul.haul_cast(tensor, numbers["f64"]), values, c.sizeof(values)) == 0, haul.haul_error_message()
    return sum(values)


# ---- to the other library ----
DTYPES = {"u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16", "f32": "float32",
          "f64": "float64"}
numbers = {haul.haul_dtype_name(i).decode(): i for i in range(16) if haul.haul_dtype_name(i)}
scope = haul.haul_scope_push()
for ours, theirs in DTYPES.items():
    x = haul.haul_arange(numbers[ours], 0, 6, 1)
    x = haul.haul_transpose(haul.haul_reshape(x, Shape(2, (2, 3))), 0, 1)
    a = np.from_dlpack(Array(x))
    assert a.dtype == theirs and a.shape == (3, 2) and a.tolist() == [[0, 3], [1, 4], [2, 5]], (ours, a)
    haul.haul_fill_into(x, 7)
    assert (a == 7).all(), ours  # it is the same memory

# ---- from the other library ----
for ours, theirs in DTYPES.items():
    a = np.arange(12).astype(theirs).reshape(3, 4)[:, 1:3].T
    t = tensor_of(a)
    assert haul.haul_dtype_name(haul.haul_tensor_dtype(t)).decode() == ours
    assert total(t) == a.sum(), ours
    haul.haul_fill_into(t, 2)
    assert (a == 2).all() and a.base is not None, ours
kept = np.ones(1000)
before = sys.getrefcount(kept)
inner = haul.haul_scope_push()
tensor_of(kept)
assert sys.getrefcount(kept) > before
haul.haul_scope_pop(inner)
assert sys.getrefcount(kept) == before  # given back, once

try:
    import torch
except ImportError:
    torch = None
if torch:
    x = haul.haul_arange(numbers["f32"], 0, 6, 1)
    t = torch.from_dlpack(Array(x))
    t *= 2
    assert total(x) == 30
    y = torch.arange(6.).reshape(2, 3).t()
    mine = tensor_of(y)
    haul.haul_fill_into(mine, 3)
    assert y.sum().item() == 18
    b = torch.ones(4, dtype=torch.bfloat16)
    assert total(tensor_of(b)) == 4
    if hasattr(torch, "uint16"):
        assert torch.from_dlpack(Array(haul.haul_arange(numbers["i64"], 0, 3, 1))).tolist() == [0, 1, 2]
haul.haul_scope_pop(scope)
print("NumPy", np.__version__, "PyTorch", torch.__version__ if torch else "none")
