#!/usr/bin/python3
"""Makes tests/golden/models.json from networks of torchvision and PyTorch: for each its parameters' number, the names and
shapes of its tensors, logits in evaluation and the losses of the first steps of SGD. Weights and pictures follow a formula,
which tests/train/test_golden_models.c repeats. Run from the top of the tree with torch and torchvision."""
import json
import math
from collections import OrderedDict

import numpy
import torch
import torchvision
from torch import nn
from torchvision.models.vision_transformer import VisionTransformer

CLASSES, BATCH, STEPS, RATE = 10, 4, 3, 0.01


def small_resnet18():
    """The variant for small pictures."""
    net = torchvision.models.resnet18(num_classes=CLASSES)
    net.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    net.maxpool = nn.Identity()
    return net


def dense_layers(*widths):
    net = nn.Sequential(OrderedDict(flatten=nn.Flatten()))
    for i in range(1, len(widths)):
        net.add_module(f"fc{i}", nn.Linear(widths[i - 1], widths[i]))
        if i < len(widths) - 1:
            net.add_module(f"relu{i}", nn.ReLU())
    return net


class UNet(nn.Module):
    def __init__(self):
        def block(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
                                 nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())

        super().__init__()
        self.down1, self.down2, self.middle = block(3, 8), block(8, 16), block(16, 32)
        self.up2, self.join2 = nn.ConvTranspose2d(32, 16, 2, 2), block(32, 16)
        self.up1, self.join1 = nn.ConvTranspose2d(16, 8, 2, 2), block(16, 8)
        self.out = nn.Conv2d(8, CLASSES, 1)

    def forward(self, x):
        half = nn.functional.max_pool2d
        fine = self.down1(x)
        coarse = self.down2(half(fine, 2))
        x = self.middle(half(coarse, 2))
        x = self.join2(torch.cat([self.up2(x), coarse], 1))
        return self.out(self.join1(torch.cat([self.up1(x), fine], 1)))


MODELS = {
    "dense": (lambda: dense_layers(3 * 8 * 8, 16, CLASSES), 8),
    "mlp": (lambda: dense_layers(3 * 8 * 8, 256, 128, CLASSES), 8),
    "unet": (UNet, 8),
    "resnet18": (small_resnet18, 16),
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
    net.eval()
    logits = net(x).detach()
    answers = (BATCH, *logits.shape[2:])
    y = (torch.arange(math.prod(answers)) * 3 % CLASSES).reshape(answers)
    net.train()
    for m in net.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0
    sgd, losses = torch.optim.SGD(net.parameters(), RATE), []
    for _ in range(STEPS):
        sgd.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
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
