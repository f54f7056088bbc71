"""Layers and networks. A layer is made by its function, nn.linear(64, 10); a network of your own derives from nn.Module:

    class Net(haul.nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = haul.nn.linear(64, 32, relu=True)
            self.out = haul.nn.linear(32, 10)

        def forward(self, x):
            return self.out(self.hidden(x))
"""

import builtins

from . import _haul, _layers
from ._haul import Array
from ._layers import *  # noqa: F403

_RESULTS = {"lstm": 3, "gru": 2, "rnn": 2, "lstm_cell": 2}
_MODES = {None: 0, "train": 1, "evaluate": 2}


class Module(_haul.Module):
    """A module: a layer of the library, or a network of your own with a method `forward`."""

    # Names of what forward takes and returns, "x, mask?" and "y, state"; default one of each.
    inputs = results = None

    def __init__(self):
        if type(self).forward is Module.forward:
            raise TypeError("a class of your own has a method forward(self, x); layers are made by haul.nn.linear and others")
        object.__setattr__(self, "_children", {})
        object.__setattr__(self, "_tensors", {})
        _haul._module_init(self, type(self).__name__, self.inputs, self.results)

    def forward(self, *x):
        raise NotImplementedError("this module has no forward of its own")

    def __call__(self, *x, mode=None):
        """The result of forward, or a tuple of several. `mode`: "train" or "evaluate", for this call."""
        count = len(self.results.split(",")) if self.results else _RESULTS.get(self.kind(), 1)
        return _haul._module_call(self, x, _MODES[mode], count)

    def _held(self, name):
        """What the module holds under a name: "module", "parameter", "buffer" or None."""
        if name in self.__dict__.get("_children", ()):
            return "module"
        if "_tensors" in self.__dict__:
            return self._tensors.get(name)
        if type(self) is not Module:
            return None
        if any(n == name for n, _ in _haul._module_children(self)):
            return "module"
        kinds = {n: "buffer" if is_buffer else "parameter" for n, _, is_buffer in _haul._tensors_of(self, "module")}
        return kinds.get(name)

    def __setattr__(self, name, value):
        """Modules become children, and Arrays in nn.Parameter and nn.Buffer are kept by the module under this name. What the
        module holds already is replaced by its kind; nothing that it holds can be removed."""
        held = self._held(name)
        if isinstance(value, _haul.Module):
            if type(self) is not Module and "_children" not in self.__dict__:
                raise RuntimeError("call super().__init__() before a module is assigned")
            if held == "module":
                self.replace(name, value)
            else:
                self.add(name, value)
            if "_children" in self.__dict__:
                self._children[name] = value
        elif isinstance(value, Buffer):
            self.add_buffer(name, value.array)
            value = self.buffer(name)
            self.__dict__.get("_tensors", {})[name] = "buffer"
        elif isinstance(value, Parameter):
            if held == "parameter":
                value.array.requires_grad = True
                self.replace_parameter(name, value.array)
            else:
                self.add_parameter(name, value.array)
            value = self.parameter(name)
            self.__dict__.get("_tensors", {})[name] = "parameter"
        elif held and value is not self.__dict__.get(name):
            ways = {"module": "assign another module to replace it",
                    "parameter": "assign nn.Parameter(...) to replace it, or set its elements "
                                 f"by .{name}[...] = values in haul.no_grad()",
                    "buffer": f"set its elements by .{name}[...] = values"}
            raise TypeError(f"'{name}' is a {held} of the module, and {type(value).__name__} is none: {ways[held]}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        held = self._held(name)
        if held:
            raise TypeError(f"'{name}' is a {held} of the module, which cannot be removed: make a module without it")
        object.__delattr__(self, name)

    def add_hook(self, before=None, after=None):
        """Functions that calls of the module call: before(inputs) and after(inputs, result). `inputs` is a tuple, `result` an
        Array or a tuple of several. What they return replaces the inputs or the results, unless it is None. Returns a number
        for remove_hook."""
        return _haul._module_add_hook(self, before, after)

    def remove_hook(self, number):
        """Remove the functions that add_hook numbered."""
        _haul._module_remove_hook(self, number)

    def named_parameters(self):
        """[(name, Array)]."""
        return [(name, x) for name, x, is_buffer in _haul._tensors_of(self, "module") if not is_buffer]

    def parameters(self):
        """[Array]."""
        return [x for _, x in self.named_parameters()]

    def named_children(self):
        """[(name, Module)]: those of Python as the objects that they are."""
        own = self.__dict__.get("_children", {})
        return [(name, own.get(name, child)) for name, child in _haul._module_children(self)]

    def state_dict(self):
        """{name: Array} of parameters and buffers; the Arrays are those of the module."""
        return {name: x for name, x, _ in _haul._tensors_of(self, "module")}

    def load_state_dict(self, state):
        """Copy the elements of {name: Array} into the parameters and buffers. All names must be there."""
        own = self.state_dict()
        if set(own) != set(state):
            raise ValueError(f"names are missing: {sorted(set(own) - set(state))}, or too many: {sorted(set(state) - set(own))}")
        wrong = [f"{n}: {own[n].shape}, not {tuple(state[n].shape)}" for n in own if own[n].shape != tuple(state[n].shape)]
        if wrong:
            raise ValueError("shapes differ: " + "; ".join(wrong))
        before = _haul.set_grad_enabled(False)
        try:
            for name, x in own.items():
                x[...] = state[name]
        finally:
            _haul.set_grad_enabled(before)

    def train(self, mode=True):
        """Set the module and its children to training, or to evaluation. Returns the module."""
        _haul.module_train(self, mode)
        return self

    def eval(self):
        return self.train(False)

    @property
    def training(self):
        return self.is_training()

    def save(self, path, metadata=None):
        """Write the weights as safetensors, or as the ending of the path says."""
        _haul.save_weights(path, self, metadata=metadata)

    def load(self, path, **options):
        """Read weights of safetensors and of PyTorch's files; options are those of haul.load_weights. Returns the module."""
        _haul.load_weights(path, self, **options)
        return self

    def __repr__(self):
        name = type(self).__name__ if type(self) is not Module else self.kind()
        inside = "".join(f"\n  ({n}): " + repr(m).replace("\n", "\n  ") for n, m in self.named_children())
        return f"{name}({inside}\n)" if inside else f"{name}()"


_haul._set_class("module", Module)


class Parameter:
    """An Array that a module trains: self.scale = nn.Parameter(haul.ones(3))."""

    def __init__(self, data):
        self.array = data if isinstance(data, Array) else _haul.array(data)


class Buffer(Parameter):
    """An Array that belongs to a module, and is not trained."""


def _keeping(module, children):
    object.__setattr__(module, "_children", builtins.dict(children))
    return module


def sequential(*modules):
    """Modules that are called one after the other."""
    modules = [*modules[0]] if len(modules) == 1 and not isinstance(modules[0], _haul.Module) else [*modules]
    return _keeping(_layers.sequential(modules), {str(i): m for i, m in enumerate(modules)})


def list(modules):  # noqa: A001
    """A container of modules with the names "0", "1" and so on."""
    modules = [*modules]
    return _keeping(_haul.nn_list(modules), {str(i): m for i, m in enumerate(modules)})


def dict(modules):  # noqa: A001
    """A container of modules with names."""
    return _keeping(_haul.nn_dict(modules), modules)
