#!/usr/bin/python3
"""Makes tests/golden/optimizers.json, which tests/optim/test_optim.c follows: a parameter of six numbers after each of five
steps with given gradients, by PyTorch's optimizers (written with Debian's python3-torch 1.13.1). Run from the top of the
tree."""
import json

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


golden = {name: run(make, settings) for name, (make, settings) in CASES.items()}
with open("tests/golden/optimizers.json", "w") as f:
    json.dump({"made_by": "torch " + torch.__version__, "start": START, "after": golden}, f, indent=1)
    f.write("\n")
