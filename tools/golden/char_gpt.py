#!/usr/bin/python3
"""Makes the golden run of examples/char_gpt.c: its PyTorch version, trained for 50 steps on tests/golden/char_gpt.txt.
Writes the initial weights to tests/golden/char_gpt.safetensors and the losses to tests/golden/char_gpt.json. Run from
the top of the tree with Debian's python3-torch."""
import json
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

FEATURES, HEADS, LAYERS, CONTEXT, BATCH, CHARACTERS = 32, 4, 2, 32, 8, 128


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(FEATURES)
        self.attention = nn.MultiheadAttention(FEATURES, HEADS, batch_first=True)
        self.norm2 = nn.LayerNorm(FEATURES)
        self.up = nn.Linear(FEATURES, 4 * FEATURES)
        self.down = nn.Linear(4 * FEATURES, FEATURES)

    def forward(self, x):
        h, later = self.norm1(x), torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + self.attention(h, h, h, attn_mask=later, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(CHARACTERS, FEATURES)
        self.position = nn.Parameter(torch.normal(0, 0.02, (CONTEXT, FEATURES)))
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(FEATURES)
        self.head = nn.Linear(FEATURES, CHARACTERS, bias=False)
        nn.init.normal_(self.token.weight, 0, 0.02)
        self.head.weight = self.token.weight  # tied

    def forward(self, tokens):
        x = self.token(tokens) + self.position[:tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def batch_of(text, step):
    starts = [(step * BATCH + i) * 37 % (len(text) - CONTEXT - 1) for i in range(BATCH)]
    return (torch.stack([text[s:s + CONTEXT] for s in starts]),
            torch.stack([text[s + 1:s + CONTEXT + 1] for s in starts]))


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


def main():
    torch.manual_seed(1)
    with open("tests/golden/char_gpt.txt", "rb") as f:
        text = torch.tensor(list(f.read()))
    net = GPT()
    save_safetensors("tests/golden/char_gpt.safetensors", net.state_dict())
    adamw = torch.optim.AdamW(net.parameters(), 3e-3)
    losses = []
    for step in range(50):
        x, y = batch_of(text, step)
        loss = F.cross_entropy(net(x).reshape(-1, CHARACTERS), y.reshape(-1))
        adamw.zero_grad()
        loss.backward()
        adamw.step()
        losses.append(loss.item())
    with open("tests/golden/char_gpt.json", "w", encoding="ascii") as f:
        json.dump({"made_by": f"tools/golden/char_gpt.py, PyTorch {torch.__version__}", "losses": losses}, f, indent=0)
        f.write("\n")


main()
