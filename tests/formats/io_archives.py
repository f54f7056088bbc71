#!/usr/bin/python3
"""npz files go both ways between haul and NumPy, and files of torch.save are read: every array that haul can represent
has the same bytes, and others are refused one by one. Cut and changed files give values or an error."""
# ctest: labels=once
import ctypes
import os
import random
import shutil
import sys
import zipfile

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)
if os.environ.get("HAUL_SANITIZE"):
    print("skipped: a library with sanitizers cannot be loaded into Python")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

DTYPES = ["none", "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "uint16", "uint32",
          "uint64"]


class Shape(ctypes.Structure):
    _fields_ = [("ndim", ctypes.c_int), ("dims", ctypes.c_int64 * 8)]


class Named(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p), ("is_buffer", ctypes.c_bool)]


class Open(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("map", ctypes.c_bool)]


haul = ctypes.CDLL(os.path.join(os.environ["HAUL_BUILD"], "libhaul.so"))
P, S = ctypes.c_void_p, ctypes.c_char_p
for function, result, arguments in [
        ("haul_scope_push", P, []), ("haul_scope_pop", ctypes.c_int, [P]), ("haul_error_message", S, []),
        ("haul_from_host", P, [ctypes.c_int, Shape, P]), ("haul_tensor_shape", Shape, [P]),
        ("haul_tensor_is_valid", ctypes.c_bool, [P]),
        ("haul_tensor_dtype", ctypes.c_int, [P]), ("haul_read", ctypes.c_int, [P, P, ctypes.c_size_t]),
        ("haul_open_safetensors_with", P, [P]), ("haul_safetensors_load", P, [P, S]),
        ("haul_safetensors_count", ctypes.c_int, [P]),
        ("haul_save_npz", ctypes.c_int, [S, P, ctypes.c_int, ctypes.c_bool])]:
    getattr(haul, function).restype = result
    getattr(haul, function).argtypes = arguments


def message():
    return haul.haul_error_message().decode()


def open_file(path, mapped=False):
    return haul.haul_open_safetensors_with(ctypes.byref(Open(path.encode(), mapped)))


def load(file, name):
    """The array, or None."""
    tensor = haul.haul_safetensors_load(file, name.encode())
    if not haul.haul_tensor_is_valid(tensor):
        return None
    shape, dtype = haul.haul_tensor_shape(tensor), DTYPES[haul.haul_tensor_dtype(tensor)]
    array = np.empty(tuple(shape.dims[:shape.ndim]), "uint16" if dtype == "bfloat16" else dtype)
    assert haul.haul_read(tensor, array.ctypes.data, array.nbytes) == 0, message()
    return array


def same(a, b):
    assert a is not None, message()
    assert a.dtype == b.dtype.newbyteorder("=") and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
    assert a.tobytes() == b.astype(a.dtype).tobytes()


def check_file(path, arrays, refused=()):
    for mapped in (False, True):
        scope = haul.haul_scope_push()
        file = open_file(path, mapped)
        assert file, message()
        assert haul.haul_safetensors_count(file) == len(arrays) + len(refused)
        for name, array in arrays.items():
            same(load(file, name), array)
        for name, reason in dict(refused).items():
            assert load(file, name) is None and reason in message(), (name, message())
        haul.haul_scope_pop(scope)


def arrays():
    generator = np.random.default_rng(1)
    for dtype in [d for d in DTYPES[1:] if d != "bfloat16"]:
        for shape in [(), (0,), (7,), (2, 0, 3), (3, 1, 4, 2), (1, 2, 1, 2, 1, 2, 1, 2)]:
            yield (generator.standard_normal(shape) * 100).astype(dtype) if shape else np.array(3).astype(dtype)


def npz_to_haul():
    named = {f"a/{i}\u00e9": array for i, array in enumerate(arrays())}
    named |= {f"f{i}": np.asfortranarray(array) for i, array in enumerate(arrays())}
    named |= {f"b{i}": array.astype(array.dtype.newbyteorder(">")) for i, array in enumerate(arrays())}
    odd = {"text": np.array(["x"]), "object": np.array([{}]), "c8": np.zeros(2, "c8"), "nine": np.zeros((1,) * 9)}
    reasons = {"text": "'<U1'", "object": "pickled Python objects", "c8": "'<c8'", "nine": "more than 8 dimensions"}
    for save in (np.savez, np.savez_compressed):
        save("a.npz", **named, **odd)
        check_file("a.npz", named, reasons)
    np.savez("b.npz", np.arange(3), np.arange(4.0))
    check_file("b.npz", {"arr_0": np.arange(3), "arr_1": np.arange(4.0)})
    np.savez("c.npz")
    check_file("c.npz", {})
    limit, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, 10 # every size has 64 bits
    np.savez("d.npz", **named)
    zipfile.ZIP64_LIMIT = limit
    check_file("d.npz", named)


def npz_from_haul():
    named = {f"a/{i}\u00e9": array for i, array in enumerate(arrays())}
    tensors = (Named * len(named))()
    scope = haul.haul_scope_push()
    for i, (name, array) in enumerate(named.items()):
        shape = Shape(array.ndim, (ctypes.c_int64 * 8)(*array.shape))
        tensors[i] = Named(name.encode(), haul.haul_from_host(DTYPES.index(array.dtype.name), shape, array.ctypes.data))
    for compress in (False, True):
        assert haul.haul_save_npz(b"h.npz", tensors, len(named), compress) == 0, message()
        with np.load("h.npz") as back:
            assert list(back.files) == list(named)
            for name, array in named.items():
                same(back[name], array)
        with zipfile.ZipFile("h.npz") as z:
            assert z.testzip() is None
            assert all((i.compress_type == zipfile.ZIP_DEFLATED) == compress for i in z.infolist())
    haul.haul_scope_pop(scope)


