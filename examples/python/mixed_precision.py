#!/usr/bin/env python3
"""../mixed_precision.c in Python: the same network in f32, in bf16 and in f16, whose loss is scaled. mixed_precision.py
[DEVICE]"""

import sys
from contextlib import nullcontext

import haul
from haul import nn, optim

haul.set_device(sys.argv[1] if len(sys.argv) > 1 else "auto")
for dtype in ("f32", "bf16", "f16"):
    haul.manual_seed(1)  # the same weights each time
    net = nn.sequential(nn.linear(10, 16), nn.relu(), nn.linear(16, 1))
    sgd = optim.sgd(net, 0.1, momentum=0.9)
    loader = haul.data.loader(haul.data.blobs(640, seed=3), batch=32, shuffle=True)
    scaler = optim.grad_scaler(sgd) if dtype == "f16" else None
    for epoch in range(10):
        total = haul.zeros(())
        for batch in loader:
            with haul.budget(waits=0):  # nothing is copied, and no step waits, not even to learn whether it is skipped
                sgd.zero_grad()
                with haul.autocast(dtype) if dtype != "f32" else nullcontext():
                    loss = haul.bce_with_logits(net(batch.x), batch.y)
                if scaler:
                    scaler.scale(loss).backward()
                    scaler.unscale(sgd)  # so that the gradients can be clipped
                    haul.clip_grad_norm(net, 1)
                    scaler.step(sgd)
                    scaler.update()
                else:
                    loss.backward()
                    haul.clip_grad_norm(net, 1)
                    sgd.step()
                total += loss.detach()
    print(f"{dtype:4}  loss {total.item() / len(loader):.3f}", end="")
    print(f", {sgd.steps()} steps with the loss times {scaler.factor():.0f}" if scaler else "")
