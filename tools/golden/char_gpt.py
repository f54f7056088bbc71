#!/usr/bin/python3
"""Makes a golden training run of a small transformer over characters (written with Debian's python3-torch 1.13.1).

The network has 2 blocks with layer normalisation in front (attention of 4 heads with a causal mask, and a layer of 256
with gelu), width 64, a context of 32, learned positions, and an output that shares the weight of the embedding. It is
trained on tests/golden/char_gpt.txt by AdamW, lr 0.001. Writes
    tests/golden/char_gpt.safetensors    the initial weights, in f16, which represents them exactly
    tests/golden/char_gpt.json           the vocabulary, where each example of each batch begins, and 50 losses in f32
                                         and in f64
Character i of an example is predicted from those before it: x is text[start : start + 32], y is the same one further.
Run from the top of the tree."""
import json
import struct

import torch
import torch.nn.functional as F
from torch import nn

BATCH, CONTEXT, WIDTH, HEADS, BLOCKS, STEPS = 8, 32, 64, 4, 2, 50
VOCABULARY = "\n !',-.:;?0123" + "".join(chr(c) for c in range(ord("A"), ord("Z"))) + "".join(
    chr(c) for c in range(ord("a"), ord("z") + 1))  # without Z: 65 of them


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.fc1 = nn.Linear(WIDTH, 4 * WIDTH)
        self.fc2 = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class CharGpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(len(VOCABULARY), WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        length = x.shape[1]
        mask = torch.ones(length, length).triu(1).bool()  # true where a position may not look
        h = self.token(x) + self.position(torch.arange(length))
        for block in self.blocks:
            h = block(h, mask)
        return F.linear(self.norm(h), self.token.weight)


def initial_state():
    """Normal values with a deviation of 0.02; biases and layer normalisation as PyTorch makes them; all rounded to f16."""
    torch.manual_seed(1)
    return {name: (torch.randn(t.shape) * 0.02).half() if t.ndim > 1 else t.detach().half()
            for name, t in CharGpt().state_dict().items()}


def save_safetensors(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        raw = t.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F16", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def train(state, text, starts, dtype):
    net = CharGpt().to(dtype)
    net.load_state_dict(state)
    adam = torch.optim.AdamW(net.parameters(), lr=0.001)
    losses = []
    for batch in starts:
        x = torch.stack([text[s:s + CONTEXT] for s in batch])
        y = torch.stack([text[s + 1:s + 1 + CONTEXT] for s in batch])
        adam.zero_grad()
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def main():
    assert len(VOCABULARY) == 65
    with open("tests/golden/char_gpt.txt", encoding="ascii") as f:
        text = torch.tensor([VOCABULARY.index(c) for c in f.read()])
    starts = [[(step * BATCH + i) * 97 % (len(text) - CONTEXT) for i in range(BATCH)] for step in range(STEPS)]
    state = initial_state()
    save_safetensors("tests/golden/char_gpt.safetensors", state)
    golden = {
        "made_by": "tools/golden/char_gpt.py, PyTorch " + torch.__version__,
        "vocabulary": VOCABULARY,
        "starts": starts,
        "losses": train(state, text, starts, torch.float32),
        "losses_f64": train(state, text, starts, torch.float64),
    }
    with open("tests/golden/char_gpt.json", "w", encoding="ascii") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in golden.items()) + "\n}\n")


main()
