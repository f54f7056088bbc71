"""How the operations of PyTorch's op_db are called in Haul, for tools/op-db: a row for each, in files by subject."""
from . import algebra, axes, composed, fourier, indices, layers, making, pictures, pointwise, shapes  # noqa: F401
from .absent import REASONS, reason_of
from .form import ROWS, NoForm

__all__ = ["REASONS", "ROWS", "NoForm", "reason_of"]
