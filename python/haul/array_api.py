"""The names of the array API standard (https://data-apis.org/array-api/2024.12): xp = x.__array_namespace__().

Each function is one of the library, or a few of them; nothing is computed here. There are no complex dtypes, so no
fft; docs/python.md lists what else differs."""

import builtins
from collections import namedtuple

import haul

from . import _haul
from ._haul import Array

__array_api_version__ = "2024.12"
bool, uint8, int8, int16, int32, int64, float32, float64 = (haul.bool_, haul.u8, haul.i8, haul.i16, haul.i32, haul.i64, haul.f32,
                                                            haul.f64)
uint16, uint32, uint64 = haul.u16, haul.u32, haul.u64
inf, nan, pi, e, newaxis = haul.inf, haul.nan, haul.pi, haul.e, None

_SIGNED, _UNSIGNED, _REAL = ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64"), ("f32", "f64")
_KINDS = {"bool": ("bool",), "signed integer": _SIGNED, "unsigned integer": _UNSIGNED, "integral": _SIGNED + _UNSIGNED,
          "real floating": _REAL + ("f16", "bf16"), "complex floating": (),
          "numeric": _SIGNED + _UNSIGNED + _REAL + ("f16", "bf16")}


# ---- dtypes ----

def astype(x, dtype, /, *, copy=True, device=None):
    if x.dtype != haul.dtype_name(dtype):
        x = x.cast(dtype)
    elif copy:
        x = x.clone()
    return x if device is None else to_device(x, device)


def can_cast(from_, to, /):
    from_ = from_.dtype if isinstance(from_, Array) else haul.dtype_name(from_)
    kinds = [[from_ in _KINDS[kind], to in _KINDS[kind]] for kind in ("bool", "integral", "real floating")]
    if "u64" in (from_, to) and [True, True] in kinds and (from_ in _SIGNED or to in _SIGNED):
        return False  # they do not promote
    return [True, True] in kinds and haul.dtype_promote(from_, to) == haul.dtype_name(to)


def isdtype(dtype, kind):
    for k in kind if isinstance(kind, tuple) else (kind,):
        if k not in _KINDS and not isinstance(k, haul.DType):
            raise ValueError(f"'{k}' is not a kind of dtypes; one of {', '.join(_KINDS)} is expected")
        if dtype in _KINDS.get(k, (k,)):
            return True
    return False


def result_type(*arrays_and_dtypes):
    dtypes = [x.dtype if isinstance(x, Array) else haul.dtype_name(x) for x in arrays_and_dtypes
              if not isinstance(x, (builtins.bool, int, float))]
    if not dtypes:
        raise ValueError("an array or a dtype is expected among the arguments")
    result = dtypes[0]
    for other in dtypes[1:]:
        result = haul.dtype_promote(result, other)
    return result


def _dtype_object(x):
    return x.dtype if isinstance(x, Array) else haul.DType(haul.dtype_name(x))


finfo_object = namedtuple("finfo_object", "bits eps max min smallest_normal dtype")
iinfo_object = namedtuple("iinfo_object", "bits max min dtype")
_FINFO = {"f16": (16, 2.0**-10, 65504.0, 2.0**-14), "bf16": (16, 2.0**-7, 2.0**128 - 2.0**120, 2.0**-126),
          "f32": (32, 2.0**-23, 2.0**128 - 2.0**104, 2.0**-126),
          "f64": (64, 2.0**-52, float.fromhex("0x1.fffffffffffffp+1023"), 2.0**-1022)}


def finfo(type, /):  # noqa: A002
    dtype = _dtype_object(type)
    if dtype not in _FINFO:
        raise ValueError(f"finfo: a floating-point dtype is expected, not {dtype}")
    bits, eps, largest, smallest = _FINFO[dtype]
    return finfo_object(bits, eps, largest, -largest, smallest, dtype)


