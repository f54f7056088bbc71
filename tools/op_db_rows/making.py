"""New tensors."""
from .form import ROWS, NoForm, Row, as_dtype, as_number, dtype_name, only, row


def dtype_of(haul, k, x=None):
    only(k, "dtype", "device", "layout", "memory_format", "pin_memory", "requires_grad")
    return dtype_name(k["dtype"]) if k.get("dtype") is not None else x.dtype if x is not None else "f32"


def shape_of(given):
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else list(given)


for name in ("zeros", "ones"):
    ROWS[name] = Row(lambda haul, *shape, name=name, **k: getattr(haul, name)(shape_of(shape), dtype=dtype_of(haul, k)))
    ROWS["new_" + name] = Row(lambda haul, x, *shape, name=name, **k:
                              getattr(haul, name)(shape_of(shape), dtype=dtype_of(haul, k, x)))
    ROWS[name + "_like"] = Row(lambda haul, x, name=name, **k: getattr(haul, name)(x.shape, dtype=dtype_of(haul, k, x)))


@row("full")
def _(haul, shape, value, **k):
    return haul.full(shape_of([shape]), value, dtype=dtype_of(haul, k))


@row("new_full")
def _(haul, x, shape, value, **k):
    return haul.full(shape_of([shape]), value, dtype=dtype_of(haul, k, x))


@row("full_like")
def _(haul, x, value, **k):
    return haul.full(x.shape, value, dtype=dtype_of(haul, k, x))


@row("fill")
def _(haul, x, value):
    return haul.full_like(x, as_number(value))


ROWS["zero_"] = Row(lambda haul, x: haul.zeros_like(x))
ROWS["scalar_tensor"] = Row(lambda haul, value, **k: haul.array(value, dtype_of(haul, k)))


@row("eye")
def _(haul, n, m=None, **k):
    return haul.eye(n, n if m is None else m, dtype=dtype_of(haul, k))


@row("arange")
def _(haul, start, end=None, step=1, **k):
    start, end = (0, start) if end is None else (start, end)
    return haul.arange(start, end, step, dtype=dtype_of(haul, k) if k.get("dtype") is not None else None)


@row("linspace", "linspace.tensor_overload")
def _(haul, start, end, steps, **k):
    return haul.linspace(as_number(start), as_number(end), steps, dtype=dtype_of(haul, k))


@row("logspace", "logspace.tensor_overload")
def _(haul, start, end, steps, base=10.0, **k):
    return haul.rpow(haul.linspace(as_number(start), as_number(end), steps, dtype=dtype_of(haul, k)), base)
