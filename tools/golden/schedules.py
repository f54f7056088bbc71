#!/usr/bin/python3
"""Makes tests/golden/schedules.json, which tests/optim/test_optim_schedules.c follows: the learning rates of two groups, and
the momentum of the first, at steps 0 to 100 of PyTorch's schedulers (written with Debian's python3-torch 1.13.1). Run
from the top of the tree."""
import json

import torch
from torch.optim import lr_scheduler as s

STEPS = 100
CASES = {
    "staircase": lambda o: s.StepLR(o, 7, 0.5),
    "exponential": lambda o: s.ExponentialLR(o, 0.95),
    "cosine": lambda o: s.CosineAnnealingLR(o, 80, 0.001),
    "warm_up": lambda o: s.LinearLR(o, 0.25, total_iters=30),
    "one_cycle": lambda o: s.OneCycleLR(o, 0.5, 101),
    "one_cycle linear": lambda o: s.OneCycleLR(o, 0.5, 101, pct_start=0.4, anneal_strategy="linear", div_factor=10,
                                               final_div_factor=100, base_momentum=0.5, max_momentum=0.75),
    "one_cycle three": lambda o: s.OneCycleLR(o, 0.5, 101, three_phase=True, cycle_momentum=False),
    "plateau": lambda o: s.ReduceLROnPlateau(o, patience=4, factor=0.5, cooldown=3),
    "plateau absolute": lambda o: s.ReduceLROnPlateau(o, "max", patience=2, threshold=0.05, threshold_mode="abs",
                                                      min_lr=0.001),
    "chain": lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=20), s.CosineAnnealingLR(o, 50),
                                          s.StepLR(o, 4, 0.5)], [20, 70]),
}


def metric(step):
    """Falls, and stays from step 40 on, with a wave."""
    return 4.0 / (1 + min(step, 40)) + (step * 7 % 5) / 64


def run(make):
    p, q = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    optimizer = torch.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.02}], lr=0.1, momentum=0.9)
    scheduler = make(optimizer)
    rows = []
    for step in range(STEPS + 1):
        first, second = optimizer.param_groups
        rows.append([first["lr"], second["lr"], first["momentum"]])
        optimizer.step()
        scheduler.step(*([metric(step)] if isinstance(scheduler, s.ReduceLROnPlateau) else []))
    return rows


with open("tests/golden/schedules.json", "w") as f:
    json.dump({"made_by": "torch " + torch.__version__, "metric": [metric(i) for i in range(STEPS)],
               "rates": {name: run(make) for name, make in CASES.items()}}, f, indent=None)
    f.write("\n")