def iinfo(type, /):  # noqa: A002
    dtype = _dtype_object(type)
    if dtype not in _KINDS["integral"]:
        raise ValueError(f"iinfo: an integer dtype is expected, not {dtype}")
    bits = haul.dtype_bits(dtype)
    return iinfo_object(bits, 2**bits - 1, 0, dtype) if dtype in _UNSIGNED else iinfo_object(bits, 2**(bits - 1) - 1, -2**(bits - 1), dtype)


# ---- creation ----

def to_device(x, device, /, *, stream=None):
    if stream is not None:
        raise ValueError("stream: None is expected")
    return x.to(device)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    if copy:
        return haul.array(obj, dtype, device)
    made = haul.asarray(obj, dtype, device)
    if copy is False and made is not obj and (isinstance(obj, Array) or not hasattr(obj, "__dlpack__")):
        raise ValueError("asarray: copy=False, but the dtype, the device or the kind of data needs a copy")
    return made


def from_dlpack(x, /, *, device=None, copy=None):
    return haul.from_dlpack(x, device=device, copy=copy)


def _made(device, function, *args, **names):
    if device is None:
        return function(*args, **names)
    with haul.device(device):
        return function(*args, **names)


def _dtype_of(value):
    return "bool" if isinstance(value, builtins.bool) else "i64" if isinstance(value, int) else "f32"


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    whole = builtins.all(isinstance(n, (int, type(None))) for n in (start, stop, step))
    if not whole or (dtype is not None and not haul.dtype_is_integer(dtype)):
        start, stop, step = float(start), None if stop is None else float(stop), float(step)
    return _made(device, haul.arange, start, stop, step, dtype=dtype)


def empty(shape, *, dtype=None, device=None):
    return _made(device, haul.empty, shape, dtype=dtype or "f32")


def zeros(shape, *, dtype=None, device=None):
    return _made(device, haul.zeros, shape, dtype=dtype or "f32")


def ones(shape, *, dtype=None, device=None):
    return _made(device, haul.ones, shape, dtype=dtype or "f32")


def full(shape, fill_value, *, dtype=None, device=None):
    value = haul.array(fill_value, dtype or _dtype_of(fill_value), device)
    return value.expand(shape).clone().contiguous()


def empty_like(x, /, *, dtype=None, device=None):
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x, /, *, dtype=None, device=None):
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x, /, *, dtype=None, device=None):
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """For k other than 0 these are the rows and columns of a larger one."""
    columns = n_rows if n_cols is None else n_cols
    up, down = (0, 0) if not n_rows or not columns else (builtins.min(builtins.max(k, 0), columns), builtins.min(builtins.max(-k, 0), n_rows))
    return _made(device, haul.eye, n_rows + up, columns + down, dtype=dtype or "f32")[up:, down:].contiguous()


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    made = _made(device, haul.linspace, start, stop, num + (not endpoint), dtype=dtype or "f32")
    return made if endpoint else made[:-1]


