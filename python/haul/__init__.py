"""Haul: tensors on CPUs and GPUs. The functions are those of the C library, without the prefix haul_; an option of a
C function is an argument by its name. docs/python.md explains what differs from NumPy and PyTorch."""

import builtins as _builtins
from contextlib import contextmanager as _contextmanager

from . import _dtype, _haul, errors
from ._functions import *  # noqa: F403
from ._functions import arange as _arange, arange_i64, backward as _backward, budget as _budget, current_device, set_device
from ._functions import grad_enabled, load_weights, normal, save_weights, set_grad_enabled, set_num_threads, uniform
from ._haul import (Array, Average, BestWeights, Dataset, Generator, GradScaler, Loader, Module, Optimizer, Plan, Recording,
                    Safetensors, Schedule, Transform, array, from_dlpack)
from ._dtype import DType
from .errors import Error

_haul._set_exceptions(errors.BY_STATUS)

__version__ = _haul.version()
bool_, u8, i8, i16, i32, i64, f16, bf16, f32, f64 = _dtype.ALL.values()
float16, bfloat16, float32, float64 = f16, bf16, f32, f64
uint8, int8, int16, int32, int64 = u8, i8, i16, i32, i64
inf, nan, pi, e, newaxis = float("inf"), float("nan"), 3.141592653589793, 2.718281828459045, None


def asarray(data, dtype=None, device=None):
    """`data` itself if it is an Array of this dtype on this device; what has __dlpack__ shares its memory; else a copy."""
    if not isinstance(data, Array) and hasattr(data, "__dlpack__"):
        data = from_dlpack(data)
    if not isinstance(data, Array):
        return array(data, dtype, device)
    if device is not None and device != data.device:
        return data.to(device, dtype=dtype) if dtype is not None else data.to(device)
    return data.cast(dtype) if dtype is not None and dtype != data.dtype else data


def arange(start, stop=None, step=1, dtype=None):
    """start, start + step, ... before stop. i64 if all are whole numbers, else f32."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = "i64" if _builtins.all(isinstance(n, int) for n in (start, stop, step)) else "f32"
    if dtype == "i64" and _builtins.all(isinstance(n, int) for n in (start, stop, step)):
        return arange_i64(start, stop, step)
    return _arange(start, stop, step, dtype=dtype)


def rand(*shape, dtype="f32"):
    """Random numbers from 0 to 1."""
    return uniform(shape, 0, 1, dtype=dtype)


def randn(*shape, dtype="f32"):
    """Random numbers of the normal distribution with mean 0 and deviation 1."""
    return normal(shape, 0, 1, dtype=dtype)


def backward(y, seed=None, keep=False, once=False):
    """Add the gradients of y to the .grad of all Arrays that require one."""
    _backward(y, seed=seed, keep=keep, once=once)


def devices():
    """The names of the devices that this machine can use."""
    return [name for name, usable, _ in _haul._devices() if usable]


def memory(device="cpu"):
    """{"allocated", "peak_allocated"}: bytes that Arrays hold on a device now, and the most so far."""
    return _haul._memory(device)


@_contextmanager
def _scope():
    handle = _haul._scope_push()
    try:
        yield
    except BaseException:
        try:
            _haul._scope_pop(handle)
        except Error:
            pass  # the exception that is on its way tells more than a budget
        raise
    _haul._scope_pop(handle)


@_contextmanager
def device(name):
    """New Arrays of the `with` block are made on this device."""
    with _scope():
        set_device(name)
        yield


@_contextmanager
def no_grad():
    """In the `with` block no graph is recorded for gradients."""
    with _scope():
        set_grad_enabled(False)
        yield


@_contextmanager
def budget(h2d_bytes=0, d2h_bytes=0, d2d_bytes=0, waits=0, planned=False, everywhere=False):
    """The `with` block may copy and wait as often as this; otherwise it ends with a BudgetError that names the places."""
    with _scope():
        _budget(h2d_bytes=h2d_bytes, d2h_bytes=d2h_bytes, d2d_bytes=d2d_bytes, waits=waits, planned=planned,
                everywhere=everywhere)
        yield


@_contextmanager
def autocast(dtype="bf16", devices="all"):
    """In the `with` block products, convolutions and attention compute in f16 or bf16."""
    with _scope():
        _haul._autocast(devices, dtype)
        yield


@_contextmanager
def scope():
    """Settings of the thread, as haul.set_device makes them, end with the `with` block."""
    with _scope():
        yield


class recording:
    """recording(step): a function without arguments that makes a training step. The step is recorded once; from then on
    its calls are only compared, and what was recorded is computed. include/haul/recording.h has the rules for `step`."""

    def __init__(self, step, variants=0, strict=False, frozen=False):
        self._step = step
        self._recording = _haul._recording_new(step, variants, strict, frozen)

    def __call__(self):
        _haul._recording_run(self._recording)

    def report(self):
        """{"followed", "eager", "variants", "operations", "arena_bytes", "reason"}."""
        return _haul._recording_report(self._recording)


def plan(step, module=None, devices=None):
    """A Plan of where the operations of step() run. `devices` is a text like "cpu,cuda:0"."""
    return _haul._plan_new(step, module, devices)


from . import data, nn, optim, schedule  # noqa: E402

__all__ = sorted(name for name in globals() if not name.startswith("_"))
