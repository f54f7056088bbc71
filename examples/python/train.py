#!/usr/bin/env python3
"""../train.c in Python: a network that separates two clouds of points."""

import haul
from haul import nn, optim

haul.manual_seed(1)
net = nn.sequential(nn.linear(10, 16, relu=True), nn.linear(16, 1))
optimizer = optim.adam(net, 0.01, betas=(0.9, 0.99))
loader = haul.data.loader(haul.data.blobs(1024, seed=1), batch=64, shuffle=True)
for epoch in range(1, 6):
    total = 0.0
    for batch in loader:
        with haul.budget(d2h_bytes=4, waits=1):  # the loss
            optimizer.zero_grad()
            loss = haul.bce_with_logits(net(batch.x), batch.y)
            loss.backward()
            optimizer.step()
            total += loss.item()
    print(f"epoch {epoch}: loss {total / len(loader):.6f}")
