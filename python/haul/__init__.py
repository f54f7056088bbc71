"""Haul: tensors on CPUs and GPUs. The functions are those of the C library, without the prefix haul_; an option of a
C function is an argument by its name. docs/python.md explains what differs from NumPy and PyTorch."""

import builtins as _builtins
from collections.abc import Callable as _Callable
from contextlib import contextmanager as _contextmanager
from typing import Any as _Any

from . import _dtype, _haul, errors
from ._functions import *  # noqa: F403
from ._functions import arange as _arange, arange_i64, dtype_is_integer, backward as _backward, budget as _budget, current_device, set_device
from ._functions import ledger_begin, profile_begin, grad_enabled, load_weights, normal, save_weights, set_grad_enabled, set_num_threads, uniform
from ._haul import (Array, Average, BestWeights, Dataset, Generator, GradScaler, Loader, Module, Optimizer, Plan, Recording,
                    Safetensors, Schedule, Transform, array, from_dlpack)
from ._dtype import DType
from ._kernel import kernel, pointwise
from .errors import Error

_haul._set_exceptions(errors.BY_STATUS)

__version__ = _haul.version()
bool_, u8, i8, i16, i32, i64, f16, bf16, f32, f64, u16, u32, u64 = _dtype.ALL.values()
float16, bfloat16, float32, float64 = f16, bf16, f32, f64
uint8, int8, int16, int32, int64 = u8, i8, i16, i32, i64
uint16, uint32, uint64 = u16, u32, u64
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
    whole = _builtins.all(isinstance(n, int) for n in (start, stop, step))
    if whole and (dtype is None or dtype_is_integer(dtype)):
        made = arange_i64(start, stop, step)
        return made if dtype is None else asarray(made, dtype)
    return _arange(start, stop, step, dtype=dtype or "f32")


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
def budget(h2d_bytes=0, d2h_bytes=0, d2d_bytes=0, group_bytes=0, waits=0, planned=False, everywhere=False):
    """The `with` block may copy, send to other ranks and wait so much; otherwise it ends with a BudgetError that names
    the places."""
    with _scope():
        _budget(h2d_bytes=h2d_bytes, d2h_bytes=d2h_bytes, d2d_bytes=d2d_bytes, group_bytes=group_bytes, waits=waits,
                planned=planned, everywhere=everywhere)
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


def estimate(step: _Callable[[], _Any]) -> dict[str, _Any]:
    """What step() would cost, from a dry run, in which nothing is allocated or computed: a dictionary as haul_estimate_result of
    include/haul/estimate.h. "flops", "bytes_touched", "moved" with bytes and counts of copies, "devices", a list of dictionaries
    with "device", "peak_bytes", "origins" and more, and "operations", one for each call. What step() reads, as item() does, is
    an error."""
    return _haul._estimate(step)


def fit(step, module=None, device=None, memory_limit=0, host_limit=0, batch=0, most_batch=0, recompute=False, spill=False,
        bf16=False, apply=False):
    """The fastest way to train within a memory limit: a dictionary with "batch", "step_ms", "peak_bytes" and more, as
    haul_fit_result of include/haul/fit.h has them. step(batch) makes a whole step with so many examples; it is called in dry
    runs, which compute nothing. `recompute`, `spill` and `bf16` allow these techniques."""
    return _haul._fit(step, module, device, (memory_limit, host_limit, batch, most_batch), recompute, spill, bf16, apply)


class Parallel(_haul.Parallel):
    """Data parallel training of a module: parallel(net, pieces=8). include/haul/parallel.h explains it."""

    @_contextmanager
    def piece(self, step):
        """The forward and backward pass of this rank's next piece of a step; it ends with .backward(sum_of_losses, weight)."""
        with _scope():
            self.begin(step)
            yield


_haul._set_class("parallel", Parallel)


def parallel(module, group=None, pieces=None, seed=0, scaler=None, shard=0, stages=0, cuts=None):
    """Data parallel training of a module by the ranks of a group, which is group_get("auto") if it is omitted."""
    made = _haul.parallel_new(module, group=group, pieces=pieces, seed=seed, scaler=scaler, shard=shard,
                              stages=stages, cuts=cuts)
    made.module_ = module
    return made


class Group(_haul.Group):
    """The ranks that `mpirun` and others started: haul.group_get("auto")."""

    def describe(self):
        """{"kind", "library", "family", "version", "rank", "size", "limit", "collectives", "sent_bytes"}."""
        return _haul._group_describe(self)


_haul._set_class("group", Group)


_PROFILE_KEYS = {"operation": 1, "module": 2, "kernel": 3}


