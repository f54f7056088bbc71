"""Optimizers: optim.adam(module, 0.001). step() changes the parameters of the module from their gradients."""

from . import _haul, _optimizers
from ._haul import GradScaler, clip_grad_norm, clip_grad_value, grad_scaler_new as grad_scaler, train_step  # noqa: F401
from ._optimizers import *  # noqa: F403


class Optimizer(_haul.Optimizer):
    """What changes the parameters of a module."""

    @property
    def lr(self):
        """The learning rate of the first group; assigning sets it for all groups."""
        return self.get(0, "lr")

    @lr.setter
    def lr(self, value):
        for group in range(self.group_count()):
            self.set(group, "lr", value)

    def step(self, closure=None):
        """Change the parameters. `closure` computes the loss and its gradients, for lbfgs several times in a step; its
        first loss is returned."""
        return super().step() if closure is None else _haul._step_closure(self, closure)

    def parameters(self, group=0):
        """[(name, Array)] of a group."""
        return [(name, x) for name, x, _ in _haul._tensors_of(self, "group", group)]

    def state(self):
        """{name: Array}: what the optimizer remembers from step to step."""
        return {name: x for name, x, _ in _haul._tensors_of(self, "state")}


_haul._set_class("optimizer", Optimizer)


def _keeping(make):
    def made(module, *args, **options):
        optimizer = make(module, *args, **options)
        optimizer.module_ = module  # a network of Python lives as long as what trains it
        return optimizer

    made.__name__, made.__doc__ = make.__name__, make.__doc__
    return made


for _name in [n for n in vars(_optimizers) if not n.startswith("_")]:
    globals()[_name] = _keeping(vars(_optimizers)[_name])