def torch_to_haul():
    x = torch.arange(24.0).reshape(4, 6)
    state = {"x": x, "t": x.t(), "s": x[1:3, ::2], "scalar": torch.tensor(3), "empty": torch.zeros(0, 3),
             "half": x.half(), "p": torch.nn.Parameter(x[2:])}
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float64"):
        state[name] = (x > 3 if name == "bool" else x).to(getattr(torch, name))
    expected = {name: value.detach().numpy() for name, value in state.items()}
    odd = {"c": torch.zeros(2, dtype=torch.complex64), "wide": torch.ones(1).expand(5), "nine": torch.zeros((1,) * 9)}
    reasons = {"c": "complex64", "wide": "more elements than are stored", "nine": "more than 8 dimensions"}
    torch.save({**state, **odd}, "a.pt")
    check_file("a.pt", expected, reasons)
    with zipfile.ZipFile("a.pt") as old, zipfile.ZipFile("deflated.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            new.writestr(member, old.read(member))
    check_file("deflated.pt", expected, reasons)
    torch.save({"net": {"a": {"b": x}}, "list": [x, (x, 3)], 7: x, "lr": 0.1, "none": None}, "nested.pt")
    check_file("nested.pt", {name: x.numpy() for name in ("net.a.b", "list.0", "list.1.0", "7")})
    torch.save(x.bfloat16(), "one.pt")
    check_file("one.pt", {"tensor": x.bfloat16().view(torch.int16).numpy().astype("uint16")})


def refused():
    """What is no tensor is named, and nothing is executed."""
    class Evil:
        def __reduce__(self):
            return os.mkdir, ("executed",)
    for value, reason in [(torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"), ({"a": Evil()}, "posix.mkdir"),
                          ({"a": np.float64(1)}, "numpy."), ({"a": torch.zeros(2).to_sparse()}, "_rebuild_sparse_tensor")]:
        torch.save(value, "evil.pt")
        assert not open_file("evil.pt") and reason in message(), message()
        assert "executes nothing" in message()
    assert not os.path.exists("executed")
    torch.save({"a": torch.zeros(2)}, "little.pt")
    with zipfile.ZipFile("little.pt") as old, zipfile.ZipFile("big.pt", "w") as new:
        for member in old.namelist():
            if "byteorder" not in member:
                new.writestr(member, old.read(member))
        new.writestr("little/byteorder", "big")
    assert not open_file("big.pt") and "big-endian" in message(), message()


def damaged(paths):
    """Every length, and random bytes: no crash, and no error without a text."""
    generator = random.Random(1)
    for path in paths:
        with open(path, "rb") as file:
            data = bytearray(file.read())
        changes = [data[:generator.randrange(len(data))] for _ in range(200)]
        for _ in range(2000):
            changed = bytearray(data)
            for _ in range(generator.choice([1, 2, 8])):
                changed[generator.randrange(len(data))] = generator.choice([0, 1, 0x7f, 0x80, 0xff, generator.randrange(256)])
            changes.append(changed)
        for changed in changes:
            with open("damaged", "wb") as file:
                file.write(changed)
            scope = haul.haul_scope_push()
            if not open_file("damaged"):
                assert message()
            haul.haul_scope_pop(scope)


def models():
    """A state dictionary of PyTorch, alone and within a checkpoint, is loaded into a module."""
    class Linear(ctypes.Structure):
        _fields_ = [("out", ctypes.c_int64), ("rest", ctypes.c_int64 * 8)]

    class Load(ctypes.Structure):
        _fields_ = [("module", P), ("rest", P * 8)]
    for function, result, arguments in [
            ("haul_nn_linear_with", P, [ctypes.c_int64, P]), ("haul_load_weights_with", ctypes.c_int, [S, P]),
            ("haul_module_parameter", P, [P, S])]:
        getattr(haul, function).restype = result
        getattr(haul, function).argtypes = arguments
    net = torch.nn.Linear(3, 4)
    torch.save(net.state_dict(), "weights.pt")
    torch.save({"epoch": 3, "state_dict": net.state_dict(), "other": {"weight": torch.zeros(1)}}, "checkpoint.pt")
    for path in ("weights.pt", "checkpoint.pt"):
        module = haul.haul_nn_linear_with(3, ctypes.byref(Linear(4)))
        assert module, message()
        assert haul.haul_load_weights_with(path.encode(), ctypes.byref(Load(module))) == 0, message()
        for name, value in net.state_dict().items():
            array = np.empty(tuple(value.shape), "float32")
            parameter = haul.haul_module_parameter(module, name.encode())
            assert haul.haul_read(parameter, array.ctypes.data, array.nbytes) == 0, message()
            assert (array == value.numpy()).all()


tests = [npz_to_haul, npz_from_haul]
scope = haul.haul_scope_push()
for test in tests + ([torch_to_haul, refused, models] if torch else []):
    test()
    print("passed:", test.__name__)
np.savez("small.npz", a=np.arange(6.0), b=np.arange(4))
damaged(["small.npz"] + (["nested.pt"] if torch else []))
print("passed: damaged")
haul.haul_scope_pop(scope)