class Profile(_haul.Profile):
    """What a part of the program did, and when."""

    def summary(self):
        """A dictionary of the times of the profile: "steps", "wall_ms", "forward_ms" and so on."""
        return _haul._profile_summary(self)

    def rows(self, by: str = "operation") -> list[dict[str, _Any]]:
        """A dictionary for each operation, "module" or "kernel", those with the largest share first: "name", "calls", "host_ms",
        "device_ms", "flops" and the other members of haul_profile_row."""
        if by not in _PROFILE_KEYS:
            raise ValueError(f"rows: {by!r} is none of {', '.join(_PROFILE_KEYS)}")
        return _haul._profile_rows(self, _PROFILE_KEYS[by])

    def audit(self) -> list[dict[str, _Any]]:
        """A dictionary for each finding, the most expensive first: "kind", "place", "what", "fix", "ms_per_step" and the other
        members of haul_finding."""
        return _haul._profile_audit(self)


_haul._set_class("profile", Profile)


@_contextmanager
def profile(folder=None, everywhere=False, no_places=False):
    """Record the `with` block: with haul.profile("out") as p. p.step() ends a step. Afterwards p has its summary(), and the
    folder the report."""
    with _scope():
        recorded = profile_begin(everywhere=everywhere, no_places=no_places)
        yield recorded
        recorded.end()
        if folder is not None:
            recorded.save(folder)


_LEDGER_KEYS = {"from": 1, "to": 2, "operation": 4, "module": 8, "label": 16, "tensor": 32}


class Ledger(_haul.Ledger):
    """An account of what crossed the links between devices."""

    def rows(self, *by):
        """A dictionary for each row, those with the most bytes first. Rows that are equal in `by`, some of "from", "to",
        "operation", "module", "label" and "tensor", are added; without it all of these count."""
        unknown = [key for key in by if key not in _LEDGER_KEYS]
        if unknown:
            raise ValueError(f"rows: {unknown[0]!r} is none of {', '.join(_LEDGER_KEYS)}")
        return _haul._ledger_rows(self, _builtins.sum(_LEDGER_KEYS[key] for key in {*by}))


_haul._set_class("ledger", Ledger)


@_contextmanager
def ledger(everywhere=False, device_times=False, ranks=False):
    """Count the copies of the `with` block: with haul.ledger() as l. l.rows("operation") can be read in it and afterwards."""
    with _scope():
        counted = ledger_begin(everywhere=everywhere, device_times=device_times, ranks=ranks)
        try:
            yield counted
        finally:
            counted.end()


@_contextmanager
def events(*kinds):
    """A list of what the library does in this thread in the `with` block, a dictionary for each event: with
    haul.events("copy", "wait") as list. Kinds are operation, command, copy, wait, memory, call, label, work and collective;
    default all. Times are nanoseconds; include/haul/events.h explains the members."""
    list = []
    number = _haul._events_begin(list, kinds)
    try:
        yield list
    finally:
        _haul._events_end(number)


class custom:
    """custom("my.square", lambda x: x * x, gradient): an operation of your own, computed by others of the library.

    `function` gets the operands and returns the result, or a tuple of as many as `results` has names. Without `gradient`, what
    it calls is differentiated. gradient(gradients, operands, results) gets tuples of Arrays, in which None is a gradient of
    zeros, and returns a tuple with the gradients of the operands; None is zeros. The name is used once in a process."""

    def __init__(self, name, function, gradient=None, operands=("x",), results=("y",)):
        self.name, self._results = name, len(results)
        self._operation = _haul._custom_new(name, tuple(operands), tuple(results), function, gradient)

    def __call__(self, *operands):
        return _haul._custom_apply(self._operation, operands, self._results)


def checkpoint(function, *inputs):
    """function(*inputs), an Array, without keeping what its gradient needs: the backward pass calls `function` again. It must
    compute the same both times; haul.recomputing() is True in the second call. None is an input that is omitted."""
    return _haul._checkpoint(function, inputs)


def fetch(url, sha256=None, folder=None, limit=0, stall=0, cache_limit=0, progress=None):
    """Fetch a file of the network unless it is there already, and return its path. progress(bytes, total) is called meanwhile;
    the fetch stops if it returns False. include/haul/fetch.h has the rules."""
    return _haul._fetch(url, sha256, None if folder is None else str(folder), limit, stall, cache_limit, progress)


def save_onnx(path, module, *x, opset=0, dynamic=False, external=False):
    """Write a module as an ONNX model; x are inputs of its call, of which only shapes and dtypes matter."""
    _haul._save_onnx(path, module, x, opset, dynamic, external)


from . import data, nn, optim, schedule  # noqa: E402

__all__ = sorted(name for name in globals() if not name.startswith("_"))
