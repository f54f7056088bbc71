#!/usr/bin/python3
"""Makes tests/golden/optimizers.json and optimizers_f64.json, which tests/optim/test_optim.c and test_optim_rules.c follow:
a parameter of six numbers after each of the steps with given gradients, by PyTorch's optimizers (the first file was written
with Debian's python3-torch 1.13.1, the second one with 2.15). Run from the top of the tree; with the argument f64 it makes
the second one. Lion and LAMB are not in PyTorch: here they follow their papers."""
import json
import sys

import torch

START = [0.5, -1.25, 2.0, 0.0, -0.001, 30.0]
STEPS = 5
CASES = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9)),
    "sgd dampening": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.5)),
    "sgd nesterov": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, nesterov=True)),
    "sgd decay": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01)),
    "adam": (torch.optim.Adam, dict(lr=0.01)),
    "adam betas": (torch.optim.Adam, dict(lr=0.01, betas=(0.8, 0.95), eps=1e-4)),
    "adam decay": (torch.optim.Adam, dict(lr=0.01, weight_decay=0.1)),
    "adamw": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1)),
    "adamw default": (torch.optim.AdamW, dict(lr=0.01)),
    "rmsprop": (torch.optim.RMSprop, dict(lr=0.01)),
    "rmsprop alpha": (torch.optim.RMSprop, dict(lr=0.01, alpha=0.9, eps=1e-4)),
    "rmsprop momentum": (torch.optim.RMSprop, dict(lr=0.01, momentum=0.9)),
    "rmsprop centered": (torch.optim.RMSprop, dict(lr=0.01, centered=True)),
    "rmsprop all": (torch.optim.RMSprop, dict(lr=0.01, alpha=0.95, momentum=0.5, centered=True, weight_decay=0.1)),
}


def gradient(step):
    return torch.tensor([((i * 7 + step * 5) % 11 - 5) / 4 for i in range(len(START))])


def run(make, settings):
    p = torch.nn.Parameter(torch.tensor(START))
    optimizer = make([p], **settings)
    values = []
    for step in range(STEPS):
        p.grad = gradient(step)
        optimizer.step()
        values.append([float(v) for v in p.detach()])
    return values



class Lion(torch.optim.Optimizer):
    """Program 1 of Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = torch.sign(beta1 * m + (1 - beta1) * p.grad) + decay * p
                self.state[p]["m"] = beta2 * m + (1 - beta2) * p.grad
                p -= lr * update


class SignSGD(torch.optim.Optimizer):
    """The optimizer of the program in tests/optim/test_optim_rules.c."""

    def __init__(self, params, lr, momentum):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.copy_(p.grad.lerp(m, group["momentum"]))
                p -= group["lr"] * m.sign()


class Lamb(torch.optim.Optimizer):
    """Algorithm 2 of You et al. 2020, "Large Batch Optimization for Deep Learning", with phi(x) = x."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2), eps, decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
            for p in group["params"]:
                s = self.state[p]
                t = s["t"] = s.get("t", 0) + 1
                m = s["m"] = beta1 * s.get("m", torch.zeros_like(p)) + (1 - beta1) * p.grad
                v = s["v"] = beta2 * s.get("v", torch.zeros_like(p)) + (1 - beta2) * p.grad**2
                r = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps) + decay * p
                of_p, of_r = p.norm(), r.norm()
                p -= lr * (of_p / of_r if of_p > 0 and of_r > 0 else 1) * r


def more_cases():
    o, betas = torch.optim, dict(betas=(0.8, 0.95), eps=1e-4)
    return {
        "adam amsgrad": (o.Adam, dict(lr=0.01, amsgrad=True)),
        "adam amsgrad all": (o.Adam, dict(lr=0.01, amsgrad=True, weight_decay=0.1, **betas)),
        "adamw amsgrad": (o.AdamW, dict(lr=0.01, amsgrad=True, weight_decay=0.1)),
        "adagrad": (o.Adagrad, dict(lr=0.1)),
        "adagrad all": (o.Adagrad, dict(lr=0.1, lr_decay=0.5, weight_decay=0.1, initial_accumulator_value=0.25, eps=1e-4)),
        "adadelta": (o.Adadelta, dict(lr=1.0)),
        "adadelta all": (o.Adadelta, dict(lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1)),
        "nadam": (o.NAdam, dict(lr=0.002)),
        "nadam all": (o.NAdam, dict(lr=0.01, weight_decay=0.1, momentum_decay=0.1, **betas)),
        "nadam decoupled": (o.NAdam, dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)),
        "radam": (o.RAdam, dict(lr=0.001)),
        "radam all": (o.RAdam, dict(lr=0.01, weight_decay=0.1, **betas)),
        "radam decoupled": (o.RAdam, dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)),
        "adam": (o.Adam, dict(lr=0.01)),
        "sign sgd": (SignSGD, dict(lr=0.01, momentum=0.9)),
        "lamb": (Lamb, dict(lr=0.01)),
        "lamb all": (Lamb, dict(lr=0.01, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)),
        "lion": (Lion, dict(lr=0.01)),
        "lion all": (Lion, dict(lr=0.01, betas=(0.83, 0.97), weight_decay=0.1)),
    }


if "f64" in sys.argv[1:]:
    torch.set_default_dtype(torch.float64)
    STEPS = 12
    CASES, path = more_cases(), "tests/golden/optimizers_f64.json"
else:
    path = "tests/golden/optimizers.json"
golden = {name: run(make, settings) for name, (make, settings) in CASES.items()}
with open(path, "w") as f:
    json.dump({"made_by": "torch " + torch.__version__, "start": START, "after": golden}, f, indent=1)
    f.write("\n")
