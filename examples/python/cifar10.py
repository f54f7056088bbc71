#!/usr/bin/env python3
# ctest: labels=slow
"""../cifar10.c in Python: cifar10.py [DIRECTORY [EPOCHS [DEVICE]]]; without a directory, or with -, on generated shapes."""
import sys

import haul
from haul import nn, optim

directory, epochs, device = sys.argv[1:] + ["-", "3", "auto"][len(sys.argv) - 1:]
haul.set_device(device)
haul.manual_seed(1)
net = nn.sequential(nn.conv2d(3, 6, 5), nn.relu(), nn.max_pool2d(2), nn.conv2d(6, 16, 5), nn.relu(), nn.max_pool2d(2),
                    nn.flatten(1), nn.linear(400, 120), nn.relu(), nn.linear(120, 84), nn.relu(), nn.linear(84, 10))
sgd = optim.sgd(net, 0.01, momentum=0.9)
data = haul.data.shapes(12800, seed=1) if directory == "-" else haul.data.cifar10(directory)
loader = haul.data.loader(haul.data.map(data, haul.data.normalise("x")), batch=64, shuffle=True, workers=2)
for epoch in range(1, int(epochs) + 1):
    running = haul.zeros(())
    for batch in loader:
        with haul.budget(waits=0):  # nothing is copied: the loader has put the batch on the device
            sgd.zero_grad()
            loss = haul.cross_entropy(net(batch.x), batch.y)
            loss.backward()
            sgd.step()
            running += loss.detach()
        if batch.index % 100 == 99:
            print(f"[Epoch: {epoch}, Mini-batch: {batch.index + 1}] loss: {running.item() / 100:.3f}")
            running = haul.zeros(())
