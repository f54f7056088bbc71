#!/usr/bin/python3
"""Makes tests/golden/lbfgs.json, which tests/optim/test_lbfgs.c follows: the losses and parameters after each of some steps
of torch.optim.LBFGS in f64, for Rosenbrock's function and for a small network. Written with PyTorch 2.15. Run from the top
of the tree."""
import json

import torch

torch.set_default_dtype(torch.float64)
STEPS = 5
CASES = {
    "fixed": dict(lr=0.1),
    "fixed history": dict(lr=0.2, history_size=3, max_iter=7, tolerance_change=1e-12),
    "wolfe": dict(lr=1, line_search_fn="strong_wolfe", max_iter=5),
    "wolfe history": dict(lr=0.5, line_search_fn="strong_wolfe", history_size=2, max_iter=6, max_eval=9),
    "wolfe long": dict(lr=4, line_search_fn="strong_wolfe", max_iter=4),
    "wolfe few": dict(lr=1, line_search_fn="strong_wolfe", max_iter=8, max_eval=3),
}


def waves(*shape, frequency):
    count = torch.Size(shape).numel()
    return torch.sin(frequency * torch.arange(1, count + 1, dtype=torch.float64)).reshape(shape)


def rosenbrock():
    p = torch.nn.Parameter(torch.tensor([-1.5, 2.0]))
    return [p], lambda: (1 - p[0]) ** 2 + 10 * (p[1] - p[0] ** 2) ** 2


def network():
    w, b, v = (torch.nn.Parameter(t) for t in (waves(5, 3, frequency=1.7), waves(5, frequency=2.3), waves(1, 5, frequency=3.1)))
    x, y = waves(8, 3, frequency=0.9), waves(8, 1, frequency=0.7)
    return [w, b, v], lambda: ((torch.tanh(x @ w.T + b) @ v.T - y) ** 2).mean()


def run(problem, settings):
    parameters, loss_of = problem()
    optimizer = torch.optim.LBFGS(parameters, **settings)

    def closure():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    steps = []
    for _ in range(STEPS):
        loss = optimizer.step(closure)
        state = optimizer.state[parameters[0]]
        steps.append({"loss": loss.item(), "iterations": state["n_iter"], "evaluations": state["func_evals"],
                      "p": torch.cat([p.detach().flatten() for p in parameters]).tolist()})
    return steps


golden = {f"{problem.__name__} {name}": run(problem, settings) for problem in (rosenbrock, network)
          for name, settings in CASES.items()}
with open("tests/golden/lbfgs.json", "w") as f:
    json.dump({"made_by": "torch " + torch.__version__, "steps": golden}, f, indent=1)
    f.write("\n")
