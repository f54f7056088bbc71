#!/usr/bin/env python3
"""../recording.c in Python: training steps that are recorded once and then followed. recording.py [DEVICE]"""

import sys

import haul
from haul import optim

device = sys.argv[1] if len(sys.argv) > 1 else "auto"
haul.manual_seed(1)
net = haul.model_new("dense")
haul.set_device(device)
net.to(device)
sgd = optim.sgd(net, 0.05, momentum=0.9)
total = haul.zeros(())
loader = haul.data.loader(haul.data.blobs(500, seed=1), batch=24, shuffle=True, device=device)


def step():
    loss = haul.bce_with_logits(net(batch.x), batch.y)
    loss.backward()
    sgd.step()
    total[...] = total + loss.detach()
    sgd.zero_grad()


run = haul.recording(step)
for epoch in range(1, 6):
    total[...] = 0
    for batch in loader:
        with haul.budget(waits=0):  # nothing is copied: the loader has put the batch on the device
            run()
    print(f"epoch {epoch}: loss {total.item() / len(loader):.4f}")
report = run.report()
print(f"{report['followed']} steps followed, {report['eager']} not; {report['variants']} forms of the step, "
      "because the last batch is smaller")
