#!/usr/bin/python3
"""Makes the golden training run that tests/train/test_golden_training.c follows.

    tools/golden/simplecnn.py DATA_DIR

trains the small CIFAR-10 network with PyTorch (written with Debian's python3-torch 1.13.1) from fixed initial weights, on
the pictures of DATA_DIR/cifar-10-batches-bin/data_batch_1.bin in file order, batch 64, momentum 0.9, and writes
    tests/golden/simplecnn.safetensors    the initial weights
    tests/golden/simplecnn.json           the losses: 200 batches with lr 0.001, and 100 with lr 0.01
together with the checksum of the data. Run from the top of the tree."""
import json
import struct
import sys
import zlib

import torch
import torch.nn.functional as F

BATCH, RECORD = 64, 3073


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 6, 5)
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.fc1 = torch.nn.Linear(400, 120)
        self.fc2 = torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc3(F.relu(self.fc2(x)))


def save_safetensors(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        raw = t.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def batches(path, count):
    with open(path, "rb") as f:
        raw = f.read()
    for i in range(count):
        start = i * BATCH % (10000 // BATCH * BATCH)  # whole batches, again and again
        records = torch.frombuffer(bytearray(raw[start * RECORD:(start + BATCH) * RECORD]), dtype=torch.uint8)
        records = records.reshape(BATCH, RECORD)
        x = records[:, 1:].reshape(BATCH, 3, 32, 32).float().div(255).sub(0.5).div(0.5)
        yield x, records[:, 0].long()


def train(state, path, lr, steps):
    net = Net()
    net.load_state_dict(state)
    sgd = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    losses = []
    for x, y in batches(path, steps):
        sgd.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return losses


def main():
    path = sys.argv[1] + "/cifar-10-batches-bin/data_batch_1.bin"
    torch.manual_seed(1)
    torch.set_num_threads(2)
    state = {k: v.clone() for k, v in Net().state_dict().items()}
    save_safetensors("tests/golden/simplecnn.safetensors", state)
    golden = {
        "made_by": "tools/golden/simplecnn.py, PyTorch " + torch.__version__,
        "data_crc32": zlib.crc32(open(path, "rb").read()),
        "lr_0.001": train(state, path, 0.001, 200),
        "lr_0.01": train(state, path, 0.01, 100),
    }
    with open("tests/golden/simplecnn.json", "w") as f:
        json.dump(golden, f, indent=0)
        f.write("\n")


main()
