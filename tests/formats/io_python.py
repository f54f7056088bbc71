#!/usr/bin/python3
"""Files go both ways between haul and Python: npy against NumPy, safetensors against its package where that is
installed and against a reader and writer of a few lines, which follow the format's description, everywhere."""
# ctest: labels=once
import ctypes
import json
import os
import struct
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)
if os.environ.get("HAUL_SANITIZE"):
    print("skipped: a library with sanitizers cannot be loaded into Python")
    sys.exit(77)

DTYPES = ["none", "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
USED = [name for name in DTYPES[1:] if "16" not in name or name == "int16"]
NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
         "F32": "float32", "F64": "float64"}
SHAPES = [(), (0,), (1,), (7,), (2, 0, 3), (2, 3), (3, 1, 4, 2), (1, 2, 1, 2, 1, 2, 1, 2)]


class Shape(ctypes.Structure):
    _fields_ = [("ndim", ctypes.c_int), ("dims", ctypes.c_int64 * 8)]


class Named(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p), ("is_buffer", ctypes.c_bool)]


class Pair(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Open(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("map", ctypes.c_bool)]


haul = ctypes.CDLL(os.path.join(os.environ["HAUL_BUILD"], "libhaul.so"))
P, S = ctypes.c_void_p, ctypes.c_char_p
for name, result, arguments in [
        ("haul_scope_push", P, []), ("haul_scope_pop", ctypes.c_int, [P]), ("haul_error_message", S, []),
        ("haul_load_npy", P, [S]), ("haul_save_npy", ctypes.c_int, [S, P]),
        ("haul_from_host", P, [ctypes.c_int, Shape, P]), ("haul_tensor_shape", Shape, [P]),
        ("haul_tensor_dtype", ctypes.c_int, [P]), ("haul_read", ctypes.c_int, [P, P, ctypes.c_size_t]),
        ("haul_open_safetensors_with", P, [P]), ("haul_safetensors_load", P, [P, S]),
        ("haul_safetensors_metadata", S, [P, S]), ("haul_safetensors_count", ctypes.c_int, [P]),
        ("haul_save_safetensors", ctypes.c_int, [S, P, ctypes.c_int, P, ctypes.c_int])]:
    getattr(haul, name).restype = result
    getattr(haul, name).argtypes = arguments


def check(pointer):
    assert pointer, haul.haul_error_message().decode()
    return pointer


def ok(status):
    assert status == 0, haul.haul_error_message().decode()


def to_haul(array):
    shape = Shape(array.ndim, (ctypes.c_int64 * 8)(*array.shape))
    data = np.ascontiguousarray(array)
    return check(haul.haul_from_host(DTYPES.index(array.dtype.name), shape, data.ctypes.data))


def from_haul(tensor):
    shape = haul.haul_tensor_shape(tensor)
    array = np.empty(tuple(shape.dims[:shape.ndim]), DTYPES[haul.haul_tensor_dtype(tensor)])
    ok(haul.haul_read(tensor, array.ctypes.data, array.nbytes))
    return array


def same(a, b):
    assert a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=") and a.shape == b.shape, (a.dtype, a.shape, b.shape)
    assert a.astype(b.dtype).tobytes() == b.tobytes()


def arrays():
    random = np.random.default_rng(1)
    for dtype in USED:
        for shape in SHAPES:
            yield np.asarray(random.standard_normal(shape) * 100).astype(dtype)


def npy_to_haul():
    for array in arrays():
        for version in [(1, 0), (2, 0), (3, 0)]:
            for variant in [array, np.array(array, order="F"), array.astype(array.dtype.newbyteorder(">"))]:
                with open("a.npy", "wb") as file:
                    np.lib.format.write_array(file, variant, version=version)
                same(from_haul(check(haul.haul_load_npy(b"a.npy"))), array)


def npy_from_haul():
    for array in arrays():
        ok(haul.haul_save_npy(b"b.npy", to_haul(array)))
        same(np.load("b.npy"), array)


def read_safetensors(path):
    """The format's description in ten lines, with its demands."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    assert data[8:9] == b"{" and length % 8 == 0
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    metadata = header.pop("__metadata__", {})
    end, tensors = 0, {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, last = entry["data_offsets"]
        assert begin == end
        end = last
        dtype = np.dtype(NAMES[entry["dtype"]])
        assert begin % dtype.itemsize == 0
        tensors[name] = np.frombuffer(body[begin:last], dtype).reshape(entry["shape"])
    assert end == len(body)
    return tensors, metadata


def write_safetensors(path, tensors, metadata):
    header, body = {"__metadata__": metadata}, b""
    for name, array in tensors.items():
        code = next(code for code, dtype in NAMES.items() if dtype == array.dtype.name)
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [len(body), len(body) + array.nbytes]}
        body += array.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def some_tensors():
    return {f"layer.{i}\u00e9 \"": array for i, array in enumerate(arrays())}


METADATA = {"format": "pt", "text \u20ac": "line\nline\t\"\\"}


def save_by_haul(path, tensors):
    named = (Named * len(tensors))(*[(name.encode(), to_haul(array), False) for name, array in tensors.items()])
    pairs = (Pair * len(METADATA))(*[(key.encode(), value.encode()) for key, value in METADATA.items()])
    ok(haul.haul_save_safetensors(path, named, len(named), pairs, len(pairs)))


def load_by_haul(path, tensors, mapped):
    file = check(haul.haul_open_safetensors_with(ctypes.byref(Open(path, mapped))))
    assert haul.haul_safetensors_count(file) == len(tensors)
    for key, value in METADATA.items():
        assert haul.haul_safetensors_metadata(file, key.encode()) == value.encode()
    for name, array in tensors.items():
        same(from_haul(check(haul.haul_safetensors_load(file, name.encode()))), array)


def safetensors_both_ways():
    tensors = some_tensors()
    save_by_haul(b"a.safetensors", tensors)
    back, metadata = read_safetensors("a.safetensors")
    assert metadata == METADATA and back.keys() == tensors.keys()
    for name, array in tensors.items():
        same(back[name], array)
    write_safetensors("b.safetensors", tensors, METADATA)
    load_by_haul(b"b.safetensors", tensors, False)
    load_by_haul(b"b.safetensors", tensors, True)


def safetensors_package():
    try:
        from safetensors.numpy import load_file, save_file
    except ImportError:
        print("the safetensors package is not installed: only the reader of this test was used")
        return
    tensors = some_tensors()
    save_by_haul(b"c.safetensors", tensors)
    for name, array in load_file("c.safetensors").items():
        same(array, tensors[name])
    save_file(tensors, "d.safetensors", METADATA)
    load_by_haul(b"d.safetensors", tensors, False)
    load_by_haul(b"d.safetensors", tensors, True)


scope = check(haul.haul_scope_push())
for test in [npy_to_haul, npy_from_haul, safetensors_both_ways, safetensors_package]:
    test()
    print("passed:", test.__name__)
haul.haul_scope_pop(scope)