def meshgrid(*arrays, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing: 'xy' or 'ij' is expected, not {indexing!r}")
    if indexing == "ij" or len(arrays) < 2:
        return list(haul.meshgrid(arrays)) if arrays else []
    grids = haul.meshgrid([arrays[1], arrays[0], *arrays[2:]])
    return [grids[1], grids[0], *grids[2:]]


def tril(x, /, *, k=0):
    return haul.tril(x, k)


def triu(x, /, *, k=0):
    return haul.triu(x, k)


# ---- element by element ----

def _unary(name, function):
    def made(x, /):
        return function(x)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = function.__doc__
    globals()[name] = made


def _number(x, other):
    """A number becomes an Array like the other operand."""
    if isinstance(x, Array):
        return x
    if not isinstance(other, Array):
        raise TypeError("one of the operands must be an array")
    if isinstance(x, float) and other.dtype not in _KINDS["real floating"]:
        raise TypeError(f"a float and an array of {other.dtype} have no common dtype")
    return haul.array(x, other.dtype, other.device)


def _binary(name, function):
    def made(x1, x2, /):
        return function(_number(x1, x2), _number(x2, x1))

    made.__name__ = made.__qualname__ = name
    made.__doc__ = function.__doc__
    globals()[name] = made


for _name in ("abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log log1p log2 log10 "
              "logical_not reciprocal round sign signbit sin sinh square sqrt tan tanh trunc").split():
    _unary(_name, getattr(haul, _name))
_unary("bitwise_invert", haul.bitwise_not)
_unary("negative", haul.neg)
for _name in ("positive", "conj", "real"):  # of real dtypes
    _unary(_name, haul.clone)
_unary("imag", haul.zeros_like)
for _name in ("add atan2 bitwise_and bitwise_or bitwise_xor copysign hypot logaddexp logical_and logical_or logical_xor maximum "
              "minimum nextafter pow remainder").split():
    _binary(_name, getattr(haul, _name))
for _name, _ours in {"bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "divide": "div", "equal": "eq",
                     "floor_divide": "floor_div", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
                     "multiply": "mul", "not_equal": "ne", "subtract": "sub"}.items():
    _binary(_name, getattr(haul, _ours))


def clip(x, /, min=None, max=None):  # noqa: A002
    low = x if min is None else haul.maximum(x, _number(min, x))
    made = low if max is None else haul.minimum(low, _number(max, x))
    return made.clone() if made is x else made


def where(condition, x1, x2, /):
    return haul.where(condition, _number(x1, x2), _number(x2, x1))


# ---- shapes ----

def _axes(x, axis):
    """Axes as a tuple of numbers from 0 on; None is all."""
    if axis is None:
        return tuple(range(x.ndim))
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    for a in axes:
        if not -x.ndim <= a < x.ndim:
            raise IndexError(f"the axis {a} is out of range for {x.ndim} dimensions")
    return tuple(a % x.ndim for a in axes)


def _flat(x):
    return x.reshape((x.size,))


def broadcast_shapes(*shapes):
    result = []
    for i in range(1, builtins.max([len(s) for s in shapes], default=0) + 1):
        sizes = {s[-i] for s in shapes if len(s) >= i} - {1}
        if len(sizes) > 1:
            raise ValueError(f"the shapes {shapes} do not fit each other")
        result.insert(0, sizes.pop() if sizes else 1)
    return tuple(result)


def broadcast_to(x, /, shape):
    return haul.expand(x, shape)


def broadcast_arrays(*arrays):
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [haul.expand(x, shape) for x in arrays]


def concat(arrays, /, *, axis=0):
    dtype = result_type(*arrays)
    arrays = [astype(x, dtype, copy=False) for x in arrays]
    return haul.cat([_flat(x) for x in arrays], 0) if axis is None else haul.cat(arrays, axis)


def stack(arrays, /, *, axis=0):
    dtype = result_type(*arrays)
    return haul.stack([astype(x, dtype, copy=False) for x in arrays], axis)


def unstack(x, /, *, axis=0):
    axis, = _axes(x, axis)
    return tuple(haul.select(x, axis, i) for i in range(x.shape[axis]))


def expand_dims(x, /, axis):
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"the axis {axis} is out of range for {x.ndim} dimensions and a new one")
    return haul.unsqueeze(x, axis)


def flip(x, /, *, axis=None):
    axes = _axes(x, axis)
    return haul.flip(x, axes) if axes else x.clone()


def moveaxis(x, source, destination, /):
    source, destination = _axes(x, source), _axes(x, destination)
    if len(source) != len(destination):
        raise ValueError("as many sources as destinations are expected")
    order = [a for a in range(x.ndim) if a not in source]
    for to, a in sorted(zip(destination, source)):
        order.insert(to, a)
    return permute_dims(x, tuple(order))


def permute_dims(x, /, axes):
    return haul.permute(x, axes) if x.ndim else x


