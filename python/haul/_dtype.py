"""The dtypes as objects."""

from . import _haul


class DType:
    """A dtype: haul.f32 and the others. It is equal to its name, "f32", and functions accept either."""

    __slots__ = ("name",)

    def __init__(self, name):
        object.__setattr__(self, "name", _haul.dtype_name(name))

    def __setattr__(self, name, value):
        raise AttributeError("a dtype does not change")

    def __eq__(self, other):
        return self.name == (other.name if isinstance(other, DType) else other)

    def __hash__(self):
        return hash(self.name)

    def __str__(self):
        return self.name

    def __format__(self, how):
        return format(self.name, how)

    def __repr__(self):
        return f"haul.{self.name}{'_' if self.name == 'bool' else ''}"

    def __reduce__(self):
        return DType, (self.name,)


ALL = {name: DType(name) for name in ("bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "u16", "u32", "u64")}
_haul._set_dtypes(ALL)
