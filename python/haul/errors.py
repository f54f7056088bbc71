"""The exceptions: one class for each status of the library, each also of a class that Python has."""


class Error(Exception):
    """A call of the library failed. `status` is a text like "shapes do not fit", `operation` the function, and
    `argument` the argument that is wrong."""

    status = operation = argument = ""


class ArgumentError(Error, ValueError):
    """An argument is wrong."""


class ShapeError(Error, ValueError):
    """Shapes do not fit each other or the operation."""


class DTypeError(Error, TypeError):
    """The operation does not accept this dtype."""


class DeviceError(Error, RuntimeError):
    """The device is unknown or cannot be used, or its driver reported a fault."""


class PlacementError(Error, ValueError):
    """The operands are on different devices."""


class OutOfMemoryError(Error, MemoryError):
    """The device or the host has no memory left, or a limit was reached."""


class UnsupportedError(Error, NotImplementedError):
    """This build, device or file format cannot do it."""


class FileError(Error, OSError):
    """The system failed to open, read or write a file."""


class FormatError(Error, ValueError):
    """A file is malformed."""


class StateError(Error, RuntimeError):
    """The call is correct but not possible now."""


class GradientError(Error, RuntimeError):
    """No gradient can be computed."""


class BudgetError(Error, RuntimeError):
    """More was copied or waited for than a budget allows."""


BY_STATUS = {"": Error, "invalid argument": ArgumentError, "shapes do not fit": ShapeError,
             "dtype not accepted": DTypeError, "device not usable": DeviceError,
             "operands on different devices": PlacementError, "out of memory": OutOfMemoryError,
             "not supported": UnsupportedError, "input or output failed": FileError, "malformed file": FormatError,
             "not possible in this state": StateError, "no gradient can be computed": GradientError,
             "the device reported a fault": DeviceError, "end of the data": ArgumentError,
             "budget exceeded": BudgetError}