def matrix_transpose(x, /):
    return x.mT


def repeat(x, repeats, /, *, axis=None):
    if axis is None:
        x, axis = _flat(x), 0
    if isinstance(repeats, int):
        return haul.repeat_interleave(x, repeats, axis)
    repeats = haul.asarray(repeats)
    return haul.repeat_interleave_counts(x, axis, repeats.expand((x.shape[axis],)).cast("i64"))


def reshape(x, /, shape, *, copy=None):
    if copy is False:
        return haul.view(x, shape)
    return haul.reshape(x.clone() if copy else x, shape)


def roll(x, /, shift, *, axis=None):
    if axis is None:
        return haul.roll(_flat(x), shift, 0).reshape(x.shape)
    axes = _axes(x, axis)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    for by, a in zip(shifts, axes, strict=True):
        x = haul.roll(x, by, a)
    return x


def squeeze(x, /, axis):
    axes = _axes(x, axis)
    if builtins.any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"squeeze: dimensions of size 1 are expected at {axis}, and the shape is {x.shape}")
    for a in sorted(axes, reverse=True):
        x = haul.squeeze(x, a)
    return x


def tile(x, repetitions, /):
    missing = len(repetitions) - x.ndim
    if missing > 0:
        x = x.reshape((1,) * missing + x.shape)
    return haul.repeat(x, (1,) * -missing + tuple(repetitions))


# ---- indices, searching, sets, sorting ----

def take(x, indices, /, *, axis=None):
    axis, = _axes(x, 0 if axis is None and x.ndim == 1 else axis)
    return x[(builtins.slice(None),) * axis + (indices,)]


def take_along_axis(x, indices, /, *, axis=-1):
    axis, = _axes(x, axis)
    shape = broadcast_shapes(x.shape[:axis] + (1,) + x.shape[axis + 1:], indices.shape[:axis] + (1,) + indices.shape[axis + 1:])
    x = haul.expand(x, shape[:axis] + (x.shape[axis],) + shape[axis + 1:])
    indices = haul.expand(indices, shape[:axis] + (indices.shape[axis],) + shape[axis + 1:])
    return haul.gather(x, axis, haul.where(indices < 0, indices + x.shape[axis], indices))


def _arg(function, x, axis, keepdims):
    if axis is not None:
        return function(x, axis, keepdims)
    made = function(_flat(x), 0)
    return made.reshape((1,) * x.ndim) if keepdims else made


