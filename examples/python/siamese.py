#!/usr/bin/env python3
"""../siamese.c in Python: embeddings of signs by the triplet loss, also of signs that training never saw. siamese.py [DEVICE]"""

import sys

import haul
from haul import nn, optim

haul.set_device(sys.argv[1] if len(sys.argv) > 1 else "auto")
haul.manual_seed(1)
SIZE, SIGNS, KNOWN, BATCH, STEPS = 8, 250, 200, 64, 400
signs = haul.randint((SIGNS, SIZE, SIZE), 0, 2).cast("f32")
net = nn.sequential(nn.linear(SIZE * SIZE, 64), nn.relu(), nn.linear(64, 32))
adam = optim.adam(net, 0.003)


def example(kinds):
    """Signs of these kinds with noise, on paper that becomes darker to one side: [n, SIZE * SIZE]."""
    shade = haul.linspace(-1, 1, SIZE) * haul.uniform((len(kinds), 1, 1), -4, 4)
    noise = haul.uniform((len(kinds), SIZE, SIZE), -0.7, 0.7)
    return (signs[kinds] + shade + noise).reshape(len(kinds), SIZE * SIZE)


def nearest(net):
    """The share of signs, none of which training saw, whose nearest one is another example of the same sign."""
    kinds = haul.arange(KNOWN, SIGNS)
    shown, asked = net(example(kinds)), net(example(kinds))
    return (haul.argmin(haul.cdist(asked, shown), 1) + KNOWN == kinds).cast("f32").mean().item()


print(f"unknown signs recognised: {100 * nearest(nn.identity()):.0f} % by their pixels")
for step in range(1, STEPS + 1):
    with haul.budget(d2h_bytes=4, waits=1):  # the loss
        kinds = haul.randint(BATCH, 0, KNOWN)
        others = (kinds + haul.randint(BATCH, 1, KNOWN)) % KNOWN
        anchor, positive = net(example(kinds)), net(example(kinds))
        loss = haul.triplet_margin_loss(anchor, positive, net(example(others)))
        adam.zero_grad()
        optim.train_step(adam, loss)
        if step in (1, STEPS):
            print(f"step {step}: loss {loss.item():.3f}")
print(f"unknown signs recognised: {100 * nearest(net):.0f} % by their embeddings")
