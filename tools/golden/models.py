#!/usr/bin/python3
"""Makes tests/golden/models.json from torchvision's networks: for each its parameters' number, the names and shapes of
its tensors, logits in evaluation and the losses of the first steps of SGD. Weights and pictures follow a formula, which
tests/train/test_golden_models.c repeats. Run from the top of the tree with torch and torchvision."""
import json
import math

import numpy
import torch
import torchvision
from torchvision.models.vision_transformer import VisionTransformer

CLASSES, BATCH, STEPS, RATE = 10, 4, 3, 0.01
MODELS = {
    "resnet18_imagenet": (lambda: torchvision.models.resnet18(num_classes=CLASSES), 64),
    "resnet50": (lambda: torchvision.models.resnet50(num_classes=CLASSES), 64),
    "mobilenet_v2": (lambda: torchvision.models.mobilenet_v2(num_classes=CLASSES), 64),
    "vit_tiny": (lambda: VisionTransformer(32, 4, 12, 3, 192, 768, num_classes=CLASSES), 32),
}


def uniform(number, count):
    """Numbers from -1 to 1, the same for the same tensor's number."""
    mask = 0xffffffff
    h = (numpy.arange(count, dtype=numpy.uint64) * 2654435761 + number * 40503 + 12345) & mask
    h ^= h >> 16
    h = h * 2246822519 & mask
    h ^= h >> 13
    h = h * 3266489917 & mask
    h ^= h >> 16
    return h.astype(numpy.float64) / 2**31 - 1


def value(number, name, shape):
    u = uniform(number, math.prod(shape))
    if len(shape) > 1:
        u = u * math.sqrt(3 / math.prod(shape[1:]))
    elif name.endswith("running_var"):
        u = 1 + 0.5 * u
    elif name.endswith("weight"):
        u = 1 + 0.1 * u
    else:
        u = 0.1 * u
    return torch.from_numpy(u.astype(numpy.float32).reshape(shape))


def golden(make, side):
    net = make().double()
    state = {name: t for name, t in net.state_dict().items() if not name.endswith("num_batches_tracked")}
    net.load_state_dict({name: value(i, name, tuple(t.shape)) for i, (name, t) in enumerate(state.items())}, strict=False)
    x = torch.from_numpy(uniform(1000, BATCH * 3 * side * side).reshape(BATCH, 3, side, side)).float().double()
    y = torch.arange(BATCH) * 3 % CLASSES
    net.eval()
    logits = net(x).detach()
    net.train()
    for m in net.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0
    sgd, losses = torch.optim.SGD(net.parameters(), RATE), []
    for _ in range(STEPS):
        sgd.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return {"side": side, "parameters": sum(p.numel() for p in net.parameters()),
            "tensors": [[name, list(t.shape)] for name, t in state.items()],
            "logits": [float(f"{v:.9g}") for v in logits.flatten()], "losses": losses}


if __name__ == "__main__":
    torch.manual_seed(0)
    text = ",\n".join(f"{json.dumps(name)}:{json.dumps(golden(*m), separators=(',', ':'))}" for name, m in MODELS.items())
    with open("tests/golden/models.json", "w", encoding="ascii") as f:
        f.write("{" + text + "}\n")