def argmax(x, /, *, axis=None, keepdims=False):
    return _arg(haul.argmax, x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    return _arg(haul.argmin, x, axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    return sum(x != 0, axis=axis, keepdims=keepdims)


def nonzero(x, /):
    if not x.ndim:
        raise ValueError("nonzero: an array with dimensions is expected")
    return unstack(haul.nonzero(x), axis=1)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    if side not in ("left", "right"):
        raise ValueError(f"side: 'left' or 'right' is expected, not {side!r}")
    return haul.searchsorted(x1 if sorter is None else haul.gather(x1, 0, sorter), x2, side == "right")


unique_all_result = namedtuple("unique_all_result", "values indices inverse_indices counts")
unique_counts_result = namedtuple("unique_counts_result", "values counts")
unique_inverse_result = namedtuple("unique_inverse_result", "values inverse_indices")


def unique_all(x, /):
    """The first index of a value is where a stable sort of the inverse has its first place."""
    values, inverse, counts = haul.unique(_flat(x), inverse=True, counts=True)
    first = haul.argsort(inverse, 0)[haul.cumsum(counts, 0) - counts]
    return unique_all_result(values, first, inverse.reshape(x.shape), counts)


def unique_counts(x, /):
    return unique_counts_result(*haul.unique(_flat(x), counts=True))


def unique_inverse(x, /):
    values, inverse = haul.unique(_flat(x), inverse=True)
    return unique_inverse_result(values, inverse.reshape(x.shape))


def unique_values(x, /):
    return haul.unique(_flat(x))


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    return haul.argsort(x, axis, descending)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    return haul.sort(x, axis, descending)[0]


# ---- statistics ----

def _reduced(function, x, axis, keepdims, **options):
    if axis == ():
        return function(haul.unsqueeze(x, 0), axes=0, keepdim=False, **options)
    return function(x, axes=axis, keepdim=keepdims, **options)


def _accumulated(x, dtype):
    """Sums and products of whole numbers and bools are i64, if nothing else is asked for."""
    return astype(x, dtype or ("i64" if x.dtype in _KINDS["integral"] + ("bool",) else x.dtype), copy=False)


def all(x, /, *, axis=None, keepdims=False):
    return _reduced(haul.all, x, axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    return _reduced(haul.any, x, axis, keepdims)


def max(x, /, *, axis=None, keepdims=False):
    return _reduced(haul.max, x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    return _reduced(haul.min, x, axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    return _reduced(haul.mean, x, axis, keepdims)


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    x = _accumulated(x, dtype)
    return astype(_reduced(haul.sum, x, axis, keepdims), x.dtype, copy=False)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    x = _accumulated(x, dtype)
    return astype(_reduced(haul.prod, x, axis, keepdims), x.dtype, copy=False)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _reduced(haul.std, x, axis, keepdims, correction=correction)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _reduced(haul.var, x, axis, keepdims, correction=correction)


def _cumulative(function, first, x, axis, dtype, include_initial):
    axis, = _axes(x, 0 if axis is None and x.ndim == 1 else axis)
    x = _accumulated(x, dtype)
    made = astype(function(x, axis), x.dtype, copy=False)
    if not include_initial:
        return made
    return haul.cat([full(made.shape[:axis] + (1,) + made.shape[axis + 1:], first, dtype=made.dtype, device=made.device), made], axis)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    return _cumulative(haul.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    return _cumulative(haul.cumprod, 1, x, axis, dtype, include_initial)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    parts = [part for part in (prepend, x, append) if part is not None]
    return haul.diff(haul.cat(parts, axis) if len(parts) > 1 else x, n, axis)


# ---- matrices ----

def matmul(x1, x2, /):
    """Products of small whole numbers are i32 in the library; the standard wants the dtype of the operands."""
    return astype(haul.matmul(x1, x2), result_type(x1, x2), copy=False)


def tensordot(x1, x2, /, *, axes=2):
    if isinstance(axes, int):
        axes = range(x1.ndim - axes, x1.ndim), range(axes)
    made = haul.tensordot(x1, x2, _axes(x1, tuple(axes[0])), _axes(x2, tuple(axes[1])))
    return astype(made, result_type(x1, x2), copy=False)


def vecdot(x1, x2, /, *, axis=-1):
    x1, x2 = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    return haul.squeeze(haul.squeeze(matmul(haul.unsqueeze(x1, -2), haul.unsqueeze(x2, -1)), -1), -1)


# ---- what there is ----

class __array_namespace_info__:
    """What this namespace has: devices, dtypes and capabilities."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self):
        return haul.current_device()

    def default_dtypes(self, *, device=None):
        return {"real floating": float32, "complex floating": None, "integral": int64, "indexing": int64}

    def devices(self):
        return haul.devices()

    def dtypes(self, *, device=None, kind=None):
        names = {"bool": bool, "uint8": uint8, "int8": int8, "int16": int16, "int32": int32, "int64": int64,
                 "uint16": uint16, "uint32": uint32, "uint64": uint64, "float32": float32, "float64": float64}
        return {name: dtype for name, dtype in names.items() if kind is None or isdtype(dtype, kind)}


from . import array_api_linalg as linalg  # noqa: E402

__all__ = sorted(name for name in globals() if not name.startswith("_") and name not in
                 ("builtins", "namedtuple", "haul", "Array")) + ["__array_api_version__", "__array_namespace_info__"]
